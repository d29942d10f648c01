/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An NBD server for one connection whose client knows the export already: the transmission phase of
 * the protocol with simple replies (https://github.com/NetworkBlockDevice/nbd, doc/proto.md). It is
 * a thread with a channel.
 */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "nbd.h"

#define REQUEST_MAGIC 0x25609513u
#define REPLY_MAGIC   0x67446698u
#define REQUEST_SIZE  28
#define REPLY_SIZE    16
#define DATA_MAX      (32u << 20) /* of a request; the kernel's client has this limit too */

enum nbd_flag {
	FLAG_HAS_FLAGS = 1 << 0,
	FLAG_READ_ONLY = 1 << 1,
	FLAG_SEND_FLUSH = 1 << 2,
	FLAG_SEND_FUA = 1 << 3,
	FLAG_SEND_TRIM = 1 << 5,
	FLAG_SEND_WRITE_ZEROES = 1 << 6,
	FLAG_CAN_MULTI_CONN = 1 << 8,
};

enum nbd_command {
	COMMAND_READ = 0,
	COMMAND_WRITE = 1,
	COMMAND_DISCONNECT = 2,
	COMMAND_FLUSH = 3,
	COMMAND_TRIM = 4,
	COMMAND_WRITE_ZEROES = 6,
};

#define COMMAND_FUA     0x1u
#define COMMAND_NO_HOLE 0x2u

/* Error numbers of the protocol. */
enum nbd_error {
	ERROR_PERM = 1,
	ERROR_IO = 5,
	ERROR_NOMEM = 12,
	ERROR_INVAL = 22,
	ERROR_NOSPC = 28,
	ERROR_NOTSUP = 95,
};

struct nbd_wire_request {
	uint32_t magic;
	uint16_t flags;
	uint16_t type;
	uint64_t cookie;
	uint64_t offset;
	uint32_t length;
} __attribute__((packed));

struct nbd_wire_reply {
	uint32_t magic;
	uint32_t error;
	uint64_t cookie;
} __attribute__((packed));

struct nbd_tag {
	struct rdi_attach_io io;
	struct rdi_nbd_server *s;
	struct nbd_tag *next; /* among those that are free, or those that wait to be sent */
	unsigned char *own;   /* its part of the registered area, RDI_ATTACH_IO_MAX bytes */
	unsigned char *buf;   /* own, or memory for one large request */
	struct nbd_wire_reply reply;
	uint16_t type;
	uint32_t length;
};

struct rdi_nbd_server {
	struct rdi_attach_queue q;
	int fd;
	atomic_bool stop;
	bool done;                                   /* the connection has ended */
	struct nbd_tag *tags, *free, *first, **last; /* first to last: answers to send */
	size_t sent;                                 /* bytes of the first answer */
	/* The request that is being received. */
	unsigned char head[REQUEST_SIZE];
	size_t got;
	struct nbd_tag *in; /* a Write whose data is being received */
	size_t in_got;
	int in_rc; /* it will be refused with this error */
};

uint16_t rdi_nbd_flags(const struct rdi_attach_limits *limits, bool read_only)
{
	/* A Flush is for the namespace, so one on any connection is for all of them. */
	return (uint16_t)(FLAG_HAS_FLAGS | FLAG_SEND_FLUSH | FLAG_SEND_FUA | FLAG_CAN_MULTI_CONN |
			  (read_only ? FLAG_READ_ONLY : 0) |
			  (limits->max_deallocate ? FLAG_SEND_TRIM : 0) |
			  (limits->max_zeroes ? FLAG_SEND_WRITE_ZEROES : 0));
}

/* ---- answers ---- */

static uint32_t nbd_error_of(int err)
{
	switch (err) {
	case 0:
		return 0;
	case -EPERM:
		return ERROR_PERM;
	case -EINVAL:
		return ERROR_INVAL;
	case -ENOMEM:
		return ERROR_NOMEM;
	case -ENOSPC:
		return ERROR_NOSPC;
	case -EOPNOTSUPP:
		return ERROR_NOTSUP;
	default:
		return ERROR_IO;
	}
}

static void nbd_answer(struct rdi_attach_io *io, int err)
{
	struct nbd_tag *t = (struct nbd_tag *)io;
	struct rdi_nbd_server *s = t->s;

	t->reply.magic = htobe32(REPLY_MAGIC);
	t->reply.error = htobe32(nbd_error_of(err));
	if (err || t->type != COMMAND_READ)
		t->length = 0;
	t->next = NULL;
	*s->last = t;
	s->last = &t->next;
}

static void nbd_release(struct nbd_tag *t)
{
	if (t->buf != t->own)
		free(t->buf);
	t->buf = NULL;
	t->next = t->s->free;
	t->s->free = t;
}

/* Sends what the socket takes. */
static void nbd_send(struct rdi_nbd_server *s)
{
	while (s->first && !s->done) {
		struct nbd_tag *t = s->first;
		size_t head = s->sent < REPLY_SIZE ? REPLY_SIZE - s->sent : 0;
		size_t data = s->sent < REPLY_SIZE ? 0 : s->sent - REPLY_SIZE;
		struct iovec iov[2] = {
			{(unsigned char *)&t->reply + s->sent, head},
			{t->buf ? t->buf + data : NULL, t->length - data},
		};
		struct msghdr msg = {.msg_iov = iov + (head == 0), .msg_iovlen = head ? 2 : 1};
		ssize_t n;

		n = sendmsg(s->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0) {
			s->done = errno != EAGAIN && errno != EINTR;
			return;
		}
		s->sent += (size_t)n;
		if (s->sent < REPLY_SIZE + t->length)
			continue;
		s->sent = 0;
		s->first = t->next;
		if (!s->first)
			s->last = &s->first;
		nbd_release(t);
	}
}

/* ---- requests ---- */

/* Fills the tag's command. Returns 0, or the error to answer with. */
static int nbd_command(struct nbd_tag *t, const struct nbd_wire_request *r)
{
	const struct rdi_nbd_server *s = t->s;
	const struct rdi_attach_limits *l = &s->q.a->limits;
	uint64_t at = be64toh(r->offset);
	uint16_t flags = be16toh(r->flags);

	t->io = (struct rdi_attach_io){.done = nbd_answer,
				       .lba = at / l->block_size,
				       .left = t->length / l->block_size,
				       .flags = flags & COMMAND_FUA ? RDINIT_IO_FUA : 0,
				       .buf = t->buf};
	switch (t->type) {
	case COMMAND_READ:
		t->io.op = RDINIT_DEV_READ;
		t->io.flags = 0;
		break;
	case COMMAND_WRITE:
		t->io.op = RDINIT_DEV_WRITE;
		break;
	case COMMAND_FLUSH:
		t->io.op = RDINIT_DEV_FLUSH;
		t->io.flags = 0;
		return 0;
	case COMMAND_TRIM:
		t->io.op = RDINIT_DEV_DEALLOCATE;
		t->io.flags = 0;
		break;
	case COMMAND_WRITE_ZEROES:
		t->io.op = RDINIT_DEV_WRITE_ZEROES;
		if (!(flags & COMMAND_NO_HOLE))
			t->io.flags |= RDINIT_DEV_IO_DEALLOCATE;
		break;
	default:
		return -EINVAL;
	}
	if (t->io.op != RDINIT_DEV_READ && s->q.a->info.read_only)
		return -EPERM;
	return at % l->block_size || t->length % l->block_size || !t->length ? -EINVAL : 0;
}

static void nbd_execute(struct nbd_tag *t, int rc)
{
	struct rdi_nbd_server *s = t->s;

	if (!rc && !s->q.chan)
		rc = -EIO;
	if (!rc)
		rc = rdi_attach_io_start(&t->io, s->q.chan, &s->q.a->limits);
	if (rc)
		nbd_answer(&t->io, rc);
}

/* A request's header is complete. Without memory its data could not be received. */
static void nbd_request(struct rdi_nbd_server *s)
{
	struct nbd_wire_request r;
	struct nbd_tag *t = s->free;
	bool data;
	int rc;

	memcpy(&r, s->head, sizeof(r));
	s->got = 0;
	data = be16toh(r.type) == COMMAND_READ || be16toh(r.type) == COMMAND_WRITE;
	if (be32toh(r.magic) != REQUEST_MAGIC || be16toh(r.type) == COMMAND_DISCONNECT ||
	    (data && be32toh(r.length) > DATA_MAX)) {
		s->done = true;
		return;
	}
	s->free = t->next;
	t->type = be16toh(r.type);
	t->length = be32toh(r.length);
	t->reply.cookie = r.cookie;
	t->buf = NULL;
	if (data)
		t->buf = t->length <= RDI_ATTACH_IO_MAX ? t->own : malloc(t->length);
	if (data && !t->buf) {
		s->done = true;
		return;
	}
	rc = nbd_command(t, &r);
	if (t->type == COMMAND_WRITE && t->length) {
		s->in = t;
		s->in_got = 0;
		s->in_rc = rc;
	} else {
		nbd_execute(t, rc);
	}
}

/* Receives while there are tags. */
static void nbd_receive(struct rdi_nbd_server *s)
{
	while (!s->done && (s->in || s->free)) {
		struct nbd_tag *t = s->in;
		unsigned char *to = t ? t->buf + s->in_got : s->head + s->got;
		size_t want = t ? t->length - s->in_got : REQUEST_SIZE - s->got;
		ssize_t n = recv(s->fd, to, want, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			s->done = n == 0 || errno != EAGAIN;
			return;
		}
		if (!t) {
			s->got += (size_t)n;
			if (s->got == REQUEST_SIZE)
				nbd_request(s);
			continue;
		}
		s->in_got += (size_t)n;
		if (s->in_got == t->length) {
			s->in = NULL;
			nbd_execute(t, s->in_rc);
		}
	}
}

/* ---- the thread ---- */

static void *nbd_main(void *arg)
{
	struct rdi_nbd_server *s = arg;

	pthread_setname_np(pthread_self(), "queue");
	while (!s->done) {
		struct pollfd fds[] = {
			{.fd = s->q.wake, .events = POLLIN},
			{.fd = s->fd,
			 .events = (short)((s->in || s->free ? POLLIN : 0) |
					   (s->first ? POLLOUT : 0))},
			{.fd = s->q.chan ? rdinit_dev_chan_fd(s->q.chan) : -1, .events = POLLIN},
		};

		if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
			continue;
		if (fds[0].revents)
			rdi_attach_queue_woken(&s->q);
		s->done |= atomic_load(&s->stop);
		if (fds[1].revents & (POLLIN | POLLHUP | POLLERR))
			nbd_receive(s);
		if (s->q.chan)
			rdinit_dev_chan_process(s->q.chan, 0);
		nbd_send(s);
	}
	/* The client learns that nobody answers; what is in flight ends with the channel. */
	shutdown(s->fd, SHUT_RDWR);
	rdi_attach_queue_ended(&s->q);
	return NULL;
}

int rdi_nbd_server_start(struct rdi_nbd_server *s)
{
	return rdi_attach_queue_start(&s->q, nbd_main, s);
}

void rdi_nbd_server_abort(struct rdi_nbd_server *s)
{
	rdi_attach_queue_wake(&s->q, &s->q.abort);
}

/* ---- life ---- */

int rdi_nbd_server_create(struct rdi_attach *a, int fd, struct rdi_nbd_server **out)
{
	struct rdi_nbd_server *s = calloc(1, sizeof(*s));
	uint16_t i, depth = a->opts.depth;
	int rc;

	*out = NULL;
	if (!s) {
		close(fd);
		return rdi_attach_why(a->why, -ENOMEM, "no memory for a connection");
	}
	s->fd = fd;
	s->last = &s->first;
	rc = rdi_attach_queue_open(&s->q, a, (size_t)depth * RDI_ATTACH_IO_MAX, "a connection");
	s->tags = calloc(depth, sizeof(*s->tags));
	if (!rc && !s->tags)
		rc = rdi_attach_why(a->why, -ENOMEM, "no memory for a connection");
	if (rc) {
		rdi_nbd_server_free(s);
		return rc;
	}
	for (i = 0; i < depth; i++) {
		s->tags[i] = (struct nbd_tag){
			.s = s, .next = s->free, .own = s->q.mem + (size_t)i * RDI_ATTACH_IO_MAX};
		s->free = &s->tags[i];
	}
	*out = s;
	return 0;
}

void rdi_nbd_server_free(struct rdi_nbd_server *s)
{
	uint16_t i;

	if (!s)
		return;
	rdi_attach_queue_wake(&s->q, &s->stop);
	rdi_attach_queue_join(&s->q);
	for (i = 0; s->tags && i < s->q.a->opts.depth; i++) {
		if (s->tags[i].buf != s->tags[i].own)
			free(s->tags[i].buf);
	}
	rdi_attach_queue_close(&s->q);
	close(s->fd);
	free(s->tags);
	free(s);
}
