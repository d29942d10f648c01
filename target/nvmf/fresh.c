/* SPDX-License-Identifier: BSD-3-Clause */
#include "fresh.h"

#include "util/log.h"
#include "util/loop.h"
#include "util/sockaddr.h"
#include "peers.h"
#include "pool.h"
#include "qpair.h"
#include "reactor.h"
#include "target.h"

#define LEAST 16u

/* The part of a limit that one reactor may use. */
static unsigned int reactor_part(const struct rdt_reactor *r, uint32_t limit)
{
	unsigned int n = limit / r->target->cfg->target.reactors;

	return n > LEAST ? n : LEAST;
}

unsigned int rdt_fresh_max(const struct rdt_reactor *r)
{
	return reactor_part(r, r->target->cfg->target.limits.unconnected);
}

static unsigned int most_of_address(const struct rdt_reactor *r)
{
	return reactor_part(r, r->target->cfg->target.limits.unconnected_per_address);
}

bool rdt_fresh_crowded(const struct rdt_reactor *r, const struct rdt_site *site)
{
	return site->fresh_count >= most_of_address(r) ||
	       (r->fresh_count >= rdt_fresh_max(r) && site->fresh_count > r->fresh_count / 4);
}

/* The connection to end, or NULL. */
static struct rdt_qpair *choose_victim(const struct rdt_reactor *r, const struct rdt_site *site)
{
	bool full = r->fresh_count > rdt_fresh_max(r);

	if (site->fresh_count > most_of_address(r) ||
	    (full && site->fresh_count > r->fresh_count / 4))
		return TAILQ_FIRST(&site->fresh);
	return full ? TAILQ_FIRST(&r->fresh) : NULL;
}

void rdt_fresh_add(struct rdt_qpair *qp)
{
	struct rdt_reactor *r = qp->reactor;
	struct rdt_site *site = rdt_peer_site(qp);
	struct rdt_qpair *old;
	char addr[RD_ADDR_TEXT];

	TAILQ_INSERT_TAIL(&r->fresh, qp, fresh_link);
	TAILQ_INSERT_TAIL(&site->fresh, qp, site_link);
	qp->fresh = true;
	r->fresh_count++;
	site->fresh_count++;
	old = choose_victim(r, site);
	if (!old)
		return;
	rd_log_limited(&r->fresh_limit, rd_loop_now(r->loop), r->log, RD_LOG_QPAIR, RD_LOG_NOTICE,
		       "many connections without a Connect or its authentication, of reactor %u "
		       "%u, of one address %u "
		       "(target.limits.unconnected, unconnected_per_address): the oldest one ends, "
		       "from %s",
		       r->index, r->fresh_count, site->fresh_count,
		       rd_addr_format((struct sockaddr *)&old->remote, addr));
	rdt_qpair_end(old, RDT_END_NO_CONNECT,
		      "too many connections without a Connect or its authentication");
}

void rdt_fresh_remove(struct rdt_qpair *qp)
{
	struct rdt_site *site = rdt_peer_site(qp);

	if (!qp->fresh)
		return;
	qp->fresh = false;
	TAILQ_REMOVE(&qp->reactor->fresh, qp, fresh_link);
	TAILQ_REMOVE(&site->fresh, qp, site_link);
	qp->reactor->fresh_count--;
	site->fresh_count--;
}
