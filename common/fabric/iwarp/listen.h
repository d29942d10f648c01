/* SPDX-License-Identifier: BSD-3-Clause */
/* The passive side: listeners, requests, answers. listen.c. */
#ifndef RD_IW_LISTEN_H
#define RD_IW_LISTEN_H

#include "fabric/fabric.h"

#include "fab.h"
#include "mpa.h"

struct rd_iw_mailbox;

struct rd_iw_req {
	struct rd_fab_req base;
	struct rd_iw_mailbox *home; /* takes the socket when the request is rejected; a reference */
	STAILQ_ENTRY(rd_iw_req) link;
	int fd;
	bool crc; /* the listener's option */
	struct rd_iw_mpa mpa;
	uint8_t frame[RD_MPA_MAX_LEN];
};

int rd_iw_listen(struct rd_fab *ffab, const struct sockaddr *addr, int backlog, rd_fab_listen_fn fn,
		 void *arg, struct rd_fab_listener **out);
void rd_iw_unlisten(struct rd_fab_listener *base);
int rd_iw_listen_on(struct rd_fab *ffab, int fd, rd_fab_listen_fn fn, void *arg,
		    struct rd_fab_listener **out);
int rd_iw_listen_fd(const struct rd_fab_listener *base);
void rd_iw_listen_hold(struct rd_fab_listener *base, bool held);
int rd_iw_req_adopt(struct rd_fab *ffab, struct rd_fab_req *base, rd_fab_event_fn on_event,
		    void *arg, struct rd_fab_conn **out);
void rd_iw_req_reject(struct rd_fab_req *base, const void *priv, size_t len);
int rd_iw_accept(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param);
int rd_iw_reject(struct rd_fab_conn *conn, const void *priv, size_t len);

/* ---- half_open.c: accepted sockets that have not sent a complete MPA request ---- */

struct rd_iw_halves;

/* A complete request. The callee takes its socket and memory, and may destroy the rd_iw_halves. */
typedef void (*rd_iw_request_fn)(struct rd_iw_req *req, void *arg);

int rd_iw_halves_create(struct rd_iw_fab *fab, rd_iw_request_fn fn, void *arg,
			struct rd_iw_halves **out);
void rd_iw_halves_destroy(struct rd_iw_halves *all); /* closes them; NULL is allowed */
/* Does rd_iw_half_start() close another one? */
bool rd_iw_halves_full(const struct rd_iw_halves *all);
/* Takes @fd; may call the function at once. Returns 0, or -errno with @fd closed. */
int rd_iw_half_start(struct rd_iw_halves *all, int fd, const struct sockaddr_storage *remote);
/* Closes one half-open connection to make room. False: there is none. */
bool rd_iw_halves_evict(struct rd_iw_halves *all);

uint64_t rd_iw_request_timeout(const struct rd_iw_fab *fab);
void rd_iw_req_free(struct rd_iw_req *req); /* not its socket */

#endif /* RD_IW_LISTEN_H */
