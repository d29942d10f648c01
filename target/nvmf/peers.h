/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is connected: hosts by name and by address, counted against the limits of the configuration.
 * One table for all reactors, which is touched when a connection comes, has its Connect, or goes.
 *
 * An address is an IPv4 address, or the /64 of an IPv6 one (with its scope, where it is
 * link-local): whoever has one address of that has them all. Behind one there may be many honest
 * hosts.
 */
#ifndef RDT_PEERS_H
#define RDT_PEERS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

struct rdt_peer;
struct rdt_qpair;
struct rdt_site;
struct rdt_target;

#define RDT_PEER_BUCKETS 4096u

struct rdt_peers {
	pthread_mutex_t lock; /* all of this; none other is taken inside */
	LIST_HEAD(rdt_peer_bucket, rdt_peer) * buckets;
	unsigned int conns;
	unsigned int ctrls; /* admin queues after Connect */
};

/* What was refused, for the log. */
struct rdt_peer_limit {
	const char *name; /* in target.limits; NULL: out of memory */
	uint32_t value;
};

int rdt_peers_init(struct rdt_target *target);
void rdt_peers_fini(struct rdt_target *target); /* no connection is left */

/* A connection comes. Returns 0 with its address in @out, -EBUSY with @limit, or -ENOMEM. */
int rdt_peer_come(struct rdt_target *target, const struct sockaddr *remote, struct rdt_peer **out,
		  struct rdt_peer_limit *limit);
void rdt_peer_gone(struct rdt_target *target, struct rdt_peer *peer); /* NULL is fine */
/* Connect: from now on @qp counts for its host, an admin queue as a controller. As above. */
int rdt_peer_join(struct rdt_qpair *qp, const char *hostnqn, struct rdt_peer_limit *limit);
void rdt_peer_leave(struct rdt_qpair *qp); /* the reverse. Idempotent */

/* Its address on its reactor. One for all connections without one, as in tests. */
struct rdt_site *rdt_peer_site(const struct rdt_qpair *qp);
uint32_t rdt_peer_hash(const void *key, size_t len);

#endif /* RDT_PEERS_H */
