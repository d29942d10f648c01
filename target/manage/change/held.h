/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries a running rdtarget: its addresses and namespaces. */
#ifndef RDT_HELD_H
#define RDT_HELD_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/socket.h>

/*
 * Whether a process of this program with the configuration @config listens on the TCP address
 * @addr. Also false if /proc is not readable. Any thread.
 */
bool rdt_held_by_ours(const struct sockaddr *addr, const char *config);
/* Asks the rdtarget with the control socket @socket for its namespaces, as "namespace.list"
 * answers; the caller releases the object. Returns NULL if it refuses, or does not answer in 5 s.
 * Any thread except that rdtarget's main thread. */
json_t *rdt_held_namespaces(const char *socket);

#endif /* RDT_HELD_H */
