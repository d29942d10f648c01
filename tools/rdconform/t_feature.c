/* SPDX-License-Identifier: BSD-3-Clause */
/* admin.feature: Get Features and Set Features. */
#include <string.h>
#include <uuid/uuid.h>

#include "suites.h"

enum { CURRENT, DEFAULT, SAVED, CAPABILITIES };

#define CAP_SAVEABLE   1u
#define CAP_CHANGEABLE 4u

/* Features with data: a target that lacks the feature may check the length first. */
static bool refused_as_unknown(const struct rdc_reply *r)
{
	return RDC_CODE(*r) == NVME_SC_INVALID_FIELD || RDC_CODE(*r) == NVME_SC_SGL_INVALID_DATA;
}

static uint32_t must_get(struct rdc *t, struct rdc_host *h, uint8_t fid, uint32_t cdw11)
{
	struct rdc_reply r = rdc_get_feature(h, fid, CURRENT, 0, cdw11, NULL, 0);

	RDC_OK(t, r, "Get Features");
	return (uint32_t)r.result;
}

static uint32_t optional_get(struct rdc *t, struct rdc_host *h, uint8_t fid, uint32_t nsid,
			     uint32_t cdw11)
{
	struct rdc_reply r = rdc_get_feature(h, fid, CURRENT, nsid, cdw11, NULL, 0);

	if (refused_as_unknown(&r))
		rdc_not_supported(t, "Get Features %02Xh is answered with Invalid Field", fid);
	RDC_OK(t, r, "Get Features");
	return (uint32_t)r.result;
}

static void mandatory(struct rdc *t)
{
	must_get(t, rdc_main(t), (uint8_t)t->arg, 0);
}

static void unknown_get(struct rdc *t)
{
	RDC_STATUS(t, rdc_get_feature(rdc_main(t), (uint8_t)t->arg, CURRENT, 0, 0, NULL, 0),
		   "Get Features of a feature that is not supported", NVME_SC_INVALID_FIELD);
}

static void unknown_set(struct rdc *t)
{
	RDC_STATUS(t, rdc_set_feature(rdc_main(t), t->arg, 0, 0, NULL, 0),
		   "Set Features of a feature that is not supported", NVME_SC_INVALID_FIELD,
		   RDC_CS(NVME_SC_FEATURE_NOT_CHANGEABLE));
}

static void need_select(struct rdc *t, struct rdc_host *h)
{
	if (!(le16toh(h->id.oncs) & NVME_CTRL_ONCS_SAVE_FEATURES))
		rdc_not_supported(t, "ONCS 0x%04x: no Save and Select", le16toh(h->id.oncs));
}

static void select_reserved(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	need_select(t, h);
	RDC_STATUS(t, rdc_get_feature(h, NVME_FEAT_FID_NUM_QUEUES, 4, 0, 0, NULL, 0),
		   "Get Features with SEL 4", NVME_SC_INVALID_FIELD);
}

static void select_default(struct rdc *t)
{
	struct rdc_host *h = rdc_host_open(t, 0, NULL);
	uint32_t before, now, dflt;
	struct rdc_reply r;

	need_select(t, h);
	r = rdc_get_feature(h, NVME_FEAT_FID_ASYNC_EVENT, DEFAULT, 0, 0, NULL, 0);
	RDC_OK(t, r, "Get Features 0Bh, default");
	dflt = (uint32_t)r.result;
	before = must_get(t, h, NVME_FEAT_FID_ASYNC_EVENT, 0);
	RDC_OK(t, rdc_set_feature(h, NVME_FEAT_FID_ASYNC_EVENT, 0, before ^ 1, NULL, 0),
	       "Set Features 0Bh");
	now = must_get(t, h, NVME_FEAT_FID_ASYNC_EVENT, 0);
	RDC_CHECK(t, now == (before ^ 1), "0x%x was set, but 0x%x is read", before ^ 1, now);
	r = rdc_get_feature(h, NVME_FEAT_FID_ASYNC_EVENT, DEFAULT, 0, 0, NULL, 0);
	RDC_OK(t, r, "Get Features 0Bh, default");
	RDC_CHECK(t, (uint32_t)r.result == dflt, "setting the current value changed the default");
}

static void select_capabilities(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_reply r;

	need_select(t, h);
	r = rdc_get_feature(h, NVME_FEAT_FID_ASYNC_EVENT, CAPABILITIES, 0, 0, NULL, 0);
	RDC_OK(t, r, "Get Features 0Bh, capabilities");
	RDC_CHECK(t, r.result & CAP_CHANGEABLE, "capabilities 0x%llx: not changeable",
		  (unsigned long long)r.result);
	RDC_CHECK(t, !(r.result & ~7ull), "capabilities 0x%llx have reserved bits",
		  (unsigned long long)r.result);
}

static void not_saveable(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_reply r;

	need_select(t, h);
	r = rdc_get_feature(h, NVME_FEAT_FID_ASYNC_EVENT, CAPABILITIES, 0, 0, NULL, 0);
	RDC_OK(t, r, "Get Features 0Bh, capabilities");
	if (r.result & CAP_SAVEABLE)
		rdc_not_supported(t, "capabilities 0x%llx: feature 0Bh can be saved",
				  (unsigned long long)r.result);
	RDC_STATUS(t, rdc_set_feature(h, NVME_FEAT_FID_ASYNC_EVENT | 1u << 31, 0, 0, NULL, 0),
		   "Set Features 0Bh with SV", RDC_CS(NVME_SC_FEATURE_NOT_SAVEABLE));
}

static void sv_without_select(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	if (le16toh(h->id.oncs) & NVME_CTRL_ONCS_SAVE_FEATURES)
		rdc_not_supported(t, "ONCS bit 4 is 1: Save is supported");
	RDC_STATUS(t, rdc_set_feature(h, NVME_FEAT_FID_ASYNC_EVENT | 1u << 31, 0, 0, NULL, 0),
		   "Set Features with SV", NVME_SC_INVALID_FIELD,
		   RDC_CS(NVME_SC_FEATURE_NOT_SAVEABLE));
}

/* ---- one by one ---- */

static void queues_get(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	uint32_t v = must_get(t, h, NVME_FEAT_FID_NUM_QUEUES, 0);

	RDC_CHECK(t, (v & 0xffff) + 1 >= h->info.io_queues,
		  "%u queues were granted, but the feature reads as %u", h->info.io_queues,
		  (v & 0xffff) + 1);
	RDC_CHECK(t, (v & 0xffff) == v >> 16,
		  "%u submission and %u completion queues: fabrics need equal numbers",
		  (v & 0xffff) + 1, (v >> 16) + 1);
}

static void queues_ffff(struct rdc *t)
{
	struct rdc_host *h = rdc_host_open(t, 0, &(struct rdc_host_opts){.no_io = true});

	RDC_STATUS(t, rdc_set_feature(h, NVME_FEAT_FID_NUM_QUEUES, 0, t->arg, NULL, 0),
		   "65536 queues", NVME_SC_INVALID_FIELD);
}

static void queues_late(struct rdc *t)
{
	RDC_STATUS(
		t,
		rdc_set_feature(rdc_main(t), NVME_FEAT_FID_NUM_QUEUES, 0, 1u << 16 | 1u, NULL, 0),
		"Number of Queues after I/O queues were made", NVME_SC_CMD_SEQ_ERROR);
}

static void round_trip(struct rdc *t, struct rdc_host *h, uint8_t fid, uint32_t nsid,
		       uint32_t value)
{
	struct rdc_reply r;
	uint32_t old = optional_get(t, h, fid, nsid, 0), now;

	r = rdc_set_feature(h, fid, nsid, value, NULL, 0);
	if (RDC_CODE(r) == RDC_CS(NVME_SC_FEATURE_NOT_CHANGEABLE))
		rdc_not_supported(t, "feature %02Xh is not changeable", fid);
	RDC_OK(t, r, "Set Features");
	now = optional_get(t, h, fid, nsid, 0);
	RDC_CHECK(t, now == value, "feature %02Xh: 0x%x was set, but 0x%x is read", fid, value,
		  now);
	RDC_OK(t, rdc_set_feature(h, fid, nsid, old, NULL, 0), "Set Features, the old value");
}

static void arbitration(struct rdc *t)
{
	round_trip(t, rdc_main(t), NVME_FEAT_FID_ARBITRATION, 0, 3);
}

static void power_state(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	optional_get(t, h, NVME_FEAT_FID_POWER_MGMT, 0, 0);
	if (h->id.npss >= 31)
		rdc_not_supported(t, "NPSS %u: every power state exists", h->id.npss);
	RDC_STATUS(t, rdc_set_feature(h, NVME_FEAT_FID_POWER_MGMT, 0, h->id.npss + 1u, NULL, 0),
		   "a power state beyond NPSS", NVME_SC_INVALID_FIELD);
}

static void temperature(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	uint32_t old = optional_get(t, h, NVME_FEAT_FID_TEMP_THRESH, 0, 0), now;

	RDC_OK(t, rdc_set_feature(h, NVME_FEAT_FID_TEMP_THRESH, 0, 400, NULL, 0),
	       "Temperature Threshold 400 K");
	now = optional_get(t, h, NVME_FEAT_FID_TEMP_THRESH, 0, 0);
	RDC_CHECK(t, (now & 0xffff) == 400, "400 K was set, but %u K is read", now & 0xffff);
	rdc_set_feature(h, NVME_FEAT_FID_TEMP_THRESH, 0, old, NULL, 0);
}

static void temperature_select(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	optional_get(t, h, NVME_FEAT_FID_TEMP_THRESH, 0, 0);
	RDC_STATUS(t, rdc_set_feature(h, NVME_FEAT_FID_TEMP_THRESH, 0, 400 | 9u << 16, NULL, 0),
		   "Temperature Threshold of sensor 9", NVME_SC_INVALID_FIELD);
}

static void error_recovery(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	round_trip(t, h, NVME_FEAT_FID_ERR_RECOVERY, h->nsid, 5);
}

static void write_cache(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_reply r = rdc_get_feature(h, NVME_FEAT_FID_VOLATILE_WC, CURRENT, 0, 0, NULL, 0);

	if (h->id.vwc & NVME_CTRL_VWC_PRESENT)
		RDC_OK(t, r, "Get Features 06h with a volatile write cache");
	else
		RDC_STATUS(t, r, "Get Features 06h without a volatile write cache",
			   NVME_SC_INVALID_FIELD);
}

static void atomicity(struct rdc *t)
{
	round_trip(t, rdc_main(t), NVME_FEAT_FID_WRITE_ATOMIC, 0, 1);
}

static void event_config(struct rdc *t)
{
	struct rdc_host *h = rdc_host_open(t, 0, NULL);

	round_trip(t, h, NVME_FEAT_FID_ASYNC_EVENT, 0,
		   (le32toh(h->id.oaes) & (NVME_CTRL_OAES_NA | NVME_CTRL_OAES_ANA)) | 0x1f);
}

static void timestamp(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	uint8_t *set = rdc_buf(t, 8), *got = rdc_buf(t, 8);
	uint64_t v = UINT64_C(1700000000000), now = 0;

	rdc_need_oncs(h, NVME_CTRL_ONCS_TIMESTAMP, "timestamp");
	memcpy(set, &(uint64_t){htole64(v)}, 6);
	RDC_OK(t, rdc_set_feature(h, NVME_FEAT_FID_TIMESTAMP, 0, 0, set, 8),
	       "Set Features, Timestamp");
	RDC_OK(t, rdc_get_feature(h, NVME_FEAT_FID_TIMESTAMP, CURRENT, 0, 0, got, 8),
	       "Get Features, Timestamp");
	memcpy(&now, got, 6);
	now = le64toh(now);
	RDC_CHECK(t, now >= v && now < v + 3600000, "%llu ms was set, but %llu ms is read",
		  (unsigned long long)v, (unsigned long long)now);
	RDC_CHECK(t, (got[6] >> 1 & 7) == 1, "the origin is %u, not \"set by a host\"",
		  got[6] >> 1 & 7);
}

static void kato_get(struct rdc *t)
{
	struct rdc_host *h =
		rdc_host_open(t, 0, &(struct rdc_host_opts){.kato_ms = 30000, .no_io = true});
	uint32_t v = must_get(t, h, NVME_FEAT_FID_KATO, 0);

	RDC_CHECK(t, v >= 30000, "Connect asked for 30000 ms, the timer is %u ms", v);
}

static void kato_set(struct rdc *t)
{
	struct rdc_host *h =
		rdc_host_open(t, 0, &(struct rdc_host_opts){.kato_ms = 30000, .no_io = true});
	uint32_t v, kas = le16toh(h->id.kas) * 100u;

	RDC_OK(t, rdc_set_feature(h, NVME_FEAT_FID_KATO, 0, 60001, NULL, 0),
	       "Keep Alive Timer 60001 ms");
	v = must_get(t, h, NVME_FEAT_FID_KATO, 0);
	RDC_CHECK(t, v >= 60001 && v <= 60001 + kas,
		  "60001 ms was set, the timer is %u ms, KAS %u ms", v, kas);
}

static void host_behavior(struct rdc *t)
{
	struct rdc_host *h = rdc_host_open(t, 0, NULL);
	unsigned char *set = rdc_buf(t, 512), *got = rdc_buf(t, 512);
	struct rdc_reply r =
		rdc_get_feature(h, NVME_FEAT_FID_HOST_BEHAVIOR, CURRENT, 0, 0, got, 512);

	if (refused_as_unknown(&r))
		rdc_not_supported(t, "Get Features 16h is answered with status 0x%03x",
				  RDC_CODE(r));
	RDC_OK(t, r, "Get Features, Host Behavior Support");
	set[0] = 1; /* ACRE */
	RDC_OK(t, rdc_set_feature(h, NVME_FEAT_FID_HOST_BEHAVIOR, 0, 0, set, 512),
	       "Set Features, Host Behavior Support");
	RDC_OK(t, rdc_get_feature(h, NVME_FEAT_FID_HOST_BEHAVIOR, CURRENT, 0, 0, got, 512),
	       "Get Features, Host Behavior Support");
	RDC_CHECK(t, got[0] == 1, "ACRE 1 was set, but %u is read", got[0]);
}

static void host_behavior_bad(struct rdc *t)
{
	struct rdc_host *h = rdc_host_open(t, 0, NULL);
	unsigned char *set = rdc_buf(t, 512);
	struct rdc_reply r =
		rdc_get_feature(h, NVME_FEAT_FID_HOST_BEHAVIOR, CURRENT, 0, 0, set, 512);

	if (refused_as_unknown(&r))
		rdc_not_supported(t, "Get Features 16h is answered with status 0x%03x",
				  RDC_CODE(r));
	set[0] = 2;
	RDC_STATUS(t, rdc_set_feature(h, NVME_FEAT_FID_HOST_BEHAVIOR, 0, 0, set, 512), "ACRE 2",
		   NVME_SC_INVALID_FIELD);
}

static void host_id(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	unsigned char *got = rdc_buf(t, 16);
	uuid_t want;

	RDC_OK(t, rdc_get_feature(h, NVME_FEAT_FID_HOST_ID, CURRENT, 0, 1, got, 16),
	       "Get Features, Host Identifier, extended");
	RDC_CHECK(t, uuid_parse(t->cfg->hostid[0], want) == 0, "the host identifier is not a UUID");
	RDC_CHECK(t, memcmp(got, want, 16) == 0,
		  "the host identifier differs from the one of Connect");
}

static void host_id_short(struct rdc *t)
{
	RDC_STATUS(t,
		   rdc_get_feature(rdc_main(t), NVME_FEAT_FID_HOST_ID, CURRENT, 0, 0, rdc_buf(t, 8),
				   8),
		   "Get Features, Host Identifier of 64 bits", NVME_SC_INVALID_FIELD,
		   NVME_SC_SGL_INVALID_DATA, NVME_SC_HOSTID_FORMAT);
}

static void host_id_set(struct rdc *t)
{
	RDC_STATUS(t, rdc_set_feature(rdc_main(t), NVME_FEAT_FID_HOST_ID, 0, 1, rdc_buf(t, 16), 16),
		   "Set Features, Host Identifier", NVME_SC_CMD_SEQ_ERROR,
		   NVME_SC_SGL_INVALID_DATA);
}

static void bad_nsid(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	optional_get(t, h, NVME_FEAT_FID_ERR_RECOVERY, h->nsid, 0);
	if (le32toh(h->id.nn) >= 0xfffffffe)
		rdc_not_supported(t, "NN allows every NSID");
	RDC_STATUS(t,
		   rdc_get_feature(h, NVME_FEAT_FID_ERR_RECOVERY, CURRENT, le32toh(h->id.nn) + 1, 0,
				   NULL, 0),
		   "Get Features of a namespace beyond NN", NVME_SC_INVALID_NS,
		   NVME_SC_INVALID_FIELD);
}

static void not_per_ns(struct rdc *t)
{
	struct rdc_host *h = rdc_host_open(t, 0, NULL);

	RDC_STATUS(t, rdc_set_feature(h, NVME_FEAT_FID_ASYNC_EVENT, h->nsid, 0, NULL, 0),
		   "Set Features 0Bh of a namespace", RDC_CS(NVME_SC_FEATURE_NOT_PER_NS),
		   NVME_SC_INVALID_FIELD);
}

static uint32_t raw_feature(struct rdc_raw *raw, uint8_t opcode, uint32_t value)
{
	struct nvme_sqe sqe = {
		.opcode = opcode,
		.cdw10 = htole32(NVME_FEAT_FID_ASYNC_EVENT),
		.cdw11 = htole32(value),
	};
	struct rdc_raw_reply rr;

	rdc_sgl_none(raw, &sqe);
	rr = rdc_raw_cmd(raw, &sqe);
	RDC_OK(raw->t, rr.r, "Get or Set Features 0Bh");
	return (uint32_t)rr.r.result;
}

static void reset_restores(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_admin(t, 0);
	uint32_t before = raw_feature(raw, nvme_admin_get_features, 0);

	raw_feature(raw, nvme_admin_set_features, before ^ 3);
	rdc_raw_enable(raw, false);
	rdc_raw_enable(raw, true);
	RDC_CHECK(t, raw_feature(raw, nvme_admin_get_features, 0) == before,
		  "the event configuration is that of before the reset");
}

static void of_other_hosts(struct rdc *t)
{
	struct rdc_host *a = rdc_host_open(t, 0, NULL), *b = rdc_second(t);
	uint32_t before = must_get(t, b, NVME_FEAT_FID_ASYNC_EVENT, 0);

	RDC_OK(t, rdc_set_feature(a, NVME_FEAT_FID_ASYNC_EVENT, 0, 3, NULL, 0), "Set Features 0Bh");
	RDC_CHECK(t, must_get(t, b, NVME_FEAT_FID_ASYNC_EVENT, 0) == before,
		  "one host's event configuration changed another's");
}

const struct rdc_test rdc_t_feature[] = {
	{"queues_there", "Base 3.1.2.1.1", "Number of Queues is supported", mandatory, 0,
	 NVME_FEAT_FID_NUM_QUEUES},
	{"events_there", "Base 3.1.2.1.1", "Asynchronous Event Configuration is supported",
	 mandatory, 0, NVME_FEAT_FID_ASYNC_EVENT},
	{"kato_there", "Base 3.1.2.1.1", "Keep Alive Timer is supported", mandatory, 0,
	 NVME_FEAT_FID_KATO},
	{"arbitration_there", "Base 3.1.2.1.1", "Arbitration is supported", mandatory, 0,
	 NVME_FEAT_FID_ARBITRATION},
	{"power_there", "Base 3.1.2.1.1", "Power Management is supported", mandatory, 0,
	 NVME_FEAT_FID_POWER_MGMT},
	{"temperature_there", "Base 3.1.2.1.1", "Temperature Threshold is supported", mandatory, 0,
	 NVME_FEAT_FID_TEMP_THRESH},
	{"get_00", "Base 5.15", "feature 00h, reserved, is Invalid Field", unknown_get, 0, 0x00},
	{"get_77", "Base 5.15", "feature 77h, reserved, is Invalid Field", unknown_get, 0, 0x77},
	{"set_00", "Base 5.27", "setting feature 00h is Invalid Field", unknown_set, 0, 0x00},
	{"set_77", "Base 5.27", "setting feature 77h is Invalid Field", unknown_set, 0, 0x77},
	{"select_reserved", "Base 5.15", "a reserved SEL is Invalid Field", select_reserved},
	{"select_default", "Base 4.2", "the default value does not change with the current value",
	 select_default},
	{"select_capabilities", "Base 5.15", "capabilities say whether a feature is changeable",
	 select_capabilities},
	{"not_saveable", "Base 5.27",
	 "SV for a feature that cannot be saved is Feature Not Saveable", not_saveable},
	{"sv_without_select", "Base 5.27", "SV without Save and Select is refused",
	 sv_without_select},
	{"queues_get", "Base 5.27.1.5", "Number of Queues reads as granted, in pairs", queues_get},
	{"queues_nsqr", "Base 5.27.1.5", "NSQR FFFFh is Invalid Field", queues_ffff, 0, 0x0000ffff},
	{"queues_ncqr", "Base 5.27.1.5", "NCQR FFFFh is Invalid Field", queues_ffff, 0, 0xffff0000},
	{"queues_late", "Base 5.27.1.5",
	 "Set Features Number of Queues after I/O queues exist is Command Sequence Error",
	 queues_late},
	{"arbitration", "Base 5.27.1.1", "Arbitration reads as set", arbitration},
	{"power_state", "Base 5.27.1.2", "a power state beyond NPSS is Invalid Field", power_state},
	{"temperature", "Base 5.27.1.3", "Temperature Threshold reads as set", temperature},
	{"temperature_select", "Base 5.27.1.3", "a reserved sensor is Invalid Field",
	 temperature_select},
	{"error_recovery", "NVM 4.1.3", "Error Recovery reads as set", error_recovery},
	{"write_cache", "Base 5.27.1.4",
	 "Volatile Write Cache is supported if and only if VWC reports a cache", write_cache},
	{"atomicity", "NVM 4.1.3", "Write Atomicity Normal reads as set", atomicity},
	{"event_config", "Base 5.27.1.8", "Asynchronous Event Configuration reads as set",
	 event_config},
	{"timestamp", "Base 5.27.1.11", "the timestamp continues from the value that was set",
	 timestamp},
	{"kato_get", "Base 5.27.1.12", "the keep-alive timer is at least the KATO of Connect",
	 kato_get},
	{"kato_set", "Base 5.27.1.12", "the keep-alive timer is rounded up to the granularity KAS",
	 kato_set},
	{"host_behavior", "Base 5.27.1.18", "Host Behavior Support reads as set", host_behavior},
	{"host_behavior_bad", "Base 5.27.1.18", "a reserved ACRE is Invalid Field",
	 host_behavior_bad},
	{"host_id", "Base 5.27.1.25", "the host identifier is the one of Connect", host_id},
	{"host_id_short", "Base 5.27.1.25", "the host identifier has 128 bits over fabrics",
	 host_id_short},
	{"host_id_set", "Base 5.27.1.25", "the host identifier cannot be set over fabrics",
	 host_id_set},
	{"bad_nsid", "Base 3.2.1.2", "a feature of a namespace that does not exist is refused",
	 bad_nsid},
	{"not_per_ns", "Base 5.27",
	 "setting a feature of the controller for a namespace is refused", not_per_ns},
	{"reset", "Base 3.7.2", "a controller reset restores a feature that is not saved",
	 reset_restores},
	{"of_other_hosts", "Base 4.2", "a feature set on one controller does not change on another",
	 of_other_hosts},
	{NULL},
};
