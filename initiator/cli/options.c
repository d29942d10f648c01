/* SPDX-License-Identifier: BSD-3-Clause */
/* Options, usage texts, messages. Names and letters follow nvme-cli; see the README for the
 * exceptions. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "util/parse.h"
#include "util/utf8.h"

#define CLI_MESSAGE 4096 /* bytes; a longer one is cut */

enum {
	OPT_TRSVCID = 256,
	OPT_START_BLOCK,
	OPT_CONNECT_TIMEOUT,
	OPT_TIMEOUT,
	OPT_CRC,
	OPT_PROVIDER,
	OPT_MPA_REVISION,
	OPT_NO_P2P,
	OPT_NO_REMOTE_INV,
	OPT_CONGESTION,
	OPT_SEND_BUFFER,
	OPT_RECEIVE_BUFFER,
	OPT_OFFSET,
	OPT_NO_PROGRESS,
	OPT_NO_FLUSH,
	OPT_OPCODE,
	OPT_FLAGS,
	OPT_PREFILL,
	OPT_DATA_LEN,
	OPT_INPUT_FILE,
	OPT_RAW_BINARY,
	OPT_SHOW_COMMAND,
	OPT_DRY_RUN,
	OPT_READ,
	OPT_WRITE,
	OPT_RW,
	OPT_READ_PERCENT,
	OPT_DATALOSS,
	OPT_BLOCK_SIZE,
	OPT_DEPTH,
	OPT_QUEUES,
	OPT_THREADS,
	OPT_CPUS,
	OPT_POLL,
	OPT_RUN_TIME,
	OPT_RAMP_TIME,
	OPT_IO_COUNT,
	OPT_SEED,
	OPT_CDW0, /* and CLI_CDWS values from here */
};

/* An option: its letter where it has one, the verbs that take it (0: all), its help. */
struct opt_def {
	const char *name;
	int val;
	bool arg;
	unsigned int takes;
	const char *help;
};

static const struct opt_def defs[] = {
	{"transport", 't', true, 0, "TYPE  only rdma is supported"},
	{"traddr", 'a', true, 0, "HOST  address or name of the target"},
	{"trsvcid", OPT_TRSVCID, true, 0, "PORT  its port (default 4420)"},
	{"nqn", 'n', true, 0, "NQN  the subsystem"},
	{"hostnqn", 'q', true, 0, "NQN  our host NQN (default: /etc/nvme/hostnqn, or derived)"},
	{"hostid", 'I', true, 0,
	 "UUID  our host identifier (default: /etc/nvme/hostid, or derived)"},
	{"host-traddr", 'w', true, 0, "ADDR  local address to connect from"},
	{"nr-io-queues", 'i', true, 0,
	 "N  I/O queues (default 1; read and write: 2; bench: as many as --threads)"},
	{"queue-size", 'Q', true, 0, "N  entries of each I/O queue (default 128)"},
	{"keep-alive-tmo", 'k', true, 0, "SECONDS  keep-alive timeout (default 5; 0: none)"},
	{"timeout", OPT_TIMEOUT, true, 0,
	 "MS  for each command but Connect, or with a unit (default 60s admin, 30s I/O)"},
	{"connect-timeout", OPT_CONNECT_TIMEOUT, true, 0,
	 "MS  for each connection and its Connect command (default 10s)"},
	{"provider", OPT_PROVIDER, true, 0, "NAME  auto, iwarp or verbs"},
	{"crc", OPT_CRC, false, 0, "  iwarp: ask for CRC32C"},
	{"mpa-revision", OPT_MPA_REVISION, true, 0, "1|2  iwarp: handshake (default 2)"},
	{"no-p2p", OPT_NO_P2P, false, 0, "  iwarp: do not offer the peer-to-peer model"},
	{"no-remote-invalidate", OPT_NO_REMOTE_INV, false, 0,
	 "  do not ask the target to invalidate keys (for targets that get it wrong)"},
	{"congestion", OPT_CONGESTION, true, 0, "NAME  iwarp: TCP congestion control"},
	{"send-buffer", OPT_SEND_BUFFER, true, 0, "SIZE  iwarp: of each socket"},
	{"receive-buffer", OPT_RECEIVE_BUFFER, true, 0, "SIZE  iwarp: of each socket"},
	{"namespace-id", 'N', true, CLI_TAKES_NSID,
	 "NSID  the namespace (default: the URI's, else 1)"},
	{"start-block", OPT_START_BLOCK, true, CLI_TAKES_TRANSFER | CLI_TAKES_BENCH,
	 "LBA  first block (default 0)"},
	{"offset", OPT_OFFSET, true, CLI_TAKES_BENCH,
	 "BYTES  first byte, instead of --start-block"},
	{"offset", OPT_OFFSET, true, CLI_TAKES_TRANSFER,
	 "BYTES  first byte, instead of --start-block; need not be a multiple of the block"},
	{"block-count", 'c', true, CLI_TAKES_TRANSFER, "N  blocks, 0's based as in nvme-cli"},
	{"data-size", 'z', true, CLI_TAKES_TRANSFER,
	 "BYTES  how much (default: the whole input, or to the end of the namespace)"},
	{"data-size", 'z', true, CLI_TAKES_BENCH,
	 "BYTES  how much of the namespace to use (default: to its end)"},
	{"data", 'd', true, CLI_TAKES_TRANSFER, "FILE  - or none: standard input or output"},
	{"force-unit-access", 'f', false, CLI_TAKES_TRANSFER,
	 "  commands complete when data is on the media"},
	{"fua", 'f', false, CLI_TAKES_TRANSFER, "  the same"},
	{"no-progress", OPT_NO_PROGRESS, false, CLI_TAKES_TRANSFER | CLI_TAKES_BENCH,
	 "  no progress bar"},
	{"no-flush", OPT_NO_FLUSH, false, CLI_TAKES_WRITE, "  do not flush at the end"},
	{"rw", OPT_RW, true, CLI_TAKES_BENCH,
	 "MODE  read, write, rw, randread (default), randwrite or randrw"},
	{"read-percent", OPT_READ_PERCENT, true, CLI_TAKES_BENCH,
	 "N  how many of 100 I/Os are reads, in rw and randrw (default 50)"},
	{"dataloss", OPT_DATALOSS, false, CLI_TAKES_BENCH, "  allow modes that write"},
	{"block-size", OPT_BLOCK_SIZE, true, CLI_TAKES_BENCH, "BYTES  of one I/O (default 4k)"},
	{"depth", OPT_DEPTH, true, CLI_TAKES_BENCH, "N  I/Os in flight on each queue (default 32)"},
	{"queues", OPT_QUEUES, true, CLI_TAKES_BENCH, "N  the same as --nr-io-queues"},
	{"threads", OPT_THREADS, true, CLI_TAKES_BENCH,
	 "N  threads that share the queues out (default 1)"},
	{"cpus", OPT_CPUS, true, CLI_TAKES_BENCH, "LIST  a CPU for each thread, in turn (0,2-3)"},
	{"poll", OPT_POLL, true, CLI_TAKES_BENCH,
	 "WHEN  always (default), never (sleep), or how long before sleeping (50us)"},
	{"run-time", OPT_RUN_TIME, true, CLI_TAKES_BENCH, "TIME  to measure (default 10s)"},
	{"ramp-time", OPT_RAMP_TIME, true, CLI_TAKES_BENCH,
	 "TIME  of load before that, not measured (default 0)"},
	{"io-count", OPT_IO_COUNT, true, CLI_TAKES_BENCH, "N  I/Os in all, instead of a time"},
	{"seed", OPT_SEED, true, CLI_TAKES_BENCH, "N  of positions and data (default 1)"},
	{"opcode", OPT_OPCODE, true, CLI_TAKES_PASSTHRU, "N  opcode of the command; required"},
	{"flags", OPT_FLAGS, true, CLI_TAKES_PASSTHRU, "N  byte 1: FUSE; PSDT is set to SGL"},
	{"cdw2", OPT_CDW0 + 2, true, CLI_TAKES_PASSTHRU, "N  command dword 2"},
	{"cdw3", OPT_CDW0 + 3, true, CLI_TAKES_PASSTHRU, "N  command dword 3"},
	{"cdw10", OPT_CDW0 + 10, true, CLI_TAKES_PASSTHRU, "N  command dword 10"},
	{"cdw11", OPT_CDW0 + 11, true, CLI_TAKES_PASSTHRU, "N  command dword 11"},
	{"cdw12", OPT_CDW0 + 12, true, CLI_TAKES_PASSTHRU, "N  command dword 12"},
	{"cdw13", OPT_CDW0 + 13, true, CLI_TAKES_PASSTHRU, "N  command dword 13"},
	{"cdw14", OPT_CDW0 + 14, true, CLI_TAKES_PASSTHRU, "N  command dword 14"},
	{"cdw15", OPT_CDW0 + 15, true, CLI_TAKES_PASSTHRU, "N  command dword 15"},
	{"data-len", OPT_DATA_LEN, true, CLI_TAKES_PASSTHRU, "BYTES  of data (default 0: none)"},
	{"input-file", OPT_INPUT_FILE, true, CLI_TAKES_PASSTHRU,
	 "FILE  with --write the data's source (default: standard input), with --read where it "
	 "goes"},
	{"read", OPT_READ, false, CLI_TAKES_PASSTHRU, "  the data comes from the controller"},
	{"write", OPT_WRITE, false, CLI_TAKES_PASSTHRU, "  the data goes to the controller"},
	{"prefill", OPT_PREFILL, true, CLI_TAKES_PASSTHRU,
	 "N  byte that the buffer of --read holds before (default 0)"},
	{"raw-binary", OPT_RAW_BINARY, false, CLI_TAKES_PASSTHRU,
	 "  print the data as it is, and nothing else"},
	{"show-command", OPT_SHOW_COMMAND, false, CLI_TAKES_PASSTHRU, "  print the command first"},
	{"dry-run", OPT_DRY_RUN, false, CLI_TAKES_PASSTHRU, "  print the command, do not send it"},
	{"output-format", 'o', true, 0, "FORMAT  normal or json"},
	{"verbose", 'v', false, 0, "  say more; twice: trace the library"},
	{"help", 'h', false, 0, "  this text"},
};

#define N_DEFS (sizeof(defs) / sizeof(defs[0]))

static bool taken(const struct cli_verb *verb, const struct opt_def *def)
{
	return def->takes == 0 || (def->takes & verb->takes);
}

/* -s is the port for the fabrics verbs and the start block for read and write. */
static char letter(const struct cli_verb *verb, const struct opt_def *def)
{
	/* Those of nvme-cli that mean nothing else here. */
	static const struct {
		int val;
		char c;
	} others[] = {
		{OPT_FLAGS, 'f'},      {OPT_DATA_LEN, 'l'},   {OPT_READ, 'r'},
		{OPT_RAW_BINARY, 'b'}, {OPT_PREFILL, 'p'},    {OPT_CDW0 + 2, '2'},
		{OPT_CDW0 + 3, '3'},   {OPT_CDW0 + 10, '4'},  {OPT_CDW0 + 11, '5'},
		{OPT_CDW0 + 12, '6'},  {OPT_CDW0 + 13, '7'},  {OPT_CDW0 + 14, '8'},
		{OPT_CDW0 + 15, '9'},  {OPT_BLOCK_SIZE, 'b'},
	};
	size_t i;

	if (def->val < 256)
		return (char)def->val;
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (others[i].val == def->val)
			return others[i].c;
	}
	if (def->val == (verb->takes & CLI_TAKES_TRANSFER ? OPT_START_BLOCK : OPT_TRSVCID))
		return 's';
	return 0;
}

static void help(const struct cli_verb *verb)
{
	size_t i;

	printf("Usage: rdinit %s [URI] [OPTION...]\n%s.\n\n"
	       "  URI  nvme+rdma://HOST[:PORT]/SUBNQN%s\n\n",
	       verb->name, verb->summary, verb->takes & CLI_TAKES_NSID ? "[/NSID]" : "");
	for (i = 0; i < N_DEFS; i++) {
		const char *text = defs[i].help, *gap = strstr(text, "  ");
		char c = letter(verb, &defs[i]);
		char left[64];

		if (!taken(verb, &defs[i]))
			continue;
		snprintf(left, sizeof(left), "--%s%s%.*s", defs[i].name, defs[i].arg ? "=" : "",
			 (int)(gap - text), text);
		printf("  %c%c%c %-28s %s\n", c ? '-' : ' ', c ? c : ' ', c ? ',' : ' ', left,
		       gap + 2);
	}
}

/* ---- messages ---- */

static void say(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));

/* One line, whatever is in the names and texts that it is made of. */
static void say(const char *fmt, va_list ap)
{
	char text[CLI_MESSAGE];
	int n = vsnprintf(text, sizeof(text), fmt, ap);

	if (n < 0)
		return;
	rd_mask_control(text, strlen(text));
	fprintf(stderr, "rdinit: %s%s\n", text, (size_t)n < sizeof(text) ? "" : "...");
}

int cli_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	return CLI_FAILED;
}

int cli_usage_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	return CLI_USAGE;
}

const char *cli_lib_text(void)
{
	const char *text = rdinit_get_error(), *colon = strstr(text, ": ");

	/* The function that failed helps a programmer, not a user of this program. */
	return strncmp(text, "rdinit_", 7) == 0 && colon ? colon + 2 : text;
}

int cli_lib_error(void)
{
	return cli_error("%s", cli_lib_text());
}

int cli_finish_output(void)
{
	if (fflush(stdout) || ferror(stdout))
		return cli_error("standard output: %s", strerror(errno ? errno : EIO));
	return CLI_OK;
}

int cli_print_json(json_t *json, FILE *out)
{
	int rc = json ? json_dumpf(json, out, JSON_INDENT(2)) : -1;

	json_decref(json);
	if (rc || fputc('\n', out) == EOF || fflush(out))
		return cli_error("cannot write the output: %s", strerror(errno ? errno : ENOMEM));
	return CLI_OK;
}

/* ---- values ---- */

static bool get_u64(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	int rc = rd_parse_u64(text, min, max, out);

	if (rc == -ERANGE)
		cli_error("--%s: %s is not from %llu to %llu", name, text, (unsigned long long)min,
			  (unsigned long long)max);
	else if (rc)
		cli_error("--%s: \"%s\" is not a number", name, text);
	return rc == 0;
}

static bool get_u32(const char *name, const char *text, uint64_t min, uint64_t max, uint32_t *out)
{
	uint64_t v;

	if (!get_u64(name, text, min, max, &v))
		return false;
	*out = (uint32_t)v;
	return true;
}

static bool get_u16(const char *name, const char *text, uint64_t min, uint64_t max, uint16_t *out)
{
	uint64_t v;

	if (!get_u64(name, text, min, max, &v))
		return false;
	*out = (uint16_t)v;
	return true;
}

static bool get_size(const char *name, const char *text, uint64_t *out)
{
	int rc = rd_parse_size(text, out);

	if (rc)
		cli_error("--%s: \"%s\" is not a size (4096, 4k, 1.5GiB)", name, text);
	return rc == 0;
}

static bool get_buffer(const char *name, const char *text, uint32_t *out)
{
	uint64_t v;

	if (!get_size(name, text, &v))
		return false;
	if (v > 1u << 30) {
		cli_error("--%s: \"%s\" is more than 1GiB", name, text);
		return false;
	}
	*out = (uint32_t)v;
	return true;
}

/* Milliseconds as nvme-cli has them, or a duration with its unit. */
static bool get_ms(const char *name, const char *text, uint32_t *out)
{
	uint64_t v;

	if (rd_parse_u64(text, 1, UINT32_MAX, &v) == 0) {
		*out = (uint32_t)v;
		return true;
	}
	if (rd_parse_duration(text, &v) == 0 && v >= 1000000 && v / 1000000 <= UINT32_MAX) {
		*out = (uint32_t)(v / 1000000);
		return true;
	}
	cli_error("--%s: \"%s\" is not a time of at least 1 ms (500, 500ms, 5s)", name, text);
	return false;
}

static bool get_format(const char *text, enum cli_format *out)
{
	if (strcmp(text, "normal") == 0)
		*out = CLI_NORMAL;
	else if (strcmp(text, "json") == 0)
		*out = CLI_JSON;
	else
		return cli_error("--output-format: \"%s\" is neither normal nor json", text), false;
	return true;
}

/* ---- parsing ---- */

static bool get_u8(const char *name, const char *text, uint8_t *out)
{
	uint64_t v;

	if (!get_u64(name, text, 0, UINT8_MAX, &v))
		return false;
	*out = (uint8_t)v;
	return true;
}

static bool take_passthru(struct cli_options *o, const struct opt_def *def, const char *arg)
{
	switch (def->val) {
	case OPT_OPCODE:
		o->has_opcode = true;
		return get_u8(def->name, arg, &o->opcode);
	case OPT_FLAGS:
		return get_u8(def->name, arg, &o->flags);
	case OPT_PREFILL:
		return get_u8(def->name, arg, &o->prefill);
	case OPT_DATA_LEN:
		return get_u32(def->name, arg, 0, 0xffffff, &o->data_len);
	case OPT_INPUT_FILE:
		o->input_file = arg;
		return true;
	case OPT_RAW_BINARY:
		o->raw_binary = true;
		return true;
	case OPT_SHOW_COMMAND:
		o->show_command = true;
		return true;
	case OPT_DRY_RUN:
		o->show_command = o->dry_run = true;
		return true;
	case OPT_READ:
		o->pt_read = true;
		return true;
	case OPT_WRITE:
		o->pt_write = true;
		return true;
	default:
		if (def->val < OPT_CDW0 || def->val >= OPT_CDW0 + CLI_CDWS)
			return false;
		return get_u32(def->name, arg, 0, UINT32_MAX, &o->cdw[def->val - OPT_CDW0]);
	}
}

static bool take_transfer(struct cli_options *o, const struct opt_def *def, const char *arg)
{
	switch (def->val) {
	case OPT_START_BLOCK:
		o->has_start = true;
		return get_u64(def->name, arg, 0, UINT64_MAX, &o->start_block);
	case OPT_OFFSET:
		o->has_offset = true;
		return get_size(def->name, arg, &o->offset);
	case 'c':
		o->has_count = true;
		return get_u64(def->name, arg, 0, UINT64_MAX - 1, &o->block_count);
	case 'z':
		o->has_size = true;
		return get_size(def->name, arg, &o->data_size);
	case 'd':
		o->data = arg;
		return true;
	case 'f':
		o->fua = true;
		return true;
	case OPT_NO_PROGRESS:
		o->no_progress = true;
		return true;
	case OPT_NO_FLUSH:
		o->no_flush = true;
		return true;
	default:
		return take_passthru(o, def, arg);
	}
}

static bool take_bench(struct cli_options *o, const struct opt_def *def, const char *arg)
{
	struct cli_bench_options *b = &o->bench;

	switch (def->val) {
	case OPT_RW:
		return cli_bench_rw(b, arg);
	case OPT_READ_PERCENT:
		b->has_percent = true;
		return get_u32(def->name, arg, 0, 100, &b->percent);
	case OPT_DATALOSS:
		b->dataloss = true;
		return true;
	case OPT_BLOCK_SIZE:
		return get_size(def->name, arg, &b->block_size);
	case OPT_DEPTH:
		return get_u32(def->name, arg, 1, CLI_BENCH_DEPTH, &b->depth);
	case OPT_THREADS:
		return get_u32(def->name, arg, 1, CLI_QUEUES_MAX, &b->threads);
	case OPT_CPUS:
		return cli_bench_cpus(b, arg);
	case OPT_POLL:
		return cli_bench_poll(b, arg);
	case OPT_RUN_TIME:
		b->has_run = true;
		return cli_bench_time(def->name, arg, &b->run_ns);
	case OPT_RAMP_TIME:
		return cli_bench_time(def->name, arg, &b->ramp_ns);
	case OPT_IO_COUNT:
		return get_u64(def->name, arg, 1, INT64_MAX, &b->io_count);
	case OPT_SEED:
		return get_u64(def->name, arg, 0, INT64_MAX, &b->seed);
	default:
		return take_transfer(o, def, arg);
	}
}

static bool take_fabric(struct cli_options *o, const struct opt_def *def, const char *arg)
{
	uint32_t v;

	switch (def->val) {
	case OPT_CRC:
		o->ctrl.crc = true;
		return true;
	case OPT_NO_P2P:
		o->ctrl.no_peer_to_peer = true;
		return true;
	case OPT_NO_REMOTE_INV:
		o->ctrl.no_remote_invalidate = true;
		return true;
	case OPT_PROVIDER:
		o->ctrl.provider = arg;
		return true;
	case OPT_CONGESTION:
		o->ctrl.congestion = arg;
		return true;
	case OPT_SEND_BUFFER:
		return get_buffer(def->name, arg, &o->ctrl.send_buffer);
	case OPT_RECEIVE_BUFFER:
		return get_buffer(def->name, arg, &o->ctrl.receive_buffer);
	case OPT_MPA_REVISION:
		if (!get_u32(def->name, arg, 1, 2, &v))
			return false;
		o->ctrl.mpa_revision = (uint8_t)v;
		return true;
	case OPT_TIMEOUT:
		if (!get_ms(def->name, arg, &v))
			return false;
		o->ctrl.admin_timeout_ms = v;
		o->qpair.io_timeout_ms = v;
		return true;
	case OPT_CONNECT_TIMEOUT:
		return get_ms(def->name, arg, &o->ctrl.connect_timeout_ms);
	default:
		return take_bench(o, def, arg);
	}
}

static bool take(struct cli_options *o, const struct opt_def *def, const char *arg)
{
	uint32_t v;

	switch (def->val) {
	case 't':
		if (strcmp(arg, "rdma") != 0)
			return cli_error("--transport: \"%s\" is not rdma", arg), false;
		return true;
	case 'a':
		o->ctrl.traddr = arg;
		return true;
	case OPT_TRSVCID:
		o->ctrl.trsvcid = arg;
		return true;
	case 'n':
		o->ctrl.subnqn = arg;
		return true;
	case 'q':
		o->ctrl.hostnqn = arg;
		return true;
	case 'I':
		o->ctrl.hostid = arg;
		return true;
	case 'w':
		o->ctrl.host_traddr = arg;
		return true;
	case 'i':
	case OPT_QUEUES:
		return get_u16(def->name, arg, 1, CLI_QUEUES_MAX, &o->ctrl.nr_io_queues);
	case 'Q':
		return get_u16(def->name, arg, 2, 1024, &o->qpair.queue_size);
	case 'k':
		if (!get_u32(def->name, arg, 0, 4000000, &v))
			return false;
		o->ctrl.keep_alive_tmo_ms = v * 1000;
		return true;
	case 'N':
		return get_u32(def->name, arg, o->any_nsid ? 0 : 1,
			       o->any_nsid ? UINT32_MAX : UINT32_MAX - 1, &o->nsid);
	case 'o':
		return get_format(arg, &o->format);
	case 'v':
		o->verbose++;
		return true;
	default:
		return take_fabric(o, def, arg);
	}
}

static bool take_uri(const struct cli_verb *verb, struct cli_options *o, int n, char **args)
{
	if (n > 1 && (verb->takes & CLI_TAKES_TRANSFER) && !o->data)
		return cli_error("unexpected argument \"%s\"; to name a file, use --data=%s",
				 args[1], args[1]),
		       false;
	if (n > 1)
		return cli_error("unexpected argument \"%s\"", args[1]), false;
	if (n == 0)
		return true;
	rdinit_uri_init(&o->uri);
	if (rdinit_uri_parse(args[0], &o->uri))
		return cli_lib_error(), false;
	if (o->ctrl.traddr || o->ctrl.trsvcid)
		return cli_error("a URI and --traddr or --trsvcid exclude each other"), false;
	if (o->ctrl.subnqn && o->uri.subnqn[0])
		return cli_error("the NQN is given both in the URI and by --nqn"), false;
	if (o->nsid && o->uri.nsid)
		return cli_error("the namespace is given both in the URI and by --namespace-id"),
		       false;
	o->ctrl.traddr = o->uri.traddr;
	o->ctrl.trsvcid = o->uri.trsvcid;
	if (o->uri.subnqn[0])
		o->ctrl.subnqn = o->uri.subnqn;
	if (o->uri.nsid)
		o->nsid = o->uri.nsid;
	o->ctrl.no_remote_invalidate |= o->uri.no_remote_invalidate;
	return true;
}

static bool check_passthru(const struct cli_options *o)
{
	if (!o->has_opcode)
		return cli_error("--opcode is missing"), false;
	if (o->pt_read && o->pt_write)
		return cli_error("--read and --write exclude each other"), false;
	if (o->data_len && !o->pt_read && !o->pt_write)
		return cli_error("--data-len needs --read or --write"), false;
	if (!o->data_len && (o->pt_read || o->pt_write))
		return cli_error("--read and --write need --data-len"), false;
	return true;
}

/*
 * -s is the port of every other verb, and of nvme-cli's: whoever names a target by options most
 * likely means that, and the data would go to the wrong block of the wrong target.
 */
static bool check_s(const struct cli_options *o)
{
	if (!o->s_is_block || !o->ctrl.traddr || o->ctrl.trsvcid)
		return true;
	cli_error("-s is the first block in read and write; beside --traddr write "
		  "--trsvcid=%llu if the port is meant, or --start-block=%llu if the block is",
		  (unsigned long long)o->start_block, (unsigned long long)o->start_block);
	return false;
}

static bool check(const struct cli_verb *verb, struct cli_options *o)
{
	if (o->ctrl.traddr != o->uri.traddr && o->ctrl.traddr && !cli_check_traddr(o->ctrl.traddr))
		return false;
	if (!check_s(o))
		return false;
	if ((verb->takes & CLI_TAKES_PASSTHRU) && !check_passthru(o))
		return false;
	if (!o->ctrl.traddr)
		return cli_error("no target: give a URI, or --traddr and --nqn"), false;
	if (!o->ctrl.subnqn && !verb->discovery)
		return cli_error("no subsystem: give it in the URI or by --nqn"), false;
	if (o->has_start && o->has_offset)
		return cli_error("--start-block and --offset exclude each other"), false;
	if ((verb->takes & CLI_TAKES_BENCH) && !cli_bench_check(o))
		return false;
	if (o->verbose >= 2)
		o->ctrl.log_spec = o->verbose > 2 ? "trace" : "debug";
	return true;
}

/* getopt_long(3) does not like @arg, or what is behind the letter in optopt. */
static void bad_option(const struct cli_verb *verb, int c, const char *arg)
{
	struct cli_nearest near = {.found = NULL};
	char word[64], all[256] = "";
	size_t i, len, at = 0, n = 0;

	if (c == ':') {
		cli_error("%s needs a value; try rdinit %s --help", arg, verb->name);
		return;
	}
	if (optopt >= 1000) {
		cli_error("--%s takes no value", defs[optopt - 1000].name);
		return;
	}
	if (optopt) {
		cli_error("\"-%c\" is not an option; try rdinit %s --help", optopt, verb->name);
		return;
	}
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
	near.word = word;
	len = strlen(word);
	for (i = 0; i < N_DEFS; i++) {
		if (!taken(verb, &defs[i]))
			continue;
		cli_nearest(&near, defs[i].name);
		if (strncmp(defs[i].name, word, len) == 0 && at < sizeof(all)) {
			at += (size_t)snprintf(all + at, sizeof(all) - at, "%s--%s", n ? ", " : "",
					       defs[i].name);
			n++;
		}
	}
	if (n > 1)
		cli_error("\"--%s\" is ambiguous: %s", word, all);
	else if (near.found)
		cli_error("\"--%s\" is not an option; did you mean --%s?", word, near.found);
	else
		cli_error("\"--%s\" is not an option; try rdinit %s --help", word, verb->name);
}

bool cli_options_parse(const struct cli_verb *verb, int argc, char **argv, struct cli_options *o,
		       int *status)
{
	struct option longs[N_DEFS + 1] = {0};
	char shorts[3 * N_DEFS + 2] = ":";
	size_t i, n = 0, s = 1;
	int c;

	memset(o, 0, sizeof(*o));
	rdinit_ctrl_opts_init(&o->ctrl);
	rdinit_qpair_opts_init(&o->qpair);
	if (verb->takes & CLI_TAKES_TRANSFER)
		o->ctrl.nr_io_queues = 2;
	if (verb->takes & CLI_TAKES_BENCH)
		o->ctrl.nr_io_queues = 0; /* not given: as many as threads */
	cli_bench_defaults(&o->bench);
	o->any_nsid = verb->takes & CLI_TAKES_PASSTHRU;
	for (i = 0; i < N_DEFS; i++) {
		if (!taken(verb, &defs[i]))
			continue;
		/* getopt hands the position in defs back, whatever the letter means here */
		longs[n++] =
			(struct option){defs[i].name, defs[i].arg ? required_argument : no_argument,
					NULL, (int)(1000 + i)};
		if (letter(verb, &defs[i])) {
			shorts[s++] = letter(verb, &defs[i]);
			if (defs[i].arg)
				shorts[s++] = ':';
		}
	}
	shorts[s] = '\0';
	*status = CLI_USAGE;
	opterr = 0;
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const struct opt_def *def = c >= 1000 ? &defs[c - 1000] : NULL;

		if (c == '?' || c == ':') {
			bad_option(verb, c, argv[optind - 1]);
			return false;
		}
		for (i = 0; !def && i < N_DEFS; i++) {
			if (taken(verb, &defs[i]) && letter(verb, &defs[i]) == c)
				def = &defs[i];
		}
		if (def && def->val == 'h') {
			help(verb);
			*status = cli_finish_output();
			return false;
		}
		o->s_is_block |= c == 's' && def && def->val == OPT_START_BLOCK;
		if (!def || !take(o, def, optarg))
			return false;
	}
	return take_uri(verb, o, argc - optind, argv + optind) && check(verb, o);
}
