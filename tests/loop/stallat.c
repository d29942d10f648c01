/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into rdtarget: storage that hangs within a system call, as buffered writes do.
 *
 *   STALL=F   while the file F exists, the first io_submit waits; the file F.in is made when it
 *             begins to wait, and F.out when it has been executed
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct iocb;
EXPORT int io_submit(void *ctx, long nr, struct iocb **ios);

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

int io_submit(void *ctx, long nr, struct iocb **ios)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	const char *file = getenv("STALL");
	int (*real)(void *ctx, long nr, struct iocb **ios);
	int rc;

	*(void **)&real = dlsym(RTLD_NEXT, "io_submit");
	if (!file || access(file, F_OK) != 0 || atomic_exchange(&stalled, 1))
		return real(ctx, nr, ios);
	say(file, "in");
	while (access(file, F_OK) == 0)
		nanosleep(&pause, NULL);
	rc = real(ctx, nr, ios);
	say(file, "out");
	return rc;
}
