/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keep alive, traffic based (CTRATT.TBKAS): at the end of each KATO interval the association lives
 * on if any command, on any queue, came in during the interval. A dead host is noticed between one
 * and two intervals after its last command.
 */
#include "util/log.h"
#include "util/loop.h"
#include "ctrl.h"
#include "subsys.h"
#include "tgt_limits.h"

static void expired(struct rd_timer *timer)
{
	struct rdt_ctrl *ctrl = rd_container_of(timer, struct rdt_ctrl, ka_timer);

	if (atomic_exchange_explicit(&ctrl->traffic, false, memory_order_relaxed))
		/* Re-arming cannot fail: the loop keeps the room of a timer that fires. */
		rd_timer_start(ctrl->owner->loop, timer, ctrl->kato_ms * RD_NSEC_PER_MSEC);
	else
		rdt_ctrl_fatal(ctrl, "keep alive timed out");
}

void rdt_keep_alive_start(struct rdt_ctrl *ctrl, uint32_t kato_ms)
{
	uint64_t rounded = (kato_ms + (uint64_t)RDT_KAS_MS - 1) / RDT_KAS_MS * RDT_KAS_MS;

	rdt_keep_alive_stop(ctrl);
	if (rounded == 0 && rdt_subsys_is_disc(ctrl->subsys))
		rounded = RDT_DISC_KATO_MS;
	if (rounded > UINT32_MAX)
		rounded = UINT32_MAX;
	ctrl->kato_ms = (uint32_t)rounded;
	ctrl->ka_timer.fn = expired;
	if (!rounded)
		return;
	atomic_store_explicit(&ctrl->traffic, false, memory_order_relaxed);
	if (rd_timer_start(ctrl->owner->loop, &ctrl->ka_timer, rounded * RD_NSEC_PER_MSEC))
		rd_err(ctrl->log, RD_LOG_CTRL,
		       "%s: controller %u: no memory for a keep alive timer", ctrl->subsys->nqn,
		       ctrl->cntlid);
}

void rdt_keep_alive_stop(struct rdt_ctrl *ctrl)
{
	rd_timer_stop(ctrl->owner->loop, &ctrl->ka_timer);
}
