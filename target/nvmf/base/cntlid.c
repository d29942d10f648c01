/* SPDX-License-Identifier: BSD-3-Clause */
#include "cntlid.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

struct rdt_cntlid_page {
	unsigned int used;
	uint64_t taken[RDT_CNTLID_PAGE / 64];
	struct rdt_ctrl *ctrls[RDT_CNTLID_PAGE];
};

struct rdt_ctrl *rdt_cntlid_find(const struct rdt_cntlids *ids, uint16_t cntlid)
{
	const struct rdt_cntlid_page *page = ids->pages[cntlid / RDT_CNTLID_PAGE];

	return page ? page->ctrls[cntlid % RDT_CNTLID_PAGE] : NULL;
}

uint32_t rdt_cntlid_next(const struct rdt_cntlids *ids, uint32_t from)
{
	while (from <= UINT16_MAX && !rdt_cntlid_find(ids, (uint16_t)from))
		from = ids->pages[from / RDT_CNTLID_PAGE]
			       ? from + 1
			       : (from / RDT_CNTLID_PAGE + 1) * RDT_CNTLID_PAGE;
	return from;
}

/* Returns the first free ID in @from to @to, or a value above @to. */
static uint32_t first_free_id(struct rdt_cntlids *ids, uint32_t from, uint32_t to)
{
	while (from <= to) {
		uint32_t n = from / RDT_CNTLID_PAGE;
		uint64_t room = ~ids->full[n / 64] >> n % 64;

		ids->looks++;
		if (!(room & 1)) {
			n = room ? n + (uint32_t)__builtin_ctzll(room) : (n / 64 + 1) * 64;
			from = n * RDT_CNTLID_PAGE;
			continue;
		}
		if (!ids->pages[n])
			return from;
		room = ~ids->pages[n]->taken[from % RDT_CNTLID_PAGE / 64] >> from % 64;
		if (room)
			return from + (uint32_t)__builtin_ctzll(room);
		from = (from / 64 + 1) * 64;
	}
	return from;
}

static void mark_id(struct rdt_cntlids *ids, uint32_t cntlid, bool taken)
{
	uint32_t n = cntlid / RDT_CNTLID_PAGE, at = cntlid % RDT_CNTLID_PAGE;
	struct rdt_cntlid_page *page = ids->pages[n];
	uint64_t bit = UINT64_C(1) << at % 64, full = UINT64_C(1) << n % 64;

	if (taken)
		page->taken[at / 64] |= bit;
	else
		page->taken[at / 64] &= ~bit;
	if (page->used == RDT_CNTLID_PAGE)
		ids->full[n / 64] |= full;
	else
		ids->full[n / 64] &= ~full;
}

int rdt_cntlid_give(struct rdt_cntlids *ids, uint16_t min, uint16_t max, uint16_t *next,
		    struct rdt_ctrl *ctrl, uint16_t *out)
{
	uint32_t cntlid = first_free_id(ids, *next, max);
	struct rdt_cntlid_page **page;

	if (cntlid > max)
		cntlid = first_free_id(ids, min, max);
	if (cntlid > max)
		return -EBUSY;
	page = &ids->pages[cntlid / RDT_CNTLID_PAGE];
	if (!*page)
		*page = calloc(1, sizeof(**page));
	if (!*page)
		return -ENOMEM;
	(*page)->ctrls[cntlid % RDT_CNTLID_PAGE] = ctrl;
	(*page)->used++;
	mark_id(ids, cntlid, true);
	*next = cntlid == max ? min : (uint16_t)(cntlid + 1);
	*out = (uint16_t)cntlid;
	return 0;
}

void rdt_cntlid_free(struct rdt_cntlids *ids, uint16_t cntlid)
{
	struct rdt_cntlid_page **page = &ids->pages[cntlid / RDT_CNTLID_PAGE];

	assert(rdt_cntlid_find(ids, cntlid));
	(*page)->ctrls[cntlid % RDT_CNTLID_PAGE] = NULL;
	(*page)->used--;
	mark_id(ids, cntlid, false);
	if ((*page)->used)
		return;
	free(*page);
	*page = NULL;
}
