/* SPDX-License-Identifier: BSD-3-Clause */
#include "key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/cleanup.h"

#define PATH_TEXT 512u

/* A name without a slash is a credential of systemd. */
static int key_path(const char *name, char path[PATH_TEXT], char *why, size_t why_size)
{
	const char *dir = secure_getenv("CREDENTIALS_DIRECTORY");
	int len;

	if (!strchr(name, '/') && !dir) {
		snprintf(why, why_size,
			 "found \"%.60s\", which without a slash is the name of a systemd "
			 "credential, but CREDENTIALS_DIRECTORY is not set; write the path "
			 "of the file, or add LoadCredential=%.60s:PATH to the unit",
			 name, name);
		return -EINVAL;
	}
	len = strchr(name, '/') ? snprintf(path, PATH_TEXT, "%s", name)
				: snprintf(path, PATH_TEXT, "%s/%s", dir, name);
	if (len >= 0 && (size_t)len < PATH_TEXT)
		return 0;
	snprintf(why, why_size, "has more than %u characters", PATH_TEXT - 1);
	return -EINVAL;
}

/* Checks that no other user can read or replace the contents. systemd gives credentials an access
 * control list, whose mask appears as the group's mode bits; their directory protects them. */
static int file_is_private(const char *path, const struct stat *st, bool credential, char *why,
			   size_t why_size)
{
	mode_t others = credential ? 07 : 077;

	if (!S_ISREG(st->st_mode))
		snprintf(why, why_size, "%.200s is not a regular file", path);
	else if (st->st_uid != 0 && st->st_uid != geteuid())
		snprintf(why, why_size,
			 "%.200s belongs to user %u, expected root or the user of rdtarget "
			 "(%u); use chown",
			 path, (unsigned int)st->st_uid, (unsigned int)geteuid());
	else if (st->st_mode & others)
		snprintf(why, why_size,
			 "%.200s can be used by others (mode %04o), expected mode 0600 or "
			 "0400; use chmod",
			 path, (unsigned int)st->st_mode & 07777);
	else
		return 0;
	return -EACCES;
}

int rdt_key_file_read(const char *name, char text[RDT_KEY_FILE_MAX], size_t *len, char *why,
		      size_t why_size)
{
	char path[PATH_TEXT];
	rd_autoclose int fd = -1;
	struct stat st;
	ssize_t got;
	int rc = key_path(name, path, why, why_size);

	if (rc)
		return rc;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st)) {
		rc = -errno;
		snprintf(why, why_size, "%.200s: %s", path, strerror(-rc));
		return rc;
	}
	rc = file_is_private(path, &st, !strchr(name, '/'), why, why_size);
	if (rc)
		return rc;
	got = read(fd, text, RDT_KEY_FILE_MAX - 1);
	if (got < 0) {
		rc = -errno;
		snprintf(why, why_size, "%.200s: %s", path, strerror(-rc));
		return rc;
	}
	text[got] = '\0';
	*len = (size_t)got;
	return 0;
}
