/* SPDX-License-Identifier: BSD-3-Clause */
/* The timers of a loop: a binary heap, mirrored in a timerfd if a program sleeps on the loop. */
#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>

#include "util/loop_internal.h"

#define HEAP_INITIAL 32

static void heap_set(struct rd_loop *loop, size_t slot, struct rd_timer *timer)
{
	loop->heap[slot] = timer;
	timer->slot = slot;
}

static void heap_up(struct rd_loop *loop, size_t slot)
{
	struct rd_timer *timer = loop->heap[slot];

	while (slot > 1 && loop->heap[slot / 2]->deadline > timer->deadline) {
		heap_set(loop, slot, loop->heap[slot / 2]);
		slot /= 2;
	}
	heap_set(loop, slot, timer);
}

static void heap_down(struct rd_loop *loop, size_t slot)
{
	struct rd_timer *timer = loop->heap[slot];

	for (;;) {
		size_t child = slot * 2;

		if (child > loop->heap_count)
			break;
		if (child < loop->heap_count &&
		    loop->heap[child + 1]->deadline < loop->heap[child]->deadline)
			child++;
		if (loop->heap[child]->deadline >= timer->deadline)
			break;
		heap_set(loop, slot, loop->heap[child]);
		slot = child;
	}
	heap_set(loop, slot, timer);
}

static int heap_grow(struct rd_loop *loop)
{
	size_t size = loop->heap_size ? loop->heap_size * 2 : HEAP_INITIAL;
	struct rd_timer **heap = reallocarray(loop->heap, size, sizeof(*heap));

	if (!heap)
		return -ENOMEM;
	loop->heap = heap;
	loop->heap_size = size;
	return 0;
}

uint64_t rd_loop_next_deadline(const struct rd_loop *loop)
{
	return loop->heap_count ? loop->heap[1]->deadline : UINT64_MAX;
}

void rd_loop_mirror_timer(struct rd_loop *loop)
{
	uint64_t deadline = rd_loop_next_deadline(loop), delay, now;
	struct itimerspec its = {0};
	int flags = TFD_TIMER_ABSTIME;

	if (!loop->pollable || loop->clock.manual || deadline == loop->timer_fd_deadline)
		return;
	if (deadline != UINT64_MAX) {
		uint64_t at = deadline;

		if (loop->foreign_clock) {
			now = rd_loop_now_raw(loop);
			delay = deadline > now ? deadline - now : 0;
			at = delay < RD_LOOP_FOREIGN_SLICE_NS ? delay : RD_LOOP_FOREIGN_SLICE_NS;
			flags = 0;
		}
		at = at ? at : 1; /* 0 would disarm */
		its.it_value.tv_sec = (time_t)(at / RD_NSEC_PER_SEC);
		its.it_value.tv_nsec = (long)(at % RD_NSEC_PER_SEC);
	}
	timerfd_settime(loop->timer_fd, flags, &its, NULL);
	loop->timer_fd_deadline = deadline;
}

int rd_timer_start(struct rd_loop *loop, struct rd_timer *timer, uint64_t delay_ns)
{
	uint64_t deadline;
	int rc;

	if (__builtin_add_overflow(rd_loop_now(loop), delay_ns, &deadline))
		deadline = UINT64_MAX - 1;
	timer->round = loop->timer_round;
	if (timer->slot) {
		timer->deadline = deadline;
		heap_up(loop, timer->slot);
		heap_down(loop, timer->slot);
	} else {
		if (loop->heap_count + 1 >= loop->heap_size) {
			rc = heap_grow(loop);
			if (rc)
				return rc;
		}
		timer->deadline = deadline;
		loop->heap_count++;
		heap_set(loop, loop->heap_count, timer);
		heap_up(loop, timer->slot);
	}
	if (!loop->in_turn)
		rd_loop_mirror_timer(loop);
	return 0;
}

void rd_timer_stop(struct rd_loop *loop, struct rd_timer *timer)
{
	size_t slot = timer->slot;
	struct rd_timer *last;

	if (!slot)
		return;
	last = loop->heap[loop->heap_count--];
	timer->slot = 0;
	if (last == timer)
		return;
	heap_set(loop, slot, last);
	heap_up(loop, slot);
	heap_down(loop, last->slot);
}

int rd_loop_run_timers(struct rd_loop *loop)
{
	int count = 0;

	loop->timer_round++;
	while (loop->heap_count && loop->heap[1]->deadline <= loop->now) {
		struct rd_timer *timer = loop->heap[1];

		/* Armed by one that has run now: it must not occupy the iteration. */
		if (timer->round == loop->timer_round)
			break;
		rd_timer_stop(loop, timer);
		timer->fn(timer);
		count++;
	}
	loop->timer_round++;
	return count;
}
