/* SPDX-License-Identifier: BSD-3-Clause */
/* Identify data other than id-ctrl and id-ns: lists, descriptors, data common to all command
 * sets. */
#include <endian.h>
#include <inttypes.h>
#include <nvme/types.h>
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
			return cli_error("%s: its list of namespaces is not in ascending order",
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
			return cli_error("%s: it lists more namespaces than it says that it can "
					 "have (%llu)",
					 s->info.address, (unsigned long long)limit);
		for (i = 0; i < count; i++) {
			if (fn(s, nsids[i], arg))
				return CLI_FAILED;
		}
		after = count ? nsids[count - 1] : after;
	} while (count == RDINIT_NS_LIST_MAX);
	return CLI_OK;
}

static int add_to_list(struct cli_session *s, uint32_t nsid, void *list)
{
	return json_array_append_new(list, json_pack("{s:I}", "nsid", (json_int_t)nsid));
}

int cli_list_ns(struct cli_session *s, const struct cli_options *o)
{
	uint32_t first = (uint32_t)cli_num(o, CLI_ARG_FIRST, 1);
	json_t *list = json_array(), *one;
	size_t i;

	if (cli_each_ns(s, first ? first - 1 : 0, cli_given(o, CLI_ARG_ALL), add_to_list, list)) {
		json_decref(list);
		return CLI_FAILED;
	}
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:o}", "nsid_list", list), stdout);
	json_array_foreach(list, i, one)
		printf("[%4zu]:%#llx\n", i,
		       (unsigned long long)json_integer_value(json_object_get(one, "nsid")));
	json_decref(list);
	return cli_finish_output();
}

/* ---- list-ctrl ---- */

#define CNTID_END 0x10000u

/* The controllers of one page, from *@cntid; then *@cntid is the first that may follow, or beyond
 * any identifier at the end of the list. */
static int list_ctrl_page(struct cli_session *s, const struct cli_options *o, uint32_t *cntid,
			  json_t *list)
{
	uint32_t nsid = (uint32_t)cli_num(o, CLI_ARG_FIRST, 0);
	uint32_t cns = nsid ? NVME_IDENTIFY_CNS_NS_CTRL_LIST : NVME_IDENTIFY_CNS_CTRL_LIST;
	struct nvme_ctrl_list page;
	unsigned int i, n;

	if (cli_identify(s, cns | *cntid << 16, 0, nsid, &page))
		return CLI_FAILED;
	n = le16toh(page.num);
	if (n > CLI_COUNT(page.identifier))
		return cli_error("%s: its list of controllers says that it has %u entries, and %zu "
				 "have room",
				 s->info.address, n, CLI_COUNT(page.identifier));
	for (i = 0; i < n; i++) {
		unsigned int id = le16toh(page.identifier[i]);

		if (id < *cntid)
			return cli_error("%s: its list of controllers is not in ascending order",
					 s->info.address);
		if (o->format != CLI_JSON)
			printf("[%4zu]:%#x\n", json_array_size(list), id);
		json_array_append_new(list, json_pack("{s:i}", "ctrl_id", (int)id));
		*cntid = id + 1;
	}
	if (n < CLI_COUNT(page.identifier))
		*cntid = CNTID_END;
	return CLI_OK;
}

int cli_list_ctrl(struct cli_session *s, const struct cli_options *o)
{
	uint32_t cntid = (uint32_t)cli_num(o, CLI_ARG_CNTID, 0);
	json_t *list = json_array();
	int rc = CLI_OK;

	while (!rc && cntid < CNTID_END)
		rc = list_ctrl_page(s, o, &cntid, list);
	if (!rc && o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:i, s:o}", "num_ctrl",
						(int)json_array_size(list), "ctrl_list", list),
				      stdout);
	json_decref(list);
	return rc ? rc : cli_finish_output();
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

/* The name of the descriptor's type, and its value as text. */
static const char *descriptor(const unsigned char *d, char *text)
{
	static const char *const names[] = {NULL, "eui64", "nguid", "uuid", "csi"};
	static const unsigned char lengths[] = {0, 8, 16, 16, 1};
	unsigned int type = d[0], i;

	if (type == 0 || type >= CLI_COUNT(names) || d[1] != lengths[type])
		return NULL;
	if (type == NVME_NIDT_UUID)
		uuid_unparse_lower(&d[4], text);
	else if (type == NVME_NIDT_CSI)
		snprintf(text, UUID_STR_LEN, "%#x", d[4]);
	else
		for (i = 0; i < d[1]; i++)
			snprintf(text + 2ul * i, 3, "%02x", d[4 + i]);
	return names[type];
}

int cli_ns_descs(struct cli_session *s, const struct cli_options *o)
{
	unsigned char page[RDINIT_IDENTIFY_SIZE];
	uint32_t nsid = cli_nsid(o);
	struct nvme_id_ns ns;
	const unsigned char *d = NULL;
	json_t *list;

	if (cli_identify_ns(s, nsid, &ns) ||
	    cli_identify(s, NVME_IDENTIFY_CNS_NS_DESC_LIST, 0, nsid, page))
		return CLI_FAILED;
	if (cli_given(o, CLI_ARG_RAW))
		return cli_raw(page, sizeof(page));
	list = json_array();
	if (o->format != CLI_JSON)
		printf("NVME Namespace Identification Descriptors NS %u:\n", nsid);
	while ((d = cli_next_descriptor(page, d))) {
		char text[UUID_STR_LEN] = "";
		const char *name = descriptor(d, text);

		if (!name)
			continue;
		json_array_append_new(list, json_pack("{s:i, s:i, s:i, s:s, s:s}", "loc",
						      (int)(d - page), "nidt", (int)d[0], "nidl",
						      (int)d[1], "type", name, name, text));
		if (o->format != CLI_JSON)
			printf("loc %d: nidt %u nidl %u, %s: %s\n", (int)(d - page), d[0], d[1],
			       name, text);
	}
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:o}", "ns-descs", list), stdout);
	json_decref(list);
	return cli_finish_output();
}

/* ---- cmdset-ind-id-ns, nvm-id-ctrl and nvm-id-ns ---- */

#define IND(member, k) CLI_FIELD(nvme_id_independent_id_ns, member, #member, k)

static const struct cli_field independent[] = {
	IND(nsfeat, KIND_DEC),   IND(nmic, KIND_DEC),     IND(rescap, KIND_DEC),
	IND(fpi, KIND_DEC),      IND(anagrpid, KIND_DEC), IND(nsattr, KIND_DEC),
	IND(nvmsetid, KIND_DEC), IND(endgid, KIND_DEC),   IND(nstat, KIND_DEC),
};

#define NVM(member, k) CLI_FIELD(nvme_id_ctrl_nvm, member, #member, k)

static const struct cli_field nvm_ctrl[] = {
	NVM(vsl, KIND_DEC),  NVM(wzsl, KIND_DEC),  NVM(wusl, KIND_DEC),
	NVM(dmrl, KIND_DEC), NVM(dmrsl, KIND_DEC), NVM(dmsl, KIND_DEC),
};

const struct cli_shape cli_shape_ind_ns = CLI_SHAPE(independent, 8);
const struct cli_shape cli_shape_nvm_ctrl = CLI_SHAPE(nvm_ctrl, 8);

int cli_cmdset_ind_id_ns(struct cli_session *s, const struct cli_options *o)
{
	struct nvme_id_independent_id_ns page;
	struct nvme_id_ns ns;

	/* The page of a namespace that is not active has zeroes. */
	if (cli_identify_ns(s, cli_nsid(o), &ns) ||
	    cli_identify(s, NVME_IDENTIFY_CNS_CSI_INDEPENDENT_ID_NS, 0, cli_nsid(o), &page))
		return CLI_FAILED;
	return cli_shape_show(o, &cli_shape_ind_ns, &page, sizeof(page), NULL,
			      "NVME Identify Command Set Independent Namespace:\n");
}

int cli_nvm_id_ctrl(struct cli_session *s, const struct cli_options *o)
{
	struct nvme_id_ctrl_nvm page;

	if (cli_identify(s, NVME_IDENTIFY_CNS_CSI_CTRL, 0, 0, &page))
		return CLI_FAILED;
	return cli_shape_show(o, &cli_shape_nvm_ctrl, &page, sizeof(page), NULL,
			      "NVMe Identify Controller NVM:\n");
}

/* The page has no number of formats: that of Identify Namespace follows it. */
struct nvm_id_ns {
	struct nvme_nvm_id_ns page;
	struct nvme_id_ns ns;
};

static const struct cli_field nvm_ns[] = {
	CLI_FIELD(nvme_nvm_id_ns, lbstm, "lbstm", KIND_HEX),
	CLI_FIELD(nvme_nvm_id_ns, pic, "pic", KIND_HEX),
};

#define ELBAF(label, shift, bits)                               \
	{                                                       \
		label, 0, sizeof(__le32), KIND_DEC, shift, bits \
	}

static const struct cli_field elbaf_fields[] = {
	ELBAF("sts", 0, 7),
	ELBAF("pif", 7, 2),
};

static unsigned int extensions(const void *data, size_t len)
{
	return cli_lba_formats(&((const struct nvm_id_ns *)data)->ns);
}

static void print_extension(const struct cli_options *o, const void *data, unsigned int i,
			    const void *item)
{
	uint64_t e = cli_le(item, sizeof(__le32));

	printf("elbaf %2u : pif:%u sts:%u%s\n", i, (unsigned int)(e >> 7 & 3),
	       (unsigned int)(e & 0x7f),
	       i == cli_lba_in_use(&((const struct nvm_id_ns *)data)->ns) ? " (in use)" : "");
}

static const struct cli_shape elbaf_shape = CLI_SHAPE(elbaf_fields, 0);
static const struct cli_list elbafs[] = {
	CLI_LIST("elbafs", &elbaf_shape, offsetof(struct nvme_nvm_id_ns, elbaf), sizeof(__le32),
		 .count = extensions, .print = print_extension)};

const struct cli_shape cli_shape_nvm_ns = CLI_SHAPE(nvm_ns, 5, CLI_LISTS(elbafs));

int cli_nvm_id_ns(struct cli_session *s, const struct cli_options *o)
{
	struct nvm_id_ns id;

	/* The page of a namespace that is not active has zeroes, like that of many others. */
	if (cli_identify_ns(s, cli_nsid(o), &id.ns) ||
	    cli_identify(s, NVME_IDENTIFY_CNS_CSI_NS, 0, cli_nsid(o), &id.page))
		return CLI_FAILED;
	return cli_shape_show(o, &cli_shape_nvm_ns, &id, sizeof(id.page), NULL,
			      "NVMe NVM Identify Namespace %u:\n", cli_nsid(o));
}
