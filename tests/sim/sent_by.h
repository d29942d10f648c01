/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of a channel on which a command was sent that is not the channel's own. */
#ifndef SIM_SENT_BY_H
#define SIM_SENT_BY_H

#include "dev.h"

struct sent_by {
	struct rdi_chan_path *cp;
	uint32_t epoch; /* the association of the queue */
	uint64_t since;
};

/* The channel's own commands reset the path when they take too long; this command has no time limit
 * there. No-op while it is not late. */
static inline void sent_by_look(struct sent_by *by, uint64_t now, const char *what)
{
	if (now - by->since < 5 * RD_NSEC_PER_SEC || !by->cp->qp || by->cp->epoch != by->epoch)
		return;
	by->since = now;
	rdi_queue_fail(&by->cp->qp->q, -ETIMEDOUT, "%s was not answered", what);
}

#endif /* SIM_SENT_BY_H */
