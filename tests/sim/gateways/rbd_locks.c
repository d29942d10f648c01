/* SPDX-License-Identifier: BSD-3-Clause */
/* librbd's functions for the exclusive lock and the watchers of an image. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rados.h"
#include "rbd_image.h"

#define ASK_AGAIN       RD_NSEC_PER_SEC         /* the owner of a lock that does not answer */
#define BREAK_FORGOTTEN (500 * RD_NSEC_PER_SEC) /* it need not know that any more */
#define BREAK_KNOWN                                                                   \
	(500 * RD_NSEC_PER_MSEC) /* the product has noted by then what it has blocked \
				  */

struct lock_call {
	struct op op;
	struct opened *o; /* break_exec(): NULL where it is not known */
	struct image *image;
	struct client *owner; /* that was found, or that is expected */
	uint64_t cookie;
};

static struct lock_call lock_call(struct opened *o, int (*exec)(struct op *op))
{
	return (struct lock_call){
		.op = {.exec = exec, .pool = o->image->pool}, .o = o, .image = o->image};
}

static void set_owner(struct lock_call *call, struct client *c, uint64_t cookie)
{
	if (call->image->lock_client)
		call->image->had_lock = call->image->lock_client;
	call->image->lock_client = c;
	call->image->lock_cookie = cookie;
	rd_sim_tell(call->op.client->cluster->sim, "cluster: the lock of %s is held by %s",
		    call->image->name, c ? c->addr : "nobody");
}

/* ---- acquire ---- */

static int acquire_exec(struct op *op)
{
	struct lock_call *call = rd_container_of(op, struct lock_call, op);

	if (rbd_owner_is(call->image, NULL, 0))
		set_owner(call, op->client, call->o->cookie);
	if (rbd_owner_is(call->image, op->client, call->o->cookie))
		return 0;
	call->owner = call->image->lock_client;
	call->cookie = call->image->lock_cookie;
	return -EBUSY;
}

static int break_exec(struct op *op)
{
	struct lock_call *call = rd_container_of(op, struct lock_call, op);

	if (!rbd_owner_is(call->image, call->owner, call->cookie))
		return -ENOENT;
	set_owner(call, NULL, 0);
	return 0;
}

/* Blocks the owner, waits for the map of the OSDs that says so, and breaks its lock. @may_end: see
 * struct client. */
static int break_of(struct opened *o, struct client *owner, uint64_t cookie, bool may_end)
{
	struct lock_call call = lock_call(o, break_exec);
	int rc;

	call.owner = owner;
	call.cookie = cookie;
	rc = o->client->breaks_without_block
		     ? 0
		     : client_block(o->client, owner, BLOCK_DEFAULT, may_end);

	if (!rc)
		rc = client_get_map(o->client);
	return rc ? rc : op_call(o->client, &call.op);
}

/* The owner does not answer: is it known to be gone? */
static bool owner_answers(const struct client *owner)
{
	return client_reaches(owner) && !process_stalled(owner->process);
}

static void wait_for_owner(struct client *c)
{
	fiber_sleep(ASK_AGAIN);
	c->process->ceph_decides_at = rd_sim_now(c->cluster->sim);
}

int rbd_lock_acquire(rbd_image_t image, rbd_lock_mode_t lock_mode)
{
	struct opened *o = image;
	struct cluster *cl = o->client->cluster;
	int rc = 0;

	(void)lock_mode;
	o->by_request = true;
	while (!o->locked) {
		struct lock_call call = lock_call(o, acquire_exec);

		rc = op_call(o->client, &call.op);
		o->locked = !rc;
		if (!rc)
			o->refused_at = 0;
		if (rc != -EBUSY)
			break;
		if (!watcher_of(cl, call.owner, call.cookie))
			rc = break_of(o, call.owner, call.cookie, true);
		else if (owner_answers(call.owner))
			rc = -EROFS;
		else
			wait_for_owner(o->client);
		if (rc && rc != -EBUSY && rc != -ENOENT)
			break;
	}
	return rc;
}

/* ---- release and break ---- */

static int release_exec(struct op *op)
{
	struct lock_call *call = rd_container_of(op, struct lock_call, op);

	if (rbd_owner_is(call->image, op->client, call->o->cookie))
		set_owner(call, NULL, 0);
	return 0;
}

int rbd_lock_release(rbd_image_t image)
{
	struct opened *o = image;
	struct lock_call call = lock_call(o, release_exec);

	o->locked = false;
	o->by_request = true;
	while (o->writes)
		fiber_wait(&o->idle, UINT64_MAX);
	return op_call(o->client, &call.op);
}

static int owner_exec(struct op *op)
{
	struct lock_call *call = rd_container_of(op, struct lock_call, op);

	call->owner = call->image->lock_client;
	call->cookie = call->image->lock_cookie;
	return call->owner ? 0 : -ENOENT;
}

void look_whether_blocked_again(const struct client *c, const struct client *owner)
{
	const struct cluster *cl = c->cluster;
	const struct opened *o;
	uint64_t known = c->broken_at, goes_on = c->process->stalled_until + cl->aged_ns, read = 0;

	LIST_FOREACH (o, &cl->opened, link)
		if (o->client == c && o->owner_reader == fiber_now() && o->owner_read_at > read)
			read = o->owner_read_at;
	if (cluster_time(cl) - known > BREAK_FORGOTTEN)
		return;
	if (known < goes_on)
		known = goes_on;
	if (c->broken == owner && owner->blocked_epoch && owner->blocked_at < read &&
	    read > known + BREAK_KNOWN)
		cluster_violated(c->cluster, "the client %s blocks %s again", c->addr, owner->addr);
}

static void note_broken(struct client *c, const struct client *owner)
{
	c->broken = owner;
	c->broken_at = cluster_time(c->cluster);
}

/* The time for which a command to take a lock is valid. */
static bool was_told_to_take(const struct cluster *cl)
{
	return cl->taken_at && cluster_time(cl) - cl->taken_at < 120 * RD_NSEC_PER_SEC;
}

int rbd_lock_break(rbd_image_t image, rbd_lock_mode_t lock_mode, const char *lock_owner)
{
	struct opened *o = image;
	struct lock_call call = lock_call(o, owner_exec);
	int rc = op_call(o->client, &call.op);

	(void)lock_mode;
	if (rc)
		return rc;
	if (strcmp(call.owner->addr, lock_owner) != 0)
		return -EBUSY;
	look_whether_blocked_again(o->client, call.owner);
	rc = break_of(o, call.owner, call.cookie, was_told_to_take(o->client->cluster));
	if (!rc)
		note_broken(o->client, call.owner);
	return rc;
}

int rbd_lock_get_owners(rbd_image_t image, rbd_lock_mode_t *lock_mode, char **lock_owners,
			size_t *max_lock_owners)
{
	struct opened *o = image;
	struct lock_call call = lock_call(o, owner_exec);
	int rc = op_call(o->client, &call.op);

	o->owner_reader = fiber_now();
	o->owner_read_at = cluster_time(o->client->cluster);
	*lock_mode = RBD_LOCK_MODE_EXCLUSIVE;
	if (rc)
		return rc;
	*lock_owners = strdup(call.owner->addr);
	*max_lock_owners = 1;
	return *lock_owners ? 0 : -ENOMEM;
}

void rbd_lock_get_owners_cleanup(char **lock_owners, size_t lock_owner_count)
{
	for (size_t i = 0; i < lock_owner_count; i++)
		free(lock_owners[i]);
}

static struct image *image_with_header(struct cluster *cl, const char *header)
{
	for (unsigned int i = 0; i < cl->images_count; i++)
		if (strcmp(cl->images[i].header, header) == 0)
			return &cl->images[i];
	return NULL;
}

ssize_t rados_list_lockers(rados_ioctx_t io, const char *o, const char *name, int *exclusive,
			   char *tag, size_t *tag_len, char *clients, size_t *clients_len,
			   char *cookies, size_t *cookies_len, char *addrs, size_t *addrs_len)
{
	const struct ioctx *ctx = io;
	struct lock_call call = {.op = {.exec = owner_exec, .pool = ctx->pool},
				 .image = image_with_header(ctx->client->cluster, o)};
	int rc = op_call(ctx->client, &call.op);

	(void)tag, (void)tag_len, (void)name;
	*exclusive = 1;
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	snprintf(clients, *clients_len, "client.%llu", (unsigned long long)call.owner->id);
	snprintf(cookies, *cookies_len, "auto %llu", (unsigned long long)call.cookie);
	snprintf(addrs, *addrs_len, "%s", call.owner->addr);
	return 1;
}

int rados_break_lock(rados_ioctx_t io, const char *o, const char *name, const char *client,
		     const char *cookie)
{
	const struct ioctx *ctx = io;
	struct client *c = ctx->client;
	struct lock_call call = {.op = {.exec = break_exec, .pool = ctx->pool}};
	int rc;

	(void)name;
	call.image = image_with_header(c->cluster, o);
	LIST_FOREACH (call.owner, &c->cluster->clients, link)
		if (call.owner->id == strtoull(client + strlen("client."), NULL, 10))
			break;
	if (!call.owner)
		return -ENOENT;
	call.cookie = strtoull(cookie + strlen("auto "), NULL, 10);
	rc = op_call(c, &call.op);
	if (!rc && call.owner->blocked_epoch)
		note_broken(c, call.owner);
	return rc;
}

int rbd_is_exclusive_lock_owner(rbd_image_t image, int *is_owner)
{
	struct opened *o = image;
	struct lock_call call = lock_call(o, owner_exec);
	int rc;

	*is_owner = 0;
	if (!o->locked)
		return 0;
	rc = op_call(o->client, &call.op);
	if (rc == -ENOENT)
		return 0;
	*is_owner = !rc && call.owner == o->client && call.cookie == o->cookie;
	return rc;
}

/* ---- watchers ---- */

/* librbd watches again by itself, and has lost the lock when another client has it. */
void opened_watch_lost(struct client *c, uint64_t cookie)
{
	struct cluster *cl = c->cluster;
	struct watcher *w;
	struct opened *o;

	LIST_FOREACH (o, &cl->opened, link)
		if (o->client == c && o->cookie == cookie)
			break;
	if (!o || c->blocked_epoch)
		return;
	w = calloc(1, sizeof(*w));
	if (!w)
		abort();
	*w = (struct watcher){.client = c,
			      .pool = o->image->pool,
			      .object = o->image->header,
			      .cookie = cookie,
			      .alive_at = rd_sim_now(cl->sim)};
	LIST_INSERT_HEAD(&cl->watchers, w, link);
	o->header->told = false;
	rd_sim_at(cl->sim, &o->change, 0); /* it does not know what it was not told */
	if (o->locked && !rbd_owner_is(o->image, c, cookie))
		o->locked = false;
}

struct watchers_call {
	struct op op;
	const struct image *image;
	rbd_image_watcher_t *list;
	size_t *count;
};

static int watchers_exec(struct op *op)
{
	struct watchers_call *call = rd_container_of(op, struct watchers_call, op);
	struct watcher *w;
	size_t room = *call->count;

	*call->count = 0;
	LIST_FOREACH (w, &op->client->cluster->watchers, link) {
		if (strcmp(w->object, call->image->header) != 0)
			continue;
		if (*call->count == room)
			return -ERANGE;
		call->list[(*call->count)++] = (rbd_image_watcher_t){
			.addr = w->client->addr, .id = (int64_t)w->client->id, .cookie = w->cookie};
	}
	return 0;
}

int rbd_watchers_list(rbd_image_t image, rbd_image_watcher_t *watchers, size_t *max_watchers)
{
	const struct opened *o = image;
	struct watchers_call call = {.op = {.exec = watchers_exec, .pool = o->image->pool},
				     .image = o->image,
				     .list = watchers,
				     .count = max_watchers};

	return op_call(o->client, &call.op);
}

void rbd_watchers_list_cleanup(rbd_image_watcher_t *watchers, size_t num_watchers)
{
	(void)watchers, (void)num_watchers; /* addresses belong to clients, which stay */
}
