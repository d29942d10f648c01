/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of a size that is usually known. */
#ifndef RD_IW_COPY_H
#define RD_IW_COPY_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* memcpy() for data that is mostly a command or a completion: these sizes are copied inline. */
static inline void rd_iw_copy(void *to, const void *from, size_t len)
{
	switch (len) {
	case 16:
		memcpy(to, from, 16);
		break;
	case 64:
		memcpy(to, from, 64);
		break;
	default:
		memcpy(to, from, len);
	}
}

/*
 * Copies an entry that its user has just written, field by field: a load that is wider than the
 * store it reads from waits for all earlier stores, some of which may miss the cache.
 */
static inline void rd_iw_copy_sge(struct ibv_sge *to, const struct ibv_sge *from)
{
	uint64_t addr = from->addr;
	uint32_t length = from->length, lkey = from->lkey;

	/* Keeps the compiler from merging two loads into one. */
	__asm__("" : "+r"(addr), "+r"(length), "+r"(lkey));
	to->addr = addr;
	to->length = length;
	to->lkey = lkey;
}

#endif /* RD_IW_COPY_H */
