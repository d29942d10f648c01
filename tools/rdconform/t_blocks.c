/* SPDX-License-Identifier: BSD-3-Clause */
/* io.zeroes, io.dsm, io.allocated, io.verify, io.uncorrectable, io.protect: commands on blocks
 * without data transfer. */
#include <string.h>

#include "suites.h"

#define CDW12_DEAC  (1u << 25)
#define DLFEAT_DEAC 0x08 /* Write Zeroes has DEAC */
#define CDW12_FUA   (1u << 30)
#define DSM_AD      4u
#define DSM_IDW     2u
#define DSM_IDR     1u

static struct rdc_reply range(struct rdc_host *h, uint8_t opcode, uint64_t lba, uint32_t n,
			      uint32_t cdw12)
{
	struct rdc_cmd c = rdc_rw(h, opcode, lba, n, NULL);

	c.cdw12 |= cdw12;
	return rdc_io_at(h, &c, __FILE__, __LINE__);
}

/* The limits in CNS 06h; zeroes if the controller lacks it. */
static const struct nvme_id_ctrl_nvm *limits(struct rdc_host *h)
{
	struct nvme_id_ctrl_nvm *nvm = rdc_buf(h->t, 4096);

	rdc_identify(h, NVME_IDENTIFY_CNS_CSI_CTRL, 0, 0, nvm);
	return nvm;
}

/* The number of blocks that a limit of 2^@v minimum pages allows; 0: no limit that fits into 16
 * bits. */
static uint32_t limit_blocks(const struct rdc_host *h, uint8_t v)
{
	uint64_t bytes = v && v < 32 ? (4096ull << NVME_CAP_MPSMIN(h->info.cap)) << v : 0;

	return bytes / h->bs < 65536 ? (uint32_t)(bytes / h->bs) : 0;
}

/* ---- Write Zeroes ---- */

static struct rdc_host *need_wz(struct rdc *t)
{
	return rdc_main_with(t, NVME_CTRL_ONCS_WRITE_ZEROES, "Write Zeroes", 64);
}

static void wz(struct rdc *t)
{
	struct rdc_host *h = need_wz(t);
	unsigned char *data;

	if (t->arg == CDW12_DEAC && !(h->ns.dlfeat & DLFEAT_DEAC))
		rdc_not_supported(t, "DLFEAT 0x%02x: Write Zeroes does not support DEAC",
				  h->ns.dlfeat);
	data = rdc_prepared(h, 0, 16, 300);
	RDC_OK(t, range(h, nvme_cmd_write_zeroes, 4, 8, t->arg), "Write Zeroes");
	memset(data + 4 * h->bs, 0, 8 * h->bs);
	rdc_must_hold(h, 0, 16, data);
}

static void wz_behind(struct rdc *t)
{
	struct rdc_host *h = need_wz(t);

	RDC_STATUS(t, range(h, nvme_cmd_write_zeroes, h->blocks - 1, 2, 0),
		   "Write Zeroes across the end", NVME_SC_LBA_RANGE);
}

static void wz_keeps(struct rdc *t)
{
	struct rdc_host *h = need_wz(t);
	unsigned char *last = rdc_prepared(h, h->blocks - 1, 1, 301);

	RDC_REFUSED(t, range(h, nvme_cmd_write_zeroes, h->blocks - 1, 2, 0),
		    "Write Zeroes across the end");
	rdc_must_hold(h, h->blocks - 1, 1, last);
}

static void wz_limit(struct rdc *t)
{
	struct rdc_host *h = need_wz(t);
	uint32_t n = limit_blocks(h, limits(h)->wzsl);

	if (!n)
		rdc_not_supported(t, "WZSL sets no limit that a command can exceed");
	rdc_need_blocks(h, n + 1);
	RDC_STATUS(t, range(h, nvme_cmd_write_zeroes, 0, n + 1, 0), "one block more than WZSL",
		   NVME_SC_INVALID_FIELD, RDC_CS(NVME_SC_CMD_SIZE_LIMIT_EXCEEDED));
	RDC_OK(t, range(h, nvme_cmd_write_zeroes, 0, n, 0), "as many blocks as WZSL allows");
}

static void nsid(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	uint8_t op = (uint8_t)t->arg;

	rdc_need_oncs(h, (uint16_t)(t->arg >> 8), "such command");
	RDC_STATUS(t, rdc_io(h, .opcode = op, .nsid = 0), "NSID 0", NVME_SC_INVALID_NS);
}

#define NS(op, bit) ((op) | (bit) << 8)
#define N_WZ        "NVM 3.2.8"

const struct rdc_test rdc_t_zeroes[] = {
	{"plain", N_WZ,
	 "Write Zeroes makes the range read as zeroes; the blocks around it are unchanged", wz,
	 RDC_LOSS, 0},
	{"deallocate", N_WZ, "Write Zeroes with DEAC does the same", wz, RDC_LOSS, CDW12_DEAC},
	{"fua", N_WZ, "Write Zeroes with FUA does the same", wz, RDC_LOSS, CDW12_FUA},
	{"behind", N_WZ, "a range across the end is LBA Out of Range", wz_behind, RDC_LOSS},
	{"keeps", N_WZ, "a refused command changes nothing", wz_keeps, RDC_LOSS},
	{"limit", "NVM 4.1.5.3", "as many blocks as WZSL allows are accepted, one more is refused",
	 wz_limit, RDC_LOSS},
	{"nsid_zero", "Base 3.2.1.2", "NSID 0 is Invalid Namespace", nsid, 0,
	 NS(nvme_cmd_write_zeroes, NVME_CTRL_ONCS_WRITE_ZEROES)},
	{NULL},
};

/* ---- Dataset Management ---- */

static struct rdc_host *need_dsm(struct rdc *t)
{
	return rdc_main_with(t, NVME_CTRL_ONCS_DSM, "Dataset Management", 600);
}

static struct rdc_reply dsm(struct rdc_host *h, const struct nvme_dsm_range *r, unsigned int n,
			    uint32_t attrs)
{
	struct nvme_dsm_range *data = rdc_buf(h->t, 4096);

	memcpy(data, r, n * sizeof(*r));
	return rdc_io(h, .opcode = nvme_cmd_dsm, .nsid = h->nsid, .cdw10 = n - 1, .cdw11 = attrs,
		      .data = data, .len = (uint32_t)(n * sizeof(*r)), .write = true);
}

static struct nvme_dsm_range one(uint64_t lba, uint32_t n)
{
	return (struct nvme_dsm_range){.slba = htole64(lba), .nlb = htole32(n)};
}

/* The content of a deallocated block if DLFEAT specifies it; else NULL. */
static unsigned char *dealloc_value(struct rdc_host *h, uint32_t n)
{
	unsigned char *v = rdc_buf(h->t, (size_t)n * h->bs);

	if ((h->ns.dlfeat & 7) == 1)
		return v;
	if ((h->ns.dlfeat & 7) == 2)
		return memset(v, 0xff, (size_t)n * h->bs);
	return NULL;
}

static void dsm_deallocate(struct rdc *t)
{
	struct rdc_host *h = need_dsm(t);
	struct nvme_dsm_range r = one(4, 8);
	unsigned char *data = rdc_prepared(h, 0, 16, 310), *value = dealloc_value(h, 8);
	unsigned char *got = rdc_buf(t, 8 * h->bs);
	size_t i, len = 8 * (size_t)h->bs;

	RDC_OK(t, dsm(h, &r, 1, DSM_AD), "Dataset Management, deallocate");
	rdc_must_hold(h, 0, 4, data);
	rdc_must_hold(h, 12, 4, data + 12 * h->bs);
	RDC_OK(t, rdc_read(h, 4, 8, got), "Read of deallocated blocks");
	/* Deallocation is a hint: each block has the old data or the value of DLFEAT. */
	for (i = 0; value && i < len; i += h->bs)
		RDC_CHECK(t,
			  memcmp(got + i, value + i, h->bs) == 0 ||
				  memcmp(got + i, data + 4 * h->bs + i, h->bs) == 0,
			  "block %zu holds neither the old data nor the value of DLFEAT",
			  4 + i / h->bs);
}

static void dsm_stable(struct rdc *t)
{
	struct rdc_host *h = need_dsm(t);
	struct nvme_dsm_range r = one(0, 8);
	void *got = rdc_buf(t, 8 * h->bs);

	rdc_prepared(h, 0, 8, 311);
	RDC_OK(t, dsm(h, &r, 1, DSM_AD), "Dataset Management, deallocate");
	RDC_OK(t, rdc_read(h, 0, 8, got), "Read");
	rdc_must_hold(h, 0, 8, got);
}

static void dsm_rewrite(struct rdc *t)
{
	struct rdc_host *h = need_dsm(t);
	struct nvme_dsm_range r = one(0, 8);
	unsigned char *data;

	rdc_prepared(h, 0, 8, 312);
	RDC_OK(t, dsm(h, &r, 1, DSM_AD), "Dataset Management, deallocate");
	data = rdc_prepared(h, 0, 8, 313);
	rdc_must_hold(h, 0, 8, data);
}

static void dsm_hints(struct rdc *t)
{
	struct rdc_host *h = need_dsm(t);
	struct nvme_dsm_range r = one(0, 8);
	unsigned char *data = rdc_prepared(h, 0, 8, 314);

	RDC_OK(t, dsm(h, &r, 1, t->arg), "Dataset Management with a hint");
	rdc_must_hold(h, 0, 8, data);
}

static void dsm_many(struct rdc *t)
{
	struct rdc_host *h = need_dsm(t);
	struct nvme_dsm_range *r = rdc_buf(t, 256 * sizeof(*r));
	unsigned int i, n = limits(h)->dmrl;

	if (!n)
		n = 256;
	for (i = 0; i < n; i++)
		r[i] = one(2 * i, 1);
	RDC_OK(t, dsm(h, r, n, DSM_AD), "as many ranges as are allowed");
	RDC_OK(t, rdc_read(h, 0, 1, rdc_buf(t, h->bs)), "Read");
}

static void dsm_dmrl(struct rdc *t)
{
	struct rdc_host *h = need_dsm(t);
	struct nvme_dsm_range *r = rdc_buf(t, 256 * sizeof(*r));
	unsigned int i, n = limits(h)->dmrl + 1u;

	if (n == 1 || n > 256)
		rdc_not_supported(t, "DMRL %u: a command cannot exceed it", n - 1);
	for (i = 0; i < n; i++)
		r[i] = one(2 * i, 1);
	RDC_STATUS(t, dsm(h, r, n, DSM_AD), "one range more than DMRL",
		   RDC_CS(NVME_SC_CMD_SIZE_LIMIT_EXCEEDED), NVME_SC_INVALID_FIELD);
}

static void dsm_dmrsl(struct rdc *t)
{
	struct rdc_host *h = need_dsm(t);
	uint32_t n = le32toh(limits(h)->dmrsl);
	struct nvme_dsm_range r;

	if (!n || n >= h->blocks)
		rdc_not_supported(t, "DMRSL %u: no range of the namespace exceeds it", n);
	r = one(0, n + 1);
	RDC_STATUS(t, dsm(h, &r, 1, DSM_AD), "a range of one block more than DMRSL",
		   RDC_CS(NVME_SC_CMD_SIZE_LIMIT_EXCEEDED), NVME_SC_INVALID_FIELD);
}

static void dsm_behind(struct rdc *t)
{
	struct rdc_host *h = need_dsm(t);
	struct nvme_dsm_range r = one(h->blocks, 1);
	unsigned char *last = rdc_prepared(h, h->blocks - 1, 1, 315);

	RDC_STATUS(t, dsm(h, &r, 1, DSM_AD), "a range beyond the end", NVME_SC_LBA_RANGE);
	rdc_must_hold(h, h->blocks - 1, 1, last);
}

static void dsm_wraps(struct rdc *t)
{
	struct rdc_host *h = need_dsm(t);
	struct nvme_dsm_range r = one(UINT64_MAX, 2);
	unsigned char *first = rdc_prepared(h, 0, 1, 316);

	RDC_STATUS(t, dsm(h, &r, 1, DSM_AD), "a range that wraps to 0", NVME_SC_LBA_RANGE);
	rdc_must_hold(h, 0, 1, first);
}

#define N_DSM "NVM 3.2.3"

const struct rdc_test rdc_t_dsm[] = {
	{"deallocate", N_DSM,
	 "deallocated blocks hold old data or the value of DLFEAT; other blocks are unchanged",
	 dsm_deallocate},
	{"stable", "NVM 3.2.3.2", "a deallocated block returns the same data on each Read",
	 dsm_stable},
	{"rewrite", N_DSM, "a deallocated block can be written again", dsm_rewrite},
	{"read_hint", N_DSM, "Integral Dataset for Read changes nothing", dsm_hints, 0, DSM_IDR},
	{"write_hint", N_DSM, "Integral Dataset for Write changes nothing", dsm_hints, 0, DSM_IDW},
	{"many", N_DSM, "as many ranges as are allowed", dsm_many},
	{"ranges_limit", "NVM 4.1.5.3", "DMRL is enforced", dsm_dmrl},
	{"range_limit", "NVM 4.1.5.3", "DMRSL is enforced", dsm_dmrsl},
	{"behind", N_DSM, "a range beyond the end is LBA Out of Range", dsm_behind},
	{"wraps", N_DSM, "a range that wraps to 0 is LBA Out of Range", dsm_wraps},
	{NULL},
};

/* ---- Verify ---- */

static struct rdc_host *need_verify(struct rdc *t)
{
	return rdc_main_with(t, NVME_CTRL_ONCS_VERIFY, "Verify", 0);
}

static void verify(struct rdc *t)
{
	struct rdc_host *h = need_verify(t);

	RDC_OK(t, range(h, nvme_cmd_verify, h->blocks - 1, 1, 0), "Verify of the last block");
}

static void verify_behind(struct rdc *t)
{
	struct rdc_host *h = need_verify(t);

	RDC_STATUS(t, range(h, nvme_cmd_verify, h->blocks - 1, 2, 0), "Verify across the end",
		   NVME_SC_LBA_RANGE);
}

static void verify_limit(struct rdc *t)
{
	struct rdc_host *h = need_verify(t);
	uint32_t n = limit_blocks(h, limits(h)->vsl);

	if (!n)
		rdc_not_supported(t, "VSL sets no limit that a command can exceed");
	rdc_need_blocks(h, n + 1);
	RDC_STATUS(t, range(h, nvme_cmd_verify, 0, n + 1, 0), "one block more than VSL",
		   NVME_SC_INVALID_FIELD, RDC_CS(NVME_SC_CMD_SIZE_LIMIT_EXCEEDED));
	RDC_OK(t, range(h, nvme_cmd_verify, 0, n, 0), "as many blocks as VSL allows");
}

const struct rdc_test rdc_t_verify[] = {
	{"plain", "NVM 3.2.5", "blocks that can be read can be verified", verify},
	{"behind", "NVM 3.2.5", "a range across the end is LBA Out of Range", verify_behind},
	{"limit", "NVM 4.1.5.3", "as many blocks as VSL allows are accepted, one more is refused",
	 verify_limit},
	{"nsid_zero", "Base 3.2.1.2", "NSID 0 is Invalid Namespace", nsid, 0,
	 NS(nvme_cmd_verify, NVME_CTRL_ONCS_VERIFY)},
	{NULL},
};

/* ---- Write Uncorrectable ---- */

static struct rdc_host *need_uncor(struct rdc *t)
{
	return rdc_main_with(t, NVME_CTRL_ONCS_WRITE_UNCORRECTABLE, "Write Uncorrectable", 64);
}

static void uncor_read(struct rdc *t)
{
	struct rdc_host *h = need_uncor(t);
	unsigned char *data = rdc_prepared(h, 40, 8, 320);
	struct rdc_reply read, ok;

	RDC_OK(t, range(h, nvme_cmd_write_uncor, 42, 2, 0), "Write Uncorrectable");
	read = rdc_read(h, 40, 4, rdc_buf(t, 4 * h->bs));
	/* Makes the blocks readable again, whatever the result. */
	ok = rdc_write(h, 42, 2, data + 2 * h->bs);
	RDC_STATUS(t, read, "Read of an uncorrectable block", RDC_ME(NVME_SC_READ_ERROR));
	RDC_OK(t, ok, "Write over an uncorrectable block");
	rdc_must_hold(h, 40, 8, data);
}

static void uncor_others(struct rdc *t)
{
	struct rdc_host *h = need_uncor(t);
	unsigned char *data = rdc_prepared(h, 40, 8, 321);
	struct rdc_reply before, behind, ok;

	RDC_OK(t, range(h, nvme_cmd_write_uncor, 42, 2, 0), "Write Uncorrectable");
	before = rdc_read(h, 40, 2, rdc_buf(t, 2 * h->bs));
	behind = rdc_read(h, 44, 4, rdc_buf(t, 4 * h->bs));
	ok = rdc_write(h, 42, 2, data);
	RDC_OK(t, before, "Read of the blocks before the uncorrectable block");
	RDC_OK(t, behind, "Read of the blocks after the uncorrectable block");
	RDC_OK(t, ok, "Write over an uncorrectable block");
}

static void uncor_verify(struct rdc *t)
{
	struct rdc_host *h = need_uncor(t);
	unsigned char *data = rdc_prepared(h, 40, 2, 322);
	struct rdc_reply v, ok;

	rdc_need_oncs(h, NVME_CTRL_ONCS_VERIFY, "Verify");
	RDC_OK(t, range(h, nvme_cmd_write_uncor, 41, 1, 0), "Write Uncorrectable");
	v = range(h, nvme_cmd_verify, 40, 2, 0);
	ok = rdc_write(h, 40, 2, data);
	RDC_STATUS(t, v, "Verify of an uncorrectable block", RDC_ME(NVME_SC_READ_ERROR));
	RDC_OK(t, ok, "Write over an uncorrectable block");
}

static void uncor_behind(struct rdc *t)
{
	struct rdc_host *h = need_uncor(t);

	RDC_STATUS(t, range(h, nvme_cmd_write_uncor, h->blocks, 1, 0),
		   "Write Uncorrectable beyond the end", NVME_SC_LBA_RANGE);
}

const struct rdc_test rdc_t_uncorrectable[] = {
	{"read", "NVM 3.2.7",
	 "a block that was marked uncorrectable cannot be read until it is written", uncor_read},
	{"others", "NVM 3.2.7", "the blocks before and after an uncorrectable block can be read",
	 uncor_others},
	{"verify", "NVM 3.2.5", "Verify reports an uncorrectable block", uncor_verify},
	{"behind", "NVM 3.2.7", "a block beyond the end is LBA Out of Range", uncor_behind},
	{NULL},
};

/* ---- write protection ---- */

static struct rdc_host *need_protect(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	if (!(h->id.nwpc & 1))
		rdc_not_supported(t, "NWPC 0x%02x: no write protection", h->id.nwpc);
	rdc_need_blocks(h, 64);
	return h;
}

static struct rdc_reply protect(struct rdc_host *h, uint32_t state)
{
	return rdc_set_feature(h, NVME_FEAT_FID_WRITE_PROTECT, h->nsid, state, NULL, 0);
}

/* Sends a writing command while the namespace is protected; removes the protection before any
 * check. */
static void protect_refuses(struct rdc *t)
{
	struct rdc_host *h = need_protect(t), *other = rdc_second(t);
	unsigned char *data = rdc_prepared(h, 0, 8, 330);
	struct nvme_dsm_range r = one(0, 8);
	struct rdc_reply w;

	if (t->arg == nvme_cmd_dsm)
		rdc_need_oncs(h, NVME_CTRL_ONCS_DSM, "Dataset Management");
	if (t->arg == nvme_cmd_write_zeroes)
		rdc_need_oncs(h, NVME_CTRL_ONCS_WRITE_ZEROES, "Write Zeroes");
	RDC_OK(t, protect(h, 1), "Namespace Write Protection, on");
	if (t->arg == nvme_cmd_dsm)
		w = dsm(other, &r, 1, DSM_AD);
	else if (t->arg == nvme_cmd_write)
		w = rdc_write(other, 0, 8, rdc_buf(t, 8 * h->bs));
	else
		w = range(other, (uint8_t)t->arg, 0, 8, 0);
	RDC_OK(t, protect(h, 0), "Namespace Write Protection, off");
	RDC_STATUS(t, w, "a writing command on a protected namespace", NVME_SC_NS_WRITE_PROTECTED);
	rdc_must_hold(h, 0, 8, data);
}

static void protect_reads(struct rdc *t)
{
	struct rdc_host *h = need_protect(t);
	struct rdc_reply rd, fl, get;

	RDC_OK(t, protect(h, 1), "Namespace Write Protection, on");
	rd = rdc_read(h, 0, 1, rdc_buf(t, h->bs));
	fl = rdc_io(h, .opcode = nvme_cmd_flush, .nsid = h->nsid);
	get = rdc_get_feature(h, NVME_FEAT_FID_WRITE_PROTECT, 0, h->nsid, 0, NULL, 0);
	RDC_OK(t, protect(h, 0), "Namespace Write Protection, off");
	RDC_OK(t, rd, "Read of a protected namespace");
	RDC_OK(t, fl, "Flush of a protected namespace");
	RDC_OK(t, get, "Get Features of a protected namespace");
	RDC_CHECK(t, (get.result & 7) == 1, "the write protection state reads as %u",
		  (unsigned int)get.result & 7);
}

static void protect_reserved(struct rdc *t)
{
	struct rdc_host *h = need_protect(t);

	RDC_STATUS(t, protect(h, 7), "write protection state 7", NVME_SC_INVALID_FIELD);
}

static void protect_identify(struct rdc *t)
{
	struct rdc_host *h = need_protect(t);
	struct nvme_id_ns *ns = rdc_buf(t, 4096);
	struct rdc_reply id;

	RDC_OK(t, protect(h, 1), "Namespace Write Protection, on");
	id = rdc_identify(h, NVME_IDENTIFY_CNS_NS, h->nsid, 0, ns);
	RDC_OK(t, protect(h, 0), "Namespace Write Protection, off");
	RDC_OK(t, id, "Identify Namespace");
	RDC_CHECK(t, ns->nsattr & 1, "NSATTR 0x%02x of a protected namespace", ns->nsattr);
}

/* ---- Get LBA Status: which blocks are allocated ---- */

#define UNIT_BYTES (1u << 20) /* allocation units of targets are at most this large */
#define LIST_BYTES 4096u

static struct rdc_reply lba_status(struct rdc_host *h, uint64_t lba, uint16_t n, void *list,
				   uint32_t len)
{
	return rdc_admin(h, .opcode = nvme_admin_get_lba_status, .nsid = h->nsid,
			 .cdw10 = (uint32_t)lba, .cdw11 = (uint32_t)(lba >> 32),
			 .cdw12 = len / 4 - 1, .cdw13 = NVME_LBA_STATUS_ALLOCATED << 24 | n,
			 .data = list, .len = len);
}

static struct rdc_host *need_allocated(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	const uint8_t *nvm = (const uint8_t *)limits(h);

	if (!(nvm[NVME_NVM_CTRL_AOCS] & NVME_AOCS_RALBAS))
		rdc_not_supported(t, "AOCS.RALBAS is 0: allocated blocks are not reported");
	return h;
}

/* Descriptors ascend, do not touch, and lie in the range; the count fits. */
static void list_is_sane(struct rdc *t, const struct nvme_lba_status *list, uint32_t len,
			 uint64_t from, uint64_t to)
{
	uint32_t n = le32toh(list->nlsd);

	RDC_CHECK(t, n <= (len - sizeof(*list)) / sizeof(list->descs[0]),
		  "NLSD %u does not fit into %u bytes", n, len);
	RDC_CHECK(t, list->cmpc <= NVME_LBA_STATUS_COMPLETE, "CMPC %u is reserved", list->cmpc);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t first = le64toh(list->descs[i].dslba);
		uint64_t blocks = (uint64_t)le32toh(list->descs[i].nlb) + 1;

		RDC_CHECK(t, first >= from && first < to && blocks <= to - first,
			  "descriptor %u: %llu blocks at %llu overlap an earlier descriptor or are "
			  "outside of the range",
			  i, (unsigned long long)blocks, (unsigned long long)first);
		RDC_CHECK(t, list->descs[i].status == NVME_LBA_RANGE_ALLOCATED,
			  "descriptor %u: status 0x%02x instead of 02h", i, list->descs[i].status);
		from = first + blocks;
	}
}

static bool list_has(const struct nvme_lba_status *list, uint64_t lba)
{
	for (uint32_t i = 0; i < le32toh(list->nlsd); i++) {
		uint64_t first = le64toh(list->descs[i].dslba);

		if (lba >= first && lba - first <= le32toh(list->descs[i].nlb))
			return true;
	}
	return false;
}

static void allocated_written(struct rdc *t)
{
	struct rdc_host *h = need_allocated(t);
	struct nvme_lba_status *list = rdc_buf(t, LIST_BYTES);

	rdc_need_blocks(h, 64);
	rdc_prepared(h, 9, 4, 320);
	RDC_OK(t, lba_status(h, 0, 64, list, LIST_BYTES), "Get LBA Status");
	list_is_sane(t, list, LIST_BYTES, 0, 64);
	for (uint64_t lba = 9; lba < 13; lba++)
		RDC_CHECK(t, list_has(list, lba), "block %llu was written and is not reported",
			  (unsigned long long)lba);
	RDC_OK(t, lba_status(h, 10, 2, list, LIST_BYTES), "Get LBA Status");
	list_is_sane(t, list, LIST_BYTES, 10, 12);
	RDC_CHECK(t, list_has(list, 10) && list_has(list, 11), "a part of the blocks is missing");
}

static void allocated_freed(struct rdc *t)
{
	struct rdc_host *h = need_allocated(t);
	struct nvme_lba_status *list = rdc_buf(t, LIST_BYTES);
	struct nvme_dsm_range all = {0};
	uint32_t n = UNIT_BYTES / h->bs;

	rdc_need_oncs(h, NVME_CTRL_ONCS_DSM, "Dataset Management");
	rdc_need_blocks(h, 2 * n);
	rdc_prepared(h, n + 3, 4, 321);
	all.nlb = htole32(n);
	all.slba = htole64(n);
	RDC_OK(t, dsm(h, &all, 1, DSM_AD), "Dataset Management");
	RDC_OK(t, lba_status(h, n, (uint16_t)n, list, LIST_BYTES), "Get LBA Status");
	list_is_sane(t, list, LIST_BYTES, n, 2 * n);
	RDC_CHECK(t, !list_has(list, n + 3), "a deallocated block is reported as allocated");
}

static void allocated_rest(struct rdc *t)
{
	struct rdc_host *h = need_allocated(t);
	struct nvme_lba_status *list = rdc_buf(t, LIST_BYTES);

	RDC_OK(t, lba_status(h, 0, 0, list, LIST_BYTES), "Get LBA Status of the whole namespace");
	list_is_sane(t, list, LIST_BYTES, 0, h->blocks);
}

static void allocated_little(struct rdc *t)
{
	struct rdc_host *h = need_allocated(t);
	struct nvme_lba_status *list = rdc_buf(t, LIST_BYTES);

	rdc_need_blocks(h, 64);
	rdc_prepared(h, 0, 1, 322);
	RDC_OK(t, lba_status(h, 0, 64, list, sizeof(*list)),
	       "Get LBA Status with no room for descriptors");
	RDC_CHECK(t, !list->nlsd, "NLSD %u without room", le32toh(list->nlsd));
	RDC_CHECK(t, list->cmpc != NVME_LBA_STATUS_COMPLETE,
		  "CMPC says that the list is complete, but block 0 is missing");
}

static void allocated_behind(struct rdc *t)
{
	struct rdc_host *h = need_allocated(t);
	struct nvme_lba_status *list = rdc_buf(t, LIST_BYTES);

	RDC_STATUS(t, lba_status(h, h->blocks, 1, list, LIST_BYTES), "SLBA beyond the end",
		   NVME_SC_LBA_RANGE, NVME_SC_INVALID_FIELD);
}

static void allocated_atype(struct rdc *t)
{
	struct rdc_host *h = need_allocated(t);

	RDC_STATUS(t,
		   rdc_admin(h, .opcode = nvme_admin_get_lba_status, .nsid = h->nsid,
			     .cdw12 = LIST_BYTES / 4 - 1, .cdw13 = 0x7fu << 24,
			     .data = rdc_buf(t, LIST_BYTES), .len = LIST_BYTES),
		   "a reserved action type", NVME_SC_INVALID_FIELD);
}

#define N_GLS "NVM 4.2.1"

const struct rdc_test rdc_t_allocated[] = {
	{"written", N_GLS, "blocks that were written are reported", allocated_written, RDC_LOSS},
	{"freed", N_GLS, "deallocated blocks are not reported as allocated", allocated_freed,
	 RDC_LOSS},
	{"rest", N_GLS, "Range Length 0 means up to the end of the namespace", allocated_rest},
	{"little", N_GLS, "a list without room for descriptors is reported as incomplete",
	 allocated_little, RDC_LOSS},
	{"behind", N_GLS, "a range beyond the end is refused", allocated_behind},
	{"reserved", N_GLS, "a reserved action type is Invalid Field", allocated_atype},
	{NULL},
};

const struct rdc_test rdc_t_protect[] = {
	{"write", "Base 8.12", "a protected namespace refuses Write", protect_refuses, 0,
	 nvme_cmd_write},
	{"write_zeroes", "Base 8.12", "a protected namespace refuses Write Zeroes", protect_refuses,
	 0, nvme_cmd_write_zeroes},
	{"dsm", "Base 8.12", "a protected namespace refuses Dataset Management with Deallocate",
	 protect_refuses, 0, nvme_cmd_dsm},
	{"reads", "Base 8.12",
	 "a protected namespace can be read and flushed, and reports its state", protect_reads},
	{"reserved", "Base 5.27.1.28", "a reserved state is Invalid Field", protect_reserved},
	{"identify", "Base 5.17.2.8", "NSATTR bit 0 says that the namespace is protected",
	 protect_identify},
	{NULL},
};
