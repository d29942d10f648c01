/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listeners in a reload. All new ones are opened before anything else is changed, so that an
 * address that cannot be used changes nothing. A listener with changed options is replaced; with
 * port 0 it keeps the port that it has.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/sockaddr.h"
#include "nvmf/wire.h"
#include "target/cmd/admin.h"
#include "target/nvmf/ana.h"
#include "target/config/config.h"
#include "target/nvmf/events.h"
#include "target/reactor/lifecycle.h"
#include "target/nvmf/listener.h"
#include "reload.h"
#include "target/nvmf/target.h"
#include "target/config/tgt_limits.h"
#include "target/nvmf/transport.h"

/* A listener of the new configuration. */
struct item {
	const struct rdt_listener_config *cfg;
	struct rdt_listener *now; /* the existing listener, or NULL */
	struct rdt_listener *new; /* NULL: @now stays as it is */
};

struct plan {
	struct rdt_reload *rl;
	struct rdt_target *t;
	struct item *items;
	unsigned int count;
};

static bool same_options(const struct rdt_listener_config *a, const struct rdt_listener_config *b)
{
	return a->provider == b->provider && a->crc == b->crc &&
	       a->send_buffer_bytes == b->send_buffer_bytes &&
	       a->receive_buffer_bytes == b->receive_buffer_bytes &&
	       rdt_config_same_text(a->congestion, b->congestion) &&
	       a->send_with_inv == b->send_with_inv && a->inline_sends == b->inline_sends;
}

/* Port 0 may be configured several times for one address: these are matched in order. */
static struct rdt_listener *match_listener(struct rdt_target *t,
					   const struct rdt_listener_config *cfg, bool options)
{
	struct rdt_listener *l;

	TAILQ_FOREACH (l, &t->listeners, link) {
		if (l->matched || !rdt_listener_same_place(l->cfg, cfg) ||
		    (options && !same_options(l->cfg, cfg)))
			continue;
		l->matched = true;
		return l;
	}
	return NULL;
}

static int make_items(struct plan *p, struct rdt_config *next)
{
	struct rdt_listener *l;

	p->items = calloc(next->listeners_count + 1, sizeof(*p->items));
	if (!p->items)
		return -ENOMEM;
	p->count = next->listeners_count;
	TAILQ_FOREACH (l, &p->t->listeners, link)
		l->matched = false;
	for (unsigned int i = 0; i < p->count; i++) {
		p->items[i].cfg = &next->listeners[i];
		p->items[i].now = match_listener(p->t, p->items[i].cfg, true);
	}
	for (unsigned int i = 0; i < p->count; i++) {
		struct item *item = &p->items[i];

		if (item->now)
			continue;
		item->now = match_listener(p->t, item->cfg, false);
		item->new = rdt_listener_new(p->t, item->cfg, next);
		if (!item->new)
			return -ENOMEM;
	}
	/* Also remove listeners whose options have changed. */
	for (unsigned int i = 0; i < p->count; i++)
		if (p->items[i].new && p->items[i].now)
			p->items[i].now->matched = false;
	return 0;
}

static const struct sockaddr *bound(const struct rdt_listener *l)
{
	return (const struct sockaddr *)&l->addr;
}

/* Sockets of the same port can conflict, also with different addresses (wildcards). */
static bool port_conflicts(const struct plan *p, const struct rdt_listener *l)
{
	for (unsigned int i = 0; i < p->count; i++) {
		const struct item *item = &p->items[i];

		if (item->new && (item->now == l || item->cfg->port == rd_addr_port(bound(l))))
			return true;
	}
	return false;
}

static int open_new(struct plan *p)
{
	struct rdt_listener *l;
	char text[512];
	int err = 0;

	TAILQ_FOREACH (l, &p->t->listeners, link) {
		if (l->matched)
			continue;
		err = rdt_listener_prepare_leave(l);
		if (err)
			return err;
		if (!l->wait_err && port_conflicts(p, l))
			l->transport->unlisten(l);
	}
	for (unsigned int i = 0; i < p->count && !err; i++) {
		const struct item *item = &p->items[i];

		if (!item->new)
			continue;
		err = item->new->transport->listen(
			item->new, item->now && !item->now->wait_err ? bound(item->now) : NULL,
			text, sizeof(text));
		if (err)
			rdt_reload_problem(p->rl, "%s", text);
	}
	return err;
}

/* Undo everything that was prepared. */
static void undo_listeners(struct plan *p)
{
	struct rdt_listener *l;
	char text[512];

	for (unsigned int i = 0; i < p->count; i++)
		if (p->items[i].new)
			rdt_listener_keep(p->items[i].new);
	TAILQ_FOREACH (l, &p->t->listeners, link) {
		rdt_listener_stay(l);
		if (!l->listening && !l->wait_err &&
		    l->transport->listen(l, bound(l), text, sizeof(text)))
			rdt_reload_problem(p->rl, "%s; it listened there before", text);
	}
}

static void commit_listeners(struct plan *p, struct rdt_reload_listeners *done)
{
	struct rdt_listener *l, *next;

	for (l = TAILQ_FIRST(&p->t->listeners); l; l = next) {
		next = TAILQ_NEXT(l, link);
		if (l->matched)
			continue;
		rdt_listener_leave(l);
		done->removed++;
	}
	for (unsigned int i = 0; i < p->count; i++) {
		struct item *item = &p->items[i];

		if (item->new) {
			rdt_listener_show(item->new);
			rdt_listener_tell(item->new);
			done->added++;
		} else {
			done->settings += (unsigned int)rdt_ana_set(p->t, item->now,
								    rdt_ana_configured(item->cfg));
		}
	}
	if (done->added || done->removed)
		rdt_discovery_changed(p->t);
}

int rdt_reload_listen(struct rdt_reload *rl, struct rdt_target *t, struct rdt_config *next,
		      struct rdt_reload_listeners *done)
{
	struct plan p = {.rl = rl, .t = t};
	int err = make_items(&p, next);

	if (!err)
		err = open_new(&p);
	if (err)
		undo_listeners(&p);
	else
		commit_listeners(&p, done);
	free(p.items);
	return err;
}
