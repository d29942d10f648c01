/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads for system calls that block: operations are queued for them and completed on the thread
 * of the loop. */
#ifndef RDI_CLI_COPY_WORKERS_H
#define RDI_CLI_COPY_WORKERS_H

#include "endpoint.h"

struct cli_cp_workers;

/* An endpoint whose operations are done by workers: the first member of its structure. */
struct cli_cp_worked {
	struct cli_cp_end end;
	struct cli_cp_workers *workers; /* of cli_cp_workers_start() and cli_cp_workers_stop() */
};

/* Runs on a worker: performs @op and sets op->err (0 or -errno) and op->got. */
typedef void (*cli_cp_work_fn)(void *arg, struct cli_cp_op *op);

/* Starts @n threads. Returns 0 or -errno. */
int cli_cp_workers_start(unsigned int n, cli_cp_work_fn fn, void *arg, struct cli_cp_workers **out);
/*
 * Ends the threads, without calling done() of remaining operations. @cancel: also ends a thread
 * that is blocked in a system call between cli_cp_workers_may_cancel(true) and (false). NULL is
 * allowed.
 */
void cli_cp_workers_stop(struct cli_cp_workers *w, bool cancel);
/* Called on a worker. */
void cli_cp_workers_may_cancel(bool may);
/* Size of the buffer of zeroes for files and streams that cannot have a hole. */
#define CLI_CP_ZEROES (64u << 10)
extern const unsigned char cli_cp_zeroes[CLI_CP_ZEROES];

/* For struct cli_cp_end_ops; @end is the first member of a struct cli_cp_worked. */
int cli_cp_workers_submit(struct cli_cp_end *end, struct cli_cp_op *op);
int cli_cp_workers_process(struct cli_cp_end *end, const char **text);
unsigned int cli_cp_workers_fds(struct cli_cp_end *end, struct pollfd *fds, unsigned int room);

#endif /* RDI_CLI_COPY_WORKERS_H */
