/* SPDX-License-Identifier: BSD-3-Clause */
/* Half-open connections: accepted sockets of a listener that have not sent a complete MPA request.
 */
#ifndef RD_IW_HALF_OPEN_H
#define RD_IW_HALF_OPEN_H

#include "fab.h"
#include "listen.h"

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

#endif /* RD_IW_HALF_OPEN_H */
