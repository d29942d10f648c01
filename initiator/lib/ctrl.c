/* SPDX-License-Identifier: BSD-3-Clause */
/* Controller handles: options, lifetime, processing. The steps to readiness are in
 * ctrl_connect.c. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "auth.h"

/* Entries of the admin queue reserved for Keep Alive, Asynchronous Event Request and the
 * shutdown. */
#define ADMIN_RESERVED      3
#define ADMIN_QUEUE_MIN     8
#define ADMIN_QUEUE_MAX     4096
#define SPIN_DEFAULT_US     50
#define CONNECT_TIMEOUT_MS  10000
#define ADMIN_TIMEOUT_MS    60000
#define SOCKET_BUFFER_MAX   (1u << 30)
#define IO_QUEUES_MAX       1024
#define KATO_MIN_MS         100
#define ADMIN_QUEUE_DEFAULT 32

const char *rdi_ctrl_state_name(enum rdi_ctrl_state state)
{
	static const char *const names[] = {
		[RDI_CTRL_NEW] = "new",
		[RDI_CTRL_TRANSPORT] = "transport",
		[RDI_CTRL_CONNECT] = "connect",
		[RDI_CTRL_AUTH] = "auth",
		[RDI_CTRL_GET_CAP] = "get-cap",
		[RDI_CTRL_GET_VS] = "get-vs",
		[RDI_CTRL_GET_CC] = "get-cc",
		[RDI_CTRL_DISABLE] = "disable",
		[RDI_CTRL_WAIT_DISABLED] = "wait-disabled",
		[RDI_CTRL_ENABLE] = "enable",
		[RDI_CTRL_WAIT_READY] = "wait-ready",
		[RDI_CTRL_IDENTIFY] = "identify",
		[RDI_CTRL_SET_QUEUES] = "set-queues",
		[RDI_CTRL_AEN_CONFIG] = "aen-config",
		[RDI_CTRL_READY] = "ready",
		[RDI_CTRL_SHUTDOWN] = "shutdown",
		[RDI_CTRL_WAIT_SHUTDOWN] = "wait-shutdown",
		[RDI_CTRL_CLOSING] = "closing",
		[RDI_CTRL_CLOSED] = "closed",
	};

	return (size_t)state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

void rdi_ctrl_set_state(struct rdinit_ctrl *ctrl, enum rdi_ctrl_state state)
{
	if (ctrl->state == state)
		return;
	rd_debug(ctrl->h.log, RD_LOG_INIT, "controller: %s -> %s", rdi_ctrl_state_name(ctrl->state),
		 rdi_ctrl_state_name(state));
	ctrl->state = state;
}

/* ---- options ---- */

void rdinit_ctrl_opts_init_size(struct rdinit_ctrl_opts *opts, size_t size)
{
	const struct rdinit_ctrl_opts defaults = {
		.keep_alive_tmo_ms = UINT32_MAX,
		.connect_timeout_ms = CONNECT_TIMEOUT_MS,
		.admin_timeout_ms = ADMIN_TIMEOUT_MS,
		.admin_queue_size = ADMIN_QUEUE_DEFAULT,
		.nr_io_queues = 1,
		.mpa_revision = 2,
		.spin_us = SPIN_DEFAULT_US,
		.log_fd = STDERR_FILENO,
	};

	rdi_put_sized(opts, size, &defaults, sizeof(defaults));
}

void rdinit_ctrl_opts_set_uri(struct rdinit_ctrl_opts *opts, const struct rdinit_uri *uri)
{
	opts->traddr = uri->traddr;
	opts->trsvcid = RDI_HAS(uri, no_port) && uri->no_port ? NULL : uri->trsvcid;
	opts->subnqn = uri->subnqn[0] ? uri->subnqn : NULL;
	if (RDI_HAS(opts, no_remote_invalidate) && RDI_HAS(uri, no_remote_invalidate))
		opts->no_remote_invalidate |= uri->no_remote_invalidate;
	if (RDI_HAS(opts, tcp) && RDI_HAS(uri, tcp))
		opts->tcp |= uri->tcp;
}

int rdi_check_transport_opts(const char *func, const struct rdinit_ctrl_opts *o)
{
	const char *name = rdi_transport_foreign_opt(o);

	if (!name)
		return 0;
	return rdi_fail(func, -EINVAL,
			"%s is set, which is an option of NVMe/%s only, and the connection is "
			"NVMe/%s: leave it out, or connect by nvme+%s://%s",
			name, o->tcp ? "RDMA" : "TCP", o->tcp ? "TCP" : "RDMA",
			o->tcp ? "rdma" : "tcp",
			o->tcp || o->tls ? "" : " (iwarp has crc instead)");
}

/* Returns 0 or -EINVAL, with the thread's text. */
static int check_ctrl_opts(const char *func, const struct rdinit_ctrl_opts *o)
{
	if (!o->traddr || !o->traddr[0])
		return rdi_fail(func, -EINVAL, "traddr, the address of the target, is missing");
	if (o->provider && strcmp(o->provider, "auto") != 0 && strcmp(o->provider, "iwarp") != 0 &&
	    strcmp(o->provider, "verbs") != 0)
		return rdi_fail(func, -EINVAL,
				"the provider \"%s\" is unknown, expected auto, iwarp or verbs",
				o->provider);
	if (o->connect_timeout_ms == 0 || o->admin_timeout_ms == 0)
		return rdi_fail(func, -EINVAL, "%s is 0, expected milliseconds, from 1",
				o->connect_timeout_ms ? "admin_timeout_ms" : "connect_timeout_ms");
	if (o->admin_queue_size < ADMIN_QUEUE_MIN || o->admin_queue_size > ADMIN_QUEUE_MAX)
		return rdi_fail(func, -EINVAL, "admin_queue_size is %u, expected %u to %u",
				o->admin_queue_size, ADMIN_QUEUE_MIN, ADMIN_QUEUE_MAX);
	if (o->nr_io_queues < 1 || o->nr_io_queues > IO_QUEUES_MAX)
		return rdi_fail(func, -EINVAL, "nr_io_queues is %u, expected 1 to %u",
				o->nr_io_queues, IO_QUEUES_MAX);
	if (o->mpa_revision != 1 && o->mpa_revision != 2)
		return rdi_fail(func, -EINVAL, "mpa_revision is %u, expected 1 or 2",
				o->mpa_revision);
	if (o->send_buffer > SOCKET_BUFFER_MAX || o->receive_buffer > SOCKET_BUFFER_MAX)
		return rdi_fail(func, -EINVAL,
				"send_buffer is %u and receive_buffer %u, expected 1 GiB at most",
				o->send_buffer, o->receive_buffer);
	if (o->keep_alive_tmo_ms > 0 && o->keep_alive_tmo_ms < KATO_MIN_MS)
		return rdi_fail(func, -EINVAL,
				"keep_alive_tmo_ms is %u, expected 0 (none), or from %u",
				o->keep_alive_tmo_ms, KATO_MIN_MS);
	return rdi_check_transport_opts(func, o);
}

/* Copies the options. Returns 0, -EINVAL with *@why set, or -ENOMEM. */
static int take_opts(struct rdinit_ctrl *ctrl, const struct rdinit_ctrl_opts *o, const char **why)
{
	const char *spec = o->log_spec ? o->log_spec : getenv("RDINIT_DEBUG");

	ctrl->traddr = strdup(o->traddr);
	ctrl->trsvcid = strdup(o->trsvcid ? o->trsvcid : "4420");
	ctrl->no_port = !o->trsvcid;
	if (spec && *spec)
		ctrl->log_cfg.spec = strdup(spec);
	if (!ctrl->traddr || !ctrl->trsvcid || (spec && *spec && !ctrl->log_cfg.spec))
		return -ENOMEM;
	snprintf(ctrl->subnqn, sizeof(ctrl->subnqn), "%s",
		 o->subnqn ? o->subnqn : RDINIT_DISCOVERY_NQN);
	ctrl->discovery = strcmp(ctrl->subnqn, RDINIT_DISCOVERY_NQN) == 0;
	ctrl->kato_ms = o->keep_alive_tmo_ms;
	if (ctrl->kato_ms == UINT32_MAX)
		ctrl->kato_ms = ctrl->discovery ? 0 : RDI_KATO_DEFAULT_MS;
	ctrl->connect_timeout_ms = o->connect_timeout_ms;
	ctrl->admin_timeout_ms = o->admin_timeout_ms;
	ctrl->admin_queue_size = o->admin_queue_size;
	ctrl->want_queues = o->nr_io_queues;
	ctrl->event_fn = o->event_fn;
	ctrl->event_user = o->event_user;
	ctrl->log_cfg.fd = o->log_fd;
	ctrl->log_cfg.fn = o->log_fn;
	ctrl->log_cfg.user = o->log_user;
	if (rdi_transport_cfg_create(o->tcp ? &rdi_tcp_ops : &rdi_rdma_ops, ctrl->env, o,
				     ctrl->traddr, ctrl->trsvcid, &ctrl->transport))
		return -ENOMEM;
	return rdi_host_init(&ctrl->host, o->hostnqn, o->hostid, ctrl->env->host_files, why);
}

/* ---- life ---- */

/* The admin queue has closed: no request is left. */
static void on_admin_queue_closed(struct rdi_queue *q)
{
	struct rdinit_ctrl *ctrl = rd_container_of(q, struct rdinit_ctrl, q);
	struct rdinit_completion c = {.err = q->err, .status = ctrl->fail_status, .text = q->text};
	rdinit_complete_fn connect_fn = ctrl->connect_fn, disconnect_fn = ctrl->disconnect_fn;

	rd_timer_stop(ctrl->h.loop, &ctrl->poll_timer);
	rd_timer_stop(ctrl->h.loop, &ctrl->keep_alive);
	rdi_ctrl_set_state(ctrl, RDI_CTRL_CLOSED);
	ctrl->connect_fn = NULL;
	ctrl->disconnect_fn = NULL;
	if (connect_fn) {
		q->callbacks++;
		connect_fn(ctrl->connect_user, &c);
	}
	if (disconnect_fn) {
		/* -ENOTCONN is the result of our own close, which is the requested outcome. */
		c.err = ctrl->shutdown_err ? ctrl->shutdown_err : q->err;
		c.status = 0;
		if (c.err == -ENOTCONN)
			c = (struct rdinit_completion){.text = ""};
		q->callbacks++;
		disconnect_fn(ctrl->disconnect_user, &c);
	}
	if (ctrl->closed)
		ctrl->closed(ctrl);
}

static bool renew_admin_queue(struct rdi_queue *q)
{
	struct rdinit_ctrl *ctrl = rd_container_of(q, struct rdinit_ctrl, q);
	const struct rdi_auth_arg arg = {.keys = ctrl->auth,
					 .hostnqn = ctrl->host.nqn,
					 .subnqn = ctrl->subnqn,
					 .demanded = true};

	return rdi_auth_renew(q, &arg);
}

static void destroy_ctrl(struct rdinit_ctrl *ctrl)
{
	if (ctrl->h.loop) {
		rd_timer_stop(ctrl->h.loop, &ctrl->poll_timer);
		rd_timer_stop(ctrl->h.loop, &ctrl->keep_alive);
		ctrl->h.in_turn = true; /* callbacks from here must not wait */
		rdi_queue_fini(&ctrl->q);
		if (ctrl->q.loop)
			on_admin_queue_closed(&ctrl->q);
	}
	rdi_handle_close(&ctrl->h);
	rdi_auth_keys_unref(&ctrl->auth);
	rdi_tls_unref(&ctrl->tls);
	free(ctrl->traddr);
	free(ctrl->trsvcid);
	free(ctrl->log_cfg.spec);
	rdi_transport_cfg_unref(&ctrl->transport);
	free(ctrl);
}

/* Returns 0 or -EINVAL, with the thread's text. */
static int check_ctrl_names(const char *func, const struct rdinit_ctrl_opts *opts)
{
	const char *why;
	uuid_t id;

	/* Test targets may use NQNs of other forms, so the target decides about the subsystem
	 * NQN. */
	why = opts->subnqn ? nvmf_nqn_unusable(opts->subnqn) : NULL;
	if (why)
		return rdi_fail(func, -EINVAL, "the subsystem NQN \"%s\" %s", opts->subnqn, why);
	why = opts->hostnqn ? nvmf_nqn_error(opts->hostnqn) : NULL;
	if (why)
		return rdi_fail(func, -EINVAL, "the host NQN \"%s\" %s", opts->hostnqn, why);
	if (opts->hostid && uuid_parse(opts->hostid, id))
		return rdi_fail(
			func, -EINVAL,
			"the host identifier \"%s\" is not a UUID, such as "
			"6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11; without one there is a default",
			opts->hostid);
	return 0;
}

static int take_host_traddr(const char *func, struct rdinit_ctrl *ctrl, const char *addr)
{
	if (!addr)
		return 0;
	if (rd_addr_parse(addr, 0, &ctrl->src))
		return rdi_fail(func, -EINVAL,
				"host_traddr \"%s\" is not a numeric address, such as 192.0.2.7; "
				"without one the system chooses it",
				addr);
	ctrl->has_src = true;
	return 0;
}

int rdi_ctrl_create_on(const struct rdinit_ctrl_opts *given, const struct rdi_env *env,
		       const struct rdi_handle *home, struct rdinit_ctrl **out)
{
	static const char func[] = "rdinit_ctrl_create";
	/* @given, with defaults for the members that the caller's version does not have */
	struct rdinit_ctrl_opts all;
	const struct rdinit_ctrl_opts *opts = &all;
	const char *why = NULL;
	struct rdinit_ctrl *ctrl;
	int rc;

	if (!out)
		return rdi_fail(func, -EINVAL, "out is NULL");
	*out = NULL;
	rc = RDI_CHECK_SIZE(func, given, rdinit_ctrl_opts, RDI_OPTS_FIRST);
	if (rc)
		return rc;
	rdinit_ctrl_opts_init(&all);
	memcpy(&all, given, given->size);
	rc = check_ctrl_opts(func, opts);
	if (!rc)
		rc = check_ctrl_names(func, opts);
	if (rc)
		return rc;
	ctrl = calloc(1, sizeof(*ctrl));
	if (!ctrl)
		return rdi_fail(func, -ENOMEM, "out of memory");
	ctrl->env = env;
	ctrl->next_qid = 1;
	ctrl->poll_timer.fn = rdi_ctrl_poll_timer;
	ctrl->keep_alive.fn = rdi_ctrl_keep_alive;
	rc = take_host_traddr(func, ctrl, opts->host_traddr);
	if (!rc && opts->auth)
		rc = rdi_auth_keys_create(func, opts->auth, &ctrl->auth);
	if (!rc && opts->tls)
		rc = rdi_tls_create(func, opts->tls, &ctrl->tls);
	if (rc) {
		destroy_ctrl(ctrl);
		return rc;
	}
	rc = take_opts(ctrl, opts, &why);
	if (!rc)
		rc = rdi_handle_open(&ctrl->h, env, &ctrl->log_cfg, ctrl->transport, home, &why);
	if (rc) {
		if (rc == -ENOENT && opts->congestion)
			rdi_fail(func, rc, "congestion \"%s\": %s", opts->congestion, why);
		else
			rdi_fail(func, rc, "%s", why ? why : strerror(-rc));
		destroy_ctrl(ctrl);
		return rc;
	}
	if (ctrl->host.text[0])
		rd_warn(ctrl->h.log, RD_LOG_INIT, "%s", ctrl->host.text);
	/* A clock of a test may not advance during a busy-wait, which would never end. */
	ctrl->h.spin.ns = env->clock ? 0 : (uint64_t)opts->spin_us * RD_NSEC_PER_USEC;
	*out = ctrl;
	return 0;
}

int rdi_ctrl_create_env(const struct rdinit_ctrl_opts *opts, const struct rdi_env *env,
			struct rdinit_ctrl **out)
{
	return rdi_ctrl_create_on(opts, env, NULL, out);
}

int rdinit_ctrl_create(const struct rdinit_ctrl_opts *opts, struct rdinit_ctrl **out)
{
	return rdi_ctrl_create_env(opts, &rdi_env_default, out);
}

void rdinit_ctrl_free(struct rdinit_ctrl **ctrl)
{
	struct rdinit_ctrl *c = ctrl ? *ctrl : NULL;

	if (!c)
		return;
	*ctrl = NULL;
	if (rdi_handle_ends(&c->h))
		destroy_ctrl(c);
}

/* ---- connecting and disconnecting ---- */

int rdinit_ctrl_connect_async(struct rdinit_ctrl *ctrl, rdinit_complete_fn fn, void *user)
{
	struct rdi_queue_cfg cfg;
	char why[256];
	int rc;

	if (rdi_is_foreign(RDI_HANDLE(ctrl)))
		return rdi_foreign(RDI_HANDLE(ctrl), "rdinit_ctrl_connect");
	cfg = (struct rdi_queue_cfg){
		.label = "admin",
		.depth = ctrl->admin_queue_size,
		.reserved = ADMIN_RESERVED,
		.connect_timeout_ns = ctrl->connect_timeout_ms * RD_NSEC_PER_MSEC,
		.cmd_timeout_ns = ctrl->admin_timeout_ms * RD_NSEC_PER_MSEC,
		.bounce_bytes = 1 << 20,
		.max_data = 1 << 18,
		.src = ctrl->has_src ? (const struct sockaddr *)&ctrl->src : NULL,
		.tls = ctrl->tls,
		.hostnqn = ctrl->host.nqn,
		.subnqn = ctrl->subnqn,
	};
	if (ctrl->state != RDI_CTRL_NEW)
		return rdi_fail("rdinit_ctrl_connect", -EINVAL,
				"the handle is not new (it is %s); create another to connect again",
				rdi_ctrl_state_name(ctrl->state));
	rc = rdi_resolve(ctrl->traddr, ctrl->trsvcid, &cfg.addrs, why, sizeof(why));
	if (rc)
		return rdi_fail("rdinit_ctrl_connect", rc, "%s", why);
	if (ctrl->no_port && ctrl->discovery && ctrl->h.ops->discovery_port)
		cfg.at_own_port = rdi_addrs_first_at(&cfg.addrs, ctrl->h.ops->discovery_port);
	rdi_queue_init(&ctrl->q, &ctrl->h, &cfg);
	ctrl->q.established = rdi_ctrl_established;
	ctrl->q.closed = on_admin_queue_closed;
	ctrl->q.renew = renew_admin_queue;
	ctrl->connect_fn = fn;
	ctrl->connect_user = user;
	rdi_ctrl_set_state(ctrl, RDI_CTRL_TRANSPORT);
	rc = rdi_queue_connect(&ctrl->q);
	if (rc) {
		rdi_ctrl_set_state(ctrl, RDI_CTRL_CLOSED);
		ctrl->connect_fn = NULL;
		rdi_fail("rdinit_ctrl_connect", rc, "%s", ctrl->q.text);
	}
	return rc;
}

int rdinit_ctrl_connect(struct rdinit_ctrl *ctrl)
{
	return RDI_SYNC(ctrl, __func__, rdinit_ctrl_connect_async(ctrl, rdi_sync_done, &sync));
}

int rdinit_ctrl_disconnect_async(struct rdinit_ctrl *ctrl, rdinit_complete_fn fn, void *user)
{
	if (rdi_is_foreign(RDI_HANDLE(ctrl)))
		return rdi_foreign(RDI_HANDLE(ctrl), "rdinit_ctrl_disconnect");
	if (ctrl->state >= RDI_CTRL_SHUTDOWN || ctrl->state == RDI_CTRL_NEW)
		return rdi_fail("rdinit_ctrl_disconnect", -EALREADY, "the handle is %s",
				rdi_ctrl_state_name(ctrl->state));
	ctrl->disconnect_fn = fn;
	ctrl->disconnect_user = user;
	if (ctrl->state == RDI_CTRL_READY && ctrl->q.state == RDI_Q_LIVE) {
		rdi_ctrl_shutdown_start(ctrl);
		return 0;
	}
	rdi_ctrl_set_state(ctrl, RDI_CTRL_CLOSING);
	rdi_queue_fail(&ctrl->q, -ENOTCONN, "%s: disconnected", ctrl->q.remote);
	return 0;
}

int rdinit_ctrl_disconnect(struct rdinit_ctrl *ctrl)
{
	int rc = RDI_SYNC(ctrl, __func__, rdinit_ctrl_disconnect_async(ctrl, rdi_sync_done, &sync));

	return rc == -EALREADY ? 0 : rc;
}

/* ---- authentication while connected ---- */

int rdinit_ctrl_authenticate_async(struct rdinit_ctrl *ctrl, const struct rdinit_auth_opts *opts,
				   rdinit_complete_fn fn, void *user)
{
	static const char func[] = "rdinit_ctrl_authenticate";
	struct rdi_auth_arg arg = {.fn = fn, .user = user};

	if (rdi_is_foreign(RDI_HANDLE(ctrl)))
		return rdi_foreign(RDI_HANDLE(ctrl), func);
	if (!fn)
		return rdi_fail(func, -EINVAL, "the callback is NULL");
	if (ctrl->state != RDI_CTRL_READY)
		return rdi_fail(func, -ENOTCONN, "the controller is %s, not ready",
				rdi_ctrl_state_name(ctrl->state));
	arg.hostnqn = ctrl->host.nqn;
	arg.subnqn = ctrl->subnqn;
	return rdi_auth_again(func, &ctrl->q, &ctrl->auth, opts, &arg);
}

int rdinit_ctrl_authenticate(struct rdinit_ctrl *ctrl, const struct rdinit_auth_opts *opts)
{
	return RDI_SYNC(ctrl, __func__,
			rdinit_ctrl_authenticate_async(ctrl, opts, rdi_sync_done, &sync));
}

/* ---- processing ---- */

int rdinit_ctrl_fd(const struct rdinit_ctrl *ctrl)
{
	return ctrl ? rd_loop_fd(ctrl->h.loop) : rdi_no_handle(__func__);
}

int rdinit_ctrl_process(struct rdinit_ctrl *ctrl, int timeout_ms)
{
	int rc = rdi_may_wait(RDI_HANDLE(ctrl), __func__);

	if (rc)
		return rc;
	rc = rdi_queue_process(&ctrl->h, &ctrl->q, __func__, timeout_ms);
	if (!ctrl->h.free_later)
		return rc;
	destroy_ctrl(ctrl);
	return rdi_fail(__func__, -ENOTCONN, "the handle was freed in a callback");
}

void rdinit_ctrl_info_init_size(struct rdinit_ctrl_info *info, size_t size)
{
	rdi_zero_sized(info, size);
}

int rdinit_ctrl_get_info(const struct rdinit_ctrl *ctrl, struct rdinit_ctrl_info *info)
{
	int rc;

	if (rdi_is_foreign(RDI_HANDLE(ctrl)))
		return rdi_foreign(RDI_HANDLE(ctrl), __func__);
	rc = RDI_CHECK_SIZE(__func__, info, rdinit_ctrl_info, RDI_INFO_FIRST);
	if (rc)
		return rc;
	if (ctrl->state != RDI_CTRL_READY)
		return rdi_fail(__func__, -ENOTCONN, "the controller is %s, not ready",
				rdi_ctrl_state_name(ctrl->state));
	info->cap = ctrl->cap;
	info->vs = ctrl->vs;
	info->nn = le32toh(ctrl->id.nn);
	info->cntlid = ctrl->cntlid;
	info->io_queues = ctrl->io_queues;
	info->max_transfer = ctrl->max_transfer;
	info->in_capsule = ctrl->in_capsule;
	info->max_queue_size = ctrl->max_queue_size;
	info->discovery = ctrl->discovery;
	info->volatile_cache = ctrl->id.vwc & NVME_CTRL_VWC_PRESENT;
	info->address = ctrl->q.remote;
	info->provider = ctrl->h.ops->provider(ctrl->h.opened);
	info->hostnqn = ctrl->host.nqn;
	if (RDI_HAS(info, hostid))
		uuid_unparse_lower(ctrl->host.id, info->hostid);
	return 0;
}

const char *rdinit_ctrl_hostnqn(const struct rdinit_ctrl *ctrl)
{
	return ctrl ? ctrl->host.nqn : NULL;
}
