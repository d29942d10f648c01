/* SPDX-License-Identifier: BSD-3-Clause */
/* The identity of this host: host NQN and host identifier. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <uuid/uuid.h>

#include "internal.h"

#define UUID_IN_NQN     ":uuid:"
#define UUID_NQN_PREFIX "nqn.2014-08.org.nvmexpress" UUID_IN_NQN

const struct rdi_host_files rdi_host_files = {
	.hostnqn = "/etc/nvme/hostnqn",
	.hostid = "/etc/nvme/hostid",
	.machine_id = "/etc/machine-id",
};

/* The first line of @path, without blanks around it. Returns 1; 0: there is no such file; or
 * -EINVAL with host->text set. */
static int first_line(struct rdi_host *host, const char *path, char *buf, size_t len)
{
	FILE *f = fopen(path, "re");
	size_t n;

	buf[0] = '\0';
	if (!f && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (!f || (!fgets(buf, (int)len, f) && ferror(f))) {
		snprintf(host->text, sizeof(host->text), "cannot read %s: %s", path,
			 strerror(errno));
		if (f)
			fclose(f);
		return -EINVAL;
	}
	fclose(f);
	n = strcspn(buf, "\r\n");
	while (n > 0 && (buf[n - 1] == ' ' || buf[n - 1] == '\t'))
		n--;
	buf[n] = '\0';
	return 1;
}

/* Line 1 of @path does not have what is @expected there. */
static int bad_line(struct rdi_host *host, const char *path, const char *found,
		    const char *expected)
{
	snprintf(host->text, sizeof(host->text), "%s:1: found \"%.80s\", expected %s", path, found,
		 expected);
	return -EINVAL;
}

/*
 * An identifier that is stable for this machine. The machine ID itself is confidential
 * (machine-id(5)); a name-based UUID in our own namespace does not reveal it. Each host NQN gets
 * one of its own, because reservations know hosts by it. A machine that has no ID yet gets a random
 * identifier: "uninitialized", which the file has during the first boot, would give all of them the
 * same one.
 */
static int machine_uuid(struct rdi_host *host, const char *path)
{
	static const char ns_text[] = "9e6b3a52-0cf6-5f0b-a1f2-6a0b6f3d1c77";
	char id[64], text[sizeof(id) + sizeof(host->nqn)];
	uuid_t ns;
	int rc = first_line(host, path, id, sizeof(id));

	if (rc < 0)
		return rc;
	if (!id[0] || strcmp(id, "uninitialized") == 0) {
		uuid_generate_random(host->id);
		snprintf(host->text, sizeof(host->text),
			 "%s %s: the host identifier is random and different in each run; write "
			 "one to %s, and a host NQN, or give both",
			 path,
			 !rc     ? "does not exist"
			 : id[0] ? "is uninitialized"
				 : "is empty",
			 rdi_host_files.hostid);
		return 0;
	}
	if (strspn(id, "0123456789abcdef") != 32 || id[32] || strspn(id, "0") == 32)
		return bad_line(host, path, id,
				"a machine ID: 32 lower case hexadecimal digits, not all 0");
	if (uuid_parse(ns_text, ns))
		return -EINVAL;
	snprintf(text, sizeof(text), "%s%s", id, host->nqn);
	uuid_generate_sha1(host->id, ns, text, strlen(text));
	return 0;
}

/* The UUID at the end of an NQN of that form, whoever made it, as libnvme. Returns 1; 0: it has
 * another form; or -EINVAL: what it has instead of a UUID identifies no host. */
static int uuid_of_nqn(struct rdi_host *host, const char *from)
{
	const char *uuid = strstr(host->nqn, UUID_IN_NQN);

	if (!uuid)
		return 0;
	if (uuid_parse(uuid + strlen(UUID_IN_NQN), host->id) == 0 && !uuid_is_null(host->id))
		return 1;
	snprintf(host->text, sizeof(host->text),
		 "%s%sthe host NQN \"%.80s\" has no UUID other than 0 after \"uuid:\", so there is "
		 "no host identifier: use another NQN, or give one",
		 from ? from : "", from ? ":1: " : "", host->nqn);
	return -EINVAL;
}

/* As libnvme: the option, the file, the UUID of the host NQN, which is "" when it is not given;
 * else one made of the machine's and the NQN. @from: the file that the NQN is from, or NULL. */
static int host_id(struct rdi_host *host, const char *id, const char *from,
		   const struct rdi_host_files *files)
{
	char line[64];
	int rc;

	if (id) {
		if (uuid_parse(id, host->id) == 0 && !uuid_is_null(host->id))
			return 0;
		snprintf(host->text, sizeof(host->text),
			 "the host identifier \"%.40s\" is not a UUID other than 0", id);
		return -EINVAL;
	}
	rc = first_line(host, files->hostid, line, sizeof(line));
	if (rc > 0 && (uuid_parse(line, host->id) || uuid_is_null(host->id)))
		return bad_line(host, files->hostid, line,
				"a host identifier: a UUID other than 0");
	if (rc)
		return rc < 0 ? rc : 0;
	rc = uuid_of_nqn(host, from);
	if (rc)
		return rc < 0 ? rc : 0;
	return machine_uuid(host, files->machine_id);
}

static int host_nqn(struct rdi_host *host, const char *nqn, const struct rdi_host_files *files)
{
	char line[RDINIT_NQN_SIZE + 2];
	const char *bad;
	int rc;

	if (nqn) {
		bad = nvmf_nqn_error(nqn);
		if (bad)
			snprintf(host->text, sizeof(host->text), "%s", bad);
		else
			snprintf(host->nqn, sizeof(host->nqn), "%s", nqn);
		return bad ? -EINVAL : 0;
	}
	rc = first_line(host, files->hostnqn, line, sizeof(line));
	if (rc > 0 && nvmf_nqn_error(line))
		return bad_line(host, files->hostnqn, line, "a host NQN");
	if (rc > 0)
		snprintf(host->nqn, sizeof(host->nqn), "%.*s", NVMF_NQN_MAX, line);
	return rc < 0 ? rc : 0;
}

int rdi_host_init(struct rdi_host *host, const char *nqn, const char *id,
		  const struct rdi_host_files *files, const char **why)
{
	char text[UUID_STR_LEN];
	int rc;

	memset(host, 0, sizeof(*host));
	rc = host_nqn(host, nqn, files);
	if (!rc)
		rc = host_id(host, id, nqn ? NULL : files->hostnqn, files);
	if (rc) {
		*why = host->text;
		return rc;
	}
	if (host->nqn[0])
		return 0;
	uuid_unparse_lower(host->id, text);
	snprintf(host->nqn, sizeof(host->nqn), "%s%s", UUID_NQN_PREFIX, text);
	return 0;
}
