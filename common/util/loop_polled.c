/* SPDX-License-Identifier: BSD-3-Clause */
/* The policy of a loop that does not sleep: which descriptors are read without asking epoll(7). */
#include "util/loop_internal.h"

/*
 * Descriptors that are tried without asking epoll: so many, for so many turns until epoll is asked
 * about the others, and so often in vain until they are no longer busy. When more are busy than
 * that, one epoll_wait(2) for all of them is the cheaper way, for so many turns.
 */
#define BUSY_MAX   2
#define BUSY_TURNS 8
#define BUSY_TRIES 512
#define CROWDED    1024
/*
 * Where pollers find the work, as completion queues of RDMA devices do, epoll is asked as rarely,
 * once it had nothing so many times in a row, until it has something again.
 */
#define QUIET_ASKS 64

void rd_loop_unpoll_io(struct rd_loop *loop, struct rd_io *io)
{
	if (!io->busy)
		return;
	io->busy = false;
	if (loop->busy_next == io)
		loop->busy_next = TAILQ_NEXT(io, link);
	TAILQ_REMOVE(&loop->busy, io, link);
	loop->busy_count--;
}

void rd_loop_poll_io(struct rd_loop *loop, struct rd_io *io)
{
	io->tries = 0;
	if (io->busy || loop->crowded)
		return;
	if (loop->busy_count < BUSY_MAX) {
		io->busy = true;
		TAILQ_INSERT_TAIL(&loop->busy, io, link);
		loop->busy_count++;
		return;
	}
	while ((io = TAILQ_FIRST(&loop->busy)))
		rd_loop_unpoll_io(loop, io);
	loop->crowded = CROWDED;
}

int rd_loop_run_polled(struct rd_loop *loop)
{
	struct rd_io *io;
	int count = 0, defers = 0;

	for (io = TAILQ_FIRST(&loop->busy); io; io = loop->busy_next) {
		loop->busy_next = TAILQ_NEXT(io, link);
		if (++io->tries > BUSY_TRIES) {
			rd_loop_unpoll_io(loop, io);
		} else if (io->try_read(io)) {
			io->tries = 0;
			defers += rd_loop_finish_callback(loop, ++count);
		}
	}
	loop->busy_next = NULL;
	return count + defers;
}

bool rd_loop_skip_epoll(struct rd_loop *loop)
{
	bool busy = loop->busy_count || (loop->polled && loop->quiet == QUIET_ASKS);

	if (loop->crowded)
		loop->crowded--;
	if (!busy || ++loop->busy_turns >= BUSY_TURNS) {
		loop->busy_turns = 0;
		return false;
	}
	return true;
}

void rd_loop_note_epoll(struct rd_loop *loop, int n)
{
	if (n != 0)
		loop->quiet = 0;
	else if (loop->quiet < QUIET_ASKS)
		loop->quiet++;
}

void rd_loop_note_pollers(struct rd_loop *loop, bool found)
{
	if (found)
		loop->polled = BUSY_TRIES;
	else if (loop->polled)
		loop->polled--;
}
