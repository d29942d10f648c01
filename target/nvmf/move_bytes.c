/* SPDX-License-Identifier: BSD-3-Clause */
#include "move_bytes.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "util/parse.h"
#include "ctrl.h"
#include "qpair.h"
#include "request.h"

/* ---- bytes ---- */

void rdt_move_put(struct rdt_move_bytes *b, const void *p, size_t n)
{
	size_t room = b->room ? b->room : 256;
	uint8_t *more;

	if (b->err || !n)
		return;
	if (n > RDT_MOVE_BYTES_MAX - b->len) {
		b->err = -EFBIG;
		return;
	}
	while (room < b->len + n)
		room *= 2;
	if (room != b->room) {
		more = realloc(b->at, room);
		if (!more) {
			b->err = -ENOMEM;
			return;
		}
		b->at = more;
		b->room = room;
	}
	memcpy(b->at + b->len, p, n);
	b->len += n;
}

int rdt_move_put_into(struct rdt_move_bytes *b, json_t *rec)
{
	int err = b->err;

	if (!err && b->len && json_object_set_new(rec, "bytes", rdt_move_encode(b->at, b->len)))
		err = -ENOMEM;
	free(b->at);
	*b = (struct rdt_move_bytes){0};
	return err;
}

void rdt_move_commands(const struct rdt_qpair *qp,
		       void (*put)(void *arg, const struct nvme_sqe *sqe,
				   const struct rdt_capsule *cap),
		       void *arg)
{
	const struct rdt_ctrl *ctrl = qp->ctrl;
	const struct rdt_capsule *cap;

	for (unsigned int i = 0; qp->admin && i < ctrl->aers_count; i++)
		put(arg, &ctrl->aers[i]->sqe, NULL);
	STAILQ_FOREACH (cap, &qp->capsules, link)
		put(arg, cap->sqe, cap);
}

json_t *rdt_move_encode(const void *p, size_t n)
{
	char *text = malloc((n + 2) / 3 * 4 + 1);
	json_t *out = NULL;
	int len;

	if (!text)
		return NULL;
	len = EVP_EncodeBlock((uint8_t *)text, p, (int)n);
	out = json_stringn(text, (size_t)len);
	free(text);
	return out;
}

int rdt_move_decode(const json_t *text, size_t max, uint8_t **out, size_t *len)
{
	size_t n = json_string_length(text), pad = 0;
	const char *s = json_string_value(text);
	int got;

	if (!s || !n || n % 4 || n / 4 > (max + 2) / 3)
		return -EPROTO;
	while (pad < 2 && s[n - 1 - pad] == '=')
		pad++;
	*out = malloc(n / 4 * 3);
	if (!*out)
		return -ENOMEM;
	got = EVP_DecodeBlock(*out, (const uint8_t *)s, (int)n);
	if (got < 0 || (size_t)got != n / 4 * 3 || (size_t)got - pad > max) {
		free(*out);
		*out = NULL;
		return -EPROTO;
	}
	*len = (size_t)got - pad;
	return 0;
}

/* ---- fields ---- */

bool rdt_move_is(const json_t *rec, const char *kind)
{
	const char *text = json_string_value(json_object_get(rec, "kind"));

	return text && strcmp(text, kind) == 0;
}

bool rdt_move_uint(const json_t *rec, const char *name, uint64_t min, uint64_t max, uint64_t *out)
{
	const json_t *v = json_object_get(rec, name);
	json_int_t n = json_integer_value(v);

	if (!json_is_integer(v) || n < 0 || (uint64_t)n < min || (uint64_t)n > max)
		return false;
	*out = (uint64_t)n;
	return true;
}

bool rdt_move_bool(const json_t *rec, const char *name, bool *out)
{
	const json_t *v = json_object_get(rec, name);

	*out = json_is_true(v);
	return json_is_boolean(v);
}

bool rdt_move_text(const json_t *rec, const char *name, size_t max, const char **out)
{
	const json_t *v = json_object_get(rec, name);

	*out = json_string_value(v);
	return *out && json_string_length(v) <= max && strlen(*out) == json_string_length(v);
}

bool rdt_move_hex(const json_t *rec, const char *name, uint8_t *out, size_t len)
{
	const char *s;

	return rdt_move_text(rec, name, 2 * len, &s) && rd_parse_hex(s, out, len) == 0;
}

json_t *rdt_move_hex_text(const uint8_t *p, size_t n)
{
	char text[2 * RDT_MOVE_HEX_MAX + 1];

	assert(n <= RDT_MOVE_HEX_MAX);
	rd_format_hex(p, n, text);
	return json_string(text);
}
