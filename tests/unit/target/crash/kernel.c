/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <liburing.h>

#include "target/bdev/engine_io.h"
#include "target/bdev/workers.h"
#include "t_main.h"

#define must(cond) CU_ASSERT_FATAL(cond)

enum kind { READ, WRITE, ZERO, SYNC, BUSY, REFUSED };

struct t_kernel_op {
	enum kind kind;
	uint64_t id;
	uint64_t offset, length; /* bytes; SYNC: length 0 is the whole file */
	uint8_t *buf;
	uint8_t *copy; /* WRITE: of @buf when it was submitted */
	bool dsync;
	uint64_t begun;
	struct io_uring *ring; /* where it completes, or */
	uint64_t user_data;
	struct rdt_bio *bio; /* which a thread would execute; or nowhere */
};

static struct t_kernel *kernel;

/* ---- contents ---- */

void t_sector_fill(void *sector, uint64_t content)
{
	for (unsigned int at = 0; at < T_SECTOR; at += 8)
		memcpy((uint8_t *)sector + at, &content, 8);
}

uint64_t t_sector_content(const void *sector)
{
	uint64_t first;

	memcpy(&first, sector, 8);
	for (unsigned int at = 8; at < T_SECTOR; at += 8)
		must(memcmp((const uint8_t *)sector + at, &first, 8) == 0);
	return first;
}

uint64_t t_kernel_tick(struct t_kernel *k)
{
	return ++k->now;
}

uint64_t t_kernel_random(struct t_kernel *k, uint64_t below)
{
	return rd_random_next(&k->random) % below;
}

void t_kernel_init(struct t_kernel *k, uint64_t size, uint64_t seed,
		   uint64_t (*content)(uint64_t sector))
{
	*k = (struct t_kernel){.size = size, .now = 1};
	rd_random_init(&k->random, seed);
	k->cache = malloc(size);
	must(k->cache != NULL && !kernel);
	t_versions_init(&k->disk, size / T_SECTOR);
	for (uint64_t s = 0; s < size / T_SECTOR; s++) {
		t_sector_fill(k->cache + s * T_SECTOR, content(s));
		t_versions_base(&k->disk, s, content(s));
	}
	kernel = k;
}

static void free_op(struct t_kernel_op *op)
{
	free(op->copy);
	free(op);
}

void t_kernel_fini(struct t_kernel *k)
{
	for (unsigned int i = 0; i < k->count; i++)
		free_op(k->ops[i]);
	k->count = 0;
	t_versions_fini(&k->disk);
	free(k->cache);
	k->cache = NULL;
	kernel = NULL;
}

/* ---- submitting ---- */

/* Takes @op, which is on the heap. */
static void begin_op(struct t_kernel_op *op)
{
	static uint64_t id;
	uint64_t first = op->offset / T_SECTOR, n = op->length / T_SECTOR;

	must(kernel->count < T_KERNEL_OPS);
	must(op->offset + op->length <= kernel->size || op->kind == SYNC);
	op->id = ++id;
	op->begun = t_kernel_tick(kernel);
	if (op->kind == WRITE) {
		op->copy = malloc(op->length);
		must(op->copy != NULL);
		memcpy(op->copy, op->buf, op->length);
	}
	for (uint64_t i = 0; (op->kind == WRITE || op->kind == ZERO) && i < n; i++)
		t_versions_begin(&kernel->disk, first + i, op->id,
				 op->copy ? t_sector_content(op->copy + i * T_SECTOR) : 0,
				 op->begun);
	kernel->syncs += op->kind == SYNC;
	kernel->dsyncs += op->dsync;
	kernel->ops[kernel->count++] = op;
}

static struct t_kernel_op *new_op(const struct t_kernel_op *from)
{
	struct t_kernel_op *op = malloc(sizeof(*op));

	must(op != NULL);
	*op = *from;
	return op;
}

static void take_sqe(struct io_uring *ring, const struct io_uring_sqe *sqe)
{
	struct t_kernel_op op = {
		.ring = ring,
		.user_data = sqe->user_data,
		.offset = sqe->off,
		.length = sqe->len,
		.buf = (void *)(uintptr_t)sqe->addr,
	};

	switch (sqe->opcode) {
	case IORING_OP_READ:
	case IORING_OP_READ_FIXED:
		op.kind = READ;
		break;
	case IORING_OP_WRITE:
	case IORING_OP_WRITE_FIXED:
		op.kind = WRITE;
		op.dsync = sqe->rw_flags & RWF_DSYNC;
		break;
	default:
		CU_FAIL_FATAL("an unknown operation");
	}
	must(sqe->rw_flags & RWF_NOWAIT);
	/* It would block, or the file system cannot do without; or it is done. */
	if (t_kernel_random(kernel, 6) == 0)
		op.kind = t_kernel_random(kernel, 40) ? BUSY : REFUSED;
	begin_op(new_op(&op));
}

/* For __wrap: the name that the linker asks for. */
int __wrap_io_uring_submit(struct io_uring *ring);

/* The real kernel never hears of the entries, so it does not move the head of the queue. */
int __wrap_io_uring_submit(struct io_uring *ring)
{
	unsigned int head = *ring->sq.khead, n = ring->sq.sqe_tail - head;

	must(kernel != NULL);
	for (unsigned int i = 0; i < n; i++)
		take_sqe(ring, &ring->sq.sqes[(head + i) & ring->sq.ring_mask]);
	ring->sq.sqe_head = ring->sq.sqe_tail;
	*ring->sq.khead = ring->sq.sqe_tail;
	return (int)n;
}

int __wrap_rdt_workers_submit(struct rdt_workers *workers, struct rdt_bio *bio);

/* As rdt_blocking_io() would do it. */
int __wrap_rdt_workers_submit(struct rdt_workers *workers, struct rdt_bio *bio)
{
	const struct rdt_fio *fio = rdt_fio(bio);
	struct t_kernel_op op = {.bio = bio, .offset = bio->offset, .length = bio->length};

	must(kernel != NULL);
	if (fio->step == RDT_FIO_SYNC) {
		op.kind = SYNC;
	} else if (bio->op == RDT_BIO_READ || bio->op == RDT_BIO_WRITE) {
		op.kind = bio->op == RDT_BIO_READ ? READ : WRITE;
		op.offset += fio->moved;
		op.length = fio->piece;
		op.buf = fio->bounce ? fio->bounce : (uint8_t *)bio->buf + fio->moved;
		op.dsync = fio->dsync;
	} else {
		must(bio->op == RDT_BIO_WRITE_ZEROES || bio->op == RDT_BIO_DEALLOCATE);
		op.kind = ZERO;
	}
	begin_op(new_op(&op));
	return 0;
}

ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
/* the name for programs with 64-bit offsets */
ssize_t __wrap_preadv64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags);

/* Nothing is in the page cache of the real kernel. */
ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	must(flags & RWF_NOWAIT);
	errno = EAGAIN;
	return -1;
}

ssize_t __wrap_preadv64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	return __wrap_preadv2(fd, iov, count, offset, flags);
}

/* ---- completing ---- */

static int64_t finish_sync(struct t_kernel *k, const struct t_kernel_op *op)
{
	uint64_t first = op->offset / T_SECTOR, last = first + op->length / T_SECTOR;
	uint64_t begun = op->begun;

	if (k->fail_sync && t_kernel_random(k, k->fail_sync) == 0) {
		t_versions_sync_failed(&k->disk);
		return -EIO;
	}
	if (!op->length)
		last = k->size / T_SECTOR;
	if (k->mistake == T_SYNC_DROPPED)
		return 0;
	if (k->mistake == T_SYNC_EARLY)
		begun = begun > 8 ? begun - 8 : 0;
	if (k->mistake == T_SYNC_ELSEWHERE && op->length)
		first++, last++;
	t_versions_sync(&k->disk, first, last, begun);
	return 0;
}

static int64_t finish_write(struct t_kernel *k, struct t_kernel_op *op)
{
	uint64_t first = op->offset / T_SECTOR, n = op->length / T_SECTOR, done = n;
	bool durable = op->dsync && k->mistake != T_DSYNC_DROPPED;
	uint64_t now = t_kernel_tick(k);

	if (op->kind == WRITE) {
		must(memcmp(op->buf, op->copy, op->length) == 0); /* nobody may change it */
		if (n > 1 && t_kernel_random(k, 8) == 0) {
			done = 1 + t_kernel_random(k, n - 1);
			k->shorts++;
		}
		memcpy(k->cache + op->offset, op->copy, done * T_SECTOR);
	} else {
		memset(k->cache + op->offset, 0, op->length);
	}
	for (uint64_t i = 0; i < n; i++) {
		if (i >= done) {
			t_versions_drop(&k->disk, first + i, op->id);
			continue;
		}
		t_versions_end(&k->disk, first + i, op->id, now);
		if (durable)
			t_versions_durable(&k->disk, first + i, op->id);
	}
	return op->kind == WRITE ? (int64_t)(done * T_SECTOR) : 0;
}

static int64_t finish_op(struct t_kernel *k, struct t_kernel_op *op)
{
	switch (op->kind) {
	case READ:
		memcpy(op->buf, k->cache + op->offset, op->length);
		return (int64_t)op->length;
	case SYNC:
		t_kernel_tick(k);
		return finish_sync(k, op);
	case BUSY:
		return -EAGAIN;
	case REFUSED:
		return -EOPNOTSUPP;
	default:
		return finish_write(k, op);
	}
}

/* Put a completion into the ring, as the kernel does. */
static void post_cqe(const struct t_kernel_op *op, int result)
{
	struct io_uring_cq *cq = &op->ring->cq;
	unsigned int tail = *cq->ktail;

	must(tail - *cq->khead < cq->ring_entries);
	cq->cqes[tail & cq->ring_mask] =
		(struct io_uring_cqe){.user_data = op->user_data, .res = result};
	io_uring_smp_store_release(cq->ktail, tail + 1);
}

bool t_kernel_step(struct t_kernel *k)
{
	struct t_kernel_op *op;
	struct rdt_engine *e;
	int64_t result;
	unsigned int n;

	if (!k->count)
		return false;
	n = (unsigned int)t_kernel_random(k, k->count);
	op = k->ops[n];
	k->ops[n] = k->ops[--k->count];
	result = finish_op(k, op);
	if (op->ring) {
		post_cqe(op, (int)result);
	} else if (op->bio) {
		e = rdt_fio(op->bio)->chan->engine;
		rdt_engine_complete(e, op->bio, result);
		rdt_engine_pump(e);
	}
	free_op(op);
	return true;
}

/* ---- a mistake above the kernel ---- */

void __real_rdt_engine_complete(struct rdt_engine *e, struct rdt_bio *bio, int64_t res);
void __wrap_rdt_engine_complete(struct rdt_engine *e, struct rdt_bio *bio, int64_t res);

void __wrap_rdt_engine_complete(struct rdt_engine *e, struct rdt_bio *bio, int64_t res)
{
	const struct t_kernel_op sync = {
		.kind = SYNC, .offset = bio->offset, .length = bio->length};

	if (kernel && kernel->mistake == T_ANSWER_BEFORE_SYNC && res >= 0 &&
	    bio->op != RDT_BIO_READ && bio->flags & RDT_BIO_FUA &&
	    rdt_fio(bio)->step == RDT_FIO_TRANSFER && !rdt_fio(bio)->dsync &&
	    rdt_fio(bio)->moved + (uint64_t)res >= bio->length) {
		bio->flags &= (uint8_t)~RDT_BIO_FUA;
		begin_op(new_op(&sync));
	}
	__real_rdt_engine_complete(e, bio, res);
}
