/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common parts of the I/O commands. A simple command submits one bio. A command of several steps
 * has a step function, which is called until it returns WAIT or DONE. After WAIT it is called again
 * when the command can continue (bio completed, scratch buffer or block range available).
 *
 * A request acquires resources in a fixed order, so that requests cannot deadlock: slab buffer,
 * host data, block range, scratch buffer, backend. It releases the block range and the scratch
 * buffer before it waits for another range.
 */
#ifndef RDT_IO_H
#define RDT_IO_H

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "nvmf/text.h"
#include "target/bdev/backend.h"
#include "gate.h"
#include "ns.h"
#include "qpair.h"
#include "range_lock.h"
#include "reactor.h"
#include "request.h"

struct rdt_subsys;

#define RDT_IO_FUA   (1u << 30) /* CDW12: Force Unit Access */
#define RDT_IO_DTYPE 0xf00000u  /* CDW12: directive type; none is supported */
#define RDT_DSM_AD   (1u << 2)  /* CDW11 of Dataset Management: deallocate */

/* One range of a Copy or Dataset Management command. */
struct rdt_io_range {
	uint64_t lba;
	uint32_t blocks;
};

enum rdt_step {
	RDT_STEP_AGAIN, /* call the step function again */
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

/* io.c: admission */
bool rdt_fused_supported(const struct rdt_subsys *ss);
/* Check whether this command is allowed for its host and namespace, and set req->ns. Called before
 * the command's own limits and range are checked. */
struct nvme_status rdt_io_admit(struct rdt_req *req);
/* Like rdt_io_admit(), for an admitted command that has waited; also checks its range against the
 * current size of the namespace. */
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

/* Check SLBA and NLB (CDW10 to CDW12). @limit: maximum length in bytes; 0: none. */
static inline struct nvme_status rdt_io_check_blocks(struct rdt_req *req, uint64_t limit)
{
	if (limit && (uint64_t)rdt_io_nlb(req) << req->ns->lbads > limit)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw12));
	return rdt_io_check_range(req, rdt_io_slba(req), rdt_io_nlb(req));
}

/* The same for a command with data; also sets req->data_len. */
static inline struct nvme_status rdt_io_check_data(struct rdt_req *req)
{
	struct nvme_status st = rdt_io_check_blocks(req, req->qp->data_max);

	if (nvme_status_ok(st))
		req->data_len = rdt_io_nlb(req) << req->ns->lbads;
	return st;
}

/* io.c: bios, and commands of several steps */
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

/* The bio has ended, successfully or not: set req->status, count the I/O, and update the list of
 * uncorrectable blocks. */
void rdt_io_result(struct rdt_req *req);
enum rdt_step rdt_io_step_bio(struct rdt_req *req); /* submit req->bio */
/* FLUSH, if the backend has a volatile cache */
enum rdt_step rdt_io_step_flush(struct rdt_req *req);
enum rdt_step rdt_io_step_sync(struct rdt_req *req);    /* the same, for a read command with FUA */
enum rdt_step rdt_io_step_scratch(struct rdt_req *req); /* get req->work.scratch */
/* Read the blocks from work.lba on into req->work.scratch, as many as fit; sets work.blocks. */
enum rdt_step rdt_io_step_read(struct rdt_req *req);
/* Lock at most two spans of blocks, or wait until they can be locked. */
enum rdt_step rdt_io_step_lock(struct rdt_req *req, const struct rdt_span *spans,
			       unsigned int count);
/* the same, for all blocks of the command */
enum rdt_step rdt_io_step_lock_blocks(struct rdt_req *req, bool excl);
void rdt_io_put_scratch(struct rdt_req *req);
/* Allocate req->work.ranges, which lives until the command ends. The ranges of a list are copied
 * there before they are checked, and only the copy is used, because on some devices the host can
 * write to the buffer at any time. Returns false without memory, with req->status set. */
bool rdt_io_ranges(struct rdt_req *req, unsigned int count);
enum rdt_exec rdt_io_run(struct rdt_req *req, enum rdt_step (*step)(struct rdt_req *req));
void rdt_io_resume(struct rdt_req *req);
/* For a command that reads: with FUA, the volatile cache is flushed too. */
static inline bool rdt_io_fua_read(const struct rdt_req *req)
{
	return rdt_io_cdw12(req) & RDT_IO_FUA && rdt_bdev_has_cache(req->ns->bdev);
}

bool rdt_io_unmarked(struct rdt_req *req, uint64_t lba, uint64_t blocks);

/* Called before a read; returns false if Write Uncorrectable was used on one of the blocks. */
static inline bool rdt_io_readable(struct rdt_req *req, uint64_t lba, uint64_t blocks)
{
	return !atomic_load_explicit(&req->ns->uncor.count, memory_order_acquire) ||
	       rdt_io_unmarked(req, lba, blocks);
}

/*
 * Submit req->bio, which is filled in. @done is called later; on RDT_BIO_DONE the caller calls
 * rdt_io_result() itself. A command that arrived before this gateway acquired the storage ends with
 * the error that it would have got then, because its host may have repeated it through another
 * gateway and have written newer data since.
 * Or the command waits at the gate.
 */
static inline enum rdt_bio_submit rdt_io_submit(struct rdt_req *req,
						void (*done)(struct rdt_bio *bio))
{
	req->bio.done = done;
	req->wait = RDT_WAIT_BIO;
	if (req->arrived <= req->channel->taken)
		return rdt_gate_submit(req);
	return rdt_chan_submit(req->channel->chan, &req->bio);
}

/* called by the pool with @buf, the buffer that @req waited for */
void rdt_io_scratch(struct rdt_req *req, void *buf);
/* Called before a command begins a step. True: it has to end early (ABORTING, PREEMPTED, NS_GONE),
 * and req->status is set. */
bool rdt_io_stopped(struct rdt_req *req);
/* Returns whether an executing command waits for an event that can be cancelled, or has steps
 * left. */
bool rdt_io_can_cancel(const struct rdt_req *req);
/* Cancel the wait of the command, whose state says that it has to end early. The command may
 * complete inside this call. */
void rdt_io_cancel(struct rdt_req *req);

/* fused.c */
/* checks the FUSE bits of a parsed command */
struct nvme_status rdt_fused_check(struct rdt_req *req);
/* A command has arrived on a queue with a fused command: pair it with the previous one. @st: its
 * own status. Returns the status with which to continue. A first command without an error waits for
 * its partner. */
struct nvme_status rdt_fused_arrived(struct rdt_req *req, struct nvme_status st);
void rdt_fused_waits(struct rdt_req *first);   /* waits for its partner */
void rdt_fused_parsed(struct rdt_req *second); /* the pair is complete: get buffers */
void rdt_fused_buffer(struct rdt_req *first);
void rdt_fused_ready(struct rdt_req *req);    /* a command is READY, with or without an error */
void rdt_fused_complete(struct rdt_req *req); /* an I/O command and, if it has one, its partner */
void rdt_fused_orphan(struct rdt_qpair *qp);  /* the first command's partner will not come */
/* @first waits for its partner */
void rdt_fused_abort(struct rdt_req *first, struct nvme_status st);

/* range_lock.c */
/*
 * Locks on block ranges: a range that is written (excl) conflicts with all others, a range that is
 * read only with those that are written. Until a fused command reaches the namespace, its reactors
 * only count commands. The first fused pair makes them lock ranges, and waits until the counted
 * commands of all reactors have ended. Returns false when the command waits: rdt_io_resume()
 * follows.
 */
bool rdt_range_lock(struct rdt_req *req);
void rdt_range_unlock(struct rdt_req *req);
bool rdt_range_unwait(struct rdt_req *req); /* false: the lock is granted, or about to be */
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
/* For a hand-over, while no I/O runs, on the main thread: rdt_uncor_give() returns the list of
 * [from, to) for the next process, NULL without memory; rdt_uncor_inherit() restores the list of
 * the previous process and returns 0 or -errno. */
json_t *rdt_uncor_give(struct rdt_ns *ns);
int rdt_uncor_inherit(struct rdt_ns *ns, const json_t *list);
struct nvme_status rdt_write_uncor_check(struct rdt_req *req);
enum rdt_exec rdt_write_uncor_exec(struct rdt_req *req);

#endif /* RDT_IO_H */
