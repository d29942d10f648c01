/* SPDX-License-Identifier: BSD-3-Clause */
#include "orders.h"

#include <string.h>

#include "nvmf/wire.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/io.h"

#include "world.h"

static bool may_be_executed(const struct order *o)
{
	return o->state == ORDER_BUSY || o->state == ORDER_UNKNOWN;
}

static bool looks_alike(const struct order *a, const struct order *b)
{
	return a->opcode == b->opcode && a->id == b->id && a->fua == b->fua &&
	       a->count == b->count && a->block[0] == b->block[0] && a->source[0] == b->source[0];
}

struct order *order_begins(struct orders *o, const struct order *like)
{
	struct order *order = &o->order[o->next % ORDERS];

	if (order->state == ORDER_BUSY)
		return NULL;
	for (unsigned int i = 0; i < ORDERS; i++)
		if (may_be_executed(&o->order[i]) && looks_alike(&o->order[i], like))
			return NULL;
	o->next++;
	*order = *like;
	order->state = ORDER_BUSY;
	return order;
}

void order_ends(struct order *order, bool unknown)
{
	if (order)
		order->state = unknown ? ORDER_UNKNOWN : ORDER_ENDED;
}

bool order_has_read_all(const struct order *order)
{
	return order->read == (1u << order->count) - 1;
}

/* ---- what the target executes ---- */

/* What the command of the target says, as far as looks_alike() looks. */
static struct order order_of(const struct rdt_req *req)
{
	const struct rdt_io_range *r = req->work.ranges;
	struct order o = {.opcode = req->sqe.opcode,
			  .fua = rdt_io_cdw12(req) & RDT_IO_FUA,
			  .id = le32toh(req->sqe.cdw15),
			  .count = rdt_io_nlb(req)};

	o.block[0] = (unsigned int)rdt_io_slba(req);
	if (o.opcode == nvme_cmd_dsm) {
		o.fua = false;
		o.block[0] = (unsigned int)r->lba;
	}
	if (o.opcode == nvme_cmd_copy)
		o.source[0] = (unsigned int)r->lba;
	if (o.opcode == nvme_cmd_dsm || o.opcode == nvme_cmd_copy)
		o.count = r->blocks;
	return o;
}

/* The one that is executed: of those that look alike, one that may be, or the last one, which is
 * executed again. A command of raw.c is known by its number. */
static struct order *find_order(struct orders *all, const struct rdt_req *req)
{
	struct order like = order_of(req), *found = NULL;

	for (unsigned int i = 1; i <= ORDERS; i++) {
		struct order *o = &all->order[(all->next - i) % ORDERS];

		if (o->state == ORDER_FREE || (like.id ? o->id != like.id : !looks_alike(o, &like)))
			continue;
		if (may_be_executed(o))
			return o;
		if (!found)
			found = o;
	}
	return found;
}

static const char *const names[256] = {
	[nvme_cmd_write_zeroes] = "Write Zeroes",
	[nvme_cmd_dsm] = "Deallocate",
	[nvme_cmd_copy] = "Copy",
	[nvme_cmd_verify] = "Verify",
};

/* The order of which @bio is a part, and the index of @block there; NULL: the host sends data. */
static struct order *order_of_bio(struct world *w, const struct rdt_bio *bio, unsigned int block,
				  bool source, unsigned int *index)
{
	const struct rdt_req *req = rd_container_of(bio, const struct rdt_req, bio);
	const char *name = names[req->sqe.opcode], *nqn = req->qp->ctrl->hostnqn;
	unsigned int host = (unsigned int)(nqn[strlen(nqn) - 1] - '0');
	struct order *o;

	if (!name)
		return NULL;
	o = find_order(&w->orders[host], req);
	for (unsigned int i = 0; o && i < o->count; i++)
		if ((source ? o->source[i] : o->block[i]) == block) {
			*index = i;
			return o;
		}
	world_fail(w, "host %u: the storage gets block %u of a %s that the host has not sent", host,
		   block, name);
	return NULL;
}

static void judge_copy(struct world *w, const struct order *o, unsigned int i, uint64_t value)
{
	if (check_block_of(value) != o->source[i])
		world_fail(w, "block %u gets what was in block %u by a Copy of block %u",
			   o->block[i], check_block_of(value), o->source[i]);
	else
		check_read(w->check, o->source[i], value, o->begin, rd_sim_now(w->sim));
}

uint64_t orders_store(void *arg, const struct rdt_bio *bio, unsigned int block, uint64_t value)
{
	struct world *w = arg;
	const struct rdt_req *req = rd_container_of(bio, const struct rdt_req, bio);
	unsigned int i;
	const struct order *o = order_of_bio(w, bio, block, false, &i);

	if (!o && req->sqe.flags & NVME_CMD_FUSE_SECOND &&
	    store_value(w->store, block) != check_expected(w->check, value))
		world_fail(w, "block %u: a Compare and Write replaces what it has not compared",
			   block);
	if (!o)
		return value;
	if (o->opcode == nvme_cmd_write_zeroes && bio->op == RDT_BIO_DEALLOCATE &&
	    !req->ns->bdev->deallocate_zeroes)
		world_fail(w, "block %u: a Write Zeroes deallocates what need not read as zeroes",
			   block);
	if (o->opcode == nvme_cmd_copy)
		judge_copy(w, o, i, value);
	return o->value[i];
}

void orders_read(void *arg, const struct rdt_bio *bio, unsigned int block)
{
	const struct rdt_req *req = rd_container_of(bio, const struct rdt_req, bio);
	struct order *o;
	unsigned int i;

	if (req->sqe.opcode != nvme_cmd_verify)
		return;
	o = order_of_bio(arg, bio, block, false, &i);
	if (o)
		o->read |= 1u << i;
}
