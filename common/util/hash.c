/* SPDX-License-Identifier: BSD-3-Clause */
#include "hash.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

int rd_hash_key_init(struct rd_hash_key *key)
{
	if (getrandom(key, sizeof(*key), 0) != (ssize_t)sizeof(*key))
		return errno ? -errno : -EIO;
	return 0;
}

static uint64_t turn_left(uint64_t x, unsigned int bits)
{
	return x << bits | x >> (64 - bits);
}

static void mix(uint64_t v[4], unsigned int rounds)
{
	while (rounds--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = turn_left(v[1], 13) ^ v[0];
		v[3] = turn_left(v[3], 16) ^ v[2];
		v[0] = turn_left(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = turn_left(v[1], 17) ^ v[2];
		v[3] = turn_left(v[3], 21) ^ v[0];
		v[2] = turn_left(v[2], 32);
	}
}

static void mix_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	mix(v, 2);
	v[0] ^= word;
}

uint64_t rd_hash(const struct rd_hash_key *key, const void *data, size_t len)
{
	uint64_t k0 = le64toh(key->half[0]), k1 = le64toh(key->half[1]), word;
	uint64_t v[4] = {
		k0 ^ UINT64_C(0x736f6d6570736575),
		k1 ^ UINT64_C(0x646f72616e646f6d),
		k0 ^ UINT64_C(0x6c7967656e657261),
		k1 ^ UINT64_C(0x7465646279746573),
	};
	const uint8_t *byte = data;
	size_t left = len;

	for (; left >= sizeof(word); left -= sizeof(word), byte += sizeof(word)) {
		memcpy(&word, byte, sizeof(word));
		mix_word(v, le64toh(word));
	}
	word = 0;
	memcpy(&word, byte, left);
	mix_word(v, le64toh(word) | (uint64_t)len << 56);
	v[2] ^= 0xff;
	mix(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
