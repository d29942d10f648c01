/* SPDX-License-Identifier: BSD-3-Clause */
/* auth: DH-HMAC-CHAP on the controller (Base 8.13.5): its steps, and what it must refuse. */
#include <string.h>

#include "auth.h"
#include "suites.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>

#define AUTH_REQUIRED RDC_CS(NVME_SC_AUTH_REQUIRED)

/* Opens an admin queue that has to authenticate. */
static struct rdc_auth *auth_begin(struct rdc *t)
{
	struct rdc_auth *a = rdc_buf(t, sizeof(*a));
	struct rdc_raw *raw;
	struct rdc_connect c;

	if (!t->cfg->key.len)
		rdc_not_supported(t, "no secret was given (--dhchap-secret-file)");
	raw = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 0});
	rdc_connect_init(t, &c, 0, raw);
	RDC_OK(t, rdc_raw_connect(raw, &c).r, "Connect");
	if (!raw->must_authenticate)
		rdc_not_supported(t, "Connect does not require authentication (AUTHREQ)");
	rdc_auth_init(a, raw, 0);
	return a;
}

static struct rdc_raw_reply auth_identify(struct rdc_raw *raw)
{
	struct rdc_mem *mem =
		rdc_raw_mem(raw, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct nvme_sqe sqe = {.opcode = nvme_admin_identify,
			       .cdw10 = htole32(NVME_IDENTIFY_CNS_CTRL)};

	rdc_sgl(&sqe, mem, 4096);
	return rdc_raw_cmd(raw, &sqe);
}

/* The queue must refuse access to the controller. */
static void auth_is_shut(struct rdc_auth *a)
{
	struct rdc *t = a->raw->t;
	struct rdc_raw_reply rr;

	if (rdc_raw_ended(a->raw, 0))
		return;
	rr = auth_identify(a->raw);
	RDC_CHECK(t, !rr.answered || rr.r.err,
		  "Identify succeeds on a queue whose authentication failed");
}

/*
 * Checks the response to a message that must be refused: Authentication Send fails, or Failure1
 * follows. @codes: acceptable explanations, terminated by 0; none: all.
 */
static void auth_refused(struct rdc_auth *a, struct rdc_raw_reply sent, const char *what,
			 const uint8_t *codes)
{
	struct rdc *t = a->raw->t;
	struct nvmf_auth_head head;
	struct rdc_raw_reply rr;

	if (!sent.answered || sent.r.err) {
		auth_is_shut(a);
		return;
	}
	rr = rdc_auth_receive(a);
	if (!rr.answered || rr.r.err) {
		auth_is_shut(a);
		return;
	}
	nvmf_auth_parse_head(a->got, sizeof(a->got), &head);
	RDC_CHECK(t, head.msg == NVMF_AUTH_MSG_FAILURE1,
		  "%s is answered with message 0x%04x, not with Failure1", what, head.msg);
	RDC_CHECK(t, a->got[6] == 1, "Failure1 has the reason code %u, not 1", a->got[6]);
	for (; codes && *codes && *codes != a->got[7]; codes++)
		;
	RDC_CHECK(t, !codes || *codes, "%s: Failure1 has the explanation %u (%s)", what, a->got[7],
		  nvmf_auth_expl_text(a->got[7]));
	auth_is_shut(a);
}

#define AUTH_REFUSED(a, rr, what, ...) auth_refused(a, rr, what, (const uint8_t[]){__VA_ARGS__, 0})

/* ---- handshake ---- */

static void auth_one_way(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);

	rdc_auth_run(a, false);
	rdc_raw_enable(a->raw, true);
}

static void auth_mutual(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);

	if (!t->cfg->ctrl_key.len)
		rdc_not_supported(t, "no secret was given (--dhchap-ctrl-secret-file)");
	rdc_auth_run(a, true);
	rdc_raw_enable(a->raw, true);
}

static void auth_before(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);

	RDC_STATUS(t, auth_identify(a->raw).r, "Identify before the authentication", AUTH_REQUIRED);
	rdc_auth_run(a, false);
}

static void auth_io_queue(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_auth *a = auth_begin(t);
	struct rdc_connect c;
	struct nvme_sqe sqe;
	struct rdc_raw *io;
	struct rdc_mem *mem;

	rdc_auth_run(a, false);
	rdc_raw_enable(a->raw, true);
	io = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 1, .depth = 16});
	io->cntlid = a->raw->cntlid;
	rdc_connect_init(t, &c, 0, io);
	RDC_OK(t, rdc_raw_connect(io, &c).r, "Connect of an I/O queue");
	RDC_CHECK(t, io->must_authenticate,
		  "Connect of an I/O queue does not require authentication");
	mem = rdc_raw_mem(io, h->bs, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	rdc_raw_rw(&sqe, h, nvme_cmd_read, 0, 1, mem);
	RDC_STATUS(t, rdc_raw_cmd(io, &sqe).r, "Read before the authentication of its queue",
		   AUTH_REQUIRED);
	rdc_raw_authenticate(io, 0);
	rdc_raw_rw(&sqe, h, nvme_cmd_read, 0, 1, mem);
	RDC_OK(t, rdc_raw_cmd(io, &sqe).r, "Read after the authentication");
}

static void auth_again(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);

	rdc_auth_run(a, false);
	rdc_raw_enable(a->raw, true);
	a->offer.t_id++;
	rdc_auth_run(a, false);
	RDC_OK(t, auth_identify(a->raw).r, "Identify after the second authentication");
}

/* Sends the reply of a correct host, with the byte at @at changed by @bits. */
static struct rdc_raw_reply auth_changed_reply(struct rdc_auth *a, unsigned int at, uint8_t bits)
{
	uint8_t msg[NVMF_AUTH_MSG_MAX];
	size_t len = rdc_auth_until_reply(a, false, msg);

	msg[at] ^= bits;
	return rdc_auth_send(a, msg, len);
}

static void auth_wrong_response(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);

	AUTH_REFUSED(a, auth_changed_reply(a, 16, 0x01), "a wrong response", NVMF_AUTH_FAILED);
}

/* ---- messages ---- */

static void auth_out_of_order(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);
	uint8_t msg[NVMF_AUTH_MSG_MAX];
	size_t len;

	a->challenge.hash = NVMF_AUTH_SHA256;
	if (t->arg == NVMF_AUTH_MSG_REPLY)
		len = rdc_auth_make_reply(a, false, msg);
	else
		len = nvmf_auth_build_success2(a->offer.t_id, msg);
	AUTH_REFUSED(a, rdc_auth_send(a, msg, len), "a message before the Negotiate",
		     NVMF_AUTH_INCORRECT_MESSAGE, NVMF_AUTH_INCORRECT_PAYLOAD);
}

static void auth_success2_for_reply(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);
	uint8_t msg[NVMF_AUTH_MSG_MAX];

	rdc_auth_negotiate(a);
	rdc_auth_challenge(a);
	AUTH_REFUSED(a, rdc_auth_send(a, msg, nvmf_auth_build_success2(a->offer.t_id, msg)),
		     "Success2 instead of a reply", NVMF_AUTH_INCORRECT_MESSAGE);
}

static void auth_receive_first(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);
	struct rdc_raw_reply rr = rdc_auth_receive(a);

	if (rr.answered && !rr.r.err)
		RDC_CHECK(t, a->got[0] == 0 && a->got[1] == 0xf1,
			  "Authentication Receive before the Negotiate returns message 0x%02x%02x",
			  a->got[0], a->got[1]);
	auth_is_shut(a);
}

static void auth_negotiate_twice(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);
	struct nvmf_auth_head head;
	struct rdc_raw_reply rr;

	rdc_auth_negotiate(a);
	rdc_auth_challenge(a);
	a->offer.t_id++;
	rdc_auth_negotiate(a);
	rr = rdc_auth_receive(a);
	/* Controllers may begin again or refuse, but not report success. */
	if (!rr.answered || rr.r.err) {
		auth_is_shut(a);
		return;
	}
	nvmf_auth_parse_head(a->got, sizeof(a->got), &head);
	RDC_CHECK(t, head.msg == NVMF_AUTH_MSG_FAILURE1 || head.msg == NVMF_AUTH_MSG_CHALLENGE,
		  "a second Negotiate is answered with message 0x%04x", head.msg);
	auth_is_shut(a);
}

static void auth_negotiate_length(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);
	uint8_t msg[NVMF_AUTH_MSG_MAX + 1] = {0};
	size_t len = nvmf_auth_build_negotiate(&a->offer, msg);

	AUTH_REFUSED(a, rdc_auth_send(a, msg, t->arg ? t->arg : len + 1),
		     "a Negotiate of a wrong length", NVMF_AUTH_INCORRECT_PAYLOAD);
}

static void auth_reply_length(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);
	uint8_t msg[NVMF_AUTH_MSG_MAX + 1] = {0};
	size_t len;

	len = rdc_auth_until_reply(a, false, msg);
	AUTH_REFUSED(a, rdc_auth_send(a, msg, t->arg ? t->arg : len + 1),
		     "a reply of a wrong length", NVMF_AUTH_INCORRECT_PAYLOAD);
}

/* Commands with a wrong field must fail without a transfer. */
static void auth_wrong_field(struct rdc *t)
{
	static const struct {
		uint8_t fctype;
		struct rdc_auth_fields f;
	} rows[] = {
		{nvme_fabrics_type_auth_send, {.secp = 0x01}},
		{nvme_fabrics_type_auth_send, {.spsp0 = 0x02}},
		{nvme_fabrics_type_auth_send, {.spsp1 = 0x02}},
		{nvme_fabrics_type_auth_receive, {.secp = 0x01}},
		{nvme_fabrics_type_auth_send, {.other_len = true, .len = 0}},
		{nvme_fabrics_type_auth_receive, {.other_len = true, .len = 0}},
		{nvme_fabrics_type_auth_send, {.other_len = true, .len = 71}},
		{nvme_fabrics_type_auth_receive, {.other_len = true, .len = 8192}},
	};
	struct rdc_auth *a = auth_begin(t);
	bool send = rows[t->arg].fctype == nvme_fabrics_type_auth_send;
	size_t len = send ? 72 : 4096;
	struct rdc_mem *mem = rdc_raw_mem(a->raw, len,
					  send ? IBV_ACCESS_REMOTE_READ
					       : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct rdc_raw_reply rr;

	if (send)
		nvmf_auth_build_negotiate(&a->offer, mem->p);
	else
		rdc_auth_negotiate(a);
	rr = rdc_auth_cmd(a->raw, rows[t->arg].fctype, mem, (uint32_t)len, &rows[t->arg].f);
	RDC_CHECK(t, !rr.answered || rr.r.err, "a command with a wrong field succeeds");
}

static void auth_oversize(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);
	size_t len = 1u << 20;
	uint8_t *msg = rdc_buf(t, len);

	nvmf_auth_build_negotiate(&a->offer, msg);
	AUTH_REFUSED(a, rdc_auth_send(a, msg, len), "a Negotiate of 1 MiB",
		     NVMF_AUTH_INCORRECT_PAYLOAD);
}

/* ---- values ---- */

static void auth_fresh(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t), *b;

	rdc_auth_negotiate(a);
	rdc_auth_challenge(a);
	b = auth_begin(t);
	rdc_auth_negotiate(b);
	rdc_auth_challenge(b);
	RDC_CHECK(t, memcmp(a->challenge.cval, b->challenge.cval, 32) != 0,
		  "two transactions have the same challenge");
	RDC_CHECK(t, a->challenge.seqnum != b->challenge.seqnum,
		  "two transactions have the same sequence number 0x%08x", a->challenge.seqnum);
}

/* Replays a correct host's messages on another connection, with the same transaction identifier. */
static void auth_replay(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t), *b;
	uint8_t msg[NVMF_AUTH_MSG_MAX];
	size_t len;

	len = rdc_auth_until_reply(a, false, msg);
	rdc_auth_must_send(a, msg, len);
	rdc_auth_success(a, false);
	b = auth_begin(t);
	b->offer.t_id = a->offer.t_id;
	rdc_auth_negotiate(b);
	rdc_auth_challenge(b);
	AUTH_REFUSED(b, rdc_auth_send(b, msg, len), "a reply that was sent before",
		     NVMF_AUTH_FAILED);
}

static void auth_other_transaction(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);

	AUTH_REFUSED(a, auth_changed_reply(a, 4, 0x01), "a reply of another transaction",
		     NVMF_AUTH_INCORRECT_PAYLOAD, NVMF_AUTH_INCORRECT_MESSAGE);
}

static void auth_reply_field(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);

	AUTH_REFUSED(a, auth_changed_reply(a, t->arg, 0x82), "a reply with a wrong field",
		     NVMF_AUTH_INCORRECT_PAYLOAD);
}

static void auth_seqnum_zero(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);
	uint8_t msg[NVMF_AUTH_MSG_MAX];
	size_t len;

	len = rdc_auth_until_reply(a, true, msg);
	memset(msg + 12, 0, 4);
	AUTH_REFUSED(a, rdc_auth_send(a, msg, len),
		     "a challenge of the host with sequence number 0", NVMF_AUTH_INCORRECT_PAYLOAD,
		     NVMF_AUTH_FAILED);
}

static void auth_not_offered(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);
	uint8_t msg[NVMF_AUTH_MSG_MAX];

	if (t->arg == NVMF_AUTH_HASH_NOT_USABLE) {
		a->offer.n_hashes = 1;
		a->offer.hashes[0] = 0x1f;
	} else {
		a->offer.n_groups = 1;
		a->offer.groups[0] = 0x1f;
	}
	AUTH_REFUSED(a, rdc_auth_send(a, msg, nvmf_auth_build_negotiate(&a->offer, msg)),
		     "an offer of unknown identifiers", (uint8_t)t->arg);
}

/* Offers only the null group: the controller may use or refuse it, but not choose another. */
static void auth_null_group(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);
	struct nvmf_auth_head head;

	a->offer.n_groups = 1;
	rdc_auth_negotiate(a);
	rdc_auth_must_receive(a);
	nvmf_auth_parse_head(a->got, sizeof(a->got), &head);
	if (head.msg == NVMF_AUTH_MSG_FAILURE1) {
		RDC_CHECK(t, a->got[7] == NVMF_AUTH_GROUP_NOT_USABLE,
			  "the null group is refused with the explanation %u (%s)", a->got[7],
			  nvmf_auth_expl_text(a->got[7]));
		auth_is_shut(a);
		return;
	}
	RDC_CHECK(t, !nvmf_auth_parse_challenge(a->got, sizeof(a->got), &a->offer, &a->challenge),
		  "the challenge names a group that was not offered: %s",
		  nvmf_auth_group_text(a->got[9]));
}

enum { DH_ZERO, DH_ONE, DH_P_MINUS_1, DH_P, DH_LARGEST };

/*
 * Sends a value outside the group with the shared secret that it leads to, which is known without a
 * private value: a controller that accepts the value would accept the reply.
 */
static void auth_degenerate(struct rdc_auth *a, unsigned int which)
{
	struct rdc *t = a->raw->t;
	uint8_t shared[NVMF_AUTH_DHV_MAX] = {0};
	EVP_PKEY *own = NULL;
	BIGNUM *p = NULL;
	bool ok;

	ok = !nvmf_auth_dh_create(a->challenge.group, &own) &&
	     EVP_PKEY_get_bn_param(own, OSSL_PKEY_PARAM_FFC_P, &p) == 1 &&
	     (which != DH_P_MINUS_1 || BN_sub_word(p, 1)) &&
	     BN_bn2binpad(p, a->value, a->dhv_len) == a->dhv_len;
	BN_free(p);
	EVP_PKEY_free(own);
	RDC_CHECK(t, ok, "libcrypto does not have the group");
	if (which == DH_LARGEST)
		memset(a->value, 0xff, a->dhv_len);
	else if (which == DH_ZERO || which == DH_ONE)
		memset(a->value, 0, a->dhv_len);
	a->value[a->dhv_len - 1] |= which == DH_ONE;
	shared[a->dhv_len - 1] = which == DH_ONE || which == DH_P_MINUS_1;
	a->has_value = true;
	rdc_auth_session_of(a, shared);
}

static void auth_dh_value(struct rdc *t)
{
	struct rdc_auth *a = auth_begin(t);
	uint8_t msg[NVMF_AUTH_MSG_MAX];
	struct nvmf_auth_head head;
	size_t len;

	/* All groups except the null group, which is the first. */
	a->offer.n_groups--;
	memmove(a->offer.groups, a->offer.groups + 1, a->offer.n_groups);
	rdc_auth_negotiate(a);
	rdc_auth_must_receive(a);
	nvmf_auth_parse_head(a->got, sizeof(a->got), &head);
	if (head.msg == NVMF_AUTH_MSG_FAILURE1 && a->got[7] == NVMF_AUTH_GROUP_NOT_USABLE)
		rdc_not_supported(t, "the controller uses no Diffie-Hellman with this host");
	if (head.msg == NVMF_AUTH_MSG_CHALLENGE && a->got[9] == NVMF_AUTH_GROUP_NULL)
		rdc_not_supported(t, "the controller insists on the null group");
	RDC_CHECK(t, !nvmf_auth_parse_challenge(a->got, sizeof(a->got), &a->offer, &a->challenge),
		  "the Negotiate is answered with message 0x%04x", head.msg);
	a->dhv_len = a->challenge.dhv.len;
	auth_degenerate(a, t->arg);
	len = rdc_auth_make_reply(a, false, msg);
	AUTH_REFUSED(a, rdc_auth_send(a, msg, len), "a value that is not one of the group",
		     NVMF_AUTH_INCORRECT_PAYLOAD, NVMF_AUTH_FAILED);
}

const struct rdc_test rdc_t_auth_handshake[] = {
	{"one_way", "Base 8.13.5", "the host authenticates", auth_one_way, 0, 0},
	{"mutual", "Base 8.13.5", "host and controller authenticate each other", auth_mutual, 0, 0},
	{"before", "Fabrics 3.3", "an admin command before the authentication is refused",
	 auth_before, 0, 0},
	{"io_queue", "Fabrics 3.3", "each I/O queue needs its own authentication", auth_io_queue, 0,
	 0},
	{"again", "Base 8.13.5.9", "a queue in use can authenticate again", auth_again, 0, 0},
	{"wrong_response", "Base 8.13.5.5", "a wrong response is refused", auth_wrong_response,
	 RDC_ALIVE, 0},
	{NULL},
};

const struct rdc_test rdc_t_auth_message[] = {
	{"reply_first", "Base 8.13.5", "a reply before the Negotiate is refused", auth_out_of_order,
	 0, NVMF_AUTH_MSG_REPLY},
	{"success2_first", "Base 8.13.5", "Success2 before the Negotiate is refused",
	 auth_out_of_order, 0, NVMF_AUTH_MSG_SUCCESS2},
	{"success2_for_reply", "Base 8.13.5", "Success2 instead of the reply is refused",
	 auth_success2_for_reply, 0, 0},
	{"receive_first", "Base 8.13.5",
	 "Authentication Receive before the Negotiate brings no message", auth_receive_first, 0, 0},
	{"negotiate_twice", "Base 8.13.5",
	 "a second Negotiate starts a new transaction, or is refused", auth_negotiate_twice, 0, 0},
	{"negotiate_short", "Base 8.13.5.2", "a Negotiate of 71 bytes is refused",
	 auth_negotiate_length, 0, 71},
	{"negotiate_bare", "Base 8.13.5.2", "a Negotiate without its descriptor is refused",
	 auth_negotiate_length, 0, 8},
	{"negotiate_long", "Base 8.13.5.2", "a Negotiate with an extra byte at its end is refused",
	 auth_negotiate_length, 0, 0},
	{"reply_short", "Base 8.13.5.4", "a reply of 40 bytes is refused", auth_reply_length, 0,
	 40},
	{"reply_bare", "Base 8.13.5.4", "a reply without values is refused", auth_reply_length, 0,
	 16},
	{"reply_long", "Base 8.13.5.4", "a reply with an extra byte at its end is refused",
	 auth_reply_length, 0, 0},
	{"send_secp", "Fabrics 3.1", "SECP of another protocol in Send fails", auth_wrong_field, 0,
	 0},
	{"send_spsp0", "Fabrics 3.1", "another SPSP0 in Send fails", auth_wrong_field, 0, 1},
	{"send_spsp1", "Fabrics 3.1", "another SPSP1 in Send fails", auth_wrong_field, 0, 2},
	{"receive_secp", "Fabrics 3.2", "SECP of another protocol in Receive fails",
	 auth_wrong_field, 0, 3},
	{"send_zero", "Fabrics 3.1", "TL 0 fails", auth_wrong_field, 0, 4},
	{"receive_zero", "Fabrics 3.2", "AL 0 fails", auth_wrong_field, 0, 5},
	{"send_not_sgl", "Fabrics 3.1", "a TL that is not the SGL's length fails", auth_wrong_field,
	 0, 6},
	{"receive_not_sgl", "Fabrics 3.2", "an AL that is not the SGL's length fails",
	 auth_wrong_field, 0, 7},
	{"oversize", "Base 8.13.5.2", "a Negotiate of 1 MiB is refused", auth_oversize, 0, 0},
	{NULL},
};

const struct rdc_test rdc_t_auth_value[] = {
	{"fresh", "Base 8.13.5.3", "challenges and sequence numbers do not repeat", auth_fresh, 0,
	 0},
	{"replay", "Base 8.13.5.5", "a reply of another connection is refused", auth_replay,
	 RDC_ALIVE, 0},
	{"transaction", "Base 8.13.5.4", "a reply with another T_ID is refused",
	 auth_other_transaction, RDC_ALIVE, 0},
	{"hash_length", "Base 8.13.5.4", "a reply with another HL is refused", auth_reply_field,
	 RDC_ALIVE, 6},
	{"cvalid", "Base 8.13.5.4", "CVALID of more than 1 is refused", auth_reply_field, RDC_ALIVE,
	 8},
	{"dhv_length", "Base 8.13.5.4", "a reply with another DHVLEN is refused", auth_reply_field,
	 RDC_ALIVE, 10},
	{"seqnum_zero", "Base 8.13.5.4", "a challenge with sequence number 0 is refused",
	 auth_seqnum_zero, RDC_ALIVE, 0},
	{"hash_unknown", "Base 8.13.5.2", "an offer without a usable hash is refused",
	 auth_not_offered, RDC_ALIVE, NVMF_AUTH_HASH_NOT_USABLE},
	{"group_unknown", "Base 8.13.5.2", "an offer without a usable group is refused",
	 auth_not_offered, RDC_ALIVE, NVMF_AUTH_GROUP_NOT_USABLE},
	{"null_group", "Base 8.13.5.3", "the controller chooses only a group that was offered",
	 auth_null_group, 0, 0},
	{"dh_zero", "Base 8.13.5.5", "the Diffie-Hellman value 0 is refused", auth_dh_value,
	 RDC_ALIVE, DH_ZERO},
	{"dh_one", "Base 8.13.5.5", "the Diffie-Hellman value 1 is refused", auth_dh_value,
	 RDC_ALIVE, DH_ONE},
	{"dh_p_minus_1", "Base 8.13.5.5", "the Diffie-Hellman value p - 1 is refused",
	 auth_dh_value, RDC_ALIVE, DH_P_MINUS_1},
	{"dh_p", "Base 8.13.5.5", "the Diffie-Hellman value p is refused", auth_dh_value, RDC_ALIVE,
	 DH_P},
	{"dh_largest", "Base 8.13.5.5", "the Diffie-Hellman value with all bits set is refused",
	 auth_dh_value, RDC_ALIVE, DH_LARGEST},
	{NULL},
};
