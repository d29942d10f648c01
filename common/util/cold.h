/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RD_UTIL_COLD_H
#define RD_UTIL_COLD_H

/*
 * Cold path: out of line, so that the caller spills no registers and reserves no stack for it.
 */
#define RD_COLD __attribute__((cold, noinline))

#endif /* RD_UTIL_COLD_H */
