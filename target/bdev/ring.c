/* SPDX-License-Identifier: BSD-3-Clause */
#include "ring.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "util/parse.h"

#define DEPTH_MIN 8u
/* log2 of the largest buffer that the kernel registers. */
#define BUFFER_SHIFT 30
#define BUFFER_MAX   (UINT64_C(1) << BUFFER_SHIFT)

/* ---- setup ---- */

static int setup_ring(struct rdt_ring *ring, unsigned int entries, unsigned int flags,
		      const struct rdt_ring_opts *opts)
{
	struct io_uring_params params = {.flags = flags | IORING_SETUP_CLAMP};

	if (flags & IORING_SETUP_SQPOLL)
		params.sq_thread_idle = opts->sqpoll_ms;
	if (flags & IORING_SETUP_SQ_AFF)
		params.sq_thread_cpu = (uint32_t)opts->sqpoll_cpu;
	return io_uring_queue_init_params(entries, &ring->io, &params);
}

/* Try the @flags in order of preference; the last one is 0. Older kernels answer EINVAL for unknown
 * flags. */
static int setup_best_flags(struct rdt_ring *ring, unsigned int entries, const unsigned int *flags,
			    unsigned int always, const struct rdt_ring_opts *opts)
{
	int rc;

	do
		rc = setup_ring(ring, entries, *flags | always, opts);
	while (rc == -EINVAL && *flags++);
	return rc;
}

/* For @depth I/Os, or as many as the memlock limit allows: some kernels charge rings to it. */
static int setup_for_depth(struct rdt_ring *ring, unsigned int *depth, const unsigned int *flags,
			   unsigned int always, const struct rdt_ring_opts *opts)
{
	unsigned int n = *depth;
	int rc = setup_best_flags(ring, n * 2, flags, always, opts);

	while (rc == -ENOMEM && n > DEPTH_MIN) {
		n /= 2;
		rc = setup_best_flags(ring, n * 2, flags, always, opts);
	}
	if (rc == 0)
		*depth = n;
	return rc;
}

/* The submitting thread runs the completion work. */
static int setup_plain_ring(struct rdt_ring *ring, unsigned int *depth,
			    const struct rdt_ring_opts *opts)
{
	/* Without DEFER_TASKRUN, whose completions do not wake a thread that sleeps in epoll on the
	 * ring. */
	static const unsigned int flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
		0,
	};

	return setup_for_depth(ring, depth, flags, 0, opts);
}

/* @kind: SQPOLL or IOPOLL, where completion work runs elsewhere. */
static int setup_other_kind(struct rdt_ring *ring, unsigned int *depth, unsigned int kind,
			    const struct rdt_ring_opts *opts)
{
	static const unsigned int flags[] = {IORING_SETUP_SINGLE_ISSUER, 0};

	return setup_for_depth(ring, depth, flags, kind, opts);
}

static int setup_with_thread(struct rdt_ring *ring, unsigned int *depth,
			     const struct rdt_ring_opts *opts)
{
	unsigned int kind = IORING_SETUP_SQPOLL;

	if (opts->sqpoll_cpu >= 0)
		kind |= IORING_SETUP_SQ_AFF;
	return setup_other_kind(ring, depth, kind, opts);
}

static void explain_no_thread(struct rd_log *log, const struct rdt_ring_opts *opts, int rc)
{
	char where[32] = "";

	if (opts->sqpoll_cpu >= 0)
		snprintf(where, sizeof(where), " on CPU %d", opts->sqpoll_cpu);
	rd_warn(log, RD_LOG_BACKEND,
		"sqpoll: cannot create the thread for submission%s: %s: submitting by system calls "
		"instead; the thread needs Linux 5.11 and a CPU that exists and that rdtarget may "
		"use",
		where, strerror(-rc));
}

int rdt_ring_init(struct rdt_ring *ring, struct rd_log *log, const struct rdt_ring_opts *opts,
		  unsigned int *depth)
{
	unsigned int asked = *depth;
	int rc = -ENOTSUP;

	if (opts->sqpoll_ms) {
		rc = setup_with_thread(ring, depth, opts);
		ring->sqpoll = rc == 0;
		if (rc)
			explain_no_thread(log, opts, rc);
	}
	if (rc)
		rc = opts->iopoll ? setup_other_kind(ring, depth, IORING_SETUP_IOPOLL, opts)
				  : setup_plain_ring(ring, depth, opts);
	if (rc)
		return rc;
	ring->made = true;
	ring->log = log;
	if (*depth != asked)
		rd_info(log, RD_LOG_BACKEND,
			"io_uring: the memlock limit allows only %u I/Os in the kernel at once "
			"instead of %u; raise ulimit -l to allow more",
			*depth, asked);
	/* Since Linux 5.18: saves the file lookup in each call. */
	io_uring_register_ring_fd(&ring->io);
	return 0;
}

void rdt_ring_fini(struct rdt_ring *ring)
{
	if (ring->made)
		io_uring_queue_exit(&ring->io);
	ring->made = false;
}

int rdt_ring_submit(struct rdt_ring *ring)
{
	bool left;
	int rc;

	do {
		rc = io_uring_submit(&ring->io);
		/* With SQPOLL, the kernel thread takes the remaining entries. */
		left = !ring->sqpoll && io_uring_sq_ready(&ring->io);
	} while (rc == -EINTR || (rc > 0 && left));
	if (rc < 0)
		return rc;
	return left ? -EAGAIN : 0;
}

void rdt_ring_poll(struct rdt_ring *ring)
{
	/* An error here also fails an I/O, which reports it. */
	io_uring_get_events(&ring->io);
}

/* ---- memory ---- */

void rdt_ring_add_memory(struct rdt_ring *ring, void *mem, size_t len)
{
	size_t count = (len + BUFFER_MAX - 1) >> BUFFER_SHIFT;
	char size_text[RD_SIZE_TEXT], limit_text[RD_SIZE_TEXT];
	struct iovec *iov = calloc(count, sizeof(*iov));
	struct rlimit limit = {0};
	int rc = -ENOMEM;

	for (size_t i = 0; iov && i < count; i++) {
		size_t at = i << BUFFER_SHIFT;

		iov[i].iov_base = (char *)mem + at;
		iov[i].iov_len = len - at < BUFFER_MAX ? len - at : BUFFER_MAX;
	}
	if (iov)
		rc = io_uring_register_buffers(&ring->io, iov, (unsigned int)count);
	free(iov);
	if (rc == 0) {
		ring->memory = mem;
		ring->memory_len = len;
		return;
	}
	getrlimit(RLIMIT_MEMLOCK, &limit);
	rd_info(ring->log, RD_LOG_BACKEND,
		"io_uring: cannot register the %s buffer memory (%s; the memlock limit is %s): "
		"using ordinary buffers",
		rd_format_size(len, size_text), strerror(-rc),
		limit.rlim_cur == RLIM_INFINITY ? "none"
						: rd_format_size(limit.rlim_cur, limit_text));
}

int rdt_ring_buffer(const struct rdt_ring *ring, const char *buf, size_t len)
{
	uint64_t first, last;

	if (!ring->memory || buf < ring->memory || buf + len > ring->memory + ring->memory_len)
		return -1;
	first = (uint64_t)(buf - ring->memory);
	last = first + len - 1;
	return first >> BUFFER_SHIFT == last >> BUFFER_SHIFT ? (int)(first >> BUFFER_SHIFT) : -1;
}
