/* SPDX-License-Identifier: BSD-3-Clause */
/* Which path a command takes, and whether two paths lead to the same namespace. */
#ifndef RDI_PATH_POLICY_H
#define RDI_PATH_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rdi_policy {
	RDI_POLICY_ROUND_ROBIN, /* the next path after the last one */
	RDI_POLICY_QUEUE_DEPTH, /* the path with the fewest commands in flight */
	RDI_POLICY_FAILOVER,    /* the last path as long as no better one is there */
};

/* What the choice depends on. */
struct rdi_path_view {
	bool live;   /* its connections are up */
	uint8_t ana; /* enum nvme_ana_state of the namespace */
	unsigned int inflight;
};

/*
 * Choose among @n paths: optimized before non-optimized ones; no other ANA state is used. @last is
 * the result of the choice before, or -1. Returns the index, or -1 when no path can be used.
 */
int rdi_path_choose(enum rdi_policy policy, const struct rdi_path_view *paths, unsigned int n,
		    int last);

/* What tells a namespace from others; identifiers of zeroes are not there. */
struct rdi_ns_identity {
	uint8_t nguid[16];
	uint8_t uuid[16];
	uint8_t eui64[8];
	const char *subnqn;
	uint32_t nsid;
};

/* Take the identifiers from @len bytes of a Namespace Identification Descriptor list (CNS 03h).
 * Returns 0 or -EPROTO. */
int rdi_identity_take(struct rdi_ns_identity *id, const void *descs, size_t len);

enum rdi_identity_match {
	RDI_IDENTITY_SAME,
	RDI_IDENTITY_ASSUMED, /* no identifiers: the same NQN and NSID; worth a warning */
	RDI_IDENTITY_DIFFERENT,
};

enum rdi_identity_match rdi_identity_match(const struct rdi_ns_identity *a,
					   const struct rdi_ns_identity *b);

#endif /* RDI_PATH_POLICY_H */
