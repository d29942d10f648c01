/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accepting the connections of a listening socket: some in each iteration of the loop, and none for
 * a while when there are no file descriptors or no memory, because the socket stays readable.
 */
#ifndef RD_UTIL_ACCEPTOR_H
#define RD_UTIL_ACCEPTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "log.h"
#include "loop.h"

struct rd_acceptor {
	struct rd_loop *loop;
	struct rd_log *log;
	enum rd_log_comp comp;
	/* Takes @fd, which does not block, in any case. Returns 0, or -ENOMEM: others wait. It may
	 * end @a. */
	int (*take)(struct rd_acceptor *a, int fd, const struct sockaddr_storage *remote);
	/* Frees a descriptor. Returns false when it cannot. May be NULL. */
	bool (*make_room)(struct rd_acceptor *a);
	/* Set by take(), and used once: when no more connections wait, the socket is not watched
	 * for so long. */
	uint64_t rest_ns;

	/* private */
	struct rd_io io;
	struct rd_timer pause;
	bool held; /* rd_acceptor_hold() */
	struct rd_ratelimit full_limit;
	bool *gone; /* not NULL while connections are accepted: set to true by rd_acceptor_end() */
};

/* Watches @fd, which is closed by rd_acceptor_end(). Returns 0 or -errno: @fd is the caller's. */
int rd_acceptor_begin(struct rd_acceptor *a, int fd);
void rd_acceptor_end(struct rd_acceptor *a);
/* Accepts nothing, also when it begins, until it is not held any more: connections wait in the
 * kernel. */
void rd_acceptor_hold(struct rd_acceptor *a, bool held);

#endif /* RD_UTIL_ACCEPTOR_H */
