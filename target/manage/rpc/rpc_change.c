/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods that change the target without changing the configuration: log level, access to
 * storage, drain, shutdown. */
#include "rpc_priv.h"

#include <stdlib.h>
#include <string.h>

#include "target/config/config.h"
#include "target/nvmf/ana.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/reactor.h"
#include "target/nvmf/target.h"
#include "target/reactor/lifecycle.h"
#include "target/manage/change/reloader.h"
#include "target/manage/upgrade/give.h"

#define DRAIN_CHECK (200 * RD_NSEC_PER_MSEC)
#define DRAIN_MAX   3600 /* seconds */

/* ---- log.level ---- */

static void log_level(struct rdt_rpc_call *call)
{
	const char *spec = rdt_rpc_text(call, "level");
	char now[RD_LOG_SPEC_TEXT];
	const char *bad;

	if (rd_log_parse(call->rpc->log, spec, &bad))
		rdt_rpc_error(
			call, RDT_RPC_INVALID, "level", spec, NULL,
			"level: found \"%.60s\", expected a level (%s) or COMPONENT=LEVEL (%s)",
			bad, rd_log_level_names(), rd_log_comp_names());
	else
		rdt_rpc_result(call, json_pack("{s:s}", "level", rd_log_spec(call->rpc->log, now)));
}

/* The next process would not know of a command that is executed now. Returns whether it is refused.
 */
static bool refuse_in_hand_over(struct rdt_rpc_call *call)
{
	bool runs = rdt_give_runs(call->rpc->env->give);

	if (runs)
		rdt_rpc_error(call, RDT_RPC_BUSY, NULL, NULL, NULL,
			      "the target is being handed over to another process; try again when "
			      "that has ended");
	return runs;
}

/* ---- ana.claim ---- */

static void ana_claim(struct rdt_rpc_call *call)
{
	const char *action = rdt_rpc_text(call, "action");
	struct rdt_target *t = call->rpc->target;
	enum rdt_claim claim = strcmp(action, "take") == 0    ? RDT_CLAIM_TAKE
			       : strcmp(action, "yield") == 0 ? RDT_CLAIM_YIELD
							      : RDT_CLAIM_WAIT;
	json_int_t group = 0;
	unsigned int claimed = 0;

	if (claim == RDT_CLAIM_WAIT && strcmp(action, "wait") != 0) {
		rdt_rpc_error(call, RDT_RPC_INVALID, "action", action, NULL,
			      "action: found \"%.60s\", expected take, yield or wait", action);
		return;
	}
	if (!rdt_rpc_number(call, "group", 1, RDT_ANA_GROUPS, &group) || refuse_in_hand_over(call))
		return;
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++) {
		const struct rdt_ns *ns = t->ns[i];

		if (ns && ns->bdev && rdt_ns_ana_group(ns) == group)
			claimed += rdt_bdev_claim(ns->bdev, claim);
	}
	if (claimed)
		rdt_rpc_result(call, json_pack("{s:i}", "namespaces", (int)claimed));
	else
		rdt_rpc_error(call, RDT_RPC_NOT_FOUND, "group", NULL,
			      "such namespaces have \"lock: exclusive\" in the configuration",
			      "group %lld has no namespace whose storage gateways claim from each "
			      "other",
			      (long long)group);
}

/* ---- drain ---- */

struct rdt_rpc_drain {
	struct rdt_rpc_call *call;
	struct rd_timer timer;
	uint64_t began;
	uint64_t until;
	uint64_t commands; /* number of commands served at the previous check */
	bool checked;
	bool began_ana; /* the ANA states are set */
};

/* The current configuration of listener @l. */
static const struct rdt_listener_config *listener_now(const struct rdt_listener *l)
{
	const struct rdt_config *now = l->target->now;

	for (uint32_t i = 0; i < now->listeners_count; i++)
		if (rdt_listener_same_place(&now->listeners[i], l->cfg))
			return &now->listeners[i];
	return l->cfg;
}

/* Sets all groups of all listeners to inaccessible, or back to their configured ANA states. */
static void drain_set_ana(struct rdt_target *t, bool inaccessible)
{
	struct rdt_listener *l;

	TAILQ_FOREACH (l, &t->listeners, link)
		rdt_ana_set(t, l,
			    inaccessible ? rdt_ana_all(NVME_ANA_STATE_INACCESSIBLE)
					 : rdt_ana_configured(listener_now(l)));
}

static void drain_over(struct rdt_rpc_drain *d)
{
	struct rdt_rpc *rpc = d->call->rpc;

	rd_timer_stop(rpc->loop, &d->timer);
	rpc->drain = NULL;
	rpc->target->serving = RDT_SERVING;
	free(d);
}

static void drain_cancel(struct rdt_rpc_call *call)
{
	if (call->rpc->drain)
		drain_over(call->rpc->drain);
}

static void drain_wait(struct rdt_rpc_drain *d)
{
	struct rdt_rpc_call *call = d->call;

	call->cancel = drain_cancel;
	if (!rd_timer_start(call->rpc->loop, &d->timer, DRAIN_CHECK))
		return;
	drain_over(d);
	rdt_rpc_error(call, RDT_RPC_NO_RESOURCES, NULL, NULL, NULL, "out of memory for a timer");
}

static void drain_count(struct rdt_answer *answer)
{
	struct rdt_status_line s;

	rdt_reactor_collect(answer->reactor, &s);
	answer->count = s.io_requests;
	rdt_answer_ready(answer);
}

static void drain_counted(struct rdt_rpc_call *call, struct rdt_answer *answers, unsigned int n)
{
	struct rdt_rpc_drain *d = call->rpc->drain;
	struct rdt_target *t = call->rpc->target;
	uint64_t now = rd_loop_now_raw(t->loop), reads, writes;
	double waited = (double)(now - d->began) / 1e9;
	size_t in_flight = 0;
	bool began = d->began_ana, idle;

	for (unsigned int i = 0; i < n; i++)
		in_flight += answers[i].count;
	rdt_target_totals(t, &reads, &writes);
	/* Idle at two consecutive checks: at one check a host may be between two commands. */
	idle = began && !in_flight && d->checked && d->commands == reads + writes;
	d->checked = !in_flight;
	d->commands = reads + writes;
	if (idle) {
		drain_over(d);
		t->serving = RDT_DRAINED;
		rdt_listeners_close(t);
		rd_notice(t->log, RD_LOG_MAIN, "control: drained: no I/O, and no new connections");
		rdt_rpc_result(call, json_pack("{s:b, s:f}", "drained", 1, "seconds", waited));
	} else if (now >= d->until) {
		drain_over(d);
		if (began)
			drain_set_ana(t, false);
		rdt_reloader_freeze(call->rpc->env->reloader, NULL);
		rdt_rpc_error(call, RDT_RPC_TIMEOUT, NULL, NULL,
			      "find the hosts with controller.list; those without another path "
			      "retry, or fail their I/O",
			      "hosts still do I/O after %.0f s: %zu commands in flight; the ANA "
			      "states %s",
			      waited, in_flight, began ? "were restored" : "were not changed");
	} else {
		drain_wait(d);
	}
}

/* A reload in progress would set the configured states again, so wait for its end. */
static void drain_begin_ana(struct rdt_rpc_drain *d)
{
	struct rdt_rpc *rpc = d->call->rpc;

	if (d->began_ana || rpc->env->reloader->current)
		return;
	d->began_ana = true;
	drain_set_ana(rpc->target, true);
}

static void drain_check(struct rd_timer *timer)
{
	struct rdt_rpc_drain *d = rd_container_of(timer, struct rdt_rpc_drain, timer);

	drain_begin_ana(d);
	rdt_rpc_ask(d->call, NULL, drain_count, drain_counted);
}

static void start_drain(struct rdt_rpc_call *call)
{
	struct rdt_rpc *rpc = call->rpc;
	json_int_t timeout = 30;
	struct rdt_rpc_drain *d;

	if (!rdt_rpc_number(call, "timeout", 1, DRAIN_MAX, &timeout))
		return;
	if (rpc->drain || rpc->target->drained) {
		rdt_rpc_error(call, RDT_RPC_BUSY, NULL, NULL, NULL,
			      "the target is being drained already");
		return;
	}
	if (refuse_in_hand_over(call))
		return;
	d = calloc(1, sizeof(*d));
	if (!d) {
		rdt_rpc_no_memory(call);
		return;
	}
	d->call = call;
	d->timer.fn = drain_check;
	d->began = rd_loop_now_raw(rpc->loop);
	d->until = d->began + (uint64_t)timeout * RD_NSEC_PER_SEC;
	rpc->drain = d;
	rpc->target->serving = RDT_DRAINING;
	rdt_reloader_freeze(rpc->env->reloader,
			    "the target is drained and accepts no changes until "
			    "it is restarted");
	drain_begin_ana(d);
	drain_wait(d);
}

/* ---- shutdown ---- */

static void start_shutdown(struct rdt_rpc_call *call)
{
	struct rdt_rpc_env *env = call->rpc->env;

	rdt_rpc_result(call, json_object());
	env->shutdown(env);
}

const struct rdt_rpc_method rdt_rpc_change_methods[] = {
	{"log.level", "set log levels, as --log does", true, "level: string", log_level},
	{"ana.claim",
	 "claim the storage of an ANA group from another gateway, yield it, or wait for it", true,
	 "group: number, action: string", ana_claim},
	{"drain", "move hosts to other paths: ANA inaccessible, wait for I/O, refuse connections",
	 true, "[timeout: number]", start_drain},
	{"shutdown", "stop the target, as SIGTERM does", true, NULL, start_shutdown},
	{NULL, NULL, false, NULL, NULL},
};
