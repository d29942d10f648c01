/* SPDX-License-Identifier: BSD-3-Clause */
/* Properties of each kind of backend that the configuration needs, one row each. The functions that
 * open a backend are in bdev/backend.c. */
#ifndef RDT_BACKENDS_H
#define RDT_BACKENDS_H

#include <stdbool.h>

#include "keys.h"

struct rdt_backend_kind {
	/* its blocks are outside of this process: opening, measuring and closing may block */
	bool storage;
	/* a file or block device of this machine, named by the key path, with I/O by an engine */
	bool disk;
	bool ram; /* its blocks use memory of this process */
	/* several gateways serve it: its identity is the same on all of them, and its lock depends
	 * on whether it is opened for writing */
	bool gateways;
	/* The key that names the storage, for messages, and the mapping with this key; NULL: the
	 * namespace. @another: what to use instead, if the storage is already in use. */
	const char *key, *in, *another;
	/* Identifies the storage of @ns by a text that the caller frees; NULL: unknown from the
	 * keys. Returns 0 or -ENOMEM. NULL: backends of this kind have no storage. */
	int (*storage_of)(const struct rdt_ns_config *ns, char **name);
};

const struct rdt_backend_kind *rdt_backend_kind(const struct rdt_ns_config *ns);

extern const struct rdt_choice rdt_backend_choices[]; /* the values of the key backend */

/* Keys that a backend adds to those of a namespace. */
extern const struct rdt_row rdt_disk_rows[]; /* file and block */
extern const struct rdt_row rdt_nbd_rows[];
extern const struct rdt_row rdt_rbd_rows[];
/* storage_of */
int rdt_nbd_storage(const struct rdt_ns_config *ns, char **name);
int rdt_rbd_storage(const struct rdt_ns_config *ns, char **name);

#endif /* RDT_BACKENDS_H */
