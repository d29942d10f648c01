/* SPDX-License-Identifier: BSD-3-Clause */
/* The insides of a hold, for hold.c and move_out.c. */
#ifndef RDT_HOLD_PART_H
#define RDT_HOLD_PART_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "util/loop.h"
#include "hold.h"
#include "move.h"
#include "target/config/tgt_limits.h"

struct rdt_hold;
struct rdt_reactor;

enum rdt_hold_state {
	RDT_HOLD_COMING,  /* reactors hold their queues. All rest -> WRITING; the time is over ->
			     LATE */
	RDT_HOLD_LATE,    /* reactors say what does not end: nothing -> WRITING, else LEAVING */
	RDT_HOLD_WRITING, /* reactors write the records of what can move. Written -> REACHED */
	RDT_HOLD_REACHED, /* released or moved -> LEAVING */
	RDT_HOLD_LEAVING, /* reactors go on, or end their queues. All have done so -> freed */
};

/* Of a reactor. */
struct rdt_hold_part {
	struct rdt_hold *hold;
	struct rdt_reactor *reactor;
	struct rd_msg msg;   /* main -> reactor -> main */
	struct rd_msg late;  /* main -> reactor */
	struct rd_msg leave; /* main -> reactor -> main */
	struct rd_timer look;
	bool asked; /* the answer to @msg is due when all rests */
	/* the reactor's, then main's */
	char why[256];                    /* what does not end, or was not written; "": nothing */
	uint64_t left[RDT_NS_SLOTS / 64]; /* a bit for each namespace whose I/O is left in flight */
	json_t *records;                  /* array: what moves */
	int *fds; /* [fds_count]: sockets of the "queue" records among them, in order */
	size_t fds_count;
	int err; /* of writing */
	struct rdt_move_count count;
};

struct rdt_hold {
	struct rdt_target *target;
	enum rdt_hold_state state;
	unsigned int left; /* parts whose answer is due */
	struct rd_timer limit;
	void (*held)(void *arg, int err, const char *why);
	void *arg;
	bool force;
	bool moved; /* LEAVING: another process has the connections */
	int err;
	char why[256];
	struct rdt_hold_part parts[];
};

/* move_out.c: on the reactor */
void rdt_hold_write(struct rdt_hold_part *part);
/* Drops what was written and not fetched. */
void rdt_hold_unwrite(struct rdt_hold_part *part);
void rdt_hold_leave(struct rdt_hold *hold, bool moved); /* hold.c */

#endif /* RDT_HOLD_PART_H */
