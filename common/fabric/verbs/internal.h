/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs provider: RDMA devices of the kernel, through librdmacm and libibverbs.
 *
 * Each fabric has an event channel of its own and opens each device for itself: queue pairs belong
 * to the fabric's own ibv_context and are connected by their number, not by rdma_create_qp(). So a
 * fabric shares neither asynchronous events nor locks of a device's user space driver with other
 * threads, and does not depend on librdmacm's handling of the device.
 *
 * Only one object crosses threads: a connection request that has not been adopted (struct
 * rd_vb_id).
 *
 * Every work request is recorded (struct rd_vb_wq) as well as given to the device. So they can be
 * counted, and a connection always ends in the same way: what the device has not completed when the
 * queue pair is destroyed is completed here, as flushed. Devices treat the work requests of a
 * failed queue pair very differently: some lose what is posted, some refuse it, some take a while,
 * and LAST_WQE_REACHED does not exist on iWARP.
 *
 * Special cases for single drivers, such as siw: quirk.h, and the list in quirk_siw.c.
 *
 * User callbacks run only from deferred work or from an event channel, never inside a call.
 */
#ifndef RD_VB_INTERNAL_H
#define RD_VB_INTERNAL_H

#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>

#include "fabric/conn_events.h"
#include "fabric/fabric.h"
#include "fabric/wc_ring.h"
#include "util/loop.h"

#include "cm_event.h"
#include "err.h"
#include "quirk.h"
#include "stats.h"

/*
 * The private data that fits every message of the InfiniBand CM: the 92 bytes of a REQ without the
 * 36 of rdma_cm.
 */
#define RD_VB_IB_PRIVATE    56
#define RD_VB_IWARP_PRIVATE 251 /* as RD_IW_MAX_PRIVATE */
#define RD_VB_MAX_DEPTH     255 /* READs: rdma_cm has eight bits */
#define RD_VB_MAX_WR        65536

struct rd_vb_fab;
struct rd_vb_dev;
struct rd_vb_conn;
struct rd_vb_attempt;

/* ---- event channels and identifiers: cm.c ---- */

/*
 * Reference counted: held by the fabric and by requests that came by it and have not been adopted.
 */
struct rd_vb_chan {
	struct rdma_event_channel *ch;
	atomic_uint refs;
};

int rd_vb_chan_create(struct rd_vb_chan **out);
void rd_vb_chan_put(struct rd_vb_chan *chan);

enum rd_vb_id_kind {
	RD_VB_ID_REQUEST, /* has no owner until it is adopted */
	RD_VB_ID_CONN,
	RD_VB_ID_LISTENER,
	RD_VB_ID_ANCHOR, /* bound to a device: gets an event when the device is removed */
};

/* An rdma_cm_id; its context points here. */
struct rd_vb_id {
	struct rdma_cm_id *cm;
	struct rd_vb_chan *chan;
	/*
	 * The fabric whose loop handles the events of the identifier. NULL while a request is
	 * passed between threads: the loop that received it then reads its events, and only sets
	 * @early. Once rdma_migrate_id() has returned, no such event is outstanding.
	 */
	_Atomic(struct rd_vb_fab *) owner;
	atomic_bool early; /* the peer ended the request before it was adopted */
	enum rd_vb_id_kind kind;
	void *obj; /* of the type that @kind says; used by the owner only */
};

int rd_vb_id_create(struct rd_vb_fab *fab, enum rd_vb_id_kind kind, void *obj,
		    struct rd_vb_id **out);
/* NULL is allowed. Any thread, for a request that was not adopted. */
void rd_vb_id_destroy(struct rd_vb_id *id);
int rd_vb_cm_start(struct rd_vb_fab *fab);
void rd_vb_cm_stop(struct rd_vb_fab *fab);
/* ---- devices: dev.c ---- */

/* An entry of the table that a completion's wr_id refers to. */
struct rd_vb_slot {
	uint32_t gen; /* generation: completions of an earlier one are dropped */
	uint32_t next_free;
	void *obj; /* struct rd_vb_conn, or struct rd_vb_srq */
};

#define RD_VB_QPN_BUCKETS 256

struct rd_vb_dev {
	struct rd_fab_dev base;
	struct rd_vb_fab *fab;
	LIST_ENTRY(rd_vb_dev) link;
	struct ibv_context *ctx; /* NULL after the removal of the device */
	struct ibv_device *ibdev;
	struct ibv_pd *pd;
	const struct rd_vb_quirk *quirk; /* never NULL once the device is open */
	struct ibv_cq *quirk_cq;         /* used by quirk->open() */
	struct rd_io async;
	uint8_t port;
	bool iwarp;
	bool inv_worked; /* a SEND with Invalidate has completed with success */
	bool inv_broken; /* SEND with Invalidate has failed: plain SENDs are used instead */
	bool memlock_said;
	uint32_t max_cqe;
	struct rd_vb_slot *slots;
	uint32_t nslots;
	uint32_t free_slot; /* 0: none; slot 0 is never used */
	LIST_HEAD(, rd_vb_conn)
	by_qpn[RD_VB_QPN_BUCKETS]; /* hashed by the device's queue pair number */
	LIST_HEAD(, rd_vb_cq) cqs;
	LIST_HEAD(, rd_vb_srq) srqs;
	LIST_HEAD(, rd_vb_mr) mrs;
	char name[64];
};

struct rd_vb_mr {
	struct rd_fab_mr base;
	LIST_ENTRY(rd_vb_mr) link;
	struct ibv_mr *mr; /* NULL once the device was removed */
};

struct rd_vb_dev *rd_vb_dev(struct rd_fab_dev *dev);
/*
 * Returns "iwarp", "roce" or "ib" for the device of @cm, or NULL if @cm is not bound to a device.
 */
const char *rd_vb_prtype(const struct rdma_cm_id *cm);
/* Finds or creates the device object for the device of @id. Returns 0 or -errno. */
int rd_vb_dev_get(struct rd_vb_fab *fab, struct rd_vb_id *id, struct rd_vb_dev **out);
/*
 * The device was removed: ends its connections and closes all kernel objects. The objects of the
 * seam stay until their users destroy them.
 */
void rd_vb_dev_removed(struct rd_vb_dev *dev);
void rd_vb_dev_free(struct rd_vb_dev *dev);
int rd_vb_slot_get(struct rd_vb_dev *dev, void *obj, uint32_t *slot);
void rd_vb_slot_put(struct rd_vb_dev *dev, uint32_t slot);
int rd_vb_reg_mr(struct rd_fab_dev *dev, void *addr, size_t len, int access,
		 struct rd_fab_mr **out);
void rd_vb_dereg_mr(struct rd_fab_mr *mr);

/* ---- devices that leave: hotplug.c ---- */

struct rd_vb_anchor {
	LIST_ENTRY(rd_vb_anchor) link;
	struct rd_vb_id *id; /* bound to the device */
};

void rd_vb_hotplug_start(struct rd_vb_fab *fab);
void rd_vb_hotplug_stop(struct rd_vb_fab *fab);
/* Creates an anchor for the device of @cm, if there is none and @cm has a device. */
void rd_vb_meet(struct rd_vb_fab *fab, struct rdma_cm_id *cm);
/*
 * The device was removed and its kernel objects are closed: makes librdmacm close its files too,
 * and frees the anchor.
 */
void rd_vb_forget(struct rd_vb_fab *fab, const struct ibv_device *ibdev);
/* The device of @anchor was removed. Frees @anchor. */
void rd_vb_anchor_lost(struct rd_vb_fab *fab, struct rd_vb_anchor *anchor);
/* Handles a uevent of the kernel. NULL: uevents were lost. */
void rd_vb_uevent(struct rd_vb_fab *fab, const char *event);

/* ---- completion queues: cq.c ---- */

/*
 * A CQ of the device. A CQ of the seam consists of several after it has grown: no iWARP device can
 * resize a CQ, but every device can create another one.
 */
struct rd_vb_seg {
	struct rd_vb_cq *cq;
	struct ibv_cq *hw;
	uint32_t size;
	uint32_t reserved; /* entries reserved by queue pairs */
	uint32_t unacked; /* events read and not acknowledged yet: acknowledging takes a lock, so it
			     is done for many at once */
	bool armed;       /* a notification has been requested from the device */
};

#define RD_VB_SEGS 16

struct rd_vb_cq {
	struct rd_fab_cq base;
	struct rd_vb_dev *dev;
	LIST_ENTRY(rd_vb_cq) link;
	struct ibv_comp_channel *ch;
	struct rd_io io;
	struct rd_poller poller;
	struct rd_defer notify;
	struct rd_defer turn;
	struct rd_vb_seg *segs[RD_VB_SEGS];
	uint32_t nsegs;
	/*
	 * Completions that were taken from the device, or made by this provider, and not polled
	 * yet.
	 */
	struct rd_wc_ring ring;
	bool armed; /* the user has requested a notification */
	bool broken;
	int fd; /* eventfd; -1 until rd_vb_cq_fd() is called */
};

int rd_vb_cq_create(struct rd_fab_dev *dev, uint32_t depth, rd_fab_cq_fn fn, void *arg,
		    struct rd_fab_cq **out);
void rd_vb_cq_destroy(struct rd_fab_cq *cq);
int rd_vb_cq_poll(struct rd_fab_cq *cq, int n, struct ibv_wc *wc);
int rd_vb_cq_arm(struct rd_fab_cq *cq);
int rd_vb_cq_fd(struct rd_fab_cq *cq);
struct rd_vb_cq *rd_vb_cq(struct rd_fab_cq *cq);
/* Reserves @n entries in one segment. Returns 0, -ENOSPC or -ENOMEM. */
int rd_vb_cq_reserve(struct rd_vb_cq *cq, uint32_t n, struct rd_vb_seg **out);
/*
 * Adds a completion. @wake: notify the user; a caller that takes completions from the device does
 * so at the end.
 */
void rd_vb_cq_push(struct rd_vb_cq *cq, const struct ibv_wc *wc, bool wake);
/* Takes all completions that the device has at the time of the call. */
void rd_vb_cq_sweep(struct rd_vb_cq *cq);
/* Drops the completions of the connection with this qp_num (of the seam). */
void rd_vb_cq_purge(struct rd_vb_cq *cq, uint32_t qp_num);
void rd_vb_cq_removed(struct rd_vb_cq *cq);
void rd_vb_cq_failed(struct rd_vb_cq *cq);

/* ---- shared receive queues: srq.c ---- */

struct rd_vb_srq {
	struct rd_fab_srq base;
	struct rd_vb_dev *dev;
	LIST_ENTRY(rd_vb_srq) link;
	struct ibv_srq *hw;
	uint64_t *wr_ids; /* by index */
	uint32_t *free;   /* stack of indices */
	uint32_t nfree;
	uint32_t depth;
	uint32_t max_sge;
	uint32_t slot;
	struct rd_vb_cq *counted; /* the CQ in which room for all RECVs is reserved, in the segments
				     of this bit mask */
	uint32_t counted_segs;
};

int rd_vb_srq_create(struct rd_fab_dev *dev, uint32_t max_wr, uint32_t max_sge,
		     struct rd_fab_srq **out);
void rd_vb_srq_destroy(struct rd_fab_srq *srq);
int rd_vb_post_srq_recv(struct rd_fab_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void rd_vb_srq_removed(struct rd_vb_srq *srq);
/* RECV @index has completed: sets wc->wr_id to the user's. False: there is no such RECV. */
bool rd_vb_srq_done(struct rd_vb_srq *srq, uint32_t index, struct ibv_wc *wc);

/* ---- queue pairs: qp.c ---- */

/* wr_id as given to the device: kind, generation, slot, index in the queue. */
enum rd_vb_wr_kind { RD_VB_WR_SEND, RD_VB_WR_RECV, RD_VB_WR_SRQ };

#define RD_VB_GEN_BITS   22
#define RD_VB_SLOT_BITS  20
#define RD_VB_INDEX_BITS 20
#define RD_VB_GEN_MASK   ((1u << RD_VB_GEN_BITS) - 1)
#define RD_VB_SLOT_MASK  ((1u << RD_VB_SLOT_BITS) - 1)
#define RD_VB_INDEX_MASK ((1u << RD_VB_INDEX_BITS) - 1)

static inline uint64_t rd_vb_wr_id(enum rd_vb_wr_kind kind, uint32_t gen, uint32_t slot,
				   uint32_t index)
{
	return (uint64_t)kind << 62 |
	       (uint64_t)(gen & RD_VB_GEN_MASK) << (RD_VB_SLOT_BITS + RD_VB_INDEX_BITS) |
	       (uint64_t)slot << RD_VB_INDEX_BITS | index;
}

/*
 * A work request that has not completed to the user. Some drivers complete work requests behind a
 * READ before the READ; the seam promises posting order, so a completion waits here for older ones.
 */
struct rd_vb_wr {
	uint64_t wr_id; /* wr_id of the user */
	uint32_t len;
	uint8_t opcode; /* enum ibv_wc_opcode */
	uint8_t status; /* with done: enum ibv_wc_status */
	bool signaled;  /* has a completion of its own */
	bool with_inv;  /* a SEND with Invalidate */
	bool hidden;    /* not the user's: its completion is dropped */
	bool done;      /* completed by the device */
};

/* The work requests of a send or receive queue, in posting order. */
struct rd_vb_wq {
	struct rd_vb_wr *ring;
	uint32_t depth;
	uint32_t mask;
	uint32_t head; /* the oldest one that has not completed */
	uint32_t tail;
	uint32_t known; /* one past the newest one that the device has completed with success */
};

/*
 * Handles a completion of the device: adds it, and those that waited for it, to the ring of @cq in
 * posting order.
 */
void rd_vb_wc_done(struct rd_vb_dev *dev, struct rd_vb_cq *cq, struct ibv_wc *wc);

int rd_vb_qp_create(struct rd_fab_conn *conn, const struct rd_fab_qp_attr *attr);
int rd_vb_post_send(struct rd_fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int rd_vb_post_recv(struct rd_fab_conn *conn, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* Moves the queue pair to RTS, with the depths in conn->base. Returns 0 or -errno. */
int rd_vb_qp_connect(struct rd_vb_conn *c);
/*
 * Posts an empty READ or WRITE whose completion the user does not see, in the entry that
 * quirk->hidden_wrs keeps. No-op while the one before has not completed.
 */
void rd_vb_post_hidden(struct rd_vb_conn *c, enum ibv_wr_opcode opcode);
/* A RECV has completed with a message. May be called while completions are being polled. */
void rd_vb_heard(struct rd_vb_conn *c);
/* Work requests of the user that have not completed. */
uint32_t rd_vb_sends_out(const struct rd_vb_conn *c);
/*
 * Destroys the queue pair and completes everything that was posted. The queues stay for WRs that
 * are posted later.
 */
void rd_vb_qp_down(struct rd_vb_conn *c);
/* Frees the queues and gives back the room in the CQs. */
void rd_vb_qp_free(struct rd_vb_conn *c);

/* ---- connections: conn.c ---- */

enum rd_vb_state {
	/* Active: address, then route. rdma_cm's events or the timer move it on. */
	RD_VB_RESOLVING,
	/* Active: the device is known. connect() or the timer moves it on. */
	RD_VB_RESOLVED,
	/* Active: the request has been sent. rdma_cm's answer or the timer moves it on. */
	RD_VB_CONNECTING,
	/* Passive: a request was adopted. accept() or reject() moves it on. */
	RD_VB_ADOPTED,
	/* Passive: the reply has been sent. rdma_cm moves it on. */
	RD_VB_ACCEPTED,
	/* Messages flow. An error, the peer or disconnect() moves it on. */
	RD_VB_OPEN,
	/*
	 * Ended by the user: the device still sends what it was given, nothing new is posted. The
	 * last completion or the timer moves it on.
	 */
	RD_VB_CLOSING,
	/*
	 * Over: no queue pair, WRs are flushed when they are posted. destroy() is the only way on.
	 */
	RD_VB_CLOSED,
};

struct rd_vb_conn {
	struct rd_fab_conn base;
	struct rd_vb_fab *fab;
	struct rd_vb_dev *dev; /* as base.dev, but set before RESOLVED is delivered */
	LIST_ENTRY(rd_vb_conn) link;
	enum rd_vb_state state;
	struct rd_vb_id *id; /* NULL after the removal of its device, or if its creation failed */
	struct rd_timer timer;
	uint64_t deadline;             /* active: of the whole attempt */
	struct rd_vb_attempt *attempt; /* the thread in rdma_connect(), or NULL */

	struct ibv_qp *qp; /* NULL when CLOSED */
	LIST_ENTRY(rd_vb_conn) by_qpn;
	bool has_qp;  /* the queues below exist */
	bool stalled; /* the queue pair has failed: WRs are only recorded, and flushed later */
	uint32_t slot;
	struct rd_vb_cq *scq;
	struct rd_vb_cq *rcq;
	struct rd_vb_srq *srq;
	struct rd_vb_seg *sseg; /* the segments in which room is reserved */
	struct rd_vb_seg *rseg;
	uint32_t rroom;
	struct rd_vb_wq sq;
	struct rd_vb_wq rq;
	bool hidden_out; /* a work request of rd_vb_post_hidden() has not completed */
	bool heard;      /* the peer's first message has arrived */
	struct {         /* used by quirk->established() */
		enum ibv_wr_opcode opcode;
		uint64_t pause_ns;
		struct rd_timer timer;
	} poke;
	uint32_t sq_end; /* CLOSING: index of the first WR that was not given to the device */
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline;
	bool coalesce; /* rd_fab_qp_attr.coalesce */

	uint16_t peer_ird;
	struct rd_conn_events events;
	struct rd_defer failed;        /* a work request failed: see fail_status */
	int fail_status;               /* enum ibv_wc_status */
	uint8_t pd[RD_VB_MAX_PRIVATE]; /* the peer's private data, for ESTABLISHED or REJECTED */
};

struct rd_vb_conn *rd_vb_conn(struct rd_fab_conn *conn);
int rd_vb_conn_new(struct rd_vb_fab *fab, rd_fab_event_fn fn, void *arg, struct rd_vb_conn **out);
void rd_vb_conn_destroy(struct rd_fab_conn *conn);
void rd_vb_set_state(struct rd_vb_conn *c, enum rd_vb_state state);
void rd_vb_disconnect(struct rd_fab_conn *conn);
/*
 * Ends the connection: WRs are flushed, the event follows. No-op if it is CLOSED already. @status:
 * 0 for an orderly end, else -errno; the text is the event's reason.
 */
void rd_vb_conn_end(struct rd_vb_conn *c, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* In CLOSING: the device has sent everything. May be called while completions are being polled. */
void rd_vb_conn_sent_all(struct rd_vb_conn *c);
/* A work request has completed with an error. May be called while completions are being polled. */
void rd_vb_conn_wc_failed(struct rd_vb_conn *c, enum ibv_wc_status status);
void rd_vb_conn_cm_event(struct rd_vb_conn *c, const struct rd_vb_cm_event *ev);
void rd_vb_copy_addrs(struct rd_vb_conn *c);
/* Converts @param for rdma_cm; lowers the depths to the device's limits. Returns 0 or -EMSGSIZE. */
int rd_vb_conn_param(struct rd_vb_conn *c, const struct rd_fab_conn_param *param,
		     struct rdma_conn_param *out);

/* ---- connect.c ---- */

int rd_vb_resolve(struct rd_fab *fab, const struct rd_fab_resolve_attr *attr,
		  struct rd_fab_conn **out);
int rd_vb_connect(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param);
/* Ends the thread in rdma_connect(), if there is one. */
void rd_vb_attempt_stop(struct rd_vb_conn *c);
/* Handles an event of rdma_cm in the states before OPEN. */
void rd_vb_connect_event(struct rd_vb_conn *c, const struct rd_vb_cm_event *ev);

/* ---- listen.c ---- */

struct rd_vb_req {
	struct rd_fab_req base;
	struct rd_vb_id *id;
	uint8_t pd[RD_VB_MAX_PRIVATE];
};

struct rd_vb_listener;

int rd_vb_listen(struct rd_fab *fab, const struct sockaddr *addr, int backlog, rd_fab_listen_fn fn,
		 void *arg, struct rd_fab_listener **out);
void rd_vb_unlisten(struct rd_fab_listener *lis);
void rd_vb_listener_request(struct rd_vb_listener *lis, struct rd_vb_id *id,
			    const struct rd_vb_cm_event *ev);
void rd_vb_listener_event(struct rd_vb_listener *lis, const struct rd_vb_cm_event *ev);
int rd_vb_req_adopt(struct rd_fab *fab, struct rd_fab_req *req, rd_fab_event_fn on_event, void *arg,
		    struct rd_fab_conn **out);
void rd_vb_req_reject(struct rd_fab_req *req, const void *priv, size_t len);
int rd_vb_accept(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param);
int rd_vb_reject(struct rd_fab_conn *conn, const void *priv, size_t len);

/* ---- work requests on their way to the device: batch.c ---- */

#define RD_VB_BATCH        64
#define RD_VB_BATCH_SGES   4  /* entries of one WR; larger WRs are given to the device at once */
#define RD_VB_BATCH_INLINE 64 /* inline bytes of one WR; likewise */

struct rd_vb_batch {
	struct rd_vb_conn *conn; /* the connection of all WRs in the batch, or NULL */
	uint32_t n;
	struct rd_defer flush;
	struct ibv_send_wr wrs[RD_VB_BATCH];
	struct ibv_sge sges[RD_VB_BATCH][RD_VB_BATCH_SGES];
	uint8_t data[RD_VB_BATCH][RD_VB_BATCH_INLINE];
};

void rd_vb_batch_init(struct rd_vb_batch *b);
/*
 * Adds @wr, which is recorded in c->sq. It is given to the device in the SEND phase of this turn at
 * the latest. @total: its bytes.
 */
void rd_vb_batch_add(struct rd_vb_conn *c, struct ibv_send_wr *wr, uint32_t total);
void rd_vb_batch_give(struct rd_vb_conn *c); /* gives what the batch has of @c to the device now */
void rd_vb_batch_drop(
	struct rd_vb_conn *c); /* drops what the batch has of @c: it has no queue pair any more */
/*
 * Chains @n requests and gives them to the device. If the device refuses one the connection ends.
 */
void rd_vb_give(struct rd_vb_conn *c, struct ibv_send_wr *chain, uint32_t n);

/* ---- fabric: provider.c ---- */

struct rd_vb_fab {
	struct rd_fab base;
	struct rd_fab_verbs_opts opts;
	struct rd_vb_chan *chan;
	struct rd_io io;
	struct rd_io uevents;
	LIST_HEAD(, rd_vb_anchor) anchors;
	LIST_HEAD(, rd_vb_dev) devs;
	LIST_HEAD(, rd_vb_conn) conns;
	struct rd_vb_stats stats;
	struct rd_vb_batch batch;
};

struct rd_vb_fab *rd_vb_fab(struct rd_fab *fab);
extern const struct rd_fab_ops rd_vb_ops;

static inline struct rd_log *rd_vb_log(const struct rd_vb_fab *fab)
{
	return fab->base.log;
}

#endif /* RD_VB_INTERNAL_H */
