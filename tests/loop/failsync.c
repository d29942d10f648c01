/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into rdtarget: a sync fails once each time that the file of FAIL_SYNC exists, as Linux
 * reports a failed writeback once. The kernel has executed the sync nevertheless.
 *
 *   FAIL_SYNC=F          a Flush, or a write with FUA, fails with EIO and F is removed
 *   FAIL_STATE_SYNC=F    likewise fsync(2) by the thread that writes state files
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <liburing.h>

#include "target/bdev/engine_io.h"

#ifdef HAVE_LIBAIO
#include <libaio.h>
#endif

#define EXPORT __attribute__((visibility("default")))

/* Returns true if this sync is to fail. */
static bool due(const char *variable)
{
	const char *path = getenv(variable);

	return path && unlink(path) == 0;
}

/* The I/O of @bio that the kernel has done was a sync, or had one with it. */
static bool syncs(struct rdt_bio *bio)
{
	const struct rdt_fio *fio = rdt_fio(bio);

	return fio->step == RDT_FIO_SYNC || rdt_fio_wants_dsync(bio, fio->chan);
}

EXPORT unsigned int io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes,
					    unsigned int count)
{
	unsigned int (*real)(struct io_uring *, struct io_uring_cqe **, unsigned int) =
		dlsym(RTLD_NEXT, "io_uring_peek_batch_cqe");
	unsigned int n = real(ring, cqes, count);

	for (unsigned int i = 0; i < n; i++) {
		struct rdt_bio *bio = io_uring_cqe_get_data(cqes[i]);

		if (bio && syncs(bio) && due("FAIL_SYNC"))
			cqes[i]->res = -EIO;
	}
	return n;
}

#ifdef HAVE_LIBAIO
EXPORT int io_getevents(io_context_t ctx, long min, long nr, struct io_event *events,
			struct timespec *timeout)
{
	int (*real)(io_context_t, long, long, struct io_event *, struct timespec *) =
		dlsym(RTLD_NEXT, "io_getevents");
	int n = real(ctx, min, nr, events, timeout);

	for (int i = 0; i < n; i++)
		if (syncs(events[i].obj->data) && due("FAIL_SYNC"))
			events[i].res = (unsigned long)-EIO;
	return n;
}
#endif

EXPORT int fsync(int fd)
{
	char name[16] = "";

	if (prctl(PR_GET_NAME, name) == 0 && strcmp(name, "state") == 0 && due("FAIL_STATE_SYNC")) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}
