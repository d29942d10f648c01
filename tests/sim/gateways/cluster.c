/* SPDX-License-Identifier: BSD-3-Clause */
/* The cluster: operations on their way, clients and their blocks, watches, and faults. */
#include "cluster.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "notify.h"

#define LATENCY      (3 * RD_NSEC_PER_MSEC)
#define RESENT_AFTER (300 * RD_NSEC_PER_MSEC) /* after a cut, at most */
#define MAP_TRAVELS  (3 * RD_NSEC_PER_SEC)    /* until the OSD has a new map, at most */
#define PING_NS      (5 * RD_NSEC_PER_SEC)
#define TICK_NS      RD_NSEC_PER_SEC
#define WATCH_NS     (30 * RD_NSEC_PER_SEC) /* Ceph's osd_client_watch_timeout */

void cluster_violated(struct cluster *cl, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	cl->violated(cl->arg, text);
}

/* ---- operations ---- */

static uint64_t latency(const struct cluster *cl)
{
	return 1 + rd_sim_below(cl->sim, LATENCY + cl->slow_ns);
}

static uint64_t cut_until(const struct client *c)
{
	return c->cluster->cut_until[c->process->number];
}

uint64_t pool_away_until(const struct cluster *cl, unsigned int pool)
{
	uint64_t hangs = cl->hangs_until[pool];

	return hangs > cl->stalled_until ? hangs : cl->stalled_until;
}

bool client_reaches(const struct client *c)
{
	return !c->process->dead && cut_until(c) <= rd_sim_now(c->cluster->sim);
}

static void op_finish(struct op *op)
{
	struct process *before = process_enter(op->client->process);

	LIST_REMOVE(op, link);
	op->done(op);
	process_enter(before);
}

static int op_exec(struct op *op)
{
	const struct client *c = op->client;
	struct cluster *cl = c->cluster;

	if (op->at_monitor)
		return op->exec(op);
	if (op->epoch > cl->osd_epoch)
		cl->osd_epoch = op->epoch;
	if (c->blocked_epoch && c->blocked_epoch <= cl->osd_epoch)
		return -ESHUTDOWN;
	return op->exec(op);
}

/* The process has died: its operation is executed although nobody waits for it, or is not. */
static void op_of_dead(struct op *op)
{
	const struct cluster *cl = op->client->cluster;
	uint64_t now = rd_sim_now(cl->sim);

	if (op->state == OP_UNDER_WAY && !op->too_late && cut_until(op->client) <= now &&
	    (op->at_monitor || pool_away_until(cl, op->pool) <= now) &&
	    rd_sim_chance(cl->sim, 1, 2))
		op_exec(op);
	notify_forget(op);
	op->result = -ESHUTDOWN;
	op_finish(op);
}

static void op_arrives(struct op *op)
{
	const struct cluster *cl = op->client->cluster;
	uint64_t now = rd_sim_now(cl->sim), until = cut_until(op->client), away;
	int rc;

	away = op->at_monitor ? cl->stalled_until : pool_away_until(cl, op->pool);
	if (until < away)
		until = away;
	if (until > now) {
		rd_sim_at(cl->sim, &op->event,
			  fault_wait(cl->sim, until) + rd_sim_below(cl->sim, RESENT_AFTER));
		return;
	}
	op->state = OP_WAITS;
	rc = op_exec(op);
	if (rc != -EINPROGRESS)
		op_answer(op, rc);
}

void op_answer(struct op *op, int result)
{
	const struct cluster *cl = op->client->cluster;

	op->result = result;
	op->state = OP_ANSWERED;
	rd_sim_at(cl->sim, &op->event, latency(cl));
}

static void op_returns(struct op *op)
{
	const struct client *c = op->client;
	const struct cluster *cl = c->cluster;
	uint64_t now = rd_sim_now(cl->sim);

	if (cut_until(c) > now) {
		op->was_cut = true;
		rd_sim_at(cl->sim, &op->event,
			  fault_wait(cl->sim, cut_until(c)) + rd_sim_below(cl->sim, RESENT_AFTER));
		return;
	}
	if (process_stalled(c->process)) {
		rd_sim_at(cl->sim, &op->event, fault_wait(cl->sim, c->process->stalled_until));
		return;
	}
	/* It is sent again on a new session, where it is refused although it was executed. An OSD
	 * ends the sessions of clients that are blocked. */
	if (c->blocked_epoch && !op->at_monitor && (op->was_cut || rd_sim_chance(cl->sim, 1, 2)))
		op->result = -ESHUTDOWN;
	op_finish(op);
}

static void op_due(struct rd_sim_event *event)
{
	struct op *op = rd_container_of(event, struct op, event);

	if (op->client->process->dead)
		op_of_dead(op);
	else if (op->state == OP_UNDER_WAY)
		op_arrives(op);
	else
		op_returns(op);
}

void op_send(struct client *c, struct op *op)
{
	struct cluster *cl = c->cluster;

	op->event = (struct rd_sim_event){.fn = op_due};
	op->client = c;
	op->state = OP_UNDER_WAY;
	op->was_cut = false;
	op->too_late = c->process->dead;
	op->epoch = c->epoch;
	LIST_INSERT_HEAD(&cl->ops, op, link);
	rd_sim_at(cl->sim, &op->event, latency(cl));
}

static void call_done(struct op *op)
{
	fiber_wake(&op->waiting);
}

int op_call(struct client *c, struct op *op)
{
	op->done = call_done;
	TAILQ_INIT(&op->waiting);
	op_send(c, op);
	fiber_wait(&op->waiting, UINT64_MAX);
	return op->result;
}

/* ---- the map of the OSDs ---- */

struct map_call {
	struct op op;
	struct client *victim;
	uint64_t block_ns;
	bool may_end;
	uint64_t epoch;
};

static int get_map(struct op *op)
{
	struct map_call *call = rd_container_of(op, struct map_call, op);

	call->epoch = op->client->cluster->monitor_epoch;
	return 0;
}

int client_ask_monitor(struct client *c)
{
	struct map_call call = {.op = {.exec = get_map, .at_monitor = true}};

	return op_call(c, &call.op);
}

int client_get_map(struct client *c)
{
	struct map_call call = {.op = {.exec = get_map, .at_monitor = true}};
	int rc = op_call(c, &call.op);

	if (!rc)
		c->epoch = call.epoch;
	return rc;
}

static void map_has_arrived(struct rd_sim_event *event)
{
	struct cluster *cl = rd_container_of(event, struct cluster, map_arrives);

	cl->osd_epoch = cl->monitor_epoch;
}

uint64_t cluster_time(const struct cluster *cl)
{
	return rd_sim_now(cl->sim) + cl->aged_ns;
}

/* The time of a block that exists does not change. */
static void block_now(struct cluster *cl, struct client *victim, uint64_t ns, bool may_end)
{
	if (victim->blocked_epoch)
		return;
	victim->blocked_at = cluster_time(cl);
	victim->blocked_until = victim->blocked_at + ns;
	victim->block_may_end = may_end;
	victim->blocked_epoch = ++cl->monitor_epoch;
	victim->process->blocked_at = rd_sim_now(cl->sim);
	rd_sim_at(cl->sim, &cl->map_arrives, rd_sim_below(cl->sim, MAP_TRAVELS));
	rd_sim_tell(cl->sim, "cluster: client %s is blocked", victim->addr);
}

static int block_exec(struct op *op)
{
	const struct map_call *call = rd_container_of(op, struct map_call, op);

	block_now(op->client->cluster, call->victim, call->block_ns, call->may_end);
	return 0;
}

int client_block(struct client *c, struct client *victim, uint64_t ns, bool may_end)
{
	struct map_call call = {.op = {.exec = block_exec, .at_monitor = true},
				.victim = victim,
				.block_ns = ns,
				.may_end = may_end};

	return op_call(c, &call.op);
}

struct client *client_new(struct cluster *cl, struct process *p)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->cluster = cl;
	c->process = p;
	c->id = ++cl->last_id;
	c->epoch = cl->osd_epoch;
	snprintf(c->addr, sizeof(c->addr), "192.0.2.%u:0/%llu", 11 + p->number,
		 (unsigned long long)c->id);
	LIST_INSERT_HEAD(&cl->clients, c, link);
	return c;
}

/* ---- watches ---- */

struct watcher *watcher_of(struct cluster *cl, const struct client *c, uint64_t cookie)
{
	struct watcher *w;

	LIST_FOREACH (w, &cl->watchers, link)
		if (w->client == c && w->cookie == cookie)
			return w;
	return NULL;
}

void watcher_remove(struct watcher *w)
{
	LIST_REMOVE(w, link);
	notify_watcher_left(w);
	free(w);
}

static void watch_breaks(struct watch *watch)
{
	struct process *before = process_enter(watch->client->process);

	rd_sim_tell(watch->client->cluster->sim, "cluster: client %s has lost its watch of %s",
		    watch->client->addr, watch->object);
	watch->told = true;
	if (watch->failed)
		watch->failed(watch->arg, watch->cookie, -ENOTCONN);
	else
		opened_watch_lost(watch->client, watch->cookie);
	process_enter(before);
}

static void watch_tick(struct rd_sim_event *event)
{
	struct watch *watch = rd_container_of(event, struct watch, tick);
	struct client *c = watch->client;
	struct cluster *cl = c->cluster;
	struct watcher *w = watcher_of(cl, c, watch->cookie);

	if (c->process->dead)
		return;
	rd_sim_at(cl->sim, event, 1 + rd_sim_below(cl->sim, PING_NS));
	if (!client_reaches(c) || process_stalled(c->process) ||
	    pool_away_until(cl, watch->pool) > rd_sim_now(cl->sim))
		return;
	if (w)
		w->alive_at = rd_sim_now(cl->sim);
	else if (!watch->told)
		watch_breaks(watch);
}

struct watch *watch_new(struct client *c, unsigned int pool, const char *object,
			rados_watchcb2_t notified, rados_watcherrcb_t failed, void *arg)
{
	struct cluster *cl = c->cluster;
	struct watch *watch = calloc(1, sizeof(*watch));
	struct watcher *w = calloc(1, sizeof(*w));

	if (!watch || !w)
		abort();
	*watch = (struct watch){.client = c,
				.pool = pool,
				.object = object,
				.cookie = ++cl->last_id,
				.notified = notified,
				.failed = failed,
				.arg = arg,
				.tick = {.fn = watch_tick}};
	*w = (struct watcher){.client = c,
			      .pool = pool,
			      .object = object,
			      .cookie = watch->cookie,
			      .alive_at = rd_sim_now(cl->sim)};
	LIST_INSERT_HEAD(&cl->watches, watch, link);
	LIST_INSERT_HEAD(&cl->watchers, w, link);
	rd_sim_at(cl->sim, &watch->tick, 1 + rd_sim_below(cl->sim, PING_NS));
	return watch;
}

void watch_free(struct watch *watch)
{
	LIST_REMOVE(watch, link);
	rd_sim_cancel(watch->client->cluster->sim, &watch->tick);
	free(watch);
}

static void osd_tick(struct rd_sim_event *event)
{
	struct cluster *cl = rd_container_of(event, struct cluster, tick);
	uint64_t now = rd_sim_now(cl->sim);
	struct watcher *w, *next;

	rd_sim_at(cl->sim, event, TICK_NS);
	for (w = LIST_FIRST(&cl->watchers); w; w = next) {
		uint64_t blocked = w->client->blocked_epoch;

		next = LIST_NEXT(w, link);
		if (pool_away_until(cl, w->pool) > now)
			w->alive_at = now;
		else if ((blocked && blocked <= cl->osd_epoch) || now - w->alive_at > WATCH_NS)
			watcher_remove(w);
	}
}

/* ---- faults ---- */

void cluster_process_died(struct cluster *cl, const struct process *p)
{
	struct op *op;

	LIST_FOREACH (op, &cl->ops, link)
		if (op->client->process == p)
			rd_sim_at(cl->sim, &op->event, rd_sim_below(cl->sim, LATENCY));
}

void cluster_cut(struct cluster *cl, unsigned int machine, uint64_t ns)
{
	cl->cut_until[machine] = rd_sim_now(cl->sim) + ns;
}

void cluster_stall(struct cluster *cl, uint64_t ns)
{
	cl->stalled_until = rd_sim_now(cl->sim) + ns;
}

void cluster_hang_pool(struct cluster *cl, unsigned int pool, uint64_t ns)
{
	cl->hangs_until[pool] = rd_sim_now(cl->sim) + ns;
}

void cluster_block_holder(struct cluster *cl, unsigned int image)
{
	if (cl->images[image].lock_client)
		block_now(cl, cl->images[image].lock_client, BLOCK_DEFAULT, true);
}

/* ---- the end of a block ---- */

/* Would @c write what it was to write before another client got a lock of its? */
static bool has_old_writes(const struct client *c)
{
	const struct opened *o;

	LIST_FOREACH (o, &c->cluster->opened, link)
		if (o->client == c && o->image->lock_client != c && opened_writes(o))
			return true;
	return false;
}

static bool has_open_image(const struct client *c)
{
	const struct opened *o;

	LIST_FOREACH (o, &c->cluster->opened, link)
		if (o->client == c && !c->process->dead)
			return true;
	return false;
}

/* @noticed: librbd has noticed that it does not have certain locks any more. */
static void unblock(struct client *c, bool noticed)
{
	struct opened *o;

	rd_sim_tell(c->cluster->sim, "cluster: client %s is not blocked any more", c->addr);
	c->blocked_epoch = 0;
	c->unblocked_at = rd_sim_now(c->cluster->sim);
	c->cluster->monitor_epoch++;
	LIST_FOREACH (o, &c->cluster->opened, link)
		if (noticed && o->client == c && o->image->lock_client != c)
			o->locked = false;
}

void cluster_ages(struct cluster *cl, bool days)
{
	uint64_t ns = (days ? 8 * 24 : 2) * 3600 * RD_NSEC_PER_SEC;
	struct client *c;

	LIST_FOREACH (c, &cl->clients, link)
		if (c->blocked_epoch && c->blocked_until <= cluster_time(cl) + ns &&
		    has_open_image(c) && (days ? has_old_writes(c) : c->block_may_end))
			return;
	rd_sim_tell(cl->sim, "cluster: %s pass", days ? "days" : "hours");
	cl->aged_ns += ns;
	cl->aged_at = rd_sim_now(cl->sim);
	LIST_FOREACH (c, &cl->clients, link)
		if (c->blocked_epoch && c->blocked_until <= cluster_time(cl))
			unblock(c, days);
}

void cluster_unblock(struct cluster *cl)
{
	struct client *c;

	LIST_FOREACH (c, &cl->clients, link)
		if (c->blocked_epoch && has_open_image(c) && !has_old_writes(c))
			unblock(c, true);
}

const unsigned int cluster_sizes[CLUSTER_SIZES] = {CLUSTER_BLOCKS, 40, 20};

static bool can_resize(const struct client *holder)
{
	return !holder || (client_reaches(holder) && !process_stalled(holder->process) &&
			   !holder->blocked_epoch);
}

void cluster_resize(struct cluster *cl, unsigned int number, unsigned int blocks)
{
	struct image *image = &cl->images[number];
	struct opened *o;

	if (!can_resize(image->lock_client) ||
	    pool_away_until(cl, image->pool) > rd_sim_now(cl->sim))
		return;
	rd_sim_tell(cl->sim, "cluster: %s has %u blocks, had %u", image->name, blocks,
		    image->blocks);
	for (unsigned int i = blocks; i < image->blocks; i++)
		image->values[i] = cl->trimmed(cl->arg, number, i);
	image->blocks = blocks;
	image->resized_at = rd_sim_now(cl->sim);
	LIST_FOREACH (o, &cl->opened, link)
		if (o->image == image && o->changed && watcher_of(cl, o->client, o->cookie))
			rd_sim_at(cl->sim, &o->change, latency(cl));
}

void cluster_heal(struct cluster *cl)
{
	uint64_t now = rd_sim_now(cl->sim);

	cl->stalled_until = 0;
	cl->slow_ns = 0;
	memset(cl->cut_until, 0, sizeof(cl->cut_until));
	for (unsigned int i = 0; i < CLUSTER_POOLS; i++)
		if (cl->hangs_until[i] > now)
			cl->hangs_until[i] = now;
}

/* ---- life ---- */

const struct opened *opened_by(const struct cluster *cl, const struct process *p,
			       const struct image *image)
{
	const struct opened *o;

	LIST_FOREACH (o, &cl->opened, link)
		if (o->client->process == p && o->image == image)
			break;
	return o;
}

int cluster_new(struct rd_sim *sim, struct cluster **out)
{
	struct cluster *cl = calloc(1, sizeof(*cl));

	*out = cl;
	if (!cl)
		return -ENOMEM;
	cl->sim = sim;
	cl->last_id = 4000;
	cl->monitor_epoch = cl->osd_epoch = 1;
	cl->map_arrives.fn = map_has_arrived;
	cl->tick.fn = osd_tick;
	cl->images_count = rd_sim_chance(sim, 1, 4) ? CLUSTER_ALL : CLUSTER_IMAGES;
	for (unsigned int i = 0; i < cl->images_count; i++) {
		struct image *image = &cl->images[i];

		image->number = i;
		image->blocks = CLUSTER_BLOCKS;
		image->pool = i < CLUSTER_IMAGES ? i % CLUSTER_POOLS : CLUSTER_POOLS - 1;
		snprintf(image->name, sizeof(image->name), CLUSTER_IMAGE, i + 1);
		snprintf(image->header, sizeof(image->header), "rbd_header." CLUSTER_IMAGE, i + 1);
	}
	return rd_sim_at(sim, &cl->tick, TICK_NS);
}

void cluster_free(struct cluster *cl)
{
	struct watcher *w;
	struct client *c;

	if (!cl)
		return;
	notify_free_all(cl);
	while ((w = LIST_FIRST(&cl->watchers))) {
		LIST_REMOVE(w, link);
		free(w);
	}
	while ((c = LIST_FIRST(&cl->clients))) {
		LIST_REMOVE(c, link);
		free(c);
	}
	for (unsigned int i = 0; i < sizeof(cl->objects) / sizeof(cl->objects[0]); i++)
		free(cl->objects[i].text);
	rd_sim_cancel(cl->sim, &cl->tick);
	rd_sim_cancel(cl->sim, &cl->map_arrives);
	free(cl);
}
