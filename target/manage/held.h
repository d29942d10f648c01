/* SPDX-License-Identifier: BSD-3-Clause */
/* Who listens on an address. */
#ifndef RDT_HELD_H
#define RDT_HELD_H

#include <stdbool.h>
#include <sys/socket.h>

/*
 * Does a process of this program that was started with the configuration @config listen on the TCP
 * address @addr? False also when /proc does not tell. Any thread.
 */
bool rdt_held_by_ours(const struct sockaddr *addr, const char *config);

#endif /* RDT_HELD_H */
