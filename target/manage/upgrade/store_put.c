/* SPDX-License-Identifier: BSD-3-Clause */
#include "store_put.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/parse.h"
#include "channel.h"
#include "store.h"
#include "target/manage/service/notify.h"

/* The store does not look whether they hang up: what is gone then would be missed. */
#define STORE "FDSTORE=1\nFDPOLL=0\nFDNAME="

struct rdt_store_put {
	struct rdt_store_talk talk;
	unsigned long files_max;
	rdt_store_put_done done;
	void *arg;
	json_t *all;          /* {"open": part, "move": part}, each with records and descriptors */
	unsigned int count;   /* of descriptors */
	struct rd_fd_bag bag; /* of the part that is sent */
	struct rd_fd_bag memory, last;
	int records; /* a duplicate of what is in @memory; -1: it was not made */
	int canary;  /* an end of a pipe, whose other one is @last; or -1 */
};

int rdt_store_put_new(struct rdt_notify *notify, struct rd_loop *loop, unsigned long files_max,
		      rdt_store_put_done done, void *arg, struct rdt_store_put **out)
{
	struct rdt_store_put *put = calloc(1, sizeof(*put));

	*out = NULL;
	if (!put)
		return -ENOMEM;
	put->all = json_object();
	if (!put->all) {
		free(put);
		return -ENOMEM;
	}
	rdt_store_talk_init(&put->talk, notify, loop);
	put->files_max = files_max;
	put->done = done;
	put->arg = arg;
	put->records = put->canary = -1;
	*out = put;
	return 0;
}

static void close_sent(struct rdt_store_put *put)
{
	rd_fd_bag_clear(&put->bag);
	rd_fd_bag_clear(&put->memory);
	rd_fd_bag_clear(&put->last);
	if (put->canary >= 0)
		close(put->canary);
	put->canary = -1;
}

void rdt_store_put_free(struct rdt_store_put **out)
{
	struct rdt_store_put *put = *out;

	if (!put)
		return;
	rdt_store_talk_stop(&put->talk);
	close_sent(put);
	if (put->records >= 0)
		close(put->records);
	json_decref(put->all);
	free(put);
	*out = NULL;
}

/* ---- how many ---- */

/* systemd tells since its version 254. */
static unsigned long room_of_store(void)
{
	const char *text = getenv("FDSTORE");
	uint64_t room;

	return text && rd_parse_u64(text, 0, UINT32_MAX, &room) == 0 ? room : UINT32_MAX;
}

/* More would not be kept, or the next process could not be started with them. @count: besides the
 * records, and two that show whether all was kept. */
static int check_room(const struct rdt_store_put *put, char *why, size_t size)
{
	unsigned long need = put->count + 3ul, room = room_of_store();

	if (need > RDT_STORE_FDS)
		snprintf(why, size, "there are %lu descriptors, and at most %u can be stored", need,
			 RDT_STORE_FDS);
	else if (need > room)
		snprintf(why, size,
			 "there are %lu descriptors, and the service manager stores %lu; raise "
			 "FileDescriptorStoreMax= of the service",
			 need, room);
	else if (put->files_max && need + 3 > put->files_max)
		snprintf(why, size,
			 "there are %lu descriptors, and the next process would be started with a "
			 "limit of %lu open files; raise LimitNOFILE= of the service",
			 need, put->files_max);
	else
		return 0;
	return -ENOSPC;
}

/* ---- sending ---- */

static void put_sent(struct rdt_store_talk *talk, int err)
{
	struct rdt_store_put *put = rd_container_of(talk, struct rdt_store_put, talk);
	struct pollfd p = {.fd = put->canary};
	char why[RDT_CHANNEL_WHY] = "";

	rd_fd_bag_clear(&put->last); /* ours of the other end */
	if (err)
		snprintf(why, sizeof(why), "%s", rdt_store_says(err));
	else if (poll(&p, 1, 0) != 0) { /* nobody has the other end: it was not kept */
		err = -ENOSPC;
		snprintf(why, sizeof(why),
			 "the service manager has not kept all of %u descriptors; "
			 "FileDescriptorStoreMax= of the service has to be larger",
			 put->count + 3);
	}
	close_sent(put);
	put->done(put->arg, err, why);
}

/* Descriptors are kept in their order until there is no room: when the last one is, all are. */
static int add_canary(struct rdt_store_put *put)
{
	int ends[2], at;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	put->canary = ends[0];
	rd_fd_bag_init(&put->last, 1);
	at = rd_fd_bag_add(&put->last, ends[1]);
	return at < 0 ? at : 0;
}

/* Adds @records and the identities of the descriptors of put->bag. */
static int describe_part(struct rdt_store_put *put, const char *name, const json_t *records)
{
	json_t *part = json_object(), *fds = json_array();
	char text[RDT_STORE_IDENTITY];
	int err = 0;

	for (unsigned int i = 0; i < put->bag.count && !err; i++) {
		err = rdt_store_identity(put->bag.fds[i], text);
		if (!err && json_array_append_new(fds, json_string(text)))
			err = -ENOMEM;
	}
	if (json_object_set(part, "records", (json_t *)(uintptr_t)records) ||
	    json_object_set_new(part, "descriptors", fds) ||
	    json_object_set_new(put->all, name, part))
		err = err ? err : -ENOMEM;
	put->count += put->bag.count;
	return err;
}

static int add_memory(struct rdt_store_put *put)
{
	int fd = rdt_records_to_memory(put->all);

	if (fd < 0)
		return fd;
	put->records = fd;
	rd_fd_bag_init(&put->memory, 1);
	fd = rd_fd_bag_add_dup(&put->memory, fd);
	return fd < 0 ? fd : 0;
}

static int put_part(struct rdt_store_put *put, const char *name, const json_t *records,
		    struct rd_fd_bag *bag, char *why, size_t size)
{
	bool last = strcmp(name, "move") == 0;
	int err;

	put->bag = *bag;
	*bag = (struct rd_fd_bag){.max = bag->max};
	err = describe_part(put, name, records);
	snprintf(why, size, "what is stored cannot be described: %s", strerror(-err));
	if (!err)
		err = check_room(put, why, size);
	if (err)
		return err;
	if (!last) /* of a process that ended before it was complete */
		rdt_store_say_remove(&put->talk);
	if (put->bag.count)
		rdt_store_say(&put->talk, STORE RDT_STORE_NAME, &put->bag);
	if (last) {
		err = add_memory(put);
		rdt_store_say(&put->talk, STORE RDT_STORE_RECORDS, &put->memory);
	}
	if (!err)
		err = add_canary(put);
	rdt_store_say(&put->talk, STORE RDT_STORE_NAME, &put->last);
	if (!err)
		err = rdt_store_talk_begin(&put->talk, put_sent);
	snprintf(why, size, "the records cannot be stored: %s", strerror(-err));
	return err;
}

int rdt_store_put_open(struct rdt_store_put *put, const json_t *records, struct rd_fd_bag *bag,
		       char *why, size_t size)
{
	return put_part(put, "open", records, bag, why, size);
}

int rdt_store_put_moves(struct rdt_store_put *put, const json_t *records, struct rd_fd_bag *bag,
			char *why, size_t size)
{
	return put_part(put, "move", records, bag, why, size);
}

void rdt_store_withdraw(struct rdt_store_put *put)
{
	struct rd_fd_bag none = {0};
	struct rdt_store_talk *talk = &put->talk;

	rdt_store_talk_stop(talk);
	/* Whoever has this memory finds no records in it. */
	if (put->records >= 0 && ftruncate(put->records, 0)) {
	}
	talk->count = 0;
	rdt_store_say_remove(talk);
	for (unsigned int i = 0; i < talk->count; i++)
		rd_fd_bag_send(&none, talk->notify->fd, talk->steps[i].text,
			       strlen(talk->steps[i].text));
}
