/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keep alive, traffic based (CTRATT.TBKAS): at the end of each KATO interval the association lives
 * on if any command, on any queue, came in during the interval. A dead host is noticed between one
 * and two intervals after its last command.
 *
 * That is what this target has seen. When it was held up itself at the end of an interval (a
 * machine that was paused, memory that took its time to be registered), commands may be waiting to
 * be seen: then there is one interval more.
 */
#include "util/log.h"
#include "util/loop.h"
#include "ctrl.h"
#include "subsys.h"
#include "target/config/tgt_limits.h"

#define LATE_NS (RDT_KAS_MS * RD_NSEC_PER_MSEC)

static void expired(struct rd_timer *timer)
{
	struct rdt_ctrl *ctrl = rd_container_of(timer, struct rdt_ctrl, ka_timer);
	bool seen = atomic_exchange_explicit(&ctrl->traffic, false, memory_order_relaxed);
	bool late = rd_loop_now(ctrl->owner->loop) - timer->deadline > LATE_NS;
	bool again = seen || (late && !ctrl->ka_late);

	ctrl->ka_late = late && !seen;
	if (again)
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
	ctrl->ka_late = false;
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
