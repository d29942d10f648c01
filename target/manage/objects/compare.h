/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is open, compared with what its path names: a file that was replaced, restored or cut, a
 * device that was plugged again. Hosts use what is open; the namespace tells the difference
 * (ns->mismatch) until a reload takes over the size, the namespace is opened again, or the path
 * names the open file again.
 *
 * Main thread only, but for rdt_compare_run().
 */
#ifndef RDT_COMPARE_H
#define RDT_COMPARE_H

#include <stdint.h>

#include "target/bdev/path_id.h"

struct rdt_ns;
struct rdt_target;

struct rdt_compare {
	struct rdt_path_id id;
	const char *path; /* of the configuration of the namespace */
	uint64_t size;
	enum rdt_path_state state;
	char why[512];
};

void rdt_compare_begin(struct rdt_compare *c, const struct rdt_ns *ns);
void rdt_compare_run(struct rdt_compare *c); /* any thread; may wait for the storage */
/* Remember the result. Returns 0, or -ESTALE: the path names something else, as c->why says. */
int rdt_compare_end(struct rdt_compare *c, struct rdt_ns *ns);

/* Compare @ns, which a change has touched; the change does not wait for it. */
void rdt_compare_now(struct rdt_ns *ns);
/* Compare all namespaces of @t, one after the other, about once a minute. */
void rdt_compare_watch(struct rdt_target *t);
void rdt_compare_unwatch(struct rdt_target *t);

#endif /* RDT_COMPARE_H */
