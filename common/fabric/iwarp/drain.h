/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draining closed sockets: the connection is over, but its last bytes must still reach the peer.
 * drain.c.
 */
#ifndef RD_IW_DRAIN_H
#define RD_IW_DRAIN_H

#include "util/loop.h"

#include "caps.h"

struct rd_iw_fab;
struct rd_iw_mailbox;
struct rd_iw_req;

struct rd_iw_drain {
	TAILQ_ENTRY(rd_iw_drain) link;
	struct rd_iw_fab *fab;
	int fd;
	uint64_t deadline; /* ns on the loop's clock */
};

/*
 * Takes @fd, drains and closes it. @fin: shut down the sending side at once. With RD_IW_MAX_DRAINS
 * sockets the one that was not read for the longest time is closed to make room.
 */
void rd_iw_drain_start(struct rd_iw_fab *fab, int fd, bool fin);
void rd_iw_drain_init(struct rd_iw_fab *fab);
void rd_iw_drain_fini(struct rd_iw_fab *fab);

/* The mailbox: requests that any thread has rejected, whose sockets this fabric's thread drains. */
int rd_iw_mailbox_create(struct rd_iw_fab *fab, struct rd_iw_mailbox **out);
void rd_iw_mailbox_get(struct rd_iw_mailbox *box);
void rd_iw_mailbox_put(struct rd_iw_mailbox *box);
/* The fabric is being closed: closes the sockets in the box, and those that are sent to it later.
 */
void rd_iw_mailbox_close(struct rd_iw_mailbox *box);
/* Takes @req: its socket will be drained, the rest freed. Any thread. */
void rd_iw_mailbox_send(struct rd_iw_mailbox *box, struct rd_iw_req *req);

#endif /* RD_IW_DRAIN_H */
