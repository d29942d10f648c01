/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners: each one listens, or is retried, independently. The object of a listener that was
 * removed is kept until the target ends, because controllers point to it, and is used again for the
 * same address. Reactors find the visible listeners under disc.lock. */
#include "lifecycle.h"
#include "target/nvmf/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/log.h"
#include "util/loop.h"
#include "util/sockaddr.h"
#include "target/bdev/inherit.h"
#include "target/nvmf/ana.h"
#include "target/config/config.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/events.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/target.h"
#include "target/nvmf/transport.h"

#define LISTEN_AGAIN RD_NSEC_PER_SEC

struct leave_post { /* a message to one reactor */
	struct rd_msg msg;
	struct rdt_reactor *reactor;
	struct rdt_listener_leave *leave;
};

struct rdt_listener_leave { /* freed by the last reactor that answers */
	struct rdt_listener *listener;
	atomic_uint left;
	struct leave_post posts[];
};

bool rdt_listener_same_place(const struct rdt_listener_config *a,
			     const struct rdt_listener_config *b)
{
	return a->port == b->port && strcmp(a->address, b->address) == 0;
}

static struct rdt_listener *find_removed_listener(struct rdt_target *t,
						  const struct rdt_listener_config *cfg)
{
	struct rdt_listener *l;

	TAILQ_FOREACH (l, &t->old_listeners, link)
		if (atomic_load(&l->passed) && rdt_listener_same_place(l->cfg, cfg) &&
		    l->transport->kind == cfg->transport)
			return l;
	return NULL;
}

static struct rdt_listener_leave *new_leave(const struct rdt_target *t)
{
	unsigned int n = t->cfg->target.reactors;
	struct rdt_listener_leave *leave = calloc(1, sizeof(*leave) + n * sizeof(leave->posts[0]));

	return leave;
}

/* Create a listener, which is CLOSED, and choose its provider. NULL: no memory. */
static struct rdt_listener *new_listener(struct rdt_target *t,
					 const struct rdt_listener_config *cfg,
					 struct rdt_config *cfg_of)
{
	struct rdt_listener_leave *leave = new_leave(t);
	struct rdt_listener *l = leave ? find_removed_listener(t, cfg) : NULL;

	if (l)
		TAILQ_REMOVE(&t->old_listeners, l, link);
	else if (leave)
		l = calloc(1, sizeof(*l));
	if (!l) {
		free(leave);
		return NULL;
	}
	rdt_config_put(&l->cfg_of);
	l->target = t;
	l->transport = t->transports[cfg->transport];
	l->cfg = cfg;
	l->cfg_of = rdt_config_get(cfg_of);
	l->leave = leave;
	atomic_store(&l->send_buffer_bytes, cfg->send_buffer_bytes);
	atomic_store(&l->tls, (uint8_t)cfg->tls);
	atomic_store(&l->passed, false);
	l->at.ss_family = AF_UNSPEC;
	l->inherited_fd = -1;
	if (!l->portid)
		l->portid = ++t->portids;
	if (l->transport->prepare(l)) {
		free(l->leave);
		l->leave = NULL;
		atomic_store(&l->passed, true);
		TAILQ_INSERT_TAIL(&t->old_listeners, l, link);
		return NULL;
	}
	rdt_ana_init(l);
	return l;
}

/* Show it in the discovery log, which has it while it listens. */
static void show_listener(struct rdt_listener *l)
{
	struct rdt_target *t = l->target;

	pthread_mutex_lock(&t->disc.lock);
	l->addr.ss_family = AF_UNSPEC;
	TAILQ_INSERT_TAIL(&t->listeners, l, link);
	pthread_mutex_unlock(&t->disc.lock);
}

static void set_listener_phase(struct rdt_listener *l, enum rdt_listener_phase phase)
{
	if (l->phase != phase)
		l->since = rd_loop_now(l->target->loop);
	l->phase = phase;
}

/* ---- listening ---- */

static void retry_listeners(struct rd_timer *timer);

static void try_again(struct rdt_target *t)
{
	t->listen_timer.fn = retry_listeners;
	if (rd_timer_start(t->loop, &t->listen_timer, LISTEN_AGAIN))
		rd_err(t->log, RD_LOG_TARGET,
		       "out of memory for a timer: listeners that failed are retried at the "
		       "next reload");
}

static void tell_listening_at(const struct rdt_listener *l)
{
	char text[RD_ADDR_TEXT];

	rd_notice(l->target->log, RD_LOG_MAIN, "listening on %s (%s)",
		  rd_addr_format((const struct sockaddr *)&l->addr, text),
		  l->transport->provider(l));
}

/* Returns the socket that the previous process has passed for it, or -1. */
static int inherited_socket(const struct rdt_listener *l)
{
	const struct rdt_inherit *inherit = l->target->env->inherit;
	rd_autofree char *name = NULL;
	int fd;

	if (!inherit || !l->transport->listen_fd ||
	    rdt_inherit_listener(l->transport->name, l->cfg->address, l->cfg->port, &name))
		return -1;
	fd = rdt_inherit_open(inherit, name);
	return fd < 0 ? -1 : fd;
}

void rdt_listeners_hold(struct rdt_target *t, bool held)
{
	struct rdt_listener *l;

	t->listeners_held = held;
	TAILQ_FOREACH (l, &t->listeners, link)
		if (l->phase == RDT_LISTENER_LISTENING && l->transport->listen_hold)
			l->transport->listen_hold(l, held);
}

/* Try to listen. The reason of a failure is logged if it differs from the one before. Returns 0 or
 * -errno. */
static int try_listening(struct rdt_listener *l)
{
	struct rdt_target *t = l->target;
	const struct sockaddr *at =
		l->at.ss_family == AF_UNSPEC ? NULL : (const struct sockaddr *)&l->at;
	char text[sizeof(l->why)] = "";
	int err;

	l->inherited_fd = inherited_socket(l);
	err = l->transport->listen(l, at, text, sizeof(text));
	if (err && l->inherited_fd >= 0)
		close(l->inherited_fd);
	l->inherited_fd = -1;
	if (!err) {
		set_listener_phase(l, RDT_LISTENER_LISTENING);
		tell_listening_at(l);
		return 0;
	}
	if (l->phase != RDT_LISTENER_FAILED || strcmp(l->why, text) != 0)
		rd_err(t->log, RD_LOG_TARGET, "%s; trying again every second", text);
	memcpy(l->why, text, sizeof(l->why));
	set_listener_phase(l, RDT_LISTENER_FAILED);
	if (!rd_timer_armed(&t->listen_timer))
		try_again(t);
	return err;
}

static void retry_listeners(struct rd_timer *timer)
{
	struct rdt_target *t = rd_container_of(timer, struct rdt_target, listen_timer);
	bool came = false;
	struct rdt_listener *l;

	TAILQ_FOREACH (l, &t->listeners, link)
		if (l->phase == RDT_LISTENER_FAILED && !try_listening(l))
			came = true;
	if (came)
		rdt_discovery_changed(t);
}

/* ---- removal ---- */

/* End the connections without a controller, and I/O queues of controllers of other listeners. A
 * controller ends its I/O queues itself, in the order that hosts expect. */
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
	if (atomic_fetch_sub(&leave->left, 1) != 1)
		return;
	atomic_store(&leave->listener->passed, true);
	free(leave);
}

static void leave_listener(struct rdt_listener *l)
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
	if (l->phase == RDT_LISTENER_FAILED)
		rd_notice(t->log, RD_LOG_MAIN, "no longer trying to listen on %s port %u",
			  l->cfg->address, l->cfg->port);
	else
		rd_notice(t->log, RD_LOG_MAIN, "no longer listening on %s; closing its connections",
			  rd_addr_format((struct sockaddr *)&l->addr, text));
	set_listener_phase(l, RDT_LISTENER_CLOSED);
	leave->listener = l;
	atomic_init(&leave->left, t->reactors_count);
	/* Messages keep their order, so connections that were handed over earlier are accepted
	 * first. */
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
		struct rdt_listener *l = new_listener(t, &t->cfg->listeners[i], t->cfg);

		if (!l)
			return -ENOMEM;
		show_listener(l);
	}
	return 0;
}

int rdt_listeners_open(struct rdt_target *t)
{
	struct rdt_listener *l;
	int err = 0;

	TAILQ_FOREACH (l, &t->listeners, link) {
		int failed = try_listening(l);

		err = err ? err : failed;
	}
	return err;
}

void rdt_listeners_close(struct rdt_target *t)
{
	struct rdt_listener *l;

	rd_timer_stop(t->loop, &t->listen_timer);
	TAILQ_FOREACH (l, &t->listeners, link) {
		set_listener_phase(l, RDT_LISTENER_CLOSED);
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
		free(l->leave);
		rdt_config_put(&l->cfg_of);
		free(l);
	}
}

/* ---- another configuration ---- */

/* Port 0 may be configured several times for one address; these listeners are matched in order. */
static struct rdt_listener *match_listener(struct rdt_target *t,
					   const struct rdt_listener_config *cfg, bool all)
{
	struct rdt_listener *l;

	TAILQ_FOREACH (l, &t->listeners, link) {
		if (l->matched || !(all ? rdt_config_same_listener(l->cfg, cfg)
					: rdt_listener_same_place(l->cfg, cfg)))
			continue;
		l->matched = true;
		return l;
	}
	return NULL;
}

/* A listener of the new configuration. */
struct listener_item {
	const struct rdt_listener_config *cfg;
	struct rdt_listener *now;   /* the existing listener; NULL: it is new */
	struct sockaddr_storage at; /* as rdt_listener.at */
};

static void match_listeners(struct rdt_target *t, struct rdt_config *next,
			    struct listener_item *items)
{
	struct rdt_listener *l;

	TAILQ_FOREACH (l, &t->listeners, link)
		l->matched = false;
	for (unsigned int i = 0; i < next->listeners_count; i++) {
		items[i].cfg = &next->listeners[i];
		items[i].now = match_listener(t, items[i].cfg, true);
	}
	for (unsigned int i = 0; i < next->listeners_count; i++) {
		l = items[i].now ? NULL : match_listener(t, items[i].cfg, false);
		if (l && l->phase == RDT_LISTENER_LISTENING)
			items[i].at = l->addr;
	}
	/* Those with other options are removed too. */
	TAILQ_FOREACH (l, &t->listeners, link)
		l->matched = false;
	for (unsigned int i = 0; i < next->listeners_count; i++)
		if (items[i].now)
			items[i].now->matched = true;
}

/* Returns the listener for @item; NULL: no memory. */
static struct rdt_listener *converge_listener(struct rdt_target *t, struct rdt_config *next,
					      const struct listener_item *item,
					      struct rdt_listeners_change *done)
{
	struct rdt_listener *l = item->now;

	if (l) {
		done->settings += (unsigned int)rdt_ana_set(t, l, rdt_ana_configured(item->cfg));
		return l;
	}
	l = new_listener(t, item->cfg, next);
	if (!l)
		return NULL;
	l->at = item->at;
	show_listener(l);
	return l;
}

void rdt_listeners_set(struct rdt_target *t, struct rdt_config *next, bool again,
		       void (*failed)(void *arg, const char *text), void *arg,
		       struct rdt_listeners_change *done)
{
	struct listener_item *items = calloc(next->listeners_count + 1, sizeof(*items));
	struct rdt_listener *l, *after;

	if (!items) {
		failed(arg, "listeners: out of memory; the next reload tries again");
		return;
	}
	match_listeners(t, next, items);
	/* Remove listeners first, because a new one may have the port of one of them. */
	for (l = TAILQ_FIRST(&t->listeners); l; l = after) {
		after = TAILQ_NEXT(l, link);
		if (l->matched)
			continue;
		leave_listener(l);
		done->removed++;
	}
	for (unsigned int i = 0; i < next->listeners_count; i++) {
		l = converge_listener(t, next, &items[i], done);
		if (!l)
			failed(arg, "listeners: out of memory; the next reload tries again");
		else if (l->phase == RDT_LISTENER_LISTENING ||
			 (l->phase == RDT_LISTENER_FAILED && !again))
			continue;
		else if (try_listening(l))
			failed(arg, l->why);
		else
			done->added++;
	}
	if (done->added || done->removed)
		rdt_discovery_changed(t);
	free(items);
}
