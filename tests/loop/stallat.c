/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into rdtarget: a reactor that stands still, or storage that hangs.
 *
 *   STALL=F          while the file F exists, the first io_uring_submit waits, which a reactor
 *                    calls; the file F.in is made when it begins to wait, and F.out when it has
 *                    been executed
 *   HANG=F           while the file F exists, system calls for the file HANG_FILE that would use
 *   HANG_FILE=NAME   its storage do not return; those that must not wait say so
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct io_uring;
EXPORT int io_uring_submit(struct io_uring *ring);

static atomic_int stalled;

static void say(const char *file, const char *what)
{
	char name[512];
	int fd;

	snprintf(name, sizeof(name), "%s.%s", file, what);
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
}

static void wait_while(const char *file)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	while (access(file, F_OK) == 0)
		nanosleep(&pause, NULL);
}

int io_uring_submit(struct io_uring *ring)
{
	const char *file = getenv("STALL");
	int (*real)(struct io_uring * ring);
	int rc;

	*(void **)&real = dlsym(RTLD_NEXT, "io_uring_submit");
	if (!file || access(file, F_OK) != 0 || atomic_exchange(&stalled, 1))
		return real(ring);
	say(file, "in");
	wait_while(file);
	rc = real(ring);
	say(file, "out");
	return rc;
}

/* ---- storage that hangs ---- */

static bool hangs(int fd)
{
	const char *file = getenv("HANG"), *name = getenv("HANG_FILE");
	char link[64], path[PATH_MAX];
	ssize_t len;

	if (!file || !name || access(file, F_OK) != 0)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, sizeof(path) - 1);
	if (len < 0)
		return false;
	path[len] = '\0';
	return strcmp(path, name) == 0;
}

static void hang(int fd)
{
	if (hangs(fd))
		wait_while(getenv("HANG"));
}

EXPORT ssize_t read(int fd, void *buf, size_t len)
{
	hang(fd);
	return syscall(SYS_read, fd, buf, len);
}

EXPORT ssize_t preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	if (flags & RWF_NOWAIT && hangs(fd)) {
		errno = EAGAIN;
		return -1;
	}
	hang(fd);
	return syscall(SYS_preadv2, fd, iov, count, offset, 0, flags);
}

EXPORT ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	hang(fd);
	return syscall(SYS_pwritev2, fd, iov, count, offset, 0, flags);
}

EXPORT int fdatasync(int fd)
{
	hang(fd);
	return (int)syscall(SYS_fdatasync, fd);
}

EXPORT int fsync(int fd)
{
	hang(fd);
	return (int)syscall(SYS_fsync, fd);
}

EXPORT int fallocate(int fd, int mode, off_t offset, off_t len)
{
	hang(fd);
	return (int)syscall(SYS_fallocate, fd, mode, offset, len);
}
