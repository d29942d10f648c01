/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices (bdev->device) that hold data buffers of a reactor, and each host's accounts of them. A
 * buffer for a command to a device is given back only when that has answered. So each device has a
 * share of the buffers, and what a host holds because one device hangs does not count when it asks
 * for a buffer for another device. Everything runs on the reactor.
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
	size_t unproven; /* by unproven accounts */
	/* Accounts whose next request waits until the device has returned buffers; they are on none
	 * of pool->turns */
	struct rdt_turns confined;
	TAILQ_ENTRY(rdt_device_use) link; /* pool->confined, while @confined is not empty */
	uint64_t seen_at;                 /* pool->returns when it was last examined */
};

/* A host's accounts of one device. */
struct rdt_device_accounts {
	struct rdt_pool_device *device;
	LIST_ENTRY(rdt_device_accounts) of_device;
	LIST_ENTRY(rdt_device_accounts) of_share;
	struct rd_map *map; /* where it is, */
	uint64_t key;       /* and its key there */
	struct rdt_account accounts[RDT_ACCOUNTS];
};

struct rdt_pool_device {
	struct rdt_reactor *reactor;
	uint64_t key;
	uint32_t id;           /* unique on its reactor */
	unsigned int channels; /* namespaces on it that are open here */
	struct rdt_device_use uses[RDT_POOLS];
	struct rdt_account scratch; /* of all hosts together */
	LIST_HEAD(, rdt_device_accounts) accounts;
	struct rdt_device_accounts *last; /* those last asked for, or NULL */
};

int rdt_pool_devices_init(struct rdt_reactor *r);
void rdt_pool_devices_fini(struct rdt_reactor *r);
/* The device @key, for one more channel. Returns 0 or -ENOMEM. */
int rdt_pool_device_get(struct rdt_reactor *r, uint64_t key, struct rdt_pool_device **out);
/* One channel less, without requests. NULL is allowed. */
void rdt_pool_device_put(struct rdt_pool_device *device);
/* The account of @share. Without memory for a new one: that for commands without a device. */
struct rdt_account *rdt_pool_device_account(struct rdt_pool_device *device, struct rdt_share *share,
					    unsigned int pool);
void rdt_pool_share_left(struct rdt_share *share); /* no request of it is left */

#endif /* RDT_POOL_DEVICE_H */
