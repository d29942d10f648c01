/* SPDX-License-Identifier: BSD-3-Clause */
#include "preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <netinet/in.h>
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
#include "util/tcp.h"
#include "target/bdev/backend.h"
#include "target/config/backends.h"
#include "target/bdev/path_id.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/nvmf/transport.h"
#include "target/reactor/lifecycle.h"
#include "target/resv/identity.h"
#include "held.h"
#include "target/manage/service/run_as.h"

/* Maximum number of subsystems without hosts that are logged by name. */
#define UNSET_LOGGED 20u
/* Maximum number of faulty namespaces that are logged. */
#define SERVED_LOGGED 20u
#define CGROUPS       "/sys/fs/cgroup"

/* ---- memory ---- */

/* Reads the first line of @path without its newline. */
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

/* Reads the path from the line "0::/a/b" (cgroup v2) of /proc/self/cgroup. */
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

/* The lowest memory limit of the control group and its ancestors. */
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

/* Memory that this process can use, in bytes: RAM and swap, or the limit of its control group (v2)
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

			if (!rdt_backend_kind(ns)->ram)
				continue;
			add_need(&need->namespaces, ns->size_bytes);
			if (need->largest && ns->size_bytes <= need->largest->size_bytes)
				continue;
			need->largest = ns;
			need->largest_in = ss;
		}
	}
}

/* Returns 0, or -ENOMEM with a message in @text. */
static int check_memory(const struct rdt_config *config, struct memory_need *need, char *text,
			size_t size)
{
	uint64_t limit = memory_limit();
	char ns[RD_SIZE_TEXT], buffers[RD_SIZE_TEXT], has[RD_SIZE_TEXT], most[RD_SIZE_TEXT];
	char largest[384] = "";
	uint64_t sum;

	*need = (struct memory_need){0};
	find_need(config, need);
	sum = need->buffers;
	add_need(&sum, need->namespaces);
	if (sum <= limit)
		return 0;
	if (need->largest)
		snprintf(largest, sizeof(largest), " (the largest is %s namespace %u, %s)",
			 need->largest_in->nqn, need->largest->nsid,
			 rd_format_size(need->largest->size_bytes, most));
	snprintf(text, size,
		 "namespaces in memory need %s%s and the buffers of %u reactors %s, but this "
		 "process can have %s; make namespaces smaller, or lower buffer_memory or reactors",
		 rd_format_size(need->namespaces, ns), largest, config->target.reactors,
		 rd_format_size(need->buffers, buffers), rd_format_size(limit, has));
	return -ENOMEM;
}

int rdt_preflight_memory(const struct rdt_config *config, struct rd_log *log)
{
	struct memory_need need;
	char text[768];
	int err = check_memory(config, &need, text, sizeof(text));

	if (err)
		rd_err(log, RD_LOG_CONFIG, "memory: %s", text);
	return err;
}

/* ---- the machine ---- */

struct preflight {
	const char *path; /* of the configuration file */
	struct rdt_modules *modules;
	struct rdt_config_load *load;
};

#define PLACE 96

static const char *ns_place(unsigned int subsystem, unsigned int ns, const char *key,
			    char place[PLACE])
{
	snprintf(place, PLACE, "subsystems[%u].namespaces[%u]%s%s", subsystem, ns, key ? "." : "",
		 key ? key : "");
	return place;
}

static void probe_memory(const struct preflight *p, const struct rdt_config *config)
{
	char place[PLACE] = "target.buffer_memory", text[480];
	struct memory_need need;

	if (!check_memory(config, &need, text, sizeof(text)))
		return;
	if (need.largest)
		ns_place((unsigned int)(need.largest_in - config->subsystems),
			 (unsigned int)(need.largest - need.largest_in->namespaces), "size", place);
	rdt_config_report_at(p->load, RD_LOG_ERROR, place, "%s", text);
}

/* ---- files and devices ---- */

struct probed {
	struct rdt_path_id id;
	unsigned int subsys, index; /* in the configuration */
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

/* Reports files and devices that two namespaces use, also by two names, unless both only read. */
static void find_shared(const struct preflight *p, struct probed *all, unsigned int count)
{
	unsigned int first = 0;
	char place[PLACE];

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
		rdt_config_report_at(
			p->load, RD_LOG_ERROR, ns_place(all[i].subsys, all[i].index, "path", place),
			"%s is the same as %s of %s namespace %u; use another file, or set "
			"\"read_only: true\" for both",
			all[i].ns->path, all[first].ns->path, all[first].ss->nqn,
			all[first].ns->nsid);
	}
}

static void probe_shared(const struct preflight *p, const struct rdt_config *config)
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
				all[count++] = (struct probed){rdt_path_id(&st), i, j, ss,
							       &ss->namespaces[j]};
	}
	if (all)
		find_shared(p, all, count);
}

/* Adds the directory that a relative path starts from: a service may use another one. */
static const char *where_relative(const char *path, char *text, size_t size)
{
	rd_autofree char *cwd = path && path[0] != '/' ? getcwd(NULL, 0) : NULL;

	snprintf(text, size, "%s%s%s", cwd ? " (the path begins in " : "", cwd ? cwd : "",
		 cwd ? "; see --directory)" : "");
	return text;
}

static void probe_storage(const struct preflight *p, const struct rdt_config *config)
{
	char text[512], place[PLACE], where[256];

	for (uint32_t i = 0; i < config->subsystems_count; i++) {
		const struct rdt_subsys_config *ss = &config->subsystems[i];

		for (uint32_t j = 0; j < ss->namespaces_count; j++) {
			const struct rdt_ns_config *ns = &ss->namespaces[j];

			if (!rdt_bdev_probe(p->modules, ns, text, sizeof(text)))
				continue;
			rdt_config_report_at(p->load, RD_LOG_ERROR, ns_place(i, j, NULL, place),
					     "%s namespace %u: %s%s", ss->nqn, ns->nsid, text,
					     where_relative(ns->path, where, sizeof(where)));
		}
	}
}

/* A directory that rdtarget creates when it starts. Returns 0 or an errno. */
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

static void probe_state_dir(const struct preflight *p, const struct rdt_config *config)
{
	const char *dir = config->target.state_dir;
	int err = dir ? probe_made_directory(dir) : 0;
	char why[160];

	if (err)
		rdt_config_report_at(p->load, RD_LOG_ERROR, "target.state_dir",
				     "%s: %s; expected a directory that user %u may write to, or "
				     "make",
				     dir, strerror(err), (unsigned int)geteuid());
	if (dir && !err && rdt_identity_check(dir, why, sizeof(why)))
		rdt_config_report_at(p->load, RD_LOG_ERROR, "target.state_dir",
				     "%s/" RDT_IDENTITY_FILE ": %s; namespaces whose UUID it has "
				     "cannot be served",
				     dir, why);
}

/* ---- the control socket ---- */

static void probe_socket_folder(const struct preflight *p, const char *socket)
{
	rd_autofree char *copy = strdup(socket);
	const char *dir = copy ? dirname(copy) : NULL;
	bool run = strncmp(socket, "/run/", 5) == 0;
	struct stat st;

	if (!dir)
		return;
	if (faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) == 0) {
		if (lstat(socket, &st) == 0 && !S_ISSOCK(st.st_mode))
			rdt_config_report_at(p->load, RD_LOG_ERROR, "control.socket",
					     "%s exists and is not a socket; remove it", socket);
		return;
	}
	/* /run is empty after a boot: the service manager creates directories in it. */
	if (errno == ENOENT && run)
		rdt_config_report_at(p->load, RD_LOG_WARN, "control.socket",
				     "the directory %s does not exist; a systemd unit with "
				     "RuntimeDirectory= creates it at the start",
				     dir);
	else
		rdt_config_report_at(p->load, RD_LOG_ERROR, "control.socket",
				     "%s: %s; expected a directory that user %u may write to", dir,
				     strerror(errno), (unsigned int)geteuid());
}

static void probe_control(const struct preflight *p, const struct rdt_config *config)
{
	const struct rdt_control_config *c = &config->control;
	char text[256];
	gid_t gid;

	if (!c->socket)
		return;
	if (rdt_group_id(c->group, &gid, text, sizeof(text)))
		rdt_config_report_at(p->load, RD_LOG_ERROR, "control.group", "%s", text);
	if (rdt_group_id(c->admin_group, &gid, text, sizeof(text)))
		rdt_config_report_at(p->load, RD_LOG_ERROR, "control.admin_group", "%s", text);
	probe_socket_folder(p, c->socket);
}

/* ---- what is served now ---- */

static bool ns_place_of(const struct rdt_config *config, const char *nqn, uint32_t nsid,
			char place[PLACE])
{
	for (uint32_t i = 0; i < config->subsystems_count; i++) {
		const struct rdt_subsys_config *ss = &config->subsystems[i];

		for (uint32_t j = 0; j < ss->namespaces_count && strcmp(ss->nqn, nqn) == 0; j++)
			if (ss->namespaces[j].nsid == nsid)
				return ns_place(i, j, NULL, place);
	}
	return false;
}

/* Reports faults found by the rdtarget that serves @config, which knows what it has open. */
static void probe_served(const struct preflight *p, const struct rdt_config *config)
{
	const char *socket = config->control.socket;
	json_t *list = socket ? rdt_held_namespaces(socket) : NULL, *ns;
	unsigned int logged = 0;
	size_t i;

	json_array_foreach(list, i, ns)
	{
		const char *nqn, *why = NULL;
		char place[PLACE];
		int nsid, stalled = 0;

		if (json_unpack(ns, "{s:s, s:i, s?s, s?b}", "nqn", &nqn, "nsid", &nsid,
				"fault_reason", &why, "stalled", &stalled) ||
		    (!why && !stalled) || logged == SERVED_LOGGED ||
		    !ns_place_of(config, nqn, (uint32_t)nsid, place))
			continue;
		logged++;
		rdt_config_report_at(p->load, RD_LOG_ERROR, place,
				     "%s namespace %d, as served now: %s", nqn, nsid,
				     why ? why : "its storage does not answer");
	}
	json_decref(list);
}

/* ---- addresses ---- */

/* Returns 0, or -errno of binding @addr. */
static int try_bind(const struct sockaddr *addr)
{
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, err = 0;

	if (fd < 0)
		return -errno;
	/* As listeners do: connections in TIME_WAIT do not block the address. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (addr->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, addr, rd_addr_len(addr)))
		err = -errno;
	close(fd);
	return err;
}

/* @with_port: the port is a TCP port of this network namespace. */
static void probe_bind(const struct preflight *p, const char *section, const char *address,
		       uint16_t port, bool with_port)
{
	struct sockaddr_storage addr;
	char place[PLACE];
	int err = rd_addr_parse(address, with_port ? port : 0, &addr);
	bool used;

	if (!err)
		err = try_bind((struct sockaddr *)&addr);
	used = err == -EADDRINUSE;
	if (!err || (used && rdt_held_by_ours((struct sockaddr *)&addr, p->path)))
		return;
	snprintf(place, sizeof(place), "%s.%s", section,
		 used || err == -EACCES ? "port" : "address");
	rdt_config_report_at(p->load, RD_LOG_ERROR, place, "%s port %u: %s%s", address, port,
			     strerror(-err), rdt_listen_advice(err));
}

static void probe_congestion(const struct preflight *p, const char *place, const char *name)
{
	int err = name ? rd_tcp_congestion(name) : 0;
	const char *why = rd_tcp_congestion_error(err);

	if (err)
		rdt_config_report_at(p->load, RD_LOG_ERROR, place, "%s: %s", name,
				     why ? why : strerror(-err));
}

static void probe_listeners(const struct preflight *p, const struct rdt_config *config)
{
	bool target_congestion = false;

	for (uint32_t i = 0; i < config->listeners_count; i++) {
		const struct rdt_listener_config *l = &config->listeners[i];
		const struct rdt_transport *tr = rdt_transports[l->transport];
		bool sockets = !tr->sockets || tr->sockets(l);
		char place[PLACE];

		snprintf(place, sizeof(place), "listeners[%u]", i);
		probe_bind(p, place, l->address, l->port, sockets);
		target_congestion |= sockets && !l->congestion;
		snprintf(place, sizeof(place), "listeners[%u].congestion", i);
		if (sockets)
			probe_congestion(p, place, l->congestion);
	}
	if (target_congestion)
		probe_congestion(p, "target.congestion", config->target.congestion);
	if (config->http.address)
		probe_bind(p, "http", config->http.address, config->http.port, true);
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
		if (unset++ < UNSET_LOGGED)
			rd_err(log, RD_LOG_CONFIG,
			       "%s: %s: neither \"allow_any_host\" nor \"hosts\" is given, and so "
			       "no "
			       "host may connect; write \"allow_any_host: true\" for every host, "
			       "or "
			       "\"hosts: [NQN, ...]\" for those that may",
			       ss->hosts_unset, ss->nqn);
	}
	if (unset > UNSET_LOGGED)
		rd_err(log, RD_LOG_CONFIG, "and %u more subsystems without these keys",
		       unset - UNSET_LOGGED);
	return unset - known;
}

static void check_machine(void *arg, const struct rdt_config *config, struct rdt_config_load *load)
{
	struct preflight *p = arg;

	p->load = load;
	probe_memory(p, config);
	probe_storage(p, config);
	probe_shared(p, config);
	probe_state_dir(p, config);
	probe_control(p, config);
	probe_served(p, config);
	probe_listeners(p, config);
}

int rdt_preflight(const char *path, struct rdt_modules *modules, struct rd_log *log,
		  struct rdt_config **out)
{
	struct preflight p = {.path = path, .modules = modules};

	return rdt_config_load_and(path, check_machine, &p, log, out);
}
