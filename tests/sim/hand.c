/* SPDX-License-Identifier: BSD-3-Clause */
#include "hand.h"

#include <errno.h>
#include <stdlib.h>

#include "target/bdev/inherit.h"
#include "target/config/config.h"
#include "target/manage/upgrade/ns_hand.h"
#include "target/manage/upgrade/ns_record.h"
#include "target/nvmf/hold.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/move.h"
#include "target/nvmf/target.h"
#include "target/nvmf/transport.h"
#include "target/reactor/lifecycle.h"

#include "simfabric/streams.h"

#define FDS_MAX 256u

void hand_init(struct hand *h)
{
	rd_fd_bag_init(&h->bag, FDS_MAX);
}

/* As the next process reads them. NULL: no memory. */
static json_t *pass_records(const json_t *records)
{
	char *text = json_dumps(records, JSON_COMPACT | JSON_ENSURE_ASCII);
	json_t *read = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;

	free(text);
	return read;
}

static int pass_listener(struct hand *h, const struct rdt_listener *l)
{
	int fd = l->phase == RDT_LISTENER_LISTENING && l->transport->listen_fd
			 ? l->transport->listen_fd(l)
			 : -1;
	char *name = NULL;
	int at, rc;

	if (fd < 0)
		return 0;
	at = rd_fd_bag_add_dup(&h->bag, fd);
	rc = rdt_inherit_listener(l->transport->name, l->cfg->address, l->cfg->port, &name);
	if (!rc && at >= 0)
		rc = rdt_inherit_add(h->inherit, name, rd_fd_bag_take(&h->bag, at));
	free(name);
	return at < 0 ? at : rc;
}

int hand_pass_open(struct hand *h, const struct rdt_target *last, const struct rdt_config *cfg)
{
	json_t *records = rdt_records_new();
	const struct rdt_listener *l;
	int rc;

	h->why[0] = '\0';
	rc = rdt_inherit_new(&h->inherit);
	TAILQ_FOREACH (l, &last->listeners, link)
		if (!rc)
			rc = pass_listener(h, l);
	if (!rc)
		rc = rdt_ns_records_open(last, records, &h->bag, h->why, sizeof(h->why));
	if (!rc) {
		h->open = pass_records(records);
		rc = h->open ? rdt_records_check(h->open, h->why, sizeof(h->why)) : -ENOMEM;
	}
	if (!rc)
		rc = rdt_ns_records_inherit(h->open, cfg, &h->bag, h->inherit, h->why,
					    sizeof(h->why));
	json_decref(records);
	return rc;
}

int hand_pass_state(struct hand *h, struct rdt_target *last, unsigned int process)
{
	json_t *records = rdt_records_new();
	int rc = rdt_ns_records_state(last, RDT_MOVE_ALL, records, h->why, sizeof(h->why));

	if (!rc)
		rc = rdt_move_out(last, RDT_MOVE_ALL, records, &h->bag);
	if (!rc) {
		h->moves = pass_records(records);
		rc = h->moves ? 0 : -ENOMEM;
	}
	json_decref(records);
	for (unsigned int i = 0; i < h->bag.count; i++)
		rd_sim_pass(h->bag.fds[i], process);
	return rc;
}

int hand_take(struct hand *h, struct rdt_target *next,
	      void (*in)(void *arg, int err, const char *why), void *arg)
{
	int rc = rdt_records_check(h->moves, h->why, sizeof(h->why));

	if (!rc)
		rc = rdt_ns_records_take(next, h->moves, h->why, sizeof(h->why));
	return rc ? rc : rdt_move_in(next, h->moves, &h->bag, in, arg);
}

int hand_end(struct hand *h, const struct rdt_target *last, struct rdt_target *next,
	     unsigned int process)
{
	json_t *records = rdt_records_new(), *read;
	int rc = rdt_ns_records_state(last, RDT_MOVE_STATE, records, h->why, sizeof(h->why));
	unsigned int before;

	read = pass_records(records);
	before = rd_sim_enter(process);
	if (!rc)
		rc = rdt_ns_records_end(next, read, h->why, sizeof(h->why));
	rdt_ns_left_serve(next, true);
	rd_sim_enter(before);
	json_decref(records);
	json_decref(read);
	return rc;
}

void hand_go_on(struct rdt_target *last)
{
	rdt_ns_leave_none(last);
	rdt_hold_release(last);
	rdt_listeners_hold(last, false);
}

void hand_drop(struct hand *h)
{
	rd_fd_bag_clear(&h->bag);
	json_decref(h->open);
	json_decref(h->moves);
	h->open = h->moves = NULL;
	rdt_inherit_free(&h->inherit);
}
