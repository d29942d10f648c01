/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams: standard input and output, FIFOs, character devices. One worker, one operation at a
 * time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copy.h"

#define PIPE_IO (1u << 20)

struct cp_pipe {
	struct cli_cp_worked base;
	int fd;
	uint64_t left; /* bytes until reading finds the end */
};

/* Waits in poll(2): another program that shares the file description may have made it
 * non-blocking. */
static void cp_pipe_wait(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	poll(&p, 1, -1);
}

/* A system call that may block. Returns its result, or -errno. */
static ssize_t cp_pipe_io(const struct cp_pipe *p, const struct cli_cp_op *op, unsigned char *buf,
			  size_t len)
{
	bool in = op->kind == CLI_CP_READ;
	ssize_t n;

	cli_cp_workers_may_cancel(true);
	do {
		if (in)
			n = read(p->fd, buf, len);
		else if (op->kind == CLI_CP_WRITE)
			n = write(p->fd, buf, len);
		else
			n = write(p->fd, cli_cp_zeroes,
				  len < sizeof(cli_cp_zeroes) ? len : sizeof(cli_cp_zeroes));
		if (n < 0 && errno == EAGAIN) {
			cp_pipe_wait(p->fd, in ? POLLIN : POLLOUT);
			errno = EINTR;
		}
	} while (n < 0 && errno == EINTR);
	n = n < 0 ? -errno : n;
	cli_cp_workers_may_cancel(false);
	return n;
}

static void cp_pipe_work(void *arg, struct cli_cp_op *op)
{
	struct cp_pipe *p = arg;
	uint64_t done = 0, len = op->len;
	ssize_t n;

	op->err = 0;
	if (op->kind == CLI_CP_FLUSH) {
		/* Pipes and terminals have nothing to commit, and return EINVAL. */
		if (fsync(p->fd) && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
			op->err = -errno;
		return;
	}
	if (op->kind == CLI_CP_READ && len > p->left)
		len = p->left;
	while (done < len) {
		unsigned char *buf = op->buf ? (unsigned char *)op->buf + done : NULL;

		n = cp_pipe_io(p, op, buf, (size_t)(len - done));
		if (n <= 0) {
			op->err = n < 0 ? (int)n : op->kind == CLI_CP_READ ? 0 : -EIO;
			break;
		}
		done += (uint64_t)n;
	}
	op->got = done;
	p->left -= op->kind == CLI_CP_READ ? done : 0;
}

static void cp_pipe_close(struct cli_cp_end *end)
{
	struct cp_pipe *p = (struct cp_pipe *)end;

	cli_cp_workers_stop(p->base.workers, true);
	if (p->fd > STDERR_FILENO)
		close(p->fd);
	free(p);
}

static const struct cli_cp_end_ops pipe_ops = {
	.submit = cli_cp_workers_submit,
	.process = cli_cp_workers_process,
	.fds = cli_cp_workers_fds,
	.close = cp_pipe_close,
};

int cli_cp_pipe_open(const char *name, int fd, uint64_t limit, struct cli_cp_end **out)
{
	struct cp_pipe *p = calloc(1, sizeof(*p));
	int rc = -ENOMEM;

	if (p) {
		p->fd = fd;
		p->left = limit;
		p->base.end = (struct cli_cp_end){
			.ops = &pipe_ops,
			.name = name,
			.size = CLI_CP_UNKNOWN,
			.align = 1,
			.max_io = PIPE_IO,
			.max_zero = 64u << 20,
			.sequential = true,
		};
		rc = cli_cp_workers_start(1, cp_pipe_work, p, &p->base.workers);
	}
	if (rc) {
		if (fd > STDERR_FILENO)
			close(fd);
		free(p);
		return cli_error("%s: no thread can be started: %s", name, strerror(-rc));
	}
	*out = &p->base.end;
	return CLI_OK;
}
