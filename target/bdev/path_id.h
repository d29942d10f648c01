/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Identifies the open file or block device, to check whether its path still names it. A program may
 * replace the file, or another device may get the name of a removed one; the old one stays open
 * until the namespace is reopened.
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
	/* of a block device: diskseq, unique for each disk; 0: unknown */
	uint64_t seq;
};

/* @st: of the open file or device. May read sysfs, which does not ask the storage. */
struct rdt_path_id rdt_path_id(const struct stat *st);

enum rdt_path_state {
	RDT_PATH_SAME,
	RDT_PATH_SMALLER,  /* the same, but smaller than the namespace */
	RDT_PATH_LARGER,   /* the same, but it has grown */
	RDT_PATH_REPLACED, /* the path names another file or device */
	RDT_PATH_GONE,     /* the path does not exist */
	RDT_PATH_UNKNOWN,  /* the check failed, for example for lack of permission */
};

/*
 * Compare the open file or device with the one that @path names. @size: the bytes served; receives
 * the current size, 0: unknown. @why receives a message with the path and what was found, unless
 * the result is SAME. Opens nothing. Any thread; waits as long as the file system does. It uses
 * copies only, so the backend may be closed meanwhile.
 */
enum rdt_path_state rdt_bdev_path_check(const struct rdt_path_id *open, const char *path,
					uint64_t *size, char *why, size_t why_size);

#endif /* RDT_PATH_ID_H */
