/* SPDX-License-Identifier: BSD-3-Clause */
/* Events for programs that watch the target. The name of an event and the names of its fields are
 * stable. While no program watches, an event costs one atomic load. Any thread may announce
 * events. */
#ifndef RDT_ANNOUNCE_H
#define RDT_ANNOUNCE_H

#include <stdatomic.h>

#include <jansson.h>

/* Receives an event; takes over the reference to @fields. @name is a string constant. Called on any
 * thread; must not log. */
typedef void (*rdt_announce_fn)(void *arg, const char *name, json_t *fields);

struct rdt_announcer {
	_Atomic(rdt_announce_fn) fn; /* NULL: no program watches */
	void *arg;                   /* valid from the first watcher to the end of all threads */
};

/* Announce event @name. The fields are an object in the format of json_pack(3). */
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
