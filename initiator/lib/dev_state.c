/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a device, derived from the states of its paths; its events; and the properties of
 * its namespace.
 */
#include <errno.h>
#include <stdio.h>

#include "dev.h"

const char *rdinit_dev_state_name(enum rdinit_dev_state state)
{
	static const char *const names[] = {
		[RDINIT_DEV_NEW] = "new",       [RDINIT_DEV_OPENING] = "opening",
		[RDINIT_DEV_LIVE] = "live",     [RDINIT_DEV_WAITING] = "waiting",
		[RDINIT_DEV_FAILED] = "failed", [RDINIT_DEV_CLOSED] = "closed",
	};

	return (size_t)state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

const char *rdinit_dev_path_state_name(enum rdinit_dev_path_state state)
{
	static const char *const names[] = {
		[RDINIT_DEV_PATH_NEW] = "new",
		[RDINIT_DEV_PATH_RESOLVING] = "resolving",
		[RDINIT_DEV_PATH_CONNECTING] = "connecting",
		[RDINIT_DEV_PATH_CHECKING] = "checking",
		[RDINIT_DEV_PATH_LIVE] = "live",
		[RDINIT_DEV_PATH_LOST] = "lost",
		[RDINIT_DEV_PATH_WAITING] = "waiting",
		[RDINIT_DEV_PATH_FAILED] = "failed",
		[RDINIT_DEV_PATH_CLOSED] = "closed",
	};

	return (size_t)state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

const char *rdinit_dev_ana_state_name(uint8_t ana_state)
{
	return rdi_ana_state_name(ana_state);
}

/* ---- state and events ---- */

unsigned int rdi_dev_queues_needed(const struct rdinit_dev *dev)
{
	const struct rdinit_dev_chan *chan;
	unsigned int n = 1;

	LIST_FOREACH (chan, &dev->chans, link)
		if (chan->slot + 1 > n)
			n = chan->slot + 1;
	return n;
}

static void dev_kick(struct rdinit_dev *dev)
{
	struct rdinit_dev_chan *chan;

	LIST_FOREACH (chan, &dev->chans, link)
		rdi_chan_kick(chan);
}

static void dev_tell(struct rdinit_dev *dev, const struct rdi_path *path,
		     enum rdinit_dev_event_type type)
{
	struct rdinit_dev_event ev = {
		.type = type,
		.state = (enum rdinit_dev_state)atomic_load(&dev->state),
		.path = path ? (int)path->index : -1,
		.blocks = atomic_load(&dev->blocks),
		.text = "",
	};
	char text[RDI_TEXT + 64];

	if (path) {
		ev.path_state = path->state;
		ev.ana_state = atomic_load(&path->ana);
	}
	if (path && path->state >= RDINIT_DEV_PATH_LOST) {
		ev.err = path->err;
		ev.text = path->text;
	}
	if (path && path->state == RDINIT_DEV_PATH_WAITING) {
		snprintf(text, sizeof(text), "%s; next attempt in %.1f s", path->text,
			 (double)path->retry_in / RD_NSEC_PER_SEC);
		ev.text = text;
	}
	if (dev->opts.event_fn)
		dev->opts.event_fn(dev->opts.event_user, &ev);
}

void rdi_dev_report_open(struct rdinit_dev *dev, int err, uint16_t status, const char *text)
{
	struct rdinit_completion c = {.err = err, .status = status, .text = text};
	rdinit_complete_fn fn = dev->open_fn;

	dev->open_fn = NULL;
	if (fn)
		fn(dev->open_user, &c);
}

/* The device state that follows from the states of the paths. */
static enum rdinit_dev_state dev_state_now(struct rdinit_dev *dev, bool *usable)
{
	unsigned int i, n = atomic_load(&dev->n_paths), failed = 0, tried = 0, live = 0;
	enum rdinit_dev_state state = (enum rdinit_dev_state)atomic_load(&dev->state);

	*usable = false;
	for (i = 0; i < n; i++) {
		const struct rdi_path *path = dev->paths[i];

		*usable |= rdi_path_usable(path);
		live += path->state == RDINIT_DEV_PATH_LIVE;
		failed += path->state == RDINIT_DEV_PATH_FAILED;
		tried += path->attempts > 0 && path->state >= RDINIT_DEV_PATH_LOST;
	}
	if (state == RDINIT_DEV_NEW || state == RDINIT_DEV_CLOSED)
		return state;
	if (*usable)
		return RDINIT_DEV_LIVE;
	if (state == RDINIT_DEV_OPENING && !live)
		return tried == n && !rdi_discovery_pending(dev->discovery) ? RDINIT_DEV_FAILED
									    : RDINIT_DEV_OPENING;
	return failed == n ? RDINIT_DEV_FAILED : RDINIT_DEV_WAITING;
}

/* The open failed: ends all paths, without further attempts. */
static void dev_open_failed(struct rdinit_dev *dev)
{
	unsigned int i, n = atomic_load(&dev->n_paths);
	char text[RDI_TEXT] = "no path";
	uint16_t status = 0;
	int err = -ENODEV;
	const char *why;
	int rc;

	if (n) {
		err = dev->paths[0]->err;
		status = dev->paths[0]->status;
		snprintf(text, sizeof(text), "%s", dev->paths[0]->text);
	} else if (dev->discovery && (rc = rdi_discovery_error(dev->discovery, &why))) {
		err = rc;
		snprintf(text, sizeof(text), "%s", why);
	}
	for (i = 0; i < n; i++) {
		rd_timer_stop(dev->h.loop, &dev->paths[i]->timer);
		dev->paths[i]->state = RDINIT_DEV_PATH_FAILED;
	}
	if (dev->discovery)
		rdi_discovery_stop(dev->discovery);
	rdi_dev_report_open(dev, err, status, text);
}

void rdi_dev_changed(struct rdinit_dev *dev, struct rdi_path *path, enum rdinit_dev_event_type type)
{
	enum rdinit_dev_state was = (enum rdinit_dev_state)atomic_load(&dev->state), now;
	bool usable;

	now = dev_state_now(dev, &usable);
	if (usable)
		atomic_store(&dev->unusable_since, 0);
	else if (!atomic_load(&dev->unusable_since))
		atomic_store(&dev->unusable_since, rd_loop_now(dev->h.loop));
	atomic_store(&dev->state, (int)now);
	if (path)
		dev_tell(dev, path, type);
	if (now != was) {
		rd_debug(dev->h.log, RD_LOG_INIT, "device: %s -> %s", rdinit_dev_state_name(was),
			 rdinit_dev_state_name(now));
		dev_tell(dev, NULL, RDINIT_DEV_EVENT_STATE);
	}
	if (was == RDINIT_DEV_OPENING && now == RDINIT_DEV_FAILED)
		dev_open_failed(dev);
	else if (was == RDINIT_DEV_OPENING && now != RDINIT_DEV_OPENING)
		rdi_dev_report_open(dev, 0, 0, "");
	dev_kick(dev);
}

/* ---- what is known of the namespace ---- */

/* Limit of blocks for one command from @power (NVM 4.1.5.2; 0: none) and the size of the field
 * NLB. */
static uint32_t dev_block_limit(const struct rdinit_ctrl *ctrl, uint8_t power, uint32_t block_size)
{
	unsigned int shift = 12 + NVME_CAP_MPSMIN(ctrl->cap) + power;
	uint64_t blocks = shift < 63 ? (UINT64_C(1) << shift) / block_size : UINT64_MAX;

	return power && blocks < 65536 ? (uint32_t)blocks : 65536;
}

static void path_learn_limits(struct rdi_path *path)
{
	const struct rdinit_ctrl *ctrl = path->ctrl;
	uint16_t oncs = le16toh(ctrl->id.oncs);
	uint32_t bs = path->ns.block_size;

	atomic_store(&path->max_write_zeroes, oncs & NVME_CTRL_ONCS_WRITE_ZEROES
						      ? dev_block_limit(ctrl, path->wzsl, bs)
						      : 0);
	atomic_store(&path->max_verify,
		     oncs & NVME_CTRL_ONCS_VERIFY ? dev_block_limit(ctrl, path->vsl, bs) : 0);
	atomic_store(&path->max_copy, oncs & NVME_CTRL_ONCS_COPY ? le16toh(path->id_ns.mssrl) : 0);
}

static void dev_learn_commands(struct rdinit_dev_info *info, struct rdi_path *path)
{
	const struct rdinit_ctrl *ctrl = path->ctrl;
	uint16_t oncs = le16toh(ctrl->id.oncs);

	info->max_write_zeroes = atomic_load(&path->max_write_zeroes);
	info->max_deallocate = oncs & NVME_CTRL_ONCS_DSM ? UINT32_MAX : 0;
	info->max_verify = atomic_load(&path->max_verify);
	info->max_copy = atomic_load(&path->max_copy);
	info->compare = oncs & NVME_CTRL_ONCS_COMPARE;
	info->compare_write = le16toh(ctrl->id.fuses) & NVME_CTRL_FUSES_COMPARE_AND_WRITE;
}

void rdi_dev_resize(struct rdinit_dev *dev, struct rdi_path *path)
{
	if (atomic_exchange(&dev->blocks, path->ns.blocks) != path->ns.blocks)
		rdi_dev_changed(dev, path, RDINIT_DEV_EVENT_RESIZED);
}

/* What a command may meet on any of the paths in use: what only some paths have is not relied on.
 */
struct ns_traits {
	bool deallocated_is_zero;
	bool write_zeroes_deac;
	bool tells_extents;
	bool volatile_cache;
	bool read_only;
	unsigned int n; /* paths */
};

static void add_traits(struct ns_traits *t, const struct rdi_path *path)
{
	const struct nvme_id_ns *ns = &path->id_ns;
	bool first = t->n++ == 0;
	bool zero = (ns->dlfeat & NVME_NS_DLFEAT_RB) == NVME_NS_DLFEAT_RB_ALL_0S;

	t->deallocated_is_zero = zero && (first || t->deallocated_is_zero);
	t->write_zeroes_deac =
		ns->dlfeat & NVME_NS_DLFEAT_WRITE_ZEROES && (first || t->write_zeroes_deac);
	t->tells_extents |= path->tells_extents;
	t->volatile_cache |= (path->ctrl->id.vwc & NVME_CTRL_VWC_PRESENT) != 0;
	t->read_only |= (ns->nsattr & NVME_NS_NSATTR_WRITE_PROTECTED) != 0;
}

/* The values are 0's based, and valid only with IO_OPT. */
static void take_optimal(struct rdinit_dev_info *info, const struct nvme_id_ns *ns)
{
	bool valid = ns->nsfeat & NVME_NS_FEAT_IO_OPT;

	info->preferred_write = valid ? le16toh(ns->npwg) + 1u : 0;
	info->optimal_write = valid ? le16toh(ns->nows) + 1u : 0;
	info->preferred_deallocate = valid ? le16toh(ns->npdg) + 1u : 0;
}

void rdi_dev_refresh(struct rdinit_dev *dev, const struct rdi_path *path)
{
	unsigned int i, n = atomic_load(&dev->n_paths);
	struct rdinit_dev_info *info = &dev->info;
	struct ns_traits t = {0};

	for (i = 0; i < n; i++) {
		if (dev->paths[i] == path || dev->paths[i]->state == RDINIT_DEV_PATH_LIVE)
			add_traits(&t, dev->paths[i]);
	}
	if (!t.n)
		return; /* without a path nothing new is known */
	info->deallocated_is_zero = t.deallocated_is_zero;
	info->extents = t.tells_extents && t.deallocated_is_zero;
	info->volatile_cache = t.volatile_cache;
	info->read_only = t.read_only;
	atomic_store(&dev->write_zeroes_deac, t.write_zeroes_deac);
	if (path)
		take_optimal(info, &path->id_ns);
}

void rdi_dev_learn(struct rdinit_dev *dev, struct rdi_path *path)
{
	struct rdinit_dev_info *info = &dev->info;
	uint32_t max = path->ctrl->max_transfer;

	if (!dev->known || max < atomic_load(&dev->max_transfer))
		atomic_store(&dev->max_transfer, max);
	path_learn_limits(path);
	rdi_dev_refresh(dev, path);
	if (dev->known) {
		rdi_dev_resize(dev, path);
		return;
	}
	atomic_store(&dev->blocks, path->ns.blocks);
	dev->first_max_transfer = max;
	dev->block_size = info->block_size = path->ns.block_size;
	dev->identity = path->identity;
	info->nsid = path->nsid;
	dev_learn_commands(info, path);
	memcpy(info->nguid, path->identity.nguid, sizeof(info->nguid));
	memcpy(info->uuid, path->identity.uuid, sizeof(info->uuid));
	memcpy(info->eui64, path->identity.eui64, sizeof(info->eui64));
	snprintf(info->subnqn, sizeof(info->subnqn), "%s", path->uri.subnqn);
	dev->known = true;
}

void rdinit_dev_info_init_size(struct rdinit_dev_info *info, size_t size)
{
	rdi_zero_sized(info, size);
}

int rdinit_dev_get_info(struct rdinit_dev *dev, struct rdinit_dev_info *info)
{
	struct rdinit_dev_info now;
	int rc = RDI_CHECK_SIZE(__func__, info, rdinit_dev_info, RDI_DEV_INFO_FIRST);

	if (!rc)
		rc = rdi_dev_lock(dev, __func__);
	if (rc)
		return rc;
	now = dev->info;
	now.blocks = atomic_load(&dev->blocks);
	now.max_transfer = atomic_load(&dev->max_transfer);
	now.state = (enum rdinit_dev_state)atomic_load(&dev->state);
	now.paths = atomic_load(&dev->n_paths);
	if (!dev->known)
		rc = rdi_fail(__func__, -ENOTCONN,
			      "the device was never usable: no path has been "
			      "connected");
	rdi_dev_unlock(dev);
	if (!rc)
		rdi_put_sized(info, info->size, &now, sizeof(now));
	return rc;
}

void rdinit_dev_path_info_init_size(struct rdinit_dev_path_info *info, size_t size)
{
	rdi_zero_sized(info, size);
}

int rdinit_dev_get_path(struct rdinit_dev *dev, unsigned int index,
			struct rdinit_dev_path_info *info)
{
	struct rdinit_dev_path_info now = {.size = 0};
	const struct rdi_path *path;
	int rc = RDI_CHECK_SIZE(__func__, info, rdinit_dev_path_info, sizeof(*info));

	if (!rc)
		rc = rdi_dev_lock(dev, __func__);
	if (rc)
		return rc;
	if (index >= atomic_load(&dev->n_paths)) {
		rc = rdi_fail(__func__, -ENOENT, "there is no path %u; the device has %u", index,
			      atomic_load(&dev->n_paths));
		goto unlock;
	}
	path = dev->paths[index];
	now.state = path->state;
	now.ana_state = atomic_load(&path->ana);
	now.attempts = path->attempts;
	now.losses = path->losses;
	now.err = path->err;
	if (path->state == RDINIT_DEV_PATH_LIVE)
		now.cntlid = path->ctrl->cntlid;
	snprintf(now.address, sizeof(now.address), "%.63s",
		 path->address[0] ? path->address : path->uri.traddr);
	snprintf(now.text, sizeof(now.text), "%.255s", path->text);
	rdi_put_sized(info, info->size, &now, sizeof(now));
unlock:
	rdi_dev_unlock(dev);
	return rc;
}
