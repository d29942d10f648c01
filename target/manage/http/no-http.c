/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces http.c if rdtarget is built without libmicrohttpd. The configuration check refuses the
 * section "http". */
#include <errno.h>
#include <stdio.h>

#include "http.h"

int rdt_http_new(struct rdt_target *target, const struct rdt_reloader *reloader,
		 struct rdt_sampler *sampler, struct rdt_http **out)
{
	*out = NULL;
	return 0;
}

int rdt_http_set(struct rdt_http *http, const struct rdt_http_config *cfg, char *text,
		 size_t text_size)
{
	if (!cfg->address)
		return 0;
	snprintf(text, text_size,
		 "http: this rdtarget was built without libmicrohttpd; build with -Dhttp=enabled");
	return -EOPNOTSUPP;
}

int rdt_http_share(const struct rdt_http *http)
{
	return -1;
}

void rdt_http_close(struct rdt_http *http)
{
}

void rdt_http_free(struct rdt_http **http)
{
}
