/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks whether this machine can serve a configuration, before anything is opened. Any thread. */
#ifndef RDT_PREFLIGHT_H
#define RDT_PREFLIGHT_H

#include <stdint.h>

#include "target/config/config.h"

struct rd_log;
struct rdt_modules;
struct rdt_target;

/* Checks the sum of memory namespaces and of the buffers of all reactors against the memory that
 * this process can use.
 * Returns 0, or -ENOMEM with an error logged. */
int rdt_preflight_memory(const struct rdt_config *config, struct rd_log *log);

/*
 * Logs the subsystems that have neither "allow_any_host" nor "hosts", so that no host may connect
 * to them. Returns their number; without those that @running serves in the same way. @running:
 * NULL, or the call is on the main thread.
 */
unsigned int rdt_preflight_hosts(const struct rdt_config *config, struct rdt_target *running,
				 struct rd_log *log);

/*
 * Loads @path, and checks also what it needs of this machine: memory, files and devices, the state
 * directory, the control socket's directory and groups, congestion control, and that each listener
 * can bind its address; one that the rdtarget with this configuration holds is fine. Asks that
 * rdtarget, by its control socket, what it has found about namespaces. Opens files
 * for reading only and creates nothing. May wait for storage. Logs each problem with file, line and
 * key. Returns 0 with a reference in @out, or -errno.
 */
int rdt_preflight(const char *path, struct rdt_modules *modules, struct rd_log *log,
		  struct rdt_config **out);

#endif /* RDT_PREFLIGHT_H */
