/* SPDX-License-Identifier: BSD-3-Clause */
/* The identity of this host: host NQN and host identifier. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <uuid/uuid.h>

#include "internal.h"
#include "util/cleanup.h"

#define UUID_NQN_PREFIX "nqn.2014-08.org.nvmexpress:uuid:"

const struct rdi_host_files rdi_host_files = {
	.hostnqn = "/etc/nvme/hostnqn",
	.hostid = "/etc/nvme/hostid",
	.machine_id = "/etc/machine-id",
};

/* Reads the first line of @path without blanks around it. Returns whether there is one that
 * fits. */
static bool first_line(const char *path, char *buf, size_t len)
{
	FILE *f = fopen(path, "re");
	size_t n;
	char *p;

	if (!f)
		return false;
	p = fgets(buf, (int)len, f);
	fclose(f);
	if (!p)
		return false;
	n = strcspn(buf, "\r\n");
	if (buf[n] == '\0' && n + 1 == len)
		return false; /* the line was truncated */
	while (n > 0 && (buf[n - 1] == ' ' || buf[n - 1] == '\t'))
		n--;
	buf[n] = '\0';
	return n > 0;
}

/*
 * Makes an identifier that is stable for this machine. The machine id itself is confidential
 * (machine-id(5)); a name-based UUID in our own namespace does not reveal it.
 */
static bool machine_uuid(const char *path, uuid_t out)
{
	static const char ns_text[] = "9e6b3a52-0cf6-5f0b-a1f2-6a0b6f3d1c77";
	char id[64];
	uuid_t ns;

	if (!first_line(path, id, sizeof(id)) || uuid_parse(ns_text, ns))
		return false;
	uuid_generate_sha1(out, ns, id, strlen(id));
	return true;
}

static int host_id(struct rdi_host *host, const char *id, const struct rdi_host_files *files,
		   const char **why)
{
	char line[64];

	if (id) {
		if (uuid_parse(id, host->id) == 0)
			return 0;
		*why = "the host identifier is not a UUID";
		return -EINVAL;
	}
	if (first_line(files->hostid, line, sizeof(line)) && uuid_parse(line, host->id) == 0)
		return 0;
	if (!machine_uuid(files->machine_id, host->id))
		uuid_generate_random(host->id);
	return 0;
}

int rdi_host_init(struct rdi_host *host, const char *nqn, const char *id,
		  const struct rdi_host_files *files, const char **why)
{
	char text[UUID_STR_LEN];
	const char *bad;
	int rc = host_id(host, id, files, why);

	if (rc)
		return rc;
	if (nqn) {
		bad = nvmf_nqn_error(nqn);
		if (bad) {
			*why = bad;
			return -EINVAL;
		}
		snprintf(host->nqn, sizeof(host->nqn), "%s", nqn);
		return 0;
	}
	if (first_line(files->hostnqn, host->nqn, sizeof(host->nqn)) && !nvmf_nqn_error(host->nqn))
		return 0;
	uuid_unparse_lower(host->id, text);
	snprintf(host->nqn, sizeof(host->nqn), "%s%s", UUID_NQN_PREFIX, text);
	return 0;
}
