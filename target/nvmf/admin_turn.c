/* SPDX-License-Identifier: BSD-3-Clause */
#include "admin_turn.h"

#include "util/loop.h"
#include "pool.h"
#include "qpair.h"
#include "reactor.h"

static void pay_admin_debt(struct rdt_admin_debt *debt, uint64_t turn, size_t part)
{
	uint64_t turns = turn - debt->turn;

	debt->turn = turn;
	debt->owed = turns > debt->owed / part ? 0 : debt->owed - turns * part;
}

/* Is what was owed at the begin of the turn paid, and a part left? */
static bool has_part_left(struct rdt_admin_debt *debt, uint64_t turn, size_t part)
{
	pay_admin_debt(debt, turn, part);
	return debt->owed < part;
}

/* Connections without a Connect are no host: all of them share what the reactor does in a turn. */
static struct rdt_admin_debt *host_debt(const struct rdt_qpair *qp)
{
	struct rdt_share *share = qp->share;

	return share && share != &qp->reactor->unassociated ? &share->admin : NULL;
}

bool rdt_admin_may(const struct rdt_qpair *qp)
{
	uint64_t turn = rd_loop_turns(qp->reactor->loop);
	struct rdt_admin_debt *host = host_debt(qp);

	return has_part_left(&qp->reactor->admin, turn, RDT_ADMIN_TURN) &&
	       (!host || has_part_left(host, turn, RDT_ADMIN_HOST));
}

void rdt_admin_charge(const struct rdt_qpair *qp, size_t cost)
{
	struct rdt_admin_debt *host = host_debt(qp);

	qp->reactor->admin.owed += cost;
	if (host)
		host->owed += cost;
}
