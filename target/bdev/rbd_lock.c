/* SPDX-License-Identifier: BSD-3-Clause */
/* The exclusive lock of an image. Runs as part of the image's job. */
#include "rbd_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void tell_lock(struct rbd_image *img, enum rbd_lock_said said, const char *text)
{
	char spelled[256];

	if (img->lock_said != said)
		rd_notice(img->log, RD_LOG_BACKEND, "rbd: image %s: %s",
			  rbd_image_spell(img, spelled, sizeof(spelled)), text);
	img->lock_said = said;
}

/* Ceph blocks the holder before it breaks its lock, and waits until every OSD knows that. */
static void break_lock(struct rbd_image *img)
{
	rbd_lock_mode_t mode;
	size_t count = 1;
	char *owner = NULL, spelled[256];
	int rc = rbd_lock_get_owners(img->image, &mode, &owner, &count);

	if (rc || !count)
		return; /* it is free */
	rc = rbd_lock_break(img->image, mode, owner);
	if (rc && rc != -ENOENT)
		rd_err(img->log, RD_LOG_BACKEND,
		       "rbd: image %s: the lock of %s cannot be broken: %s; the user needs the "
		       "capabilities of \"profile rbd\"",
		       rbd_image_spell(img, spelled, sizeof(spelled)), owner, strerror(-rc));
	else
		rd_notice(img->log, RD_LOG_BACKEND, "rbd: image %s: the lock of %s was broken",
			  rbd_image_spell(img, spelled, sizeof(spelled)), owner);
	rbd_lock_get_owners_cleanup(&owner, count);
}

/* Unless the claim has changed since. */
static void end_take(struct rbd_image *img)
{
	enum rdt_claim take = RDT_CLAIM_TAKE;

	atomic_compare_exchange_strong(&img->claim, &take, RDT_CLAIM_WAIT);
}

/* The image has the lock that it was told to take, unless another client has broken it. A claim
 * that stayed would break the lock of the gateway that is told to take it next. */
static void take_again(struct rbd_image *img)
{
	int owner = 0, rc = rbd_is_exclusive_lock_owner(img->image, &owner);
	char spelled[256];

	if (rc == -ESHUTDOWN || (!rc && !owner)) {
		rbd_image_lost(img); /* the claim stays for the next connection */
	} else if (!rc) {
		end_take(img);
		rd_notice(img->log, RD_LOG_BACKEND, "rbd: image %s: its lock is held here already",
			  rbd_image_spell(img, spelled, sizeof(spelled)));
	}
}

static void tell_not_locked(struct rbd_image *img, int rc)
{
	char text[160];

	if (rc == -EROFS || rc == -EBUSY || rc == -EAGAIN) {
		tell_lock(img, RBD_SAID_STANDBY,
			  "another client holds its lock; hosts are sent to other paths until it "
			  "is free");
		return;
	}
	snprintf(text, sizeof(text), "its lock cannot be taken: %s%s; hosts cannot use it here",
		 strerror(-rc),
		 rc == -EINVAL ? "; \"lock: exclusive\" needs the image's feature exclusive-lock "
				 "(rbd feature enable)"
			       : "");
	tell_lock(img, RBD_SAID_FAILED, text);
}

static void acquire_lock(struct rbd_image *img, enum rdt_claim claim)
{
	int rc;

	if (claim == RDT_CLAIM_TAKE)
		break_lock(img);
	rc = rbd_lock_acquire(img->image, RBD_LOCK_MODE_EXCLUSIVE);
	if (rc == -ESHUTDOWN) {
		rbd_image_lost(img); /* the claim stays for the next connection */
		return;
	}
	if (claim == RDT_CLAIM_TAKE)
		end_take(img);
	if (rc) {
		tell_not_locked(img, rc);
		return;
	}
	tell_lock(img, RBD_SAID_HELD, "its lock is held here");
	rbd_image_set_standby(img, false);
}

/*
 * With "lock: exclusive" one gateway at a time serves the image. A holder refuses others at once;
 * one that is gone loses the lock by Ceph's rules, after half a minute at most.
 */
void rbd_image_settle_lock(struct rbd_image *img)
{
	enum rdt_claim claim = atomic_load(&img->claim);
	bool standby = atomic_load(&img->bdev.standby);

	if (img->lock_mode != RDT_RBD_LOCK_EXCLUSIVE)
		return;
	if (claim == RDT_CLAIM_YIELD) {
		rbd_image_set_standby(img, true); /* before the lock is free: no I/O without it */
		if (!standby)
			rbd_lock_release(img->image);
		tell_lock(img, RBD_SAID_YIELDED, "its lock was given up");
	} else if (standby) {
		acquire_lock(img, claim);
	} else if (claim == RDT_CLAIM_TAKE) {
		take_again(img);
	}
}
