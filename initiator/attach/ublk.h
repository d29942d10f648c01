/* SPDX-License-Identifier: BSD-3-Clause */
/* ublk: entries of io_uring, and queues. */
#ifndef RDI_ATTACH_UBLK_H
#define RDI_ATTACH_UBLK_H

#include <liburing.h>
#include <linux/ioctl.h>
#include <linux/ublk_cmd.h>

#include "internal.h"

/*
 * The kernel's interface to ublk: what <linux/ublk_cmd.h> of Linux 6.1, which Debian 12 has, lacks.
 * Source: include/uapi/linux/ublk_cmd.h and Documentation/block/ublk.rst of Linux 6.12 and 6.16.
 * Since 6.4 commands are encoded as those of ioctl(2); 6.12 can be built without the older ones.
 */

#ifndef UBLK_U_CMD_GET_DEV_INFO
#define UBLK_U_CMD_GET_DEV_INFO        _IOR('u', 0x02, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_ADD_DEV             _IOWR('u', 0x04, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_DEL_DEV             _IOWR('u', 0x05, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_START_DEV           _IOWR('u', 0x06, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_STOP_DEV            _IOWR('u', 0x07, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_SET_PARAMS          _IOWR('u', 0x08, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_START_USER_RECOVERY _IOWR('u', 0x10, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_END_USER_RECOVERY   _IOWR('u', 0x11, struct ublksrv_ctrl_cmd)
#define UBLK_U_IO_FETCH_REQ            _IOWR('u', 0x20, struct ublksrv_io_cmd)
#define UBLK_U_IO_COMMIT_AND_FETCH_REQ _IOWR('u', 0x21, struct ublksrv_io_cmd)
#endif
#ifndef UBLK_U_CMD_GET_FEATURES
#define UBLK_U_CMD_GET_FEATURES _IOR('u', 0x13, struct ublksrv_ctrl_cmd) /* 6.5 */
#endif
#ifndef UBLK_U_CMD_DEL_DEV_ASYNC
#define UBLK_U_CMD_DEL_DEV_ASYNC _IOR('u', 0x14, struct ublksrv_ctrl_cmd) /* 6.9 */
#endif
#ifndef UBLK_U_CMD_UPDATE_SIZE
#define UBLK_U_CMD_UPDATE_SIZE _IOWR('u', 0x15, struct ublksrv_ctrl_cmd) /* 6.16 */
#define UBLK_F_UPDATE_SIZE     (1ULL << 10)
#endif
/* 8 bytes: the flags that the kernel knows. */
#define UBLK_FEATURES_LEN 8

/* ---- ublk.c: entries of a ring ---- */

/* What the driver gets by an entry: @body, a structure of <linux/ublk_cmd.h>. */
struct rdi_ublk_entry {
	int fd;
	uint32_t op;
	const void *body;
	size_t len;
	uint64_t user_data;
};

/* Writes the whole of @sqe, which @ring gave. */
void rdi_ublk_put(const struct io_uring *ring, struct io_uring_sqe *sqe,
		  const struct rdi_ublk_entry *e);

/* ---- ublk_queue.c: a thread, its queue of the block device and its channel ---- */

struct rdi_ublk_queue;

struct rdi_ublk_queue_opts {
	struct rdi_attach *a;
	int fd; /* /dev/ublkcN */
	uint16_t index;
	uint16_t depth;
	uint32_t io_bytes;
};

/* Makes the queue, with its channel. Returns 0, or -errno with a->why. */
int rdi_ublk_queue_create(const struct rdi_ublk_queue_opts *opts, struct rdi_ublk_queue **out);
/* Starts the thread, which ends when the kernel ends the device. Counts in a->threads. */
int rdi_ublk_queue_start(struct rdi_ublk_queue *q);
/* Everything in flight ends with an error, and what comes later. */
void rdi_ublk_queue_abort(struct rdi_ublk_queue *q);
/* Waits for the thread; before that the device must have been stopped. NULL is allowed. */
void rdi_ublk_queue_free(struct rdi_ublk_queue *q);

#endif /* RDI_ATTACH_UBLK_H */
