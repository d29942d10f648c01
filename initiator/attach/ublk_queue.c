/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue of a ublk device: a thread with an io_uring for the kernel's requests and a channel for
 * the namespace. It sleeps in the io_uring only, which also watches the channel's descriptor.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ublk.h"

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
	struct rdi_attach_queue base;
	struct rdi_ublk_queue_opts o;
	struct io_uring ring;
	bool has_ring;
	const struct ublksrv_io_desc *desc;
	size_t desc_len;
	struct ublk_tag *tags;
	unsigned int held; /* tags that the kernel or the channel has */
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
	return t->q->base.mem + (size_t)t->tag * t->q->o.io_bytes;
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
	int rc = t->q->base.chan ? tag_take(t) : -EIO;

	if (!rc)
		rc = rdi_attach_io_start(&t->io, t->q->base.chan, &t->q->o.a->limits);
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

static void queue_completion(struct rdi_ublk_queue *q, uint64_t what, int res)
{
	if (what == WATCH_WAKE) {
		rdi_attach_queue_woken(&q->base);
		queue_watch(q, q->base.wake, WATCH_WAKE);
	} else if (what == WATCH_CHAN) {
		if (q->base.chan)
			queue_watch(q, rdinit_dev_chan_fd(q->base.chan), WATCH_CHAN);
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
	queue_watch(q, q->base.wake, WATCH_WAKE);
	queue_watch(q, rdinit_dev_chan_fd(q->base.chan), WATCH_CHAN);
	while (q->held) {
		rc = io_uring_submit_and_wait(&q->ring, 1);
		if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY)
			break;
		queue_reap(q);
		if (q->base.chan)
			rdinit_dev_chan_process(q->base.chan, 0);
	}
	if (q->held)
		rdi_attach_say(a, "%s: queue %u ends: io_uring: %s", a->info.name, q->o.index,
			       strerror(-rc));
	rdi_attach_queue_ended(&q->base);
	return NULL;
}

int rdi_ublk_queue_start(struct rdi_ublk_queue *q)
{
	return rdi_attach_queue_start(&q->base, queue_main, q);
}

void rdi_ublk_queue_abort(struct rdi_ublk_queue *q)
{
	rdi_attach_queue_wake(&q->base, &q->base.abort);
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
	return 0;
}

static int queue_make(struct rdi_ublk_queue *q)
{
	struct rdi_attach *a = q->o.a;
	char name[32];
	uint16_t i;
	int rc;

	snprintf(name, sizeof(name), "queue %u of the device", q->o.index);
	rc = rdi_attach_queue_open(&q->base, a, (size_t)q->o.depth * q->o.io_bytes, name);
	if (rc)
		return rc;
	q->tags = calloc(q->o.depth, sizeof(*q->tags));
	rc = q->tags ? queue_map(q) : -ENOMEM;
	if (!rc)
		rc = io_uring_queue_init(q->o.depth + 4u, &q->ring, IORING_SETUP_COOP_TASKRUN);
	if (rc)
		return rdi_attach_why(a->why, rc, "cannot make %s: %s", name, strerror(-rc));
	q->has_ring = true;
	for (i = 0; i < q->o.depth; i++) {
		q->tags[i].q = q;
		q->tags[i].tag = i;
	}
	return 0;
}

int rdi_ublk_queue_create(const struct rdi_ublk_queue_opts *opts, struct rdi_ublk_queue **out)
{
	struct rdi_ublk_queue *q = calloc(1, sizeof(*q));
	int rc;

	*out = NULL;
	if (!q)
		return -ENOMEM;
	q->o = *opts;
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
	rdi_attach_queue_join(&q->base);
	if (q->has_ring)
		io_uring_queue_exit(&q->ring);
	if (q->desc)
		munmap((void *)(uintptr_t)q->desc, q->desc_len);
	rdi_attach_queue_close(&q->base);
	free(q->tags);
	free(q);
}
