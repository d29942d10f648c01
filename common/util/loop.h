/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event loop that owns everything below it: file descriptors, timers, deferred work, pollers
 * and messages from other threads. It is also the only source of time and of random numbers for
 * code above the fabric seam, so that a test can drive both.
 *
 * Ownership: all nodes (rd_io, rd_timer, rd_defer, rd_poller, rd_msg) are embedded in the caller's
 * objects and must be removed before those are freed. The loop allocates nothing per event.
 *
 * Thread rule: a loop belongs to one thread at a time; every call is made from there, except
 * rd_loop_post(), rd_loop_stop() and rd_loop_wake(), which any thread may call.
 *
 * One turn: messages, file descriptors, timers, pollers, then WORK defers until none is left, then
 * SEND defers, then FLUSH defers; and again while those made new work. WORK and SEND defers run
 * after each file descriptor's callback as well. Callbacks may add and remove any node, including
 * their own.
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

/* Get the object that embeds @member at @ptr. */
#define rd_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

struct rd_loop;

/* A source of time. @now returns monotonic nanoseconds. */
struct rd_clock {
	uint64_t (*now)(void *arg);
	void *arg;
};

struct rd_loop_opts {
	struct rd_log *log;
	const struct rd_clock *clock; /* NULL: CLOCK_MONOTONIC; must outlive the loop */
	uint64_t seed;                /* 0: seeded from getrandom(2) */
	uint64_t spin_ns;             /* look so long after work before sleeping: see below */
	bool pollable; /* someone else sleeps on rd_loop_fd(): timers are mirrored to a timerfd */
};

/*
 * A loop that is not pollable looks for work before it sleeps, as util/spin.h says. Between two
 * looks in vain the processor goes to whoever else wants it: the peer may be on the same one, or a
 * kernel's thread that brings the next work.
 */

/* Returns 0, -ENOMEM, or the errno of epoll_create1(2), eventfd(2) or timerfd_create(2). */
int rd_loop_create(const struct rd_loop_opts *opts, struct rd_loop **out);
/* All nodes must have been removed. NULL is fine. */
void rd_loop_destroy(struct rd_loop **loop);

/*
 * Run one turn, sleeping at most @timeout_ns when there is nothing to do (UINT64_MAX: until an
 * event; 0: do not sleep). Returns the number of callbacks run, or -errno of epoll_wait(2).
 */
int rd_loop_turn(struct rd_loop *loop, uint64_t timeout_ns);
/* Run turns until rd_loop_stop(). Returns 0 or -errno. */
int rd_loop_run(struct rd_loop *loop);
void rd_loop_stop(struct rd_loop *loop); /* any thread, async-signal-safe */
void rd_loop_wake(struct rd_loop *loop); /* any thread, async-signal-safe */

/*
 * A descriptor that polls readable when rd_loop_turn(loop, 0) has work to do. Only valid for a loop
 * created with @pollable. Owned by the loop.
 */
int rd_loop_fd(const struct rd_loop *loop);

uint64_t rd_loop_now(struct rd_loop *loop);     /* ns, cached at the start of each turn phase */
uint64_t rd_loop_now_raw(struct rd_loop *loop); /* ns, read from the clock now */
/* ns spent in turns that found work, so far; spinning in vain and sleeping are not counted. Also
 * for other threads, which may see it a turn late. */
uint64_t rd_loop_busy(const struct rd_loop *loop);
uint32_t rd_loop_random32(struct rd_loop *loop);
uint64_t rd_loop_random64(struct rd_loop *loop);
struct rd_log *rd_loop_log(const struct rd_loop *loop);

/* ---- file descriptors ---- */

struct rd_io {
	void (*fn)(struct rd_io *io,
		   uint32_t events); /* EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP */
	/*
	 * May be NULL; set it before rd_io_add(). Read what there is without having been told of
	 * it; true when there was something. A loop that does not sleep asks its few busy
	 * descriptors so, and epoll only now and then.
	 */
	bool (*try_read)(struct rd_io *io);
	int fd;
	uint32_t events;
	uint16_t tries; /* without success since it became busy */
	bool added;
	bool busy;
	TAILQ_ENTRY(rd_io) link; /* of the busy ones */
};

/* Watch io->fd for io->events, level-triggered. Returns 0 or -errno of epoll_ctl(2). */
int rd_io_add(struct rd_loop *loop, struct rd_io *io, int fd, uint32_t events,
	      void (*fn)(struct rd_io *io, uint32_t events));
int rd_io_mod(struct rd_loop *loop, struct rd_io *io, uint32_t events);
/* After return fn is not called again, also not for events already fetched. Idempotent. */
void rd_io_del(struct rd_loop *loop, struct rd_io *io);

/* ---- timers ---- */

struct rd_timer {
	void (*fn)(struct rd_timer *timer);
	uint64_t deadline; /* ns on the loop's clock */
	size_t slot;       /* 1-based position in the heap; 0: not armed */
};

/*
 * (Re)arm @timer to fire once, @delay_ns from now. Returns 0, or -ENOMEM when the heap had to grow
 * and could not; re-arming an armed timer cannot fail.
 */
int rd_timer_start(struct rd_loop *loop, struct rd_timer *timer, uint64_t delay_ns);
void rd_timer_stop(struct rd_loop *loop, struct rd_timer *timer); /* idempotent */
static inline bool rd_timer_armed(const struct rd_timer *timer)
{
	return timer->slot != 0;
}

/* ---- deferred work ---- */

enum rd_defer_phase {
	RD_DEFER_WORK,  /* completions to look at, requests to move on */
	RD_DEFER_SEND,  /* send what one connection has batched: sendmsg */
	RD_DEFER_FLUSH, /* submit what the whole turn has batched: io_uring_enter */
	RD_DEFER_NEXT,  /* work that lets others have their turn: see rd_defer() */
	RD_DEFER_PHASES,
};

struct rd_defer {
	void (*fn)(struct rd_defer *defer);
	TAILQ_ENTRY(rd_defer) link;
	bool queued;
	uint8_t phase;
};

/*
 * Run defer->fn once: later in this turn, or in the next one when none is running. With
 * RD_DEFER_NEXT in the next one in any case, after its messages and timers; the loop does not sleep
 * before. No-op when already queued.
 */
void rd_defer(struct rd_loop *loop, struct rd_defer *defer, enum rd_defer_phase phase);
void rd_defer_cancel(struct rd_loop *loop, struct rd_defer *defer); /* idempotent */

/* ---- pollers ---- */

struct rd_poller {
	bool (*fn)(struct rd_poller *poller); /* true: it found work, keep spinning */
	/*
	 * May be NULL. Called before the loop's owner may sleep: have the source wake the
	 * descriptor, then look once more. True: there is work, do not sleep.
	 */
	bool (*arm)(struct rd_poller *poller);
	TAILQ_ENTRY(rd_poller) link;
	bool added;
};

/*
 * Call poller->fn in every turn, spinning or not. For rings that can be looked at without a system
 * call; a poller's source must also have a descriptor in the loop, or it will be slept through. A
 * loop that spins does not ask for what it would not use: see @arm.
 */
void rd_poller_add(struct rd_loop *loop, struct rd_poller *poller);
void rd_poller_del(struct rd_loop *loop, struct rd_poller *poller); /* idempotent */

/* ---- messages from other threads ---- */

struct rd_msg {
	void (*fn)(struct rd_msg *msg);
	STAILQ_ENTRY(rd_msg) link;
};

/*
 * Run msg->fn on the loop's thread. The message belongs to the loop until fn is called; fn may free
 * it or post it again. Messages from one thread arrive in order. Any thread.
 */
void rd_loop_post(struct rd_loop *loop, struct rd_msg *msg);

#endif /* RD_UTIL_LOOP_H */
