/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two gateways to the images of a simulated cluster, in the place of the one target of a world.
 * Each is a process with a main thread, reactors, and the threads of the module rbd, and listens on
 * one of the two ports to which hosts have paths. For a moment it is two processes, of which one
 * hands over to the other (hand_over.h).
 */
#ifndef SIM_GATEWAYS_H
#define SIM_GATEWAYS_H

#include "../world.h"
#include "cluster.h"
#include "target/bdev/module.h"

#define GATEWAYS CLUSTER_MACHINES
#define SLOTS    (2u * GATEWAYS) /* processes */

enum gateway_state {
	GATEWAY_DOWN,     /* starts after some time */
	GATEWAY_STARTING, /* waits for its storage */
	GATEWAY_READY,    /* to take over from the process before */
	GATEWAY_UP,
	GATEWAY_DRAINING,
	GATEWAY_DRAINED,
	GATEWAY_CLOSING, /* the module finishes its work */
	GATEWAY_CLOSED,
};

struct gateway {
	struct gateways *all;
	unsigned int number;     /* of its machine */
	unsigned int slot;       /* among the processes */
	struct process *process; /* of this start */
	struct rd_log *log;
	struct rd_loop *loop; /* of the main thread */
	uint64_t loop_seed;
	struct rdt_env env;
	struct rdt_config *cfg;
	struct rdt_target *target;
	struct rdt_module module;
	enum gateway_state state;
	uint64_t state_since;
	uint64_t unwell_at; /* when it last stood still, or its cluster was not well */
	uint64_t pool_unwell_at[CLUSTER_POOLS]; /* or the pool hung */
	bool abandoned;                         /* a drain took too long */
	bool yields[CLUSTER_ALL];               /* it was told to give up the lock */
	/* Since when it could take the lock: nobody has it who is well. */
	uint64_t waits_since[CLUSTER_ALL];
	unsigned int sockets; /* the number of its process: rd_sim_enter() */
	struct rd_sim_event look;
};

struct gateways {
	struct world *w;
	struct cluster *cluster;
	struct gateway *gateway[GATEWAYS]; /* one of each machine: that which hosts use */
	struct gateway slots[SLOTS];
	struct hand_over *hands[GATEWAYS]; /* NULL: no gateway hands over */
	/* By image; 0: there are faults, or a gateway has served since. */
	uint64_t healed_at[CLUSTER_ALL];
	/* Since when a gateway that has its lock has served it; 0: not since the last faults. */
	uint64_t served_at[CLUSTER_ALL];
	/* Had gateways to leave it to Ceph's rules who serves it, since the last faults? */
	bool ceph_decides[CLUSTER_ALL];
	/* When it was possible last that somebody took that for the size of the image. */
	uint64_t size_at[CLUSTER_IMAGES][CLUSTER_SIZES];
	uint64_t fault_at; /* the last fault but for pools that hang */
	/* Since when the gateway serves the image, and is well, and no fault has disturbed the ways
	 * to hosts; 0: it does not. */
	uint64_t good_since[GATEWAYS][CLUSTER_IMAGES];
	/* Which gateway was told last to take the lock, and when; 0: it has, or a fault came since.
	 */
	struct {
		const struct gateway *gateway;
		uint64_t at;
	} told[CLUSTER_IMAGES];
	/* When a process handed the image over to the next one, and nothing else happened since; 0:
	 * that one has its lock. */
	uint64_t handed_at[CLUSTER_ALL];
	bool bursts; /* faults go on */
	bool ending;
	bool wait_due[GATEWAYS]; /* they are to be told that they may take any lock */
};

static inline uint64_t later_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* What runs now is code of its process. */
struct gateway_before {
	struct process *process;
	unsigned int sockets;
};
struct gateway_before gateway_enter(const struct gateway *gw);
void gateway_leave(struct gateway_before before);
/* The first start of a process, or the next one. @inherit: it takes over; NULL: from nobody. */
int gateway_start(struct gateway *gw, const struct rdt_inherit *inherit);
void gateway_moves(struct gateway *gw, enum gateway_state state);
/* The process of which hosts have connections is another one now. */
void gateway_hands(struct gateway *last, struct gateway *next);
/* It is killed, and has no connections of hosts. */
void gateway_dies(struct gateway *gw);
/* It ends; what it has is closed. */
void gateway_begin_drain(struct gateway *gw);
/* Whether hosts use it, or are about to. */
static inline bool gateway_is_used(const struct gateway *gw)
{
	return gw->all->gateway[gw->number] == gw;
}
/* Where its main thread is, which its reactors follow. */
struct actor *gateway_actors(const struct gateway *gw);
/* The process ends at once. Only in state GATEWAY_UP. */
void gateway_kill(struct gateway *gw);
/* As SIGTERM does. Only in state GATEWAY_UP. */
void gateway_drain(struct gateway *gw);
/* The whole process stands still. */
void gateway_stall(struct gateway *gw, uint64_t ns);
/* As "rdctl ana GROUP take", "yield" and "wait"; each image has a group. */
void gateway_claim(struct gateway *gw, unsigned int image, enum rdt_claim claim);
/* No more faults: each image must be served within the time that is promised. */
void gateways_heal(struct gateways *all);
/* One more fault: a pool hangs. Its images must be served within that time after it answers again.
 */
void gateways_hang_pool(struct gateways *all, unsigned int pool, uint64_t ns);
/* NULL: none. */
struct rdt_ns *gateway_namespace(const struct gateway *gw, unsigned int image);
/* Does it show its hosts that it serves the image? */
bool gateway_serves(const struct gateway *gw, unsigned int image);

/* ---- judge.c ---- */

#define DRAIN_TIMEOUT (10 * RD_NSEC_PER_SEC) /* as in rdtarget */

/* Is each image served again? */
bool gateways_serve(const struct gateways *all);
/* Since when all that the gateway needs for images of the pool has been well. */
uint64_t gateway_well_since(const struct gateway *gw, unsigned int pool);
/* Need the gateway not know that it does not have the lock of the image any more? */
bool gateway_unfenced(const struct gateway *gw, unsigned int image);
/* An operator has given a command about its lock. */
void gateway_told(struct gateway *gw, unsigned int image, enum rdt_claim claim);
/* Something has happened after which a command to take a lock need not succeed. */
void gateways_not_told(struct gateways *all);
/* Something but a hand-over has happened after which a lock need not come. */
void gateways_not_handed(struct gateways *all);
/* Before gateway_hands(). */
void gateways_judge_hand(const struct gateway *last);
/* A fault that is not of a burst, or a change of processes: images must be served again. */
void gateways_disturb(struct gateways *all);
/* Called all the time, and gateway_judge() for those that are used. */
void gateway_note(struct gateway *gw);
void gateway_judge(struct gateway *gw);
/* The gateway has not @done in time what it does at its end. */
void gateway_judge_end(const struct gateway *gw, const char *done);
/* For so long, the ways to hosts, or hosts themselves, may not work. */
void gateways_disturb_hosts(struct gateways *all, uint64_t ns);
/* See world->judge. */
void gateways_judge_answer(struct world *w, unsigned int image, uint64_t begin,
			   const struct rdinit_completion *comp);

/* See world->judge_device. */
void gateways_judge_device(struct world *w, unsigned int image, uint64_t begin,
			   const struct rdinit_completion *comp);

/* ---- sizes.c ---- */

/* See cluster->trimmed. @arg: the world. */
uint64_t image_trimmed(void *arg, unsigned int image, unsigned int block);
/* See cluster_resize(). */
void gateways_resize(struct gateways *all, unsigned int image, unsigned int blocks);
/* Does each gateway, and each device of a host, know the size of its image? */
bool gateways_know_sizes(struct gateways *all);
/* Called all the time. */
void gateways_judge_sizes(struct gateways *all);
/* See world->was_shorter. */
bool gateways_were_shorter(struct world *w, unsigned int image, unsigned int end, uint64_t begin);

#endif /* SIM_GATEWAYS_H */
