/* SPDX-License-Identifier: BSD-3-Clause */
/* librbd's functions for the exclusive lock and the watchers of an image. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rados.h"
#include "rbd_image.h"

#define ASK_AGAIN RD_NSEC_PER_SEC /* the owner of a lock that does not answer */

struct lock_call {
	struct op op;
	struct opened *o;
	struct client *owner; /* that was found, or that is expected */
	uint64_t cookie;
};

static void set_owner(struct cluster *cl, struct client *c, uint64_t cookie)
{
	cl->lock_client = c;
	cl->lock_cookie = cookie;
	rd_sim_tell(cl->sim, "cluster: the lock is held by %s", c ? c->addr : "nobody");
}

/* ---- acquire ---- */

static int acquire_exec(struct op *op)
{
	struct lock_call *call = rd_container_of(op, struct lock_call, op);
	struct cluster *cl = op->client->cluster;

	if (rbd_owner_is(cl, NULL, 0))
		set_owner(cl, op->client, call->o->cookie);
	if (rbd_owner_is(cl, op->client, call->o->cookie))
		return 0;
	call->owner = cl->lock_client;
	call->cookie = cl->lock_cookie;
	return -EBUSY;
}

static int break_exec(struct op *op)
{
	const struct lock_call *call = rd_container_of(op, struct lock_call, op);
	struct cluster *cl = op->client->cluster;

	if (!rbd_owner_is(cl, call->owner, call->cookie))
		return -ENOENT;
	set_owner(cl, NULL, 0);
	return 0;
}

/* Blocks the owner, waits for the map of the OSDs that says so, and breaks its lock. */
static int break_of(struct opened *o, struct client *owner, uint64_t cookie)
{
	struct lock_call call = {
		.op = {.exec = break_exec}, .o = o, .owner = owner, .cookie = cookie};
	int rc = o->client->breaks_without_block ? 0 : client_block(o->client, owner);

	if (!rc)
		rc = client_get_map(o->client);
	return rc ? rc : op_call(o->client, &call.op);
}

/* The owner does not answer: is it known to be gone? */
static bool owner_answers(const struct client *owner)
{
	return client_reaches(owner) && !process_stalled(owner->process);
}

int rbd_lock_acquire(rbd_image_t image, rbd_lock_mode_t lock_mode)
{
	struct opened *o = image;
	struct cluster *cl = o->client->cluster;
	int rc = 0;

	(void)lock_mode;
	o->by_request = true;
	while (!o->locked) {
		struct lock_call call = {.op = {.exec = acquire_exec}, .o = o};

		rc = op_call(o->client, &call.op);
		o->locked = !rc;
		if (rc != -EBUSY)
			break;
		if (!watcher_of(cl, call.owner, call.cookie))
			rc = break_of(o, call.owner, call.cookie);
		else if (owner_answers(call.owner))
			rc = -EROFS;
		else
			fiber_sleep(ASK_AGAIN);
		if (rc && rc != -EBUSY && rc != -ENOENT)
			break;
	}
	return rc;
}

/* ---- release and break ---- */

static int release_exec(struct op *op)
{
	const struct lock_call *call = rd_container_of(op, struct lock_call, op);
	struct cluster *cl = op->client->cluster;

	if (rbd_owner_is(cl, op->client, call->o->cookie))
		set_owner(cl, NULL, 0);
	return 0;
}

int rbd_lock_release(rbd_image_t image)
{
	struct opened *o = image;
	struct lock_call call = {.op = {.exec = release_exec}, .o = o};

	o->locked = false;
	o->by_request = true;
	while (o->writes)
		fiber_wait(&o->idle, UINT64_MAX);
	return op_call(o->client, &call.op);
}

int rbd_lock_break(rbd_image_t image, rbd_lock_mode_t lock_mode, const char *lock_owner)
{
	struct opened *o = image;
	const struct cluster *cl = o->client->cluster;
	struct lock_call call = {.op = {.exec = acquire_exec}, .o = o};
	char *found = NULL;
	rbd_lock_mode_t mode;
	size_t count = 1;
	int rc = rbd_lock_get_owners(image, &mode, &found, &count);

	(void)lock_mode;
	if (rc)
		return rc;
	rc = strcmp(found, lock_owner) == 0 ? 0 : -EBUSY;
	rbd_lock_get_owners_cleanup(&found, count);
	if (rc)
		return rc;
	LIST_FOREACH (call.owner, &cl->clients, link)
		if (strcmp(call.owner->addr, lock_owner) == 0)
			break;
	if (!call.owner || call.owner != cl->lock_client)
		return -ENOENT;
	return break_of(o, call.owner, cl->lock_cookie);
}

static int owner_exec(struct op *op)
{
	struct lock_call *call = rd_container_of(op, struct lock_call, op);

	call->owner = op->client->cluster->lock_client;
	call->cookie = op->client->cluster->lock_cookie;
	return call->owner ? 0 : -ENOENT;
}

int rbd_lock_get_owners(rbd_image_t image, rbd_lock_mode_t *lock_mode, char **lock_owners,
			size_t *max_lock_owners)
{
	struct opened *o = image;
	struct lock_call call = {.op = {.exec = owner_exec}, .o = o};
	int rc = op_call(o->client, &call.op);

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

ssize_t rbd_list_lockers(rbd_image_t image, int *exclusive, char *tag, size_t *tag_len,
			 char *clients, size_t *clients_len, char *cookies, size_t *cookies_len,
			 char *addrs, size_t *addrs_len)
{
	struct opened *o = image;
	struct lock_call call = {.op = {.exec = owner_exec}, .o = o};
	int rc = op_call(o->client, &call.op);

	(void)tag, (void)tag_len;
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
	struct client *c = ((struct ioctx *)io)->client;
	struct lock_call call = {.op = {.exec = break_exec}};

	(void)o, (void)name;
	LIST_FOREACH (call.owner, &c->cluster->clients, link)
		if (call.owner->id == strtoull(client + strlen("client."), NULL, 10))
			break;
	call.cookie = strtoull(cookie + strlen("auto "), NULL, 10);
	return call.owner ? op_call(c, &call.op) : -ENOENT;
}

int rbd_is_exclusive_lock_owner(rbd_image_t image, int *is_owner)
{
	struct opened *o = image;
	struct lock_call call = {.op = {.exec = owner_exec}, .o = o};
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
			      .object = CLUSTER_HEADER,
			      .cookie = cookie,
			      .alive_at = rd_sim_now(cl->sim)};
	LIST_INSERT_HEAD(&cl->watchers, w, link);
	o->header->told = false;
	if (o->locked && !rbd_owner_is(cl, c, cookie))
		o->locked = false;
}

struct watchers_call {
	struct op op;
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
		if (strcmp(w->object, CLUSTER_HEADER) != 0)
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
	struct watchers_call call = {
		.op = {.exec = watchers_exec}, .list = watchers, .count = max_watchers};

	return op_call(((struct opened *)image)->client, &call.op);
}

void rbd_watchers_list_cleanup(rbd_image_watcher_t *watchers, size_t num_watchers)
{
	(void)watchers, (void)num_watchers; /* addresses belong to clients, which stay */
}
