/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller's properties: show-regs, get-property, set-property and reset. */
#include <endian.h>
#include <inttypes.h>
#include <nvme/types.h>
#include <string.h>

#include "command.h"
#include "fields.h"

#define OPC_FABRICS  0x7f
#define FCTYPE_SET   0x00
#define FCTYPE_GET   0x04
#define CC_EN        1u
#define CSTS_RDY     1u
#define CSTS_CFS     2u
#define CAP_TO_UNIT  500000000ull /* nanoseconds */
#define WAIT_EACH_MS 10

/* ---- what the properties mean; texts and their columns are nvme-cli's ---- */

static void half_seconds(uint64_t v, const void *data, char *buf)
{
	sprintf(buf, "%" PRIu64 " ms", v * 500);
}

static void page_size(uint64_t v, const void *data, char *buf)
{
	sprintf(buf, "%u bytes", 1u << (12 + v));
}

static void stride(uint64_t v, const void *data, char *buf)
{
	sprintf(buf, "%u bytes", 1u << (2 + v));
}

static void entry_size(uint64_t v, const void *data, char *buf)
{
	sprintf(buf, "%u bytes", 1u << v);
}

static void version(uint64_t v, const void *data, char *buf)
{
	sprintf(buf, "%" PRIu64 ".%" PRIu64 ".%" PRIu64, v >> 16, v >> 8 & 0xff, v & 0xff);
}

static void half_as_seconds(uint64_t v, const void *data, char *buf)
{
	sprintf(buf, "%" PRIu64 " secs", v / 2);
}

static const struct cli_words yes_no = CLI_WORDS("", "No", "Yes");
static const struct cli_words supported = CLI_WORDS("", "Not Supported", "Supported");

#define MORE(at, n, ...)                                                          \
	CLI_PART("                                          ", KIND_MEANT, at, n, \
		 .words = CLI_MEANS(__VA_ARGS__))
#define WORDS(label, at, n, ...) CLI_PART(label, KIND_DEC, at, n, .words = CLI_MEANS(__VA_ARGS__))

static const struct cli_field cap_parts[] = {
	CLI_WORD_PART("NVM Subsystem Shutdown Enhancements Supported (NSSES)", 61, 1, supported),
	CLI_WORD_PART("Controller Ready With Media Support (CRWMS)", 59, 1, supported),
	CLI_WORD_PART("Controller Ready Independent of Media Support (CRIMS)", 60, 1, supported),
	CLI_WORD_PART("NVM Subsystem Shutdown Supported   (NSSS)", 58, 1, supported),
	WORDS("Controller Memory Buffer Supported (CMBS)", 57, 1,
	      "The Controller Memory Buffer is Not Supported",
	      "The Controller Memory Buffer is Supported"),
	WORDS("Persistent Memory Region Supported (PMRS)", 56, 1,
	      "The Persistent Memory Region is Not Supported",
	      "The Persistent Memory Region is Supported"),
	CLI_EXPLAINED_PART("Memory Page Size Maximum         (MPSMAX)", 52, 4, page_size),
	CLI_EXPLAINED_PART("Memory Page Size Minimum         (MPSMIN)", 48, 4, page_size),
	WORDS("Controller Power Scope              (CPS)", 46, 2, "Not Reported",
	      "Controller scope", "Domain scope", "NVM subsystem scope"),
	CLI_WORD_PART("Boot Partition Support              (BPS)", 45, 1, yes_no),
	WORDS("Command Sets Supported              (CSS)", 37, 1,
	      "NVM command set is Not Supported", "NVM command set is Supported"),
	MORE(43, 1, "One or more I/O Command Sets are Not Supported",
	     "One or more I/O Command Sets are Supported"),
	MORE(44, 1, "I/O Command Set is Supported", "Only Admin Command Set Supported"),
	CLI_WORD_PART("NVM Subsystem Reset Supported     (NSSRS)", 36, 1, yes_no),
	CLI_EXPLAINED_PART("Doorbell Stride                   (DSTRD)", 32, 4, stride),
	CLI_EXPLAINED_PART("Timeout                              (TO)", 24, 8, half_seconds),
	WORDS("Arbitration Mechanism Supported     (AMS)", 17, 1,
	      "Weighted Round Robin with Urgent Priority Class is Not supported",
	      "Weighted Round Robin with Urgent Priority Class is Supported"),
	CLI_WORD_PART("Contiguous Queues Required          (CQR)", 16, 1, yes_no),
	CLI_EXPLAINED_PART("Maximum Queue Entries Supported    (MQES)", 0, 16, cli_zeroes_based),
};

static const struct cli_field vs_parts[] = {
	CLI_PART("NVMe specification", KIND_MEANT, 0, 32, .explain = version),
};

static const struct cli_field cc_parts[] = {
	CLI_WORD_PART("Controller Ready Independent of Media Enable (CRIME)", 24, 1, cli_enabled),
	CLI_EXPLAINED_PART("I/O Completion Queue Entry Size (IOCQES)", 20, 4, entry_size),
	CLI_EXPLAINED_PART("I/O Submission Queue Entry Size (IOSQES)", 16, 4, entry_size),
	WORDS("Shutdown Notification              (SHN)", 14, 2, "No notification; no effect",
	      "Normal shutdown notification", "Abrupt shutdown notification"),
	WORDS("Arbitration Mechanism Selected     (AMS)", 11, 3, "Round Robin",
	      "Weighted Round Robin with Urgent Priority Class", [7] = "Vendor Specific"),
	CLI_EXPLAINED_PART("Memory Page Size                   (MPS)", 7, 4, page_size),
	WORDS("I/O Command Set Selected           (CSS)", 4, 3, "NVM Command Set",
	      [6] = "All supported I/O Command Sets", [7] = "Admin Command Set only"),
	CLI_WORD_PART("Enable                              (EN)", 0, 1, yes_no),
};

static const struct cli_field csts_parts[] = {
	WORDS("Shutdown Type                   (ST)", 6, 1, "Controller", "Subsystem"),
	CLI_WORD_PART("Processing Paused               (PP)", 5, 1, yes_no),
	CLI_WORD_PART("NVM Subsystem Reset Occurred (NSSRO)", 4, 1, yes_no),
	WORDS("Shutdown Status               (SHST)", 2, 2,
	      "Normal operation (no shutdown has been requested)", "Shutdown processing occurring",
	      "Shutdown processing complete"),
	CLI_WORD_PART("Controller Fatal Status        (CFS)", 1, 1, cli_true_false),
	CLI_WORD_PART("Ready                          (RDY)", 0, 1, yes_no),
};

static const struct cli_field nssr_parts[] = {
	CLI_PART("NVM Subsystem Reset Control (NSSRC)", KIND_DEC, 0, 32),
};

static const struct cli_field crto_parts[] = {
	CLI_EXPLAINED_PART("CRIMT                               ", 16, 16, half_as_seconds),
	CLI_EXPLAINED_PART("CRWMT                               ", 0, 16, half_as_seconds),
};

/* The properties as the controller has them, at their offsets, and which of them it has. */
struct properties {
	unsigned char at[NVME_REG_CRTO + 4];
	bool nssr, crto;
};

static bool has_nssr(const void *data)
{
	return ((const struct properties *)data)->nssr;
}

static bool has_crto(const void *data)
{
	return ((const struct properties *)data)->crto;
}

static const struct cli_field properties[] = {
	{"cap", NVME_REG_CAP, 8, KIND_HEX, CLI_PARTS(cap_parts)},
	{"vs", NVME_REG_VS, 4, KIND_HEX, .label = "version", CLI_PARTS(vs_parts)},
	{"cc", NVME_REG_CC, 4, KIND_HEX, CLI_PARTS(cc_parts)},
	{"csts", NVME_REG_CSTS, 4, KIND_HEX, CLI_PARTS(csts_parts)},
	{"nssr", NVME_REG_NSSR, 4, KIND_HEX, CLI_PARTS(nssr_parts), .there = has_nssr},
	{"crto", NVME_REG_CRTO, 4, KIND_HEX, CLI_PARTS(crto_parts), .there = has_crto},
};

const struct cli_shape cli_shape_properties = CLI_SHAPE(properties, 7);

/* The property at the offset; NULL: the table lacks it. */
static const struct cli_field *property_at(uint32_t offset)
{
	const struct cli_field *f;

	for (f = properties; f < properties + CLI_COUNT(properties); f++) {
		if (f->offset == offset)
			return f;
	}
	return NULL;
}

static int access_register(struct cli_session *s, uint8_t fctype, uint32_t offset, uint64_t *value)
{
	const struct cli_field *property = property_at(offset);
	struct rdinit_passthru pt;
	uint32_t off = htole32(offset);
	uint64_t v = htole64(*value);

	rdinit_passthru_init(&pt);
	pt.sqe[0] = OPC_FABRICS;
	pt.sqe[4] = fctype;
	pt.sqe[40] = property && property->len == 8; /* others have 4 bytes */
	memcpy(&pt.sqe[44], &off, sizeof(off));
	if (fctype == FCTYPE_SET)
		memcpy(&pt.sqe[48], &v, sizeof(v));
	return rdinit_admin_passthru(s->ctrl, &pt, fctype == FCTYPE_GET ? value : NULL);
}

int cli_show_regs(struct cli_session *s, const struct cli_options *o)
{
	struct properties all = {.nssr = true, .crto = true};
	const struct cli_field *f;
	uint64_t v;

	for (f = properties; f < properties + CLI_COUNT(properties); f++) {
		v = 0;
		if (access_register(s, FCTYPE_GET, (uint32_t)f->offset, &v)) {
			if (!f->there || !rdinit_last_status())
				return cli_lib_error();
			/* The controller lacks this optional property. */
			all.nssr &= f->offset != NVME_REG_NSSR;
			all.crto &= f->offset != NVME_REG_CRTO;
		}
		v = htole64(v);
		memcpy(&all.at[f->offset], &v, f->len);
	}
	return cli_shape_show(o, &cli_shape_properties, &all, sizeof(all), NULL, NULL);
}

static const struct cli_field one_property[] = {
	{"property", 0, 8, KIND_HEX},
	{"value", 8, 8, KIND_HEX},
};

const struct cli_shape cli_shape_property = CLI_SHAPE(one_property, 0);

/* Shows the property after @heading, which is text alone. */
static int show_property(const struct cli_options *o, uint32_t offset, uint64_t v,
			 const char *heading, const char *name)
{
	uint64_t both[2] = {htole64(offset), htole64(v)};

	return cli_shape_show(o, &cli_shape_property, both, sizeof(both), NULL,
			      "%s%02x%s, value: %" PRIx64 "\n", heading, offset, name, v);
}

static int get_one_register(struct cli_session *s, const struct cli_options *o)
{
	static const char *const names[] = {[NVME_REG_CAP] = " (Controller Capabilities)",
					    [NVME_REG_VS] = " (Version)",
					    [NVME_REG_CC] = " (Controller Configuration)",
					    [NVME_REG_CSTS] = " (Controller Status)",
					    [NVME_REG_NSSR] = " (NVM Subsystem Reset)",
					    [NVME_REG_CRTO] = " (Controller Ready Timeouts)"};
	uint32_t offset = (uint32_t)o->arg[CLI_ARG_OFFSET].n;
	const struct cli_field *f = property_at(offset);
	uint64_t v = 0;
	int rc;

	if (access_register(s, FCTYPE_GET, offset, &v))
		return cli_lib_error();
	rc = show_property(o, offset, v, "property: 0x", f ? names[offset] : " (unknown)");
	if (!rc && f && cli_given(o, CLI_ARG_HUMAN) && o->format != CLI_JSON) {
		cli_parts_print(f->parts, f->n_parts, v, false);
		rc = cli_finish_output();
	}
	return rc;
}

static int set_property(struct cli_session *s, const struct cli_options *o)
{
	uint32_t offset = (uint32_t)o->arg[CLI_ARG_OFFSET].n;
	uint64_t v = o->arg[CLI_ARG_VALUE].n;

	if (access_register(s, FCTYPE_SET, offset, &v))
		return cli_lib_error();
	return show_property(o, offset, v, "set-property: ", "");
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
		if (access_register(s, FCTYPE_GET, NVME_REG_CSTS, &csts))
			return cli_lib_error();
		if (csts & CSTS_CFS)
			return cli_error("%s: the controller reports a fatal error (CSTS.CFS)",
					 s->info.address);
		if (!!(csts & CSTS_RDY) == ready)
			return CLI_OK;
		if (cli_now_ns() > end)
			return cli_error("%s: the controller did not become %s within CAP.TO",
					 s->info.address, ready ? "ready" : "disabled");
		if (rdinit_ctrl_process(s->ctrl, WAIT_EACH_MS) < 0)
			return cli_lib_error();
	}
}

int cli_reset(struct cli_session *s, const struct cli_options *o)
{
	uint64_t cc = 0, off;

	if (access_register(s, FCTYPE_GET, NVME_REG_CC, &cc))
		return cli_lib_error();
	off = cc & ~(uint64_t)CC_EN;
	if (access_register(s, FCTYPE_SET, NVME_REG_CC, &off))
		return cli_lib_error();
	if (wait_ready(s, false))
		return CLI_FAILED;
	if (access_register(s, FCTYPE_SET, NVME_REG_CC, &cc))
		return cli_lib_error();
	return wait_ready(s, true) ? CLI_FAILED : cli_success(o, 0, 0);
}
