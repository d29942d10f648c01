/* SPDX-License-Identifier: BSD-3-Clause */
#include "discovery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/wire.h"

#include "host_ctrl.h"
#include "world.h"

#define CONNECT_IN 100 /* one of so many steps begins to connect again */
#define READ_IN    20  /* one of so many begins to read what an event tells of */
#define KEEP_IN    100 /* one of so many reads the log and keeps the event */
#define LISTENERS  (SETUP_PATHS + 1)
#define OWN_PORT   4500u /* of the listener that is never removed: the last one of a set */
#define ENTRIES    (2 * LISTENERS)

/* Which entries there are: sets of listeners. */
struct entries {
	unsigned int discovery, subsystem;
};

struct discovery {
	struct world *w;
	struct rdi_env env;
	unsigned int host;
	struct host_name name;
	char port[8];
	struct rdinit_ctrl *ctrl;
	bool ready;
	bool told;          /* and the log was not read since */
	bool based;         /* the log was read: @known */
	bool confirmed;     /* while the world ends: a command that judges all was answered */
	uint64_t requested; /* when the last event came: the next request was sent then */
	uint64_t cleared;   /* when the command began that read the log and cleared the event */
	struct entries known;
	uint64_t genctr;     /* of the log that was read last; 0: none since it has connected */
	struct entries seen; /* in that log */

	/* the command in flight, which reads the log */
	bool busy;
	bool keeps; /* the event: RAE */
	uint64_t begin;
	union {
		struct nvmf_discovery_log head;
		uint8_t bytes[NVME_DISC_LOG_ENTRY * (1 + ENTRIES)];
	} page;
};

static void discovery_fail(struct discovery *d, const char *what)
{
	world_fail(d->w, "the discovery controller of host %u at port %s: %s", d->host, d->port,
		   what);
}

static void discovery_event(void *user, uint32_t event)
{
	struct discovery *d = user;

	rd_sim_tell(d->w->sim, "discovery: event 0x%06x", event);
	d->requested = rd_sim_now(d->w->sim);
	if ((event >> 16 & 0xff) != NVME_LOG_LID_DISCOVER)
		discovery_fail(d, "it was told of something else");
	else if (d->told)
		discovery_fail(d, "it was told again before it has read the log");
	else if (d->w->setup.news[SETUP_NEWS_DISCOVERY] < d->cleared)
		discovery_fail(d, "it was told of what it had read");
	d->told = true;
}

/* ---- the log ---- */

static unsigned int port_of(unsigned int listener)
{
	return listener < SETUP_PATHS ? WORLD_PORT + listener : OWN_PORT;
}

/* Returns the listener, or LISTENERS: the entry is none of the configuration. */
static unsigned int listener_of(const struct nvmf_disc_log_entry *e)
{
	char port[sizeof(e->trsvcid) + 1] = "";
	unsigned int i = 0;

	memccpy(port, e->trsvcid, 0, sizeof(e->trsvcid));
	while (i < LISTENERS && strtoul(port, NULL, 10) != port_of(i))
		i++;
	return strncmp(e->traddr, SETUP_ADDR, sizeof(e->traddr)) == 0 ? i : LISTENERS;
}

/* Returns what is wrong, or NULL. */
static const char *parse_log(const struct discovery *d, struct entries *out)
{
	uint64_t count = le64toh(d->page.head.numrec);

	*out = (struct entries){0};
	if (count > ENTRIES)
		return "the log has too many entries";
	for (unsigned int i = 0; i < count; i++) {
		const void *at = d->page.bytes + (1 + i) * NVME_DISC_LOG_ENTRY;
		const struct nvmf_disc_log_entry *e = at;
		bool own = e->subtype == NVME_NQN_CURR;
		unsigned int bit = 1u << listener_of(e);
		unsigned int *set = own ? &out->discovery : &out->subsystem;

		if (bit >> LISTENERS || *set & bit ||
		    strncmp(e->subnqn, own ? RDINIT_DISCOVERY_NQN : SETUP_NQN, sizeof(e->subnqn)) !=
			    0)
			return "the log has an entry that the configuration does not have";
		*set |= bit;
	}
	return NULL;
}

/* Whether the setups since @begin allow an entry (@some), or require it. */
static bool allows(const struct setup_history *h, unsigned int effect, bool some, uint64_t begin)
{
	return some ? !setup_certain(h, effect, begin) : !setup_possible(h, effect, begin);
}

static struct entries entries_of(const struct discovery *d, bool some, uint64_t begin)
{
	const struct setup_history *h = &d->w->setup;
	struct entries e = {.discovery = 1u << SETUP_PATHS};

	for (unsigned int i = 0; i < SETUP_PATHS; i++)
		if (allows(h, SETUP_NO_LISTENER + i, some, begin))
			e.discovery |= 1u << i;
	if (allows(h, SETUP_DENIED + d->host, some, begin))
		e.subsystem = e.discovery;
	return e;
}

static const char *judge_log(struct discovery *d, struct entries e)
{
	struct entries all = entries_of(d, true, d->begin);
	struct entries least = entries_of(d, false, d->begin);
	uint64_t genctr = le64toh(d->page.head.genctr);

	if (e.subsystem & ~all.subsystem)
		return "it sees a subsystem that its host may not use, or a removed listener of it";
	if (e.discovery & ~all.discovery)
		return "the log has an entry of a listener that was removed";
	if (least.discovery & ~e.discovery || least.subsystem & ~e.subsystem)
		return "the log lacks an entry";
	if (d->genctr && genctr < d->genctr)
		return "the generation counter has decreased";
	if (genctr == d->genctr && memcmp(&e, &d->seen, sizeof(e)) != 0)
		return "the log has changed, but not its generation counter";
	d->genctr = genctr;
	d->seen = e;
	return NULL;
}

static void read_log(struct discovery *d)
{
	struct entries e;
	const char *why = parse_log(d, &e);

	if (!why)
		why = judge_log(d, e);
	if (why)
		discovery_fail(d, why);
	if (d->keeps)
		return;
	d->known = e;
	d->based = true;
	d->told = false;
	d->cleared = d->begin;
}

/* A command was answered: what was settled when it was sent must be known. */
static void judge_told(struct discovery *d)
{
	const struct setup_history *h = &d->w->setup;
	struct entries now = entries_of(d, true, h->settled);

	if (h->settled > d->begin || d->requested >= d->begin || !d->based || d->told)
		return;
	if (memcmp(&now, &d->known, sizeof(now)) != 0)
		discovery_fail(d, "it was not told of a change");
	if (d->w->ending && setup_is_normal(&h->now))
		d->confirmed = true;
}

/* ---- commands ---- */

static void discovery_answered(void *user, const struct rdinit_completion *comp)
{
	struct discovery *d = user;

	d->busy = false;
	rd_sim_tell(d->w->sim, "discovery: reads%s: %d status 0x%x", d->keeps ? " and keeps" : "",
		    comp->err, comp->status);
	if (comp->err == -EIO)
		discovery_fail(d, comp->text);
	if (comp->err)
		return;
	read_log(d);
	judge_told(d);
}

static void send_read_log(struct discovery *d, bool keeps)
{
	struct rdinit_passthru cmd;

	d->begin = rd_sim_now(d->w->sim);
	d->keeps = keeps;
	memset(&d->page, 0, sizeof(d->page));
	put_get_log(&cmd, NVME_LOG_LID_DISCOVER, keeps, &d->page, sizeof(d->page));
	d->busy = rdinit_admin_passthru_async(d->ctrl, &cmd, NULL, discovery_answered, d) == 0;
}

/* ---- life ---- */

static void discovery_connected(void *user, const struct rdinit_completion *comp)
{
	struct discovery *d = user;

	rd_sim_tell(d->w->sim, "discovery: connected: %d", comp->err);
	d->ready = !comp->err;
}

static int discovery_turn(struct actor *actor)
{
	struct discovery *d = actor->arg;

	rdinit_ctrl_process(d->ctrl, 0);
	return 0;
}

static void forget_all(struct discovery *d)
{
	d->ready = d->told = d->based = d->confirmed = d->busy = false;
	d->requested = d->cleared = d->genctr = 0;
}

static void connect_discovery(struct discovery *d)
{
	unsigned int listener = (unsigned int)rd_sim_below(d->w->sim, LISTENERS);
	struct rdinit_ctrl_opts opts;

	forget_all(d);
	snprintf(d->port, sizeof(d->port), "%u", port_of(listener));
	host_ctrl_opts(d->w, &d->name, 1u << listener, &opts);
	opts.traddr = SETUP_ADDR;
	opts.trsvcid = d->port;
	opts.subnqn = RDINIT_DISCOVERY_NQN;
	opts.host_traddr = d->name.addr;
	opts.event_fn = discovery_event;
	opts.event_user = d;
	d->env.seed = rd_sim_random(d->w->sim) | 1;
	if (rdi_ctrl_create_env(&opts, &d->env, &d->ctrl)) {
		discovery_fail(d, rdinit_get_error());
		return;
	}
	d->w->actors[ACTOR_DISCOVERY].loop = d->ctrl->h.loop;
	if (rdinit_ctrl_connect_async(d->ctrl, discovery_connected, d))
		rd_sim_tell(d->w->sim, "discovery: cannot connect");
}

static void disconnect_discovery(struct discovery *d)
{
	d->w->actors[ACTOR_DISCOVERY].loop = NULL;
	rdinit_ctrl_free(&d->ctrl);
	forget_all(d);
}

void discovery_acts(struct discovery *d)
{
	if (!d || d->w->actors[ACTOR_DISCOVERY].stalled_until > rd_sim_now(d->w->sim))
		return;
	if (!d->ctrl && rd_sim_chance(d->w->sim, 1, CONNECT_IN))
		connect_discovery(d);
	else if (d->ctrl && d->ctrl->state == RDI_CTRL_CLOSED)
		disconnect_discovery(d);
	if (!d->ready || d->confirmed || d->busy)
		return;
	if ((d->told || !d->based) && rd_sim_chance(d->w->sim, 1, READ_IN))
		send_read_log(d, false);
	else if (rd_sim_chance(d->w->sim, 1, KEEP_IN))
		send_read_log(d, true);
}

bool discovery_busy(const struct discovery *d)
{
	return d && d->w->ending && !d->confirmed;
}

int discovery_new(struct world *w, struct discovery **out)
{
	struct discovery *d = calloc(1, sizeof(*d));

	*out = d;
	if (!d)
		return -ENOMEM;
	d->w = w;
	d->env = w->host_env;
	d->host = (unsigned int)rd_sim_below(w->sim, WORLD_HOSTS);
	host_name_of(d->host, &d->name);
	w->actors[ACTOR_DISCOVERY] = (struct actor){
		.name = "discovery", .number = d->host, .turn = discovery_turn, .arg = d};
	return 0;
}

void discovery_free(struct discovery *d)
{
	if (!d)
		return;
	d->w->actors[ACTOR_DISCOVERY].loop = NULL;
	rdinit_ctrl_free(&d->ctrl);
	free(d);
}
