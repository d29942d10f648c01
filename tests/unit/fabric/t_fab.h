/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two fabrics on one loop: the stage of the provider tests. Of iwarp, joined by real loopback
 * sockets; or, with RD_TEST_FABRIC=verbs, of verbs on the RDMA device that has the addresses
 * RD_TEST_ADDR and RD_TEST_ADDR6; connections to these may go out by another one, which then has
 * RD_TEST_PEER and RD_TEST_PEER6. Where RD_TEST_SILENT is an address that the device reaches and
 * that never answers, and RD_TEST_LINK the device itself (test_hotplug.c), they are used as well.
 */
#ifndef T_FAB_H
#define T_FAB_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "fabric/iwarp/testing.h"
#include "t_main.h"
#include "util/loop.h"

#define T_MAX_WC 8192
#define T_WAIT   (10 * RD_NSEC_PER_SEC) /* for anything that should happen at once */

/* One side: its fabric and what was told to it. */
struct t_end {
	struct t_pair *pair;
	struct rd_fab *fab;
	struct rd_fab_dev *dev;
	struct rd_fab_cq *cq;
	struct rd_fab_srq *srq;
	struct rd_fab_conn *conn;
	struct ibv_wc *wc; /* every completion so far */
	int nwc;
	bool no_poll; /* leave completions in the CQ */
	int resolved, established, rejected, failed, disconnected, removed;
	int status;
	char reason[256];
	uint8_t pd[RD_MPA_MAX_PD];
	size_t pd_len;
	struct rd_iw_stats stats;          /* verbs: its gauges under iwarp's names */
	enum rd_fab_event_type destroy_on; /* with destroy: destroy the connection in this event */
	bool destroy;
};

struct t_opts {
	bool ipv6;
	bool srq;       /* both sides */
	bool manual;    /* requests are left in pair->req */
	bool no_accept; /* adopted, but not accepted */
	bool reject;
	bool coalesce;  /* of both sides' completions */
	uint32_t depth; /* of queues; 0: 64 */
	uint32_t sges;  /* 0: 16 */
	uint64_t timeout_ns;
	const struct rd_clock *clock; /* of the loop */
	struct rd_fab_iwarp_opts client, server;
	struct rd_fab_conn_param cparam, sparam; /* depths of 0xffff mean 0; of 0: 16 */
	const void *reject_pd;
	size_t reject_len;
};

struct t_pair {
	struct t_opts opts;
	struct rd_loop *loop;
	struct rd_log *log;
	struct t_end cl, sv;
	struct rd_fab_listener *lis;
	struct rd_fab_req *req;
	int fds;                     /* open before; 0: not to be compared */
	uint16_t seen_ird, seen_ord; /* of the last request */
	uint8_t req_pd[RD_MPA_MAX_PD];
	size_t req_pd_len;
	int requests;
};

/* Open both fabrics and listen. */
void t_pair_open(struct t_pair *p, const struct t_opts *opts);
/* Resolve and connect; returns without waiting. */
void t_pair_start(struct t_pair *p);
/* t_pair_open(), t_pair_start() and wait until both sides are established. */
void t_pair_connect(struct t_pair *p, const struct t_opts *opts);
/* Close everything; asserts that nothing is left behind: sockets, keys, connections. */
void t_pair_close(struct t_pair *p);
/* One turn of the loop; completions are collected. */
void t_turn(struct t_pair *p, uint64_t max_ns);

/* The tests poll; the completions of a device that is not armed wake nobody. */
#define T_NAP (RD_NSEC_PER_MSEC * (t_verbs() ? 1 : 20))

#define T_UNTIL(p, cond)                            \
	do {                                        \
		uint64_t t_end_ = t_now() + T_WAIT; \
		while (!(cond) && t_now() < t_end_) \
			t_turn((p), T_NAP);         \
		CU_ASSERT(!!(cond));                \
	} while (0)

/* For a request left in pair->req, and a server fabric that was opened anew. */
void t_adopt(struct t_pair *p, struct rd_fab_req *req);
void t_open_cq(struct t_end *e);

bool t_verbs(void);
/* A fabric of the provider under test; @opts are for iwarp. */
int t_fab_open(struct rd_loop *loop, const struct rd_fab_iwarp_opts *opts, struct rd_fab **out);

uint64_t t_now(void);
int t_count_fds(void);
struct rd_iw_stats *t_stats(struct t_end *e);

struct rd_fab_mr *t_reg(struct t_end *e, void *buf, size_t len, int access);
#define T_ACCESS_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

/* Post one signaled work request over one piece of memory. */
int t_send(struct t_end *e, uint64_t id, const struct rd_fab_mr *mr, size_t off, uint32_t len);
int t_recv(struct t_end *e, uint64_t id, const struct rd_fab_mr *mr, size_t off, uint32_t len);
int t_rdma(struct t_end *e, enum ibv_wr_opcode op, uint64_t id, const struct rd_fab_mr *mr,
	   size_t off, uint32_t len, uint64_t raddr, uint32_t rkey);

/* Deterministic contents. */
void t_fill(void *buf, size_t len, uint32_t seed);
bool t_filled(const void *buf, size_t len, uint32_t seed);

#endif /* T_FAB_H */
