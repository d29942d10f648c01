/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces: a backend with an NSID and a block size. The main thread's side. */
#include "ns.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "util/loop.h"
#include "admin.h"
#include "backend.h"
#include "config.h"
#include "gate.h"
#include "mask.h"
#include "range_lock.h"
#include "resv.h"
#include "subsys.h"
#include "target.h"
#include "tgt_limits.h"

static void insert(struct rdt_subsys *ss, struct rdt_ns *ns)
{
	struct rdt_ns *next;

	pthread_mutex_lock(&ss->lock);
	TAILQ_FOREACH (next, &ss->namespaces, link)
		if (next->nsid > ns->nsid)
			break;
	if (next)
		TAILQ_INSERT_BEFORE(next, ns, link);
	else
		TAILQ_INSERT_TAIL(&ss->namespaces, ns, link);
	pthread_mutex_unlock(&ss->lock);
}

int rdt_ns_create(struct rdt_subsys *ss, const struct rdt_ns_config *cfg, struct rdt_config *cfg_of,
		  struct rdt_bdev *bdev, struct rdt_ns **out)
{
	struct rdt_target *t = ss->target;
	unsigned int reactors = t->cfg->target.reactors;
	unsigned int slot = 0;
	struct rdt_ns *ns;
	int err;

	while (slot < RDT_NS_SLOTS && t->ns[slot])
		slot++;
	if (slot == RDT_NS_SLOTS)
		return -ENOSPC;
	ns = calloc(1, sizeof(*ns) + reactors * sizeof(ns->posts[0]));
	if (!ns)
		return -ENOMEM;
	ns->cfg = cfg;
	ns->cfg_of = rdt_config_get(cfg_of);
	ns->now = cfg;
	ns->now_of = rdt_config_get(cfg_of);
	ns->subsys = ss;
	ns->bdev = bdev;
	ns->nsid = cfg->nsid;
	ns->slot = slot;
	ns->lbads = (uint8_t)__builtin_ctz(bdev->block_size);
	rdt_range_init(ns);
	rdt_uncor_init(ns);
	atomic_init(&ns->blocks, bdev->size >> ns->lbads);
	ns->state = RDT_NS_NEW;
	err = rdt_qos_gate_new(t, &ns->gate);
	if (!err)
		err = rdt_mask_ns(ns);
	if (!err) {
		err = rdt_write_protect_open(ns);
		if (!err)
			err = rdt_resv_open(ns);
		if (err)
			rdt_unmask_ns(ns);
	}
	if (err) {
		rdt_qos_gate_free(&ns->gate);
		rdt_range_fini(ns);
		rdt_uncor_fini(ns);
		rdt_config_put(&ns->cfg_of);
		rdt_config_put(&ns->now_of);
		free(ns);
		return err;
	}
	rdt_qos_set_ns(ns, cfg->qos);
	t->ns[slot] = ns;
	insert(ss, ns);
	*out = ns;
	return 0;
}

void rdt_ns_free(struct rdt_ns *ns)
{
	struct rdt_subsys *ss = ns->subsys;

	assert(!ns->posts_left);
	rd_timer_stop(ss->target->loop, &ns->leave_timer);
	pthread_mutex_lock(&ss->lock);
	TAILQ_REMOVE(&ss->namespaces, ns, link);
	pthread_mutex_unlock(&ss->lock);
	ss->target->ns[ns->slot] = NULL;
	rdt_unmask_ns(ns);
	rdt_resv_close(ns);
	rdt_qos_gate_free(&ns->gate);
	rdt_bdev_close(&ns->bdev);
	rdt_range_fini(ns);
	rdt_uncor_fini(ns);
	rdt_config_put(&ns->cfg_of);
	rdt_config_put(&ns->now_of);
	free(ns);
}

struct rdt_ns *rdt_ns_of(const struct rdt_subsys *ss, uint32_t nsid)
{
	struct rdt_ns *ns;

	TAILQ_FOREACH (ns, &ss->namespaces, link)
		if (ns->nsid == nsid && ns->state != RDT_NS_LEAVING)
			return ns;
	return NULL;
}

void rdt_subsys_sum(struct rdt_subsys *ss)
{
	uint32_t ops_mask = UINT32_MAX;
	const struct rdt_ns *ns;
	bool cache = false;
	unsigned int n = 0;

	TAILQ_FOREACH (ns, &ss->namespaces, link) {
		if (ns->state == RDT_NS_LEAVING)
			continue;
		ops_mask &= ns->bdev->ops_mask;
		cache |= ns->bdev->volatile_cache;
		n++;
	}
	atomic_store(&ss->ops_mask, ops_mask);
	atomic_store(&ss->volatile_cache, cache);
	atomic_store(&ss->ns_count, n);
}

static void answer_msg(struct rd_msg *msg)
{
	struct rdt_ns_post *post = rd_container_of(msg, struct rdt_ns_post, msg);
	struct rdt_ns *ns = post->ns;

	if (post->err && !ns->err)
		ns->err = post->err;
	if (--ns->posts_left == 0)
		ns->moved(ns);
}

void rdt_ns_answer(struct rdt_ns_post *post, int err)
{
	post->err = err;
	post->msg.fn = answer_msg;
	rd_loop_post(post->reactor->target->loop, &post->msg);
}

void rdt_ns_post(struct rdt_ns *ns, void (*fn)(struct rd_msg *msg),
		 void (*moved)(struct rdt_ns *ns))
{
	struct rdt_target *t = ns->subsys->target;

	assert(!ns->posts_left);
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
