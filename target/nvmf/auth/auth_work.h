/* SPDX-License-Identifier: BSD-3-Clause */
/* Diffie-Hellman computations of authentications, on separate threads: a large group takes tens of
 * milliseconds, and would block a reactor. The threads start with the first job. */
#ifndef RDT_AUTH_WORK_H
#define RDT_AUTH_WORK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/loop.h"
#include "auth_guess.h"

struct rdt_qpair;

#define RDT_AUTH_THREADS 2u
#define RDT_AUTH_JOBS    1024u /* maximum number of waiting jobs; each queue pair has at most one */
#define RDT_AUTH_LANES   64u   /* lists of jobs, by address, served round robin */
/* Each list accepts this many jobs in any case, so that the jobs of others refuse no host. */
#define RDT_AUTH_LANE (RDT_AUTH_JOBS / RDT_AUTH_LANES)

struct rdt_auth_job { /* embedded in a transaction, which outlives it */
	TAILQ_ENTRY(rdt_auth_job) link;
	bool waiting; /* in a list of @lane; guarded by pool->lock */
	uint8_t lane;
	struct rd_msg msg; /* posted to the queue pair's reactor at the end; the caller sets @fn */
	struct rdt_qpair *qp;
	/* the result: 0; -EBADMSG: the host's value is not a public value; -EIO; -EINVAL;
	 * -ECANCELED */
	int err;
};

struct rdt_auth_pool {
	pthread_mutex_t lock; /* guards everything but @guesses, and ctrl->auth_pair; a leaf lock */
	pthread_cond_t more;
	TAILQ_HEAD(rdt_auth_jobs, rdt_auth_job) lanes[RDT_AUTH_LANES];
	unsigned int next_lane;
	unsigned int lengths[RDT_AUTH_LANES];
	unsigned int waiting; /* jobs in all lanes */
	unsigned int threads_count;
	unsigned int threads_lowered; /* of these, threads whose priority was lowered */
	bool stop;
	pthread_t threads[RDT_AUTH_THREADS];
	struct rdt_guesses guesses;
};

int rdt_auth_pool_new(struct rdt_auth_pool **out); /* 0, -ENOMEM or -EIO */
/* No reactor may run; waits for the threads. Accepts NULL. */
void rdt_auth_pool_free(struct rdt_auth_pool **out);
/* Compute what the state of @job->qp's transaction waits for: the key pair and its public value, or
 * the session key. Any thread. Returns 0; -EBUSY: too many jobs wait; -EAGAIN: no thread could be
 * started. */
int rdt_auth_work(struct rdt_auth_pool *pool, struct rdt_auth_job *job);
/* Cancel @job, whose result is no longer needed. If no thread has begun it, it is not computed and
 * its message is posted now; otherwise there is no effect. Any thread; before @job->msg is
 * executed. */
void rdt_auth_work_cancel(struct rdt_auth_pool *pool, struct rdt_auth_job *job);

#endif /* RDT_AUTH_WORK_H */
