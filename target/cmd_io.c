/* SPDX-License-Identifier: BSD-3-Clause */
/* The I/O commands, by opcode: checked against the namespace, then handed to its backend. */
#include <errno.h>
#include <string.h>

#include "internal.h"

#define CDW12_FUA       (1u << 30)
#define CDW12_DEAC      (1u << 25)
#define DSM_AD          (1u << 2)
#define DSM_RANGES(req) ((le32toh((req)->sqe.cdw10) & 0xff) + 1)

static void count(_Atomic uint64_t *counter, uint64_t n)
{
	/* Only this reactor writes it, so that no locked instruction is needed. */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static uint64_t slba(const struct rdt_req *req)
{
	return (uint64_t)le32toh(req->sqe.cdw11) << 32 | le32toh(req->sqe.cdw10);
}

static uint32_t nlb(const struct rdt_req *req)
{
	return (le32toh(req->sqe.cdw12) & 0xffff) + 1;
}

static struct nvme_status find_ns(struct rdt_req *req)
{
	req->ns = rdt_ns_find(req->qp->ctrl->subsys, le32toh(req->sqe.nsid));
	if (!req->ns)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
	return NVME_OK;
}

static struct nvme_status check_range(struct rdt_req *req, uint64_t lba, uint64_t blocks)
{
	if (lba >= req->ns->blocks || blocks > req->ns->blocks - lba) {
		req->err_lba = lba;
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_LBA_RANGE, RDT_LOC(cdw10));
	}
	return NVME_OK;
}

static struct nvme_status check_writable(struct rdt_req *req)
{
	if (req->ns->bdev->read_only)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_NS_WRITE_PROTECTED,
				    RDT_LOC(nsid));
	return NVME_OK;
}

static struct nvme_status rw_check(struct rdt_req *req)
{
	struct nvme_status st = find_ns(req);
	uint64_t len;

	if (nvme_status_ok(st) && req->sqe.opcode == nvme_cmd_write)
		st = check_writable(req);
	if (!nvme_status_ok(st))
		return st;
	len = (uint64_t)nlb(req) << req->ns->lbads;
	if (len > rdt_req_target(req)->cfg->target.max_data_bytes)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw12));
	req->data_len = (uint32_t)len;
	return check_range(req, slba(req), nlb(req));
}

/* The backend's answer. Says in words what the status code cannot. */
static void set_result(struct rdt_req *req)
{
	const struct rdt_bio *bio = &req->bio;
	struct rdt_qpair *qp = req->qp;
	struct rdt_counters *c = &qp->reactor->counters[req->ns->subsys->index];
	char more[RDT_SQUASHED_TEXT];
	uint32_t squashed;

	req->in_bio = false;
	if (bio->result == 0) {
		if (bio->op == RDT_BIO_READ) {
			count(&c->reads, 1);
			count(&c->blocks_read, bio->length >> 9);
		} else if (bio->op == RDT_BIO_WRITE) {
			count(&c->writes, 1);
			count(&c->blocks_written, bio->length >> 9);
		}
		return;
	}
	req->status = rdt_status_from_errno(bio->result, bio->op);
	if (bio->result == -ECANCELED)
		return;
	req->err_lba = bio->offset >> req->ns->lbads;
	count(&c->media_errors, 1);
	if (rd_ratelimit_pass(&qp->fail_limit, rd_loop_now(qp->reactor->loop), RD_NSEC_PER_SEC, 10,
			      &squashed))
		rd_err(qp->log, RD_LOG_BACKEND,
		       "%s namespace %u: %s of %llu bytes at %llu failed: %s%s",
		       req->ns->subsys->nqn, req->ns->cfg->nsid, req->cmd->name,
		       (unsigned long long)bio->length, (unsigned long long)bio->offset,
		       strerror(-bio->result), rdt_squashed(squashed, more));
}

static void bio_done(struct rdt_bio *bio)
{
	struct rdt_req *req = rd_container_of(bio, struct rdt_req, bio);

	set_result(req);
	rdt_req_complete(req);
}

static enum rdt_exec submit(struct rdt_req *req)
{
	struct rdt_chan *chan = req->qp->reactor->chans[req->ns->index];

	req->in_bio = true;
	if (rdt_chan_submit(chan, &req->bio) == RDT_BIO_QUEUED)
		return RDT_EXEC_PENDING;
	set_result(req);
	return RDT_EXEC_DONE;
}

static void fill_bio(struct rdt_req *req, enum rdt_bio_op op, uint64_t lba, uint64_t blocks)
{
	struct rdt_bio *bio = &req->bio;

	bio->op = (uint8_t)op;
	bio->flags = le32toh(req->sqe.cdw12) & CDW12_FUA && op != RDT_BIO_READ ? RDT_BIO_FUA : 0;
	bio->offset = lba << req->ns->lbads;
	bio->length = blocks << req->ns->lbads;
	bio->buf = req->buf;
	bio->result = 0;
	bio->done = bio_done;
}

static enum rdt_exec rw_exec(struct rdt_req *req)
{
	fill_bio(req, req->sqe.opcode == nvme_cmd_read ? RDT_BIO_READ : RDT_BIO_WRITE, slba(req),
		 nlb(req));
	return submit(req);
}

static enum rdt_exec flush_exec(struct rdt_req *req)
{
	const struct rdt_bdev *bdev = req->ns->bdev;

	if (!bdev->volatile_cache || !(bdev->ops_mask & 1u << RDT_BIO_FLUSH))
		return RDT_EXEC_DONE; /* whatever was completed is where it belongs already */
	fill_bio(req, RDT_BIO_FLUSH, 0, 0);
	return submit(req);
}

static struct nvme_status write_zeroes_check(struct rdt_req *req)
{
	struct nvme_status st = find_ns(req);

	if (nvme_status_ok(st))
		st = check_writable(req);
	return nvme_status_ok(st) ? check_range(req, slba(req), nlb(req)) : st;
}

/* DEAC only allows deallocation; with it as without, the blocks must read as zeroes. */
static enum rdt_exec write_zeroes_exec(struct rdt_req *req)
{
	const struct rdt_bdev *bdev = req->ns->bdev;
	bool dealloc = le32toh(req->sqe.cdw12) & CDW12_DEAC && bdev->deallocate_zeroes &&
		       bdev->ops_mask & 1u << RDT_BIO_DEALLOCATE &&
		       !(le32toh(req->sqe.cdw12) & CDW12_FUA);

	fill_bio(req, dealloc ? RDT_BIO_DEALLOCATE : RDT_BIO_WRITE_ZEROES, slba(req), nlb(req));
	return submit(req);
}

static struct nvme_status dsm_check(struct rdt_req *req)
{
	struct nvme_status st = find_ns(req);

	if (nvme_status_ok(st) && le32toh(req->sqe.cdw11) & DSM_AD)
		st = check_writable(req);
	req->data_len = DSM_RANGES(req) * (uint32_t)sizeof(struct nvme_dsm_range);
	return st;
}

static void dsm_done(struct rdt_bio *bio);

/* Deallocate range after range; the first failure ends it. Hints alone are accepted and ignored. */
static enum rdt_exec dsm_step(struct rdt_req *req)
{
	struct nvme_dsm_range r;

	while (nvme_status_ok(req->status) && req->range < DSM_RANGES(req)) {
		memcpy(&r, (const uint8_t *)req->buf + req->range++ * sizeof(r), sizeof(r));
		if (!r.nlb)
			continue;
		fill_bio(req, RDT_BIO_DEALLOCATE, le64toh(r.slba), le32toh(r.nlb));
		req->bio.flags = 0;
		req->bio.done = dsm_done;
		if (submit(req) == RDT_EXEC_PENDING)
			return RDT_EXEC_PENDING;
	}
	return RDT_EXEC_DONE;
}

static void dsm_done(struct rdt_bio *bio)
{
	struct rdt_req *req = rd_container_of(bio, struct rdt_req, bio);

	set_result(req);
	if (dsm_step(req) == RDT_EXEC_DONE)
		rdt_req_complete(req);
}

static enum rdt_exec dsm_exec(struct rdt_req *req)
{
	struct nvme_dsm_range r;

	/* All ranges are looked at before the first is touched. */
	for (unsigned int i = 0; i < DSM_RANGES(req); i++) {
		memcpy(&r, (const uint8_t *)req->buf + i * sizeof(r), sizeof(r));
		if (!r.nlb)
			continue;
		req->status = check_range(req, le64toh(r.slba), le32toh(r.nlb));
		if (!nvme_status_ok(req->status))
			return RDT_EXEC_DONE;
	}
	req->range = 0;
	return le32toh(req->sqe.cdw11) & DSM_AD ? dsm_step(req) : RDT_EXEC_DONE;
}

/* Optional commands need every namespace of the subsystem: ONCS speaks for the controller. */
bool rdt_io_supported(const struct rdt_subsys *ss, unsigned int opcode)
{
	switch (opcode) {
	case nvme_cmd_flush:
	case nvme_cmd_read:
	case nvme_cmd_write:
		return true;
	case nvme_cmd_write_zeroes:
		return ss->ns_count && ss->ops_mask & 1u << RDT_BIO_WRITE_ZEROES;
	case nvme_cmd_dsm:
		return ss->ns_count && ss->ops_mask & 1u << RDT_BIO_DEALLOCATE;
	default:
		return false;
	}
}

static struct nvme_status optional(struct rdt_req *req,
				   struct nvme_status (*check)(struct rdt_req *))
{
	if (!rdt_io_supported(req->qp->ctrl->subsys, req->sqe.opcode))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_OPCODE, 0);
	return check(req);
}

static struct nvme_status opt_write_zeroes_check(struct rdt_req *req)
{
	return optional(req, write_zeroes_check);
}

static struct nvme_status opt_dsm_check(struct rdt_req *req)
{
	return optional(req, dsm_check);
}

const struct rdt_cmd rdt_io_cmds[256] = {
	[nvme_cmd_flush] = {"Flush", 0, find_ns, flush_exec},
	[nvme_cmd_write] = {"Write", 0, rw_check, rw_exec},
	[nvme_cmd_read] = {"Read", 0, rw_check, rw_exec},
	[nvme_cmd_write_zeroes] = {"Write Zeroes", 0, opt_write_zeroes_check, write_zeroes_exec},
	/* Linux (nvme_setup_discard, 6.1) always describes room for 256 ranges. */
	[nvme_cmd_dsm] = {"Dataset Management", RDT_CMD_LONGER_SGL, opt_dsm_check, dsm_exec},
};
