/* SPDX-License-Identifier: BSD-3-Clause */
/* io.read, io.write, io.flush, io.opcode. */
#include <errno.h>
#include <string.h>

#include "suites.h"

#define N_READ    "NVM 3.2.4"
#define N_WRITE   "NVM 3.2.6"
#define CDW12_LR  (1u << 31)
#define CDW12_FUA (1u << 30)

/* ---- what Read and Write have in common: the opcode is the argument's low byte ---- */

static uint8_t op(struct rdc *t)
{
	return (uint8_t)t->arg;
}

static struct rdc_reply rw(struct rdc_host *h, uint64_t lba, uint32_t n)
{
	struct rdc_cmd c = rdc_rw(h, op(h->t), lba, n, rdc_buf(h->t, (size_t)n * h->bs));

	return rdc_io_at(h, &c, __FILE__, __LINE__);
}

static void rw_behind(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	RDC_STATUS(t, rw(h, h->blocks, 1), "the block after the last one", NVME_SC_LBA_RANGE);
}

static void rw_across(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	RDC_STATUS(t, rw(h, h->blocks - 1, 2), "two blocks from the last on", NVME_SC_LBA_RANGE);
}

static void rw_far(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	RDC_STATUS(t, rw(h, UINT64_MAX, 1), "block FFFFFFFFFFFFFFFFh", NVME_SC_LBA_RANGE);
}

/* Start and length whose sum is 2^64, which overflows to 0. */
static void rw_wraps(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	RDC_STATUS(t, rw(h, UINT64_MAX - 1, 2), "the two blocks with the greatest LBAs of 64 bits",
		   NVME_SC_LBA_RANGE);
}

static void rw_nsid(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_cmd c = rdc_rw(h, op(t), 0, 1, rdc_buf(t, h->bs));
	unsigned int kind = t->arg >> 8;
	struct rdc_reply r;

	if (kind == 0)
		c.nsid = 0;
	else if (kind == 1)
		c.nsid = NVME_NSID_ALL;
	else if (kind == 2)
		c.nsid = rdc_inactive_nsid(h);
	else
		c.nsid = le32toh(h->id.nn) < 0xfffffffe ? le32toh(h->id.nn) + 1 : 0;
	if (kind >= 2 && !c.nsid)
		rdc_not_supported(t, "NN %u: the NSID that this test needs does not exist",
				  le32toh(h->id.nn));
	r = rdc_io_at(h, &c, __FILE__, __LINE__);
	/* For a valid but inactive NSID most commands return Invalid Field. */
	if (kind == 2)
		RDC_STATUS(t, r, "an inactive NSID", NVME_SC_INVALID_FIELD, NVME_SC_INVALID_NS);
	else
		RDC_STATUS(t, r, "a wrong NSID", NVME_SC_INVALID_NS);
}

static void rw_mdts(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	uint32_t n = rdc_max_blocks(h);

	rdc_need_blocks(h, n);
	RDC_OK(t, rw(h, 0, n), "as much as MDTS allows");
}

static void rw_over_mdts(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	uint64_t max = h->id.mdts ? (4096ull << NVME_CAP_MPSMIN(h->info.cap)) << h->id.mdts : 0;
	uint32_t n = (uint32_t)(max / h->bs) + 1;
	struct rdc_cmd c;
	struct rdc_reply r;

	if (!max || n > 65536 || max >= (1u << 24))
		rdc_not_supported(t, "MDTS %u: a command cannot exceed it", h->id.mdts);
	rdc_need_blocks(h, n);
	c = rdc_rw(h, op(t), 0, n, rdc_buf(t, (size_t)n * h->bs));
	r = rdc_io_try(h, &c);
	if (r.err == -EMSGSIZE)
		rdc_not_supported(t, "this machine cannot send that much: %s", r.text);
	RDC_STATUS(t, r, "one block more than MDTS allows", NVME_SC_INVALID_FIELD);
}

/* ---- Read ---- */

static void read_ends(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	RDC_OK(t, rdc_read(h, 0, 1, rdc_buf(t, h->bs)), "Read of the first block");
	RDC_OK(t, rdc_read(h, h->blocks - 1, 1, rdc_buf(t, h->bs)), "Read of the last block");
}

static void read_flag(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_cmd c = rdc_rw(h, nvme_cmd_read, 0, 1, rdc_buf(t, h->bs));

	c.cdw12 |= t->arg ? CDW12_FUA : CDW12_LR;
	RDC_OK(t, rdc_io_at(h, &c, __FILE__, __LINE__),
	       t->arg ? "Read with FUA" : "Read with Limited Retry");
}

static void read_same_twice(struct rdc *t)
{
	struct rdc_host *a = rdc_main(t), *b = rdc_second(t);
	uint32_t n = a->blocks < 8 ? (uint32_t)a->blocks : 8;
	void *one = rdc_buf(t, (size_t)n * a->bs), *two = rdc_buf(t, (size_t)n * a->bs);

	RDC_OK(t, rdc_read(a, 0, n, one), "Read");
	RDC_OK(t, rdc_read(b, 0, n, two), "Read by the second host");
	RDC_CHECK(t, memcmp(one, two, (size_t)n * a->bs) == 0, "two hosts read different data");
}

/* Stale content of the host's buffer must not look like data. */
static void read_all_of_it(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	uint32_t n = h->blocks < 16 ? (uint32_t)h->blocks : 16;
	size_t len = (size_t)n * h->bs;
	unsigned char *one = rdc_buf(t, len), *two = rdc_buf(t, len);

	memset(one, 0x55, len);
	memset(two, 0xaa, len);
	RDC_OK(t, rdc_read(h, 0, n, one), "Read");
	RDC_OK(t, rdc_read(h, 0, n, two), "Read");
	RDC_CHECK(t, memcmp(one, two, len) == 0, "a part of the buffer was not written");
}

#define RD(kind) (nvme_cmd_read | (kind) << 8)
#define WR(kind) (nvme_cmd_write | (kind) << 8)

const struct rdc_test rdc_t_read[] = {
	{"ends", N_READ, "the first and the last block can be read", read_ends},
	{"behind", N_READ, "the block after the last one is LBA Out of Range", rw_behind, 0, RD(0)},
	{"across", N_READ, "a range across the end is LBA Out of Range", rw_across, 0, RD(0)},
	{"far", N_READ, "the greatest LBA of 64 bits is LBA Out of Range", rw_far, 0, RD(0)},
	{"wraps", N_READ, "a range that wraps to 0 is LBA Out of Range", rw_wraps, 0, RD(0)},
	{"nsid_zero", "Base 3.2.1.2", "NSID 0 is Invalid Namespace", rw_nsid, 0, RD(0)},
	{"nsid_all", "Base 3.2.1.2", "NSID FFFFFFFFh is Invalid Namespace", rw_nsid, 0, RD(1)},
	{"nsid_inactive", "Base 3.2.1.4", "an inactive NSID is refused", rw_nsid, 0, RD(2)},
	{"nsid_beyond", "Base 3.2.1.2", "NSID beyond NN is Invalid Namespace", rw_nsid, 0, RD(3)},
	{"mdts", "Base 5.17.2.1", "the most data that MDTS allows can be read", rw_mdts, 0, RD(0)},
	{"over_mdts", "Base 5.17.2.1", "more than MDTS is Invalid Field", rw_over_mdts, 0, RD(0)},
	{"limited_retry", N_READ, "LR is accepted", read_flag, 0, 0},
	{"fua", N_READ, "FUA is accepted", read_flag, 0, 1},
	{"same_twice", N_READ, "two hosts read the same data", read_same_twice},
	{"all_of_it", N_READ, "every byte of the buffer is written", read_all_of_it},
	{NULL},
};

/* ---- Write ---- */

static void write_sizes(struct rdc *t)
{
	static const uint32_t sizes[] = {1, 2, 7, 8, 9, 15, 16, 17, 64, 128};
	struct rdc_host *h = rdc_main(t);
	unsigned int i;

	rdc_need_blocks(h, 256);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t n = sizes[i];
		void *data;

		if (n > rdc_max_blocks(h))
			break;
		data = rdc_buf(t, (size_t)n * h->bs);
		rdc_fill(data, (size_t)n * h->bs, 100 + i);
		rdc_must_write(h, i, n, data);
		rdc_must_hold(h, i, n, data);
	}
}

static void write_how(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_cmd c;
	void *data = rdc_buf(t, h->bs);

	if (!t->arg && h->info.in_capsule < h->bs)
		rdc_not_supported(t, "IOCCSZ leaves %u bytes for data in a capsule",
				  h->info.in_capsule);
	rdc_need_blocks(h, 4);
	rdc_fill(data, h->bs, 7 + t->arg);
	c = rdc_rw(h, nvme_cmd_write, 3, 1, data);
	c.keyed = t->arg;
	RDC_OK(t, rdc_io_at(h, &c, __FILE__, __LINE__), "Write");
	rdc_must_hold(h, 3, 1, data);
}

static void write_fua(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	void *data = rdc_buf(t, h->bs);
	struct rdc_cmd c = rdc_rw(h, nvme_cmd_write, 0, 1, data);

	rdc_fill(data, h->bs, 9);
	c.cdw12 |= CDW12_FUA;
	RDC_OK(t, rdc_io_at(h, &c, __FILE__, __LINE__), "Write with FUA");
	rdc_must_hold(h, 0, 1, data);
}

static void write_last(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	void *data = rdc_buf(t, h->bs);

	rdc_fill(data, h->bs, 10);
	rdc_must_write(h, h->blocks - 1, 1, data);
	rdc_must_hold(h, h->blocks - 1, 1, data);
}

static void write_across_nothing(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	unsigned char *old = rdc_buf(t, h->bs), *two = rdc_buf(t, 2 * h->bs);

	rdc_fill(old, h->bs, 11);
	rdc_fill(two, 2 * h->bs, 12);
	rdc_must_write(h, h->blocks - 1, 1, old);
	RDC_STATUS(t, rdc_write(h, h->blocks - 1, 2, two), "Write across the end",
		   NVME_SC_LBA_RANGE);
	rdc_must_hold(h, h->blocks - 1, 1, old);
}

static void write_neighbours(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	unsigned char *all = rdc_buf(t, 3 * h->bs);

	rdc_need_blocks(h, 12);
	rdc_fill(all, 3 * h->bs, 13);
	rdc_must_write(h, 9, 3, all);
	rdc_fill(all + h->bs, h->bs, 14);
	rdc_must_write(h, 10, 1, all + h->bs);
	rdc_must_hold(h, 9, 3, all);
}

static void write_seen_by_other(struct rdc *t)
{
	struct rdc_host *a = rdc_main(t), *b = rdc_second(t);
	void *data = rdc_buf(t, 8 * a->bs);
	unsigned int i;

	rdc_need_blocks(a, 40);
	for (i = 0; i < 16; i++) {
		rdc_fill(data, 8 * a->bs, 20 + i);
		rdc_must_write(i & 1 ? a : b, 32, 8, data);
		rdc_must_hold(i & 1 ? b : a, 32, 8, data);
	}
}

/* As many commands at once as the queue takes. */
static void write_many(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	unsigned int i, n = rdinit_qpair_depth(h->qp);
	struct rdc_async *a = rdc_buf(t, n * sizeof(*a));
	unsigned char *data = rdc_buf(t, (size_t)n * h->bs);

	rdc_need_blocks(h, 64 + n);
	rdc_fill(data, (size_t)n * h->bs, 40);
	for (i = 0; i < n; i++) {
		/* Not in the order of the blocks. */
		unsigned int at = (i * 7) % n;
		struct rdc_cmd c;

		if (n % 7 == 0)
			at = n - 1 - i;
		c = rdc_rw(h, nvme_cmd_write, 64 + at, 1, data + (size_t)at * h->bs);
		rdc_io_start(h, &c, &a[i]);
	}
	for (i = 0; i < n; i++) {
		RDC_OK(t, rdc_wait(h, &a[i]), "Write");
	}
	rdc_must_hold(h, 64, n > rdc_max_blocks(h) ? rdc_max_blocks(h) : n, data);
}

static void write_refused_data(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	unsigned char *data = rdc_buf(t, h->bs);
	struct rdc_cmd c = rdc_rw(h, nvme_cmd_write, h->blocks, 1, data);

	c.keyed = true;
	RDC_STATUS(t, rdc_io_at(h, &c, __FILE__, __LINE__),
		   "a Write beyond the end, with keyed data", NVME_SC_LBA_RANGE);
	c.keyed = false;
	RDC_STATUS(t, rdc_io_at(h, &c, __FILE__, __LINE__),
		   "a Write beyond the end, with its data in the capsule", NVME_SC_LBA_RANGE);
	RDC_OK(t, rdc_read(h, 0, 1, data), "Read after refused writes");
}

static void write_atomic(struct rdc *t)
{
	enum { ROUNDS = 64 };
	struct rdc_host *a = rdc_main(t), *b = rdc_second(t);
	uint32_t n = le16toh(a->id.awun) + 1u, i, round;
	unsigned char *x, *y, *got;
	struct rdc_async *w = rdc_buf(t, 2 * sizeof(*w));

	if (n > 64)
		n = 64;
	if (n > rdc_max_blocks(a))
		n = rdc_max_blocks(a);
	rdc_need_blocks(a, n);
	x = rdc_buf(t, (size_t)n * a->bs);
	y = rdc_buf(t, (size_t)n * a->bs);
	got = rdc_buf(t, (size_t)n * a->bs);
	memset(x, 'x', (size_t)n * a->bs);
	memset(y, 'y', (size_t)n * a->bs);
	for (round = 0; round < ROUNDS; round++) {
		struct rdc_cmd cx = rdc_rw(a, nvme_cmd_write, 0, n, x);
		struct rdc_cmd cy = rdc_rw(b, nvme_cmd_write, 0, n, y);

		rdc_io_start(a, &cx, &w[0]);
		rdc_io_start(b, &cy, &w[1]);
		rdinit_qpair_process(a->qp, 0);
		rdinit_qpair_process(b->qp, 0);
		RDC_OK(t, rdc_wait(a, &w[0]), "Write");
		RDC_OK(t, rdc_wait(b, &w[1]), "Write by the second host");
		RDC_OK(t, rdc_read(a, 0, n, got), "Read");
		for (i = 1; i < n * a->bs; i++)
			RDC_CHECK(t, got[i] == got[0],
				  "two writes of AWUN + 1 (%u) blocks have mixed, at byte %u", n,
				  i);
	}
}

const struct rdc_test rdc_t_write[] = {
	{"sizes", N_WRITE, "data that was written is read back, in many sizes", write_sizes},
	{"in_capsule", "RDMA 3.2", "in-capsule data is written", write_how, 0, 0},
	{"keyed", "RDMA 3.2", "data of a keyed descriptor is written", write_how, 0, 1},
	{"fua", N_WRITE, "FUA is accepted", write_fua},
	{"last", N_WRITE, "the last block can be written", write_last},
	{"behind", N_WRITE, "the block after the last one is LBA Out of Range", rw_behind, 0,
	 WR(0)},
	{"across", N_WRITE, "a range across the end is LBA Out of Range, and changes nothing",
	 write_across_nothing},
	{"far", N_WRITE, "the greatest LBA of 64 bits is LBA Out of Range", rw_far, 0, WR(0)},
	{"wraps", N_WRITE, "a range that wraps to 0 is LBA Out of Range", rw_wraps, 0, WR(0)},
	{"nsid_zero", "Base 3.2.1.2", "NSID 0 is Invalid Namespace", rw_nsid, 0, WR(0)},
	{"nsid_all", "Base 3.2.1.2", "NSID FFFFFFFFh is Invalid Namespace", rw_nsid, 0, WR(1)},
	{"nsid_inactive", "Base 3.2.1.4", "an inactive NSID is refused", rw_nsid, 0, WR(2)},
	{"nsid_beyond", "Base 3.2.1.2", "NSID beyond NN is Invalid Namespace", rw_nsid, 0, WR(3)},
	{"mdts", "Base 5.17.2.1", "the most data that MDTS allows can be written", rw_mdts, 0,
	 WR(0)},
	{"over_mdts", "Base 5.17.2.1", "more than MDTS is Invalid Field", rw_over_mdts, 0, WR(0)},
	{"neighbours", N_WRITE, "the blocks before and after the range are not changed",
	 write_neighbours},
	{"seen_by_other", N_WRITE, "another host reads the data that was written",
	 write_seen_by_other},
	{"many", N_WRITE, "each write of a full queue goes to its own blocks", write_many},
	{"refused_data", N_WRITE, "the data of refused writes does not disturb later commands",
	 write_refused_data},
	{"atomic", "NVM 2.1.4", "writes of up to AWUN + 1 blocks do not mix", write_atomic},
	{NULL},
};

/* ---- Flush ---- */

static void flush(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	RDC_OK(t, rdc_io(h, .opcode = nvme_cmd_flush, .nsid = h->nsid), "Flush");
}

static void flush_all(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_reply r = rdc_io(h, .opcode = nvme_cmd_flush, .nsid = NVME_NSID_ALL);

	switch (h->id.vwc >> 1 & 3) {
	case 2:
		RDC_STATUS(t, r, "Flush of FFFFFFFFh, which VWC says is not supported",
			   NVME_SC_INVALID_NS);
		break;
	case 3:
		RDC_OK(t, r, "Flush of FFFFFFFFh, which VWC says is supported");
		break;
	default:
		rdc_not_supported(t, "VWC 0x%02x does not say whether FFFFFFFFh is supported",
				  h->id.vwc);
	}
}

static void flush_nsid(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	RDC_STATUS(t, rdc_io(h, .opcode = nvme_cmd_flush, .nsid = 0), "Flush of NSID 0",
		   NVME_SC_INVALID_NS);
}

static void flush_after_write(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	void *data = rdc_buf(t, h->bs);

	rdc_fill(data, h->bs, 60);
	rdc_must_write(h, 0, 1, data);
	RDC_OK(t, rdc_io(h, .opcode = nvme_cmd_flush, .nsid = h->nsid), "Flush");
	rdc_must_hold(h, 0, 1, data);
}

const struct rdc_test rdc_t_flush[] = {
	{"plain", "Base 7.1", "Flush of the namespace is answered", flush},
	{"all", "Base 7.1", "VWC says whether Flush takes NSID FFFFFFFFh", flush_all},
	{"nsid_zero", "Base 3.2.1.2", "NSID 0 is Invalid Namespace", flush_nsid},
	{"after_write", "Base 7.1", "data that was written is unchanged after Flush",
	 flush_after_write, RDC_LOSS},
	{NULL},
};

/* ---- opcodes ---- */

static void opcode_oncs(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	uint16_t bit = (uint16_t)(t->arg >> 8);

	if (le16toh(h->id.oncs) & bit)
		rdc_not_supported(t, "ONCS 0x%04x: the command is supported", le16toh(h->id.oncs));
	RDC_STATUS(t, rdc_io(h, .opcode = (uint8_t)t->arg, .nsid = h->nsid),
		   "an I/O command that ONCS says is not supported", NVME_SC_INVALID_OPCODE);
}

static void opcode_reserved(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	RDC_STATUS(t, rdc_io(h, .opcode = (uint8_t)t->arg, .nsid = h->nsid),
		   "a reserved I/O opcode", NVME_SC_INVALID_OPCODE);
}

#define ONCS(op, bit) ((op) | (bit) << 8)

const struct rdc_test rdc_t_io_opcode[] = {
	{"compare", "NVM 4.1.5.2", "Compare is Invalid Opcode unless ONCS bit 0 is set",
	 opcode_oncs, 0, ONCS(nvme_cmd_compare, NVME_CTRL_ONCS_COMPARE)},
	{"write_uncorrectable", "NVM 4.1.5.2",
	 "Write Uncorrectable is Invalid Opcode unless ONCS bit 1 is set", opcode_oncs, RDC_LOSS,
	 ONCS(nvme_cmd_write_uncor, NVME_CTRL_ONCS_WRITE_UNCORRECTABLE)},
	{"dataset_management", "NVM 4.1.5.2",
	 "Dataset Management is Invalid Opcode unless ONCS bit 2 is set", opcode_oncs, RDC_LOSS,
	 ONCS(nvme_cmd_dsm, NVME_CTRL_ONCS_DSM)},
	{"write_zeroes", "NVM 4.1.5.2", "Write Zeroes is Invalid Opcode unless ONCS bit 3 is set",
	 opcode_oncs, RDC_LOSS, ONCS(nvme_cmd_write_zeroes, NVME_CTRL_ONCS_WRITE_ZEROES)},
	{"reservations", "Base 5.17.2.1",
	 "Reservation Register is Invalid Opcode unless ONCS bit 5 is set", opcode_oncs, 0,
	 ONCS(nvme_cmd_resv_report, NVME_CTRL_ONCS_RESERVATIONS)},
	{"verify", "NVM 4.1.5.2", "Verify is Invalid Opcode unless ONCS bit 7 is set", opcode_oncs,
	 0, ONCS(nvme_cmd_verify, NVME_CTRL_ONCS_VERIFY)},
	{"copy", "NVM 4.1.5.2", "Copy is Invalid Opcode unless ONCS bit 8 is set", opcode_oncs,
	 RDC_LOSS, ONCS(nvme_cmd_copy, NVME_CTRL_ONCS_COPY)},
	{"reserved_10", "Base 7", "opcode 10h, reserved, is Invalid Opcode", opcode_reserved, 0,
	 0x10},
	{"reserved_7e", "Base 7", "opcode 7Eh, of another command set, is Invalid Opcode",
	 opcode_reserved, 0, 0x7e},
	{"vendor_ff", "Base 7", "an unknown vendor's opcode is Invalid Opcode", opcode_reserved, 0,
	 0xff},
	{NULL},
};
