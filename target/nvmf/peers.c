/* SPDX-License-Identifier: BSD-3-Clause */
#include "peers.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/wire.h"
#include "target/config/config.h"
#include "pool.h"
#include "qpair.h"
#include "reactor.h"
#include "target.h"

/* An address or a host NQN. Freed with its last connection. */
struct rdt_peer {
	LIST_ENTRY(rdt_peer) link;
	unsigned int conns;
	unsigned int ctrls;
	struct rdt_site *sites; /* [reactors], for an address only */
	size_t len;
	uint8_t key[];
};

/* The key of an address; cannot be equal to an NQN. */
struct address {
	uint16_t family;
	uint16_t zero;
	uint32_t scope;
	uint64_t net;
};

uint32_t rdt_peer_hash(const void *key, size_t len)
{
	const uint8_t *byte = key;
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ byte[i]) * 16777619u;
	return hash;
}

static struct address address_of(const struct sockaddr *sa)
{
	const struct sockaddr_in6 *in6 = (const void *)sa;
	struct address a = {.family = sa->sa_family};

	if (sa->sa_family == AF_INET) {
		a.net = ((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr;
	} else if (sa->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
		a.family = AF_INET;
		a.net = in6->sin6_addr.s6_addr32[3];
	} else if (sa->sa_family == AF_INET6) {
		memcpy(&a.net, &in6->sin6_addr, sizeof(a.net));
		if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
			a.scope = in6->sin6_scope_id;
	}
	return a;
}

static struct rdt_peer_bucket *peer_bucket(struct rdt_peers *peers, const void *key, size_t len)
{
	return &peers->buckets[rdt_peer_hash(key, len) % RDT_PEER_BUCKETS];
}

/* Returns a peer without connections; NULL without memory. */
static struct rdt_peer *make_peer(struct rdt_target *t, const void *key, size_t len, bool sites)
{
	struct rdt_peer *peer = calloc(1, sizeof(*peer) + len);

	if (!peer)
		return NULL;
	peer->len = len;
	memcpy(peer->key, key, len);
	if (sites) {
		peer->sites = calloc(t->reactors_count, sizeof(*peer->sites));
		if (!peer->sites) {
			free(peer);
			return NULL;
		}
		for (unsigned int i = 0; i < t->reactors_count; i++)
			TAILQ_INIT(&peer->sites[i].fresh);
	}
	LIST_INSERT_HEAD(peer_bucket(&t->peers, key, len), peer, link);
	return peer;
}

static struct rdt_peer *find_peer(struct rdt_target *t, const void *key, size_t len, bool sites)
{
	struct rdt_peer *peer;

	LIST_FOREACH (peer, peer_bucket(&t->peers, key, len), link)
		if (peer->len == len && memcmp(peer->key, key, len) == 0)
			return peer;
	return make_peer(t, key, len, sites);
}

static void free_unused(struct rdt_peer *peer)
{
	if (peer->conns)
		return;
	LIST_REMOVE(peer, link);
	free(peer->sites);
	free(peer);
}

static bool limit_reached(unsigned int count, uint32_t max, const char *name,
			  struct rdt_peer_limit *limit)
{
	if (count < max)
		return false;
	*limit = (struct rdt_peer_limit){name, max};
	return true;
}

int rdt_peer_come(struct rdt_target *t, const struct sockaddr *remote, struct rdt_peer **out,
		  struct rdt_peer_limit *limit)
{
	const struct rdt_limits_config *max = &t->cfg->target.limits;
	struct address key = address_of(remote);
	struct rdt_peer *peer;
	int err = -EBUSY;

	*limit = (struct rdt_peer_limit){0};
	pthread_mutex_lock(&t->peers.lock);
	peer = find_peer(t, &key, sizeof(key), true);
	if (!peer) {
		err = -ENOMEM;
	} else if (!limit_reached(t->peers.conns, max->connections, "connections", limit) &&
		   !limit_reached(peer->conns, max->connections_per_address,
				  "connections_per_address", limit)) {
		peer->conns++;
		t->peers.conns++;
		*out = peer;
		err = 0;
	} else {
		free_unused(peer);
	}
	pthread_mutex_unlock(&t->peers.lock);
	return err;
}

void rdt_peer_gone(struct rdt_target *t, struct rdt_peer *peer)
{
	if (!peer)
		return;
	pthread_mutex_lock(&t->peers.lock);
	peer->conns--;
	t->peers.conns--;
	free_unused(peer);
	pthread_mutex_unlock(&t->peers.lock);
}

/* Do the limits allow one more controller of @host from @addr (NULL in tests)? */
static bool may_add_ctrl(const struct rdt_target *t, const struct rdt_peer *host,
			 const struct rdt_peer *addr, struct rdt_peer_limit *limit)
{
	const struct rdt_limits_config *max = &t->cfg->target.limits;

	return !limit_reached(t->peers.ctrls, max->controllers, "controllers", limit) &&
	       !limit_reached(host->ctrls, max->controllers_per_host, "controllers_per_host",
			      limit) &&
	       !(addr && limit_reached(addr->ctrls, max->controllers_per_address,
				       "controllers_per_address", limit));
}

static void count_ctrl(struct rdt_target *t, const struct rdt_qpair *qp, unsigned int n)
{
	if (!qp->admin)
		return;
	t->peers.ctrls += n;
	qp->host->ctrls += n;
	if (qp->peer)
		qp->peer->ctrls += n;
}

const char *rdt_peer_limit_text(const struct rdt_peer_limit *limit, char buf[RDT_PEER_LIMIT_TEXT])
{
	if (limit->name)
		snprintf(buf, RDT_PEER_LIMIT_TEXT, "target.limits.%s (%u) is reached", limit->name,
			 limit->value);
	else
		snprintf(buf, RDT_PEER_LIMIT_TEXT, "out of memory");
	return buf;
}

#define HOST_KEY_MAX (1 + sizeof(struct address) + NVMF_NQN_MAX)

/* Returns the length of @key. Until a name is proven it has an own count for each address, so that
 * others do not use up what the host needs for its Connect. No NQN and no address begins with 1. */
static size_t host_key(const struct rdt_qpair *qp, const char *hostnqn, bool proven,
		       uint8_t key[HOST_KEY_MAX])
{
	size_t nqn = strlen(hostnqn), len = 0;

	if (!proven) {
		key[len++] = 1;
		len += rdt_peer_address(qp, key + len, sizeof(struct address));
	}
	memcpy(key + len, hostnqn, nqn);
	return len + nqn;
}

int rdt_peer_join(struct rdt_qpair *qp, const char *hostnqn, bool proven,
		  struct rdt_peer_limit *limit)
{
	struct rdt_target *t = qp->reactor->target;
	uint8_t key[HOST_KEY_MAX];
	size_t len = host_key(qp, hostnqn, proven, key);
	struct rdt_peer *host;
	int err = -EBUSY;

	*limit = (struct rdt_peer_limit){0};
	pthread_mutex_lock(&t->peers.lock);
	host = find_peer(t, key, len, false);
	if (!host) {
		err = -ENOMEM;
	} else if (!limit_reached(host->conns, t->cfg->target.limits.connections_per_host,
				  "connections_per_host", limit) &&
		   (!qp->admin || may_add_ctrl(t, host, qp->peer, limit))) {
		qp->host = host;
		host->conns++;
		count_ctrl(t, qp, 1);
		err = 0;
	} else {
		free_unused(host);
	}
	pthread_mutex_unlock(&t->peers.lock);
	return err;
}

void rdt_peer_leave(struct rdt_qpair *qp)
{
	struct rdt_target *t = qp->reactor->target;

	if (!qp->host)
		return;
	pthread_mutex_lock(&t->peers.lock);
	count_ctrl(t, qp, (unsigned int)-1);
	qp->host->conns--;
	free_unused(qp->host);
	qp->host = NULL;
	pthread_mutex_unlock(&t->peers.lock);
}

size_t rdt_peer_address(const struct rdt_qpair *qp, uint8_t *out, size_t size)
{
	return qp->peer ? rdt_peer_key(qp->peer, out, size) : 0;
}

size_t rdt_peer_key(const struct rdt_peer *peer, uint8_t *out, size_t size)
{
	if (peer->len > size)
		return 0;
	memcpy(out, peer->key, peer->len);
	return peer->len;
}

struct rdt_site *rdt_peer_site(const struct rdt_qpair *qp)
{
	return qp->peer ? rdt_peer_site_on(qp->peer, qp->reactor) : &qp->reactor->nowhere;
}

struct rdt_site *rdt_peer_site_on(struct rdt_peer *peer, const struct rdt_reactor *r)
{
	return &peer->sites[r->index];
}

int rdt_peers_init(struct rdt_target *t)
{
	t->peers.buckets = calloc(RDT_PEER_BUCKETS, sizeof(*t->peers.buckets));
	if (!t->peers.buckets)
		return -ENOMEM;
	pthread_mutex_init(&t->peers.lock, NULL);
	return 0;
}

void rdt_peers_fini(struct rdt_target *t)
{
	if (!t->peers.buckets)
		return;
	pthread_mutex_destroy(&t->peers.lock);
	free(t->peers.buckets);
	t->peers.buckets = NULL;
}
