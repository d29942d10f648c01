/* SPDX-License-Identifier: BSD-3-Clause */
#include "auth_keys.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/crypto.h>

#include "util/loop.h"
#include "subsys.h"
#include "target.h"

#define OLD_KEYS_WAIT (300 * RD_NSEC_PER_SEC) /* the log and the manual page mention 5 minutes */

static void forget_old_keys(struct rd_timer *timer)
{
	struct rdt_subsys *ss = rd_container_of(timer, struct rdt_subsys, auth_timer);
	struct rdt_auth_set drop;

	pthread_mutex_lock(&ss->lock);
	drop = ss->auth_old;
	ss->auth_old = (struct rdt_auth_set){NULL, NULL};
	pthread_mutex_unlock(&ss->lock);
	rdt_config_put(&drop.of);
}

int rdt_auth_keys_init(struct rdt_subsys *ss)
{
	unsigned int seed;

	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		return -EIO;
	atomic_init(&ss->auth_seqnum, seed);
	ss->auth = (struct rdt_auth_set){ss->now, rdt_config_get(ss->now_of)};
	ss->auth_timer.fn = forget_old_keys;
	return 0;
}

void rdt_auth_keys_fini(struct rdt_subsys *ss)
{
	rd_timer_stop(ss->target->loop, &ss->auth_timer);
	rdt_config_put(&ss->auth.of);
	rdt_config_put(&ss->auth_old.of);
}

void rdt_auth_swap_keys(struct rdt_subsys *ss, struct rdt_auth_set *set)
{
	struct rdt_auth_set drop = ss->auth_old;

	ss->auth_old = ss->auth;
	ss->auth = *set;
	*set = drop;
}

void rdt_auth_end_old_keys(struct rdt_subsys *ss)
{
	if (rd_timer_start(ss->target->loop, &ss->auth_timer, OLD_KEYS_WAIT))
		forget_old_keys(&ss->auth_timer); /* without memory, at once */
}

bool rdt_auth_has_key(const struct rdt_subsys *ss, const char *hostnqn)
{
	const struct rdt_host_auth_config *cfg =
		ss->auth.cfg ? rdt_config_host_auth(ss->auth.cfg, hostnqn) : NULL;

	return cfg && cfg->key;
}

bool rdt_auth_has_any_key(const struct rdt_subsys *ss, const char *hostnqn)
{
	return ss->auth.cfg && rdt_config_host_auth(ss->auth.cfg, hostnqn);
}

bool rdt_auth_asks(struct rdt_subsys *ss, const char *hostnqn)
{
	bool has;

	pthread_mutex_lock(&ss->lock);
	has = rdt_auth_has_key(ss, hostnqn);
	pthread_mutex_unlock(&ss->lock);
	return has;
}

static void copy_keys(const struct rdt_host_auth_config *cfg, struct rdt_auth_keys *out)
{
	memset(out, 0, sizeof(*out));
	out->host = *cfg->key;
	out->has_ctrl = cfg->ctrl_key != NULL;
	if (out->has_ctrl)
		out->ctrl = *cfg->ctrl_key;
	out->n_hashes = cfg->n_hashes;
	out->n_groups = cfg->n_groups;
	memcpy(out->hashes, cfg->hashes, sizeof(out->hashes));
	memcpy(out->groups, cfg->groups, sizeof(out->groups));
}

bool rdt_auth_keys_get(struct rdt_subsys *ss, const char *hostnqn, bool old,
		       struct rdt_auth_keys *out)
{
	const struct rdt_host_auth_config *cfg = NULL;
	const struct rdt_auth_set *set = old ? &ss->auth_old : &ss->auth;

	pthread_mutex_lock(&ss->lock);
	/* A host whose entry was removed has no old key either. */
	if (rdt_auth_has_key(ss, hostnqn) && set->cfg)
		cfg = rdt_config_host_auth(set->cfg, hostnqn);
	if (cfg && cfg->key)
		copy_keys(cfg, out);
	pthread_mutex_unlock(&ss->lock);
	return cfg && cfg->key;
}

void rdt_auth_keys_wipe(struct rdt_auth_keys *keys)
{
	OPENSSL_cleanse(keys, sizeof(*keys));
}

static unsigned int copy_tls_keys(struct rdt_subsys *ss, const char *hostnqn,
				  struct nvmf_auth_key keys[RDT_AUTH_TLS_KEYS])
{
	const struct rdt_auth_set *const sets[RDT_AUTH_TLS_KEYS] = {&ss->auth, &ss->auth_old};
	unsigned int n = 0;

	pthread_mutex_lock(&ss->lock);
	for (unsigned int i = 0; i < RDT_AUTH_TLS_KEYS; i++) {
		const struct rdt_host_auth_config *cfg =
			sets[i]->cfg ? rdt_config_host_auth(sets[i]->cfg, hostnqn) : NULL;

		/* A host whose key was removed has no old key either. */
		if (!cfg || !cfg->tls_key) {
			if (!i)
				break;
			continue;
		}
		keys[n++] = *cfg->tls_key;
	}
	pthread_mutex_unlock(&ss->lock);
	return n;
}

unsigned int rdt_auth_find_tls_keys(struct rdt_target *t, const char *subnqn, const char *hostnqn,
				    struct nvmf_auth_key keys[RDT_AUTH_TLS_KEYS], const char **why)
{
	struct rdt_subsys *ss;
	unsigned int n = 0;

	*why = "names an unknown subsystem";
	pthread_mutex_lock(&t->find_lock);
	ss = rdt_subsys_find(t, subnqn);
	if (ss) {
		n = copy_tls_keys(ss, hostnqn, keys);
		*why = rdt_subsys_is_disc(ss) ? "names a host that has no tls_key_file in "
						"host_auth of \"discovery\""
					      : "names a host that has no tls_key_file in "
						"host_auth of the subsystem";
	}
	pthread_mutex_unlock(&t->find_lock);
	return n;
}

uint32_t rdt_auth_seqnum(struct rdt_subsys *ss)
{
	uint32_t n;

	do {
		n = atomic_fetch_add(&ss->auth_seqnum, 1);
	} while (!n);
	return n;
}
