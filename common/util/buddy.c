/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/buddy.h"

#include <errno.h>
#include <stdlib.h>

#define NONE       UINT32_MAX
#define ORDERS_MAX 32
#define NOT_FREE   0xff

/* Links of a free block, kept at the index of its first unit. */
struct link {
	uint32_t next;
	uint32_t prev;
};

struct rd_buddy {
	char *base;
	size_t len;
	size_t free_bytes;
	unsigned int unit_shift;
	unsigned int max_order;
	uint32_t units;
	uint32_t heads[ORDERS_MAX]; /* first free block of each order, or NONE */
	struct link *links;
	uint8_t *free_order; /* order of the free block that starts here, or NOT_FREE */
};

static bool is_pow2(size_t v)
{
	return v && (v & (v - 1)) == 0;
}

static void push_block(struct rd_buddy *b, uint32_t idx, unsigned int order)
{
	uint32_t head = b->heads[order];

	b->links[idx] = (struct link){.next = head, .prev = NONE};
	if (head != NONE)
		b->links[head].prev = idx;
	b->heads[order] = idx;
	b->free_order[idx] = (uint8_t)order;
}

static void unlink_block(struct rd_buddy *b, uint32_t idx, unsigned int order)
{
	struct link *l = &b->links[idx];

	if (l->prev != NONE)
		b->links[l->prev].next = l->next;
	else
		b->heads[order] = l->next;
	if (l->next != NONE)
		b->links[l->next].prev = l->prev;
	b->free_order[idx] = NOT_FREE;
}

int rd_buddy_create(void *base, size_t len, size_t unit, size_t max, struct rd_buddy **out)
{
	struct rd_buddy *b;

	*out = NULL;
	if (!base || !is_pow2(unit) || !is_pow2(max) || max < unit || len == 0 || len % max ||
	    len / unit >= NONE)
		return -EINVAL;
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->base = base;
	b->len = len;
	b->free_bytes = len;
	b->unit_shift = (unsigned int)__builtin_ctzl(unit);
	b->max_order = (unsigned int)__builtin_ctzl(max) - b->unit_shift;
	if (b->max_order >= ORDERS_MAX) {
		free(b);
		return -EINVAL;
	}
	b->units = (uint32_t)(len >> b->unit_shift);
	b->links = calloc(b->units, sizeof(*b->links));
	b->free_order = malloc(b->units);
	if (!b->links || !b->free_order) {
		rd_buddy_destroy(&b);
		return -ENOMEM;
	}
	for (unsigned int i = 0; i < ORDERS_MAX; i++)
		b->heads[i] = NONE;
	for (uint32_t i = 0; i < b->units; i++)
		b->free_order[i] = NOT_FREE;
	/* From the end, so that low addresses are used first. */
	for (uint32_t i = b->units; i > 0; i -= UINT32_C(1) << b->max_order)
		push_block(b, i - (UINT32_C(1) << b->max_order), b->max_order);
	*out = b;
	return 0;
}

void rd_buddy_destroy(struct rd_buddy **buddy)
{
	if (!*buddy)
		return;
	free((*buddy)->links);
	free((*buddy)->free_order);
	free(*buddy);
	*buddy = NULL;
}

/* Smallest order that holds @len; above max_order when none does. */
static unsigned int order_for(const struct rd_buddy *b, size_t len)
{
	size_t units = ((len - 1) >> b->unit_shift) + 1;
	unsigned int order;

	if (units > (size_t)1 << b->max_order)
		return ORDERS_MAX;
	order = units <= 1 ? 0 : 64 - (unsigned int)__builtin_clzl(units - 1);
	return order;
}

size_t rd_buddy_block(const struct rd_buddy *b, size_t len)
{
	return (size_t)1 << (order_for(b, len) + b->unit_shift);
}

void *rd_buddy_alloc(struct rd_buddy *b, size_t len)
{
	unsigned int want, order;
	uint32_t idx;

	if (len == 0)
		return NULL;
	want = order_for(b, len);
	for (order = want; order <= b->max_order; order++) {
		if (b->heads[order] != NONE)
			break;
	}
	if (order > b->max_order)
		return NULL;
	idx = b->heads[order];
	unlink_block(b, idx, order);
	while (order > want) {
		order--;
		push_block(b, idx + (UINT32_C(1) << order), order);
	}
	b->free_bytes -= (size_t)1 << (want + b->unit_shift);
	return b->base + ((size_t)idx << b->unit_shift);
}

void rd_buddy_free(struct rd_buddy *b, void *ptr, size_t len)
{
	unsigned int order;
	uint32_t idx;

	if (!ptr)
		return;
	order = order_for(b, len);
	idx = (uint32_t)((size_t)((char *)ptr - b->base) >> b->unit_shift);
	b->free_bytes += (size_t)1 << (order + b->unit_shift);
	while (order < b->max_order) {
		uint32_t other = idx ^ (UINT32_C(1) << order);

		if (b->free_order[other] != order)
			break;
		unlink_block(b, other, order);
		idx &= ~(UINT32_C(1) << order);
		order++;
	}
	push_block(b, idx, order);
}

bool rd_buddy_keeps_max(const struct rd_buddy *b, size_t len)
{
	uint32_t largest = b->heads[b->max_order];

	if (largest == NONE)
		return false;
	for (unsigned int order = order_for(b, len); order < b->max_order; order++)
		if (b->heads[order] != NONE)
			return true;
	return b->links[largest].next != NONE;
}

bool rd_buddy_owns(const struct rd_buddy *b, const void *ptr)
{
	const char *p = ptr;

	return p >= b->base && p < b->base + b->len;
}

size_t rd_buddy_free_bytes(const struct rd_buddy *b)
{
	return b->free_bytes;
}

size_t rd_buddy_total_bytes(const struct rd_buddy *b)
{
	return b->len;
}
