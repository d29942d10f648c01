/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands of a host that its device does not send: Write Uncorrectable, several ranges of Copy and
 * Dataset Management, hints, and flags. One at a time, on a queue of the channel. Nothing protects
 * later commands from one that is lost, so those that write are sent only by hosts that do not
 * repeat writes. They do not wait until lost commands of the device are safe (as other hosts do
 * not), except where the target cannot know of the loss: has_to_wait().
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/wire.h"

#include "faults.h"
#include "host_ctrl.h"
#include "io_judge.h"
#include "orders.h"
#include "sent_by.h"
#include "world.h"

#define PAUSE_STEPS 120 /* on average, between two commands of a host */
#define RANGES      3u
#define RANGE_MAX   2u /* blocks */
#define RANGE_APART 3u /* from the begin of one to that of the next */

#define CDW12_LR    (1u << 31)
#define CDW12_FUA   (1u << 30)
#define CDW12_DEAC  (1u << 25)
#define CDW12_COPY1 (1u << 8) /* source ranges of format 1 */
#define DSM_HINTS   0x3u      /* integral dataset for read, and for write */

enum raw_op {
	RAW_READ,
	RAW_COMPARE,
	RAW_VERIFY,
	RAW_HINT, /* Dataset Management without Deallocate */
	RAW_WRITE,
	RAW_ZEROES,
	RAW_DEALLOCATE,
	RAW_COPY,
	RAW_MARK,
	RAW_OPS,
};

static const struct {
	const char *name;
	uint8_t opcode;
	bool has_order;
} kinds[] = {
	[RAW_READ] = {"Read", nvme_cmd_read},
	[RAW_COMPARE] = {"Compare", nvme_cmd_compare},
	[RAW_VERIFY] = {"Verify", nvme_cmd_verify, true},
	[RAW_HINT] = {"Dataset Management", nvme_cmd_dsm},
	[RAW_WRITE] = {"Write", nvme_cmd_write},
	[RAW_ZEROES] = {"Write Zeroes", nvme_cmd_write_zeroes, true},
	[RAW_DEALLOCATE] = {"Deallocate", nvme_cmd_dsm, true},
	[RAW_COPY] = {"Copy", nvme_cmd_copy, true},
	[RAW_MARK] = {"Write Uncorrectable", nvme_cmd_write_uncor},
};

struct range {
	unsigned int block, count;
};

struct raw {
	struct world *w;
	unsigned int host;
	bool busy;
	enum raw_op op;
	uint32_t flags; /* CDW12_* */
	uint32_t ids;   /* given so far */
	struct sent_by by;
	struct order *order;
	struct io_facts facts;
	unsigned int ranges;
	struct range range[RANGES]; /* of Dataset Management; the sources of Copy; else one */
	uint64_t value[IO_BLOCKS];  /* of the blocks that are written, or expected */
	int mark[IO_BLOCKS];        /* their numbers */
	union {
		char blocks[RANGE_MAX * RANGES * DISK_BLOCK];
		struct nvme_dsm_range dsm[RANGES];
		uint8_t copy[RANGES * sizeof(struct nvme_copy_range_f1)];
	} data __attribute__((aligned(8)));
};

int raw_new(struct world *w, unsigned int host, struct raw **out)
{
	struct raw *r = calloc(1, sizeof(*r));

	*out = r;
	if (!r)
		return -ENOMEM;
	r->w = w;
	r->host = host;
	return 0;
}

void raw_free(struct raw *r)
{
	free(r);
}

bool raw_busy(const struct raw *r)
{
	return r->busy;
}

/* ---- the answer ---- */

/* A command of one range was not executed if the target refuses it in this way, nor one that was
 * not sent. */
static bool was_refused(const struct raw *r, const struct rdinit_completion *comp)
{
	unsigned int status = comp->status & 0x7ff;

	return comp->err == -EAGAIN ||
	       (comp->err == -EIO && r->ranges == 1 &&
		(status == NVME_SC_RESERVATION_CONFLICT || status == NVME_SC_NS_WRITE_PROTECTED ||
		 status >> 8 == NVME_SCT_PATH));
}

/* A write of unknown result is in progress for ever: the host waits for nothing before it writes
 * the block again by another path. */
static void write_ended(struct raw *r, const struct rdinit_completion *comp)
{
	struct world *w = r->w;
	uint64_t now = rd_sim_now(w->sim);

	for (unsigned int i = 0; i < r->facts.stores; i++) {
		unsigned int block = r->facts.store[i];

		if (r->op == RAW_MARK && was_refused(r, comp))
			marks_refused(w->marks, block, r->mark[i]);
		else if (r->op == RAW_MARK)
			marks_end(w->marks, block, r->mark[i], !comp->err, now);
		else if (!comp->err)
			check_write_done(w->check, r->value[i], now, r->flags & CDW12_FUA);
		else if (was_refused(r, comp))
			check_write_refused(w->check, r->value[i]);
		else if (comp->err == -EIO)
			check_write_settled(w->check, r->value[i], now);
	}
}

static void read_ended(struct raw *r)
{
	struct world *w = r->w;

	for (unsigned int i = 0; i < r->facts.reads; i++) {
		unsigned int block = r->facts.read[i];
		uint64_t value = r->op == RAW_READ ? block_value(r->data.blocks + i * DISK_BLOCK)
						   : r->value[i];

		if (value == UINT64_MAX) {
			world_fail(w, "host %u: block %u is torn", r->host, block);
			continue;
		}
		check_read(w->check, block, value, r->facts.begin, rd_sim_now(w->sim));
		if (r->flags & CDW12_FUA)
			check_read_durable(w->check, value, r->facts.begin);
	}
}

static void verify_ended(struct raw *r)
{
	if (!order_has_read_all(r->order))
		world_fail(r->w, "host %u: a Verify has succeeded that has not read all its blocks",
			   r->host);
	for (unsigned int i = 0; i < r->facts.reads && r->flags & CDW12_FUA; i++)
		check_flushed_block(r->w->check, r->facts.read[i], r->facts.begin);
}

static void raw_ended(void *user, const struct rdinit_completion *comp)
{
	struct raw *r = user;

	rd_sim_tell(r->w->sim, "host %u: %s of %u ranges: %d status 0x%x", r->host,
		    kinds[r->op].name, r->ranges, comp->err, comp->status);
	r->busy = false;
	io_judge_end(r->w, &r->facts, comp);
	if (r->facts.stores)
		write_ended(r, comp);
	else if (!comp->err && (r->op == RAW_READ || r->op == RAW_COMPARE))
		read_ended(r);
	else if (!comp->err && r->op == RAW_VERIFY)
		verify_ended(r);
	order_ends(r->order, comp->err && comp->err != -EIO);
}

/* ---- the command ---- */

/* Ranges that do not overlap, of blocks of @host, in any order. */
static void choose_ranges(struct raw *r, unsigned int host)
{
	struct rd_sim *sim = r->w->sim;
	bool backward = rd_sim_chance(sim, 1, 2);

	r->ranges = 1 + (unsigned int)rd_sim_below(sim, RANGES);
	for (unsigned int i = 0; i < r->ranges; i++) {
		unsigned int at = backward ? r->ranges - 1 - i : i;

		r->range[i].block = host * WORLD_OWN + at * RANGE_APART;
		r->range[i].count = 1 + (unsigned int)rd_sim_below(sim, RANGE_MAX);
	}
}

static void choose(struct raw *r)
{
	static const uint32_t flags[] = {CDW12_LR, CDW12_FUA, CDW12_DEAC, CDW12_COPY1};
	struct rd_sim *sim = r->w->sim;

	r->op = (enum raw_op)rd_sim_below(sim, r->w->no_resend ? RAW_OPS : RAW_WRITE);
	/* A mark hides the content for some time, and is an error of the medium for hosts. */
	if (r->op == RAW_MARK &&
	    (rd_sim_chance(sim, 2, 3) || !(r->w->opts.faults & 1u << FAULT_ERROR)))
		r->op = RAW_READ;
	r->flags = 0;
	for (unsigned int i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (rd_sim_chance(sim, 1, 2))
			r->flags |= flags[i];
	if (r->op == RAW_COPY)
		choose_ranges(r, (r->host + 1) % WORLD_HOSTS);
	else
		choose_ranges(r, r->host);
	if (r->op != RAW_COPY && kinds[r->op].opcode != nvme_cmd_dsm)
		r->ranges = 1;
	if (r->op < RAW_HINT)
		r->range[0].block = (unsigned int)rd_sim_below(sim, WORLD_BLOCKS - RANGE_MAX + 1);
	if (r->op != RAW_ZEROES)
		r->flags &= ~CDW12_DEAC;
	if (r->op != RAW_COPY)
		r->flags &= ~CDW12_COPY1;
	if (kinds[r->op].opcode == nvme_cmd_dsm || r->op == RAW_MARK)
		r->flags = 0;
}

/* Which blocks it reads and writes. */
static void fill_facts(struct raw *r)
{
	unsigned int to = r->host * WORLD_OWN;
	bool write = r->op >= RAW_WRITE;

	r->facts = (struct io_facts){
		.host = r->host,
		.begin = rd_sim_now(r->w->sim),
		.name = kinds[r->op].name,
		.writes = write || r->op == RAW_HINT,
		.protected = write,
		.syncs = r->flags & CDW12_FUA,
		.marks = r->op == RAW_MARK,
		.compares = r->op == RAW_COMPARE,
		.by_path = true,
	};
	for (unsigned int i = 0; i < r->ranges && r->op != RAW_HINT; i++)
		for (unsigned int n = 0; n < r->range[i].count; n++) {
			unsigned int block = r->range[i].block + n;

			if (!write || r->op == RAW_COPY)
				r->facts.read[r->facts.reads++] = block;
			if (write)
				r->facts.store[r->facts.stores++] =
					r->op == RAW_COPY ? to++ : block;
		}
}

/* Is a reactor stopped or blocked that has had no turn since @lost_at? It may have a write of a
 * queue that was lost then, which only the host knows. */
static bool reactor_is_behind(struct world *w, uint64_t lost_at)
{
	for (unsigned int i = ACTOR_REACTOR; i < ACTOR_DEV; i++) {
		const struct actor *actor = world_actor(w, i);

		if (actor->turned_at <= lost_at &&
		    (actor->blocked || actor->turned_at < actor->stalled_until))
			return true;
	}
	return false;
}

/* What stale-writes.md does not cover: another path continues before the target can know that the
 * first one is lost. So the device waits for its guards, and here the host does. */
static bool has_to_wait(const struct raw *r, const struct rdinit_dev *dev)
{
	const struct io_facts *f = &r->facts;
	const struct rdi_guard *guard;

	TAILQ_FOREACH (guard, &dev->guards.list, link)
		for (unsigned int i = 0; i < f->stores; i++)
			if (f->store[i] - guard->lba < guard->nblocks &&
			    f->begin < guard->safe_at &&
			    reactor_is_behind(r->w,
					      guard->safe_at - dev->paths[guard->path]->stale_ns))
				return true;
	return false;
}

static bool take_order(struct raw *r)
{
	const struct io_facts *f = &r->facts;
	struct order like = {.opcode = kinds[r->op].opcode,
			     .fua = r->flags & CDW12_FUA,
			     .id = r->ids + 1,
			     .count = f->stores ? f->stores : f->reads,
			     .begin = f->begin};

	r->order = NULL;
	if (!kinds[r->op].has_order)
		return true;
	memcpy(like.block, f->stores ? f->store : f->read, like.count * sizeof(like.block[0]));
	memcpy(like.source, f->read, f->reads * sizeof(like.source[0]));
	r->order = order_begins(&r->w->orders[r->host], &like);
	return r->order != NULL;
}

/* Returns false when the blocks were marked too often. */
static bool begin_marks(struct raw *r)
{
	const struct io_facts *f = &r->facts;
	bool begun = true;

	for (unsigned int i = 0; i < f->stores; i++) {
		r->mark[i] = marks_begin(r->w->marks, r->w->check, f->store[i], f->begin);
		begun &= r->mark[i] >= 0;
	}
	for (unsigned int i = 0; i < f->stores && !begun; i++)
		if (r->mark[i] >= 0)
			marks_refused(r->w->marks, f->store[i], r->mark[i]);
	return begun;
}

static void prepare_values(struct raw *r)
{
	const struct io_facts *f = &r->facts;
	struct check *check = r->w->check;

	for (unsigned int i = 0; i < f->stores; i++) {
		r->value[i] = check_value(check, f->store[i]);
		check_write_begins(check, r->host, r->value[i], f->begin);
		rd_sim_tell(r->w->sim, "host %u: writes block %u: value %llu", r->host, f->store[i],
			    (unsigned long long)r->value[i] >> CHECK_BLOCK_BITS);
		if (r->order)
			r->order->value[i] = r->value[i];
		if (r->op == RAW_WRITE)
			block_fill(r->data.blocks + i * DISK_BLOCK, r->value[i]);
	}
	for (unsigned int i = 0; i < f->reads && r->op == RAW_COMPARE; i++) {
		r->value[i] = store_value(r->w->store, f->read[i]);
		block_fill(r->data.blocks + i * DISK_BLOCK, r->value[i]);
	}
}

/* Of Dataset Management and Copy. Returns the length. */
static uint32_t put_ranges(struct raw *r)
{
	bool copy = r->op == RAW_COPY;
	size_t each = !copy                    ? sizeof(struct nvme_dsm_range)
		      : r->flags & CDW12_COPY1 ? sizeof(struct nvme_copy_range_f1)
					       : sizeof(struct nvme_copy_range);

	memset(&r->data, 0, sizeof(r->data));
	for (unsigned int i = 0; i < r->ranges; i++) {
		struct nvme_copy_range from = {.slba = htole64(r->range[i].block),
					       .nlb = htole16((uint16_t)(r->range[i].count - 1))};
		struct nvme_dsm_range range = {.slba = htole64(r->range[i].block),
					       .nlb = htole32(r->range[i].count)};

		if (copy)
			memcpy(r->data.copy + i * each, &from, sizeof(from));
		else
			r->data.dsm[i] = range;
	}
	return (uint32_t)(each * r->ranges);
}

static void fill_command(struct raw *r, struct rdinit_passthru *cmd)
{
	const struct io_facts *f = &r->facts;
	bool dsm = kinds[r->op].opcode == nvme_cmd_dsm, copy = r->op == RAW_COPY;
	bool out = r->op == RAW_WRITE || r->op == RAW_COMPARE;

	rdinit_passthru_init(cmd);
	cmd->sqe[0] = kinds[r->op].opcode;
	put_dword(cmd, 1, 1);
	put_dword(cmd, 10, dsm ? r->ranges - 1 : copy ? f->store[0] : r->range[0].block);
	put_dword(cmd, 11, !dsm ? 0 : r->op == RAW_HINT ? DSM_HINTS : NVME_DSMGMT_AD);
	put_dword(cmd, 12, dsm ? 0 : r->flags | ((copy ? r->ranges : r->range[0].count) - 1));
	put_dword(cmd, 15, r->ids);
	if (dsm || copy)
		cmd->len = put_ranges(r);
	else if (out || r->op == RAW_READ)
		cmd->len = r->range[0].count * DISK_BLOCK;
	cmd->data = cmd->len ? &r->data : NULL;
	cmd->flags = cmd->len && r->op != RAW_READ ? RDINIT_PASSTHRU_WRITE : 0;
	/* The channel takes each command that exceeds its time for one of its own. */
	cmd->timeout_ms = UINT32_MAX;
}

static void send_raw(struct raw *r, struct rdi_chan_path *cp)
{
	static const struct rdinit_completion not_sent = {.err = -EAGAIN, .text = ""};
	struct rdinit_passthru cmd;

	r->ids++;
	r->by = (struct sent_by){.cp = cp, .epoch = cp->epoch, .since = r->facts.begin};
	if (r->op != RAW_MARK)
		prepare_values(r);
	fill_command(r, &cmd);
	rd_sim_tell(r->w->sim, "host %u: sends a %s of %u ranges from block %u+%u", r->host,
		    kinds[r->op].name, r->ranges, r->range[0].block, r->range[0].count);
	r->busy = true;
	if (rdinit_io_passthru_async(cp->qp, &cmd, NULL, raw_ended, r))
		raw_ended(r, &not_sent);
}

void raw_acts(struct raw *r, struct rdinit_dev_chan *chan)
{
	struct rd_sim *sim = r->w->sim;
	struct rdi_chan_path *cp = &chan->paths[rd_sim_below(sim, WORLD_PATHS)];

	if (r->busy) {
		sent_by_look(&r->by, rd_sim_now(sim), "a command");
		return;
	}
	if (r->w->ending || r->w->quiet_until > rd_sim_now(sim) || !cp->up ||
	    r->w->opts.faults & (FAULTS_FENCE | FAULTS_KEYS) || !rd_sim_chance(sim, 1, PAUSE_STEPS))
		return;
	choose(r);
	fill_facts(r);
	if (!has_to_wait(r, chan->dev) && take_order(r) && (r->op != RAW_MARK || begin_marks(r)))
		send_raw(r, cp);
}
