/* SPDX-License-Identifier: BSD-3-Clause */
/* I/O commands without data, those whose data is a list of ranges, Compare, and Get LBA Status. */
#include <endian.h>
#include <nvme/types.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "fields.h"

#define RANGES_MAX   256u
#define FUA          (1u << 30)
#define RETRY        (1u << 31)
#define DEAC         (1u << 25)
#define DSM_AD       4u
#define DSM_IDW      2u
#define DSM_IDR      1u
#define MNDW_DEFAULT 1023u /* 0's based: 4096 bytes, 255 descriptors */

static void put_lba(struct cli_command *c, uint64_t lba)
{
	c->cdw[10] = (uint32_t)lba;
	c->cdw[11] = (uint32_t)(lba >> 32);
}

static uint32_t flags(const struct cli_options *o)
{
	return (cli_given(o, CLI_ARG_FUA) ? FUA : 0) |
	       (cli_given(o, CLI_ARG_LIMITED_RETRY) ? RETRY : 0) |
	       (cli_given(o, CLI_ARG_DEAC) ? DEAC : 0);
}

/* Sends a command for a range of blocks. */
static int on_range(struct cli_session *s, const struct cli_options *o, uint8_t opcode)
{
	struct cli_command c = {.opcode = opcode, .nsid = cli_nsid(o)};
	uint64_t result = 0;

	put_lba(&c, cli_num(o, CLI_ARG_START, 0));
	c.cdw[12] = (uint32_t)cli_num(o, CLI_ARG_COUNT, 0) | flags(o);
	return cli_io(s, &c, &result) ? CLI_FAILED : cli_success(o, c.nsid, result);
}

int cli_write_zeroes(struct cli_session *s, const struct cli_options *o)
{
	return on_range(s, o, nvme_cmd_write_zeroes);
}

int cli_write_uncor(struct cli_session *s, const struct cli_options *o)
{
	return on_range(s, o, nvme_cmd_write_uncor);
}

int cli_verify(struct cli_session *s, const struct cli_options *o)
{
	return on_range(s, o, nvme_cmd_verify);
}

/* ---- dsm and copy ---- */

struct ranges {
	uint64_t start[RANGES_MAX], blocks[RANGES_MAX], attrs[RANGES_MAX];
	unsigned int n;
};

static int get_ranges(const struct cli_options *o, unsigned int room, uint64_t max,
		      struct ranges *r)
{
	unsigned int n;

	memset(r, 0, sizeof(*r));
	if (!cli_given(o, CLI_ARG_SLBS) || !cli_given(o, CLI_ARG_BLOCKS))
		return cli_usage_error("--slbs and --blocks are missing: the first block and the "
				       "number of blocks of each range, such as --slbs=0,64 "
				       "--blocks=8,8");
	r->n = cli_number_list("slbs", o->arg[CLI_ARG_SLBS].text, UINT64_MAX, r->start, room);
	n = r->n ? cli_number_list("blocks", o->arg[CLI_ARG_BLOCKS].text, max, r->blocks, room) : 0;
	if (!r->n || !n)
		return CLI_USAGE;
	if (n != r->n)
		return cli_usage_error("--slbs has %u numbers and --blocks %u; each range needs "
				       "one of both",
				       r->n, n);
	if (!cli_given(o, CLI_ARG_CTX_ATTRS))
		return CLI_OK;
	n = cli_number_list("ctx-attrs", o->arg[CLI_ARG_CTX_ATTRS].text, UINT32_MAX, r->attrs,
			    room);
	if (n && n != r->n)
		return cli_usage_error("--ctx-attrs has %u numbers and --slbs %u", n, r->n);
	return n ? CLI_OK : CLI_USAGE;
}

static int send_ranges(const struct cli_options *o, struct cli_command *c)
{
	struct cli_session s;
	uint64_t result = 0;
	int rc = cli_session_open(&s, o);

	if (rc)
		return rc;
	c->nsid = cli_nsid(o);
	c->write = true;
	rc = cli_session_open_io(&s, o);
	if (!rc)
		rc = cli_io(&s, c, &result);
	cli_session_close(&s);
	return rc ? rc : cli_success(o, c->nsid, result);
}

int cli_dsm(const struct cli_options *o)
{
	struct nvme_dsm_range list[RANGES_MAX] = {0};
	struct ranges r;
	struct cli_command c = {.opcode = nvme_cmd_dsm, .data = list};
	unsigned int i;
	int rc = get_ranges(o, RANGES_MAX, UINT32_MAX, &r);

	if (rc)
		return rc;
	c.cdw[10] = r.n - 1;
	c.cdw[11] = (uint32_t)cli_num(o, CLI_ARG_CDW11,
				      (cli_given(o, CLI_ARG_AD) ? DSM_AD : 0) |
					      (cli_given(o, CLI_ARG_IDW) ? DSM_IDW : 0) |
					      (cli_given(o, CLI_ARG_IDR) ? DSM_IDR : 0));
	if (!c.cdw[11])
		return cli_usage_error("--ad, --idw or --idr is missing: the operation on the "
				       "ranges (--ad deallocates them)");
	for (i = 0; i < r.n; i++) {
		list[i].cattr = htole32((uint32_t)r.attrs[i]);
		list[i].nlb = htole32((uint32_t)r.blocks[i]);
		list[i].slba = htole64(r.start[i]);
	}
	c.len = r.n * (uint32_t)sizeof(list[0]);
	return send_ranges(o, &c);
}

int cli_copy(const struct cli_options *o)
{
	struct nvme_copy_range list[RANGES_MAX] = {0};
	struct ranges r;
	struct cli_command c = {.opcode = nvme_cmd_copy, .data = list};
	unsigned int i;
	int rc = get_ranges(o, RANGES_MAX, UINT16_MAX, &r);

	if (rc)
		return rc;
	if (!cli_given(o, CLI_ARG_SDLBA))
		return cli_usage_error("--sdlba is missing: the first block of the destination");
	put_lba(&c, cli_num(o, CLI_ARG_SDLBA, 0));
	c.cdw[12] = (r.n - 1) | flags(o);
	for (i = 0; i < r.n; i++) {
		list[i].slba = htole64(r.start[i]);
		list[i].nlb =
			htole16((uint16_t)r.blocks[i]); /* 0's based, as nvme-cli's --blocks */
	}
	c.len = r.n * (uint32_t)sizeof(list[0]);
	return send_ranges(o, &c);
}

/* ---- compare ---- */

static uint64_t compare_length(const struct cli_options *o, const struct rdinit_ns *ns)
{
	uint64_t len;

	if (cli_given(o, CLI_ARG_DATA_LEN))
		return o->arg[CLI_ARG_DATA_LEN].n;
	if (!cli_given(o, CLI_ARG_COUNT))
		return UINT64_MAX; /* until the end of the input */
	if (__builtin_mul_overflow(o->arg[CLI_ARG_COUNT].n + 1, (uint64_t)ns->block_size, &len))
		return UINT64_MAX - 1;
	return len;
}

static int compare_all(struct cli_session *s, const struct cli_options *o, FILE *in,
		       const char *name, unsigned char *buf, uint32_t chunk)
{
	uint64_t lba = cli_num(o, CLI_ARG_START, 0), len = compare_length(o, &s->ns), done = 0;
	uint32_t bs = s->ns.block_size;

	while (done < len) {
		size_t want = len - done < chunk ? (size_t)(len - done) : chunk;
		size_t n = fread(buf, 1, want, in);
		struct cli_command c = {.opcode = nvme_cmd_compare,
					.nsid = s->ns.nsid,
					.data = buf,
					.len = (uint32_t)n,
					.write = true};

		if (ferror(in))
			return cli_error("%s: cannot be read", name);
		if (n % bs)
			return cli_error("%s: %llu bytes are not a multiple of the block size %u",
					 name, (unsigned long long)(done + n), bs);
		if (n < want && len != UINT64_MAX)
			return cli_error("%s: the input has %llu bytes, expected %llu", name,
					 (unsigned long long)(done + n), (unsigned long long)len);
		if (n == 0)
			break;
		put_lba(&c, lba + done / bs);
		c.cdw[12] = (uint32_t)(n / bs - 1) | flags(o);
		if (cli_io_try(s, &c, NULL))
			return cli_error(
				"blocks %llu to %llu: %s", (unsigned long long)(lba + done / bs),
				(unsigned long long)(lba + (done + n) / bs - 1), cli_lib_text());
		done += n;
	}
	if (!done)
		return cli_error("%s: there is no data to compare with", name);
	return cli_success(o, s->ns.nsid, 0);
}

int cli_compare(struct cli_session *s, const struct cli_options *o)
{
	const char *name = o->arg[CLI_ARG_DATA].text;
	bool std = cli_is_std(name);
	uint32_t bs = s->ns.block_size, chunk = s->info.max_transfer;
	unsigned char *buf;
	FILE *in;
	int rc;

	if (chunk > 1u << 20)
		chunk = 1u << 20;
	chunk -= chunk % bs;
	if (!chunk)
		return cli_error("a block of %u bytes is more than one command transfers", bs);
	in = std ? stdin : fopen(name, "re");
	if (!in)
		return cli_error("--data: %s: cannot be opened: %m", name);
	buf = malloc(chunk);
	rc = buf ? compare_all(s, o, in, std ? "standard input" : name, buf, chunk)
		 : cli_error("no memory for %u bytes", chunk);
	free(buf);
	if (!std)
		fclose(in);
	return rc;
}

/* ---- get-lba-status: the list of LBA Status Descriptors (NVM Command Set 1.2, 4.2.1) ---- */

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
	struct cli_command c = {
		.opcode = nvme_admin_get_lba_status,
		.nsid = cli_nsid(o),
	};

	if ((mndw + 1) * 4 < sizeof(struct nvme_lba_status))
		return cli_usage_error("--max-dw: %u (0's based) leaves no room for the header of "
				       "the list; the minimum is 1",
				       mndw);
	put_lba(&c, cli_num(o, CLI_ARG_START, 0));
	c.cdw[13] =
		(uint32_t)(cli_num(o, CLI_ARG_ACTION, 2) << 24 | cli_num(o, CLI_ARG_DATA_LEN, 0));
	return cli_show_list(s, o, &c, (mndw + 1) * 4, &list);
}
