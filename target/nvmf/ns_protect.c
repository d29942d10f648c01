/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespace Write Protection state (feature 84h). The main thread stores it before a change is
 * answered, so that the answer to the host stays true after a restart. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/loop.h"
#include "target/config/config.h"
#include "nvmf/wire.h"
#include "events.h"
#include "host_access.h"
#include "ns.h"
#include "request.h"
#include "target/resv/state.h"
#include "subsys.h"
#include "target.h"

#define TEXT_PROTECT   "write-protect\n"
#define TEXT_PERMANENT "permanent-write-protect\n"

/* A change on its way from the reactor to the main thread, the writer thread and back. */
struct protect_work {
	struct rd_msg msg;
	struct rdt_state_job job;
	struct rdt_req *req; /* holds a reference to the namespace */
	uint8_t next;
	struct nvme_status status;
};

static void protect_file_name(const struct rdt_ns *ns, char *name, size_t size)
{
	snprintf(name, size, "%s" RDT_STATE_PROTECT, ns->identity.id->text);
}

int rdt_ns_protect_open(struct rdt_ns *ns, const struct rdt_state_text *stored, char *said,
			size_t size)
{
	const char *text = stored->text;
	size_t len = stored->len;
	struct rdt_state_job job;
	int err = stored->err;

	if (err == -ENOENT)
		return 0;
	if (!err && len == strlen(TEXT_PROTECT) && memcmp(text, TEXT_PROTECT, len) == 0)
		atomic_store(&ns->wp, NVME_NS_WP_CFG_PROTECT);
	else if (!err && len == strlen(TEXT_PERMANENT) && memcmp(text, TEXT_PERMANENT, len) == 0)
		atomic_store(&ns->wp, NVME_NS_WP_CFG_PROTECT_PERMANENT);
	else
		err = err ? err : -EINVAL;
	protect_file_name(ns, job.name, sizeof(job.name));
	if (err)
		snprintf(said, size,
			 "cannot use %s/%s: %s; it stores the write protection state, expected "
			 "\"%.*s\" or \"%.*s\"; correct or remove the file",
			 rdt_state_dir(ns->subsys->target->state), job.name, strerror(-err),
			 (int)strlen(TEXT_PROTECT) - 1, TEXT_PROTECT,
			 (int)strlen(TEXT_PERMANENT) - 1, TEXT_PERMANENT);
	return err;
}

static void protect_answer_msg(struct rd_msg *msg)
{
	struct protect_work *w = rd_container_of(msg, struct protect_work, msg);
	struct rdt_req *req = w->req;

	req->status = w->status;
	free(w);
	rdt_req_complete(req);
}

static void protect_answer(struct protect_work *w, struct nvme_status status)
{
	w->req->ns->wp_busy = false;
	w->status = status;
	w->msg.fn = protect_answer_msg;
	rd_loop_post(w->req->qp->reactor->loop, &w->msg);
}

static void protect_written(struct rdt_state_job *job)
{
	struct protect_work *w = rd_container_of(job, struct protect_work, job);
	struct rdt_ns *ns = w->req->ns;
	struct rdt_target *t = ns->subsys->target;

	if (job->err) {
		rd_log_limited(&ns->wp_limit, rd_loop_now(t->loop), t->log, RD_LOG_TARGET,
			       RD_LOG_ERROR,
			       "%s namespace %u: cannot write %s/%s: %s; its write protection is "
			       "not changed",
			       ns->subsys->nqn, ns->nsid, rdt_state_dir(t->state), job->name,
			       strerror(-job->err));
		rdt_event_subsys(ns->subsys, RDT_EV_ERROR, ns->nsid);
		protect_answer(w, nvme_status(NVME_SCT_GENERIC, NVME_SC_INTERNAL));
		return;
	}
	atomic_store(&ns->wp, w->next);
	rd_log_limited(&ns->wp_limit, rd_loop_now(t->loop), t->log, RD_LOG_TARGET, RD_LOG_NOTICE,
		       "%s namespace %u: write protection changed to %u", ns->subsys->nqn, ns->nsid,
		       w->next);
	rdt_event_ns(ns, RDT_EV_NS_ATTR);
	protect_answer(w, NVME_OK);
}

/* Write Protect Until Power Cycle is not stored: after a restart the namespace is writable. */
static char *protect_text(uint8_t wp)
{
	switch (wp) {
	case NVME_NS_WP_CFG_PROTECT:
		return strdup(TEXT_PROTECT);
	case NVME_NS_WP_CFG_PROTECT_PERMANENT:
		return strdup(TEXT_PERMANENT);
	default:
		return NULL;
	}
}

static void protect_begin_msg(struct rd_msg *msg)
{
	struct protect_work *w = rd_container_of(msg, struct protect_work, msg);
	struct rdt_ns *ns = w->req->ns;
	uint8_t now = atomic_load(&ns->wp);

	/* A change by another host is being stored, or writes may still end: the host retries. */
	if (ns->wp_busy || ns->left_behind) {
		w->status =
			nvme_status(NVME_SCT_GENERIC, ns->left_behind ? NVME_SC_NS_NOT_READY
								      : NVME_SC_CMD_INTERRUPTED);
		w->msg.fn = protect_answer_msg;
		rd_loop_post(w->req->qp->reactor->loop, &w->msg);
		return;
	}
	if (w->next == now) {
		protect_answer(w, NVME_OK);
		return;
	}
	if (now == NVME_NS_WP_CFG_PROTECT_POWER_CYCLE || now == NVME_NS_WP_CFG_PROTECT_PERMANENT) {
		protect_answer(
			w, nvme_status_dnr(NVME_SCT_CMD_SPECIFIC, NVME_SC_FEATURE_NOT_CHANGEABLE));
		return;
	}
	w->job.text = protect_text(w->next);
	w->job.len = w->job.text ? strlen(w->job.text) : 0;
	if (!w->job.text && w->next != NVME_NS_WP_CFG_NONE &&
	    w->next != NVME_NS_WP_CFG_PROTECT_POWER_CYCLE) {
		/* Out of memory */
		protect_answer(w, nvme_status(NVME_SCT_GENERIC, NVME_SC_CMD_INTERRUPTED));
		return;
	}
	ns->wp_busy = true;
	protect_file_name(ns, w->job.name, sizeof(w->job.name));
	w->job.done = protect_written;
	rdt_state_write(ns->subsys->target->state, &w->job);
}

enum rdt_exec rdt_ns_protect(struct rdt_req *req, uint8_t wp)
{
	struct protect_work *w = calloc(1, sizeof(*w));

	if (!w) {
		req->status = nvme_status(NVME_SCT_GENERIC, NVME_SC_CMD_INTERRUPTED);
		return RDT_EXEC_DONE;
	}
	w->req = req;
	w->next = wp;
	w->msg.fn = protect_begin_msg;
	rd_loop_post(rdt_req_target(req)->loop, &w->msg);
	return RDT_EXEC_PENDING;
}

int rdt_ns_follow_read_only(struct rdt_ns *ns, const struct rdt_ns_config *now,
			    const struct rdt_ns_config *next)
{
	if (atomic_exchange(&ns->read_only, next->read_only) == next->read_only)
		return 0;
	rd_notice(ns->subsys->target->log, RD_LOG_TARGET, "%s namespace %u: %s", ns->subsys->nqn,
		  ns->nsid, next->read_only ? "read-only now" : "writable now");
	rdt_event_ns(ns, RDT_EV_NS_ATTR);
	return 1;
}
