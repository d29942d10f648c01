/* SPDX-License-Identifier: BSD-3-Clause */
/* What of a configuration this machine cannot do, found before anything is opened. Any thread. */
#ifndef RDT_PREFLIGHT_H
#define RDT_PREFLIGHT_H

#include <stdint.h>

#include "target/config/config.h"

struct rd_log;

/* Bytes of memory that this process may ever have: RAM and swap, or less where a control group (v2)
 * says so. UINT64_MAX: not known. */
uint64_t rdt_preflight_memory_limit(void);

/*
 * Namespaces in memory and the buffers of all reactors, together: more than the limit is an error,
 * which is logged. Returns 0 or -ENOMEM.
 */
int rdt_preflight_memory(const struct rdt_config *config, struct rd_log *log);

/*
 * All of it: memory, files and devices, the state directory, and whether the machine has the
 * addresses of the listeners. What another program uses is not found: it may be the rdtarget that
 * serves this configuration. Opens for reading only, and makes nothing. Logs each problem; returns
 * their number.
 */
unsigned int rdt_preflight(const struct rdt_config *config, struct rd_log *log);

#endif /* RDT_PREFLIGHT_H */
