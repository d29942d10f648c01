/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that may block as long as storage does: opening, measuring and closing a namespace; reading
 * the configuration; slow work of the control socket. Each runs on a thread, after a few others of
 * its device. A device has a share of the threads, so that one that hangs delays only its own jobs;
 * a job that runs for more than a second counts neither for this share nor delays jobs behind it.
 * After a time limit the owner is notified; the call itself cannot be interrupted.
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

#define RDT_JOBS_SHARE 2u  /* concurrent jobs of a device */
#define RDT_JOBS_TOTAL 16u /* concurrent jobs of all devices, without those over a second */
#define RDT_JOBS_LIMIT (20 * RD_NSEC_PER_SEC)

/* Embedded in the owner's object, which must exist until @done. */
struct rdt_job {
	uint64_t device;                   /* rdt_jobs_device() */
	const char *what;                  /* for the log: valid until @done */
	const char *name;                  /* of its thread; NULL: "storage" */
	void (*work)(struct rdt_job *job); /* on a thread */
	/* Once, after @work, or without it (@dropped) in rdt_jobs_end(). May free the job. */
	void (*done)(struct rdt_job *job);
	void (*late)(struct rdt_job *job); /* called after the time limit; may be NULL */

	/* private to jobs.c */
	bool dropped;
	struct rdt_job_run *run;
	struct rd_msg msg;
	TAILQ_ENTRY(rdt_job) link;
};

/*
 * @run: replaces threads in tests: returns true after calling job->work(); otherwise
 * rdt_job_finish() follows. NULL: threads.
 */
int rdt_jobs_new(struct rd_loop *loop, struct rd_log *log, bool (*run)(struct rdt_job *job),
		 struct rdt_jobs **out);
/* job->done() is called from the loop, or before this returns if @run did the work or no thread can
 * be started. */
void rdt_jobs_add(struct rdt_jobs *jobs, struct rdt_job *job);
void rdt_job_finish(struct rdt_job *job);  /* job->work() has returned; its thread */
bool rdt_job_run_now(struct rdt_job *job); /* for @run */
/*
 * Drops jobs that have not begun, and runs the loop for at most @timeout_ns until the others have
 * ended. Returns false if calls still hang, which is logged: then nothing that they use may be
 * freed, and the process has to end by _exit(2). Accepts NULL.
 */
bool rdt_jobs_end(struct rdt_jobs *jobs, uint64_t timeout_ns);
void rdt_jobs_free(struct rdt_jobs **jobs); /* after rdt_jobs_end() has returned true */

/* The device of the storage of @cfg, found without accessing it: of a file, the mount of its
 * path. */
uint64_t rdt_jobs_device(struct rdt_jobs *jobs, const struct rdt_ns_config *cfg);

#endif /* RDT_JOBS_H */
