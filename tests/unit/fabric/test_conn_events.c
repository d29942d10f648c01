/* SPDX-License-Identifier: BSD-3-Clause */
/* The events of a connection, common to all providers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/conn_events.h"
#include "suites.h"
#include "util/loop.h"

/* A provider's connection, and the events that its user gets. */
struct fake_conn {
	struct rd_fab_conn base;
	struct rd_conn_events events;
	struct rd_fab_dev dev;
	char pd[8];
	struct log *log;
};

struct log {
	int destroy_in; /* the user destroys the connection in the event with this number, from 1 */
	int n;
	enum rd_fab_event_type types[8];
	int statuses[8];
	char reasons[8][RD_CONN_REASON];
	char pd[8]; /* of the last event that had private data */
	int delivered;
	int freed;
	bool freed_in_callback;
	bool in_callback;
};

static void fake_free(struct rd_fab_conn *conn)
{
	struct fake_conn *c = rd_container_of(conn, struct fake_conn, base);

	c->log->freed++;
	c->log->freed_in_callback = c->log->in_callback;
	free(c);
}

static void fake_delivered(struct rd_fab_conn *conn)
{
	rd_container_of(conn, struct fake_conn, base)->log->delivered++;
}

static void fake_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
{
	struct log *log = arg;

	log->in_callback = true;
	log->types[log->n] = ev->type;
	log->statuses[log->n] = ev->status;
	if (++log->n == log->destroy_in)
		rd_conn_events_destroy(&rd_container_of(conn, struct fake_conn, base)->events);
	/* Both are valid during the callback, even if the user destroys the connection. */
	snprintf(log->reasons[log->n - 1], RD_CONN_REASON, "%s", ev->reason);
	if (ev->private_len)
		memcpy(log->pd, ev->private_data, ev->private_len);
	log->in_callback = false;
}

static struct fake_conn *fake_new(struct rd_loop *loop, struct log *log)
{
	struct fake_conn *c = calloc(1, sizeof(*c));

	CU_ASSERT_PTR_NOT_NULL_FATAL(c);
	*log = (struct log){.destroy_in = log->destroy_in};
	c->log = log;
	c->base.on_event = fake_event;
	c->base.arg = log;
	rd_conn_events_init(&c->events, &c->base, loop, fake_free);
	c->events.delivered = fake_delivered;
	c->events.dev = &c->dev;
	memcpy(c->pd, "private", sizeof(c->pd));
	c->events.private_data = c->pd;
	c->events.private_len = sizeof(c->pd);
	return c;
}

static struct rd_loop *open_loop(void)
{
	struct rd_loop_opts opts = {0};
	struct rd_loop *loop;

	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&opts, &loop), 0);
	return loop;
}

/* Events are delivered from the loop, never inside the call that raises them, in the order of a
 * connection's life. */
static void in_order_from_the_loop(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = open_loop();
	struct log log = {0};
	struct fake_conn *c = fake_new(loop, &log);

	rd_conn_set_reason(&c->events, -EIO, "work request %d failed", 7);
	rd_conn_raise(&c->events, RD_CONN_DISCONNECTED);
	rd_conn_raise(&c->events, RD_CONN_REMOVED);
	rd_conn_raise(&c->events, RD_CONN_ESTABLISHED);
	rd_conn_raise(&c->events, RD_CONN_RESOLVED);
	CU_ASSERT_EQUAL(log.n, 0);
	CU_ASSERT_PTR_NULL(c->base.dev);
	rd_loop_turn(loop, 0);
	CU_ASSERT_EQUAL_FATAL(log.n, 4);
	CU_ASSERT_EQUAL(log.types[0], RD_FAB_EV_RESOLVED);
	CU_ASSERT_EQUAL(log.types[1], RD_FAB_EV_ESTABLISHED);
	CU_ASSERT_EQUAL(log.types[2], RD_FAB_EV_DEVICE_REMOVED);
	CU_ASSERT_EQUAL(log.types[3], RD_FAB_EV_DISCONNECTED);
	CU_ASSERT(log.statuses[0] == 0 && log.statuses[1] == 0);
	CU_ASSERT(log.statuses[2] == -EIO && log.statuses[3] == -EIO);
	CU_ASSERT_STRING_EQUAL(log.reasons[3], "work request 7 failed");
	CU_ASSERT_STRING_EQUAL(log.pd, "private");
	CU_ASSERT_PTR_EQUAL(c->base.dev, &c->dev);
	CU_ASSERT_EQUAL(log.delivered, 3); /* RESOLVED does not end the handshake */
	rd_conn_events_destroy(&c->events);
	CU_ASSERT(log.freed == 1 && !log.freed_in_callback);
}

/* Reason and private data stay valid until the callback returns; no event follows. */
static void destroyed_in_a_callback(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = open_loop();
	struct log log = {.destroy_in = 1};
	struct fake_conn *c = fake_new(loop, &log);

	rd_conn_set_reason(&c->events, -ECONNREFUSED, "rejected by the peer");
	rd_conn_raise(&c->events, RD_CONN_REJECTED);
	rd_conn_raise(&c->events, RD_CONN_DISCONNECTED);
	rd_loop_turn(loop, 0);
	CU_ASSERT_EQUAL(log.n, 1);
	CU_ASSERT_EQUAL(log.types[0], RD_FAB_EV_REJECTED);
	CU_ASSERT_STRING_EQUAL(log.reasons[0], "rejected by the peer");
	CU_ASSERT_STRING_EQUAL(log.pd, "private");
	CU_ASSERT(log.freed == 1 && !log.freed_in_callback);
	rd_loop_turn(loop, 0);
	CU_ASSERT_EQUAL(log.n, 1);
}

static void pending_events_are_dropped_or_replaced(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = open_loop();
	struct log log = {0};
	struct fake_conn *c = fake_new(loop, &log);

	rd_conn_raise(&c->events, RD_CONN_ERROR);
	rd_conn_replace_events(&c->events, RD_CONN_DISCONNECTED);
	rd_loop_turn(loop, 0);
	CU_ASSERT(log.n == 1 && log.types[0] == RD_FAB_EV_DISCONNECTED);
	rd_conn_raise(&c->events, RD_CONN_ESTABLISHED);
	rd_conn_replace_events(&c->events, 0);
	rd_loop_turn(loop, 0);
	CU_ASSERT_EQUAL(log.n, 1);
	rd_conn_raise(&c->events, RD_CONN_ESTABLISHED);
	rd_conn_events_destroy(&c->events);
	CU_ASSERT_EQUAL(log.freed, 1);
	rd_loop_turn(loop, 0);
	CU_ASSERT_EQUAL(log.n, 1);
}

const struct t_case t_conn_events_cases[] = {
	{"delivered from the loop, in the order of a connection's life", in_order_from_the_loop},
	{"a connection destroyed in its event is freed afterwards", destroyed_in_a_callback},
	{"pending events are dropped or replaced", pending_events_are_dropped_or_replaced},
	{NULL},
};
