/* SPDX-License-Identifier: BSD-3-Clause */
#include "stage.h"

#include <stdlib.h>
#include <string.h>

#include "util/buddy.h"

#include "target/bdev/jobs.h"
#include "target/config/config.h"
#include "target/manage/change/change.h"
#include "target/manage/objects/opening.h"
#include "target/nvmf/pool.h"
#include "target/transport/rdma/rdma_transport.h"

#include "../fuzz.h"
#include "../simulated.h"
#include "hostile.h"

/* Within which all that the hostile host had is given back, without faults. */
#define END_NS    (120 * RD_NSEC_PER_SEC)
#define END_STEPS 200000u

/* ---- configurations ---- */

#define TARGET                      \
	"target:\n"                 \
	"  reactors: 2\n"           \
	"  queue_depth: 32\n"       \
	"  io_queues: 4\n"          \
	"  max_data_size: 16KiB\n"  \
	"  in_capsule_size: 1KiB\n" \
	"  buffer_memory: 1MiB\n"   \
	"  capsule_memory: 1MiB\n"  \
	"  spin: 0\n"               \
	"listeners:\n"              \
	"  - {address: " STAGE_ADDR ", port: 4420, provider: iwarp}\n"
#define SECOND_LISTENER "  - {address: " STAGE_ADDR ", port: 4421, provider: iwarp}\n"
/* Storage that takes time. */
#define SLOW                                                                                      \
	"{nsid: 2, backend: memory, size: 64KiB, layers: [{type: delay, read: 5ms, write: 10ms, " \
	"flush: 50ms}]"
#define STUCK \
	"{nsid: 4, backend: memory, size: 1MiB, layers: [{type: delay, read: 20s, write: 30s}]"
/* Storage of which every second write fails. */
#define BAD                                                                                     \
	"{nsid: 5, backend: memory, size: 64KiB, block_size: 512, layers: [{type: error, ops: " \
	"[write, flush], rate: 50%}]"
#define SUBSYSTEMS                                                           \
	"subsystems:\n"                                                      \
	"  - nqn: " STAGE_HONEST "\n"                                        \
	"    hosts: [\"" STAGE_HOST "\"]\n"                                  \
	"    namespaces:\n"                                                  \
	"      - {nsid: 1, backend: memory, size: 64KiB, block_size: 512}\n" \
	"  - nqn: " STAGE_OPEN "\n"

/* Those that a reload applies; the first one is that of the start. */
static const char *const config_texts[STAGE_CONFIGS] = {
	TARGET SECOND_LISTENER SUBSYSTEMS
	"    allow_any_host: true\n"
	"    namespaces:\n"
	"      - {nsid: 1, backend: memory, size: 64KiB, block_size: 512}\n"
	"      - " SLOW "}\n"
	"      - {nsid: 3, backend: memory, size: 64KiB}\n"
	"      - " STUCK "}\n"
	"      - " BAD "}\n",
	/* Another size, a namespace less, a listener less. */
	TARGET SUBSYSTEMS "    allow_any_host: true\n"
			  "    namespaces:\n"
			  "      - {nsid: 1, backend: memory, size: 128KiB, block_size: 512}\n"
			  "      - {nsid: 3, backend: memory, size: 64KiB, read_only: true}\n",
	/* No host may connect; a limit. */
	TARGET SECOND_LISTENER SUBSYSTEMS "    hosts: [\"nqn.2024-01.test:nobody\"]\n"
					  "    namespaces:\n"
					  "      - " SLOW "}\n",
	/* The storage that takes time alone, with a limit. */
	TARGET SECOND_LISTENER SUBSYSTEMS "    allow_any_host: true\n"
					  "    namespaces:\n"
					  "      - " SLOW ", qos: {iops: 50}}\n"
					  "      - " STUCK "}\n",
};

static void load_configs(struct stage *s)
{
	for (unsigned int i = 0; i < STAGE_CONFIGS; i++) {
		struct rdt_config_texts texts = {0};
		const char *text = config_texts[i];

		FUZZ_CHECK(!rdt_config_texts_add(&texts, "fuzz.yaml", text, strlen(text), 0));
		FUZZ_CHECK(
			!rdt_config_load_texts("fuzz.yaml", &texts, false, s->log, &s->configs[i]));
		rdt_config_texts_free(&texts);
	}
}

static void stage_reloaded(struct rdt_change *ch)
{
	struct stage *s = ch->arg;

	FUZZ_CHECK(ch->applied);
	s->reloading = false;
}

void stage_reload(struct stage *s, unsigned int config)
{
	struct rdt_change *ch;

	if (s->reloading)
		return;
	s->reloading = true;
	ch = rdt_change_new(RDT_CHANGE_FILE, NULL, 0);
	FUZZ_CHECK(ch);
	ch->next = rdt_config_get(s->configs[config]);
	ch->settled = stage_reloaded;
	ch->arg = s;
	rdt_converge(s->target, ch);
}

static bool no_reload_runs(const struct stage *s)
{
	return !s->reloading;
}

/* ---- turns ---- */

static void stage_turn(void *arg, unsigned int loop)
{
	struct stage *s = arg;

	if (loop == STAGE_HOSTILE)
		hostile_turn(s->hostile);
	else if (loop > STAGE_HOSTILE)
		honest_turn(s->honest, loop);
	else
		FUZZ_CHECK(rd_loop_turn(s->loop[loop], 0) >= 0);
}

bool stage_step(struct stage *s, uint64_t until)
{
	return fuzz_step(s->sim, s->loop, STAGE_LOOPS, until, stage_turn, s);
}

void stage_pass(struct stage *s, uint64_t ns, unsigned int max_steps)
{
	uint64_t until = rd_sim_now(s->sim) + ns;

	while (max_steps-- && stage_step(s, until))
		;
}

void stage_await(struct stage *s, bool (*done)(const struct stage *s), uint64_t ns)
{
	uint64_t until = rd_sim_now(s->sim) + ns;

	for (unsigned int step = 0; !done(s); step++)
		FUZZ_CHECK(stage_step(s, until) && step < END_STEPS);
}

/* ---- the target ---- */

static const struct rdt_rdma_env rdma_env = {.fab_open = rd_sim_open};

static void start_target(struct stage *s)
{
	s->env = (struct rdt_env){.clock = rd_sim_clock(s->sim),
				  .seed = 1,
				  .transport_env[RDT_TRANSPORT_RDMA] = &rdma_env,
				  .run_job = rdt_job_run_now};
	FUZZ_CHECK(!rdt_target_create(s->configs[0], s->log, s->loop[STAGE_MAIN], &s->env, NULL,
				      &s->target));
	rdt_opening_begin(s->target);
	FUZZ_CHECK(!rdt_opening_wait(s->target, 0));
	FUZZ_CHECK(!rdt_listeners_start(s->target));
	FUZZ_CHECK(s->target->reactors_count == STAGE_REACTORS);
	for (unsigned int i = 0; i < STAGE_REACTORS; i++) {
		FUZZ_CHECK(!rdt_reactor_setup(&s->target->reactors[i]));
		s->loop[STAGE_REACTOR + i] = s->target->reactors[i].loop;
	}
	FUZZ_CHECK(!rdt_listeners_open(s->target));
}

static bool pools_are_full(const struct stage *s)
{
	for (unsigned int i = 0; i < STAGE_REACTORS; i++)
		for (int id = 0; id < RDT_POOLS; id++) {
			const struct rdt_pool *pool = &s->target->reactors[i].pools[id];

			if (rd_buddy_free_bytes(pool->buddy) != rd_buddy_total_bytes(pool->buddy) ||
			    pool->waiting)
				return false;
		}
	return true;
}

/* Only the honest host has a controller, and all buffers are given back. */
static bool all_is_given_back(const struct stage *s)
{
	const struct rdt_target *t = s->target;
	unsigned int ctrls = t->disc.ctrls_count;
	const struct rdt_subsys *ss;

	for (unsigned int at = 0; (ss = rdt_subsys_next(t, &at));)
		ctrls += ss->ctrls_count;
	return ctrls == 1 && pools_are_full(s);
}

static void stage_drained(struct rdt_target *t)
{
	rd_container_of(t->env, struct stage, env)->drained = true;
}

static bool is_drained(const struct stage *s)
{
	return s->drained;
}

static void end_target(struct stage *s)
{
	rdt_target_drain(s->target, stage_drained);
	stage_await(s, is_drained, END_NS);
	rdt_target_stop(s->target);
	FUZZ_CHECK(pools_are_full(s));
	for (unsigned int i = 0; i < STAGE_REACTORS; i++) {
		s->loop[STAGE_REACTOR + i] = NULL;
		rdt_reactor_teardown(&s->target->reactors[i]);
	}
	rdt_target_destroy(&s->target);
}

/* ---- life ---- */

void stage_open(struct stage *s, uint64_t seed)
{
	struct rd_loop_opts loop = {.seed = 2};

	if (!s->log) {
		fuzz_create_log(&s->trace, &s->log);
		load_configs(s);
	}
	s->reloading = s->drained = false;
	fuzz_create_sim(seed, s->trace, &s->sim);
	loop.clock = rd_sim_clock(s->sim);
	loop.log = s->log;
	FUZZ_CHECK(!rd_loop_create(&loop, &s->loop[STAGE_MAIN]));
	start_target(s);
	honest_open(s);
	for (unsigned int i = 0; i < HONEST_IOS; i++)
		honest_acts(s->honest, i, true);
	stage_await(s, honest_idle, 10 * RD_NSEC_PER_SEC);
	hostile_open(s);
}

void stage_close(struct stage *s)
{
	rd_sim_heal(s->sim);
	hostile_leaves(s->hostile);
	stage_await(s, no_reload_runs, END_NS);
	stage_await(s, honest_idle, END_NS);
	stage_await(s, all_is_given_back, END_NS);
	for (int write = 1; write >= 0; write--) {
		for (unsigned int i = 0; i < HONEST_IOS; i++)
			honest_acts(s->honest, i, write);
		stage_await(s, honest_idle, 10 * RD_NSEC_PER_SEC);
	}
	honest_close(s);
	end_target(s);
	hostile_close(s);
	FUZZ_CHECK(!rd_sim_leaked(s->sim));
	rd_loop_destroy(&s->loop[STAGE_MAIN]);
	rd_sim_destroy(&s->sim);
}
