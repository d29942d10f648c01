/* SPDX-License-Identifier: BSD-3-Clause */
#include "gate.h"

#include <errno.h>
#include <stdlib.h>

#include "util/cold.h"
#include "util/loop.h"
#include "ns.h"
#include "reactor.h"
#include "request.h"
#include "subsys.h"
#include "target.h"

struct gate_part { /* of a reactor */
	struct rd_msg close, open;
	struct rdt_ns *ns;
	struct rdt_reactor *reactor;
	struct rdt_bio_queue waiting;
};

struct rdt_gate {
	bool open;                /* the messages that open it are under way, or were */
	struct gate_part parts[]; /* by reactor->index */
};

static struct gate_part *part_of(const struct rdt_req *req)
{
	return &req->ns->gate->parts[req->qp->reactor->index];
}

/* ---- on the reactors ---- */

/* All commands count as having arrived before the storage was there, which costs others nothing. */
static void close_gate_msg(struct rd_msg *msg)
{
	struct gate_part *part = rd_container_of(msg, struct gate_part, close);
	struct rdt_ns_channel *channel = rdt_ns_channel_of(part->reactor, part->ns);

	if (channel->ns != part->ns)
		return;
	channel->gated = true;
	channel->taken = UINT64_MAX;
}

static void open_gate_msg(struct rd_msg *msg)
{
	struct gate_part *part = rd_container_of(msg, struct gate_part, open);
	struct rdt_ns_channel *channel = rdt_ns_channel_of(part->reactor, part->ns);
	struct rdt_bio *bio;

	if (channel->ns != part->ns)
		return;
	channel->gated = false;
	channel->taken = 0;
	while ((bio = TAILQ_FIRST(&part->waiting))) {
		TAILQ_REMOVE(&part->waiting, bio, link);
		rd_container_of(bio, struct rdt_req, bio)->wait = RDT_WAIT_BIO;
		if (rdt_chan_submit(channel->chan, bio) == RDT_BIO_DONE)
			bio->done(bio);
	}
}

RD_COLD enum rdt_bio_submit rdt_gate_submit(struct rdt_req *req)
{
	struct rdt_bio *bio = &req->bio;

	if (req->channel->gated) {
		req->wait = RDT_WAIT_GATE;
		TAILQ_INSERT_TAIL(&part_of(req)->waiting, bio, link);
		return RDT_BIO_QUEUED;
	}
	if (!req->arrived) /* an admin command, which is not counted */
		return rdt_chan_submit(req->channel->chan, bio);
	bio->result = -ESHUTDOWN;
	return RDT_BIO_DONE;
}

void rdt_gate_unwait(struct rdt_req *req)
{
	struct rdt_bio *bio = &req->bio;

	TAILQ_REMOVE(&part_of(req)->waiting, bio, link);
	bio->result = -ECANCELED;
	bio->done(bio);
}

/* ---- on the main thread ---- */

/* The messages need no answer: those that take the namespace away come after them. */
int rdt_gate_close(struct rdt_ns *ns)
{
	struct rdt_target *t = ns->subsys->target;
	struct rdt_gate *gate;

	if (ns->gate)
		return 0;
	gate = calloc(1, sizeof(*gate) + t->reactors_count * sizeof(gate->parts[0]));
	if (!gate)
		return -ENOMEM;
	ns->gate = gate;
	ns->left_behind = true;
	rdt_bdev_late(rdt_bdev_base(ns->bdev), rd_loop_now(t->loop));
	for (unsigned int i = 0; i < t->reactors_count; i++) {
		struct gate_part *part = &gate->parts[i];

		part->ns = ns;
		part->reactor = &t->reactors[i];
		TAILQ_INIT(&part->waiting);
		part->close.fn = close_gate_msg;
		part->open.fn = open_gate_msg;
		rd_loop_post(part->reactor->loop, &part->close);
	}
	return 0;
}

void rdt_gate_open(struct rdt_ns *ns)
{
	struct rdt_target *t = ns->subsys->target;

	ns->left_behind = false;
	if (!ns->gate || ns->gate->open)
		return;
	ns->gate->open = true;
	rdt_bdev_answers(rdt_bdev_base(ns->bdev));
	for (unsigned int i = 0; i < t->reactors_count; i++)
		rd_loop_post(t->reactors[i].loop, &ns->gate->parts[i].open);
}
