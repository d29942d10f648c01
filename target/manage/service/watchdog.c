/* SPDX-License-Identifier: BSD-3-Clause */
#include "watchdog.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "util/log.h"
#include "util/loop.h"
#include "target/nvmf/reactor.h"
#include "target/nvmf/target.h"
#include "notify.h"

struct ping { /* message to a reactor and back */
	struct rd_msg msg;
	struct rdt_watchdog *watchdog;
	struct rdt_reactor *reactor;
	bool out;
};

struct rdt_watchdog {
	struct rdt_target *target;
	struct rdt_notify *notify;
	uint64_t period_ns;
	struct rd_timer timer; /* start of the next round; during a round: its timeout */
	uint64_t began;        /* start of the round, in ns */
	unsigned int left;     /* reactors that have not answered */
	bool late;             /* the timeout was logged */
	bool stopped;
	struct ping pings[];
};

static void start_round(struct rd_timer *timer);

static void start_timer(struct rdt_watchdog *w, void (*fn)(struct rd_timer *timer))
{
	w->timer.fn = fn;
	if (rd_timer_start(w->target->loop, &w->timer, w->period_ns))
		rd_err(w->target->log, RD_LOG_MAIN,
		       "out of memory for a timer: the watchdog will not be fed any more");
}

static uint64_t elapsed_ms(const struct rdt_watchdog *w)
{
	return (rd_loop_now_raw(w->target->loop) - w->began) / RD_NSEC_PER_MSEC;
}

static void end_round(struct rdt_watchdog *w)
{
	rdt_notify(w->notify, "WATCHDOG=1");
	if (w->late)
		rd_notice(w->target->log, RD_LOG_MAIN,
			  "all reactors answer again, after %" PRIu64 " ms: the watchdog is fed",
			  elapsed_ms(w));
	w->late = false;
	start_timer(w, start_round);
}

static void ping_answered(struct rd_msg *msg)
{
	struct ping *ping = rd_container_of(msg, struct ping, msg);
	struct rdt_watchdog *w = ping->watchdog;

	ping->out = false;
	if (--w->left == 0 && !w->stopped)
		end_round(w);
}

static void ping_arrived(struct rd_msg *msg)
{
	struct ping *ping = rd_container_of(msg, struct ping, msg);

	msg->fn = ping_answered;
	rd_loop_post(ping->watchdog->target->loop, msg);
}

static void round_is_late(struct rd_timer *timer)
{
	struct rdt_watchdog *w = rd_container_of(timer, struct rdt_watchdog, timer);

	for (unsigned int i = 0; i < w->target->reactors_count; i++)
		if (w->pings[i].out)
			rd_warn(w->target->log, RD_LOG_MAIN,
				"reactor %u has not answered for %" PRIu64
				" ms: the watchdog is not fed until it does",
				i, elapsed_ms(w));
	w->late = true;
	start_timer(w, round_is_late);
}

static void start_round(struct rd_timer *timer)
{
	struct rdt_watchdog *w = rd_container_of(timer, struct rdt_watchdog, timer);

	w->began = rd_loop_now_raw(w->target->loop);
	w->left = w->target->reactors_count;
	start_timer(w, round_is_late);
	for (unsigned int i = 0; i < w->target->reactors_count; i++) {
		struct ping *ping = &w->pings[i];

		ping->out = true;
		ping->msg.fn = ping_arrived;
		rd_loop_post(ping->reactor->loop, &ping->msg);
	}
}

int rdt_watchdog_start(struct rdt_target *t, struct rdt_notify *notify, struct rdt_watchdog **out)
{
	struct rdt_watchdog *w;

	*out = NULL;
	if (!notify->watchdog_ns)
		return 0;
	w = calloc(1, sizeof(*w) + t->reactors_count * sizeof(w->pings[0]));
	if (!w)
		return -ENOMEM;
	w->target = t;
	w->notify = notify;
	w->period_ns = notify->watchdog_ns / 3;
	for (unsigned int i = 0; i < t->reactors_count; i++) {
		w->pings[i].watchdog = w;
		w->pings[i].reactor = &t->reactors[i];
	}
	*out = w;
	start_round(&w->timer);
	return 0;
}

void rdt_watchdog_stop(struct rdt_watchdog *w)
{
	if (!w || w->stopped)
		return;
	w->stopped = true;
	rd_timer_stop(w->target->loop, &w->timer);
}

void rdt_watchdog_free(struct rdt_watchdog **w)
{
	free(*w);
	*w = NULL;
}
