/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses headers of HTTP requests. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http.h"

#define HOST_MAX 255u

/* Copies the host of @text, which is "HOST", "HOST:PORT", "[IPV6]" or "[IPV6]:PORT", into @host.
 * *@v6: it was in brackets. Returns false for any other form. */
static bool split_host(const char *text, char host[HOST_MAX + 1], bool *v6)
{
	const char *begin = text, *end;
	size_t len;

	*v6 = text[0] == '[';
	begin += *v6;
	end = begin + strcspn(begin, *v6 ? "]" : ":");
	len = (size_t)(end - begin);
	if (!len || len > HOST_MAX || (*v6 && !*end))
		return false;
	memcpy(host, begin, len);
	host[len] = '\0';
	end += *v6;
	return !*end || (*end == ':' && strspn(end + 1, "0123456789") == strlen(end + 1));
}

bool rdt_http_host_allowed(const char *host, const char *const *names, unsigned int count)
{
	struct in6_addr addr;
	char name[HOST_MAX + 1];
	bool v6;

	if (!split_host(host, name, &v6))
		return false;
	if (v6)
		return inet_pton(AF_INET6, name, &addr) == 1;
	if (inet_pton(AF_INET, name, &addr) == 1 || strcasecmp(name, "localhost") == 0)
		return true;
	for (unsigned int i = 0; i < count; i++)
		if (strcasecmp(names[i], name) == 0)
			return true;
	return false;
}

/* Whether the weight of @range, one element of an Accept header up to its comma, is 0. */
static bool is_refused(const char *range, size_t len)
{
	for (size_t i = 0; i + 3 <= len; i++)
		if (strncasecmp(range + i, ";q=", 3) == 0)
			return strtod(range + i + 3, NULL) <= 0;
	return false;
}

bool rdt_http_wants_openmetrics(const char *accept)
{
	static const char type[] = "application/openmetrics-text";

	while (accept && *accept) {
		size_t len = strcspn(accept, ",");

		if (len >= sizeof(type) - 1 && strncasecmp(accept, type, sizeof(type) - 1) == 0 &&
		    strchr("; ,", accept[sizeof(type) - 1]))
			return !is_refused(accept, len);
		accept += len;
		accept += strspn(accept, ", \t");
	}
	return false;
}
