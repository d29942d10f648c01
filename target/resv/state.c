/* SPDX-License-Identifier: BSD-3-Clause */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/write_all.h"

#define SUFFIX   ".new"
#define TEXT_MAX (1u << 20)

struct rdt_state {
	char *dir;
	int fd;                        /* of the directory, locked */
	struct rdt_state_files *files; /* used instead of the directory; NULL: none */
	struct rd_log *log;
	struct rd_loop *main;
	struct rd_loop *loop; /* of the writer thread */
	pthread_t thread;
	bool running;
	unsigned int pending; /* jobs in progress; main thread only */
	bool made;            /* the directory was created */
	/* the first error of a sync, as -errno, after which nothing is written; writer thread
	 * only */
	int sync_err;
	struct rd_ratelimit fail_limit; /* log lines about files that could not be changed */
};

/* ---- files ---- */

/* The kernel reports a failed sync once and drops the data, so the results of later syncs mean
 * nothing. */
static int sync_failed(struct rdt_state *s, const char *name, int err)
{
	s->sync_err = err;
	rd_err(s->log, RD_LOG_TARGET,
	       "%s/%s: SYNC FAILED: %s (errno %d): what was written there may be lost. From now "
	       "on reservations that persist and write protection cannot be changed. Check the "
	       "file system, then restart rdtarget",
	       s->dir, name, strerror(-err), -err);
	return err;
}

static int write_new(struct rdt_state *s, const char *tmp, const char *text, size_t len)
{
	int fd = openat(s->fd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int rc;

	if (fd < 0)
		return -errno;
	rc = rd_write_all(fd, text, len);
	/* Before the rename: the name must never refer to text that is not on stable storage. */
	if (!rc && fsync(fd) < 0) {
		rc = -errno;
		/* Without space nothing is lost: the temporary file is removed. */
		if (rc != -ENOSPC && rc != -EDQUOT)
			sync_failed(s, tmp, rc);
	}
	if (close(fd) < 0 && !rc)
		rc = -errno;
	return rc;
}

static int sync_dir(struct rdt_state *s)
{
	/* Some file systems do not support it, and do not need it. */
	if (fsync(s->fd) == 0 || errno == EINVAL || errno == ENOTSUP)
		return 0;
	return sync_failed(s, ".", -errno);
}

static int replace_file(struct rdt_state *s, const char *name, const char *text, size_t len)
{
	char tmp[sizeof(((struct rdt_state_job *)0)->name) + sizeof(SUFFIX)];
	int rc;

	snprintf(tmp, sizeof(tmp), "%s" SUFFIX, name);
	rc = write_new(s, tmp, text, len);
	if (!rc && renameat(s->fd, tmp, s->fd, name) < 0)
		rc = -errno;
	if (rc)
		unlinkat(s->fd, tmp, 0);
	return rc ? rc : sync_dir(s);
}

static int remove_file(struct rdt_state *s, const char *name)
{
	if (unlinkat(s->fd, name, 0) < 0)
		return errno == ENOENT ? 0 : -errno;
	return sync_dir(s);
}

static int read_file(const struct rdt_state *s, const char *name, size_t max, char **text,
		     size_t *len)
{
	rd_autoclose int fd = openat(s->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	rd_autofree char *buf = NULL;
	ssize_t n = 1;

	*text = NULL;
	*len = 0;
	if (fd < 0)
		return -errno;
	buf = malloc(max + 1);
	if (!buf)
		return -ENOMEM;
	while (*len < max && n) {
		n = read(fd, buf + *len, max - *len);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			*len += (size_t)n;
	}
	if (n)
		return -EFBIG;
	buf[*len] = 0;
	*text = rd_steal(buf);
	return 0;
}

int rdt_state_read(const struct rdt_state *s, const char *name, char **text, size_t *len)
{
	return s->files ? s->files->read(s->files, name, text, len)
			: read_file(s, name, TEXT_MAX, text, len);
}

static void read_text(const struct rdt_state *s, const char *uuid, const char *suffix,
		      struct rdt_state_text *out)
{
	char name[sizeof(((struct rdt_state_job *)0)->name)];

	snprintf(name, sizeof(name), "%s%s", uuid, suffix);
	*out = (struct rdt_state_text){.err = -ENOENT};
	if (s)
		out->err = rdt_state_read(s, name, &out->text, &out->len);
}

void rdt_state_read_ns(const struct rdt_state *s, const char *uuid, struct rdt_state_ns *out)
{
	read_text(s, uuid, RDT_STATE_RESV, &out->resv);
	read_text(s, uuid, RDT_STATE_PROTECT, &out->protect);
}

void rdt_state_ns_fini(struct rdt_state_ns *stored)
{
	free(stored->resv.text);
	free(stored->protect.text);
	*stored = (struct rdt_state_ns){0};
}

static int run_read(struct rdt_state *s, struct rdt_state_job *job)
{
	return s->files ? s->files->read(s->files, job->name, &job->text, &job->len)
			: read_file(s, job->name, job->max, &job->text, &job->len);
}

/* ---- the writer ---- */

static void state_answer_msg(struct rd_msg *msg)
{
	struct rdt_state_job *job = rd_container_of(msg, struct rdt_state_job, msg);

	job->state->pending--;
	job->done(job);
}

static void write_msg(struct rd_msg *msg)
{
	struct rdt_state_job *job = rd_container_of(msg, struct rdt_state_job, msg);
	struct rdt_state *s = job->state;

	if (job->max) {
		job->err = run_read(s, job);
		job->msg.fn = state_answer_msg;
		rd_loop_post(s->main, &job->msg);
		return;
	}
	if (s->sync_err)
		job->err = s->sync_err;
	else if (s->files)
		job->err = s->files->replace(s->files, job->name, job->text, job->len);
	else if (job->text)
		job->err = replace_file(s, job->name, job->text, job->len);
	else
		job->err = remove_file(s, job->name);
	free(job->text);
	job->text = NULL;
	if (job->err)
		rd_log_limited(&s->fail_limit, rd_loop_now(s->loop), s->log, RD_LOG_TARGET,
			       RD_LOG_ERROR, "%s/%s: cannot be %s: %s", s->dir, job->name,
			       job->len ? "written" : "removed", strerror(-job->err));
	job->msg.fn = state_answer_msg;
	rd_loop_post(s->main, &job->msg);
}

void rdt_state_write(struct rdt_state *s, struct rdt_state_job *job)
{
	job->state = s;
	s->pending++;
	job->err = 0;
	job->msg.fn = write_msg;
	rd_loop_post(s->loop, &job->msg);
}

bool rdt_state_unlock(struct rdt_state *s)
{
	return !s->pending && (s->fd < 0 || flock(s->fd, LOCK_UN) == 0);
}

static void *writer_thread(void *arg)
{
	struct rdt_state *s = arg;
	int err;

	pthread_setname_np(pthread_self(), "state");
	err = rd_loop_run(s->loop);
	if (err)
		rd_err(s->log, RD_LOG_TARGET, "%s: the writer thread stopped: %s", s->dir,
		       strerror(-err));
	return NULL;
}

int rdt_state_start(struct rdt_state *s)
{
	int err = pthread_create(&s->thread, NULL, writer_thread, s);

	if (err) {
		rd_err(s->log, RD_LOG_TARGET, "cannot start the thread that writes %s: %s", s->dir,
		       strerror(err));
		return -err;
	}
	s->running = true;
	return 0;
}

struct rd_loop *rdt_state_loop(struct rdt_state *s)
{
	return s->loop;
}

int rdt_state_fd(const struct rdt_state *s)
{
	return s->fd;
}

const char *rdt_state_dir(const struct rdt_state *s)
{
	return s->dir;
}

bool rdt_state_made(const struct rdt_state *s)
{
	return s->made;
}

/* ---- construction ---- */

/* Returns whether the lock of this directory was handed over. */
static bool has_lock(struct rdt_state *s)
{
	struct stat have, want;

	if (s->fd < 0)
		return false;
	if (fstat(s->fd, &have) == 0 && stat(s->dir, &want) == 0 && have.st_dev == want.st_dev &&
	    have.st_ino == want.st_ino)
		return true;
	close(s->fd);
	s->fd = -1;
	return false;
}

static int open_dir(struct rdt_state *s)
{
	if (has_lock(s))
		return 0;
	s->made = mkdir(s->dir, 0700) == 0;
	if (!s->made && errno != EEXIST) {
		rd_err(s->log, RD_LOG_TARGET, "state_dir %s: cannot be created: %s%s", s->dir,
		       strerror(errno), errno == ENOENT ? "; create its parent directory" : "");
		return -errno;
	}
	s->fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->fd < 0 || faccessat(s->fd, ".", W_OK | X_OK, AT_EACCESS) < 0) {
		int rc = -errno;

		rd_err(s->log, RD_LOG_TARGET,
		       "state_dir %s: %s; expected a directory that user %u may write to", s->dir,
		       strerror(-rc), (unsigned int)geteuid());
		return rc;
	}
	if (flock(s->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
		rd_err(s->log, RD_LOG_TARGET,
		       "state_dir %s: another rdtarget uses it; each needs its own", s->dir);
		return -EBUSY;
	}
	return 0;
}

int rdt_state_open(struct rdt_state_files *files, const struct rd_clock *clock, const char *dir,
		   int lock, struct rd_log *log, struct rd_loop *main, struct rdt_state **out)
{
	struct rd_loop_opts opts = {.log = log, .clock = clock};
	struct rdt_state *s = calloc(1, sizeof(*s));
	int rc = -ENOMEM;

	*out = NULL;
	if (!s) {
		if (lock >= 0)
			close(lock);
		return rc;
	}
	s->fd = lock;
	s->files = files;
	s->log = log;
	s->main = main;
	s->dir = strdup(dir);
	if (!s->dir)
		goto err_close;
	rc = files ? 0 : open_dir(s);
	if (!rc)
		rc = rd_loop_create(&opts, &s->loop);
	if (rc)
		goto err_close;
	*out = s;
	return 0;

err_close:
	rdt_state_close(&s);
	return rc;
}

void rdt_state_close(struct rdt_state **state)
{
	struct rdt_state *s = *state;

	if (!s)
		return;
	if (s->running) {
		rd_loop_stop(s->loop);
		pthread_join(s->thread, NULL);
	}
	rd_loop_destroy(&s->loop);
	if (s->fd >= 0)
		close(s->fd);
	free(s->dir);
	free(s);
	*state = NULL;
}

int rdt_state_bad(char *why, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return -EINVAL;
}
