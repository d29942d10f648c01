/* SPDX-License-Identifier: BSD-3-Clause */
/* The RDMA transport over fabric/fabric.h, for the code that composes a target. */
#ifndef RDT_RDMA_TRANSPORT_H
#define RDT_RDMA_TRANSPORT_H

#include "target/nvmf/transport.h"

extern const struct rdt_transport rdt_rdma_transport;

#endif /* RDT_RDMA_TRANSPORT_H */
