/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Removal of devices. A driver that cannot take a device from its users (the soft devices of Linux
 * 6.1) waits with the removal, in ib_uverbs_remove_one(), until every file that has the device open
 * is closed. So the removal must be noticed, and no file may stay open.
 *
 * rdma_cm reports the removal to all identifiers that are bound to the device. But the kernel's
 * modules let go of a device in turn, the one loaded last first: if rdma_cm was loaded before
 * ib_uverbs (by a kernel NVMe host, and rxe came later), its event would come after the wait.
 * ib_uverbs removes its device file before it waits, which makes a uevent. Some containers get no
 * uevents. So both are watched.
 *
 * librdmacm (rdma-core 44) keeps every device that it has used open. It closes a removed device
 * when it looks for devices again, but not if no device is left; and the one call that makes it
 * look, rdma_get_devices(), opens all other devices. So its files are replaced here. Nothing in
 * this process can use them: the device is gone.
 *
 * An anchor is an identifier bound to a device that librdmacm has open: it gets the event of
 * rdma_cm, and while it exists librdmacm frees neither the context nor the numbers of its files.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "util/sockaddr.h"

#include "conn.h"
#include "dev.h"

#define UEVENT_GROUP 1    /* multicast group of the kernel; udev uses another one */
#define UEVENT_MAX   4096 /* UEVENT_BUFFER_SIZE is 2048 */

/* ---- anchors ---- */

static const struct ibv_device *device_of(const struct rd_vb_anchor *anchor)
{
	return anchor->id->cm->verbs->device;
}

static int bind_anchor(struct rd_vb_anchor *anchor, struct rdma_cm_id *like)
{
	const struct sockaddr *local = rdma_get_local_addr(like);
	struct sockaddr_storage addr;
	int rc;

	memset(&addr, 0, sizeof(addr));
	memcpy(&addr, local, rd_addr_len(local));
	rd_addr_set_port((struct sockaddr *)&addr, 0);
	rc = rd_vb_err(rdma_bind_addr(anchor->id->cm, (struct sockaddr *)&addr));
	/* The address may belong to another device by now. */
	return rc == 0 && anchor->id->cm->verbs != like->verbs ? -ENODEV : rc;
}

void rd_vb_meet(struct rd_vb_fab *fab, struct rdma_cm_id *cm)
{
	struct rd_vb_anchor *anchor;
	int rc = -ENOMEM;

	if (!cm->verbs)
		return;
	LIST_FOREACH (anchor, &fab->anchors, link)
		if (anchor->id->cm->verbs == cm->verbs)
			return;
	anchor = calloc(1, sizeof(*anchor));
	if (anchor)
		rc = rd_vb_id_create(fab, RD_VB_ID_ANCHOR, anchor, &anchor->id);
	if (rc == 0)
		rc = bind_anchor(anchor, cm);
	if (rc) {
		rd_debug(rd_vb_log(fab), RD_LOG_FABRIC,
			 "%s: the removal of this device may not be noticed: %s",
			 ibv_get_device_name(cm->verbs->device), strerror(-rc));
		if (anchor)
			rd_vb_id_destroy(anchor->id);
		free(anchor);
		return;
	}
	LIST_INSERT_HEAD(&fab->anchors, anchor, link);
}

static void anchor_free(struct rd_vb_anchor *anchor)
{
	LIST_REMOVE(anchor, link);
	rd_vb_id_destroy(anchor->id);
	free(anchor);
}

/*
 * Replaces the files of librdmacm's context. Calls on them then fail, and none is mistaken for a
 * success: librdmacm would only free its protection domain (the driver's library then never frees a
 * few bytes: 16 in rxe's) and close them. Another loop may have replaced them already, which does
 * no harm.
 */
static void take_files(struct rd_vb_fab *fab, const struct ibv_context *ctx)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || dup3(fd, ctx->cmd_fd, O_CLOEXEC) < 0 ||
	    dup3(fd, ctx->async_fd, O_CLOEXEC) < 0)
		rd_warn(rd_vb_log(fab), RD_LOG_FABRIC,
			"%s: the removal of this device may have to wait until this program ends: "
			"%s",
			ibv_get_device_name(ctx->device), strerror(errno));
	if (fd >= 0)
		close(fd);
}

void rd_vb_forget(struct rd_vb_fab *fab, const struct ibv_device *ibdev)
{
	struct rd_vb_anchor *anchor;

	LIST_FOREACH (anchor, &fab->anchors, link) {
		if (device_of(anchor) != ibdev)
			continue;
		take_files(fab, anchor->id->cm->verbs);
		anchor_free(anchor);
		return;
	}
}

void rd_vb_anchor_lost(struct rd_vb_fab *fab, struct rd_vb_anchor *anchor)
{
	const struct ibv_device *ibdev = device_of(anchor);
	struct rd_vb_dev *dev;

	LIST_FOREACH (dev, &fab->devs, link) {
		if (dev->ctx && dev->ibdev == ibdev) {
			rd_vb_dev_removed(dev);
			return;
		}
	}
	rd_vb_forget(fab, ibdev);
}

/* ---- uevents ---- */

/* Whether @event is "remove@/devices/.../infiniband_verbs/uverbs0" of the file of @ibdev. */
static bool names_device(const char *event, const struct ibv_device *ibdev)
{
	static const char what[] = "remove@", class[] = "/infiniband_verbs/";
	const char *at = strstr(event, class);

	return strncmp(event, what, sizeof(what) - 1) == 0 && at &&
	       strcmp(at + sizeof(class) - 1, ibdev->dev_name) == 0;
}

static bool is_gone(const struct ibv_device *ibdev)
{
	return access(ibdev->dev_path, F_OK) != 0 && errno == ENOENT;
}

/* Handles a uevent of the kernel. NULL: uevents were lost. */
static void handle_uevent(struct rd_vb_fab *fab, const char *event)
{
	struct rd_vb_anchor *anchor = LIST_FIRST(&fab->anchors), *next;

	for (; anchor; anchor = next) {
		next = LIST_NEXT(anchor, link);
		if (event ? names_device(event, device_of(anchor)) : is_gone(device_of(anchor)))
			rd_vb_anchor_lost(fab, anchor);
	}
}

static void uevent_io(struct rd_io *io, uint32_t events)
{
	struct rd_vb_fab *fab = rd_container_of(io, struct rd_vb_fab, uevents);
	char buf[UEVENT_MAX + 1];

	for (;;) {
		struct sockaddr_nl from = {0};
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(io->fd, buf, UEVENT_MAX, 0, (struct sockaddr *)&from, &len);

		if (n < 0 && errno == ENOBUFS)
			handle_uevent(fab, NULL);
		else if (n < 0 && errno != EINTR)
			return;
		if (n <= 0 || from.nl_pid != 0) /* not from the kernel */
			continue;
		buf[n] = 0; /* the message consists of strings; only the first one is needed */
		handle_uevent(fab, buf);
	}
}

void rd_vb_hotplug_start(struct rd_vb_fab *fab)
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = UEVENT_GROUP};
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
			NETLINK_KOBJECT_UEVENT);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 &&
	    rd_io_add(fab->base.loop, &fab->uevents, fd, EPOLLIN, uevent_io) == 0)
		return;
	rd_debug(rd_vb_log(fab), RD_LOG_FABRIC,
		 "no uevents: the removal of a device may be "
		 "noticed late");
	if (fd >= 0)
		close(fd);
}

void rd_vb_hotplug_stop(struct rd_vb_fab *fab)
{
	while (!LIST_EMPTY(&fab->anchors))
		anchor_free(LIST_FIRST(&fab->anchors));
	if (!fab->uevents.added)
		return;
	rd_io_del(fab->base.loop, &fab->uevents);
	close(fab->uevents.fd);
}
