/* SPDX-License-Identifier: BSD-3-Clause */
#include "client.h"

#include <stdlib.h>
#include <string.h>

#include "../fuzz.h"
#include "dev.h"
#include "nvmf/wire.h"
#include "puppet.h"

#define OPS         16u
#define GROUP       8u /* blocks of each command's own */
#define GUARD       64u
#define BUFFER      (GROUP * PUPPET_BLOCK)
#define HOST_NQN    "nqn.2024-01.test:client"
#define HOST_ID     "00000000-0000-4000-8000-000000000001"
#define IO_TIMEOUT  2000u
#define IO_AT_MOST  (20 * RD_NSEC_PER_SEC) /* a command of a queue pair, from submit to end */
#define CANARY      0xc3
#define OP_PASSTHRU (RDINIT_DEV_COPY + 1u)

struct client_op {
	struct client *client;
	bool busy;
	bool checked; /* a success must have been answered */
	bool timed;   /* it ends within IO_AT_MOST */
	uint64_t since;
	uint64_t id;  /* of the device */
	uint32_t sum; /* of the buffer when it ended */
	int err;
	uint8_t *memory; /* guard, buffer, guard */
	uint8_t *other;  /* Compare and Write */
};

struct client {
	struct scene *scene;
	struct rdi_env env;
	bool started;
	bool free_in_callback;
	unsigned int connecting; /* connects and disconnects whose callback has not run */
	bool ctrl_ready;
	struct rdinit_ctrl *ctrl;
	struct rdinit_qpair *qp;
	struct rdinit_dev *dev;
	bool dev_opened;
	bool hostile_path;
	bool closing;
	struct rdinit_dev_chan *chan;
	struct rdinit_ns ns;
	struct rdinit_discovery *log;
	bool discovering;
	unsigned int extents; /* asked for and not answered */
	struct client_op ops[OPS];
};

/* ---- buffers ---- */

static uint8_t *op_buffer(const struct client_op *op)
{
	return op->memory + GUARD;
}

static uint32_t buffer_sum(const struct client_op *op)
{
	uint32_t sum = 2166136261u;

	for (unsigned int i = 0; i < BUFFER; i++)
		sum = (sum ^ op_buffer(op)[i]) * 16777619u;
	return sum;
}

static void check_guards(const struct client_op *op)
{
	for (unsigned int i = 0; i < GUARD; i++)
		FUZZ_CHECK(op->memory[i] == CANARY && op->memory[GUARD + BUFFER + i] == CANARY);
}

/* The target must not reach the buffer any more. */
static void check_untouched(const struct client_op *op)
{
	if (op->busy || !op->since)
		return;
	check_guards(op);
	FUZZ_CHECK(buffer_sum(op) == op->sum);
}

/* ---- the ends ---- */

static void free_in_callback(struct client *c)
{
	if (!c->free_in_callback)
		return;
	c->free_in_callback = false;
	rdinit_qpair_free(&c->qp);
	rdinit_dev_chan_free(&c->chan);
}

static void client_op_ended(void *user, const struct rdinit_completion *comp)
{
	struct client_op *op = user;
	struct client *c = op->client;

	FUZZ_CHECK(op->busy && comp->text);
	if (c->scene->trace)
		fprintf(stderr, "command %u: %d %s\n", (unsigned int)(op - c->ops), comp->err,
			comp->text);
	FUZZ_CHECK(comp->err <= 0 && (comp->err == -EIO || !comp->status));
	check_guards(op);
	op->busy = false;
	op->err = comp->err;
	op->sum = buffer_sum(op);
	if (!comp->err && op->checked)
		FUZZ_CHECK(puppet_said_success(c->scene->puppet, (unsigned int)(op - c->ops)));
	free_in_callback(c);
}

static struct client_op *take_op(struct client *c, unsigned int n)
{
	struct client_op *op = &c->ops[n % OPS];

	if (op->busy)
		return NULL;
	check_untouched(op);
	op->since = rd_sim_now(c->scene->sim);
	op->checked = op->timed = false;
	memset(op_buffer(op), (int)(n + op->since), BUFFER);
	op->sum = buffer_sum(op);
	puppet_forget(c->scene->puppet, n % OPS);
	return op;
}

/* ---- controllers and queue pairs ---- */

static void client_log(void *user, int level, const char *line)
{
	(void)level;
	if (((struct client *)user)->scene->trace)
		fprintf(stderr, "%s\n", line);
}

static void ctrl_opts(struct client *c, struct rdinit_ctrl_opts *opts)
{
	rdinit_ctrl_opts_init(opts);
	opts->hostnqn = HOST_NQN;
	opts->hostid = HOST_ID;
	opts->provider = "iwarp"; /* whose place the simulation takes */
	opts->spin_us = 0;
	opts->keep_alive_tmo_ms = 1500;
	opts->connect_timeout_ms = 1000;
	opts->admin_timeout_ms = 3000;
	opts->log_fn = client_log;
	opts->log_user = c;
	if (c->scene->trace)
		opts->log_spec = "trace";
}

static void client_event(void *user, uint32_t event)
{
	(void)user;
	(void)event;
}

static void ctrl_connected(void *user, const struct rdinit_completion *comp)
{
	struct client *c = user;

	FUZZ_CHECK(c->connecting);
	c->connecting--;
	c->ctrl_ready = !comp->err;
}

static void handle_ended(void *user, const struct rdinit_completion *comp)
{
	struct client *c = user;

	(void)comp;
	FUZZ_CHECK(c->connecting);
	c->connecting--;
}

static void new_ctrl(struct client *c)
{
	struct rdinit_ctrl_opts opts;

	ctrl_opts(c, &opts);
	opts.traddr = PUPPET_ADDR;
	opts.trsvcid = "4421";
	opts.subnqn = c->scene->mode == SCENE_DISCOVERY ? NULL : PUPPET_NQN;
	opts.nr_io_queues = 2;
	opts.event_fn = client_event;
	c->ctrl_ready = false;
	FUZZ_CHECK(!rdi_ctrl_create_env(&opts, &c->env, &c->ctrl));
	c->scene->loop[SCENE_CTRL] = c->ctrl->h.loop;
	if (!rdinit_ctrl_connect_async(c->ctrl, ctrl_connected, c))
		c->connecting++;
}

static void new_qpair(struct client *c)
{
	struct rdinit_qpair_opts opts;

	rdinit_qpair_opts_init(&opts);
	opts.qid = 1;
	opts.queue_size = 16;
	opts.io_timeout_ms = IO_TIMEOUT;
	if (rdinit_qpair_create(c->ctrl, &opts, &c->qp))
		return;
	c->scene->loop[SCENE_QPAIR] = c->qp->h.loop;
	if (!rdinit_qpair_connect_async(c->qp, handle_ended, c))
		c->connecting++;
}

/* ---- devices ---- */

static void dev_opened(void *user, const struct rdinit_completion *comp)
{
	struct client *c = user;

	FUZZ_CHECK(c->connecting);
	c->connecting--;
	c->dev_opened = !comp->err;
	FUZZ_CHECK(c->scene->mode != SCENE_MIXED || c->dev_opened || c->closing);
}

/* The honest path, which is the first one, is never lost. */
static void client_dev_event(void *user, const struct rdinit_dev_event *event)
{
	const struct client *c = user;

	FUZZ_CHECK(event->text);
	if (c->scene->trace)
		fprintf(stderr, "event: path %d: %s\n", event->path, event->text);
	if (c->scene->mode == SCENE_MIXED && c->dev_opened && !c->closing && event->path == 0)
		FUZZ_CHECK(event->path_state == RDINIT_DEV_PATH_LIVE);
}

static void client_uri(struct rdinit_uri *uri, unsigned int port)
{
	char text[128];

	snprintf(text, sizeof(text), "nvme+rdma://" PUPPET_ADDR ":%u/" PUPPET_NQN "/1",
		 PUPPET_PORT + port);
	rdinit_uri_init(uri);
	FUZZ_CHECK(!rdinit_uri_parse(text, uri));
}

static void new_dev(struct client *c)
{
	struct rdinit_ctrl_opts ctrl;
	struct rdinit_dev_opts opts;
	struct rdinit_uri uri;

	ctrl_opts(c, &ctrl);
	rdinit_dev_opts_init(&opts);
	opts.ctrl = &ctrl;
	opts.event_fn = client_dev_event;
	opts.event_user = c;
	opts.queue_size = 16;
	opts.io_timeout_ms = IO_TIMEOUT;
	opts.reconnect_delay_ms = 500;
	opts.ctrl_loss_tmo_ms = 5000;
	FUZZ_CHECK(!rdi_dev_create_env(&opts, &c->env, &c->dev));
	client_uri(&uri, c->scene->mode == SCENE_MIXED ? 0 : 1);
	if (c->scene->mode == SCENE_LISTED)
		FUZZ_CHECK(!rdinit_dev_add_discovery(c->dev, &uri, NULL));
	else
		FUZZ_CHECK(rdinit_dev_add_path(c->dev, &uri, NULL) == 0);
	client_uri(&uri, 2);
	if (c->scene->mode == SCENE_HOSTILE)
		FUZZ_CHECK(rdinit_dev_add_path(c->dev, &uri, "10.1.0.1") == 1);
	c->scene->loop[SCENE_DEV] = c->dev->h.loop;
	c->dev_opened = false;
	FUZZ_CHECK(!rdinit_dev_open_async(c->dev, dev_opened, c));
	c->connecting++;
}

static void new_chan(struct client *c)
{
	if (c->chan || !c->dev || rdinit_dev_chan_create(c->dev, &c->chan))
		return;
	c->scene->loop[SCENE_CHAN] = c->chan->h.loop;
}

static bool dev_is_opened(const struct scene *s)
{
	return s->client->dev_opened;
}

static void add_hostile_path(struct client *c)
{
	struct rdinit_uri uri;

	client_uri(&uri, 1);
	FUZZ_CHECK(rdinit_dev_add_path(c->dev, &uri, NULL) == 1);
	c->hostile_path = true;
}

/* ---- life ---- */

void client_start(struct client *c)
{
	if (c->started)
		return;
	c->started = true;
	if (c->scene->mode == SCENE_MIXED)
		add_hostile_path(c);
	else if (c->scene->mode >= SCENE_HOSTILE)
		new_dev(c);
	else
		new_ctrl(c);
}

static void free_handles(struct client *c)
{
	struct rd_loop **loop = c->scene->loop;

	loop[SCENE_CTRL] = loop[SCENE_QPAIR] = loop[SCENE_DEV] = loop[SCENE_CHAN] = NULL;
	c->closing = true;
	rdinit_qpair_free(&c->qp);
	rdinit_ctrl_free(&c->ctrl);
	rdinit_dev_chan_free(&c->chan);
	rdinit_dev_free(&c->dev);
	rdinit_discovery_free(&c->log);
	c->closing = false;
	c->ctrl_ready = c->dev_opened = false;
}

/* After a turn: what follows from its callbacks. */
static void client_goes_on(struct client *c)
{
	struct rd_loop **loop = c->scene->loop;

	if (!c->qp)
		loop[SCENE_QPAIR] = NULL;
	if (!c->chan)
		loop[SCENE_CHAN] = NULL;
	if (c->ctrl_ready && c->scene->mode == SCENE_HANDLES && !c->qp)
		new_qpair(c);
	if (c->dev_opened)
		new_chan(c);
	for (unsigned int i = 0; i < OPS; i++)
		if (c->ops[i].busy && c->ops[i].timed)
			FUZZ_CHECK(rd_sim_now(c->scene->sim) - c->ops[i].since < IO_AT_MOST);
}

void client_turn(struct client *c, enum scene_loop loop)
{
	int rc = 0;

	if (loop == SCENE_CTRL)
		rc = rdinit_ctrl_process(c->ctrl, 0);
	else if (loop == SCENE_QPAIR)
		rc = rdinit_qpair_process(c->qp, 0);
	else if (loop == SCENE_DEV)
		FUZZ_CHECK(!rdinit_dev_process(c->dev, 0));
	else
		rc = rdinit_dev_chan_process(c->chan, 0);
	if (rc < 0) {
		/* It has ended, and does nothing any more. */
		c->scene->loop[loop] = NULL;
		if (loop == SCENE_CTRL)
			c->ctrl_ready = false;
	}
	client_goes_on(c);
}

static void cancel_op(struct client *c, const struct client_op *op)
{
	if (c->chan && op->busy)
		(void)rdinit_dev_cancel(c->chan, op->id);
}

void client_life(struct client *c, enum client_life what, unsigned int n)
{
	switch (what) {
	case LIFE_NEW:
		if (c->scene->mode == SCENE_MIXED || !c->started)
			return;
		free_handles(c);
		c->started = false;
		client_start(c);
		break;
	case LIFE_DISCONNECT:
		if (c->ctrl && !rdinit_ctrl_disconnect_async(c->ctrl, handle_ended, c))
			c->connecting++;
		break;
	case LIFE_NO_QUEUE:
		rdinit_qpair_free(&c->qp);
		rdinit_dev_chan_free(&c->chan);
		client_goes_on(c);
		break;
	case LIFE_QUEUE:
		client_goes_on(c);
		break;
	case LIFE_CALLBACK:
		c->free_in_callback = true;
		break;
	case LIFE_RECONNECT:
		if (c->dev)
			(void)rdinit_dev_reconnect(c->dev);
		break;
	case LIFE_CANCEL:
	case CLIENT_LIVES:
		cancel_op(c, &c->ops[n % OPS]);
		break;
	}
}

/* ---- commands ---- */

static int dev_command(struct client *c, struct client_op *op, unsigned int what,
		       unsigned int blocks, unsigned int flags)
{
	struct rdinit_dev_io io;
	struct iovec iov[2] = {{op_buffer(op) + 256, 256},
			       {op_buffer(op) + 512, (blocks - 1) * PUPPET_BLOCK + 256}};

	rdinit_dev_io_init(&io);
	io.op = (enum rdinit_dev_op)(what % OP_PASSTHRU);
	io.flags = flags & 3;
	io.lba = (uint64_t)(op - c->ops) * GROUP;
	io.nblocks = blocks;
	io.buf = op_buffer(op);
	io.write_buf = op->other;
	io.source = (io.lba + 64) % PUPPET_BLOCKS;
	if (flags & 4 && blocks < GROUP) {
		io.iov = iov;
		io.iovcnt = 2;
	}
	op->checked = io.op == RDINIT_DEV_READ || io.op == RDINIT_DEV_WRITE;
	return rdinit_dev_submit(c->chan, &io, client_op_ended, op, &op->id);
}

static int qpair_passthru(struct client *c, struct client_op *op, unsigned int what,
			  unsigned int blocks, unsigned int flags)
{
	struct rdinit_passthru cmd;

	rdinit_passthru_init(&cmd);
	cmd.sqe[0] = (uint8_t)what;
	cmd.sqe[4] = 1;
	cmd.data = flags & 1 ? op_buffer(op) : NULL;
	cmd.len = flags & 1 ? blocks * PUPPET_BLOCK : 0;
	cmd.flags = flags >> 1 & (RDINIT_PASSTHRU_WRITE | RDINIT_PASSTHRU_KEYED);
	return rdinit_io_passthru_async(c->qp, &cmd, NULL, client_op_ended, op);
}

static int qpair_command(struct client *c, struct client_op *op, unsigned int what,
			 unsigned int blocks, unsigned int flags)
{
	uint64_t lba = (uint64_t)(op - c->ops) * GROUP;

	op->timed = true;
	op->checked = what <= RDINIT_DEV_WRITE;
	if (what == RDINIT_DEV_READ)
		return rdinit_read_async(c->qp, &c->ns, lba, blocks, op_buffer(op), flags & 1,
					 client_op_ended, op);
	if (what == RDINIT_DEV_WRITE)
		return rdinit_write_async(c->qp, &c->ns, lba, blocks, op_buffer(op), flags & 1,
					  client_op_ended, op);
	if (what == RDINIT_DEV_FLUSH)
		return rdinit_flush_async(c->qp, &c->ns, client_op_ended, op);
	return qpair_passthru(c, op, what, blocks, flags);
}

void client_io(struct client *c, unsigned int n, unsigned int what, unsigned int blocks,
	       unsigned int flags)
{
	struct client_op *op = c->chan || c->qp ? take_op(c, n) : NULL;
	int rc;

	if (!op)
		return;
	op->busy = true; /* no callback runs within the call */
	rc = c->chan ? dev_command(c, op, what, blocks, flags)
		     : qpair_command(c, op, what, blocks, flags);
	if (rc)
		op->busy = false;
}

static void discovered(void *user, const struct rdinit_completion *comp)
{
	struct client *c = user;

	FUZZ_CHECK(c->discovering && !comp->err == !!c->log);
	c->discovering = false;
	rdinit_discovery_free(&c->log);
}

static void extents_known(void *user, const struct rdinit_completion *comp, uint64_t known,
			  const struct rdinit_dev_extent *list, unsigned int n)
{
	struct client *c = user;
	uint64_t at = 0;

	FUZZ_CHECK(c->extents);
	c->extents--;
	FUZZ_CHECK(known <= PUPPET_BLOCKS && (!comp->err || (!known && !n)));
	for (unsigned int i = 0; i < n; i++) {
		FUZZ_CHECK(list[i].lba >= at && list[i].nblocks);
		at = list[i].lba + list[i].nblocks;
		FUZZ_CHECK(at <= known);
	}
}

static void ask_dev(struct client *c, enum client_admin what, unsigned int blocks)
{
	struct rdinit_dev_path_info path;
	struct rdinit_dev_info info;

	if (what == ADMIN_EXTENTS) {
		c->extents += !rdinit_dev_extents_async(c->dev, 0, 1 + blocks % PUPPET_BLOCKS,
							extents_known, c);
		return;
	}
	rdinit_dev_info_init(&info);
	rdinit_dev_path_info_init(&path);
	if (!rdinit_dev_get_info(c->dev, &info))
		FUZZ_CHECK(info.block_size && !(info.block_size & (info.block_size - 1)));
	(void)rdinit_dev_get_path(c->dev, blocks, &path);
}

static int ctrl_command(struct client *c, struct client_op *op, enum client_admin what,
			uint8_t value, uint16_t len)
{
	struct rdinit_passthru cmd;

	switch (what) {
	case ADMIN_IDENTIFY:
		return rdinit_identify_async(c->ctrl, value, len, op_buffer(op), client_op_ended,
					     op);
	case ADMIN_LOG:
		return rdinit_get_log_async(c->ctrl, value, NVME_NSID_ALL, 0, op_buffer(op),
					    4 + len % BUFFER / 4 * 4, client_op_ended, op);
	default:
		rdinit_passthru_init(&cmd);
		cmd.sqe[0] = value;
		cmd.len = len % (BUFFER + 1);
		cmd.data = cmd.len ? op_buffer(op) : NULL;
		cmd.flags = value & 1;
		return rdinit_admin_passthru_async(c->ctrl, &cmd, NULL, client_op_ended, op);
	}
}

void client_admin(struct client *c, unsigned int n, enum client_admin what, uint8_t value,
		  uint16_t len)
{
	struct client_op *op;

	if (c->dev)
		ask_dev(c, what, len);
	if (!c->ctrl)
		return;
	if (what == ADMIN_DISCOVER) {
		if (!c->discovering)
			c->discovering = !rdinit_discover_async(c->ctrl, &c->log, discovered, c);
		return;
	}
	op = take_op(c, n);
	if (!op)
		return;
	op->busy = true;
	if (ctrl_command(c, op, what, value, len))
		op->busy = false;
}

/* ---- the end ---- */

bool client_idle(const struct scene *s)
{
	const struct client *c = s->client;

	for (unsigned int i = 0; i < OPS; i++)
		if (c->ops[i].busy)
			return false;
	return !c->connecting && !c->discovering && !c->extents;
}

void client_uses_honest_path(struct client *c)
{
	c->free_in_callback = false;
	new_chan(c);
	for (unsigned int write = 1; write < 2; write--) {
		for (unsigned int i = 0; i < OPS - 1; i++) {
			struct client_op *op = take_op(c, i);

			FUZZ_CHECK(op);
			memset(op_buffer(op), write ? (int)i : 0xee, BUFFER);
			op->busy = true;
			FUZZ_CHECK(!dev_command(c, op, write, GROUP, 0));
		}
		scene_await(c->scene, client_idle, 60 * RD_NSEC_PER_SEC);
		for (unsigned int i = 0; i < OPS - 1; i++) {
			FUZZ_CHECK(!c->ops[i].err);
			for (unsigned int k = 0; k < BUFFER; k++)
				FUZZ_CHECK(op_buffer(&c->ops[i])[k] == i);
		}
	}
}

void client_open(struct scene *s)
{
	struct client *c = calloc(1, sizeof(*c));

	FUZZ_CHECK(c);
	s->client = c;
	c->scene = s;
	c->env = (struct rdi_env){.fab_open = rd_sim_open,
				  .clock = rd_sim_clock(s->sim),
				  .seed = 3,
				  .host_files = &rdi_host_files};
	rdinit_ns_init(&c->ns);
	c->ns.nsid = 1;
	c->ns.block_size = PUPPET_BLOCK;
	c->ns.blocks = PUPPET_BLOCKS;
	for (unsigned int i = 0; i < OPS; i++) {
		struct client_op *op = &c->ops[i];

		op->client = c;
		op->memory = malloc(2 * GUARD + BUFFER);
		op->other = calloc(1, BUFFER);
		FUZZ_CHECK(op->memory && op->other);
		memset(op->memory, CANARY, 2 * GUARD + BUFFER);
	}
	if (s->mode != SCENE_MIXED)
		return;
	new_dev(c);
	scene_await(s, dev_is_opened, 10 * RD_NSEC_PER_SEC);
	new_chan(c);
}

void client_close(struct scene *s)
{
	struct client *c = s->client;

	free_handles(c);
	FUZZ_CHECK(client_idle(s));
	for (unsigned int i = 0; i < OPS; i++) {
		check_untouched(&c->ops[i]);
		free(c->ops[i].memory);
		free(c->ops[i].other);
	}
	free(c);
	s->client = NULL;
}
