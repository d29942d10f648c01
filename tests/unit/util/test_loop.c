/* SPDX-License-Identifier: BSD-3-Clause */
#include "suites.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "util/loop.h"

static uint64_t fake_now;

static uint64_t fake_clock_now(void *arg)
{
	return *(uint64_t *)arg;
}

static const struct rd_clock fake_clock = {.now = fake_clock_now, .arg = &fake_now};

static struct rd_loop *make_loop(struct rd_loop_opts opts)
{
	struct rd_loop *loop = NULL;

	fake_now = 1000;
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&opts, &loop), 0);
	return loop;
}

static uint64_t real_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * RD_NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static bool readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, timeout_ms) == 1;
}

/* ---- timers ---- */

#define TIMERS 500

struct t_timer {
	struct rd_timer timer;
	struct rd_loop *loop;
	uint64_t expected;
	int fired;
	int again; /* re-arm from the callback this many times */
};

static uint64_t timer_last;
static bool timer_order_ok;

static void timer_fired(struct rd_timer *timer)
{
	struct t_timer *t = rd_container_of(timer, struct t_timer, timer);

	timer_order_ok &= !rd_timer_armed(timer) && timer->deadline >= timer_last &&
			  timer->deadline == t->expected && t->expected <= fake_now;
	timer_last = timer->deadline;
	t->fired++;
	if (t->again-- > 0)
		rd_timer_start(t->loop, timer, 0);
}

static void timers_fire_in_order(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){.clock = &fake_clock, .seed = 5});
	struct t_timer *t = calloc(TIMERS, sizeof(*t));
	int fired = 0, stopped = 0;

	timer_last = 0;
	timer_order_ok = true;
	for (int i = 0; i < TIMERS; i++) {
		uint64_t delay = rd_loop_random32(loop) % 100000;

		t[i].timer.fn = timer_fired;
		t[i].expected = fake_now + delay;
		CU_ASSERT_EQUAL(rd_timer_start(loop, &t[i].timer, delay), 0);
	}
	/* Move some, stop some. */
	for (int i = 0; i < TIMERS; i += 3) {
		t[i].expected = fake_now + 50000 + (uint64_t)i;
		CU_ASSERT_EQUAL(rd_timer_start(loop, &t[i].timer, 50000 + (uint64_t)i), 0);
	}
	for (int i = 1; i < TIMERS; i += 5) {
		rd_timer_stop(loop, &t[i].timer);
		rd_timer_stop(loop, &t[i].timer);
		stopped++;
	}
	while (fake_now < 200000) {
		fake_now += 7;
		fired += rd_loop_turn(loop, 0);
	}
	CU_ASSERT_TRUE(timer_order_ok);
	CU_ASSERT_EQUAL(fired, TIMERS - stopped);
	for (int i = 0; i < TIMERS; i++)
		CU_ASSERT_EQUAL(t[i].fired, i % 5 == 1 ? 0 : 1);
	free(t);
	rd_loop_destroy(&loop);
}

static void timer_may_rearm_itself(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){.clock = &fake_clock});
	struct t_timer t = {.timer.fn = timer_fired, .loop = loop, .again = 3, .expected = 1000};

	timer_last = 0;
	timer_order_ok = true;
	rd_timer_start(loop, &t.timer, 0);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	CU_ASSERT_FALSE(rd_timer_armed(&t.timer));
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	CU_ASSERT_TRUE(timer_order_ok);
	rd_loop_destroy(&loop);
}

static void sleeps_to_the_deadline_not_past_it(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){0});
	struct t_timer t = {.timer.fn = timer_fired};
	uint64_t start = real_now(), took;
	int turns = 0;

	rd_timer_start(loop, &t.timer, 20 * RD_NSEC_PER_MSEC);
	while (!t.fired) {
		rd_loop_turn(loop, UINT64_MAX);
		turns++;
	}
	took = real_now() - start;
	CU_ASSERT_TRUE(took >= 20 * RD_NSEC_PER_MSEC);
	CU_ASSERT_TRUE(took < 5 * RD_NSEC_PER_SEC);
	CU_ASSERT_TRUE(turns <= 2); /* no spinning towards it */
	start = real_now();
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 10 * RD_NSEC_PER_MSEC), 0);
	CU_ASSERT_TRUE(real_now() - start >= 10 * RD_NSEC_PER_MSEC);
	rd_loop_destroy(&loop);
}

/* Starting a timer long after the last turn must count from now. */
static void timer_between_turns_counts_from_now(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){.clock = &fake_clock});
	struct t_timer t = {.timer.fn = timer_fired};

	rd_loop_turn(loop, 0);
	fake_now += 5000;
	CU_ASSERT_EQUAL(rd_loop_now(loop), fake_now);
	rd_timer_start(loop, &t.timer, 100);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	fake_now += 100;
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 1);
	rd_loop_destroy(&loop);
}

/* A timer on a clock that stands still must not put the thread to sleep for its delay. */
static void foreign_clock_is_not_slept_past(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){.clock = &fake_clock});
	struct t_timer t = {.timer.fn = timer_fired};
	uint64_t start = real_now();

	rd_timer_start(loop, &t.timer, 3600 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 0);
	CU_ASSERT_TRUE(real_now() - start < 2 * RD_NSEC_PER_SEC);
	fake_now += 3600 * RD_NSEC_PER_SEC;
	t.expected = fake_now;
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	rd_loop_destroy(&loop);
}

/* ---- descriptors ---- */

struct t_io {
	struct rd_io io;
	struct rd_loop *loop;
	int calls;
	uint32_t events;
	struct t_io *victim; /* removed by the callback */
};

static void io_called(struct rd_io *io, uint32_t events)
{
	struct t_io *t = rd_container_of(io, struct t_io, io);

	t->calls++;
	t->events |= events;
	if (t->victim)
		rd_io_del(t->loop, &t->victim->io);
}

/* One that can be tried: reads a byte, by whichever way. */
struct t_try {
	struct rd_io io;
	struct rd_loop *loop;
	int peer;
	int told;
	int tried;
	int bytes;
	bool leave; /* with the next byte */
};

static bool take_byte(struct t_try *t)
{
	char c;

	if (recv(t->io.fd, &c, 1, MSG_DONTWAIT) != 1)
		return false;
	t->bytes++;
	if (t->leave)
		rd_io_del(t->loop, &t->io);
	return true;
}

static void try_told(struct rd_io *io, uint32_t events)
{
	struct t_try *t = rd_container_of(io, struct t_try, io);

	t->told++;
	take_byte(t);
}

static bool try_tried(struct rd_io *io)
{
	struct t_try *t = rd_container_of(io, struct t_try, io);

	t->tried++;
	return take_byte(t);
}

static void try_open(struct rd_loop *loop, struct t_try *t)
{
	int fds[2];

	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	*t = (struct t_try){.io.try_read = try_tried, .loop = loop, .peer = fds[1]};
	CU_ASSERT_EQUAL(rd_io_add(loop, &t->io, fds[0], EPOLLIN, try_told), 0);
}

static void try_close(struct t_try *t)
{
	rd_io_del(t->loop, &t->io);
	close(t->io.fd);
	close(t->peer);
}

/* Turns that do not sleep until @t has one more byte. */
static int turns_until_byte(struct t_try *t)
{
	int before = t->bytes, turns = 0;

	CU_ASSERT_EQUAL(write(t->peer, "x", 1), 1);
	while (t->bytes == before && turns < 10000) {
		CU_ASSERT_TRUE(rd_loop_turn(t->loop, 0) >= 0);
		turns++;
	}
	return turns;
}

static void busy_descriptors_are_tried(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){0});
	struct t_try a, b;

	try_open(loop, &a);
	try_open(loop, &b);
	CU_ASSERT_EQUAL(turns_until_byte(&a), 1);
	CU_ASSERT_EQUAL(a.told, 1);
	CU_ASSERT_EQUAL(turns_until_byte(&a), 1);
	CU_ASSERT_EQUAL(a.told, 1);
	CU_ASSERT_EQUAL(a.tried, 1);
	/* The other one is not forgotten. */
	CU_ASSERT_TRUE(turns_until_byte(&b) < 100);
	CU_ASSERT_EQUAL(b.told, 1);
	/* One that has had nothing for long is left to epoll. */
	for (int i = 0; i < 5000; i++)
		CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	a.tried = a.told = 0;
	CU_ASSERT_EQUAL(turns_until_byte(&a), 1);
	CU_ASSERT_EQUAL(a.tried, 0);
	CU_ASSERT_EQUAL(a.told, 1);
	/* A sleep ends for it as for any. */
	CU_ASSERT_EQUAL(write(a.peer, "x", 1), 1);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	/* It may leave from its own callback. */
	a.leave = true;
	CU_ASSERT_EQUAL(turns_until_byte(&a), 1);
	a.tried = a.told = 0;
	CU_ASSERT_EQUAL(write(a.peer, "x", 1), 1);
	for (int i = 0; i < 20; i++)
		CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	CU_ASSERT_EQUAL(a.tried + a.told, 0);
	/* While room to write is awaited only epoll can tell. */
	CU_ASSERT_TRUE(turns_until_byte(&b) < 100);
	CU_ASSERT_EQUAL(rd_io_mod(loop, &b.io, EPOLLIN | EPOLLOUT), 0);
	b.tried = b.told = 0;
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 1);
	CU_ASSERT_EQUAL(b.tried, 0);
	CU_ASSERT_EQUAL(b.told, 1);
	try_close(&a);
	try_close(&b);
	rd_loop_destroy(&loop);
}

static void many_busy_descriptors_share_epoll(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){0});
	struct t_try t[8];
	int n = 8;

	for (int i = 0; i < n; i++)
		try_open(loop, &t[i]);
	for (int i = 0; i < n; i++)
		CU_ASSERT_TRUE(turns_until_byte(&t[i]) < 100);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < n; i++)
			CU_ASSERT_EQUAL(turns_until_byte(&t[i]), 1);
	}
	for (int i = 0; i < n; i++)
		try_close(&t[i]);
	rd_loop_destroy(&loop);
}

static void events_are_level_triggered(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){0});
	struct t_io t = {.loop = loop};
	int fds[2];
	char c;

	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	CU_ASSERT_EQUAL(rd_io_add(loop, &t.io, fds[0], EPOLLIN, io_called), 0);
	CU_ASSERT_EQUAL(rd_io_add(loop, &(struct rd_io){0}, fds[0], EPOLLIN, io_called), -EEXIST);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	CU_ASSERT_EQUAL(write(fds[1], "x", 1), 1);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	CU_ASSERT_EQUAL(t.events, EPOLLIN);
	CU_ASSERT_EQUAL(read(fds[0], &c, 1), 1);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	CU_ASSERT_EQUAL(rd_io_mod(loop, &t.io, EPOLLIN | EPOLLOUT), 0);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	CU_ASSERT_EQUAL(t.events, EPOLLIN | EPOLLOUT);
	CU_ASSERT_EQUAL(rd_io_mod(loop, &t.io, 0), 0);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	rd_io_del(loop, &t.io);
	rd_io_del(loop, &t.io);
	CU_ASSERT_EQUAL(rd_io_mod(loop, &t.io, EPOLLIN), -ENOENT);
	CU_ASSERT_EQUAL(rd_io_add(loop, &t.io, -1, EPOLLIN, io_called), -EBADF);
	close(fds[0]);
	close(fds[1]);
	rd_loop_destroy(&loop);
}

static void removed_events_are_dropped(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){0});
	struct t_io a = {.loop = loop}, b = {.loop = loop};
	int fa[2], fb[2];

	CU_ASSERT_EQUAL_FATAL(pipe(fa), 0);
	CU_ASSERT_EQUAL_FATAL(pipe(fb), 0);
	a.victim = &b;
	b.victim = &a;
	CU_ASSERT_EQUAL(rd_io_add(loop, &a.io, fa[0], EPOLLIN, io_called), 0);
	CU_ASSERT_EQUAL(rd_io_add(loop, &b.io, fb[0], EPOLLIN, io_called), 0);
	CU_ASSERT_EQUAL(write(fa[1], "x", 1), 1);
	CU_ASSERT_EQUAL(write(fb[1], "x", 1), 1);
	/* Both are in the batch; whichever comes first removes the other. */
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	CU_ASSERT_EQUAL(a.calls + b.calls, 1);
	CU_ASSERT_NOT_EQUAL(a.io.added, b.io.added);
	rd_io_del(loop, &a.io);
	rd_io_del(loop, &b.io);
	for (int i = 0; i < 2; i++) {
		close(fa[i]);
		close(fb[i]);
	}
	rd_loop_destroy(&loop);
}

/* ---- defers and pollers ---- */

static char trace[64];

struct t_defer {
	struct rd_defer defer;
	struct rd_loop *loop;
	char tag;
	struct t_defer *next; /* queued by the callback */
	enum rd_defer_phase next_phase;
	int again;
	int ran;
	uint64_t takes; /* on the fake clock */
};

static void defer_ran(struct rd_defer *defer)
{
	struct t_defer *t = rd_container_of(defer, struct t_defer, defer);
	size_t len = strlen(trace);

	fake_now += t->takes;
	if (len + 1 < sizeof(trace))
		trace[len] = t->tag;
	if (t->next) {
		rd_defer(t->loop, &t->next->defer, t->next_phase);
		t->next = NULL;
	}
	if (t->again-- > 0)
		rd_defer(t->loop, defer, (enum rd_defer_phase)defer->phase);
}

static void work_comes_before_flush(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){0});
	struct t_defer d[5];

	memset(trace, 0, sizeof(trace));
	for (int i = 0; i < 5; i++)
		d[i] = (struct t_defer){
			.defer.fn = defer_ran, .loop = loop, .tag = (char)('a' + i)};
	d[1].next = &d[2]; /* b (work) queues c (work) */
	d[1].next_phase = RD_DEFER_WORK;
	d[0].next = &d[3]; /* a (flush) queues d (work) */
	d[0].next_phase = RD_DEFER_WORK;
	rd_defer(loop, &d[0].defer, RD_DEFER_FLUSH);
	rd_defer(loop, &d[1].defer, RD_DEFER_WORK);
	rd_defer(loop, &d[1].defer, RD_DEFER_WORK);
	rd_defer(loop, &d[4].defer, RD_DEFER_WORK);
	rd_defer_cancel(loop, &d[4].defer);
	rd_defer_cancel(loop, &d[4].defer);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 4);
	CU_ASSERT_STRING_EQUAL(trace, "bcad");
	rd_loop_destroy(&loop);
}

static void endless_work_does_not_hold_back_flushes(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){0});
	struct t_defer w = {.defer.fn = defer_ran, .loop = loop, .tag = 'w', .again = 1 << 30};
	struct t_defer f = {.defer.fn = defer_ran, .loop = loop, .tag = 'f', .again = 1 << 30};
	int before = f.again;

	rd_defer(loop, &w.defer, RD_DEFER_WORK);
	rd_defer(loop, &f.defer, RD_DEFER_FLUSH);
	CU_ASSERT_TRUE(rd_loop_turn(loop, UINT64_MAX) > 1);
	CU_ASSERT_EQUAL(f.again, before - 1);
	rd_defer_cancel(loop, &w.defer);
	rd_defer_cancel(loop, &f.defer);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	rd_loop_destroy(&loop);
}

static void note_message(struct rd_msg *msg)
{
	strcat(trace, "m");
}

/* A completion queue that never runs dry, as on a device whose work is done inside of its calls. */
static void work_of_the_next_turn_lets_messages_pass(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){0});
	struct t_defer n = {.defer.fn = defer_ran, .loop = loop, .tag = 'n'};
	struct rd_msg msg = {.fn = note_message};

	memset(trace, 0, sizeof(trace));
	n.next = &n;
	n.next_phase = RD_DEFER_NEXT;
	rd_defer(loop, &n.defer, RD_DEFER_WORK);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	CU_ASSERT_STRING_EQUAL(trace, "n");
	rd_loop_post(loop, &msg);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 2);
	CU_ASSERT_STRING_EQUAL(trace, "nmn");
	rd_defer(loop, &n.defer, RD_DEFER_NEXT);
	rd_defer_cancel(loop, &n.defer);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	rd_loop_destroy(&loop);
}

/* Runs again and again, up to a bound only a hang reaches, and cancels @next at its first run. */
static void cancel_next(struct rd_defer *defer)
{
	struct t_defer *t = rd_container_of(defer, struct t_defer, defer);

	rd_defer_cancel(t->loop, &t->next->defer);
	t->ran++;
	if (t->ran < 1000000)
		rd_defer(t->loop, defer, RD_DEFER_FLUSH);
}

static void flush_cancels_another(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){0});
	struct t_defer w = {.defer.fn = defer_ran, .loop = loop, .tag = 'w', .again = 1 << 30};
	struct t_defer last = {.defer.fn = defer_ran, .loop = loop, .tag = 'l'};
	struct t_defer f = {.defer.fn = cancel_next, .loop = loop, .next = &last};

	rd_defer(loop, &w.defer, RD_DEFER_WORK);
	rd_defer(loop, &f.defer, RD_DEFER_FLUSH);
	rd_defer(loop, &last.defer, RD_DEFER_FLUSH);
	CU_ASSERT_TRUE(rd_loop_turn(loop, 0) > 0);
	CU_ASSERT_TRUE(f.ran >= 1 && f.ran < 10);
	CU_ASSERT_FALSE(last.defer.queued);
	rd_defer_cancel(loop, &w.defer);
	rd_defer_cancel(loop, &f.defer);
	rd_loop_destroy(&loop);
}

struct t_poller {
	struct rd_poller poller;
	struct rd_loop *loop;
	struct t_poller *victim;
	int calls;
	int arms;
	bool found;
	bool found_late;        /* by the look after arming */
	struct rd_timer *timer; /* started by arming */
};

static bool poller_armed(struct rd_poller *poller)
{
	struct t_poller *t = rd_container_of(poller, struct t_poller, poller);

	t->arms++;
	if (t->timer)
		rd_timer_start(t->loop, t->timer, RD_NSEC_PER_MSEC);
	return t->found_late;
}

static bool poller_called(struct rd_poller *poller)
{
	struct t_poller *t = rd_container_of(poller, struct t_poller, poller);

	t->calls++;
	if (t->victim) {
		rd_poller_del(t->loop, &t->victim->poller);
		rd_poller_del(t->loop, poller);
	}
	return t->found;
}

static void pollers_run_each_turn(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){0});
	struct t_poller p[3];

	for (int i = 0; i < 3; i++) {
		p[i] = (struct t_poller){.poller.fn = poller_called, .loop = loop};
		rd_poller_add(loop, &p[i].poller);
	}
	rd_poller_add(loop, &p[0].poller);
	p[2].found = true;
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 1);
	p[0].victim = &p[1]; /* removes itself and its successor */
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 1);
	CU_ASSERT_EQUAL(p[0].calls, 2);
	CU_ASSERT_EQUAL(p[1].calls, 1);
	CU_ASSERT_EQUAL(p[2].calls, 2);
	rd_poller_del(loop, &p[2].poller);
	rd_poller_del(loop, &p[2].poller);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	rd_loop_destroy(&loop);
}

static void spins_after_work_then_sleeps(void)
{
	struct rd_loop *loop =
		make_loop((struct rd_loop_opts){.clock = &fake_clock, .spin_ns = 1000});
	struct t_defer d = {.defer.fn = defer_ran, .loop = loop, .tag = 'd'};
	uint64_t start;

	fake_now = 100000;
	rd_defer(loop, &d.defer, RD_DEFER_WORK);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	/* Inside the window a turn with an endless timeout returns at once. */
	fake_now += 999;
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 0);
	fake_now += 1;
	start = real_now();
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 5 * RD_NSEC_PER_MSEC), 0);
	CU_ASSERT_TRUE(real_now() - start >= 5 * RD_NSEC_PER_MSEC);
	rd_loop_destroy(&loop);
}

/* One turn with work that takes @ns, @gap after the last one. */
static void work_after(struct rd_loop *loop, uint64_t gap, uint64_t ns)
{
	struct t_defer d = {.defer.fn = defer_ran, .loop = loop, .tag = 'd', .takes = ns};

	fake_now += gap;
	rd_defer(loop, &d.defer, RD_DEFER_WORK);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
}

static bool sleeps(struct rd_loop *loop)
{
	uint64_t start = real_now();

	CU_ASSERT_EQUAL(rd_loop_turn(loop, 2 * RD_NSEC_PER_MSEC), 0);
	return real_now() - start >= 2 * RD_NSEC_PER_MSEC;
}

static void spins_while_it_pays(void)
{
	enum { SPIN = 20000, SHORT = SPIN + RD_LOOP_WAKE_NS, LONG = SHORT + 1 };
	struct rd_loop *loop =
		make_loop((struct rd_loop_opts){.clock = &fake_clock, .spin_ns = SPIN});

	fake_now = 1000 * RD_NSEC_PER_SEC;
	work_after(loop, 0, 0);
	work_after(loop, SHORT, 0);
	for (int i = 1; i < RD_LOOP_SPIN_MISSES; i++)
		work_after(loop, LONG, 0);
	CU_ASSERT_FALSE(sleeps(loop));
	work_after(loop, SHORT, 0); /* begins to count anew */
	for (int i = 0; i < RD_LOOP_SPIN_MISSES; i++) {
		CU_ASSERT_FALSE(sleeps(loop));
		work_after(loop, LONG, 0);
	}
	CU_ASSERT_TRUE(sleeps(loop));
	work_after(loop, 1000 * RD_NSEC_PER_SEC, 0);
	CU_ASSERT_TRUE(sleeps(loop));
	work_after(loop, SHORT, 0); /* as when it was woken for steady work */
	CU_ASSERT_FALSE(sleeps(loop));
	fake_now += SPIN; /* and no longer than it should */
	CU_ASSERT_TRUE(sleeps(loop));
	rd_loop_destroy(&loop);
}

static void busy_time_is_that_of_work(void)
{
	struct rd_loop *loop =
		make_loop((struct rd_loop_opts){.clock = &fake_clock, .spin_ns = 1000});

	fake_now = 1000 * RD_NSEC_PER_SEC;
	CU_ASSERT_EQUAL(rd_loop_busy(loop), 0);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	work_after(loop, 500, 7);
	CU_ASSERT_EQUAL(rd_loop_busy(loop), 7);
	fake_now += 300; /* in vain */
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	work_after(loop, 0, 9);
	CU_ASSERT_EQUAL(rd_loop_busy(loop), 16);
	/* From one work straight to the next: what lies between is the price of looking. */
	work_after(loop, 4, 10);
	CU_ASSERT_EQUAL(rd_loop_busy(loop), 30);
	rd_loop_destroy(&loop);
}

static void timer_nothing(struct rd_timer *timer)
{
}

static void pollers_are_armed_before_a_sleep(void)
{
	struct rd_loop *loop =
		make_loop((struct rd_loop_opts){.clock = &fake_clock, .spin_ns = 1000});
	struct t_poller p = {
		.poller = {.fn = poller_called, .arm = poller_armed}, .loop = loop, .found = true};
	struct rd_timer timer = {.fn = timer_nothing};
	uint64_t start;

	fake_now = 100000;
	rd_poller_add(loop, &p.poller);
	for (int i = 0; i < 5; i++) /* there is work in each turn */
		CU_ASSERT_EQUAL(rd_loop_turn(loop, i ? UINT64_MAX : 0), 1);
	p.found = false;
	fake_now += 999;
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 0);
	fake_now += 1000;
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	CU_ASSERT_EQUAL(p.arms, 0);
	start = real_now();
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 5 * RD_NSEC_PER_MSEC), 0);
	CU_ASSERT_TRUE(real_now() - start >= 5 * RD_NSEC_PER_MSEC);
	CU_ASSERT_EQUAL(p.arms, 1);
	p.found_late = true; /* nothing else would end this sleep */
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 0);
	CU_ASSERT_EQUAL(p.arms, 2);
	rd_poller_del(loop, &p.poller);
	rd_loop_destroy(&loop);

	loop = make_loop((struct rd_loop_opts){0});
	p = (struct t_poller){.poller = {.fn = poller_called, .arm = poller_armed},
			      .loop = loop,
			      .timer = &timer};
	rd_poller_add(loop, &p.poller);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	CU_ASSERT_EQUAL(p.arms, 1);
	rd_poller_del(loop, &p.poller);
	rd_loop_destroy(&loop);
}

static void pollable_loops_arm_in_each_turn(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){.pollable = true});
	struct t_poller p = {.poller = {.fn = poller_called, .arm = poller_armed}, .loop = loop};

	rd_poller_add(loop, &p.poller);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	CU_ASSERT_EQUAL(p.arms, 1);
	CU_ASSERT_FALSE(readable(rd_loop_fd(loop), 0));
	p.found_late = true;
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	CU_ASSERT_EQUAL(p.arms, 2);
	CU_ASSERT_TRUE(readable(rd_loop_fd(loop), 0));
	rd_poller_del(loop, &p.poller);
	rd_loop_destroy(&loop);
}

static int nested_rc;

static void turn_inside(struct rd_defer *defer)
{
	struct t_defer *t = rd_container_of(defer, struct t_defer, defer);

	nested_rc = rd_loop_turn(t->loop, 0);
}

static void a_callback_cannot_run_the_loop(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){0});
	struct t_defer d = {.defer.fn = turn_inside, .loop = loop};

	rd_defer(loop, &d.defer, RD_DEFER_WORK);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 1);
	CU_ASSERT_EQUAL(nested_rc, -EDEADLK);
	rd_loop_destroy(&loop);
}

/* ---- messages ---- */

#define THREADS  4
#define MESSAGES 2000

struct t_msg {
	struct rd_msg msg;
	struct t_sender *sender;
	int seq;
};

struct t_sender {
	struct rd_loop *loop;
	struct t_msg msgs[MESSAGES];
	int next; /* expected by the receiver */
	bool in_order;
	pthread_t thread;
};

static int msgs_left;

static void msg_received(struct rd_msg *msg)
{
	struct t_msg *m = rd_container_of(msg, struct t_msg, msg);

	m->sender->in_order &= m->seq == m->sender->next++;
	if (--msgs_left == 0)
		rd_loop_stop(m->sender->loop);
}

static void *send_all(void *arg)
{
	struct t_sender *s = arg;

	for (int i = 0; i < MESSAGES; i++) {
		rd_loop_post(s->loop, &s->msgs[i].msg);
		if (i % 64 == 0) /* let the receiver fall asleep at times */
			poll(NULL, 0, 1);
	}
	return NULL;
}

static void messages_from_threads_arrive_in_order(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){0});
	struct t_sender *s = calloc(THREADS, sizeof(*s));

	msgs_left = THREADS * MESSAGES;
	for (int i = 0; i < THREADS; i++) {
		s[i].loop = loop;
		s[i].in_order = true;
		for (int m = 0; m < MESSAGES; m++) {
			s[i].msgs[m] =
				(struct t_msg){.msg.fn = msg_received, .sender = &s[i], .seq = m};
		}
		CU_ASSERT_EQUAL_FATAL(pthread_create(&s[i].thread, NULL, send_all, &s[i]), 0);
	}
	CU_ASSERT_EQUAL(rd_loop_run(loop), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(s[i].thread, NULL);
		CU_ASSERT_TRUE(s[i].in_order);
		CU_ASSERT_EQUAL(s[i].next, MESSAGES);
	}
	CU_ASSERT_EQUAL(msgs_left, 0);
	free(s);
	rd_loop_destroy(&loop);
}

static void *wake_soon(void *arg)
{
	poll(NULL, 0, 10);
	rd_loop_wake(arg);
	return NULL;
}

static void wake_ends_a_sleep(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){0});
	pthread_t thread;

	/* Before the turn: it must not sleep at all. */
	rd_loop_wake(loop);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 0);
	/* During it. */
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, wake_soon, loop), 0);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 0);
	pthread_join(thread, NULL);
	/* A stop asked for before run() is honoured, and only once. */
	rd_loop_stop(loop);
	CU_ASSERT_EQUAL(rd_loop_run(loop), 0);
	rd_loop_destroy(&loop);
}

/* ---- a loop someone else sleeps on ---- */

static void fd_tells_of_work(void)
{
	struct rd_loop *loop = make_loop((struct rd_loop_opts){.pollable = true});
	struct t_defer d = {.defer.fn = defer_ran, .loop = loop, .tag = 'd'};
	struct t_defer many = {.defer.fn = defer_ran, .loop = loop, .tag = 'm', .again = 6000};
	struct t_timer t = {.timer.fn = timer_fired, .loop = loop};
	struct t_msg m = {.msg.fn = msg_received};
	struct t_sender s = {.loop = loop};
	int fd = rd_loop_fd(loop);

	CU_ASSERT_FALSE(readable(fd, 0));
	rd_defer(loop, &d.defer, RD_DEFER_FLUSH);
	CU_ASSERT_TRUE(readable(fd, 0));
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 1);
	CU_ASSERT_FALSE(readable(fd, 0));
	/* More than one turn's worth: still readable after the first. */
	rd_defer(loop, &many.defer, RD_DEFER_WORK);
	rd_loop_turn(loop, 0);
	CU_ASSERT_TRUE(many.defer.queued);
	CU_ASSERT_TRUE(readable(fd, 0));
	rd_loop_turn(loop, 0);
	CU_ASSERT_FALSE(many.defer.queued);
	CU_ASSERT_FALSE(readable(fd, 0));
	/* Timers, also one that moves to the front between turns. */
	rd_timer_start(loop, &t.timer, 3600 * RD_NSEC_PER_SEC);
	CU_ASSERT_FALSE(readable(fd, 0));
	rd_timer_start(loop, &t.timer, 5 * RD_NSEC_PER_MSEC);
	CU_ASSERT_TRUE(readable(fd, 10000));
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 1);
	CU_ASSERT_FALSE(readable(fd, 0));
	/* Messages. */
	msgs_left = 2;
	m.sender = &s;
	rd_loop_post(loop, &m.msg);
	CU_ASSERT_TRUE(readable(fd, 0));
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 1);
	CU_ASSERT_FALSE(readable(fd, 0));
	rd_loop_destroy(&loop);
}

static void random_numbers_follow_the_seed(void)
{
	struct rd_loop *a = make_loop((struct rd_loop_opts){.seed = 42});
	struct rd_loop *b = make_loop((struct rd_loop_opts){.seed = 42});
	struct rd_loop *c = make_loop((struct rd_loop_opts){0});
	struct rd_loop *d = make_loop((struct rd_loop_opts){0});
	uint32_t seen = 0, all = UINT32_MAX, same = 0;

	for (int i = 0; i < 1000; i++) {
		uint32_t v = rd_loop_random32(a);

		CU_ASSERT_EQUAL(v, rd_loop_random32(b));
		same += rd_loop_random32(c) == rd_loop_random32(d);
		seen |= v;
		all &= v;
	}
	CU_ASSERT_EQUAL(seen, UINT32_MAX);
	CU_ASSERT_EQUAL(all, 0);
	CU_ASSERT_TRUE(same < 3);
	rd_loop_destroy(&a);
	rd_loop_destroy(&b);
	rd_loop_destroy(&c);
	rd_loop_destroy(&d);
	rd_loop_destroy(&d);
}

const struct t_case t_loop_cases[] = {
	{"timers fire in order, also moved and stopped ones", timers_fire_in_order},
	{"a timer may re-arm itself without keeping the turn", timer_may_rearm_itself},
	{"sleeps to a deadline without spinning", sleeps_to_the_deadline_not_past_it},
	{"a timer started between turns counts from now", timer_between_turns_counts_from_now},
	{"a clock that is not the kernel's is not slept past", foreign_clock_is_not_slept_past},
	{"descriptors are level-triggered", events_are_level_triggered},
	{"busy descriptors are tried without epoll", busy_descriptors_are_tried},
	{"many busy descriptors share one epoll", many_busy_descriptors_share_epoll},
	{"events of a removed descriptor are dropped", removed_events_are_dropped},
	{"work comes before flush, and again after it", work_comes_before_flush},
	{"endless work does not hold back flushes", endless_work_does_not_hold_back_flushes},
	{"work of the next turn lets messages pass", work_of_the_next_turn_lets_messages_pass},
	{"a flush may cancel another one under endless work", flush_cancels_another},
	{"pollers run in each turn and may be removed", pollers_run_each_turn},
	{"spins after work, then sleeps", spins_after_work_then_sleeps},
	{"spins only while gaps are short", spins_while_it_pays},
	{"the time of work is counted", busy_time_is_that_of_work},
	{"pollers are armed before a sleep only", pollers_are_armed_before_a_sleep},
	{"pollers of pollable loops are armed in each turn", pollable_loops_arm_in_each_turn},
	{"a callback cannot run the loop", a_callback_cannot_run_the_loop},
	{"messages from threads arrive in order", messages_from_threads_arrive_in_order},
	{"wake ends a sleep, also one not yet begun", wake_ends_a_sleep},
	{"the descriptor tells of work", fd_tells_of_work},
	{"random numbers follow the seed", random_numbers_follow_the_seed},
	{NULL, NULL},
};
