/* SPDX-License-Identifier: BSD-3-Clause */
/* get-feature and set-feature. */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <nvme/types.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "fields.h"

#define OPC_SET_FEATURES 0x09
#define OPC_GET_FEATURES 0x0a
#define FID_MAX          255u
#define SAVE             (1u << 31)
#define SEL_SUPPORTED    3u
#define EXHID            1u /* 128-bit host identifier, mandatory over Fabrics */

/* ---- what the values mean; texts and their columns are nvme-cli's ---- */

static void tenths(uint64_t v, const void *data, char *buf)
{
	sprintf(buf, "%" PRIu64 " ms", v * 100);
}

static void burst(uint64_t v, const void *data, char *buf)
{
	if (v == 7)
		strcpy(buf, "No limit");
	else
		sprintf(buf, "%u", 1u << v);
}

#define PLAIN(label, at, n) CLI_PART(label, KIND_DEC, at, n)
#define NUMBERED(label, at, n, ...) \
	CLI_PART(label, KIND_PLAIN, at, n, .words = CLI_MEANS(__VA_ARGS__))

static const struct cli_words yes_no = CLI_WORDS("", "no", "yes");
static const struct cli_words notices = CLI_WORDS("Send async event", "Do not send async event");
static const struct cli_words protection =
	CLI_WORDS("Reserved", "No Write Protect", "Write Protect",
		  "Write Protect Until Power Cycle", "Permanent Write Protect");

static const struct cli_field arbitration[] = {
	CLI_EXPLAINED_PART("High Priority Weight   (HPW)", 24, 8, cli_zeroes_based),
	CLI_EXPLAINED_PART("Medium Priority Weight (MPW)", 16, 8, cli_zeroes_based),
	CLI_EXPLAINED_PART("Low Priority Weight    (LPW)", 8, 8, cli_zeroes_based),
	CLI_EXPLAINED_PART("Arbitration Burst       (AB)", 0, 3, burst),
};

static const struct cli_field power[] = {
	NUMBERED("Workload Hint (WH)", 5, 3, "No Workload",
		 "Extended Idle Period with a Burst of Random Writes", "Heavy Sequential Writes"),
	PLAIN("Power State   (PS)", 0, 5),
};

static const struct cli_field temperature[] = {
	CLI_EXPLAINED_PART("Temperature Threshold Hysteresis(TMPTHH)", 22, 3, cli_kelvin),
	NUMBERED("Threshold Type Select         (THSEL)", 20, 2, "Over Temperature Threshold",
		 "Under Temperature Threshold"),
	NUMBERED("Threshold Temperature Select (TMPSEL)", 16, 4, "Composite Temperature",
		 "Temperature Sensor 1", "Temperature Sensor 2", "Temperature Sensor 3",
		 "Temperature Sensor 4", "Temperature Sensor 5", "Temperature Sensor 6",
		 "Temperature Sensor 7", "Temperature Sensor 8"),
	CLI_EXPLAINED_PART("Temperature Threshold         (TMPTH)", 0, 16, cli_kelvin),
};

static const struct cli_field recovery[] = {
	CLI_WORD_PART("Deallocated or Unwritten Logical Block Error Enable (DULBE)", 16, 1,
		      cli_enabled),
	CLI_EXPLAINED_PART("Time Limited Error Recovery                          (TLER)", 0, 16,
			   tenths),
};

static const struct cli_field cache[] = {
	CLI_WORD_PART("Volatile Write Cache Enable (WCE)", 0, 1, cli_enabled),
};

static const struct cli_field queues[] = {
	CLI_EXPLAINED_PART("Number of IO Completion Queues Allocated (NCQA)", 16, 16,
			   cli_zeroes_based),
	CLI_EXPLAINED_PART("Number of IO Submission Queues Allocated (NSQA)", 0, 16,
			   cli_zeroes_based),
};

static const struct cli_field atomicity[] = {
	CLI_WORD_PART("Disable Normal (DN)", 0, 1, cli_true_false),
};

#define NOTICE(label, at) CLI_WORD_PART(label, at, 1, notices)

static const struct cli_field events[] = {
	NOTICE("Discovery Log Page Change Notices                         ", 31),
	NOTICE("Host Discovery Log Page Change Notification               ", 30),
	NOTICE("AVE Discovery Log Page Change Notification                ", 29),
	NOTICE("Pull Model DDC Request Log Page Change Notification       ", 28),
	NOTICE("Zone Descriptor Changed Notices                           ", 27),
	NOTICE("Allocated Namespace Attribute Notices                     ", 19),
	NOTICE("Reachability Group                                        ", 18),
	NOTICE("Reachability Association                                  ", 17),
	NOTICE("Temperature Threshold Hysteresis Recovery                 ", 16),
	NOTICE("Normal NVM Subsystem Shutdown                             ", 15),
	NOTICE("Endurance Group Event Aggregate Log Change Notices        ", 14),
	NOTICE("LBA Status Information Notices                            ", 13),
	NOTICE("Predictable Latency Event Aggregate Log Change Notices    ", 12),
	NOTICE("Asymmetric Namespace Access Change Notices                ", 11),
	NOTICE("Telemetry Log Notices                                     ", 10),
	NOTICE("Firmware Activation Notices                               ", 9),
	NOTICE("Namespace Attribute Notices                               ", 8),
	CLI_WORD_PART("SMART / Health Critical Warnings                          ", 0, 8, notices),
};

static const struct cli_field keep_alive[] = {
	PLAIN("Keep Alive Timeout (KATO) in milliseconds", 0, 32),
};

static const struct cli_field resv_mask[] = {
	CLI_WORD_PART("Mask Reservation Preempted Notification  (RESPRE)", 3, 1, cli_true_false),
	CLI_WORD_PART("Mask Reservation Released Notification   (RESREL)", 2, 1, cli_true_false),
	CLI_WORD_PART("Mask Registration Preempted Notification (REGPRE)", 1, 1, cli_true_false),
};

static const struct cli_field resv_persist[] = {
	CLI_WORD_PART("Persist Through Power Loss (PTPL)", 0, 1, cli_true_false),
};

static const struct cli_field write_protect[] = {
	CLI_WORD_PART("Namespace Write Protect", 0, 3, protection),
};

/* Of the value with --sel=3. */
static const struct cli_field capabilities[] = {
	CLI_WORD_PART("Feature is saveable", 0, 1, yes_no),
	CLI_WORD_PART("Feature is Namespace specific", 1, 1, yes_no),
	CLI_WORD_PART("Feature is changeable", 2, 1, yes_no),
};

struct feature {
	unsigned int fid;
	uint32_t len; /* of the feature's data */
	const char *name;
	const struct cli_field *parts; /* of its value; or NULL */
	size_t n_parts;
};

static const struct feature features[] = {
	{NVME_FEAT_FID_ARBITRATION, 0, "Arbitration", CLI_PARTS(arbitration)},
	{NVME_FEAT_FID_POWER_MGMT, 0, "Power Management", CLI_PARTS(power)},
	{NVME_FEAT_FID_LBA_RANGE, 4096, "LBA Range Type"},
	{NVME_FEAT_FID_TEMP_THRESH, 0, "Temperature Threshold", CLI_PARTS(temperature)},
	{NVME_FEAT_FID_ERR_RECOVERY, 0, "Error Recovery", CLI_PARTS(recovery)},
	{NVME_FEAT_FID_VOLATILE_WC, 0, "Volatile Write Cache", CLI_PARTS(cache)},
	{NVME_FEAT_FID_NUM_QUEUES, 0, "Number of Queues", CLI_PARTS(queues)},
	{NVME_FEAT_FID_IRQ_COALESCE, 0, "Interrupt Coalescing"},
	{NVME_FEAT_FID_IRQ_CONFIG, 0, "Interrupt Vector Configuration"},
	{NVME_FEAT_FID_WRITE_ATOMIC, 0, "Write Atomicity Normal", CLI_PARTS(atomicity)},
	{NVME_FEAT_FID_ASYNC_EVENT, 0, "Async Event Configuration", CLI_PARTS(events)},
	{NVME_FEAT_FID_AUTO_PST, 256, "Autonomous Power State Transition"},
	{NVME_FEAT_FID_TIMESTAMP, 8, "Timestamp"},
	{NVME_FEAT_FID_KATO, 0, "Keep Alive Timer", CLI_PARTS(keep_alive)},
	{NVME_FEAT_FID_HOST_BEHAVIOR, 512, "Host Behavior"},
	{NVME_FEAT_FID_IOCS_PROFILE, 0, "I/O Command Set Profile"},
	{NVME_FEAT_FID_SW_PROGRESS, 0, "Software Progress"},
	{NVME_FEAT_FID_HOST_ID, 16, "Host Identifier"},
	{NVME_FEAT_FID_RESV_MASK, 0, "Reservation Notification Mask", CLI_PARTS(resv_mask)},
	{NVME_FEAT_FID_RESV_PERSIST, 0, "Reservation Persistence", CLI_PARTS(resv_persist)},
	{NVME_FEAT_FID_WRITE_PROTECT, 0, "Namespace Write Protect", CLI_PARTS(write_protect)},
};

static const struct feature *feature_by_fid(unsigned int fid)
{
	size_t i;

	for (i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
		if (features[i].fid == fid)
			return &features[i];
	}
	return NULL;
}

const char *cli_feature_name(unsigned int fid)
{
	const struct feature *f = feature_by_fid(fid);

	return f ? f->name : "Unknown";
}

/* The size of the feature's data: as requested, else as known for the feature. */
static uint32_t data_len(const struct cli_options *o, unsigned int fid)
{
	const struct feature *f = feature_by_fid(fid);

	return (uint32_t)cli_num(o, CLI_ARG_DATA_LEN, f ? f->len : 0);
}

static uint32_t nsid_of(const struct cli_options *o)
{
	return (uint32_t)cli_num(o, CLI_ARG_FIRST, o->nsid);
}

static const struct cli_words selects =
	CLI_WORDS("", "current", "default", "saved", "supported capabilities");

/* A feature as it was read or set; the data, if it has some, follows one that was read. */
struct value {
	__le32 fid, sel, value, result;
};

static void name_of(uint64_t fid, const void *data, char *buf)
{
	strcpy(buf, cli_feature_name((unsigned int)fid));
}

static const struct cli_field value_fields[] = {
	CLI_FIELD(value, fid, "feature", KIND_DEC),
	CLI_FIELD(value, fid, "name", KIND_WORD, .explain = name_of),
	CLI_FIELD(value, sel, "select", KIND_WORD, .words = &selects),
	CLI_FIELD(value, value, "value", KIND_DEC),
	{"data", sizeof(struct value), 0, KIND_REST},
};

static const struct cli_field set_fields[] = {
	CLI_FIELD(value, fid, "feature", KIND_DEC),
	CLI_FIELD(value, fid, "name", KIND_WORD, .explain = name_of),
	CLI_FIELD(value, value, "value", KIND_DEC),
	CLI_FIELD(value, result, "result", KIND_DEC),
};

const struct cli_shape cli_shape_feature = CLI_SHAPE(value_fields, 0);
const struct cli_shape cli_shape_feature_set = CLI_SHAPE(set_fields, 0);

/* Shows @r, which @len bytes of data follow. */
static int show_feature(const struct cli_options *o, const struct value *r, uint32_t len)
{
	unsigned int fid = le32toh(r->fid), sel = le32toh(r->sel);
	const unsigned char *data = (const unsigned char *)(r + 1);
	const struct feature *f = feature_by_fid(fid);
	uint32_t v = le32toh(r->value);

	if (cli_given(o, CLI_ARG_RAW))
		return cli_raw(len ? (const void *)data : &r->value, len ? len : sizeof(v));
	if (o->format == CLI_JSON)
		return cli_shape_show(o, &cli_shape_feature, r, sizeof(*r) + len, NULL, NULL);
	printf("get-feature:0x%02x (%s), %s value:0x%08x\n", fid, cli_feature_name(fid),
	       cli_word(&selects, sel), v);
	if (sel == SEL_SUPPORTED)
		cli_parts_print(capabilities, CLI_COUNT(capabilities), v, false);
	else if (cli_given(o, CLI_ARG_HUMAN) && f && f->parts)
		cli_parts_print(f->parts, f->n_parts, v, false);
	if (len)
		cli_dump(data, len);
	return cli_finish_output();
}

/* Returns 0, an error of the library that has not been printed, or CLI_FAILED after printing
 * why. */
static int get_one_feature(struct cli_session *s, const struct cli_options *o, unsigned int fid)
{
	unsigned int sel = (unsigned int)cli_num(o, CLI_ARG_SEL, 0);
	struct cli_command c = {.opcode = OPC_GET_FEATURES, .nsid = nsid_of(o)};
	struct value *r;
	uint64_t result = 0;
	int rc;

	c.len = sel == SEL_SUPPORTED ? 0 : data_len(o, fid);
	c.cdw[10] = fid | sel << 8;
	c.cdw[11] = (uint32_t)cli_num(o, CLI_ARG_CDW11, fid == NVME_FEAT_FID_HOST_ID ? EXHID : 0);
	r = calloc(1, sizeof(*r) + c.len);
	if (!r)
		return cli_error("no memory for %u bytes", c.len);
	c.data = c.len ? r + 1 : NULL;
	rc = cli_admin_try(s, &c, &result);
	r->fid = htole32(fid);
	r->sel = htole32(sel);
	r->value = htole32((uint32_t)result);
	if (!rc)
		rc = show_feature(o, r, c.len);
	free(r);
	return rc;
}

static int get_feature(struct cli_session *s, const struct cli_options *o)
{
	int rc = get_one_feature(s, o, (unsigned int)o->arg[CLI_ARG_FID].n);

	return rc < 0 ? cli_lib_error() : rc;
}

/* Prints the features that the controller supports. */
static int get_all_features(struct cli_session *s, const struct cli_options *o)
{
	unsigned int fid;
	int rc = CLI_OK;

	for (fid = 1; fid <= FID_MAX && !rc; fid++) {
		rc = get_one_feature(s, o, fid);
		if (rc == -EIO)
			rc = CLI_OK;
	}
	return rc < 0 ? cli_lib_error() : rc;
}

static int set_one_feature(struct cli_session *s, const struct cli_options *o)
{
	unsigned int fid = (unsigned int)o->arg[CLI_ARG_FID].n;
	struct cli_command c = {.opcode = OPC_SET_FEATURES, .nsid = nsid_of(o), .write = true};
	uint64_t result = 0;
	struct value r;
	int rc = CLI_OK;

	c.len = data_len(o, fid);
	c.cdw[10] = fid | (cli_given(o, CLI_ARG_SAVE) ? SAVE : 0);
	c.cdw[11] = (uint32_t)cli_num(o, CLI_ARG_VALUE, 0);
	c.cdw[12] = (uint32_t)cli_num(o, CLI_ARG_CDW12, 0);
	c.data = c.len ? calloc(1, c.len) : NULL;
	if (c.len && !c.data)
		return cli_error("no memory for %u bytes", c.len);
	if (c.len)
		rc = cli_fill(o->arg[CLI_ARG_DATA].text, c.data, c.len, "--data-len");
	if (!rc)
		rc = cli_admin(s, &c, &result);
	free(c.data);
	if (rc)
		return rc;
	r = (struct value){.fid = htole32(fid),
			   .value = htole32(c.cdw[11]),
			   .result = htole32((uint32_t)result)};
	return cli_shape_show(o, &cli_shape_feature_set, &r, sizeof(r), NULL,
			      "set-feature:0x%02x (%s), value:0x%08x, cdw12:0x%08x, save:%u\n", fid,
			      cli_feature_name(fid), c.cdw[11], c.cdw[12],
			      cli_given(o, CLI_ARG_SAVE));
}

static const char missing[] = "--feature-id is missing: the feature, such as 0x7 for the number "
			      "of queues; `rdinit fid-support-effects-log` lists them";

int cli_get_feature(const struct cli_options *o)
{
	if (!cli_given(o, CLI_ARG_FID) &&
	    (o->format == CLI_JSON || cli_given(o, CLI_ARG_RAW) || cli_given(o, CLI_ARG_DATA_LEN) ||
	     cli_given(o, CLI_ARG_CDW11)))
		return cli_usage_error("%s", missing);
	if (!cli_given(o, CLI_ARG_FID))
		return cli_with_ctrl(o, get_all_features);
	return cli_with_ctrl(o, get_feature);
}

int cli_set_feature(const struct cli_options *o)
{
	if (!cli_given(o, CLI_ARG_FID))
		return cli_usage_error("%s", missing);
	if (!cli_given(o, CLI_ARG_VALUE) && !cli_given(o, CLI_ARG_DATA))
		return cli_usage_error("--value is missing: the new value (or --data, for a "
				       "feature that has data)");
	return cli_with_ctrl(o, set_one_feature);
}
