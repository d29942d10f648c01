/* SPDX-License-Identifier: BSD-3-Clause */
/* The Abort command. It finds its victim on the reactor of the queue that the command names. */
#ifndef RDT_ABORT_H
#define RDT_ABORT_H

#include "util/loop.h"
#include "request.h"

#define RDT_ABORT_TIMEOUT (1 * RD_NSEC_PER_SEC)

struct nvme_status rdt_abort_check(struct rdt_req *req);
enum rdt_exec rdt_abort_exec(struct rdt_req *req);
/* @victim has ended, and an Abort command waits for it */
void rdt_abort_victim_done(struct rdt_req *victim);

#endif /* RDT_ABORT_H */
