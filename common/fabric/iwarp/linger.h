/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets whose connection is over, but whose last bytes must arrive. linger.c. */
#ifndef RD_IW_LINGER_H
#define RD_IW_LINGER_H

#include "util/loop.h"

struct rd_iw_fab;
struct rd_iw_mailbox;
struct rd_iw_req;

struct rd_iw_linger {
	struct rd_io io;
	struct rd_timer timer;
	TAILQ_ENTRY(rd_iw_linger) link;
	struct rd_iw_fab *fab;
};

#define RD_IW_MAX_LINGERS 256

/* Takes @fd. With @fin the sending side is shut down at once. The oldest makes room when there
 * are too many. */
void rd_iw_linger_start(struct rd_iw_fab *fab, int fd, bool fin);
void rd_iw_linger_fini(struct rd_iw_fab *fab);

/* Other threads' way to rd_iw_linger_start(). */
int rd_iw_mailbox_create(struct rd_iw_fab *fab, struct rd_iw_mailbox **out);
void rd_iw_mailbox_get(struct rd_iw_mailbox *box);
void rd_iw_mailbox_put(struct rd_iw_mailbox *box);
/* The fabric goes: close what is in the box, refuse more. */
void rd_iw_mailbox_close(struct rd_iw_mailbox *box);
/* Takes the request: its socket lingers, the rest is freed. Any thread. */
void rd_iw_mailbox_send(struct rd_iw_mailbox *box, struct rd_iw_req *req);

#endif /* RD_IW_LINGER_H */
