/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads, writes and flushes (NVM Command Set 3.2), and the memory they use. */
#include <errno.h>

#include "internal.h"

static __attribute__((noinline)) int refused_io(struct rdinit_qpair *qp, const char *func, int err)
{
	return rdi_fail(func, err, "%s", rdi_queue_why(&qp->q, err));
}

static bool rw_ok(const struct rdinit_qpair *qp, const char *func, const struct rdinit_ns *ns,
		  uint64_t lba, uint32_t nblocks, const void *buf, unsigned int flags)
{
	if (!ns || ns->size != sizeof(*ns) || ns->block_size == 0 || !buf) {
		if (!RDI_CHECK_SIZE(func, ns, rdinit_ns, sizeof(*ns)))
			rdi_fail(func, -EINVAL, "ns is not open, or the buffer is NULL");
		return false;
	}
	if (flags & ~RDINIT_IO_FUA) {
		rdi_fail(func, -EINVAL, "unknown flag 0x%x", flags);
		return false;
	}
	if (nblocks == 0 || nblocks > RDI_NLB_MAX) {
		rdi_fail(func, -EINVAL, "found %u blocks, expected 1 to %u", nblocks, RDI_NLB_MAX);
		return false;
	}
	if ((uint64_t)nblocks * ns->block_size > qp->max_transfer) {
		rdi_fail(func, -EINVAL,
			 "%u blocks are more than the controller transfers in one command (%u "
			 "bytes)",
			 nblocks, qp->max_transfer);
		return false;
	}
	if (!ns->unchecked && (lba >= ns->blocks || nblocks > ns->blocks - lba)) {
		rdi_fail(func, -EINVAL,
			 "blocks %llu to %llu are beyond the end of namespace %u (%llu blocks)",
			 (unsigned long long)lba, (unsigned long long)lba + nblocks - 1, ns->nsid,
			 (unsigned long long)ns->blocks);
		return false;
	}
	return true;
}

/* Fast path of reads and writes: builds the command in place. */
static int rw(struct rdinit_qpair *qp, const char *func, uint8_t opcode, const struct rdinit_ns *ns,
	      uint64_t lba, uint32_t nblocks, void *buf, unsigned int flags, rdinit_complete_fn fn,
	      void *user)
{
	struct rdi_req *req;
	int rc;

	if (rdi_is_foreign(RDI_HANDLE(qp)))
		return rdi_foreign(RDI_HANDLE(qp), func);
	if (!rw_ok(qp, func, ns, lba, nblocks, buf, flags))
		return -EINVAL;
	rc = rdi_queue_check(&qp->q, 0, 1);
	if (rc)
		return refused_io(qp, func, rc);
	req = rdi_queue_next(&qp->q);
	rdi_req_make_rw(req, opcode, ns->nsid, lba, nblocks, ns->block_size, buf, flags);
	req->fn = fn;
	req->user = user;
	rc = rdi_queue_send(&qp->q, req);
	return rc ? refused_io(qp, func, rc) : 0;
}

/* A synchronous read or write that has to be submitted again. */
struct rw {
	struct rdinit_qpair *qp;
	const char *func;
	uint8_t opcode;
	const struct rdinit_ns *ns;
	uint64_t lba;
	uint32_t nblocks;
	void *buf;
	unsigned int flags;
	struct rdi_sync sync;
};

static int try_rw(void *arg)
{
	struct rw *r = arg;

	return rw(r->qp, r->func, r->opcode, r->ns, r->lba, r->nblocks, r->buf, r->flags,
		  rdi_sync_done, &r->sync);
}

static int rw_sync(struct rw *r)
{
	struct rdinit_qpair *qp = r->qp;
	int rc = rdi_may_wait(RDI_HANDLE(qp), r->func);

	r->sync.done = false;
	if (rc)
		return rc;
	rc = try_rw(r);
	if (rc == -EAGAIN)
		rc = rdi_sync_retry(&qp->h, &qp->q, try_rw, r);
	return rc ? rc : rdi_sync_wait(&qp->h, &r->sync, r->func);
}

int rdinit_read_async(struct rdinit_qpair *qp, const struct rdinit_ns *ns, uint64_t lba,
		      uint32_t nblocks, void *buf, unsigned int flags, rdinit_complete_fn fn,
		      void *user)
{
	return rw(qp, __func__, nvme_cmd_read, ns, lba, nblocks, buf, flags, fn, user);
}

int rdinit_read(struct rdinit_qpair *qp, const struct rdinit_ns *ns, uint64_t lba, uint32_t nblocks,
		void *buf, unsigned int flags)
{
	struct rw r = {qp, __func__, nvme_cmd_read, ns, lba, nblocks, buf, flags, {0}};

	return rw_sync(&r);
}

/* Casts const away: the library only reads a buffer of a write, but the elements of a vector
 * have no const. */
static void *unconst(const void *p)
{
	return (void *)(uintptr_t)p;
}

int rdinit_write_async(struct rdinit_qpair *qp, const struct rdinit_ns *ns, uint64_t lba,
		       uint32_t nblocks, const void *buf, unsigned int flags, rdinit_complete_fn fn,
		       void *user)
{
	return rw(qp, __func__, nvme_cmd_write, ns, lba, nblocks, unconst(buf), flags, fn, user);
}

int rdinit_write(struct rdinit_qpair *qp, const struct rdinit_ns *ns, uint64_t lba,
		 uint32_t nblocks, const void *buf, unsigned int flags)
{
	struct rw r = {qp, __func__, nvme_cmd_write, ns, lba, nblocks, unconst(buf), flags, {0}};

	return rw_sync(&r);
}

int rdinit_flush_async(struct rdinit_qpair *qp, const struct rdinit_ns *ns, rdinit_complete_fn fn,
		       void *user)
{
	struct rdi_cmd cmd = {.sqe = {.opcode = nvme_cmd_flush}, .fn = fn, .user = user};
	int rc;

	if (rdi_is_foreign(RDI_HANDLE(qp)))
		return rdi_foreign(RDI_HANDLE(qp), __func__);
	rc = RDI_CHECK_SIZE(__func__, ns, rdinit_ns, sizeof(*ns));
	if (rc)
		return rc;
	cmd.sqe.nsid = htole32(ns->nsid);
	rc = rdi_submit(&qp->h, &qp->q, &cmd);
	return rc ? refused_io(qp, __func__, rc) : 0;
}

int rdinit_flush(struct rdinit_qpair *qp, const struct rdinit_ns *ns)
{
	return RDI_SYNC(qp, __func__, rdinit_flush_async(qp, ns, rdi_sync_done, &sync));
}

/* ---- memory ---- */

int rdinit_mem_register(struct rdinit_qpair *qp, void *addr, size_t len)
{
	int rc;

	if (rdi_is_foreign(RDI_HANDLE(qp)))
		return rdi_foreign(RDI_HANDLE(qp), __func__);
	if (qp->q.state != RDI_Q_LIVE)
		return rdi_fail(__func__, -ENOTCONN, "%s", rdi_queue_why(&qp->q, -ENOTCONN));
	rc = rdi_region_add(&qp->q, addr, len);
	if (rc == -EINVAL)
		return rdi_fail(__func__, rc, "the buffer is empty or overlaps a registered one");
	return rc ? rdi_fail(__func__, rc, "%s", strerror(-rc)) : 0;
}

int rdinit_mem_unregister(struct rdinit_qpair *qp, void *addr)
{
	int rc;

	if (rdi_is_foreign(RDI_HANDLE(qp)))
		return rdi_foreign(RDI_HANDLE(qp), __func__);
	rc = rdi_region_del(&qp->q, addr);
	if (rc == -ENOENT)
		return rdi_fail(__func__, rc, "no buffer at that address is registered");
	return rc ? rdi_fail(__func__, rc, "%s", strerror(-rc)) : 0;
}
