/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/random.h"

/* splitmix64: spreads one word of seed over the generator's state. */
static uint64_t seed_next(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

void rd_random_init(struct rd_random *random, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		random->state[i] = seed_next(&seed);
}

static uint64_t rotl(uint64_t v, int n)
{
	return v << n | v >> (64 - n);
}

/* xoshiro256** */
uint64_t rd_random_next(struct rd_random *random)
{
	uint64_t *s = random->state;
	uint64_t result = rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}
