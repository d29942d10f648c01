/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateways.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/bdev/engine.h"
#include "target/bdev/inherit.h"
#include "target/bdev/jobs.h"
#include "target/config/config.h"
#include "target/manage/objects/opening.h"
#include "target/nvmf/ns.h"
#include "target/transport/rdma/rdma_transport.h"

#include "../faults.h"
#include "hand_over.h"
#include "simfabric/streams.h"

#define LOOK_NS       (20 * RD_NSEC_PER_MSEC)
#define START_AFTER   (3 * RD_NSEC_PER_SEC)  /* at most */
#define OPEN_WAIT     (10 * RD_NSEC_PER_SEC) /* these four as in rdtarget */
#define GIVE_UP_AFTER (5 * RD_NSEC_PER_SEC)
#define CLOSE_WAIT    (10 * RD_NSEC_PER_SEC)
#define THREADS_WAIT  (100 * 86400 * RD_NSEC_PER_SEC) /* days may pass at once */

static const char gateway_text[] =
	SETUP_TARGET "  in_capsule_size: 1KiB\n  buffer_memory: 1MiB\nlisteners:\n"
		     "  - {address: " SETUP_ADDR ", port: %u, provider: iwarp}\n"
		     "subsystems:\n"
		     "  - nqn: " SETUP_NQN "\n"
		     "    allow_any_host: true\n"
		     "    cntlid_min: %u\n"
		     "    cntlid_max: %u\n"
		     "    namespaces:\n";
static const char namespace_text[] =
	"      - {nsid: %u, backend: rbd, ana_group: %u, rbd: {pool: " CLUSTER_POOL
	", image: " CLUSTER_IMAGE ", lock: exclusive}}\n";

void gateway_moves(struct gateway *gw, enum gateway_state state)
{
	gw->state = state;
	gw->state_since = rd_sim_now(gw->all->w->sim);
}

static uint64_t time_in_state(const struct gateway *gw)
{
	return rd_sim_now(gw->all->w->sim) - gw->state_since;
}

/* ---- turns ---- */

struct gateway_before gateway_enter(const struct gateway *gw)
{
	return (struct gateway_before){process_enter(gw->process), rd_sim_enter(gw->sockets)};
}

void gateway_leave(struct gateway_before before)
{
	process_enter(before.process);
	rd_sim_enter(before.sockets);
}

struct actor *gateway_actors(const struct gateway *gw)
{
	unsigned int first = gw->slot < GATEWAYS ? ACTOR_GATEWAY : ACTOR_NEXT;

	return &gw->all->w->actors[first + gw->slot % GATEWAYS * (1 + WORLD_REACTORS)];
}

struct rdt_ns *gateway_namespace(const struct gateway *gw, unsigned int image)
{
	struct rdt_ns *const *ns = gw->target->ns;

	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++)
		if (ns[i] && ns[i]->nsid == image + 1)
			return ns[i];
	return NULL;
}

bool gateway_serves(const struct gateway *gw, unsigned int image)
{
	const struct rdt_ns *ns;

	if (gw->state != GATEWAY_UP)
		return false;
	ns = gateway_namespace(gw, image);
	return ns && ns->state == RDT_NS_LIVE && !rdt_bdev_elsewhere(rdt_bdev_base(ns->bdev));
}

/* Another one has the lock of the first image, and may have changed the reservations. */
static bool is_outdated(const struct gateway *gw)
{
	const struct client *holder = gw->all->cluster->images[0].lock_client;

	return (!holder || holder->process != gw->process) && gateway_serves(gw, 0);
}

static int turn_gateway(struct actor *actor)
{
	const struct gateway *gw = actor->arg;
	struct gateway_before before = gateway_enter(gw);
	struct world *w = gw->all->w;
	int rc;

	if (is_outdated(gw)) {
		w->outdated_at = rd_sim_now(w->sim);
		if (gateway_unfenced(gw, 0))
			w->unfenced_at = rd_sim_now(w->sim);
	}
	rc = rd_loop_turn(actor->loop, 0);
	gateway_leave(before);
	return rc < 0 ? -EIO : 0;
}

static void add_actor(struct gateway *gw, unsigned int n, const char *name, struct rd_loop *loop)
{
	gateway_actors(gw)[n] = (struct actor){
		.name = name, .number = gw->number, .loop = loop, .turn = turn_gateway, .arg = gw};
}

void gateway_stall(struct gateway *gw, uint64_t ns)
{
	uint64_t until = rd_sim_now(gw->all->w->sim) + ns;

	gw->process->stalled_until = until;
	for (unsigned int i = 0; i <= WORLD_REACTORS; i++)
		gateway_actors(gw)[i].stalled_until = until;
}

/* ---- start ---- */

static struct gateway *gateway_of(const struct rdt_env *env)
{
	return rd_container_of(env, struct gateway, env);
}

static int open_image(struct rdt_target *target, const struct rdt_ns_config *cfg,
		      struct rdt_bdev **out)
{
	const struct gateway *gw = gateway_of(target->env);
	struct rdt_bdev_told told;
	char err[256], *name = NULL;
	bool comes;

	if (rdt_inherit_storage(SETUP_NQN, cfg, &name))
		return -ENOMEM;
	comes = gw->env.inherit && rdt_inherit_told(gw->env.inherit, name, &told);
	free(name);
	return gw->module.open(gw->module.ctx, cfg, comes ? &told : NULL, gw->log, out, err,
			       sizeof(err));
}

static int gateway_config(struct gateway *gw)
{
	char text[SETUP_TEXT + CLUSTER_ALL * (sizeof(namespace_text) + sizeof(CLUSTER_IMAGE))];
	int len = snprintf(text, sizeof(text), gateway_text, WORLD_PORT + gw->number,
			   1 + 30000 * gw->number, 30000 * (gw->number + 1));

	for (unsigned int i = 0; i < gw->all->cluster->images_count; i++)
		len += snprintf(text + len, sizeof(text) - (size_t)len, namespace_text, i + 1,
				i + 1, gw->all->cluster->images[i].pool, i + 1);
	return setup_load(text, gw->log, &gw->cfg);
}

static int new_process(struct gateway *gw)
{
	struct process *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	*p = (struct process){.sim = gw->all->w->sim,
			      .cluster = gw->all->cluster,
			      .number = gw->number,
			      .next = gw->process};
	gw->process = p;
	return 0;
}

static int create_target(struct gateway *gw)
{
	struct rdt_module_abi abi = RDT_MODULE_ABI;
	struct rdt_target *t;
	int rc;

	abi.engines_loop = rdt_engines_loop;
	abi.sync_error = rdt_bdev_sync_error;
	rc = rdt_module_init(&abi, &gw->module);
	if (!rc)
		rc = rdt_target_create(gw->cfg, gw->log, gw->loop, &gw->env, NULL, &gw->target);
	if (rc)
		return rc;
	t = gw->target;
	rdt_opening_begin(t); /* rdt_opening_wait() would turn the loop itself */
	return 0;
}

/* The loop of the process before may have messages of what is freed. */
static int new_loop(struct gateway *gw)
{
	struct rd_loop_opts opts = {
		.clock = rd_sim_clock(gw->all->w->sim), .seed = gw->loop_seed, .log = gw->log};

	rd_loop_destroy(&gw->loop);
	return rd_loop_create(&opts, &gw->loop);
}

int gateway_start(struct gateway *gw, const struct rdt_inherit *inherit)
{
	struct world *w = gw->all->w;
	struct gateway_before before;
	int rc = new_process(gw);

	if (!rc)
		rc = new_loop(gw);
	if (rc)
		return rc;
	gw->env.seed = rd_sim_random(w->sim) | 1;
	gw->env.inherit = inherit;
	memset(gw->yields, 0, sizeof(gw->yields));
	before = gateway_enter(gw);
	rc = create_target(gw);
	gateway_leave(before);
	add_actor(gw, 0, "main", gw->loop);
	gateway_moves(gw, GATEWAY_STARTING);
	rd_sim_tell(w->sim, "gateway %u starts", gw->number);
	return rc;
}

static bool storage_is_open(const struct rdt_target *t)
{
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++)
		if (t->ns[i] && t->ns[i]->state == RDT_NS_OPENING)
			return false;
	return true;
}

static int gateway_opens(struct gateway *gw)
{
	struct rdt_target *t = gw->target;
	struct gateway_before before = gateway_enter(gw);
	int rc = rdt_listeners_start(t);

	t->opening = false;
	for (unsigned int i = 0; i < t->reactors_count && !rc; i++) {
		rc = rdt_reactor_setup(&t->reactors[i]);
		add_actor(gw, 1 + i, "reactor", t->reactors[i].loop);
	}
	if (!rc && !gw->process->dead) {
		rc = rdt_listeners_open(t);
		/* It listens when the other process does not any more. */
		if (rc && hand_has_other(gw))
			rc = 0;
	}
	gateway_leave(before);
	gateway_moves(gw, gateway_is_used(gw) ? GATEWAY_UP : GATEWAY_READY);
	rd_sim_tell(gw->all->w->sim, "gateway %u is %s", gw->number,
		    gateway_is_used(gw) ? "up" : "ready");
	if (gw->state == GATEWAY_READY)
		hand_ready(gw->all->hands[gw->number]);
	return rc;
}

/* ---- end ---- */

static void gateway_drained(struct rdt_target *t)
{
	struct gateway *gw = gateway_of(t->env);

	hand_drained(gw->all->hands[gw->number], gw);
	gateway_moves(gw, GATEWAY_DRAINED);
}

static void abandon(struct gateway *gw)
{
	struct gateway_before before = gateway_enter(gw);

	gw->abandoned = true;
	rdt_target_abandon(gw->target);
	gateway_leave(before);
}

void gateway_begin_drain(struct gateway *gw)
{
	struct gateway_before before = gateway_enter(gw);

	gateway_moves(gw, GATEWAY_DRAINING);
	gw->abandoned = false;
	rdt_target_drain(gw->target, gateway_drained);
	if (gw->process->dead)
		abandon(gw);
	gateway_leave(before);
}

void gateway_drain(struct gateway *gw)
{
	rd_sim_tell(gw->all->w->sim, "gateway %u drains", gw->number);
	hand_ends(gw->all->hands[gw->number], false);
	gateway_begin_drain(gw);
}

void gateway_hands(struct gateway *last, struct gateway *next)
{
	next->unwell_at = later_of(next->unwell_at, last->unwell_at);
	for (unsigned int i = 0; i < CLUSTER_POOLS; i++)
		next->pool_unwell_at[i] =
			later_of(next->pool_unwell_at[i], last->pool_unwell_at[i]);
	memcpy(next->yields, last->yields, sizeof(next->yields));
	/* It begins anew to look whether the holder of a lock is alive. */
	for (unsigned int i = 0; i < CLUSTER_ALL; i++)
		next->waits_since[i] = rd_sim_now(last->all->w->sim);
	last->all->gateway[last->number] = next;
	gateway_moves(next, GATEWAY_UP);
}

/* What is left of a process that was killed gives back its memory, and reaches nobody. */
void gateway_dies(struct gateway *gw)
{
	gateway_stall(gw, 0);
	gw->process->dead = true;
	rd_sim_end_process(gw->all->w->sim, gw->sockets);
	cluster_process_died(gw->all->cluster, gw->process);
}

void gateway_kill(struct gateway *gw)
{
	struct rd_sim *sim = gw->all->w->sim;

	rd_sim_tell(sim, "gateway %u is killed", gw->number);
	gateway_dies(gw);
	rd_sim_kill(sim, (uint16_t)(WORLD_PORT + gw->number));
	hand_ends(gw->all->hands[gw->number], true);
	gateway_begin_drain(gw);
}

/* Its I/O does not end: as rdtarget does, it ends without that. */
static void gateway_exits(struct gateway *gw)
{
	rd_sim_tell(gw->all->w->sim, "gateway %u exits with I/O in flight", gw->number);
	gateway_dies(gw);
}

/* As rdtarget does at its end: when the cluster does not answer in time the process exits. */
static void *close_module(void *arg)
{
	struct gateway *gw = arg;

	if (!gw->module.finish(gw->module.ctx, CLOSE_WAIT)) {
		rd_sim_tell(gw->all->w->sim, "gateway %u exits without closing its storage",
			    gw->number);
		gateway_judge_end(gw, "closed its storage");
		gateway_dies(gw);
		if (!gw->module.finish(gw->module.ctx, THREADS_WAIT))
			world_fail(gw->all->w, "gateway %u: threads of the module do not end",
				   gw->number);
	}
	gateway_moves(gw, GATEWAY_CLOSED);
	return NULL;
}

static int gateway_ends(struct gateway *gw)
{
	struct rdt_target *t = gw->target;
	struct gateway_before before = gateway_enter(gw);
	char name[32];
	int rc;

	rdt_target_stop(t);
	snprintf(name, sizeof(name), "gateway %u", gw->number);
	world_check_pools(gw->all->w, name, t);
	for (unsigned int i = 0; i < t->reactors_count; i++)
		rdt_reactor_teardown(&t->reactors[i]);
	rdt_target_destroy(&gw->target);
	for (unsigned int i = 0; i <= WORLD_REACTORS; i++)
		gateway_actors(gw)[i].loop = NULL;
	gateway_moves(gw, GATEWAY_CLOSING);
	rc = fiber_start(close_module, gw, NULL);
	gateway_leave(before);
	return rc;
}

static void gateway_closed(struct gateway *gw)
{
	if (gw->process->fibers)
		return; /* the fiber that has closed it */
	gateway_moves(gw, GATEWAY_DOWN);
	rd_sim_tell(gw->all->w->sim, "gateway %u is down", gw->number);
}

static void all_are_down(struct gateways *all)
{
	for (unsigned int i = 0; i < SLOTS; i++)
		if (all->slots[i].state != GATEWAY_DOWN)
			return;
	all->w->target_state = TARGET_DRAINED;
}

/* An operator repeats the command that a hand-over refuses. */
static void tell_to_wait(struct gateway *gw)
{
	struct gateways *all = gw->all;
	bool *due = &all->wait_due[gw->number];

	if (!*due || hand_refuses(all->hands[gw->number]))
		return;
	*due = false;
	for (unsigned int i = 0; i < all->cluster->images_count && gw->state == GATEWAY_UP; i++) {
		if (all->healed_at[i] && gw->yields[i])
			all->healed_at[i] = later_of(all->healed_at[i], rd_sim_now(all->w->sim));
		gateway_claim(gw, i, RDT_CLAIM_WAIT);
	}
}

static void gateway_look(struct rd_sim_event *event)
{
	struct gateway *gw = rd_container_of(event, struct gateway, look);
	struct gateways *all = gw->all;
	int rc = 0;

	rd_sim_at(all->w->sim, event, LOOK_NS);
	gateway_note(gw);
	if (gateway_is_used(gw)) {
		tell_to_wait(gw);
		gateway_judge(gw);
	}
	if (gw->process && process_stalled(gw->process))
		return;
	switch (gw->state) {
	case GATEWAY_DOWN:
		if (all->ending)
			all_are_down(all);
		else if (gateway_is_used(gw) &&
			 rd_sim_chance(all->w->sim, LOOK_NS, START_AFTER / 2))
			rc = gateway_start(gw, NULL);
		break;
	case GATEWAY_STARTING:
		if (gw->process->dead || storage_is_open(gw->target) ||
		    time_in_state(gw) > OPEN_WAIT)
			rc = gateway_opens(gw);
		break;
	case GATEWAY_READY:
		break;
	case GATEWAY_UP:
		if (all->ending)
			gateway_drain(gw);
		break;
	case GATEWAY_DRAINING:
		if (hand_waits(all->hands[gw->number], gw))
			break;
		if (!gw->abandoned && time_in_state(gw) > DRAIN_TIMEOUT) {
			gateway_judge_end(gw, "drained");
			abandon(gw);
		}
		if (!gw->process->dead && time_in_state(gw) > DRAIN_TIMEOUT + GIVE_UP_AFTER)
			gateway_exits(gw);
		break;
	case GATEWAY_DRAINED:
		if (!hand_lingers(all->hands[gw->number], gw))
			rc = gateway_ends(gw);
		break;
	case GATEWAY_CLOSING:
		break;
	case GATEWAY_CLOSED:
		gateway_closed(gw);
		break;
	}
	if (rc)
		world_fail(all->w, "gateway %u: %s", gw->number, strerror(-rc));
}

/* ---- invariants ---- */

static void cluster_says(void *arg, const char *text)
{
	world_fail(arg, "%s", text);
}

void gateway_claim(struct gateway *gw, unsigned int image, enum rdt_claim claim)
{
	struct rdt_ns *ns = gateway_namespace(gw, image);
	struct gateway_before before;

	if (hand_refuses(gw->all->hands[gw->number]))
		return;
	before = gateway_enter(gw);
	gateway_told(gw, image, claim);
	gw->yields[image] = claim == RDT_CLAIM_YIELD;
	if (claim == RDT_CLAIM_TAKE)
		gw->all->cluster->taken_at = cluster_time(gw->all->cluster);
	if (ns && ns->bdev)
		rdt_bdev_claim(ns->bdev, claim);
	gateway_leave(before);
}

void gateways_heal(struct gateways *all)
{
	cluster_heal(all->cluster);
	for (unsigned int i = 0; i < SLOTS; i++)
		if (all->slots[i].process)
			gateway_stall(&all->slots[i], 0);
	for (unsigned int i = 0; i < GATEWAYS; i++) {
		all->wait_due[i] = all->gateway[i]->state == GATEWAY_UP;
		tell_to_wait(all->gateway[i]);
	}
	for (unsigned int i = 0; i < all->cluster->images_count; i++) {
		all->healed_at[i] = rd_sim_now(all->w->sim);
		all->served_at[i] = 0;
		all->ceph_decides[i] = false;
	}
	for (unsigned int i = 0; i < CLUSTER_IMAGES && all->w->ending; i++)
		gateways_resize(all, i, CLUSTER_BLOCKS);
}

void gateways_hang_pool(struct gateways *all, unsigned int pool, uint64_t ns)
{
	cluster_hang_pool(all->cluster, pool, ns);
	for (unsigned int i = 0; i < all->cluster->images_count; i++)
		if (all->healed_at[i] && all->cluster->images[i].pool == pool)
			all->healed_at[i] = all->cluster->hangs_until[pool];
}

/* ---- in the place of the world's target ---- */

static void log_gateway(void *arg, enum rd_log_level level, const char *line)
{
	const struct gateway *gw = arg;

	(void)level;
	rd_sim_tell(gw->all->w->sim, "gateway %u: %s", gw->number, line);
}

static const struct rdt_rdma_env rdma_env = {.fab_open = rd_sim_open};
static const struct rdt_rdma_env iwarp_env = {.fab_open = rd_fab_iwarp_open};

static int new_gateway(struct gateways *all, unsigned int slot)
{
	struct gateway *gw = &all->slots[slot];
	struct rd_sim *sim = all->w->sim;
	int rc;

	gw->all = all;
	gw->slot = slot;
	gw->number = slot % GATEWAYS;
	gw->sockets = 1 + slot;
	gw->look.fn = gateway_look;
	gw->loop_seed = rd_sim_random(sim) | 1;
	gw->env = (struct rdt_env){.clock = rd_sim_clock(sim),
				   .transport_env[RDT_TRANSPORT_RDMA] =
					   all->w->iwarp ? &iwarp_env : &rdma_env,
				   .bdev_open = open_image,
				   .run_job = rdt_job_run_now};
	rc = rd_log_create("sim", -1, RD_LOG_DEBUG, log_gateway, gw, &gw->log);
	return rc ? rc : gateway_config(gw);
}

/* The configuration does not change. */
void target_reload(struct world *w, const struct setup *setup)
{
	(void)w, (void)setup;
}

/* As check_new() expects. */
static void fill_images(struct cluster *cl)
{
	for (unsigned int i = 0; i < CLUSTER_IMAGES; i++)
		for (unsigned int j = 0; j < WORLD_BLOCKS; j++)
			cl->images[i].values[j] = i * WORLD_BLOCKS + j;
}

const unsigned int target_namespaces = CLUSTER_IMAGES;

/* Is each image served, with the size that it has? */
static bool world_is_settled(const struct world *w)
{
	return gateways_serve(w->gateways) && gateways_know_sizes(w->gateways);
}

int target_config(struct world *w, const struct setup *setup)
{
	struct gateways *all = calloc(1, sizeof(*all));
	int rc = all ? cluster_new(w->sim, &all->cluster) : -ENOMEM;

	(void)setup;
	w->gateways = all;
	if (rc)
		return rc;
	all->w = w;
	fill_images(all->cluster);
	all->cluster->violated = cluster_says;
	all->cluster->written = world_judge_write;
	all->cluster->arg = w;
	all->cluster->trimmed = image_trimmed;
	w->judge = gateways_judge_answer;
	w->judge_device = gateways_judge_device;
	w->was_shorter = gateways_were_shorter;
	w->settled = world_is_settled;
	/* So that time passes in few steps: a takeover takes seconds. */
	w->submits_in = 60;
	if (rd_sim_chance(w->sim, 1, 2))
		w->devs = WORLD_HOSTS; /* of the first image only */
	else
		w->submits_in = 120;
	for (unsigned int i = 0; i < GATEWAYS; i++)
		all->gateway[i] = &all->slots[i];
	/* The second process of each is there only when it can be used. */
	for (unsigned int i = 0; i < (w->opts.faults & fault_upgrade ? SLOTS : GATEWAYS) && !rc;
	     i++)
		rc = new_gateway(all, i);
	return rc;
}

int target_start(struct world *w)
{
	int rc = 0;

	for (unsigned int i = 0; i < GATEWAYS && !rc; i++)
		rc = gateway_start(w->gateways->gateway[i], NULL);
	for (unsigned int i = 0; i < SLOTS; i++)
		if (w->gateways->slots[i].all)
			rd_sim_at(w->sim, &w->gateways->slots[i].look, LOOK_NS);
	w->target_state = TARGET_UP;
	return rc;
}

/* Each gateway has a loop of its own. */
int instances_new(struct world *w)
{
	w->serving = &w->instances[0];
	rd_sim_random(w->sim);
	return 0;
}

void instances_free(struct world *w)
{
	(void)w;
}

void target_stop(struct world *w, enum target_stop how)
{
	(void)how;
	w->target_state = TARGET_DRAINING;
	memset(w->gateways->healed_at, 0, sizeof(w->gateways->healed_at));
	gateways_not_handed(w->gateways);
	w->gateways->ending = true;
	w->target = w->gateways->gateway[0]->target; /* until target_end() */
}

static void free_gateway(struct gateway *gw)
{
	struct process *p;

	if (!gw->all)
		return;
	rd_sim_cancel(gw->all->w->sim, &gw->look);
	rdt_config_put(&gw->cfg);
	rd_loop_destroy(&gw->loop);
	rd_log_destroy(&gw->log);
	while ((p = gw->process)) {
		gw->process = p->next;
		free(p);
	}
}

void target_end(struct world *w)
{
	struct gateways *all = w->gateways;

	if (!LIST_EMPTY(&all->cluster->opened))
		world_fail(w, "a gateway that has ended has an image open");
	for (unsigned int i = 0; i < GATEWAYS; i++)
		hand_free(&all->hands[i]);
	for (unsigned int i = 0; i < SLOTS; i++)
		free_gateway(&all->slots[i]);
	cluster_free(all->cluster);
	free(all);
	w->gateways = NULL;
	w->target = NULL;
	w->target_state = TARGET_DOWN;
}
