/* SPDX-License-Identifier: BSD-3-Clause */
#include "t_fab.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fabric/verbs/testing.h"
#include "util/sockaddr.h"

uint64_t t_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * RD_NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

int t_count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

bool t_verbs(void)
{
	const char *name = getenv("RD_TEST_FABRIC");

	return name && strcmp(name, "verbs") == 0;
}

int t_fab_open(struct rd_loop *loop, const struct rd_fab_iwarp_opts *opts, struct rd_fab **out)
{
	return t_verbs() ? rd_fab_verbs_open(loop, NULL, out) : rd_fab_iwarp_open(loop, opts, out);
}

struct rd_iw_stats *t_stats(struct t_end *e)
{
	if (t_verbs()) {
		const struct rd_vb_stats *s = rd_vb_test_stats(e->fab);

		e->stats = (struct rd_iw_stats){.conns = s->conns,
						.listeners = s->listeners,
						.mrs = s->mrs,
						.cqs = s->cqs,
						.srqs = s->srqs};
		return &e->stats;
	}
	return rd_iw_test_stats(e->fab);
}

static void collect(struct t_end *e)
{
	int n;

	if (!e->cq || e->no_poll)
		return;
	do {
		n = rd_fab_cq_poll(e->cq, 32, e->wc + e->nwc);
		if (n > 0)
			e->nwc += n;
	} while (n == 32 && e->nwc < T_MAX_WC - 32);
}

void t_turn(struct t_pair *p, uint64_t max_ns)
{
	rd_loop_turn(p->loop, max_ns);
	collect(&p->cl);
	collect(&p->sv);
}

static uint32_t max_sges(const struct t_end *e)
{
	uint32_t max = e->dev->caps.max_send_sge; /* every device has the same for RECVs */

	return e->pair->opts.sges < max ? e->pair->opts.sges : max;
}

static int make_qp(struct t_end *e)
{
	const struct t_opts *o = &e->pair->opts;
	const struct rd_fab_caps *caps = &e->dev->caps;
	struct rd_fab_qp_attr attr = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.srq = e->srq,
		.max_send_wr = o->depth,
		.max_recv_wr = o->depth,
		.max_send_sge = max_sges(e),
		.max_recv_sge = max_sges(e),
		.max_inline = caps->max_inline < 256 ? caps->max_inline : 256,
		.coalesce = o->coalesce,
	};

	return rd_fab_qp_create(e->conn, &attr);
}

static void found_device(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
{
	struct t_end *e = arg;

	CU_ASSERT_EQUAL_FATAL(ev->type, RD_FAB_EV_RESOLVED);
	e->dev = conn->dev;
}

static const char *test_addr(const struct t_opts *o)
{
	const char *addr = getenv(o->ipv6 ? "RD_TEST_ADDR6" : "RD_TEST_ADDR");

	if (t_verbs() && !addr)
		fprintf(stderr, "RD_TEST_FABRIC=verbs wants RD_TEST_ADDR and RD_TEST_ADDR6\n");
	return t_verbs() ? addr : o->ipv6 ? "::1" : "127.0.0.1";
}

/* An address of the initiator's device, if that is another device than the target's. */
static const char *peer_addr(const struct t_opts *o)
{
	return getenv(o->ipv6 ? "RD_TEST_PEER6" : "RD_TEST_PEER");
}

/* A connection to this address leaves by the device that @e is to use. */
static const char *towards(const struct t_end *e)
{
	const struct t_opts *o = &e->pair->opts;

	return e == &e->pair->sv && peer_addr(o) ? peer_addr(o) : test_addr(o);
}

/* The verbs provider opens a device at its first connection. */
static void find_device(struct t_end *e)
{
	struct rd_fab_resolve_attr ra = {.on_event = found_device, .arg = e};
	struct sockaddr_storage ss;
	struct rd_fab_conn *conn;

	if (!t_verbs()) {
		e->dev = rd_iw_test_dev(e->fab);
		return;
	}
	CU_ASSERT_EQUAL_FATAL(rd_addr_parse(towards(e), 1, &ss), 0);
	ra.dst = (struct sockaddr *)&ss;
	CU_ASSERT_EQUAL_FATAL(rd_fab_resolve(e->fab, &ra, &conn), 0);
	T_UNTIL(e->pair, e->dev);
	CU_ASSERT_PTR_NOT_NULL_FATAL(e->dev);
	rd_fab_conn_destroy(&conn);
}

void t_open_cq(struct t_end *e)
{
	e->dev = NULL;
	find_device(e);
	CU_ASSERT_EQUAL_FATAL(rd_fab_cq_create(e->dev, 0, NULL, NULL, &e->cq), 0);
	if (e->pair->opts.srq)
		CU_ASSERT_EQUAL_FATAL(
			rd_fab_srq_create(e->dev, e->pair->opts.depth, max_sges(e), &e->srq), 0);
}

static void on_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
{
	struct t_end *e = arg;

	e->status = ev->status;
	CU_ASSERT_PTR_NOT_NULL_FATAL(ev->reason);
	snprintf(e->reason, sizeof(e->reason), "%s", ev->reason);
	if (ev->private_data) {
		CU_ASSERT(ev->private_len <= sizeof(e->pd));
		memcpy(e->pd, ev->private_data, ev->private_len);
		e->pd_len = ev->private_len;
	}
	switch (ev->type) {
	case RD_FAB_EV_RESOLVED:
		e->resolved++;
		if (!e->destroy || e->destroy_on != ev->type) {
			CU_ASSERT_EQUAL(make_qp(e), 0);
			CU_ASSERT_EQUAL(rd_fab_connect(conn, &e->pair->opts.cparam), 0);
		}
		break;
	case RD_FAB_EV_ESTABLISHED:
		e->established++;
		break;
	case RD_FAB_EV_REJECTED:
		e->rejected++;
		break;
	case RD_FAB_EV_CONNECT_ERROR:
		e->failed++;
		break;
	case RD_FAB_EV_DISCONNECTED:
		e->disconnected++;
		break;
	case RD_FAB_EV_DEVICE_REMOVED:
		e->removed++;
		break;
	}
	if (e->destroy && e->destroy_on == ev->type)
		rd_fab_conn_destroy(&e->conn);
}

void t_adopt(struct t_pair *p, struct rd_fab_req *req)
{
	int rc;

	CU_ASSERT_EQUAL_FATAL(rd_fab_req_adopt(p->sv.fab, req, on_event, &p->sv, &p->sv.conn), 0);
	if (p->opts.no_accept)
		return;
	rc = make_qp(&p->sv);
	if (t_verbs() && rc == -ECONNRESET) { /* the initiator has already ended the connection */
		rd_fab_conn_destroy(&p->sv.conn);
		return;
	}
	CU_ASSERT_EQUAL(rc, 0);
	CU_ASSERT_EQUAL(rd_fab_accept(p->sv.conn, &p->opts.sparam), 0);
}

static void on_request(struct rd_fab_listener *lis, struct rd_fab_req *req, void *arg)
{
	struct t_pair *p = arg;

	p->requests++;
	p->seen_ird = req->peer_ird;
	p->seen_ord = req->peer_ord;
	p->req_pd_len = req->private_len;
	if (req->private_len)
		memcpy(p->req_pd, req->private_data, req->private_len);
	if (p->opts.manual) {
		p->req = req;
		return;
	}
	if (p->opts.reject) {
		rd_fab_req_reject(req, p->opts.reject_pd, p->opts.reject_len);
		return;
	}
	t_adopt(p, req);
}

static void fix_depth(uint16_t *depth)
{
	*depth = *depth == 0xffff ? 0 : *depth ? *depth : 16;
}

/* librdmacm keeps a device open from its first use on; that is not a leak of ours. */
static void warm_up(const char *addr)
{
	struct sockaddr_storage ss;
	struct rdma_cm_id *id;

	CU_ASSERT_EQUAL_FATAL(rd_addr_parse(addr, 0, &ss), 0);
	CU_ASSERT_FATAL(rd_fab_verbs_has_addr((struct sockaddr *)&ss));
	CU_ASSERT_EQUAL_FATAL(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	CU_ASSERT_EQUAL(rdma_bind_addr(id, (struct sockaddr *)&ss), 0);
	rdma_destroy_id(id);
}

void t_pair_open(struct t_pair *p, const struct t_opts *opts)
{
	static const struct t_opts none;
	struct rd_loop_opts lo = {0};
	struct sockaddr_storage ss;
	const char *dbg = getenv("T_LOG");

	memset(p, 0, sizeof(*p));
	p->opts = opts ? *opts : none;
	if (!p->opts.depth)
		p->opts.depth = 64;
	if (!p->opts.sges)
		p->opts.sges = 16;
	fix_depth(&p->opts.cparam.ird);
	fix_depth(&p->opts.cparam.ord);
	fix_depth(&p->opts.sparam.ird);
	fix_depth(&p->opts.sparam.ord);
	CU_ASSERT_EQUAL_FATAL(rd_addr_parse(test_addr(&p->opts), 0, &ss), 0);
	if (t_verbs())
		warm_up(test_addr(&p->opts));
	if (t_verbs() && peer_addr(&p->opts))
		warm_up(peer_addr(&p->opts));
	p->fds = t_count_fds();
	if (dbg)
		rd_log_create("t", 2, RD_LOG_DEBUG, NULL, NULL, &p->log);
	lo.log = p->log;
	lo.clock = p->opts.clock;
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&lo, &p->loop), 0);
	p->cl.pair = p->sv.pair = p;
	p->cl.wc = calloc(T_MAX_WC, sizeof(struct ibv_wc));
	p->sv.wc = calloc(T_MAX_WC, sizeof(struct ibv_wc));
	CU_ASSERT_EQUAL_FATAL(t_fab_open(p->loop, &p->opts.client, &p->cl.fab), 0);
	CU_ASSERT_EQUAL_FATAL(t_fab_open(p->loop, &p->opts.server, &p->sv.fab), 0);
	t_open_cq(&p->cl);
	t_open_cq(&p->sv);
	CU_ASSERT_EQUAL_FATAL(
		rd_fab_listen(p->sv.fab, (struct sockaddr *)&ss, 16, on_request, p, &p->lis), 0);
	CU_ASSERT_NOT_EQUAL(rd_addr_port((struct sockaddr *)&p->lis->addr), 0);
}

void t_pair_start(struct t_pair *p)
{
	struct rd_fab_resolve_attr ra = {
		.dst = (struct sockaddr *)&p->lis->addr,
		.timeout_ns = p->opts.timeout_ns,
		.on_event = on_event,
		.arg = &p->cl,
	};

	CU_ASSERT_EQUAL_FATAL(rd_fab_resolve(p->cl.fab, &ra, &p->cl.conn), 0);
}

void t_pair_connect(struct t_pair *p, const struct t_opts *opts)
{
	t_pair_open(p, opts);
	t_pair_start(p);
	T_UNTIL(p, p->cl.established && p->sv.established);
	CU_ASSERT_FATAL(p->cl.established && p->sv.established);
}

static void close_end(struct t_end *e)
{
	struct rd_iw_stats *s;

	for (unsigned int i = 0; i < e->nkeys; i++)
		rd_fab_dereg_mr(&e->keys[i]);
	free(e->keys);
	rd_fab_conn_destroy(&e->conn);
	rd_fab_cq_destroy(&e->cq);
	rd_fab_srq_destroy(&e->srq);
	s = t_stats(e);
	CU_ASSERT_EQUAL(s->conns, 0);
	CU_ASSERT_EQUAL(s->mrs, 0);
	CU_ASSERT_EQUAL(s->cqs, 0);
	CU_ASSERT_EQUAL(s->srqs, 0);
}

void t_pair_close(struct t_pair *p)
{
	rd_fab_unlisten(&p->lis);
	close_end(&p->cl);
	close_end(&p->sv);
	CU_ASSERT_EQUAL(t_stats(&p->sv)->half_open, 0);
	CU_ASSERT_EQUAL(t_stats(&p->sv)->listeners, 0);
	T_UNTIL(p, t_stats(&p->cl)->drains == 0 && t_stats(&p->sv)->drains == 0);
	rd_fab_close(&p->cl.fab);
	rd_fab_close(&p->sv.fab);
	rd_loop_destroy(&p->loop);
	rd_log_destroy(&p->log);
	CU_ASSERT(!p->fds || t_count_fds() == p->fds);
	free(p->cl.wc);
	free(p->sv.wc);
}

struct rd_fab_mr *t_reg(struct t_end *e, void *buf, size_t len, int access)
{
	struct rd_fab_mr *mr = NULL;

	CU_ASSERT_EQUAL_FATAL(rd_fab_reg_mr(e->dev, buf, len, access, &mr), 0);
	e->keys = realloc(e->keys, (e->nkeys + 1) * sizeof(mr));
	CU_ASSERT_PTR_NOT_NULL_FATAL(e->keys);
	e->keys[e->nkeys++] = mr;
	return mr;
}

void t_dereg(struct t_end *e, struct rd_fab_mr *mr)
{
	unsigned int i = 0;

	while (e->keys[i] != mr)
		CU_ASSERT_FATAL(++i < e->nkeys);
	e->keys[i] = e->keys[--e->nkeys];
	rd_fab_dereg_mr(&mr);
}

static struct ibv_sge sge_of(const struct rd_fab_mr *mr, size_t off, uint32_t len)
{
	return (struct ibv_sge){.addr = (uintptr_t)mr->addr + off, .length = len, .lkey = mr->lkey};
}

int t_send(struct t_end *e, uint64_t id, const struct rd_fab_mr *mr, size_t off, uint32_t len)
{
	struct ibv_sge sge = sge_of(mr, off, len);
	struct ibv_send_wr *bad, wr = {
					 .wr_id = id,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED,
				 };

	return rd_fab_post_send(e->conn, &wr, &bad);
}

int t_recv(struct t_end *e, uint64_t id, const struct rd_fab_mr *mr, size_t off, uint32_t len)
{
	struct ibv_sge sge = sge_of(mr, off, len);
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};

	if (e->srq)
		return rd_fab_post_srq_recv(e->srq, &wr, &bad);
	return rd_fab_post_recv(e->conn, &wr, &bad);
}

int t_rdma(struct t_end *e, enum ibv_wr_opcode op, uint64_t id, const struct rd_fab_mr *mr,
	   size_t off, uint32_t len, uint64_t raddr, uint32_t rkey)
{
	struct ibv_sge sge = sge_of(mr, off, len);
	struct ibv_send_wr *bad, wr = {
					 .wr_id = id,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = op,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.rdma = {.remote_addr = raddr, .rkey = rkey},
				 };

	return rd_fab_post_send(e->conn, &wr, &bad);
}

static uint8_t pattern(uint32_t seed, size_t i)
{
	uint32_t x = (uint32_t)i * 2654435761u + seed * 40503u;

	return (uint8_t)(x ^ (x >> 15));
}

void t_fill(void *buf, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = pattern(seed, i);
}

bool t_filled(const void *buf, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++) {
		if (((const uint8_t *)buf)[i] != pattern(seed, i))
			return false;
	}
	return true;
}

void t_nobody_listens(void)
{
	struct rd_fab_listener gone = {0};
	T_PAIR(p);

	t_pair_open(&p, NULL);
	gone.addr = p.lis->addr;
	rd_fab_unlisten(&p.lis);
	p.lis = &gone;
	t_pair_start(&p);
	p.lis = NULL;
	T_UNTIL(&p, p.cl.failed);
	CU_ASSERT_EQUAL(p.cl.status, -ECONNREFUSED);
	CU_ASSERT_EQUAL(p.cl.rejected + p.cl.disconnected, 0);
}
