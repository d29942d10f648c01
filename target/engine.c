/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine_io.h"

struct rdt_engines {
	struct rdt_engine *by_type[RDT_ENGINE_AIO + 1];
};

int rdt_engines_create(const struct rdt_engines_opts *opts, struct rdt_engines **out, char *err,
		       size_t err_size)
{
	struct rdt_engines *engines;
	int rc = 0;

	*out = NULL;
	if (opts->depth == 0) {
		snprintf(err, err_size, "engine_depth is 0, at least 1 is needed");
		return -EINVAL;
	}
	engines = calloc(1, sizeof(*engines));
	if (!engines) {
		snprintf(err, err_size, "out of memory");
		return -ENOMEM;
	}
	if (opts->need_uring)
		rc = rdt_uring_create(opts, &engines->by_type[RDT_ENGINE_IO_URING], err, err_size);
	if (!rc && opts->need_aio)
		rc = rdt_aio_create(opts, &engines->by_type[RDT_ENGINE_AIO], err, err_size);
	if (rc) {
		rdt_engines_destroy(&engines);
		return rc;
	}
	*out = engines;
	return 0;
}

void rdt_engines_destroy(struct rdt_engines **engines)
{
	if (!*engines)
		return;
	for (int i = 0; i <= RDT_ENGINE_AIO; i++) {
		struct rdt_engine *e = (*engines)->by_type[i];

		if (e)
			e->ops->destroy(e);
	}
	free(*engines);
	*engines = NULL;
}

struct rdt_engine *rdt_engines_get(struct rdt_engines *engines, enum rdt_engine_type type)
{
	return engines ? engines->by_type[type] : NULL;
}
