/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the path of a command, and compares the namespaces of two paths. */
#ifndef RDI_PATH_POLICY_H
#define RDI_PATH_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rdi_policy {
	RDI_POLICY_ROUND_ROBIN, /* the next path after the last one */
	RDI_POLICY_QUEUE_DEPTH, /* the path with the fewest commands in flight */
	RDI_POLICY_FAILOVER,    /* the last path, until a better one is usable */
};

/* The properties of a path that the choice depends on. */
struct rdi_path_view {
	bool live;   /* its connections are up */
	uint8_t ana; /* enum nvme_ana_state of the namespace */
	unsigned int inflight;
	bool silent; /* it has answered no command lately */
};

/*
 * Chooses among @n paths: those that answer before those that are silent, then optimized before
 * non-optimized; paths in other ANA states are not used.
 * @last: the previous result, or -1. Returns the index, or -1 when no path can be used.
 */
int rdi_path_choose(enum rdi_policy policy, const struct rdi_path_view *paths, unsigned int n,
		    int last);

/* The identifiers of a namespace; all zeroes: absent. */
struct rdi_ns_identity {
	uint8_t nguid[16];
	uint8_t uuid[16];
	uint8_t eui64[8];
	const char *subnqn;
	uint32_t nsid;
};

/* Takes the identifiers from @len bytes of a Namespace Identification Descriptor list (CNS 03h).
 * Returns 0 or -EPROTO. */
int rdi_identity_take(struct rdi_ns_identity *id, const void *descs, size_t len);

enum rdi_identity_match {
	RDI_IDENTITY_SAME,
	/* same NQN and NSID without identifiers to compare; worth a warning */
	RDI_IDENTITY_ASSUMED,
	RDI_IDENTITY_DIFFERENT,
};

enum rdi_identity_match rdi_identity_match(const struct rdi_ns_identity *a,
					   const struct rdi_ns_identity *b);

#endif /* RDI_PATH_POLICY_H */
