/* SPDX-License-Identifier: BSD-3-Clause */
#include "run_as.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/log.h"
#include "util/parse.h"

struct identity {
	const char *name; /* NULL: no user has the number */
	uid_t uid;
	gid_t gid;
	bool one_group;
};

static int unknown(struct rd_log *log, const char *kind, const char *name, int err)
{
	rd_err(log, RD_LOG_MAIN, "--user: there is no %s \"%s\"%s%s", kind, name,
	       err ? ": " : "; make it, or name another one", err ? strerror(err) : "");
	return -ENOENT;
}

static bool is_id(const char *text, uint32_t *number)
{
	uint64_t value;

	/* (uid_t)-1 means "unchanged". */
	if (rd_parse_u64(text, 0, UINT32_MAX - 1, &value))
		return false;
	*number = (uint32_t)value;
	return true;
}

static int find_user_of_spec(struct rd_log *log, const char *name, struct identity *id)
{
	bool number = is_id(name, &id->uid);
	const struct passwd *user;

	errno = 0;
	user = number ? getpwuid(id->uid) : getpwnam(name);
	if (user) {
		id->name = user->pw_name;
		id->uid = user->pw_uid;
		id->gid = user->pw_gid;
		return 0;
	}
	if (!number)
		return unknown(log, "user", name, errno);
	if (id->one_group)
		return 0;
	rd_err(log, RD_LOG_MAIN,
	       "--user: no user has the number %s, so its groups are unknown; expected %s:GROUP",
	       name, name);
	return -EINVAL;
}

static int find_group_of_spec(struct rd_log *log, const char *name, struct identity *id)
{
	const struct group *group;

	if (is_id(name, &id->gid))
		return 0;
	errno = 0;
	group = getgrnam(name);
	if (!group)
		return unknown(log, "group", name, errno);
	id->gid = group->gr_gid;
	return 0;
}

static int cannot_become(struct rd_log *log, const char *spec, int err)
{
	rd_err(log, RD_LOG_MAIN, "--user %s: cannot become that user: %s%s", spec, strerror(err),
	       err == EPERM ? "; start rdtarget as root, or without --user" : "");
	return -err;
}

static int become(struct rd_log *log, const char *spec, const struct identity *id)
{
	struct rlimit unlimited = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};

	/* Others may be able to do it by capabilities, but only root loses them. */
	if (geteuid() != 0)
		return cannot_become(log, spec, EPERM);
	if (setrlimit(RLIMIT_MEMLOCK, &unlimited))
		rd_info(log, RD_LOG_MAIN, "--user: the limit of locked memory stays: %s",
			strerror(errno));
	if ((id->one_group ? setgroups(1, &id->gid) : initgroups(id->name, id->gid)) ||
	    setresgid(id->gid, id->gid, id->gid) || setresuid(id->uid, id->uid, id->uid))
		return cannot_become(log, spec, errno);
	/* After the change of the user the kernel disables core dumps and debugging, because memory
	 * may contain what root has read. Here nothing was read yet. */
	prctl(PR_SET_DUMPABLE, 1);
	rd_info(log, RD_LOG_MAIN, "running as user %s, uid %u, gid %u", spec, id->uid, id->gid);
	return 0;
}

int rdt_run_as(const char *spec, struct rd_log *log)
{
	const char *colon = strchr(spec, ':');
	struct identity id = {.one_group = colon};
	char *name = colon ? strndup(spec, (size_t)(colon - spec)) : strdup(spec);
	int err = name ? find_user_of_spec(log, name, &id) : -ENOMEM;

	if (!err && colon)
		err = find_group_of_spec(log, colon + 1, &id);
	/* A process that already is the user needs no change, and without root may make none. */
	if (!err && (geteuid() == 0 || id.uid != geteuid() || id.gid != getegid()))
		err = become(log, spec, &id);
	free(name);
	return err;
}

int rdt_group_id(const char *name, gid_t *gid, char *text, size_t size)
{
	struct group group, *found = NULL;
	char buf[16384];
	int err;

	*gid = (gid_t)-1;
	if (!name)
		return 0;
	err = getgrnam_r(name, &group, buf, sizeof(buf), &found);
	if (!found) {
		snprintf(text, size, "there is no group \"%.64s\"%s%s", name,
			 err ? ": " : "; make it, or name another one", err ? strerror(err) : "");
		return -ENOENT;
	}
	*gid = group.gr_gid;
	return 0;
}
