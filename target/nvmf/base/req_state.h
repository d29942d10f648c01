/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states of a request; req_state.c has the table of moves between them. Every change of state
 * goes through rdt_req_move() (request.h), which checks it against the table.
 *
 * From NEW, FETCH, READY and EXECUTED a request is moved on at once, by rdt_req_process(). In every
 * other state something else holds it, and moves it on: a queue of waiting requests, the other half
 * of its pair, the transport or the command.
 */
#ifndef RDT_REQ_STATE_H
#define RDT_REQ_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum rdt_req_state {
	RDT_REQ_FREE,         /* on pool->free, until a capsule takes it */
	RDT_REQ_NEW,          /* is being parsed */
	RDT_REQ_FUSED,        /* first half of a fused pair: waits for the second half. Second half:
			       * waits for the first half's buffer */
	RDT_REQ_FENCED,       /* on reactor->behind_fence: the stale-write fence */
	RDT_REQ_LIMITED,      /* on the QoS queue req->queue */
	RDT_REQ_NEED_BUFFER,  /* on the queue of req->payer for a data buffer */
	RDT_REQ_FETCH,        /* has a buffer, to be filled with data from the host */
	RDT_REQ_FETCHING,     /* the transport fetches the data; rdt_req_fetched() */
	RDT_REQ_FETCH_ENDING, /* as FETCHING, but will not execute; req->status is set */
	RDT_REQ_READY,        /* has its data. Half of a pair: waits for the other one */
	RDT_REQ_EXECUTING,    /* the command runs: backend, message, AER; rdt_req_complete() */
	/* The states below are EXECUTING with a request to end early: started steps end, no further
	 * step starts. */
	RDT_REQ_ABORTING,   /* by an Abort command, or the end of the connection */
	RDT_REQ_PREEMPTED,  /* by Preempt and Abort of another host */
	RDT_REQ_NS_GONE,    /* its namespace is removed */
	RDT_REQ_EXECUTED,   /* req->status is set */
	RDT_REQ_RESPONDING, /* the transport sends the answer; rdt_req_responded() */
	RDT_REQ_DONE,       /* answered; releases its resources */
	RDT_REQ_DROPPED,    /* as DONE, without an answer: its connection ends, or a reset */
	RDT_REQ_STATES,
};

/* By the state that is left: bit 1 << state for each allowed next state. */
extern const uint32_t rdt_req_moves[RDT_REQ_STATES];

static inline bool rdt_req_may_move(enum rdt_req_state from, enum rdt_req_state to)
{
	return rdt_req_moves[from] >> to & 1;
}

/* Returns "?" for an invalid number. */
const char *rdt_req_state_name(unsigned int state);

#endif /* RDT_REQ_STATE_H */
