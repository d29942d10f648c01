/* SPDX-License-Identifier: BSD-3-Clause */
/* Log pages of a fixed size. JSON keys are nvme-cli's. */
#include <ctype.h>
#include <endian.h>
#include <inttypes.h>
#include <nvme/types.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "fields.h"

/* Reads a whole log page of the controller. */
static int get_page(struct cli_session *s, uint8_t lid, void *data, uint32_t len)
{
	struct cli_log log = {.lid = lid, .nsid = NVME_NSID_ALL};

	return cli_get_log(s, &log, data, len);
}

/* ---- get-log ---- */

static int get_log(struct cli_session *s, const struct cli_options *o)
{
	uint32_t len = (uint32_t)o->arg[CLI_ARG_LOG_LEN].n;
	struct cli_log log = {
		.lid = (uint8_t)o->arg[CLI_ARG_LID].n,
		.lsp = (uint8_t)cli_num(o, CLI_ARG_LSP, 0),
		.lsi = (uint16_t)cli_num(o, CLI_ARG_LSI, 0),
		.csi = (uint8_t)cli_num(o, CLI_ARG_CSI, 0),
		.nsid = o->nsid ? o->nsid : NVME_NSID_ALL,
		.offset = cli_num(o, CLI_ARG_LPO, 0),
		.rae = cli_given(o, CLI_ARG_RAE),
	};
	unsigned char *data = calloc(1, len);
	int rc;

	if (!data)
		return cli_error("no memory for %u bytes", len);
	rc = cli_get_log(s, &log, data, len);
	if (!rc && cli_given(o, CLI_ARG_RAW)) {
		rc = cli_raw(data, len);
	} else if (!rc && o->format == CLI_JSON) {
		rc = cli_print_json(json_pack("{s:i, s:I, s:o}", "log_id", (int)log.lid, "offset",
					      (json_int_t)log.offset, "data", cli_hex(data, len)),
				    stdout);
	} else if (!rc) {
		printf("Device:%s log-id:%u namespace-id:%#x\n", s->info.address, log.lid,
		       log.nsid);
		cli_dump(data, len);
		rc = cli_finish_output();
	}
	free(data);
	return rc;
}

int cli_get_log_verb(const struct cli_options *o)
{
	uint64_t len = o->arg[CLI_ARG_LOG_LEN].n;

	if (!cli_given(o, CLI_ARG_LID))
		return cli_usage_error("--log-id is missing: the identifier of the log page; "
				       "`rdinit supported-log-pages` lists them");
	if (!cli_given(o, CLI_ARG_LOG_LEN))
		return cli_usage_error("--log-len is missing: how many bytes to read");
	if (len == 0 || len % 4)
		return cli_usage_error(
			"--log-len: found %llu, expected a multiple of 4, at least 4",
			(unsigned long long)len);
	return cli_with_ctrl(o, get_log);
}

/* ---- smart-log ---- */

#define SMART(member, name, k, ...)                                                         \
	{                                                                                   \
		name, offsetof(struct nvme_smart_log, member),                              \
			sizeof(((struct nvme_smart_log *)0)->member), KIND_##k, __VA_ARGS__ \
	}
#define CALLED(text)    .label = (text)
#define SHOWN(text, fn) .label = (text), .explain = (fn)

/* Thousands of blocks of 512 bytes. */
static void data_units(const unsigned char *units, char *buf)
{
	static const char *const prefixes[] = {"",  "k", "M", "G", "T", "P",
					       "E", "Z", "Y", "R", "Q"};
	long double bytes =
		(long double)cli_le(units + 8, 8) * 0x1p64L + (long double)cli_le(units, 8);
	size_t i;

	bytes *= 512000;
	for (i = 0; bytes >= 1000 && i + 1 < CLI_COUNT(prefixes); i++)
		bytes /= 1000;
	sprintf(buf, "%.2Lf %sB", bytes, prefixes[i]);
}

static void units_read(uint64_t v, const void *data, char *buf)
{
	data_units(((const struct nvme_smart_log *)data)->data_units_read, buf);
}

static void units_written(uint64_t v, const void *data, char *buf)
{
	data_units(((const struct nvme_smart_log *)data)->data_units_written, buf);
}

static void percent(uint64_t v, const void *data, char *buf)
{
	sprintf(buf, "%" PRIu64 "%%", v);
}

static const struct cli_field warnings[] = {
	CLI_PART("Available Spare[0]            ", KIND_DEC, 0, 1),
	CLI_PART("Temp. Threshold[1]            ", KIND_DEC, 1, 1),
	CLI_PART("NVM subsystem Reliability[2]  ", KIND_DEC, 2, 1),
	CLI_PART("Read-only[3]                  ", KIND_DEC, 3, 1),
	CLI_PART("Volatile mem. backup failed[4]", KIND_DEC, 4, 1),
	CLI_PART("Persistent Mem. RO[5]         ", KIND_DEC, 5, 1),
};

#define SENSOR(n)                                                                                 \
	{                                                                                         \
		"temperature_sensor_" #n, offsetof(struct nvme_smart_log, temp_sensor[n - 1]), 2, \
			KIND_MEANT, .if_set = true, SHOWN("Temperature Sensor " #n, cli_kelvin)   \
	}

static const struct cli_field smart_fields[] = {
	SMART(critical_warning, "critical_warning", HEX, CLI_PARTS(warnings)),
	SMART(temperature, "temperature", MEANT, .explain = cli_kelvin),
	SMART(avail_spare, "avail_spare", MEANT, SHOWN("available_spare", percent)),
	SMART(spare_thresh, "spare_thresh", MEANT, SHOWN("available_spare_threshold", percent)),
	SMART(percent_used, "percent_used", MEANT, SHOWN("percentage_used", percent)),
	SMART(endu_grp_crit_warn_sumry, "endurance_grp_critical_warning_summary", HEX,
	      CALLED("endurance group critical warning summary")),
	SMART(data_units_read, "data_units_read", U128N, SHOWN("Data Units Read", units_read)),
	SMART(data_units_written, "data_units_written", U128N,
	      SHOWN("Data Units Written", units_written)),
	SMART(host_reads, "host_read_commands", U128N),
	SMART(host_writes, "host_write_commands", U128N),
	SMART(ctrl_busy_time, "controller_busy_time", U128N),
	SMART(power_cycles, "power_cycles", U128N),
	SMART(power_on_hours, "power_on_hours", U128N),
	SMART(unsafe_shutdowns, "unsafe_shutdowns", U128N),
	SMART(media_errors, "media_errors", U128N),
	SMART(num_err_log_entries, "num_err_log_entries", U128N),
	SMART(warning_temp_time, "warning_temp_time", DEC, CALLED("Warning Temperature Time")),
	SMART(critical_comp_time, "critical_comp_time", DEC,
	      CALLED("Critical Composite Temperature Time")),
	SENSOR(1),
	SENSOR(2),
	SENSOR(3),
	SENSOR(4),
	SENSOR(5),
	SENSOR(6),
	SENSOR(7),
	SENSOR(8),
	SMART(thm_temp1_trans_count, "thm_temp1_trans_count", DEC,
	      CALLED("Thermal Management T1 Trans Count")),
	SMART(thm_temp2_trans_count, "thm_temp2_trans_count", DEC,
	      CALLED("Thermal Management T2 Trans Count")),
	SMART(thm_temp1_total_time, "thm_temp1_total_time", DEC,
	      CALLED("Thermal Management T1 Total Time")),
	SMART(thm_temp2_total_time, "thm_temp2_total_time", DEC,
	      CALLED("Thermal Management T2 Total Time")),
};

const struct cli_shape cli_shape_smart = CLI_SHAPE(smart_fields, 40, .sep = ": ");

int cli_smart_log(struct cli_session *s, const struct cli_options *o)
{
	uint32_t nsid = (uint32_t)cli_num(o, CLI_ARG_FIRST, NVME_NSID_ALL);
	struct cli_log log = {.lid = NVME_LOG_LID_SMART, .nsid = nsid};
	struct nvme_smart_log page;

	if (cli_get_log(s, &log, &page, sizeof(page)))
		return CLI_FAILED;
	return cli_shape_show(o, &cli_shape_smart, &page, sizeof(page), NULL,
			      "Smart Log for NVME device:%s namespace-id:%x\n", s->info.address,
			      nsid);
}

/* ---- error-log ---- */

#define ENTRIES_MAX      256u

#define ERROR(member, k) CLI_FIELD(nvme_error_log_page, member, #member, k)

static void status_meaning(uint64_t v, const void *data, char *buf)
{
	const struct nvme_error_log_page *e = data;
	char text[RDINIT_STATUS_TEXT_SIZE];

	snprintf(buf, CLI_FIELD_TEXT, "%s",
		 rdinit_status_text((uint16_t)v,
				    le16toh(e->sqid) ? RDINIT_CMDS_IO : RDINIT_CMDS_UNKNOWN, 0,
				    text));
}

static const struct cli_field error_fields[] = {
	ERROR(error_count, KIND_DEC),
	ERROR(sqid, KIND_DEC),
	ERROR(cmdid, KIND_HEX),
	{"status_field", offsetof(struct nvme_error_log_page, status_field), 2, KIND_HEX, 1, 15,
	 .explain = status_meaning},
	CLI_BITS(nvme_error_log_page, status_field, "phase_tag", KIND_HEX, 0, 1),
	{"parm_error_location", offsetof(struct nvme_error_log_page, parm_error_location), 2,
	 KIND_HEX, .label = "parm_err_loc"},
	ERROR(lba, KIND_HEX),
	ERROR(nsid, KIND_HEX),
	ERROR(vs, KIND_DEC),
	ERROR(trtype, KIND_DEC),
	ERROR(cs, KIND_HEX),
	ERROR(trtype_spec_info, KIND_HEX),
};

static const struct cli_shape error_shape = CLI_SHAPE(error_fields, 19);

static void print_error_entry(const struct cli_options *o, const void *data, unsigned int i,
			      const void *item)
{
	printf(" Entry[%2u]\n.................\n", i);
	cli_shape_print(o, &error_shape, item, 0);
	printf(".................\n");
}

static const struct cli_list errors[] = {CLI_LIST(
	"errors", &error_shape, 0, sizeof(struct nvme_error_log_page), .print = print_error_entry)};

const struct cli_shape cli_shape_errors = {CLI_LISTS(errors)};

int cli_error_log(struct cli_session *s, const struct cli_options *o)
{
	unsigned int n = (unsigned int)cli_num(o, CLI_ARG_ENTRIES, ENTRIES_MAX);
	struct nvme_error_log_page page[ENTRIES_MAX];
	struct nvme_id_ctrl id;

	if (n == 0)
		return cli_usage_error("--log-entries: found 0, expected 1 to 256");
	if (rdinit_identify_ctrl(s->ctrl, &id))
		return cli_lib_error();
	if (n > id.elpe + 1u)
		n = id.elpe + 1u;
	if (get_page(s, NVME_LOG_LID_ERROR, page, n * (uint32_t)sizeof(page[0])))
		return CLI_FAILED;
	return cli_shape_show(o, &cli_shape_errors, page, n * sizeof(page[0]), NULL,
			      "Error Log Entries for device:%s entries:%u\n.................\n",
			      s->info.address, n);
}

/* ---- fw-log ---- */

static const struct cli_field fw_fields[] = {
	{"Active Firmware Slot (afi)", offsetof(struct nvme_firmware_slot, afi), 1, KIND_HEX,
	 .label = "afi "},
};

static void slot_key(unsigned int i, char *key)
{
	sprintf(key, "Firmware Rev Slot %u", i + 1);
}

/* The revision, as in nvme-cli with dots for blanks. */
static const char *revision(const unsigned char *frs, char rev[9])
{
	size_t i;

	for (i = 0; i < 8; i++)
		rev[i] = isgraph(frs[i]) ? (char)frs[i] : '.';
	rev[8] = '\0';
	return rev;
}

static void slot_text(const void *item, char *text)
{
	char rev[9];

	sprintf(text, "%" PRIu64 " (%s)", cli_le(item, 8), revision(item, rev));
}

static void print_slot(const struct cli_options *o, const void *data, unsigned int i,
		       const void *item)
{
	char rev[9];

	printf("frs%u : %#" PRIx64 " (%s)\n", i + 1, cli_le(item, 8), revision(item, rev));
}

static const struct cli_list fw_slots[] = {CLI_LIST(
	NULL, NULL, offsetof(struct nvme_firmware_slot, frs), 8, .n = 7, .print = print_slot,
	.mask = 0xff, .key = slot_key, .pattern = "^Firmware Rev Slot [1-7]$", .value = slot_text)};

const struct cli_shape cli_shape_fw =
	CLI_SHAPE(fw_fields, 4, .below_address = true, CLI_LISTS(fw_slots));

int cli_fw_log(struct cli_session *s, const struct cli_options *o)
{
	struct nvme_firmware_slot page;

	if (get_page(s, NVME_LOG_LID_FW_SLOT, &page, sizeof(page)))
		return CLI_FAILED;
	return cli_shape_show(o, &cli_shape_fw, &page, sizeof(page), s->info.address,
			      "Firmware Log for device:%s\n", s->info.address);
}

/* ---- changed-ns-list-log ---- */

static unsigned int changed_count(const void *data)
{
	const struct nvme_ns_list *list = data;
	unsigned int n;

	for (n = 0; n < CLI_COUNT(list->ns) && list->ns[n]; n++)
		;
	return n;
}

static void changed_key(unsigned int i, char *key)
{
	sprintf(key, "[%4u]", i + 1);
}

static void changed_nsid(const void *item, char *text)
{
	sprintf(text, "%#x", (unsigned int)cli_le(item, 4));
}

static void print_changed(const struct cli_options *o, const void *data, unsigned int i,
			  const void *item)
{
	printf("[%4u]:%#x\n", i, (unsigned int)cli_le(item, 4));
}

static const struct cli_list changed[] = {
	CLI_LIST(NULL, NULL, 0, sizeof(__le32), .count = changed_count, .print = print_changed,
		 .mask = UINT32_MAX, .key = changed_key, .pattern = "^\\[ *[0-9]+\\]$",
		 .value = changed_nsid)};

const struct cli_shape cli_shape_changed_ns = {.address = "Changed Attached Namespace List Log",
					       .below_address = true,
					       CLI_LISTS(changed)};

int cli_changed_ns_log(struct cli_session *s, const struct cli_options *o)
{
	struct nvme_ns_list page;

	if (get_page(s, NVME_LOG_LID_CHANGED_NS, &page, sizeof(page)))
		return CLI_FAILED;
	if (le32toh(page.ns[0]) == NVME_NSID_ALL)
		cli_error("more namespaces have changed than the log lists (%zu); list-ns lists "
			  "the current ones",
			  CLI_COUNT(page.ns));
	return cli_shape_show(o, &cli_shape_changed_ns, &page, sizeof(page), s->info.address, NULL);
}

/* ---- resv-notif-log ---- */

static const struct cli_words notif_types =
	CLI_WORDS("Reserved", "Empty Log Page", "Registration Preempted", "Reservation Released",
		  "Reservation Preempted");

#define NOTIF(member, key, text, k, ...)                                             \
	{                                                                            \
		key, offsetof(struct nvme_resv_notification_log, member),            \
			sizeof(((struct nvme_resv_notification_log *)0)->member), k, \
			.label = text, __VA_ARGS__                                   \
	}

static const struct cli_field notif_fields[] = {
	NOTIF(lpc, "count", "Log Page Count", KIND_PLAIN),
	NOTIF(rnlpt, "rn_log_type", "Resv Notif Log Page Type", KIND_DEC, .words = &notif_types),
	NOTIF(nalp, "num_logs", "Num of Available Log Pages", KIND_DEC),
	NOTIF(nsid, "NSID", "Namespace ID", KIND_PLAIN),
};

const struct cli_shape cli_shape_resv_notif = CLI_SHAPE(notif_fields, 26);

int cli_resv_notif_log(struct cli_session *s, const struct cli_options *o)
{
	struct nvme_resv_notification_log page;

	if (get_page(s, NVME_LOG_LID_RESERVATION, &page, sizeof(page)))
		return CLI_FAILED;
	return cli_shape_show(o, &cli_shape_resv_notif, &page, sizeof(page), NULL,
			      "Reservation Notif Log for device: %s\n", s->info.address);
}

/* ---- endurance-log ---- */

#define ENDURANCE(member, label, k, ...) \
	CLI_FIELD(nvme_endurance_group_log, member, label, k, __VA_ARGS__)

static const struct cli_field endurance_fields[] = {
	ENDURANCE(critical_warning, "critical_warning", KIND_DEC),
	{"endurance_group_features", 1, 1, KIND_DEC},
	ENDURANCE(avl_spare, "avl_spare", KIND_DEC),
	ENDURANCE(avl_spare_threshold, "avl_spare_threshold", KIND_DEC),
	ENDURANCE(percent_used, "percent_used", KIND_MEANT, .explain = percent),
	{"domain_identifier", 6, 2, KIND_DEC},
	ENDURANCE(endurance_estimate, "endurance_estimate", KIND_U128N),
	ENDURANCE(data_units_read, "data_units_read", KIND_U128N),
	ENDURANCE(data_units_written, "data_units_written", KIND_U128N),
	ENDURANCE(media_units_written, "media_units_written", KIND_U128N),
	ENDURANCE(host_read_cmds, "host_read_cmds", KIND_U128N),
	ENDURANCE(host_write_cmds, "host_write_cmds", KIND_U128N),
	ENDURANCE(media_data_integrity_err, "media_data_integrity_err", KIND_U128N),
	ENDURANCE(num_err_info_log_entries, "num_err_info_log_entries", KIND_U128N),
	{"total_end_grp_cap", 160, 16, KIND_U128N},
	{"unalloc_end_grp_cap", 176, 16, KIND_U128N},
};

const struct cli_shape cli_shape_endurance = CLI_SHAPE(endurance_fields, 24);

int cli_endurance_log(struct cli_session *s, const struct cli_options *o)
{
	struct cli_log log = {.lid = NVME_LOG_LID_ENDURANCE_GROUP,
			      .nsid = 0,
			      .lsi = (uint16_t)cli_num(o, CLI_ARG_GROUP_ID, 1)};
	struct nvme_endurance_group_log page;

	if (cli_get_log(s, &log, &page, sizeof(page)))
		return CLI_FAILED;
	return cli_shape_show(o, &cli_shape_endurance, &page, sizeof(page), NULL,
			      "Endurance Group Log for NVME device:%s Group ID:%x\n",
			      s->info.address, log.lsi);
}
