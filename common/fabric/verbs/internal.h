/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs provider: RDMA devices of the kernel, through librdmacm and libibverbs.
 *
 * Every fabric has an event channel of its own and opens every device it meets for itself: queue
 * pairs are made on our own ibv_context and connected by their number, not by rdma_create_qp(). So
 * a fabric shares neither asynchronous events nor locks of a device's user space driver with other
 * threads, and librdmacm's view of a device may come and go.
 *
 * What crosses threads is an incoming connection that nobody has adopted yet: struct rd_vb_id.
 *
 * All work requests are written down (struct rd_vb_wq) besides being given to the device. It is
 * how they are counted, and it is why a connection always ends the same way, whatever the device
 * does with the work requests of a failed queue pair: what it has not completed when the queue pair
 * is destroyed is completed here, as flushed. Devices differ in that more than in anything else:
 * some lose what is posted to a failed queue pair, some refuse it, some take a while, and
 * LAST_WQE_REACHED is not known to iWARP.
 *
 * Special cases for single drivers, such as siw: quirk.h, and the list in quirk_siw.c.
 *
 * User callbacks run only from deferred work or from an event channel, never from within a call.
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

/* What fits every message of the InfiniBand CM: a REQ's 92 bytes without rdma_cm's own 36. */
#define RD_VB_IB_PRIVATE    56
#define RD_VB_IWARP_PRIVATE 251 /* as RD_IW_MAX_PRIVATE */
#define RD_VB_MAX_DEPTH     255 /* READs: rdma_cm has eight bits */
#define RD_VB_MAX_WR        65536

struct rd_vb_fab;
struct rd_vb_dev;
struct rd_vb_conn;
struct rd_vb_attempt;

/* ---- event channels and identifiers: cm.c ---- */

/* Outlives its fabric while requests that came by it are not adopted. */
struct rd_vb_chan {
	struct rdma_event_channel *ch;
	atomic_uint refs;
};

int rd_vb_chan_create(struct rd_vb_chan **out);
void rd_vb_chan_put(struct rd_vb_chan *chan);

enum rd_vb_id_kind {
	RD_VB_ID_REQUEST, /* nobody's, until adopted */
	RD_VB_ID_CONN,
	RD_VB_ID_LISTENER,
	RD_VB_ID_ANCHOR, /* bound to a device, to hear of its removal */
};

/* An rdma_cm_id; its context points here. */
struct rd_vb_id {
	struct rdma_cm_id *cm;
	struct rd_vb_chan *chan;
	/*
	 * Whose loop the identifier's events are for. NULL while a request is on its way: its
	 * events are then read by the loop it came from, which only leaves a note in @early. Once
	 * rdma_migrate_id() has returned, all notes are there.
	 */
	_Atomic(struct rd_vb_fab *) owner;
	atomic_bool early; /* the request is void */
	enum rd_vb_id_kind kind;
	void *obj; /* the object of that kind; the owner's */
};

int rd_vb_id_create(struct rd_vb_fab *fab, enum rd_vb_id_kind kind, void *obj,
		    struct rd_vb_id **out);
/* May be called on any thread for a request that was not adopted. NULL is fine. */
void rd_vb_id_destroy(struct rd_vb_id *id);
int rd_vb_cm_start(struct rd_vb_fab *fab);
void rd_vb_cm_stop(struct rd_vb_fab *fab);
/* ---- devices: dev.c ---- */

/* What a completion's wr_id leads to. */
struct rd_vb_slot {
	uint32_t gen; /* of its user: a completion of an earlier one is dropped */
	uint32_t next_free;
	void *obj; /* struct rd_vb_conn, or struct rd_vb_srq */
};

#define RD_VB_QPN_BUCKETS 256

struct rd_vb_dev {
	struct rd_fab_dev base;
	struct rd_vb_fab *fab;
	LIST_ENTRY(rd_vb_dev) link;
	struct ibv_context *ctx; /* ours; NULL once the device was removed */
	struct ibv_device *ibdev;
	struct ibv_pd *pd;
	const struct rd_vb_quirk *quirk; /* never NULL once the device is open */
	struct ibv_cq *quirk_cq;         /* of quirk->open() */
	struct rd_io async;
	uint8_t port;
	bool iwarp;
	bool inv_worked; /* a SEND with Invalidate has been seen to succeed */
	bool inv_broken; /* the device promised it and failed: plain SENDs from now on */
	bool memlock_said;
	uint32_t max_cqe;
	struct rd_vb_slot *slots;
	uint32_t nslots;
	uint32_t free_slot;                                /* 0: none; slot 0 is never used */
	LIST_HEAD(, rd_vb_conn) by_qpn[RD_VB_QPN_BUCKETS]; /* by the device's queue pair number */
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
/* The kind of network of what @cm is bound to; NULL when it is not bound to a device. */
const char *rd_vb_prtype(const struct rdma_cm_id *cm);
/* The device object for what @id is bound to, made at need. */
int rd_vb_dev_get(struct rd_vb_fab *fab, struct rd_vb_id *id, struct rd_vb_dev **out);
/* End its connections and give back all that it has of the kernel's; the objects stay. */
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
/* librdmacm has opened the device that @cm is bound to, if any: hear of its removal. */
void rd_vb_meet(struct rd_vb_fab *fab, struct rdma_cm_id *cm);
/* The device was removed and has no object here any more: librdmacm lets go of it as well. */
void rd_vb_forget(struct rd_vb_fab *fab, const struct ibv_device *ibdev);
/* The device of @anchor was removed; the anchor goes. */
void rd_vb_anchor_lost(struct rd_vb_fab *fab, struct rd_vb_anchor *anchor);
/* One of the kernel's uevents; NULL: some were lost. */
void rd_vb_uevent(struct rd_vb_fab *fab, const char *event);

/* ---- completion queues: cq.c ---- */

/*
 * A CQ of the device. A CQ of the seam has several when it had to grow: not all devices can resize
 * one (no iWARP device can), and all can have another.
 */
struct rd_vb_seg {
	struct rd_vb_cq *cq;
	struct ibv_cq *hw;
	uint32_t size;
	uint32_t reserved; /* entries promised to queue pairs */
	uint32_t unacked; /* events read and not acknowledged: that takes a lock, so many at once */
	bool armed;       /* in the device */
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
	/* Completions taken from the device ahead of the user, and those made here. */
	struct rd_wc_ring ring;
	bool armed; /* the user waits for a notification */
	bool broken;
	int fd; /* eventfd, -1 until asked for */
};

int rd_vb_cq_create(struct rd_fab_dev *dev, uint32_t depth, rd_fab_cq_fn fn, void *arg,
		    struct rd_fab_cq **out);
void rd_vb_cq_destroy(struct rd_fab_cq *cq);
int rd_vb_cq_poll(struct rd_fab_cq *cq, int n, struct ibv_wc *wc);
int rd_vb_cq_arm(struct rd_fab_cq *cq);
int rd_vb_cq_fd(struct rd_fab_cq *cq);
struct rd_vb_cq *rd_vb_cq(struct rd_fab_cq *cq);
/* Room for @n more entries in one of the CQ's segments. Returns 0, -ENOSPC or -ENOMEM. */
int rd_vb_cq_reserve(struct rd_vb_cq *cq, uint32_t n, struct rd_vb_seg **out);
/* Add a completion. @wake: and notify; those who take from the device do so at the end. */
void rd_vb_cq_push(struct rd_vb_cq *cq, const struct ibv_wc *wc, bool wake);
/* Take what the device has; afterwards it holds no completion that was there before. */
void rd_vb_cq_sweep(struct rd_vb_cq *cq);
/* Drop the completions of a connection, by the number its users know it by. */
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
	struct rd_vb_cq *counted; /* the CQ that has room for all of it, in these segments */
	uint32_t counted_segs;
};

int rd_vb_srq_create(struct rd_fab_dev *dev, uint32_t max_wr, uint32_t max_sge,
		     struct rd_fab_srq **out);
void rd_vb_srq_destroy(struct rd_fab_srq *srq);
int rd_vb_post_srq_recv(struct rd_fab_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void rd_vb_srq_removed(struct rd_vb_srq *srq);
/* Replaces wc->wr_id by the user's. Returns false when there is no such RECV. */
bool rd_vb_srq_done(struct rd_vb_srq *srq, uint32_t index, struct ibv_wc *wc);

/* ---- queue pairs: qp.c ---- */

/* wr_id as the device sees it: kind, generation, slot, index in the queue. */
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
 * A work request that was taken and not completed. Some drivers complete what is behind a READ
 * before the READ; the seam promises the order of posting, so completions wait here for older ones.
 */
struct rd_vb_wr {
	uint64_t wr_id; /* the user's */
	uint32_t len;
	uint8_t opcode; /* enum ibv_wc_opcode */
	uint8_t status; /* with done: enum ibv_wc_status */
	bool signaled;  /* completes to the user, by itself */
	bool with_inv;  /* a SEND with Invalidate */
	bool hidden;    /* not the user's: its completion is dropped */
	bool done;      /* the device has completed it */
};

/* Send or receive queue: what was posted, in order. */
struct rd_vb_wq {
	struct rd_vb_wr *ring;
	uint32_t depth;
	uint32_t mask;
	uint32_t head; /* oldest not completed */
	uint32_t tail;
	uint32_t known; /* one past the last that the device has completed with success */
};

/* A completion from the device: what it completes goes to the CQ's ring, in the order of posting.
 */
void rd_vb_wc_done(struct rd_vb_dev *dev, struct rd_vb_cq *cq, struct ibv_wc *wc);

int rd_vb_qp_create(struct rd_fab_conn *conn, const struct rd_fab_qp_attr *attr);
int rd_vb_post_send(struct rd_fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int rd_vb_post_recv(struct rd_fab_conn *conn, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* To the states in which the CM lets messages flow, with the depths in conn->base. */
int rd_vb_qp_connect(struct rd_vb_conn *c);
/*
 * Post an empty READ or WRITE that the user never hears of, in the entry that quirk->hidden_wrs
 * keeps. No-op while the one before has not completed.
 */
void rd_vb_post_hidden(struct rd_vb_conn *c, enum ibv_wr_opcode opcode);
/* A RECV has completed with a message. Safe while completions are being polled. */
void rd_vb_heard(struct rd_vb_conn *c);
/* Work requests of the user that have not completed. */
uint32_t rd_vb_sends_out(const struct rd_vb_conn *c);
/* The queue pair is destroyed, and everything posted completes. The queues stay for late posts. */
void rd_vb_qp_down(struct rd_vb_conn *c);
/* Give back room and memory; the connection goes. */
void rd_vb_qp_free(struct rd_vb_conn *c);

/* ---- connections: conn.c ---- */

enum rd_vb_state {
	/* Active: address, then route. rdma_cm's events or the timer move it on. */
	RD_VB_RESOLVING,
	/* Active: the device is known. connect() or the timer moves it on. */
	RD_VB_RESOLVED,
	/* Active: the request is out. rdma_cm's answer or the timer moves it on. */
	RD_VB_CONNECTING,
	/* Passive: a request was adopted. accept() or reject() moves it on. */
	RD_VB_ADOPTED,
	/* Passive: the reply is out. rdma_cm moves it on. */
	RD_VB_ACCEPTED,
	/* Messages flow. An error, the peer or disconnect() moves it on. */
	RD_VB_OPEN,
	/* We end it: what the device has to send still goes out, nothing new does. The last
	   completion or the timer moves it on. */
	RD_VB_CLOSING,
	/* Over: no queue pair, WRs are flushed as they are posted. Only destroyed from here. */
	RD_VB_CLOSED,
};

struct rd_vb_conn {
	struct rd_fab_conn base;
	struct rd_vb_fab *fab;
	struct rd_vb_dev *dev; /* as base.dev, but set before RESOLVED is delivered */
	LIST_ENTRY(rd_vb_conn) link;
	enum rd_vb_state state;
	struct rd_vb_id *id; /* NULL once its device was removed, or it never came to be */
	struct rd_timer timer;
	uint64_t deadline;             /* active: of the whole attempt */
	struct rd_vb_attempt *attempt; /* rdma_connect() in a thread; NULL when there is none */

	struct ibv_qp *qp; /* NULL when CLOSED */
	LIST_ENTRY(rd_vb_conn) by_qpn;
	bool has_qp;  /* the queues below are there */
	bool stalled; /* the queue pair failed: what is posted is only written down, to be flushed
		       */
	uint32_t slot;
	struct rd_vb_cq *scq;
	struct rd_vb_cq *rcq;
	struct rd_vb_srq *srq;
	struct rd_vb_seg *sseg; /* where room is reserved */
	struct rd_vb_seg *rseg;
	uint32_t rroom;
	struct rd_vb_wq sq;
	struct rd_vb_wq rq;
	bool hidden_out; /* a work request of rd_vb_post_hidden() has not completed */
	bool heard;      /* the peer's first message has arrived */
	struct {         /* of the quirk that sends empty messages until then */
		enum ibv_wr_opcode opcode;
		uint64_t pause_ns;
		struct rd_timer timer;
	} poke;
	uint32_t sq_end; /* CLOSING: the device was given nothing from here on */
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline;
	bool coalesce; /* rd_fab_qp_attr's */

	uint16_t peer_ird;
	struct rd_conn_events events;
	struct rd_defer failed;        /* a work request failed: see fail_status */
	int fail_status;               /* enum ibv_wc_status */
	uint8_t pd[RD_VB_MAX_PRIVATE]; /* of the peer, for ESTABLISHED or REJECTED */
};

struct rd_vb_conn *rd_vb_conn(struct rd_fab_conn *conn);
int rd_vb_conn_new(struct rd_vb_fab *fab, rd_fab_event_fn fn, void *arg, struct rd_vb_conn **out);
void rd_vb_conn_destroy(struct rd_fab_conn *conn);
void rd_vb_set_state(struct rd_vb_conn *c, enum rd_vb_state state);
void rd_vb_disconnect(struct rd_fab_conn *conn);
/*
 * The connection is over: WRs are flushed, the event follows. No-op when it is over already.
 * @status is 0 for an orderly end.
 */
void rd_vb_conn_end(struct rd_vb_conn *c, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* CLOSING, and the device has sent all it had. Safe while completions are being polled. */
void rd_vb_conn_sent_all(struct rd_vb_conn *c);
/* A work request completed with an error. Safe while completions are being polled. */
void rd_vb_conn_wc_failed(struct rd_vb_conn *c, enum ibv_wc_status status);
void rd_vb_conn_cm_event(struct rd_vb_conn *c, const struct rd_vb_cm_event *ev);
void rd_vb_copy_addrs(struct rd_vb_conn *c);
/* rdma_cm's form of @param, with the depths lowered to what the device can do. */
int rd_vb_conn_param(struct rd_vb_conn *c, const struct rd_fab_conn_param *param,
		     struct rdma_conn_param *out);

/* ---- connect.c ---- */

int rd_vb_resolve(struct rd_fab *fab, const struct rd_fab_resolve_attr *attr,
		  struct rd_fab_conn **out);
int rd_vb_connect(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param);
/* Afterwards rdma_connect() is not running. */
void rd_vb_attempt_stop(struct rd_vb_conn *c);
/* Events of a connection on its way up. */
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
#define RD_VB_BATCH_SGES   4  /* of one; those with more go by themselves */
#define RD_VB_BATCH_INLINE 64 /* bytes of one; likewise */

struct rd_vb_batch {
	struct rd_vb_conn *conn; /* whose they are, or NULL */
	uint32_t n;
	struct rd_defer flush;
	struct ibv_send_wr wrs[RD_VB_BATCH];
	struct ibv_sge sges[RD_VB_BATCH][RD_VB_BATCH_SGES];
	uint8_t data[RD_VB_BATCH][RD_VB_BATCH_INLINE];
};

void rd_vb_batch_init(struct rd_vb_batch *b);
/* @wr is written down in c->sq and given to the device at the end of this turn at the latest. */
void rd_vb_batch_add(struct rd_vb_conn *c, struct ibv_send_wr *wr, uint32_t total);
void rd_vb_batch_give(struct rd_vb_conn *c); /* what there is of @c's, now */
void rd_vb_batch_drop(struct rd_vb_conn *c); /* never: the queue pair is over */
/* Give @n requests to the device; they are chained here. What it refuses ends the connection. */
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
