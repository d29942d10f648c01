/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the configuration files: the top file and its includes. */
#include "config_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util/cleanup.h"

/* A larger file is an error, for example a disk image instead of a configuration. */
#define FILE_MAX  (64u << 20)
#define FILES_MAX 16384u
/* Maximum number of patterns, and of all their matches: each costs a directory and memory. */
#define PATTERNS_MAX 256u
#define MATCHES_MAX  (4 * FILES_MAX)
/* Timeout of the next byte from the writer of a pipe. */
#define WRITER_WAIT_S 10

/* ---- one file ---- */

/* Waits for the writer of a pipe. @began: when reading began. Returns 0 or -errno. */
static int wait_readable(int fd, const struct timespec *began)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct timespec now;
	int n;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec - began->tv_sec > RDT_CONFIG_LOAD_S)
		return -ETIMEDOUT;
	n = poll(&p, 1, WRITER_WAIT_S * 1000);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	return n ? 0 : -ETIMEDOUT;
}

/* Read @fd to its end; it need not be a regular file. */
static int read_fd(int fd, char **text, size_t *len)
{
	rd_autofree char *buf = NULL;
	size_t room = 0, got = 0;
	struct timespec began;
	ssize_t n;

	clock_gettime(CLOCK_MONOTONIC, &began);
	for (;;) {
		if (got == room) {
			char *bigger;

			if (got > FILE_MAX)
				return -EFBIG;
			room = room ? 2 * room : 64u << 10;
			bigger = realloc(buf, room);
			if (!bigger)
				return -ENOMEM;
			buf = bigger;
		}
		n = read(fd, buf + got, room - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			int rc = wait_readable(fd, &began);

			if (rc)
				return rc;
			continue;
		}
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	if (got > FILE_MAX)
		return -EFBIG;
	*text = rd_steal(buf);
	*len = got;
	return 0;
}

int rdt_config_read_file(const char *path, char **text, size_t *len, char *why, size_t why_size)
{
	rd_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int rc;

	if (fd < 0 || fstat(fd, &st) < 0) {
		rc = -errno;
	} else if (S_ISDIR(st.st_mode)) {
		snprintf(why, why_size, "is a directory, expected a YAML file");
		return -EISDIR;
	} else {
		rc = read_fd(fd, text, len);
	}
	if (rc == -EFBIG)
		snprintf(why, why_size,
			 "is larger than %u MiB, the limit for one file; if it is a "
			 "configuration, split it, with \"include\" in one part",
			 FILE_MAX >> 20);
	else if (rc == -ETIMEDOUT)
		snprintf(
			why, why_size,
			"is a pipe whose writer has been silent for %d s, or has not ended for %d; "
			"expected a YAML text and its end",
			WRITER_WAIT_S, RDT_CONFIG_LOAD_S);
	else if (rc)
		snprintf(why, why_size, "cannot be read: %s", strerror(-rc));
	return rc;
}

/* @from: the place of the include; NULL: none, this is the top file. */
static int fill_from(struct rdt_config_load *load, const char *path, const char *text, size_t len,
		     const struct rdt_key *from, struct rdt_config *config)
{
	struct rdt_config_file *file = NULL;
	struct rdt_key root;
	int rc = rdt_config_doc_open(load, path, text, len, &file);

	if (rc)
		return rc;
	root = rdt_config_root_of(file);
	if (root.node)
		rdt_config_fill(load, file, config);
	else if (!from)
		rdt_config_problem(load, &root,
				   "is empty, expected \"listeners:\" and \"subsystems:\"; \"{}\" "
				   "is a target without any");
	return root.node || from ? 0 : -EINVAL;
}

/* @pattern: of "include", whose place is @from. */
static int load_file(struct rdt_config_load *load, const char *path, unsigned int pattern,
		     const struct rdt_key *from, struct rdt_config *config)
{
	rd_autofree char *text = NULL;
	char why[256];
	size_t len = 0;
	int rc = rdt_config_read_file(path, &text, &len, why, sizeof(why));

	if (rc && !from)
		rd_err(load->log, RD_LOG_CONFIG, "%s: %s", path, why);
	else if (rc)
		rdt_config_problem(load, from, "%s %s", path, why);
	if (rc)
		return rc;
	if (load->texts && rdt_config_texts_add(load->texts, path, text, len, pattern))
		return -ENOMEM;
	return fill_from(load, path, text, len, from, config);
}

/* ---- included files ---- */

struct included {
	char *path;
	unsigned int pattern; /* index of the pattern in the list */
};

struct inclusion {
	struct included *files;
	unsigned int count;
	unsigned int patterns;
};

static bool is_pattern(const char *text)
{
	return strpbrk(text, "*?[") != NULL;
}

/* The previous version of a file, which saves and editors leave beside it. */
static bool is_previous(const char *path)
{
	size_t len = strlen(path);

	return len && path[len - 1] == '~';
}

static int add_included(struct inclusion *inc, const char *path, unsigned int pattern)
{
	if ((inc->count & (inc->count - 1)) == 0) {
		size_t room = inc->count ? 2 * (size_t)inc->count : 1;
		struct included *files = realloc(inc->files, room * sizeof(*files));

		if (!files)
			return -ENOMEM;
		inc->files = files;
	}
	inc->files[inc->count] = (struct included){strdup(path), pattern};
	return inc->files[inc->count].path ? (inc->count++, 0) : -ENOMEM;
}

/* A directory that does not exist counts as an empty one. */
static int glob_error(const char *path, int err)
{
	return err != ENOENT;
}

/* Expand pattern @n of the list, @text; relative to the directory of the top file. */
static int expand_pattern(struct rdt_config_load *load, const struct rdt_key *key,
			  struct inclusion *inc, const char *text, unsigned int n)
{
	rd_autofree char *copy = strdup(load->path);
	rd_autofree char *full = NULL;
	glob_t found = {0};
	int rc;

	if (!copy || asprintf(&full, "%s%s%s", text[0] == '/' ? "" : dirname(copy),
			      text[0] == '/' ? "" : "/", text) < 0)
		return -ENOMEM;
	if (!is_pattern(text))
		return add_included(inc, full, n);
	if (++inc->patterns > PATTERNS_MAX) {
		rdt_config_problem(load, key,
				   "is one pattern more than the %u that are allowed; write one "
				   "that matches several files",
				   PATTERNS_MAX);
		return 0;
	}
	rc = glob(full, 0, glob_error, &found);
	if (rc == GLOB_ABORTED)
		rdt_config_problem(load, key, "%s: a directory cannot be read: %s", full,
				   strerror(errno));
	rc = rc == GLOB_NOSPACE ? -ENOMEM
				: 0; /* no match is no problem: the directory may be empty */
	for (size_t i = 0; i < found.gl_pathc && !rc; i++)
		if (!is_previous(found.gl_pathv[i]))
			rc = add_included(inc, found.gl_pathv[i], n);
	globfree(&found);
	return rc;
}

/* Load each file once, at its first match: "[first.yaml, *.yaml]" defines an order. */
static int load_each(struct rdt_config_load *load, const struct rdt_key *list,
		     struct inclusion *inc, struct rdt_config *config)
{
	rd_autofree struct rdt_config_id *ids = calloc(inc->count + 1, sizeof(*ids));
	rd_autofree unsigned int *first = calloc(inc->count + 1, sizeof(*first));
	int rc = 0;

	if (!ids || !first)
		return -ENOMEM;
	for (unsigned int i = 0; i < inc->count; i++)
		ids[i] = (struct rdt_config_id){inc->files[i].path, strlen(inc->files[i].path), i};
	rdt_config_firsts(ids, inc->count, first);
	for (unsigned int i = 0; i < inc->count && rc != -ENOMEM && !rdt_config_late(load); i++) {
		struct rdt_key key = rdt_config_item(load, list, inc->files[i].pattern);

		if (load->files_count > FILES_MAX) {
			rdt_config_problem(load, &key,
					   "matches too many files; expected at most %u in all; "
					   "put several subsystems into one file",
					   FILES_MAX);
			break;
		}
		if (first[i] == i)
			rc = load_file(load, inc->files[i].path, inc->files[i].pattern, &key,
				       config);
	}
	return rc == -ENOMEM ? rc : 0; /* problems within the other files were counted */
}

static int load_included(struct rdt_config_load *load, struct rdt_config *config)
{
	struct rdt_key root = rdt_config_root(load);
	struct rdt_key list = rdt_config_child(load, &root, "include");
	struct inclusion inc = {0};
	int rc = 0;

	for (uint32_t i = 0; i < config->include_count && !rc && !rdt_config_late(load); i++) {
		struct rdt_key key = rdt_config_item(load, &list, i);

		if (config->include[i][0])
			rc = expand_pattern(load, &key, &inc, config->include[i], i);
		if (inc.count > MATCHES_MAX) {
			rdt_config_problem(load, &key,
					   "matches %u files together with those before it, "
					   "expected at most %u; remove patterns that match the "
					   "same files",
					   inc.count, MATCHES_MAX);
			break;
		}
	}
	if (!rc)
		rc = load_each(load, &list, &inc, config);
	for (unsigned int i = 0; i < inc.count; i++)
		free(inc.files[i].path);
	free(inc.files);
	return rc;
}

/* The files that "include" matched are given. */
static int fill_included(struct rdt_config_load *load, struct rdt_config *config)
{
	struct rdt_key root = rdt_config_root(load);
	struct rdt_key list = rdt_config_child(load, &root, "include");
	int rc = 0;

	for (unsigned int i = 1; i < load->given && rc != -ENOMEM; i++) {
		const struct rdt_config_text *t = &load->texts->files[i];
		struct rdt_key key = rdt_config_item(load, &list, t->pattern);

		rc = fill_from(load, t->path, t->text, t->len, &key, config);
	}
	return rc == -ENOMEM ? rc : 0; /* problems within the files were counted */
}

int rdt_config_read_all(struct rdt_config_load *load, struct rdt_config *config)
{
	bool all_given = load->given && !load->top_only;
	int rc = load->given ? fill_from(load, load->path, load->texts->files[0].text,
					 load->texts->files[0].len, NULL, config)
			     : load_file(load, load->path, 0, NULL, config);

	if (!rc)
		rc = all_given ? fill_included(load, config) : load_included(load, config);
	return rc ? rc : load->out_of_memory ? -ENOMEM : 0;
}
