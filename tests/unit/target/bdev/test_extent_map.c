/* SPDX-License-Identifier: BSD-3-Clause */
/* What is kept of the allocated parts of a file: how often the storage is asked, and that no answer
 * is older than a change that has ended. */
#include "base_suites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/bdev/extent_map.h"
#include "util/random.h"

#define BLOCK  4096u
#define BLOCKS 65536u
#define PART   (BLOCKS / RDT_EXTENT_PARTS)

/* A file of which the blocks in @used are allocated. */
struct fake_file {
	struct rdt_extents_source source;
	struct rdt_extent_versions *versions;
	struct rdt_extent_maps maps;
	unsigned int asked;
	void (*on_ask)(struct fake_file *f);
	int fails;
	bool used[BLOCKS];
	struct rdt_extents *ex;
};

static int ask_fake(struct rdt_extents_source *source, struct rdt_extents *ex, uint64_t from,
		    uint64_t to)
{
	struct fake_file *f = rd_container_of(source, struct fake_file, source);

	f->asked++;
	if (f->fails)
		return f->fails;
	for (uint64_t i = from / BLOCK; i < BLOCKS && i * BLOCK < to; i++)
		if (f->used[i] && !rdt_extents_add(ex, i * BLOCK, (i + 1) * BLOCK))
			return 0;
	ex->upto = to;
	if (f->on_ask)
		f->on_ask(f);
	return 0;
}

static void fake_open(struct fake_file *f, uint32_t room)
{
	*f = (struct fake_file){.source = {ask_fake}};
	f->versions = rdt_extent_versions_new((uint64_t)BLOCKS * BLOCK);
	f->ex = calloc(1, sizeof(*f->ex) + room * sizeof(f->ex->list[0]));
	CU_ASSERT_PTR_NOT_NULL_FATAL(f->versions);
	CU_ASSERT_PTR_NOT_NULL_FATAL(f->ex);
	f->ex->room = room;
	rdt_extent_maps_init(&f->maps);
}

static void fake_close(struct fake_file *f)
{
	rdt_extent_maps_fini(&f->maps);
	rdt_extent_versions_put(f->versions);
	free(f->ex);
}

static void fake_change(struct fake_file *f, uint64_t first, uint64_t blocks, bool used)
{
	memset(f->used + first, used, blocks);
	rdt_extents_changed(f->versions, first * BLOCK, (first + blocks) * BLOCK);
}

static int answer_from(struct fake_file *f, struct rdt_extent_maps *maps, uint64_t first,
		       uint64_t blocks)
{
	const struct rdt_bio bio = {.op = RDT_BIO_EXTENTS,
				    .offset = first * BLOCK,
				    .length = blocks * BLOCK,
				    .buf = f->ex};

	return rdt_extent_maps_answer(maps, f->versions, &f->source, &bio);
}

static int fake_answer(struct fake_file *f, uint64_t first, uint64_t blocks)
{
	return answer_from(f, &f->maps, first, blocks);
}

/* Returns how often the storage was asked for an answer about all blocks. */
static unsigned int asked_for_all(struct fake_file *f)
{
	f->asked = 0;
	CU_ASSERT_EQUAL(fake_answer(f, 0, BLOCKS), 0);
	CU_ASSERT_EQUAL(f->ex->upto, (uint64_t)BLOCKS * BLOCK);
	return f->asked;
}

static void the_storage_is_asked_once(void)
{
	struct fake_file f T_ENDS(fake_close);

	fake_open(&f, BLOCKS);
	for (unsigned int i = 0; i < BLOCKS; i += 4)
		f.used[i] = true;
	CU_ASSERT_EQUAL(asked_for_all(&f), RDT_EXTENT_PARTS);
	CU_ASSERT_EQUAL(f.ex->count, BLOCKS / 4);
	for (unsigned int i = 0; i < 10; i++)
		CU_ASSERT_EQUAL(asked_for_all(&f), 0);
	CU_ASSERT_EQUAL(f.ex->count, BLOCKS / 4);
	/* Only the parts that have changed are asked for again, the first and the last one too. */
	fake_change(&f, 5 * PART + 1, 1, true);
	CU_ASSERT_EQUAL(asked_for_all(&f), 1);
	fake_change(&f, 7 * PART - 1, 2, false);
	CU_ASSERT_EQUAL(asked_for_all(&f), 2);
	fake_change(&f, 0, 1, false);
	fake_change(&f, BLOCKS - 1, 1, true);
	CU_ASSERT_EQUAL(asked_for_all(&f), 2);
	rdt_extents_changed(f.versions, 0, UINT64_MAX); /* a resize */
	CU_ASSERT_EQUAL(asked_for_all(&f), RDT_EXTENT_PARTS);
	CU_ASSERT_EQUAL(asked_for_all(&f), 0);
}

static void change_while_asked(struct fake_file *f)
{
	f->on_ask = NULL;
	fake_change(f, 1, 1, true);
}

/* A change that ends while the storage answers is in the next answer. */
static void a_change_meanwhile(void)
{
	struct fake_file f T_ENDS(fake_close);

	fake_open(&f, BLOCKS);
	f.on_ask = change_while_asked;
	CU_ASSERT_EQUAL(fake_answer(&f, 0, PART), 0);
	CU_ASSERT_EQUAL(f.ex->count, 0);
	CU_ASSERT_EQUAL(fake_answer(&f, 0, PART), 0);
	CU_ASSERT_EQUAL(f.ex->count, 1);
	CU_ASSERT_EQUAL(f.asked, 2);
}

static void a_failure_is_not_kept(void)
{
	struct fake_file f T_ENDS(fake_close);

	fake_open(&f, 8);
	f.fails = -EIO;
	CU_ASSERT_EQUAL(fake_answer(&f, 0, PART), -EIO);
	f.fails = 0;
	f.used[3] = true;
	CU_ASSERT_EQUAL(fake_answer(&f, 0, PART), 0);
	CU_ASSERT_EQUAL(f.ex->count, 1);
}

/* Two threads have maps of one file: a change reaches both. */
static void two_threads(void)
{
	struct fake_file f T_ENDS(fake_close);
	struct rdt_extent_maps maps[2];

	fake_open(&f, BLOCKS);
	rdt_extent_maps_init(&maps[0]);
	rdt_extent_maps_init(&maps[1]);
	for (unsigned int round = 0; round < 4; round++) {
		fake_change(&f, round * 2, 1, true);
		for (unsigned int i = 0; i < 4; i++) {
			CU_ASSERT_EQUAL(answer_from(&f, &maps[i % 2], 0, PART), 0);
			CU_ASSERT_EQUAL(f.ex->count, round + 1);
		}
	}
	CU_ASSERT_EQUAL(f.asked, 8);
	rdt_extent_maps_fini(&maps[0]);
	rdt_extent_maps_fini(&maps[1]);
}

/* Only so many maps are kept, those that were asked for last; and no map of a file has more than a
 * number of extents. */
static void maps_are_bounded(void)
{
	struct fake_file f T_ENDS(fake_close);
	struct rdt_extent_versions *first, *others[RDT_EXTENT_MAPS];

	fake_open(&f, BLOCKS);
	for (unsigned int i = 0; i < BLOCKS; i += BLOCKS / RDT_EXTENT_KEPT)
		f.used[i] = true;
	CU_ASSERT_EQUAL(asked_for_all(&f), RDT_EXTENT_PARTS);
	CU_ASSERT_EQUAL(asked_for_all(&f), 0);
	first = f.versions;
	for (unsigned int i = 0; i < RDT_EXTENT_MAPS; i++) {
		f.versions = others[i] = rdt_extent_versions_new((uint64_t)BLOCKS * BLOCK);
		CU_ASSERT_EQUAL(asked_for_all(&f), RDT_EXTENT_PARTS);
		CU_ASSERT_TRUE(f.maps.count <= RDT_EXTENT_MAPS);
	}
	f.versions = first;
	CU_ASSERT_EQUAL(asked_for_all(&f), RDT_EXTENT_PARTS);
	f.versions = others[RDT_EXTENT_MAPS - 1];
	CU_ASSERT_EQUAL(asked_for_all(&f), 0);
	f.versions = first;
	for (unsigned int i = 0; i < RDT_EXTENT_MAPS; i++)
		rdt_extent_versions_put(others[i]);
}

/* A part with more extents than a map may have is looked at as a whole once, and then asked for
 * piece by piece. */
static void a_part_with_too_many(void)
{
	struct fake_file f T_ENDS(fake_close);

	fake_open(&f, 16);
	rdt_extent_versions_put(f.versions);
	f.versions = rdt_extent_versions_new(UINT64_C(1) << 40); /* the file is in the first part */
	for (unsigned int i = 0; i < BLOCKS; i += 2)
		f.used[i] = true;
	for (unsigned int i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(fake_answer(&f, 8, BLOCKS - 8), 0);
		CU_ASSERT_EQUAL(f.ex->count, 16);
		CU_ASSERT_EQUAL(f.ex->list[0].from, 8 * BLOCK);
		CU_ASSERT_EQUAL(f.ex->upto, 40 * BLOCK);
		CU_ASSERT_EQUAL(f.asked, 2 + i);
		fake_change(&f, BLOCKS - 1, 1, true);
	}
	CU_ASSERT_EQUAL(f.versions->walks, 1);
}

static bool in_answer(const struct rdt_extents *ex, uint64_t at)
{
	for (uint32_t i = 0; i < ex->count; i++)
		if (at >= ex->list[i].from && at < ex->list[i].to)
			return true;
	return false;
}

static void random_changes(void)
{
	struct fake_file f T_ENDS(fake_close);
	struct rd_random random;

	fake_open(&f, 64);
	rd_random_init(&random, 20);
	for (unsigned int n = 0; n < 4000; n++) {
		uint64_t first = rd_random_next(&random) % BLOCKS;
		uint64_t count = 1 + rd_random_next(&random) % (n % 2 ? 8 : 3000);

		if (count > BLOCKS - first)
			count = BLOCKS - first;
		if (rd_random_next(&random) % 2) {
			fake_change(&f, first, count, rd_random_next(&random) % 3);
			continue;
		}
		f.ex->room = 1 + (uint32_t)(rd_random_next(&random) % 64);
		CU_ASSERT_EQUAL(fake_answer(&f, first, count), 0);
		CU_ASSERT_TRUE_FATAL(f.ex->upto > first * BLOCK);
		CU_ASSERT_TRUE_FATAL(f.ex->upto <= (first + count) * BLOCK);
		for (uint64_t at = first * BLOCK; at < f.ex->upto; at += BLOCK)
			CU_ASSERT_EQUAL_FATAL(in_answer(f.ex, at), f.used[at / BLOCK]);
	}
}

const struct t_case t_extent_map_cases[] = {
	{"the storage is asked once for each change", the_storage_is_asked_once},
	{"a change while the storage answers", a_change_meanwhile},
	{"a failure is not kept", a_failure_is_not_kept},
	{"two threads that keep maps", two_threads},
	{"maps are bounded", maps_are_bounded},
	{"a part with too many extents", a_part_with_too_many},
	{"random changes, compared with the file", random_changes},
	{NULL, NULL},
};
