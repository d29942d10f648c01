/* SPDX-License-Identifier: BSD-3-Clause */
/* For the files of this folder only. */
#ifndef SIMFABRIC_INTERNAL_H
#define SIMFABRIC_INTERNAL_H

#include <sys/queue.h>

#include "fabric/conn_events.h"
#include "fabric/wc_ring.h"
#include "util/random.h"

#include "sim.h"

#define RD_SIM_MAX_WR      4096u
#define RD_SIM_MAX_SGE     16u
#define RD_SIM_MAX_INLINE  512u
#define RD_SIM_MAX_PRIVATE 251u
#define RD_SIM_PORTS       8u
#define RD_SIM_KEY_BITS    14u
#define RD_SIM_MRS         (1u << RD_SIM_KEY_BITS)

struct rd_sim_link;
struct rd_sim_msg;
struct rd_sim_desc;
LIST_HEAD(rd_sim_link_list, rd_sim_link);
LIST_HEAD(rd_sim_listener_list, rd_sim_listener);

struct rd_sim {
	struct rd_clock clock;
	uint64_t now;
	struct rd_random random;
	uint64_t latency_ns;
	uint64_t jitter_ns;
	void (*trace)(void *arg, const char *line);
	void *trace_arg;
	struct rd_sim_event **heap; /* heap[1] is the earliest */
	size_t heap_count;
	size_t heap_size;
	uint64_t seq;
	struct rd_sim_listener_list listeners;
	struct rd_sim_link_list links;
	uint64_t link_ids;
	uint32_t fabs;                     /* opened so far, for their addresses */
	uint16_t ports;                    /* chosen so far */
	uint16_t ports_down[RD_SIM_PORTS]; /* 0: none */
	struct rd_sim_errors errors;
	unsigned int leaked;        /* objects that existed when their fabric was closed */
	struct rd_sim_desc **socks; /* [socks_count] by descriptor; NULL: free */
	unsigned int socks_count;
};

bool rd_sim_port_is_down(const struct rd_sim *sim, uint16_t port);
/* The time that a message takes. */
uint64_t rd_sim_latency(struct rd_sim *sim);

/* ---- what a link has at each of its two ends: a connection of the fabric, or a socket ---- */

struct rd_sim_end {
	const struct rd_sim_end_ops *ops;
	struct rd_sim *sim;
	const struct sockaddr_storage *local, *remote;
	struct rd_sim_link *link; /* NULL: none yet, or it is over */
	unsigned int side;        /* index in link->end */
	struct rd_sim_event
		timer; /* the end of an attempt to connect, or a fault; fn of its owner */
	int timer_status;
};

struct rd_sim_end_ops {
	/* @msg has arrived from the other end, which is @from, or NULL if it has left. */
	void (*arrived)(struct rd_sim_end *end, struct rd_sim_end *from, struct rd_sim_msg *msg);
	bool is_stream;
};

/* ---- fab.c: fabric, device, memory, completion queues ---- */

struct rd_sim_mr {
	struct rd_fab_mr base;
	int access;
	bool used;
	bool invalidated;
	uint32_t next_free; /* index + 1 */
};

struct rd_sim_fab {
	struct rd_fab base;
	struct rd_fab_dev dev;
	struct rd_sim *sim;
	uint32_t id;
	uint16_t next_port;
	uint32_t next_qpn;
	struct rd_sim_mr **mrs; /* [mrs_count], by the low bits of their key */
	uint32_t mrs_count;
	uint32_t mrs_free; /* index + 1 of the first free one; 0: none */
	unsigned int conns, cqs, regions;
};

static inline struct rd_sim_fab *rd_sim_fab_of(struct rd_fab *fab)
{
	return rd_container_of(fab, struct rd_sim_fab, base);
}

struct rd_sim_cq {
	struct rd_fab_cq base;
	struct rd_defer notify;
	struct rd_wc_ring ring;
	bool armed;
	bool broken; /* a completion was lost for want of memory */
};

void rd_sim_cq_push(struct rd_fab_cq *cq, const struct ibv_wc *wc);
void rd_sim_cq_purge(struct rd_fab_cq *cq, uint32_t qp_num);
/* @len bytes at the peer's address @addr, or NULL. @access: one IBV_ACCESS_REMOTE_ bit. */
void *rd_sim_mr_remote(struct rd_sim_fab *fab, uint32_t key, uint64_t addr, uint64_t len,
		       int access);
bool rd_sim_mr_local(const struct rd_sim_fab *fab, const struct ibv_sge *sge, bool write);
void rd_sim_mr_invalidate(struct rd_sim_fab *fab, uint32_t key);

extern const struct rd_fab_ops rd_sim_ops;

/* ---- conn.c: connections, from the request to the end ---- */

enum rd_sim_state {
	RD_SIM_IDLE,       /* active: resolved, or about to be. connect() moves it on */
	RD_SIM_CONNECTING, /* active: the request is under way. The answer or the timer */
	RD_SIM_ADOPTED,    /* passive: accept() or reject() */
	RD_SIM_ACCEPTED,   /* passive: the first message of the active side */
	RD_SIM_OPEN,       /* an error, the peer or disconnect() */
	RD_SIM_CLOSED,     /* final */
};

/* A posted work request of a send queue. */
struct rd_sim_wr {
	TAILQ_ENTRY(rd_sim_wr) link;
	uint64_t seq;
	uint64_t wr_id;
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t length;
	unsigned int flags;
	enum ibv_wr_opcode opcode;
	bool done;
	int num_sge;
	struct ibv_sge sge[RD_SIM_MAX_SGE];
	uint8_t *copy; /* the data that was taken when it was posted (inline); or NULL */
};
TAILQ_HEAD(rd_sim_wr_list, rd_sim_wr);

struct rd_sim_rwr {
	STAILQ_ENTRY(rd_sim_rwr) link;
	uint64_t wr_id;
	int num_sge;
	struct ibv_sge sge[RD_SIM_MAX_SGE];
};

struct rd_sim_conn {
	struct rd_fab_conn base;
	struct rd_sim_fab *fab;
	struct rd_sim_end end;
	enum rd_sim_state state;
	bool has_qp;
	struct rd_fab_qp_attr attr; /* if @has_qp */
	struct rd_sim_wr_list sq;
	unsigned int sq_count;
	uint64_t wr_seq;
	STAILQ_HEAD(, rd_sim_rwr) rq;
	unsigned int rq_count;
	uint64_t timeout_ns;
	uint8_t private_data[RD_SIM_MAX_PRIVATE];
	struct rd_conn_events events;
};

static inline struct rd_sim_conn *rd_sim_conn_of(struct rd_fab_conn *conn)
{
	return rd_container_of(conn, struct rd_sim_conn, base);
}

enum rd_sim_msg_kind {
	RD_SIM_MSG_SEND,
	RD_SIM_MSG_WRITE,
	RD_SIM_MSG_READ,
	RD_SIM_MSG_ANSWER, /* data of a READ */
	RD_SIM_MSG_ACK,    /* a SEND or a WRITE has arrived */
	RD_SIM_MSG_NAK,    /* it has failed: the connection ends */
	RD_SIM_MSG_ACCEPT,
	RD_SIM_MSG_REJECT,
	RD_SIM_MSG_READY, /* the active side has seen the accept */
	RD_SIM_MSG_FIN,
	/* of sockets */
	RD_SIM_MSG_BYTES,
	RD_SIM_MSG_WINDOW, /* so many bytes were read */
	RD_SIM_MSG_RESET,
};

struct rd_sim_msg {
	STAILQ_ENTRY(rd_sim_msg) link;
	enum rd_sim_msg_kind kind;
	uint64_t when; /* not before */
	uint64_t wr;   /* rd_sim_wr.seq of the sender; of the receiver for ANSWER, ACK and NAK */
	uint8_t *data; /* owned; NULL: it is taken from the sender's memory on arrival */
	uint32_t length;
	uint32_t rkey; /* SEND: the key to invalidate */
	uint64_t remote_addr;
	enum ibv_wr_opcode opcode;
	uint16_t ird, ord;
};

/* One direction: messages arrive in order. */
struct rd_sim_pipe {
	STAILQ_HEAD(, rd_sim_msg) msgs;
	struct rd_sim_event event;
	struct rd_sim_link *link;
	unsigned int to; /* the side at which they arrive */
	uint64_t last;   /* arrival of the last message */
	uint64_t held_until;
	bool corrupts; /* the next bytes of a stream arrive with a bit that is wrong */
};

/* What is between two connections. Freed when both have left and no request is under way; messages
 * to an end that has left are dropped. */
struct rd_sim_link {
	LIST_ENTRY(rd_sim_link) entry;
	struct rd_sim *sim;
	uint64_t id;
	struct rd_sim_end *end[2]; /* 0: active, 1: passive; NULL: not there */
	bool was_open;
	bool cut;                    /* nothing arrives any more */
	struct rd_sim_req *req;      /* from the arrival at the listener to adoption or rejection */
	struct rd_sim_pipe pipe[2];  /* by the side at which messages arrive */
	struct rd_sim_event request; /* the arrival of the connection request */
	uint16_t port;               /* to which it was requested */
	uint16_t ird, ord;           /* that the active side offers */
	uint8_t private_data[RD_SIM_MAX_PRIVATE];
	size_t private_len;
};

struct rd_sim_req {
	struct rd_fab_req base;
	STAILQ_ENTRY(rd_sim_req) entry;
	struct rd_sim_link *link;
	uint8_t private_data[RD_SIM_MAX_PRIVATE];
};

struct rd_sim_listener {
	struct rd_fab_listener base;
	LIST_ENTRY(rd_sim_listener) entry;
	STAILQ_HEAD(, rd_sim_req) reqs; /* arrived, and not passed to the user */
	struct rd_defer deliver;
};

int rd_sim_listen(struct rd_fab *fab, const struct sockaddr *addr, int backlog, rd_fab_listen_fn fn,
		  void *arg, struct rd_fab_listener **out);
void rd_sim_unlisten(struct rd_fab_listener *lis);
int rd_sim_req_adopt(struct rd_fab *fab, struct rd_fab_req *req, rd_fab_event_fn on_event,
		     void *arg, struct rd_fab_conn **out);
void rd_sim_req_reject(struct rd_fab_req *req, const void *priv, size_t len);
int rd_sim_resolve(struct rd_fab *fab, const struct rd_fab_resolve_attr *attr,
		   struct rd_fab_conn **out);
int rd_sim_qp_create(struct rd_fab_conn *conn, const struct rd_fab_qp_attr *attr);
int rd_sim_connect(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param);
int rd_sim_accept(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param);
int rd_sim_reject(struct rd_fab_conn *conn, const void *priv, size_t len);
void rd_sim_disconnect(struct rd_fab_conn *conn);
bool rd_sim_peer_closed(const struct rd_fab_conn *conn);
void rd_sim_conn_destroy(struct rd_fab_conn *conn);
/*
 * Ends the connection: work requests are flushed, DISCONNECTED follows. @tell: the peer learns it
 * by a message.
 */
void rd_sim_end(struct rd_sim_conn *c, int status, bool tell, const char *reason);
/* Of the active side: its request was rejected. */
void rd_sim_rejected(struct rd_sim_conn *c);

/* ---- link.c: messages between two connections ---- */

int rd_sim_link_create(struct rd_sim_end *active, struct rd_sim_link **out);
/* Side @side has left. May free @link. */
void rd_sim_link_leave(struct rd_sim_link *link, unsigned int side);
/* Frees @link when nobody needs it. */
void rd_sim_link_settle(struct rd_sim_link *link);
void rd_sim_link_free(struct rd_sim_link *link);
/* An ACCEPT, a REJECT or an ANSWER with a copy of @priv. */
struct rd_sim_msg rd_sim_answer(enum rd_sim_msg_kind kind, const void *priv, size_t len);
/* A message to the side @to. Takes @data. Without memory the connection ends as if it were cut. */
void rd_sim_link_send(struct rd_sim_link *link, unsigned int to, struct rd_sim_msg msg);
/* @from, the sender of messages to @to, ends: their data is taken now, or they are lost. */
void rd_sim_link_detach(struct rd_sim_link *link, unsigned int to, struct rd_sim_conn *from);
/* Are there messages to @to that a fault holds? */
bool rd_sim_link_holds(const struct rd_sim_link *link, unsigned int to);
/* The sender of messages to @to ends, and does not retransmit those that a fault holds. */
void rd_sim_link_drop_held(struct rd_sim_link *link, unsigned int to);
/* Likewise for a stream: what was sent last may be lost. */
void rd_sim_link_cut_tail(struct rd_sim_link *link, unsigned int to);

/* ---- qp.c: work requests ---- */

int rd_sim_post_send(struct rd_fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int rd_sim_post_recv(struct rd_fab_conn *conn, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct rd_sim_wr *rd_sim_wr_find(struct rd_sim_conn *c, uint64_t seq);
extern const struct rd_sim_end_ops rd_sim_qp_end;
void rd_sim_qp_flush(struct rd_sim_conn *c);
/* A copy of the data of @wr, or NULL without memory. */
uint8_t *rd_sim_wr_data(const struct rd_sim_wr *wr);

/* ---- streams.c: sockets ---- */

unsigned int rd_sim_socks(const struct rd_sim *sim); /* that are open */

#endif /* SIMFABRIC_INTERNAL_H */
