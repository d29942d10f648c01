/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Identify data of controllers and namespaces. Field names, their order and the JSON keys are those
 * of nvme-cli 2.13, so that scripts work with both.
 */
#include <endian.h>
#include <inttypes.h>
#include <nvme/types.h>
#include <uuid/uuid.h>

#include "cli.h"
#include "command.h"
#include "fields.h"

/* The page, and the UUID in the namespace's descriptor list (CNS 03h) as text, or "" if there is
 * none; nvme-cli shows it in ns-descs. */
struct id_ns {
	struct nvme_id_ns ns;
	char uuid[UUID_STR_LEN];
};

#define FIELD(type, member, k, ...)                                                    \
	{                                                                              \
		.name = #member, .offset = offsetof(struct type, member), .kind = (k), \
		.len = sizeof(((struct type *)0)->member), __VA_ARGS__                 \
	}
#define CTRL(member, k)      FIELD(nvme_id_ctrl, member, KIND_##k, .n_parts = 0)
#define CTRL_BITS(member, k) FIELD(nvme_id_ctrl, member, KIND_##k, CLI_PARTS(member))
#define NS(member, k)        FIELD(nvme_id_ns, member, KIND_##k, .n_parts = 0)
#define NS_BITS(member, k)   FIELD(nvme_id_ns, member, KIND_##k, CLI_PARTS(member))
#define IND(member, k)       FIELD(nvme_id_independent_id_ns, member, KIND_##k, .n_parts = 0)
#define IND_BITS(member, k)  FIELD(nvme_id_independent_id_ns, member, KIND_##k, CLI_PARTS(member))
#define NVM(member, k)       FIELD(nvme_id_ctrl_nvm, member, KIND_##k, .n_parts = 0)
/* Members that libnvme 1.3 does not have yet. */
#define LATER(member, at, size, k)          \
	{                                   \
#member, at, size, KIND_##k \
	}
#define LATER_BITS(member, at, size, k)                        \
	{                                                      \
#member, at, size, KIND_##k, CLI_PARTS(member) \
	}

/* ---- what bits mean; texts are nvme-cli's ---- */

#define SUPPORTED             CLI_MEANS("Not Supported", "Supported")
#define NOT_SUPPORTED         CLI_MEANS("Supported", "Not Supported")
#define BIT(label, at, w)     CLI_PART(label, KIND_HEX, at, 1, .words = (w))
#define BITS(label, at, n, w) CLI_PART(label, KIND_HEX, at, n, .words = (w))
#define MAY(label, at)        BIT(label, at, SUPPORTED)

static void zeroes_based(uint64_t v, const void *data, char *buf)
{
	sprintf(buf, "%" PRIu64 " (0's based)", v);
}

static void queue_entry_size(uint64_t v, const void *data, char *buf)
{
	sprintf(buf, "(%u)", 1u << v);
}

static void percent_left(uint64_t v, const void *data, char *buf)
{
	sprintf(buf, "(Remaining %" PRIu64 "%%)", v);
}

static const struct cli_field cmic[] = {
	BIT("ANA", 3, CLI_MEANS("not supported", "supported")),
	BIT("", 2, CLI_MEANS("PCI", "SR-IOV")),
	BIT("", 1, CLI_MEANS("Single Controller", "Multi Controller")),
	BIT("", 0, CLI_MEANS("Single Port", "Multi Port")),
};

static const struct cli_field oaes[] = {
	MAY("Discovery Log Change Notice", 31),
	MAY("Zone Descriptor Changed Notices", 27),
	MAY("Allocated Namespace Attribute Notices", 19),
	MAY("Reachability Groups Change Notices", 17),
	MAY("Temperature Threshold Hysteresis Recovery", 16),
	MAY("Normal NSS Shutdown Event", 15),
	MAY("Endurance Group Event Aggregate Log Page Change Notice", 14),
	MAY("LBA Status Information Notices", 13),
	MAY("Predictable Latency Event Aggregate Log Change Notices", 12),
	MAY("Asymmetric Namespace Access Change Notices", 11),
	MAY("Firmware Activation Notices", 9),
	MAY("Namespace Attribute Changed Event", 8),
};

static const struct cli_field ctratt[] = {
	MAY("Flexible Data Placement", 19),
	MAY("Reservations and Host Identifier Interaction", 18),
	MAY("HMB Restrict Non-Operational Power State Access", 17),
	MAY("MDTS and Size Limits Exclude Metadata", 16),
	MAY("Extended LBA Formats", 15),
	MAY("Delete NVM Set", 14),
	MAY("Delete Endurance Group", 13),
	MAY("Variable Capacity Management", 12),
	MAY("Fixed Capacity Management", 11),
	MAY("Multi Domain Subsystem", 10),
	MAY("UUID List", 9),
	MAY("SQ Associations", 8),
	MAY("Namespace Granularity", 7),
	MAY("Traffic Based Keep Alive", 6),
	MAY("Predictable Latency Mode", 5),
	MAY("Endurance Groups", 4),
	MAY("Read Recovery Levels", 3),
	MAY("NVM Sets", 2),
	MAY("Non-Operational Power State Permissive", 1),
	MAY("128-bit Host Identifier", 0),
};

static const struct cli_field bpcap[] = {
	MAY("Set Features Boot Partition Write Protection", 2),
	BITS("RPMB Boot Partition Write Protection", 0, 2,
	     CLI_MEANS("Support Not Specified", "Not Supported", "Supported")),
};

static const struct cli_field plsi[] = {
	MAY("Power Loss Signaling with Forced Quiescence", 1),
	MAY("Power Loss Signaling with Emergency Power Fail", 0),
};

static const struct cli_field cntrltype[] = {
	BITS("", 0, 2,
	     CLI_MEANS("Controller type not reported", "I/O Controller", "Discovery Controller",
		       "Administrative Controller")),
};

static const struct cli_field crcap[] = {
	BIT("RGRPID", 1,
	    CLI_MEANS("may change while the namespace is attached to any controller.",
		      "does not change while the namespace is attached to any controller.")),
	MAY("Reachability Reporting", 0),
};

static const struct cli_field nvmsr[] = {
	BIT("NVM subsystem", 1, CLI_MEANS("Not part of an Enclosure", "part of an Enclosure")),
	BIT("NVM subsystem", 0,
	    CLI_MEANS("Not part of a Storage Device", "part of a Storage Device")),
};

static const struct cli_field vwci[] = {
	BIT("VPD Write Cycles Remaining field is", 7, CLI_MEANS("Not valid.", "valid.")),
	BITS("VPD Write Cycles Remaining", 0, 7, NULL),
};

static const struct cli_field mec[] = {
	BIT("NVM subsystem", 1,
	    CLI_MEANS("Not contains a Management Endpoint on a PCIe port",
		      "contains a Management Endpoint on a PCIe port")),
	BIT("NVM subsystem", 0,
	    CLI_MEANS("Not contains a Management Endpoint on an SMBus/I2C port",
		      "contains a Management Endpoint on an SMBus/I2C port")),
};

static const struct cli_field oacs[] = {
	MAY("Host Managed Live Migration", 11),
	MAY("Lockdown Command and Feature", 10),
	MAY("Get LBA Status Capability", 9),
	MAY("Doorbell Buffer Config", 8),
	MAY("Virtualization Management", 7),
	MAY("NVMe-MI Send and Receive", 6),
	MAY("Directives", 5),
	MAY("Device Self-test", 4),
	MAY("NS Management and Attachment", 3),
	MAY("FW Commit and Download", 2),
	MAY("Format NVM", 1),
	MAY("Security Send and Receive", 0),
};

static const struct cli_field frmw[] = {
	MAY("Multiple FW or Boot Update Detection", 5),
	MAY("Firmware Activate Without Reset", 4),
	BITS("Number of Firmware Slots", 1, 3, NULL),
	BIT("Firmware Slot 1", 0, CLI_MEANS("Read/Write", "Read-Only")),
};

static const struct cli_field lpa[] = {
	MAY("Telemetry Log Data Area 4", 6),
	MAY("LID 0x0, Scope of each command in LID 0x5, 0x12, 0x13", 5),
	MAY("Persistent Event log", 4),
	MAY("Telemetry host/controller initiated log page", 3),
	MAY("Extended data for Get Log Page", 2),
	MAY("Command Effects Log Page", 1),
	MAY("SMART/Health Log Page per NS", 0),
};

#define WHOLE(label, n, f)                                        \
	{                                                         \
		CLI_PART(label, KIND_MEANT, 0, n, .explain = (f)) \
	}

static const struct cli_field elpe[] = WHOLE("Error Log Page Entries (ELPE)", 8, zeroes_based);
static const struct cli_field npss[] =
	WHOLE("Number of Power States Support (NPSS)", 8, zeroes_based);
static const struct cli_field wctemp[] =
	WHOLE("Warning Composite Temperature Threshold (WCTEMP)", 16, cli_kelvin);
static const struct cli_field cctemp[] =
	WHOLE("Critical Composite Temperature Threshold (CCTEMP)", 16, cli_kelvin);
static const struct cli_field mntmt[] =
	WHOLE("Minimum Thermal Management Temperature (MNTMT)", 16, cli_kelvin);
static const struct cli_field mxtmt[] =
	WHOLE("Maximum Thermal Management Temperature (MXTMT)", 16, cli_kelvin);

#define FORMATS CLI_MEANS("uses Vendor Specific Format", "uses NVMe Format")

static const struct cli_field avscc[] = {BIT("Admin Vendor Specific Commands", 0, FORMATS)};
static const struct cli_field icsvscc[] = {BIT("NVM Vendor Specific Commands", 0, FORMATS)};
static const struct cli_field apsta[] = {MAY("Autonomous Power State Transitions", 0)};
static const struct cli_field hctma[] = {MAY("Host Controlled Thermal Management", 0)};
static const struct cli_field fuses[] = {MAY("Fused Compare and Write", 0)};
static const struct cli_field ofcs[] = {MAY("Disconnect command", 0)};
static const struct cli_field tmpthha[] = {
	BITS("Temperature Threshold Maximum Hysteresis", 0, 3, NULL)};
static const struct cli_field fcatt[] = {
	BIT("", 0, CLI_MEANS("Dynamic Controller Model", "Static Controller Model"))};

static const struct cli_field rpmbs[] = {
	BITS("Access Size", 24, 8, NULL),
	BITS("Total Size", 16, 8, NULL),
	BITS("Authentication Method", 3, 3, NULL),
	BITS("Number of RPMB Units", 0, 3, NULL),
};

static const struct cli_field dsto[] = {
	MAY("Host-Initiated Refresh capability", 1),
	BIT("NVM subsystem supports", 0,
	    CLI_MEANS("one device self-test operation per controller at a time",
		      "only one device self-test operation in progress at a time")),
};

static const struct cli_field sanicap[] = {
	BITS("", 30, 2,
	     CLI_MEANS("Additional media modification after sanitize operation completes "
		       "successfully is not defined",
		       "Media is not additionally modified after sanitize operation completes "
		       "successfully",
		       "Media is additionally modified after sanitize operation completes "
		       "successfully")),
	BIT("No-Deallocate After Sanitize bit in Sanitize command", 29, NOT_SUPPORTED),
	MAY("Media Verification and Post-Verification Deallocation state", 3),
	MAY("Overwrite Sanitize Operation", 2),
	MAY("Block Erase Sanitize Operation", 1),
	MAY("Crypto Erase Sanitize Operation", 0),
};

static const struct cli_field anacap[] = {
	MAY("Non-zero group ID", 7),
	BIT("Group ID", 6, CLI_MEANS("does change", "does not change")),
	MAY("ANA Change state", 4),
	MAY("ANA Persistent Loss state", 3),
	MAY("ANA Inaccessible state", 2),
	MAY("ANA Non-optimized state", 1),
	MAY("ANA Optimized state", 0),
};

static const struct cli_field kpioc[] = {
	BIT("Key Per I/O capability", 1,
	    CLI_MEANS("Not apply to all namespaces", "applies to all namespaces")),
	MAY("Key Per I/O capability", 0),
};

#define ENTRY(label, at) CLI_PART(label, KIND_HEX, at, 4, .explain = queue_entry_size)

static const struct cli_field sqes[] = {ENTRY("Max SQ Entry Size", 4),
					ENTRY("Min SQ Entry Size", 0)};
static const struct cli_field cqes[] = {ENTRY("Max CQ Entry Size", 4),
					ENTRY("Min CQ Entry Size", 0)};

static const struct cli_field oncs[] = {
	MAY("Namespace Zeroes", 12),
	MAY("Maximum Write Zeroes with Deallocate", 11),
	MAY("All Fast Copy", 10),
	MAY("Copy Single Atomicity", 9),
	MAY("Copy", 8),
	MAY("Verify", 7),
	MAY("Timestamp", 6),
	MAY("Reservations", 5),
	MAY("Save and Select", 4),
	MAY("Write Zeroes", 3),
	MAY("Data Set Management", 2),
	MAY("Write Uncorrectable", 1),
	MAY("Compare", 0),
};

#define FORMAT_OF CLI_MEANS("Applies to Single Namespace(s)", "Applies to All Namespace(s)")

static const struct cli_field fna[] = {
	BIT("Format NVM Broadcast NSID (FFFFFFFFh)", 3, NOT_SUPPORTED),
	BIT("Crypto Erase", 2,
	    CLI_MEANS("Not Supported as part of Secure Erase",
		      "Supported as part of Secure Erase")),
	BIT("Crypto Erase", 1, FORMAT_OF),
	BIT("Format", 0, FORMAT_OF),
};

static const struct cli_field vwc[] = {
	BITS("", 1, 2,
	     CLI_MEANS("Support for the NSID field set to FFFFFFFFh is not indicated", "Reserved",
		       "The Flush command does not support NSID set to FFFFFFFFh",
		       "The Flush command supports NSID set to FFFFFFFFh")),
	BIT("Volatile Write Cache", 0, CLI_MEANS("Not Present", "Present")),
};

static const struct cli_field nwpc[] = {
	MAY("Permanent Write Protect", 2),
	MAY("Write Protect Until Power Supply", 1),
	MAY("No Write Protect and Write Protect Namespace", 0),
};

static const struct cli_field ocfs[] = {
	MAY("Controller Copy Format 3h", 3),
	MAY("Controller Copy Format 2h", 2),
	MAY("Controller Copy Format 1h", 1),
	MAY("Controller Copy Format 0h", 0),
};

static bool has_sgls(const void *data)
{
	return *(const uint64_t *)data & 3;
}

#define SGL(label, at) CLI_PART(label, KIND_HEX, at, 1, .words = SUPPORTED, .there = has_sgls)

static const struct cli_field sgls[] = {
	SGL("Transport SGL Data Block Descriptor", 21),
	SGL("Address Offsets", 20),
	SGL("Metadata Pointer Containing SGL Descriptor is", 19),
	SGL("SGL Length Larger than Buffer", 18),
	SGL("Byte-Aligned Contig. MD Buffer", 17),
	SGL("SGL Bit-Bucket", 16),
	BITS("SGL Descriptor Threshold", 8, 8, NULL),
	SGL("Keyed SGL Data Block descriptor", 2),
	BITS("", 0, 2,
	     CLI_MEANS("Scatter-Gather Lists Not Supported",
		       "Scatter-Gather Lists Supported. No Dword alignment required.",
		       "Scatter-Gather Lists Supported. Dword alignment required.")),
};

static const struct cli_field trattr[] = {
	BITS("Memory Range Tracking Length Limit", 2, 1, NULL),
	MAY("Tracking User Data Changes", 1),
	MAY("Track Host Memory Changes", 0),
};

static const struct cli_field nsfeat[] = {
	MAY("NPRG, NPRA and NORS are", 7),
	BIT("", 6,
	    CLI_MEANS("Single Atomicity Mode applies to write operations",
		      "Multiple Atomicity Mode applies to write operations")),
	BITS("", 4, 2,
	     CLI_MEANS("NPWG, NPWA, NPDG, NPDGL, NPDA, and NOWS are Not Supported",
		       "NPWG, NPWA, NPDG, NPDA, and NOWS are Supported",
		       "NPWG, NPWA, NPDGL, NPDA, and NOWS are Supported",
		       "NPWG, NPWA, NPDG, NPDGL, NPDA, and NOWS are Supported")),
	BIT("NGUID and EUI64 fields if non-zero,", 3, CLI_MEANS("Reused", "Never Reused")),
	MAY("Deallocated or Unwritten Logical Block error", 2),
	BIT("Namespace uses", 1, CLI_MEANS("AWUN, AWUPF, and ACWU", "NAWUN, NAWUPF, and NACWU")),
	MAY("Thin Provisioning", 0),
};

static const struct cli_field flbas[] = {
	BITS("Most significant 2 bits of Current LBA Format Selected", 5, 2, NULL),
	BIT("Metadata Transferred", 4,
	    CLI_MEANS("in Separate Contiguous Buffer", "at End of Data LBA")),
	BITS("Least significant 4 bits of Current LBA Format Selected", 0, 4, NULL),
};

static const struct cli_field mc[] = {
	MAY("Metadata Pointer", 1),
	MAY("Metadata as Part of Extended Data LBA", 0),
};

static const struct cli_field dpc[] = {
	MAY("Protection Information Transferred as Last Bytes of Metadata", 4),
	MAY("Protection Information Transferred as First Bytes of Metadata", 3),
	MAY("Protection Information Type 3", 2),
	MAY("Protection Information Type 2", 1),
	MAY("Protection Information Type 1", 0),
};

static const struct cli_words protection = CLI_WORDS(
	"Reserved Enabled", "Disabled", "Type 1 Enabled", "Type 2 Enabled", "Type 3 Enabled");
static const struct cli_words read_value =
	CLI_WORDS("Reserved Value", "Not Reported", "0x00", "0xFF");

static const struct cli_field dps[] = {
	BIT("Protection Information is Transferred as", 3,
	    CLI_MEANS("Last Bytes of Metadata", "First Bytes of Metadata")),
	BITS("Protection Information", 0, 3, &protection),
};

static const struct cli_field nmic[] = {
	BIT("Namespace is", 1, CLI_MEANS("Not a Dispersed Namespace", "a Dispersed Namespace")),
	BIT("Namespace Multipath", 0, CLI_MEANS("Not Capable", "Capable")),
};

static const struct cli_field rescap[] = {
	BIT("Ignore Existing Key - Used as defined in revision", 7,
	    CLI_MEANS("1.2.1 or earlier", "1.3 or later")),
	MAY("Exclusive Access - All Registrants", 6),
	MAY("Write Exclusive - All Registrants", 5),
	MAY("Exclusive Access - Registrants Only", 4),
	MAY("Write Exclusive - Registrants Only", 3),
	MAY("Exclusive Access", 2),
	MAY("Write Exclusive", 1),
	MAY("Persist Through Power Loss", 0),
};

/* How much remains is there while the other bit is set. */
static bool has_fpi(const void *data)
{
	return *(const uint64_t *)data & 0x7f;
}

static const struct cli_field fpi[] = {
	MAY("Format Progress Indicator", 7),
	CLI_PART("Format Progress Indicator", KIND_HEX, 0, 7, .explain = percent_left,
		 .there = has_fpi),
};

static const struct cli_field dlfeat[] = {
	BIT("Guard Field of Deallocated Logical Blocks is set to", 4,
	    CLI_MEANS("0xFFFF", "CRC of The Value Read")),
	MAY("Deallocate Bit in the Write Zeroes Command is", 3),
	BITS("Bytes Read From a Deallocated Logical Block and its Metadata are", 0, 3, &read_value),
};

static const struct cli_field kpios[] = {
	MAY("Key Per I/O Capability", 1),
	BIT("Key Per I/O Capability", 0, &cli_enabled),
};

static const struct cli_field nsattr[] = {
	BIT("Namespace", 0, CLI_MEANS("Not Write Protected", "Write Protected")),
};

static const struct cli_field ind_nsfeat[] = {
	BIT("Volatile Write Cache is", 5, CLI_MEANS("Not Present", "Present")),
	BIT("Namespace", 4,
	    CLI_MEANS("does not store data on rotational media", "store data on rotational media")),
	BIT("NGUID and EUI64 fields if non-zero,", 3, CLI_MEANS("Reused", "Never Reused")),
};

static const struct cli_field nstat[] = {
	BITS("", 1, 2,
	     CLI_MEANS("I/O performance degradation is not reported", "Reserved",
		       "I/O performance is not currently degraded",
		       "I/O performance is currently degraded")),
	BIT("Name space is", 0, CLI_MEANS("not ready", "ready")),
};

/* ---- the pages ---- */

static const struct cli_field ctrl_fields[] = {
	CTRL(vid, HEX),
	CTRL(ssvid, HEX),
	CTRL(sn, STR),
	CTRL(mn, STR),
	CTRL(fr, STR),
	CTRL(rab, DEC),
	CTRL(ieee, OUI),
	CTRL_BITS(cmic, HEX),
	CTRL(mdts, DEC),
	CTRL(cntlid, HEX),
	CTRL(ver, HEX),
	CTRL(rtd3r, HEX),
	CTRL(rtd3e, HEX),
	CTRL_BITS(oaes, HEX),
	CTRL_BITS(ctratt, HEX),
	CTRL(rrls, HEX),
	LATER_BITS(bpcap, 102, 1, HEX),
	LATER(nssl, 104, 4, HEX),
	LATER_BITS(plsi, 110, 1, DEC),
	CTRL_BITS(cntrltype, DEC),
	CTRL(fguid, UUID),
	CTRL(crdt1, DEC),
	CTRL(crdt2, DEC),
	CTRL(crdt3, DEC),
	LATER_BITS(crcap, 134, 1, DEC),
	CTRL_BITS(nvmsr, DEC),
	CTRL_BITS(vwci, DEC),
	CTRL_BITS(mec, DEC),
	CTRL_BITS(oacs, HEX),
	CTRL(acl, DEC),
	CTRL(aerl, DEC),
	CTRL_BITS(frmw, HEX),
	CTRL_BITS(lpa, HEX),
	CTRL_BITS(elpe, DEC),
	CTRL_BITS(npss, DEC),
	CTRL_BITS(avscc, HEX),
	CTRL_BITS(apsta, HEX),
	CTRL_BITS(wctemp, DEC),
	CTRL_BITS(cctemp, DEC),
	CTRL(mtfa, DEC),
	CTRL(hmpre, DEC),
	CTRL(hmmin, DEC),
	CTRL(tnvmcap, U128N),
	CTRL(unvmcap, U128N),
	CTRL_BITS(rpmbs, HEX),
	CTRL(edstt, DEC),
	CTRL_BITS(dsto, DEC),
	CTRL(fwug, DEC),
	CTRL(kas, DEC),
	CTRL_BITS(hctma, HEX),
	CTRL_BITS(mntmt, DEC),
	CTRL_BITS(mxtmt, DEC),
	CTRL_BITS(sanicap, HEX),
	CTRL(hmminds, DEC),
	CTRL(hmmaxd, DEC),
	CTRL(nsetidmax, DEC),
	CTRL(endgidmax, DEC),
	CTRL(anatt, DEC),
	CTRL_BITS(anacap, DEC),
	CTRL(anagrpmax, DEC),
	CTRL(nanagrpid, DEC),
	CTRL(pels, DEC),
	CTRL(domainid, DEC),
	LATER_BITS(kpioc, 358, 1, DEC),
	LATER(mptfawr, 360, 2, DEC),
	CTRL(megcap, U128N),
	LATER_BITS(tmpthha, 384, 1, HEX),
	LATER(cqt, 386, 2, DEC),
	CTRL_BITS(sqes, HEX),
	CTRL_BITS(cqes, HEX),
	CTRL(maxcmd, DEC),
	CTRL(nn, DEC),
	CTRL_BITS(oncs, HEX),
	CTRL_BITS(fuses, HEX),
	CTRL_BITS(fna, HEX),
	CTRL_BITS(vwc, HEX),
	CTRL(awun, DEC),
	CTRL(awupf, DEC),
	CTRL_BITS(icsvscc, DEC),
	CTRL_BITS(nwpc, DEC),
	CTRL(acwu, DEC),
	CTRL_BITS(ocfs, HEX),
	CTRL_BITS(sgls, HEX),
	CTRL(mnan, DEC),
	CTRL(maxdna, U128N),
	CTRL(maxcna, DEC),
	LATER(oaqd, 564, 4, DEC),
	LATER(rhiri, 568, 1, DEC),
	LATER(hirt, 569, 1, DEC),
	LATER(cmmrtd, 570, 2, DEC),
	LATER(nmmrtd, 572, 2, DEC),
	LATER(minmrtg, 574, 1, DEC),
	LATER(maxmrtg, 575, 1, DEC),
	LATER_BITS(trattr, 576, 1, DEC),
	LATER(mcudmq, 578, 2, DEC),
	LATER(mnsudmq, 580, 2, DEC),
	LATER(mcmr, 582, 2, DEC),
	LATER(nmcmr, 584, 2, DEC),
	LATER(mcdqpc, 586, 2, DEC),
	CTRL(subnqn, STR),
	CTRL(ioccsz, DEC),
	CTRL(iorcsz, DEC),
	CTRL(icdoff, DEC),
	CTRL_BITS(fcatt, HEX),
	CTRL(msdbd, DEC),
	CTRL_BITS(ofcs, DEC),
};

static const struct cli_field ns_fields[] = {
	NS(nsze, HEX),
	NS(ncap, HEX),
	NS(nuse, HEX),
	NS_BITS(nsfeat, HEX),
	NS(nlbaf, DEC),
	NS_BITS(flbas, HEX),
	NS_BITS(mc, HEX),
	NS_BITS(dpc, HEX),
	NS_BITS(dps, HEX),
	NS_BITS(nmic, HEX),
	NS_BITS(rescap, HEX),
	NS_BITS(fpi, HEX),
	NS_BITS(dlfeat, DEC),
	NS(nawun, DEC),
	NS(nawupf, DEC),
	NS(nacwu, DEC),
	NS(nabsn, DEC),
	NS(nabo, DEC),
	NS(nabspf, DEC),
	NS(noiob, DEC),
	NS(nvmcap, U128N),
	NS(npwg, DEC),
	NS(npwa, DEC),
	NS(npdg, DEC),
	NS(npda, DEC),
	NS(nows, DEC),
	NS(mssrl, DEC),
	NS(mcl, DEC),
	NS(msrc, DEC),
	LATER_BITS(kpios, 81, 1, DEC),
	NS(nulbaf, DEC),
	LATER(kpiodaag, 84, 4, DEC),
	NS(anagrpid, DEC),
	NS_BITS(nsattr, DEC),
	NS(nvmsetid, DEC),
	NS(endgid, DEC),
	NS(nguid, HEXSTR),
	NS(eui64, HEXSTR),
	{"uuid", offsetof(struct id_ns, uuid), UUID_STR_LEN, KIND_STR, .if_set = true},
};

static const struct cli_field ind_fields[] = {
	FIELD(nvme_id_independent_id_ns, nsfeat, KIND_HEX, CLI_PARTS(ind_nsfeat)),
	IND_BITS(nmic, HEX),
	IND_BITS(rescap, HEX),
	IND_BITS(fpi, HEX),
	IND(anagrpid, DEC),
	IND_BITS(nsattr, DEC),
	IND(nvmsetid, DEC),
	IND(endgid, DEC),
	IND_BITS(nstat, HEX),
	LATER_BITS(kpios, 15, 1, HEX),
	LATER(maxkt, 16, 2, HEX),
	LATER(rgrpid, 20, 4, HEX),
};

static const struct cli_field nvm_ctrl[] = {
	NVM(vsl, DEC),
	NVM(wzsl, DEC),
	NVM(wusl, DEC),
	NVM(dmrl, DEC),
	NVM(dmrsl, DEC),
	NVM(dmsl, DEC),
	LATER(kpiocap, 16, 1, DEC),
	LATER(wzdsl, 17, 1, DEC),
	LATER(aocs, 18, 2, DEC),
	LATER(ver, 20, 4, HEX),
	LATER(lbamqf, 24, 1, DEC),
};

static const struct cli_field nvm_ns[] = {
	FIELD(nvme_nvm_id_ns, lbstm, KIND_HEX),
	FIELD(nvme_nvm_id_ns, pic, KIND_HEX),
	LATER(pifa, 9, 1, HEX),
	LATER(npdgl, 268, 4, HEX),
	LATER(nprg, 272, 4, HEX),
	LATER(npra, 276, 4, HEX),
	LATER(nors, 280, 4, HEX),
	LATER(npdal, 284, 4, HEX),
	LATER(lbapss, 288, 4, HEX),
	LATER(tlbaag, 292, 4, HEX),
};

/* ---- id-ctrl ---- */

#define PSD(member, label) CLI_FIELD(nvme_id_psd, member, label, KIND_DEC)

static const struct cli_field psd_fields[] = {
	PSD(mp, "max_power"),
	CLI_BITS(nvme_id_psd, flags, "max_power_scale", KIND_DEC, 0, 1),
	CLI_BITS(nvme_id_psd, flags, "non-operational_state", KIND_DEC, 1, 1),
	PSD(enlat, "entry_lat"),
	PSD(exlat, "exit_lat"),
	PSD(rrt, "read_tput"),
	PSD(rrl, "read_lat"),
	PSD(rwt, "write_tput"),
	PSD(rwl, "write_lat"),
	PSD(idlp, "idle_power"),
	CLI_BITS(nvme_id_psd, ips, "idle_scale", KIND_DEC, 6, 2),
	PSD(actp, "active_power"),
	CLI_BITS(nvme_id_psd, apws, "active_power_work", KIND_DEC, 0, 3),
	CLI_BITS(nvme_id_psd, apws, "active_scale", KIND_DEC, 6, 2),
	{"emerg_power_fail_recover_time", 23, 1, KIND_DEC},
	{"emerg_power_fail_recover_scale", 26, 1, KIND_DEC, 0, 4},
	{"force_quiesce_vault_time", 24, 1, KIND_DEC},
	{"force_quiesce_vault_scale", 26, 1, KIND_DEC, 4, 4},
	{"emerg_power_fail_vault_time", 25, 1, KIND_DEC},
	{"emerg_power_fail_vault_scale", 27, 1, KIND_DEC, 0, 4},
};

static unsigned int power_states(const void *data)
{
	const struct nvme_id_ctrl *id = data;

	return id->npss < CLI_COUNT(id->psd) ? id->npss + 1u : CLI_COUNT(id->psd);
}

static const struct cli_shape psd_shape = CLI_SHAPE(psd_fields, 0);
static const struct cli_list psds[] = {CLI_LIST("psds", &psd_shape,
						offsetof(struct nvme_id_ctrl, psd),
						sizeof(struct nvme_id_psd), .count = power_states)};

const struct cli_shape cli_shape_id_ctrl =
	CLI_SHAPE(ctrl_fields, 9, .bit_numbers = true, CLI_LISTS(psds));

int cli_id_ctrl(struct cli_session *s, const struct cli_options *o)
{
	struct nvme_id_ctrl id;

	if (rdinit_identify_ctrl(s->ctrl, &id))
		return cli_lib_error();
	return cli_shape_show(o, &cli_shape_id_ctrl, &id, sizeof(id), NULL,
			      "NVME Identify Controller:\n");
}

/* ---- id-ns ---- */

static unsigned int lba_formats(const void *data)
{
	const struct nvme_id_ns *id = data;
	unsigned int n = id->nlbaf + 1u;

	return n > CLI_COUNT(id->lbaf) ? CLI_COUNT(id->lbaf) : n;
}

unsigned int cli_lba_in_use(const struct nvme_id_ns *id)
{
	return (id->flbas & 0xf) | (id->nlbaf >= 16 ? (id->flbas >> 5 & 3u) << 4 : 0);
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

/* ---- cmdset-ind-id-ns, nvm-id-ctrl and nvm-id-ns ---- */

const struct cli_shape cli_shape_ind_ns = CLI_SHAPE(ind_fields, 8, .bit_numbers = true);
const struct cli_shape cli_shape_nvm_ctrl = CLI_SHAPE(nvm_ctrl, 8);

int cli_cmdset_ind_id_ns(struct cli_session *s, const struct cli_options *o)
{
	struct nvme_id_independent_id_ns page;
	struct nvme_id_ns ns;

	/* The page of a namespace that is not active has zeroes. */
	if (cli_identify_ns(s, cli_nsid(o), &ns) ||
	    cli_identify(s, NVME_IDENTIFY_CNS_CSI_INDEPENDENT_ID_NS, 0, cli_nsid(o), &page))
		return CLI_FAILED;
	return cli_shape_show(o, &cli_shape_ind_ns, &page, sizeof(page), NULL,
			      "NVME Identify Command Set Independent Namespace %u:\n", cli_nsid(o));
}

int cli_nvm_id_ctrl(struct cli_session *s, const struct cli_options *o)
{
	struct nvme_id_ctrl_nvm page;

	if (cli_identify(s, NVME_IDENTIFY_CNS_CSI_CTRL, 0, 0, &page))
		return CLI_FAILED;
	return cli_shape_show(o, &cli_shape_nvm_ctrl, &page, sizeof(page), NULL,
			      "NVMe Identify Controller NVM:\n");
}

/* The page has no number of formats: that of Identify Namespace follows it. */
struct nvm_id_ns {
	struct nvme_nvm_id_ns page;
	struct nvme_id_ns ns;
};

#define ELBAF(label, shift, bits)                               \
	{                                                       \
		label, 0, sizeof(__le32), KIND_DEC, shift, bits \
	}

static const struct cli_field elbaf_fields[] = {
	ELBAF("sts", 0, 7),
	ELBAF("pif", 7, 2),
	ELBAF("qpif", 9, 4),
};

static unsigned int extensions(const void *data)
{
	return lba_formats(&((const struct nvm_id_ns *)data)->ns);
}

static void print_extension(const struct cli_options *o, const void *data, unsigned int i,
			    const void *item)
{
	uint64_t e = cli_le(item, sizeof(__le32));

	printf("elbaf %2u : qpif:%u pif:%u sts:%u %s\n", i, (unsigned int)(e >> 9 & 0xf),
	       (unsigned int)(e >> 7 & 3), (unsigned int)(e & 0x7f),
	       i == cli_lba_in_use(&((const struct nvm_id_ns *)data)->ns) ? "(in use)" : "");
}

static const struct cli_shape elbaf_shape = CLI_SHAPE(elbaf_fields, 0);
static const struct cli_list elbafs[] = {
	CLI_LIST("elbafs", &elbaf_shape, offsetof(struct nvme_nvm_id_ns, elbaf), sizeof(__le32),
		 .count = extensions, .print = print_extension)};

const struct cli_shape cli_shape_nvm_ns = CLI_SHAPE(nvm_ns, 6, CLI_LISTS(elbafs));

int cli_nvm_id_ns(struct cli_session *s, const struct cli_options *o)
{
	struct nvm_id_ns id;

	/* The page of a namespace that is not active has zeroes, like that of many others. */
	if (cli_identify_ns(s, cli_nsid(o), &id.ns) ||
	    cli_identify(s, NVME_IDENTIFY_CNS_CSI_NS, 0, cli_nsid(o), &id.page))
		return CLI_FAILED;
	return cli_shape_show(o, &cli_shape_nvm_ns, &id, sizeof(id.page), NULL,
			      "NVMe NVM Identify Namespace %u:\n", cli_nsid(o));
}
