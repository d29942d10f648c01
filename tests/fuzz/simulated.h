/* SPDX-License-Identifier: BSD-3-Clause */
/* What fuzz programs over the simulated network have in common: fuzz_target.c, fuzz_initiator.c. */
#ifndef FUZZ_SIMULATED_H
#define FUZZ_SIMULATED_H

#include <stdbool.h>
#include <stdint.h>

#include "simfabric/sim.h"
#include "util/log.h"

/* @trace, which must stay valid: whether messages are written to standard error. */
void fuzz_create_log(bool *trace, struct rd_log **out);
/* A network that is quick and has no faults. *@out must stay at its place if @trace is set. */
void fuzz_create_sim(uint64_t seed, bool trace, struct rd_sim **out);

/* A turn of one of @loops (NULL: not there now) that random numbers choose, by @turn(@arg, index);
 * or time passes, not beyond @until. Returns false when @until is reached. */
bool fuzz_step(struct rd_sim *sim, struct rd_loop *const *loops, unsigned int count, uint64_t until,
	       void (*turn)(void *arg, unsigned int loop), void *arg);

/* @data, in the region @mr, receives a message of @len bytes at most. */
void fuzz_post_recv(struct rd_fab_conn *conn, const struct rd_fab_mr *mr, void *data, uint32_t len,
		    uint64_t wr_id);

#endif /* FUZZ_SIMULATED_H */
