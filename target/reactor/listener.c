/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adding and removing listeners. The object of a removed listener stays until the target ends,
 * because controllers point to it, and is reused for the same address. Reactors find the listeners
 * that are shown under disc.lock.
 */
#include "lifecycle.h"
#include "target/nvmf/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/loop.h"
#include "util/sockaddr.h"
#include "target/nvmf/ana.h"
#include "target/config/config.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/events.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/target.h"
#include "target/nvmf/transport.h"

#define LISTEN_AGAIN RD_NSEC_PER_SEC

struct leave_post { /* message to one reactor */
	struct rd_msg msg;
	struct rdt_reactor *reactor;
	struct rdt_listener_leave *leave;
};

struct rdt_listener_leave { /* freed by the last reactor that answers */
	struct rdt_listener *listener;
	atomic_uint left;
	struct leave_post posts[];
};

static struct rdt_listener *find_removed_listener(struct rdt_target *t,
						  const struct rdt_listener_config *cfg)
{
	struct rdt_listener *l;

	TAILQ_FOREACH (l, &t->old_listeners, link)
		if (rdt_listener_same_place(l->cfg, cfg) && l->transport->kind == cfg->transport)
			return l;
	return NULL;
}

bool rdt_listener_same_place(const struct rdt_listener_config *a,
			     const struct rdt_listener_config *b)
{
	return a->port == b->port && strcmp(a->address, b->address) == 0;
}

struct rdt_listener *rdt_listener_new(struct rdt_target *t, const struct rdt_listener_config *cfg,
				      struct rdt_config *cfg_of)
{
	struct rdt_listener *l = find_removed_listener(t, cfg);

	if (l)
		TAILQ_REMOVE(&t->old_listeners, l, link);
	else
		l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	rdt_config_put(&l->cfg_of);
	l->target = t;
	l->transport = t->transports[cfg->transport];
	l->cfg = cfg;
	l->cfg_of = rdt_config_get(cfg_of);
	if (!l->portid)
		l->portid = ++t->portids;
	if (l->transport->prepare(l)) {
		TAILQ_INSERT_TAIL(&t->old_listeners, l, link);
		return NULL;
	}
	rdt_ana_init(l);
	return l;
}

void rdt_listener_tell(const struct rdt_listener *l)
{
	char text[RD_ADDR_TEXT];

	rd_notice(l->target->log, RD_LOG_MAIN, "listening on %s (%s)",
		  rd_addr_format((const struct sockaddr *)&l->addr, text),
		  l->transport->provider(l));
}

void rdt_listener_keep(struct rdt_listener *l)
{
	l->transport->unlisten(l);
	TAILQ_INSERT_TAIL(&l->target->old_listeners, l, link);
}

void rdt_listener_show(struct rdt_listener *l)
{
	struct rdt_target *t = l->target;

	pthread_mutex_lock(&t->disc.lock);
	TAILQ_INSERT_TAIL(&t->listeners, l, link);
	pthread_mutex_unlock(&t->disc.lock);
}

/* ---- removal ---- */

int rdt_listener_prepare_leave(struct rdt_listener *l)
{
	unsigned int n = l->target->reactors_count;

	l->leave = calloc(1, sizeof(*l->leave) + n * sizeof(l->leave->posts[0]));
	return l->leave ? 0 : -ENOMEM;
}

void rdt_listener_stay(struct rdt_listener *l)
{
	free(l->leave);
	l->leave = NULL;
}

/* A controller ends its I/O queues itself, in the order that hosts expect. This is for connections
 * without a controller, and for I/O queues of controllers of other listeners. */
static void end_connections(struct rdt_reactor *r, const struct rdt_listener *l)
{
	static const char why[] = "its listener was removed";
	struct rdt_qpair *qp, *next;

	l->transport->reactor_catch_up(r);
	for (qp = TAILQ_FIRST(&r->qpairs); qp; qp = next) {
		next = TAILQ_NEXT(qp, link);
		if (qp->listener != l)
			continue;
		if (qp->ctrl && qp->admin)
			rdt_ctrl_end(qp->ctrl, why);
		else if (!qp->ctrl || qp->ctrl->listener != l)
			rdt_qpair_close(qp, why);
	}
}

static void listener_leave_msg(struct rd_msg *msg)
{
	struct leave_post *post = rd_container_of(msg, struct leave_post, msg);
	struct rdt_listener_leave *leave = post->leave;

	end_connections(post->reactor, leave->listener);
	if (atomic_fetch_sub(&leave->left, 1) == 1)
		free(leave);
}

void rdt_listener_leave(struct rdt_listener *l)
{
	struct rdt_listener_leave *leave = l->leave;
	struct rdt_target *t = l->target;
	char text[RD_ADDR_TEXT];

	l->leave = NULL;
	l->transport->unlisten(l);
	pthread_mutex_lock(&t->disc.lock);
	TAILQ_REMOVE(&t->listeners, l, link);
	pthread_mutex_unlock(&t->disc.lock);
	TAILQ_INSERT_TAIL(&t->old_listeners, l, link);
	if (l->wait_err)
		rd_notice(t->log, RD_LOG_MAIN, "not waiting for the address %s any more",
			  l->cfg->address);
	else
		rd_notice(t->log, RD_LOG_MAIN,
			  "not listening on %s any more; closing its connections",
			  rd_addr_format((struct sockaddr *)&l->addr, text));
	l->wait_err = 0;
	leave->listener = l;
	atomic_init(&leave->left, t->reactors_count);
	/* Messages keep their order, so connections handed over earlier are adopted first. */
	for (unsigned int i = 0, n = t->reactors_count; i < n; i++) {
		leave->posts[i] = (struct leave_post){.msg = {.fn = listener_leave_msg},
						      .reactor = &t->reactors[i],
						      .leave = leave};
		rd_loop_post(t->reactors[i].loop, &leave->posts[i].msg);
	}
}

/* ---- all of them ---- */

int rdt_listeners_start(struct rdt_target *t)
{
	for (unsigned int i = 0; i < t->cfg->listeners_count; i++) {
		struct rdt_listener *l = rdt_listener_new(t, &t->cfg->listeners[i], t->cfg);

		if (!l)
			return -ENOMEM;
		rdt_listener_show(l);
	}
	return 0;
}

/* At boot, networks and RDMA devices may come later than the target. */
static bool address_may_come(int err)
{
	return err == -EADDRNOTAVAIL || err == -ENODEV;
}

static void wait_for_addresses(struct rdt_target *t)
{
	if (rd_timer_start(t->loop, &t->listen_timer, LISTEN_AGAIN))
		rd_err(t->log, RD_LOG_TARGET,
		       "out of memory for a timer: addresses that are missing will not be tried "
		       "again; send SIGHUP or restart rdtarget when they are there");
}

/* One that waits. Says when the reason is another one than before. */
static bool retry_listener(struct rdt_listener *l)
{
	struct rdt_target *t = l->target;
	char text[512];
	int err = l->transport->listen(l, NULL, text, sizeof(text));

	if (err && err != l->wait_err)
		rd_warn(t->log, RD_LOG_TARGET, "%s; trying again every second", text);
	l->wait_err = err;
	if (!err)
		rdt_listener_tell(l);
	return !err;
}

static void retry_listeners(struct rd_timer *timer)
{
	struct rdt_target *t = rd_container_of(timer, struct rdt_target, listen_timer);
	bool came = false, waits = false;
	struct rdt_listener *l;

	TAILQ_FOREACH (l, &t->listeners, link) {
		if (!l->wait_err)
			continue;
		if (retry_listener(l))
			came = true;
		else
			waits = true;
	}
	if (came)
		rdt_discovery_changed(t);
	if (waits)
		wait_for_addresses(t);
}

int rdt_listeners_open(struct rdt_target *t)
{
	struct rdt_listener *l;
	bool waits = false;
	char text[512];

	t->listen_timer.fn = retry_listeners;
	TAILQ_FOREACH (l, &t->listeners, link) {
		int err = l->transport->listen(l, NULL, text, sizeof(text));

		if (address_may_come(err)) {
			rd_warn(t->log, RD_LOG_TARGET,
				"%s; trying again every second until it is there", text);
			l->wait_err = err;
			l->wait_since = rd_loop_now(t->loop);
			waits = true;
		} else if (err) {
			rd_err(t->log, RD_LOG_TARGET, "%s", text);
			return err;
		}
	}
	TAILQ_FOREACH (l, &t->listeners, link)
		if (!l->wait_err)
			rdt_listener_tell(l);
	if (waits)
		wait_for_addresses(t);
	return 0;
}

void rdt_listeners_close(struct rdt_target *t)
{
	struct rdt_listener *l;

	rd_timer_stop(t->loop, &t->listen_timer);
	TAILQ_FOREACH (l, &t->listeners, link) {
		l->wait_err = 0;
		l->transport->unlisten(l);
	}
}

void rdt_listeners_free(struct rdt_target *t)
{
	struct rdt_listener *l;

	TAILQ_CONCAT(&t->listeners, &t->old_listeners, link);
	while ((l = TAILQ_FIRST(&t->listeners))) {
		TAILQ_REMOVE(&t->listeners, l, link);
		l->transport->unlisten(l);
		l->transport->forget(l);
		rdt_listener_stay(l);
		rdt_config_put(&l->cfg_of);
		free(l);
	}
}
