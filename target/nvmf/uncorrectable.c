/* SPDX-License-Identifier: BSD-3-Clause */
/* Write Uncorrectable: reads of the blocks fail until they are written. The blocks are recorded as
 * spans in memory, in a sorted list for each namespace, which is lost when the daemon ends; so the
 * command is supported only for storage whose contents are lost then too (RDT_OPS_MARKS). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/wire.h"
#include "io.h"
#include "range_lock.h"
#include "request.h"
#include "target/config/tgt_limits.h"

#define SPANS_MAX 4096u

void rdt_uncor_init(struct rdt_ns *ns)
{
	pthread_mutex_init(&ns->uncor.lock, NULL);
}

void rdt_uncor_fini(struct rdt_ns *ns)
{
	free(ns->uncor.spans);
	pthread_mutex_destroy(&ns->uncor.lock);
}

/* Returns the index of the first span that ends after @lba. */
static unsigned int find_span(const struct rdt_uncor *u, unsigned int n, uint64_t lba)
{
	unsigned int lo = 0;
	unsigned int hi = n;

	while (lo < hi) {
		unsigned int mid = lo + (hi - lo) / 2;

		if (u->spans[mid].to <= lba)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static unsigned int span_count(const struct rdt_uncor *u)
{
	return atomic_load_explicit(&u->count, memory_order_relaxed);
}

bool rdt_uncor_find(struct rdt_ns *ns, uint64_t lba, uint64_t blocks, uint64_t *bad)
{
	struct rdt_uncor *u = &ns->uncor;
	unsigned int i;
	bool found;

	pthread_mutex_lock(&u->lock);
	i = find_span(u, span_count(u), lba);
	found = i < span_count(u) && u->spans[i].from < lba + blocks;
	if (found)
		*bad = u->spans[i].from > lba ? u->spans[i].from : lba;
	pthread_mutex_unlock(&u->lock);
	return found;
}

/* Replace the spans @i to @j by @n others; there is room. */
static void replace_spans(struct rdt_uncor *u, unsigned int i, unsigned int j,
			  const struct rdt_span *with, unsigned int n)
{
	unsigned int count = span_count(u);

	memmove(&u->spans[i + n], &u->spans[j], (count - j) * sizeof(*with));
	memcpy(&u->spans[i], with, n * sizeof(*with));
	atomic_store_explicit(&u->count, count - (j - i) + n, memory_order_release);
}

/* Make room for one more span. */
static int grow_uncor(struct rdt_uncor *u)
{
	unsigned int size = u->size ? u->size * 2 : 16;
	struct rdt_span *more;

	if (span_count(u) < u->size)
		return 0;
	more = realloc(u->spans, size * sizeof(*more));
	if (!more)
		return -ENOMEM;
	u->spans = more;
	u->size = size;
	return 0;
}

void rdt_uncor_clear(struct rdt_ns *ns, uint64_t lba, uint64_t blocks)
{
	struct rdt_uncor *u = &ns->uncor;
	struct rdt_span rest[2];
	unsigned int i, j, n = 0;

	pthread_mutex_lock(&u->lock);
	i = j = find_span(u, span_count(u), lba);
	while (j < span_count(u) && u->spans[j].from < lba + blocks)
		j++;
	if (i < j) {
		if (u->spans[i].from < lba)
			rest[n++] = (struct rdt_span){u->spans[i].from, lba, true};
		/* Without memory to split a span, the blocks after the written ones are no longer
		 * uncorrectable. */
		if (u->spans[j - 1].to > lba + blocks && (!n || i + 1 < j || !grow_uncor(u)))
			rest[n++] = (struct rdt_span){lba + blocks, u->spans[j - 1].to, true};
		replace_spans(u, i, j, rest, n);
	}
	pthread_mutex_unlock(&u->lock);
}

/* Add a span and merge it with those that it touches. */
static int mark_span(struct rdt_ns *ns, uint64_t lba, uint64_t blocks)
{
	struct rdt_uncor *u = &ns->uncor;
	struct rdt_span all = {lba, lba + blocks, true};
	unsigned int i, j;
	int err;

	pthread_mutex_lock(&u->lock);
	i = j = find_span(u, span_count(u), lba ? lba - 1 : 0);
	while (j < span_count(u) && u->spans[j].from <= lba + blocks)
		j++;
	err = grow_uncor(u);
	if (!err && i == j && span_count(u) >= SPANS_MAX)
		err = -ENOSPC;
	if (!err) {
		if (i < j && u->spans[i].from < all.from)
			all.from = u->spans[i].from;
		if (i < j && u->spans[j - 1].to > all.to)
			all.to = u->spans[j - 1].to;
		replace_spans(u, i, j, &all, 1);
	}
	pthread_mutex_unlock(&u->lock);
	return err;
}

json_t *rdt_uncor_give(struct rdt_ns *ns)
{
	const struct rdt_uncor *u = &ns->uncor;
	json_t *list = json_array();

	for (unsigned int i = 0; list && i < span_count(u); i++)
		if (json_array_append_new(list, json_pack("[I, I]", (json_int_t)u->spans[i].from,
							  (json_int_t)u->spans[i].to))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

int rdt_uncor_inherit(struct rdt_ns *ns, const json_t *list)
{
	uint64_t blocks = atomic_load(&ns->blocks);
	const json_t *span;
	int err = 0;
	size_t i;

	json_array_foreach(list, i, span)
	{
		json_int_t from = json_integer_value(json_array_get(span, 0));
		json_int_t to = json_integer_value(json_array_get(span, 1));

		if (from < 0 || to <= from || (uint64_t)to > blocks)
			return -EPROTO;
		err = err ? err : mark_span(ns, (uint64_t)from, (uint64_t)(to - from));
	}
	return err;
}

struct nvme_status rdt_write_uncor_check(struct rdt_req *req)
{
	struct nvme_status st = rdt_io_admit(req);

	if (nvme_status_ok(st))
		st = rdt_io_check_dtype(req);
	return nvme_status_ok(st) ? rdt_io_check_blocks(req, RDT_WUSL ? RDT_POWER(RDT_WUSL) : 0)
				  : st;
}

static enum rdt_step mark_step(struct rdt_req *req)
{
	enum { LOCK, MARK };
	int err;

	if (req->work.phase++ == LOCK)
		return rdt_io_step_lock_blocks(req, true);
	if (req->channel->gated) { /* the process before may still clear some */
		req->status = nvme_status(NVME_SCT_GENERIC, NVME_SC_NS_NOT_READY);
		return RDT_STEP_DONE;
	}
	err = mark_span(req->ns, rdt_io_slba(req), rdt_io_nlb(req));
	if (err)
		req->status = err == -ENOSPC
				      ? nvme_status_dnr(NVME_SCT_GENERIC, NVME_SC_CAP_EXCEEDED)
				      : nvme_status(NVME_SCT_GENERIC, NVME_SC_CMD_INTERRUPTED);
	return RDT_STEP_DONE;
}

enum rdt_exec rdt_write_uncor_exec(struct rdt_req *req)
{
	return rdt_io_run(req, mark_step);
}
