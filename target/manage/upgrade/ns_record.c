/* SPDX-License-Identifier: BSD-3-Clause */
#include "ns_record.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/cleanup.h"
#include "util/fd_bag.h"
#include "util/parse.h"
#include "channel.h"
#include "target/bdev/backend.h"
#include "target/bdev/inherit.h"
#include "target/config/backends.h"
#include "target/config/config.h"
#include "target/config/tgt_limits.h"
#include "target/nvmf/ana.h"
#include "target/nvmf/events.h"
#include "target/nvmf/gate.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/io.h"
#include "target/nvmf/move_bytes.h"
#include "target/nvmf/move_counters.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/resv.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/resv/identity.h"
#include "target/resv/reservation.h"

#define ERRNO_MAX 4095 /* of Linux */
#define ALIGN_MAX 65536

struct explain {
	char *why;
	size_t size;
};

__attribute__((format(printf, 5, 6))) static int ns_cannot(const struct explain *ex, int err,
							   const char *nqn, uint32_t nsid,
							   const char *fmt, ...)
{
	int len = snprintf(ex->why, ex->size, "%s namespace %u: ", nqn, nsid);
	va_list ap;

	va_start(ap, fmt);
	if (len > 0 && (size_t)len < ex->size)
		vsnprintf(ex->why + len, ex->size - (size_t)len, fmt, ap);
	va_end(ap);
	return err;
}

/* ---- the process that hands over ---- */

static const char *not_settled(const struct rdt_ns *ns)
{
	return ns->state == RDT_NS_LEAVING   ? "it is being removed; try again when it has gone"
	       : ns->state == RDT_NS_OPENING ? "it is being opened; try again when that has ended"
	       : ns->state == RDT_NS_JOINING ? "it is being added; try again when that has ended"
					     : NULL;
}

/* Returns the number of its descriptor in @bag, -ENODATA when it needs none, or another -errno. */
static int share_storage(const struct rdt_ns *ns, struct rd_fd_bag *bag, const struct explain *ex)
{
	int fd = rdt_bdev_share(ns->bdev), at;

	if (fd == -ENODATA)
		return fd;
	if (fd < 0)
		return ns_cannot(ex, -EOPNOTSUPP, ns->subsys->nqn, ns->nsid,
				 "storage of backend %s cannot be handed over to another process; "
				 "restart rdtarget instead, or remove the namespace first",
				 rdt_config_backend_name(ns->cfg->backend));
	at = rd_fd_bag_add_dup(bag, fd);
	if (at < 0)
		return ns_cannot(ex, at, ns->subsys->nqn, ns->nsid,
				 "its descriptor cannot be passed on: %s; raise the limit of open "
				 "files (LimitNOFILE= of a service)",
				 strerror(-at));
	return at;
}

/* NULL: the storage has a descriptor, or nothing is to be told of it. */
static json_t *told_of(const struct rdt_ns *ns)
{
	struct rdt_bdev_told told;

	if (!rdt_bdev_told(ns->bdev, &told))
		return NULL;
	return json_pack("{s:b, s:b, s:b, s:s*}", "cache", told.cache, "stores", told.stores,
			 "deallocates", told.deallocates, "what", told.what[0] ? told.what : NULL);
}

static const char *const zero_names[] = {
	[RDT_ZERO_NONE] = "none", [RDT_ZERO_RANGE] = "range", [RDT_ZERO_PUNCH] = "punch"};

/* What the next process would ask of storage that may hang. */
static int add_found(const struct rdt_ns *ns, json_t *record)
{
	struct rdt_bdev_found found;

	if (!rdt_bdev_found(ns->bdev, &found))
		return 0;
	return json_object_set_new(record, "found",
				   json_pack("{s:i, s:s}", "align", (int)found.mem_align, "zeroes",
					     zero_names[found.zeroes]))
		       ? -ENOMEM
		       : 0;
}

/* Another value than these, of a later version, is found out again. */
static void inherit_found(const json_t *record, struct rdt_inherit *inherit, const char *name)
{
	struct rdt_bdev_found found = {0};
	json_int_t align;
	const char *zeroes;

	if (json_unpack(json_object_get(record, "found"), "{s:I, s:s}", "align", &align, "zeroes",
			&zeroes) ||
	    align < 0 || align > ALIGN_MAX || (align & (align - 1)))
		return;
	found.mem_align = (uint32_t)align;
	for (found.zeroes = 0; found.zeroes <= RDT_ZERO_PUNCH; found.zeroes++)
		if (strcmp(zero_names[found.zeroes], zeroes) == 0) {
			rdt_inherit_find(inherit, name, &found);
			return;
		}
}

static int add_told(json_t *record, json_t *told)
{
	return json_object_set_new(record, RDT_MUST_TOLD, told) ||
			       json_object_set_new(record, "must", json_pack("[s]", RDT_MUST_TOLD))
		       ? -ENOMEM
		       : 0;
}

static int add_ns(const struct rdt_ns *ns, json_t *records, struct rd_fd_bag *bag,
		  const struct explain *ex)
{
	rd_autofree char *storage = NULL;
	int fd = share_storage(ns, bag, ex), err;
	json_t *record, *told;

	if (fd < 0 && fd != -ENODATA)
		return fd;
	told = told_of(ns);
	err = fd < 0 && !told ? 0 : rdt_inherit_storage(ns->subsys->nqn, ns->cfg, &storage);
	record = json_pack("{s:s, s:s, s:I, s:s, s:s, s:s*, s:I, s:I}", "kind", "ns", "nqn",
			   ns->subsys->nqn, "nsid", (json_int_t)ns->nsid, "uuid",
			   ns->identity.id->text, "backend",
			   rdt_config_backend_name(ns->cfg->backend), "storage", storage,
			   "block_size", (json_int_t)1 << ns->lbads, "size",
			   (json_int_t)(atomic_load(&ns->blocks) << ns->lbads));
	if (record && fd >= 0 && json_object_set_new(record, "fd", json_integer(fd)))
		err = -ENOMEM;
	if (record && fd >= 0 && add_found(ns, record))
		err = -ENOMEM;
	if (record && told)
		err = add_told(record, json_incref(told)) ? -ENOMEM : err;
	json_decref(told);
	if (!record || err) {
		json_decref(record);
		return ns_cannot(ex, -ENOMEM, ns->subsys->nqn, ns->nsid, "out of memory");
	}
	return json_array_append_new(records, record) ? -ENOMEM : 0;
}

int rdt_ns_records_open(const struct rdt_target *t, json_t *records, struct rd_fd_bag *bag,
			char *why, size_t size)
{
	const struct explain ex = {why, size};
	int err = 0;

	for (unsigned int i = 0; i < RDT_NS_SLOTS && !err; i++) {
		const struct rdt_ns *ns = t->ns[i];
		const char *busy = ns ? not_settled(ns) : NULL;

		if (busy)
			err = ns_cannot(&ex, -EBUSY, ns->subsys->nqn, ns->nsid, "%s", busy);
		else if (ns && ns->bdev)
			err = add_ns(ns, records, bag, &ex);
	}
	return err;
}

static int add_reservations(const struct rdt_ns *ns, json_t *record)
{
	struct rdt_resv_state state;
	rd_autofree char *text = NULL;
	const struct rd_hash_key *key = &ns->subsys->target->peers.names_key;
	json_t *names;
	int err = rdt_resv_give(ns, &state);

	if (err || (!state.count && !state.gen))
		return err;
	err = rdt_resv_to_json(&state, rdt_ns_uuid(ns), &text);
	names = json_array();
	for (unsigned int i = 0; i < state.count && !err; i++)
		err = json_array_append_new(names, json_integer(state.reg[i].name)) ? -ENOMEM : 0;
	if (json_object_set_new(record, "names", names) || err ||
	    json_object_set_new(record, "names_key",
				rdt_move_hex_text((const uint8_t *)key, sizeof(*key))) ||
	    json_object_set_new(record, "reservations", json_string(text)))
		return -ENOMEM;
	return 0;
}

static int add_marks(struct rdt_ns *ns, json_t *record)
{
	json_t *list = rdt_uncor_give(ns);

	if (!list)
		return -ENOMEM;
	if (json_array_size(list))
		return json_object_set_new(record, "uncorrectable", list) ? -ENOMEM : 0;
	json_decref(list);
	return 0;
}

static int add_faults(const struct rdt_ns *ns, json_t *record)
{
	struct rdt_bdev *base = rdt_bdev_base(ns->bdev);
	json_t *faults;

	if (!atomic_load(&base->faults))
		return 0;
	faults = json_pack("{s:I, s:i, s:I, s:I}", "kinds", (json_int_t)atomic_load(&base->faults),
			   "sync_error", atomic_load(&base->sync_err), "data_end",
			   (json_int_t)atomic_load(&base->data_end), "since",
			   (json_int_t)atomic_load(&base->fault_since));
	return json_object_set_new(record, "faults", faults) ? -ENOMEM : 0;
}

/* What the next process has to know that reaches the storage by a connection of its own. */
static int add_given(const struct rdt_ns *ns, json_t *record)
{
	char text[RDT_BDEV_GIVEN];
	int err = rdt_bdev_give(ns->bdev, text);

	if (err || !text[0])
		return err;
	return json_object_set_new(record, "given", json_string(text)) ? -ENOMEM : 0;
}

static int add_unfinished(const struct rdt_ns *ns, json_t *record)
{
	if (!ns->left_behind)
		return 0;
	return json_object_set_new(record, RDT_MUST_UNFINISHED, json_true()) ||
			       json_object_set_new(record, "must",
						   json_pack("[s]", RDT_MUST_UNFINISHED))
		       ? -ENOMEM
		       : 0;
}

/* What hosts have set, or what has happened to it. */
static int add_what_was_set(struct rdt_ns *ns, json_t *record)
{
	int err = add_given(ns, record);

	if (!err)
		err = add_reservations(ns, record);
	if (!err)
		err = add_marks(ns, record);
	if (!err)
		err = add_faults(ns, record);
	return err ? err : add_unfinished(ns, record);
}

static int add_ns_state(struct rdt_ns *ns, enum rdt_move_part part, json_t *records)
{
	json_t *record =
		json_pack("{s:s, s:s, s:I, s:i, s:i}", "kind", "ns-state", "nqn", ns->subsys->nqn,
			  "nsid", (json_int_t)ns->nsid, "write_protect", (int)atomic_load(&ns->wp),
			  "ana_group", (int)rdt_ns_ana_group(ns));
	int err = record ? 0 : -ENOMEM;

	if (!err && part != RDT_MOVE_COUNTERS)
		err = add_what_was_set(ns, record);
	if (!err && part != RDT_MOVE_STATE)
		err = rdt_move_ns_counters_out(ns, record);
	if (err) {
		json_decref(record);
		return err;
	}
	return json_array_append_new(records, record) ? -ENOMEM : 0;
}

int rdt_ns_records_state(const struct rdt_target *t, enum rdt_move_part part, json_t *records,
			 char *why, size_t size)
{
	const struct explain ex = {why, size};
	int err = 0;

	for (unsigned int i = 0; i < RDT_NS_SLOTS && !err; i++) {
		struct rdt_ns *ns = t->ns[i];

		if (!ns || !ns->bdev)
			continue;
		err = add_ns_state(ns, part, records);
		if (err)
			ns_cannot(&ex, err, ns->subsys->nqn, ns->nsid, "its state: %s",
				  err == -EBUSY ? "it changes just now; try again"
						: strerror(-err));
	}
	return err;
}

void rdt_ns_records_name_user(const struct rdt_target *t, bool us)
{
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++)
		if (t->ns[i] && t->ns[i]->bdev)
			rdt_bdev_name_user(t->ns[i]->bdev, us);
}

/* ---- the process that takes over ---- */

static const struct rdt_ns_config *configured_ns(const struct rdt_config *cfg, const char *nqn,
						 json_int_t nsid)
{
	for (unsigned int i = 0; i < cfg->subsystems_count; i++) {
		const struct rdt_subsys_config *ss = &cfg->subsystems[i];

		if (strcmp(ss->nqn, nqn) != 0)
			continue;
		for (unsigned int k = 0; k < ss->namespaces_count; k++)
			if (ss->namespaces[k].nsid == nsid)
				return &ss->namespaces[k];
	}
	return NULL;
}

/* Hosts would go on with what they know of it. */
static int check_same_ns(const struct rdt_ns_config *cfg, const char *nqn, json_int_t block_size,
			 json_int_t size, const char *backend, const struct explain *ex)
{
	const char *now = rdt_config_backend_name(cfg->backend);
	char had[RD_SIZE_TEXT], has[RD_SIZE_TEXT];

	if (cfg->block_size != block_size)
		return ns_cannot(ex, -EINVAL, nqn, cfg->nsid,
				 "block_size is %u in the configuration and %lld in the running "
				 "target; reload that first (rdctl reload)",
				 cfg->block_size, (long long)block_size);
	if (strcmp(now, backend) != 0)
		return ns_cannot(ex, -EINVAL, nqn, cfg->nsid,
				 "its backend is %s in the configuration and %s in the running "
				 "target; reload that first (rdctl reload)",
				 now, backend);
	if (cfg->backend == RDT_BACKEND_MEMORY && cfg->size_bytes != (uint64_t)size)
		return ns_cannot(ex, -EINVAL, nqn, cfg->nsid,
				 "size is %s in the configuration and %s in the running target; "
				 "reload that first (rdctl reload)",
				 rd_format_size(cfg->size_bytes, has),
				 rd_format_size((uint64_t)size, had));
	return 0;
}

/* The other process has a connection to it, and this one makes its own later. */
static int inherit_told(const json_t *record, const struct rdt_ns_config *ns, const char *nqn,
			const char *storage, json_int_t size, struct rdt_inherit *inherit,
			const struct explain *ex)
{
	int cache, stores, deallocates;
	rd_autofree char *name = NULL;
	struct rdt_bdev_told told;

	if (json_unpack(json_object_get(record, RDT_MUST_TOLD), "{s:b, s:b, s:b}", "cache", &cache,
			"stores", &stores, "deallocates", &deallocates) ||
	    !storage || size < ns->block_size || size % ns->block_size)
		return ns_cannot(ex, -EPROTO, nqn, ns->nsid,
				 "what hosts were told of it has no cache, stores or deallocates, "
				 "or its size or storage cannot be");
	if (rdt_inherit_storage(nqn, ns, &name))
		return ns_cannot(ex, -ENOMEM, nqn, ns->nsid, "out of memory");
	if (strcmp(name, storage) != 0)
		return ns_cannot(ex, -EINVAL, nqn, ns->nsid,
				 "uri is %s in the configuration and another one in the running "
				 "target; reload that first (rdctl reload)",
				 ns->uri);
	told = (struct rdt_bdev_told){(uint64_t)size, cache, stores, deallocates};
	return rdt_inherit_tell(inherit, name, &told)
		       ? ns_cannot(ex, -ENOMEM, nqn, ns->nsid, "out of memory")
		       : 0;
}

/* One "ns". */
static int inherit_ns(const json_t *record, const struct rdt_config *cfg, struct rd_fd_bag *bag,
		      struct rdt_inherit *inherit, const struct explain *ex)
{
	const char *nqn, *storage = NULL, *backend;
	json_int_t nsid, block_size, size, fd = -1;
	const struct rdt_ns_config *ns;
	json_error_t error;
	int got, err;

	if (json_unpack_ex((json_t *)record, &error, 0, "{s:s, s:I, s:s, s?s, s:I, s:I, s?I}",
			   "nqn", &nqn, "nsid", &nsid, "backend", &backend, "storage", &storage,
			   "block_size", &block_size, "size", &size, "fd", &fd)) {
		snprintf(ex->why, ex->size, "the record of a namespace: %s", error.text);
		return -EPROTO;
	}
	ns = configured_ns(cfg, nqn, nsid);
	err = ns ? check_same_ns(ns, nqn, block_size, size, backend, ex) : 0;
	if (!err && ns && json_object_get(record, RDT_MUST_TOLD))
		return inherit_told(record, ns, nqn, storage, size, inherit, ex);
	if (err || fd < 0 || !storage)
		return err;
	got = rd_fd_bag_take(bag, fd);
	if (got < 0)
		return ns_cannot(ex, -EPROTO, nqn, (uint32_t)nsid, "its descriptor did not come");
	if (rdt_inherit_add(inherit, storage, got))
		return ns_cannot(ex, -ENOMEM, nqn, (uint32_t)nsid, "out of memory");
	inherit_found(record, inherit, storage);
	return 0;
}

int rdt_ns_records_inherit(const json_t *records, const struct rdt_config *cfg,
			   struct rd_fd_bag *bag, struct rdt_inherit *inherit, char *why,
			   size_t size)
{
	const struct explain ex = {why, size};
	const json_t *record;
	int err = 0;
	size_t i;

	json_array_foreach(records, i, record) if (!err && rdt_move_is(record, "ns")) err =
		inherit_ns(record, cfg, bag, inherit, &ex);
	return err;
}

/* The namespace of @record; NULL: it is not there any more. */
static struct rdt_ns *ns_of(const struct rdt_target *t, const json_t *record)
{
	const char *nqn = json_string_value(json_object_get(record, "nqn"));
	json_int_t nsid = json_integer_value(json_object_get(record, "nsid"));
	const struct rdt_subsys *ss = nqn ? rdt_subsys_find((struct rdt_target *)t, nqn) : NULL;

	return ss && nsid > 0 && nsid < UINT32_MAX ? rdt_ns_with(ss, (uint32_t)nsid) : NULL;
}

/* Is what was opened what the other process has? */
static int check_same_storage(const struct rdt_ns *ns, const json_t *record,
			      const struct explain *ex)
{
	const char *was =
		json_string_value(json_object_get(json_object_get(record, "told"), "what"));
	struct rdt_bdev_told told = {0};

	if (!rdt_bdev_told(ns->bdev, &told) || (!was && !told.what[0]) ||
	    (was && strcmp(was, told.what) == 0))
		return 0;
	return ns_cannot(ex, -EINVAL, ns->subsys->nqn, ns->nsid,
			 "its storage is %s in the configuration and %.160s in the running target; "
			 "reload that first (rdctl reload)",
			 told.what, was ? was : "not known");
}

int rdt_ns_records_check(const struct rdt_target *t, const json_t *records, char *why, size_t size)
{
	const struct explain ex = {why, size};
	const json_t *record;
	size_t i;

	json_array_foreach(records, i, record)
	{
		const char *uuid = json_string_value(json_object_get(record, "uuid"));
		const struct rdt_ns *ns = rdt_move_is(record, "ns") ? ns_of(t, record) : NULL;

		if (!ns)
			continue;
		if (ns->state != RDT_NS_LIVE)
			return ns_cannot(&ex, -EBUSY, ns->subsys->nqn, ns->nsid, "%s",
					 ns->why ? ns->why : "its storage does not answer");
		if (!uuid || strcmp(uuid, ns->identity.id->text) != 0)
			return ns_cannot(&ex, -EINVAL, ns->subsys->nqn, ns->nsid,
					 "its UUID would change from %.40s to %s",
					 uuid ? uuid : "?", ns->identity.id->text);
		if (check_same_storage(ns, record, &ex))
			return -EINVAL;
	}
	return 0;
}

/* A name is a hash with a secret, which comes with it. It is unknown without that, or when another
 * version wrote it in another way. */
static void take_names(struct rdt_ns *ns, const json_t *record, struct rdt_resv_state *state)
{
	const json_t *names = json_object_get(record, "names");
	struct rd_hash_key key;
	bool known = rdt_move_hex(record, "names_key", (uint8_t *)&key, sizeof(key));

	if (known)
		ns->subsys->target->peers.names_key = key;
	for (unsigned int i = 0; i < state->count; i++) {
		json_int_t name = json_integer_value(json_array_get(names, i));

		state->reg[i].name = known && name > 0 && name <= UINT32_MAX ? (uint32_t)name : 0;
	}
}

static int take_reservations(struct rdt_ns *ns, const json_t *record, char *why, size_t size)
{
	const char *text = json_string_value(json_object_get(record, "reservations"));
	struct rdt_resv_state state;
	int err;

	if (!text || !rdt_resv_offered(ns->subsys))
		return 0;
	err = rdt_resv_from_json(text, strlen(text), rdt_ns_uuid(ns), &state, why, size);
	if (err)
		return err;
	take_names(ns, record, &state);
	return rdt_resv_inherit(ns, &state);
}

static int take_faults(struct rdt_ns *ns, const json_t *faults, const struct explain *ex)
{
	struct rdt_bdev *base = rdt_bdev_base(ns->bdev);
	json_int_t kinds, error, end, since;

	if (!faults)
		return 0;
	if (json_unpack((json_t *)(uintptr_t)faults, "{s:I, s:I, s:I, s:I}", "kinds", &kinds,
			"sync_error", &error, "data_end", &end, "since", &since) ||
	    kinds < 0 || kinds >= 1 << RDT_FAULTS || error > 0 || error < -ERRNO_MAX || end < 0 ||
	    since < 0 || (!error && kinds & 1 << RDT_FAULT_SYNC))
		return ns_cannot(ex, -EPROTO, ns->subsys->nqn, ns->nsid,
				 "its faults have no kinds, sync_error, data_end or since, or one "
				 "that cannot be");
	atomic_store(&base->sync_err, (int)error);
	atomic_store(&base->data_end, (uint64_t)end);
	atomic_store(&base->fault_since, since);
	atomic_store(&base->faults, (uint32_t)kinds);
	if (kinds && base->on_fault)
		base->on_fault(base->on_fault_arg);
	return 0;
}

static int take_ns_state(struct rdt_ns *ns, const json_t *record, const struct explain *ex)
{
	json_int_t wp = json_integer_value(json_object_get(record, "write_protect"));
	json_int_t group = json_integer_value(json_object_get(record, "ana_group"));
	const json_t *marks = json_object_get(record, "uncorrectable");
	const char *given = json_string_value(json_object_get(record, "given"));
	char text[256] = "";
	int err = rdt_bdev_take(ns->bdev, given ? given : "");

	if (err)
		return ns_cannot(
			ex, err, ns->subsys->nqn, ns->nsid,
			"what the other process says of its storage (\"%.60s\") is nothing "
			"that this version knows",
			given ? given : "");
	err = take_reservations(ns, record, text, sizeof(text));
	if (err)
		return ns_cannot(ex, err, ns->subsys->nqn, ns->nsid, "its reservations: %s",
				 text[0] ? text : strerror(-err));
	if (wp < 0 || wp > NVME_NS_WP_CFG_PROTECT_PERMANENT)
		return ns_cannot(ex, -EPROTO, ns->subsys->nqn, ns->nsid,
				 "write_protect is %lld, expected 0 to 3", (long long)wp);
	atomic_store(&ns->wp, (uint8_t)wp);
	/* the one that hosts know, until rdt_ns_records_tell() */
	if (group >= 1 && group <= RDT_ANA_GROUPS)
		atomic_store(&ns->marks->ana_group, (uint8_t)group);
	err = take_faults(ns, json_object_get(record, "faults"), ex);
	if (err)
		return err;
	err = rdt_move_ns_counters_in(ns, record);
	if (err)
		return ns_cannot(ex, err, ns->subsys->nqn, ns->nsid, "its counters: %s",
				 err == -EPROTO ? "one is no number, or cannot be"
						: strerror(-err));
	err = marks ? rdt_uncor_inherit(ns, marks) : 0;
	if (err)
		return ns_cannot(ex, err, ns->subsys->nqn, ns->nsid, "its marked blocks: %s",
				 strerror(-err));
	if (json_is_true(json_object_get(record, RDT_MUST_UNFINISHED)) && rdt_gate_close(ns))
		return ns_cannot(ex, -ENOMEM, ns->subsys->nqn, ns->nsid, "out of memory");
	return 0;
}

/* The namespace whose state @record has; NULL when it is another record, or not served here. */
static struct rdt_ns *live_ns_of(struct rdt_target *t, const json_t *record)
{
	struct rdt_ns *ns = rdt_move_is(record, "ns-state") ? ns_of(t, record) : NULL;

	return ns && ns->state == RDT_NS_LIVE ? ns : NULL;
}

int rdt_ns_records_take(struct rdt_target *t, const json_t *records, char *why, size_t size)
{
	const struct explain ex = {why, size};
	const json_t *record;
	int err = 0;
	size_t i;

	json_array_foreach(records, i, record)
	{
		struct rdt_ns *ns = live_ns_of(t, record);

		if (ns && !err)
			err = take_ns_state(ns, record, &ex);
	}
	return err;
}

/* What was noticed and marked after "ns-state" was written. */
static int take_end(struct rdt_ns *ns, const json_t *record, const struct explain *ex)
{
	const json_t *marks = json_object_get(record, "uncorrectable");
	const json_t *faults = json_object_get(record, "faults");
	int err = take_faults(ns, faults, ex);

	if (err)
		return err;
	rdt_uncor_clear(ns, 0, atomic_load(&ns->blocks));
	return marks ? rdt_uncor_inherit(ns, marks) : 0;
}

int rdt_ns_records_end(struct rdt_target *t, const json_t *records, char *why, size_t size)
{
	const struct explain ex = {why, size};
	const json_t *record;
	int err = 0;
	size_t i;

	json_array_foreach(records, i, record)
	{
		struct rdt_ns *ns = live_ns_of(t, record);

		if (ns && ns->left_behind && !err)
			err = take_end(ns, record, &ex);
	}
	return err;
}

/* ---- what differs for hosts ---- */

/* A set of the namespaces that were served, by rdt_ns_key(). */
static void tell_of_record(struct rdt_target *t, const json_t *record, bool *known)
{
	const char *nqn = json_string_value(json_object_get(record, "nqn"));
	json_int_t nsid = json_integer_value(json_object_get(record, "nsid"));
	json_int_t size = json_integer_value(json_object_get(record, "size"));
	struct rdt_subsys *ss = nqn ? rdt_subsys_find(t, nqn) : NULL;
	struct rdt_ns *ns = ns_of(t, record);

	if (ns)
		known[ns->slot] = true;
	if (ns && (json_int_t)(atomic_load(&ns->blocks) << ns->lbads) != size)
		rdt_event_ns(ns, RDT_EV_NS_ATTR);
	else if (ss && !ns)
		rdt_event_subsys(ss, RDT_EV_NS_ATTR, (uint32_t)nsid);
}

void rdt_ns_records_tell(struct rdt_target *t, const json_t *records)
{
	rd_autofree bool *known = calloc(RDT_NS_SLOTS, sizeof(*known));
	const json_t *record;
	size_t i;

	if (!known)
		return;
	json_array_foreach(records, i, record) if (rdt_move_is(record, "ns"))
		tell_of_record(t, record, known);
	for (unsigned int slot = 0; slot < RDT_NS_SLOTS; slot++) {
		struct rdt_ns *ns = t->ns[slot];

		if (ns && !known[slot] && ns->state == RDT_NS_LIVE)
			rdt_event_ns(ns, RDT_EV_NS_ATTR);
		if (ns && rdt_ns_ana_group(ns) != ns->cfg->ana_group)
			rdt_ana_move(ns, ns->cfg->ana_group);
	}
}
