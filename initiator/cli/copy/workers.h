/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads for system calls that wait: operations go in, and come back on the thread of the loop. */
#ifndef RDI_CLI_COPY_WORKERS_H
#define RDI_CLI_COPY_WORKERS_H

#include "endpoint.h"

struct cli_cp_workers;

/* Runs on a worker: do @op, set op->err (0 or -errno) and op->got. */
typedef void (*cli_cp_work_fn)(void *arg, struct cli_cp_op *op);

/* @n threads. Returns 0 or -errno. */
int cli_cp_workers_start(unsigned int n, cli_cp_work_fn fn, void *arg, struct cli_cp_workers **out);
void cli_cp_workers_add(struct cli_cp_workers *w, struct cli_cp_op *op);
/* Call done() of what is finished. Returns how many. */
int cli_cp_workers_deliver(struct cli_cp_workers *w);
/* Readable when there is something to deliver. */
int cli_cp_workers_fd(const struct cli_cp_workers *w);
/*
 * End the threads, without calling done() of what they still had. @cancel: also one that waits in a
 * system call between cli_cp_workers_may_cancel(true) and (false). NULL is fine.
 */
void cli_cp_workers_stop(struct cli_cp_workers *w, bool cancel);
/* On a worker. */
void cli_cp_workers_may_cancel(bool may);

#endif /* RDI_CLI_COPY_WORKERS_H */
