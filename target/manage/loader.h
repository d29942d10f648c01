/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loading a configuration without keeping the main loop: a thread of its own reads and checks it.
 * All calls are the main thread's.
 */
#ifndef RDT_LOADER_H
#define RDT_LOADER_H

#include <pthread.h>
#include <stdbool.h>

#include "util/loop.h"
#include "target/config/config.h"

struct rdt_loader {
	const char *path;
	struct rd_log *log;
	struct rd_loop *loop;
	/* On the loop. @config: NULL when it has problems, which were logged; else with a reference
	 * that is the caller's. */
	void (*done)(struct rdt_loader *loader, struct rdt_config *config);

	/* the loader's */
	bool running;
	pthread_t thread;
	struct rd_msg msg;
	struct rdt_config *config;
};

/* With @path, @log, @loop and @done set, while none runs. */
void rdt_loader_start(struct rdt_loader *loader);
void rdt_loader_stop(struct rdt_loader *loader); /* waits for the thread; @done is not called */

#endif /* RDT_LOADER_H */
