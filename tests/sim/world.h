/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A world: a target with its reactors, hosts with their devices, and storage, in one thread under
 * one virtual clock. Everything that happens follows from the seed.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "check.h"
#include "disk.h"
#include "dev.h"
#include "files.h"
#include "gateways/fiber.h"
#include "marks.h"
#include "orders.h"
#include "simfabric/sim.h"
#include "setup.h"
#include "target/reactor/lifecycle.h"

#define WORLD_REACTORS  SETUP_REACTORS
#define WORLD_HOSTS     3u
#define WORLD_PATHS     2u
#define WORLD_DEPTH     6u
#define WORLD_PORT      4420u /* of the first path */
#define WORLD_HOST_ADDR "10.1.0.%u"

/* Of the namespace: blocks that each host has for itself, then blocks of all hosts. */
#define WORLD_OWN    8u
#define WORLD_SHARED 4u
#define WORLD_BLOCKS (WORLD_HOSTS * WORLD_OWN + WORLD_SHARED) /* SETUP_BLOCKS */

/* A device of a host has one namespace: WORLD_HOSTS devices for each namespace. In the history the
 * blocks of the namespaces follow each other. */
#define WORLD_NAMESPACES 3u /* at most */
#define WORLD_DEVS       (WORLD_HOSTS * WORLD_NAMESPACES)

#define WORLD_IO_MAX     4u /* blocks of one command */

enum world_transport {
	WORLD_ANY, /* the seed chooses */
	WORLD_RDMA,
	WORLD_TCP,
	WORLD_BOTH,  /* a path of each */
	WORLD_IWARP, /* RDMA, as iWARP over byte streams */
};

struct world_opts {
	uint64_t seed;
	uint64_t steps;
	bool trace; /* write what happens to standard output */
	enum world_transport transport;
	unsigned int faults; /* set of 1 << enum fault_kind that may happen; see faults.h */
};

/* Who takes turns. */
struct actor {
	const char *name;
	unsigned int number;
	struct rd_loop *loop; /* NULL: not there now */
	int (*turn)(struct actor *actor);
	void *arg;
	uint64_t stalled_until;
	uint64_t turned_at; /* when its last turn ended */
	bool blocked;       /* within a turn */
	bool signaled;      /* a descriptor of its loop may be ready */
};

enum actor_kind {
	ACTOR_MAIN,
	ACTOR_STATE, /* the writer of state files */
	ACTOR_REACTOR,
	ACTOR_DEV = ACTOR_REACTOR + WORLD_REACTORS,
	ACTOR_CHAN = ACTOR_DEV + WORLD_HOSTS,
	ACTOR_OBSERVER = ACTOR_CHAN + WORLD_HOSTS,
	ACTOR_DISCOVERY,
	ACTOR_GATEWAY, /* of two gateways: gateways/gateways.h */
	/* the devices of further namespaces, and their channels */
	ACTOR_MORE_DEV = ACTOR_GATEWAY + 2 * (1 + WORLD_REACTORS),
	ACTOR_MORE_CHAN = ACTOR_MORE_DEV + WORLD_DEVS - WORLD_HOSTS,
	/* of the other instance, or of the other processes of two gateways */
	ACTOR_NEXT = ACTOR_MORE_CHAN + WORLD_DEVS - WORLD_HOSTS,
	ACTORS = ACTOR_NEXT + 2 * (1 + WORLD_REACTORS),
};

enum target_state {
	TARGET_DOWN,     /* target_start() */
	TARGET_UP,       /* target_stop() */
	TARGET_DRAINING, /* the last reactor has no queue pairs any more */
	TARGET_DRAINED,  /* target_end() */
};

/* A process with a target. There are two while one hands over to the other. */
struct instance {
	struct world *w;
	unsigned int process; /* of its sockets: rd_sim_enter() */
	unsigned int first;   /* the number of its actor "main", which the others follow */
	struct rdt_env env;
	struct rd_loop *loop; /* of its main thread */
	struct rdt_target *target;
	enum target_state state;
	struct rd_sim_event drain_timeout;
	struct rd_sim_event gone; /* it has ended, and does not serve */
};
#define WORLD_INSTANCES 2u

/* A queue pair that has not authenticated yet. */
struct auth_wait {
	const struct rdt_qpair *qp; /* only compared; NULL after the last one */
	unsigned int state;         /* enum rdt_auth_state */
	uint64_t since;             /* when it began to wait for the host in that state */
};
#define AUTH_WAITS 32u

struct auth_watch {
	struct auth_wait waits[AUTH_WAITS];
};

struct host;
struct claim;
struct raw;
struct discovery;
struct faults;
struct gateways;
struct resv;
struct observer;
struct upgrade;

struct world {
	struct world_opts opts;
	struct rd_sim *sim;
	struct rd_log *log;
	struct instance instances[WORLD_INSTANCES];
	struct instance *serving; /* the one that hosts use: its target is @target */
	struct upgrade *upgrade;  /* NULL: no target hands over to another one */
	struct rdi_env host_env;
	bool reconfigures;      /* the configuration changes */
	unsigned int tcp;       /* set of 1 << listener: those of NVMe/TCP */
	bool iwarp;             /* RDMA is iWARP over byte streams */
	bool digests;           /* of NVMe/TCP: hosts ask for both */
	struct rdt_config *cfg; /* that is applied, or is being applied */
	struct setup_history setup;
	struct secrets *secrets; /* NULL: nobody authenticates */
	struct auth_watch auth;
	struct process threads; /* of target and hosts that compute Diffie-Hellman */
	bool reloading;
	uint64_t reload_begun;
	uint64_t quiet_until;      /* hosts submit nothing, and the observer does not connect */
	struct rdt_target *target; /* of @serving, */
	enum target_state target_state; /* and its state */
	bool power_failed;
	/* There is a next event when the blocked reactor goes on. */
	struct rd_sim_event unblock[WORLD_REACTORS];
	/*
	 * Hosts do not repeat writes. Only then they write blocks of all hosts, and the same block
	 * in several commands at a time: a write that is executed twice may overwrite a write that
	 * was executed in between.
	 */
	bool no_resend;
	bool reserves;           /* hosts send reservation commands */
	unsigned int in_capsule; /* bytes of data that commands of the target may have */
	struct resv *resv;
	struct files files;
	unsigned int submits_in; /* a host submits a command in one of so many steps */
	struct store *store;
	struct sick *sick; /* NULL: no disk beside @store hangs */
	struct check *check;
	struct marks *marks; /* of the first namespace */
	struct orders orders[WORLD_HOSTS];
	struct actor actors[ACTORS];
	unsigned int devs; /* WORLD_HOSTS for each namespace that hosts use */
	struct host *hosts[WORLD_DEVS];
	struct observer *observer;   /* NULL: none */
	struct discovery *discovery; /* NULL: none */
	struct faults *faults;
	uint64_t disturbed_until;  /* until then faults may delay or lose commands */
	struct gateways *gateways; /* instead of @target; NULL: none */
	/* Until then a thread of a gateway stands still, so that it refuses commands by a path of
	 * which it says that it is usable. */
	uint64_t contradicts_until;
	/* When a gateway acted last that had lost the image, and did not know it. */
	uint64_t outdated_at;
	uint64_t
		unfenced_at; /* as before, and its block had ended: it does not learn it by reads */
	/* A command of a namespace (from 0 on) has ended, which began then. NULL: only the history
	 * of its data is judged. */
	void (*judge)(struct world *w, unsigned int ns, uint64_t begin,
		      const struct rdinit_completion *comp);
	/* Likewise, and for commands of devices only, which choose the path. */
	void (*judge_device)(struct world *w, unsigned int ns, uint64_t begin,
			     const struct rdinit_completion *comp);
	/* Whether the namespace may have had less than @end blocks for somebody at some time since
	 * @begin. */
	bool (*was_shorter)(struct world *w, unsigned int ns, unsigned int end, uint64_t begin);
	/* Whether what faults have left is over, without which the world does not end. NULL: it is.
	 */
	bool (*settled)(const struct world *w);
	uint64_t step;
	uint64_t hash;    /* of the trace */
	bool ending;      /* no new commands, no new faults */
	char failed[512]; /* the first violation; "": none */
};

int world_new(const struct world_opts *opts, struct world **out);
/* Runs the world. Returns false if an invariant was violated; world->failed says which. */
bool world_run(struct world *w);
void world_free(struct world *w);

/* Commands may be lost, or late, for a fault that lasts for @ns from now on. */
void world_disturb(struct world *w, uint64_t ns);
/* Whether hosts send every command, and the storage is asked whose it is. With two gateways it is
 * not. */
bool world_sends_all(void);
/* The actor @kind, up to ACTOR_REACTOR + n, of the instance that serves. */
struct actor *world_actor(struct world *w, unsigned int kind);
/* Whether connections of every path can be handed over. A listener of an RDMA device is missing for
 * a second then. */
bool world_all_moves(const struct world *w);
/* A violation; the first one counts. */
void world_fail(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The storage has only what it could not lose: whether what was acknowledged as durable is there.
 * @arg: the world. */
void world_judge_survival(void *arg);
/* Every buffer of the target @name, which has stopped, must be back in its pool. */
void world_check_pools(struct world *w, const char *name, const struct rdt_target *t);
/* A write takes effect. @arg: the world. */
void world_judge_write(void *arg, uint64_t value);
/* The turn of an actor that has a loop and nothing else. */
int world_turn_loop(struct actor *actor);
/* One step: a turn of an actor, or time passes. Returns false when no event can follow any more. */
bool world_step(struct world *w);

/* ---- target.c ---- */

/* Of which hosts write, numbered from NSID 1 on. Only the first one has reservations and changes of
 * the configuration. */
extern const unsigned int target_namespaces;
int target_config(struct world *w, const struct setup *setup);
/* Applies another configuration. No-op while the target is not up or another reload runs. */
void target_reload(struct world *w, const struct setup *setup);
int target_start(struct world *w);
/* How a target ends. */
enum target_stop {
	TARGET_STOPS,
	TARGET_LOSES_POWER, /* its machine */
	TARGET_IS_KILLED,   /* its process */
};
void target_stop(struct world *w, enum target_stop how);
/* After TARGET_DRAINED: frees it. */
void target_end(struct world *w);
/* Makes the target of an instance that does not serve, which takes over what @inherit has. */
int instance_start(struct instance *in, const struct rdt_inherit *inherit);
/* Begins to end it. @now: without waiting for anything. */
void instance_drain(struct instance *in, bool now);
/* After TARGET_DRAINED: frees it. */
void instance_end(struct instance *in);
/* Another instance serves from now on. */
void instance_serves(struct instance *in);
int instances_new(struct world *w);
void instances_free(struct world *w);

/* ---- auth_watch.c ---- */

/* Each step: whether the target ends queues whose hosts do not authenticate. */
void auth_judge(struct world *w);

/* ---- host.c ---- */

/* The device @number of the world. */
int host_new(struct world *w, unsigned int number, struct host **out);
/* Commands are submitted now and then; called between turns. */
void host_acts(struct host *h);
/* Commands that have not ended: of the device, which have time limits, and others, which end with
 * their connection at the latest. */
unsigned int host_inflight(const struct host *h);
unsigned int host_unlimited(const struct host *h);
bool host_failed(const struct host *h);     /* the device has given up */
bool host_is_steady(const struct host *h);  /* its paths are connected, with their queues */
uint64_t host_blocks(const struct host *h); /* of the device; 0: not known */
/* Whether a command of the device writes one of the blocks. */
bool host_writes(const struct host *h, unsigned int block, unsigned int count);
/* Reads every block once; host_inflight() tells when that is done. */
void host_reads_all(struct host *h);
void host_cancels(struct host *h);
void host_free(struct host *h);

/* ---- command.c: the commands of its device ---- */

bool command_only_reads(enum rdinit_dev_op op);

/* ---- raw.c: commands of a host that its device does not send, on a queue of its channel ---- */

int raw_new(struct world *w, unsigned int host, struct raw **out);
/* A command is submitted now and then to a queue of @chan; called between turns. */
void raw_acts(struct raw *raw, struct rdinit_dev_chan *chan);
bool raw_busy(const struct raw *raw);
void raw_free(struct raw *raw);

/* ---- observer.c: a controller of a host, which judges what it is told ---- */

int observer_new(struct world *w, struct observer **out);
/* Connects, or submits a command now and then; called between turns. */
void observer_acts(struct observer *observer);
/* While the world ends: whether it has not yet seen that it was told everything. NULL is allowed.
 */
bool observer_busy(const struct observer *observer);
void observer_free(struct observer *observer);

/* ---- claim.c: the reservation commands of a host ---- */

int claim_new(struct world *w, unsigned int host, struct claim **out);
/* A command is submitted now and then to a queue of @chan; called between turns. */
void claim_acts(struct claim *c, struct rdinit_dev_chan *chan);
bool claim_busy(const struct claim *c);
void claim_free(struct claim *c);

#endif /* SIM_WORLD_H */
