/* SPDX-License-Identifier: BSD-3-Clause */
#include "reloader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "target/nvmf/target.h"
#include "change.h"
#include "preflight.h"

static void reloader_next(struct rdt_reloader *r);

/* ---- what was changed and not saved ---- */

static void forget_unsaved(struct rdt_reloader *r)
{
	for (unsigned int i = 0; i < RDT_UNSAVED_NAMED; i++) {
		free(r->unsaved_names[i]);
		r->unsaved_names[i] = NULL;
	}
	r->unsaved = 0;
}

static void note_unsaved(struct rdt_reloader *r, const struct rdt_change *change)
{
	if (r->unsaved < RDT_UNSAVED_NAMED)
		r->unsaved_names[r->unsaved] = strdup(change->what);
	r->unsaved++;
}

static bool same_bytes(const struct rdt_config_text *a, const struct rdt_config_text *b)
{
	return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

static const struct rdt_config_text *text_with_path(const struct rdt_config_texts *texts,
						    const char *path)
{
	for (unsigned int i = 0; i < texts->count; i++)
		if (strcmp(texts->files[i].path, path) == 0)
			return &texts->files[i];
	return NULL;
}

/* Do the texts that come lack changes of the current ones that no file has? */
static bool loses_changes(const struct rdt_reloader *r)
{
	for (unsigned int i = 0; i < r->wanted.count; i++) {
		const struct rdt_config_text *old = &r->wanted.files[i];
		const struct rdt_config_text *new =
			old->on_disk ? text_with_path(&r->next, old->path) : old;

		if (!new || !same_bytes(old, new))
			return true;
	}
	return false;
}

static void warn_of_loss(struct rdt_reloader *r)
{
	char text[1024];

	for (unsigned int i = 0; i < r->unsaved && i < RDT_UNSAVED_NAMED; i++) {
		snprintf(text, sizeof(text), "a change that was not saved is replaced: %.900s",
			 r->unsaved_names[i] ? r->unsaved_names[i] : "(out of memory)");
		rdt_report_add(&r->report, RD_LOG_WARN, text);
		rd_warn(r->target->log, RD_LOG_MAIN, "%s", text);
	}
	if (r->unsaved > RDT_UNSAVED_NAMED)
		rd_warn(r->target->log, RD_LOG_MAIN, "and %u further ones",
			r->unsaved - RDT_UNSAVED_NAMED);
}

/* What was loaded runs now. */
static void take_texts(struct rdt_reloader *r)
{
	bool whole = !r->change || r->change->kind == RDT_CHANGE_DOCUMENT;

	if (whole) {
		if (loses_changes(r))
			warn_of_loss(r);
		forget_unsaved(r);
	}
	/* A change without edits looked at the sizes of files: there is nothing to save. */
	if (r->change && (r->change->edits_count || r->change->document))
		note_unsaved(r, r->change);
	rdt_config_texts_free(&r->wanted);
	r->wanted = r->next;
	r->next = (struct rdt_config_texts){0};
}

/* ---- the end of one ---- */

static void answer_waiters(struct rdt_reload_waiters *waiters,
			   const struct rdt_reload_result *result)
{
	struct rdt_reload_waiter *w;

	while ((w = TAILQ_FIRST(waiters))) {
		TAILQ_REMOVE(waiters, w, link);
		w->waits = false;
		if (w->done)
			w->done(w, result);
	}
}

static void finish_request(struct rdt_reloader *r, const struct rdt_reload_result *of)
{
	struct rdt_reload_result result = *of;

	result.change = r->change;
	rdt_config_texts_free(&r->next);
	if (r->change && r->change->saved)
		forget_unsaved(r);
	answer_waiters(&r->waiters, &result);
	rdt_change_free(r->change);
	r->change = NULL;
	r->running = false;
	reloader_next(r);
}

static void save_too(struct rdt_reloader *r)
{
	r->change->kind = RDT_CHANGE_SAVE;
	r->report.parent = r->target->log;
	rdt_loader_start(&r->loader, r->change, &r->wanted);
}

static void reloader_over(void *arg, const struct rdt_reload_result *result)
{
	struct rdt_reloader *r = arg;
	bool edit = r->change && r->change->kind == RDT_CHANGE_EDIT;
	bool good = result->applied && !result->problems;

	r->last_at = time(NULL);
	r->last_applied = result->applied;
	snprintf(r->last_summary, sizeof(r->last_summary), "%s", result->summary);
	/* An edit with a problem is not wanted any more; a document is tried again, as a file. */
	if (edit ? good : result->applied)
		take_texts(r);
	r->ended(r, result);
	rdt_announce(r->target, "reload", "{s:s, s:b, s:i, s:i, s:s}", "cause",
		     r->change ? r->change->what : "file", "applied", result->applied, "problems",
		     (int)result->problems, "restarts", (int)result->restarts, "summary",
		     result->summary);
	if (r->change)
		r->change->restarts = result->restarts;
	if (good && r->change && r->change->save && !r->target->drained)
		save_too(r);
	else
		finish_request(r, result);
}

/* Nothing is to be applied. */
static void change_over(struct rdt_reloader *r)
{
	const struct rdt_reload_result result = {
		.applied = r->change->kind == RDT_CHANGE_SAVE && r->change->changed,
		.summary = r->last_summary,
		.report = &r->report,
	};

	finish_request(r, &result);
}

/* It is so already, but perhaps not in the file. */
static bool saves_only(const struct rdt_change *ch)
{
	return ch->kind == RDT_CHANGE_EDIT && !ch->err && !ch->changed && ch->save && !ch->dry_run;
}

static void reloader_loaded(struct rdt_loader *loader, struct rdt_config *next)
{
	struct rdt_reloader *r = rd_container_of(loader, struct rdt_reloader, loader);
	const struct rdt_reload_result bad = {
		.summary = "not reloaded: the configuration has problems; nothing was changed",
		.report = &r->report,
	};

	rdt_config_texts_free(&r->next);
	r->next = loader->texts;
	loader->texts = (struct rdt_config_texts){0};
	if (r->target->drained) {
		/* too late for changes, and nobody waits for the end of it */
	} else if (r->change && saves_only(r->change)) {
		save_too(r);
	} else if (r->change && (!next || r->change->dry_run)) {
		if (next && rdt_preflight_memory(next, loader->log))
			r->change->err = -ENOMEM;
		change_over(r);
	} else if (next && !rdt_preflight_memory(next, loader->log)) {
		rdt_reload(r->target, next, &r->report, reloader_over, r);
	} else {
		rd_err(r->target->log, RD_LOG_MAIN,
		       "not reloaded: %s has problems; nothing was changed", r->path);
		reloader_over(r, &bad);
	}
	rdt_config_put(&next);
}

/* ---- requests ---- */

static void refuse_all(struct rdt_reloader *r)
{
	const struct rdt_reload_result frozen = {
		.summary = "not reloaded: the target is drained; nothing was changed",
		.report = &r->report,
	};
	struct rdt_reload_waiter *w;

	if (TAILQ_EMPTY(&r->queue))
		return;
	rdt_report_clear(&r->report);
	rd_warn(r->target->log, RD_LOG_MAIN,
		"not reloaded: the target is drained, and takes no changes until it is started "
		"again");
	TAILQ_FOREACH (w, &r->queue, link) {
		rdt_change_free(w->change);
		w->change = NULL;
	}
	answer_waiters(&r->queue, &frozen);
}

/* Move the first request to those that run, with further ones that read the file. */
static void reloader_next(struct rdt_reloader *r)
{
	struct rdt_reload_waiter *w;

	if (r->running || r->target->drained)
		return;
	if (r->frozen)
		refuse_all(r);
	if (TAILQ_EMPTY(&r->queue))
		return;
	r->running = true;
	r->change = TAILQ_FIRST(&r->queue)->change;
	do {
		w = TAILQ_FIRST(&r->queue);
		TAILQ_REMOVE(&r->queue, w, link);
		TAILQ_INSERT_TAIL(&r->waiters, w, link);
		w->begun = true;
		w->change = NULL;
		w = TAILQ_FIRST(&r->queue);
	} while (w && !r->change && !w->change);
	rdt_report_clear(&r->report);
	/* The file has no mistake when a change has one: the requester is told, and one line in the
	 * log says why it was refused. */
	r->report.parent = r->change && r->change->kind != RDT_CHANGE_SAVE ? NULL : r->target->log;
	if (!r->change)
		r->begins(r);
	rdt_loader_start(&r->loader, r->change, &r->wanted);
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
	TAILQ_INIT(&r->queue);
	return 0;
}

void rdt_reloader_start(struct rdt_reloader *r, struct rdt_reload_waiter *waiter)
{
	if (!waiter)
		waiter = &r->by_signal;
	if (waiter->waits && !waiter->begun)
		return; /* a signal asks for the same again */
	if (waiter->waits) {
		/* The signal came while the file is read for an earlier one: its place among
		 * those that wait is free, because nothing is done at the end. */
		TAILQ_REMOVE(&r->waiters, waiter, link);
	}
	waiter->waits = true;
	waiter->begun = false;
	TAILQ_INSERT_TAIL(&r->queue, waiter, link);
	reloader_next(r);
}

void rdt_reloader_cancel(struct rdt_reloader *r, struct rdt_reload_waiter *waiter)
{
	if (!waiter->waits)
		return;
	waiter->waits = false;
	TAILQ_REMOVE(waiter->begun ? &r->waiters : &r->queue, waiter, link);
	rdt_change_free(waiter->change);
	waiter->change = NULL;
}

void rdt_reloader_freeze(struct rdt_reloader *r, bool frozen)
{
	r->frozen = frozen;
	reloader_next(r);
}

void rdt_reloader_stop(struct rdt_reloader *r)
{
	struct rdt_reload_waiter *w;

	rdt_loader_stop(&r->loader);
	if (r->report.log) /* initialized */
		TAILQ_FOREACH (w, &r->queue, link) {
			rdt_change_free(w->change);
			w->change = NULL;
		}
	rdt_change_free(r->change);
	r->change = NULL;
	rdt_config_texts_free(&r->next);
	rdt_config_texts_free(&r->wanted);
	forget_unsaved(r);
	rdt_report_fini(&r->report);
}
