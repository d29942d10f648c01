/* SPDX-License-Identifier: BSD-3-Clause */
/* A device on one working path: opening, commands, limits, handles. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdlib.h>

#include "suites.h"
#include "t_dev.h"

static void reads_and_writes(void)
{
	T_DEV(d);
	unsigned char out[4096], in[4096];
	struct rdinit_dev_info info;
	struct t_done done = {0};

	t_dev_open(&d, 1);
	rdinit_dev_info_init(&info);
	CU_ASSERT_EQUAL(rdinit_dev_get_info(d.dev, &info), 0);
	CU_ASSERT_EQUAL(info.blocks, T_DISK_BLOCKS);
	CU_ASSERT_EQUAL(info.block_size, T_DISK_BLOCK);
	CU_ASSERT_EQUAL(info.state, RDINIT_DEV_LIVE);
	CU_ASSERT_EQUAL(info.paths, 1);
	memset(out, 0x5a, sizeof(out));
	CU_ASSERT_EQUAL(rdinit_dev_write(d.chan, 3, 8, out, RDINIT_IO_FUA), 0);
	CU_ASSERT_EQUAL(memcmp(t_fake.disk + 3 * T_DISK_BLOCK, out, sizeof(out)), 0);
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 3, 8, in, 0, t_done_fn, &done), 0);
	CU_ASSERT_EQUAL(done.calls, 0); /* never from the submitting function */
	CU_ASSERT_EQUAL(rdinit_dev_chan_inflight(d.chan), 1);
	t_dev_settle(&d);
	T_ENDED(done, 0);
	CU_ASSERT_EQUAL(memcmp(in, out, sizeof(out)), 0);
	CU_ASSERT_EQUAL(rdinit_dev_flush(d.chan), 0);
	CU_ASSERT_EQUAL(rdinit_dev_chan_inflight(d.chan), 0);
}

static void data_in_pieces(void)
{
	T_DEV(d);
	struct rdinit_dev_io io = t_dev_io(RDINIT_DEV_WRITE, 5, 2);
	unsigned char a[100], b[924], c[600], e[424], in[1024];
	struct iovec iov[2] = {{a, sizeof(a)}, {b, sizeof(b)}};

	t_dev_open(&d, 1);
	memset(a, 1, sizeof(a));
	memset(b, 2, sizeof(b));
	io.iov = iov;
	io.iovcnt = 2;
	CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), 0);
	CU_ASSERT_EQUAL(t_fake.disk[5 * T_DISK_BLOCK + 99], 1);
	CU_ASSERT_EQUAL(t_fake.disk[5 * T_DISK_BLOCK + 100], 2);
	io.op = RDINIT_DEV_READ;
	iov[0] = (struct iovec){c, sizeof(c)};
	iov[1] = (struct iovec){e, sizeof(e)};
	CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), 0);
	CU_ASSERT_EQUAL(memcmp(c, a, 100), 0);
	CU_ASSERT_EQUAL(memcmp(c + 100, b, 500), 0);
	CU_ASSERT_EQUAL(memcmp(e, b, 424), 0);
	/* Pieces that are one buffer are not copied through another one. */
	iov[0] = (struct iovec){in, 300};
	iov[1] = (struct iovec){in + 300, sizeof(in) - 300};
	CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), 0);
	CU_ASSERT_PTR_EQUAL(t_fake.last_addr, in);
	CU_ASSERT_EQUAL(in[99], 1);
	CU_ASSERT_EQUAL(in[100], 2);
	iov[1].iov_len--;
	CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), -EINVAL);
}

static const struct nvme_sqe *last_sqe(void)
{
	return &t_fake.log[t_fake.n_log - 1];
}

static bool answer_others(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			  const void *data, size_t len)
{
	/* The fake's namespace supports neither of them. */
	if (sqe->opcode == nvme_cmd_write_zeroes || sqe->opcode == nvme_cmd_dsm ||
	    sqe->opcode == nvme_cmd_verify || sqe->opcode == nvme_cmd_compare) {
		t_answer(conn, sqe, 0, 0);
		return true;
	}
	return false;
}

static void the_other_commands(void)
{
	T_DEV(d);
	struct rdinit_dev_io io = t_dev_io(RDINIT_DEV_WRITE_ZEROES, 7, 9);

	t_fake.id.oncs =
		htole16(NVME_CTRL_ONCS_WRITE_ZEROES | NVME_CTRL_ONCS_DSM | NVME_CTRL_ONCS_COMPARE);
	t_fake.dlfeat = 1 | 8;
	t_dev_open(&d, 1);
	t_fake.hook = answer_others;
	io.flags = RDINIT_DEV_IO_DEALLOCATE;
	CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), 0);
	CU_ASSERT_EQUAL(last_sqe()->opcode, nvme_cmd_write_zeroes);
	CU_ASSERT_EQUAL(le32toh(last_sqe()->cdw10), 7);
	CU_ASSERT_EQUAL(le32toh(last_sqe()->cdw12), 8u | 1u << 25);
	io = t_dev_io(RDINIT_DEV_DEALLOCATE, 100, 16000);
	CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), 0);
	CU_ASSERT_EQUAL(last_sqe()->opcode, nvme_cmd_dsm);
	CU_ASSERT_EQUAL(le32toh(last_sqe()->cdw10), 0);
	CU_ASSERT_EQUAL(le32toh(last_sqe()->cdw11), 4);
	io = t_dev_io(RDINIT_DEV_VERIFY, 0, 1);
	CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), -EOPNOTSUPP);
	io = t_dev_io(RDINIT_DEV_COMPARE_WRITE, 0, 1);
	CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), -EOPNOTSUPP);
	io = t_dev_io(RDINIT_DEV_COMPARE, 0, 1);
	CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), -EINVAL); /* no buffer */
}

/* Limits that do not depend on MDTS; DEAC only for a controller that supports it. */
static void limits_of_commands_without_data(void)
{
	T_DEV(d);
	struct rdinit_dev_io io = t_dev_io(RDINIT_DEV_WRITE_ZEROES, 0, 16);
	struct rdinit_dev_info info;

	t_fake.id.oncs = htole16(NVME_CTRL_ONCS_WRITE_ZEROES | NVME_CTRL_ONCS_VERIFY);
	t_fake.id_nvm.wzsl = 1; /* 8 KiB */
	t_fake.dlfeat = 1;
	t_dev_open(&d, 1);
	t_fake.hook = answer_others;
	rdinit_dev_info_init(&info);
	CU_ASSERT_EQUAL(rdinit_dev_get_info(d.dev, &info), 0);
	CU_ASSERT_EQUAL(info.max_write_zeroes, 16);
	CU_ASSERT_EQUAL(info.max_verify, 65536);
	io.flags = RDINIT_DEV_IO_DEALLOCATE;
	CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), 0);
	CU_ASSERT_EQUAL(le32toh(last_sqe()->cdw12), 15);
	io.nblocks = 17;
	CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), -EINVAL);
}

static unsigned int zero_writes, zero_blocks; /* Writes of nothing but zeroes, with FUA, no DEAC */

/* Write Zeroes, as far as the controller has it, and Writes. */
static bool zero_or_refuse(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			   const void *data, size_t len)
{
	uint32_t cdw12 = le32toh(sqe->cdw12), blocks = (cdw12 & 0xffff) + 1;
	static uint8_t got[1u << 16];

	if (conn != t_conn_to(f, 1, true) || sqe->opcode == NVMF_OPCODE)
		return false;
	if (sqe->opcode == nvme_cmd_write_zeroes) {
		t_answer(conn, sqe, 0, f->id.oncs ? 0 : NVME_SC_INVALID_OPCODE | NVME_STATUS_DNR);
		return true;
	}
	CU_ASSERT_EQUAL_FATAL(sqe->opcode, nvme_cmd_write);
	CU_ASSERT_TRUE_FATAL(blocks * T_DISK_BLOCK <= sizeof(got));
	CU_ASSERT_TRUE(t_read_host(f, sqe, got, blocks * T_DISK_BLOCK));
	CU_ASSERT_EQUAL(cdw12 >> 16, NVME_IO_FUA);
	CU_ASSERT_TRUE(got[0] == 0 && memcmp(got, got + 1, blocks * T_DISK_BLOCK - 1) == 0);
	CU_ASSERT_EQUAL(le32toh(sqe->cdw10), 7 + zero_blocks);
	zero_writes++;
	zero_blocks += blocks;
	t_answer(conn, sqe, 0, 0);
	return true;
}

/* The controller comes back as one of another version, without Write Zeroes. */
static void zeroes_are_written_where_write_zeroes_is_missing(void)
{
	T_DEV(d);
	struct rdinit_dev_io io = t_dev_io(RDINIT_DEV_WRITE_ZEROES, 7, 300);

	t_fake.id.oncs = htole16(NVME_CTRL_ONCS_WRITE_ZEROES);
	t_fake.dlfeat = NVME_NS_DLFEAT_WRITE_ZEROES;
	t_fake.hook = zero_or_refuse;
	zero_writes = zero_blocks = 0;
	t_dev_open(&d, 1);
	io.flags = RDINIT_DEV_IO_DEALLOCATE | RDINIT_IO_FUA;
	CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), 0);
	CU_ASSERT_EQUAL(zero_writes, 0);
	t_fake.id.oncs = 0;
	t_break(t_conn_to(&t_fake, 1, true), -ECONNRESET);
	t_break(t_conn_to(&t_fake, 1, false), -ECONNRESET);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(rdinit_dev_reconnect(d.dev), 0);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), 0);
	CU_ASSERT_EQUAL(zero_writes, 3); /* of 64 KiB at most */
	CU_ASSERT_EQUAL(zero_blocks, 300);
}

/* Checks that the options of @d are refused, and makes them @good again. */
static void refuse_opts(struct t_dev *d, const struct rdinit_dev_opts *good, const char *says)
{
	struct rdinit_dev *dev;

	CU_ASSERT_EQUAL(rdinit_dev_create(&d->opts, &dev), -EINVAL);
	CU_ASSERT_PTR_NULL(dev);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), says));
	d->opts = *good;
}

static void a_wrong_option_is_named(void)
{
	struct rdinit_dev_opts good;
	struct t_dev d;

	t_dev_init(&d);
	good = d.opts;
	d.opts.policy = (enum rdinit_dev_policy)3;
	refuse_opts(&d, &good, "policy is 3, expected one of RDINIT_DEV_ROUND_ROBIN");
	d.opts.channels = 1025;
	refuse_opts(&d, &good, "channels is 1025, expected 1 to 1024");
	d.opts.queue_size = 1;
	refuse_opts(&d, &good, "queue_size is 1, expected 2 to 1024");
	d.opts.io_timeout_ms = 0;
	refuse_opts(&d, &good, ": io_timeout_ms is 0, expected milliseconds");
	d.opts.reconnect_delay_ms = 0;
	refuse_opts(&d, &good, ": reconnect_delay_ms is 0, expected milliseconds");
	d.opts.ctrl_loss_tmo_ms = 1000;
	d.opts.fast_io_fail_tmo_ms = 1001;
	refuse_opts(&d, &good, "fast_io_fail_tmo_ms (1001) is longer than ctrl_loss_tmo_ms (1000)");
	if (SIZE_MAX > UINT32_MAX) {
		d.opts.pool_bytes = SIZE_MAX;
		refuse_opts(&d, &good, "expected less than 4 GiB");
	}
	d.ctrl_opts.keep_alive_tmo_ms = 0;
	refuse_opts(&d, &good, "keep_alive_tmo_ms is 0, expected at least 100");
}

/* Those of the controllers are not left to the first attempt to connect. */
static void wrong_options_of_controllers_are_refused_at_once(void)
{
	struct rdinit_dev_opts good;
	struct t_dev d;

	t_dev_init(&d);
	good = d.opts;
	d.ctrl_opts.hostid = "me";
	refuse_opts(&d, &good, "the host identifier \"me\" is not a UUID");
	d.ctrl_opts.hostid = NULL;
	d.ctrl_opts.hostnqn = "a b";
	refuse_opts(&d, &good, "the host NQN \"a b\"");
	d.ctrl_opts.hostnqn = NULL;
	d.ctrl_opts.provider = "pigeon";
	refuse_opts(&d, &good, "the provider \"pigeon\" is unknown");
	d.ctrl_opts.provider = NULL;
	d.ctrl_opts.host_traddr = "here";
	refuse_opts(&d, &good, "host_traddr \"here\" is not");
	d.ctrl_opts.host_traddr = NULL;
	d.ctrl_opts.connect_timeout_ms = 0;
	refuse_opts(&d, &good, "connect_timeout_ms is 0");
}

static void an_option_of_the_other_transport_is_refused(void)
{
	struct t_done opened = {0};
	struct t_dev d;

	t_dev_init(&d);
	d.ctrl_opts.hdr_digest = true;
	t_dev_create(&d, 1);
	CU_ASSERT_EQUAL(rdinit_dev_open_async(d.dev, t_done_fn, &opened), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "hdr_digest is set, which is an option"));
	t_dev_free(&d);
}

static void wrong_arguments_are_refused(void)
{
	T_DEV(d);
	struct t_done done = {0};
	struct rdinit_dev *other;
	unsigned char buf[512];

	t_dev_open(&d, 1);
	CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, T_DISK_BLOCKS, 1, buf, 0), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, T_DISK_BLOCKS - 1, 2, buf, 0), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, UINT64_MAX, 2, buf, 0), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, 0, 0, buf, 0), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, 0, 1, NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, 0, 1, buf, 8), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, 0, 4096, buf, 0), -EINVAL); /* MDTS is 1 MiB */
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "1048576 bytes"));
	CU_ASSERT_EQUAL(rdinit_dev_read(NULL, 0, 1, buf, 0), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 0, 1, buf, 0, NULL, &done), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_dev_cancel(d.chan, 1 << 16), -ENOENT);
	CU_ASSERT_EQUAL(rdinit_dev_cancel(d.chan, UINT64_MAX), -ENOENT);
	d.opts.channels = 0;
	CU_ASSERT_EQUAL(rdinit_dev_create(&d.opts, &other), -EINVAL);
}

/* No I/O command is answered. */
static bool keep_io(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		    const void *data, size_t len)
{
	return sqe->opcode != NVMF_OPCODE && conn != f->last_conn[0];
}

static void a_full_channel_takes_a_synchronous_call(void)
{
	T_DEV(d);
	struct t_done done = {0};
	unsigned char buf[512];
	unsigned int i;

	t_dev_open(&d, 1);
	CU_ASSERT_EQUAL(rdinit_dev_chan_depth(d.chan), 7);
	for (i = 0; i < 7; i++)
		CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, i, 1, buf, 0, t_done_fn, &done), 0);
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, i, 1, buf, 0, t_done_fn, &done), -EAGAIN);
	CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, 9, 1, buf, 0), 0);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(done.calls, 7);
	CU_ASSERT_EQUAL(done.err, 0);
}

static void commands_end_with_the_channel(void)
{
	T_DEV(d);
	struct t_done done = {0};
	unsigned char buf[512];

	t_dev_open(&d, 1);
	t_fake.hook = keep_io;
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 0, 1, buf, 0, t_done_fn, &done), 0);
	CU_ASSERT_EQUAL(rdinit_dev_close(d.dev), -EBUSY);
	rdinit_dev_chan_free(&d.chan);
	T_ENDED(done, -ECANCELED);
	t_fake.hook = NULL;
	CU_ASSERT_EQUAL(d.dev->guards.count, 1); /* the target may still execute it */
	CU_ASSERT_EQUAL(rdinit_dev_close(d.dev), 0);
}

/* The device exists as long as its last channel. */
static void handles_are_freed_in_any_order(void)
{
	struct rdinit_dev *none = NULL;
	unsigned char buf[512];
	struct t_dev d;

	t_dev_init(&d);
	t_dev_open(&d, 1);
	rdinit_dev_free(&d.dev);
	CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, 0, 1, buf, 0), 0);
	rdinit_dev_chan_free(&d.chan);
	CU_ASSERT_EQUAL(t_fake.mrs, 0);
	rdinit_dev_free(&none);
	rdinit_dev_free(NULL);
	rdinit_dev_chan_free(NULL);
}

/* What the events and the callback refer to is often freed next. */
static void a_freed_device_calls_back_no_more(void)
{
	struct t_done opened = {0};
	unsigned int before;
	struct t_dev d;

	t_dev_init(&d);
	t_dev_open(&d, 1);
	rdinit_dev_free(&d.dev);
	before = d.n_events;
	t_break(t_conn_to(&t_fake, 1, true), -ECONNRESET);
	CU_ASSERT_TRUE(rdinit_dev_chan_process(d.chan, 0) >= 0);
	CU_ASSERT_TRUE(rdinit_dev_chan_process(d.chan, 0) >= 0);
	CU_ASSERT_EQUAL(d.n_events, before);
	rdinit_dev_chan_free(&d.chan);
	/* But opening has its one answer. */
	t_dev_init(&d);
	t_dev_create(&d, 1);
	CU_ASSERT_EQUAL(rdinit_dev_open_async(d.dev, t_done_fn, &opened), 0);
	rdinit_dev_free(&d.dev);
	T_ENDED(opened, -ECANCELED);
}

static void free_chan(void *user, const struct rdinit_completion *c)
{
	struct t_dev *d = user;
	unsigned char buf[512];

	CU_ASSERT_EQUAL(rdinit_dev_read(d->chan, 0, 1, buf, 0), -EDEADLK);
	CU_ASSERT_EQUAL(rdinit_dev_chan_process(d->chan, 0), -EDEADLK);
	rdinit_dev_chan_free(&d->chan);
}

static void a_callback_may_free_the_channel(void)
{
	T_DEV(d);
	struct rdinit_dev_chan *chan;
	unsigned char buf[512];
	int i, rc = 0;

	t_dev_open(&d, 1);
	chan = d.chan;
	CU_ASSERT_EQUAL(rdinit_dev_read_async(chan, 0, 1, buf, 0, free_chan, &d), 0);
	for (i = 0; rc >= 0 && i < 10; i++)
		rc = rdinit_dev_chan_process(chan, 0);
	CU_ASSERT_EQUAL(rc, -ENOTCONN);
	CU_ASSERT_PTR_NULL(d.chan);
}

static void channels_are_limited(void)
{
	T_DEV(d);
	struct rdinit_dev_chan *second, *third;
	unsigned char buf[512];

	d.opts.channels = 2;
	t_dev_open(&d, 1);
	CU_ASSERT_EQUAL(rdinit_dev_chan_create(d.dev, &second), 0);
	CU_ASSERT_EQUAL(rdinit_dev_chan_create(d.dev, &third), -ENOSPC);
	CU_ASSERT_EQUAL(rdinit_dev_read(second, 0, 1, buf, 0), 0);
	CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, 0, 1, buf, 0), 0);
	rdinit_dev_chan_free(&second);
	CU_ASSERT_EQUAL(rdinit_dev_chan_create(d.dev, &third), 0);
	CU_ASSERT_EQUAL(rdinit_dev_read(third, 0, 1, buf, 0), 0);
	rdinit_dev_chan_free(&third);
}

static void a_channel_takes_a_queue_that_the_controller_grants(void)
{
	T_DEV(d);
	struct rdinit_dev_chan *second, *third;
	unsigned char buf[512];
	int i;

	d.opts.channels = 3;
	t_fake.granted = 1; /* 0's based: two */
	t_dev_open(&d, 1);
	for (i = 0; i < 4; i++) {
		CU_ASSERT_EQUAL_FATAL(rdinit_dev_chan_create(d.dev, &second), 0);
		CU_ASSERT_EQUAL(rdinit_dev_read(second, 0, 1, buf, 0), 0);
		rdinit_dev_chan_free(&d.chan);
		d.chan = second;
	}
	CU_ASSERT_EQUAL_FATAL(rdinit_dev_chan_create(d.dev, &second), 0);
	CU_ASSERT_EQUAL(rdinit_dev_chan_create(d.dev, &third), -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "grants 2 I/O queues"));
	rdinit_dev_chan_free(&second);
}

static void the_pool_gives_and_takes(void)
{
	T_DEV(d);
	char *a, *b;

	d.opts.pool_bytes = 64 << 10;
	t_fake.caps.cheap_mr = false; /* a device that needs registered memory */
	t_dev_open(&d, 1);
	a = rdinit_dev_buf_alloc(d.chan, 4096);
	b = rdinit_dev_buf_alloc(d.chan, 32 << 10);
	CU_ASSERT_PTR_NOT_NULL_FATAL(a);
	CU_ASSERT_PTR_NOT_NULL_FATAL(b);
	CU_ASSERT_PTR_NULL(rdinit_dev_buf_alloc(d.chan, 64 << 10));
	CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, 0, 8, a, 0), 0);
	CU_ASSERT_TRUE(t_fake.last_access & IBV_ACCESS_REMOTE_READ); /* the pool's own region */
	rdinit_dev_buf_free(d.chan, a, 4096);
	rdinit_dev_buf_free(d.chan, b, 32 << 10);
	CU_ASSERT_PTR_NOT_NULL(rdinit_dev_buf_alloc(d.chan, 64 << 10));
}

static void registered_buffers_survive_a_reconnect(void)
{
	T_DEV(d);
	static unsigned char buf[8192];
	struct t_done done = {0};
	unsigned int i;

	t_fake.caps.cheap_mr = false; /* a device that needs registered memory */
	t_dev_open(&d, 1);
	CU_ASSERT_EQUAL(rdinit_dev_mem_register(d.chan, buf, sizeof(buf)), 0);
	CU_ASSERT_EQUAL(rdinit_dev_mem_register(d.chan, buf + 8191, 1), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_dev_mem_register(d.chan, buf, 0), -EINVAL);
	for (i = 0; i < 2; i++) {
		t_fake.last_addr = NULL;
		CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, 0, 8, buf + 512, 0), 0);
		CU_ASSERT_PTR_EQUAL(t_fake.last_addr, buf + 512); /* not bounce memory */
		t_break(t_fake.last_conn[0], -ECONNRESET);
		t_dev_pass(&d, 2000);
		CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_LIVE);
	}
	t_fake.hook = keep_io;
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 0, 1, buf, 0, t_done_fn, &done), 0);
	CU_ASSERT_EQUAL(rdinit_dev_mem_unregister(d.chan, buf), -EBUSY);
	t_fake.hook = NULL;
	t_break(t_fake.last_conn[0], -ECONNRESET);
	t_dev_pass(&d, 2000);
	CU_ASSERT_EQUAL(done.calls, 1);
	CU_ASSERT_EQUAL(rdinit_dev_mem_unregister(d.chan, buf), 0);
	CU_ASSERT_EQUAL(rdinit_dev_mem_unregister(d.chan, buf), -ENOENT);
	CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, 0, 8, buf, 0), 0);
	CU_ASSERT_PTR_NOT_EQUAL(t_fake.last_addr, buf);
}

static unsigned int keep_alives;

static bool count_keep_alives(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			      const void *data, size_t len)
{
	keep_alives += conn == f->last_conn[0] && sqe->opcode == nvme_admin_keep_alive;
	return false;
}

/* 10 s, with a command every second if @busy. */
static unsigned int keep_alives_in_10_s(struct t_dev *d, bool busy)
{
	unsigned char buf[512];
	unsigned int i;

	keep_alives = 0;
	for (i = 0; i < 10; i++) {
		if (busy)
			CU_ASSERT_EQUAL(rdinit_dev_read(d->chan, 0, 1, buf, 0), 0);
		t_dev_pass(d, 1000);
	}
	return keep_alives;
}

static void traffic_is_keep_alive_where_the_controller_says_so(void)
{
	struct t_dev d;

	t_dev_init(&d);
	t_fake.hook = count_keep_alives;
	t_fake.id.ctratt = htole32(NVME_CTRL_CTRATT_TBKAS);
	t_dev_open(&d, 1);
	CU_ASSERT_EQUAL(keep_alives_in_10_s(&d, true), 0);
	CU_ASSERT_TRUE(keep_alives_in_10_s(&d, false) >= 4); /* KATO is 5 s */
	t_dev_free(&d);
	t_dev_init(&d);
	t_fake.hook = count_keep_alives;
	t_dev_open(&d, 1);
	CU_ASSERT_EQUAL(keep_alives_in_10_s(&d, true), 4);
	t_dev_free(&d);
}

const struct t_case t_dev_cases[] = {
	{"reads and writes", reads_and_writes},
	{"data in pieces", data_in_pieces},
	{"the other commands", the_other_commands},
	{"limits of commands without data are the controller's", limits_of_commands_without_data},
	{"zeroes are written where Write Zeroes is missing",
	 zeroes_are_written_where_write_zeroes_is_missing},
	{"a wrong option is named", a_wrong_option_is_named},
	{"an option of the other transport is refused",
	 an_option_of_the_other_transport_is_refused},
	{"wrong arguments are refused", wrong_arguments_are_refused},
	{"wrong options of controllers are refused at once",
	 wrong_options_of_controllers_are_refused_at_once},
	{"a full channel takes a synchronous call", a_full_channel_takes_a_synchronous_call},
	{"commands end with the channel", commands_end_with_the_channel},
	{"handles are freed in any order", handles_are_freed_in_any_order},
	{"a freed device calls back no more", a_freed_device_calls_back_no_more},
	{"a callback may free the channel", a_callback_may_free_the_channel},
	{"channels are limited", channels_are_limited},
	{"a channel takes a queue that the controller grants",
	 a_channel_takes_a_queue_that_the_controller_grants},
	{"registered buffers survive a reconnect", registered_buffers_survive_a_reconnect},
	{"traffic is keep-alive where the controller says so",
	 traffic_is_keep_alive_where_the_controller_says_so},
	{"the pool gives and takes", the_pool_gives_and_takes},
	{NULL, NULL},
};
