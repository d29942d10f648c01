/* SPDX-License-Identifier: BSD-3-Clause */
/* librados, as far as the module rbd calls it. */
#include "rados.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "notify.h"

#define MOUNT_TIMEOUT (30 * RD_NSEC_PER_SEC) /* client_mount_timeout, as the module sets it */
#define MOUNT_LOOK    (200 * RD_NSEC_PER_MSEC)
#define BRIEFLY       (2 * RD_NSEC_PER_MSEC)

static void sleep_briefly(struct rd_sim *sim)
{
	fiber_sleep(rd_sim_below(sim, BRIEFLY));
}

/* ---- connections ---- */

int rados_create2(rados_t *pcluster, const char *const clustername, const char *const name,
		  uint64_t flags)
{
	struct process *p = process_now();

	(void)clustername, (void)name, (void)flags;
	*pcluster = client_new(p->cluster, p);
	return *pcluster ? 0 : -ENOMEM;
}

int rados_conf_read_file(rados_t cluster, const char *path)
{
	(void)cluster, (void)path;
	return 0;
}

int rados_conf_set(rados_t cluster, const char *option, const char *value)
{
	struct client *c = cluster;

	if (strcmp(option, "rbd_blocklist_on_break_lock") == 0)
		c->breaks_without_block = strcmp(value, "false") == 0;
	if (strcmp(option, "rbd_disable_zero_copy_writes") == 0)
		c->zero_copy = strcmp(value, "false") == 0;
	return 0;
}

int rados_connect(rados_t cluster)
{
	struct client *c = cluster;
	struct rd_sim *sim = c->cluster->sim;
	uint64_t end = rd_sim_now(sim) + MOUNT_TIMEOUT;

	sleep_briefly(sim);
	while (!client_reaches(c) || c->cluster->stalled_until > rd_sim_now(sim)) {
		if (c->process->dead)
			return -ESHUTDOWN;
		if (rd_sim_now(sim) >= end)
			return -ETIMEDOUT;
		fiber_sleep(MOUNT_LOOK);
	}
	return client_get_map(c);
}

int rados_cluster_fsid(rados_t cluster, char *buf, size_t len)
{
	(void)cluster;
	return snprintf(buf, len, "5d3a1c9e-0000-4000-8000-000000000001");
}

void rados_shutdown(rados_t cluster)
{
	struct client *c = cluster;
	const struct op *op;

	sleep_briefly(c->cluster->sim);
	LIST_FOREACH (op, &c->cluster->ops, link)
		if (op->client == c && op->state == OP_WAITS)
			cluster_violated(c->cluster, "a connection ends with a question in flight");
}

uint64_t rados_get_instance_id(rados_t cluster)
{
	return ((struct client *)cluster)->id;
}

void rados_set_pool_full_try(rados_ioctx_t io)
{
	(void)io; /* no pool is full here */
}

int rados_ioctx_create(rados_t cluster, const char *pool_name, rados_ioctx_t *ioctx)
{
	struct ioctx *io = calloc(1, sizeof(*io));
	char name[16];

	*ioctx = io;
	if (!io)
		return -ENOMEM;
	io->client = cluster;
	while (snprintf(name, sizeof(name), CLUSTER_POOL, io->pool) && strcmp(name, pool_name) != 0)
		io->pool++;
	sleep_briefly(io->client->cluster->sim);
	return 0;
}

void rados_ioctx_destroy(rados_ioctx_t io)
{
	free(io);
}

int64_t rados_ioctx_get_id(rados_ioctx_t io)
{
	return ((struct ioctx *)io)->pool + 1;
}

void rados_ioctx_set_namespace(rados_ioctx_t io, const char *nspace)
{
	(void)io, (void)nspace;
}

/* ---- objects ---- */

struct write_op {
	struct op op;
	struct ioctx *ctx;
	const char *name;
	bool has_version, exclusive, creates;
	uint64_t version; /* that is expected; afterwards the new one */
	const char *text;
	size_t len;
};

struct read_op {
	struct op op;
	struct ioctx *ctx;
	const char *name;
	char *buf;
	size_t len;
	uint64_t version;
};

/* @name "": one that is not used. */
static struct object *find_object(struct cluster *cl, unsigned int pool, const char *name)
{
	for (unsigned int i = 0; i < sizeof(cl->objects) / sizeof(cl->objects[0]); i++)
		if (strcmp(cl->objects[i].name, name) == 0 &&
		    (!name[0] || cl->objects[i].pool == pool))
			return &cl->objects[i];
	return NULL;
}

static int read_exec(struct op *op)
{
	struct read_op *read = rd_container_of(op, struct read_op, op);
	const struct object *object = find_object(op->client->cluster, op->pool, read->name);

	read->ctx->read_version = object ? object->version : 0;
	if (!object)
		return -ENOENT;
	read->version = object->version;
	if (read->len > object->len)
		read->len = object->len;
	memcpy(read->buf, object->text, read->len);
	return (int)read->len;
}

int rados_read(rados_ioctx_t io, const char *oid, char *buf, size_t len, uint64_t off)
{
	struct ioctx *ctx = io;
	struct read_op read = {.op = {.exec = read_exec, .pool = ctx->pool},
			       .ctx = ctx,
			       .name = oid,
			       .buf = buf,
			       .len = len};
	int rc;

	(void)off;
	rc = op_call(ctx->client, &read.op);
	if (rc >= 0)
		ctx->version = read.version;
	return rc;
}

uint64_t rados_get_last_version(rados_ioctx_t io)
{
	return ((struct ioctx *)io)->version;
}

rados_write_op_t rados_create_write_op(void)
{
	return calloc(1, sizeof(struct write_op));
}

void rados_release_write_op(rados_write_op_t write_op)
{
	free(write_op);
}

void rados_write_op_assert_version(rados_write_op_t write_op, uint64_t ver)
{
	struct write_op *w = write_op;

	w->has_version = true;
	w->version = ver;
}

void rados_write_op_create(rados_write_op_t write_op, int exclusive, const char *category)
{
	struct write_op *w = write_op;

	(void)category;
	w->creates = true;
	w->exclusive = exclusive == LIBRADOS_CREATE_EXCLUSIVE;
}

void rados_write_op_write_full(rados_write_op_t write_op, const char *buffer, size_t len)
{
	struct write_op *w = write_op;

	w->text = buffer;
	w->len = len;
}

static int may_write(const struct write_op *w, const struct object *object)
{
	if (w->has_version && !object)
		return -ENOENT;
	if (w->has_version && w->version != object->version)
		return w->version < object->version ? -ERANGE : -EOVERFLOW;
	return w->exclusive && object ? -EEXIST : 0;
}

static int write_exec(struct op *op)
{
	struct write_op *w = rd_container_of(op, struct write_op, op);
	struct client *c = op->client;
	struct cluster *cl = c->cluster;
	struct object *object = find_object(cl, op->pool, w->name);
	int rc = may_write(w, object);

	if (rc || (object && !w->text))
		return rc;
	if (w->text && w->ctx->read_version != (object ? object->version : 0))
		cluster_violated(cl,
				 "the client %s has replaced a shared state that it has not read",
				 c->addr);
	if (!object) {
		object = find_object(cl, op->pool, "");
		if (!object)
			abort();
		object->pool = op->pool;
		snprintf(object->name, sizeof(object->name), "%s", w->name);
	}
	object->version++;
	if (!w->text)
		return 0;
	free(object->text);
	object->text = malloc(w->len + 1);
	if (!object->text)
		abort();
	memcpy(object->text, w->text, w->len);
	object->len = w->len;
	w->version = w->ctx->read_version = object->version;
	rd_sim_tell(cl->sim, "cluster: client %s writes version %llu of %s", c->addr,
		    (unsigned long long)object->version, object->name);
	return 0;
}

int rados_write_op_operate(rados_write_op_t write_op, rados_ioctx_t io, const char *oid,
			   time_t *mtime, int flags)
{
	struct write_op *w = write_op;
	struct ioctx *ctx = io;
	int rc;

	(void)mtime, (void)flags;
	w->name = oid;
	w->ctx = ctx;
	w->op.exec = write_exec;
	w->op.pool = ctx->pool;
	rc = op_call(ctx->client, &w->op);
	if (!rc && w->text)
		ctx->version = w->version;
	return rc;
}

struct aio_write {
	struct write_op write; /* a copy: the caller releases its own at once */
	struct completion *completion;
};

static void complete_aio(struct completion *c, int result)
{
	c->result = result;
	c->fn(c, c->arg);
}

static void aio_write_done(struct op *op)
{
	struct aio_write *aio = rd_container_of(op, struct aio_write, write.op);
	struct completion *c = aio->completion;
	int result = op->result;

	free(aio);
	complete_aio(c, result);
}

int rados_aio_write_op_operate(rados_write_op_t write_op, rados_ioctx_t io,
			       rados_completion_t completion, const char *oid, time_t *mtime,
			       int flags)
{
	struct aio_write *aio = calloc(1, sizeof(*aio));

	(void)mtime, (void)flags;
	if (!aio)
		return -ENOMEM;
	aio->write = *(struct write_op *)write_op;
	aio->write.name = oid;
	aio->write.op.exec = write_exec;
	aio->write.op.pool = ((struct ioctx *)io)->pool;
	aio->write.op.done = aio_write_done;
	aio->completion = completion;
	op_send(((struct ioctx *)io)->client, &aio->write.op);
	return 0;
}

/* ---- commands to the monitor ---- */

/* Every client that is blocked, one a line. */
static int list_blocked(struct client *c, char **out, size_t *len)
{
	const struct client *other;
	int rc = client_ask_monitor(c);
	FILE *f;

	if (rc)
		return rc;
	f = open_memstream(out, len);
	if (!f)
		abort();
	LIST_FOREACH (other, &c->cluster->clients, link)
		if (other->blocked_epoch)
			fprintf(f, "%s 2026-01-01T00:00:00\n", other->addr);
	fclose(f);
	return 0;
}

int rados_wait_for_latest_osdmap(rados_t cluster)
{
	return client_get_map(cluster);
}

/* "osd blocklist ls" and "osd blocklist add" only. */
int rados_mon_command(rados_t cluster, const char **cmd, size_t cmdlen, const char *inbuf,
		      size_t inbuflen, char **outbuf, size_t *outbuflen, char **outs,
		      size_t *outslen)
{
	struct client *c = cluster, *victim;
	const char *expire = strstr(cmd[0], "\"expire\": ");
	uint64_t ns = BLOCK_DEFAULT;
	char addr[80];

	(void)cmdlen, (void)inbuf, (void)inbuflen;
	*outbuf = *outs = NULL;
	*outbuflen = *outslen = 0;
	if (strstr(cmd[0], "osd blocklist ls"))
		return list_blocked(c, outbuf, outbuflen);
	if (expire)
		ns = strtoull(expire + strlen("\"expire\": "), NULL, 10) * RD_NSEC_PER_SEC;
	LIST_FOREACH (victim, &c->cluster->clients, link) {
		snprintf(addr, sizeof(addr), "\"%s\"", victim->addr);
		if (strstr(cmd[0], "osd blocklist") && strstr(cmd[0], addr))
			break;
	}
	if (!victim)
		return -EINVAL;
	look_whether_blocked_again(c, victim);
	return client_block(c, victim, ns, false);
}

/* ---- watches ---- */

struct watch_op {
	struct op op;
	const char *object;
	struct watch *watch;
	uint64_t cookie;
	rados_watchcb2_t notified;
	rados_watcherrcb_t failed;
	void *arg;
	struct completion *completion; /* of an asynchronous call */
	uint64_t *out;
};

static int watch_exec(struct op *op)
{
	struct watch_op *w = rd_container_of(op, struct watch_op, op);

	w->watch = watch_new(op->client, op->pool, w->object, w->notified, w->failed, w->arg);
	return 0;
}

static void watch_done(struct op *op)
{
	struct watch_op *w = rd_container_of(op, struct watch_op, op);
	struct completion *c = w->completion;
	int result = op->result;

	if (!result)
		*w->out = w->watch->cookie;
	else if (w->watch)
		watch_free(w->watch); /* the answer says that it is not there */
	free(w);
	complete_aio(c, result);
}

int rados_aio_watch2(rados_ioctx_t io, const char *o, rados_completion_t completion,
		     uint64_t *handle, rados_watchcb2_t watchcb, rados_watcherrcb_t watcherrcb,
		     uint32_t timeout, void *arg)
{
	struct watch_op *w = calloc(1, sizeof(*w));

	(void)timeout;
	if (!w)
		return -ENOMEM;
	*w = (struct watch_op){
		.op = {.exec = watch_exec, .done = watch_done, .pool = ((struct ioctx *)io)->pool},
		.object = o,
		.notified = watchcb,
		.failed = watcherrcb,
		.arg = arg,
		.completion = completion,
		.out = handle};
	op_send(((struct ioctx *)io)->client, &w->op);
	return 0;
}

static int unwatch_exec(struct op *op)
{
	const struct watch_op *w = rd_container_of(op, struct watch_op, op);
	struct watcher *watcher = watcher_of(op->client->cluster, op->client, w->cookie);

	if (!watcher)
		return -ENOTCONN;
	watcher_remove(watcher);
	return 0;
}

static void forget_watch(const struct client *c, uint64_t cookie)
{
	struct watch *watch;

	LIST_FOREACH (watch, &c->cluster->watches, link)
		if (watch->client == c && watch->cookie == cookie)
			break;
	if (watch)
		watch_free(watch);
}

int rados_unwatch2(rados_ioctx_t io, uint64_t cookie)
{
	const struct ioctx *ctx = io;
	struct client *c = ctx->client;
	struct watch_op w = {.op = {.exec = unwatch_exec, .pool = ctx->pool}, .cookie = cookie};
	int rc = op_call(c, &w.op);

	forget_watch(c, cookie);
	return rc;
}

static void unwatch_done(struct op *op)
{
	struct watch_op *w = rd_container_of(op, struct watch_op, op);
	struct completion *c = w->completion;
	int result = op->result;

	forget_watch(op->client, w->cookie);
	free(w);
	complete_aio(c, result);
}

int rados_aio_unwatch(rados_ioctx_t io, uint64_t cookie, rados_completion_t completion)
{
	struct watch_op *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	*w = (struct watch_op){.op = {.exec = unwatch_exec,
				      .done = unwatch_done,
				      .pool = ((struct ioctx *)io)->pool},
			       .cookie = cookie,
			       .completion = completion};
	op_send(((struct ioctx *)io)->client, &w->op);
	return 0;
}

int rados_watch_flush(rados_t cluster)
{
	sleep_briefly(((struct client *)cluster)->cluster->sim);
	return 0;
}

/* ---- completions ---- */

int rados_aio_create_completion2(void *cb_arg, rados_callback_t cb_complete, rados_completion_t *pc)
{
	struct completion *c = calloc(1, sizeof(*c));

	*pc = c;
	if (!c)
		return -ENOMEM;
	c->fn = cb_complete;
	c->arg = cb_arg;
	return 0;
}

int rados_aio_get_return_value(rados_completion_t c)
{
	return (int)((struct completion *)c)->result;
}

void rados_aio_release(rados_completion_t c)
{
	free(c);
}
