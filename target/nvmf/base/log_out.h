/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a log page that a host requested. Writers put whole structures at page offsets. */
#ifndef RDT_LOG_OUT_H
#define RDT_LOG_OUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct rdt_log_out {
	uint8_t *dst; /* @len bytes, zeroed */
	uint64_t offset;
	uint32_t len;
};

/* Copy the bytes that lie in the requested part of [@pos, @pos + @len) of the page. */
static inline void rdt_log_put(const struct rdt_log_out *out, uint64_t pos, const void *src,
			       size_t len)
{
	uint64_t from = pos > out->offset ? pos : out->offset;
	uint64_t to = pos + len < out->offset + out->len ? pos + len : out->offset + out->len;

	if (from < to)
		memcpy(out->dst + (from - out->offset), (const uint8_t *)src + (from - pos),
		       to - from);
}

#endif /* RDT_LOG_OUT_H */
