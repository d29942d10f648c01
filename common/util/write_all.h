/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes a whole text to a file. May block. */
#ifndef RD_UTIL_WRITE_ALL_H
#define RD_UTIL_WRITE_ALL_H

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

/* Returns 0 or -errno; then a part may have been written. */
static inline int rd_write_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

#endif /* RD_UTIL_WRITE_ALL_H */
