/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A binary buddy allocator over one caller-provided, contiguous region: data buffers of any size
 * from one unit to the largest block, contiguous, aligned to their own (power-of-two) size relative
 * to the region's start, in O(log n), without touching the memory itself.
 *
 * The region is registered once with the device and with io_uring; that is why the allocator must
 * not use malloc(3). Single-threaded: one allocator for each reactor.
 */
#ifndef RD_UTIL_BUDDY_H
#define RD_UTIL_BUDDY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rd_buddy;

/*
 * Manages [@base, @base + @len). @unit (a power of two): the smallest allocation; @max (a power of
 * two, multiple of @unit): the largest. @len must be a multiple of @max. All bookkeeping is
 * allocated here. The region remains the caller's. Returns 0, -EINVAL or -ENOMEM.
 */
int rd_buddy_create(void *base, size_t len, size_t unit, size_t max, struct rd_buddy **out);
void rd_buddy_destroy(struct rd_buddy **buddy);

/*
 * Allocates @len bytes, rounded up to unit << k. Returns NULL if @len is 0 or exceeds @max, or if
 * no block is free.
 */
void *rd_buddy_alloc(struct rd_buddy *buddy, size_t len);
/* Frees a block that rd_buddy_alloc() returned for the same @len. NULL is allowed. */
void rd_buddy_free(struct rd_buddy *buddy, void *ptr, size_t len);

/* The bytes that an allocation of @len bytes (1 to @max) takes. */
size_t rd_buddy_block(const struct rd_buddy *buddy, size_t len);
/* Would one of the largest blocks be free after an allocation of @len bytes? */
bool rd_buddy_keeps_max(const struct rd_buddy *buddy, size_t len);
bool rd_buddy_owns(const struct rd_buddy *buddy, const void *ptr);
size_t rd_buddy_free_bytes(const struct rd_buddy *buddy);
size_t rd_buddy_total_bytes(const struct rd_buddy *buddy);

#endif /* RD_UTIL_BUDDY_H */
