/* SPDX-License-Identifier: BSD-3-Clause */
/* The controllers of a subsystem by controller ID. All operations take a time that
 * does not depend on their number. */
#ifndef RDT_CNTLID_H
#define RDT_CNTLID_H

#include <stdint.h>

struct rdt_cntlid_page;
struct rdt_ctrl;

#define RDT_CNTLID_PAGE 256u /* IDs of a page */

/* All zero: empty. A page of 2 KiB exists while one of its IDs is in use. */
struct rdt_cntlids {
	struct rdt_cntlid_page *pages[65536 / RDT_CNTLID_PAGE];
};

/*
 * Take a free ID from @min to @max for @ctrl, the first from *@next on, and advance *@next: an ID
 * is not reused soon, because a host that still uses the old controller must not reach a new one.
 * Examines at most 512 entries. Returns 0, -EBUSY when none is free, or -ENOMEM.
 */
int rdt_cntlid_give(struct rdt_cntlids *ids, uint16_t min, uint16_t max, uint16_t *next,
		    struct rdt_ctrl *ctrl, uint16_t *out);
struct rdt_ctrl *rdt_cntlid_find(const struct rdt_cntlids *ids, uint16_t cntlid); /* or NULL */
/* The lowest ID in use from @from on; above UINT16_MAX: none. */
uint32_t rdt_cntlid_next(const struct rdt_cntlids *ids, uint32_t from);
void rdt_cntlid_free(struct rdt_cntlids *ids, uint16_t cntlid); /* an ID that is in use */

#endif /* RDT_CNTLID_H */
