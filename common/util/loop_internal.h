/* SPDX-License-Identifier: BSD-3-Clause */
/* For the files of the event loop only: loop.c, loop_timers.c, loop_polled.c. */
#ifndef RD_UTIL_LOOP_INTERNAL_H
#define RD_UTIL_LOOP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#include "util/loop.h"
#include "util/random.h"
#include "util/spin.h"

#define RD_LOOP_EVENTS_MAX 64
/* A clock of the caller may run at any pace: how often it is read while timers are armed. */
#define RD_LOOP_FOREIGN_SLICE_NS RD_NSEC_PER_MSEC

TAILQ_HEAD(rd_defer_list, rd_defer);
TAILQ_HEAD(rd_poller_list, rd_poller);
TAILQ_HEAD(rd_io_list, rd_io);
STAILQ_HEAD(rd_msg_list, rd_msg);

struct rd_loop {
	struct rd_log *log;
	struct rd_clock clock;
	bool foreign_clock;
	bool pollable;
	bool in_turn;
	bool no_pwait2; /* the kernel or a seccomp filter lacks epoll_pwait2(2) */
	int epoll_fd;
	int event_fd;
	int timer_fd;               /* -1 for loops that are not pollable */
	void (*on_turn)(void *arg); /* rd_loop_opts */
	void *turn_arg;
	uint64_t turns;
	uint64_t now;
	struct rd_spin spin;
	uint64_t last_work;
	bool skipped; /* epoll_wait() was not called in this iteration */
	bool worked;  /* the previous iteration found work */
	bool looked;  /* the clock was read for @now in this iteration */
	bool idled;   /* the loop slept, or an iteration found nothing, since last_work */
	_Atomic uint64_t busy_ns;
	_Atomic uint64_t spun_ns;
	uint64_t spun_from; /* polling without result since then is not in @spun_ns */
	/* Longest iterations: of the minute that began at @minute, and of the one before. */
	_Atomic uint64_t longest;
	_Atomic uint64_t longest_before;
	_Atomic uint64_t minute;
	uint64_t timer_fd_deadline; /* UINT64_MAX: disarmed */
	struct rd_random random;

	/* The batch being dispatched: rd_io_del() clears entries it must not reach. */
	struct epoll_event events[RD_LOOP_EVENTS_MAX];
	int events_next;
	int events_count;

	struct rd_io_list busy;
	struct rd_io *busy_next; /* of the walk in progress */
	unsigned int busy_count;
	unsigned int busy_turns; /* iterations since the last epoll_wait() */
	unsigned int crowded;    /* iterations left in which no descriptor becomes busy */
	unsigned int polled;     /* iterations left in which pollers count as busy descriptors */
	unsigned int quiet;      /* calls of epoll_wait() in a row without an event */

	struct rd_timer **heap; /* heap[1] is the earliest */
	size_t heap_count;
	size_t heap_size;
	uint64_t timer_round; /* odd while timers run */

	struct rd_defer_list defers[RD_DEFER_PHASES];
	unsigned int defers_left; /* that may still run in this iteration */
	struct rd_poller_list pollers;
	struct rd_poller *poller_next; /* of the walk in progress */

	pthread_mutex_t msg_lock;
	struct rd_msg_list msgs; /* protected by msg_lock */
	/* A message, a wake-up or a stop has been requested since the last iteration began. */
	atomic_bool pending;
	/* The owner sleeps or is about to: the thread that clears this must write event_fd. */
	atomic_bool asleep;
	atomic_bool stop;
};

/* ---- loop.c ---- */

/*
 * Call it after the callback of a descriptor, the @nth of this iteration (from 1): runs the WORK
 * and SEND defers while their data is in the cache. Returns the number of defers run.
 */
int rd_loop_finish_callback(struct rd_loop *loop, int nth);

/* ---- timers: loop_timers.c ---- */

/* Returns the earliest deadline on the loop's clock, or UINT64_MAX. */
uint64_t rd_loop_next_deadline(const struct rd_loop *loop);
/* Sets the timerfd of a pollable loop to the earliest deadline. */
void rd_loop_mirror_timer(struct rd_loop *loop);
/* Runs the timers that are due at loop->now. Returns how many. */
int rd_loop_run_timers(struct rd_loop *loop);

/* ---- which descriptors are read without asking epoll: loop_polled.c ---- */

/* epoll has reported @io readable: it becomes busy, unless too many descriptors are. */
void rd_loop_poll_io(struct rd_loop *loop, struct rd_io *io);
/* @io is not busy any more: only epoll reports its events. Idempotent. */
void rd_loop_unpoll_io(struct rd_loop *loop, struct rd_io *io);
/* Calls try_read() of the busy descriptors. Returns the number of callbacks and defers run. */
int rd_loop_run_polled(struct rd_loop *loop);
/* Whether this iteration, which will not sleep, can omit epoll_wait(2). Once per iteration. */
bool rd_loop_skip_epoll(struct rd_loop *loop);
/* epoll_wait(2) has returned @n events, or -1. */
void rd_loop_note_epoll(struct rd_loop *loop, int n);
/* The pollers of this iteration have run; @found: with work. */
void rd_loop_note_pollers(struct rd_loop *loop, bool found);

#endif /* RD_UTIL_LOOP_INTERNAL_H */
