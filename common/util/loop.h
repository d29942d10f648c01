/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event loop of a thread: file descriptors, timers, deferred work, pollers and messages from
 * other threads. It is also the only source of time and random numbers for code above the fabric
 * interface, so that a test can control both.
 *
 * Ownership: all nodes (rd_io, rd_timer, rd_defer, rd_poller, rd_msg) are members of the caller's
 * objects and must be removed before these are freed. The loop allocates nothing for an event.
 *
 * Thread rule: a loop belongs to one thread at a time, which makes every call, except
 * rd_loop_post() and rd_loop_stop(), which any thread may call.
 *
 * One iteration: messages, file descriptors, timers, pollers, then WORK defers until none is left,
 * then SEND defers, then FLUSH defers; again as long as these queue new ones. WORK and SEND defers
 * also run after the callback of each file descriptor. Callbacks may add and remove any node, their
 * own included.
 */
#ifndef RD_UTIL_LOOP_H
#define RD_UTIL_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/log.h"

#define RD_NSEC_PER_SEC  UINT64_C(1000000000)
#define RD_NSEC_PER_MSEC UINT64_C(1000000)
#define RD_NSEC_PER_USEC UINT64_C(1000)

/* The object of @type whose @member is at @ptr. */
#define rd_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

struct rd_loop;

/* A source of time. @now returns monotonic nanoseconds. */
struct rd_clock {
	uint64_t (*now)(void *arg);
	void *arg;
	/* Time passes only when the owner of the clock wants it: loops set no timers of the kernel,
	 * and rd_loop_fd() tells nothing of timers. */
	bool manual;
};

struct rd_loop_opts {
	struct rd_log *log;
	const struct rd_clock *clock; /* NULL: CLOCK_MONOTONIC; must outlive the loop */
	uint64_t seed;                /* 0: seeded from getrandom(2) */
	/* Called in each iteration, with the present time in rd_loop_now(), before any other
	 * callback. NULL: none. */
	void (*on_turn)(void *arg);
	void *turn_arg;
	uint64_t spin_ns; /* how long to poll after work before sleeping: see below */
	bool pollable;    /* the program sleeps on rd_loop_fd(): timers are mirrored to a timerfd */
};

/*
 * A loop that is not pollable polls before it sleeps, as util/spin.h says. Between two polls
 * without result it yields the processor: the peer, or a kernel thread that brings the next work,
 * may need it.
 */

/* Returns 0, -ENOMEM, or -errno of epoll_create1(2), eventfd(2) or timerfd_create(2). */
int rd_loop_create(const struct rd_loop_opts *opts, struct rd_loop **out);
/* All nodes must have been removed. NULL is allowed. */
void rd_loop_destroy(struct rd_loop **loop);

/*
 * Runs one iteration; sleeps at most @timeout_ns if there is nothing to do (UINT64_MAX: until an
 * event; 0: does not sleep). Returns the number of callbacks run, or -errno of epoll_wait(2).
 */
int rd_loop_turn(struct rd_loop *loop, uint64_t timeout_ns);
/* Run iterations until rd_loop_stop(). Returns 0 or -errno. */
int rd_loop_run(struct rd_loop *loop);
void rd_loop_stop(struct rd_loop *loop); /* any thread, async-signal-safe */

/*
 * A descriptor that is readable when rd_loop_turn(loop, 0) has work to do. Only for a loop created
 * with @pollable. The loop owns it.
 */
int rd_loop_fd(const struct rd_loop *loop);

/*
 * When the loop has something to do besides what its descriptors and pollers bring: the time of the
 * next timer in ns on the loop's clock; 0: now, because messages or deferred work wait; UINT64_MAX:
 * never. For a program that turns several loops on one thread and on one clock of its own.
 */
uint64_t rd_loop_next(const struct rd_loop *loop);
uint64_t rd_loop_turns(const struct rd_loop *loop); /* iterations begun */
uint64_t rd_loop_now(struct rd_loop *loop);         /* ns, cached at the start of each phase */
uint64_t rd_loop_now_raw(struct rd_loop *loop);     /* ns, read from the clock now */
/*
 * ns spent in iterations that found work; polling without result and sleeping do not count. Any
 * thread; others may see the value of the previous iteration.
 */
uint64_t rd_loop_busy(const struct rd_loop *loop);
/* ns of polling without result, likewise: the processor time that looking for work costs. */
uint64_t rd_loop_spun(const struct rd_loop *loop);
/*
 * The longest iteration with work, in ns, of the last one to two minutes: how long a callback has
 * kept others waiting. Any thread, at @now on the clock of the loop.
 */
uint64_t rd_loop_longest(const struct rd_loop *loop, uint64_t now);
uint32_t rd_loop_random32(struct rd_loop *loop);
uint64_t rd_loop_random64(struct rd_loop *loop);
const struct rd_clock *rd_loop_clock(const struct rd_loop *loop); /* a copy of opts->clock */
struct rd_log *rd_loop_log(const struct rd_loop *loop);

/* ---- file descriptors ---- */

struct rd_io {
	void (*fn)(struct rd_io *io,
		   uint32_t events); /* EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP */
	/*
	 * May be NULL; set it before rd_io_add(). Tries to read without an event of epoll. Returns
	 * true if there was something. A loop that does not sleep calls it for the few descriptors
	 * that are busy, instead of epoll_wait(2).
	 */
	bool (*try_read)(struct rd_io *io);
	int fd;
	uint32_t events;
	uint16_t tries; /* calls of try_read() without success since the descriptor became busy */
	bool added;
	bool busy;
	TAILQ_ENTRY(rd_io) link; /* in the list of busy descriptors */
};

/* Watches @fd for @events, level-triggered. Returns 0 or -errno of epoll_ctl(2). */
int rd_io_add(struct rd_loop *loop, struct rd_io *io, int fd, uint32_t events,
	      void (*fn)(struct rd_io *io, uint32_t events));
int rd_io_mod(struct rd_loop *loop, struct rd_io *io, uint32_t events);
/* Afterwards fn is not called any more, not even for events that have been fetched. Idempotent. */
void rd_io_del(struct rd_loop *loop, struct rd_io *io);

/* ---- timers ---- */

struct rd_timer {
	void (*fn)(struct rd_timer *timer);
	uint64_t deadline; /* ns on the loop's clock */
	size_t slot;       /* 1-based position in the heap; 0: not armed */
	uint64_t round;    /* when it was armed: rd_loop_run_timers() */
};

/*
 * (Re)arms @timer to fire once, @delay_ns from now; in the next iteration at the earliest if a
 * timer's callback does it. Returns 0, or -ENOMEM if the heap must grow and cannot; rearming an
 * armed timer cannot fail.
 */
int rd_timer_start(struct rd_loop *loop, struct rd_timer *timer, uint64_t delay_ns);
void rd_timer_stop(struct rd_loop *loop, struct rd_timer *timer); /* idempotent */
static inline bool rd_timer_armed(const struct rd_timer *timer)
{
	return timer->slot != 0;
}

/* ---- deferred work ---- */

enum rd_defer_phase {
	RD_DEFER_WORK,  /* process completions, advance requests */
	RD_DEFER_SEND,  /* send what a connection has queued: sendmsg */
	RD_DEFER_FLUSH, /* submit what the iteration has queued: io_uring_enter */
	RD_DEFER_NEXT,  /* work that continues in the next iteration: see rd_defer() */
	RD_DEFER_PHASES,
};

struct rd_defer {
	void (*fn)(struct rd_defer *defer);
	TAILQ_ENTRY(rd_defer) link;
	bool queued;
	uint8_t phase;
};

/*
 * Runs defer->fn once: later in this iteration, or in the next one if no iteration is running. With
 * RD_DEFER_NEXT always in the next one, after its messages and timers; the loop does not sleep
 * before it. No-op if it is queued already.
 */
void rd_defer(struct rd_loop *loop, struct rd_defer *defer, enum rd_defer_phase phase);
void rd_defer_cancel(struct rd_loop *loop, struct rd_defer *defer); /* idempotent */

/* ---- pollers ---- */

struct rd_poller {
	bool (*fn)(struct rd_poller *poller); /* true: it has found work */
	/*
	 * May be NULL. Called before the owner of the loop may sleep: requests an event of the
	 * source, then polls once more. True: there is work, do not sleep.
	 */
	bool (*arm)(struct rd_poller *poller);
	TAILQ_ENTRY(rd_poller) link;
	bool added;
};

/*
 * Calls poller->fn in every iteration, for rings that can be read without a system call. The source
 * of a poller must also have a descriptor in the loop, or the loop sleeps through its work. Events
 * are requested only before a sleep: see @arm.
 */
void rd_poller_add(struct rd_loop *loop, struct rd_poller *poller);
void rd_poller_del(struct rd_loop *loop, struct rd_poller *poller); /* idempotent */

/* ---- messages from other threads ---- */

struct rd_msg {
	void (*fn)(struct rd_msg *msg);
	STAILQ_ENTRY(rd_msg) link;
};

/*
 * Runs msg->fn on the loop's thread. The loop owns the message until fn is called; fn may free it
 * or post it again. Messages of one thread keep their order. Any thread.
 */
void rd_loop_post(struct rd_loop *loop, struct rd_msg *msg);

#endif /* RD_UTIL_LOOP_H */
