/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much work admin commands may make in one turn of a reactor's loop, for each host and for all
 * together, so that the I/O of other hosts goes on. A command begins while its host and the reactor
 * owe nothing; then its cost is owed, and each turn pays a part. Commands that have to wait stay in
 * their capsules. All admin queues of the reactor that have to wait are in one list, whichever
 * transport they belong to, because they share what is paid in a turn.
 */
#ifndef RDT_ADMIN_TURN_H
#define RDT_ADMIN_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/loop.h"
#include "req_pool.h"

struct rdt_qpair;
struct rdt_reactor;

#define RDT_ADMIN_LOOK 8u /* of looking at a namespace, beyond a few */

#define RDT_ADMIN_COST 4096u       /* of a command, besides its data; all in bytes */
#define RDT_ADMIN_TURN (32u << 10) /* of all hosts in a turn */
#define RDT_ADMIN_HOST (8u << 10)  /* of a host by one address in a turn */

struct rdt_admin_debt {
	size_t owed;
	uint64_t turn; /* paid up to this turn */
};

struct rdt_admin_turn {            /* of a reactor */
	struct rdt_admin_debt all; /* of all hosts */
	struct rdt_starved waiting;
	struct rd_defer serve;
};

void rdt_admin_turn_init(struct rdt_reactor *r);
/* May a command of admin queue @qp begin in this turn? */
bool rdt_admin_may(const struct rdt_qpair *qp);
/* @qp, an admin queue, has commands that wait: rdt_qpair_retry() follows, in a later turn. */
void rdt_admin_wait(struct rdt_qpair *qp);
/* A command of @qp costs so much (more). For an admin queue. */
void rdt_admin_charge(const struct rdt_qpair *qp, size_t cost);

#endif /* RDT_ADMIN_TURN_H */
