/* SPDX-License-Identifier: BSD-3-Clause */
#include "answer.h"

#include "target/nvmf/reactor.h"
#include "target/nvmf/target.h"

static void answer_told(struct rd_msg *msg)
{
	struct rdt_answer *answer = rd_container_of(msg, struct rdt_answer, msg);

	answer->answered(answer);
}

static void answer_asked(struct rd_msg *msg)
{
	struct rdt_answer *answer = rd_container_of(msg, struct rdt_answer, msg);

	answer->fn(answer);
}

void rdt_answer_ask(struct rdt_answer *answer)
{
	answer->msg.fn = answer_asked;
	rd_loop_post(answer->reactor->loop, &answer->msg);
}

void rdt_answer_ready(struct rdt_answer *answer)
{
	answer->msg.fn = answer_told;
	rd_loop_post(answer->reactor->target->loop, &answer->msg);
}

static void walk_ended(struct rdt_qpair_walk *walk)
{
	rdt_answer_ready(rd_container_of(walk, struct rdt_answer, walk));
}

void rdt_answer_by_walk(struct rdt_answer *answer,
			void (*visit)(struct rdt_qpair_walk *walk, struct rdt_qpair *qp))
{
	answer->walk.visit = visit;
	answer->walk.end = walk_ended;
	rdt_qpair_walk_begin(answer->reactor, &answer->walk);
}
