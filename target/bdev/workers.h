/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that execute I/O of one device that may block, for one reactor. Storage that hangs blocks
 * only the threads of its own device.
 *
 * io_uring has such threads too, but only four per CPU, shared by all files of a reactor, and they
 * order the writes of files by a hash that several files share.
 */
#ifndef RDT_WORKERS_H
#define RDT_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend.h"

/* Threads of a device on one reactor. More than the minimum are started only while I/O completes,
 * so that a device that hangs gets no more of them. */
#define RDT_WORKERS_MIN 4u
#define RDT_WORKERS_MAX 16u

struct rdt_engine;
struct rdt_workers;

/* Executed bios go to rdt_engine_complete() of @engine. Call this, and all functions here, on its
 * thread. Returns 0 or -ENOMEM. */
int rdt_workers_create(struct rdt_engine *engine, struct rdt_workers **out);
/* Ends the threads, which have no bio. Accepts NULL. */
void rdt_workers_free(struct rdt_workers **workers);
/* A thread calls rdt_blocking_io(@bio). Returns 0, or -errno if there is no thread and none can be
 * started; then @bio remains the caller's. */
int rdt_workers_submit(struct rdt_workers *workers, struct rdt_bio *bio);
/* Take back a bio that no thread has begun. Returns false if one has; then rdt_engine_complete() is
 * called as usual. Constant time. */
bool rdt_workers_cancel(struct rdt_workers *workers, struct rdt_bio *bio);

/* Start a thread that may use all CPUs of the process. Returns 0 or -errno. */
int rdt_storage_thread(pthread_t *thread, void *(*fn)(void *arg), void *arg);

/* Executes file and block device I/O by system calls that may block, on threads of workers.h. */

struct rdt_bio;

/* Execute the next step in rdt_fio(bio): the current piece of a read or write, or the whole of
 * another operation. Returns the bytes moved, 0, or -errno. */
int64_t rdt_blocking_io(const struct rdt_bio *bio);

#endif /* RDT_WORKERS_H */
