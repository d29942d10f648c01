/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.capsule, rdma.cm and rdma.capsule: capsules and responses, private data of connections. */
#include <string.h>

#include "suites.h"

#define CM        "RDMA 5.1"
#define CAPS      "RDMA 3.1"
#define RW_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* ---- private data ---- */

static void rejected(struct rdc *t, const struct rdc_dial *d, unsigned int sts, const char *what)
{
	struct rdc_raw *raw = rdc_raw_dial(t, d);

	RDC_CHECK(t, !raw->up || raw->over, "%s: the connection was accepted", what);
	/* Not every device shows a reject's private data. */
	RDC_CHECK(t, !raw->reject_sts || !sts || raw->reject_sts == sts,
		  "%s: rejected with status %u (%s), expected %u", what, raw->reject_sts,
		  nvmf_rdma_cm_status_text(raw->reject_sts), sts);
}

static struct nvmf_rdma_cm_req req(uint16_t qid)
{
	return (struct nvmf_rdma_cm_req){
		.qid = htole16(qid),
		.hrqsize = htole16(32),
		.hsqsize = htole16(31),
	};
}

/* With devices that pad private data these look like a request for queues of size 0. */
static void cm_none(struct rdc *t)
{
	rejected(t, &(struct rdc_dial){.has_priv = true}, 0, "no private data");
}

static void cm_short(struct rdc *t)
{
	struct nvmf_rdma_cm_req r = req(0);

	rejected(t, &(struct rdc_dial){.has_priv = true, .priv = &r, .priv_len = 4}, 0,
		 "4 bytes of private data");
}

static void cm_recfmt(struct rdc *t)
{
	struct nvmf_rdma_cm_req r = req(0);

	r.recfmt = htole16(1);
	rejected(t, &(struct rdc_dial){.has_priv = true, .priv = &r, .priv_len = sizeof(r)},
		 NVMF_RDMA_CM_INVALID_RECFMT, "RECFMT 1");
}

static void cm_hsqsize(struct rdc *t)
{
	struct nvmf_rdma_cm_req r = req(0);

	r.hsqsize = 0;
	rejected(t, &(struct rdc_dial){.has_priv = true, .priv = &r, .priv_len = sizeof(r)},
		 NVMF_RDMA_CM_INVALID_HSQSIZE, "HSQSIZE 0");
}

static void cm_hrqsize(struct rdc *t)
{
	struct nvmf_rdma_cm_req r = req(0);

	r.hrqsize = 0;
	rejected(t, &(struct rdc_dial){.has_priv = true, .priv = &r, .priv_len = sizeof(r)},
		 NVMF_RDMA_CM_INVALID_HRQSIZE, "HRQSIZE 0");
}

static void cm_crqsize(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 0});

	RDC_CHECK(t, raw->crqsize >= 1 && raw->crqsize <= 32,
		  "CRQSIZE %u for an HSQSIZE of 31 (a queue of 32)", raw->crqsize);
}

static void cm_longer(struct rdc *t)
{
	struct {
		struct nvmf_rdma_cm_req r;
		char more[16];
	} priv = {.r = req(0)};
	struct rdc_raw *raw = rdc_raw_must_dial(
		t, &(struct rdc_dial){.has_priv = true, .priv = &priv, .priv_len = sizeof(priv)});
	struct rdc_connect c;

	rdc_connect_init(t, &c, 0, raw);
	RDC_OK(t, rdc_raw_connect(raw, &c).r, "Connect");
}

/* IRD 1: the target must have at most one READ outstanding. */
static void cm_ird(struct rdc *t)
{
	enum { N = 24, BLOCKS = 16 };
	struct rdc_host *h = rdc_main(t);
	struct rdc_raw *admin = rdc_raw_admin(t, 0), *io;
	struct rdc_connect c;
	struct rdc_mem *mem;
	struct nvme_sqe sqe;
	unsigned int i;

	rdc_need_blocks(h, BLOCKS);
	io = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 1, .depth = 32, .ird = 1});
	io->cntlid = admin->cntlid;
	rdc_connect_init(t, &c, 0, io);
	RDC_OK(t, rdc_raw_connect(io, &c).r, "Connect over a connection with a READ depth of 1");
	mem = rdc_raw_mem(io, BLOCKS * h->bs, IBV_ACCESS_REMOTE_READ);
	for (i = 0; i < N; i++) {
		rdc_raw_rw(&sqe, h, nvme_cmd_write, 0, BLOCKS, mem);
		sqe.cid = htole16((uint16_t)(100 + i));
		rdc_raw_send(io, &sqe, sizeof(sqe));
	}
	for (i = 0; i < N; i++) {
		struct rdc_answer a;
		int rc = rdc_raw_answer(io, &a, t->cfg->timeout_ms);

		RDC_CHECK(t, rc == 1, "%u of %u writes were answered, then %s", i, N,
			  rc ? "no answer came in time" : "the connection ended");
		RDC_CHECK(t, nvme_status_ok(nvme_status_from_wire(a.cqe.status)),
			  "a Write was refused with 0x%04x", le16toh(a.cqe.status));
	}
}

const struct rdc_test rdc_t_cm[] = {
	{"none", CM, "without private data: rejected", cm_none, RDC_ALIVE},
	{"short", CM, "private data of 4 bytes: rejected", cm_short, RDC_ALIVE},
	{"recfmt", CM, "an unknown record format: rejected, status 2", cm_recfmt, RDC_ALIVE},
	{"hsqsize_zero", CM, "HSQSIZE 0: rejected, status 4", cm_hsqsize, RDC_ALIVE},
	{"hrqsize_zero", CM, "HRQSIZE 0: rejected, status 5", cm_hrqsize, RDC_ALIVE},
	{"crqsize", CM, "CRQSIZE is in the range that the host's HSQSIZE allows", cm_crqsize},
	{"longer", CM, "private data may be padded", cm_longer},
	{"read_depth", CM, "no more RDMA READs in flight than the host's responder resources allow",
	 cm_ird, RDC_LOSS},
	{NULL},
};

/* ---- capsules and responses ---- */

static struct rdc_raw_reply keep_alive(struct rdc_raw *raw, uint16_t cid)
{
	struct nvme_sqe sqe = {.opcode = nvme_admin_keep_alive, .flags = NVME_CMD_PSDT_SGL};

	sqe.cid = htole16(cid);
	rdc_sgl_none(raw, &sqe);
	return rdc_raw_cmd_as_is(raw, &sqe, NULL, 0);
}

static void response(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin(t, 0);
	struct rdc_raw_reply rr = keep_alive(raw, 77);

	RDC_CHECK(t, rr.answered && rr.a.len == 16, "a response of %u bytes", rr.a.len);
	RDC_CHECK(t, !(le16toh(rr.a.cqe.status) & 1), "the phase bit of the response is 1");
}

/* rdc_raw_cmd_as_is() compares them. */
static void command_ids(struct rdc *t)
{
	static const uint16_t cids[] = {0, 1, 0x7fff, 0x8000, 0xabcd, 0xfffe};
	struct rdc_raw *raw = rdc_raw_admin(t, 0);
	unsigned int i;

	for (i = 0; i < sizeof(cids) / sizeof(cids[0]); i++) {

		RDC_OK(t, keep_alive(raw, cids[i]).r, "Keep Alive");
	}
}

static void sqhd(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin(t, 0);
	unsigned int i, last = le16toh(keep_alive(raw, 1).a.cqe.sqhd);

	/* Twice round the queue of 32 entries. */
	for (i = 0; i < 64; i++) {
		unsigned int now = le16toh(keep_alive(raw, 2).a.cqe.sqhd);

		RDC_CHECK(t, now == (last + 1) % 32, "SQHD went from %u to %u in a queue of 32",
			  last, now);
		last = now;
	}
}

/* Fills a queue with commands at once. */
static void full_queue(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_raw *io = rdc_raw_io(rdc_raw_admin(t, 0), 1, 16);
	struct rdc_mem *mem = rdc_raw_mem(io, 16 * h->bs, RW_ACCESS);
	unsigned int i, seen = 0;
	struct nvme_sqe sqe;

	for (i = 0; i < 15; i++) {
		rdc_raw_rw(&sqe, h, nvme_cmd_read, 0, 1, mem);
		rdc_sgl_at(&sqe, mem, (size_t)i * h->bs, h->bs);
		sqe.cid = htole16((uint16_t)i);
		rdc_raw_send(io, &sqe, sizeof(sqe));
	}
	for (i = 0; i < 15; i++) {
		struct rdc_answer a;
		int rc = rdc_raw_answer(io, &a, t->cfg->timeout_ms);

		RDC_CHECK(t, rc == 1, "%u of 15 commands were answered", i);
		RDC_CHECK(t, le16toh(a.cqe.cid) < 15 && !(seen & 1u << le16toh(a.cqe.cid)),
			  "an answer to command %u, which was answered before or never sent",
			  le16toh(a.cqe.cid));
		seen |= 1u << le16toh(a.cqe.cid);
		RDC_CHECK(t, nvme_status_ok(nvme_status_from_wire(a.cqe.status)),
			  "a Read was refused with 0x%04x", le16toh(a.cqe.status));
	}
}

static void in_capsule(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	uint32_t n = h->info.in_capsule / h->bs;
	struct rdc_raw *io;
	unsigned char *data;
	struct nvme_sqe sqe;

	if (!n)
		rdc_not_supported(t, "IOCCSZ leaves %u bytes for data in a capsule",
				  h->info.in_capsule);
	if (n * h->bs + 64 > RDC_CAPSULE)
		n = (RDC_CAPSULE - 64) / h->bs;
	rdc_need_blocks(h, n);
	io = rdc_raw_io(rdc_raw_admin(t, 0), 1, 16);
	data = rdc_buf(t, (size_t)n * h->bs);
	rdc_fill(data, (size_t)n * h->bs, 500);
	sqe = (struct nvme_sqe){
		.opcode = nvme_cmd_write,
		.flags = NVME_CMD_PSDT_SGL,
		.cid = htole16(5),
		.nsid = htole32(h->nsid),
		.cdw12 = htole32(n - 1),
		.sgl.data = {.length = htole32(n * h->bs), .type = NVME_SGL_IN_CAPSULE},
	};
	RDC_OK(t, rdc_raw_cmd_as_is(io, &sqe, data, (size_t)n * h->bs).r,
	       "Write with as much data in the capsule as IOCCSZ allows");
	rdc_must_hold(h, 0, n, data);
}

static void in_capsule_offset(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	unsigned char *data;
	struct nvme_sqe sqe;
	struct rdc_raw *io;

	if (h->info.in_capsule < h->bs + 64)
		rdc_not_supported(t, "IOCCSZ leaves %u bytes for data in a capsule",
				  h->info.in_capsule);
	io = rdc_raw_io(rdc_raw_admin(t, 0), 1, 16);
	data = rdc_buf(t, h->bs + 64);
	rdc_fill(data, h->bs + 64, 501);
	sqe = (struct nvme_sqe){
		.opcode = nvme_cmd_write,
		.flags = NVME_CMD_PSDT_SGL,
		.cid = htole16(5),
		.nsid = htole32(h->nsid),
		.sgl.data = {.offset = htole64(64),
			     .length = htole32(h->bs),
			     .type = NVME_SGL_IN_CAPSULE},
	};
	RDC_OK(t, rdc_raw_cmd_as_is(io, &sqe, data, h->bs + 64).r,
	       "Write with data at offset 64 of the capsule's data");
	rdc_must_hold(h, 0, 1, data + 64);
}

static void too_short(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin(t, 0);
	struct nvme_sqe sqe = {
		.opcode = nvme_admin_keep_alive, .flags = NVME_CMD_PSDT_SGL, .cid = htole16(3)};
	struct rdc_answer a;

	rdc_sgl_none(raw, &sqe);
	rdc_raw_send(raw, &sqe, t->arg);
	if (rdc_raw_answer(raw, &a, t->cfg->timeout_ms) == 1)
		RDC_CHECK(t, !nvme_status_ok(nvme_status_from_wire(a.cqe.status)),
			  "a capsule of %u bytes was executed as a command", t->arg);
	else
		RDC_CHECK(t, raw->over,
			  "a capsule of %u bytes: neither an answer nor the end of "
			  "the connection",
			  t->arg);
}

static void too_long(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	unsigned char *capsule = rdc_buf(t, RDC_CAPSULE);
	struct nvme_sqe sqe = {.opcode = nvme_cmd_flush, .flags = NVME_CMD_PSDT_SGL};
	struct rdc_raw *io;
	struct rdc_answer a;

	if (le32toh(h->id.ioccsz) * 16 + 64 > RDC_CAPSULE)
		rdc_not_supported(t, "IOCCSZ %u: more than this program can exceed",
				  le32toh(h->id.ioccsz));
	io = rdc_raw_io(rdc_raw_admin(t, 0), 1, 16);
	sqe.nsid = htole32(h->nsid);
	rdc_sgl_none(io, &sqe);
	memcpy(capsule, &sqe, sizeof(sqe));
	rdc_raw_send(io, capsule, le32toh(h->id.ioccsz) * 16 + 64);
	if (rdc_raw_answer(io, &a, t->cfg->timeout_ms) == 1)
		RDC_CHECK(t, !nvme_status_ok(nvme_status_from_wire(a.cqe.status)),
			  "a capsule longer than IOCCSZ was executed as a command");
	else
		RDC_CHECK(t, io->over,
			  "a capsule longer than IOCCSZ: neither an answer nor the end of the "
			  "connection");
}

const struct rdc_test rdc_t_capsule[] = {
	{"response", "Base 3.3.3.2", "a response is 16 bytes, its phase bit 0", response},
	{"command_ids", "Base 3.3.3.1", "every response has the command id of its command",
	 command_ids},
	{"sqhd", "Base 3.3.3.2", "SQHD counts entries, modulo the size of the queue", sqhd},
	{"full_queue", "Base 3.3.1.5", "each command of a full queue is answered once", full_queue},
	{"in_capsule_most", "Base 5.17.2.1",
	 "a Write with as much in-capsule data as IOCCSZ allows succeeds", in_capsule, RDC_LOSS},
	{NULL},
};

const struct rdc_test rdc_t_rdma_capsule[] = {
	{"in_capsule_offset", "RDMA 3.2", "a Write with in-capsule data at an offset succeeds",
	 in_capsule_offset, RDC_LOSS},
	{"too_short_63", CAPS, "a capsule of 63 bytes is not executed", too_short, RDC_ALIVE, 63},
	{"too_short_1", CAPS, "a capsule of 1 byte is not executed", too_short, RDC_ALIVE, 1},
	{"too_long", CAPS, "a capsule longer than IOCCSZ is not executed", too_long, RDC_ALIVE},
	{NULL},
};
