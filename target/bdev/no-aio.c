/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces engine_aio.c in builds without libaio. */
#include "engine_io.h"

#include <errno.h>
#include <stdio.h>

int rdt_aio_create(const struct rdt_engines_opts *opts, struct rdt_engine **out, char *err,
		   size_t err_size)
{
	*out = NULL;
	snprintf(err, err_size, "this rdtarget was built without libaio; use \"engine: io_uring\"");
	return -ENOTSUP;
}
