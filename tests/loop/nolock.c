/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into rdtarget: ignores file locks, so that two processes can use one file, like two
 * targets with a shared disk. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int fcntl64(int fd, int cmd, ...);

int fcntl64(int fd, int cmd, ...)
{
	int (*real)(int fd, int cmd, ...);
	uintptr_t arg;
	va_list ap;

	if (cmd == F_OFD_SETLK)
		return 0;
	va_start(ap, cmd);
	arg = va_arg(ap, uintptr_t); /* an int or a pointer; absent ones are not looked at */
	va_end(ap);
	*(void **)&real = dlsym(RTLD_NEXT, "fcntl64");
	return real(fd, cmd, arg);
}
