/* SPDX-License-Identifier: BSD-3-Clause */
#include "iopoll.h"

#include <errno.h>
#include <string.h>

#include "util/log.h"

static int make_iopoll_ring(struct rdt_iopoll *poll, struct rdt_engine *engine,
			    const struct rdt_ring *plain)
{
	const struct rdt_ring_opts opts = {.iopoll = true};
	unsigned int depth = engine->depth;
	int rc;

	if (poll->ring.made)
		return 0;
	rc = rdt_ring_init(&poll->ring, engine->log, &opts, &depth);
	if (!rc && plain->memory)
		rdt_ring_add_memory(&poll->ring, plain->memory, plain->memory_len);
	return rc;
}

void rdt_iopoll_add_file(struct rdt_iopoll *poll, struct rdt_engine *engine,
			 const struct rdt_ring *plain, struct rdt_fchan *chan)
{
	int rc = chan->poll_max ? make_iopoll_ring(poll, engine, plain) : 0;

	if (!rc)
		return;
	rd_warn(engine->log, RD_LOG_BACKEND,
		"%s: iopoll: cannot create a ring to poll: %s: using interrupts", chan->path,
		strerror(-rc));
	chan->poll_max = 0;
}

/* A durable write may need further work in the kernel, for which nobody polls. */
bool rdt_iopoll_takes_kind(const struct rdt_bio *bio, const struct rdt_fio *fio)
{
	return !fio->dsync;
}

int rdt_iopoll_result(struct rdt_iopoll *poll, struct rdt_engine *engine, struct rdt_fchan *chan,
		      int res)
{
	poll->out--;
	if (res != -EOPNOTSUPP)
		return res;
	if (chan->poll_max)
		rd_warn(engine->log, RD_LOG_BACKEND,
			"%s: iopoll: its file system does not support polling: using interrupts",
			chan->path);
	chan->poll_max = 0;
	return -EINTR;
}
