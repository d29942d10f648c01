/* SPDX-License-Identifier: BSD-3-Clause */
/* Constructors of the built-in backends, called by rdt_bdev_open(), with the same contract. */
#ifndef RDT_BACKEND_TYPES_H
#define RDT_BACKEND_TYPES_H

#include "backend.h"
#include "target/config/config.h"

/* backend_file.c: regular files and block devices */
int rdt_file_open(const struct rdt_ns_config *cfg, struct rd_log *log, struct rdt_bdev **out,
		  char *err, size_t err_size);
bool rdt_file_released(const struct rdt_ns_config *cfg); /* implements rdt_bdev_released() */
int rdt_file_probe(const struct rdt_ns_config *cfg, char *err, size_t err_size);
/* backend_memory.c */
int rdt_memory_open(const struct rdt_ns_config *cfg, struct rd_log *log, struct rdt_bdev **out,
		    char *err, size_t err_size);
/* backend_null.c */
int rdt_null_open(const struct rdt_ns_config *cfg, struct rd_log *log, struct rdt_bdev **out,
		  char *err, size_t err_size);

#endif /* RDT_BACKEND_TYPES_H */
