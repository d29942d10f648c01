/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric interface: all that the layers above know of RDMA.
 *
 * Work requests, scatter/gather entries and completions are libibverbs' own types. A provider is
 * one table of operations (struct rd_fab_ops); "iwarp" speaks MPA/DDP/RDMAP over TCP in userspace.
 *
 * Errors: every call returns 0 or -errno, whatever the convention of the library underneath.
 *
 * Threads: a fabric and everything made from it (devices, CQs, SRQs, MRs, connections, listeners)
 * belong to the loop the fabric was opened on. The one object that may cross threads is struct
 * rd_fab_req, a connection request that has not been adopted.
 *
 * Re-entrancy: events and CQ notifications are delivered from the loop, never from inside a call of
 * this interface. A callback may make every call, including one that destroys the connection that
 * the event is about.
 *
 * Byte order: host order everywhere; providers convert.
 *
 * Lifetime: fabric > device > { CQ, SRQ > share, MR } > connection. A connection is destroyed
 * before the CQs, the SRQ and the share that it uses. A device lives until its fabric is closed, or
 * until it has been removed and nothing uses it (struct rd_fab_dev).
 */
#ifndef RD_FABRIC_FABRIC_H
#define RD_FABRIC_FABRIC_H

#include <errno.h>
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
struct rd_fab_share;    /* connections with a common limit on a shared receive queue */
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
	bool srq_waits; /* a message for an empty shared receive queue waits: rd_fab_srq_create() */
	bool cheap_mr;  /* registration is a table entry: one registration per I/O is fine */
	const char *prtype; /* "iwarp", "roce", "ib": for logs and the discovery log page */
};

struct rd_fab_dev {
	const struct rd_fab_ops *ops;
	struct rd_fab *fab;
	struct rd_fab_caps caps;
	const char *name; /* for logs */
	bool gone;        /* removed; freed when its objects are destroyed and @user is NULL */
	void *user;       /* the layer above's per-device state, or NULL */
};

struct rd_fab {
	const struct rd_fab_ops *ops;
	struct rd_loop *loop;
	struct rd_log *log;
};

/*
 * A registered memory region. Peers address byte addr[i] as iova + i, which need not be its virtual
 * address; the owner's scatter/gather entries hold virtual addresses. After a peer has invalidated
 * the region (SEND with Invalidate) every remote access fails, local use goes on, and
 * rd_fab_dereg_mr() is still due.
 */
struct rd_fab_mr {
	struct rd_fab_dev *dev;
	void *addr;
	size_t length;
	uint64_t iova;
	uint32_t lkey;
	uint32_t rkey;
};

/* The address by which a peer reaches @p, which is in @mr. */
static inline uint64_t rd_fab_remote_addr(const struct rd_fab_mr *mr, const void *p)
{
	return (uintptr_t)p - (uintptr_t)mr->addr + mr->iova;
}

enum rd_fab_event_type {
	/* Active side, from rd_fab_resolve(): the device is known, the queue pair can be made. */
	RD_FAB_EV_RESOLVED,
	/* Both sides. Active: private_data is the accept's. WRs may be posted. */
	RD_FAB_EV_ESTABLISHED,
	/* Active: the peer rejected. private_data is the reject's; status is -ECONNREFUSED. */
	RD_FAB_EV_REJECTED,
	/* Active: the attempt failed; status says why: -ECONNREFUSED (nobody listens), -ETIMEDOUT,
	 * -EHOSTUNREACH, -EPROTO (the peer does not speak the provider's protocol), ... */
	RD_FAB_EV_CONNECT_ERROR,
	/*
	 * An established (or accepted) connection is over: by the peer, by rd_fab_disconnect(), or
	 * by an error. status is 0 for an orderly end and -errno otherwise. All posted WRs have
	 * been or are being flushed. Exactly once, and the last event of a connection.
	 */
	RD_FAB_EV_DISCONNECTED,
	/* The device was removed; each of its connections gets DISCONNECTED as well. */
	RD_FAB_EV_DEVICE_REMOVED,
};

struct rd_fab_event {
	enum rd_fab_event_type type;
	int status;               /* 0 or -errno */
	const char *reason;       /* text for people, never NULL; valid during the call */
	const void *private_data; /* NULL when there is none; valid during the call */
	bool unanswered;    /* CONNECT_ERROR: TCP connected, but no answer of the protocol came */
	size_t private_len; /* can exceed what the peer sent (padding): do not check for equality */
};

typedef void (*rd_fab_event_fn)(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg);

/*
 * A peer requests a connection. The callee owns @req and passes it to rd_fab_req_adopt() or
 * rd_fab_req_reject(), on any thread.
 */
typedef void (*rd_fab_listen_fn)(struct rd_fab_listener *lis, struct rd_fab_req *req, void *arg);

struct rd_fab_req {
	const struct rd_fab_ops *ops;
	struct sockaddr_storage local; /* the address the peer reached, never a wildcard */
	struct sockaddr_storage remote;
	const void *private_data;
	size_t private_len;
	uint16_t peer_ird; /* inbound READs that the peer can hold: the limit of this side's ORD */
	uint16_t peer_ord; /* READs that the peer will issue: what this side's IRD should cover */
	void *user;        /* the layer above's, while the request is passed between threads */
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
	bool waits;      /* the next inbound message waits for a RECV of a shared queue */
	bool moved;      /* another process has the socket too: it is closed without a word */
	uint32_t recvs;  /* the part of share->recvs that this connection's messages took */
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
	/*
	 * One success completion stands for all SENDs and WRITEs posted before: of those that are
	 * done at the same time the provider may report only the last signaled one. Every READ, and
	 * every work request that fails or is flushed, has a completion of its own.
	 */
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
	uint32_t recvs; /* RECVs taken by messages of its connections and not given back */
};

struct rd_fab_listener {
	const struct rd_fab_ops *ops;
	struct rd_fab *fab;
	struct sockaddr_storage addr; /* as bound: with the chosen port if port 0 was requested */
	const char *prtype; /* as in rd_fab_caps; NULL when it depends on the connection */
	rd_fab_listen_fn fn;
	void *arg;
};

/* How far an established connection is held. */
enum rd_fab_hold {
	RD_FAB_HOLD_OFF,
	/* Messages are not delivered, and take no RECV; they wait in memory. Everything else goes
	 * on, such as answers to READs. */
	RD_FAB_HOLD_ASIDE,
	RD_FAB_HOLD_ENDS, /* a message of which a part has arrived is received to its end */
	RD_FAB_HOLD_STOP, /* nothing is received */
};

/* What a connection is besides its socket, for a process that goes on with it. */
struct rd_fab_moved {
	bool crc;
	uint16_t ird, ord;
	uint32_t tx_send_msn, tx_read_msn; /* of the next message */
	uint32_t rx_send_msn, rx_read_msn; /* expected */
};

struct rd_fab_message { /* in two parts */
	const void *part[2];
	uint32_t len[2];
};

struct rd_fab_ops {
	const char *name;
	void (*close)(struct rd_fab *fab);

	int (*listen)(struct rd_fab *fab, const struct sockaddr *addr, int backlog,
		      rd_fab_listen_fn fn, void *arg, struct rd_fab_listener **out);
	void (*unlisten)(struct rd_fab_listener *lis);
	/* Those of providers that listen on a socket; NULL for others. */
	int (*listen_on)(struct rd_fab *fab, int fd, rd_fab_listen_fn fn, void *arg,
			 struct rd_fab_listener **out);
	int (*listen_fd)(const struct rd_fab_listener *lis);
	void (*listen_hold)(struct rd_fab_listener *lis, bool held);
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
	bool (*unread)(const struct rd_fab_conn *conn);      /* may be NULL */
	/* The next five may be NULL, all together. */
	void (*hold)(struct rd_fab_conn *conn, enum rd_fab_hold how);
	bool (*rests)(struct rd_fab_conn *conn);
	int (*move_out)(struct rd_fab_conn *conn, const struct rd_fab_message *msgs, uint32_t count,
			void (*put)(void *arg, const void *p, size_t n), void *arg,
			struct rd_fab_moved *out);
	int (*move_in)(struct rd_fab *fab, int fd, const struct rd_fab_moved *moved,
		       rd_fab_event_fn on_event, void *arg, struct rd_fab_conn **out);
	int (*move_open)(struct rd_fab_conn *conn, const void *bytes, size_t len);
	void (*conn_destroy)(struct rd_fab_conn *conn);

	int (*reg_mr)(struct rd_fab_dev *dev, void *addr, size_t len, int access,
		      struct rd_fab_mr **out);
	void (*dereg_mr)(struct rd_fab_mr *mr);

	int (*cq_create)(struct rd_fab_dev *dev, uint32_t depth, rd_fab_cq_fn fn, void *arg,
			 struct rd_fab_cq **out);
	void (*cq_destroy)(struct rd_fab_cq *cq);
	int (*cq_poll)(struct rd_fab_cq *cq, int n, struct ibv_wc *wc);
	int (*cq_arm)(struct rd_fab_cq *cq);

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

/*
 * As rd_fab_listen(), on the socket @fd of another process, which listens already. It is taken over
 * on success. -EOPNOTSUPP: the provider does not listen on a socket.
 */
static inline int rd_fab_listen_on(struct rd_fab *fab, int fd, rd_fab_listen_fn fn, void *arg,
				   struct rd_fab_listener **out)
{
	return fab->ops->listen_on ? fab->ops->listen_on(fab, fd, fn, arg, out) : -EOPNOTSUPP;
}

/* The socket, for rd_fab_listen_on() in another process; it remains the listener's. Or
 * -EOPNOTSUPP. */
static inline int rd_fab_listen_fd(const struct rd_fab_listener *lis)
{
	return lis->ops->listen_fd ? lis->ops->listen_fd(lis) : -EOPNOTSUPP;
}

/* While it is held, connections wait in the kernel; where there is no socket, nothing changes. */
static inline void rd_fab_listen_hold(struct rd_fab_listener *lis, bool held)
{
	if (lis->ops->listen_hold)
		lis->ops->listen_hold(lis, held);
}

/* Stop listening. Unfinished handshakes are dropped; requests already delivered stay valid. */
static inline void rd_fab_unlisten(struct rd_fab_listener **lis)
{
	if (*lis)
		(*lis)->ops->unlisten(*lis);
	*lis = NULL;
}

/*
 * Make @req a connection of @fab, on the loop of @fab. Consumes @req, also on failure. Next steps:
 * rd_fab_qp_create(), post RECVs, then rd_fab_accept() or rd_fab_reject(). Returns 0 or -errno.
 */
static inline int rd_fab_req_adopt(struct rd_fab *fab, struct rd_fab_req *req,
				   rd_fab_event_fn on_event, void *arg, struct rd_fab_conn **out)
{
	return fab->ops->req_adopt(fab, req, on_event, arg, out);
}

/* Reject @req with private data of @len bytes (0: none). Consumes @req. Any thread. */
static inline void rd_fab_req_reject(struct rd_fab_req *req, const void *priv, size_t len)
{
	req->ops->req_reject(req, priv, len);
}

/*
 * Accept. Call it after rd_fab_qp_create() and after posting RECVs for the peer's first messages.
 * ESTABLISHED or DISCONNECTED follows; completions may be reported before ESTABLISHED is delivered.
 * conn->ord becomes min(param->ord, peer's IRD). Returns 0, -EMSGSIZE, or -EINVAL in a wrong state.
 */
static inline int rd_fab_accept(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param)
{
	return conn->ops->accept(conn, param);
}

/* Reject an adopted connection. No event follows; destroy the connection at once. */
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
 * Connect. Call it after RESOLVED and rd_fab_qp_create(). ESTABLISHED, REJECTED or CONNECT_ERROR
 * follows. Returns 0, -EMSGSIZE, or -EINVAL in a wrong state.
 */
static inline int rd_fab_connect(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param)
{
	return conn->ops->connect(conn, param);
}

/* ---- both sides ---- */

/*
 * Create the connection's queue pair. Returns 0, -EINVAL (limits of caps exceeded, wrong state),
 * -ENOSPC (the CQ has no room for max_send_wr + max_recv_wr more entries and cannot grow) or
 * -ENOMEM.
 */
static inline int rd_fab_qp_create(struct rd_fab_conn *conn, const struct rd_fab_qp_attr *attr)
{
	return conn->ops->qp_create(conn, attr);
}

/*
 * End the connection. Data that the socket or device already took is still delivered, every other
 * posted WR completes with IBV_WC_WR_FLUSH_ERR, and DISCONNECTED follows. Before ESTABLISHED it
 * cancels the attempt, and DISCONNECTED follows as well. Idempotent.
 */
static inline void rd_fab_disconnect(struct rd_fab_conn *conn)
{
	conn->ops->disconnect(conn);
}

/*
 * Whether the peer has ended this established connection although DISCONNECTED has not been
 * delivered yet: a loop that has not turned for a while has not read everything that arrived. False
 * if the provider cannot tell before the event.
 */
static inline bool rd_fab_peer_closed(const struct rd_fab_conn *conn)
{
	return conn->ops->peer_closed && conn->ops->peer_closed(conn);
}

/*
 * Has something arrived that rd_fab_cq_poll() has not returned, a part of a message at least? 1, 0,
 * or -EOPNOTSUPP if the provider cannot tell.
 */
static inline int rd_fab_unread(const struct rd_fab_conn *conn)
{
	return conn->ops->unread ? conn->ops->unread(conn) : -EOPNOTSUPP;
}

/* ---- moving a connection to another process ---- */

/* Can connections be held and moved? */
static inline bool rd_fab_can_move(const struct rd_fab_conn *conn)
{
	return conn->ops->move_out;
}

/* Hold an established connection, and let it go on again. Sending continues. */
static inline void rd_fab_hold(struct rd_fab_conn *conn, enum rd_fab_hold how)
{
	if (conn->ops->hold)
		conn->ops->hold(conn, how);
}

/* While it is held: does it receive nothing, have all work requests completed and all completions
 * been polled? From then on nothing is received. */
static inline bool rd_fab_rests(struct rd_fab_conn *conn)
{
	return !conn->ops->rests || conn->ops->rests(conn);
}

/*
 * Describes a connection that rests, of the passive side, in @out. What it has received and not
 * delivered goes to @put as bytes of its stream, behind the @count messages at @msgs: the last ones
 * that it has delivered, to be delivered again. Returns the socket, which stays the connection's,
 * or -EOPNOTSUPP.
 */
static inline int rd_fab_move_out(struct rd_fab_conn *conn, const struct rd_fab_message *msgs,
				  uint32_t count, void (*put)(void *arg, const void *p, size_t n),
				  void *arg, struct rd_fab_moved *out)
{
	return conn->ops->move_out ? conn->ops->move_out(conn, msgs, count, put, arg, out)
				   : -EOPNOTSUPP;
}

/*
 * Makes the socket @fd a connection of @fab; takes it, also upon failure. Next steps:
 * rd_fab_qp_create(), post RECVs, rd_fab_move_open(). Returns 0; -EPROTO for a value in @moved that
 * cannot be; or -errno.
 */
static inline int rd_fab_move_in(struct rd_fab *fab, int fd, const struct rd_fab_moved *moved,
				 rd_fab_event_fn on_event, void *arg, struct rd_fab_conn **out)
{
	return fab->ops->move_in(fab, fd, moved, on_event, arg, out);
}

/* It is established, and held as with RD_FAB_HOLD_ENDS. @bytes, which are copied, are received
 * first when it goes on. No ESTABLISHED follows. Returns 0 or -errno. */
static inline int rd_fab_move_open(struct rd_fab_conn *conn, const void *bytes, size_t len)
{
	return conn->ops->move_open(conn, bytes, len);
}

/*
 * Free the connection and its queue pair, in any state. None of its events and completions is
 * delivered afterwards; completions still in a CQ are dropped. A user that must see every
 * completion counts them before this call. With caps.srq_waits the completions of a shared queue's
 * RECVs are not dropped: they are delivered with the qp_num of the freed connection.
 */
static inline void rd_fab_conn_destroy(struct rd_fab_conn **conn)
{
	if (*conn)
		(*conn)->ops->conn_destroy(*conn);
	*conn = NULL;
}

/* ---- memory ---- */

/*
 * Register [@addr, @addr + @len) with IBV_ACCESS_* flags. The memory remains the caller's and must
 * outlive the registration and all WRs that use it. With caps.cheap_mr this reuses the entry of an
 * earlier registration and rarely allocates. Returns 0, -EINVAL or -ENOMEM (also for the limit of
 * locked memory).
 */
static inline int rd_fab_reg_mr(struct rd_fab_dev *dev, void *addr, size_t len, int access,
				struct rd_fab_mr **out)
{
	return dev->ops->reg_mr(dev, addr, len, access, out);
}

/* Afterwards every remote access with its rkey fails, and ends the connection that made it. */
static inline void rd_fab_dereg_mr(struct rd_fab_mr **mr)
{
	if (*mr)
		(*mr)->dev->ops->dereg_mr(*mr);
	*mr = NULL;
}

/* ---- completion queues ---- */

/* @fn may be NULL: the CQ is polled. */
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
 * Request one notification, for the next completion that is added after this call. Completions
 * already in the CQ give none: arm, poll once more, then sleep. Returns 0 or -errno.
 */
static inline int rd_fab_cq_arm(struct rd_fab_cq *cq)
{
	return cq->dev->ops->cq_arm(cq);
}

/* ---- shared receive queues ---- */

/*
 * A queue of @max_wr RECVs for any number of connections. Neither the order in which RECVs are used
 * nor their distribution among connections is defined; qp_num in the completion names the
 * connection. The end of a connection flushes only a RECV that one of its messages has partly
 * filled.
 *
 * With caps.srq_waits:
 * - A message takes its RECV with its last byte, so that unfinished messages hold none.
 * - A message that finds the queue empty waits, and nothing is lost. Until then its connection
 *   receives nothing (also no READs and no READ responses), flow control holds back the peer, and
 *   sending continues.
 * - Waiting connections are served in the order in which they began to wait, each with an equal
 *   part of the posted RECVs, and before messages that arrive later. Shares (below) take turns; a
 *   share that holds too many RECVs is skipped.
 * - The user must post RECVs again without waiting for more data of such a connection.
 *
 * Without caps.srq_waits the device decides what happens to a message that finds the queue empty:
 * receive queues of the queue pairs are the safe choice.
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
 * With caps.srq_waits: calls @fn with @arg, once, from the loop, when a message has left fewer than
 * @limit RECVs in the queue (as IBV_SRQ_LIMIT of libibverbs). Set the limit again for another call;
 * @limit 0: no call. Counting completions instead would be too late where one iteration receives
 * many messages.
 */
static inline void rd_fab_srq_limit(struct rd_fab_srq *srq, uint32_t limit, rd_fab_srq_fn fn,
				    void *arg)
{
	srq->dev->ops->srq_limit(srq, limit, fn, arg);
}

/*
 * With caps.srq_waits: creates a group of connections with a common limit, so that they leave RECVs
 * for others. A share that holds RECVs takes another one only if it then holds at most three times
 * what is left posted; otherwise its connections wait as if the queue were empty, until enough
 * RECVs have been posted. Returns 0 or -ENOMEM.
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
 * Adds @conn, whose queue pair uses the queue of @share, to @share, and moves the RECVs that it
 * holds from its former share. The first call must precede the first message: for a connection
 * without a share there is no limit, and nothing is counted.
 */
static inline void rd_fab_share_join(struct rd_fab_conn *conn, struct rd_fab_share *share)
{
	conn->ops->share_join(conn, share);
}

/*
 * Gives back @n RECVs that messages of @conn took. The user calls this before it posts them again,
 * and before it destroys @conn for those whose completions it has not seen. @conn: NULL if it has
 * been destroyed meanwhile.
 */
static inline void rd_fab_share_give(struct rd_fab_share *share, struct rd_fab_conn *conn,
				     uint32_t n)
{
	share->recvs -= n;
	if (conn)
		conn->recvs -= n;
}

/* ---- posting ---- */

/*
 * Post a chain of work requests: IBV_WR_SEND, IBV_WR_SEND_WITH_INV (set both wr.invalidate_rkey and
 * wr.wr.rdma.rkey: providers differ in which they read), IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ; flags
 * IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, IBV_SEND_INLINE, IBV_SEND_FENCE. The WRs and SGE arrays
 * are copied and may be reused on return; the memory they point to belongs to the provider until
 * completion. Completions of a queue pair's send side come in posting order; failed WRs complete
 * even when unsignaled. WRs leave at the end of the loop iteration at the latest, together. Returns
 * 0, -ENOMEM (queue full), -EINVAL (malformed) or -ENOTCONN (not yet connected); on error *@bad is
 * the first WR that was not taken. After the end of a connection WRs are taken and flushed.
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
 * Memory that the iwarp provider needs only during a callback. Fabrics of one thread should share
 * one, so that it stays in the processor's cache; fabrics of different threads may share it too.
 * Reference counted: the creator holds one reference, each fabric that was opened with it another.
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
	bool crc;        /* request CRC32C; used as well if the peer requests it */
	uint32_t sndbuf; /* SO_SNDBUF in bytes; 0: the kernel's default (autotuned) */
	uint32_t rcvbuf; /* SO_RCVBUF in bytes; 0: the kernel's default (autotuned) */
	const char
		*congestion; /* TCP_CONGESTION; NULL: the host's default. Must outlive the fabric */
	uint64_t request_timeout_ns; /* passive: from TCP accept to a whole request; 0: 5 s */
	uint32_t half_open;          /* passive: sockets of a listener without a request; 0:
					RD_FAB_IWARP_HALF_OPEN */
	uint64_t reply_timeout_ns;   /* active: from request to reply; 0: 10 s */
	uint64_t peer_timeout_ns;    /* a peer that acknowledges nothing for so long is
				      * disconnected, idle or not; 0: 60 s; RD_FAB_IWARP_NEVER */
	uint64_t poke_ns;            /* active: from the hold's end to the first empty WRITE to a
				      * peer that has sent nothing; 0: 5 ms */
	bool no_peer_to_peer; /* active: do not offer the peer-to-peer model (A with C and D) */
	uint8_t mpa_revision; /* active: 2, or 1 for peers that know only 1; 0: 2 */
	struct rd_fab_iwarp_scratch *scratch; /* NULL: the fabric's own */
};

/* Returns 0, -ENOMEM, or -ENOENT when opts->congestion is unknown here. NULL @opts: defaults. */
int rd_fab_iwarp_open(struct rd_loop *loop, const struct rd_fab_iwarp_opts *opts,
		      struct rd_fab **out);

struct rd_fab_verbs_opts {
	bool no_send_with_inv; /* caps.send_with_inv is false, whatever the device claims */
	bool no_inline;        /* caps.max_inline is 0 */
};

/*
 * Opens the RDMA devices of the kernel, through librdmacm and libibverbs; the addresses of a
 * connection decide which device it uses. NULL @opts: defaults. Returns 0, -ENOMEM, -ENODEV (no
 * RDMA device, or no connection manager: the rdma_ucm module), or -errno of opening
 * /dev/infiniband/rdma_cm.
 */
int rd_fab_verbs_open(struct rd_loop *loop, const struct rd_fab_verbs_opts *opts,
		      struct rd_fab **out);

/*
 * Whether @addr is reached through an RDMA device: as a local address of the device, or by the
 * route to a remote address. For a wildcard: whether any address of its family is. Sends nothing.
 * For choosing a provider.
 */
bool rd_fab_verbs_has_addr(const struct sockaddr *addr);

#endif /* RD_FABRIC_FABRIC_H */
