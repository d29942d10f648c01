/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces: a backend with an NSID and a block size. The main thread's side. */
#include "ns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/cleanup.h"
#include "qos_queue.h"
#include "events.h"
#include "host_access.h"
#include "resv.h"
#include "target.h"
#include "target/config/tgt_limits.h"

/* Insert in the order of NSIDs. Namespaces are usually added in that order, so the predecessor is
 * the last one or has the previous NSID. */
static void insert_ns(struct rdt_subsys *ss, struct rdt_ns *ns)
{
	struct rdt_ns *before = rdt_ns_with(ss, ns->nsid - 1), *next;

	pthread_mutex_lock(&ss->lock);
	if (!before)
		TAILQ_FOREACH_REVERSE(before, &ss->namespaces, rdt_ns_list, link)
	if (before->nsid < ns->nsid)
		break;
	/* Namespaces that leave come after the one that has their NSID now. */
	while (before && (next = TAILQ_NEXT(before, link)) && next->nsid < ns->nsid)
		before = next;
	if (before)
		TAILQ_INSERT_AFTER(&ss->namespaces, before, ns, link);
	else
		TAILQ_INSERT_HEAD(&ss->namespaces, ns, link);
	pthread_mutex_unlock(&ss->lock);
}

/* Returns the lowest free slot, or RDT_NS_SLOTS. */
static unsigned int free_ns_slot(struct rdt_target *t)
{
	while (t->ns_free < RDT_NS_SLOTS && t->ns[t->ns_free])
		t->ns_free++;
	return t->ns_free;
}

static struct rdt_ns *alloc_ns(const struct rdt_target *t)
{
	size_t size = sizeof(struct rdt_ns) + t->cfg->target.reactors * sizeof(struct rdt_ns_post);
	struct rdt_ns *ns =
		aligned_alloc(__alignof__(struct rdt_ns_post), (size + 63) & ~(size_t)63);

	return ns ? memset(ns, 0, size) : NULL;
}

/* Reset the entry, because another namespace may have had the slot. */
static void init_marks(struct rdt_ns *ns, struct rdt_ns_marks *marks)
{
	ns->marks = marks;
	atomic_store(&marks->ana_group, (uint8_t)ns->cfg->ana_group);
	atomic_store(&marks->faulty, false);
	atomic_store(&marks->err_recovery, 0);
}

static int name_storage(struct rdt_ns *ns)
{
	rd_autofree char *name = NULL;
	int err = rdt_config_storage(ns->cfg, &name);

	ns->storage = name ? rd_map_hash(name) : 0;
	return err;
}

int rdt_ns_create(struct rdt_subsys *ss, const struct rdt_ns_config *cfg, struct rdt_config *cfg_of,
		  struct rdt_ns **out)
{
	struct rdt_target *t = ss->target;
	unsigned int slot = free_ns_slot(t);
	struct rdt_ns *ns;
	int err;

	if (slot == RDT_NS_SLOTS)
		return -ENOSPC;
	ns = alloc_ns(t);
	if (!ns)
		return -ENOMEM;
	ns->cfg = cfg;
	ns->cfg_of = rdt_config_get(cfg_of);
	ns->now = cfg;
	ns->now_of = rdt_config_get(cfg_of);
	ns->subsys = ss;
	ns->state = RDT_NS_OPENING;
	ns->nsid = cfg->nsid;
	ns->identity = (struct rdt_identity_user){
		.nqn = ss->nqn, .cfg = cfg, .several = ss->now && rdt_config_several(ss->now)};
	init_marks(ns, &t->ns_marks[slot]);
	ns->read_only = cfg->read_only;
	ns->slot = slot;
	ns->lbads = (uint8_t)__builtin_ctz(cfg->block_size);
	rdt_range_init(ns);
	rdt_uncor_init(ns);
	ns->since = rd_loop_now(t->loop);
	err = rdt_qos_limiter_new(t, &ns->limiter);
	if (!err)
		err = name_storage(ns);
	if (!err)
		err = rd_map_reserve(&t->ns_map, t->ns_map.count + 1);
	if (!err)
		err = rdt_host_access_add_ns(ns);
	if (err) {
		rdt_qos_limiter_free(&ns->limiter);
		rdt_range_fini(ns);
		rdt_uncor_fini(ns);
		rdt_config_put(&ns->cfg_of);
		rdt_config_put(&ns->now_of);
		free(ns);
		return err;
	}
	rdt_qos_set_ns(ns, cfg->qos);
	t->ns_opening++;
	t->ns[slot] = ns;
	insert_ns(ss, ns);
	/* Cannot fail, because memory was reserved. */
	rd_map_put(&t->ns_map, rdt_ns_key(ss, ns->nsid), ns);
	ns->listed = true;
	*out = ns;
	return 0;
}

int rdt_ns_attach(struct rdt_ns *ns, struct rdt_bdev *bdev, const struct rdt_state_ns *stored,
		  char *said, size_t size)
{
	int err;

	ns->bdev = bdev;
	err = rdt_ns_protect_open(ns, &stored->protect, said, size);
	if (!err)
		err = rdt_resv_open(ns, &stored->resv, said, size);
	if (err) {
		ns->bdev = NULL;
		return err;
	}
	rdt_ns_take_backend(ns);
	rdt_health_watch(ns);
	return 0;
}

struct rdt_bdev *rdt_ns_detach(struct rdt_ns *ns)
{
	struct rdt_bdev *bdev = ns->bdev;

	rdt_subsys_count(ns, false);
	rdt_resv_close(ns);
	rdt_bdev_detach(bdev);
	ns->bdev = NULL;
	return bdev;
}

void rdt_ns_take_backend(struct rdt_ns *ns)
{
	atomic_store(&ns->blocks, ns->bdev->size >> ns->lbads);
}

void rdt_ns_begin(struct rdt_ns *ns)
{
	rdt_ns_take_backend(ns);
	rdt_ns_set_state(ns, RDT_NS_LIVE);
	rdt_subsys_count(ns, true);
}

/* A target without namespaces that have a path runs no timer for them, so it does not wake up. */
static void start_comparing_paths(struct rdt_target *t)
{
	if (!t->compare_timer.fn || rd_timer_armed(&t->compare_timer))
		return;
	if (rd_timer_start(t->loop, &t->compare_timer, RD_NSEC_PER_SEC))
		rd_warn(t->log, RD_LOG_TARGET,
			"out of memory for a timer: files are compared at reloads only");
}

/* Add @ns to target->with_path, or remove it. */
static void list_path(struct rdt_ns *ns, bool has_path)
{
	struct rdt_target *t = ns->subsys->target;

	if (ns->has_path == has_path)
		return;
	ns->has_path = has_path;
	if (has_path) {
		TAILQ_INSERT_TAIL(&t->with_path, ns, path_link);
		t->with_path_count++;
		start_comparing_paths(t);
	} else {
		TAILQ_REMOVE(&t->with_path, ns, path_link);
		t->with_path_count--;
	}
}

/* The backend of @ns reports no further changes: remove pending ones. */
static void forget_changes(struct rdt_ns *ns)
{
	struct rdt_bdev_changes *c = &ns->subsys->target->bdev_changes;

	pthread_mutex_lock(&c->lock);
	if (ns->bdev_changed)
		TAILQ_REMOVE(&c->list, ns, changed_link);
	ns->bdev_changed = false;
	pthread_mutex_unlock(&c->lock);
}

void rdt_ns_set_state(struct rdt_ns *ns, enum rdt_ns_state state)
{
	struct rdt_target *t = ns->subsys->target;

	list_path(ns, state == RDT_NS_LIVE && ns->now->path);

	t->ns_opening -= ns->state == RDT_NS_OPENING;
	t->ns_opening += state == RDT_NS_OPENING;
	ns->state = state;
	ns->since = rd_loop_now(t->loop);
	if (state == RDT_NS_FAILED)
		return;
	free(ns->why);
	ns->why = NULL;
	ns->retry_at = 0;
}

/* ---- namespaces that leave ---- */

struct rdt_leaving *rdt_ns_leaving(const struct rdt_ns *ns)
{
	return ns->storage ? rd_map_get(&ns->subsys->target->leaving, ns->storage) : NULL;
}

void rdt_ns_wait(struct rdt_ns *ns, struct rdt_leaving *leaving)
{
	if (ns->waits)
		LIST_REMOVE(ns, waiting);
	ns->waits = leaving;
	if (leaving)
		LIST_INSERT_HEAD(&leaving->waiting, ns, waiting);
}

static int leaving_begins(struct rdt_ns *ns)
{
	struct rdt_leaving *leaving = rdt_ns_leaving(ns);

	if (!ns->storage)
		return 0;
	if (!leaving) {
		leaving = calloc(1, sizeof(*leaving));
		if (!leaving || rd_map_put(&ns->subsys->target->leaving, ns->storage, leaving)) {
			free(leaving);
			return -ENOMEM;
		}
		leaving->storage = ns->storage;
	}
	leaving->count++;
	ns->leaves = leaving;
	return 0;
}

bool rdt_leaving_ends(struct rdt_target *t, struct rdt_leaving *leaving)
{
	if (!leaving || --leaving->count)
		return false;
	rd_map_remove(&t->leaving, leaving->storage);
	return true;
}

/* Called when the target ends. */
static void drop_leaving(struct rdt_ns *ns)
{
	struct rdt_ns *next;

	if (!rdt_leaving_ends(ns->subsys->target, ns->leaves))
		return;
	while ((next = LIST_FIRST(&ns->leaves->waiting)))
		rdt_ns_wait(next, NULL);
	free(ns->leaves);
}

static void unlist(struct rdt_ns *ns)
{
	if (ns->listed)
		rd_map_remove(&ns->subsys->target->ns_map, rdt_ns_key(ns->subsys, ns->nsid));
	ns->listed = false;
}

int rdt_ns_unlist(struct rdt_ns *ns)
{
	int err = leaving_begins(ns);

	if (!err)
		unlist(ns);
	return err;
}

void rdt_ns_free(struct rdt_ns *ns)
{
	struct rdt_subsys *ss = ns->subsys;
	struct rdt_bdev *bdev = rdt_ns_detach(ns); /* NULL unless the target ends */
	struct rdt_ns_waiter *w;

	assert(!ns->posts_left && !ns->job);
	while ((w = SLIST_FIRST(&ns->waiters))) { /* only when the target ends */
		SLIST_REMOVE_HEAD(&ns->waiters, link);
		free(w);
	}
	rd_timer_stop(ss->target->loop, &ns->timer);
	list_path(ns, false);
	forget_changes(ns);
	pthread_mutex_lock(&ss->lock);
	TAILQ_REMOVE(&ss->namespaces, ns, link);
	pthread_mutex_unlock(&ss->lock);
	ss->target->ns_opening -= ns->state == RDT_NS_OPENING;
	ss->target->ns[ns->slot] = NULL;
	if (ns->slot < ss->target->ns_free)
		ss->target->ns_free = ns->slot;
	unlist(ns);
	rdt_ns_wait(ns, NULL);
	drop_leaving(ns);
	rdt_identity_put(ss->target->identities, &ns->identity);
	rdt_host_access_remove_ns(ns);
	rdt_ns_stats_free(ns);
	rdt_qos_limiter_free(&ns->limiter);
	rdt_bdev_close(&bdev);
	rdt_range_fini(ns);
	rdt_uncor_fini(ns);
	rdt_config_put(&ns->cfg_of);
	rdt_config_put(&ns->now_of);
	free(ns->why);
	free(ns->mismatch);
	free(ns->gate);
	free(ns);
	rdt_subsys_ns_gone(ss);
}

struct rdt_ns *rdt_ns_with(const struct rdt_subsys *ss, uint32_t nsid)
{
	return rd_map_get(&ss->target->ns_map, rdt_ns_key(ss, nsid));
}

/* Returns the operations that the subsystem can still offer with this namespace. A read-only one
 * rejects all write commands by itself (rdt_io_admit()), so it does not restrict the others. */
static uint32_t ops_left_to_others(const struct rdt_bdev *bdev)
{
	return bdev->read_only ? bdev->ops_mask | ~RDT_OPS_NOT_WRITING : bdev->ops_mask;
}

void rdt_subsys_count(struct rdt_ns *ns, bool counts)
{
	const struct rdt_bdev *bdev = ns->bdev;
	struct rdt_subsys *ss = ns->subsys;
	unsigned int one = counts ? 1 : -1u;
	uint32_t ops_mask = 0, left;

	if (ns->counted == counts)
		return;
	ns->counted = counts;
	left = ops_left_to_others(bdev);
	for (unsigned int bit = 0; bit < 32; bit++) {
		if (!(left >> bit & 1))
			ss->lacking[bit] += one;
		if (!ss->lacking[bit])
			ops_mask |= 1u << bit;
	}
	if (bdev->volatile_cache)
		ss->caching += one;
	atomic_store(&ss->ops_mask, ops_mask);
	atomic_store(&ss->volatile_cache, ss->caching > 0);
	atomic_store(&ss->ns_count, ss->ns_count + one);
}

static void ns_answer_msg(struct rd_msg *msg)
{
	struct rdt_ns_post *post = rd_container_of(msg, struct rdt_ns_post, msg);
	struct rdt_ns *ns = post->ns;

	if (post->err && !ns->err)
		ns->err = post->err;
	if (--ns->posts_left)
		return;
	ns->subsys->target->ns_moving -= ns->moves;
	ns->moves = false;
	ns->moved(ns);
}

void rdt_ns_answer(struct rdt_ns_post *post, int err)
{
	post->err = err;
	post->msg.fn = ns_answer_msg;
	rd_loop_post(post->reactor->target->loop, &post->msg);
}

void rdt_ns_post(struct rdt_ns *ns, void (*fn)(struct rd_msg *msg),
		 void (*moved)(struct rdt_ns *ns), bool waits)
{
	struct rdt_target *t = ns->subsys->target;

	assert(!ns->posts_left);
	ns->moves = !waits;
	t->ns_moving += ns->moves;
	ns->moved = moved;
	ns->err = 0;
	ns->posts_left = t->reactors_count;
	for (unsigned int i = 0; i < t->reactors_count; i++) {
		struct rdt_ns_post *post = &ns->posts[i];

		post->ns = ns;
		post->reactor = &t->reactors[i];
		post->msg.fn = fn;
		rd_loop_post(post->reactor->loop, &post->msg);
	}
}
