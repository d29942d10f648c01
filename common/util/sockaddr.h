/* SPDX-License-Identifier: BSD-3-Clause */
/* Socket addresses as text and back. */
#ifndef RD_UTIL_SOCKADDR_H
#define RD_UTIL_SOCKADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define RD_ADDR_TEXT 80 /* fits "[ipv6%scope]:port" */

/* "127.0.0.1:4420", "[::1]:4420". Returns @buf. */
const char *rd_addr_format(const struct sockaddr *sa, char buf[RD_ADDR_TEXT]);
/* As rd_addr_format(), without port and brackets. */
const char *rd_addr_format_host(const struct sockaddr *sa, char buf[RD_ADDR_TEXT]);

/*
 * Numeric IPv4 or IPv6 (optionally in brackets, optionally with %scope) plus a port in host byte
 * order. Returns 0, -EINVAL, or -ENODEV when the scope names an interface that is not there.
 */
int rd_addr_parse(const char *host, uint16_t port, struct sockaddr_storage *ss);

socklen_t rd_addr_len(const struct sockaddr *sa);
uint16_t rd_addr_port(const struct sockaddr *sa); /* host byte order */
void rd_addr_set_port(struct sockaddr *sa, uint16_t port);
bool rd_addr_is_any(const struct sockaddr *sa);
bool rd_addr_is_v4_mapped(const struct sockaddr *sa);
/* An IPv6 link-local address, which belongs to an interface, without a scope? */
bool rd_addr_lacks_scope(const struct sockaddr *sa);
bool rd_addr_equal(const struct sockaddr *a, const struct sockaddr *b); /* family, address, port */
/*
 * The common part of the addresses of one peer: its IPv4 address, or the first 64 bits of its IPv6
 * address, of which it chooses the rest. Of a link-local address the last 64 bits, since all have
 * the same first ones.
 */
uint64_t rd_addr_key(const struct sockaddr *sa);

#endif /* RD_UTIL_SOCKADDR_H */
