/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads that execute for one reactor the I/O of one device that may block. Storage that hangs
 * keeps the threads of its own device and no others.
 *
 * The kernel could do this: io_uring gives what would block to threads of its own. But those are
 * few (four for each processor), belong to all files of a reactor, and take the writes of files in
 * order of a hash that several files share.
 */
#ifndef RDT_WORKERS_H
#define RDT_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend.h"

/* A device may have so many threads on a reactor. Those above the first number are started only
 * while I/O completes, so that a device that hangs gets no more of them. */
#define RDT_WORKERS_MIN 4u
#define RDT_WORKERS_MAX 16u

struct rdt_engine;
struct rdt_workers;

/* Executed bios go to rdt_engine_complete() of @engine. On its thread, as all calls here. Returns 0
 * or -ENOMEM. */
int rdt_workers_create(struct rdt_engine *engine, struct rdt_workers **out);
/* No bio is with the threads, which end now. NULL is allowed. */
void rdt_workers_free(struct rdt_workers **workers);
/* A thread calls rdt_blocking_io(@bio). Returns 0, or -errno when there is no thread and none can
 * be started; @bio is the caller's again then. */
int rdt_workers_submit(struct rdt_workers *workers, struct rdt_bio *bio);
/* Take back a bio that no thread has begun. False: one has, and rdt_engine_complete() will be
 * called. Constant time. */
bool rdt_workers_cancel(struct rdt_workers *workers, struct rdt_bio *bio);

/* Start a thread of a reactor, which may use all processors that the process has. Returns 0 or
 * -errno. */
int rdt_storage_thread(pthread_t *thread, void *(*fn)(void *arg), void *arg);

/* The I/O of files and block devices by system calls that may block. Threads of workers.h make
 * them. */

struct rdt_bio;

/* Execute what rdt_fio(bio) says comes next: the current piece of a read or write, or the whole of
 * another operation. Returns the bytes moved, 0, or -errno. */
int64_t rdt_blocking_io(const struct rdt_bio *bio);

#endif /* RDT_WORKERS_H */
