/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors inherited from the previous process, by name. Each shares its open file description
 * and locks. They are kept until the end of the hand-over, so that a failed opening can be retried.
 * Main thread only.
 */
#ifndef RDT_INHERIT_H
#define RDT_INHERIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rdt_bdev_found;
struct rdt_bdev_told;
struct rdt_inherit;
struct rdt_ns_config;

#define RDT_INHERIT_STATE        "state_dir"
#define RDT_INHERIT_CONTROL      "control"
#define RDT_INHERIT_CONTROL_LOCK "control lock"
#define RDT_INHERIT_HTTP         "http"

int rdt_inherit_new(struct rdt_inherit **out);       /* 0 or -ENOMEM */
void rdt_inherit_free(struct rdt_inherit **inherit); /* closes the descriptors; accepts NULL */
/* Takes ownership of @fd. Returns 0, or -ENOMEM after closing it. */
int rdt_inherit_add(struct rdt_inherit *inherit, const char *name, int fd);
/* Returns a duplicate with close-on-exec, -ENOENT or another -errno. Accepts NULL for @inherit. */
int rdt_inherit_open(const struct rdt_inherit *inherit, const char *name);
/* What it has found out about what rdt_inherit_add() has added. */
void rdt_inherit_find(struct rdt_inherit *inherit, const char *name,
		      const struct rdt_bdev_found *found);
/* False: nothing. */
bool rdt_inherit_found(const struct rdt_inherit *inherit, const char *name,
		       struct rdt_bdev_found *out);
/* What it has told hosts of storage that has no descriptor. Returns 0 or -ENOMEM. */
int rdt_inherit_tell(struct rdt_inherit *inherit, const char *name,
		     const struct rdt_bdev_told *told);
/* False: nothing. */
bool rdt_inherit_told(const struct rdt_inherit *inherit, const char *name,
		      struct rdt_bdev_told *out);
/* Closes it, and forgets its name. */
void rdt_inherit_drop(struct rdt_inherit *inherit, const char *name);
/* All that was told is in use; what is opened again connects at once. */
void rdt_inherit_told_all(struct rdt_inherit *inherit);

/* The name of the storage of a namespace: derived from its path if it has one, else from the
 * namespace. The caller frees it. Returns 0, -ENOMEM, or -EOPNOTSUPP: it cannot be inherited. */
int rdt_inherit_storage(const char *nqn, const struct rdt_ns_config *cfg, char **name);
/* The name of a listening socket. @transport: its name; @port: the configured one. */
int rdt_inherit_listener(const char *transport, const char *address, uint16_t port, char **name);

#endif /* RDT_INHERIT_H */
