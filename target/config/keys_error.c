/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of a layer of type error. */
#include "config_priv.h"
#include "keys.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define T    struct rdt_layer_config
#define ANEW RDT_WHEN_ANEW
#define WITH .with = 1u << RDT_LAYER_ERROR

#define E(name)             \
	{                   \
#name, name \
	}
static const struct rdt_choice errnos[] = {
	E(EIO),    E(ENOSPC),  E(EDQUOT),  E(EROFS),     E(EACCES),     E(EPERM),
	E(EAGAIN), E(ENOMEM),  E(ENODEV),  E(ENXIO),     E(EOPNOTSUPP), E(EREMOTEIO),
	E(EILSEQ), E(EBADMSG), E(ENODATA), E(ETIMEDOUT), E(ENOLINK),    {NULL, 0}};

static const struct rdt_choice ops[] = {{"read", RDT_BIO_READ},
					{"write", RDT_BIO_WRITE},
					{"flush", RDT_BIO_FLUSH},
					{"write_zeroes", RDT_BIO_WRITE_ZEROES},
					{"deallocate", RDT_BIO_DEALLOCATE},
					{NULL, 0}};

static const struct rdt_row op_element = {
	.type = RDT_KEY_CHOICE, .width = sizeof(int), .choices = ops};

static double percent_of(const char *text)
{
	char *end;
	double percent = strtod(text, &end);

	return strspn(text, "0123456789.") + 1 == strlen(text) && end != text &&
			       strcmp(end, "%") == 0
		       ? percent
		       : 0;
}

static const char *wrong_rate(const char *text)
{
	double percent = percent_of(text);

	return percent > 0 && percent <= 100 ? NULL : "";
}

const struct rdt_row rdt_error_rows[] = {
	{"ops", RDT_KEY_LIST, ANEW, RDT_LIST_AT(T, ops), WITH, .min = 1, .max = RDT_BIO_OPS,
	 .element = &op_element, .unset = "all", .example = "[read, write]",
	 .says = "Operations that fail: read, write, flush, write_zeroes, deallocate; with flush, "
		 "hosts also send Flush to storage without a cache."},
	{"first_block", RDT_KEY_NUMBER, ANEW, RDT_AT(T, first_block), WITH,
	 .max = UINT64_C(1) << 53, .unset = "all blocks", .example = "1000",
	 .says = "First of the blocks that fail; needs blocks."},
	{"blocks", RDT_KEY_NUMBER, ANEW, RDT_AT(T, blocks), WITH, .min = 1,
	 .max = UINT64_C(1) << 53, .unset = "all blocks", .example = "8",
	 .says = "Number of blocks: only commands that touch one of them fail."},
	{"rate", RDT_KEY_TEXT, ANEW, RDT_AT(T, rate), WITH, .wrong = wrong_rate,
	 .expected = "a percentage such as 0.1%, 5% or 100%", .unset = "100%", .example = "0.1%",
	 .says = "Fraction of the commands that fail, such as 0.1%."},
	{"skip", RDT_KEY_NUMBER, ANEW, RDT_AT(T, skip), WITH, .max = UINT32_MAX, .def = "0",
	 .says = "Number of commands that succeed first."},
	{"count", RDT_KEY_NUMBER, ANEW, RDT_AT(T, count), WITH, .max = UINT32_MAX, .def = "0",
	 .says = "Number of commands that fail after those; 0: no limit."},
	{"error", RDT_KEY_CHOICE, ANEW, RDT_AT(T, errno_value), WITH, .choices = errnos,
	 .def = "EIO", .says = "Name of the system error."},
	{"status", RDT_KEY_NUMBER, ANEW, RDT_AT(T, status), WITH, .min = 1, .max = 0x7ff,
	 .unset = "derived from error", .example = "0x281",
	 .says = "Instead of error: the NVMe status, (type << 8) | code."},
	{"trigger", RDT_KEY_TEXT, ANEW, RDT_AT(T, trigger), WITH, .unset = "they always fail",
	 .example = "/run/rdtarget-fail", .says = "Commands fail only while this file exists."},
	{0},
};

void rdt_config_check_error(struct rdt_config_load *load, const struct rdt_key *key,
			    struct rdt_layer_config *l)
{
	struct rdt_key first = rdt_config_child(load, key, "first_block");
	struct rdt_key status = rdt_config_child(load, key, "status");

	for (uint32_t i = 0; i < l->ops_count; i++)
		l->ops_mask |= 1u << l->ops[i];
	if (!l->ops_count)
		l->ops_mask = (1u << RDT_BIO_OPS) - 1;
	l->rate_of_2_32 =
		(uint64_t)ceil((l->rate ? percent_of(l->rate) : 100) / 100 * 4294967296.0);
	if (first.node && !rdt_config_child(load, key, "blocks").node)
		rdt_config_problem(load, &first, "needs \"blocks\", the number of blocks");
	if (status.node && rdt_config_child(load, key, "error").node)
		rdt_config_problem(load, &status, "is given together with error; remove one");
}
