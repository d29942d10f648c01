/* SPDX-License-Identifier: BSD-3-Clause */
/* Log pages that are lists: ANA, and the supported identifiers with their effects. */
#include <endian.h>
#include <inttypes.h>
#include <nvme/types.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

#define N(a)      (sizeof(a) / sizeof((a)[0]))
#define ANA_FIRST 4096u       /* size of the first read */
#define ANA_MAX   (16u << 20) /* limit for the size of the page */
#define ANA_RGO   1u          /* LSP: return groups only */
#define SUPPORTED 1u

/* ---- ana-log ---- */

const char *cli_ana_state(unsigned int state)
{
	switch (state & 0xf) {
	case NVME_ANA_STATE_OPTIMIZED:
		return "optimized";
	case NVME_ANA_STATE_NONOPTIMIZED:
		return "non-optimized";
	case NVME_ANA_STATE_INACCESSIBLE:
		return "inaccessible";
	case NVME_ANA_STATE_PERSISTENT_LOSS:
		return "persistent-loss";
	case NVME_ANA_STATE_CHANGE:
		return "change";
	default:
		return "invalid state";
	}
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

static json_t *ana_group(const struct nvme_ana_group_desc *g, const unsigned char *nsids, bool text)
{
	json_t *list = json_array();
	uint32_t i, nsid;

	if (text)
		printf("grpid\t:\t%u\nnnsids\t:\t%u\nchgcnt\t:\t%" PRIu64 "\nstate\t:\t%s\n",
		       le32toh(g->grpid), le32toh(g->nnsids), le64toh(g->chgcnt),
		       cli_ana_state(g->state));
	for (i = 0; i < le32toh(g->nnsids); i++) {
		memcpy(&nsid, nsids + 4ul * i, 4);
		json_array_append_new(list, json_pack("{s:I}", "nsid", (json_int_t)le32toh(nsid)));
		if (text)
			printf("\tnsid\t:\t%u\n", le32toh(nsid));
	}
	return json_pack("{s:I, s:I, s:I, s:s, s:o}", "grpid", (json_int_t)le32toh(g->grpid),
			 "nnsids", (json_int_t)le32toh(g->nnsids), "chgcnt",
			 (json_int_t)le64toh(g->chgcnt), "state", cli_ana_state(g->state), "NSIDS",
			 list);
}

static int show_ana(struct cli_session *s, const struct cli_options *o, const unsigned char *page)
{
	json_t *list = json_array();
	bool text = o->format != CLI_JSON;
	struct nvme_ana_group_desc g;
	struct nvme_ana_log hdr;
	uint64_t at = sizeof(hdr);
	unsigned int i;

	memcpy(&hdr, page, sizeof(hdr));
	if (text)
		printf("Asymmetric Namespace Access Log for NVMe device: %s\nANA LOG HEADER :-\n"
		       "chgcnt\t:\t%" PRIu64 "\nngrps\t:\t%u\nANA Log Desc :-\n",
		       s->info.address, le64toh(hdr.chgcnt), le16toh(hdr.ngrps));
	for (i = 0; i < le16toh(hdr.ngrps); i++) {
		memcpy(&g, page + at, sizeof(g));
		json_array_append_new(list, ana_group(&g, page + at + sizeof(g), text));
		at += sizeof(g) + 4ull * le32toh(g.nnsids);
	}
	if (!text)
		return cli_print_json(json_pack("{s:s, s:I, s:i, s:o}",
						"Asymmetric Namespace Access Log for NVMe device",
						s->info.address, "chgcnt",
						(json_int_t)le64toh(hdr.chgcnt), "ngrps",
						(int)le16toh(hdr.ngrps), "ANA DESC LIST ", list),
				      stdout);
	json_decref(list);
	return cli_finish_output();
}

int cli_ana_log(struct cli_session *s, const struct cli_options *o)
{
	unsigned char *page;
	uint64_t size;
	int rc = cli_ana_read(s, cli_given(o, CLI_ARG_GROUPS), &page, &size);

	if (rc)
		return rc;
	rc = cli_given(o, CLI_ARG_RAW) ? cli_raw(page, size) : show_ana(s, o, page);
	free(page);
	return rc;
}

/* ---- effects-log ---- */

struct name {
	unsigned int code;
	const char *text;
};

static const struct name admin_names[] = {
	{0x00, "Delete I/O Submission Queue"},
	{0x01, "Create I/O Submission Queue"},
	{0x02, "Get Log Page"},
	{0x04, "Delete I/O Completion Queue"},
	{0x05, "Create I/O Completion Queue"},
	{0x06, "Identify"},
	{0x08, "Abort"},
	{0x09, "Set Features"},
	{0x0a, "Get Features"},
	{0x0c, "Asynchronous Event Request"},
	{0x0d, "Namespace Management"},
	{0x10, "Firmware Commit"},
	{0x11, "Firmware Image Download"},
	{0x14, "Device Self-test"},
	{0x15, "Namespace Attachment"},
	{0x18, "Keep Alive"},
	{0x7f, "Fabrics Commands"},
	{0x80, "Format NVM"},
	{0x84, "Sanitize"},
};

static const struct name io_names[] = {
	{0x00, "Flush"},
	{0x01, "Write"},
	{0x02, "Read"},
	{0x04, "Write Uncorrectable"},
	{0x05, "Compare"},
	{0x08, "Write Zeroes"},
	{0x09, "Dataset Management"},
	{0x0c, "Verify"},
	{0x0d, "Reservation Register"},
	{0x0e, "Reservation Report"},
	{0x11, "Reservation Acquire"},
	{0x15, "Reservation Release"},
	{0x19, "Copy"},
};

static const char *name_of(const struct name *names, size_t n, unsigned int code)
{
	for (; n--; names++) {
		if (names->code == code)
			return names->text;
	}
	return "Unknown";
}

const char *cli_command_name(bool admin, unsigned int opcode)
{
	return admin ? name_of(admin_names, N(admin_names), opcode)
		     : name_of(io_names, N(io_names), opcode);
}

static json_t *effects_part(const struct cli_options *o, const char *prefix,
			    const struct name *names, size_t n, const __le32 *list)
{
	json_t *obj = json_object();
	unsigned int op;
	char key[64];

	for (op = 0; op < 256; op++) {
		uint32_t e = le32toh(list[op]);

		if (!(e & SUPPORTED))
			continue;
		snprintf(key, sizeof(key), "%s_%u (%s)", prefix, op, name_of(names, n, op));
		json_object_set_new(obj, key, json_integer(e));
		if (o->format != CLI_JSON)
			printf("%s%-6u[%-32s] %08x\n", prefix, op, name_of(names, n, op), e);
	}
	return obj;
}

int cli_effects_log(struct cli_session *s, const struct cli_options *o)
{
	struct nvme_cmd_effects_log page;
	struct cli_log log = {.lid = NVME_LOG_LID_CMD_EFFECTS,
			      .nsid = NVME_NSID_ALL,
			      .csi = (uint8_t)cli_num(o, CLI_ARG_CSI, 0)};
	json_t *admin, *io;

	if (cli_get_log(s, &log, &page, sizeof(page)))
		return CLI_FAILED;
	if (cli_given(o, CLI_ARG_RAW))
		return cli_raw(&page, sizeof(page));
	if (o->format != CLI_JSON)
		printf("Admin Command Set\n");
	admin = effects_part(o, "ACS", admin_names, N(admin_names), page.acs);
	if (o->format != CLI_JSON)
		printf("\nNVM Command Set\n");
	io = effects_part(o, "IOCS", io_names, N(io_names), page.iocs);
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("[{s:i, s:o, s:o}]", "command_set_identifier",
						(int)log.csi, "admin_cmd_set", admin, "io_cmd_set",
						io),
				      stdout);
	json_decref(admin);
	json_decref(io);
	return cli_finish_output();
}

/* ---- supported-log-pages, fid-support-effects-log and mi-cmd-support-effects-log ---- */

static const struct name log_names[] = {
	{0x00, "Supported Log Pages"},
	{0x01, "Error Information"},
	{0x02, "SMART / Health Information"},
	{0x03, "Firmware Slot Information"},
	{0x04, "Changed Namespace List"},
	{0x05, "Commands Supported and Effects"},
	{0x06, "Device Self-test"},
	{0x09, "Endurance Group Information"},
	{0x0c, "Asymmetric Namespace Access"},
	{0x0d, "Persistent Event Log"},
	{0x12, "Feature Identifiers Supported and Effects"},
	{0x13, "NVMe-MI Commands Supported and Effects"},
	{0x16, "Rotational Media Information"},
	{0x70, "Discovery"},
	{0x80, "Reservation Notification"},
	{0x81, "Sanitize Status"},
};

/* A log page with a dword for each of 256 identifiers: whether it is supported, and its effects. */
struct support_log {
	uint8_t lid;
	const char *title; /* title of the text; the address follows, then @after */
	const char *after;
	const char *list; /* JSON key of the list */
	void (*key)(char *key, size_t size, unsigned int id);
	void (*line)(unsigned int id, uint32_t effects);
};

static int support(struct cli_session *s, const struct cli_options *o, const struct support_log *l)
{
	uint32_t page[256];
	struct cli_log log = {.lid = l->lid, .nsid = NVME_NSID_ALL};
	json_t *list;
	unsigned int i;
	char key[16];

	if (cli_get_log(s, &log, page, sizeof(page)))
		return CLI_FAILED;
	list = json_array();
	if (o->format != CLI_JSON)
		printf("%s %s%s\n", l->title, s->info.address, l->after);
	for (i = 0; i < N(page); i++) {
		uint32_t e = le32toh(page[i]);

		if (!(e & SUPPORTED))
			continue;
		l->key(key, sizeof(key), i);
		json_array_append_new(list, json_pack("{s:I}", key, (json_int_t)e));
		if (o->format != CLI_JSON)
			l->line(i, e);
	}
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:o}", l->list, list), stdout);
	json_decref(list);
	return cli_finish_output();
}

static void lid_key(char *key, size_t size, unsigned int lid)
{
	snprintf(key, size, "lid_0x%x ", lid); /* as in nvme-cli, with its blank */
}

static void lid_line(unsigned int lid, uint32_t effects)
{
	printf("LID 0x%x (%s), supports 0x%x\n", lid, name_of(log_names, N(log_names), lid),
	       effects);
}

int cli_supported_logs(struct cli_session *s, const struct cli_options *o)
{
	static const struct support_log pages = {
		.lid = NVME_LOG_LID_SUPPORTED_LOG_PAGES,
		.title = "Support Log Pages Details for",
		.after = ":",
		.list = "supported_logs",
		.key = lid_key,
		.line = lid_line,
	};

	return support(s, o, &pages);
}

static void fid_key(char *key, size_t size, unsigned int fid)
{
	snprintf(key, size, "fid_%u", fid);
}

static void fid_line(unsigned int fid, uint32_t effects)
{
	printf("FID %02x (%s) -> Support Effects Log: %08x\n", fid, cli_feature_name(fid), effects);
}

int cli_fid_effects_log(struct cli_session *s, const struct cli_options *o)
{
	static const struct support_log features = {
		.lid = NVME_LOG_LID_FID_SUPPORTED_EFFECTS,
		.title = "FID Supports Effects Log for device:",
		.after = "",
		.list = "fid_support",
		.key = fid_key,
		.line = fid_line,
	};

	return support(s, o, &features);
}

static void mi_key(char *key, size_t size, unsigned int opcode)
{
	snprintf(key, size, "mi_%u", opcode);
}

static void mi_line(unsigned int opcode, uint32_t effects)
{
	printf("MI CMD %02x -> Support Effects Log: %08x\n", opcode, effects);
}

int cli_mi_effects_log(struct cli_session *s, const struct cli_options *o)
{
	static const struct support_log commands = {
		.lid = NVME_LOG_LID_MI_CMD_SUPPORTED_EFFECTS,
		.title = "MI Commands Support Effects Log for device:",
		.after = "\nAdmin Command Set",
		.list = "mi_command_support",
		.key = mi_key,
		.line = mi_line,
	};

	return support(s, o, &commands);
}
