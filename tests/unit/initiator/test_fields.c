/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of rdinit's verbs against the structures and the constants of libnvme. */
#include <linux/types.h>
#include <nvme/types.h>
#include <string.h>

#include "fields.h"
#include "suites.h"
#include "table.h"

/* clang-format off */
#define CTRL_MEMBERS(x) \
	x(vid) x(ssvid) x(sn) x(mn) x(fr) x(rab) x(ieee) x(cmic) x(mdts) x(cntlid) x(ver) \
	x(rtd3r) x(rtd3e) x(oaes) x(ctratt) x(rrls) x(cntrltype) x(fguid) x(crdt1) \
	x(crdt2) x(crdt3) x(nvmsr) x(vwci) x(mec) x(oacs) x(acl) x(aerl) x(frmw) x(lpa) \
	x(elpe) x(npss) x(avscc) x(apsta) x(wctemp) x(cctemp) x(mtfa) x(hmpre) x(hmmin) \
	x(tnvmcap) x(unvmcap) x(rpmbs) x(edstt) x(dsto) x(fwug) x(kas) x(hctma) x(mntmt) \
	x(mxtmt) x(sanicap) x(hmminds) x(hmmaxd) x(nsetidmax) x(endgidmax) x(anatt) \
	x(anacap) x(anagrpmax) x(nanagrpid) x(pels) x(domainid) x(megcap) x(sqes) x(cqes) \
	x(maxcmd) x(nn) x(oncs) x(fuses) x(fna) x(vwc) x(awun) x(awupf) x(icsvscc) x(nwpc) \
	x(acwu) x(ocfs) x(sgls) x(mnan) x(maxdna) x(maxcna) x(subnqn) x(ioccsz) x(iorcsz) \
	x(icdoff) x(fcatt) x(msdbd) x(ofcs)

#define NS_MEMBERS(x) \
	x(nsze) x(ncap) x(nuse) x(nsfeat) x(nlbaf) x(flbas) x(mc) x(dpc) x(dps) x(nmic) \
	x(rescap) x(fpi) x(dlfeat) x(nawun) x(nawupf) x(nacwu) x(nabsn) x(nabo) x(nabspf) \
	x(noiob) x(nvmcap) x(npwg) x(npwa) x(npdg) x(npda) x(nows) x(mssrl) x(mcl) x(msrc) \
	x(nulbaf) x(anagrpid) x(nsattr) x(nvmsetid) x(endgid) x(nguid) x(eui64)
/* clang-format on */

/* Where libnvme has the member of a name in JSON. */
struct member {
	const struct cli_shape *shape;
	const char *name;
	size_t offset, len;
};

#define AT(shape, type, name, member)                                    \
	{                                                                \
		&cli_shape_##shape, name, offsetof(struct type, member), \
			sizeof(((struct type *)0)->member)               \
	}
#define SAME(shape, type, member) AT(shape, type, #member, member)
#define CTRL(member)              SAME(id_ctrl, nvme_id_ctrl, member),
#define NS(member)                SAME(id_ns, nvme_id_ns, member),
#define IND(member)               SAME(ind_ns, nvme_id_independent_id_ns, member)
#define NVM(member)               SAME(nvm_ctrl, nvme_id_ctrl_nvm, member)
#define SMART(name, member)       AT(smart, nvme_smart_log, name, member)
#define GROUP(name, member)       AT(endurance, nvme_endurance_group_log, name, member)
#define RESV(member)              SAME(resv_report, nvme_resv_status, member)
#define NOTIF(name, member)       AT(resv_notif, nvme_resv_notification_log, name, member)
#define LATER(shape, name, at, n)               \
	{                                       \
		&cli_shape_##shape, name, at, n \
	}
#define SENSOR(n) AT(smart, nvme_smart_log, "temperature_sensor_" #n, temp_sensor[(n)-1])

static const struct member members[] = {
	CTRL_MEMBERS(CTRL) NS_MEMBERS(NS) IND(nsfeat),
	IND(nmic),
	IND(rescap),
	IND(fpi),
	IND(anagrpid),
	IND(nsattr),
	IND(nvmsetid),
	IND(endgid),
	IND(nstat),
	NVM(vsl),
	NVM(wzsl),
	NVM(wusl),
	NVM(dmrl),
	NVM(dmrsl),
	NVM(dmsl),
	SAME(nvm_ns, nvme_nvm_id_ns, lbstm),
	SAME(nvm_ns, nvme_nvm_id_ns, pic),
	SMART("critical_warning", critical_warning),
	SMART("temperature", temperature),
	SMART("avail_spare", avail_spare),
	SMART("spare_thresh", spare_thresh),
	SMART("percent_used", percent_used),
	SMART("endurance_grp_critical_warning_summary", endu_grp_crit_warn_sumry),
	SMART("data_units_read", data_units_read),
	SMART("data_units_written", data_units_written),
	SMART("host_read_commands", host_reads),
	SMART("host_write_commands", host_writes),
	SMART("controller_busy_time", ctrl_busy_time),
	SMART("power_cycles", power_cycles),
	SMART("power_on_hours", power_on_hours),
	SMART("unsafe_shutdowns", unsafe_shutdowns),
	SMART("media_errors", media_errors),
	SMART("num_err_log_entries", num_err_log_entries),
	SMART("warning_temp_time", warning_temp_time),
	SMART("critical_comp_time", critical_comp_time),
	SENSOR(1),
	SENSOR(2),
	SENSOR(3),
	SENSOR(4),
	SENSOR(5),
	SENSOR(6),
	SENSOR(7),
	SENSOR(8),
	SMART("thm_temp1_trans_count", thm_temp1_trans_count),
	SMART("thm_temp2_trans_count", thm_temp2_trans_count),
	SMART("thm_temp1_total_time", thm_temp1_total_time),
	SMART("thm_temp2_total_time", thm_temp2_total_time),
	GROUP("critical_warning", critical_warning),
	GROUP("avl_spare", avl_spare),
	GROUP("avl_spare_threshold", avl_spare_threshold),
	GROUP("percent_used", percent_used),
	GROUP("endurance_estimate", endurance_estimate),
	GROUP("data_units_read", data_units_read),
	GROUP("data_units_written", data_units_written),
	GROUP("media_units_written", media_units_written),
	GROUP("host_read_cmds", host_read_cmds),
	GROUP("host_write_cmds", host_write_cmds),
	GROUP("media_data_integrity_err", media_data_integrity_err),
	GROUP("num_err_info_log_entries", num_err_info_log_entries),
	NOTIF("count", lpc),
	NOTIF("rn_log_type", rnlpt),
	NOTIF("num_logs", nalp),
	NOTIF("NSID", nsid),
	AT(fw, nvme_firmware_slot, "Active Firmware Slot (afi)", afi),
	SAME(ana, nvme_ana_log, chgcnt),
	SAME(ana, nvme_ana_log, ngrps),
	RESV(gen),
	RESV(rtype),
	RESV(regctl),
	RESV(ptpls),
	SAME(lba_status, nvme_lba_status, nlsd),
	SAME(lba_status, nvme_lba_status, cmpc),
	/* Reserved in libnvme 1.3: where the specification has them. */
	LATER(id_ctrl, "bpcap", 102, 1),
	LATER(id_ctrl, "nssl", 104, 4),
	LATER(id_ctrl, "plsi", 110, 1),
	LATER(id_ctrl, "crcap", 134, 1),
	LATER(id_ctrl, "kpioc", 358, 1),
	LATER(id_ctrl, "mptfawr", 360, 2),
	LATER(id_ctrl, "tmpthha", 384, 1),
	LATER(id_ctrl, "cqt", 386, 2),
	LATER(id_ctrl, "oaqd", 564, 4),
	LATER(id_ctrl, "rhiri", 568, 1),
	LATER(id_ctrl, "hirt", 569, 1),
	LATER(id_ctrl, "cmmrtd", 570, 2),
	LATER(id_ctrl, "nmmrtd", 572, 2),
	LATER(id_ctrl, "minmrtg", 574, 1),
	LATER(id_ctrl, "maxmrtg", 575, 1),
	LATER(id_ctrl, "trattr", 576, 1),
	LATER(id_ctrl, "mcudmq", 578, 2),
	LATER(id_ctrl, "mnsudmq", 580, 2),
	LATER(id_ctrl, "mcmr", 582, 2),
	LATER(id_ctrl, "nmcmr", 584, 2),
	LATER(id_ctrl, "mcdqpc", 586, 2),
	LATER(id_ns, "kpios", 81, 1),
	LATER(id_ns, "kpiodaag", 84, 4),
	LATER(ind_ns, "kpios", 15, 1),
	LATER(ind_ns, "maxkt", 16, 2),
	LATER(ind_ns, "rgrpid", 20, 4),
	LATER(nvm_ctrl, "kpiocap", 16, 1),
	LATER(nvm_ctrl, "wzdsl", 17, 1),
	LATER(nvm_ctrl, "aocs", 18, 2),
	LATER(nvm_ctrl, "ver", 20, 4),
	LATER(nvm_ctrl, "lbamqf", 24, 1),
	LATER(nvm_ns, "pifa", 9, 1),
	LATER(nvm_ns, "npdgl", 268, 4),
	LATER(nvm_ns, "nprg", 272, 4),
	LATER(nvm_ns, "npra", 276, 4),
	LATER(nvm_ns, "nors", 280, 4),
	LATER(nvm_ns, "npdal", 284, 4),
	LATER(nvm_ns, "lbapss", 288, 4),
	LATER(nvm_ns, "tlbaag", 292, 4),
	LATER(endurance, "endurance_group_features", 1, 1),
	LATER(endurance, "domain_identifier", 6, 2),
	LATER(endurance, "total_end_grp_cap", 160, 16),
	LATER(endurance, "unalloc_end_grp_cap", 176, 16),
	{&cli_shape_properties, "cap", NVME_REG_CAP, 8},
	{&cli_shape_properties, "vs", NVME_REG_VS, 4},
	{&cli_shape_properties, "cc", NVME_REG_CC, 4},
	{&cli_shape_properties, "csts", NVME_REG_CSTS, 4},
	{&cli_shape_properties, "nssr", NVME_REG_NSSR, 4},
	{&cli_shape_properties, "crto", NVME_REG_CRTO, 4},
};

/* Where libnvme has the items of a list. */
static const struct member lists[] = {
	{&cli_shape_id_ctrl, "psds", offsetof(struct nvme_id_ctrl, psd),
	 sizeof(struct nvme_id_psd)},
	{&cli_shape_id_ns, "lbafs", offsetof(struct nvme_id_ns, lbaf), sizeof(struct nvme_lbaf)},
	{&cli_shape_nvm_ns, "elbafs", offsetof(struct nvme_nvm_id_ns, elbaf), sizeof(__le32)},
	{&cli_shape_errors, "errors", 0, sizeof(struct nvme_error_log_page)},
	{&cli_shape_resv_report, "regctlext", offsetof(struct nvme_resv_status, regctl_eds),
	 sizeof(struct nvme_registered_ctrl_ext)},
	{&cli_shape_lba_status, "lsde", sizeof(struct nvme_lba_status),
	 sizeof(struct nvme_lba_status_desc)},
	{&cli_shape_effects, "admin_cmd_set", offsetof(struct nvme_cmd_effects_log, acs),
	 sizeof(__le32)},
	{&cli_shape_effects, "io_cmd_set", offsetof(struct nvme_cmd_effects_log, iocs),
	 sizeof(__le32)},
};

#define N(a) (sizeof(a) / sizeof((a)[0]))

static const struct cli_field *field_of(const struct cli_shape *s, const char *name)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		if (strcmp(s->fields[i].name, name) == 0)
			return &s->fields[i];
	}
	return NULL;
}

static void fields_are_where_libnvme_has_them(void)
{
	const struct cli_field *f;
	size_t i;

	for (i = 0; i < N(members); i++) {
		f = field_of(members[i].shape, members[i].name);
		if (!f || f->offset != members[i].offset || f->len != members[i].len || f->bits)
			printf("# %s\n", members[i].name);
		CU_ASSERT_PTR_NOT_NULL_FATAL(f);
		CU_ASSERT_EQUAL(f->offset, members[i].offset);
		CU_ASSERT_EQUAL(f->len, members[i].len);
		CU_ASSERT_EQUAL(f->bits, 0);
	}
}

static void lists_are_where_libnvme_has_them(void)
{
	const struct cli_list *l;
	size_t i;

	for (i = 0; i < N(lists); i++) {
		l = lists[i].shape->lists;
		while (strcmp(l->name, lists[i].name) != 0)
			l++;
		CU_ASSERT_EQUAL(l->first, lists[i].offset);
		CU_ASSERT_EQUAL(l->size, lists[i].len);
	}
}

static bool is_compared(const struct cli_shape *s, const char *name)
{
	size_t i;

	for (i = 0; i < N(members); i++) {
		if (members[i].shape == s && strcmp(members[i].name, name) == 0)
			return true;
	}
	return false;
}

/* Of the structures of the protocol: others are rdinit's own. */
static void all_fields_are_compared(void)
{
	size_t i, j;

	for (i = 0; i < N(members); i++) {
		const struct cli_shape *s = members[i].shape;

		for (j = 0; j < s->n; j++) {
			if (strcmp(s->fields[j].name, "uuid") == 0)
				continue; /* of another page */
			if (!is_compared(s, s->fields[j].name))
				printf("# %s is not compared\n", s->fields[j].name);
			CU_ASSERT_TRUE(is_compared(s, s->fields[j].name));
		}
	}
}

/* A row of bits may neither leave its number nor share a bit with another one. @ordered: what is
 * between two rows is shown as reserved, so they begin with the highest. */
static void check_bits(const struct cli_field *f, bool ordered)
{
	uint64_t seen = 0, mask;
	size_t i;

	for (i = 0; i < f->n_parts; i++) {
		const struct cli_field *part = &f->parts[i];

		CU_ASSERT_TRUE(part->bits > 0 && part->shift + part->bits <= 8u * f->len);
		mask = ((1ull << part->bits) - 1) << part->shift;
		if (seen & mask)
			printf("# %s: %s\n", f->name, part->name);
		CU_ASSERT_EQUAL(seen & mask, 0);
		seen |= mask;
		if (part->words)
			CU_ASSERT_TRUE(part->words->n <= 1u << part->bits);
		if (ordered && i > 0)
			CU_ASSERT_TRUE(part->shift + part->bits <= f->parts[i - 1].shift);
	}
}

static void parts_are_in_their_numbers(void)
{
	size_t v, i, parts = 0;

	for (v = 0; v < cli_verbs_n; v++) {
		const struct cli_shape *s = cli_verbs[v].shape;

		for (i = 0; s && i < s->n; i++) {
			check_bits(&s->fields[i], s->bit_numbers);
			parts += s->fields[i].n_parts;
		}
	}
	CU_ASSERT_TRUE(parts > 0);
}

#define PART(property, name)                                              \
	{                                                                 \
#property, #name, NVME_##name##_SHIFT, NVME_##name##_MASK \
	}

/* The parts of properties against libnvme's shifts and masks. */
static void parts_of_properties_are_those_of_libnvme(void)
{
	static const struct {
		const char *property, *name;
		unsigned int shift;
		uint64_t mask;
	} parts[] = {
		PART(cap, CAP_MQES),   PART(cap, CAP_CQR),     PART(cap, CAP_TO),
		PART(cap, CAP_DSTRD),  PART(cap, CAP_BPS),     PART(cap, CAP_MPSMIN),
		PART(cap, CAP_MPSMAX), PART(cap, CAP_PMRS),    PART(cap, CAP_CMBS),
		PART(cc, CC_EN),       PART(cc, CC_CSS),       PART(cc, CC_MPS),
		PART(cc, CC_AMS),      PART(cc, CC_SHN),       PART(cc, CC_IOSQES),
		PART(cc, CC_IOCQES),   PART(csts, CSTS_RDY),   PART(csts, CSTS_CFS),
		PART(csts, CSTS_PP),   PART(csts, CSTS_NSSRO),
	};
	size_t i, j;

	for (i = 0; i < N(parts); i++) {
		const struct cli_field *f = field_of(&cli_shape_properties, parts[i].property);
		char abbreviation[16];

		snprintf(abbreviation, sizeof(abbreviation), "(%s)",
			 strchr(parts[i].name, '_') + 1);
		for (j = 0; j < f->n_parts && !strstr(f->parts[j].name, abbreviation); j++)
			;
		CU_ASSERT_FATAL(j < f->n_parts);
		CU_ASSERT_EQUAL(f->parts[j].shift, parts[i].shift);
		CU_ASSERT_EQUAL((1ull << f->parts[j].bits) - 1, parts[i].mask);
	}
}

const struct t_case t_fields_cases[] = {
	{"fields are where libnvme has them", fields_are_where_libnvme_has_them},
	{"lists are where libnvme has them", lists_are_where_libnvme_has_them},
	{"all fields are compared", all_fields_are_compared},
	{"parts are in their numbers", parts_are_in_their_numbers},
	{"parts of properties are those of libnvme", parts_of_properties_are_those_of_libnvme},
	{NULL, NULL},
};
