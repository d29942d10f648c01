/* SPDX-License-Identifier: BSD-3-Clause */
#include "announce.h"

#include "target.h"

void rdt_announce_fields(struct rdt_target *t, const char *name, json_t *fields)
{
	rdt_announce_fn fn = atomic_load_explicit(&t->announcer.fn, memory_order_acquire);

	if (fn && fields)
		fn(t->announcer.arg, name, fields);
	else
		json_decref(fields);
}
