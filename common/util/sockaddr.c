/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/sockaddr.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sockaddr_in *as_in(const struct sockaddr *sa)
{
	return (const struct sockaddr_in *)(const void *)sa;
}

static const struct sockaddr_in6 *as_in6(const struct sockaddr *sa)
{
	return (const struct sockaddr_in6 *)(const void *)sa;
}

static void format_in6(const struct sockaddr_in6 *sin6, char *buf, size_t size)
{
	char name[IF_NAMESIZE];
	size_t len;

	if (!inet_ntop(AF_INET6, &sin6->sin6_addr, buf, (socklen_t)size))
		return;
	if (sin6->sin6_scope_id == 0)
		return;
	len = strlen(buf);
	if (if_indextoname(sin6->sin6_scope_id, name))
		snprintf(buf + len, size - len, "%%%s", name);
	else
		snprintf(buf + len, size - len, "%%%u", sin6->sin6_scope_id);
}

const char *rd_addr_format_host(const struct sockaddr *sa, char buf[RD_ADDR_TEXT])
{
	switch (sa->sa_family) {
	case AF_INET:
		inet_ntop(AF_INET, &as_in(sa)->sin_addr, buf, RD_ADDR_TEXT);
		break;
	case AF_INET6:
		format_in6(as_in6(sa), buf, RD_ADDR_TEXT);
		break;
	default:
		snprintf(buf, RD_ADDR_TEXT, "(address family %u)", sa->sa_family);
		break;
	}
	return buf;
}

const char *rd_addr_format(const struct sockaddr *sa, char buf[RD_ADDR_TEXT])
{
	char host[RD_ADDR_TEXT];
	int n;

	rd_addr_format_host(sa, host);
	if (sa->sa_family == AF_INET6)
		n = snprintf(buf, RD_ADDR_TEXT, "[%.64s]:%u", host, rd_addr_port(sa));
	else if (sa->sa_family == AF_INET)
		n = snprintf(buf, RD_ADDR_TEXT, "%.64s:%u", host, rd_addr_port(sa));
	else
		n = snprintf(buf, RD_ADDR_TEXT, "%.64s", host);
	(void)n; /* fits: the longest host has 45 characters, a scope 16 */
	return buf;
}

static int parse_scope(const char *text, uint32_t *scope)
{
	char *end;
	unsigned long v;

	*scope = if_nametoindex(text);
	if (*scope)
		return 0;
	if (text[0] < '0' || text[0] > '9')
		return isalpha((unsigned char)text[0]) && strlen(text) < IF_NAMESIZE ? -ENODEV
										     : -EINVAL;
	errno = 0;
	v = strtoul(text, &end, 10);
	if (errno || *end != '\0' || v > UINT32_MAX)
		return -EINVAL;
	*scope = (uint32_t)v;
	return 0;
}

static int parse_in6(char *text, uint16_t port, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)ss;
	char *percent = strchr(text, '%');

	if (percent)
		*percent = '\0';
	if (inet_pton(AF_INET6, text, &sin6->sin6_addr) != 1)
		return -EINVAL;
	sin6->sin6_family = AF_INET6;
	sin6->sin6_port = htons(port);
	return percent ? parse_scope(percent + 1, &sin6->sin6_scope_id) : 0;
}

int rd_addr_parse(const char *host, uint16_t port, struct sockaddr_storage *ss)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)ss;
	size_t len = strlen(host);
	char text[RD_ADDR_TEXT];

	memset(ss, 0, sizeof(*ss));
	if (len >= sizeof(text))
		return -EINVAL;
	if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
		memcpy(text, host + 1, len - 2);
		text[len - 2] = '\0';
		return parse_in6(text, port, ss);
	}
	memcpy(text, host, len + 1);
	if (inet_pton(AF_INET, text, &sin->sin_addr) == 1) {
		sin->sin_family = AF_INET;
		sin->sin_port = htons(port);
		return 0;
	}
	return parse_in6(text, port, ss);
}

socklen_t rd_addr_len(const struct sockaddr *sa)
{
	switch (sa->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

uint16_t rd_addr_port(const struct sockaddr *sa)
{
	switch (sa->sa_family) {
	case AF_INET:
		return ntohs(as_in(sa)->sin_port);
	case AF_INET6:
		return ntohs(as_in6(sa)->sin6_port);
	default:
		return 0;
	}
}

void rd_addr_set_port(struct sockaddr *sa, uint16_t port)
{
	if (sa->sa_family == AF_INET)
		((struct sockaddr_in *)(void *)sa)->sin_port = htons(port);
	else if (sa->sa_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)sa)->sin6_port = htons(port);
}

bool rd_addr_is_any(const struct sockaddr *sa)
{
	switch (sa->sa_family) {
	case AF_INET:
		return as_in(sa)->sin_addr.s_addr == htonl(INADDR_ANY);
	case AF_INET6:
		return IN6_IS_ADDR_UNSPECIFIED(&as_in6(sa)->sin6_addr);
	default:
		return false;
	}
}

bool rd_addr_is_v4_mapped(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&as_in6(sa)->sin6_addr);
}

bool rd_addr_lacks_scope(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&as_in6(sa)->sin6_addr) &&
	       !as_in6(sa)->sin6_scope_id;
}

bool rd_addr_equal(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family || rd_addr_port(a) != rd_addr_port(b))
		return false;
	switch (a->sa_family) {
	case AF_INET:
		return as_in(a)->sin_addr.s_addr == as_in(b)->sin_addr.s_addr;
	case AF_INET6:
		return memcmp(&as_in6(a)->sin6_addr, &as_in6(b)->sin6_addr,
			      sizeof(struct in6_addr)) == 0 &&
		       as_in6(a)->sin6_scope_id == as_in6(b)->sin6_scope_id;
	default:
		return false;
	}
}

uint64_t rd_addr_key(const struct sockaddr *sa)
{
	const uint64_t in4 =
		UINT64_C(0xffffffff)
		<< 32; /* the prefix is IPv6 multicast, which is no address of a peer */
	const uint8_t *b;
	uint64_t key = 0;
	int from = 0;

	switch (sa->sa_family) {
	case AF_INET:
		return in4 | be32toh(as_in(sa)->sin_addr.s_addr);
	case AF_INET6:
		b = as_in6(sa)->sin6_addr.s6_addr;
		if (IN6_IS_ADDR_V4MAPPED(&as_in6(sa)->sin6_addr)) {
			for (int i = 12; i < 16; i++)
				key = key << 8 | b[i];
			return in4 | key;
		}
		if (IN6_IS_ADDR_LINKLOCAL(&as_in6(sa)->sin6_addr))
			from = 8;
		for (int i = from; i < from + 8; i++)
			key = key << 8 | b[i];
		return key;
	default:
		return 0;
	}
}
