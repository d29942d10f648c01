/* SPDX-License-Identifier: BSD-3-Clause */
/* A controller and its I/O queues, for verbs; common functions of verbs that send one command. */
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "util/parse.h"

#define OPC_GET_LOG  0x02
#define OPC_IDENTIFY 0x06

/* ---- a session ---- */

const char *cli_address_text(const char *traddr, const char *trsvcid, char buf[CLI_ADDRESS_TEXT])
{
	bool v6 = strchr(traddr, ':');

	snprintf(buf, CLI_ADDRESS_TEXT, "%s%s%s:%s", v6 ? "[" : "", traddr, v6 ? "]" : "",
		 trsvcid ? trsvcid : "4420");
	return buf;
}

int cli_session_open(struct cli_session *s, const struct cli_options *opts)
{
	int rc;

	memset(s, 0, sizeof(*s));
	rdinit_ctrl_info_init(&s->info);
	rdinit_ns_init(&s->ns);
	rc = rdinit_ctrl_create(&opts->ctrl, &s->ctrl); /* it checks the options */
	if (!rc)
		rc = rdinit_ctrl_connect(s->ctrl);
	if (rc && !s->ctrl) {
		cli_lib_error();
		return rc == -EINVAL || rc == -ENOENT ? CLI_USAGE : CLI_FAILED;
	}
	if (rc || rdinit_ctrl_get_info(s->ctrl, &s->info)) {
		cli_error("%s%s", cli_lib_text(), cli_connect_hint());
		cli_session_close(s);
		return CLI_FAILED;
	}
	if (opts->verbose)
		fprintf(stderr,
			"rdinit: %s (%s): controller %u, NVMe %u.%u, %u I/O queues, at most %u "
			"bytes "
			"at once, %u in a capsule\n",
			s->info.address, s->info.provider, s->info.cntlid, s->info.vs >> 16,
			s->info.vs >> 8 & 0xff, s->info.io_queues, s->info.max_transfer,
			s->info.in_capsule);
	return CLI_OK;
}

int cli_session_open_ns(struct cli_session *s, const struct cli_options *opts)
{
	if (s->info.discovery)
		return cli_error(
			"%s: this is a discovery controller, which has no namespaces; give the "
			"NQN of a subsystem (rdinit discover lists them)",
			s->info.address);
	if (rdinit_ns_open(s->ctrl, opts->nsid ? opts->nsid : 1, &s->ns))
		return cli_error("%s%s", cli_lib_text(),
				 strstr(cli_lib_text(), "there is no namespace")
					 ? "; `rdinit list-ns` lists the namespaces"
					 : "");
	return CLI_OK;
}

int cli_session_open_io(struct cli_session *s, const struct cli_options *opts)
{
	int rc = cli_session_open_ns(s, opts);

	return rc ? rc : cli_session_open_queues(s, opts);
}

int cli_session_open_queues(struct cli_session *s, const struct cli_options *opts)
{
	unsigned int want = opts->ctrl.nr_io_queues;

	if (s->info.io_queues == 0)
		return cli_error("%s: the controller has no I/O queues", s->info.address);
	if (want > s->info.io_queues)
		want = s->info.io_queues;
	while (s->n_qp < want) {
		struct rdinit_qpair **qp = &s->qp[s->n_qp];

		if (rdinit_qpair_create(s->ctrl, &opts->qpair, qp))
			return cli_lib_error();
		s->n_qp++; /* from here on cli_session_close() frees it */
		if (rdinit_qpair_connect(*qp))
			return cli_lib_error();
		/* Connecting many queues takes time, so process keep-alives in between. */
		if (rdinit_ctrl_process(s->ctrl, 0) < 0)
			return cli_lib_error();
	}
	return CLI_OK;
}

void cli_session_close(struct cli_session *s)
{
	while (s->n_qp) {
		rdinit_qpair_disconnect(s->qp[s->n_qp - 1]);
		rdinit_qpair_free(&s->qp[s->n_qp - 1]);
		s->n_qp--;
	}
	if (s->ctrl) {
		/* A failure does not matter to the user: the work is done, and the connection is
		 * closed anyway. */
		rdinit_ctrl_disconnect(s->ctrl);
		rdinit_ctrl_free(&s->ctrl);
	}
}

/* ---- commands ---- */

void cli_passthru_make(const struct cli_command *c, struct rdinit_passthru *pt)
{
	uint32_t le;
	unsigned int i;

	rdinit_passthru_init(pt);
	pt->sqe[0] = c->opcode;
	le = htole32(c->nsid);
	memcpy(&pt->sqe[4], &le, sizeof(le));
	for (i = 10; i < CLI_CDWS; i++) {
		le = htole32(c->cdw[i]);
		memcpy(&pt->sqe[4 * i], &le, sizeof(le));
	}
	pt->data = c->data;
	pt->len = c->len;
	if (c->write)
		pt->flags = RDINIT_PASSTHRU_WRITE;
}

int cli_admin_try(struct cli_session *s, const struct cli_command *c, uint64_t *result)
{
	struct rdinit_passthru pt;

	cli_passthru_make(c, &pt);
	return rdinit_admin_passthru(s->ctrl, &pt, result);
}

int cli_admin(struct cli_session *s, const struct cli_command *c, uint64_t *result)
{
	return cli_admin_try(s, c, result) ? cli_lib_error() : CLI_OK;
}

int cli_io_try(struct cli_session *s, const struct cli_command *c, uint64_t *result)
{
	struct rdinit_passthru pt;

	cli_passthru_make(c, &pt);
	return rdinit_io_passthru(s->qp[0], &pt, result);
}

int cli_io(struct cli_session *s, const struct cli_command *c, uint64_t *result)
{
	return cli_io_try(s, c, result) ? cli_lib_error() : CLI_OK;
}

int cli_identify(struct cli_session *s, uint32_t cdw10, uint32_t cdw11, uint32_t nsid, void *data)
{
	struct cli_command c = {
		.opcode = OPC_IDENTIFY,
		.nsid = nsid,
		.cdw = {[10] = cdw10, [11] = cdw11},
		.data = data,
		.len = RDINIT_IDENTIFY_SIZE,
	};

	return cli_admin(s, &c, NULL);
}

int cli_with_ctrl(const struct cli_options *o, cli_verb_job *job)
{
	struct cli_session s;
	int rc = cli_session_open(&s, o);

	if (rc)
		return rc;
	rc = job(&s, o);
	cli_session_close(&s);
	return rc;
}

int cli_with_ns(const struct cli_options *o, cli_verb_job *job)
{
	struct cli_session s;
	int rc = cli_session_open(&s, o);

	if (rc)
		return rc;
	rc = cli_session_open_io(&s, o);
	if (!rc)
		rc = job(&s, o);
	cli_session_close(&s);
	return rc;
}

uint32_t cli_nsid(const struct cli_options *o)
{
	return o->nsid ? o->nsid : 1;
}

uint64_t cli_num(const struct cli_options *o, enum cli_arg id, uint64_t fallback)
{
	return o->arg[id].given ? o->arg[id].n : fallback;
}

bool cli_given(const struct cli_options *o, enum cli_arg id)
{
	return o->arg[id].given;
}

int cli_success(const struct cli_options *o, uint32_t nsid, uint64_t result)
{
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:s, s:I, s:I}", "operation", o->verb->name,
						"nsid", (json_int_t)nsid, "result",
						(json_int_t)result),
				      stdout);
	printf("%s: success\n", o->verb->name);
	return cli_finish_output();
}

int cli_raw(const void *data, size_t len)
{
	fwrite(data, 1, len, stdout);
	return cli_finish_output();
}

/* The length to ask for next: what the list needs, but at least twice as much as before, so that
 * a list that grows meanwhile ends as well. 0: no command transfers more. */
static uint32_t longer(const struct cli_session *s, uint64_t whole, uint32_t len)
{
	uint32_t max = s->info.max_transfer & ~3u;

	if (len >= max)
		return 0;
	if (whole < 2ull * len)
		whole = 2ull * len;
	return whole < max ? (uint32_t)((whole + 3) & ~3ull) : max;
}

static int cut_short(const struct cli_options *o, const struct cli_list_read *r, uint32_t len)
{
	if (cli_given(o, r->limit))
		return cli_error("the list is longer than the %u bytes that an option allows it; "
				 "this is its beginning",
				 len);
	return cli_error("the list is longer than the %u bytes that one command transfers; this is "
			 "its beginning%s%s",
			 len, r->rest ? ": " : "", r->rest ? r->rest : "");
}

int cli_show_list(struct cli_session *s, const struct cli_options *o, struct cli_command *c,
		  uint32_t len, const struct cli_list_read *r)
{
	uint64_t whole = 0;
	uint32_t next = len;
	int rc = CLI_OK;

	c->data = NULL;
	while (next && !rc) {
		len = next;
		free(c->data);
		c->data = calloc(1, len);
		if (!c->data)
			return cli_error("no memory for %u bytes", len);
		c->len = len;
		r->set_len(c, len);
		rc = r->send(s, c, NULL);
		whole = rc ? 0 : r->whole(c->data, len);
		next = whole > len && !cli_given(o, r->limit) ? longer(s, whole, len) : 0;
	}
	if (!rc)
		rc = cli_given(o, CLI_ARG_RAW) ? cli_raw(c->data, len) : r->show(o, c->data, len);
	if (!rc && whole > len)
		rc = cut_short(o, r, len);
	free(c->data);
	return rc;
}

void cli_dump(const unsigned char *buf, size_t len)
{
	size_t at, i;

	for (at = 0; at < len; at += 16) {
		size_t n = len - at < 16 ? len - at : 16;

		printf("%04zx:", at);
		for (i = 0; i < 16; i++)
			printf(i < n ? " %02x" : "   ", i < n ? buf[at + i] : 0);
		printf(" \"");
		for (i = 0; i < n; i++)
			putchar(isprint(buf[at + i]) ? buf[at + i] : '.');
		printf("\"\n");
	}
}

json_t *cli_hex(const unsigned char *buf, size_t len)
{
	char *text = malloc(2 * len + 1);
	json_t *out;

	if (!text)
		return NULL;
	rd_format_hex(buf, len, text);
	out = json_stringn(text, 2 * len);
	free(text);
	return out;
}

const char *cli_time_text(char buf[CLI_TIME_TEXT])
{
	time_t now = time(NULL);
	struct tm tm;

	buf[0] = '\0';
	if (gmtime_r(&now, &tm))
		strftime(buf, CLI_TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return buf;
}

bool cli_is_std(const char *name)
{
	return !name || strcmp(name, "-") == 0;
}

/* The name of an input in messages. */
static const char *input_name(const char *name)
{
	return cli_is_std(name) ? "standard input" : name;
}

int cli_read_input(const char *name, bool line, void *buf, size_t room, size_t *have)
{
	int fd = cli_is_std(name) ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
	unsigned char *to = buf;
	int rc = CLI_OK;
	ssize_t n = 1;

	*have = 0;
	if (fd < 0)
		return cli_error("%s: %s", name, strerror(errno));
	while (*have < room && n > 0 && !(line && memchr(to, '\n', *have))) {
		n = read(fd, to + *have, room - *have);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			*have += (size_t)n;
	}
	if (n < 0)
		rc = cli_error("%s: %s", input_name(name), strerror(errno));
	if (fd != STDIN_FILENO)
		close(fd);
	return rc;
}

int cli_fill(const char *name, unsigned char *buf, size_t len, const char *limit)
{
	size_t have;

	if (cli_read_input(name, false, buf, len, &have))
		return CLI_FAILED;
	if (have < len)
		return cli_error("%s: %zu bytes, %s says %zu", input_name(name), have, limit, len);
	return CLI_OK;
}

unsigned int cli_number_list(const char *name, const char *text, uint64_t max, uint64_t *out,
			     unsigned int room)
{
	unsigned int n = 0;
	char one[32];

	for (;;) {
		size_t len = strcspn(text, ",");

		snprintf(one, sizeof(one), "%.*s", (int)len, text);
		if (n == room) {
			cli_usage_error("--%s: more than %u numbers", name, room);
			return 0;
		}
		if (len >= sizeof(one) || rd_parse_u64(one, 0, max, &out[n]) != 0) {
			cli_usage_error("--%s: \"%s\" is not a number up to %llu; write numbers "
					"separated by commas",
					name, one, (unsigned long long)max);
			return 0;
		}
		n++;
		if (!text[len])
			return n;
		text += len + 1;
	}
}

int cli_get_log(struct cli_session *s, const struct cli_log *log, void *data, uint32_t len)
{
	uint32_t done = 0, piece;

	for (; done < len; done += piece) {
		uint64_t offset = log->offset + done;
		struct cli_command c = {.opcode = OPC_GET_LOG, .nsid = log->nsid};
		uint32_t numd;

		piece = len - done < s->info.max_transfer ? len - done : s->info.max_transfer;
		if (piece > 65536)
			piece = 65536;
		numd = piece / 4 - 1;
		c.cdw[10] = log->lid | (uint32_t)log->lsp << 8 | (numd & 0xffff) << 16;
		if (log->rae || done + piece < len)
			c.cdw[10] |= 1u << 15;
		c.cdw[11] = numd >> 16 | (uint32_t)log->lsi << 16;
		c.cdw[12] = (uint32_t)offset;
		c.cdw[13] = (uint32_t)(offset >> 32);
		c.cdw[14] = (uint32_t)log->csi << 24 | (log->index ? 1u << 23 : 0);
		c.data = (unsigned char *)data + done;
		c.len = piece;
		if (cli_admin(s, &c, NULL))
			return CLI_FAILED;
	}
	return CLI_OK;
}
