/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random reads and writes of a namespace, each verified in full against a model in memory.
 *
 *   rdverify URI [--seconds N] [--range BYTES] [--seed N] [--queues N] [--depth N] [--crc]
 *
 * Commands in flight never overlap, so that every read has exactly one right answer. The same seed
 * on a namespace of the same size gives the same choices for the same completion order. On SIGINT
 * it is as if the time was up. Exits 1 at
 * the first difference, with its offset and both bytes; 2 on wrong usage.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "rdinit.h"

#define QUEUES_MAX 16
#define DEPTH_MAX  256
#define IO_MAX     (1u << 20)

enum op_kind { OP_READ, OP_WRITE };

struct op {
	struct run *run;
	enum op_kind kind;
	int busy;
	uint64_t lba;
	uint32_t nblocks;
	unsigned char *buf;
};

struct run {
	struct rdinit_ctrl *ctrl;
	struct rdinit_ctrl_info info;
	struct rdinit_ns ns;
	struct rdinit_qpair *qp[QUEUES_MAX];
	struct op ops[DEPTH_MAX];
	unsigned int n_qp, depth, busy;
	uint64_t blocks; /* the range */
	unsigned char *model;
	unsigned char *locked; /* one for each block: a command in flight covers it */
	uint64_t seed, rng;
	uint64_t reads, writes, bytes;
	int failed;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* splitmix64: small, and every seed is good */
static uint64_t rnd(struct run *r)
{
	uint64_t z = (r->rng += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static void fill(struct run *r, unsigned char *p, size_t len)
{
	size_t i;

	for (i = 0; i + 8 <= len; i += 8) {
		uint64_t v = rnd(r);

		memcpy(p + i, &v, 8);
	}
}

static int fail_lib(struct run *r, const char *what)
{
	fprintf(stderr, "rdverify: %s: %s (seed %" PRIu64 ")\n", what, rdinit_get_error(), r->seed);
	r->failed = 1;
	return -1;
}

static void compare(struct run *r, const struct op *op)
{
	uint64_t at = op->lba * r->ns.block_size, i;
	uint64_t len = (uint64_t)op->nblocks * r->ns.block_size;

	if (memcmp(op->buf, r->model + at, len) == 0)
		return;
	for (i = 0; op->buf[i] == r->model[at + i]; i++)
		;
	fprintf(stderr,
		"rdverify: MISMATCH at byte %" PRIu64 " (block %" PRIu64 "): expected 0x%02x, got "
		"0x%02x, in a read of %u blocks from %" PRIu64 " (seed %" PRIu64 ")\n",
		at + i, (at + i) / r->ns.block_size, r->model[at + i], op->buf[i], op->nblocks,
		op->lba, r->seed);
	r->failed = 1;
}

static void on_done(void *user, const struct rdinit_completion *c)
{
	struct op *op = user;
	struct run *r = op->run;

	op->busy = 0;
	r->busy--;
	memset(r->locked + op->lba, 0, op->nblocks);
	if (c->err) {
		if (!r->failed)
			fprintf(stderr,
				"rdverify: %s of %u blocks from %" PRIu64 ": %s (seed %" PRIu64
				")\n",
				op->kind == OP_READ ? "read" : "write", op->nblocks, op->lba,
				c->text, r->seed);
		r->failed = 1;
		return;
	}
	r->bytes += (uint64_t)op->nblocks * r->ns.block_size;
	if (op->kind == OP_READ) {
		r->reads++;
		compare(r, op);
	} else {
		r->writes++;
		memcpy(r->model + op->lba * r->ns.block_size, op->buf,
		       (size_t)op->nblocks * r->ns.block_size);
	}
}

/* Choose a range that no command in flight touches: half of them small, so that both paths
 * (capsule, key) and many commands at once occur. Returns 0 if this choice collided. */
static int choose(struct run *r, struct op *op)
{
	uint32_t max = r->info.max_transfer < IO_MAX ? r->info.max_transfer : IO_MAX;
	uint32_t max_blocks = max / r->ns.block_size;

	if (max_blocks > r->blocks)
		max_blocks = (uint32_t)r->blocks;
	if (rnd(r) % 2 && max_blocks > 16)
		max_blocks = 16;
	op->nblocks = (uint32_t)(1 + rnd(r) % max_blocks);
	op->lba = rnd(r) % (r->blocks - op->nblocks + 1);
	op->kind = rnd(r) % 2 ? OP_WRITE : OP_READ;
	return !memchr(r->locked + op->lba, 1, op->nblocks);
}

static int submit(struct run *r, struct op *op)
{
	struct rdinit_qpair *qp = r->qp[rnd(r) % r->n_qp];
	size_t len;
	int rc;

	if (rdinit_qpair_inflight(qp) >= rdinit_qpair_depth(qp) || !choose(r, op))
		return 0;
	len = (size_t)op->nblocks * r->ns.block_size;
	if (op->kind == OP_WRITE) {
		fill(r, op->buf, len);
		rc = rdinit_write_async(qp, &r->ns, op->lba, op->nblocks, op->buf,
					rnd(r) % 16 ? 0 : RDINIT_IO_FUA, on_done, op);
	} else {
		memset(op->buf, 0xa5, len); /* so that bytes that a read leaves out show */
		rc = rdinit_read_async(qp, &r->ns, op->lba, op->nblocks, op->buf, 0, on_done, op);
	}
	if (rc == -EAGAIN && rdinit_qpair_inflight(qp) > 0)
		return 0; /* the commands in flight use all bounce memory of the queue */
	if (rc)
		return fail_lib(r, "submit");
	memset(r->locked + op->lba, 1, op->nblocks);
	op->busy = 1;
	r->busy++;
	return 1;
}

/* Returns the number of callbacks. */
static int process(struct run *r)
{
	unsigned int i;
	int rc, n = 0;

	for (i = 0; i < r->n_qp; i++) {
		rc = rdinit_qpair_process(r->qp[i], 0);
		if (rc < 0 && !r->failed)
			fail_lib(r, "queue");
		n += rc > 0 ? rc : 0;
	}
	rc = rdinit_ctrl_process(r->ctrl, 0);
	if (rc < 0 && !r->failed)
		fail_lib(r, "controller");
	return n;
}

static void wait_for_work(struct run *r, int timeout_ms)
{
	struct pollfd fds[QUEUES_MAX + 1];
	unsigned int i;

	for (i = 0; i < r->n_qp; i++)
		fds[i] = (struct pollfd){.fd = rdinit_qpair_fd(r->qp[i]), .events = POLLIN};
	fds[i] = (struct pollfd){.fd = rdinit_ctrl_fd(r->ctrl), .events = POLLIN};
	poll(fds, r->n_qp + 1, timeout_ms);
}

static volatile sig_atomic_t interrupted;

static void interrupt(int signo)
{
	interrupted = 1;
}

static void run_until(struct run *r, uint64_t end_ns)
{
	while (!r->failed && !interrupted && now_ns() < end_ns) {
		unsigned int i, tries = 0;

		for (i = 0; i < r->depth && !r->failed; i++) {
			if (!r->ops[i].busy && tries++ < r->depth)
				submit(r, &r->ops[i]);
		}
		if (process(r) == 0)
			wait_for_work(r, 100);
	}
}

static void drain(struct run *r)
{
	while (r->busy) {
		if (process(r) == 0 && r->busy)
			wait_for_work(r, 1000);
	}
}

/* One command after the other over the whole range, at the end and, for writes, at the start. */
static int sweep(struct run *r, enum op_kind kind)
{
	struct op *op = &r->ops[0];
	uint32_t max = r->info.max_transfer < IO_MAX ? r->info.max_transfer : IO_MAX;
	uint64_t lba;
	int rc;

	for (lba = 0; lba < r->blocks && !r->failed; lba += op->nblocks) {
		op->kind = kind;
		op->lba = lba;
		op->nblocks = max / r->ns.block_size;
		if (op->nblocks > r->blocks - lba)
			op->nblocks = (uint32_t)(r->blocks - lba);
		if (kind == OP_WRITE)
			fill(r, op->buf, (size_t)op->nblocks * r->ns.block_size);
		rc = kind == OP_WRITE ? rdinit_write(r->qp[0], &r->ns, lba, op->nblocks, op->buf, 0)
				      : rdinit_read(r->qp[0], &r->ns, lba, op->nblocks, op->buf, 0);
		if (rc)
			return fail_lib(r, kind == OP_WRITE ? "first write" : "last read");
		if (kind == OP_WRITE)
			memcpy(r->model + lba * r->ns.block_size, op->buf,
			       (size_t)op->nblocks * r->ns.block_size);
		else
			compare(r, op);
		if (process(r) < 0)
			return -1;
	}
	return r->failed ? -1 : 0;
}

static int connect_all(struct run *r, const struct rdinit_ctrl_opts *opts, uint32_t nsid)
{
	struct rdinit_qpair_opts qopts;

	rdinit_qpair_opts_init(&qopts);
	rdinit_ctrl_info_init(&r->info);
	rdinit_ns_init(&r->ns);
	if (rdinit_ctrl_create(opts, &r->ctrl) || rdinit_ctrl_connect(r->ctrl) ||
	    rdinit_ctrl_get_info(r->ctrl, &r->info) || rdinit_ns_open(r->ctrl, nsid, &r->ns))
		return fail_lib(r, "connect");
	while (r->n_qp < opts->nr_io_queues && r->n_qp < r->info.io_queues) {
		if (rdinit_qpair_create(r->ctrl, &qopts, &r->qp[r->n_qp]))
			return fail_lib(r, "queue");
		if (rdinit_qpair_connect(r->qp[r->n_qp++]))
			return fail_lib(r, "queue");
	}
	return r->n_qp ? 0 : fail_lib(r, "no I/O queues");
}

static int prepare(struct run *r, uint64_t range)
{
	uint64_t total = r->ns.blocks * r->ns.block_size;
	unsigned int i;

	if (range > total)
		range = total;
	r->blocks = range / r->ns.block_size;
	if (r->blocks == 0) {
		fprintf(stderr, "rdverify: the range is smaller than a block\n");
		return -1;
	}
	r->model = malloc(r->blocks * r->ns.block_size);
	r->locked = calloc(r->blocks, 1);
	if (!r->model || !r->locked)
		return -1;
	for (i = 0; i < r->depth; i++) {
		r->ops[i].run = r;
		r->ops[i].buf = malloc(IO_MAX);
		if (!r->ops[i].buf)
			return -1;
	}
	return 0;
}

static void cleanup(struct run *r)
{
	unsigned int i;

	for (i = 0; i < r->n_qp; i++)
		rdinit_qpair_free(&r->qp[i]);
	if (r->ctrl && !r->failed)
		rdinit_ctrl_disconnect(r->ctrl);
	rdinit_ctrl_free(&r->ctrl);
	for (i = 0; i < DEPTH_MAX; i++)
		free(r->ops[i].buf);
	free(r->model);
	free(r->locked);
}

static int usage(void)
{
	fprintf(stderr, "usage: rdverify URI [--seconds N] [--range BYTES] [--seed N] [--queues N] "
			"[--depth N] [--crc] [--keep-alive-tmo SECONDS]\n");
	return 2;
}

struct args {
	struct rdinit_ctrl_opts opts;
	uint64_t seconds;
	uint64_t range;
};

/* Returns false when an argument is wrong. */
static bool parse_args(int argc, char **argv, struct run *r, struct args *args)
{
	static const struct option longs[] = {
		{"seconds", required_argument, NULL, 's'},
		{"range", required_argument, NULL, 'r'},
		{"seed", required_argument, NULL, 'S'},
		{"queues", required_argument, NULL, 'q'},
		{"depth", required_argument, NULL, 'd'},
		{"crc", no_argument, NULL, 'c'},
		{"keep-alive-tmo", required_argument, NULL, 'k'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		uint64_t v = optarg ? strtoull(optarg, NULL, 0) : 0;

		if (c == 's')
			args->seconds = v;
		else if (c == 'r')
			args->range = v;
		else if (c == 'S')
			r->seed = v;
		else if (c == 'q' && v >= 1 && v <= QUEUES_MAX)
			args->opts.nr_io_queues = (uint16_t)v;
		else if (c == 'd' && v >= 1 && v <= DEPTH_MAX)
			r->depth = (unsigned int)v;
		else if (c == 'c')
			args->opts.crc = true;
		else if (c == 'k' && v <= UINT32_MAX / 1000)
			args->opts.keep_alive_tmo_ms = (uint32_t)v * 1000;
		else
			return false;
	}
	return optind == argc - 1;
}

int main(int argc, char **argv)
{
	static struct run r = {.depth = 32};
	struct args args = {.seconds = 10, .range = 64u << 20};
	struct rdinit_uri uri;

	rdinit_ctrl_opts_init(&args.opts);
	rdinit_uri_init(&uri);
	args.opts.nr_io_queues = 4;
	if (getrandom(&r.seed, sizeof(r.seed), 0) < 0)
		r.seed = now_ns();
	if (!parse_args(argc, argv, &r, &args))
		return usage();
	r.rng = r.seed;
	printf("rdverify: seed %" PRIu64 "\n", r.seed);
	fflush(stdout);
	if (rdinit_uri_parse(argv[optind], &uri)) {
		fail_lib(&r, "address");
		return 2;
	}
	rdinit_ctrl_opts_set_uri(&args.opts, &uri);
	if (connect_all(&r, &args.opts, uri.nsid ? uri.nsid : 1) || prepare(&r, args.range))
		r.failed = 1;
	signal(SIGINT, interrupt);
	if (!r.failed && sweep(&r, OP_WRITE) == 0) {
		run_until(&r, now_ns() + args.seconds * 1000000000u);
		drain(&r);
		if (!r.failed)
			sweep(&r, OP_READ);
	}
	printf("rdverify: %s: %" PRIu64 " reads, %" PRIu64 " writes, %" PRIu64
	       " MiB verified or written on %u queues\n",
	       r.failed ? "FAILED" : "ok", r.reads, r.writes, r.bytes >> 20, r.n_qp);
	cleanup(&r);
	return r.failed;
}
