/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ANA log page. Each reactor keeps the namespaces of a subsystem in the order of the page, and
 * sorts them again only after a namespace was shown, hidden or moved to another group. The
 * requested part is copied from this order: for a host that sees all namespaces, the cost depends
 * only on the length of that part. For other hosts, two passes over the order count and copy the
 * namespaces that they see.
 */
#include "ana_log.h"

#include <errno.h>
#include <stdlib.h>

#include "nvmf/wire.h"
#include "admin_budget.h"
#include "ana.h"
#include "ctrl.h"
#include "target/nvmf/base/log_out.h"
#include "ns.h"
#include "reactor.h"
#include "request.h"
#include "target/nvmf/base/slots.h"
#include "subsys.h"
#include "target.h"

int rdt_ana_order_init(struct rdt_subsys *ss)
{
	ss->ana_order = calloc(ss->target->cfg->target.reactors, sizeof(*ss->ana_order));
	return ss->ana_order ? 0 : -ENOMEM;
}

void rdt_ana_order_fini(struct rdt_subsys *ss)
{
	for (unsigned int i = 0; ss->ana_order && i < ss->target->cfg->target.reactors; i++)
		free(ss->ana_order[i].ns);
	free(ss->ana_order);
	ss->ana_order = NULL;
}

static unsigned int group_of(const struct rdt_target *t, const struct rdt_ns_place *place)
{
	return atomic_load_explicit(&t->ns_marks[place->slot].ana_group, memory_order_relaxed);
}

/* A namespace may move to another group meanwhile. It is then at the place of its former group, or
 * missing, and @moves is out of date. */
static void sort_by_group(struct rdt_ana_order *order, const struct rdt_target *t,
			  const struct rdt_ns_place *first, const struct rdt_ns_place *end)
{
	uint32_t next[RDT_ANA_GROUPS + 2] = {0};
	const struct rdt_ns_place *p;

	for (p = first; p < end; p++)
		next[group_of(t, p) + 1]++;
	for (unsigned int g = 1; g < RDT_ANA_GROUPS + 2; g++)
		next[g] += next[g - 1];
	memcpy(order->start, next, sizeof(order->start));
	memset(order->ns, 0, (size_t)(end - first) * sizeof(*order->ns));
	for (p = first; p < end; p++) {
		unsigned int g = group_of(t, p);

		if (next[g] < order->start[g + 1])
			order->ns[next[g]++] =
				(struct rdt_ana_ns){rdt_ns_place_nsid(p), (uint32_t)p->slot};
	}
}

/* Returns the current order of the namespaces, or NULL without memory. */
static const struct rdt_ana_order *ana_order(struct rdt_reactor *r, const struct rdt_subsys *ss)
{
	struct rdt_ana_order *order = &ss->ana_order[r->index];
	uint64_t moves = atomic_load(&ss->ana_moves);
	const struct rdt_ns_place *end, *first;
	struct rdt_ana_ns *ns;

	if (order->ns && order->moves == moves && order->changes == r->ns_changes)
		return order;
	first = rdt_ns_places(r, ss, 0, &end);
	ns = malloc((size_t)(end - first + 1) * sizeof(*ns));
	if (!ns)
		return NULL;
	free(order->ns);
	order->ns = ns;
	order->moves = moves;
	order->changes = r->ns_changes;
	sort_by_group(order, r->target, first, end);
	return order;
}

/* The change count is never 0, which would mean that changes are not counted. */
static __le64 ana_change_count(const struct rdt_ctrl *ctrl, unsigned int group)
{
	uint64_t n = atomic_load(&ctrl->subsys->ana_changes[group]) + 1;

	if (ctrl->listener)
		n += atomic_load(&ctrl->listener->ana_changes[group]);
	return htole64(n);
}

static bool groups_only(const struct rdt_req *req)
{
	return le32toh(req->sqe.cdw10) >> 8 & NVME_LOG_ANA_LSP_RGO_GROUPS_ONLY;
}

/* Returns the number of namespaces of group @g that the host sees. */
static uint32_t count_seen(const struct rdt_ana_order *order, const struct rdt_slots *hidden,
			   unsigned int g)
{
	uint32_t n = order->start[g + 1] - order->start[g];

	for (uint32_t i = order->start[g]; hidden && i < order->start[g + 1]; i++)
		n -= rdt_slots_has(hidden, order->ns[i].slot);
	return n;
}

/* Write the NSIDs of group @g, which begin at position @pos of the page. */
static void put_nsids(const struct rdt_ana_order *order, const struct rdt_slots *hidden,
		      unsigned int g, uint64_t pos, const struct rdt_log_out *out)
{
	uint32_t i = order->start[g], end = order->start[g + 1];

	if (!hidden && out->offset > pos) { /* skip NSIDs before the requested part */
		uint64_t skip = (out->offset - pos) / sizeof(__le32);

		skip = skip < end - i ? skip : end - i;
		i += (uint32_t)skip;
		pos += skip * sizeof(__le32);
	}
	for (; i < end && pos < out->offset + out->len; i++) {
		__le32 nsid = htole32(order->ns[i].nsid);

		if (hidden && rdt_slots_has(hidden, order->ns[i].slot))
			continue;
		rdt_log_put(out, pos, &nsid, sizeof(nsid));
		pos += sizeof(nsid);
	}
}

int rdt_ana_log(const struct rdt_req *req, const struct rdt_log_out *out)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;
	/* Read first, so that a change during this call makes the host read again. */
	struct nvme_ana_log head = {.chgcnt = ana_change_count(ctrl, 0)};
	const struct rdt_ana_order *order = ana_order(req->qp->reactor, ctrl->subsys);
	const struct rdt_slots *hidden = rdt_slots_any(&ctrl->hidden) ? &ctrl->hidden : NULL;
	uint64_t pos = sizeof(head);
	uint16_t groups = 0;

	if (!order)
		return -ENOMEM;
	if (hidden)
		rdt_admin_charge(req->qp, order->start[RDT_ANA_GROUPS + 1] * RDT_ADMIN_LOOK);
	for (uint32_t g = 1; g <= RDT_ANA_GROUPS; g++) {
		struct nvme_ana_group_desc desc = {
			.grpid = htole32(g),
			.chgcnt = ana_change_count(ctrl, g),
			.state = (uint8_t)rdt_ana_told(ctrl, g),
		};
		uint32_t count = count_seen(order, hidden, g);

		if (!count)
			continue;
		groups++;
		if (groups_only(req))
			count = 0;
		desc.nnsids = htole32(count);
		rdt_log_put(out, pos, &desc, sizeof(desc));
		pos += sizeof(desc);
		if (count)
			put_nsids(order, hidden, g, pos, out);
		pos += count * sizeof(__le32);
	}
	head.ngrps = htole16(groups);
	rdt_log_put(out, 0, &head, sizeof(head));
	return 0;
}
