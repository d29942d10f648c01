/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verified mixed I/O on a device (rdinit_dev.h), while a test does things to the target and the
 * network. Each thread has a channel and several slots; each slot has blocks of its own, one
 * command at a time, and knows what has to be in its blocks. Runs until standard input ends; then
 * it reads all blocks once more.
 *
 *   rddev [--OPTION NUMBER]... URI...
 *
 * RDDEV_HOSTNQN in the environment names the host, RDDEV_SECRET_FILE and RDDEV_CTRL_SECRET_FILE
 * the files with its secrets.
 *
 * Standard error: "event ..." for each event, "ops ..." while commands end, and at the end
 * "verified". An "f" on standard input forks a child that frees its copies; another byte asks
 * for a line "latency ..." about the commands since the last one. Exit status 1 after a wrong byte
 * or an error that the options do not allow.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdinit_auth.h>
#include <rdinit_dev.h>

#define SLOT_BLOCKS 64u
#define MAX_BLOCKS  16u /* of one command */
#define THREADS_MAX 8

struct settings {
	unsigned int threads, slots, seed;
	bool no_compare; /* these cannot be sent again */
	bool unknown_ok; /* lost writes end with -EREMOTEIO */
	bool discovery;  /* the URIs are those of discovery controllers */
	bool errors_ok;  /* commands may end with -ENOTCONN or -ENODEV */
	struct rdinit_ctrl_opts ctrl;
	struct rdinit_auth_opts auth;
	struct rdinit_dev_opts dev;
};

/* What a block contains: the generation @sure, or, after a write whose result is unknown, possibly
 * @maybe. */
struct model {
	uint32_t sure, maybe;
};

struct worker;

struct slot {
	struct worker *w;
	uint64_t lba; /* of its first block */
	struct model model[SLOT_BLOCKS];
	uint32_t generation;
	enum rdinit_dev_op op;
	uint32_t first, n;
	struct timespec since;
	atomic_long since_ms; /* the same; 0: not busy */
	unsigned char *buf;
	bool busy;
};

struct worker {
	struct rdinit_dev *dev;
	const struct settings *set;
	pthread_t thread;
	_Atomic(struct rdinit_dev_chan *) chan; /* NULL before it is open */
	struct slot *slots;
	unsigned int random;
	uint32_t block_size;
	uint64_t base;
	bool write_zeroes, compare;
	bool pause; /* a command has failed: later ones would fail too */
};

static atomic_bool stop;
static atomic_bool failed;
static atomic_ulong ops, reads, writes, unknown, errors;
static atomic_long slowest_ms, slowest_lately_ms;

/* Latencies in microseconds: 16 buckets for each power of two. */
#define BUCKETS 512u
static atomic_ulong latency[BUCKETS];

static void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void complain(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "rddev: %s\n", text);
	atomic_store(&failed, true);
	atomic_store(&stop, true);
}

/* ---- contents ---- */

static void fill(unsigned char *block, uint32_t size, uint64_t lba, uint32_t generation)
{
	uint64_t word[2] = {lba, generation};
	uint32_t at;

	for (at = 0; at < size; at += (uint32_t)sizeof(word))
		memcpy(block + at, word, sizeof(word));
	if (generation == 0)
		memset(block, 0, size);
}

static bool holds(const struct slot *s, uint32_t i, const unsigned char *block, uint32_t generation)
{
	unsigned char want[65536];

	fill(want, s->w->block_size, s->lba + i, generation);
	return memcmp(block, want, s->w->block_size) == 0;
}

static void verify(struct slot *s)
{
	uint32_t i, size = s->w->block_size;

	for (i = s->first; i < s->first + s->n; i++) {
		struct model *m = &s->model[i];
		const unsigned char *block = s->buf + (size_t)(i - s->first) * size;
		uint64_t word[2];

		if (holds(s, i, block, m->sure)) {
			m->maybe = m->sure;
		} else if (holds(s, i, block, m->maybe)) {
			m->sure = m->maybe;
		} else {
			memcpy(word, block, sizeof(word));
			complain("block %llu: expected generation %u or %u, found block %llu, "
				 "generation %llu",
				 (unsigned long long)s->lba + i, m->sure, m->maybe,
				 (unsigned long long)word[0], (unsigned long long)word[1]);
			return;
		}
	}
}

/* ---- commands ---- */

static unsigned int next_random(struct worker *w)
{
	w->random = w->random * 1103515245u + 12345u;
	return w->random >> 8;
}

static unsigned int bucket_of(unsigned long us)
{
	unsigned int shift = 0;

	while (us >> shift >= 32)
		shift++;
	return shift * 16 + (unsigned int)(us >> shift);
}

/* The first value of the bucket. */
static unsigned long bucket_start(unsigned int bucket)
{
	return bucket < 32 ? bucket : (16ul + bucket % 16) << (bucket / 16 - 1);
}

static void note_time(const struct slot *s)
{
	struct timespec now;
	long us, ms, was = atomic_load(&slowest_ms), lately = atomic_load(&slowest_lately_ms);

	clock_gettime(CLOCK_MONOTONIC, &now);
	us = (long)(now.tv_sec - s->since.tv_sec) * 1000000 +
	     (now.tv_nsec - s->since.tv_nsec) / 1000;
	atomic_fetch_add(&latency[bucket_of((unsigned long)us)], 1);
	ms = us / 1000;
	while (ms > was && !atomic_compare_exchange_weak(&slowest_ms, &was, ms))
		;
	while (ms > lately && !atomic_compare_exchange_weak(&slowest_lately_ms, &lately, ms))
		;
}

static void command_failed(struct slot *s, const struct rdinit_completion *c)
{
	const struct settings *set = s->w->set;
	bool changes = s->op == RDINIT_DEV_WRITE || s->op == RDINIT_DEV_WRITE_ZEROES;

	if (c->err == -EREMOTEIO && (s->op == RDINIT_DEV_COMPARE || (set->unknown_ok && changes))) {
		atomic_fetch_add(&unknown, 1);
		return;
	}
	atomic_fetch_add(&errors, 1);
	s->w->pause = true;
	if (!set->errors_ok || (c->err != -ENOTCONN && c->err != -ENODEV))
		complain("error %d: %s", c->err, c->text);
}

static void done(void *user, const struct rdinit_completion *c)
{
	struct slot *s = user;
	uint32_t i;

	s->busy = false;
	atomic_store(&s->since_ms, 0);
	atomic_fetch_add(&ops, 1);
	note_time(s);
	if (c->err) {
		command_failed(s, c);
		return; /* a write: maybe */
	}
	if (s->op == RDINIT_DEV_READ) {
		atomic_fetch_add(&reads, 1);
		verify(s);
	}
	if (s->op != RDINIT_DEV_WRITE && s->op != RDINIT_DEV_WRITE_ZEROES)
		return;
	atomic_fetch_add(&writes, 1);
	for (i = s->first; i < s->first + s->n; i++)
		s->model[i].sure = s->model[i].maybe;
}

static bool is_sure(const struct slot *s)
{
	uint32_t i;

	for (i = s->first; i < s->first + s->n; i++)
		if (s->model[i].sure != s->model[i].maybe)
			return false;
	return true;
}

static void choose(struct slot *s)
{
	struct worker *w = s->w;
	unsigned int dice = next_random(w) % 100;

	s->first = next_random(w) % SLOT_BLOCKS;
	s->n = 1 + next_random(w) % MAX_BLOCKS;
	if (s->n > SLOT_BLOCKS - s->first)
		s->n = SLOT_BLOCKS - s->first;
	/* A block with unknown content must be read before it is written again. */
	s->op = RDINIT_DEV_READ;
	if (dice < 40 || !is_sure(s))
		return;
	if (dice < 80)
		s->op = RDINIT_DEV_WRITE;
	else if (dice < 88 && w->write_zeroes)
		s->op = RDINIT_DEV_WRITE_ZEROES;
	else if (dice < 92)
		s->op = RDINIT_DEV_FLUSH;
	else if (w->compare)
		s->op = RDINIT_DEV_COMPARE;
}

static void prepare(struct slot *s)
{
	uint32_t i, generation = 0, size = s->w->block_size;

	if (s->op == RDINIT_DEV_WRITE)
		generation = ++s->generation;
	for (i = s->first; i < s->first + s->n; i++) {
		unsigned char *block = s->buf + (size_t)(i - s->first) * size;

		if (s->op == RDINIT_DEV_READ)
			memset(block, 0xee, size);
		else if (s->op == RDINIT_DEV_COMPARE)
			fill(block, size, s->lba + i, s->model[i].sure);
		else if (s->op == RDINIT_DEV_WRITE)
			fill(block, size, s->lba + i, generation);
		if (s->op == RDINIT_DEV_WRITE || s->op == RDINIT_DEV_WRITE_ZEROES)
			s->model[i].maybe = generation;
	}
}

static int start(struct rdinit_dev_chan *chan, struct slot *s)
{
	struct rdinit_dev_io io;
	int rc;

	rdinit_dev_io_init(&io);
	io.op = s->op;
	if (s->op != RDINIT_DEV_FLUSH) {
		io.lba = s->lba + s->first;
		io.nblocks = s->n;
		io.buf = s->buf;
	}
	prepare(s);
	clock_gettime(CLOCK_MONOTONIC, &s->since);
	atomic_store(&s->since_ms, s->since.tv_sec * 1000 + s->since.tv_nsec / 1000000);
	rc = rdinit_dev_submit(chan, &io, done, s, NULL);
	if (rc)
		complain("%s", rdinit_get_error());
	else
		s->busy = true;
	return rc;
}

static bool any_busy(const struct worker *w)
{
	unsigned int i;

	for (i = 0; i < w->set->slots; i++)
		if (w->slots[i].busy)
			return true;
	return false;
}

/* Commands until the end of the input; then a command that reads each slot's blocks. */
static void run(struct worker *w, struct rdinit_dev_chan *chan)
{
	unsigned int i;

	while (!atomic_load(&stop) || any_busy(w)) {
		w->pause = false;
		for (i = 0; i < w->set->slots && !atomic_load(&stop); i++) {
			if (w->slots[i].busy)
				continue;
			choose(&w->slots[i]);
			if (start(chan, &w->slots[i]))
				return;
		}
		do {
			if (rdinit_dev_chan_process(chan, 100) < 0) {
				complain("%s", rdinit_get_error());
				return;
			}
		} while (w->pause && any_busy(w));
	}
	for (i = 0; i < w->set->slots * (SLOT_BLOCKS / MAX_BLOCKS) && !atomic_load(&failed); i++) {
		struct slot *s = &w->slots[i / (SLOT_BLOCKS / MAX_BLOCKS)];

		s->op = RDINIT_DEV_READ;
		s->first = i % (SLOT_BLOCKS / MAX_BLOCKS) * MAX_BLOCKS;
		s->n = MAX_BLOCKS;
		if (start(chan, s))
			return;
		while (s->busy && rdinit_dev_chan_process(chan, -1) >= 0)
			;
	}
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct rdinit_dev_chan *chan;
	unsigned int i;

	w->slots = calloc(w->set->slots, sizeof(*w->slots));
	for (i = 0; w->slots && i < w->set->slots; i++) {
		struct slot *s = &w->slots[i];

		s->w = w;
		s->lba = w->base + (uint64_t)i * SLOT_BLOCKS;
		s->buf = malloc((size_t)MAX_BLOCKS * w->block_size);
		if (!s->buf)
			abort();
	}
	if (!w->slots)
		abort();
	if (rdinit_dev_chan_create(w->dev, &chan)) {
		complain("%s", rdinit_get_error());
	} else {
		atomic_store(&w->chan, chan);
		run(w, chan);
		rdinit_dev_chan_free(&chan);
	}
	return NULL;
}

/* ---- main ---- */

static void on_event(void *user, const struct rdinit_dev_event *ev)
{
	(void)user;
	if (ev->type == RDINIT_DEV_EVENT_STATE)
		fprintf(stderr, "event device %s\n", rdinit_dev_state_name(ev->state));
	else if (ev->type == RDINIT_DEV_EVENT_PATH)
		fprintf(stderr, "event path %d %s: %s\n", ev->path,
			rdinit_dev_path_state_name(ev->path_state), ev->text);
	else if (ev->type == RDINIT_DEV_EVENT_ANA)
		fprintf(stderr, "event ana %d %s\n", ev->path,
			rdinit_dev_ana_state_name(ev->ana_state));
	else
		fprintf(stderr, "event resized %llu\n", (unsigned long long)ev->blocks);
}

static bool take_option(struct settings *set, const char *name, unsigned int n)
{
	const struct {
		const char *name;
		uint32_t *to;
	} numbers[] = {
		{"--threads", &set->threads},
		{"--slots", &set->slots},
		{"--seed", &set->seed},
		{"--keep-alive-tmo", &set->ctrl.keep_alive_tmo_ms},
		{"--connect-timeout", &set->ctrl.connect_timeout_ms},
		{"--io-timeout", &set->dev.io_timeout_ms},
		{"--reconnect-delay", &set->dev.reconnect_delay_ms},
		{"--ctrl-loss-tmo", &set->dev.ctrl_loss_tmo_ms},
		{"--fast-io-fail-tmo", &set->dev.fast_io_fail_tmo_ms},
	};
	size_t i;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (strcmp(name, numbers[i].name) == 0) {
			*numbers[i].to = n;
			return true;
		}
	}
	if (strcmp(name, "--policy") == 0)
		set->dev.policy = (enum rdinit_dev_policy)n;
	else if (strcmp(name, "--no-resend") == 0)
		set->dev.no_resend_writes = set->unknown_ok = n != 0;
	else if (strcmp(name, "--no-compare") == 0)
		set->no_compare = n != 0;
	else if (strcmp(name, "--discovery") == 0)
		set->discovery = n != 0;
	else if (strcmp(name, "--errors-ok") == 0)
		set->errors_ok = n != 0;
	else
		return false;
	return true;
}

static void take_environment(struct settings *set)
{
	set->ctrl.hostnqn = getenv("RDDEV_HOSTNQN");
	rdinit_auth_opts_init(&set->auth);
	set->auth.secret_file = getenv("RDDEV_SECRET_FILE");
	set->auth.ctrl_secret_file = getenv("RDDEV_CTRL_SECRET_FILE");
	if (set->auth.secret_file)
		set->ctrl.auth = &set->auth;
}

static int open_device(struct settings *set, char **uris, struct rdinit_dev **dev)
{
	struct rdinit_uri uri;
	int rc;

	set->dev.ctrl = &set->ctrl;
	set->dev.event_fn = on_event;
	set->dev.channels = (uint16_t)set->threads;
	rc = rdinit_dev_create(&set->dev, dev);
	for (; rc >= 0 && *uris; uris++) {
		rdinit_uri_init(&uri);
		rc = rdinit_uri_parse(*uris, &uri);
		if (rc == 0)
			rc = set->discovery ? rdinit_dev_add_discovery(*dev, &uri, NULL)
					    : rdinit_dev_add_path(*dev, &uri, NULL);
	}
	return rc < 0 ? rc : rdinit_dev_open(*dev);
}

/* The age of the command that has been in flight for longest. */
static long oldest_ms(const struct worker *workers, unsigned int n)
{
	struct timespec now;
	long now_ms, age = 0;

	clock_gettime(CLOCK_MONOTONIC, &now);
	now_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
	for (unsigned int i = 0; i < n; i++) {
		if (!atomic_load(&workers[i].chan))
			continue;
		for (unsigned int j = 0; j < workers[i].set->slots; j++) {
			long since = atomic_load(&workers[i].slots[j].since_ms);

			if (since && now_ms - since > age)
				age = now_ms - since;
		}
	}
	return age;
}

/* Of the commands since the last call. */
static void report_latency(const struct worker *workers, unsigned int n)
{
	static const unsigned int permille[] = {500, 990, 999};
	unsigned long count[BUCKETS], total = 0, at[3] = {0};
	unsigned int i, k;

	for (i = 0; i < BUCKETS; i++)
		total += count[i] = atomic_exchange(&latency[i], 0);
	for (k = 0; k < 3; k++) {
		unsigned long left = (total * permille[k] + 999) / 1000;

		for (i = 0; i < BUCKETS - 1 && left > count[i]; i++)
			left -= count[i];
		at[k] = bucket_start(i);
	}
	fprintf(stderr,
		"latency of %lu commands p50 %lu p99 %lu p999 %lu us slowest %ld ms in flight for "
		"%ld ms\n",
		total, at[0], at[1], at[2], atomic_exchange(&slowest_lately_ms, 0),
		oldest_ms(workers, n));
}

/* In a child: nothing works on the copies of handles, and freeing them does no harm. */
static int use_copies(struct rdinit_dev *dev, struct worker *workers, unsigned int n)
{
	struct rdinit_dev_chan *chan;
	static char block[65536];
	unsigned int i;

	for (i = 0; i < n; i++) {
		chan = atomic_load(&workers[i].chan);
		if (rdinit_dev_read(chan, 0, 1, block, 0) != -ECHILD ||
		    rdinit_dev_read_async(chan, 0, 1, block, 0, NULL, NULL) != -ECHILD ||
		    rdinit_dev_chan_process(chan, 0) != -ECHILD)
			return 1;
		rdinit_dev_chan_free(&chan);
	}
	if (rdinit_dev_process(dev, 0) != -ECHILD || rdinit_dev_close(dev) != -ECHILD)
		return 1;
	rdinit_dev_free(&dev);
	return 0;
}

static void fork_child(struct rdinit_dev *dev, struct worker *workers, unsigned int n)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(use_copies(dev, workers, n));
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		complain("the child: status 0x%x", status);
	fprintf(stderr, "the child has ended\n");
}

static void watch_input(struct rdinit_dev *dev, struct worker *workers, unsigned int n)
{
	struct pollfd pfd = {.fd = 0, .events = POLLIN};
	unsigned long last = 0, now;
	char byte;

	while (!atomic_load(&stop)) {
		if (poll(&pfd, 1, 100) > 0) {
			if (read(0, &byte, 1) != 1)
				atomic_store(&stop, true);
			else if (byte == 'f')
				fork_child(dev, workers, n);
			else
				report_latency(workers, n);
		}
		now = atomic_load(&ops);
		if (now != last)
			fprintf(stderr,
				"ops %lu reads %lu writes %lu unknown %lu errors %lu slowest %ld "
				"ms\n",
				now, atomic_load(&reads), atomic_load(&writes),
				atomic_load(&unknown), atomic_load(&errors),
				atomic_load(&slowest_ms));
		last = now;
	}
}

static void free_slots(const struct worker *w)
{
	for (unsigned int i = 0; i < w->set->slots; i++)
		free(w->slots[i].buf);
	free(w->slots);
}

static void run_workers(const struct settings *set, struct rdinit_dev *dev)
{
	struct worker workers[THREADS_MAX] = {{0}};
	struct rdinit_dev_info info;
	unsigned int i;

	rdinit_dev_info_init(&info);
	if (rdinit_dev_get_info(dev, &info)) {
		complain("%s", rdinit_get_error());
		return;
	}
	for (i = 0; i < set->threads; i++) {
		workers[i] = (struct worker){
			.dev = dev,
			.set = set,
			.random = set->seed + i,
			.block_size = info.block_size,
			.base = (uint64_t)i * set->slots * SLOT_BLOCKS,
			.write_zeroes = info.max_write_zeroes >= MAX_BLOCKS,
			.compare = info.compare && !set->no_compare,
		};
		if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]))
			abort();
	}
	watch_input(dev, workers, set->threads);
	for (i = 0; i < set->threads; i++) {
		pthread_join(workers[i].thread, NULL);
		free_slots(&workers[i]);
	}
}

int main(int argc, char **argv)
{
	struct settings set = {.threads = 1, .slots = 16, .seed = 1};
	struct rdinit_dev *dev = NULL;
	int i = 1;

	rdinit_ctrl_opts_init(&set.ctrl);
	rdinit_dev_opts_init(&set.dev);
	take_environment(&set);
	for (; i + 1 < argc && argv[i][0] == '-'; i += 2)
		if (!take_option(&set, argv[i], (unsigned int)strtoul(argv[i + 1], NULL, 10)))
			break;
	if (i >= argc || argv[i][0] == '-' || set.threads < 1 || set.threads > THREADS_MAX) {
		fprintf(stderr, "usage: rddev [--OPTION NUMBER]... URI...\n");
		return 2;
	}
	if (open_device(&set, argv + i, &dev)) {
		fprintf(stderr, "rddev: %s\n", rdinit_get_error());
		rdinit_dev_free(&dev);
		return 1;
	}
	run_workers(&set, dev);
	if (!atomic_load(&failed))
		fprintf(stderr, "verified\n");
	if (!atomic_load(&failed) && rdinit_dev_close(dev))
		fprintf(stderr, "rddev: %s\n", rdinit_get_error());
	rdinit_dev_free(&dev);
	return atomic_load(&failed) ? 1 : 0;
}
