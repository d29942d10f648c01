/* SPDX-License-Identifier: BSD-3-Clause */
/* Bios that another thread executes: completion by a message to the reactor that submitted them. */
#ifndef RDT_BIO_POST_H
#define RDT_BIO_POST_H

#include <stdatomic.h>
#include <stdbool.h>

#include "backend.h"

/* At the start of rdt_bio.priv. */
struct rdt_bio_post {
	struct rd_msg msg; /* also used to send the bio to the other thread */
	struct rd_loop *home;
};

static inline struct rdt_bio *rdt_bio_of_post(struct rd_msg *msg)
{
	struct rdt_bio_post *post = rd_container_of(msg, struct rdt_bio_post, msg);

	return rd_container_of(post, struct rdt_bio, priv);
}

static inline void rdt_bio_post_arrived(struct rd_msg *msg)
{
	struct rdt_bio *bio = rdt_bio_of_post(msg);

	bio->done(bio);
}

/* @bio has ended with bio->result: its reactor calls bio->done. Any thread; do not use @bio after
 * it. */
static inline void rdt_bio_post_done(struct rdt_bio *bio)
{
	struct rdt_bio_post *post = (struct rdt_bio_post *)(void *)bio->priv;

	post->msg.fn = rdt_bio_post_arrived;
	rd_loop_post(post->home, &post->msg);
}

/* A lock-free stack of bios for another thread, which takes all of them at once. */

struct rdt_bio_stack {
	struct rdt_bio *_Atomic top; /* linked by link.tqe_next */
};

/* Pushes @bio. Returns whether the stack was empty. */
static inline bool rdt_bio_push(struct rdt_bio_stack *s, struct rdt_bio *bio)
{
	struct rdt_bio *top = atomic_load_explicit(&s->top, memory_order_relaxed);

	do
		TAILQ_NEXT(bio, link) = top;
	while (!atomic_compare_exchange_weak(&s->top, &top, bio));
	return !top;
}

/* Takes all bios; the oldest one becomes the head of @list. */
static inline void rdt_bio_take_all(struct rdt_bio_stack *s, struct rdt_bio_queue *list)
{
	struct rdt_bio *bio = atomic_exchange(&s->top, NULL), *next;

	TAILQ_INIT(list);
	for (; bio; bio = next) {
		next = TAILQ_NEXT(bio, link);
		TAILQ_INSERT_HEAD(list, bio, link);
	}
}

#endif /* RDT_BIO_POST_H */
