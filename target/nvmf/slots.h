/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bit for each slot that a namespace can have, 128 bytes as long as all are clear. Any thread, at
 * any time, without a lock; two changes of one bit are the callers' to keep apart.
 *
 * Bits come in pieces, made when the first one in them is set. Where there is no memory for a
 * piece, all its bits are set: they stand for what is kept from a host, so that is the safe side.
 */
#ifndef RDT_SLOTS_H
#define RDT_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "target/config/tgt_limits.h"

#define RDT_SLOTS_PIECE 1024u
#define RDT_SLOTS_WORDS (RDT_SLOTS_PIECE / 64)

struct rdt_slots_piece {
	_Atomic uint64_t words[RDT_SLOTS_WORDS];
};

struct rdt_slots {
	_Atomic(struct rdt_slots_piece *) pieces[RDT_NS_SLOTS / RDT_SLOTS_PIECE];
};

_Static_assert(RDT_NS_SLOTS % RDT_SLOTS_PIECE == 0, "whole pieces");

void rdt_slots_fini(struct rdt_slots *s); /* nobody else uses it any more; a zeroed one is fine */
bool rdt_slots_set(struct rdt_slots *s, unsigned int slot);   /* Returns what it was. */
bool rdt_slots_clear(struct rdt_slots *s, unsigned int slot); /* likewise */
void rdt_slots_set_all(struct rdt_slots *s);
void rdt_slots_clear_all(struct rdt_slots *s);
void rdt_slots_add(struct rdt_slots *to, const struct rdt_slots *from);  /* set what is set there */
void rdt_slots_copy(struct rdt_slots *to, const struct rdt_slots *from); /* bits set in both stay */
bool rdt_slots_any(const struct rdt_slots *s);

static inline bool rdt_slots_has(const struct rdt_slots *s, unsigned int slot)
{
	const struct rdt_slots_piece *p =
		atomic_load_explicit(&s->pieces[slot / RDT_SLOTS_PIECE], memory_order_acquire);

	return p &&
	       atomic_load_explicit(&p->words[slot % RDT_SLOTS_PIECE / 64], memory_order_relaxed) >>
			       slot % 64 &
		       1;
}

#endif /* RDT_SLOTS_H */
