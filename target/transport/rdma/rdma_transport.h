/* SPDX-License-Identifier: BSD-3-Clause */
/* The RDMA transport over fabric/fabric.h, for the code that composes a target. */
#ifndef RDT_RDMA_TRANSPORT_H
#define RDT_RDMA_TRANSPORT_H

#include "target/nvmf/transport.h"

struct rd_fab;
struct rd_fab_iwarp_opts;
struct rd_loop;

extern const struct rdt_transport rdt_rdma_transport;

/* rdt_env.transport_env[RDT_TRANSPORT_RDMA] */
struct rdt_rdma_env {
	/* opens the fabric of provider iwarp */
	int (*fab_open)(struct rd_loop *loop, const struct rd_fab_iwarp_opts *opts,
			struct rd_fab **out);
};

#endif /* RDT_RDMA_TRANSPORT_H */
