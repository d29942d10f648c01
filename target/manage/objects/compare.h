/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the open file or device of a namespace with the one that its path names now: a file may
 * be replaced, restored or truncated, a device replugged. Hosts use the open one; the namespace
 * reports the difference (ns->mismatch) until a reload applies the size, the namespace is reopened,
 * or the path names the open one again.
 *
 * Main thread only, except rdt_compare_run().
 */
#ifndef RDT_COMPARE_H
#define RDT_COMPARE_H

#include <stdint.h>

#include "target/bdev/path_id.h"

struct rdt_ns;
struct rdt_target;

struct rdt_compare {
	struct rdt_path_id id;
	const char *path; /* from the namespace's configuration */
	uint64_t size;
	enum rdt_path_state state;
	char why[512];
};

void rdt_compare_begin(struct rdt_compare *c, const struct rdt_ns *ns);
void rdt_compare_run(struct rdt_compare *c); /* any thread; may wait for the storage */
/* Store the result in @ns. Returns 0, or -ESTALE: the path names another file, see c->why. */
int rdt_compare_end(struct rdt_compare *c, struct rdt_ns *ns);

/* Compare @ns in the background after a change of it. */
void rdt_compare_now(struct rdt_ns *ns);
/* Compare all namespaces of @t, one after the other, about once a minute. */
void rdt_compare_watch(struct rdt_target *t);
void rdt_compare_unwatch(struct rdt_target *t);

#endif /* RDT_COMPARE_H */
