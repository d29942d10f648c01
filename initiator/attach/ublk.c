/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver of ublk: made, started, taken over, resized, stopped, removed. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ublk.h"
#include "util/map.h"
#include "util/parse.h"

#define ANY_ID        UINT32_MAX
#define STEP_MS       20
#define NODE_TRIES    500  /* steps until the device node has appeared */
#define RECOVER_TRIES 1500 /* steps until the kernel has noticed that the process has ended */
#define SECTOR        512u
#define MAX_SECTORS   (UINT32_MAX >> 9) /* a request has at most UINT32_MAX bytes */
#define PHYSICAL_MAX  12                /* log2 */
#define CTRL_DEVICE   "/dev/ublk-control"
#define CTRL_ENTRIES  4
#define NO_QUEUE      UINT16_MAX

struct ublk_ctrl {
	int fd;
	struct io_uring ring;
};

struct ublk_cmd {
	uint32_t op; /* UBLK_U_CMD_... */
	uint32_t dev_id;
	void *buf;
	uint16_t len;
	uint64_t data;
};

struct ublk_device {
	struct rdi_attach *a;
	struct ublk_ctrl ctrl;
	uint32_t id;
	bool added, started;
	int fd; /* /dev/ublkcN */
	uint64_t features;
	struct ublksrv_ctrl_dev_info info;
	struct rdi_ublk_queue **queues;
	uint16_t n_queues;
};

/* ---- commands, which travel by io_uring; those of the control device ---- */

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

/* Loads the module if it is not loaded. Returns 0, or -errno with @why. */
static int ublk_ctrl_open(struct ublk_ctrl *c, char *why)
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

static void ublk_ctrl_close(struct ublk_ctrl *c)
{
	if (c->fd < 0)
		return;
	io_uring_queue_exit(&c->ring);
	close(c->fd);
	c->fd = -1;
}

static int ctrl_submit(struct ublk_ctrl *c)
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

/* Starts a command; its result is for ublk_ctrl_result(). Returns 0 or -errno. */
static int ublk_ctrl_start(struct ublk_ctrl *c, const struct ublk_cmd *cmd)
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

/* The result of what was started, or -EAGAIN. */
static int ublk_ctrl_result(struct ublk_ctrl *c)
{
	struct io_uring_cqe *cqe;
	int rc;

	if (io_uring_peek_cqe(&c->ring, &cqe))
		return -EAGAIN;
	rc = cqe->res;
	io_uring_cqe_seen(&c->ring, cqe);
	return rc;
}

/* Executes a command, for those that the kernel answers at once. */
static int ublk_ctrl_run(struct ublk_ctrl *c, const struct ublk_cmd *cmd)
{
	int rc = ublk_ctrl_start(c, cmd);
	struct io_uring_cqe *cqe;

	if (rc)
		return rc;
	do
		rc = io_uring_wait_cqe(&c->ring, &cqe);
	while (rc == -EINTR);
	return rc ? rc : ublk_ctrl_result(c);
}

/* ---- identity of a device in the kernel ---- */

static bool id_of_name(const char *name, uint32_t *id)
{
	uint64_t n;

	if (strncmp(name, "ublkb", 5) != 0 || rd_parse_u64(name + 5, 0, INT32_MAX, &n))
		return false;
	*id = (uint32_t)n;
	return true;
}

/* Reads what the kernel knows of the device that @left is about. Returns 0, or -ENODEV: it is gone
 * or another one. */
static int get_left(struct ublk_ctrl *c, const struct rdi_attach_info *left,
		    struct ublksrv_ctrl_dev_info *info)
{
	struct ublk_cmd cmd = {.op = UBLK_U_CMD_GET_DEV_INFO, .buf = info, .len = sizeof(*info)};

	memset(info, 0, sizeof(*info));
	if (!id_of_name(left->name, &cmd.dev_id) || ublk_ctrl_run(c, &cmd) ||
	    info->ublksrv_flags != rd_map_hash(left->id))
		return -ENODEV;
	return 0;
}

/* ---- commands of a device ---- */

/* Executes a command that can take long: signals and events are dealt with meanwhile. */
static int ublk_wait(struct ublk_device *u, int rc)
{
	if (rc)
		return rc;
	while ((rc = ublk_ctrl_result(&u->ctrl)) == -EAGAIN)
		rdi_attach_turn(u->a, u->ctrl.ring.ring_fd);
	return rc;
}

static int ublk_run(struct ublk_device *u, uint32_t op, void *buf, uint16_t len, uint64_t data)
{
	const struct ublk_cmd cmd = {
		.op = op, .dev_id = u->id, .buf = buf, .len = len, .data = data};

	return ublk_wait(u, ublk_ctrl_start(&u->ctrl, &cmd));
}

static int ublk_fail(struct ublk_device *u, int rc, const char *what)
{
	return rdi_attach_why(u->a->why, rc, "ublk: %s: %s", what, strerror(-rc));
}

/* ---- a new device ---- */

static int ublk_add(struct ublk_device *u)
{
	struct rdi_attach *a = u->a;
	uint32_t data =
		a->ns.max_transfer < RDI_ATTACH_IO_MAX ? a->ns.max_transfer : RDI_ATTACH_IO_MAX;
	const uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
	int rc;

	u->info = (struct ublksrv_ctrl_dev_info){
		.nr_hw_queues = a->opts.queues,
		.queue_depth = a->opts.depth,
		/* The kernel needs whole pages. What one command cannot transfer is split. */
		.max_io_buf_bytes = data < page ? page : data / page * page,
		.dev_id = ANY_ID,
		.flags = UBLK_F_USER_RECOVERY | UBLK_F_USER_RECOVERY_REISSUE,
		/* So that a device is known to be the one that a file of the state directory is
		 * about. */
		.ublksrv_flags = rd_map_hash(a->info.id),
	};
	u->id = ANY_ID;
	rc = ublk_run(u, UBLK_U_CMD_ADD_DEV, &u->info, sizeof(u->info), 0);
	if (rc == -EPERM || rc == -EACCES)
		return rdi_attach_why(a->why, rc,
				      "the kernel does not let this process add a ublk device: run "
				      "rdinit as root");
	if (rc)
		return ublk_fail(u, rc, "cannot add a device");
	u->id = u->info.dev_id;
	u->added = true;
	snprintf(a->info.name, sizeof(a->info.name), "ublkb%u", u->id);
	return 0;
}

static uint8_t shift_of(uint64_t n)
{
	return n ? (uint8_t)(63 - __builtin_clzll(n)) : 0;
}

static uint32_t sectors_of(uint32_t blocks, uint32_t block_size)
{
	uint32_t per = block_size / SECTOR, most = MAX_SECTORS / per;

	return (blocks < most ? (uint32_t)blocks : most) * per;
}

static int ublk_set_params(struct ublk_device *u)
{
	const struct rdinit_dev_info *ns = &u->a->ns;
	uint8_t block = shift_of(ns->block_size);
	uint64_t preferred = (uint64_t)ns->preferred_write * ns->block_size;
	uint8_t physical = preferred ? shift_of(preferred) : block;
	uint64_t hole = (uint64_t)ns->preferred_deallocate * ns->block_size;
	struct ublk_params p = {
		.len = sizeof(p),
		.types = UBLK_PARAM_TYPE_BASIC,
		.basic =
			{
				/* Another path may have a cache where the first one has none. */
				.attrs = UBLK_ATTR_VOLATILE_CACHE | UBLK_ATTR_FUA,
				.logical_bs_shift = block,
				.max_sectors = u->info.max_io_buf_bytes / SECTOR,
				.dev_sectors = ns->blocks * (ns->block_size / SECTOR),
			},
	};
	int rc;

	if (physical > PHYSICAL_MAX)
		physical = PHYSICAL_MAX;
	if (physical < block)
		physical = block;
	p.basic.physical_bs_shift = p.basic.io_min_shift = physical;
	p.basic.io_opt_shift = shift_of((uint64_t)ns->optimal_write * ns->block_size);
	if (p.basic.io_opt_shift < physical)
		p.basic.io_opt_shift = physical;
	if (u->a->info.read_only)
		p.basic.attrs |= UBLK_ATTR_READ_ONLY;
	if (ns->max_deallocate || ns->max_write_zeroes) {
		p.types |= UBLK_PARAM_TYPE_DISCARD;
		p.discard = (struct ublk_param_discard){
			.discard_granularity =
				hole && hole <= UINT32_MAX ? (uint32_t)hole : ns->block_size,
			.max_discard_sectors = sectors_of(ns->max_deallocate, ns->block_size),
			.max_write_zeroes_sectors =
				sectors_of(ns->max_write_zeroes, ns->block_size),
			.max_discard_segments = 1,
		};
	}
	rc = ublk_run(u, UBLK_U_CMD_SET_PARAMS, &p, sizeof(p), 0);
	return rc ? ublk_fail(u, rc, "the kernel refuses the properties of the namespace") : 0;
}

/* ---- queues ---- */

static int ublk_open_node(struct ublk_device *u)
{
	char path[48];
	int i, rc = 0;

	snprintf(path, sizeof(path), "/dev/ublkc%u", u->id);
	/* devtmpfs makes it, and udev may still change who may open it. */
	for (i = 0; i < NODE_TRIES; i++) {
		u->fd = open(path, O_RDWR | O_CLOEXEC);
		rc = u->fd < 0 ? -errno : 0;
		if (rc != -ENOENT && rc != -EACCES && rc != -EBUSY)
			break;
		poll(NULL, 0, STEP_MS);
	}
	if (rc)
		snprintf(u->a->why, sizeof(u->a->why), "cannot open %s: %s", path, strerror(-rc));
	return rc;
}

static int ublk_queues(struct ublk_device *u)
{
	struct rdi_ublk_queue_opts o = {
		.a = u->a,
		.fd = u->fd,
		.depth = u->info.queue_depth,
		.io_bytes = u->info.max_io_buf_bytes,
	};
	uint16_t i;
	int rc = 0;

	u->queues = calloc(u->info.nr_hw_queues, sizeof(struct rdi_ublk_queue *));
	if (!u->queues)
		return ublk_fail(u, -ENOMEM, "queues");
	for (i = 0; !rc && i < u->info.nr_hw_queues; i++) {
		o.index = i;
		rc = rdi_ublk_queue_create(&o, &u->queues[i]);
		u->n_queues += !rc;
	}
	for (i = 0; !rc && i < u->n_queues; i++)
		rc = rdi_ublk_queue_start(u->queues[i]);
	return rc;
}

/* Returns when the block device can be used: the kernel has read its partitions. */
static int ublk_go(struct ublk_device *u, uint32_t op)
{
	int rc = ublk_open_node(u);

	if (!rc)
		rc = ublk_queues(u);
	if (rc)
		return rc;
	rc = ublk_run(u, op, NULL, 0, (uint64_t)getpid());
	if (rc)
		return ublk_fail(u, rc, "the kernel does not start the device");
	u->started = true;
	return 0;
}

/* ---- a device that a process left ---- */

static int ublk_take_over(struct ublk_device *u, const struct rdi_attach_info *old)
{
	struct rdi_attach *a = u->a;
	int rc, i;

	rc = get_left(&u->ctrl, old, &u->info);
	if (rc)
		return ublk_fail(u, rc, "the device has gone");
	u->id = u->info.dev_id;
	/* The kernel makes no more queues than the machine has processors. */
	if (u->info.nr_hw_queues > a->opts.queues || u->info.queue_depth > a->opts.depth)
		return rdi_attach_why(
			a->why, -EINVAL,
			"%s was attached with --nr-io-queues=%u --queue-size=%u: attach it "
			"again with the same values",
			old->name, u->info.nr_hw_queues, u->info.queue_depth + 1u);
	snprintf(a->info.name, sizeof(a->info.name), "%s", old->name);
	for (i = 0; i < RECOVER_TRIES; i++) {
		rc = ublk_run(u, UBLK_U_CMD_START_USER_RECOVERY, NULL, 0, 0);
		if (rc != -EBUSY)
			break;
		poll(NULL, 0, STEP_MS);
	}
	if (rc)
		return snprintf(a->why, sizeof(a->why),
				"cannot take over %s: %s; rdinit detach --force %s removes it",
				old->name, strerror(-rc), old->name),
		       rc;
	return 0;
}

/* ---- the driver ---- */

static int ublk_probe(struct rdi_attach *a, char *why)
{
	struct ublk_device *u = calloc(1, sizeof(*u));
	struct ublk_cmd cmd = {.op = UBLK_U_CMD_GET_FEATURES, .len = UBLK_FEATURES_LEN};
	int rc;

	if (!u)
		return -ENOMEM;
	u->a = a;
	u->fd = -1;
	rc = ublk_ctrl_open(&u->ctrl, why);
	if (rc) {
		free(u);
		return rc;
	}
	cmd.buf = &u->features;
	if (ublk_ctrl_run(&u->ctrl, &cmd))
		u->features = 0; /* before 6.5 */
	a->driver_data = u;
	return 0;
}

static int ublk_start(struct rdi_attach *a, const struct rdi_attach_info *old)
{
	struct ublk_device *u = a->driver_data;
	int rc;

	if (a->ns.block_size > (uint32_t)sysconf(_SC_PAGESIZE))
		return rdi_attach_why(
			a->why, -EINVAL,
			"the namespace has blocks of %u bytes, and a ublk device at most "
			"%ld",
			a->ns.block_size, sysconf(_SC_PAGESIZE));
	rc = old ? ublk_take_over(u, old) : ublk_add(u);
	if (!rc)
		rc = rdi_attach_claim(a);
	if (!rc && !old)
		rc = ublk_set_params(u);
	return rc ? rc : ublk_go(u, old ? UBLK_U_CMD_END_USER_RECOVERY : UBLK_U_CMD_START_DEV);
}

static void ublk_resize(struct rdi_attach *a)
{
	struct ublk_device *u = a->driver_data;
	int rc;

	if (!(u->features & UBLK_F_UPDATE_SIZE)) {
		rdi_attach_say(a,
			       "%s: the namespace has %llu blocks now; this kernel cannot resize "
			       "an attached ublk device (Linux 6.16 can): detach it and attach it "
			       "again",
			       a->info.name, (unsigned long long)a->info.blocks);
		return;
	}
	rc = ublk_run(u, UBLK_U_CMD_UPDATE_SIZE, NULL, 0,
		      a->info.blocks * (a->info.block_size / SECTOR));
	if (rc)
		rdi_attach_say(a, "%s: cannot resize it: %s", a->info.name, strerror(-rc));
}

static void ublk_abort(struct rdi_attach *a)
{
	struct ublk_device *u = a->driver_data;
	uint16_t i;

	for (i = 0; u && i < u->n_queues; i++)
		rdi_ublk_queue_abort(u->queues[i]);
}

static void ublk_free_queues(struct ublk_device *u)
{
	while (u->n_queues)
		rdi_ublk_queue_free(u->queues[--u->n_queues]);
	free(u->queues);
	if (u->fd >= 0)
		close(u->fd);
	u->fd = -1;
}

static bool ublk_stop(struct rdi_attach *a)
{
	struct ublk_device *u = a->driver_data;
	bool ours = u && (u->added || u->started), left = u && !ours && a->file.lock >= 0;

	if (!u)
		return true;
	/* Threads that wait for requests of a device that could not be taken over end with the
	 * process. */
	if (left && atomic_load(&a->threads))
		return false;
	if (u->started)
		rdi_attach_sync(a); /* STOP_DEV ends with errors what is not written */
	if (ours)
		ublk_run(u, UBLK_U_CMD_STOP_DEV, NULL, 0, 0);
	ublk_free_queues(u);
	/* The other form waits until the last program has closed the block device. */
	if (ours && ublk_run(u, UBLK_U_CMD_DEL_DEV_ASYNC, NULL, 0, 0) == -EOPNOTSUPP)
		ublk_run(u, UBLK_U_CMD_DEL_DEV, NULL, 0, 0);
	ublk_ctrl_close(&u->ctrl);
	free(u);
	a->driver_data = NULL;
	return !left;
}

static int ublk_remove(const struct rdi_attach_info *left, char *why)
{
	struct ublksrv_ctrl_dev_info info;
	struct ublk_cmd cmd = {.op = UBLK_U_CMD_STOP_DEV};
	struct ublk_ctrl c;
	int rc = ublk_ctrl_open(&c, why);

	if (rc)
		return rc;
	if (get_left(&c, left, &info) == 0) {
		cmd.dev_id = info.dev_id;
		ublk_ctrl_run(&c, &cmd);
		cmd.op = UBLK_U_CMD_DEL_DEV_ASYNC;
		rc = ublk_ctrl_run(&c, &cmd);
		if (rc == -EOPNOTSUPP) {
			cmd.op = UBLK_U_CMD_DEL_DEV;
			rc = ublk_ctrl_run(&c, &cmd);
		}
		if (rc)
			snprintf(why, RDI_ATTACH_TEXT, "the kernel does not remove %s: %s",
				 left->name, strerror(-rc));
	}
	ublk_ctrl_close(&c);
	return rc;
}

static bool ublk_can_recover(const struct rdi_attach_info *left)
{
	struct ublksrv_ctrl_dev_info info;
	struct ublk_ctrl c;
	char why[RDI_ATTACH_TEXT];
	bool can;

	if (ublk_ctrl_open(&c, why))
		return false;
	can = get_left(&c, left, &info) == 0 && info.state != UBLK_S_DEV_DEAD;
	ublk_ctrl_close(&c);
	return can;
}

const struct rdi_attach_driver rdi_attach_ublk = {
	.kind = RDI_ATTACH_UBLK,
	.probe = ublk_probe,
	.start = ublk_start,
	.resize = ublk_resize,
	.abort = ublk_abort,
	.stop = ublk_stop,
	.remove = ublk_remove,
	.can_recover = ublk_can_recover,
};
