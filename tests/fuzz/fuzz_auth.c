/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of DH-HMAC-CHAP as a host or a controller sends them, and the text of secrets. The first
 * byte of the input selects the parser, the second one the message that it must fit.
 */
#include <string.h>

#include "fuzz.h"
#include "nvmf/auth_key.h"
#include "nvmf/auth_msg.h"

#define T_ID 0x1234

enum {
	ROLE_NEGOTIATE,
	ROLE_REPLY,
	ROLE_SUCCESS2,
	ROLE_CHALLENGE,
	ROLE_SUCCESS1,
	ROLE_FAILURE,
	ROLE_KEY
};

/* A value in a message is within the message, and has the length of its group. */
static void check_dhv(const struct nvmf_auth_dhv *dhv, unsigned int group, const uint8_t *msg,
		      size_t len)
{
	FUZZ_CHECK((int)dhv->len == nvmf_auth_group_len(group));
	FUZZ_CHECK(dhv->value >= msg && dhv->value + dhv->len <= msg + len);
}

static void fuzz_negotiate(const uint8_t *msg, size_t len)
{
	struct nvmf_auth_negotiate n, again;
	uint8_t buf[NVMF_AUTH_MSG_MAX];

	if (nvmf_auth_parse_negotiate(msg, len, &n))
		return;
	FUZZ_CHECK(n.n_hashes && n.n_hashes <= NVMF_AUTH_IDS_MAX);
	FUZZ_CHECK(n.n_groups && n.n_groups <= NVMF_AUTH_IDS_MAX);
	FUZZ_CHECK(nvmf_auth_parse_negotiate(buf, nvmf_auth_build_negotiate(&n, buf), &again) ==
		   NVMF_AUTH_OK);
	FUZZ_CHECK(memcmp(&n, &again, sizeof(n)) == 0);
}

/* @how: the hash in bits 1:0, the group in bits 4:2. */
static void fuzz_reply(uint8_t how, const uint8_t *msg, size_t len)
{
	struct nvmf_auth_challenge sent = {.t_id = T_ID,
					   .hash = (uint8_t)(how % 3 + 1),
					   .group = (uint8_t)((how >> 2) % 6),
					   .seqnum = 1};
	uint8_t buf[NVMF_AUTH_MSG_MAX];
	struct nvmf_auth_reply r;

	if (nvmf_auth_parse_reply(msg, len, &sent, &r))
		return;
	check_dhv(&r.dhv, sent.group, msg, len);
	FUZZ_CHECK(r.dhv.value + r.dhv.len == msg + len);
	FUZZ_CHECK(r.seqnum || !r.cvalid);
	FUZZ_CHECK(nvmf_auth_build_reply(&r, buf) == len);
}

static void fuzz_challenge(uint8_t how, const uint8_t *msg, size_t len)
{
	struct nvmf_auth_negotiate offered = {.t_id = T_ID,
					      .n_hashes = 1,
					      .n_groups = 2,
					      .hashes = {(uint8_t)(how % 3 + 1)},
					      .groups = {(uint8_t)((how >> 2) % 6), 200}};
	uint8_t buf[NVMF_AUTH_MSG_MAX];
	struct nvmf_auth_challenge c;

	if (nvmf_auth_parse_challenge(msg, len, &offered, &c))
		return;
	FUZZ_CHECK(c.hash == offered.hashes[0] && c.group == offered.groups[0] && c.seqnum);
	check_dhv(&c.dhv, c.group, msg, len);
	FUZZ_CHECK(nvmf_auth_build_challenge(&c, buf) <= len);
}

static void fuzz_success1(uint8_t how, const uint8_t *msg, size_t len)
{
	struct nvmf_auth_reply sent = {
		.t_id = T_ID, .hash = (uint8_t)(how % 3 + 1), .cvalid = how >> 2 & 1};
	uint8_t buf[NVMF_AUTH_MSG_MAX];
	struct nvmf_auth_success1 s;

	if (nvmf_auth_parse_success1(msg, len, &sent, &s))
		return;
	FUZZ_CHECK(s.rvalid || !sent.cvalid);
	FUZZ_CHECK(nvmf_auth_build_success1(&s, buf) <= len);
}

static void fuzz_others(uint8_t how, const uint8_t *msg, size_t len)
{
	enum nvmf_auth_msg want = how & 1 ? NVMF_AUTH_MSG_FAILURE1 : NVMF_AUTH_MSG_FAILURE2;
	struct nvmf_auth_failure f;
	struct nvmf_auth_head h;

	if (!nvmf_auth_parse_failure(msg, len, want, T_ID, &f)) {
		FUZZ_CHECK(!nvmf_auth_parse_head(msg, len, &h));
		FUZZ_CHECK(h.msg == want && h.t_id == T_ID);
		FUZZ_CHECK(nvmf_auth_expl_text(f.explanation)[0]);
	}
}

/* A secret has exactly one text that is accepted. */
static void fuzz_key(const uint8_t *bytes, size_t len)
{
	static const struct nvmf_auth_key zero;
	struct nvmf_auth_key key;
	char again[NVMF_AUTH_KEY_TEXT], *text = malloc(len + 1);
	const char *why;

	FUZZ_CHECK(text);
	memcpy(text, bytes, len);
	text[len] = '\0';
	why = nvmf_auth_key_parse(text, &key);
	if (why) {
		FUZZ_CHECK(why[0] && memcmp(&key, &zero, sizeof(key)) == 0);
	} else {
		FUZZ_CHECK(nvmf_auth_key_format(&key, again) == 0);
		FUZZ_CHECK(strcmp(text, again) == 0);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	switch (data[0] % 7) {
	case ROLE_NEGOTIATE:
		fuzz_negotiate(data + 2, size - 2);
		break;
	case ROLE_REPLY:
		fuzz_reply(data[1], data + 2, size - 2);
		break;
	case ROLE_SUCCESS2:
		FUZZ_CHECK(nvmf_auth_parse_success2(data + 2, size - 2, T_ID) || size == 2 + 16);
		break;
	case ROLE_CHALLENGE:
		fuzz_challenge(data[1], data + 2, size - 2);
		break;
	case ROLE_SUCCESS1:
		fuzz_success1(data[1], data + 2, size - 2);
		break;
	case ROLE_FAILURE:
		fuzz_others(data[1], data + 2, size - 2);
		break;
	case ROLE_KEY:
		fuzz_key(data + 2, size - 2);
		break;
	}
	return 0;
}
