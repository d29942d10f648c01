/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The second ring of the io_uring engine, for namespaces with "iopoll": the thread polls the device
 * for its completions instead of waiting for interrupts. Everything here runs on the engine's
 * thread.
 */
#ifndef RDT_IOPOLL_H
#define RDT_IOPOLL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine_io.h"
#include "ring.h"

struct rdt_iopoll {
	struct rdt_ring ring; /* created when the first namespace uses it */
	uint32_t out;         /* I/Os in flight on it */
};

/*
 * Create the ring if the namespace of @chan has iopoll. @plain: the engine's first ring, whose
 * registered memory this ring registers as well. On failure logs that and sets chan->poll_max to 0,
 * so that its I/O uses @plain.
 */
void rdt_iopoll_add_file(struct rdt_iopoll *poll, struct rdt_engine *engine,
			 const struct rdt_ring *plain, struct rdt_fchan *chan);
/* Can this kind of I/O use this ring? Its size was checked. */
bool rdt_iopoll_takes_kind(const struct rdt_bio *bio, const struct rdt_fio *fio);
static inline bool rdt_iopoll_takes(const struct rdt_bio *bio, const struct rdt_fio *fio)
{
	return fio->piece <= fio->chan->poll_max && rdt_iopoll_takes_kind(bio, fio);
}
/* An I/O of this ring has ended. Returns @res, or -EINTR to retry it on the other ring. */
int rdt_iopoll_result(struct rdt_iopoll *poll, struct rdt_engine *engine, struct rdt_fchan *chan,
		      int res);

#endif /* RDT_IOPOLL_H */
