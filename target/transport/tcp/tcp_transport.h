/* SPDX-License-Identifier: BSD-3-Clause */
/* The TCP transport, for the code that composes a target. */
#ifndef RDT_TCP_TRANSPORT_H
#define RDT_TCP_TRANSPORT_H

#include "target/nvmf/transport.h"

extern const struct rdt_transport rdt_tcp_transport;

#endif /* RDT_TCP_TRANSPORT_H */
