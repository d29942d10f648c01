/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One thread of `rdinit bench`: keeps its queues full and counts how long each I/O took.
 *
 * The clock is read once for each batch of completions that one look at a queue finds, and each
 * completion's next I/O starts at that time: no time is lost between an I/O and the next, so depth
 * divided by mean latency is the rate.
 */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench.h"

/* With more queues than this a thread uses epoll to find those with completions. */
#define LOOK_AT_ALL 8u
#define EVENTS      64

/* ---- the end, when it comes early ---- */

void bench_stop(struct bench *b)
{
	uint64_t one = 1;

	atomic_store(&b->stop, true);
	if (write(b->stop_fd, &one, sizeof(one)) < 0)
		return; /* impossible: a counter of 64 bits does not overflow */
}

static void submit_no_more(struct bench_thread *t)
{
	unsigned int i;

	for (i = 0; i < t->n_queues; i++)
		t->queues[i].left = 0;
}

static void bench_fail(struct bench_thread *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void bench_fail(struct bench_thread *t, const char *fmt, ...)
{
	va_list ap;

	submit_no_more(t);
	bench_stop(t->b);
	if (t->error[0])
		return; /* later errors are consequences of the first one */
	va_start(ap, fmt);
	vsnprintf(t->error, sizeof(t->error), fmt, ap);
	va_end(ap);
}

/* ---- I/O ---- */

/* A random number below @n, without a division. */
static uint64_t random_below(struct bench_queue *q, uint64_t n)
{
	return (uint64_t)((unsigned __int128)rd_random_next(&q->random) * n >> 64);
}

static uint64_t next_unit(struct bench_queue *q, const struct bench *b)
{
	uint64_t unit = q->next;

	if (b->o->bench.random)
		return random_below(q, b->units);
	q->next = unit + 1 == q->end ? q->first : unit + 1;
	return unit;
}

static bool next_is_write(struct bench_queue *q, const struct cli_bench_options *o)
{
	if (o->read_percent == 100)
		return false;
	return o->read_percent == 0 || random_below(q, 100) >= o->read_percent;
}

static void on_done(void *user, const struct rdinit_completion *c);

/* All slots send the same block, which nothing writes to: the memory of this end is not what is
 * measured. */
static inline int bench_submit(struct bench_slot *s, const struct rdinit_ns *ns, uint32_t nlb)
{
	struct bench_queue *q = s->q;

	if (q->chan && s->write)
		return rdinit_dev_write_async(q->chan, s->lba, nlb, q->t->data, 0, on_done, s);
	if (q->chan)
		return rdinit_dev_read_async(q->chan, s->lba, nlb, s->buf, 0, on_done, s);
	if (s->write)
		return rdinit_write_async(q->qp, ns, s->lba, nlb, q->t->data, 0, on_done, s);
	return rdinit_read_async(q->qp, ns, s->lba, nlb, s->buf, 0, on_done, s);
}

static inline int bench_process(struct bench_queue *q)
{
	return q->chan ? rdinit_dev_chan_process(q->chan, 0) : rdinit_qpair_process(q->qp, 0);
}

static int bench_fd(const struct bench_queue *q)
{
	return q->chan ? rdinit_dev_chan_fd(q->chan) : rdinit_qpair_fd(q->qp);
}

static int bench_register(struct bench_queue *q, void *data, size_t len)
{
	return q->chan ? rdinit_dev_mem_register(q->chan, data, len)
		       : rdinit_mem_register(q->qp, data, len);
}

static inline void submit_slot(struct bench_slot *s)
{
	struct bench_queue *q = s->q;
	struct bench_thread *t = q->t;
	const struct bench *b = t->b;

	s->write = next_is_write(q, &b->o->bench);
	s->lba = b->start + next_unit(q, b) * b->nlb;
	s->start = t->now;
	if (bench_submit(s, &b->session.ns, b->nlb)) {
		bench_fail(t, "%s", cli_lib_text());
		return;
	}
	q->left--;
	t->busy++;
}

static void io_failed(struct bench_slot *s, const struct rdinit_completion *c)
{
	/* A lost connection does not concern the blocks that happened to be in flight. */
	if (c->err != -EIO)
		bench_fail(s->q->t, "%s", c->text);
	else
		bench_fail(s->q->t, "%s of blocks %llu to %llu: %s", s->write ? "write" : "read",
			   (unsigned long long)s->lba,
			   (unsigned long long)(s->lba + s->q->t->b->nlb - 1), c->text);
}

static void on_done(void *user, const struct rdinit_completion *c)
{
	struct bench_slot *s = user;
	struct bench_queue *q = s->q;
	struct bench_thread *t = q->t;

	t->busy--;
	if (__builtin_expect(c->err, 0)) {
		io_failed(s, c);
		return;
	}
	/* An I/O sent and completed within this batch needs a new clock reading. */
	if (!t->now || t->now == s->start)
		t->now = cli_now_ns();
	rd_hist_add(t->hist[s->write], t->now - s->start);
	if (q->left)
		submit_slot(s);
}

/* ---- looking ---- */

static bool look(struct bench_queue *q)
{
	struct bench_thread *t = q->t;
	int rc;

	if (q->broken)
		return false;
	t->now = 0;
	rc = bench_process(q);
	if (rc < 0) {
		q->broken = true;
		bench_fail(t, "%s", cli_lib_text());
		epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, bench_fd(q), NULL);
		return false;
	}
	if (rc == 0 || !t->now)
		return false;
	t->last = t->now;
	t->batches++;
	return true;
}

/* Processes the queues with completions, waiting up to @timeout_ms for one. */
static bool look_at_ready(struct bench_thread *t, int timeout_ms)
{
	struct epoll_event events[EVENTS];
	bool found = false;
	int i, n;

	n = epoll_wait(t->epoll_fd, events, EVENTS, timeout_ms);
	for (i = 0; i < n; i++) {
		if (events[i].data.ptr)
			found |= look(events[i].data.ptr);
	}
	return found;
}

static bool look_at_all(struct bench_thread *t)
{
	bool found = false;
	unsigned int i;

	if (t->n_queues > LOOK_AT_ALL)
		return look_at_ready(t, 0);
	for (i = 0; i < t->n_queues; i++)
		found |= look(&t->queues[i]);
	return found;
}

/* Sleeps until a queue has a completion or it is @deadline. Does not sleep while the thread has
 * to busy-wait. */
static void sleep_if_idle(struct bench_thread *t, uint64_t now, uint64_t deadline)
{
	uint64_t spin = t->b->o->bench.spin_ns, ms;

	if (spin == UINT64_MAX || now - t->last < spin) {
		sched_yield(); /* the target may need this processor to answer */
		return;
	}
	ms = deadline > now ? (deadline - now) / 1000000 + 1 : 0;
	look_at_ready(t, deadline == UINT64_MAX ? -1 : ms > INT32_MAX ? INT32_MAX : (int)ms);
}

/* ---- the run ---- */

static uint64_t later(uint64_t now, uint64_t ns)
{
	return ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
}

static void count_in(struct bench_thread *t, struct rd_hist *reads, struct rd_hist *writes)
{
	t->hist[0] = reads;
	t->hist[1] = writes;
}

/* Returns the time at which the measurement ends. */
static uint64_t begin_measuring(struct bench_thread *t, uint64_t now)
{
	count_in(t, &t->measured[0], &t->measured[1]);
	t->batches = 0;
	t->started = now;
	getrusage(RUSAGE_THREAD, &t->usage[0]);
	return later(now, t->b->o->bench.run_ns);
}

static void end_measuring(struct bench_thread *t, uint64_t now)
{
	getrusage(RUSAGE_THREAD, &t->usage[1]);
	t->ended = now;
	count_in(t, &t->discard, &t->discard);
}

static void show_progress(struct bench_thread *t)
{
	atomic_store_explicit(&t->done,
			      t->measured[0].count + t->measured[1].count + t->discard.count,
			      memory_order_relaxed);
}

/* Fills the queues with their first I/Os. */
static void start_bench_thread(struct bench_thread *t)
{
	unsigned int i, d;

	t->now = t->last = cli_now_ns();
	for (i = 0; i < t->n_queues; i++) {
		for (d = 0; d < t->b->o->bench.depth && t->queues[i].left; d++)
			submit_slot(&t->queues[i].slots[d]);
	}
	for (i = 0; i < t->n_queues; i++)
		look(&t->queues[i]);
}

static void measure(struct bench_thread *t)
{
	uint64_t now = cli_now_ns(), ramp = t->b->o->bench.ramp_ns, deadline;
	bool ramping = ramp > 0;

	count_in(t, &t->discard, &t->discard);
	deadline = ramping ? later(now, ramp) : begin_measuring(t, now);
	start_bench_thread(t);
	while (!atomic_load_explicit(&t->b->stop, memory_order_relaxed)) {
		bool found = look_at_all(t);

		show_progress(t);
		now = found ? t->last : cli_now_ns();
		if (t->busy == 0)
			break; /* the requested number of I/Os is reached */
		if (now >= deadline && !ramping)
			break;
		if (now >= deadline) {
			deadline = begin_measuring(t, now);
			ramping = false;
		}
		if (!found)
			sleep_if_idle(t, now, deadline);
	}
	if (ramping)
		begin_measuring(t, now); /* interrupted: nothing was measured */
	end_measuring(t, now);
}

/* Waits until the I/Os in flight have completed, or their time limit has passed. */
static void drain(struct bench_thread *t)
{
	unsigned int i;

	submit_no_more(t);
	/* stop_fd may stay readable from now on, which would prevent sleeping. */
	epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, t->b->stop_fd, NULL);
	for (i = 0; i < t->n_queues; i++)
		look(&t->queues[i]);
	while (t->busy)
		look_at_ready(t, -1);
}

/* ---- its start ---- */

static void pin(struct bench_thread *t)
{
	const struct cli_bench_options *o = &t->b->o->bench;
	cpu_set_t set;
	int rc;

	if (!o->n_cpus)
		return;
	CPU_ZERO(&set);
	CPU_SET(o->cpus[t->number % o->n_cpus], &set);
	rc = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	if (rc)
		bench_fail(t, "--cpus: CPU %u: %s", o->cpus[t->number % o->n_cpus],
			   rc == EINVAL ? "there is none, or this process may not use it"
					: strerror(rc));
}

static int watch_fd(struct bench_thread *t, int fd, void *ptr)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = ptr};

	return epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void fill_data(struct bench_thread *t)
{
	size_t len = bench_data_len(&t->b->o->bench);

	for (size_t at = 0; at < len; at += sizeof(uint64_t)) {
		uint64_t word = rd_random_next(&t->queues->random);

		memcpy(t->data + at, &word, sizeof(word));
	}
}

/* Runs on the thread that uses the buffers, so that the memory is near its CPU. */
static void prepare_thread(struct bench_thread *t)
{
	unsigned int i;

	pin(t);
	fill_data(t);
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll_fd < 0 || watch_fd(t, t->b->stop_fd, NULL))
		bench_fail(t, "epoll: %s", strerror(errno));
	for (i = 0; i < t->n_queues && !t->error[0]; i++) {
		struct bench_queue *q = &t->queues[i];

		if (bench_register(q, t->data, bench_data_len(&t->b->o->bench)))
			bench_fail(t, "%s", cli_lib_text());
		else if (watch_fd(t, bench_fd(q), q))
			bench_fail(t, "epoll: %s", strerror(errno));
	}
}

/* Waits at the barrier. Returns whether to start. */
static bool pass_gate(struct bench_gate *g)
{
	bool go;

	pthread_mutex_lock(&g->lock);
	g->ready++;
	pthread_cond_broadcast(&g->changed);
	while (g->state == BENCH_WAIT)
		pthread_cond_wait(&g->changed, &g->lock);
	go = g->state == BENCH_GO;
	pthread_mutex_unlock(&g->lock);
	return go;
}

void *bench_thread_main(void *arg)
{
	struct bench_thread *t = arg;
	uint64_t one = 1;

	prepare_thread(t);
	if (pass_gate(&t->b->gate)) {
		measure(t);
		drain(t);
	}
	if (t->epoll_fd >= 0)
		close(t->epoll_fd);
	atomic_fetch_sub(&t->b->running, 1);
	if (write(t->b->over_fd, &one, sizeof(one)) < 0)
		abort(); /* impossible: a counter of 64 bits does not overflow */
	return NULL;
}
