/* SPDX-License-Identifier: BSD-3-Clause */
/* A request of the main loop to one reactor, and its answer. */
#ifndef RDT_ANSWER_H
#define RDT_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "util/loop.h"
#include "target/nvmf/qpair_walk.h"

struct rdt_reactor;

/* Owned by the thread of @reactor from rdt_answer_ask() to rdt_answer_ready(). */
struct rdt_answer {
	struct rdt_reactor *reactor;
	/* reactor's thread: fills in the answer, then rdt_answer_ready() */
	void (*fn)(struct rdt_answer *answer);
	void (*answered)(struct rdt_answer *answer); /* called on the main loop afterwards */
	void *owner;                                 /* of the requester */
	const void *what;                            /* parameters of the request; NULL: none */
	struct rdt_qpair_walk walk; /* for requests that walk over the queue pairs */
	void *data;                 /* of rdt_connections_collect(); the requester frees it with
				       rdt_connections_drop() */
	size_t count;               /* elements of @data, or a number */
	size_t room;
	bool no_memory;
	struct rd_msg msg;
};

void rdt_answer_ask(struct rdt_answer *answer); /* main loop */
void rdt_answer_ready(struct rdt_answer *answer);
/* Reactor's thread: calls @visit for each queue pair in slices, then rdt_answer_ready(). */
void rdt_answer_by_walk(struct rdt_answer *answer,
			void (*visit)(struct rdt_qpair_walk *walk, struct rdt_qpair *qp));

#endif /* RDT_ANSWER_H */
