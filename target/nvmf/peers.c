/* SPDX-License-Identifier: BSD-3-Clause */
#include "peers.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/text.h"
#include "nvmf/wire.h"
#include "util/log.h"
#include "util/loop.h"
#include "util/sockaddr.h"
#include "target/config/config.h"
#include "pool.h"
#include "qpair.h"
#include "reactor.h"
#include "target.h"

/* A peer is an address or a host NQN. Freed with its last connection. */
struct rdt_peer {
	LIST_ENTRY(rdt_peer) link;
	unsigned int conns;
	unsigned int ctrls;
	struct rdt_source *sources; /* [reactors], for an address only */
	size_t len;
	uint8_t key[];
};

/* The key of an address; differs from every NQN. */
struct address {
	uint16_t family;
	uint16_t zero;
	uint32_t scope;
	uint64_t net;
};

uint32_t rdt_peer_hash(const struct rdt_target *t, const void *key, size_t len)
{
	return (uint32_t)rd_hash(&t->peers.hash_key, key, len);
}

uint32_t rdt_peer_name_hash(const struct rdt_target *t, const char *name)
{
	return (uint32_t)rd_hash(&t->peers.names_key, name, strlen(name)) | 1;
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

static struct rdt_peer_bucket *peer_bucket(struct rdt_target *t, const void *key, size_t len)
{
	return &t->peers.buckets[rdt_peer_hash(t, key, len) % RDT_PEER_BUCKETS];
}

/* Returns a new peer without connections, or NULL without memory. */
static struct rdt_peer *make_peer(struct rdt_target *t, const void *key, size_t len, bool sources)
{
	struct rdt_peer *peer = calloc(1, sizeof(*peer) + len);

	if (!peer)
		return NULL;
	peer->len = len;
	memcpy(peer->key, key, len);
	if (sources) {
		peer->sources = calloc(t->reactors_count, sizeof(*peer->sources));
		if (!peer->sources) {
			free(peer);
			return NULL;
		}
		for (unsigned int i = 0; i < t->reactors_count; i++)
			TAILQ_INIT(&peer->sources[i].unassoc);
	}
	LIST_INSERT_HEAD(peer_bucket(t, key, len), peer, link);
	return peer;
}

static struct rdt_peer *find_peer(struct rdt_target *t, const void *key, size_t len, bool sources)
{
	struct rdt_peer *peer;

	LIST_FOREACH (peer, peer_bucket(t, key, len), link)
		if (peer->len == len && memcmp(peer->key, key, len) == 0)
			return peer;
	return make_peer(t, key, len, sources);
}

static void free_unused(struct rdt_peer *peer)
{
	if (peer->conns)
		return;
	LIST_REMOVE(peer, link);
	free(peer->sources);
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

/* Returns whether the limits allow one more controller of @host from @addr (NULL in tests). */
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

/* Returns the length of @key. Until a host has authenticated, its name is counted separately for
 * each address, so that others cannot use up the limits that the host needs for its Connect. No NQN
 * and no address begins with 1. */
static size_t host_key(const struct rdt_qpair *qp, const char *hostnqn, bool authenticated,
		       uint8_t key[HOST_KEY_MAX])
{
	size_t nqn = strlen(hostnqn), len = 0;

	if (!authenticated) {
		key[len++] = 1;
		len += rdt_peer_address(qp, key + len, sizeof(struct address));
	}
	memcpy(key + len, hostnqn, nqn);
	return len + nqn;
}

int rdt_peer_join(struct rdt_qpair *qp, const char *hostnqn, bool authenticated,
		  struct rdt_peer_limit *limit)
{
	struct rdt_target *t = qp->reactor->target;
	uint8_t key[HOST_KEY_MAX];
	size_t len = host_key(qp, hostnqn, authenticated, key);
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

struct rdt_source *rdt_peer_source(const struct rdt_qpair *qp)
{
	return qp->peer ? rdt_peer_source_on(qp->peer, qp->reactor) : &qp->reactor->nowhere;
}

struct rdt_source *rdt_peer_source_on(struct rdt_peer *peer, const struct rdt_reactor *r)
{
	return &peer->sources[r->index];
}

int rdt_peers_init(struct rdt_target *t)
{
	int err = 0;

	if (t->env->seed)
		t->peers.hash_key = (struct rd_hash_key){{t->env->seed, 0}};
	else
		err = rd_hash_key_init(&t->peers.hash_key);
	if (err)
		return err;
	t->peers.names_key = t->peers.hash_key;
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

#define LEAST 16u

/* Returns the part of a limit that one reactor may use. */
static unsigned int reactor_part(const struct rdt_reactor *r, uint32_t limit)
{
	unsigned int n = limit / r->target->cfg->target.reactors;

	return n > LEAST ? n : LEAST;
}

unsigned int rdt_unassoc_max(const struct rdt_reactor *r)
{
	return reactor_part(r, r->target->cfg->target.limits.unconnected);
}

static unsigned int most_of_address(const struct rdt_reactor *r)
{
	return reactor_part(r, r->target->cfg->target.limits.unconnected_per_address);
}

bool rdt_unassoc_crowded(const struct rdt_reactor *r, const struct rdt_source *source)
{
	return source->unassoc_count >= most_of_address(r) ||
	       (r->unassoc_count >= rdt_unassoc_max(r) &&
		source->unassoc_count > r->unassoc_count / 4);
}

/* Returns the connection to end, or NULL. */
static struct rdt_qpair *choose_victim(const struct rdt_reactor *r, const struct rdt_source *source)
{
	bool full = r->unassoc_count > rdt_unassoc_max(r);

	if (source->unassoc_count > most_of_address(r) ||
	    (full && source->unassoc_count > r->unassoc_count / 4))
		return TAILQ_FIRST(&source->unassoc);
	return full ? TAILQ_FIRST(&r->unassoc) : NULL;
}

void rdt_unassoc_add(struct rdt_qpair *qp)
{
	struct rdt_reactor *r = qp->reactor;
	struct rdt_source *source = rdt_peer_source(qp);
	struct rdt_qpair *old;
	char addr[RD_ADDR_TEXT];

	TAILQ_INSERT_TAIL(&r->unassoc, qp, unassoc_link);
	TAILQ_INSERT_TAIL(&source->unassoc, qp, source_link);
	qp->unassoc = true;
	r->unassoc_count++;
	source->unassoc_count++;
	old = choose_victim(r, source);
	if (!old)
		return;
	rd_log_limited(
		&r->unassoc_limit, rd_loop_now(r->loop), r->log, RD_LOG_QPAIR, RD_LOG_NOTICE,
		"reactor %u has %u connections without a Connect or its authentication, %u of "
		"them from one address (target.limits.unconnected, "
		"unconnected_per_address): ending the oldest one, from %s",
		r->index, r->unassoc_count, source->unassoc_count,
		rd_addr_format((struct sockaddr *)&old->remote, addr));
	rdt_qpair_end(old, RDT_END_NO_CONNECT,
		      "too many connections without a Connect or its authentication");
}

void rdt_unassoc_remove(struct rdt_qpair *qp)
{
	struct rdt_source *source = rdt_peer_source(qp);

	if (!qp->unassoc)
		return;
	qp->unassoc = false;
	TAILQ_REMOVE(&qp->reactor->unassoc, qp, unassoc_link);
	TAILQ_REMOVE(&source->unassoc, qp, source_link);
	qp->reactor->unassoc_count--;
	source->unassoc_count--;
}

#define ADDRESS_MAX 32u

static uint64_t staller_key(const struct rdt_qpair *qp, const char *hostnqn)
{
	uint8_t text[ADDRESS_MAX + NVMF_NQN_MAX];
	size_t len = rdt_peer_address(qp, text, ADDRESS_MAX), nqn = strlen(hostnqn);

	memcpy(text + len, hostnqn, nqn);
	return rd_hash(&qp->reactor->target->peers.hash_key, text, len + nqn) | 1;
}

void rdt_staller_note(const struct rdt_qpair *qp, const char *hostnqn)
{
	struct rdt_stallers *s = &qp->reactor->stallers;
	uint64_t key = staller_key(qp, hostnqn);
	struct rdt_staller *e, *set;

	if (!s->table)
		s->table = calloc(RDT_STALLER_SETS, sizeof(*s->table));
	if (!s->table)
		return;
	set = e = s->table[(key >> 32) % RDT_STALLER_SETS];
	for (unsigned int i = 0; i < RDT_STALLER_WAYS; i++) {
		if (set[i].key == key) {
			e = &set[i];
			break;
		}
		if (set[i].until < e->until)
			e = &set[i];
	}
	*e = (struct rdt_staller){key, rd_loop_now(qp->reactor->loop) + RDT_STALLER_NS};
}

bool rdt_staller_known(const struct rdt_qpair *qp, const char *hostnqn)
{
	const struct rdt_stallers *s = &qp->reactor->stallers;
	uint64_t key, now = rd_loop_now(qp->reactor->loop);

	if (!s->table)
		return false;
	key = staller_key(qp, hostnqn);
	for (unsigned int i = 0; i < RDT_STALLER_WAYS; i++) {
		const struct rdt_staller *e = &s->table[(key >> 32) % RDT_STALLER_SETS][i];

		if (e->key == key && e->until > now)
			return true;
	}
	return false;
}

void rdt_stallers_fini(struct rdt_stallers *s)
{
	free(s->table);
	s->table = NULL;
}
