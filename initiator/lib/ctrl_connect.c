/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A controller from an established admin queue to ready, and through its shutdown: one command for
 * each state, one function for each completion (Fabrics 2.2, Base 3.5 and 3.6).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "auth.h"

#define POLL_FIRST_NS   (1 * RD_NSEC_PER_MSEC)
#define POLL_MAX_NS     (64 * RD_NSEC_PER_MSEC)
#define SHUTDOWN_MIN_NS (5 * RD_NSEC_PER_SEC)
#define SHUTDOWN_MAX_NS (60 * RD_NSEC_PER_SEC)
#define CAP_TO_UNIT_NS  (500 * RD_NSEC_PER_MSEC)
#define CC_ENTRY_SIZES  (6u << NVME_CC_IOSQES_SHIFT | 4u << NVME_CC_IOCQES_SHIFT)
#define CC_SHN_NORMAL   (1u << NVME_CC_SHN_SHIFT)
/* Events that are enabled: namespace attributes, firmware, ANA, discovery log (Base 5.27.1.8). */
#define AEN_WANTED (1u << 8 | 1u << 9 | 1u << 11 | 1u << 31)

static void on_answer(void *user, const struct rdinit_completion *c);

/* Fails the connect with the controller's status (0: none), and ends the queue. */
static void connect_fail(struct rdinit_ctrl *ctrl, int err, uint16_t status, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static void connect_fail(struct rdinit_ctrl *ctrl, int err, uint16_t status, const char *fmt, ...)
{
	char what[RDI_TEXT - RD_ADDR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	ctrl->fail_status = status;
	rdi_queue_fail(&ctrl->q, err, "%s: %s", ctrl->q.remote, what);
}

/* Ends the queue if the command of a state could not be sent. */
static void sent(struct rdinit_ctrl *ctrl, int rc)
{
	if (!rc)
		return;
	if (ctrl->state >= RDI_CTRL_SHUTDOWN && !ctrl->shutdown_err)
		ctrl->shutdown_err = rc;
	if (ctrl->state >= RDI_CTRL_SHUTDOWN)
		rdi_queue_fail(&ctrl->q, -ENOTCONN, "%s: disconnected", ctrl->q.remote);
	else
		connect_fail(ctrl, rc, 0, "%s", rdi_queue_why(&ctrl->q, rc));
}

static int submit_admin(struct rdinit_ctrl *ctrl, const struct nvme_sqe *sqe, void *data,
			uint32_t len, rdinit_complete_fn fn)
{
	struct rdi_cmd cmd = {
		.sqe = *sqe,
		.data = data,
		.len = len,
		.dir = len ? RDI_IN : RDI_NONE,
		.how = RDI_INTERNAL,
		.fn = fn,
		.user = ctrl,
	};

	return rdi_queue_submit(&ctrl->q, &cmd);
}

static void connect_set_feature(struct rdinit_ctrl *ctrl, enum rdi_ctrl_state state, uint8_t fid,
				uint32_t value)
{
	struct nvme_sqe sqe = {
		.opcode = nvme_admin_set_features,
		.cdw10 = htole32(fid),
		.cdw11 = htole32(value),
	};

	rdi_ctrl_set_state(ctrl, state);
	sent(ctrl, submit_admin(ctrl, &sqe, NULL, 0, on_answer));
}

static void connect_get_property(struct rdinit_ctrl *ctrl, enum rdi_ctrl_state state,
				 uint32_t offset, bool wide)
{
	rdi_ctrl_set_state(ctrl, state);
	sent(ctrl, rdi_property_get(&ctrl->q, offset, wide, on_answer, ctrl));
}

static void set_cc(struct rdinit_ctrl *ctrl, enum rdi_ctrl_state state, uint32_t cc)
{
	rdi_ctrl_set_state(ctrl, state);
	ctrl->cc = cc;
	sent(ctrl, rdi_property_set(&ctrl->q, NVME_REG_CC, cc, on_answer, ctrl));
}

/* ---- asynchronous events and keep-alive ---- */

static void aer_submit(struct rdinit_ctrl *ctrl);

static void aer_done(void *user, const struct rdinit_completion *c)
{
	struct rdinit_ctrl *ctrl = user;

	ctrl->aer_out = false;
	if (c->err) {
		rd_debug(ctrl->h.log, RD_LOG_INIT, "no further asynchronous events: %s", c->text);
		return;
	}
	ctrl->q.callbacks++;
	ctrl->event_fn(ctrl->event_user, (uint32_t)c->result);
	if (ctrl->state == RDI_CTRL_READY)
		aer_submit(ctrl);
}

static void aer_submit(struct rdinit_ctrl *ctrl)
{
	struct rdi_cmd cmd = {
		.sqe = {.opcode = nvme_admin_async_event},
		.timeout_ns = UINT64_MAX, /* pending until the controller has an event */
		.how = RDI_INTERNAL,
		.fn = aer_done,
		.user = ctrl,
	};

	if (!ctrl->aer_out && rdi_queue_submit(&ctrl->q, &cmd) == 0)
		ctrl->aer_out = true;
}

static void keep_alive_done(void *user, const struct rdinit_completion *c)
{
	struct rdinit_ctrl *ctrl = user;

	ctrl->keep_alive_out = false;
	if (c->err == -EIO)
		rd_warn(ctrl->h.log, RD_LOG_INIT, "%s: %s", ctrl->q.remote, c->text);
}

/*
 * A Keep Alive is sent every half of the timeout, and has the whole timeout to be answered: a
 * target that is gone without a word is noticed within 1.5 times the timeout, as by the Linux host.
 */
void rdi_ctrl_keep_alive(struct rd_timer *timer)
{
	struct rdinit_ctrl *ctrl = rd_container_of(timer, struct rdinit_ctrl, keep_alive);
	uint64_t kato = ctrl->kato_ms * RD_NSEC_PER_MSEC;
	struct rdi_cmd cmd = {
		.sqe = {.opcode = nvme_admin_keep_alive},
		.timeout_ns = 2 * kato, /* this timer ends it earlier */
		.how = RDI_INTERNAL,
		.fn = keep_alive_done,
		.user = ctrl,
	};
	uint64_t period, now, away;
	bool traffic_based;

	ctrl->q.ops->poll(&ctrl->q); /* an answer that has arrived already is in time */
	if (ctrl->q.state >= RDI_Q_CLOSING)
		return;
	traffic_based = ctrl->traffic && le32toh(ctrl->id.ctratt) & NVME_CTRL_CTRATT_TBKAS;
	/* Traffic just after one check counts only at the next one, so check twice as often. */
	period = traffic_based ? kato / 4 : kato / 2;
	now = rd_loop_now_raw(ctrl->h.loop);
	away = now - ctrl->keep_alive_looked;
	ctrl->keep_alive_looked = now;
	rd_timer_start(ctrl->h.loop, timer, period);
	if (ctrl->keep_alive_out) {
		/* After a time without process calls the answer may still be in the socket. */
		if (now - ctrl->keep_alive_at >= kato && away < 2 * period)
			rdi_queue_fail(&ctrl->q, -ETIMEDOUT,
				       "%s: no answer to Keep Alive in time (is the target still "
				       "alive?)",
				       ctrl->q.remote);
		return;
	}
	/* A controller refuses admin commands until it is enabled. */
	if (ctrl->state < RDI_CTRL_IDENTIFY || (traffic_based && ctrl->traffic(ctrl)))
		return;
	if (cmd.timeout_ns > ctrl->q.cfg.cmd_timeout_ns)
		cmd.timeout_ns = ctrl->q.cfg.cmd_timeout_ns;
	ctrl->keep_alive_out = rdi_queue_submit(&ctrl->q, &cmd) == 0;
	ctrl->keep_alive_at = now;
}

/* ---- the states, in order ---- */

void rdi_ctrl_established(struct rdi_queue *q)
{
	struct rdinit_ctrl *ctrl = rd_container_of(q, struct rdinit_ctrl, q);
	struct rdi_connect_arg arg = {
		.sqsize = (uint16_t)(q->depth - 1),
		.cntlid = NVMF_CNTLID_DYNAMIC,
		.kato_ms = ctrl->kato_ms,
		.timeout_ns = ctrl->connect_timeout_ms * RD_NSEC_PER_MSEC,
		.host = &ctrl->host,
		.subnqn = ctrl->subnqn,
	};

	ctrl->remote = *q->ops->remote(q);
	rdi_ctrl_set_state(ctrl, RDI_CTRL_CONNECT);
	sent(ctrl, rdi_fabrics_connect(q, &arg, &ctrl->connect_data, on_answer, ctrl));
}

/* No admin command may be sent before this, Keep Alive included. */
static void ctrl_authenticated(struct rdinit_ctrl *ctrl)
{
	if (ctrl->kato_ms &&
	    rd_timer_start(ctrl->h.loop, &ctrl->keep_alive, ctrl->kato_ms * RD_NSEC_PER_MSEC / 2)) {
		connect_fail(ctrl, -ENOMEM, 0, "no memory for the keep-alive timer");
		return;
	}
	connect_get_property(ctrl, RDI_CTRL_GET_CAP, NVME_REG_CAP, true);
}

static void on_authenticated(void *user, const struct rdinit_completion *c)
{
	struct rdinit_ctrl *ctrl = user;

	if (ctrl->q.state >= RDI_Q_CLOSING)
		return; /* the queue has ended and reports the error itself */
	if (c->err)
		connect_fail(ctrl, c->err, c->status, "%s", c->text);
	else
		ctrl_authenticated(ctrl);
}

static void connect_answered(struct rdinit_ctrl *ctrl, const struct rdinit_completion *c)
{
	const struct rdi_auth_arg arg = {
		.keys = ctrl->auth,
		.hostnqn = ctrl->host.nqn,
		.subnqn = ctrl->subnqn,
		.fn = on_authenticated,
		.user = ctrl,
	};
	char why[RDI_TEXT];
	int rc;

	ctrl->cntlid = (uint16_t)c->result;
	rc = rdi_auth_after_connect(&ctrl->q, (uint32_t)c->result, &arg, why, sizeof(why));
	if (rc > 0)
		rdi_ctrl_set_state(ctrl, RDI_CTRL_AUTH);
	else if (rc < 0)
		connect_fail(ctrl, rc, 0, "%s", why);
	else
		ctrl_authenticated(ctrl);
}

static void wait_csts(struct rdinit_ctrl *ctrl, enum rdi_ctrl_state state, uint64_t limit_ns)
{
	ctrl->wait_until = rd_loop_now(ctrl->h.loop) + limit_ns;
	ctrl->poll_delay = POLL_FIRST_NS;
	connect_get_property(ctrl, state, NVME_REG_CSTS, false);
}

static uint64_t ready_timeout(const struct rdinit_ctrl *ctrl)
{
	uint64_t to = NVME_CAP_TO(ctrl->cap);

	return (to ? to : 1) * CAP_TO_UNIT_NS;
}

static void enable(struct rdinit_ctrl *ctrl)
{
	uint32_t css = NVME_CC_CSS_NVM;
	uint32_t mps = (uint32_t)NVME_CAP_MPSMIN(ctrl->cap);

	if (!(NVME_CAP_CSS(ctrl->cap) & NVME_CAP_CSS_NVM)) {
		if (NVME_CAP_CSS(ctrl->cap) & NVME_CAP_CSS_CSI)
			css = NVME_CC_CSS_CSI;
		else if (NVME_CAP_CSS(ctrl->cap) & NVME_CAP_CSS_ADMIN)
			css = NVME_CC_CSS_ADMIN;
	}
	set_cc(ctrl, RDI_CTRL_ENABLE,
	       CC_ENTRY_SIZES | css << NVME_CC_CSS_SHIFT | mps << NVME_CC_MPS_SHIFT | 1u);
}

static void cc_read(struct rdinit_ctrl *ctrl, uint32_t cc)
{
	if (NVME_CC_EN(cc))
		set_cc(ctrl, RDI_CTRL_DISABLE, cc & ~1u);
	else
		enable(ctrl);
}

/* Evaluates CSTS in one of the WAIT_ states: next state, another poll, or failure. */
static void csts_read(struct rdinit_ctrl *ctrl, uint32_t csts)
{
	bool there = false;

	switch (ctrl->state) {
	case RDI_CTRL_WAIT_DISABLED:
		there = !NVME_CSTS_RDY(csts);
		break;
	case RDI_CTRL_WAIT_READY:
		there = NVME_CSTS_RDY(csts);
		if (NVME_CSTS_CFS(csts)) {
			connect_fail(ctrl, -EIO, 0,
				     "the controller reports a fatal error (CSTS.CFS)");
			return;
		}
		break;
	default:
		there = NVME_CSTS_SHST(csts) == NVME_CSTS_SHST_CMPLT;
		break;
	}
	if (there && ctrl->state == RDI_CTRL_WAIT_DISABLED) {
		enable(ctrl);
	} else if (there && ctrl->state == RDI_CTRL_WAIT_READY) {
		struct nvme_sqe sqe = {
			.opcode = nvme_admin_identify,
			.cdw10 = htole32(NVME_IDENTIFY_CNS_CTRL),
		};

		rdi_queue_live(&ctrl->q);
		rdi_ctrl_set_state(ctrl, RDI_CTRL_IDENTIFY);
		sent(ctrl, submit_admin(ctrl, &sqe, &ctrl->id, sizeof(ctrl->id), on_answer));
	} else if (there) {
		rdi_queue_fail(&ctrl->q, -ENOTCONN, "%s: disconnected", ctrl->q.remote);
	} else if (rd_loop_now(ctrl->h.loop) >= ctrl->wait_until) {
		if (ctrl->state == RDI_CTRL_WAIT_SHUTDOWN) {
			ctrl->shutdown_err = -ETIMEDOUT;
			rdi_queue_fail(&ctrl->q, -ENOTCONN,
				       "%s: the controller did not finish its shutdown in time",
				       ctrl->q.remote);
		} else {
			connect_fail(ctrl, -ETIMEDOUT, 0,
				     "the controller did not become %s within CAP.TO (%u ms)",
				     ctrl->state == RDI_CTRL_WAIT_READY ? "ready" : "disabled",
				     (unsigned int)(ready_timeout(ctrl) / RD_NSEC_PER_MSEC));
		}
	} else {
		sent(ctrl, rd_timer_start(ctrl->h.loop, &ctrl->poll_timer, ctrl->poll_delay));
		if (ctrl->poll_delay < POLL_MAX_NS)
			ctrl->poll_delay *= 2;
	}
}

void rdi_ctrl_poll_timer(struct rd_timer *timer)
{
	struct rdinit_ctrl *ctrl = rd_container_of(timer, struct rdinit_ctrl, poll_timer);

	if (ctrl->q.state >= RDI_Q_CLOSING)
		return;
	connect_get_property(ctrl, ctrl->state, NVME_REG_CSTS, false);
}

/* The largest transfer of a command: MDTS in units of the smallest page, and the limits of the
 * transport. */
static uint32_t max_transfer(const struct rdinit_ctrl *ctrl)
{
	const struct rdi_queue *q = &ctrl->q;
	unsigned int shift = 12 + (unsigned int)NVME_CAP_MPSMIN(ctrl->cap) + ctrl->id.mdts;
	uint64_t max = q->ops->max_len & ~0xffffu, limit = q->ops->max_data(q);

	if (ctrl->id.mdts && shift < 24)
		max = UINT64_C(1) << shift;
	if (limit && max > limit)
		max = limit;
	return (uint32_t)max;
}

static void ready(struct rdinit_ctrl *ctrl)
{
	struct rdinit_completion c = {.text = ""};
	rdinit_complete_fn fn = ctrl->connect_fn;

	rdi_ctrl_set_state(ctrl, RDI_CTRL_READY);
	if (ctrl->event_fn)
		aer_submit(ctrl);
	ctrl->connect_fn = NULL;
	ctrl->q.callbacks++;
	if (fn)
		fn(ctrl->connect_user, &c);
}

static void after_queues(struct rdinit_ctrl *ctrl)
{
	uint32_t mask = le32toh(ctrl->id.oaes) & AEN_WANTED;

	if (ctrl->event_fn && mask)
		connect_set_feature(ctrl, RDI_CTRL_AEN_CONFIG, NVME_FEAT_FID_ASYNC_EVENT, mask);
	else
		ready(ctrl);
}

static void identified(struct rdinit_ctrl *ctrl)
{
	const struct nvme_id_ctrl *id = &ctrl->id;
	uint32_t sgls = le32toh(id->sgls), capsule = le32toh(id->ioccsz);
	uint32_t maxcmd = le16toh(id->maxcmd), size = (uint32_t)NVME_CAP_MQES(ctrl->cap) + 1;

	if (le16toh(id->cntlid) != ctrl->cntlid) {
		connect_fail(ctrl, -EPROTO, 0,
			     "the controller reports the ID %u in Connect, but %u in Identify",
			     ctrl->cntlid, le16toh(id->cntlid));
		return;
	}
	if (!(sgls & ctrl->q.ops->sgls)) {
		connect_fail(ctrl, -ENOTSUP, 0, "the controller does not support %s (SGLS 0x%08x)",
			     ctrl->q.ops->sgls_text, sgls);
		return;
	}
	/* Linux refuses such controllers as well, so targets avoid a capsule data offset. */
	if (le16toh(id->icdoff) != 0) {
		connect_fail(ctrl, -ENOTSUP, 0,
			     "in-capsule data at an offset (ICDOFF %u) is not supported",
			     le16toh(id->icdoff));
		return;
	}
	if (capsule && capsule < NVME_SQE_SIZE / 16) {
		connect_fail(ctrl, -EPROTO, 0,
			     "I/O command capsules of %u bytes (IOCCSZ) hold no command",
			     capsule * 16);
		return;
	}
	if (id->cntrltype == NVME_CTRL_CNTRLTYPE_DISCOVERY)
		ctrl->discovery = true;
	ctrl->max_transfer = max_transfer(ctrl);
	/* In-capsule data needs SGLs with an offset descriptor (SGLS bit 20). */
	if ((sgls & NVME_CTRL_SGLS_OFFSET) && capsule > NVME_SQE_SIZE / 16 &&
	    capsule < (1u << 20) / 16)
		ctrl->in_capsule = capsule * 16 - NVME_SQE_SIZE;
	ctrl->max_queue_size = (uint16_t)(size > 4096 ? 4096 : size);
	if (maxcmd && maxcmd < ctrl->max_queue_size)
		ctrl->max_queue_size = (uint16_t)maxcmd;
	if (ctrl->discovery || id->cntrltype == NVME_CTRL_CNTRLTYPE_ADMIN)
		after_queues(ctrl);
	else
		connect_set_feature(ctrl, RDI_CTRL_SET_QUEUES, NVME_FEAT_FID_NUM_QUEUES,
				    (uint32_t)(ctrl->want_queues - 1) << 16 |
					    (ctrl->want_queues - 1u));
}

static void queues_granted(struct rdinit_ctrl *ctrl, uint32_t result)
{
	uint32_t n = ctrl->want_queues, sq = (result & 0xffff) + 1, cq = (result >> 16) + 1;

	if (n > sq)
		n = sq;
	if (n > cq)
		n = cq;
	ctrl->io_queues = (uint16_t)n;
	after_queues(ctrl);
}

/* ---- shutdown ---- */

static uint64_t shutdown_timeout(const struct rdinit_ctrl *ctrl)
{
	uint64_t ns = le32toh(ctrl->id.rtd3e) * RD_NSEC_PER_USEC;

	if (ns < SHUTDOWN_MIN_NS)
		return SHUTDOWN_MIN_NS;
	return ns > SHUTDOWN_MAX_NS ? SHUTDOWN_MAX_NS : ns;
}

void rdi_ctrl_shutdown_start(struct rdinit_ctrl *ctrl)
{
	rd_timer_stop(ctrl->h.loop, &ctrl->keep_alive);
	set_cc(ctrl, RDI_CTRL_SHUTDOWN, ctrl->cc | CC_SHN_NORMAL);
}

/* ---- all answers ---- */

static void answer_failed(struct rdinit_ctrl *ctrl, const struct rdinit_completion *c)
{
	char text[RDI_TEXT];

	if (c->err != -EIO)
		return; /* the queue has ended and reports the error itself */
	switch (ctrl->state) {
	case RDI_CTRL_CONNECT:
		connect_fail(
			ctrl, -EIO, c->status, "%s",
			rdi_connect_error_text(c, &ctrl->host, ctrl->subnqn, text, sizeof(text)));
		break;
	case RDI_CTRL_AEN_CONFIG:
		rd_warn(ctrl->h.log, RD_LOG_INIT, "%s: no asynchronous events: %s", ctrl->q.remote,
			c->text);
		ready(ctrl);
		break;
	case RDI_CTRL_SHUTDOWN:
	case RDI_CTRL_WAIT_SHUTDOWN:
		ctrl->shutdown_err = -EIO;
		rdi_queue_fail(&ctrl->q, -ENOTCONN, "%s: shutdown: %s", ctrl->q.remote, c->text);
		break;
	default:
		connect_fail(ctrl, -EIO, c->status, "%s", c->text);
		break;
	}
}

static void on_answer(void *user, const struct rdinit_completion *c)
{
	struct rdinit_ctrl *ctrl = user;
	uint32_t result = (uint32_t)c->result;

	if (c->err) {
		answer_failed(ctrl, c);
		return;
	}
	switch (ctrl->state) {
	case RDI_CTRL_CONNECT:
		connect_answered(ctrl, c);
		break;
	case RDI_CTRL_GET_CAP:
		ctrl->cap = c->result;
		connect_get_property(ctrl, RDI_CTRL_GET_VS, NVME_REG_VS, false);
		break;
	case RDI_CTRL_GET_VS:
		ctrl->vs = result;
		connect_get_property(ctrl, RDI_CTRL_GET_CC, NVME_REG_CC, false);
		break;
	case RDI_CTRL_GET_CC:
		cc_read(ctrl, result);
		break;
	case RDI_CTRL_DISABLE:
		wait_csts(ctrl, RDI_CTRL_WAIT_DISABLED, ready_timeout(ctrl));
		break;
	case RDI_CTRL_ENABLE:
		wait_csts(ctrl, RDI_CTRL_WAIT_READY, ready_timeout(ctrl));
		break;
	case RDI_CTRL_WAIT_DISABLED:
	case RDI_CTRL_WAIT_READY:
	case RDI_CTRL_WAIT_SHUTDOWN:
		csts_read(ctrl, result);
		break;
	case RDI_CTRL_IDENTIFY:
		identified(ctrl);
		break;
	case RDI_CTRL_SET_QUEUES:
		queues_granted(ctrl, result);
		break;
	case RDI_CTRL_AEN_CONFIG:
		ready(ctrl);
		break;
	case RDI_CTRL_SHUTDOWN:
		wait_csts(ctrl, RDI_CTRL_WAIT_SHUTDOWN, shutdown_timeout(ctrl));
		break;
	case RDI_CTRL_NEW:
	case RDI_CTRL_TRANSPORT:
	case RDI_CTRL_AUTH:
	case RDI_CTRL_READY:
	case RDI_CTRL_CLOSING:
	case RDI_CTRL_CLOSED:
		break; /* a disconnect has overtaken the step that this command completes */
	}
}
