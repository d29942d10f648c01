/* SPDX-License-Identifier: BSD-3-Clause */
/* Get Log Page: any window of a page, without making the page. Past its end there are zeroes. */
#include <string.h>

#include "internal.h"

#define LID(req) (le32toh((req)->sqe.cdw10) & 0xff)

static uint64_t window_offset(const struct rdt_req *req)
{
	return (uint64_t)le32toh(req->sqe.cdw13) << 32 | le32toh(req->sqe.cdw12);
}

void rdt_log_put(const struct rdt_log_out *out, uint64_t pos, const void *src, size_t len)
{
	uint64_t from = pos > out->offset ? pos : out->offset;
	uint64_t to = pos + len < out->offset + out->len ? pos + len : out->offset + out->len;

	if (from < to)
		memcpy(out->dst + (from - out->offset), (const uint8_t *)src + (from - pos),
		       to - from);
}

/* Newest first. */
static void error_log(struct rdt_ctrl *ctrl, const struct rdt_log_out *out)
{
	struct rdt_error_log *log = &ctrl->errors;

	pthread_mutex_lock(&log->lock);
	for (uint64_t i = 0; i < RDT_ERROR_LOG && i < log->count; i++) {
		const struct nvme_error_log_page *e =
			&log->ring[(log->count - 1 - i) % RDT_ERROR_LOG];

		rdt_log_put(out, i * sizeof(*e), e, sizeof(*e));
	}
	pthread_mutex_unlock(&log->lock);
}

static void put_u128(__u8 dst[16], uint64_t value)
{
	__le64 le = htole64(value);

	memcpy(dst, &le, sizeof(le));
}

/* SMART / health: the subsystem's traffic on all reactors since the start. No sensors, no wear. */
static void smart_log(struct rdt_ctrl *ctrl, const struct rdt_log_out *out)
{
	const struct rdt_subsys *ss = ctrl->subsys;
	struct rdt_target *t = ss->target;
	struct nvme_smart_log smart = {.avail_spare = 100};
	uint64_t sum[5] = {0};
	uint64_t up = rd_loop_now(ctrl->owner->loop) - t->started_ns;

	for (unsigned int i = 0; i < t->reactors_count; i++) {
		struct rdt_counters *c = &t->reactors[i].counters[ss->index];

		sum[0] += atomic_load_explicit(&c->blocks_read, memory_order_relaxed);
		sum[1] += atomic_load_explicit(&c->blocks_written, memory_order_relaxed);
		sum[2] += atomic_load_explicit(&c->reads, memory_order_relaxed);
		sum[3] += atomic_load_explicit(&c->writes, memory_order_relaxed);
		sum[4] += atomic_load_explicit(&c->media_errors, memory_order_relaxed);
	}
	put_u128(smart.data_units_read, (sum[0] + 999) / 1000);
	put_u128(smart.data_units_written, (sum[1] + 999) / 1000);
	put_u128(smart.host_reads, sum[2]);
	put_u128(smart.host_writes, sum[3]);
	put_u128(smart.media_errors, sum[4]);
	put_u128(smart.power_cycles, 1);
	put_u128(smart.power_on_hours, up / (3600 * RD_NSEC_PER_SEC));
	pthread_mutex_lock(&ctrl->errors.lock);
	put_u128(smart.num_err_log_entries, ctrl->errors.count);
	pthread_mutex_unlock(&ctrl->errors.lock);
	rdt_log_put(out, 0, &smart, sizeof(smart));
}

static void firmware_log(const struct rdt_log_out *out)
{
	struct nvme_firmware_slot fw = {.afi = 1};

	rdt_put_ascii(fw.frs[0], sizeof(fw.frs[0]), RDT_VERSION);
	rdt_log_put(out, 0, &fw, sizeof(fw));
}

static void effects_log(const struct rdt_ctrl *ctrl, const struct rdt_log_out *out)
{
	for (unsigned int op = 0; op < 256; op++) {
		__le32 e = htole32(NVME_CMD_EFFECTS_CSUPP);

		if (rdt_admin_cmds[op].exec)
			rdt_log_put(out, offsetof(struct nvme_cmd_effects_log, acs) + op * 4, &e,
				    4);
		if (!rdt_io_supported(ctrl->subsys, op))
			continue;
		if (op == nvme_cmd_write || op == nvme_cmd_write_zeroes || op == nvme_cmd_dsm)
			e |= htole32(NVME_CMD_EFFECTS_LBCC);
		rdt_log_put(out, offsetof(struct nvme_cmd_effects_log, iocs) + op * 4, &e, 4);
	}
}

/* The page's length; 0 when this controller does not have it. */
static uint64_t page_size(const struct rdt_req *req)
{
	if (rdt_subsys_is_disc(req->qp->ctrl->subsys))
		return LID(req) == NVME_LOG_LID_DISCOVER ? rdt_discovery_log_size(req->qp) : 0;
	switch (LID(req)) {
	case NVME_LOG_LID_ERROR:
		return RDT_ERROR_LOG * sizeof(struct nvme_error_log_page);
	case NVME_LOG_LID_SMART:
		return sizeof(struct nvme_smart_log);
	case NVME_LOG_LID_FW_SLOT:
		return sizeof(struct nvme_firmware_slot);
	case NVME_LOG_LID_CMD_EFFECTS:
		return sizeof(struct nvme_cmd_effects_log);
	default:
		return 0;
	}
}

struct nvme_status rdt_get_log_check(struct rdt_req *req)
{
	uint64_t numd = ((le32toh(req->sqe.cdw10) >> 16) |
			 (uint64_t)(le32toh(req->sqe.cdw11) & 0xffff) << 16) +
			1;
	uint32_t nsid = le32toh(req->sqe.nsid);
	uint64_t size = page_size(req);

	if (!size)
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_INVALID_LOG_PAGE,
				    RDT_LOC(cdw10));
	if (LID(req) == NVME_LOG_LID_SMART && nsid && nsid != NVME_NSID_ALL) /* LPA bit 0 */
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(nsid));
	if (numd * 4 > rdt_req_target(req)->cfg->target.max_data_bytes)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw10));
	if (window_offset(req) % 4 || window_offset(req) > size)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw12));
	req->data_len = (uint32_t)(numd * 4);
	return NVME_OK;
}

enum rdt_exec rdt_get_log_exec(struct rdt_req *req)
{
	struct rdt_ctrl *ctrl = req->qp->ctrl;
	struct rdt_log_out out = {
		.dst = req->buf,
		.offset = window_offset(req),
		.len = req->data_len,
	};

	memset(req->buf, 0, req->data_len);
	switch (LID(req)) {
	case NVME_LOG_LID_ERROR:
		error_log(ctrl, &out);
		break;
	case NVME_LOG_LID_SMART:
		smart_log(ctrl, &out);
		break;
	case NVME_LOG_LID_FW_SLOT:
		firmware_log(&out);
		break;
	case NVME_LOG_LID_CMD_EFFECTS:
		effects_log(ctrl, &out);
		break;
	case NVME_LOG_LID_DISCOVER:
		rdt_discovery_log(req->qp, &out);
		break;
	}
	return RDT_EXEC_DONE;
}
