/* SPDX-License-Identifier: BSD-3-Clause */
#include "reloader.h"

#include <stdio.h>

#include "util/log.h"
#include "target/nvmf/target.h"
#include "preflight.h"

static void reloader_run(struct rdt_reloader *r)
{
	r->running = true;
	rdt_report_clear(&r->report);
	r->begins(r);
	rdt_loader_start(&r->loader);
}

static void reloader_over(void *arg, const struct rdt_reload_result *result)
{
	struct rdt_reloader *r = arg;
	struct rdt_reload_waiter *w;

	r->running = false;
	r->last_at = time(NULL);
	r->last_applied = result->applied;
	snprintf(r->last_summary, sizeof(r->last_summary), "%s", result->summary);
	r->ended(r, result);
	while ((w = TAILQ_FIRST(&r->waiters))) {
		TAILQ_REMOVE(&r->waiters, w, link);
		w->waits = false;
		w->done(w, result);
	}
	if (!r->again || r->target->drained)
		return;
	r->again = false;
	TAILQ_CONCAT(&r->waiters, &r->later, link);
	reloader_run(r);
}

static void reloader_loaded(struct rdt_loader *loader, struct rdt_config *next)
{
	struct rdt_reloader *r = rd_container_of(loader, struct rdt_reloader, loader);
	const struct rdt_reload_result bad = {
		.summary = "not reloaded: the configuration has problems; nothing was changed",
		.report = &r->report,
	};

	if (next && r->target->drained) {
		/* too late for changes, and nobody waits for the end of it */
	} else if (next && !rdt_preflight_memory(next, loader->log)) {
		rdt_reload(r->target, next, &r->report, reloader_over, r);
	} else {
		rd_err(r->target->log, RD_LOG_MAIN,
		       "not reloaded: %s has problems; nothing was changed", r->path);
		reloader_over(r, &bad);
	}
	rdt_config_put(&next);
}

int rdt_reloader_init(struct rdt_reloader *r)
{
	int err = rdt_report_init(&r->report, r->target->log);

	if (err)
		return err;
	r->loader = (struct rdt_loader){
		.path = r->path,
		.log = r->report.log,
		.loop = r->target->loop,
		.done = reloader_loaded,
	};
	TAILQ_INIT(&r->waiters);
	TAILQ_INIT(&r->later);
	return 0;
}

void rdt_reloader_start(struct rdt_reloader *r, struct rdt_reload_waiter *waiter)
{
	if (waiter) {
		TAILQ_INSERT_TAIL(r->running ? &r->later : &r->waiters, waiter, link);
		waiter->waits = true;
	}
	if (r->running)
		r->again = true;
	else
		reloader_run(r);
}

void rdt_reloader_cancel(struct rdt_reloader *r, struct rdt_reload_waiter *waiter)
{
	const struct rdt_reload_waiter *w;

	if (!waiter->waits)
		return;
	waiter->waits = false;
	TAILQ_FOREACH (w, &r->waiters, link) {
		if (w == waiter) {
			TAILQ_REMOVE(&r->waiters, waiter, link);
			return;
		}
	}
	TAILQ_REMOVE(&r->later, waiter, link);
}

void rdt_reloader_stop(struct rdt_reloader *r)
{
	rdt_loader_stop(&r->loader);
	rdt_report_fini(&r->report);
}
