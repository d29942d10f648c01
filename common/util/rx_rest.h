/* SPDX-License-Identifier: BSD-3-Clause */
/* What was read from a socket and cannot be used yet, because what is before it waits. */
#ifndef RD_RX_REST_H
#define RD_RX_REST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct rd_rx_rest {
	uint8_t *bytes; /* NULL: nothing is kept */
	uint32_t off;   /* what is before it was used */
	uint32_t len;   /* of all bytes */
};

/* Keeps the @n bytes at @p, which are the last ones of @rest if something is kept already. Returns
 * whether there is memory for them. */
static inline bool rd_rx_rest_keep(struct rd_rx_rest *rest, const uint8_t *p, size_t n)
{
	if (rest->bytes) {
		rest->off = rest->len - (uint32_t)n;
		return true;
	}
	if (!n)
		return true;
	rest->bytes = malloc(n);
	if (!rest->bytes)
		return false;
	memcpy(rest->bytes, p, n);
	rest->off = 0;
	rest->len = (uint32_t)n;
	return true;
}

static inline void rd_rx_rest_drop(struct rd_rx_rest *rest)
{
	free(rest->bytes);
	rest->bytes = NULL;
}

#endif /* RD_RX_REST_H */
