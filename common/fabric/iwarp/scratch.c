/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scratch memory: receive staging and the batch of tx.c, empty between two callbacks. So the
 * fabrics of one thread (an application can have a thousand queue pairs) need one piece, which
 * stays in the cache. Each thread that uses it at the same time has a piece of its own.
 */
#include <errno.h>
#include <stdlib.h>

#include "scratch.h"

int rd_fab_iwarp_scratch_create(struct rd_fab_iwarp_scratch **out)
{
	struct rd_fab_iwarp_scratch *pool = calloc(1, sizeof(*pool));
	struct rd_iw_scratch *s;

	if (!pool)
		return -ENOMEM;
	s = malloc(sizeof(*s)); /* one piece in advance: a failure later would end a connection */
	if (!s || pthread_mutex_init(&pool->lock, NULL)) {
		free(s);
		free(pool);
		return -ENOMEM;
	}
	atomic_init(&pool->hot, s);
	atomic_init(&pool->refs, 1);
	*out = pool;
	return 0;
}

struct rd_fab_iwarp_scratch *rd_fab_iwarp_scratch_ref(struct rd_fab_iwarp_scratch *pool)
{
	if (pool)
		atomic_fetch_add(&pool->refs, 1);
	return pool;
}

void rd_fab_iwarp_scratch_unref(struct rd_fab_iwarp_scratch **ref)
{
	struct rd_fab_iwarp_scratch *pool = *ref;
	struct rd_iw_scratch *s;

	*ref = NULL;
	if (!pool || atomic_fetch_sub(&pool->refs, 1) > 1)
		return;
	free(atomic_load(&pool->hot));
	while ((s = SLIST_FIRST(&pool->idle)) != NULL) {
		SLIST_REMOVE_HEAD(&pool->idle, link);
		free(s);
	}
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

struct rd_iw_scratch *rd_iw_scratch_more(struct rd_fab_iwarp_scratch *pool)
{
	struct rd_iw_scratch *s;

	pthread_mutex_lock(&pool->lock);
	s = SLIST_FIRST(&pool->idle);
	if (s)
		SLIST_REMOVE_HEAD(&pool->idle, link);
	pthread_mutex_unlock(&pool->lock);
	return s ? s : malloc(sizeof(*s));
}

void rd_iw_scratch_keep(struct rd_fab_iwarp_scratch *pool, struct rd_iw_scratch *s)
{
	pthread_mutex_lock(&pool->lock);
	SLIST_INSERT_HEAD(&pool->idle, s, link);
	pthread_mutex_unlock(&pool->lock);
}
