/* SPDX-License-Identifier: BSD-3-Clause */
#include "folder.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "t_main.h"

#define must(cond) CU_ASSERT_FATAL(cond)

#define FDS        4096
#define TEXTS      128u
#define TEXT       8192u
#define PENDING    8u

enum what { CREATE, APPEND, SYNC, RENAME, UNLINK, SYNC_FOLDER, MARK };

struct t_folder_event {
	enum what what;
	char name[96], to[96];
	unsigned int text; /* CREATE, APPEND, SYNC */
	char *added;
	size_t len;
};

static struct t_folder *folder;
static unsigned int text_of_fd[FDS]; /* plus 1; 0: another file */

/* ---- recording ---- */

static bool is_folder(int fd)
{
	struct stat st;

	return folder && fstat(fd, &st) == 0 && st.st_dev == folder->dev &&
	       st.st_ino == folder->ino;
}

static struct t_folder_event *record(enum what what)
{
	struct t_folder_event *e = &folder->events[folder->count++];

	must(folder->count <= T_FOLDER_EVENTS);
	*e = (struct t_folder_event){.what = what};
	return e;
}

static void set_name(char to[96], const char *name)
{
	must(strlen(name) < 96);
	strcpy(to, name);
}

static void opened(int dir, const char *name, int flags, int fd)
{
	struct t_folder_event *e;

	if (fd < 0 || !(flags & O_CREAT) || !is_folder(dir))
		return;
	must(fd < FDS && flags & O_TRUNC && folder->texts < TEXTS);
	e = record(CREATE);
	set_name(e->name, name);
	e->text = folder->texts++;
	text_of_fd[fd] = e->text + 1;
}

/* The mode counts only with O_CREAT. */
static mode_t mode_arg(int flags, va_list ap)
{
	return flags & O_CREAT ? va_arg(ap, mode_t) : 0;
}

int __real_openat(int dir, const char *name, int flags, ...);
int __wrap_openat(int dir, const char *name, int flags, ...);
int __real_openat64(int dir, const char *name, int flags, ...);
int __wrap_openat64(int dir, const char *name, int flags, ...);
ssize_t __real_write(int fd, const void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __real_unlinkat(int dir, const char *name, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags);
int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_openat(int dir, const char *name, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = __real_openat(dir, name, flags, mode_arg(flags, ap));
	va_end(ap);
	opened(dir, name, flags, fd);
	return fd;
}

int __wrap_openat64(int dir, const char *name, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = __real_openat64(dir, name, flags, mode_arg(flags, ap));
	va_end(ap);
	opened(dir, name, flags, fd);
	return fd;
}

ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
	ssize_t n = __real_write(fd, buf, len);
	struct t_folder_event *e;

	if (n > 0 && folder && fd < FDS && text_of_fd[fd]) {
		e = record(APPEND);
		e->text = text_of_fd[fd] - 1;
		e->added = malloc((size_t)n);
		must(e->added != NULL);
		memcpy(e->added, buf, (size_t)n);
		e->len = (size_t)n;
	}
	return n;
}

int __wrap_fsync(int fd)
{
	int rc = __real_fsync(fd);

	if (rc == 0 && is_folder(fd)) {
		if (folder->mistake != T_FOLDER_SYNC_DROPPED)
			record(SYNC_FOLDER);
	} else if (rc == 0 && folder && fd < FDS && text_of_fd[fd] &&
		   folder->mistake != T_FILE_SYNC_DROPPED) {
		record(SYNC)->text = text_of_fd[fd] - 1;
	}
	return rc;
}

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	int rc = __real_renameat(from_dir, from, to_dir, to);
	struct t_folder_event *e;

	if (rc < 0 || !is_folder(to_dir))
		return rc;
	e = record(RENAME);
	set_name(e->name, from);
	set_name(e->to, to);
	if (folder->mistake == T_RENAME_EARLY) { /* exchange it with the sync of the file */
		struct t_folder_event last = e[-1];

		must(last.what == SYNC);
		e[-1] = *e;
		*e = last;
	}
	return rc;
}

int __wrap_unlinkat(int dir, const char *name, int flags)
{
	int rc = __real_unlinkat(dir, name, flags);

	if (rc == 0 && is_folder(dir))
		set_name(record(UNLINK)->name, name);
	return rc;
}

int __wrap_close(int fd)
{
	if (fd >= 0 && fd < FDS)
		text_of_fd[fd] = 0;
	return __real_close(fd);
}

void t_folder_watch(struct t_folder *f, const char *dir)
{
	struct stat st;

	must(stat(dir, &st) == 0 && !folder);
	*f = (struct t_folder){.dev = st.st_dev, .ino = st.st_ino};
	f->events = calloc(T_FOLDER_EVENTS + 1, sizeof(*f->events));
	must(f->events != NULL);
	memset(text_of_fd, 0, sizeof(text_of_fd));
	folder = f;
}

void t_folder_end(struct t_folder *f)
{
	folder = NULL;
}

void t_folder_free(struct t_folder *f)
{
	for (unsigned int i = 0; i < f->count; i++)
		free(f->events[i].added);
	free(f->events);
	f->events = NULL;
}

void t_folder_mark(struct t_folder *f)
{
	struct t_folder_event *e = record(MARK);

	if (f->mistake == T_ANSWER_EARLY && f->count > 1 && e[-1].what == SYNC_FOLDER) {
		e->what = SYNC_FOLDER;
		e[-1].what = MARK;
	}
}

/* ---- what can be left ---- */

struct text {
	char all[TEXT];
	size_t len, synced;
};

struct entries {
	struct {
		char name[96];
		unsigned int text;
	} at[T_FOLDER_FILES];
	unsigned int count;
};

/* A change of a name that was not synced. */
struct pending {
	const struct t_folder_event *event;
	unsigned int text; /* of a rename: the text that it moves */
};

struct replay {
	t_folder_fn fn;
	void *arg;
	struct text *texts; /* [TEXTS] */
	struct entries stored;
	struct pending pending[PENDING]; /* since the last sync of the folder */
	unsigned int pending_count;
	struct entries now;
	unsigned int marks;
};

static void unlink_entry(struct entries *e, const char *name)
{
	for (unsigned int i = 0; i < e->count; i++) {
		if (strcmp(e->at[i].name, name) == 0) {
			e->at[i] = e->at[--e->count];
			return;
		}
	}
}

static void link_entry(struct entries *e, const char *name, unsigned int text)
{
	unlink_entry(e, name);
	must(e->count < T_FOLDER_FILES);
	set_name(e->at[e->count].name, name);
	e->at[e->count++].text = text;
}

static unsigned int find_entry(const struct entries *e, const char *name)
{
	for (unsigned int i = 0; i < e->count; i++)
		if (strcmp(e->at[i].name, name) == 0)
			return e->at[i].text;
	CU_FAIL_FATAL("no such name");
	return 0;
}

static void apply(struct entries *e, const struct pending *p)
{
	const struct t_folder_event *change = p->event;

	switch (change->what) {
	case CREATE:
		link_entry(e, change->name, change->text);
		break;
	case RENAME:
		unlink_entry(e, change->name);
		link_entry(e, change->to, p->text);
		break;
	default:
		unlink_entry(e, change->name);
		break;
	}
}

static void change_names(struct replay *r, const struct t_folder_event *e)
{
	struct pending p = {
		.event = e,
		.text = e->what == RENAME ? find_entry(&r->now, e->name) : 0,
	};

	must(r->pending_count < PENDING);
	r->pending[r->pending_count++] = p;
	apply(&r->now, &p);
}

/* The contents of the files in @e: what is synced, and of the rest nothing, a half, zeroes or
 * all. */
static void give(struct replay *r, const struct entries *e)
{
	static const char zeroes[TEXT];
	struct t_folder_file files[T_FOLDER_FILES];

	for (unsigned int how = 0; how < 4; how++) {
		bool varies = false;

		for (unsigned int i = 0; i < e->count; i++) {
			const struct text *t = &r->texts[e->at[i].text];
			size_t more = t->len - t->synced;

			set_name(files[i].name, e->at[i].name);
			files[i].text = how == 2 && more && !t->synced ? zeroes : t->all;
			files[i].len = how == 0   ? t->len
				       : how == 1 ? t->synced
				       : how == 2 ? t->len
						  : t->synced + more / 2;
			varies |= more > 0;
		}
		r->fn(r->arg, r->marks, files, e->count);
		if (!varies)
			return;
	}
}

static void give_all(struct replay *r)
{
	for (unsigned int mask = 0; mask < 1u << r->pending_count; mask++) {
		struct entries e = r->stored;

		for (unsigned int i = 0; i < r->pending_count; i++)
			if (mask >> i & 1)
				apply(&e, &r->pending[i]);
		give(r, &e);
	}
}

static void replay_event(struct replay *r, const struct t_folder_event *e)
{
	struct text *t = &r->texts[e->text];

	switch (e->what) {
	case APPEND:
		must(t->len + e->len <= TEXT);
		memcpy(t->all + t->len, e->added, e->len);
		t->len += e->len;
		break;
	case SYNC:
		t->synced = t->len;
		break;
	case SYNC_FOLDER:
		r->stored = r->now;
		r->pending_count = 0;
		break;
	case MARK:
		r->marks++;
		break;
	default:
		/* A wrong program may never sync: the oldest changes count as stored. */
		if (r->pending_count == PENDING) {
			apply(&r->stored, &r->pending[0]);
			memmove(&r->pending[0], &r->pending[1],
				(PENDING - 1) * sizeof(r->pending[0]));
			r->pending_count--;
		}
		change_names(r, e);
		break;
	}
}

void t_folder_each(struct t_folder *f, t_folder_fn fn, void *arg)
{
	struct replay *r = calloc(1, sizeof(*r));

	must(r != NULL);
	r->fn = fn;
	r->arg = arg;
	r->texts = calloc(TEXTS, sizeof(*r->texts));
	must(r->texts != NULL);
	give_all(r);
	for (unsigned int i = 0; i < f->count; i++) {
		replay_event(r, &f->events[i]);
		give_all(r);
	}
	free(r->texts);
	free(r);
}
