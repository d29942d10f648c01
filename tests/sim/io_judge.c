/* SPDX-License-Identifier: BSD-3-Clause */
#include "io_judge.h"

#include "nvmf/wire.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/io.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/target.h"
#include "util/sockaddr.h"

#include "resv.h"
#include "world.h"

#define MEDIUM(code) (NVME_SCT_MEDIA << 8 | (code))

bool io_is_conflict(const struct rdinit_completion *comp)
{
	return comp->err == -EIO && (comp->status & 0x7ff) == NVME_SC_RESERVATION_CONFLICT;
}

/* Only these refusals say that the controller has written nothing; the first one only if the
 * command was sent once, and if it is not of several parts. */
bool io_may_be_executed(const struct world *w, const struct io_facts *f,
			const struct rdinit_completion *comp)
{
	if (io_is_conflict(comp))
		return !w->no_resend || f->by_path;
	return comp->err != -EIO || (comp->status & 0x7ff) != MEDIUM(NVME_SC_COMPARE_FAILED);
}

/* Whether a reservation explains that the command succeeded, or did not. */
static void judge_reservation(struct world *w, const struct io_facts *f,
			      const struct rdinit_completion *comp)
{
	bool outdated = w->outdated_at >= f->begin, flush = f->writes && !f->protected;

	if (f->ns)
		return;
	/* A gateway has nothing to do for a Flush, so it does not learn that it was replaced. */
	if (!comp->err && !(outdated && flush) && !(w->unfenced_at >= f->begin && !f->writes) &&
	    !resv_permitted(w->resv, f->host, f->writes, f->begin))
		world_fail(w, "host %u: a %s has succeeded that a reservation forbids", f->host,
			   f->name);
	if (io_is_conflict(comp) && !resv_forbidden(w->resv, f->host, f->writes, f->begin) &&
	    !outdated)
		world_fail(w, "host %u: a %s was refused that no reservation forbids", f->host,
			   f->name);
}

/* ---- errors ---- */

/* Whether the storage has failed as the status says, for one of the blocks. */
static bool medium_has_failed(const struct world *w, const struct io_facts *f,
			      enum store_failure failure)
{
	const unsigned int *block = failure == STORE_READ_FAILED ? f->read : f->store;
	unsigned int count = failure == STORE_READ_FAILED ? f->reads : f->stores;
	bool failed = false;

	for (unsigned int i = 0; i < count && !f->ns; i++)
		failed |= store_has_failed(w->store, failure, block[i], 1, f->begin);
	return failed;
}

static bool is_marked(const struct world *w, const struct io_facts *f)
{
	bool marked = false;

	for (unsigned int i = 0; i < f->reads && !f->ns; i++)
		marked |= marks_possible(w->marks, w->check, f->read[i], f->begin);
	return marked;
}

/* The target ends the connections of a host that is denied and those of a listener that is removed,
 * and a host those of a path without its namespace. */
static bool setup_ends_connections(const struct world *w, const struct io_facts *f)
{
	const struct setup_history *setup = &w->setup;
	bool ends = setup_possible(setup, SETUP_REMOVED, f->begin) ||
		    setup_possible(setup, SETUP_DENIED + f->host, f->begin);

	for (unsigned int i = 0; i < WORLD_PATHS; i++)
		ends |= setup_possible(setup, SETUP_NO_LISTENER + i, f->begin);
	return ends;
}

/* Behind the last block that it reads or writes. */
static unsigned int end_of(const struct io_facts *f)
{
	unsigned int end = 0;

	for (unsigned int i = 0; i < f->reads; i++)
		end = f->read[i] + 1 > end ? f->read[i] + 1 : end;
	for (unsigned int i = 0; i < f->stores; i++)
		end = f->store[i] + 1 > end ? f->store[i] + 1 : end;
	return end;
}

static bool is_out_of_range(struct world *w, const struct io_facts *f)
{
	return w->was_shorter(w, f->ns, end_of(f), f->begin);
}

/* A device does not show these statuses. A controller keeps the ANA states of a listener that was
 * removed. */
static bool path_is_closed(const struct world *w, const struct io_facts *f)
{
	bool closed = false;

	for (unsigned int i = 0; i < WORLD_PATHS && f->by_path; i++)
		closed |= setup_may_be_closed(&w->setup, i, f->begin, 1);
	return closed;
}

static bool status_is_explained(struct world *w, const struct io_facts *f, unsigned int status)
{
	switch (status) {
	case NVME_SC_INVALID_NS:
		return setup_possible(&w->setup, SETUP_REMOVED, f->begin);
	case NVME_SC_LBA_RANGE:
		return is_out_of_range(w, f);
	case NVME_SC_NS_WRITE_PROTECTED:
		return f->protected && setup_possible(&w->setup, SETUP_READ_ONLY, f->begin);
	case NVME_SC_NS_NOT_READY: /* the fence of a half that cannot wait */
		return f->fused;
	case MEDIUM(NVME_SC_COMPARE_FAILED):
		return f->compares;
	case NVME_SC_RESERVATION_CONFLICT:
		return true;           /* judge_reservation() */
	case NVME_SC_TRAN_TPORT_ERROR: /* a data digest was wrong */
		return w->digests && w->disturbed_until >= f->begin;
	case ABORTED_BY_PREEMPT:
		return !f->ns && resv_may_abort(w->resv, f->begin);
	case MEDIUM(NVME_SC_WRITE_FAULT):
		return medium_has_failed(w, f, STORE_WRITE_FAILED) ||
		       (!f->ns && (f->writes || f->syncs) && store_refuses(w->store, f->begin));
	case NVME_SC_CAP_EXCEEDED:
		return medium_has_failed(w, f, STORE_NO_SPACE);
	case MEDIUM(NVME_SC_READ_ERROR):
		return medium_has_failed(w, f, STORE_READ_FAILED) || is_marked(w, f);
	case NVME_SCT_PATH << 8 | NVME_SC_ANA_INACCESSIBLE:
	case NVME_SCT_PATH << 8 | NVME_SC_ANA_TRANSITION:
		return path_is_closed(w, f) || w->contradicts_until >= f->begin;
	default:
		return false;
	}
}

/* Whether faults, cancellations, or changes of the configuration explain the error. */
static bool error_is_explained(struct world *w, const struct io_facts *f,
			       const struct rdinit_completion *comp)
{
	if (comp->err == -EIO)
		return status_is_explained(w, f, comp->status & 0x7ff);
	if (comp->err == -ENODEV)
		return setup_possible(&w->setup, SETUP_REMOVED, f->begin) ||
		       setup_possible(&w->setup, SETUP_DENIED + f->host, f->begin);
	if (comp->err == -ECANCELED)
		return f->cancelled;
	if (comp->err == -EREMOTEIO || comp->err == -ETIMEDOUT)
		return w->disturbed_until >= f->begin ||
		       (comp->err == -EREMOTEIO && setup_ends_connections(w, f));
	return false;
}

/* ---- the end ---- */

static void judge_success(struct world *w, const struct io_facts *f)
{
	/* Each reactor ends its controllers. */
	if (setup_sure(&w->setup, SETUP_DENIED + f->host, f->begin))
		world_fail(w, "host %u: a %s has succeeded of a host that was denied", f->host,
			   f->name);
	if (!f->ns && f->protected && setup_certain(&w->setup, SETUP_READ_ONLY, f->begin))
		world_fail(w, "host %u: a %s has succeeded of a read-only namespace", f->host,
			   f->name);
	if (end_of(f) > SETUP_SHORT_BLOCKS && setup_certain(&w->setup, SETUP_SHORT, f->begin))
		world_fail(w, "host %u: a %s has succeeded behind the end of the namespace",
			   f->host, f->name);
	if (!f->ns && !f->marks && (f->protected || f->syncs) &&
	    store_has_refused(w->store, f->begin))
		world_fail(w, "host %u: a %s has succeeded although a sync has failed", f->host,
			   f->name);
	for (unsigned int i = 0; i < f->reads && !f->ns; i++)
		if (marks_sure(w->marks, w->check, f->read[i], f->begin))
			world_fail(w, "host %u: a %s has succeeded of block %u, which is marked",
				   f->host, f->name, f->read[i]);
}

void io_judge_end(struct world *w, const struct io_facts *f, const struct rdinit_completion *comp)
{
	judge_reservation(w, f, comp);
	if (!comp->err)
		judge_success(w, f);
	/* A command that is not sent again ends with its connection, for any reason. */
	else if (!(f->by_path && comp->err != -EIO) && !error_is_explained(w, f, comp))
		world_fail(w, "host %u: nothing explains the error %d, status 0x%x: %s", f->host,
			   comp->err, comp->status, comp->text);
}

/* ---- the begin ---- */

static bool is_first_half(const struct rdt_req *req)
{
	return req->partner && req->sqe.opcode == nvme_cmd_compare;
}

/*
 * Whether the command begins with this I/O. A command of several steps is not judged again,
 * although the target does so when it waits for a lock in between.
 */
static bool begins(const struct rdt_req *req)
{
	const struct rdt_bio *bio = &req->bio;
	const struct rdt_work *work = &req->work;

	switch (req->sqe.opcode) {
	case nvme_cmd_read:
		return bio->op == RDT_BIO_READ;
	case nvme_cmd_write:
		return !req->partner;
	case nvme_cmd_copy:
		return bio->op == RDT_BIO_READ && !work->index && work->lba == work->ranges[0].lba;
	case nvme_cmd_dsm:
		return work->index == 1;
	case nvme_cmd_compare:
		return bio->op == RDT_BIO_READ && work->lba == rdt_io_slba(req);
	case nvme_cmd_verify:
		return work->lba == rdt_io_slba(req) &&
		       (bio->op == RDT_BIO_FLUSH || !(rdt_io_cdw12(req) & RDT_IO_FUA));
	default:
		return true;
	}
}

static bool writes(const struct rdt_req *req)
{
	switch (req->sqe.opcode) {
	case nvme_cmd_read:
	case nvme_cmd_verify:
		return false;
	case nvme_cmd_compare:
		return is_first_half(req);
	default:
		return true;
	}
}

/* The path of a command, or WORLD_PATHS: that of a listener that was removed. */
static unsigned int path_of(const struct rdt_req *req)
{
	const struct rdt_listener *lis = req->qp->ctrl->listener, *l;

	TAILQ_FOREACH (l, &rdt_req_target(req)->listeners, link)
		if (l == lis)
			return rd_addr_port((const struct sockaddr *)&l->addr) - WORLD_PORT;
	return WORLD_PATHS;
}

static const char *why_not(const struct world *w, const struct rdt_req *req, unsigned int host,
			   uint64_t now)
{
	unsigned int path = path_of(req);
	bool write = writes(req);

	if (setup_sure(&w->setup, SETUP_DENIED + host, now))
		return "the host was denied";
	if (write && req->sqe.opcode != nvme_cmd_flush &&
	    setup_certain(&w->setup, SETUP_READ_ONLY, now))
		return "the namespace is read-only";
	if (path < WORLD_PATHS && setup_certain(&w->setup, SETUP_CLOSED + path, now))
		return "the ANA state of its path forbids it";
	if (!resv_permitted(w->resv, host, write, now))
		return "a reservation forbids it";
	return NULL;
}

void io_judge_begin(void *arg, const struct rdt_bio *bio)
{
	struct world *w = arg;
	const struct rdt_req *req = rd_container_of(bio, const struct rdt_req, bio);
	const char *nqn = req->qp->ctrl->hostnqn, *why;
	unsigned int host = (unsigned int)(nqn[strlen(nqn) - 1] - '0');

	if (w->upgrade && rdt_req_target(req) != w->target)
		world_fail(w, "an I/O begins in a process that does not serve");
	if (req->channel->leaving)
		world_fail(w, "an I/O begins in a namespace that ends its commands");
	why = begins(req) ? why_not(w, req, host, rd_sim_now(w->sim)) : NULL;
	if (why)
		world_fail(w, "host %u: the target begins a %s, but %s", host,
			   nvme_cmd_text(!req->qp->qid, &req->sqe), why);
}
