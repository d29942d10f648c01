/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data buffers of a reactor, and the requests that wait for one. A buffer is in use until the
 * host has sent or received its data, which may never happen. Therefore half of a pool is reserved
 * for hosts that are known to transfer data: such a host uses at most as much of it as it has
 * transferred since its last transfer beyond the deadline (rdt_share_late()). All other hosts are
 * unproven. Together they use at most half of the pool, and those of one address at most as much as
 * is left for other addresses. A quarter of that half is kept for hosts that use nothing: each gets
 * the smallest block, so that it can show that it transfers data. A new host that asks for a larger
 * first block gets at most half of what the other hosts of its address leave, so that there is room
 * for the next host and for all smaller blocks. A host that has stalled recently is not a new one.
 *
 * Copying data into the sockets of unproven hosts costs time even if these hosts never read: a
 * thousand new hosts fill a thousand socket buffers. So all unproven hosts together get
 * ITERATION_BYTES in each loop iteration; a larger block is charged to the following iterations.
 *
 * A host that is not unproven uses at most three times as much of the free buffers as it leaves to
 * all others. Waiting hosts are served round robin, the requests of a host in order.
 *
 * A device that does not answer keeps the buffers of its commands. So use is counted for each pair
 * of host and device, and each device has a share as well, unless it is the only one:
 * device_may_have(). An account whose next request is beyond its device's share is confined: it
 * waits in a list of the device, and is examined again when buffers were returned.
 */
#include "pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/cold.h"
#include "io.h"
#include "io_stats.h"
#include "ns.h"
#include "peers.h"
#include "pool_device.h"
#include "qpair.h"
#include "reactor.h"
#include "request.h"

#define SHARE           3u
#define ROUND           32u /* accounts of a list that are examined at once */

#define ITERATION_BYTES (128u << 10) /* for unproven accounts in one loop iteration */

/* Returns the size of the block for @req, in bytes. */
static size_t block_size_of(const struct rdt_pool *pool, const struct rdt_req *req)
{
	return rd_buddy_block(pool->buddy, pool->piece ? pool->piece : req->pool_len);
}

static bool is_shared(const struct rdt_pool *pool)
{
	return pool->index >= RDT_ACCOUNTS;
}

/* Returns whether the host has transferred at least as much as it would then use. */
static bool is_trusted(const struct rdt_account *acc, size_t size)
{
	return !acc->is_unproven && acc->used + size <= acc->moved;
}

static size_t half_of(const struct rdt_pool *pool)
{
	return rd_buddy_total_bytes(pool->buddy) / 2;
}

/* Returns whether other namespaces, on other devices, need the pool too. */
static bool is_contested(const struct rdt_device_use *use)
{
	const struct rdt_pool_device *d = use->device;

	return d->channels < d->reactor->channels_count;
}

/*
 * Returns whether a block of @size, in addition to @more, is within the share of a contested
 * device. The device may use three times as much as it leaves, and has to leave one of the largest
 * blocks even if the rest is fragmented. A device that uses nothing gets a block as soon as one is
 * free.
 */
static RD_COLD bool contested_may_have(const struct rdt_pool *pool,
				       const struct rdt_device_use *use, size_t more, size_t size)
{
	size_t left, all;

	if (!(use->used + more))
		return true;
	left = rd_buddy_free_bytes(pool->buddy);
	all = more + size;
	return all <= left && use->used + all <= SHARE * (left - all) &&
	       rd_buddy_keeps_max(pool->buddy, size);
}

static bool device_may_have(const struct rdt_pool *pool, const struct rdt_device_use *use,
			    size_t more, size_t size)
{
	return !use || !is_contested(use) || contested_may_have(pool, use, more, size);
}

/* The same for an unproven account, within the half for these accounts; @all: their use including
 * the block. */
static RD_COLD bool device_may_have_unproven(const struct rdt_pool *pool,
					     const struct rdt_account *acc, size_t more, size_t all)
{
	const struct rdt_device_use *use = acc->device;
	size_t most = half_of(pool) / 4 * 3;

	if (!use || !use->unproven || !is_contested(use))
		return true;
	if (!acc->used && more <= pool->unit)
		return all <= half_of(pool) &&
		       use->unproven + more <= SHARE * (half_of(pool) - all);
	return all <= most && use->unproven + more <= most - all;
}

/* Reduces the debt of the unproven accounts by the budget of the loop iterations since the last
 * call. */
static void pay(struct rdt_pool *pool)
{
	uint64_t iteration = rd_loop_turns(pool->reactor->loop),
		 passed = iteration - pool->paid_iteration;

	pool->paid_iteration = iteration;
	pool->owed =
		passed > pool->owed / ITERATION_BYTES ? 0 : pool->owed - passed * ITERATION_BYTES;
}

static RD_COLD bool owes(struct rdt_pool *pool)
{
	pay(pool);
	return pool->owed > 0;
}

/* Makes unproven accounts wait for the next loop iteration. */
static RD_COLD void pace(struct rdt_pool *pool)
{
	pool->paced = true;
	rd_defer(pool->reactor->loop, &pool->serve_rest, RD_DEFER_NEXT);
}

/* Returns whether this is the first block of a host, with which it can show that it transfers
 * data. */
static bool is_first_block(const struct rdt_pool *pool, const struct rdt_account *acc, size_t size)
{
	return !acc->used && size <= pool->unit;
}

static bool is_new(const struct rdt_account *acc)
{
	return !acc->used && !acc->stalled;
}

/* Returns whether a new host may have a first block of this size although it exceeds the share of
 * its address; an eighth of the half is kept for the smallest blocks. */
static RD_COLD bool may_have_as_new(const struct rdt_pool *pool, const struct rdt_account *acc,
				    size_t size)
{
	size_t all = pool->unproven + size, room = half_of(pool) / 2;

	return is_new(acc) && all <= half_of(pool) / 8 * 7 && *acc->unproven < room &&
	       size <= (room - *acc->unproven) / 2;
}

/* Returns whether an unproven account may have a block. A quarter of the half is kept for the first
 * blocks of hosts that use nothing. */
static RD_COLD bool may_have_unproven(struct rdt_pool *pool, const struct rdt_account *acc,
				      size_t size)
{
	size_t more = acc->is_unproven ? size : acc->used + size;
	size_t all = pool->unproven + more, most = half_of(pool) / 4 * 3;

	if (!device_may_have_unproven(pool, acc, more, all))
		return false;
	if (is_first_block(pool, acc, size))
		return all <= half_of(pool);
	if (!may_have_as_new(pool, acc, size)) {
		if (all > most)
			return false;
		if ((acc->used || *acc->unproven) && *acc->unproven + more > most - all)
			return false;
	}
	if (owes(pool)) {
		pace(pool);
		return false;
	}
	return true;
}

/* Returns whether the account may have a block. A host that uses nothing gets one as soon as one is
 * free. */
static bool may_have(struct rdt_pool *pool, const struct rdt_account *acc, size_t size)
{
	size_t left;

	if (!device_may_have(pool, acc->device, 0, size))
		return false;
	if (acc->common)
		return true;
	if (!is_trusted(acc, size))
		return may_have_unproven(pool, acc, size);
	if (!acc->used)
		return true;
	left = rd_buddy_free_bytes(pool->buddy);
	return size <= left && acc->used + size <= SHARE * (left - size);
}

static enum rdt_prio host_prio_of(const struct rdt_pool *pool, const struct rdt_account *acc)
{
	size_t size = block_size_of(pool, TAILQ_FIRST(&acc->waiting));

	if (is_trusted(acc, size))
		return RDT_PRIO_TRUSTED;
	if (is_first_block(pool, acc, size))
		return RDT_PRIO_FIRST;
	return is_new(acc) ? RDT_PRIO_NEW : RDT_PRIO_UNPROVEN;
}

/* Returns whether other accounts already wait for the share of the same device. */
static bool others_confined(const struct rdt_account *acc)
{
	return acc->device && !TAILQ_EMPTY(&acc->device->confined);
}

static enum rdt_prio prio_of(const struct rdt_pool *pool, const struct rdt_account *acc)
{
	const struct rdt_device_use *use = acc->device;

	if (others_confined(acc) ||
	    !device_may_have(pool, use, 0, block_size_of(pool, TAILQ_FIRST(&acc->waiting))))
		return RDT_PRIO_CONFINED;
	return host_prio_of(pool, acc);
}

static void enqueue_account(struct rdt_pool *pool, struct rdt_account *acc, enum rdt_prio prio)
{
	acc->prio = (uint8_t)prio;
	if (prio != RDT_PRIO_CONFINED) {
		TAILQ_INSERT_TAIL(&pool->queues[prio], acc, link);
		return;
	}
	if (TAILQ_EMPTY(&acc->device->confined))
		TAILQ_INSERT_TAIL(&pool->confined, acc->device, link);
	TAILQ_INSERT_TAIL(&acc->device->confined, acc, link);
}

static void dequeue_account(struct rdt_pool *pool, struct rdt_account *acc)
{
	if (acc->prio != RDT_PRIO_CONFINED) {
		TAILQ_REMOVE(&pool->queues[acc->prio], acc, link);
		return;
	}
	TAILQ_REMOVE(&acc->device->confined, acc, link);
	if (TAILQ_EMPTY(&acc->device->confined))
		TAILQ_REMOVE(&pool->confined, acc->device, link);
}

/* Updates the list in which an account waits, after it was examined or the result of prio_of() has
 * changed. A confined account keeps its place until the device's share permits its request. */
static void requeue_account(struct rdt_pool *pool, struct rdt_account *acc)
{
	if (acc->prio == RDT_PRIO_CONFINED)
		return;
	dequeue_account(pool, acc);
	enqueue_account(pool, acc, prio_of(pool, acc));
}

static RD_COLD void set_unproven(struct rdt_pool *pool, struct rdt_account *acc, bool is_unproven)
{
	size_t sign = is_unproven ? 1 : (size_t)-1;

	acc->is_unproven = is_unproven;
	pool->changes++;
	pool->unproven += sign * acc->used;
	*acc->unproven += sign * acc->used;
	if (acc->device)
		acc->device->unproven += sign * acc->used;
	if (!TAILQ_EMPTY(&acc->waiting))
		requeue_account(pool, acc);
}

static void *pool_take(struct rdt_pool *pool, struct rdt_account *acc, size_t size)
{
	void *buf = rd_buddy_alloc(pool->buddy, size);

	if (!buf)
		return NULL;
	if (acc->used + size > acc->moved && !acc->is_unproven)
		set_unproven(pool, acc, true);
	acc->used += size;
	if (acc->device)
		acc->device->used += size;
	if (acc->is_unproven) {
		if (acc->device)
			acc->device->unproven += size;
		pool->unproven += size;
		*acc->unproven += size;
		pay(pool);
		pool->owed += size;
	}
	return buf;
}

struct rdt_account *rdt_pool_scratch_payer(const struct rdt_req *req)
{
	struct rdt_pool_device *device = req->channel->device;

	return device ? &device->scratch : &req->qp->reactor->pools[RDT_POOL_SCRATCH].common;
}

static struct rdt_account *payer_of(struct rdt_pool *pool, const struct rdt_req *req)
{
	if (is_shared(pool))
		return &pool->common;
	if (req->ns && req->channel->device)
		return rdt_pool_device_account(req->channel->device, req->qp->share, pool->index);
	return &req->qp->share->accounts[pool->index];
}

static struct rdt_account *account_of(const struct rdt_pool *pool, const struct rdt_req *req)
{
	return pool->piece ? rdt_pool_scratch_payer(req) : req->payer;
}

static void leave_queue(struct rdt_pool *pool, struct rdt_req *req)
{
	struct rdt_account *acc = account_of(pool, req);

	TAILQ_REMOVE(&acc->waiting, req, link);
	pool->waiting--;
	if (TAILQ_EMPTY(&acc->waiting))
		dequeue_account(pool, acc);
}

/* Serve the first request of @acc. Returns whether it got a buffer. */
static bool serve_account(struct rdt_pool *pool, struct rdt_account *acc)
{
	struct rdt_req *req = TAILQ_FIRST(&acc->waiting);
	size_t size = block_size_of(pool, req);
	void *buf;

	if (!may_have(pool, acc, size)) {
		acc->refused_at = pool->changes;
		return false;
	}
	/* Small requests must not starve a large one: an account that is entitled to a block and
	 * finds none free is served next. This does not apply to unproven accounts, which would
	 * delay all others. */
	pool->tight = acc->common || is_trusted(acc, size);
	buf = pool_take(pool, acc, size);
	if (!buf) {
		pool->no_block = true;
		acc->refused_at = pool->changes;
		return false;
	}
	pool->tight = false;
	leave_queue(pool, req);
	if (!TAILQ_EMPTY(&acc->waiting))
		requeue_account(pool, acc);
	if (pool->piece)
		rdt_io_scratch(req, buf);
	else
		rdt_req_buffer(req, buf);
	return true;
}

/* Serves trusted accounts. Each is examined once after a change; beyond ROUND, in the next loop
 * iteration. */
static void serve_trusted(struct rdt_pool *pool)
{
	struct rdt_account *acc;

	for (unsigned int i = 0; (acc = TAILQ_FIRST(&pool->queues[RDT_PRIO_TRUSTED])); i++) {
		if (acc->passed_at == pool->returns)
			return;
		if (i == ROUND) {
			rd_defer(pool->reactor->loop, &pool->serve_rest, RD_DEFER_NEXT);
			return;
		}
		if (serve_account(pool, acc)) {
			/* The account may be behind others that were refused just now. */
			pool->returns += !TAILQ_EMPTY(&acc->waiting);
			continue;
		}
		if (pool->tight)
			return;
		acc->passed_at = pool->returns;
		requeue_account(pool, acc);
	}
}

/* Like serve_trusted(), within the budget of the loop iteration. */
static void serve_unproven(struct rdt_pool *pool, enum rdt_prio prio)
{
	struct rdt_account *acc;

	for (unsigned int i = 0; pool->unproven + pool->unit <= half_of(pool); i++) {
		acc = TAILQ_FIRST(&pool->queues[prio]);
		if (!acc || acc->refused_at == pool->changes)
			return;
		if (prio != RDT_PRIO_FIRST && owes(pool)) {
			pace(pool);
			return;
		}
		if (i == ROUND) {
			rd_defer(pool->reactor->loop, &pool->serve_rest, RD_DEFER_NEXT);
			return;
		}
		if (!serve_account(pool, acc))
			requeue_account(pool, acc);
		else if (!TAILQ_EMPTY(&acc->waiting))
			pool->changes++; /* it is behind others that were refused just now */
	}
}

/* Moves accounts that are within the share of their device back to the lists of all accounts. */
static void release_confined(struct rdt_pool *pool, struct rdt_device_use *use)
{
	struct rdt_account *acc;
	size_t more = 0;

	while ((acc = TAILQ_FIRST(&use->confined))) {
		size_t size = block_size_of(pool, TAILQ_FIRST(&acc->waiting));

		if (!device_may_have(pool, use, more, size))
			return;
		more += size;
		dequeue_account(pool, acc);
		acc->passed_at = acc->refused_at = 0;
		enqueue_account(pool, acc, host_prio_of(pool, acc));
		pool->changes++;
		pool->returns += acc->prio == RDT_PRIO_TRUSTED;
	}
}

/* Like serve_trusted(), for confined accounts. */
static void serve_confined(struct rdt_pool *pool)
{
	struct rdt_device_use *use, *next;
	uint64_t returns = pool->returns;
	unsigned int i = 0;

	for (use = TAILQ_FIRST(&pool->confined); use && use->seen_at != returns; use = next) {
		next = TAILQ_NEXT(use, link);
		if (i++ == ROUND) {
			rd_defer(pool->reactor->loop, &pool->serve_rest, RD_DEFER_NEXT);
			return;
		}
		use->seen_at = returns;
		release_confined(pool, use);
		if (TAILQ_EMPTY(&use->confined) || !next)
			continue;
		TAILQ_REMOVE(&pool->confined, use, link);
		TAILQ_INSERT_TAIL(&pool->confined, use, link);
	}
}

static void serve_all(struct rdt_pool *pool)
{
	pool->changes += pool->tight; /* because accounts behind it were not examined */
	pool->returns += pool->tight;
	pool->tight = false;
	serve_confined(pool);
	serve_trusted(pool);
	if (!pool->tight)
		serve_unproven(pool, RDT_PRIO_FIRST);
	if (!pool->tight)
		serve_unproven(pool, RDT_PRIO_NEW);
	if (!pool->tight)
		serve_unproven(pool, RDT_PRIO_UNPROVEN);
}

static void pool_serve(struct rd_defer *defer)
{
	serve_all(rd_container_of(defer, struct rdt_pool, serve));
}

static void pool_serve_rest(struct rd_defer *defer)
{
	struct rdt_pool *pool = rd_container_of(defer, struct rdt_pool, serve_rest);

	if (pool->paced && !owes(pool)) {
		pool->paced = false;
		pool->changes++; /* requests that were refused may be served now */
	}
	serve_all(pool);
	if (pool->paced)
		pace(pool);
}

void rdt_account_init_common(struct rdt_account *acc)
{
	TAILQ_INIT(&acc->waiting);
	acc->common = true;
	acc->moved = SIZE_MAX / 2; /* never unproven */
}

int rdt_pool_init(struct rdt_pool *pool, struct rdt_reactor *r, const struct rdt_pool_opts *opts)
{
	pool->reactor = r;
	pool->index = (unsigned int)(pool - r->pools);
	pool->unit = opts->unit;
	pool->piece = opts->piece;
	for (unsigned int i = 0; i < RDT_PRIOS; i++)
		TAILQ_INIT(&pool->queues[i]);
	TAILQ_INIT(&pool->confined);
	rdt_account_init_common(&pool->common);
	pool->changes = pool->returns = 1;
	pool->serve.fn = pool_serve;
	pool->serve_rest.fn = pool_serve_rest;
	return rd_buddy_create(opts->base, opts->len, opts->unit, opts->max, &pool->buddy);
}

void rdt_pool_fini(struct rdt_pool *pool)
{
	if (pool->reactor) {
		rd_defer_cancel(pool->reactor->loop, &pool->serve);
		rd_defer_cancel(pool->reactor->loop, &pool->serve_rest);
	}
	rd_buddy_destroy(&pool->buddy);
}

static RD_COLD void pool_wait(struct rdt_pool *pool, struct rdt_account *acc, struct rdt_req *req)
{
	bool first = TAILQ_EMPTY(&acc->waiting);

	rdt_io_count_wait(req, RDT_COUNT_BUFFER_WAITS, 1);
	TAILQ_INSERT_TAIL(&acc->waiting, req, link);
	if (first)
		enqueue_account(pool, acc, prio_of(pool, acc));
	pool->waiting++;
}

void *rdt_pool_get(struct rdt_pool *pool, struct rdt_req *req)
{
	size_t size = block_size_of(pool, req);
	struct rdt_account *acc;
	void *buf = NULL;

	if (!pool->piece)
		req->payer = payer_of(pool, req);
	acc = account_of(pool, req);
	if (!pool->tight && TAILQ_EMPTY(&acc->waiting) && !others_confined(acc) &&
	    may_have(pool, acc, size)) {
		buf = pool_take(pool, acc, size);
		if (!buf) {
			pool->tight = acc->common || is_trusted(acc, size);
			pool->no_block = true;
		}
	}
	if (!buf)
		pool_wait(pool, acc, req);
	return buf;
}

static void pool_revisit(struct rdt_pool *pool)
{
	pool->returns++;
	if (pool->waiting)
		rd_defer(pool->reactor->loop, &pool->serve, RD_DEFER_WORK);
}

void rdt_pools_revisit(struct rdt_reactor *r)
{
	for (unsigned int i = 0; i < RDT_POOLS; i++)
		if (!TAILQ_EMPTY(&r->pools[i].confined))
			pool_revisit(&r->pools[i]);
}

/* Returns @size bytes of an unproven account. */
static RD_COLD void put_unproven(struct rdt_pool *pool, struct rdt_account *acc, size_t size)
{
	pool->changes++;
	pool->unproven -= size;
	*acc->unproven -= size;
	if (acc->device)
		acc->device->unproven -= size;
	if (!acc->late && acc->moved >= acc->used && acc->moved)
		set_unproven(pool, acc, false);
	else if (!acc->used && !TAILQ_EMPTY(&acc->waiting))
		requeue_account(pool, acc);
}

/* Updates the list of the account, whose next request may need more or less than it has
 * transferred. */
static void update_prio(struct rdt_pool *pool, struct rdt_account *acc)
{
	if (TAILQ_EMPTY(&acc->waiting) || acc->prio == RDT_PRIO_TRUSTED)
		return;
	pool->changes++;
	requeue_account(pool, acc);
}

void rdt_pool_put(struct rdt_pool *pool, struct rdt_account *acc, void *buf, size_t len, bool moved)
{
	size_t size = rd_buddy_block(pool->buddy, len);

	rd_buddy_free(pool->buddy, buf, len);
	acc->used -= size;
	if (acc->device)
		acc->device->used -= size;
	if (moved)
		acc->moved += size;
	if (acc->is_unproven)
		put_unproven(pool, acc, size);
	else
		update_prio(pool, acc);
	pool->changes += pool->no_block;
	pool->no_block = false;
	pool_revisit(pool);
}

void rdt_pool_unwait(struct rdt_pool *pool, struct rdt_req *req)
{
	struct rdt_account *acc = account_of(pool, req);

	leave_queue(pool, req);
	update_prio(pool, acc);
	pool->changes++;
	pool->tight = pool->tight && pool->waiting;
	/* The next request may be small enough for the free blocks. */
	pool_revisit(pool);
}

bool rdt_pool_pressed(const struct rdt_pool *pool)
{
	size_t few = rd_buddy_total_bytes(pool->buddy) / 4;
	const struct rdt_account *acc;
	unsigned int looked = 0;

	if (pool->tight || !TAILQ_EMPTY(&pool->queues[RDT_PRIO_FIRST]) ||
	    !TAILQ_EMPTY(&pool->queues[RDT_PRIO_NEW]))
		return true;
	TAILQ_FOREACH (acc, &pool->queues[RDT_PRIO_TRUSTED], link)
		if (acc->used < few)
			return true;
	TAILQ_FOREACH (acc, &pool->queues[RDT_PRIO_UNPROVEN], link)
		if (!acc->used || ++looked == ROUND)
			break;
	return acc && !acc->used;
}

/* ---- hosts ---- */

static void init_share(struct rdt_reactor *r, struct rdt_share *share, struct rdt_source *source)
{
	share->id = r->pool_ids++;
	share->source = source;
	LIST_INIT(&share->devices);
	for (unsigned int i = 0; i < RDT_ACCOUNTS; i++) {
		TAILQ_INIT(&share->accounts[i].waiting);
		share->accounts[i].unproven = &source->unproven[i];
	}
}

static void mark_stalled(struct rdt_share *share, bool stalled)
{
	struct rdt_device_accounts *a;

	for (unsigned int i = 0; i < RDT_ACCOUNTS; i++) {
		share->accounts[i].stalled = stalled;
		LIST_FOREACH (a, &share->devices, of_share)
			a->accounts[i].stalled = stalled;
	}
}

int rdt_shares_init(struct rdt_reactor *r)
{
	r->shares = calloc(RDT_SHARE_BUCKETS, sizeof(*r->shares));
	if (!r->shares)
		return -ENOMEM;
	TAILQ_INIT(&r->nowhere.unassoc);
	init_share(r, &r->unassociated, &r->nowhere);
	return rdt_pool_devices_init(r);
}

void rdt_shares_fini(struct rdt_reactor *r)
{
	rdt_extents_queue_fini(&r->unassociated.extents);
	rdt_stallers_fini(&r->stallers);
	rdt_pool_devices_fini(r);
	free(r->shares);
	r->shares = NULL;
}

static struct rdt_share_bucket *share_bucket(struct rdt_reactor *r, const char *hostnqn,
					     const struct rdt_source *source)
{
	uint32_t hash = rdt_peer_hash(r->target, hostnqn, strlen(hostnqn)) +
			(uint32_t)((uintptr_t)source >> 5);

	return &r->shares[hash % RDT_SHARE_BUCKETS];
}

void rdt_share_join(struct rdt_qpair *qp, const char *hostnqn)
{
	struct rdt_source *source = rdt_peer_source(qp);
	struct rdt_share_bucket *list = share_bucket(qp->reactor, hostnqn, source);
	struct rdt_share *share;

	/* Before Connect, the queue pair belonged to the share of unassociated connections. */
	rdt_share_late(qp, false);
	LIST_FOREACH (share, list, link)
		if (share->source == source && strcmp(share->hostnqn, hostnqn) == 0)
			break;
	if (!share) {
		share = calloc(1, sizeof(*share));
		if (!share)
			return; /* without memory: remains unassociated */
		init_share(qp->reactor, share, source);
		memccpy(share->hostnqn, hostnqn, 0, sizeof(share->hostnqn));
		mark_stalled(share, rdt_staller_known(qp, hostnqn));
		LIST_INSERT_HEAD(list, share, link);
	}
	share->qpairs++;
	qp->share = share;
}

void rdt_share_leave(struct rdt_qpair *qp)
{
	struct rdt_share *share = qp->share;

	if (!share)
		return;
	rdt_share_late(qp, false);
	qp->share = NULL;
	if (share == &qp->reactor->unassociated || --share->qpairs)
		return;
	LIST_REMOVE(share, link);
	rdt_extents_queue_fini(&share->extents);
	rdt_pool_share_left(share);
	free(share);
}

static void account_late(struct rdt_pool *pool, struct rdt_account *acc, bool late)
{
	acc->late += late ? 1 : (unsigned int)-1;
	if (late)
		acc->moved = 0;
	if (late && !acc->is_unproven)
		set_unproven(pool, acc, true);
	else if (!acc->late && acc->is_unproven && acc->moved >= acc->used)
		set_unproven(pool, acc, false);
}

void rdt_share_late(struct rdt_qpair *qp, bool late)
{
	struct rdt_device_accounts *a;

	if (qp->late == late)
		return;
	qp->late = late;
	if (late && qp->share != &qp->reactor->unassociated) {
		rdt_staller_note(qp, qp->share->hostnqn);
		mark_stalled(qp->share, true);
	}
	for (unsigned int i = 0; i < RDT_ACCOUNTS; i++) {
		struct rdt_pool *pool = &qp->reactor->pools[i];

		account_late(pool, &qp->share->accounts[i], late);
		LIST_FOREACH (a, &qp->share->devices, of_share)
			account_late(pool, &a->accounts[i], late);
		pool_revisit(pool);
	}
}
