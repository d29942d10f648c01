/* SPDX-License-Identifier: BSD-3-Clause */
/* Get Log Page: only the requested part of a page is generated. Bytes beyond the end are zeroes. */
#include <string.h>

#include "util/loop.h"
#include "nvmf/wire.h"
#include "admin.h"
#include "target/nvmf/ana_log.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/events.h"
#include "target/nvmf/base/log_out.h"
#include "target/nvmf/request.h"
#include "target/nvmf/resv.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/config/tgt_limits.h"

#define LID(req)     (le32toh((req)->sqe.cdw10) & 0xff)
#define RAE(req)     (le32toh((req)->sqe.cdw10) >> 15 & 1)
#define OFFSET_INDEX (1u << 23) /* CDW14: the offset is an index */
#define CSI(req)     (le32toh((req)->sqe.cdw14) >> 24)
#define LSUPP        1u /* supported log pages: the page is supported */

static uint64_t window_offset(const struct rdt_req *req)
{
	return (uint64_t)le32toh(req->sqe.cdw13) << 32 | le32toh(req->sqe.cdw12);
}

/* The newest entry comes first. */
static void put_error_log(struct rdt_req *req, const struct rdt_log_out *out)
{
	struct rdt_error_log *log = &req->qp->ctrl->errors;

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

/* SMART / Health: the I/O of the subsystem on all reactors since the start. There are no sensors,
 * so the temperature is 0 K and no wear is reported. Critical Warning: Base 2.0, 5.16.1.3. */
static void smart_log(struct rdt_req *req, const struct rdt_log_out *out)
{
	struct rdt_ctrl *ctrl = req->qp->ctrl;
	const struct rdt_subsys *ss = ctrl->subsys;
	struct rdt_target *t = ss->target;
	struct nvme_smart_log smart = {
		.critical_warning = rdt_health_warning(ctrl),
		.avail_spare = 100,
	};
	uint64_t sum[5] = {0};
	uint64_t up = rd_loop_now(ctrl->owner->loop) - t->started_ns;

	for (unsigned int i = 0; i < t->reactors_count; i++) {
		struct rdt_counters *c = &ss->counters[i];

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

static void firmware_log(struct rdt_req *req, const struct rdt_log_out *out)
{
	struct nvme_firmware_slot fw = {.afi = 1};

	rdt_put_ascii(fw.frs[0], sizeof(fw.frs[0]), RDT_VERSION);
	rdt_log_put(out, 0, &fw, sizeof(fw));
}

static void changed_ns_log(struct rdt_req *req, const struct rdt_log_out *out)
{
	struct nvme_ns_list list;

	rdt_changed_ns_read(req->qp->ctrl, &list, !RAE(req));
	rdt_log_put(out, 0, &list, sizeof(list));
}

/* Returns the entry of a command in the log of effects; 0: it is not supported. */
static __le32 cmd_effects(const struct rdt_cmd *cmd, const struct rdt_subsys *ss)
{
	return htole32(rdt_cmd_supported(cmd, ss) ? (uint32_t)NVME_CMD_EFFECTS_CSUPP | cmd->effects
						  : 0);
}

static void effects_log(struct rdt_req *req, const struct rdt_log_out *out)
{
	const struct rdt_cmd_tables *cmds = rdt_req_target(req)->cmds;
	const struct rdt_subsys *ss = req->qp->ctrl->subsys;

	for (unsigned int op = 0; op < 256; op++) {
		__le32 acs = cmd_effects(&cmds->admin[op], ss);
		__le32 iocs = cmd_effects(&cmds->io[op], ss);

		rdt_log_put(out, offsetof(struct nvme_cmd_effects_log, acs) + op * 4, &acs, 4);
		rdt_log_put(out, offsetof(struct nvme_cmd_effects_log, iocs) + op * 4, &iocs, 4);
	}
}

static void ana_log(struct rdt_req *req, const struct rdt_log_out *out)
{
	if (rdt_ana_log(req, out))
		req->status = nvme_status(NVME_SCT_GENERIC, NVME_SC_INTERNAL);
}

static void feature_effects_log(struct rdt_req *req, const struct rdt_log_out *out)
{
	for (unsigned int fid = 0; fid < 256; fid++) {
		__le32 e = htole32(rdt_feature_effects(req->qp->ctrl->subsys, fid));

		rdt_log_put(out, fid * sizeof(e), &e, sizeof(e));
	}
}

/* No NVMe-MI commands are supported. */
static void mi_effects_log(struct rdt_req *req, const struct rdt_log_out *out)
{
}

static void discovery_log(struct rdt_req *req, const struct rdt_log_out *out)
{
	if (rdt_discovery_log(req->qp, out))
		req->status = nvme_status(NVME_SCT_GENERIC, NVME_SC_INTERNAL);
}

static uint64_t discovery_log_size(const struct rdt_req *req)
{
	return rdt_discovery_log_size(req->qp);
}

static void reservation_log(struct rdt_req *req, const struct rdt_log_out *out)
{
	struct nvme_resv_notification_log page;

	rdt_resv_log_take(req->qp->ctrl, &page, !RAE(req));
	rdt_log_put(out, 0, &page, sizeof(page));
}

static void supported_log(struct rdt_req *req, const struct rdt_log_out *out);

enum have { HAVE_IO = 1, HAVE_DISC = 2, HAVE_BOTH = 3 };

/* The table of log pages. @size: for pages with variable length. */
static const struct log_page {
	uint8_t lid;
	uint8_t have; /* bit mask of controller types */
	uint32_t len;
	uint64_t (*size)(const struct rdt_req *req);
	void (*put)(struct rdt_req *req, const struct rdt_log_out *out);
} pages[] = {
	{NVME_LOG_LID_SUPPORTED_LOG_PAGES, HAVE_BOTH, sizeof(struct nvme_supported_log_pages), NULL,
	 supported_log},
	{NVME_LOG_LID_ERROR, HAVE_BOTH, RDT_ERROR_LOG * sizeof(struct nvme_error_log_page), NULL,
	 put_error_log},
	{NVME_LOG_LID_SMART, HAVE_IO, sizeof(struct nvme_smart_log), NULL, smart_log},
	{NVME_LOG_LID_FW_SLOT, HAVE_IO, sizeof(struct nvme_firmware_slot), NULL, firmware_log},
	{NVME_LOG_LID_CHANGED_NS, HAVE_IO, sizeof(struct nvme_ns_list), NULL, changed_ns_log},
	{NVME_LOG_LID_CMD_EFFECTS, HAVE_BOTH, sizeof(struct nvme_cmd_effects_log), NULL,
	 effects_log},
	{NVME_LOG_LID_ANA, HAVE_IO, 0, rdt_ana_log_max, ana_log},
	{NVME_LOG_LID_FID_SUPPORTED_EFFECTS, HAVE_BOTH,
	 sizeof(struct nvme_fid_supported_effects_log), NULL, feature_effects_log},
	{NVME_LOG_LID_MI_CMD_SUPPORTED_EFFECTS, HAVE_BOTH,
	 sizeof(struct nvme_mi_cmd_supported_effects_log), NULL, mi_effects_log},
	{NVME_LOG_LID_DISCOVER, HAVE_DISC, 0, discovery_log_size, discovery_log},
	{NVME_LOG_LID_RESERVATION, HAVE_IO, sizeof(struct nvme_resv_notification_log), NULL,
	 reservation_log},
};

static const struct log_page *find_page(const struct rdt_req *req, unsigned int lid)
{
	uint8_t have = rdt_subsys_is_disc(req->qp->ctrl->subsys) ? HAVE_DISC : HAVE_IO;

	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
		if (pages[i].lid == lid && pages[i].have & have)
			return &pages[i];
	return NULL;
}

static void supported_log(struct rdt_req *req, const struct rdt_log_out *out)
{
	for (unsigned int lid = 0; lid < NVME_LOG_SUPPORTED_LOG_PAGES_MAX; lid++) {
		__le32 e = htole32(find_page(req, lid) ? LSUPP : 0);

		rdt_log_put(out, lid * sizeof(e), &e, sizeof(e));
	}
}

struct nvme_status rdt_get_log_check(struct rdt_req *req)
{
	uint64_t numd = ((le32toh(req->sqe.cdw10) >> 16) |
			 (uint64_t)(le32toh(req->sqe.cdw11) & 0xffff) << 16) +
			1;
	const struct log_page *page = find_page(req, LID(req));
	uint32_t nsid = le32toh(req->sqe.nsid);
	uint64_t size;

	if (!page)
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_INVALID_LOG_PAGE,
				    RDT_LOC(cdw10));
	size = page->size ? page->size(req) : page->len;
	/* No page is per namespace (LPA bit 0, for SMART). */
	if (nsid && nsid != NVME_NSID_ALL)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(nsid));
	/* Locations are those of the fields: NUMDL, OT and CSI do not begin their dwords. */
	if (numd * 4 > rdt_req_target(req)->cfg->target.max_data_bytes)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD,
				    RDT_LOC(cdw10) + 2);
	if (window_offset(req) % 4 || window_offset(req) > size)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw12));
	if (le32toh(req->sqe.cdw14) & OFFSET_INDEX)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD,
				    (RDT_LOC(cdw14) + 2) | 7 << 8);
	if (LID(req) == NVME_LOG_LID_CMD_EFFECTS && CSI(req) != NVME_CSI_NVM)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD,
				    RDT_LOC(cdw14) + 3);
	req->data_len = (uint32_t)(numd * 4);
	return NVME_OK;
}

enum rdt_exec rdt_get_log_exec(struct rdt_req *req)
{
	struct rdt_log_out out = {
		.dst = req->buf,
		.offset = window_offset(req),
		.len = req->data_len,
	};

	memset(req->buf, 0, req->data_len);
	/* Before the page is generated, because later changes may be missing in it. */
	rdt_event_log_read(req->qp->ctrl, LID(req), out.offset, RAE(req));
	find_page(req, LID(req))->put(req, &out);
	return RDT_EXEC_DONE;
}
