/* SPDX-License-Identifier: BSD-3-Clause */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/manage/service/notify.h"

/* When the service manager's socket takes no more. */
#define SAY_AGAIN (2 * RD_NSEC_PER_MSEC)

static const char *const remove_texts[] = {
	/* The records first: what is left without them is of no use to anybody. */
	"FDSTOREREMOVE=1\nFDNAME=" RDT_STORE_RECORDS,
	"FDSTOREREMOVE=1\nFDNAME=" RDT_STORE_NAME,
};

/* Numbers of inodes of sockets come back after long. Cookies do not. */
static int socket_identity(int fd, char text[RDT_STORE_IDENTITY])
{
	uint64_t cookie;
	socklen_t len = sizeof(cookie);

	if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len))
		return -errno;
	snprintf(text, RDT_STORE_IDENTITY, "socket %" PRIx64, cookie);
	return 0;
}

/* Open files of one inode that are open in the same way serve as well as each other. */
int rdt_store_identity(int fd, char text[RDT_STORE_IDENTITY])
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fstat(fd, &st))
		return -errno;
	if (S_ISSOCK(st.st_mode))
		return socket_identity(fd, text);
	snprintf(text, RDT_STORE_IDENTITY, "file %" PRIx64 " %" PRIx64 " %x", (uint64_t)st.st_dev,
		 (uint64_t)st.st_ino, (unsigned int)flags & (O_ACCMODE | O_DIRECT));
	return 0;
}

/* ---- messages ---- */

void rdt_store_talk_init(struct rdt_store_talk *talk, struct rdt_notify *notify,
			 struct rd_loop *loop)
{
	*talk = (struct rdt_store_talk){.notify = notify, .loop = loop, .io.fd = -1};
}

void rdt_store_say(struct rdt_store_talk *talk, const char *text, struct rd_fd_bag *bag)
{
	talk->steps[talk->count].text = text;
	talk->steps[talk->count++].bag = bag;
}

void rdt_store_say_remove(struct rdt_store_talk *talk)
{
	for (size_t i = 0; i < sizeof(remove_texts) / sizeof(remove_texts[0]); i++)
		rdt_store_say(talk, remove_texts[i], NULL);
}

static void stop_barrier(struct rdt_store_talk *talk)
{
	if (talk->io.fd < 0)
		return;
	rd_io_del(talk->loop, &talk->io);
	close(talk->io.fd);
	talk->io.fd = -1;
}

void rdt_store_talk_stop(struct rdt_store_talk *talk)
{
	if (!talk->done)
		return;
	talk->done = NULL;
	stop_barrier(talk);
	rd_timer_stop(talk->loop, &talk->timer);
}

static void end_talk(struct rdt_store_talk *talk, int err)
{
	void (*done)(struct rdt_store_talk *, int) = talk->done;

	rdt_store_talk_stop(talk);
	talk->count = talk->at = 0;
	done(talk, err);
}

static void manager_answered(struct rd_io *io, uint32_t events)
{
	end_talk(rd_container_of(io, struct rdt_store_talk, io), 0);
}

static void manager_is_silent(struct rd_timer *timer)
{
	end_talk(rd_container_of(timer, struct rdt_store_talk, timer), -ETIMEDOUT);
}

/* One message of the next step. */
static int say_step(struct rdt_store_talk *talk)
{
	struct rd_fd_bag none = {0}, *bag = talk->steps[talk->at].bag;
	const char *text = talk->steps[talk->at].text;
	int n;

	bag = bag ? bag : &none;
	n = rd_fd_bag_send(bag, talk->notify->fd, text, strlen(text));
	if (n < 0)
		return n;
	if (bag->sent == bag->count)
		talk->at++;
	return 0;
}

static int say_barrier(struct rdt_store_talk *talk)
{
	uint64_t now = rd_loop_now_raw(talk->loop);
	int fd = rdt_notify_barrier(talk->notify), err;

	if (fd < 0)
		return fd;
	err = rd_io_add(talk->loop, &talk->io, fd, EPOLLIN, manager_answered);
	if (err) {
		talk->io.fd = -1;
		close(fd);
		return err;
	}
	talk->timer.fn = manager_is_silent;
	return rd_timer_start(talk->loop, &talk->timer, talk->end > now ? talk->end - now : 0);
}

static void say_more(struct rd_timer *timer)
{
	struct rdt_store_talk *talk = rd_container_of(timer, struct rdt_store_talk, timer);
	int err = 0;

	while (!err && talk->at < talk->count)
		err = say_step(talk);
	if (!err)
		err = say_barrier(talk);
	if (err == -EAGAIN)
		err = rd_loop_now_raw(talk->loop) < talk->end
			      ? rd_timer_start(talk->loop, timer, SAY_AGAIN)
			      : -ETIMEDOUT;
	if (err)
		end_talk(talk, err);
}

int rdt_store_talk_begin(struct rdt_store_talk *talk,
			 void (*done)(struct rdt_store_talk *talk, int err))
{
	int err;

	talk->timer.fn = say_more;
	talk->end = rd_loop_now_raw(talk->loop) + RDT_STORE_WAIT;
	err = rd_timer_start(talk->loop, &talk->timer, 0);
	if (!err)
		talk->done = done;
	return err;
}

const char *rdt_store_says(int err)
{
	return err == -ETIMEDOUT  ? "the service manager has not answered for 5 s"
	       : err == -ENOTCONN ? "no service manager can be reached: NOTIFY_SOCKET is not in "
				    "the environment"
				  : strerror(-err);
}

/* ---- without a loop ---- */

static int say_now(struct rdt_notify *notify, const char *text)
{
	struct pollfd p = {.fd = notify->fd, .events = POLLOUT};
	struct rd_fd_bag none = {0};
	int n;

	do
		n = rd_fd_bag_send(&none, notify->fd, text, strlen(text));
	while (n == -EAGAIN && poll(&p, 1, RDT_STORE_WAIT / RD_NSEC_PER_MSEC) > 0);
	return n == -EAGAIN ? -ETIMEDOUT : n;
}

int rdt_store_remove_now(struct rdt_notify *notify)
{
	struct pollfd p = {.events = POLLIN};
	int err = notify->fd < 0 ? -ENOTCONN : 0;

	for (size_t i = 0; i < sizeof(remove_texts) / sizeof(remove_texts[0]) && !err; i++)
		err = say_now(notify, remove_texts[i]);
	if (err)
		return err;
	p.fd = rdt_notify_barrier(notify);
	if (p.fd < 0)
		return p.fd;
	if (poll(&p, 1, RDT_STORE_WAIT / RD_NSEC_PER_MSEC) <= 0)
		err = -ETIMEDOUT;
	close(p.fd);
	return err;
}
