/* SPDX-License-Identifier: BSD-3-Clause */
/* librbd, as far as the module rbd calls it: images, their size, their I/O. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../check.h"
#include "notify.h"
#include "rados.h"
#include "rbd_image.h"

#define IO_BLOCKS 64u

enum io_kind { IO_READ, IO_WRITE, IO_ZEROES, IO_DISCARD, IO_FLUSH };

struct rbd_io {
	struct op op;
	struct opened *o;
	struct completion *completion;
	enum io_kind kind;
	unsigned int block, count;
	bool clipped;
	char *buf;
	uint64_t values[IO_BLOCKS];
};

struct open_call {
	struct op op;
	const struct image *image;
	struct watch *header;
};

/* ---- open and close ---- */

static int open_exec(struct op *op)
{
	struct open_call *call = rd_container_of(op, struct open_call, op);

	call->header = watch_new(op->client, op->pool, call->image->header, NULL, NULL, NULL);
	return 0;
}

void opened_told(struct opened *o)
{
	struct process *before = process_enter(o->client->process);

	rd_sim_cancel(o->client->cluster->sim, &o->change);
	if (o->changed)
		o->changed(o->changed_arg);
	process_enter(before);
}

static void change_is_due(struct rd_sim_event *event)
{
	struct opened *o = rd_container_of(event, struct opened, change);
	const struct client *c = o->client;
	uint64_t now = rd_sim_now(c->cluster->sim), until = c->process->stalled_until;

	if (until < c->cluster->cut_until[c->process->number])
		until = c->cluster->cut_until[c->process->number];
	if (c->process->dead || !o->changed)
		return;
	if (until > now) {
		rd_sim_at(c->cluster->sim, event, fault_wait(c->cluster->sim, until));
		return;
	}
	opened_told(o);
}

static struct image *image_named(const struct ioctx *ctx, const char *name)
{
	struct cluster *cl = ctx->client->cluster;

	for (unsigned int i = 0; i < cl->images_count; i++)
		if (cl->images[i].pool == ctx->pool && strcmp(cl->images[i].name, name) == 0)
			return &cl->images[i];
	return NULL;
}

int rbd_open(rados_ioctx_t io, const char *name, rbd_image_t *out, const char *snap_name)
{
	const struct ioctx *ctx = io;
	struct client *c = ctx->client;
	struct image *image = image_named(ctx, name);
	struct open_call call = {.op = {.exec = open_exec, .pool = ctx->pool}, .image = image};
	struct opened *o;
	int rc;

	(void)snap_name;
	if (!image)
		return -ENOENT;
	rc = op_call(c, &call.op);
	if (rc) {
		if (call.header)
			watch_free(call.header);
		return rc;
	}
	o = calloc(1, sizeof(*o));
	if (!o)
		abort();
	o->client = c;
	o->image = image;
	o->cookie = call.header->cookie;
	o->header = call.header;
	o->change.fn = change_is_due;
	TAILQ_INIT(&o->idle);
	LIST_INSERT_HEAD(&c->cluster->opened, o, link);
	*out = o;
	return 0;
}

/* An image has its name as its ID. */
int rbd_open_by_id(rados_ioctx_t io, const char *id, rbd_image_t *image, const char *snap_name)
{
	return rbd_open(io, id, image, snap_name);
}

int rbd_open_by_id_read_only(rados_ioctx_t io, const char *id, rbd_image_t *image,
			     const char *snap_name)
{
	return rbd_open_by_id(io, id, image, snap_name);
}

int rbd_get_name(rbd_image_t image, char *name, size_t *name_len)
{
	snprintf(name, *name_len, "%s", ((struct opened *)image)->image->name);
	return 0;
}

int rbd_encryption_load(rbd_image_t image, rbd_encryption_format_t format,
			rbd_encryption_options_t opts, size_t opts_size)
{
	(void)image;
	(void)format;
	(void)opts;
	(void)opts_size;
	return -EOPNOTSUPP; /* no image of a simulation is encrypted */
}

int rbd_open_read_only(rados_ioctx_t io, const char *name, rbd_image_t *image,
		       const char *snap_name)
{
	return rbd_open(io, name, image, snap_name);
}

struct close_call {
	struct op op;
	struct opened *o;
};

static int close_exec(struct op *op)
{
	const struct opened *o = rd_container_of(op, struct close_call, op)->o;
	struct cluster *cl = op->client->cluster;
	struct watcher *w = watcher_of(cl, o->client, o->cookie);

	if (w)
		watcher_remove(w);
	return 0;
}

int rbd_close(rbd_image_t image)
{
	struct opened *o = image;
	struct close_call call = {.op = {.exec = close_exec, .pool = o->image->pool}, .o = o};

	while (o->ios)
		fiber_wait(&o->idle, UINT64_MAX);
	if (o->locked)
		rbd_lock_release(image);
	op_call(o->client, &call.op);
	watch_free(o->header);
	rd_sim_cancel(o->client->cluster->sim, &o->change);
	LIST_REMOVE(o, link);
	free(o);
	return 0;
}

int rbd_stat(rbd_image_t image, rbd_image_info_t *info, size_t infosize)
{
	memset(info, 0, infosize);
	info->obj_size = 4u << 20;
	return rbd_get_size(image, &info->size);
}

int rbd_get_features(rbd_image_t image, uint64_t *features)
{
	(void)image;
	*features = RBD_FEATURE_EXCLUSIVE_LOCK;
	return 0;
}

int rbd_config_image_list(rbd_image_t image, rbd_config_option_t *options, int *max_options)
{
	(void)image, (void)options;
	*max_options = 0;
	return 0;
}

void rbd_config_image_list_cleanup(rbd_config_option_t *options, int max_options)
{
	(void)options, (void)max_options;
}

int rbd_get_id(rbd_image_t image, char *id, size_t id_len)
{
	snprintf(id, id_len, "%s", ((struct opened *)image)->image->name);
	return 0;
}

struct size_call {
	struct op op;
	const struct image *image;
	uint64_t size;
};

static int size_exec(struct op *op)
{
	struct size_call *call = rd_container_of(op, struct size_call, op);

	call->size = (uint64_t)call->image->blocks * DISK_BLOCK;
	return 0;
}

int rbd_get_size(rbd_image_t image, uint64_t *size)
{
	const struct opened *o = image;
	struct size_call call = {.op = {.exec = size_exec, .pool = o->image->pool},
				 .image = o->image};
	int rc = op_call(o->client, &call.op);

	*size = call.size;
	return rc;
}

int rbd_update_watch(rbd_image_t image, uint64_t *handle, rbd_update_callback_t watch_cb, void *arg)
{
	struct opened *o = image;

	*handle = 1;
	o->changed = watch_cb;
	o->changed_arg = arg;
	return 0;
}

int rbd_update_unwatch(rbd_image_t image, uint64_t handle)
{
	struct opened *o = image;

	(void)handle;
	o->changed = NULL;
	return 0;
}

/* ---- completions ---- */

int rbd_aio_create_completion(void *cb_arg, rbd_callback_t complete_cb, rbd_completion_t *c)
{
	return rados_aio_create_completion2(cb_arg, complete_cb, c);
}

void rbd_aio_release(rbd_completion_t c)
{
	free(c);
}

ssize_t rbd_aio_get_return_value(rbd_completion_t c)
{
	return ((struct completion *)c)->result;
}

/* ---- I/O ---- */

static bool io_writes(const struct rbd_io *io)
{
	return io->kind != IO_READ && io->kind != IO_FLUSH;
}

/* The image's lock was broken, and nobody has had it since; an operator has removed the block of
 * the client that had it, which was to come before. The gateway that broke the lock has it blocked
 * again before it takes the lock. */
static bool is_last_holder(const struct image *image, const struct client *c)
{
	return !image->lock_client && image->had_lock == c && c->unblocked_at;
}

static int exec_write(struct rbd_io *io)
{
	struct opened *o = io->o;
	struct cluster *cl = o->client->cluster;
	struct image *image = o->image;

	if (!o->locked && rbd_owner_is(image, NULL, 0)) {
		image->lock_client = o->client; /* librbd takes a lock that is free by itself */
		image->lock_cookie = o->cookie;
	}
	if (!o->locked && !rbd_owner_is(image, o->client, o->cookie))
		return -EROFS;
	if (!rbd_owner_is(image, o->client, o->cookie) && !is_last_holder(image, o->client))
		cluster_violated(cl, "the client %s writes to %s while %s has the lock",
				 o->client->addr, image->name,
				 image->lock_client ? image->lock_client->addr : "nobody");
	for (unsigned int i = 0; i < io->count && io->block + i < image->blocks; i++) {
		image->values[io->block + i] = io->values[i];
		cl->written(cl->arg, io->values[i]);
		rd_sim_tell(cl->sim, "cluster: client %s: %s block %u: value %llu", o->client->addr,
			    image->name, io->block + i,
			    (unsigned long long)io->values[i] >> CHECK_BLOCK_BITS);
	}
	return 0;
}

static int io_exec(struct op *op)
{
	struct rbd_io *io = rd_container_of(op, struct rbd_io, op);
	const struct image *image = io->o->image;
	unsigned int left = io->block < image->blocks ? image->blocks - io->block : 0;

	io->clipped = io->count > left;
	if (io_writes(io))
		return exec_write(io);
	for (unsigned int i = 0; i < io->count && i < left; i++)
		io->values[i] = image->values[io->block + i];
	return (int)((io->clipped ? left : io->count) * DISK_BLOCK);
}

static void io_done(struct op *op)
{
	struct rbd_io *io = rd_container_of(op, struct rbd_io, op);
	struct opened *o = io->o;
	struct completion *c = io->completion;

	for (unsigned int i = 0; io->kind == IO_READ && (int)(i * DISK_BLOCK) < op->result; i++)
		block_fill(io->buf + i * DISK_BLOCK, io->values[i]);
	o->ios--;
	o->writes -= io_writes(io);
	if (op->result == -EROFS)
		o->refused_at = rd_sim_now(o->client->cluster->sim);
	if (!o->writes)
		fiber_wake(&o->idle);
	c->result = op->result;
	/* Its client has carried out the change, and tells its users before it answers. */
	if (io->clipped && io_writes(io))
		opened_told(o);
	free(io);
	c->fn(c, c->arg);
}

bool opened_writes(const struct opened *o)
{
	struct op *op;

	LIST_FOREACH (op, &o->client->cluster->ops, link)
		if (op->exec == io_exec && op->state == OP_UNDER_WAY) {
			const struct rbd_io *io = rd_container_of(op, struct rbd_io, op);

			if (io->o == o && io_writes(io))
				return true;
		}
	return false;
}

static int refused_exec(struct op *op)
{
	(void)op;
	return -EROFS;
}

/* librbd refuses a write before it sends it when it does not have the lock, or has noticed that the
 * client is blocked. Without a copy of the data such a write never completes. */
static bool write_is_kept(const struct opened *o, enum io_kind kind)
{
	const struct client *c = o->client;

	return kind == IO_WRITE && c->zero_copy &&
	       ((!o->locked && o->by_request) ||
		(c->blocked_epoch && c->blocked_epoch <= c->cluster->osd_epoch));
}

static int start_rbd_io(rbd_image_t image, enum io_kind kind, uint64_t off, uint64_t len, char *buf,
			rbd_completion_t c)
{
	struct opened *o = image;
	struct rbd_io *io = calloc(1, sizeof(*io));

	if (!io)
		return -ENOMEM;
	io->o = o;
	io->kind = kind;
	io->completion = c;
	io->buf = buf;
	io->block = (unsigned int)(off / DISK_BLOCK);
	io->count = (unsigned int)(len / DISK_BLOCK);
	if (io->count > IO_BLOCKS || io->block + io->count > CLUSTER_BLOCKS)
		cluster_violated(o->client->cluster, "an I/O is outside the image");
	for (unsigned int i = 0; i < io->count && kind == IO_WRITE; i++) {
		io->values[i] = block_value(buf + i * DISK_BLOCK);
		if (io->values[i] == UINT64_MAX)
			cluster_violated(o->client->cluster, "a write has a torn block");
	}
	io->op.done = io_done;
	io->op.pool = o->image->pool;
	io->op.exec = io_writes(io) && !o->locked && o->by_request ? refused_exec : io_exec;
	o->ios++;
	o->writes += io_writes(io);
	if (write_is_kept(o, kind))
		free(io);
	else
		op_send(o->client, &io->op);
	return 0;
}

int rbd_aio_read(rbd_image_t image, uint64_t off, size_t len, char *buf, rbd_completion_t c)
{
	return start_rbd_io(image, IO_READ, off, len, buf, c);
}

int rbd_aio_write(rbd_image_t image, uint64_t off, size_t len, const char *buf, rbd_completion_t c)
{
	return start_rbd_io(image, IO_WRITE, off, len, (char *)buf, c);
}

int rbd_aio_write_zeroes(rbd_image_t image, uint64_t off, size_t len, rbd_completion_t c,
			 int zero_flags, int op_flags)
{
	(void)zero_flags, (void)op_flags;
	return start_rbd_io(image, IO_ZEROES, off, len, NULL, c);
}

int rbd_aio_discard(rbd_image_t image, uint64_t off, uint64_t len, rbd_completion_t c)
{
	return start_rbd_io(image, IO_DISCARD, off, len, NULL, c);
}

int rbd_aio_flush(rbd_image_t image, rbd_completion_t c)
{
	return start_rbd_io(image, IO_FLUSH, 0, 0, NULL, c);
}
