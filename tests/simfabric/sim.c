/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulation: its clock, its random numbers, its events; and the faults of its network. */
#include "sim.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/sockaddr.h"

#include "internal.h"

#define HEAP_MIN      64
#define TRACE_LINE    400
#define PEER_TIMEOUT  (60 * RD_NSEC_PER_SEC)
#define LEARNS_WITHIN (20 * RD_NSEC_PER_MSEC)

static uint64_t sim_clock_now(void *arg)
{
	const struct rd_sim *sim = arg;

	return sim->now;
}

int rd_sim_create(const struct rd_sim_opts *opts, struct rd_sim **out)
{
	struct rd_sim *sim = calloc(1, sizeof(*sim));

	*out = sim;
	if (!sim)
		return -ENOMEM;
	sim->clock = (struct rd_clock){.now = sim_clock_now, .arg = sim, .manual = true};
	sim->now = opts->start_ns;
	sim->latency_ns = opts->latency_ns;
	sim->jitter_ns = opts->jitter_ns;
	sim->trace = opts->trace;
	sim->trace_arg = opts->trace_arg;
	rd_random_init(&sim->random, opts->seed);
	LIST_INIT(&sim->listeners);
	LIST_INIT(&sim->links);
	return 0;
}

void rd_sim_destroy(struct rd_sim **sim)
{
	struct rd_sim_link *link;

	if (!*sim)
		return;
	while ((link = LIST_FIRST(&(*sim)->links)))
		rd_sim_link_free(link);
	free((*sim)->socks);
	free((*sim)->heap);
	free(*sim);
	*sim = NULL;
}

const struct rd_clock *rd_sim_clock(const struct rd_sim *sim)
{
	return &sim->clock;
}

uint64_t rd_sim_now(const struct rd_sim *sim)
{
	return sim->now;
}

uint64_t rd_sim_random(struct rd_sim *sim)
{
	return rd_random_next(&sim->random);
}

uint64_t rd_sim_below(struct rd_sim *sim, uint64_t n)
{
	return n ? rd_sim_random(sim) % n : 0;
}

bool rd_sim_chance(struct rd_sim *sim, uint64_t num, uint64_t den)
{
	return rd_sim_below(sim, den) < num;
}

uint64_t rd_sim_latency(struct rd_sim *sim)
{
	return sim->latency_ns + rd_sim_below(sim, sim->jitter_ns);
}

void rd_sim_tell(struct rd_sim *sim, const char *fmt, ...)
{
	char line[TRACE_LINE];
	va_list ap;

	if (!sim->trace)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	sim->trace(sim->trace_arg, line);
}

/* ---- events: a binary heap ---- */

static bool is_earlier(const struct rd_sim_event *a, const struct rd_sim_event *b)
{
	return a->when != b->when ? a->when < b->when : a->seq < b->seq;
}

static void put_event(struct rd_sim *sim, size_t slot, struct rd_sim_event *event)
{
	sim->heap[slot] = event;
	event->slot = slot;
}

static void move_event_up(struct rd_sim *sim, size_t slot)
{
	struct rd_sim_event *event = sim->heap[slot];

	for (; slot > 1 && is_earlier(event, sim->heap[slot / 2]); slot /= 2)
		put_event(sim, slot, sim->heap[slot / 2]);
	put_event(sim, slot, event);
}

static void move_event_down(struct rd_sim *sim, size_t slot)
{
	struct rd_sim_event *event = sim->heap[slot];

	for (;;) {
		size_t child = 2 * slot;

		if (child < sim->heap_count && is_earlier(sim->heap[child + 1], sim->heap[child]))
			child++;
		if (child > sim->heap_count || !is_earlier(sim->heap[child], event))
			break;
		put_event(sim, slot, sim->heap[child]);
		slot = child;
	}
	put_event(sim, slot, event);
}

void rd_sim_cancel(struct rd_sim *sim, struct rd_sim_event *event)
{
	size_t slot = event->slot;
	struct rd_sim_event *last;

	if (!slot)
		return;
	event->slot = 0;
	last = sim->heap[sim->heap_count--];
	if (last == event)
		return;
	put_event(sim, slot, last);
	move_event_up(sim, slot);
	move_event_down(sim, last->slot);
}

static int grow_events(struct rd_sim *sim)
{
	size_t size = sim->heap_size ? 2 * sim->heap_size : HEAP_MIN;
	struct rd_sim_event **heap = reallocarray(sim->heap, size, sizeof(struct rd_sim_event *));

	if (!heap)
		return -ENOMEM;
	sim->heap = heap;
	sim->heap_size = size;
	return 0;
}

int rd_sim_at(struct rd_sim *sim, struct rd_sim_event *event, uint64_t delay_ns)
{
	rd_sim_cancel(sim, event);
	/* Slot 0 is not used, and one beyond the last is looked at. */
	if (sim->heap_count + 3 > sim->heap_size && grow_events(sim))
		return -ENOMEM;
	event->when = sim->now + delay_ns;
	event->seq = sim->seq++;
	put_event(sim, ++sim->heap_count, event);
	move_event_up(sim, event->slot);
	return 0;
}

uint64_t rd_sim_next(const struct rd_sim *sim)
{
	return sim->heap_count ? sim->heap[1]->when : UINT64_MAX;
}

void rd_sim_advance(struct rd_sim *sim, uint64_t to_ns)
{
	if (to_ns > sim->now)
		sim->now = to_ns;
}

unsigned int rd_sim_run(struct rd_sim *sim)
{
	unsigned int count = 0;

	while (rd_sim_next(sim) <= sim->now) {
		struct rd_sim_event *event = sim->heap[1];

		rd_sim_cancel(sim, event);
		event->fn(event);
		count++;
	}
	return count;
}

/* ---- faults ---- */

static bool can_break(const struct rd_sim_link *link)
{
	return link->was_open && !link->cut && link->end[0] && link->end[1];
}

unsigned int rd_sim_links(const struct rd_sim *sim)
{
	const struct rd_sim_link *link;
	unsigned int count = 0;

	LIST_FOREACH (link, &sim->links, entry)
		count += can_break(link);
	return count;
}

static void learn_loss(struct rd_sim_end *end, uint64_t delay_ns, int status)
{
	end->timer_status = status;
	rd_sim_at(end->sim, &end->timer, delay_ns);
}

static void hold_pipe(struct rd_sim_link *link, unsigned int to, uint64_t ns)
{
	link->pipe[to].held_until = link->sim->now + ns;
}

/* The end @side learns soon that the connection is lost; the other one too (@both), or only when it
 * gives up. */
static void lose_link(struct rd_sim *sim, struct rd_sim_link *link, unsigned int side, bool both)
{
	link->cut = true;
	learn_loss(link->end[side], rd_sim_below(sim, LEARNS_WITHIN), -ECONNRESET);
	if (both)
		learn_loss(link->end[!side], rd_sim_below(sim, LEARNS_WITHIN), -ECONNRESET);
	else
		learn_loss(link->end[!side], PEER_TIMEOUT, -ETIMEDOUT);
}

uint64_t rd_sim_learns(const struct rd_sim *sim)
{
	const struct rd_sim_link *link;
	uint64_t last = 0;

	LIST_FOREACH (link, &sim->links, entry) {
		const struct rd_sim_end *end = link->cut ? link->end[0] : NULL;

		if (end && end->timer.slot && end->timer.when > last)
			last = end->timer.when;
	}
	return last;
}

void rd_sim_break(struct rd_sim *sim, unsigned int n, enum rd_sim_fault fault, uint64_t ns)
{
	struct rd_sim_link *link;
	unsigned int side;

	LIST_FOREACH (link, &sim->links, entry)
		if (can_break(link) && !n--)
			break;
	if (!link)
		return;
	if (fault == RD_SIM_CORRUPT && !link->end[0]->ops->is_stream)
		fault = RD_SIM_CUT;
	rd_sim_tell(sim, "link %llu: fault %u", (unsigned long long)link->id, (unsigned int)fault);
	switch (fault) {
	case RD_SIM_CUT:
	case RD_SIM_HALF_OPEN:
		side = (unsigned int)rd_sim_below(sim, 2);
		lose_link(sim, link, side, fault == RD_SIM_CUT);
		break;
	case RD_SIM_CORRUPT:
		link->pipe[rd_sim_below(sim, 2)].corrupts = true;
		break;
	case RD_SIM_HOLD_TO_ACTIVE:
		hold_pipe(link, 0, ns);
		break;
	case RD_SIM_HOLD_TO_PASSIVE:
		hold_pipe(link, 1, ns);
		break;
	case RD_SIM_HOLD:
		hold_pipe(link, 0, ns);
		hold_pipe(link, 1, ns);
		break;
	}
}

static bool is_on_path(const struct rd_sim_link *link, const struct sockaddr *from, uint16_t port)
{
	const struct rd_sim_end *end = link->end[0];

	return end && rd_addr_key((struct sockaddr *)end->local) == rd_addr_key(from) &&
	       rd_addr_port((struct sockaddr *)end->remote) == port;
}

void rd_sim_lose_path(struct rd_sim *sim, const struct sockaddr *from, uint16_t port)
{
	struct rd_sim_link *link;

	LIST_FOREACH (link, &sim->links, entry) {
		if (is_on_path(link, from, port) && can_break(link))
			lose_link(sim, link, 0, false);
	}
}

void rd_sim_hold_path(struct rd_sim *sim, const struct sockaddr *from, uint16_t port, bool both,
		      uint64_t ns)
{
	struct rd_sim_link *link;

	LIST_FOREACH (link, &sim->links, entry) {
		if (!is_on_path(link, from, port))
			continue;
		hold_pipe(link, 1, ns);
		if (both)
			hold_pipe(link, 0, ns);
	}
}

void rd_sim_kill(struct rd_sim *sim, uint16_t port)
{
	struct rd_sim_link *link;

	LIST_FOREACH (link, &sim->links, entry) {
		if (port && link->port != port)
			continue;
		link->cut = true;
		for (int side = 0; side < 2; side++)
			if (link->end[side] && (side || link->was_open))
				learn_loss(link->end[side],
					   side ? 0 : rd_sim_below(sim, LEARNS_WITHIN),
					   -ECONNRESET);
	}
}

void rd_sim_port_down(struct rd_sim *sim, uint16_t port, bool down)
{
	for (unsigned int i = 0; i < RD_SIM_PORTS; i++) {
		if (sim->ports_down[i] == port && !down)
			sim->ports_down[i] = 0;
		if (sim->ports_down[i] == port)
			return;
	}
	for (unsigned int i = 0; i < RD_SIM_PORTS && down; i++)
		if (!sim->ports_down[i]) {
			sim->ports_down[i] = port;
			return;
		}
}

bool rd_sim_port_is_down(const struct rd_sim *sim, uint16_t port)
{
	for (unsigned int i = 0; i < RD_SIM_PORTS; i++)
		if (sim->ports_down[i] == port)
			return true;
	return false;
}

void rd_sim_heal(struct rd_sim *sim)
{
	struct rd_sim_link *link;

	memset(sim->ports_down, 0, sizeof(sim->ports_down));
	LIST_FOREACH (link, &sim->links, entry)
		for (int to = 0; to < 2; to++) {
			link->pipe[to].held_until = 0;
			if (!STAILQ_EMPTY(&link->pipe[to].msgs))
				rd_sim_at(sim, &link->pipe[to].event, 0);
		}
}

const struct rd_sim_errors *rd_sim_errors(const struct rd_sim *sim)
{
	return &sim->errors;
}

unsigned int rd_sim_leaked(const struct rd_sim *sim)
{
	return sim->leaked + rd_sim_socks(sim);
}
