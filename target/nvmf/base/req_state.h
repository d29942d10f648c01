/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states of a request; req_state.c has the table of transitions. Every change of state goes
 * through rdt_req_move() (request.h), which checks it against the table.
 *
 * rdt_req_process() moves a request on at once from NEW, FETCH, READY and EXECUTED. In every other
 * state, something else holds the request and moves it on: a queue of waiting requests, its fused
 * partner, the transport or the command.
 */
#ifndef RDT_REQ_STATE_H
#define RDT_REQ_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum rdt_req_state {
	RDT_REQ_FREE, /* on pool->free, until a capsule takes it */
	RDT_REQ_NEW,  /* is being parsed */
	/* first command of a fused pair: waits for the second one. Second command: waits for the
	 * pair's buffer */
	RDT_REQ_FUSED,
	RDT_REQ_FENCED,       /* on reactor->behind_fence: the stale-write fence */
	RDT_REQ_LIMITED,      /* on the QoS queue req->queue */
	RDT_REQ_NEED_BUFFER,  /* on the queue of req->payer for a data buffer */
	RDT_REQ_FETCH,        /* has a buffer, to be filled with data from the host */
	RDT_REQ_FETCHING,     /* the transport fetches the data; rdt_req_fetched() */
	RDT_REQ_FETCH_ENDING, /* as FETCHING, but will not execute; req->status is set */
	RDT_REQ_READY,        /* has its data. In a fused pair: waits for its partner */
	RDT_REQ_EXECUTING,    /* the command runs: backend, message, AER; rdt_req_complete() */
	/* The states below are EXECUTING with a request to end early: steps in progress end, and no
	 * further step begins. */
	RDT_REQ_ABORTING,   /* by an Abort command, or the end of the connection */
	RDT_REQ_PREEMPTED,  /* by Preempt and Abort of another host */
	RDT_REQ_NS_GONE,    /* its namespace is being removed */
	RDT_REQ_EXECUTED,   /* req->status is set */
	RDT_REQ_RESPONDING, /* the transport sends the answer; rdt_req_responded() */
	RDT_REQ_DONE,       /* answered; its resources are released */
	RDT_REQ_DROPPED,    /* as DONE, without an answer: its connection ends, or a reset */
	RDT_REQ_STATES,
};

/* By current state: bit 1 << state for each allowed next state. */
extern const uint32_t rdt_req_moves[RDT_REQ_STATES];

static inline bool rdt_req_may_move(enum rdt_req_state from, enum rdt_req_state to)
{
	return rdt_req_moves[from] >> to & 1;
}

/* Returns "?" for an invalid number. */
const char *rdt_req_state_name(unsigned int state);

#endif /* RDT_REQ_STATE_H */
