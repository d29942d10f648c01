/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * top: paths and I/O of a subsystem, live. Each URI is a path with its own controller, which
 * reconnects after a loss; no path is waited for while others answer.
 */
#include <endian.h>
#include <errno.h>
#include <nvme/types.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "fields.h"
#include "util/utf8.h"

#define TOP_RETRY_NS    1000000000u
#define TOP_INTERVAL_NS 1000000000u
#define TOP_LEAST_NS    10000000u
#define TOP_ANA_RGO     0x100u /* LSP: groups without their namespaces */
#define TOP_FOREVER     UINT64_MAX
#define TOP_UNIT        512000u /* bytes: data units are thousands of 512 bytes */
#define TOP_PATHS_MAX   16u
#define TOP_ANA_SIZE    4096u /* the header and 127 groups */
#define TOP_ANA_STATES  16u   /* number of values of the field */

enum top_state {
	TOP_CONNECTING, /* the connect callback, or an error, moves it out */
	TOP_LIVE,
	TOP_LOST, /* until next_try */
};

/* Counters of a SMART log, and the time of reading. */
struct top_counters {
	uint64_t at; /* ns; 0: not read yet */
	uint64_t reads, writes, units_read, units_written, media_errors;
	uint8_t critical_warning;
};

struct top_path {
	struct cli_options o; /* has pointers into itself: not to be copied */
	char address[CLI_ADDRESS_TEXT];
	struct rdinit_ctrl *ctrl;
	enum top_state state;
	bool drop;          /* ctrl is to be freed outside of its callbacks */
	uint64_t next_try;  /* ns */
	uint32_t losses;    /* number of losses after it was live */
	char text[512];     /* why it is not live, or what could not be read; "": no error */
	unsigned int asked; /* number of commands in flight */
	uint64_t asked_at, latency_ns;
	struct top_counters was, now;
	bool has_ana;
	uint16_t ana[TOP_ANA_STATES]; /* number of groups in each ANA state */
	unsigned char id[RDINIT_IDENTIFY_SIZE];
	struct nvme_smart_log smart;
	unsigned char ana_log[TOP_ANA_SIZE];
};

struct top {
	const struct cli_options *o;
	struct top_path *path[TOP_PATHS_MAX];
	unsigned int n;
	bool terminal;
};

static const char *const top_states[] = {"connecting", "live", "lost"};

struct top_rates {
	double seconds; /* since the last output; 0: the first one */
	double reads, writes, bytes_read, bytes_written;
};

static double top_rate(uint64_t was, uint64_t now, double seconds)
{
	/* After a restart of the target the counters begin at 0. */
	return now > was ? (double)(now - was) / seconds : 0;
}

/* Each controller's counters cover the whole subsystem, so one path that answers is enough. */
static const struct top_path *top_counting(const struct top *t)
{
	unsigned int i;

	for (i = 0; i < t->n; i++) {
		if (t->path[i]->was.at && t->path[i]->now.at > t->path[i]->was.at)
			return t->path[i];
	}
	return NULL;
}

static struct top_rates top_rates_of(const struct top_path *p)
{
	struct top_rates r = {.seconds = 0};

	if (!p)
		return r;
	r.seconds = (double)(p->now.at - p->was.at) / 1e9;
	r.reads = top_rate(p->was.reads, p->now.reads, r.seconds);
	r.writes = top_rate(p->was.writes, p->now.writes, r.seconds);
	r.bytes_read = top_rate(p->was.units_read, p->now.units_read, r.seconds) * TOP_UNIT;
	r.bytes_written =
		top_rate(p->was.units_written, p->now.units_written, r.seconds) * TOP_UNIT;
	return r;
}

/* A text such as "optimized", or "2 optimized, 1 inaccessible" when groups differ. */
static const char *top_ana(const struct top_path *p, char *buf, size_t len)
{
	unsigned int i, kinds = 0;
	int at = 0;

	snprintf(buf, len, "-");
	if (p->state != TOP_LIVE || !p->has_ana)
		return buf;
	for (i = 0; i < TOP_ANA_STATES; i++)
		kinds += p->ana[i] > 0;
	for (i = 0; i < TOP_ANA_STATES && (size_t)at < len; i++) {
		if (p->ana[i] && kinds == 1)
			at += snprintf(buf, len, "%s", cli_ana_state(i));
		else if (p->ana[i])
			at += snprintf(buf + at, len - (size_t)at, "%s%u %s", at ? ", " : "",
				       p->ana[i], cli_ana_state(i));
	}
	return buf;
}

/* ---- output: a screen on a terminal, text elsewhere ---- */

static void top_show_io(const struct top *t)
{
	const struct top_path *p = top_counting(t);
	struct top_rates r = top_rates_of(p);

	printf("%-8s %12s %12s %16s\n", "I/O", "per second", "MiB/s", "commands");
	if (!p) {
		printf("no rates yet: they need two readings of a controller's counters\n");
		return;
	}
	printf("%-8s %12.0f %12.1f %16llu\n", "read", r.reads, r.bytes_read / 1048576,
	       (unsigned long long)p->now.reads);
	printf("%-8s %12.0f %12.1f %16llu\n", "write", r.writes, r.bytes_written / 1048576,
	       (unsigned long long)p->now.writes);
	printf("media errors %llu, critical warning 0x%02x\n",
	       (unsigned long long)p->now.media_errors, p->now.critical_warning);
}

static void top_show_path(const struct top_path *p)
{
	char ana[128], latency[32] = "-", text[sizeof(p->text)];

	snprintf(text, sizeof(text), "%s", p->text);
	rd_mask_control(text, strlen(text)); /* the text may come from a peer */
	if (p->state == TOP_LIVE && p->latency_ns)
		snprintf(latency, sizeof(latency), "%.2f ms", (double)p->latency_ns / 1e6);
	printf("%-28s %-10s %-24s %10s %6u%s%s\n", p->address, top_states[p->state],
	       top_ana(p, ana, sizeof(ana)), latency, p->losses, *text ? "  " : "", text);
}

static void top_show_text(const struct top *t)
{
	char when[CLI_TIME_TEXT];
	unsigned int i;

	if (t->terminal)
		fputs("\033[H\033[J", stdout); /* clear the screen */
	printf("%s  %s\n\n", t->path[0]->o.ctrl.subnqn, cli_time_text(when));
	top_show_io(t);
	printf("\n%-28s %-10s %-24s %10s %6s\n", "PATH", "STATE", "ANA", "LATENCY", "LOST");
	for (i = 0; i < t->n; i++)
		top_show_path(t->path[i]);
	if (!t->terminal)
		printf("\n");
}

/* ---- output: JSON ---- */

static json_t *top_path_json(const struct top_path *p)
{
	char ana[128];

	return json_pack("{s:s, s:s, s:s, s:f, s:I, s:s}", "address", p->address, "state",
			 top_states[p->state], "ana", top_ana(p, ana, sizeof(ana)), "latency_ms",
			 p->state == TOP_LIVE ? (double)p->latency_ns / 1e6 : 0.0, "losses",
			 (json_int_t)p->losses, "text", p->text);
}

static json_t *top_io_json(double rate, double bytes, uint64_t commands)
{
	return json_pack("{s:f, s:f, s:I}", "iops", rate, "bytes_per_second", bytes, "commands",
			 (json_int_t)commands);
}

static void top_show_json(const struct top *t)
{
	const struct top_path *p = top_counting(t);
	struct top_rates r = top_rates_of(p);
	json_t *obj, *paths = json_array();
	char when[CLI_TIME_TEXT];
	unsigned int i;

	for (i = 0; i < t->n; i++)
		json_array_append_new(paths, top_path_json(t->path[i]));
	obj = json_pack("{s:s, s:s, s:o}", "time", cli_time_text(when), "nqn",
			t->path[0]->o.ctrl.subnqn, "paths", paths);
	if (p) {
		json_object_set_new(obj, "seconds", json_real(r.seconds));
		json_object_set_new(obj, "read", top_io_json(r.reads, r.bytes_read, p->now.reads));
		json_object_set_new(obj, "write",
				    top_io_json(r.writes, r.bytes_written, p->now.writes));
		json_object_set_new(obj, "media_errors",
				    json_integer((json_int_t)p->now.media_errors));
		json_object_set_new(obj, "critical_warning", json_integer(p->now.critical_warning));
	}
	cli_print_json_line(obj);
}

/* Returns CLI_OK, or CLI_FAILED when standard output cannot be written. */
static int top_show(const struct top *t)
{
	if (t->o->format == CLI_JSON)
		top_show_json(t);
	else
		top_show_text(t);
	return cli_finish_output();
}

/* ---- a path ---- */

static void top_lost(struct top_path *p, const char *text)
{
	if (p->state == TOP_LOST)
		return;
	p->losses += p->state == TOP_LIVE;
	p->state = TOP_LOST;
	p->drop = true;
	p->next_try = cli_now_ns() + TOP_RETRY_NS;
	p->was = p->now = (struct top_counters){.at = 0};
	snprintf(p->text, sizeof(p->text), "%s", text);
}

/* The lower half of a 128-bit counter. */
static uint64_t top_counter(const unsigned char *field)
{
	return cli_le(field, sizeof(uint64_t));
}

static void top_got_smart(void *user, const struct rdinit_completion *c)
{
	struct top_path *p = user;
	uint64_t now = cli_now_ns();

	p->asked--;
	p->latency_ns = now - p->asked_at;
	if (c->err) {
		/* A lost path keeps the text of its loss. */
		if (p->state == TOP_LIVE)
			snprintf(p->text, sizeof(p->text), "%s", c->text);
		return;
	}
	p->text[0] = '\0';
	p->was = p->now;
	p->now = (struct top_counters){
		.at = now,
		.reads = top_counter(p->smart.host_reads),
		.writes = top_counter(p->smart.host_writes),
		.units_read = top_counter(p->smart.data_units_read),
		.units_written = top_counter(p->smart.data_units_written),
		.media_errors = top_counter(p->smart.media_errors),
		.critical_warning = p->smart.critical_warning,
	};
}

/* Counts the groups in each ANA state. The number of groups that the controller reports is
 * checked. */
static void top_got_ana(void *user, const struct rdinit_completion *c)
{
	struct top_path *p = user;
	struct nvme_ana_group_desc g;
	struct nvme_ana_log hdr;
	unsigned int i, n;

	p->asked--;
	memset(p->ana, 0, sizeof(p->ana));
	if (c->err)
		return;
	memcpy(&hdr, p->ana_log, sizeof(hdr));
	n = le16toh(hdr.ngrps);
	for (i = 0; i < n && sizeof(hdr) + (i + 1) * sizeof(g) <= TOP_ANA_SIZE; i++) {
		memcpy(&g, p->ana_log + sizeof(hdr) + i * sizeof(g), sizeof(g));
		p->ana[g.state & 0xf]++;
	}
}

static void top_ask_ana(struct top_path *p)
{
	const struct cli_command c = {
		.opcode = nvme_admin_get_log_page,
		.nsid = NVME_NSID_ALL,
		.cdw = {[10] = NVME_LOG_LID_ANA | TOP_ANA_RGO | (TOP_ANA_SIZE / 4 - 1) << 16},
		.data = p->ana_log,
		.len = TOP_ANA_SIZE,
	};
	struct rdinit_passthru pt;

	cli_passthru_make(&c, &pt);
	if (!rdinit_admin_passthru_async(p->ctrl, &pt, NULL, top_got_ana, p))
		p->asked++;
}

static void top_ask(struct top_path *p)
{
	if (p->state != TOP_LIVE || p->asked)
		return;
	p->asked_at = cli_now_ns();
	if (rdinit_get_log_async(p->ctrl, NVME_LOG_LID_SMART, NVME_NSID_ALL, 0, &p->smart,
				 sizeof(p->smart), top_got_smart, p))
		return;
	p->asked++;
	if (p->has_ana)
		top_ask_ana(p);
}

static void top_identified(void *user, const struct rdinit_completion *c)
{
	struct top_path *p = user;

	p->asked--;
	if (c->err) {
		top_lost(p, c->text);
		return;
	}
	p->has_ana =
		p->id[offsetof(struct nvme_id_ctrl, cmic)] & NVME_CTRL_CMIC_MULTI_ANA_REPORTING;
	p->state = TOP_LIVE;
	p->text[0] = '\0';
	top_ask(p);
}

static void top_connected(void *user, const struct rdinit_completion *c)
{
	struct top_path *p = user;

	p->asked--;
	if (c->err)
		top_lost(p, c->text);
	else if (rdinit_identify_async(p->ctrl, NVME_IDENTIFY_CNS_CTRL, 0, p->id, top_identified,
				       p))
		top_lost(p, cli_lib_text());
	else
		p->asked++;
}

/* Returns 0, or -errno for invalid options. */
static int top_connect(struct top_path *p)
{
	int rc = rdinit_ctrl_create(&p->o.ctrl, &p->ctrl);

	p->state = TOP_CONNECTING;
	p->drop = false;
	if (!rc && !rdinit_ctrl_connect_async(p->ctrl, top_connected, p))
		p->asked++;
	else
		top_lost(p, cli_lib_text());
	return rc;
}

static void top_drop(struct top_path *p)
{
	rdinit_ctrl_free(&p->ctrl); /* completes the commands in flight */
	p->drop = false;
}

static void top_process(struct top_path *p)
{
	if (p->ctrl && rdinit_ctrl_process(p->ctrl, 0) < 0)
		top_lost(p, cli_lib_text());
	if (p->drop)
		top_drop(p);
	if (!p->ctrl && cli_now_ns() >= p->next_try)
		top_connect(p);
}

/* ---- all of them ---- */

/* The next time at which there is work that no descriptor announces. */
static uint64_t top_next(const struct top *t, uint64_t next)
{
	unsigned int i;

	for (i = 0; i < t->n; i++) {
		if (!t->path[i]->ctrl && t->path[i]->next_try < next)
			next = t->path[i]->next_try;
	}
	return next;
}

static int top_wait(const struct top *t, const struct cli_signals *in, uint64_t until)
{
	struct pollfd fds[TOP_PATHS_MAX + 1];
	unsigned int i, n = 0;
	uint64_t now = cli_now_ns();

	for (i = 0; i < t->n; i++) {
		if (t->path[i]->ctrl)
			fds[n++] = (struct pollfd){.fd = rdinit_ctrl_fd(t->path[i]->ctrl),
						   .events = POLLIN};
	}
	fds[n++] = (struct pollfd){.fd = in->fd, .events = POLLIN};
	until = until > now ? (until - now + 999999) / 1000000 : 0;
	if (poll(fds, n, (int)until) < 0 && errno != EINTR)
		return cli_error("poll: %s", strerror(errno));
	return CLI_OK;
}

static bool top_answered(const struct top *t)
{
	unsigned int i;

	for (i = 0; i < t->n; i++) {
		if (t->path[i]->asked && t->path[i]->state == TOP_LIVE)
			return false;
	}
	return true;
}

/* Loop: queries all paths, and prints when all have answered or half of the interval has passed. */
static int top_loop(struct top *t, struct cli_signals *in, uint64_t interval, uint64_t count)
{
	uint64_t tick = cli_now_ns() + interval, show = TOP_FOREVER, now;
	unsigned int i;

	while (count) {
		for (i = 0; i < t->n; i++)
			top_process(t->path[i]);
		if (cli_signals_check(in))
			return CLI_OK;
		now = cli_now_ns();
		if (show != TOP_FOREVER && (now >= show || top_answered(t))) {
			if (top_show(t))
				return CLI_FAILED;
			show = TOP_FOREVER;
			count -= count != TOP_FOREVER;
		} else if (show == TOP_FOREVER && now >= tick) {
			for (i = 0; i < t->n; i++)
				top_ask(t->path[i]);
			show = now + interval / 2;
			tick = now + interval;
		} else if (top_wait(t, in, top_next(t, show < tick ? show : tick))) {
			return CLI_FAILED;
		}
	}
	return CLI_OK;
}

static int top_add(struct top *t, const char *uri)
{
	struct top_path *p = calloc(1, sizeof(*p));

	if (!p)
		return cli_error("no memory for a path");
	t->path[t->n++] = p;
	if (!cli_options_uri(t->o, uri, &p->o))
		return CLI_USAGE;
	cli_address_text(p->o.ctrl.traddr, p->o.ctrl.trsvcid, p->address);
	if (strcmp(p->o.ctrl.subnqn, t->path[0]->o.ctrl.subnqn) != 0)
		return cli_usage_error("\"%s\" leads to a different subsystem than \"%s\"", uri,
				       t->o->operands[0]);
	/* Invalid options are reported at once; a path that cannot be reached is tried again. */
	return top_connect(p) == -EINVAL ? cli_usage_error("%s", p->text) : CLI_OK;
}

static int top_add_all(struct top *t)
{
	const struct cli_options *o = t->o;
	int i, rc = CLI_OK;

	if (o->n_operands < 1 || o->n_operands > (int)TOP_PATHS_MAX)
		return cli_usage_error(
			"%d URIs: give one to %u, each a path to the same subsystem, "
			"nvme+rdma://HOST[:PORT]/SUBNQN, or nvme+tcp://",
			o->n_operands, TOP_PATHS_MAX);
	for (i = 0; !rc && i < o->n_operands; i++)
		rc = top_add(t, o->operands[i]);
	return rc;
}

int cli_top(const struct cli_options *o)
{
	struct top t = {.o = o, .terminal = isatty(STDOUT_FILENO)};
	uint64_t interval = TOP_INTERVAL_NS;
	struct cli_signals in;
	unsigned int i;
	int rc;

	if (cli_given(o, CLI_ARG_INTERVAL) &&
	    !cli_bench_time("interval", o->arg[CLI_ARG_INTERVAL].text, &interval))
		return CLI_USAGE;
	if (interval < TOP_LEAST_NS)
		return cli_usage_error("--interval: \"%s\" is less than 10ms",
				       o->arg[CLI_ARG_INTERVAL].text);
	if (cli_num(o, CLI_ARG_EVENTS, TOP_FOREVER) == 0)
		return cli_usage_error("--count: found 0, expected 1 or more updates; without "
				       "--count top runs until SIGINT");
	cli_signals_start(&in);
	rc = top_add_all(&t);
	if (!rc)
		rc = top_loop(&t, &in, interval, cli_num(o, CLI_ARG_EVENTS, TOP_FOREVER));
	for (i = 0; i < t.n; i++) {
		/* A path that does not answer would delay the shutdown. */
		if (t.path[i]->state == TOP_LIVE && !t.path[i]->asked)
			rdinit_ctrl_disconnect(t.path[i]->ctrl);
		rdinit_ctrl_free(&t.path[i]->ctrl);
		free(t.path[i]);
	}
	cli_signals_end(&in);
	cli_signals_die(&in);
	return rc;
}
