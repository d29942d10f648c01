/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text that gateways share with an image: an object in its pool. The gateway with the lock
 * reads it before it serves the image, and replaces it on the condition that it is the version it
 * knows. A gateway that lost the lock was blocked by Ceph; the condition covers one that gave the
 * lock up. One whose block was removed could write before the next holder does: that counts as
 * unknown unless it has the lock afterwards, so that the next holder reads what was acknowledged.
 */
#include "rbd_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#define SHARED_MAX (64u << 10)

void rbd_shared_name(struct rbd_image *img, const uint8_t uuid[16])
{
	char text[UUID_STR_LEN];

	uuid_unparse_lower(uuid, text);
	snprintf(img->shared_name, sizeof(img->shared_name), "rdtarget.state.%s", text);
}

int rbd_shared_load(struct rbd_image *img)
{
	char *text = malloc(SHARED_MAX);
	int rc = text ? rados_read(img->io, img->shared_name, text, SHARED_MAX, 0) : -ENOMEM;

	if (rc == -ENOENT) {
		rc = 0;
		img->shared_version = 0;
	} else if (rc >= 0) {
		img->shared_version = rados_get_last_version(img->io);
	}
	if (rc == (int)SHARED_MAX)
		rc = -EFBIG;
	if (rc < 0 || rbd_handover_knows(img)) {
		free(text);
		return rc < 0 ? rc : 0;
	}
	pthread_mutex_lock(&img->lock);
	free(img->shared_text);
	img->shared_text = text;
	img->shared_len = (size_t)rc;
	atomic_fetch_add(&img->bdev.state_seq, 1);
	pthread_mutex_unlock(&img->lock);
	return 0;
}

static int replace_shared(struct rbd_image *img, const char *text, size_t len)
{
	rados_write_op_t op = rados_create_write_op();
	int rc;

	if (img->shared_version)
		rados_write_op_assert_version(op, img->shared_version);
	else
		rados_write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, NULL);
	rados_write_op_write_full(op, text, len);
	rc = rados_write_op_operate(op, img->io, img->shared_name, NULL, 0);
	rados_release_write_op(op);
	if (!rc)
		img->shared_version = rados_get_last_version(img->io);
	return rc;
}

/* Whether the object has the version that this gateway knows. A gateway that was replaced and does
 * not know it gets no answer, because Ceph has blocked it, or finds another version. */
static int check_shared(struct rbd_image *img)
{
	uint64_t version = 0;
	char byte;
	int rc = rados_read(img->io, img->shared_name, &byte, sizeof(byte), 0);

	if (rc >= 0)
		version = rados_get_last_version(img->io);
	else if (rc != -ENOENT)
		return rc;
	return version == img->shared_version ? 0 : -ERANGE;
}

/* Another gateway has written the object: the caller retries after this gateway has read the new
 * text. That gateway may have the lock: Ceph does not block this one any more when it was stopped
 * for long. */
static int shared_conflict(struct rbd_image *img)
{
	char spelled[256];

	atomic_store(&img->lock_doubted, true);
	rd_warn(img->log, RD_LOG_BACKEND,
		"rbd: image %s: the state in the object %s was written by another gateway; reading "
		"it again",
		rbd_image_spell(img, spelled, sizeof(spelled)), img->shared_name);
	if (rbd_shared_load(img))
		return -ESHUTDOWN;
	pthread_mutex_lock(&img->lock);
	if (img->state != RBD_CLOSING)
		rdt_bdev_changed(&img->bdev);
	pthread_mutex_unlock(&img->lock);
	return -ESHUTDOWN;
}

/* What was written or read is the state of the image when this gateway has its lock afterwards. */
static int confirm_lock(struct rbd_image *img)
{
	int rc = rbd_image_find_lock(img);

	if (rc == -ENOENT || rc == -ESHUTDOWN)
		rbd_image_lost(img);
	return rc ? -ENOTCONN : 0;
}

static int write_shared(struct rbd_image *img, const struct rdt_bdev_state_job *job)
{
	char spelled[256];
	int rc;

	if (atomic_load(&img->state) != RBD_OPEN || atomic_load(&img->bdev.standby))
		return -ESHUTDOWN;
	/* The object was read again since. What another gateway has written must not be lost. */
	if (atomic_load(&img->bdev.state_seq) != job->seq)
		return -ESHUTDOWN;
	rc = job->text ? replace_shared(img, job->text, job->len) : check_shared(img);
	if (!rc)
		return confirm_lock(img);
	if (rc == -ERANGE || rc == -EOVERFLOW || rc == -EEXIST || rc == -ENOENT)
		return shared_conflict(img);
	if (rc == -ESHUTDOWN) {
		rbd_image_lost(img);
		return -ENOTCONN; /* also when it was executed and only the answer was refused */
	}
	rd_err(img->log, RD_LOG_BACKEND,
	       "rbd: image %s: the object %s cannot be %s: %s; the user needs the capabilities of "
	       "\"profile rbd\" for the pool",
	       rbd_image_spell(img, spelled, sizeof(spelled)), img->shared_name,
	       job->text ? "written" : "read", strerror(-rc));
	return rc;
}

static void shared_answer_msg(struct rd_msg *msg)
{
	struct rdt_bdev_state_job *job = rd_container_of(msg, struct rdt_bdev_state_job, msg);

	job->done(job);
}

void rbd_shared_run(struct rbd_image *img)
{
	struct rdt_bdev_state_job *job;

	if (atomic_load(&img->bdev.comes)) /* they wait, as bios do */
		return;
	while (true) {
		pthread_mutex_lock(&img->lock);
		job = STAILQ_FIRST(&img->shared_jobs);
		if (job)
			STAILQ_REMOVE_HEAD(&img->shared_jobs, link);
		pthread_mutex_unlock(&img->lock);
		if (!job)
			break;
		job->err = write_shared(img, job);
		job->msg.fn = shared_answer_msg;
		rd_loop_post(job->home, &job->msg);
	}
}

int rbd_shared_read(struct rbd_image *img, char **text, size_t *len, uint32_t *seq)
{
	pthread_mutex_lock(&img->lock);
	*len = img->shared_len;
	*seq = atomic_load(&img->bdev.state_seq);
	*text = malloc(*len + 1);
	if (*text && *len)
		memcpy(*text, img->shared_text, *len);
	pthread_mutex_unlock(&img->lock);
	return *text ? 0 : -ENOMEM;
}

void rbd_shared_write(struct rbd_image *img, struct rdt_bdev_state_job *job)
{
	pthread_mutex_lock(&img->lock);
	STAILQ_INSERT_TAIL(&img->shared_jobs, job, link);
	pthread_mutex_unlock(&img->lock);
	rbd_job_kick(&img->job, 0);
}
