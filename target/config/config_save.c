/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of a configuration as texts: kept, and written back. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config_priv.h"
#include "util/cleanup.h"

/* ---- texts ---- */

static char *copy_bytes(const char *bytes, size_t len)
{
	char *copy = malloc(len + 1);

	if (copy) {
		memcpy(copy, bytes, len);
		copy[len] = '\0';
	}
	return copy;
}

int rdt_config_texts_add(struct rdt_config_texts *texts, const char *path, const char *text,
			 size_t len, unsigned int pattern)
{
	struct rdt_config_text t = {.path = strdup(path),
				    .text = copy_bytes(text, len),
				    .len = len,
				    .pattern = pattern};

	/* Grown by doubling: the array is full when the count is a power of two. */
	if ((texts->count & (texts->count - 1)) == 0) {
		size_t room = texts->count ? 2 * (size_t)texts->count : 1;
		struct rdt_config_text *files = realloc(texts->files, room * sizeof(*files));

		if (!files)
			goto err;
		texts->files = files;
	}
	if (!t.path || !t.text)
		goto err;
	texts->files[texts->count++] = t;
	return 0;

err:
	free(t.path);
	free(t.text);
	return -ENOMEM;
}

int rdt_config_texts_copy(const struct rdt_config_texts *texts, struct rdt_config_texts *out)
{
	*out = (struct rdt_config_texts){0};
	for (unsigned int i = 0; i < texts->count; i++) {
		const struct rdt_config_text *t = &texts->files[i];
		struct rdt_config_text *copy;

		if (rdt_config_texts_add(out, t->path, t->text, t->len, t->pattern))
			goto err;
		copy = &out->files[i];
		if (!t->on_disk)
			continue;
		copy->on_disk = copy_bytes(t->on_disk, t->on_disk_len);
		copy->on_disk_len = t->on_disk_len;
		if (!copy->on_disk)
			goto err;
	}
	return 0;

err:
	rdt_config_texts_free(out);
	return -ENOMEM;
}

void rdt_config_texts_free(struct rdt_config_texts *texts)
{
	for (unsigned int i = 0; i < texts->count; i++) {
		free(texts->files[i].path);
		free(texts->files[i].text);
		free(texts->files[i].on_disk);
	}
	free(texts->files);
	*texts = (struct rdt_config_texts){0};
}

/* ---- saving ---- */

static void saved_already(struct rdt_config_text *t)
{
	free(t->on_disk);
	t->on_disk = NULL;
	t->on_disk_len = 0;
}

/* Has somebody else changed the file? Returns 0, -ESTALE or another -errno, with the reason
 * logged. */
static int check_on_disk(struct rdt_config_text *t, struct rd_log *log)
{
	rd_autofree char *now = NULL;
	char why[256];
	size_t len = 0;
	int rc = rdt_config_read_file(t->path, &now, &len, why, sizeof(why));

	if (rc) {
		rd_err(log, RD_LOG_CONFIG, "%s: not saved: %s", t->path, why);
		return rc;
	}
	if (len == t->len && memcmp(now, t->text, len) == 0) {
		saved_already(t);
		return 0;
	}
	if (len == t->on_disk_len && memcmp(now, t->on_disk, len) == 0)
		return 0;
	rd_err(log, RD_LOG_CONFIG,
	       "%s: not saved: the file was changed since it was read; \"rdctl diff\" shows what "
	       "a reload would change: put the changes into the file by hand, and reload",
	       t->path);
	return -ESTALE;
}

static int write_and_sync(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t)n;
	}
	return fsync(fd) ? -errno : 0;
}

/* A new file with the mode and owner of @path. */
static int write_beside(const char *path, const char *name, const char *text, size_t len)
{
	rd_autoclose int fd = -1;
	struct stat st;
	int rc;

	if (stat(path, &st))
		return -errno;
	unlink(name); /* of a save that was interrupted */
	fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	rc = write_and_sync(fd, text, len);
	/* Without the right to give it away it stays with the user of this process. */
	if (!rc && (st.st_uid != geteuid() || st.st_gid != getegid()) &&
	    fchown(fd, st.st_uid, st.st_gid) && errno != EPERM)
		rc = -errno;
	if (!rc && fchmod(fd, st.st_mode & 07777))
		rc = -errno;
	if (rc)
		unlink(name);
	return rc;
}

static int sync_directory(char *path)
{
	rd_autoclose int fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) ? -errno : 0;
}

/*
 * The old content stays under the name with "~"; the file @path has the old or the new one at any
 * time. What is left of a save that was interrupted has a "~", too: patterns of "include" leave it
 * out.
 */
static int replace_config(const char *path, const struct rdt_config_text *t)
{
	rd_autofree char *new = NULL, *old = NULL, *copy = strdup(path);
	int rc;

	if (!copy || asprintf(&new, "%s.new~", path) < 0 || asprintf(&old, "%s~", path) < 0)
		return -ENOMEM;
	rc = write_beside(path, new, t->text, t->len);
	if (rc)
		return rc;
	unlink(old);
	/* Not every file system has links, and Linux refuses one to a file of another user. */
	if (link(path, old))
		rc = write_beside(path, old, t->on_disk, t->on_disk_len);
	if (!rc && rename(new, path))
		rc = -errno;
	if (rc) {
		unlink(new);
		return rc;
	}
	return sync_directory(copy);
}

static int save_text(struct rdt_config_text *t, struct rd_log *log)
{
	rd_autofree char *path = realpath(t->path, NULL); /* it may be a link */
	int rc = path ? replace_config(path, t) : -errno;

	if (rc) {
		rd_err(log, RD_LOG_CONFIG,
		       "%s: not saved: %s; the user of rdtarget needs the right to write to the "
		       "directory",
		       path ? path : t->path, strerror(-rc));
		return rc;
	}
	saved_already(t);
	rd_notice(log, RD_LOG_CONFIG, "%s: saved; the previous one is %s~", path, path);
	return 0;
}

int rdt_config_save(struct rdt_config_texts *texts, struct rd_log *log)
{
	int written = 0, rc;

	for (unsigned int i = 0; i < texts->count; i++) {
		rc = texts->files[i].on_disk ? check_on_disk(&texts->files[i], log) : 0;
		if (rc)
			return rc;
	}
	for (unsigned int i = 0; i < texts->count; i++) {
		if (!texts->files[i].on_disk)
			continue;
		rc = save_text(&texts->files[i], log);
		if (rc)
			return rc;
		written++;
	}
	return written;
}
