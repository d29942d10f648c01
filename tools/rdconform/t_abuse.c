/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * abuse: traffic that a correct host never sends. The target may treat the offending host as it
 * likes; after each test a correct host must be served (RDC_ALIVE).
 */
#include <stdlib.h>
#include <string.h>

#include "suites.h"

#define RW_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define SURVIVES  "Base 3.3.2"
/* Bounds the time spent on a target that sends responses without end; no test needs more. */
#define ANSWERS_MAX 4096

/* Receives for a while; the connection may end or not. */
static void listen_for(struct rdc_raw *raw, unsigned int ms)
{
	struct rdc_answer a;
	unsigned int n = 0;

	while (n < ANSWERS_MAX && rdc_raw_answer(raw, &a, ms) == 1)
		n++;
}

static void drop_raws(struct rdc *t)
{
	while (!LIST_EMPTY(&t->raws))
		rdc_raw_close(LIST_FIRST(&t->raws));
}

/* @sqe as commands 0 to @n - 1, without waiting. */
static void send_times(struct rdc_raw *raw, struct nvme_sqe *sqe, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		sqe->cid = htole16((uint16_t)i);
		rdc_raw_send(raw, sqe, sizeof(*sqe));
	}
}

/* The same of a command on @blocks blocks from block 0. */
static void send_rw_times(struct rdc_raw *io, uint8_t op, uint8_t flags, uint32_t blocks,
			  unsigned int n)
{
	struct rdc_host *h = rdc_main(io->t);
	struct rdc_mem *mem = rdc_raw_mem(io, (size_t)blocks * h->bs,
					  op & 1 ? IBV_ACCESS_REMOTE_READ : RW_ACCESS);
	struct nvme_sqe sqe;

	rdc_raw_rw(&sqe, h, op, 0, blocks, mem);
	sqe.flags |= flags;
	send_times(io, &sqe, n);
}

/* ---- connections ---- */

static void dial_and_drop(struct rdc *t)
{
	unsigned int i;

	for (i = 0; i < 50; i++)
		rdc_raw_close(rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 0, .depth = 32}));
}

static void dial_and_idle(struct rdc *t)
{
	const char *bad;
	char why[200];
	unsigned int i;

	for (i = 0; i < 16; i++)
		rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 0, .depth = 32});
	bad = rdc_probe(t, why, sizeof(why));
	RDC_CHECK(t, !bad, "with 16 silent connections open: %s", why);
}

static void dial_io_first(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_dial(t, &(struct rdc_dial){.qid = 7, .depth = 128});
	struct rdc_connect c;
	struct rdc_raw_reply rr;

	if (!raw->up)
		return;
	raw->cntlid = 0x1234;
	rdc_connect_init(t, &c, 0, raw);
	rr = rdc_raw_connect(raw, &c);
	RDC_CHECK(t, !rr.answered || rr.r.err,
		  "Connect of an I/O queue without a controller succeeded");
}

static void connect_and_drop(struct rdc *t)
{
	unsigned int i;

	for (i = 0; i < 20; i++) {
		struct rdc_raw *admin = rdc_raw_admin(t, 0);

		rdc_raw_io(admin, 1, 16);
		rdc_raw_io(admin, 2, 16);
		drop_raws(t);
	}
}

static void many_hosts(struct rdc *t)
{
	const struct rdc_host_opts opts = {.no_io = true};
	unsigned int i;

	for (i = 0; i < 16; i++) {
		struct rdc_host *h = rdc_host_open(t, i & 1, &opts);

		RDC_OK(t, rdc_identify(h, NVME_IDENTIFY_CNS_CTRL, 0, 0, rdc_buf(t, 4096)),
		       "Identify");
	}
}

/* ---- capsules ---- */

static void garbage(struct rdc *t)
{
	unsigned int round, seed = t->arg;

	for (round = 0; round < 8; round++) {
		struct rdc_raw *raw = rdc_raw_admin(t, 0);
		unsigned int i;

		if (seed & 1)
			raw = rdc_raw_io(raw, 1, 16);
		for (i = 0; i < 8 && !raw->over; i++) {
			struct nvme_sqe sqe;

			rdc_fill(&sqe, sizeof(sqe), seed + 16 * round + i);
			/* Vendor specific opcodes, so that no command changes anything. */
			sqe.opcode = (uint8_t)(0xc0 | (sqe.opcode & 0x3f));
			rdc_raw_send(raw, &sqe, sizeof(sqe));
			listen_for(raw, 20);
		}
		drop_raws(t);
	}
}

static void all_ones(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin(t, 0);
	struct nvme_sqe sqe;

	memset(&sqe, 0xff, sizeof(sqe));
	rdc_raw_send(raw, &sqe, sizeof(sqe));
	listen_for(raw, 200);
}

static void empty_send(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin(t, 0);

	rdc_raw_send(raw, NULL, 0);
	listen_for(raw, 200);
}

static void before_connect(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 0});
	unsigned char garbage_bytes[64];
	unsigned int i;

	for (i = 0; i < 8 && !raw->over; i++) {
		rdc_fill(garbage_bytes, sizeof(garbage_bytes), i);
		rdc_raw_send(raw, garbage_bytes, sizeof(garbage_bytes));
	}
	listen_for(raw, 200);
}

static void connect_data_gone(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 0});
	struct nvmf_connect_sqe c = {
		.opcode = NVMF_OPCODE,
		.flags = NVME_CMD_PSDT_SGL,
		.cid = htole16(1),
		.fctype = nvme_fabrics_type_connect,
		.sqsize = htole16(31),
	};
	struct nvme_sqe sqe;

	memcpy(&sqe, &c, sizeof(sqe));
	nvme_sgl_set_keyed(&sqe.sgl, 0x1000, 1024, 0xdeadbe00, NVME_SGL_KEYED_ADDRESS);
	rdc_raw_send(raw, &sqe, sizeof(sqe));
	listen_for(raw, 500);
}

/* ---- queues ---- */

/* Sends four times as many commands at once as the queue has entries. */
static void overrun(struct rdc *t)
{
	struct rdc_raw *io = rdc_raw_io(rdc_raw_admin(t, 0), 1, 8);

	send_rw_times(io, nvme_cmd_read, 0, 1, 32);
	listen_for(io, 300);
}

static void same_cid(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_raw *io = rdc_raw_io(rdc_raw_admin(t, 0), 1, 16);
	struct rdc_mem *mem = rdc_raw_mem(io, h->bs, RW_ACCESS);
	struct nvme_sqe sqe;
	struct rdc_answer a;
	unsigned int i, n = 0, all = 0;

	for (i = 0; i < 8; i++) {
		rdc_raw_rw(&sqe, h, nvme_cmd_read, 0, 1, mem);
		sqe.cid = htole16(42);
		rdc_raw_send(io, &sqe, sizeof(sqe));
	}
	while (all++ < ANSWERS_MAX && rdc_raw_answer(io, &a, 300) == 1)
		n += le16toh(a.cqe.cid) == 42;
	RDC_CHECK(t, n == 8 || io->over, "%u answers to eight commands with the same id", n);
}

static void events_overrun(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin(t, 0);
	struct nvme_sqe sqe = {.opcode = nvme_admin_async_event, .flags = NVME_CMD_PSDT_SGL};

	rdc_sgl_none(raw, &sqe);
	send_times(raw, &sqe, 60);
	listen_for(raw, 300);
}

static void aborts(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin(t, 0);
	struct nvme_sqe sqe = {.opcode = nvme_admin_abort_cmd, .flags = NVME_CMD_PSDT_SGL};
	unsigned int i;

	rdc_sgl_none(raw, &sqe);
	for (i = 0; i < 31; i++) {
		sqe.cid = htole16((uint16_t)i);
		sqe.cdw10 = htole32(i << 16); /* the identifier of the Abort itself */
		rdc_raw_send(raw, &sqe, sizeof(sqe));
	}
	listen_for(raw, 300);
}

static void lone_halves(struct rdc *t)
{
	struct rdc_raw *io = rdc_raw_io(rdc_raw_admin(t, 0), 1, 16);

	send_rw_times(io, nvme_cmd_compare, 1, 1, 15); /* FUSE: the first command */
	listen_for(io, 200);
	/* Closes the connection while the last half waits for its partner. */
	rdc_raw_close(io);
}

/* ---- the end in the middle ---- */

static void drop_under_io(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	uint32_t n = h->blocks < 256 ? 1 : 256;
	unsigned int round;

	if (n > rdc_max_blocks(h))
		n = rdc_max_blocks(h);
	for (round = 0; round < 10; round++) {
		struct rdc_raw *admin = rdc_raw_admin(t, 0), *io = rdc_raw_io(admin, 1, 32);

		send_rw_times(io, (uint8_t)t->arg, 0, n, 31);
		if (round & 1)
			rdc_raw_close(admin); /* the target has to close the I/O queue, too */
		rdc_raw_close(io);
		drop_raws(t);
	}
}

static void keys_go_under_io(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_raw *io = rdc_raw_io(rdc_raw_admin(t, 0), 1, 32);
	struct rdc_mem *mem[31];
	struct nvme_sqe sqe;
	unsigned int i;

	for (i = 0; i < 31; i++) {
		mem[i] = rdc_raw_mem(io, h->bs, RW_ACCESS);
		rdc_raw_rw(&sqe, h, nvme_cmd_read, 0, 1, mem[i]);
		sqe.cid = htole16((uint16_t)i);
		rdc_raw_send(io, &sqe, sizeof(sqe));
	}
	for (i = 0; i < 31; i++)
		rdc_raw_mem_dereg(mem[i]);
	listen_for(io, 300);
}

static void disable_under_io(struct rdc *t)
{
	struct rdc_raw *admin = rdc_raw_admin(t, 0), *io = rdc_raw_io(admin, 1, 32);

	send_rw_times(io, nvme_cmd_read, 0, 1, 31);
	rdc_raw_enable(admin, false);
	listen_for(io, 200);
}

static void cc_storm(struct rdc *t)
{
	static const uint32_t values[] = {0xffffffff, 0x00460001, 0, 0x00460071,
					  0x00ff0001, 1,          0, 0x0000c001,
					  0x00468001, 0x00460001};
	struct rdc_raw *raw = rdc_raw_admin_new(t, 0, 0);
	unsigned int i;

	for (i = 0; i < 40; i++) {
		struct rdc_raw_reply rr =
			rdc_raw_prop_set(raw, NVME_REG_CC, values[i % 10], NVMF_PROP_SIZE_4);

		if (!rr.answered)
			return;
	}
}

static void dead_with_events(struct rdc *t)
{
	struct rdc_host *h = rdc_host_open(t, 0, NULL);

	rdc_wait_ms(h, rdc_event_start(h), 20);
	rdc_host_close(h, true);
}

/* ---- lengths ---- */

static void huge_read(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_raw *io = rdc_raw_io(rdc_raw_admin(t, 0), 1, 16);
	struct rdc_mem *mem = rdc_raw_mem(io, h->bs, RW_ACCESS);
	struct rdc_raw_reply rr;
	struct nvme_sqe sqe;

	rdc_raw_rw(&sqe, h, nvme_cmd_read, 0, 65536, mem);
	rdc_sgl(&sqe, mem, NVME_SGL_KEYED_LEN_MAX);
	sqe.cid = htole16(1);
	rr = rdc_raw_cmd_as_is(io, &sqe, NULL, 0);
	RDC_CHECK(t, !rr.answered || rr.r.err,
		  "Read of 65536 blocks into memory for one succeeded");
}

static void log_beyond(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_reply r = rdc_admin(h, .opcode = nvme_admin_get_log_page, .nsid = NVME_NSID_ALL,
				       .cdw10 = 0x03 | 0xffffu << 16, .cdw11 = 0xffff,
				       .data = rdc_buf(t, 4096), .len = 4096);

	/* Requests 16 GiB into a descriptor of 4096 bytes. */
	RDC_REFUSED(t, r, "Get Log Page of 16 GiB into 4096 bytes");
}

static void dsm_short(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	rdc_need_oncs(h, NVME_CTRL_ONCS_DSM, "Dataset Management");
	RDC_REFUSED(t,
		    rdc_io(h, .opcode = nvme_cmd_dsm, .nsid = h->nsid, .cdw10 = 255, .cdw11 = 1,
			   .data = rdc_buf(t, 16), .len = 16, .write = true),
		    "256 ranges in 16 bytes");
}

static void resv_short(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	rdc_need_oncs(h, NVME_CTRL_ONCS_RESERVATIONS, "reservations");
	RDC_REFUSED(t,
		    rdc_io(h, .opcode = nvme_cmd_resv_register, .nsid = h->nsid,
			   .data = rdc_buf(t, 8), .len = 8, .write = true),
		    "Reservation Register with half of its data");
}

/* ---- RDMA from the wrong side ---- */

static void host_rdma(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin(t, 0);
	struct rdc_mem *mem = rdc_raw_mem(raw, 4096, RW_ACCESS);
	struct ibv_sge sge = {.addr = (uintptr_t)mem->p, .length = 64, .lkey = mem->mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = t->arg ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = 0x1000, .rkey = 0x00badc00},
	};

	if (!t->arg && raw->conn->ord == 0)
		rdc_not_supported(t, "this connection allows no RDMA READs by the host");
	rdc_raw_post(raw, &wr);
	RDC_CHECK(t, rdc_raw_ended(raw, t->cfg->timeout_ms),
		  "the host used a key that it was not given, and is still connected");
}

const struct rdc_test rdc_t_abuse_conn[] = {
	{"dial_and_drop", SURVIVES, "50 connections without a command", dial_and_drop},
	{"dial_and_idle", SURVIVES, "16 connections without any message", dial_and_idle},
	{"io_first", SURVIVES, "Connect of an I/O queue of a controller that never existed",
	 dial_io_first},
	{"connect_and_drop", SURVIVES,
	 "20 controllers with two I/O queues each, whose connections are dropped",
	 connect_and_drop},
	{"many_hosts", SURVIVES, "16 controllers at the same time", many_hosts},
	{"dead_with_events", SURVIVES,
	 "a connection that is dropped with an event request outstanding", dead_with_events},
	{NULL},
};

const struct rdc_test rdc_t_abuse_capsule[] = {
	{"garbage_admin", SURVIVES, "random bytes as admin commands", garbage, 0, 1000},
	{"garbage_io", SURVIVES, "random bytes as I/O commands", garbage, 0, 2001},
	{"all_ones", SURVIVES, "a capsule filled with FFh", all_ones},
	{"empty", SURVIVES, "a SEND of 0 bytes", empty_send, RDC_RDMA},
	{"before_connect", SURVIVES, "random bytes as the first command, before Connect",
	 before_connect},
	{"connect_data_gone", SURVIVES, "a Connect whose data cannot be read", connect_data_gone,
	 RDC_RDMA},
	{"huge_read", SURVIVES, "a Read of 65536 blocks into memory for one block", huge_read},
	{"log_beyond", SURVIVES, "Get Log Page with a length of 16 GiB", log_beyond},
	{"dsm_short", SURVIVES, "256 ranges in 16 bytes", dsm_short},
	{"reservation_short", SURVIVES, "a Reservation Register with half of its data", resv_short},
	{"host_read", SURVIVES, "an RDMA READ by the host with a key that it was not given",
	 host_rdma, RDC_RDMA, 0},
	{"host_write", SURVIVES, "an RDMA WRITE by the host with a key that it was not given",
	 host_rdma, RDC_RDMA, 1},
	{NULL},
};

const struct rdc_test rdc_t_abuse_queue[] = {
	{"overrun", SURVIVES, "more commands than the queue has entries", overrun},
	{"same_cid", SURVIVES, "eight commands with the same command id", same_cid},
	{"events_overrun", SURVIVES, "60 event requests on a queue of 32", events_overrun},
	{"aborts", SURVIVES, "31 Aborts, each of its own command id", aborts},
	{"lone_halves", SURVIVES,
	 "first commands of fused operations without the second, then a disconnect", lone_halves},
	{"drop_under_reads", SURVIVES, "connections that end with reads in flight", drop_under_io,
	 0, nvme_cmd_read},
	{"drop_under_writes", SURVIVES, "connections that end with writes in flight", drop_under_io,
	 RDC_LOSS, nvme_cmd_write},
	{"keys_go", SURVIVES, "keys that are invalidated with reads in flight", keys_go_under_io,
	 RDC_RDMA},
	{"disable_under_reads", SURVIVES, "a controller that is disabled with reads in flight",
	 disable_under_io},
	{"cc_storm", SURVIVES, "40 impossible values of CC", cc_storm},
	{NULL},
};
