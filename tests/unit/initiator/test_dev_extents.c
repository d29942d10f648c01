/* SPDX-License-Identifier: BSD-3-Clause */
/* What a device tells of its allocated blocks, and what it makes of wrong answers. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdlib.h>

#include "suites.h"
#include "t_dev.h"

struct answer {
	__le32 nlsd;
	uint8_t cmpc;
	uint8_t rsvd5[3];
	struct nvme_lba_status_desc desc[4];
};

static struct answer answer; /* of the controller */
static bool silent;
static struct t_dev *shrinks; /* its namespace becomes smaller before the answer; NULL: none */
static uint64_t shrinks_to;

static void desc(unsigned int i, uint64_t lba, uint32_t blocks)
{
	answer.desc[i] = (struct nvme_lba_status_desc){
		.dslba = htole64(lba), .nlb = htole32(blocks - 1), .status = 2};
	answer.nlsd = htole32(i + 1);
}

static bool tell(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		 const void *data, size_t len)
{
	if (sqe->opcode != nvme_admin_get_lba_status)
		return false;
	CU_ASSERT_EQUAL(le32toh(sqe->cdw13) >> 24, 2);
	if (shrinks)
		atomic_store(&shrinks->dev->blocks, shrinks_to);
	return silent || t_answer_data(f, conn, sqe, &answer, sizeof(answer));
}

struct told {
	unsigned int calls, n;
	int err;
	uint64_t known;
	struct rdinit_dev_extent list[4];
};

static void told_fn(void *user, const struct rdinit_completion *c, uint64_t known,
		    const struct rdinit_dev_extent *list, unsigned int n)
{
	struct told *t = user;

	t->calls++;
	t->err = c->err;
	t->known = known;
	t->n = n;
	if (n && n <= 4)
		memcpy(t->list, list, n * sizeof(*list));
}

static void open_telling(struct t_dev *d, bool tells)
{
	t_dev_init(d);
	t_fake.hook = tell;
	t_fake.dlfeat = NVME_NS_DLFEAT_RB_ALL_0S;
	if (tells)
		((uint8_t *)&t_fake.id_nvm)[NVME_NVM_CTRL_AOCS] = NVME_AOCS_RALBAS;
	memset(&answer, 0, sizeof(answer));
	answer.cmpc = NVME_LBA_STATUS_COMPLETE;
	silent = false;
	shrinks = NULL;
	t_dev_open(d, 1);
}

static struct told ask(struct t_dev *d, uint64_t lba, uint64_t n)
{
	struct told t = {.calls = 0};

	CU_ASSERT_EQUAL_FATAL(rdinit_dev_extents_async(d->dev, lba, n, told_fn, &t), 0);
	CU_ASSERT_EQUAL(t.calls, 0);
	t_dev_settle(d);
	CU_ASSERT_EQUAL(t.calls, 1);
	return t;
}

static void extents_are_told(void)
{
	struct rdinit_dev_info info;
	struct told t;
	struct t_dev d T_ENDS(t_dev_free);

	open_telling(&d, true);
	rdinit_dev_info_init(&info);
	CU_ASSERT_EQUAL(rdinit_dev_get_info(d.dev, &info), 0);
	CU_ASSERT_TRUE(info.extents);
	t = ask(&d, 0, 100);
	CU_ASSERT_EQUAL(t.err, 0);
	CU_ASSERT_EQUAL(t.n, 0);
	CU_ASSERT_EQUAL(t.known, 100);
	desc(0, 3, 4);
	desc(1, 90, 30); /* goes on behind the range */
	t = ask(&d, 0, 100);
	CU_ASSERT_EQUAL(t.n, 2);
	CU_ASSERT_EQUAL(t.known, 100);
	CU_ASSERT_EQUAL(t.list[0].lba, 3);
	CU_ASSERT_EQUAL(t.list[0].nblocks, 4);
	CU_ASSERT_EQUAL(t.list[1].lba, 90);
	CU_ASSERT_EQUAL(t.list[1].nblocks, 10);
	answer.cmpc = NVME_LBA_STATUS_INCOMPLETE;
	t = ask(&d, 0, 200);
	CU_ASSERT_EQUAL(t.n, 2);
	CU_ASSERT_EQUAL(t.known, 120); /* up to the end of the last descriptor */
}

static void wrong_answers_are_errors(void)
{
	struct t_dev d T_ENDS(t_dev_free);

	open_telling(&d, true);
	desc(0, 3, 4);
	desc(1, 5, 1); /* within the first */
	CU_ASSERT_EQUAL(ask(&d, 0, 100).err, -EPROTO);
	desc(0, 3, 4);
	CU_ASSERT_EQUAL(ask(&d, 4, 100).err, -EPROTO); /* before the range */
	desc(0, UINT64_MAX, 2);
	CU_ASSERT_EQUAL(ask(&d, 0, 100).err, -EPROTO);
	answer.nlsd = htole32(UINT32_MAX);
	CU_ASSERT_EQUAL(ask(&d, 0, 100).err, -EPROTO);
	answer.nlsd = 0;
	answer.cmpc = NVME_LBA_STATUS_INCOMPLETE; /* nothing is said of any block */
	CU_ASSERT_EQUAL(ask(&d, 0, 100).err, -EPROTO);
	CU_ASSERT_EQUAL(d.lost, 0);
}

/* A range length of 0 was sent: the answer ends where the namespace ends then. */
static void blocks_that_are_gone_are_no_hole(void)
{
	struct told t;
	struct t_dev d T_ENDS(t_dev_free);

	open_telling(&d, true);
	desc(0, 3, 4);
	shrinks = &d;
	shrinks_to = 60;
	t = ask(&d, 0, 100);
	CU_ASSERT_EQUAL(t.err, 0);
	CU_ASSERT_EQUAL(t.n, 1);
	CU_ASSERT_EQUAL(t.known, 60);
	atomic_store(&d.dev->blocks, T_DISK_BLOCKS);
	answer.nlsd = 0;
	t = ask(&d, 60, 100);
	CU_ASSERT_EQUAL(t.err, -EINVAL);
	CU_ASSERT_EQUAL(t.known, 0);
}

static void a_lost_path_answers(void)
{
	struct told t = {.calls = 0};
	struct t_dev d T_ENDS(t_dev_free);

	open_telling(&d, true);
	silent = true;
	CU_ASSERT_EQUAL_FATAL(rdinit_dev_extents_async(d.dev, 0, 100, told_fn, &t), 0);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(t.calls, 0);
	t_break(t_fake.last_conn[0], -ECONNRESET);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(t.calls, 1);
	CU_ASSERT_NOT_EQUAL(t.err, 0);
	CU_ASSERT_EQUAL(t.known, 0);
}

static void a_freed_device_answers(void)
{
	struct told t = {.calls = 0};
	struct t_dev d;

	open_telling(&d, true);
	silent = true;
	CU_ASSERT_EQUAL_FATAL(rdinit_dev_extents_async(d.dev, 0, 100, told_fn, &t), 0);
	t_dev_free(&d);
	CU_ASSERT_EQUAL(t.calls, 1);
	CU_ASSERT_NOT_EQUAL(t.err, 0);
}

static void who_cannot_tell_is_not_asked(void)
{
	struct rdinit_dev_extent list[RDINIT_DEV_EXTENTS_MAX];
	struct told t = {.calls = 0};
	uint64_t known;
	struct t_dev d;

	open_telling(&d, false);
	CU_ASSERT_EQUAL(rdinit_dev_extents_async(d.dev, 0, 1, told_fn, &t), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(rdinit_dev_extents(d.dev, 0, 1, list, &known), -EOPNOTSUPP);
	t_dev_free(&d);
	open_telling(&d, true);
	CU_ASSERT_EQUAL(rdinit_dev_extents_async(d.dev, 0, 1, NULL, &t), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_dev_extents_async(d.dev, 0, 0, told_fn, &t), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_dev_extents_async(d.dev, T_DISK_BLOCKS, 1, told_fn, &t), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_dev_extents_async(d.dev, 1, T_DISK_BLOCKS, told_fn, &t), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_dev_extents(d.dev, 0, 1, NULL, &known), -EINVAL);
	CU_ASSERT_EQUAL(t.calls, 0);
	t_dev_free(&d);
}

const struct t_case t_dev_extents_cases[] = {
	{"allocated blocks are told", extents_are_told},
	{"wrong answers are errors", wrong_answers_are_errors},
	{"blocks that are gone are no hole", blocks_that_are_gone_are_no_hole},
	{"the callback runs when the path is lost", a_lost_path_answers},
	{"the callback runs when the device is freed", a_freed_device_answers},
	{"a controller that does not tell is not asked", who_cannot_tell_is_not_asked},
	{NULL, NULL},
};
