/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of a subsystem's hosts. Functions may be called on any thread unless noted. */
#ifndef RDT_AUTH_KEYS_H
#define RDT_AUTH_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "nvmf/auth_key.h"
#include "target/config/config.h"

struct rdt_auth_set;
struct rdt_subsys;
struct rdt_target;

/* A copy of the keys of a host; the caller wipes it with rdt_auth_keys_wipe(). */
struct rdt_auth_keys {
	struct nvmf_auth_key host;
	struct nvmf_auth_key ctrl;
	bool has_ctrl;
	uint8_t n_hashes;
	uint8_t n_groups;
	uint8_t hashes[RDT_AUTH_HASHES];
	uint8_t groups[RDT_AUTH_GROUPS];
};

int rdt_auth_keys_init(struct rdt_subsys *ss);
void rdt_auth_keys_fini(struct rdt_subsys *ss);
/* Use the keys of @set from now on, and accept the previous keys too. Takes over the reference in
 * @set, and returns there the keys that are no longer accepted, with their reference. Main thread,
 * under subsys->lock. */
void rdt_auth_swap_keys(struct rdt_subsys *ss, struct rdt_auth_set *set);
void rdt_auth_end_old_keys(struct rdt_subsys *ss); /* after 5 min; main thread */
/* returns whether @hostnqn has a key for DH-HMAC-CHAP; under subsys->lock */
bool rdt_auth_has_key(const struct rdt_subsys *ss, const char *hostnqn);
bool rdt_auth_asks(struct rdt_subsys *ss, const char *hostnqn); /* the same; takes the lock */
/* Returns whether @hostnqn has a key for DH-HMAC-CHAP or TLS; under subsys->lock. */
bool rdt_auth_has_any_key(const struct rdt_subsys *ss, const char *hostnqn);
/* Copy the keys of @hostnqn to @out; @old selects the keys that were replaced. Returns false, with
 * @out undefined, if it has none. */
bool rdt_auth_keys_get(struct rdt_subsys *ss, const char *hostnqn, bool old,
		       struct rdt_auth_keys *out);
void rdt_auth_keys_wipe(struct rdt_auth_keys *keys);
/* Copies of a host's TLS keys: the current one and, if it was replaced a short time ago, the
 * previous one. The caller wipes them. Returns their number; if it is 0, *@why continues the
 * sentence "the identity ...". */
#define RDT_AUTH_TLS_KEYS 2u
unsigned int rdt_auth_find_tls_keys(struct rdt_target *t, const char *subnqn, const char *hostnqn,
				    struct nvmf_auth_key keys[RDT_AUTH_TLS_KEYS], const char **why);
uint32_t rdt_auth_seqnum(struct rdt_subsys *ss); /* of a new challenge; never 0 */

#endif /* RDT_AUTH_KEYS_H */
