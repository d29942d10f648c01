/* SPDX-License-Identifier: BSD-3-Clause */
/* Host names to addresses. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>

#include "internal.h"
#include "util/parse.h"

int rdi_resolve(const char *host, const char *port, struct rdi_addrs *out, char *why,
		size_t why_len)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *res, *ai;
	uint64_t number;
	int rc;

	out->n = 0;
	if (rd_parse_u64(port, 1, 65535, &number)) {
		snprintf(why, why_len, "\"%s\" is not a port number", port);
		return -EINVAL;
	}
	if (rd_addr_parse(host, (uint16_t)number, &out->ss[0]) == 0) {
		out->n = 1;
		return 0;
	}
	rc = getaddrinfo(host, NULL, &hints, &res);
	if (rc) {
		snprintf(why, why_len, "%s: %s", host,
			 rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
		return -EADDRNOTAVAIL;
	}
	for (ai = res; ai && out->n < RDI_ADDRS_MAX; ai = ai->ai_next) {
		if (ai->ai_family != AF_INET && ai->ai_family != AF_INET6)
			continue;
		memset(&out->ss[out->n], 0, sizeof(out->ss[0]));
		memcpy(&out->ss[out->n], ai->ai_addr, ai->ai_addrlen);
		rd_addr_set_port((struct sockaddr *)&out->ss[out->n], (uint16_t)number);
		out->n++;
	}
	freeaddrinfo(res);
	if (out->n == 0) {
		snprintf(why, why_len, "%s: no IPv4 or IPv6 address", host);
		return -EADDRNOTAVAIL;
	}
	return 0;
}

unsigned int rdi_addrs_first_at(struct rdi_addrs *addrs, uint16_t port)
{
	unsigned int i, n = addrs->n;

	if (n > RDI_ADDRS_MAX / 2)
		n = RDI_ADDRS_MAX / 2;
	memmove(&addrs->ss[n], &addrs->ss[0], n * sizeof(addrs->ss[0]));
	for (i = 0; i < n; i++)
		rd_addr_set_port((struct sockaddr *)&addrs->ss[i], port);
	addrs->n = 2 * n;
	return n;
}
