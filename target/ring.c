/* SPDX-License-Identifier: BSD-3-Clause */
#include "ring.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "util/parse.h"

#define DEPTH_MIN 8u
/* The kernel registers at most this much in one buffer. */
#define BUFFER_SHIFT 30
#define BUFFER_MAX   (UINT64_C(1) << BUFFER_SHIFT)

/* ---- making ---- */

static int make(struct rdt_ring *ring, unsigned int entries)
{
	/*
	 * Best first; older kernels answer EINVAL to flags they do not know. Not DEFER_TASKRUN: its
	 * completions do not wake who sleeps on the ring's descriptor.
	 */
	static const unsigned int flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
		0,
	};
	struct io_uring_params params;
	int rc = -EINVAL;

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]) && rc == -EINVAL; i++) {
		memset(&params, 0, sizeof(params));
		params.flags = flags[i] | IORING_SETUP_CLAMP;
		rc = io_uring_queue_init_params(entries, &ring->io, &params);
	}
	return rc;
}

int rdt_ring_init(struct rdt_ring *ring, struct rd_log *log, unsigned int *depth)
{
	unsigned int asked = *depth;
	int rc = make(ring, asked * 2);

	/* Some kernels charge the ring itself to the memlock limit. */
	while (rc == -ENOMEM && *depth > DEPTH_MIN) {
		*depth /= 2;
		rc = make(ring, *depth * 2);
	}
	if (rc)
		return rc;
	ring->made = true;
	ring->log = log;
	if (*depth != asked)
		rd_info(log, RD_LOG_BACKEND,
			"io_uring: the memlock limit allows only %u I/Os in the kernel at once, "
			"not %u: going on with that; raise ulimit -l for more",
			*depth, asked);
	/* Without it, before Linux 5.18, the kernel looks the descriptor up in each call. */
	io_uring_register_ring_fd(&ring->io);
	/* Fails on old kernels and under a low RLIMIT_NOFILE. */
	ring->files_ok = io_uring_register_files_sparse(&ring->io, RDT_RING_FILES) == 0;
	return 0;
}

void rdt_ring_fini(struct rdt_ring *ring)
{
	if (ring->made)
		io_uring_queue_exit(&ring->io);
	ring->made = false;
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
		"going on with ordinary buffers",
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

/* ---- files ---- */

int rdt_ring_add_file(struct rdt_ring *ring, int fd)
{
	for (int i = 0; ring->files_ok && i < RDT_RING_FILES; i++) {
		if (ring->file_used[i])
			continue;
		if (io_uring_register_files_update(&ring->io, (unsigned int)i, &fd, 1) != 1)
			return -1;
		ring->file_used[i] = true;
		return i;
	}
	return -1;
}

void rdt_ring_remove_file(struct rdt_ring *ring, int place)
{
	int none = -1;

	if (place < 0)
		return;
	io_uring_register_files_update(&ring->io, (unsigned int)place, &none, 1);
	ring->file_used[place] = false;
}
