/* SPDX-License-Identifier: BSD-3-Clause */
/* Somebody who waits, and somebody who brings what is waited for, on one processor. */
#ifndef T_SHARED_CPU_H
#define T_SHARED_CPU_H

#include <stdbool.h>

struct rd_loop;

/*
 * Another thread posts message after message to @loop, each when the one before was handled, while
 * this one calls @turn until all were; both on the processor that this one is on. Whether @loop
 * lets the other one have it is seen without a look at the time: returns whether it made fewer
 * turns than one that keeps it until the kernel takes it away, which makes thousands for each
 * message.
 */
bool t_shares_its_cpu(struct rd_loop *loop, int (*turn)(void *arg), void *arg);

#endif /* T_SHARED_CPU_H */
