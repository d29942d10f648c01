/* SPDX-License-Identifier: BSD-3-Clause */
#include "t_mutate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void t_rng_init(struct t_rng *r, const char *what)
{
	const char *given = getenv("RD_TEST_SEED");
	uint64_t seed;

	if (given)
		seed = strtoull(given, NULL, 0);
	else if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		abort();
	rd_random_init(&r->random, seed);
	printf("# %s: RD_TEST_SEED=%" PRIu64 "\n", what, seed);
}

uint32_t t_rand(struct t_rng *r, uint32_t n)
{
	return (uint32_t)(rd_random_next(&r->random) >> 32) % n;
}

static size_t longer(struct t_rng *r, uint8_t *msg, size_t len, size_t room)
{
	static const uint32_t most[] = {4, 64, 4096};
	size_t more = 1 + t_rand(r, most[t_rand(r, 3)]);

	for (; more && len < room; more--)
		msg[len++] = (uint8_t)rd_random_next(&r->random);
	return len;
}

size_t t_mutate(struct t_rng *r, uint8_t *msg, size_t len, size_t room)
{
	for (unsigned int n = 1 + t_rand(r, 3); n; n--) {
		size_t head = len < 16 ? len : 16;

		switch (t_rand(r, 5)) {
		case 0:
			msg[t_rand(r, (uint32_t)len)] = (uint8_t)rd_random_next(&r->random);
			break;
		case 1:
			msg[t_rand(r, (uint32_t)head)] ^= (uint8_t)(1u << t_rand(r, 8));
			break;
		case 2:
			msg[t_rand(r, (uint32_t)head)] = t_rand(r, 2) ? 0 : 0xff;
			break;
		case 3:
			len = 1 + t_rand(r, (uint32_t)len);
			break;
		default:
			len = longer(r, msg, len, room);
		}
	}
	return len;
}

unsigned int t_rounds(unsigned int usual)
{
	if (getenv("RD_TEST_VALGRIND") || getenv("RD_TEST_QEMU"))
		return usual / 20 + 1;
	return getenv("RD_TEST_LONG") ? 1000000 : usual;
}
