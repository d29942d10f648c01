/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into rdtarget: ends it with SIGKILL at a chosen file operation of the thread that
 * writes state files, so that a test can stop an update at each of its steps.
 *
 *   KILL_THREAD=T  use the thread with this name instead; opening to read is not an operation.
 *                  Only a thread that names itself has the name from its first operation on, so
 *                  a name that another thread gives it is not set.
 *   KILL_AT=N    kill before operation N (from 0); a write is executed in half before
 *   KILL_LOG=F   append the name of each operation to the file F
 */
/* Both openat and openat64 must exist under their own names. */
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int openat(int dir, const char *path, int flags, ...);
EXPORT int openat64(int dir, const char *path, int flags, ...) __attribute__((alias("openat")));
EXPORT ssize_t write(int fd, const void *buf, size_t len);
EXPORT int fsync(int fd);
EXPORT int renameat(int from_dir, const char *from, int to_dir, const char *to);
EXPORT int open(const char *path, int flags, ...);
EXPORT int open64(const char *path, int flags, ...) __attribute__((alias("open")));
EXPORT int rename(const char *from, const char *to);
EXPORT int unlinkat(int dir, const char *path, int flags);
EXPORT int pthread_setname_np(pthread_t thread, const char *name);

static int count;

int pthread_setname_np(pthread_t thread, const char *name)
{
	if (!pthread_equal(thread, pthread_self()))
		return EPERM;
	return prctl(PR_SET_NAME, name) ? errno : 0;
}

static int by_the_writer(void)
{
	const char *wanted = getenv("KILL_THREAD");
	char name[16] = "";

	return prctl(PR_GET_NAME, name) == 0 && strcmp(name, wanted ? wanted : "state") == 0;
}

static int is_file(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

static void note(const char *what)
{
	const char *path = getenv("KILL_LOG");
	int fd =
		path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0600)
		     : -1;

	if (fd < 0)
		return;
	syscall(SYS_write, fd, what, strlen(what));
	syscall(SYS_write, fd, "\n", 1);
	close(fd);
}

/* Returns true if this operation is the last one. */
static int last(const char *what)
{
	const char *at = getenv("KILL_AT");

	note(what);
	return at && atoi(at) == count++;
}

static void die(void)
{
	syscall(SYS_kill, getpid(), SIGKILL);
}

static int do_openat(int dir, const char *path, int flags, va_list ap)
{
	int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;

	if (flags & O_CREAT && by_the_writer() && last("open"))
		die();
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = do_openat(dir, path, flags, ap);
	va_end(ap);
	return fd;
}

ssize_t write(int fd, const void *buf, size_t len)
{
	if (by_the_writer() && is_file(fd) && last("write")) {
		syscall(SYS_write, fd, buf, len / 2);
		die();
	}
	return syscall(SYS_write, fd, buf, len);
}

int fsync(int fd)
{
	struct stat st;
	int is_dir = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);

	if (by_the_writer() && last(is_dir ? "fsync folder" : "fsync"))
		die();
	return (int)syscall(SYS_fsync, fd);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	if (by_the_writer() && last("rename"))
		die();
	return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = do_openat(AT_FDCWD, path, flags, ap);
	va_end(ap);
	return fd;
}

int rename(const char *from, const char *to)
{
	return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int unlinkat(int dir, const char *path, int flags)
{
	if (by_the_writer() && last("unlink"))
		die();
	return (int)syscall(SYS_unlinkat, dir, path, flags);
}
