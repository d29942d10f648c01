/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verb bench: I/O load on a namespace, and its latencies. This file starts the threads,
 * waits for them and prints the results; bench_run.c is the work of a thread. The main thread
 * processes the controller, so that its keep-alives are sent, and handles signals.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bench.h"
#include "command.h"
#include "util/iomem.h"
#include "util/parse.h"

#define PROGRESS_MS 100

/*
 * bench --device: the same load through a device of the library. The session's own controller
 * remains, to print properties of the connection and the namespace.
 */

/* The URI of the target to which the session is connected, whether it was given as a URI or by
 * options. */
static void bench_device_uri(const struct bench *b, struct rdinit_uri *uri)
{
	const struct rdinit_ctrl_opts *ctrl = &b->o->ctrl;

	rdinit_uri_init(uri);
	snprintf(uri->traddr, sizeof(uri->traddr), "%s", ctrl->traddr);
	/* Normalised, because leading zeroes could make the text longer than the member. */
	snprintf(uri->trsvcid, sizeof(uri->trsvcid), "%u",
		 (uint16_t)strtoul(ctrl->trsvcid ? ctrl->trsvcid : "4420", NULL, 10));
	snprintf(uri->subnqn, sizeof(uri->subnqn), "%s", ctrl->subnqn);
	uri->nsid = b->session.ns.nsid;
	uri->tcp = ctrl->tcp;
}

static int bench_device_create(struct bench *b)
{
	const struct cli_options *o = b->o;
	struct rdinit_dev_opts opts;
	struct rdinit_uri uri;

	rdinit_dev_opts_init(&opts);
	opts.ctrl = &o->ctrl;
	opts.channels = (uint16_t)b->n_queues;
	opts.queue_size = o->qpair.queue_size;
	opts.io_timeout_ms = o->qpair.io_timeout_ms;
	bench_device_uri(b, &uri);
	if (rdinit_dev_create(&opts, &b->dev) || rdinit_dev_add_path(b->dev, &uri, NULL) < 0 ||
	    rdinit_dev_open(b->dev))
		return cli_lib_error();
	return CLI_OK;
}

static int bench_device_open(struct bench *b)
{
	unsigned int i;
	int rc = bench_device_create(b);

	for (i = 0; !rc && i < b->n_queues; i++)
		if (rdinit_dev_chan_create(b->dev, &b->queues[i].chan))
			rc = cli_lib_error();
	return rc;
}

static void bench_device_close(struct bench *b)
{
	unsigned int i;

	for (i = 0; b->queues && i < b->n_queues; i++)
		rdinit_dev_chan_free(&b->queues[i].chan);
	if (b->dev)
		rdinit_dev_close(b->dev);
	rdinit_dev_free(&b->dev);
}

/* ---- what to do where ---- */

static int choose_region(struct bench *b)
{
	const struct rdinit_ns *ns = &b->session.ns;
	const struct cli_options *o = b->o;
	uint64_t bs = ns->block_size, size = cli_num(o, CLI_ARG_DATA_LEN, 0), blocks,
		 offset = cli_num(o, CLI_ARG_OFFSET, 0);
	uint64_t first = cli_num(o, CLI_ARG_START, offset / bs);
	bool has_size = cli_given(o, CLI_ARG_DATA_LEN);

	if (o->bench.block_size > b->session.info.max_transfer)
		return cli_error("--block-size: %llu bytes are more than the controller transfers "
				 "in one command (MDTS: %u bytes); give at most that",
				 (unsigned long long)o->bench.block_size,
				 b->session.info.max_transfer);
	if (o->bench.block_size % bs)
		return cli_error("--block-size: %llu bytes are not a multiple of the namespace's "
				 "block, %u bytes",
				 (unsigned long long)o->bench.block_size, ns->block_size);
	if (offset % bs || size % bs)
		return cli_error("--offset and --data-size have to be multiples of the namespace's "
				 "block, %u bytes",
				 ns->block_size);
	blocks = first < ns->blocks ? ns->blocks - first : 0;
	if (size / bs > blocks)
		return cli_error("%llu bytes do not fit between the start and the end of namespace "
				 "%u (%llu blocks of %u bytes)",
				 (unsigned long long)size, ns->nsid, (unsigned long long)ns->blocks,
				 ns->block_size);
	if (has_size)
		blocks = size / bs;
	b->nlb = (uint32_t)(o->bench.block_size / bs);
	b->start = first;
	b->units = blocks / b->nlb;
	if (!b->units)
		return cli_error("the region has no room for one I/O of %llu bytes (namespace %u: "
				 "%llu blocks of %u bytes)",
				 (unsigned long long)o->bench.block_size, ns->nsid,
				 (unsigned long long)ns->blocks, ns->block_size);
	return CLI_OK;
}

/* Fails if the controller grants less than requested: the results would be misleading. */
static int check_session(const struct bench *b)
{
	const struct cli_session *s = &b->session;
	unsigned int i;

	if (b->n_queues < b->o->ctrl.nr_io_queues)
		return cli_error("%s: the controller grants %u I/O queues, not %u", s->info.address,
				 b->n_queues, b->o->ctrl.nr_io_queues);
	for (i = 0; i < s->n_qp; i++) {
		if (rdinit_qpair_depth(s->qp[i]) < b->o->bench.depth)
			return cli_error("%s: queue %u takes %u commands at a time, --depth asks "
					 "for %u",
					 s->info.address, rdinit_qpair_id(s->qp[i]),
					 rdinit_qpair_depth(s->qp[i]), b->o->bench.depth);
	}
	return CLI_OK;
}

/* The first unit of the part of the region that queue @number reads or writes sequentially. */
static uint64_t part_start(const struct bench *b, unsigned int number)
{
	return (uint64_t)((unsigned __int128)b->units * number / b->n_queues);
}

static void init_bench_queue(struct bench *b, struct bench_thread *t, unsigned int number)
{
	const struct cli_bench_options *o = &b->o->bench;
	struct bench_queue *q = &b->queues[number];
	uint64_t n = b->n_queues;
	unsigned int i;

	q->t = t;
	q->qp = o->device ? NULL : b->session.qp[number];
	rd_random_init(&q->random, o->seed * UINT64_C(0xd1342543de82ef95) + number);
	q->left = UINT64_MAX;
	if (o->io_count)
		q->left = o->io_count / n + (number < o->io_count % n);
	q->first = part_start(b, number);
	q->end = part_start(b, number + 1);
	if (q->first == q->end) { /* fewer I/Os than queues */
		q->first = 0;
		q->end = b->units;
	}
	q->next = q->first;
	q->slots = &b->slots[(size_t)number * o->depth];
	for (i = 0; i < o->depth; i++) {
		q->slots[i].q = q;
		q->slots[i].buf = t->data + (size_t)(i + 1) * o->block_size;
	}
}

/* Distributes the queues evenly over the threads. */
static int init_threads(struct bench *b)
{
	const struct cli_bench_options *o = &b->o->bench;
	unsigned int n = b->n_queues, i, next = 0;
	size_t slots = (size_t)n * o->depth;

	b->n_threads = o->threads;
	b->threads = calloc(b->n_threads, sizeof(*b->threads));
	b->queues = calloc(n, sizeof(*b->queues));
	b->slots = calloc(slots, sizeof(*b->slots));
	b->data_len = b->n_threads * bench_data_len(o);
	b->data = rd_iomem_map(b->data_len);
	if (!b->threads || !b->queues || !b->slots || !b->data)
		return cli_error("no memory for %zu I/Os of %llu bytes", slots,
				 (unsigned long long)o->block_size);
	for (i = 0; i < b->n_threads; i++) {
		struct bench_thread *t = &b->threads[i];

		*t = (struct bench_thread){.b = b, .number = i, .epoll_fd = -1};
		t->data = b->data + i * bench_data_len(o);
		t->queues = &b->queues[next];
		t->n_queues = n / b->n_threads + (i < n % b->n_threads);
		while (next < (unsigned int)(t->queues - b->queues) + t->n_queues)
			init_bench_queue(b, t, next++);
	}
	return CLI_OK;
}

static int init(struct bench *b)
{
	b->stop_fd = eventfd(0, EFD_CLOEXEC);
	b->over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->stop_fd < 0 || b->over_fd < 0)
		return cli_error("eventfd: %s", strerror(errno));
	return init_threads(b);
}

static void fini(struct bench *b)
{
	rd_iomem_unmap(b->data, b->data_len);
	free(b->slots);
	free(b->queues);
	free(b->threads);
	if (b->stop_fd >= 0)
		close(b->stop_fd);
	if (b->over_fd >= 0)
		close(b->over_fd);
}

/* ---- running it ---- */

/* Releases the waiting threads: all start, or none if one could not be prepared. */
static void open_gate(struct bench *b, unsigned int started)
{
	struct bench_gate *g = &b->gate;

	pthread_mutex_lock(&g->lock);
	while (g->ready < started)
		pthread_cond_wait(&g->changed, &g->lock);
	g->state = atomic_load(&b->stop) ? BENCH_CANCEL : BENCH_GO;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

static uint64_t bytes_done(const struct bench *b)
{
	uint64_t ios = 0;
	unsigned int i;

	for (i = 0; i < b->n_threads; i++)
		ios += atomic_load_explicit(&b->threads[i].done, memory_order_relaxed);
	return ios * b->o->bench.block_size;
}

/* Processes the controller until all threads have ended. */
static int watch_over(struct bench *b, struct cli_progress *progress)
{
	struct pollfd fds[] = {
		{.fd = rdinit_ctrl_fd(b->session.ctrl), .events = POLLIN},
		{.fd = b->interrupt.fd, .events = POLLIN},
		{.fd = b->over_fd, .events = POLLIN},
	};
	uint64_t over;
	int rc = CLI_OK;

	while (atomic_load(&b->running)) {
		if (rc == CLI_OK && rdinit_ctrl_process(b->session.ctrl, 0) < 0) {
			cli_progress_clear(progress);
			rc = cli_lib_error();
			bench_stop(b);
			fds[0].fd = -1;
		}
		if (cli_signals_check(&b->interrupt)) {
			bench_stop(b);
			fds[1].fd = -1;
		}
		cli_progress_update(progress, bytes_done(b));
		if (poll(fds, sizeof(fds) / sizeof(fds[0]), progress->on ? PROGRESS_MS : -1) < 0 &&
		    errno != EINTR) {
			rc = cli_error("poll: %s", strerror(errno));
			bench_stop(b);
			break;
		}
		if (read(b->over_fd, &over, sizeof(over)) < 0)
			/* the descriptor only wakes this loop; @running is the number of threads */
			continue;
	}
	return rc;
}

/* Reports one error: when a target goes away, every thread has one. */
static int first_error(const struct bench *b)
{
	unsigned int i;

	for (i = 0; i < b->n_threads; i++) {
		if (b->threads[i].error[0])
			return cli_error("%s", b->threads[i].error);
	}
	return CLI_OK;
}

static int run_bench(struct bench *b)
{
	struct cli_progress progress;
	unsigned int i;
	int rc = CLI_OK, err;

	pthread_mutex_init(&b->gate.lock, NULL);
	pthread_cond_init(&b->gate.changed, NULL);
	cli_signals_start(&b->interrupt);
	cli_progress_start(&progress, !cli_given(b->o, CLI_ARG_NO_PROGRESS), 0);
	for (i = 0; i < b->n_threads; i++) {
		atomic_fetch_add(&b->running, 1);
		err = pthread_create(&b->threads[i].id, NULL, bench_thread_main, &b->threads[i]);
		if (!err)
			continue;
		rc = cli_error("thread %u: %s", i, strerror(err));
		atomic_fetch_sub(&b->running, 1);
		bench_stop(b);
		break;
	}
	open_gate(b, i);
	if (rc == CLI_OK)
		rc = watch_over(b, &progress);
	while (i > 0)
		pthread_join(b->threads[--i].id, NULL);
	cli_progress_clear(&progress);
	cli_signals_end(&b->interrupt);
	pthread_cond_destroy(&b->gate.changed);
	pthread_mutex_destroy(&b->gate.lock);
	return rc ? rc : first_error(b);
}

/* ---- results ---- */

struct totals {
	struct rd_hist all, dir[2]; /* together; reads, writes */
	double elapsed; /* seconds, from the start of the first thread to the end of the last one */
	double user, system;
	long voluntary, involuntary;
	uint64_t batches;
};

static const struct {
	const char *name;
	double percent;
} percentiles[] = {{"50", 50}, {"90", 90}, {"99", 99}, {"99.9", 99.9}, {"99.99", 99.99}};

#define N_PERCENTILES (sizeof(percentiles) / sizeof(percentiles[0]))

static double seconds(const struct timeval *from, const struct timeval *to)
{
	return (double)(to->tv_sec - from->tv_sec) + (double)(to->tv_usec - from->tv_usec) / 1e6;
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static void add_up(const struct bench *b, struct totals *sum)
{
	uint64_t first = UINT64_MAX, last = 0;
	unsigned int i;

	for (i = 0; i < b->n_threads; i++) {
		const struct bench_thread *t = &b->threads[i];
		const struct rusage *u = t->usage;

		rd_hist_merge(&sum->dir[0], &t->measured[0]);
		rd_hist_merge(&sum->dir[1], &t->measured[1]);
		first = t->started < first ? t->started : first;
		last = t->ended > last ? t->ended : last;
		sum->user += seconds(&u[0].ru_utime, &u[1].ru_utime);
		sum->system += seconds(&u[0].ru_stime, &u[1].ru_stime);
		sum->voluntary += u[1].ru_nvcsw - u[0].ru_nvcsw;
		sum->involuntary += u[1].ru_nivcsw - u[0].ru_nivcsw;
		sum->batches += t->batches;
	}
	rd_hist_merge(&sum->all, &sum->dir[0]);
	rd_hist_merge(&sum->all, &sum->dir[1]);
	sum->elapsed = last > first ? (double)(last - first) / 1e9 : 0;
}

/* ---- JSON ---- */

static json_t *json_latency(const struct rd_hist *h)
{
	json_t *points = json_object();
	size_t i;

	for (i = 0; i < N_PERCENTILES; i++)
		json_object_set_new(
			points, percentiles[i].name,
			json_integer((json_int_t)rd_hist_percentile(h, percentiles[i].percent)));
	return json_pack("{s:f, s:f, s:I, s:I, s:o}", "mean", rd_hist_mean(h), "stddev",
			 sqrt(rd_hist_variance(h)), "min", (json_int_t)rd_hist_min(h), "max",
			 (json_int_t)h->max, "percentiles", points);
}

static json_t *json_rates(const struct bench *b, const struct totals *sum, const struct rd_hist *h)
{
	uint64_t bytes = h->count * b->o->bench.block_size;

	return json_pack("{s:I, s:I, s:f, s:f, s:o}", "ios", (json_int_t)h->count, "bytes",
			 (json_int_t)bytes, "iops", ratio((double)h->count, sum->elapsed),
			 "bytes_per_second", ratio((double)bytes, sum->elapsed), "latency_ns",
			 json_latency(h));
}

static const char *poll_text(const struct cli_bench_options *o)
{
	return o->spin_ns == UINT64_MAX ? "always" : o->spin_ns ? "adaptive" : "never";
}

static json_t *json_options(const struct bench *b)
{
	const struct cli_bench_options *o = &b->o->bench;
	uint32_t bs = b->session.ns.block_size;

	return json_pack(
		"{s:s, s:i, s:I, s:i, s:b, s:i, s:i, s:s, s:I, s:f, s:f, s:I, s:I, s:I, s:I}", "rw",
		o->rw, "read_percent", (int)o->read_percent, "block_size",
		(json_int_t)o->block_size, "depth", (int)o->depth, "device", (int)o->device,
		"queues", (int)b->n_queues, "threads", (int)b->n_threads, "poll", poll_text(o),
		"poll_ns", (json_int_t)(o->spin_ns == UINT64_MAX ? 0 : o->spin_ns), "run_seconds",
		o->run_ns == UINT64_MAX ? 0 : (double)o->run_ns / 1e9, "ramp_seconds",
		(double)o->ramp_ns / 1e9, "io_count", (json_int_t)o->io_count, "seed",
		(json_int_t)o->seed, "start", (json_int_t)(b->start * bs), "length",
		(json_int_t)(b->units * o->block_size));
}

static json_t *json_cpu(const struct totals *sum)
{
	double cpu = sum->user + sum->system;

	return json_pack("{s:f, s:f, s:f, s:f, s:I, s:I}", "user_seconds", sum->user,
			 "system_seconds", sum->system, "ns_per_io",
			 ratio(cpu * 1e9, (double)sum->all.count), "utilization",
			 ratio(cpu, sum->elapsed), "voluntary_switches", (json_int_t)sum->voluntary,
			 "involuntary_switches", (json_int_t)sum->involuntary);
}

static json_t *json_report(const struct bench *b, const struct totals *sum)
{
	const struct cli_session *s = &b->session;
	json_t *json = json_pack("{s:s, s:s, s:s, s:I, s:o, s:b, s:f}", "operation", "bench",
				 "address", s->info.address, "provider", s->info.provider, "nsid",
				 (json_int_t)s->ns.nsid, "options", json_options(b), "interrupted",
				 b->interrupt.signo != 0, "elapsed_seconds", sum->elapsed);
	json_t *rates = json_rates(b, sum, &sum->all);

	if (!json || !rates || json_object_update(json, rates) ||
	    json_object_set_new(json, "read", json_rates(b, sum, &sum->dir[0])) ||
	    json_object_set_new(json, "write", json_rates(b, sum, &sum->dir[1])) ||
	    json_object_set_new(json, "cpu", json_cpu(sum)) ||
	    json_object_set_new(json, "batches", json_integer((json_int_t)sum->batches)) ||
	    json_object_set_new(json, "ios_per_batch",
				json_real(ratio((double)sum->all.count, (double)sum->batches)))) {
		json_decref(json);
		json = NULL;
	}
	json_decref(rates);
	return json;
}

/* ---- for people ---- */

static void print_direction(const struct bench *b, const struct totals *sum, const char *name,
			    const struct rd_hist *h)
{
	char rate[RD_SIZE_TEXT];
	double iops = ratio((double)h->count, sum->elapsed);
	size_t i;

	if (!h->count)
		return;
	rd_format_size((uint64_t)(iops * (double)b->o->bench.block_size), rate);
	printf("%-5s: %.0f IOPS, %s/s, %llu I/Os\n", name, iops, rate,
	       (unsigned long long)h->count);
	printf("       latency in us: mean %.1f, stddev %.1f, min %.1f, max %.1f\n",
	       rd_hist_mean(h) / 1e3, sqrt(rd_hist_variance(h)) / 1e3, (double)rd_hist_min(h) / 1e3,
	       (double)h->max / 1e3);
	printf("       percentiles:");
	for (i = 0; i < N_PERCENTILES; i++)
		printf(" %s%% %.1f%s", percentiles[i].name,
		       (double)rd_hist_percentile(h, percentiles[i].percent) / 1e3,
		       i + 1 < N_PERCENTILES ? "," : "\n");
}

static void print_report(const struct bench *b, const struct totals *sum)
{
	const struct cli_bench_options *o = &b->o->bench;
	double cpu = sum->user + sum->system;

	printf("%s, %llu bytes, depth %u, %u queue%s%s, %u thread%s: %s (%s), namespace %u, "
	       "%.3f s%s\n",
	       o->rw, (unsigned long long)o->block_size, o->depth, b->n_queues,
	       b->n_queues == 1 ? "" : "s", o->device ? " of a device" : "", b->n_threads,
	       b->n_threads == 1 ? "" : "s", b->session.info.address, b->session.info.provider,
	       b->session.ns.nsid, sum->elapsed, b->interrupt.signo ? ", interrupted" : "");
	if (!sum->all.count)
		printf("no I/O completed in that time\n");
	print_direction(b, sum, "read", &sum->dir[0]);
	print_direction(b, sum, "write", &sum->dir[1]);
	printf("cpu  : %.2f us per I/O (%.0f %% user, %.0f %% system), %.1f I/Os at a time\n",
	       ratio(cpu * 1e6, (double)sum->all.count), ratio(sum->user * 100, sum->elapsed),
	       ratio(sum->system * 100, sum->elapsed),
	       ratio((double)sum->all.count, (double)sum->batches));
}

static int bench_report(const struct bench *b)
{
	struct totals *sum = calloc(1, sizeof(*sum));
	int rc;

	if (!sum)
		return cli_error("out of memory");
	add_up(b, sum);
	if (b->o->format == CLI_JSON) {
		rc = cli_print_json(json_report(b, sum), stdout);
	} else {
		print_report(b, sum);
		rc = cli_finish_output();
	}
	free(sum);
	return rc;
}

/* ---- the verb ---- */

/* Each queue has descriptors, so raise the limit to what the system allows. */
static void raise_nofile(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < lim.rlim_max) {
		lim.rlim_cur = lim.rlim_max;
		setrlimit(RLIMIT_NOFILE, &lim);
	}
}

static int open_session(struct bench *b)
{
	const struct cli_options *o = b->o;
	int rc;

	if (!o->bench.device) {
		rc = cli_session_open_io(&b->session, o);
		b->n_queues = b->session.n_qp;
		return rc;
	}
	b->n_queues = o->ctrl.nr_io_queues;
	if (b->n_queues > b->session.info.io_queues)
		b->n_queues = b->session.info.io_queues;
	return cli_session_open_ns(&b->session, o);
}

int cli_bench(const struct cli_options *o)
{
	struct bench b = {.o = o, .stop_fd = -1, .over_fd = -1};
	int rc;

	raise_nofile();
	rc = cli_session_open(&b.session, o);
	if (rc)
		return rc;
	rc = open_session(&b);
	if (!rc)
		rc = check_session(&b);
	if (!rc)
		rc = choose_region(&b);
	if (!rc)
		rc = init(&b);
	if (!rc && o->bench.device)
		rc = bench_device_open(&b);
	if (!rc)
		rc = run_bench(&b);
	if (!rc)
		rc = bench_report(&b);
	bench_device_close(&b);
	cli_session_close(&b.session);
	fini(&b);
	cli_signals_die(&b.interrupt);
	return rc;
}
