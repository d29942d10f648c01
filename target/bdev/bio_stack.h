/* SPDX-License-Identifier: BSD-3-Clause */
/* Bios that go to another thread without a lock: a stack, of which the receiver takes all. */
#ifndef RDT_BIO_STACK_H
#define RDT_BIO_STACK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "backend.h"
#include "device.h"

struct rdt_bio_stack {
	struct rdt_bio *_Atomic top; /* linked by link.tqe_next */
};

/* Returns whether the stack was empty. */
static inline bool rdt_bio_push(struct rdt_bio_stack *s, struct rdt_bio *bio)
{
	struct rdt_bio *top = atomic_load_explicit(&s->top, memory_order_relaxed);

	do
		TAILQ_NEXT(bio, link) = top;
	while (!atomic_compare_exchange_weak(&s->top, &top, bio));
	return !top;
}

/* All bios, the first one at the head of @list. */
static inline void rdt_bio_take_all(struct rdt_bio_stack *s, struct rdt_bio_queue *list)
{
	struct rdt_bio *bio = atomic_exchange(&s->top, NULL), *next;

	TAILQ_INIT(list);
	for (; bio; bio = next) {
		next = TAILQ_NEXT(bio, link);
		TAILQ_INSERT_HEAD(list, bio, link);
	}
}

#endif /* RDT_BIO_STACK_H */
