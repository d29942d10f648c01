/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine_io.h"

struct rdt_engines {
	struct rdt_engine *by_type[RDT_ENGINE_AIO + 1];
	struct rdt_engines_opts opts;
};

static int create_engine(struct rdt_engines *engines, enum rdt_engine_type type, char *err,
			 size_t err_size)
{
	return type == RDT_ENGINE_AIO
		       ? rdt_aio_create(&engines->opts, &engines->by_type[type], err, err_size)
		       : rdt_uring_create(&engines->opts, &engines->by_type[type], err, err_size);
}

enum rdt_engine_type rdt_engine_choose(enum rdt_engine_type type, int *why)
{
	*why = 0;
	if (type != RDT_ENGINE_AUTO)
		return type;
	/* The kernel checks the permission before the parameters, which are invalid, so no ring is
	 * created. */
	if (syscall(__NR_io_uring_setup, 0, NULL) < 0 && errno != EFAULT && errno != EINVAL)
		*why = errno;
	return *why ? RDT_ENGINE_AIO : RDT_ENGINE_IO_URING;
}

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
	engines->opts = *opts;
	if (opts->need_uring)
		rc = create_engine(engines, RDT_ENGINE_IO_URING, err, err_size);
	if (!rc && opts->need_aio)
		rc = create_engine(engines, RDT_ENGINE_AIO, err, err_size);
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

struct rd_loop *rdt_engines_loop(const struct rdt_engines *engines)
{
	return engines->opts.loop;
}

/* Creates an engine that was not needed at the start when the first namespace uses it. */
struct rdt_engine *rdt_engines_get(struct rdt_engines *engines, enum rdt_engine_type type)
{
	char text[256] = "";

	if (!engines)
		return NULL;
	if (!engines->by_type[type] && create_engine(engines, type, text, sizeof(text)))
		rd_err(rd_loop_log(engines->opts.loop), RD_LOG_BACKEND, "%s", text);
	return engines->by_type[type];
}
