/* SPDX-License-Identifier: BSD-3-Clause */
/* Private objects of the RDMA transport: rdma.c (data path), rdma_recv.c, rdma_watch.c, rdma_cm.c
 * (connections). */
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
#include "target/nvmf/handover.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/pool.h"
#include "target/nvmf/progress.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/reactor.h"
#include "rdma_transport.h"
#include "target/nvmf/req_pool.h"
#include "target/nvmf/request.h"
#include "target/nvmf/transport.h"

struct rdt_target;
struct rdt_target_config;

#define RDT_WR_MAGIC 0x72777274u

/* Target of a wr_id: embedded in struct rdt_rdma_recv and struct rdt_rdma_req. */
struct rdt_rdma_wr {
	uint32_t magic;
	uint8_t kind; /* enum rdt_rdma_wr_kind */
};

enum rdt_rdma_wr_kind { RDT_WR_RECV, RDT_WR_READ, RDT_WR_WRITE, RDT_WR_SEND };

/* The share of a host in a pool of RECVs. */
struct rdt_recv_share {
	struct rd_fab_share *share;
	const struct rdt_share *host;
	unsigned int conns;
	LIST_ENTRY(rdt_recv_share) link; /* a bucket of pool->shares */
};

LIST_HEAD(rdt_recv_share_list, rdt_recv_share);

#define RDT_RECV_SHARES 1024u

/* RECVs shared by queue pairs of a reactor. */
struct rdt_recv_pool {
	struct rd_fab_dev *dev;
	struct rd_log *log;
	struct rd_fab_srq *srq;
	SLIST_HEAD(, rdt_rdma_area) areas;
	struct rdt_recv_share_list shares[RDT_RECV_SHARES]; /* by @host */
	struct rdt_recv_share *unassociated; /* share of all unassociated connections */
	uint32_t in_capsule_max;
	uint32_t total;
	uint32_t posted;
	uint32_t max;
	struct ibv_recv_wr *again; /* chain of RECVs to be posted by @post */
	uint32_t again_count;
	struct rd_defer post;
};

LIST_HEAD(rdt_rdma_conn_list, rdt_rdma_conn);

#define RDT_QPN_BUCKETS 4096u

/* A device on one reactor: completion queue, and registration of the reactor's buffers. */
struct rdt_rdma_dev {
	struct rdt_reactor *reactor;
	struct rd_fab_dev *dev;
	struct rd_fab_cq *cq;
	struct rd_fab_mr *mr;  /* slab and reserve */
	struct rd_defer again; /* continues if poll found more completions than one round handles */
	unsigned int conns;
	/* number of registered memory regions, without those of @reqs and @pools */
	unsigned int mrs;
	struct rdt_req_pool reqs[2];    /* for I/O queues and for admin queues, like @pools */
	struct rdt_recv_pool *pools[2]; /* NULL: each queue pair has its own RECVs */
	/* connections with a pool, by QP number */
	struct rdt_rdma_conn_list by_qpn[RDT_QPN_BUCKETS];
	SLIST_ENTRY(rdt_rdma_dev) link;
};

/* Kinds of fabrics. A reactor has one fabric of each kind. The main loop has one of each verbs
 * kind, and an iwarp fabric for each set of socket options, which accepted sockets inherit. */
enum rdt_fab_kind {
	RDT_FAB_IWARP,
	/* the kinds from here on are verbs, with a bit for each option below */
	RDT_FAB_VERBS,
	RDT_FABS = RDT_FAB_VERBS + 4,
};

#define RDT_FAB_NO_INV    1
#define RDT_FAB_NO_INLINE 2

/* The state of a listener. */
struct rdt_rdma_listener {
	struct rd_fab_listener *lis; /* NULL: not listening */
	enum rdt_fab_kind fab;
	const char *prtype; /* provider type of the discovery log; NULL: unknown */
};

/* The state of a reactor. */
struct rdt_rdma {
	struct rdt_reactor *reactor;
	struct rdt_inbound inbound; /* connection requests to be accepted */
	struct rd_fab *fabs[RDT_FABS];
	SLIST_HEAD(, rdt_rdma_dev) devs;
	unsigned int out; /* READs and SENDs in flight on all connections */
	/* stall watchdog; armed while @out is not 0, and for one period after */
	struct rd_timer stall;
};

struct rdt_rdma_recv {
	struct rdt_rdma_wr wr;
	struct rdt_rdma_conn *conn;     /* the connection whose capsule it holds, or that owns it */
	struct rdt_recv_pool *pool;     /* NULL: it belongs to the connection */
	LIST_ENTRY(rdt_rdma_recv) link; /* conn->recvs_used */
	struct rdt_capsule cap;
	struct ibv_sge sge[2]; /* SQE slot, then in-capsule area */
	struct ibv_recv_wr rwr;
};

/* Registered memory for RECVs. */
struct rdt_rdma_area {
	uint8_t *mem; /* in-capsule areas, then SQE slots */
	size_t len;
	struct rd_fab_mr *mr;
	struct rdt_rdma_recv *recvs; /* [count] */
	uint32_t count;
	SLIST_ENTRY(rdt_rdma_area) link;
};

/* A keyed descriptor of an SGL list. */
struct rdt_rdma_desc {
	uint64_t addr;
	uint32_t key;
	uint32_t len; /* never 0 */
};

/* An SGL list and the progress of its READs. */
struct rdt_rdma_list {
	uint32_t read_pos;           /* bytes for which READs were posted */
	uint32_t read_counted;       /* bytes counted as done */
	uint16_t read_next;          /* index of the next descriptor */
	uint16_t reads_out;          /* READs in flight */
	bool read_bad;               /* a READ failed */
	struct rdt_rdma_desc desc[]; /* [rdt_rdma_msdbd()] */
};

/* A request with the transport's part. */
struct rdt_rdma_req {
	struct rdt_rdma_wr read;
	struct rdt_rdma_wr write;
	struct rdt_rdma_wr send;
	STAILQ_ENTRY(rdt_rdma_req) sent; /* in rc->sent */
	uint64_t raddr;                  /* address of the data at the host, if @descs is 0 */
	uint32_t rkey;                   /* its key */
	uint32_t lkey;                   /* key of req.cqe, on devices that cannot send it inline */
	uint32_t answer_len;             /* bytes of the WRITEs and of the SEND */
	/* work requests of an SGL list's answer beyond the usual two */
	uint8_t extra;
	bool lost;       /* it could not be posted; completes when the connection is destroyed */
	bool invalidate; /* the host requests remote invalidation of @rkey */
	uint8_t descs;   /* keyed descriptors in @list; 0: the data is at @raddr */
	struct rdt_rdma_list *list; /* NULL: the request has had no list yet */
	struct rdt_req req;
} __attribute__((aligned(64))); /* so that requests share no cache line */
_Static_assert(offsetof(struct rdt_rdma_req, req) == 64, "a request begins a cache line");
_Static_assert(RDT_MSDBD_MAX <= UINT8_MAX, "@descs and @extra");

/* The work requests of an answer. Fields that are constant for a connection are filled in once. */
struct rdt_rdma_answer {
	struct ibv_send_wr write; /* data of a command without SGL list; linked to @send */
	struct ibv_sge data;
	struct ibv_send_wr send;
	struct ibv_sge cqe;
	unsigned int send_flags;
	unsigned int inv_flags; /* flags of a SEND with Invalidate */
	bool can_inv;
};

struct rdt_rdma_conn {
	struct rdt_qpair qp;
	struct rdt_rdma *rdma;
	struct rd_fab_conn *conn;
	struct rdt_rdma_dev *rdev;
	/* the connection's own RECVs; NULL when it uses a pool */
	struct rdt_rdma_area *area;
	struct rdt_recv_pool *pool;       /* NULL: the connection has its own RECVs */
	struct rdt_recv_share *share;     /* the host's share of @pool */
	LIST_ENTRY(rdt_rdma_conn) by_qpn; /* rdev->by_qpn, for connections with a pool */
	/* RECVs of the pool that hold capsules of this connection */
	LIST_HEAD(, rdt_rdma_recv) recvs_used;
	struct rdt_rdma_answer answer; /* the answer being built */
	/* requests that wait for a free READ slot, in order */
	struct rdt_req_list read_wait;
	/* requests with SGL lists that wait for room in the SQ, in order */
	struct rdt_req_list write_wait;
	uint32_t extra_free;              /* free entries of the SQ beyond two for each command */
	STAILQ_HEAD(, rdt_capsule) early; /* capsules that arrived before ESTABLISHED */
	STAILQ_HEAD(, rdt_rdma_req) sent; /* SENDs in flight, in order */
	uint32_t reads_out;
	uint32_t sends_out;
	uint32_t recvs_out; /* posted own RECVs */
	struct rdt_progress reads;
	struct rdt_progress answers;
	bool established;
	bool disconnected;
	bool closing;
	bool listed; /* in rdev->by_qpn */
	struct rd_defer finish;
};

static inline struct rdt_rdma *rdt_rdma_of(const struct rdt_reactor *r)
{
	return r->transport_state[RDT_TRANSPORT_RDMA];
}

static inline struct rdt_rdma_conn *rdt_rdma_conn_of(struct rdt_qpair *qp)
{
	return rd_container_of(qp, struct rdt_rdma_conn, qp);
}

static inline struct rdt_rdma_req *rdt_rdma_req_of(struct rdt_req *req)
{
	return rd_container_of(req, struct rdt_rdma_req, req);
}

/* rdma_sgl.c */
struct nvme_status rdt_rdma_parse_sgl(struct rdt_req *req); /* see struct rdt_transport_ops */
void rdt_rdma_identify(const struct rdt_qpair *qp, struct nvme_id_ctrl *id); /* likewise */
void rdt_rdma_req_fini(struct rdt_req *req); /* see struct rdt_req_mem */
/* Returns the maximum number of keyed descriptors: as configured, and as many as fit into a
 * capsule. 1: no lists. */
uint8_t rdt_rdma_msdbd(const struct rdt_target_config *cfg);

/* rdma.c */
extern const struct rdt_transport_ops rdt_rdma_ops;
int rdt_rdma_conn_init(struct rdt_rdma_conn *rc, struct rdt_reactor *r, uint16_t qid,
		       uint16_t depth);
/* allocates memory, the QP and RECVs; @rc->conn exists */
int rdt_rdma_conn_setup(struct rdt_rdma_conn *rc);
/* Frees a connection in any state, and destroys the fabric connection if it still exists. */
void rdt_rdma_conn_free(struct rdt_rdma_conn *rc);
void rdt_rdma_conn_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg);

static inline void rdt_rdma_wr_init(struct rdt_rdma_wr *wr, enum rdt_rdma_wr_kind kind)
{
	wr->magic = RDT_WR_MAGIC;
	wr->kind = (uint8_t)kind;
}

/* rdma_recv.c */
int rdt_rdma_pools_create(struct rdt_rdma_dev *rdev);
void rdt_rdma_pools_free(struct rdt_rdma_dev *rdev); /* no connection may be left */
/* Allocate the memory of a connection, before its QP exists; then its RECVs. */
int rdt_rdma_recvs_create(struct rdt_rdma_conn *rc);
int rdt_rdma_recvs_start(struct rdt_rdma_conn *rc);
/* called after Connect: qp.share is the share of the host */
void rdt_rdma_recvs_joined(struct rdt_qpair *qp);
/* called before rc->conn is destroyed; may be repeated */
void rdt_rdma_recvs_stop(struct rdt_rdma_conn *rc);
void rdt_rdma_recvs_free(struct rdt_rdma_conn *rc);
/* Returns the connection of the message in a completed RECV, or NULL if it has ended. A RECV of a
 * pool that failed, or whose connection closes, is posted again. */
struct rdt_rdma_conn *rdt_rdma_recv_owner(struct rdt_rdma_dev *rdev, struct rdt_rdma_recv *recv,
					  const struct ibv_wc *wc);
/* posts the RECV of a capsule again; a failure ends the connection. See rdt_transport_ops */
void rdt_rdma_capsule_done(struct rdt_qpair *qp, struct rdt_capsule *cap);

/* rdma_watch.c */
void rdt_rdma_watch_init(struct rdt_rdma *rdma);
/* a transfer is in flight and the timer is not armed */
void rdt_rdma_watch(struct rdt_rdma_conn *rc);

/* rdma_cm.c */
void rdt_rdma_take(struct rdt_handover *over, bool refuse); /* called by rdma->inbound */
int rdt_rdma_open_fabs(struct rdt_reactor *r);

/* Open the fabric of kind @kind on @r, unless it is open. Returns 0 or -errno. */
int rdt_rdma_fab(struct rdt_reactor *r, enum rdt_fab_kind kind);

/* rdma_move.c: see struct rdt_transport_ops */
void rdt_rdma_hold(struct rdt_qpair *qp, enum rdt_hold_how how);
bool rdt_rdma_rests(struct rdt_qpair *qp);
int rdt_rdma_move_out(struct rdt_qpair *qp, json_t *rec);
int rdt_rdma_move_in(struct rdt_reactor *r, const struct rdt_moved_in *in, struct rdt_qpair **out);

/* Called on the reactor's thread: see struct rdt_transport. */
int rdt_rdma_init(struct rdt_reactor *r);
void rdt_rdma_fini(struct rdt_reactor *r);
unsigned int rdt_rdma_mrs(const struct rdt_reactor *r);
unsigned int rdt_rdma_capsules(const struct rdt_reactor *r); /* capsules in RECVs of pools */

#endif /* RDT_RDMA_H */
