/* SPDX-License-Identifier: BSD-3-Clause */
#include "io_stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/cold.h"
#include "ns.h"
#include "peers.h"
#include "qpair.h"
#include "reactor.h"
#include "request.h"
#include "target.h"

/* ---- counters of hosts ---- */

static bool counted_poll(struct rd_poller *poller)
{
	return false;
}

/* The reactor may sleep for a long time, so the commands of the current run are counted before it
 * does. */
static bool counted_arm(struct rd_poller *poller)
{
	rdt_io_count_run(rd_container_of(poller, struct rdt_reactor, counted));
	return false;
}

int rdt_counters_list_init(struct rdt_reactor *r)
{
	int err = pthread_mutex_init(&r->counters_list.lock, NULL);

	r->counted.fn = counted_poll;
	r->counted.arm = counted_arm;
	rd_poller_add(r->loop, &r->counted);
	r->counters_list.ready = !err;
	r->counters_list.last = &r->counters_list.nobody;
	TAILQ_INIT(&r->counters_list.left);
	return -err;
}

static void counters_free(struct rdt_host_counters *counters)
{
	free(counters->hostnqn);
	free(counters);
}

void rdt_counters_list_fini(struct rdt_reactor *r)
{
	struct rdt_counters_list *list = &r->counters_list;
	struct rdt_host_counters *counters, *next;

	if (!list->ready)
		return;
	rd_poller_del(r->loop, &r->counted);
	for (counters = atomic_load(&list->nobody.next); counters; counters = next) {
		next = atomic_load(&counters->next);
		counters_free(counters);
	}
	free(list->buckets);
	pthread_mutex_destroy(&list->lock);
	list->ready = false;
}

/* Returns the hash of a Host NQN, which may be NULL. */
static uint32_t counters_hash(const struct rdt_counters_list *list, const char *hostnqn)
{
	const struct rdt_target *t =
		rd_container_of(list, struct rdt_reactor, counters_list)->target;

	return hostnqn ? rdt_peer_hash(t, hostnqn, strlen(hostnqn)) : 0;
}

static struct rdt_host_counters **bucket_of(const struct rdt_counters_list *list, uint32_t hash)
{
	return &list->buckets[hash & (list->room - 1)];
}

/* Returns the counters of a host, or NULL if there are none. @hostnqn may be NULL. */
static struct rdt_host_counters *counters_find(const struct rdt_counters_list *list,
					       const struct rdt_listener *listener,
					       const char *hostnqn, uint32_t hash)
{
	struct rdt_host_counters *counters = list->room ? *bucket_of(list, hash) : NULL;

	for (; counters; counters = counters->same)
		if (counters->hash == hash && counters->listener == listener &&
		    !counters->hostnqn == !hostnqn &&
		    (!hostnqn || strcmp(counters->hostnqn, hostnqn) == 0))
			break;
	return counters;
}

static void bucket_add(struct rdt_counters_list *list, struct rdt_host_counters *counters)
{
	struct rdt_host_counters **bucket = bucket_of(list, counters->hash);

	counters->same = *bucket;
	*bucket = counters;
}

/* Make room for one more entry. Without memory for more buckets, their lists become longer. */
static bool counters_grow(struct rdt_counters_list *list)
{
	unsigned int room = list->room ? 2 * list->room : 8;
	struct rdt_host_counters **buckets, *counters;

	if (list->count < list->room)
		return true;
	buckets = calloc(room, sizeof(struct rdt_host_counters *));
	if (!buckets)
		return list->room;
	free(list->buckets);
	list->buckets = buckets;
	list->room = room;
	counters = atomic_load_explicit(&list->nobody.next, memory_order_relaxed);
	for (; counters; counters = atomic_load_explicit(&counters->next, memory_order_relaxed))
		bucket_add(list, counters);
	return true;
}

static struct rdt_host_counters *counters_new(const struct rdt_listener *listener,
					      const char *hostnqn)
{
	struct rdt_host_counters *counters = calloc(1, sizeof(*counters));

	if (!counters)
		return NULL;
	counters->listener = listener;
	if (hostnqn && !(counters->hostnqn = strdup(hostnqn))) {
		free(counters);
		return NULL;
	}
	return counters;
}

/* Returns &list->nobody without memory. */
static struct rdt_host_counters *counters_get(struct rdt_counters_list *list,
					      const struct rdt_listener *listener,
					      const char *hostnqn)
{
	uint32_t hash = counters_hash(list, hostnqn);
	struct rdt_host_counters *counters = counters_find(list, listener, hostnqn, hash);

	if (counters)
		return counters;
	counters = counters_grow(list) ? counters_new(listener, hostnqn) : NULL;
	if (!counters)
		return &list->nobody;
	counters->hash = hash;
	bucket_add(list, counters);
	list->count++;
	counters->prev = list->last;
	atomic_store_explicit(&list->last->next, counters, memory_order_release);
	list->last = counters;
	return counters;
}

void rdt_io_errors_add(struct rdt_io_errors *errors, uint32_t status, uint64_t n)
{
	for (unsigned int i = 0; i < RDT_ERROR_KINDS; i++) {
		uint32_t kind = atomic_load_explicit(&errors->status[i], memory_order_relaxed);

		if (kind && kind != status)
			continue;
		if (!kind)
			atomic_store_explicit(&errors->status[i], status, memory_order_relaxed);
		rdt_count(&errors->count[i], n);
		return;
	}
	rdt_count(&errors->others, n);
}

static void counters_merge(_Atomic uint64_t *to, const _Atomic uint64_t *from, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		rdt_count(&to[i], rdt_counted(&from[i]));
}

static void merge_ops(struct rdt_op_stats *to, const struct rdt_op_stats *from)
{
	for (unsigned int i = 0; i < RDT_IO_OPS; i++) {
		counters_merge(&to[i].bytes, &from[i].bytes, 1);
		counters_merge(&to[i].ns, &from[i].ns, 1);
		counters_merge(to[i].bucket, from[i].bucket, RDT_LAT_BUCKETS);
	}
}

static void merge_errors(struct rdt_io_errors *to, const struct rdt_io_errors *from)
{
	for (unsigned int i = 0; i < RDT_ERROR_KINDS; i++)
		if (rdt_counted(&from->count[i]))
			rdt_io_errors_add(to, from->status[i], rdt_counted(&from->count[i]));
	rdt_count(&to->others, rdt_counted(&from->others));
}

/* Add the counters of @from to @to. */
static void merge_host_counters(struct rdt_host_counters *to, const struct rdt_host_counters *from)
{
	merge_ops(to->op, from->op);
	counters_merge(to->events, from->events, RDT_COUNTS);
	merge_errors(&to->errors, &from->errors);
}

static void counters_remove(struct rdt_counters_list *list, struct rdt_host_counters *counters)
{
	struct rdt_host_counters *next =
		atomic_load_explicit(&counters->next, memory_order_relaxed);
	struct rdt_host_counters **at = bucket_of(list, counters->hash);

	while (*at != counters)
		at = &(*at)->same;
	*at = counters->same;
	list->count--;
	atomic_store_explicit(&counters->prev->next, next, memory_order_relaxed);
	if (next)
		next->prev = counters->prev;
	else
		list->last = counters->prev;
}

static void counters_set_left(struct rdt_counters_list *list, struct rdt_host_counters *counters,
			      bool left)
{
	if (counters->left == left)
		return;
	counters->left = left;
	if (left)
		TAILQ_INSERT_TAIL(&list->left, counters, left_link);
	else
		TAILQ_REMOVE(&list->left, counters, left_link);
}

/* The host of @counters has disconnected. They are added to those of the listener, so that sums
 * never decrease. Not while a reader walks over the list: it would count them twice or not at
 * all. */
static void counters_drop(struct rdt_counters_list *list, struct rdt_host_counters *counters)
{
	struct rdt_host_counters *past = counters_get(list, counters->listener, NULL);
	bool held;

	pthread_mutex_lock(&list->lock);
	held = list->held;
	if (!held) {
		merge_host_counters(past, counters);
		counters_remove(list, counters);
	}
	pthread_mutex_unlock(&list->lock);
	counters_set_left(list, counters, held);
	if (!held)
		counters_free(counters);
}

/* Counters that could not be removed at once are removed in later calls, two in each. */
static void counters_reap(struct rdt_counters_list *list)
{
	struct rdt_host_counters *counters;

	for (int i = 0; i < 2 && (counters = TAILQ_FIRST(&list->left)); i++)
		counters_drop(list, counters);
}

static void counters_use(struct rdt_qpair *qp, struct rdt_host_counters *counters)
{
	struct rdt_counters_list *list = &qp->reactor->counters_list;
	struct rdt_host_counters *old = qp->counters;

	rdt_io_count_run(qp->reactor);
	atomic_fetch_add_explicit(&counters->qpairs, 1, memory_order_relaxed);
	counters_set_left(list, counters, false);
	qp->counters = counters;
	if (atomic_fetch_sub_explicit(&old->qpairs, 1, memory_order_relaxed) == 1 && old->hostnqn)
		counters_drop(list, old);
	counters_reap(list);
}

void rdt_host_counters_init(struct rdt_qpair *qp)
{
	qp->counters = &qp->reactor->counters_list.nobody;
	atomic_fetch_add_explicit(&qp->counters->qpairs, 1, memory_order_relaxed);
}

void rdt_host_counters_join(struct rdt_qpair *qp, const char *hostnqn)
{
	counters_use(qp, counters_get(&qp->reactor->counters_list, qp->listener, hostnqn));
	if (hostnqn && !qp->moved) /* the previous process has counted it */
		rdt_count_event(qp, RDT_COUNT_CONNECTS);
}

void rdt_host_counters_leave(struct rdt_qpair *qp)
{
	if (!qp->counters)
		return;
	counters_use(qp, &qp->reactor->counters_list.nobody);
	atomic_fetch_sub_explicit(&qp->counters->qpairs, 1, memory_order_relaxed);
	qp->counters = NULL;
}

bool rdt_host_counters_has(const struct rdt_counters_list *list,
			   const struct rdt_listener *listener, const char *hostnqn)
{
	const struct rdt_host_counters *counters;

	if (!hostnqn)
		return true;
	counters = counters_find(list, listener, hostnqn, counters_hash(list, hostnqn));
	return counters && atomic_load(&counters->qpairs);
}

void rdt_host_counters_inherit(struct rdt_counters_list *list, const struct rdt_listener *listener,
			       const char *hostnqn, const struct rdt_host_counters *from)
{
	bool here = rdt_host_counters_has(list, listener, hostnqn);
	bool nobody = !listener && !(hostnqn && here);

	merge_host_counters(
		nobody ? &list->nobody : counters_get(list, listener, here ? hostnqn : NULL), from);
}

static void list_set_held(struct rdt_counters_list *list, bool held)
{
	pthread_mutex_lock(&list->lock);
	list->held = held;
	pthread_mutex_unlock(&list->lock);
}

void rdt_counters_list_hold(struct rdt_counters_list *list)
{
	list_set_held(list, true);
}

void rdt_counters_list_release(struct rdt_counters_list *list)
{
	list_set_held(list, false);
}

/* ---- commands ---- */

static RD_COLD struct rdt_ns_stats *ns_stats_new(struct rdt_ns_post *post)
{
	struct rdt_ns_stats *stats = calloc(1, sizeof(*stats));

	atomic_store_explicit(&post->stats, stats, memory_order_release);
	return stats;
}

/* NULL without memory. */
static struct rdt_ns_stats *ns_stats_of(const struct rdt_reactor *r, struct rdt_ns *ns)
{
	struct rdt_ns_post *post = &ns->posts[r->index];
	struct rdt_ns_stats *stats = atomic_load_explicit(&post->stats, memory_order_relaxed);

	return stats ? stats : ns_stats_new(post);
}

void rdt_ns_stats_merge(struct rdt_ns_stats *to, const struct rdt_ns_stats *from)
{
	merge_ops(to->op, from->op);
	counters_merge(to->events, from->events, RDT_NS_COUNTS);
	merge_errors(&to->errors, &from->errors);
}

int rdt_ns_stats_inherit(struct rdt_ns *ns, const struct rdt_ns_stats *from)
{
	struct rdt_ns_stats *stats = ns_stats_of(&ns->subsys->target->reactors[0], ns);

	if (!stats)
		return -ENOMEM;
	rdt_ns_stats_merge(stats, from);
	return 0;
}

void rdt_ns_stats_free(struct rdt_ns *ns)
{
	for (unsigned int i = 0; i < ns->subsys->target->cfg->target.reactors; i++)
		free(ns->posts[i].stats);
}

static RD_COLD void count_failure(const struct rdt_req *req)
{
	uint32_t status = req->status.v & 0x7ff;
	struct rdt_ns_stats *stats = req->ns ? ns_stats_of(req->qp->reactor, req->ns) : NULL;

	rdt_count(&req->qp->reactor->totals.failed, 1);
	rdt_io_errors_add(&req->qp->counters->errors, status, 1);
	if (stats)
		rdt_io_errors_add(&stats->errors, status, 1);
}

static void count_op(struct rdt_op_stats *stats, const struct rdt_io_run *run, uint64_t ns,
		     unsigned int bucket)
{
	rdt_count(&stats->bytes, (uint64_t)run->count * run->len);
	rdt_count(&stats->ns, run->count * ns);
	rdt_count(&stats->bucket[bucket], run->count);
}

void rdt_io_count_run(struct rdt_reactor *r)
{
	struct rdt_io_run *run = &r->run;
	uint64_t ns = run->answered > run->arrived ? run->answered - run->arrived : 0;
	unsigned int bucket = rdt_lat_index(ns);
	enum rdt_io_op op = rdt_io_op(run->opcode);
	struct rdt_ns_stats *stats;

	run->match = 0;
	if (!run->count)
		return;
	count_op(&r->totals.op[op], run, ns, bucket);
	count_op(&run->qp->counters->op[op], run, ns, bucket);
	stats = run->ns ? ns_stats_of(r, run->ns) : NULL;
	if (stats)
		count_op(&stats->op[op], run, ns, bucket);
	run->count = 0;
}

void rdt_io_count(struct rdt_req *req)
{
	struct rdt_reactor *r = req->qp->reactor;
	struct rdt_io_run *run = &r->run;
	bool ok = nvme_status_ok(req->status);
	bool same_batch = run->match != 0;

	rdt_io_count_run(r);
	if (!same_batch)
		run->answered = rd_loop_now_raw(r->loop);
	run->match = run->arrived = req->arrived;
	run->qp = req->qp;
	run->ns = req->ns;
	run->opcode = req->sqe.opcode;
	run->len = ok ? req->data_len : 0;
	run->count = 1;
	if (!ok)
		count_failure(req);
}

RD_COLD void rdt_count_event(const struct rdt_qpair *qp, enum rdt_count_of event)
{
	rdt_count(&qp->counters->events[event], 1);
}

RD_COLD void rdt_io_count_wait(const struct rdt_req *req, enum rdt_count_of event, uint64_t n)
{
	struct rdt_ns_stats *stats = req->ns ? ns_stats_of(req->qp->reactor, req->ns) : NULL;

	rdt_count(&req->qp->counters->events[event], n);
	if (stats)
		rdt_count(&stats->events[event], n);
}

/* ---- what is in flight ---- */

static void note_in_flight(struct rdt_in_flight *f, uint32_t walk, uint64_t arrived)
{
	uint32_t count = 0;

	if (atomic_load_explicit(&f->walk, memory_order_relaxed) == walk)
		count = atomic_load_explicit(&f->count, memory_order_relaxed);
	if (!count || arrived < atomic_load_explicit(&f->oldest, memory_order_relaxed))
		atomic_store_explicit(&f->oldest, arrived, memory_order_relaxed);
	atomic_store_explicit(&f->count, count + 1, memory_order_relaxed);
	atomic_store_explicit(&f->walk, walk, memory_order_relaxed);
}

static void walk_qpair(struct rdt_qpair_walk *qpairs, struct rdt_qpair *qp)
{
	struct rdt_walk *walk = rd_container_of(qpairs, struct rdt_walk, qpairs);
	uint32_t number = atomic_load_explicit(&walk->number, memory_order_relaxed);

	walk->found.admin_queues += qp->admin;
	walk->found.io_queues += !qp->admin;
	for (unsigned int i = 0; i < qp->used; i++) {
		const struct rdt_req *req = qp->reqs[i];

		if (!req->arrived)
			continue;
		walk->found.in_flight++;
		note_in_flight(&qp->counters->in_flight, number, req->arrived);
		if (req->ns)
			note_in_flight(&req->ns->posts[qp->reactor->index].in_flight, number,
				       req->arrived);
	}
}

static uint64_t pool_bytes(const struct rdt_pool *pool)
{
	return rd_buddy_total_bytes(pool->buddy) - rd_buddy_free_bytes(pool->buddy);
}

static void walk_answered(struct rd_msg *msg)
{
	struct rdt_reactor *r = rd_container_of(msg, struct rdt_reactor, walk.msg);

	r->walk.done(r);
}

static void walk_end(struct rdt_qpair_walk *qpairs)
{
	struct rdt_reactor *r = qpairs->reactor;
	struct rdt_walk *walk = &r->walk;

	for (int i = 0; i < RDT_POOLS; i++)
		walk->found.waiting += r->pools[i].waiting;
	walk->found.limited = r->limited;
	walk->found.buffer_bytes = pool_bytes(&r->pools[RDT_POOL_IO]);
	walk->found.reserve_bytes = pool_bytes(&r->pools[RDT_POOL_RESERVE]);
	walk->found.scratch_bytes = pool_bytes(&r->pools[RDT_POOL_SCRATCH]);
	walk->msg.fn = walk_answered;
	rd_loop_post(r->target->loop, &walk->msg);
}

void rdt_walk_begin(struct rd_msg *msg)
{
	struct rdt_reactor *r = rd_container_of(msg, struct rdt_reactor, walk.msg);
	struct rdt_walk *walk = &r->walk;

	rdt_io_count_run(r);
	memset(&walk->found, 0, sizeof(walk->found));
	walk->qpairs.visit = walk_qpair;
	walk->qpairs.end = walk_end;
	atomic_fetch_add_explicit(&walk->number, 1, memory_order_relaxed);
	rdt_qpair_walk_begin(r, &walk->qpairs);
}
