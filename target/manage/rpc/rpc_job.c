/* SPDX-License-Identifier: BSD-3-Clause */
/* Slow work of a call, as a job (bdev/jobs.h). Each method has its share of the threads, so that
 * one that waits for storage does not delay the others. */
#include "rpc_priv.h"

#include <stdlib.h>

#include "util/map.h"
#include "target/nvmf/target.h"

#define JOBS_MAX 64u /* including queued jobs, and those whose client has disconnected */

struct rdt_rpc_job {
	struct rdt_job job;
	struct rdt_rpc *rpc;
	struct rdt_rpc_call *call; /* NULL: the server was closed */
	void (*fn)(void *arg);
	void (*done)(struct rdt_rpc_call *call, void *arg);
	void *arg;
};

static void call_worked(struct rdt_job *job)
{
	struct rdt_rpc_job *j = rd_container_of(job, struct rdt_rpc_job, job);

	j->rpc->jobs_count--;
	if (j->call && job->dropped) {
		rdt_rpc_error(j->call, RDT_RPC_NO_RESOURCES, NULL, NULL, NULL,
			      "cannot start a thread");
		j->call = NULL;
	}
	j->done(j->call, j->arg);
	free(j);
}

static void call_work(struct rdt_job *job)
{
	const struct rdt_rpc_job *j = rd_container_of(job, struct rdt_rpc_job, job);

	j->fn(j->arg);
}

static void job_cancel(struct rdt_rpc_call *call)
{
	struct rdt_rpc_job *j = call->work;

	j->call = NULL;
}

void rdt_rpc_job(struct rdt_rpc_call *call, void (*fn)(void *arg),
		 void (*done)(struct rdt_rpc_call *call, void *arg), void *arg)
{
	struct rdt_rpc *rpc = call->rpc;
	const char *name = call->method->name;
	struct rdt_rpc_job *j = NULL;

	if (rpc->jobs_count == JOBS_MAX)
		rdt_rpc_error(call, RDT_RPC_BUSY, NULL, NULL, "try again",
			      "%u calls of this method are in progress, which is the maximum",
			      JOBS_MAX);
	else if (!(j = calloc(1, sizeof(*j))))
		rdt_rpc_no_memory(call);
	if (!j) {
		done(NULL, arg);
		return;
	}
	*j = (struct rdt_rpc_job){.job = {.device = rd_map_hash(name),
					  .what = name,
					  .name = "control",
					  .work = call_work,
					  .done = call_worked},
				  .rpc = rpc,
				  .call = call,
				  .fn = fn,
				  .done = done,
				  .arg = arg};
	rpc->jobs_count++;
	call->work = j;
	call->cancel = job_cancel;
	rdt_jobs_add(rpc->target->jobs, &j->job);
}
