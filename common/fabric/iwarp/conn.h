/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The iwarp provider: iWARP in userspace over plain TCP sockets.
 *
 * One device for each fabric, one protection domain for each device, one thread for each fabric.
 * Only two things take a lock: the mailbox into which other threads put rejected requests
 * (drain.c), and scratch memory that fabrics of several threads share (scratch.c).
 *
 * User callbacks run only from deferred work or from the listener's socket, never inside the
 * receive or transmit path: a connection cannot be destroyed while one of these paths uses it.
 */
#ifndef RD_IW_CONN_H
#define RD_IW_CONN_H

#include "fabric/conn_events.h"

#include "cq.h"
#include "fab.h"
#include "caps.h"
#include "mpa.h"
#include "rx.h"
#include "sq.h"
#include "srq.h"
#include "tx.h"

enum rd_iw_state {
	/* Active, from resolve on. connect() moves it on. */
	RD_IW_IDLE,
	/* Active: TCP is connecting. The socket (writable) or the timer moves it on. */
	RD_IW_CONNECTING,
	/* Active: the MPA request is being sent, the reply is awaited. Both by the socket; or the
	   timer. */
	RD_IW_HANDSHAKE,
	/* Passive: a request was adopted. accept() or reject() moves it on. */
	RD_IW_ADOPTED,
	/* FPDUs flow. An error, the peer or disconnect() moves it on. */
	RD_IW_OPEN,
	/* Over: no socket, WRs are flushed when they are posted. destroy() is the only way on. */
	RD_IW_CLOSED,
};

/*
 * The MPA handshake: the outgoing frame, then the incoming one. Freed when its result has been
 * reported.
 */
struct rd_iw_handshake {
	struct rd_iw_mpa req; /* as sent or received, without private data */
	uint8_t out[RD_MPA_MAX_LEN];
	uint32_t out_len;
	uint32_t out_off;
	uint8_t in[RD_MPA_MAX_LEN];
	uint32_t in_len;
};

struct rd_iw_conn {
	struct rd_fab_conn base;
	struct rd_iw_fab *fab;
	struct rd_iw_dev *dev; /* as base.dev, but set from the beginning */
	enum rd_iw_state state;
	bool passive;
	bool crc;
	bool has_qp;
	bool abandoned; /* the socket is closed with an RST */
	bool own_room;  /* it has reserved room in @rcq for all RECVs of @srq */
	bool est_due;   /* ESTABLISHED is raised when the peer's first FPDU arrives */
	bool stopped;   /* a hold: nothing is received */
	bool stalled;   /* when it stopped, a message waited for a RECV */
	uint8_t hold;   /* enum rd_fab_hold */
	struct rd_io io;
	struct rd_timer timer;
	struct rd_timer hold_timer; /* active: hold_siw.c */
	struct rd_defer flush;
	uint64_t deadline; /* active: of the whole attempt */

	struct rd_iw_handshake *hs;

	struct rd_iw_cq *scq;
	struct rd_iw_cq *rcq;
	struct rd_iw_srq *srq;
	struct rd_iw_share *share; /* never NULL if @srq is not */
	struct rd_iw_sq sq;
	struct rd_iw_rq rq;
	struct rd_iw_read *resps; /* ring of inbound READs whose responses are due */
	uint32_t resp_mask;
	uint32_t resp_head;
	uint32_t resp_tail;
	bool rtr_read; /* our zero-length RTR READ waits for its response */
	struct rd_iw_tx tx;
	struct rd_iw_rx rx;

	struct rd_conn_events events;
};

static inline struct rd_iw_conn *rd_iw_conn(struct rd_fab_conn *conn)
{
	return rd_container_of(conn, struct rd_iw_conn, base);
}

int rd_iw_conn_new(struct rd_iw_fab *fab, rd_fab_event_fn fn, void *arg, struct rd_iw_conn **out);
void rd_iw_conn_destroy(struct rd_fab_conn *conn);
void rd_iw_set_state(struct rd_iw_conn *c, enum rd_iw_state state);
int rd_iw_qp_create(struct rd_fab_conn *conn, const struct rd_fab_qp_attr *attr);
/* The handshake of either side is complete: to OPEN, with the negotiated depths. Returns 0 or
 * -ENOMEM. */
int rd_iw_conn_open(struct rd_iw_conn *c, const struct rd_iw_depths *eff);
void rd_iw_disconnect(struct rd_fab_conn *conn);
bool rd_iw_peer_closed(const struct rd_fab_conn *conn);
bool rd_iw_unread(const struct rd_fab_conn *conn);
/* Set the socket's epoll events for the state of the connection. Can end the connection. */
void rd_iw_conn_watch(struct rd_iw_conn *c);
/* move.c: see rd_fab_hold() and what follows it */
void rd_iw_hold(struct rd_fab_conn *conn, enum rd_fab_hold how);
bool rd_iw_rests(struct rd_fab_conn *conn);
int rd_iw_move_out(struct rd_fab_conn *conn, const struct rd_fab_message *msgs, uint32_t count,
		   void (*put)(void *arg, const void *p, size_t n), void *arg,
		   struct rd_fab_moved *out);
int rd_iw_move_in(struct rd_fab *fab, int fd, const struct rd_fab_moved *moved,
		  rd_fab_event_fn on_event, void *arg, struct rd_fab_conn **out);
int rd_iw_move_open(struct rd_fab_conn *conn, const void *bytes, size_t len);
/* It is held: stops receiving, if it is between two messages. Returns whether it has. */
bool rd_iw_rx_stop(struct rd_iw_conn *c);
/* In a hold a message of a shared queue takes no RECV. The one in rx.reasm is complete: sets it
 * aside. Returns 0 or -1 (the connection ended). */
static inline bool rd_iw_sets_aside(const struct rd_iw_conn *c)
{
	return c->hold || c->rx.aside_count;
}
int rd_iw_set_aside(struct rd_iw_conn *c);
void rd_iw_hold_over(struct rd_iw_conn *c); /* delivers them, and receives on; may wait for RECVs */
void rd_iw_aside_drop(struct rd_iw_conn *c);

int rd_iw_conn_mss(const struct rd_iw_conn *c); /* TCP's current MSS in bytes; 0: unknown */

/*
 * Ends the connection: WRs are flushed, the socket is drained and closed, the event follows. No-op
 * if it is CLOSED already. @status: 0 for an orderly end, else -errno; the text is the event's
 * reason.
 */
void rd_iw_conn_end(struct rd_iw_conn *c, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* As rd_iw_conn_end() with -EIO: work request @wr completes with @status, all others are flushed.
 */
void rd_iw_conn_fail_swr(struct rd_iw_conn *c, const struct rd_iw_swr *wr,
			 enum ibv_wc_status status, const char *what);
/*
 * As rd_iw_conn_end() with -EPROTO, after a Terminate with @code (RD_TERM_*) about the FPDU that is
 * being received. @with_header: the Terminate contains its header.
 */
void rd_iw_conn_term(struct rd_iw_conn *c, uint32_t code, bool with_header);
/* The RECV in progress ends with @status. */
void rd_iw_recv_abort(struct rd_iw_conn *c, enum ibv_wc_status status);

#endif /* RD_IW_CONN_H */
