/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners: the addresses on which the target accepts connections. */
#ifndef RDT_LISTENER_H
#define RDT_LISTENER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "target/config/config.h"
#include "target/config/tgt_limits.h"

struct rd_fab;
struct rd_fab_listener;
struct rdt_listener_leave;
struct rdt_target;

/* Kinds of fabrics. A reactor has one fabric of each kind; the main loop has one of each verbs
 * kind, and one of iwarp for each set of socket options, which accepted sockets inherit. */
enum rdt_fab_kind {
	RDT_FAB_IWARP,
	/* From here on verbs, with a bit for each option below that is set. */
	RDT_FAB_VERBS,
	RDT_FABS = RDT_FAB_VERBS + 4,
};

#define RDT_FAB_NO_INV    1
#define RDT_FAB_NO_INLINE 2

/* An iwarp fabric of the main loop. Closed only at the end, because a reload may change the options
 * of a listener. */
struct rdt_iwarp_fab {
	SLIST_ENTRY(rdt_iwarp_fab) link;
	struct rd_fab *fab;
	char *congestion; /* or NULL */
	uint32_t sndbuf;
	uint32_t rcvbuf;
	bool crc;
};

/* Created and freed by the main thread, freed only when the target ends: controllers and queue
 * pairs point to it. Reactors read what the discovery log needs while it is shown. */
struct rdt_listener {
	struct rdt_target *target;
	TAILQ_ENTRY(rdt_listener) link; /* target->listeners, or old_listeners */
	const struct rdt_listener_config *cfg;
	struct rdt_config *cfg_of;    /* the configuration that contains @cfg; a reference */
	struct rd_fab_listener *lis;  /* NULL: not listening */
	struct sockaddr_storage addr; /* the bound address */
	enum rdt_fab_kind fab;
	const char *prtype; /* provider type of the discovery log; NULL: unknown */
	uint16_t portid;
	int wait_err;        /* the address is not there yet: the last -errno; main thread only */
	uint64_t wait_since; /* with @wait_err: of the first one, in ns */
	bool matched;        /* found in the new configuration of a reload */
	struct rdt_listener_leave *leave; /* prepared removal, or NULL */
	/* By group; written by the main thread. [0] of ana_changes counts all groups. */
	_Atomic uint8_t ana[RDT_ANA_GROUPS + 1]; /* enum nvme_ana_state, by group */
	_Atomic uint64_t ana_changes[RDT_ANA_GROUPS + 1];
};

#endif /* RDT_LISTENER_H */
