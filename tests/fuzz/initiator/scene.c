/* SPDX-License-Identifier: BSD-3-Clause */
#include "scene.h"

#include "../fuzz.h"
#include "../simulated.h"
#include "client.h"
#include "puppet.h"

/* Within which everything ends that was asked for, when the hostile target is gone. */
#define END_NS    (400 * RD_NSEC_PER_SEC)
#define END_STEPS 400000u
/* Within which the loss of a connection is noticed. */
#define LOSS_NS (5 * RD_NSEC_PER_SEC)

/* ---- turns ---- */

static void scene_turn(void *arg, unsigned int loop)
{
	struct scene *s = arg;

	if (loop == SCENE_TARGET)
		puppet_turn(s->puppet);
	else
		client_turn(s->client, (enum scene_loop)loop);
}

bool scene_step(struct scene *s, uint64_t until)
{
	return fuzz_step(s->sim, s->loop, SCENE_LOOPS, until, scene_turn, s);
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

void scene_open(struct scene *s, uint64_t seed, enum scene_mode mode)
{
	if (!s->log)
		fuzz_create_log(&s->trace, &s->log);
	s->mode = mode;
	fuzz_create_sim(seed, s->trace, &s->sim);
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
