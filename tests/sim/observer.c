/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A controller of a host that has an Asynchronous Event Request outstanding all the time, and reads
 * log pages. It judges whether it is told of each change, once, and only of what it has enabled.
 *
 * Answers of an admin queue arrive in order. A command that was sent when every reactor had run
 * with a new configuration, and a request was outstanding, is therefore answered after the event of
 * that configuration.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/wire.h"

#include "faults.h"
#include "host_ctrl.h"
#include "notes.h"
#include "probe.h"

#define CONNECT_IN  100 /* one of so many steps begins to connect again */
#define READ_IN     20  /* one of so many begins to read what an event tells of */
#define SILENT_IN   400 /* one in which it authenticates has it fall silent */
#define AGAIN_KEYS  150 /* with the profile that aims at keys one of so many begins anew */
#define SILENT_TIME (15 * RD_NSEC_PER_SEC)
#define PROBE_IN    60 /* one of so many begins another command */

enum kind { KIND_NS, KIND_ANA, KIND_RESV, KINDS };

static const char *const kind_names[] = {
	[KIND_NS] = "namespaces", [KIND_ANA] = "ANA states", [KIND_RESV] = "reservations"};
static const uint8_t kind_lids[] = {[KIND_NS] = NVME_LOG_LID_CHANGED_NS,
				    [KIND_ANA] = NVME_LOG_LID_ANA,
				    [KIND_RESV] = NVME_LOG_LID_RESERVATION};
/* Bits of feature 0Bh. Notifications of reservations cannot be disabled there. */
static const uint32_t kind_bits[] = {[KIND_NS] = (uint32_t)NVME_CTRL_OAES_NA,
				     [KIND_ANA] = (uint32_t)NVME_CTRL_OAES_ANA,
				     [KIND_RESV] = 0};

enum what { READS, SETS, MASKS };
static const char *const what_names[] = {
	[READS] = "reads", [SETS] = "sets its events", [MASKS] = "masks notifications"};

struct watched {
	bool enabled;     /* since @since; the log page was read later if @based */
	bool may;         /* it is, or was, enabled: an event of it may arrive */
	bool told;        /* and the log page was not read since */
	bool based;       /* the log page was read while it was enabled */
	uint64_t since;   /* when the answer came that enabled it */
	uint64_t cleared; /* when the command began that read the log page and cleared the event */
};

struct observer {
	struct world *w;
	struct rdi_env env;
	unsigned int host, path;
	struct host_name name;
	char port[8];
	struct rdinit_ctrl *ctrl;
	struct probe probe;
	uint64_t connected; /* when it began to connect */
	bool ready;
	uint64_t requested; /* when the last event came: the next request was sent then */
	struct watched kinds[KINDS];
	uint64_t listed[1 + SETUP_TOLD_NSIDS]; /* when a list of changed namespaces had n */
	unsigned int states[3];                /* by ANA group, as read last; 0: no such group */
	uint64_t states_since;                 /* when the command began that read them */
	struct notes notes;                    /* of reservations */
	bool confirmed; /* while the world ends: a command that judges all was answered */

	/* the command in flight */
	bool busy;
	enum what what;
	bool keeps; /* the event: RAE */
	enum kind kind;
	uint32_t mask;
	uint64_t begin;
	union {
		struct nvme_ns_list ns;
		struct nvme_resv_notification_log note;
		struct nvme_ana_log ana;
		uint8_t bytes[4096];
	} page;
};

static void observer_fail(struct observer *t, const char *what, enum kind kind)
{
	world_fail(t->w, "host %u by port %s: %s: %s", t->host, t->port, kind_names[kind], what);
}

/* ---- events ---- */

/* The change of which an event may tell is not one that the log page has shown. */
static bool may_be_news(const struct observer *t, enum kind kind)
{
	const struct setup_history *h = &t->w->setup;

	if (kind == KIND_RESV)
		return true;
	return h->news[kind == KIND_NS ? SETUP_NEWS_NS : SETUP_NEWS_ANA + t->path] >=
	       t->kinds[kind].cleared;
}

static void observer_event(void *user, uint32_t event)
{
	struct observer *t = user;
	enum kind kind = KIND_NS;
	struct watched *k;

	rd_sim_tell(t->w->sim, "observer: event 0x%06x", event);
	t->requested = rd_sim_now(t->w->sim);
	if ((event & 7) == NVME_AER_ERROR)
		return; /* a state file that was not written */
	while (kind < KINDS && kind_lids[kind] != (event >> 16 & 0xff))
		kind++;
	if (kind == KINDS) {
		world_fail(t->w, "host %u: an event 0x%x that it does not know", t->host, event);
		return;
	}
	k = &t->kinds[kind];
	if (!k->may)
		observer_fail(t, "it was told, but has not enabled that", kind);
	else if (k->told)
		observer_fail(t, "it was told again before it has read the log page", kind);
	else if (!may_be_news(t, kind))
		observer_fail(t, "it was told of what it had read", kind);
	k->told = true;
	if (kind == KIND_RESV)
		notes_told(&t->notes);
}

/* ---- what was read ---- */

static void read_ns(struct observer *t)
{
	uint64_t now = rd_sim_now(t->w->sim);

	for (unsigned int i = 0; t->page.ns.ns[i] && !t->keeps; i++)
		if (le32toh(t->page.ns.ns[i]) <= SETUP_TOLD_NSIDS)
			t->listed[le32toh(t->page.ns.ns[i])] = now;
}

static void read_ana(struct observer *t)
{
	const uint8_t *at = t->page.bytes + sizeof(t->page.ana);

	if (t->keeps)
		return;
	memset(t->states, 0, sizeof(t->states));
	t->states_since = t->begin;
	for (unsigned int i = 0; i < le16toh(t->page.ana.ngrps); i++) {
		struct nvme_ana_group_desc d;

		memcpy(&d, at, sizeof(d));
		at += sizeof(d) + le32toh(d.nnsids) * sizeof(__le32);
		if (le32toh(d.grpid) < 3)
			t->states[le32toh(d.grpid)] = d.state;
	}
}

static void read_note(struct observer *t)
{
	const char *why = notes_read(&t->notes, &t->page.note, t->keeps, t->kinds[KIND_RESV].told,
				     t->requested < t->begin);

	if (why)
		observer_fail(t, why, KIND_RESV);
}

/* Whether nothing is to be read before it can be judged what the host was told. */
static bool is_awaited(const struct watched *k)
{
	return k->enabled && k->based && !k->told;
}

static void judge_ns(struct observer *t)
{
	const struct watched *k = &t->kinds[KIND_NS];

	for (unsigned int n = 1; n <= SETUP_TOLD_NSIDS && is_awaited(k); n++)
		if (t->w->setup.attributes[n] > k->since &&
		    t->listed[n] < t->w->setup.attributes[n])
			observer_fail(t, "it was not told of a change", KIND_NS);
}

/* A namespace that is added is told as such, and not as a change of its group. */
static void judge_ana(struct observer *t)
{
	const struct setup_history *h = &t->w->setup;
	unsigned int groups = setup_possible(h, SETUP_REMOVED, t->states_since) ? 1 : 2;

	/* A controller keeps the states of a listener that was removed. */
	if (setup_possible(h, SETUP_NO_LISTENER + t->path, t->connected))
		return;
	for (unsigned int g = 1; g <= groups && is_awaited(&t->kinds[KIND_ANA]); g++)
		if (t->states[g] != setup_ana_state(&h->now, t->path, g))
			observer_fail(t, "it was not told of a change", KIND_ANA);
}

/* A command was answered: what was settled when it was sent must be known. */
static void judge(struct observer *t)
{
	bool all = true;

	if (t->w->setup.settled > t->begin || t->requested >= t->begin)
		return;
	judge_ns(t);
	judge_ana(t);
	for (unsigned int i = 0; i < KIND_RESV; i++)
		all &= is_awaited(&t->kinds[i]);
	if (t->w->ending && all && setup_is_normal(&t->w->setup.now))
		t->confirmed = true;
}

/* ---- commands ---- */

static void was_set(struct observer *t)
{
	for (unsigned int i = 0; i < KIND_RESV; i++) {
		struct watched *k = &t->kinds[i];
		bool on = t->mask & kind_bits[i];

		if (on && !k->enabled) {
			k->since = rd_sim_now(t->w->sim);
			k->based = false;
		}
		k->enabled = k->may = on;
		k->told &= on;
	}
}

/* Events that come after the answer are sent after the page was read. */
static void was_cleared(struct observer *t, struct watched *k)
{
	k->based = true;
	k->told = false;
	k->cleared = t->begin;
}

/* A mask of notifications is part of a namespace, which the ANA state of the path may close. */
static bool is_refused_mask(const struct observer *t, const struct rdinit_completion *comp)
{
	unsigned int status = comp->status & 0x7ff;

	return t->what == MASKS &&
	       (status == (NVME_SCT_PATH << 8 | NVME_SC_ANA_TRANSITION) ||
		status == (NVME_SCT_PATH << 8 | NVME_SC_ANA_INACCESSIBLE)) &&
	       setup_may_be_closed(&t->w->setup, t->path, t->begin, t->connected);
}

static void observer_answered(void *user, const struct rdinit_completion *comp)
{
	static void (*const reads[])(struct observer * t) = {
		[KIND_NS] = read_ns, [KIND_ANA] = read_ana, [KIND_RESV] = read_note};
	struct observer *t = user;

	rd_sim_tell(t->w->sim, "observer: %s%s%s%s: %d status 0x%x", what_names[t->what],
		    t->what == READS ? " " : "", t->what == READS ? kind_names[t->kind] : "",
		    t->keeps ? " and keeps" : "", comp->err, comp->status);
	t->busy = false;
	if (comp->err) {
		if (comp->err == -EIO && is_refused_mask(t, comp))
			notes_not_masked(&t->notes, rd_sim_now(t->w->sim));
		else if (comp->err == -EIO)
			world_fail(t->w, "host %u: an admin command has failed: %s", t->host,
				   comp->text);
		return;
	}
	if (t->what == SETS) {
		was_set(t);
	} else if (t->what == MASKS) {
		notes_masked(&t->notes, rd_sim_now(t->w->sim));
	} else {
		reads[t->kind](t);
		if (!t->keeps)
			was_cleared(t, &t->kinds[t->kind]);
	}
	judge(t);
}

static void send_command(struct observer *t, const struct rdinit_passthru *cmd)
{
	t->begin = rd_sim_now(t->w->sim);
	t->busy = rdinit_admin_passthru_async(t->ctrl, cmd, NULL, observer_answered, t) == 0;
}

static void send_mask(struct observer *t)
{
	struct rdinit_passthru cmd;
	uint64_t n = rd_sim_below(t->w->sim, 4);

	if (t->w->ending)
		n = 3;
	t->what = SETS;
	t->keeps = false;
	t->mask = 0;
	for (unsigned int i = 0; i < KIND_RESV; i++)
		t->mask |= n >> i & 1 ? kind_bits[i] : 0;
	for (unsigned int i = 0; i < KIND_RESV; i++)
		t->kinds[i].may |= (t->mask & kind_bits[i]) != 0;
	rdinit_passthru_init(&cmd);
	cmd.sqe[0] = nvme_admin_set_features;
	put_dword(&cmd, 10, NVME_FEAT_FID_ASYNC_EVENT);
	put_dword(&cmd, 11, t->mask);
	send_command(t, &cmd);
}

/* Of notifications of reservations. */
static void send_masked(struct observer *t)
{
	struct rdinit_passthru cmd;
	unsigned int masked = (unsigned int)rd_sim_below(t->w->sim, 8) << 1;

	if (rd_sim_chance(t->w->sim, 1, 2))
		masked = 0;
	t->what = MASKS;
	t->keeps = false;
	notes_mask(&t->notes, masked, rd_sim_now(t->w->sim));
	rd_sim_tell(t->w->sim, "observer: masks 0x%x", masked);
	rdinit_passthru_init(&cmd);
	cmd.sqe[0] = nvme_admin_set_features;
	put_dword(&cmd, 1, 1);
	put_dword(&cmd, 10, NVME_FEAT_FID_RESV_MASK);
	put_dword(&cmd, 11, masked);
	send_command(t, &cmd);
}

static void send_read(struct observer *t, enum kind kind, bool keeps)
{
	static const uint32_t sizes[] = {[KIND_NS] = sizeof(struct nvme_ns_list),
					 [KIND_ANA] = 512,
					 [KIND_RESV] = sizeof(struct nvme_resv_notification_log)};
	struct rdinit_passthru cmd;

	t->what = READS;
	t->kind = kind;
	t->keeps = keeps;
	if (kind == KIND_RESV)
		notes_read_begins(&t->notes);
	memset(&t->page, 0, sizeof(t->page));
	put_get_log(&cmd, kind_lids[kind], keeps, &t->page, sizes[kind]);
	send_command(t, &cmd);
}

static void command(struct observer *t)
{
	struct rd_sim *sim = t->w->sim;
	enum kind kind = (enum kind)rd_sim_below(sim, KINDS);
	const struct watched *k = &t->kinds[kind];
	bool reads = k->told || (k->enabled && !k->based) || (kind == KIND_RESV && t->notes.all);

	if (reads && rd_sim_chance(sim, 1, READ_IN))
		send_read(t, kind, false);
	else if (rd_sim_chance(sim, 1, PROBE_IN))
		send_read(t, kind, true);
	else if (rd_sim_chance(sim, 1, 20 * PROBE_IN) ||
		 (t->w->ending && !(t->kinds[KIND_NS].enabled && t->kinds[KIND_ANA].enabled)))
		send_mask(t);
	else if (t->w->reserves && !t->w->ending && rd_sim_chance(sim, 1, 10 * PROBE_IN))
		send_masked(t);
}

/* ---- life ---- */

static void observer_connected(void *user, const struct rdinit_completion *comp)
{
	struct observer *t = user;

	rd_sim_tell(t->w->sim, "observer: connected: %d", comp->err);
	t->ready = !comp->err;
	if (comp->err == -EKEYREJECTED)
		probe_judge_refusal(&t->probe);
	if (t->ready) {
		probe_judge_secret(&t->probe, t->connected, "an admin queue");
		notes_ready(&t->notes, rd_sim_now(t->w->sim));
	}
	for (unsigned int i = 0; i < KINDS; i++)
		t->kinds[i].since = rd_sim_now(t->w->sim);
}

static int observer_turn(struct actor *actor)
{
	struct observer *t = actor->arg;

	rdinit_ctrl_process(t->ctrl, 0);
	return 0;
}

static void forget(struct observer *t)
{
	for (unsigned int i = 0; i < KINDS; i++)
		t->kinds[i] = (struct watched){.enabled = true, .may = true};
	memset(t->listed, 0, sizeof(t->listed));
	memset(t->states, 0, sizeof(t->states));
	t->ready = t->confirmed = false;
	notes_begin(&t->notes, t->w->resv);
	t->connected = rd_sim_now(t->w->sim);
	t->probe.connected = t->connected;
}

static void connect_observer(struct observer *t)
{
	struct actor *actor = &t->w->actors[ACTOR_OBSERVER];
	struct rdinit_ctrl_opts opts;
	struct rdinit_auth_opts auth;

	forget(t);
	t->path = (unsigned int)rd_sim_below(t->w->sim, WORLD_PATHS);
	t->probe.path = t->path;
	snprintf(t->port, sizeof(t->port), "%u", WORLD_PORT + t->path);
	host_ctrl_opts(t->w, &t->name, 1u << t->path, &opts);
	opts.traddr = SETUP_ADDR;
	opts.trsvcid = t->port;
	opts.subnqn = SETUP_NQN;
	opts.host_traddr = t->name.addr;
	opts.nr_io_queues = 8;
	t->probe.secret = t->w->secrets ? probe_choose_secret(&t->probe) : SECRET_NONE;
	if (t->w->secrets && secrets_opts(t->w->secrets, t->probe.secret, &auth))
		opts.auth = &auth;
	opts.event_fn = observer_event;
	opts.event_user = t;
	t->env.seed = rd_sim_random(t->w->sim) | 1;
	if (rdi_ctrl_create_env(&opts, &t->env, &t->ctrl)) {
		world_fail(t->w, "host %u: no controller: %s", t->host, rdinit_get_error());
		return;
	}
	actor->loop = t->ctrl->h.loop;
	if (rdinit_ctrl_connect_async(t->ctrl, observer_connected, t))
		rd_sim_tell(t->w->sim, "observer: cannot connect");
}

static void disconnect_observer(struct observer *t)
{
	t->w->actors[ACTOR_OBSERVER].loop = NULL;
	probe_close(&t->probe);
	rdinit_ctrl_free(&t->ctrl);
	forget(t);
}

/* In the middle of its authentication, for longer than the target waits. */
static void falls_silent(struct observer *t)
{
	if (!t->ctrl || t->ctrl->state != RDI_CTRL_AUTH || t->w->ending ||
	    !rd_sim_chance(t->w->sim, 1, SILENT_IN))
		return;
	rd_sim_tell(t->w->sim, "observer: falls silent");
	t->w->actors[ACTOR_OBSERVER].stalled_until = rd_sim_now(t->w->sim) + SILENT_TIME;
}

/* With the profile that aims at keys it is not there while it is quiet. */
static bool has_gone(const struct observer *t)
{
	const struct world *w = t->w;

	if (t->ctrl->state == RDI_CTRL_CLOSED || t->probe.lost)
		return true;
	if (!(w->opts.faults & FAULTS_KEYS) || w->ending)
		return false;
	return w->quiet_until > rd_sim_now(w->sim) ||
	       (t->probe.live && rd_sim_chance(w->sim, 1, AGAIN_KEYS));
}

static bool has_come(const struct observer *t)
{
	const struct world *w = t->w;

	if (w->opts.faults & FAULTS_KEYS && !w->ending)
		return w->quiet_until <= rd_sim_now(w->sim) &&
		       rd_sim_chance(w->sim, 10, CONNECT_IN);
	return rd_sim_chance(w->sim, 1, CONNECT_IN);
}

void observer_acts(struct observer *t)
{
	if (!t || t->w->actors[ACTOR_OBSERVER].stalled_until > rd_sim_now(t->w->sim))
		return;
	if (!t->ctrl && has_come(t))
		connect_observer(t);
	else if (t->ctrl && has_gone(t))
		disconnect_observer(t);
	falls_silent(t);
	if (!t->ready || t->confirmed)
		return;
	if (!t->busy)
		command(t);
	probe_acts(&t->probe, t->ctrl);
}

bool observer_busy(const struct observer *t)
{
	return t && t->w->ending && (!t->confirmed || t->probe.busy);
}

int observer_new(struct world *w, struct observer **out)
{
	struct observer *t = calloc(1, sizeof(*t));

	*out = t;
	if (!t)
		return -ENOMEM;
	t->w = w;
	t->env = w->host_env;
	t->host = (unsigned int)rd_sim_below(w->sim, WORLD_HOSTS);
	resv_listener(w->resv, t->host);
	t->probe.w = w;
	t->probe.host = t->host;
	host_name_of(t->host, &t->name);
	w->actors[ACTOR_OBSERVER] = (struct actor){
		.name = "observer", .number = t->host, .turn = observer_turn, .arg = t};
	return 0;
}

void observer_free(struct observer *t)
{
	if (!t)
		return;
	probe_close(&t->probe);
	rdinit_ctrl_free(&t->ctrl);
	free(t);
}
