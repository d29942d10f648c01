/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connected hosts by name and by address, counted against the limits of the configuration. One
 * table for all reactors, used when a connection arrives, has its Connect and ends.
 *
 * An address is an IPv4 address or an IPv6 /64 prefix (with scope if link-local), because one owner
 * usually has all addresses of such a prefix. Many well-behaved hosts may share one address.
 */
#ifndef RDT_PEERS_H
#define RDT_PEERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "util/hash.h"
#include "util/loop.h"

struct rdt_peer;
struct rdt_qpair;
struct rdt_reactor;
struct rdt_source;
struct rdt_target;

#define RDT_PEER_BUCKETS 4096u

struct rdt_peers {
	struct rd_hash_key hash_key; /* set once */
	/* hashes the names of registrants; moves to the next process with them. Set before any
	 * command is served. */
	struct rd_hash_key names_key;
	pthread_mutex_t lock; /* guards the whole table; a leaf lock */
	LIST_HEAD(rdt_peer_bucket, rdt_peer) * buckets;
	unsigned int conns;
	unsigned int ctrls; /* admin queues after Connect */
};

/* The limit that refused a connection, for the log. */
struct rdt_peer_limit {
	const char *name; /* in target.limits; NULL: out of memory */
	uint32_t value;
};

int rdt_peers_init(struct rdt_target *target);
void rdt_peers_fini(struct rdt_target *target); /* no connection may be left */

/* A connection arrives. Returns 0 with the peer of its address in @out, -EBUSY with @limit set, or
 * -ENOMEM. */
int rdt_peer_come(struct rdt_target *target, const struct sockaddr *remote, struct rdt_peer **out,
		  struct rdt_peer_limit *limit);
/* the connection has ended; accepts NULL */
void rdt_peer_gone(struct rdt_target *target, struct rdt_peer *peer);
/* Connect: count @qp for its host, and an admin queue as a controller. Returns as rdt_peer_come().
 * @authenticated false: the host has to authenticate first; until then, connections with this host
 * name are counted separately for each address, so that they cannot use up the limits of the
 * host. */
int rdt_peer_join(struct rdt_qpair *qp, const char *hostnqn, bool authenticated,
		  struct rdt_peer_limit *limit);
/* Writes "target.limits.NAME (VALUE) is reached", or "out of memory". Returns @buf. */
#define RDT_PEER_LIMIT_TEXT 96
const char *rdt_peer_limit_text(const struct rdt_peer_limit *limit, char buf[RDT_PEER_LIMIT_TEXT]);
void rdt_peer_leave(struct rdt_qpair *qp); /* undoes rdt_peer_join(); may be repeated */

/* Writes the key of the address. Returns its length, or 0 if it is longer than @size. Any thread,
 * while one of its connections counts. */
size_t rdt_peer_key(const struct rdt_peer *peer, uint8_t *out, size_t size);
/* Writes the key of @qp's address. Returns its length, or 0 if it has none (tests) or it is longer
 * than @size. Any thread that may use @qp. */
size_t rdt_peer_address(const struct rdt_qpair *qp, uint8_t *out, size_t size);
/* Returns the source of @qp's address on its reactor. Connections without an address (tests) share
 * one source. */
struct rdt_source *rdt_peer_source(const struct rdt_qpair *qp);
/* the same for the address @peer; valid while one of its connections counts */
struct rdt_source *rdt_peer_source_on(struct rdt_peer *peer, const struct rdt_reactor *r);
/* Returns a keyed hash of a name, identifier or address that a peer has chosen. Without the key, a
 * peer cannot find values with equal hashes. */
uint32_t rdt_peer_hash(const struct rdt_target *target, const void *key, size_t len);
/* Returns the hash of the name of a registrant; not 0. */
uint32_t rdt_peer_name_hash(const struct rdt_target *target, const char *name);

/* Unassociated connections: those without a Connect, or that have not authenticated although they
 * have to. They are cheap to make, so their number on a reactor is limited: a new one ends the
 * oldest one, preferably of its own address. */

unsigned int rdt_unassoc_max(const struct rdt_reactor *r);
/* Returns whether the address has so many of them that the next one ends one of them. */
bool rdt_unassoc_crowded(const struct rdt_reactor *r, const struct rdt_source *source);
void rdt_unassoc_add(struct rdt_qpair *qp); /* may end other connections, but not @qp */
/* the connection is in use, or closes; may be repeated */
void rdt_unassoc_remove(struct rdt_qpair *qp);

/* Hosts that recently failed to transfer their data in time, by name and address, in a table of
 * fixed size. They are remembered after their connections have ended, so that a host that stalls,
 * loses its connection and reconnects does not count as a new one. One table for each reactor. */

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

/* Records that the host of @qp with name @hostnqn was late. Without memory it is not recorded. */
void rdt_staller_note(const struct rdt_qpair *qp, const char *hostnqn);
bool rdt_staller_known(const struct rdt_qpair *qp, const char *hostnqn);
void rdt_stallers_fini(struct rdt_stallers *stallers);

#endif /* RDT_PEERS_H */
