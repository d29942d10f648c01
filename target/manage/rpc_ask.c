/* SPDX-License-Identifier: BSD-3-Clause */
#include "rpc_priv.h"

#include <stdlib.h>

#include "connections.h"
#include "target/nvmf/reactor.h"
#include "target/nvmf/target.h"

struct ask_post { /* a message to a reactor, and its answer */
	struct rd_msg msg;
	struct rdt_rpc_ask *ask;
	struct rdt_rpc_answer *answer;
};

struct rdt_rpc_ask {
	TAILQ_ENTRY(rdt_rpc_ask) link;
	struct rdt_rpc *rpc;
	struct rdt_rpc_call *call; /* NULL: the server was closed */
	void (*fn)(struct rdt_rpc_answer *answer);
	void (*done)(struct rdt_rpc_call *call, struct rdt_rpc_answer *answers, unsigned int count);
	unsigned int count;
	unsigned int left; /* number of reactors that have not answered */
	struct rdt_rpc_answer *answers;
	void *what;
	struct ask_post posts[];
};

static void ask_free(struct rdt_rpc_ask *ask)
{
	TAILQ_REMOVE(&ask->rpc->asks, ask, link);
	ask->rpc->asks_count--;
	for (unsigned int i = 0; i < ask->count; i++)
		rdt_connections_drop(&ask->answers[i]);
	free(ask->answers);
	free(ask->what);
	free(ask);
}

static void ask_answered(struct rd_msg *msg)
{
	struct rdt_rpc_ask *ask = rd_container_of(msg, struct ask_post, msg)->ask;
	bool complete = true;

	if (--ask->left)
		return;
	for (unsigned int i = 0; i < ask->count; i++)
		complete &= !ask->answers[i].no_memory;
	if (ask->call && complete)
		ask->done(ask->call, ask->answers, ask->count);
	else if (ask->call)
		rdt_rpc_no_memory(ask->call);
	ask_free(ask);
}

static void ask_ready(struct rdt_rpc_answer *answer)
{
	struct ask_post *post = answer->owner;

	post->msg.fn = ask_answered;
	rd_loop_post(post->ask->rpc->loop, &post->msg);
}

static void ask_arrived(struct rd_msg *msg)
{
	struct ask_post *post = rd_container_of(msg, struct ask_post, msg);

	post->ask->fn(post->answer);
}

static void walk_ended(struct rdt_qpair_walk *walk)
{
	struct rdt_rpc_answer *answer = rd_container_of(walk, struct rdt_rpc_answer, walk);

	answer->ready(answer);
}

void rdt_rpc_answer_by_walk(struct rdt_rpc_answer *answer,
			    void (*visit)(struct rdt_qpair_walk *walk, struct rdt_qpair *qp))
{
	answer->walk.visit = visit;
	answer->walk.end = walk_ended;
	rdt_qpair_walk_begin(answer->reactor, &answer->walk);
}

static void ask_cancel(struct rdt_rpc_call *call)
{
	struct rdt_rpc_ask *ask = call->work;

	ask->call = NULL;
}

void rdt_rpc_ask(struct rdt_rpc_call *call, void *what, void (*fn)(struct rdt_rpc_answer *answer),
		 void (*done)(struct rdt_rpc_call *call, struct rdt_rpc_answer *answers,
			      unsigned int count))
{
	struct rdt_target *t = call->rpc->target;
	unsigned int n = t->reactors_count;
	struct rdt_rpc_ask *ask = calloc(1, sizeof(*ask) + n * sizeof(ask->posts[0]));

	if (ask)
		ask->answers = calloc(n, sizeof(*ask->answers));
	if (!ask || !ask->answers) {
		free(ask);
		free(what);
		rdt_rpc_no_memory(call);
		return;
	}
	ask->rpc = call->rpc;
	ask->call = call;
	ask->fn = fn;
	ask->done = done;
	ask->what = what;
	ask->count = n;
	ask->left = n;
	TAILQ_INSERT_TAIL(&ask->rpc->asks, ask, link);
	ask->rpc->asks_count++;
	call->work = ask;
	call->cancel = ask_cancel;
	for (unsigned int i = 0; i < n; i++) {
		ask->answers[i] = (struct rdt_rpc_answer){.reactor = &t->reactors[i],
							  .ready = ask_ready,
							  .owner = &ask->posts[i],
							  .what = what};
		ask->posts[i] = (struct ask_post){
			.msg = {.fn = ask_arrived}, .ask = ask, .answer = &ask->answers[i]};
		rd_loop_post(t->reactors[i].loop, &ask->posts[i].msg);
	}
}

void rdt_rpc_ask_free_all(struct rdt_rpc *rpc)
{
	while (!TAILQ_EMPTY(&rpc->asks))
		ask_free(TAILQ_FIRST(&rpc->asks));
}
