/* SPDX-License-Identifier: BSD-3-Clause */
/* get-lba-status: the list of LBA Status Descriptors (NVM Command Set 1.2, 4.2.1). */
#include <endian.h>
#include <nvme/types.h>

#include "command.h"
#include "fields.h"

#define MNDW_DEFAULT 1023u /* 0's based: 4096 bytes, 255 descriptors */

static const struct cli_words completion =
	CLI_WORDS("reserved", "no indication of the completion condition",
		  "as many dwords as --max-dw allows; there are more descriptors, or the scan is "
		  "not complete",
		  "all of the range");

static const struct cli_field header[] = {
	CLI_FIELD(nvme_lba_status, nlsd, "nlsd", KIND_DEC),
	CLI_FIELD(nvme_lba_status, cmpc, "cmpc", KIND_DEC),
};

static const struct cli_field descriptor[] = {
	CLI_FIELD(nvme_lba_status_desc, dslba, "dslba", KIND_HEX),
	CLI_FIELD(nvme_lba_status_desc, nlb, "nlb", KIND_HEX),
	CLI_FIELD(nvme_lba_status_desc, status, "status", KIND_HEX),
};

static const struct cli_shape descriptor_shape = CLI_SHAPE(descriptor, 0);

static void print_descriptor(const struct cli_options *o, const void *data, unsigned int i,
			     const void *item)
{
	const struct nvme_lba_status_desc *d = item;

	printf("{ DSLBA: 0x%016llx, NLB: 0x%08x, Status: 0x%02x }\n",
	       (unsigned long long)le64toh(d->dslba), le32toh(d->nlb), d->status);
}

static const struct cli_list descriptor_list[] = {
	CLI_LIST("lsde", &descriptor_shape, sizeof(struct nvme_lba_status),
		 sizeof(struct nvme_lba_status_desc), CLI_COUNTED(nvme_lba_status, nlsd),
		 .print = print_descriptor)};

const struct cli_shape cli_shape_lba_status = CLI_SHAPE(header, 0, CLI_LISTS(descriptor_list));

static int show_lba_status(const struct cli_options *o, const void *data, uint32_t len)
{
	const struct nvme_lba_status *list = data;

	return cli_shape_show(o, &cli_shape_lba_status, data, len, NULL,
			      "Number of LBA Status Descriptors(NLSD): %u\n"
			      "Completion Condition(CMPC): %u\n\t%s\n",
			      le32toh(list->nlsd), list->cmpc, cli_word(&completion, list->cmpc));
}

static void set_status_len(struct cli_command *c, uint32_t len)
{
	c->cdw[12] = len / 4 - 1;
}

/* The list does not say how many descriptors it lacks, only that it lacks some. */
static uint64_t whole_status(const void *data, uint32_t len)
{
	const struct nvme_lba_status *list = data;
	uint64_t listed = sizeof(*list) + (uint64_t)le32toh(list->nlsd) * sizeof(list->descs[0]);

	return list->cmpc == 1 && listed <= len ? len + 1ull : listed;
}

int cli_get_lba_status(struct cli_session *s, const struct cli_options *o)
{
	static const struct cli_list_read list = {
		.send = cli_admin,
		.set_len = set_status_len,
		.whole = whole_status,
		.show = show_lba_status,
		.limit = CLI_ARG_NUMD,
		.rest = "continue with --start-lba after its last block",
	};
	uint32_t mndw = (uint32_t)cli_num(o, CLI_ARG_NUMD, MNDW_DEFAULT);
	uint64_t lba = cli_num(o, CLI_ARG_START, 0);
	struct cli_command c = {
		.opcode = nvme_admin_get_lba_status,
		.nsid = cli_nsid(o),
	};

	if ((mndw + 1) * 4 < sizeof(struct nvme_lba_status))
		return cli_usage_error("--max-dw: %u (0's based) leaves no room for the header of "
				       "the list; the minimum is 1",
				       mndw);
	c.cdw[10] = (uint32_t)lba;
	c.cdw[11] = (uint32_t)(lba >> 32);
	c.cdw[13] =
		(uint32_t)(cli_num(o, CLI_ARG_ACTION, 2) << 24 | cli_num(o, CLI_ARG_DATA_LEN, 0));
	return cli_show_list(s, o, &c, (mndw + 1) * 4, &list);
}
