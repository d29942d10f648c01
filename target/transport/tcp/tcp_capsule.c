/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Capsules hold commands until they are parsed, and in-capsule data until the backend has used it.
 * Areas for data are shared by the connections of a reactor, up to target.capsule_memory. Each
 * connection may have one area whatever others use, so that none can be locked out; one without a
 * Connect may not have more. If no area is free, the command is not read from the socket, and TCP's
 * window stops the host.
 */
#include "tcp.h"

#include <stdlib.h>
#include <string.h>

#include "target/nvmf/target.h"

#define AREA_ALIGN 4096u /* for direct I/O */
#define AREA_PART  8u    /* a connection may use 1 / AREA_PART of the areas */

/* Returns whether @c has reached its own limit. It is resumed when one of its own capsules is
 * done. */
static bool over_own_limit(const struct rdt_tcp_conn *c)
{
	const struct rdt_tcp *tcp = c->tcp;

	return c->areas_used && (!c->qp.ctrl || c->areas_used >= tcp->areas_max / AREA_PART);
}

static struct rdt_tcp_capsule *new_capsule(uint32_t area)
{
	struct rdt_tcp_capsule *k = calloc(1, sizeof(*k));

	if (!k || !area)
		return k;
	k->area = aligned_alloc(AREA_ALIGN, area);
	if (!k->area) {
		free(k);
		return NULL;
	}
	return k;
}

static void wait_for_area(struct rdt_tcp_conn *c)
{
	if (c->waits_area)
		return;
	c->waits_area = true;
	TAILQ_INSERT_TAIL(&c->tcp->area_wait, c, area_link);
}

void rdt_tcp_area_unwait(struct rdt_tcp_conn *c)
{
	if (c->waits_area)
		TAILQ_REMOVE(&c->tcp->area_wait, c, area_link);
	c->waits_area = false;
}

struct rdt_tcp_capsule *rdt_tcp_capsule_get(struct rdt_tcp_conn *c, uint32_t data)
{
	struct rdt_tcp *tcp = c->tcp;
	struct rdt_tcp_capsules *list = data ? &tcp->areas : &tcp->plain;
	struct rdt_tcp_capsule *k = SLIST_FIRST(list);

	/* Resumed when one of its own capsules is done. */
	if (c->capsules_used >= c->qp.depth)
		return NULL;
	/* During a hold no command ends and returns an area, so the limit does not apply: at most
	 * @depth more are used. */
	if (data && over_own_limit(c) && !c->hold)
		return NULL;
	if (data && c->areas_used && tcp->areas_used >= tcp->areas_max && !c->hold) {
		wait_for_area(c);
		return NULL;
	}
	if (k) {
		SLIST_REMOVE_HEAD(list, next);
	} else {
		k = new_capsule(data ? tcp->area_size : 0);
		if (!k) {
			rdt_qpair_lost(&c->qp, RDT_END_FAULT, "out of memory for a capsule");
			return NULL;
		}
	}
	/* It may have got an area of its own that came back, and must not be offered another one.
	 */
	rdt_tcp_area_unwait(c);
	k->conn = c;
	k->bad = false;
	k->cap.sqe = &k->sqe;
	k->cap.data = k->area;
	k->cap.data_len = data;
	LIST_INSERT_HEAD(&c->capsules, k, link);
	c->capsules_used++;
	c->areas_used += k->area != NULL;
	tcp->areas_used += k->area != NULL;
	return k;
}

void rdt_tcp_area_free(struct rdt_tcp *tcp)
{
	struct rdt_tcp_conn *c = TAILQ_FIRST(&tcp->area_wait);

	if (!c)
		return;
	rdt_tcp_area_unwait(c);
	rd_defer(tcp->reactor->loop, &c->resume, RD_DEFER_WORK);
}

void rdt_tcp_capsule_put(struct rdt_tcp_capsule *k)
{
	struct rdt_tcp_conn *c = k->conn;
	struct rdt_tcp *tcp = c->tcp;

	LIST_REMOVE(k, link);
	c->capsules_used--;
	if (k->area) {
		c->areas_used--;
		tcp->areas_used--;
		if (tcp->areas_used < tcp->areas_max) {
			SLIST_INSERT_HEAD(&tcp->areas, k, next);
		} else { /* areas beyond the limit, from a hold */
			free(k->area);
			free(k);
		}
		rdt_tcp_area_free(tcp);
	} else {
		SLIST_INSERT_HEAD(&tcp->plain, k, next);
	}
	if (c->rx.held && c->state == RDT_TCP_RUNNING)
		rd_defer(tcp->reactor->loop, &c->resume, RD_DEFER_WORK);
}

void rdt_tcp_capsules_init(struct rdt_tcp *tcp)
{
	const struct rdt_target_config *cfg = &tcp->reactor->target->cfg->target;
	uint32_t most = cfg->in_capsule_bytes;

	if (most < NVME_TCP_ADMIN_IN_CAPSULE)
		most = NVME_TCP_ADMIN_IN_CAPSULE;
	tcp->area_size = (most + AREA_ALIGN - 1) / AREA_ALIGN * AREA_ALIGN;
	tcp->areas_max = (uint32_t)(cfg->capsule_bytes / tcp->area_size);
	SLIST_INIT(&tcp->plain);
	SLIST_INIT(&tcp->areas);
	TAILQ_INIT(&tcp->area_wait);
}

static void free_capsules(struct rdt_tcp_capsules *list)
{
	struct rdt_tcp_capsule *k;

	while ((k = SLIST_FIRST(list))) {
		SLIST_REMOVE_HEAD(list, next);
		free(k->area);
		free(k);
	}
}

void rdt_tcp_capsules_fini(struct rdt_tcp *tcp)
{
	free_capsules(&tcp->plain);
	free_capsules(&tcp->areas);
}
