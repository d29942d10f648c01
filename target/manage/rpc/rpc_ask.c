/* SPDX-License-Identifier: BSD-3-Clause */
#include "rpc_priv.h"

#include <stdlib.h>

#include "target/manage/show/connections.h"
#include "target/nvmf/reactor.h"
#include "target/nvmf/target.h"

struct rdt_rpc_ask {
	TAILQ_ENTRY(rdt_rpc_ask) link;
	struct rdt_rpc *rpc;
	struct rdt_rpc_call *call; /* NULL: the server was closed */
	void (*done)(struct rdt_rpc_call *call, struct rdt_answer *answers, unsigned int count);
	unsigned int count;
	unsigned int left; /* reactors that have not answered */
	void *what;
	struct rdt_answer answers[];
};

static void ask_free(struct rdt_rpc_ask *ask)
{
	TAILQ_REMOVE(&ask->rpc->asks, ask, link);
	ask->rpc->asks_count--;
	for (unsigned int i = 0; i < ask->count; i++)
		rdt_connections_drop(&ask->answers[i]);
	free(ask->what);
	free(ask);
}

static void one_answered(struct rdt_answer *answer)
{
	struct rdt_rpc_ask *ask = answer->owner;
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

static void ask_cancel(struct rdt_rpc_call *call)
{
	struct rdt_rpc_ask *ask = call->work;

	ask->call = NULL;
}

void rdt_rpc_ask(struct rdt_rpc_call *call, void *what, void (*fn)(struct rdt_answer *answer),
		 void (*done)(struct rdt_rpc_call *call, struct rdt_answer *answers,
			      unsigned int count))
{
	struct rdt_target *t = call->rpc->target;
	unsigned int n = t->reactors_count;
	struct rdt_rpc_ask *ask = calloc(1, sizeof(*ask) + n * sizeof(ask->answers[0]));

	if (!ask) {
		free(what);
		rdt_rpc_no_memory(call);
		return;
	}
	ask->rpc = call->rpc;
	ask->call = call;
	ask->done = done;
	ask->what = what;
	ask->count = n;
	ask->left = n;
	TAILQ_INSERT_TAIL(&ask->rpc->asks, ask, link);
	ask->rpc->asks_count++;
	call->work = ask;
	call->cancel = ask_cancel;
	for (unsigned int i = 0; i < n; i++) {
		ask->answers[i] = (struct rdt_answer){.reactor = &t->reactors[i],
						      .fn = fn,
						      .answered = one_answered,
						      .owner = ask,
						      .what = what};
		rdt_answer_ask(&ask->answers[i]);
	}
}

void rdt_rpc_ask_free_all(struct rdt_rpc *rpc)
{
	while (!TAILQ_EMPTY(&rpc->asks))
		ask_free(TAILQ_FIRST(&rpc->asks));
}
