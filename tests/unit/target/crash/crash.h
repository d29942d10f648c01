/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of what is left by a power failure. */
#ifndef T_CRASH_H
#define T_CRASH_H

#include <stdint.h>

#include "t_main.h"

#define T_CRASH_SEEDS 8u

extern const struct t_case t_crash_disk_cases[];
extern const struct t_case t_crash_state_cases[];

/* The first seed: that of T_SEED, or another one in each run, which is printed. */
uint64_t t_crash_seed(void);

#endif /* T_CRASH_H */
