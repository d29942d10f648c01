/* SPDX-License-Identifier: BSD-3-Clause */
/* What an rdtarget that runs has: addresses, namespaces. */
#ifndef RDT_HELD_H
#define RDT_HELD_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/socket.h>

/*
 * Does a process of this program that was started with the configuration @config listen on the TCP
 * address @addr? False also when /proc does not tell. Any thread.
 */
bool rdt_held_by_ours(const struct sockaddr *addr, const char *config);
/* The namespaces of the rdtarget with the control socket @socket, as namespace.list has them, in an
 * object that the caller releases. NULL: it does not answer this user in 5 s. Any thread but its
 * main one. */
json_t *rdt_held_namespaces(const char *socket);

#endif /* RDT_HELD_H */
