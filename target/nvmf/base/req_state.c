/* SPDX-License-Identifier: BSD-3-Clause */
#include "req_state.h"

#define TO(state) (1u << RDT_REQ_##state)

_Static_assert(RDT_REQ_STATES <= 32, "each has a bit");

/* All allowed transitions. On a closing queue pair, rdt_req_process() moves a request to DROPPED
 * from each state that allows it; in these states only the queue pair refers to the request. */
const uint32_t rdt_req_moves[RDT_REQ_STATES] = {
	[RDT_REQ_FREE] = TO(NEW),
	/* EXECUTED: it was refused. */
	[RDT_REQ_NEW] = TO(FUSED) | TO(FENCED) | TO(LIMITED) | TO(NEED_BUFFER) | TO(READY) |
			TO(EXECUTED) | TO(DROPPED),
	/* READY: both commands of the pair have in-capsule data, or the partner has failed. FETCH:
	 * a second command with its part of the pair's buffer. EXECUTED: a first command without a
	 * second one, or aborted. */
	[RDT_REQ_FUSED] = TO(NEED_BUFFER) | TO(FETCH) | TO(READY) | TO(EXECUTED) | TO(DROPPED),
	/* The three queues. EXECUTED: it was aborted or preempted, its namespace is being removed,
	 * or there is no memory for the fence's timer. */
	[RDT_REQ_FENCED] = TO(LIMITED) | TO(NEED_BUFFER) | TO(READY) | TO(EXECUTED) | TO(DROPPED),
	[RDT_REQ_LIMITED] = TO(FENCED) | TO(NEED_BUFFER) | TO(READY) | TO(EXECUTED) | TO(DROPPED),
	/* READY: its data is transferred to the host, or it is in a fused pair that ends early. */
	[RDT_REQ_NEED_BUFFER] = TO(FETCH) | TO(READY) | TO(EXECUTED) | TO(DROPPED),
	[RDT_REQ_FETCH] = TO(FETCHING) | TO(DROPPED),
	/* EXECUTED: the fetch has failed or was cancelled. READY, in a fused pair: the partner ends
	 * too. */
	[RDT_REQ_FETCHING] = TO(FETCH_ENDING) | TO(READY) | TO(EXECUTED),
	[RDT_REQ_FETCH_ENDING] = TO(READY) | TO(EXECUTED),
	/* EXECUTED: no longer allowed, after a change since it was parsed. */
	[RDT_REQ_READY] = TO(EXECUTING) | TO(EXECUTED) | TO(DROPPED),
	[RDT_REQ_EXECUTING] = TO(ABORTING) | TO(PREEMPTED) | TO(NS_GONE) | TO(EXECUTED),
	[RDT_REQ_ABORTING] = TO(PREEMPTED) | TO(NS_GONE) | TO(EXECUTED),
	[RDT_REQ_PREEMPTED] = TO(NS_GONE) | TO(EXECUTED),
	[RDT_REQ_NS_GONE] = TO(EXECUTED),
	/* DROPPED also on a live queue pair: AERs at a controller reset. */
	[RDT_REQ_EXECUTED] = TO(RESPONDING) | TO(DROPPED),
	[RDT_REQ_RESPONDING] = TO(DONE),
	[RDT_REQ_DONE] = TO(FREE),
	[RDT_REQ_DROPPED] = TO(FREE),
};

const char *rdt_req_state_name(unsigned int state)
{
	static const char *const names[RDT_REQ_STATES] = {
		[RDT_REQ_FREE] = "free",
		[RDT_REQ_NEW] = "new",
		[RDT_REQ_FUSED] = "fused",
		[RDT_REQ_FENCED] = "fenced",
		[RDT_REQ_LIMITED] = "limited",
		[RDT_REQ_NEED_BUFFER] = "need-buffer",
		[RDT_REQ_FETCH] = "fetch",
		[RDT_REQ_FETCHING] = "fetching",
		[RDT_REQ_FETCH_ENDING] = "fetch-ending",
		[RDT_REQ_READY] = "ready",
		[RDT_REQ_EXECUTING] = "executing",
		[RDT_REQ_ABORTING] = "aborting",
		[RDT_REQ_PREEMPTED] = "preempted",
		[RDT_REQ_NS_GONE] = "ns-gone",
		[RDT_REQ_EXECUTED] = "executed",
		[RDT_REQ_RESPONDING] = "responding",
		[RDT_REQ_DONE] = "done",
		[RDT_REQ_DROPPED] = "dropped",
	};

	return state < RDT_REQ_STATES ? names[state] : "?";
}
