/* SPDX-License-Identifier: BSD-3-Clause */
#include "move_counters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/text.h"
#include "listener.h"
#include "move_bytes.h"
#include "ns.h"
#include "reactor.h"
#include "subsys.h"
#include "target.h"

struct moved_host {
	const json_t *rec;
	const char *hostnqn; /* NULL: connections without a Connect, and hosts that have left */
	const struct rdt_listener *listener;
	unsigned int reactor;
	bool taken;
};

/* What hosts and namespaces count alike. */
struct counted_io {
	struct rdt_op_stats *op;
	_Atomic uint64_t *events;
	unsigned int events_count;
	struct rdt_io_errors *errors;
};

static const char *const op_names[RDT_IO_OPS] = {
	[RDT_IO_FLUSH] = "flush",
	[RDT_IO_WRITE] = "write",
	[RDT_IO_READ] = "read",
	[RDT_IO_OTHER] = "other",
};

static const char *const event_names[RDT_COUNTS] = {
	[RDT_COUNT_BUFFER_WAITS] = "buffer_waits",
	[RDT_COUNT_QOS_WAITS] = "qos_waits",
	[RDT_COUNT_QOS_NS] = "qos_ns",
	[RDT_COUNT_KEEP_ALIVES] = "keep_alives",
	[RDT_COUNT_ABORTS] = "aborts",
	[RDT_COUNT_RESETS] = "resets",
	[RDT_COUNT_CONNECTS] = "connects",
	[RDT_COUNT_REFUSALS] = "refusals",
	[RDT_COUNT_ENDS + RDT_END_HOST] = "ends_host",
	[RDT_COUNT_ENDS + RDT_END_LOST] = "ends_lost",
	[RDT_COUNT_ENDS + RDT_END_FAULT] = "ends_fault",
	[RDT_COUNT_ENDS + RDT_END_STALLED] = "ends_stalled",
	[RDT_COUNT_ENDS + RDT_END_KEEP_ALIVE] = "ends_keep_alive",
	[RDT_COUNT_ENDS + RDT_END_CONTROLLER] = "ends_controller",
	[RDT_COUNT_ENDS + RDT_END_NO_CONNECT] = "ends_no_connect",
	[RDT_COUNT_ENDS + RDT_END_AUTH] = "ends_auth",
	[RDT_COUNT_ENDS + RDT_END_TARGET] = "ends_target",
};

static struct counted_io of_host(struct rdt_host_counters *c)
{
	return (struct counted_io){c->op, c->events, RDT_COUNTS, &c->errors};
}

static struct counted_io of_ns(struct rdt_ns_stats *s)
{
	return (struct counted_io){s->op, s->events, RDT_NS_COUNTS, &s->errors};
}

/* ---- writing; *@err becomes -ENOMEM, and remains it ---- */

static json_t *count_text(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

static void put_new(json_t *o, const char *name, json_t *value, int *err)
{
	if (json_object_set_new(o, name, value))
		*err = -ENOMEM;
}

static void put_count(json_t *o, const char *name, uint64_t n, int *err)
{
	if (n)
		put_new(o, name, count_text(n), err);
}

/* Appends two numbers to a list. */
static void put_pair(json_t *list, uint64_t key, uint64_t n, int *err)
{
	if (json_array_append_new(list, count_text(key)) ||
	    json_array_append_new(list, count_text(n)))
		*err = -ENOMEM;
}

/* @value belongs to @o, or is dropped when there is nothing in it. */
static void put_filled(json_t *o, const char *name, json_t *value, int *err)
{
	if (value && !json_array_size(value) && !json_object_size(value))
		json_decref(value);
	else
		put_new(o, name, value, err);
}

static json_t *op_out(const struct rdt_op_stats *op, int *err)
{
	json_t *o = json_object(), *latency = json_array();

	put_count(o, "bytes", rdt_counted(&op->bytes), err);
	put_count(o, "ns", rdt_counted(&op->ns), err);
	for (unsigned int i = 0; i < RDT_LAT_BUCKETS; i++)
		if (rdt_counted(&op->bucket[i]))
			put_pair(latency, rdt_lat_end(i), rdt_counted(&op->bucket[i]), err);
	put_filled(o, "latency", latency, err);
	return o;
}

/* Most namespaces have no command of some kind, and connections rest meanwhile. */
static bool op_was_used(const struct rdt_op_stats *op)
{
	for (unsigned int i = 0; i < RDT_LAT_BUCKETS; i++)
		if (rdt_counted(&op->bucket[i]))
			return true;
	return false;
}

static void counted_out(const struct counted_io *io, json_t *rec, int *err)
{
	json_t *events = json_object(), *errors = json_array();

	for (unsigned int i = 0; i < RDT_IO_OPS; i++)
		if (op_was_used(&io->op[i]))
			put_new(rec, op_names[i], op_out(&io->op[i], err), err);
	for (unsigned int i = 0; i < io->events_count; i++)
		put_count(events, event_names[i], rdt_counted(&io->events[i]), err);
	for (unsigned int i = 0; i < RDT_ERROR_KINDS; i++)
		if (rdt_counted(&io->errors->count[i]))
			put_pair(errors, atomic_load(&io->errors->status[i]),
				 rdt_counted(&io->errors->count[i]), err);
	put_filled(rec, "events", events, err);
	put_filled(rec, "errors", errors, err);
	put_count(rec, "other_errors", rdt_counted(&io->errors->others), err);
}

static bool listener_is_there(const struct rdt_target *t, const struct rdt_listener *of)
{
	const struct rdt_listener *l;

	TAILQ_FOREACH (l, &t->listeners, link)
		if (l == of)
			return true;
	return false;
}

/* A host without a queue has left: what it has counted is its listener's. */
static void host_out(const struct rdt_host_counters *c, unsigned int reactor, json_t *hosts,
		     int *err)
{
	struct counted_io io = of_host((struct rdt_host_counters *)(uintptr_t)c);
	json_t *rec = json_object();

	counted_out(&io, rec, err);
	if (!json_object_size(rec)) {
		json_decref(rec);
		return;
	}
	put_count(rec, "reactor", reactor, err);
	if (c->hostnqn && atomic_load(&c->qpairs))
		put_new(rec, "hostnqn", json_string(c->hostnqn), err);
	if (json_array_append_new(hosts, rec))
		*err = -ENOMEM;
}

static json_t *hosts_out(const struct rdt_target *t, const struct rdt_listener *l, int *err)
{
	json_t *hosts = json_array();

	for (unsigned int i = 0; i < t->reactors_count; i++) {
		struct rdt_counters_list *list = &t->reactors[i].counters_list;
		const struct rdt_host_counters *c = &list->nobody;

		rdt_counters_list_hold(list);
		for (; c; c = rdt_host_counters_next(c))
			if (l ? c->listener == l : !listener_is_there(t, c->listener))
				host_out(c, i, hosts, err);
		rdt_counters_list_release(list);
	}
	return hosts;
}

/* ---- what is neither a host's nor a namespace's ---- */

struct named_count {
	const char *name;
	_Atomic uint64_t *at;
};

#define TARGET_COUNTS 4
#define SUBSYS_COUNTS 2
#define SMART_COUNTS  5

static void target_counts(struct rdt_target *t, struct named_count out[TARGET_COUNTS])
{
	out[0] = (struct named_count){"disc_auth_successes", &t->disc.auth_successes};
	out[1] = (struct named_count){"disc_auth_failures", &t->disc.auth_failures};
	out[2] = (struct named_count){"tls_handshakes", &t->tls_handshakes};
	out[3] = (struct named_count){"tls_refusals", &t->tls_refusals};
}

static void subsys_counts(struct rdt_subsys *ss, struct named_count out[SUBSYS_COUNTS])
{
	out[0] = (struct named_count){"auth_successes", &ss->auth_successes};
	out[1] = (struct named_count){"auth_failures", &ss->auth_failures};
}

static void smart_counts(struct rdt_counters *c, struct named_count out[SMART_COUNTS])
{
	out[0] = (struct named_count){"reads", &c->reads};
	out[1] = (struct named_count){"writes", &c->writes};
	out[2] = (struct named_count){"blocks_read", &c->blocks_read};
	out[3] = (struct named_count){"blocks_written", &c->blocks_written};
	out[4] = (struct named_count){"media_errors", &c->media_errors};
}

static void named_out(json_t *rec, const struct named_count *counts, size_t n, int *err)
{
	for (size_t i = 0; i < n; i++)
		put_count(rec, counts[i].name, atomic_load(counts[i].at), err);
}

static json_t *subsys_out(struct rdt_subsys *ss, int *err)
{
	json_t *rec = json_pack("{s:s}", "nqn", ss->nqn), *reactors = json_array();
	struct named_count counts[SMART_COUNTS];

	subsys_counts(ss, counts);
	named_out(rec, counts, SUBSYS_COUNTS, err);
	for (unsigned int i = 0; i < ss->target->reactors_count; i++) {
		json_t *one = json_object();

		smart_counts(&ss->counters[i], counts);
		named_out(one, counts, SMART_COUNTS, err);
		if (json_array_append_new(reactors, one))
			*err = -ENOMEM;
	}
	put_new(rec, "reactors", reactors, err);
	return rec;
}

int rdt_move_totals_out(struct rdt_target *t, json_t *rec)
{
	json_t *list = json_array(), *gone = json_array();
	struct named_count counts[TARGET_COUNTS];
	struct rdt_subsys *ss;
	unsigned int at = 0;
	int err = 0;

	target_counts(t, counts);
	named_out(rec, counts, TARGET_COUNTS, &err);
	while ((ss = rdt_subsys_next(t, &at)))
		if (json_array_append_new(list, subsys_out(ss, &err)))
			err = -ENOMEM;
	for (unsigned int i = 0; i < t->reactors_count; i++)
		put_pair(gone, atomic_load(&t->reactors[i].gone_reads),
			 atomic_load(&t->reactors[i].gone_writes), &err);
	put_filled(rec, "subsystems", list, &err);
	put_filled(rec, "gone", gone, &err);
	return err;
}

int rdt_move_hosts_out(const struct rdt_target *t, const struct rdt_listener *l, json_t *rec)
{
	int err = 0;

	put_filled(rec, "hosts", hosts_out(t, l, &err), &err);
	return err;
}

int rdt_move_ns_counters_out(const struct rdt_ns *ns, json_t *rec)
{
	struct rdt_ns_stats sum = {0};
	struct counted_io io = of_ns(&sum);
	json_t *counters = json_object();
	int err = 0;

	for (unsigned int i = 0; i < ns->subsys->target->reactors_count; i++) {
		const struct rdt_ns_stats *stats = atomic_load(&ns->posts[i].stats);

		if (stats)
			rdt_ns_stats_merge(&sum, stats);
	}
	counted_out(&io, counters, &err);
	put_filled(rec, "counters", counters, &err);
	return err;
}

/* ---- reading ---- */

/* Is @rec one, or absent? Then its number is added to @counter. */
static bool take_number(const json_t *value, _Atomic uint64_t *counter)
{
	json_int_t n = json_integer_value(value);

	if (value && (!json_is_integer(value) || n < 0))
		return false;
	rdt_count(counter, (uint64_t)n);
	return true;
}

static bool take_count(const json_t *rec, const char *name, _Atomic uint64_t *counter)
{
	return take_number(json_object_get(rec, name), counter);
}

static bool absent_or(const json_t *value, json_type type)
{
	return !value || json_typeof(value) == type;
}

/* Calls @take for each pair of numbers. */
static bool take_pairs(const json_t *list, bool (*take)(void *arg, uint64_t key, uint64_t n),
		       void *arg)
{
	size_t size = json_array_size(list);

	if (!absent_or(list, JSON_ARRAY) || size % 2)
		return false;
	for (size_t i = 0; i < size; i += 2) {
		const json_t *key = json_array_get(list, i), *n = json_array_get(list, i + 1);

		if (!json_is_integer(key) || !json_is_integer(n) || json_integer_value(key) < 0 ||
		    json_integer_value(n) < 0 ||
		    !take(arg, (uint64_t)json_integer_value(key), (uint64_t)json_integer_value(n)))
			return false;
	}
	return true;
}

/* By the end of a bucket, so that a version with other buckets finds its own. */
static bool take_latency(void *arg, uint64_t end, uint64_t n)
{
	struct rdt_op_stats *op = arg;

	if (!end)
		return false;
	rdt_count(&op->bucket[rdt_lat_index(end - 1)], n);
	return true;
}

static bool take_error(void *arg, uint64_t status, uint64_t n)
{
	if (!status || status > 0x7ff)
		return false;
	rdt_io_errors_add(arg, (uint32_t)status, n);
	return true;
}

/* Adds what @rec has. */
static bool counted_in(const json_t *rec, const struct counted_io *io)
{
	const json_t *events = json_object_get(rec, "events");

	for (unsigned int i = 0; i < RDT_IO_OPS; i++) {
		const json_t *op = json_object_get(rec, op_names[i]);

		if (!absent_or(op, JSON_OBJECT) || !take_count(op, "bytes", &io->op[i].bytes) ||
		    !take_count(op, "ns", &io->op[i].ns) ||
		    !take_pairs(json_object_get(op, "latency"), take_latency, &io->op[i]))
			return false;
	}
	if (!absent_or(events, JSON_OBJECT))
		return false;
	for (unsigned int i = 0; i < io->events_count; i++)
		if (!take_count(events, event_names[i], &io->events[i]))
			return false;
	return take_pairs(json_object_get(rec, "errors"), take_error, io->errors) &&
	       take_count(rec, "other_errors", &io->errors->others);
}

static bool scratch_in(struct rdt_move_counters *mc, const json_t *rec)
{
	const struct counted_io io = of_host(&mc->scratch);

	memset(&mc->scratch, 0, sizeof(mc->scratch));
	return counted_in(rec, &io);
}

static struct moved_host *add_moved_host(struct rdt_move_counters *mc)
{
	size_t room = mc->room ? 2 * mc->room : 64;
	struct moved_host *more;

	if (mc->count == mc->room) {
		more = realloc(mc->hosts, room * sizeof(*more));
		if (!more)
			return NULL;
		mc->hosts = more;
		mc->room = room;
	}
	return &mc->hosts[mc->count++];
}

int rdt_move_counters_read(struct rdt_move_counters *mc, const struct rdt_listener *l,
			   const json_t *rec)
{
	const json_t *hosts = json_object_get(rec, "hosts"), *host;
	size_t i;

	if (!absent_or(hosts, JSON_ARRAY))
		return -EPROTO;
	json_array_foreach(hosts, i, host)
	{
		struct moved_host *m = add_moved_host(mc);
		uint64_t reactor = 0;

		if (!m)
			return -ENOMEM;
		*m = (struct moved_host){.rec = host, .listener = l};
		if (!json_is_object(host) ||
		    (json_object_get(host, "hostnqn") &&
		     !rdt_move_text(host, "hostnqn", NVMF_NQN_MAX, &m->hostnqn)) ||
		    (json_object_get(host, "reactor") &&
		     !rdt_move_uint(host, "reactor", 0, UINT32_MAX, &reactor)) ||
		    !scratch_in(mc, host)) {
			mc->count--;
			return -EPROTO;
		}
		m->reactor = (unsigned int)(reactor % mc->target->reactors_count);
	}
	return 0;
}

/* A subsystem that is not there any more counts among those that are gone. */
static bool subsys_in(struct rdt_target *t, const json_t *rec)
{
	const json_t *reactors = json_object_get(rec, "reactors"), *one;
	struct named_count counts[SMART_COUNTS];
	struct rdt_counters none = {0};
	struct rdt_subsys *ss;
	const char *nqn;
	bool good = true;
	size_t i;

	if (!rdt_move_text(rec, "nqn", NVMF_NQN_MAX, &nqn) || !absent_or(reactors, JSON_ARRAY))
		return false;
	ss = rdt_subsys_find(t, nqn);
	if (ss)
		subsys_counts(ss, counts);
	for (i = 0; ss && i < SUBSYS_COUNTS; i++)
		good &= take_count(rec, counts[i].name, counts[i].at);
	json_array_foreach(reactors, i, one)
	{
		smart_counts(ss ? &ss->counters[i % t->reactors_count] : &none, counts);
		good &= json_is_object(one);
		for (unsigned int j = 0; j < SMART_COUNTS; j++)
			good &= take_count(one, counts[j].name, counts[j].at);
	}
	rdt_count(&t->reactors[0].gone_reads, rdt_counted(&none.reads));
	rdt_count(&t->reactors[0].gone_writes, rdt_counted(&none.writes));
	return good;
}

static bool take_gone(void *arg, uint64_t reads, uint64_t writes)
{
	struct rdt_target *t = arg;

	rdt_count(&t->reactors[0].gone_reads, reads);
	rdt_count(&t->reactors[0].gone_writes, writes);
	return true;
}

int rdt_move_totals_in(struct rdt_target *t, const json_t *rec)
{
	const json_t *list = json_object_get(rec, "subsystems"), *ss;
	struct named_count counts[TARGET_COUNTS];
	bool good = absent_or(list, JSON_ARRAY);
	size_t i;

	target_counts(t, counts);
	for (i = 0; i < TARGET_COUNTS; i++)
		good &= take_count(rec, counts[i].name, counts[i].at);
	json_array_foreach(list, i, ss) good &= subsys_in(t, ss);
	good &= take_pairs(json_object_get(rec, "gone"), take_gone, t);
	return good ? 0 : -EPROTO;
}

int rdt_move_ns_counters_in(struct rdt_ns *ns, const json_t *rec)
{
	const json_t *counters = json_object_get(rec, "counters");
	struct rdt_ns_stats sum = {0};
	const struct counted_io io = of_ns(&sum);

	if (!absent_or(counters, JSON_OBJECT) || !counted_in(counters, &io))
		return -EPROTO;
	return counters ? rdt_ns_stats_inherit(ns, &sum) : 0;
}

/* ---- from one reactor to the next ---- */

/* A host's connections may be on other reactors now, and it shall not fall back either. */
enum {                  /* passes */
       PASS_SAME,       /* the reactor that has counted them, if the host is there */
       PASS_OTHER,      /* another one where it is */
       PASS_LEFT,       /* it is nowhere: those that have left */
       PASS_NAMESPACES, /* the first reactor */
       PASSES,
};

/* So many are taken in one turn of a reactor: hosts may be served meanwhile. */
#define TAKE_SLICE 16u

/* Returns whether it has come to the end. */
static bool take_hosts(struct rdt_move_counters *mc, struct rdt_reactor *r)
{
	for (unsigned int n = 0; n < TAKE_SLICE && mc->at < mc->count; mc->at++) {
		struct moved_host *m = &mc->hosts[mc->at];

		if (m->taken || (mc->pass != PASS_OTHER && m->reactor != r->index))
			continue;
		if (!rdt_host_counters_has(&r->counters_list, m->listener, m->hostnqn) &&
		    mc->pass != PASS_LEFT)
			continue;
		scratch_in(mc, m->rec);
		rdt_host_counters_inherit(&r->counters_list, m->listener, m->hostnqn, &mc->scratch);
		m->taken = true;
		n++;
	}
	return mc->at == mc->count;
}

/* The namespace of @rec, where @r has it. */
static struct rdt_ns *ns_on(const struct rdt_reactor *r, const json_t *rec)
{
	const struct rdt_ns_place *place, *end;
	const struct rdt_subsys *ss;
	const char *nqn;
	uint64_t nsid;

	if (!rdt_move_text(rec, "nqn", NVMF_NQN_MAX, &nqn) ||
	    !rdt_move_uint(rec, "nsid", 1, NVME_NSID_ALL - 1, &nsid))
		return NULL;
	ss = rdt_subsys_find(r->target, nqn);
	if (!ss)
		return NULL;
	place = rdt_ns_places(r, ss, (uint32_t)nsid - 1, &end);
	return place < end && rdt_ns_place_nsid(place) == nsid ? place->channel->ns : NULL;
}

/* Returns whether it has come to the end. */
static bool take_namespaces(struct rdt_move_counters *mc, const struct rdt_reactor *r)
{
	size_t size = json_array_size(mc->records);

	for (unsigned int n = 0; n < TAKE_SLICE && mc->at < size; mc->at++) {
		const json_t *rec = json_array_get(mc->records, mc->at);
		struct rdt_ns *ns = rdt_move_is(rec, "ns-state") ? ns_on(r, rec) : NULL;

		if (!ns)
			continue;
		mc->bad += rdt_move_ns_counters_in(ns, rec) != 0;
		n++;
	}
	return mc->at == size;
}

static void counters_are_in(struct rd_msg *msg)
{
	struct rdt_move_counters *mc = rd_container_of(msg, struct rdt_move_counters, msg);

	mc->done(mc);
}

static void take_on_reactor(struct rd_msg *msg)
{
	struct rdt_move_counters *mc = rd_container_of(msg, struct rdt_move_counters, msg);
	struct rdt_target *t = mc->target;

	if (mc->pass == PASS_NAMESPACES ? take_namespaces(mc, &t->reactors[0])
					: take_hosts(mc, &t->reactors[mc->reactor])) {
		mc->at = 0;
		if (mc->pass == PASS_NAMESPACES || ++mc->reactor == t->reactors_count) {
			mc->reactor = 0;
			mc->pass++;
		}
	}
	if (mc->pass == PASSES)
		msg->fn = counters_are_in;
	rd_loop_post(mc->pass == PASSES ? t->loop : t->reactors[mc->reactor].loop, msg);
}

void rdt_move_counters_in(struct rdt_move_counters *mc)
{
	struct rdt_target *t = mc->target;

	bool any = mc->count || mc->records;

	mc->msg.fn = any ? take_on_reactor : counters_are_in;
	rd_loop_post(any ? t->reactors[0].loop : t->loop, &mc->msg);
}

void rdt_move_counters_free(struct rdt_move_counters *mc)
{
	free(mc->hosts);
	mc->hosts = NULL;
}
