/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash table from numbers to pointers: open addressing, at most half full, so that most searches
 * end at the first or second slot. One thread, or under its owner's lock.
 */
#ifndef RD_UTIL_MAP_H
#define RD_UTIL_MAP_H

#include <stddef.h>
#include <stdint.h>

struct rd_map_slot {
	uint64_t key;
	void *value; /* NULL: the slot is free */
};

struct rd_map {
	struct rd_map_slot *slots;
	unsigned int bits;  /* the table has 1 << bits slots */
	unsigned int count; /* used slots */
};

int rd_map_init(struct rd_map *map); /* 0 or -ENOMEM */
/* A zero-initialized map is allowed. The values remain the caller's. */
void rd_map_fini(struct rd_map *map);
/* Grows the map for @count keys in all, so that adding them cannot fail. Returns 0 or -ENOMEM. */
int rd_map_reserve(struct rd_map *map, unsigned int count);
/*
 * Adds @key, which must not be in the map, with @value, which must not be NULL. Returns 0 or
 * -ENOMEM.
 */
int rd_map_put(struct rd_map *map, uint64_t key, void *value);
void rd_map_remove(struct rd_map *map, uint64_t key); /* no-op if it is not in the map */

static inline size_t rd_map_place(const struct rd_map *map, uint64_t key)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - map->bits));
}

static inline void *rd_map_get(const struct rd_map *map, uint64_t key)
{
	size_t mask = ((size_t)1 << map->bits) - 1;
	size_t i = rd_map_place(map, key);

	while (map->slots[i].value && map->slots[i].key != key)
		i = (i + 1) & mask;
	return map->slots[i].value;
}

/* A key for @text: FNV-1a. Two texts may have the same one. */
static inline uint64_t rd_map_hash(const char *text)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * UINT64_C(1099511628211);
	return hash;
}

#endif /* RD_UTIL_MAP_H */
