/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stage of fuzz_target.c: a whole target with two reactors, an honest host and a hostile one,
 * in one thread under one virtual clock. The same input gives the same run.
 */
#ifndef FUZZ_STAGE_H
#define FUZZ_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "simfabric/sim.h"
#include "target/reactor/lifecycle.h"

#define STAGE_REACTORS 2u
#define STAGE_ADDR     "192.0.2.1"
#define STAGE_PORT     4420u /* and the next one, which some configurations do not have */
#define STAGE_OPEN     "nqn.2024-01.test:open"   /* subsystem of any host */
#define STAGE_HONEST   "nqn.2024-01.test:honest" /* subsystem of the honest host alone */
#define STAGE_HOST     "nqn.2024-01.test:the-honest-host"
#define STAGE_CONFIGS  4u

/* Whose loop has a turn. */
enum stage_loop {
	STAGE_MAIN,
	STAGE_REACTOR,
	STAGE_HOSTILE = STAGE_REACTOR + STAGE_REACTORS,
	STAGE_DEV,
	STAGE_CHAN,
	STAGE_LOOPS,
};

struct honest;
struct hostile;

struct stage {
	/* for all inputs */
	bool trace; /* write messages of the network and the log to standard error */
	struct rd_log *log;
	struct rdt_config *configs[STAGE_CONFIGS];

	/* for one input */
	struct rd_sim *sim;
	struct rdt_env env;
	struct rd_loop *loop[STAGE_LOOPS]; /* NULL: not there now */
	struct rdt_target *target;
	struct honest *honest;
	struct hostile *hostile;
	bool reloading;
	bool drained;
};

/* Everything is there, and the honest host is connected. @s: zeroed before the first call. */
void stage_open(struct stage *s, uint64_t seed);
/* The hostile host leaves: everything that it had is given back, the honest host still reads what
 * it wrote, and the target ends. */
void stage_close(struct stage *s);

/* Somebody's turn, or time passes; not beyond @until. Returns false when @until is reached. */
bool stage_step(struct stage *s, uint64_t until);
void stage_pass(struct stage *s, uint64_t ns, unsigned int max_steps);
/* Until @done(@s); it must become true within @ns. */
void stage_await(struct stage *s, bool (*done)(const struct stage *s), uint64_t ns);
/* No-op while another reload runs. */
void stage_reload(struct stage *s, unsigned int config);

/* ---- honest.c: a host of which every command must succeed ---- */

#define HONEST_IOS 4u

void honest_open(struct stage *s);
bool honest_opened(const struct stage *s);
/* Writes new data to, or reads and compares, the blocks of @io. No-op while a command of it runs.
 */
void honest_acts(struct honest *h, unsigned int io, bool write);
bool honest_idle(const struct stage *s);
void honest_turn(struct honest *h, enum stage_loop loop);
void honest_close(struct stage *s);

#endif /* FUZZ_STAGE_H */
