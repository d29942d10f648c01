/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs slow work of a call on a thread of its own. */
#include "rpc_priv.h"

#include <stdlib.h>
#include <string.h>

#include "target/nvmf/target.h"
#include "worker.h"

#define RUNNING_MAX 4u  /* threads */
#define JOBS_MAX    64u /* with those that wait, also for clients that have disconnected */

struct rdt_rpc_job {
	TAILQ_ENTRY(rdt_rpc_job) link;
	struct rdt_worker worker;
	struct rdt_rpc *rpc;
	struct rdt_rpc_call *call; /* NULL: the server was closed */
	bool started;              /* @worker runs */
	void (*fn)(void *arg);
	void (*done)(struct rdt_rpc_call *call, void *arg);
	void *arg;
};

/* Frees @job. @call: to be answered, or NULL. */
static void job_ended(struct rdt_rpc *rpc, struct rdt_rpc_job *job, struct rdt_rpc_call *call)
{
	TAILQ_REMOVE(&rpc->jobs, job, link);
	rpc->jobs_count--;
	job->done(call, job->arg);
	free(job);
}

static void start_jobs(struct rdt_rpc *rpc);

static void job_done(struct rdt_worker *worker)
{
	struct rdt_rpc_job *job = rd_container_of(worker, struct rdt_rpc_job, worker);
	struct rdt_rpc *rpc = job->rpc;

	if (!job->call) /* the server was closed, and has not waited for it */
		return;
	rpc->jobs_running--;
	job_ended(rpc, job, job->call);
	start_jobs(rpc);
}

static void run_job(struct rdt_worker *worker)
{
	const struct rdt_rpc_job *job = rd_container_of(worker, struct rdt_rpc_job, worker);

	job->fn(job->arg);
}

/* The server was closed. A thread that runs is joined by rdt_rpc_jobs_end(). */
static void job_cancel(struct rdt_rpc_call *call)
{
	struct rdt_rpc_job *job = call->work;

	job->call = NULL;
	if (!job->started)
		job->done(NULL, job->arg);
}

/* The completion message may be queued, so the jobs are freed together with the server. */
bool rdt_rpc_jobs_end(struct rdt_rpc *rpc, uint64_t wait)
{
	struct rdt_rpc_job *job;

	TAILQ_FOREACH (job, &rpc->jobs, link) {
		if (!job->started)
			continue;
		if (!rdt_worker_join(&job->worker, wait))
			return false;
		job->started = false;
		job->done(NULL, job->arg);
	}
	return true;
}

static void start_jobs(struct rdt_rpc *rpc)
{
	struct rdt_rpc_job *job, *next;
	int err;

	for (job = TAILQ_FIRST(&rpc->jobs); job && rpc->jobs_running < RUNNING_MAX; job = next) {
		next = TAILQ_NEXT(job, link);
		if (job->started)
			continue;
		err = rdt_worker_start(&job->worker);
		if (err) {
			rdt_rpc_error(job->call, RDT_RPC_NO_RESOURCES, NULL, NULL, NULL,
				      "cannot start a thread: %s", strerror(-err));
			job_ended(rpc, job, NULL);
			continue;
		}
		job->started = true;
		rpc->jobs_running++;
	}
}

void rdt_rpc_job(struct rdt_rpc_call *call, void (*fn)(void *arg),
		 void (*done)(struct rdt_rpc_call *call, void *arg), void *arg)
{
	struct rdt_rpc *rpc = call->rpc;
	struct rdt_rpc_job *job;

	if (rpc->jobs_count == JOBS_MAX) {
		rdt_rpc_error(call, RDT_RPC_BUSY, NULL, NULL, "try again",
			      "%u calls of this kind are being worked on, which is the most",
			      JOBS_MAX);
		done(NULL, arg);
		return;
	}
	job = calloc(1, sizeof(*job));
	if (!job) {
		rdt_rpc_no_memory(call);
		done(NULL, arg);
		return;
	}
	*job = (struct rdt_rpc_job){
		.worker = {.loop = rpc->loop, .name = "control", .work = run_job, .done = job_done},
		.rpc = rpc,
		.call = call,
		.fn = fn,
		.done = done,
		.arg = arg};
	TAILQ_INSERT_TAIL(&rpc->jobs, job, link);
	rpc->jobs_count++;
	call->work = job;
	call->cancel = job_cancel;
	start_jobs(rpc);
}

void rdt_rpc_jobs_free(struct rdt_rpc *rpc)
{
	struct rdt_rpc_job *job;

	while ((job = TAILQ_FIRST(&rpc->jobs))) {
		TAILQ_REMOVE(&rpc->jobs, job, link);
		free(job);
	}
}
