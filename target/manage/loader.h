/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads a configuration on a thread of its own, so that the main loop is not blocked. All calls are
 * made by the main thread. */
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
	/* Runs on @loop. @config: NULL when it has problems, which were logged; otherwise the
	 * callee owns a reference. */
	void (*done)(struct rdt_loader *loader, struct rdt_config *config);

	/* private to the loader */
	bool running;
	pthread_t thread;
	struct rd_msg msg;
	struct rdt_config *config;
};

/* @path, @log, @loop and @done are set, and no load is running. */
void rdt_loader_start(struct rdt_loader *loader);
void rdt_loader_stop(struct rdt_loader *loader); /* joins the thread; @done is not called */

#endif /* RDT_LOADER_H */
