/* SPDX-License-Identifier: BSD-3-Clause */
/* One run of `rdinit cp`: the engine, its two endpoints, progress, journal and signals in one loop.
 */
#ifndef RDI_CLI_COPY_RUN_H
#define RDI_CLI_COPY_RUN_H

#include "engine.h"

struct cli_cp_run {
	struct cli_cp_end *src, *dst;
	struct cli_cp_engine *engine;
	json_t *src_id, *dst_id; /* for the journal */
	const char *journal;     /* path, or NULL */
	bool journal_failed;     /* it could not be replaced: it has an earlier state */
	int progress_fd;         /* -1: none */
	const char *phase;       /* for the lines on progress_fd */
	uint64_t origin;         /* where the progress begins */
	const char *lost;        /* what an interrupt says of the bytes; NULL: nothing */
	struct cli_progress progress;
	struct cli_signals interrupt;
	uint64_t last_flush, last_line; /* ns */
};

/* Runs the engine until it has finished. Errors are in its status; the text of one that has been
 * printed is empty. */
void cli_cp_run_engine(struct cli_cp_run *r, const char *phase);
/* For cli_cp_job.stable: updates the journal. */
void cli_cp_run_stable(void *user, uint64_t upto);

#endif /* RDI_CLI_COPY_RUN_H */
