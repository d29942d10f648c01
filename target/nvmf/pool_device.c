/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool_device.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "util/cold.h"
#include "reactor.h"

static int new_pool_device(struct rdt_reactor *r, uint64_t key, struct rdt_pool_device **out)
{
	struct rdt_pool_device *d = calloc(1, sizeof(*d));

	if (!d || rd_map_put(&r->pool_devices, key, d)) {
		free(d);
		return -ENOMEM;
	}
	d->reactor = r;
	d->key = key;
	d->id = r->pool_ids++;
	LIST_INIT(&d->accounts);
	for (unsigned int i = 0; i < RDT_POOLS; i++) {
		d->uses[i].device = d;
		TAILQ_INIT(&d->uses[i].confined);
	}
	rdt_account_init_common(&d->scratch);
	d->scratch.device = &d->uses[RDT_POOL_SCRATCH];
	*out = d;
	return 0;
}

int rdt_pool_device_get(struct rdt_reactor *r, uint64_t key, struct rdt_pool_device **out)
{
	int err = 0;

	*out = rd_map_get(&r->pool_devices, key);
	if (!*out)
		err = new_pool_device(r, key, out);
	if (!err)
		(*out)->channels++;
	return err;
}

static void free_accounts(struct rdt_device_accounts *a)
{
	for (unsigned int i = 0; i < RDT_ACCOUNTS; i++)
		assert(!a->accounts[i].used && TAILQ_EMPTY(&a->accounts[i].waiting));
	rd_map_remove(a->map, a->key);
	a->device->last = NULL;
	LIST_REMOVE(a, of_device);
	LIST_REMOVE(a, of_share);
	free(a);
}

void rdt_pool_device_put(struct rdt_pool_device *d)
{
	struct rdt_device_accounts *a;

	if (!d || --d->channels)
		return;
	while ((a = LIST_FIRST(&d->accounts)))
		free_accounts(a);
	rd_map_remove(&d->reactor->pool_devices, d->key);
	free(d);
}

void rdt_pool_share_left(struct rdt_share *share)
{
	struct rdt_device_accounts *a;

	while ((a = LIST_FIRST(&share->devices)))
		free_accounts(a);
}

static RD_COLD struct rdt_device_accounts *new_accounts(struct rdt_pool_device *d,
							struct rdt_share *share, uint64_t key)
{
	struct rdt_device_accounts *a = calloc(1, sizeof(*a));
	struct rd_map *map = &d->reactor->pool_accounts;

	if (!a || rd_map_put(map, key, a)) {
		free(a);
		return NULL;
	}
	a->device = d;
	a->map = map;
	a->key = key;
	for (unsigned int i = 0; i < RDT_ACCOUNTS; i++) {
		struct rdt_account *acc = &a->accounts[i], *base = &share->accounts[i];

		TAILQ_INIT(&acc->waiting);
		acc->device = &d->uses[i];
		acc->unproven = base->unproven;
		acc->stalled = base->stalled;
		acc->late = base->late;
	}
	LIST_INSERT_HEAD(&d->accounts, a, of_device);
	LIST_INSERT_HEAD(&share->devices, a, of_share);
	return a;
}

struct rdt_account *rdt_pool_device_account(struct rdt_pool_device *d, struct rdt_share *share,
					    unsigned int pool)
{
	uint64_t key = (uint64_t)share->id << 32 | d->id;
	struct rdt_device_accounts *a = d->last;

	if (!a || a->key != key)
		a = rd_map_get(&d->reactor->pool_accounts, key);
	if (!a)
		a = new_accounts(d, share, key);
	d->last = a;
	return a ? &a->accounts[pool] : &share->accounts[pool];
}

int rdt_pool_devices_init(struct rdt_reactor *r)
{
	int err = rd_map_init(&r->pool_devices);

	return err ? err : rd_map_init(&r->pool_accounts);
}

void rdt_pool_devices_fini(struct rdt_reactor *r)
{
	rd_map_fini(&r->pool_accounts);
	rd_map_fini(&r->pool_devices);
}
