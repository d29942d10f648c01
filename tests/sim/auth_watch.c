/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Judges the authentications of the target: each ends in time. Counts the wrong proofs of each
 * host, so that it is known when a host with the right secret may be refused.
 */
#include <string.h>

#include "target/nvmf/auth.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/reactor.h"

#include "world.h"

#define AUTH_TIMEOUT (12 * RD_NSEC_PER_SEC) /* of a step; the target's is 10 s */

/* Of one name of a host at one address, and of the address: as the manual page of the configuration
 * says. A proof that is right ends the first limit. */
static const struct {
	uint64_t cost, burst;
} limits[AUTH_LIMITS] = {{6 * RD_NSEC_PER_SEC, 10}, {600 * RD_NSEC_PER_MSEC, 100}};

/* ---- wrong proofs ---- */

static uint64_t wait_end(const struct auth_watch *watch, unsigned int host, unsigned int limit)
{
	uint64_t free = limits[limit].cost * (limits[limit].burst - 1);

	return watch->forgotten[host][limit] < free ? 0 : watch->forgotten[host][limit] - free;
}

static void proof_was_wrong(struct auth_watch *watch, unsigned int host, uint64_t now)
{
	for (unsigned int i = 0; i < AUTH_LIMITS; i++) {
		uint64_t *at = &watch->forgotten[host][i],
			 most = now + limits[i].cost * limits[i].burst;

		*at = (*at > now ? *at : now) + limits[i].cost;
		*at = *at < most ? *at : most;
	}
}

static void proof_was_right(struct auth_watch *watch, unsigned int host, uint64_t now)
{
	if (wait_end(watch, host, 0) >= now)
		watch->waited[host] = now;
	watch->forgotten[host][0] = 0;
}

bool auth_may_wait(const struct auth_watch *watch, unsigned int host, uint64_t begin)
{
	bool may = watch->waited[host] >= begin;

	for (unsigned int i = 0; i < AUTH_LIMITS; i++)
		may |= wait_end(watch, host, i) >= begin;
	return may;
}

/* ---- queue pairs ---- */

static unsigned int auth_state(const struct rdt_qpair *qp)
{
	return qp->auth ? qp->auth->state : RDT_AUTH_IDLE;
}

/* The queue pair waits for its host, on a reactor that could end it. */
static bool waits_for_host(const struct world *w, const struct rdt_qpair *qp, unsigned int state)
{
	const struct actor *actor = &w->actors[ACTOR_REACTOR + qp->reactor->index];

	return !actor->blocked && actor->stalled_until <= rd_sim_now(w->sim) &&
	       state != RDT_AUTH_PAIR && state != RDT_AUTH_SESSION && state != RDT_AUTH_CLAIM;
}

/* The NQN of a host of the simulation ends with its number. */
static unsigned int number_of_host(const struct rdt_qpair *qp)
{
	return (unsigned int)(qp->ctrl->hostnqn[strlen(qp->ctrl->hostnqn) - 1] - '0');
}

/* The entry of @qp, which goes to @next. */
static void look_at(struct world *w, const struct rdt_qpair *qp, struct auth_wait *next)
{
	uint64_t now = rd_sim_now(w->sim);

	*next = (struct auth_wait){qp, auth_state(qp), now, number_of_host(qp)};
	for (unsigned int i = 0; i < AUTH_WAITS && w->auth.waits[i].qp; i++)
		if (w->auth.waits[i].qp == qp && w->auth.waits[i].state == next->state)
			next->since = w->auth.waits[i].since;
	if (!waits_for_host(w, qp, next->state))
		next->since = now;
	else if (now - next->since > AUTH_TIMEOUT)
		world_fail(w, "queue %u does not end, although its host does not authenticate",
			   qp->qid);
}

static const struct auth_wait *find_wait(const struct auth_wait *waits, const struct rdt_qpair *qp)
{
	for (unsigned int i = 0; i < AUTH_WAITS && waits[i].qp; i++)
		if (waits[i].qp == qp)
			return &waits[i];
	return NULL;
}

/* A queue that ends while its proof is awaited may have given a wrong one. */
static void count_proofs(struct world *w, const struct auth_wait *next)
{
	uint64_t now = rd_sim_now(w->sim);

	for (unsigned int i = 0; i < AUTH_WAITS && w->auth.waits[i].qp; i++) {
		const struct auth_wait *was = &w->auth.waits[i], *is = find_wait(next, was->qp);
		unsigned int state = is ? is->state : RDT_AUTH_FAILURE;

		if ((was->state == RDT_AUTH_REPLY || was->state == RDT_AUTH_SESSION) &&
		    (state == RDT_AUTH_FAILURE || state == RDT_AUTH_DELAY))
			proof_was_wrong(&w->auth, was->host, now);
	}
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
			else if (qp->state == RDT_QP_LIVE && find_wait(w->auth.waits, qp))
				proof_was_right(&w->auth, number_of_host(qp), rd_sim_now(w->sim));
		}
	count_proofs(w, next);
	memcpy(w->auth.waits, next, sizeof(next));
}
