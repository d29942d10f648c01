/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop's order of work, its pollers, and when it sleeps. */
#include "suites.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "t_loop.h"
#include "t_shared_cpu.h"
#include "util/spin.h"

/* ---- defers ---- */

static void work_comes_before_send_before_flush(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
	struct t_defer d[6];

	memset(trace, 0, sizeof(trace));
	for (int i = 0; i < 6; i++)
		d[i] = (struct t_defer){
			.defer.fn = defer_ran, .loop = loop, .tag = (char)('a' + i)};
	d[1].next = &d[2]; /* b (work) queues c (work) */
	d[1].next_phase = RD_DEFER_WORK;
	d[0].next = &d[3]; /* a (flush) queues d (work) */
	d[0].next_phase = RD_DEFER_WORK;
	rd_defer(loop, &d[0].defer, RD_DEFER_FLUSH);
	rd_defer(loop, &d[5].defer, RD_DEFER_SEND);
	rd_defer(loop, &d[1].defer, RD_DEFER_WORK);
	rd_defer(loop, &d[1].defer, RD_DEFER_WORK);
	rd_defer(loop, &d[4].defer, RD_DEFER_WORK);
	rd_defer_cancel(loop, &d[4].defer);
	rd_defer_cancel(loop, &d[4].defer);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 5);
	CU_ASSERT_STRING_EQUAL(trace, "bcfad");
}

struct t_source {
	struct rd_io io;
	struct t_defer work;
	struct t_defer *flush; /* common to both descriptors */
};

/* Work that queues something to send, and something for the end of the turn. */
static void source_readable(struct rd_io *io, uint32_t events)
{
	struct t_source *s = rd_container_of(io, struct t_source, io);

	strcat(trace, "r");
	rd_defer(s->work.loop, &s->work.defer, RD_DEFER_WORK);
	rd_defer(s->work.loop, &s->flush->defer, RD_DEFER_FLUSH);
}

static void one_descriptor_is_answered_before_the_next(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
	struct t_defer sends[2], flush = {.defer.fn = defer_ran, .loop = loop, .tag = 'f'};
	struct t_source sources[2];

	memset(trace, 0, sizeof(trace));
	for (int i = 0; i < 2; i++) {
		int fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);

		sends[i] = (struct t_defer){.defer.fn = defer_ran, .loop = loop, .tag = 's'};
		sources[i] = (struct t_source){
			.work = {.defer.fn = defer_ran, .loop = loop, .tag = 'w'}, .flush = &flush};
		sources[i].work.next = &sends[i];
		sources[i].work.next_phase = RD_DEFER_SEND;
		CU_ASSERT_EQUAL_FATAL(rd_io_add(loop, &sources[i].io, fd, EPOLLIN, source_readable),
				      0);
	}
	/* Two descriptors, two of work, two of sending, one at the end. */
	CU_ASSERT_EQUAL(rd_loop_turn(loop, UINT64_MAX), 7);
	CU_ASSERT_STRING_EQUAL(trace, "rwsrwsf");
	for (int i = 0; i < 2; i++) {
		rd_io_del(loop, &sources[i].io);
		close(sources[i].io.fd);
	}
}

/* Endless work has one limit for a turn, not one for each descriptor. */
static void endless_work_lets_descriptors_pass(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
	struct t_defer flush = {.defer.fn = defer_ran, .loop = loop, .tag = 'f'};
	struct t_source s = {.work = {.defer.fn = defer_ran, .loop = loop, .again = 1 << 30}};
	struct t_source last = {.work = {.defer.fn = defer_ran, .loop = loop, .tag = 'w'}};
	int fds[2] = {eventfd(1, EFD_CLOEXEC), eventfd(1, EFD_CLOEXEC)};

	memset(trace, 0, sizeof(trace));
	s.flush = last.flush = &flush;
	CU_ASSERT_EQUAL_FATAL(rd_io_add(loop, &s.io, fds[0], EPOLLIN, source_readable), 0);
	CU_ASSERT_EQUAL_FATAL(rd_io_add(loop, &last.io, fds[1], EPOLLIN, source_readable), 0);
	CU_ASSERT_TRUE(rd_loop_turn(loop, UINT64_MAX) > 1);
	CU_ASSERT_STRING_EQUAL(trace, "rrf");
	CU_ASSERT_TRUE(last.work.defer.queued);
	rd_defer_cancel(loop, &s.work.defer);
	rd_defer_cancel(loop, &last.work.defer);
	rd_io_del(loop, &s.io);
	rd_io_del(loop, &last.io);
	close(fds[0]);
	close(fds[1]);
}

static void endless_work_does_not_hold_back_flushes(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
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
}

static void note_message(struct rd_msg *msg)
{
	strcat(trace, "m");
}

/* A completion queue that is never empty, as on a device that completes within its calls. */
static void work_of_the_next_turn_lets_messages_pass(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
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
}

/* Runs again and again, up to a limit that only a hang reaches, and cancels @next at its first
 * run. */
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
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
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
}

struct t_poller {
	struct rd_poller poller;
	struct rd_loop *loop;
	struct t_poller *victim;
	int calls;
	int arms;
	bool found;
	bool found_late;        /* by the poll after arming */
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
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
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
	/* Within the spin time a turn with an endless timeout returns at once. */
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
	enum { SPIN = 20000, SHORT = SPIN + RD_SPIN_WAKE_NS, LONG = SHORT + 1 };
	struct rd_loop *loop =
		make_loop((struct rd_loop_opts){.clock = &fake_clock, .spin_ns = SPIN});

	fake_now = 1000 * RD_NSEC_PER_SEC;
	work_after(loop, 0, 0);
	work_after(loop, SHORT, 0);
	for (int i = 1; i < RD_SPIN_MISSES; i++)
		work_after(loop, LONG, 0);
	CU_ASSERT_FALSE(sleeps(loop));
	work_after(loop, SHORT, 0); /* counts from the beginning again */
	for (int i = 0; i < RD_SPIN_MISSES; i++) {
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

static void the_longest_turn_is_remembered_for_a_minute(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) =
		make_loop((struct rd_loop_opts){.clock = &fake_clock});
	const uint64_t minute = 60 * RD_NSEC_PER_SEC;

	fake_now = 1000 * RD_NSEC_PER_SEC;
	CU_ASSERT_EQUAL(rd_loop_longest(loop, fake_now), 0);
	work_after(loop, 0, 10);
	work_after(loop, minute / 2, 300);
	work_after(loop, 5, 20);
	CU_ASSERT_EQUAL(rd_loop_longest(loop, fake_now), 300);
	work_after(loop, minute, 7);
	work_after(loop, 0, 9);
	CU_ASSERT_EQUAL(rd_loop_longest(loop, fake_now), 300);
	work_after(loop, minute, 8);
	CU_ASSERT_EQUAL(rd_loop_longest(loop, fake_now), 9);
	/* Without work there is nothing to remember. */
	CU_ASSERT_EQUAL(rd_loop_longest(loop, fake_now + 2 * minute), 0);
	work_after(loop, 3 * minute, 1);
	CU_ASSERT_EQUAL(rd_loop_longest(loop, fake_now), 1);
}

static int defer_one_turn(void *arg)
{
	return rd_loop_turn(arg, UINT64_MAX);
}

static void lets_others_run_while_it_spins(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) =
		make_loop((struct rd_loop_opts){.spin_ns = 10 * RD_NSEC_PER_SEC});

	CU_ASSERT(t_shares_its_cpu(loop, defer_one_turn, loop));
}

static void busy_time_is_that_of_work(void)
{
	struct rd_loop *loop =
		make_loop((struct rd_loop_opts){.clock = &fake_clock, .spin_ns = 1000});
	uint64_t spun;

	fake_now = 1000 * RD_NSEC_PER_SEC;
	CU_ASSERT_EQUAL(rd_loop_busy(loop), 0);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	work_after(loop, 500, 7);
	CU_ASSERT_EQUAL(rd_loop_busy(loop), 7);
	spun = rd_loop_spun(loop);
	fake_now += 300; /* without a result */
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	work_after(loop, 0, 9);
	CU_ASSERT_EQUAL(rd_loop_busy(loop), 16);
	CU_ASSERT_EQUAL(rd_loop_spun(loop), spun + 300);
	/* Directly from one piece of work to the next: the time between is the cost of polling. */
	work_after(loop, 4, 10);
	CU_ASSERT_EQUAL(rd_loop_busy(loop), 30);
	CU_ASSERT_EQUAL(rd_loop_spun(loop), spun + 300);
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

struct t_event {
	struct rd_io io;
	int calls;
};

static void event_read(struct rd_io *io, uint32_t events)
{
	struct t_event *t = rd_container_of(io, struct t_event, io);
	eventfd_t value;

	CU_ASSERT_EQUAL(eventfd_read(io->fd, &value), 0);
	t->calls++;
}

/* How many turns it takes, after @before other turns, until an event is seen. */
static int turns_until_seen(struct rd_loop *loop, struct t_event *t, int before)
{
	int turns, calls = t->calls;

	for (int i = 0; i < before; i++)
		rd_loop_turn(loop, 0);
	CU_ASSERT_EQUAL(eventfd_write(t->io.fd, 1), 0);
	for (turns = 0; t->calls == calls && turns < 100; turns++)
		rd_loop_turn(loop, 0);
	return turns;
}

static void epoll_is_asked_rarely_where_pollers_have_the_work(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
	struct t_poller p = {.poller.fn = poller_called, .loop = loop, .found = true};
	struct t_event t = {.calls = 0};
	int turns, sum = 0;

	rd_poller_add(loop, &p.poller);
	CU_ASSERT_EQUAL_FATAL(rd_io_add(loop, &t.io, eventfd(0, 0), EPOLLIN, event_read), 0);
	CU_ASSERT_EQUAL(turns_until_seen(loop, &t, 1), 1);
	for (int i = 0; i < 8; i++) {
		turns = turns_until_seen(loop, &t, 200 + i);
		CU_ASSERT(turns <= 8);
		sum += turns;
	}
	CU_ASSERT(sum > 8);
	/* When it had an event lately, epoll is asked in each turn, */
	CU_ASSERT_EQUAL(turns_until_seen(loop, &t, 1), 1);
	/* and when pollers find nothing. */
	p.found = false;
	CU_ASSERT_EQUAL(turns_until_seen(loop, &t, 2000), 1);
	rd_io_del(loop, &t.io);
	close(t.io.fd);
	rd_poller_del(loop, &p.poller);
}

static void pollable_loops_arm_in_each_turn(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) =
		make_loop((struct rd_loop_opts){.pollable = true});
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
}

static int nested_rc;

static void turn_inside(struct rd_defer *defer)
{
	struct t_defer *t = rd_container_of(defer, struct t_defer, defer);

	nested_rc = rd_loop_turn(t->loop, 0);
}

static void a_callback_cannot_run_the_loop(void)
{
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = make_loop((struct rd_loop_opts){0});
	struct t_defer d = {.defer.fn = turn_inside, .loop = loop};

	rd_defer(loop, &d.defer, RD_DEFER_WORK);
	CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 1);
	CU_ASSERT_EQUAL(nested_rc, -EDEADLK);
}

const struct t_case t_defer_cases[] = {
	{"work comes before send before flush, and again after it",
	 work_comes_before_send_before_flush},
	{"one descriptor is answered before the next", one_descriptor_is_answered_before_the_next},
	{"endless work lets descriptors pass", endless_work_lets_descriptors_pass},
	{"endless work does not hold back flushes", endless_work_does_not_hold_back_flushes},
	{"work of the next turn lets messages pass", work_of_the_next_turn_lets_messages_pass},
	{"a flush may cancel another one under endless work", flush_cancels_another},
	{"pollers run in each turn and may be removed", pollers_run_each_turn},
	{"spins after work, then sleeps", spins_after_work_then_sleeps},
	{"spins only while gaps are short", spins_while_it_pays},
	{"lets others have the processor while it spins", lets_others_run_while_it_spins},
	{"the time of work is counted", busy_time_is_that_of_work},
	{"the longest turn is remembered for a minute",
	 the_longest_turn_is_remembered_for_a_minute},
	{"pollers are armed before a sleep only", pollers_are_armed_before_a_sleep},
	{"epoll is asked rarely where pollers have the work",
	 epoll_is_asked_rarely_where_pollers_have_the_work},
	{"pollers of pollable loops are armed in each turn", pollable_loops_arm_in_each_turn},
	{"a callback cannot run the loop", a_callback_cannot_run_the_loop},
	{NULL, NULL},
};
