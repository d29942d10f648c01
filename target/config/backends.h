/* SPDX-License-Identifier: BSD-3-Clause */
/* What is known of a kind of backend from the configuration alone: one row for each. How it is
 * opened is a row in bdev/backend.c. */
#ifndef RDT_BACKENDS_H
#define RDT_BACKENDS_H

#include <stdbool.h>

#include "keys.h"

struct rdt_backend_kind {
	/* It keeps blocks outside of this process: opening, measuring and closing may block. */
	bool storage;
	/* A file or block device of this machine, with I/O by an engine; named by the key path. */
	bool disk;
	bool ram; /* its blocks take memory of this process */
	/* Gateways serve it together: its identity is the same on all of them, and its lock depends
	 * on whether it is opened for writing. */
	bool gateways;
	/* The key that names the storage, in messages, and the mapping that has this key; NULL: the
	 * namespace. @another: what to use instead of the same storage. */
	const char *key, *in, *another;
	/* What @ns is on, as text that the caller frees; NULL: the keys do not say it. Returns 0 or
	 * -ENOMEM. NULL: backends of this kind are on nothing. */
	int (*storage_of)(const struct rdt_ns_config *ns, char **name);
};

const struct rdt_backend_kind *rdt_backend_kind(const struct rdt_ns_config *ns);

extern const struct rdt_choice rdt_backend_choices[]; /* the values of the key backend */

/* What they add to the keys of a namespace. */
extern const struct rdt_row rdt_disk_rows[]; /* file and block */
extern const struct rdt_row rdt_nbd_rows[];
extern const struct rdt_row rdt_rbd_rows[];
/* storage_of */
int rdt_nbd_storage(const struct rdt_ns_config *ns, char **name);
int rdt_rbd_storage(const struct rdt_ns_config *ns, char **name);

#endif /* RDT_BACKENDS_H */
