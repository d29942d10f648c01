/* SPDX-License-Identifier: BSD-3-Clause */
/* A target with real reactor threads and sockets, and hosts made of the fabric seam. */
#ifndef T_RDMA_H
#define T_RDMA_H

#include "fabric/fabric.h"
#include "t_target.h"
#include "target/config/config.h"

#define T_RDMA_DEPTH    64u
#define T_RDMA_PATIENCE (10 * RD_NSEC_PER_SEC)
#define T_RDMA_CAPSULE  (NVME_SQE_SIZE + T_INCAPSULE)

struct t_rdma_server {
	struct rd_loop *loop;
	struct rdt_config cfg;
	struct rdt_listener_config listener;
	struct rdt_subsys_config subsys;
	struct rdt_ns_config ns[2]; /* the second one delays writes for an hour */
	struct rdt_layer_config layer;
	struct rdt_target *t;
	struct rd_fab *fab;        /* the host's */
	struct rd_loop *host_loop; /* its loop, if it is not `loop` */
	bool drained;
};

struct t_rdma_host {
	struct t_rdma_server *srv;
	struct rd_fab_conn *conn;
	struct rd_fab_cq *cq;
	struct rd_fab_mr *mr; /* of mem */
	uint8_t *mem;         /* T_RDMA_DEPTH answers, two capsules, then data */
	uint8_t *capsule;     /* the capsule for the next command */
	uint8_t *data;
	size_t len;
	struct nvmf_rdma_cm_req cm;
	size_t cm_len;
	const char *nqn;
	uint16_t ird;
	int event; /* the last one's type; -1: none yet */
	uint8_t priv[64];
	size_t priv_len;
	unsigned int answers;
	struct nvme_cqe last;
	unsigned int ok; /* of the answers */
};

/* One host with an admin queue and an I/O queue. */
struct t_rdma_assoc {
	struct t_rdma_server s;
	struct t_rdma_host admin;
	struct t_rdma_host io;
};

/* Time that a test skips: the reactors' clock is the real one plus this. */
extern _Atomic uint64_t t_rdma_skipped_ns;

/* @recvs: maximum of RECVs that the I/O queues of a reactor share; 0: the minimum */
void t_rdma_server_start_with(struct t_rdma_server *s, uint32_t reactors, uint32_t recvs);
void t_rdma_server_start(struct t_rdma_server *s);
void t_rdma_server_stop(struct t_rdma_server *s);
void t_rdma_turn(struct t_rdma_server *s);

/* Turn the loop until @cond, or until the timeout. */
#define t_rdma_wait_for(s, cond)                                              \
	do {                                                                  \
		uint64_t end_ = rd_loop_now_raw((s)->loop) + T_RDMA_PATIENCE; \
		while (!(cond) && rd_loop_now_raw((s)->loop) < end_)          \
			t_rdma_turn(s);                                       \
		CU_ASSERT_TRUE(cond);                                         \
	} while (0)

void t_rdma_host_init(struct t_rdma_host *h, struct t_rdma_server *s, uint16_t qid);
void t_rdma_host_reach(struct t_rdma_host *h); /* begins to connect */
void t_rdma_host_open(struct t_rdma_host *h);  /* connects, or is rejected: @h->event */
void t_rdma_host_close(struct t_rdma_host *h);
/* The three above, and Connect. With @qid 0 it also enables the new controller, *@cntlid. */
void t_rdma_host_start(struct t_rdma_host *h, struct t_rdma_server *s, const char *nqn,
		       uint16_t qid, uint16_t *cntlid);
/* Sends a capsule of @len bytes: @sqe, and what is behind it in @h->capsule. */
void t_rdma_host_send(struct t_rdma_host *h, const struct nvme_sqe *sqe, uint32_t len);
void t_rdma_command(struct t_rdma_host *h, struct nvme_sqe *sqe, uint8_t opcode, uint8_t *data,
		    uint32_t len);
/* Sends a read or write of T_MDTS in namespace 1: the transfer at @index times T_MDTS of the
 * namespace and of @h->data. With a loop of the host's own, its capsule leaves with the next turn
 * of that. */
void t_rdma_send_io(struct t_rdma_host *h, uint8_t opcode, unsigned int index);
/* Sends @sqe and returns the status of its answer. */
uint16_t t_rdma_answer(struct t_rdma_host *h, const struct nvme_sqe *sqe);
uint16_t t_rdma_connect_queue(struct t_rdma_host *h, uint16_t cntlid);
void t_rdma_enable(struct t_rdma_host *h);

void t_rdma_assoc_open(struct t_rdma_assoc *a, uint16_t ird);
void t_rdma_assoc_close(struct t_rdma_assoc *a);

#endif /* T_RDMA_H */
