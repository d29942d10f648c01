/* SPDX-License-Identifier: BSD-3-Clause */
#include "versions.h"

#include <stdlib.h>

#include "t_main.h"

#define must(cond) CU_ASSERT_FATAL(cond)

void t_versions_init(struct t_versions *vs, uint64_t sectors)
{
	vs->sectors = sectors;
	vs->at = calloc(sectors, sizeof(*vs->at));
	must(vs->at != NULL);
}

void t_versions_fini(struct t_versions *vs)
{
	for (uint64_t s = 0; s < vs->sectors; s++) {
		free(vs->at[s].v);
		free(vs->at[s].replaced);
	}
	free(vs->at);
	vs->at = NULL;
	vs->sectors = 0;
}

static struct t_version *new_version(struct t_versions *vs, uint64_t sector)
{
	must(sector < vs->sectors);
	if (vs->at[sector].count == vs->at[sector].room) {
		vs->at[sector].room = vs->at[sector].room * 2 + 4;
		vs->at[sector].v =
			realloc(vs->at[sector].v, vs->at[sector].room * sizeof(struct t_version));
		must(vs->at[sector].v != NULL);
	}
	return &vs->at[sector].v[vs->at[sector].count++];
}

void t_versions_base(struct t_versions *vs, uint64_t sector, uint64_t content)
{
	*new_version(vs, sector) = (struct t_version){.content = content, .durable = true};
}

void t_versions_begin(struct t_versions *vs, uint64_t sector, uint64_t id, uint64_t content,
		      uint64_t now)
{
	*new_version(vs, sector) =
		(struct t_version){.id = id, .content = content, .begin = now, .end = UINT64_MAX};
}

static struct t_version *find_version(struct t_versions *vs, uint64_t sector, uint64_t id)
{
	for (unsigned int i = 0; i < vs->at[sector].count; i++)
		if (vs->at[sector].v[i].id == id)
			return &vs->at[sector].v[i];
	return NULL;
}

static void remove_version(struct t_versions *vs, uint64_t sector, unsigned int i)
{
	vs->at[sector].v[i] = vs->at[sector].v[--vs->at[sector].count];
}

static void keep_content(struct t_versions *vs, uint64_t sector, uint64_t content)
{
	unsigned int n = vs->at[sector].replaced_count++;

	vs->at[sector].replaced = realloc(vs->at[sector].replaced, (n + 1) * sizeof(uint64_t));
	must(vs->at[sector].replaced != NULL);
	vs->at[sector].replaced[n] = content;
}

/* Remove what a durable version has replaced for sure. */
static void prune(struct t_versions *vs, uint64_t sector)
{
	uint64_t newest = 0;

	for (unsigned int i = 0; i < vs->at[sector].count; i++)
		if (vs->at[sector].v[i].durable && vs->at[sector].v[i].begin > newest)
			newest = vs->at[sector].v[i].begin;
	for (unsigned int i = vs->at[sector].count; i-- > 0;)
		if (vs->at[sector].v[i].end < newest) {
			keep_content(vs, sector, vs->at[sector].v[i].content);
			remove_version(vs, sector, i);
		}
}

void t_versions_end(struct t_versions *vs, uint64_t sector, uint64_t id, uint64_t now)
{
	struct t_version *v = find_version(vs, sector, id);

	/* A read with FUA may have shown that a newer version is durable. */
	if (v)
		v->end = now;
	prune(vs, sector);
}

void t_versions_drop(struct t_versions *vs, uint64_t sector, uint64_t id)
{
	struct t_version *v = find_version(vs, sector, id);

	if (v)
		remove_version(vs, sector, (unsigned int)(v - vs->at[sector].v));
}

void t_versions_durable(struct t_versions *vs, uint64_t sector, uint64_t id)
{
	struct t_version *v = find_version(vs, sector, id);

	if (v && !v->lost)
		v->durable = true;
	prune(vs, sector);
}

void t_versions_sync(struct t_versions *vs, uint64_t first, uint64_t last, uint64_t begun)
{
	for (uint64_t s = first; s < last && s < vs->sectors; s++) {
		for (unsigned int i = 0; i < vs->at[s].count; i++)
			if (vs->at[s].v[i].end < begun && !vs->at[s].v[i].lost)
				vs->at[s].v[i].durable = true;
		prune(vs, s);
	}
}

void t_versions_sync_failed(struct t_versions *vs)
{
	for (uint64_t s = 0; s < vs->sectors; s++)
		for (unsigned int i = 0; i < vs->at[s].count; i++)
			if (!vs->at[s].v[i].durable && vs->at[s].v[i].end != UINT64_MAX)
				vs->at[s].v[i].lost = true;
}

unsigned int t_versions_replaced(const struct t_versions *vs, uint64_t sector)
{
	return vs->at[sector].replaced_count;
}

void t_versions_seen(struct t_versions *vs, uint64_t sector, uint64_t content,
		     unsigned int replaced)
{
	uint64_t begin = UINT64_MAX;

	for (unsigned int i = replaced; i < vs->at[sector].replaced_count; i++)
		if (vs->at[sector].replaced[i] == content)
			return;
	/* Which of them it was is unknown: the oldest one. */
	for (unsigned int i = 0; i < vs->at[sector].count; i++)
		if (vs->at[sector].v[i].content == content && vs->at[sector].v[i].begin < begin)
			begin = vs->at[sector].v[i].begin;
	for (unsigned int i = 0; begin != UINT64_MAX && i < vs->at[sector].count; i++)
		if (vs->at[sector].v[i].begin == begin && vs->at[sector].v[i].content == content)
			vs->at[sector].v[i].durable = true;
	prune(vs, sector);
}

static bool contains(const struct t_versions *vs, uint64_t sector, uint64_t content)
{
	for (unsigned int i = 0; i < vs->at[sector].count; i++)
		if (vs->at[sector].v[i].content == content)
			return true;
	return false;
}

bool t_versions_beyond(const struct t_versions *possible, const struct t_versions *allowed,
		       uint64_t *sector, uint64_t *content)
{
	for (uint64_t s = 0; s < possible->sectors; s++) {
		for (unsigned int i = 0; i < possible->at[s].count; i++) {
			if (contains(allowed, s, possible->at[s].v[i].content))
				continue;
			*sector = s;
			*content = possible->at[s].v[i].content;
			return true;
		}
	}
	return false;
}

void t_versions_print(const struct t_versions *vs, uint64_t sector, const char *whose)
{
	for (unsigned int i = 0; i < vs->at[sector].count; i++) {
		const struct t_version *v = &vs->at[sector].v[i];

		printf("#   %s: content %llx, from %llu to %llu%s%s\n", whose,
		       (unsigned long long)v->content, (unsigned long long)v->begin,
		       (unsigned long long)v->end, v->durable ? ", durable" : "",
		       v->lost ? ", lost" : "");
	}
}
