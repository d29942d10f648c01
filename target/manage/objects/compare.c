/* SPDX-License-Identifier: BSD-3-Clause */
#include "compare.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/log.h"
#include "util/loop.h"
#include "target/bdev/backend.h"
#include "target/bdev/jobs.h"
#include "target/config/config.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"

#define ROUND     (60 * RD_NSEC_PER_SEC)
#define LEAST_GAP (50 * RD_NSEC_PER_MSEC)

/* A periodic comparison. It has no reference to the namespace, which may be removed meanwhile. */
struct compare_job {
	struct rdt_job job;
	struct rdt_compare compare;
	struct rdt_target *t;
	struct rdt_subsys *ss; /* held */
	uint32_t nsid;
	struct rdt_config *cfg_of;
	char what[384];
};

void rdt_compare_begin(struct rdt_compare *c, const struct rdt_ns *ns)
{
	struct rdt_bdev *base = rdt_bdev_base(ns->bdev);

	*c = (struct rdt_compare){
		.id = base->path_id, .path = ns->now->path, .size = atomic_load(&base->size)};
}

void rdt_compare_run(struct rdt_compare *c)
{
	c->state = c->path ? rdt_bdev_path_check(&c->id, c->path, &c->size, c->why, sizeof(c->why))
			   : RDT_PATH_SAME;
}

static void forget_mismatch(struct rdt_ns *ns)
{
	if (ns->mismatch)
		rd_notice(ns->subsys->target->log, RD_LOG_TARGET,
			  "%s namespace %u: its path names the open file or device again",
			  ns->subsys->nqn, ns->nsid);
	free(ns->mismatch);
	ns->mismatch = NULL;
}

int rdt_compare_end(struct rdt_compare *c, struct rdt_ns *ns)
{
	if (c->state == RDT_PATH_UNKNOWN) /* the comparison failed */
		return 0;
	if (c->state == RDT_PATH_SAME) {
		forget_mismatch(ns);
		return 0;
	}
	if (c->state == RDT_PATH_SMALLER)
		rdt_bdev_ended_early(ns->bdev, ns->subsys->target->log, c->path, c->size);
	if (!ns->mismatch || strcmp(ns->mismatch, c->why) != 0) {
		rd_err(ns->subsys->target->log, RD_LOG_TARGET, "%s namespace %u: %s",
		       ns->subsys->nqn, ns->nsid, c->why);
		rdt_announce(ns->subsys->target, "namespace-mismatch", "{s:s, s:i, s:s}", "nqn",
			     ns->subsys->nqn, "nsid", (int)ns->nsid, "reason", c->why);
		if (!ns->mismatch)
			ns->mismatch_since = time(NULL);
		free(ns->mismatch);
		ns->mismatch = strdup(c->why);
	}
	return -ESTALE;
}

/* ---- once in a while ---- */

static void compare_work(struct rdt_job *job)
{
	rdt_compare_run(&rd_container_of(job, struct compare_job, job)->compare);
}

static void compare_done(struct rdt_job *job)
{
	struct compare_job *c = rd_container_of(job, struct compare_job, job);
	struct rdt_ns *ns = rdt_ns_with(c->ss, c->nsid);

	if (ns)
		ns->comparing = false;
	/* It may have been reopened or resized meanwhile. */
	if (ns && ns->state == RDT_NS_LIVE && !job->dropped && ns->now->path &&
	    strcmp(ns->now->path, c->compare.path) == 0 &&
	    memcmp(&rdt_bdev_base(ns->bdev)->path_id, &c->compare.id, sizeof(c->compare.id)) == 0)
		rdt_compare_end(&c->compare, ns);
	rdt_config_put(&c->cfg_of);
	rdt_subsys_put(c->ss);
	free(c);
}

static void start_comparing(struct rdt_ns *ns)
{
	struct compare_job *c = calloc(1, sizeof(*c));

	if (!c)
		return;
	rdt_compare_begin(&c->compare, ns);
	c->t = ns->subsys->target;
	c->ss = ns->subsys;
	rdt_subsys_hold(c->ss);
	c->nsid = ns->nsid;
	c->cfg_of = rdt_config_get(ns->now_of);
	snprintf(c->what, sizeof(c->what), "%s namespace %u: comparing %s", ns->subsys->nqn,
		 ns->nsid, ns->now->path);
	ns->comparing = true;
	c->job = (struct rdt_job){.what = c->what, .work = compare_work, .done = compare_done};
	c->job.device = rdt_jobs_device(c->t->jobs, ns->now);
	rdt_jobs_add(c->t->jobs, &c->job);
}

static bool has_path(const struct rdt_ns *ns)
{
	return ns->state == RDT_NS_LIVE && ns->now->path && rdt_bdev_base(ns->bdev)->path_id.known;
}

void rdt_compare_now(struct rdt_ns *ns)
{
	if (has_path(ns) && !ns->comparing)
		start_comparing(ns);
}

/* Compares one namespace per call, so the number of namespaces does not matter. */
static void compare_next(struct rd_timer *timer)
{
	struct rdt_target *t = rd_container_of(timer, struct rdt_target, compare_timer);
	struct rdt_ns *ns = TAILQ_FIRST(&t->with_path);
	uint64_t gap;

	if (!ns) /* the next one that is listed starts the timer */
		return;
	TAILQ_REMOVE(&t->with_path, ns, path_link);
	TAILQ_INSERT_TAIL(&t->with_path, ns, path_link);
	rdt_compare_now(ns);
	gap = ROUND / t->with_path_count;
	if (rd_timer_start(t->loop, timer, gap < LEAST_GAP ? LEAST_GAP : gap))
		rd_warn(t->log, RD_LOG_TARGET,
			"out of memory for a timer: files are compared at reloads only");
}

void rdt_compare_watch(struct rdt_target *t)
{
	t->compare_timer.fn = compare_next;
	if (t->with_path_count)
		rd_timer_start(t->loop, &t->compare_timer, LEAST_GAP);
}

void rdt_compare_unwatch(struct rdt_target *t)
{
	t->compare_timer.fn = NULL;
	rd_timer_stop(t->loop, &t->compare_timer);
}
