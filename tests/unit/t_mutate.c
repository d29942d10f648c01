/* SPDX-License-Identifier: BSD-3-Clause */
#include "t_mutate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void t_rng_init(struct t_rng *r, const char *what)
{
	const char *seed = getenv("RD_TEST_SEED");

	if (seed)
		r->state = strtoull(seed, NULL, 0);
	else if (getrandom(&r->state, sizeof(r->state), 0) != (ssize_t)sizeof(r->state))
		abort();
	printf("# %s: RD_TEST_SEED=%" PRIu64 "\n", what, r->state);
}

/* SplitMix64. */
static uint64_t next(struct t_rng *r)
{
	uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint32_t t_rand(struct t_rng *r, uint32_t n)
{
	return (uint32_t)(next(r) >> 32) % n;
}

static size_t longer(struct t_rng *r, uint8_t *msg, size_t len, size_t room)
{
	static const uint32_t most[] = {4, 64, 4096};
	size_t more = 1 + t_rand(r, most[t_rand(r, 3)]);

	for (; more && len < room; more--)
		msg[len++] = (uint8_t)next(r);
	return len;
}

size_t t_mutate(struct t_rng *r, uint8_t *msg, size_t len, size_t room)
{
	for (unsigned int n = 1 + t_rand(r, 3); n; n--) {
		size_t head = len < 16 ? len : 16;

		switch (t_rand(r, 5)) {
		case 0:
			msg[t_rand(r, (uint32_t)len)] = (uint8_t)next(r);
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
