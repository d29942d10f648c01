/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state directory: for each attached device a file NAME, which udev's rule imports, and a file
 * NAME.lock, which the device's process locks for as long as it lives.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "internal.h"
#include "util/map.h"
#include "util/parse.h"

#define DIR_LOCK      ".lock"
#define DIR_LOCK_MS   10000 /* how long another process may hold it */
#define DIR_LOCK_STEP 20
#define FILE_SIZE_MAX 4096
#define DEVICES_MAX   4096 /* files that are looked at */
#define PATH_PART     (RDI_ATTACH_NAME + 16)

static const char *const state_names[] = {
	[RDI_ATTACH_OPENING] = "opening", [RDI_ATTACH_STARTING] = "starting",
	[RDI_ATTACH_LIVE] = "live",       [RDI_ATTACH_WAITING] = "waiting",
	[RDI_ATTACH_FAILED] = "failed",   [RDI_ATTACH_STOPPING] = "stopping",
	[RDI_ATTACH_ENDED] = "ended",     [RDI_ATTACH_LEFT] = "left",
};
#define STATES (sizeof(state_names) / sizeof(state_names[0]))

static const char *const kind_names[] = {
	[RDI_ATTACH_AUTO] = "auto", [RDI_ATTACH_UBLK] = "ublk", [RDI_ATTACH_NBD] = "nbd"};
#define KINDS (sizeof(kind_names) / sizeof(kind_names[0]))

const char *rdi_attach_state_name(enum rdi_attach_state state)
{
	return (unsigned int)state < STATES ? state_names[state] : "unknown";
}

const char *rdi_attach_kind_name(enum rdi_attach_kind kind)
{
	return (unsigned int)kind < KINDS ? kind_names[kind] : "unknown";
}

/* ---- identifiers of namespaces ---- */

/* Of an NQN with a character that is replaced. */
#define ID_NQN_PART 180

static bool id_bytes(char *out, const uint8_t *id, size_t len)
{
	static const uint8_t none[16];

	memcpy(out, "eui.", 4);
	rd_format_hex(id, len, out + 4);
	return memcmp(id, none, len) != 0;
}

/* Returns whether a character was replaced. */
static bool id_replace(char *c)
{
	static const char good[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_:";
	bool any = false;

	while (*(c += strspn(c, good))) {
		*c = '_';
		any = true;
	}
	return any;
}

void rdi_attach_id(const struct rdinit_dev_info *ns, char id[RDI_ATTACH_ID])
{
	if (!uuid_is_null(ns->uuid)) {
		uuid_unparse_lower(ns->uuid, id);
		return;
	}
	if (id_bytes(id, ns->nguid, sizeof(ns->nguid)) ||
	    id_bytes(id, ns->eui64, sizeof(ns->eui64)))
		return;
	snprintf(id, RDI_ATTACH_ID, "%s", ns->subnqn);
	if (!id_replace(id)) {
		snprintf(id, RDI_ATTACH_ID, "%s-%u", ns->subnqn, ns->nsid);
		return;
	}
	/* The hash keeps NQNs apart that differ in such a character only. It has more digits than
	 * an NSID has, so that such a name is never that of another NQN. */
	id[ID_NQN_PART] = '\0';
	snprintf(id + strlen(id), RDI_ATTACH_ID - strlen(id), "-%u-%016" PRIx64, ns->nsid,
		 rd_map_hash(ns->subnqn));
}

/* ---- locks ---- */

static struct flock whole_file(void)
{
	return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

static int open_lock(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

	return fd < 0 ? -errno : fd;
}

/* What to do after error @rc, if that is known. */
static const char *as_root(int rc)
{
	return rc == -EACCES || rc == -EPERM ? "; run rdinit as root" : "";
}

int rdi_attach_dir_lock(int dir, char *why)
{
	struct flock lock = whole_file();
	int fd = open_lock(dir, DIR_LOCK), waited = 0;

	if (fd < 0)
		return rdi_attach_why(why, fd, "cannot open the lock of the state directory: %s%s",
				      strerror(-fd), as_root(fd));
	while (fcntl(fd, F_SETLK, &lock)) {
		if (waited >= DIR_LOCK_MS) {
			lock = whole_file();
			fcntl(fd, F_GETLK, &lock);
			close(fd);
			return rdi_attach_why(
				why, -ETIMEDOUT,
				"process %d has held the lock of the state directory for %d s: "
				"end it, or try again",
				(int)lock.l_pid, DIR_LOCK_MS / 1000);
		}
		poll(NULL, 0, DIR_LOCK_STEP);
		waited += DIR_LOCK_STEP;
		lock = whole_file();
	}
	return fd;
}

int rdi_attach_file_holder(int dir, const char *name)
{
	struct flock lock = whole_file();
	char path[PATH_PART];
	int fd, pid = 0;

	snprintf(path, sizeof(path), "%s.lock", name);
	fd = openat(dir, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	if (fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
		pid = (int)lock.l_pid;
	close(fd);
	return pid;
}

int rdi_attach_file_claim(struct rdi_attach_file *file, const char *name, char *why)
{
	struct flock lock = whole_file();
	char path[PATH_PART];
	int fd;

	snprintf(path, sizeof(path), "%s.lock", name);
	fd = open_lock(file->dir, path);
	if (fd < 0)
		return rdi_attach_why(why, fd, "cannot open %s in the state directory: %s", path,
				      strerror(-fd));
	if (fcntl(fd, F_SETLK, &lock)) {
		close(fd);
		return rdi_attach_why(why, -EBUSY, "another process serves %s", name);
	}
	file->lock = fd;
	snprintf(file->name, sizeof(file->name), "%s", name);
	return 0;
}

/* ---- the directory ---- */

/* Makes @path and what is missing above it. */
static int make_dirs(const char *path)
{
	char part[256];
	size_t at, len = strlen(path);

	if (len >= sizeof(part))
		return -ENAMETOOLONG;
	for (at = 1; at <= len; at++) {
		if (path[at] != '/' && path[at] != '\0')
			continue;
		memcpy(part, path, at);
		part[at] = '\0';
		if (mkdir(part, 0755) && errno != EEXIST)
			return -errno;
	}
	return 0;
}

int rdi_attach_dir_open(const char *path, bool make, char *why)
{
	int rc = make ? make_dirs(path) : 0;
	int fd = rc ? rc : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	rc = rc ? rc : -errno;
	return rdi_attach_why(why, rc, "cannot open the state directory %s: %s%s", path,
			      strerror(-rc), as_root(rc));
}

/* ---- files ---- */

int rdi_attach_file_write(const struct rdi_attach_file *file, const struct rdi_attach_info *info)
{
	char path[PATH_PART], text[FILE_SIZE_MAX];
	int fd, rc = 0, len;

	len = snprintf(text, sizeof(text),
		       "RDINIT_ID=%s\nRDINIT_DRIVER=%s\nRDINIT_STATE=%s\nRDINIT_SUBNQN=%s\n"
		       "RDINIT_NSID=%u\nRDINIT_BLOCKS=%llu\nRDINIT_BLOCK_SIZE=%u\n"
		       "RDINIT_READ_ONLY=%d\n",
		       info->id, rdi_attach_kind_name(info->kind),
		       rdi_attach_state_name(info->state), info->subnqn, info->nsid,
		       (unsigned long long)info->blocks, info->block_size, info->read_only);
	snprintf(path, sizeof(path), ".%s.new", file->name);
	fd = openat(file->dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -errno;
	if (write(fd, text, (size_t)len) != len)
		rc = errno ? -errno : -EIO;
	close(fd);
	if (!rc && renameat(file->dir, path, file->dir, file->name))
		rc = -errno;
	if (rc)
		unlinkat(file->dir, path, 0);
	return rc;
}

void rdi_attach_file_remove(int dir, const char *name)
{
	char path[PATH_PART];

	unlinkat(dir, name, 0);
	snprintf(path, sizeof(path), "%s.lock", name);
	unlinkat(dir, path, 0);
}

void rdi_attach_file_end(struct rdi_attach_file *file, bool gone)
{
	if (file->lock < 0)
		return;
	if (gone)
		rdi_attach_file_remove(file->dir, file->name);
	close(file->lock);
	file->lock = -1;
}

static bool take_state_number(const char *text, uint64_t max, uint64_t *out)
{
	return rd_parse_u64(text, 0, max, out) == 0;
}

static int index_of(const char *const *names, size_t n, const char *text)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (strcmp(names[i], text) == 0)
			return (int)i;
	}
	return -1;
}

/* Takes one line of a file. Returns whether it is valid. */
static bool take_line(struct rdi_attach_info *info, const char *key, const char *value)
{
	uint64_t n = 0;
	int i = 0;
	bool ok = true;

	if (strcmp(key, "RDINIT_ID") == 0) {
		snprintf(info->id, sizeof(info->id), "%s", value);
	} else if (strcmp(key, "RDINIT_SUBNQN") == 0) {
		snprintf(info->subnqn, sizeof(info->subnqn), "%s", value);
	} else if (strcmp(key, "RDINIT_DRIVER") == 0) {
		i = index_of(kind_names, KINDS, value);
		info->kind = (enum rdi_attach_kind)i;
	} else if (strcmp(key, "RDINIT_STATE") == 0) {
		i = index_of(state_names, STATES, value);
		info->state = (enum rdi_attach_state)i;
	} else if (strcmp(key, "RDINIT_NSID") == 0) {
		ok = take_state_number(value, UINT32_MAX, &n);
		info->nsid = (uint32_t)n;
	} else if (strcmp(key, "RDINIT_BLOCKS") == 0) {
		ok = take_state_number(value, UINT64_MAX, &info->blocks);
	} else if (strcmp(key, "RDINIT_BLOCK_SIZE") == 0) {
		ok = take_state_number(value, UINT32_MAX, &n);
		info->block_size = (uint32_t)n;
	} else if (strcmp(key, "RDINIT_READ_ONLY") == 0) {
		ok = take_state_number(value, 1, &n);
		info->read_only = n;
	}
	return ok && i >= 0;
}

static int read_state_text(int dir, const char *name, char *text, size_t size)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, size - 1);
	if (n < 0)
		n = -errno;
	close(fd);
	if (n < 0)
		return (int)n;
	text[n] = '\0';
	return 0;
}

int rdi_attach_file_read(int dir, const char *name, struct rdi_attach_info *out)
{
	char text[FILE_SIZE_MAX], *line, *rest = NULL, *value;
	int rc = read_state_text(dir, name, text, sizeof(text));

	if (rc)
		return rc;
	*out = (struct rdi_attach_info){.pid = 0};
	snprintf(out->name, sizeof(out->name), "%s", name);
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		value = strchr(line, '=');
		if (!value)
			return -EBADMSG;
		*value++ = '\0';
		if (!take_line(out, line, value))
			return -EBADMSG;
	}
	if (!out->id[0] || out->kind == RDI_ATTACH_AUTO || !out->block_size)
		return -EBADMSG;
	out->pid = rdi_attach_file_holder(dir, name);
	if (!out->pid)
		out->state = RDI_ATTACH_LEFT;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

int rdi_attach_dir_each(int dir, bool (*fn)(void *user, const struct rdi_attach_info *info),
			void *user)
{
	char *names[DEVICES_MAX];
	struct rdi_attach_info info;
	struct dirent *e;
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0, i, found = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	bool more = true;

	if (!d) {
		i = -errno;
		if (fd >= 0)
			close(fd);
		return i;
	}
	while (n < DEVICES_MAX && (e = readdir(d))) {
		if (strchr(e->d_name, '.') || strlen(e->d_name) >= RDI_ATTACH_NAME)
			continue;
		names[n] = strdup(e->d_name);
		n += names[n] != NULL;
	}
	closedir(d);
	qsort(names, (size_t)n, sizeof(names[0]), compare_names);
	for (i = 0; i < n; i++) {
		if (more && rdi_attach_file_read(dir, names[i], &info) == 0) {
			found++;
			more = fn(user, &info);
		}
		free(names[i]);
	}
	return found;
}
