/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of the connection manager, and what a refusal means. */
#ifndef RD_VB_CM_EVENT_H
#define RD_VB_CM_EVENT_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RD_VB_MAX_PRIVATE 256 /* rdma_cm has eight bits for the length */

/* An event, copied, so that it can be acknowledged before it is acted on. */
struct rd_vb_cm_event {
	enum rdma_cm_event_type type;
	int status;
	uint8_t peer_ird; /* initiator_depth: what the peer can hold of ours */
	uint8_t peer_ord;
	size_t pd_len;
	uint8_t pd[RD_VB_MAX_PRIVATE];
};

/* Why a connection was refused, and whether it was the peer's program that did (@by_peer). */
const char *rd_vb_reject_text(bool iwarp, const struct rd_vb_cm_event *ev, int *status,
			      bool *by_peer);

#endif /* RD_VB_CM_EVENT_H */
