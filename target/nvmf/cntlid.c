/* SPDX-License-Identifier: BSD-3-Clause */
#include "cntlid.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

struct rdt_cntlid_page {
	unsigned int used;
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

/* The first free ID in @from to @to, or a value above @to. Skips full pages. */
static uint32_t first_free_id(const struct rdt_cntlids *ids, uint32_t from, uint32_t to)
{
	while (from <= to && rdt_cntlid_find(ids, (uint16_t)from)) {
		if (ids->pages[from / RDT_CNTLID_PAGE]->used == RDT_CNTLID_PAGE)
			from = (from / RDT_CNTLID_PAGE + 1) * RDT_CNTLID_PAGE;
		else
			from++;
	}
	return from;
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
	*next = cntlid == max ? min : (uint16_t)(cntlid + 1);
	*out = (uint16_t)cntlid;
	return 0;
}

void rdt_cntlid_free(struct rdt_cntlids *ids, uint16_t cntlid)
{
	struct rdt_cntlid_page **page = &ids->pages[cntlid / RDT_CNTLID_PAGE];

	assert(rdt_cntlid_find(ids, cntlid));
	(*page)->ctrls[cntlid % RDT_CNTLID_PAGE] = NULL;
	if (--(*page)->used)
		return;
	free(*page);
	*page = NULL;
}
