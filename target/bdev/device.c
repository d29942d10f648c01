/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "engine_io.h"
#include "walker.h"
#include "workers.h"

static void free_device(struct rdt_device *d)
{
	if (d->ready)
		TAILQ_REMOVE(&d->engine->ready, d, link);
	rdt_workers_free(&d->workers);
	rdt_walker_free(&d->walker);
	if (d->bounce != MAP_FAILED)
		munmap(d->bounce, (size_t)RDT_BOUNCE_COUNT * RDT_BOUNCE_SIZE);
	free(d);
}

static int new_device(struct rdt_engine *engine, uint64_t key, struct rdt_device **out)
{
	struct rdt_device *d = calloc(1, sizeof(*d));
	int rc = -ENOMEM;

	if (!d)
		return rc;
	d->engine = engine;
	d->key = key;
	TAILQ_INIT(&d->waiting);
	d->bounce = mmap(NULL, (size_t)RDT_BOUNCE_COUNT * RDT_BOUNCE_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (d->bounce != MAP_FAILED)
		rc = rdt_workers_create(engine, &d->workers);
	if (!rc)
		rc = rdt_walker_create(engine, &d->walker);
	if (!rc)
		rc = rd_map_put(&engine->devices, key, d);
	if (rc) {
		free_device(d);
		return rc;
	}
	for (uint32_t i = 0; i < RDT_BOUNCE_COUNT; i++)
		d->bounce_free[i] = d->bounce + (size_t)i * RDT_BOUNCE_SIZE;
	d->bounce_free_count = RDT_BOUNCE_COUNT;
	*out = d;
	return 0;
}

int rdt_device_get(struct rdt_engine *engine, uint64_t key, struct rdt_device **out)
{
	int rc = 0;

	*out = rd_map_get(&engine->devices, key);
	if (!*out)
		rc = new_device(engine, key, out);
	if (!rc)
		(*out)->channels++;
	return rc;
}

void rdt_device_put(struct rdt_device *d)
{
	if (!d || --d->channels)
		return;
	rd_map_remove(&d->engine->devices, d->key);
	free_device(d);
}
