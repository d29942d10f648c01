/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transaction of DH-HMAC-CHAP on a queue pair. Each message is answered by the next
 * Authentication Receive. An error is answered by Failure1 and ends the transaction. After that, a
 * queue that has never authenticated closes a moment later; a live one continues, because its
 * earlier authentication is still valid.
 */
#include "auth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "nvmf/auth_calc.h"
#include "util/log.h"
#include "util/loop.h"
#include "util/sockaddr.h"
#include "auth_guess.h"
#include "target/nvmf/auth_keys.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/peers.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"

/* A host has its keep-alive timeout for each step, within these limits. */
#define STEP_MIN (10 * RD_NSEC_PER_SEC)
#define STEP_MAX (120 * RD_NSEC_PER_SEC)
/* The delay after a failure. It slows down guessing, and lets the host receive Failure1 before its
 * connection ends. */
#define FAIL_WAIT (100 * RD_NSEC_PER_MSEC)
/* The delay of a host that has failed often, before its challenge and before its response is
 * checked. Its connections without an authentication are limited, so this limits its guesses. */
#define PACE (400 * RD_NSEC_PER_MSEC)

static const char *auth_state_name(unsigned int state)
{
	static const char *const names[] = {
		[RDT_AUTH_IDLE] = "idle",
		[RDT_AUTH_PACED] = "paced",
		[RDT_AUTH_PACED_REPLY] = "paced reply",
		[RDT_AUTH_PAIR] = "pair",
		[RDT_AUTH_CHALLENGE] = "challenge",
		[RDT_AUTH_REPLY] = "reply",
		[RDT_AUTH_SESSION] = "session",
		[RDT_AUTH_CLAIM] = "claim",
		[RDT_AUTH_SUCCESS1] = "success1",
		[RDT_AUTH_SUCCESS2] = "success2",
		[RDT_AUTH_FAILURE] = "failure",
		[RDT_AUTH_DELAY] = "delay",
	};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

static void set_auth_state(struct rdt_qpair *qp, enum rdt_auth_state state)
{
	rd_debug(qp->log, RD_LOG_QPAIR, "qid %u: authentication: %s -> %s", qp->qid,
		 auth_state_name(qp->auth->state), auth_state_name(state));
	qp->auth->state = (uint8_t)state;
}

static void auth_fini(struct rdt_qpair *qp)
{
	if (!qp->auth)
		return;
	EVP_PKEY_free(qp->auth->pair);
	OPENSSL_cleanse(qp->auth, sizeof(*qp->auth));
	free(qp->auth);
	qp->auth = NULL;
}

/* The transaction of a live queue has ended. */
static void end_transaction(struct rdt_qpair *qp)
{
	rd_timer_stop(qp->reactor->loop, &qp->timer);
	auth_fini(qp);
}

/* ---- the log ---- */

static void report_auth(struct rdt_qpair *qp, struct rd_ratelimit *limit, const char *what,
			const char *detail)
{
	char addr[RD_ADDR_TEXT];

	rd_log_limited(limit, rd_loop_now(qp->reactor->loop), qp->log, RD_LOG_CTRL, RD_LOG_NOTICE,
		       "%s: %s host %s at %s, queue %u: %s", qp->ctrl->subsys->nqn, what,
		       qp->ctrl->hostnqn,
		       rd_addr_format((const struct sockaddr *)&qp->remote, addr), qp->qid, detail);
}

static const char *group_words(unsigned int group)
{
	return group == NVMF_AUTH_GROUP_NULL ? "no Diffie-Hellman" : nvmf_auth_group_text(group);
}

static void report_success(struct rdt_qpair *qp)
{
	const struct rdt_auth *a = qp->auth;
	char detail[160];

	snprintf(detail, sizeof(detail), "%s, %s%s%s%s", nvmf_auth_hash_text(a->sent.hash),
		 group_words(a->sent.group), a->cvalid ? ", and the controller" : "",
		 qp->state == RDT_QP_LIVE ? ", again" : "",
		 a->old_keys ? ", with keys that were replaced" : "");
	atomic_fetch_add(&qp->ctrl->subsys->auth_successes, 1);
	report_auth(qp, &qp->reactor->target->auth_limit, "authenticated", detail);
}

/* ---- time ---- */

static void auth_step_expired(struct rd_timer *timer)
{
	struct rdt_qpair *qp = rd_container_of(timer, struct rdt_qpair, timer);

	if (qp->state == RDT_QP_AUTH) {
		report_auth(qp, &qp->reactor->target->refuse_limit, "refused",
			    "it did not authenticate in time");
		atomic_fetch_add(&qp->ctrl->subsys->auth_failures, 1);
		rdt_qpair_end(qp, RDT_END_AUTH, "not authenticated in time");
	} else {
		rd_info(qp->log, RD_LOG_QPAIR, "qid %u: a new authentication was not finished",
			qp->qid);
		auth_fini(qp);
	}
}

static void delay_expired(struct rd_timer *timer)
{
	rdt_qpair_end(rd_container_of(timer, struct rdt_qpair, timer), RDT_END_AUTH,
		      "authentication failed");
}

static void arm(struct rdt_qpair *qp, void (*fn)(struct rd_timer *timer), uint64_t ns)
{
	if (qp->state >= RDT_QP_CLOSING)
		return;
	qp->timer.fn = fn;
	if (rd_timer_start(qp->reactor->loop, &qp->timer, ns))
		rdt_qpair_close(qp, "out of memory");
}

static void auth_await(struct rdt_qpair *qp)
{
	uint64_t ns = qp->ctrl->kato_ms * RD_NSEC_PER_MSEC;

	if (!ns || ns > STEP_MAX)
		ns = STEP_MAX;
	arm(qp, auth_step_expired, ns < STEP_MIN ? STEP_MIN : ns);
}

static bool auth_required(struct rdt_qpair *qp)
{
	struct rdt_subsys *ss = qp->ctrl->subsys;
	bool required;

	if (!qp->admin) /* for I/O queues, this was decided before the queue was attached */
		return qp->attach.guest;
	pthread_mutex_lock(&ss->lock);
	required = rdt_auth_has_key(ss, qp->ctrl->hostnqn) || !qp->ctrl->authenticated;
	pthread_mutex_unlock(&ss->lock);
	return required;
}

/* ---- outcomes ---- */

/* Refuse the host. @detail: a text in addition to the explanation, or NULL. */
static void refuse(struct rdt_qpair *qp, enum nvmf_auth_expl why, const char *detail)
{
	char text[256];

	qp->auth->why = why;
	set_auth_state(qp, RDT_AUTH_FAILURE);
	snprintf(text, sizeof(text), "%s%s%s", nvmf_auth_expl_text(why), detail ? ": " : "",
		 detail ? detail : "");
	atomic_fetch_add(&qp->ctrl->subsys->auth_failures, 1);
	report_auth(qp, &qp->reactor->target->refuse_limit, "refused", text);
}

static void authenticated(struct rdt_qpair *qp)
{
	report_success(qp);
	end_transaction(qp);
	if (qp->state != RDT_QP_AUTH)
		return;
	rdt_guess_succeeded(qp);
	if (qp->admin) {
		rdt_keep_alive_start(qp->ctrl, qp->ctrl->kato_ms);
		rdt_ctrl_announce(qp->ctrl);
	}
	rdt_qpair_live(qp);
}

/* Failure2: the host does not accept the controller's response. */
static void host_refused(struct rdt_qpair *qp, const uint8_t *msg, size_t len)
{
	struct nvmf_auth_failure f;
	char text[128];
	enum nvmf_auth_expl why =
		nvmf_auth_parse_failure(msg, len, NVMF_AUTH_MSG_FAILURE2, qp->auth->t_id, &f);

	if (why) {
		refuse(qp, why, NULL);
		return;
	}
	snprintf(text, sizeof(text), "the host ended the authentication: %s",
		 nvmf_auth_expl_text(f.explanation));
	atomic_fetch_add(&qp->ctrl->subsys->auth_failures, 1);
	report_auth(qp, &qp->reactor->target->refuse_limit, "not authenticated", text);
	if (qp->state == RDT_QP_AUTH) {
		set_auth_state(qp, RDT_AUTH_DELAY);
		arm(qp, delay_expired, FAIL_WAIT);
	} else {
		end_transaction(qp);
	}
}

/* ---- messages of the host ---- */

static void work_done(struct rd_msg *msg);

/* Returns the index of the first of @own that is among @offered; -1: none. */
static int choose_id(const uint8_t *own, unsigned int n_own, const uint8_t *offered,
		     unsigned int n_offered)
{
	for (unsigned int i = 0; i < n_own; i++)
		if (memchr(offered, own[i], n_offered))
			return own[i];
	return -1;
}

/* Returns whether the transaction continues when the queue pair's timer expires. */
static bool is_paced(const struct rdt_auth *a)
{
	return a->state == RDT_AUTH_PACED || a->state == RDT_AUTH_PACED_REPLY;
}

static bool is_working(const struct rdt_auth *a)
{
	return a->state == RDT_AUTH_PAIR || a->state == RDT_AUTH_SESSION ||
	       a->state == RDT_AUTH_CLAIM || is_paced(a);
}

/* A worker thread computes the next step of the transaction: @state is PAIR or SESSION. */
static void start_work(struct rdt_qpair *qp, enum rdt_auth_state state)
{
	struct rdt_auth *a = qp->auth;
	int err;

	set_auth_state(qp, state);
	a->job.qp = qp;
	a->job.msg.fn = work_done;
	err = rdt_auth_work(qp->reactor->target->auth_pool, &a->job);
	if (err)
		refuse(qp, NVMF_AUTH_FAILED,
		       err == -EBUSY
			       ? "too many authentications wait for a Diffie-Hellman computation"
			       : "no thread for Diffie-Hellman could be started");
	else /* the host waits for this computation */
		rd_timer_stop(qp->reactor->loop, &qp->timer);
}

static void auth_hang_up(struct rdt_qpair *qp)
{
	struct rdt_auth *a = qp->auth;

	if (a && is_paced(a) && a->req)
		rd_loop_post(qp->reactor->loop, &a->job.msg);
	else if (a && is_working(a))
		rdt_auth_work_cancel(qp->reactor->target->auth_pool, &a->job);
}

static void pace_expired(struct rd_timer *timer)
{
	work_done(&rd_container_of(timer, struct rdt_qpair, timer)->auth->job.msg);
}

/* Delays a host that has failed often: returns whether it continues later, from @state. Its
 * connections are not refused, because one of them may be the first one of the host that knows the
 * secret. */
static bool slow_down_guess(struct rdt_qpair *qp, enum rdt_auth_state state)
{
	struct rdt_auth *a = qp->auth;

	if (qp->state != RDT_QP_AUTH || !rdt_guess_over(qp))
		return false;
	set_auth_state(qp, state);
	a->job.qp = qp;
	a->job.msg.fn = work_done;
	a->job.err = 0;
	arm(qp, pace_expired, PACE);
	if (qp->state >= RDT_QP_CLOSING)
		set_auth_state(qp, RDT_AUTH_FAILURE);
	else if (state == RDT_AUTH_PACED)
		report_auth(qp, &qp->reactor->target->refuse_limit, "slowed down",
			    "its name or its address has failed too often");
	return true;
}

static void make_challenge(struct rdt_qpair *qp)
{
	struct rdt_auth *a = qp->auth;

	if (RAND_bytes(a->sent.cval, (int)nvmf_auth_hash_len(a->sent.hash)) != 1)
		refuse(qp, NVMF_AUTH_FAILED, "rdtarget has no random numbers");
	else if (a->sent.group == NVMF_AUTH_GROUP_NULL)
		set_auth_state(qp, RDT_AUTH_CHALLENGE);
	else
		start_work(qp, RDT_AUTH_PAIR);
}

static void choose_challenge(struct rdt_qpair *qp, uint8_t hash, uint8_t group)
{
	struct rdt_auth *a = qp->auth;

	a->sent = (struct nvmf_auth_challenge){
		.t_id = a->t_id,
		.hash = hash,
		.group = group,
		.seqnum = rdt_auth_seqnum(qp->ctrl->subsys),
		.dhv = {a->dhv, (uint16_t)nvmf_auth_group_len(group)},
	};
	if (!slow_down_guess(qp, RDT_AUTH_PACED))
		make_challenge(qp);
}

static void got_negotiate(struct rdt_qpair *qp, const uint8_t *msg, size_t len)
{
	struct nvmf_auth_negotiate m;
	enum nvmf_auth_expl why = nvmf_auth_parse_negotiate(msg, len, &m);
	struct rdt_auth_keys keys;
	int hash, group;

	if (why) {
		refuse(qp, why, NULL);
		return;
	}
	if (m.sc_c) {
		refuse(qp, NVMF_AUTH_CONCAT_MISMATCH,
		       "it asks for a key for TLS, which this target does not make: connect "
		       "without --concat, for TLS with tls_key_file and --tls");
		return;
	}
	if (!rdt_auth_keys_get(qp->ctrl->subsys, qp->ctrl->hostnqn, false, &keys)) {
		refuse(qp, NVMF_AUTH_FAILED, "the host has no key in host_auth");
		return;
	}
	hash = choose_id(keys.hashes, keys.n_hashes, m.hashes, m.n_hashes);
	group = choose_id(keys.groups, keys.n_groups, m.groups, m.n_groups);
	rdt_auth_keys_wipe(&keys);
	if (hash < 0)
		refuse(qp, NVMF_AUTH_HASH_NOT_USABLE, "it offers none of dhchap_hashes");
	else if (group < 0)
		refuse(qp, NVMF_AUTH_GROUP_NOT_USABLE, "it offers none of dhchap_dhgroups");
	else
		choose_challenge(qp, (uint8_t)hash, (uint8_t)group);
}

static const char *verify_reason(int err)
{
	switch (err) {
	case -EACCES:
		return "the host does not have the key of dhchap_key_file";
	case -ENOKEY:
		return "the host requests authentication of the controller, and has no "
		       "dhchap_ctrl_key_file";
	case -EEXIST:
		return "the host already has a controller through this listener, and "
		       "duplicate_host is \"refuse\"";
	case -EPERM:
	case -ENOMEM:
		return rdt_host_id_reason(err);
	default:
		return "libcrypto failed";
	}
}

/* ---- responses ---- */

/* Compute the controller's response (@ctrl) or the one expected from the host. */
static int compute_response(const struct nvmf_auth_key *key, const struct rdt_auth *a, bool ctrl,
			    const char *hostnqn, const char *subnqn,
			    uint8_t out[NVMF_AUTH_HASH_MAX])
{
	uint8_t transformed[NVMF_AUTH_HASH_MAX];
	struct nvmf_auth_proof proof = {
		.hash = a->sent.hash,
		.t_id = a->t_id,
		.seqnum = ctrl ? a->reply.seqnum : a->sent.seqnum,
		.key = transformed,
		.challenge = ctrl ? a->reply.cval : a->sent.cval,
		.session = a->sent.group == NVMF_AUTH_GROUP_NULL ? NULL : a->session,
		.hostnqn = hostnqn,
		.subnqn = subnqn,
	};
	int rc = nvmf_auth_key_transform(key, ctrl ? subnqn : hostnqn, transformed);

	if (rc > 0) {
		proof.key_len = (size_t)rc;
		rc = ctrl ? nvmf_auth_ctrl_response(&proof, out)
			  : nvmf_auth_host_response(&proof, out);
	}
	OPENSSL_cleanse(transformed, sizeof(transformed));
	return rc ? -EIO : 0;
}

/* Check that @a->reply is the response of a host that has @keys. If it requests authentication of
 * the controller, compute a->response. Returns 0; -EACCES: the response is wrong; -ENOKEY: there is
 * no key for the controller; -EIO: libcrypto failed. */
static int verify_response(const struct rdt_auth_keys *keys, struct rdt_auth *a,
			   const char *hostnqn, const char *subnqn)
{
	uint8_t expected[NVMF_AUTH_HASH_MAX];
	int rc = compute_response(&keys->host, a, false, hostnqn, subnqn, expected);

	if (!rc && CRYPTO_memcmp(expected, a->reply.rval, nvmf_auth_hash_len(a->sent.hash)) != 0)
		rc = -EACCES;
	OPENSSL_cleanse(expected, sizeof(expected));
	if (rc || !a->reply.cvalid)
		return rc;
	if (!keys->has_ctrl)
		return -ENOKEY;
	return compute_response(&keys->ctrl, a, true, hostnqn, subnqn, a->response);
}

static int verify_with(struct rdt_qpair *qp, bool old)
{
	struct rdt_subsys *ss = qp->ctrl->subsys;
	struct rdt_auth_keys keys;
	int err;

	if (!rdt_auth_keys_get(ss, qp->ctrl->hostnqn, old, &keys))
		return -EACCES;
	qp->auth->old_keys = old;
	err = verify_response(&keys, qp->auth, qp->ctrl->hostnqn, ss->nqn);
	rdt_auth_keys_wipe(&keys);
	return err;
}

/* Count the queue for its host. Returns false if a limit is reached; the failure is then
 * prepared. */
static bool count_authenticated(struct rdt_qpair *qp)
{
	struct rdt_peer_limit limit;
	char text[RDT_PEER_LIMIT_TEXT];

	if (qp->state != RDT_QP_AUTH)
		return true;
	rdt_peer_leave(qp);
	if (!rdt_peer_join(qp, qp->ctrl->hostnqn, true, &limit))
		return true;
	refuse(qp, NVMF_AUTH_FAILED, rdt_peer_limit_text(&limit, text));
	return false;
}

/* The controller's owner has replied to the request for the queue ID. */
static void claim_answered(struct rdt_attach *at)
{
	struct rdt_qpair *qp = at->qp;
	struct rdt_req *req = qp->auth->req;

	at->ctrl = NULL;
	qp->auth->req = NULL;
	if (qp->state < RDT_QP_CLOSING) {
		auth_await(qp);
		if (nvme_status_ok(at->status))
			set_auth_state(qp, RDT_AUTH_SUCCESS1);
		else
			refuse(qp, NVMF_AUTH_FAILED,
			       "another queue of the host has its queue ID, or its controller has "
			       "ended");
	}
	rdt_req_complete(req);
}

static void claim_msg(struct rd_msg *msg)
{
	rdt_ctrl_attach(rd_container_of(msg, struct rdt_attach, msg));
}

/* Request the queue ID of a queue that has authenticated. */
static void claim_qid(struct rdt_qpair *qp)
{
	struct rdt_attach *at = &qp->attach;

	set_auth_state(qp, RDT_AUTH_CLAIM);
	rd_timer_stop(qp->reactor->loop, &qp->timer);
	at->ctrl = qp->ctrl;
	at->guest = false;
	at->attached = claim_answered;
	at->msg.fn = claim_msg;
	rd_loop_post(qp->ctrl->owner->loop, &at->msg);
}

static int verify_any(struct rdt_qpair *qp)
{
	int err = verify_with(qp, false);

	if (err == -EACCES)
		err = verify_with(qp, true);
	if (err != -EACCES && qp->state == RDT_QP_AUTH)
		rdt_guess_right(qp);
	return err;
}

static void check_response(struct rdt_qpair *qp)
{
	struct rdt_auth *a = qp->auth;
	int err;

	if (qp->state == RDT_QP_AUTH)
		rdt_guess_count(qp);
	err = verify_any(qp);
	if (!err && !count_authenticated(qp))
		return;
	if (!err && qp->admin)
		err = rdt_subsys_ctrl_authenticated(qp->ctrl->subsys, qp->ctrl);
	if (err) {
		refuse(qp, NVMF_AUTH_FAILED, verify_reason(err));
		return;
	}
	a->cvalid = a->reply.cvalid;
	if (qp->attach.guest)
		claim_qid(qp);
	else
		set_auth_state(qp, RDT_AUTH_SUCCESS1);
}

static void verify_reply(struct rdt_qpair *qp)
{
	if (!slow_down_guess(qp, RDT_AUTH_PACED_REPLY))
		check_response(qp);
}

static void got_reply(struct rdt_qpair *qp, const uint8_t *msg, size_t len)
{
	struct rdt_auth *a = qp->auth;
	enum nvmf_auth_expl why = nvmf_auth_parse_reply(msg, len, &a->sent, &a->reply);

	if (why) {
		refuse(qp, why, NULL);
		return;
	}
	if (a->sent.group == NVMF_AUTH_GROUP_NULL) {
		verify_reply(qp);
		return;
	}
	/* Copy the values of the message, which is freed before the worker thread needs them. */
	memcpy(a->peer_dhv, a->reply.dhv.value, a->reply.dhv.len);
	a->reply.dhv.value = a->peer_dhv;
	start_work(qp, RDT_AUTH_SESSION);
}

static void continue_after_work(struct rdt_qpair *qp, int err)
{
	auth_await(qp);
	if (err == -EBADMSG && qp->state == RDT_QP_AUTH)
		rdt_guess_count(qp);
	if (err == -EBADMSG)
		refuse(qp, NVMF_AUTH_INCORRECT_PAYLOAD,
		       "its Diffie-Hellman value is no public value of the group");
	else if (err)
		refuse(qp, NVMF_AUTH_FAILED, "libcrypto failed");
	else if (qp->auth->state == RDT_AUTH_PACED)
		make_challenge(qp);
	else if (qp->auth->state == RDT_AUTH_PAIR)
		set_auth_state(qp, RDT_AUTH_CHALLENGE);
	else if (qp->auth->state == RDT_AUTH_SESSION)
		verify_reply(qp);
	else
		check_response(qp);
}

static void work_done(struct rd_msg *msg)
{
	struct rdt_auth *a = rd_container_of(msg, struct rdt_auth, job.msg);
	struct rdt_req *req = a->req;
	bool ends = req->qp->state >= RDT_QP_CLOSING;

	a->req = NULL;
	if (!ends)
		continue_after_work(req->qp, a->job.err);
	if (!ends && is_working(a)) /* the next step */
		a->req = req;
	else
		rdt_req_complete(req);
}

static void got_success2(struct rdt_qpair *qp, const uint8_t *msg, size_t len)
{
	enum nvmf_auth_expl why = nvmf_auth_parse_success2(msg, len, qp->auth->t_id);

	if (why)
		refuse(qp, why, NULL);
	else
		authenticated(qp);
}

static bool make_transaction(struct rdt_qpair *qp)
{
	if (!qp->auth)
		qp->auth = calloc(1, sizeof(*qp->auth));
	if (!qp->auth)
		rdt_qpair_close(qp, "out of memory");
	return qp->auth;
}

/* After a failure, messages have no effect, so that a host cannot keep the queue pair open with
 * them. */
static bool has_failed(const struct rdt_auth *a)
{
	return a->state == RDT_AUTH_FAILURE || a->state == RDT_AUTH_DELAY;
}

static void dispatch(struct rdt_qpair *qp, const uint8_t *msg, size_t len)
{
	enum rdt_auth_state state = qp->auth->state;
	struct nvmf_auth_head head;

	if (!msg || nvmf_auth_parse_head(msg, len, &head)) {
		refuse(qp, NVMF_AUTH_INCORRECT_PAYLOAD, NULL);
	} else if (head.msg == NVMF_AUTH_MSG_NEGOTIATE && state == RDT_AUTH_IDLE) {
		qp->auth->t_id = head.t_id;
		got_negotiate(qp, msg, len);
	} else if (head.msg == NVMF_AUTH_MSG_REPLY && state == RDT_AUTH_REPLY) {
		got_reply(qp, msg, len);
	} else if (head.msg == NVMF_AUTH_MSG_SUCCESS2 && state == RDT_AUTH_SUCCESS2) {
		got_success2(qp, msg, len);
	} else if (head.msg == NVMF_AUTH_MSG_FAILURE2 && state != RDT_AUTH_IDLE) {
		host_refused(qp, msg, len);
	} else {
		refuse(qp, NVMF_AUTH_INCORRECT_MESSAGE, NULL);
	}
}

enum rdt_exec rdt_auth_received(struct rdt_req *req, const uint8_t *msg, size_t len)
{
	struct rdt_qpair *qp = req->qp;

	if (!make_transaction(qp) || has_failed(qp->auth))
		return RDT_EXEC_DONE;
	if (is_working(qp->auth)) {
		req->status = rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_CMD_SEQ_ERROR, 0);
		return RDT_EXEC_DONE;
	}
	auth_await(qp);
	dispatch(qp, msg, len);
	if (!qp->auth || !is_working(qp->auth))
		return RDT_EXEC_DONE;
	qp->auth->req = req;
	return RDT_EXEC_PENDING;
}

/* ---- messages to the host ---- */

static size_t build_answer(const struct rdt_auth *a, uint8_t msg[NVMF_AUTH_MSG_MAX])
{
	struct nvmf_auth_success1 success = {a->t_id, a->sent.hash, a->cvalid, {0}};

	switch (a->state) {
	case RDT_AUTH_CHALLENGE:
		return nvmf_auth_build_challenge(&a->sent, msg);
	case RDT_AUTH_SUCCESS1:
		memcpy(success.rval, a->response, sizeof(success.rval));
		return nvmf_auth_build_success1(&success, msg);
	default:
		return nvmf_auth_build_failure(NVMF_AUTH_MSG_FAILURE1, a->t_id, a->why, msg);
	}
}

/* The host has received the message. */
static void answered(struct rdt_qpair *qp)
{
	switch (qp->auth->state) {
	case RDT_AUTH_CHALLENGE:
		set_auth_state(qp, RDT_AUTH_REPLY);
		auth_await(qp);
		break;
	case RDT_AUTH_SUCCESS1:
		if (qp->auth->cvalid) {
			set_auth_state(qp, RDT_AUTH_SUCCESS2);
			auth_await(qp);
		} else {
			authenticated(qp);
		}
		break;
	case RDT_AUTH_FAILURE:
		if (qp->state == RDT_QP_AUTH) {
			set_auth_state(qp, RDT_AUTH_DELAY);
			arm(qp, delay_expired, FAIL_WAIT);
		} else {
			end_transaction(qp);
		}
		break;
	}
}

int rdt_auth_fetch(struct rdt_qpair *qp, uint8_t *buf, size_t size)
{
	uint8_t msg[NVMF_AUTH_MSG_MAX];
	size_t len;

	if (!make_transaction(qp))
		return 0;
	if (is_working(qp->auth))
		return -EBUSY;
	if (qp->auth->state == RDT_AUTH_IDLE || qp->auth->state == RDT_AUTH_REPLY ||
	    qp->auth->state == RDT_AUTH_SUCCESS2)
		refuse(qp, NVMF_AUTH_INCORRECT_MESSAGE, "there is nothing to receive");
	len = build_answer(qp->auth, msg);
	if (len > size)
		return -EMSGSIZE;
	memcpy(buf, msg, len);
	memset(buf + len, 0, size - len);
	answered(qp);
	return 0;
}

const struct rdt_auth_ops rdt_auth_ops = {
	.required = auth_required,
	.await = auth_await,
	.hang_up = auth_hang_up,
	.fini = auth_fini,
};
