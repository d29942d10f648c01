/* SPDX-License-Identifier: BSD-3-Clause */
/* One io_uring: setup with the features that the kernel supports, and memory registration. Used
 * only by the thread that creates it. The engine (engine_uring.c) submits and reaps. */
#ifndef RDT_RING_H
#define RDT_RING_H

#include <stdbool.h>
#include <stddef.h>

#include <liburing.h>

#include "util/log.h"

struct rdt_ring_opts {
	/* idle time of the SQPOLL thread in milliseconds; 0: no such thread */
	unsigned int sqpoll_ms;
	int sqpoll_cpu; /* CPU of the SQPOLL thread; -1: the kernel's choice */
	/* IORING_SETUP_IOPOLL, only for O_DIRECT reads and writes: rdt_ring_poll() reaps them */
	bool iopoll;
};

struct rdt_ring {
	struct io_uring io;
	struct rd_log *log;
	bool made;
	bool sqpoll;  /* the ring has an SQPOLL thread */
	char *memory; /* registered buffer, or NULL */
	size_t memory_len;
};

/*
 * Set up a ring for @depth I/Os, with room to cancel each. If the memlock limit allows fewer,
 * reduces @depth and logs that; also logs when SQPOLL is not possible as @opts asks. Returns 0, or
 * -errno with nothing created: -EPERM, -EACCES or -ENOSYS without io_uring, -ENOMEM.
 */
int rdt_ring_init(struct rdt_ring *ring, struct rd_log *log, const struct rdt_ring_opts *opts,
		  unsigned int *depth);
/* Accepts a zeroed ring, and one whose setup failed. */
void rdt_ring_fini(struct rdt_ring *ring);

/* Submit what is queued; wake the SQPOLL thread if it sleeps. Returns 0, or -errno when some
 * entries remain: submit again later. */
int rdt_ring_submit(struct rdt_ring *ring);

/* Poll the devices of a ring with @iopoll once for completions. */
void rdt_ring_poll(struct rdt_ring *ring);

/* Register @len bytes at @mem. Logs a failure; I/O then uses ordinary buffers. */
void rdt_ring_add_memory(struct rdt_ring *ring, void *mem, size_t len);
/* Index of the registered buffer that contains the @len bytes at @buf, or -1. */
int rdt_ring_buffer(const struct rdt_ring *ring, const char *buf, size_t len);

#endif /* RDT_RING_H */
