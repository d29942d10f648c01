/* SPDX-License-Identifier: BSD-3-Clause */
/* The reservation commands. */
#include <endian.h>
#include <nvme/types.h>
#include <string.h>

#include "command.h"
#include "fields.h"

#define IEKEY      (1u << 3)
#define EDS        1u
#define REPORT_MIN 64u /* bytes before the list of registrants */

static int send(struct cli_session *s, const struct cli_options *o, uint8_t opcode, uint32_t cdw10,
		enum cli_arg second)
{
	uint64_t keys[2] = {htole64(cli_num(o, CLI_ARG_CRKEY, 0)), 0};
	struct cli_command c = {.opcode = opcode,
				.nsid = cli_nsid(o),
				.data = keys,
				.len = sizeof(keys[0]),
				.write = true};
	uint64_t result = 0;

	if (second != CLI_ARGS) {
		keys[1] = htole64(cli_num(o, second, 0));
		c.len = sizeof(keys);
	}
	c.cdw[10] = cdw10 | (uint32_t)cli_num(o, CLI_ARG_ACTION, 0) |
		    (cli_given(o, CLI_ARG_IEKEY) ? IEKEY : 0) |
		    (uint32_t)cli_num(o, CLI_ARG_RTYPE, 0) << 8;
	return cli_io(s, &c, &result) ? CLI_FAILED : cli_success(o, c.nsid, result);
}

int cli_resv_register(struct cli_session *s, const struct cli_options *o)
{
	return send(s, o, nvme_cmd_resv_register, (uint32_t)cli_num(o, CLI_ARG_CPTPL, 0) << 30,
		    CLI_ARG_NRKEY);
}

int cli_resv_acquire(struct cli_session *s, const struct cli_options *o)
{
	return send(s, o, nvme_cmd_resv_acquire, 0, CLI_ARG_PRKEY);
}

int cli_resv_release(struct cli_session *s, const struct cli_options *o)
{
	return send(s, o, nvme_cmd_resv_release, 0, CLI_ARGS);
}

/* ---- resv-report ---- */

static const struct cli_words types =
	CLI_WORDS("reserved", "no reservation", "write exclusive", "exclusive access",
		  "write exclusive, registrants only", "exclusive access, registrants only",
		  "write exclusive, all registrants", "exclusive access, all registrants");

static const struct cli_field registrant[] = {
	CLI_FIELD(nvme_registered_ctrl_ext, cntlid, "cntlid", KIND_DEC),
	CLI_FIELD(nvme_registered_ctrl_ext, rcsts, "rcsts", KIND_DEC),
	CLI_FIELD(nvme_registered_ctrl_ext, rkey, "rkey", KIND_DEC),
	CLI_FIELD(nvme_registered_ctrl_ext, hostid, "hostid", KIND_HEXSTR),
};

static const struct cli_field status[] = {
	CLI_FIELD(nvme_resv_status, gen, "gen", KIND_DEC),
	{"rtype", offsetof(struct nvme_resv_status, rtype), 1, KIND_DEC, .words = &types},
	CLI_FIELD(nvme_resv_status, regctl, "regctl", KIND_DEC),
	CLI_FIELD(nvme_resv_status, ptpls, "ptpls", KIND_DEC),
};

static const struct cli_shape registrant_shape = CLI_SHAPE(registrant, 9);

static void print_registrant(const struct cli_options *o, const void *data, unsigned int i,
			     const void *item)
{
	printf("regctlext[%u] :\n", i);
	cli_shape_print(o, &registrant_shape, item, 0);
}

static const struct cli_list registrant_list[] = {
	CLI_LIST("regctlext", &registrant_shape, offsetof(struct nvme_resv_status, regctl_eds),
		 sizeof(struct nvme_registered_ctrl_ext), CLI_COUNTED(nvme_resv_status, regctl),
		 .print = print_registrant)};

const struct cli_shape cli_shape_resv_report = CLI_SHAPE(status, 9, CLI_LISTS(registrant_list));

static int show_report(const struct cli_options *o, const void *data, uint32_t len)
{
	return cli_shape_show(o, &cli_shape_resv_report, data, len, NULL,
			      "\nNVME Reservation status:\n\n");
}

static void set_report_len(struct cli_command *c, uint32_t len)
{
	c->cdw[10] = len / 4 - 1;
}

static uint64_t whole_report(const void *data, uint32_t len)
{
	const struct nvme_resv_status *st = data;

	(void)len;
	return REPORT_MIN + cli_le(st->regctl, 2) * sizeof(st->regctl_eds[0]);
}

int cli_resv_report(struct cli_session *s, const struct cli_options *o)
{
	static const struct cli_list_read report = {.send = cli_io,
						    .set_len = set_report_len,
						    .whole = whole_report,
						    .show = show_report,
						    .limit = CLI_ARG_NUMD};
	uint32_t numd = (uint32_t)cli_num(o, CLI_ARG_NUMD, 1024);
	struct cli_command c = {.opcode = nvme_cmd_resv_report, .nsid = cli_nsid(o)};

	if (numd < REPORT_MIN / 4)
		return cli_usage_error("--numd: %u dwords cannot hold a report; the minimum is %u",
				       numd, REPORT_MIN / 4);
	c.cdw[11] = EDS;
	return cli_show_list(s, o, &c, numd * 4, &report);
}
