/* SPDX-License-Identifier: BSD-3-Clause */
/* The text that gateways share with an image of Ceph, on a fake object. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "t_main.h"
#include "target/bdev/rbd_priv.h"

/* ---- the cluster ---- */

static struct {
	char text[32];
	uint64_t version, expected;
	unsigned int writes;
	bool known; /* from the process before this one */
	int lock;   /* what the cluster says of the lock; -errno */
	bool lost;
} fake;

int rados_read(rados_ioctx_t io, const char *oid, char *buf, size_t len, uint64_t off)
{
	size_t n = strlen(fake.text);

	if (!fake.version)
		return -ENOENT;
	n = n < len ? n : len;
	memcpy(buf, fake.text, n);
	return (int)n;
}

uint64_t rados_get_last_version(rados_ioctx_t io)
{
	return fake.version;
}

rados_write_op_t rados_create_write_op(void)
{
	return &fake;
}

void rados_release_write_op(rados_write_op_t op)
{
}

void rados_write_op_create(rados_write_op_t op, int exclusive, const char *category)
{
	fake.expected = 0;
}

void rados_write_op_assert_version(rados_write_op_t op, uint64_t version)
{
	fake.expected = version;
}

void rados_write_op_write_full(rados_write_op_t op, const char *text, size_t len)
{
	if (fake.expected == fake.version)
		snprintf(fake.text, sizeof(fake.text), "%.*s", (int)len, text);
}

int rados_write_op_operate(rados_write_op_t op, rados_ioctx_t io, const char *oid, time_t *mtime,
			   int flags)
{
	if (fake.expected != fake.version)
		return -ERANGE;
	fake.version++;
	fake.writes++;
	return 0;
}

/* ---- the rest of the module ---- */

int rbd_job_kick(struct rbd_job *job, uint64_t delay_ns)
{
	return 0;
}

void rbd_image_lost(struct rbd_image *img)
{
	fake.lost = true;
}

int rbd_image_find_lock(struct rbd_image *img)
{
	return fake.lock;
}

const char *rbd_image_spell(const struct rbd_image *img, char *buf, size_t size)
{
	snprintf(buf, size, "image");
	return buf;
}

bool rbd_handover_knows(struct rbd_image *img)
{
	return fake.known;
}

/* ---- tests ---- */

struct written {
	struct rdt_bdev_state_job job;
	bool done;
};

static void written_done(struct rdt_bdev_state_job *job)
{
	((struct written *)job)->done = true;
}

/* Stores @text in place of the one that was read as @seq, as a reservation command does. */
static int store(struct rbd_image *img, struct rd_loop *loop, const char *text, uint32_t seq)
{
	struct written w = {.job = {.home = loop,
				    .text = text,
				    .len = strlen(text),
				    .seq = seq,
				    .done = written_done}};

	rbd_shared_write(img, &w.job);
	rbd_shared_run(img);
	while (!w.done)
		CU_ASSERT_FATAL(rd_loop_turn(loop, 0) >= 0);
	return w.job.err;
}

static void load(struct rbd_image *img, const char *expected, uint32_t *seq)
{
	char *text;
	size_t len;

	CU_ASSERT_EQUAL(rbd_shared_load(img), 0);
	CU_ASSERT_EQUAL_FATAL(rbd_shared_read(img, &text, &len, seq), 0);
	CU_ASSERT_EQUAL(len, strlen(expected));
	CU_ASSERT_EQUAL(memcmp(text, expected, len), 0);
	free(text);
}

/* The main thread may stand still between its look at the state and the call, while another gateway
 * has the lock. */
static void test_read_again(void)
{
	struct rd_loop_opts opts = {.seed = 1};
	struct rbd_image img = {.state = RBD_OPEN};
	struct rd_loop *loop;
	uint32_t old, seq;

	memset(&fake, 0, sizeof(fake));
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&opts, &loop), 0);
	pthread_mutex_init(&img.lock, NULL);
	STAILQ_INIT(&img.shared_jobs);
	load(&img, "", &old);
	CU_ASSERT_EQUAL(store(&img, loop, "one", old), 0);
	CU_ASSERT_STRING_EQUAL(fake.text, "one");
	snprintf(fake.text, sizeof(fake.text), "another gateway's");
	fake.version++;
	load(&img, "another gateway's", &seq);
	CU_ASSERT_EQUAL(store(&img, loop, "two", old), -ESHUTDOWN);
	CU_ASSERT_EQUAL(fake.writes, 1);
	CU_ASSERT_EQUAL(store(&img, loop, "three", seq), 0);
	CU_ASSERT_STRING_EQUAL(fake.text, "three");
	CU_ASSERT_FALSE(atomic_load(&img.lock_doubted));
	fake.version++; /* and again: it may have the lock */
	CU_ASSERT_EQUAL(store(&img, loop, "four", seq), -ESHUTDOWN);
	CU_ASSERT_STRING_EQUAL(fake.text, "three");
	CU_ASSERT_TRUE(atomic_load(&img.lock_doubted));
	free(img.shared_text);
	pthread_mutex_destroy(&img.lock);
	rd_loop_destroy(&loop);
}

/* A gateway that was replaced, and that Ceph does not block any more, writes the object before the
 * one with the lock does, which has read it already. */
static void test_replaced(void)
{
	static const struct {
		int lock, expected;
		bool lost;
	} cases[] = {
		{0, 0, false},
		{-ENOENT, -ENOTCONN, true},
		{-ESHUTDOWN, -ENOTCONN, true},
		{-ETIMEDOUT, -ENOTCONN, false}, /* not known */
	};
	struct rd_loop_opts opts = {.seed = 1};
	struct rd_loop *loop;

	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&opts, &loop), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rbd_image img = {.state = RBD_OPEN};
		uint32_t seq;

		memset(&fake, 0, sizeof(fake));
		pthread_mutex_init(&img.lock, NULL);
		STAILQ_INIT(&img.shared_jobs);
		load(&img, "", &seq);
		fake.lock = cases[i].lock;
		CU_ASSERT_EQUAL(store(&img, loop, "one", seq), cases[i].expected);
		CU_ASSERT_EQUAL(fake.lost, cases[i].lost);
		free(img.shared_text);
		pthread_mutex_destroy(&img.lock);
	}
	rd_loop_destroy(&loop);
}

/* In a hand-over reservations come from the process before, and nothing is taken over again. */
static void test_known(void)
{
	struct rbd_image img = {.state = RBD_OPEN};

	memset(&fake, 0, sizeof(fake));
	snprintf(fake.text, sizeof(fake.text), "one");
	fake.version = 7;
	fake.known = true;
	pthread_mutex_init(&img.lock, NULL);
	STAILQ_INIT(&img.shared_jobs);
	CU_ASSERT_EQUAL(rbd_shared_load(&img), 0);
	CU_ASSERT_EQUAL(atomic_load(&img.shared_version), 7);
	CU_ASSERT_EQUAL(atomic_load(&img.bdev.state_seq), 0);
	fake.known = false;
	CU_ASSERT_EQUAL(rbd_shared_load(&img), 0);
	CU_ASSERT_EQUAL(atomic_load(&img.bdev.state_seq), 1);
	free(img.shared_text);
	pthread_mutex_destroy(&img.lock);
}

static const struct t_case rbd_shared_cases[] = {
	{"what the process before has said is known already", test_known},
	{"what was made before the object was read again is not stored", test_read_again},
	{"what a gateway without the lock has stored is not acknowledged", test_replaced},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	const struct t_suite suites[] = {
		{.name = "rbd shared", .cases = rbd_shared_cases},
		{.name = NULL},
	};

	return t_run(argc, argv, suites);
}
