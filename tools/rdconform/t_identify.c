/* SPDX-License-Identifier: BSD-3-Clause */
/* admin.identify: each structure, and its consistency with the others. */
#include <string.h>

#include "suites.h"

#define BASE_CTRL "Base 5.17.2.1"
#define NVM_NS    "NVM 4.1.5.1"

/* ---- the controller ---- */

static void entry_sizes(struct rdc *t)
{
	const struct nvme_id_ctrl *id = &rdc_main(t)->id;

	RDC_CHECK(t, id->sqes == 0x66 && id->cqes == 0x44,
		  "SQES 0x%02x, CQES 0x%02x: fabrics have 64 and 16 bytes only", id->sqes,
		  id->cqes);
}

static void cntlid(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	RDC_CHECK(t, le16toh(h->id.cntlid) == h->info.cntlid, "CNTLID %u, Connect said %u",
		  le16toh(h->id.cntlid), h->info.cntlid);
}

static void subnqn(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	RDC_CHECK(t, strncmp(h->id.subnqn, t->cfg->uri.subnqn, sizeof(h->id.subnqn)) == 0,
		  "SUBNQN \"%.223s\"", h->id.subnqn);
}

static void check_ascii(struct rdc *t, const char *name, const char *s, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if (s[i] < 0x20 || s[i] > 0x7e)
			RDC_FAIL(t, "byte %zu of %s is 0x%02x: not printable ASCII", i, name,
				 (unsigned char)s[i]);
	}
}

static void strings(struct rdc *t)
{
	const struct nvme_id_ctrl *id = &rdc_main(t)->id;

	check_ascii(t, "SN", id->sn, sizeof(id->sn));
	check_ascii(t, "MN", id->mn, sizeof(id->mn));
	check_ascii(t, "FR", id->fr, sizeof(id->fr));
}

static void capsules(struct rdc *t)
{
	const struct nvme_id_ctrl *id = &rdc_main(t)->id;

	RDC_CHECK(t, le32toh(id->ioccsz) >= 4, "IOCCSZ %u: no room for a command",
		  le32toh(id->ioccsz));
	RDC_CHECK(t, le32toh(id->iorcsz) == 1, "IORCSZ %u: a response is 16 bytes",
		  le32toh(id->iorcsz));
}

static void sgls(struct rdc *t)
{
	uint32_t v = le32toh(rdc_main(t)->id.sgls);
	bool keyed = v & NVME_CTRL_SGLS_KEYED;

	RDC_CHECK(t, (v & 3) == 1 || (v & 3) == 2, "SGLS 0x%08x: SGLs are not supported", v);
	RDC_CHECK(t, keyed == !t->cfg->uri.tcp, "SGLS 0x%08x: %s keyed descriptors", v,
		  keyed ? "NVMe/TCP has no" : "no");
}

static void keep_alive(struct rdc *t)
{
	RDC_CHECK(t, rdc_main(t)->id.kas, "KAS is 0, and fabrics demand Keep Alive");
}

static void maxcmd(struct rdc *t)
{
	/* MAXCMD may exceed the queue size. */
	RDC_CHECK(t, rdc_main(t)->id.maxcmd, "MAXCMD is 0, and fabrics demand it");
}

static void cntrltype(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	if (h->info.vs < 0x10400)
		rdc_not_supported(t, "VS 0x%x: CNTRLTYPE exists since 1.4", h->info.vs);
	RDC_CHECK(t, h->id.cntrltype == 1, "CNTRLTYPE %u, expected 1: an I/O controller",
		  h->id.cntrltype);
}

static void nn(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	uint32_t n = le32toh(h->id.nn), mnan = le32toh(h->id.mnan);

	RDC_CHECK(t, h->nsid <= n, "NN is %u, but there is a namespace %u", n, h->nsid);
	RDC_CHECK(t, mnan <= n, "MNAN %u is more than NN %u", mnan, n);
}

static void ana_fields(struct rdc *t)
{
	const struct nvme_id_ctrl *id = &rdc_main(t)->id;

	if (!(id->cmic & NVME_CTRL_CMIC_MULTI_ANA_REPORTING))
		rdc_not_supported(t, "CMIC 0x%02x: no ANA reporting", id->cmic);
	RDC_CHECK(t, id->anatt != 0, "ANATT is 0");
	RDC_CHECK(t, le32toh(id->anagrpmax) && le32toh(id->nanagrpid) <= le32toh(id->anagrpmax),
		  "ANAGRPMAX %u, NANAGRPID %u", le32toh(id->anagrpmax), le32toh(id->nanagrpid));
	RDC_CHECK(t, le32toh(rdc_main(t)->ns.anagrpid) != 0, "the namespace is in ANA group 0");
}

static void repeatable(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	void *data = rdc_buf(t, 4096);

	RDC_OK(t, rdc_identify(h, NVME_IDENTIFY_CNS_CTRL, 0, 0, data), "Identify Controller");
	RDC_CHECK(t, memcmp(data, &h->id, 4096) == 0, "two answers differ");
}

/* ---- namespaces ---- */

static void ns_sizes(struct rdc *t)
{
	const struct nvme_id_ns *ns = &rdc_main(t)->ns;

	RDC_CHECK(t, ns->nsze && ns->ncap, "NSZE or NCAP of an active namespace is 0");
	RDC_CHECK(t, le64toh(ns->ncap) <= le64toh(ns->nsze), "NCAP is more than NSZE");
	RDC_CHECK(t, le64toh(ns->nuse) <= le64toh(ns->ncap), "NUSE is more than NCAP");
}

static void ns_format(struct rdc *t)
{
	const struct nvme_id_ns *ns = &rdc_main(t)->ns;
	unsigned int i = (ns->flbas & 0xf) | (ns->nlbaf > 15 ? (ns->flbas >> 5 & 3u) << 4 : 0);

	RDC_CHECK(t, i <= ns->nlbaf, "FLBAS names format %u, NLBAF is %u", i, ns->nlbaf);
	RDC_CHECK(t, ns->lbaf[i].ds >= 9, "LBADS %u: less than 512 bytes", ns->lbaf[i].ds);
}

static bool is_zero(const void *p, size_t len)
{
	const unsigned char *b = p;

	while (len && !b[len - 1])
		len--;
	return len == 0;
}

static void ns_inactive(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	uint32_t nsid = rdc_inactive_nsid(h);
	void *data = rdc_buf(t, 4096);

	if (!nsid)
		rdc_not_supported(t, "NN %u: every NSID is active", le32toh(h->id.nn));
	RDC_OK(t, rdc_identify(h, NVME_IDENTIFY_CNS_NS, nsid, 0, data),
	       "Identify Namespace of an inactive NSID");
	RDC_CHECK(t, is_zero(data, 4096), "the structure of an inactive NSID is not all zeroes");
}

/* CNS in bits 7:0 of the argument; an NSID of a kind in bits 15:8. */
#define NSID_ZERO      0u
#define NSID_BEYOND    1u
#define NSID_ALL       2u
#define ARG(cns, kind) ((cns) | (kind) << 8)

static uint32_t nsid_of(struct rdc *t, struct rdc_host *h)
{
	uint32_t nsid;

	switch (t->arg >> 8 & 0xff) {
	case NSID_ZERO:
		return 0;
	case NSID_ALL:
		return NVME_NSID_ALL;
	case NSID_BEYOND:
		if (le32toh(h->id.nn) >= 0xfffffffe)
			rdc_not_supported(t, "NN allows every NSID");
		return le32toh(h->id.nn) + 1;
	default:
		nsid = rdc_inactive_nsid(h);
		if (!nsid)
			rdc_not_supported(t, "NN %u: every NSID is active", le32toh(h->id.nn));
		return nsid;
	}
}

static void bad_nsid(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	uint32_t nsid = nsid_of(t, h);

	if (nsid == NVME_NSID_ALL && (le16toh(h->id.oacs) & NVME_CTRL_OACS_NS_MGMT))
		rdc_not_supported(t, "OACS bit 3: NSID FFFFFFFFh asks for the common capabilities");
	RDC_STATUS(t, rdc_identify(h, t->arg & 0xff, nsid, 0, rdc_buf(t, 4096)),
		   "Identify with a wrong NSID", NVME_SC_INVALID_NS);
}

/* Reads an optional structure; a controller without it returns Invalid Field. */
static void *optional(struct rdc *t, struct rdc_host *h, uint8_t cns, uint32_t nsid, uint32_t cdw11)
{
	void *data = rdc_buf(t, 4096);
	struct rdc_reply r = rdc_identify(h, cns, nsid, cdw11, data);

	if (RDC_CODE(r) == NVME_SC_INVALID_FIELD || RDC_CODE(r) == RDC_CS(NVME_SC_INVALID_IOCS))
		rdc_not_supported(t, "Identify CNS %02Xh is answered with %s", cns,
				  RDC_CODE(r) == NVME_SC_INVALID_FIELD ? "Invalid Field"
								       : "Invalid I/O Command Set");
	RDC_OK(t, r, "Identify");
	return data;
}

static void list_order(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	__le32 *list = rdc_buf(t, 4096);
	bool there = false, end = false;
	unsigned int i;

	RDC_OK(t, rdc_identify(h, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 0, 0, list),
	       "Identify, active namespaces");
	for (i = 0; i < 1024; i++) {
		uint32_t nsid = le32toh(list[i]);

		there |= nsid == h->nsid;
		RDC_CHECK(t, !nsid || !end, "entry %u after the end of the list is %u", i, nsid);
		RDC_CHECK(t, nsid <= le32toh(h->id.nn), "NSID %u is beyond NN", nsid);
		RDC_CHECK(t, !nsid || !i || nsid > le32toh(list[i - 1]), "NSID %u is not ascending",
			  nsid);
		end |= nsid == 0;
	}
	RDC_CHECK(t, there, "namespace %u is missing", h->nsid);
}

static void list_after(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	__le32 *list = rdc_buf(t, 4096);

	RDC_OK(t, rdc_identify(h, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, h->nsid, 0, list),
	       "Identify, active namespaces");
	RDC_CHECK(t, !list[0] || le32toh(list[0]) > h->nsid,
		  "the list after NSID %u begins with %u", h->nsid, le32toh(list[0]));
}

static void list_bad_start(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	RDC_STATUS(t,
		   rdc_identify(h, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, t->arg, 0, rdc_buf(t, 4096)),
		   "a list from an impossible NSID on", NVME_SC_INVALID_NS);
}

/* ---- descriptors ---- */

static void descriptors(struct rdc *t)
{
	static const uint8_t lengths[] = {[1] = 8, [2] = 16, [3] = 16, [4] = 1};
	struct rdc_host *h = rdc_main(t);
	unsigned char *data = rdc_buf(t, 4096);
	unsigned int at = 0, ids = 0, seen = 0;

	RDC_OK(t, rdc_identify(h, NVME_IDENTIFY_CNS_NS_DESC_LIST, h->nsid, 0, data),
	       "Identify, namespace descriptors");
	/* Descriptors: type, length, two reserved bytes, the identifier; not aligned. */
	while (at + 4 <= 4096 && data[at + 1]) {
		unsigned int type = data[at], len = data[at + 1];
		const unsigned char *id = &data[at + 4];

		RDC_CHECK(t, type >= 1 && type <= 4 && len == lengths[type] && at + 4 + len <= 4096,
			  "a descriptor of type %u with %u bytes", type, len);
		RDC_CHECK(t, !(seen & 1u << type), "two descriptors of type %u", type);
		seen |= 1u << type;
		ids += type <= 3;
		if (type == 1)
			RDC_CHECK(t, memcmp(id, h->ns.eui64, 8) == 0,
				  "EUI64 differs from "
				  "Identify Namespace");
		if (type == 2)
			RDC_CHECK(t, memcmp(id, h->ns.nguid, 16) == 0,
				  "NGUID differs from "
				  "Identify Namespace");
		at += 4 + len;
	}
	RDC_CHECK(t, ids, "none of EUI64, NGUID and UUID");
	if (NVME_CAP_CSS(h->info.cap) & NVME_CAP_CSS_CSI)
		RDC_CHECK(t, seen & 1u << NVME_NIDT_CSI,
			  "no command set, although CAP.CSS has bit 6");
}

static void descriptors_same_host(struct rdc *t)
{
	struct rdc_host *a = rdc_main(t), *b = rdc_second(t);
	void *one = rdc_buf(t, 4096), *two = rdc_buf(t, 4096);

	RDC_OK(t, rdc_identify(a, NVME_IDENTIFY_CNS_NS_DESC_LIST, a->nsid, 0, one),
	       "Identify, namespace descriptors");
	RDC_OK(t, rdc_identify(b, NVME_IDENTIFY_CNS_NS_DESC_LIST, a->nsid, 0, two),
	       "Identify, namespace descriptors, by the second host");
	RDC_CHECK(t, memcmp(one, two, 4096) == 0, "two hosts see different identifiers");
}

/* ---- NVMe 2.0's structures ---- */

static void csi_ns(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	optional(t, h, NVME_IDENTIFY_CNS_CSI_NS, h->nsid, 0);
}

static void csi_ctrl(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	const struct nvme_id_ctrl_nvm *nvm = optional(t, h, NVME_IDENTIFY_CNS_CSI_CTRL, 0, 0);
	uint16_t oncs = le16toh(h->id.oncs);

	RDC_CHECK(t, !nvm->vsl || (oncs & NVME_CTRL_ONCS_VERIFY), "VSL %u without Verify",
		  nvm->vsl);
	RDC_CHECK(t, !nvm->dmrl || (oncs & NVME_CTRL_ONCS_DSM),
		  "DMRL %u without Dataset Management", nvm->dmrl);
	/* Reserved in all versions up to NVMe 2.1; bytes 24:16 are until NVMe 2.0, but a controller
	 * may have a feature of a later version. */
	RDC_CHECK(t, le32toh(h->id.ver) > 0x20100 || is_zero((const uint8_t *)nvm + 25, 4096 - 25),
		  "reserved bytes are not zero");
}

static void csi_unknown(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	optional(t, h, NVME_IDENTIFY_CNS_CSI_CTRL, 0, 0);
	RDC_STATUS(t, rdc_identify(h, NVME_IDENTIFY_CNS_CSI_CTRL, 0, 0x2fu << 24, rdc_buf(t, 4096)),
		   "Identify of command set 2Fh", NVME_SC_INVALID_FIELD,
		   RDC_CS(NVME_SC_INVALID_IOCS), RDC_CS(NVME_SC_IOCS_NOT_SUPPORTED));
}

static void csi_list(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	void *plain = rdc_buf(t, 4096),
	     *csi = optional(t, h, NVME_IDENTIFY_CNS_CSI_NS_ACTIVE_LIST, 0, 0);
	__le32 *p = plain, *c = csi;
	unsigned int i;

	RDC_OK(t, rdc_identify(h, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 0, 0, plain),
	       "Identify, active namespaces");
	for (i = 0; c[0] && i < 1024; i++) {
		while (*p && *p != *c)
			p++;
		RDC_CHECK(t, *p == *c, "NSID %u is in the list of the NVM command set only",
			  le32toh(*c));
		if (!*++c)
			break;
	}
}

static void independent(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	const struct nvme_id_independent_id_ns *ns =
		optional(t, h, NVME_IDENTIFY_CNS_CSI_INDEPENDENT_ID_NS, h->nsid, 0);

	RDC_CHECK(t,
		  ns->nmic == h->ns.nmic && ns->rescap == h->ns.rescap &&
			  ns->nsattr == h->ns.nsattr && ns->anagrpid == h->ns.anagrpid,
		  "NMIC, RESCAP, NSATTR or ANAGRPID differ from Identify Namespace");
	RDC_CHECK(t, ns->nstat & 1, "NSTAT 0x%02x: an active namespace that is not ready",
		  ns->nstat);
}

static void command_sets(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	__le64 *v = rdc_buf(t, 4096);
	struct rdc_reply r = rdc_admin(h, .opcode = nvme_admin_identify,
				       .cdw10 = NVME_IDENTIFY_CNS_COMMAND_SET_STRUCTURE |
						(uint32_t)h->info.cntlid << 16,
				       .data = v, .len = 4096);

	if (RDC_CODE(r) == NVME_SC_INVALID_FIELD)
		rdc_not_supported(t, "Identify CNS 1Ch is answered with Invalid Field");
	RDC_OK(t, r, "Identify, command sets");
	RDC_CHECK(t, le64toh(v[0]) & 1, "the first combination, 0x%llx, lacks the NVM command set",
		  (unsigned long long)le64toh(v[0]));
}

static void controllers(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	uint8_t cns = (uint8_t)t->arg;
	const __le16 *list =
		optional(t, h, cns, cns == NVME_IDENTIFY_CNS_NS_CTRL_LIST ? h->nsid : 0, 0);
	unsigned int i, n = le16toh(list[0]);
	bool there = false;

	RDC_CHECK(t, n <= 2047, "a list of %u controllers", n);
	for (i = 1; i <= n; i++) {
		there |= le16toh(list[i]) == h->info.cntlid;
		RDC_CHECK(t, i == 1 || le16toh(list[i]) > le16toh(list[i - 1]),
			  "controller %u is not ascending", le16toh(list[i]));
	}
	RDC_CHECK(t, there, "the controller of this host, %u, is missing", h->info.cntlid);
}

static void controllers_from(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	const __le16 *list;

	if (h->info.cntlid >= 0xffef)
		rdc_not_supported(t, "the controller of this host has the greatest id");
	list = rdc_buf(t, 4096);
	optional(t, h, NVME_IDENTIFY_CNS_CTRL_LIST, 0, 0);
	list = rdc_buf(t, 4096);
	RDC_OK(t,
	       ((struct rdc_reply[]){
		       rdc_admin(h, .opcode = nvme_admin_identify,
				 .cdw10 = NVME_IDENTIFY_CNS_CTRL_LIST | (h->info.cntlid + 1u) << 16,
				 .data = (void *)(uintptr_t)list, .len = 4096)})[0],
	       "Identify, controllers from an id on");
	RDC_CHECK(t, !list[0] || le16toh(list[1]) > h->info.cntlid,
		  "the list from controller id %u on begins with %u", h->info.cntlid + 1u,
		  le16toh(list[1]));
}

static void allocated(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	const __le32 *list = optional(t, h, NVME_IDENTIFY_CNS_ALLOCATED_NS_LIST, 0, 0);
	unsigned int i;

	for (i = 0; i < 1024 && list[i]; i++) {
		if (le32toh(list[i]) == h->nsid)
			return;
	}
	RDC_FAIL(t, "the active namespace %u is not in the list of allocated namespaces", h->nsid);
}

static void cns_refused(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);

	RDC_STATUS(t, rdc_identify(h, (uint8_t)t->arg, 0, 0, rdc_buf(t, 4096)),
		   "Identify with a reserved CNS", NVME_SC_INVALID_FIELD);
}

const struct rdc_test rdc_t_identify[] = {
	{"entry_sizes", BASE_CTRL, "queue entries are 64 and 16 bytes", entry_sizes},
	{"cntlid", BASE_CTRL, "CNTLID is the one of the Connect response", cntlid},
	{"subnqn", BASE_CTRL, "SUBNQN is the one of Connect", subnqn},
	{"strings", BASE_CTRL, "SN, MN and FR are ASCII, padded with blanks", strings},
	{"capsules", BASE_CTRL, "IOCCSZ and IORCSZ hold a command and a response", capsules},
	{"sgls", BASE_CTRL, "SGLs are supported, keyed ones over RDMA only", sgls},
	{"keep_alive", BASE_CTRL, "KAS is not 0", keep_alive},
	{"maxcmd", BASE_CTRL, "MAXCMD is not 0", maxcmd},
	{"cntrltype", BASE_CTRL, "CNTRLTYPE is 01h, an I/O controller", cntrltype},
	{"nn", BASE_CTRL, "NN is not less than any active NSID", nn},
	{"ana_fields", BASE_CTRL, "with ANA reporting, the ANA fields are set", ana_fields},
	{"repeatable", BASE_CTRL, "two Identify commands return the same data", repeatable},
	{"ns_sizes", NVM_NS, "NUSE <= NCAP <= NSZE", ns_sizes},
	{"ns_format", NVM_NS, "the format in use exists", ns_format},
	{"ns_inactive", "Base 5.17.2.1", "an inactive NSID is answered with zeroes", ns_inactive},
	{"ns_zero", "Base 3.2.1.2", "CNS 00h, NSID 0 is Invalid Namespace", bad_nsid, 0,
	 ARG(0, NSID_ZERO)},
	{"ns_beyond", "Base 3.2.1.2", "CNS 00h, NSID beyond NN is Invalid Namespace", bad_nsid, 0,
	 ARG(0, NSID_BEYOND)},
	{"ns_all", "Base 5.17.1",
	 "CNS 00h, NSID FFFFFFFFh without namespace management is Invalid "
	 "Namespace",
	 bad_nsid, 0, ARG(0, NSID_ALL)},
	{"list_order", "Base 5.17.2.2", "the list of active namespaces is ascending and complete",
	 list_order},
	{"list_after", "Base 5.17.2.2", "the list begins after the NSID of the command",
	 list_after},
	{"list_from_last", "Base 5.17.2.2",
	 "a list that begins after FFFFFFFEh is Invalid Namespace", list_bad_start, 0, 0xfffffffe},
	{"list_from_all", "Base 5.17.2.2",
	 "a list that begins after FFFFFFFFh is Invalid Namespace", list_bad_start, 0, 0xffffffff},
	{"descriptors", "Base 5.17.2.3", "the descriptors are well-formed and agree with CNS 00h",
	 descriptors},
	{"descriptors_same_host", "Base 5.17.2.3", "all hosts see the same identifiers",
	 descriptors_same_host},
	{"descriptors_zero", "Base 5.17.2.3", "CNS 03h, NSID 0 is Invalid Namespace", bad_nsid, 0,
	 ARG(3, NSID_ZERO)},
	{"descriptors_beyond", "Base 5.17.2.3", "CNS 03h, NSID beyond NN is Invalid Namespace",
	 bad_nsid, 0, ARG(3, NSID_BEYOND)},
	{"csi_ns", "Base 5.17.2.5", "CNS 05h is supported for the NVM command set", csi_ns},
	{"csi_ctrl", "Base 5.17.2.6", "CNS 06h agrees with ONCS", csi_ctrl},
	{"csi_unknown", "Base 5.17.2.6", "an unknown command set is refused", csi_unknown},
	{"csi_list", "Base 5.17.2.7", "CNS 07h lists active namespaces only", csi_list},
	{"independent", "Base 5.17.2.8", "CNS 08h agrees with CNS 00h", independent},
	{"command_sets", "Base 5.17.2.20", "CNS 1Ch offers the NVM command set", command_sets},
	{"controllers_of_ns", "Base 5.17.2.11", "CNS 12h lists the controller of this host",
	 controllers, 0, NVME_IDENTIFY_CNS_NS_CTRL_LIST},
	{"controllers", "Base 5.17.2.12", "CNS 13h lists the controller of this host", controllers,
	 0, NVME_IDENTIFY_CNS_CTRL_LIST},
	{"controllers_from", "Base 5.17.2.12", "CNS 13h begins at the controller id of the command",
	 controllers_from},
	{"allocated", "Base 5.17.2.9", "CNS 10h lists the active namespace", allocated},
	{"cns_1f", "Base 5.17.1", "CNS 1Fh, reserved, is Invalid Field", cns_refused, 0, 0x1f},
	{"cns_80", "Base 5.17.1", "CNS 80h, reserved, is Invalid Field", cns_refused, 0, 0x80},
	{NULL},
};
