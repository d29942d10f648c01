/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands of ublk, which travel by io_uring; those of the control device are executed here. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "ublk.h"

#define CTRL_DEVICE  "/dev/ublk-control"
#define CTRL_ENTRIES 4
#define NO_QUEUE     UINT16_MAX

static int ctrl_no_device(int err, char *why)
{
	if (err == EACCES || err == EPERM)
		snprintf(why, RDI_ATTACH_TEXT, "no permission to open %s: run rdinit as root",
			 CTRL_DEVICE);
	else if (err == ENOENT || err == ENODEV || err == ENXIO)
		snprintf(why, RDI_ATTACH_TEXT,
			 "there is no %s: this kernel has no module ublk_drv that could be loaded "
			 "(modprobe ublk_drv says why; Linux 6.4 or newer with "
			 "CONFIG_BLK_DEV_UBLK has it)",
			 CTRL_DEVICE);
	else
		snprintf(why, RDI_ATTACH_TEXT, "cannot open %s: %s", CTRL_DEVICE, strerror(err));
	return -err;
}

static int ctrl_no_ring(int err, char *why)
{
	if (err == EPERM || err == ENOSYS)
		snprintf(why, RDI_ATTACH_TEXT,
			 "ublk needs io_uring, which this machine does not allow: see "
			 "/proc/sys/kernel/io_uring_disabled, or the seccomp profile of the "
			 "container");
	else if (err == ENOMEM)
		snprintf(why, RDI_ATTACH_TEXT,
			 "io_uring is out of memory: raise the limit of locked memory (ulimit -l)");
	else
		snprintf(why, RDI_ATTACH_TEXT, "io_uring_setup: %s", strerror(err));
	return -err;
}

int rdi_ublk_ctrl_open(struct rdi_ublk_ctrl *c, char *why)
{
	int rc;

	c->fd = open(CTRL_DEVICE, O_RDWR | O_CLOEXEC);
	if (c->fd < 0 && (errno == ENOENT || errno == ENODEV || errno == ENXIO) && geteuid() == 0) {
		rdi_attach_load_module("ublk_drv");
		c->fd = open(CTRL_DEVICE, O_RDWR | O_CLOEXEC);
	}
	if (c->fd < 0)
		return ctrl_no_device(errno, why);
	rc = io_uring_queue_init(CTRL_ENTRIES, &c->ring, IORING_SETUP_SQE128);
	if (rc) {
		close(c->fd);
		c->fd = -1;
		return ctrl_no_ring(-rc, why);
	}
	return 0;
}

void rdi_ublk_ctrl_close(struct rdi_ublk_ctrl *c)
{
	if (c->fd < 0)
		return;
	io_uring_queue_exit(&c->ring);
	close(c->fd);
	c->fd = -1;
}

static int ctrl_submit(struct rdi_ublk_ctrl *c)
{
	int rc;

	do
		rc = io_uring_submit(&c->ring);
	while (rc == -EINTR);
	return rc < 0 ? rc : 0;
}

void rdi_ublk_put(const struct io_uring *ring, struct io_uring_sqe *sqe,
		  const struct rdi_ublk_entry *e)
{
	/* In a ring with SQE128 an entry has twice the size of its type, and a body may reach into
	 * the second half. */
	union {
		struct io_uring_sqe sqe;
		unsigned char bytes[2 * sizeof(struct io_uring_sqe)];
	} entry;

	memset(&entry, 0, sizeof(entry));
	io_uring_prep_rw(IORING_OP_URING_CMD, &entry.sqe, e->fd, NULL, 0, 0);
	entry.sqe.cmd_op = e->op;
	entry.sqe.user_data = e->user_data;
	memcpy(entry.bytes + offsetof(struct io_uring_sqe, cmd), e->body, e->len);
	memcpy(sqe, entry.bytes,
	       ring->flags & IORING_SETUP_SQE128 ? sizeof(entry) : sizeof(entry.sqe));
}

int rdi_ublk_ctrl_start(struct rdi_ublk_ctrl *c, const struct rdi_ublk_cmd *cmd)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&c->ring);
	struct ublksrv_ctrl_cmd body = {
		.dev_id = cmd->dev_id,
		.queue_id = NO_QUEUE,
		.len = cmd->len,
		.addr = (uintptr_t)cmd->buf,
		.data = {cmd->data},
	};
	struct rdi_ublk_entry entry = {c->fd, cmd->op, &body, sizeof(body), 0};

	if (!sqe)
		return -EBUSY;
	rdi_ublk_put(&c->ring, sqe, &entry);
	return ctrl_submit(c);
}

int rdi_ublk_ctrl_result(struct rdi_ublk_ctrl *c)
{
	struct io_uring_cqe *cqe;
	int rc;

	if (io_uring_peek_cqe(&c->ring, &cqe))
		return -EAGAIN;
	rc = cqe->res;
	io_uring_cqe_seen(&c->ring, cqe);
	return rc;
}

int rdi_ublk_ctrl_run(struct rdi_ublk_ctrl *c, const struct rdi_ublk_cmd *cmd)
{
	int rc = rdi_ublk_ctrl_start(c, cmd);
	struct io_uring_cqe *cqe;

	if (rc)
		return rc;
	do
		rc = io_uring_wait_cqe(&c->ring, &cqe);
	while (rc == -EINTR);
	return rc ? rc : rdi_ublk_ctrl_result(c);
}
