/* SPDX-License-Identifier: BSD-3-Clause */
#include "jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"
#include "util/map.h"
#include "target/config/config.h"

#define SLOW RD_NSEC_PER_SEC

TAILQ_HEAD(job_list, rdt_job);

struct rdt_job_device {
	uint64_t key;
	unsigned int running;
	struct job_list waiting;
	bool ready; /* in jobs->ready: it has jobs that wait, and may run one */
	TAILQ_ENTRY(rdt_job_device) link;
	TAILQ_ENTRY(rdt_job_device) all;
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
	struct job_list running;
	unsigned int counted; /* of @running: those that are not slow */
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

/* ---- a job ---- */

static void job_over(struct rdt_job *job)
{
	struct rdt_jobs *jobs = job->jobs;
	struct rdt_job_device *d = job->of;

	rd_timer_stop(jobs->loop, &job->timer);
	TAILQ_REMOVE(&jobs->running, job, link);
	if (!job->slow)
		jobs->counted--;
	d->running--;
	device_changed(jobs, d);
	job->done(job);
}

static void job_done_msg(struct rd_msg *msg)
{
	struct rdt_job *job = rd_container_of(msg, struct rdt_job, msg);
	struct rdt_jobs *jobs = job->jobs;

	if (!jobs->run)
		pthread_join(job->thread, NULL);
	job_over(job);
	launch_jobs(jobs);
}

void rdt_job_finish(struct rdt_job *job)
{
	job->msg.fn = job_done_msg;
	rd_loop_post(job->jobs->loop, &job->msg);
}

bool rdt_job_run_now(struct rdt_job *job)
{
	job->work(job);
	return true;
}

static void *job_thread(void *arg)
{
	struct rdt_job *job = arg;

	pthread_setname_np(pthread_self(), job->name ? job->name : "storage");
	job->work(job);
	rdt_job_finish(job);
	return NULL;
}

static void job_is_late(struct rd_timer *timer)
{
	struct rdt_job *job = rd_container_of(timer, struct rdt_job, timer);

	rd_warn(job->jobs->log, RD_LOG_BACKEND, "%s: no answer from the storage for %u s",
		job->what, (unsigned int)(RDT_JOBS_LIMIT / RD_NSEC_PER_SEC));
	if (job->late)
		job->late(job);
}

/* Without memory for the timer it is told when the job ends. */
static void job_is_slow(struct rd_timer *timer)
{
	struct rdt_job *job = rd_container_of(timer, struct rdt_job, timer);
	struct rdt_jobs *jobs = job->jobs;

	job->slow = true;
	jobs->counted--;
	timer->fn = job_is_late;
	rd_timer_start(jobs->loop, timer, RDT_JOBS_LIMIT - SLOW);
	launch_jobs(jobs);
}

/* A thread that cannot be started: the job is dropped, and its owner tries again. */
static void launch_job(struct rdt_jobs *jobs, struct rdt_job *job)
{
	struct rdt_job_device *d = job->of;

	TAILQ_REMOVE(&d->waiting, job, link);
	TAILQ_INSERT_TAIL(&jobs->running, job, link);
	d->running++;
	jobs->counted++;
	device_changed(jobs, d);
	job->began = rd_loop_now(jobs->loop);
	job->timer.fn = job_is_slow;
	rd_timer_start(jobs->loop, &job->timer, SLOW);
	if (jobs->run) {
		if (jobs->run(job))
			job_over(job);
	} else if (pthread_create(&job->thread, NULL, job_thread, job)) {
		job->dropped = true;
		job_over(job);
	}
}

static void launch_jobs(struct rdt_jobs *jobs)
{
	struct rdt_job_device *d;

	if (jobs->starting)
		return;
	jobs->starting = true;
	while (jobs->counted < RDT_JOBS_TOTAL && (d = TAILQ_FIRST(&jobs->ready))) {
		/* Its next job waits until each other device has had its turn. */
		TAILQ_REMOVE(&jobs->ready, d, link);
		d->ready = false;
		launch_job(jobs, TAILQ_FIRST(&d->waiting));
	}
	jobs->starting = false;
}

void rdt_jobs_add(struct rdt_jobs *jobs, struct rdt_job *job)
{
	job->jobs = jobs;
	job->dropped = job->slow = false;
	job->timer = (struct rd_timer){0};
	job->of = jobs->ending ? NULL : job_device_of(jobs, job->device);
	if (!job->of) {
		job->dropped = true;
		job->done(job);
		return;
	}
	TAILQ_INSERT_TAIL(&job->of->waiting, job, link);
	device_changed(jobs, job->of);
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
	TAILQ_INIT(&jobs->running);
	*out = jobs;
	return 0;
}

static void drop_waiting(struct rdt_jobs *jobs)
{
	struct job_list dropped = TAILQ_HEAD_INITIALIZER(dropped);
	struct rdt_job_device *d, *next;
	struct rdt_job *job;

	for (d = TAILQ_FIRST(&jobs->all); d; d = next) {
		next = TAILQ_NEXT(d, all);
		TAILQ_CONCAT(&dropped, &d->waiting, link);
		device_changed(jobs, d);
	}
	while ((job = TAILQ_FIRST(&dropped))) {
		TAILQ_REMOVE(&dropped, job, link);
		job->dropped = true;
		job->done(job);
	}
}

bool rdt_jobs_end(struct rdt_jobs *jobs, uint64_t timeout_ns)
{
	const struct rdt_job *job;
	uint64_t end;

	if (!jobs)
		return true;
	jobs->ending = true;
	drop_waiting(jobs);
	end = rd_loop_now_raw(jobs->loop) + timeout_ns;
	while (!TAILQ_EMPTY(&jobs->running)) {
		uint64_t now = rd_loop_now_raw(jobs->loop);

		if (now >= end || rd_loop_turn(jobs->loop, end - now) < 0)
			break;
	}
	TAILQ_FOREACH (job, &jobs->running, link)
		rd_err(jobs->log, RD_LOG_BACKEND, "%s: the storage still does not answer",
		       job->what);
	return TAILQ_EMPTY(&jobs->running);
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

/* The kernel makes this text without a question to any device. */
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

		/* Of two with the same path the later one covers the other. */
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
