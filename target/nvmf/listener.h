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

struct rdt_listener_leave;
struct rdt_target;
struct rdt_transport;

/* Created and freed by the main thread, freed only when the target ends: controllers and queue
 * pairs point to it. Reactors read what the discovery log needs while it is shown. */
struct rdt_listener {
	struct rdt_target *target;
	TAILQ_ENTRY(rdt_listener) link; /* target->listeners, or old_listeners */
	const struct rdt_listener_config *cfg;
	struct rdt_config *cfg_of; /* the configuration that contains @cfg; a reference */
	const struct rdt_transport *transport;
	void *state;                  /* the transport's */
	bool listening;               /* written by the transport, as @addr is */
	struct sockaddr_storage addr; /* the bound address */
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
