/* SPDX-License-Identifier: BSD-3-Clause */
#include "backends.h"

#include <errno.h>
#include <stdio.h>

static int path_storage(const struct rdt_ns_config *ns, char **name)
{
	*name = NULL;
	return ns->path && asprintf(name, "path %s", ns->path) < 0 ? -ENOMEM : 0;
}

#define ON_DISK                                                                          \
	{                                                                                \
		.storage = true, .disk = true, .key = "path", .another = "another file", \
		.storage_of = path_storage                                               \
	}

static const struct rdt_backend_kind kinds[RDT_BACKENDS] = {
	[RDT_BACKEND_FILE] = ON_DISK,
	[RDT_BACKEND_BLOCK] = ON_DISK,
	[RDT_BACKEND_MEMORY] = {.ram = true},
	[RDT_BACKEND_NULL] = {0},
	[RDT_BACKEND_RBD] = {.storage = true,
			     .gateways = true,
			     .key = "image",
			     .in = "rbd",
			     .another = "another image",
			     .storage_of = rdt_rbd_storage},
	[RDT_BACKEND_NBD] = {.storage = true,
			     .key = "uri",
			     .another = "another export",
			     .storage_of = rdt_nbd_storage},
};

const struct rdt_choice rdt_backend_choices[] = {{"file", RDT_BACKEND_FILE},
						 {"block", RDT_BACKEND_BLOCK},
						 {"memory", RDT_BACKEND_MEMORY},
						 {"null", RDT_BACKEND_NULL},
						 {"rbd", RDT_BACKEND_RBD},
						 {"nbd", RDT_BACKEND_NBD},
						 {NULL, 0}};

const struct rdt_backend_kind *rdt_backend_kind(const struct rdt_ns_config *ns)
{
	return &kinds[ns->backend];
}

const char *rdt_config_backend_name(enum rdt_backend_type backend)
{
	const char *name = rdt_choice_name(rdt_backend_choices, backend);

	return name ? name : "unknown";
}

int rdt_config_storage(const struct rdt_ns_config *ns, char **name)
{
	const struct rdt_backend_kind *kind = rdt_backend_kind(ns);

	*name = NULL;
	return kind->storage_of ? kind->storage_of(ns, name) : 0;
}
