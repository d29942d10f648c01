/* SPDX-License-Identifier: BSD-3-Clause */
#include "slice.h"

#include "io.h"
#include "request.h"

static void next_slice(struct rd_defer *defer)
{
	struct rdt_slices *slices = rd_container_of(defer, struct rdt_slices, next);
	struct rdt_req *req = TAILQ_FIRST(&slices->waiting);

	TAILQ_REMOVE(&slices->waiting, req, link);
	req->wait = RDT_WAIT_NONE;
	if (!TAILQ_EMPTY(&slices->waiting))
		rd_defer(req->qp->reactor->loop, defer, RD_DEFER_NEXT);
	rdt_io_resume(req);
}

enum rdt_step rdt_slice_done(struct rdt_req *req)
{
	struct rdt_slices *slices = &req->qp->reactor->slices;

	if (rdt_io_stopped(req))
		return RDT_STEP_DONE;
	if (!slices->next.fn) {
		slices->next.fn = next_slice;
		TAILQ_INIT(&slices->waiting);
	}
	TAILQ_INSERT_TAIL(&slices->waiting, req, link);
	req->wait = RDT_WAIT_SLICE;
	rd_defer(req->qp->reactor->loop, &slices->next, RD_DEFER_NEXT);
	return RDT_STEP_WAIT;
}

void rdt_slice_unwait(struct rdt_req *req)
{
	struct rdt_slices *slices = &req->qp->reactor->slices;

	TAILQ_REMOVE(&slices->waiting, req, link);
	req->wait = RDT_WAIT_NONE;
	if (TAILQ_EMPTY(&slices->waiting))
		rd_defer_cancel(req->qp->reactor->loop, &slices->next);
}
