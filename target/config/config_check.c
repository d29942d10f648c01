/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that involve several keys, and values derived from other keys. They use only valid values:
 * 0 and NULL stand for invalid or missing ones. */
#include "config_priv.h"
#include "keys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uuid/uuid.h>

#include "nvmf/wire.h"
#include "util/cleanup.h"
#include "util/sockaddr.h"

#define SERIAL_LEN 20

/* Namespace UUID for generated UUIDs. Changing it would change the identity of NVMe namespaces. */
static const uuid_t uuid_space = {0x5b, 0x1f, 0x43, 0x9e, 0x0c, 0x6a, 0x4d, 0x27,
				  0x9d, 0x3e, 0x62, 0x8f, 0xb7, 0x11, 0xa0, 0x54};

static bool key_good(struct rdt_config_load *load, const struct rdt_key *parent, const char *name)
{
	struct rdt_key key = rdt_config_child(load, parent, name);

	return rdt_config_good(load, &key);
}

/* ---- target ---- */

/* A list with one CPU for each reactor. */
static void check_cpus(struct rdt_config_load *load, const struct rdt_key *target,
		       const struct rdt_key *cpus, uint32_t count, uint32_t reactors)
{
	if (count && reactors && count != reactors && key_good(load, target, "reactors"))
		rdt_config_problem(load, cpus,
				   "found %u CPUs for %u reactors, expected one for each", count,
				   reactors);
}

static bool has_cpu(const uint32_t *list, uint32_t count, uint32_t cpu)
{
	for (unsigned int i = 0; i < count; i++)
		if (list[i] == cpu)
			return true;
	return false;
}

/* Both an SQPOLL thread and its reactor poll: on the same CPU each would wait for the other most of
 * the time. */
static void check_sqpoll_cpus(struct rdt_config_load *load, const struct rdt_key *target,
			      const struct rdt_target_config *t)
{
	struct rdt_key cpus = rdt_config_child(load, target, "sqpoll_cpus");

	if (!cpus.node && t->sqpoll_ns && t->cpus_count)
		rdt_config_problem(load, &cpus,
				   "missing, expected a CPU for the sqpoll thread of each reactor, "
				   "because cpus is set");
	if (!cpus.node)
		return;
	if (!t->sqpoll_ns && key_good(load, target, "sqpoll"))
		rdt_config_problem(load, &cpus,
				   "is valid only with sqpoll; add it, for example \"sqpoll: "
				   "10ms\", or remove this key");
	check_cpus(load, target, &cpus, t->sqpoll_cpus_count, t->reactors);
	for (unsigned int i = 0; i < t->sqpoll_cpus_count && key_good(load, target, "cpus"); i++) {
		struct rdt_key cpu = rdt_config_item(load, &cpus, i);

		if (has_cpu(t->cpus, t->cpus_count, t->sqpoll_cpus[i]))
			rdt_config_problem(
				load, &cpu,
				"found %u, which cpus assigns to a reactor; expected another CPU",
				t->sqpoll_cpus[i]);
	}
}

static void check_target(struct rdt_config_load *load, const struct rdt_key *root,
			 struct rdt_target_config *t)
{
	struct rdt_key key = rdt_config_child(load, root, "target");
	struct rdt_key memory = rdt_config_child(load, &key, "buffer_memory");
	struct rdt_key cpus = rdt_config_child(load, &key, "cpus");

	if (t->cpus_count && !rdt_config_child(load, &key, "reactors").node)
		t->reactors = t->cpus_count;
	check_cpus(load, &key, &cpus, t->cpus_count, t->reactors);
	check_sqpoll_cpus(load, &key, t);
	if (!t->max_data_bytes || !t->buffer_bytes)
		return;
	if (t->buffer_bytes < 4 * (uint64_t)t->max_data_bytes)
		rdt_config_problem(load, &memory,
				   "found \"%s\", expected at least four times max_data_size (%s)",
				   t->buffer_memory, t->max_data_size);
	else if (t->buffer_bytes % t->max_data_bytes)
		rdt_config_problem(load, &memory,
				   "found \"%s\", expected a multiple of max_data_size (%s)",
				   t->buffer_memory, t->max_data_size);
}

/* ---- listeners ---- */

/* Whether the second listener would fail to bind. */
static bool listeners_clash(const struct sockaddr *a, const struct sockaddr *b)
{
	return rd_addr_equal(a, b) ||
	       (a->sa_family == b->sa_family && rd_addr_port(a) == rd_addr_port(b) &&
		(rd_addr_is_any(a) || rd_addr_is_any(b)));
}

/* The number of listeners is limited, so comparing each with each does not take long. */
static int check_clashes(struct rdt_config_load *load, const struct rdt_config *config,
			 const struct rdt_key *list)
{
	rd_autofree struct sockaddr_storage *all =
		calloc(config->listeners_count + 1, sizeof(*all));

	for (unsigned int i = 0; i < config->listeners_count && all; i++) {
		const struct rdt_listener_config *l = &config->listeners[i];
		struct rdt_key key, other, address;
		char where[512];
		unsigned int j = 0;

		/* Port 0 is a different port each time. */
		if (!l->port || rd_addr_parse(l->address, l->port, &all[i]))
			continue;
		while (j < i &&
		       !listeners_clash((struct sockaddr *)&all[j], (struct sockaddr *)&all[i]))
			j++;
		if (j == i)
			continue;
		key = rdt_config_item(load, list, i);
		other = rdt_config_item(load, list, j);
		address = rdt_config_child(load, &key, "address");
		rdt_config_problem(load, &address, "%s port %u is already used by the listener %s",
				   l->address, l->port,
				   rdt_config_where(&key, &other, where, sizeof(where)));
	}
	return all ? 0 : -ENOMEM;
}

/* Reports keys of another transport, which the listener would ignore. */
static void check_foreign_keys(struct rdt_config_load *load, const struct rdt_key *key,
			       const struct rdt_listener_config *l)
{
	for (RDT_EACH_ROW(row, &rdt_listener_section)) {
		uint32_t of = row->transports;
		uint64_t unset;
		struct rdt_key child;

		if (!of || of >> l->transport & 1 || (row->with && !(row->with >> l->provider & 1)))
			continue;
		rdt_row_parse(row, row->def, &unset);
		if (rdt_row_number(row, l) == unset)
			continue;
		child = rdt_config_child(load, key, row->name);
		rdt_config_problem(load, &child,
				   "not a key of transport %s; remove it, or use transport %s",
				   rdt_config_transport_name(l->transport),
				   rdt_config_transport_name(__builtin_ctz(of)));
	}
}

static int check_listeners(struct rdt_config_load *load, const struct rdt_key *root,
			   const struct rdt_config *config)
{
	struct rdt_key list = rdt_config_child(load, root, "listeners");

	for (unsigned int i = 0; i < config->listeners_count; i++) {
		const struct rdt_listener_config *l = &config->listeners[i];
		struct rdt_key key = rdt_config_item(load, &list, i);
		struct rdt_key ana = rdt_config_child(load, &key, "ana");

		check_foreign_keys(load, &key, l);
		if (l->ana_count &&
		    rdt_config_check_twice(
			    load, &ana, "group",
			    &(struct rdt_config_values){l->ana, l->ana_count, sizeof(*l->ana),
							offsetof(struct rdt_ana_config, group),
							sizeof(l->ana->group)},
			    NULL))
			return -ENOMEM;
	}
	return check_clashes(load, config, &list);
}

/* ---- hosts ---- */

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char **rdt_config_sorted(const char *const *list, uint32_t count)
{
	const char **sorted = calloc(count + 1, sizeof(*sorted));

	for (uint32_t i = 0; i < count && sorted; i++)
		sorted[i] = list[i];
	if (sorted)
		qsort(sorted, count, sizeof(*sorted), compare_texts);
	return sorted;
}

bool rdt_config_has(const char *const *sorted, uint32_t count, const char *text)
{
	return bsearch(&text, sorted, count, sizeof(*sorted), compare_texts) != NULL;
}

static int check_host_list(struct rdt_config_load *load, const struct rdt_key *parent,
			   const char *const *hosts, uint32_t count)
{
	struct rdt_key key = rdt_config_child(load, parent, "hosts");

	return rdt_config_check_twice(
		load, &key, NULL, &(struct rdt_config_values){hosts, count, sizeof(*hosts), 0, 0},
		NULL);
}

/* Without either key no host may connect, but other subsystems are served
 * (rdt_preflight_hosts()). */
static int check_any_host(struct rdt_config_load *load, const struct rdt_key *key,
			  struct rdt_subsys_config *ss)
{
	struct rdt_key any = rdt_config_child(load, key, "allow_any_host");
	struct rdt_key hosts = rdt_config_child(load, key, "hosts");

	if (ss->allow_any_host && ss->hosts_count)
		rdt_config_problem(load, &any,
				   "found true together with a list of hosts; remove one of them");
	else if (ss->allow_any_host && hosts.node)
		rdt_config_warning(load, &any,
				   "found true together with an empty list of hosts: every host "
				   "may connect; remove one of them");
	if (any.node || hosts.node)
		return 0;
	if ((key->file->edited ? asprintf(&ss->hosts_unset, "%s: %s", key->file->path, key->text)
			       : asprintf(&ss->hosts_unset, "%s:%lu: %s", key->file->path,
					  key->line, key->text)) >= 0)
		return 0;
	ss->hosts_unset = NULL;
	return -ENOMEM;
}

/* ---- limits ---- */

static void check_qos(struct rdt_config_load *load, const struct rdt_key *key,
		      const struct rdt_qos_config *q)
{
	/* A limit for reads or writes above the limit for both has no effect: probably an error. */
	static const struct {
		const char *name;
		enum rdt_qos_limit own, all;
	} pairs[] = {
		{"read_iops", RDT_QOS_READ_IOPS, RDT_QOS_IOPS},
		{"write_iops", RDT_QOS_WRITE_IOPS, RDT_QOS_IOPS},
		{"read_bandwidth", RDT_QOS_READ_BYTES, RDT_QOS_BYTES},
		{"write_bandwidth", RDT_QOS_WRITE_BYTES, RDT_QOS_BYTES},
	};
	uint64_t any = 0;

	for (unsigned int i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		uint64_t own = q->limits[pairs[i].own], all = q->limits[pairs[i].all];
		struct rdt_key at = rdt_config_child(load, key, pairs[i].name);

		any |= own | all;
		if (own && all && own > all)
			rdt_config_problem(load, &at,
					   "is above the limit for reads and writes together");
	}
	if (!any && rdt_config_good(load, key))
		rdt_config_problem(load, key,
				   "limits nothing, expected at least one of iops, read_iops, "
				   "write_iops, bandwidth, read_bandwidth, write_bandwidth");
}

static int check_host_qos(struct rdt_config_load *load, const struct rdt_key *subsystem,
			  const struct rdt_subsys_config *ss)
{
	struct rdt_key list = rdt_config_child(load, subsystem, "host_qos");

	for (uint32_t i = 0; i < ss->host_qos_count; i++) {
		struct rdt_key item = rdt_config_item(load, &list, i);

		check_qos(load, &item, &ss->host_qos[i].limits);
	}
	return rdt_config_check_twice(
		load, &list, "host",
		&(struct rdt_config_values){ss->host_qos, ss->host_qos_count, sizeof(*ss->host_qos),
					    offsetof(struct rdt_host_qos_config, host), 0},
		NULL);
}

/* ---- namespaces ---- */

static void check_ns_size(struct rdt_config_load *load, const struct rdt_key *key,
			  const struct rdt_ns_config *ns)
{
	struct rdt_key size;

	if (!ns->size_bytes || !ns->block_size || ns->size_bytes % ns->block_size == 0)
		return;
	size = rdt_config_child(load, key, "size");
	rdt_config_problem(load, &size,
			   "found \"%s\" (%" PRIu64 " bytes), expected a multiple of "
			   "block_size (%u)",
			   ns->size, ns->size_bytes, ns->block_size);
}

bool rdt_config_all_zero(const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes[i])
			return false;
	}
	return true;
}

/* @text: NULL, or hexadecimal digits. */
static void parse_hex(const char *text, uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count && text; i++) {
		char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};

		bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
}

static void fill_ns_ids(const char *nqn, struct rdt_ns_config *ns)
{
	char name[NVMF_NQN_MAX + 32];

	parse_hex(ns->nguid, ns->nguid_bytes, sizeof(ns->nguid_bytes));
	parse_hex(ns->eui64, ns->eui64_bytes, sizeof(ns->eui64_bytes));
	if (ns->uuid) {
		uuid_parse(ns->uuid, ns->uuid_bytes);
		return;
	}
	snprintf(name, sizeof(name), "%.223s/%u", nqn, ns->nsid);
	uuid_generate_sha1(ns->uuid_bytes, uuid_space, name, strlen(name));
}

bool rdt_config_several(const struct rdt_subsys_config *ss)
{
	return ss->cntlid_min != NVMF_CNTLID_MIN || ss->cntlid_max != NVMF_CNTLID_MAX;
}

static void check_layers(struct rdt_config_load *load, const struct rdt_key *ns_key,
			 struct rdt_ns_config *ns)
{
	struct rdt_key list = rdt_config_child(load, ns_key, "layers");

	for (uint32_t i = 0; i < ns->layers_count; i++) {
		struct rdt_key key = rdt_config_item(load, &list, i);

		if (ns->layers[i].type == RDT_LAYER_DELAY)
			rdt_config_check_delay(load, &key, &ns->layers[i]);
		else
			rdt_config_check_error(load, &key, &ns->layers[i]);
	}
}

/* @sorted: the hosts of @ss; NULL: every host, or they are unknown. */
static int check_ns_hosts(struct rdt_config_load *load, const struct rdt_key *key,
			  const struct rdt_subsys_config *ss, const char *const *sorted,
			  struct rdt_ns_config *ns)
{
	struct rdt_key hosts = rdt_config_child(load, key, "hosts");

	ns->no_hosts = hosts.node && !ns->hosts_count;

	for (uint32_t i = 0; i < ns->hosts_count && sorted; i++) {
		struct rdt_key host = rdt_config_item(load, &hosts, i);

		if (!rdt_config_has(sorted, ss->hosts_count, ns->hosts[i]))
			rdt_config_problem(
				load, &host,
				"\"%.80s\" is not among the subsystem's hosts, so it could never "
				"see the namespace; add it there or remove it "
				"here",
				ns->hosts[i]);
	}
	return check_host_list(load, key, ns->hosts, ns->hosts_count);
}

static int check_namespaces(struct rdt_config_load *load, const struct rdt_key *subsystem,
			    const struct rdt_subsys_config *ss, const char *const *sorted)
{
	struct rdt_key list = rdt_config_child(load, subsystem, "namespaces");

	for (unsigned int i = 0; i < ss->namespaces_count && !rdt_config_late(load); i++) {
		struct rdt_ns_config *ns = &ss->namespaces[i];
		struct rdt_key key = rdt_config_item(load, &list, i), qos;

		rdt_config_check_disk(load, &key, ns);
		check_ns_size(load, &key, ns);
		check_layers(load, &key, ns);
		if (ns->qos) {
			qos = rdt_config_child(load, &key, "qos");
			check_qos(load, &qos, ns->qos);
		}
		if (check_ns_hosts(load, &key, ss, sorted, ns))
			return -ENOMEM;
		fill_ns_ids(ss->nqn, ns);
	}
	return rdt_config_check_twice(
		load, &list, "nsid",
		&(struct rdt_config_values){
			ss->namespaces, ss->namespaces_count, sizeof(*ss->namespaces),
			offsetof(struct rdt_ns_config, nsid), sizeof(ss->namespaces->nsid)},
		"namespace");
}

/* ---- subsystems ---- */

/* Derived from the NQN: stable across restarts, and different for each subsystem. */
static int default_serial(struct rdt_subsys_config *ss)
{
	char text[SERIAL_LEN + 1];
	uuid_t hash;

	if (ss->serial)
		return 0;
	uuid_generate_sha1(hash, uuid_space, ss->nqn, strlen(ss->nqn));
	for (size_t i = 0; i < SERIAL_LEN / 2; i++)
		snprintf(text + 2 * i, 3, "%02X", hash[i]);
	ss->serial = strdup(text);
	return ss->serial ? 0 : -ENOMEM;
}

static void check_discovery(struct rdt_config_load *load, const struct rdt_key *root,
			    const struct rdt_subsys_config *disc)
{
	struct rdt_key key = rdt_config_child(load, root, "discovery");
	struct rdt_key list = rdt_config_child(load, &key, "tcp_only");

	for (uint32_t i = 0; i < disc->tcp_only_count; i++) {
		struct rdt_key item = rdt_config_item(load, &list, i);

		if (rdt_config_listed(disc->rdma_only, disc->rdma_only_count, disc->tcp_only[i]))
			rdt_config_problem(load, &item,
					   "found \"%s\", which is also in rdma_only; expected "
					   "each host in one list, or in none to show it both",
					   disc->tcp_only[i]);
	}
}

static int check_subsystem(struct rdt_config_load *load, const struct rdt_key *key,
			   struct rdt_subsys_config *ss)
{
	struct rdt_key nqn = rdt_config_child(load, key, "nqn");
	struct rdt_key max = rdt_config_child(load, key, "cntlid_max");
	rd_autofree const char **sorted = NULL;

	if (strcmp(ss->nqn, NVMF_DISC_NQN) == 0)
		rdt_config_problem(
			load, &nqn,
			"found the discovery NQN, which always exists; choose another name");
	if (ss->cntlid_max && ss->cntlid_max < ss->cntlid_min)
		rdt_config_problem(load, &max, "found %u, expected %u (cntlid_min) to %u",
				   ss->cntlid_max, ss->cntlid_min, NVMF_CNTLID_MAX);
	if (check_any_host(load, key, ss))
		return -ENOMEM;
	if (!ss->allow_any_host && !ss->hosts_unset && key_good(load, key, "hosts") &&
	    key_good(load, key, "allow_any_host")) {
		sorted = rdt_config_sorted(ss->hosts, ss->hosts_count);
		if (!sorted)
			return -ENOMEM;
	}
	if (check_host_list(load, key, ss->hosts, ss->hosts_count) ||
	    check_host_qos(load, key, ss) || default_serial(ss))
		return -ENOMEM;
	return check_namespaces(load, key, ss, sorted);
}

static void check_http(struct rdt_config_load *load, const struct rdt_key *root)
{
	struct rdt_key key = rdt_config_child(load, root, "http");

	if (key.node && !RDT_HAVE_HTTP)
		rdt_config_problem(load, &key,
				   "this rdtarget was built without libmicrohttpd and has no HTTP "
				   "listener; remove the key, or build with -Dhttp=enabled");
}

int rdt_config_check(struct rdt_config_load *load, struct rdt_config *config)
{
	struct rdt_key root = rdt_config_root(load);
	struct rdt_key subsystems = rdt_config_child(load, &root, "subsystems");

	load->tree_done = true;
	if (rdt_config_full(load) || rdt_config_late(load))
		return 0;
	check_target(load, &root, &config->target);
	check_http(load, &root);
	check_discovery(load, &root, &config->discovery);
	if (check_listeners(load, &root, config))
		return -ENOMEM;
	for (unsigned int i = 0; i < config->subsystems_count && !rdt_config_late(load); i++) {
		struct rdt_key key = rdt_config_item(load, &subsystems, i);

		if (check_subsystem(load, &key, &config->subsystems[i]))
			return -ENOMEM;
	}
	if (rdt_config_check_rbd(load, config) || rdt_config_check_auth(load, config))
		return -ENOMEM;
	return rdt_config_check_unique(load, config);
}
