/* SPDX-License-Identifier: BSD-3-Clause */
#include "notify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rados.h"

#define TARGETS   16u
#define DELIVERED (5 * RD_NSEC_PER_MSEC)

enum target_state { TARGET_ASKED, TARGET_ACKED, TARGET_LEFT };

#define PAYLOAD_MAX 16u

struct payload {
	size_t len;
	char text[PAYLOAD_MAX];
};

struct notify_target {
	uint64_t client, cookie;
	enum target_state state;
	struct payload payload; /* of TARGET_ACKED */
};

/* At the OSD. */
struct notify {
	LIST_ENTRY(notify) link;
	struct rd_sim_event timeout;
	struct cluster *cluster;
	unsigned int pool;
	struct op *op; /* to be answered; NULL: nobody waits */
	uint64_t id;
	unsigned int count;
	bool over;
	struct notify_target targets[TARGETS];
};

/* A question on its way to a watcher. */
struct delivery {
	LIST_ENTRY(delivery) link;
	struct rd_sim_event event;
	struct client *client;
	uint64_t cookie, id;
};

struct notify_op {
	struct op op;
	const char *object;
	uint64_t timeout_ns;
	struct completion *completion;
	char **reply;
	size_t *reply_len;
	struct notify_target *answer; /* what *@reply becomes */
	size_t answer_len;
};

struct ack_op {
	struct op op;
	uint64_t id, cookie;
	struct payload payload;
};

/* ---- at the OSD ---- */

static bool all_have_acked(const struct notify *n)
{
	for (unsigned int i = 0; i < n->count; i++)
		if (n->targets[i].state == TARGET_ASKED)
			return false;
	return true;
}

static void notify_over(struct notify *n, int result)
{
	struct notify_op *op;

	n->over = true;
	rd_sim_cancel(n->cluster->sim, &n->timeout);
	LIST_REMOVE(n, link);
	if (n->op) {
		op = rd_container_of(n->op, struct notify_op, op);
		op->answer_len = n->count * sizeof(n->targets[0]);
		op->answer = malloc(op->answer_len + 1);
		if (!op->answer)
			abort();
		memcpy(op->answer, n->targets, op->answer_len);
		op_answer(n->op, result);
	}
	free(n);
}

static void notify_timeout(struct rd_sim_event *event)
{
	struct notify *n = rd_container_of(event, struct notify, timeout);
	const struct cluster *cl = n->cluster;
	uint64_t now = rd_sim_now(cl->sim);

	/* An OSD that continues may count the time before it reads what has arrived. */
	if (pool_away_until(cl, n->pool) > now)
		rd_sim_at(cl->sim, event,
			  fault_wait(cl->sim, pool_away_until(cl, n->pool)) +
				  rd_sim_below(cl->sim, RD_NSEC_PER_SEC));
	else
		notify_over(n, -ETIMEDOUT);
}

static void question_arrives(struct rd_sim_event *event)
{
	struct delivery *d = rd_container_of(event, struct delivery, event);
	struct client *c = d->client;
	const struct cluster *cl = c->cluster;
	struct process *before;
	struct watch *watch;
	uint64_t now = rd_sim_now(cl->sim), until = cl->cut_until[c->process->number];

	if (until < c->process->stalled_until)
		until = c->process->stalled_until;
	if (until > now && !c->process->dead) {
		rd_sim_at(cl->sim, event,
			  fault_wait(cl->sim, until) + rd_sim_below(cl->sim, DELIVERED));
		return;
	}
	LIST_FOREACH (watch, &cl->watches, link)
		if (watch->client == c && watch->cookie == d->cookie && watch->notified)
			break;
	if (watch && !c->process->dead) {
		before = process_enter(c->process);
		watch->notified(watch->arg, d->id, d->cookie, 0, NULL, 0);
		process_enter(before);
	}
	LIST_REMOVE(d, link);
	free(d);
}

static void ask_watcher(struct notify *n, const struct watcher *w)
{
	struct cluster *cl = n->cluster;
	struct delivery *d = calloc(1, sizeof(*d));

	if (!d)
		abort();
	if (n->count == TARGETS) {
		free(d);
		return;
	}
	n->targets[n->count++] =
		(struct notify_target){.client = w->client->id, .cookie = w->cookie};
	*d = (struct delivery){.event = {.fn = question_arrives},
			       .client = w->client,
			       .cookie = w->cookie,
			       .id = n->id};
	LIST_INSERT_HEAD(&cl->deliveries, d, link);
	rd_sim_at(cl->sim, &d->event, rd_sim_below(cl->sim, DELIVERED));
}

static int notify_exec(struct op *op)
{
	const struct notify_op *no = rd_container_of(op, struct notify_op, op);
	struct cluster *cl = op->client->cluster;
	struct notify *n = calloc(1, sizeof(*n));
	const struct watcher *w;

	if (!n)
		abort();
	n->cluster = cl;
	n->pool = op->pool;
	n->op = op;
	n->id = ++cl->last_id;
	n->timeout.fn = notify_timeout;
	LIST_INSERT_HEAD(&cl->notifies, n, link);
	LIST_FOREACH (w, &cl->watchers, link)
		if (w->pool == op->pool && strcmp(w->object, no->object) == 0)
			ask_watcher(n, w);
	rd_sim_at(cl->sim, &n->timeout, no->timeout_ns);
	if (all_have_acked(n))
		notify_over(n, 0);
	return -EINPROGRESS;
}

void notify_forget(const struct op *op)
{
	struct notify *n;

	LIST_FOREACH (n, &op->client->cluster->notifies, link)
		if (n->op == op)
			n->op = NULL;
}

static void target_answers(struct cluster *cl, uint64_t id, uint64_t client, uint64_t cookie,
			   enum target_state state, const struct payload *payload)
{
	struct notify *n, *next;

	for (n = LIST_FIRST(&cl->notifies); n; n = next) {
		next = LIST_NEXT(n, link);
		if (id && n->id != id)
			continue;
		for (unsigned int i = 0; i < n->count; i++) {
			struct notify_target *target = &n->targets[i];

			if (target->client != client || target->cookie != cookie ||
			    target->state != TARGET_ASKED)
				continue;
			target->state = state;
			if (payload)
				target->payload = *payload;
		}
		if (all_have_acked(n))
			notify_over(n, 0);
	}
}

void notify_watcher_left(const struct watcher *w)
{
	target_answers(w->client->cluster, 0, w->client->id, w->cookie, TARGET_LEFT, NULL);
}

void notify_free_all(struct cluster *cl)
{
	struct notify *n;
	struct delivery *d;

	while ((n = LIST_FIRST(&cl->notifies))) {
		n->op = NULL;
		notify_over(n, 0);
	}
	while ((d = LIST_FIRST(&cl->deliveries))) {
		rd_sim_cancel(cl->sim, &d->event);
		LIST_REMOVE(d, link);
		free(d);
	}
}

/* ---- functions of librados ---- */

static void notify_done(struct op *op)
{
	struct notify_op *no = rd_container_of(op, struct notify_op, op);
	struct completion *c = no->completion;

	*no->reply = (char *)no->answer;
	*no->reply_len = no->answer_len;
	c->result = op->result;
	free(no);
	c->fn(c, c->arg);
}

int rados_aio_notify(rados_ioctx_t io, const char *o, rados_completion_t completion,
		     const char *buf, int buf_len, uint64_t timeout_ms, char **reply_buffer,
		     size_t *reply_buffer_len)
{
	struct notify_op *no = calloc(1, sizeof(*no));

	(void)buf, (void)buf_len;
	if (!no)
		return -ENOMEM;
	no->op.exec = notify_exec;
	no->op.done = notify_done;
	no->op.pool = ((struct ioctx *)io)->pool;
	no->object = o;
	no->timeout_ns = timeout_ms * RD_NSEC_PER_MSEC;
	no->completion = completion;
	no->reply = reply_buffer;
	no->reply_len = reply_buffer_len;
	op_send(((struct ioctx *)io)->client, &no->op);
	return 0;
}

static int ack_exec(struct op *op)
{
	const struct ack_op *ack = rd_container_of(op, struct ack_op, op);

	target_answers(op->client->cluster, ack->id, op->client->id, ack->cookie, TARGET_ACKED,
		       &ack->payload);
	return 0;
}

static void ack_done(struct op *op)
{
	free(rd_container_of(op, struct ack_op, op));
}

int rados_notify_ack(rados_ioctx_t io, const char *o, uint64_t notify_id, uint64_t cookie,
		     const char *buf, int buf_len)
{
	struct ack_op *ack = calloc(1, sizeof(*ack));

	(void)o;
	if (!ack || buf_len > (int)PAYLOAD_MAX)
		abort();
	if (buf_len)
		memcpy(ack->payload.text, buf, (size_t)buf_len);
	ack->payload.len = (size_t)buf_len;
	ack->op.exec = ack_exec;
	ack->op.done = ack_done;
	ack->op.pool = ((struct ioctx *)io)->pool;
	ack->id = notify_id;
	ack->cookie = cookie;
	op_send(((struct ioctx *)io)->client, &ack->op);
	return 0;
}

int rados_decode_notify_response(char *reply_buffer, size_t reply_buffer_len,
				 struct notify_ack_t **acks, size_t *nr_acks,
				 struct notify_timeout_t **timeouts, size_t *nr_timeouts)
{
	struct notify_target *targets = (void *)reply_buffer;
	size_t count = reply_buffer_len / sizeof(*targets);

	*acks = calloc(count + 1, sizeof(**acks));
	*timeouts = calloc(count + 1, sizeof(**timeouts));
	if (!*acks || !*timeouts)
		abort();
	*nr_acks = *nr_timeouts = 0;
	for (size_t i = 0; i < count; i++)
		if (targets[i].state == TARGET_ACKED)
			(*acks)[(*nr_acks)++] = (struct notify_ack_t){
				.notifier_id = targets[i].client,
				.cookie = targets[i].cookie,
				.payload = targets[i].payload.text, /* of the reply */
				.payload_len = targets[i].payload.len};
		else if (targets[i].state == TARGET_ASKED)
			(*timeouts)[(*nr_timeouts)++] = (struct notify_timeout_t){
				.notifier_id = targets[i].client, .cookie = targets[i].cookie};
	return 0;
}

void rados_free_notify_response(struct notify_ack_t *acks, size_t nr_acks,
				struct notify_timeout_t *timeouts)
{
	(void)nr_acks;
	free(acks);
	free(timeouts);
}

void rados_buffer_free(char *buf)
{
	free(buf);
}
