/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/cold.h"
#include "backend_types.h"
#include "module.h"

/* Functions of each built-in kind of backend; NULL: nothing to do. Kinds without @open are
 * modules. */
struct opener {
	/* as rdt_bdev_open(), rdt_bdev_released() and rdt_bdev_probe() */
	int (*open)(const struct rdt_ns_config *cfg, struct rd_log *log, struct rdt_bdev **out,
		    char *err, size_t err_size);
	bool (*released)(const struct rdt_ns_config *cfg);
	int (*probe)(const struct rdt_ns_config *cfg, char *err, size_t err_size);
	/* as rdt_bdev_open_on(), with a descriptor; NULL: not supported */
	int (*open_on)(const struct rdt_ns_config *cfg, const struct rdt_bdev_from *from,
		       struct rd_log *log, struct rdt_bdev **out, char *err, size_t err_size);
};

static const struct opener openers[RDT_BACKENDS] = {
	[RDT_BACKEND_FILE] = {rdt_file_open, rdt_file_released, rdt_file_probe, rdt_file_open_on},
	[RDT_BACKEND_BLOCK] = {rdt_file_open, rdt_file_released, rdt_file_probe, rdt_file_open_on},
	[RDT_BACKEND_MEMORY] = {.open = rdt_memory_open, .open_on = rdt_memory_open_on},
	[RDT_BACKEND_NULL] = {.open = rdt_null_open},
};

static int open_backend(struct rdt_modules *modules, const struct rdt_ns_config *cfg,
			const struct rdt_bdev_from *from, struct rd_log *log, struct rdt_bdev **out,
			char *err, size_t err_size)
{
	const struct rdt_module *module;
	int fd = from ? from->fd : -1, rc;

	if (fd >= 0 && openers[cfg->backend].open_on)
		return openers[cfg->backend].open_on(cfg, from, log, out, err, err_size);
	if (fd >= 0)
		close(fd);
	if (openers[cfg->backend].open)
		return openers[cfg->backend].open(cfg, log, out, err, err_size);
	rc = rdt_module_load(modules, cfg->backend, &module, err, err_size);
	return rc ? rc
		  : module->open(module->ctx, cfg, from ? from->told : NULL, log, out, err,
				 err_size);
}

int rdt_bdev_open(struct rdt_modules *modules, const struct rdt_ns_config *cfg, struct rd_log *log,
		  struct rdt_bdev **out, char *err, size_t err_size)
{
	return rdt_bdev_open_on(modules, cfg, NULL, log, out, err, err_size);
}

static const struct rdt_bdev *lowest(const struct rdt_bdev *bdev)
{
	while (bdev->lower)
		bdev = bdev->lower;
	return bdev;
}

int rdt_bdev_share(const struct rdt_bdev *bdev)
{
	bdev = lowest(bdev);
	if (bdev->ops->told)
		return -ENODATA;
	return bdev->ops->share ? bdev->ops->share(bdev) : -EOPNOTSUPP;
}

bool rdt_bdev_found(const struct rdt_bdev *bdev, struct rdt_bdev_found *out)
{
	bdev = lowest(bdev);
	if (bdev->ops->found)
		bdev->ops->found(bdev, out);
	return bdev->ops->found;
}

bool rdt_bdev_told(struct rdt_bdev *bdev, struct rdt_bdev_told *out)
{
	bdev = rdt_bdev_base(bdev);
	if (bdev->ops->told)
		bdev->ops->told(bdev, out);
	return bdev->ops->told;
}

void rdt_bdev_hand(struct rdt_bdev *bdev, enum rdt_hand step)
{
	bdev = rdt_bdev_base(bdev);
	if (bdev->ops->hand)
		bdev->ops->hand(bdev, step);
}

int rdt_bdev_give(struct rdt_bdev *bdev, char text[RDT_BDEV_GIVEN])
{
	bdev = rdt_bdev_base(bdev);
	text[0] = '\0';
	return bdev->ops->give ? bdev->ops->give(bdev, text, RDT_BDEV_GIVEN) : 0;
}

int rdt_bdev_take(struct rdt_bdev *bdev, const char *text)
{
	bdev = rdt_bdev_base(bdev);
	return bdev->ops->take ? bdev->ops->take(bdev, text) : text[0] ? -EPROTO : 0;
}

int rdt_bdev_handed(const struct rdt_bdev *bdev)
{
	bdev = lowest(bdev);
	return bdev->ops->hand ? bdev->ops->handed(bdev) : 0;
}

int rdt_bdev_own(struct rdt_bdev *bdev, const struct rdt_ns_config *cfg, char *err, size_t err_size)
{
	bdev = rdt_bdev_base(bdev);
	return bdev->ops->own ? bdev->ops->own(bdev, cfg, err, err_size) : 0;
}

void rdt_bdev_name_user(const struct rdt_bdev *bdev, bool us)
{
	bdev = lowest(bdev);
	if (bdev->ops->name_user)
		bdev->ops->name_user(bdev, us);
}

int rdt_bdev_open_on(struct rdt_modules *modules, const struct rdt_ns_config *cfg,
		     const struct rdt_bdev_from *from, struct rd_log *log, struct rdt_bdev **out,
		     char *err, size_t err_size)
{
	int rc;

	*out = NULL;
	rc = open_backend(modules, cfg, from, log, out, err, err_size);
	if (rc)
		return rc;
	if ((*out)->path_id.known)
		(*out)->device = (*out)->path_id.dev;
	else if (!(*out)->device &&
		 cfg->layers_count) /* a delayed bio may hang, so it is a device of its own */
		(*out)->device = (uintptr_t)*out;
	rc = rdt_layers_open(cfg, out);
	if (rc) {
		snprintf(err, err_size, "layers: out of memory");
		rdt_bdev_close(out);
	}
	return rc;
}

bool rdt_bdev_released(struct rdt_modules *modules, const struct rdt_ns_config *cfg)
{
	const struct opener *opener = &openers[cfg->backend];
	const struct rdt_module *module;
	char err[8];

	if (opener->open)
		return !opener->released || opener->released(cfg);
	return rdt_module_load(modules, cfg->backend, &module, err, sizeof(err)) ||
	       module->released(module->ctx, cfg);
}

int rdt_bdev_probe(struct rdt_modules *modules, const struct rdt_ns_config *cfg, char *err,
		   size_t err_size)
{
	const struct opener *opener = &openers[cfg->backend];
	const struct rdt_module *module;
	int rc;

	if (opener->open)
		return opener->probe ? opener->probe(cfg, err, err_size) : 0;
	rc = rdt_module_load(modules, cfg->backend, &module, err, err_size);
	return rc ? rc : module->probe(module->ctx, cfg, err, err_size);
}

int rdt_bdev_opened(struct rdt_bdev *bdev, char *err, size_t err_size)
{
	return bdev->ops->opened ? bdev->ops->opened(bdev, err, err_size) : 0;
}

void rdt_bdev_watch(struct rdt_bdev *bdev, void (*fn)(void *arg), void *arg)
{
	struct rdt_bdev *base = rdt_bdev_base(bdev);

	base->on_changed_arg = arg;
	atomic_store(&base->on_changed, fn);
	if (atomic_load(&base->changed))
		fn(arg);
}

void rdt_bdev_detach(struct rdt_bdev *bdev)
{
	struct rdt_bdev *base;

	if (!bdev)
		return;
	base = rdt_bdev_base(bdev);
	base->on_fault = NULL;
	atomic_store(&base->on_changed, NULL);
	/* Another thread may still be calling the function, which only posts a message. */
	while (atomic_load(&base->calling))
		sched_yield();
}

bool rdt_bdev_claim(struct rdt_bdev *bdev, enum rdt_claim claim)
{
	struct rdt_bdev *base = rdt_bdev_base(bdev);

	return base->ops->claim && base->ops->claim(base, claim);
}

bool rdt_bdev_take_changed(struct rdt_bdev *bdev)
{
	return atomic_exchange(&rdt_bdev_base(bdev)->changed, false);
}

static bool sync_in_doubt(int err, bool after_write)
{
	switch (-err) {
	case ECANCELED:
	case EINTR:
	case EAGAIN:
	case EINVAL:
	case ENOSYS:
	case EOPNOTSUPP:
		return false;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
	case EROFS:
	case EPERM:
	case EACCES:
	case ENOMEM:
		return !after_write;
	default:
		return true;
	}
}

/* Stores the fault. Returns whether it is new. */
static bool remember(struct rdt_bdev *base, enum rdt_fault fault)
{
	int64_t never = 0;

	atomic_compare_exchange_strong(&base->fault_since, &never, time(NULL));
	return !(atomic_fetch_or(&base->faults, 1u << fault) & 1u << fault);
}

void rdt_bdev_sync_failed(struct rdt_bdev *bdev, struct rd_log *log, const char *what, int err)
{
	struct rdt_bdev *base = rdt_bdev_base(bdev);
	int none = 0;

	atomic_compare_exchange_strong(&base->sync_err, &none, err);
	if (!remember(base, RDT_FAULT_SYNC))
		return;
	rd_err(log, RD_LOG_BACKEND,
	       "%s%s: SYNC FAILED: %s (errno %d): data that hosts were told is stored may be lost. "
	       "From now on every write and Flush of every host fails; reads continue. Check the "
	       "storage; then remove the namespace from the configuration, send SIGHUP, check or "
	       "restore its data, add it again and send SIGHUP (or restart rdtarget)",
	       base->owner, what, strerror(-err), -err);
	if (base->on_fault)
		base->on_fault(base->on_fault_arg);
}

void rdt_bdev_ended_early(struct rdt_bdev *bdev, struct rd_log *log, const char *what, uint64_t end)
{
	struct rdt_bdev *base = rdt_bdev_base(bdev);
	uint64_t before = atomic_load(&base->data_end);

	/* Keep the smallest end. 0 means none, so it is stored as 1, which loses no block. */
	end = end ? end : 1;
	while ((!before || end < before) &&
	       !atomic_compare_exchange_weak(&base->data_end, &before, end))
		;
	if (!remember(base, RDT_FAULT_SHORT))
		return;
	rd_err(log, RD_LOG_BACKEND,
	       "%s%s: DATA IS MISSING: it ends at or before byte %llu, but %llu bytes are served. "
	       "From now on every write and Flush of every host fails, and every read beyond that "
	       "byte. Restore it; then remove the namespace from the configuration, send "
	       "SIGHUP, add it again and send SIGHUP (or restart rdtarget)",
	       base->owner, what, (unsigned long long)end, (unsigned long long)base->size);
	if (base->on_fault)
		base->on_fault(base->on_fault_arg);
}

bool rdt_bdev_noticed(struct rdt_bdev *bdev, struct rdt_noticed *out)
{
	struct rdt_bdev *base = rdt_bdev_base(bdev);
	uint32_t faults = atomic_load(&base->faults);

	if (!faults && atomic_load(&base->cut_off)) {
		out->kind = "cut-off";
		out->since = atomic_load(&base->cut_off_since);
		snprintf(out->text, sizeof(out->text),
			 "cut off from the cluster: hosts are sent to other paths; check the "
			 "network to its monitors and OSDs");
		return true;
	}
	if (!faults)
		return false;
	out->since = atomic_load(&base->fault_since);
	out->kind = faults & 1u << RDT_FAULT_SHORT ? "ended-early" : "sync-failed";
	if (faults & 1u << RDT_FAULT_SHORT)
		snprintf(out->text, sizeof(out->text),
			 "its storage ends at or before byte %llu: writes, and reads beyond it, "
			 "are refused",
			 (unsigned long long)atomic_load(&base->data_end));
	else
		snprintf(out->text, sizeof(out->text),
			 "a sync of its storage has failed (%s): writes are refused, and what "
			 "hosts wrote before may be lost",
			 strerror(-atomic_load(&base->sync_err)));
	return true;
}

int rdt_bdev_sync_error(struct rdt_bdev *bdev, struct rd_log *log, const char *what, int err,
			bool after_write)
{
	if (!sync_in_doubt(err, after_write))
		return err;
	rdt_bdev_sync_failed(bdev, log, what, err);
	return -ENOTRECOVERABLE;
}

bool rdt_extents_add(struct rdt_extents *ex, uint64_t from, uint64_t to)
{
	if (ex->count && ex->list[ex->count - 1].to == from) {
		ex->list[ex->count - 1].to = to;
		return true;
	}
	if (ex->count == ex->room) {
		ex->upto = from;
		return false;
	}
	ex->list[ex->count++] = (struct rdt_extent){from, to};
	return true;
}

RD_COLD enum rdt_bio_submit rdt_chan_check(struct rdt_chan *chan, struct rdt_bio *bio)
{
	struct rdt_bdev *bdev = chan->bdev;
	uint64_t size = atomic_load(&bdev->size);
	uint32_t faults = atomic_load(&bdev->faults);

	bio->result = -ERANGE;
	if (bio->offset > size || bio->length > size - bio->offset)
		return RDT_BIO_DONE;
	if (bio->op == RDT_BIO_READ && (!(faults & 1u << RDT_FAULT_SHORT) ||
					bio->offset + bio->length <= atomic_load(&bdev->data_end)))
		return bdev->ops->submit(chan, bio);
	bio->result = bio->op == RDT_BIO_READ ? -EIO : -ENOTRECOVERABLE;
	atomic_fetch_add(&bdev->refused, 1);
	return RDT_BIO_DONE;
}

int rdt_bdev_measure(struct rdt_bdev *bdev, uint64_t size, uint64_t *found, char *err,
		     size_t err_size)
{
	const struct rdt_bdev *base = rdt_bdev_base(bdev);

	*found = size;
	return base->ops->measure ? base->ops->measure(base, size, found, err, err_size) : 0;
}

/* Clears the fault if the namespace is now too small to contain the lost blocks. */
static void forget_lost_end(struct rdt_bdev *base)
{
	if (base->size > atomic_load(&base->data_end))
		return;
	atomic_fetch_and(&base->faults, ~(1u << RDT_FAULT_SHORT));
	atomic_store(&base->data_end, 0);
	if (!atomic_load(&base->faults))
		atomic_store(&base->fault_since, 0);
}

int rdt_bdev_take_size(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size)
{
	int rc;

	if (bdev->ops->resize) {
		rc = bdev->ops->resize(bdev, size, err, err_size);
		if (!rc && !bdev->lower)
			forget_lost_end(bdev);
		return rc;
	}
	if (!size || size == bdev->size)
		return 0;
	snprintf(err, err_size, "the size of backend %s cannot change", bdev->ops->name);
	return -EOPNOTSUPP;
}
