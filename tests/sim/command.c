/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commands of a device. The begin and the outcome of each are in the history, and judged. With
 * two gateways only those that need no answer of the storage to the question whose they are.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nvmf/wire.h"

#include "faults.h"
#include "host.h"
#include "io_judge.h"

#define FIRST_SHARED (WORLD_BLOCKS - WORLD_SHARED)
#define NOBODYS      (UINT64_MAX - 1) /* a value that no block ever has */

static const char *const names[] = {
	[RDINIT_DEV_READ] = "Read",
	[RDINIT_DEV_WRITE] = "Write",
	[RDINIT_DEV_FLUSH] = "Flush",
	[RDINIT_DEV_WRITE_ZEROES] = "Write Zeroes",
	[RDINIT_DEV_DEALLOCATE] = "Deallocate",
	[RDINIT_DEV_VERIFY] = "Verify",
	[RDINIT_DEV_COMPARE] = "Compare",
	[RDINIT_DEV_COMPARE_WRITE] = "Compare and Write",
	[RDINIT_DEV_COPY] = "Copy",
};

/* 0: the device sends data. */
static const uint8_t order_opcodes[] = {
	[RDINIT_DEV_WRITE_ZEROES] = nvme_cmd_write_zeroes,
	[RDINIT_DEV_DEALLOCATE] = nvme_cmd_dsm,
	[RDINIT_DEV_VERIFY] = nvme_cmd_verify,
	[RDINIT_DEV_COPY] = nvme_cmd_copy,
};

static bool is_order(enum rdinit_dev_op op)
{
	return op < sizeof(order_opcodes) && order_opcodes[op];
}

bool command_only_reads(enum rdinit_dev_op op)
{
	return op == RDINIT_DEV_READ || op == RDINIT_DEV_VERIFY || op == RDINIT_DEV_COMPARE;
}

static bool stores(const struct command *c)
{
	return !command_only_reads(c->op) && c->op != RDINIT_DEV_FLUSH;
}

static struct command *free_command(struct host *h)
{
	for (unsigned int i = 0; i < WORLD_DEPTH; i++)
		if (!h->commands[i].busy)
			return &h->commands[i];
	return NULL;
}

/* ---- the end ---- */

static void read_ended(struct command *c)
{
	struct host *h = c->host;
	struct world *w = h->w;

	for (unsigned int i = 0; i < c->count; i++) {
		unsigned int block = c->block + i;
		uint64_t value = block_value(c->data + i * DISK_BLOCK);

		if (value == UINT64_MAX)
			world_fail(w, "host %u: block %u is torn", h->number, block);
		else
			check_read(w->check, h->first + block, value, c->begin, rd_sim_now(w->sim));
		if (value != UINT64_MAX && c->flags & RDINIT_IO_FUA)
			check_read_durable(w->check, value, c->begin);
		rd_sim_tell(w->sim, "host %u: read block %u: value %llu", h->number,
			    h->first + block, (unsigned long long)value >> CHECK_BLOCK_BITS);
		h->known[block] = value;
	}
}

static void compare_ended(struct command *c, const struct rdinit_completion *comp)
{
	struct host *h = c->host;
	struct world *w = h->w;
	bool equal = true;

	for (unsigned int i = 0; i < c->count; i++) {
		equal &= c->values[i] != NOBODYS && check_surely(w->check, c->values[i], c->begin);
		if (comp->err)
			continue;
		check_read(w->check, h->first + c->block + i, c->values[i], c->begin,
			   rd_sim_now(w->sim));
		if (c->flags & RDINIT_IO_FUA)
			check_read_durable(w->check, c->values[i], c->begin);
	}
	if (comp->err == -EIO && equal &&
	    (comp->status & 0x7ff) == (NVME_SCT_MEDIA << 8 | NVME_SC_COMPARE_FAILED))
		world_fail(w, "host %u: a Compare of blocks %u+%u has failed, which are equal",
			   h->number, c->block, c->count);
}

static void write_ended(struct command *c, const struct rdinit_completion *comp, bool executed)
{
	struct world *w = c->host->w;
	uint64_t now = rd_sim_now(w->sim);

	for (unsigned int i = 0; i < c->count; i++) {
		if (!comp->err)
			check_write_done(w->check, c->values[i], now, c->flags & RDINIT_IO_FUA);
		else if (executed)
			check_write_unknown(w->check, c->values[i], now);
		else
			check_write_refused(w->check, c->values[i]);
		/* Answered, and sent once. */
		if (comp->err == -EIO && w->no_resend)
			check_write_settled(w->check, c->values[i], now);
	}
	if (c->op != RDINIT_DEV_COMPARE_WRITE || comp->err)
		return;
	check_replaced(w->check, c->old, c->values[0], c->begin);
	check_read(w->check, c->host->first + c->block, c->old, c->begin, now);
	c->host->known[c->block] = c->values[0];
}

static void facts_of(const struct command *c, struct io_facts *f)
{
	bool flush = c->op == RDINIT_DEV_FLUSH;

	*f = (struct io_facts){
		.host = c->host->number,
		.ns = c->host->ns,
		.begin = c->begin,
		.name = names[c->op],
		.writes = !command_only_reads(c->op),
		.protected = stores(c),
		.syncs = flush || c->flags & RDINIT_IO_FUA,
		.compares = c->op == RDINIT_DEV_COMPARE || c->op == RDINIT_DEV_COMPARE_WRITE,
		.fused = c->op == RDINIT_DEV_COMPARE_WRITE,
		.cancelled = c->cancelled,
	};
	for (unsigned int i = 0; i < c->count && !flush; i++) {
		if (f->compares || command_only_reads(c->op) || c->op == RDINIT_DEV_COPY)
			f->read[f->reads++] = (c->op == RDINIT_DEV_COPY ? c->source : c->block) + i;
		if (stores(c))
			f->store[f->stores++] = c->block + i;
	}
}

static void command_ended(void *user, const struct rdinit_completion *comp)
{
	struct command *c = user;
	struct host *h = c->host;
	struct world *w = h->w;
	struct io_facts f;
	bool executed;

	rd_sim_tell(w->sim, "host %u: command %u of blocks %u+%u: %d status 0x%x", h->number,
		    (unsigned int)c->op, h->first + c->block, c->count, comp->err, comp->status);
	if (!c->busy)
		world_fail(w, "host %u: a command has ended twice", h->number);
	c->busy = false;
	h->inflight--;
	facts_of(c, &f);
	io_judge_end(w, &f, comp);
	executed = io_may_be_executed(w, &f, comp);
	if (w->judge)
		w->judge(w, h->ns, c->begin, comp);
	if (w->judge_device)
		w->judge_device(w, h->ns, c->begin, comp);
	if (c->order && !comp->err && c->op == RDINIT_DEV_VERIFY && !order_has_read_all(c->order))
		world_fail(w, "host %u: a Verify has succeeded that has not read all its blocks",
			   h->number);
	order_ends(c->order, comp->err && executed);
	if (c->op == RDINIT_DEV_COMPARE)
		compare_ended(c, comp);
	else if (c->op == RDINIT_DEV_READ && !comp->err)
		read_ended(c);
	else if (stores(c))
		write_ended(c, comp, executed);
	else if (c->op == RDINIT_DEV_FLUSH && !comp->err)
		check_flushed(w->check, c->begin);
}

/* ---- the choice ---- */

static enum rdinit_dev_op choose_op(const struct host *h)
{
	/* How many of a hundred. */
	static const struct {
		unsigned int usual, fence;
	} shares[] = {
		[RDINIT_DEV_READ] = {40, 45},     [RDINIT_DEV_WRITE] = {26, 34},
		[RDINIT_DEV_FLUSH] = {4, 15},     [RDINIT_DEV_WRITE_ZEROES] = {6, 6},
		[RDINIT_DEV_DEALLOCATE] = {4, 0}, [RDINIT_DEV_VERIFY] = {3, 0},
		[RDINIT_DEV_COMPARE] = {4, 0},    [RDINIT_DEV_COMPARE_WRITE] = {8, 0},
		[RDINIT_DEV_COPY] = {5, 0},
	};
	bool fence = h->w->opts.faults & FAULTS_FENCE;
	uint64_t n = rd_sim_below(h->w->sim, 100);
	enum rdinit_dev_op op = RDINIT_DEV_READ;

	for (; n >= (fence ? shares[op].fence : shares[op].usual); op++)
		n -= fence ? shares[op].fence : shares[op].usual;
	if (!is_order(op) || world_sends_all())
		return op;
	return command_only_reads(op) ? RDINIT_DEV_READ : RDINIT_DEV_WRITE;
}

static unsigned int choose_flags(const struct host *h, enum rdinit_dev_op op)
{
	struct rd_sim *sim = h->w->sim;
	unsigned int flags = 0;

	if (op == RDINIT_DEV_FLUSH || op == RDINIT_DEV_DEALLOCATE || op == RDINIT_DEV_VERIFY)
		return 0;
	if (rd_sim_chance(sim, 1, op <= RDINIT_DEV_WRITE ? 6 : 3))
		flags |= RDINIT_IO_FUA;
	if (op == RDINIT_DEV_WRITE_ZEROES && rd_sim_chance(sim, 1, 2))
		flags |= RDINIT_DEV_IO_DEALLOCATE;
	return flags;
}

/* The source of a Copy to @c->block. */
static unsigned int choose_source(struct rd_sim *sim, const struct command *c)
{
	unsigned int others = WORLD_BLOCKS - 2 * c->count + 1, block;

	/* It may begin at any block from which it does not reach the destination. */
	block = (unsigned int)rd_sim_below(sim, others);
	return block + c->count > c->block && block < c->block + c->count
		       ? (c->block + c->count <= WORLD_BLOCKS - c->count ? c->block + c->count
									 : c->block - c->count)
		       : block;
}

static void choose_blocks(struct host *h, struct command *c)
{
	struct rd_sim *sim = h->w->sim;

	c->count = 1 + (unsigned int)rd_sim_below(sim, WORLD_IO_MAX);
	if (c->op == RDINIT_DEV_COMPARE_WRITE ||
	    (stores(c) && h->w->no_resend && rd_sim_chance(sim, 1, 4))) {
		if (c->op == RDINIT_DEV_COMPARE_WRITE)
			c->count = 1;
		c->block =
			FIRST_SHARED + (unsigned int)rd_sim_below(sim, WORLD_SHARED - c->count + 1);
	} else if (command_only_reads(c->op)) {
		c->block = (unsigned int)rd_sim_below(sim, WORLD_BLOCKS - c->count + 1);
	} else {
		c->block = h->number * WORLD_OWN +
			   (unsigned int)rd_sim_below(sim, WORLD_OWN - c->count + 1);
	}
	if (h->w->opts.faults & FAULTS_FENCE) {
		c->count = 1;
		c->block = h->number * WORLD_OWN + (unsigned int)rd_sim_below(sim, 2);
	}
	if (c->op == RDINIT_DEV_COPY)
		c->source = choose_source(sim, c);
}

/* ---- the begin ---- */

/* Returns false when the command cannot be told from another one. */
static bool take_order(struct host *h, struct command *c)
{
	struct order like = {.opcode = order_opcodes[c->op],
			     .fua = c->flags & RDINIT_IO_FUA,
			     .count = c->count,
			     .begin = c->begin};

	for (unsigned int i = 0; i < c->count; i++) {
		like.block[i] = c->block + i;
		like.source[i] = c->op == RDINIT_DEV_COPY ? c->source + i : 0;
	}
	c->order = order_begins(&h->w->orders[h->number], &like);
	return c->order != NULL;
}

static void prepare_values(struct host *h, struct command *c)
{
	struct check *check = h->w->check;

	for (unsigned int i = 0; i < c->count; i++) {
		c->values[i] = check_value(check, h->first + c->block + i);
		check_write_begins(check, h->number, c->values[i], c->begin);
		rd_sim_tell(h->w->sim, "host %u: writes block %u: value %llu", h->number,
			    h->first + c->block + i,
			    (unsigned long long)c->values[i] >> CHECK_BLOCK_BITS);
		if (c->order)
			c->order->value[i] = c->values[i];
		block_fill(c->data + i * DISK_BLOCK, c->values[i]);
	}
	if (c->op == RDINIT_DEV_COMPARE_WRITE) {
		c->old = h->known[c->block];
		check_write_expects(check, c->values[0], c->old);
		block_fill(c->data, c->old);
		block_fill(c->other, c->values[0]);
	}
}

/* Mostly what the blocks had when they were read last. */
static void prepare_compare(struct host *h, struct command *c)
{
	for (unsigned int i = 0; i < c->count; i++) {
		c->values[i] = h->known[c->block + i];
		if (i == c->count - 1 && rd_sim_chance(h->w->sim, 1, 8))
			c->values[i] = NOBODYS;
		block_fill(c->data + i * DISK_BLOCK, c->values[i]);
	}
}

static void not_taken(struct host *h, struct command *c, int rc)
{
	unsigned int end = c->block > c->source ? c->block + c->count : c->source + c->count;
	bool shorter = rc == -EINVAL &&
		       (host_blocks(h) < end || h->w->was_shorter(h->w, h->ns, end, c->begin));

	if (rc != -EAGAIN && !shorter)
		world_fail(h->w, "host %u: a %s was not taken: %s", h->number, names[c->op],
			   rdinit_get_error());
	for (unsigned int i = 0; i < c->count && stores(c); i++)
		check_write_refused(h->w->check, c->values[i]);
	order_ends(c->order, false);
}

static void submit(struct host *h, struct command *c)
{
	struct rdinit_dev_io io;
	int rc;

	if (stores(c))
		prepare_values(h, c);
	else if (c->op == RDINIT_DEV_COMPARE)
		prepare_compare(h, c);
	rdinit_dev_io_init(&io);
	io.op = c->op;
	io.flags = c->flags;
	io.lba = c->block;
	io.nblocks = c->count;
	io.source = c->source;
	io.buf = c->op == RDINIT_DEV_FLUSH || c->order ? NULL : c->data;
	io.write_buf = c->op == RDINIT_DEV_COMPARE_WRITE ? c->other : NULL;
	rc = rdinit_dev_submit(h->chan, &io, command_ended, c, &c->id);
	rd_sim_tell(h->w->sim, "host %u: submits command %u of blocks %u+%u: %d", h->number,
		    (unsigned int)c->op, h->first + c->block, c->count, rc);
	if (rc) {
		not_taken(h, c, rc);
		return;
	}
	c->busy = true;
	h->inflight++;
}

static void begin(struct host *h, struct command *c, enum rdinit_dev_op op)
{
	*c = (struct command){.host = h, .op = op, .begin = rd_sim_now(h->w->sim)};
}

/*
 * A write that may be repeated must not overlap another one in flight: it would be undefined which
 * of both is executed last, and how often.
 */
void command_random(struct host *h)
{
	struct command *c = free_command(h);

	if (!c)
		return;
	begin(h, c, choose_op(h));
	c->flags = choose_flags(h, c->op);
	if (c->op != RDINIT_DEV_FLUSH)
		choose_blocks(h, c);
	if (stores(c) && !h->w->no_resend && host_writes(h, c->block, c->count))
		return;
	if (!is_order(c->op) || take_order(h, c))
		submit(h, c);
}

bool command_read(struct host *h, unsigned int block)
{
	struct command *c = free_command(h);

	if (!c)
		return false;
	begin(h, c, RDINIT_DEV_READ);
	c->block = block;
	c->count = 1;
	submit(h, c);
	return true;
}
