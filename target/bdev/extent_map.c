/* SPDX-License-Identifier: BSD-3-Clause */
#include "extent_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SHIFT_MIN 20u
#define LAST_PART (RDT_EXTENT_PARTS - 1)

/* The known extents of a part of a file. */
struct part {
	uint32_t version; /* the file's version when the part was read; 0: not read yet */
	uint32_t count;
	/* too many extents to keep them: the file system is asked each time */
	bool too_many;
	struct rdt_extent *list;
};

struct rdt_extent_map {
	struct rdt_extent_versions *versions; /* a reference */
	uint32_t kept;                        /* number of extents of all parts */
	struct part parts[RDT_EXTENT_PARTS];
	TAILQ_ENTRY(rdt_extent_map) link;
};

struct rdt_extent_versions *rdt_extent_versions_new(uint64_t size)
{
	struct rdt_extent_versions *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	atomic_init(&m->refs, 1);
	m->shift = SHIFT_MIN;
	while (size && (size - 1) >> m->shift > LAST_PART)
		m->shift++;
	return m;
}

void rdt_extent_versions_put(struct rdt_extent_versions *m)
{
	if (m && atomic_fetch_sub(&m->refs, 1) == 1)
		free(m);
}

static void free_map(struct rdt_extent_maps *maps, struct rdt_extent_map *map)
{
	TAILQ_REMOVE(&maps->list, map, link);
	maps->count--;
	for (unsigned int i = 0; i < RDT_EXTENT_PARTS; i++)
		free(map->parts[i].list);
	rdt_extent_versions_put(map->versions);
	free(map);
}

void rdt_extent_maps_init(struct rdt_extent_maps *maps)
{
	*maps = (struct rdt_extent_maps){0};
	TAILQ_INIT(&maps->list);
}

void rdt_extent_maps_fini(struct rdt_extent_maps *maps)
{
	struct rdt_extent_map *map;

	while ((map = TAILQ_FIRST(&maps->list)))
		free_map(maps, map);
	free(maps->found);
}

/* Moves the map of the file with @versions to the head, creating it if needed. NULL: no memory. */
static struct rdt_extent_map *map_of(struct rdt_extent_maps *maps,
				     struct rdt_extent_versions *versions)
{
	struct rdt_extent_map *map;

	if (!maps->found)
		maps->found = malloc(sizeof(*maps->found) +
				     RDT_EXTENT_KEPT * sizeof(maps->found->list[0]));
	if (!maps->found)
		return NULL;
	TAILQ_FOREACH (map, &maps->list, link)
		if (map->versions == versions)
			break;
	if (map) {
		TAILQ_REMOVE(&maps->list, map, link);
		TAILQ_INSERT_HEAD(&maps->list, map, link);
		return map;
	}
	map = calloc(1, sizeof(*map));
	if (!map)
		return NULL;
	atomic_fetch_add(&versions->refs, 1);
	map->versions = versions;
	TAILQ_INSERT_HEAD(&maps->list, map, link);
	if (++maps->count > RDT_EXTENT_MAPS)
		free_map(maps, TAILQ_LAST(&maps->list, rdt_extent_map_list));
	return map;
}

static uint64_t part_begin(const struct rdt_extent_map *map, unsigned int i)
{
	return (uint64_t)i << map->versions->shift;
}

static uint64_t part_end(const struct rdt_extent_map *map, unsigned int i)
{
	return i < LAST_PART ? part_begin(map, i + 1) : INT64_MAX;
}

static int keep_extents(struct rdt_extent_map *map, struct part *part,
			const struct rdt_extents *found)
{
	size_t size = found->count * sizeof(found->list[0]);
	struct rdt_extent *list = NULL;

	if (size) {
		list = malloc(size);
		if (!list)
			return -ENOMEM;
		memcpy(list, found->list, size);
	}
	part->list = list;
	part->count = found->count;
	map->kept += found->count;
	return 0;
}

/*
 * Reads the extents of part @i unless they are known. The version is set before the file system is
 * asked: a change that ends later advances it, and a change that has ended is seen.
 */
static int read_part(struct rdt_extent_maps *maps, struct rdt_extent_map *map, unsigned int i,
		     struct rdt_extents_source *source)
{
	struct part *part = &map->parts[i];
	struct rdt_extents *found = maps->found;
	uint32_t version;
	int rc;

	if (part->too_many ||
	    (part->version && part->version == atomic_load(&map->versions->versions[i])))
		return 0;
	free(part->list);
	map->kept -= part->count;
	*part = (struct part){0};
	version = atomic_fetch_or(&map->versions->versions[i], 1) | 1;
	atomic_fetch_add(&map->versions->walks, 1);
	*found = (struct rdt_extents){.room = RDT_EXTENT_KEPT - map->kept};
	rc = source->ask(source, found, part_begin(map, i), part_end(map, i));
	part->too_many = !rc && found->upto < part_end(map, i);
	if (!rc && !part->too_many)
		rc = keep_extents(map, part, found);
	if (!rc)
		part->version = version;
	return rc;
}

/* Adds the extents of @part in [from, to). ex->upto becomes less than @to if the list is full. */
static void take_from_part(const struct part *part, struct rdt_extents *ex, uint64_t from,
			   uint64_t to)
{
	uint32_t low = 0, high = part->count; /* find the first extent that ends behind @from */

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (part->list[mid].to > from)
			high = mid;
		else
			low = mid + 1;
	}
	for (; low < part->count && part->list[low].from < to; low++) {
		const struct rdt_extent *e = &part->list[low];

		if (!rdt_extents_add(ex, e->from > from ? e->from : from, e->to < to ? e->to : to))
			return;
	}
	ex->upto = to;
}

int rdt_extent_maps_answer(struct rdt_extent_maps *maps, struct rdt_extent_versions *versions,
			   struct rdt_extents_source *source, const struct rdt_bio *bio)
{
	struct rdt_extent_map *map = versions ? map_of(maps, versions) : NULL;
	uint64_t end = bio->offset + bio->length;
	struct rdt_extents *ex = bio->buf;
	int rc = 0;

	ex->count = 0;
	ex->upto = bio->offset;
	if (!map)
		return source->ask(source, ex, bio->offset, end);
	while (!rc && ex->upto < end) {
		unsigned int i = rdt_extent_part(versions, ex->upto);
		uint64_t from = ex->upto, to = part_end(map, i) < end ? part_end(map, i) : end;

		rc = read_part(maps, map, i, source);
		if (rc)
			break;
		if (map->parts[i].too_many)
			rc = source->ask(source, ex, from, to);
		else
			take_from_part(&map->parts[i], ex, from, to);
		if (ex->upto < to)
			break;
	}
	return rc;
}
