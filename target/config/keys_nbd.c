/* SPDX-License-Identifier: BSD-3-Clause */
/* The key of namespaces with backend nbd. */
#include "backends.h"
#include "keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *wrong_uri(const char *text)
{
	static const char *const schemes[] = {"nbd",       "nbds",      "nbd+unix",
					      "nbds+unix", "nbd+vsock", "nbds+vsock"};
	const char *end = strstr(text, "://");

	for (size_t i = 0; end && i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (strlen(schemes[i]) == (size_t)(end - text) &&
		    strncmp(schemes[i], text, (size_t)(end - text)) == 0)
			return strstr(schemes[i], "+unix") && !strstr(end, "socket=") ? "" : NULL;
	return "";
}

const struct rdt_row rdt_nbd_rows[] = {
	{"uri", RDT_KEY_TEXT, RDT_WHEN_ANEW, RDT_AT(struct rdt_ns_config, uri),
	 .with = RDT_WITH(NBD), .needed = RDT_WITH(NBD), .wrong = wrong_uri,
	 .expected = "the URI of an export, which begins with nbd://, nbds:// or nbd+unix://, such "
		     "as nbd://192.0.2.1/disk or nbd+unix:///?socket=/run/nbd",
	 .example = "nbd://192.0.2.1/disk",
	 .says = "URI of the export, as libnbd and qemu have them."},
	{0},
};

int rdt_nbd_storage(const struct rdt_ns_config *ns, char **name)
{
	*name = NULL;
	return ns->uri && asprintf(name, "nbd %s", ns->uri) < 0 ? -ENOMEM : 0;
}
