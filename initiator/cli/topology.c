/* SPDX-License-Identifier: BSD-3-Clause */
/* list, list-subsys and show-topology: the subsystems of a target, from its discovery log. */
#include <endian.h>
#include <math.h>
#include <nvme/types.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "util/utf8.h"

#define NVM 2u

/* A subsystem at an address. Control characters in the strings are replaced. */
struct path {
	char nqn[257];
	char traddr[257];
	char trsvcid[33];
	bool tcp;
	bool masked; /* the strings are for people only: they name another path than the log did */
};

struct paths {
	struct path *path;
	size_t n;
	char hostnqn[RDINIT_NQN_SIZE];
	char hostid[40];
};

static void set(struct path *p, bool tcp, const char *nqn, const char *traddr, const char *trsvcid)
{
	p->tcp = tcp;
	snprintf(p->nqn, sizeof(p->nqn), "%s", nqn);
	snprintf(p->traddr, sizeof(p->traddr), "%s", traddr);
	snprintf(p->trsvcid, sizeof(p->trsvcid), "%s", trsvcid);
	rd_mask_control(p->nqn, strlen(p->nqn));
	rd_mask_control(p->traddr, strlen(p->traddr));
	rd_mask_control(p->trsvcid, strlen(p->trsvcid));
	p->masked = strcmp(p->nqn, nqn) != 0 || strcmp(p->traddr, traddr) != 0 ||
		    strcmp(p->trsvcid, trsvcid) != 0;
}

/* The transport of the URI is that of all paths: another may not lead there from this host. */
static int discovered(struct cli_session *s, bool tcp, struct paths *out)
{
	struct rdinit_discovery *log;
	size_t i;

	if (rdinit_discover(s->ctrl, &log))
		return cli_lib_error();
	out->path = calloc(log->count ? log->count : 1, sizeof(*out->path));
	for (i = 0; out->path && i < log->count; i++) {
		const struct rdinit_discovery_record *r = &log->records[i];

		if (r->subtype == NVM && r->trtype == (tcp ? NVMF_TRTYPE_TCP : NVMF_TRTYPE_RDMA))
			set(&out->path[out->n++], tcp, r->subnqn, r->traddr, r->trsvcid);
	}
	rdinit_discovery_free(&log);
	return out->path ? CLI_OK : cli_error("no memory for the discovery log");
}

/* The subsystem that the options name, or those of the discovery log. */
static int find_paths(const struct cli_options *o, struct paths *out)
{
	struct cli_session s;
	int rc = cli_session_open(&s, o);

	memset(out, 0, sizeof(*out));
	if (rc)
		return rc;
	snprintf(out->hostnqn, sizeof(out->hostnqn), "%s", s.info.hostnqn);
	snprintf(out->hostid, sizeof(out->hostid), "%s", s.info.hostid);
	if (s.info.discovery) {
		rc = discovered(&s, o->ctrl.tcp, out);
	} else {
		out->path = calloc(1, sizeof(*out->path));
		if (out->path)
			set(&out->path[out->n++], o->ctrl.tcp, o->ctrl.subnqn, o->ctrl.traddr,
			    o->ctrl.trsvcid ? o->ctrl.trsvcid : "4420");
		else
			rc = cli_error("no memory for a path");
	}
	cli_session_close(&s);
	return rc;
}

static int open_path(const struct cli_options *o, const struct path *p, struct cli_session *s)
{
	struct cli_options one = *o;

	if (p->masked)
		return cli_error("the discovery log has control characters in the entry %s at "
				 "%s:%s, so nobody can connect to it",
				 p->nqn, p->traddr, p->trsvcid);
	one.ctrl.subnqn = p->nqn;
	one.ctrl.traddr = p->traddr;
	one.ctrl.trsvcid = p->trsvcid;
	return cli_session_open(s, &one);
}

/* Whether an earlier entry has the same subsystem. */
static bool seen(const struct paths *all, size_t at)
{
	size_t i;

	for (i = 0; i < at; i++) {
		if (strcmp(all->path[i].nqn, all->path[at].nqn) == 0)
			return true;
	}
	return false;
}

/* ---- list ---- */

/* The URI at which every verb opens this namespace. */
static int uri_of(const struct path *p, uint32_t nsid, char text[RDINIT_URI_SIZE])
{
	struct rdinit_uri uri;

	rdinit_uri_init(&uri);
	snprintf(uri.traddr, sizeof(uri.traddr), "%.255s", p->traddr);
	snprintf(uri.trsvcid, sizeof(uri.trsvcid), "%.7s", p->trsvcid);
	snprintf(uri.subnqn, sizeof(uri.subnqn), "%.223s", p->nqn);
	uri.nsid = nsid;
	uri.tcp = p->tcp;
	return rdinit_uri_format(&uri, text) ? cli_lib_error() : CLI_OK;
}

static void text_of(char *out, const char *in, size_t len)
{
	memcpy(out, in, len);
	out[len] = '\0';
	while (len > 0 && (out[len - 1] == ' ' || out[len - 1] == '\0'))
		out[--len] = '\0';
	rd_mask_control(out, strlen(out));
}

/* @n with a suffix of the SI (@base 1000) or of IEC (1024), in the widths of nvme-cli's columns. */
static void print_size(double value, unsigned int base, int width, int digits)
{
	static const char *const names[] = {"", "k", "M", "G", "T", "P", "E"};
	unsigned int i;
	char suffix[4];

	for (i = 0; value >= base && i + 1 < sizeof(names) / sizeof(names[0]); i++)
		value /= base;
	snprintf(suffix, sizeof(suffix), "%s", base == 1024 && i == 1 ? "K" : names[i]);
	if (base == 1024 && i)
		strcat(suffix, "i");
	printf("%*.*f %2sB", width, digits, value, suffix);
}

static void print_ns(const char *name, const char *sn, const char *mn, const char *fr,
		     uint32_t nsid, const struct nvme_id_ns *ns, unsigned int ds)
{
	printf("%-72s %-20s %-40s %-9u ", name, sn, mn, nsid);
	print_size(ldexp((double)le64toh(ns->nuse), (int)ds), 1000, 6, 2);
	printf(" / ");
	print_size(ldexp((double)le64toh(ns->nsze), (int)ds), 1000, 6, 2);
	printf("    ");
	print_size(1ull << ds, 1024, 3, 0);
	printf(" + %2u B   %-8s\n", le16toh(ns->lbaf[cli_lba_in_use(ns)].ms), fr);
}

/* A path whose namespaces are listed. @list NULL: as text. */
struct listed {
	const struct path *path;
	json_t *list;
};

static int list_ns(struct cli_session *s, uint32_t nsid, void *arg)
{
	struct listed *to = arg;
	char name[RDINIT_URI_SIZE], sn[21], mn[41], fr[9];
	struct nvme_id_ctrl ctrl;
	struct nvme_id_ns ns;
	unsigned int ds;

	if (rdinit_identify_ctrl(s->ctrl, &ctrl) || rdinit_identify_ns(s->ctrl, nsid, &ns))
		return cli_lib_error();
	if (uri_of(to->path, nsid, name))
		return CLI_FAILED;
	text_of(sn, ctrl.sn, sizeof(ctrl.sn));
	text_of(mn, ctrl.mn, sizeof(ctrl.mn));
	text_of(fr, ctrl.fr, sizeof(ctrl.fr));
	ds = ns.lbaf[cli_lba_in_use(&ns)].ds;
	if (ds > 31)
		return cli_error("%s: namespace %u reports blocks of 2^%u bytes", s->info.address,
				 nsid, ds);
	if (to->list)
		return json_array_append_new(
			to->list,
			json_pack("{s:I, s:s, s:s, s:s, s:s, s:o, s:I, s:o, s:I}", "NameSpace",
				  (json_int_t)nsid, "DevicePath", name, "Firmware", fr,
				  "ModelNumber", mn, "SerialNumber", sn, "UsedBytes",
				  cli_json_u128((unsigned __int128)le64toh(ns.nuse) << ds),
				  "MaximumLBA", (json_int_t)le64toh(ns.nsze), "PhysicalSize",
				  cli_json_u128((unsigned __int128)le64toh(ns.nsze) << ds),
				  "SectorSize", (json_int_t)1 << ds));
	print_ns(name, sn, mn, fr, nsid, &ns, ds);
	return CLI_OK;
}

/*
 * Lists the subsystem whose first entry is @first, over the first of its paths that opens; each
 * that does not says why.
 */
static int list_subsystem(const struct cli_options *o, const struct paths *all, size_t first,
			  json_t *list)
{
	struct listed to = {.list = list};
	struct cli_session s;
	size_t i;
	int rc;

	for (i = first; i < all->n; i++) {
		if (strcmp(all->path[i].nqn, all->path[first].nqn) != 0 ||
		    open_path(o, &all->path[i], &s))
			continue;
		to.path = &all->path[i];
		rc = cli_each_ns(&s, 0, false, list_ns, &to);
		cli_session_close(&s);
		return rc;
	}
	return CLI_FAILED;
}

int cli_list(const struct cli_options *o)
{
	static const char dashes[] =
		"------------------------------------------------------------------------";
	json_t *list = o->format == CLI_JSON ? json_array() : NULL;
	struct paths all;
	size_t i;
	int rc, bad = CLI_OK;

	if (cli_given(o, CLI_ARG_ATTACHED))
		return json_decref(list), cli_list_attached(o);
	rc = find_paths(o, &all);

	if (!rc && !list)
		printf("%-72s %-20s %-40s %-9s %-26s %-16s %-8s\n"
		       "%.72s %.20s %.40s %.9s %.26s %.16s %.8s\n",
		       "Node", "SN", "Model", "Namespace", "Usage", "Format", "FW Rev", dashes,
		       dashes, dashes, dashes, dashes, dashes, dashes);
	for (i = 0; !rc && i < all.n; i++) {
		if (!seen(&all, i) && list_subsystem(o, &all, i, list))
			bad = CLI_FAILED;
	}
	free(all.path);
	if (!rc && list)
		rc = cli_print_json(json_pack("{s:o}", "Devices", list), stdout);
	else
		json_decref(list);
	if (!rc && o->format != CLI_JSON)
		rc = cli_finish_output();
	return rc ? rc : bad;
}

/* ---- list-subsys and show-topology ---- */

/* The state of the namespace's group in the ANA log of this path, or "optimized" without a log. */
static const char *ana_state(const unsigned char *page, uint32_t nsid)
{
	struct nvme_ana_group_desc g;
	struct nvme_ana_log hdr;
	size_t at = sizeof(hdr);
	unsigned int i;
	uint32_t j, id;

	if (!page)
		return "optimized";
	memcpy(&hdr, page, sizeof(hdr));
	for (i = 0; i < le16toh(hdr.ngrps); i++) {
		memcpy(&g, page + at, sizeof(g));
		at += sizeof(g);
		for (j = 0; j < le32toh(g.nnsids); j++, at += 4) {
			memcpy(&id, page + at, sizeof(id));
			if (le32toh(id) == nsid)
				return cli_ana_state(g.state);
		}
	}
	return "unknown";
}

/* Reads the ANA log; NULL if the controller has no ANA. */
static int read_ana(struct cli_session *s, unsigned char **page)
{
	struct nvme_id_ctrl id;
	uint64_t size;

	*page = NULL;
	if (rdinit_identify_ctrl(s->ctrl, &id))
		return cli_lib_error();
	return id.cmic & NVME_CTRL_CMIC_MULTI_ANA_REPORTING ? cli_ana_read(s, false, page, &size)
							    : CLI_OK;
}

static int add_nsid(struct cli_session *s, uint32_t nsid, void *list)
{
	return json_array_append_new(list, json_pack("{s:I}", "NSID", (json_int_t)nsid));
}

/* Connects to the path: reports "live" and the namespaces, or the error of the path. */
static int visit(const struct cli_options *o, const struct path *p, json_t *obj)
{
	json_t *list = json_array(), *one;
	unsigned char *page = NULL;
	struct cli_session s;
	size_t i;
	int rc = open_path(o, p, &s);

	json_object_set_new(obj, "Namespaces", list);
	json_object_set_new(obj, "State", json_string(rc ? "unreachable" : "live"));
	if (rc)
		return rc;
	rc = cli_each_ns(&s, 0, false, add_nsid, list);
	if (!rc)
		rc = read_ana(&s, &page);
	json_array_foreach(list, i, one) json_object_set_new(
		one, "ANAState",
		json_string(ana_state(page,
				      (uint32_t)json_integer_value(json_object_get(one, "NSID")))));
	free(page);
	cli_session_close(&s);
	return rc;
}

static json_t *path_json(const struct path *p)
{
	return json_pack("{s:s, s:o}", "Transport", p->tcp ? "tcp" : "rdma", "Address",
			 json_sprintf("traddr=%s,trsvcid=%s", p->traddr, p->trsvcid));
}

/* Prints what @obj has of these members, one behind the other. */
static void print_members(const json_t *obj, const char *const *keys)
{
	const char *text;

	for (; *keys; keys++) {
		text = json_string_value(json_object_get(obj, *keys));
		if (text)
			printf(" %s", text);
	}
	printf("\n");
}

static long long nsid_in_json(const json_t *ns)
{
	return (long long)json_integer_value(json_object_get(ns, "NSID"));
}

/* The paths of @ss, and their namespaces: nvme-cli prints the state of the path with these. */
static void print_paths(const json_t *ss)
{
	static const char *const members[] = {"Transport", "Address", "State", NULL};
	static const char *const address[] = {"Transport", "Address", NULL};
	json_t *p, *ns, *namespaces;
	size_t i, j;

	json_array_foreach(json_object_get(ss, "Paths"), i, p)
	{
		namespaces = json_object_get(p, "Namespaces");
		printf(" +-");
		print_members(p, json_array_size(namespaces) ? address : members);
		if (json_array_size(namespaces))
			printf(" \\\n");
		json_array_foreach(namespaces, j, ns)
		{
			printf("  +- ns %lld %s %s\n", nsid_in_json(ns),
			       json_string_value(json_object_get(p, "State")),
			       json_string_value(json_object_get(ns, "ANAState")));
		}
	}
}

/* The namespaces of @ss, and their paths; then the paths that have none. */
static void print_namespaces(const json_t *ss)
{
	static const char *const members[] = {"Transport", "Address", "State", "ANAState", NULL};
	json_t *p, *ns;
	size_t i, j;

	json_array_foreach(json_object_get(ss, "Namespaces"), i, ns)
	{
		printf(" +- ns %lld\n \\\n", nsid_in_json(ns));
		json_array_foreach(json_object_get(ns, "Paths"), j, p)
		{
			printf("  +-");
			print_members(p, members);
		}
	}
	json_array_foreach(json_object_get(ss, "Paths"), i, p)
	{
		if (json_array_size(json_object_get(p, "Namespaces")))
			continue;
		printf(" +-");
		print_members(p, members);
	}
}

static void print_topology(const json_t *subsystems, bool by_path)
{
	json_t *ss;
	size_t i;

	json_array_foreach(subsystems, i, ss)
	{
		printf("subsys%zu - NQN=%s\n\\\n", i,
		       json_string_value(json_object_get(ss, "NQN")));
		if (by_path)
			print_paths(ss);
		else
			print_namespaces(ss);
	}
}

/* Adds to @ss its namespaces with their paths, from its paths with their namespaces. */
static void group_by_namespace(json_t *ss)
{
	json_t *all = json_array(), *by_nsid = json_object(), *p, *ns, *entry, *path;
	char key[24];
	size_t i, j;

	json_array_foreach(json_object_get(ss, "Paths"), i, p)
	{
		json_array_foreach(json_object_get(p, "Namespaces"), j, ns)
		{
			snprintf(key, sizeof(key), "%lld", nsid_in_json(ns));
			entry = json_object_get(by_nsid, key);
			if (!entry) {
				entry = json_pack("{s:I, s:[]}", "NSID",
						  (json_int_t)nsid_in_json(ns), "Paths");
				json_object_set_new(by_nsid, key, entry);
				json_array_append(all, entry);
			}
			path = json_copy(p);
			json_object_del(path, "Namespaces");
			json_object_set(path, "ANAState", json_object_get(ns, "ANAState"));
			json_array_append_new(json_object_get(entry, "Paths"), path);
		}
	}
	json_decref(by_nsid);
	json_object_set_new(ss, "Namespaces", all);
}

/* nvme-cli's members have the namespaces once, with their paths. */
static int print_topology_json(const struct paths *all, json_t *subsystems)
{
	json_t *ss, *p;
	size_t i, j;

	json_array_foreach(subsystems, i, ss) json_array_foreach(json_object_get(ss, "Paths"), j, p)
		json_object_del(p, "Namespaces");
	return cli_print_json(json_pack("[{s:s, s:s, s:o}]", "HostNQN", all->hostnqn, "HostID",
					all->hostid, "Subsystems", subsystems),
			      stdout);
}

/* The subsystems of the log, each with its paths; @go: and what there is behind each path. */
static json_t *subsystems_of(const struct cli_options *o, const struct paths *all, bool go,
			     int *bad)
{
	json_t *subsystems = json_array(), *ss, *p, *list;
	size_t i, j;

	for (i = 0; i < all->n; i++) {
		if (seen(all, i))
			continue;
		list = json_array();
		for (j = i; j < all->n; j++) {
			if (strcmp(all->path[j].nqn, all->path[i].nqn) != 0)
				continue;
			p = path_json(&all->path[j]);
			if (go && visit(o, &all->path[j], p))
				*bad = CLI_FAILED;
			json_array_append_new(list, p);
		}
		ss = json_pack("{s:s, s:o}", "NQN", all->path[i].nqn, "Paths", list);
		if (go)
			group_by_namespace(ss);
		json_array_append_new(subsystems, ss);
	}
	return subsystems;
}

static int topology(const struct cli_options *o, bool go, bool by_path)
{
	json_t *subsystems;
	struct paths all;
	int rc = find_paths(o, &all), bad = CLI_OK;

	if (!rc) {
		subsystems = subsystems_of(o, &all, go, &bad);
		if (o->format == CLI_JSON) {
			rc = print_topology_json(&all, subsystems);
		} else {
			print_topology(subsystems, by_path);
			json_decref(subsystems);
			rc = cli_finish_output();
		}
	}
	free(all.path);
	return rc ? rc : bad;
}

int cli_list_subsys(const struct cli_options *o)
{
	return topology(o, false, true);
}

int cli_show_topology(const struct cli_options *o)
{
	return topology(o, true, cli_num(o, CLI_ARG_RANKING, 0));
}
