/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks whether this machine can serve a configuration, without opening it for use. Any thread. */
#ifndef RDT_PREFLIGHT_H
#define RDT_PREFLIGHT_H

#include <stdint.h>

#include "target/config/config.h"

struct rd_log;
struct rdt_modules;
struct rdt_target;

/* Checks that memory namespaces and the buffers of all reactors fit into the memory that this
 * process can use. Returns 0, or -ENOMEM with an error logged. */
int rdt_preflight_memory(const struct rdt_config *config, struct rd_log *log);

/*
 * Logs subsystems that have neither "allow_any_host" nor "hosts", so that no host may connect.
 * Returns their number, without those that @running already serves in this way. @running: NULL, or
 * the call is on the main thread.
 */
unsigned int rdt_preflight_hosts(const struct rdt_config *config, struct rdt_target *running,
				 struct rd_log *log);

/*
 * Loads @path and checks that this machine provides what it needs: memory, files and devices, the
 * state directory, the directory and groups of the control socket, congestion control, and
 * addresses to bind; an address held by the rdtarget with this configuration is accepted. Asks that
 * rdtarget through its control socket for faults of namespaces. Opens files read-only and creates
 * nothing. May wait for storage. Logs each problem with file, line and key. Returns 0 with a
 * reference in @out, or -errno.
 */
int rdt_preflight(const char *path, struct rdt_modules *modules, struct rd_log *log,
		  struct rdt_config **out);

#endif /* RDT_PREFLIGHT_H */
