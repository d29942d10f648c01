/* SPDX-License-Identifier: BSD-3-Clause */
/* Identify data that is a list: of namespaces, of controllers, of descriptors. */
#include <endian.h>
#include <inttypes.h>
#include <nvme/types.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "command.h"
#include "fields.h"

/* ---- list-ns ---- */

/* An upper limit for the number of namespaces, so that an endless list ends. */
#define NS_MAX (1u << 20)

/* The largest number of namespaces that the controller may have: MNAN, else NN. */
static int ns_limit(struct cli_session *s, uint64_t *limit)
{
	struct nvme_id_ctrl id;

	if (rdinit_identify_ctrl(s->ctrl, &id))
		return cli_lib_error();
	*limit = le32toh(id.mnan) ? le32toh(id.mnan) : le32toh(id.nn);
	if (*limit > NS_MAX)
		*limit = NS_MAX;
	return CLI_OK;
}

/* Lists up to RDINIT_NS_LIST_MAX identifiers above @after: of active namespaces, or of all. */
static int list_some(struct cli_session *s, bool inactive, uint32_t after, uint32_t *nsids,
		     unsigned int *count)
{
	struct nvme_ns_list list;

	if (!inactive)
		return rdinit_list_ns(s->ctrl, after, nsids, count) ? cli_lib_error() : CLI_OK;
	if (cli_identify(s, NVME_IDENTIFY_CNS_ALLOCATED_NS_LIST, 0, after, &list))
		return CLI_FAILED;
	for (*count = 0; *count < RDINIT_NS_LIST_MAX && list.ns[*count]; ++*count) {
		nsids[*count] = le32toh(list.ns[*count]);
		if (nsids[*count] <= after)
			return cli_error("%s: its namespace list is not in ascending order",
					 s->info.address);
		after = nsids[*count];
	}
	return CLI_OK;
}

int cli_each_ns(struct cli_session *s, uint32_t after, bool inactive, cli_ns_fn fn, void *arg)
{
	uint32_t nsids[RDINIT_NS_LIST_MAX];
	uint64_t n = 0, limit = 0;
	unsigned int count, i;

	if (ns_limit(s, &limit))
		return CLI_FAILED;
	do {
		if (list_some(s, inactive, after, nsids, &count))
			return CLI_FAILED;
		n += count;
		if (n > limit)
			return cli_error("%s: its namespace list has more entries than the "
					 "controller can have namespaces (%llu)",
					 s->info.address, (unsigned long long)limit);
		for (i = 0; i < count; i++) {
			if (fn(s, nsids[i], arg))
				return CLI_FAILED;
		}
		after = count ? nsids[count - 1] : after;
	} while (count == RDINIT_NS_LIST_MAX);
	return CLI_OK;
}

/* Identifiers that a verb has collected. */
struct ids {
	__le32 *data;
	size_t n, room;
};

static int add_id(struct ids *ids, uint32_t id)
{
	__le32 *data;

	if (ids->n == ids->room) {
		ids->room = 2 * ids->room + 64;
		data = realloc(ids->data, ids->room * sizeof(*data));
		if (!data)
			return cli_error("no memory for %zu identifiers", ids->room);
		ids->data = data;
	}
	ids->data[ids->n++] = htole32(id);
	return CLI_OK;
}

static void print_id(const struct cli_options *o, const void *data, unsigned int i,
		     const void *item)
{
	printf("[%4u]:%#" PRIx64 "\n", i, cli_le(item, sizeof(__le32)));
}

static const struct cli_field nsid_fields[] = {{"nsid", 0, sizeof(__le32), KIND_DEC}};
static const struct cli_shape nsid_shape = CLI_SHAPE(nsid_fields, 0);
static const struct cli_list nsids[] = {
	CLI_LIST("nsid_list", &nsid_shape, 0, sizeof(__le32), .print = print_id)};
const struct cli_shape cli_shape_list_ns = {CLI_LISTS(nsids)};

static int add_listed_ns(struct cli_session *s, uint32_t nsid, void *ids)
{
	return add_id(ids, nsid);
}

int cli_list_ns(struct cli_session *s, const struct cli_options *o)
{
	uint32_t first = (uint32_t)cli_num(o, CLI_ARG_FIRST, 1);
	struct ids ids = {.data = NULL};
	int rc = cli_each_ns(s, first ? first - 1 : 0, cli_given(o, CLI_ARG_ALL), add_listed_ns,
			     &ids);

	if (!rc)
		rc = cli_shape_show(o, &cli_shape_list_ns, ids.data, ids.n * sizeof(__le32), NULL,
				    "NVME Namespace List:\n");
	free(ids.data);
	return rc;
}

/* ---- list-ctrl ---- */

#define CNTID_END 0x10000u

/* The controllers of one page, from *@cntid; then *@cntid is the first that may follow, or beyond
 * any identifier at the end of the list. */
static int list_ctrl_page(struct cli_session *s, const struct cli_options *o, uint32_t *cntid,
			  struct ids *list)
{
	uint32_t nsid = (uint32_t)cli_num(o, CLI_ARG_FIRST, 0);
	uint32_t cns = nsid ? NVME_IDENTIFY_CNS_NS_CTRL_LIST : NVME_IDENTIFY_CNS_CTRL_LIST;
	struct nvme_ctrl_list page;
	unsigned int i, n;

	if (cli_identify(s, cns | *cntid << 16, 0, nsid, &page))
		return CLI_FAILED;
	n = le16toh(page.num);
	if (n > CLI_COUNT(page.identifier))
		return cli_error("%s: its controller list claims %u entries, but has room for %zu",
				 s->info.address, n, CLI_COUNT(page.identifier));
	for (i = 0; i < n; i++) {
		unsigned int id = le16toh(page.identifier[i]);

		if (id < *cntid)
			return cli_error("%s: its controller list is not in ascending order",
					 s->info.address);
		if (add_id(list, id))
			return CLI_FAILED;
		*cntid = id + 1;
	}
	if (n < CLI_COUNT(page.identifier))
		*cntid = CNTID_END;
	return CLI_OK;
}

static const struct cli_field ctrl_id[] = {{"ctrl_id", 0, sizeof(__le32), KIND_DEC}};
static const struct cli_shape ctrl_shape = CLI_SHAPE(ctrl_id, 0);
static const struct cli_list ctrl_list[] = {
	CLI_LIST("ctrl_list", &ctrl_shape, sizeof(__le32), sizeof(__le32), .print = print_id)};
static const struct cli_field num_ctrl[] = {
	{"num_ctrl", 0, sizeof(__le32), KIND_DEC, .label = "num of ctrls present"}};
const struct cli_shape cli_shape_list_ctrl =
	CLI_SHAPE(num_ctrl, 1, .sep = ": ", CLI_LISTS(ctrl_list));

int cli_list_ctrl(struct cli_session *s, const struct cli_options *o)
{
	uint32_t cntid = (uint32_t)cli_num(o, CLI_ARG_CNTID, 0);
	struct ids list = {.data = NULL};
	int rc = add_id(&list, 0);

	while (!rc && cntid < CNTID_END)
		rc = list_ctrl_page(s, o, &cntid, &list);
	if (!rc) {
		list.data[0] = htole32((uint32_t)list.n - 1);
		rc = cli_shape_show(o, &cli_shape_list_ctrl, list.data, list.n * sizeof(__le32),
				    NULL, NULL);
	}
	free(list.data);
	return rc;
}

/* ---- ns-descs ---- */

const unsigned char *cli_next_descriptor(const unsigned char *list, const unsigned char *d)
{
	const unsigned char *next = d ? d + 4 + d[1] : list;

	if (next + 4 > list + RDINIT_IDENTIFY_SIZE || !next[1] ||
	    next + 4 + next[1] > list + RDINIT_IDENTIFY_SIZE)
		return NULL;
	return next;
}

/* A descriptor, and where it is in the page. */
struct descriptor {
	__le16 loc;
	uint8_t nidt, nidl;
	unsigned char nid[16];
};

static const struct cli_words id_types = CLI_WORDS("", NULL, "eui64", "nguid", "uuid", "csi");
static const unsigned char id_lengths[] = {0, 8, 16, 16, 1};

static unsigned int id_type(const void *data)
{
	return ((const struct descriptor *)data)->nidt;
}

static bool is_eui64(const void *data)
{
	return id_type(data) == NVME_NIDT_EUI64;
}

static bool is_nguid(const void *data)
{
	return id_type(data) == NVME_NIDT_NGUID;
}

static bool is_uuid(const void *data)
{
	return id_type(data) == NVME_NIDT_UUID;
}

static bool is_csi(const void *data)
{
	return id_type(data) == NVME_NIDT_CSI;
}

static void csi_text(uint64_t v, const void *data, char *buf)
{
	sprintf(buf, "%#x", (unsigned int)v);
}

#define NID(name, size, k, is, ...)                                                         \
	{                                                                                   \
		name, offsetof(struct descriptor, nid), size, k, .there = (is), __VA_ARGS__ \
	}

static const struct cli_field desc_fields[] = {
	CLI_FIELD(descriptor, loc, "loc", KIND_DEC),
	CLI_FIELD(descriptor, nidt, "nidt", KIND_DEC),
	CLI_FIELD(descriptor, nidl, "nidl", KIND_DEC),
	CLI_FIELD(descriptor, nidt, "Type", KIND_WORD, .words = &id_types),
	NID("eui64", 8, KIND_HEXSTR, is_eui64),
	NID("nguid", 16, KIND_HEXSTR, is_nguid),
	NID("uuid", 16, KIND_UUID, is_uuid),
	NID("csi", 1, KIND_WORD, is_csi, .explain = csi_text),
};

static void print_descriptor_id(const struct cli_options *o, const void *data, unsigned int i,
				const void *item)
{
	static const struct cli_shape id = {
		.fields = desc_fields + 4, .n = 4, .width = 8, .sep = ": "};

	cli_shape_print(o, &id, item, sizeof(struct descriptor));
}

static const struct cli_shape desc_shape = CLI_SHAPE(desc_fields, 0);
static const struct cli_list descs[] = {CLI_LIST(
	"ns-descs", &desc_shape, 0, sizeof(struct descriptor), .print = print_descriptor_id)};
const struct cli_shape cli_shape_ns_descs = {CLI_LISTS(descs)};

int cli_ns_descs(struct cli_session *s, const struct cli_options *o)
{
	struct descriptor found[RDINIT_IDENTIFY_SIZE / 4];
	unsigned char page[RDINIT_IDENTIFY_SIZE];
	const unsigned char *d = NULL;
	struct nvme_id_ns ns;
	size_t n = 0;

	if (cli_identify_ns(s, cli_nsid(o), &ns) ||
	    cli_identify(s, NVME_IDENTIFY_CNS_NS_DESC_LIST, 0, cli_nsid(o), page))
		return CLI_FAILED;
	if (cli_given(o, CLI_ARG_RAW))
		return cli_raw(page, sizeof(page));
	while ((d = cli_next_descriptor(page, d))) {
		if (d[0] == 0 || d[0] >= CLI_COUNT(id_lengths) || d[1] != id_lengths[d[0]])
			continue;
		found[n].loc = htole16((uint16_t)(d - page));
		found[n].nidt = d[0];
		found[n].nidl = d[1];
		memcpy(found[n++].nid, d + 4, d[1]);
	}
	return cli_shape_show(o, &cli_shape_ns_descs, found, n * sizeof(found[0]), NULL,
			      "NVME Namespace Identification Descriptors NS %u:\n", cli_nsid(o));
}
