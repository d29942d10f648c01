/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the process that this one takes over from has open: descriptors by name, each the same open
 * file description as there, with its locks. They stay here until the end of the hand-over, so that
 * what could not be opened can be tried again. Main thread only.
 */
#ifndef RDT_INHERIT_H
#define RDT_INHERIT_H

#include <stddef.h>
#include <stdint.h>

struct rdt_inherit;
struct rdt_ns_config;

#define RDT_INHERIT_STATE        "state_dir"
#define RDT_INHERIT_CONTROL      "control"
#define RDT_INHERIT_CONTROL_LOCK "control lock"
#define RDT_INHERIT_HTTP         "http"

int rdt_inherit_new(struct rdt_inherit **out);       /* 0 or -ENOMEM */
void rdt_inherit_free(struct rdt_inherit **inherit); /* closes what is left; accepts NULL */
/* Takes @fd in any case. Returns 0, or -ENOMEM: it is closed. */
int rdt_inherit_add(struct rdt_inherit *inherit, const char *name, int fd);
/* A duplicate with close-on-exec, or -ENOENT, or another -errno. @inherit: may be NULL. */
int rdt_inherit_open(const struct rdt_inherit *inherit, const char *name);

/* The name of the storage of a namespace: it follows from the path where there is one, else from
 * the namespace. Returns 0, -ENOMEM, or -EOPNOTSUPP: it cannot be inherited. The caller frees it.
 */
int rdt_inherit_storage(const char *nqn, const struct rdt_ns_config *cfg, char **name);
/* The name of a listening socket. @transport: its name; @port: the configured one. */
int rdt_inherit_listener(const char *transport, const char *address, uint16_t port, char **name);

#endif /* RDT_INHERIT_H */
