/* SPDX-License-Identifier: BSD-3-Clause */
/* I/O queue pairs: options, lifetime, connecting. Commands on them are in io.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "auth.h"

#define QUEUE_SIZE_DEFAULT 128
#define QUEUE_SIZE_MAX     1024
#define IO_TIMEOUT_MS      30000
#define BOUNCE_DEFAULT     (8u << 20)

void rdinit_qpair_opts_init_size(struct rdinit_qpair_opts *opts, size_t size)
{
	const struct rdinit_qpair_opts defaults = {
		.queue_size = QUEUE_SIZE_DEFAULT,
		.io_timeout_ms = IO_TIMEOUT_MS,
		.bounce_bytes = BOUNCE_DEFAULT,
	};

	rdi_put_sized(opts, size, &defaults, sizeof(defaults));
}

/* ---- connecting ---- */

static void report_connect(struct rdinit_qpair *qp, const struct rdinit_completion *c)
{
	rdinit_complete_fn fn = qp->connect_fn;

	qp->connect_fn = NULL;
	if (!fn)
		return;
	qp->q.callbacks++;
	fn(qp->connect_user, c);
}

static bool renew_io_queue(struct rdi_queue *q)
{
	struct rdinit_qpair *qp = rd_container_of(q, struct rdinit_qpair, q);
	const struct rdi_auth_arg arg = {
		.keys = qp->auth, .hostnqn = qp->host.nqn, .subnqn = qp->subnqn, .demanded = true};

	return rdi_auth_renew(q, &arg);
}

static void on_io_queue_closed(struct rdi_queue *q)
{
	struct rdinit_qpair *qp = rd_container_of(q, struct rdinit_qpair, q);
	struct rdinit_completion c = {.err = q->err, .status = qp->fail_status, .text = q->text};

	report_connect(qp, &c);
}

static void on_io_authenticated(void *user, const struct rdinit_completion *c)
{
	struct rdinit_qpair *qp = user;

	if (qp->q.state >= RDI_Q_CLOSING)
		return; /* on_io_queue_closed() reports it */
	if (c->err) {
		qp->fail_status = c->status;
		rdi_queue_fail(&qp->q, c->err, "%s: queue %u: %s", qp->q.remote, qp->q.cfg.qid,
			       c->text);
		return;
	}
	rdi_queue_live(&qp->q);
	report_connect(qp, c);
}

static void on_connected(void *user, const struct rdinit_completion *c)
{
	struct rdinit_qpair *qp = user;
	const struct rdi_auth_arg arg = {
		.keys = qp->auth,
		.hostnqn = qp->host.nqn,
		.subnqn = qp->subnqn,
		.fn = on_io_authenticated,
		.user = qp,
	};
	char text[RDI_TEXT];
	int rc;

	if (c->err == -EIO) {
		qp->fail_status = c->status;
		rdi_queue_fail(
			&qp->q, -EIO, "%s: queue %u: %s", qp->q.remote, qp->q.cfg.qid,
			rdi_connect_error_text(c, &qp->host, qp->subnqn, text, sizeof(text)));
		return;
	}
	if (c->err)
		return; /* on_io_queue_closed() reports it */
	rc = rdi_auth_after_connect(&qp->q, (uint32_t)c->result, &arg, text, sizeof(text));
	if (rc < 0)
		rdi_queue_fail(&qp->q, rc, "%s: queue %u: %s", qp->q.remote, qp->q.cfg.qid, text);
	else if (rc == 0)
		on_io_authenticated(qp, c);
}

static void on_io_queue_established(struct rdi_queue *q)
{
	struct rdinit_qpair *qp = rd_container_of(q, struct rdinit_qpair, q);
	struct rdi_connect_arg arg = {
		.qid = q->cfg.qid,
		.sqsize = (uint16_t)(q->depth - 1),
		.cntlid = qp->cntlid,
		.timeout_ns = q->cfg.connect_timeout_ns,
		.host = &qp->host,
		.subnqn = qp->subnqn,
	};
	int rc = rdi_fabrics_connect(q, &arg, &qp->connect_data, on_connected, qp);

	if (rc)
		rdi_queue_fail(q, rc, "%s: %s", q->remote, rdi_queue_why(q, rc));
}

int rdinit_qpair_connect_async(struct rdinit_qpair *qp, rdinit_complete_fn fn, void *user)
{
	int rc;

	if (rdi_is_foreign(RDI_HANDLE(qp)))
		return rdi_foreign(RDI_HANDLE(qp), "rdinit_qpair_connect");
	if (qp->q.state != RDI_Q_NEW)
		return rdi_fail("rdinit_qpair_connect", -EINVAL,
				"the handle is not new (it is %s); create another to connect again",
				rdi_queue_state_name(qp->q.state));
	qp->connect_fn = fn;
	qp->connect_user = user;
	rc = rdi_queue_connect(&qp->q);
	if (rc) {
		qp->connect_fn = NULL;
		rdi_fail("rdinit_qpair_connect", rc, "%s", qp->q.text);
	}
	return rc;
}

int rdinit_qpair_connect(struct rdinit_qpair *qp)
{
	return RDI_SYNC(qp, __func__, rdinit_qpair_connect_async(qp, rdi_sync_done, &sync));
}

/* ---- life ---- */

static void destroy_qpair(struct rdinit_qpair *qp)
{
	struct rdinit_completion c = {.err = -ECANCELED, .text = "the handle was freed"};

	if (qp->h.loop) {
		qp->h.in_turn = true; /* callbacks from here must not wait */
		rdi_queue_fini(&qp->q);
		report_connect(qp, &c);
	}
	rdi_handle_close(&qp->h);
	rdi_auth_keys_unref(&qp->auth);
	rdi_tls_unref(&qp->tls);
	free(qp->log_cfg.spec);
	rdi_transport_cfg_unref(&qp->transport);
	free(qp);
}

/* Returns 0 or -EINVAL, with the thread's text. */
static int check_qpair_opts(const char *func, const struct rdinit_qpair_opts *o,
			    const struct rdinit_ctrl *ctrl)
{
	if (o->queue_size < 2 || o->queue_size > QUEUE_SIZE_MAX)
		return rdi_fail(func, -EINVAL, "queue_size is %u, expected 2 to %u", o->queue_size,
				QUEUE_SIZE_MAX);
	if (o->io_timeout_ms == 0)
		return rdi_fail(func, -EINVAL, "io_timeout_ms is 0, expected milliseconds, from 1");
	if (ctrl->discovery)
		return rdi_fail(func, -EINVAL, "a discovery controller has no I/O queues");
	if (o->qid > ctrl->io_queues)
		return rdi_fail(func, -EINVAL,
				"qid is %u, larger than the number of queues that the controller "
				"granted, %u (ask for more by nr_io_queues of the controller)",
				o->qid, ctrl->io_queues);
	return 0;
}

static int copy_ctrl(struct rdinit_qpair *qp, const struct rdinit_ctrl *ctrl)
{
	qp->host = ctrl->host;
	qp->auth = rdi_auth_keys_ref(ctrl->auth);
	qp->tls = rdi_tls_ref(ctrl->tls);
	memcpy(qp->subnqn, ctrl->subnqn, sizeof(qp->subnqn));
	qp->src = ctrl->src;
	qp->cntlid = ctrl->cntlid;
	qp->max_transfer = ctrl->max_transfer;
	qp->log_cfg = ctrl->log_cfg;
	qp->log_cfg.spec = NULL;
	qp->transport = rdi_transport_cfg_ref(ctrl->transport);
	if (ctrl->log_cfg.spec) {
		qp->log_cfg.spec = strdup(ctrl->log_cfg.spec);
		if (!qp->log_cfg.spec)
			return -ENOMEM;
	}
	return 0;
}

static void init_io_queue(struct rdinit_qpair *qp, const struct rdinit_ctrl *ctrl,
			  const struct rdinit_qpair_opts *opts, uint16_t qid)
{
	struct rdi_queue_cfg cfg = {
		.label = qp->label,
		.qid = qid,
		.depth = opts->queue_size,
		.reserved = ctrl->auth ? 1 : 0, /* for authenticating again while I/O continues */
		.in_capsule = ctrl->in_capsule,
		.connect_timeout_ns = (opts->connect_timeout_ms ? opts->connect_timeout_ms
								: ctrl->connect_timeout_ms) *
				      RD_NSEC_PER_MSEC,
		.cmd_timeout_ns = opts->io_timeout_ms * RD_NSEC_PER_MSEC,
		.bounce_bytes = opts->bounce_bytes,
		.max_data =
			ctrl->max_transfer > BOUNCE_MAX_DATA ? BOUNCE_MAX_DATA : ctrl->max_transfer,
		.src = ctrl->has_src ? (const struct sockaddr *)&qp->src : NULL,
		.tls = qp->tls,
		.hostnqn = qp->host.nqn,
		.subnqn = qp->subnqn,
	};

	if (cfg.depth > ctrl->max_queue_size)
		cfg.depth = ctrl->max_queue_size;
	if (cfg.depth < 2)
		cfg.depth = 2;
	/* Connects to the address of the controller, without resolving the name again. */
	cfg.addrs.n = 1;
	cfg.addrs.ss[0] = ctrl->remote;
	snprintf(qp->label, sizeof(qp->label), "io %u", qid);
	rdi_queue_init(&qp->q, &qp->h, &cfg);
	qp->q.established = on_io_queue_established;
	qp->q.closed = on_io_queue_closed;
	qp->q.renew = renew_io_queue;
}

int rdi_qpair_create_on(struct rdinit_ctrl *ctrl, const struct rdinit_qpair_opts *opts,
			const struct rdi_handle *home, struct rdinit_qpair **out)
{
	static const char func[] = "rdinit_qpair_create";
	struct rdinit_qpair_opts defaults;
	struct rdinit_qpair *qp;
	const char *why = NULL;
	uint16_t qid;
	int rc;

	if (!out)
		return rdi_fail(func, -EINVAL, "out is NULL");
	*out = NULL;
	if (rdi_is_foreign(RDI_HANDLE(ctrl)))
		return rdi_foreign(RDI_HANDLE(ctrl), func);
	if (!opts) {
		rdinit_qpair_opts_init(&defaults);
		opts = &defaults;
	}
	if (ctrl->state != RDI_CTRL_READY)
		return rdi_fail(func, -ENOTCONN, "the controller is %s, not ready",
				rdi_ctrl_state_name(ctrl->state));
	rc = RDI_CHECK_SIZE(func, opts, rdinit_qpair_opts, sizeof(*opts));
	if (rc)
		return rc;
	rc = check_qpair_opts(func, opts, ctrl);
	if (rc)
		return rc;
	qid = opts->qid ? opts->qid : ctrl->next_qid;
	if (qid > ctrl->io_queues)
		return rdi_fail(func, -ENOSPC,
				"all of the %u I/O queue%s that the controller granted have been "
				"used; nr_io_queues asked for %u",
				ctrl->io_queues, ctrl->io_queues == 1 ? "" : "s",
				ctrl->want_queues);
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return rdi_fail(func, -ENOMEM, "out of memory");
	rc = copy_ctrl(qp, ctrl);
	if (!rc)
		rc = rdi_handle_open(&qp->h, ctrl->env, &qp->log_cfg, qp->transport, home, &why);
	if (rc) {
		rdi_fail(func, rc, "%s", why ? why : strerror(-rc));
		destroy_qpair(qp);
		return rc;
	}
	qp->h.spin.ns = ctrl->h.spin.ns;
	init_io_queue(qp, ctrl, opts, qid);
	if (!opts->qid)
		ctrl->next_qid++;
	*out = qp;
	return 0;
}

int rdinit_qpair_create(struct rdinit_ctrl *ctrl, const struct rdinit_qpair_opts *opts,
			struct rdinit_qpair **out)
{
	return rdi_qpair_create_on(ctrl, opts, NULL, out);
}

int rdinit_qpair_disconnect(struct rdinit_qpair *qp)
{
	int rc;

	rc = rdi_may_wait(RDI_HANDLE(qp), __func__);
	if (rc)
		return rc;
	if (qp->q.state == RDI_Q_NEW)
		return 0;
	rdi_queue_fail(&qp->q, -ENOTCONN, "%s: disconnected", qp->q.remote);
	while (qp->q.state != RDI_Q_CLOSED) {
		rc = rdi_handle_turn(&qp->h, -1); /* the queue's drain timer bounds the wait */
		if (rc)
			return rdi_fail(__func__, rc, "%s", strerror(-rc));
	}
	return 0;
}

void rdinit_qpair_free(struct rdinit_qpair **qpair)
{
	struct rdinit_qpair *qp = qpair ? *qpair : NULL;

	if (!qp)
		return;
	*qpair = NULL;
	if (rdi_handle_ends(&qp->h))
		destroy_qpair(qp);
}

/* ---- processing ---- */

int rdinit_qpair_fd(const struct rdinit_qpair *qp)
{
	return qp ? rd_loop_fd(qp->h.loop) : rdi_no_handle(__func__);
}

int rdinit_qpair_process(struct rdinit_qpair *qp, int timeout_ms)
{
	int rc = rdi_may_wait(RDI_HANDLE(qp), __func__);

	if (rc)
		return rc;
	rc = rdi_queue_process(&qp->h, &qp->q, __func__, timeout_ms);
	if (!qp->h.free_later)
		return rc;
	destroy_qpair(qp);
	return rdi_fail(__func__, -ENOTCONN, "the handle was freed in a callback");
}

unsigned int rdinit_qpair_depth(const struct rdinit_qpair *qp)
{
	return qp && qp->q.state == RDI_Q_LIVE ? qp->q.user_limit : 0;
}

unsigned int rdinit_qpair_inflight(const struct rdinit_qpair *qp)
{
	return qp ? qp->q.inflight - qp->q.internal_inflight : 0;
}

uint16_t rdinit_qpair_id(const struct rdinit_qpair *qp)
{
	return qp ? qp->q.cfg.qid : 0;
}

/* ---- authentication while connected ---- */

int rdinit_qpair_authenticate_async(struct rdinit_qpair *qp, const struct rdinit_auth_opts *opts,
				    rdinit_complete_fn fn, void *user)
{
	static const char func[] = "rdinit_qpair_authenticate";
	struct rdi_auth_arg arg = {.fn = fn, .user = user};

	if (rdi_is_foreign(RDI_HANDLE(qp)))
		return rdi_foreign(RDI_HANDLE(qp), func);
	if (!fn)
		return rdi_fail(func, -EINVAL, "the callback is NULL");
	arg.hostnqn = qp->host.nqn;
	arg.subnqn = qp->subnqn;
	return rdi_auth_again(func, &qp->q, &qp->auth, opts, &arg);
}

int rdinit_qpair_authenticate(struct rdinit_qpair *qp, const struct rdinit_auth_opts *opts)
{
	return RDI_SYNC(qp, __func__,
			rdinit_qpair_authenticate_async(qp, opts, rdi_sync_done, &sync));
}
