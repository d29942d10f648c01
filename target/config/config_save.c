/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of a configuration as texts in memory, and saving them. */
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
#include "util/write_all.h"

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

/* Returns 0 if the file is unchanged, or -ESTALE or another -errno with the reason logged. */
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

/* Sets mode and owner as of @like, the owner only if this process may do that. */
static int take_mode(int fd, const char *like)
{
	struct stat st;

	if (stat(like, &st))
		return -errno;
	if ((st.st_uid != geteuid() || st.st_gid != getegid()) &&
	    fchown(fd, st.st_uid, st.st_gid) && errno != EPERM)
		return -errno;
	return fchmod(fd, st.st_mode & 07777) ? -errno : 0;
}

/* Writes a new file and syncs it. @like: the file whose mode and owner it gets. */
static int write_beside(const char *like, const char *name, const char *text, size_t len)
{
	rd_autoclose int fd = -1;
	int rc;

	unlink(name); /* of a save that was interrupted */
	fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	rc = rd_write_all(fd, text, len);
	if (!rc)
		rc = take_mode(fd, like);
	if (!rc && fsync(fd))
		rc = -errno;
	if (rc)
		unlink(name);
	return rc;
}

static int sync_directory(const char *path)
{
	rd_autofree char *copy = strdup(path);
	rd_autoclose int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	return fd < 0 || fsync(fd) ? -errno : 0;
}

#define NEW_END  ".new~"
#define LIST_END ".save~"

/*
 * Several files are saved together: all new ones are on the disk under the name with ".new~" before
 * the first is renamed. Each file has the old or the new content at any time, and the old one is
 * kept under the name with "~". During the renames, a list of the files is beside the top file,
 * under its name with ".save~": after a crash the next start reports it. Patterns of "include" do
 * not match names with "~".
 */
struct saving {
	struct rdt_config_text *text;
	char *path; /* with symbolic links resolved */
	char *new;
	char *old;
	bool written;  /* @new exists */
	bool replaced; /* @new was renamed to @path */
};

struct save {
	struct saving *files;
	unsigned int count;
	char *list;    /* the name of the list; NULL: a single file needs none */
	bool replaced; /* all files have their new contents */
};

static void save_free(struct save *s)
{
	for (unsigned int i = 0; i < s->count; i++) {
		if (s->files[i].written && !s->files[i].replaced)
			unlink(s->files[i].new);
		free(s->files[i].path);
		free(s->files[i].new);
		free(s->files[i].old);
	}
	free(s->files);
	free(s->list);
}

/* Appends @end to @path; NULL: no memory, or @path is NULL. The caller frees it. */
static char *path_with(const char *path, const char *end)
{
	char *name;

	return path && asprintf(&name, "%s%s", path, end) >= 0 ? name : NULL;
}

static int name_files(struct save *s, struct rdt_config_texts *texts, const char **what)
{
	rd_autofree char *top = NULL;

	s->files = calloc(texts->count, sizeof(*s->files));
	if (!s->files)
		return -ENOMEM;
	for (unsigned int i = 0; i < texts->count; i++) {
		struct saving *f = &s->files[s->count];

		if (!texts->files[i].on_disk)
			continue;
		*what = texts->files[i].path;
		s->count++;
		f->text = &texts->files[i];
		f->path = realpath(texts->files[i].path, NULL); /* it may be a link */
		if (!f->path)
			return -errno;
		f->new = path_with(f->path, NEW_END);
		f->old = path_with(f->path, "~");
		if (!f->new || !f->old)
			return -ENOMEM;
	}
	if (s->count < 2)
		return 0;
	*what = texts->files[0].path;
	top = realpath(texts->files[0].path, NULL);
	if (!top)
		return -errno;
	s->list = path_with(top, LIST_END);
	return s->list ? 0 : -ENOMEM;
}

/* Writes the new files, and keeps the old ones under their second name. */
static int write_files(struct save *s, const char **what)
{
	int rc = 0;

	for (unsigned int i = 0; i < s->count && !rc; i++) {
		struct saving *f = &s->files[i];

		*what = f->path;
		rc = write_beside(f->path, f->new, f->text->text, f->text->len);
		f->written = !rc;
		if (rc)
			break;
		unlink(f->old);
		/* Not every file system has links, and Linux refuses one to a file of another
		 * user. */
		if (link(f->path, f->old))
			rc = write_beside(f->path, f->old, f->text->on_disk, f->text->on_disk_len);
	}
	return rc;
}

static int write_list(struct save *s, const char **what)
{
	rd_autofree char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	bool bad;

	if (!f)
		return -ENOMEM;
	for (unsigned int i = 0; i < s->count; i++)
		fprintf(f, "%s\n", s->files[i].path);
	bad = ferror(f);
	bad |= fclose(f) != 0;
	if (bad)
		return -ENOMEM;
	*what = s->list;
	return write_beside(s->files[0].path, s->list, text, len);
}

static int sync_directories(struct save *s, const char **what)
{
	int rc = s->list ? sync_directory(s->list) : 0;

	for (unsigned int i = 0; i < s->count && !rc; i++) {
		*what = s->files[i].path;
		rc = sync_directory(s->files[i].path);
	}
	return rc;
}

/* Restores @f, which was replaced before the save failed. */
static void put_back(const struct saving *f, struct rd_log *log)
{
	if (rename(f->old, f->path))
		rd_err(log, RD_LOG_CONFIG,
		       "%s: this file has the new content, although others could not be saved, "
		       "because putting back the previous one failed: %s; rename %s to it, or save "
		       "again once the cause is fixed",
		       f->path, strerror(errno), f->old);
}

/* Advice for @err of the file @path. */
static const char *save_advice(const char *path, int err)
{
	struct statx stx;

	/* A new file is renamed over the old one. */
	if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &stx) == 0 &&
	    stx.stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return "; the file is mounted by itself, as into a container, and cannot be "
		       "replaced: mount its directory";
	switch (err) {
	case EACCES:
	case EPERM:
		return "; the user of rdtarget needs the right to write to the directory";
	case EROFS:
		return "; rdtarget sees the directory read-only: mount it writable, or name it in "
		       "ReadWritePaths= of the service";
	case ENOSPC:
	case EDQUOT:
		return "; make room in the file system";
	default:
		return "";
	}
}

/* Replaces all files, or none as far as the file system allows. */
static int replace_files(struct save *s, const char **what, struct rd_log *log)
{
	int rc = 0;

	for (unsigned int i = 0; i < s->count && !rc; i++) {
		*what = s->files[i].path;
		if (rename(s->files[i].new, s->files[i].path))
			rc = -errno;
		s->files[i].replaced = !rc;
	}
	for (unsigned int i = 0; i < s->count && rc; i++)
		if (s->files[i].replaced)
			put_back(&s->files[i], log);
	s->replaced = !rc;
	return rc;
}

static int save_files(struct save *s, const char **what, struct rd_log *log)
{
	int rc = write_files(s, what);

	if (!rc && s->list)
		rc = write_list(s, what);
	if (!rc)
		rc = sync_directories(s, what);
	if (!rc)
		rc = replace_files(s, what, log);
	if (!rc)
		rc = sync_directories(s, what);
	if (s->list)
		unlink(s->list);
	return rc;
}

int rdt_config_save(struct rdt_config_texts *texts, struct rd_log *log)
{
	struct save s = {0};
	const char *what = "";
	int rc;

	for (unsigned int i = 0; i < texts->count; i++) {
		rc = texts->files[i].on_disk ? check_on_disk(&texts->files[i], log) : 0;
		if (rc)
			return rc;
	}
	rc = name_files(&s, texts, &what);
	if (!rc && s.count)
		rc = save_files(&s, &what, log);
	if (rc && s.replaced)
		rd_err(log, RD_LOG_CONFIG,
		       "%s: all files have their new contents, but a power failure may bring back "
		       "previous ones: syncing the directory failed: %s; check the file system, "
		       "then run sync(1)",
		       what, strerror(-rc));
	else if (rc)
		rd_err(log, RD_LOG_CONFIG, "%s: not saved: %s%s", what, strerror(-rc),
		       save_advice(what, -rc));
	for (unsigned int i = 0; i < s.count && !rc; i++) {
		saved_already(s.files[i].text);
		rd_notice(log, RD_LOG_CONFIG, "%s: saved; the previous one is %s~", s.files[i].path,
			  s.files[i].path);
	}
	rc = rc ? rc : (int)s.count;
	save_free(&s);
	return rc;
}

/* ---- a save that was interrupted ---- */

void rdt_config_tell_interrupted(const char *path, struct rd_log *log)
{
	rd_autofree char *top = realpath(path, NULL), *file = NULL;
	rd_autofree char *list = path_with(top, LIST_END);
	FILE *f = list ? fopen(list, "re") : NULL;
	size_t room = 0;

	while (f && getline(&file, &room, f) > 0) {
		rd_autofree char *new = NULL;

		file[strcspn(file, "\n")] = '\0';
		new = path_with(file, NEW_END);
		if (!new || access(new, F_OK))
			continue;
		rd_warn(log, RD_LOG_CONFIG,
			"%s: a save was interrupted before this file was replaced, others of the "
			"same save may have been: rename %s to it, or remove that and restore the "
			"other files from their copies with \"~\"; then remove %s",
			file, new, list);
	}
	if (f)
		fclose(f);
}
