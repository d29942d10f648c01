/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts that did not transfer their data lately, by name and address, in a table of a fixed size:
 * they are remembered after their connections have ended, so that a host that stalls, loses its
 * connection and connects again does not pass for a new one. Of one reactor.
 */
#ifndef RDT_STALLERS_H
#define RDT_STALLERS_H

#include <stdbool.h>
#include <stdint.h>

#include "util/loop.h"

struct rdt_qpair;

#define RDT_STALLER_SETS 1024u
#define RDT_STALLER_WAYS 4u
#define RDT_STALLER_NS   (60 * RD_NSEC_PER_SEC)

struct rdt_staller {
	uint64_t key;   /* 0: none */
	uint64_t until; /* ns */
};

struct rdt_stallers {
	struct rdt_staller (*table)[RDT_STALLER_WAYS]; /* [RDT_STALLER_SETS]; NULL: none so far */
};

/* The host of @qp with name @hostnqn was late. Without memory it is not remembered. */
void rdt_staller_note(const struct rdt_qpair *qp, const char *hostnqn);
bool rdt_staller_known(const struct rdt_qpair *qp, const char *hostnqn);
void rdt_stallers_fini(struct rdt_stallers *stallers);

#endif /* RDT_STALLERS_H */
