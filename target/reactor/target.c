/* SPDX-License-Identifier: BSD-3-Clause */
/* The target: creation from the configuration, drain, destruction. Main thread only. */
#include "lifecycle.h"
#include "target/nvmf/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"
#include "util/loop.h"
#include "target/cmd/admin.h"
#include "target/bdev/backend.h"
#include "target/bdev/engine.h"
#include "target/bdev/inherit.h"
#include "target/bdev/jobs.h"
#include "target/config/backends.h"
#include "target/config/config.h"
#include "target/nvmf/io.h"
#include "target/cmd/io_cmds.h"
#include "target/nvmf/auth/auth.h"
#include "target/nvmf/auth/auth_work.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/peers.h"
#include "target/transport/rdma/rdma_transport.h"
#include "target/transport/tcp/tcp_transport.h"
#include "target/resv/identity.h"
#include "target/resv/state.h"
#include "target/nvmf/req_latency.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/transport.h"

static uint64_t clock_now(const struct rdt_target *t)
{
	return rd_loop_now_raw(t->loop);
}

static void status_times(struct rdt_timing_query *query);

static const struct rdt_cmd_tables cmd_tables = {
	.fabrics = rdt_fabrics_cmds,
	.admin = rdt_admin_cmds,
	.io = rdt_io_cmds,
	.auth = &rdt_auth_ops,
};

/* A transport is a folder beside transport/rdma/, and a row here. */
const struct rdt_transport *const rdt_transports[RDT_TRANSPORTS] = {
	[RDT_TRANSPORT_RDMA] = &rdt_rdma_transport,
	[RDT_TRANSPORT_TCP] = &rdt_tcp_transport,
};

static const struct rdt_env the_system = {0};

static bool uses_engine_auto(const struct rdt_config *cfg)
{
	for (unsigned int i = 0; i < cfg->subsystems_count; i++) {
		const struct rdt_subsys_config *ss = &cfg->subsystems[i];

		for (unsigned int j = 0; j < ss->namespaces_count; j++) {
			const struct rdt_ns_config *ns = &ss->namespaces[j];

			if (ns->engine == RDT_ENGINE_AUTO && rdt_backend_kind(ns)->disk)
				return true;
		}
	}
	return false;
}

/* Log the engine once, not for each namespace. */
static void tell_engine(const struct rdt_target *t)
{
	int why;

	rdt_engine_choose(RDT_ENGINE_AUTO, &why);
	if (why && uses_engine_auto(t->cfg))
		rd_notice(t->log, RD_LOG_BACKEND,
			  "engine auto uses aio: io_uring is not available here (%s%s)",
			  strerror(why),
			  why == ENOSYS ? ""
					: "; see /proc/sys/kernel/io_uring_disabled and the "
					  "container's seccomp profile");
}

static int create_subsystems(struct rdt_target *t, struct rdt_config *cfg)
{
	int err = 0;

	for (unsigned int i = 0; i < cfg->subsystems_count && !err; i++) {
		struct rdt_subsys *ss;

		err = rdt_subsys_new(t, &cfg->subsystems[i], cfg, &ss);
		if (!err)
			rdt_subsys_show(ss);
	}
	return err;
}

static int open_transports(struct rdt_target *t)
{
	const struct rdt_transport *tr;
	int err = 0;

	RDT_FOREACH_TRANSPORT(tr, t, i)
	if (!err)
		err = tr->open(t);
	return err;
}

static int open_state(struct rdt_target *t)
{
	int lock = rdt_inherit_open(t->env->inherit, RDT_INHERIT_STATE), err = 0;

	if (!t->cfg->target.state_dir && lock >= 0)
		close(lock);
	if (t->cfg->target.state_dir)
		err = rdt_state_open(t->env->state_files, t->env->clock, t->cfg->target.state_dir,
				     lock < 0 ? -1 : lock, t->log, t->loop, &t->state);
	return err ? err : rdt_identities_new(t->state, t->log, t->loop, &t->identities);
}

static void init_lists(struct rdt_target *t)
{
	pthread_mutex_init(&t->find_lock, NULL);
	pthread_mutex_init(&t->bdev_changes.lock, NULL);
	TAILQ_INIT(&t->bdev_changes.list);
	TAILQ_INIT(&t->with_path);
	TAILQ_INIT(&t->listeners);
	TAILQ_INIT(&t->old_listeners);
}

int rdt_target_create(struct rdt_config *cfg, struct rd_log *log, struct rd_loop *loop,
		      const struct rdt_env *env, struct rdt_modules *modules,
		      struct rdt_target **out)
{
	struct rdt_target *t = calloc(1, sizeof(*t));
	int err = -ENOMEM;

	if (!t)
		return err;
	t->cmds = &cmd_tables;
	t->cfg = rdt_config_get(cfg);
	t->now = rdt_config_get(cfg);
	t->log = log;
	t->loop = loop;
	t->gateway = rd_loop_random64(loop) | 1;
	t->env = env ? env : &the_system;
	t->transports = t->env->transports ? t->env->transports : rdt_transports;
	t->modules = modules;
	t->listeners_held = t->env->inherit;
	t->started_ns = clock_now(t);
	init_lists(t);
	tell_engine(t);
	atomic_init(&t->genctr, 1);
	t->reactors = calloc(cfg->target.reactors, sizeof(*t->reactors));
	t->status_times = rdt_timing_query_new(t);
	if (!t->reactors || !t->status_times || rd_map_init(&t->ns_map) ||
	    rd_map_init(&t->leaving) || rdt_jobs_new(loop, log, t->env->run_job, &t->jobs))
		goto err_destroy;
	t->status_times->done = status_times;
	err = open_transports(t);
	if (!err)
		err = rdt_peers_init(t);
	if (!err)
		err = rdt_auth_pool_new(&t->auth_pool);
	if (!err)
		err = open_state(t);
	if (!err)
		err = rdt_subsys_init(&t->disc, t, NULL, t->cfg, RDT_SUBSYS_PLACES);
	if (!err)
		err = rdt_referrals_set(t, cfg->referrals, cfg->referrals_count) < 0 ? -ENOMEM : 0;
	if (!err)
		rdt_disc_set_hosts(t, &t->cfg->discovery, t->cfg);
	if (!err)
		err = create_subsystems(t, cfg);
	for (unsigned int i = 0; i < cfg->target.reactors && !err; i++) {
		t->reactors_count = i + 1;
		err = rdt_reactor_init(&t->reactors[i], t, i);
	}
	if (err)
		goto err_destroy;
	*out = t;
	return 0;

err_destroy:
	rdt_target_destroy(&t);
	return err;
}

int rdt_target_prepare(struct rdt_target *t)
{
	return t->state ? rdt_state_start(t->state) : 0;
}

int rdt_target_start(struct rdt_target *t)
{
	int err = rdt_listeners_start(t);

	if (err)
		return err;
	for (unsigned int i = 0; i < t->reactors_count; i++) {
		err = rdt_reactor_start(&t->reactors[i]);
		if (err)
			return err;
	}
	err = rdt_listeners_open(t);
	return t->cfg->target.start == RDT_START_ALL_OR_NOTHING ? err : 0;
}

void rdt_target_drain(struct rdt_target *t, void (*drained)(struct rdt_target *target))
{
	rdt_listeners_close(t);
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++)
		/* the end of what is left behind is waited for, however long it takes */
		if (t->ns[i] && t->ns[i]->bdev && !t->ns[i]->left_behind)
			rdt_bdev_drain(t->ns[i]->bdev);
	t->drained = drained;
	t->reactors_left = t->reactors_count;
	/* Messages keep their order, so connections that were handed over earlier are drained or
	 * rejected. */
	for (unsigned int i = 0; i < t->reactors_count; i++)
		rd_loop_post(t->reactors[i].loop, &t->reactors[i].drain_msg);
}

void rdt_target_abandon(struct rdt_target *t)
{
	for (unsigned int i = 0; i < t->reactors_count; i++)
		rd_loop_post(t->reactors[i].loop, &t->reactors[i].abandon_msg);
}

static void status_subsys(struct rdt_target *t, struct rdt_subsys *ss)
{
	const struct rdt_ns *ns;
	unsigned int ctrls, faults = 0;
	uint64_t refused = 0;

	if (!rdt_subsys_live(ss))
		return;
	pthread_mutex_lock(&ss->lock);
	ctrls = ss->ctrls_count;
	pthread_mutex_unlock(&ss->lock);
	TAILQ_FOREACH (ns, &ss->namespaces, link) {
		const struct rdt_bdev *base = ns->bdev ? rdt_bdev_base(ns->bdev) : NULL;

		faults += base && atomic_load(&base->faults);
		refused += base ? atomic_load(&base->refused) : 0;
	}
	rd_notice(t->log, RD_LOG_MAIN,
		  "status: subsystem=%s controllers=%u namespaces=%u faults=%u "
		  "refused=%llu",
		  ss->nqn, ctrls, atomic_load(&ss->ns_count), faults, (unsigned long long)refused);
}

void rdt_target_status_part(struct rdt_target *t)
{
	if (--t->status_left == 0)
		rd_notice(t->log, RD_LOG_MAIN, "status: end");
}

static void status_times(struct rdt_timing_query *query)
{
	rdt_timing_log(query->sum, query->target->log);
	rdt_target_status_part(query->target);
}

/* Log the status: one line per object, the last one "status: end". Reactors reply by message. */
void rdt_target_status(struct rdt_target *t)
{
	struct rdt_subsys *ss;
	unsigned int at = 0;

	if (t->status_left)
		return; /* the previous query is not finished */
	status_subsys(t, &t->disc);
	while ((ss = rdt_subsys_next(t, &at)))
		status_subsys(t, ss);
	t->status_left = t->reactors_count + 1;
	rdt_timing_ask(t->status_times);
	for (unsigned int i = 0; i < t->reactors_count; i++)
		rdt_reactor_ask_status(&t->reactors[i]);
}

struct rdt_served rdt_target_served(const struct rdt_target *t)
{
	struct rdt_served served = {0};
	const struct rdt_listener *l;
	const struct rdt_subsys *ss;
	unsigned int at = 0;

	TAILQ_FOREACH (l, &t->listeners, link) {
		served.listeners_failed += l->phase == RDT_LISTENER_FAILED;
		served.listeners += l->phase == RDT_LISTENER_LISTENING;
	}
	while ((ss = rdt_subsys_next(t, &at))) {
		if (!rdt_subsys_live(ss))
			continue;
		if (ss->now->hosts_unset) {
			served.subsystems_unset++;
			continue;
		}
		served.subsystems++;
		served.namespaces += atomic_load(&ss->ns_count);
	}
	return served;
}

void rdt_target_totals(const struct rdt_target *t, uint64_t *reads, uint64_t *writes)
{
	*reads = 0;
	*writes = 0;
	for (unsigned int i = 0; i < t->reactors_count; i++)
		rdt_reactor_totals(&t->reactors[i], reads, writes);
}

void rdt_target_stop(struct rdt_target *t)
{
	if (!t)
		return;
	rdt_listeners_close(t);
	rd_timer_stop(t->loop, &t->split_timer);
	for (unsigned int i = 0; i < t->reactors_count; i++)
		rdt_reactor_stop(&t->reactors[i]);
}

void rdt_target_destroy(struct rdt_target **target)
{
	const struct rdt_transport *tr;
	struct rdt_target *t = *target;
	struct rdt_subsys *ss;

	if (!t)
		return;
	rdt_target_stop(t);
	rdt_jobs_end(t->jobs, UINT64_MAX / 2); /* already done by its owner where calls may hang */
	rdt_auth_pool_free(&t->auth_pool);
	RDT_FOREACH_TRANSPORT(tr, t, i)
	tr->close(t);
	for (unsigned int i = 0; i < t->reactors_count; i++)
		rdt_reactor_fini(&t->reactors[i]);
	for (unsigned int i = 0; i < t->subsys_count; i++) {
		ss = t->subsys[i];
		rdt_subsys_free(&ss);
	}
	while ((ss = LIST_FIRST(&t->unseen))) {
		LIST_REMOVE(ss, unseen);
		rdt_subsys_free(&ss);
	}
	rdt_subsys_fini(&t->disc);
	rd_map_fini(&t->ns_map);
	rd_map_fini(&t->leaving);
	rdt_jobs_free(&t->jobs);
	rdt_state_close(&t->state);
	rdt_identities_free(&t->identities);
	rdt_peers_fini(t);
	rdt_timing_query_free(&t->status_times);
	free(t->referrals);
	rdt_config_put(&t->disc_cfg_of);
	free(t->reactors);
	rdt_listeners_free(t);
	rdt_config_put(&t->now);
	rdt_config_put(&t->cfg);
	pthread_mutex_destroy(&t->find_lock);
	pthread_mutex_destroy(&t->bdev_changes.lock);
	free(t);
	*target = NULL;
}
