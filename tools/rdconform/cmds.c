/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands that many tests send. */
#include "rdconform.h"

#include <string.h>

struct rdc_reply rdc_identify(struct rdc_host *h, uint8_t cns, uint32_t nsid, uint32_t cdw11,
			      void *data)
{
	return rdc_admin(h, .opcode = nvme_admin_identify, .nsid = nsid, .cdw10 = cns,
			 .cdw11 = cdw11, .data = data, .len = RDINIT_IDENTIFY_SIZE);
}

struct rdc_reply rdc_get_log(struct rdc_host *h, uint8_t lid, uint32_t nsid, uint64_t offset,
			     void *data, uint32_t len)
{
	uint32_t numd = len / 4 - 1;

	return rdc_admin(h, .opcode = nvme_admin_get_log_page, .nsid = nsid,
			 .cdw10 = lid | (numd & 0xffff) << 16, .cdw11 = numd >> 16,
			 .cdw12 = (uint32_t)offset, .cdw13 = (uint32_t)(offset >> 32), .data = data,
			 .len = len);
}

struct rdc_reply rdc_get_feature(struct rdc_host *h, uint8_t fid, unsigned int sel, uint32_t nsid,
				 uint32_t cdw11, void *data, uint32_t len)
{
	return rdc_admin(h, .opcode = nvme_admin_get_features, .nsid = nsid,
			 .cdw10 = fid | sel << 8, .cdw11 = cdw11, .data = data, .len = len);
}

struct rdc_reply rdc_set_feature(struct rdc_host *h, uint32_t cdw10, uint32_t nsid, uint32_t cdw11,
				 void *data, uint32_t len)
{
	return rdc_admin(h, .opcode = nvme_admin_set_features, .nsid = nsid, .cdw10 = cdw10,
			 .cdw11 = cdw11, .data = data, .len = len, .write = true);
}

struct rdc_cmd rdc_rw(struct rdc_host *h, uint8_t opcode, uint64_t lba, uint32_t n, void *data)
{
	return (struct rdc_cmd){
		.opcode = opcode,
		.nsid = h->nsid,
		.cdw10 = (uint32_t)lba,
		.cdw11 = (uint32_t)(lba >> 32),
		.cdw12 = n - 1,
		.data = data,
		.len = data ? n * h->bs : 0,
		.write = opcode & 1,
	};
}

struct rdc_reply rdc_read(struct rdc_host *h, uint64_t lba, uint32_t n, void *data)
{
	struct rdc_cmd c = rdc_rw(h, nvme_cmd_read, lba, n, data);

	return rdc_io_at(h, &c, __FILE__, __LINE__);
}

struct rdc_reply rdc_write(struct rdc_host *h, uint64_t lba, uint32_t n, void *data)
{
	struct rdc_cmd c = rdc_rw(h, nvme_cmd_write, lba, n, data);

	return rdc_io_at(h, &c, __FILE__, __LINE__);
}

void rdc_must_write(struct rdc_host *h, uint64_t lba, uint32_t n, void *data)
{
	RDC_OK(h->t, rdc_write(h, lba, n, data), "Write");
}

unsigned char *rdc_prepared(struct rdc_host *h, uint64_t lba, uint32_t n, unsigned int seed)
{
	unsigned char *data = rdc_buf(h->t, (size_t)n * h->bs);

	rdc_fill(data, (size_t)n * h->bs, seed);
	rdc_must_write(h, lba, n, data);
	return data;
}

void rdc_must_hold(struct rdc_host *h, uint64_t lba, uint32_t n, const void *want)
{
	unsigned char *got = rdc_buf(h->t, (size_t)n * h->bs);
	const unsigned char *w = want;
	size_t i;

	RDC_OK(h->t, rdc_read(h, lba, n, got), "Read");
	for (i = 0; i < (size_t)n * h->bs; i++) {
		if (got[i] != w[i])
			RDC_FAIL(h->t, "block %llu, byte %zu: 0x%02x was read and 0x%02x expected",
				 (unsigned long long)(lba + i / h->bs), i % h->bs, got[i], w[i]);
	}
}

void rdc_need_blocks(struct rdc_host *h, uint64_t n)
{
	if (h->blocks < n)
		rdc_not_supported(h->t, "the namespace has %llu blocks, the test needs %llu",
				  (unsigned long long)h->blocks, (unsigned long long)n);
}

void rdc_need_oncs(struct rdc_host *h, uint16_t bit, const char *name)
{
	if (!(le16toh(h->id.oncs) & bit))
		rdc_not_supported(h->t, "ONCS 0x%04x: no %s", le16toh(h->id.oncs), name);
}

struct rdc_host *rdc_main_with(struct rdc *t, uint16_t bit, const char *name, uint64_t blocks)
{
	struct rdc_host *h = rdc_main(t);

	rdc_need_oncs(h, bit, name);
	rdc_need_blocks(h, blocks);
	return h;
}

uint32_t rdc_inactive_nsid(struct rdc_host *h)
{
	uint32_t nsids[RDINIT_NS_LIST_MAX], nn = le32toh(h->id.nn), candidate = 1;
	unsigned int i, n;

	if (rdinit_list_ns(h->ctrl, 0, nsids, &n))
		RDC_FAIL(h->t, "active namespaces: %s", rdinit_get_error());
	for (i = 0; i < n && nsids[i] == candidate; i++)
		candidate++;
	return candidate <= nn ? candidate : 0;
}

uint32_t rdc_max_blocks(const struct rdc_host *h)
{
	uint32_t n = h->info.max_transfer / h->bs;

	return n > 65536 ? 65536 : n;
}
