/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservation notifications: log page 80h of a controller, and the masks of feature 82h. */
#include <string.h>

#include "nvmf/wire.h"
#include "ctrl.h"
#include "ns.h"
#include "resv.h"
#include "subsys.h"
#include "target/config/tgt_limits.h"

void rdt_resv_log_init(struct rdt_resv_log *log)
{
	pthread_mutex_init(&log->lock, NULL);
}

void rdt_resv_log_fini(struct rdt_resv_log *log)
{
	for (unsigned int i = 0; i < RDT_RESV_TYPES; i++)
		rdt_slots_fini(&log->masked[i]);
	pthread_mutex_destroy(&log->lock);
}

/* Add a notification. When the ring is full, it is dropped, which the counter shows to the host.
 * The bit of a type in a mask is its number. Returns whether there is a new notification. */
bool rdt_resv_log_add(struct rdt_ctrl *ctrl, const struct rdt_ns *ns, unsigned int type)
{
	struct rdt_resv_log *log = &ctrl->resv_log;
	bool added = false;

	pthread_mutex_lock(&log->lock);
	if (!rdt_slots_has(&log->masked[type - 1], ns->slot)) {
		if (++log->counter == 0)
			log->counter = 1; /* skips 0, which means "no notification" */
		if (log->used < RDT_RESV_LOG) {
			struct rdt_resv_entry *e =
				&log->ring[(log->head + log->used++) % RDT_RESV_LOG];

			*e = (struct rdt_resv_entry){log->counter, ns->nsid, (uint8_t)type};
		}
		added = true;
	}
	pthread_mutex_unlock(&log->lock);
	return added;
}

bool rdt_resv_log_used(struct rdt_ctrl *ctrl)
{
	bool used;

	pthread_mutex_lock(&ctrl->resv_log.lock);
	used = ctrl->resv_log.used > 0;
	pthread_mutex_unlock(&ctrl->resv_log.lock);
	return used;
}

void rdt_resv_log_clear(struct rdt_ctrl *ctrl)
{
	struct rdt_resv_log *log = &ctrl->resv_log;

	pthread_mutex_lock(&log->lock);
	log->counter = 0;
	log->head = log->used = 0;
	pthread_mutex_unlock(&log->lock);
}

bool rdt_resv_log_take(struct rdt_ctrl *ctrl, struct nvme_resv_notification_log *page, bool take)
{
	struct rdt_resv_log *log = &ctrl->resv_log;
	bool found;

	memset(page, 0, sizeof(*page));
	pthread_mutex_lock(&log->lock);
	found = log->used > 0;
	if (found) {
		const struct rdt_resv_entry *e = &log->ring[log->head];

		page->lpc = htole64(e->count);
		page->rnlpt = e->type;
		page->nalp = (uint8_t)(log->used - 1);
		page->nsid = htole32(e->nsid);
		if (take) {
			log->head = (log->head + 1) % RDT_RESV_LOG;
			log->used--;
		}
	}
	pthread_mutex_unlock(&log->lock);
	return found;
}

/* The log's lock is held, also for the next function. */
static void put_mask(struct rdt_resv_log *log, unsigned int slot, uint32_t mask)
{
	for (unsigned int i = 0; i < RDT_RESV_TYPES; i++) {
		if (mask & 2u << i)
			rdt_slots_set(&log->masked[i], slot);
		else
			rdt_slots_clear(&log->masked[i], slot);
	}
}

static void put_mask_of_all(struct rdt_resv_log *log, uint32_t mask)
{
	for (unsigned int i = 0; i < RDT_RESV_TYPES; i++) {
		if (mask & 2u << i)
			rdt_slots_set_all(&log->masked[i]);
		else
			rdt_slots_clear_all(&log->masked[i]);
	}
}

/* A new namespace uses this slot: clear its masks. */
void rdt_resv_masks_reset(const struct rdt_ns *ns)
{
	struct rdt_subsys *ss = ns->subsys;
	struct rdt_ctrl *ctrl;

	pthread_mutex_lock(&ss->lock);
	TAILQ_FOREACH (ctrl, &ss->ctrls, link) {
		pthread_mutex_lock(&ctrl->resv_log.lock);
		put_mask(&ctrl->resv_log, ns->slot, 0);
		pthread_mutex_unlock(&ctrl->resv_log.lock);
	}
	pthread_mutex_unlock(&ss->lock);
}

uint32_t rdt_resv_mask_get(struct rdt_ctrl *ctrl, const struct rdt_ns *ns)
{
	struct rdt_resv_log *log = &ctrl->resv_log;
	uint32_t mask = 0;

	pthread_mutex_lock(&log->lock);
	for (unsigned int i = 0; i < RDT_RESV_TYPES; i++)
		mask |= (uint32_t)rdt_slots_has(&log->masked[i], ns->slot) << (i + 1);
	pthread_mutex_unlock(&log->lock);
	return mask;
}

bool rdt_resv_mask_any(struct rdt_ctrl *ctrl)
{
	struct rdt_resv_log *log = &ctrl->resv_log;
	bool any = false;

	pthread_mutex_lock(&log->lock);
	for (unsigned int i = 0; i < RDT_RESV_TYPES; i++)
		any |= rdt_slots_any(&log->masked[i]);
	pthread_mutex_unlock(&log->lock);
	return any;
}

void rdt_resv_mask_set(struct rdt_ctrl *ctrl, const struct rdt_ns *ns, uint32_t mask)
{
	struct rdt_resv_log *log = &ctrl->resv_log;

	pthread_mutex_lock(&log->lock);
	if (ns)
		put_mask(log, ns->slot, mask);
	else
		put_mask_of_all(log, mask);
	pthread_mutex_unlock(&log->lock);
}
