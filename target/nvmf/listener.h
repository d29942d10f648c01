/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses at which the target listens. */
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

/* What serves a listener. Reactors have one of a kind, as the main loop has of verbs; of iwarp it
 * has one for each set of options, which the sockets of a listener keep when they are accepted. */
enum rdt_fab_kind {
	RDT_FAB_IWARP,
	/* From here on verbs, and which of the options below are set. */
	RDT_FAB_VERBS,
	RDT_FABS = RDT_FAB_VERBS + 4,
};

#define RDT_FAB_NO_INV    1
#define RDT_FAB_NO_INLINE 2

/* Of the main loop, and closed at the end: a reload may change a listener's options at any time. */
struct rdt_iwarp_fab {
	SLIST_ENTRY(rdt_iwarp_fab) link;
	struct rd_fab *fab;
	char *congestion; /* or NULL */
	uint32_t sndbuf;
	uint32_t rcvbuf;
	bool crc;
};

/* Made and freed by the main thread, and not freed before the target ends: controllers and queue
 * pairs point to it. While it is shown, reactors read what the discovery log needs. */
struct rdt_listener {
	struct rdt_target *target;
	TAILQ_ENTRY(rdt_listener) link; /* target->listeners, or old_listeners */
	const struct rdt_listener_config *cfg;
	struct rdt_config *cfg_of;    /* the configuration @cfg is in, with a reference */
	struct rd_fab_listener *lis;  /* NULL: it does not listen */
	struct sockaddr_storage addr; /* as bound */
	enum rdt_fab_kind fab;
	const char *prtype; /* NULL: not known */
	uint16_t portid;
	bool matched;                     /* by the configuration that a reload looks at */
	struct rdt_listener_leave *leave; /* its removal is being prepared */
	/* By group; written by the main thread. [0] of the changes: all of them. */
	_Atomic uint8_t ana[RDT_ANA_GROUPS + 1]; /* enum nvme_ana_state; 0: optimized */
	_Atomic uint64_t ana_changes[RDT_ANA_GROUPS + 1];
};

#endif /* RDT_LISTENER_H */
