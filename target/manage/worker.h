/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread for one call that may take long, such as reading files; its end is told on a loop. */
#ifndef RDT_WORKER_H
#define RDT_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/loop.h"

/* Embedded in the object that it works for. All but @work is called on the loop's thread. */
struct rdt_worker {
	struct rd_loop *loop;
	const char *name; /* of the thread */
	void (*work)(struct rdt_worker *worker);
	void (*done)(struct rdt_worker *worker); /* after @work; not when it was joined before */

	/* private */
	bool running;
	pthread_t thread;
	struct rd_msg msg;
};

/* Returns 0, or -errno of starting the thread. May be repeated after done(). */
int rdt_worker_start(struct rdt_worker *worker);
/* Returns whether it has ended within @wait ns; done() is not called then. Otherwise it uses the
 * memory of its owner until the process ends. */
bool rdt_worker_join(struct rdt_worker *worker, uint64_t wait);

#endif /* RDT_WORKER_H */
