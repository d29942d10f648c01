/* SPDX-License-Identifier: BSD-3-Clause */
/* The journal of a copy. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copy.h"

#define JOURNAL_VERSION 1
#define JOURNAL_MAX     65536 /* bytes; ours have some hundred */

json_t *cli_cp_journal_make(json_t *src, json_t *dst, uint64_t complete)
{
	return json_pack("{s:i, s:O, s:O, s:I}", "rdinit-cp-journal", JOURNAL_VERSION, "source",
			 src, "destination", dst, "complete", (json_int_t)complete);
}

/* Prints the key of an identity that has another value. */
static void journal_difference(const char *side, const json_t *was, const json_t *is,
			       char why[CLI_CP_JOURNAL_WHY])
{
	const char *key;
	const json_t *value;

	json_object_foreach((json_t *)is, key, value)
	{
		char *old = NULL, *new = NULL;

		if (json_equal(json_object_get(was, key), (json_t *)value))
			continue;
		old = json_dumps(json_object_get(was, key), JSON_ENCODE_ANY | JSON_COMPACT);
		new = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
		snprintf(why, CLI_CP_JOURNAL_WHY, "the %s has another %s: %.80s, and was %.80s",
			 side, key, new ? new : "?", old ? old : "none");
		free(old);
		free(new);
		return;
	}
	snprintf(why, CLI_CP_JOURNAL_WHY, "the %s is a different one", side);
}

int cli_cp_journal_check(const json_t *journal, const json_t *src, const json_t *dst, uint64_t size,
			 uint64_t *complete, char why[CLI_CP_JOURNAL_WHY])
{
	const json_t *was_src = json_object_get(journal, "source");
	const json_t *was_dst = json_object_get(journal, "destination");
	const json_t *upto = json_object_get(journal, "complete");

	if (json_integer_value(json_object_get(journal, "rdinit-cp-journal")) != JOURNAL_VERSION ||
	    !json_is_object(was_src) || !json_is_object(was_dst) || !json_is_integer(upto)) {
		snprintf(why, CLI_CP_JOURNAL_WHY, "it is not a journal of rdinit cp");
		return -EINVAL;
	}
	if (!json_equal((json_t *)was_src, (json_t *)src)) {
		journal_difference("source", was_src, src, why);
		return -ESTALE;
	}
	if (!json_equal((json_t *)was_dst, (json_t *)dst)) {
		journal_difference("destination", was_dst, dst, why);
		return -ESTALE;
	}
	if (json_integer_value(upto) < 0 || (uint64_t)json_integer_value(upto) > size) {
		snprintf(why, CLI_CP_JOURNAL_WHY, "%lld bytes are complete of %llu",
			 (long long)json_integer_value(upto), (unsigned long long)size);
		return -EINVAL;
	}
	*complete = (uint64_t)json_integer_value(upto);
	return 0;
}

int cli_cp_journal_load(const char *path, json_t **out)
{
	char *text = malloc(JOURNAL_MAX);
	FILE *f = fopen(path, "re");
	size_t n;
	int rc = 0;

	*out = NULL;
	if (!text || !f) {
		rc = text ? -errno : -ENOMEM;
		if (rc != -ENOENT)
			cli_error("--resume: %s: %s", path, strerror(-rc));
		goto out;
	}
	n = fread(text, 1, JOURNAL_MAX, f);
	*out = ferror(f) ? NULL : json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
	if (!*out) {
		cli_error("--resume: %s is not a journal of rdinit cp; give a file that does not "
			  "exist to begin one",
			  path);
		rc = -EINVAL;
	}
out:
	if (f)
		fclose(f);
	free(text);
	return rc;
}

/* A renamed file is durable only when its folder is synced. */
static int journal_sync_folder(const char *path)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int fd, rc;

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path + 1) : 1,
		 slash ? path : ".");
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = fsync(fd) && errno != EINVAL ? -errno : 0;
	close(fd);
	return rc;
}

static int journal_write(const char *path, const json_t *journal)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), rc = 0;

	if (fd < 0)
		return -errno;
	errno = 0;
	if (json_dumpfd(journal, fd, JSON_INDENT(1)) || fsync(fd))
		rc = errno ? -errno : -EIO;
	if (close(fd) && !rc)
		rc = -errno;
	return rc;
}

int cli_cp_journal_save(const char *path, const json_t *journal)
{
	char next[PATH_MAX];
	int rc;

	if (snprintf(next, sizeof(next), "%s.new", path) >= (int)sizeof(next))
		rc = -ENAMETOOLONG;
	else
		rc = journal_write(next, journal);
	if (!rc && rename(next, path))
		rc = -errno;
	if (!rc)
		rc = journal_sync_folder(path);
	if (rc)
		cli_error("--resume: %s cannot be written: %s", path, strerror(-rc));
	return rc;
}
