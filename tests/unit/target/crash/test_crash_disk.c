/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Power failures of files: whatever a failure at any moment can leave is allowed by what hosts were
 * answered before. A host sends random commands, the kernel (kernel.h) completes I/Os in random
 * order, and after every event each content that a sector can have on the disk must be one that the
 * answers permit: a Write, Write Zeroes or Copy answered with FUA is there, what was answered
 * before a Flush was sent is there once the Flush is answered, and what a Read with FUA returned is
 * there. T_SEED=N repeats a seed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crash.h"
#include "kernel.h"
#include "t_target.h"

#define HOT      96u  /* sectors that are written */
#define SECTORS  128u /* the others are sources of Copy and never change */
#define SLOTS    10u
#define MOST     24u /* sectors of a command */
#define CAPSULE  (T_INCAPSULE / T_SECTOR)
#define COMMANDS 500u
#define FUA      (1u << 30)
#define DEAC     (1u << 25)

struct setup {
	const char *name;
	enum rdt_engine_type engine;
	enum rdt_direct direct;
};

enum what { NOTHING, READS, WRITES, ZEROES, COPIES, FLUSHES };

struct slot {
	enum what what;
	uint16_t cid;
	bool fua;
	uint64_t first, n; /* sectors */
	uint64_t id;
	uint64_t begun;
	unsigned int replaced[MOST]; /* versions of each sector, when it began */
	uint8_t data[MOST * T_SECTOR];
	uint8_t range[32]; /* of Copy and Dataset Management */
};

struct crash {
	struct t_kernel kernel;
	struct t_versions allowed;
	struct t_pair p;
	struct slot slots[SLOTS];
	uint8_t old[T_SECTOR]; /* of Compare and Write */
	uint64_t next_id;
	unsigned int answered, failed;
	bool sure; /* an error is a failure of the test */
	bool beyond;
	const struct setup *how;
	uint64_t seed;
};

static struct crash *the_crash;

static uint64_t base_content(uint64_t sector)
{
	return UINT64_C(0xba5e) << 48 | sector;
}

static uint64_t pick(struct crash *c, uint64_t below)
{
	return t_kernel_random(&c->kernel, below);
}

/* ---- what the host may rely on ---- */

static uint64_t content_of(const struct slot *s, uint64_t i)
{
	if (s->what == ZEROES)
		return 0;
	return s->what == COPIES ? base_content(HOT + i) : s->id << 8 | i;
}

static bool changes(const struct slot *s)
{
	return s->what == WRITES || s->what == ZEROES || s->what == COPIES;
}

static void host_begins(struct crash *c, struct slot *s)
{
	s->id = ++c->next_id;
	s->begun = t_kernel_tick(&c->kernel);
	for (uint64_t i = 0; s->what == READS && i < s->n; i++)
		s->replaced[i] = t_versions_replaced(&c->allowed, s->first + i);
	for (uint64_t i = 0; changes(s) && i < s->n; i++)
		t_versions_begin(&c->allowed, s->first + i, s->id, content_of(s, i), s->begun);
}

static void host_is_answered(struct crash *c, struct slot *s, const struct rdt_req *req)
{
	uint64_t now = t_kernel_tick(&c->kernel);

	c->answered++;
	if (s->what == FLUSHES)
		t_versions_sync(&c->allowed, 0, SECTORS, s->begun);
	for (uint64_t i = 0; i < s->n; i++) {
		if (s->what == READS && s->fua)
			t_versions_seen(&c->allowed, s->first + i,
					t_sector_content((uint8_t *)req->buf + i * T_SECTOR),
					s->replaced[i]);
		if (!changes(s))
			continue;
		t_versions_end(&c->allowed, s->first + i, s->id, now);
		if (s->fua)
			t_versions_durable(&c->allowed, s->first + i, s->id);
	}
}

/* Would a power failure now be noticed? */
static void look(struct crash *c)
{
	uint64_t sector, content;

	if (c->beyond || !t_versions_beyond(&c->kernel.disk, &c->allowed, &sector, &content))
		return;
	c->beyond = true;
	if (c->kernel.mistake)
		return;
	printf("# %s, seed %llu, time %llu: sector %llu can contain %llx\n", c->how->name,
	       (unsigned long long)c->seed, (unsigned long long)c->kernel.now,
	       (unsigned long long)sector, (unsigned long long)content);
	t_versions_print(&c->kernel.disk, sector, "possible");
	t_versions_print(&c->allowed, sector, "allowed");
}

static void on_respond(struct t_conn *conn, struct rdt_req *req)
{
	struct crash *c = the_crash;
	unsigned int status;

	for (unsigned int i = 0; i < SLOTS; i++) {
		struct slot *s = &c->slots[i];

		if (s->what == NOTHING || s->cid != req->cqe.cid)
			continue;
		status = nvme_status_from_wire(req->cqe.status).v & 0x7ff;
		if (status) {
			if (c->sure && !c->failed++)
				printf("# a command of kind %d ended with status %x\n", s->what,
				       status);
		} else {
			host_is_answered(c, s, req);
		}
		s->what = NOTHING;
		look(c);
	}
}

/* ---- the host ---- */

static void put_data(struct slot *s, struct nvme_sqe *sqe, bool in_capsule)
{
	for (uint64_t i = 0; i < s->n; i++)
		t_sector_fill(s->data + i * T_SECTOR, content_of(s, i));
	if (!in_capsule)
		return;
	memset(&sqe->sgl, 0, sizeof(sqe->sgl));
	sqe->sgl.data.length = htole32((uint32_t)(s->n * T_SECTOR));
	sqe->sgl.data.type = NVME_SGL_IN_CAPSULE;
}

static void send_copy(struct crash *c, struct slot *s)
{
	__le64 slba = htole64(HOT);
	__le16 nlb = htole16((uint16_t)(s->n - 1));
	struct nvme_sqe sqe;

	memset(s->range, 0, sizeof(s->range));
	memcpy(s->range + 8, &slba, 8);
	memcpy(s->range + 16, &nlb, 2);
	t_sqe(c->p.io, &sqe, nvme_cmd_copy, s->range, 32);
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32((uint32_t)s->first);
	sqe.cdw12 = htole32(s->fua ? FUA : 0);
	s->cid = sqe.cid;
	t_send(c->p.io, &sqe, NULL, 0);
}

static void send_zeroes(struct crash *c, struct slot *s)
{
	__le32 nlb = htole32((uint32_t)s->n);
	__le64 slba = htole64(s->first);
	struct nvme_sqe sqe;

	t_rw_sqe(c->p.io, &sqe, true, s->first, (uint32_t)s->n, NULL);
	if (pick(c, 3)) {
		sqe.opcode = nvme_cmd_write_zeroes;
		nvme_sgl_set_keyed(&sqe.sgl, 0, 0, 0, NVME_SGL_KEYED_ADDRESS);
		sqe.cdw12 =
			htole32(le32toh(sqe.cdw12) | (s->fua ? FUA : 0) | (pick(c, 2) ? DEAC : 0));
	} else { /* Deallocate; the file then reads as zeroes */
		s->fua = false;
		memset(s->range, 0, sizeof(s->range));
		memcpy(s->range + 4, &nlb, 4);
		memcpy(s->range + 8, &slba, 8);
		t_sqe(c->p.io, &sqe, nvme_cmd_dsm, s->range, 16);
		sqe.nsid = htole32(1);
		sqe.cdw10 = 0;
		sqe.cdw11 = htole32(1u << 2);
	}
	s->cid = sqe.cid;
	t_send(c->p.io, &sqe, NULL, 0);
}

static void send_rw(struct crash *c, struct slot *s)
{
	bool in_capsule = s->what == WRITES && s->n <= CAPSULE && pick(c, 2);
	struct nvme_sqe sqe;

	t_rw_sqe(c->p.io, &sqe, s->what == WRITES, s->first, (uint32_t)s->n, s->data);
	sqe.cdw12 = htole32(le32toh(sqe.cdw12) | (s->fua ? FUA : 0));
	if (s->what == WRITES)
		put_data(s, &sqe, in_capsule);
	s->cid = sqe.cid;
	t_send(c->p.io, &sqe, s->data, in_capsule ? (uint32_t)s->n * T_SECTOR : 0);
}

static bool is_alone(const struct crash *c, uint64_t sector)
{
	for (unsigned int i = 0; i < SLOTS; i++)
		if (c->slots[i].what != NOTHING && sector >= c->slots[i].first &&
		    sector < c->slots[i].first + c->slots[i].n)
			return false;
	return true;
}

/* Of one sector that nobody else uses, with what it has now. */
static void send_compare_and_write(struct crash *c, struct slot *s)
{
	struct nvme_sqe sqe[2];

	memcpy(c->old, c->kernel.cache + s->first * T_SECTOR, T_SECTOR);
	t_rw_sqe(c->p.io, &sqe[0], true, s->first, 1, c->old);
	t_rw_sqe(c->p.io, &sqe[1], true, s->first, 1, s->data);
	sqe[0].opcode = nvme_cmd_compare;
	sqe[0].flags |= NVME_CMD_FUSE_FIRST;
	sqe[1].flags |= NVME_CMD_FUSE_SECOND;
	for (unsigned int i = 0; i < 2; i++)
		sqe[i].cdw12 = htole32(le32toh(sqe[i].cdw12) | (s->fua ? FUA : 0));
	put_data(s, &sqe[1], false);
	s->cid = sqe[1].cid;
	t_send(c->p.io, &sqe[0], NULL, 0);
	t_send(c->p.io, &sqe[1], NULL, 0);
}

static void send_flush(struct crash *c, struct slot *s)
{
	struct nvme_sqe sqe;

	s->n = 0;
	t_sqe(c->p.io, &sqe, nvme_cmd_flush, NULL, 0);
	sqe.nsid = htole32(pick(c, 4) ? 1 : NVME_NSID_ALL);
	s->cid = sqe.cid;
	t_send(c->p.io, &sqe, NULL, 0);
}

static void send_command(struct crash *c, struct slot *s)
{
	uint64_t dice = pick(c, 100);
	/* The first fused command of a namespace turns on the locks of blocks. */
	bool compare = dice >= 90 && c->seed % 2;

	s->fua = pick(c, 3) == 0;
	s->n = 1 + pick(c, pick(c, 3) ? 4 : MOST);
	s->first = pick(c, HOT - s->n);
	s->what = dice < 45   ? WRITES
		  : dice < 60 ? READS
		  : dice < 70 ? ZEROES
		  : dice < 80 ? COPIES
		  : dice < 90 ? FLUSHES
			      : WRITES;
	if (compare) {
		s->n = 1;
		s->what = NOTHING;
		if (!is_alone(c, s->first))
			return;
		s->what = WRITES;
	}
	host_begins(c, s);
	if (compare)
		send_compare_and_write(c, s);
	else if (s->what == FLUSHES)
		send_flush(c, s);
	else if (s->what == COPIES)
		send_copy(c, s);
	else if (s->what == ZEROES)
		send_zeroes(c, s);
	else
		send_rw(c, s);
}

/* ---- a run ---- */

static bool turn(struct crash *c)
{
	bool moved = t_kernel_step(&c->kernel);

	look(c);
	t_turn(c->p.env);
	while (t_answers(c->p.io))
		t_answer(c->p.io);
	look(c);
	return moved;
}

static struct slot *free_slot(struct crash *c)
{
	for (unsigned int i = 0; i < SLOTS; i++)
		if (c->slots[i].what == NOTHING)
			return &c->slots[i];
	return NULL;
}

static void run_commands(struct crash *c)
{
	struct slot *s;

	for (unsigned int sent = 0; sent < COMMANDS;) {
		s = free_slot(c);
		if (s && pick(c, 2)) {
			send_command(c, s);
			sent++;
		}
		turn(c);
	}
	while (turn(c))
		;
	for (unsigned int i = 0; i < SLOTS; i++)
		CU_ASSERT_EQUAL(c->slots[i].what, NOTHING);
}

static void open_crash(struct crash *c, const struct setup *how, uint64_t seed, const char *path)
{
	const struct rdt_ns_config ns = {
		.backend = RDT_BACKEND_FILE,
		.path = path,
		.block_size = T_SECTOR,
		.size_bytes = SECTORS * T_SECTOR,
		.engine = how->engine,
		.direct = how->direct,
	};

	memset(c, 0, sizeof(*c));
	the_crash = c;
	c->how = how;
	c->seed = seed;
	t_kernel_init(&c->kernel, SECTORS * T_SECTOR, seed, base_content);
	t_versions_init(&c->allowed, SECTORS);
	for (uint64_t s = 0; s < SECTORS; s++)
		t_versions_base(&c->allowed, s, base_content(s));
	c->p = t_pair_new_in(t_env_new_on(&ns, NULL));
	c->p.io->on_respond = on_respond;
}

static void close_crash(struct crash *c)
{
	t_pair_free(&c->p);
	t_versions_fini(&c->allowed);
	t_kernel_fini(&c->kernel);
	the_crash = NULL;
}

/* Returns whether a power failure would have been noticed. */
static bool run_seed(const struct setup *how, uint64_t seed, enum t_mistake mistake,
		     unsigned int fail_sync)
{
	struct crash *c = malloc(sizeof(*c));
	char path[] = "/var/tmp/rdt-crash-XXXXXX";
	int fd = mkstemp(path);
	bool beyond;

	CU_ASSERT_FATAL(c && fd >= 0 && ftruncate(fd, SECTORS * T_SECTOR) == 0);
	close(fd);
	open_crash(c, how, seed, path);
	c->kernel.mistake = mistake;
	c->kernel.fail_sync = fail_sync;
	c->sure = !fail_sync;
	run_commands(c);
	beyond = c->beyond;
	CU_ASSERT_EQUAL(c->failed, 0);
	CU_ASSERT_TRUE(c->answered > (fail_sync ? 4 : COMMANDS * 9 / 10));
	CU_ASSERT_TRUE(c->kernel.syncs > 0 && (fail_sync || c->kernel.shorts > 0));
	CU_ASSERT_TRUE(fail_sync || (c->kernel.dsyncs > 0) == (how->direct == RDT_DIRECT_ON));
	close_crash(c);
	unlink(path);
	free(c);
	return beyond;
}

static const struct setup setups[] = {
	{"io_uring, page cache", RDT_ENGINE_IO_URING, RDT_DIRECT_OFF},
	{"io_uring, direct", RDT_ENGINE_IO_URING, RDT_DIRECT_ON},
	{"aio, page cache", RDT_ENGINE_AIO, RDT_DIRECT_OFF},
	{"aio, direct", RDT_ENGINE_AIO, RDT_DIRECT_ON},
};

#define SETUPS (sizeof(setups) / sizeof(setups[0]))

static void run_seeds(enum t_mistake mistake, unsigned int fail_sync, unsigned int seeds,
		      bool found[SETUPS])
{
	uint64_t first = t_crash_seed();

	for (size_t i = 0; i < SETUPS; i++)
		for (uint64_t seed = first; seed < first + seeds; seed++)
			found[i] |= run_seed(&setups[i], seed, mistake, fail_sync);
}

static void what_was_answered_survives(void)
{
	bool found[SETUPS] = {false};

	run_seeds(T_NO_MISTAKE, 0, T_CRASH_SEEDS, found);
	for (size_t i = 0; i < SETUPS; i++)
		CU_ASSERT_FALSE(found[i]);
}

/* After a sync that failed, nothing that depends on a later one may be answered well. */
static void what_was_answered_survives_failed_syncs(void)
{
	bool found[SETUPS] = {false};

	run_seeds(T_NO_MISTAKE, 20, T_CRASH_SEEDS, found);
	for (size_t i = 0; i < SETUPS; i++)
		CU_ASSERT_FALSE(found[i]);
}

/* Two Write Zeroes with a write between them, and a read with FUA that returned the first one's. */
static void a_read_of_a_replaced_content_shows_nothing(void)
{
	struct t_versions allowed, written;
	uint64_t sector, content;
	unsigned int replaced;

	t_versions_init(&written, 1);
	t_versions_base(&written, 0, 9);
	t_versions_init(&allowed, 1);
	t_versions_base(&allowed, 0, 0);
	replaced = t_versions_replaced(&allowed, 0); /* the read begins */
	t_versions_begin(&allowed, 0, 1, 9, 1);
	t_versions_end(&allowed, 0, 1, 2);
	t_versions_durable(&allowed, 0, 1);
	t_versions_begin(&allowed, 0, 2, 0, 3);
	t_versions_seen(&allowed, 0, 0, replaced);
	CU_ASSERT_FALSE(t_versions_beyond(&written, &allowed, &sector, &content));
	/* One that begins now can only have returned the second one's. */
	t_versions_seen(&allowed, 0, 0, t_versions_replaced(&allowed, 0));
	CU_ASSERT_TRUE(t_versions_beyond(&written, &allowed, &sector, &content));
	t_versions_fini(&allowed);
	t_versions_fini(&written);
}

/* Each mistake must be found; @direct, @buffered: where it can be made. */
static void must_find(enum t_mistake mistake, bool direct, bool buffered)
{
	bool found[SETUPS] = {false};

	run_seeds(mistake, 0, 2, found);
	for (size_t i = 0; i < SETUPS; i++)
		if (setups[i].direct == RDT_DIRECT_ON ? direct : buffered)
			CU_ASSERT_TRUE(found[i]);
}

static void a_missing_sync_is_found(void)
{
	must_find(T_SYNC_DROPPED, true, true);
}

static void a_missing_dsync_is_found(void)
{
	must_find(T_DSYNC_DROPPED, true, false);
}

static void a_sync_that_begins_early_is_found(void)
{
	must_find(T_SYNC_EARLY, true, true);
}

/* aio syncs whole files. */
static void a_sync_of_other_blocks_is_found(void)
{
	bool found[SETUPS] = {false};

	run_seeds(T_SYNC_ELSEWHERE, 0, 2, found);
	CU_ASSERT_TRUE(found[0]);
}

static void an_answer_before_the_sync_is_found(void)
{
	must_find(T_ANSWER_BEFORE_SYNC, false, true);
}

const struct t_case t_crash_disk_cases[] = {
	{"what was answered survives a power failure at any moment", what_was_answered_survives},
	{"what was answered survives failed syncs", what_was_answered_survives_failed_syncs},
	{"a read of a replaced content shows nothing about a newer one",
	 a_read_of_a_replaced_content_shows_nothing},
	{"a missing fdatasync is found", a_missing_sync_is_found},
	{"a missing RWF_DSYNC is found", a_missing_dsync_is_found},
	{"a sync that begins before its write has ended is found",
	 a_sync_that_begins_early_is_found},
	{"a sync of other blocks is found", a_sync_of_other_blocks_is_found},
	{"an answer before the sync is found", an_answer_before_the_sync_is_found},
	{NULL},
};
