/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int by_nsid(const void *a, const void *b)
{
	const struct rdt_ns_config *x = a;
	const struct rdt_ns_config *y = b;

	return (x->nsid > y->nsid) - (x->nsid < y->nsid);
}

static int load_config(struct rdt_config_load *load, struct rdt_config **out)
{
	struct rdt_config *config = calloc(1, sizeof(*config));
	int rc;

	*out = NULL;
	if (!config)
		return -ENOMEM;
	config->refs = 1;
	load->config = config;
	if (!load->given)
		rdt_config_tell_interrupted(load->path, load->log);
	rc = rdt_config_read_all(load, config);
	if (!rc)
		rc = rdt_config_check(load, config);
	if (load->late) {
		rd_err(load->log, RD_LOG_CONFIG,
		       "%s: loading took longer than %d s and was stopped; split large files, or "
		       "include fewer",
		       load->path, RDT_CONFIG_LOAD_S);
		rc = -ETIMEDOUT;
	}
	if (!rc && load->more && !load->problems)
		load->more(load->more_arg, config, load);
	if (!rc && load->out_of_memory)
		rc = -ENOMEM;
	if (!rc && load->problems)
		rc = -EINVAL;
	for (uint32_t i = 0; i < config->subsystems_count && !rc; i++)
		if (config->subsystems[i].namespaces_count) /* qsort() does not accept NULL */
			qsort(config->subsystems[i].namespaces,
			      config->subsystems[i].namespaces_count,
			      sizeof(*config->subsystems[i].namespaces), by_nsid);
	if (rc == -ENOMEM)
		rd_err(load->log, RD_LOG_CONFIG, "%s: out of memory", load->path);
	if (rc)
		rdt_config_put(&config);
	*out = config;
	rdt_config_doc_close_all(load);
	return rc;
}

int rdt_config_load(const char *path, struct rd_log *log, struct rdt_config **out)
{
	return rdt_config_load_texts(path, NULL, false, log, out);
}

int rdt_config_load_and(const char *path, rdt_config_more_fn more, void *arg, struct rd_log *log,
			struct rdt_config **out)
{
	struct rdt_config_load load = {.path = path, .log = log, .more = more, .more_arg = arg};

	return load_config(&load, out);
}

int rdt_config_load_edited(const char *path, struct rdt_config_texts *texts,
			   const struct rdt_config *known, struct rd_log *log,
			   struct rdt_config **out)
{
	struct rdt_config_load load = {
		.path = path,
		.texts = texts,
		.given = texts->count,
		.edited = true,
		.known = known,
		.log = log,
	};

	return load_config(&load, out);
}

int rdt_config_load_texts(const char *path, struct rdt_config_texts *texts, bool top_only,
			  struct rd_log *log, struct rdt_config **out)
{
	struct rdt_config_load load = {
		.path = path,
		.texts = texts,
		.given = texts ? texts->count : 0,
		.top_only = top_only,
		.log = log,
	};

	return load_config(&load, out);
}

struct rdt_config *rdt_config_get(struct rdt_config *config)
{
	if (config && config->refs)
		config->refs++;
	return config;
}

void rdt_config_put(struct rdt_config **config)
{
	if (*config && (*config)->refs && --(*config)->refs == 0) {
		rdt_config_secrets_free((*config)->secrets);
		rdt_config_free(*config);
	}
	*config = NULL;
}
