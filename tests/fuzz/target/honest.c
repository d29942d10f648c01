/* SPDX-License-Identifier: BSD-3-Clause */
/* The honest host: a device of librdinit. What it wrote it must read again, and it must never lose
 * its connection, whatever others do. */
#include <stdlib.h>
#include <string.h>

#include "dev.h"
#include "nvmf/wire.h"

#include "../fuzz.h"
#include "stage.h"

#define BLOCK     512u
#define BLOCKS    32u /* of each of its commands at most */
#define SHORT     4u  /* blocks of the other commands */
#define KEEPALIVE 60000u

struct honest_io {
	struct honest *host;
	bool busy;
	bool write;
	uint8_t value; /* that its blocks have */
	uint8_t next;  /* that is being written */
	uint32_t count;
	uint8_t data[BLOCKS * BLOCK];
};

struct honest {
	struct rdi_env env;
	struct rdinit_dev *dev;
	struct rdinit_dev_chan *chan;
	bool opened;
	bool closing;
	unsigned int inflight;
	struct honest_io io[HONEST_IOS];
};

static bool all_equal(const uint8_t *data, size_t len, uint8_t value)
{
	return data[0] == value && memcmp(data, data + 1, len - 1) == 0;
}

static void honest_io_ended(void *user, const struct rdinit_completion *comp)
{
	struct honest_io *io = user;

	if (comp->err)
		fprintf(stderr, "a command of the honest host has failed: %s\n", comp->text);
	FUZZ_CHECK(io->busy && !comp->err);
	io->busy = false;
	io->host->inflight--;
	if (io->write)
		io->value = io->next;
	else
		FUZZ_CHECK(all_equal(io->data, (size_t)io->count * BLOCK, io->value));
}

void honest_acts(struct honest *h, unsigned int n, bool write)
{
	struct honest_io *io = &h->io[n];
	struct rdinit_dev_io dev_io;

	if (io->busy)
		return;
	io->host = h;
	io->write = write;
	io->count = n ? SHORT : BLOCKS;
	io->next = (uint8_t)(io->value + 1 + n);
	memset(io->data, write ? io->next : 0xee, sizeof(io->data));
	rdinit_dev_io_init(&dev_io);
	dev_io.op = write ? RDINIT_DEV_WRITE : RDINIT_DEV_READ;
	dev_io.lba = n * BLOCKS;
	dev_io.nblocks = io->count;
	dev_io.buf = io->data;
	FUZZ_CHECK(!rdinit_dev_submit(h->chan, &dev_io, honest_io_ended, io, NULL));
	io->busy = true;
	h->inflight++;
}

bool honest_idle(const struct stage *s)
{
	return !s->honest->inflight;
}

bool honest_opened(const struct stage *s)
{
	return s->honest->opened;
}

static void honest_dev_opened(void *user, const struct rdinit_completion *comp)
{
	struct honest *h = user;

	FUZZ_CHECK(!comp->err);
	h->opened = true;
}

static void honest_dev_event(void *user, const struct rdinit_dev_event *event)
{
	const struct honest *h = user;

	if (!h->opened || h->closing)
		return;
	fprintf(stderr, "the honest host: %s\n", event->text);
	FUZZ_CHECK(event->path < 0 || event->path_state == RDINIT_DEV_PATH_LIVE);
}

void honest_open(struct stage *s)
{
	struct honest *h = calloc(1, sizeof(*h));
	struct rdinit_ctrl_opts ctrl;
	struct rdinit_dev_opts opts;
	struct rdinit_uri uri;

	FUZZ_CHECK(h);
	s->honest = h;
	h->env = (struct rdi_env){.fab_open = rd_sim_open,
				  .clock = rd_sim_clock(s->sim),
				  .seed = 3,
				  .host_files = &rdi_host_files};
	rdinit_ctrl_opts_init(&ctrl);
	ctrl.hostnqn = STAGE_HOST;
	ctrl.hostid = "00000000-0000-4000-8000-000000000001";
	ctrl.provider = "iwarp"; /* whose place the simulation takes */
	ctrl.spin_us = 0;
	ctrl.keep_alive_tmo_ms = KEEPALIVE;
	rdinit_dev_opts_init(&opts);
	opts.ctrl = &ctrl;
	opts.event_fn = honest_dev_event;
	opts.event_user = h;
	opts.queue_size = 16;
	FUZZ_CHECK(!rdi_dev_create_env(&opts, &h->env, &h->dev));
	rdinit_uri_init(&uri);
	FUZZ_CHECK(!rdinit_uri_parse("nvme+rdma://" STAGE_ADDR ":4420/" STAGE_HONEST "/1", &uri));
	FUZZ_CHECK(rdinit_dev_add_path(h->dev, &uri, "10.1.0.1") >= 0);
	s->loop[STAGE_DEV] = h->dev->h.loop;
	FUZZ_CHECK(!rdinit_dev_open_async(h->dev, honest_dev_opened, h));
	stage_await(s, honest_opened, 10 * RD_NSEC_PER_SEC);
	FUZZ_CHECK(!rdinit_dev_chan_create(h->dev, &h->chan));
	s->loop[STAGE_CHAN] = h->chan->h.loop;
}

void honest_turn(struct honest *h, enum stage_loop loop)
{
	if (loop == STAGE_DEV)
		FUZZ_CHECK(rdinit_dev_process(h->dev, 0) >= 0);
	else
		FUZZ_CHECK(rdinit_dev_chan_process(h->chan, 0) >= 0);
}

void honest_close(struct stage *s)
{
	struct honest *h = s->honest;

	h->closing = true;
	rdinit_dev_chan_free(&h->chan);
	rdinit_dev_free(&h->dev);
	s->loop[STAGE_DEV] = s->loop[STAGE_CHAN] = NULL;
	free(h);
	s->honest = NULL;
}
