/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections, requests and capsules of the TCP transport. All of them belong to one reactor. */
#ifndef RDT_TCP_H
#define RDT_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "util/log.h"
#include "util/loop.h"
#include "util/rx_rest.h"
#include "util/rx_turn.h"
#include "nvmf/tcp_pdu.h"
#include "nvmf/tls.h"
#include "target/nvmf/handover.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/pool.h"
#include "target/nvmf/progress.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/reactor.h"
#include "target/nvmf/req_pool.h"
#include "target/nvmf/request.h"
#include "target/nvmf/transport.h"
#include "tcp_transport.h"

#define RDT_TCP_STAGING 65536u /* bytes read at once, in addition to data whose place is known */

struct rdt_tcp_conn;

/* An accepted socket on its way to the reactor, which frees it. */
struct rdt_tcp_handoff {
	struct rdt_handover over;
	STAILQ_ENTRY(rdt_tcp_handoff) link; /* while it waits for its TLS handshake */
	struct rdt_reactor *reactor;
	struct rdt_listener *listener;
	struct rdt_peer *peer;
	struct sockaddr_storage remote;
	int fd;
	struct nvmf_tls *tls; /* its handshake is complete; NULL: the connection is plain */
};

STAILQ_HEAD(rdt_tcp_handoffs, rdt_tcp_handoff);

/* A received command capsule, from the first byte of its data until capsule_done(). */
struct rdt_tcp_capsule {
	struct rdt_capsule cap;
	struct nvme_sqe sqe;
	bool bad;      /* the data digest was wrong */
	uint8_t *area; /* in-capsule data, rdt_tcp.area_size bytes; NULL: it has none */
	struct rdt_tcp_conn *conn;
	LIST_ENTRY(rdt_tcp_capsule) link;  /* conn->capsules */
	SLIST_ENTRY(rdt_tcp_capsule) next; /* list of free capsules */
};

SLIST_HEAD(rdt_tcp_capsules, rdt_tcp_capsule);

/* A socket whose connection has ended: it is read until the peer closes it, because close(2) with
 * unread data sends an RST, and the peer may then lose data that it has not read yet. */
struct rdt_tcp_linger {
	struct rd_io io;
	struct rd_timer timer;
	struct rdt_tcp *tcp;
	uint32_t bytes;
	TAILQ_ENTRY(rdt_tcp_linger) link;
};

/* The state of a reactor. */
struct rdt_tcp {
	struct rdt_reactor *reactor;
	struct rdt_inbound inbound;   /* accepted sockets on their way to this reactor */
	struct rdt_req_pool pools[2]; /* for admin queues and for I/O queues */
	uint8_t *staging;             /* [RDT_TCP_STAGING]; empty when a callback returns */
	struct rd_rx_pieces pieces;
	/* capsules */
	struct rdt_tcp_capsules plain, areas; /* free capsules without and with an area */
	uint32_t area_size;
	uint32_t areas_used, areas_max;
	TAILQ_HEAD(, rdt_tcp_conn) area_wait; /* paused connections, because no area was free */
	/* ended sockets */
	TAILQ_HEAD(, rdt_tcp_linger) lingers; /* oldest first */
	uint32_t lingers_count;
	uint32_t linger_reads; /* reads in loop iteration @linger_iteration */
	uint64_t linger_iteration;
	struct rd_timer stall;             /* stall watchdog; armed while bytes are in flight */
	struct rd_ratelimit refused_limit; /* log lines about refused PDUs */
};

enum rdt_tcp_conn_state {
	RDT_TCP_WAIT_ICREQ, /* the first PDU must be an ICReq -> RUNNING, CLOSED */
	RDT_TCP_RUNNING,    /* -> CLOSED */
	/* Its socket is closed, or lingers until a C2HTermReq has arrived. Requests return; then
	 * the queue pair frees it. */
	RDT_TCP_CLOSED,
};

enum rdt_tcp_rx_state {
	RDT_TCP_RX_HEAD,  /* receives the header and its digest */
	RDT_TCP_RX_PAD,   /* skips the padding */
	RDT_TCP_RX_DATA,  /* receives data to @dst */
	RDT_TCP_RX_DDGST, /* receives the data digest */
};

/* The PDU in progress. */
struct rdt_tcp_rx {
	enum rdt_tcp_rx_state state;
	struct nvme_tcp_parts parts;
	uint32_t have; /* bytes of @head or @ddgst */
	uint32_t left; /* bytes of the padding or of the data */
	bool sized;    /* the common header was checked and @parts is valid */
	bool held;    /* the header is complete, but no capsule is free: the connection is paused */
	uint8_t *dst; /* where the next data goes */
	uint32_t crc; /* of the data */
	_Alignas(8) uint8_t head[NVME_TCP_HEAD_MAX];
	uint8_t ddgst[RD_CRC32C_LEN];
	struct rdt_tcp_capsule *capsule; /* filled by the PDU */
	struct rdt_tcp_req *filled;      /* its buffer is filled by the PDU */
	/* while @held or conn->stopped: bytes that were read beyond the header */
	struct rd_rx_rest rest;
	struct rd_rx_turn turn;
	uint32_t pdus; /* received in this loop iteration and not charged yet */
};

struct rdt_tcp_req {
	TAILQ_ENTRY(rdt_tcp_req) tx; /* conn->tx, while an R2T or the answer is sent */
	bool queued;                 /* on that list */
	bool is_r2t;                 /* an R2T is being sent */
	bool asked;                  /* the R2T was sent */
	bool bad;                    /* a data digest was wrong */
	uint16_t ttag;
	uint8_t tail_len;
	uint8_t head_len;
	uint32_t got;      /* bytes of the requested data that have arrived */
	uint32_t data_len; /* bytes from req.buf between head and tail */
	uint8_t tail[RD_CRC32C_LEN + sizeof(struct nvme_tcp_rsp) + RD_CRC32C_LEN];
	/* R2T, or the header of C2HData, with digest and padding */
	_Alignas(8) uint8_t head[NVME_TCP_HEAD_MAX];
	struct rdt_req req;
} __attribute__((aligned(64)));

TAILQ_HEAD(rdt_tcp_tx, rdt_tcp_req);

struct rdt_tcp_conn {
	struct rdt_qpair qp;
	struct rdt_tcp *tcp;
	enum rdt_tcp_conn_state state;
	struct rd_io io;
	struct nvmf_tls *tls; /* NULL: the connection is plain */
	struct nvmf_tls_info tls_info;
	struct nvme_tcp_rules rules; /* rules for received PDUs */
	uint8_t hpda;                /* alignment of sent data */
	bool term_sent;              /* a C2HTermReq was sent */
	bool eof;                    /* the peer has closed the socket */
	bool blocked;                /* the socket is full: waits for EPOLLOUT */
	bool waits_area;             /* on tcp->area_wait */
	bool stopped;                /* nothing is read, because of a hold */
	uint8_t hold;                /* enum rdt_hold_how */
	struct rdt_tcp_rx rx;
	struct rdt_tcp_tx tx;
	uint32_t tx_sent;           /* bytes of the first entry of @tx that were sent */
	struct rdt_tcp_req **asked; /* [qp.depth], by TTAG: requests that wait for data */
	uint16_t *ttags;            /* [qp.depth]: the first @ttags_free are free */
	uint32_t ttags_free;
	LIST_HEAD(, rdt_tcp_capsule) capsules; /* in use */
	uint32_t capsules_used, areas_used;
	struct rdt_progress fetched, answers;
	TAILQ_ENTRY(rdt_tcp_conn) area_link;
	struct rd_defer flush, resume, again, finish;
};

static inline struct rdt_tcp *rdt_tcp_of(const struct rdt_reactor *r)
{
	return r->transport_state[RDT_TRANSPORT_TCP];
}

static inline struct rdt_tcp_conn *rdt_tcp_conn_of(const struct rdt_qpair *qp)
{
	return (void *)rd_container_of(qp, const struct rdt_tcp_conn, qp);
}

static inline struct rdt_tcp_req *rdt_tcp_req_of(struct rdt_req *req)
{
	return rd_container_of(req, struct rdt_tcp_req, req);
}

/* ---- tcp.c ---- */

/* Create a connection; takes over the socket of @h, its TLS and its peer; the caller keeps @h.
 * Returns 0, or -errno with the socket closed. */
int rdt_tcp_conn_new(struct rdt_tcp *tcp, const struct rdt_tcp_handoff *h);
/* The first step of this, after which it does not read yet. The next step is
 * rdt_tcp_conn_begin(). */
int rdt_tcp_conn_make(struct rdt_tcp *tcp, const struct rdt_tcp_handoff *h,
		      struct rdt_tcp_conn **out);
/* Returns 0, or -errno with @c freed. */
int rdt_tcp_conn_begin(struct rdt_tcp_conn *c);
void rdt_tcp_conn_free(struct rdt_tcp_conn *c);
/* Set the epoll events of the socket according to the state of the connection. */
void rdt_tcp_watch(struct rdt_tcp_conn *c);
/* The peer violated the protocol: send a C2HTermReq and end the connection. */
void rdt_tcp_refuse(struct rdt_tcp_conn *c, const struct nvme_tcp_error *error);
/* Bytes are in flight: start the stall watchdog. */
void rdt_tcp_posted(struct rdt_tcp_conn *c, struct rdt_progress *stream, uint32_t len);
int rdt_tcp_init(struct rdt_reactor *r);
void rdt_tcp_fini(struct rdt_reactor *r);

/* ---- tcp_rx.c ---- */

/* Read from the socket, unless it has used its budget of this loop iteration. May end the
 * connection. Returns false if the socket was empty. */
bool rdt_tcp_rx_run(struct rdt_tcp_conn *c);
/* For a hold: stop reading if no command in progress needs more. Returns whether reading has
 * stopped. */
bool rdt_tcp_rx_stop(struct rdt_tcp_conn *c);
/* A capsule may be free for the PDU that waits for one, or a hold has ended. */
void rdt_tcp_rx_resume(struct rdt_tcp_conn *c);
void rdt_tcp_rx_drop(struct rdt_tcp_conn *c); /* the connection has ended */

/* ---- tcp_tx.c ---- */

/* Queue an R2T for the data of @t, or its answer. */
void rdt_tcp_tx_r2t(struct rdt_tcp_conn *c, struct rdt_tcp_req *t);
void rdt_tcp_tx_answer(struct rdt_tcp_conn *c, struct rdt_tcp_req *t, bool with_data);
/* Remove the R2T of @t, unless a part of it was sent. Returns whether it was removed. */
bool rdt_tcp_tx_cancel(struct rdt_tcp_conn *c, struct rdt_tcp_req *t);
/* Send as much as the socket accepts. May end the connection. */
void rdt_tcp_tx_run(struct rdt_tcp_conn *c);
/* The connection ends: send once more what is possible, without ending requests. */
void rdt_tcp_tx_last(struct rdt_tcp_conn *c);
void rdt_tcp_tx_forget(struct rdt_tcp_conn *c, struct rdt_tcp_req *t); /* queued or not */

/* ---- tcp_stream.c: the socket, plain or with TLS ---- */

/* Like readv(2) and sendmsg(2), without SIGPIPE and without blocking; they set errno. */
ssize_t rdt_tcp_readv_tls(struct rdt_tcp_conn *c, const struct iovec *iov, int count);
ssize_t rdt_tcp_sendv_tls(struct rdt_tcp_conn *c, const struct iovec *iov, int count);
static inline ssize_t rdt_tcp_readv(struct rdt_tcp_conn *c, const struct iovec *iov, int count)
{
	if (__builtin_expect(c->tls != NULL, 0))
		return rdt_tcp_readv_tls(c, iov, count);
	return readv(c->io.fd, iov, count);
}
static inline ssize_t rdt_tcp_sendv(struct rdt_tcp_conn *c, const struct iovec *iov, int count)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov,
			     .msg_iovlen = (size_t)count};

	if (__builtin_expect(c->tls != NULL, 0))
		return rdt_tcp_sendv_tls(c, iov, count);
	return sendmsg(c->io.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}
/* Send a short message completely, or not at all. */
bool rdt_tcp_send_short(struct rdt_tcp_conn *c, const void *data, size_t len);
/* Returns whether bytes that count as sent still wait for the socket. */
static inline bool rdt_tcp_unsent(const struct rdt_tcp_conn *c)
{
	return __builtin_expect(c->tls != NULL, 0) && nvmf_tls_unsent(c->tls);
}
/* There may be data that the socket does not report: read it in the next loop iteration. */
void rdt_tcp_read_again_tls(struct rdt_tcp_conn *c);
static inline void rdt_tcp_read_again(struct rdt_tcp_conn *c)
{
	if (__builtin_expect(c->tls != NULL, 0))
		rdt_tcp_read_again_tls(c);
}
/* Returns whether a read failed because the host has closed the socket without ending TLS, as
 * kernel hosts do. */
bool rdt_tcp_cut_off(const struct rdt_tcp_conn *c);
/* Describes the error @err of a call, for the log. */
const char *rdt_tcp_stream_error(const struct rdt_tcp_conn *c, int err);
/* End TLS; no data may follow. */
void rdt_tcp_stream_end(struct rdt_tcp_conn *c);

/* ---- tcp_capsule.c ---- */

/* Returns a capsule for a command of @c with @data bytes. NULL: none is free, and
 * rdt_tcp_rx_resume() follows when one may be; or there is no memory, and the connection has
 * ended. */
struct rdt_tcp_capsule *rdt_tcp_capsule_get(struct rdt_tcp_conn *c, uint32_t data);
void rdt_tcp_capsule_put(struct rdt_tcp_capsule *k);
/* An area is free: resume the connection that has waited longest. */
void rdt_tcp_area_free(struct rdt_tcp *tcp);
/* @c no longer waits for an area, if it does. */
void rdt_tcp_area_unwait(struct rdt_tcp_conn *c);
void rdt_tcp_capsules_init(struct rdt_tcp *tcp);
void rdt_tcp_capsules_fini(struct rdt_tcp *tcp);

/* ---- tcp_move.c: see struct rdt_transport_ops ---- */

void rdt_tcp_hold(struct rdt_qpair *qp, enum rdt_hold_how how);
bool rdt_tcp_rests(struct rdt_qpair *qp);
int rdt_tcp_move_out(struct rdt_qpair *qp, json_t *rec);
int rdt_tcp_move_in(struct rdt_reactor *r, const struct rdt_moved_in *in, struct rdt_qpair **out);

/* ---- tcp_linger.c ---- */

/* Takes over @fd, and closes it when the peer has closed it or a timeout has expired. */
void rdt_tcp_linger(struct rdt_tcp *tcp, int fd);
void rdt_tcp_lingers_end(struct rdt_tcp *tcp);

/* ---- tcp_cm.c ---- */

/* Post @h to its reactor. Any thread. */
void rdt_tcp_hand_over(struct rdt_tcp_handoff *h);
/* Close the socket of @h, which will not be served, and free @h. Any thread. */
void rdt_tcp_hand_back(struct rdt_tcp_handoff *h);
void rdt_tcp_take(struct rdt_handover *over, bool refuse); /* called by tcp->inbound */

#endif /* RDT_TCP_H */
