/* SPDX-License-Identifier: BSD-3-Clause */
/* The Unix socket of the control interface: creation, exclusion of a second daemon, identity of
 * peers. */
#ifndef RDT_RPC_SOCKET_H
#define RDT_RPC_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "target/config/config.h"

struct rdt_inherit;

struct rdt_rpc_socket {
	int fd;
	int lock_fd;     /* keeps other daemons away */
	gid_t admin_gid; /* of cfg->admin_group, or (gid_t)-1 */
};

/*
 * Listens at cfg->socket, with mode 0660 and the group cfg->group (or cfg->admin_group). A lock on
 * SOCKET.lock excludes other daemons; the socket of a daemon that has ended is replaced. A socket
 * in @inherit with that path is used as it is. Returns 0, or -errno with a message in @text. Any
 * thread; looking up the groups may block.
 */
int rdt_rpc_listen(const struct rdt_control_config *cfg, const struct rdt_inherit *inherit,
		   struct rdt_rpc_socket *out, char *text, size_t size);
void rdt_rpc_unlisten(const struct rdt_control_config *cfg, const struct rdt_rpc_socket *sock);

/* Identifies the peer of @fd. @may_change: it is root, our own user, or a member of @admin_gid.
 * Returns 0 or -errno. */
int rdt_rpc_peer(int fd, gid_t admin_gid, uid_t *uid, pid_t *pid, bool *may_change);

#endif /* RDT_RPC_SOCKET_H */
