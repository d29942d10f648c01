/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of a world with two gateways. They come in bursts. After each of them all is well, but for
 * one last loss in some cases, and for a pool that hangs in some, which is no excuse for images of
 * the other one; and each image must be served before the next one begins.
 */
#include "../faults.h"

#include <errno.h>
#include <stdlib.h>

#include "../fault_parts.h"
#include "../resv.h"
#include "gateways.h"
#include "hand_over.h"

#define NEXT_FAULT (4 * RD_NSEC_PER_SEC) /* at most, from one to the next */
#define BURST_MAX  (30 * RD_NSEC_PER_SEC)
#define LOOK_NS    (50 * RD_NSEC_PER_MSEC)
#define HOLD_MAX   (12 * RD_NSEC_PER_SEC)
#define OUTAGE_MAX (45 * RD_NSEC_PER_SEC)   /* longer than Ceph waits for a watch */
#define CALM_NS    (5 * RD_NSEC_PER_SEC)    /* after a burst, with reservations */
#define HAND_NS    (400 * RD_NSEC_PER_MSEC) /* in a hand-over */
#define SLOW_MAX   (2 * RD_NSEC_PER_SEC)

enum gateway_fault {
	GW_LINK,    /* a connection of a host is lost */
	GW_ONE_END, /* only one end learns that soon */
	GW_PATH,    /* the messages of one path wait */
	GW_HOSTS,   /* a gateway is cut off from its hosts */
	GW_PAUSE,   /* a gateway stands still */
	GW_THREAD,  /* one thread of a gateway, or a host, stands still */
	GW_OFF,     /* a gateway is cut off from the cluster */
	GW_CLUSTER, /* the cluster does not answer */
	GW_POOL,    /* one pool of it does not */
	GW_DELAY,   /* the cluster is slow */
	GW_BLOCK,   /* an operator blocks the gateway that has the lock of an image */
	GW_AGE,     /* hours pass while nothing happens */
	GW_UNBLOCK, /* an operator ends the block of a gateway */
	GW_CHANGE,  /* an operator changes the size of an image */
	GW_TAKE,    /* rdctl ana GROUP take */
	GW_YIELD,   /* rdctl ana GROUP yield; later wait */
	GW_DRAIN,   /* a gateway ends and starts again */
	GW_KILL,    /* a gateway is killed and starts again */
	GW_ABORT,   /* a host cancels a command */
	GW_UPGRADE, /* rdctl upgrade */
	GW_RESERVE, /* hosts change reservations, in half of the seeds, all the time */
	GATEWAY_FAULTS,
};

const unsigned int fault_upgrade = 1u << GW_UPGRADE;
const unsigned int faults_on_request = 0;

const char *const fault_names[] = {
	[GW_LINK] = "link",      [GW_ONE_END] = "half-open", [GW_PATH] = "path",
	[GW_HOSTS] = "hosts",    [GW_PAUSE] = "pause",       [GW_THREAD] = "thread",
	[GW_OFF] = "off",        [GW_CLUSTER] = "cluster",   [GW_DELAY] = "delay",
	[GW_POOL] = "pool",      [GW_AGE] = "age",           [GW_UNBLOCK] = "unblock",
	[GW_BLOCK] = "block",    [GW_CHANGE] = "change",     [GW_TAKE] = "take",
	[GW_YIELD] = "yield",    [GW_DRAIN] = "drain",       [GW_KILL] = "kill",
	[GW_ABORT] = "cancel",   [GW_RESERVE] = "reserve",   [GW_UPGRADE] = "upgrade",
	[GATEWAY_FAULTS] = NULL,
};

struct faults {
	struct world *w;
	struct rd_sim_event next;
	uint64_t burst_until; /* 0: all is well */
	struct fault_port ports[GATEWAYS];
	struct rd_sim_event cluster_well;
	uint64_t calm_until; /* no burst before */
};

/* Most faults are short, few are long. */
static uint64_t lasts(struct world *w, uint64_t max)
{
	return rd_sim_below(w->sim, rd_sim_chance(w->sim, 1, 3) ? max : max / 8);
}

static void hold_host(struct world *w, unsigned int host, unsigned int gateway, uint64_t ns)
{
	fault_hold_path(w, host, gateway, rd_sim_chance(w->sim, 1, 2), ns);
}

static void lose_hosts(struct faults *f, unsigned int gateway)
{
	struct world *w = f->w;
	uint64_t ns = lasts(w, HOLD_MAX);

	for (unsigned int i = 0; i < WORLD_HOSTS; i++)
		hold_host(w, i, gateway, ns);
	fault_port_down(&f->ports[gateway], ns);
}

static void stall_thread(struct world *w)
{
	unsigned int any = ACTOR_DEV + (unsigned int)rd_sim_below(w->sim, ACTOR_NEXT - ACTOR_DEV);
	unsigned int thread = (any - ACTOR_GATEWAY) % (1 + WORLD_REACTORS);
	unsigned int number = (any - ACTOR_GATEWAY) / (1 + WORLD_REACTORS);
	bool of_gateway = any >= ACTOR_GATEWAY && any < ACTOR_MORE_DEV;
	struct actor *actor =
		of_gateway ? &gateway_actors(hand_some(w->gateways->gateway[number]))[thread]
			   : &w->actors[any];

	actor->stalled_until = rd_sim_now(w->sim) + lasts(w, HOLD_MAX);
	if (of_gateway && actor->stalled_until > w->contradicts_until)
		w->contradicts_until = actor->stalled_until;
}

static void cluster_is_well(struct rd_sim_event *event)
{
	struct faults *f = rd_container_of(event, struct faults, cluster_well);

	f->w->gateways->cluster->slow_ns = 0;
}

/* Most faults are of the image that hosts use most. */
static unsigned int some_image(struct world *w)
{
	unsigned int any = (unsigned int)rd_sim_below(w->sim, CLUSTER_IMAGES);

	return w->devs == WORLD_HOSTS || rd_sim_chance(w->sim, 1, 2) ? 0 : any;
}

static void gateway_suffers(struct gateway *gw, enum gateway_fault kind)
{
	struct world *w = gw->all->w;
	unsigned int image = some_image(w);

	if (kind == GW_OFF)
		cluster_cut(gw->all->cluster, gw->number, lasts(w, OUTAGE_MAX));
	if (gw->state != GATEWAY_UP)
		return;
	switch (kind) {
	case GW_PAUSE:
		gateway_stall(hand_some(gw), lasts(w, OUTAGE_MAX));
		break;
	case GW_TAKE:
		gateway_claim(gw, image, RDT_CLAIM_TAKE);
		break;
	case GW_YIELD:
		gateway_claim(gw, image,
			      rd_sim_chance(w->sim, 1, 2) ? RDT_CLAIM_YIELD : RDT_CLAIM_WAIT);
		break;
	case GW_DRAIN:
		gateway_drain(gw);
		break;
	case GW_KILL:
		gateway_kill(gw);
		break;
	case GW_UPGRADE:
		hand_begin(gw->all->hands[gw->number]);
		break;
	default:
		break;
	}
}

static void note_fault(struct gateways *all, enum gateway_fault kind)
{
	if (kind == GW_UPGRADE) /* which notes what it does */
		return;
	gateways_not_handed(all);
	if (kind != GW_POOL)
		all->fault_at = rd_sim_now(all->w->sim);
	if (kind <= GW_HOSTS || kind == GW_THREAD)
		gateways_disturb_hosts(all, HOLD_MAX);
	else if (kind != GW_DELAY && kind != GW_CHANGE && kind != GW_TAKE && kind != GW_ABORT)
		gateways_not_told(all);
}

static void gateways_suffer(struct faults *f, enum gateway_fault kind)
{
	struct world *w = f->w;
	struct gateways *all = w->gateways;
	unsigned int number = (unsigned int)rd_sim_below(w->sim, GATEWAYS), blocks;
	uint64_t ns;

	rd_sim_tell(w->sim, "fault: %s, gateway %u", fault_names[kind], number);
	note_fault(all, kind);
	switch (kind) {
	case GW_LINK:
		fault_break_link(w, RD_SIM_CUT, 0);
		break;
	case GW_ONE_END:
		fault_break_link(w, RD_SIM_HALF_OPEN, 0);
		break;
	case GW_PATH:
		/* Two random numbers: the order of arguments would depend on the compiler. */
		ns = lasts(w, HOLD_MAX);
		hold_host(w, (unsigned int)rd_sim_below(w->sim, WORLD_HOSTS), number, ns);
		break;
	case GW_HOSTS:
		lose_hosts(f, number);
		break;
	case GW_THREAD:
		stall_thread(w);
		break;
	case GW_CLUSTER:
		cluster_stall(all->cluster, lasts(w, OUTAGE_MAX));
		break;
	case GW_POOL:
		gateways_hang_pool(all, number % CLUSTER_POOLS, lasts(w, OUTAGE_MAX));
		break;
	case GW_DELAY:
		all->cluster->slow_ns = lasts(w, SLOW_MAX);
		rd_sim_at(w->sim, &f->cluster_well, lasts(w, HOLD_MAX));
		break;
	case GW_BLOCK:
		cluster_block_holder(all->cluster, some_image(w));
		break;
	case GW_AGE:
		cluster_ages(all->cluster, rd_sim_chance(w->sim, 1, 2));
		break;
	case GW_UNBLOCK:
		cluster_unblock(all->cluster);
		break;
	case GW_CHANGE:
		blocks = cluster_sizes[rd_sim_below(w->sim, CLUSTER_SIZES)];
		gateways_resize(all, some_image(w), blocks);
		break;
	case GW_ABORT:
		host_cancels(w->hosts[rd_sim_below(w->sim, w->devs)]);
		break;
	default:
		gateway_suffers(all->gateway[number], kind);
		break;
	}
}

static void end_burst(struct faults *f)
{
	static const enum gateway_fault losses[] = {GW_BLOCK, GW_DRAIN, GW_KILL, GW_UPGRADE};
	bool upgrades = f->w->opts.faults & fault_upgrade;
	enum gateway_fault last = losses[rd_sim_below(f->w->sim, upgrades ? 4 : 3)];

	f->burst_until = 0;
	f->w->gateways->bursts = false;
	faults_heal(f);
	if (f->w->opts.faults & 1u << last)
		gateways_suffer(f, last);
	if (f->w->opts.faults & 1u << GW_POOL && rd_sim_chance(f->w->sim, 1, 4)) {
		rd_sim_tell(f->w->sim, "fault: %s, for long", fault_names[GW_POOL]);
		gateways_hang_pool(f->w->gateways,
				   (unsigned int)rd_sim_below(f->w->sim, CLUSTER_POOLS),
				   OUTAGE_MAX);
	}
}

/* Whether the last burst is over for good: each image is served, and no reservation command of that
 * burst takes effect any more. */
static bool is_calm(struct faults *f)
{
	struct world *w = f->w;

	if (!w->settled(w)) {
		f->calm_until = rd_sim_now(w->sim) + (w->reserves ? CALM_NS : 0);
		return false;
	}
	if (rd_sim_now(w->sim) < f->calm_until)
		return false;
	resv_settled(w->resv, rd_sim_now(w->sim));
	return true;
}

/* One of those that may happen; GW_RESERVE: there is none. */
static enum gateway_fault choose_fault(struct world *w)
{
	unsigned int may = w->opts.faults & ((1u << GW_RESERVE) - 1), kind = 0;
	unsigned int left = (unsigned int)__builtin_popcount(may);

	if (!left)
		return GW_RESERVE;
	for (left = (unsigned int)rd_sim_below(w->sim, left); left || !(may >> kind & 1); kind++)
		left -= may >> kind & 1;
	return (enum gateway_fault)kind;
}

static void next_gateway_fault(struct rd_sim_event *event)
{
	struct faults *f = rd_container_of(event, struct faults, next);
	struct world *w = f->w;
	enum gateway_fault kind = choose_fault(w);

	if (w->ending)
		return;
	if (!f->burst_until && !is_calm(f)) {
		rd_sim_at(w->sim, &f->next, LOOK_NS);
		return;
	}
	if (!f->burst_until) {
		f->burst_until = rd_sim_now(w->sim) + rd_sim_below(w->sim, BURST_MAX);
		w->gateways->bursts = true;
	} else if (rd_sim_now(w->sim) > f->burst_until)
		end_burst(f);
	else if (kind != GW_RESERVE)
		gateways_suffer(f, kind);
	rd_sim_at(w->sim, &f->next,
		  rd_sim_below(w->sim, kind == GW_UPGRADE ? HAND_NS : NEXT_FAULT));
}

int faults_new(struct world *w, struct faults **out)
{
	struct faults *f = calloc(1, sizeof(*f));

	*out = f;
	if (!f)
		return -ENOMEM;
	f->w = w;
	w->reserves = w->opts.faults & 1u << GW_RESERVE && rd_sim_chance(w->sim, 1, 2);
	f->next.fn = next_gateway_fault;
	for (unsigned int i = 0; i < GATEWAYS; i++)
		fault_port_init(&f->ports[i], w, i);
	f->cluster_well.fn = cluster_is_well;
	for (unsigned int i = 0; i < GATEWAYS && w->opts.faults & fault_upgrade; i++) {
		struct hand_over **hand = &w->gateways->hands[i];
		bool kills = w->opts.faults & 1u << GW_KILL,
		     stands = w->opts.faults & 1u << GW_PAUSE;

		if (hand_new(w->gateways, i, kills, stands, hand))
			return -ENOMEM;
	}
	return rd_sim_at(w->sim, &f->next, rd_sim_below(w->sim, NEXT_FAULT));
}

void faults_heal(struct faults *f)
{
	fault_heal_parts(f->w);
	gateways_heal(f->w->gateways);
}

void faults_free(struct faults *f)
{
	if (!f)
		return;
	rd_sim_cancel(f->w->sim, &f->next);
	rd_sim_cancel(f->w->sim, &f->cluster_well);
	for (unsigned int i = 0; i < GATEWAYS; i++)
		rd_sim_cancel(f->w->sim, &f->ports[i].up);
	free(f);
}
