/* SPDX-License-Identifier: BSD-3-Clause */
#include "slots.h"

#include <stdlib.h>

#define PIECES (RDT_NS_SLOTS / RDT_SLOTS_PIECE)

/* Represents a piece with all bits set; never written to or freed. */
static struct rdt_slots_piece full = {
	.words = {[0 ... RDT_SLOTS_WORDS - 1] = UINT64_MAX},
};

void rdt_slots_fini(struct rdt_slots *s)
{
	for (unsigned int i = 0; i < PIECES; i++) {
		struct rdt_slots_piece *p = atomic_load(&s->pieces[i]);

		if (p != &full)
			free(p);
		atomic_store(&s->pieces[i], NULL);
	}
}

/* Returns piece @i of @s, allocated for a change; NULL without memory. */
static struct rdt_slots_piece *slots_piece(struct rdt_slots *s, unsigned int i)
{
	struct rdt_slots_piece *p = atomic_load(&s->pieces[i]);
	struct rdt_slots_piece *made;

	if (p && p != &full)
		return p;
	made = malloc(sizeof(*made));
	if (!made)
		return NULL;
	for (unsigned int w = 0; w < RDT_SLOTS_WORDS; w++)
		atomic_init(&made->words[w], p ? UINT64_MAX : 0);
	if (atomic_compare_exchange_strong(&s->pieces[i], &p, made))
		return made;
	free(made); /* another thread allocated it first */
	return p == &full ? NULL : p;
}

bool rdt_slots_set(struct rdt_slots *s, unsigned int slot)
{
	uint64_t bit = UINT64_C(1) << slot % 64;
	struct rdt_slots_piece *p;

	if (rdt_slots_has(s, slot))
		return true;
	p = slots_piece(s, slot / RDT_SLOTS_PIECE);
	if (!p) {
		atomic_compare_exchange_strong(&s->pieces[slot / RDT_SLOTS_PIECE], &p, &full);
		return false;
	}
	return atomic_fetch_or(&p->words[slot % RDT_SLOTS_PIECE / 64], bit) & bit;
}

bool rdt_slots_clear(struct rdt_slots *s, unsigned int slot)
{
	uint64_t bit = UINT64_C(1) << slot % 64;
	struct rdt_slots_piece *p;

	if (!rdt_slots_has(s, slot))
		return false;
	p = slots_piece(s, slot / RDT_SLOTS_PIECE);
	return !p || atomic_fetch_and(&p->words[slot % RDT_SLOTS_PIECE / 64], ~bit) & bit;
}

/* Set all bits of piece @i, which needs no memory. */
static void set_piece(struct rdt_slots *s, unsigned int i)
{
	struct rdt_slots_piece *p = atomic_load(&s->pieces[i]);

	if (!p && atomic_compare_exchange_strong(&s->pieces[i], &p, &full))
		return;
	for (unsigned int w = 0; p != &full && w < RDT_SLOTS_WORDS; w++)
		atomic_store(&p->words[w], UINT64_MAX);
}

static void clear_piece(struct rdt_slots *s, unsigned int i)
{
	struct rdt_slots_piece *p = atomic_load(&s->pieces[i]);

	if (p == &full)
		atomic_compare_exchange_strong(&s->pieces[i], &p, NULL);
	for (unsigned int w = 0; p && p != &full && w < RDT_SLOTS_WORDS; w++)
		atomic_store(&p->words[w], 0);
}

void rdt_slots_set_all(struct rdt_slots *s)
{
	for (unsigned int i = 0; i < PIECES; i++)
		set_piece(s, i);
}

void rdt_slots_clear_all(struct rdt_slots *s)
{
	for (unsigned int i = 0; i < PIECES; i++)
		clear_piece(s, i);
}

/* Set @bits in word @w of piece @i. */
static void add_bits(struct rdt_slots *s, unsigned int i, unsigned int w, uint64_t bits)
{
	struct rdt_slots_piece *p = atomic_load(&s->pieces[i]);

	if (!bits || (p && !(bits & ~atomic_load(&p->words[w]))))
		return;
	p = slots_piece(s, i);
	if (p)
		atomic_fetch_or(&p->words[w], bits);
	else
		atomic_compare_exchange_strong(&s->pieces[i], &p, &full);
}

/* Clear the bits of word @w of piece @i that are not in @bits. */
static void keep_bits(struct rdt_slots *s, unsigned int i, unsigned int w, uint64_t bits)
{
	struct rdt_slots_piece *p = atomic_load(&s->pieces[i]);

	if (!(atomic_load(&p->words[w]) & ~bits))
		return;
	p = slots_piece(s, i);
	if (p)
		atomic_fetch_and(&p->words[w], bits);
}

void rdt_slots_add(struct rdt_slots *to, const struct rdt_slots *from)
{
	for (unsigned int i = 0; i < PIECES; i++) {
		const struct rdt_slots_piece *p = atomic_load(&from->pieces[i]);

		if (p == &full)
			set_piece(to, i);
		for (unsigned int w = 0; p && p != &full && w < RDT_SLOTS_WORDS; w++)
			add_bits(to, i, w, atomic_load(&p->words[w]));
	}
}

void rdt_slots_copy(struct rdt_slots *to, const struct rdt_slots *from)
{
	rdt_slots_add(to, from);
	for (unsigned int i = 0; i < PIECES; i++) {
		const struct rdt_slots_piece *p = atomic_load(&from->pieces[i]);

		if (!p)
			clear_piece(to, i);
		else if (p != &full && atomic_load(&to->pieces[i]))
			for (unsigned int w = 0; w < RDT_SLOTS_WORDS; w++)
				keep_bits(to, i, w, atomic_load(&p->words[w]));
	}
}

bool rdt_slots_any(const struct rdt_slots *s)
{
	for (unsigned int i = 0; i < PIECES; i++) {
		const struct rdt_slots_piece *p = atomic_load(&s->pieces[i]);

		for (unsigned int w = 0; p && w < RDT_SLOTS_WORDS; w++)
			if (atomic_load(&p->words[w]))
				return true;
	}
	return false;
}

unsigned int rdt_slots_next(const struct rdt_slots *s, unsigned int slot)
{
	while (slot < RDT_NS_SLOTS) {
		const struct rdt_slots_piece *p = atomic_load(&s->pieces[slot / RDT_SLOTS_PIECE]);
		uint64_t word;

		if (!p) {
			slot += RDT_SLOTS_PIECE - slot % RDT_SLOTS_PIECE;
			continue;
		}
		word = atomic_load(&p->words[slot % RDT_SLOTS_PIECE / 64]) >> slot % 64;
		if (word)
			return slot + (unsigned int)__builtin_ctzll(word);
		slot += 64 - slot % 64;
	}
	return RDT_NS_SLOTS;
}
