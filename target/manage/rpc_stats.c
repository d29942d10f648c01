/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of the reactors, queried by message, and of the subsystems. */
#include "rpc_priv.h"

#include <stdlib.h>

#include "target/nvmf/reactor.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/reactor/lifecycle.h"

static void collect_status(struct rdt_reactor *r, struct rdt_rpc_answer *answer)
{
	struct rdt_status_line *s = malloc(sizeof(*s));

	answer->data = s;
	answer->no_memory = !s;
	if (s)
		rdt_reactor_collect(r, s);
}

static json_t *reactor_json(const struct rdt_rpc_answer *answer)
{
	const struct rdt_status_line *s = answer->data;
	const struct rdt_reactor *r = answer->reactor;

	return json_pack("{s:i, s:f, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I}", "reactor",
			 (int)r->index, "busy_seconds", (double)rd_loop_busy(r->loop) / 1e9,
			 "admin_queues", (int)s->admin_qpairs, "io_queues", (int)s->io_qpairs,
			 "in_flight", (int)s->io_requests, "waiting_for_buffers", (int)s->waiting,
			 "waiting_for_limits", (int)s->limited, "buffer_bytes",
			 (json_int_t)s->slab_used, "reserve_bytes", (json_int_t)s->reserve_used,
			 "scratch_bytes", (json_int_t)s->scratch_used, "reads",
			 (json_int_t)s->reads, "writes", (json_int_t)s->writes);
}

static json_t *counters_json(const struct rdt_target *t, const struct rdt_subsys *ss)
{
	uint64_t reads = 0, writes = 0, read = 0, written = 0, errors = 0;

	for (unsigned int i = 0; i < t->reactors_count; i++) {
		const struct rdt_counters *c = &ss->counters[i];

		reads += atomic_load(&c->reads);
		writes += atomic_load(&c->writes);
		read += atomic_load(&c->blocks_read);
		written += atomic_load(&c->blocks_written);
		errors += atomic_load(&c->media_errors);
	}
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "nqn", ss->nqn, "reads",
			 (json_int_t)reads, "writes", (json_int_t)writes, "read_bytes",
			 (json_int_t)(read * 512), "written_bytes", (json_int_t)(written * 512),
			 "media_errors", (json_int_t)errors);
}

static void stats_answered(struct rdt_rpc_call *call, struct rdt_rpc_answer *answers,
			   unsigned int n)
{
	const struct rdt_target *t = call->rpc->target;
	json_t *reactors = json_array(), *subsystems = json_array();

	for (unsigned int i = 0; i < n; i++)
		json_array_append_new(reactors, reactor_json(&answers[i]));
	for (unsigned int i = 0; i < t->subsys_count; i++)
		if (!atomic_load(&t->subsys[i]->gone))
			json_array_append_new(subsystems, counters_json(t, t->subsys[i]));
	rdt_rpc_result(call, json_pack("{s:f, s:o, s:o}", "uptime_seconds",
				       (double)(rd_loop_now_raw(t->loop) - t->started_ns) / 1e9,
				       "reactors", reactors, "subsystems", subsystems));
}

static void stats_get(struct rdt_rpc_call *call)
{
	rdt_rpc_ask(call, collect_status, stats_answered);
}

const struct rdt_rpc_method rdt_rpc_stats_methods[] = {
	{"stats.get", "counters of reactors and subsystems since the start", false, NULL,
	 stats_get},
	{NULL, NULL, false, NULL, NULL},
};
