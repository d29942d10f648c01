/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of namespaces and their limits, without those of backends and layers. */
#include "backends.h"
#include "keys.h"

#include <string.h>

#include <uuid/uuid.h>

#include "tgt_limits.h"

#define ANEW    RDT_WHEN_ANEW
#define AT_ONCE RDT_WHEN_AT_ONCE

/* ---- limits ---- */

#define IOPS(field, limit, text)                                                        \
	{                                                                               \
#field, RDT_KEY_NUMBER, AT_ONCE, RDT_AT(T, Q field),                    \
			RDT_NUMBER_AT(T, Q limits[limit]),                              \
			.min = 1, .max = 1000000000, .unset = "no limit",               \
			.unit = "commands per second", .example = "20000", .says = text \
	}
#define BYTES(field, limit, text)                                                        \
	{                                                                                \
#field, RDT_KEY_SIZE, AT_ONCE, RDT_AT(T, Q field),                       \
			RDT_NUMBER_AT(T, Q limits[limit]),                               \
			.min = 64u << 10, .max = UINT64_C(1) << 40, .unset = "no limit", \
			.unit = "per second", .example = "500MiB", .says = text          \
	}
#define QOS_ROWS                                                                        \
	IOPS(iops, RDT_QOS_IOPS, "Commands per second."),                               \
		IOPS(read_iops, RDT_QOS_READ_IOPS, "Commands that read."),              \
		IOPS(write_iops, RDT_QOS_WRITE_IOPS, "Commands that write."),           \
		BYTES(bandwidth, RDT_QOS_BYTES, "Bytes per second."),                   \
		BYTES(read_bandwidth, RDT_QOS_READ_BYTES, "Bytes that are read."),      \
		BYTES(write_bandwidth, RDT_QOS_WRITE_BYTES, "Bytes that are written."), \
	{                                                                               \
		0                                                                       \
	}

#define T struct rdt_qos_config
#define Q
static const struct rdt_row qos_rows[] = {QOS_ROWS};
#undef Q
#undef T

#define T struct rdt_host_qos_config
#define Q limits.
static const struct rdt_row host_rows[] = {
	{"host", RDT_KEY_NQN, AT_ONCE, RDT_AT(T, host), .needed = RDT_ALWAYS,
	 .example = RDT_EXAMPLE_HOST, .says = "NQN of the host."},
	{0},
};
static const struct rdt_row host_qos_rows[] = {QOS_ROWS};
#undef Q
#undef T

static const struct rdt_section qos_section = {{qos_rows}, sizeof(struct rdt_qos_config)};
const struct rdt_section rdt_host_qos_section = {{host_rows, host_qos_rows},
						 sizeof(struct rdt_host_qos_config)};

/* ---- layers ---- */

static const struct rdt_choice layer_types[] = {
	{"delay", RDT_LAYER_DELAY}, {"error", RDT_LAYER_ERROR}, {NULL, 0}};

static const struct rdt_row layer_rows[] = {
	{"type", RDT_KEY_CHOICE, ANEW, RDT_AT(struct rdt_layer_config, type),
	 .choices = layer_types, .needed = RDT_ALWAYS,
	 .says = "What the layer does: delays commands, or fails them without executing them."},
	{0},
};

static const struct rdt_section layer_section = {
	{layer_rows, rdt_delay_rows, rdt_error_rows}, sizeof(struct rdt_layer_config), "type"};
static const struct rdt_row layer_element = {.type = RDT_KEY_MAPPING, .section = &layer_section};

/* ---- namespaces ---- */

static const struct rdt_choice block_sizes[] = {{"512", 512}, {"4096", 4096}, {NULL, 0}};

const char *rdt_wrong_uuid(const char *text)
{
	uuid_t uuid;

	return uuid_parse(text, uuid) || uuid_is_null(uuid) ? "" : NULL;
}

/* @text: as many hexadecimal digits as @zeroes, another number. */
static const char *wrong_hex(const char *text, const char *zeroes)
{
	size_t len = strlen(zeroes);

	return strlen(text) == len && strspn(text, "0123456789abcdefABCDEF") == len &&
			       strcmp(text, zeroes) != 0
		       ? NULL
		       : "";
}

static const char *wrong_nguid(const char *text)
{
	return wrong_hex(text, "00000000000000000000000000000000");
}

static const char *wrong_eui64(const char *text)
{
	return wrong_hex(text, "0000000000000000");
}

#define T struct rdt_ns_config

static const struct rdt_row ns_rows[] = {
	{"nsid", RDT_KEY_NUMBER, ANEW, RDT_AT(T, nsid), .min = 1, .max = RDT_NSID_MAX,
	 .needed = RDT_ALWAYS, .example = "1",
	 .says = "Namespace identifier, unique in the subsystem."},
	{"backend", RDT_KEY_CHOICE, ANEW, RDT_AT(T, backend), .choices = rdt_backend_choices,
	 .needed = RDT_ALWAYS, .says = "The storage of the namespace."},
	{"size", RDT_KEY_SIZE, AT_ONCE, RDT_AT(T, size), RDT_NUMBER_AT(T, size_bytes), .min = 512,
	 .max = UINT64_C(1) << 62, .example = "64MiB",
	 .with = RDT_WITH(FILE) | RDT_WITH(MEMORY) | RDT_WITH(NULL),
	 .needed = RDT_WITH(MEMORY) | RDT_WITH(NULL), .unset = "the size of the file",
	 .says = "Size, a multiple of block_size; an existing file must have exactly this size."},
	{"block_size", RDT_KEY_NUMBER, ANEW, RDT_AT(T, block_size), .choices = block_sizes,
	 .unit = "bytes", .def = "512", .says = "Size of a logical block."},
	{"read_only", RDT_KEY_BOOL, AT_ONCE, RDT_AT(T, read_only), .def = "false",
	 .says = "Whether writes are refused."},
	{"uuid", RDT_KEY_TEXT, ANEW, RDT_AT(T, uuid), .wrong = rdt_wrong_uuid,
	 .expected = "a UUID such as f81d4fae-7dec-11d0-a765-00a0c91e6bf6; uuidgen generates one",
	 .unset = "with state_dir made at first use and kept, else derived from NQN and NSID",
	 .example = "6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11", .says = "Namespace UUID."},
	{"nguid", RDT_KEY_TEXT, ANEW, RDT_AT(T, nguid), .wrong = wrong_nguid,
	 .expected = "32 hexadecimal digits, not all zero",
	 .unset = "with state_dir and without uuid the UUID, if the namespace is new; else none",
	 .example = "0123456789abcdef0123456789abcdef",
	 .says = "Namespace Globally Unique Identifier, 32 hexadecimal digits."},
	{"eui64", RDT_KEY_TEXT, ANEW, RDT_AT(T, eui64), .wrong = wrong_eui64,
	 .expected = "16 hexadecimal digits, not all zero", .unset = "none",
	 .example = "0123456789abcdef",
	 .says = "IEEE Extended Unique Identifier, 16 hexadecimal digits."},
	{"ana_group", RDT_KEY_NUMBER, AT_ONCE, RDT_AT(T, ana_group), .min = 1,
	 .max = RDT_ANA_GROUPS, .def = "1", .says = "ANA group; listeners have its states."},
	{"hosts", RDT_KEY_LIST, AT_ONCE, RDT_LIST_AT(T, hosts), .element = &rdt_nqn_element,
	 .unset = "all hosts of the subsystem", .example = RDT_EXAMPLE_HOSTS,
	 .says = "NQNs of the hosts that can see the namespace; an empty list: no host."},
	{"qos", RDT_KEY_MAPPING, AT_ONCE, RDT_AT(T, qos), .pointer = true, .section = &qos_section,
	 .unset = "none", .says = "Limits per second, of all hosts together."},
	{"layers", RDT_KEY_LIST, ANEW, RDT_LIST_AT(T, layers), .max = 256,
	 .element = &layer_element, .unset = "none",
	 .says = "Layers that commands pass before the backend, in this order, for tests of "
		 "hosts."},
	{0},
};
#undef T

const struct rdt_section rdt_ns_section = {{ns_rows, rdt_disk_rows, rdt_nbd_rows, rdt_rbd_rows},
					   sizeof(struct rdt_ns_config),
					   "backend"};
