/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads a configuration on a thread of its own, so that the main loop is not blocked. All calls are
 * made by the main thread. */
#ifndef RDT_LOADER_H
#define RDT_LOADER_H

#include <pthread.h>
#include <stdbool.h>

#include "util/loop.h"
#include "target/config/config.h"

struct rdt_change;

struct rdt_loader {
	const char *path;
	struct rd_log *log;
	struct rd_loop *loop;
	/* Runs on @loop. @config: NULL when it has problems, which were logged, or when the change
	 * has none to apply; otherwise the callee owns a reference. The callee owns what is in
	 * @texts. */
	void (*done)(struct rdt_loader *loader, struct rdt_config *config);

	/* Set by rdt_loader_start(); the thread uses them until done() */
	struct rdt_change *change;
	struct rdt_config_texts *wanted;
	struct rdt_config_texts texts; /* that the configuration was loaded from */

	/* private to the loader */
	bool running;
	pthread_t thread;
	struct rd_msg msg;
	struct rdt_config *config;
};

/* Returns whether @thread was joined within @wait ns. */
bool rdt_thread_join(pthread_t thread, uint64_t wait);

/* @path, @log, @loop and @done are set, and no load is running. @change: NULL to read the file;
 * @wanted: the texts that it changes. */
void rdt_loader_start(struct rdt_loader *loader, struct rdt_change *change,
		      struct rdt_config_texts *wanted);
/* Join the thread; @done is not called. Returns false when it has not ended within @wait ns: a file
 * may be on storage that does not answer. It uses what the loader has until the process ends. */
bool rdt_loader_stop(struct rdt_loader *loader, uint64_t wait);

#endif /* RDT_LOADER_H */
