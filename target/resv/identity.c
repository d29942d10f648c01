/* SPDX-License-Identifier: BSD-3-Clause */
#include "identity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uuid/uuid.h>

#include "util/cleanup.h"
#include "util/log.h"
#include "util/map.h"
#include "target/config/backends.h"

enum record {
	RECORD_UNREAD, /* the last attempt has failed: @why; the next request retries */
	RECORD_READING,
	RECORD_READY,
};

TAILQ_HEAD(identity_users, rdt_identity_user);

struct rdt_identities {
	struct rdt_state *state; /* NULL: nothing is stored */
	struct rd_log *log;
	struct rd_loop *loop;
	enum record record;
	char why[320];
	/* Namespaces that ask now may have been known to hosts before the file existed. */
	bool first;
	struct rdt_identity_list all;
	unsigned int kept; /* number of identities with a volume */
	struct rd_map by[RDT_BY];
	struct identity_users waiting;
	TAILQ_HEAD(, rdt_identity) left; /* not used by any namespace since the last settle */
	TAILQ_HEAD(, rdt_identity) due;  /* their state has to be written, or is being written */
	TAILQ_HEAD(, rdt_identity_end) ends;
	struct rd_defer step;     /* writes the file, or notifies waiting namespaces */
	struct rdt_state_job job; /* reads the file, later writes it */
	bool dirty;
	bool writing;
	uint64_t seq; /* number of the last write that has begun */
};

/* Suffixes of the files of a UUID. Removed in this order. */
static const char *const suffixes[] = {RDT_STATE_RESV, RDT_STATE_PROTECT};
#define SUFFIXES (sizeof(suffixes) / sizeof(suffixes[0]))
#define FILE_MAX (64u << 20)

const char *rdt_identity_from_name(enum rdt_identity_from from)
{
	switch (from) {
	case RDT_IDENTITY_CONFIG:
		return "config";
	case RDT_IDENTITY_DERIVED:
		return "derived";
	default:
		return "state_dir";
	}
}

/* ---- the two tables ---- */

static const char *name_in(const struct rdt_identity *id, unsigned int by)
{
	return by == RDT_BY_UUID ? id->text : id->volume;
}

/* Cannot fail, because memory was reserved. */
static void table_add(struct rdt_identities *ids, unsigned int by, struct rdt_identity *id)
{
	uint64_t key = rd_map_hash(name_in(id, by));

	id->next[by] = rd_map_get(&ids->by[by], key);
	if (id->next[by])
		rd_map_remove(&ids->by[by], key);
	rd_map_put(&ids->by[by], key, id);
}

static void table_remove(struct rdt_identities *ids, unsigned int by, struct rdt_identity *id)
{
	uint64_t key = rd_map_hash(name_in(id, by));
	struct rdt_identity *first = rd_map_get(&ids->by[by], key), *at = first;

	if (first == id) {
		rd_map_remove(&ids->by[by], key);
		if (id->next[by])
			rd_map_put(&ids->by[by], key, id->next[by]);
	} else {
		while (at->next[by] != id)
			at = at->next[by];
		at->next[by] = id->next[by];
	}
	id->next[by] = NULL;
}

static struct rdt_identity *find_uuid(const struct rdt_identities *ids, const uint8_t uuid[16])
{
	struct rdt_identity *id;
	char text[RDT_UUID_TEXT];

	uuid_unparse_lower(uuid, text);
	id = rd_map_get(&ids->by[RDT_BY_UUID], rd_map_hash(text));
	while (id && memcmp(id->uuid, uuid, sizeof(id->uuid)) != 0)
		id = id->next[RDT_BY_UUID];
	return id;
}

static bool is_last_of(const struct rdt_identity *id, const struct rdt_identity_user *user)
{
	return id->nsid == user->cfg->nsid && strcmp(id->nqn, user->nqn) == 0;
}

/* Returns the identity of @volume that @user may have, or NULL. Read-only namespaces can share a
 * volume: each has its own identity. @uuid: only the one with this UUID; NULL: any. @carried: also
 * one from before the file existed. */
static struct rdt_identity *find_volume(const struct rdt_identities *ids,
					const struct rdt_identity_user *user, const char *volume,
					const uint8_t *uuid, bool carried)
{
	struct rdt_identity *id = rd_map_get(&ids->by[RDT_BY_VOLUME], rd_map_hash(volume));
	struct rdt_identity *found = NULL;

	for (; id; id = id->next[RDT_BY_VOLUME]) {
		if (id->user || strcmp(id->volume, volume) != 0 || (!carried && !id->nguid) ||
		    (uuid && memcmp(id->uuid, uuid, sizeof(id->uuid)) != 0))
			continue;
		if (is_last_of(id, user))
			return id;
		found = id;
	}
	return found;
}

static bool is_used(const struct rdt_identities *ids, const char *volume)
{
	const struct rdt_identity *id = rd_map_get(&ids->by[RDT_BY_VOLUME], rd_map_hash(volume));

	while (id && !(id->user && strcmp(id->volume, volume) == 0))
		id = id->next[RDT_BY_VOLUME];
	return id;
}

/* ---- one identity ---- */

/* Sets *@volume to the name of @user's volume. Storage in memory is named after the namespace.
 * Returns 0 or -ENOMEM. */
static int volume_of(const struct rdt_identity_user *user, char **volume)
{
	int err = rdt_config_storage(user->cfg, volume);

	if (!err && !*volume &&
	    asprintf(volume, "%s %s %u", rdt_config_backend_name(user->cfg->backend), user->nqn,
		     user->cfg->nsid) < 0)
		err = -ENOMEM;
	return err;
}

static struct rdt_identity *identity_new(struct rdt_identities *ids, const uint8_t uuid[16])
{
	struct rdt_identity *id = calloc(1, sizeof(*id));

	if (!id || rd_map_reserve(&ids->by[RDT_BY_UUID], ids->by[RDT_BY_UUID].count + 1)) {
		free(id);
		return NULL;
	}
	memcpy(id->uuid, uuid, sizeof(id->uuid));
	uuid_unparse_lower(uuid, id->text);
	id->of = ids;
	id->state = RDT_IDENTITY_KEPT; /* as long as it has no volume, nothing has to be written */
	TAILQ_INSERT_TAIL(&ids->all, id, link);
	table_add(ids, RDT_BY_UUID, id);
	return id;
}

static void forget_volume(struct rdt_identities *ids, struct rdt_identity *id)
{
	if (!id->volume)
		return;
	table_remove(ids, RDT_BY_VOLUME, id);
	ids->kept--;
	free(id->volume);
	id->volume = NULL;
}

static void identity_gone(struct rdt_identities *ids, struct rdt_identity *id)
{
	forget_volume(ids, id);
	table_remove(ids, RDT_BY_UUID, id);
	TAILQ_REMOVE(&ids->all, id, link);
	if (id->left)
		TAILQ_REMOVE(&ids->left, id, left_link);
	if (id->due)
		TAILQ_REMOVE(&ids->due, id, due_link);
	rdt_identity_free(id);
}

static void write_soon(struct rdt_identities *ids)
{
	ids->dirty = true;
	rd_defer(ids->loop, &ids->step, RD_DEFER_NEXT);
}

/* Mark @id to be written with the next write. */
static void make_due(struct rdt_identities *ids, struct rdt_identity *id)
{
	id->seq = ids->seq + 1;
	if (!id->due)
		TAILQ_INSERT_TAIL(&ids->due, id, due_link);
	id->due = true;
	write_soon(ids);
}

/* Assign the volume of @user to @id. */
static int set_volume(struct rdt_identities *ids, struct rdt_identity *id, const char *volume,
		      const struct rdt_identity_user *user)
{
	char *own = strdup(volume), *nqn = strdup(user->nqn);

	if (!own || !nqn || rd_map_reserve(&ids->by[RDT_BY_VOLUME], ids->kept + 1)) {
		free(own);
		free(nqn);
		return -ENOMEM;
	}
	forget_volume(ids, id);
	free(id->nqn);
	id->nqn = nqn;
	id->nsid = user->cfg->nsid;
	id->volume = own;
	ids->kept++;
	table_add(ids, RDT_BY_VOLUME, id);
	return rdt_identity_line(id);
}

/* No namespace uses the identity: record that in the file before its files are removed. Without
 * memory it is kept as it is, which the caller reports. */
static int end_identity(struct rdt_identities *ids, struct rdt_identity *id)
{
	enum rdt_identity_state state = id->state;

	id->state = RDT_IDENTITY_ENDED;
	if (rdt_identity_line(id)) {
		id->state = state;
		return -ENOMEM;
	}
	forget_volume(ids, id);
	make_due(ids, id);
	return 0;
}

/* ---- its other files ---- */

static void remove_state_file(struct rdt_identity *id);

static void tell_user(struct rdt_identities *ids, struct rdt_identity_user *user, int err,
		      const char *why)
{
	user->waits = false;
	TAILQ_REMOVE(&ids->waiting, user, link);
	user->done(user, err, why);
}

/* The files of the identity were removed: free it, or begin anew. */
static void emptied(struct rdt_identities *ids, struct rdt_identity *id)
{
	rd_autofree char *volume = NULL;

	if (!id->user) {
		identity_gone(ids, id);
		write_soon(ids);
		return;
	}
	/* The file must no longer record that it has ended; otherwise the next start would remove
	 * what hosts store from now on. */
	id->state = RDT_IDENTITY_NEW;
	free(id->line);
	id->line = NULL;
	if (id->user->from == RDT_IDENTITY_RECORD && !volume_of(id->user, &volume))
		set_volume(ids, id, volume, id->user);
	make_due(ids, id);
}

static void file_removed(struct rdt_state_job *job)
{
	struct rdt_identity *id = rd_container_of(job, struct rdt_identity, job);
	char why[256];

	id->removing = false;
	if (!job->err && ++id->file < SUFFIXES) {
		remove_state_file(id);
		return;
	}
	if (!job->err) {
		emptied(id->of, id);
		return;
	}
	snprintf(why, sizeof(why),
		 "%s/%s, which belongs to a namespace that was removed, cannot "
		 "be removed: %s",
		 rdt_state_dir(id->of->state), job->name, strerror(-job->err));
	if (id->user && id->user->waits)
		tell_user(id->of, id->user, job->err, why);
}

static void remove_state_file(struct rdt_identity *id)
{
	snprintf(id->job.name, sizeof(id->job.name), "%s%s", id->text, suffixes[id->file]);
	id->job.text = NULL;
	id->job.len = 0;
	id->job.done = file_removed;
	id->removing = true;
	rdt_state_write(id->of->state, &id->job);
}

/* Not while a namespace that leaves may still store reservations. */
static void begin_emptying(struct rdt_identity *id)
{
	unsigned int staying = id->user ? 1 : 0;

	if (id->state != RDT_IDENTITY_EMPTYING || id->removing || id->refs > staying)
		return;
	id->file = 0;
	remove_state_file(id);
}

/* ---- the file ---- */

/* Notify namespaces whose wait is over. @why: a write has failed: notify those that depend on
 * it. */
static void tell_waiting(struct rdt_identities *ids, const char *why)
{
	struct rdt_identity_user *user;
	unsigned int count = 0;

	TAILQ_FOREACH (user, &ids->waiting, link)
		count++;
	/* While one is notified, some may leave and others may be added. */
	for (; count && (user = TAILQ_FIRST(&ids->waiting)); count--) {
		if (!user->id || user->id->state == RDT_IDENTITY_KEPT) {
			tell_user(ids, user, 0, "");
		} else if (why && user->id->due) {
			tell_user(ids, user, -EIO, why);
		} else {
			TAILQ_REMOVE(&ids->waiting, user, link);
			TAILQ_INSERT_TAIL(&ids->waiting, user, link);
		}
	}
}

static void tell_ends(struct rdt_identities *ids, int err, const char *why)
{
	struct rdt_identity_end *end, *next;

	for (end = TAILQ_FIRST(&ids->ends); end; end = next) {
		next = TAILQ_NEXT(end, link);
		if (end->seq > ids->seq)
			continue;
		TAILQ_REMOVE(&ids->ends, end, link);
		end->done(end, err, why);
	}
}

static void take_written(struct rdt_identities *ids)
{
	struct rdt_identity *id, *next;

	for (id = TAILQ_FIRST(&ids->due); id; id = next) {
		next = TAILQ_NEXT(id, due_link);
		if (id->seq > ids->seq)
			continue;
		TAILQ_REMOVE(&ids->due, id, due_link);
		id->due = false;
		id->state =
			id->state == RDT_IDENTITY_NEW ? RDT_IDENTITY_KEPT : RDT_IDENTITY_EMPTYING;
		begin_emptying(id);
	}
}

/* The next change or request retries the write. */
static void write_failed(struct rdt_identities *ids, int err)
{
	struct rdt_identity *id;
	char why[320];

	TAILQ_FOREACH (id, &ids->due, due_link)
		id->seq = ids->seq + 1;
	snprintf(why, sizeof(why), "cannot write %s/%s, which stores UUIDs: %s",
		 rdt_state_dir(ids->state), RDT_IDENTITY_FILE, strerror(-err));
	tell_ends(ids, err, why);
	tell_waiting(ids, why);
}

static void record_written(struct rdt_state_job *job)
{
	struct rdt_identities *ids = rd_container_of(job, struct rdt_identities, job);
	bool again = ids->dirty;

	ids->writing = false;
	if (job->err) {
		ids->dirty = true;
		write_failed(ids, job->err);
	} else {
		take_written(ids);
		tell_ends(ids, 0, "");
	}
	if (again || !job->err)
		rd_defer(ids->loop, &ids->step, RD_DEFER_NEXT);
}

static void write_record(struct rdt_identities *ids)
{
	struct rdt_state_job *job = &ids->job;

	ids->seq++;
	if (rdt_identity_write(&ids->all, &job->text, &job->len)) {
		write_failed(ids, -ENOMEM);
		return;
	}
	memcpy(job->name, RDT_IDENTITY_FILE, sizeof(RDT_IDENTITY_FILE));
	job->max = 0;
	job->done = record_written;
	ids->dirty = false;
	ids->writing = true;
	rdt_state_write(ids->state, job);
}

static void identities_step(struct rd_defer *defer)
{
	struct rdt_identities *ids = rd_container_of(defer, struct rdt_identities, step);

	if (ids->record != RECORD_READY || ids->writing)
		return;
	tell_waiting(ids, NULL);
	ids->first = false;
	if (ids->dirty)
		write_record(ids);
}

/* ---- reading it ---- */

/* Returns whether the file cannot affect the identity of this namespace, because its configuration
 * has everything. */
static bool says_all(const struct rdt_ns_config *cfg)
{
	return rdt_backend_kind(cfg)->gateways || (cfg->uuid && cfg->nguid);
}

static void read_failed(struct rdt_identities *ids)
{
	struct rdt_identity_user *user;
	unsigned int count = 0;

	ids->record = RECORD_UNREAD;
	TAILQ_FOREACH (user, &ids->waiting, link)
		count++;
	for (; count && (user = TAILQ_FIRST(&ids->waiting)); count--)
		tell_user(ids, user, says_all(user->cfg) ? 0 : -EINVAL, ids->why);
}

/* Add the entries of the file. Returns 0 or -ENOMEM. */
static int take_read(struct rdt_identities *ids, struct rdt_identity_list *list, unsigned int count)
{
	struct rdt_identity *id;

	if (rd_map_reserve(&ids->by[RDT_BY_UUID], ids->by[RDT_BY_UUID].count + count) ||
	    rd_map_reserve(&ids->by[RDT_BY_VOLUME], ids->kept + count))
		return -ENOMEM;
	while ((id = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, id, link);
		if (find_uuid(ids, id->uuid)) { /* served already: its configuration has all */
			rdt_identity_free(id);
			ids->dirty = true;
			continue;
		}
		id->of = ids;
		TAILQ_INSERT_TAIL(&ids->all, id, link);
		table_add(ids, RDT_BY_UUID, id);
		if (id->volume) {
			ids->kept++;
			table_add(ids, RDT_BY_VOLUME, id);
			continue;
		}
		/* The previous process ended before its files were removed. */
		id->state = RDT_IDENTITY_EMPTYING;
		begin_emptying(id);
	}
	return 0;
}

/* There is no file: this is the first start with this directory, or with a version that has such a
 * file. */
static void begin_record(struct rdt_identities *ids)
{
	ids->first = ids->dirty = true;
	rd_notice(ids->log, RD_LOG_TARGET,
		  "%s/%s: created. Namespaces that are configured now keep the UUID derived from "
		  "NQN and NSID, %s",
		  rdt_state_dir(ids->state), RDT_IDENTITY_FILE,
		  rdt_state_made(ids->state) ? "and get an NGUID, because the directory is new"
					     : "without an NGUID");
}

static void record_read(struct rdt_state_job *job)
{
	struct rdt_identities *ids = rd_container_of(job, struct rdt_identities, job);
	struct rdt_identity_list list = TAILQ_HEAD_INITIALIZER(list);
	struct rdt_identity *id;
	unsigned int count = 0;
	char why[160] = "";
	int err = job->err;

	if (err && err != -ENOENT)
		snprintf(why, sizeof(why), "%s", strerror(-err));
	else if (!err)
		err = rdt_identity_read(job->text, job->len, &list, why, sizeof(why));
	free(job->text);
	job->text = NULL;
	TAILQ_FOREACH (id, &list, link)
		count++;
	if (!why[0] && take_read(ids, &list, count))
		snprintf(why, sizeof(why), "out of memory");
	rdt_identity_free_all(&list);
	if (why[0]) {
		snprintf(ids->why, sizeof(ids->why),
			 "%.120s/%s: %s; restore this file, which stores UUIDs, or remove it: then "
			 "namespaces get those derived from NQN and NSID",
			 rdt_state_dir(ids->state), RDT_IDENTITY_FILE, why);
		read_failed(ids);
		return;
	}
	ids->record = RECORD_READY;
	if (err)
		begin_record(ids);
	rd_defer(ids->loop, &ids->step, RD_DEFER_NEXT);
}

static void read_record(struct rdt_identities *ids)
{
	struct rdt_state_job *job = &ids->job;

	ids->record = RECORD_READING;
	memcpy(job->name, RDT_IDENTITY_FILE, sizeof(RDT_IDENTITY_FILE));
	job->text = NULL;
	job->max = FILE_MAX;
	job->done = record_read;
	rdt_state_write(ids->state, job);
}

/* ---- which identity ---- */

/* Makes a UUID of version 4. */
static void random_uuid(struct rdt_identities *ids, uint8_t uuid[16])
{
	const uint64_t random[2] = {rd_loop_random64(ids->loop), rd_loop_random64(ids->loop)};

	memcpy(uuid, random, sizeof(random));
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x40);
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}

/* Make an identity for a volume that is not in the file. */
static int new_volume(struct rdt_identities *ids, struct rdt_identity_user *user,
		      const char *volume, struct rdt_identity **out)
{
	bool derived = ids->first || user->several;
	struct rdt_identity *id;
	uint8_t uuid[16];

	if (ids->kept >= RDT_IDENTITIES_MAX)
		return -ENOSPC;
	memcpy(uuid, user->cfg->uuid_bytes, sizeof(uuid));
	id = derived ? find_uuid(ids, uuid) : NULL;
	if (id && !user->several) { /* another namespace has it already */
		id = NULL;
		derived = false;
	}
	if (!derived)
		random_uuid(ids, uuid);
	*out = id ? id : identity_new(ids, uuid);
	if (!*out)
		return -ENOMEM;
	/* Its stored state belongs to another volume. */
	if (id && !id->user && id->state < RDT_IDENTITY_ENDED)
		return end_identity(ids, id);
	if (id)
		return 0;
	id = *out;
	id->nguid = !user->several && (!ids->first || rdt_state_made(ids->state));
	id->state = RDT_IDENTITY_NEW;
	if (set_volume(ids, id, volume, user)) {
		identity_gone(ids, id);
		return -ENOMEM;
	}
	make_due(ids, id);
	return 0;
}

/* Choose the identity of @user. Returns 0 or -errno; -EINPROGRESS: another namespace has its
 * volume, but may be about to leave. */
static int choose(struct rdt_identities *ids, struct rdt_identity_user *user,
		  struct rdt_identity **out)
{
	const uint8_t *uuid = user->cfg->uuid_bytes;
	rd_autofree char *volume = NULL;
	bool keeps = ids->state && !rdt_backend_kind(user->cfg)->gateways;

	*out = NULL;
	if (volume_of(user, &volume))
		return -ENOMEM;
	if (!keeps || user->cfg->uuid) {
		user->from = user->cfg->uuid ? RDT_IDENTITY_CONFIG : RDT_IDENTITY_DERIVED;
		if (keeps)
			*out = find_volume(ids, user, volume, uuid, true);
		if (!*out)
			*out = find_uuid(ids, uuid);
		if (!*out)
			*out = identity_new(ids, uuid);
		return *out ? 0 : -ENOMEM;
	}
	user->from = RDT_IDENTITY_RECORD;
	*out = find_volume(ids, user, volume, NULL, !user->several);
	/* The other targets derive the UUID from NQN and NSID. */
	if (!*out && user->several)
		*out = find_volume(ids, user, volume, uuid, true);
	if (*out && user->several && (*out)->nguid)
		rd_warn(ids->log, RD_LOG_TARGET,
			"%s namespace %u: keeps UUID %s, which was made when no other target "
			"served the subsystem; the other targets need it as uuid, and as nguid, in "
			"their configuration",
			user->nqn, user->cfg->nsid, (*out)->text);
	if (*out)
		return 0;
	if (!user->settled && is_used(ids, volume))
		return -EINPROGRESS;
	return new_volume(ids, user, volume, out);
}

static void unleave(struct rdt_identities *ids, struct rdt_identity *id)
{
	if (id->left)
		TAILQ_REMOVE(&ids->left, id, left_link);
	id->left = false;
}

static int claim(struct rdt_identities *ids, struct rdt_identity_user *user,
		 struct rdt_identity *id, char *why, size_t size)
{
	if (id->user && !user->settled)
		return -EINPROGRESS;
	if (id->user) {
		snprintf(why, size,
			 "its UUID %s is that of namespace %u of %.223s; each needs its own",
			 id->text, id->user->cfg->nsid, id->user->nqn);
		return -EEXIST;
	}
	/* The volume has moved to another namespace. This is recorded for people who read the file,
	 * so nothing waits for it. */
	if (id->volume && !is_last_of(id, user) && user->from == RDT_IDENTITY_RECORD) {
		if (set_volume(ids, id, id->volume, user))
			return -ENOMEM;
		write_soon(ids);
	}
	unleave(ids, id);
	id->user = user;
	id->refs++;
	user->id = id;
	return 0;
}

static int wait_for_identity(struct rdt_identities *ids, struct rdt_identity_user *user)
{
	if (!user->waits)
		TAILQ_INSERT_TAIL(&ids->waiting, user, link);
	user->waits = true;
	return -EINPROGRESS;
}

static int take_one(struct rdt_identities *ids, struct rdt_identity_user *user, char *why,
		    size_t size)
{
	struct rdt_identity *id;
	int err = choose(ids, user, &id);

	why[0] = '\0';
	if (!err)
		err = claim(ids, user, id, why, size);
	if (err == -ENOSPC)
		snprintf(why, size, "%s/%s has %u volumes, which is the maximum",
			 rdt_state_dir(ids->state), RDT_IDENTITY_FILE, RDT_IDENTITIES_MAX);
	return err;
}

int rdt_identity_ask(struct rdt_identities *ids, struct rdt_identity_user *user, char *why,
		     size_t size)
{
	int err = 0;

	why[0] = '\0';
	if (!user->id && ids->record != RECORD_READY &&
	    (ids->record == RECORD_READING || !says_all(user->cfg))) {
		if (ids->record == RECORD_UNREAD)
			read_record(ids);
		return wait_for_identity(ids, user);
	}
	if (!user->id)
		err = take_one(ids, user, why, size);
	if (err)
		return err == -EINPROGRESS ? wait_for_identity(ids, user) : err;
	if (user->id->state == RDT_IDENTITY_KEPT)
		return 0;
	begin_emptying(user->id);
	if (user->id->due && !ids->writing)
		write_soon(ids);
	return wait_for_identity(ids, user);
}

/* ---- the end of a namespace ---- */

static void stop_identity_wait(struct rdt_identities *ids, struct rdt_identity_user *user)
{
	if (user->waits)
		TAILQ_REMOVE(&ids->waiting, user, link);
	user->waits = false;
}

void rdt_identity_leave(struct rdt_identities *ids, struct rdt_identity_user *user)
{
	struct rdt_identity *id = user->id;

	stop_identity_wait(ids, user);
	if (!id || id->user != user)
		return;
	id->user = NULL;
	id->left = true;
	TAILQ_INSERT_TAIL(&ids->left, id, left_link);
}

/* Without a stored state, there is nothing to end. */
static void free_if_unused(struct rdt_identities *ids, struct rdt_identity *id)
{
	if (id->state == RDT_IDENTITY_KEPT && !id->volume && !id->refs && !id->left)
		identity_gone(ids, id);
}

void rdt_identity_put(struct rdt_identities *ids, struct rdt_identity_user *user)
{
	struct rdt_identity *id = user->id;

	stop_identity_wait(ids, user);
	if (!id)
		return;
	if (id->user == user)
		id->user = NULL;
	user->id = NULL;
	id->refs--;
	begin_emptying(id);
	free_if_unused(ids, id);
}

void rdt_identity_spare(struct rdt_identities *ids, const char *nqn,
			const struct rdt_ns_config *cfg)
{
	const struct rdt_identity_user user = {.nqn = nqn, .cfg = cfg};
	rd_autofree char *volume = NULL;
	struct rdt_identity *id = NULL;

	if (!volume_of(&user, &volume))
		id = find_volume(ids, &user, volume, NULL, true);
	if (!id)
		id = find_uuid(ids, cfg->uuid_bytes);
	if (id)
		unleave(ids, id);
}

/* Let namespaces whose volume or UUID was used by another one get it, or another identity. */
static void settle_waiting(struct rdt_identities *ids)
{
	struct rdt_identity_user *user;
	char why[256]; /* reported when it asks again */

	TAILQ_FOREACH (user, &ids->waiting, link) {
		user->settled = true;
		if (!user->id && ids->record == RECORD_READY)
			take_one(ids, user, why, sizeof(why));
	}
	rd_defer(ids->loop, &ids->step, RD_DEFER_NEXT);
}

bool rdt_identities_settle(struct rdt_identities *ids, bool keep, struct rdt_identity_end *end)
{
	struct rdt_identity *id;
	bool ended = false;

	settle_waiting(ids);
	/* While the file was not read, they are not in it; the next call ends the others. */
	if (ids->state && !keep && ids->record != RECORD_READY)
		return false;
	while ((id = TAILQ_FIRST(&ids->left))) {
		unleave(ids, id);
		if (ids->state && !keep && id->state < RDT_IDENTITY_ENDED && !end_identity(ids, id))
			ended = true;
		free_if_unused(ids, id);
	}
	if (!ended)
		return false;
	end->seq = ids->seq + 1;
	TAILQ_INSERT_TAIL(&ids->ends, end, link);
	return true;
}

/* ---- construction ---- */

int rdt_identities_new(struct rdt_state *state, struct rd_log *log, struct rd_loop *loop,
		       struct rdt_identities **out)
{
	struct rdt_identities *ids = calloc(1, sizeof(*ids));

	*out = NULL;
	if (!ids)
		return -ENOMEM;
	ids->state = state;
	ids->log = log;
	ids->loop = loop;
	ids->step.fn = identities_step;
	TAILQ_INIT(&ids->all);
	TAILQ_INIT(&ids->waiting);
	TAILQ_INIT(&ids->left);
	TAILQ_INIT(&ids->due);
	TAILQ_INIT(&ids->ends);
	*out = ids;
	if (rd_map_init(&ids->by[RDT_BY_UUID]) || rd_map_init(&ids->by[RDT_BY_VOLUME])) {
		rdt_identities_free(out);
		return -ENOMEM;
	}
	ids->record = RECORD_READY;
	if (state)
		read_record(ids);
	return 0;
}

void rdt_identities_free(struct rdt_identities **out)
{
	struct rdt_identities *ids = *out;

	if (!ids)
		return;
	rd_defer_cancel(ids->loop, &ids->step);
	rdt_identity_free_all(&ids->all);
	rd_map_fini(&ids->by[RDT_BY_UUID]);
	rd_map_fini(&ids->by[RDT_BY_VOLUME]);
	free(ids->job.text);
	free(ids);
	*out = NULL;
}
