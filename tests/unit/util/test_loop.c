/* SPDX-License-Identifier: BSD-3-Clause */
#include "suites.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "t_loop.h"

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
	struct rd_loop *loop T_ENDS(rd_loop_destroy) =
		make_loop((struct rd_loop_opts){.clock = &fake_clock, .seed = 5});
	struct t_timer *t T_FREE = calloc(TIMERS, sizeof(*t));
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
}

static void timer_may_rearm_itself(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) =
		make_loop((struct rd_loop_opts){.clock = &fake_clock});
	struct t_timer t = {.timer.fn = timer_fired, .loop = loop, .again = 3, .expected = 1000};
	struct t_timer later = {.timer.fn = timer_fired};

	timer_last = 0;
	timer_order_ok = true;
	rd_timer_start(loop, &later.timer, RD_NSEC_PER_SEC);
	rd_timer_start(loop, &t.timer, 0);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	CU_ASSERT_FALSE(rd_timer_armed(&t.timer));
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	CU_ASSERT_TRUE(timer_order_ok);
	rd_timer_stop(loop, &later.timer);
}

static void sleeps_to_the_deadline_not_past_it(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
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
	CU_ASSERT_TRUE(turns <= 2); /* no spinning until then */
	start = real_now();
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 10 * RD_NSEC_PER_MSEC), 0);
	CU_ASSERT_TRUE(real_now() - start >= 10 * RD_NSEC_PER_MSEC);
}

/* Starting a timer long after the last turn must count from now. */
static void timer_between_turns_counts_from_now(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) =
		make_loop((struct rd_loop_opts){.clock = &fake_clock});
	struct t_timer t = {.timer.fn = timer_fired};

	rd_loop_turn(loop, 0);
	fake_now += 5000;
	CU_ASSERT_EQUAL(rd_loop_now(loop), fake_now);
	rd_timer_start(loop, &t.timer, 100);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	fake_now += 100;
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 1);
}

/* A timer on a clock that does not advance must not put the thread to sleep for its delay. */
static void foreign_clock_is_not_slept_past(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) =
		make_loop((struct rd_loop_opts){.clock = &fake_clock});
	struct t_timer t = {.timer.fn = timer_fired};
	uint64_t start = real_now();

	rd_timer_start(loop, &t.timer, 3600 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 0);
	CU_ASSERT_TRUE(real_now() - start < 2 * RD_NSEC_PER_SEC);
	fake_now += 3600 * RD_NSEC_PER_SEC;
	t.expected = fake_now;
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
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

/* A descriptor that the loop can try: reads a byte, in either way. */
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

/* Turns without sleep until @t has one more byte. */
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
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
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
	/* One that had nothing for a long time is left to epoll. */
	for (int i = 0; i < 5000; i++)
		CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	a.tried = a.told = 0;
	CU_ASSERT_EQUAL(turns_until_byte(&a), 1);
	CU_ASSERT_EQUAL(a.tried, 0);
	CU_ASSERT_EQUAL(a.told, 1);
	/* A sleep ends for it as for any descriptor. */
	CU_ASSERT_EQUAL(write(a.peer, "x", 1), 1);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	/* It may be removed from its own callback. */
	a.leave = true;
	CU_ASSERT_EQUAL(turns_until_byte(&a), 1);
	a.tried = a.told = 0;
	CU_ASSERT_EQUAL(write(a.peer, "x", 1), 1);
	for (int i = 0; i < 20; i++)
		CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	CU_ASSERT_EQUAL(a.tried + a.told, 0);
	/* While it waits for room to write, only epoll can tell. */
	CU_ASSERT_TRUE(turns_until_byte(&b) < 100);
	CU_ASSERT_EQUAL(rd_io_mod(loop, &b.io, EPOLLIN | EPOLLOUT), 0);
	b.tried = b.told = 0;
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 1);
	CU_ASSERT_EQUAL(b.tried, 0);
	CU_ASSERT_EQUAL(b.told, 1);
	try_close(&a);
	try_close(&b);
}

static void many_busy_descriptors_share_epoll(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
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
}

static void events_are_level_triggered(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
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
}

static void removed_events_are_dropped(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
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
	/* Both are in the batch; the first one to run removes the other. */
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 1);
	CU_ASSERT_EQUAL(a.calls + b.calls, 1);
	CU_ASSERT_NOT_EQUAL(a.io.added, b.io.added);
	rd_io_del(loop, &a.io);
	rd_io_del(loop, &b.io);
	for (int i = 0; i < 2; i++) {
		close(fa[i]);
		close(fb[i]);
	}
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
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
	struct t_sender *s T_FREE = calloc(THREADS, sizeof(*s));

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
}

static void *stop_soon(void *arg)
{
	poll(NULL, 0, 10);
	rd_loop_stop(arg);
	return NULL;
}

static void wake_ends_a_sleep(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
	pthread_t thread;

	/* Before the turn: it must not sleep at all. */
	rd_loop_stop(loop);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 0);
	/* During it. */
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, stop_soon, loop), 0);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 0);
	pthread_join(thread, NULL);
	/* A stop before run() is honoured, and only once. */
	rd_loop_stop(loop);
	CU_ASSERT_EQUAL(rd_loop_run(loop), 0);
}

/* ---- a loop someone else sleeps on ---- */

static void fd_tells_of_work(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) =
		make_loop((struct rd_loop_opts){.pollable = true});
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

/* What each kind of callback sees of on_turn: one call more in each turn, before it. */
struct turns {
	struct rd_loop *loop;
	struct rd_msg msg;
	struct rd_timer timer;
	struct rd_defer defer;
	unsigned int turns, msg_saw, timer_saw, defer_saw;
	uint64_t at;
};

static void turn_begins(void *arg)
{
	struct turns *t = arg;

	t->turns++;
	t->at = rd_loop_now(t->loop);
}

static void turn_msg(struct rd_msg *msg)
{
	struct turns *t = rd_container_of(msg, struct turns, msg);

	t->msg_saw = t->turns;
}

static void turn_timer(struct rd_timer *timer)
{
	struct turns *t = rd_container_of(timer, struct turns, timer);

	t->timer_saw = t->turns;
}

static void turn_defer(struct rd_defer *defer)
{
	struct turns *t = rd_container_of(defer, struct turns, defer);

	t->defer_saw = t->turns;
}

static void on_turn_comes_first(void)
{
	struct turns t = {.msg.fn = turn_msg, .timer.fn = turn_timer, .defer.fn = turn_defer};

	t.loop = make_loop((struct rd_loop_opts){
		.clock = &fake_clock, .on_turn = turn_begins, .turn_arg = &t});
	for (unsigned int i = 1; i <= 2; i++) {
		rd_loop_post(t.loop, &t.msg);
		rd_timer_start(t.loop, &t.timer, 0);
		rd_defer(t.loop, &t.defer, RD_DEFER_WORK);
		fake_now += 1000;
		CU_ASSERT_EQUAL(rd_loop_turn(t.loop, 0), 3);
		CU_ASSERT_EQUAL(t.turns, i);
		CU_ASSERT_EQUAL(t.at, fake_now);
		CU_ASSERT_TRUE(t.msg_saw == i && t.timer_saw == i && t.defer_saw == i);
	}
	rd_loop_destroy(&t.loop);
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
	{"messages from threads arrive in order", messages_from_threads_arrive_in_order},
	{"wake ends a sleep, also one not yet begun", wake_ends_a_sleep},
	{"the descriptor tells of work", fd_tells_of_work},
	{"each turn begins with on_turn, at the present time", on_turn_comes_first},
	{"random numbers follow the seed", random_numbers_follow_the_seed},
	{NULL, NULL},
};
