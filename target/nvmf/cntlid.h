/* SPDX-License-Identifier: BSD-3-Clause */
/* The controllers of a subsystem by their IDs. Nothing here takes longer with more of them. */
#ifndef RDT_CNTLID_H
#define RDT_CNTLID_H

#include <stdint.h>

struct rdt_cntlid_page;
struct rdt_ctrl;

#define RDT_CNTLID_PAGE 256u /* IDs */

/* All zero is empty. A page is there while one of its IDs is in use: 2 KiB. */
struct rdt_cntlids {
	struct rdt_cntlid_page *pages[65536 / RDT_CNTLID_PAGE];
};

/*
 * A free ID from @min to @max for @ctrl, the first from @next on, which moves behind it: an ID is
 * not used again soon, since a host that still believes in an old one must not find a new
 * controller. Looks at 512 places at most. Returns 0, -EBUSY (none is free) or -ENOMEM.
 */
int rdt_cntlid_give(struct rdt_cntlids *ids, uint16_t min, uint16_t max, uint16_t *next,
		    struct rdt_ctrl *ctrl, uint16_t *out);
struct rdt_ctrl *rdt_cntlid_find(const struct rdt_cntlids *ids, uint16_t cntlid); /* or NULL */
void rdt_cntlid_free(struct rdt_cntlids *ids, uint16_t cntlid); /* one that was given */

#endif /* RDT_CNTLID_H */
