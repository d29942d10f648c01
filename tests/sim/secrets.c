/* SPDX-License-Identifier: BSD-3-Clause */
#include "secrets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* All begin with these bytes, so that a part of any is found in a log: as it is, in base64, in hex.
 */
#define BEGIN "simulated-"
static const char *const begins[] = {BEGIN, "c2ltdWxhdGVkL", "73696d756c61746564"};

static int make_secret(struct secrets *s, unsigned int i)
{
	struct nvmf_auth_key key = {.hash = NVMF_AUTH_SHA256, .len = 32};
	size_t len;
	int rc;

	snprintf((char *)key.secret, sizeof(key.secret), BEGIN "secret-of-number-%u-----", i);
	rc = nvmf_auth_key_format(&key, s->text[i]);
	if (rc)
		return rc;
	len = strlen(s->text[i]);
	s->fd[i] = memfd_create("secret", MFD_CLOEXEC);
	if (s->fd[i] < 0 || fchmod(s->fd[i], 0600) ||
	    write(s->fd[i], s->text[i], len) != (ssize_t)len)
		return -EIO;
	return 0;
}

int secrets_new(struct secrets **out)
{
	struct secrets *s = calloc(1, sizeof(*s));
	int rc = 0;

	*out = s;
	if (!s)
		return -ENOMEM;
	s->group = "null";
	for (unsigned int i = 0; i < SECRET_TEXTS; i++)
		s->fd[i] = -1;
	for (unsigned int i = 0; i < SECRET_TEXTS && !rc; i++)
		rc = make_secret(s, i);
	return rc;
}

void secrets_free(struct secrets *s)
{
	for (unsigned int i = 0; s && i < SECRET_TEXTS; i++)
		if (s->fd[i] >= 0)
			close(s->fd[i]);
	free(s);
}

int secret_of_host(enum secret_kind kind)
{
	return kind == SECRET_HOST ? 0 : 1;
}

int secret_of_ctrl(enum secret_kind kind)
{
	return kind == SECRET_BOTH ? 2 : kind == SECRET_BOTH_2 ? 3 : -1;
}

bool secrets_opts(const struct secrets *s, enum secret_kind kind, struct rdinit_auth_opts *opts)
{
	rdinit_auth_opts_init(opts);
	if (kind == SECRET_NONE)
		return false;
	opts->secret = s->text[secret_of_host(kind)];
	if (secret_of_ctrl(kind) >= 0)
		opts->ctrl_secret = s->text[secret_of_ctrl(kind)];
	return true;
}

bool secrets_match(enum secret_kind host, enum secret_kind target)
{
	/* A host that has a secret of the controller demands its proof. */
	return host == target || (host == SECRET_HOST && target == SECRET_NONE);
}

bool secrets_shown(const char *text)
{
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (strstr(text, begins[i]))
			return true;
	return false;
}
