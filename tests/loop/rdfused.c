/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writers that increment one counter with compare-and-write, each a host of its own with two
 * queues, beside plain writers of the neighbouring blocks.
 *
 *   rdfused URI [--seconds N] [--writers N] [--blocks N] [--unfused]
 *
 * The counter fills its blocks with one value over and over, so that a torn write shows. No
 * increment is lost when the counter equals the number of pairs that succeeded. With --unfused,
 * comparison and write are two commands, and increments are lost. Exits 1 when the count is wrong,
 * 2 after any other failure.
 */
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rdinit.h"

#define WRITERS_MAX    64
#define BYTES_MAX      (64u << 10)
#define OP_WRITE       0x01
#define OP_READ        0x02
#define OP_COMPARE     0x05
#define COMPARE_FAILED 0x285
#define COUNTER_LBA    64u

struct writer {
	pthread_t thread;
	unsigned int index;
	struct rdinit_ctrl *ctrl;
	struct rdinit_ns ns;
	struct rdinit_qpair *qp[2];
	unsigned char *seen, *next;
	uint64_t done, beaten, plain;
	int failed;
};

static struct {
	const char *uri;
	unsigned int writers;
	unsigned int seconds;
	uint32_t blocks;
	bool unfused;
	atomic_bool stop;
	pthread_barrier_t go;
	struct writer w[WRITERS_MAX];
} run = {.writers = 8, .seconds = 5, .blocks = 1};

struct outcome {
	bool here;
	int err;
	uint16_t status;
	char text[128];
};

static void on_done(void *user, const struct rdinit_completion *c)
{
	struct outcome *o = user;

	o->here = true;
	o->err = c->err;
	o->status = c->status & 0x7ff;
	snprintf(o->text, sizeof(o->text), "%s", c->text);
}

static int fail(struct writer *w, const char *what, const char *why)
{
	fprintf(stderr, "rdfused: writer %u: %s: %s\n", w->index, what, why);
	w->failed = 1;
	return -1;
}

static void make(struct rdinit_passthru *cmd, const struct writer *w, uint8_t opcode, uint64_t lba,
		 uint32_t blocks, void *data)
{
	uint32_t words[3] = {(uint32_t)lba, (uint32_t)(lba >> 32), blocks - 1};

	rdinit_passthru_init(cmd);
	cmd->sqe[0] = opcode;
	memcpy(cmd->sqe + 4, &w->ns.nsid, 4);
	memcpy(cmd->sqe + 40, words, sizeof(words));
	cmd->data = data;
	cmd->len = blocks * w->ns.block_size;
	cmd->flags = opcode == OP_READ ? 0 : RDINIT_PASSTHRU_WRITE;
	if (w->index % 2) /* half of them by key, half in the capsule where it fits */
		cmd->flags |= RDINIT_PASSTHRU_KEYED;
}

static int wait_for(struct writer *w, struct rdinit_qpair *qp, const struct outcome *o)
{
	while (!o->here)
		if (rdinit_qpair_process(qp, -1) < 0)
			return fail(w, "queue", rdinit_get_error());
	return 0;
}

static int one(struct writer *w, struct rdinit_qpair *qp, uint8_t opcode, uint64_t lba,
	       uint32_t blocks, void *data, struct outcome *o)
{
	struct rdinit_passthru cmd;

	memset(o, 0, sizeof(*o));
	make(&cmd, w, opcode, lba, blocks, data);
	if (rdinit_io_passthru_async(qp, &cmd, NULL, on_done, o))
		return fail(w, "submit", rdinit_get_error());
	if (wait_for(w, qp, o))
		return -1;
	if (o->err && o->status != COMPARE_FAILED)
		return fail(w, opcode == OP_READ ? "read" : "write", o->text);
	return 0;
}

static int both(struct writer *w, struct rdinit_qpair *qp, struct outcome *first)
{
	struct rdinit_passthru cmp, wr;
	struct outcome second = {0};

	if (run.unfused) {
		if (one(w, qp, OP_COMPARE, COUNTER_LBA, run.blocks, w->seen, first))
			return -1;
		return first->err ? 0
				  : one(w, qp, OP_WRITE, COUNTER_LBA, run.blocks, w->next, &second);
	}
	memset(first, 0, sizeof(*first));
	make(&cmp, w, OP_COMPARE, COUNTER_LBA, run.blocks, w->seen);
	make(&wr, w, OP_WRITE, COUNTER_LBA, run.blocks, w->next);
	if (rdinit_io_passthru_fused_async(qp, &cmp, &wr, on_done, first, &second))
		return fail(w, "submit", rdinit_get_error());
	if (wait_for(w, qp, first) || wait_for(w, qp, &second))
		return -1;
	if (first->err && first->status != COMPARE_FAILED)
		return fail(w, "compare", first->text);
	if (!first->err && second.err)
		return fail(w, "write", second.text);
	if (first->err && !second.err)
		return fail(w, "write", "it succeeded though the comparison failed");
	return 0;
}

/* All of it is one number. */
static int value(struct writer *w, uint64_t *v)
{
	size_t n = (size_t)run.blocks * w->ns.block_size / sizeof(*v);
	uint64_t other;

	memcpy(v, w->seen, sizeof(*v));
	for (size_t i = 1; i < n; i++) {
		memcpy(&other, w->seen + i * sizeof(*v), sizeof(*v));
		if (other != *v) {
			fprintf(stderr,
				"rdfused: TORN: %" PRIu64 " at its begin, %" PRIu64 " at %zu\n", *v,
				other, i * sizeof(*v));
			w->failed = 1;
			return -1;
		}
	}
	return 0;
}

static void set_value(const struct writer *w, uint64_t v)
{
	size_t n = (size_t)run.blocks * w->ns.block_size / sizeof(v);

	for (size_t i = 0; i < n; i++)
		memcpy(w->next + i * sizeof(v), &v, sizeof(v));
}

static int increment(struct writer *w, struct rdinit_qpair *qp)
{
	struct outcome o;
	uint64_t v;

	if (one(w, qp, OP_READ, COUNTER_LBA, run.blocks, w->seen, &o) || value(w, &v))
		return -1;
	set_value(w, v + 1);
	if (both(w, qp, &o))
		return -1;
	if (o.err)
		w->beaten++;
	else
		w->done++;
	return 0;
}

/* A block of the writer's own, next to the counter, contains its last write. */
static int neighbour(struct writer *w, struct rdinit_qpair *qp)
{
	uint64_t lba =
		w->index % 2 ? COUNTER_LBA + run.blocks + w->index : COUNTER_LBA - 1 - w->index;
	struct outcome o;

	memset(w->next, (int)(w->plain + w->index), w->ns.block_size);
	if (one(w, qp, OP_WRITE, lba, 1, w->next, &o) || one(w, qp, OP_READ, lba, 1, w->seen, &o))
		return -1;
	if (memcmp(w->seen, w->next, w->ns.block_size) != 0)
		return fail(w, "neighbour", "it does not hold what was written last");
	w->plain++;
	return 0;
}

static int open_writer(struct writer *w, const struct rdinit_uri *uri)
{
	struct rdinit_ctrl_opts opts;
	struct rdinit_qpair_opts qopts;

	rdinit_ctrl_opts_init(&opts);
	rdinit_ctrl_opts_set_uri(&opts, uri);
	opts.nr_io_queues = 2;
	rdinit_qpair_opts_init(&qopts);
	rdinit_ns_init(&w->ns);
	w->seen = malloc(BYTES_MAX);
	w->next = malloc(BYTES_MAX);
	if (!w->seen || !w->next)
		return -1;
	if (rdinit_ctrl_create(&opts, &w->ctrl) || rdinit_ctrl_connect(w->ctrl) ||
	    rdinit_ns_open(w->ctrl, uri->nsid ? uri->nsid : 1, &w->ns))
		return fail(w, "connect", rdinit_get_error());
	for (int i = 0; i < 2; i++)
		if (rdinit_qpair_create(w->ctrl, &qopts, &w->qp[i]) ||
		    rdinit_qpair_connect(w->qp[i]))
			return fail(w, "queue", rdinit_get_error());
	return 0;
}

static void *work(void *arg)
{
	struct writer *w = arg;

	pthread_barrier_wait(&run.go);
	for (uint64_t n = 0; !w->failed && !atomic_load(&run.stop); n++) {
		struct rdinit_qpair *qp = w->qp[n % 2];

		if (n % 4 == 3 ? neighbour(w, qp) : increment(w, qp))
			break;
		if (n % 64 == 0)
			rdinit_ctrl_process(w->ctrl, 0);
	}
	return NULL;
}

static int start_at_zero(struct writer *w)
{
	struct outcome o;

	set_value(w, 0);
	return one(w, w->qp[0], OP_WRITE, COUNTER_LBA, run.blocks, w->next, &o);
}

static int finish(uint64_t *counted)
{
	struct writer *w = &run.w[0];
	struct outcome o;

	return one(w, w->qp[0], OP_READ, COUNTER_LBA, run.blocks, w->seen, &o) || value(w, counted)
		       ? -1
		       : 0;
}

static int run_all(void)
{
	struct timespec pause = {run.seconds, 0};
	uint64_t sum = 0, beaten = 0, plain = 0, counted = 0;
	int failed = 0;

	pthread_barrier_init(&run.go, NULL, run.writers + 1);
	for (unsigned int i = 0; i < run.writers; i++)
		if (pthread_create(&run.w[i].thread, NULL, work, &run.w[i]))
			return 2;
	pthread_barrier_wait(&run.go);
	fprintf(stderr, "rdfused: running\n");
	nanosleep(&pause, NULL); /* the length of the measurement */
	atomic_store(&run.stop, true);
	for (unsigned int i = 0; i < run.writers; i++) {
		pthread_join(run.w[i].thread, NULL);
		failed |= run.w[i].failed;
		sum += run.w[i].done;
		beaten += run.w[i].beaten;
		plain += run.w[i].plain;
	}
	if (failed || finish(&counted))
		return 2;
	fprintf(stderr,
		"rdfused: %s: %u writers, %" PRIu64 " increments, the counter says %" PRIu64
		", %" PRIu64 " came too late, %" PRIu64 " plain writes\n",
		sum == counted ? "ok" : "LOST UPDATES", run.writers, sum, counted, beaten, plain);
	return sum != counted || !sum;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: rdfused URI [--seconds N] [--writers N] [--blocks N] [--unfused]\n");
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{"seconds", required_argument, NULL, 's'},
		{"writers", required_argument, NULL, 'w'},
		{"blocks", required_argument, NULL, 'b'},
		{"unfused", no_argument, NULL, 'u'},
		{NULL, 0, NULL, 0},
	};
	struct rdinit_uri uri;
	int c, rc = 0;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		unsigned int v = optarg ? (unsigned int)strtoul(optarg, NULL, 0) : 0;

		if (c == 's' && v)
			run.seconds = v;
		else if (c == 'w' && v && v <= WRITERS_MAX)
			run.writers = v;
		else if (c == 'b' && v && v <= 16)
			run.blocks = v;
		else if (c == 'u')
			run.unfused = true;
		else
			return usage();
	}
	rdinit_uri_init(&uri);
	if (optind != argc - 1 || rdinit_uri_parse(argv[optind], &uri))
		return usage();
	for (unsigned int i = 0; i < run.writers && !rc; i++) {
		run.w[i].index = i;
		rc = open_writer(&run.w[i], &uri) ? 2 : 0;
	}
	if (!rc)
		rc = start_at_zero(&run.w[0]) ? 2 : run_all();
	for (unsigned int i = 0; i < run.writers; i++) {
		struct writer *w = &run.w[i];

		for (int k = 0; k < 2; k++)
			rdinit_qpair_free(&w->qp[k]);
		rdinit_ctrl_free(&w->ctrl);
		free(w->seen);
		free(w->next);
	}
	return rc;
}
