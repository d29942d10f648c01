/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservations of a running target: the commands, and what reactors and hosts learn of them. */
#ifndef RDT_RESV_H
#define RDT_RESV_H

#include <stdbool.h>
#include <stdint.h>

#include "nvmf/text.h"
#include "nvmf/wire.h"
#include "ns.h"
#include "request.h"

struct rdt_ctrl;
struct rdt_ns;
struct rdt_req;
struct rdt_resv_log;
struct rdt_subsys;

/* resv_cmd.c, resv_log.c. Commands are the reactors', the rest is said where it differs. */
int rdt_resv_open(struct rdt_ns *ns); /* main thread; restores what persists, logs why it cannot */
void rdt_resv_close(struct rdt_ns *ns); /* main thread; no command is under way */
const struct rdt_resv_snap *rdt_resv_first(const struct rdt_ns *ns); /* what a view begins with */
struct nvme_status rdt_resv_check_held(struct rdt_req *req);
static inline struct nvme_status rdt_resv_check(struct rdt_req *req) /* does it conflict? */
{
	return req->view->resv ? rdt_resv_check_held(req) : NVME_OK;
}
void rdt_resv_req_left(struct rdt_req *req); /* a request with a fence has ended */
struct nvme_status rdt_resv_register_check(struct rdt_req *req);
enum rdt_exec rdt_resv_register_exec(struct rdt_req *req);
struct nvme_status rdt_resv_acquire_check(struct rdt_req *req);
enum rdt_exec rdt_resv_acquire_exec(struct rdt_req *req);
struct nvme_status rdt_resv_release_check(struct rdt_req *req);
enum rdt_exec rdt_resv_release_exec(struct rdt_req *req);
struct nvme_status rdt_resv_report_check(struct rdt_req *req);
enum rdt_exec rdt_resv_report_exec(struct rdt_req *req);
bool rdt_resv_offered(const struct rdt_subsys *ss); /* any thread */
uint8_t rdt_resv_rescap(const struct rdt_ns *ns);   /* any thread */
bool rdt_resv_ptpl(const struct rdt_ns *ns);        /* any thread */
enum rdt_exec rdt_resv_ptpl_set(struct rdt_req *req, bool on);
void rdt_resv_log_init(struct rdt_resv_log *log);
void rdt_resv_log_fini(struct rdt_resv_log *log);
bool rdt_resv_log_add(struct rdt_ctrl *ctrl, const struct rdt_ns *ns, unsigned int type);
/* The oldest notification; @take: and forget it. False: there is none, @page is the empty one. */
bool rdt_resv_log_take(struct rdt_ctrl *ctrl, struct nvme_resv_notification_log *page, bool take);
void rdt_resv_masks_reset(const struct rdt_ns *ns); /* main thread */
/* Features 82h and 83h, on the controller's owner. */
struct nvme_status rdt_resv_feature_get(struct rdt_req *req, uint32_t *value);
enum rdt_exec rdt_resv_feature_set(struct rdt_req *req);

#endif /* RDT_RESV_H */
