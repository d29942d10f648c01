/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Submission of the application's commands to a channel: checks and start. dev_io.c continues from
 * there.
 */
#include <errno.h>
#include <stdlib.h>

#include "dev.h"

#define IOV_MAX_COUNT 1024u

static int check_range(const struct rdinit_dev *dev, const char *func, uint64_t lba,
		       uint32_t nblocks, uint32_t max)
{
	uint64_t blocks = atomic_load_explicit(&dev->blocks, memory_order_relaxed);

	if (nblocks == 0 || nblocks > max)
		return rdi_fail(func, -EINVAL, "found %u blocks, expected 1 to %u", nblocks, max);
	if (lba >= blocks || nblocks > blocks - lba)
		return rdi_fail(func, -EINVAL,
				"blocks %llu to %llu are beyond the end of the namespace (%llu "
				"blocks)",
				(unsigned long long)lba, (unsigned long long)lba + nblocks - 1,
				(unsigned long long)blocks);
	return 0;
}

/* Commands other than reads and writes are not sent in parts. */
static int check_transfer(const struct rdinit_dev *dev, const char *func, uint8_t op,
			  uint32_t nblocks)
{
	uint32_t max = op <= RDINIT_DEV_WRITE
			       ? dev->first_max_transfer
			       : atomic_load_explicit(&dev->max_transfer, memory_order_relaxed);

	if ((uint64_t)nblocks * dev->block_size <= max)
		return 0;
	return rdi_fail(func, -EINVAL,
			"%u blocks are more than the device transfers in one command (%u bytes)",
			nblocks, max);
}

/* Takes a free entry; one entry beyond the depth is reserved for a synchronous call. */
static struct rdi_io *take_io(struct rdinit_dev_chan *chan, rdinit_complete_fn fn)
{
	struct rdi_io *io;

	if (chan->inflight >= chan->depth + (fn == rdi_sync_done))
		return NULL;
	io = TAILQ_FIRST(&chan->free);
	if (!io)
		return NULL;
	TAILQ_REMOVE(&chan->free, io, link);
	io->gen++;
	io->busy = true;
	io->cancelled = false;
	io->retries = 0;
	io->limits = 0;
	io->losses = 0;
	io->refused_ms = 0;
	io->not_before = 0;
	io->rest = 0;
	chan->inflight++;
	return io;
}

static int no_entry(const struct rdinit_dev_chan *chan, const char *func)
{
	return rdi_fail(func, -EAGAIN,
			"%u commands are in flight, as many as the channel allows (queue_size)",
			chan->inflight);
}

/* Sends the command at once if no command waits before it, else appends it to the waiting ones. */
static inline void io_start(struct rdinit_dev_chan *chan, struct rdi_io *io)
{
	struct rdi_chan_path *cp = TAILQ_EMPTY(&chan->waiting) ? rdi_wait_path(io) : NULL;

	/* A command that cannot be sent at all is ended by the next iteration, so that its callback
	 * does not run in here. */
	if (!cp || rdi_io_send(cp, io))
		rdi_wait_add(io);
}

static int submit_rw(struct rdinit_dev_chan *chan, const char *func, uint8_t op, uint64_t lba,
		     uint32_t nblocks, void *buf, unsigned int flags, rdinit_complete_fn fn,
		     void *user)
{
	struct rdi_io *io;
	int rc;

	if (rdi_is_foreign(RDI_HANDLE(chan)))
		return rdi_foreign(RDI_HANDLE(chan), func);
	if (!buf || !fn || flags & ~RDINIT_IO_FUA)
		return rdi_fail(func, -EINVAL, "buf or fn is NULL, or a flag is unknown (0x%x)",
				flags);
	rc = check_range(chan->dev, func, lba, nblocks, RDI_NLB_MAX);
	if (!rc)
		rc = check_transfer(chan->dev, func, op, nblocks);
	if (rc)
		return rc;
	io = take_io(chan, fn);
	if (!io)
		return no_entry(chan, func);
	io->op = op;
	io->flags = (uint8_t)flags;
	io->timeout_ms = 0;
	io->lba = lba;
	io->nblocks = nblocks;
	io->buf = buf;
	io->write_buf = NULL;
	io->fn = fn;
	io->user = user;
	io_start(chan, io);
	return 0;
}

int rdinit_dev_read_async(struct rdinit_dev_chan *chan, uint64_t lba, uint32_t nblocks, void *buf,
			  unsigned int flags, rdinit_complete_fn fn, void *user)
{
	return submit_rw(chan, __func__, RDINIT_DEV_READ, lba, nblocks, buf, flags, fn, user);
}

int rdinit_dev_write_async(struct rdinit_dev_chan *chan, uint64_t lba, uint32_t nblocks,
			   const void *buf, unsigned int flags, rdinit_complete_fn fn, void *user)
{
	return submit_rw(chan, __func__, RDINIT_DEV_WRITE, lba, nblocks, (void *)(uintptr_t)buf,
			 flags, fn, user);
}

int rdinit_dev_read(struct rdinit_dev_chan *chan, uint64_t lba, uint32_t nblocks, void *buf,
		    unsigned int flags)
{
	return RDI_SYNC(chan, __func__,
			submit_rw(chan, __func__, RDINIT_DEV_READ, lba, nblocks, buf, flags,
				  rdi_sync_done, &sync));
}

int rdinit_dev_write(struct rdinit_dev_chan *chan, uint64_t lba, uint32_t nblocks, const void *buf,
		     unsigned int flags)
{
	return RDI_SYNC(chan, __func__,
			submit_rw(chan, __func__, RDINIT_DEV_WRITE, lba, nblocks,
				  (void *)(uintptr_t)buf, flags, rdi_sync_done, &sync));
}

/* ---- any command ---- */

void rdinit_dev_io_init_size(struct rdinit_dev_io *io, size_t size)
{
	rdi_zero_sized(io, size);
}

/* The largest number of blocks of @op; 0: the controller does not support it. */
static uint32_t max_blocks(const struct rdinit_dev_info *info, enum rdinit_dev_op op)
{
	switch (op) {
	case RDINIT_DEV_READ:
	case RDINIT_DEV_WRITE:
	case RDINIT_DEV_FLUSH:
		return RDI_NLB_MAX;
	case RDINIT_DEV_WRITE_ZEROES:
		return info->max_write_zeroes;
	case RDINIT_DEV_DEALLOCATE:
		return info->max_deallocate;
	case RDINIT_DEV_VERIFY:
		return info->max_verify;
	case RDINIT_DEV_COMPARE:
		return info->compare ? RDI_NLB_MAX : 0;
	case RDINIT_DEV_COMPARE_WRITE:
		return info->compare_write ? RDI_NLB_MAX : 0;
	case RDINIT_DEV_COPY:
		return info->max_copy;
	}
	return 0;
}

static int check_data(const struct rdinit_dev *dev, const char *func,
		      const struct rdinit_dev_io *given)
{
	uint64_t want = (uint64_t)given->nblocks * dev->block_size, have = 0;
	unsigned int i;

	if (!rdi_ops[given->op].has_data)
		return 0;
	if (given->op == RDINIT_DEV_COMPARE_WRITE && !given->write_buf)
		return rdi_fail(func, -EINVAL, "write_buf is NULL: nothing to write");
	if (given->iovcnt == 0)
		return given->buf ? 0 : rdi_fail(func, -EINVAL, "buf is NULL, and iovcnt is 0");
	if (!given->iov || given->iovcnt > IOV_MAX_COUNT)
		return rdi_fail(func, -EINVAL, "iov is NULL, or iovcnt is %u, expected up to %u",
				given->iovcnt, IOV_MAX_COUNT);
	for (i = 0; i < given->iovcnt && have <= want; i++)
		have += given->iov[i].iov_len;
	if (have != want)
		return rdi_fail(func, -EINVAL, "iov does not have the %llu bytes of %u blocks",
				(unsigned long long)want, given->nblocks);
	return 0;
}

static int check_io(struct rdinit_dev_chan *chan, const char *func,
		    const struct rdinit_dev_io *given)
{
	const struct rdinit_dev *dev = chan->dev;
	const struct rdi_op *op;
	uint32_t max;
	int rc;

	if ((unsigned int)given->op > RDINIT_DEV_COPY)
		return rdi_fail(func, -EINVAL, "op is %d, which is not a command", (int)given->op);
	op = &rdi_ops[given->op];
	max = max_blocks(&dev->info, given->op);
	if (max == 0)
		return rdi_fail(func, -EOPNOTSUPP, "the controller does not support %s", op->name);
	if (given->flags & ~op->flags)
		return rdi_fail(func, -EINVAL, "%s does not have the flags 0x%x", op->name,
				given->flags & ~op->flags);
	if (given->op == RDINIT_DEV_FLUSH)
		return 0;
	rc = check_range(dev, func, given->lba, given->nblocks, max);
	if (!rc && op->has_data)
		rc = check_transfer(dev, func, (uint8_t)given->op, given->nblocks);
	if (!rc && given->op == RDINIT_DEV_COPY)
		rc = check_range(dev, func, given->source, given->nblocks, max);
	return rc ? rc : check_data(dev, func, given);
}

/* Whether the elements are contiguous in memory and so can be sent as one buffer. */
static bool iov_is_one(const struct rdinit_dev_io *given)
{
	unsigned int i;

	for (i = 1; i < given->iovcnt; i++)
		if ((uint8_t *)given->iov[i - 1].iov_base + given->iov[i - 1].iov_len !=
		    given->iov[i].iov_base)
			return false;
	return true;
}

/* Sets up one buffer for data in several elements; it follows the copy of the array in one
 * allocation. */
static int gather_iov(struct rdi_io *io, const struct rdinit_dev_io *given, uint64_t bytes)
{
	size_t array = given->iovcnt * sizeof(*given->iov);
	uint8_t *to;
	unsigned int i;

	io->iov = malloc(array + bytes);
	if (!io->iov)
		return -ENOMEM;
	memcpy(io->iov, given->iov, array);
	io->iovcnt = given->iovcnt;
	io->buf = to = (uint8_t *)io->iov + array;
	for (i = 0; given->op != RDINIT_DEV_READ && i < given->iovcnt; i++) {
		memcpy(to, given->iov[i].iov_base, given->iov[i].iov_len);
		to += given->iov[i].iov_len;
	}
	return 0;
}

static int submit_io(struct rdinit_dev_chan *chan, const char *func,
		     const struct rdinit_dev_io *given, rdinit_complete_fn fn, void *user,
		     uint64_t *id)
{
	struct rdi_io *io;
	int rc;

	if (rdi_is_foreign(RDI_HANDLE(chan)))
		return rdi_foreign(RDI_HANDLE(chan), func);
	rc = RDI_CHECK_SIZE(func, given, rdinit_dev_io, sizeof(*given));
	if (!rc && !fn)
		rc = rdi_fail(func, -EINVAL, "fn is NULL");
	if (!rc)
		rc = check_io(chan, func, given);
	if (rc)
		return rc;
	io = take_io(chan, fn);
	if (!io)
		return no_entry(chan, func);
	io->op = (uint8_t)given->op;
	io->flags = (uint8_t)given->flags;
	io->timeout_ms = given->timeout_ms;
	io->lba = given->lba;
	io->nblocks = given->nblocks;
	io->source = given->source;
	io->buf = given->buf;
	io->write_buf = given->write_buf;
	io->fn = fn;
	io->user = user;
	if (given->iovcnt && rdi_ops[given->op].has_data && iov_is_one(given))
		io->buf = given->iov[0].iov_base;
	else if (given->iovcnt && rdi_ops[given->op].has_data &&
		 gather_iov(io, given, (uint64_t)given->nblocks * chan->dev->block_size)) {
		io->busy = false;
		TAILQ_INSERT_HEAD(&chan->free, io, link);
		chan->inflight--;
		return rdi_fail(func, -ENOMEM, "out of memory");
	}
	if (id)
		*id = (uint64_t)io->gen << 16 | io->index;
	io_start(chan, io);
	return 0;
}

int rdinit_dev_submit(struct rdinit_dev_chan *chan, const struct rdinit_dev_io *io,
		      rdinit_complete_fn fn, void *user, uint64_t *id)
{
	return submit_io(chan, __func__, io, fn, user, id);
}

int rdinit_dev_run(struct rdinit_dev_chan *chan, const struct rdinit_dev_io *io)
{
	return RDI_SYNC(chan, __func__, submit_io(chan, __func__, io, rdi_sync_done, &sync, NULL));
}

int rdinit_dev_flush_async(struct rdinit_dev_chan *chan, rdinit_complete_fn fn, void *user)
{
	struct rdinit_dev_io io;

	rdinit_dev_io_init(&io);
	io.op = RDINIT_DEV_FLUSH;
	return submit_io(chan, __func__, &io, fn, user, NULL);
}

int rdinit_dev_flush(struct rdinit_dev_chan *chan)
{
	struct rdinit_dev_io io;

	rdinit_dev_io_init(&io);
	io.op = RDINIT_DEV_FLUSH;
	return rdinit_dev_run(chan, &io);
}

int rdinit_dev_cancel(struct rdinit_dev_chan *chan, uint64_t id)
{
	unsigned int index = id & 0xffff;
	struct rdi_io *io;

	if (rdi_is_foreign(RDI_HANDLE(chan)))
		return rdi_foreign(RDI_HANDLE(chan), __func__);
	io = index <= chan->depth ? &chan->ios[index] : NULL;
	if (!io || !io->busy || io->gen != (uint32_t)(id >> 16))
		return rdi_fail(__func__, -ENOENT, "the command has ended");
	io->cancelled = true;
	if (io->cp)
		rdi_io_abort(io);
	else
		rd_defer(chan->h.loop, &chan->pump, RD_DEFER_WORK);
	return 0;
}
