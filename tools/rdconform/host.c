/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts through librdinit: connecting, commands, and checks of their results. */
#include "rdconform.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Long, because a test with a host of its own does not process the shared hosts. */
#define KATO_MS 120000

static const char *lib_text(void)
{
	return rdinit_get_error();
}

/* ---- connecting ---- */

static void ctrl_opts(const struct rdc_config *cfg, unsigned int who, const struct rdc_host_opts *o,
		      struct rdinit_ctrl_opts *opts)
{
	rdinit_ctrl_opts_init(opts);
	rdinit_ctrl_opts_set_uri(opts, &cfg->uri);
	if (o && o->discovery)
		opts->subnqn = NULL;
	opts->hostnqn = cfg->hostnqn[who];
	opts->hostid = o && o->hostid ? o->hostid : cfg->hostid[who];
	opts->provider = cfg->provider;
	opts->keep_alive_tmo_ms = o && o->kato_ms ? o->kato_ms : KATO_MS;
	opts->connect_timeout_ms = cfg->timeout_ms;
	opts->admin_timeout_ms = cfg->timeout_ms;
	opts->nr_io_queues = 4;
	if (cfg->verbose)
		opts->log_spec = "debug";
}

/* The namespace of the URI, or the first one. Returns NULL or an error text. */
static const char *find_ns(struct rdc_host *h)
{
	uint32_t nsids[RDINIT_NS_LIST_MAX];
	struct rdinit_ns ns;
	unsigned int n;

	h->nsid = h->t->cfg->uri.nsid;
	if (!h->nsid) {
		if (rdinit_list_ns(h->ctrl, 0, nsids, &n))
			return lib_text();
		if (n == 0)
			return "the subsystem shows no namespace to this host";
		h->nsid = nsids[0];
	}
	rdinit_ns_init(&ns);
	if (rdinit_ns_open(h->ctrl, h->nsid, &ns) || rdinit_identify_ns(h->ctrl, h->nsid, &h->ns))
		return lib_text();
	h->bs = ns.block_size;
	h->blocks = ns.blocks;
	return NULL;
}

static const char *open_io(struct rdc_host *h, uint16_t queue_size)
{
	struct rdinit_qpair_opts opts;

	rdinit_qpair_opts_init(&opts);
	opts.queue_size = queue_size ? queue_size : 64;
	opts.io_timeout_ms = h->t->cfg->timeout_ms;
	if (rdinit_qpair_create(h->ctrl, &opts, &h->qp) || rdinit_qpair_connect(h->qp))
		return lib_text();
	return find_ns(h);
}

/* Returns NULL or an error text; the caller closes @h in both cases. */
static const char *connect_host(struct rdc_host *h, const struct rdc_host_opts *o)
{
	struct rdinit_ctrl_opts opts;
	struct rdinit_auth_opts auth;

	rdinit_auth_opts_init(&auth);
	ctrl_opts(h->t->cfg, h->who, o, &opts);
	auth.secret_file = h->t->cfg->secret_file;
	if (auth.secret_file)
		opts.auth = &auth;
	rdinit_ctrl_info_init(&h->info);
	if (rdinit_ctrl_create(&opts, &h->ctrl) || rdinit_ctrl_connect(h->ctrl) ||
	    rdinit_ctrl_get_info(h->ctrl, &h->info) || rdinit_identify_ctrl(h->ctrl, &h->id))
		return lib_text();
	if (o && (o->no_io || o->discovery))
		return NULL;
	return open_io(h, o ? o->queue_size : 0);
}

static struct rdc_host *new_host(struct rdc *t, unsigned int who)
{
	struct rdc_host *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->t = t;
	h->who = who;
	LIST_INSERT_HEAD(&t->hosts, h, link);
	return h;
}

void rdc_host_close(struct rdc_host *h, bool abrupt)
{
	struct rdc *t = h->t;

	LIST_REMOVE(h, link);
	if (t->kept[h->who] == h)
		t->kept[h->who] = NULL;
	if (!abrupt) {
		if (h->qp)
			rdinit_qpair_disconnect(h->qp);
		if (h->ctrl)
			rdinit_ctrl_disconnect(h->ctrl);
	}
	rdinit_qpair_free(&h->qp);
	rdinit_ctrl_free(&h->ctrl);
	free(h);
}

void rdc_hosts_drop(struct rdc *t, bool kept_too)
{
	struct rdc_host *h, *next;

	for (h = LIST_FIRST(&t->hosts); h; h = next) {
		next = LIST_NEXT(h, link);
		if (!h->kept || kept_too)
			rdc_host_close(h, h->kept ? false : t->verdict == RDC_FAILED);
	}
}

struct rdc_host *rdc_host_open(struct rdc *t, unsigned int who, const struct rdc_host_opts *opts)
{
	struct rdc_host *h = new_host(t, who);
	const char *why = h ? connect_host(h, opts) : "no memory on this machine";

	if (why)
		RDC_FAIL(t, "host %u: %s", who + 1, why);
	return h;
}

static struct rdc_host *kept(struct rdc *t, unsigned int who)
{
	struct rdc_host *h = t->kept[who];

	/* Processes keep-alives, and detects a lost connection. */
	if (h && (rdinit_ctrl_process(h->ctrl, 0) < 0 || rdinit_qpair_process(h->qp, 0) < 0)) {
		rdc_host_close(h, true);
		h = NULL;
	}
	if (!h) {
		h = rdc_host_open(t, who, NULL);
		h->kept = true;
		t->kept[who] = h;
	}
	return h;
}

struct rdc_host *rdc_main(struct rdc *t)
{
	return kept(t, 0);
}

struct rdc_host *rdc_second(struct rdc *t)
{
	return kept(t, 1);
}

/* Checks the options of the second host, which connects only in some tests. */
static const char *check_second(const struct rdc_config *cfg)
{
	struct rdinit_ctrl_opts opts;
	struct rdinit_ctrl *ctrl;
	const char *bad;

	ctrl_opts(cfg, 1, NULL, &opts);
	bad = rdinit_ctrl_create(&opts, &ctrl) ? lib_text() : NULL;
	rdinit_ctrl_free(&ctrl);
	return bad;
}

const char *rdc_probe(struct rdc *t, char *why, size_t len)
{
	struct rdc_host *h = new_host(t, 0);
	struct rdinit_ns ns = {.size = sizeof(ns)};
	const char *bad = "no memory on this machine";
	void *block;

	if (h)
		bad = check_second(t->cfg);
	if (!bad)
		bad = connect_host(h, NULL);
	if (!bad) {
		ns.nsid = h->nsid;
		ns.block_size = h->bs;
		ns.blocks = h->blocks;
		block = malloc(h->bs);
		if (!block)
			bad = "no memory on this machine";
		/* A status counts as an answer: there may be a reservation. */
		else if (rdinit_read(h->qp, &ns, 0, 1, block, 0) && rdinit_last_status() == 0)
			bad = lib_text();
		free(block);
	}
	if (bad)
		snprintf(why, len, "%s", bad);
	if (h)
		rdc_host_close(h, bad != NULL);
	return bad ? why : NULL;
}

/* ---- commands ---- */

static struct nvme_cmd_kind to_passthru(bool admin, const struct rdc_cmd *c,
					struct rdinit_passthru *pt)
{
	struct nvme_sqe sqe = {.opcode = c->opcode,
			       .flags = c->flags,
			       .nsid = htole32(c->nsid),
			       .cdw2 = htole32(c->cdw2),
			       .cdw3 = htole32(c->cdw3),
			       .cdw10 = htole32(c->cdw10),
			       .cdw11 = htole32(c->cdw11),
			       .cdw12 = htole32(c->cdw12),
			       .cdw13 = htole32(c->cdw13),
			       .cdw14 = htole32(c->cdw14),
			       .cdw15 = htole32(c->cdw15)};

	rdinit_passthru_init(pt);
	memcpy(pt->sqe, &sqe, sizeof(pt->sqe));
	pt->data = c->data;
	pt->len = c->len;
	if (c->write)
		pt->flags |= RDINIT_PASSTHRU_WRITE;
	if (c->keyed)
		pt->flags |= RDINIT_PASSTHRU_KEYED;
	if (c->patience)
		pt->timeout_ms = UINT32_MAX;
	return nvme_cmd_kind(admin, &sqe);
}

static struct rdc_reply reply_of(int rc, uint64_t result, struct nvme_cmd_kind of)
{
	struct rdc_reply r = {.err = rc, .result = result, .of = of};

	if (rc == -EIO)
		r.status = rdinit_last_status();
	if (rc)
		snprintf(r.text, sizeof(r.text), "%s", lib_text());
	return r;
}

struct rdc_reply rdc_io_try(struct rdc_host *h, const struct rdc_cmd *cmd)
{
	struct rdinit_passthru pt;
	struct nvme_cmd_kind of = to_passthru(false, cmd, &pt);
	uint64_t result = 0;
	int rc = rdinit_io_passthru(h->qp, &pt, &result);

	return reply_of(rc, result, of);
}

static struct rdc_reply require_answer(struct rdc_host *h, struct rdc_reply r, const char *file,
				       int line)
{
	/* -EIO without a status means a lost connection. */
	if (r.err && !(r.err == -EIO && r.status))
		rdc_fail_at(h->t, file, line, "no answer: %s", r.text);
	return r;
}

struct rdc_reply rdc_admin_at(struct rdc_host *h, const struct rdc_cmd *cmd, const char *file,
			      int line)
{
	struct rdinit_passthru pt;
	struct nvme_cmd_kind of = to_passthru(true, cmd, &pt);
	uint64_t result = 0;
	int rc = rdinit_admin_passthru(h->ctrl, &pt, &result);

	return require_answer(h, reply_of(rc, result, of), file, line);
}

struct rdc_reply rdc_io_at(struct rdc_host *h, const struct rdc_cmd *cmd, const char *file,
			   int line)
{
	return require_answer(h, rdc_io_try(h, cmd), file, line);
}

static void async_done(void *user, const struct rdinit_completion *c)
{
	struct rdc_async *a = user;

	a->r.err = c->err;
	a->r.status = c->status;
	a->r.result = c->result;
	snprintf(a->r.text, sizeof(a->r.text), "%s", c->text);
	a->done = true;
}

void rdc_admin_start(struct rdc_host *h, const struct rdc_cmd *cmd, struct rdc_async *a)
{
	struct rdinit_passthru pt;

	*a = (struct rdc_async){.r.of = to_passthru(true, cmd, &pt)};
	if (rdinit_admin_passthru_async(h->ctrl, &pt, &a->cid, async_done, a))
		RDC_FAIL(h->t, "cannot send: %s", lib_text());
}

struct rdc_async *rdc_event_start(struct rdc_host *h)
{
	const struct rdc_cmd aer = {.opcode = nvme_admin_async_event, .patience = true};
	struct rdc_async *a = rdc_buf(h->t, sizeof(*a));

	rdc_admin_start(h, &aer, a);
	return a;
}

void rdc_io_start(struct rdc_host *h, const struct rdc_cmd *cmd, struct rdc_async *a)
{
	struct rdinit_passthru pt;

	*a = (struct rdc_async){.r.of = to_passthru(false, cmd, &pt)};
	if (rdinit_io_passthru_async(h->qp, &pt, &a->cid, async_done, a))
		RDC_FAIL(h->t, "cannot send: %s", lib_text());
}

void rdc_io_start_fused(struct rdc_host *h, const struct rdc_cmd *first,
			const struct rdc_cmd *second, struct rdc_async a[2])
{
	struct rdinit_passthru p1, p2;

	a[0] = (struct rdc_async){.r.of = to_passthru(false, first, &p1)};
	a[1] = (struct rdc_async){.r.of = to_passthru(false, second, &p2)};
	if (rdinit_io_passthru_fused_async(h->qp, &p1, &p2, async_done, &a[0], &a[1]))
		RDC_FAIL(h->t, "cannot send: %s", lib_text());
}

bool rdc_wait_ms(struct rdc_host *h, struct rdc_async *a, unsigned int ms)
{
	uint64_t now = rdc_now_ms(), end = now + ms;
	struct pollfd fds[2] = {{.fd = rdinit_ctrl_fd(h->ctrl), .events = POLLIN}};
	nfds_t n = 1;

	if (h->qp)
		fds[n++] = (struct pollfd){.fd = rdinit_qpair_fd(h->qp), .events = POLLIN};
	for (;;) {
		/* A lost connection completes the commands on it, so its error need not be
		 * handled. */
		rdinit_ctrl_process(h->ctrl, 0);
		if (h->qp)
			rdinit_qpair_process(h->qp, 0);
		now = rdc_now_ms();
		if (a->done || now >= end)
			return a->done;
		poll(fds, n, (int)(end - now > 100 ? 100 : end - now));
	}
}

struct rdc_reply rdc_wait_at(struct rdc_host *h, struct rdc_async *a, const char *file, int line)
{
	/* The library's time limit is shorter, and its text has more detail. */
	if (!rdc_wait_ms(h, a, 2 * h->t->cfg->timeout_ms + 1000))
		rdc_fail_at(h->t, file, line, "no answer to command id 0x%04x", a->cid);
	return require_answer(h, a->r, file, line);
}

/* ---- expectations ---- */

static void status_list(const uint16_t *codes, struct nvme_cmd_kind of, char *buf, size_t len)
{
	char one[NVME_STATUS_TEXT];
	size_t at = 0;

	buf[0] = '\0';
	for (; *codes != RDC_END && at < len; codes++) {
		nvme_status_text((struct nvme_status){*codes}, of, one);
		at += (size_t)snprintf(buf + at, len - at, "%s%s", at ? " or " : "", one);
	}
}

void rdc_expect_at(struct rdc *t, struct rdc_reply r, const char *what, const uint16_t *codes,
		   const char *file, int line)
{
	char want[RDC_WHY / 2] = "an error", got[NVME_STATUS_TEXT];
	const uint16_t *c;

	if (r.err && !(r.err == -EIO && r.status))
		rdc_fail_at(t, file, line, "%s: no answer: %s", what, r.text);
	if (!codes && RDC_CODE(r) != 0)
		return;
	for (c = codes; c && *c != RDC_END; c++) {
		if (*c == RDC_CODE(r))
			return;
	}
	if (codes)
		status_list(codes, r.of, want, sizeof(want));
	nvme_status_text((struct nvme_status){r.status}, r.of, got);
	rdc_fail_at(t, file, line, "%s: got %s, expected %s", what, got, want);
}
