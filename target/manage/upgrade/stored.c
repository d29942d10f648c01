/* SPDX-License-Identifier: BSD-3-Clause */
#include "stored.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/parse.h"
#include "channel.h"
#include "target/manage/service/notify.h"

#define FIRST_FD 3 /* of those that a service manager passes */

__attribute__((format(printf, 3, 4))) static int stored_fails(char *why, size_t size,
							      const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return -EPROTO;
}

/* ---- what has come ---- */

/* How many descriptors have come for this process. */
static unsigned int passed_fds(void)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	uint64_t n;

	if (!pid || !fds || rd_parse_u64(pid, 1, INT32_MAX, &n) || n != (uint64_t)getpid())
		return 0;
	return rd_parse_u64(fds, 1, UINT16_MAX, &n) ? 0 : (unsigned int)n;
}

static void collect_one(struct rdt_stored *s, int fd, const char *name)
{
	if (fcntl(fd, F_SETFD, FD_CLOEXEC)) /* it is not open */
		return;
	if (strcmp(name, RDT_STORE_NAME) == 0) {
		rd_fd_bag_add(&s->kept, fd);
	} else if (strcmp(name, RDT_STORE_RECORDS) == 0 && s->records < 0) {
		s->records = fd;
		s->many++;
	} else {
		s->many += strcmp(name, RDT_STORE_RECORDS) == 0;
		s->strangers += strcmp(name, RDT_STORE_RECORDS) != 0;
		close(fd);
	}
}

void rdt_stored_collect(struct rdt_stored *s)
{
	const char *list = getenv("LISTEN_FDNAMES");
	rd_autofree char *names = strdup(list ? list : "");
	unsigned int count = names ? passed_fds() : 0;
	char *at = names;

	*s = (struct rdt_stored){.records = -1};
	rd_fd_bag_init(&s->kept, RDT_STORE_FDS);
	for (unsigned int i = 0; i < count; i++) {
		const char *name = at ? strsep(&at, ":") : "";

		collect_one(s, FIRST_FD + (int)i, name);
	}
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
}

static void close_stored(struct rdt_stored *s)
{
	rd_fd_bag_clear(&s->kept);
	if (s->records >= 0)
		close(s->records);
	s->records = -1;
	s->many = 0;
}

void rdt_stored_free(struct rdt_stored *s)
{
	rdt_store_talk_stop(&s->talk);
	close_stored(s);
}

bool rdt_stored_any(const struct rdt_stored *s)
{
	return s->many || s->kept.count;
}

/* ---- what it says ---- */

/* The descriptors that came, by what tells them from others. */
static json_t *index_stored(const struct rdt_stored *s)
{
	json_t *index = json_object();
	char text[RDT_STORE_IDENTITY];

	for (unsigned int i = 0; index && i < s->kept.count; i++)
		if (rdt_store_identity(s->kept.fds[i], text) == 0 &&
		    json_object_set_new(index, text, json_integer(i))) {
			json_decref(index);
			return NULL;
		}
	return index;
}

static int read_stored_part(const struct rdt_stored *s, const json_t *index, const json_t *all,
			    const char *name, struct rdt_stored_part *part, char *why, size_t size)
{
	const json_t *of = json_object_get(all, name), *one;
	const json_t *fds = json_object_get(of, "descriptors");
	size_t i;

	part->records = json_incref(json_object_get(of, "records"));
	if (!json_is_array(part->records) || !json_is_array(fds))
		return stored_fails(why, size, "its part \"%s\" has no records or descriptors",
				    name);
	json_array_foreach(fds, i, one)
	{
		const char *text = json_is_string(one) ? json_string_value(one) : "";
		const json_t *at = json_object_get(index, text);
		int got = at ? rd_fd_bag_add_dup(&part->bag, s->kept.fds[json_integer_value(at)])
			     : -ENOENT;

		if (got == -ENOENT)
			return stored_fails(why, size,
					    "descriptor %zu of %zu of its part \"%s\" (%.60s) is "
					    "not in the store",
					    i + 1, json_array_size(fds), name, text);
		if (got < 0)
			return stored_fails(why, size,
					    "its descriptors: %s; raise LimitNOFILE= of "
					    "the service",
					    strerror(-got));
	}
	return rdt_records_check(part->records, why, size);
}

/* Since when connections rest, of this machine's clock since it was started. */
static int check_age(const json_t *records, char *why, size_t size)
{
	struct timespec now;
	const json_t *record;
	long long age = -1;
	size_t i;

	clock_gettime(CLOCK_MONOTONIC, &now);
	json_array_foreach(records, i, record)
	{
		json_int_t at = json_integer_value(json_object_get(record, "held_at"));

		if (at > 0)
			age = now.tv_sec - at / 1000000000;
	}
	if (age < 0)
		return stored_fails(why, size, "it does not say since when connections rest");
	if (age > RDT_STORED_AGE)
		return stored_fails(why, size,
				    "connections rest for %lld s, and hosts have given them up "
				    "after %d s",
				    age, RDT_STORED_AGE);
	return 0;
}

int rdt_stored_read(const struct rdt_stored *s, struct rdt_stored_part *open,
		    struct rdt_stored_part *move, char *why, size_t size)
{
	json_t *index, *all;
	int err;

	*open = *move = (struct rdt_stored_part){0};
	rd_fd_bag_init(&open->bag, RDT_STORE_FDS);
	rd_fd_bag_init(&move->bag, RDT_STORE_FDS);
	if (s->many != 1)
		return stored_fails(why, size,
				    s->many ? "there are records of several processes"
					    : "there are descriptors without records");
	if (lseek(s->records, 0, SEEK_END) == 0)
		return stored_fails(why, size,
				    "its records were withdrawn, or another process has used them");
	all = rdt_records_from_memory(s->records);
	index = all ? index_stored(s) : NULL;
	if (!all)
		err = stored_fails(why, size, "its records are no JSON");
	else if (!index)
		err = stored_fails(why, size, "out of memory");
	else
		err = read_stored_part(s, index, all, "open", open, why, size);
	if (!err)
		err = read_stored_part(s, index, all, "move", move, why, size);
	if (!err)
		err = check_age(move->records, why, size);
	json_decref(index);
	json_decref(all);
	return err;
}

/* ---- the end of it ---- */

/* Also where the service manager keeps them: their hosts are told at once. */
static void end_sockets(const struct rdt_stored *s, bool used)
{
	struct sockaddr_storage peer;
	socklen_t len;

	for (unsigned int i = 0; i < s->kept.count; i++) {
		len = sizeof(peer);
		if (!used || getpeername(s->kept.fds[i], (struct sockaddr *)&peer, &len) == 0)
			shutdown(s->kept.fds[i], SHUT_RDWR); /* what is no socket stays */
	}
}

/* The memory is the same in each process that has it. A file that has a name is not ours. */
static void spoil_records(const struct rdt_stored *s)
{
	struct stat st;

	if (s->records >= 0 && fstat(s->records, &st) == 0 && S_ISREG(st.st_mode) && !st.st_nlink &&
	    ftruncate(s->records, 0)) {
		/* nobody has sealed it; and the service manager is told, too */
	}
}

void rdt_stored_refuse(struct rdt_stored *s, bool used)
{
	rdt_store_talk_stop(&s->talk);
	spoil_records(s);
	end_sockets(s, used);
	close_stored(s);
}

static void stored_talked(struct rdt_store_talk *talk, int err)
{
	struct rdt_stored *s = rd_container_of(talk, struct rdt_stored, talk);

	s->emptied(s->arg, err, err ? rdt_store_says(err) : "");
}

int rdt_stored_empty(struct rdt_stored *s, struct rdt_notify *notify, struct rd_loop *loop,
		     void (*emptied)(void *arg, int err, const char *why), void *arg)
{
	if (notify->fd < 0)
		return -ENOTCONN;
	s->emptied = emptied;
	s->arg = arg;
	rdt_store_talk_init(&s->talk, notify, loop);
	rdt_store_say_remove(&s->talk);
	return rdt_store_talk_begin(&s->talk, stored_talked);
}

void rdt_stored_used(struct rdt_stored *s)
{
	spoil_records(s);
	close_stored(s);
}
