/* SPDX-License-Identifier: BSD-3-Clause */
/* ANA: the states of listeners, and what they do to commands. */
#ifndef RDT_ANA_H
#define RDT_ANA_H

#include <stdint.h>

#include "nvmf/wire.h"

struct rdt_ctrl;
struct rdt_listener;
struct rdt_log_out;
struct rdt_ns;
struct rdt_req;
struct rdt_target;

void rdt_ana_init(struct rdt_listener *l);
/* Main thread. Returns 0, or -EINVAL for a group out of range. */
int rdt_ana_set(struct rdt_target *target, struct rdt_listener *l, uint32_t group,
		enum nvme_ana_state state);
enum nvme_ana_state rdt_ana_state(const struct rdt_ctrl *ctrl, uint32_t group);
struct nvme_status rdt_ana_status(const struct rdt_ctrl *ctrl, const struct rdt_ns *ns);
struct nvme_status rdt_ana_check(struct rdt_req *req); /* of req->ns */
uint64_t rdt_ana_log_size(const struct rdt_req *req);
void rdt_ana_log(const struct rdt_req *req, const struct rdt_log_out *out);

#endif /* RDT_ANA_H */
