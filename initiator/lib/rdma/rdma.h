/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/RDMA of the host: the inside of the transport. */
#ifndef RDI_RDMA_H
#define RDI_RDMA_H

#include "fabric/fabric.h"
#include "internal.h"
#include "util/buddy.h"

/* ---- rdma.c ---- */

/* Options of a controller that are for the fabric. */
struct rdi_rdma_cfg {
	struct rdi_transport_cfg cfg;
	bool verbs; /* an RDMA device; else iwarp */
	bool no_remote_invalidate;
	struct rd_fab_iwarp_opts iwarp;
	char *congestion; /* iwarp.congestion points here */
};

/* What a handle has opened. */
struct rdi_rdma_handle {
	struct rd_fab *fab;
	bool no_remote_invalidate;
};

/* ---- conn.c ---- */

/* The object that the wr_id of a work request points at. */
struct rdi_wr {
	uint32_t magic;
	void (*done)(struct rdi_queue *q, struct rdi_wr *wr, const struct ibv_wc *wc);
};
#define RDI_WR_MAGIC 0x52445752u

/* How the data of a request is made accessible to the device and the peer: req->mapped. */
enum rdi_map_kind {
	RDI_MAP_NONE,
	RDI_MAP_OWN,    /* registered for this request, deregistered when it completes */
	RDI_MAP_REGION, /* within a rdinit_mem_register() region */
	RDI_MAP_BOUNCE, /* copied through the bounce slab */
};

/* The transport's part of a request. req->mark: SGL type 4Fh; the response may invalidate the
 * key. */
struct rdi_rdma_req {
	struct rdi_wr send; /* first member: the wr_id of the SEND points here */
	STAILQ_ENTRY(rdi_rdma_req) sent_link;
	struct rd_fab_mr *mr; /* the memory region that holds the data */
	struct rdi_region *region;
	void *addr; /* address for the device: the caller's buffer or bounce memory */
};
_Static_assert(sizeof(struct rdi_rdma_req) <= sizeof(((struct rdi_req *)0)->transport), "opaque");

static inline struct rdi_rdma_req *rdi_rdma_req(struct rdi_req *req)
{
	return (struct rdi_rdma_req *)req->transport;
}

static inline struct rdi_req *rdi_rdma_req_of(struct rdi_rdma_req *rr)
{
	return (struct rdi_req *)((char *)rr - offsetof(struct rdi_req, transport));
}

/* A SEND work request, prepared except for the fields that differ between commands. */
struct rdi_send {
	struct ibv_send_wr wr;
	struct ibv_sge sge[2]; /* the command; in-capsule data */
};

struct rdi_recv {
	struct rdi_wr wr;
	struct nvme_cqe cqe; /* a RECV has room for exactly a completion */
};

/* The connection of a queue. */
struct rdi_rdma_conn {
	struct rdi_queue *q;
	struct rd_fab_conn *conn;
	struct rd_fab_cq *cq;
	struct rd_fab_dev *dev; /* once resolved */
	struct rd_fab_mr *sqe_mr;
	struct rdi_send send[2]; /* a command, and the second one of a fused pair */
	unsigned int bare_flags; /* send flags without data; IBV_SEND_INLINE where that is faster */
	uint8_t keyed_type;      /* SGL descriptor type for data outside the capsule */
	/* requests whose SEND has not completed, in the order of posting */
	STAILQ_HEAD(, rdi_rdma_req) sent;

	struct rdi_recv *recvs; /* q->cfg.depth of them */
	struct rd_fab_mr *recv_mr;
	struct ibv_recv_wr recv_wr; /* prepared except for the scatter entry */
	struct ibv_sge recv_sge;

	unsigned int posted; /* posted work requests without a completion */
	/* continues when more completions are available than one iteration may handle */
	struct rd_defer again;
	/* the connection is disconnected, or the attempt to connect has failed */
	bool over;

	void *bounce; /* NULL where registration is cheap */
	struct rd_fab_mr *bounce_mr;
	struct rd_buddy *buddy;
};

int rdi_rdma_alloc(struct rdi_queue *q);
void rdi_rdma_release(struct rdi_queue *q);
int rdi_rdma_connect(struct rdi_queue *q, const struct sockaddr *addr);
void rdi_rdma_disconnect(struct rdi_queue *q);
bool rdi_rdma_drained(const struct rdi_queue *q);
void rdi_rdma_drop(struct rdi_queue *q);
void rdi_rdma_poll(struct rdi_queue *q);

/* ---- request.c ---- */

void rdi_rdma_req_init(struct rdi_rdma_conn *c);
/* Prepares what all requests have in common, after the capsule memory was registered. */
void rdi_rdma_req_prepare(struct rdi_rdma_conn *c);
int rdi_rdma_send(struct rdi_queue *q, struct rdi_req *req, unsigned int how);
int rdi_rdma_send_pair(struct rdi_queue *q, struct rdi_req *first, unsigned int how1,
		       struct rdi_req *second, unsigned int how2);
/* Counts the completion of @wr: a completed SEND also stands for all SENDs before it, whose
 * completions are not reported, so c->posted decreases for them too. */
void rdi_rdma_send_over(struct rdi_rdma_conn *c, const struct rdi_wr *wr);
int rdi_rdma_recv_post(struct rdi_rdma_conn *c, struct rdi_recv *recv);
/* Prefetches the request that @wc, a completion to be handled soon, belongs to. */
void rdi_rdma_req_expect(const struct rdi_queue *q, const struct ibv_wc *wc);

/* ---- map.c ---- */

int rdi_rdma_bounce_create(struct rdi_rdma_conn *c);
void rdi_rdma_bounce_destroy(struct rdi_rdma_conn *c);
int rdi_rdma_reg(struct rdi_queue *q, void *addr, size_t len, void **mr);
void rdi_rdma_dereg(struct rdi_queue *q, void *mr);
void rdi_rdma_unmap(struct rdi_queue *q, struct rdi_req *req, bool done);
/* rdi_rdma_map() where registration is expensive. */
int rdi_rdma_map_shared(struct rdi_queue *q, struct rdi_req *req);

/*
 * Makes the data of @req accessible to its command, with @access where each command has a key of
 * its own. Copies into bounce memory where bounce memory is used. Returns 0, -EAGAIN (no bounce
 * memory now), -EMSGSIZE (larger than all bounce memory) or -ENOMEM.
 */
static inline int rdi_rdma_map(struct rdi_queue *q, struct rdi_req *req, int access)
{
	struct rdi_rdma_conn *c = q->conn;
	struct rdi_rdma_req *rr = rdi_rdma_req(req);
	int rc;

	if (!c->dev->caps.cheap_mr)
		return rdi_rdma_map_shared(q, req);
	rc = rd_fab_reg_mr(c->dev, req->data, req->len, access, &rr->mr);
	if (rc)
		return rc;
	req->mapped = RDI_MAP_OWN;
	rr->addr = req->data;
	return 0;
}

#endif /* RDI_RDMA_H */
