/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Drivers that need special treatment. A driver's quirks are one struct rd_vb_quirk in a file of
 * its own; quirk.c chooses it by the device when the device is opened, and the rest of the provider
 * asks dev->quirk, never for a driver.
 */
#ifndef RD_VB_QUIRK_H
#define RD_VB_QUIRK_H

#include <infiniband/verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "util/log.h"

struct rd_vb_conn;
struct rd_vb_dev;

/* SIGPIPE around a call: see rd_vb_sigpipe_block(). */
struct rd_vb_sigpipe {
	sigset_t old;
	bool blocked; /* by rd_vb_sigpipe_block() */
};

/* Every hook may be NULL. */
struct rd_vb_quirk {
	bool (*match)(const struct ibv_device *device, const struct ibv_device_attr *attr);
	/* Entries of each send queue that are kept for rd_vb_post_hidden(): 0 or 1. */
	uint32_t hidden_wrs;
	/* The driver takes the key of a SEND with Invalidate from wr.rdma.rkey. */
	bool inv_key_in_rdma;
	/* Of a WRITE that is not signaled the driver reads the data even after later requests have
	 * completed: all WRITEs are signaled. */
	bool signal_writes;
	/* System calls that post, accept, reject or disconnect can raise SIGPIPE. */
	bool sigpipe;
	/* dev->ctx and dev->pd have been opened, and nothing else. Returns 0 or -errno. */
	int (*open)(struct rd_vb_dev *dev);
	/* Undoes open(), also when that has failed or has not been called. */
	void (*close)(struct rd_vb_dev *dev);
	/* @c has become OPEN. @initiator: this is the side that connects. */
	void (*established)(struct rd_vb_conn *c, bool initiator);
	/* The peer's first message has arrived. Called once, while completions are being polled. */
	void (*heard)(struct rd_vb_conn *c);
	/* @c is being closed; may be called more than once. */
	void (*closed)(struct rd_vb_conn *c);
	/* A listener for @addr has been bound to the device of @ctx. */
	void (*listening)(struct rd_log *log, const struct sockaddr *addr, struct ibv_context *ctx);
};

extern const struct rd_vb_quirk rd_vb_quirk_siw; /* quirk_siw.c */

/* The quirks of a device. Never NULL: most devices get an entry without any. */
const struct rd_vb_quirk *rd_vb_quirk_match(const struct ibv_device *device,
					    const struct ibv_device_attr *attr);
/* The same for an open device, which is queried; of NULL: no quirks. Any thread. */
const struct rd_vb_quirk *rd_vb_quirk_of(struct ibv_context *ctx);

/*
 * Around a call that can raise SIGPIPE: takes a SIGPIPE of the call back. Calls are on one thread
 * and not nested. Afterwards the signal's action and mask are as before, and a SIGPIPE that was
 * pending before still is.
 */
void rd_vb_sigpipe_block(struct rd_vb_sigpipe *s);
void rd_vb_sigpipe_restore(struct rd_vb_sigpipe *s);

/* Around a call of the driver. */
static inline void rd_vb_call_begin(const struct rd_vb_quirk *quirk, struct rd_vb_sigpipe *s)
{
	if (quirk->sigpipe)
		rd_vb_sigpipe_block(s);
}

static inline void rd_vb_call_end(const struct rd_vb_quirk *quirk, struct rd_vb_sigpipe *s)
{
	if (quirk->sigpipe)
		rd_vb_sigpipe_restore(s);
}

#endif /* RD_VB_QUIRK_H */
