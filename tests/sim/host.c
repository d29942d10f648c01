/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host: a device with two paths and one channel, and the commands that it submits. It records the
 * begin and the outcome of each command in the history.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/wire.h"
#include "util/parse.h"

#include "faults.h"
#include "host_ctrl.h"
#include "resv.h"
#include "world.h"

/* With this profile time must pass in few steps. */
#define FENCE_PAUSE  30
#define KEYS_PAUSE   400
#define KEYS_KATO_MS 10000

#define SECRET_STEPS 1500 /* on average, until a host gets the secret that the target has */

struct command {
	struct host *host;
	bool busy;
	bool cancelled; /* by host_cancels() */
	enum rdinit_dev_op op;
	bool fua;
	unsigned int block, count;
	uint64_t begin;
	uint64_t id;
	uint64_t old; /* Compare and Write: the value that is expected */
	uint64_t values[WORLD_IO_MAX];
	char data[WORLD_IO_MAX * DISK_BLOCK] __attribute__((aligned(8)));
	char other[DISK_BLOCK] __attribute__((aligned(8))); /* Compare and Write: what is written */
};

struct host {
	struct world *w;
	unsigned int number; /* the host of this device */
	unsigned int ns;     /* its namespace, from 0 on */
	unsigned int first;  /* the namespace's first block in the history */
	struct actor *dev_actor, *chan_actor;
	struct host_name name;
	struct rdinit_dev *dev;
	struct rdinit_dev_chan *chan;
	struct claim *claim;
	enum secret_kind secret;
	/* By path: its last attempt to connect. */
	struct attempt {
		bool connects;       /* the controller is being connected */
		bool secret_changed; /* meanwhile */
		enum secret_kind secret;
		uint64_t begin;
	} attempts[WORLD_PATHS];
	bool opened;
	bool not_opened; /* the attempt to open it has failed */
	unsigned int inflight;
	unsigned int reads_left;      /* of host_reads_all() */
	uint64_t known[WORLD_SHARED]; /* values read last, for Compare and Write */
	struct command commands[WORLD_DEPTH];
};

/* ---- commands ---- */

static struct command *free_command(struct host *h)
{
	for (unsigned int i = 0; i < WORLD_DEPTH; i++)
		if (!h->commands[i].busy)
			return &h->commands[i];
	return NULL;
}

static void read_ended(struct command *c, int err)
{
	struct world *w = c->host->w;
	uint64_t now = rd_sim_now(w->sim);
	unsigned int first = c->host->first;

	for (unsigned int i = 0; i < c->count && !err; i++) {
		unsigned int block = c->block + i;
		uint64_t value = block_value(c->data + i * DISK_BLOCK);

		if (value == UINT64_MAX)
			world_fail(w, "host %u: block %u is torn", c->host->number, block);
		else
			check_read(w->check, first + block, value, c->begin, now);
		rd_sim_tell(w->sim, "host %u: read block %u: value %llu", c->host->number,
			    first + block, (unsigned long long)value >> CHECK_BLOCK_BITS);
		if (block >= WORLD_BLOCKS - WORLD_SHARED)
			c->host->known[block - (WORLD_BLOCKS - WORLD_SHARED)] = value;
	}
}

static bool is_conflict(const struct rdinit_completion *comp)
{
	return comp->err == -EIO && (comp->status & 0x7ff) == NVME_SC_RESERVATION_CONFLICT;
}

/* Only these refusals say that the controller has written nothing; the second one only if the
 * command was sent once. */
static bool may_be_executed(const struct command *c, const struct rdinit_completion *comp)
{
	if (is_conflict(comp))
		return !c->host->w->no_resend;
	return comp->err != -EIO ||
	       (comp->status & 0x7ff) != (NVME_SCT_MEDIA << 8 | NVME_SC_COMPARE_FAILED);
}

static void write_ended(struct command *c, const struct rdinit_completion *comp)
{
	struct world *w = c->host->w;
	uint64_t now = rd_sim_now(w->sim);

	for (unsigned int i = 0; i < c->count; i++) {
		if (!comp->err)
			check_write_done(w->check, c->values[i], now, c->fua);
		else if (may_be_executed(c, comp))
			check_write_unknown(w->check, c->values[i], now);
		else
			check_write_refused(w->check, c->values[i]);
	}
	if (c->op != RDINIT_DEV_COMPARE_WRITE)
		return;
	if (!comp->err) {
		check_replaced(w->check, c->old, c->values[0]);
		check_read(w->check, c->host->first + c->block, c->old, c->begin, now);
		c->host->known[c->block - (WORLD_BLOCKS - WORLD_SHARED)] = c->values[0];
	}
}

/* Whether a reservation explains that the command succeeded, or did not. */
static void judge_reservation(const struct command *c, const struct rdinit_completion *comp)
{
	struct world *w = c->host->w;
	unsigned int host = c->host->number;
	bool write = c->op != RDINIT_DEV_READ, outdated = w->outdated_at >= c->begin;

	if (c->host->ns)
		return;
	/* A gateway has nothing to do for a Flush, so it does not learn that it was replaced. */
	if (!comp->err && !(outdated && c->op == RDINIT_DEV_FLUSH) &&
	    !(w->unfenced_at >= c->begin && !write) &&
	    !resv_permitted(w->resv, host, write, c->begin))
		world_fail(w, "host %u: a command has succeeded that a reservation forbids", host);
	if (is_conflict(comp) && !resv_forbidden(w->resv, host, write, c->begin) && !outdated)
		world_fail(w, "host %u: a command was refused that no reservation forbids", host);
}

/* Whether the storage has failed as the status says. */
static bool medium_has_failed(const struct command *c, enum store_failure failure)
{
	const struct host *h = c->host;

	return !h->ns && store_has_failed(h->w->store, failure, c->block, c->count, c->begin);
}

/* The target ends the connections of a host that is denied and those of a listener that is removed,
 * and a host those of a path without its namespace. */
static bool setup_ends_connections(const struct command *c)
{
	const struct setup_history *setup = &c->host->w->setup;
	bool ends = setup_possible(setup, SETUP_REMOVED, c->begin) ||
		    setup_possible(setup, SETUP_DENIED + c->host->number, c->begin);

	for (unsigned int i = 0; i < WORLD_PATHS; i++)
		ends |= setup_possible(setup, SETUP_NO_LISTENER + i, c->begin);
	return ends;
}

static bool is_out_of_range(const struct command *c)
{
	const struct host *h = c->host;

	return h->w->was_shorter && h->w->was_shorter(h->w, h->ns, c->block + c->count, c->begin);
}

/* Whether faults, cancellations, or changes of the configuration explain the error. */
static bool error_is_explained(const struct command *c, const struct rdinit_completion *comp)
{
	const struct host *h = c->host;
	const struct setup_history *setup = &h->w->setup;
	bool removed = setup_possible(setup, SETUP_REMOVED, c->begin);

	if (comp->err == -ENODEV)
		return removed || setup_possible(setup, SETUP_DENIED + h->number, c->begin);
	if (comp->err == -ECANCELED)
		return c->cancelled;
	if (comp->err == -EREMOTEIO || comp->err == -ETIMEDOUT)
		return h->w->disturbed_until >= c->begin ||
		       (comp->err == -EREMOTEIO && setup_ends_connections(c));
	if (comp->err != -EIO)
		return false;
	switch (comp->status & 0x7ff) {
	case NVME_SC_INVALID_NS:
		return removed;
	case NVME_SC_LBA_RANGE:
		return is_out_of_range(c);
	case NVME_SC_NS_WRITE_PROTECTED:
		return setup_possible(setup, SETUP_READ_ONLY, c->begin);
	case NVME_SC_NS_NOT_READY: /* the fence of a half that cannot wait */
	case NVME_SCT_MEDIA << 8 | NVME_SC_COMPARE_FAILED:
		return c->op == RDINIT_DEV_COMPARE_WRITE;
	case NVME_SC_RESERVATION_CONFLICT:
		return true; /* judge_reservation() */
	case ABORTED_BY_PREEMPT:
		return !h->ns && resv_may_abort(h->w->resv, c->begin);
	case NVME_SCT_MEDIA << 8 | NVME_SC_WRITE_FAULT:
		return medium_has_failed(c, STORE_WRITE_FAILED) ||
		       (!h->ns && c->op != RDINIT_DEV_READ && store_refuses(h->w->store, c->begin));
	case NVME_SC_CAP_EXCEEDED:
		return medium_has_failed(c, STORE_NO_SPACE);
	case NVME_SCT_MEDIA << 8 | NVME_SC_READ_ERROR:
		return medium_has_failed(c, STORE_READ_FAILED);
	default:
		return false;
	}
}

static void command_ended(void *user, const struct rdinit_completion *comp)
{
	struct command *c = user;
	struct host *h = c->host;

	rd_sim_tell(h->w->sim, "host %u: command %u of blocks %u+%u: %d status 0x%x", h->number,
		    (unsigned int)c->op, h->first + c->block, c->count, comp->err, comp->status);
	if (!c->busy)
		world_fail(h->w, "host %u: a command has ended twice", h->number);
	c->busy = false;
	h->inflight--;
	judge_reservation(c, comp);
	/* Each reactor ends its controllers. */
	if (!comp->err && setup_sure(&h->w->setup, SETUP_DENIED + h->number, c->begin))
		world_fail(h->w, "host %u: a command has succeeded of a host that was denied",
			   h->number);
	if (!comp->err && !h->ns && c->op != RDINIT_DEV_READ &&
	    store_has_refused(h->w->store, c->begin))
		world_fail(h->w, "host %u: a command has succeeded although a sync has failed",
			   h->number);
	if (comp->err && !error_is_explained(c, comp))
		world_fail(h->w, "host %u: nothing explains the error %d, status 0x%x: %s",
			   h->number, comp->err, comp->status, comp->text);
	if (h->w->judge)
		h->w->judge(h->w, h->ns, c->begin, comp);
	if (c->op == RDINIT_DEV_READ)
		read_ended(c, comp->err);
	else if (c->op != RDINIT_DEV_FLUSH)
		write_ended(c, comp);
	else if (!comp->err)
		check_flushed(h->w->check, c->begin);
}

static void choose_blocks(struct host *h, struct command *c)
{
	struct rd_sim *sim = h->w->sim;

	c->count = 1 + (unsigned int)rd_sim_below(sim, WORLD_IO_MAX);
	if (c->op == RDINIT_DEV_COMPARE_WRITE ||
	    (c->op == RDINIT_DEV_WRITE && h->w->no_resend && rd_sim_chance(sim, 1, 4))) {
		c->block = WORLD_BLOCKS - WORLD_SHARED;
		if (c->op == RDINIT_DEV_COMPARE_WRITE)
			c->count = 1;
		c->block += (unsigned int)rd_sim_below(sim, WORLD_SHARED - c->count + 1);
	} else if (c->op == RDINIT_DEV_READ) {
		c->block = (unsigned int)rd_sim_below(sim, WORLD_BLOCKS - c->count + 1);
	} else {
		c->block = h->number * WORLD_OWN +
			   (unsigned int)rd_sim_below(sim, WORLD_OWN - c->count + 1);
	}
	if (h->w->opts.faults & FAULTS_FENCE) {
		c->count = 1;
		c->block = h->number * WORLD_OWN + (unsigned int)rd_sim_below(sim, 2);
	}
}

static void choose_command(struct host *h, struct command *c)
{
	struct rd_sim *sim = h->w->sim;
	uint64_t n = rd_sim_below(sim, 100);

	c->op = n < 45                                          ? RDINIT_DEV_READ
		: n < 85                                        ? RDINIT_DEV_WRITE
		: n < 95 && !(h->w->opts.faults & FAULTS_FENCE) ? RDINIT_DEV_COMPARE_WRITE
								: RDINIT_DEV_FLUSH;
	c->fua = c->op == RDINIT_DEV_WRITE && rd_sim_chance(sim, 1, 6);
	c->count = 0;
	if (c->op != RDINIT_DEV_FLUSH)
		choose_blocks(h, c);
}

/*
 * A write that may be repeated must not overlap another one in flight: it would be undefined which
 * of both is executed last, and how often.
 */
static bool overlaps(const struct host *h, const struct command *c)
{
	for (unsigned int i = 0; i < WORLD_DEPTH; i++) {
		const struct command *o = &h->commands[i];

		if (o->busy && o->op != RDINIT_DEV_READ && o->block < c->block + c->count &&
		    c->block < o->block + o->count)
			return true;
	}
	return false;
}

static void prepare_data(struct host *h, struct command *c)
{
	struct check *check = h->w->check;

	if (c->op == RDINIT_DEV_READ || c->op == RDINIT_DEV_FLUSH)
		return;
	for (unsigned int i = 0; i < c->count; i++) {
		c->values[i] = check_value(check, h->first + c->block + i);
		check_write_begins(check, h->number, c->values[i], c->begin);
		rd_sim_tell(h->w->sim, "host %u: writes block %u: value %llu", h->number,
			    h->first + c->block + i,
			    (unsigned long long)c->values[i] >> CHECK_BLOCK_BITS);
		block_fill(c->data + i * DISK_BLOCK, c->values[i]);
	}
	if (c->op == RDINIT_DEV_COMPARE_WRITE) {
		c->old = h->known[c->block - (WORLD_BLOCKS - WORLD_SHARED)];
		block_fill(c->data, c->old);
		block_fill(c->other, c->values[0]);
	}
}

static void submit(struct host *h, struct command *c)
{
	struct rdinit_dev_io io;
	int rc;

	c->host = h;
	c->cancelled = false;
	c->begin = rd_sim_now(h->w->sim);
	prepare_data(h, c);
	rdinit_dev_io_init(&io);
	io.op = c->op;
	io.flags = c->fua ? RDINIT_IO_FUA : 0;
	io.lba = c->block;
	io.nblocks = c->count;
	io.buf = c->op == RDINIT_DEV_FLUSH ? NULL : c->data;
	io.write_buf = c->op == RDINIT_DEV_COMPARE_WRITE ? c->other : NULL;
	rc = rdinit_dev_submit(h->chan, &io, command_ended, c, &c->id);
	rd_sim_tell(h->w->sim, "host %u: submits command %u of blocks %u+%u: %d", h->number,
		    (unsigned int)c->op, h->first + c->block, c->count, rc);
	if (!rc) {
		c->busy = true;
		h->inflight++;
		return;
	}
	if (rc != -EAGAIN && !(rc == -EINVAL && is_out_of_range(c)))
		world_fail(h->w, "host %u: a command was not taken: %s", h->number,
			   rdinit_get_error());
	for (unsigned int i = 0; i < c->count && c->op != RDINIT_DEV_READ; i++)
		check_write_refused(h->w->check, c->values[i]);
}

void host_cancels(struct host *h)
{
	struct command *c = &h->commands[rd_sim_below(h->w->sim, WORLD_DEPTH)];

	if (!c->busy)
		return;
	c->cancelled = true;
	rdinit_dev_cancel(h->chan, c->id);
}

void host_reads_all(struct host *h)
{
	h->reads_left = WORLD_BLOCKS;
}

unsigned int host_inflight(const struct host *h)
{
	return h->inflight + h->reads_left + claim_busy(h->claim);
}

uint64_t host_blocks(const struct host *h)
{
	return h->opened ? atomic_load(&h->dev->blocks) : 0;
}

bool host_failed(const struct host *h)
{
	return h->dev && atomic_load(&h->dev->state) == RDINIT_DEV_FAILED;
}

/* ---- life ---- */

static int turn_dev(struct actor *actor)
{
	struct host *h = actor->arg;

	return rdinit_dev_process(h->dev, 0);
}

static int turn_chan(struct actor *actor)
{
	struct host *h = actor->arg;
	int rc = rdinit_dev_chan_process(h->chan, 0);

	return rc < 0 ? rc : 0;
}

/* A path that is refused has another secret than the target, or has failed too often. */
static void judge_attempt(struct host *h, const struct rdinit_dev_event *event)
{
	struct attempt *a = &h->attempts[event->path];
	uint64_t now = rd_sim_now(h->w->sim);

	if (event->path_state == RDINIT_DEV_PATH_CONNECTING)
		*a = (struct attempt){.connects = true, .secret = h->secret, .begin = now};
	else if (event->path_state < RDINIT_DEV_PATH_LOST)
		a->connects = false;
	if (event->path_state != RDINIT_DEV_PATH_LOST || !a->connects)
		return;
	a->connects = false;
	if (event->err == -EKEYREJECTED && !a->secret_changed &&
	    !auth_may_wait(&h->w->auth, h->number, a->begin) &&
	    setup_must_admit(&h->w->setup, h->number, a->secret, a->begin, now))
		world_fail(h->w, "host %u: path %d was refused with secret %u, which is right",
			   h->number, event->path, a->secret);
}

static void dev_event(void *user, const struct rdinit_dev_event *event)
{
	struct host *h = user;

	if (event->type == RDINIT_DEV_EVENT_PATH && h->w->secrets)
		judge_attempt(h, event);
	rd_sim_tell(h->w->sim, "host %u: event: path %d: %s: %s", h->number, event->path,
		    event->path < 0 ? rdinit_dev_state_name(event->state)
				    : rdinit_dev_path_state_name(event->path_state),
		    event->text);
}

static void dev_opened(void *user, const struct rdinit_completion *comp)
{
	struct host *h = user;

	h->opened = comp->err == 0;
	h->not_opened = !h->opened && comp->err != -ECANCELED;
	if (comp->err)
		rd_sim_tell(h->w->sim, "host %u: not opened: %s", h->number, comp->text);
}

static int open_dev(struct host *h)
{
	struct rdinit_ctrl_opts ctrl;
	struct rdinit_dev_opts opts;
	struct rdinit_auth_opts auth;
	struct rdinit_uri uri;
	char text[128];
	int rc;

	host_ctrl_opts(&h->name, &ctrl);
	if (h->w->opts.faults & FAULTS_KEYS)
		ctrl.keep_alive_tmo_ms = KEYS_KATO_MS;
	if (h->w->secrets && secrets_opts(h->w->secrets, h->secret, &auth))
		ctrl.auth = &auth;
	rdinit_dev_opts_init(&opts);
	opts.ctrl = &ctrl;
	opts.event_fn = dev_event;
	opts.event_user = h;
	opts.queue_size = 16;
	opts.io_timeout_ms = 2000;
	opts.reconnect_delay_ms = 500;
	opts.no_resend_writes = h->w->no_resend;
	opts.ctrl_loss_tmo_ms = RDINIT_DEV_NEVER;
	opts.policy = (enum rdinit_dev_policy)rd_sim_below(h->w->sim, 3);
	rc = rdi_dev_create_env(&opts, &h->w->host_env, &h->dev);
	for (unsigned int i = 0; i < WORLD_PATHS && !rc; i++) {
		snprintf(text, sizeof(text), "nvme+rdma://" SETUP_ADDR ":%u/" SETUP_NQN "/%u",
			 WORLD_PORT + i, h->ns + 1);
		rdinit_uri_init(&uri);
		rc = rdinit_uri_parse(text, &uri);
		if (!rc && rdinit_dev_add_path(h->dev, &uri, h->name.addr) < 0)
			rc = -EINVAL;
	}
	return rc ? rc : rdinit_dev_open_async(h->dev, dev_opened, h);
}

/* A device fails when no path could be connected at the first attempt. */
static void open_again(struct host *h)
{
	h->not_opened = false;
	h->dev_actor->loop = NULL;
	rdinit_dev_free(&h->dev);
	if (open_dev(h))
		world_fail(h->w, "host %u: cannot open its device again", h->number);
	else
		h->dev_actor->loop = h->dev->h.loop;
}

/* As an administrator: a path that was refused is not tried again without being asked. */
static void connect_again(struct host *h)
{
	bool failed = false;

	for (unsigned int i = 0; i < WORLD_PATHS; i++)
		failed |= h->dev->paths[i]->state == RDINIT_DEV_PATH_FAILED;
	if (failed && h->opened && rd_sim_chance(h->w->sim, 1, 200))
		rdinit_dev_reconnect(h->dev);
}

/* As an administrator: the host gets the secret that the target has, some time later. */
static void change_secret(struct host *h)
{
	struct world *w = h->w;
	enum secret_kind now = setup_key(&w->setup.now, h->number);
	struct rdinit_auth_opts auth;

	if (now == SECRET_NONE)
		now = SECRET_HOST;
	if (now == h->secret || !rd_sim_chance(w->sim, 1, w->ending ? 10 : SECRET_STEPS))
		return;
	rd_sim_tell(w->sim, "host %u: has secret %u, was %u", h->number, now, h->secret);
	h->secret = now;
	for (unsigned int i = 0; i < WORLD_PATHS; i++)
		h->attempts[i].secret_changed = true;
	secrets_opts(w->secrets, now, &auth);
	if (rdinit_dev_set_auth(h->dev, &auth))
		world_fail(w, "host %u: its secret cannot be changed: %s", h->number,
			   rdinit_get_error());
}

/* Steps between two commands, on average. The first namespace is used most: it has reservations. */
static unsigned int pause_of(const struct host *h)
{
	if (h->w->opts.faults & FAULTS_FENCE)
		return FENCE_PAUSE;
	if (h->w->opts.faults & FAULTS_KEYS)
		return KEYS_PAUSE;
	return h->w->submits_in * (h->ns ? 4 : 1);
}

void host_acts(struct host *h)
{
	struct command *c;

	if (h->w->secrets)
		change_secret(h);
	if (h->not_opened)
		open_again(h);
	connect_again(h);
	if (!h->opened || host_failed(h))
		return;
	if (!h->chan) {
		if (rdinit_dev_chan_create(h->dev, &h->chan))
			return;
		h->chan_actor->loop = h->chan->h.loop;
	}
	if (h->w->reserves && !h->ns)
		claim_acts(h->claim, h->chan);
	if (h->reads_left && (c = free_command(h))) {
		c->op = RDINIT_DEV_READ;
		c->fua = false;
		c->block = --h->reads_left;
		c->count = 1;
		submit(h, c);
		return;
	}
	if (h->w->ending || h->w->quiet_until > rd_sim_now(h->w->sim) ||
	    !rd_sim_chance(h->w->sim, 1, pause_of(h)))
		return;
	c = free_command(h);
	if (!c)
		return;
	choose_command(h, c);
	if (c->op != RDINIT_DEV_READ && !h->w->no_resend && overlaps(h, c))
		return;
	submit(h, c);
}

int host_new(struct world *w, unsigned int number, struct host **out)
{
	struct host *h = calloc(1, sizeof(*h));
	int rc;

	*out = h;
	if (!h)
		return -ENOMEM;
	h->w = w;
	h->number = number % WORLD_HOSTS;
	h->ns = number / WORLD_HOSTS;
	h->secret = setup_key(&w->setup.now, h->number);
	h->first = h->ns * WORLD_BLOCKS;
	h->dev_actor =
		&w->actors[h->ns ? ACTOR_MORE_DEV + number - WORLD_HOSTS : ACTOR_DEV + number];
	h->chan_actor =
		&w->actors[h->ns ? ACTOR_MORE_CHAN + number - WORLD_HOSTS : ACTOR_CHAN + number];
	for (unsigned int i = 0; i < WORLD_SHARED; i++)
		h->known[i] = h->first + WORLD_BLOCKS - WORLD_SHARED + i;
	host_name_of(h->number, &h->name);
	w->host_env.seed = rd_sim_random(w->sim) | 1;
	rc = claim_new(w, h->number, &h->claim);
	if (!rc)
		rc = open_dev(h);
	if (rc)
		return rc;
	*h->dev_actor = (struct actor){.name = "dev",
				       .number = number,
				       .loop = h->dev->h.loop,
				       .turn = turn_dev,
				       .arg = h};
	*h->chan_actor =
		(struct actor){.name = "chan", .number = number, .turn = turn_chan, .arg = h};
	return 0;
}

void host_free(struct host *h)
{
	if (!h)
		return;
	h->dev_actor->loop = h->chan_actor->loop = NULL;
	rdinit_dev_chan_free(&h->chan);
	rdinit_dev_free(&h->dev);
	claim_free(h->claim);
	free(h);
}
