/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers with units, as in configuration files and on command lines; bytes as hexadecimal text. */
#ifndef RD_UTIL_PARSE_H
#define RD_UTIL_PARSE_H

#include <stddef.h>
#include <stdint.h>

/*
 * "4096", "4k", "4KiB", "1M", "1.5GiB" -> bytes. k, M, G, T and their iB forms are powers of 1024
 * (as in fio and nvme-cli); kB, MB, GB, TB are powers of 1000. Case is ignored except that nothing
 * but a unit may follow the number. Returns 0, -EINVAL (not a size) or -ERANGE.
 */
int rd_parse_size(const char *text, uint64_t *bytes);

/* "5s", "200ms", "10us", "2m", "1h", "0" -> nanoseconds. A unit is required unless the value is 0.
 */
int rd_parse_duration(const char *text, uint64_t *ns);

/*
 * A whole unsigned number in [@min, @max]; decimal, or hexadecimal with 0x. Returns 0, -EINVAL (not
 * a number) or -ERANGE.
 */
int rd_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *value);

/* Exactly 2 * @n digits, those above 9 in lower case. Returns 0 or -EINVAL. */
int rd_parse_hex(const char *text, uint8_t *bytes, size_t n);
/* Writes 2 * @n digits and a NUL to @text. */
void rd_format_hex(const uint8_t *bytes, size_t n, char *text);

/* "1.0 GiB", "512 B". Returns @buf. */
#define RD_SIZE_TEXT 32
const char *rd_format_size(uint64_t bytes, char buf[RD_SIZE_TEXT]);

#endif /* RD_UTIL_PARSE_H */
