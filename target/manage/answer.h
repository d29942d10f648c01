/* SPDX-License-Identifier: BSD-3-Clause */
/* The answer of one reactor to a question of the main loop. */
#ifndef RDT_ANSWER_H
#define RDT_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "target/nvmf/qpair_walk.h"

struct rdt_reactor;

/* The thread of @reactor owns it from the question until it calls @ready. */
struct rdt_rpc_answer {
	struct rdt_reactor *reactor;
	void (*ready)(struct rdt_rpc_answer *answer); /* set by who asks, with @owner */
	void *owner;
	const void *what;           /* what is asked for, of the question; NULL: nothing more */
	struct rdt_qpair_walk walk; /* for what walks over the queue pairs */
	void *data;   /* rdt_connections_collect(): who asks frees it by rdt_connections_drop() */
	size_t count; /* elements of @data, or a number */
	size_t room;
	bool no_memory;
};

/* Calls @visit for each queue pair of the reactor, in slices, then @answer->ready. On its thread.
 */
void rdt_rpc_answer_by_walk(struct rdt_rpc_answer *answer,
			    void (*visit)(struct rdt_qpair_walk *walk, struct rdt_qpair *qp));

#endif /* RDT_ANSWER_H */
