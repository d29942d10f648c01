/* SPDX-License-Identifier: BSD-3-Clause */
/* What the functions of librados and librbd have in common. */
#ifndef SIM_RADOS_H
#define SIM_RADOS_H

#include "cluster.h"

/* A rados_ioctx_t. */
struct ioctx {
	struct client *client;
	unsigned int pool;
	uint64_t read_version; /* of the shared state: the version that was read */
	uint64_t version;      /* of the last operation */
};

#endif /* SIM_RADOS_H */
