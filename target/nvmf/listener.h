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

/* Used by the main thread. */
enum rdt_listener_phase {
	/* new, removed, or the target ends. Created -> LISTENING or FAILED */
	RDT_LISTENER_CLOSED,
	RDT_LISTENER_LISTENING, /* removed -> CLOSED */
	/* cannot listen: @why. Retried every second -> LISTENING; removed -> CLOSED */
	RDT_LISTENER_FAILED,
};

/* Created and freed by the main thread, freed only when the target ends: controllers and queue
 * pairs point to it. Reactors read what the discovery log needs while it is shown. */
struct rdt_listener {
	struct rdt_target *target;
	TAILQ_ENTRY(rdt_listener) link;        /* target->listeners, or old_listeners */
	const struct rdt_listener_config *cfg; /* main thread */
	struct rdt_config *cfg_of; /* the configuration that contains @cfg; a reference */
	const struct rdt_transport *transport;
	void *state;    /* private state of the transport */
	bool listening; /* written by the transport, like @addr */
	/* A listening socket inherited from another process: listen() uses it, and owns it when it
	 * succeeds. -1: listen() creates one */
	int inherited_fd;
	struct sockaddr_storage addr; /* LISTENING: the bound address; otherwise of no family */
	/* the address of a replaced listener with other options, whose port it keeps; or with
	 * family unset */
	struct sockaddr_storage at;
	uint16_t portid;
	/* from the configuration; read by any thread */
	_Atomic uint32_t send_buffer_bytes;
	_Atomic uint8_t tls; /* enum rdt_tls_setting */
	atomic_bool passed;  /* removed: no reactor accepts its connections any more */
	/* The fields below belong to the main thread. */
	enum rdt_listener_phase phase;
	uint64_t since;                   /* when @phase began: ns */
	char why[384];                    /* FAILED: a sentence */
	bool matched;                     /* found in the new configuration */
	struct rdt_listener_leave *leave; /* memory for its removal */
	/* ANA states by group, written by the main thread. ana_changes[0] counts changes of all
	 * groups. */
	_Atomic uint8_t ana[RDT_ANA_GROUPS + 1]; /* enum nvme_ana_state, by group */
	_Atomic uint64_t ana_changes[RDT_ANA_GROUPS + 1];
};

/* ---- for transports ---- */

/* Returns rdt_qpair.unproven for its connections, in bytes. */
uint32_t rdt_listener_unproven(const struct rdt_listener *l);
/* Returns the TCP congestion control algorithm of its connections; NULL: the system's default. */
const char *rdt_listener_congestion(const struct rdt_listener *l);
/* Determines the address to listen on: @addr or, if that is NULL, the configured one. Returns 0, or
 * -errno with a sentence in @text. */
int rdt_listener_address(const struct rdt_listener *l, const struct sockaddr *addr,
			 struct sockaddr_storage *out, char *text, size_t size);
/* Returns true, with a sentence in @text, if @err came from setting @congestion, which may be
 * NULL. */
bool rdt_listener_bad_congestion(const char *congestion, int err, char *text, size_t size);
/* Returns advice for the error @err of binding an address, as "; ...", or "". */
const char *rdt_listen_advice(int err);
/* Writes a sentence to @text that says that it cannot listen because of @err. */
void rdt_listener_cannot(const struct rdt_listener *l, int err, char *text, size_t size);
/* Records that it listens on @addr. */
void rdt_listener_bound(struct rdt_listener *l, const struct sockaddr_storage *addr);

#endif /* RDT_LISTENER_H */
