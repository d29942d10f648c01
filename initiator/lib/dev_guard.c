/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges of blocks that lost commands may still change. */
#include "dev_guard.h"

#include <stdlib.h>

void rdi_guards_init(struct rdi_guards *g)
{
	pthread_mutex_init(&g->lock, NULL);
	TAILQ_INIT(&g->list);
	atomic_init(&g->count, 0);
	g->all_until = 0;
}

static void guard_remove(struct rdi_guards *g, struct rdi_guard *guard)
{
	TAILQ_REMOVE(&g->list, guard, link);
	g->count--;
	free(guard);
}

void rdi_guards_fini(struct rdi_guards *g)
{
	struct rdi_guard *guard;

	while ((guard = TAILQ_FIRST(&g->list)))
		guard_remove(g, guard);
	pthread_mutex_destroy(&g->lock);
}

struct rdi_guard *rdi_guards_add(struct rdi_guards *g, const struct rdi_guard *what)
{
	struct rdi_guard *guard = malloc(sizeof(*guard));

	pthread_mutex_lock(&g->lock);
	if (guard) {
		*guard = *what;
		TAILQ_INSERT_TAIL(&g->list, guard, link);
		g->count++;
	} else {
		if (!g->all_until)
			g->count++;
		if (what->safe_at > g->all_until)
			g->all_until = what->safe_at;
	}
	pthread_mutex_unlock(&g->lock);
	return guard;
}

void rdi_guards_renew(struct rdi_guards *g, struct rdi_guard *guard, const struct rdi_guard *what)
{
	pthread_mutex_lock(&g->lock);
	guard->path = what->path;
	guard->epoch = what->epoch;
	guard->gateway = what->gateway;
	if (what->safe_at > guard->safe_at)
		guard->safe_at = what->safe_at;
	pthread_mutex_unlock(&g->lock);
}

void rdi_guards_end(struct rdi_guards *g, struct rdi_guard *guard)
{
	if (!guard)
		return;
	pthread_mutex_lock(&g->lock);
	guard_remove(g, guard);
	pthread_mutex_unlock(&g->lock);
}

void rdi_guards_leave(struct rdi_guards *g, struct rdi_guard *guard)
{
	if (!guard)
		return;
	pthread_mutex_lock(&g->lock);
	guard->resend = false;
	pthread_mutex_unlock(&g->lock);
}

static bool guard_overlaps(const struct rdi_guard *guard, uint64_t lba, uint64_t nblocks)
{
	if (lba < guard->lba)
		return nblocks > guard->lba - lba;
	return guard->nblocks > lba - guard->lba;
}

bool rdi_guard_is_over_at(const struct rdi_guard *guard, uint64_t gateway)
{
	return gateway && guard->gateway && gateway != guard->gateway;
}

bool rdi_guards_block(struct rdi_guards *g, uint64_t lba, uint64_t nblocks,
		      const struct rdi_guard *mine, uint64_t gateway, uint64_t now)
{
	struct rdi_guard *guard, *next;
	bool blocked = false;

	if (atomic_load(&g->count) == 0)
		return false;
	pthread_mutex_lock(&g->lock);
	if (g->all_until && now >= g->all_until) {
		g->all_until = 0;
		g->count--;
	}
	blocked = g->all_until && !mine;
	for (guard = TAILQ_FIRST(&g->list); guard && guard != mine && !blocked; guard = next) {
		next = TAILQ_NEXT(guard, link);
		if (!guard->resend && now >= guard->safe_at)
			guard_remove(g, guard);
		else if (guard->resend || !rdi_guard_is_over_at(guard, gateway))
			blocked = guard_overlaps(guard, lba, nblocks);
	}
	pthread_mutex_unlock(&g->lock);
	return blocked;
}
