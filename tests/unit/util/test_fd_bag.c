/* SPDX-License-Identifier: BSD-3-Clause */
#include "suites.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/fd_bag.h"

#define MANY (2 * RD_FD_BAG_BATCH + 3)

static int new_pipe_end(ino_t *ino)
{
	int fds[2];
	struct stat st;

	CU_ASSERT_EQUAL_FATAL(pipe2(fds, O_CLOEXEC), 0);
	CU_ASSERT_EQUAL_FATAL(fstat(fds[1], &st), 0);
	close(fds[0]);
	*ino = st.st_ino;
	return fds[1];
}

static void gives_each_once(void)
{
	struct rd_fd_bag bag T_ENDS(rd_fd_bag_clear);
	ino_t ino;
	int fd = new_pipe_end(&ino), other;

	rd_fd_bag_init(&bag, 2);
	CU_ASSERT_EQUAL(rd_fd_bag_take(&bag, 0), -ENOENT);
	CU_ASSERT_EQUAL(rd_fd_bag_add(&bag, fd), 0);
	CU_ASSERT_EQUAL(rd_fd_bag_add_dup(&bag, fd), 1);
	CU_ASSERT_EQUAL(rd_fd_bag_take(&bag, 0), fd);
	CU_ASSERT_EQUAL(rd_fd_bag_take(&bag, 0), -ENOENT);
	CU_ASSERT_EQUAL(rd_fd_bag_take(&bag, -1), -ENOENT);
	CU_ASSERT_EQUAL(rd_fd_bag_take(&bag, 1LL << 40), -ENOENT);
	/* It is full, and closes what it cannot take. */
	other = new_pipe_end(&ino);
	CU_ASSERT_EQUAL(rd_fd_bag_add(&bag, other), -ENFILE);
	CU_ASSERT_EQUAL(fcntl(other, F_GETFD), -1);
	CU_ASSERT_EQUAL(rd_fd_bag_add(&bag, -1), -EBADF);
	close(fd);
}

static void clearing_closes_the_rest(void)
{
	struct rd_fd_bag bag;
	ino_t ino;
	int kept = new_pipe_end(&ino), closed = new_pipe_end(&ino);

	rd_fd_bag_init(&bag, 8);
	CU_ASSERT_EQUAL(rd_fd_bag_add(&bag, kept), 0);
	CU_ASSERT_EQUAL(rd_fd_bag_add(&bag, closed), 1);
	CU_ASSERT_EQUAL(rd_fd_bag_take(&bag, 0), kept);
	rd_fd_bag_clear(&bag);
	CU_ASSERT_EQUAL(fcntl(closed, F_GETFD), -1);
	CU_ASSERT_EQUAL(fcntl(kept, F_GETFD), FD_CLOEXEC);
	close(kept);
}

/* In several messages, with the same numbers on the other side. */
static void passes_many_through_a_socket(void)
{
	struct rd_fd_bag out T_ENDS(rd_fd_bag_clear), in T_ENDS(rd_fd_bag_clear);
	ino_t inos[MANY];
	char text[16];
	int socks[2];

	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks), 0);
	rd_fd_bag_init(&out, MANY);
	rd_fd_bag_init(&in, MANY);
	CU_ASSERT_EQUAL(rd_fd_bag_receive(&in, socks[1], text, sizeof(text)), -EAGAIN);
	for (unsigned int i = 0; i < MANY; i++)
		CU_ASSERT_EQUAL(rd_fd_bag_add(&out, new_pipe_end(&inos[i])), (int)i);
	CU_ASSERT_EQUAL(rd_fd_bag_send(&out, socks[0], "ab", 2), RD_FD_BAG_BATCH);
	CU_ASSERT_EQUAL(rd_fd_bag_send(&out, socks[0], "c", 1), RD_FD_BAG_BATCH);
	CU_ASSERT_EQUAL(rd_fd_bag_send(&out, socks[0], "d", 1), 3);
	CU_ASSERT_EQUAL(rd_fd_bag_send(&out, socks[0], "e", 1), 0);
	CU_ASSERT_EQUAL(rd_fd_bag_receive(&in, socks[1], text, sizeof(text)), 2);
	CU_ASSERT_EQUAL(memcmp(text, "ab", 2), 0);
	for (unsigned int i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(rd_fd_bag_receive(&in, socks[1], text, sizeof(text)), 1);
	close(socks[0]);
	CU_ASSERT_EQUAL(rd_fd_bag_receive(&in, socks[1], text, sizeof(text)), 0);
	CU_ASSERT_EQUAL(in.count, MANY);
	for (unsigned int i = 0; i < in.count; i++) {
		struct stat st;

		CU_ASSERT_EQUAL(fstat(in.fds[i], &st), 0);
		CU_ASSERT_EQUAL(st.st_ino, inos[i]);
		CU_ASSERT_EQUAL(fcntl(in.fds[i], F_GETFD), FD_CLOEXEC);
	}
	close(socks[1]);
}

/* A peer that sends more than agreed leaves no descriptor open here. */
static void refuses_more_than_it_takes(void)
{
	struct rd_fd_bag out T_ENDS(rd_fd_bag_clear), in T_ENDS(rd_fd_bag_clear);
	char text[4];
	int socks[2], next, now;
	ino_t ino;

	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks), 0);
	rd_fd_bag_init(&out, 3);
	rd_fd_bag_init(&in, 2);
	for (unsigned int i = 0; i < 3; i++)
		rd_fd_bag_add(&out, new_pipe_end(&ino));
	next = dup(socks[0]);
	close(next);
	CU_ASSERT_EQUAL(rd_fd_bag_send(&out, socks[0], "a", 1), 3);
	CU_ASSERT_EQUAL(rd_fd_bag_receive(&in, socks[1], text, sizeof(text)), -ENFILE);
	rd_fd_bag_clear(&in);
	now = dup(socks[0]);
	CU_ASSERT_EQUAL(now, next);
	close(now);
	CU_ASSERT_EQUAL(rd_fd_bag_send(&out, socks[0], "longer", 6), 0);
	CU_ASSERT_EQUAL(rd_fd_bag_receive(&in, socks[1], text, sizeof(text)), -EMSGSIZE);
	close(socks[0]);
	close(socks[1]);
}

const struct t_case t_fd_bag_cases[] = {
	{"gives each descriptor once", gives_each_once},
	{"clearing closes the rest", clearing_closes_the_rest},
	{"passes many through a socket", passes_many_through_a_socket},
	{"refuses more than it takes", refuses_more_than_it_takes},
	{NULL, NULL},
};
