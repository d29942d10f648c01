/* SPDX-License-Identifier: BSD-3-Clause */
/* A question of the main loop to one reactor, and its answer. */
#ifndef RDT_ANSWER_H
#define RDT_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "util/loop.h"
#include "target/nvmf/qpair_walk.h"

struct rdt_reactor;

/* The thread of @reactor owns it from rdt_answer_ask() to rdt_answer_ready(). */
struct rdt_answer {
	struct rdt_reactor *reactor;
	/* On its thread: fills in the answer and calls rdt_answer_ready(), at once or later. */
	void (*fn)(struct rdt_answer *answer);
	void (*told)(struct rdt_answer *answer); /* main loop, after that */
	void *owner;                             /* of who asks */
	const void *what;           /* what is asked for, of the question; NULL: nothing more */
	struct rdt_qpair_walk walk; /* for what walks over the queue pairs */
	void *data;   /* rdt_connections_collect(): who asks frees it by rdt_connections_drop() */
	size_t count; /* elements of @data, or a number */
	size_t room;
	bool no_memory;
	struct rd_msg msg;
};

void rdt_answer_ask(struct rdt_answer *answer); /* main loop */
void rdt_answer_ready(struct rdt_answer *answer);
/* Calls @visit for each queue pair of the reactor, in slices, then rdt_answer_ready(). On its
 * thread. */
void rdt_answer_by_walk(struct rdt_answer *answer,
			void (*visit)(struct rdt_qpair_walk *walk, struct rdt_qpair *qp));

#endif /* RDT_ANSWER_H */
