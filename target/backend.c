/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend.h"

#include <errno.h>
#include <stdio.h>

#include "backend_types.h"

int rdt_bdev_open(const struct rdt_ns_config *cfg, struct rd_log *log, struct rdt_bdev **out,
		  char *err, size_t err_size)
{
	*out = NULL;
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
