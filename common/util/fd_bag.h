/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bag of descriptors, which records name by number, and its way through a Unix socket to another
 * process. The numbers are the same on both sides. One thread.
 */
#ifndef RD_UTIL_FD_BAG_H
#define RD_UTIL_FD_BAG_H

#include <stdbool.h>
#include <stddef.h>

/* The kernel passes at most 253 descriptors in a message (SCM_MAX_FD). */
#define RD_FD_BAG_BATCH 250u

struct rd_fd_bag {
	int *fds; /* -1: it was given away */
	unsigned int count, room;
	unsigned int max; /* it takes no more */
	unsigned int sent;
};

void rd_fd_bag_init(struct rd_fd_bag *bag, unsigned int max);
/* Closes what is in it, and frees it. A zero-initialized bag is allowed. */
void rd_fd_bag_clear(struct rd_fd_bag *bag);
/* Puts @fd in, which it owns from now on, also upon failure: it is closed then. Returns its number,
 * -ENFILE when the bag is full, -ENOMEM, or -EBADF when @fd is negative. */
int rd_fd_bag_add(struct rd_fd_bag *bag, int fd);
/* As rd_fd_bag_add() for a duplicate, with close-on-exec; @fd remains the caller's. Or -errno. */
int rd_fd_bag_add_dup(struct rd_fd_bag *bag, int fd);
/* Returns the descriptor of number @i, which is the caller's from now on, or -ENOENT when there is
 * none, or it was taken. */
int rd_fd_bag_take(struct rd_fd_bag *bag, long long i);

/* Sends the next descriptors that were not sent, at most RD_FD_BAG_BATCH, with the message @text of
 * @len bytes, on a socket that keeps messages apart. They remain in the bag. Returns how many went,
 * or -errno. */
int rd_fd_bag_send(struct rd_fd_bag *bag, int sock, const void *text, size_t len);
/* Receives a message of at most @size bytes, without waiting, and adds the descriptors that come
 * with it. Returns its length, 0 at the end of the stream, -EAGAIN, -EMSGSIZE for a message that is
 * longer, -ENFILE for more descriptors than the bag or the process takes, or -errno. */
long rd_fd_bag_receive(struct rd_fd_bag *bag, int sock, void *text, size_t size);

#endif /* RD_UTIL_FD_BAG_H */
