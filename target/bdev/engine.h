/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The I/O engine of a reactor: one io_uring for all its channels, or, for namespaces with engine
 * aio, threads only. Resources that one device can exhaust belong to that device: engine_io.h. I/O
 * queued during a loop iteration is submitted in small batches, the last one at the end of the
 * iteration.
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
	uint32_t depth; /* maximum of I/Os in the kernel per device; more are queued */
	void *slab;     /* registered as io_uring fixed buffers; NULL: no registration */
	size_t slab_len;
	struct rdt_ring_opts ring;
	bool need_uring; /* a namespace uses engine io_uring */
	bool need_aio;   /* a namespace uses engine aio */
};

/*
 * Call on the thread that will use the engines. If the slab cannot be registered (memlock limit),
 * logs that once and uses ordinary buffers. If io_uring is forbidden, returns the error and puts a
 * sentence into @err that names `engine: aio` as the alternative. Returns 0 or -errno.
 */
int rdt_engines_create(const struct rdt_engines_opts *opts, struct rdt_engines **out, char *err,
		       size_t err_size);
/*
 * Resolves @type on this machine: auto is io_uring where the system allows it, else aio, with the
 * errno of io_uring_setup(2) in *@why; otherwise that is 0. Any thread.
 */
enum rdt_engine_type rdt_engine_choose(enum rdt_engine_type type, int *why);
void rdt_engines_destroy(struct rdt_engines **engines);
struct rd_loop *rdt_engines_loop(const struct rdt_engines *engines);

#endif /* RDT_ENGINE_H */
