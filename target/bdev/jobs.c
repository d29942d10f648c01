/* SPDX-License-Identifier: BSD-3-Clause */
#include "jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"
#include "util/map.h"
#include "target/config/config.h"

#define SLOW  RD_NSEC_PER_SEC

#define BATCH 16u /* jobs per run, to spread the cost of starting a thread */

TAILQ_HEAD(job_list, rdt_job);

struct rdt_job_device {
	uint64_t key;
	unsigned int running; /* number of runs */
	struct job_list waiting;
	bool ready; /* in jobs->ready: it has waiting jobs and may start a run */
	TAILQ_ENTRY(rdt_job_device) link;
	TAILQ_ENTRY(rdt_job_device) all;
};

/* Jobs of one device that a thread executes one after the other. If a job takes longer than a
 * second, those after it return to the device. */
struct rdt_job_run {
	struct rdt_jobs *jobs;
	struct rdt_job_device *of;
	pthread_t thread;
	bool slow;
	struct rd_timer timer;
	struct rd_msg msg;             /* the thread ends */
	TAILQ_ENTRY(rdt_job_run) link; /* jobs->runs */
	/* guarded by jobs->lock */
	struct job_list todo;
	struct rdt_job *current; /* whose work() runs; NULL between two jobs */
	uint64_t began;          /* when work() was called */
};

struct mounted {
	uint64_t device;
	size_t len;
	char *path;
};

struct rdt_jobs {
	struct rd_loop *loop;
	struct rd_log *log;
	bool (*run)(struct rdt_job *job);
	struct rd_map devices;
	TAILQ_HEAD(job_devices, rdt_job_device) ready;
	struct job_devices all;
	pthread_mutex_t lock;
	TAILQ_HEAD(, rdt_job_run) runs;
	unsigned int counted; /* number of @runs without the slow ones */
	bool ending;
	bool starting; /* launch_jobs() runs: @run may end a job at once */
	int mounts_fd; /* -1: not open */
	struct mounted *mounts;
	unsigned int mounts_count;
};

static void launch_jobs(struct rdt_jobs *jobs);

/* ---- devices ---- */

static struct rdt_job_device *job_device_of(struct rdt_jobs *jobs, uint64_t key)
{
	struct rdt_job_device *d = rd_map_get(&jobs->devices, key);

	if (d)
		return d;
	d = calloc(1, sizeof(*d));
	if (!d || rd_map_put(&jobs->devices, key, d)) {
		free(d);
		return NULL;
	}
	d->key = key;
	TAILQ_INIT(&d->waiting);
	TAILQ_INSERT_TAIL(&jobs->all, d, all);
	return d;
}

static void device_changed(struct rdt_jobs *jobs, struct rdt_job_device *d)
{
	bool ready = !TAILQ_EMPTY(&d->waiting) && d->running < RDT_JOBS_SHARE;

	if (ready && !d->ready)
		TAILQ_INSERT_TAIL(&jobs->ready, d, link);
	else if (!ready && d->ready)
		TAILQ_REMOVE(&jobs->ready, d, link);
	d->ready = ready;
	if (d->running || !TAILQ_EMPTY(&d->waiting))
		return;
	rd_map_remove(&jobs->devices, d->key);
	TAILQ_REMOVE(&jobs->all, d, all);
	free(d);
}

/* ---- a run ---- */

static struct rdt_job *begin_job(struct rdt_job_run *run)
{
	struct rdt_job *job;

	pthread_mutex_lock(&run->jobs->lock);
	job = TAILQ_FIRST(&run->todo);
	if (job)
		TAILQ_REMOVE(&run->todo, job, link);
	run->current = job;
	run->began = rd_loop_now_raw(run->jobs->loop);
	pthread_mutex_unlock(&run->jobs->lock);
	return job;
}

/* From now on the loop may free the job. */
static void leave_job(struct rdt_job_run *run)
{
	pthread_mutex_lock(&run->jobs->lock);
	run->current = NULL;
	pthread_mutex_unlock(&run->jobs->lock);
}

static void run_over(struct rdt_job_run *run)
{
	struct rdt_jobs *jobs = run->jobs;
	struct rdt_job_device *d = run->of;

	rd_timer_stop(jobs->loop, &run->timer);
	TAILQ_REMOVE(&jobs->runs, run, link);
	if (!run->slow)
		jobs->counted--;
	free(run);
	d->running--;
	device_changed(jobs, d);
}

static void run_done_msg(struct rd_msg *msg)
{
	struct rdt_job_run *run = rd_container_of(msg, struct rdt_job_run, msg);
	struct rdt_jobs *jobs = run->jobs;

	pthread_join(run->thread, NULL);
	run_over(run);
	launch_jobs(jobs);
}

static void job_done_msg(struct rd_msg *msg)
{
	struct rdt_job *job = rd_container_of(msg, struct rdt_job, msg);
	struct rdt_jobs *jobs = job->run->jobs;

	if (jobs->run) {
		run_over(job->run);
		job->done(job);
		launch_jobs(jobs);
	} else {
		job->done(job);
	}
}

void rdt_job_finish(struct rdt_job *job)
{
	job->msg.fn = job_done_msg;
	rd_loop_post(job->run->jobs->loop, &job->msg);
}

bool rdt_job_run_now(struct rdt_job *job)
{
	job->work(job);
	return true;
}

static void *run_thread(void *arg)
{
	struct rdt_job_run *run = arg;
	const char *name = NULL;
	struct rdt_job *job;

	while ((job = begin_job(run))) {
		const char *next = job->name ? job->name : "storage";

		if (!name || strcmp(name, next) != 0)
			pthread_setname_np(pthread_self(), next);
		name = next;
		job->work(job);
		leave_job(run);
		rdt_job_finish(job);
	}
	run->msg.fn = run_done_msg;
	rd_loop_post(run->jobs->loop, &run->msg);
	return NULL;
}

/* Returns the jobs that have not begun to the head of the device's queue. */
static void give_back_todo(struct rdt_job_run *run)
{
	struct job_list back = TAILQ_HEAD_INITIALIZER(back);

	pthread_mutex_lock(&run->jobs->lock);
	TAILQ_CONCAT(&back, &run->todo, link);
	pthread_mutex_unlock(&run->jobs->lock);
	TAILQ_CONCAT(&back, &run->of->waiting, link);
	TAILQ_CONCAT(&run->of->waiting, &back, link);
	device_changed(run->jobs, run->of);
}

static void job_is_late(struct rd_timer *timer)
{
	struct rdt_job_run *run = rd_container_of(timer, struct rdt_job_run, timer);
	struct rdt_job *job;

	pthread_mutex_lock(&run->jobs->lock);
	job = run->current; /* done(), which may free it, runs on this thread */
	pthread_mutex_unlock(&run->jobs->lock);
	if (!job)
		return;
	rd_warn(run->jobs->log, RD_LOG_BACKEND, "%s: the storage has not answered for %u s",
		job->what, (unsigned int)(RDT_JOBS_LIMIT / RD_NSEC_PER_SEC));
	if (job->late)
		job->late(job);
}

/* If the timer cannot be started for lack of memory, late() is not called. */
static void check_run(struct rd_timer *timer)
{
	struct rdt_job_run *run = rd_container_of(timer, struct rdt_job_run, timer);
	struct rdt_jobs *jobs = run->jobs;
	uint64_t took = 0, now = rd_loop_now_raw(jobs->loop);

	pthread_mutex_lock(&jobs->lock);
	if (run->current && now > run->began)
		took = now - run->began;
	pthread_mutex_unlock(&jobs->lock);
	if (took < SLOW) {
		rd_timer_start(jobs->loop, timer, SLOW - took);
		return;
	}
	run->slow = true;
	jobs->counted--;
	timer->fn = job_is_late;
	rd_timer_start(jobs->loop, timer, took < RDT_JOBS_LIMIT ? RDT_JOBS_LIMIT - took : 0);
	give_back_todo(run);
	launch_jobs(jobs);
}

/* Drops jobs if a thread cannot be started, or memory ran out; their owners try again. */
static void drop_jobs(struct job_list *list)
{
	struct rdt_job *job;

	while ((job = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, job, link);
		job->dropped = true;
		job->done(job);
	}
}

/* Moves the first jobs of the device to @run. Tests hold single jobs. */
static void fill_run(struct rdt_job_run *run)
{
	unsigned int most = run->jobs->run ? 1 : BATCH;
	struct rdt_job *job;

	while (most-- && (job = TAILQ_FIRST(&run->of->waiting))) {
		TAILQ_REMOVE(&run->of->waiting, job, link);
		job->run = run;
		TAILQ_INSERT_TAIL(&run->todo, job, link);
	}
}

static void begin_in_place(struct rdt_job_run *run)
{
	struct rdt_job *job = begin_job(run);

	if (!run->jobs->run(job))
		return;
	run_over(run);
	job->done(job);
}

static void launch_run(struct rdt_jobs *jobs, struct rdt_job_device *d)
{
	struct job_list dropped = TAILQ_HEAD_INITIALIZER(dropped);
	struct rdt_job_run *run = calloc(1, sizeof(*run));

	if (!run) {
		TAILQ_CONCAT(&dropped, &d->waiting, link);
		device_changed(jobs, d);
		drop_jobs(&dropped);
		return;
	}
	run->jobs = jobs;
	run->of = d;
	TAILQ_INIT(&run->todo);
	fill_run(run);
	TAILQ_INSERT_TAIL(&jobs->runs, run, link);
	d->running++;
	jobs->counted++;
	device_changed(jobs, d);
	run->timer.fn = check_run;
	rd_timer_start(jobs->loop, &run->timer, SLOW);
	if (jobs->run) {
		begin_in_place(run);
	} else if (pthread_create(&run->thread, NULL, run_thread, run)) {
		TAILQ_CONCAT(&dropped, &run->todo, link);
		run_over(run);
		drop_jobs(&dropped);
	}
}

static void launch_jobs(struct rdt_jobs *jobs)
{
	struct rdt_job_device *d;

	if (jobs->starting)
		return;
	jobs->starting = true;
	while (jobs->counted < RDT_JOBS_TOTAL && (d = TAILQ_FIRST(&jobs->ready))) {
		/* Serve every other ready device before its next run. */
		TAILQ_REMOVE(&jobs->ready, d, link);
		d->ready = false;
		launch_run(jobs, d);
	}
	jobs->starting = false;
}

void rdt_jobs_add(struct rdt_jobs *jobs, struct rdt_job *job)
{
	struct rdt_job_device *d = jobs->ending ? NULL : job_device_of(jobs, job->device);

	job->dropped = !d;
	if (!d) {
		job->done(job);
		return;
	}
	TAILQ_INSERT_TAIL(&d->waiting, job, link);
	device_changed(jobs, d);
	launch_jobs(jobs);
}

/* ---- all ---- */

int rdt_jobs_new(struct rd_loop *loop, struct rd_log *log, bool (*run)(struct rdt_job *job),
		 struct rdt_jobs **out)
{
	struct rdt_jobs *jobs = calloc(1, sizeof(*jobs));

	*out = NULL;
	if (!jobs || rd_map_init(&jobs->devices)) {
		free(jobs);
		return -ENOMEM;
	}
	jobs->loop = loop;
	jobs->log = log;
	jobs->run = run;
	jobs->mounts_fd = -1;
	TAILQ_INIT(&jobs->ready);
	TAILQ_INIT(&jobs->all);
	TAILQ_INIT(&jobs->runs);
	pthread_mutex_init(&jobs->lock, NULL);
	*out = jobs;
	return 0;
}

static void drop_waiting(struct rdt_jobs *jobs)
{
	struct job_list dropped = TAILQ_HEAD_INITIALIZER(dropped);
	struct rdt_job_device *d, *next;
	struct rdt_job_run *run;

	TAILQ_FOREACH (run, &jobs->runs, link)
		give_back_todo(run);
	for (d = TAILQ_FIRST(&jobs->all); d; d = next) {
		next = TAILQ_NEXT(d, all);
		TAILQ_CONCAT(&dropped, &d->waiting, link);
		device_changed(jobs, d);
	}
	drop_jobs(&dropped);
}

/* Logs the jobs that hang. */
static void name_hanging(struct rdt_jobs *jobs)
{
	const struct rdt_job_run *run;

	pthread_mutex_lock(&jobs->lock);
	TAILQ_FOREACH (run, &jobs->runs, link)
		if (run->current)
			rd_err(jobs->log, RD_LOG_BACKEND, "%s: the storage still does not answer",
			       run->current->what);
	pthread_mutex_unlock(&jobs->lock);
}

bool rdt_jobs_end(struct rdt_jobs *jobs, uint64_t timeout_ns)
{
	uint64_t end;

	if (!jobs)
		return true;
	jobs->ending = true;
	drop_waiting(jobs);
	end = rd_loop_now_raw(jobs->loop) + timeout_ns;
	while (!TAILQ_EMPTY(&jobs->runs)) {
		uint64_t now = rd_loop_now_raw(jobs->loop);

		if (now >= end || rd_loop_turn(jobs->loop, end - now) < 0)
			break;
	}
	name_hanging(jobs);
	return TAILQ_EMPTY(&jobs->runs);
}

static void forget_mounts(struct rdt_jobs *jobs)
{
	for (unsigned int i = 0; i < jobs->mounts_count; i++)
		free(jobs->mounts[i].path);
	free(jobs->mounts);
	jobs->mounts = NULL;
	jobs->mounts_count = 0;
}

void rdt_jobs_free(struct rdt_jobs **jobs)
{
	struct rdt_jobs *j = *jobs;

	if (!j)
		return;
	forget_mounts(j);
	if (j->mounts_fd >= 0)
		close(j->mounts_fd);
	rd_map_fini(&j->devices);
	pthread_mutex_destroy(&j->lock);
	free(j);
	*jobs = NULL;
}

/* ---- where a path is ---- */

/* "36 35 98:0 /root /mount/point ...", in which "\040" stands for a space. */
static bool parse_mount(const char *line, struct mounted *m)
{
	unsigned int major, minor, code;
	char path[4096], *to = path;

	if (sscanf(line, "%*u %*u %u:%u %*s %4095s", &major, &minor, path) != 3)
		return false;
	for (const char *from = path; *from; from++) {
		if (*from == '\\' && sscanf(from + 1, "%3o", &code) == 1) {
			*to++ = (char)code;
			from += 3;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
	m->device = (uint64_t)major << 32 | minor;
	m->path = strdup(path);
	m->len = strcmp(path, "/") == 0 ? 0 : strlen(path);
	return m->path;
}

/* The kernel writes this text without accessing any device. */
static void read_mounts(struct rdt_jobs *jobs)
{
	int fd = dup(jobs->mounts_fd);
	FILE *f = fd >= 0 ? fdopen(fd, "re") : NULL;
	struct mounted m, *more;
	char line[8192];

	forget_mounts(jobs);
	if (!f) {
		if (fd >= 0)
			close(fd);
		return;
	}
	rewind(f);
	while (fgets(line, sizeof(line), f)) {
		if (!parse_mount(line, &m))
			continue;
		more = realloc(jobs->mounts, (jobs->mounts_count + 1) * sizeof(m));
		if (!more) {
			free(m.path);
			break;
		}
		jobs->mounts = more;
		jobs->mounts[jobs->mounts_count++] = m;
	}
	fclose(f);
}

static void update_mounts(struct rdt_jobs *jobs)
{
	struct pollfd p = {.events = POLLPRI};

	if (jobs->mounts_fd < 0) {
		jobs->mounts_fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
		if (jobs->mounts_fd >= 0)
			read_mounts(jobs);
		return;
	}
	p.fd = jobs->mounts_fd;
	if (poll(&p, 1, 0) > 0) /* something was mounted or unmounted */
		read_mounts(jobs);
}

static uint64_t device_of_path(struct rdt_jobs *jobs, const char *path)
{
	const struct mounted *best = NULL;

	update_mounts(jobs);
	for (unsigned int i = 0; i < jobs->mounts_count; i++) {
		const struct mounted *m = &jobs->mounts[i];

		/* A later mount hides an earlier one with the same path. */
		if (strncmp(m->path, path, m->len) == 0 && path[m->len] == '/' &&
		    (!best || m->len >= best->len))
			best = m;
	}
	return best ? best->device : 0;
}

uint64_t rdt_jobs_device(struct rdt_jobs *jobs, const struct rdt_ns_config *cfg)
{
	if (cfg->backend == RDT_BACKEND_FILE && cfg->path)
		return device_of_path(jobs, cfg->path);
	if (cfg->path)
		return rd_map_hash(cfg->path);
	if (cfg->uri)
		return rd_map_hash(cfg->uri);
	return cfg->rbd && cfg->rbd->of ? rd_map_hash(cfg->rbd->of->name) : 1;
}
