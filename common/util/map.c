/* SPDX-License-Identifier: BSD-3-Clause */
#include "map.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define FIRST_BITS 4u

int rd_map_init(struct rd_map *map)
{
	map->slots = calloc((size_t)1 << FIRST_BITS, sizeof(*map->slots));
	map->bits = FIRST_BITS;
	map->count = 0;
	return map->slots ? 0 : -ENOMEM;
}

void rd_map_fini(struct rd_map *map)
{
	free(map->slots);
	*map = (struct rd_map){0};
}

static void map_insert(struct rd_map *map, uint64_t key, void *value)
{
	size_t mask = ((size_t)1 << map->bits) - 1;
	size_t i = rd_map_place(map, key);

	while (map->slots[i].value)
		i = (i + 1) & mask;
	map->slots[i] = (struct rd_map_slot){key, value};
}

int rd_map_reserve(struct rd_map *map, unsigned int count)
{
	struct rd_map bigger = {.bits = map->bits, .count = map->count};

	while ((size_t)count * 2 > (size_t)1 << bigger.bits)
		bigger.bits++;
	if (bigger.bits == map->bits)
		return 0;
	bigger.slots = calloc((size_t)1 << bigger.bits, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < (size_t)1 << map->bits; i++)
		if (map->slots[i].value)
			map_insert(&bigger, map->slots[i].key, map->slots[i].value);
	free(map->slots);
	*map = bigger;
	return 0;
}

int rd_map_put(struct rd_map *map, uint64_t key, void *value)
{
	int err = rd_map_reserve(map, map->count + 1);

	if (err)
		return err;
	assert(value && !rd_map_get(map, key));
	map_insert(map, key, value);
	map->count++;
	return 0;
}

/* Moves later entries up that could not be found any more. */
void rd_map_remove(struct rd_map *map, uint64_t key)
{
	size_t mask = ((size_t)1 << map->bits) - 1;
	size_t hole = rd_map_place(map, key);

	while (map->slots[hole].value && map->slots[hole].key != key)
		hole = (hole + 1) & mask;
	if (!map->slots[hole].value)
		return;
	map->count--;
	for (size_t i = (hole + 1) & mask; map->slots[i].value; i = (i + 1) & mask) {
		size_t home = rd_map_place(map, map->slots[i].key);

		/* It may move to @hole unless its home is between there and here. */
		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		map->slots[hole] = map->slots[i];
		hole = i;
	}
	map->slots[hole].value = NULL;
}
