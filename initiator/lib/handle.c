/* SPDX-License-Identifier: BSD-3-Clause */
/* The common part of controller and queue pair handles: transport, loop, log, and iterations. */
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

#define MPA_REVISION_DEFAULT 2

const struct rdi_env rdi_env_default = {
	.host_files = &rdi_host_files,
};

/* ---- the configuration of transports ---- */

const char *rdi_transport_foreign_opt(const struct rdinit_ctrl_opts *o)
{
	if (!o->tcp)
		return o->hdr_digest    ? "hdr_digest"
		       : o->data_digest ? "data_digest"
		       : o->tls         ? "tls"
					: NULL;
	if (o->provider && strcmp(o->provider, "auto") != 0)
		return "provider";
	if (o->crc)
		return "crc";
	if (o->no_peer_to_peer)
		return "no_peer_to_peer";
	if (o->mpa_revision != MPA_REVISION_DEFAULT)
		return "mpa_revision";
	return o->no_remote_invalidate ? "no_remote_invalidate" : NULL;
}

void rdi_transport_select(struct rdinit_ctrl_opts *o, bool tcp)
{
	o->tcp = tcp;
	if (!tcp) {
		o->hdr_digest = o->data_digest = false;
		return;
	}
	o->provider = NULL;
	o->crc = o->no_peer_to_peer = o->no_remote_invalidate = false;
	o->mpa_revision = MPA_REVISION_DEFAULT;
}

int rdi_transport_cfg_create(const struct rdi_transport_ops *ops, const struct rdi_env *env,
			     const struct rdinit_ctrl_opts *o, const char *traddr,
			     const char *trsvcid, struct rdi_transport_cfg **out)
{
	int rc = ops->cfg_create(env, o, traddr, trsvcid, out);

	if (rc)
		return rc;
	(*out)->ops = ops;
	atomic_init(&(*out)->refs, 1);
	return 0;
}

struct rdi_transport_cfg *rdi_transport_cfg_ref(struct rdi_transport_cfg *cfg)
{
	atomic_fetch_add_explicit(&cfg->refs, 1, memory_order_relaxed);
	return cfg;
}

void rdi_transport_cfg_unref(struct rdi_transport_cfg **cfg)
{
	if (*cfg && atomic_fetch_sub_explicit(&(*cfg)->refs, 1, memory_order_acq_rel) == 1)
		(*cfg)->ops->cfg_destroy(*cfg);
	*cfg = NULL;
}

/* ---- loop and log ---- */

static void log_sink(void *arg, enum rd_log_level level, const char *line)
{
	const struct rdi_log_cfg *cfg = arg;

	cfg->fn(cfg->user, (int)level, line);
}

static int open_log(struct rdi_handle *h, const struct rdi_log_cfg *cfg, const char **why)
{
	const char *bad;
	int rc;

	if (!cfg->spec)
		return 0; /* with a NULL log all messages are dropped */
	rc = rd_log_create("librdinit", cfg->fd, RD_LOG_WARN, cfg->fn ? log_sink : NULL,
			   (void *)(uintptr_t)cfg, &h->log);
	if (rc)
		return rc;
	if (rd_log_parse(h->log, cfg->spec, &bad)) {
		*why = "the log specification (RDINIT_DEBUG) has an unknown level or component";
		return -EINVAL;
	}
	return 0;
}

int rdi_foreign(const struct rdi_handle *h, const char *func)
{
	if (!h)
		return rdi_no_handle(func);
	return rdi_fail(func, -ECHILD,
			"the handle belongs to the process that created it, and this is a child: "
			"create handles after fork(2)");
}

static int make_mark(struct rdi_handle *h)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);

	h->mark = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (h->mark == MAP_FAILED) {
		h->mark = NULL;
		return -ENOMEM;
	}
	/* Without it, before Linux 4.14, children are not told apart. */
	madvise(h->mark, size, MADV_WIPEONFORK);
	*h->mark = 1;
	return 0;
}

int rdi_handle_open_loop(struct rdi_handle *h, const struct rdi_env *env,
			 const struct rdi_log_cfg *log, const struct rdi_handle *home,
			 const char **why)
{
	struct rd_loop_opts opts = {.clock = env->clock, .seed = env->seed, .pollable = true};
	int rc;

	*why = NULL;
	if (home) {
		h->borrowed = true;
		h->loop = home->loop;
		h->log = home->log;
		h->mark = home->mark;
		return 0;
	}
	rc = make_mark(h);
	if (!rc)
		rc = open_log(h, log, why);
	if (rc)
		goto err_close;
	opts.log = h->log;
	rc = rd_loop_create(&opts, &h->loop);
	if (rc)
		goto err_close;
	return 0;

err_close:
	if (!*why)
		*why = strerror(-rc);
	rdi_handle_close(h);
	return rc;
}

int rdi_handle_open(struct rdi_handle *h, const struct rdi_env *env, const struct rdi_log_cfg *log,
		    const struct rdi_transport_cfg *cfg, const struct rdi_handle *home,
		    const char **why)
{
	int rc = rdi_handle_open_loop(h, env, log, home, why);

	if (rc)
		return rc;
	h->ops = cfg->ops;
	rc = h->ops->open(h->loop, env, cfg, &h->opened, why);
	if (!rc)
		return 0;
	if (!*why)
		*why = strerror(-rc);
	rdi_handle_close(h);
	return rc;
}

void rdi_handle_close(struct rdi_handle *h)
{
	if (h->opened)
		h->ops->close(h->opened);
	h->opened = NULL;
	if (h->borrowed) {
		h->loop = NULL;
		h->log = NULL;
		h->mark = NULL;
		return;
	}
	if (h->mark)
		munmap(h->mark, (size_t)sysconf(_SC_PAGESIZE));
	h->mark = NULL;
	rd_loop_destroy(&h->loop);
	rd_log_destroy(&h->log);
}

bool rdi_handle_ends(struct rdi_handle *h)
{
	if (rdi_is_foreign(h))
		return false;
	h->free_later = h->in_turn; /* called from a callback of the handle */
	return !h->in_turn;
}

/*
 * Waits at most @ns. Follows the busy-wait policy of the loop, which does not busy-wait itself when
 * an application may sleep on its descriptor. Yields the processor between two polls.
 */
static int wait_turn(struct rdi_handle *h, uint64_t ns)
{
	uint64_t start = rd_loop_now_raw(h->loop), since = 0, left;
	bool looks;
	int rc;

	for (;;) {
		looks = rd_spin_looks(&h->spin, since);
		left = ns == UINT64_MAX ? ns : ns - since;
		rc = rd_loop_turn(h->loop, looks ? 0 : left);
		since = rd_loop_now_raw(h->loop) - start;
		if (rc || !looks || since >= ns)
			break;
		sched_yield();
	}
	rd_spin_note(&h->spin, rc > 0 ? since : UINT64_MAX);
	return rc;
}

int rdi_handle_turn(struct rdi_handle *h, int timeout_ms)
{
	uint64_t ns = timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * RD_NSEC_PER_MSEC;
	int rc;

	if (h->in_turn)
		return -EDEADLK;
	h->in_turn = true;
	rc = ns && h->spin.ns ? wait_turn(h, ns) : rd_loop_turn(h->loop, ns);
	h->in_turn = false;
	return rc < 0 && rc != -EINTR ? rc : 0;
}

int rdi_queue_process(struct rdi_handle *h, struct rdi_queue *q, const char *func, int timeout_ms)
{
	int rc;

	if (q->state == RDI_Q_CLOSED)
		return rdi_fail(func, q->err, "%s", q->text);
	if (q->state == RDI_Q_NEW)
		return rdi_fail(func, -ENOTCONN, "not connected");
	q->callbacks = 0;
	rc = rdi_handle_turn(h, timeout_ms);
	if (h->free_later)
		return rc;
	if (rc)
		return rdi_fail(func, rc, "%s", strerror(-rc));
	if (q->callbacks == 0 && q->state == RDI_Q_CLOSED)
		return rdi_fail(func, q->err, "%s", q->text);
	return (int)q->callbacks;
}
