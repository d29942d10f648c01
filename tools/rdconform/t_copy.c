/* SPDX-License-Identifier: BSD-3-Clause */
/* io.copy: Copy with source ranges of formats 0 and 1. */
#include <string.h>

#include "suites.h"

#define N_COPY "NVM 3.2.2"
#define DEST   256 /* first destination block of most tests */

static struct rdc_host *need(struct rdc *t)
{
	return rdc_main_with(t, NVME_CTRL_ONCS_COPY, "Copy", 1024);
}

static struct nvme_copy_range one(uint64_t lba, uint32_t n)
{
	return (struct nvme_copy_range){.slba = htole64(lba), .nlb = htole16((uint16_t)(n - 1))};
}

static struct rdc_reply copy(struct rdc_host *h, uint64_t to, const struct nvme_copy_range *r,
			     unsigned int n, unsigned int format)
{
	unsigned char *data = rdc_buf(h->t, 256 * 40);
	size_t size = format == 1 ? sizeof(struct nvme_copy_range_f1) : sizeof(*r);
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct nvme_copy_range_f1 f1 = {.slba = r[i].slba, .nlb = r[i].nlb};

		memcpy(data + i * size, format == 1 ? (const void *)&f1 : &r[i], size);
	}
	return rdc_io(h, .opcode = nvme_cmd_copy, .nsid = h->nsid, .cdw10 = (uint32_t)to,
		      .cdw11 = (uint32_t)(to >> 32), .cdw12 = (n - 1) | format << 8, .data = data,
		      .len = (uint32_t)(n * size), .write = true);
}

static void one_range(struct rdc *t)
{
	struct rdc_host *h = need(t);
	unsigned char *data = rdc_prepared(h, 0, 8, 400);
	struct nvme_copy_range r = one(0, 8);

	if (t->arg && !(le16toh(h->id.ocfs) & 2))
		rdc_not_supported(t, "OCFS 0x%04x: no format 1", le16toh(h->id.ocfs));
	rdc_must_write(h, DEST, 8, rdc_buf(t, 8 * h->bs));
	RDC_OK(t, copy(h, DEST, &r, 1, t->arg), "Copy");
	rdc_must_hold(h, DEST, 8, data);
	rdc_must_hold(h, 0, 8, data);
}

static void ranges(struct rdc *t)
{
	struct rdc_host *h = need(t);
	unsigned char *data = rdc_prepared(h, 0, 16, 401), *want = rdc_buf(t, 6 * h->bs);
	struct nvme_copy_range r[3] = {one(8, 3), one(0, 2), one(15, 1)};

	if (h->ns.msrc < 2)
		rdc_not_supported(t, "MSRC %u: less than three ranges", h->ns.msrc);
	memcpy(want, data + 8 * h->bs, 3 * h->bs);
	memcpy(want + 3 * h->bs, data, 2 * h->bs);
	memcpy(want + 5 * h->bs, data + 15 * h->bs, h->bs);
	RDC_OK(t, copy(h, DEST, r, 3, 0), "Copy of three ranges");
	rdc_must_hold(h, DEST, 6, want);
}

static void neighbours(struct rdc *t)
{
	struct rdc_host *h = need(t);
	struct nvme_copy_range r = one(0, 2);
	unsigned char *around = rdc_buf(t, 4 * h->bs), *data = rdc_prepared(h, 0, 2, 402);

	rdc_fill(around, 4 * h->bs, 403);
	rdc_must_write(h, DEST, 4, around);
	RDC_OK(t, copy(h, DEST + 1, &r, 1, 0), "Copy");
	memcpy(around + h->bs, data, 2 * h->bs);
	rdc_must_hold(h, DEST, 4, around);
}

static void largest(struct rdc *t)
{
	struct rdc_host *h = need(t);
	uint32_t n = le16toh(h->ns.mssrl), mcl = le32toh(h->ns.mcl);
	struct nvme_copy_range r;
	unsigned char *data;

	RDC_CHECK(t, n && mcl, "MSSRL %u, MCL %u", n, mcl);
	RDC_CHECK(t, mcl >= n, "MCL %u is less than MSSRL %u", mcl, n);
	if (n > 256)
		n = 256;
	if (n > rdc_max_blocks(h))
		n = rdc_max_blocks(h);
	data = rdc_prepared(h, 0, n, 404);
	r = one(0, n);
	RDC_OK(t, copy(h, DEST, &r, 1, 0), "Copy of a range as long as is allowed");
	rdc_must_hold(h, DEST, n, data);
}

static void too_many(struct rdc *t)
{
	struct rdc_host *h = need(t);
	unsigned int i, n = h->ns.msrc + 2u;
	struct nvme_copy_range *r = rdc_buf(t, 257 * sizeof(*r));

	if (n > 256)
		rdc_not_supported(t, "MSRC 255: a command cannot exceed it");
	for (i = 0; i < n; i++)
		r[i] = one(i, 1);
	RDC_STATUS(t, copy(h, 512, r, n, 0), "one range more than MSRC",
		   RDC_CS(NVME_SC_CMD_SIZE_LIMIT_EXCEEDED));
}

static void too_long(struct rdc *t)
{
	struct rdc_host *h = need(t);
	uint32_t n = le16toh(h->ns.mssrl) + 1u;
	struct nvme_copy_range r = one(0, n);

	if (n > 65536 || 2ull * n > h->blocks)
		rdc_not_supported(t, "MSSRL %u: the namespace is too small to exceed it", n - 1);
	RDC_STATUS(t, copy(h, n, &r, 1, 0), "a range of one block more than MSSRL",
		   RDC_CS(NVME_SC_CMD_SIZE_LIMIT_EXCEEDED));
}

static void too_much(struct rdc *t)
{
	struct rdc_host *h = need(t);
	uint32_t mssrl = le16toh(h->ns.mssrl), mcl = le32toh(h->ns.mcl), left = mcl + 1;
	struct nvme_copy_range *r = rdc_buf(t, 257 * sizeof(*r));
	unsigned int n = 0;

	if (!mssrl || (mcl + mssrl) / mssrl > h->ns.msrc + 1u || 2ull * mcl + 2 > h->blocks)
		rdc_not_supported(t, "MCL %u cannot be exceeded here within MSRC and MSSRL", mcl);
	while (left) {
		uint32_t m = left < mssrl ? left : mssrl;

		r[n++] = one(0, m);
		left -= m;
	}
	RDC_STATUS(t, copy(h, mcl + 1, r, n, 0), "one block more than MCL",
		   RDC_CS(NVME_SC_CMD_SIZE_LIMIT_EXCEEDED));
}

static void source_behind(struct rdc *t)
{
	struct rdc_host *h = need(t);
	struct nvme_copy_range r = one(h->blocks - 1, 2);

	RDC_STATUS(t, copy(h, DEST, &r, 1, 0), "Copy from across the end", NVME_SC_LBA_RANGE);
}

static void dest_behind(struct rdc *t)
{
	struct rdc_host *h = need(t);
	struct nvme_copy_range r = one(0, 2);
	unsigned char *last = rdc_buf(t, h->bs);

	rdc_fill(last, h->bs, 405);
	rdc_must_write(h, h->blocks - 1, 1, last);
	RDC_STATUS(t, copy(h, h->blocks - 1, &r, 1, 0), "Copy to across the end",
		   NVME_SC_LBA_RANGE);
	rdc_must_hold(h, h->blocks - 1, 1, last);
}

static void format_unknown(struct rdc *t)
{
	struct rdc_host *h = need(t);
	struct nvme_copy_range r = one(0, 1);

	RDC_STATUS(t, copy(h, DEST, &r, 1, 0xf), "Copy with descriptor format Fh",
		   NVME_SC_INVALID_FIELD);
}

static void fields(struct rdc *t)
{
	struct rdc_host *h = need(t);

	RDC_CHECK(t, le16toh(h->id.ocfs) & 1, "OCFS 0x%04x: no format 0", le16toh(h->id.ocfs));
	RDC_CHECK(t, h->ns.mssrl && h->ns.mcl, "MSSRL %u, MCL %u", le16toh(h->ns.mssrl),
		  le32toh(h->ns.mcl));
}

static void nsid(struct rdc *t)
{
	struct rdc_host *h = need(t);
	struct nvme_copy_range *r = rdc_buf(t, sizeof(*r));

	*r = one(0, 1);
	RDC_STATUS(t,
		   rdc_io(h, .opcode = nvme_cmd_copy, .nsid = 0, .data = r, .len = sizeof(*r),
			  .write = true),
		   "Copy on NSID 0", NVME_SC_INVALID_NS);
}

const struct rdc_test rdc_t_copy[] = {
	{"format_0", N_COPY, "a range is copied; the source is unchanged", one_range, RDC_LOSS, 0},
	{"format_1", N_COPY, "a range is copied with descriptor format 1", one_range, RDC_LOSS, 1},
	{"ranges", N_COPY, "source ranges are written one after the other, in their order", ranges,
	 RDC_LOSS},
	{"neighbours", N_COPY, "the blocks before and after the destination are not changed",
	 neighbours, RDC_LOSS},
	{"largest", "NVM 4.1.5.1", "MSSRL blocks can be copied", largest, RDC_LOSS},
	{"too_many", "NVM 4.1.5.1", "more ranges than MSRC are refused", too_many, RDC_LOSS},
	{"too_long", "NVM 4.1.5.1", "a range longer than MSSRL is refused", too_long, RDC_LOSS},
	{"too_much", "NVM 4.1.5.1", "more blocks than MCL are refused", too_much, RDC_LOSS},
	{"source_behind", N_COPY, "a source across the end is LBA Out of Range", source_behind,
	 RDC_LOSS},
	{"dest_behind", N_COPY,
	 "a destination across the end is LBA Out of Range; its blocks are unchanged", dest_behind,
	 RDC_LOSS},
	{"format_unknown", N_COPY, "an unknown format is Invalid Field", format_unknown, RDC_LOSS},
	{"fields", "NVM 4.1.5.2", "OCFS, MSSRL and MCL are set", fields},
	{"nsid_zero", "Base 3.2.1.2", "NSID 0 is Invalid Namespace", nsid},
	{NULL},
};
