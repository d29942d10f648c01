/* SPDX-License-Identifier: BSD-3-Clause */
/* The reservation state of a namespace as JSON. Keys are strings, because JSON has no unsigned
 * 64-bit numbers. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "util/parse.h"
#include "reservation.h"
#include "state.h"

#define VERSION 1

static bool parse_key(const char *text, uint64_t *key)
{
	char *end;

	if (strncmp(text, "0x", 2) || strspn(text + 2, "0123456789abcdef") != strlen(text + 2) ||
	    strlen(text) < 3 || strlen(text) > 18)
		return false;
	*key = strtoull(text, &end, 16);
	return *key != 0;
}

static json_t *registrant_to_json(const struct rdt_registrant *r)
{
	char host[2 * RDT_RESV_HOST + 1], key[24];

	rd_format_hex(r->host, RDT_RESV_HOST, host);
	snprintf(key, sizeof(key), "0x%" PRIx64, r->key);
	return json_pack("{s:s, s:s, s:b}", "host", host, "key", key, "holder", r->holder);
}

int rdt_resv_to_json(const struct rdt_resv_state *s, const uint8_t uuid[16], char **text)
{
	json_t *list = json_array();
	char id[33];
	json_t *root;

	*text = NULL;
	for (unsigned int i = 0; list && i < s->count; i++)
		if (json_array_append_new(list, registrant_to_json(&s->reg[i]))) {
			json_decref(list);
			return -ENOMEM;
		}
	rd_format_hex(uuid, 16, id);
	/* "o" consumes the reference to @list, also on failure. */
	root = json_pack("{s:i, s:s, s:I, s:i, s:b, s:o}", "version", VERSION, "namespace", id,
			 "generation", (json_int_t)s->gen, "type", (int)s->rtype, "persist",
			 s->ptpl, "registrants", list);
	if (!root)
		return -ENOMEM;
	*text = json_dumps(root, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	json_decref(root);
	return *text ? 0 : -ENOMEM;
}

static int read_registrants(json_t *list, struct rdt_resv_state *s, char *why, size_t size)
{
	size_t n = json_array_size(list);

	if (n > RDT_RESV_REGISTRANTS)
		return rdt_state_bad(why, size, "%zu registrants, expected at most %u", n,
				     RDT_RESV_REGISTRANTS);
	for (size_t i = 0; i < n; i++) {
		struct rdt_registrant *r = &s->reg[i];
		const char *host, *key;
		int holder;

		if (json_unpack(json_array_get(list, i), "{s:s, s:s, s:b}", "host", &host, "key",
				&key, "holder", &holder))
			return rdt_state_bad(
				why, size,
				"registrant %zu lacks one of \"host\", \"key\" and \"holder\"", i);
		if (rd_parse_hex(host, r->host, RDT_RESV_HOST))
			return rdt_state_bad(
				why, size,
				"registrant %zu: host \"%.40s\", expected 32 hexadecimal digits", i,
				host);
		if (rdt_resv_find(s, r->host))
			return rdt_state_bad(why, size, "host %.40s is registered twice", host);
		if (!parse_key(key, &r->key))
			return rdt_state_bad(
				why, size,
				"registrant %zu: key \"%.40s\", expected a number other than 0 "
				"such as 0x1234",
				i, key);
		r->holder = holder;
		s->count++;
	}
	return 0;
}

/* A state that no sequence of commands can produce was not written by rdtarget. */
static int check_holders(const struct rdt_resv_state *s, char *why, size_t size)
{
	bool all = s->rtype >= NVME_RESERVATION_RTYPE_WEAR;
	unsigned int holders = 0;

	for (unsigned int i = 0; i < s->count; i++)
		holders += s->reg[i].holder;
	if (s->rtype && !s->count)
		return rdt_state_bad(why, size, "a reservation of type %u without registrants",
				     s->rtype);
	if (holders != (s->rtype && !all))
		return rdt_state_bad(why, size, "%u holders of a reservation of type %u", holders,
				     s->rtype);
	return 0;
}

static int from_root(json_t *root, const uint8_t uuid[16], struct rdt_resv_state *s, char *why,
		     size_t size)
{
	int version, rtype, persist, rc;
	json_int_t gen;
	const char *id;
	uint8_t have[16];
	json_t *list;
	json_error_t err;

	if (json_unpack_ex(root, &err, 0, "{s:i, s:s, s:I, s:i, s:b, s:o}", "version", &version,
			   "namespace", &id, "generation", &gen, "type", &rtype, "persist",
			   &persist, "registrants", &list))
		return rdt_state_bad(why, size, "%s", err.text);
	if (version != VERSION)
		return rdt_state_bad(why, size, "version %d, expected %d", version, VERSION);
	if (rd_parse_hex(id, have, sizeof(have)) || memcmp(have, uuid, sizeof(have)) != 0)
		return rdt_state_bad(why, size, "it belongs to namespace \"%.40s\"", id);
	if (gen < 0 || gen > UINT32_MAX)
		return rdt_state_bad(why, size, "generation %lld, expected 0 to 4294967295",
				     (long long)gen);
	if (rtype && !rdt_resv_type_valid((unsigned int)rtype))
		return rdt_state_bad(why, size, "type %d, expected 0 to 6", rtype);
	if (!json_is_array(list))
		return rdt_state_bad(why, size, "\"registrants\" is not a list");
	s->gen = (uint32_t)gen;
	s->rtype = (uint8_t)rtype;
	s->ptpl = persist;
	rc = read_registrants(list, s, why, size);
	return rc ? rc : check_holders(s, why, size);
}

int rdt_resv_from_json(const char *text, size_t len, const uint8_t uuid[16],
		       struct rdt_resv_state *s, char *why, size_t why_size)
{
	json_error_t err;
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &err);
	int rc;

	memset(s, 0, sizeof(*s));
	if (!root)
		return rdt_state_bad(why, why_size, "line %d: %s", err.line, err.text);
	rc = from_root(root, uuid, s, why, why_size);
	json_decref(root);
	if (rc)
		memset(s, 0, sizeof(*s));
	return rc;
}
