/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers to pointers: a hash table with open addressing, at most half full, so that most searches
 * end at the first or second place. Of one thread, or under its owner's lock.
 */
#ifndef RD_UTIL_MAP_H
#define RD_UTIL_MAP_H

#include <stddef.h>
#include <stdint.h>

struct rd_map_slot {
	uint64_t key;
	void *value; /* NULL: free */
};

struct rd_map {
	struct rd_map_slot *slots;
	unsigned int bits;  /* there are 1 << bits slots */
	unsigned int count; /* in use */
};

int rd_map_init(struct rd_map *map); /* 0 or -ENOMEM */
/* A zeroed one is fine. The values are the caller's. */
void rd_map_fini(struct rd_map *map);
/* Make room for @count keys in all, so that so many can be put without failing. 0 or -ENOMEM. */
int rd_map_reserve(struct rd_map *map, unsigned int count);
/* @value is not NULL, and @key is not there. 0 or -ENOMEM. */
int rd_map_put(struct rd_map *map, uint64_t key, void *value);
void rd_map_remove(struct rd_map *map, uint64_t key); /* one that is not there is fine */

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

#endif /* RD_UTIL_MAP_H */
