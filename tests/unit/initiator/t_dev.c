/* SPDX-License-Identifier: BSD-3-Clause */
#include "t_dev.h"

#include <CUnit/CUnit.h>
#include <stdio.h>

#define SETTLE_TURNS 60

static void count_event(void *user, const struct rdinit_dev_event *ev)
{
	struct t_dev *d = user;
	struct rdinit_dev_info info;

	d->n_events++;
	d->resized += ev->type == RDINIT_DEV_EVENT_RESIZED;
	d->ana += ev->type == RDINIT_DEV_EVENT_ANA;
	if (ev->type == RDINIT_DEV_EVENT_PATH) {
		d->failed += ev->path_state == RDINIT_DEV_PATH_FAILED;
		d->lost += ev->path_state == RDINIT_DEV_PATH_LOST;
	}
	/* Calls of the device are rejected here instead of queued. */
	rdinit_dev_info_init(&info);
	CU_ASSERT_EQUAL(rdinit_dev_get_info(d->dev, &info), -EDEADLK);
}

void t_dev_init(struct t_dev *d)
{
	memset(d, 0, sizeof(*d));
	t_fake_reset();
	t_ctrl_opts(&d->ctrl_opts, 1);
	rdinit_dev_opts_init(&d->opts);
	d->opts.ctrl = &d->ctrl_opts;
	d->opts.queue_size = 8;
	d->opts.event_fn = count_event;
	d->opts.event_user = d;
}

struct t_dev t_dev_new(struct t_dev *self)
{
	t_dev_init(self);
	return *self;
}

void t_dev_create(struct t_dev *d, unsigned int paths)
{
	struct rdinit_uri uri;
	char text[128];
	unsigned int i;

	CU_ASSERT_EQUAL_FATAL(rdi_dev_create_env(&d->opts, &t_env, &d->dev), 0);
	for (i = 0; i < paths; i++) {
		snprintf(text, sizeof(text), "nvme+rdma://192.0.2.%u/nqn.2024-01.test:x/1", i + 1);
		rdinit_uri_init(&uri);
		CU_ASSERT_EQUAL_FATAL(rdinit_uri_parse(text, &uri), 0);
		CU_ASSERT_EQUAL_FATAL(rdinit_dev_add_path(d->dev, &uri, NULL), (int)i);
	}
}

void t_dev_create_discovery(struct t_dev *d)
{
	struct rdinit_uri uri;

	CU_ASSERT_EQUAL_FATAL(rdi_dev_create_env(&d->opts, &t_env, &d->dev), 0);
	rdinit_uri_init(&uri);
	CU_ASSERT_EQUAL_FATAL(rdinit_uri_parse("nvme+rdma://192.0.2.1/nqn.2024-01.test:x", &uri),
			      0);
	CU_ASSERT_EQUAL_FATAL(rdinit_dev_add_discovery(d->dev, &uri, NULL), 0);
}

void t_dev_open(struct t_dev *d, unsigned int paths)
{
	t_dev_create(d, paths);
	CU_ASSERT_EQUAL_FATAL(rdinit_dev_open(d->dev), 0);
	CU_ASSERT_EQUAL_FATAL(rdinit_dev_chan_create(d->dev, &d->chan), 0);
	t_dev_settle(d);
}

void t_dev_free(struct t_dev *d)
{
	rdinit_dev_chan_free(&d->chan);
	rdinit_dev_free(&d->dev);
	CU_ASSERT_EQUAL(t_fake.mrs, 0);
	CU_ASSERT_EQUAL(t_fake.violations, 0);
}

void t_dev_settle(struct t_dev *d)
{
	unsigned int i;

	for (i = 0; i < SETTLE_TURNS; i++) {
		CU_ASSERT_EQUAL(rdinit_dev_process(d->dev, 0), 0);
		if (d->chan)
			CU_ASSERT_TRUE(rdinit_dev_chan_process(d->chan, 0) >= 0);
	}
}

void t_dev_pass(struct t_dev *d, unsigned int ms)
{
	for (; ms > 10; ms -= 10) {
		t_advance(&t_fake, 10);
		CU_ASSERT_EQUAL(rdinit_dev_process(d->dev, 0), 0);
		if (d->chan)
			CU_ASSERT_TRUE(rdinit_dev_chan_process(d->chan, 0) >= 0);
	}
	t_advance(&t_fake, ms);
	t_dev_settle(d);
}

uint64_t t_dev_submit(struct t_dev *d, enum rdinit_dev_op op, void *buf, struct t_done *done)
{
	struct rdinit_dev_io io = t_dev_io(op, 0, 1);
	uint64_t id = 0;

	io.buf = buf;
	io.write_buf = op == RDINIT_DEV_COMPARE_WRITE ? buf : NULL;
	CU_ASSERT_EQUAL(rdinit_dev_submit(d->chan, &io, t_done_fn, done, &id), 0);
	t_dev_settle(d);
	return id;
}

enum rdinit_dev_path_state t_dev_path_state(struct t_dev *d, unsigned int path)
{
	struct rdinit_dev_path_info info;

	rdinit_dev_path_info_init(&info);
	CU_ASSERT_EQUAL_FATAL(rdinit_dev_get_path(d->dev, path, &info), 0);
	return info.state;
}

struct rdinit_dev_io t_dev_io(enum rdinit_dev_op op, uint64_t lba, uint32_t nblocks)
{
	struct rdinit_dev_io io;

	rdinit_dev_io_init(&io);
	io.op = op;
	io.lba = lba;
	io.nblocks = nblocks;
	return io;
}
