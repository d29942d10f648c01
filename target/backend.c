/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend.h"

#include <errno.h>
#include <stdio.h>

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

int rdt_bdev_resize(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size)
{
	if (bdev->ops->resize)
		return bdev->ops->resize(bdev, size, err, err_size);
	if (!size || size == bdev->size)
		return 0;
	snprintf(err, err_size, "the size of backend %s cannot change", bdev->ops->name);
	return -EOPNOTSUPP;
}
