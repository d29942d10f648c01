/* SPDX-License-Identifier: BSD-3-Clause */
/* Cleanup of locals at the end of their scope. Longer-lived objects use goto labels. */
#ifndef RD_UTIL_CLEANUP_H
#define RD_UTIL_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

static inline void rd_autofree_cb(void *p)
{
	free(*(void **)p);
}

static inline void rd_autoclose_cb(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define rd_autofree  __attribute__((cleanup(rd_autofree_cb)))
#define rd_autoclose __attribute__((cleanup(rd_autoclose_cb)))

/* Passes a pointer on, so that it is not freed at the end of the scope. */
#define rd_steal(p)                          \
	({                                   \
		__typeof__(p) stolen_ = (p); \
		(p) = NULL;                  \
		stolen_;                     \
	})

#endif /* RD_UTIL_CLEANUP_H */
