/* SPDX-License-Identifier: BSD-3-Clause */
/* Stall watchdog: ends connections of hosts that neither answer READs nor receive SENDs. READs of a
 * connection complete in order, and so do SENDs: nvmf/progress.h. */
#include "util/log.h"
#include "util/loop.h"
#include "fabric/fabric.h"
#include "target/nvmf/pool.h"
#include "target/nvmf/progress.h"
#include "target/nvmf/qpair.h"
#include "rdma.h"
#include "target/nvmf/reactor.h"

static void watch_conn(struct rdt_rdma_conn *rc, bool pressed)
{
	if (rc->closing)
		return;
	rdt_progress_check(&rc->reads);
	rdt_progress_check(&rc->answers);
	rdt_share_late(&rc->qp, rdt_progress_late(&rc->reads) || rdt_progress_late(&rc->answers));
	/* READ Responses may be queued behind a command that was not received yet, which is not the
	 * host's fault. */
	if ((rdt_progress_too_slow(&rc->reads, pressed) && !rc->conn->waits) ||
	    rdt_progress_too_slow(&rc->answers, pressed))
		rdt_qpair_lost(&rc->qp, RDT_END_STALLED,
			       "the host has transferred too little data in the given time");
}

static void watch_conns(struct rd_timer *timer)
{
	struct rdt_rdma *rdma = rd_container_of(timer, struct rdt_rdma, stall);
	struct rdt_reactor *r = rdma->reactor;
	bool pressed = rdt_progress_pressed(r), late = false;
	struct rdt_qpair *qp;

	TAILQ_FOREACH (qp, &r->qpairs, link) {
		if (qp->ops != &rdt_rdma_ops)
			continue;
		watch_conn(rdt_rdma_conn_of(qp), pressed);
		late = late || qp->late;
	}
	/* Restarting cannot fail: the loop keeps the memory of a timer that fires. */
	if (rdma->out || late)
		rd_timer_start(r->loop, timer, RDT_PROGRESS_LOOK);
}

void rdt_rdma_watch_init(struct rdt_rdma *rdma)
{
	rdma->stall.fn = watch_conns;
}

void rdt_rdma_watch(struct rdt_rdma_conn *rc)
{
	struct rdt_reactor *r = rc->qp.reactor;

	if (rd_timer_start(r->loop, &rc->rdma->stall, RDT_PROGRESS_LOOK))
		rd_err(rc->qp.log, RD_LOG_QPAIR, "qid %u: out of memory for the stall watchdog",
		       rc->qp.qid);
}
