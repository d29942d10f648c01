/* SPDX-License-Identifier: BSD-3-Clause */
#include "auth_guess.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/rand.h>

#include "util/loop.h"
#include "nvmf/auth_calc.h"
#include "nvmf/text.h"
#include "auth_work.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/host_ids.h"
#include "target/nvmf/peers.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/target.h"

/* The limits for a host and for an address; many hosts may share one address. */
#define OF_HOST    RDT_GUESS_OF_HOST
#define OF_ADDRESS RDT_GUESS_OF_ADDRESS
#define SCOPES     RDT_GUESS_SCOPES
static const struct {
	uint64_t cost;  /* a failure is forgotten after this time, in ns */
	uint64_t burst; /* number of failures in a burst */
} limits[SCOPES] = {
	[OF_HOST] = {6 * RD_NSEC_PER_SEC, 10},
	[OF_ADDRESS] = {600 * RD_NSEC_PER_MSEC, 100},
};

/* After this time without a failure, a host is not delayed because of failures of other names at
 * its address. */
#define REST    (60 * RD_NSEC_PER_SEC)

#define KEY_MAX (64 + NVMF_NQN_MAX + 1 + 16)

int rdt_guesses_init(struct rdt_guesses *g)
{
	pthread_mutex_init(&g->lock, NULL);
	return RAND_bytes(g->seed, sizeof(g->seed)) == 1 ? 0 : -EIO;
}

void rdt_guesses_fini(struct rdt_guesses *g)
{
	pthread_mutex_destroy(&g->lock);
	free(g->table);
	g->table = NULL;
}

/* A Host Identifier with which the name has authenticated has its own count, because others who
 * know only the name would use up the shared one. */
static size_t put_own_id(const struct rdt_ctrl *ctrl, uint8_t *text)
{
	bool own;

	pthread_mutex_lock(&ctrl->subsys->lock);
	own = rdt_host_id_is_own(ctrl->subsys, ctrl);
	pthread_mutex_unlock(&ctrl->subsys->lock);
	if (!own)
		return 0;
	text[0] = 0; /* follows the name */
	memcpy(text + 1, ctrl->hostid, sizeof(ctrl->hostid));
	return 1 + sizeof(ctrl->hostid);
}

/* Returns a key that hosts cannot predict, so that they cannot displace the entries of others on
 * purpose. 0: there is no address (tests), or libcrypto failed. */
static uint64_t guess_key(const struct rdt_guesses *g, const uint8_t *text, size_t len)
{
	uint8_t hash[NVMF_AUTH_HASH_MAX];
	uint64_t key = 0;

	if (len && !nvmf_auth_hmac(NVMF_AUTH_SHA256, g->seed, sizeof(g->seed), text, len, hash))
		memcpy(&key, hash, sizeof(key));
	return key;
}

/* Computed before the lock is taken, so that other reactors do not wait for the hashes. */
static struct rdt_guess_keys keys_of_qpair(const struct rdt_qpair *qp)
{
	const struct rdt_guesses *g = &qp->reactor->target->auth_pool->guesses;
	size_t len, nqn = strlen(qp->ctrl->hostnqn);
	struct rdt_guess_keys keys = {0};
	uint8_t text[KEY_MAX];

	len = rdt_peer_address(qp, text, 64);
	if (!len)
		return keys;
	keys.of[OF_ADDRESS] = guess_key(g, text, len);
	memcpy(text + len, qp->ctrl->hostnqn, nqn);
	len += nqn;
	keys.of[OF_HOST] = guess_key(g, text, len + put_own_id(qp->ctrl, text + len));
	return keys;
}

void rdt_guess_of_tls(struct rdt_guesses *g, const struct rdt_peer *peer, const char *hostnqn,
		      struct rdt_guess_keys *keys)
{
	uint8_t text[1 + KEY_MAX] = {'T'};
	size_t len = 1 + rdt_peer_key(peer, text + 1, 64), nqn = strlen(hostnqn);

	keys->of[OF_ADDRESS] = guess_key(g, text, len);
	memcpy(text + len, hostnqn, nqn);
	keys->of[OF_HOST] = guess_key(g, text, len + nqn);
}

/* Returns the entry of @key; NULL: there is none. The lock is held. */
static struct rdt_guess *find_guess(struct rdt_guesses *g, uint64_t key)
{
	for (unsigned int i = 0; i < RDT_GUESS_WAYS && g->table && key; i++)
		if (g->table[key % RDT_GUESS_SETS][i].key == key)
			return &g->table[key % RDT_GUESS_SETS][i];
	return NULL;
}

/* Like find_guess(), but creates an entry in place of the one with the least @paid. NULL: no
 * memory. */
static struct rdt_guess *make_guess(struct rdt_guesses *g, uint64_t key)
{
	struct rdt_guess *e = find_guess(g, key), *set;

	if (e || !key)
		return e;
	if (!g->table)
		g->table = calloc(RDT_GUESS_SETS, sizeof(*g->table));
	if (!g->table)
		return NULL;
	set = e = g->table[key % RDT_GUESS_SETS];
	for (unsigned int i = 1; i < RDT_GUESS_WAYS; i++)
		if (set[i].paid < e->paid)
			e = &set[i];
	*e = (struct rdt_guess){key, 0};
	return e;
}

/* The lock is held. */
static bool is_rested(struct rdt_guesses *g, uint64_t host_key, uint64_t now)
{
	const struct rdt_guess *e = find_guess(g, host_key);

	/* @paid is at least one cost after the last failure. */
	return !e || e->paid + REST - limits[OF_HOST].cost <= now;
}

/* The lock is held. */
static bool has_failed_often(struct rdt_guesses *g, const struct rdt_guess_keys *keys, uint64_t now)
{
	for (unsigned int i = 0; i < SCOPES; i++) {
		const struct rdt_guess *e = find_guess(g, keys->of[i]);

		if (i == OF_ADDRESS && is_rested(g, keys->of[OF_HOST], now))
			continue;
		if (e && e->paid > now + limits[i].cost * (limits[i].burst - 1))
			return true;
	}
	return false;
}

/* Count a failure; the lock is held. Failures beyond the burst do not add up, however they occur:
 * after the cost of one, the next guess is not delayed. */
static void count_wrong_guess(struct rdt_guesses *g, const struct rdt_guess_keys *keys,
			      uint64_t now)
{
	for (unsigned int i = 0; i < SCOPES; i++) {
		struct rdt_guess *e = make_guess(g, keys->of[i]);
		uint64_t most = now + limits[i].cost * limits[i].burst;

		if (!e)
			continue;
		e->paid = (e->paid > now ? e->paid : now) + limits[i].cost;
		if (e->paid > most)
			e->paid = most;
	}
}

bool rdt_guess_keys_over(struct rdt_guesses *g, const struct rdt_guess_keys *keys, uint64_t now)
{
	bool over;

	pthread_mutex_lock(&g->lock);
	over = has_failed_often(g, keys, now);
	pthread_mutex_unlock(&g->lock);
	return over;
}

void rdt_guess_keys_right(struct rdt_guesses *g, const struct rdt_guess_keys *keys,
			  bool authenticated)
{
	pthread_mutex_lock(&g->lock);
	for (unsigned int i = 0; i < SCOPES; i++) {
		struct rdt_guess *e = find_guess(g, keys->of[i]);

		if (e && i == OF_HOST && authenticated)
			*e = (struct rdt_guess){0};
		else if (e)
			e->paid -= e->paid < limits[i].cost ? e->paid : limits[i].cost;
	}
	pthread_mutex_unlock(&g->lock);
}

void rdt_guess_keys_count(struct rdt_guesses *g, const struct rdt_guess_keys *keys, uint64_t now)
{
	pthread_mutex_lock(&g->lock);
	count_wrong_guess(g, keys, now);
	pthread_mutex_unlock(&g->lock);
}

bool rdt_guess_over(struct rdt_qpair *qp)
{
	const struct rdt_guess_keys keys = keys_of_qpair(qp);

	return rdt_guess_keys_over(&qp->reactor->target->auth_pool->guesses, &keys,
				   rd_loop_now(qp->reactor->loop));
}

void rdt_guess_right(struct rdt_qpair *qp)
{
	const struct rdt_guess_keys keys = keys_of_qpair(qp);

	rdt_guess_keys_right(&qp->reactor->target->auth_pool->guesses, &keys, false);
}

void rdt_guess_count(struct rdt_qpair *qp)
{
	const struct rdt_guess_keys keys = keys_of_qpair(qp);

	rdt_guess_keys_count(&qp->reactor->target->auth_pool->guesses, &keys,
			     rd_loop_now(qp->reactor->loop));
}

void rdt_guess_succeeded(struct rdt_qpair *qp)
{
	struct rdt_guesses *g = &qp->reactor->target->auth_pool->guesses;
	const struct rdt_guess_keys keys = keys_of_qpair(qp);
	struct rdt_guess *e;

	pthread_mutex_lock(&g->lock);
	e = find_guess(g, keys.of[OF_HOST]);
	if (e)
		*e = (struct rdt_guess){0};
	pthread_mutex_unlock(&g->lock);
}
