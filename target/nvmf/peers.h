/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connected hosts by name and by address, counted against the limits of the configuration. One
 * table for all reactors, used when a connection arrives, has its Connect and ends.
 *
 * An address is an IPv4 address or an IPv6 /64 prefix (with scope if link-local), because one owner
 * has all addresses of such a prefix. Many honest hosts may be behind one address.
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
	/* Of the names of registrants, which move to the next process with it. Set before any
	 * command is served. */
	struct rd_hash_key names_key;
	pthread_mutex_t lock; /* guards all of this; a leaf lock */
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
void rdt_peers_fini(struct rdt_target *target); /* no connection is left */

/* A connection arrives. Returns 0 with the peer of its address in @out, -EBUSY with @limit set, or
 * -ENOMEM. */
int rdt_peer_come(struct rdt_target *target, const struct sockaddr *remote, struct rdt_peer **out,
		  struct rdt_peer_limit *limit);
/* the connection has ended; accepts NULL */
void rdt_peer_gone(struct rdt_target *target, struct rdt_peer *peer);
/*
 * Connect: count @qp for its host, and an admin queue as a controller. Returns as rdt_peer_come().
 * @proven false: the host has to authenticate first; until then all connections with this host name
 * from its address are counted separately, so that they cannot use up the limits of the host.
 */
int rdt_peer_join(struct rdt_qpair *qp, const char *hostnqn, bool proven,
		  struct rdt_peer_limit *limit);
/* Writes "target.limits.NAME (VALUE) is reached", or that memory is missing. Returns @buf. */
#define RDT_PEER_LIMIT_TEXT 96
const char *rdt_peer_limit_text(const struct rdt_peer_limit *limit, char buf[RDT_PEER_LIMIT_TEXT]);
void rdt_peer_leave(struct rdt_qpair *qp); /* undoes rdt_peer_join(); may be repeated */

/* Writes what identifies the address. Returns its length; 0: it is longer than @size. Any thread,
 * while one of its connections counts. */
size_t rdt_peer_key(const struct rdt_peer *peer, uint8_t *out, size_t size);
/* Writes what identifies the address of @qp. Returns its length; 0: it has none (tests), or it is
 * longer than @size. Any thread that may use @qp. */
size_t rdt_peer_address(const struct rdt_qpair *qp, uint8_t *out, size_t size);
/* The source of its address on its reactor. Connections without an address (tests) share one
 * source. */
struct rdt_source *rdt_peer_source(const struct rdt_qpair *qp);
/* of an address; valid while one of its connections counts */
struct rdt_source *rdt_peer_source_on(struct rdt_peer *peer, const struct rdt_reactor *r);
/* Of a name, identifier or address that a peer has chosen: no peer can make many that are in one
 * list of a table, or find one that counts as another. */
uint32_t rdt_peer_hash(const struct rdt_target *target, const void *key, size_t len);
/* Of the name of a registrant; not 0. */
uint32_t rdt_peer_name_hash(const struct rdt_target *target, const char *name);

/* Connections without a Connect, or without the authentication that it asked for. They are cheap to
 * make, so their number on a reactor is bounded: a new one ends the oldest one, preferably of its
 * own address. */

unsigned int rdt_unassoc_max(const struct rdt_reactor *r);
/* Has the address so many of them that the next one ends one of them? */
bool rdt_unassoc_crowded(const struct rdt_reactor *r, const struct rdt_source *source);
void rdt_unassoc_add(struct rdt_qpair *qp); /* may end other connections, but not @qp */
/* the connection is in use, or closes; may be repeated */
void rdt_unassoc_remove(struct rdt_qpair *qp);

/*
 * Hosts that did not transfer their data lately, by name and address, in a table of a fixed size:
 * they are remembered after their connections have ended, so that a host that stalls, loses its
 * connection and connects again does not pass for a new one. Of one reactor.
 */

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

#endif /* RDT_PEERS_H */
