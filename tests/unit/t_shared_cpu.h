/* SPDX-License-Identifier: BSD-3-Clause */
/* A waiting thread, and the thread whose messages it waits for, on one CPU. */
#ifndef T_SHARED_CPU_H
#define T_SHARED_CPU_H

#include <stdbool.h>

struct rd_loop;

/*
 * Another thread posts messages to @loop, each after the previous one was handled, while this
 * thread calls @turn until all were handled. Both run on this thread's present CPU. The result does
 * not depend on time: returns whether the loop made fewer turns than a loop that does not yield,
 * which makes thousands for each message.
 */
bool t_shares_its_cpu(struct rd_loop *loop, int (*turn)(void *arg), void *arg);

#endif /* T_SHARED_CPU_H */
