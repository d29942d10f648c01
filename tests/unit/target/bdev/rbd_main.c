/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock of an image of Ceph, and how gateways see each other, on a fake cluster: an image that
 * another gateway has, and a clock that the test sets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rbd_fakes.h"

/* ---- an image on standby ---- */

static struct rbd_handle handle = {.takeover_s = 4};
static char pool_name[] = "rbd", image_name[] = "disk";

static struct rbd_image *standby_new(void)
{
	struct rbd_image *img = calloc(1, sizeof(*img));

	CU_ASSERT_PTR_NOT_NULL_FATAL(img);
	memset(&fake, 0, sizeof(fake));
	fake.now = 1000 * RD_NSEC_PER_SEC;
	fake.list = OTHERS;
	pthread_mutex_init(&handle.joining, NULL);
	LIST_INIT(&handle.peers);
	memset(handle.blocked, 0, sizeof(handle.blocked));
	handle.address[0] = '\0';
	img->pool = pool_name;
	img->name = image_name;
	strcpy(img->id, "17");
	img->handle = &handle;
	img->lock_mode = RDT_RBD_LOCK_EXCLUSIVE;
	atomic_store(&img->bdev.standby, true);
	return img;
}

static void standby_free(struct rbd_image *img)
{
	rbd_peers_leave(img);
	CU_ASSERT_EQUAL(fake.kept, 0);
	pthread_mutex_destroy(&handle.joining);
	free(img);
}

/* A question that is in flight ends after its time, or at once. */
static void answer(void)
{
	if (!fake.asked || fake.hangs)
		return;
	if (!fake.acks)
		fake.now += fake.asked * UINT64_C(1000000) + fake.stands_ns;
	fake.question->rc = fake.acks ? 0 : -ETIMEDOUT;
	fake.asked = 0;
	fake.question->fn(fake.question, fake.question->arg);
}

/* One pass of the job, and the answer to what it asked. */
static void pass(struct rbd_image *img)
{
	rbd_image_settle_lock(img);
	answer();
}

static void test_take(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	claim_take(img);
	pass(img);
	CU_ASSERT_EQUAL(fake.breaks, 1);
	CU_ASSERT_EQUAL(fake.blocks, 0);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.standby));
	CU_ASSERT_EQUAL(atomic_load(&img->claim), RDT_CLAIM_WAIT);
	standby_free(img);
}

static void test_take_faster(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = fake.faster = true;
	claim_take(img);
	pass(img);
	CU_ASSERT_EQUAL(fake.acquires, 1);
	CU_ASSERT_TRUE(atomic_load(&img->bdev.standby));
	CU_ASSERT_EQUAL(atomic_load(&img->claim), RDT_CLAIM_TAKE);
	fake.now += RD_NSEC_PER_SEC;
	pass(img);
	CU_ASSERT_EQUAL(fake.breaks, 1);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.standby));
	CU_ASSERT_EQUAL(atomic_load(&img->claim), RDT_CLAIM_WAIT);
	standby_free(img);
}

/* The answer to a request for the lock came late: another client may have broken the lock. */
static void test_take_late(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	fake.acquire_ns = 8 * 86400 * RD_NSEC_PER_SEC;
	claim_take(img);
	pass(img);
	CU_ASSERT_EQUAL(fake.acquires, 1);
	CU_ASSERT_EQUAL(fake.lost, 1);
	CU_ASSERT_EQUAL(img->locked_as,
			MY_ID); /* it may have the lock, for the next one to break */
	CU_ASSERT_TRUE(atomic_load(&img->bdev.standby));
	CU_ASSERT_EQUAL(atomic_load(&img->claim), RDT_CLAIM_TAKE);
	claim_take(img);
	fake.locker_id = MY_ID;
	pass(img);
	CU_ASSERT_EQUAL(fake.lost, 1);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.standby));
	standby_free(img);
}

/* It is asked for by Ceph's rules once, and not for a minute. */
static void test_take_refused(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	fake.break_err = -EPERM;
	claim_take(img);
	pass(img);
	CU_ASSERT_EQUAL(fake.acquires, 1);
	CU_ASSERT_EQUAL(atomic_load(&img->claim), RDT_CLAIM_WAIT);
	standby_free(img);
}

static void test_take_twice(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	claim_take(img);
	fake.claimed_next = img;
	pass(img);
	CU_ASSERT_EQUAL(fake.breaks, 1);
	standby_free(img);
}

/* The command is over only if the cluster still takes this gateway for the holder. */
static void test_take_held(void)
{
	struct rbd_image *img = standby_new();

	fake.breaks = 1;
	atomic_store(&img->bdev.standby, false);
	fake.refused = true;
	claim_take(img);
	pass(img);
	CU_ASSERT_EQUAL(fake.lost, 1);
	CU_ASSERT_EQUAL(atomic_load(&img->claim), RDT_CLAIM_TAKE);
	fake.refused = false;
	pass(img);
	CU_ASSERT_EQUAL(fake.lost, 1);
	CU_ASSERT_EQUAL(atomic_load(&img->claim), RDT_CLAIM_WAIT);
	standby_free(img);
}

/* librbd says that it has the lock of a connection that is blocked. */
static void test_take_remembered(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	fake.state_err = -ESHUTDOWN;
	claim_take(img);
	pass(img);
	CU_ASSERT_EQUAL(fake.lost, 1);
	CU_ASSERT_EQUAL(atomic_load(&img->claim), RDT_CLAIM_TAKE);
	fake.state_err = 0;
	pass(img);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.standby));
	CU_ASSERT_EQUAL(atomic_load(&img->claim), RDT_CLAIM_WAIT);
	standby_free(img);
}

static void test_take_hours_later(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	fake.owner_ns = 3600 * RD_NSEC_PER_SEC;
	claim_take(img);
	pass(img);
	fake.owner_ns = 0;
	pass(img);
	pass(img);
	CU_ASSERT_EQUAL(fake.breaks, 0);
	CU_ASSERT_EQUAL(atomic_load(&img->claim), RDT_CLAIM_WAIT);
	/* it can be said again */
	claim_take(img);
	pass(img);
	CU_ASSERT_EQUAL(fake.breaks, 1);
	standby_free(img);
}

static void test_take_before_opening_hours_later(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	claim_take(img);
	fake.now += 3600 * RD_NSEC_PER_SEC;
	pass(img);
	CU_ASSERT_EQUAL(fake.breaks, 0);
	standby_free(img);
}

static void test_silent(void)
{
	struct rbd_image *img = standby_new();

	for (int i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(fake.breaks, 0);
		pass(img);
	}
	CU_ASSERT_EQUAL(fake.breaks, 1);
	CU_ASSERT_EQUAL(fake.blocks, 1);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.standby));
	standby_free(img);
}

/* The second image of a holder that was blocked for the first one, and again much later. */
static void test_blocked_already(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	for (unsigned int i = 0; i < 3; i++) {
		static const unsigned int only[] = {0, 1, 0};

		fake.breaks = fake.only_breaks = 0;
		fake.now += i == 2 ? 3600 * RD_NSEC_PER_SEC : 0;
		atomic_store(&img->bdev.standby, true);
		claim_take(img);
		pass(img);
		CU_ASSERT_EQUAL(fake.breaks, 1);
		CU_ASSERT_EQUAL(fake.only_breaks, only[i]);
	}
	standby_free(img);
}

/* Two processes of a gateway were lost at one time, and each has locks. */
static void test_both_blocked(void)
{
	struct rbd_image *img = standby_new();

	for (unsigned int i = 0; i < 4; i++) {
		fake.breaks = fake.only_breaks = 0;
		fake.other = i % 2;
		atomic_store(&img->bdev.standby, true);
		claim_take(img);
		pass(img);
		CU_ASSERT_EQUAL(fake.breaks, 1);
		CU_ASSERT_EQUAL(fake.only_breaks, i >= 2); /* librbd blocks the first time */
	}
	standby_free(img);
}

/* Ceph forgets what it watches, so it is not in an answer any more. */
static void test_blocked_waits(void)
{
	struct rbd_image *img = standby_new();

	claim_take(img);
	pass(img);
	atomic_store(&img->bdev.standby, true);
	fake.breaks = 0;
	pass(img);
	CU_ASSERT_EQUAL(fake.only_breaks, 1);
	CU_ASSERT_TRUE(fake.maps > 0); /* the entry may be newer than the map of this connection */
	CU_ASSERT_FALSE(atomic_load(&img->bdev.standby));
	standby_free(img);
}

/* The operator has removed the entry of the blocklist: the holder may be alive, and can write. */
static void test_unblocked(void)
{
	static const char *const lists[] = {"", OWNER "1 2026-01-01\n", "1" OWNER " 2026-01-01\n",
					    OWNER};
	struct rbd_image *img = standby_new();

	fake.acks = true;
	claim_take(img);
	pass(img);
	CU_ASSERT_EQUAL(fake.breaks, 1);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		fake.list = lists[i];
		fake.breaks = 0;
		fake.now += RD_NSEC_PER_SEC;
		atomic_store(&img->bdev.standby, true);
		pass(img);
		pass(img);
		CU_ASSERT_EQUAL(fake.breaks, 0); /* it answers */
		claim_take(img);
		pass(img);
		CU_ASSERT_EQUAL(fake.breaks, 1);
		CU_ASSERT_EQUAL(fake.only_breaks, 0); /* it is blocked again */
	}
	standby_free(img);
}

/* The operator removes the entry while the lock is being broken: the holder may have writes. */
static void test_unblocked_meanwhile(void)
{
	struct rbd_image *img = standby_new();

	fake.removed_at_once = fake.no_blocks = true;
	claim_take(img);
	pass(img);
	CU_ASSERT_EQUAL(fake.breaks, 1);
	CU_ASSERT_EQUAL(fake.acquires, 0);
	CU_ASSERT_TRUE(atomic_load(&img->bdev.standby));
	fake.breaks = 0;
	fake.no_blocks = false;
	pass(img);
	CU_ASSERT_TRUE(fake.blocks > 0);
	CU_ASSERT_EQUAL(fake.acquires, 1);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.standby));
	standby_free(img);
}

/* A connection that this image has left has its lock still, and other images of this gateway use
 * it, so that it answers. */
static void test_own(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	pass(img);
	pass(img);
	CU_ASSERT_EQUAL(fake.breaks, 0);
	img->locked_as = OWNER_ID;
	pass(img);
	fake.now += RD_NSEC_PER_SEC - 1;
	pass(img);
	CU_ASSERT_EQUAL(fake.breaks, 0); /* another gateway may be about to break it */
	fake.now++;
	pass(img);
	CU_ASSERT_EQUAL(fake.only_breaks, 1);
	CU_ASSERT_EQUAL(fake.blocks, 0);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.standby));
	CU_ASSERT_EQUAL(img->locked_as, MY_ID);
	standby_free(img);
}

static void test_own_taken(void)
{
	struct rbd_image *img = standby_new();

	img->locked_as = OWNER_ID;
	claim_take(img);
	fake.lockers_err = -ETIMEDOUT; /* it may be that connection, which must not be blocked */
	pass(img);
	CU_ASSERT_EQUAL(fake.breaks, 0);
	CU_ASSERT_EQUAL(fake.acquires, 0);
	fake.lockers_err = 0;
	pass(img);
	CU_ASSERT_EQUAL(fake.only_breaks, 1);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.standby));
	standby_free(img);
}

static void test_own_given_up(void)
{
	struct rbd_image *img = standby_new();

	img->locked_as = OWNER_ID;
	atomic_store(&img->claim, RDT_CLAIM_YIELD);
	pass(img);
	CU_ASSERT_EQUAL(fake.only_breaks, 1);
	CU_ASSERT_EQUAL(fake.acquires, 0);
	CU_ASSERT_TRUE(atomic_load(&img->bdev.standby));
	standby_free(img);
}

/* It is in the way of a group that another gateway serves. */
static void test_passed(void)
{
	struct rbd_image *img = standby_new();
	unsigned int acquires;

	claim_take(img);
	pass(img);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.standby));
	acquires = fake.acquires;
	fake.now += 2 * RD_NSEC_PER_SEC;
	atomic_store(&img->claim, RDT_CLAIM_PASS);
	pass(img);
	CU_ASSERT_EQUAL(fake.releases, 1);
	CU_ASSERT_TRUE(atomic_load(&img->bdev.standby));
	CU_ASSERT_EQUAL(atomic_load(&img->claim), RDT_CLAIM_WAIT);
	fake.breaks = 0; /* another client has the lock, which is silent */
	fake.list = "";
	memset(handle.blocked, 0, sizeof(handle.blocked));
	for (int i = 0; i < 4; i++) {
		pass(img);
		fake.now += RD_NSEC_PER_SEC / 2;
	}
	CU_ASSERT_EQUAL(fake.acquires, acquires);
	fake.now += 2 * RD_NSEC_PER_SEC;
	for (int i = 0; i < 6; i++)
		pass(img);
	CU_ASSERT_EQUAL(fake.acquires, acquires + 1);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.standby));
	standby_free(img);
}

/* Then monitors can be asked whether this gateway is blocked. */
static void test_own_address(void)
{
	struct rbd_image *img = standby_new();

	CU_ASSERT_FALSE(rbd_handle_is_listed(&handle));
	fake.locker_id = MY_ID; /* once this gateway has the lock */
	claim_take(img);
	pass(img);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.standby));
	CU_ASSERT_STRING_EQUAL(handle.address, OWNER);
	CU_ASSERT_TRUE(rbd_handle_is_listed(&handle));
	fake.list = OTHERS;
	CU_ASSERT_FALSE(rbd_handle_is_listed(&handle));
	standby_free(img);
}

/* ---- hand-overs ---- */

/* An image that comes from the gateway with the lock, after the commit, and a bio that waits. */
static struct rbd_image *coming_new(struct rdt_bio *bio, const char *given)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	pthread_mutex_init(&img->lock, NULL);
	TAILQ_INIT(&img->waiting);
	atomic_store(&img->handover, RBD_LOOKS);
	atomic_store(&img->bdev.comes, true);
	pass(img);
	pass(img);
	CU_ASSERT_EQUAL(fake.acquires, 0); /* the other process serves it */
	CU_ASSERT_EQUAL(rbd_handover_take(img, given), 0);
	pass(img);
	rbd_handover_step(img, RDT_HAND_BEGIN);
	*bio = (struct rdt_bio){.buf = &img->bdev};
	CU_ASSERT_TRUE(rbd_handover_wait(img, bio));
	CU_ASSERT_EQUAL(fake.acquires, 0);
	return img;
}

static void coming_free(struct rbd_image *img)
{
	struct rdt_bio bio;

	CU_ASSERT_FALSE(rbd_handover_wait(img, &bio));
	pthread_mutex_destroy(&img->lock);
	standby_free(img);
}

/* The gateway before has given the lock up. */
static void lock_is_free(void)
{
	fake.breaks = 1;
	fake.lockers_err = -ENOENT;
}

static void test_comes(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = coming_new(&bio, "held 7 0");

	pass(img);
	CU_ASSERT_EQUAL(fake.acquires, 0);
	CU_ASSERT_EQUAL(fake.executed, 0);
	fake.now += RD_NSEC_PER_SEC / 2;
	lock_is_free();
	pass(img);
	CU_ASSERT_EQUAL(fake.acquires, 1);
	CU_ASSERT_EQUAL(fake.executed, 1);
	CU_ASSERT_EQUAL(fake.sent_away, 0);
	CU_ASSERT_EQUAL(rbd_image_keeps_lock(img), 0); /* the gateway before has kept it */
	coming_free(img);
}

/* Another gateway may have had the lock. */
static void test_comes_unseen(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = coming_new(&bio, "held 7 0");

	fake.now += RD_NSEC_PER_SEC / 2 + 1;
	lock_is_free();
	pass(img);
	CU_ASSERT_EQUAL(fake.acquires, 1);
	CU_ASSERT_EQUAL(fake.executed, 0);
	CU_ASSERT_EQUAL(fake.sent_away, 1);
	coming_free(img);
}

static void test_comes_elsewhere(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = coming_new(&bio, "held 9 0");

	pass(img);
	CU_ASSERT_EQUAL(fake.acquires, 0);
	CU_ASSERT_EQUAL(fake.sent_away, 1);
	coming_free(img);
}

static void test_comes_late(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = coming_new(&bio, "held 7 0");

	fake.now += 10 * RD_NSEC_PER_SEC - 1;
	pass(img);
	CU_ASSERT_EQUAL(fake.sent_away, 0);
	fake.now++;
	rbd_handover_look_late(img); /* the pass may hang */
	CU_ASSERT_EQUAL(fake.sent_away, 1);
	CU_ASSERT_EQUAL(fake.acquires, 0);
	coming_free(img);
}

static void test_comes_with_state(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = coming_new(&bio, "held 7 12");

	CU_ASSERT_EQUAL(rbd_handover_take(img, "lent"), -EPROTO);
	atomic_store(&img->shared_version, 12);
	CU_ASSERT_TRUE(rbd_handover_knows(img));
	CU_ASSERT_EQUAL(fake.sent_away, 0);
	atomic_store(&img->shared_version, 13);
	CU_ASSERT_FALSE(rbd_handover_knows(img));
	CU_ASSERT_EQUAL(fake.sent_away, 1);
	coming_free(img);
}

/* A lock that was taken a moment ago is kept, so that a process that takes over elsewhere sees it.
 */
static void test_leaves(void)
{
	struct rbd_image *img = standby_new();
	char text[RDT_BDEV_GIVEN];

	pthread_mutex_init(&img->lock, NULL);
	fake.breaks = 1;
	pass(img);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.standby));
	atomic_store(&img->state, RBD_OPEN);
	CU_ASSERT_EQUAL(rbd_handover_give(img, text, sizeof(text)), 0);
	CU_ASSERT_STRING_EQUAL(text, "held 8 0");
	rbd_handover_step(img, RDT_HAND_LEAVE);
	fake.now += RBD_KEEP_NS - 1;
	pass(img);
	CU_ASSERT_TRUE(atomic_load(&img->bdev.standby));
	CU_ASSERT_EQUAL(fake.releases, 0);
	fake.now++;
	pass(img);
	CU_ASSERT_EQUAL(fake.releases, 1);
	CU_ASSERT_EQUAL(rbd_handover_give(img, text, sizeof(text)), 0);
	CU_ASSERT_STRING_EQUAL(text, ""); /* the next process knows it */
	fake.breaks = 0;
	pass(img);
	CU_ASSERT_EQUAL(fake.acquires, 1); /* it does not take it again */
	pthread_mutex_destroy(&img->lock);
	standby_free(img);
}

/* What this gateway answers to the others: it changes when it gives up a lock. */
static uint64_t said_given_up(void)
{
	fake.watch_asked(fake.watch_arg, 0, 0, 0, NULL, 0);
	return fake.said_given_up;
}

/* The next process gets a lock that it was told of. It waits as others do for one that this process
 * took after that. */
static void test_leaves_to_all(void)
{
	for (int later = 0; later < 2; later++) {
		struct rbd_image *img = standby_new();
		char text[RDT_BDEV_GIVEN];
		uint64_t said;

		pthread_mutex_init(&img->lock, NULL);
		atomic_store(&img->state, RBD_OPEN);
		if (later)
			CU_ASSERT_EQUAL(rbd_handover_give(img, text, sizeof(text)), 0);
		fake.breaks = 1;
		pass(img);
		if (!later)
			CU_ASSERT_EQUAL(rbd_handover_give(img, text, sizeof(text)), 0);
		CU_ASSERT_STRING_EQUAL(text, later ? "waits" : "held 8 0");
		said = said_given_up();
		rbd_handover_step(img, RDT_HAND_LEAVE);
		fake.now += RBD_KEEP_NS;
		pass(img);
		CU_ASSERT_EQUAL(fake.releases, 1);
		CU_ASSERT_EQUAL(said_given_up() != said, later);
		pthread_mutex_destroy(&img->lock);
		standby_free(img);
	}
}

/* One that waits for the lock of another gateway has nothing to give up, and does not say so. */
static void test_leaves_waiting(void)
{
	struct rbd_image *img = standby_new();

	pthread_mutex_init(&img->lock, NULL);
	fake.acks = 1;
	pass(img);
	CU_ASSERT_EQUAL(img->lock_said, RBD_SAID_STANDBY);
	atomic_store(&img->state, RBD_OPEN);
	rbd_handover_step(img, RDT_HAND_LEAVE);
	pass(img);
	CU_ASSERT_EQUAL(fake.releases, 0);
	CU_ASSERT_EQUAL(img->lock_said, RBD_SAID_STANDBY);
	pthread_mutex_destroy(&img->lock);
	standby_free(img);
}

/* ---- silence again ---- */

static void test_silent_again(void)
{
	struct rbd_image *img = standby_new();

	pass(img); /* one question is not answered; then this gateway has nothing to ask for long */
	fake.now += 3600 * RD_NSEC_PER_SEC;
	pass(img);
	pass(img);
	CU_ASSERT_EQUAL(fake.breaks, 0);
	pass(img);
	CU_ASSERT_EQUAL(fake.breaks, 1);
	standby_free(img);
}

static void test_answers_between(void)
{
	struct rbd_image *img = standby_new();

	for (int i = 0; i < 6; i++) {
		fake.acks = i % 2;
		pass(img);
		fake.now += RD_NSEC_PER_SEC;
	}
	CU_ASSERT_EQUAL(fake.breaks, 0);
	standby_free(img);
}

/* An OSD that is slow, or stood still, is no reason to replace a gateway. */
static void osd_late(bool before, uint64_t after_ns)
{
	struct rbd_image *img = standby_new();

	fake.osd_late = before;
	fake.stands_ns = after_ns;
	for (int i = 0; i < 20; i++) {
		pass(img);
		fake.now += RD_NSEC_PER_SEC;
	}
	CU_ASSERT_EQUAL(fake.breaks, 0);
	fake.osd_late = false;
	fake.stands_ns = 0;
	for (int i = 0; i < 3; i++)
		pass(img);
	CU_ASSERT_EQUAL(fake.breaks, 1);
	standby_free(img);
}

/* It stands still before it has the acknowledgement of this gateway, or after that. */
static void test_osd_late(void)
{
	osd_late(true, 0);
	osd_late(false, 2 * RD_NSEC_PER_SEC);
}

/* The job of the gateways asks, and the image's job need not run. */
static void ask_again(void)
{
	fake.now += RD_NSEC_PER_SEC / 2;
	fake.news = 0;
	fake.job->run(fake.job);
	CU_ASSERT_TRUE(fake.asked > 0);
	answer();
}

static void test_quiet(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	fake.given_up = 5;
	pass(img);
	CU_ASSERT_FALSE(img->quiet); /* it has just asked */
	CU_ASSERT_EQUAL(fake.news, 1);
	pass(img);
	CU_ASSERT_TRUE(img->quiet);
	ask_again();
	CU_ASSERT_EQUAL(fake.news, 0);
	fake.given_up = 6;
	ask_again();
	CU_ASSERT_EQUAL(fake.news, 1);
	ask_again();
	CU_ASSERT_EQUAL(fake.news, 0);
	fake.acks = false;
	for (int i = 0; i < 2; i++) {
		ask_again();
		CU_ASSERT_EQUAL(fake.news, 1);
	}
	pass(img);
	CU_ASSERT_FALSE(img->quiet);
	CU_ASSERT_EQUAL(fake.breaks, 1);
	standby_free(img);
}

/* A gateway of an older version does not say that it gives up a lock. */
static void test_not_quiet(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	pass(img);
	pass(img);
	CU_ASSERT_FALSE(img->quiet);
	standby_free(img);
}

/* Passes a second apart until the lock is asked for by Ceph's rules. Returns how many. */
static int passes_until_asked(struct rbd_image *img, int limit)
{
	int n = 0;

	fake.acquires = 0;
	while (!fake.acquires && n < limit) {
		fake.now += RD_NSEC_PER_SEC;
		pass(img);
		n++;
	}
	return n;
}

/* The pool has hung, so that Ceph has forgotten what a gateway that is alive watches. */
static void test_forgotten(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	pass(img);
	for (int i = 0; i < 3; i++) {
		fake.forgotten = true;
		img->lock_owner_id = 0;
		fake.owner_ns = 45 * RD_NSEC_PER_SEC; /* this pass has waited for the pool */
		pass(img);
		fake.owner_ns = 0;
		CU_ASSERT_EQUAL(passes_until_asked(img, 5), 5);
		CU_ASSERT_EQUAL(fake.acquires, 0);
		fake.forgotten = i == 1; /* it hangs again before that gateway watches again */
		pass(img);
	}
	fake.forgotten = true;
	img->lock_owner_id = 0;
	CU_ASSERT_EQUAL(passes_until_asked(img, 5), 5); /* it has answered a moment ago */
	CU_ASSERT_EQUAL(fake.acquires, 0);
	standby_free(img);
}

static void test_stranger(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = fake.forgotten = true;
	CU_ASSERT_EQUAL(passes_until_asked(img, 20), 7);
	CU_ASSERT_EQUAL(passes_until_asked(img, 20), 1); /* it stays one */
	CU_ASSERT_EQUAL(fake.breaks, 0);
	standby_free(img);
	img = standby_new();
	fake.no_pool = true;
	CU_ASSERT_EQUAL(passes_until_asked(img, 20), 7);
	standby_free(img);
}

/* An operator has blocked the holder, which watches no more. */
static void test_stranger_is_blocked(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = fake.forgotten = true;
	fake.list = BLOCKLIST;
	CU_ASSERT_EQUAL(passes_until_asked(img, 20), 1);
	CU_ASSERT_EQUAL(fake.breaks, 1);
	CU_ASSERT_EQUAL(fake.blocks, 0); /* for as long as the operator has said */
	standby_free(img);
}

static void test_owner_not_known(void)
{
	struct rbd_image *img = standby_new();

	fake.owner_err = -ETIMEDOUT;
	CU_ASSERT_EQUAL(passes_until_asked(img, 10), 10);
	CU_ASSERT_EQUAL(fake.acquires, 0);
	CU_ASSERT_EQUAL(fake.lost, 0);
	claim_take(img);
	CU_ASSERT_EQUAL(passes_until_asked(img, 1), 1);
	CU_ASSERT_EQUAL(fake.acquires, 1);
	standby_free(img);
}

static void test_watch_again(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	pass(img);
	CU_ASSERT_EQUAL(fake.waited_until, 0);
	CU_ASSERT_EQUAL(fake.watches, 1);
	pass(img);
	CU_ASSERT_EQUAL(fake.watches, 1);
	fake.watch_failed(fake.watch_arg, 0, -ENOTCONN); /* a moment after it was made */
	CU_ASSERT_EQUAL(fake.watches, 1);
	fake.now += RD_NSEC_PER_SEC;
	pass(img);
	CU_ASSERT_EQUAL(fake.watches, 2);
	fake.now += RD_NSEC_PER_SEC;
	fake.watch_failed(fake.watch_arg, 0, -ENOTCONN); /* no pass is needed */
	CU_ASSERT_EQUAL(fake.watches, 3);
	standby_free(img);
}

/* No call waits: the passes go on, and after half a minute Ceph's own rules decide. */
static void test_object_hangs(void)
{
	struct rbd_image *img = standby_new();

	fake.hangs = true;
	for (int i = 0; i < 20; i++) {
		pass(img);
		fake.now += RD_NSEC_PER_SEC;
	}
	CU_ASSERT_EQUAL(fake.acquires, 0);
	CU_ASSERT_EQUAL(img->said_peers_err, 0);
	fake.now += 15 * RD_NSEC_PER_SEC;
	CU_ASSERT_EQUAL(passes_until_asked(img, 20), 7);
	CU_ASSERT_EQUAL(img->said_peers_err, -ETIMEDOUT);
	CU_ASSERT_EQUAL(fake.breaks, 0);
	claim_take(img); /* a command needs no answer */
	pass(img);
	CU_ASSERT_EQUAL(fake.breaks, 1);
	/* so that the image can be closed */
	fake.hangs = false;
	answer();
	object_resumes();
	standby_free(img);
}

/* The lock is taken when other gateways see this one, or a second later. The image is closed at
 * once; what waits for the object keeps the connection. */
static void test_leaves_hanging(void)
{
	struct rbd_image *img = standby_new();

	fake.hangs = true;
	fake.breaks = 1; /* the lock is free */
	pass(img);
	CU_ASSERT_EQUAL(fake.acquires, 1);
	CU_ASSERT_EQUAL(fake.waited_until, fake.now + RD_NSEC_PER_SEC);
	rbd_peers_leave(img);
	CU_ASSERT_PTR_NULL(img->peers);
	CU_ASSERT_EQUAL(fake.kept, 1);
	fake.hangs = false;
	answer();
	object_resumes();
	fake.thread(fake.thread_arg);
	standby_free(img);
}

static void keep_ahead(struct rbd_peers *p)
{
	CU_ASSERT_EQUAL(rbd_peers_keep(p), 0);
}

static void ask_ahead(struct rbd_peers *p)
{
	CU_ASSERT_EQUAL(rbd_peers_ask(p, OWNER_ID), RBD_HEARD_ALIVE);
}

/* Jobs of two images use what the gateways know at the same time. */
static void test_overtaken(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	pass(img);
	fake.ahead_peers = img->peers;
	fake.now += RD_NSEC_PER_SEC;
	fake.ahead = ask_ahead;
	CU_ASSERT_EQUAL(rbd_peers_ask(img->peers, OWNER_ID), RBD_HEARD_ALIVE);
	answer();
	fake.watch_failed(fake.watch_arg, 0, -ENOTCONN);
	fake.hangs = true;
	fake.now += RD_NSEC_PER_SEC;
	fake.ahead = keep_ahead;
	CU_ASSERT_EQUAL(rbd_peers_keep(img->peers), 0);
	CU_ASSERT_EQUAL(fake.now % RD_NSEC_PER_SEC, 2); /* both were overtaken */
	fake.hangs = false;
	object_resumes();
	standby_free(img);
}

static const struct t_case rbd_lock_cases[] = {
	{"a command takes the lock of a gateway that is alive", test_take},
	{"a command holds until the gateway has the lock, if another one was faster",
	 test_take_faster},
	{"a lock whose answer comes late is asked for again", test_take_late},
	{"a command to take a lock that may not be broken is over", test_take_refused},
	{"a command to take a lock that is held here waits if Ceph blocks the holder",
	 test_take_held},
	{"a command to take a lock that librbd remembers is not over", test_take_remembered},
	{"a command that is given again at that moment is carried out", test_take_twice},
	{"a command that waited for the cluster for an hour is dropped", test_take_hours_later},
	{"a command given an hour before the image is open is dropped",
	 test_take_before_opening_hours_later},
	{"a gateway that is silent loses its lock, and is blocked for long", test_silent},
	{"a holder is blocked once for all its images", test_blocked_already},
	{"both of two holders that were blocked are known", test_both_blocked},
	{"no question is needed about a holder that was blocked", test_blocked_waits},
	{"a holder that is not blocked any more is asked, and blocked again", test_unblocked},
	{"a holder whose block ends while its lock is broken is blocked again",
	 test_unblocked_meanwhile},
	{"a lock of a connection that was left is taken if no other gateway takes it", test_own},
	{"a lock of a connection that was left is taken at once by command", test_own_taken},
	{"a lock of a connection that was left is given up", test_own_given_up},
	{"a lock that is passed is left to other gateways for a moment", test_passed},
	{"a gateway that has a lock knows its own address", test_own_address},
	{"commands that waited in a hand-over are executed when the lock is passed on", test_comes},
	{"they are not when another gateway may have had the lock", test_comes_unseen},
	{"nor when one has it", test_comes_elsewhere},
	{"they wait for a limited time", test_comes_late},
	{"they are not executed when another gateway has changed the shared state",
	 test_comes_with_state},
	{"a lock is kept for a second, then given up for good", test_leaves},
	{"a process that waits for a lock has none to give up", test_leaves_waiting},
	{"a lock of which the next process was not told is for anybody", test_leaves_to_all},
	{"what was missed an hour ago does not count", test_silent_again},
	{"a gateway that answers every other question keeps its lock", test_answers_between},
	{"an OSD that is late is no gateway that is silent", test_osd_late},
	{"an image looks rarely while the holder of its lock is alive and says what it gives up",
	 test_quiet},
	{"an image looks each second where the holder does not say that", test_not_quiet},
	{"a gateway that is alive keeps its lock while it watches again after its pool has hung",
	 test_forgotten},
	{"a stranger is asked for its lock after some seconds", test_stranger},
	{"the lock of a stranger that is blocked is broken at once", test_stranger_is_blocked},
	{"a lock whose holder cannot be read is not requested, except by command",
	 test_owner_not_known},
	{"a watch that was lost is made again", test_watch_again},
	{"an object of the gateways that hangs stops no image", test_object_hangs},
	{"an image takes its lock, and is closed, although that object hangs", test_leaves_hanging},
	{"an image that asks a moment after another one gets the same answer", test_overtaken},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	const struct t_suite suites[] = {
		{.name = "rbd lock", .cases = rbd_lock_cases},
		{.name = NULL},
	};

	return t_run(argc, argv, suites);
}
