/* SPDX-License-Identifier: BSD-3-Clause */
/* get-lba-status: the list of LBA Status Descriptors (NVM Command Set 1.2, 4.2.1). */
#include <endian.h>
#include <nvme/types.h>

#include "command.h"

#define MNDW_DEFAULT 1023u /* 0's based: 4096 bytes, 255 descriptors */

static const char *completion_text(unsigned int cmpc)
{
	switch (cmpc) {
	case 0:
		return "no indication of the completion condition";
	case 1:
		return "as many dwords as --max-dw says; there are more descriptors, or the scan "
		       "has not ended";
	case 2:
		return "all of the range";
	default:
		return "reserved";
	}
}

static int show_lba_status(const struct cli_options *o, const void *data, uint32_t len)
{
	const struct nvme_lba_status *list = data;
	uint32_t nlsd = le32toh(list->nlsd), n, i;
	json_t *entries;

	/* No further than the buffer. */
	n = (len - (uint32_t)sizeof(*list)) / (uint32_t)sizeof(list->descs[0]);
	n = n < nlsd ? n : nlsd;
	if (o->format == CLI_JSON) {
		entries = json_array();
		for (i = 0; i < n; i++)
			json_array_append_new(
				entries, json_pack("{s:I, s:I, s:i}", "dslba",
						   (json_int_t)le64toh(list->descs[i].dslba), "nlb",
						   (json_int_t)le32toh(list->descs[i].nlb),
						   "status", (int)list->descs[i].status));
		return cli_print_json(json_pack("{s:I, s:i, s:o}", "nlsd", (json_int_t)nlsd, "cmpc",
						(int)list->cmpc, "lsde", entries),
				      stdout);
	}
	printf("Number of LBA Status Descriptors(NLSD): %u\nCompletion Condition(CMPC): %u\n\t%s\n",
	       nlsd, list->cmpc, completion_text(list->cmpc));
	for (i = 0; i < n; i++)
		printf("{ DSLBA: 0x%016llx, NLB: 0x%08x, Status: 0x%02x }\n",
		       (unsigned long long)le64toh(list->descs[i].dslba),
		       le32toh(list->descs[i].nlb), list->descs[i].status);
	return cli_finish_output();
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
		.rest = "go on with --start-lba behind its last block",
	};
	uint32_t mndw = (uint32_t)cli_num(o, CLI_ARG_NUMD, MNDW_DEFAULT);
	uint64_t lba = cli_num(o, CLI_ARG_START, 0);
	struct cli_command c = {
		.opcode = nvme_admin_get_lba_status,
		.nsid = cli_nsid(o),
	};

	if ((mndw + 1) * 4 < sizeof(struct nvme_lba_status))
		return cli_usage_error("--max-dw: %u, which is 0's based, leaves no room for the "
				       "header of the list; the least is 1",
				       mndw);
	c.cdw[10] = (uint32_t)lba;
	c.cdw[11] = (uint32_t)(lba >> 32);
	c.cdw[13] =
		(uint32_t)(cli_num(o, CLI_ARG_ACTION, 2) << 24 | cli_num(o, CLI_ARG_DATA_LEN, 0));
	return cli_show_list(s, o, &c, (mndw + 1) * 4, &list);
}
