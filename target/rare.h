/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDT_RARE_H
#define RDT_RARE_H

/*
 * What hardly ever happens, beside what always does: kept out of the caller, which else saves
 * registers and makes room on its stack for it each time.
 */
#define RDT_RARE __attribute__((cold, noinline))

#endif /* RDT_RARE_H */
