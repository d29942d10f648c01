/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller's properties: show-regs, get-property, set-property and reset. */
#include <endian.h>
#include <inttypes.h>
#include <nvme/types.h>
#include <string.h>

#include "command.h"

#define OPC_FABRICS  0x7f
#define FCTYPE_SET   0x00
#define FCTYPE_GET   0x04
#define CC_EN        1u
#define CSTS_RDY     1u
#define CSTS_CFS     2u
#define CAP_TO_UNIT  500000000ull /* nanoseconds */
#define WAIT_EACH_MS 10

static const struct property {
	const char *name;
	const char *text;
	uint32_t offset;
	bool wide; /* 8 bytes wide */
	bool must; /* mandatory */
} properties[] = {
	{"cap", "Controller Capabilities", NVME_REG_CAP, true, true},
	{"vs", "Version", NVME_REG_VS, false, true},
	{"cc", "Controller Configuration", NVME_REG_CC, false, true},
	{"csts", "Controller Status", NVME_REG_CSTS, false, true},
	{"nssr", "NVM Subsystem Reset", NVME_REG_NSSR, false, false},
	{"crto", "Controller Ready Timeouts", NVME_REG_CRTO, false, false},
};

#define N_PROPERTIES (sizeof(properties) / sizeof(properties[0]))

static int access_register(struct cli_session *s, uint8_t fctype, uint32_t offset, bool wide,
			   uint64_t *value)
{
	struct rdinit_passthru pt;
	uint32_t off = htole32(offset);
	uint64_t v = htole64(*value);

	rdinit_passthru_init(&pt);
	pt.sqe[0] = OPC_FABRICS;
	pt.sqe[4] = fctype;
	pt.sqe[40] = wide;
	memcpy(&pt.sqe[44], &off, sizeof(off));
	if (fctype == FCTYPE_SET)
		memcpy(&pt.sqe[48], &v, sizeof(v));
	return rdinit_admin_passthru(s->ctrl, &pt, fctype == FCTYPE_GET ? value : NULL);
}

/* Whether the property has 8 bytes; properties that the table lacks have 4. */
static bool is_wide(uint32_t offset)
{
	size_t i;

	for (i = 0; i < N_PROPERTIES; i++) {
		if (properties[i].offset == offset)
			return properties[i].wide;
	}
	return false;
}

static void explain_register(const struct property *p, uint64_t v)
{
	switch (p->offset) {
	case NVME_REG_CAP:
		printf("\tMaximum queue entries (MQES): %" PRIu64 "\n\tTimeout (TO): %" PRIu64
		       " ms\n\tContiguous queues required (CQR): %" PRIu64 "\n",
		       (v & 0xffff) + 1, (v >> 24 & 0xff) * 500, v >> 16 & 1);
		break;
	case NVME_REG_VS:
		printf("\tNVMe %" PRIu64 ".%" PRIu64 ".%" PRIu64 "\n", v >> 16, v >> 8 & 0xff,
		       v & 0xff);
		break;
	case NVME_REG_CC:
		printf("\tEnable (EN): %s\n\tCommand set (CSS): %" PRIu64
		       "\n\tShutdown notification (SHN): %" PRIu64 "\n\tI/O entries: SQ %u "
		       "bytes, CQ %u bytes\n",
		       v & CC_EN ? "yes" : "no", v >> 4 & 7, v >> 14 & 3, 1u << (v >> 16 & 0xf),
		       1u << (v >> 20 & 0xf));
		break;
	case NVME_REG_CSTS:
		printf("\tReady (RDY): %s\n\tFatal status (CFS): %s\n\tShutdown status (SHST): "
		       "%" PRIu64 "\n",
		       v & CSTS_RDY ? "yes" : "no", v & CSTS_CFS ? "yes" : "no", v >> 2 & 3);
		break;
	default:
		break;
	}
}

int cli_show_regs(struct cli_session *s, const struct cli_options *o)
{
	json_t *obj = json_object();
	size_t i;

	for (i = 0; i < N_PROPERTIES; i++) {
		const struct property *p = &properties[i];
		uint64_t v = 0;

		if (access_register(s, FCTYPE_GET, p->offset, p->wide, &v)) {
			if (!p->must && rdinit_last_status())
				continue; /* the controller lacks this optional property */
			json_decref(obj);
			return cli_lib_error();
		}
		json_object_set_new(obj, p->name, json_integer((json_int_t)v));
		if (o->format == CLI_JSON)
			continue;
		printf("%-7s : %" PRIx64 "\n", p->name, v);
		if (cli_given(o, CLI_ARG_HUMAN))
			explain_register(p, v);
	}
	if (o->format == CLI_JSON)
		return cli_print_json(obj, stdout);
	json_decref(obj);
	return cli_finish_output();
}

static int get_one_register(struct cli_session *s, const struct cli_options *o)
{
	uint32_t offset = (uint32_t)o->arg[CLI_ARG_OFFSET].n;
	uint64_t v = 0;
	size_t i;

	if (access_register(s, FCTYPE_GET, offset, is_wide(offset), &v))
		return cli_lib_error();
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:I, s:I}", "property", (json_int_t)offset,
						"value", (json_int_t)v),
				      stdout);
	for (i = 0; i < N_PROPERTIES && properties[i].offset != offset; i++)
		;
	printf("property: 0x%02x (%s), value: %" PRIx64 "\n", offset,
	       i < N_PROPERTIES ? properties[i].text : "unknown", v);
	if (cli_given(o, CLI_ARG_HUMAN) && i < N_PROPERTIES)
		explain_register(&properties[i], v);
	return cli_finish_output();
}

static int set_property(struct cli_session *s, const struct cli_options *o)
{
	uint32_t offset = (uint32_t)o->arg[CLI_ARG_OFFSET].n;
	uint64_t v = o->arg[CLI_ARG_VALUE].n;

	if (access_register(s, FCTYPE_SET, offset, is_wide(offset), &v))
		return cli_lib_error();
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:I, s:I}", "property", (json_int_t)offset,
						"value", (json_int_t)v),
				      stdout);
	printf("set-property: %02x, value: %" PRIx64 "\n", offset, v);
	return cli_finish_output();
}

static const char where[] = "--offset is missing: 0x0 CAP, 0x8 VS, 0x14 CC, 0x1c CSTS";

int cli_get_property(const struct cli_options *o)
{
	if (!cli_given(o, CLI_ARG_OFFSET))
		return cli_usage_error("%s", where);
	return cli_with_ctrl(o, get_one_register);
}

int cli_set_property(const struct cli_options *o)
{
	if (!cli_given(o, CLI_ARG_OFFSET))
		return cli_usage_error("%s", where);
	if (!cli_given(o, CLI_ARG_VALUE))
		return cli_usage_error("--value is missing: the new value of the property");
	return cli_with_ctrl(o, set_property);
}

/* ---- reset ---- */

/* Polls until CSTS.RDY is @ready, at most for CAP.TO. */
static int wait_ready(struct cli_session *s, bool ready)
{
	uint64_t units = s->info.cap >> 24 & 0xff;
	uint64_t end = cli_now_ns() + (units ? units : 1) * CAP_TO_UNIT, csts = 0;

	for (;;) {
		if (access_register(s, FCTYPE_GET, NVME_REG_CSTS, false, &csts))
			return cli_lib_error();
		if (csts & CSTS_CFS)
			return cli_error("%s: the controller reports a fatal error (CSTS.CFS)",
					 s->info.address);
		if (!!(csts & CSTS_RDY) == ready)
			return CLI_OK;
		if (cli_now_ns() > end)
			return cli_error("%s: the controller is not %s after the time of its "
					 "CAP.TO",
					 s->info.address, ready ? "ready" : "disabled");
		if (rdinit_ctrl_process(s->ctrl, WAIT_EACH_MS) < 0)
			return cli_lib_error();
	}
}

int cli_reset(struct cli_session *s, const struct cli_options *o)
{
	uint64_t cc = 0, off;

	if (access_register(s, FCTYPE_GET, NVME_REG_CC, false, &cc))
		return cli_lib_error();
	off = cc & ~(uint64_t)CC_EN;
	if (access_register(s, FCTYPE_SET, NVME_REG_CC, false, &off))
		return cli_lib_error();
	if (wait_ready(s, false))
		return CLI_FAILED;
	if (access_register(s, FCTYPE_SET, NVME_REG_CC, false, &cc))
		return cli_lib_error();
	return wait_ready(s, true) ? CLI_FAILED : cli_success(o, 0, 0);
}
