/* SPDX-License-Identifier: BSD-3-Clause */
/* Common parts of the loop's tests. */
#ifndef T_LOOP_H
#define T_LOOP_H

#include "util/loop.h"

extern uint64_t fake_now;
extern const struct rd_clock fake_clock;

/* A loop; fake_now is reset. */
struct rd_loop *make_loop(struct rd_loop_opts opts);
uint64_t real_now(void);
bool readable(int fd, int timeout_ms);

/* The tags of the callbacks that ran, in order; a test clears it. */
extern char trace[64];

struct t_defer {
	struct rd_defer defer;
	struct rd_loop *loop;
	char tag;
	struct t_defer *next; /* queued by the callback */
	enum rd_defer_phase next_phase;
	int again;
	int ran;
	uint64_t takes; /* on the fake clock */
};

void defer_ran(struct rd_defer *defer);

#endif /* T_LOOP_H */
