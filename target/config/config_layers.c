/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the layers of a namespace. */
#include "config_priv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/parse.h"

#define DELAY_MAX_NS (UINT64_C(3600) * 1000000000)
#define BLOCKS_MAX   (UINT64_C(1) << 53)

static const struct {
	const char *name;
	int value;
} errnos[] = {
	{"EIO", EIO},
	{"ENOSPC", ENOSPC},
	{"EDQUOT", EDQUOT},
	{"EROFS", EROFS},
	{"EACCES", EACCES},
	{"EPERM", EPERM},
	{"EAGAIN", EAGAIN},
	{"ENOMEM", ENOMEM},
	{"ENODEV", ENODEV},
	{"ENXIO", ENXIO},
	{"EOPNOTSUPP", EOPNOTSUPP},
	{"EREMOTEIO", EREMOTEIO},
	{"EILSEQ", EILSEQ},
	{"EBADMSG", EBADMSG},
	{"ENODATA", ENODATA},
	{"ETIMEDOUT", ETIMEDOUT},
	{"ENOLINK", ENOLINK},
};

static void wrong_layer_key(struct rdt_config_load *load, const struct rdt_key *layer,
			    const char *name, const char *type)
{
	struct rdt_key key = rdt_config_child(load, layer, name);

	if (key.node)
		rdt_config_problem(load, &key, "is valid only with type %s; remove it", type);
}

/* ---- delay ---- */

static void check_delay(struct rdt_config_load *load, const struct rdt_key *key,
			struct rdt_layer_config *l)
{
	static const char *const error_keys[] = {"ops",     "rate",        "skip",
						 "count",   "error",       "status",
						 "trigger", "first_block", "blocks"};
	const struct {
		const char *name;
		const char *text;
		enum rdt_bio_op op;
	} rows[] = {
		{"read", l->read, RDT_BIO_READ},
		{"write", l->write, RDT_BIO_WRITE},
		{"flush", l->flush, RDT_BIO_FLUSH},
		{"write_zeroes", l->write_zeroes, RDT_BIO_WRITE_ZEROES},
		{"deallocate", l->deallocate, RDT_BIO_DEALLOCATE},
	};
	bool any = false;

	for (size_t i = 0; i < sizeof(error_keys) / sizeof(error_keys[0]); i++)
		wrong_layer_key(load, key, error_keys[i], "error");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rdt_key at = rdt_config_child(load, key, rows[i].name);

		if (!rows[i].text)
			continue;
		any = true;
		if (rd_parse_duration(rows[i].text, &l->delay_ns[rows[i].op]) ||
		    l->delay_ns[rows[i].op] > DELAY_MAX_NS)
			rdt_config_problem(
				load, &at,
				"found \"%s\", expected a duration such as 200us, 5ms or "
				"2s, at most 1h",
				rows[i].text);
	}
	if (!any)
		rdt_config_problem(load, key,
				   "delays nothing, expected at least one of read, write, flush, "
				   "write_zeroes, deallocate");
}

/* ---- error ---- */

static bool parse_percent(const char *text, double *percent)
{
	char *end;

	if (strspn(text, "0123456789.") + 1 != strlen(text))
		return false;
	*percent = strtod(text, &end);
	return end != text && strcmp(end, "%") == 0 && *percent > 0 && *percent <= 100;
}

static void check_rate(struct rdt_config_load *load, const struct rdt_key *key,
		       struct rdt_layer_config *l)
{
	struct rdt_key at = rdt_config_child(load, key, "rate");
	double percent = 100;

	if (l->rate && !parse_percent(l->rate, &percent))
		rdt_config_problem(
			load, &at,
			"found \"%s\", expected a percentage such as 0.1%%, 5%% or 100%%", l->rate);
	l->rate_of_2_32 = (uint64_t)ceil(percent / 100 * 4294967296.0);
}

static void check_errno(struct rdt_config_load *load, const struct rdt_key *key,
			struct rdt_layer_config *l)
{
	struct rdt_key at = rdt_config_child(load, key, "error");

	l->errno_value = EIO;
	if (!l->error)
		return;
	for (size_t i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++) {
		if (strcmp(l->error, errnos[i].name) == 0) {
			l->errno_value = errnos[i].value;
			return;
		}
	}
	rdt_config_problem(load, &at,
			   "found \"%.40s\", expected the name of an error such as EIO, ENOSPC, "
			   "EROFS, EAGAIN, ENODEV or ETIMEDOUT",
			   l->error);
}

static void check_place(struct rdt_config_load *load, const struct rdt_key *key,
			const struct rdt_layer_config *l)
{
	struct rdt_key first = rdt_config_child(load, key, "first_block");
	struct rdt_key blocks = rdt_config_child(load, key, "blocks");

	if (first.node && !blocks.node)
		rdt_config_problem(load, &first, "needs \"blocks\", the number of blocks");
	if (l->first_block > BLOCKS_MAX)
		rdt_config_problem(load, &first, "found %llu, expected at most 2^53",
				   (unsigned long long)l->first_block);
	if (blocks.node && (l->blocks == 0 || l->blocks > BLOCKS_MAX))
		rdt_config_problem(load, &blocks, "found %llu, expected 1 to 2^53",
				   (unsigned long long)l->blocks);
}

static void check_error(struct rdt_config_load *load, const struct rdt_key *key,
			struct rdt_layer_config *l)
{
	static const char *const delay_keys[] = {"read", "write", "flush", "write_zeroes",
						 "deallocate"};
	struct rdt_key status = rdt_config_child(load, key, "status");
	struct rdt_key error = rdt_config_child(load, key, "error");

	for (size_t i = 0; i < sizeof(delay_keys) / sizeof(delay_keys[0]); i++)
		wrong_layer_key(load, key, delay_keys[i], "delay");
	for (uint32_t i = 0; i < l->ops_count; i++)
		l->ops_mask |= 1u << l->ops[i];
	if (!l->ops_count)
		l->ops_mask = (1u << RDT_BIO_OPS) - 1;
	check_rate(load, key, l);
	check_errno(load, key, l);
	check_place(load, key, l);
	if (status.node && (l->status == 0 || l->status > 0x7ff))
		rdt_config_problem(load, &status,
				   "found %#x, expected an NVMe status, type << 8 | code, 0x1 to "
				   "0x7ff",
				   l->status);
	if (status.node && error.node)
		rdt_config_problem(load, &status, "is given together with error; remove one");
}

void rdt_config_check_layers(struct rdt_config_load *load, const struct rdt_key *ns_key,
			     struct rdt_ns_config *ns)
{
	struct rdt_key list = rdt_config_child(load, ns_key, "layers");

	for (uint32_t i = 0; i < ns->layers_count; i++) {
		struct rdt_key key = rdt_config_item(load, &list, i);

		if (ns->layers[i].type == RDT_LAYER_DELAY)
			check_delay(load, &key, &ns->layers[i]);
		else
			check_error(load, &key, &ns->layers[i]);
	}
}
