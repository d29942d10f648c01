/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One transaction of DH-HMAC-CHAP on the host's side (Base 8.13.5): Negotiate, Challenge, Reply,
 * Success1, and Success2 where the controller authenticates itself as well; one function for each
 * message of the controller.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "auth.h"
#include "nvmf/auth_calc.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#define CONNECT_AUTH_ATR  (1u << 17)
#define CONNECT_AUTH_ASCR (1u << 18)
/* least time between two transactions that the controller asks for */
#define RENEW_MIN_NS RD_NSEC_PER_SEC

/* A transaction that takes this long may meet a time limit of the target. */
#define SLOW_NS (5 * RD_NSEC_PER_SEC)

enum auth_step {
	AUTH_NEGOTIATE, /* until Authentication Send is answered */
	AUTH_CHALLENGE, /* until Authentication Receive is answered */
	AUTH_DH,        /* until the helper thread has finished; no command is in flight */
	AUTH_REPLY,
	AUTH_SUCCESS1,
	AUTH_SUCCESS2,
	AUTH_FAILURE2, /* the controller was refused, for the reason in err and text */
};

struct rdi_auth {
	struct rdi_queue *q;
	struct rdi_auth_arg arg;
	enum auth_step step;
	struct nvmf_auth_negotiate offer;
	/* its dhv points into buf: valid until buf is used again */
	struct nvmf_auth_challenge challenge;
	struct nvmf_auth_reply reply; /* its dhv is not kept */
	struct rdi_auth_dh *dh;
	uint64_t begun;                      /* ns */
	uint8_t session[NVMF_AUTH_HASH_MAX]; /* unused with the null group */
	int err;
	char text[RDI_TEXT];
	uint8_t buf[NVMF_AUTH_TRANSFER]; /* the message that is being sent or received */
};

/* ---- the end ---- */

static void auth_end(struct rdi_auth *a, int err, uint16_t status, const char *text)
{
	struct rdi_queue *q = a->q;
	struct rdi_auth_arg arg = a->arg;
	struct rdinit_completion c = {.err = err, .status = status};
	char copy[RDI_TEXT];

	snprintf(copy, sizeof(copy), "%s", text);
	c.text = copy;
	q->auth = NULL;
	if (!err)
		q->proved_at = rd_loop_now_raw(q->loop);
	rdi_auth_dh_cancel(&a->dh);
	explicit_bzero(a, sizeof(*a));
	free(a);
	if (arg.fn)
		arg.fn(arg.user, &c);
	else if (err)
		rd_warn(q->log, RD_LOG_INIT, "%s queue: %s", q->cfg.label, copy);
	rdi_auth_keys_unref(&arg.keys);
	rdi_req_after_proof(q, err == 0);
}

void rdi_auth_stop(struct rdi_queue *q, int err, const char *text)
{
	if (q->auth)
		auth_end(q->auth, err, 0, text);
}

void rdi_auth_explain_end(struct rdi_queue *q)
{
	const struct rdi_auth *a = q->auth;
	char text[RDI_TEXT];

	if (!a)
		return;
	memcpy(text, q->text, sizeof(text));
	if (a->err) {
		q->err = a->err;
		snprintf(q->text, sizeof(q->text), "%s: %.*s", q->remote,
			 RDI_TEXT - RD_ADDR_TEXT - 2, a->text);
	} else if (rd_loop_now_raw(q->loop) - a->begun >= SLOW_NS) {
		/* Targets limit the time of a transaction, Diffie-Hellman on both sides included.
		 */
		snprintf(q->text, sizeof(q->text),
			 "authentication as host NQN \"%s\" had not ended after %.1f s (does the "
			 "target allow less time? whether the secret is right is unknown): %.200s",
			 a->arg.hostnqn,
			 (double)(rd_loop_now_raw(q->loop) - a->begun) / RD_NSEC_PER_SEC, text);
	} else if (a->step == AUTH_SUCCESS1 || a->step == AUTH_REPLY) {
		/* nvmet closes the connection at the same time as it sends Failure1, so Failure1
		 * can get lost. */
		snprintf(q->text, sizeof(q->text),
			 "authentication as host NQN \"%s\": no answer to the host's proof (is the "
			 "secret the one that the target has for this host?): %.200s",
			 a->arg.hostnqn, text);
	}
}

static void auth_fail(struct rdi_auth *a, int err, const char *fmt, ...)
	__attribute__((cold, format(printf, 3, 4)));

/* Fails the transaction with a text that says which side did not authenticate, and why. */
static void auth_fail(struct rdi_auth *a, int err, const char *fmt, ...)
{
	char why[RDI_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	a->err = err;
	if (snprintf(a->text, sizeof(a->text), "authentication as host NQN \"%s\": %s",
		     a->arg.hostnqn, why) >= (int)sizeof(a->text))
		memcpy(a->text + sizeof(a->text) - 4, "...", 4);
}

static void auth_fail_now(struct rdi_auth *a, int err, const char *why)
{
	auth_fail(a, err, "%s", why);
	auth_end(a, a->err, 0, a->text);
}

/* ---- commands ---- */

static void on_auth_sent(void *user, const struct rdinit_completion *c);
static void on_auth_received(void *user, const struct rdinit_completion *c);

static int submit_auth(struct rdi_auth *a, uint8_t fctype, size_t len)
{
	bool send = fctype == nvme_fabrics_type_auth_send;
	struct rdi_cmd cmd = {
		.data = a->buf,
		.len = (uint32_t)len,
		.dir = send ? RDI_OUT : RDI_IN,
		.timeout_ns = a->q->cfg.connect_timeout_ns,
		.how = RDI_FABRICS | RDI_INTERNAL,
		.fn = send ? on_auth_sent : on_auth_received,
		.user = a,
	};
	struct nvmf_auth_sqe sqe = {
		.opcode = NVMF_OPCODE,
		.fctype = fctype,
		.spsp0 = NVMF_AUTH_SPSP0,
		.spsp1 = NVMF_AUTH_SPSP1,
		.secp = NVMF_AUTH_SECP,
		.len = htole32((uint32_t)len),
	};

	memcpy(&cmd.sqe, &sqe, sizeof(cmd.sqe));
	return rdi_queue_submit(a->q, &cmd);
}

/* Sends the message of @len bytes in buf. */
static void auth_send(struct rdi_auth *a, enum auth_step step, size_t len)
{
	int rc;

	a->step = step;
	rc = submit_auth(a, nvme_fabrics_type_auth_send, len);
	if (rc && step == AUTH_FAILURE2)
		auth_end(a, a->err, 0, a->text);
	else if (rc)
		auth_fail_now(a, rc, rdi_queue_why(a->q, rc));
}

static void auth_receive(struct rdi_auth *a, enum auth_step step)
{
	int rc;

	a->step = step;
	memset(a->buf, 0, sizeof(a->buf));
	rc = submit_auth(a, nvme_fabrics_type_auth_receive, sizeof(a->buf));
	if (rc)
		auth_fail_now(a, rc, rdi_queue_why(a->q, rc));
}

/* Sends Failure2 with reason @why. err and text must be set. */
static void auth_refuse(struct rdi_auth *a, enum nvmf_auth_expl why)
{
	auth_send(a, AUTH_FAILURE2,
		  nvmf_auth_build_failure(NVMF_AUTH_MSG_FAILURE2, a->offer.t_id, why, a->buf));
}

/* The controller completed a command of the transaction with an error status. */
static void auth_command_failed(struct rdi_auth *a, const struct rdinit_completion *c)
{
	if (a->step == AUTH_FAILURE2) {
		auth_end(a, a->err, 0, a->text);
	} else if (c->err != -EIO) {
		auth_end(a, c->err, 0, c->text);
	} else {
		auth_fail(a, -EIO, "%s%s", c->text,
			  a->arg.demanded ? ""
					  : " (the host has a secret of the target, so the target "
					    "has to authenticate itself as well)");
		auth_end(a, -EIO, c->status, a->text);
	}
}

/* ---- the steps, in order ---- */

/* The controller sent another message than the expected one, possibly Failure1. */
static void auth_unexpected(struct rdi_auth *a, enum nvmf_auth_expl why, const char *what)
{
	struct nvmf_auth_failure f;
	const char *hint = "";

	if (nvmf_auth_parse_failure(a->buf, sizeof(a->buf), NVMF_AUTH_MSG_FAILURE1, a->offer.t_id,
				    &f) == NVMF_AUTH_OK) {
		if (f.explanation == NVMF_AUTH_FAILED)
			hint = " (is the secret the one that the target has for this host?)";
		auth_fail(a, -EKEYREJECTED, "refused by the target: %s%s",
			  nvmf_auth_expl_text(f.explanation), hint);
		auth_end(a, a->err, 0, a->text);
		return;
	}
	if (why == NVMF_AUTH_HASH_NOT_USABLE || why == NVMF_AUTH_GROUP_NOT_USABLE)
		hint = ": the host did not offer what the target chose";
	auth_fail(a, -EKEYREJECTED, "the target's %s is refused: %s%s", what,
		  nvmf_auth_expl_text(why), hint);
	auth_refuse(a, why);
}

/*
 * Computes the host's response to the challenge or, with @ctrl, the response that the controller
 * must send to the host's challenge. Returns 0, -EINVAL or -EIO.
 */
static int auth_response(struct rdi_auth *a, bool ctrl, uint8_t out[NVMF_AUTH_HASH_MAX])
{
	const struct rdi_auth_keys *keys = a->arg.keys;
	uint8_t key[NVMF_AUTH_HASH_MAX];
	struct nvmf_auth_proof p = {
		.hash = a->challenge.hash,
		.t_id = a->offer.t_id,
		.seqnum = ctrl ? a->reply.seqnum : a->challenge.seqnum,
		.key = key,
		.challenge = ctrl ? a->reply.cval : a->challenge.cval,
		.session = a->challenge.group ? a->session : NULL,
		.hostnqn = a->arg.hostnqn,
		.subnqn = a->arg.subnqn,
	};
	int rc = nvmf_auth_key_transform(ctrl ? &keys->ctrl : &keys->host,
					 ctrl ? a->arg.subnqn : a->arg.hostnqn, key);

	if (rc >= 0) {
		p.key_len = (size_t)rc;
		rc = ctrl ? nvmf_auth_ctrl_response(&p, out) : nvmf_auth_host_response(&p, out);
	}
	explicit_bzero(key, sizeof(key));
	return rc;
}

static uint32_t next_seqnum(struct rdi_auth_keys *keys)
{
	uint32_t n;

	do
		n = atomic_fetch_add(&keys->seqnum, 1);
	while (n == 0);
	return n;
}

/* @value: the host's Diffie-Hellman value, or NULL with the null group. */
static void auth_reply(struct rdi_auth *a, const uint8_t *value)
{
	struct nvmf_auth_reply *r = &a->reply;
	int rc;

	*r = (struct nvmf_auth_reply){
		.t_id = a->offer.t_id,
		.hash = a->challenge.hash,
		.cvalid = a->arg.keys->ctrl.len != 0,
	};
	if (value)
		r->dhv = (struct nvmf_auth_dhv){value,
						(uint16_t)nvmf_auth_group_len(a->challenge.group)};
	if (r->cvalid)
		r->seqnum = next_seqnum(a->arg.keys);
	if (r->cvalid && RAND_bytes(r->cval, (int)nvmf_auth_hash_len(r->hash)) != 1) {
		auth_fail_now(a, -EIO, "the system provides no random numbers");
		return;
	}
	rc = auth_response(a, false, r->rval);
	if (rc < 0) {
		auth_fail_now(a, rc, "libcrypto cannot compute the response");
		return;
	}
	auth_send(a, AUTH_REPLY, nvmf_auth_build_reply(r, a->buf)); /* this may have freed @a */
}

static void on_dh(void *arg, const struct rdi_auth_dh_result *result)
{
	struct rdi_auth *a = arg;

	rdi_auth_dh_cancel(&a->dh);
	memcpy(a->session, result->session, sizeof(a->session));
	if (result->rc == -EBADMSG) {
		auth_fail(a, -EKEYREJECTED,
			  "the target's Diffie-Hellman value is refused: it is not one of %s",
			  nvmf_auth_group_text(a->challenge.group));
		auth_refuse(a, NVMF_AUTH_INCORRECT_PAYLOAD);
	} else if (result->rc) {
		auth_fail_now(a, result->rc, "libcrypto cannot compute Diffie-Hellman");
	} else {
		auth_reply(a, result->value);
	}
}

static void challenged(struct rdi_auth *a)
{
	enum nvmf_auth_expl why =
		nvmf_auth_parse_challenge(a->buf, sizeof(a->buf), &a->offer, &a->challenge);
	int rc;

	if (why) {
		auth_unexpected(a, why, "challenge");
		return;
	}
	rd_debug(a->q->log, RD_LOG_INIT, "%s queue: challenged with %s, %s", a->q->cfg.label,
		 nvmf_auth_hash_text(a->challenge.hash), nvmf_auth_group_text(a->challenge.group));
	if (a->challenge.group == NVMF_AUTH_GROUP_NULL) {
		auth_reply(a, NULL);
		return;
	}
	a->step = AUTH_DH;
	rc = rdi_auth_dh_start(a->q->loop, &a->challenge, on_dh, a, &a->dh);
	if (rc)
		auth_fail_now(a, rc, strerror(-rc));
}

static void succeeded(struct rdi_auth *a)
{
	uint8_t want[NVMF_AUTH_HASH_MAX];
	struct nvmf_auth_success1 s;
	enum nvmf_auth_expl why = nvmf_auth_parse_success1(a->buf, sizeof(a->buf), &a->reply, &s);
	int rc;

	if (why == NVMF_AUTH_FAILED) {
		auth_fail(a, -EKEYREJECTED,
			  "the target did not authenticate itself, which the host demands because "
			  "it has "
			  "a secret for it");
		auth_refuse(a, why);
		return;
	}
	if (why) {
		auth_unexpected(a, why, "answer to the reply");
		return;
	}
	if (!a->reply.cvalid) {
		auth_end(a, 0, 0, "");
		return;
	}
	rc = auth_response(a, true, want);
	if (rc < 0) {
		auth_fail_now(a, rc, "libcrypto cannot compute the response");
	} else if (CRYPTO_memcmp(want, s.rval, nvmf_auth_hash_len(s.hash)) != 0) {
		auth_fail(a, -EKEYREJECTED,
			  "the target's proof is wrong: the controller's secret of the host is not "
			  "the one that the target has");
		auth_refuse(a, NVMF_AUTH_FAILED);
	} else {
		auth_send(a, AUTH_SUCCESS2, nvmf_auth_build_success2(a->offer.t_id, a->buf));
	}
	explicit_bzero(want, sizeof(want));
}

static void on_auth_sent(void *user, const struct rdinit_completion *c)
{
	struct rdi_auth *a = user;

	if (c->err) {
		auth_command_failed(a, c);
		return;
	}
	switch (a->step) {
	case AUTH_NEGOTIATE:
		auth_receive(a, AUTH_CHALLENGE);
		break;
	case AUTH_REPLY:
		auth_receive(a, AUTH_SUCCESS1);
		break;
	case AUTH_SUCCESS2:
	case AUTH_FAILURE2:
		auth_end(a, a->err, 0, a->text);
		break;
	case AUTH_CHALLENGE:
	case AUTH_DH:
	case AUTH_SUCCESS1:
		break; /* these states have no Authentication Send in flight */
	}
}

static void on_auth_received(void *user, const struct rdinit_completion *c)
{
	struct rdi_auth *a = user;

	if (c->err)
		auth_command_failed(a, c);
	else if (a->step == AUTH_CHALLENGE)
		challenged(a);
	else
		succeeded(a);
}

/*
 * Authenticates @q, which is established or live. arg->fn gets 0; -EKEYREJECTED: the controller
 * refused this host, or this host refused the controller; -EIO with the status of a command; -EIO
 * without a status: libcrypto failed; -EAGAIN, -ENOMEM; or the error with which the queue ended.
 * Returns 0, or without a callback -errno of rdi_queue_submit(), -EBUSY, -ENOMEM, -EIO.
 */
static int start_auth(struct rdi_queue *q, const struct rdi_auth_arg *arg)
{
	struct rdi_auth *a;
	int rc;

	if (q->auth)
		return -EBUSY;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->q = q;
	a->arg = *arg;
	a->offer = arg->keys->offer;
	a->offer.t_id = atomic_fetch_add(&arg->keys->t_id, 1);
	a->begun = rd_loop_now_raw(q->loop);
	a->step = AUTH_NEGOTIATE;
	rc = submit_auth(a, nvme_fabrics_type_auth_send,
			 nvmf_auth_build_negotiate(&a->offer, a->buf));
	if (rc) {
		free(a);
		return rc;
	}
	rdi_auth_keys_ref(arg->keys);
	q->auth = a;
	return 0;
}

/* ---- when ---- */

int rdi_auth_after_connect(struct rdi_queue *q, uint32_t result, const struct rdi_auth_arg *given,
			   char *why, size_t why_len)
{
	struct rdi_auth_arg arg = *given;
	int rc;

	if (result & CONNECT_AUTH_ASCR) {
		snprintf(why, why_len,
			 "the target demands a secure channel (TLS), which there is not over RDMA");
		return -ENOTSUP;
	}
	arg.demanded = result & CONNECT_AUTH_ATR;
	if (!arg.keys && arg.demanded) {
		snprintf(why, why_len,
			 "the target demands authentication, and there is no secret for host NQN "
			 "\"%s\"",
			 arg.hostnqn);
		return -EACCES;
	}
	/* Targets usually leave discovery open. A forged discovery log cannot do harm: the
	 * subsystems that it names must authenticate. */
	if (!arg.keys || (!arg.demanded &&
			  (!arg.keys->ctrl.len || strcmp(arg.subnqn, RDINIT_DISCOVERY_NQN) == 0)))
		return 0;
	rc = start_auth(q, &arg);
	if (!rc)
		return 1;
	snprintf(why, why_len, "%s", rdi_queue_why(q, rc));
	return rc;
}

bool rdi_auth_renew(struct rdi_queue *q, const struct rdi_auth_arg *arg)
{
	if (q->auth)
		return true;
	/* Limits how often a controller can make its host authenticate instead of doing I/O. */
	if (!arg->keys || (q->proved_at && rd_loop_now_raw(q->loop) - q->proved_at < RENEW_MIN_NS))
		return false;
	return start_auth(q, arg) == 0;
}

int rdi_auth_again(const char *func, struct rdi_queue *q, struct rdi_auth_keys **keys,
		   const struct rdinit_auth_opts *opts, struct rdi_auth_arg *arg)
{
	struct rdi_auth_keys *created;
	int rc;

	if (q->state != RDI_Q_LIVE)
		return rdi_fail(func, -ENOTCONN, "%s", rdi_queue_why(q, -ENOTCONN));
	if (q->auth)
		return rdi_fail(func, -EBUSY, "an authentication of this queue is in progress");
	if (!opts && !*keys)
		return rdi_fail(func, -EINVAL, "the handle has no secret, and none is given");
	if (opts) {
		rc = rdi_auth_keys_create(func, opts, &created);
		if (rc)
			return rc;
		rdi_auth_keys_unref(keys);
		*keys = created;
	}
	arg->keys = *keys;
	arg->demanded = true;
	rc = start_auth(q, arg);
	return rc ? rdi_fail(func, rc, "%s", rdi_queue_why(q, rc)) : 0;
}
