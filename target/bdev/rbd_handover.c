/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An image in a hand-over between two processes of a gateway. The next process opens it by a
 * connection of its own and only looks who has the lock. After the commit the process before gives
 * the lock up, and the next one takes it; bios wait meanwhile.
 *
 * A bio that has waited is executed only when no other gateway had the lock in between: its host
 * may have lost the connection, repeated the command there, and written something newer since. That
 * is known from a look at the lock that has found the process before not long ago, because each
 * gateway keeps a lock that it has taken for longer (RBD_KEEP_NS).
 */
#include "rbd_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* From the last look that has found the process before until this one has the lock, at most. */
#define UNSEEN_NS (RBD_KEEP_NS / 2)
/* How long bios wait for the lock. A process before that is killed is found to be silent, and is
 * blocked, in less. */
#define COMES_NS (10 * RD_NSEC_PER_SEC)

/* ---- the process that hands over ---- */

void rbd_handover_told(struct rbd_image *img, struct rdt_bdev_told *out)
{
	char identity[2 * sizeof(img->identity) + 1];
	static const char *const formats[] = {
		[RDT_RBD_ENCRYPTION_NONE] = "none",
		[RDT_RBD_ENCRYPTION_LUKS1] = "luks1",
		[RDT_RBD_ENCRYPTION_LUKS2] = "luks2",
	};

	pthread_mutex_lock(&img->lock);
	for (size_t i = 0; i < sizeof(img->identity); i++)
		snprintf(identity + 2 * i, 3, "%02x", img->identity[i]);
	*out = (struct rdt_bdev_told){
		.size = img->image_size,
		.cache = img->bdev.volatile_cache,
		.deallocates = img->bdev.ops_mask & 1u << RDT_BIO_DEALLOCATE,
	};
	pthread_mutex_unlock(&img->lock);
	snprintf(out->what, sizeof(out->what),
		 "image %s (lock %s, cache %s, encryption %s, read_only %s)", identity,
		 img->lock_mode == RDT_RBD_LOCK_EXCLUSIVE ? "exclusive" : "auto",
		 img->cache ? "true" : "false", formats[img->encryption],
		 img->bdev.read_only ? "true" : "false");
}

static void settle_flushed(rbd_completion_t completion, void *arg)
{
	struct rbd_image *img = arg;
	int rc = (int)rbd_aio_get_return_value(completion);

	rbd_aio_release(completion);
	if (rc) {
		rbd_cache_failed(img, rc);
		atomic_store(&img->settle_err, rc);
	}
	atomic_fetch_sub(&img->settling, 1);
	rbd_image_put_own_io(img);
}

/* What completed must not be in a cache of this process when the other one reads. Without a
 * connection it is lost already, and writes are refused. */
static void begin_settling(struct rbd_image *img)
{
	rbd_completion_t c;
	int rc = 0;

	if (!atomic_load(&img->settling))
		atomic_store(&img->settle_err, 0);
	if (!img->bdev.volatile_cache)
		return;
	atomic_fetch_add(&img->inflight, 1);
	atomic_fetch_add(&img->settling, 1);
	if (atomic_load(&img->state) == RBD_OPEN) {
		rc = rbd_aio_create_completion(img, settle_flushed, &c);
		if (!rc) {
			rc = rbd_aio_flush(img->image, c);
			if (!rc)
				return;
			rbd_aio_release(c);
		}
		atomic_store(&img->settle_err, rc);
	}
	atomic_fetch_sub(&img->settling, 1);
	rbd_image_put_own_io(img);
}

int rbd_handover_settled(const struct rbd_image *img)
{
	return atomic_load(&img->settling) ? -EINPROGRESS : atomic_load(&img->settle_err);
}

int rbd_handover_give(struct rbd_image *img, char *text, size_t size)
{
	const struct rdt_bdev *bdev = &img->bdev;
	enum rdt_claim claim = atomic_load(&img->claim);

	text[0] = '\0';
	if (img->lock_mode != RDT_RBD_LOCK_EXCLUSIVE || atomic_load(&img->handover) == RBD_LEFT)
		return 0;
	atomic_store(&img->hands_lock, false);
	if (atomic_load(&img->state) != RBD_OPEN || atomic_load(&img->handover) != RBD_HERE ||
	    claim == RDT_CLAIM_TAKE)
		return -EBUSY;
	if (atomic_load(&bdev->standby)) {
		snprintf(text, size, "%s", claim == RDT_CLAIM_YIELD ? "yielded" : "waits");
		return 0;
	}
	if (claim == RDT_CLAIM_YIELD || atomic_load(&bdev->cut_off) ||
	    atomic_load(&bdev->state_seq) != atomic_load(&bdev->state_taken))
		return -EBUSY;
	atomic_store(&img->hands_lock, true);
	snprintf(text, size, "held %llu %llu", (unsigned long long)atomic_load(&img->locked_as),
		 (unsigned long long)atomic_load(&img->shared_version));
	return 0;
}

/* ---- the process that takes over ---- */

/* Another gateway has the lock, or had it. */
static void no_image_comes(struct rbd_image *img)
{
	pthread_mutex_lock(&img->lock);
	if (atomic_load(&img->handover) == RBD_LOOKS && atomic_exchange(&img->bdev.comes, false) &&
	    img->opened && img->state != RBD_CLOSING)
		rdt_bdev_changed(&img->bdev);
	pthread_mutex_unlock(&img->lock);
}

int rbd_handover_take(struct rbd_image *img, const char *text)
{
	unsigned long long client, version;
	bool yielded = strcmp(text, "yielded") == 0;

	if (img->lock_mode != RDT_RBD_LOCK_EXCLUSIVE)
		return text[0] ? -EPROTO : 0;
	if (sscanf(text, "held %llu %llu", &client, &version) == 2) {
		atomic_store(&img->given_version, version);
		atomic_store(&img->given_client, client);
		rbd_job_kick(&img->job, 0);
		return 0;
	}
	if (!yielded && strcmp(text, "waits") != 0)
		return -EPROTO;
	if (yielded)
		atomic_store(&img->claim, RDT_CLAIM_YIELD);
	no_image_comes(img);
	return 0;
}

static void begin_to_come(struct rbd_image *img)
{
	pthread_mutex_lock(&img->lock);
	if (atomic_load(&img->handover) == RBD_LOOKS) {
		atomic_store(&img->comes_until, rdt_module_now() + COMES_NS);
		atomic_store(&img->handover, atomic_load(&img->bdev.comes) ? RBD_COMES : RBD_HERE);
	}
	pthread_mutex_unlock(&img->lock);
	rbd_job_kick(&img->job, 0);
}

static void leave_image(struct rbd_image *img)
{
	if (img->lock_mode != RDT_RBD_LOCK_EXCLUSIVE)
		return; /* librbd passes the lock on by itself */
	pthread_mutex_lock(&img->lock);
	atomic_store(&img->handover, RBD_LEFT);
	pthread_mutex_unlock(&img->lock);
	rbd_job_kick(&img->job, 0);
}

void rbd_handover_step(struct rbd_image *img, enum rdt_hand step)
{
	switch (step) {
	case RDT_HAND_SETTLE:
		begin_settling(img);
		break;
	case RDT_HAND_LEAVE:
		leave_image(img);
		break;
	case RDT_HAND_BEGIN:
	case RDT_HAND_TAKE: /* in any order */
		begin_to_come(img);
		break;
	}
}

bool rbd_handover_wait(struct rbd_image *img, struct rdt_bio *bio)
{
	bool waits;

	pthread_mutex_lock(&img->lock);
	waits = atomic_load(&img->bdev.comes);
	if (waits)
		TAILQ_INSERT_TAIL(&img->waiting, bio, link);
	pthread_mutex_unlock(&img->lock);
	return waits;
}

/* Of all that has waited: @kept: no other gateway had the lock, and it is executed. Otherwise hosts
 * are sent to other paths. */
static bool end_coming(struct rbd_image *img, bool kept)
{
	TAILQ_HEAD(, rdt_bio) waiting = TAILQ_HEAD_INITIALIZER(waiting);
	struct rdt_bio *bio, *next;
	bool came;

	if (atomic_load(&img->handover) != RBD_COMES)
		return false;
	pthread_mutex_lock(&img->lock);
	came = atomic_load(&img->handover) == RBD_COMES;
	if (came) {
		atomic_store(&img->handover, RBD_HERE);
		atomic_store(&img->bdev.comes, false);
		TAILQ_CONCAT(&waiting, &img->waiting, link);
		if (!kept && img->opened && img->state != RBD_CLOSING)
			rdt_bdev_changed(&img->bdev);
	}
	pthread_mutex_unlock(&img->lock);
	for (bio = TAILQ_FIRST(&waiting); bio; bio = next) {
		next = TAILQ_NEXT(bio, link);
		rbd_bio_again(bio);
	}
	return came;
}

void rbd_handover_over(struct rbd_image *img, const char *why)
{
	char spelled[256];

	if (end_coming(img, false))
		rd_warn(img->log, RD_LOG_BACKEND,
			"rbd: image %s: %s; commands that waited for its lock go to other paths",
			rbd_image_spell(img, spelled, sizeof(spelled)), why);
}

void rbd_handover_look_late(struct rbd_image *img)
{
	if (atomic_load(&img->handover) == RBD_COMES &&
	    rdt_module_now() >= atomic_load(&img->comes_until))
		rbd_handover_over(img,
				  "the process before this one has not given up its lock in 10 s");
}

void rbd_handover_saw(struct rbd_image *img, const char *client, uint64_t ns)
{
	unsigned long long id = 0;

	if (sscanf(client, "client.%llu", &id) != 1)
		id = 0;
	img->seen_client = id;
	img->seen_ns = ns;
	if (id != atomic_load(&img->given_client))
		rbd_handover_over(img, "another client has taken its lock in a hand-over");
}

void rbd_handover_locked(struct rbd_image *img)
{
	uint64_t now = rdt_module_now(), client = atomic_load(&img->given_client);
	bool kept = atomic_load(&img->handover) == RBD_COMES && client &&
		    img->seen_client == client && now - img->seen_ns <= UNSEEN_NS;

	/* A lock that was passed on has been kept by the process before. */
	img->locked_ns = kept ? 0 : now;
	if (!kept)
		rbd_handover_over(img, "another client may have had its lock in a hand-over");
}

bool rbd_handover_knows(struct rbd_image *img)
{
	if (atomic_load(&img->handover) != RBD_COMES)
		return false;
	if (atomic_load(&img->given_version) == atomic_load(&img->shared_version))
		return true;
	rbd_handover_over(img, "the state that gateways share has changed in a hand-over");
	return false;
}

void rbd_handover_came(struct rbd_image *img)
{
	uint64_t began = atomic_load(&img->comes_until) - COMES_NS;
	char spelled[256];

	if (end_coming(img, true))
		rd_notice(img->log, RD_LOG_BACKEND,
			  "rbd: image %s: the process before this one has passed its lock on in "
			  "%llu ms",
			  rbd_image_spell(img, spelled, sizeof(spelled)),
			  (unsigned long long)((rdt_module_now() - began) / RD_NSEC_PER_MSEC));
}
