/* SPDX-License-Identifier: BSD-3-Clause */
#include "move_ctrl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/loop.h"
#include "auth_keys.h"
#include "ctrl.h"
#include "move_bytes.h"
#include "ns.h"
#include "qpair.h"
#include "reactor.h"
#include "resv.h"
#include "subsys.h"
#include "target.h"

#define CC_EN 0x1u

/* By the number of the feature, and of the event: records name them. */
static const char *const features[RDT_FEATS] = {
	[RDT_FEAT_ARBITRATION] = "arbitration",   [RDT_FEAT_POWER] = "power",
	[RDT_FEAT_TEMP_OVER] = "temp_over",       [RDT_FEAT_TEMP_UNDER] = "temp_under",
	[RDT_FEAT_WRITE_ATOMIC] = "write_atomic", [RDT_FEAT_ASYNC_EVENT] = "async_event",
	[RDT_FEAT_ERR_RECOVERY] = "err_recovery",
};
static const char *const events[RDT_EVENTS] = {
	[RDT_EV_NS_ATTR] = "ns_attr",   [RDT_EV_ANA] = "ana",     [RDT_EV_DISC_LOG] = "disc_log",
	[RDT_EV_RESV_LOG] = "resv_log", [RDT_EV_ERROR] = "error", [RDT_EV_HEALTH] = "health",
};

bool rdt_move_ctrl_can(const struct rdt_ctrl *ctrl)
{
	return ctrl->state == RDT_CTRL_READY && !ctrl->csts_extra && !ctrl->admin_gone &&
	       !atomic_load(&ctrl->ending) && !atomic_load(&ctrl->lost);
}

/* ---- out ---- */

static json_t *event_names(uint32_t bits)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < RDT_EVENTS; i++)
		if (bits & 1u << i)
			json_array_append_new(list, json_string(events[i]));
	return list;
}

static json_t *events_out(struct rdt_ctrl *ctrl)
{
	struct rdt_events *ev = &ctrl->events;
	struct rdt_changed_ns *c = &ev->changed;
	json_t *changed = json_array(), *out;

	pthread_mutex_lock(&c->lock);
	for (unsigned int i = 0; i < c->count; i++)
		json_array_append_new(changed, json_integer(c->nsid[i]));
	out = json_pack("{s:o, s:o, s:o, s:o, s:o, s:b}", "posted",
			event_names(atomic_load(&ev->posted)), "fresh", event_names(ev->fresh),
			"due", event_names(ev->due), "reported", event_names(ev->reported),
			"changed", changed, "overflow", (int)c->overflow);
	pthread_mutex_unlock(&c->lock);
	return out;
}

static json_t *errors_out(struct rdt_error_log *log)
{
	json_t *out;

	pthread_mutex_lock(&log->lock);
	out = json_pack("{s:I}", "count", (json_int_t)log->count);
	if (log->count)
		json_object_set_new(out, "ring", rdt_move_encode(log->ring, sizeof(log->ring)));
	pthread_mutex_unlock(&log->lock);
	return out;
}

static json_t *masked_out(struct rdt_ctrl *ctrl)
{
	const struct rdt_ns_place *end, *p = rdt_ns_places(ctrl->owner, ctrl->subsys, 0, &end);
	json_t *out = json_array();

	if (!rdt_resv_mask_any(ctrl))
		return out;
	for (; p < end; p++) {
		uint32_t mask = rdt_resv_mask_get(ctrl, p->channel->ns);

		if (mask)
			json_array_append_new(out,
					      json_pack("[I, I]", (json_int_t)p->channel->ns->nsid,
							(json_int_t)mask));
	}
	return out;
}

static json_t *resv_out(struct rdt_ctrl *ctrl)
{
	struct rdt_resv_log *log = &ctrl->resv_log;
	json_t *entries = json_array(), *out;

	pthread_mutex_lock(&log->lock);
	for (unsigned int i = 0; i < log->used; i++) {
		const struct rdt_resv_entry *e = &log->ring[(log->head + i) % RDT_RESV_LOG];

		json_array_append_new(entries, json_pack("[I, I, i]", (json_int_t)e->count,
							 (json_int_t)e->nsid, (int)e->type));
	}
	out = json_pack("{s:I, s:o}", "counter", (json_int_t)log->counter, "entries", entries);
	pthread_mutex_unlock(&log->lock);
	json_object_set_new(out, "masked", masked_out(ctrl));
	return out;
}

static json_t *features_out(const struct rdt_ctrl *ctrl)
{
	json_t *out = json_object();

	for (unsigned int i = 0; i < RDT_FEATS; i++)
		json_object_set_new(out, features[i], json_integer(ctrl->features[i]));
	json_object_set_new(out, "retry_delay", json_boolean(atomic_load(&ctrl->retry_delay)));
	if (ctrl->timestamp_set || ctrl->timestamp_ms)
		json_object_set_new(out, "timestamp_set", json_boolean(ctrl->timestamp_set));
	json_object_set_new(
		out, "timestamp_ms",
		json_integer((json_int_t)(ctrl->timestamp_ms +
					  (rd_loop_now(ctrl->owner->loop) - ctrl->timestamp_at) /
						  RD_NSEC_PER_MSEC)));
	return out;
}

json_t *rdt_move_ctrl_out(struct rdt_ctrl *ctrl)
{
	const struct rdt_target_config *cfg = &ctrl->subsys->target->cfg->target;

	return json_pack(
		"{s:s, s:s, s:i, s:s, s:o, s:I, s:I, s:i, s:b, s:I, s:I, s:o, s:o, s:o, s:o}",
		"kind", "ctrl", "subsys", ctrl->subsys->nqn, "cntlid", (int)ctrl->cntlid, "hostnqn",
		ctrl->hostnqn, "hostid", rdt_move_hex_text(ctrl->hostid, sizeof(ctrl->hostid)),
		"kato", (json_int_t)ctrl->kato_ms, "cc", (json_int_t)ctrl->cc, "queues",
		(int)ctrl->queues_granted, "authenticated",
		(int)rdt_auth_asks(ctrl->subsys, ctrl->hostnqn), "max_data",
		(json_int_t)cfg->max_data_bytes, "in_capsule", (json_int_t)cfg->in_capsule_bytes,
		"features", features_out(ctrl), "events", events_out(ctrl), "errors",
		errors_out(&ctrl->errors), "reservations", resv_out(ctrl));
}

/* ---- in ---- */

static bool events_by_name(const json_t *list, uint32_t *bits)
{
	const json_t *name;
	size_t at;

	*bits = 0;
	json_array_foreach((json_t *)(uintptr_t)list, at, name)
	{
		const char *text = json_string_value(name);

		if (!text)
			return false;
		/* One that this program does not know is none that it reports. */
		for (unsigned int i = 0; i < RDT_EVENTS; i++)
			if (strcmp(events[i], text) == 0)
				*bits |= 1u << i;
	}
	return json_is_array(list);
}

static bool changed_in(struct rdt_changed_ns *c, const json_t *list)
{
	const json_t *v;
	size_t at;

	if (!json_is_array(list) || json_array_size(list) > NVME_ID_NS_LIST_MAX)
		return false;
	json_array_foreach((json_t *)(uintptr_t)list, at, v)
	{
		json_int_t nsid = json_integer_value(v);

		if (nsid < 1 || nsid >= NVME_NSID_ALL ||
		    (c->count && (uint32_t)nsid <= c->nsid[c->count - 1]))
			return false;
		c->nsid[c->count++] = (uint32_t)nsid;
	}
	return true;
}

static bool events_in(struct rdt_ctrl *ctrl, const json_t *rec)
{
	struct rdt_events *ev = &ctrl->events;
	struct rdt_changed_ns *c = &ev->changed;
	uint32_t posted;
	bool ok;

	if (!events_by_name(json_object_get(rec, "posted"), &posted) ||
	    !events_by_name(json_object_get(rec, "fresh"), &ev->fresh) ||
	    !events_by_name(json_object_get(rec, "due"), &ev->due) ||
	    !events_by_name(json_object_get(rec, "reported"), &ev->reported))
		return false;
	ev->fresh |= posted;
	ev->due |= posted; /* those that are not enabled are dropped when they would be reported */
	pthread_mutex_lock(&c->lock);
	ok = changed_in(c, json_object_get(rec, "changed")) &&
	     rdt_move_bool(rec, "overflow", &c->overflow);
	pthread_mutex_unlock(&c->lock);
	return ok;
}

static int errors_in(struct rdt_error_log *log, const json_t *rec)
{
	uint64_t count;
	uint8_t *ring;
	size_t len;
	int err;

	if (!rdt_move_uint(rec, "count", 0, INT64_MAX, &count))
		return -EPROTO;
	if (!count)
		return 0;
	err = rdt_move_decode(json_object_get(rec, "ring"), sizeof(log->ring), &ring, &len);
	if (err)
		return err;
	pthread_mutex_lock(&log->lock);
	if (len == sizeof(log->ring)) {
		memcpy(log->ring, ring, len);
		log->count = count;
	}
	pthread_mutex_unlock(&log->lock);
	free(ring);
	return len == sizeof(log->ring) ? 0 : -EPROTO;
}

static bool entry_in(struct rdt_resv_log *log, const json_t *v)
{
	json_int_t count = json_integer_value(json_array_get(v, 0)),
		   nsid = json_integer_value(json_array_get(v, 1)),
		   type = json_integer_value(json_array_get(v, 2));

	if (count < 1 || nsid < 1 || nsid >= NVME_NSID_ALL || type < 1 || type > RDT_RESV_TYPES)
		return false;
	log->ring[log->used++] =
		(struct rdt_resv_entry){(uint64_t)count, (uint32_t)nsid, (uint8_t)type};
	return true;
}

static bool log_in(struct rdt_resv_log *log, const json_t *rec)
{
	const json_t *list = json_object_get(rec, "entries"), *v;
	uint64_t counter;
	bool ok = json_is_array(list) && json_array_size(list) <= RDT_RESV_LOG &&
		  rdt_move_uint(rec, "counter", 0, INT64_MAX, &counter);
	size_t at;

	if (!ok)
		return false;
	pthread_mutex_lock(&log->lock);
	log->counter = counter;
	json_array_foreach((json_t *)(uintptr_t)list, at, v) ok = ok && entry_in(log, v);
	pthread_mutex_unlock(&log->lock);
	return ok;
}

static bool masked_in(struct rdt_ctrl *ctrl, const json_t *list)
{
	const json_t *v;
	size_t at;

	json_array_foreach((json_t *)(uintptr_t)list, at, v)
	{
		json_int_t nsid = json_integer_value(json_array_get(v, 0)),
			   mask = json_integer_value(json_array_get(v, 1));
		const struct rdt_ns_place *end, *p;

		if (nsid < 1 || nsid >= NVME_NSID_ALL || mask < 0 || mask > UINT32_MAX)
			return false;
		p = rdt_ns_places(ctrl->owner, ctrl->subsys, (uint32_t)nsid - 1, &end);
		if (p < end && p->channel->ns->nsid == (uint32_t)nsid)
			rdt_resv_mask_set(ctrl, p->channel->ns, (uint32_t)mask);
	}
	return json_is_array(list);
}

static bool features_in(struct rdt_ctrl *ctrl, const json_t *rec)
{
	bool retry, set = false;
	uint64_t v, ms;

	for (unsigned int i = 0; i < RDT_FEATS; i++) {
		if (!rdt_move_uint(rec, features[i], 0, UINT32_MAX, &v))
			return false;
		ctrl->features[i] = (uint32_t)v;
	}
	if (!rdt_move_bool(rec, "retry_delay", &retry) ||
	    !rdt_move_uint(rec, "timestamp_ms", 0, INT64_MAX, &ms) ||
	    (json_object_get(rec, "timestamp_set") && !rdt_move_bool(rec, "timestamp_set", &set)))
		return false;
	atomic_store(&ctrl->retry_delay, retry);
	ctrl->timestamp_ms = ms;
	ctrl->timestamp_at = rd_loop_now(ctrl->owner->loop);
	ctrl->timestamp_set = set;
	return true;
}

int rdt_move_ctrl_in(struct rdt_ctrl *ctrl, const json_t *rec)
{
	const json_t *resv = json_object_get(rec, "reservations");
	uint64_t cc;

	if (!rdt_move_uint(rec, "cc", 0, UINT32_MAX, &cc) || !(cc & CC_EN) ||
	    !features_in(ctrl, json_object_get(rec, "features")) ||
	    !events_in(ctrl, json_object_get(rec, "events")) || !log_in(&ctrl->resv_log, resv) ||
	    !masked_in(ctrl, json_object_get(resv, "masked")))
		return -EPROTO;
	ctrl->cc = (uint32_t)cc;
	ctrl->state = RDT_CTRL_READY;
	return errors_in(&ctrl->errors, json_object_get(rec, "errors"));
}
