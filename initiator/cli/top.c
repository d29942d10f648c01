/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * top: paths and I/O of a subsystem, live. Each URI is a path with its own controller, which
 * reconnects after a loss; no path is waited for while others answer.
 */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "fields.h"
#include "top.h"

#define TOP_RETRY_NS    1000000000u
#define TOP_INTERVAL_NS 1000000000u
#define TOP_LEAST_NS    10000000u
#define TOP_ANA_RGO     0x100u /* LSP: groups without their namespaces */
#define TOP_FOREVER     UINT64_MAX

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
			if (cli_top_show(t))
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
