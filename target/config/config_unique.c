/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that NQNs, IDs and the storage of namespaces are unique. Sorts them, so that the time does
 * not grow with the square of their number. */
#include "backends.h"
#include "config_priv.h"
#include "tgt_limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "util/cleanup.h"

/* Descriptors that are not namespace files: listeners, rings, the first connections. */
#define OTHER_FILES 64u

static int compare_bytes(const struct rdt_config_id *a, const struct rdt_config_id *b)
{
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return a->len ? memcmp(a->bytes, b->bytes, a->len) : 0;
}

static int compare_ids(const void *a, const void *b)
{
	const struct rdt_config_id *x = a;
	const struct rdt_config_id *y = b;
	int order = compare_bytes(x, y);

	return order ? order : (x->index > y->index) - (x->index < y->index);
}

void rdt_config_firsts(struct rdt_config_id *ids, unsigned int count, unsigned int *first)
{
	unsigned int start = 0;

	if (count)
		qsort(ids, count, sizeof(*ids), compare_ids);
	for (unsigned int i = 0; i < count; i++) {
		if (compare_bytes(&ids[start], &ids[i]) != 0)
			start = i;
		first[ids[i].index] = ids[start].index;
	}
}

int rdt_config_check_twice(struct rdt_config_load *load, const struct rdt_key *list,
			   const char *name, const struct rdt_config_values *values,
			   const char *what)
{
	unsigned int count = values->count;
	rd_autofree struct rdt_config_id *ids = calloc(count + 1, sizeof(*ids));
	rd_autofree unsigned int *first = calloc(count + 1, sizeof(*first));
	char where[512];

	if (!ids || !first)
		return -ENOMEM;
	for (unsigned int i = 0; i < count; i++) {
		const void *at = (const char *)values->array + i * values->size + values->at;

		if (!values->len)
			at = *(const char *const *)at;
		ids[i] = (struct rdt_config_id){at, values->len ? values->len : strlen(at), i};
	}
	rdt_config_firsts(ids, count, first);
	for (unsigned int i = 0; i < count; i++) {
		struct rdt_key mine, other;

		if (first[i] == i)
			continue;
		mine = rdt_config_item(load, list, i);
		other = rdt_config_item(load, list, first[i]);
		if (name)
			mine = rdt_config_child(load, &mine, name);
		if (!mine.node || mine.node->type != YAML_SCALAR_NODE)
			continue; /* an invalid value, which was reported */
		rdt_config_where(&mine, &other, where, sizeof(where));
		if (what)
			rdt_config_problem(load, &mine,
					   "\"%.80s\" is already used by the %s %s; each needs "
					   "its own",
					   (const char *)mine.node->data.scalar.value, what, where);
		else
			rdt_config_problem(load, &mine, "\"%.80s\" is listed twice, first %s",
					   (const char *)mine.node->data.scalar.value, where);
	}
	return 0;
}

/* ---- the namespaces of all subsystems, in order ---- */

struct entry {
	const struct rdt_ns_config *ns;
	unsigned int subsystem;
	unsigned int index; /* index of the namespace in the subsystem */
	char *storage;      /* identifies its storage; NULL: memory and the like */
};

struct all {
	struct rdt_config_load *load;
	struct entry *entries;
	struct rdt_config_id *ids;
	unsigned int *first;
	unsigned int count;
};

static struct rdt_key ns_key_of(const struct all *all, unsigned int i)
{
	struct rdt_key key = rdt_config_root(all->load);

	key = rdt_config_child(all->load, &key, "subsystems");
	key = rdt_config_item(all->load, &key, all->entries[i].subsystem);
	key = rdt_config_child(all->load, &key, "namespaces");
	return rdt_config_item(all->load, &key, all->entries[i].index);
}

const char *rdt_config_where(const struct rdt_key *from, const struct rdt_key *other, char *buf,
			     size_t size)
{
	if (other->file->edited)
		snprintf(buf, size, "%s", other->text);
	else if (from->file == other->file)
		snprintf(buf, size, "in line %lu", other->line);
	else
		snprintf(buf, size, "in %s:%lu", other->file->path, other->line);
	return buf;
}

/* Reports that namespace @i and an earlier one, in all->first, have the same value of @name. @in:
 * the mapping with @name; NULL: the namespace itself. */
static void report_same(struct all *all, unsigned int i, const char *in, const char *name,
			const char *used, const char *advice)
{
	struct rdt_key mine = ns_key_of(all, i), other = ns_key_of(all, all->first[i]);
	char where[512];

	if (in)
		mine = rdt_config_child(all->load, &mine, in);
	mine = rdt_config_child(all->load, &mine, name);
	/* An ID that is not in the file was derived from NQN and NSID, whose repetition is reported
	 * elsewhere. */
	if (mine.node)
		rdt_config_problem(all->load, &mine, "%s is already %s by the namespace %s; %s",
				   (const char *)mine.node->data.scalar.value, used,
				   rdt_config_where(&mine, &other, where, sizeof(where)), advice);
}

/* ---- IDs: hosts treat two namespaces with the same ID as one disk ---- */

/* @kept: a namespace without a UUID has its own in state_dir, which cannot be checked here. */
static void check_ids(struct all *all, const char *name, size_t at, size_t len, bool kept)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < all->count; i++) {
		const uint8_t *id = (const uint8_t *)all->entries[i].ns + at;

		all->first[i] = i;
		if (!rdt_config_all_zero(id, len) && !(kept && !all->entries[i].ns->uuid))
			all->ids[count++] = (struct rdt_config_id){id, len, i};
	}
	rdt_config_firsts(all->ids, count, all->first);
	for (unsigned int i = 0; i < all->count; i++)
		if (all->first[i] != i)
			report_same(all, i, NULL, name, "used", "each needs its own");
}

/* ---- storage: two namespaces on one file would overwrite each other's data ---- */

/* The files are not accessed here, because storage may hang. A file with two names is detected when
 * it is opened and locked, and by --check=full. */

/* Storage may be shared if no namespace writes to it. @ids: the namespaces on the same storage, in
 * order. */
static void check_same_id(struct all *all, const struct rdt_config_id *ids, unsigned int count)
{
	const struct rdt_config_id *writer = NULL;

	for (unsigned int i = 0; i < count; i++) {
		const struct rdt_ns_config *ns = all->entries[ids[i].index].ns;

		if (i)
			all->first[ids[i].index] = !ns->read_only ? ids[0].index
						   : writer       ? writer->index
								  : ids[i].index;
		if (!writer && !ns->read_only)
			writer = &ids[i];
	}
}

static void report_storage(struct all *all, unsigned int i)
{
	const struct rdt_backend_kind *kind = rdt_backend_kind(all->entries[i].ns);
	char advice[96];

	snprintf(advice, sizeof(advice), "use %s, or set \"read_only: true\" for both",
		 kind->another);
	report_same(all, i, kind->in, kind->key, "served", advice);
}

/* Whether the keys that identify the storage of a namespace, and whether it writes, are valid. */
static bool storage_is_known(const struct all *all, unsigned int i)
{
	static const char *const names[] = {"backend", "read_only", "rbd"};
	struct rdt_key key = {0};

	if (!all->load->problems)
		return true;
	key = ns_key_of(all, i);
	for (unsigned int n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
		struct rdt_key at = rdt_config_child(all->load, &key, names[n]);

		if (!rdt_config_good(all->load, &at))
			return false;
	}
	return true;
}

static int check_storage(struct all *all)
{
	unsigned int count = 0, n;
	int rc = 0;

	for (unsigned int i = 0; i < all->count && !rc; i++) {
		struct entry *e = &all->entries[i];

		all->first[i] = i;
		if (storage_is_known(all, i))
			rc = rdt_config_storage(e->ns, &e->storage);
		if (!rc && e->storage)
			all->ids[count++] =
				(struct rdt_config_id){e->storage, strlen(e->storage), i};
	}
	if (count)
		qsort(all->ids, count, sizeof(*all->ids), compare_ids);
	for (unsigned int i = 0; i < count && !rc; i += n) {
		for (n = 1; i + n < count; n++)
			if (compare_bytes(&all->ids[i], &all->ids[i + n]) != 0)
				break;
		check_same_id(all, &all->ids[i], n);
	}
	for (unsigned int i = 0; i < all->count; i++) {
		if (!rc && all->first[i] != i)
			report_storage(all, i);
		free(all->entries[i].storage);
	}
	return rc;
}

/* Checks the limit of open files, because every namespace keeps one open. */
static void check_open_files(struct all *all)
{
	unsigned int count = 0, last = 0;
	struct rlimit lim;
	struct rdt_key key;

	for (unsigned int i = 0; i < all->count; i++) {
		if (!rdt_backend_kind(all->entries[i].ns)->disk)
			continue;
		count++;
		last = i;
	}
	if (!count || getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_max >= count + OTHER_FILES)
		return;
	key = ns_key_of(all, last);
	rdt_config_problem(all->load, &key,
			   "is file %u of the configuration, but this process may open %llu files "
			   "at most; raise the limit to %u plus one for each connection "
			   "(LimitNOFILE= of the service, or ulimit -Hn)",
			   count, (unsigned long long)lim.rlim_max, count + OTHER_FILES);
}

/* ---- all of them ---- */

static void check_count(struct all *all)
{
	struct rdt_key key;

	if (all->count > RDT_NS_SLOTS) {
		key = ns_key_of(all, RDT_NS_SLOTS);
		rdt_config_problem(all->load, &key,
				   "is one of %u namespaces in all, expected at most %u; remove "
				   "some, or let another rdtarget serve them",
				   all->count, RDT_NS_SLOTS);
	}
}

static int check_names(struct rdt_config_load *load, const struct rdt_config *config)
{
	struct rdt_key root = rdt_config_root(load);
	struct rdt_key list = rdt_config_child(load, &root, "subsystems");

	struct rdt_config_values values = {config->subsystems, config->subsystems_count,
					   sizeof(*config->subsystems),
					   offsetof(struct rdt_subsys_config, nqn), 0};
	int rc = rdt_config_check_twice(load, &list, "nqn", &values, "subsystem");

	/* Hosts name disks by the serial number: two subsystems would get the same link of udev. */
	values.at = offsetof(struct rdt_subsys_config, serial);
	return rc ? rc : rdt_config_check_twice(load, &list, "serial", &values, "subsystem");
}

int rdt_config_check_unique(struct rdt_config_load *load, const struct rdt_config *config)
{
	rd_autofree struct rdt_config_id *ids = NULL;
	rd_autofree struct entry *entries = NULL;
	rd_autofree unsigned int *first = NULL;
	struct all all = {.load = load};
	unsigned int count = 0;

	for (unsigned int s = 0; s < config->subsystems_count; s++)
		count += config->subsystems[s].namespaces_count;
	all.ids = ids = calloc(count + 1, sizeof(*ids));
	all.entries = entries = calloc(count + 1, sizeof(*entries));
	all.first = first = calloc(count + 1, sizeof(*first));
	if (!ids || !entries || !first || check_names(load, config))
		return -ENOMEM;
	for (unsigned int s = 0; s < config->subsystems_count; s++) {
		const struct rdt_subsys_config *ss = &config->subsystems[s];

		for (unsigned int n = 0; n < ss->namespaces_count; n++)
			entries[all.count++] = (struct entry){
				.ns = &ss->namespaces[n], .subsystem = s, .index = n};
	}
	check_count(&all);
	check_ids(&all, "uuid", offsetof(struct rdt_ns_config, uuid_bytes), 16,
		  config->target.state_dir);
	check_ids(&all, "nguid", offsetof(struct rdt_ns_config, nguid_bytes), 16, false);
	check_ids(&all, "eui64", offsetof(struct rdt_ns_config, eui64_bytes), 8, false);
	check_open_files(&all);
	return check_storage(&all);
}
