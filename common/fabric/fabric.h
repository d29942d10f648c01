/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric seam: all that the layers above know of RDMA.
 *
 * Work requests, scatter/gather entries and completions are libibverbs' own types. A provider is
 * one table of operations (struct rd_fab_ops); "iwarp" speaks MPA/DDP/RDMAP over TCP in userspace.
 *
 * Errors: every call returns 0 or -errno, whatever the convention of the library underneath.
 *
 * Threads: a fabric and everything made from it (devices, CQs, SRQs, MRs, connections, listeners)
 * belong to the loop the fabric was opened on. The one object that may cross threads is struct
 * rd_fab_req, an incoming connection nobody has adopted yet.
 *
 * Re-entrancy: events and CQ notifications are delivered from the loop, never from inside a call of
 * this seam. From within a callback every call is allowed, including destroying the connection the
 * event is about.
 *
 * Byte order: host order everywhere; providers convert.
 *
 * Lifetime: fabric > device > { CQ, SRQ > share, MR } > connection. A connection is destroyed
 * before the CQs, the SRQ and the share it uses; a device lives until its fabric is closed, or
 * until it was removed and nobody uses it (struct rd_fab_dev).
 */
#ifndef RD_FABRIC_FABRIC_H
#define RD_FABRIC_FABRIC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "util/loop.h"

struct rd_fab;          /* a provider, opened on a loop */
struct rd_fab_dev;      /* one RDMA device with one protection domain */
struct rd_fab_cq;       /* completion queue */
struct rd_fab_srq;      /* shared receive queue */
struct rd_fab_share;    /* connections that are limited together on such a queue */
struct rd_fab_listener; /* a listening address */
struct rd_fab_req;      /* an incoming connection, not yet adopted by a loop */
struct rd_fab_conn;     /* a connection with its queue pair */

/* What a device can do. Read it after the device is known; the values do not change. */
struct rd_fab_caps {
	uint32_t max_send_wr; /* per queue pair */
	uint32_t max_recv_wr;
	uint32_t max_srq_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_read_sge;
	uint32_t max_inline;         /* bytes of an IBV_SEND_INLINE payload */
	uint64_t max_msg;            /* bytes of one SEND, READ or WRITE */
	uint16_t max_ird;            /* inbound READs held at once */
	uint16_t max_ord;            /* outbound READs issued at once */
	uint16_t max_private_data;   /* bytes, in connect, accept and reject */
	bool send_with_inv;          /* IBV_WR_SEND_WITH_INV can be posted */
	bool inline_with_inv;        /* ... with IBV_SEND_INLINE too */
	bool reports_inv;            /* inbound invalidations show as IBV_WC_WITH_INV */
	bool read_sink_remote_write; /* a READ's local buffer must have IBV_ACCESS_REMOTE_WRITE */
	bool srq_waits; /* what finds a shared receive queue empty waits: see rd_fab_srq_create() */
	bool cheap_mr;  /* registration is a table entry: one registration per I/O is fine */
	const char *prtype; /* "iwarp", "roce", "ib": for logs and the discovery log page */
};

struct rd_fab_dev {
	const struct rd_fab_ops *ops;
	struct rd_fab *fab;
	struct rd_fab_caps caps;
	const char *name; /* for logs */
	bool gone;        /* removed; it lives while something of it does, or @user is set */
	void *user;       /* the layer above's per-device state, or NULL */
};

struct rd_fab {
	const struct rd_fab_ops *ops;
	struct rd_loop *loop;
	struct rd_log *log;
};

/*
 * A registered memory region. Peers know byte addr[i] as iova + i, which need not be its address;
 * the owner's scatter/gather entries have addresses. A peer may have invalidated it (SEND with
 * Invalidate): then any remote access fails, local use goes on, and rd_fab_dereg_mr() is still due.
 */
struct rd_fab_mr {
	struct rd_fab_dev *dev;
	void *addr;
	size_t length;
	uint64_t iova;
	uint32_t lkey;
	uint32_t rkey;
};

/* What a peer knows as @p, which is in @mr. */
static inline uint64_t rd_fab_remote_addr(const struct rd_fab_mr *mr, const void *p)
{
	return (uintptr_t)p - (uintptr_t)mr->addr + mr->iova;
}

enum rd_fab_event_type {
	/* Active side, from rd_fab_resolve(): the device is known, the queue pair can be made. */
	RD_FAB_EV_RESOLVED,
	/* Both sides. Active: private_data is the accept's. WRs may be posted. */
	RD_FAB_EV_ESTABLISHED,
	/* Active: the peer said no. private_data is the reject's; status is -ECONNREFUSED. */
	RD_FAB_EV_REJECTED,
	/* Active: no connection came about; status says why (-ECONNREFUSED when nobody listens,
	 * -ETIMEDOUT, -EHOSTUNREACH, -EPROTO when the peer does not speak our protocol...). */
	RD_FAB_EV_CONNECT_ERROR,
	/*
	 * An established (or accepted) connection is over: by the peer, by rd_fab_disconnect(), or
	 * by an error. status is 0 for an orderly end and -errno otherwise. All posted WRs have
	 * been or are being flushed. Exactly once, and the last event of a connection.
	 */
	RD_FAB_EV_DISCONNECTED,
	/* The device is gone; every connection on it gets DISCONNECTED as well. */
	RD_FAB_EV_DEVICE_REMOVED,
};

struct rd_fab_event {
	enum rd_fab_event_type type;
	int status;               /* 0 or -errno */
	const char *reason;       /* text for people, never NULL; valid during the call */
	const void *private_data; /* NULL when there is none; valid during the call */
	bool unanswered; /* CONNECT_ERROR: somebody is there, and did not answer as a peer would */
	size_t private_len; /* may exceed what the peer sent (padding); never demand a length */
};

typedef void (*rd_fab_event_fn)(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg);

/*
 * A peer asks for a connection. Ownership of @req passes to the callee: it ends in
 * rd_fab_req_adopt() or rd_fab_req_reject(), on any thread.
 */
typedef void (*rd_fab_listen_fn)(struct rd_fab_listener *lis, struct rd_fab_req *req, void *arg);

struct rd_fab_req {
	const struct rd_fab_ops *ops;
	struct sockaddr_storage local; /* the address the peer reached, never a wildcard */
	struct sockaddr_storage remote;
	const void *private_data;
	size_t private_len;
	uint16_t peer_ird; /* inbound READs the peer can hold: the limit of our ORD */
	uint16_t peer_ord; /* READs the peer means to issue: what our IRD should cover */
	void *user;        /* for the layer above, while the request changes hands */
};

struct rd_fab_conn {
	const struct rd_fab_ops *ops;
	struct rd_fab_dev *dev; /* NULL until RESOLVED on the active side */
	rd_fab_event_fn on_event;
	void *arg;
	struct sockaddr_storage local;
	struct sockaddr_storage remote;
	uint32_t qp_num; /* as in ibv_wc.qp_num; unique on the device while the connection lives */
	uint16_t ird;    /* negotiated, valid from ESTABLISHED on */
	uint16_t ord;    /* negotiated, valid from ESTABLISHED on; the caller may have that many
			    READs outstanding, the provider queues any excess in order */
	bool waits;      /* its next message waits for a RECV of a shared queue */
	uint32_t held;   /* of share->held, the part of its own messages */
};

struct rd_fab_qp_attr {
	struct rd_fab_cq *send_cq;
	struct rd_fab_cq *recv_cq;
	struct rd_fab_srq *srq; /* NULL: a receive queue of its own */
	uint32_t max_send_wr;
	uint32_t max_recv_wr; /* ignored with @srq */
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline;
	/* The success of a SEND or WRITE stands for those of all SENDs and WRITEs posted before it:
	 * of those done at the same time, the provider may report the last signaled one only.
	 * READs, and whatever fails or is flushed, complete each as ever. */
	bool coalesce;
};

struct rd_fab_conn_param {
	const void *private_data; /* copied */
	size_t private_len;       /* up to caps.max_private_data, else -EMSGSIZE */
	uint16_t ird;             /* inbound READs offered; lowered to caps.max_ird */
	uint16_t ord;             /* outbound READs wanted; lowered to caps.max_ord */
};

struct rd_fab_resolve_attr {
	const struct sockaddr *dst;
	const struct sockaddr *src; /* NULL: any */
	uint64_t timeout_ns; /* for the whole way to ESTABLISHED; 0: the provider's default */
	rd_fab_event_fn on_event;
	void *arg;
};

/* Called on the loop after rd_fab_cq_arm() when a completion has been added. */
typedef void (*rd_fab_cq_fn)(struct rd_fab_cq *cq, void *arg);

struct rd_fab_cq {
	struct rd_fab_dev *dev;
	rd_fab_cq_fn fn;
	void *arg;
};

struct rd_fab_srq {
	struct rd_fab_dev *dev;
};

typedef void (*rd_fab_srq_fn)(struct rd_fab_srq *srq, void *arg);

struct rd_fab_share {
	struct rd_fab_srq *srq;
	uint32_t held; /* RECVs that messages of its connections took, less those given back */
};

struct rd_fab_listener {
	const struct rd_fab_ops *ops;
	struct rd_fab *fab;
	struct sockaddr_storage addr; /* as bound: the real port when port 0 was asked for */
	const char *prtype; /* as in rd_fab_caps; NULL when it depends on the connection */
	rd_fab_listen_fn fn;
	void *arg;
};

struct rd_fab_ops {
	const char *name;
	void (*close)(struct rd_fab *fab);

	int (*listen)(struct rd_fab *fab, const struct sockaddr *addr, int backlog,
		      rd_fab_listen_fn fn, void *arg, struct rd_fab_listener **out);
	void (*unlisten)(struct rd_fab_listener *lis);
	int (*req_adopt)(struct rd_fab *fab, struct rd_fab_req *req, rd_fab_event_fn on_event,
			 void *arg, struct rd_fab_conn **out);
	void (*req_reject)(struct rd_fab_req *req, const void *priv, size_t len);

	int (*resolve)(struct rd_fab *fab, const struct rd_fab_resolve_attr *attr,
		       struct rd_fab_conn **out);
	int (*qp_create)(struct rd_fab_conn *conn, const struct rd_fab_qp_attr *attr);
	int (*connect)(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param);
	int (*accept)(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param);
	int (*reject)(struct rd_fab_conn *conn, const void *priv, size_t len);
	void (*disconnect)(struct rd_fab_conn *conn);
	bool (*peer_closed)(const struct rd_fab_conn *conn); /* may be NULL */
	void (*conn_destroy)(struct rd_fab_conn *conn);

	int (*reg_mr)(struct rd_fab_dev *dev, void *addr, size_t len, int access,
		      struct rd_fab_mr **out);
	void (*dereg_mr)(struct rd_fab_mr *mr);

	int (*cq_create)(struct rd_fab_dev *dev, uint32_t depth, rd_fab_cq_fn fn, void *arg,
			 struct rd_fab_cq **out);
	void (*cq_destroy)(struct rd_fab_cq *cq);
	int (*cq_poll)(struct rd_fab_cq *cq, int n, struct ibv_wc *wc);
	int (*cq_arm)(struct rd_fab_cq *cq);
	int (*cq_fd)(struct rd_fab_cq *cq);

	int (*srq_create)(struct rd_fab_dev *dev, uint32_t max_wr, uint32_t max_sge,
			  struct rd_fab_srq **out);
	void (*srq_destroy)(struct rd_fab_srq *srq);
	/* With caps.srq_waits only. */
	void (*srq_limit)(struct rd_fab_srq *srq, uint32_t limit, rd_fab_srq_fn fn, void *arg);
	int (*share_create)(struct rd_fab_srq *srq, struct rd_fab_share **out);
	void (*share_destroy)(struct rd_fab_share *share);
	void (*share_join)(struct rd_fab_conn *conn, struct rd_fab_share *share);

	int (*post_send)(struct rd_fab_conn *conn, struct ibv_send_wr *wr,
			 struct ibv_send_wr **bad);
	int (*post_recv)(struct rd_fab_conn *conn, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad);
	int (*post_srq_recv)(struct rd_fab_srq *srq, struct ibv_recv_wr *wr,
			     struct ibv_recv_wr **bad);
};

/* ---- fabric ---- */

/* Close a fabric. Its listeners, connections, CQs, SRQs and MRs must be gone. NULL is fine. */
static inline void rd_fab_close(struct rd_fab **fab)
{
	if (*fab)
		(*fab)->ops->close(*fab);
	*fab = NULL;
}

/* ---- passive side ---- */

/*
 * Listen on @addr (port 0: any free port; wildcard addresses allowed; an IPv6 wildcard does not
 * take IPv4). @fn is called on the loop for each connection request that is complete and
 * well-formed. Returns 0, or -errno of bind(2)/listen(2), e.g. -EADDRINUSE.
 */
static inline int rd_fab_listen(struct rd_fab *fab, const struct sockaddr *addr, int backlog,
				rd_fab_listen_fn fn, void *arg, struct rd_fab_listener **out)
{
	return fab->ops->listen(fab, addr, backlog, fn, arg, out);
}

/* Stop listening. Half-made handshakes are dropped; requests already handed out live on. */
static inline void rd_fab_unlisten(struct rd_fab_listener **lis)
{
	if (*lis)
		(*lis)->ops->unlisten(*lis);
	*lis = NULL;
}

/*
 * Make @req a connection of @fab, on fab's loop. Consumes @req, also on failure. Then:
 * rd_fab_qp_create(), post RECVs, and rd_fab_accept() or rd_fab_reject(). Returns 0 or -errno.
 */
static inline int rd_fab_req_adopt(struct rd_fab *fab, struct rd_fab_req *req,
				   rd_fab_event_fn on_event, void *arg, struct rd_fab_conn **out)
{
	return fab->ops->req_adopt(fab, req, on_event, arg, out);
}

/* Refuse @req with private data (@len may be 0). Consumes it. Any thread. */
static inline void rd_fab_req_reject(struct rd_fab_req *req, const void *priv, size_t len)
{
	req->ops->req_reject(req, priv, len);
}

/*
 * Accept: after rd_fab_qp_create() and after RECVs for the peer's first messages are posted.
 * Results in ESTABLISHED or DISCONNECTED. Completions may be reported before ESTABLISHED is
 * delivered. conn->ord becomes min(param->ord, peer's IRD). Returns 0, -EMSGSIZE, -EINVAL in a
 * wrong state.
 */
static inline int rd_fab_accept(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param)
{
	return conn->ops->accept(conn, param);
}

/* Refuse an adopted connection. No event follows; destroy the connection at once. */
static inline int rd_fab_reject(struct rd_fab_conn *conn, const void *priv, size_t len)
{
	return conn->ops->reject(conn, priv, len);
}

/* ---- active side ---- */

/* Find the device that reaches attr->dst. RESOLVED or CONNECT_ERROR follows. Returns 0 or -errno.
 */
static inline int rd_fab_resolve(struct rd_fab *fab, const struct rd_fab_resolve_attr *attr,
				 struct rd_fab_conn **out)
{
	return fab->ops->resolve(fab, attr, out);
}

/*
 * After RESOLVED and rd_fab_qp_create(). ESTABLISHED, REJECTED or CONNECT_ERROR follows. Returns 0,
 * -EMSGSIZE, -EINVAL in a wrong state.
 */
static inline int rd_fab_connect(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param)
{
	return conn->ops->connect(conn, param);
}

/* ---- both sides ---- */

/*
 * Give the connection its queue pair. Returns 0, -EINVAL (limits of caps exceeded, wrong state),
 * -ENOSPC (the CQ can neither hold nor be grown to hold max_send_wr + max_recv_wr more entries) or
 * -ENOMEM.
 */
static inline int rd_fab_qp_create(struct rd_fab_conn *conn, const struct rd_fab_qp_attr *attr)
{
	return conn->ops->qp_create(conn, attr);
}

/*
 * End the connection: what the socket or device already took is still delivered, everything else
 * posted completes with IBV_WC_WR_FLUSH_ERR, DISCONNECTED follows. Idempotent; in a state before
 * ESTABLISHED it cancels the attempt and DISCONNECTED follows as well.
 */
static inline void rd_fab_disconnect(struct rd_fab_conn *conn)
{
	conn->ops->disconnect(conn);
}

/*
 * Has the peer ended this established connection, although DISCONNECTED has not been delivered yet?
 * A loop that has not turned for a while has not read everything that arrived. False when the
 * provider cannot know it before the event.
 */
static inline bool rd_fab_peer_closed(const struct rd_fab_conn *conn)
{
	return conn->ops->peer_closed && conn->ops->peer_closed(conn);
}

/*
 * Free the connection and its queue pair in any state; no event and no completion of it is
 * delivered afterwards (completions still in a CQ are dropped). Users drain by counting before they
 * come here. With caps.srq_waits, RECVs of a shared queue are not lost that way: they complete,
 * with the qp_num of a connection that is no more.
 */
static inline void rd_fab_conn_destroy(struct rd_fab_conn **conn)
{
	if (*conn)
		(*conn)->ops->conn_destroy(*conn);
	*conn = NULL;
}

/* ---- memory ---- */

/*
 * Register [@addr, @addr + @len) with IBV_ACCESS_* flags. The memory stays the caller's and must
 * outlive the registration and all WRs that use it. With caps.cheap_mr this allocates nothing once
 * warm. Returns 0, -EINVAL, -ENOMEM (also: memlock limit).
 */
static inline int rd_fab_reg_mr(struct rd_fab_dev *dev, void *addr, size_t len, int access,
				struct rd_fab_mr **out)
{
	return dev->ops->reg_mr(dev, addr, len, access, out);
}

/* From now on every remote access with its rkey fails and ends the offending connection. */
static inline void rd_fab_dereg_mr(struct rd_fab_mr **mr)
{
	if (*mr)
		(*mr)->dev->ops->dereg_mr(*mr);
	*mr = NULL;
}

/* ---- completion queues ---- */

/* @fn may be NULL for a CQ that is only polled or waited for with rd_fab_cq_fd(). */
static inline int rd_fab_cq_create(struct rd_fab_dev *dev, uint32_t depth, rd_fab_cq_fn fn,
				   void *arg, struct rd_fab_cq **out)
{
	return dev->ops->cq_create(dev, depth, fn, arg, out);
}

static inline void rd_fab_cq_destroy(struct rd_fab_cq **cq)
{
	if (*cq)
		(*cq)->dev->ops->cq_destroy(*cq);
	*cq = NULL;
}

/* Up to @n completions into @wc. Returns the number, or -errno when the CQ is broken. */
static inline int rd_fab_cq_poll(struct rd_fab_cq *cq, int n, struct ibv_wc *wc)
{
	return cq->dev->ops->cq_poll(cq, n, wc);
}

/*
 * Ask for one notification of the next completion that is added from now on. Those already in the
 * CQ do not count: arm, poll once more, then sleep. Returns 0 or -errno.
 */
static inline int rd_fab_cq_arm(struct rd_fab_cq *cq)
{
	return cq->dev->ops->cq_arm(cq);
}

/*
 * A descriptor that becomes readable with a notification, for waiting outside the loop. Read eight
 * bytes from it (or let rd_fab_cq_arm() do so) to reset it. Owned by the CQ. Returns it or -errno.
 */
static inline int rd_fab_cq_fd(struct rd_fab_cq *cq)
{
	return cq->dev->ops->cq_fd(cq);
}

/* ---- shared receive queues ---- */

/*
 * A queue of @max_wr RECVs for any number of connections. Which RECV a message takes is not
 * promised, nor how they are shared out; qp_num in the completion says whose message it is. A
 * connection's end flushes only a RECV that a message of its own has begun to fill.
 *
 * With caps.srq_waits a message takes its RECV with its last byte, so that a peer which begins
 * messages and does not end them holds none; and one that finds the queue empty waits, and nothing
 * is lost: its connection receives nothing more until then (so neither READs nor their responses),
 * its peer is held back by flow control, and sending goes on. Connections that wait are served in
 * the order they came, each with an equal part of what is posted, and none that comes later
 * overtakes them; but shares (below) take turns, and those that hold too much are passed by. The
 * user's part is to post RECVs again without waiting for more to arrive on such a connection.
 *
 * Without, it depends on the device what happens then: a queue pair's own RECVs are the safe
 * choice.
 */
static inline int rd_fab_srq_create(struct rd_fab_dev *dev, uint32_t max_wr, uint32_t max_sge,
				    struct rd_fab_srq **out)
{
	return dev->ops->srq_create(dev, max_wr, max_sge, out);
}

static inline void rd_fab_srq_destroy(struct rd_fab_srq **srq)
{
	if (*srq)
		(*srq)->dev->ops->srq_destroy(*srq);
	*srq = NULL;
}

/*
 * With caps.srq_waits: have @fn called with @arg, from the loop and never inside a call, when a
 * message leaves fewer than @limit RECVs for those after it, as libibverbs tells with
 * IBV_SRQ_LIMIT. Once: set the limit again to hear of it again; 0 is none. Whoever counts
 * completions sees it too late when one turn has received many messages.
 */
static inline void rd_fab_srq_limit(struct rd_fab_srq *srq, uint32_t limit, rd_fab_srq_fn fn,
				    void *arg)
{
	srq->dev->ops->srq_limit(srq, limit, fn, arg);
}

/*
 * With caps.srq_waits: connections that are limited together, so that they leave something for all
 * others. While a share holds anything, it takes another RECV only as long as it will not hold more
 * than three times what is then left posted; its connections wait as if the queue were empty, and
 * go on when enough has been posted again. Returns 0 or -ENOMEM.
 */
static inline int rd_fab_share_create(struct rd_fab_srq *srq, struct rd_fab_share **out)
{
	return srq->dev->ops->share_create(srq, out);
}

static inline void rd_fab_share_destroy(struct rd_fab_share **share)
{
	if (*share)
		(*share)->srq->dev->ops->share_destroy(*share);
	*share = NULL;
}

/*
 * From now on @conn, which has a queue pair with the queue of @share, is one of it; what it holds
 * changes over from the share it was in. The first time before it receives anything: a connection
 * in none has no limit, and nothing is counted.
 */
static inline void rd_fab_share_join(struct rd_fab_conn *conn, struct rd_fab_share *share)
{
	conn->ops->share_join(conn, share);
}

/*
 * @n RECVs that messages of @conn took, the user's part of the count: before they are posted again,
 * or when @conn is about to be destroyed and their completions were not seen. @conn: NULL when it
 * has been destroyed since.
 */
static inline void rd_fab_share_give(struct rd_fab_share *share, struct rd_fab_conn *conn,
				     uint32_t n)
{
	share->held -= n;
	if (conn)
		conn->held -= n;
}

/* ---- posting ---- */

/*
 * Post a chain of work requests: IBV_WR_SEND, IBV_WR_SEND_WITH_INV (set both wr.invalidate_rkey and
 * wr.wr.rdma.rkey: providers differ in which they read), IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ; flags
 * IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, IBV_SEND_INLINE, IBV_SEND_FENCE. The WRs and SGE arrays
 * are copied and may be reused on return; the memory they point to belongs to the provider until
 * completion. Completions of a queue pair's send side come in posting order; failed WRs complete
 * even when unsignalled. They are put on the wire at the end of the loop's turn at the latest, with
 * all others posted in the turn. Returns 0; -ENOMEM (queue full), -EINVAL (malformed), -ENOTCONN
 * (not yet connected), in which case
 * *@bad is the first WR not taken. On a connection that broke, WRs are taken and flushed.
 */
static inline int rd_fab_post_send(struct rd_fab_conn *conn, struct ibv_send_wr *wr,
				   struct ibv_send_wr **bad)
{
	return conn->ops->post_send(conn, wr, bad);
}

/* As rd_fab_post_send(), allowed from rd_fab_qp_create() on. */
static inline int rd_fab_post_recv(struct rd_fab_conn *conn, struct ibv_recv_wr *wr,
				   struct ibv_recv_wr **bad)
{
	return conn->ops->post_recv(conn, wr, bad);
}

/* As rd_fab_post_recv(), at any time. -ENOMEM: @max_wr are posted. */
static inline int rd_fab_post_srq_recv(struct rd_fab_srq *srq, struct ibv_recv_wr *wr,
				       struct ibv_recv_wr **bad)
{
	return srq->dev->ops->post_srq_recv(srq, wr, bad);
}

/* ---- providers ---- */

/*
 * Memory that the iwarp provider needs during a call only. A thread with many fabrics has them
 * share one, so that what they use is in the processor's cache and not there once for each of them.
 * Fabrics of different threads may share it too. Reference counted: whoever creates it has one
 * reference, each fabric that was opened with it another.
 */
struct rd_fab_iwarp_scratch;

/* Returns 0 or -ENOMEM. Any thread may call all three. */
int rd_fab_iwarp_scratch_create(struct rd_fab_iwarp_scratch **out);
/* Returns @scratch, which may be NULL. */
struct rd_fab_iwarp_scratch *rd_fab_iwarp_scratch_ref(struct rd_fab_iwarp_scratch *scratch);
void rd_fab_iwarp_scratch_unref(struct rd_fab_iwarp_scratch **scratch);

#define RD_FAB_IWARP_HALF_OPEN 1024
#define RD_FAB_IWARP_NEVER     UINT64_MAX

struct rd_fab_iwarp_opts {
	bool crc;        /* ask for CRC32C; the peer's wish is honoured either way */
	uint32_t sndbuf; /* SO_SNDBUF in bytes; 0: the kernel's default (autotuned) */
	uint32_t rcvbuf; /* SO_RCVBUF in bytes; 0: the kernel's default (autotuned) */
	const char
		*congestion; /* TCP_CONGESTION; NULL: the host's default. Must outlive the fabric */
	uint64_t request_timeout_ns; /* passive: from TCP accept to a whole request; 0: 5 s */
	uint32_t half_open; /* passive: sockets of a listener without a request; 0: the number below
			     */
	uint64_t reply_timeout_ns; /* active: from request to reply; 0: 10 s */
	uint64_t peer_timeout_ns;  /* until a peer that acknowledges nothing any more is given up,
				    * idle or not; 0: 60 s; RD_FAB_IWARP_NEVER: never */
	uint64_t poke_ns;          /* active: until a peer that stays silent is poked; 0: 5 ms */
	bool no_peer_to_peer; /* active: do not offer the peer-to-peer model (A with C and D) */
	uint8_t mpa_revision; /* active: 2, or 1 for peers that know no other; 0: 2 */
	struct rd_fab_iwarp_scratch *scratch; /* NULL: the fabric's own */
};

/* Returns 0, -ENOMEM, or -ENOENT when opts->congestion is unknown here. NULL @opts: defaults. */
int rd_fab_iwarp_open(struct rd_loop *loop, const struct rd_fab_iwarp_opts *opts,
		      struct rd_fab **out);

struct rd_fab_verbs_opts {
	bool no_send_with_inv; /* for devices that claim it and cannot: caps.send_with_inv is off */
	bool no_inline;        /* caps.max_inline is 0 */
};

/*
 * RDMA devices of the kernel, through librdmacm and libibverbs. All of them: which one a connection
 * uses follows from its addresses. Returns 0, -ENOMEM, -ENODEV where there is no RDMA device or no
 * connection manager (the rdma_ucm module), or the errno of opening /dev/infiniband/rdma_cm. NULL
 * @opts: defaults.
 */
int rd_fab_verbs_open(struct rd_loop *loop, const struct rd_fab_verbs_opts *opts,
		      struct rd_fab **out);

/*
 * Is @addr reached through an RDMA device: as a local address of one, or, for a remote address, by
 * the route to it? A wildcard is, when any address of its family is. Sends nothing. For choosing a
 * provider.
 */
bool rd_fab_verbs_has_addr(const struct sockaddr *addr);

#endif /* RD_FABRIC_FABRIC_H */
