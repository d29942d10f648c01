/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two fabrics on one loop, for the tests of the providers. The provider is iwarp over loopback
 * sockets, or, with RD_TEST_FABRIC=verbs, verbs on an RDMA device:
 *
 * RD_TEST_ADDR and RD_TEST_ADDR6 are the addresses of the target's device, RD_TEST_PEER and
 * RD_TEST_PEER6 those of the initiator's device, if it is another one. Optional: RD_TEST_SILENT, an
 * address that the device can reach and that never answers; RD_TEST_LINK, the device that
 * test_hotplug.c removes and adds.
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
#define T_WAIT   (10 * RD_NSEC_PER_SEC) /* timeout for events that should occur at once */

/* One side: its fabric, and the events and completions that it got. */
struct t_end {
	struct t_pair *pair;
	struct rd_fab *fab;
	struct rd_fab_dev *dev;
	struct rd_fab_cq *cq;
	struct rd_fab_srq *srq;
	struct rd_fab_conn *conn;
	struct rd_fab_mr **keys; /* of t_reg() */
	unsigned int nkeys;
	struct ibv_wc *wc; /* all completions so far */
	int nwc;
	bool no_poll; /* do not poll the completion queue */
	int resolved, established, rejected, failed, disconnected, removed;
	int status;
	char reason[256];
	uint8_t pd[RD_MPA_MAX_PD];
	size_t pd_len;
	struct rd_iw_stats stats;          /* for verbs: its gauges under iwarp's names */
	enum rd_fab_event_type destroy_on; /* with @destroy: destroy the connection in this event */
	bool destroy;
};

struct t_opts {
	bool ipv6;
	bool srq;       /* both sides have one */
	bool manual;    /* keep connection requests in pair->req instead of accepting them */
	bool no_accept; /* adopt the request, but do not accept it */
	bool reject;
	bool coalesce;  /* completions, on both sides */
	uint32_t depth; /* queue depth; 0: 64 */
	uint32_t sges;  /* 0: 16 */
	uint64_t timeout_ns;
	const struct rd_clock *clock; /* of the loop */
	struct rd_fab_iwarp_opts client, server;
	struct rd_fab_conn_param cparam, sparam; /* IRD and ORD; 0xffff means 0, 0 means 16 */
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
	int fds;                     /* descriptors open before; 0: do not compare */
	uint16_t seen_ird, seen_ord; /* of the last connection request */
	uint8_t req_pd[RD_MPA_MAX_PD];
	size_t req_pd_len;
	int requests;
};

/* Open both fabrics, and listen. */
void t_pair_open(struct t_pair *p, const struct t_opts *opts);
/* Resolve and connect, without waiting. */
void t_pair_start(struct t_pair *p);
/* t_pair_open() and t_pair_start(); waits until both sides are established. */
void t_pair_connect(struct t_pair *p, const struct t_opts *opts);
/* A pair that ends with its block. It has to be opened. */
#define T_PAIR(p) struct t_pair p __attribute__((cleanup(t_pair_close)))
/* Close everything, keys of t_reg() included. Asserts that no socket, other key or connection is
 * left. */
void t_pair_close(struct t_pair *p);
/* One turn of the loop; collects completions. */
void t_turn(struct t_pair *p, uint64_t max_ns);

/* The tests poll, because a device that is not armed reports no completion. */
#define T_NAP (RD_NSEC_PER_MSEC * (t_verbs() ? 1 : 20))

#define T_UNTIL(p, cond)                            \
	do {                                        \
		uint64_t t_end_ = t_now() + T_WAIT; \
		while (!(cond) && t_now() < t_end_) \
			t_turn((p), T_NAP);         \
		CU_ASSERT(!!(cond));                \
	} while (0)

/* Adopt a request in pair->req on a server fabric that was opened again. */
void t_adopt(struct t_pair *p, struct rd_fab_req *req);
void t_open_cq(struct t_end *e);

bool t_verbs(void);
/* Open a fabric of the provider under test; @opts are used for iwarp. */
int t_fab_open(struct rd_loop *loop, const struct rd_fab_iwarp_opts *opts, struct rd_fab **out);

uint64_t t_now(void);
int t_count_fds(void);
struct rd_iw_stats *t_stats(struct t_end *e);

/* A key that t_pair_close() deregisters, if t_dereg() has not. */
struct rd_fab_mr *t_reg(struct t_end *e, void *buf, size_t len, int access);
void t_dereg(struct t_end *e, struct rd_fab_mr *mr);
#define T_ACCESS_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

/* Post one signaled work request with one SGE. */
int t_send(struct t_end *e, uint64_t id, const struct rd_fab_mr *mr, size_t off, uint32_t len);
int t_recv(struct t_end *e, uint64_t id, const struct rd_fab_mr *mr, size_t off, uint32_t len);
int t_rdma(struct t_end *e, enum ibv_wr_opcode op, uint64_t id, const struct rd_fab_mr *mr,
	   size_t off, uint32_t len, uint64_t raddr, uint32_t rkey);

/* Fill with deterministic contents. */
void t_fill(void *buf, size_t len, uint32_t seed);
bool t_filled(const void *buf, size_t len, uint32_t seed);

void t_nobody_listens(void); /* a case of both providers */

#endif /* T_FAB_H */
