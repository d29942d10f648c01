/* SPDX-License-Identifier: BSD-3-Clause */
/* io.compare and io.fused. */
#include <string.h>

#include "suites.h"

#define N_COMPARE "NVM 3.2.1"
#define FUSED     "Base 3.4.2"

static struct rdc_reply compare(struct rdc_host *h, uint64_t lba, uint32_t n, void *data)
{
	struct rdc_cmd c = rdc_rw(h, nvme_cmd_compare, lba, n, data);

	return rdc_io_at(h, &c, __FILE__, __LINE__);
}

static struct rdc_host *need(struct rdc *t)
{
	return rdc_main_with(t, NVME_CTRL_ONCS_COMPARE, "Compare", 64);
}

static void equal(struct rdc *t)
{
	struct rdc_host *h = need(t);
	uint32_t n = t->arg < rdc_max_blocks(h) ? t->arg : rdc_max_blocks(h);

	RDC_OK(t, compare(h, 0, n, rdc_prepared(h, 0, n, 200)), "Compare of equal data");
}

static void differs(struct rdc *t)
{
	struct rdc_host *h = need(t);
	unsigned char *data = rdc_prepared(h, 0, 16, 201);

	data[t->arg ? 16 * h->bs - 1 : 0] ^= 1;
	RDC_STATUS(t, compare(h, 0, 16, data), "Compare of data with one bit changed",
		   RDC_ME(NVME_SC_COMPARE_FAILED));
}

static void keeps(struct rdc *t)
{
	struct rdc_host *h = need(t);
	unsigned char *data = rdc_prepared(h, 0, 4, 202), *other = rdc_buf(t, 4 * h->bs);

	RDC_STATUS(t, compare(h, 0, 4, other), "Compare with zeroes",
		   RDC_ME(NVME_SC_COMPARE_FAILED));
	rdc_must_hold(h, 0, 4, data);
}

static void behind(struct rdc *t)
{
	struct rdc_host *h = need(t);

	RDC_STATUS(t, compare(h, h->blocks, 1, rdc_buf(t, h->bs)), "Compare beyond the end",
		   NVME_SC_LBA_RANGE);
}

static void nsid(struct rdc *t)
{
	struct rdc_host *h = need(t);
	struct rdc_cmd c = rdc_rw(h, nvme_cmd_compare, 0, 1, rdc_buf(t, h->bs));

	c.nsid = 0;
	RDC_STATUS(t, rdc_io_at(h, &c, __FILE__, __LINE__), "Compare of NSID 0",
		   NVME_SC_INVALID_NS);
}

const struct rdc_test rdc_t_compare[] = {
	{"equal", N_COMPARE, "Compare of equal data succeeds", equal, RDC_LOSS, 1},
	{"equal_large", N_COMPARE, "Compare of equal data with a keyed descriptor succeeds", equal,
	 RDC_LOSS, 64},
	{"first_byte", N_COMPARE, "a difference in the first byte is Compare Failure", differs,
	 RDC_LOSS, 0},
	{"last_byte", N_COMPARE, "a difference in the last byte is Compare Failure", differs,
	 RDC_LOSS, 1},
	{"keeps", N_COMPARE, "Compare changes nothing", keeps, RDC_LOSS},
	{"behind", N_COMPARE, "a block beyond the end is LBA Out of Range", behind},
	{"nsid_zero", "Base 3.2.1.2", "NSID 0 is Invalid Namespace", nsid},
	{NULL},
};

/* ---- fused ---- */

static struct rdc_host *need_fused(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	if (!(le16toh(h->id.fuses) & NVME_CTRL_FUSES_COMPARE_AND_WRITE))
		rdc_not_supported(t, "FUSES 0x%04x: no Compare and Write", le16toh(h->id.fuses));
	rdc_need_blocks(h, 64);
	return h;
}

struct pair {
	struct rdc_reply compare, write;
};

static struct pair fused(struct rdc_host *h, uint64_t lba, uint32_t n, void *want, void *data,
			 uint64_t write_lba)
{
	struct rdc_cmd c = rdc_rw(h, nvme_cmd_compare, lba, n, want);
	struct rdc_cmd w = rdc_rw(h, nvme_cmd_write, write_lba, n, data);
	struct rdc_async *a = rdc_buf(h->t, 2 * sizeof(*a));
	struct pair p;

	rdc_io_start_fused(h, &c, &w, a);
	p.compare = rdc_wait(h, &a[0]);
	p.write = rdc_wait(h, &a[1]);
	return p;
}

static void fused_match(struct rdc *t)
{
	struct rdc_host *h = need_fused(t);
	unsigned char *old = rdc_prepared(h, 0, 1, 210), *now = rdc_buf(t, h->bs);
	struct pair p;

	rdc_fill(now, h->bs, 211);
	p = fused(h, 0, 1, old, now, 0);
	RDC_OK(t, p.compare, "the Compare of a fused operation");
	RDC_OK(t, p.write, "the Write of a fused operation");
	rdc_must_hold(h, 0, 1, now);
}

static void fused_mismatch(struct rdc *t)
{
	struct rdc_host *h = need_fused(t);
	unsigned char *old = rdc_prepared(h, 0, 1, 212), *now = rdc_buf(t, h->bs);
	struct pair p = fused(h, 0, 1, now, now, 0);

	RDC_STATUS(t, p.compare, "the Compare of a fused operation",
		   RDC_ME(NVME_SC_COMPARE_FAILED));
	RDC_STATUS(t, p.write, "the Write after a failed Compare", NVME_SC_FUSED_FAIL);
	rdc_must_hold(h, 0, 1, old);
}

static void fused_ranges(struct rdc *t)
{
	struct rdc_host *h = need_fused(t);
	unsigned char *old = rdc_prepared(h, 0, 2, 213), *now = rdc_buf(t, h->bs);
	struct pair p = fused(h, 0, 1, old, now, 1);

	RDC_REFUSED(t, p.write, "a fused Write to other blocks than were compared");
	rdc_must_hold(h, 1, 1, old + h->bs);
}

static void fused_too_long(struct rdc *t)
{
	struct rdc_host *h = need_fused(t);
	uint32_t n = le16toh(h->id.acwu) + 2u;
	unsigned char *old, *now;
	struct pair p;

	if (n > rdc_max_blocks(h) || n > 64)
		rdc_not_supported(t, "ACWU %u: a longer operation cannot be sent",
				  le16toh(h->id.acwu));
	old = rdc_prepared(h, 0, n, 214);
	now = rdc_buf(t, (size_t)n * h->bs);
	p = fused(h, 0, n, old, now, 0);
	RDC_STATUS(t, p.compare, "a fused operation longer than ACWU", NVME_SC_AWU_EXCEEDED,
		   NVME_SC_INVALID_FIELD, NVME_SC_FUSED_FAIL);
	RDC_REFUSED(t, p.write, "the Write of a fused operation longer than ACWU");
	rdc_must_hold(h, 0, n, old);
}

/* A single half of a fused pair, followed by an ordinary command. */
static void fused_lone(struct rdc *t)
{
	struct rdc_host *h = need_fused(t);
	unsigned char *old = rdc_prepared(h, 0, 1, 215);
	struct rdc_cmd half = rdc_rw(h, t->arg == 1 ? nvme_cmd_compare : nvme_cmd_write, 0, 1,
				     t->arg == 1 ? old : rdc_buf(t, h->bs));
	struct rdc_cmd rd = rdc_rw(h, nvme_cmd_read, 0, 1, rdc_buf(t, h->bs));
	struct rdc_async *a = rdc_buf(t, 2 * sizeof(*a));

	half.flags = (uint8_t)t->arg;
	rdc_io_start(h, &half, &a[0]);
	rdc_io_start(h, &rd, &a[1]);
	RDC_STATUS(t, rdc_wait(h, &a[0]), "one command of a fused operation without the other",
		   NVME_SC_FUSED_MISSING);
	RDC_OK(t, rdc_wait(h, &a[1]), "the Read after a fused command without its partner");
	rdc_must_hold(h, 0, 1, old);
}

static void fused_first_error(struct rdc *t)
{
	struct rdc_host *h = need_fused(t);
	void *data = rdc_buf(t, h->bs);
	struct pair p = fused(h, h->blocks, 1, data, data, h->blocks);

	RDC_STATUS(t, p.compare, "a fused Compare beyond the end", NVME_SC_LBA_RANGE,
		   NVME_SC_FUSED_FAIL);
	RDC_STATUS(t, p.write, "a fused Write beyond the end", NVME_SC_LBA_RANGE,
		   NVME_SC_FUSED_FAIL);
}

/* Two hosts increment a counter in the same block; no increment may be lost. */
static void fused_atomic(struct rdc *t)
{
	enum { EACH = 100 };
	struct rdc_host *h[2] = {need_fused(t), rdc_second(t)};
	unsigned int done[2] = {0}, tries = 0, i;
	unsigned char *old[2], *now[2];
	struct rdc_async *a[2];
	uint32_t count;

	rdc_prepared(h[0], 0, 1, 216);
	for (i = 0; i < 2; i++) {
		old[i] = rdc_buf(t, h[0]->bs);
		now[i] = rdc_buf(t, h[0]->bs);
		a[i] = rdc_buf(t, 2 * sizeof(**a));
	}
	rdc_must_write(h[0], 0, 1, now[0]);
	while (done[0] + done[1] < 2 * EACH) {
		RDC_CHECK(t, tries++ < 100 * EACH, "%u of %u increments after %u rounds",
			  done[0] + done[1], 2 * EACH, tries);
		/* Both read, then both try: at most one may succeed in each round. */
		for (i = 0; i < 2; i++) {

			RDC_OK(t, rdc_read(h[i], 0, 1, old[i]), "Read");
			memcpy(now[i], old[i], h[0]->bs);
			memcpy(&count, old[i], sizeof(count));
			count++;
			memcpy(now[i], &count, sizeof(count));
		}
		for (i = 0; i < 2; i++) {
			struct rdc_cmd c = rdc_rw(h[i], nvme_cmd_compare, 0, 1, old[i]);
			struct rdc_cmd w = rdc_rw(h[i], nvme_cmd_write, 0, 1, now[i]);

			rdc_io_start_fused(h[i], &c, &w, a[i]);
			rdinit_qpair_process(h[i]->qp, 0);
		}
		for (i = 0; i < 2; i++) {
			struct rdc_reply c = rdc_wait(h[i], &a[i][0]), w = rdc_wait(h[i], &a[i][1]);

			RDC_STATUS(t, c, "Compare", 0, RDC_ME(NVME_SC_COMPARE_FAILED));
			RDC_CHECK(t, !c.err == !w.err, "Compare 0x%03x, but Write 0x%03x",
				  RDC_CODE(c), RDC_CODE(w));
			done[i] += !w.err;
		}
	}
	rdc_read(h[0], 0, 1, old[0]);
	memcpy(&count, old[0], sizeof(count));
	RDC_CHECK(t, count == done[0] + done[1], "%u increments succeeded, but the block holds %u",
		  done[0] + done[1], count);
}

static void fused_unsupported(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_cmd c = rdc_rw(h, nvme_cmd_read, 0, 1, rdc_buf(t, h->bs));

	if (h->id.fuses)
		rdc_not_supported(t, "FUSES 0x%04x: fused operations are supported",
				  le16toh(h->id.fuses));
	c.flags = 1;
	RDC_STATUS(t, rdc_io_at(h, &c, __FILE__, __LINE__),
		   "FUSE 01b, which FUSES says is not supported", NVME_SC_INVALID_FIELD);
}

static void fused_reserved(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_cmd c = rdc_rw(h, nvme_cmd_read, 0, 1, rdc_buf(t, h->bs));

	c.flags = 3;
	RDC_STATUS(t, rdc_io_at(h, &c, __FILE__, __LINE__), "FUSE 11b, reserved",
		   NVME_SC_INVALID_FIELD, NVME_SC_FUSED_MISSING);
}

const struct rdc_test rdc_t_fused[] = {
	{"match", FUSED, "a fused Compare and Write with equal data writes", fused_match, RDC_LOSS},
	{"mismatch", FUSED, "a fused Compare and Write with different data writes nothing",
	 fused_mismatch, RDC_LOSS},
	{"ranges", "NVM 2.1.3", "a fused Write of other blocks than the Compare is refused",
	 fused_ranges, RDC_LOSS},
	{"too_long", "NVM 4.1.5.2", "a fused operation longer than ACWU is refused", fused_too_long,
	 RDC_LOSS},
	{"lone_first", FUSED, "a first command alone is Aborted due to Missing Fused Command",
	 fused_lone, RDC_LOSS, 1},
	{"lone_second", FUSED, "a second command alone is Aborted due to Missing Fused Command",
	 fused_lone, RDC_LOSS, 2},
	{"first_error", FUSED, "an error of the first command ends both", fused_first_error},
	{"atomic", "NVM 2.1.4", "fused operations of two hosts are atomic", fused_atomic, RDC_LOSS},
	{"unsupported", "Base 5.17.2.1", "FUSE 01b is refused unless FUSES bit 0 is set",
	 fused_unsupported},
	{"reserved", "Base 3.3.3.1", "FUSE 11b is refused", fused_reserved},
	{NULL},
};
