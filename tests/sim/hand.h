/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What goes from a simulated process with a target to the next one in a hand-over: records as text,
 * and descriptors of simulated sockets. The records of namespaces are those of
 * target/manage/upgrade/; what is said there by a channel is said by the events of upgrade.c and
 * gateways/hand_over.c.
 *
 * On failure @why has a sentence, or is empty.
 */
#ifndef SIM_HAND_H
#define SIM_HAND_H

#include <jansson.h>

#include "util/fd_bag.h"

#include "target/manage/upgrade/channel.h"

struct rdt_config;
struct rdt_inherit;
struct rdt_target;

struct hand {
	struct rdt_inherit *inherit;
	json_t *open;         /* records, as the next process has read them */
	json_t *moves;        /* likewise */
	struct rd_fd_bag bag; /* on its way, or the next process's */
	char why[RDT_CHANNEL_WHY];
};

void hand_init(struct hand *h);
/* Of @last, to the next process, which has @cfg and is not started yet: what is open. As the next
 * process (rd_sim_enter()). */
int hand_pass_open(struct hand *h, const struct rdt_target *last, const struct rdt_config *cfg);
/* Of @last, which is held, to @process: connections, and what hosts have set. */
int hand_pass_state(struct hand *h, struct rdt_target *last, unsigned int process);
/* The next process builds that; @in follows unless an error is returned. */
int hand_take(struct hand *h, struct rdt_target *next,
	      void (*in)(void *arg, int err, const char *why), void *arg);
/* Nothing of @last is in flight any more: @next, a target of @process, serves what was left behind.
 */
int hand_end(struct hand *h, const struct rdt_target *last, struct rdt_target *next,
	     unsigned int process);
/* As the process of @last, which has not handed over: it goes on. */
void hand_go_on(struct rdt_target *last);
/* As the next process, whose target does not use them any more. */
void hand_drop(struct hand *h);

#endif /* SIM_HAND_H */
