/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scene of fuzz_initiator.c: a program that uses librdinit, and a target whose ports are honest
 * or hostile, in one thread under one virtual clock. The same input gives the same run.
 */
#ifndef FUZZ_SCENE_H
#define FUZZ_SCENE_H

#include <stdbool.h>
#include <stdint.h>

#include "simfabric/sim.h"
#include "util/log.h"

/* Whose loop has a turn. */
enum scene_loop {
	SCENE_TARGET,
	SCENE_CTRL,
	SCENE_QPAIR,
	SCENE_DEV,
	SCENE_CHAN,
	SCENE_LOOPS,
};

/* What the program uses. */
enum scene_mode {
	SCENE_HANDLES,   /* a controller and a queue pair, of the hostile target */
	SCENE_DISCOVERY, /* a controller, for discovery */
	SCENE_MIXED,     /* a device with an honest path, and a hostile one that comes later */
	SCENE_HOSTILE,   /* a device with two hostile paths */
	SCENE_LISTED,    /* a device whose paths a hostile discovery controller names */
	SCENE_MODES,
};

struct puppet;
struct client;

struct scene {
	/* for all inputs */
	bool trace; /* write messages of the network and the log to standard error */
	struct rd_log *log;

	/* for one input */
	enum scene_mode mode;
	struct rd_sim *sim;
	struct rd_loop *loop[SCENE_LOOPS]; /* NULL: not there now, or its handle has ended */
	struct puppet *puppet;
	struct client *client;
};

/* The target listens; the program has its handles, and an honest path is connected. @s: zeroed
 * before the first call. */
void scene_open(struct scene *s, uint64_t seed, enum scene_mode mode);
/* The hostile target vanishes: all that was asked for ends, the honest path still serves, and
 * everything is given back. */
void scene_close(struct scene *s);

/* Somebody's turn, or time passes; not beyond @until. Returns false when @until is reached. */
bool scene_step(struct scene *s, uint64_t until);
void scene_pass(struct scene *s, uint64_t ns, unsigned int max_steps);
/* Until @done(@s); it must become true within @ns. */
void scene_await(struct scene *s, bool (*done)(const struct scene *s), uint64_t ns);

#endif /* FUZZ_SCENE_H */
