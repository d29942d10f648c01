/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronous calls: submit an asynchronous one, and run iterations until it has completed. */
#include <errno.h>
#include <stdio.h>

#include "internal.h"

int rdi_cannot_wait(const struct rdi_handle *h, const char *func)
{
	if (rdi_is_foreign(h))
		return rdi_foreign(h, func);
	return rdi_fail(func, -EDEADLK, "called from a callback of the same handle");
}

void rdi_sync_done(void *user, const struct rdinit_completion *c)
{
	struct rdi_sync *sync = user;

	sync->c = *c;
	snprintf(sync->text, sizeof(sync->text), "%s", c->text);
	sync->c.text = sync->text;
	sync->done = true;
}

int rdi_sync_wait(struct rdi_handle *h, struct rdi_sync *sync, const char *func)
{
	int rc;

	/* This loop ends: every operation has a time limit, and a failed queue completes all its
	 * requests. */
	while (!sync->done) {
		rc = rdi_handle_turn(h, -1);
		if (rc)
			return rdi_fail(func, rc, "%s", strerror(-rc));
	}
	return sync->c.err ? rdi_fail_completion(func, &sync->c) : 0;
}

/* ---- when asynchronous commands fill the queue ---- */

/* Replaces the callback of a command, which it calls afterwards. */
struct hook {
	rdinit_complete_fn fn;
	void *user;
	rdi_try_fn again;
	void *arg;
	bool over;
	int rc; /* the result of @again */
};

static void on_room(void *user, const struct rdinit_completion *c)
{
	struct hook *hook = user;

	/* Before the owner's callback, which may submit the next command itself. */
	hook->over = true;
	hook->rc = hook->again(hook->arg);
	hook->fn(hook->user, c);
}

/* The oldest of the caller's commands, likely to complete first; NULL: none is certain to
 * complete. */
static struct rdi_req *oldest(struct rdi_queue *q)
{
	struct rdi_req *req;

	TAILQ_FOREACH (req, &q->busy, link) {
		if (!req->internal && req->deadline != UINT64_MAX)
			return req;
	}
	return NULL;
}

int rdi_sync_retry(struct rdi_handle *h, struct rdi_queue *q, rdi_try_fn again, void *arg)
{
	struct hook hook = {.again = again, .arg = arg, .rc = -EAGAIN};
	struct rdi_req *req;
	int rc;

	while (hook.rc == -EAGAIN && (req = oldest(q))) {
		hook.over = false;
		hook.fn = req->fn;
		hook.user = req->user;
		req->fn = on_room;
		req->user = &hook;
		while (!hook.over) {
			rc = rdi_handle_turn(h, -1);
			if (rc && !hook.over) {
				req->fn = hook.fn;
				req->user = hook.user;
				return rc;
			}
		}
	}
	return hook.rc;
}

struct submission {
	struct rdi_queue *q;
	const struct rdi_cmd *cmd;
};

static int submit_sync(void *arg)
{
	struct submission *s = arg;

	return rdi_queue_submit(s->q, s->cmd);
}

int rdi_submit(struct rdi_handle *h, struct rdi_queue *q, const struct rdi_cmd *cmd)
{
	struct submission s = {.q = q, .cmd = cmd};
	int rc = submit_sync(&s);

	if (rc == -EAGAIN && cmd->fn == rdi_sync_done)
		rc = rdi_sync_retry(h, q, submit_sync, &s);
	return rc;
}
