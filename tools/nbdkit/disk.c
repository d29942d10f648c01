/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each channel of the device has a mutex. Threads of nbdkit submit their commands under it. One of
 * the threads that wait for commands of a channel is its leader: it receives, and wakes the others.
 * The disk has one thread of its own, the keeper, which does the work of the device: keep-alive and
 * reconnecting continue when no client asks for anything.
 *
 * Locks in order: queue->lock, and what the library has.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "disk.h"

#define PARTS_MAX 8 /* limit of commands in flight of a request */
/* A thread whose request is the only one of its channel keeps the lock while it waits, for this
 * number of turns: */
#define ALONE_TURNS 4
#define ALONE_MS    1
/* interval at which a request that waits for a path checks for its client */
#define LOOK_SECONDS     1

#define STATUS_CODE      0x7ff
#define STATUS_READ_ONLY 0x20 /* Generic: Namespace is Write Protected */
#define STATUS_LBA_RANGE 0x80 /* Generic: LBA Out of Range */
#define STATUS_CAPACITY  0x81 /* Generic: Capacity Exceeded */

struct rdn_queue {
	struct rdn_disk *disk;
	struct rdinit_dev_chan *chan;
	atomic_uint n_requests;
	pthread_mutex_t lock;
	/* The following members are guarded by @lock. */
	TAILQ_HEAD(, rdn_request) requests;
	bool led;              /* a thread is the leader */
	unsigned int n_hungry; /* number of requests that wait for room in the channel */
};

struct rdn_disk {
	const struct rdn_config *config;
	struct rdinit_dev *dev;
	struct rdinit_dev_info info; /* as of opening */
	pthread_t keeper;
	int stop; /* eventfd that ends the keeper; -1: there is none */
	struct rdn_queue queue[RDN_QUEUES_MAX];
	unsigned int n_queues; /* number of queues that have a channel */
	atomic_bool tells;     /* report lost paths; false while opening and closing */
	bool opened;           /* opening has ended, */
	int open_err;          /* with this, */
	char open_why[512];    /* for this reason */
	bool lost[RDINIT_DEV_PATHS_MAX];
};

struct rdn_request;

struct rdn_part {
	struct rdn_request *request;
	uint64_t id; /* for rdinit_dev_cancel() */
	bool busy;
};

/* A request, on the stack of its thread. Guarded by the lock of its queue. */
struct rdn_request {
	struct rdn_queue *queue;
	TAILQ_ENTRY(rdn_request) link;
	/* signalled when a command has completed, or this thread becomes the leader */
	pthread_cond_t changed;
	struct rdn_part part[PARTS_MAX];
	unsigned int n_busy;
	time_t look_at; /* CLOCK_MONOTONIC seconds of the next check for its client; 0: not set */
	bool hungry;    /* it waits for room in the channel */
	bool slow;      /* it no longer waits with the lock held */
	bool abandoned; /* its client has disconnected */
	int err;        /* error of the first command that failed */
	uint16_t status;
	char text[512];
};

const char *rdn_lib_text(void)
{
	const char *text = rdinit_get_error(), *colon = strstr(text, ": ");

	return strncmp(text, "rdinit_", 7) == 0 && colon ? colon + 2 : text;
}

/* ---- a request ---- */

static void rdn_request_fail(struct rdn_request *r, int err, uint16_t status, const char *text)
{
	if (r->err)
		return;
	r->err = err;
	r->status = status;
	snprintf(r->text, sizeof(r->text), "%s", text);
}

/* The channel has room: wakes requests that wait for it. */
static void rdn_feed(struct rdn_queue *q)
{
	struct rdn_request *r;

	TAILQ_FOREACH (r, &q->requests, link)
		if (r->hungry)
			pthread_cond_signal(&r->changed);
}

static void rdn_part_done(void *user, const struct rdinit_completion *c)
{
	struct rdn_part *part = user;
	struct rdn_request *r = part->request;

	if (c->err)
		rdn_request_fail(r, c->err, c->status, c->text);
	part->busy = false;
	r->n_busy--;
	if (r->queue->n_hungry)
		rdn_feed(r->queue);
	pthread_cond_signal(&r->changed);
}

static struct rdn_part *rdn_free_part(struct rdn_request *r)
{
	unsigned int i;

	for (i = 0; i < PARTS_MAX; i++)
		if (!r->part[i].busy)
			return &r->part[i];
	return NULL;
}

/* Submits commands from @io on while the channel has room. Returns the number of blocks left. */
static uint64_t rdn_submit(struct rdn_request *r, struct rdinit_dev_io *io, uint64_t blocks,
			   uint32_t max)
{
	uint32_t block_size = r->queue->disk->info.block_size;
	struct rdn_part *part;
	int rc;

	while (blocks && !r->err && (part = rdn_free_part(r))) {
		io->nblocks = io->op == RDINIT_DEV_FLUSH ? 0
			      : blocks < max             ? (uint32_t)blocks
							 : max;
		part->request = r;
		rc = rdinit_dev_submit(r->queue->chan, io, rdn_part_done, part, &part->id);
		if (rc == -EAGAIN && !r->n_busy) {
			r->hungry = true;
			r->queue->n_hungry++;
		}
		if (rc == -EAGAIN)
			break;
		if (rc) {
			rdn_request_fail(r, rc, 0, rdn_lib_text());
			break;
		}
		part->busy = true;
		r->n_busy++;
		blocks -= io->op == RDINIT_DEV_FLUSH ? 1 : io->nblocks;
		io->lba += io->nblocks;
		if (io->buf)
			io->buf = (char *)io->buf + (size_t)io->nblocks * block_size;
	}
	return blocks;
}

/* @r stops being the leader: another request takes over. */
static void rdn_let_lead(struct rdn_queue *q, const struct rdn_request *r)
{
	struct rdn_request *next = TAILQ_FIRST(&q->requests);

	if (next && next == r)
		next = TAILQ_NEXT(next, link);
	if (next && !q->led)
		pthread_cond_signal(&next->changed);
}

/* While no path is usable: abandons the request if its client has disconnected or nbdkit is to
 * end. */
static void rdn_look_for_client(struct rdn_request *r)
{
	struct rdn_queue *q = r->queue;
	struct rdinit_dev_info info;
	unsigned int i;
	bool gone;

	rdinit_dev_info_init(&info);
	if (r->abandoned || rdinit_dev_get_info(q->disk->dev, &info) ||
	    info.state != RDINIT_DEV_WAITING)
		return;
	rdn_let_lead(q, r);
	pthread_mutex_unlock(&q->lock);
	gone = nbdkit_nanosleep(0, 1) < 0;
	pthread_mutex_lock(&q->lock);
	if (!gone)
		return;
	r->abandoned = true;
	rdn_request_fail(r, -ECANCELED, 0, "the client has disconnected");
	for (i = 0; i < PARTS_MAX; i++)
		if (r->part[i].busy)
			rdinit_dev_cancel(q->chan, r->part[i].id);
}

/* Receives completions as the leader. */
static void rdn_lead(struct rdn_request *r)
{
	struct rdn_queue *q = r->queue;
	struct pollfd fd = {.fd = rdinit_dev_chan_fd(q->chan), .events = POLLIN};
	int n = 0, turns;

	q->led = true;
	if (!r->slow && atomic_load_explicit(&q->n_requests, memory_order_relaxed) == 1) {
		for (turns = 0; n == 0 && turns < ALONE_TURNS; turns++)
			n = rdinit_dev_chan_process(q->chan, ALONE_MS);
		r->slow = n == 0;
		q->led = false;
		return;
	}
	pthread_mutex_unlock(&q->lock);
	poll(&fd, 1, LOOK_SECONDS * 1000);
	pthread_mutex_lock(&q->lock);
	rdinit_dev_chan_process(q->chan, 0);
	q->led = false;
}

/* Waits until the state of @r may have changed. */
static void rdn_wait(struct rdn_request *r)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	if (!r->look_at)
		r->look_at = until.tv_sec + LOOK_SECONDS;
	if (until.tv_sec > r->look_at) {
		r->look_at = until.tv_sec;
		rdn_look_for_client(r);
	}
	until.tv_sec += LOOK_SECONDS;
	if (!r->n_busy && !r->hungry)
		return; /* its commands have completed meanwhile */
	if (r->queue->led)
		pthread_cond_timedwait(&r->changed, &r->queue->lock, &until);
	else
		rdn_lead(r);
	r->queue->n_hungry -= r->hungry;
	r->hungry = false;
}

/* Prints the error, and sets the closest error number of NBD for the client. Returns -1. */
static int rdn_request_failed(const struct rdn_request *r)
{
	uint16_t code = r->err == -EIO ? r->status & STATUS_CODE : 0;

	nbdkit_error("%s: %s", r->queue->disk->info.subnqn, r->text);
	if (code == STATUS_READ_ONLY)
		nbdkit_set_error(EROFS);
	else if (code == STATUS_CAPACITY || code == STATUS_LBA_RANGE)
		nbdkit_set_error(ENOSPC);
	else if (r->err == -ENOMEM || r->err == -EINVAL || r->err == -EOPNOTSUPP)
		nbdkit_set_error(-r->err);
	else
		nbdkit_set_error(r->err == -ENODEV || r->abandoned ? ESHUTDOWN : EIO);
	return -1;
}

/* The queue with the fewest requests; the first one of several. */
static struct rdn_queue *rdn_pick_queue(struct rdn_disk *disk)
{
	struct rdn_queue *best = &disk->queue[0];
	unsigned int i, n, least = atomic_load_explicit(&best->n_requests, memory_order_relaxed);

	for (i = 1; least && i < disk->n_queues; i++) {
		n = atomic_load_explicit(&disk->queue[i].n_requests, memory_order_relaxed);
		if (n >= least)
			continue;
		best = &disk->queue[i];
		least = n;
	}
	atomic_fetch_add(&best->n_requests, 1);
	return best;
}

static void rdn_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

int rdn_disk_run(struct rdn_disk *disk, const struct rdinit_dev_io *io, uint64_t blocks,
		 uint32_t max)
{
	struct rdn_queue *q = rdn_pick_queue(disk);
	struct rdn_request r = {.queue = q};
	struct rdinit_dev_io next = *io;

	rdn_cond_init(&r.changed);
	pthread_mutex_lock(&q->lock);
	TAILQ_INSERT_TAIL(&q->requests, &r, link);
	for (;;) {
		blocks = rdn_submit(&r, &next, blocks, max);
		if (!r.n_busy && (!blocks || r.err))
			break;
		rdn_wait(&r);
	}
	TAILQ_REMOVE(&q->requests, &r, link);
	rdn_let_lead(q, NULL);
	pthread_mutex_unlock(&q->lock);
	atomic_fetch_sub(&q->n_requests, 1);
	pthread_cond_destroy(&r.changed);
	return r.err ? rdn_request_failed(&r) : 0;
}

/* ---- the device ---- */

/* Prints changes of paths, so that an operator sees why requests wait. Any thread of the
 * library. */
static void rdn_event(void *user, const struct rdinit_dev_event *ev)
{
	struct rdn_disk *disk = user;

	if (ev->type != RDINIT_DEV_EVENT_PATH || !atomic_load(&disk->tells))
		return;
	switch (ev->path_state) {
	case RDINIT_DEV_PATH_LIVE:
		if (disk->lost[ev->path])
			nbdkit_error("path %d is connected again", ev->path + 1);
		disk->lost[ev->path] = false;
		break;
	case RDINIT_DEV_PATH_WAITING:
	case RDINIT_DEV_PATH_FAILED:
		nbdkit_error("path %d: %s", ev->path + 1, ev->text);
		disk->lost[ev->path] = true;
		break;
	default:
		break;
	}
}

static void *rdn_keeper(void *arg)
{
	struct rdn_disk *disk = arg;
	struct pollfd fds[2] = {
		{.fd = rdinit_dev_fd(disk->dev), .events = POLLIN},
		{.fd = disk->stop, .events = POLLIN},
	};

	do {
		rdinit_dev_process(disk->dev, 0);
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
	} while (!fds[1].revents);
	return NULL;
}

/* Prints the library's error. Returns -1. */
static int rdn_library_error(const char *what)
{
	nbdkit_error("%s: %s", what, rdn_lib_text());
	return -1;
}

static int rdn_start_keeper(struct rdn_disk *disk)
{
	sigset_t all, before;
	int rc, fd = eventfd(0, EFD_CLOEXEC);

	if (fd < 0) {
		nbdkit_error("no eventfd for the thread that keeps the paths alive: %m");
		return -1;
	}
	disk->stop = fd;
	/* Blocks signals, which nbdkit handles. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&disk->keeper, NULL, rdn_keeper, disk);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		return 0;
	nbdkit_error("no thread that keeps the paths alive: %s", strerror(rc));
	close(fd);
	disk->stop = -1;
	return -1;
}

static int rdn_create_queues(struct rdn_disk *disk)
{
	while (disk->n_queues < disk->config->dev.channels) {
		struct rdn_queue *q = &disk->queue[disk->n_queues];
		int rc = rdinit_dev_chan_create(disk->dev, &q->chan);

		if (rc == -ENOSPC && disk->n_queues)
			return 0; /* the controller grants fewer queues */
		if (rc)
			return rdn_library_error(disk->info.subnqn);
		q->disk = disk;
		pthread_mutex_init(&q->lock, NULL);
		TAILQ_INIT(&q->requests);
		disk->n_queues++;
	}
	return 0;
}

static int rdn_check_size(const struct rdinit_dev_info *info)
{
	if (info->max_transfer >= info->block_size && info->blocks <= INT64_MAX / info->block_size)
		return 0;
	nbdkit_error("%s: a block is more than the controller transfers at once, or the namespace "
		     "is larger than 2^63 bytes",
		     info->subnqn);
	return -1;
}

static const char *rdn_subnqn(const struct rdn_config *config)
{
	return config->n_uri ? config->uri[0].subnqn : config->discovery.subnqn;
}

/* Makes the device with its paths; connects nothing. @disk NULL: without events. */
static int rdn_make_device(const struct rdn_config *config, struct rdn_disk *disk,
			   struct rdinit_dev **dev)
{
	struct rdinit_dev_opts opts = config->dev;
	unsigned int i;

	opts.ctrl = &config->ctrl;
	if (disk) {
		opts.event_fn = rdn_event;
		opts.event_user = disk;
	}
	if (rdinit_dev_create(&opts, dev))
		return rdn_library_error(rdn_subnqn(config));
	for (i = 0; i < config->n_uri; i++)
		if (rdinit_dev_add_path(*dev, &config->uri[i], NULL) < 0)
			return rdn_library_error(config->uri[i].subnqn);
	if (config->discovery.subnqn[0] && rdinit_dev_add_discovery(*dev, &config->discovery, NULL))
		return rdn_library_error(rdn_subnqn(config));
	return 0;
}

int rdn_disk_check(const struct rdn_config *config)
{
	struct rdinit_dev *dev = NULL;
	int rc = rdn_make_device(config, NULL, &dev);

	rdinit_dev_free(&dev);
	return rc;
}

static void rdn_opened(void *user, const struct rdinit_completion *c)
{
	struct rdn_disk *disk = user;

	disk->opened = true;
	disk->open_err = c->err;
	snprintf(disk->open_why, sizeof(disk->open_why), "%s", c->text);
}

/* A target that says nothing, or nonsense, keeps neither a client that has gone nor nbdkit. */
static int rdn_wait_open(struct rdn_disk *disk)
{
	const char *subnqn = rdn_subnqn(disk->config);

	while (!disk->opened) {
		if (rdinit_dev_process(disk->dev, LOOK_SECONDS * 1000))
			return rdn_library_error(subnqn);
		if (!disk->opened && nbdkit_nanosleep(0, 1) < 0) {
			nbdkit_error("%s: not connected: the client has disconnected, or nbdkit is "
				     "ending",
				     subnqn);
			return -1;
		}
	}
	if (!disk->open_err)
		return 0;
	nbdkit_error("%s: %s", subnqn, disk->open_why);
	return -1;
}

static int rdn_connect(struct rdn_disk *disk)
{
	const char *subnqn = rdn_subnqn(disk->config);

	if (rdn_make_device(disk->config, disk, &disk->dev))
		return -1;
	if (rdinit_dev_open_async(disk->dev, rdn_opened, disk))
		return rdn_library_error(subnqn);
	if (rdn_wait_open(disk))
		return -1;
	rdinit_dev_info_init(&disk->info);
	if (rdinit_dev_get_info(disk->dev, &disk->info))
		return rdn_library_error(subnqn);
	return rdn_check_size(&disk->info);
}

/* Prints which paths are not connected: their events came before the disk was open. */
static void rdn_look_at_paths(struct rdn_disk *disk)
{
	struct rdinit_dev_path_info path;
	unsigned int i;

	for (i = 0; i < disk->info.paths; i++) {
		rdinit_dev_path_info_init(&path);
		if (rdinit_dev_get_path(disk->dev, i, &path) == 0 &&
		    (path.state == RDINIT_DEV_PATH_WAITING || path.state == RDINIT_DEV_PATH_FAILED))
			nbdkit_error("path %u: %s", i + 1, path.text);
	}
}

int rdn_disk_open(const struct rdn_config *config, struct rdn_disk **out)
{
	struct rdn_disk *disk = calloc(1, sizeof(*disk));

	if (!disk) {
		nbdkit_error("out of memory");
		return -1;
	}
	disk->config = config;
	disk->stop = -1;
	if (rdn_connect(disk) || rdn_create_queues(disk) || rdn_start_keeper(disk)) {
		rdn_disk_close(&disk);
		return -1;
	}
	rdn_look_at_paths(disk);
	atomic_store(&disk->tells, true);
	*out = disk;
	return 0;
}

void rdn_disk_close(struct rdn_disk **disk)
{
	struct rdn_disk *d = *disk;
	unsigned int i;

	*disk = NULL;
	if (!d)
		return;
	atomic_store(&d->tells, false);
	if (d->stop >= 0) {
		eventfd_write(d->stop, 1);
		pthread_join(d->keeper, NULL);
		close(d->stop);
	}
	for (i = 0; i < d->n_queues; i++) {
		rdinit_dev_chan_free(&d->queue[i].chan);
		pthread_mutex_destroy(&d->queue[i].lock);
	}
	if (d->info.block_size)
		rdinit_dev_close(d->dev);
	rdinit_dev_free(&d->dev);
	free(d);
}

void rdn_disk_retry(struct rdn_disk *disk)
{
	rdinit_dev_reconnect(disk->dev);
}

int rdn_disk_extents(struct rdn_disk *disk, uint64_t lba, uint64_t blocks,
		     struct rdinit_dev_extent *list, uint64_t *known)
{
	return rdinit_dev_extents(disk->dev, lba, blocks, list, known);
}

int rdn_disk_info(struct rdn_disk *disk, struct rdinit_dev_info *info)
{
	rdinit_dev_info_init(info);
	return rdinit_dev_get_info(disk->dev, info) ? rdn_library_error(disk->info.subnqn) : 0;
}
