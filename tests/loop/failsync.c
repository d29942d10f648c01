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
#include <sys/uio.h>
#include <unistd.h>

#include <liburing.h>

#include "target/bdev/engine_io.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int msync(void *at, size_t len, int flags);

/* Returns true if this sync is to fail. */
static bool due(const char *variable)
{
	const char *path = getenv(variable);

	return path && unlink(path) == 0;
}

/* What a system call that is a sync, or has one with it, tells. */
static long told(long rc)
{
	if (rc < 0 || !due("FAIL_SYNC"))
		return rc;
	errno = EIO;
	return -1;
}

EXPORT unsigned int io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes,
					    unsigned int count)
{
	unsigned int (*real)(struct io_uring *, struct io_uring_cqe **, unsigned int) =
		dlsym(RTLD_NEXT, "io_uring_peek_batch_cqe");
	unsigned int n = real(ring, cqes, count);

	for (unsigned int i = 0; i < n; i++) {
		struct rdt_bio *bio = io_uring_cqe_get_data(cqes[i]);

		if (bio && cqes[i]->res >= 0 && rdt_fio(bio)->dsync && due("FAIL_SYNC"))
			cqes[i]->res = -EIO;
	}
	return n;
}

EXPORT int fdatasync(int fd)
{
	return (int)told(syscall(SYS_fdatasync, fd));
}

EXPORT int msync(void *at, size_t len, int flags)
{
	return (int)told(syscall(SYS_msync, at, len, flags));
}

EXPORT ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	long rc = syscall(SYS_pwritev2, fd, iov, count, offset, 0, flags);

	return flags & RWF_DSYNC ? told(rc) : rc;
}

EXPORT int fsync(int fd)
{
	char name[16] = "";

	if (prctl(PR_GET_NAME, name) == 0 && strcmp(name, "state") == 0 && due("FAIL_STATE_SYNC")) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}
