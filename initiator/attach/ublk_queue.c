/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue of a ublk device: a thread with an io_uring for the kernel's requests and a channel for
 * the namespace. It sleeps in the io_uring only, which also watches the channel's descriptor.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ublk.h"

#define STACK_SIZE (256u << 10) /* all of it is locked in memory */
/* user_data of what is not a tag */
#define WATCH_CHAN (UINT64_MAX)
#define WATCH_WAKE (UINT64_MAX - 1)
#define SECTOR     9

/* A tag: one request at a time. */
struct ublk_tag {
	struct rdi_attach_io io;
	struct rdi_ublk_queue *q;
	uint16_t tag;
	uint32_t bytes; /* of the request; 0: neither a Read nor a Write */
};

struct rdi_ublk_queue {
	struct rdi_ublk_queue_opts o;
	pthread_t thread;
	bool started;
	struct rdinit_dev_chan *chan;
	struct io_uring ring;
	bool has_ring;
	const struct ublksrv_io_desc *desc;
	size_t desc_len;
	unsigned char *mem; /* the data of all tags */
	size_t mem_len;
	struct ublk_tag *tags;
	unsigned int held; /* tags that the kernel or the channel has */
	int wake;
	atomic_bool abort;
	bool aborted;
};

/* ---- requests ---- */

static struct io_uring_sqe *queue_sqe(struct rdi_ublk_queue *q)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&q->ring);

	while (!sqe) {
		io_uring_submit(&q->ring);
		sqe = io_uring_get_sqe(&q->ring);
	}
	return sqe;
}

static unsigned char *tag_buffer(const struct ublk_tag *t)
{
	return t->q->mem + (size_t)t->tag * t->q->o.io_bytes;
}

/* Gives a tag to the kernel, with the result of its request if it had one. */
static void tag_give(struct ublk_tag *t, uint32_t op, int result)
{
	struct ublksrv_io_cmd cmd = {
		.q_id = t->q->o.index,
		.tag = t->tag,
		.result = result,
		.addr = (uintptr_t)tag_buffer(t),
	};
	struct rdi_ublk_entry entry = {t->q->o.fd, op, &cmd, sizeof(cmd), t->tag};

	rdi_ublk_put(&t->q->ring, queue_sqe(t->q), &entry);
}

static void tag_done(struct rdi_attach_io *io, int err)
{
	struct ublk_tag *t = (struct ublk_tag *)io;

	tag_give(t, UBLK_U_IO_COMMIT_AND_FETCH_REQ, err ? err : (int)t->bytes);
}

/* Fills t->io with the kernel's request. Returns 0, or the error to answer it with. */
static int tag_take(struct ublk_tag *t)
{
	const struct rdi_ublk_queue *q = t->q;
	const struct ublksrv_io_desc *d = &q->desc[t->tag];
	const struct rdi_attach_limits *l = &q->o.a->limits;
	uint32_t flags = ublksrv_get_flags(d) << 8; /* UBLK_IO_F_* are bits of op_flags */
	uint64_t bytes = (uint64_t)d->nr_sectors << SECTOR, at = d->start_sector << SECTOR;

	t->bytes = 0;
	t->io = (struct rdi_attach_io){.done = tag_done,
				       .lba = at / l->block_size,
				       .left = bytes / l->block_size,
				       .flags = flags & UBLK_IO_F_FUA ? RDINIT_IO_FUA : 0};
	switch (ublksrv_get_op(d)) {
	case UBLK_IO_OP_READ:
	case UBLK_IO_OP_WRITE:
		t->io.op =
			ublksrv_get_op(d) == UBLK_IO_OP_READ ? RDINIT_DEV_READ : RDINIT_DEV_WRITE;
		t->io.buf = tag_buffer(t);
		if (bytes > q->o.io_bytes)
			return -EINVAL;
		t->bytes = (uint32_t)bytes;
		break;
	case UBLK_IO_OP_FLUSH:
		t->io.op = RDINIT_DEV_FLUSH;
		t->io.flags = 0;
		return 0;
	case UBLK_IO_OP_DISCARD:
		t->io.op = RDINIT_DEV_DEALLOCATE;
		t->io.flags = 0;
		break;
	case UBLK_IO_OP_WRITE_ZEROES:
		t->io.op = RDINIT_DEV_WRITE_ZEROES;
		if (!(flags & UBLK_IO_F_NOUNMAP))
			t->io.flags |= RDINIT_DEV_IO_DEALLOCATE;
		break;
	default:
		return -EOPNOTSUPP;
	}
	return at % l->block_size || bytes % l->block_size || !bytes ? -EINVAL : 0;
}

static void tag_request(struct ublk_tag *t)
{
	int rc = t->q->chan ? tag_take(t) : -EIO;

	if (!rc)
		rc = rdi_attach_io_start(&t->io, t->q->chan, &t->q->o.a->limits);
	if (rc)
		tag_done(&t->io, rc);
}

/* ---- the thread ---- */

static void queue_watch(struct rdi_ublk_queue *q, int fd, uint64_t what)
{
	struct io_uring_sqe *sqe = queue_sqe(q);

	io_uring_prep_poll_add(sqe, fd, POLLIN);
	sqe->user_data = what;
}

static void queue_woken(struct rdi_ublk_queue *q)
{
	uint64_t n;

	if (read(q->wake, &n, sizeof(n)) < 0)
		n = 0;
	if (atomic_load(&q->abort) && !q->aborted) {
		q->aborted = true;
		rdinit_dev_chan_free(&q->chan); /* ends what is in flight */
	}
	queue_watch(q, q->wake, WATCH_WAKE);
}

static void queue_completion(struct rdi_ublk_queue *q, uint64_t what, int res)
{
	if (what == WATCH_WAKE) {
		queue_woken(q);
	} else if (what == WATCH_CHAN) {
		if (q->chan)
			queue_watch(q, rdinit_dev_chan_fd(q->chan), WATCH_CHAN);
	} else if (res == UBLK_IO_RES_OK) {
		tag_request(&q->tags[what]);
	} else {
		q->held--; /* the kernel ends the device */
	}
}

static void queue_reap(struct rdi_ublk_queue *q)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;

	io_uring_for_each_cqe(&q->ring, head, cqe)
	{
		queue_completion(q, cqe->user_data, cqe->res);
		n++;
	}
	io_uring_cq_advance(&q->ring, n);
}

static void *queue_main(void *arg)
{
	struct rdi_ublk_queue *q = arg;
	struct rdi_attach *a = q->o.a;
	uint16_t i;
	int rc = 0;

	pthread_setname_np(pthread_self(), "queue");
	for (i = 0; i < q->o.depth; i++)
		tag_give(&q->tags[i], UBLK_U_IO_FETCH_REQ, 0);
	q->held = q->o.depth;
	queue_watch(q, q->wake, WATCH_WAKE);
	queue_watch(q, rdinit_dev_chan_fd(q->chan), WATCH_CHAN);
	while (q->held) {
		rc = io_uring_submit_and_wait(&q->ring, 1);
		if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY)
			break;
		queue_reap(q);
		if (q->chan)
			rdinit_dev_chan_process(q->chan, 0);
	}
	if (q->held)
		rdi_attach_say(a, "%s: queue %u ends: io_uring: %s", a->info.name, q->o.index,
			       strerror(-rc));
	atomic_fetch_sub(&a->threads, 1);
	rdi_attach_wake(a);
	return NULL;
}

int rdi_ublk_queue_start(struct rdi_ublk_queue *q)
{
	pthread_attr_t attr;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	atomic_fetch_add(&q->o.a->threads, 1);
	rc = pthread_create(&q->thread, &attr, queue_main, q);
	pthread_attr_destroy(&attr);
	if (rc) {
		atomic_fetch_sub(&q->o.a->threads, 1);
		snprintf(q->o.a->why, sizeof(q->o.a->why), "cannot start a thread: %s",
			 strerror(rc));
		return -rc;
	}
	q->started = true;
	return 0;
}

void rdi_ublk_queue_abort(struct rdi_ublk_queue *q)
{
	const uint64_t one = 1;

	atomic_store(&q->abort, true);
	if (write(q->wake, &one, sizeof(one)) < 0)
		return; /* it is readable already */
}

/* ---- life ---- */

static int queue_map(struct rdi_ublk_queue *q)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p;

	q->desc_len = (q->o.depth * sizeof(*q->desc) + page - 1) / page * page;
	p = mmap(NULL, q->desc_len, PROT_READ, MAP_SHARED | MAP_POPULATE, q->o.fd,
		 UBLKSRV_CMD_BUF_OFFSET +
			 (off_t)q->o.index *
				 (off_t)(UBLK_MAX_QUEUE_DEPTH * sizeof(struct ublksrv_io_desc)));
	if (p == MAP_FAILED)
		return -errno;
	q->desc = p;
	q->mem_len = (size_t)q->o.depth * q->o.io_bytes;
	p = mmap(NULL, q->mem_len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	q->mem = p;
	return 0;
}

static int queue_channel(struct rdi_ublk_queue *q)
{
	struct rdi_attach *a = q->o.a;
	int rc = rdinit_dev_chan_create(a->dev, &q->chan);

	if (!rc)
		rc = rdinit_dev_mem_register(q->chan, q->mem, q->mem_len);
	if (rc)
		snprintf(a->why, sizeof(a->why), "%s", rdinit_get_error());
	return rc;
}

static int queue_make(struct rdi_ublk_queue *q)
{
	struct rdi_attach *a = q->o.a;
	int rc = 0;
	uint16_t i;

	q->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	q->tags = calloc(q->o.depth, sizeof(*q->tags));
	if (q->wake < 0 || !q->tags)
		rc = q->wake < 0 ? -errno : -ENOMEM;
	if (!rc)
		rc = queue_map(q);
	if (!rc)
		rc = io_uring_queue_init(q->o.depth + 4u, &q->ring, IORING_SETUP_COOP_TASKRUN);
	if (rc) {
		snprintf(a->why, sizeof(a->why), "cannot make queue %u of the device: %s",
			 q->o.index, strerror(-rc));
		return rc;
	}
	q->has_ring = true;
	for (i = 0; i < q->o.depth; i++) {
		q->tags[i].q = q;
		q->tags[i].tag = i;
	}
	return queue_channel(q);
}

int rdi_ublk_queue_create(const struct rdi_ublk_queue_opts *opts, struct rdi_ublk_queue **out)
{
	struct rdi_ublk_queue *q = calloc(1, sizeof(*q));
	int rc;

	*out = NULL;
	if (!q)
		return -ENOMEM;
	q->o = *opts;
	q->wake = -1;
	rc = queue_make(q);
	if (rc) {
		rdi_ublk_queue_free(q);
		return rc;
	}
	*out = q;
	return 0;
}

void rdi_ublk_queue_free(struct rdi_ublk_queue *q)
{
	if (!q)
		return;
	if (q->started)
		pthread_join(q->thread, NULL);
	rdinit_dev_chan_free(&q->chan);
	if (q->has_ring)
		io_uring_queue_exit(&q->ring);
	if (q->mem)
		munmap(q->mem, q->mem_len);
	if (q->desc)
		munmap((void *)(uintptr_t)q->desc, q->desc_len);
	if (q->wake >= 0)
		close(q->wake);
	free(q->tags);
	free(q);
}
