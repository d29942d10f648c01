/* SPDX-License-Identifier: BSD-3-Clause */
#include "setup.h"

#include <stdio.h>
#include <string.h>

#include "simfabric/sim.h"
#include "nvmf/wire.h"
#include "target/config/config.h"

/* The first one is the normal one. A path in "change" fails when that takes too long. */
static const char *const ana_states[] = {"optimized", "non-optimized", "inaccessible", "change"};
#define ANA_STATES (sizeof(ana_states) / sizeof(ana_states[0]))

/* So low that commands wait for them when there is nothing else to wait for, but not too late. */
static const char *const qos_limits[SETUP_QOS] = {
	"", ", qos: {iops: 60}", ", qos: {write_iops: 30}", ", qos: {read_bandwidth: 64KiB}"};

#define OLD_KEYS_TIME (300 * RD_NSEC_PER_SEC) /* as the manual page of the configuration says */

static void change_one(struct rd_sim *sim, struct setup *s, struct setup_scope scope)
{
	unsigned int path = (unsigned int)rd_sim_below(sim, SETUP_PATHS);
	unsigned int host = (unsigned int)rd_sim_below(sim, SETUP_HOSTS);
	uint64_t kind = scope.only_keys ? 9 + rd_sim_below(sim, 6)
					: rd_sim_below(sim, scope.keys ? 14 : 10);

	switch (kind) {
	case 0:
		s->effect[SETUP_NO_LISTENER + path] ^= true;
		break;
	case 1:
	case 2:
		s->ana[path] = (uint8_t)rd_sim_below(sim, ANA_STATES);
		break;
	case 3:
		s->other_group ^= true;
		break;
	case 4:
		s->second = (uint8_t)rd_sim_below(sim, SETUP_SECOND);
		break;
	case 5:
		s->effect[SETUP_READ_ONLY] ^= true;
		break;
	case 6:
		s->effect[SETUP_REMOVED] = scope.removes && !s->effect[SETUP_REMOVED];
		break;
	case 7:
		s->qos = (uint8_t)rd_sim_below(sim, SETUP_QOS);
		break;
	case 8:
		s->effect[SETUP_SHORT] ^= true;
		break;
	case 9:
		s->effect[SETUP_DENIED + host] ^= true;
		break;
	default:
		s->key[host] = (uint8_t)rd_sim_below(sim, SECRET_KINDS);
		break;
	}
}

struct setup setup_change(struct rd_sim *sim, const struct setup *from, struct setup_scope scope)
{
	struct setup s = *from;

	if (!setup_is_normal(from) && rd_sim_chance(sim, 1, 3))
		return (struct setup){0};
	for (uint64_t n = 1 + rd_sim_below(sim, 3); n; n--)
		change_one(sim, &s, scope);
	return s;
}

bool setup_is_normal(const struct setup *s)
{
	static const struct setup normal;

	return memcmp(s, &normal, sizeof(normal)) == 0;
}

/* ---- the text ---- */

#define SETUP_UUID "6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11"

/* @listed: those that have keys must be listed. */
static void add_hosts(const struct setup *s, bool listed, FILE *f)
{
	bool all = !listed;

	for (unsigned int i = 0; i < SETUP_HOSTS; i++)
		all &= !s->effect[SETUP_DENIED + i];
	if (all) {
		fputs("    allow_any_host: true\n", f);
		return;
	}
	fputs("    hosts:\n      - nqn.2024-01.test:another\n", f);
	for (unsigned int i = 0; i < SETUP_HOSTS; i++)
		if (!s->effect[SETUP_DENIED + i])
			fprintf(f, "      - nqn.2024-01.test:host%u\n", i);
}

enum secret_kind setup_key(const struct setup *s, unsigned int host)
{
	if (s->effect[SETUP_DENIED + host] || s->key[host] == SECRET_KINDS - 1)
		return SECRET_NONE;
	return (enum secret_kind)(1 + (s->key[host] + host) % (SECRET_KINDS - 1));
}

static void add_keys(const struct setup *s, const struct secrets *secrets, FILE *f)
{
	fputs("    host_auth:\n", f);
	for (unsigned int i = 0; i < SETUP_HOSTS; i++) {
		enum secret_kind kind = setup_key(s, i);

		if (kind == SECRET_NONE)
			continue;
		fprintf(f,
			"      - {host: nqn.2024-01.test:host%u, dhchap_key_file: /proc/self/fd/%d",
			i, secrets->fd[secret_of_host(kind)]);
		if (secret_of_ctrl(kind) >= 0)
			fprintf(f, ", dhchap_ctrl_key_file: /proc/self/fd/%d",
				secrets->fd[secret_of_ctrl(kind)]);
		fprintf(f, ", dhchap_dhgroups: [\"%s\"]}\n", secrets->group);
	}
}

static bool has_keys(const struct setup *s)
{
	bool has = false;

	for (unsigned int i = 0; i < SETUP_HOSTS; i++)
		has |= setup_key(s, i) != SECRET_NONE;
	return has;
}

/* The simulation takes the place of iwarp. */
static const char *listener_kind(unsigned int tcp, unsigned int listener)
{
	return tcp & 1u << listener ? "transport: tcp" : "provider: iwarp";
}

static void add_listeners(const struct setup *s, unsigned int tcp, FILE *f)
{
	/* Whatever else is removed, a configuration needs a listener. */
	fprintf(f, "  - {address: %s, port: 4500, %s}\n", SETUP_ADDR,
		listener_kind(tcp, SETUP_PATHS));
	for (unsigned int i = 0; i < SETUP_PATHS; i++)
		if (!s->effect[SETUP_NO_LISTENER + i])
			fprintf(f,
				"  - {address: %s, port: %u, %s, ana: [{group: %u, "
				"state: %s}]}\n",
				SETUP_ADDR, 4420 + i, listener_kind(tcp, i), s->other_group ? 2 : 1,
				ana_states[s->ana[i]]);
}

void setup_text(const struct setup *s, const struct secrets *secrets, unsigned int in_capsule,
		bool with_second, unsigned int tcp, char *out)
{
	unsigned int second = (s->second + (with_second ? 1u : 0u)) % SETUP_SECOND;
	FILE *f = fmemopen(out, SETUP_TEXT, "w");

	out[0] = 0;
	if (!f)
		return;
	/* So few buffers that commands wait for them when the storage is slow. */
	fprintf(f,
		SETUP_TARGET "  in_capsule_size: %u\n  buffer_memory: 32KiB\n"
			     "  state_dir: /simulated\nlisteners:\n",
		in_capsule);
	add_listeners(s, tcp, f);
	fprintf(f, "subsystems:\n  - nqn: %s\n", SETUP_NQN);
	add_hosts(s, secrets && has_keys(s), f);
	if (secrets && has_keys(s))
		add_keys(s, secrets, f);
	fputs("    namespaces:\n", f);
	/* With a UUID it is the same one for hosts when it comes back. */
	if (!s->effect[SETUP_REMOVED])
		fprintf(f,
			"      - {nsid: 1, backend: \"null\", uuid: " SETUP_UUID
			", size: %u, ana_group: %u, read_only: %s%s}\n",
			(s->effect[SETUP_SHORT] ? SETUP_SHORT_BLOCKS : SETUP_BLOCKS) * 512,
			s->other_group ? 2 : 1, s->effect[SETUP_READ_ONLY] ? "true" : "false",
			qos_limits[s->qos]);
	if (second)
		fprintf(f, "      - {nsid: 2, backend: memory, size: %uKiB}\n", 64u * second);
	fputs("      - {nsid: 3, backend: memory, size: 64KiB}\n", f);
	fclose(f);
}

int setup_load(const char *text, struct rd_log *log, struct rdt_config **out)
{
	struct rdt_config_texts texts = {0};
	int rc = rdt_config_texts_add(&texts, "sim.yaml", text, strlen(text), 0);

	if (!rc)
		rc = rdt_config_load_texts("sim.yaml", &texts, false, log, out);
	rdt_config_texts_free(&texts);
	return rc;
}

/* ---- the history ---- */

static bool has_effect(const struct setup *s, unsigned int effect)
{
	return effect < SETUP_CLOSED ? s->effect[effect] : s->ana[effect - SETUP_CLOSED] >= 2;
}

static void note_times(struct setup_history *h, uint64_t now)
{
	for (unsigned int i = 0; i < SETUP_EFFECTS; i++) {
		struct setup_times *t = &h->times[i];
		bool now_has = has_effect(&h->now, i), next_has = has_effect(&h->next, i);
		bool certain = now_has && next_has;

		if (now_has || next_has)
			t->possible = SETUP_NEVER;
		else if (t->possible == SETUP_NEVER)
			t->possible = now;
		if (!certain)
			t->certain = t->sure = SETUP_NEVER;
		else if (t->certain == SETUP_NEVER)
			t->certain = now;
	}
}

/* Whether a target that has replaced @old by @key, with @old in force, lets in a host that has
 * @kind. If both have the same secret of the host, the controller proves itself with the new one.
 */
static bool keys_admit(enum secret_kind key, enum secret_kind old, enum secret_kind kind)
{
	if (secrets_match(kind, key))
		return true;
	return key && old && secret_of_host(key) != secret_of_host(old) && kind == old;
}

static enum secret_kind old_key(const struct setup_history *h, unsigned int host)
{
	return h->has_old ? h->old_keys[host] : SECRET_NONE;
}

/* The target admits whom the keys of @s admit, at @now. */
static void note_admits(struct setup_history *h, const struct setup *s, uint64_t now)
{
	for (unsigned int i = 0; i < SETUP_HOSTS; i++)
		for (enum secret_kind k = 0; k < SECRET_KINDS; k++)
			if (keys_admit(setup_key(s, i), old_key(h, i), k))
				h->admits[i][k] = now;
}

static bool same_keys(const struct setup_history *h, const struct setup *s)
{
	bool same = true;

	for (unsigned int i = 0; i < SETUP_HOSTS; i++)
		same &= setup_key(s, i) == h->keys[i];
	return same;
}

/* A host that must authenticate when it connects, and may not any more a moment later, fails. */
static void note_must(struct setup_history *h, uint64_t now)
{
	bool same = same_keys(h, &h->next);

	for (unsigned int i = 0; i < SETUP_HOSTS; i++)
		for (enum secret_kind k = 0; k < SECRET_KINDS; k++) {
			enum secret_kind key = h->keys[i], next = setup_key(&h->next, i);
			bool must = keys_admit(key, old_key(h, i), k) &&
				    keys_admit(next, same ? old_key(h, i) : key, k) &&
				    !key == !next;

			if (!must)
				h->must[i][k] = SETUP_NEVER;
			else if (h->must[i][k] == SETUP_NEVER)
				h->must[i][k] = now;
		}
}

/* Ends the times that last. */
static void note_keys(struct setup_history *h, uint64_t now)
{
	for (unsigned int i = 0; i < SETUP_HOSTS; i++)
		for (unsigned int k = 0; k < SECRET_KINDS; k++)
			if (h->admits[i][k] == SETUP_NEVER)
				h->admits[i][k] = now;
	note_admits(h, &h->now, SETUP_NEVER);
	note_admits(h, &h->next, SETUP_NEVER);
	note_must(h, now);
}

/* Both may have been in use; from now on it is only the second one. */
static void replace_keys(struct setup_history *h, uint64_t now)
{
	if (same_keys(h, &h->now))
		return;
	for (unsigned int i = 0; i < SETUP_HOSTS; i++) {
		h->old_keys[i] = h->keys[i];
		h->keys[i] = setup_key(&h->now, i);
	}
	h->has_old = true;
	h->old_from = h->begun + OLD_KEYS_TIME;
	h->old_until = now + OLD_KEYS_TIME;
}

static bool ns_changes(const struct setup *a, const struct setup *b, unsigned int nsid)
{
	if (nsid == 2)
		return a->second != b->second;
	return a->effect[SETUP_REMOVED] != b->effect[SETUP_REMOVED] ||
	       (!a->effect[SETUP_REMOVED] &&
		(a->effect[SETUP_READ_ONLY] != b->effect[SETUP_READ_ONLY] ||
		 a->effect[SETUP_SHORT] != b->effect[SETUP_SHORT]));
}

static bool may_be_told(const struct setup *a, const struct setup *b, unsigned int news)
{
	unsigned int path = news - SETUP_NEWS_ANA;

	/* Also when the list of a subsystem's hosts changes for others. */
	if (news == SETUP_NEWS_DISCOVERY)
		return memcmp(&a->effect[SETUP_DENIED], &b->effect[SETUP_DENIED],
			      SETUP_HOSTS + SETUP_PATHS) != 0 ||
		       memcmp(a->key, b->key, sizeof(a->key)) != 0;
	if (a->other_group != b->other_group)
		return true;
	if (news == SETUP_NEWS_NS)
		return ns_changes(a, b, 1) || ns_changes(a, b, 2);
	return a->ana[path] != b->ana[path] ||
	       a->effect[SETUP_NO_LISTENER + path] != b->effect[SETUP_NO_LISTENER + path];
}

void setup_init(struct setup_history *h)
{
	*h = (struct setup_history){0};
	replace_keys(h, 0);
	h->has_old = false;
	note_times(h, 0);
	note_keys(h, 0);
}

void setup_begins(struct setup_history *h, const struct setup *next, uint64_t now)
{
	h->next = *next;
	h->begun = now;
	h->settled = SETUP_NEVER;
	for (unsigned int i = 0; i < SETUP_NEWS; i++)
		if (may_be_told(&h->now, next, i))
			h->news[i] = SETUP_NEVER;
	for (unsigned int nsid = 1; nsid <= SETUP_TOLD_NSIDS; nsid++)
		if (ns_changes(&h->now, next, nsid))
			h->attributes[nsid] = now;
	note_times(h, now);
	note_keys(h, now);
}

/* Every reactor runs with @h->now. */
static void all_run(struct setup_history *h, uint64_t now)
{
	for (unsigned int i = 0; i < SETUP_EFFECTS; i++)
		if (h->times[i].certain != SETUP_NEVER && h->times[i].sure == SETUP_NEVER)
			h->times[i].sure = now;
	if (memcmp(&h->now, &h->next, sizeof(h->now)) != 0)
		return;
	h->settled = now;
	for (unsigned int i = 0; i < SETUP_NEWS; i++)
		if (h->news[i] == SETUP_NEVER)
			h->news[i] = now;
}

void setup_applied(struct setup_history *h, unsigned int reactors, uint64_t now)
{
	h->now = h->next;
	h->applied++;
	h->reactors = reactors;
	note_times(h, now);
	replace_keys(h, now);
	note_keys(h, now);
	if (!reactors)
		all_run(h, now);
}

void setup_started(struct setup_history *h, uint64_t now)
{
	setup_applied(h, 0, now);
	h->has_old = false;
	note_keys(h, now);
}

bool setup_admits(const struct setup_history *h, unsigned int host, enum secret_kind kind,
		  uint64_t begin)
{
	return h->admits[host][kind] >= begin;
}

bool setup_must_admit(const struct setup_history *h, unsigned int host, enum secret_kind kind,
		      uint64_t begin, uint64_t now)
{
	bool by_old = !secrets_match(kind, setup_key(&h->now, host)) ||
		      !secrets_match(kind, setup_key(&h->next, host));

	return h->must[host][kind] <= begin && (!by_old || now < h->old_from);
}

void setup_main_turned(struct setup_history *h, uint64_t begin, uint64_t now)
{
	if (!h->has_old || begin < h->old_until)
		return;
	h->has_old = false;
	note_keys(h, now);
}

void setup_turned(struct setup_history *h, unsigned int reactor, unsigned int applied, uint64_t now)
{
	if (!h->reactors || applied != h->applied)
		return;
	h->reactors &= ~(1u << reactor);
	if (!h->reactors)
		all_run(h, now);
}

unsigned int setup_ana_state(const struct setup *s, unsigned int path, unsigned int group)
{
	static const enum nvme_ana_state states[ANA_STATES] = {
		NVME_ANA_STATE_OPTIMIZED, NVME_ANA_STATE_NONOPTIMIZED, NVME_ANA_STATE_INACCESSIBLE,
		NVME_ANA_STATE_CHANGE};

	if (group == (s->other_group ? 2 : 1))
		return group == 2 && s->effect[SETUP_REMOVED] ? 0 : states[s->ana[path]];
	return group == 1 ? NVME_ANA_STATE_OPTIMIZED : 0; /* of namespace 3 */
}

bool setup_possible(const struct setup_history *h, unsigned int effect, uint64_t begin)
{
	return h->times[effect].possible >= begin;
}

bool setup_certain(const struct setup_history *h, unsigned int effect, uint64_t begin)
{
	return h->times[effect].certain <= begin;
}

bool setup_sure(const struct setup_history *h, unsigned int effect, uint64_t begin)
{
	return h->times[effect].sure <= begin;
}

bool setup_may_be_closed(const struct setup_history *h, unsigned int path, uint64_t begin,
			 uint64_t connected)
{
	return setup_possible(h, SETUP_CLOSED + path, begin) ||
	       setup_possible(h, SETUP_NO_LISTENER + path, connected);
}
