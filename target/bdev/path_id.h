/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which file or block device is open, and whether its path still names it. A program may have
 * replaced the file, or a device may have been removed and another one has its name: what is open
 * stays the old one until the namespace is opened again.
 */
#ifndef RDT_PATH_ID_H
#define RDT_PATH_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stat;

struct rdt_path_id {
	bool known; /* false: the backend has no path, and is never compared */
	bool block; /* a block device */
	dev_t dev;  /* the device itself, or that of the file system */
	ino_t ino;  /* of a file */
	/* of a block device: the kernel gives each disk that appears another number; 0: not known
	 */
	uint64_t seq;
};

/* @st: of the open file or device. May read sysfs, which does not ask the storage. */
struct rdt_path_id rdt_path_id(const struct stat *st);

enum rdt_path_state {
	RDT_PATH_SAME,
	RDT_PATH_SMALLER,  /* the same, and it is smaller than what is served */
	RDT_PATH_LARGER,   /* the same, and it has grown */
	RDT_PATH_REPLACED, /* another file or device has the path */
	RDT_PATH_GONE,     /* nothing has the path */
	RDT_PATH_UNKNOWN,  /* it cannot be looked at: a folder without permission, for example */
};

/*
 * Compare what is open with what @path names. @size: the bytes that are served; receives those that
 * the path has, 0: not known. @why receives a sentence, with the path and what was found, unless
 * the result is SAME. Opens nothing. Any thread; waits as long as the file system does. It uses
 * copies only, so the backend may be closed meanwhile.
 */
enum rdt_path_state rdt_bdev_path_check(const struct rdt_path_id *open, const char *path,
					uint64_t *size, char *why, size_t why_size);

#endif /* RDT_PATH_ID_H */
