/* SPDX-License-Identifier: BSD-3-Clause */
/* admin.log: log pages. */
#include <string.h>

#include "suites.h"

#define LSUPP 1u
#define ALL   NVME_NSID_ALL

/* Reads an optional page; a controller without it returns Invalid Log Page (or Invalid Field
 * before 1.3). */
static void *optional(struct rdc *t, struct rdc_host *h, uint8_t lid, uint32_t nsid, uint32_t len)
{
	void *data = rdc_buf(t, len);
	struct rdc_reply r = rdc_get_log(h, lid, nsid, 0, data, len);

	if (RDC_CODE(r) == RDC_CS(NVME_SC_INVALID_LOG_PAGE) || RDC_CODE(r) == NVME_SC_INVALID_FIELD)
		rdc_not_supported(t, "Get Log Page %02Xh is answered with %s", lid,
				  RDC_CODE(r) == NVME_SC_INVALID_FIELD ? "Invalid Field"
								       : "Invalid Log Page");
	RDC_OK(t, r, "Get Log Page");
	return data;
}

static void mandatory(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	RDC_OK(t, rdc_get_log(h, (uint8_t)t->arg, ALL, 0, rdc_buf(t, 512), 512),
	       "Get Log Page of a mandatory page");
}

static void supported_self(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	const struct nvme_supported_log_pages *log = optional(t, h, 0, 0, sizeof(*log));
	static const uint8_t must[] = {0, 1, 2, 3};
	unsigned int i;

	for (i = 0; i < sizeof(must); i++)
		RDC_CHECK(t, le32toh(log->lid_support[must[i]]) & LSUPP,
			  "page %02Xh, which is mandatory, is not listed", must[i]);
}

static void supported_true(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	const struct nvme_supported_log_pages *log = optional(t, h, 0, 0, sizeof(*log));
	void *data = rdc_buf(t, 512);
	unsigned int lid;

	for (lid = 0; lid < 0xc0; lid++) {
		bool listed = le32toh(log->lid_support[lid]) & LSUPP;
		struct rdc_reply r;
		bool lacks;

		/* These pages need a parameter that this test does not know. */
		if (lid == 0x07 || lid == 0x09 || lid == 0x0a || lid == 0x0d || lid == 0x15)
			continue;
		r = rdc_get_log(h, (uint8_t)lid, lid == 0x02 ? ALL : 0, 0, data, 512);
		lacks = RDC_CODE(r) == RDC_CS(NVME_SC_INVALID_LOG_PAGE);
		RDC_CHECK(t, listed != lacks, "page %02Xh is %slisted, but answered with %s", lid,
			  listed ? "" : "not ", lacks ? "Invalid Log Page" : "something else");
	}
}

static void supported_none(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	RDC_STATUS(t, rdc_get_log(h, (uint8_t)t->arg, ALL, 0, rdc_buf(t, 512), 512),
		   "Get Log Page of a reserved page", RDC_CS(NVME_SC_INVALID_LOG_PAGE),
		   NVME_SC_INVALID_FIELD);
}

/* ---- errors ---- */

static void error_ring(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct nvme_error_log_page *e = rdc_buf(t, 64);
	uint64_t before, after;

	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_ERROR, ALL, 0, e, 64), "Get Log Page 01h");
	before = le64toh(e->error_count);
	RDC_REFUSED(t, rdc_read(h, UINT64_MAX, 1, rdc_buf(t, h->bs)),
		    "Read of block FFFFFFFFFFFFFFFFh");
	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_ERROR, ALL, 0, e, 64), "Get Log Page 01h");
	after = le64toh(e->error_count);
	if (after == before)
		rdc_not_supported(t, "a refused Read makes no entry (the entry is at the "
				     "controller's discretion)");
	RDC_CHECK(t, after > before, "the number of error log entries went from %llu to %llu",
		  (unsigned long long)before, (unsigned long long)after);
	RDC_CHECK(t, le16toh(e->status_field) >> 1 & 0xff, "the newest entry has status 0x%04x",
		  le16toh(e->status_field));
}

static void error_order(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	unsigned int i, n = h->id.elpe + 1u;
	struct nvme_error_log_page *e = rdc_buf(t, 64 * n);

	for (i = 0; i < 3; i++) {
		RDC_REFUSED(t, rdc_read(h, UINT64_MAX, 1, rdc_buf(t, h->bs)),
			    "Read of block FFFFFFFFFFFFFFFFh");
	}
	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_ERROR, ALL, 0, e, 64 * n),
	       "Get Log Page 01h of ELPE + 1 entries");
	for (i = 1; i < n && e[i].error_count; i++)
		RDC_CHECK(t, le64toh(e[i].error_count) < le64toh(e[i - 1].error_count),
			  "entry %u is not older than the one before it", i);
}

/* ---- health ---- */

static uint64_t low64(const uint8_t *v)
{
	uint64_t x;

	memcpy(&x, v, sizeof(x));
	return le64toh(x);
}

static void smart_sane(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct nvme_smart_log *log = rdc_buf(t, sizeof(*log));

	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_SMART, ALL, 0, log, sizeof(*log)),
	       "Get Log Page 02h");
	RDC_CHECK(t, log->avail_spare <= 100 && log->spare_thresh <= 100,
		  "available spare %u%%, threshold %u%%", log->avail_spare, log->spare_thresh);
	RDC_CHECK(t, !(log->critical_warning & 0xc0), "critical warning 0x%02x has reserved bits",
		  log->critical_warning);
}

static void smart_counts(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct nvme_smart_log *log = rdc_buf(t, sizeof(*log));
	uint64_t reads;
	unsigned int i;

	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_SMART, ALL, 0, log, sizeof(*log)),
	       "Get Log Page 02h");
	reads = low64(log->host_reads);
	for (i = 0; i < 10; i++) {
		RDC_OK(t, rdc_read(h, 0, 1, rdc_buf(t, h->bs)), "Read");
	}
	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_SMART, ALL, 0, log, sizeof(*log)),
	       "Get Log Page 02h");
	RDC_CHECK(t, low64(log->host_reads) >= reads + 10,
		  "ten reads took the count of host reads from %llu to %llu",
		  (unsigned long long)reads, (unsigned long long)low64(log->host_reads));
}

static void smart_per_ns(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_reply r = rdc_get_log(h, NVME_LOG_LID_SMART, h->nsid, 0, rdc_buf(t, 512), 512);

	if (h->id.lpa & NVME_CTRL_LPA_SMART_PER_NS)
		RDC_OK(t, r, "Get Log Page 02h of a namespace, which LPA bit 0 says is supported");
	else
		RDC_STATUS(t, r,
			   "Get Log Page 02h of a namespace, which LPA bit 0 says is not supported",
			   NVME_SC_INVALID_FIELD, NVME_SC_INVALID_NS);
}

/* ---- firmware ---- */

static void firmware(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	const struct nvme_firmware_slot *log =
		optional(t, h, NVME_LOG_LID_FW_SLOT, ALL, sizeof(*log));
	unsigned int slot = log->afi & 7;

	RDC_CHECK(t, slot >= 1, "AFI 0x%02x: no slot is active", log->afi);
	RDC_CHECK(t, memcmp(log->frs[slot - 1], h->id.fr, 8) == 0,
		  "slot %u has \"%.8s\", Identify \"%.8s\"", slot, log->frs[slot - 1], h->id.fr);
}

/* ---- changed namespaces ---- */

static void changed_ns(struct rdc *t)
{
	struct rdc_host *h = rdc_host_open(t, 0, NULL);
	__le32 *list;

	list = optional(t, h, NVME_LOG_LID_CHANGED_NS, ALL, 4096);
	RDC_CHECK(t, list[0] == 0, "namespace %u has changed since this host connected",
		  le32toh(list[0]));
}

/* ---- effects ---- */

static const struct nvme_cmd_effects_log *effects(struct rdc *t, struct rdc_host *h)
{
	if (!(h->id.lpa & NVME_CTRL_LPA_CMD_EFFECTS))
		rdc_not_supported(t, "LPA 0x%02x: no Commands Supported and Effects", h->id.lpa);
	return optional(t, h, NVME_LOG_LID_CMD_EFFECTS, 0, sizeof(struct nvme_cmd_effects_log));
}

static void effects_mandatory(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	const struct nvme_cmd_effects_log *log = effects(t, h);
	static const uint8_t admin[] = {0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18};
	static const uint8_t io[] = {0x00, 0x01, 0x02};
	unsigned int i;

	for (i = 0; i < sizeof(admin); i++)
		RDC_CHECK(t, le32toh(log->acs[admin[i]]) & 1, "admin command %02Xh is not listed",
			  admin[i]);
	for (i = 0; i < sizeof(io); i++)
		RDC_CHECK(t, le32toh(log->iocs[io[i]]) & 1, "I/O command %02Xh is not listed",
			  io[i]);
}

static void effects_oncs(struct rdc *t)
{
	static const struct {
		uint8_t opcode;
		uint16_t bit;
	} map[] = {
		{nvme_cmd_compare, NVME_CTRL_ONCS_COMPARE},
		{nvme_cmd_write_uncor, NVME_CTRL_ONCS_WRITE_UNCORRECTABLE},
		{nvme_cmd_dsm, NVME_CTRL_ONCS_DSM},
		{nvme_cmd_write_zeroes, NVME_CTRL_ONCS_WRITE_ZEROES},
		{nvme_cmd_resv_register, NVME_CTRL_ONCS_RESERVATIONS},
		{nvme_cmd_verify, NVME_CTRL_ONCS_VERIFY},
		{nvme_cmd_copy, NVME_CTRL_ONCS_COPY},
	};
	struct rdc_host *h = rdc_main(t);
	const struct nvme_cmd_effects_log *log = effects(t, h);
	unsigned int i;

	for (i = 0; i < sizeof(map) / sizeof(map[0]); i++) {
		bool listed = le32toh(log->iocs[map[i].opcode]) & 1;
		bool oncs = le16toh(h->id.oncs) & map[i].bit;

		RDC_CHECK(t, listed == oncs, "I/O command %02Xh is %slisted, ONCS is 0x%04x",
			  map[i].opcode, listed ? "" : "not ", le16toh(h->id.oncs));
	}
}

static void effects_refused(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	const struct nvme_cmd_effects_log *log = effects(t, h);
	unsigned int op;

	for (op = 0; op < NVMF_OPCODE; op++) {
		struct rdc_reply r;

		if (le32toh(log->iocs[op]) & 1)
			continue;
		r = rdc_io(h, .opcode = (uint8_t)op, .nsid = h->nsid);
		RDC_CHECK(t, RDC_CODE(r) == NVME_SC_INVALID_OPCODE,
			  "I/O command %02Xh is not listed, but its status is 0x%03x", op,
			  RDC_CODE(r));
	}
}

static void effects_write(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	const struct nvme_cmd_effects_log *log = effects(t, h);

	RDC_CHECK(t, le32toh(log->iocs[nvme_cmd_write]) & 2, "Write does not change data (LBCC)");
	RDC_CHECK(t, !(le32toh(log->iocs[nvme_cmd_read]) & 2), "Read changes data (LBCC)");
}

static void feature_effects(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	const struct nvme_fid_supported_effects_log *log =
		optional(t, h, NVME_LOG_LID_FID_SUPPORTED_EFFECTS, 0, sizeof(*log));
	static const uint8_t plain[] = {0x01, 0x02, 0x06, 0x07, 0x0b, 0x0f};
	unsigned int i;

	for (i = 0; i < sizeof(plain); i++) {
		struct rdc_reply r = rdc_get_feature(h, plain[i], 0, 0, 0, NULL, 0);
		bool listed = le32toh(log->fid_support[plain[i]]) & 1;

		RDC_CHECK(t, listed == !r.err, "feature %02Xh is %slisted, Get Features is 0x%03x",
			  plain[i], listed ? "" : "not ", RDC_CODE(r));
	}
}

/* ---- ANA ---- */

static unsigned int in_its_group(struct rdc *t, const struct rdc_host *h,
				 const struct nvme_ana_group_desc *d)
{
	RDC_CHECK(t, d->grpid == h->ns.anagrpid, "namespace %u is in group %u, Identify says %u",
		  h->nsid, le32toh(d->grpid), le32toh(h->ns.anagrpid));
	RDC_CHECK(t, (d->state & 0xf) == 1 || (d->state & 0xf) == 2,
		  "state %u of a group whose namespace was read", d->state & 0xf);
	return 1;
}

static void ana(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	const struct nvme_ana_log *log;
	unsigned int g, i, seen = 0;
	const unsigned char *p;

	if (!(h->id.cmic & NVME_CTRL_CMIC_MULTI_ANA_REPORTING))
		rdc_not_supported(t, "CMIC 0x%02x: no ANA reporting", h->id.cmic);
	log = optional(t, h, NVME_LOG_LID_ANA, 0, 16384);
	p = (const unsigned char *)log->descs;
	for (g = 0; g < le16toh(log->ngrps); g++) {
		size_t left = (size_t)((const unsigned char *)log + 16384 - p);
		/* a copy, because descriptors are aligned to 4 bytes only */
		struct nvme_ana_group_desc d;

		RDC_CHECK(t, left >= sizeof(d), "group %u of %u does not fit the log", g,
			  le16toh(log->ngrps));
		memcpy(&d, p, sizeof(d));
		RDC_CHECK(t, le32toh(d.nnsids) <= (left - sizeof(d)) / 4,
			  "group %u of %u does not fit the log", g, le16toh(log->ngrps));
		RDC_CHECK(t, d.grpid && le32toh(d.grpid) <= le32toh(h->id.anagrpmax),
			  "ANA group id %u, ANAGRPMAX %u", le32toh(d.grpid),
			  le32toh(h->id.anagrpmax));
		for (i = 0; i < le32toh(d.nnsids); i++) {
			uint32_t nsid;

			memcpy(&nsid, p + sizeof(d) + 4 * (size_t)i, sizeof(nsid));
			if (le32toh(nsid) == h->nsid)
				seen += in_its_group(t, h, &d);
		}
		p += sizeof(d) + 4 * (size_t)le32toh(d.nnsids);
	}
	RDC_CHECK(t, seen == 1, "namespace %u is in %u groups", h->nsid, seen);
}

static void ana_rgo(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct nvme_ana_log *log = rdc_buf(t, 4096);

	if (!(h->id.cmic & NVME_CTRL_CMIC_MULTI_ANA_REPORTING))
		rdc_not_supported(t, "CMIC 0x%02x: no ANA reporting", h->id.cmic);
	RDC_OK(t,
	       rdc_admin(h, .opcode = nvme_admin_get_log_page, .nsid = 0,
			 .cdw10 = NVME_LOG_LID_ANA | 1u << 8 | 1023u << 16, .data = log,
			 .len = 4096),
	       "Get Log Page 0Ch, groups only");
	RDC_CHECK(t, le16toh(log->ngrps) == 0 || log->descs[0].nnsids == 0,
		  "Return Groups Only lists %u namespaces", le32toh(log->descs[0].nnsids));
}

/* ---- how pages are read ---- */

static void partial(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	unsigned char *whole = rdc_buf(t, 512), *part = rdc_buf(t, 256);

	if (!(h->id.lpa & NVME_CTRL_LPA_EXTENDED))
		rdc_not_supported(t, "LPA 0x%02x: no offsets", h->id.lpa);
	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_FW_SLOT, ALL, 0, whole, 512), "Get Log Page 03h");
	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_FW_SLOT, ALL, 8, part, 256),
	       "Get Log Page 03h from offset 8");
	RDC_CHECK(t, memcmp(whole + 8, part, 256) == 0,
		  "the page from offset 8 on differs from the whole page");
}

static void offset_beyond(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	if (!(h->id.lpa & NVME_CTRL_LPA_EXTENDED))
		rdc_not_supported(t, "LPA 0x%02x: no offsets", h->id.lpa);
	RDC_STATUS(t, rdc_get_log(h, NVME_LOG_LID_FW_SLOT, ALL, 1 << 20, rdc_buf(t, 512), 512),
		   "an offset beyond the log page", NVME_SC_INVALID_FIELD);
}

static void short_read(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	unsigned char *page = rdc_buf(t, 512), *part = rdc_buf(t, 16);

	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_FW_SLOT, ALL, 0, page, 512), "Get Log Page 03h");
	RDC_OK(t, rdc_get_log(h, NVME_LOG_LID_FW_SLOT, ALL, 0, part, 16),
	       "the first 16 bytes of page 03h");
	RDC_CHECK(t, memcmp(page, part, 16) == 0, "the first 16 bytes differ from the whole page");
}

static void reservation_empty(struct rdc *t)
{
	struct rdc_host *h = rdc_host_open(t, 0, NULL);
	const struct nvme_resv_notification_log *log;

	rdc_need_oncs(h, NVME_CTRL_ONCS_RESERVATIONS, "reservations");
	log = optional(t, h, NVME_LOG_LID_RESERVATION, 0, sizeof(*log));
	RDC_CHECK(t, log->rnlpt == 0 && log->nalp == 0,
		  "a new controller has a notification: "
		  "type %u, %u more",
		  log->rnlpt, log->nalp);
}

const struct rdc_test rdc_t_log[] = {
	{"error", "Base 5.16.1.2", "page 01h can be read", mandatory, 0, NVME_LOG_LID_ERROR},
	{"smart", "Base 5.16.1.3", "page 02h can be read", mandatory, 0, NVME_LOG_LID_SMART},
	{"firmware_there", "Base 5.16.1.4", "page 03h can be read", mandatory, 0,
	 NVME_LOG_LID_FW_SLOT},
	{"supported_self", "Base 5.16.1.1", "page 00h lists the mandatory pages", supported_self},
	{"supported_true", "Base 5.16.1.1",
	 "pages are supported if and only if page 00h lists them", supported_true},
	{"reserved_7f", "Base 5.16", "page 7Fh, reserved, is Invalid Log Page", supported_none, 0,
	 0x7f},
	{"reserved_9f", "Base 5.16", "page 9Fh, of a command set that is not supported, is refused",
	 supported_none, 0, 0x9f},
	{"error_ring", "Base 5.16.1.2", "a refused command makes an entry with its status",
	 error_ring},
	{"error_order", "Base 5.16.1.2", "ELPE entries can be read, the newest first", error_order},
	{"smart_sane", "Base 5.16.1.3", "the values of page 02h are in their ranges", smart_sane},
	{"smart_counts", "Base 5.16.1.3", "reads are counted", smart_counts},
	{"smart_per_ns", "Base 5.16.1.3",
	 "LPA bit 0 says whether page 02h is supported per namespace", smart_per_ns},
	{"firmware", "Base 5.16.1.4", "the active slot has the revision of Identify", firmware},
	{"changed_ns", "Base 5.16.1.5", "no namespace has changed for a new host", changed_ns},
	{"effects_mandatory", "Base 5.16.1.6", "page 05h lists the mandatory commands",
	 effects_mandatory},
	{"effects_oncs", "Base 5.16.1.6", "page 05h agrees with ONCS", effects_oncs},
	{"effects_refused", "Base 5.16.1.6",
	 "commands that page 05h does not list are Invalid Opcode", effects_refused},
	{"effects_write", "Base 5.16.1.6",
	 "page 05h says that Write changes data and Read does not", effects_write},
	{"feature_effects", "Base 5.16.1.18", "page 12h agrees with Get Features", feature_effects},
	{"ana", "Base 5.16.1.13", "page 0Ch has the namespace once, in an accessible group", ana},
	{"ana_rgo", "Base 5.16.1.13", "Return Groups Only lists no namespaces", ana_rgo},
	{"partial", "Base 5.16", "an offset returns the page from that byte on", partial},
	{"offset_beyond", "Base 5.16", "an offset beyond the page is Invalid Field", offset_beyond},
	{"short_read", "Base 5.16", "a page can be read in part", short_read},
	{"reservation_empty", "Base 5.16.1.24", "page 80h of a new controller is empty",
	 reservation_empty},
	{NULL},
};
