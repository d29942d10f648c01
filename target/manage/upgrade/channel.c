/* SPDX-License-Identifier: BSD-3-Clause */
#include "channel.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/write_all.h"

#define MESSAGE_MAX (32u << 10)
#define SEND_WAIT   2000 /* ms: the other side reads all the time */

void rdt_channel_init(struct rdt_channel *ch, int fd)
{
	ch->fd = fd;
	ch->loop = NULL;
	rd_fd_bag_init(&ch->bag, RDT_CHANNEL_FDS);
}

void rdt_channel_close(struct rdt_channel *ch)
{
	if (ch->fd < 0)
		return;
	if (ch->loop)
		rd_io_del(ch->loop, &ch->io);
	ch->loop = NULL;
	close(ch->fd);
	ch->fd = -1;
	rd_fd_bag_clear(&ch->bag);
}

/* ---- out ---- */

int rdt_records_to_memory(const json_t *records)
{
	rd_autofree char *text = json_dumps(records, JSON_COMPACT | JSON_ENSURE_ASCII);
	int fd, err;

	if (!text)
		return -ENOMEM;
	if (strlen(text) > RDT_CHANNEL_RECORDS)
		return -EFBIG;
	fd = memfd_create("records", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = rd_write_all(fd, text, strlen(text));
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

/* The other side reads all the time, so this waits for its turn at most. */
static int send_part(struct rdt_channel *ch, struct rd_fd_bag *bag, const char *text)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLOUT};
	int n;

	do
		n = rd_fd_bag_send(bag, ch->fd, text, strlen(text));
	while (n == -EAGAIN && poll(&p, 1, SEND_WAIT) > 0);
	return n < 0 ? n : 0;
}

static int send_whole(struct rdt_channel *ch, struct rd_fd_bag *bag, const char *text)
{
	int err = 0;

	while (!err && bag->count - bag->sent > RD_FD_BAG_BATCH)
		err = send_part(ch, bag, "{\"op\":\"more\"}");
	return err ? err : send_part(ch, bag, text);
}

int rdt_channel_send(struct rdt_channel *ch, const char *op, json_t *msg, const json_t *records,
		     struct rd_fd_bag *bag)
{
	struct rd_fd_bag own = {.max = 1};
	rd_autofree char *text = NULL;
	int at = -1, err = msg ? 0 : -ENOMEM;

	bag = bag ? bag : &own;
	if (!err && ch->fd < 0)
		err = -ENOTCONN;
	if (!err && records) {
		at = rdt_records_to_memory(records);
		at = at < 0 ? at : rd_fd_bag_add(bag, at);
		err = at < 0 ? at : 0;
		if (!err && json_object_set_new(msg, "records", json_integer(at)))
			err = -ENOMEM;
	}
	if (!err && json_object_set_new(msg, "op", json_string(op)))
		err = -ENOMEM;
	if (!err) {
		text = json_dumps(msg, JSON_COMPACT);
		err = text ? 0 : -ENOMEM;
	}
	if (!err && strlen(text) > MESSAGE_MAX)
		err = -EMSGSIZE;
	if (!err)
		err = send_whole(ch, bag, text);
	json_decref(msg);
	rd_fd_bag_clear(&own);
	return err;
}

/* ---- in ---- */

json_t *rdt_records_from_memory(int fd)
{
	rd_autofree char *text = NULL;
	struct stat st;
	size_t done = 0;
	ssize_t n = 1;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > RDT_CHANNEL_RECORDS)
		return NULL;
	text = malloc((size_t)st.st_size + 1);
	while (text && done < (size_t)st.st_size && n > 0) {
		n = pread(fd, text + done, (size_t)st.st_size - done, (off_t)done);
		done += n > 0 ? (size_t)n : 0;
	}
	return text && n > 0 ? json_loadb(text, done, JSON_REJECT_DUPLICATES, NULL) : NULL;
}

__attribute__((format(printf, 4, 5))) static int channel_fails(int err, char *why, size_t size,
							       const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return err;
}

/* Returns 1 with a message, 0 for one that announces more, or -errno with a sentence in @why. */
static int read_message(struct rdt_channel *ch, json_t **msg, json_t **records, char *why,
			size_t size)
{
	char text[MESSAGE_MAX];
	long n = rd_fd_bag_receive(&ch->bag, ch->fd, text, sizeof(text));
	const json_t *at;
	int fd;

	*msg = *records = NULL;
	if (n == -EAGAIN)
		return -EAGAIN;
	if (n == 0 || n == -ECONNRESET)
		return channel_fails(-EPIPE, why, size, "the other process has ended");
	if (n < 0)
		return channel_fails((int)n, why, size, "cannot read from the other process: %s%s",
				     strerror((int)-n),
				     n == -ENFILE ? "; raise the limit of open files "
						    "(LimitNOFILE= of a service)"
						  : "");
	*msg = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
	if (!json_string_value(json_object_get(*msg, "op")))
		return channel_fails(-EPROTO, why, size, "the other process says no JSON");
	if (strcmp(json_string_value(json_object_get(*msg, "op")), "more") == 0)
		return 0;
	at = json_object_get(*msg, "records");
	if (!at)
		return 1;
	fd = rd_fd_bag_take(&ch->bag, json_integer_value(at));
	*records = fd < 0 ? NULL : rdt_records_from_memory(fd);
	if (fd >= 0)
		close(fd);
	return json_is_array(*records) ? 1
				       : channel_fails(-EPROTO, why, size,
						       "the records of the other process are no "
						       "list");
}

static void channel_readable(struct rd_io *io, uint32_t events)
{
	struct rdt_channel *ch = rd_container_of(io, struct rdt_channel, io);
	char why[RDT_CHANNEL_WHY] = "";
	json_t *msg, *records;
	int got = read_message(ch, &msg, &records, why, sizeof(why));

	if (got > 0) {
		struct rd_fd_bag bag = ch->bag;

		rd_fd_bag_init(&ch->bag, RDT_CHANNEL_FDS);
		ch->said(ch, json_string_value(json_object_get(msg, "op")), msg, records, &bag);
		rd_fd_bag_clear(&bag);
	}
	json_decref(msg);
	json_decref(records);
	if (got >= 0 || got == -EAGAIN)
		return;
	rdt_channel_close(ch);
	ch->broken(ch, why);
}

int rdt_channel_watch(struct rdt_channel *ch, struct rd_loop *loop)
{
	int err = rd_io_add(loop, &ch->io, ch->fd, EPOLLIN, channel_readable);

	if (!err)
		ch->loop = loop;
	return err;
}

static long long channel_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

int rdt_channel_wait(struct rdt_channel *ch, int timeout_ms, json_t **msg, json_t **records,
		     char *why, size_t size)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	long long end = channel_now_ms() + timeout_ms;
	int got;

	for (;;) {
		long long left = end - channel_now_ms();

		if (left <= 0 || poll(&p, 1, (int)left) == 0)
			return channel_fails(-ETIMEDOUT, why, size,
					     "the other process has not answered for %d s",
					     timeout_ms / 1000);
		got = read_message(ch, msg, records, why, size);
		if (got > 0)
			return 0;
		json_decref(*msg);
		json_decref(*records);
		*msg = *records = NULL;
		if (got < 0 && got != -EAGAIN)
			return got;
	}
}

/* ---- records ---- */

json_t *rdt_records_new(void)
{
	json_t *records = json_array();

	if (json_array_append_new(records, json_pack("{s:s, s:i, s:s}", "kind", "header", "format",
						     RDT_UPGRADE_FORMAT, "version", RDT_VERSION)) ==
	    0)
		return records;
	json_decref(records);
	return NULL;
}

static bool kind_known(const char *kind)
{
	static const char *const kinds[] = {"header", "process",  "target", "listener",
					    "ns",     "ns-state", "ctrl",   "queue"};

	for (size_t i = 0; kind && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kind, kinds[i]) == 0)
			return true;
	return false;
}

/* What a reader has to know that was added to format 1. */
static bool must_known(const char *name)
{
	return name && (strcmp(name, RDT_MUST_TOLD) == 0 || strcmp(name, RDT_MUST_UNFINISHED) == 0);
}

static int check_must(const json_t *record, size_t at, char *why, size_t size)
{
	const json_t *must = json_object_get(record, "must"), *name;
	size_t i;

	json_array_foreach(must, i, name) if (
		!must_known(json_string_value(
			name))) return channel_fails(-EPROTO, why, size,
						     "record %zu has \"%.60s\", which this version "
						     "does not know "
						     "and has to; use a version that does",
						     at,
						     json_is_string(name) ? json_string_value(name)
									  : "?");
	return 0;
}

int rdt_records_check(const json_t *records, char *why, size_t size)
{
	const json_t *head = json_array_get(records, 0), *record;
	const char *kind = json_string_value(json_object_get(head, "kind"));
	json_int_t format = json_integer_value(json_object_get(head, "format"));
	size_t i;

	if (!kind || strcmp(kind, "header") != 0 || format < 1)
		return channel_fails(-EPROTO, why, size, "the records do not begin with a header");
	if (format > RDT_UPGRADE_FORMAT)
		return channel_fails(
			-EPROTO, why, size,
			"the records are in format %lld, and this version (" RDT_VERSION
			") knows those up to %d",
			(long long)format, RDT_UPGRADE_FORMAT);
	json_array_foreach(records, i, record)
	{
		int err = check_must(record, i, why, size);

		kind = json_string_value(json_object_get(record, "kind"));
		if (!kind_known(kind))
			err = channel_fails(-EPROTO, why, size,
					    "record %zu is of kind \"%.60s\", which this version "
					    "does not know",
					    i, kind ? kind : "");
		if (err)
			return err;
	}
	return 0;
}
