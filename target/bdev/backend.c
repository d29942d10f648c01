/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/cold.h"
#include "backend_types.h"
#include "layer.h"

static int open_backend(const struct rdt_ns_config *cfg, struct rd_log *log, struct rdt_bdev **out,
			char *err, size_t err_size)
{
	switch (cfg->backend) {
	case RDT_BACKEND_FILE:
	case RDT_BACKEND_BLOCK:
		return rdt_file_open(cfg, log, out, err, err_size);
	case RDT_BACKEND_MEMORY:
		return rdt_memory_open(cfg, log, out, err, err_size);
	case RDT_BACKEND_NULL:
		return rdt_null_open(cfg, log, out, err, err_size);
	}
	snprintf(err, err_size, "backend: unknown type %d", (int)cfg->backend);
	return -EINVAL;
}

int rdt_bdev_open(const struct rdt_ns_config *cfg, struct rd_log *log, struct rdt_bdev **out,
		  char *err, size_t err_size)
{
	int rc;

	*out = NULL;
	rc = open_backend(cfg, log, out, err, err_size);
	if (rc)
		return rc;
	rc = rdt_layers_open(cfg, out);
	if (rc) {
		snprintf(err, err_size, "layers: out of memory");
		rdt_bdev_close(out);
	}
	return rc;
}

bool rdt_bdev_released(const struct rdt_ns_config *cfg)
{
	if (cfg->backend != RDT_BACKEND_FILE && cfg->backend != RDT_BACKEND_BLOCK)
		return true;
	return rdt_file_released(cfg);
}

int rdt_bdev_probe(const struct rdt_ns_config *cfg, char *err, size_t err_size)
{
	if (cfg->backend != RDT_BACKEND_FILE && cfg->backend != RDT_BACKEND_BLOCK)
		return 0;
	return rdt_file_probe(cfg, err, err_size);
}

bool rdt_sync_in_doubt(int err, bool after_write)
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

void rdt_bdev_sync_failed(struct rdt_bdev *bdev, struct rd_log *log, const char *what, int err)
{
	struct rdt_bdev *base = rdt_bdev_base(bdev);
	int none = 0;

	if (!atomic_compare_exchange_strong(&base->sync_err, &none, err))
		return;
	rd_err(log, RD_LOG_BACKEND,
	       "%s: SYNC FAILED: %s (errno %d): data that hosts were told is stored may be lost. "
	       "From now on every write and Flush of every host fails, reads go on. Check the "
	       "storage; then remove the namespace from the configuration, send SIGHUP, check or "
	       "restore its data, add it again and send SIGHUP (or restart rdtarget)",
	       what, strerror(-err), -err);
	if (base->on_sync_failed)
		base->on_sync_failed(base->on_sync_failed_arg);
}

RD_COLD enum rdt_bio_submit rdt_chan_refuse(struct rdt_chan *chan, struct rdt_bio *bio)
{
	struct rdt_bdev *bdev = chan->bdev;
	uint64_t size = atomic_load(&bdev->size);

	bio->result = -ERANGE;
	if (bio->offset <= size && bio->length <= size - bio->offset) {
		bio->result = -ENOTRECOVERABLE;
		atomic_fetch_add(&bdev->sync_refused, 1);
	}
	return RDT_BIO_DONE;
}

int rdt_bdev_resize(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size)
{
	if (bdev->ops->resize)
		return bdev->ops->resize(bdev, size, err, err_size);
	if (!size || size == bdev->size)
		return 0;
	snprintf(err, err_size, "the size of backend %s cannot change", bdev->ops->name);
	return -EOPNOTSUPP;
}
