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

/* A request on its way, or several for the file. */
struct reloader_run {
	LIST_ENTRY(reloader_run) link; /* reloader->settling */
	struct rdt_reloader *r;
	struct rdt_report report;
	struct rdt_config_texts next; /* of the configuration being applied */
	struct rdt_change *change;    /* NULL: the file is read */
	struct rdt_reload_waiters waiters;
	/* The parts of it that go on at the same time */
	bool saving;
	bool settled;
	struct rdt_reload_result result; /* once it has settled; its summary is @summary */
	char summary[480];
};

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
static bool loses_changes(const struct rdt_reloader *r, const struct rdt_config_texts *next)
{
	for (unsigned int i = 0; i < r->wanted.count; i++) {
		const struct rdt_config_text *old = &r->wanted.files[i];
		const struct rdt_config_text *new =
			old->on_disk ? text_with_path(next, old->path) : old;

		if (!new || !same_bytes(old, new))
			return true;
	}
	return false;
}

static void warn_of_loss(struct rdt_reloader *r, struct rdt_report *report)
{
	char text[1024];

	for (unsigned int i = 0; i < r->unsaved && i < RDT_UNSAVED_NAMED; i++) {
		snprintf(text, sizeof(text), "a change that was not saved is replaced: %.900s",
			 r->unsaved_names[i] ? r->unsaved_names[i] : "(out of memory)");
		rdt_report_add(report, RD_LOG_WARN, text);
		rd_warn(r->target->log, RD_LOG_MAIN, "%s", text);
	}
	if (r->unsaved > RDT_UNSAVED_NAMED)
		rd_warn(r->target->log, RD_LOG_MAIN, "and %u further ones",
			r->unsaved - RDT_UNSAVED_NAMED);
}

/* What was loaded is the desired state now. */
static void take_texts(struct reloader_run *run)
{
	struct rdt_reloader *r = run->r;
	bool whole = !run->change || run->change->kind == RDT_CHANGE_DOCUMENT;

	if (whole) {
		if (loses_changes(r, &run->next))
			warn_of_loss(r, &run->report);
		forget_unsaved(r);
	}
	/* A change without edits looked at the sizes of files: there is nothing to save. */
	if (run->change && (run->change->edits_count || run->change->document))
		note_unsaved(r, run->change);
	rdt_config_texts_free(&r->wanted);
	r->wanted = run->next;
	run->next = (struct rdt_config_texts){0};
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

static void free_run(struct reloader_run *run)
{
	if (run->r->run == run)
		run->r->run = NULL;
	else
		LIST_REMOVE(run, link);
	rdt_change_free(run->change);
	rdt_config_texts_free(&run->next);
	rdt_report_fini(&run->report);
	free(run);
}

/* Answer when its objects have settled and it is saved. */
static void finish_run(struct reloader_run *run)
{
	if (!run->settled || run->saving)
		return;
	run->result.change = run->change;
	run->result.report = &run->report;
	run->result.summary = run->summary;
	answer_waiters(&run->waiters, &run->result);
	free_run(run);
}

static void run_settled(struct reloader_run *run, const struct rdt_reload_result *result)
{
	struct rdt_reloader *r = run->r;

	run->settled = true;
	run->result = *result;
	snprintf(run->summary, sizeof(run->summary), "%s", result->summary);
	if (run->change)
		run->change->restarts = result->restarts;
	finish_run(run);
	if (!r->run)
		reloader_next(r);
}

static void save_too(struct reloader_run *run)
{
	run->saving = true;
	run->change->kind = RDT_CHANGE_SAVE;
	run->report.parent = run->r->target->log;
	run->r->loader.log = run->report.log;
	rdt_loader_start(&run->r->loader, run->change, &run->r->wanted);
}

/* Those that do not wait for the objects. */
static void answer_early(struct reloader_run *run)
{
	const struct rdt_reload_result begun = {
		.applied = true,
		.going_on = 1,
		.report = &run->report,
		.summary = "begun: what has changed is in progress",
		.change = run->change,
	};
	struct rdt_reload_waiters waiters = TAILQ_HEAD_INITIALIZER(waiters);
	struct rdt_reload_waiter *w, *next;

	for (w = TAILQ_FIRST(&run->waiters); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (!w->early)
			continue;
		TAILQ_REMOVE(&run->waiters, w, link);
		TAILQ_INSERT_TAIL(&waiters, w, link);
	}
	answer_waiters(&waiters, &begun);
}

/* Its parts are in progress: the next request may begin, once this one is saved. */
static void run_begun(struct reloader_run *run)
{
	struct rdt_reloader *r = run->r;

	if (run->change && run->change->save && !run->saving && !r->target->drained) {
		save_too(run);
		return;
	}
	if (r->run == run) {
		r->run = NULL;
		LIST_INSERT_HEAD(&r->settling, run, link);
	}
	if (!run->settled)
		answer_early(run);
	finish_run(run);
	reloader_next(r);
}

static void reload_applied(void *arg)
{
	struct reloader_run *run = arg;

	take_texts(run);
	run_begun(run);
}

static void note_reload(struct rdt_reloader *r, const struct rdt_reload_result *result)
{
	struct rdt_last_reload *last = &r->last;

	last->at = time(NULL);
	last->applied = result->applied;
	last->problems = result->problems;
	snprintf(last->summary, sizeof(last->summary), "%s", result->summary);
	snprintf(last->reason, sizeof(last->reason), "%s",
		 rdt_report_first_error(result->report, ""));
	if (rdt_reloader_good(r))
		r->good_at = last->at;
}

bool rdt_reloader_good(const struct rdt_reloader *r)
{
	return !r->last.at || (r->last.applied && !r->last.problems);
}

static void reload_is_done(void *arg, const struct rdt_reload_result *result)
{
	struct reloader_run *run = arg;
	struct rdt_reloader *r = run->r;

	if (!run->change)
		note_reload(r, result);
	r->ended(r, result);
	rdt_announce(r->target, "reload", "{s:s, s:b, s:i, s:i, s:s}", "cause",
		     run->change ? run->change->what : "file", "applied", result->applied,
		     "problems", (int)result->problems, "restarts", (int)result->restarts,
		     "summary", result->summary);
	run_settled(run, result);
}

/* Nothing is to be applied. */
static void change_over(struct reloader_run *run)
{
	const struct rdt_reload_result result = {
		.applied = run->saving && run->change->changed,
		.summary = "nothing was changed",
	};

	run_settled(run, &result);
}

static void run_saved(struct reloader_run *run)
{
	struct rdt_reloader *r = run->r;

	if (run->change->saved)
		forget_unsaved(r);
	run->saving = false;
	run->change->save = false;
	run_begun(run);
}

/* It is so already, but perhaps not in the file. */
static bool saves_only(const struct rdt_change *ch)
{
	return ch->kind == RDT_CHANGE_EDIT && !ch->err && !ch->changed && ch->save && !ch->dry_run;
}

static void refuse_file(struct reloader_run *run)
{
	const struct rdt_reload_result bad = {
		.problems = run->report.errors,
		.summary = "not reloaded: the configuration has problems; nothing was changed",
		.report = &run->report,
	};

	rd_err(run->r->target->log, RD_LOG_MAIN,
	       "not reloaded: %s has problems; nothing was changed", run->r->path);
	reload_is_done(run, &bad);
}

static void reloader_loaded(struct rdt_loader *loader, struct rdt_config *next)
{
	struct rdt_reloader *r = rd_container_of(loader, struct rdt_reloader, loader);
	struct reloader_run *run = r->run;
	struct rdt_change *ch = run->change;
	const struct rdt_reload_how how = {
		.keep_state = ch && ch->keep_state,
		.looks = !ch || ch->kind == RDT_CHANGE_DOCUMENT || !ch->edits_count,
		.applied = reload_applied,
		.done = reload_is_done,
		.arg = run,
	};
	bool unset = next && rdt_preflight_hosts(next, r->target, loader->log);

	if (run->saving || (ch && ch->kind == RDT_CHANGE_SAVE)) {
		rdt_config_texts_free(&loader->texts);
		if (!run->saving)
			run->settled = true;
		run_saved(run);
		return;
	}
	run->next = loader->texts;
	loader->texts = (struct rdt_config_texts){0};
	if (r->target->drained) {
		/* too late for changes, and nobody waits for the end of it */
	} else if (ch && saves_only(ch)) {
		run->settled = true;
		save_too(run);
	} else if (ch && (!next || ch->dry_run || unset)) {
		if (unset)
			ch->err = -EINVAL;
		else if (next && rdt_preflight_memory(next, loader->log))
			ch->err = -ENOMEM;
		change_over(run);
	} else if (next && !unset && !rdt_preflight_memory(next, loader->log)) {
		rdt_reload(r->target, next, &run->report, &how);
	} else {
		refuse_file(run);
	}
	rdt_config_put(&next);
}

/* ---- requests ---- */

static void refuse_all(struct rdt_reloader *r)
{
	struct rdt_report none = {0};
	const struct rdt_reload_result frozen = {
		.summary = "not reloaded: the target is drained; nothing was changed",
		.report = &none,
	};
	struct rdt_reload_waiter *w;

	if (TAILQ_EMPTY(&r->queue))
		return;
	rd_warn(r->target->log, RD_LOG_MAIN,
		"not reloaded: the target is drained, and takes no changes until it is started "
		"again");
	TAILQ_FOREACH (w, &r->queue, link) {
		if (!w->change)
			note_reload(r, &frozen);
		rdt_change_free(w->change);
		w->change = NULL;
	}
	answer_waiters(&r->queue, &frozen);
}

static struct reloader_run *new_run(struct rdt_reloader *r)
{
	struct reloader_run *run = calloc(1, sizeof(*run));

	if (!run || rdt_report_init(&run->report, r->target->log)) {
		free(run);
		return NULL;
	}
	run->r = r;
	TAILQ_INIT(&run->waiters);
	return run;
}

/* Move the first request to those that run, with further ones that read the file. */
static void reloader_next(struct rdt_reloader *r)
{
	struct rdt_reload_waiter *w;
	struct reloader_run *run;

	if (r->run || r->target->drained)
		return;
	if (r->frozen)
		refuse_all(r);
	if (TAILQ_EMPTY(&r->queue))
		return;
	run = new_run(r);
	if (!run) {
		rd_err(r->target->log, RD_LOG_MAIN,
		       "out of memory: a change waits until the next one is asked for");
		return;
	}
	r->run = run;
	run->change = TAILQ_FIRST(&r->queue)->change;
	do {
		w = TAILQ_FIRST(&r->queue);
		TAILQ_REMOVE(&r->queue, w, link);
		TAILQ_INSERT_TAIL(&run->waiters, w, link);
		w->in = &run->waiters;
		w->change = NULL;
		w = TAILQ_FIRST(&r->queue);
	} while (w && !run->change && !w->change);
	/* The file has no mistake when a change has one: the requester is told, and one line in the
	 * log says why it was refused. */
	run->report.parent =
		run->change && run->change->kind != RDT_CHANGE_SAVE ? NULL : r->target->log;
	if (!run->change)
		r->begins(r);
	r->loader.log = run->report.log;
	rdt_loader_start(&r->loader, run->change, &r->wanted);
}

void rdt_reloader_init(struct rdt_reloader *r)
{
	r->loader = (struct rdt_loader){
		.path = r->path,
		.loop = r->target->loop,
		.done = reloader_loaded,
	};
	TAILQ_INIT(&r->queue);
	LIST_INIT(&r->settling);
	r->good_at = time(NULL);
	r->ready = true;
}

void rdt_reloader_start(struct rdt_reloader *r, struct rdt_reload_waiter *waiter)
{
	if (!waiter)
		waiter = &r->by_signal;
	if (waiter->waits && waiter->in == &r->queue)
		return; /* a signal asks for the same again */
	if (waiter->waits) {
		/* The signal came while the file is read for an earlier one: its place among
		 * those that wait is free, because nothing is done at the end. */
		TAILQ_REMOVE(waiter->in, waiter, link);
	}
	waiter->waits = true;
	waiter->in = &r->queue;
	TAILQ_INSERT_TAIL(&r->queue, waiter, link);
	reloader_next(r);
}

void rdt_reloader_cancel(struct rdt_reloader *r, struct rdt_reload_waiter *waiter)
{
	if (!waiter->waits)
		return;
	waiter->waits = false;
	TAILQ_REMOVE(waiter->in, waiter, link);
	rdt_change_free(waiter->change);
	waiter->change = NULL;
}

void rdt_reloader_freeze(struct rdt_reloader *r, bool frozen)
{
	r->frozen = frozen;
	reloader_next(r);
}

bool rdt_reloader_stop(struct rdt_reloader *r, uint64_t wait)
{
	struct rdt_reload_waiter *w;

	if (!rdt_loader_stop(&r->loader, wait))
		return false;
	if (r->ready)
		TAILQ_FOREACH (w, &r->queue, link) {
			rdt_change_free(w->change);
			w->change = NULL;
		}
	if (r->run)
		free_run(r->run);
	while (!LIST_EMPTY(&r->settling))
		free_run(LIST_FIRST(&r->settling));
	rdt_config_texts_free(&r->wanted);
	forget_unsaved(r);
	return true;
}
