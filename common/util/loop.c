/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/loop.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "util/cold.h"
#include "util/loop_internal.h"

/* Defers that run in one iteration before descriptors and timers are checked again. */
#define DEFER_BUDGET 4096
/* Minimum time for which the longest iteration is remembered. */
#define LONGEST_NS (60 * RD_NSEC_PER_SEC)

/* ---- time and random numbers ---- */

static uint64_t monotonic_now(void *arg)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * RD_NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t rd_loop_now_raw(struct rd_loop *loop)
{
	return loop->clock.now(loop->clock.arg);
}

uint64_t rd_loop_now(struct rd_loop *loop)
{
	/* Between iterations the cached value is not refreshed. */
	if (!loop->in_turn)
		loop->now = rd_loop_now_raw(loop);
	return loop->now;
}

static int random_init(struct rd_loop *loop, uint64_t seed)
{
	if (!seed && getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return errno ? -errno : -EIO;
	rd_random_init(&loop->random, seed);
	return 0;
}

uint64_t rd_loop_random64(struct rd_loop *loop)
{
	return rd_random_next(&loop->random);
}

uint64_t rd_loop_turns(const struct rd_loop *loop)
{
	return loop->turns;
}

uint32_t rd_loop_random32(struct rd_loop *loop)
{
	return (uint32_t)(rd_loop_random64(loop) >> 32);
}

struct rd_log *rd_loop_log(const struct rd_loop *loop)
{
	return loop->log;
}

/* ---- waking from other threads ---- */

static void write_event_fd(struct rd_loop *loop)
{
	uint64_t one = 1;
	int saved_errno = errno; /* may run in a signal handler */

	/* Fails only if the counter is full: then the descriptor is readable already. */
	if (write(loop->event_fd, &one, sizeof(one)) < 0)
		errno = saved_errno;
	errno = saved_errno;
}

/*
 * The poster sets pending, then reads asleep; the owner sets asleep, then reads pending, all
 * sequentially consistent: at least one of them sees the store of the other.
 */
static void wake_owner(struct rd_loop *loop)
{
	atomic_store(&loop->pending, true);
	if (atomic_load(&loop->asleep) && atomic_exchange(&loop->asleep, false))
		write_event_fd(loop);
}

void rd_loop_stop(struct rd_loop *loop)
{
	atomic_store(&loop->stop, true);
	wake_owner(loop);
}

void rd_loop_post(struct rd_loop *loop, struct rd_msg *msg)
{
	pthread_mutex_lock(&loop->msg_lock);
	STAILQ_INSERT_TAIL(&loop->msgs, msg, link);
	pthread_mutex_unlock(&loop->msg_lock);
	wake_owner(loop);
}

static int run_msgs(struct rd_loop *loop)
{
	struct rd_msg_list list = STAILQ_HEAD_INITIALIZER(list);
	struct rd_msg *msg;
	int count = 0;

	if (!atomic_load(&loop->pending))
		return 0;
	atomic_store(&loop->pending, false);
	pthread_mutex_lock(&loop->msg_lock);
	STAILQ_CONCAT(&list, &loop->msgs);
	pthread_mutex_unlock(&loop->msg_lock);
	while ((msg = STAILQ_FIRST(&list))) {
		STAILQ_REMOVE_HEAD(&list, link);
		msg->fn(msg);
		count++;
	}
	return count;
}

/* ---- deferred work ---- */

void rd_defer(struct rd_loop *loop, struct rd_defer *defer, enum rd_defer_phase phase)
{
	if (defer->queued)
		return;
	defer->queued = true;
	defer->phase = (uint8_t)phase;
	TAILQ_INSERT_TAIL(&loop->defers[phase], defer, link);
	/* The program that sleeps on rd_loop_fd() must be woken. */
	if (loop->pollable && !loop->in_turn)
		wake_owner(loop);
}

void rd_defer_cancel(struct rd_loop *loop, struct rd_defer *defer)
{
	if (!defer->queued)
		return;
	defer->queued = false;
	TAILQ_REMOVE(&loop->defers[defer->phase], defer, link);
}

static struct rd_defer *next_defer(const struct rd_loop *loop, enum rd_defer_phase last)
{
	struct rd_defer *defer = NULL;

	for (int phase = RD_DEFER_WORK; !defer && phase <= (int)last; phase++)
		defer = TAILQ_FIRST(&loop->defers[phase]);
	return defer;
}

/* Runs defers of phases up to @last, until none is left or the iteration's budget is used up. */
static int run_defers_to(struct rd_loop *loop, enum rd_defer_phase last)
{
	struct rd_defer *defer;
	int count = 0;

	while (loop->defers_left && (defer = next_defer(loop, last))) {
		rd_defer_cancel(loop, defer);
		defer->fn(defer);
		loop->defers_left--;
		count++;
	}
	return count;
}

int rd_loop_finish_callback(struct rd_loop *loop, int nth)
{
	if (!next_defer(loop, RD_DEFER_SEND))
		return 0;
	if (nth > 1)
		loop->now = rd_loop_now_raw(loop);
	return run_defers_to(loop, RD_DEFER_SEND);
}

static bool defers_queued(const struct rd_loop *loop)
{
	return next_defer(loop, RD_DEFER_NEXT) != NULL;
}

/* Moves RD_DEFER_NEXT defers of the previous iteration to RD_DEFER_WORK. */
static void take_over_defers(struct rd_loop *loop)
{
	struct rd_defer *defer;

	while ((defer = TAILQ_FIRST(&loop->defers[RD_DEFER_NEXT]))) {
		rd_defer_cancel(loop, defer);
		rd_defer(loop, defer, RD_DEFER_WORK);
	}
}

/* Runs the defers of @phase that are queued now, not those that they add. */
static int run_batched(struct rd_loop *loop, enum rd_defer_phase phase)
{
	struct rd_defer *defer;
	int count = 0, waiting = 0;

	TAILQ_FOREACH (defer, &loop->defers[phase], link)
		waiting++;
	/* Counted, because a callback may cancel the last one. */
	while (waiting-- && (defer = TAILQ_FIRST(&loop->defers[phase]))) {
		rd_defer_cancel(loop, defer);
		defer->fn(defer);
		count++;
	}
	return count;
}

static int run_defers(struct rd_loop *loop)
{
	int count = run_defers_to(loop, RD_DEFER_FLUSH);

	if (loop->defers_left)
		return count;
	/* Endless work must not hold back what has been queued for sending or flushing. */
	count += run_batched(loop, RD_DEFER_SEND);
	return count + run_batched(loop, RD_DEFER_FLUSH);
}

/* ---- file descriptors ---- */

int rd_io_add(struct rd_loop *loop, struct rd_io *io, int fd, uint32_t events,
	      void (*fn)(struct rd_io *io, uint32_t events))
{
	struct epoll_event ev = {.events = events, .data.ptr = io};

	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	io->fn = fn;
	io->fd = fd;
	io->events = events;
	io->added = true;
	io->busy = false;
	return 0;
}

int rd_io_mod(struct rd_loop *loop, struct rd_io *io, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = io};

	if (!io->added)
		return -ENOENT;
	if (io->events == events)
		return 0;
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, io->fd, &ev) < 0)
		return -errno;
	io->events = events;
	/* Only epoll reports that a descriptor is writable. */
	if (events != EPOLLIN)
		rd_loop_unpoll_io(loop, io);
	return 0;
}

void rd_io_del(struct rd_loop *loop, struct rd_io *io)
{
	if (!io->added)
		return;
	/* Fails if the owner has closed the descriptor, which has removed it too. */
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
	io->added = false;
	rd_loop_unpoll_io(loop, io);
	for (int i = loop->events_next; i < loop->events_count; i++) {
		if (loop->events[i].data.ptr == io)
			loop->events[i].data.ptr = NULL;
	}
}

static void drain_counter(int fd)
{
	uint64_t value;

	/* EAGAIN: another iteration has drained it. */
	while (read(fd, &value, sizeof(value)) < 0 && errno == EINTR)
		;
}

static int run_ios(struct rd_loop *loop)
{
	int count = 0, defers = 0;

	while (loop->events_next < loop->events_count) {
		const struct epoll_event *ev = &loop->events[loop->events_next++];
		struct rd_io *io = ev->data.ptr;
		uint32_t events = ev->events;

		if (ev->data.ptr == &loop->event_fd || ev->data.ptr == &loop->timer_fd) {
			drain_counter(*(int *)ev->data.ptr);
			if (ev->data.ptr == &loop->timer_fd)
				loop->timer_fd_deadline = UINT64_MAX;
			continue;
		}
		if (!io)
			continue;
		/* An earlier callback of this batch may have changed io->events. */
		events &= io->events | EPOLLERR | EPOLLHUP;
		if (!events)
			continue;
		if (io->try_read && io->events == EPOLLIN)
			rd_loop_poll_io(loop, io);
		io->fn(io, events);
		defers += rd_loop_finish_callback(loop, ++count);
	}
	loop->events_next = loop->events_count = 0;
	return count + defers;
}

/* ---- pollers ---- */

void rd_poller_add(struct rd_loop *loop, struct rd_poller *poller)
{
	if (poller->added)
		return;
	poller->added = true;
	TAILQ_INSERT_TAIL(&loop->pollers, poller, link);
}

void rd_poller_del(struct rd_loop *loop, struct rd_poller *poller)
{
	if (!poller->added)
		return;
	poller->added = false;
	if (loop->poller_next == poller)
		loop->poller_next = TAILQ_NEXT(poller, link);
	TAILQ_REMOVE(&loop->pollers, poller, link);
}

static int run_pollers(struct rd_loop *loop)
{
	struct rd_poller *poller;
	int count = 0;

	for (poller = TAILQ_FIRST(&loop->pollers); poller; poller = loop->poller_next) {
		loop->poller_next = TAILQ_NEXT(poller, link);
		count += poller->fn(poller);
	}
	loop->poller_next = NULL;
	rd_loop_note_pollers(loop, count > 0);
	return count;
}

/* Returns whether no poller has work. */
static bool arm_pollers(struct rd_loop *loop)
{
	struct rd_poller *poller;
	bool quiet = true;

	for (poller = TAILQ_FIRST(&loop->pollers); poller; poller = loop->poller_next) {
		loop->poller_next = TAILQ_NEXT(poller, link);
		if (poller->arm && poller->arm(poller))
			quiet = false;
	}
	loop->poller_next = NULL;
	return quiet;
}

/* ---- iterations ---- */

/* An iteration of @ns ended at @now; it is the longest of its minute, or the first one. */
static RD_COLD void note_longest(struct rd_loop *loop, uint64_t ns, uint64_t now)
{
	uint64_t age = now - atomic_load_explicit(&loop->minute, memory_order_relaxed);

	if (age >= LONGEST_NS) {
		uint64_t before = atomic_load_explicit(&loop->longest, memory_order_relaxed);

		atomic_store_explicit(&loop->longest_before, age < 2 * LONGEST_NS ? before : 0,
				      memory_order_relaxed);
		atomic_store_explicit(&loop->minute, now, memory_order_relaxed);
	}
	atomic_store_explicit(&loop->longest, ns, memory_order_relaxed);
}

uint64_t rd_loop_longest(const struct rd_loop *loop, uint64_t now)
{
	uint64_t minute = atomic_load_explicit(&loop->minute, memory_order_relaxed);
	uint64_t one = atomic_load_explicit(&loop->longest, memory_order_relaxed);
	uint64_t before = atomic_load_explicit(&loop->longest_before, memory_order_relaxed);

	if (now > minute && now - minute >= 2 * LONGEST_NS)
		return 0;
	return one > before ? one : before;
}

static void note_spun(struct rd_loop *loop, uint64_t until)
{
	if (loop->spun_from && until > loop->spun_from)
		atomic_store_explicit(&loop->spun_ns,
				      atomic_load_explicit(&loop->spun_ns, memory_order_relaxed) +
					      until - loop->spun_from,
				      memory_order_relaxed);
}

/* The iteration that began at @start has found work. */
static void note_work(struct rd_loop *loop, uint64_t start)
{
	uint64_t gap = start - loop->last_work, now = rd_loop_now_raw(loop);
	/* Without idle time in between, polling counts as a part of the work. */
	uint64_t from = loop->idled ? start : loop->last_work;

	rd_spin_note(&loop->spin, gap);
	if (loop->idled)
		note_spun(loop, start);
	loop->spun_from = now;
	if (now - start > atomic_load_explicit(&loop->longest, memory_order_relaxed) ||
	    now - atomic_load_explicit(&loop->minute, memory_order_relaxed) >= LONGEST_NS)
		note_longest(loop, now - start, now);
	atomic_store_explicit(&loop->busy_ns,
			      atomic_load_explicit(&loop->busy_ns, memory_order_relaxed) + now -
				      from,
			      memory_order_relaxed);
	loop->last_work = now;
	loop->idled = false;
	loop->worked = true;
}

uint64_t rd_loop_spun(const struct rd_loop *loop)
{
	return atomic_load_explicit(&loop->spun_ns, memory_order_relaxed);
}

uint64_t rd_loop_busy(const struct rd_loop *loop)
{
	return atomic_load_explicit(&loop->busy_ns, memory_order_relaxed);
}

static uint64_t sleep_time(struct rd_loop *loop, uint64_t timeout_ns)
{
	bool looks = rd_spin_looks(&loop->spin, 0);
	uint64_t deadline, now;

	if (!timeout_ns || defers_queued(loop))
		return 0;
	if (looks && loop->worked)
		return 0;
	deadline = rd_loop_next_deadline(loop);
	if (deadline == UINT64_MAX && !looks)
		return timeout_ns;
	now = loop->now = rd_loop_now_raw(loop);
	loop->looked = true;
	if (rd_spin_looks(&loop->spin, now - loop->last_work))
		return 0;
	if (deadline == UINT64_MAX)
		return timeout_ns;
	if (deadline <= now)
		return 0;
	if (deadline - now < timeout_ns)
		timeout_ns = deadline - now;
	if (loop->foreign_clock && timeout_ns > RD_LOOP_FOREIGN_SLICE_NS)
		timeout_ns = RD_LOOP_FOREIGN_SLICE_NS;
	return timeout_ns;
}

static int wait_some(struct rd_loop *loop, uint64_t timeout_ns)
{
	struct timespec ts;
	uint64_t ms;
	int n;

	if (timeout_ns == 0)
		return epoll_wait(loop->epoll_fd, loop->events, RD_LOOP_EVENTS_MAX, 0);
	/* Longer than any clock runs, and within time_t. */
	if (timeout_ns == UINT64_MAX)
		return epoll_wait(loop->epoll_fd, loop->events, RD_LOOP_EVENTS_MAX, -1);
	if (!loop->no_pwait2) {
		ts.tv_sec = (time_t)(timeout_ns / RD_NSEC_PER_SEC);
		ts.tv_nsec = (long)(timeout_ns % RD_NSEC_PER_SEC);
		n = epoll_pwait2(loop->epoll_fd, loop->events, RD_LOOP_EVENTS_MAX, &ts, NULL);
		if (n >= 0 || (errno != ENOSYS && errno != EPERM))
			return n;
		loop->no_pwait2 = true;
	}
	/* Rounded up: after a wake-up before the deadline the loop would spin until it. */
	ms = timeout_ns / RD_NSEC_PER_MSEC + !!(timeout_ns % RD_NSEC_PER_MSEC);
	return epoll_wait(loop->epoll_fd, loop->events, RD_LOOP_EVENTS_MAX,
			  ms > INT32_MAX ? INT32_MAX : (int)ms);
}

/* Fetches the next batch of events; sleeps for at most @timeout_ns. */
static int fetch_events(struct rd_loop *loop, uint64_t timeout_ns)
{
	uint64_t sleep_ns;
	bool in_vain;
	int n = 0;

	loop->looked = false;
	sleep_ns = sleep_time(loop, timeout_ns);
	in_vain = !sleep_ns && timeout_ns && rd_spin_looks(&loop->spin, 0) && loop->idled &&
		  !defers_queued(loop);
	loop->worked = false;

	loop->events_next = loop->events_count = 0;
	/* Arming may start a timer or find work. */
	if (sleep_ns)
		sleep_ns = arm_pollers(loop) ? sleep_time(loop, timeout_ns) : 0;
	if (sleep_ns) {
		atomic_store(&loop->asleep, true);
		if (atomic_load(&loop->pending))
			sleep_ns = 0;
	}
	if (sleep_ns) {
		loop->idled = true;
		note_spun(loop, loop->now);
	}
	loop->skipped = !sleep_ns && rd_loop_skip_epoll(loop);
	if (!loop->skipped) {
		n = wait_some(loop, sleep_ns);
		rd_loop_note_epoll(loop, n);
	}
	/* The work that the loop polls for may need this processor. */
	if (in_vain && !loop->skipped && n == 0)
		sched_yield();
	if (n < 0 && errno != EINTR)
		n = -errno;
	else if (n < 0)
		n = 0;
	/* A thread that sees the old value writes event_fd once too often, which does no harm. */
	atomic_store_explicit(&loop->asleep, false, memory_order_relaxed);
	loop->events_count = n > 0 ? n : 0;
	/* A process that was stopped while it yielded must not continue with the old time. */
	if (sleep_ns || in_vain || !loop->looked)
		loop->now = rd_loop_now_raw(loop);
	if (sleep_ns)
		loop->spun_from = loop->now;
	return n < 0 ? n : 0;
}

/* Makes rd_loop_fd() readable if, and only if, the next iteration has something to do. */
static void leave_pollable(struct rd_loop *loop)
{
	bool quiet = arm_pollers(loop);

	rd_loop_mirror_timer(loop);
	atomic_store(&loop->asleep, true);
	if ((!quiet || defers_queued(loop) || atomic_load(&loop->pending)) &&
	    atomic_exchange(&loop->asleep, false))
		write_event_fd(loop);
}

int rd_loop_turn(struct rd_loop *loop, uint64_t timeout_ns)
{
	uint64_t start;
	int count, rc;

	if (loop->in_turn)
		return -EDEADLK; /* from a callback */
	loop->in_turn = true;
	loop->turns++;
	rc = fetch_events(loop, timeout_ns);
	if (rc < 0)
		goto out;
	start = loop->now;
	if (loop->on_turn)
		loop->on_turn(loop->turn_arg);
	loop->defers_left = DEFER_BUDGET;
	take_over_defers(loop);
	count = run_msgs(loop);
	count += loop->skipped ? rd_loop_run_polled(loop) : run_ios(loop);
	if (count)
		loop->now = rd_loop_now_raw(loop);
	count += rd_loop_run_timers(loop);
	count += run_pollers(loop);
	count += run_defers(loop);
	if (!count)
		loop->idled = true;
	else if (!loop->pollable)
		note_work(loop, start);
	rc = count;
out:
	if (loop->pollable)
		leave_pollable(loop);
	loop->in_turn = false;
	return rc;
}

int rd_loop_run(struct rd_loop *loop)
{
	int rc;

	while (!atomic_load(&loop->stop)) {
		rc = rd_loop_turn(loop, UINT64_MAX);
		if (rc < 0)
			return rc;
	}
	atomic_store(&loop->stop, false);
	return 0;
}

uint64_t rd_loop_next(const struct rd_loop *loop)
{
	return defers_queued(loop) || atomic_load(&loop->pending) ? 0 : rd_loop_next_deadline(loop);
}

const struct rd_clock *rd_loop_clock(const struct rd_loop *loop)
{
	return &loop->clock;
}

int rd_loop_fd(const struct rd_loop *loop)
{
	return loop->epoll_fd;
}

/* ---- construction ---- */

static int watch_own(struct rd_loop *loop, int *fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = fd};

	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, *fd, &ev) < 0 ? -errno : 0;
}

static int open_fds(struct rd_loop *loop)
{
	int rc;

	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0)
		return -errno;
	loop->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->event_fd < 0)
		return -errno;
	rc = watch_own(loop, &loop->event_fd);
	if (rc || !loop->pollable)
		return rc;
	loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (loop->timer_fd < 0)
		return -errno;
	return watch_own(loop, &loop->timer_fd);
}

int rd_loop_create(const struct rd_loop_opts *opts, struct rd_loop **out)
{
	struct rd_loop *loop;
	int rc;

	*out = NULL;
	loop = calloc(1, sizeof(*loop));
	if (!loop)
		return -ENOMEM;
	loop->epoll_fd = loop->event_fd = loop->timer_fd = -1;
	loop->timer_fd_deadline = UINT64_MAX;
	loop->log = opts->log;
	loop->foreign_clock = opts->clock != NULL;
	loop->clock = opts->clock ? *opts->clock : (struct rd_clock){.now = monotonic_now};
	loop->pollable = opts->pollable;
	loop->on_turn = opts->on_turn;
	loop->turn_arg = opts->turn_arg;
	loop->spin.ns = opts->spin_ns;
	TAILQ_INIT(&loop->pollers);
	TAILQ_INIT(&loop->busy);
	for (int i = 0; i < RD_DEFER_PHASES; i++)
		TAILQ_INIT(&loop->defers[i]);
	STAILQ_INIT(&loop->msgs);
	pthread_mutex_init(&loop->msg_lock, NULL);
	/* Between iterations the owner of a pollable loop may be asleep at any time. */
	atomic_init(&loop->asleep, opts->pollable);
	rc = random_init(loop, opts->seed);
	if (!rc)
		rc = open_fds(loop);
	if (rc) {
		rd_loop_destroy(&loop);
		return rc;
	}
	loop->now = rd_loop_now_raw(loop);
	*out = loop;
	return 0;
}

void rd_loop_destroy(struct rd_loop **loop)
{
	struct rd_loop *l = *loop;

	if (!l)
		return;
	if (l->timer_fd >= 0)
		close(l->timer_fd);
	if (l->event_fd >= 0)
		close(l->event_fd);
	if (l->epoll_fd >= 0)
		close(l->epoll_fd);
	pthread_mutex_destroy(&l->msg_lock);
	free(l->heap);
	free(l);
	*loop = NULL;
}
