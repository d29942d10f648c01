/* SPDX-License-Identifier: BSD-3-Clause */
#include "path_id.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "util/parse.h"
#include "disk.h"

struct rdt_path_id rdt_path_id(const struct stat *st)
{
	if (S_ISBLK(st->st_mode))
		return (struct rdt_path_id){
			.known = true,
			.block = true,
			.dev = st->st_rdev,
			.seq = rdt_disk_seq(st->st_rdev),
		};
	return (struct rdt_path_id){.known = true, .dev = st->st_dev, .ino = st->st_ino};
}

static bool same_file(const struct rdt_path_id *a, const struct rdt_path_id *b)
{
	return a->block == b->block && a->dev == b->dev && a->ino == b->ino &&
	       (!a->seq || !b->seq || a->seq == b->seq);
}

static enum rdt_path_state explain_replaced(const struct rdt_path_id *open,
					    const struct rdt_path_id *now, const char *path,
					    char *why, size_t why_size)
{
	if (open->block)
		snprintf(why, why_size,
			 "path %s: names %s %u:%u now, but block device %u:%u is open%s; hosts use "
			 "the open one until the namespace is opened again",
			 path, now->block ? "block device" : "a file on device", major(now->dev),
			 minor(now->dev), major(open->dev), minor(open->dev),
			 now->block && now->dev == open->dev ? ", which was removed" : "");
	else
		snprintf(why, why_size,
			 "path %s: names another file now (inode %llu, but %llu is open); hosts "
			 "use the open one until the namespace is opened again",
			 path, (unsigned long long)now->ino, (unsigned long long)open->ino);
	return RDT_PATH_REPLACED;
}

static enum rdt_path_state compare_sizes(const char *path, uint64_t served, uint64_t found,
					 char *why, size_t why_size)
{
	char have[RD_SIZE_TEXT], want[RD_SIZE_TEXT];

	if (!found || found == served)
		return RDT_PATH_SAME;
	snprintf(why, why_size, "path %s: is %s (%llu bytes), but %s (%llu bytes) are served", path,
		 rd_format_size(found, have), (unsigned long long)found,
		 rd_format_size(served, want), (unsigned long long)served);
	return found < served ? RDT_PATH_SMALLER : RDT_PATH_LARGER;
}

enum rdt_path_state rdt_bdev_path_check(const struct rdt_path_id *open, const char *path,
					uint64_t *size, char *why, size_t why_size)
{
	uint64_t served = *size;
	struct rdt_path_id now;
	struct stat st;

	if (!open->known)
		return RDT_PATH_SAME;
	*size = 0;
	if (stat(path, &st) < 0) {
		bool gone = errno == ENOENT || errno == ENOTDIR;

		snprintf(why, why_size, "path %s: %s", path,
			 gone ? "no longer exists, but its file or device is still open"
			      : strerror(errno));
		return gone ? RDT_PATH_GONE : RDT_PATH_UNKNOWN;
	}
	now = rdt_path_id(&st);
	if (!same_file(open, &now))
		return explain_replaced(open, &now, path, why, why_size);
	*size = now.block ? rdt_disk_size(now.dev) : (uint64_t)st.st_size;
	return compare_sizes(path, served, *size, why, why_size);
}
