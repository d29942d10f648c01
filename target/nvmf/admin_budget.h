/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The budget of admin commands in one iteration of a reactor's loop, for each host and for all
 * hosts together, so that admin commands cannot starve the I/O of other hosts. A command may begin
 * while neither its host nor the reactor has a debt. Its cost is then added to both debts, and each
 * iteration pays off a fixed part. Commands that have to wait stay in their capsules. The waiting
 * admin queues of all transports share one list, because they share the budget.
 */
#ifndef RDT_ADMIN_BUDGET_H
#define RDT_ADMIN_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/loop.h"
#include "req_pool.h"

struct rdt_qpair;
struct rdt_reactor;

#define RDT_ADMIN_LOOK        8u /* cost of each namespace that a command examines, in bytes */

#define RDT_ADMIN_COST        4096u /* fixed cost of a command in bytes, in addition to its data */
#define RDT_ADMIN_BUDGET      (32u << 10) /* budget of one loop iteration for all hosts, in bytes */
#define RDT_ADMIN_HOST_BUDGET (8u << 10)  /* for one host at one address */

struct rdt_admin_debt {
	size_t owed;
	uint64_t iteration; /* number of the loop iteration up to which @owed is current */
};

struct rdt_admin_budget {          /* one for each reactor */
	struct rdt_admin_debt all; /* sum over all hosts */
	struct rdt_starved waiting;
	struct rd_defer serve;
};

void rdt_admin_budget_init(struct rdt_reactor *r);
/* Returns whether a command of admin queue @qp may begin in this loop iteration. */
bool rdt_admin_may(const struct rdt_qpair *qp);
/* Queues admin queue @qp, whose commands have to wait: rdt_qpair_retry() follows in a later loop
 * iteration. */
void rdt_admin_wait(struct rdt_qpair *qp);
/* Adds @cost bytes to the debts of admin queue @qp's host and of the reactor. */
void rdt_admin_charge(const struct rdt_qpair *qp, size_t cost);

#endif /* RDT_ADMIN_BUDGET_H */
