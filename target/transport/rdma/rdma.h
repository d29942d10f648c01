/* SPDX-License-Identifier: BSD-3-Clause */
/* The RDMA transport's own objects, shared by rdma.c (data path) and rdma_cm.c (connections). */
#ifndef RDT_RDMA_H
#define RDT_RDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/log.h"
#include "util/loop.h"
#include "nvmf/wire.h"
#include "fabric/fabric.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/pool.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/reactor.h"
#include "rdma_transport.h"
#include "target/nvmf/req_pool.h"
#include "target/nvmf/request.h"
#include "target/nvmf/transport.h"

struct rdt_target;

#define RDT_WR_MAGIC 0x72777274u

/* What a wr_id points to: a part of struct rdt_rdma_recv or of struct rdt_rdma_req. */
struct rdt_rdma_wr {
	uint32_t magic;
	uint8_t kind; /* enum rdt_rdma_wr_kind */
};

enum rdt_rdma_wr_kind { RDT_WR_RECV, RDT_WR_READ, RDT_WR_WRITE, RDT_WR_SEND };

/* A host's part of a pool. */
struct rdt_recv_share {
	struct rd_fab_share *share;
	const struct rdt_share *host;
	unsigned int conns;
	LIST_ENTRY(rdt_recv_share) link; /* pool->shares */
};

/* RECVs that the queues of a reactor share. */
struct rdt_recv_pool {
	struct rd_fab_dev *dev;
	struct rd_log *log;
	struct rd_fab_srq *srq;
	SLIST_HEAD(, rdt_rdma_area) areas;
	LIST_HEAD(, rdt_recv_share) shares;
	struct rdt_recv_share *unassociated; /* before Connect; all together */
	uint32_t in_capsule_max;
	uint32_t total;
	uint32_t posted;
	uint32_t max;
	struct ibv_recv_wr *again; /* to be posted together, by @post */
	uint32_t again_count;
	struct rd_defer post;
};

LIST_HEAD(rdt_rdma_conn_list, rdt_rdma_conn);

#define RDT_QPN_BUCKETS 4096u

/* One device on one reactor: completion queue and the registration of the reactor's buffers. */
struct rdt_rdma_dev {
	struct rdt_reactor *reactor;
	struct rd_fab_dev *dev;
	struct rd_fab_cq *cq;
	struct rd_fab_mr *mr;  /* slab and reserve */
	struct rd_defer again; /* the CQ had more than one round's worth */
	unsigned int conns;
	unsigned int mrs;               /* registered now; not those of @reqs and @pools */
	struct rdt_req_pool reqs[2];    /* of I/O and of admin queues, as @pools */
	struct rdt_recv_pool *pools[2]; /* NULL: each queue has RECVs of its own */
	struct rdt_rdma_conn_list by_qpn[RDT_QPN_BUCKETS]; /* those that use a pool */
	SLIST_ENTRY(rdt_rdma_dev) link;
};

struct rdt_rdma {
	struct rdt_reactor *reactor;
	struct rd_fab *fabs[RDT_FABS];
	SLIST_HEAD(, rdt_rdma_dev) devs;
	unsigned int out;      /* READs and SENDs of all connections that have not completed */
	struct rd_timer stall; /* armed while there are some, and one look longer */
};

/* Transfers of a connection that complete in order, for rdma_watch.c. In bytes, ever. */
struct rdt_rdma_stream {
	uint64_t posted;
	uint64_t done;
	uint64_t mark;  /* posted at one look; */
	uint64_t seen;  /* done at the last one */
	uint32_t looks; /* since @mark was set */
	uint32_t still; /* in which nothing was done */
	uint32_t grace; /* looks more before it is too slow */
};

struct rdt_rdma_recv {
	struct rdt_rdma_wr wr;
	struct rdt_rdma_conn *conn;     /* whose capsule it holds, or whose own it is */
	struct rdt_recv_pool *pool;     /* NULL: the connection's own */
	LIST_ENTRY(rdt_rdma_recv) link; /* conn->recvs_used */
	struct rdt_capsule cap;
	struct ibv_sge sge[2]; /* SQE slot, in-capsule area */
	struct ibv_recv_wr rwr;
};

/* Registered memory for RECVs. */
struct rdt_rdma_area {
	uint8_t *mem; /* in-capsule areas, SQE slots */
	size_t len;
	struct rd_fab_mr *mr;
	struct rdt_rdma_recv *recvs; /* [count] */
	uint32_t count;
	SLIST_ENTRY(rdt_rdma_area) link;
};

/* A request with the transport's part of it. */
struct rdt_rdma_req {
	struct rdt_rdma_wr read;
	struct rdt_rdma_wr write;
	struct rdt_rdma_wr send;
	STAILQ_ENTRY(rdt_rdma_req) sent; /* in conn->sent */
	uint32_t lkey;                   /* of req.cqe, where that may not be sent inline */
	uint32_t read_pos;               /* bytes of a list that READs were posted for, */
	uint32_t read_counted;           /* and of these, as done */
	uint32_t answer_len;             /* bytes of the WRITEs and the SEND */
	uint16_t read_next;              /* descriptor of a list that comes next */
	uint16_t reads_out;              /* of a list */
	uint16_t extra;                  /* WRs of a list's answer beyond two */
	bool read_bad;                   /* a READ of a list failed */
	bool lost; /* could not be posted: comes back when the connection has been destroyed */
	struct rdt_req req;
} __attribute__((aligned(64))); /* the size of a cache line */

/* The work requests of an answer. What is the same in all of a connection is filled in once. */
struct rdt_rdma_answer {
	struct ibv_send_wr write; /* the data of a plain command, then @send */
	struct ibv_sge data;
	struct ibv_send_wr send;
	struct ibv_sge cqe;
	unsigned int send_flags;
	unsigned int inv_flags; /* of a SEND with Invalidate */
	bool can_inv;
};

struct rdt_rdma_conn {
	struct rdt_qpair qp;
	struct rd_fab_conn *conn;
	struct rdt_rdma_dev *rdev;
	struct rdt_rdma_area *area;            /* RECVs, unless it uses a pool */
	struct rdt_recv_pool *pool;            /* NULL: it has RECVs of its own */
	struct rdt_recv_share *share;          /* of @pool */
	LIST_ENTRY(rdt_rdma_conn) by_qpn;      /* with a pool */
	LIST_HEAD(, rdt_rdma_recv) recvs_used; /* of the pool, with capsules */
	struct rdt_rdma_answer answer;         /* the one being made */
	struct rdt_req_list read_wait;         /* beyond the READ depth, in order */
	struct rdt_req_list write_wait;   /* answers with lists, beyond what the SQ has room for */
	uint32_t extra_free;              /* WRs of the SQ beyond those of plain commands */
	STAILQ_HEAD(, rdt_capsule) early; /* came before ESTABLISHED */
	STAILQ_HEAD(, rdt_rdma_req) sent; /* SENDs that have not completed, in order */
	uint32_t reads_out;
	uint32_t sends_out;
	uint32_t recvs_out; /* of its own, posted */
	struct rdt_rdma_stream reads;
	struct rdt_rdma_stream answers;
	bool established;
	bool disconnected;
	bool closing;
	bool listed; /* in rdev->by_qpn */
	struct rd_defer finish;
};

extern const struct rdt_transport_ops rdt_rdma_ops;

static inline struct rdt_rdma_conn *rdt_rdma_conn_of(struct rdt_qpair *qp)
{
	return rd_container_of(qp, struct rdt_rdma_conn, qp);
}

/* rdma.c */
struct rdt_rdma_dev *rdt_rdma_dev_get(struct rdt_reactor *r, struct rd_fab_dev *dev);
int rdt_rdma_conn_init(struct rdt_rdma_conn *rc, struct rdt_reactor *r, uint16_t qid,
		       uint16_t depth);
int rdt_rdma_conn_setup(struct rdt_rdma_conn *rc); /* conn is there: memory, queue pair, RECVs */
void rdt_rdma_conn_free(
	struct rdt_rdma_conn *rc); /* any stage; the connection is destroyed here at the latest */
void rdt_rdma_conn_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg);

static inline void rdt_rdma_wr_init(struct rdt_rdma_wr *wr, enum rdt_rdma_wr_kind kind)
{
	wr->magic = RDT_WR_MAGIC;
	wr->kind = (uint8_t)kind;
}

/* rdma_recv.c */
int rdt_rdma_pools_create(struct rdt_rdma_dev *rdev);
void rdt_rdma_pools_free(struct rdt_rdma_dev *rdev); /* no connection is left */
/* A connection's memory; then, with its queue pair there, its RECVs. */
int rdt_rdma_recvs_create(struct rdt_rdma_conn *rc);
int rdt_rdma_recvs_start(struct rdt_rdma_conn *rc);
void rdt_rdma_recvs_joined(struct rdt_rdma_conn *rc); /* qp.share is its host's now */
void rdt_rdma_recvs_stop(struct rdt_rdma_conn *rc);   /* before rc->conn is destroyed. Idempotent */
void rdt_rdma_recvs_free(struct rdt_rdma_conn *rc);
/*
 * A RECV has completed: whose message is it? NULL: of a connection that is gone. Without success,
 * or on a connection that closes, a shared one is posted again already.
 */
struct rdt_rdma_conn *rdt_rdma_recv_owner(struct rdt_rdma_dev *rdev, struct rdt_rdma_recv *recv,
					  const struct ibv_wc *wc);
int rdt_rdma_recv_again(struct rdt_rdma_recv *recv); /* its capsule is done. Returns 0 or -errno */

/* rdma_watch.c */
void rdt_rdma_watch_init(struct rdt_rdma *rdma);
void rdt_rdma_watch(struct rdt_rdma_conn *rc); /* something is out, and the timer is not armed */

/* rdma_cm.c */
/* The one of @kind, unless it is open. Returns 0, or -errno with the reason logged. */
int rdt_rdma_open_fab(const struct rdt_target *target, struct rd_loop *loop, enum rdt_fab_kind kind,
		      struct rd_fab *fabs[RDT_FABS]);
int rdt_rdma_open_fabs(struct rdt_reactor *r);

/* Of a reactor, on its thread: see struct rdt_transport. */
int rdt_rdma_init(struct rdt_reactor *r);
void rdt_rdma_fini(struct rdt_reactor *r);
unsigned int rdt_rdma_mrs(const struct rdt_reactor *r);
unsigned int rdt_rdma_capsules(const struct rdt_reactor *r); /* in RECVs of pools */

#endif /* RDT_RDMA_H */
