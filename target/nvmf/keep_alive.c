/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traffic based keep alive (CTRATT.TBKAS): at the end of each KATO interval the association
 * continues if a command arrived on any of its queues during the interval. A dead host is detected
 * one to two intervals after its last command.
 *
 * When the target itself was late at the end of an interval (a paused machine, slow memory
 * registration), commands may be waiting to be received, so one more interval is granted.
 */
#include "util/log.h"
#include "util/loop.h"
#include "ctrl.h"
#include "heartbeat.h"
#include "io_stats.h"
#include "qpair.h"
#include "subsys.h"
#include "target.h"
#include "target/config/tgt_limits.h"

#define LATE_NS (RDT_KAS_MS * RD_NSEC_PER_MSEC)

static void keep_alive_expired(struct rd_timer *timer)
{
	struct rdt_ctrl *ctrl = rd_container_of(timer, struct rdt_ctrl, ka_timer);
	bool seen = atomic_exchange_explicit(&ctrl->traffic, false, memory_order_relaxed);
	bool late = rd_loop_now(ctrl->owner->loop) - timer->deadline > LATE_NS;
	/* While the admin queue is held, commands of its host are not read, so the host cannot be
	 * blamed. */
	bool held = ctrl->admin->state == RDT_QP_HOLDING || ctrl->admin->state == RDT_QP_HELD;
	bool again = seen || held || (late && !ctrl->ka_late);

	ctrl->ka_late = late && !seen;
	if (again)
		/* Restarting cannot fail: the loop keeps the memory of a timer that fires. */
		rd_timer_start(ctrl->owner->loop, timer, ctrl->kato_ms * RD_NSEC_PER_MSEC);
	else {
		rdt_count_event(ctrl->admin, RDT_COUNT_KEEP_ALIVES);
		rdt_announce(ctrl->subsys->target, "keep-alive-expired", "{s:s, s:i, s:s, s:I}",
			     "nqn", ctrl->subsys->nqn, "cntlid", (int)ctrl->cntlid, "hostnqn",
			     ctrl->hostnqn, "kato", (json_int_t)ctrl->kato_ms);
		rdt_ctrl_fatal(ctrl, RDT_END_KEEP_ALIVE, "keep alive timed out");
	}
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
	ctrl->ka_timer.fn = keep_alive_expired;
	if (!rounded)
		return;
	rdt_heartbeat_start(ctrl->owner, ctrl);
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
