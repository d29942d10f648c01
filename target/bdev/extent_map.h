/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cache of the extents of a file. Asking the file system costs microseconds per extent, so that
 * without it one small command could cost tens of milliseconds each time.
 *
 * A file is divided into up to 64 parts. The version of each part counts its changes; I/O that
 * changes blocks advances it before its completion is reported. The thread that reads extents
 * (walker.h) caches those of the most recently used files, and reads a part again if its version
 * has advanced.
 */
#ifndef RDT_EXTENT_MAP_H
#define RDT_EXTENT_MAP_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/queue.h>

#include "backend.h"

#define RDT_EXTENT_PARTS 64u
#define RDT_EXTENT_MAPS  8u     /* files whose maps a thread keeps */
#define RDT_EXTENT_KEPT  16384u /* maximum number of extents in a map */

/* Shared by all threads that use the file. */
struct rdt_extent_versions {
	atomic_uint refs;
	_Atomic uint64_t walks; /* how often a part was read into a map */
	unsigned int shift;     /* a part has 1 << shift bytes, the last one the rest of the file */
	/* Bit 0: a map was made of the part; the other bits count the changes after such maps. */
	_Atomic uint32_t versions[RDT_EXTENT_PARTS];
};

/* Returns NULL without memory. rdt_extent_versions_put() gives the reference back. */
struct rdt_extent_versions *rdt_extent_versions_new(uint64_t size);
void rdt_extent_versions_put(struct rdt_extent_versions *versions); /* NULL is allowed */

static inline unsigned int rdt_extent_part(const struct rdt_extent_versions *m, uint64_t offset)
{
	uint64_t part = offset >> m->shift;

	return part < RDT_EXTENT_PARTS ? (unsigned int)part : RDT_EXTENT_PARTS - 1;
}

/* The blocks from @offset to @end may have changed. Any thread. */
static inline void rdt_extents_changed(struct rdt_extent_versions *m, uint64_t offset, uint64_t end)
{
	unsigned int last = rdt_extent_part(m, end ? end - 1 : 0);

	for (unsigned int i = rdt_extent_part(m, offset); i <= last; i++) {
		uint32_t version = atomic_load(&m->versions[i]);

		while (version & 1 &&
		       !atomic_compare_exchange_weak(&m->versions[i], &version, version + 1))
			;
	}
}

/*
 * Ask the storage for the extents in [from, to) and append them to @ex, as rdt_bdev_ops.submit does
 * for EXTENTS. Returns 0 or -errno.
 */
struct rdt_extents_source {
	int (*ask)(struct rdt_extents_source *source, struct rdt_extents *ex, uint64_t from,
		   uint64_t to);
};

struct rdt_extent_map;
/* The maps of one thread; all zero: none yet. */
struct rdt_extent_maps {
	TAILQ_HEAD(rdt_extent_map_list, rdt_extent_map) list; /* most recently used first */
	unsigned int count;
	struct rdt_extents *found; /* of one part, while it is being read */
};

void rdt_extent_maps_init(struct rdt_extent_maps *maps);
void rdt_extent_maps_fini(struct rdt_extent_maps *maps);

/* Execute @bio, an EXTENTS. @versions: those of the file; NULL: others may change the file, so
 * nothing is cached. Returns 0 or -errno. */
int rdt_extent_maps_answer(struct rdt_extent_maps *maps, struct rdt_extent_versions *versions,
			   struct rdt_extents_source *source, const struct rdt_bio *bio);

#endif /* RDT_EXTENT_MAP_H */
