/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A command of a channel: how it is built and sent on a path, and what follows its completion: the
 * callback, or another attempt. rdinit_dev.h states when a command is not sent again, and why.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "dev.h"

#define CDW12_DEAC    ((uint32_t)NVME_IO_DEAC << 16)
#define LIMITS_MAX    3
#define LOSSES_MAX    RDINIT_DEV_PATHS_MAX /* each path can be lost once while all go */
#define ZEROES_BYTES  (64u << 10)          /* of one Write in place of a Write Zeroes */
#define ABORT_WAIT_NS (10 * RD_NSEC_PER_SEC)
/* Delay before the first retry after a status; each further delay is four times as long. */
#define RETRY_NS (1 * RD_NSEC_PER_MSEC)
/* Longest delay after an ANA status; the first one is 1 ms, and each further one twice as long. */
#define REFUSED_MS_MAX 1000u

const struct rdi_op rdi_ops[] = {
	[RDINIT_DEV_READ] = {"Read", nvme_cmd_read, RDINIT_IO_FUA, .has_data = true,
			     .repeatable = true},
	[RDINIT_DEV_WRITE] = {"Write", nvme_cmd_write, RDINIT_IO_FUA, .has_data = true,
			      .changes_blocks = true, .repeatable = true},
	[RDINIT_DEV_FLUSH] = {"Flush", nvme_cmd_flush, 0, .repeatable = true},
	[RDINIT_DEV_WRITE_ZEROES] = {"Write Zeroes", nvme_cmd_write_zeroes,
				     RDINIT_IO_FUA | RDINIT_DEV_IO_DEALLOCATE,
				     .changes_blocks = true, .repeatable = true},
	[RDINIT_DEV_DEALLOCATE] = {"Deallocate", nvme_cmd_dsm, 0, .changes_blocks = true,
				   .repeatable = true},
	[RDINIT_DEV_VERIFY] = {"Verify", nvme_cmd_verify, 0, .repeatable = true},
	[RDINIT_DEV_COMPARE] = {"Compare", nvme_cmd_compare, RDINIT_IO_FUA, .has_data = true},
	[RDINIT_DEV_COMPARE_WRITE] = {"Compare and Write", nvme_cmd_compare, RDINIT_IO_FUA,
				      .has_data = true, .changes_blocks = true},
	[RDINIT_DEV_COPY] = {"Copy", nvme_cmd_copy, RDINIT_IO_FUA, .changes_blocks = true},
};

/* ---- the end ---- */

static void copy_out(struct rdi_io *io)
{
	/* Behind the array; io->buf may be that of the last part. */
	const uint8_t *from = (const uint8_t *)(io->iov + io->iovcnt);
	unsigned int i;

	for (i = 0; i < io->iovcnt; i++) {
		memcpy(io->iov[i].iov_base, from, io->iov[i].iov_len);
		from += io->iov[i].iov_len;
	}
}

/* Cold path of finish_io(): vectors and guards. */
static __attribute__((noinline)) void finish_rare(struct rdi_io *io,
						  const struct rdinit_completion *c)
{
	struct rdi_guards *guards = &io->chan->dev->guards;

	if (io->iov && c->err == 0 && io->op == RDINIT_DEV_READ)
		copy_out(io);
	free(io->iov);
	io->iov = NULL;
	/* A cancelled command, or one that was given up, may still be executed by the target. */
	if (c->err == 0 || c->err == -EIO)
		rdi_guards_end(guards, io->guard);
	else
		rdi_guards_leave(guards, io->guard);
	io->guard = NULL;
}

/* Calls the callback of @io and frees @io. */
static void finish_io(struct rdi_io *io, const struct rdinit_completion *c)
{
	struct rdinit_dev_chan *chan = io->chan;
	rdinit_complete_fn fn = io->fn;
	void *user = io->user;

	if (__builtin_expect(io->iov || io->guard, 0))
		finish_rare(io, c);
	io->busy = false;
	TAILQ_INSERT_HEAD(&chan->free, io, link);
	chan->inflight--;
	chan->callbacks++;
	if (__builtin_expect(!TAILQ_EMPTY(&chan->waiting), 0))
		rd_defer(chan->h.loop, &chan->pump, RD_DEFER_WORK);
	fn(user, c);
}

void rdi_io_fail(struct rdi_io *io, int err, const char *fmt, ...)
{
	char text[RDI_TEXT];
	struct rdinit_completion c = {.err = err, .text = text};
	int len = snprintf(text, sizeof(text), "%s: ", rdi_ops[io->op].name);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + len, sizeof(text) - (size_t)len, fmt, ap);
	va_end(ap);
	finish_io(io, &c);
}

/* May @io be executed twice? */
static bool may_repeat(const struct rdi_io *io)
{
	const struct rdi_op *op = &rdi_ops[io->op];

	return op->repeatable && !(op->changes_blocks && io->chan->dev->opts.no_resend_writes);
}

/* ---- lost ---- */

/* Guards the blocks that the lost command may still change. */
static void guard_blocks(struct rdi_io *io, const struct rdi_chan_path *cp, bool resend)
{
	struct rdinit_dev *dev = io->chan->dev;
	struct rdi_guard what = {
		.lba = io->lba,
		.nblocks = io->nblocks,
		.safe_at = rd_loop_now_raw(io->chan->h.loop) + atomic_load(&cp->path->stale_ns),
		.path = cp->path->index,
		.epoch = cp->epoch,
		.gateway = cp->gateway,
		.resend = resend,
	};

	if (io->guard)
		rdi_guards_renew(&dev->guards, io->guard, &what);
	else
		io->guard = rdi_guards_add(&dev->guards, &what);
	if (!io->guard)
		/* without memory for a guard: send it later, by any path */
		io->not_before = what.safe_at;
}

/*
 * Counts a loss of @io. A target can end the connection because of this command, each time: without
 * a bound it would be sent for ever, and others would lose their path with it. While a path alone
 * may be lost, commands wait for it; so the bound is not shorter than that.
 */
static bool lost_too_often(struct rdi_io *io, uint64_t now)
{
	uint32_t limit = io->chan->dev->opts.ctrl_loss_tmo_ms;

	if (io->losses == 0)
		io->lost_at = now;
	if (io->losses < UINT8_MAX)
		io->losses++;
	return io->losses > LOSSES_MAX && limit != RDINIT_DEV_NEVER &&
	       now - io->lost_at >= limit * RD_NSEC_PER_MSEC;
}

/* The connection ended before the completion arrived. */
static __attribute__((noinline)) void io_lost(struct rdi_io *io, struct rdi_chan_path *cp,
					      const char *why)
{
	struct rdinit_dev_chan *chan = io->chan;
	uint64_t now = rd_loop_now_raw(chan->h.loop);
	bool changes = rdi_ops[io->op].changes_blocks;
	bool too_often = lost_too_often(io, now);
	bool again = may_repeat(io) && !chan->dying && !io->cancelled && io->limits < LIMITS_MAX &&
		     !too_often;

	io->not_before = 0;
	if (changes)
		guard_blocks(io, cp, again);
	if (again)
		rdi_wait_add(io);
	else if (chan->dying)
		rdi_io_fail(io, -ECANCELED, "the channel was freed");
	else if (io->cancelled)
		rdi_io_fail(io, -ECANCELED, "cancelled; %s", why);
	else if (io->limits >= LIMITS_MAX)
		rdi_io_fail(io, -ETIMEDOUT, "no answer in time, %u times; %s", io->limits, why);
	else if (may_repeat(io))
		rdi_io_fail(io, -EREMOTEIO,
			    "%u connections were lost while it was in flight, for longer than "
			    "ctrl_loss_tmo_ms (%u): check the target's log; the last one: %s",
			    io->losses, chan->dev->opts.ctrl_loss_tmo_ms, why);
	else
		rdi_io_fail(io, -EREMOTEIO, "it is unknown whether the controller executed it; %s",
			    why);
}

/* ---- answered with a status ---- */

/* The controller aborted the command at our request: it was cancelled, or exceeded its time
 * limit. */
static void io_aborted(struct rdi_io *io, const struct rdinit_completion *c)
{
	if (io->cancelled)
		rdi_io_fail(io, -ECANCELED, "cancelled");
	else if (io->limits >= LIMITS_MAX)
		rdi_io_fail(io, -ETIMEDOUT, "no answer in time, %u times: %s", io->limits, c->text);
	else if (may_repeat(io))
		rdi_wait_add(io);
	else
		rdi_io_fail(io, -ETIMEDOUT, "no answer in time: %s", c->text);
}

/* Whether the status says that the command was aborted, also as the partner of a fused command. */
static bool is_aborted(uint16_t status)
{
	unsigned int code = status & 0x7ff; /* SCT and SC */

	return code == NVME_SC_ABORT_REQ || code == NVME_SC_FUSED_FAIL;
}

/*
 * A path refused @io with the status of @c, and is not chosen before its ANA state changes. When
 * the log page of the controller contradicts its statuses, the state changes back at once:
 * therefore the delays grow, and @io ends when their sum has reached its time limit, or ANATT
 * (@anatt, seconds) if that is longer. Time without a usable path is not part of the sum. Returns
 * the delay in ns, or 0 when @io has ended.
 */
static uint64_t wait_for_ana(struct rdi_io *io, const struct rdinit_completion *c,
			     unsigned int anatt)
{
	uint32_t limit = io->timeout_ms ? io->timeout_ms : io->chan->dev->opts.io_timeout_ms;
	/* The sum of the delays 1, 2, 4, ..., plus 1, is the next one. */
	uint32_t delay = io->refused_ms + 1;
	struct rdinit_completion end = *c;
	char text[RDI_TEXT];

	if (io->refused_ms >= limit && io->refused_ms >= anatt * 1000) {
		snprintf(text, sizeof(text),
			 "%.300s; refused repeatedly with path-related statuses, although the ANA "
			 "log page reports the namespace as usable: check the target",
			 c->text);
		end.text = text;
		finish_io(io, &end);
		return 0;
	}
	if (delay > REFUSED_MS_MAX)
		delay = REFUSED_MS_MAX;
	io->refused_ms += delay;
	return delay * RD_NSEC_PER_MSEC;
}

static __attribute__((noinline)) void io_refused(struct rdi_io *io, struct rdi_chan_path *cp,
						 const struct rdinit_completion *c)
{
	struct rdinit_dev_chan *chan = io->chan;
	struct nvme_status st = {c->status};
	enum rdi_verdict verdict = rdi_status_verdict(st, io->retries);
	uint64_t delay = 0, least = RETRY_NS << (2 * io->retries);
	bool unusable = false;
	unsigned int anatt = 0;

	if (io->aborts && is_aborted(c->status)) {
		io_aborted(io, c);
		return;
	}
	if (verdict == RDI_OTHER_PATH && !may_repeat(io) && !rdi_status_unexecuted(st)) {
		rdi_io_fail(io, -EREMOTEIO, "it is unknown whether the controller executed it; %s",
			    c->text);
		return;
	}
	if (verdict == RDI_COMPLETE || io->retries >= RDI_RETRIES_MAX ||
	    (verdict == RDI_SAME_PATH && !may_repeat(io))) {
		finish_io(io, c);
		return;
	}
	if (rdi_dev_lock(chan->dev, __func__) == 0) {
		if (verdict == RDI_OTHER_PATH)
			rdi_path_answered(cp->path, cp->epoch, st);
		else if (cp->path->ctrl)
			delay = rdi_retry_delay_ns(st, &cp->path->ctrl->id);
		unusable = verdict == RDI_OTHER_PATH && cp->path->ana_log &&
			   !rdi_path_usable(cp->path);
		anatt = cp->path->ana_now.anatt;
		rdi_dev_unlock(chan->dev);
	}
	if (unusable) {
		delay = wait_for_ana(io, c, anatt);
		if (!delay)
			return;
	} else {
		io->retries++;
	}
	/* A controller can ask for almost two hours. */
	if (delay > chan->dev->opts.io_timeout_ms * RD_NSEC_PER_MSEC)
		delay = chan->dev->opts.io_timeout_ms * RD_NSEC_PER_MSEC;
	if (delay < least)
		delay = least;
	io->not_before = rd_loop_now(chan->h.loop) + delay;
	rdi_wait_add(io);
}

/* Increments a counter that one thread writes and others read. */
static inline void count_command(_Atomic uint32_t *n)
{
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* ---- parts ---- */

/* Blocks of one Write of zeroes. */
static uint32_t zeroes_at_once(const struct rdi_chan_path *cp)
{
	uint32_t bytes = cp->qp->max_transfer;

	return (bytes < ZEROES_BYTES ? bytes : ZEROES_BYTES) / cp->chan->dev->block_size;
}

/* Blocks of one command like @io that the path @cp accepts; 0: it does not support such commands.
 */
static uint32_t blocks_at_once(const struct rdi_io *io, const struct rdi_chan_path *cp)
{
	switch ((enum rdinit_dev_op)io->op) {
	case RDINIT_DEV_READ:
	case RDINIT_DEV_WRITE:
		return cp->qp->max_transfer / io->chan->dev->block_size;
	case RDINIT_DEV_WRITE_ZEROES:
		return io->as_write ? zeroes_at_once(cp) : atomic_load(&cp->path->max_write_zeroes);
	case RDINIT_DEV_VERIFY:
		return atomic_load(&cp->path->max_verify);
	case RDINIT_DEV_COPY:
		return atomic_load(&cp->path->max_copy);
	case RDINIT_DEV_FLUSH:
	case RDINIT_DEV_DEALLOCATE:
	case RDINIT_DEV_COMPARE:
	case RDINIT_DEV_COMPARE_WRITE:
		break;
	}
	return UINT32_MAX;
}

/* A part of such a Copy would read what an earlier part has written. */
static bool copies_to_itself(const struct rdi_io *io)
{
	uint64_t apart = io->lba > io->source ? io->lba - io->source : io->source - io->lba;

	return io->op == RDINIT_DEV_COPY && apart < io->nblocks;
}

/* If @io is larger than what the path @cp accepts, only the first part of it is sent. */
static __attribute__((noinline)) void shorten_io(struct rdi_io *io, const struct rdi_chan_path *cp)
{
	uint32_t most = blocks_at_once(io, cp);

	if (!most || io->nblocks <= most || copies_to_itself(io))
		return; /* the controller judges the whole */
	io->rest += io->nblocks - most;
	io->nblocks = most;
}

/* The first part has ended. The rest was never sent: any path may take it. */
static __attribute__((noinline)) void next_part(struct rdi_io *io)
{
	io->lba += io->nblocks;
	io->source += io->nblocks;
	if (rdi_ops[io->op].has_data)
		io->buf = (uint8_t *)io->buf + (size_t)io->nblocks * io->chan->dev->block_size;
	io->nblocks = io->rest;
	io->rest = 0;
	io->retries = 0;
	io->losses = 0;
	io->refused_ms = 0;
	io->not_before = 0;
	if (io->guard)
		rdi_guards_end(&io->chan->dev->guards, io->guard);
	io->guard = NULL;
	rdi_wait_add(io);
}

/* The rdinit_complete_fn of every command. The cold paths are not inlined, because their texts
 * would enlarge the stack frame of every command. */
static void io_ended(void *user, const struct rdinit_completion *c)
{
	struct rdi_io *io = user;
	struct rdi_chan_path *cp = io->cp;

	io->cp = NULL;
	if (c->err == 0) {
		count_command(&cp->n_answered);
		if (__builtin_expect(io->rest, 0))
			next_part(io);
		else
			finish_io(io, c);
	} else if (c->err == -EIO) {
		io_refused(io, cp, c);
	} else {
		io_lost(io, cp, c->text);
	}
}

/* ---- fused pairs ---- */

/* How much the error of a half tells about the pair. A half that ended only because the other one
 * failed tells nothing: neither the reason nor whether another path can be tried. */
static unsigned int pair_rank(int err, uint16_t status)
{
	if (err != -EIO)
		return err ? 3 : 0; /* lost: the outcome is unknown */
	return (status & 0x7ff) == NVME_SC_FUSED_FAIL ? 1 : 2;
}

/* One half of a fused pair has completed. Of two errors with the same rank, that of the first half
 * is reported. */
static void pair_part(struct rdi_io *io, const struct rdinit_completion *c, bool first)
{
	struct rdinit_completion both = {.text = ""};
	char status[NVME_STATUS_TEXT], text[RDI_TEXT];
	unsigned int rank = pair_rank(c->err, c->status);

	if (rank + first > pair_rank(io->err, io->status)) {
		io->err = c->err;
		io->status = c->status;
	}
	if (--io->parts)
		return;
	both.err = io->err;
	both.status = io->status;
	if (both.err == -EIO) {
		nvme_status_text((struct nvme_status){both.status},
				 (struct nvme_cmd_kind){NVME_CMDS_IO, nvme_cmd_compare}, status);
		snprintf(text, sizeof(text), "Compare and Write failed: %s", status);
		both.text = text;
	} else if (both.err) {
		both.text = c->text;
	}
	io_ended(io, &both);
}

static void pair_first_done(void *user, const struct rdinit_completion *c)
{
	pair_part(user, c, true);
}

static void pair_second_done(void *user, const struct rdinit_completion *c)
{
	pair_part(user, c, false);
}

/* ---- sending ---- */

/* Builds the payload: one range of Dataset Management, or one source range of Copy (format 0). */
static void make_payload(struct rdi_io *io, struct rdi_cmd *cmd)
{
	bool copy = io->op == RDINIT_DEV_COPY;
	__le64 lba = htole64(copy ? io->source : io->lba);
	__le32 dsm_blocks = htole32(io->nblocks);
	__le16 copy_blocks = htole16((uint16_t)(io->nblocks - 1));

	memset(io->payload, 0, sizeof(io->payload));
	memcpy(io->payload + 8, &lba, sizeof(lba));
	if (copy)
		memcpy(io->payload + 16, &copy_blocks, sizeof(copy_blocks));
	else
		memcpy(io->payload + 4, &dsm_blocks, sizeof(dsm_blocks));
	cmd->data = io->payload;
	cmd->len = copy ? 32 : 16;
	cmd->dir = RDI_OUT;
}

static void make_io_cmd(struct rdi_chan_path *cp, struct rdi_io *io, struct rdi_cmd *cmd)
{
	uint32_t cdw12 = (io->nblocks - 1) & 0xffff;

	*cmd = (struct rdi_cmd){
		.timeout_ns = io->timeout_ms * RD_NSEC_PER_MSEC,
		.fn = io_ended,
		.user = io,
	};
	cmd->sqe.opcode = rdi_ops[io->op].opcode;
	cmd->sqe.nsid = htole32(cp->path->nsid);
	if (io->flags & RDINIT_IO_FUA)
		cdw12 |= RDI_CDW12_FUA;
	if (io->flags & RDINIT_DEV_IO_DEALLOCATE && atomic_load(&io->chan->dev->write_zeroes_deac))
		cdw12 |= CDW12_DEAC;
	switch ((enum rdinit_dev_op)io->op) {
	case RDINIT_DEV_FLUSH:
		return;
	case RDINIT_DEV_DEALLOCATE:
		make_payload(io, cmd);
		/* number of ranges, 0's based: cdw10 is 0 */
		cmd->sqe.cdw11 = htole32(NVME_DSMGMT_AD);
		return;
	case RDINIT_DEV_COPY:
		make_payload(io, cmd);
		cdw12 &= ~0xffffu; /* one source range, format 0 */
		break;
	case RDINIT_DEV_READ:
	case RDINIT_DEV_WRITE:
	case RDINIT_DEV_COMPARE:
	case RDINIT_DEV_COMPARE_WRITE:
		cmd->data = io->buf;
		cmd->len = io->nblocks * io->chan->dev->block_size;
		cmd->dir = io->op == RDINIT_DEV_READ ? RDI_IN : RDI_OUT;
		break;
	case RDINIT_DEV_WRITE_ZEROES:
		if (!io->as_write)
			break;
		cmd->sqe.opcode = nvme_cmd_write;
		cmd->data = io->chan->zeroes;
		cmd->len = io->nblocks * io->chan->dev->block_size;
		cmd->dir = RDI_OUT;
		cdw12 &= ~CDW12_DEAC;
		break;
	case RDINIT_DEV_VERIFY:
		break;
	}
	cmd->sqe.cdw10 = htole32((uint32_t)io->lba);
	cmd->sqe.cdw11 = htole32((uint32_t)(io->lba >> 32));
	cmd->sqe.cdw12 = htole32(cdw12);
}

static int send_fused_pair(struct rdi_chan_path *cp, struct rdi_io *io)
{
	struct rdi_cmd compare, write;

	if (cp->qp->q.user_limit < 2)
		return -EOPNOTSUPP;
	make_io_cmd(cp, io, &compare);
	write = compare;
	compare.fn = pair_first_done;
	compare.sqe.flags = NVME_CMD_FUSE_FIRST;
	write.fn = pair_second_done;
	write.sqe.opcode = nvme_cmd_write;
	write.sqe.flags = NVME_CMD_FUSE_SECOND;
	write.data = (void *)(uintptr_t)io->write_buf;
	return rdi_queue_submit_pair(&cp->qp->q, &compare, &write);
}

/* The fast path: reads and writes with the time limit of the device. */
static inline int send_read_write(struct rdi_chan_path *cp, struct rdi_io *io)
{
	struct rdi_queue *q = &cp->qp->q;
	struct rdi_req *req;
	int rc = rdi_queue_check(q, 0, 1);

	if (rc)
		return rc;
	req = rdi_queue_next(q);
	rdi_req_make_rw(req, io->op == RDINIT_DEV_READ ? nvme_cmd_read : nvme_cmd_write,
			cp->path->nsid, io->lba, io->nblocks, io->chan->dev->block_size, io->buf,
			io->flags);
	req->fn = io_ended;
	req->user = io;
	rc = rdi_queue_send(q, req);
	io->cids[0] = req->cid;
	return rc;
}

static bool is_plain_rw(const struct rdi_io *io)
{
	return io->op <= RDINIT_DEV_WRITE && !io->timeout_ms;
}

/* Stores the identifiers of the command that was sent last and, for a pair, of the one before
 * it. */
static void note_cids(struct rdi_io *io, const struct rdi_queue *q)
{
	io->cids[0] = rdi_queue_last_cid(q);
	if (io->op == RDINIT_DEV_COMPARE_WRITE)
		io->cids[1] =
			TAILQ_PREV(TAILQ_LAST(&q->busy, rdi_req_list), rdi_req_list, link)->cid;
}

/* A command that is neither a plain read or write nor a fused pair. */
static int send_other(struct rdi_chan_path *cp, struct rdi_io *io)
{
	struct rdinit_dev_chan *chan = io->chan;
	struct rdi_cmd cmd;

	/* A controller without Write Zeroes, although that of the first path has it. */
	io->as_write =
		io->op == RDINIT_DEV_WRITE_ZEROES && atomic_load(&cp->path->max_write_zeroes) == 0;
	if (io->as_write && !chan->zeroes)
		chan->zeroes = calloc(1, ZEROES_BYTES);
	if (io->as_write && !chan->zeroes)
		return -ENOMEM;
	shorten_io(io, cp);
	if (io->as_write && (uint64_t)io->nblocks * chan->dev->block_size > ZEROES_BYTES)
		return -EMSGSIZE;
	make_io_cmd(cp, io, &cmd);
	return rdi_queue_submit(&cp->qp->q, &cmd);
}

int rdi_io_send(struct rdi_chan_path *cp, struct rdi_io *io)
{
	int rc;

	io->aborts = 0;
	if (__builtin_expect(io->op <= RDINIT_DEV_WRITE &&
				     (uint64_t)io->nblocks * io->chan->dev->block_size >
					     cp->qp->max_transfer,
			     0))
		shorten_io(io, cp);
	if (__builtin_expect(is_plain_rw(io), 1)) {
		rc = send_read_write(cp, io);
	} else if (io->op == RDINIT_DEV_COMPARE_WRITE) {
		io->parts = 2;
		io->err = 0;
		io->status = 0;
		rc = send_fused_pair(cp, io);
	} else {
		rc = send_other(cp, io);
	}
	if (rc)
		return rc;
	if (!is_plain_rw(io))
		note_cids(io, &cp->qp->q);
	io->cp = cp;
	io->answered = atomic_load_explicit(&cp->n_answered, memory_order_relaxed);
	count_command(&cp->n_sent);
	return 0;
}

/* ---- time limits ---- */

static void send_abort(struct rdi_io *io, uint16_t cid)
{
	struct rdi_chan_path *cp = io->cp;
	struct rdinit_dev *dev = io->chan->dev;

	if (rdi_dev_lock(dev, __func__))
		return;
	rdi_path_abort(cp->path, cp->epoch, cp->qp->q.cfg.qid, cid);
	rdi_dev_unlock(dev);
	io->aborts++;
}

void rdi_io_abort(struct rdi_io *io)
{
	if (io->op == RDINIT_DEV_COMPARE_WRITE)
		send_abort(io, io->cids[1]);
	send_abort(io, io->cids[0]);
}

bool rdi_io_overdue(struct rdi_queue *q, struct rdi_req *req)
{
	struct rdi_io *io = req->user;
	uint64_t wait = q->cfg.cmd_timeout_ns;

	/* Connect or authentication of the queue: req->user is not a struct rdi_io. */
	if (q->state != RDI_Q_LIVE || req->internal)
		return false;
	/* Both halves of a pair exceed their limit at the same time; each gets an Abort. */
	if (io->aborts >= (io->op == RDINIT_DEV_COMPARE_WRITE ? 2 : 1))
		return false;
	if (io->aborts == 0 && !rdi_wait_blame(io))
		io->limits++;
	send_abort(io, req->cid);
	if (wait > ABORT_WAIT_NS)
		wait = ABORT_WAIT_NS;
	req->deadline = rd_loop_now_raw(q->loop) + wait;
	return true;
}
