/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reactor's kernel I/O contexts: one io_uring and, where asked for, one libaio context, shared by
 * all channels of the reactor. What a turn of the loop gathers is submitted in small batches, the
 * last one at its end.
 */
#ifndef RDT_ENGINE_H
#define RDT_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/loop.h"

#include "ring.h"

struct rdt_engines;

struct rdt_engines_opts {
	struct rd_loop *loop;
	uint32_t depth; /* I/Os in the kernel at once, per engine; more wait in order */
	void *slab;     /* registered as io_uring fixed buffers; NULL: none */
	size_t slab_len;
	struct rdt_ring_opts ring;
	bool need_uring; /* some namespace uses engine io_uring */
	bool need_aio;   /* some namespace uses engine aio */
};

/*
 * Create on the thread that will use them. When the slab cannot be registered (memlock limit), I/O
 * goes on with ordinary buffers and that is said once. When io_uring is forbidden here, returns its
 * error and sets @err to a sentence that names `engine: aio` as the way out. Returns 0 or -errno.
 */
int rdt_engines_create(const struct rdt_engines_opts *opts, struct rdt_engines **out, char *err,
		       size_t err_size);
void rdt_engines_destroy(struct rdt_engines **engines);
struct rd_loop *rdt_engines_loop(const struct rdt_engines *engines);

#endif /* RDT_ENGINE_H */
