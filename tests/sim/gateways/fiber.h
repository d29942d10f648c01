/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of simulated processes. A fiber has a stack of its own and runs until it waits: for a
 * lock, a condition, a time, or an answer of the cluster. All fibers are one thread.
 *
 * A process can stand still: its fibers continue when that is over.
 */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <stdbool.h>
#include <stdint.h>

#include "simfabric/sim.h"
#include "threads.h"

struct cluster;

/* Whose code runs. */
struct process {
	struct rd_sim *sim;
	struct cluster *cluster; /* to which its clients connect */
	unsigned int number;
	unsigned int fibers;  /* that have not ended */
	unsigned int signals; /* to loops, by descriptors, since somebody set it to 0 */
	uint64_t stalled_until;
	struct process *next;     /* of an earlier start of the same program */
	uint64_t ceph_decides_at; /* it waited for the lock of a client that is silent */
	uint64_t blocked_at;      /* Ceph blocked a connection of it */
	bool dead;                /* killed: nothing that it does reaches the cluster */
};

/* The process whose code runs now; NULL: none. */
struct process *process_now(void);
/* Sets it; returns the one before. */
struct process *process_enter(struct process *p);
bool process_stalled(const struct process *p);
/* How long to wait before looking again whether a fault is over that lasts until @until: it may end
 * earlier. */
uint64_t fault_wait(const struct rd_sim *sim, uint64_t until);

/* The fiber that runs now; NULL: the main stack does. */
const struct fiber *fiber_now(void);
/* Starts a fiber of the process that runs now. @kept: NULL, or it is freed by fiber_join(). Returns
 * 0 or -ENOMEM. */
int fiber_start(void *(*fn)(void *arg), void *arg, struct fiber **kept);
/* Has it run to its end, whatever it waits for, in no time. Not in a fiber. */
void fiber_join(struct fiber *f);

/* Waits in the list, until fiber_wake() or (@until not UINT64_MAX) that time. Returns false when
 * the time is over. Only in a fiber. */
bool fiber_wait(struct fiber_list *list, uint64_t until);
/* The fibers of the list run soon, in an order that the seed decides. */
void fiber_wake(struct fiber_list *list);
void fiber_sleep(uint64_t ns);

#endif /* SIM_FIBER_H */
