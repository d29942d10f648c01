/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of the connection manager; why it refused a connection. */
#ifndef RD_VB_CM_EVENT_H
#define RD_VB_CM_EVENT_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RD_VB_MAX_PRIVATE 256 /* rdma_cm has eight bits for the length */

/* A copy of an event, so that the event can be acknowledged before it is handled. */
struct rd_vb_cm_event {
	enum rdma_cm_event_type type;
	int status;
	uint8_t peer_ird; /* initiator_depth: READs that the peer can hold */
	uint8_t peer_ord;
	size_t pd_len;
	uint8_t pd[RD_VB_MAX_PRIVATE];
};

/*
 * Returns why a connection was refused, as a text. *@status: -errno. *@by_peer: the program at the
 * peer rejected it, not a connection manager.
 */
const char *rd_vb_reject_text(bool iwarp, const struct rd_vb_cm_event *ev, int *status,
			      bool *by_peer);

#endif /* RD_VB_CM_EVENT_H */
