/* SPDX-License-Identifier: BSD-3-Clause */
#include "preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/sockaddr.h"
#include "target/bdev/backend.h"
#include "target/bdev/path_id.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"

/* Subsystems that are named one by one. */
#define UNSET_TOLD 20u
#define CGROUPS    "/sys/fs/cgroup"

/* ---- memory ---- */

/* The first line of @path, without its newline. */
static bool read_line(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(buf, (int)size, f);

	if (f)
		fclose(f);
	if (ok)
		buf[strcspn(buf, "\n")] = '\0';
	return ok;
}

/* The group in the line "0::/a/b" of /proc/self/cgroup (version 2). */
static bool own_cgroup(char *group, size_t size)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[4096];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		found = strncmp(line, "0::/", 4) == 0;
	}
	if (f)
		fclose(f);
	if (found)
		snprintf(group, size, "%s", strcmp(line + 3, "/") == 0 ? "" : line + 3);
	return found;
}

/* The lowest limit of the group and its ancestors. */
static uint64_t cgroup_limit(void)
{
	char group[4096], path[sizeof(group) + 64], text[64];
	uint64_t limit = UINT64_MAX, value;

	if (!own_cgroup(group, sizeof(group)))
		return limit;
	for (;;) {
		char *slash;

		snprintf(path, sizeof(path), CGROUPS "%s/memory.max", group);
		if (read_line(path, text, sizeof(text)) &&
		    !rd_parse_u64(text, 0, UINT64_MAX, &value) && value < limit)
			limit = value;
		slash = strrchr(group, '/');
		if (!slash)
			return limit;
		*slash = '\0';
	}
}

/* Bytes of memory that this process can use: RAM and swap, or the limit of its control group (v2)
 * if lower. UINT64_MAX: unknown. */
static uint64_t memory_limit(void)
{
	uint64_t limit = cgroup_limit(), machine;
	struct sysinfo info;

	if (sysinfo(&info))
		return limit;
	machine = ((uint64_t)info.totalram + info.totalswap) * info.mem_unit;
	return machine < limit ? machine : limit;
}

struct memory_need {
	uint64_t buffers;
	uint64_t namespaces;
	const struct rdt_subsys_config *largest_in;
	const struct rdt_ns_config *largest;
};

static void add_need(uint64_t *sum, uint64_t more)
{
	*sum = more > UINT64_MAX - *sum ? UINT64_MAX : *sum + more;
}

static void find_need(const struct rdt_config *config, struct memory_need *need)
{
	for (uint32_t i = 0; i < config->target.reactors; i++)
		add_need(&need->buffers, config->target.buffer_bytes);
	for (uint32_t i = 0; i < config->subsystems_count; i++) {
		const struct rdt_subsys_config *ss = &config->subsystems[i];

		for (uint32_t j = 0; j < ss->namespaces_count; j++) {
			const struct rdt_ns_config *ns = &ss->namespaces[j];

			if (ns->backend != RDT_BACKEND_MEMORY)
				continue;
			add_need(&need->namespaces, ns->size_bytes);
			if (need->largest && ns->size_bytes <= need->largest->size_bytes)
				continue;
			need->largest = ns;
			need->largest_in = ss;
		}
	}
}

int rdt_preflight_memory(const struct rdt_config *config, struct rd_log *log)
{
	uint64_t limit = memory_limit();
	char ns[RD_SIZE_TEXT], buffers[RD_SIZE_TEXT], has[RD_SIZE_TEXT], most[RD_SIZE_TEXT];
	char largest[384] = "";
	struct memory_need need = {0};
	uint64_t sum;

	find_need(config, &need);
	sum = need.buffers;
	add_need(&sum, need.namespaces);
	if (sum <= limit)
		return 0;
	if (need.largest)
		snprintf(largest, sizeof(largest), " (the largest is %s namespace %u, %s)",
			 need.largest_in->nqn, need.largest->nsid,
			 rd_format_size(need.largest->size_bytes, most));
	rd_err(log, RD_LOG_CONFIG,
	       "memory: namespaces in memory need %s%s and the buffers of %u reactors %s, but this "
	       "process can have %s; make namespaces smaller, or lower buffer_memory or reactors",
	       rd_format_size(need.namespaces, ns), largest, config->target.reactors,
	       rd_format_size(need.buffers, buffers), rd_format_size(limit, has));
	return -ENOMEM;
}

/* ---- files, devices, addresses ---- */

struct probed {
	struct rdt_path_id id;
	const struct rdt_subsys_config *ss;
	const struct rdt_ns_config *ns;
};

static int by_path_id(const void *a, const void *b)
{
	const struct probed *x = a, *y = b;

	if (x->id.block != y->id.block)
		return x->id.block ? 1 : -1;
	if (x->id.dev != y->id.dev)
		return x->id.dev < y->id.dev ? -1 : 1;
	return x->id.ino == y->id.ino ? (x->ns->read_only > y->ns->read_only) -
						(x->ns->read_only < y->ns->read_only)
				      : (x->id.ino < y->id.ino ? -1 : 1);
}

/* One file or device under several names, which two namespaces would write to. Those without a
 * writer may have the same. */
static unsigned int find_shared(struct probed *all, unsigned int count, struct rd_log *log)
{
	unsigned int problems = 0, first = 0;

	if (count)
		qsort(all, count, sizeof(*all), by_path_id);
	for (unsigned int i = 1; i < count; i++) {
		const struct rdt_path_id *a = &all[first].id, *b = &all[i].id;

		if (a->block != b->block || a->dev != b->dev || a->ino != b->ino) {
			first = i;
			continue;
		}
		if (all[first].ns->read_only)
			continue;
		rd_err(log, RD_LOG_CONFIG,
		       "%s namespace %u: path %s: is the same as %s of %s namespace %u; use "
		       "another file, or set \"read_only: true\" for both",
		       all[i].ss->nqn, all[i].ns->nsid, all[i].ns->path, all[first].ns->path,
		       all[first].ss->nqn, all[first].ns->nsid);
		problems++;
	}
	return problems;
}

static unsigned int probe_shared(const struct rdt_config *config, struct rd_log *log)
{
	rd_autofree struct probed *all = NULL;
	unsigned int count = 0;
	struct stat st;

	for (uint32_t i = 0; i < config->subsystems_count; i++)
		count += config->subsystems[i].namespaces_count;
	all = calloc(count + 1, sizeof(*all));
	count = 0;
	for (uint32_t i = 0; i < config->subsystems_count && all; i++) {
		const struct rdt_subsys_config *ss = &config->subsystems[i];

		for (uint32_t j = 0; j < ss->namespaces_count; j++)
			if (ss->namespaces[j].path && !stat(ss->namespaces[j].path, &st))
				all[count++] =
					(struct probed){rdt_path_id(&st), ss, &ss->namespaces[j]};
	}
	return all ? find_shared(all, count, log) : 0;
}

static unsigned int probe_storage(const struct rdt_config *config, struct rdt_modules *modules,
				  struct rd_log *log)
{
	unsigned int problems = 0;
	char text[512];

	for (uint32_t i = 0; i < config->subsystems_count; i++) {
		const struct rdt_subsys_config *ss = &config->subsystems[i];

		for (uint32_t j = 0; j < ss->namespaces_count; j++) {
			if (!rdt_bdev_probe(modules, &ss->namespaces[j], text, sizeof(text)))
				continue;
			rd_err(log, RD_LOG_CONFIG, "%s namespace %u: %s", ss->nqn,
			       ss->namespaces[j].nsid, text);
			problems++;
		}
	}
	return problems;
}

/* A file with "create: true" is created at the start if it is missing. Returns 0 or an errno. */
static int probe_made_directory(const char *path)
{
	rd_autofree char *copy = strdup(path);
	struct stat st;

	if (!copy)
		return ENOMEM;
	if (stat(path, &st)) {
		if (errno != ENOENT)
			return errno;
		path = dirname(copy);
	} else if (!S_ISDIR(st.st_mode)) {
		return ENOTDIR;
	}
	return faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) ? errno : 0;
}

static unsigned int probe_state_dir(const struct rdt_config *config, struct rd_log *log)
{
	const char *dir = config->target.state_dir;
	int err = dir ? probe_made_directory(dir) : 0;

	if (!err)
		return 0;
	rd_err(log, RD_LOG_CONFIG,
	       "target.state_dir %s: %s; expected a directory that user %u may write to, or make",
	       dir, strerror(err), (unsigned int)geteuid());
	return 1;
}

/* Returns 0, or the errno of binding a socket to the address with any port. */
static int probe_address(const struct rdt_listener_config *l)
{
	struct sockaddr_storage addr;
	int err = -rd_addr_parse(l->address, 0, &addr);
	int fd;

	if (err)
		return err;
	fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	if (bind(fd, (const struct sockaddr *)&addr, rd_addr_len((const struct sockaddr *)&addr)))
		err = errno;
	close(fd);
	return err;
}

static unsigned int probe_addresses(const struct rdt_config *config, struct rd_log *log)
{
	unsigned int problems = 0;

	for (uint32_t i = 0; i < config->listeners_count; i++) {
		const struct rdt_listener_config *l = &config->listeners[i];
		int err = probe_address(l);

		if (!err)
			continue;
		rd_err(log, RD_LOG_CONFIG, "listener %s port %u: %s%s", l->address, l->port,
		       strerror(err),
		       err == EADDRNOTAVAIL
			       ? "; no interface of this machine has that address (ip addr)"
			       : "");
		problems++;
	}
	return problems;
}

static bool runs_unset(struct rdt_target *running, const char *nqn)
{
	const struct rdt_subsys *ss = running ? rdt_subsys_find(running, nqn) : NULL;

	return ss && ss->now->hosts_unset;
}

unsigned int rdt_preflight_hosts(const struct rdt_config *config, struct rdt_target *running,
				 struct rd_log *log)
{
	unsigned int unset = 0, known = 0;

	for (uint32_t i = 0; i < config->subsystems_count; i++) {
		const struct rdt_subsys_config *ss = &config->subsystems[i];

		if (!ss->hosts_unset)
			continue;
		known += runs_unset(running, ss->nqn);
		if (unset++ < UNSET_TOLD)
			rd_err(log, RD_LOG_CONFIG,
			       "%s: %s: neither \"allow_any_host\" nor \"hosts\" is given, and so "
			       "no "
			       "host may connect; write \"allow_any_host: true\" for every host, "
			       "or "
			       "\"hosts: [NQN, ...]\" for those that may",
			       ss->hosts_unset, ss->nqn);
	}
	if (unset > UNSET_TOLD)
		rd_err(log, RD_LOG_CONFIG, "and %u more subsystems without these keys",
		       unset - UNSET_TOLD);
	return unset - known;
}

unsigned int rdt_preflight(const struct rdt_config *config, struct rdt_modules *modules,
			   struct rd_log *log)
{
	unsigned int problems = rdt_preflight_memory(config, log) ? 1 : 0;

	problems += probe_storage(config, modules, log);
	problems += probe_shared(config, log);
	problems += probe_state_dir(config, log);
	return problems + probe_addresses(config, log);
}
