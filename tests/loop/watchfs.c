/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into rdtarget: what it does with files, for tests that count, and a signal at a chosen
 * moment.
 *
 *   WATCH_LOG=F  append a line to the file F for each path that is looked at ("stat") or opened
 *   HUP_AT=PATH  SIGHUP to itself when it opens PATH for the first time
 *   HANG=DIR     storage that hangs: while the file DIR.hung exists, stat and open wait for paths
 *                that begin with DIR/
 */
/* Both names are wanted as they are. */
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int open(const char *path, int flags, ...);
EXPORT int open64(const char *path, int flags, ...);
EXPORT int stat(const char *path, struct stat *st);
EXPORT int stat64(const char *path, struct stat64 *st);

static void note(const char *what, const char *path)
{
	const char *log = getenv("WATCH_LOG");
	char line[512] = "";
	int fd;

	if (!log)
		return;
	fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
			  0600);
	if (fd < 0)
		return;
	strcat(line, what);
	strncat(line, path, sizeof(line) - 16);
	strcat(line, "\n");
	syscall(SYS_write, fd, line, strlen(line));
	close(fd);
}

static void hang(const char *path)
{
	const char *dir = getenv("HANG");
	size_t len = dir ? strlen(dir) : 0;
	const struct timespec pause = {.tv_nsec = 5000000};
	char gate[512] = "";

	if (!dir || len > sizeof(gate) - 16 || strncmp(path, dir, len) != 0 || path[len] != '/')
		return;
	strcat(strcat(gate, dir), ".hung");
	while (syscall(SYS_faccessat, AT_FDCWD, gate, F_OK) == 0)
		nanosleep(&pause, NULL);
}

static int do_open(const char *path, int flags, int mode)
{
	static int raised;
	const char *at = getenv("HUP_AT");

	note("open ", path);
	hang(path);
	if (at && !raised && strcmp(at, path) == 0) {
		raised = 1;
		kill(getpid(), SIGHUP);
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

#define MODE(flags)                                                 \
	({                                                          \
		va_list ap;                                         \
		int mode_ = 0;                                      \
		va_start(ap, flags);                                \
		if (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) \
			mode_ = va_arg(ap, int);                    \
		va_end(ap);                                         \
		mode_;                                              \
	})

int open(const char *path, int flags, ...)
{
	return do_open(path, flags, MODE(flags));
}

int open64(const char *path, int flags, ...)
{
	return do_open(path, flags, MODE(flags));
}

int stat(const char *path, struct stat *st)
{
	int (*next)(const char *, struct stat *);

	*(void **)&next = dlsym(RTLD_NEXT, "stat");
	note("stat ", path);
	hang(path);
	return next(path, st);
}

int stat64(const char *path, struct stat64 *st)
{
	int (*next)(const char *, struct stat64 *);

	*(void **)&next = dlsym(RTLD_NEXT, "stat64");
	note("stat ", path);
	hang(path);
	return next(path, st);
}
