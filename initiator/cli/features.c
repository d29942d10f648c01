/* SPDX-License-Identifier: BSD-3-Clause */
/* get-feature and set-feature. */
#include <errno.h>
#include <inttypes.h>
#include <nvme/types.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

#define OPC_SET_FEATURES 0x09
#define OPC_GET_FEATURES 0x0a
#define FID_MAX          255u
#define SAVE             (1u << 31)
#define SEL_SUPPORTED    3u
#define EXHID            1u /* 128-bit host identifier, mandatory over Fabrics */

struct feature {
	unsigned int fid;
	uint32_t len; /* of the feature's data */
	const char *name;
};

static const struct feature features[] = {
	{NVME_FEAT_FID_ARBITRATION, 0, "Arbitration"},
	{NVME_FEAT_FID_POWER_MGMT, 0, "Power Management"},
	{NVME_FEAT_FID_LBA_RANGE, 4096, "LBA Range Type"},
	{NVME_FEAT_FID_TEMP_THRESH, 0, "Temperature Threshold"},
	{NVME_FEAT_FID_ERR_RECOVERY, 0, "Error Recovery"},
	{NVME_FEAT_FID_VOLATILE_WC, 0, "Volatile Write Cache"},
	{NVME_FEAT_FID_NUM_QUEUES, 0, "Number of Queues"},
	{NVME_FEAT_FID_IRQ_COALESCE, 0, "Interrupt Coalescing"},
	{NVME_FEAT_FID_IRQ_CONFIG, 0, "Interrupt Vector Configuration"},
	{NVME_FEAT_FID_WRITE_ATOMIC, 0, "Write Atomicity Normal"},
	{NVME_FEAT_FID_ASYNC_EVENT, 0, "Async Event Configuration"},
	{NVME_FEAT_FID_AUTO_PST, 256, "Autonomous Power State Transition"},
	{NVME_FEAT_FID_TIMESTAMP, 8, "Timestamp"},
	{NVME_FEAT_FID_KATO, 0, "Keep Alive Timer"},
	{NVME_FEAT_FID_HOST_BEHAVIOR, 512, "Host Behavior"},
	{NVME_FEAT_FID_IOCS_PROFILE, 0, "I/O Command Set Profile"},
	{NVME_FEAT_FID_SW_PROGRESS, 0, "Software Progress"},
	{NVME_FEAT_FID_HOST_ID, 16, "Host Identifier"},
	{NVME_FEAT_FID_RESV_MASK, 0, "Reservation Notification Mask"},
	{NVME_FEAT_FID_RESV_PERSIST, 0, "Reservation Persistence"},
	{NVME_FEAT_FID_WRITE_PROTECT, 0, "Namespace Write Protection Config"},
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

/* Explains the value of common features. */
static void explain_feature(unsigned int fid, uint32_t v)
{
	switch (fid) {
	case NVME_FEAT_FID_NUM_QUEUES:
		printf("\tI/O submission queues: %u, I/O completion queues: %u\n", (v & 0xffff) + 1,
		       (v >> 16) + 1);
		break;
	case NVME_FEAT_FID_KATO:
		printf("\tKeep Alive Timeout: %u ms\n", v);
		break;
	case NVME_FEAT_FID_VOLATILE_WC:
		printf("\tVolatile write cache: %s\n", v & 1 ? "enabled" : "disabled");
		break;
	case NVME_FEAT_FID_WRITE_PROTECT:
		printf("\tWrite protection: %s\n", v == 0   ? "off"
						   : v == 1 ? "on"
						   : v == 2 ? "until the power cycle"
						   : v == 3 ? "permanent"
							    : "reserved");
		break;
	case NVME_FEAT_FID_RESV_PERSIST:
		printf("\tReservations persist through power loss: %s\n", v & 1 ? "yes" : "no");
		break;
	case NVME_FEAT_FID_TEMP_THRESH:
		printf("\tTemperature threshold: %u K\n", v & 0xffff);
		break;
	default:
		break;
	}
}

static const char *const selects[] = {"current", "default", "saved", "supported capabilities"};

static int show_feature(const struct cli_options *o, unsigned int fid, unsigned int sel,
			uint64_t result, const unsigned char *data, uint32_t len)
{
	uint32_t v = (uint32_t)result;
	json_t *obj;

	if (cli_given(o, CLI_ARG_RAW))
		return cli_raw(len ? (const void *)data : (const void *)&v, len ? len : sizeof(v));
	if (o->format == CLI_JSON) {
		obj = json_pack("{s:i, s:s, s:s, s:I}", "feature", (int)fid, "name",
				cli_feature_name(fid), "select", selects[sel], "value",
				(json_int_t)v);
		if (obj && len)
			json_object_set_new(obj, "data", cli_hex(data, len));
		return cli_print_json(obj, stdout);
	}
	printf("get-feature:0x%02x (%s), %s value:0x%08x\n", fid, cli_feature_name(fid),
	       selects[sel], v);
	if (sel == SEL_SUPPORTED)
		printf("\tSaveable: %s, namespace specific: %s, changeable: %s\n",
		       v & 1 ? "yes" : "no", v & 2 ? "yes" : "no", v & 4 ? "yes" : "no");
	else
		explain_feature(fid, v);
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
	uint64_t result = 0;
	int rc;

	c.len = sel == SEL_SUPPORTED ? 0 : data_len(o, fid);
	c.cdw[10] = fid | sel << 8;
	c.cdw[11] = (uint32_t)cli_num(o, CLI_ARG_CDW11, fid == NVME_FEAT_FID_HOST_ID ? EXHID : 0);
	c.data = c.len ? calloc(1, c.len) : NULL;
	if (c.len && !c.data)
		return cli_error("no memory for %u bytes", c.len);
	rc = cli_admin_try(s, &c, &result);
	if (!rc)
		rc = show_feature(o, fid, sel, result, c.data, c.len);
	free(c.data);
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
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:i, s:s, s:I, s:I}", "feature", (int)fid, "name",
						cli_feature_name(fid), "value",
						(json_int_t)c.cdw[11], "result",
						(json_int_t)result),
				      stdout);
	printf("set-feature:0x%02x (%s), value:0x%08x, cdw12:0x%08x, save:%u\n", fid,
	       cli_feature_name(fid), c.cdw[11], c.cdw[12], cli_given(o, CLI_ARG_SAVE));
	return cli_finish_output();
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
