/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One io_uring: how it is made from what the kernel has, and what is registered with it. Of the
 * thread that makes it. The engine (engine_uring.c) queues and reaps.
 */
#ifndef RDT_RING_H
#define RDT_RING_H

#include <stdbool.h>
#include <stddef.h>

#include <liburing.h>

#include "util/log.h"

struct rdt_ring_opts {
	unsigned int sqpoll_ms; /* a kernel thread submits, and polls so long for more; 0: none */
	int sqpoll_cpu;         /* -1: where the kernel puts it */
	bool iopoll; /* for reads and writes with O_DIRECT only: rdt_ring_look() finds results */
};

struct rdt_ring {
	struct io_uring io;
	struct rd_log *log;
	bool made;
	bool sqpoll;  /* it has that thread */
	char *memory; /* registered, or NULL */
	size_t memory_len;
};

/*
 * Make a ring for @depth I/Os, each of which may have to be cancelled. Where the memlock limit does
 * not allow so many, @depth becomes what it does allow, and that is said; so is it when there can
 * be no thread as @opts asks for. Returns 0, or -errno with nothing made: -EPERM, -EACCES or
 * -ENOSYS where there is no io_uring, -ENOMEM.
 */
int rdt_ring_init(struct rdt_ring *ring, struct rd_log *log, const struct rdt_ring_opts *opts,
		  unsigned int *depth);
/* A zeroed one, or one that could not be made, is fine. */
void rdt_ring_fini(struct rdt_ring *ring);

/*
 * Hand over what is queued; with a thread, wake it if it sleeps. Returns 0, or -errno: not all was
 * taken, and it is to be tried again.
 */
int rdt_ring_submit(struct rdt_ring *ring);

/* Ask the devices of a ring with iopoll, once, what has been done. */
void rdt_ring_look(struct rdt_ring *ring);

/* Register @len bytes at @mem. Where that cannot be it is said: I/O goes on without. */
void rdt_ring_add_memory(struct rdt_ring *ring, void *mem, size_t len);
/* Index of the registered buffer that holds all of @len bytes at @buf, or -1. */
int rdt_ring_buffer(const struct rdt_ring *ring, const char *buf, size_t len);

#endif /* RDT_RING_H */
