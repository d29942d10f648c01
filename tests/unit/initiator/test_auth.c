/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authentication by the library's calls: options, again while commands go on, freed in the middle.
 * The computations and what hostile controllers send are tested elsewhere.
 */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nvmf/auth_calc.h"
#include "nvmf/auth_key.h"
#include "nvmf/auth_msg.h"
#include "rdinit_auth.h"
#include "suites.h"
#include "t_dev.h"
#include "t_fake.h"

#define SECRET "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
#define OTHER  "DHHC-1:01:gIGCg4SFhoeIiYqLjI2Oj5CRkpOUlZaXmJmam5ydnp9vmVbU:"

/* The controller: one-way, SHA-256; reset by auth_reset(). */
static struct {
	const char *secret;
	uint8_t group;
	bool demand;
	unsigned int negotiates, replies, failures;
	unsigned int shut; /* so many I/O commands are refused, until the next authentication */
	unsigned int refused;
	uint16_t shut_status;
	bool hold_reply; /* as the next, for the proof of the host only */
	bool hold; /* the answer to the next Authentication Send is not sent, but kept here: */
	struct t_conn *held_conn;
	struct nvme_sqe held;
	/* of the transaction in progress, of any queue: tests run one at a time */
	uint16_t t_id;
	bool replied, right;
} peer;

static const uint8_t peer_challenge[32] = {1, 2, 3};

static void peer_reply(const uint8_t *msg, size_t len)
{
	struct nvmf_auth_challenge sent = {
		.t_id = peer.t_id, .hash = NVMF_AUTH_SHA256, .group = peer.group, .seqnum = 7};
	uint8_t key[NVMF_AUTH_HASH_MAX], want[NVMF_AUTH_HASH_MAX];
	struct nvmf_auth_key secret;
	struct nvmf_auth_reply reply;
	struct nvmf_auth_proof p = {
		.hash = NVMF_AUTH_SHA256,
		.t_id = peer.t_id,
		.seqnum = 7,
		.key = key,
		.challenge = peer_challenge,
		.hostnqn = "nqn.2024-01.test:host",
		.subnqn = "nqn.2024-01.test:x",
	};

	CU_ASSERT_EQUAL(nvmf_auth_parse_reply(msg, len, &sent, &reply), NVMF_AUTH_OK);
	CU_ASSERT_PTR_NULL_FATAL(nvmf_auth_key_parse(peer.secret, &secret));
	p.key_len = (size_t)nvmf_auth_key_transform(&secret, p.hostnqn, key);
	CU_ASSERT_EQUAL(nvmf_auth_host_response(&p, want), 0);
	peer.right = memcmp(want, reply.rval, 32) == 0;
	peer.replied = true;
	peer.replies++;
}

static void peer_sent(const uint8_t *msg, size_t len)
{
	struct nvmf_auth_negotiate n;
	struct nvmf_auth_head head;

	CU_ASSERT_EQUAL_FATAL(nvmf_auth_parse_head(msg, len, &head), NVMF_AUTH_OK);
	if (head.msg == NVMF_AUTH_MSG_NEGOTIATE) {
		CU_ASSERT_EQUAL(nvmf_auth_parse_negotiate(msg, len, &n), NVMF_AUTH_OK);
		peer.t_id = n.t_id;
		peer.replied = false;
		peer.negotiates++;
	} else if (head.msg == NVMF_AUTH_MSG_REPLY) {
		peer_reply(msg, len);
	} else {
		CU_ASSERT_EQUAL(head.msg, NVMF_AUTH_MSG_FAILURE2);
		peer.failures++;
	}
}

static void peer_answer(uint8_t *msg)
{
	struct nvmf_auth_challenge c = {
		.t_id = peer.t_id, .hash = NVMF_AUTH_SHA256, .group = peer.group, .seqnum = 7};
	struct nvmf_auth_success1 s = {.t_id = peer.t_id, .hash = NVMF_AUTH_SHA256};
	uint8_t value[NVMF_AUTH_DHV_MAX] = {0};

	value[nvmf_auth_group_len(peer.group) ? nvmf_auth_group_len(peer.group) - 1 : 0] = 2;
	c.dhv = (struct nvmf_auth_dhv){value, (uint16_t)nvmf_auth_group_len(peer.group)};
	memcpy(c.cval, peer_challenge, sizeof(peer_challenge));
	if (!peer.replied)
		nvmf_auth_build_challenge(&c, msg);
	else if (peer.right)
		nvmf_auth_build_success1(&s, msg);
	else
		nvmf_auth_build_failure(NVMF_AUTH_MSG_FAILURE1, peer.t_id, NVMF_AUTH_FAILED, msg);
}

static bool auth_hook(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		      const void *data, size_t len)
{
	uint8_t buf[NVMF_AUTH_TRANSFER] = {0};
	size_t size = le32toh(((const struct nvmf_auth_sqe *)(const void *)sqe)->len);

	if (sqe->opcode != NVMF_OPCODE && peer.shut) {
		peer.shut--;
		peer.refused++;
		t_answer(conn, sqe, 0, peer.shut_status);
		return true;
	}
	if (sqe->opcode != NVMF_OPCODE)
		return false;
	if (sqe->fctype == nvme_fabrics_type_connect && peer.demand) {
		t_answer(conn, sqe, 1u << 17 | 1, 0);
		return true;
	}
	if (sqe->fctype == nvme_fabrics_type_auth_send) {
		if (data)
			memcpy(buf, data, len < size ? len : size);
		else
			CU_ASSERT_TRUE(t_read_host(f, sqe, buf, size));
		peer_sent(buf, size);
		if (peer.hold || (peer.hold_reply && peer.replied)) {
			peer.held = *sqe;
			peer.held_conn = conn;
			peer.hold = peer.hold_reply = false;
			return true;
		}
		t_answer(conn, sqe, 0, 0);
		return true;
	}
	if (sqe->fctype != nvme_fabrics_type_auth_receive)
		return false;
	peer_answer(buf);
	CU_ASSERT_TRUE(t_write_host(f, sqe, buf, size));
	t_answer(conn, sqe, 0, 0);
	return true;
}

static void auth_reset(void)
{
	t_fake_reset();
	memset(&peer, 0, sizeof(peer));
	peer.secret = SECRET;
	peer.demand = true;
	t_fake.hook = auth_hook;
}

static struct rdinit_ctrl *auth_ctrl(void)
{
	struct rdinit_auth_opts auth;
	struct rdinit_ctrl_opts opts;

	rdinit_auth_opts_init(&auth);
	auth.secret = SECRET;
	t_ctrl_opts(&opts, 1);
	opts.auth = &auth;
	return t_ctrl_by(&opts);
}

static void each_queue_authenticates_once(void)
{
	struct rdinit_ctrl *ctrl;
	struct rdinit_qpair *qp;

	auth_reset();
	ctrl = auth_ctrl();
	CU_ASSERT_EQUAL(peer.replies, 1);
	qp = t_qpair(ctrl, 16);
	CU_ASSERT_EQUAL(peer.replies, 2);
	CU_ASSERT_EQUAL(rdinit_qpair_depth(qp), 14); /* one entry is kept */
	rdinit_ctrl_free(&ctrl);                     /* the secrets stay for the queue pair */
	CU_ASSERT_EQUAL(rdinit_qpair_authenticate(qp, NULL), 0);
	CU_ASSERT_EQUAL(peer.replies, 3);
	rdinit_qpair_free(&qp);
	CU_ASSERT_EQUAL(t_fake.mrs, 0);
	CU_ASSERT_EQUAL(t_fake.violations, 0);
}

static void again_with_other_secrets(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = NULL;
	struct rdinit_auth_opts auth;

	auth_reset();
	ctrl = auth_ctrl();
	qp = t_qpair(ctrl, 16);
	peer.secret = OTHER;
	CU_ASSERT_EQUAL(rdinit_ctrl_authenticate(ctrl, NULL), -EKEYREJECTED);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "nqn.2024-01.test:host"));
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "authentication failed"));
	CU_ASSERT_EQUAL(rdinit_qpair_authenticate(qp, NULL), -EKEYREJECTED);
	/* What was there before a failure is still there. */
	CU_ASSERT_EQUAL(rdinit_flush(qp, &t_ns), 0);
	rdinit_auth_opts_init(&auth);
	auth.secret = OTHER;
	CU_ASSERT_EQUAL(rdinit_ctrl_authenticate(ctrl, &auth), 0);
	CU_ASSERT_EQUAL(rdinit_qpair_authenticate(qp, &auth), 0);
	CU_ASSERT_EQUAL(rdinit_qpair_authenticate(qp, NULL), 0);
	CU_ASSERT_EQUAL(rdinit_flush(qp, &t_ns), 0);
}

static void not_now(void)
{
	struct rdinit_ctrl *ctrl;
	struct t_done done = {0};

	auth_reset();
	ctrl = auth_ctrl();
	CU_ASSERT_EQUAL(rdinit_ctrl_authenticate_async(ctrl, NULL, NULL, NULL), -EINVAL);
	peer.hold = true;
	CU_ASSERT_EQUAL(rdinit_ctrl_authenticate_async(ctrl, NULL, t_done_fn, &done), 0);
	CU_ASSERT_EQUAL(rdinit_ctrl_authenticate(ctrl, NULL), -EBUSY);
	while (peer.hold)
		rdinit_ctrl_process(ctrl, 0);
	CU_ASSERT_EQUAL(done.calls, 0);
	rdinit_ctrl_free(&ctrl);
	T_ENDED(done, -ECANCELED);
	CU_ASSERT_EQUAL(t_fake.mrs, 0);

	auth_reset();
	peer.demand = false;
	ctrl = t_ctrl(1);
	CU_ASSERT_EQUAL(rdinit_ctrl_authenticate(ctrl, NULL), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "has no secret"));
	rdinit_ctrl_free(&ctrl);
}

static void lost_in_the_middle(void)
{
	T_CTRL(ctrl) = NULL;
	struct t_done done = {0};

	auth_reset();
	ctrl = auth_ctrl();
	peer.hold = true;
	CU_ASSERT_EQUAL(rdinit_ctrl_authenticate_async(ctrl, NULL, t_done_fn, &done), 0);
	while (peer.hold)
		rdinit_ctrl_process(ctrl, 0);
	t_break(peer.held_conn, -ECONNRESET);
	while (!done.calls)
		rdinit_ctrl_process(ctrl, 0);
	CU_ASSERT_EQUAL(done.err, -ECONNRESET);
}

/* The controller has withdrawn the authentication of a queue that is in use. */
static void asked_for_again(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = NULL;
	unsigned char data[2 * T_DISK_BLOCK], back[2 * T_DISK_BLOCK];
	struct t_done done[3] = {{0}};
	unsigned int i;

	auth_reset();
	ctrl = auth_ctrl();
	qp = t_qpair(ctrl, 16);
	t_advance(&t_fake, 2000);
	memset(data, 0x5a, sizeof(data));
	peer.shut = 3;
	peer.shut_status = 0x191; /* Authentication Required, and not DNR */
	CU_ASSERT_EQUAL(rdinit_write_async(qp, &t_ns, 4, 2, data, 0, t_done_fn, &done[0]), 0);
	CU_ASSERT_EQUAL(rdinit_flush_async(qp, &t_ns, t_done_fn, &done[1]), 0);
	CU_ASSERT_EQUAL(rdinit_read_async(qp, &t_ns, 8, 2, back, 0, t_done_fn, &done[2]), 0);
	while (!done[0].calls || !done[1].calls || !done[2].calls)
		rdinit_qpair_process(qp, 0);
	for (i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(done[i].err, 0);
	CU_ASSERT_EQUAL(peer.refused, 3);
	CU_ASSERT_EQUAL(peer.replies, 3); /* one for each queue, and one more */
	CU_ASSERT_EQUAL(rdinit_read(qp, &t_ns, 4, 2, back, 0), 0);
	CU_ASSERT_EQUAL(memcmp(data, back, sizeof(data)), 0);
}

static void not_always_again(void)
{
	T_CTRL(ctrl) = NULL;
	struct rdinit_qpair *qp;
	struct t_done done = {0};

	auth_reset();
	ctrl = auth_ctrl();
	qp = t_qpair(ctrl, 16);
	peer.shut_status = 0x191;
	/* Not at once after the last time, nor with DNR, nor when the new proof is refused. */
	peer.shut = 1;
	CU_ASSERT_EQUAL(rdinit_flush(qp, &t_ns), -EIO);
	CU_ASSERT_EQUAL(rdinit_last_status(), 0x191);
	t_advance(&t_fake, 2000);
	peer.shut = 1;
	peer.shut_status = 0x4191;
	CU_ASSERT_EQUAL(rdinit_flush(qp, &t_ns), -EIO);
	CU_ASSERT_EQUAL(peer.replies, 2);
	peer.shut = 1;
	peer.shut_status = 0x191;
	peer.secret = OTHER;
	CU_ASSERT_EQUAL(rdinit_flush(qp, &t_ns), -EIO);
	CU_ASSERT_EQUAL(rdinit_last_status(), 0x191);
	CU_ASSERT_EQUAL(peer.replies, 3);
	/* The queue ends while a command waits. */
	peer.shut = 1;
	peer.hold = true;
	done.calls = 0;
	CU_ASSERT_EQUAL(rdinit_flush_async(qp, &t_ns, t_done_fn, &done), 0);
	while (peer.hold)
		rdinit_qpair_process(qp, 0);
	CU_ASSERT_EQUAL(done.calls, 0);
	rdinit_qpair_free(&qp);
	T_ENDED(done, -ECANCELED);
}

/* A controller with Diffie-Hellman on its thread, and no command in flight. */
static struct rdinit_ctrl *computing_ctrl(struct t_done *done)
{
	struct rdinit_ctrl *ctrl;
	unsigned int n;

	auth_reset();
	ctrl = auth_ctrl();
	peer.group = NVMF_AUTH_FFDHE8192;
	n = t_fake.n_log;
	CU_ASSERT_EQUAL(rdinit_ctrl_authenticate_async(ctrl, NULL, t_done_fn, done), 0);
	while (t_fake.n_log < n + 2)
		rdinit_ctrl_process(ctrl, 0);
	rdinit_ctrl_process(ctrl, 0);
	return ctrl;
}

static void freed_while_it_is_computed(void)
{
	struct t_done freed = {0}, lost = {0};
	struct rdinit_ctrl *ctrl = computing_ctrl(&freed);

	CU_ASSERT_PTR_NOT_NULL(ctrl->q.auth);
	CU_ASSERT_EQUAL(ctrl->q.inflight, 0);
	rdinit_ctrl_free(&ctrl);
	T_ENDED(freed, -ECANCELED);

	ctrl = computing_ctrl(&lost);
	t_break(t_fake.last_conn[0], -ECONNRESET);
	while (!lost.calls)
		rdinit_ctrl_process(ctrl, 0);
	CU_ASSERT_EQUAL(lost.err, -ECONNRESET);
	CU_ASSERT_PTR_NULL(ctrl->q.auth);
	rdinit_ctrl_free(&ctrl);
}

/* A path comes back with the secrets that the device has then. */
static void devices_change_secrets(void)
{
	T_DEV(d);
	struct rdinit_auth_opts auth;

	auth_reset();
	rdinit_auth_opts_init(&auth);
	auth.secret = SECRET;
	d.ctrl_opts.auth = &auth;
	t_dev_open(&d, 1);
	CU_ASSERT_EQUAL(peer.replies, 2); /* the controller, and the channel's queue */
	peer.secret = OTHER;
	t_break(t_conn_to(&t_fake, 1, false), -ECONNRESET);
	t_dev_pass(&d, 30000);
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_WAITING);
	CU_ASSERT_TRUE(peer.replies > 3); /* it is tried again: it may be a matter of time */
	CU_ASSERT_EQUAL(rdinit_dev_set_auth(d.dev, NULL), -EINVAL);
	auth.secret = OTHER;
	CU_ASSERT_EQUAL(rdinit_dev_set_auth(d.dev, &auth), 0);
	t_dev_pass(&d, 30000);
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_LIVE);
}

/* One that has never worked is given up, until somebody asks for it. */
static void devices_give_up(void)
{
	T_DEV(d);
	struct rdinit_auth_opts auth;

	auth_reset();
	rdinit_auth_opts_init(&auth);
	auth.secret = OTHER;
	d.ctrl_opts.auth = &auth;
	t_dev_create(&d, 1);
	CU_ASSERT_EQUAL(rdinit_dev_open(d.dev), -EKEYREJECTED);
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_FAILED);
}

static void options_are_checked(void)
{
	struct rdinit_auth_opts auth;
	struct rdinit_ctrl_opts opts;
	struct rdinit_ctrl *ctrl;
	int fds[2];

	auth_reset();
	t_ctrl_opts(&opts, 1);
	opts.auth = &auth;
	rdinit_auth_opts_init(&auth);
#define REFUSED(word)                                                                \
	do {                                                                         \
		CU_ASSERT_EQUAL(rdi_ctrl_create_env(&opts, &t_env, &ctrl), -EINVAL); \
		CU_ASSERT_PTR_NULL(ctrl);                                            \
		CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), word));            \
	} while (0)
	REFUSED("no secret of the host");
	auth.secret_file = "";
	REFUSED("secret: the name of its file is empty");
	auth.secret = SECRET;
	auth.secret_file = "/nonexistent";
	REFUSED("given twice");
	auth.secret_file = NULL;
	auth.hashes = 1u << 4;
	REFUSED("hashes 0x10");
	auth.hashes = 0;
	auth.groups = 1u << 6;
	REFUSED("groups 0x40");
	auth.groups = 0;
	auth.size = 8;
	REFUSED("_init");
	rdinit_auth_opts_init(&auth);
	auth.size += 8;
	REFUSED("newer");
	/* A descriptor, of which the first line counts. */
	rdinit_auth_opts_init(&auth);
	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	CU_ASSERT_EQUAL(write(fds[1], SECRET "\nmore", sizeof(SECRET) + 4),
			(ssize_t)sizeof(SECRET) + 4);
	auth.secret_fd = fds[0];
	auth.groups = 1u << RDINIT_DHCHAP_GROUP_NULL;
	ctrl = t_ctrl_by(&opts);
	CU_ASSERT_EQUAL(peer.replies, 1);
	rdinit_ctrl_free(&ctrl);
	close(fds[0]);
	close(fds[1]);
	/* The controller chooses a group that is not among those offered. */
	auth.secret_fd = -1;
	auth.secret = SECRET;
	peer.group = NVMF_AUTH_FFDHE2048;
	CU_ASSERT_EQUAL_FATAL(rdi_ctrl_create_env(&opts, &t_env, &ctrl), 0);
	CU_ASSERT_EQUAL(rdinit_ctrl_connect(ctrl), -EKEYREJECTED);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "did not offer"));
	CU_ASSERT_EQUAL(peer.failures, 1);
	rdinit_ctrl_free(&ctrl);
}

/* The target closes the connection @ms after it has the host's proof. */
static void closed_after_the_proof(unsigned int ms, const char *says, const char *says_not)
{
	struct t_done done = {0};
	struct rdinit_ctrl *ctrl;

	auth_reset();
	ctrl = auth_ctrl();
	peer.hold_reply = true;
	CU_ASSERT_EQUAL(rdinit_ctrl_authenticate_async(ctrl, NULL, t_done_fn, &done), 0);
	while (peer.hold_reply)
		CU_ASSERT_EQUAL_FATAL(rdinit_ctrl_process(ctrl, 0), 0);
	t_advance(&t_fake, ms);
	CU_ASSERT_EQUAL(rdinit_ctrl_process(ctrl, 0), 0);
	t_break(peer.held_conn, -ECONNRESET);
	rdinit_ctrl_process(ctrl, 0);
	CU_ASSERT_EQUAL(done.calls, 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(done.text, says));
	CU_ASSERT_PTR_NULL(strstr(done.text, says_not));
	rdinit_ctrl_free(&ctrl);
}

static void a_slow_authentication_does_not_doubt_the_secret(void)
{
	closed_after_the_proof(100, "is the secret the one", "had not ended");
	closed_after_the_proof(6000, "had not ended after 6", "is the secret the one");
}

const struct t_case t_auth_cases[] = {
	{"a slow authentication does not doubt the secret",
	 a_slow_authentication_does_not_doubt_the_secret},
	{"each queue authenticates once, and again when asked", each_queue_authenticates_once},
	{"again with other secrets; a failure ends nothing", again_with_other_secrets},
	{"not twice at the same time, nor without a secret", not_now},
	{"a connection that is lost in the middle", lost_in_the_middle},
	{"commands wait when the controller asks for it again", asked_for_again},
	{"but not always", not_always_again},
	{"freed, or lost, while Diffie-Hellman is computed", freed_while_it_is_computed},
	{"devices change their secrets", devices_change_secrets},
	{"a path whose secret never was right is given up", devices_give_up},
	{"options and secrets are checked", options_are_checked},
	{NULL, NULL},
};
