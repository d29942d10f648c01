/* SPDX-License-Identifier: BSD-3-Clause */
/* A reactor: a thread with an event loop, buffers, channels to the backends, and transports. */
#include "lifecycle.h"
#include "target/nvmf/reactor.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "util/buddy.h"
#include "util/iomem.h"
#include "util/log.h"
#include "util/loop.h"
#include "target/config/backends.h"
#include "target/config/config.h"
#include "target/bdev/engine.h"
#include "target/cmd/admin.h"
#include "target/nvmf/peers.h"
#include "target/nvmf/heartbeat.h"
#include "target/nvmf/stale_write.h"
#include "target/nvmf/io_stats.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/placement.h"
#include "target/nvmf/pool.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/req_latency.h"
#include "target/nvmf/target.h"
#include "target/config/tgt_limits.h"
#include "target/nvmf/transport.h"

static void reactor_drained_msg(struct rd_msg *msg)
{
	struct rdt_reactor *r = rd_container_of(msg, struct rdt_reactor, drained_msg);
	struct rdt_target *t = r->target;

	if (--t->reactors_left == 0 && t->drained)
		t->drained(t);
}

static void check_drained(struct rdt_reactor *r)
{
	if (!r->draining || r->drained_sent || r->qpairs_count)
		return;
	r->drained_sent = true;
	rd_loop_post(r->target->loop, &r->drained_msg);
}

static void drain_msg(struct rd_msg *msg)
{
	struct rdt_reactor *r = rd_container_of(msg, struct rdt_reactor, drain_msg);
	struct rdt_qpair *qp, *next;

	r->draining = true;
	for (qp = TAILQ_FIRST(&r->qpairs); qp; qp = next) {
		next = TAILQ_NEXT(qp, link);
		rdt_qpair_drain(qp);
	}
	rdt_stall_drain(r);
	check_drained(r);
}

static void abandon_msg(struct rd_msg *msg)
{
	struct rdt_reactor *r = rd_container_of(msg, struct rdt_reactor, abandon_msg);
	struct rdt_qpair *qp, *next;

	for (qp = TAILQ_FIRST(&r->qpairs); qp; qp = next) {
		next = TAILQ_NEXT(qp, link);
		rdt_qpair_close(qp, "the drain timeout has expired");
	}
}

static uint64_t pool_used(const struct rdt_pool *pool)
{
	return rd_buddy_total_bytes(pool->buddy) - rd_buddy_free_bytes(pool->buddy);
}

static void status_report(struct rd_msg *msg)
{
	struct rdt_reactor *r = rd_container_of(msg, struct rdt_reactor, status_msg);
	const struct rdt_status_line *s = &r->status;
	struct rdt_target *t = r->target;

	rd_notice(
		t->log, RD_LOG_MAIN,
		"status: reactor=%u admin_queues=%u io_queues=%u requests=%u "
		"waiting_for_buffers=%u waiting_for_limits=%u "
		"buffer_bytes=%llu reserve_bytes=%llu scratch_bytes=%llu%s reads=%llu writes=%llu",
		r->index, s->admin_qpairs, s->io_qpairs, s->requests, s->waiting, s->limited,
		(unsigned long long)s->buffer_bytes, (unsigned long long)s->reserve_bytes,
		(unsigned long long)s->scratch_bytes, s->transports, (unsigned long long)s->reads,
		(unsigned long long)s->writes);
	rdt_target_status_part(t);
}

void rdt_reactor_collect(struct rdt_reactor *r, struct rdt_status_line *s)
{
	const struct rdt_transport *tr;
	const struct rdt_qpair *qp;

	memset(s, 0, sizeof(*s));
	TAILQ_FOREACH (qp, &r->qpairs, link) {
		s->admin_qpairs += qp->admin;
		s->io_qpairs += !qp->admin;
		s->requests += qp->used;
		s->io_requests += qp->admin ? 0 : qp->used;
	}
	for (int i = 0; i < RDT_POOLS; i++)
		s->waiting += r->pools[i].waiting;
	s->buffer_bytes = pool_used(&r->pools[RDT_POOL_IO]);
	s->reserve_bytes = pool_used(&r->pools[RDT_POOL_RESERVE]);
	s->scratch_bytes = pool_used(&r->pools[RDT_POOL_SCRATCH]);
	s->limited = r->limited;
	RDT_FOREACH_TRANSPORT(tr, r->target, i)
	tr->reactor_status(r, s->transports, sizeof(s->transports));
	rdt_reactor_totals(r, &s->reads, &s->writes);
}

void rdt_reactor_totals(const struct rdt_reactor *r, uint64_t *reads, uint64_t *writes)
{
	const struct rdt_subsys *ss;
	unsigned int at = 0;

	*reads += rdt_counted(&r->gone_reads);
	*writes += rdt_counted(&r->gone_writes);
	while ((ss = rdt_subsys_next(r->target, &at))) {
		*reads += atomic_load(&ss->counters[r->index].reads);
		*writes += atomic_load(&ss->counters[r->index].writes);
	}
}

static void status_collect(struct rd_msg *msg)
{
	struct rdt_reactor *r = rd_container_of(msg, struct rdt_reactor, status_msg);

	rdt_reactor_collect(r, &r->status);
	r->status_msg.fn = status_report;
	rd_loop_post(r->target->loop, &r->status_msg);
}

void rdt_reactor_ask_status(struct rdt_reactor *r)
{
	r->status_msg.fn = status_collect;
	rd_loop_post(r->loop, &r->status_msg);
}

static int init_pool(struct rdt_reactor *r, enum rdt_pool_id id, size_t *at, size_t len,
		     size_t unit, size_t max, size_t piece)
{
	struct rdt_pool_opts opts = {r->slab + *at, len, unit, max, piece};

	*at += len;
	return rdt_pool_init(&r->pools[id], r, &opts);
}

static int init_pools(struct rdt_reactor *r, size_t connect_len)
{
	size_t max = r->target->cfg->target.max_data_bytes, at = 0;
	int err = rdt_shares_init(r);

	if (!err)
		err = init_pool(r, RDT_POOL_IO, &at, r->slab_len, RDT_BUFFER_UNIT, max, 0);
	if (!err)
		err = init_pool(r, RDT_POOL_RESERVE, &at, RDT_RESERVE_BYTES, RDT_BUFFER_UNIT,
				RDT_RESERVE_MAX, 0);
	if (!err)
		err = init_pool(r, RDT_POOL_CONNECT, &at, connect_len, RDT_CONNECT_UNIT,
				RDT_CONNECT_UNIT, 0);
	if (!err)
		err = init_pool(r, RDT_POOL_SCRATCH, &at, RDT_SCRATCH_BYTES, RDT_BUFFER_UNIT,
				RDT_SCRATCH_PIECE, RDT_SCRATCH_PIECE);
	return err;
}

/* Returns the size of the buffers for Connect data, one for each connection that may be without a
 * Connect, in whole pages. */
static size_t connect_bytes(const struct rdt_reactor *r)
{
	size_t len = (size_t)rdt_unassoc_max(r) * RDT_CONNECT_UNIT;

	return (len + RDT_BUFFER_UNIT - 1) / RDT_BUFFER_UNIT * RDT_BUFFER_UNIT;
}

static int init_buffers(struct rdt_reactor *r)
{
	const struct rdt_target_config *cfg = &r->target->cfg->target;
	size_t max = cfg->max_data_bytes;
	size_t connect = connect_bytes(r);
	int err;

	r->slab_len = cfg->buffer_bytes / max * max;
	if (r->slab_len == 0)
		r->slab_len = max;
	r->map_len = r->slab_len + RDT_RESERVE_BYTES + connect + RDT_SCRATCH_BYTES + max;
	r->slab = rd_iomem_map(r->map_len);
	if (!r->slab) {
		err = -errno;
		rd_err(r->log, RD_LOG_TARGET,
		       "cannot allocate %zu bytes of buffers for reactor %u: %s; lower "
		       "buffer_memory",
		       r->map_len, r->index, strerror(errno));
		return err;
	}
	r->zeroes = r->slab + r->map_len - max;
	rd_iomem_keep_small(r->zeroes, max);
	rd_iomem_populate(r->slab, r->map_len - max);
	return init_pools(r, connect);
}

int rdt_reactor_init(struct rdt_reactor *r, struct rdt_target *target, unsigned int index)
{
	struct rd_loop_opts opts = {
		.log = target->log,
		.clock = target->env->clock,
		.seed = target->env->seed ? target->env->seed + index + 1 : 0,
		.spin_ns = target->cfg->target.spin_ns,
		.on_turn = rdt_heartbeat_check,
		.turn_arg = r,
	};
	int err;

	r->target = target;
	r->log = target->log;
	r->index = index;
	TAILQ_INIT(&r->qpairs);
	rdt_qpair_walk_init(r);
	TAILQ_INIT(&r->unassoc);
	rdt_admin_budget_init(r);
	rdt_fence_init(r);
	rdt_heartbeat_init(r);
	rdt_stall_init(r);
	rdt_cut_off_init(r);
	r->drain_msg.fn = drain_msg;
	r->abandon_msg.fn = abandon_msg;
	r->drained_msg.fn = reactor_drained_msg;
	r->qpairs_gone = check_drained;
	err = rd_loop_create(&opts, &r->loop);
	if (err)
		return err;
	err = rdt_counters_list_init(r);
	if (!err)
		err = rdt_ns_channel_init(r);
	if (err)
		return err;
	err = rdt_timing_init(r, target->cfg->target.state_times);
	return err ? err : init_buffers(r);
}

static void needed_engines(const struct rdt_target *t, struct rdt_engines_opts *opts)
{
	for (unsigned int i = 0; i < t->cfg->subsystems_count; i++) {
		const struct rdt_subsys_config *ss = &t->cfg->subsystems[i];

		for (unsigned int j = 0; j < ss->namespaces_count; j++) {
			const struct rdt_ns_config *ns = &ss->namespaces[j];
			int why;

			if (!rdt_backend_kind(ns)->disk)
				continue;
			if (rdt_engine_choose(ns->engine, &why) == RDT_ENGINE_AIO)
				opts->need_aio = true;
			else
				opts->need_uring = true;
		}
	}
}

static struct rdt_ring_opts ring_opts(const struct rdt_reactor *r)
{
	const struct rdt_target_config *cfg = &r->target->cfg->target;

	return (struct rdt_ring_opts){
		.sqpoll_ms = (unsigned int)(cfg->sqpoll_ns / RD_NSEC_PER_MSEC),
		.sqpoll_cpu = cfg->sqpoll_cpus_count ? (int)cfg->sqpoll_cpus[r->index] : -1,
	};
}

static int init_transports(struct rdt_reactor *r)
{
	const struct rdt_transport *tr;
	int err = 0;

	RDT_FOREACH_TRANSPORT(tr, r->target, i)
	if (!err)
		err = tr->reactor_init(r);
	return err;
}

int rdt_reactor_setup(struct rdt_reactor *r)
{
	struct rdt_target *t = r->target;
	struct rdt_engines_opts opts = {
		.loop = r->loop,
		.depth = t->cfg->target.engine_depth,
		.slab = r->slab,
		.slab_len = r->slab_len,
		.ring = ring_opts(r),
	};
	char text[256] = "";
	int err;

	needed_engines(t, &opts);
	err = rdt_engines_create(&opts, &r->engines, text, sizeof(text));
	if (err) {
		rd_err(r->log, RD_LOG_TARGET, "reactor %u: %s", r->index,
		       text[0] ? text : strerror(-err));
		return err;
	}
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++) {
		if (!t->ns[i] || t->ns[i]->state != RDT_NS_LIVE)
			continue;
		err = rdt_ns_channel_open(r, t->ns[i]);
		if (err)
			return err;
		rdt_ns_channel_show(r, t->ns[i]);
	}
	rdt_place_watch(r);
	return init_transports(r);
}

void rdt_reactor_teardown(struct rdt_reactor *r)
{
	const struct rdt_transport *tr;

	assert(TAILQ_EMPTY(&r->qpairs));
	rdt_place_unwatch(r);
	rdt_heartbeat_stop(r);
	rdt_stall_stop(r);
	rdt_qpair_walk_cancel_all(r);
	RDT_FOREACH_TRANSPORT(tr, r->target, i)
	tr->reactor_fini(r);
	rdt_ns_channel_close_all(r);
	rdt_engines_destroy(&r->engines);
}

struct start {
	struct rdt_reactor *r;
	sem_t ready;
	int err;
};

/* Called before the first access to its memory, so that the kernel allocates it on the same
 * node. */
static int pin_reactor(const struct rdt_reactor *r)
{
	const struct rdt_target_config *cfg = &r->target->cfg->target;
	cpu_set_t set;
	int err;

	if (!cfg->cpus_count)
		return 0;
	CPU_ZERO(&set);
	CPU_SET(cfg->cpus[r->index], &set);
	err = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	if (err)
		rd_err(r->log, RD_LOG_TARGET,
		       "cpus: reactor %u cannot run on CPU %u: %s; Cpus_allowed_list in "
		       "/proc/self/status lists the CPUs that rdtarget may use",
		       r->index, cfg->cpus[r->index], strerror(err));
	return -err;
}

static void *reactor_thread(void *arg)
{
	struct start *start = arg;
	struct rdt_reactor *r = start->r;
	char name[16];
	int err;

	snprintf(name, sizeof(name), "reactor-%u", r->index % 1000);
	pthread_setname_np(pthread_self(), name);
	err = pin_reactor(r);
	if (!err)
		err = rdt_reactor_setup(r);
	start->err = err;
	sem_post(&start->ready); /* @start is invalid after this */
	if (!err) {
		err = rd_loop_run(r->loop);
		if (err)
			rd_err(r->log, RD_LOG_TARGET, "reactor %u stopped: %s", r->index,
			       strerror(-err));
		/* Process messages that arrived just before the stop, because they may hold
		 * references. */
		rd_loop_turn(r->loop, 0);
	}
	rdt_reactor_teardown(r);
	return NULL;
}

int rdt_reactor_start(struct rdt_reactor *r)
{
	struct start start = {.r = r};
	int err;

	sem_init(&start.ready, 0, 0);
	err = pthread_create(&r->thread, NULL, reactor_thread, &start);
	if (err) {
		sem_destroy(&start.ready);
		rd_err(r->log, RD_LOG_TARGET, "cannot start the thread of reactor %u: %s", r->index,
		       strerror(err));
		return -err;
	}
	while (sem_wait(&start.ready) && errno == EINTR)
		;
	sem_destroy(&start.ready);
	if (start.err) {
		pthread_join(r->thread, NULL);
		return start.err;
	}
	r->running = true;
	return 0;
}

void rdt_reactor_stop(struct rdt_reactor *r)
{
	if (!r->running)
		return;
	rd_loop_stop(r->loop);
	pthread_join(r->thread, NULL);
	r->running = false;
}

void rdt_reactor_fini(struct rdt_reactor *r)
{
	if (!r->target)
		return;
	for (int i = 0; i < RDT_POOLS; i++)
		rdt_pool_fini(&r->pools[i]);
	rdt_shares_fini(r);
	rd_iomem_unmap(r->slab, r->map_len);
	rdt_ns_channel_fini(r);
	rdt_disc_order_free(r);
	rdt_timing_fini(r);
	rdt_counters_list_fini(r);
	rd_loop_destroy(&r->loop);
}
