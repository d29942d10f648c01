/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/stdfds.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int rd_stdfds_open(void)
{
	/* open(2) takes the lowest free number. */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			return errno ? -errno : -EBADF;
	}
	return 0;
}
