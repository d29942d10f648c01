/* SPDX-License-Identifier: BSD-3-Clause */
#include "disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/bdev/engine.h"

#include "check.h"

#define STORE_NEVER UINT64_MAX
#define HANG_LOOK   (200 * RD_NSEC_PER_MSEC)

/* A write that is in the cache and not yet durable. */
struct dirty {
	uint64_t value;
	uint64_t seq;
	unsigned int block;
};

struct store {
	struct rd_sim *sim;
	struct store_faults faults;
	unsigned int blocks;
	bool zeroes;   /* deallocated blocks read as zeroes */
	uint64_t *now; /* what a read returns */
	/* When an I/O of a block has failed last. */
	uint64_t *failed[STORE_FAILURES];
	uint64_t *durable; /* the content after a loss of power, unless a later write survives it */
	struct dirty *dirty; /* in the order in which the writes took effect */
	unsigned int dirty_count, dirty_room;
	uint64_t seq;
	unsigned int ios;
	unsigned int opens; /* disks: two processes may have it open */
	bool stopped;
	bool hangs;
	uint64_t refuses_since; /* after a failed sync; STORE_NEVER: it does not */
	uint64_t refused_until; /* and until then; STORE_NEVER: it does now */
	struct store_watcher watch;
	void *watch_arg; /* also of @block */
	void (*block)(void *arg, const struct rd_loop *loop, uint64_t ns);
	uint64_t block_ns; /* how long the next call blocks; 0: it does not */
};

struct disk {
	struct rdt_bdev bdev;
	struct rd_log *log;
	struct store *store;
	unsigned int chans;
};

struct disk_chan {
	struct rdt_chan chan;
	unsigned int ios;
	struct rd_loop *loop;
};

struct disk_io {
	struct rd_sim_event event;
	struct rd_defer done;
	struct rdt_bio *bio;
	struct store *store;
	struct disk_chan *chan;
	unsigned int next; /* block of the bio that takes effect next */
	unsigned int count;
	uint64_t seq; /* FLUSH: writes up to this one are made durable */
	int result;
	bool cancelled;
	bool sync_fails;
};

void block_fill(void *block, uint64_t value)
{
	uint64_t *words = block;

	for (unsigned int i = 0; i < DISK_BLOCK / sizeof(*words); i++)
		memcpy(&words[i], &value, sizeof(value));
}

uint64_t block_value(const void *block)
{
	uint64_t first, other;

	memcpy(&first, block, sizeof(first));
	for (unsigned int i = 1; i < DISK_BLOCK / sizeof(first); i++) {
		memcpy(&other, (const char *)block + i * sizeof(first), sizeof(other));
		if (other != first)
			return UINT64_MAX;
	}
	return first;
}

/* ---- the store ---- */

struct store *store_new(struct rd_sim *sim, unsigned int blocks)
{
	struct store *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->sim = sim;
	s->blocks = blocks;
	s->zeroes = rd_sim_chance(sim, 1, 2);
	s->refuses_since = STORE_NEVER;
	s->now = calloc(blocks, sizeof(*s->now));
	s->durable = calloc(blocks, sizeof(*s->durable));
	for (unsigned int i = 0; i < STORE_FAILURES; i++)
		s->failed[i] = calloc(blocks, sizeof(*s->failed[i]));
	if (!s->now || !s->durable || !s->failed[STORE_READ_FAILED] ||
	    !s->failed[STORE_WRITE_FAILED] || !s->failed[STORE_NO_SPACE]) {
		store_free(s);
		return NULL;
	}
	for (unsigned int i = 0; i < blocks; i++)
		s->now[i] = s->durable[i] = i; /* as check_new() expects */
	return s;
}

void store_free(struct store *s)
{
	if (!s)
		return;
	free(s->now);
	free(s->durable);
	free(s->dirty);
	for (unsigned int i = 0; i < STORE_FAILURES; i++)
		free(s->failed[i]);
	free(s);
}

void store_set_faults(struct store *s, const struct store_faults *faults)
{
	s->faults = *faults;
}

void store_hang(struct store *s, bool hangs)
{
	s->hangs = hangs;
}

uint64_t store_value(const struct store *s, unsigned int block)
{
	return s->now[block];
}

void store_watch(struct store *s, const struct store_watcher *watcher, void *arg)
{
	s->watch = *watcher;
	s->watch_arg = arg;
}

void store_on_block(struct store *s, void (*fn)(void *arg, const struct rd_loop *loop, uint64_t ns))
{
	s->block = fn;
}

void store_block_next(struct store *s, uint64_t ns)
{
	s->block_ns = ns;
}

bool store_has_failed(const struct store *s, enum store_failure failure, unsigned int block,
		      unsigned int count, uint64_t begin)
{
	bool failed = false;

	for (unsigned int i = block; i < block + count && i < s->blocks; i++)
		failed |= s->failed[failure][i] >= begin;
	return failed;
}

bool store_refuses(const struct store *s, uint64_t begin)
{
	return s->refused_until >= begin;
}

bool store_has_refused(const struct store *s, uint64_t begin)
{
	return s->refuses_since <= begin;
}

unsigned int store_ios(const struct store *s)
{
	return s->ios;
}

void store_stop(struct store *s)
{
	s->stopped = true;
}

void store_restart(struct store *s)
{
	/* Of the writes of a block that are not durable, a random one becomes the content. */
	for (unsigned int i = 0; i < s->blocks; i++)
		s->now[i] = s->durable[i];
	for (unsigned int i = 0; i < s->dirty_count; i++)
		if (rd_sim_chance(s->sim, 1, 2))
			s->now[s->dirty[i].block] = s->dirty[i].value;
	memcpy(s->durable, s->now, s->blocks * sizeof(*s->now));
	s->dirty_count = 0;
	s->stopped = false;
}

static bool store_write(struct store *s, unsigned int block, uint64_t value, bool durable)
{
	unsigned int kept = 0;

	if (s->stopped)
		return false;
	if (s->dirty_count == s->dirty_room) {
		unsigned int room = s->dirty_room ? 2 * s->dirty_room : 256;
		struct dirty *dirty = reallocarray(s->dirty, room, sizeof(*dirty));

		if (!dirty)
			return false;
		s->dirty = dirty;
		s->dirty_room = room;
	}
	s->now[block] = value;
	if (s->watch.written)
		s->watch.written(s->watch_arg, value);
	rd_sim_tell(s->sim, "disk: block %u: value %llu", block,
		    (unsigned long long)value >> CHECK_BLOCK_BITS);
	s->dirty[s->dirty_count++] =
		(struct dirty){.value = value, .seq = ++s->seq, .block = block};
	if (!durable)
		return true;
	s->durable[block] = value;
	for (unsigned int i = 0; i < s->dirty_count; i++)
		if (s->dirty[i].block != block)
			s->dirty[kept++] = s->dirty[i];
	s->dirty_count = kept;
	return true;
}

static void store_sync(struct store *s, uint64_t seq)
{
	unsigned int kept = 0;

	if (s->stopped)
		return;
	for (unsigned int i = 0; i < s->dirty_count; i++) {
		const struct dirty *d = &s->dirty[i];

		if (d->seq <= seq)
			s->durable[d->block] = d->value;
		else
			s->dirty[kept++] = *d;
	}
	s->dirty_count = kept;
}

/* What is not durable is dropped, or not. */
static void store_lose(struct store *s)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < s->dirty_count; i++)
		if (rd_sim_chance(s->sim, 1, 2))
			s->dirty[kept++] = s->dirty[i];
	s->dirty_count = kept;
}

/* ---- the backend ---- */

static void tell_misuse(const struct store *s, const char *what)
{
	if (s->watch.misused)
		s->watch.misused(s->watch_arg, what);
}

static void disk_close(struct rdt_bdev *bdev)
{
	struct disk *d = rd_container_of(bdev, struct disk, bdev);
	struct store *s = d->store;

	if (d->chans)
		tell_misuse(d->store, "it is closed while a reactor has a channel");
	if (!--s->opens && s->refuses_since != STORE_NEVER) {
		s->refuses_since = STORE_NEVER;
		s->refused_until = rd_sim_now(s->sim);
		if (!s->stopped) {
			store_restart(s);
			s->watch.dropped(s->watch_arg);
		}
	}
	free(d);
}

static int disk_chan_open(struct rdt_bdev *bdev, struct rdt_engines *engines, struct rdt_chan **out)
{
	struct disk_chan *chan = calloc(1, sizeof(*chan));

	if (!chan)
		return -ENOMEM;
	chan->chan.bdev = bdev;
	chan->loop = rdt_engines_loop(engines);
	rd_container_of(bdev, struct disk, bdev)->chans++;
	*out = &chan->chan;
	return 0;
}

static void disk_chan_close(struct rdt_chan *chan)
{
	struct disk_chan *c = rd_container_of(chan, struct disk_chan, chan);
	struct disk *d = rd_container_of(chan->bdev, struct disk, bdev);

	if (c->ios)
		tell_misuse(d->store, "a channel is closed while it has I/O");
	d->chans--;
	free(c);
}

/* As engine_io.c does: a sync that ends after another one has failed, fails as well. */
static int sync_result(const struct disk_io *io)
{
	struct store *s = io->store;
	struct disk *d = rd_container_of(io->chan->chan.bdev, struct disk, bdev);

	if (!io->sync_fails)
		return s->refuses_since == STORE_NEVER ? 0 : -ENOTRECOVERABLE;
	rd_sim_tell(s->sim, "disk: a sync fails");
	store_lose(s);
	if (s->refuses_since == STORE_NEVER)
		s->refuses_since = rd_sim_now(s->sim);
	s->refused_until = STORE_NEVER;
	return rdt_bdev_sync_error(&d->bdev, d->log, "the simulated storage", -EIO, false);
}

static bool syncs(const struct rdt_bio *bio)
{
	return bio->op == RDT_BIO_FLUSH || bio->flags & RDT_BIO_FUA;
}

static void disk_io_done(struct rd_defer *defer)
{
	struct disk_io *io = rd_container_of(defer, struct disk_io, done);
	struct rdt_bio *bio = io->bio;

	if (!io->result && syncs(bio))
		io->result = sync_result(io);
	bio->result = io->result;
	io->store->ios--;
	io->chan->ios--;
	free(io);
	bio->done(bio);
}

/* One block of the I/O. Returns false when the store has stopped. */
static bool take_effect(struct disk_io *io)
{
	struct rdt_bio *bio = io->bio;
	struct store *s = io->store;
	unsigned int block = (unsigned int)(bio->offset / DISK_BLOCK) + io->next;
	char *data = (char *)bio->buf + (size_t)io->next * DISK_BLOCK;
	uint64_t value = 0;

	io->next++;
	if (bio->op == RDT_BIO_FLUSH)
		return true;
	if (bio->op == RDT_BIO_READ) {
		block_fill(data, s->now[block]);
		if (s->watch.reads)
			s->watch.reads(s->watch_arg, bio, block);
		return !s->stopped;
	}
	if (bio->op == RDT_BIO_WRITE)
		value = block_value(data);
	if (s->watch.stores && !s->stopped)
		value = s->watch.stores(s->watch_arg, bio, block, value);
	return store_write(s, block, value,
			   bio->flags & RDT_BIO_FUA && !io->sync_fails &&
				   s->refuses_since == STORE_NEVER);
}

static void note_failure(const struct disk_io *io)
{
	const struct store *s = io->store;
	unsigned int first = (unsigned int)(io->bio->offset / DISK_BLOCK);
	enum store_failure failure = io->result == -ENOSPC         ? STORE_NO_SPACE
				     : io->bio->op == RDT_BIO_READ ? STORE_READ_FAILED
								   : STORE_WRITE_FAILED;

	for (unsigned int i = first; i < first + io->count; i++)
		s->failed[failure][i] = rd_sim_now(s->sim);
}

static void disk_io_moves(struct rd_sim_event *event)
{
	struct disk_io *io = rd_container_of(event, struct disk_io, event);
	struct store *s = io->store;
	unsigned int part;

	if (s->hangs) {
		rd_sim_at(s->sim, &io->event, HANG_LOOK);
		return;
	}
	part = 1 + (unsigned int)rd_sim_below(s->sim, io->count);
	for (; part && io->next < io->count && !io->result; part--)
		if (!take_effect(io))
			io->result = -EIO;
	if (io->next < io->count && !io->result && !io->cancelled) {
		rd_sim_at(s->sim, &io->event, rd_sim_below(s->sim, s->faults.latency_ns));
		return;
	}
	if (io->next < io->count && io->cancelled)
		io->result = -ECANCELED;
	if (io->bio->op == RDT_BIO_FLUSH && !io->sync_fails && s->refuses_since == STORE_NEVER)
		store_sync(s, io->seq);
	if (s->stopped && io->bio->op != RDT_BIO_READ)
		io->result = -EIO;
	if (io->bio->op != RDT_BIO_FLUSH && s->faults.fails_in &&
	    rd_sim_chance(s->sim, 1, s->faults.fails_in))
		io->result = -EIO;
	else if (rdt_bio_op_writes(io->bio->op) && s->faults.no_space_in && !io->result &&
		 rd_sim_chance(s->sim, 1, s->faults.no_space_in))
		io->result = -ENOSPC;
	if (io->result == -EIO || io->result == -ENOSPC)
		note_failure(io);
	rd_defer(io->chan->loop, &io->done, RD_DEFER_WORK);
}

static enum rdt_bio_submit disk_submit(struct rdt_chan *chan, struct rdt_bio *bio)
{
	struct disk *d = rd_container_of(chan->bdev, struct disk, bdev);
	struct store *s = d->store;
	struct disk_io *io = calloc(1, sizeof(*io));
	uint64_t delay = rd_sim_below(s->sim, s->faults.latency_ns);

	if (!io) {
		bio->result = -ENOMEM;
		return RDT_BIO_DONE;
	}
	io->event.fn = disk_io_moves;
	io->done.fn = disk_io_done;
	io->bio = bio;
	io->store = s;
	io->chan = rd_container_of(chan, struct disk_chan, chan);
	io->count = (unsigned int)(bio->length / DISK_BLOCK);
	io->seq = s->seq;
	io->sync_fails = syncs(bio) && s->faults.sync_fails_in &&
			 rd_sim_chance(s->sim, 1, s->faults.sync_fails_in);
	memcpy(bio->priv, &io, sizeof(struct disk_io *));
	if (s->faults.slow_in && rd_sim_chance(s->sim, 1, s->faults.slow_in))
		delay = rd_sim_below(s->sim, s->faults.slow_ns);
	s->ios++;
	io->chan->ios++;
	if (s->watch.begins)
		s->watch.begins(s->watch_arg, bio);
	rd_sim_at(s->sim, &io->event, delay);
	if (s->block_ns) {
		uint64_t ns = s->block_ns;

		s->block_ns = 0;
		s->block(s->watch_arg, io->chan->loop, ns);
	}
	return RDT_BIO_QUEUED;
}

static void disk_cancel(struct rdt_chan *chan, struct rdt_bio *bio)
{
	struct disk_io *io;

	memcpy(&io, bio->priv, sizeof(struct disk_io *));
	/* Most storage cannot cancel what it has begun. */
	if (io->done.queued || io->cancelled || rd_sim_chance(io->store->sim, 1, 2))
		return;
	io->cancelled = true;
	rd_sim_at(io->store->sim, &io->event, 0);
}

/* Blocks that are cut off keep their content. */
static int disk_resize(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size)
{
	(void)err;
	(void)err_size;
	atomic_store(&bdev->size, size);
	return 0;
}

/* As a file: it is the same open file description in both processes, which has failed or not. */
static int disk_share(const struct rdt_bdev *bdev)
{
	(void)bdev;
	return -ENODATA;
}

static const struct rdt_bdev_ops disk_ops = {
	.name = "sim",
	.close = disk_close,
	.chan_open = disk_chan_open,
	.chan_close = disk_chan_close,
	.submit = disk_submit,
	.cancel = disk_cancel,
	.resize = disk_resize,
	.share = disk_share,
};

int disk_open(struct store *store, uint64_t size, struct rd_log *log, struct rdt_bdev **out)
{
	struct disk *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	store->opens++;
	d->store = store;
	d->log = log;
	d->bdev.ops = &disk_ops;
	d->bdev.size = size;
	d->bdev.device = (uintptr_t)store;
	d->bdev.block_size = DISK_BLOCK;
	d->bdev.ops_mask = 1u << RDT_BIO_READ | 1u << RDT_BIO_WRITE | 1u << RDT_BIO_FLUSH |
			   1u << RDT_BIO_WRITE_ZEROES | 1u << RDT_BIO_DEALLOCATE | RDT_OPS_MARKS;
	d->bdev.deallocate_zeroes = store->zeroes;
	d->bdev.volatile_cache = true;
	*out = &d->bdev;
	return 0;
}
