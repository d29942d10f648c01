/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that may block for as long as storage does: opening a namespace, looking at a size,
 * closing; reading the configuration; slow work for the control socket. Each runs on a thread,
 * after a few others of its device. A device has a share of the threads, so that one that hangs
 * delays only what belongs to it, and a job that has run for a second neither counts for the others
 * nor has any behind it. After a time limit the owner is told; the call itself cannot be ended.
 *
 * Threads: the loop's, except job->work().
 */
#ifndef RDT_JOBS_H
#define RDT_JOBS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/loop.h"

struct rdt_jobs;
struct rdt_ns_config;

#define RDT_JOBS_SHARE 2u  /* of a device: jobs that run at a time */
#define RDT_JOBS_TOTAL 16u /* of all devices, without those that run for more than a second */
#define RDT_JOBS_LIMIT (20 * RD_NSEC_PER_SEC)

/* Embedded in the object of its owner, which exists until @done. */
struct rdt_job {
	uint64_t device;                   /* rdt_jobs_device() */
	const char *what;                  /* for the log: valid until @done */
	const char *name;                  /* of its thread; NULL: "storage" */
	void (*work)(struct rdt_job *job); /* on a thread */
	/* Once, after @work, or without it when the jobs end (@dropped). May free the job. */
	void (*done)(struct rdt_job *job);
	void (*late)(struct rdt_job *job); /* the time limit has passed; NULL: nobody is told */

	/* private to jobs.c */
	bool dropped;
	struct rdt_job_run *run;
	struct rd_msg msg;
	TAILQ_ENTRY(rdt_job) link;
};

/*
 * @run: in place of a thread, for tests: returns true when it has called job->work(); else
 * rdt_job_finish() follows. NULL: threads.
 */
int rdt_jobs_new(struct rd_loop *loop, struct rd_log *log, bool (*run)(struct rdt_job *job),
		 struct rdt_jobs **out);
/* job->done() is called from the loop, or before this returns when a thread cannot be started or
 * @run does the work. */
void rdt_jobs_add(struct rdt_jobs *jobs, struct rdt_job *job);
void rdt_job_finish(struct rdt_job *job);  /* job->work() has returned; its thread */
bool rdt_job_run_now(struct rdt_job *job); /* for @run */
/*
 * Drops what has not begun, and turns the loop at most @timeout_ns until the rest is done. Returns
 * false when calls still hang, which are logged: then nothing may be freed that they use, and the
 * process has to end by _exit(2). Accepts NULL.
 */
bool rdt_jobs_end(struct rdt_jobs *jobs, uint64_t timeout_ns);
void rdt_jobs_free(struct rdt_jobs **jobs); /* after rdt_jobs_end() has returned true */

/* The device of the storage of @cfg, found without a question to that device: of a file the file
 * system that is mounted where its path is. */
uint64_t rdt_jobs_device(struct rdt_jobs *jobs, const struct rdt_ns_config *cfg);

#endif /* RDT_JOBS_H */
