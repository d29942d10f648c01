/* SPDX-License-Identifier: BSD-3-Clause */
#include "fd_bag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define FIRST_ROOM 64u

union fd_control {
	struct cmsghdr head; /* aligns it */
	char space[CMSG_SPACE(RD_FD_BAG_BATCH * sizeof(int))];
};

void rd_fd_bag_init(struct rd_fd_bag *bag, unsigned int max)
{
	*bag = (struct rd_fd_bag){.max = max};
}

void rd_fd_bag_clear(struct rd_fd_bag *bag)
{
	for (unsigned int i = 0; i < bag->count; i++)
		if (bag->fds[i] >= 0)
			close(bag->fds[i]);
	free(bag->fds);
	*bag = (struct rd_fd_bag){.max = bag->max};
}

static int bag_grow(struct rd_fd_bag *bag)
{
	unsigned int room = bag->room ? 2 * bag->room : FIRST_ROOM;
	int *fds;

	if (bag->count < bag->room)
		return 0;
	fds = reallocarray(bag->fds, room, sizeof(*fds));
	if (!fds)
		return -ENOMEM;
	bag->fds = fds;
	bag->room = room;
	return 0;
}

int rd_fd_bag_add(struct rd_fd_bag *bag, int fd)
{
	int err = bag->count < bag->max ? 0 : -ENFILE;

	if (fd < 0)
		return -EBADF;
	if (!err)
		err = bag_grow(bag);
	if (err) {
		close(fd);
		return err;
	}
	bag->fds[bag->count] = fd;
	return (int)bag->count++;
}

int rd_fd_bag_add_dup(struct rd_fd_bag *bag, int fd)
{
	int dup = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	return dup < 0 ? -errno : rd_fd_bag_add(bag, dup);
}

int rd_fd_bag_take(struct rd_fd_bag *bag, long long i)
{
	int fd;

	if (i < 0 || i >= (long long)bag->count || bag->fds[i] < 0)
		return -ENOENT;
	fd = bag->fds[i];
	bag->fds[i] = -1;
	return fd;
}

int rd_fd_bag_send(struct rd_fd_bag *bag, int sock, const void *text, size_t len)
{
	unsigned int left = bag->count - bag->sent;
	unsigned int n = left < RD_FD_BAG_BATCH ? left : RD_FD_BAG_BATCH;
	struct iovec iov = {(void *)text, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	union fd_control control = {0};

	if (n) {
		msg.msg_control = control.space;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&control.head), bag->fds + bag->sent, n * sizeof(int));
	}
	while (sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		if (errno != EINTR)
			return -errno;
	bag->sent += n;
	return (int)n;
}

/* Adds all descriptors of the message, or closes those that find no place. */
static int bag_add_received(struct rd_fd_bag *bag, struct msghdr *msg)
{
	int err = msg->msg_flags & MSG_CTRUNC ? -ENFILE : 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd, added;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			added = rd_fd_bag_add(bag, fd);
			if (added < 0)
				err = added;
		}
	}
	return err;
}

long rd_fd_bag_receive(struct rd_fd_bag *bag, int sock, void *text, size_t size)
{
	union fd_control control;
	struct iovec iov = {text, size};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.space,
			     .msg_controllen = sizeof(control)};
	ssize_t n;
	int err;

	do
		n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	err = bag_add_received(bag, &msg);
	if (err)
		return err;
	return msg.msg_flags & MSG_TRUNC ? -EMSGSIZE : n;
}
