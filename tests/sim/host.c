/* SPDX-License-Identifier: BSD-3-Clause */
/* A host: a device with two paths and one channel. command.c has the commands that it submits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/parse.h"

#include "faults.h"
#include "host.h"
#include "sick.h"

/* With this profile time must pass in few steps. */
#define FENCE_PAUSE  30
#define KEYS_PAUSE   400
#define KEYS_KATO_MS 10000

#define SECRET_STEPS 1500 /* on average, until a host gets the secret that the target has */

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
	return h->inflight + h->reads_left;
}

unsigned int host_unlimited(const struct host *h)
{
	return claim_busy(h->claim) + (h->raw && raw_busy(h->raw)) +
	       sick_busy(h->w->sick, h->number);
}

bool host_writes(const struct host *h, unsigned int block, unsigned int count)
{
	for (unsigned int i = 0; i < WORLD_DEPTH; i++) {
		const struct command *c = &h->commands[i];

		if (c->busy && !command_only_reads(c->op) && c->block < block + count &&
		    block < c->block + c->count)
			return true;
	}
	return false;
}

bool host_is_steady(const struct host *h)
{
	bool steady = h->opened && h->chan;

	for (unsigned int i = 0; i < WORLD_PATHS && steady; i++)
		steady = h->live[i] && h->chan->paths[i].up;
	return steady;
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

/* A path that is refused has another secret than the target, however often others have failed. */
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
	    setup_must_admit(&h->w->setup, h->number, a->secret, a->begin, now))
		world_fail(h->w, "host %u: path %d was refused with secret %u, which is right",
			   h->number, event->path, a->secret);
}

static void judge_loss(struct host *h, const struct rdinit_dev_event *event)
{
	struct world *w = h->w;
	bool was_live = h->live[event->path];

	h->live[event->path] = event->path_state == RDINIT_DEV_PATH_LIVE;
	if (was_live && !h->live[event->path] && w->upgrade && !w->reconfigures &&
	    w->disturbed_until < rd_sim_now(w->sim))
		world_fail(w, "host %u has lost path %d, and nothing but a hand-over happens",
			   h->number, event->path);
}

static void dev_event(void *user, const struct rdinit_dev_event *event)
{
	struct host *h = user;

	if (event->type == RDINIT_DEV_EVENT_PATH && h->w->secrets)
		judge_attempt(h, event);
	if (event->type == RDINIT_DEV_EVENT_PATH)
		judge_loss(h, event);
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

	host_ctrl_opts(h->w, &h->name, (1u << WORLD_PATHS) - 1, &ctrl);
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
		snprintf(text, sizeof(text), "nvme+%s://" SETUP_ADDR ":%u/" SETUP_NQN "/%u",
			 h->w->tcp & 1u << i ? "tcp" : "rdma", WORLD_PORT + i, h->ns + 1);
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
	if (h->raw)
		raw_acts(h->raw, h->chan);
	if (h->w->sick)
		sick_acts(h->w->sick, h->number, h->chan);
	if (h->reads_left && command_read(h, h->reads_left - 1)) {
		h->reads_left--;
		return;
	}
	if (h->w->ending || h->w->quiet_until > rd_sim_now(h->w->sim) ||
	    !rd_sim_chance(h->w->sim, 1, pause_of(h)))
		return;
	command_random(h);
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
	for (unsigned int i = 0; i < WORLD_BLOCKS; i++)
		h->known[i] = h->first + i;
	host_name_of(h->number, &h->name);
	w->host_env.seed = rd_sim_random(w->sim) | 1;
	rc = claim_new(w, h->number, &h->claim);
	if (!rc && world_sends_all())
		rc = raw_new(w, h->number, &h->raw);
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
	raw_free(h->raw);
	free(h);
}
