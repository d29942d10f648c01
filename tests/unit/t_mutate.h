/* SPDX-License-Identifier: BSD-3-Clause */
/* Random and mutated messages for tests of state machines; the same ones again with RD_TEST_SEED.
 */
#ifndef T_MUTATE_H
#define T_MUTATE_H

#include <stddef.h>
#include <stdint.h>

#include "util/random.h"

struct t_rng {
	struct rd_random random;
};

/* Prints the seed, as a comment of TAP. @what: of the case. */
void t_rng_init(struct t_rng *r, const char *what);
uint32_t t_rand(struct t_rng *r, uint32_t n); /* 0 to @n - 1 */
/*
 * Changes a message of @len bytes, in a buffer of @room, in one to three ways: bytes, bits, length.
 * Returns the new length, at least 1.
 */
size_t t_mutate(struct t_rng *r, uint8_t *msg, size_t len, size_t room);
/* @usual; with RD_TEST_LONG a million, and under valgrind few. */
unsigned int t_rounds(unsigned int usual);

#endif /* T_MUTATE_H */
