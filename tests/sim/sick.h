/* SPDX-License-Identifier: BSD-3-Clause */
/* A disk that hangs, beside a healthy one: namespace 2 is on it. */
#ifndef SIM_SICK_H
#define SIM_SICK_H

#include <stdbool.h>
#include <stdint.h>

struct rdinit_dev_chan;
struct rdt_bdev;
struct sick;
struct world;

/* One of so many seeds has it, whatever its profile is. */
#define SICK_IN 4u

/* It hangs now and then, and from the last quarter of the steps on until sick_heal(). */
int sick_new(struct world *w, struct sick **out);
void sick_free(struct sick *s);
bool sick_hangs(const struct sick *s); /* NULL is allowed */
/* It answers. NULL is allowed. */
void sick_heal(struct sick *s);
/* Opens its backend. Returns 0 or -ENOMEM. */
int sick_open(struct sick *s, uint64_t size, struct rdt_bdev **out);
/* A command of @host is submitted now and then to a queue of @chan; called between turns. */
void sick_acts(struct sick *s, unsigned int host, struct rdinit_dev_chan *chan);
/* Does @host wait for it, although it answers? NULL is allowed. */
bool sick_busy(const struct sick *s, unsigned int host);

#endif /* SIM_SICK_H */
