/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events for programs that watch the target: each has a name that does not change, and fields. An
 * event costs one load while no program watches. Any thread announces.
 */
#ifndef RDT_ANNOUNCE_H
#define RDT_ANNOUNCE_H

#include <stdatomic.h>

#include <jansson.h>

/* Takes @fields over; any thread; does not log. @name is a constant. */
typedef void (*rdt_announce_fn)(void *arg, const char *name, json_t *fields);

struct rdt_announcer {
	_Atomic(rdt_announce_fn) fn; /* NULL: no program watches */
	void *arg;                   /* valid from the first watcher to the end of all threads */
};

/* @fmt and the arguments after it: an object, in the form of json_pack(3). */
#define rdt_announce(t, name, ...)                                                            \
	do {                                                                                  \
		if (atomic_load_explicit(&(t)->announcer.fn, memory_order_acquire))           \
			rdt_announce_fields(&(t)->announcer, (name), json_pack(__VA_ARGS__)); \
	} while (0)

static inline void rdt_announce_fields(const struct rdt_announcer *a, const char *name,
				       json_t *fields)
{
	rdt_announce_fn fn = atomic_load_explicit(&a->fn, memory_order_acquire);

	if (fn && fields)
		fn(a->arg, name, fields);
	else
		json_decref(fields);
}

#endif /* RDT_ANNOUNCE_H */
