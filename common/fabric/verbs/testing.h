/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tests see of the provider's inside, and may do to it. Built into a library of its own, which
 * only tests link.
 */
#ifndef RD_VB_TESTING_H
#define RD_VB_TESTING_H

#include "fabric/fabric.h"

#include "stats.h"

struct rd_vb_test_conn {
	bool closed;     /* there is no queue pair any more */
	bool poke_armed; /* an empty message will be sent unless the peer speaks */
	bool hidden_out; /* an empty message has not completed */
	uint32_t sends;  /* the user's, that have not completed */
	uint32_t max_inline;
};

/* Valid until @fab is closed. */
const struct rd_vb_stats *rd_vb_test_stats(struct rd_fab *fab);
bool rd_vb_test_is_iwarp(struct rd_fab_dev *dev);
/* The driver is siw, and its quirks are in use. */
bool rd_vb_test_is_siw(struct rd_fab_dev *dev);
/* How many completion queues of the device @cq consists of. */
uint32_t rd_vb_test_cq_segments(struct rd_fab_cq *cq);
struct rd_vb_test_conn rd_vb_test_conn(struct rd_fab_conn *conn);
/* Send an empty READ or WRITE now, where the device's quirks have a place for it. */
void rd_vb_test_post_hidden(struct rd_fab_conn *conn, enum ibv_wr_opcode opcode);

#endif /* RD_VB_TESTING_H */
