/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads from a path's controller: before the path is used, whether it leads to the namespace of the
 * device; after events, the namespace's size and ANA state.
 */
#include <errno.h>
#include <stdlib.h>

#include "dev.h"

/* Get Log Page: the page of a path's ANA states, groups only (LSP is bits 8 and up). */
#define ANA_GROUPS (NVME_LOG_LID_ANA | NVME_LOG_ANA_LSP_RGO_GROUPS_ONLY << 8)

/* For an answer of a gateway when another one has the namespace. */
#define DOUBT_NS RD_NSEC_PER_SEC

static void path_read_next(struct rdi_path *path);

/* ---- what was read ---- */

/* Returns 0, or why the path cannot be used, with its text set. */
static int path_take_ns(struct rdi_path *path)
{
	struct rdinit_dev *dev = path->dev;
	const struct nvme_id_ns *id = (const struct nvme_id_ns *)path->data;
	struct rdinit_ns *ns = &path->ns;
	char why[RDI_TEXT / 2];
	int rc;

	rc = rdi_ns_take(id, path->nsid, ns, why, sizeof(why));
	if (rc) {
		rdi_path_fail(path, rc, 0, "%s: %s", path->address, why);
		return rc;
	}
	if (dev->known && ns->block_size != dev->block_size) {
		rdi_path_fail(path, -EXDEV, 0,
			      "%s: namespace %u has blocks of %u bytes, the device has blocks of "
			      "%u: it was formatted, or it is another namespace",
			      path->address, path->nsid, ns->block_size, dev->block_size);
		return -EXDEV;
	}
	/* The ANA log may have been read before the new group was known. */
	if (id->anagrpid != path->id_ns.anagrpid && path->ana_log)
		path->todo |= RDI_READ_ANA;
	path->id_ns = *id;
	if (path->state == RDINIT_DEV_PATH_LIVE) {
		rdi_dev_refresh(dev, path);
		rdi_dev_resize(dev, path);
	}
	return 0;
}

/* The gateway that tells its number in @id; 0: none does. */
static uint64_t gateway_of(const struct nvme_id_ns *id)
{
	struct nvme_ns_gateway told;

	memcpy(&told, id->vs, sizeof(told));
	return memcmp(told.mark, NVME_NS_GATEWAY_MARK, sizeof(told.mark)) == 0
		       ? le64toh(told.gateway)
		       : 0;
}

static void path_look_again(struct rdi_path *path, unsigned int what)
{
	if (path->state != RDINIT_DEV_PATH_LIVE && path->state != RDINIT_DEV_PATH_CHECKING)
		return;
	path->todo |= what;
	path_read_next(path);
}

/*
 * The gateway of @path can use the namespace now, so another one cannot any more. If that hangs, it
 * does not say so, and its keep-alive timer would show it much later.
 */
static void doubt_other_gateways(const struct rdi_path *path)
{
	struct rdinit_dev *dev = path->dev;
	unsigned int i, n = dev->n_paths;

	if (!path->gateway || !rdi_path_usable(path))
		return;
	for (i = 0; i < n; i++) {
		struct rdi_path *other = dev->paths[i];

		if (!other->gateway || other->gateway == path->gateway || other->doubted ||
		    !rdi_path_usable(other))
			continue;
		other->doubted = rd_timer_start(dev->h.loop, &other->timer, DOUBT_NS) == 0;
		path_look_again(other, RDI_READ_ANA);
	}
}

static void path_set_ana(struct rdi_path *path)
{
	struct rdinit_dev *dev = path->dev;
	uint8_t was = atomic_exchange(&path->ana, path->ana_now.state);
	uint64_t now = rd_loop_now(dev->h.loop);

	path->doubted = false;
	if (path->ana_now.state == NVME_ANA_STATE_CHANGE && path->state == RDINIT_DEV_PATH_LIVE)
		rd_timer_start(dev->h.loop, &path->timer,
			       path->ana_now.deadline > now ? path->ana_now.deadline - now : 0);
	else if (path->state == RDINIT_DEV_PATH_LIVE)
		rd_timer_stop(dev->h.loop, &path->timer);
	if (was != path->ana_now.state && path->state == RDINIT_DEV_PATH_LIVE) {
		rdi_dev_changed(dev, path, RDINIT_DEV_EVENT_ANA);
		doubt_other_gateways(path);
	}
}

void rdi_path_ana_timer(struct rdi_path *path)
{
	uint64_t now = rd_loop_now(path->dev->h.loop);

	if (path->doubted)
		rdi_path_fail(
			path, -ETIMEDOUT, 0,
			"%s: another gateway serves the namespace, and this one does not answer",
			path->address);
	else if (rdi_ana_expired(&path->ana_now, now))
		rdi_path_fail(path, -ETIMEDOUT, 0,
			      "%s: the transition of the ANA state took longer than ANATT (%u s)",
			      path->address, path->ana_now.anatt);
}

static void path_take_nvm(struct rdi_path *path)
{
	const struct nvme_id_ctrl_nvm *id = (const struct nvme_id_ctrl_nvm *)path->data;

	path->vsl = id->vsl;
	path->wzsl = id->wzsl;
	path->tells_extents = path->data[NVME_NVM_CTRL_AOCS] & NVME_AOCS_RALBAS;
}

static void path_take_ana(struct rdi_path *path)
{
	int rc = rdi_ana_update(&path->ana_now, path->ana_log, path->ana_len,
				le32toh(path->id_ns.anagrpid), rd_loop_now(path->dev->h.loop));

	if (rc)
		rd_warn(path->dev->h.log, RD_LOG_INIT, "%s: ANA log page: %s", path->address,
			rc == -ENOENT ? "the namespace's group is missing" : "malformed");
	path_set_ana(path);
}

/* All data is read: checks that it is the same namespace. */
static void path_checked(struct rdi_path *path)
{
	struct rdinit_dev *dev = path->dev;
	struct rdi_ns_identity *id = &path->identity;
	enum rdi_identity_match match = RDI_IDENTITY_SAME;

	id->subnqn = path->uri.subnqn;
	id->nsid = path->nsid;
	memcpy(id->nguid, path->id_ns.nguid, sizeof(id->nguid));
	memcpy(id->eui64, path->id_ns.eui64, sizeof(id->eui64));
	if (dev->known)
		match = rdi_identity_match(&dev->identity, id);
	if (match == RDI_IDENTITY_DIFFERENT) {
		rdi_path_fail(path, -EXDEV, 0,
			      "%s: namespace %u of %s is not that of the device (NGUID, "
			      "UUID or EUI-64 differ)",
			      path->address, path->nsid, path->uri.subnqn);
		return;
	}
	if (match == RDI_IDENTITY_ASSUMED)
		rd_warn(dev->h.log, RD_LOG_INIT,
			"%s: namespace %u has no NGUID, UUID or EUI-64; it is assumed to be the "
			"same",
			path->address, path->nsid);
	if (path->ctrl->io_queues < rdi_dev_queues_needed(dev)) {
		rdi_path_fail(path, -ENOSPC, 0,
			      "%s: the controller grants %u I/O queues, the device's channels need "
			      "%u",
			      path->address, path->ctrl->io_queues, rdi_dev_queues_needed(dev));
		return;
	}
	rdi_dev_learn(dev, path);
	path->gateway = gateway_of(&path->id_ns);
	rdi_path_live(path);
	path_set_ana(path);
	doubt_other_gateways(path);
}

/* ---- reading ---- */

/* Controllers need not have descriptors. But one that says that there is no such namespace might
 * have it a moment later, when the other data is read, which would be without its identifiers. */
static bool is_absent(unsigned int what, const struct rdinit_completion *c)
{
	return c->err && what == RDI_READ_DESCS && (c->status & 0x7ff) == NVME_SC_INVALID_NS;
}

static void path_read_done(void *user, const struct rdinit_completion *c)
{
	struct rdi_path *path = user;
	unsigned int what = path->reading;

	if (path->state != RDINIT_DEV_PATH_CHECKING && path->state != RDINIT_DEV_PATH_LIVE)
		return;
	path->reading = 0;
	if (c->err && c->err != -EIO)
		return; /* the controller no longer exists and reports it */
	if (c->err && what == RDI_READ_NS) {
		rdi_path_fail(path, c->err, c->status, "%s: %s", path->address, c->text);
		return;
	}
	if (is_absent(what, c)) {
		rdi_path_fail(path, -ENODEV, 0, "%s: there is no namespace %u", path->address,
			      path->nsid);
		return;
	}
	if (c->err)
		rd_info(path->dev->h.log, RD_LOG_INIT, "%s: %s", path->address, c->text);
	else if (what == RDI_READ_DESCS &&
		 rdi_identity_take(&path->identity, path->data, sizeof(path->data)))
		rd_warn(path->dev->h.log, RD_LOG_INIT, "%s: malformed namespace identifiers",
			path->address);
	else if (what == RDI_READ_NS && path_take_ns(path))
		return;
	else if (what == RDI_READ_NVM)
		path_take_nvm(path);
	else if (what == RDI_READ_ANA)
		path_take_ana(path);
	path_read_next(path);
}

static int path_identify(struct rdi_path *path, uint8_t cns, uint32_t nsid)
{
	return rdinit_identify_async(path->ctrl, cns, nsid, path->data, path_read_done, path);
}

static int path_get_log(struct rdi_path *path, uint16_t lid, void *data, uint32_t len)
{
	return rdi_get_log(path->ctrl, __func__, lid, NVME_NSID_ALL, 0, data, len, path_read_done,
			   path);
}

static void path_read(struct rdi_path *path, unsigned int what)
{
	int rc;

	path->reading = what;
	if (what == RDI_READ_CHANGED)
		rc = path_get_log(path, NVME_LOG_LID_CHANGED_NS, path->data, sizeof(path->data));
	else if (what == RDI_READ_ANA)
		rc = path_get_log(path, ANA_GROUPS, path->ana_log, path->ana_len);
	else if (what == RDI_READ_NVM)
		rc = path_identify(path, NVME_IDENTIFY_CNS_CSI_CTRL, 0);
	else if (what == RDI_READ_NS)
		rc = path_identify(path, NVME_IDENTIFY_CNS_NS, path->nsid);
	else
		rc = path_identify(path, NVME_IDENTIFY_CNS_NS_DESC_LIST, path->nsid);
	if (rc)
		rdi_path_fail(path, rc, 0, "%s: %s", path->address,
			      rdi_queue_why(&path->ctrl->q, rc));
}

static void path_read_next(struct rdi_path *path)
{
	unsigned int what = path->todo & -path->todo; /* the lowest bit */

	if (path->reading)
		return;
	path->todo &= ~what;
	if (what)
		path_read(path, what);
	else if (path->state == RDINIT_DEV_PATH_CHECKING)
		path_checked(path);
}

void rdi_path_check(struct rdi_path *path)
{
	uint32_t len = rdi_ana_log_size(&path->ctrl->id);

	if (path->ctrl->discovery) {
		rdi_path_fail(path, -ENODEV, 0,
			      "%s: \"%s\" is a discovery controller, which has no namespaces; "
			      "expected the NQN of a subsystem that its log lists",
			      path->address, path->uri.subnqn);
		return;
	}
	rdi_ana_init(&path->ana_now, &path->ctrl->id);
	memset(&path->identity, 0, sizeof(path->identity));
	path->reading = 0;
	path->doubted = false;
	path->vsl = path->wzsl = 0;
	path->tells_extents = false;
	path->todo = RDI_READ_DESCS | RDI_READ_NS | RDI_READ_NVM;
	if (len > RDI_ANA_LOG_MAX)
		len = RDI_ANA_LOG_MAX;
	if (len > path->ctrl->max_transfer)
		len = path->ctrl->max_transfer;
	free(path->ana_log);
	path->ana_len = len;
	path->ana_log = len ? malloc(len) : NULL;
	if (len && !path->ana_log) {
		rdi_path_fail(path, -ENOMEM, 0, "%s: no memory for the ANA log page",
			      path->address);
		return;
	}
	if (len)
		path->todo |= RDI_READ_ANA;
	path_read_next(path);
}

/* ---- changes ---- */

void rdi_path_event(void *user, uint32_t event)
{
	struct rdi_path *path = user;

	if ((event & 7) != NVME_AER_NOTICE)
		return;
	if ((event >> 8 & 0xff) == NVME_AER_NOTICE_NS_CHANGED)
		path_look_again(path, RDI_READ_CHANGED | RDI_READ_NS);
	else if ((event >> 8 & 0xff) == NVME_AER_NOTICE_ANA && path->ana_log)
		path_look_again(path, RDI_READ_ANA);
}

void rdi_path_answered(struct rdi_path *path, uint32_t epoch, struct nvme_status st)
{
	if (atomic_load(&path->live_epoch) != epoch || !path->ana_log)
		return;
	rdi_ana_answered(&path->ana_now, st, rd_loop_now(path->dev->h.loop));
	path_set_ana(path);
	path_look_again(path, RDI_READ_ANA);
}
