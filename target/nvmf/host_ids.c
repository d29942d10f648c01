/* SPDX-License-Identifier: BSD-3-Clause */
#include "host_ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uuid/uuid.h>

#include "admin_budget.h"
#include "auth_keys.h"
#include "ctrl.h"
#include "peers.h"
#include "subsys.h"

#define LOOK_COST 64u /* cost of examining a controller: admin_budget.h */

struct rdt_id_owner {
	LIST_ENTRY(rdt_id_owner) link;
	unsigned int count;            /* number of @ids; freed with the last one */
	TAILQ_HEAD(, rdt_host_id) ids; /* least recently used first */
	char name[NVMF_NQN_MAX + 1];
};

struct rdt_host_id {
	LIST_ENTRY(rdt_host_id) link;
	TAILQ_ENTRY(rdt_host_id) order;
	struct rdt_id_owner *owner;
	uint8_t id[16];
};

static struct rdt_host_id_bucket *id_bucket(struct rdt_subsys *ss, const uint8_t id[16])
{
	return &ss->host_ids[rdt_peer_hash(ss->target, id, 16) % RDT_HOST_ID_BUCKETS];
}

static struct rdt_id_owner_bucket *owner_bucket(struct rdt_subsys *ss, const char *name)
{
	return &ss->id_owners[rdt_peer_hash(ss->target, name, strlen(name)) % RDT_HOST_ID_BUCKETS];
}

static void free_host_id(struct rdt_host_id *e)
{
	LIST_REMOVE(e, link);
	TAILQ_REMOVE(&e->owner->ids, e, order);
	if (--e->owner->count == 0) {
		LIST_REMOVE(e->owner, link);
		free(e->owner);
	}
	free(e);
}

/* Returns the entry of @id, if the name that it belongs to still has a key; NULL: @id belongs to
 * nobody. */
static struct rdt_host_id *find_host_id(struct rdt_subsys *ss, const uint8_t id[16])
{
	struct rdt_host_id *e;

	LIST_FOREACH (e, id_bucket(ss, id), link)
		if (memcmp(e->id, id, sizeof(e->id)) == 0)
			break;
	if (!e || rdt_auth_has_any_key(ss, e->owner->name))
		return e;
	free_host_id(e);
	return NULL;
}

static bool is_of(const struct rdt_host_id *e, const struct rdt_ctrl *ctrl)
{
	return strcmp(e->owner->name, ctrl->hostnqn) == 0;
}

static bool id_is_shared(const struct rdt_subsys *ss, const uint8_t id[16])
{
	for (unsigned int i = 0; i < ss->shared_ids_count; i++)
		if (memcmp(ss->shared_ids[i], id, 16) == 0)
			return true;
	return false;
}

int rdt_host_ids_share(struct rdt_subsys *ss, const struct rdt_subsys_config *cfg)
{
	unsigned int count = cfg->shared_host_ids_count;
	uint8_t(*next)[16] = calloc(count + 1, sizeof(*next)), (*old)[16];
	bool same;

	if (!next)
		return -ENOMEM;
	for (unsigned int i = 0; i < count; i++)
		uuid_parse(cfg->shared_host_ids[i], next[i]); /* validated before */
	pthread_mutex_lock(&ss->lock);
	old = ss->shared_ids;
	same = count == ss->shared_ids_count &&
	       (count == 0 || memcmp(old, next, count * sizeof(*next)) == 0);
	ss->shared_ids = next;
	ss->shared_ids_count = count;
	pthread_mutex_unlock(&ss->lock);
	free(old);
	return !same;
}

int rdt_host_id_check(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl)
{
	const struct rdt_host_id *e = find_host_id(ss, ctrl->hostid);

	if (id_is_shared(ss, ctrl->hostid))
		return 0;
	return !e || is_of(e, ctrl) ? 0 : -EPERM;
}

/* Returns the entry of the host's name, NULL without memory. A new entry has no identifier yet. */
static struct rdt_id_owner *get_owner(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl)
{
	struct rdt_id_owner *owner;

	LIST_FOREACH (owner, owner_bucket(ss, ctrl->hostnqn), link)
		if (strcmp(owner->name, ctrl->hostnqn) == 0)
			return owner;
	owner = calloc(1, sizeof(*owner));
	if (!owner)
		return NULL;
	TAILQ_INIT(&owner->ids);
	memcpy(owner->name, ctrl->hostnqn, sizeof(owner->name));
	LIST_INSERT_HEAD(owner_bucket(ss, owner->name), owner, link);
	return owner;
}

static int claim_again(struct rdt_host_id *e, const struct rdt_ctrl *ctrl)
{
	if (!is_of(e, ctrl))
		return -EPERM;
	TAILQ_REMOVE(&e->owner->ids, e, order);
	TAILQ_INSERT_TAIL(&e->owner->ids, e, order);
	return 0;
}

/* End controllers of other names that used the identifier without authentication while it belonged
 * to nobody. */
static void end_others(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl)
{
	struct rdt_ctrl *other;

	TAILQ_FOREACH (other, &ss->ctrls, link)
		if (other->authenticated && memcmp(other->hostid, ctrl->hostid, 16) == 0 &&
		    strcmp(other->hostnqn, ctrl->hostnqn) != 0)
			rdt_ctrl_end(other, "another host name has authenticated with its Host "
					    "Identifier");
	if (ctrl->admin)
		rdt_admin_charge(ctrl->admin, ss->ctrls_count * (size_t)LOOK_COST);
}

int rdt_host_id_claim(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl)
{
	struct rdt_host_id *e = find_host_id(ss, ctrl->hostid);
	struct rdt_id_owner *owner;

	if (id_is_shared(ss, ctrl->hostid))
		return 0;
	if (e)
		return claim_again(e, ctrl);
	e = calloc(1, sizeof(*e));
	owner = e ? get_owner(ss, ctrl) : NULL;
	if (!owner) {
		free(e);
		return -ENOMEM;
	}
	memcpy(e->id, ctrl->hostid, sizeof(e->id));
	e->owner = owner;
	owner->count++;
	TAILQ_INSERT_TAIL(&owner->ids, e, order);
	LIST_INSERT_HEAD(id_bucket(ss, e->id), e, link);
	if (owner->count > RDT_HOST_IDS)
		free_host_id(TAILQ_FIRST(&owner->ids));
	end_others(ss, ctrl);
	return 0;
}

bool rdt_host_id_is_own(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl)
{
	const struct rdt_host_id *e = find_host_id(ss, ctrl->hostid);

	return e && is_of(e, ctrl);
}

const char *rdt_host_id_reason(int err)
{
	return err == -EPERM
		       ? "its Host Identifier belongs to another host name, which was the first to "
			 "authenticate with it; give each host an identifier of its own, or list "
			 "it in shared_host_ids"
		       : "out of memory";
}

void rdt_host_ids_fini(struct rdt_subsys *ss)
{
	struct rdt_host_id *e;

	for (unsigned int i = 0; i < RDT_HOST_ID_BUCKETS; i++)
		while ((e = LIST_FIRST(&ss->host_ids[i])))
			free_host_id(e);
	free(ss->shared_ids);
	ss->shared_ids = NULL;
}
