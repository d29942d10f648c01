/* SPDX-License-Identifier: BSD-3-Clause */
#include "scene.h"

#include "../fuzz.h"
#include "client.h"
#include "puppet.h"

#define START_TIME (1000 * RD_NSEC_PER_SEC)
/* Within which everything ends that was asked for, when the hostile target is gone. */
#define END_NS    (400 * RD_NSEC_PER_SEC)
#define END_STEPS 400000u
/* Within which the loss of a connection is noticed. */
#define LOSS_NS (5 * RD_NSEC_PER_SEC)

/* ---- turns ---- */

static void scene_turn(struct scene *s, unsigned int loop)
{
	rd_sim_advance(s->sim, rd_sim_now(s->sim) + RD_NSEC_PER_USEC);
	if (loop == SCENE_TARGET)
		puppet_turn(s->puppet);
	else
		client_turn(s->client, (enum scene_loop)loop);
}

bool scene_step(struct scene *s, uint64_t until)
{
	unsigned int ready[SCENE_LOOPS], count = 0;
	uint64_t at = rd_sim_next(s->sim), now = rd_sim_now(s->sim);

	if (now >= until)
		return false;
	rd_sim_run(s->sim);
	for (unsigned int i = 0; i < SCENE_LOOPS; i++) {
		uint64_t next = s->loop[i] ? rd_loop_next(s->loop[i]) : UINT64_MAX;

		if (next <= now)
			ready[count++] = i;
		at = next < at ? next : at;
	}
	if (count)
		scene_turn(s, ready[rd_sim_below(s->sim, count)]);
	else
		rd_sim_advance(s->sim, at < until ? at : until);
	return true;
}

void scene_pass(struct scene *s, uint64_t ns, unsigned int max_steps)
{
	uint64_t until = rd_sim_now(s->sim) + ns;

	while (max_steps-- && scene_step(s, until))
		;
}

void scene_await(struct scene *s, bool (*done)(const struct scene *s), uint64_t ns)
{
	uint64_t until = rd_sim_now(s->sim) + ns;

	for (unsigned int step = 0; !done(s); step++)
		FUZZ_CHECK(scene_step(s, until) && step < END_STEPS);
}

/* ---- life ---- */

static void scene_log(void *arg, enum rd_log_level level, const char *line)
{
	const struct scene *s = arg;

	(void)level;
	if (s->trace)
		fprintf(stderr, "%s\n", line);
}

static void scene_message(void *arg, const char *line)
{
	const struct scene *s = arg;

	fprintf(stderr, "%llu.%09llu %s\n",
		(unsigned long long)(rd_sim_now(s->sim) / RD_NSEC_PER_SEC),
		(unsigned long long)(rd_sim_now(s->sim) % RD_NSEC_PER_SEC), line);
}

void scene_open(struct scene *s, uint64_t seed, enum scene_mode mode)
{
	struct rd_sim_opts opts = {
		.seed = seed,
		.start_ns = START_TIME,
		.latency_ns = 20 * RD_NSEC_PER_USEC,
		.jitter_ns = 50 * RD_NSEC_PER_USEC,
		.trace = s->trace ? scene_message : NULL,
		.trace_arg = s,
	};

	if (!s->log)
		FUZZ_CHECK(!rd_log_create("fuzz", -1, RD_LOG_INFO, scene_log, s, &s->log));
	s->mode = mode;
	FUZZ_CHECK(!rd_sim_create(&opts, &s->sim));
	puppet_open(s);
	client_open(s);
}

void scene_close(struct scene *s)
{
	rd_sim_heal(s->sim);
	puppet_vanishes(s->puppet);
	scene_await(s, client_idle, END_NS);
	if (s->mode == SCENE_MIXED) {
		scene_pass(s, LOSS_NS, END_STEPS);
		client_uses_honest_path(s->client);
	}
	client_close(s);
	puppet_close(s);
	FUZZ_CHECK(!rd_sim_leaked(s->sim));
	rd_sim_destroy(&s->sim);
}
