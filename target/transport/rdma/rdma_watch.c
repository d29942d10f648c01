/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stall watchdog: a host that neither answers READs nor drains SENDs pins buffers that all
 * connections of the reactor share; keep alive does not detect that.
 *
 * Each transfer has a deadline. READs of a connection complete in order, as do SENDs. So it is
 * sufficient to remember how much was posted at one check, and to test at later checks whether that
 * much is done. After LATE checks without that, the host is in doubt (pool.c). After SLOW checks,
 * and one more for each SLOW_BYTES in flight, its connection is closed; also after STILL checks
 * without any progress while other hosts wait for buffers.
 *
 * Counts checks instead of time, so that a host is not blamed when the target itself stood still.
 */
#include "util/log.h"
#include "util/loop.h"
#include "fabric/fabric.h"
#include "target/nvmf/pool.h"
#include "target/nvmf/qpair.h"
#include "rdma.h"
#include "target/nvmf/reactor.h"

#define LOOK       RD_NSEC_PER_SEC
#define LATE       2u
#define STILL      3u
#define SLOW       10u
#define SLOW_BYTES (1u << 20)

static void watch_stream(struct rdt_rdma_stream *s)
{
	if (s->done >= s->mark) {
		s->mark = s->posted;
		s->checks = 0;
		s->grace = (uint32_t)((s->posted - s->done) / SLOW_BYTES);
	} else {
		s->checks++;
	}
	s->still = s->done == s->seen && s->done != s->posted ? s->still + 1 : 0;
	s->seen = s->done;
}

static bool too_slow(const struct rdt_rdma_stream *s, bool pressed)
{
	return s->checks > SLOW + s->grace || (pressed && s->still >= STILL);
}

static void watch_conn(struct rdt_rdma_conn *rc, bool pressed)
{
	if (rc->closing)
		return;
	watch_stream(&rc->reads);
	watch_stream(&rc->answers);
	rdt_share_late(&rc->qp, rc->reads.checks >= LATE || rc->answers.checks >= LATE);
	/* READ Responses may be queued behind a command that we have not received yet: that is not
	 * the host's fault. */
	if ((too_slow(&rc->reads, pressed) && !rc->conn->waits) || too_slow(&rc->answers, pressed))
		rdt_qpair_lost(&rc->qp, RDT_END_STALLED,
			       "the host has transferred too little data in the given time");
}

static void watch_conns(struct rd_timer *timer)
{
	struct rdt_rdma *rdma = rd_container_of(timer, struct rdt_rdma, stall);
	struct rdt_reactor *r = rdma->reactor;
	bool pressed = false, late = false;
	struct rdt_qpair *qp;

	for (unsigned int i = 0; i < RDT_ACCOUNTS; i++)
		pressed = pressed || rdt_pool_pressed(&r->pools[i]);
	TAILQ_FOREACH (qp, &r->qpairs, link) {
		if (qp->ops != &rdt_rdma_ops)
			continue;
		watch_conn(rdt_rdma_conn_of(qp), pressed);
		late = late || qp->late;
	}
	/* Restarting cannot fail: the loop keeps the memory of a timer that fires. */
	if (rdma->out || late)
		rd_timer_start(r->loop, timer, LOOK);
}

void rdt_rdma_watch_init(struct rdt_rdma *rdma)
{
	rdma->stall.fn = watch_conns;
}

void rdt_rdma_watch(struct rdt_rdma_conn *rc)
{
	struct rdt_reactor *r = rc->qp.reactor;

	if (rd_timer_start(r->loop, &rc->rdma->stall, LOOK))
		rd_err(rc->qp.log, RD_LOG_QPAIR, "qid %u: out of memory for the stall watchdog",
		       rc->qp.qid);
}
