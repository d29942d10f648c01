/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the iwarp provider with plain TCP: the same bytes in the same pattern over two sockets,
 * in one process and one run. This is not a test: the figures depend on the machine.
 *
 *	bench_fabric [SECONDS_PER_ROW]
 *
 * Client and server each have a thread, a loop and a fabric. Row "floor" is the pattern of a READ
 * without RDMA: a request of 52 bytes, an answer of 4 KiB and 20 bytes, @depth requests in flight,
 * one send and one recv at a time.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "fabric/iwarp/testing.h"
#include "util/sockaddr.h"

#define IO    4096u
#define DEPTH 32

struct side {
	struct rd_loop *loop;
	struct rd_fab *fab;
	struct rd_fab_dev *dev;
	struct rd_fab_cq *cq;
	struct rd_fab_conn *conn;
	struct rd_fab_mr *mr;
	uint8_t *mem;
	bool up, down;
};

static struct bench {
	struct side cl, sv;
	struct rd_fab_listener *lis;
	atomic_bool stop, ready;
	struct sockaddr_storage addr;
	uint64_t raddr;
	uint32_t rkey, io;
} bench;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * RD_NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static void die(const char *what, int rc)
{
	fprintf(stderr, "%s: %s\n", what, strerror(-rc));
	exit(1);
}

static void bench_make_qp(struct side *s)
{
	struct rd_fab_qp_attr attr = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.max_send_wr = 2 * DEPTH,
		.max_recv_wr = 1,
		.max_send_sge = 1,
		.max_recv_sge = 1,
	};
	int rc = rd_fab_qp_create(s->conn, &attr);

	if (rc)
		die("qp_create", rc);
}

static void bench_on_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
{
	struct rd_fab_conn_param param = {.ird = DEPTH, .ord = DEPTH};
	struct side *s = arg;

	if (ev->type == RD_FAB_EV_RESOLVED) {
		bench_make_qp(s);
		rd_fab_connect(conn, &param);
	} else if (ev->type == RD_FAB_EV_ESTABLISHED) {
		s->up = true;
	} else {
		s->down = true;
	}
}

static void bench_on_request(struct rd_fab_listener *lis, struct rd_fab_req *req, void *arg)
{
	struct rd_fab_conn_param param = {.ird = DEPTH, .ord = DEPTH};
	struct side *s = arg;

	rd_fab_conn_destroy(&s->conn);
	if (rd_fab_req_adopt(s->fab, req, bench_on_event, s, &s->conn) == 0) {
		bench_make_qp(s);
		rd_fab_accept(s->conn, &param);
	}
}

static void side_open(struct side *s)
{
	struct rd_loop_opts lo = {0};
	int rc = rd_loop_create(&lo, &s->loop);

	if (rc == 0)
		rc = rd_fab_iwarp_open(s->loop, NULL, &s->fab);
	if (rc)
		die("open", rc);
	s->dev = rd_iw_test_dev(s->fab);
	s->mem = calloc(DEPTH, 1 << 20);
	rc = rd_fab_cq_create(s->dev, 0, NULL, NULL, &s->cq);
	if (rc == 0)
		rc = rd_fab_reg_mr(s->dev, s->mem, (size_t)DEPTH << 20,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					   IBV_ACCESS_REMOTE_WRITE,
				   &s->mr);
	if (rc)
		die("open", rc);
}

static void side_close(struct side *s)
{
	rd_fab_conn_destroy(&s->conn);
	rd_fab_dereg_mr(&s->mr);
	rd_fab_cq_destroy(&s->cq);
	rd_fab_close(&s->fab);
	rd_loop_destroy(&s->loop);
	free(s->mem);
}

static void *server(void *arg)
{
	struct sockaddr_storage ss;
	int rc;

	side_open(&bench.sv);
	rd_addr_parse("127.0.0.1", 0, &ss);
	rc = rd_fab_listen(bench.sv.fab, (struct sockaddr *)&ss, 4, bench_on_request, &bench.sv,
			   &bench.lis);
	if (rc)
		die("listen", rc);
	bench.addr = bench.lis->addr;
	bench.raddr = bench.sv.mr->iova;
	bench.rkey = bench.sv.mr->rkey;
	atomic_store(&bench.ready, true);
	while (!atomic_load(&bench.stop))
		rd_loop_turn(bench.sv.loop, 50 * RD_NSEC_PER_MSEC);
	rd_fab_unlisten(&bench.lis);
	side_close(&bench.sv);
	return NULL;
}

static void post(enum ibv_wr_opcode op, uint32_t slot)
{
	struct side *s = &bench.cl;
	struct ibv_sge sge = {(uintptr_t)s->mem + (size_t)slot * bench.io, bench.io, s->mr->lkey};
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = slot,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = op,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {bench.raddr + (size_t)slot * bench.io, bench.rkey},
		};
	int rc = rd_fab_post_send(s->conn, &wr, &bad);

	if (rc)
		die("post_send", rc);
}

/* The completion of a WRITE does not show that its data has arrived; a READ of one byte behind it
 * does. */
static void post_op(bool write, uint32_t slot)
{
	struct side *s = &bench.cl;
	struct ibv_sge sge = {(uintptr_t)s->mem + (size_t)slot * bench.io, bench.io, s->mr->lkey};
	struct ibv_send_wr *bad,
		wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = {bench.raddr + (size_t)slot * bench.io, bench.rkey},
		};
	int rc;

	if (!write) {
		post(IBV_WR_RDMA_READ, slot);
		return;
	}
	rc = rd_fab_post_send(s->conn, &wr, &bad);
	sge.length = 1;
	wr.wr_id = slot;
	wr.opcode = IBV_WR_RDMA_READ;
	wr.send_flags = IBV_SEND_SIGNALED;
	if (rc == 0)
		rc = rd_fab_post_send(s->conn, &wr, &bad);
	if (rc)
		die("post_send", rc);
}

static void report(const char *what, uint32_t io, int depth, uint64_t ops, uint64_t ns)
{
	printf("%-6s %7u B  depth %2d: %8.0f op/s  %7.1f us/op  %7.1f MiB/s\n", what, io, depth,
	       (double)ops * 1e9 / (double)ns, (double)ns / 1e3 / (double)ops * depth,
	       (double)ops * io / 1048576 * 1e9 / (double)ns);
}

static void run_fabric(bool write, uint32_t io, int depth, uint64_t ns)
{
	struct side *s = &bench.cl;
	uint64_t t0 = now_ns(), end = t0 + ns, ops = 0;
	struct ibv_wc wc[DEPTH];

	bench.io = io;
	for (int i = 0; i < depth; i++)
		post_op(write, (uint32_t)i);
	for (int left = depth; left;) {
		bool more = now_ns() < end;
		int n;

		rd_loop_turn(s->loop, RD_NSEC_PER_SEC);
		n = rd_fab_cq_poll(s->cq, DEPTH, wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].status)
				die("completion", -EIO);
			ops++;
			if (more)
				post_op(write, (uint32_t)wc[i].wr_id);
			else
				left--;
		}
	}
	report(write ? "write" : "read", io, depth, ops, now_ns() - t0);
}

/* ---- the floor ---- */

static void xfer(int fd, uint8_t *buf, size_t len, bool out)
{
	while (len) {
		ssize_t n = out ? send(fd, buf, len, MSG_NOSIGNAL) : recv(fd, buf, len, 0);

		if (n <= 0)
			pthread_exit(NULL);
		len -= (size_t)n;
	}
}

struct floor_arg {
	int fd;
	uint32_t in, out;
};

static void *floor_server(void *arg)
{
	struct floor_arg *f = arg;
	uint8_t *buf = calloc(1, 2 << 20);

	pthread_cleanup_push(free, buf);
	for (;;) {
		xfer(f->fd, buf, f->in, false);
		xfer(f->fd, buf, f->out, true);
	}
	pthread_cleanup_pop(1);
	return NULL;
}

static void run_floor(bool write, uint32_t io, int depth, uint64_t ns)
{
	uint32_t req = write ? io + 20 + 52 : 52, rsp = write ? 24 : io + 20;
	struct sockaddr_in sin = {.sin_family = AF_INET};
	socklen_t len = sizeof(sin);
	int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	uint8_t *buf = calloc(1, 2 << 20);
	struct floor_arg f;
	uint64_t t0, end, ops = 0;
	pthread_t t;

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(l, (struct sockaddr *)&sin, sizeof(sin)) || listen(l, 1) ||
	    getsockname(l, (struct sockaddr *)&sin, &len) ||
	    connect(c, (struct sockaddr *)&sin, sizeof(sin)))
		die("floor", -errno);
	f = (struct floor_arg){.fd = accept(l, NULL, NULL), .in = req, .out = rsp};
	setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(f.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	pthread_create(&t, NULL, floor_server, &f);
	t0 = now_ns();
	end = t0 + ns;
	for (int i = 0; i < depth; i++)
		xfer(c, buf, req, true);
	while (now_ns() < end) {
		xfer(c, buf, rsp, false);
		xfer(c, buf, req, true);
		ops++;
	}
	report(write ? "floor-w" : "floor-r", io, depth, ops, now_ns() - t0);
	shutdown(c, SHUT_RDWR);
	shutdown(f.fd, SHUT_RDWR);
	pthread_join(t, NULL);
	close(c);
	close(f.fd);
	close(l);
	free(buf);
}

int main(int argc, char **argv)
{
	uint64_t ns = (uint64_t)((argc > 1 ? atof(argv[1]) : 1.0) * 1e9);
	struct rd_fab_resolve_attr ra = {.on_event = bench_on_event, .arg = &bench.cl};
	static const struct {
		uint32_t io;
		int depth;
	} rows[] = {{IO, 1}, {IO, DEPTH}, {1 << 20, 4}};
	pthread_t t;
	int rc;

	pthread_create(&t, NULL, server, NULL);
	while (!atomic_load(&bench.ready))
		sched_yield();
	side_open(&bench.cl);
	ra.dst = (struct sockaddr *)&bench.addr;
	rc = rd_fab_resolve(bench.cl.fab, &ra, &bench.cl.conn);
	if (rc)
		die("resolve", rc);
	while (!bench.cl.up && !bench.cl.down)
		rd_loop_turn(bench.cl.loop, RD_NSEC_PER_SEC);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int write = 0; write < 2; write++) {
			run_floor(write, rows[i].io, rows[i].depth, ns);
			run_fabric(write, rows[i].io, rows[i].depth, ns);
		}
	}
	atomic_store(&bench.stop, true);
	pthread_join(t, NULL);
	side_close(&bench.cl);
	return 0;
}
