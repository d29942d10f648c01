/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much work admin commands may make in one turn of a reactor's loop, for each host and for all
 * together, so that the I/O of other hosts goes on. A command begins while its host and the reactor
 * owe nothing; then its cost is owed, and each turn pays a part. Commands that have to wait stay in
 * their capsules, and their queues take turns (req_pool.c).
 */
#ifndef RDT_ADMIN_TURN_H
#define RDT_ADMIN_LOOK 8u /* of looking at a namespace, beyond a few */
#define RDT_ADMIN_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rdt_qpair;

#define RDT_ADMIN_COST 4096u       /* of a command, besides its data; all in bytes */
#define RDT_ADMIN_TURN (32u << 10) /* of all hosts in a turn */
#define RDT_ADMIN_HOST (8u << 10)  /* of a host by one address in a turn */

struct rdt_admin_debt {
	size_t owed;
	uint64_t turn; /* paid up to this turn */
};

/* May a command of admin queue @qp begin in this turn? */
bool rdt_admin_may(const struct rdt_qpair *qp);
/* A command of @qp costs so much (more). For an admin queue. */
void rdt_admin_charge(const struct rdt_qpair *qp, size_t cost);

#endif /* RDT_ADMIN_TURN_H */
