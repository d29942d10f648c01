/* SPDX-License-Identifier: BSD-3-Clause */
/* What moves to another process: each reactor writes its own queues and controllers, at the end of
 * a hold, when nothing of them changes any more. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/fd_bag.h"
#include "util/sockaddr.h"
#include "ctrl.h"
#include "hold_part.h"
#include "move_bytes.h"
#include "move_counters.h"
#include "move_ctrl.h"
#include "qpair.h"
#include "reactor.h"
#include "subsys.h"
#include "target.h"

/* ---- on the reactors ---- */

/* Returns the record of @qp, or NULL: it does not move. @fd: its socket, or the -errno of want of
 * something: then the hand-over is refused, as its host would have to connect again. */
static json_t *queue_record(struct rdt_qpair *qp, int *fd)
{
	json_t *rec =
		json_pack("{s:s, s:s, s:i, s:i, s:s, s:i, s:i, s:b, s:b, s:i, s:I, s:i}", "kind",
			  "queue", "subsys", qp->ctrl->subsys->nqn, "cntlid", (int)qp->ctrl->cntlid,
			  "qid", (int)qp->qid, "transport", qp->ops->name, "sqsize",
			  (int)qp->sqsize, "sqhd", (int)qp->sqhd, "sqflow_off", (int)qp->sqflow_off,
			  "fuse_failed", (int)qp->fuse_failed, "depth", (int)qp->depth, "unproven",
			  (json_int_t)qp->unproven, "reactor", (int)qp->reactor->index);
	int n = rec ? qp->ops->move_out(qp, rec) : -ENOMEM;

	*fd = n == -EOPNOTSUPP ? 0 : n < 0 ? n : fcntl(n, F_DUPFD_CLOEXEC, 0);
	if (n >= 0 && *fd >= 0)
		return rec;
	if (n >= 0)
		*fd = -errno;
	json_decref(rec);
	return NULL;
}

static bool may_move(const struct rdt_qpair *qp)
{
	return qp->state == RDT_QP_HELD && qp->ops->move_out && !qp->guest &&
	       !atomic_load(&qp->ctrl->over) && !atomic_load(&qp->ctrl->lost) &&
	       (!qp->admin || rdt_move_ctrl_can(qp->ctrl));
}

static void say_unwritten(struct rdt_hold_part *part, const struct rdt_qpair *qp, int err)
{
	snprintf(part->why, sizeof(part->why), "queue %u of controller %u of host %.80s: %s",
		 qp->qid, qp->ctrl->cntlid, qp->ctrl->hostnqn,
		 err == -EMFILE ? "there are too few descriptors; raise the limit of open files "
				  "(LimitNOFILE= of a service)"
		 : err == -EFBIG
			 ? "more has arrived and not begun than can be handed over; try again "
			   "when its commands have ended"
			 : strerror(-err));
}

static int write_queue(struct rdt_hold_part *part, struct rdt_qpair *qp)
{
	json_t *rec, *ctrl;
	int fd = 0;

	if (!may_move(qp) || !(rec = queue_record(qp, &fd))) {
		part->count.left++;
		if (fd)
			say_unwritten(part, qp, fd);
		return fd;
	}
	part->fds[part->fds_count++] = fd;
	if (json_array_append_new(part->records, rec))
		return -ENOMEM;
	part->count.queues++;
	qp->moved = true;
	if (!qp->admin)
		return 0;
	part->count.ctrls++;
	ctrl = rdt_move_ctrl_out(qp->ctrl);
	return json_array_append_new(part->records, ctrl) ? -ENOMEM : 0;
}

void rdt_hold_write(struct rdt_hold_part *part)
{
	struct rdt_reactor *r = part->reactor;
	struct rdt_qpair *qp;

	rdt_io_count_run(r);
	part->records = json_array();
	part->fds = calloc(r->qpairs_count + 1u, sizeof(*part->fds));
	if (!part->records || !part->fds)
		part->err = -ENOMEM;
	TAILQ_FOREACH (qp, &r->qpairs, link)
		if (!part->err)
			part->err = write_queue(part, qp);
}

/* ---- on the main thread ---- */

void rdt_hold_unwrite(struct rdt_hold_part *part)
{
	for (size_t i = 0; i < part->fds_count; i++)
		if (part->fds[i] >= 0)
			close(part->fds[i]);
	free(part->fds);
	part->fds = NULL;
	part->fds_count = 0;
	json_decref(part->records);
	part->records = NULL;
}

static int take_hold_part(struct rdt_hold_part *part, json_t *records, struct rd_fd_bag *fds)
{
	size_t at, next = 0;
	json_t *rec;

	json_array_foreach(part->records, at, rec)
	{
		if (rdt_move_is(rec, "queue")) {
			int n = rd_fd_bag_add(fds, part->fds[next]);

			part->fds[next++] = -1;
			if (n < 0)
				return n;
			if (json_object_set_new(rec, "fd", json_integer(n)))
				return -ENOMEM;
		}
		if (json_array_append(records, rec))
			return -ENOMEM;
	}
	return 0;
}

static json_t *counts_out(const _Atomic uint64_t changes[RDT_ANA_GROUPS + 1])
{
	json_t *out = json_array();

	for (unsigned int i = 0; i <= RDT_ANA_GROUPS; i++)
		json_array_append_new(out, json_integer((json_int_t)atomic_load(&changes[i])));
	return out;
}

/* Of the subsystems that have any. */
static json_t *subsys_counts_out(const struct rdt_target *t)
{
	json_t *out = json_object();
	struct rdt_subsys *ss;
	unsigned int at = 0;

	while ((ss = rdt_subsys_next(t, &at)))
		if (atomic_load(&ss->ana_changes[0]))
			json_object_set_new(out, ss->nqn, counts_out(ss->ana_changes));
	return out;
}

static json_t *listener_record(const struct rdt_listener *l)
{
	json_t *states = json_array();
	char bound[RD_ADDR_TEXT];

	for (unsigned int i = 0; i <= RDT_ANA_GROUPS; i++)
		json_array_append_new(states, json_integer(atomic_load(&l->ana[i])));
	return json_pack("{s:s, s:s, s:s, s:i, s:s, s:o, s:o}", "kind", "listener", "transport",
			 l->transport->name, "address", l->cfg->address, "port", (int)l->cfg->port,
			 "bound", rd_addr_format((const struct sockaddr *)&l->addr, bound),
			 "ana_changes", counts_out(l->ana_changes), "ana", states);
}

static int take_listeners(struct rdt_target *t, enum rdt_move_part part, json_t *records)
{
	const struct rdt_listener *l;
	json_t *rec = json_pack("{s:s, s:I, s:i, s:o}", "kind", "target", "genctr",
				(json_int_t)atomic_load(&t->genctr), "reactors",
				(int)t->reactors_count, "ana_changes", subsys_counts_out(t));
	int err = part == RDT_MOVE_COUNTERS ? 0 : rdt_move_totals_out(t, rec);

	if (!err && part != RDT_MOVE_STATE)
		err = rdt_move_hosts_out(t, NULL, rec);
	if (json_array_append_new(records, rec))
		err = -ENOMEM;
	TAILQ_FOREACH (l, &t->listeners, link) {
		if (err)
			break;
		rec = listener_record(l);
		if (part != RDT_MOVE_STATE)
			err = rdt_move_hosts_out(t, l, rec);
		if (json_array_append_new(records, rec))
			err = -ENOMEM;
	}
	return err;
}

int rdt_move_out(struct rdt_target *t, enum rdt_move_part part, json_t *records,
		 struct rd_fd_bag *fds)
{
	int err;

	if (!t->hold || t->hold->state != RDT_HOLD_REACHED)
		return -EINVAL;
	err = take_listeners(t, part, records);
	if (part == RDT_MOVE_COUNTERS)
		return err;
	for (unsigned int i = 0; i < t->reactors_count && !err; i++) {
		err = take_hold_part(&t->hold->parts[i], records, fds);
		rdt_hold_unwrite(&t->hold->parts[i]);
	}
	return err;
}

struct rdt_move_count rdt_move_counted(const struct rdt_target *t)
{
	struct rdt_move_count sum = {0};

	for (unsigned int i = 0; t->hold && i < t->reactors_count; i++) {
		const struct rdt_move_count *c = &t->hold->parts[i].count;

		sum.ctrls += c->ctrls;
		sum.queues += c->queues;
		sum.left += c->left;
	}
	return sum;
}

void rdt_move_done(struct rdt_target *t)
{
	if (t->hold && t->hold->state == RDT_HOLD_REACHED)
		rdt_hold_leave(t->hold, true);
	else if (t->move_in)
		rdt_move_forget(t);
}
