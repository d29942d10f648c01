/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What hosts order the storage to do with blocks although they send no data: Write Zeroes,
 * Deallocate and Copy write, Verify reads.
 *
 * The history needs a value of its own for each write. So the simulated storage does not store
 * zeroes, or the value of the source, but the value that the order has for the block. For that it
 * asks which command its user, the target, is executing.
 */
#ifndef SIM_ORDERS_H
#define SIM_ORDERS_H

#include <stdbool.h>
#include <stdint.h>

#define ORDER_BLOCKS 12u
#define ORDERS       1024u /* more than a host sends while a reactor stands still */

struct world;
struct rdt_bio;

enum order_state {
	ORDER_FREE,
	ORDER_BUSY,    /* its command is in flight */
	ORDER_UNKNOWN, /* the command has ended, and may be executed later */
	ORDER_ENDED,
};

struct order {
	enum order_state state;
	uint8_t opcode;
	bool fua;
	uint32_t id; /* CDW15 of a command of raw.c, which tells it from all others; 0: of a device
		      */
	unsigned int count;
	unsigned int block[ORDER_BLOCKS];  /* in the order of the command */
	unsigned int source[ORDER_BLOCKS]; /* Copy */
	uint64_t value[ORDER_BLOCKS];      /* what is written; Verify: not used */
	uint32_t read;                     /* set of the blocks that were read for it, by index */
	uint64_t begin;
};

/* Of one host. */
struct orders {
	struct order order[ORDERS];
	unsigned int next;
};

/*
 * A copy of @like begins. Returns NULL when it could not be told from another one that may be
 * executed, or there are too many of these.
 */
struct order *order_begins(struct orders *o, const struct order *like);
void order_ends(struct order *order, bool unknown);
/* Whether each block of a Verify was read. */
bool order_has_read_all(const struct order *order);

/* The storage is about to store @value in @block for @bio. Returns what it has to store. @arg: the
 * world. */
uint64_t orders_store(void *arg, const struct rdt_bio *bio, unsigned int block, uint64_t value);
/* The storage has read @block for @bio. */
void orders_read(void *arg, const struct rdt_bio *bio, unsigned int block);

#endif /* SIM_ORDERS_H */
