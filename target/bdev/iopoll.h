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
	struct rdt_ring ring; /* made when the first namespace asks for it */
	uint32_t out;         /* I/Os there */
};

/*
 * Prepare the ring for @chan, if its namespace has iopoll; @plain is the engine's first ring, whose
 * memory is registered with this one as well. Where that fails, logs it and sets chan->poll_max to
 * 0: its I/O goes to @plain.
 */
void rdt_iopoll_add_file(struct rdt_iopoll *poll, struct rdt_engine *engine,
			 const struct rdt_ring *plain, struct rdt_fchan *chan);
/* Does an I/O whose size allows it go to this ring? */
bool rdt_iopoll_takes_kind(const struct rdt_bio *bio, const struct rdt_fio *fio);
static inline bool rdt_iopoll_takes(const struct rdt_bio *bio, const struct rdt_fio *fio)
{
	return fio->piece <= fio->chan->poll_max && rdt_iopoll_takes_kind(bio, fio);
}
/* An I/O of this ring is done. Returns @res, or -EINTR: try it again, which goes to the other ring.
 */
int rdt_iopoll_result(struct rdt_iopoll *poll, struct rdt_engine *engine, struct rdt_fchan *chan,
		      int res);

#endif /* RDT_IOPOLL_H */
