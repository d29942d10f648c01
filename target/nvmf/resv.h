/* SPDX-License-Identifier: BSD-3-Clause */
/* The reservations of a namespace at run time, and what controllers are told of them. */
#ifndef RDT_RESV_H
#define RDT_RESV_H

#include <stdbool.h>
#include <stdint.h>

#include "nvmf/text.h"
#include "nvmf/wire.h"
#include "ns.h"
#include "request.h"
#include "target/resv/reservation.h"

struct rdt_ctrl;
struct rdt_ns;
struct rdt_req;
struct rdt_resv_log;
struct rdt_subsys;

/* ns_resv.c, resv_log.c. Called on a reactor, except where another thread is named. */
int rdt_resv_open(struct rdt_ns *ns); /* main thread; restores what persists, logs why it cannot */
void rdt_resv_close(struct rdt_ns *ns); /* main thread; no command is under way */
const struct rdt_resv_snap *rdt_resv_first(
	const struct rdt_ns *ns); /* what a channel begins with */
struct nvme_status rdt_resv_check_held(struct rdt_req *req);
static inline struct nvme_status rdt_resv_check(struct rdt_req *req) /* does it conflict? */
{
	return req->channel->resv ? rdt_resv_check_held(req) : NVME_OK;
}
void rdt_resv_req_left(struct rdt_req *req); /* a request with a fence has ended */
/* To the main thread, to be applied there: req->resv.op says what. The answer completes @req. */
enum rdt_exec rdt_resv_send(struct rdt_req *req, enum rdt_resv_action action);
bool rdt_resv_offered(const struct rdt_subsys *ss); /* any thread */
bool rdt_resv_ptpl(const struct rdt_ns *ns);        /* any thread */
void rdt_resv_log_init(struct rdt_resv_log *log);
void rdt_resv_log_fini(struct rdt_resv_log *log);
bool rdt_resv_log_add(struct rdt_ctrl *ctrl, const struct rdt_ns *ns, unsigned int type);
/* The oldest notification; @take: and forget it. False: there is none, @page is the empty one. */
bool rdt_resv_log_take(struct rdt_ctrl *ctrl, struct nvme_resv_notification_log *page, bool take);
/* Feature 82h: which types are masked in @ns; NULL: in all namespaces. The controller's owner. */
uint32_t rdt_resv_mask_get(struct rdt_ctrl *ctrl, const struct rdt_ns *ns);
void rdt_resv_mask_set(struct rdt_ctrl *ctrl, const struct rdt_ns *ns, uint32_t mask);
void rdt_resv_masks_reset(const struct rdt_ns *ns); /* main thread */

#endif /* RDT_RESV_H */
