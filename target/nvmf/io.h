/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the I/O commands share. A simple command hands one bio to its backend. A
 * command of several steps has a step function, which is called until it must wait or is done;
 * whatever it waited for (bio, scratch buffer, range of blocks) calls it again.
 *
 * What a request may hold is taken in one order, so that none can wait in a circle: buffer of the
 * slab, the host's data, range of blocks, scratch buffer, backend. A range and a scratch buffer are
 * given back before another range is waited for.
 */
#ifndef RDT_IO_H
#define RDT_IO_H

#include <endian.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "nvmf/text.h"
#include "target/bdev/backend.h"
#include "ns.h"
#include "qpair.h"
#include "range_lock.h"
#include "reactor.h"
#include "request.h"

struct rdt_subsys;

#define RDT_IO_FUA   (1u << 30) /* CDW12 of all commands that have it */
#define RDT_IO_DTYPE 0xf00000u  /* CDW12: directive type. None is supported */
#define RDT_DSM_AD   (1u << 2)  /* CDW11 of Dataset Management: deallocate */

/* One of a list: of Copy, or of Dataset Management. */
struct rdt_io_range {
	uint64_t lba;
	uint32_t blocks;
};

enum rdt_step {
	RDT_STEP_AGAIN, /* go on */
	RDT_STEP_WAIT,  /* rdt_io_resume() will follow */
	RDT_STEP_DONE,  /* req->status is set */
};

static inline uint32_t rdt_io_cdw12(const struct rdt_req *req)
{
	return le32toh(req->sqe.cdw12);
}

static inline uint64_t rdt_io_slba(const struct rdt_req *req)
{
	return (uint64_t)le32toh(req->sqe.cdw11) << 32 | le32toh(req->sqe.cdw10);
}

static inline uint32_t rdt_io_nlb(const struct rdt_req *req)
{
	return (rdt_io_cdw12(req) & 0xffff) + 1;
}

/* io_check.c */
bool rdt_io_supported(const struct rdt_subsys *ss, unsigned int opcode);
bool rdt_fused_supported(const struct rdt_subsys *ss);
/*
 * May this command of this host touch the namespace at all? Sets req->ns, and comes before a
 * command's own limits and its range.
 */
struct nvme_status rdt_io_admit(struct rdt_req *req);
/* The same of one that was admitted and has waited since, and that its range is still there. */
struct nvme_status rdt_io_admit_again(struct rdt_req *req);

static inline struct nvme_status rdt_io_check_range(struct rdt_req *req, uint64_t lba,
						    uint64_t blocks)
{
	uint64_t size = req->ns->blocks;

	if (lba < size && blocks <= size - lba)
		return NVME_OK;
	req->err_lba = lba;
	return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_LBA_RANGE, RDT_LOC(cdw10));
}

static inline struct nvme_status rdt_io_check_dtype(struct rdt_req *req)
{
	if (rdt_io_cdw12(req) & RDT_IO_DTYPE)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD,
				    (RDT_LOC(cdw12) + 2) | 4 << 8);
	return NVME_OK;
}

/* SLBA and NLB of CDW10 to 12; @limit is in bytes, 0: none. */
static inline struct nvme_status rdt_io_check_blocks(struct rdt_req *req, uint64_t limit)
{
	if (limit && (uint64_t)rdt_io_nlb(req) << req->ns->lbads > limit)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw12));
	return rdt_io_check_range(req, rdt_io_slba(req), rdt_io_nlb(req));
}

/* The same of a command that moves them, and what that makes in bytes: req->data_len. */
static inline struct nvme_status rdt_io_check_data(struct rdt_req *req)
{
	struct nvme_status st = rdt_io_check_blocks(req, req->qp->data_max);

	if (nvme_status_ok(st))
		req->data_len = rdt_io_nlb(req) << req->ns->lbads;
	return st;
}

/* io_step.c */
static inline void rdt_io_fill(struct rdt_req *req, enum rdt_bio_op op, uint64_t lba,
			       uint64_t blocks, void *buf)
{
	struct rdt_bio *bio = &req->bio;
	bool fua = (op == RDT_BIO_WRITE || op == RDT_BIO_WRITE_ZEROES) &&
		   rdt_io_cdw12(req) & RDT_IO_FUA;

	bio->op = (uint8_t)op;
	bio->flags = fua ? RDT_BIO_FUA : 0;
	bio->offset = lba << req->ns->lbads;
	bio->length = blocks << req->ns->lbads;
	bio->buf = buf;
	bio->result = 0;
	bio->status = 0;
}

/* The bio is done, with success or not: req->status, counters, marks of uncorrectable blocks. */
void rdt_io_result(struct rdt_req *req);
enum rdt_step rdt_io_step_bio(struct rdt_req *req);     /* submit req->bio */
enum rdt_step rdt_io_step_flush(struct rdt_req *req);   /* where there is a volatile cache */
enum rdt_step rdt_io_step_sync(struct rdt_req *req);    /* the same, for FUA of a read */
enum rdt_step rdt_io_step_scratch(struct rdt_req *req); /* get req->work.scratch */
/* Read work.blocks from work.lba on into it: what is left of the command, as far as it fits. */
enum rdt_step rdt_io_step_read(struct rdt_req *req);
/* Take, or wait for, these blocks. At most two spans. */
enum rdt_step rdt_io_step_lock(struct rdt_req *req, const struct rdt_span *spans,
			       unsigned int count);
enum rdt_step rdt_io_step_lock_blocks(struct rdt_req *req, bool excl); /* all of the command's */
void rdt_io_put_scratch(struct rdt_req *req);
/*
 * req->work.ranges, until the command ends. What a list says is copied there once, checked there
 * and used from there: on some devices the host can write to our buffer at any time. False: no
 * memory, which req->status says.
 */
bool rdt_io_ranges(struct rdt_req *req, unsigned int count);
enum rdt_exec rdt_io_run(struct rdt_req *req, enum rdt_step (*step)(struct rdt_req *req));
void rdt_io_resume(struct rdt_req *req);
/* FUA of a command that reads: commit what a volatile cache holds first. */
static inline bool rdt_io_fua_read(const struct rdt_req *req)
{
	return rdt_io_cdw12(req) & RDT_IO_FUA && rdt_bdev_has_cache(req->ns->bdev);
}

bool rdt_io_unmarked(struct rdt_req *req, uint64_t lba, uint64_t blocks);

/* Before reading: blocks marked by Write Uncorrectable fail. */
static inline bool rdt_io_readable(struct rdt_req *req, uint64_t lba, uint64_t blocks)
{
	return !atomic_load_explicit(&req->ns->uncor.count, memory_order_acquire) ||
	       rdt_io_unmarked(req, lba, blocks);
}

/* req->bio is filled. @done comes later, or rdt_io_result() is the caller's to call. */
static inline enum rdt_bio_submit rdt_io_submit(struct rdt_req *req,
						void (*done)(struct rdt_bio *bio))
{
	req->bio.done = done;
	req->in_bio = true;
	return rdt_chan_submit(req->channel->chan, &req->bio);
}

void rdt_io_scratch(struct rdt_req *req, void *buf); /* from the pool: its turn has come */
bool rdt_io_cancel(struct rdt_req *req);

/* fused.c */
struct nvme_status rdt_fused_check(struct rdt_req *req); /* the FUSE bits of a parsed command */
/*
 * A command arrived on a queue where fused ones are: pair it with the one before. @st: how its
 * parsing went; returns how it goes on. A first half of which nothing is known yet waits.
 */
struct nvme_status rdt_fused_arrived(struct rdt_req *req, struct nvme_status st);
void rdt_fused_waits(struct rdt_req *first);   /* for the second */
void rdt_fused_parsed(struct rdt_req *second); /* the pair is complete: buffers */
void rdt_fused_buffer(struct rdt_req *first);
void rdt_fused_ready(struct rdt_req *req); /* one half is READY, with success or not */
void rdt_fused_complete(
	struct rdt_req *req);                /* an I/O command, with its other half if it has one */
void rdt_fused_orphan(struct rdt_qpair *qp); /* no second half will come */
void rdt_fused_abort(struct rdt_req *first, struct nvme_status st); /* FUSED, and alone */

/* range_lock.c */
/*
 * Locks on block ranges: a range that is written (excl) excludes all others, a range that is read
 * excludes writers. Until a fused command reaches the namespace, commands are only counted, on
 * their reactor; the first fused pair switches that to locking and waits until the counted commands
 * of every reactor have ended. Returns false when the command waits: rdt_io_resume() follows.
 */
bool rdt_range_lock(struct rdt_req *req);
void rdt_range_unlock(struct rdt_req *req);
bool rdt_range_unwait(struct rdt_req *req); /* false: it is locked, or about to be */
/* The last counted command of @channel has ended. */
void rdt_range_drained(struct rdt_ns_channel *channel);

/* Count @req instead of locking. Returns false when this namespace has a table of locks. */
static inline bool rdt_range_count(struct rdt_req *req)
{
	struct rdt_ns_channel *channel = req->channel;

	if (channel->ranged)
		return false;
	channel->unranged++;
	req->range.state = RDT_RANGE_COUNTED;
	return true;
}

static inline bool rdt_range_begin(struct rdt_req *req, uint64_t lba, uint64_t blocks, bool excl)
{
	if (rdt_range_count(req))
		return true;
	req->range.spans[0] = (struct rdt_span){lba, lba + blocks, excl};
	req->range.count = 1;
	return rdt_range_lock(req);
}

static inline void rdt_range_end(struct rdt_req *req)
{
	struct rdt_ns_channel *channel;

	switch (req->range.state) {
	case RDT_RANGE_NONE:
		return;
	case RDT_RANGE_COUNTED:
		channel = req->channel;
		req->range.state = RDT_RANGE_NONE;
		if (--channel->unranged == 0 && channel->ranged)
			rdt_range_drained(channel);
		return;
	default:
		rdt_range_unlock(req);
	}
}

/* uncorrectable.c */
bool rdt_uncor_find(struct rdt_ns *ns, uint64_t lba, uint64_t blocks, uint64_t *bad);
void rdt_uncor_clear(struct rdt_ns *ns, uint64_t lba, uint64_t blocks);
struct nvme_status rdt_write_uncor_check(struct rdt_req *req);
enum rdt_exec rdt_write_uncor_exec(struct rdt_req *req);

#endif /* RDT_IO_H */
