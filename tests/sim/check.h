/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The history of reads and writes, and whether it is linearizable.
 *
 * Every write of a block stores a value that no other write has, so that a read tells which write
 * it has seen. All times are of the simulation's clock, in ns.
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#define CHECK_NEVER      UINT64_MAX
#define CHECK_BLOCK_BITS 12 /* the low bits of a value are its block */

struct check;

/* Returns NULL without memory. */
struct check *check_new(unsigned int blocks);
void check_free(struct check *ck);

/* A value for a write of @block. */
uint64_t check_value(struct check *ck, unsigned int block);
/* The block to which the value of a write belongs. */
unsigned int check_block_of(uint64_t value);

/* The host that wrote @value, and when the write began. */
unsigned int check_host_of(struct check *ck, uint64_t value, uint64_t *begin);

/* The storage has @value now. Returns how many times it was stored. */
unsigned int check_stored(struct check *ck, uint64_t value);

/* A write of @value by @host begins. */
void check_write_begins(struct check *ck, unsigned int host, uint64_t value, uint64_t now);
/* The write was acknowledged. @durable: it is on stable storage too. */
void check_write_done(struct check *ck, uint64_t value, uint64_t now, bool durable);
/* It was certainly not executed. */
void check_write_refused(struct check *ck, uint64_t value);
/* The write has ended; it may have been executed, or may be executed later. */
void check_write_unknown(struct check *ck, uint64_t value, uint64_t now);
/* Whether or not it was executed, it takes no effect from now on. */
void check_write_settled(struct check *ck, uint64_t value, uint64_t now);
/* A read of @block that began at @begin has returned @value, at @now. */
void check_read(struct check *ck, unsigned int block, uint64_t value, uint64_t begin, uint64_t now);
/* @value is of a Compare and Write that is to replace @old; and what it is to replace. */
void check_write_expects(struct check *ck, uint64_t value, uint64_t old);
uint64_t check_expected(struct check *ck, uint64_t value);
/* A Compare and Write, which began at @begin, has replaced @old by @value. */
void check_replaced(struct check *ck, uint64_t old, uint64_t value, uint64_t begin);
/* A Flush that began at @begin was acknowledged. */
void check_flushed(struct check *ck, uint64_t begin);
/* The same of one block only. */
void check_flushed_block(struct check *ck, unsigned int block, uint64_t begin);
/* What a read with FUA has returned, which began at @begin, is durable. */
void check_read_durable(struct check *ck, uint64_t value, uint64_t begin);
/* Whether the block of @value had it at all times since @begin. */
bool check_surely(struct check *ck, uint64_t value, uint64_t begin);
/* The latest time at which a write of @block takes effect; CHECK_NEVER: one may do so later. */
uint64_t check_written_until(struct check *ck, unsigned int block);
/* The latest begin of a write of @block that was acknowledged before @before; 0: none was. */
uint64_t check_written_since(struct check *ck, unsigned int block, uint64_t before);
/*
 * The storage has lost power and has @value in @block since. Returns false, with a sentence in
 * @why, when a write that was acknowledged as durable is lost.
 */
bool check_survived(struct check *ck, unsigned int block, uint64_t value, uint64_t now, char *why,
		    unsigned int size);
/* Returns false, with a sentence in @why, when the history is not linearizable. */
bool check_history(struct check *ck, char *why, unsigned int size);
uint64_t check_ops(const struct check *ck); /* reads and writes that were recorded */

#endif /* SIM_CHECK_H */
