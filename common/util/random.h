/* SPDX-License-Identifier: BSD-3-Clause */
/* Pseudo-random numbers that depend on a seed only; not for secrets. */
#ifndef RD_UTIL_RANDOM_H
#define RD_UTIL_RANDOM_H

#include <stdint.h>

struct rd_random {
	uint64_t state[4];
};

void rd_random_init(struct rd_random *random, uint64_t seed);
uint64_t rd_random_next(struct rd_random *random);

#endif /* RD_UTIL_RANDOM_H */
