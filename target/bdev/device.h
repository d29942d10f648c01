/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device as one reactor uses it: the device of a file system with all its files, or a block
 * device. What I/O can use up belongs to the device: places in the kernel, threads and bounce
 * buffers. So a device that answers nothing takes nothing from the others, however many such
 * devices there are.
 */
#ifndef RDT_DEVICE_H
#define RDT_DEVICE_H

#include <stdint.h>
#include <sys/queue.h>

#include "backend.h"

#define RDT_BOUNCE_COUNT 16
#define RDT_BOUNCE_SIZE  65536u

struct rdt_engine;
struct rdt_walker;
struct rdt_workers;

struct rdt_device {
	struct rdt_engine *engine;
	uint64_t key;          /* its number */
	unsigned int channels; /* that use it */
	uint32_t in_kernel;    /* I/Os that the engine has started */
	/* in order; only the head is started */
	TAILQ_HEAD(rdt_bio_queue, rdt_bio) waiting;
	struct rdt_workers *workers;
	struct rdt_walker *walker;
	/* aligned for O_DIRECT; memory for those that were used */
	char *bounce;
	uint32_t bounce_free_count;
	void *bounce_free[RDT_BOUNCE_COUNT];
	bool ready; /* in engine->ready: its queue may move */
	TAILQ_ENTRY(rdt_device) link;
};

/* The device @key of @engine, for one more channel. Returns 0 or -ENOMEM. */
int rdt_device_get(struct rdt_engine *engine, uint64_t key, struct rdt_device **out);
/* One channel less; it has no bio. NULL is allowed. */
void rdt_device_put(struct rdt_device *device);

#endif /* RDT_DEVICE_H */
