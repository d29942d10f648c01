/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * id-ctrl and id-ns. Field names, their order and the JSON keys are nvme-cli's, so that scripts
 * work with both.
 */
#include <endian.h>
#include <inttypes.h>
#include <nvme/types.h>
#include <uuid/uuid.h>

#include "cli.h"
#include "command.h"
#include "fields.h"

#define CTRL(member, k) CLI_FIELD(nvme_id_ctrl, member, #member, k)
#define NS(member, k, ...)                                                                   \
	{                                                                                    \
		.name = #member, .offset = offsetof(struct nvme_id_ns, member), .kind = (k), \
		.len = sizeof(((struct nvme_id_ns *)0)->member), __VA_ARGS__                 \
	}

/* The page, and the UUID in the namespace's descriptor list (CNS 03h) as text, or "" if there is
 * none; nvme-cli shows it in ns-descs. */
struct id_ns {
	struct nvme_id_ns ns;
	char uuid[UUID_STR_LEN];
};

static const struct cli_field ctrl_fields[] = {
	CTRL(vid, KIND_HEX),       CTRL(ssvid, KIND_HEX),     CTRL(sn, KIND_STR),
	CTRL(mn, KIND_STR),        CTRL(fr, KIND_STR),        CTRL(rab, KIND_DEC),
	CTRL(ieee, KIND_OUI),      CTRL(cmic, KIND_HEX),      CTRL(mdts, KIND_DEC),
	CTRL(cntlid, KIND_HEX),    CTRL(ver, KIND_HEX),       CTRL(rtd3r, KIND_HEX),
	CTRL(rtd3e, KIND_HEX),     CTRL(oaes, KIND_HEX),      CTRL(ctratt, KIND_HEX),
	CTRL(rrls, KIND_HEX),      CTRL(cntrltype, KIND_DEC), CTRL(fguid, KIND_UUID),
	CTRL(crdt1, KIND_DEC),     CTRL(crdt2, KIND_DEC),     CTRL(crdt3, KIND_DEC),
	CTRL(nvmsr, KIND_DEC),     CTRL(vwci, KIND_DEC),      CTRL(mec, KIND_DEC),
	CTRL(oacs, KIND_HEX),      CTRL(acl, KIND_DEC),       CTRL(aerl, KIND_DEC),
	CTRL(frmw, KIND_HEX),      CTRL(lpa, KIND_HEX),       CTRL(elpe, KIND_DEC),
	CTRL(npss, KIND_DEC),      CTRL(avscc, KIND_HEX),     CTRL(apsta, KIND_HEX),
	CTRL(wctemp, KIND_DEC),    CTRL(cctemp, KIND_DEC),    CTRL(mtfa, KIND_DEC),
	CTRL(hmpre, KIND_DEC),     CTRL(hmmin, KIND_DEC),     CTRL(tnvmcap, KIND_U128),
	CTRL(unvmcap, KIND_U128),  CTRL(rpmbs, KIND_HEX),     CTRL(edstt, KIND_DEC),
	CTRL(dsto, KIND_DEC),      CTRL(fwug, KIND_DEC),      CTRL(kas, KIND_DEC),
	CTRL(hctma, KIND_HEX),     CTRL(mntmt, KIND_DEC),     CTRL(mxtmt, KIND_DEC),
	CTRL(sanicap, KIND_HEX),   CTRL(hmminds, KIND_DEC),   CTRL(hmmaxd, KIND_DEC),
	CTRL(nsetidmax, KIND_DEC), CTRL(endgidmax, KIND_DEC), CTRL(anatt, KIND_DEC),
	CTRL(anacap, KIND_DEC),    CTRL(anagrpmax, KIND_DEC), CTRL(nanagrpid, KIND_DEC),
	CTRL(pels, KIND_DEC),      CTRL(domainid, KIND_DEC),  CTRL(megcap, KIND_U128),
	CTRL(sqes, KIND_HEX),      CTRL(cqes, KIND_HEX),      CTRL(maxcmd, KIND_DEC),
	CTRL(nn, KIND_DEC),        CTRL(oncs, KIND_HEX),      CTRL(fuses, KIND_HEX),
	CTRL(fna, KIND_HEX),       CTRL(vwc, KIND_HEX),       CTRL(awun, KIND_DEC),
	CTRL(awupf, KIND_DEC),     CTRL(icsvscc, KIND_DEC),   CTRL(nwpc, KIND_DEC),
	CTRL(acwu, KIND_DEC),      CTRL(ocfs, KIND_HEX),      CTRL(sgls, KIND_HEX),
	CTRL(mnan, KIND_DEC),      CTRL(maxdna, KIND_U128),   CTRL(maxcna, KIND_DEC),
	CTRL(subnqn, KIND_STR),    CTRL(ioccsz, KIND_DEC),    CTRL(iorcsz, KIND_DEC),
	CTRL(icdoff, KIND_DEC),    CTRL(fcatt, KIND_HEX),     CTRL(msdbd, KIND_DEC),
	CTRL(ofcs, KIND_DEC),
};

/* ---- what the bits of id-ns mean ---- */

#define SUPPORTED             &supported
#define BIT(label, at, w)     CLI_PART(label, KIND_HEX, at, 1, .words = (w))
#define BITS(label, at, n, w) CLI_PART(label, KIND_HEX, at, n, .words = (w))

static const struct cli_words supported = CLI_WORDS("", "Not Supported", "Supported");
static const struct cli_words reused = CLI_WORDS("", "Reused", "Never Reused");
static const struct cli_words capable = CLI_WORDS("", "Not Capable", "Capable");
static const struct cli_words atomic =
	CLI_WORDS("", "AWUN, AWUPF, and ACWU", "NAWUN, NAWUPF, and NACWU");
static const struct cli_words metadata =
	CLI_WORDS("", "in Separate Contiguous Buffer", "at End of Data LBA");
static const struct cli_words protection =
	CLI_WORDS("Reserved", "Disabled", "Type 1 Enabled", "Type 2 Enabled", "Type 3 Enabled");
static const struct cli_words end =
	CLI_WORDS("", "Last 8 Bytes of Metadata", "First 8 Bytes of Metadata");
static const struct cli_words guard =
	CLI_WORDS("", "0xFFFF", "CRC for Value Read From the Deallocated Logical Block");
static const struct cli_words read_value = CLI_WORDS("Reserved", "Not Reported", "0x00", "0xFF");
static const struct cli_words existing_key = CLI_WORDS("", "1.2.1 or earlier", "1.3 or later");

static const struct cli_field nsfeat[] = {
	BIT("NPWG, NPWA, NPDG, NPDA, and NOWS are", 4, SUPPORTED),
	BIT("NGUID and EUI64 fields if non-zero,", 3, &reused),
	BIT("Deallocated or Unwritten Logical Block error", 2, SUPPORTED),
	BIT("Namespace uses", 1, &atomic),
	BIT("Thin Provisioning", 0, SUPPORTED),
};

static const struct cli_field flbas[] = {
	BITS("Most significant 2 bits of Current LBA Format Selected", 5, 2, NULL),
	BIT("Metadata Transferred", 4, &metadata),
	BITS("Least significant 4 bits of Current LBA Format Selected", 0, 4, NULL),
};

static const struct cli_field mc[] = {
	BIT("Metadata Pointer", 1, SUPPORTED),
	BIT("Metadata as Part of Extended Data LBA", 0, SUPPORTED),
};

static const struct cli_field dpc[] = {
	BIT("Protection Information Transferred as Last 8 Bytes of Metadata", 4, SUPPORTED),
	BIT("Protection Information Transferred as First 8 Bytes of Metadata", 3, SUPPORTED),
	BIT("Protection Information Type 3", 2, SUPPORTED),
	BIT("Protection Information Type 2", 1, SUPPORTED),
	BIT("Protection Information Type 1", 0, SUPPORTED),
};

static const struct cli_field dps[] = {
	BIT("Protection Information is Transferred as", 3, &end),
	BITS("Protection Information", 0, 3, &protection),
};

static const struct cli_field nmic[] = {
	BIT("Namespace Multipath", 0, &capable),
};

static const struct cli_field rescap[] = {
	BIT("Ignore Existing Key - Used as defined in revision", 7, &existing_key),
	BIT("Exclusive Access - All Registrants", 6, SUPPORTED),
	BIT("Write Exclusive - All Registrants", 5, SUPPORTED),
	BIT("Exclusive Access - Registrants Only", 4, SUPPORTED),
	BIT("Write Exclusive - Registrants Only", 3, SUPPORTED),
	BIT("Exclusive Access", 2, SUPPORTED),
	BIT("Write Exclusive", 1, SUPPORTED),
	BIT("Persist Through Power Loss", 0, SUPPORTED),
};

static const struct cli_field fpi[] = {
	BIT("Format Progress Indicator", 7, SUPPORTED),
	BITS("Format Progress Indicator, percent that remain", 0, 7, NULL),
};

static const struct cli_field dlfeat[] = {
	BIT("Guard Field of Deallocated Logical Blocks is set to", 4, &guard),
	BIT("Deallocate Bit in the Write Zeroes Command is", 3, SUPPORTED),
	BITS("Bytes Read From a Deallocated Logical Block and its Metadata are", 0, 3, &read_value),
};

static bool has_uuid(const void *data)
{
	return ((const struct id_ns *)data)->uuid[0] != '\0';
}

static const struct cli_field ns_fields[] = {
	NS(nsze, KIND_HEX),
	NS(ncap, KIND_HEX),
	NS(nuse, KIND_HEX),
	NS(nsfeat, KIND_HEX, CLI_PARTS(nsfeat)),
	NS(nlbaf, KIND_DEC),
	NS(flbas, KIND_HEX, CLI_PARTS(flbas)),
	NS(mc, KIND_HEX, CLI_PARTS(mc)),
	NS(dpc, KIND_HEX, CLI_PARTS(dpc)),
	NS(dps, KIND_HEX, CLI_PARTS(dps)),
	NS(nmic, KIND_HEX, CLI_PARTS(nmic)),
	NS(rescap, KIND_HEX, CLI_PARTS(rescap)),
	NS(fpi, KIND_HEX, CLI_PARTS(fpi)),
	NS(dlfeat, KIND_DEC, CLI_PARTS(dlfeat)),
	NS(nawun, KIND_DEC),
	NS(nawupf, KIND_DEC),
	NS(nacwu, KIND_DEC),
	NS(nabsn, KIND_DEC),
	NS(nabo, KIND_DEC),
	NS(nabspf, KIND_DEC),
	NS(noiob, KIND_DEC),
	NS(nvmcap, KIND_U128),
	NS(npwg, KIND_DEC),
	NS(npwa, KIND_DEC),
	NS(npdg, KIND_DEC),
	NS(npda, KIND_DEC),
	NS(nows, KIND_DEC),
	NS(mssrl, KIND_DEC),
	NS(mcl, KIND_DEC),
	NS(msrc, KIND_DEC),
	NS(nulbaf, KIND_DEC),
	NS(anagrpid, KIND_DEC),
	NS(nsattr, KIND_DEC),
	NS(nvmsetid, KIND_DEC),
	NS(endgid, KIND_DEC),
	NS(nguid, KIND_HEXSTR),
	NS(eui64, KIND_HEXSTR),
	{"uuid", offsetof(struct id_ns, uuid), UUID_STR_LEN, KIND_STR, .there = has_uuid},
};

/* ---- id-ctrl ---- */

#define PSD(member, label) CLI_FIELD(nvme_id_psd, member, label, KIND_DEC)

static const struct cli_field psd_fields[] = {
	PSD(mp, "max_power"),
	PSD(flags, "flags"),
	PSD(enlat, "entry_lat"),
	PSD(exlat, "exit_lat"),
	PSD(rrt, "read_tput"),
	PSD(rrl, "read_lat"),
	PSD(rwt, "write_tput"),
	PSD(rwl, "write_lat"),
	PSD(idlp, "idle_power"),
	PSD(actp, "active_power"),
	CLI_BITS(nvme_id_psd, ips, "idle_scale", KIND_DEC, 6, 2),
	CLI_BITS(nvme_id_psd, apws, "active_power_work", KIND_DEC, 0, 3),
	CLI_BITS(nvme_id_psd, apws, "active_scale", KIND_DEC, 6, 2),
};

static unsigned int power_states(const void *data, size_t len)
{
	const struct nvme_id_ctrl *id = data;

	return id->npss < CLI_COUNT(id->psd) ? id->npss + 1u : CLI_COUNT(id->psd);
}

static const struct cli_shape psd_shape = CLI_SHAPE(psd_fields, 0);
static const struct cli_list psds[] = {CLI_LIST("psds", &psd_shape,
						offsetof(struct nvme_id_ctrl, psd),
						sizeof(struct nvme_id_psd), .count = power_states)};

const struct cli_shape cli_shape_id_ctrl = CLI_SHAPE(ctrl_fields, 9, CLI_LISTS(psds));

int cli_id_ctrl(struct cli_session *s, const struct cli_options *o)
{
	struct nvme_id_ctrl id;

	if (rdinit_identify_ctrl(s->ctrl, &id))
		return cli_lib_error();
	return cli_shape_show(o, &cli_shape_id_ctrl, &id, sizeof(id), NULL,
			      "NVME Identify Controller:\n");
}

/* ---- id-ns ---- */

unsigned int cli_lba_formats(const struct nvme_id_ns *id)
{
	unsigned int n = id->nlbaf + 1u;

	return n > CLI_COUNT(id->lbaf) ? CLI_COUNT(id->lbaf) : n;
}

unsigned int cli_lba_in_use(const struct nvme_id_ns *id)
{
	return (id->flbas & 0xf) | (id->nlbaf >= 16 ? (id->flbas >> 5 & 3u) << 4 : 0);
}

static unsigned int lba_formats(const void *data, size_t len)
{
	return cli_lba_formats(data);
}

static const struct cli_words rp = CLI_WORDS("", "Best", "Better", "Good", "Degraded");

static void print_lba_format(const struct cli_options *o, const void *data, unsigned int i,
			     const void *item)
{
	const struct nvme_lbaf *f = item;
	const char *in_use = i == cli_lba_in_use(data) ? " (in use)" : "";

	if (cli_given(o, CLI_ARG_HUMAN))
		printf("LBA Format %2u : Metadata Size: %-3u bytes - Data Size: %-2u bytes - "
		       "Relative Performance: %#x %s%s\n",
		       i, le16toh(f->ms), 1u << (f->ds & 31), f->rp & 3u, cli_word(&rp, f->rp & 3u),
		       in_use);
	else
		printf("lbaf %2u : ms:%-3u lbads:%-2u rp:%#x%s\n", i, le16toh(f->ms), f->ds,
		       f->rp & 3u, in_use);
}

static const struct cli_field lbaf_fields[] = {
	CLI_FIELD(nvme_lbaf, ms, "ms", KIND_DEC),
	CLI_FIELD(nvme_lbaf, ds, "ds", KIND_DEC),
	CLI_BITS(nvme_lbaf, rp, "rp", KIND_HEX, 0, 2),
};

static const struct cli_shape lbaf_shape = CLI_SHAPE(lbaf_fields, 0);
static const struct cli_list lbafs[] = {
	CLI_LIST("lbafs", &lbaf_shape, offsetof(struct nvme_id_ns, lbaf), sizeof(struct nvme_lbaf),
		 .count = lba_formats, .print = print_lba_format)};

const struct cli_shape cli_shape_id_ns =
	CLI_SHAPE(ns_fields, 9, .bit_numbers = true, CLI_LISTS(lbafs));

int cli_identify_ns(struct cli_session *s, uint32_t nsid, struct nvme_id_ns *id)
{
	if (rdinit_identify_ns(s->ctrl, nsid, id))
		return cli_lib_error();
	if (id->ncap == 0)
		return cli_error(
			"%s: there is no namespace %u; `rdinit list-ns` lists the namespaces",
			s->info.address, nsid);
	return CLI_OK;
}

int cli_id_ns(struct cli_session *s, const struct cli_options *o)
{
	unsigned char list[RDINIT_IDENTIFY_SIZE];
	struct id_ns id = {.uuid = ""};
	const unsigned char *d = NULL;

	if (cli_identify_ns(s, cli_nsid(o), &id.ns))
		return CLI_FAILED;
	/* A controller without such a list has not failed. */
	if (!rdinit_identify(s->ctrl, NVME_IDENTIFY_CNS_NS_DESC_LIST, cli_nsid(o), list)) {
		while ((d = cli_next_descriptor(list, d)) && d[0] != NVME_NIDT_UUID)
			;
		if (d && d[1] == 16)
			uuid_unparse_lower(&d[4], id.uuid);
	}
	return cli_shape_show(o, &cli_shape_id_ns, &id, sizeof(id.ns), NULL,
			      "NVME Identify Namespace %u:\n", cli_nsid(o));
}
