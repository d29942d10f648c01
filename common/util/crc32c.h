/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C as MPA and NVMe/TCP use it: seed and final XOR of all ones. Users link isa-l. */
#ifndef RD_UTIL_CRC32C_H
#define RD_UTIL_CRC32C_H

#include <endian.h>
#include <isa-l/crc.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RD_CRC32C_SEED UINT32_C(0xffffffff)
#define RD_CRC32C_LEN  4 /* bytes on the wire */

/* Continues @crc over @len bytes; start with RD_CRC32C_SEED. */
static inline uint32_t rd_crc32c(uint32_t crc, const void *buf, size_t len)
{
	/* The library takes an int, and a pointer to data that it does not modify. */
	while (len > INT_MAX) {
		crc = crc32_iscsi((unsigned char *)(uintptr_t)buf, INT_MAX, crc);
		buf = (const uint8_t *)buf + INT_MAX;
		len -= INT_MAX;
	}
	return crc32_iscsi((unsigned char *)(uintptr_t)buf, (int)len, crc);
}

/* Stores a finished @crc as on the wire: least significant byte first. */
static inline void rd_crc32c_put(uint32_t crc, uint8_t out[RD_CRC32C_LEN])
{
	crc = htole32(~crc);
	memcpy(out, &crc, sizeof(crc));
}

#endif /* RD_UTIL_CRC32C_H */
