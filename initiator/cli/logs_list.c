/* SPDX-License-Identifier: BSD-3-Clause */
/* Log pages that are lists: ANA, and the supported identifiers with their effects. */
#include <endian.h>
#include <inttypes.h>
#include <nvme/types.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "fields.h"

#define ANA_FIRST 4096u       /* size of the first read */
#define ANA_MAX   (16u << 20) /* limit for the size of the page */
#define ANA_RGO   1u          /* LSP: return groups only */
#define SUPPORTED 1u

/* ---- ana-log ---- */

static const struct cli_words ana_states = CLI_WORDS(
	"invalid state", [NVME_ANA_STATE_OPTIMIZED] = "optimized",
	[NVME_ANA_STATE_NONOPTIMIZED] = "non-optimized",
	[NVME_ANA_STATE_INACCESSIBLE] = "inaccessible",
	[NVME_ANA_STATE_PERSISTENT_LOSS] = "persistent-loss", [NVME_ANA_STATE_CHANGE] = "change");

const char *cli_ana_state(unsigned int state)
{
	return cli_word(&ana_states, state & 0xf);
}

/* The length of the page, from the part of it in @page; more than @len if it is incomplete. */
static uint64_t ana_length(const unsigned char *page, uint64_t len)
{
	struct nvme_ana_log hdr;
	struct nvme_ana_group_desc g;
	uint64_t at = sizeof(hdr);
	unsigned int i;

	memcpy(&hdr, page, sizeof(hdr));
	for (i = 0; i < le16toh(hdr.ngrps); i++) {
		if (at + sizeof(g) > len)
			return at + sizeof(g);
		memcpy(&g, page + at, sizeof(g));
		at += sizeof(g) + 4ull * le32toh(g.nnsids);
	}
	return at;
}

int cli_ana_read(struct cli_session *s, bool groups_only, unsigned char **out, uint64_t *size)
{
	struct cli_log log = {
		.lid = NVME_LOG_LID_ANA, .lsp = groups_only ? ANA_RGO : 0, .nsid = NVME_NSID_ALL};
	uint64_t len = ANA_FIRST;
	unsigned char *page;

	for (;;) {
		page = calloc(1, len);
		if (!page)
			return cli_error("no memory for %llu bytes", (unsigned long long)len);
		if (cli_get_log(s, &log, page, (uint32_t)len)) {
			free(page);
			return CLI_FAILED;
		}
		*size = ana_length(page, len);
		if (*size <= len) {
			*out = page;
			return CLI_OK;
		}
		free(page);
		if (*size > ANA_MAX)
			return cli_error("%s: the ANA log says that it has more than %u bytes",
					 s->info.address, ANA_MAX);
		len = *size > 2 * len ? (*size + 3) & ~3ull : 2 * len;
	}
}

static size_t group_size(const void *item)
{
	const struct nvme_ana_group_desc *g = item;

	return sizeof(*g) + sizeof(__le32) * cli_le((const void *)&g->nnsids, sizeof(g->nnsids));
}

static const struct cli_field nsid_fields[] = {
	{"nsid", 0, sizeof(__le32), KIND_DEC, .label = "\tnsid"},
};

static const struct cli_shape nsid_shape = CLI_SHAPE(nsid_fields, 1, .sep = "\t:\t");
static const struct cli_list nsid_list[] = {
	CLI_LIST("NSIDS", &nsid_shape, sizeof(struct nvme_ana_group_desc), sizeof(__le32),
		 CLI_COUNTED(nvme_ana_group_desc, nnsids))};

static const struct cli_field group_fields[] = {
	CLI_FIELD(nvme_ana_group_desc, grpid, "grpid", KIND_DEC),
	CLI_FIELD(nvme_ana_group_desc, nnsids, "nnsids", KIND_DEC),
	CLI_FIELD(nvme_ana_group_desc, chgcnt, "chgcnt", KIND_DEC),
	{"state", offsetof(struct nvme_ana_group_desc, state), 1, KIND_WORD, .bits = 4,
	 .words = &ana_states},
};

static const struct cli_shape group_shape =
	CLI_SHAPE(group_fields, 1, .sep = "\t:\t", CLI_LISTS(nsid_list));
static const struct cli_list group_list[] = {/* with nvme-cli's blank */ CLI_LIST(
	"ANA DESC LIST ", &group_shape, sizeof(struct nvme_ana_log), 0,
	.heading = "ANA Log Desc :-", .size_of = group_size, CLI_COUNTED(nvme_ana_log, ngrps))};

static const struct cli_field ana_fields[] = {
	CLI_FIELD(nvme_ana_log, chgcnt, "chgcnt", KIND_DEC),
	CLI_FIELD(nvme_ana_log, ngrps, "ngrps", KIND_DEC),
};

/* Of a page that has all that it says that it has. */
const struct cli_shape cli_shape_ana =
	CLI_SHAPE(ana_fields, 1, .sep = "\t:\t", CLI_LISTS(group_list),
		  .address = "Asymmetric Namespace Access Log for NVMe device");

int cli_ana_log(struct cli_session *s, const struct cli_options *o)
{
	unsigned char *page;
	uint64_t size;
	int rc = cli_ana_read(s, cli_given(o, CLI_ARG_GROUPS), &page, &size);

	if (rc)
		return rc;
	rc = cli_shape_show(o, &cli_shape_ana, page, size, s->info.address,
			    "Asymmetric Namespace Access Log for NVMe device: %s\n"
			    "ANA LOG HEADER :-\n",
			    s->info.address);
	free(page);
	return rc;
}

/* ---- effects-log ---- */

static const struct cli_words admin_names = CLI_WORDS(
	"Unknown", [0x00] = "Delete I/O Submission Queue", "Create I/O Submission Queue",
	"Get Log Page", [0x04] = "Delete I/O Completion Queue", "Create I/O Completion Queue",
	"Identify", [0x08] = "Abort", "Set Features",
	"Get Features", [0x0c] = "Asynchronous Event Request",
	"Namespace Management", [0x10] = "Firmware Commit",
	"Firmware Image Download", [0x14] = "Device Self-test",
	"Namespace Attachment", [0x18] = "Keep Alive", "Directive Send",
	"Directive Receive", [0x1c] = "Virtualization Management", "NVMe-MI Send",
	"NVMe-MI Receive", [0x20] = "Capacity Management", "Discovery Information Management (DIM)",
	"Fabric Zoning Receive", [0x24] = "Lockdown",
	"Fabric Zoning Lookup", [0x28] = "Clear Exported NVM Resource Configuration",
	"Fabric Zoning Send", "Create Exported NVM Subsystem",
	[0x2d] = "Manage Exported NVM Subsystem", [0x31] = "Manage Exported Namespace",
	[0x35] = "Manage Exported Port", [0x39] = "Send Discovery Log Page", [0x3d] = "Track Send",
	"Track Receive", [0x41] = "Migration Send",
	"Migration Receive", [0x45] = "Controller Data Queue", [0x7c] = "Doorbell Buffer Config",
	[0x7f] = "Fabrics Commands", "Format NVM", "Security Send",
	"Security Receive", [0x84] = "Sanitize", "Load Program",
	"Get LBA Status", [0x88] = "Program Activation Management", "Memory Range Set Management");

static const struct cli_words io_names = CLI_WORDS(
	"Unknown", [0x00] = "Flush", "Write", "Read", [0x04] = "Write Uncorrectable",
	"Compare", [0x08] = "Write Zeroes", "Dataset Management", [0x0c] = "Verify",
	"Reservation Register", "Reservation Report", [0x11] = "Reservation Acquire",
	[0x15] = "Reservation Release", [0x18] = "Cancel", "Copy", [0x79] = "Zone Management Send",
	"Zone Management Receive", [0x7d] = "Zone Append");

const char *cli_command_name(bool admin, unsigned int opcode)
{
	return cli_word(admin ? &admin_names : &io_names, opcode);
}

/* The page, and the command set to which it belongs. */
struct effects {
	struct nvme_cmd_effects_log page;
	uint8_t csi;
};

static void admin_key(unsigned int i, char *key)
{
	sprintf(key, "ACS_%u (%s)", i, cli_command_name(true, i));
}

static void print_admin(const struct cli_options *o, const void *data, unsigned int i,
			const void *item)
{
	printf("ACS%-6u[%-32s] %08x\n", i, cli_command_name(true, i),
	       (unsigned int)cli_le(item, 4));
}

static void io_key(unsigned int i, char *key)
{
	sprintf(key, "IOCS_%u (%s)", i, cli_command_name(false, i));
}

static void print_io(const struct cli_options *o, const void *data, unsigned int i,
		     const void *item)
{
	printf("IOCS%-6u[%-32s] %08x\n", i, cli_command_name(false, i),
	       (unsigned int)cli_le(item, 4));
}

/* 256 dwords of which those with the bit SUPPORTED are shown. */
#define DWORDS(json, at, k, re, p, ...)                                                      \
	{                                                                                    \
		.name = json, .first = (at), .size = sizeof(__le32), .n = 256, .print = (p), \
		.mask = SUPPORTED, .key = (k), .pattern = (re), __VA_ARGS__                  \
	}

static const struct cli_list effects_lists[] = {
	DWORDS("admin_cmd_set", offsetof(struct nvme_cmd_effects_log, acs), admin_key,
	       "^ACS_[0-9]+ \\(.*\\)$", print_admin, .heading = "Admin Commands", .object = true),
	DWORDS("io_cmd_set", offsetof(struct nvme_cmd_effects_log, iocs), io_key,
	       "^IOCS_[0-9]+ \\(.*\\)$", print_io, .heading = "\nI/O Commands", .object = true),
};

static const struct cli_field effects_fields[] = {
	CLI_FIELD(effects, csi, "command_set_identifier", KIND_DEC),
};

const struct cli_shape cli_shape_effects =
	CLI_SHAPE(effects_fields, 0, .in_array = true, CLI_LISTS(effects_lists));

int cli_effects_log(struct cli_session *s, const struct cli_options *o)
{
	struct effects effects = {.csi = (uint8_t)cli_num(o, CLI_ARG_CSI, 0)};
	struct cli_log log = {
		.lid = NVME_LOG_LID_CMD_EFFECTS, .nsid = NVME_NSID_ALL, .csi = effects.csi};

	if (cli_get_log(s, &log, &effects.page, sizeof(effects.page)))
		return CLI_FAILED;
	return cli_shape_show(o, &cli_shape_effects, &effects, sizeof(effects.page), NULL, NULL);
}

/* ---- supported-log-pages, fid-support-effects-log and mi-cmd-support-effects-log ---- */

static const struct cli_words log_names = CLI_WORDS(
	"Unknown", "Supported Log Pages", "Error Information", "SMART / Health Information",
	"Firmware Slot Information", "Changed Namespace List", "Commands Supported and Effects",
	"Device Self-test", "Telemetry Host-Initiated", "Telemetry Controller-Initiated",
	"Endurance Group Information", "Predictable Latency Per NVM Set",
	"Predictable Latency Event Aggregate", "Asymmetric Namespace Access",
	"Persistent Event Log", "LBA Status Information", "Endurance Group Event Aggregate",
	"Media Unit Status", "Supported Capacity Configuration List",
	"Feature Identifiers Supported and Effects", "NVMe-MI Commands Supported and Effects",
	"Command and Feature Lockdown", "Boot Partition", "Rotational Media Information",
	"Dispersed Namespace Participating NVM Subsystems", "Management Address List",
	"Physical Interface Receiver Eye Opening Measurement", "Reachability Groups",
	"Reachability Associations",
	"Changed Allocated Namespace List", [0x20] = "FDP Configurations",
	"Reclaim Unit Handle Usage", "FDP Statistics", "FDP Events", [0x70] = "Discovery",
	"Host Discovery", "AVE Discovery",
	"Pull Model DDC Request", [0x80] = "Reservation Notification", [0x81] = "Sanitize Status",
	[0xbf] = "Changed Zone List");

static void lid_key(unsigned int lid, char *key)
{
	sprintf(key, "lid_0x%x ", lid); /* as in nvme-cli, with its blank */
}

static void print_lid(const struct cli_options *o, const void *data, unsigned int lid,
		      const void *item)
{
	printf("LID %#x - %s\n", lid, cli_word(&log_names, lid));
}

static void fid_key(unsigned int fid, char *key)
{
	sprintf(key, "fid_%u", fid);
}

static void print_fid(const struct cli_options *o, const void *data, unsigned int fid,
		      const void *item)
{
	printf("FID %02x (%s) -> Support Effects Log: %08x\n", fid, cli_feature_name(fid),
	       (unsigned int)cli_le(item, 4));
}

static void mi_key(unsigned int opcode, char *key)
{
	sprintf(key, "mi_cmd_%u", opcode);
}

static void print_mi(const struct cli_options *o, const void *data, unsigned int opcode,
		     const void *item)
{
	printf("MI CMD %02x -> Support Effects Log: %08x\n", opcode, (unsigned int)cli_le(item, 4));
}

static const struct cli_list lids[] = {
	DWORDS("supported_logs", 0, lid_key, "^lid_0x[0-9a-f]+ $", print_lid),
};
static const struct cli_list fids[] = {
	DWORDS("fid_support", 0, fid_key, "^fid_[0-9]+$", print_fid),
};
static const struct cli_list mis[] = {
	DWORDS("mi_command_support", 0, mi_key, "^mi_cmd_[0-9]+$", print_mi),
};

const struct cli_shape cli_shape_supported_logs = {CLI_LISTS(lids)};
const struct cli_shape cli_shape_fids = {CLI_LISTS(fids)};
const struct cli_shape cli_shape_mis = {CLI_LISTS(mis)};

static int support(struct cli_session *s, const struct cli_options *o, uint8_t lid,
		   const struct cli_shape *shape, const char *title, const char *after)
{
	struct cli_log log = {.lid = lid, .nsid = NVME_NSID_ALL};
	uint32_t page[256];

	if (cli_get_log(s, &log, page, sizeof(page)))
		return CLI_FAILED;
	return cli_shape_show(o, shape, page, sizeof(page), NULL, "%s %s%s\n", title,
			      s->info.address, after);
}

int cli_supported_logs(struct cli_session *s, const struct cli_options *o)
{
	return support(s, o, NVME_LOG_LID_SUPPORTED_LOG_PAGES, &cli_shape_supported_logs,
		       "Support Log Pages Details for", ":");
}

int cli_fid_effects_log(struct cli_session *s, const struct cli_options *o)
{
	return support(s, o, NVME_LOG_LID_FID_SUPPORTED_EFFECTS, &cli_shape_fids,
		       "FID Supports Effects Log for device:", "");
}

int cli_mi_effects_log(struct cli_session *s, const struct cli_options *o)
{
	return support(s, o, NVME_LOG_LID_MI_CMD_SUPPORTED_EFFECTS, &cli_shape_mis,
		       "MI Commands Support Effects Log for device:", "\nAdmin Command Set");
}
