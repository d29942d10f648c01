/* SPDX-License-Identifier: BSD-3-Clause */
/* Secrets that options give as text, by a file or by a descriptor; and memory for them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "secret.h"

static const struct {
	const char *prefix;
	const char *verb; /* that makes one */
} secret_kinds[] = {
	[NVMF_KEY_DHCHAP] = {NVMF_AUTH_KEY_PREFIX, "gen-dhchap-key"},
	[NVMF_KEY_TLS] = {NVMF_TLS_KEY_PREFIX, "gen-tls-key"},
};

/* ---- memory ---- */

void *rdi_secret_alloc(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, size, MADV_DONTDUMP);
	return p;
}

void rdi_secret_free(void *p, size_t size)
{
	explicit_bzero(p, size);
	munmap(p, size);
}

/* ---- reading ---- */

bool rdi_secret_given(const struct rdi_secret *s)
{
	return s->text || s->file || s->fd >= 0;
}

/* Reads the first line of @fd; of a line that is too long, enough to tell that it is. */
static int read_secret_line(int fd, char *buf, size_t size)
{
	size_t have = 0;
	ssize_t n = 1;

	while (n > 0 && have < size - 1 && !memchr(buf, '\n', have)) {
		n = read(fd, buf + have, size - 1 - have);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return -errno;
		else
			have += (size_t)n;
	}
	buf[have] = '\0';
	buf[strcspn(buf, "\r\n")] = '\0';
	return 0;
}

static int read_secret_fd(const char *func, const struct rdi_secret *s, int fd, char *buf,
			  size_t size)
{
	const char *name = s->file ? s->file : "the descriptor";
	struct stat st;
	int rc;

	if (fstat(fd, &st))
		return rdi_fail(func, -errno, "%s: %s: %s", s->what, name, strerror(errno));
	if (S_ISREG(st.st_mode) && st.st_mode & S_IRWXO)
		return rdi_fail(func, -EINVAL,
				"%s: %s has the mode %04o, so every user of the machine can read "
				"the secret; expected 0600 or 0640 (chmod o= FILE)",
				s->what, name, (unsigned int)st.st_mode & 07777u);
	rc = read_secret_line(fd, buf, size);
	if (rc)
		return rdi_fail(func, rc, "%s: cannot read %s: %s", s->what, name, strerror(-rc));
	return 0;
}

static int read_secret(const char *func, const struct rdi_secret *s, char *buf, size_t size)
{
	int fd, rc;

	if (s->text) {
		snprintf(buf, size, "%s", s->text);
		return 0;
	}
	if (!s->file)
		return read_secret_fd(func, s, s->fd, buf, size);
	if (!s->file[0])
		return rdi_fail(func, -EINVAL, "%s: the name of its file is empty", s->what);
	if (strncmp(s->file, secret_kinds[s->kind].prefix, strlen(secret_kinds[s->kind].prefix)) ==
	    0)
		return rdi_fail(func, -EINVAL,
				"%s: the name of a file is expected, not the secret itself",
				s->what);
	fd = open(s->file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return rdi_fail(func, -errno, "%s: cannot open %s: %s", s->what, s->file,
				strerror(errno));
	rc = read_secret_fd(func, s, fd, buf, size);
	close(fd);
	return rc;
}

int rdi_secret_take(const char *func, const struct rdi_secret *s, struct nvmf_auth_key *key)
{
	char text[2 * NVMF_AUTH_KEY_TEXT];
	const char *why;
	int rc;

	if ((s->text != NULL) + (s->file != NULL) + (s->fd >= 0) > 1)
		return rdi_fail(func, -EINVAL,
				"%s: it is given twice; set one of %s, %s_file and %s_fd", s->what,
				s->what, s->what, s->what);
	rc = read_secret(func, s, text, sizeof(text));
	if (!rc) {
		why = nvmf_key_parse(s->kind, text, key);
		if (why)
			rc = rdi_fail(func, -EINVAL, "%s%s%s: the secret %s (see rdinit %s)",
				      s->what, s->file ? ": " : "", s->file ? s->file : "", why,
				      secret_kinds[s->kind].verb);
	}
	explicit_bzero(text, sizeof(text));
	return rc;
}
