/* SPDX-License-Identifier: BSD-3-Clause */
/* Slow work of a call, on a thread of its own. */
#include "rpc_priv.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "target/nvmf/target.h"

#define JOBS_MAX 4u

struct rdt_rpc_job {
	TAILQ_ENTRY(rdt_rpc_job) link;
	struct rd_msg msg;
	struct rdt_rpc *rpc;
	struct rdt_rpc_call *call; /* NULL: the server was closed */
	pthread_t thread;
	void (*fn)(void *arg);
	void (*done)(struct rdt_rpc_call *call, void *arg);
	void *arg;
};

static void job_done(struct rd_msg *msg)
{
	struct rdt_rpc_job *job = rd_container_of(msg, struct rdt_rpc_job, msg);
	struct rdt_rpc *rpc = job->rpc;

	if (!job->call) /* cancelled, and joined */
		return;
	pthread_join(job->thread, NULL);
	TAILQ_REMOVE(&rpc->jobs, job, link);
	rpc->jobs_count--;
	job->done(job->call, job->arg);
	free(job);
}

static void *run_job(void *arg)
{
	struct rdt_rpc_job *job = arg;

	job->fn(job->arg);
	rd_loop_post(job->rpc->loop, &job->msg);
	return NULL;
}

/* The message may be on its way: the job is freed with the server. */
static void job_cancel(struct rdt_rpc_call *call)
{
	struct rdt_rpc_job *job = call->work;

	job->call = NULL;
	pthread_join(job->thread, NULL);
	job->done(NULL, job->arg);
}

void rdt_rpc_job(struct rdt_rpc_call *call, void (*fn)(void *arg),
		 void (*done)(struct rdt_rpc_call *call, void *arg), void *arg)
{
	struct rdt_rpc *rpc = call->rpc;
	struct rdt_rpc_job *job = NULL;
	int err;

	if (rpc->jobs_count == JOBS_MAX) {
		rdt_rpc_error(call, RDT_RPC_BUSY, NULL, NULL, "try again",
			      "%u calls of this kind are being worked on, which is the most",
			      JOBS_MAX);
		goto err_arg;
	}
	job = calloc(1, sizeof(*job));
	if (!job) {
		rdt_rpc_no_memory(call);
		goto err_arg;
	}
	*job = (struct rdt_rpc_job){
		.msg.fn = job_done, .rpc = rpc, .call = call, .fn = fn, .done = done, .arg = arg};
	err = pthread_create(&job->thread, NULL, run_job, job);
	if (err) {
		rdt_rpc_error(call, RDT_RPC_NO_RESOURCES, NULL, NULL, NULL,
			      "cannot start a thread: %s", strerror(err));
		goto err_arg;
	}
	pthread_setname_np(job->thread, "control");
	TAILQ_INSERT_TAIL(&rpc->jobs, job, link);
	rpc->jobs_count++;
	call->work = job;
	call->cancel = job_cancel;
	return;

err_arg:
	free(job);
	done(NULL, arg);
}

void rdt_rpc_jobs_free(struct rdt_rpc *rpc)
{
	struct rdt_rpc_job *job;

	while ((job = TAILQ_FIRST(&rpc->jobs))) {
		TAILQ_REMOVE(&rpc->jobs, job, link);
		free(job);
	}
}
