/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop of `rdinit cp`. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "copy.h"

#define RUN_FLUSH_EVERY 1000000000u /* ns between two states of the journal */
#define RUN_LINE_EVERY  200000000u  /* ns between two lines of progress */

/* ---- progress ---- */

/* Writes a line "PHASE DONE TOTAL". Only the @last one waits for a slow reader. */
static void run_line(struct cli_cp_run *r, const struct cli_cp_status *st, bool last)
{
	struct pollfd p = {.fd = r->progress_fd, .events = POLLOUT};
	char line[96], total[24] = "-";
	uint64_t now = cli_now_ns();
	int n;

	if (r->progress_fd < 0 || (!last && now - r->last_line < RUN_LINE_EVERY))
		return;
	if (!last && (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT)))
		return;
	r->last_line = now;
	if (st->size != CLI_CP_UNKNOWN)
		snprintf(total, sizeof(total), "%llu", (unsigned long long)st->size);
	n = snprintf(line, sizeof(line), "%s %llu %s\n", r->phase, (unsigned long long)st->done,
		     total);
	if (write(r->progress_fd, line, (size_t)n) != n)
		r->progress_fd = -1; /* the reader has closed the pipe: continue without */
}

static void run_progress(struct cli_cp_run *r)
{
	struct cli_cp_status st;

	if (!r->progress.on && r->progress_fd < 0)
		return;
	cli_cp_engine_status(r->engine, &st);
	cli_progress_update(&r->progress, st.done - r->origin);
	run_line(r, &st, false);
}

/* ---- journal ---- */

void cli_cp_run_stable(void *user, uint64_t upto)
{
	struct cli_cp_run *r = user;
	json_t *journal;
	int rc;

	if (!r->journal)
		return;
	journal = cli_cp_journal_make(r->src_id, r->dst_id, upto);
	rc = journal ? cli_cp_journal_save(r->journal, journal) : -ENOMEM;
	json_decref(journal);
	r->journal_failed = rc != 0;
	if (rc)
		cli_cp_engine_stop(r->engine, rc,
				   "the copy stops, because it could not be continued later");
}

static void run_checkpoint(struct cli_cp_run *r)
{
	struct cli_cp_status st;
	uint64_t now = cli_now_ns();

	if (!r->journal || now - r->last_flush < RUN_FLUSH_EVERY)
		return;
	r->last_flush = now;
	cli_cp_engine_status(r->engine, &st);
	if (st.complete > st.stable && !st.err)
		cli_cp_engine_flush(r->engine);
}

/* ---- the loop ---- */

static bool run_process(struct cli_cp_run *r, struct cli_cp_end *end)
{
	const char *text = "";
	int rc = end->ops->process(end, &text);
	char why[512];

	if (rc < 0) {
		snprintf(why, sizeof(why), "%s: %s", end->name, text);
		cli_cp_engine_stop(r->engine, rc, why);
	}
	return rc > 0;
}

static void run_wait(struct cli_cp_run *r)
{
	struct pollfd fds[2 * (CLI_QUEUES_MAX + 1) + 1];
	unsigned int n = 0;

	n += r->src->ops->fds(r->src, fds, CLI_QUEUES_MAX + 1);
	n += r->dst->ops->fds(r->dst, fds + n, CLI_QUEUES_MAX + 1);
	fds[n++] = (struct pollfd){.fd = r->interrupt.fd, .events = POLLIN};
	if (poll(fds, n, -1) < 0 && errno != EINTR)
		cli_cp_engine_stop(r->engine, -errno, strerror(errno));
}

static void run_interrupt(struct cli_cp_run *r)
{
	struct cli_cp_status st;
	char bytes[48] = "";

	if (!cli_signals_check(&r->interrupt))
		return;
	cli_cp_engine_status(r->engine, &st);
	if (r->lost)
		snprintf(bytes, sizeof(bytes), " after %llu bytes",
			 (unsigned long long)(st.done - r->origin));
	cli_progress_clear(&r->progress);
	cli_error("%s%s%s; a second signal ends rdinit without waiting for commands in flight",
		  strsignal(r->interrupt.signo), bytes, r->lost ? r->lost : "");
	cli_cp_engine_stop(r->engine, -EINTR, "");
}

void cli_cp_run_engine(struct cli_cp_run *r, const char *phase)
{
	struct cli_cp_status st;
	bool moved;

	r->phase = phase;
	r->last_flush = cli_now_ns();
	while (!cli_cp_engine_finished(r->engine)) {
		moved = cli_cp_engine_step(r->engine);
		moved |= run_process(r, r->src);
		moved |= run_process(r, r->dst);
		run_interrupt(r);
		run_checkpoint(r);
		run_progress(r);
		if (!moved && !cli_cp_engine_finished(r->engine))
			run_wait(r);
	}
	cli_cp_engine_status(r->engine, &st);
	run_line(r, &st, true);
}
