/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/cleanup.h"

/* A configuration of this size is a mistake: an image given for the file, for instance. */
#define FILE_MAX (4u << 20)

static const cyaml_config_t cyaml_plain = {
	.mem_fn = cyaml_mem,
	.log_level = CYAML_LOG_ERROR,
	.flags = CYAML_CFG_NO_ALIAS,
};

/* libcyaml's own words, for what the check against the schema let through (aliases). */
__attribute__((format(printf, 3, 0))) static void cyaml_said(cyaml_log_t level, void *ctx,
							     const char *fmt, va_list args)
{
	struct rdt_config_load *load = ctx;
	char text[256];

	vsnprintf(text, sizeof(text), fmt, args);
	text[strcspn(text, "\n")] = '\0';
	rd_err(load->log, RD_LOG_CONFIG, "%s: %s", load->path, text);
}

/* The whole file. Returns 0 or -errno, with the reason logged. */
static int read_file(struct rdt_config_load *load, char **text, size_t *len)
{
	rd_autoclose int fd = open(load->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	rd_autofree char *buf = NULL;
	struct stat st;
	ssize_t n = 0;
	size_t got = 0;
	int rc;

	if (fd < 0 || fstat(fd, &st) < 0) {
		rc = -errno;
		rd_err(load->log, RD_LOG_CONFIG, "%s: cannot be read: %s", load->path,
		       strerror(-rc));
		return rc;
	}
	if (S_ISDIR(st.st_mode)) {
		rd_err(load->log, RD_LOG_CONFIG, "%s: is a directory, expected a YAML file",
		       load->path);
		return -EISDIR;
	}
	buf = malloc(FILE_MAX + 1);
	if (!buf)
		return -ENOMEM;
	while (got <= FILE_MAX) {
		n = read(fd, buf + got, FILE_MAX + 1 - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	rc = n < 0 ? -errno : got > FILE_MAX ? -EFBIG : 0;
	if (rc) {
		rd_err(load->log, RD_LOG_CONFIG, "%s: cannot be read: %s", load->path,
		       strerror(-rc));
		return rc;
	}
	*text = rd_steal(buf);
	*len = got;
	return 0;
}

static int fill(struct rdt_config_load *load, const char *text, size_t len, struct rdt_config **out)
{
	cyaml_config_t cyaml = cyaml_plain;
	cyaml_err_t err;

	cyaml.log_fn = cyaml_said;
	cyaml.log_ctx = load;
	err = cyaml_load_data((const uint8_t *)text, len, &cyaml, &rdt_config_schema,
			      (cyaml_data_t **)out, NULL);
	if (err == CYAML_OK)
		return 0;
	rd_err(load->log, RD_LOG_CONFIG, "%s: %s", load->path, cyaml_strerror(err));
	*out = NULL;
	return err == CYAML_ERR_OOM ? -ENOMEM : -EINVAL;
}

int rdt_config_load(const char *path, struct rd_log *log, struct rdt_config **out)
{
	struct rdt_config_load load = {.path = path, .log = log};
	struct rdt_config *config = NULL;
	rd_autofree char *text = NULL;
	size_t len = 0;
	int rc;

	*out = NULL;
	rc = read_file(&load, &text, &len);
	if (rc)
		return rc;
	rc = rdt_config_doc_open(&load, text, len);
	if (rc)
		goto out_close;
	rdt_config_doc_check(&load, &rdt_config_schema);
	if (load.problems) {
		rc = -EINVAL;
		goto out_close;
	}
	rc = fill(&load, text, len, &config);
	if (!rc)
		rc = rdt_config_check(&load, config);
	if (!rc && load.problems)
		rc = -EINVAL;
	if (config)
		config->refs = 1;
	if (rc)
		rdt_config_put(&config);
	*out = config;
out_close:
	rdt_config_doc_close(&load);
	return rc;
}

struct rdt_config *rdt_config_get(struct rdt_config *config)
{
	if (config && config->refs)
		config->refs++;
	return config;
}

void rdt_config_put(struct rdt_config **config)
{
	if (*config && (*config)->refs && --(*config)->refs == 0)
		cyaml_free(&cyaml_plain, &rdt_config_schema, *config, 0);
	*config = NULL;
}

bool rdt_config_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool rdt_config_listed(const char *const *list, uint32_t count, const char *text)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(list[i], text) == 0)
			return true;
	return false;
}

bool rdt_config_same_list(const char *const *a, uint32_t a_count, const char *const *b,
			  uint32_t b_count)
{
	for (uint32_t i = 0; i < a_count; i++)
		if (!rdt_config_listed(b, b_count, a[i]))
			return false;
	for (uint32_t i = 0; i < b_count; i++)
		if (!rdt_config_listed(a, a_count, b[i]))
			return false;
	return true;
}
