/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/TCP of the host: the inside of the transport. PDUs: nvmf/tcp_pdu.h. */
#ifndef RDI_TCP_H
#define RDI_TCP_H

#include <sys/uio.h>

#include "internal.h"
#include "secret.h"
#include "nvmf/tcp_pdu.h"
#include "util/tcp.h"

#define RDI_TCP_STAGING 65536u /* bytes read at once besides data with a known place */
/* PDUs in one sendmsg(2), at most, and what the headers of one take without much padding. */
#define RDI_TCP_BATCH 128u
#define RDI_TCP_HEAD  96u
/* A header, its padding and both digests, and the gap before it. */
#define RDI_TCP_HEAD_MAX (NVME_TCP_HEAD_MAX + NVME_TCP_PAD_MAX + RD_CRC32C_LEN + 8u)

/* Options of a controller that are for its sockets. */
struct rdi_tcp_cfg {
	struct rdi_transport_cfg cfg;
	struct rd_tcp_opts socket;
	char *congestion; /* socket.congestion points here */
	uint8_t dgst;     /* digests to ask for: NVME_TCP_HDGST, NVME_TCP_DDGST */
};

/* What a handle has opened. */
struct rdi_tcp_handle {
	const struct rdi_tcp_cfg *cfg; /* the handle's owner has it as long */
	uint8_t *staging;              /* [RDI_TCP_STAGING]; used up before a callback returns */
};

/* The transport's part of a request. */
struct rdi_tcp_req {
	STAILQ_ENTRY(rdi_tcp_req) tx; /* conn->tx */
	uint32_t sent;                /* data that H2CData PDUs have taken up to here */
	uint32_t want;                /* end of what the last R2T asked for */
	uint32_t got;                 /* received data */
	uint16_t ttag;
	bool queued;  /* on conn->tx */
	bool batched; /* one of its PDUs is in conn->batch */
	bool data;    /* what is sent next: H2CData; else the command */
	bool bad;     /* a data digest was wrong */
};
_Static_assert(sizeof(struct rdi_tcp_req) <= sizeof(((struct rdi_req *)0)->transport), "opaque");

static inline struct rdi_tcp_req *rdi_tcp_req(struct rdi_req *req)
{
	return (struct rdi_tcp_req *)req->transport;
}

static inline struct rdi_req *rdi_tcp_req_of(struct rdi_tcp_req *tr)
{
	return (struct rdi_req *)((char *)tr - offsetof(struct rdi_req, transport));
}

/* A PDU that is being sent. */
struct rdi_tcp_pdu {
	struct rdi_tcp_req *tr; /* NULL: ICReq */
	size_t end;             /* bytes of the batch up to its end */
};

/* What sendmsg(2) was given: PDUs from @first, parts from @iov_at. Headers, padding and digests are
 * in @arena. */
struct rdi_tcp_batch {
	unsigned int max, first, n_pdus, iov_at, n_iov;
	size_t bytes, sent;
	uint32_t room, used;     /* bytes of @arena */
	struct rdi_tcp_pdu *pdu; /* [max] */
	struct iovec *iov;       /* [3 * max] */
	uint8_t *arena;
};

enum rdi_tcp_state {
	RDI_TCP_NONE,       /* no socket */
	RDI_TCP_CONNECTING, /* connect(2) -> TLS, IC */
	RDI_TCP_TLS,        /* handshake -> IC; CONNECTING, to try another identity */
	RDI_TCP_IC,         /* ICReq sent, waits for ICResp -> RUNNING */
	RDI_TCP_RUNNING,    /* -> ENDING */
	RDI_TCP_ENDING,     /* shut down; what arrives is dropped until the peer closes -> OVER */
	RDI_TCP_OVER,       /* the peer has closed */
};

enum rdi_tcp_rx_state {
	RDI_TCP_RX_HEAD,  /* collects the header with its digest */
	RDI_TCP_RX_PAD,   /* skips the padding */
	RDI_TCP_RX_DATA,  /* places data at @dst */
	RDI_TCP_RX_DDGST, /* collects the data digest */
};

/* The PDU in progress. */
struct rdi_tcp_rx {
	enum rdi_tcp_rx_state state;
	struct nvme_tcp_parts parts;
	uint32_t have;       /* bytes of @head or @ddgst */
	uint32_t left;       /* bytes of the padding or of the data */
	bool sized;          /* the common header was checked: @parts */
	uint8_t *dst;        /* where the next data goes; NULL: it is dropped */
	struct rdi_req *req; /* C2HData: the command */
	uint32_t crc;        /* of the data */
	_Alignas(8) uint8_t head[NVME_TCP_HEAD_MAX];
	uint8_t ddgst[RD_CRC32C_LEN];
};

/* TLS of a connection. Without a key of the queue nothing of this is used. */
struct rdi_tcp_tls {
	struct nvmf_tls *stream; /* NULL: the connection is not encrypted */
	unsigned int form;       /* which identity, see tls.c */
	unsigned int left;       /* others that are not tried yet */
	unsigned int refused;    /* those that the target has refused: bits 1 << form */
	struct rd_defer more;    /* reads what was decrypted and has no place yet */
	char why[256];           /* it has refused the first one */
};

/* The connection of a queue. */
struct rdi_tcp_conn {
	struct rdi_queue *q;
	enum rdi_tcp_state state;
	struct rd_io io;
	struct rd_timer timer; /* until ICResp */
	struct rdi_tcp_tls tls;
	struct nvme_tcp_rules rules;
	uint8_t cpda;        /* of data that is sent */
	uint32_t maxh2cdata; /* largest data of an H2CData PDU */
	struct sockaddr_storage remote;
	struct rdi_tcp_rx rx;

	STAILQ_HEAD(, rdi_tcp_req) tx; /* requests with something to send */
	struct rd_defer flush;
	bool blocked; /* the socket is full: waits for EPOLLOUT */
	struct rdi_tcp_batch batch;
};

/* ---- conn.c ---- */

int rdi_tcp_alloc(struct rdi_queue *q);
void rdi_tcp_release(struct rdi_queue *q);
int rdi_tcp_connect(struct rdi_queue *q, const struct sockaddr *addr);
void rdi_tcp_disconnect(struct rdi_queue *q);
bool rdi_tcp_drained(const struct rdi_queue *q);
void rdi_tcp_drop(struct rdi_queue *q);
/* The connection is over, or the attempt has failed: @err, for the reason @why. */
void rdi_tcp_end(struct rdi_tcp_conn *c, int err, const char *why) __attribute__((cold));
/* The stream can be used: sends ICReq. */
void rdi_tcp_ready(struct rdi_tcp_conn *c);
/* Connects again to the same address, within the same time limit. */
void rdi_tcp_again(struct rdi_tcp_conn *c);
/* ICResp has come. */
void rdi_tcp_icresp(struct rdi_tcp_conn *c, const struct nvme_tcp_icresp *pdu);

/* ---- tls.c ---- */

/* A new attempt, which has refused no identity yet. */
void rdi_tcp_tls_init(struct rdi_tcp_conn *c);
/* The socket is connected: begins the handshake. */
void rdi_tcp_tls_start(struct rdi_tcp_conn *c);
/* Goes on with it. */
void rdi_tcp_tls_run(struct rdi_tcp_conn *c);
/* Tells the peer that no more follows. */
void rdi_tcp_tls_close(struct rdi_tcp_conn *c);
void rdi_tcp_tls_drop(struct rdi_tcp_conn *c);
void rdi_tcp_tls_info(const struct rdi_queue *q, struct rdinit_tls_info *info);

/* As readv(2) and sendmsg(2), but with -errno, of the encrypted stream if there is one. */
ssize_t rdi_tcp_readv(struct rdi_tcp_conn *c, const struct iovec *iov, int n);
ssize_t rdi_tcp_writev(struct rdi_tcp_conn *c, const struct iovec *iov, unsigned int n);
/* What @err of rdi_tcp_readv() or rdi_tcp_writev() means. */
const char *rdi_tcp_io_text(const struct rdi_tcp_conn *c, int err);

/* ---- rx.c ---- */

void rdi_tcp_rx_reset(struct rdi_tcp_conn *c);
/* Reads what has arrived. Returns whether there was anything. */
bool rdi_tcp_rx_run(struct rdi_tcp_conn *c);
void rdi_tcp_poll(struct rdi_queue *q);

/* ---- tx.c ---- */

/* For a queue of so many entries. Returns 0 or -ENOMEM; then fini() too. */
int rdi_tcp_batch_init(struct rdi_tcp_batch *b, unsigned int entries);
void rdi_tcp_batch_fini(struct rdi_tcp_batch *b);
void rdi_tcp_tx_reset(struct rdi_tcp_conn *c);
/* Sends what is queued, as much as the socket takes. */
void rdi_tcp_tx_run(struct rdi_tcp_conn *c);
void rdi_tcp_flush(struct rd_defer *defer);
void rdi_tcp_send_icreq(struct rdi_tcp_conn *c, uint8_t dgst);
int rdi_tcp_send(struct rdi_queue *q, struct rdi_req *req, unsigned int how);
int rdi_tcp_send_pair(struct rdi_queue *q, struct rdi_req *first, unsigned int how1,
		      struct rdi_req *second, unsigned int how2);
/* Sends @req's data up to the end of what the last R2T asked for. */
void rdi_tcp_send_data(struct rdi_tcp_conn *c, struct rdi_req *req);
/* @req was answered: what is not in the batch is not sent. */
void rdi_tcp_answered(struct rdi_tcp_conn *c, struct rdi_req *req);

#endif /* RDI_TCP_H */
