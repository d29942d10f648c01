/* SPDX-License-Identifier: BSD-3-Clause */
/* Placement: which reactor gets a new connection, and the log line about imbalance, which is needed
 * because queues never move between reactors. Each reactor publishes its busy time from a poller.
 * That needs no timer: a reactor whose poller does not run is idle. */
#include "placement.h"

#include "util/log.h"
#include "util/loop.h"
#include "reactor.h"
#include "target.h"
#include "target/config/tgt_limits.h"

#define WINDOW RD_NSEC_PER_SEC
#define STALE  (2 * WINDOW)
#define STEP   100u /* resolution of the busy time, in per mille */
#define BUSY   900u
#define REPEAT (60 * RD_NSEC_PER_SEC)

/* Returns whether a new connection should go to @a rather than to @b. */
static bool is_better_load(const struct rdt_load *a, const struct rdt_load *b)
{
	if (a->queues != b->queues)
		return a->queues < b->queues;
	if (a->busy / STEP != b->busy / STEP)
		return a->busy < b->busy;
	return a->conns < b->conns;
}

unsigned int rdt_place_choose(const struct rdt_load *loads, unsigned int count)
{
	unsigned int best = 0;

	for (unsigned int i = 1; i < count; i++)
		if (is_better_load(&loads[i], &loads[best]))
			best = i;
	return best;
}

static struct rdt_load load_of(const struct rdt_reactor *r, uint64_t now)
{
	uint64_t at = atomic_load_explicit(&r->busy_at, memory_order_relaxed);

	return (struct rdt_load){
		.busy = now > at && now - at > STALE
				? 0
				: atomic_load_explicit(&r->busy, memory_order_relaxed),
		.queues = atomic_load_explicit(&r->io_load, memory_order_relaxed),
		.conns = atomic_load_explicit(&r->load, memory_order_relaxed),
	};
}

struct rdt_reactor *rdt_place(struct rdt_target *t, bool admin)
{
	struct rdt_load loads[RDT_REACTORS_MAX];
	uint64_t now = rd_loop_now(t->loop);
	struct rdt_reactor *r;

	for (unsigned int i = 0; i < t->reactors_count; i++)
		loads[i] = load_of(&t->reactors[i], now);
	r = &t->reactors[rdt_place_choose(loads, t->reactors_count)];
	rdt_place_on(r);
	if (!admin)
		rdt_place_io(r);
	return r;
}

void rdt_place_on(struct rdt_reactor *r)
{
	atomic_fetch_add_explicit(&r->load, 1, memory_order_relaxed);
}

void rdt_place_io(struct rdt_reactor *r)
{
	atomic_fetch_add_explicit(&r->io_load, 1, memory_order_relaxed);
}

void rdt_unplace(struct rdt_reactor *r, bool admin)
{
	atomic_fetch_sub_explicit(&r->load, 1, memory_order_relaxed);
	if (!admin)
		atomic_fetch_sub_explicit(&r->io_load, 1, memory_order_relaxed);
}

bool rdt_place_uneven(const struct rdt_load *mine, const struct rdt_load *other)
{
	return mine->busy >= BUSY && other->busy < BUSY / 2 && mine->queues > 1 &&
	       other->queues < mine->queues;
}

static void report_uneven(struct rdt_reactor *r, uint64_t now)
{
	struct rdt_target *t = r->target;
	struct rdt_load mine = load_of(r, now), other;
	uint32_t squashed;

	for (unsigned int i = 0; i < t->reactors_count; i++) {
		other = load_of(&t->reactors[i], now);
		if (!rdt_place_uneven(&mine, &other))
			continue;
		if (rd_ratelimit_pass(&r->uneven_limit, now, REPEAT, 1, &squashed))
			rd_notice(r->log, RD_LOG_TARGET,
				  "reactor %u is busy %u %% of the time with %u I/O queues, while "
				  "reactor %u is busy %u %% with %u; queues stay where they are "
				  "until their hosts reconnect",
				  r->index, mine.busy / 10, mine.queues, i, other.busy / 10,
				  other.queues);
		return;
	}
}

static bool poll_busy(struct rd_poller *poller)
{
	struct rdt_reactor *r = rd_container_of(poller, struct rdt_reactor, busy_poller);
	uint64_t now = rd_loop_now(r->loop), busy, ns = now - r->window_start;

	if (ns < WINDOW)
		return false;
	busy = rd_loop_busy(r->loop);
	atomic_store_explicit(&r->busy, (unsigned int)((busy - r->window_busy) * 1000 / ns),
			      memory_order_relaxed);
	atomic_store_explicit(&r->busy_at, now, memory_order_relaxed);
	r->window_start = now;
	r->window_busy = busy;
	report_uneven(r, now);
	return false;
}

void rdt_place_watch(struct rdt_reactor *r)
{
	if (r->target->reactors_count < 2 && r->target->cfg->target.reactors < 2)
		return;
	r->window_start = rd_loop_now(r->loop);
	r->busy_poller.fn = poll_busy;
	rd_poller_add(r->loop, &r->busy_poller);
}

void rdt_place_unwatch(struct rdt_reactor *r)
{
	rd_poller_del(r->loop, &r->busy_poller);
}
