/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection events: how a provider reports to the user of a connection. Events are raised anywhere
 * and delivered from the loop's WORK phase, so that no user callback runs inside a call of the
 * interface, inside the receive path or inside the transmit path.
 *
 * Embedded in the provider's connection. One thread, that of the loop.
 */
#ifndef RD_FABRIC_CONN_EVENTS_H
#define RD_FABRIC_CONN_EVENTS_H

#include <stdarg.h>

#include "fabric/fabric.h"
#include "util/loop.h"

#define RD_CONN_REASON 160

/* A set. Pending events are delivered in the order of these values. */
enum rd_conn_event {
	RD_CONN_RESOLVED = 1 << 0,
	RD_CONN_ESTABLISHED = 1 << 1,
	RD_CONN_REJECTED = 1 << 2,
	RD_CONN_ERROR = 1 << 3,
	RD_CONN_REMOVED = 1 << 4,
	RD_CONN_DISCONNECTED = 1 << 5,
};

struct rd_conn_events {
	struct rd_fab_conn *conn;
	struct rd_loop *loop;
	/* Frees the connection; called by rd_conn_events_destroy(), or when the running callback
	 * returns. */
	void (*free)(struct rd_fab_conn *conn);
	/* May be NULL. An event other than RESOLVED has been delivered: its private data is not
	 * needed again. */
	void (*delivered)(struct rd_fab_conn *conn);
	struct rd_defer defer;
	uint32_t pending; /* enum rd_conn_event */
	bool delivering;  /* a user callback is running */
	bool destroyed;   /* the user callback has destroyed the connection */

	/* What the next events say. */
	struct rd_fab_dev *dev;   /* becomes conn->dev with RESOLVED */
	const void *private_data; /* of the peer, with ESTABLISHED and REJECTED; the connection's
				     memory */
	size_t private_len;
	bool unanswered; /* rd_fab_event.unanswered */
	int status;      /* 0 or -errno: why the connection is over */
	char reason[RD_CONN_REASON];
};

void rd_conn_events_init(struct rd_conn_events *e, struct rd_fab_conn *conn, struct rd_loop *loop,
			 void (*free_conn)(struct rd_fab_conn *conn));
/* The connection is over for this reason, which ERROR, REJECTED and DISCONNECTED report. */
void rd_conn_set_reason(struct rd_conn_events *e, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void rd_conn_vset_reason(struct rd_conn_events *e, int status, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
void rd_conn_raise(struct rd_conn_events *e, enum rd_conn_event event);
/* Instead of the pending events, those in @events (a set, 0: none) are delivered. */
void rd_conn_replace_events(struct rd_conn_events *e, uint32_t events);
/*
 * No event follows, and the connection is freed: now, or after the callback of an event that is
 * being delivered. The caller must not touch it afterwards.
 */
void rd_conn_events_destroy(struct rd_conn_events *e);

/* For providers: whether a device with @caps can have such a queue pair. Returns 0 or -EINVAL. */
int rd_fab_check_qp_attr(const struct rd_fab_caps *caps, const struct rd_fab_qp_attr *attr);

#endif /* RD_FABRIC_CONN_EVENTS_H */
