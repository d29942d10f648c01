/* SPDX-License-Identifier: BSD-3-Clause */
#include "io_stats.h"

#include <stdlib.h>
#include <string.h>

#include "util/cold.h"
#include "ns.h"
#include "peers.h"
#include "qpair.h"
#include "reactor.h"
#include "request.h"
#include "target.h"

/* ---- cells ---- */

static bool counted_poll(struct rd_poller *poller)
{
	return false;
}

/* The reactor may sleep for long: what it has done is counted before. */
static bool counted_arm(struct rd_poller *poller)
{
	rdt_io_count_run(rd_container_of(poller, struct rdt_reactor, counted));
	return false;
}

int rdt_cells_init(struct rdt_reactor *r)
{
	int err = pthread_mutex_init(&r->cells.lock, NULL);

	r->counted.fn = counted_poll;
	r->counted.arm = counted_arm;
	rd_poller_add(r->loop, &r->counted);
	r->cells.ready = !err;
	r->cells.last = &r->cells.nobody;
	TAILQ_INIT(&r->cells.left);
	return -err;
}

static void cell_free(struct rdt_cell *cell)
{
	free(cell->hostnqn);
	free(cell);
}

void rdt_cells_fini(struct rdt_reactor *r)
{
	struct rdt_cells *cells = &r->cells;

	if (!cells->ready)
		return;
	rd_poller_del(r->loop, &r->counted);
	for (unsigned int i = 0; i < cells->count; i++)
		cell_free(cells->cells[i]);
	free(cells->cells);
	free(cells->hashes);
	pthread_mutex_destroy(&cells->lock);
	cells->ready = false;
}

/* @hostnqn may be NULL. */
static unsigned int cell_find(const struct rdt_cells *cells, const struct rdt_listener *listener,
			      const char *hostnqn, uint32_t hash)
{
	unsigned int i;

	for (i = 0; i < cells->count; i++) {
		const struct rdt_cell *cell = cells->cells[i];

		if (cells->hashes[i] == hash && cell->listener == listener &&
		    !cell->hostnqn == !hostnqn && (!hostnqn || strcmp(cell->hostnqn, hostnqn) == 0))
			break;
	}
	return i;
}

static bool cells_grow(struct rdt_cells *cells)
{
	unsigned int room = cells->room ? 2 * cells->room : 8;
	struct rdt_cell **list;
	uint32_t *hashes;

	if (cells->count < cells->room)
		return true;
	list = realloc(cells->cells, room * sizeof(struct rdt_cell *));
	if (list)
		cells->cells = list;
	hashes = list ? realloc(cells->hashes, room * sizeof(*hashes)) : NULL;
	if (!hashes)
		return false;
	cells->hashes = hashes;
	cells->room = room;
	return true;
}

static struct rdt_cell *cell_new(const struct rdt_listener *listener, const char *hostnqn)
{
	struct rdt_cell *cell = calloc(1, sizeof(*cell));

	if (!cell)
		return NULL;
	cell->listener = listener;
	if (hostnqn && !(cell->hostnqn = strdup(hostnqn))) {
		free(cell);
		return NULL;
	}
	return cell;
}

/* Returns &cells->nobody without memory. */
static struct rdt_cell *cell_get(struct rdt_cells *cells, const struct rdt_listener *listener,
				 const char *hostnqn)
{
	const struct rdt_target *t = rd_container_of(cells, struct rdt_reactor, cells)->target;
	uint32_t hash = hostnqn ? rdt_peer_hash(t, hostnqn, strlen(hostnqn)) : 0;
	unsigned int i = cell_find(cells, listener, hostnqn, hash);
	struct rdt_cell *cell;

	if (i < cells->count)
		return cells->cells[i];
	cell = cells_grow(cells) ? cell_new(listener, hostnqn) : NULL;
	if (!cell)
		return &cells->nobody;
	cells->cells[cells->count] = cell;
	cells->hashes[cells->count++] = hash;
	cell->prev = cells->last;
	atomic_store_explicit(&cells->last->next, cell, memory_order_release);
	cells->last = cell;
	return cell;
}

static void errors_merge(struct rdt_io_errors *errors, uint32_t status, uint64_t n)
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

/* Add what was counted in @from to @to. */
static void cell_merge(struct rdt_cell *to, const struct rdt_cell *from)
{
	for (unsigned int i = 0; i < RDT_IO_OPS; i++) {
		counters_merge(&to->op[i].bytes, &from->op[i].bytes, 1);
		counters_merge(&to->op[i].ns, &from->op[i].ns, 1);
		counters_merge(to->op[i].bucket, from->op[i].bucket, RDT_LAT_BUCKETS);
	}
	counters_merge(to->events, from->events, RDT_COUNTS);
	for (unsigned int i = 0; i < RDT_ERROR_KINDS; i++)
		if (rdt_counted(&from->errors.count[i]))
			errors_merge(&to->errors, from->errors.status[i],
				     rdt_counted(&from->errors.count[i]));
	rdt_count(&to->errors.others, rdt_counted(&from->errors.others));
}

static void cell_remove(struct rdt_cells *cells, struct rdt_cell *cell)
{
	struct rdt_cell *next = atomic_load_explicit(&cell->next, memory_order_relaxed);
	unsigned int i;

	for (i = 0; cells->cells[i] != cell; i++)
		;
	cells->count--;
	cells->cells[i] = cells->cells[cells->count];
	cells->hashes[i] = cells->hashes[cells->count];
	atomic_store_explicit(&cell->prev->next, next, memory_order_relaxed);
	if (next)
		next->prev = cell->prev;
	else
		cells->last = cell->prev;
}

static void cell_set_left(struct rdt_cells *cells, struct rdt_cell *cell, bool left)
{
	if (cell->left == left)
		return;
	cell->left = left;
	if (left)
		TAILQ_INSERT_TAIL(&cells->left, cell, left_link);
	else
		TAILQ_REMOVE(&cells->left, cell, left_link);
}

/*
 * The host of @cell has left. Its counters move to the cell of the listener, so that sums never
 * become smaller. Not while a reader walks over the list: it would count them twice or not at all.
 */
static void cell_drop(struct rdt_cells *cells, struct rdt_cell *cell)
{
	struct rdt_cell *past = cell_get(cells, cell->listener, NULL);
	bool held;

	pthread_mutex_lock(&cells->lock);
	held = cells->held;
	if (!held) {
		cell_merge(past, cell);
		cell_remove(cells, cell);
	}
	pthread_mutex_unlock(&cells->lock);
	cell_set_left(cells, cell, held);
	if (!held)
		cell_free(cell);
}

/* Cells that could not be dropped at their time are dropped in later calls, two in each. */
static void cells_reap(struct rdt_cells *cells)
{
	struct rdt_cell *cell;

	for (int i = 0; i < 2 && (cell = TAILQ_FIRST(&cells->left)); i++)
		cell_drop(cells, cell);
}

static void cell_use(struct rdt_qpair *qp, struct rdt_cell *cell)
{
	struct rdt_cells *cells = &qp->reactor->cells;
	struct rdt_cell *old = qp->cell;

	rdt_io_count_run(qp->reactor);
	atomic_fetch_add_explicit(&cell->qpairs, 1, memory_order_relaxed);
	cell_set_left(cells, cell, false);
	qp->cell = cell;
	if (atomic_fetch_sub_explicit(&old->qpairs, 1, memory_order_relaxed) == 1 && old->hostnqn)
		cell_drop(cells, old);
	cells_reap(cells);
}

void rdt_cell_init(struct rdt_qpair *qp)
{
	qp->cell = &qp->reactor->cells.nobody;
	atomic_fetch_add_explicit(&qp->cell->qpairs, 1, memory_order_relaxed);
}

void rdt_cell_join(struct rdt_qpair *qp, const char *hostnqn)
{
	cell_use(qp, cell_get(&qp->reactor->cells, qp->listener, hostnqn));
	if (hostnqn)
		rdt_count_event(qp, RDT_COUNT_CONNECTS);
}

void rdt_cell_leave(struct rdt_qpair *qp)
{
	if (!qp->cell)
		return;
	cell_use(qp, &qp->reactor->cells.nobody);
	atomic_fetch_sub_explicit(&qp->cell->qpairs, 1, memory_order_relaxed);
	qp->cell = NULL;
}

static void cells_set_held(struct rdt_cells *cells, bool held)
{
	pthread_mutex_lock(&cells->lock);
	cells->held = held;
	pthread_mutex_unlock(&cells->lock);
}

void rdt_cells_hold(struct rdt_cells *cells)
{
	cells_set_held(cells, true);
}

void rdt_cells_release(struct rdt_cells *cells)
{
	cells_set_held(cells, false);
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
	errors_merge(&req->qp->cell->errors, status, 1);
	if (stats)
		errors_merge(&stats->errors, status, 1);
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
	count_op(&run->qp->cell->op[op], run, ns, bucket);
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
	rdt_count(&qp->cell->events[event], 1);
}

RD_COLD void rdt_io_count_wait(const struct rdt_req *req, enum rdt_count_of event, uint64_t n)
{
	struct rdt_ns_stats *stats = req->ns ? ns_stats_of(req->qp->reactor, req->ns) : NULL;

	rdt_count(&req->qp->cell->events[event], n);
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
		note_in_flight(&qp->cell->in_flight, number, req->arrived);
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
