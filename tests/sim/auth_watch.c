/* SPDX-License-Identifier: BSD-3-Clause */
/* Judges the authentications of the target: each ends in time. */
#include <string.h>

#include "target/nvmf/auth/auth.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/reactor.h"

#include "world.h"

#define AUTH_TIMEOUT (12 * RD_NSEC_PER_SEC) /* of a step; the target's is 10 s */

static unsigned int auth_state(const struct rdt_qpair *qp)
{
	return qp->auth ? qp->auth->state : RDT_AUTH_IDLE;
}

/* The queue pair waits for its host, on a reactor that could end it. */
static bool waits_for_host(struct world *w, const struct rdt_qpair *qp, unsigned int state)
{
	const struct actor *actor = world_actor(w, ACTOR_REACTOR + qp->reactor->index);

	return !actor->blocked && actor->stalled_until <= rd_sim_now(w->sim) &&
	       state != RDT_AUTH_PACED && state != RDT_AUTH_PAIR && state != RDT_AUTH_SESSION &&
	       state != RDT_AUTH_PACED_REPLY && state != RDT_AUTH_CLAIM;
}

/* The entry of @qp, which goes to @next. */
static void look_at(struct world *w, const struct rdt_qpair *qp, struct auth_wait *next)
{
	uint64_t now = rd_sim_now(w->sim);

	*next = (struct auth_wait){qp, auth_state(qp), now};
	for (unsigned int i = 0; i < AUTH_WAITS && w->auth.waits[i].qp; i++)
		if (w->auth.waits[i].qp == qp && w->auth.waits[i].state == next->state)
			next->since = w->auth.waits[i].since;
	if (!waits_for_host(w, qp, next->state))
		next->since = now;
	else if (now - next->since > AUTH_TIMEOUT)
		world_fail(w, "queue %u does not end, although its host does not authenticate",
			   qp->qid);
}

void auth_judge(struct world *w)
{
	struct auth_wait next[AUTH_WAITS] = {0};
	unsigned int count = 0;
	const struct rdt_qpair *qp;

	for (unsigned int i = 0; w->target && i < w->target->reactors_count; i++)
		TAILQ_FOREACH (qp, &w->target->reactors[i].qpairs, link) {
			if (qp->state == RDT_QP_AUTH && count < AUTH_WAITS)
				look_at(w, qp, &next[count++]);
		}
	memcpy(w->auth.waits, next, sizeof(next));
}
