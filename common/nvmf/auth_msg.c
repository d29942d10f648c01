/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvmf/auth_msg.h"

#include <endian.h>
#include <string.h>

#define AUTHID_DHCHAP  1 /* of a protocol descriptor */
#define DESCS_MAX      ((NVMF_AUTH_TRANSFER - sizeof(struct negotiate)) / sizeof(struct descriptor))
#define REASON_FAILURE 1

struct head {
	__u8 type;
	__u8 id;
	__le16 rsvd2;
	__le16 t_id;
} __attribute__((packed));

struct negotiate {
	struct head head;
	__u8 sc_c;
	__u8 napd; /* number of protocol descriptors after this */
} __attribute__((packed));
_Static_assert(sizeof(struct negotiate) == 8, "AUTH_Negotiate");

struct descriptor {
	__u8 authid;
	__u8 rsvd1;
	__u8 halen;
	__u8 dhlen;
	__u8 hashes[NVMF_AUTH_IDS_MAX];
	__u8 groups[NVMF_AUTH_IDS_MAX];
} __attribute__((packed));
_Static_assert(sizeof(struct descriptor) == 64, "protocol descriptor");

struct challenge {
	struct head head;
	__u8 hl;
	__u8 rsvd7;
	__u8 hash;
	__u8 group;
	__le16 dhvlen;
	__le32 seqnum;
} __attribute__((packed));
_Static_assert(sizeof(struct challenge) == 16, "DH-HMAC-CHAP_Challenge");

struct reply {
	struct head head;
	__u8 hl;
	__u8 rsvd7;
	__u8 cvalid;
	__u8 rsvd9;
	__le16 dhvlen;
	__le32 seqnum;
} __attribute__((packed));
_Static_assert(sizeof(struct reply) == 16, "DH-HMAC-CHAP_Reply");

struct success1 {
	struct head head;
	__u8 hl;
	__u8 rsvd7;
	__u8 rvalid;
	__u8 rsvd9[7];
} __attribute__((packed));
_Static_assert(sizeof(struct success1) == 16, "DH-HMAC-CHAP_Success1");

struct success2 {
	struct head head;
	__u8 rsvd6[10];
} __attribute__((packed));
_Static_assert(sizeof(struct success2) == 16, "DH-HMAC-CHAP_Success2");

struct failure {
	struct head head;
	__u8 reason;
	__u8 explanation;
} __attribute__((packed));
_Static_assert(sizeof(struct failure) == 8, "AUTH_Failure");

enum nvmf_auth_expl nvmf_auth_parse_head(const uint8_t *buf, size_t len, struct nvmf_auth_head *out)
{
	struct head h;

	if (len < sizeof(struct failure))
		return NVMF_AUTH_INCORRECT_PAYLOAD;
	memcpy(&h, buf, sizeof(h));
	out->msg = (unsigned int)h.type << 8 | h.id;
	out->t_id = le16toh(h.t_id);
	return NVMF_AUTH_OK;
}

/* The message is @msg of transaction @t_id, and contains its fixed part of @size bytes. */
static enum nvmf_auth_expl expect(const uint8_t *buf, size_t len, enum nvmf_auth_msg msg,
				  uint16_t t_id, size_t size)
{
	struct nvmf_auth_head h;
	enum nvmf_auth_expl why = nvmf_auth_parse_head(buf, len, &h);

	if (why)
		return why;
	if (h.msg != msg)
		return NVMF_AUTH_INCORRECT_MESSAGE;
	return h.t_id == t_id && len >= size ? NVMF_AUTH_OK : NVMF_AUTH_INCORRECT_PAYLOAD;
}

static bool offers(const uint8_t *ids, unsigned int n, uint8_t id)
{
	return memchr(ids, id, n) != NULL;
}

static enum nvmf_auth_expl take_descriptor(const struct descriptor *d,
					   struct nvmf_auth_negotiate *out)
{
	if (d->halen == 0 || d->halen > NVMF_AUTH_IDS_MAX || d->dhlen == 0 ||
	    d->dhlen > NVMF_AUTH_IDS_MAX)
		return NVMF_AUTH_INCORRECT_PAYLOAD;
	out->n_hashes = d->halen;
	out->n_groups = d->dhlen;
	memcpy(out->hashes, d->hashes, d->halen);
	memcpy(out->groups, d->groups, d->dhlen);
	return NVMF_AUTH_OK;
}

enum nvmf_auth_expl nvmf_auth_parse_negotiate(const uint8_t *buf, size_t len,
					      struct nvmf_auth_negotiate *out)
{
	struct nvmf_auth_head h;
	enum nvmf_auth_expl why = nvmf_auth_parse_head(buf, len, &h);
	struct descriptor d;
	struct negotiate n;

	if (why)
		return why;
	if (h.msg != NVMF_AUTH_MSG_NEGOTIATE)
		return NVMF_AUTH_INCORRECT_MESSAGE;
	memcpy(&n, buf, sizeof(n));
	if (n.napd == 0 || n.napd > DESCS_MAX || len != sizeof(n) + n.napd * sizeof(d))
		return NVMF_AUTH_INCORRECT_PAYLOAD;
	memset(out, 0, sizeof(*out));
	out->t_id = h.t_id;
	out->sc_c = n.sc_c;
	for (unsigned int i = 0; i < n.napd; i++) {
		memcpy(&d, buf + sizeof(n) + i * sizeof(d), sizeof(d));
		if (d.authid == AUTHID_DHCHAP)
			return take_descriptor(&d, out);
	}
	return NVMF_AUTH_PROTOCOL_NOT_USABLE;
}

enum nvmf_auth_expl nvmf_auth_parse_challenge(const uint8_t *buf, size_t len,
					      const struct nvmf_auth_negotiate *offered,
					      struct nvmf_auth_challenge *out)
{
	enum nvmf_auth_expl why =
		expect(buf, len, NVMF_AUTH_MSG_CHALLENGE, offered->t_id, sizeof(struct challenge));
	struct challenge c;
	size_t hl, dhvlen;

	if (why)
		return why;
	memcpy(&c, buf, sizeof(c));
	hl = nvmf_auth_hash_len(c.hash);
	if (!hl || !offers(offered->hashes, offered->n_hashes, c.hash))
		return NVMF_AUTH_HASH_NOT_USABLE;
	if (nvmf_auth_group_len(c.group) < 0 ||
	    !offers(offered->groups, offered->n_groups, c.group))
		return NVMF_AUTH_GROUP_NOT_USABLE;
	dhvlen = (size_t)nvmf_auth_group_len(c.group);
	if (c.hl != hl || le16toh(c.dhvlen) != dhvlen || c.seqnum == 0 ||
	    len < sizeof(c) + hl + dhvlen)
		return NVMF_AUTH_INCORRECT_PAYLOAD;
	memset(out, 0, sizeof(*out));
	out->t_id = offered->t_id;
	out->hash = c.hash;
	out->group = c.group;
	out->seqnum = le32toh(c.seqnum);
	memcpy(out->cval, buf + sizeof(c), hl);
	out->dhv = (struct nvmf_auth_dhv){buf + sizeof(c) + hl, (uint16_t)dhvlen};
	return NVMF_AUTH_OK;
}

enum nvmf_auth_expl nvmf_auth_parse_reply(const uint8_t *buf, size_t len,
					  const struct nvmf_auth_challenge *sent,
					  struct nvmf_auth_reply *out)
{
	enum nvmf_auth_expl why =
		expect(buf, len, NVMF_AUTH_MSG_REPLY, sent->t_id, sizeof(struct reply));
	size_t hl = nvmf_auth_hash_len(sent->hash);
	size_t dhvlen = (size_t)nvmf_auth_group_len(sent->group);
	struct reply r;

	if (why)
		return why;
	memcpy(&r, buf, sizeof(r));
	if (r.hl != hl || le16toh(r.dhvlen) != dhvlen || len != sizeof(r) + 2 * hl + dhvlen ||
	    r.cvalid > 1)
		return NVMF_AUTH_INCORRECT_PAYLOAD;
	/* Hosts differ in what they send as sequence number without a challenge of their own. */
	if (r.cvalid && r.seqnum == 0)
		return NVMF_AUTH_INCORRECT_PAYLOAD;
	memset(out, 0, sizeof(*out));
	out->t_id = sent->t_id;
	out->hash = sent->hash;
	out->cvalid = r.cvalid;
	out->seqnum = le32toh(r.seqnum);
	memcpy(out->rval, buf + sizeof(r), hl);
	memcpy(out->cval, buf + sizeof(r) + hl, hl);
	out->dhv = (struct nvmf_auth_dhv){buf + sizeof(r) + 2 * hl, (uint16_t)dhvlen};
	return NVMF_AUTH_OK;
}

enum nvmf_auth_expl nvmf_auth_parse_success1(const uint8_t *buf, size_t len,
					     const struct nvmf_auth_reply *sent,
					     struct nvmf_auth_success1 *out)
{
	enum nvmf_auth_expl why =
		expect(buf, len, NVMF_AUTH_MSG_SUCCESS1, sent->t_id, sizeof(struct success1));
	size_t hl = nvmf_auth_hash_len(sent->hash);
	struct success1 s;

	if (why)
		return why;
	memcpy(&s, buf, sizeof(s));
	if (s.rvalid > 1 || (s.rvalid && (s.hl != hl || len < sizeof(s) + hl)))
		return NVMF_AUTH_INCORRECT_PAYLOAD;
	if (sent->cvalid && !s.rvalid)
		return NVMF_AUTH_FAILED;
	memset(out, 0, sizeof(*out));
	out->t_id = sent->t_id;
	out->hash = sent->hash;
	out->rvalid = s.rvalid;
	if (s.rvalid)
		memcpy(out->rval, buf + sizeof(s), hl);
	return NVMF_AUTH_OK;
}

enum nvmf_auth_expl nvmf_auth_parse_success2(const uint8_t *buf, size_t len, uint16_t t_id)
{
	enum nvmf_auth_expl why =
		expect(buf, len, NVMF_AUTH_MSG_SUCCESS2, t_id, sizeof(struct success2));

	if (why)
		return why;
	return len == sizeof(struct success2) ? NVMF_AUTH_OK : NVMF_AUTH_INCORRECT_PAYLOAD;
}

enum nvmf_auth_expl nvmf_auth_parse_failure(const uint8_t *buf, size_t len, enum nvmf_auth_msg msg,
					    uint16_t t_id, struct nvmf_auth_failure *out)
{
	enum nvmf_auth_expl why = expect(buf, len, msg, t_id, sizeof(struct failure));
	struct failure f;

	if (why)
		return why;
	memcpy(&f, buf, sizeof(f));
	out->reason = f.reason;
	out->explanation = f.explanation;
	return NVMF_AUTH_OK;
}

static struct head head_of(enum nvmf_auth_msg msg, uint16_t t_id)
{
	return (struct head){.type = (__u8)(msg >> 8), .id = (__u8)msg, .t_id = htole16(t_id)};
}

/* Appends @len bytes to the message of *@size bytes. */
static void append(uint8_t *buf, size_t *size, const void *bytes, size_t len)
{
	if (len)
		memcpy(buf + *size, bytes, len);
	*size += len;
}

size_t nvmf_auth_build_negotiate(const struct nvmf_auth_negotiate *m, uint8_t *buf)
{
	struct negotiate n = {
		.head = head_of(NVMF_AUTH_MSG_NEGOTIATE, m->t_id), .sc_c = m->sc_c, .napd = 1};
	struct descriptor d = {.authid = AUTHID_DHCHAP, .halen = m->n_hashes, .dhlen = m->n_groups};
	size_t size = 0;

	memcpy(d.hashes, m->hashes, m->n_hashes);
	memcpy(d.groups, m->groups, m->n_groups);
	append(buf, &size, &n, sizeof(n));
	append(buf, &size, &d, sizeof(d));
	return size;
}

size_t nvmf_auth_build_challenge(const struct nvmf_auth_challenge *m, uint8_t *buf)
{
	size_t hl = nvmf_auth_hash_len(m->hash), size = 0;
	struct challenge c = {.head = head_of(NVMF_AUTH_MSG_CHALLENGE, m->t_id),
			      .hl = (__u8)hl,
			      .hash = m->hash,
			      .group = m->group,
			      .dhvlen = htole16(m->dhv.len),
			      .seqnum = htole32(m->seqnum)};

	append(buf, &size, &c, sizeof(c));
	append(buf, &size, m->cval, hl);
	append(buf, &size, m->dhv.value, m->dhv.len);
	return size;
}

size_t nvmf_auth_build_reply(const struct nvmf_auth_reply *m, uint8_t *buf)
{
	size_t hl = nvmf_auth_hash_len(m->hash), size = 0;
	struct reply r = {.head = head_of(NVMF_AUTH_MSG_REPLY, m->t_id),
			  .hl = (__u8)hl,
			  .cvalid = m->cvalid,
			  .dhvlen = htole16(m->dhv.len),
			  .seqnum = htole32(m->seqnum)};

	append(buf, &size, &r, sizeof(r));
	append(buf, &size, m->rval, hl);
	append(buf, &size, m->cval, hl);
	append(buf, &size, m->dhv.value, m->dhv.len);
	return size;
}

size_t nvmf_auth_build_success1(const struct nvmf_auth_success1 *m, uint8_t *buf)
{
	size_t hl = nvmf_auth_hash_len(m->hash), size = 0;
	/* The Linux host looks at the length even if there is no response. */
	struct success1 s = {.head = head_of(NVMF_AUTH_MSG_SUCCESS1, m->t_id),
			     .hl = (__u8)hl,
			     .rvalid = m->rvalid};

	append(buf, &size, &s, sizeof(s));
	append(buf, &size, m->rval, m->rvalid ? hl : 0);
	return size;
}

size_t nvmf_auth_build_success2(uint16_t t_id, uint8_t *buf)
{
	struct success2 s = {.head = head_of(NVMF_AUTH_MSG_SUCCESS2, t_id)};

	memcpy(buf, &s, sizeof(s));
	return sizeof(s);
}

size_t nvmf_auth_build_failure(enum nvmf_auth_msg msg, uint16_t t_id,
			       enum nvmf_auth_expl explanation, uint8_t *buf)
{
	struct failure f = {.head = head_of(msg, t_id),
			    .reason = REASON_FAILURE,
			    .explanation = (__u8)explanation};

	memcpy(buf, &f, sizeof(f));
	return sizeof(f);
}
