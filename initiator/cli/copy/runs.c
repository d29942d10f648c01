/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding zeroes in data. */
#include <string.h>

#include "engine.h"

static bool run_is_zero(const unsigned char *buf, size_t len)
{
	static const unsigned char none[16];

	if (len <= sizeof(none))
		return memcmp(buf, none, len) == 0;
	/* If the first 16 bytes are zero and the data equals itself shifted by 16 bytes, all of
	 * it is zero. */
	return memcmp(buf, none, sizeof(none)) == 0 &&
	       memcmp(buf, buf + sizeof(none), len - sizeof(none)) == 0;
}

/* The number of zero bytes at the start of @buf in whole units, or its length if all of it is
 * zero. */
static uint64_t run_of_zeroes(const unsigned char *buf, uint64_t len, uint32_t unit)
{
	uint64_t at = 0;

	while (at < len) {
		uint64_t n = len - at < unit ? len - at : unit;

		if (!run_is_zero(buf + at, (size_t)n))
			break;
		at += n;
	}
	return at < len ? at - at % unit : len;
}

uint64_t cli_cp_run(const unsigned char *buf, uint64_t len, uint32_t unit, uint32_t least,
		    bool *zero)
{
	uint64_t at = 0, n;

	for (;;) {
		n = run_of_zeroes(buf + at, len - at, unit);
		if (n >= least || (at == 0 && n == len))
			break;
		at += n;
		if (at < len)
			at += len - at < unit ? len - at : unit; /* this unit has other content */
		if (at >= len) {
			*zero = false;
			return len;
		}
	}
	*zero = at == 0;
	return at ? at : n;
}
