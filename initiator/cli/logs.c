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

#define N(a) (sizeof(a) / sizeof((a)[0]))

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
		return cli_usage_error("--log-len: %llu is not a multiple of 4, from 4",
				       (unsigned long long)len);
	return cli_with_ctrl(o, get_log);
}

/* ---- smart-log ---- */

#define SMART(member, label, k) CLI_FIELD(nvme_smart_log, member, label, k)

static const struct cli_field smart_fields[] = {
	SMART(critical_warning, "critical_warning", KIND_DEC),
	SMART(temperature, "temperature", KIND_DEC),
	SMART(avail_spare, "avail_spare", KIND_DEC),
	SMART(spare_thresh, "spare_thresh", KIND_DEC),
	SMART(percent_used, "percent_used", KIND_DEC),
	SMART(endu_grp_crit_warn_sumry, "endurance_grp_critical_warning_summary", KIND_DEC),
	SMART(data_units_read, "data_units_read", KIND_U128N),
	SMART(data_units_written, "data_units_written", KIND_U128N),
	SMART(host_reads, "host_read_commands", KIND_U128N),
	SMART(host_writes, "host_write_commands", KIND_U128N),
	SMART(ctrl_busy_time, "controller_busy_time", KIND_U128N),
	SMART(power_cycles, "power_cycles", KIND_U128N),
	SMART(power_on_hours, "power_on_hours", KIND_U128N),
	SMART(unsafe_shutdowns, "unsafe_shutdowns", KIND_U128N),
	SMART(media_errors, "media_errors", KIND_U128N),
	SMART(num_err_log_entries, "num_err_log_entries", KIND_U128N),
	SMART(warning_temp_time, "warning_temp_time", KIND_DEC),
	SMART(critical_comp_time, "critical_comp_time", KIND_DEC),
	SMART(thm_temp1_trans_count, "thm_temp1_trans_count", KIND_DEC),
	SMART(thm_temp2_trans_count, "thm_temp2_trans_count", KIND_DEC),
	SMART(thm_temp1_total_time, "thm_temp1_total_time", KIND_DEC),
	SMART(thm_temp2_total_time, "thm_temp2_total_time", KIND_DEC),
};

int cli_smart_log(struct cli_session *s, const struct cli_options *o)
{
	uint32_t nsid = (uint32_t)cli_num(o, CLI_ARG_FIRST, NVME_NSID_ALL);
	struct cli_log log = {.lid = NVME_LOG_LID_SMART, .nsid = nsid};
	struct nvme_smart_log page;
	json_t *obj;
	char key[24];
	size_t i;

	if (cli_get_log(s, &log, &page, sizeof(page)))
		return CLI_FAILED;
	if (cli_given(o, CLI_ARG_RAW))
		return cli_raw(&page, sizeof(page));
	obj = cli_fields_json(smart_fields, N(smart_fields), &page);
	if (o->format != CLI_JSON) {
		printf("Smart Log for NVME device:%s namespace-id:%x\n", s->info.address, nsid);
		cli_fields_print(smart_fields, N(smart_fields), &page, 38);
	}
	for (i = 0; i < N(page.temp_sensor); i++) {
		unsigned int t = le16toh(page.temp_sensor[i]);

		if (!t)
			continue;
		snprintf(key, sizeof(key), "temperature_sensor_%zu", i + 1);
		json_object_set_new(obj, key, json_integer(t));
		if (o->format != CLI_JSON)
			printf("%-38s : %u\n", key, t);
	}
	if (o->format == CLI_JSON)
		return cli_print_json(obj, stdout);
	json_decref(obj);
	return cli_finish_output();
}

/* ---- error-log ---- */

#define ENTRIES_MAX      256u

#define ERROR(member, k) CLI_FIELD(nvme_error_log_page, member, #member, k)

static const struct cli_field error_fields[] = {
	ERROR(error_count, KIND_DEC),
	ERROR(sqid, KIND_DEC),
	ERROR(cmdid, KIND_HEX),
	CLI_BITS(nvme_error_log_page, status_field, "status_field", KIND_HEX, 1, 15),
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

#define ERROR_STATUS 3u /* index of the status, whose meaning depends on the queue */

static void print_error_entry(unsigned int i, const struct nvme_error_log_page *e)
{
	uint16_t status = (uint16_t)(le16toh(e->status_field) >> 1);
	char text[RDINIT_STATUS_TEXT_SIZE];

	printf(" Entry[%2u]\n.................\n", i);
	cli_fields_print(error_fields, ERROR_STATUS, e, 19);
	printf("%-19s : %#x (%s)\n", "status_field", status,
	       rdinit_status_text(status, le16toh(e->sqid) ? RDINIT_CMDS_IO : RDINIT_CMDS_UNKNOWN,
				  0, text));
	cli_fields_print(&error_fields[ERROR_STATUS + 1], N(error_fields) - ERROR_STATUS - 1, e,
			 19);
	printf(".................\n");
}

int cli_error_log(struct cli_session *s, const struct cli_options *o)
{
	unsigned int n = (unsigned int)cli_num(o, CLI_ARG_ENTRIES, ENTRIES_MAX), i;
	struct nvme_error_log_page page[ENTRIES_MAX];
	struct nvme_id_ctrl id;
	json_t *list;

	if (n == 0)
		return cli_usage_error("--log-entries: 0 is not from 1 to 256");
	if (rdinit_identify_ctrl(s->ctrl, &id))
		return cli_lib_error();
	if (n > id.elpe + 1u)
		n = id.elpe + 1u;
	if (get_page(s, NVME_LOG_LID_ERROR, page, n * (uint32_t)sizeof(page[0])))
		return CLI_FAILED;
	if (cli_given(o, CLI_ARG_RAW))
		return cli_raw(page, n * sizeof(page[0]));
	list = json_array();
	if (o->format != CLI_JSON)
		printf("Error Log Entries for device:%s entries:%u\n.................\n",
		       s->info.address, n);
	for (i = 0; i < n; i++) {
		if (o->format != CLI_JSON)
			print_error_entry(i, &page[i]);
		json_array_append_new(list,
				      cli_fields_json(error_fields, N(error_fields), &page[i]));
	}
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:o}", "errors", list), stdout);
	json_decref(list);
	return cli_finish_output();
}

/* ---- fw-log ---- */

int cli_fw_log(struct cli_session *s, const struct cli_options *o)
{
	struct nvme_firmware_slot page;
	json_t *slots = json_object();
	char key[24], text[48], rev[9];
	size_t i, j;

	if (get_page(s, NVME_LOG_LID_FW_SLOT, &page, sizeof(page))) {
		json_decref(slots);
		return CLI_FAILED;
	}
	json_object_set_new(slots, "Active Firmware Slot (afi)", json_integer(page.afi));
	if (!cli_given(o, CLI_ARG_RAW) && o->format != CLI_JSON)
		printf("Firmware Log for device:%s\nafi  : %#x\n", s->info.address, page.afi);
	for (i = 0; i < N(page.frs); i++) {
		if (!page.frs[i][0])
			continue;
		for (j = 0; j < 8; j++) /* as in nvme-cli, with dots for blanks */
			rev[j] = isgraph((unsigned char)page.frs[i][j]) ? page.frs[i][j] : '.';
		rev[8] = '\0';
		snprintf(key, sizeof(key), "Firmware Rev Slot %zu", i + 1);
		snprintf(text, sizeof(text), "%" PRIu64 " (%s)",
			 cli_le((const unsigned char *)page.frs[i], 8), rev);
		json_object_set_new(slots, key, json_string(text));
		if (!cli_given(o, CLI_ARG_RAW) && o->format != CLI_JSON)
			printf("frs%zu : %#018" PRIx64 " (%s)\n", i + 1,
			       cli_le((const unsigned char *)page.frs[i], 8), rev);
	}
	if (!cli_given(o, CLI_ARG_RAW) && o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:o}", s->info.address, slots), stdout);
	json_decref(slots);
	return cli_given(o, CLI_ARG_RAW) ? cli_raw(&page, sizeof(page)) : cli_finish_output();
}

/* ---- changed-ns-list-log ---- */

int cli_changed_ns_log(struct cli_session *s, const struct cli_options *o)
{
	struct nvme_ns_list page;
	json_t *list = json_object();
	bool json = o->format == CLI_JSON, raw = cli_given(o, CLI_ARG_RAW);
	char key[16], text[16];
	size_t i;

	if (get_page(s, NVME_LOG_LID_CHANGED_NS, &page, sizeof(page))) {
		json_decref(list);
		return CLI_FAILED;
	}
	if (le32toh(page.ns[0]) == NVME_NSID_ALL)
		cli_error("more namespaces have changed than the log lists (%zu); list-ns lists "
			  "those that there are now",
			  N(page.ns));
	for (i = 0; i < N(page.ns) && page.ns[i]; i++) {
		snprintf(key, sizeof(key), "[%4zu]", i + 1);
		snprintf(text, sizeof(text), "%#x", le32toh(page.ns[i]));
		json_object_set_new(list, key, json_string(text));
		if (!json && !raw)
			printf("%s:%s\n", key, text);
	}
	if (json && !raw)
		return cli_print_json(json_pack("{s:s, s:o}", "Changed Namespace List Log",
						s->info.address, s->info.address, list),
				      stdout);
	json_decref(list);
	return raw ? cli_raw(&page, sizeof(page)) : cli_finish_output();
}

/* ---- resv-notif-log ---- */

static const char *notif_text(uint64_t type)
{
	static const char *const texts[] = {"empty", "registration preempted",
					    "reservation released", "reservation preempted"};

	return type < N(texts) ? texts[type] : "reserved";
}

int cli_resv_notif_log(struct cli_session *s, const struct cli_options *o)
{
	static const struct cli_field fields[] = {
		{"count", 0, 8, KIND_PLAIN, .label = "Log Page Count"},
		{"rn_log_type", 8, 1, KIND_DEC, .label = "Resv Notif Log Page Type",
		 .words = notif_text},
		{"num_logs", 9, 1, KIND_DEC, .label = "Num of Available Log Pages"},
		{"nsid", 12, 4, KIND_PLAIN, .label = "Namespace ID"},
	};
	struct nvme_resv_notification_log page;
	char heading[512];

	if (get_page(s, NVME_LOG_LID_RESERVATION, &page, sizeof(page)))
		return CLI_FAILED;
	snprintf(heading, sizeof(heading), "Reservation Notif Log for device: %s", s->info.address);
	return cli_fields_show(o, fields, N(fields), &page, sizeof(page), heading, 26);
}

/* ---- endurance-log ---- */

#define ENDURANCE(member, label, k) CLI_FIELD(nvme_endurance_group_log, member, label, k)

static const struct cli_field endurance_fields[] = {
	ENDURANCE(critical_warning, "critical_warning", KIND_DEC),
	ENDURANCE(avl_spare, "avl_spare", KIND_DEC),
	ENDURANCE(avl_spare_threshold, "avl_spare_threshold", KIND_DEC),
	ENDURANCE(percent_used, "percent_used", KIND_DEC),
	ENDURANCE(endurance_estimate, "endurance_estimate", KIND_U128N),
	ENDURANCE(data_units_read, "data_units_read", KIND_U128N),
	ENDURANCE(data_units_written, "data_units_written", KIND_U128N),
	/* misspelt as in nvme-cli */
	ENDURANCE(media_units_written, "mediate_write_commands", KIND_U128N),
	ENDURANCE(host_read_cmds, "host_read_cmds", KIND_U128N),
	ENDURANCE(host_write_cmds, "host_write_cmds", KIND_U128N),
	ENDURANCE(media_data_integrity_err, "media_data_integrity_err", KIND_U128N),
	ENDURANCE(num_err_info_log_entries, "num_err_info_log_entries", KIND_U128N),
};

int cli_endurance_log(struct cli_session *s, const struct cli_options *o)
{
	struct cli_log log = {.lid = NVME_LOG_LID_ENDURANCE_GROUP,
			      .nsid = 0,
			      .lsi = (uint16_t)cli_num(o, CLI_ARG_GROUP_ID, 1)};
	struct nvme_endurance_group_log page;
	char heading[512];

	if (cli_get_log(s, &log, &page, sizeof(page)))
		return CLI_FAILED;
	snprintf(heading, sizeof(heading), "Endurance Group Log for NVME device:%s Group ID:%x",
		 s->info.address, log.lsi);
	return cli_fields_show(o, endurance_fields, N(endurance_fields), &page, sizeof(page),
			       heading, 24);
}
