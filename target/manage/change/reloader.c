/* SPDX-License-Identifier: BSD-3-Clause */
#include "reloader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/map.h"
#include "target/config/config_json.h"
#include "target/nvmf/target.h"
#include "preflight.h"

#define DIFFERENCES_MAX 1000u

static void next_change(struct rdt_reloader *r);

/* ---- a change ---- */

struct rdt_change *rdt_change_new(enum rdt_change_kind kind, char *what, unsigned int edits)
{
	struct rdt_change *ch = calloc(1, sizeof(*ch));

	if (ch && !rdt_report_init(&ch->report, NULL)) {
		ch->kind = kind;
		ch->what = what;
		ch->edits = calloc(edits + 1, sizeof(*ch->edits));
		STAILQ_INIT(&ch->waiters);
		if (ch->edits)
			return ch;
		rdt_change_free(ch);
		return NULL;
	}
	free(ch);
	free(what);
	return NULL;
}

void rdt_change_free(struct rdt_change *ch)
{
	struct rdt_change_waiter *w;

	if (!ch)
		return;
	while ((w = STAILQ_FIRST(&ch->waiters))) {
		STAILQ_REMOVE_HEAD(&ch->waiters, link);
		free(w);
	}
	for (unsigned int i = 0; i < ch->edits_count; i++) {
		json_decref(ch->edits[i].path);
		json_decref(ch->edits[i].value);
	}
	free(ch->edits);
	free(ch->document);
	free(ch->what);
	json_decref(ch->differences);
	rdt_config_put(&ch->now);
	rdt_config_put(&ch->next);
	rdt_config_texts_free(&ch->texts);
	rdt_report_fini(&ch->report);
	free(ch);
}

const char *rdt_change_outcome(const struct rdt_change *ch)
{
	if (!ch->applied)
		return "refused";
	if (ch->problems && ch->state == RDT_CHANGE_ANSWERED)
		return "failed";
	return ch->in_progress ? "in progress" : "done";
}

/* ---- on the thread ---- */

static int run_edits(struct rdt_change *ch, const struct rdt_config_texts *wanted)
{
	int rc = rdt_config_texts_copy(wanted, &ch->texts);

	ch->changed = !ch->edits_count; /* without edits, sizes are read again */
	for (ch->at_edit = 0; ch->at_edit < ch->edits_count && rc >= 0; ch->at_edit++) {
		if (ch->edits[ch->at_edit].if_changed && !ch->changed)
			continue;
		rc = rdt_config_edit(&ch->texts, &ch->edits[ch->at_edit], ch->report.log,
				     &ch->at_step);
		if (rc < 0)
			return rc;
		ch->changed |= rc > 0;
	}
	return rc < 0 ? rc : 0;
}

/* Replaces the top file by the document. */
static int take_document(struct rdt_change *ch, const char *path,
			 const struct rdt_config_texts *wanted)
{
	const struct rdt_config_text *old = &wanted->files[0];
	const char *disk = old->on_disk ? old->on_disk : old->text;
	size_t len = old->on_disk ? old->on_disk_len : old->len;
	int rc = rdt_config_texts_add(&ch->texts, path, ch->document, ch->document_len, 0);

	ch->changed = true;
	if (rc || (len == ch->document_len && memcmp(disk, ch->document, len) == 0))
		return rc;
	ch->texts.files[0].on_disk = malloc(len + 1);
	if (!ch->texts.files[0].on_disk)
		return -ENOMEM;
	memcpy(ch->texts.files[0].on_disk, disk, len);
	ch->texts.files[0].on_disk_len = len;
	return 0;
}

static void load_change(struct rdt_change *ch, const char *path,
			const struct rdt_config_texts *wanted)
{
	struct rd_log *log = ch->report.log;
	json_t *from, *to;

	if (ch->kind == RDT_CHANGE_EDIT)
		ch->err = run_edits(ch, wanted);
	else if (ch->kind == RDT_CHANGE_DOCUMENT)
		ch->err = take_document(ch, path, wanted);
	if (ch->err || (ch->what && !ch->changed))
		return;
	ch->err = ch->kind == RDT_CHANGE_EDIT
			  ? rdt_config_load_edited(path, &ch->texts, ch->now, log, &ch->next)
			  : rdt_config_load_texts(path, &ch->texts, ch->kind == RDT_CHANGE_DOCUMENT,
						  log, &ch->next);
	if (ch->err || !ch->dry_run)
		return;
	from = rdt_config_json(ch->now);
	to = rdt_config_json(ch->next);
	ch->differences = rdt_config_json_diff(from, to, DIFFERENCES_MAX);
	json_decref(from);
	json_decref(to);
}

static void change_work(struct rdt_job *job)
{
	struct rdt_reloader *r = rd_container_of(job, struct rdt_reloader, job);
	struct rdt_change *ch = r->current;
	int files;

	if (ch->state == RDT_CHANGE_LOADING) {
		load_change(ch, r->path, &r->wanted);
		return;
	}
	files = rdt_config_save(&r->wanted, ch->report.log);
	ch->save_err = files < 0 ? files : 0;
	ch->saved = files >= 0;
}

/* ---- what was changed and not saved ---- */

static void forget_unsaved(struct rdt_reloader *r)
{
	for (unsigned int i = 0; i < RDT_UNSAVED_NAMED; i++) {
		free(r->unsaved_names[i]);
		r->unsaved_names[i] = NULL;
	}
	r->unsaved = 0;
}

static bool same_bytes(const struct rdt_config_text *a, const struct rdt_config_text *b)
{
	return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

/* Whether @next drops changes in @wanted that are in no file. */
static bool loses_changes(const struct rdt_config_texts *wanted,
			  const struct rdt_config_texts *next)
{
	for (unsigned int i = 0; i < wanted->count; i++) {
		const struct rdt_config_text *old = &wanted->files[i];
		unsigned int at = 0;

		while (at < next->count && strcmp(next->files[at].path, old->path) != 0)
			at++;
		if (old->on_disk && (at == next->count || !same_bytes(old, &next->files[at])))
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
		rd_warn(r->target->log, RD_LOG_MAIN, "and %u more", r->unsaved - RDT_UNSAVED_NAMED);
}

/* Makes the loaded texts the desired state. */
static void take_texts(struct rdt_reloader *r, struct rdt_change *ch)
{
	if (ch->kind != RDT_CHANGE_EDIT) {
		if (loses_changes(&r->wanted, &ch->texts))
			warn_of_loss(r, &ch->report);
		forget_unsaved(r);
	}
	/* A change without edits only read sizes again: there is nothing to save. */
	if (ch->edits_count || ch->document) {
		if (r->unsaved < RDT_UNSAVED_NAMED)
			r->unsaved_names[r->unsaved] = strdup(ch->what);
		r->unsaved++;
	}
	rdt_config_texts_free(&r->wanted);
	r->wanted = ch->texts;
	ch->texts = (struct rdt_config_texts){0};
}

/* ---- the end of one ---- */

static void tell_change_waiters(struct rdt_change *ch, bool only_early)
{
	STAILQ_HEAD(, rdt_change_waiter) all = STAILQ_HEAD_INITIALIZER(all);
	struct rdt_change_waiter *w;

	STAILQ_CONCAT(&all, &ch->waiters);
	while ((w = STAILQ_FIRST(&all))) {
		STAILQ_REMOVE_HEAD(&all, link);
		if (only_early && !w->early) {
			STAILQ_INSERT_TAIL(&ch->waiters, w, link);
			continue;
		}
		w->done(w->arg, ch);
		free(w);
	}
}

static void note_reload(struct rdt_reloader *r, const struct rdt_change *ch)
{
	struct rdt_last_reload *last = &r->last;

	last->at = time(NULL);
	last->applied = ch->applied;
	last->problems = ch->problems;
	snprintf(last->summary, sizeof(last->summary), "%s", ch->summary);
	snprintf(last->reason, sizeof(last->reason), "%s", rdt_report_first_error(&ch->report, ""));
	if (rdt_reloader_good(r))
		r->good_at = last->at;
}

bool rdt_reloader_good(const struct rdt_reloader *r)
{
	return !r->last.at || (r->last.applied && !r->last.problems);
}

/* @ch is the current change if it was refused; then the next one begins. */
static void change_settled(struct rdt_change *ch)
{
	struct rdt_reloader *r = ch->reloader;

	if (ch->kind == RDT_CHANGE_FILE)
		note_reload(r, ch);
	r->ended(r, ch);
	rdt_announce(r->target, "reload", "{s:s, s:b, s:i, s:i, s:s}", "cause",
		     ch->what ? ch->what : "file", "applied", ch->applied, "problems",
		     (int)ch->problems, "restarts", (int)ch->restarts, "summary", ch->summary);
	tell_change_waiters(ch, false);
	if (r->current != ch)
		return;
	r->current = NULL;
	next_change(r);
}

/* Ends @ch, of which nothing was applied. */
static void change_over(struct rdt_reloader *r, struct rdt_change *ch, const char *summary)
{
	snprintf(ch->summary, sizeof(ch->summary), "%s", summary);
	ch->state = RDT_CHANGE_ANSWERED;
	r->current = NULL;
	tell_change_waiters(ch, false);
	rdt_change_free(ch);
	next_change(r);
}

/* The operations of @ch are in progress: the next change may begin. */
static void change_in_progress(struct rdt_reloader *r, struct rdt_change *ch)
{
	r->current = NULL;
	ch->in_progress++;
	snprintf(ch->summary, sizeof(ch->summary), "started: the changes are in progress");
	tell_change_waiters(ch, true);
	ch->in_progress--;
	rdt_change_settle(ch);
	next_change(r);
}

static void start_saving(struct rdt_reloader *r, struct rdt_change *ch);

static void change_begun(struct rdt_change *ch)
{
	struct rdt_reloader *r = ch->reloader;

	take_texts(r, ch);
	if (ch->save)
		start_saving(r, ch);
	else
		change_in_progress(r, ch);
}

static void refuse_file(struct rdt_reloader *r, struct rdt_change *ch)
{
	snprintf(ch->summary, sizeof(ch->summary),
		 "not reloaded: the configuration has problems; nothing was changed");
	rd_err(r->target->log, RD_LOG_MAIN, "not reloaded: %s has problems; nothing was changed",
	       r->path);
	ch->problems = ch->report.errors;
	ch->state = RDT_CHANGE_ANSWERED;
	change_settled(ch);
	rdt_change_free(ch);
}

static void change_loaded(struct rdt_reloader *r, struct rdt_change *ch)
{
	struct rd_log *log = ch->report.log;
	bool good = ch->next && !rdt_preflight_hosts(ch->next, r->target, log) &&
		    !rdt_preflight_memory(ch->next, log);

	if (r->target->drained)
		return; /* the target stops, and no requester waits */
	if (ch->next && !good)
		ch->err = -EINVAL;
	if (good && !ch->dry_run)
		rdt_converge(r->target, ch);
	else if (ch->kind == RDT_CHANGE_FILE)
		refuse_file(r, ch);
	else if (!ch->err && !ch->changed && ch->save && !ch->dry_run)
		start_saving(r, ch); /* the state is the desired one; the file may differ */
	else
		change_over(r, ch, "nothing was changed");
}

static void change_saved(struct rdt_reloader *r, struct rdt_change *ch)
{
	if (ch->saved)
		forget_unsaved(r);
	if (ch->applied)
		change_in_progress(r, ch);
	else
		change_over(r, ch, "nothing was changed");
}

/* ---- running the next one ---- */

static void change_worked(struct rdt_job *job)
{
	struct rdt_reloader *r = rd_container_of(job, struct rdt_reloader, job);

	r->working = false;
	if (job->dropped && !r->stopped) {
		rd_err(r->current->report.log, RD_LOG_CONFIG,
		       "cannot start the thread that reads %s", r->path);
		r->current->err = r->current->save_err = -EAGAIN;
	}
	if (r->stopped)
		rdt_reloader_stop(r);
	else if (r->current->state == RDT_CHANGE_LOADING)
		change_loaded(r, r->current);
	else
		change_saved(r, r->current);
}

static void start_change_work(struct rdt_reloader *r)
{
	r->working = true;
	rdt_jobs_add(r->target->jobs, &r->job);
}

static void start_saving(struct rdt_reloader *r, struct rdt_change *ch)
{
	ch->state = RDT_CHANGE_SAVING;
	ch->report.parent = r->target->log;
	start_change_work(r);
}

static void refuse_queue(struct rdt_reloader *r)
{
	struct rdt_change *ch;

	if (TAILQ_EMPTY(&r->queue))
		return;
	rd_warn(r->target->log, RD_LOG_MAIN, "not reloaded: %s", r->frozen);
	while ((ch = TAILQ_FIRST(&r->queue))) {
		TAILQ_REMOVE(&r->queue, ch, queued);
		ch->err = -EBUSY;
		ch->state = RDT_CHANGE_ANSWERED;
		snprintf(ch->summary, sizeof(ch->summary), "not reloaded: %s; nothing was changed",
			 r->frozen);
		if (ch->kind == RDT_CHANGE_FILE)
			note_reload(r, ch);
		tell_change_waiters(ch, false);
		rdt_change_free(ch);
	}
}

static void next_change(struct rdt_reloader *r)
{
	struct rdt_change *ch;

	if (r->current || r->target->drained)
		return;
	if (r->frozen)
		refuse_queue(r);
	ch = TAILQ_FIRST(&r->queue);
	if (!ch)
		return;
	TAILQ_REMOVE(&r->queue, ch, queued);
	r->current = ch;
	ch->now = rdt_config_get(r->target->now);
	if (ch->kind == RDT_CHANGE_SAVE) {
		start_saving(r, ch);
		return;
	}
	/* An error in an edit is not an error in the file: the requester gets it, and the log has
	 * one line with the reason. */
	ch->report.parent = ch->kind == RDT_CHANGE_FILE ? r->target->log : NULL;
	ch->state = RDT_CHANGE_LOADING;
	if (ch->kind == RDT_CHANGE_FILE)
		r->begins(r);
	start_change_work(r);
}

/* ---- requests ---- */

void rdt_reloader_init(struct rdt_reloader *r)
{
	r->job = (struct rdt_job){.device = rd_map_hash(r->path),
				  .what = r->path,
				  .name = "config",
				  .work = change_work,
				  .done = change_worked};
	TAILQ_INIT(&r->queue);
	r->good_at = time(NULL);
	r->ready = true;
}

/* Requests share a reload that has not begun. */
static struct rdt_change *file_change(struct rdt_reloader *r)
{
	struct rdt_change *last = TAILQ_LAST(&r->queue, rdt_changes);

	return last && last->kind == RDT_CHANGE_FILE ? last
						     : rdt_change_new(RDT_CHANGE_FILE, NULL, 0);
}

int rdt_reloader_start(struct rdt_reloader *r, struct rdt_change *ch, bool early,
		       void (*done)(void *arg, const struct rdt_change *change), void *arg)
{
	struct rdt_change_waiter *w = done ? malloc(sizeof(*w)) : NULL;

	if (!ch)
		ch = file_change(r);
	if (!ch || (done && !w)) {
		free(w);
		if (ch && !ch->reloader)
			rdt_change_free(ch);
		return -ENOMEM;
	}
	if (w) {
		*w = (struct rdt_change_waiter){.done = done, .arg = arg, .early = early};
		STAILQ_INSERT_TAIL(&ch->waiters, w, link);
	}
	if (!ch->reloader)
		TAILQ_INSERT_TAIL(&r->queue, ch, queued);
	ch->reloader = r;
	ch->begun = change_begun;
	ch->settled = change_settled;
	next_change(r);
	return 0;
}

static void forget_waiter(struct rdt_change *ch, const void *arg)
{
	struct rdt_change_waiter *w;

	STAILQ_FOREACH (w, &ch->waiters, link) {
		if (w->arg != arg)
			continue;
		STAILQ_REMOVE(&ch->waiters, w, rdt_change_waiter, link);
		free(w);
		return;
	}
}

void rdt_reloader_forget(struct rdt_reloader *r, const void *arg)
{
	struct rdt_change *ch;

	TAILQ_FOREACH (ch, &r->queue, queued)
		forget_waiter(ch, arg);
	LIST_FOREACH (ch, &r->target->changes, converging)
		forget_waiter(ch, arg);
	if (r->current)
		forget_waiter(r->current, arg);
}

void rdt_reloader_freeze(struct rdt_reloader *r, const char *why)
{
	r->frozen = why;
	next_change(r);
}

void rdt_reloader_stop(struct rdt_reloader *r)
{
	struct rdt_change *ch;

	r->stopped = true;
	if (r->working || !r->ready)
		return;
	while ((ch = TAILQ_FIRST(&r->queue))) {
		TAILQ_REMOVE(&r->queue, ch, queued);
		rdt_change_free(ch);
	}
	LIST_FOREACH (ch, &r->target->changes, converging) {
		ch->begun = ch->settled = NULL;
		if (r->current == ch)
			r->current = NULL;
	}
	rdt_change_free(r->current);
	r->current = NULL;
	rdt_config_texts_free(&r->wanted);
	forget_unsaved(r);
}
