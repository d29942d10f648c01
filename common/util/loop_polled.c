/* SPDX-License-Identifier: BSD-3-Clause */
/* The policy of a loop that does not sleep: which descriptors are read without epoll_wait(2). */
#include "util/loop_internal.h"

/*
 * Busy descriptors are read without epoll_wait(2): at most BUSY_MAX, epoll is asked about the
 * others every BUSY_TURNS iterations, and after BUSY_TRIES reads without data a descriptor is not
 * busy any more. With more busy descriptors one epoll_wait(2) for all is cheaper: then there are
 * none for CROWDED iterations.
 */
#define BUSY_MAX   2
#define BUSY_TURNS 8
#define BUSY_TRIES 512
#define CROWDED    1024
/*
 * Where pollers find the work (completion queues of RDMA devices), epoll is asked every BUSY_TURNS
 * iterations too, once it had no event QUIET_ASKS times in a row, until it has one again.
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
