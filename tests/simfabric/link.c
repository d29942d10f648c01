/* SPDX-License-Identifier: BSD-3-Clause */
/* Links: what is under way between two connections, in order for each direction. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const char *const msg_names[] = {
	[RD_SIM_MSG_SEND] = "send",     [RD_SIM_MSG_WRITE] = "write",
	[RD_SIM_MSG_READ] = "read",     [RD_SIM_MSG_ANSWER] = "answer",
	[RD_SIM_MSG_ACK] = "ack",       [RD_SIM_MSG_NAK] = "nak",
	[RD_SIM_MSG_ACCEPT] = "accept", [RD_SIM_MSG_REJECT] = "reject",
	[RD_SIM_MSG_READY] = "ready",   [RD_SIM_MSG_FIN] = "fin",
	[RD_SIM_MSG_BYTES] = "bytes",   [RD_SIM_MSG_WINDOW] = "window",
	[RD_SIM_MSG_RESET] = "reset",
};

static void free_sim_msg(struct rd_sim_msg *msg)
{
	free(msg->data);
	free(msg);
}

static void drop_msgs(struct rd_sim_pipe *pipe)
{
	struct rd_sim_msg *msg;

	rd_sim_cancel(pipe->link->sim, &pipe->event);
	while ((msg = STAILQ_FIRST(&pipe->msgs))) {
		STAILQ_REMOVE_HEAD(&pipe->msgs, link);
		free_sim_msg(msg);
	}
}

void rd_sim_link_free(struct rd_sim_link *link)
{
	for (int to = 0; to < 2; to++)
		drop_msgs(&link->pipe[to]);
	rd_sim_cancel(link->sim, &link->request);
	LIST_REMOVE(link, entry);
	free(link);
}

void rd_sim_link_settle(struct rd_sim_link *link)
{
	if (link->end[0] || link->end[1] || link->req || link->request.slot)
		return;
	rd_sim_link_free(link);
}

void rd_sim_link_leave(struct rd_sim_link *link, unsigned int side)
{
	link->end[side] = NULL;
	rd_sim_link_settle(link);
}

/* The next message arrives when its time has come and the pipe is not held. */
static void arm_pipe(struct rd_sim_pipe *pipe)
{
	struct rd_sim *sim = pipe->link->sim;
	const struct rd_sim_msg *msg = STAILQ_FIRST(&pipe->msgs);
	uint64_t at;

	if (!msg || pipe->event.slot)
		return;
	at = msg->when > pipe->held_until ? msg->when : pipe->held_until;
	rd_sim_at(sim, &pipe->event, at > sim->now ? at - sim->now : 0);
}

static void msg_arrives(struct rd_sim_event *event)
{
	struct rd_sim_pipe *pipe = rd_container_of(event, struct rd_sim_pipe, event);
	struct rd_sim_msg *msg = STAILQ_FIRST(&pipe->msgs);
	struct rd_sim_link *link = pipe->link;
	struct rd_sim *sim = link->sim;
	struct rd_sim_end *end, *from;

	if (sim->now < pipe->held_until) {
		arm_pipe(pipe);
		return;
	}
	STAILQ_REMOVE_HEAD(&pipe->msgs, link);
	arm_pipe(pipe);
	end = link->end[pipe->to];
	from = link->end[!pipe->to];
	rd_sim_tell(sim, "link %llu: %s to %s, %u bytes%s", (unsigned long long)link->id,
		    msg_names[msg->kind], pipe->to ? "target" : "host", msg->length,
		    end ? "" : ", too late");
	if (end)
		end->ops->arrived(end, from, msg); /* may free the link */
	else if (msg->kind == RD_SIM_MSG_BYTES)
		rd_sim_link_send(link, !pipe->to, (struct rd_sim_msg){.kind = RD_SIM_MSG_RESET});
	free_sim_msg(msg);
}

int rd_sim_link_create(struct rd_sim_end *active, struct rd_sim_link **out)
{
	struct rd_sim_link *link = calloc(1, sizeof(*link));

	if (!link)
		return -ENOMEM;
	link->sim = active->sim;
	link->id = ++link->sim->link_ids;
	link->end[0] = active;
	active->link = link;
	active->side = 0;
	for (unsigned int to = 0; to < 2; to++) {
		link->pipe[to].to = to;
		link->pipe[to].link = link;
		link->pipe[to].event.fn = msg_arrives;
		STAILQ_INIT(&link->pipe[to].msgs);
	}
	LIST_INSERT_HEAD(&link->sim->links, link, entry);
	*out = link;
	return 0;
}

struct rd_sim_msg rd_sim_answer(enum rd_sim_msg_kind kind, const void *priv, size_t len)
{
	struct rd_sim_msg msg = {.kind = kind};

	if (!len)
		return msg;
	msg.data = malloc(len);
	if (!msg.data)
		return msg;
	memcpy(msg.data, priv, len);
	msg.length = (uint32_t)len;
	return msg;
}

void rd_sim_link_send(struct rd_sim_link *link, unsigned int to, struct rd_sim_msg msg)
{
	struct rd_sim_pipe *pipe = &link->pipe[to];
	struct rd_sim *sim = link->sim;
	struct rd_sim_msg *copy = link->cut ? NULL : malloc(sizeof(*copy));

	if (!copy) {
		free(msg.data);
		return;
	}
	*copy = msg;
	copy->when = sim->now + rd_sim_latency(sim);
	if (copy->when < pipe->last)
		copy->when = pipe->last;
	pipe->last = copy->when;
	STAILQ_INSERT_TAIL(&pipe->msgs, copy, link);
	arm_pipe(pipe);
}

void rd_sim_link_detach(struct rd_sim_link *link, unsigned int to, struct rd_sim_conn *from)
{
	struct rd_sim_pipe *pipe = &link->pipe[to];
	struct rd_sim_msg *msg, *next;
	bool lost = link->cut;

	for (msg = STAILQ_FIRST(&pipe->msgs); msg; msg = next) {
		const struct rd_sim_wr *wr = rd_sim_wr_find(from, msg->wr);

		next = STAILQ_NEXT(msg, link);
		if (msg->kind > RD_SIM_MSG_READ)
			continue;
		/* What the adapter has taken is still delivered; nothing after what it has not. */
		lost = lost || msg->kind == RD_SIM_MSG_READ || rd_sim_chance(link->sim, 1, 8);
		if (!lost && wr && !msg->data) {
			msg->data = rd_sim_wr_data(wr);
			lost = !msg->data && msg->length;
		}
		if (lost) {
			STAILQ_REMOVE(&pipe->msgs, msg, rd_sim_msg, link);
			free_sim_msg(msg);
		}
	}
	if (STAILQ_EMPTY(&pipe->msgs))
		rd_sim_cancel(link->sim, &pipe->event);
}

bool rd_sim_link_holds(const struct rd_sim_link *link, unsigned int to)
{
	const struct rd_sim_pipe *pipe = &link->pipe[to];

	return !STAILQ_EMPTY(&pipe->msgs) && pipe->held_until > link->sim->now;
}

void rd_sim_link_drop_held(struct rd_sim_link *link, unsigned int to)
{
	if (rd_sim_link_holds(link, to))
		drop_msgs(&link->pipe[to]);
}

void rd_sim_link_cut_tail(struct rd_sim_link *link, unsigned int to)
{
	struct rd_sim_pipe *pipe = &link->pipe[to];
	struct rd_sim_msg *msg, *next;
	bool lost = false;

	for (msg = STAILQ_FIRST(&pipe->msgs); msg; msg = next) {
		next = STAILQ_NEXT(msg, link);
		lost = lost || rd_sim_chance(link->sim, 1, 8);
		if (!lost)
			continue;
		STAILQ_REMOVE(&pipe->msgs, msg, rd_sim_msg, link);
		free_sim_msg(msg);
	}
	if (STAILQ_EMPTY(&pipe->msgs))
		rd_sim_cancel(link->sim, &pipe->event);
}
