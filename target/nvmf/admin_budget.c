/* SPDX-License-Identifier: BSD-3-Clause */
#include "admin_budget.h"

#include "util/loop.h"
#include "pool.h"
#include "qpair.h"
#include "reactor.h"

/* Queues examined in one loop iteration. The budget of one iteration is enough for the commands of
 * only a few of them. */
#define QUEUES_LOOKED 256u

static void pay_admin_debt(struct rdt_admin_debt *debt, uint64_t iteration, size_t part)
{
	uint64_t passed = iteration - debt->iteration;

	debt->iteration = iteration;
	debt->owed = passed > debt->owed / part ? 0 : debt->owed - passed * part;
}

/* Returns whether the debt of earlier loop iterations is paid off, and a part of this iteration's
 * budget is left. */
static bool has_budget_left(struct rdt_admin_debt *debt, uint64_t iteration, size_t part)
{
	pay_admin_debt(debt, iteration, part);
	return debt->owed < part;
}

/* NULL for a connection without a Connect: its host is not known, so only the limit of the whole
 * reactor applies. */
static struct rdt_admin_debt *host_debt(const struct rdt_qpair *qp)
{
	struct rdt_share *share = qp->share;

	return share && share != &qp->reactor->unassociated ? &share->admin : NULL;
}

bool rdt_admin_may(const struct rdt_qpair *qp)
{
	uint64_t iteration = rd_loop_turns(qp->reactor->loop);
	struct rdt_admin_debt *host = host_debt(qp);

	return has_budget_left(&qp->reactor->admin.all, iteration, RDT_ADMIN_BUDGET) &&
	       (!host || has_budget_left(host, iteration, RDT_ADMIN_HOST_BUDGET));
}

void rdt_admin_charge(const struct rdt_qpair *qp, size_t cost)
{
	struct rdt_admin_debt *host = host_debt(qp);

	qp->reactor->admin.all.owed += cost;
	if (host)
		host->owed += cost;
}

void rdt_admin_wait(struct rdt_qpair *qp)
{
	struct rdt_admin_budget *admin = &qp->reactor->admin;

	if (qp->starved)
		return;
	rdt_starved_add(&admin->waiting, qp);
	rd_defer(qp->reactor->loop, &admin->serve, RD_DEFER_NEXT);
}

/* Serve waiting queues until the reactor's budget for this loop iteration is used up; the next
 * iteration continues with the others. A queue that was served, or whose host has used up its own
 * budget, moves to the end of the list. */
static void serve_admin_queues(struct rd_defer *defer)
{
	struct rdt_admin_budget *admin = rd_container_of(defer, struct rdt_admin_budget, serve);
	struct rdt_reactor *r = rd_container_of(admin, struct rdt_reactor, admin);
	uint64_t iteration = rd_loop_turns(r->loop);
	struct rdt_qpair *qp;

	for (unsigned int i = 0; i < QUEUES_LOOKED && (qp = TAILQ_FIRST(&admin->waiting)) &&
				 has_budget_left(&admin->all, iteration, RDT_ADMIN_BUDGET);
	     i++) {
		rdt_starved_leave(qp);
		rdt_qpair_retry(qp);
	}
	if (!TAILQ_EMPTY(&admin->waiting))
		rd_defer(r->loop, defer, RD_DEFER_NEXT);
}

void rdt_admin_budget_init(struct rdt_reactor *r)
{
	TAILQ_INIT(&r->admin.waiting);
	r->admin.serve.fn = serve_admin_queues;
}
