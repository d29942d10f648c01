/* SPDX-License-Identifier: BSD-3-Clause */
/* An image: opening, closing, its size, and the loss of its connection. All but the
 * functions of rbd_priv.h run as the image's job, on a worker thread of its pool. */
#include "rbd_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uuid/uuid.h>

#include "util/map.h"

#define RETRY_NS   UINT64_C(2000000000)
#define LOOK_NS    UINT64_C(5000000000)
#define LOCK_NS    UINT64_C(1000000000)
#define CUT_OFF_NS UINT64_C(2000000000) /* no I/O completes, and no monitor answers for longer */
#define PROBE_SECS 10u
/* A key is tested by a function that is slow on purpose. */
#define KEY_NS UINT64_C(10000000000)

/* Namespace UUID for the identities of images. Changing it would change what hosts see. */
static const uuid_t identity_space = {0x1d, 0x0b, 0x8a, 0x52, 0x33, 0x9f, 0x4c, 0x61,
				      0xb7, 0x4e, 0x90, 0x2c, 0x5d, 0x17, 0xe8, 0x3a};

static struct rbd_image *image_of(struct rbd_job *job)
{
	return rd_container_of(job, struct rbd_image, job);
}

const char *rbd_image_spell(const struct rbd_image *img, char *buf, size_t size)
{
	snprintf(buf, size, "%s/%s%s%s%s%s", img->pool,
		 img->rados_namespace ? img->rados_namespace : "", img->rados_namespace ? "/" : "",
		 img->name, img->snapshot ? "@" : "", img->snapshot ? img->snapshot : "");
	return buf;
}

/* ---- closing ---- */

static void wait_idle(struct rbd_image *img)
{
	pthread_mutex_lock(&img->lock);
	while (atomic_load(&img->inflight))
		pthread_cond_wait(&img->idle, &img->lock);
	pthread_mutex_unlock(&img->lock);
}

/* Waits for the network without a time limit. */
static void close_image(struct rbd_image *img, bool dead)
{
	wait_idle(img);
	if (img->watched)
		rbd_update_unwatch(img->image, img->watch);
	img->watched = false;
	if (img->image)
		rbd_close(img->image);
	img->image = NULL;
	if (atomic_load(&img->handover) != RBD_LEFT) /* others would compete for the lock */
		rbd_peers_gave_up(img->peers);
	rbd_peers_leave(img);
	if (img->io)
		rados_ioctx_destroy(img->io);
	img->io = NULL;
	rbd_handle_put(img->cluster, &img->handle, dead);
}

static void free_image(struct rbd_image *img)
{
	rbd_cluster_put(img->clusters, img->cluster, img->job.queue);
	pthread_mutex_destroy(&img->lock);
	pthread_cond_destroy(&img->idle);
	free(img->shared_text);
	free(img->pool);
	free(img->rados_namespace);
	free(img->name);
	free(img->snapshot);
	free(img->key_file);
	free(img);
}

static void close_and_free(struct rbd_image *img)
{
	rbd_shared_run(img);
	close_image(img, false);
	rbd_clusters_remove(img->clusters, img);
	rbd_job_ran(&img->job, true);
	free_image(img);
}

/* ---- opening ---- */

static void image_changed(void *arg)
{
	struct rbd_image *img = arg;

	atomic_fetch_add(&img->changes, 1);
	rbd_job_kick(&img->job, 0);
}

/* Every gateway derives the same identity. */
static void derive_identity(const struct rbd_image *img, uint8_t identity[16])
{
	char text[640];

	snprintf(text, sizeof(text), "%s/%lld/%s/%s@%s", img->handle->fsid,
		 (long long)rados_ioctx_get_id(img->io),
		 img->rados_namespace ? img->rados_namespace : "", img->id,
		 img->snapshot ? img->snapshot : "");
	uuid_generate_sha1(identity, identity_space, text, strlen(text));
}

static int read_properties(struct rbd_image *img)
{
	rbd_image_info_t info;
	uint8_t identity[sizeof(img->identity)];
	int rc = rbd_stat(img->image, &info, sizeof(info));

	if (!rc && !img->id[0])
		rc = rbd_get_id(img->image, img->id, sizeof(img->id));
	if (rc < 0)
		return rc;
	derive_identity(img, identity);
	pthread_mutex_lock(&img->lock);
	img->image_size = info.size;
	img->object_size = (uint32_t)info.obj_size;
	memcpy(img->identity, identity, sizeof(img->identity));
	pthread_mutex_unlock(&img->lock);
	return 0;
}

static int open_named(struct rbd_image *img)
{
	return img->bdev.read_only
		       ? rbd_open_read_only(img->io, img->name, &img->image, img->snapshot)
		       : rbd_open(img->io, img->name, &img->image, img->snapshot);
}

/* The image that hosts have seen: meanwhile its name may be that of another one. */
static int open_same(struct rbd_image *img)
{
	return img->bdev.read_only
		       ? rbd_open_by_id_read_only(img->io, img->id, &img->image, img->snapshot)
		       : rbd_open_by_id(img->io, img->id, &img->image, img->snapshot);
}

static int open_steps(struct rbd_image *img, unsigned int timeout_s, const char **step, char *err,
		      size_t err_size)
{
	int rc;

	*step = NULL;
	rc = rbd_cluster_connect(img->cluster, timeout_s, &img->handle, err, err_size);
	if (rc)
		return rc;
	*step = "the pool cannot be used";
	rc = rados_ioctx_create(img->handle->cl, img->pool, &img->io);
	if (rc)
		return rc;
	/* When the pool is full a lock is taken nevertheless, and a write that needs space fails;
	 * otherwise all that changes an object would wait until there is space. */
	rados_set_pool_full_try(img->io);
	if (img->rados_namespace)
		rados_ioctx_set_namespace(img->io, img->rados_namespace);
	*step = "the image cannot be opened";
	rc = img->id[0] ? open_same(img) : open_named(img);
	if (rc) {
		img->image = NULL;
		return rc;
	}
	*step = NULL;
	rc = rbd_cache_check(img, err, err_size);
	if (!rc)
		rc = rbd_object_map_check(img, err, err_size);
	if (!rc)
		rc = rbd_image_decrypt(img, err, err_size);
	if (rc)
		return rc;
	if (!timeout_s) {
		*step = "changes of the image cannot be watched";
		rc = rbd_update_watch(img->image, &img->watch, image_changed, img);
		if (rc)
			return rc;
		img->watched = true;
	}
	*step = "the image's properties cannot be read";
	return read_properties(img);
}

/* Returns 0, or -errno with a sentence in @err and everything closed. */
static int open_image(struct rbd_image *img, unsigned int timeout_s, char *err, size_t err_size)
{
	uint32_t changes = atomic_load(&img->changes);
	const char *step, *missing;
	char spelled[256];
	int rc;

	missing = img->id[0] ? "; expected the image that hosts used until now, not another one "
			       "with its name; if it was removed, remove the namespace and add it "
			       "again"
			     : "; expected an existing one (ceph osd pool ls, rbd ls)";
	rc = open_steps(img, timeout_s, &step, err, err_size);
	if (rc && step)
		snprintf(err, err_size, "rbd: image %s: %s: %s%s",
			 rbd_image_spell(img, spelled, sizeof(spelled)), step, strerror(-rc),
			 rc == -ENOENT ? missing : "");
	if (!rc && img->image_size < img->bdev.block_size) {
		snprintf(err, err_size,
			 "rbd: image %s has %llu bytes, expected at least one block (%u bytes)",
			 rbd_image_spell(img, spelled, sizeof(spelled)),
			 (unsigned long long)img->image_size, img->bdev.block_size);
		rc = -EINVAL;
	}
	if (rc && !img->opened)
		img->id[0] = '\0'; /* no host has seen it */
	if (rc)
		close_image(img, rc == -ESHUTDOWN);
	else
		atomic_store(&img->changes_read, changes);
	return rc;
}

/* Is the failure permanent, so that the start of the target should fail? */
static bool is_mistake(int rc)
{
	return rc == -ENOENT || rc == -EINVAL || rc == -EACCES || rc == -EPERM ||
	       rc == -EKEYREJECTED;
}

/* After a failure of opening. */
static uint64_t retry_after(int rc)
{
	return rc == -EKEYREJECTED ? KEY_NS : RETRY_NS;
}

static void note_failure(struct rbd_image *img, int rc, const char *text)
{
	bool tell;

	pthread_mutex_lock(&img->lock);
	tell = !img->opened && is_mistake(rc) && rc != img->open_err;
	if (tell) {
		img->open_err = rc;
		snprintf(img->open_text, sizeof(img->open_text), "%s", text);
		if (img->state != RBD_CLOSING)
			rdt_bdev_changed(&img->bdev);
	}
	pthread_mutex_unlock(&img->lock);
	if (!tell && rc != img->said_err)
		rd_warn(img->log, RD_LOG_BACKEND, "%s; trying again every %llu s", text,
			(unsigned long long)(retry_after(rc) / 1000000000u));
	img->said_err = rc;
}

/* ---- standby ---- */

void rbd_image_set_standby(struct rbd_image *img, bool standby)
{
	pthread_mutex_lock(&img->lock);
	/* The connection that has taken the lock may be lost already. */
	if (img->state == RBD_LOST)
		standby = true;
	if (atomic_exchange(&img->bdev.standby, standby) != standby && img->opened &&
	    img->state != RBD_CLOSING && atomic_load(&img->handover) != RBD_LEFT)
		rdt_bdev_changed(&img->bdev);
	pthread_mutex_unlock(&img->lock);
}

/* It is closed, and opened again when that is possible. */
static void lose_image(struct rbd_image *img, const char *why)
{
	bool lost;
	char spelled[256];

	pthread_mutex_lock(&img->lock);
	lost = img->state == RBD_OPEN;
	if (lost)
		img->state = RBD_LOST;
	pthread_mutex_unlock(&img->lock);
	if (!lost)
		return;
	rbd_cache_failed(img, -EIO);
	rbd_image_set_standby(
		img, true); /* until the image is open again, with its lock if it has one */
	rbd_handover_over(img, "its connection was lost in a hand-over");
	rd_warn(img->log, RD_LOG_BACKEND,
		"rbd: image %s: %s; hosts are sent to other paths, and the image is opened again "
		"when that is possible",
		rbd_image_spell(img, spelled, sizeof(spelled)), why);
	rbd_job_kick(&img->job, 0);
}

void rbd_image_lost(struct rbd_image *img)
{
	lose_image(img, "the cluster has blocked this rdtarget's connection: another client took "
			"the image over, or an operator blocked it (ceph osd blocklist ls)");
}

static void end_cut_off(struct rbd_image *img)
{
	pthread_mutex_lock(&img->lock);
	if (atomic_exchange(&img->bdev.cut_off, false) && img->opened && img->state != RBD_CLOSING)
		rdt_bdev_changed(&img->bdev);
	pthread_mutex_unlock(&img->lock);
}

/* When the job of an open image runs again. */
static uint64_t look_after(const struct rbd_image *img)
{
	if (img->lock_mode != RDT_RBD_LOCK_EXCLUSIVE)
		return LOOK_NS;
	if (atomic_load(&img->handover) == RBD_LOOKS)
		return RBD_LOOKS_NS;
	if (atomic_load(&img->handover) == RBD_COMES)
		return RBD_COMES_NS;
	if (img->quiet)
		return RBD_QUIET_NS;
	return atomic_load(&img->bdev.standby) || img->busy || atomic_load(&img->inflight)
		       ? LOCK_NS
		       : LOOK_NS;
}

/* An image that was renamed stays the one that is served. */
static void tell_renamed(struct rbd_image *img)
{
	char name[256], spelled[256];
	size_t size = sizeof(name);

	if (img->said_renamed || rbd_get_name(img->image, name, &size) ||
	    strcmp(name, img->name) == 0)
		return;
	img->said_renamed = true;
	rd_warn(img->log, RD_LOG_BACKEND,
		"rbd: image %s: it was renamed to %s and is served as before; change the "
		"configuration before the next start, which looks for the name that it has",
		rbd_image_spell(img, spelled, sizeof(spelled)), name);
}

static void try_open(struct rbd_image *img)
{
	char text[384], spelled[256];
	bool again;
	int rc = open_image(img, 0, text, sizeof(text));

	if (rc) {
		note_failure(img, rc, text);
		rbd_job_kick(&img->job, retry_after(rc));
		return;
	}
	tell_renamed(img);
	end_cut_off(img);
	rbd_image_set_standby(img, img->lock_mode == RDT_RBD_LOCK_EXCLUSIVE);
	rbd_image_settle_lock(img);
	pthread_mutex_lock(&img->lock);
	again = img->opened;
	img->opened = true;
	img->open_err = 0;
	if (img->state == RBD_OPENING) {
		img->state = RBD_OPEN;
		rdt_bdev_changed(&img->bdev);
	}
	pthread_mutex_unlock(&img->lock);
	if (again || img->said_err)
		rd_notice(img->log, RD_LOG_BACKEND, "rbd: image %s is open again",
			  rbd_image_spell(img, spelled, sizeof(spelled)));
	img->said_err = 0;
	rbd_job_kick(&img->job, look_after(img));
}

/* ---- open ---- */

/* Ends the writes that waited for the size. @known: it was read; otherwise it is not known whether
 * they were clipped, and hosts send them again. */
static void end_held(struct rbd_image *img, bool known)
{
	TAILQ_HEAD(, rdt_bio) held = TAILQ_HEAD_INITIALIZER(held);
	struct rdt_bio *bio, *next;
	uint64_t size;

	pthread_mutex_lock(&img->lock);
	TAILQ_CONCAT(&held, &img->held, link);
	size = img->image_size;
	pthread_mutex_unlock(&img->lock);
	for (bio = TAILQ_FIRST(&held); bio; bio = next) {
		next = TAILQ_NEXT(bio, link);
		/* librbd clips a write at the end of the image and calls that a success */
		if (!known)
			rbd_bio_unknown(bio);
		else if (bio->offset > size || bio->length > size - bio->offset)
			bio->result = -ERANGE;
		else if (rbd_bio_in_doubt(bio))
			rbd_bio_unknown(bio);
		rbd_bio_finish(bio);
	}
}

static void refresh_size(struct rbd_image *img)
{
	uint32_t changes = atomic_load(&img->changes);
	char text[384];
	uint64_t size;
	int rc;

	if (!rbd_size_stale(img))
		return;
	rc = rbd_get_size(img->image, &size);
	/* While a write waits for the size, no read of read_when_idle() would show that. */
	if (rc == -ESHUTDOWN)
		rbd_image_lost(img);
	if (!rc && rbd_object_map_check(img, text, sizeof(text)) == -EINVAL)
		lose_image(img, "it was changed so that it cannot be used here");
	if (rc)
		return; /* the job looks again */
	pthread_mutex_lock(&img->lock);
	atomic_store(&img->changes_read, changes);
	if (size != img->image_size) {
		img->image_size = size;
		if (img->state != RBD_CLOSING)
			rdt_bdev_changed(&img->bdev);
	}
	pthread_mutex_unlock(&img->lock);
	if (!rbd_size_stale(img)) /* otherwise it runs again at once */
		end_held(img, true);
}

/* With @img->lock. Returns whether that has changed. */
static bool set_late(struct rbd_image *img, bool late, uint64_t since)
{
	if (img->late == late)
		return false;
	img->late = late;
	if (late)
		rdt_bdev_late(&img->bdev, since);
	else
		rdt_bdev_answers(&img->bdev);
	return true;
}

/* The last pass has ended. Says once that an image without other I/O gets no answer, and once that
 * the cluster answers again. */
static void look_at_answers(struct rbd_image *img)
{
	uint64_t now = rdt_module_now(), since = atomic_load(&img->idle_since);
	bool late = since && now - since >= LOOK_NS, changed;
	char spelled[256];

	pthread_mutex_lock(&img->lock);
	changed = set_late(img, late, since);
	pthread_mutex_unlock(&img->lock);
	if (!changed)
		return;
	rbd_image_spell(img, spelled, sizeof(spelled));
	if (late)
		rd_warn(img->log, RD_LOG_BACKEND,
			"rbd: image %s: the cluster has not completed a read for %llu s (ceph -s "
			"shows its state)",
			spelled, (unsigned long long)((now - since) / 1000000000u));
	else
		rd_notice(img->log, RD_LOG_BACKEND, "rbd: image %s: the cluster answers again",
			  spelled);
}

static void note_whether_busy(struct rbd_image *img)
{
	uint64_t completed = atomic_load(&img->completed);

	/* One is the read of read_when_idle(). */
	img->busy = completed - img->passed_at > 1;
	img->passed_at = completed;
}

/* Does no I/O complete? Also called while the job runs. */
static bool is_stuck(struct rbd_image *img)
{
	uint64_t now = rdt_module_now(), completed;
	bool stuck;

	pthread_mutex_lock(&img->lock);
	completed = atomic_load(&img->completed);
	if (completed != img->looked_at || !atomic_load(&img->inflight) || !img->moved_ns) {
		img->looked_at = completed;
		img->moved_ns = now;
	}
	stuck = now - img->moved_ns >= CUT_OFF_NS;
	pthread_mutex_unlock(&img->lock);
	return stuck;
}

/*
 * Does the cluster not answer this gateway, so that another one takes over or has done so? @stuck:
 * its I/O or its job is. The monitors are asked as well: when only a pool hangs, it hangs for the
 * other gateway, too. One that does not reach the OSDs, and was blocked, learns of that from them.
 * Also called while the job runs.
 */
static void look_whether_cut_off(struct rbd_image *img, bool stuck)
{
	bool blocked;
	char spelled[256];

	if (img->lock_mode != RDT_RBD_LOCK_EXCLUSIVE || !stuck || atomic_load(&img->bdev.standby))
		return;
	blocked = rbd_cluster_is_blocked(img->cluster);
	if (!blocked && !rbd_cluster_is_silent(img->cluster))
		return;
	if (!atomic_load(&img->bdev.cut_off)) {
		atomic_store(&img->bdev.cut_off_since, time(NULL));
		rd_warn(img->log, RD_LOG_BACKEND,
			"rbd: image %s: cut off from the cluster: its %s; hosts are sent to other "
			"paths",
			rbd_image_spell(img, spelled, sizeof(spelled)),
			blocked ? "OSDs do not answer, and its monitors have blocked this "
				  "rdtarget's connection"
				: "monitors and OSDs do not answer");
	}
	pthread_mutex_lock(&img->lock);
	atomic_store(&img->bdev.cut_off, true);
	if (img->opened && img->state != RBD_CLOSING)
		rdt_bdev_changed(&img->bdev); /* also for commands that came at this moment */
	pthread_mutex_unlock(&img->lock);
}

/* The image may have been taken over, and the block may have ended since. */
static void look_whether_in_reach(struct rbd_image *img)
{
	char spelled[256];

	if (!atomic_load(&img->bdev.cut_off) || rbd_cluster_is_silent(img->cluster))
		return;
	if (rbd_cluster_is_blocked(img->cluster)) {
		rbd_image_lost(img);
		return;
	}
	if (!atomic_load(&img->bdev.standby) && !rbd_image_lock_stayed(img))
		return;
	end_cut_off(img);
	rd_notice(img->log, RD_LOG_BACKEND, "rbd: image %s: the cluster is reachable again",
		  rbd_image_spell(img, spelled, sizeof(spelled)));
}

static void idle_read_done(rbd_completion_t completion, void *arg)
{
	struct rbd_image *img = arg;
	ssize_t rc = rbd_aio_get_return_value(completion);

	rbd_aio_release(completion);
	atomic_fetch_add(&img->completed, 1);
	atomic_store(&img->idle_since, 0);
	if (rc == -ESHUTDOWN)
		rbd_image_lost(img);
	rbd_image_put_own_io(img);
}

/* Only I/O shows that the cluster has blocked the connection. Without it hosts would be told that
 * this path works, while another gateway serves the image. */
static void read_when_idle(struct rbd_image *img)
{
	uint64_t now = rdt_module_now();
	rbd_completion_t c;

	if (atomic_load(&img->inflight) || now - img->idle_ns < LOOK_NS)
		return;
	img->idle_ns = now;
	if (rbd_aio_create_completion(img, idle_read_done, &c))
		return;
	atomic_fetch_add(&img->inflight, 1);
	atomic_store(&img->idle_since, now);
	if (rbd_aio_read(img->image, 0, sizeof(img->idle_buf), img->idle_buf, c)) {
		atomic_store(&img->idle_since, 0);
		rbd_aio_release(c);
		rbd_image_put_io(img);
	}
}

/* ---- lost ---- */

/* Blocked by the cluster, for example because another gateway has broken the lock. The librados
 * connection cannot be used any more; I/O ends with -ESHUTDOWN until there is another. */
static void leave_connection(struct rbd_image *img)
{
	close_image(img, true);
	img->lock_said = RBD_SAID_NOTHING;
	pthread_mutex_lock(&img->lock);
	if (img->state == RBD_LOST)
		img->state = RBD_OPENING;
	pthread_mutex_unlock(&img->lock);
	rbd_job_kick(&img->job, 0);
}

/* ---- the job ---- */

/* Before hosts have seen it, the target's start says that its storage does not answer. The job may
 * hang for another reason than its I/O, so I/O is looked at while it does. */
static void image_is_late(struct rbd_job *job)
{
	struct rbd_image *img = image_of(job);
	bool late = rdt_module_now() - job->began_ns >= LOOK_NS, stuck = is_stuck(img);
	char spelled[256];
	bool told, closing;

	pthread_mutex_lock(&img->lock);
	told = !img->opened || !late || !set_late(img, true, job->began_ns);
	closing = img->state == RBD_CLOSING;
	pthread_mutex_unlock(&img->lock);
	look_whether_cut_off(img, late || stuck);
	rbd_handover_look_late(img);
	if (told)
		return;
	rd_warn(img->log, RD_LOG_BACKEND,
		"rbd: image %s: the cluster has not answered a request for some seconds; until it "
		"does, %s (ceph -s shows its state)",
		rbd_image_spell(img, spelled, sizeof(spelled)),
		closing ? "the image stays open"
			: "the image's lock and size do not change, and commands to take it or to "
			  "give it up wait");
}

static void run_image(struct rbd_job *job)
{
	struct rbd_image *img = image_of(job);

	switch (atomic_load(&img->state)) {
	case RBD_OPENING:
		rbd_shared_run(img);
		try_open(img);
		break;
	case RBD_OPEN:
		refresh_size(img);
		look_at_answers(img);
		if (img->lock_mode == RDT_RBD_LOCK_EXCLUSIVE && !atomic_load(&img->bdev.standby))
			rbd_cluster_ask(img->clusters, img->cluster, img->job.queue, is_stuck(img));
		note_whether_busy(img);
		look_whether_cut_off(img, is_stuck(img));
		look_whether_in_reach(img);
		rbd_shared_run(img);
		rbd_image_settle_lock(img);
		if (!img->quiet) /* otherwise one question for all images shows the same */
			read_when_idle(img);
		rbd_job_kick(job, look_after(img));
		break;
	case RBD_LOST:
		end_held(img, false); /* no further ones come in this state */
		rbd_shared_run(img);
		leave_connection(img);
		break;
	case RBD_CLOSING:
		if (!rbd_image_keeps_lock(img)) {
			close_and_free(img);
			return;
		}
		rbd_job_kick(job, rbd_image_keeps_lock(img));
		break;
	}
	rbd_job_ran(job, false);
}

void rbd_image_put_io(struct rbd_image *img)
{
	if (atomic_fetch_sub(&img->inflight, 1) != 1 || atomic_load(&img->state) == RBD_OPEN)
		return;
	pthread_mutex_lock(&img->lock);
	pthread_cond_broadcast(&img->idle);
	pthread_mutex_unlock(&img->lock);
}

/* With the lock: the image may be freed as soon as nothing is in flight. */
void rbd_image_put_own_io(struct rbd_image *img)
{
	pthread_mutex_lock(&img->lock);
	atomic_fetch_sub(&img->inflight, 1);
	pthread_cond_broadcast(&img->idle);
	pthread_mutex_unlock(&img->lock);
}

/* ---- from outside ---- */

static int new_image(struct rbd_clusters *clusters, const struct rdt_ns_config *cfg,
		     struct rd_log *log, struct rbd_image **out)
{
	struct rbd_image *img = calloc(1, sizeof(*img));
	const struct rdt_rbd_config *rbd = cfg->rbd;
	int rc = -ENOMEM;

	*out = NULL;
	if (!img)
		return rc;
	pthread_mutex_init(&img->lock, NULL);
	pthread_cond_init(&img->idle, NULL);
	TAILQ_INIT(&img->held);
	TAILQ_INIT(&img->waiting);
	STAILQ_INIT(&img->shared_jobs);
	img->clusters = clusters;
	img->log = log;
	img->lock_mode = rbd->lock;
	img->encryption = rbd->encryption;
	img->cache = rbd->cache;
	img->bdev.device = rbd->of ? rd_map_hash(rbd->of->name) : 0;
	img->bdev.block_size = cfg->block_size;
	img->bdev.read_only = cfg->read_only;
	img->bdev.volatile_cache = rbd->cache && !cfg->read_only;
	img->bdev.shares_state = rbd->lock == RDT_RBD_LOCK_EXCLUSIVE;
	img->bdev.one_gateway = img->bdev.shares_state;
	rbd_shared_name(img, cfg->uuid_bytes);
	rbd_bdev_init(&img->bdev);
	/* librbd would write zeroes, which takes space instead of freeing it. */
	if (img->encryption != RDT_RBD_ENCRYPTION_NONE)
		img->bdev.ops_mask &= ~(1u << RDT_BIO_DEALLOCATE);
	if (rbd_copy_name(&img->pool, rbd->pool) && rbd_copy_name(&img->name, rbd->image) &&
	    rbd_copy_name(&img->rados_namespace, rbd->rados_namespace) &&
	    rbd_copy_name(&img->snapshot, rbd->snapshot) &&
	    rbd_copy_name(&img->key_file, rbd->encryption_key_file))
		rc = rbd_cluster_get(clusters, rbd->of, rbd->cache, rbd->pool, &img->cluster,
				     &img->job.queue);
	if (rc) {
		free_image(img);
		return rc;
	}
	img->job.run = run_image;
	img->job.tell_late = image_is_late;
	*out = img;
	return 0;
}

int rbd_image_new(struct rbd_clusters *clusters, const struct rdt_ns_config *cfg, bool looks,
		  struct rd_log *log, struct rbd_image **out)
{
	int rc = new_image(clusters, cfg, log, out);

	if (rc)
		return rc;
	if (looks && (*out)->lock_mode == RDT_RBD_LOCK_EXCLUSIVE) {
		atomic_store(&(*out)->handover, RBD_LOOKS);
		atomic_store(&(*out)->bdev.comes, true);
	}
	rbd_clusters_add(clusters, *out);
	rc = rbd_job_kick(&(*out)->job, 0);
	if (rc) {
		rbd_clusters_remove(clusters, *out);
		free_image(*out);
		*out = NULL;
	}
	return rc;
}

static void set_closing(struct rbd_job *job)
{
	struct rbd_image *img = image_of(job);

	pthread_mutex_lock(&img->lock);
	img->state = RBD_CLOSING;
	pthread_mutex_unlock(&img->lock);
}

void rbd_image_close(struct rbd_image *img)
{
	rbd_job_kick_last(&img->job, set_closing);
}

/* ---- released, probe ---- */

static bool writes_same(const struct rbd_image *img, const void *arg)
{
	const struct rdt_rbd_config *rbd = arg;

	return !img->bdev.read_only && rdt_config_same_text(img->pool, rbd->pool) &&
	       rdt_config_same_text(img->rados_namespace, rbd->rados_namespace) &&
	       rdt_config_same_text(img->name, rbd->image);
}

bool rbd_image_released(struct rbd_clusters *clusters, const struct rdt_ns_config *cfg)
{
	return cfg->read_only || !rbd_clusters_find(clusters, writes_same, cfg->rbd);
}

int rbd_image_probe(struct rbd_clusters *clusters, const struct rdt_ns_config *cfg, char *err,
		    size_t err_size)
{
	struct rdt_ns_config reading = *cfg;
	struct rbd_image *img;
	int rc;

	reading.read_only = true;
	rc = new_image(clusters, &reading, NULL, &img);
	if (rc) {
		snprintf(err, err_size, "rbd: out of memory");
		return rc;
	}
	rc = open_image(img, PROBE_SECS, err, err_size);
	if (!rc)
		close_image(img, false);
	free_image(img);
	return rc;
}
