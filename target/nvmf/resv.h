/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservations of a namespace at run time, and notifications of controllers. */
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
/* restores the stored state, or says in @said why it cannot; main thread */
int rdt_resv_open(struct rdt_ns *ns, const struct rdt_state_text *stored, char *said, size_t size);
void rdt_resv_close(struct rdt_ns *ns); /* no reservation command may be in progress; main thread */
const struct rdt_resv_snap *rdt_resv_first(
	const struct rdt_ns *ns); /* returns the first snapshot of a channel */
struct nvme_status rdt_resv_check_held(struct rdt_req *req);
static inline struct nvme_status rdt_resv_check(struct rdt_req *req) /* reservation conflict */
{
	return req->channel->resv ? rdt_resv_check_held(req) : NVME_OK;
}
void rdt_resv_req_left(struct rdt_req *req); /* a request with req->fence has ended */
/* Have the main thread apply req->resv.op. Completes @req afterwards. */
enum rdt_exec rdt_resv_send(struct rdt_req *req, enum rdt_resv_action action);
bool rdt_resv_offered(const struct rdt_subsys *ss); /* any thread */
/* Returns whether reservations can survive a restart of the target. Any thread. */
bool rdt_resv_durable(const struct rdt_ns *ns);
/* Read and enforce the state that another gateway has stored with the storage of @ns, which is
 * LIVE. I/O is possible when that state is enforced. Main thread. */
void rdt_resv_follow(struct rdt_ns *ns);
/* For a hand-over, on the main thread, while no connection is served: get the state for the next
 * process; and restore the state of the previous process, which reactors enforce before they
 * process messages posted later. Return 0, -EBUSY or -ENOMEM. */
int rdt_resv_give(const struct rdt_ns *ns, struct rdt_resv_state *state);
int rdt_resv_inherit(struct rdt_ns *ns, const struct rdt_resv_state *state);
bool rdt_resv_ptpl(const struct rdt_ns *ns); /* any thread */
void rdt_resv_log_init(struct rdt_resv_log *log);
void rdt_resv_log_fini(struct rdt_resv_log *log);
bool rdt_resv_log_add(struct rdt_ctrl *ctrl, const struct rdt_ns *ns, unsigned int type);
bool rdt_resv_log_used(struct rdt_ctrl *ctrl);  /* returns whether it has a notification */
void rdt_resv_log_clear(struct rdt_ctrl *ctrl); /* resets the counter, too */
/* Copy the oldest notification to @page, and remove it if @take is set. Returns false if there is
 * none; @page is then the empty notification. */
bool rdt_resv_log_take(struct rdt_ctrl *ctrl, struct nvme_resv_notification_log *page, bool take);
/* Feature 82h: returns the masked types of @ns; NULL: those masked in all namespaces. On the
 * controller's owner. */
uint32_t rdt_resv_mask_get(struct rdt_ctrl *ctrl, const struct rdt_ns *ns);
bool rdt_resv_mask_any(struct rdt_ctrl *ctrl); /* whether any type is masked */
void rdt_resv_mask_set(struct rdt_ctrl *ctrl, const struct rdt_ns *ns, uint32_t mask);
void rdt_resv_masks_reset(const struct rdt_ns *ns); /* main thread */

#endif /* RDT_RESV_H */
