/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections, requests and capsules of the TCP transport. All of it belongs to one reactor. */
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

#define RDT_TCP_STAGING 65536u /* bytes read at once besides data with a known place */

struct rdt_tcp_conn;

/* An accepted socket on its way to the reactor, which frees it. */
struct rdt_tcp_handoff {
	struct rdt_handover over;
	STAILQ_ENTRY(rdt_tcp_handoff) link; /* while its TLS handshake waits */
	struct rdt_reactor *reactor;
	struct rdt_listener *listener;
	struct rdt_peer *peer;
	struct sockaddr_storage remote;
	int fd;
	struct nvmf_tls *tls; /* with its handshake complete; NULL: the connection is plain */
};

STAILQ_HEAD(rdt_tcp_handoffs, rdt_tcp_handoff);

/* A received command capsule: from the first byte of its data to capsule_done(). */
struct rdt_tcp_capsule {
	struct rdt_capsule cap;
	struct nvme_sqe sqe;
	bool bad;      /* the data digest was wrong */
	uint8_t *area; /* in-capsule data, rdt_tcp.area_size bytes; NULL: it has none */
	struct rdt_tcp_conn *conn;
	LIST_ENTRY(rdt_tcp_capsule) link;  /* conn->capsules */
	SLIST_ENTRY(rdt_tcp_capsule) next; /* a list of free ones */
};

SLIST_HEAD(rdt_tcp_capsules, rdt_tcp_capsule);

/* A socket whose connection has ended: it is read until the peer closes it, because close(2) with
 * unread data sends an RST, which can destroy what the peer has not read yet. */
struct rdt_tcp_linger {
	struct rd_io io;
	struct rd_timer timer;
	struct rdt_tcp *tcp;
	uint32_t bytes;
	TAILQ_ENTRY(rdt_tcp_linger) link;
};

/* Of a reactor. */
struct rdt_tcp {
	struct rdt_reactor *reactor;
	struct rdt_inbound inbound;   /* accepted sockets to adopt */
	struct rdt_req_pool pools[2]; /* of admin queues, and of I/O queues */
	uint8_t *staging;             /* [RDT_TCP_STAGING]; used up before a callback returns */
	struct rd_rx_pieces pieces;
	/* capsules */
	struct rdt_tcp_capsules plain, areas; /* free ones: without and with an area */
	uint32_t area_size;
	uint32_t areas_used, areas_max;
	TAILQ_HEAD(, rdt_tcp_conn) area_wait; /* paused, because no area was free */
	/* ended sockets */
	TAILQ_HEAD(, rdt_tcp_linger) lingers; /* oldest first */
	uint32_t lingers_count;
	uint32_t linger_reads; /* in turn @linger_turn of the loop */
	uint64_t linger_turn;
	struct rd_timer stall;             /* watchdog; armed while bytes are in flight */
	struct rd_ratelimit refused_limit; /* messages about PDUs */
};

enum rdt_tcp_conn_state {
	RDT_TCP_WAIT_ICREQ, /* the first PDU must be an ICReq -> RUNNING, CLOSED */
	RDT_TCP_RUNNING,    /* -> CLOSED */
	/* Its socket is closed, or lingers to let a C2HTermReq arrive. Requests return; then the
	 * queue pair frees it. */
	RDT_TCP_CLOSED,
};

enum rdt_tcp_rx_state {
	RDT_TCP_RX_HEAD,  /* collects the header with its digest */
	RDT_TCP_RX_PAD,   /* skips the padding */
	RDT_TCP_RX_DATA,  /* places data at @dst */
	RDT_TCP_RX_DDGST, /* collects the data digest */
};

/* The PDU in progress. */
struct rdt_tcp_rx {
	enum rdt_tcp_rx_state state;
	struct nvme_tcp_parts parts;
	uint32_t have; /* bytes of @head or @ddgst */
	uint32_t left; /* bytes of the padding or of the data */
	bool sized;    /* the common header was checked: @parts */
	bool held; /* the header is complete, and waits for a capsule: the connection is paused */
	uint8_t *dst; /* where the next data goes */
	uint32_t crc; /* of the data */
	_Alignas(8) uint8_t head[NVME_TCP_HEAD_MAX];
	uint8_t ddgst[RD_CRC32C_LEN];
	uint8_t term[NVME_TCP_TERM_MAX]; /* data of an H2CTermReq */
	struct rdt_tcp_capsule *capsule; /* that the PDU fills */
	struct rdt_tcp_req *filled;      /* whose buffer the PDU fills */
	/* while @held, or conn->stopped: the bytes that had been read behind the header */
	struct rd_rx_rest rest;
	struct rd_rx_turn turn;
	uint32_t pdus; /* received in this turn, and not charged yet */
};

struct rdt_tcp_req {
	TAILQ_ENTRY(rdt_tcp_req) tx; /* conn->tx, while an R2T or the answer is being sent */
	bool queued;                 /* on that list */
	bool is_r2t;                 /* what is being sent */
	bool asked;                  /* the R2T has left */
	bool bad;                    /* a data digest was wrong */
	uint16_t ttag;
	uint8_t tail_len;
	uint8_t head_len;
	uint32_t got;      /* bytes of the data that was asked for */
	uint32_t data_len; /* between head and tail, from req.buf */
	uint8_t tail[RD_CRC32C_LEN + sizeof(struct nvme_tcp_rsp) + RD_CRC32C_LEN];
	/* R2T, or the header of C2HData with digest and padding */
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
	struct nvme_tcp_rules rules; /* of what is received */
	uint8_t hpda;                /* of what is sent */
	bool term_sent;              /* C2HTermReq */
	bool eof;                    /* the peer has closed the socket */
	bool blocked;                /* the socket is full: waits for EPOLLOUT */
	bool waits_area;             /* on tcp->area_wait */
	bool stopped;                /* the hold: nothing is read */
	uint8_t hold;                /* enum rdt_hold_how */
	struct rdt_tcp_rx rx;
	struct rdt_tcp_tx tx;
	uint32_t tx_sent;           /* bytes of the first entry of @tx that have left */
	struct rdt_tcp_req **asked; /* [qp.depth] by TTAG: requests that wait for data */
	uint16_t *ttags;            /* [qp.depth]: the free ones are the first @ttags_free */
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

/* Takes the socket of @h, its TLS and its peer; @h stays the caller's. Returns 0, or -errno with
 * the socket closed. */
int rdt_tcp_conn_new(struct rdt_tcp *tcp, const struct rdt_tcp_handoff *h);
/* The first step of that: it does not read. The next one is rdt_tcp_conn_begin(). */
int rdt_tcp_conn_make(struct rdt_tcp *tcp, const struct rdt_tcp_handoff *h,
		      struct rdt_tcp_conn **out);
/* Frees @c upon failure. Returns 0 or -errno. */
int rdt_tcp_conn_begin(struct rdt_tcp_conn *c);
void rdt_tcp_conn_free(struct rdt_tcp_conn *c);
/* Sets the epoll events of the socket for the state of the connection. */
void rdt_tcp_watch(struct rdt_tcp_conn *c);
/* The peer violated the protocol: a C2HTermReq, and the end. */
void rdt_tcp_refuse(struct rdt_tcp_conn *c, const struct nvme_tcp_error *error);
/* Bytes are in flight: the watchdog must run. */
void rdt_tcp_posted(struct rdt_tcp_conn *c, struct rdt_progress *stream, uint32_t len);
int rdt_tcp_init(struct rdt_reactor *r);
void rdt_tcp_fini(struct rdt_reactor *r);

/* ---- tcp_rx.c ---- */

/* Reads from the socket, unless it has had its part of this turn. Can end the connection. Returns
 * false if the socket had nothing. */
bool rdt_tcp_rx_run(struct rdt_tcp_conn *c);
/* The hold: stops reading if no command in progress needs more. Returns whether it has. */
bool rdt_tcp_rx_stop(struct rdt_tcp_conn *c);
/* A capsule may be free for the PDU that waits for one, or a hold is over. */
void rdt_tcp_rx_resume(struct rdt_tcp_conn *c);
void rdt_tcp_rx_drop(struct rdt_tcp_conn *c); /* the connection has ended */

/* ---- tcp_tx.c ---- */

/* Queue an R2T for the data of @t, or its answer. */
void rdt_tcp_tx_r2t(struct rdt_tcp_conn *c, struct rdt_tcp_req *t);
void rdt_tcp_tx_answer(struct rdt_tcp_conn *c, struct rdt_tcp_req *t, bool with_data);
/* Remove the R2T of @t, of which nothing has left. False: something has. */
bool rdt_tcp_tx_cancel(struct rdt_tcp_conn *c, struct rdt_tcp_req *t);
/* Sends as much as the socket takes. Can end the connection. */
void rdt_tcp_tx_run(struct rdt_tcp_conn *c);
/* The connection ends: sends once more what it can, and ends no request. */
void rdt_tcp_tx_last(struct rdt_tcp_conn *c);
void rdt_tcp_tx_forget(struct rdt_tcp_conn *c, struct rdt_tcp_req *t); /* may not be queued */

/* ---- tcp_stream.c: the socket, plain or with TLS ---- */

/* As readv(2) and sendmsg(2), without SIGPIPE and waiting: errno says what is wrong. */
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
/* All of a short message, or not at all. */
bool rdt_tcp_send_short(struct rdt_tcp_conn *c, const void *data, size_t len);
/* Bytes that count as sent wait for the socket. */
static inline bool rdt_tcp_unsent(const struct rdt_tcp_conn *c)
{
	return __builtin_expect(c->tls != NULL, 0) && nvmf_tls_unsent(c->tls);
}
/* Data may be here that the socket does not report: reads it in the next turn. */
void rdt_tcp_read_again_tls(struct rdt_tcp_conn *c);
static inline void rdt_tcp_read_again(struct rdt_tcp_conn *c)
{
	if (__builtin_expect(c->tls != NULL, 0))
		rdt_tcp_read_again_tls(c);
}
/* TLS: a read failed because the host has closed the socket, as kernel hosts do. */
bool rdt_tcp_cut_off(const struct rdt_tcp_conn *c);
/* What is wrong after a call failed with @err, for the log. */
const char *rdt_tcp_stream_error(const struct rdt_tcp_conn *c, int err);
/* Ends TLS: no data may follow. */
void rdt_tcp_stream_end(struct rdt_tcp_conn *c);

/* ---- tcp_capsule.c ---- */

/* A capsule for a command of @c with @data bytes. NULL: there is none, and rdt_tcp_rx_resume()
 * follows when there may be; or no memory, and the connection has ended. */
struct rdt_tcp_capsule *rdt_tcp_capsule_get(struct rdt_tcp_conn *c, uint32_t data);
void rdt_tcp_capsule_put(struct rdt_tcp_capsule *k);
/* An area is free: the connection that waits longest may go on. */
void rdt_tcp_area_free(struct rdt_tcp *tcp);
void rdt_tcp_capsules_init(struct rdt_tcp *tcp);
void rdt_tcp_capsules_fini(struct rdt_tcp *tcp);

/* ---- tcp_move.c: see struct rdt_transport_ops ---- */

void rdt_tcp_hold(struct rdt_qpair *qp, enum rdt_hold_how how);
bool rdt_tcp_rests(struct rdt_qpair *qp);
int rdt_tcp_move_out(struct rdt_qpair *qp, json_t *rec);
int rdt_tcp_move_in(struct rdt_reactor *r, const struct rdt_moved_in *in, struct rdt_qpair **out);

/* ---- tcp_linger.c ---- */

/* Takes @fd, and closes it when the peer has closed it or some time has passed. */
void rdt_tcp_linger(struct rdt_tcp *tcp, int fd);
void rdt_tcp_lingers_end(struct rdt_tcp *tcp);

/* ---- tcp_cm.c ---- */

/* Posts @h to its reactor. Any thread. */
void rdt_tcp_hand_over(struct rdt_tcp_handoff *h);
/* Closes the socket of @h, which will not be served, and frees it. Any thread. */
void rdt_tcp_hand_back(struct rdt_tcp_handoff *h);
void rdt_tcp_take(struct rdt_handover *over, bool refuse); /* of tcp->inbound */

#endif /* RDT_TCP_H */
