/* SPDX-License-Identifier: BSD-3-Clause */
/* The Abort command: it looks for its victim on the reactor of the queue that it names. */
#ifndef RDT_ABORT_H
#define RDT_ABORT_H

#include "util/loop.h"
#include "request.h"

#define RDT_ABORT_TIMEOUT (1 * RD_NSEC_PER_SEC)

struct nvme_status rdt_abort_check(struct rdt_req *req);
enum rdt_exec rdt_abort_exec(struct rdt_req *req);
void rdt_abort_victim_done(struct rdt_req *victim); /* @victim, which has an aborter, has ended */

#endif /* RDT_ABORT_H */
