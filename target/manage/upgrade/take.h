/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process that takes over: what another one has open, then its connections. Before the commit
 * has come, whatever fails ends this process, and the other one goes on. What comes from the
 * service manager's store is refused instead, and this process continues without it: there is no
 * other one. docs/design/moves.md.
 *
 * Main thread only.
 */
#ifndef RDT_TAKE_H
#define RDT_TAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "util/loop.h"
#include "target/nvmf/move_counters.h"
#include "channel.h"

struct rd_log;
struct rdt_config;
struct rdt_inherit;
struct rdt_notify;
struct rdt_stored;
struct rdt_target;

enum rdt_take_state {
	RDT_TAKE_NONE,    /* this process takes over from none */
	RDT_TAKE_OPENING, /* what is open has come -> READY */
	RDT_TAKE_READY,   /* connections may come -> TAKING; or it was a check -> DONE */
	RDT_TAKE_TAKING,  /* they are built -> TOOK */
	RDT_TAKE_TOOK,    /* the commit may come, or the store is emptied -> SERVING */
	/* Hosts are served from here on. */
	RDT_TAKE_SERVING,  /* counters may come -> COUNTING; or none do -> SHOWN */
	RDT_TAKE_COUNTING, /* reactors add the counters -> SHOWN */
	RDT_TAKE_SHOWN,    /* the other process has not ended -> DONE */
	RDT_TAKE_DONE,
};

struct rdt_take {
	/* set by the owner */
	struct rd_log *log;
	/* Hosts are served, and counters are there: the target may be seen. */
	void (*show)(struct rdt_take *take);
	/* Before the commit. From the store: nothing is left of it, and the target may serve. */
	void (*fails)(struct rdt_take *take, const char *why);
	void (*checked)(struct rdt_take *take);
	void (*alone)(struct rdt_take *take); /* the other process has ended */

	enum rdt_take_state state;
	bool check;
	bool force; /* set by the owner: as of rdt_give_begin() */
	bool sure;  /* SERVING: the other process has said that its I/O has ended */
	struct rdt_inherit *inherit; /* from the beginning to DONE */
	struct rdt_channel channel;
	struct rdt_stored *stored; /* it comes from the store; NULL: from another process */
	struct rdt_notify *notify; /* to the store */
	struct rd_msg msg;         /* READY, from the store */
	struct rdt_target *target;
	json_t *open;    /* the records of what is open */
	json_t *records; /* TAKING: those of the connections, borrowed by rdt_move_in(); COUNTING:
			    of the counters */
	struct rd_fd_bag bag;
	struct rd_timer late;              /* SERVING: counters do not come */
	struct rdt_move_counters counters; /* COUNTING */
	char *control_socket;              /* of the other process; NULL: none */
	int pid;                           /* of the other process */
	unsigned long files_max;           /* of the service manager, as that one knows; or 0 */
	uint64_t held_at;                  /* since when connections rest: ns of CLOCK_MONOTONIC */
	uint64_t pause_ns;                 /* from SERVING on: for how long they did */
	/* SERVING and later: the other process has not left its connections to storage */
	struct rd_timer leaves;
	unsigned int ctrls, queues, left;
};

/*
 * Asks the target with the control socket @socket for what it has open, and waits for that: no loop
 * runs yet. Returns 0, or -errno with the reason logged.
 */
int rdt_take_begin(struct rdt_take *take, const char *socket, const struct rdt_config *cfg);
/* Likewise what is in @stored, which is borrowed; @take->notify is set. Returns 0, or -errno with a
 * sentence in @why: then @take has nothing. */
int rdt_take_begin_stored(struct rdt_take *take, struct rdt_stored *stored,
			  const struct rdt_config *cfg, char *why, size_t size);
/* @t runs and accepts nothing: says so to the other process. Returns 0, or -errno with the reason
 * logged. */
int rdt_take_ready(struct rdt_take *take, struct rdt_target *t);
/* It serves: says so to the other process, which ends then. */
void rdt_take_serves(struct rdt_take *take);
void rdt_take_free(struct rdt_take *take); /* no reactor runs; may be repeated */

#endif /* RDT_TAKE_H */
