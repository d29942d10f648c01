/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices (bdev->device) that hold data buffers of a reactor, and the hosts' accounts for them. A
 * buffer for a command to a device is returned only when the device has answered. So each device
 * has a share of the buffers, and the buffers that a host uses on a device that hangs do not count
 * when it requests a buffer for another device. Everything runs on the reactor.
 */
#ifndef RDT_POOL_DEVICE_H
#define RDT_POOL_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/map.h"
#include "pool.h"

struct rdt_reactor;

/* A device's use of one pool. */
struct rdt_device_use {
	const struct rdt_pool_device *device;
	size_t used;
	size_t unproven; /* of this, by unproven accounts */
	/* Accounts whose next request waits until the device returns buffers; they are in no list
	 * of pool->queues. */
	struct rdt_account_list confined;
	TAILQ_ENTRY(rdt_device_use) link; /* pool->confined, while @confined is not empty */
	uint64_t seen_at;                 /* pool->returns when it was last examined */
};

/* A host's accounts for one device. */
struct rdt_device_accounts {
	struct rdt_pool_device *device;
	LIST_ENTRY(rdt_device_accounts) of_device;
	LIST_ENTRY(rdt_device_accounts) of_share;
	struct rd_map *map; /* the map that contains it */
	uint64_t key;       /* its key in @map */
	struct rdt_account accounts[RDT_ACCOUNTS];
};

struct rdt_pool_device {
	struct rdt_reactor *reactor;
	uint64_t key;
	uint32_t id;           /* unique on its reactor */
	unsigned int channels; /* number of its namespaces that are open on this reactor */
	struct rdt_device_use uses[RDT_POOLS];
	struct rdt_account scratch; /* shared by all hosts */
	LIST_HEAD(, rdt_device_accounts) accounts;
	struct rdt_device_accounts *last; /* the accounts that were looked up last, or NULL */
};

int rdt_pool_devices_init(struct rdt_reactor *r);
void rdt_pool_devices_fini(struct rdt_reactor *r);
/* Returns the device @key for one more channel in @out. Returns 0 or -ENOMEM. */
int rdt_pool_device_get(struct rdt_reactor *r, uint64_t key, struct rdt_pool_device **out);
/* One channel of the device closes; it has no requests. Accepts NULL. */
void rdt_pool_device_put(struct rdt_pool_device *device);
/* Returns the account of @share for the device or, without memory for a new one, its account for
 * commands without a device. */
struct rdt_account *rdt_pool_device_account(struct rdt_pool_device *device, struct rdt_share *share,
					    unsigned int pool);
void rdt_pool_share_left(struct rdt_share *share); /* no request of @share may be left */

#endif /* RDT_POOL_DEVICE_H */
