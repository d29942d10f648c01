/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash of bytes that others choose, with a secret: SipHash-2-4. Whoever does not know the secret
 * cannot choose bytes that fall into one list of a table, which would then be searched from end to
 * end for each of them.
 */
#ifndef RD_UTIL_HASH_H
#define RD_UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

struct rd_hash_key {
	uint64_t half[2];
};

int rd_hash_key_init(struct rd_hash_key *key); /* at random; 0 or -errno */
uint64_t rd_hash(const struct rd_hash_key *key, const void *data, size_t len);

#endif /* RD_UTIL_HASH_H */
