/* SPDX-License-Identifier: BSD-3-Clause */
/* The controllers of a subsystem by controller ID. The time of all operations does not depend on
 * their number. */
#ifndef RDT_CNTLID_H
#define RDT_CNTLID_H

#include <stdint.h>

struct rdt_cntlid_page;
struct rdt_ctrl;

#define RDT_CNTLID_PAGE  256u /* IDs of a page */
#define RDT_CNTLID_PAGES (65536 / RDT_CNTLID_PAGE)

/* All zero: empty. A page of 2 KiB exists while one of its IDs is in use. */
struct rdt_cntlids {
	struct rdt_cntlid_page *pages[RDT_CNTLID_PAGES];
	uint64_t full[RDT_CNTLID_PAGES / 64]; /* pages without a free ID */
	uint64_t looks; /* number of words examined by all searches, for tests */
};

/*
 * Assign a free ID from @min to @max to @ctrl, the first from *@next on, and advance *@next: an ID
 * is not reused soon, because a host that still uses the old controller must not reach a new one.
 * Examines at most 16 words of the pages' bitmaps, or twice that at the end of the range. Returns
 * 0, -EBUSY if no ID is free, or -ENOMEM.
 */
int rdt_cntlid_give(struct rdt_cntlids *ids, uint16_t min, uint16_t max, uint16_t *next,
		    struct rdt_ctrl *ctrl, uint16_t *out);
struct rdt_ctrl *rdt_cntlid_find(const struct rdt_cntlids *ids, uint16_t cntlid); /* or NULL */
/* Returns the lowest ID in use from @from on, or a value above UINT16_MAX. */
uint32_t rdt_cntlid_next(const struct rdt_cntlids *ids, uint32_t from);
void rdt_cntlid_free(struct rdt_cntlids *ids, uint16_t cntlid); /* @cntlid must be in use */

#endif /* RDT_CNTLID_H */
