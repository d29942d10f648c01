/* SPDX-License-Identifier: BSD-3-Clause */
#include "setup.h"

#include <stdio.h>
#include <string.h>

#include "fabric/sim/sim.h"
#include "target/config/config.h"

/* The first one is the normal one. A path in "change" fails when that takes too long. */
static const char *const ana_states[] = {"optimized", "non-optimized", "inaccessible", "change"};
#define ANA_STATES (sizeof(ana_states) / sizeof(ana_states[0]))

static void change_one(struct rd_sim *sim, struct setup *s, bool removes)
{
	unsigned int path = (unsigned int)rd_sim_below(sim, SETUP_PATHS);
	unsigned int host = (unsigned int)rd_sim_below(sim, SETUP_HOSTS);

	switch (rd_sim_below(sim, 8)) {
	case 0:
		s->no_listener[path] ^= true;
		break;
	case 1:
	case 2:
		s->ana[path] = (uint8_t)rd_sim_below(sim, ANA_STATES);
		break;
	case 3:
		s->other_group ^= true;
		break;
	case 4:
		s->second = (uint8_t)rd_sim_below(sim, 3);
		break;
	case 5:
		s->effect[SETUP_READ_ONLY] ^= true;
		break;
	case 6:
		s->effect[SETUP_REMOVED] = removes && !s->effect[SETUP_REMOVED];
		break;
	default:
		s->effect[SETUP_DENIED + host] ^= true;
		break;
	}
}

struct setup setup_change(struct rd_sim *sim, const struct setup *from, bool removes)
{
	struct setup s = *from;

	if (!setup_is_normal(from) && rd_sim_chance(sim, 1, 3))
		return (struct setup){0};
	for (uint64_t n = 1 + rd_sim_below(sim, 3); n; n--)
		change_one(sim, &s, removes);
	return s;
}

bool setup_is_normal(const struct setup *s)
{
	static const struct setup normal;

	return memcmp(s, &normal, sizeof(normal)) == 0;
}

/* ---- the text ---- */

static void add_hosts(const struct setup *s, FILE *f)
{
	bool all = true;

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

static void add_listeners(const struct setup *s, FILE *f)
{
	/* Whatever else is removed, a configuration needs a listener. */
	fprintf(f, "  - {address: %s, port: 4500, provider: iwarp}\n", SETUP_ADDR);
	for (unsigned int i = 0; i < SETUP_PATHS; i++)
		if (!s->no_listener[i])
			fprintf(f,
				"  - {address: %s, port: %u, provider: iwarp, ana: [{group: %u, "
				"state: %s}]}\n",
				SETUP_ADDR, 4420 + i, s->other_group ? 2 : 1,
				ana_states[s->ana[i]]);
}

void setup_text(const struct setup *s, char *out)
{
	FILE *f = fmemopen(out, SETUP_TEXT, "w");

	out[0] = 0;
	if (!f)
		return;
	fputs(SETUP_TARGET "  state_dir: /simulated\nlisteners:\n", f);
	add_listeners(s, f);
	fprintf(f, "subsystems:\n  - nqn: %s\n", SETUP_NQN);
	add_hosts(s, f);
	fputs("    namespaces:\n", f);
	if (!s->effect[SETUP_REMOVED])
		fprintf(f,
			"      - {nsid: 1, backend: \"null\", size: 14KiB, ana_group: %u, "
			"read_only: %s}\n",
			s->other_group ? 2 : 1, s->effect[SETUP_READ_ONLY] ? "true" : "false");
	if (s->second)
		fprintf(f, "      - {nsid: 2, backend: memory, size: %uKiB}\n", 64u * s->second);
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

static void note_times(struct setup_history *h, uint64_t now)
{
	for (unsigned int i = 0; i < SETUP_EFFECTS; i++) {
		struct setup_times *t = &h->times[i];
		bool certain = h->now.effect[i] && h->next.effect[i];

		if (h->now.effect[i] || h->next.effect[i])
			t->possible = UINT64_MAX;
		else if (t->possible == UINT64_MAX)
			t->possible = now;
		if (!certain)
			t->certain = UINT64_MAX;
		else if (t->certain == UINT64_MAX)
			t->certain = now;
	}
}

void setup_init(struct setup_history *h)
{
	*h = (struct setup_history){0};
	note_times(h, 0);
}

void setup_begins(struct setup_history *h, const struct setup *next, uint64_t now)
{
	h->next = *next;
	note_times(h, now);
}

void setup_applied(struct setup_history *h, uint64_t now)
{
	h->now = h->next;
	note_times(h, now);
}

bool setup_possible(const struct setup_history *h, unsigned int effect, uint64_t begin)
{
	return h->times[effect].possible >= begin;
}

bool setup_certain(const struct setup_history *h, unsigned int effect, uint64_t begin)
{
	return h->times[effect].certain <= begin;
}
