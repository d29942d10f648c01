/* SPDX-License-Identifier: BSD-3-Clause */
/* A request of the block device as commands of a channel. */
#include <errno.h>

#include "internal.h"

/* Parts of a status that the kernel has an error for (Base 4.2.3, NVM 1.2). */
#define STATUS_CODE      0x7ffu
#define STATUS_PROTECTED 0x20u  /* Namespace is Write Protected */
#define STATUS_CAPACITY  0x81u  /* Capacity Exceeded */
#define STATUS_RESERVED  0x83u  /* Reservation Conflict */
#define STATUS_WRITE     0x280u /* Write Fault */
#define STATUS_UNREAD    0x281u /* Unrecovered Read Error */

/* The error number that the kernel makes a block layer status of. */
static int attach_errno(const struct rdinit_completion *c)
{
	if (c->err == -EOPNOTSUPP || c->err == -ETIMEDOUT || c->err == -ENOMEM)
		return c->err;
	if (c->err != -EIO)
		return -EIO;
	switch (c->status & STATUS_CODE) {
	case STATUS_RESERVED:
		return -EBADE;
	case STATUS_CAPACITY:
		return -ENOSPC;
	case STATUS_WRITE:
	case STATUS_UNREAD:
		return -ENODATA;
	default:
		return -EIO;
	}
}

static uint32_t io_most(const struct rdi_attach_io *io)
{
	switch (io->op) {
	case RDINIT_DEV_WRITE_ZEROES:
		return io->limits->max_zeroes;
	case RDINIT_DEV_DEALLOCATE:
		return io->limits->max_deallocate;
	default:
		return io->limits->max_data;
	}
}

static void io_part_done(void *user, const struct rdinit_completion *c);

static int io_send_part(struct rdi_attach_io *io)
{
	struct rdinit_dev_io cmd;
	uint32_t most = io_most(io);

	rdinit_dev_io_init(&cmd);
	cmd.op = io->op;
	cmd.flags = io->flags;
	if (io->op != RDINIT_DEV_FLUSH) {
		if (!most)
			return -EOPNOTSUPP;
		io->part = io->left < most ? (uint32_t)io->left : most;
		cmd.lba = io->lba;
		cmd.nblocks = io->part;
		cmd.buf = io->buf;
	}
	return rdinit_dev_submit(io->chan, &cmd, io_part_done, io, NULL);
}

/* An error of rdinit_dev_submit(): -EINVAL is a range that a smaller namespace no longer has. */
static int submit_errno(int rc)
{
	return rc == -EOPNOTSUPP || rc == -ENOMEM ? rc : rc ? -EIO : 0;
}

static void io_part_done(void *user, const struct rdinit_completion *c)
{
	struct rdi_attach_io *io = user;
	int rc = c->err ? attach_errno(c) : 0;

	if (!rc && io->op != RDINIT_DEV_FLUSH) {
		io->lba += io->part;
		io->left -= io->part;
		if (io->buf)
			io->buf += (uint64_t)io->part * io->limits->block_size;
		if (io->left) {
			rc = submit_errno(io_send_part(io));
			if (!rc)
				return;
		}
	}
	io->done(io, rc);
}

int rdi_attach_io_start(struct rdi_attach_io *io, struct rdinit_dev_chan *chan,
			const struct rdi_attach_limits *limits)
{
	io->chan = chan;
	io->limits = limits;
	return submit_errno(io_send_part(io));
}

void rdi_attach_limits_of(const struct rdinit_dev_info *info, struct rdi_attach_limits *out)
{
	*out = (struct rdi_attach_limits){
		.block_size = info->block_size,
		.max_data = info->max_transfer / info->block_size,
		.max_zeroes = info->max_write_zeroes,
		.max_deallocate = info->max_deallocate,
	};
}
