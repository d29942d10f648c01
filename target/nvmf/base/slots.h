/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bitmap with a bit for each namespace slot; 128 bytes while it is empty. Any thread, without a
 * lock; callers must serialise changes of the same bit.
 *
 * Allocated in pieces, each when its first bit is set. Without memory for a piece, all its bits
 * read as set, which is safe because the bits represent namespaces that are hidden from a host.
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

void rdt_slots_fini(struct rdt_slots *s); /* no other thread may use @s; accepts a zeroed one */
bool rdt_slots_set(struct rdt_slots *s, unsigned int slot);   /* Returns the previous value. */
bool rdt_slots_clear(struct rdt_slots *s, unsigned int slot); /* returns the previous value */
void rdt_slots_set_all(struct rdt_slots *s);
void rdt_slots_clear_all(struct rdt_slots *s);
/* set the bits that are set in @from */
void rdt_slots_add(struct rdt_slots *to, const struct rdt_slots *from);
/* bits that are set in both are never clear in between */
void rdt_slots_copy(struct rdt_slots *to, const struct rdt_slots *from);
bool rdt_slots_any(const struct rdt_slots *s);
/* Returns the first slot from @slot on whose bit is set, or RDT_NS_SLOTS. */
unsigned int rdt_slots_next(const struct rdt_slots *s, unsigned int slot);

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
