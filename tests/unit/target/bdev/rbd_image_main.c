/* SPDX-License-Identifier: BSD-3-Clause */
/* An image of Ceph that is open: its size and the loss of its connection, on a fake cluster. The
 * test runs the passes of its job. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "t_main.h"
#include "target/bdev/rbd_priv.h"

#define IMAGE_SIZE (UINT64_C(1) << 20)

/* ---- the cluster ---- */

static struct {
	int rc;              /* of calls that read the image's header */
	uint64_t keeps_lock; /* ns, once */
	unsigned int closes;
	uint64_t size;
	rbd_update_callback_t changed;
	void *changed_arg;
	unsigned int opens, opens_by_id, finished, unknown, changes;
	int result; /* of the write that ended last */
	uint64_t later;
	bool silent; /* the monitors do not answer */
	bool listed; /* they say that the connection is blocked */
	bool asked_stuck;
	bool lost_lock; /* another gateway has taken the lock */
	bool object_map;
	unsigned int asked;
	uint64_t delay; /* until the job runs again */
} fake;

uint64_t rdt_module_now(void)
{
	return RD_NSEC_PER_SEC + fake.later;
}

int rados_ioctx_create(rados_t cluster, const char *pool, rados_ioctx_t *io)
{
	*io = &fake;
	return 0;
}

void rados_set_pool_full_try(rados_ioctx_t io)
{
}

void rados_ioctx_destroy(rados_ioctx_t io)
{
}

void rados_ioctx_set_namespace(rados_ioctx_t io, const char *name)
{
}

int64_t rados_ioctx_get_id(rados_ioctx_t io)
{
	return 1;
}

static int open_fake(rbd_image_t *image)
{
	fake.opens++;
	*image = &fake;
	return 0;
}

int rbd_open(rados_ioctx_t io, const char *name, rbd_image_t *image, const char *snapshot)
{
	return open_fake(image);
}

int rbd_open_by_id(rados_ioctx_t io, const char *id, rbd_image_t *image, const char *snapshot)
{
	CU_ASSERT_STRING_EQUAL(id, "17");
	fake.opens_by_id++;
	return open_fake(image);
}

int rbd_open_read_only(rados_ioctx_t io, const char *name, rbd_image_t *image, const char *snapshot)
{
	return open_fake(image);
}

int rbd_open_by_id_read_only(rados_ioctx_t io, const char *id, rbd_image_t *image,
			     const char *snapshot)
{
	return open_fake(image);
}

int rbd_close(rbd_image_t image)
{
	fake.closes++;
	return 0;
}

int rbd_get_size(rbd_image_t image, uint64_t *size)
{
	*size = fake.size;
	return fake.rc;
}

int rbd_stat(rbd_image_t image, rbd_image_info_t *info, size_t size)
{
	memset(info, 0, size);
	info->obj_size = 4u << 20;
	return rbd_get_size(image, &info->size);
}

int rbd_get_id(rbd_image_t image, char *id, size_t len)
{
	snprintf(id, len, "17");
	return 0;
}

int rbd_get_name(rbd_image_t image, char *name, size_t *len)
{
	snprintf(name, *len, "disk");
	return 0;
}

int rbd_update_watch(rbd_image_t image, uint64_t *handle, rbd_update_callback_t fn, void *arg)
{
	fake.changed = fn;
	fake.changed_arg = arg;
	return 0;
}

int rbd_update_unwatch(rbd_image_t image, uint64_t handle)
{
	return 0;
}

/* The reads of an idle image: none can be made. */
int rbd_aio_create_completion(void *arg, rbd_callback_t fn, rbd_completion_t *c)
{
	return -ENOMEM;
}

int rbd_aio_read(rbd_image_t image, uint64_t offset, size_t len, char *buf, rbd_completion_t c)
{
	return -ENOMEM;
}

ssize_t rbd_aio_get_return_value(rbd_completion_t c)
{
	return -ENOMEM;
}

void rbd_aio_release(rbd_completion_t c)
{
}

/* ---- the rest of the module ---- */

int rbd_image_decrypt(struct rbd_image *img, char *err, size_t err_size)
{
	return 0;
}

int rbd_cache_check(struct rbd_image *img, char *err, size_t err_size)
{
	return 0;
}

int rbd_object_map_check(struct rbd_image *img, char *err, size_t err_size)
{
	err[0] = '\0';
	return fake.object_map ? -EINVAL : 0;
}

int rbd_cache_failed(struct rbd_image *img, int err)
{
	return err;
}

static struct rbd_handle handle;

int rbd_cluster_get(struct rbd_clusters *clusters, const struct rdt_ceph_config *cfg, bool cache,
		    const char *pool, struct rbd_cluster **out, struct rbd_queue **queue)
{
	*out = NULL;
	*queue = NULL;
	return 0;
}

void rbd_cluster_put(struct rbd_clusters *clusters, struct rbd_cluster *c, struct rbd_queue *queue)
{
}

int rbd_cluster_connect(struct rbd_cluster *c, unsigned int timeout_s, struct rbd_handle **out,
			char *err, size_t err_size)
{
	*out = &handle;
	return 0;
}

void rbd_handle_put(struct rbd_cluster *c, struct rbd_handle **h, bool dead)
{
	*h = NULL;
}

void rbd_cluster_ask(struct rbd_clusters *clusters, struct rbd_cluster *c, struct rbd_queue *queue,
		     bool stuck)
{
	fake.asked++;
	fake.asked_stuck = stuck;
}

bool rbd_cluster_is_blocked(struct rbd_cluster *c)
{
	return fake.listed;
}

bool rbd_cluster_is_silent(struct rbd_cluster *c)
{
	return fake.silent;
}

void rbd_clusters_add(struct rbd_clusters *clusters, struct rbd_image *img)
{
}

void rbd_clusters_remove(struct rbd_clusters *clusters, struct rbd_image *img)
{
}

bool rbd_clusters_find(struct rbd_clusters *clusters,
		       bool (*fn)(const struct rbd_image *img, const void *arg), const void *arg)
{
	return false;
}

int rbd_job_kick(struct rbd_job *job, uint64_t delay_ns)
{
	fake.delay = delay_ns;
	return 0;
}

int rbd_job_kick_last(struct rbd_job *job, void (*end)(struct rbd_job *job))
{
	end(job);
	return 0;
}

void rbd_job_ran(struct rbd_job *job, bool last)
{
}

void rbd_peers_gave_up(struct rbd_peers *p)
{
}

void rbd_peers_leave(struct rbd_image *img)
{
}

void rbd_shared_name(struct rbd_image *img, const uint8_t uuid[16])
{
}

void rbd_shared_run(struct rbd_image *img)
{
}

void rbd_image_settle_lock(struct rbd_image *img)
{
}

uint64_t rbd_image_keeps_lock(const struct rbd_image *img)
{
	uint64_t left = fake.keeps_lock;

	fake.keeps_lock = 0;
	return left;
}

void rbd_handover_over(struct rbd_image *img, const char *why)
{
}

void rbd_handover_look_late(struct rbd_image *img)
{
}

bool rbd_image_lock_stayed(struct rbd_image *img)
{
	if (fake.lost_lock)
		rbd_image_lost(img);
	return !fake.lost_lock;
}

void rbd_bdev_init(struct rdt_bdev *bdev)
{
}

bool rbd_bio_in_doubt(struct rdt_bio *bio)
{
	return fake.changes >= 2;
}

void rbd_bio_unknown(struct rdt_bio *bio)
{
	fake.unknown++;
}

static struct rbd_image *the_image; /* of the writes */

void rbd_bio_finish(struct rdt_bio *bio)
{
	fake.finished++;
	fake.result = bio->result;
	rbd_image_put_io(the_image);
}

/* ---- a write that waits for the size ---- */

static struct rbd_image *open_with_write(struct rdt_bio *bio)
{
	struct rdt_rbd_config rbd = {.pool = "rbd", .image = "disk"};
	struct rdt_ns_config cfg = {.block_size = 4096, .rbd = &rbd};
	struct rbd_image *img;

	memset(&fake, 0, sizeof(fake));
	fake.size = IMAGE_SIZE;
	CU_ASSERT_EQUAL_FATAL(rbd_image_new(NULL, &cfg, false, NULL, &img), 0);
	the_image = img;
	img->job.run(&img->job);
	CU_ASSERT_EQUAL(atomic_load(&img->state), RBD_OPEN);
	*bio = (struct rdt_bio){.op = RDT_BIO_WRITE, .length = IMAGE_SIZE};
	atomic_fetch_add(&img->inflight, 1);
	TAILQ_INSERT_TAIL(&img->held, bio, link);
	fake.changed(fake.changed_arg);
	return img;
}

static void close_opened(struct rbd_image *img)
{
	rbd_image_close(img);
	img->job.run(&img->job);
}

static void test_size_read(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = open_with_write(&bio);

	fake.rc = -EIO;
	img->job.run(&img->job);
	CU_ASSERT_EQUAL(fake.finished, 0);
	fake.rc = 0;
	img->job.run(&img->job);
	CU_ASSERT_EQUAL_FATAL(fake.finished, 1);
	CU_ASSERT_EQUAL(fake.result, 0);
	CU_ASSERT_EQUAL(fake.opens, 1);
	close_opened(img);
}

static void test_clipped(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = open_with_write(&bio);

	fake.size = IMAGE_SIZE - 4096;
	img->job.run(&img->job);
	CU_ASSERT_EQUAL_FATAL(fake.finished, 1);
	CU_ASSERT_EQUAL(fake.result, -ERANGE);
	CU_ASSERT_EQUAL(fake.unknown, 0);
	close_opened(img);
}

/* It has shrunk, and has grown again before its size was read. */
static void test_clipped_meanwhile(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = open_with_write(&bio);

	fake.changes = 2;
	img->job.run(&img->job);
	CU_ASSERT_EQUAL_FATAL(fake.finished, 1);
	CU_ASSERT_EQUAL(fake.unknown, 1);
	close_opened(img);
}

/* No other I/O comes, which would show that the connection is blocked. */
static void test_blocked(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = open_with_write(&bio);

	fake.rc = -ESHUTDOWN;
	img->job.run(&img->job);
	img->job.run(&img->job);
	CU_ASSERT_EQUAL_FATAL(fake.finished, 1);
	CU_ASSERT_EQUAL(fake.unknown, 1);
	fake.rc = 0;
	img->job.run(&img->job);
	CU_ASSERT_EQUAL(fake.opens, 2);
	CU_ASSERT_EQUAL(atomic_load(&img->state), RBD_OPEN);
	close_opened(img);
}

/* Meanwhile its name may be that of another image. */
static void test_opened_again(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = open_with_write(&bio);

	img->job.run(&img->job);
	CU_ASSERT_EQUAL(fake.finished, 1);
	rbd_image_lost(img);
	img->job.run(&img->job);
	fake.rc = -ETIMEDOUT;
	img->job.run(&img->job);
	CU_ASSERT_EQUAL(atomic_load(&img->state), RBD_OPENING);
	CU_ASSERT_EQUAL(fake.opens_by_id, 1);
	fake.rc = 0;
	img->job.run(&img->job);
	CU_ASSERT_EQUAL(atomic_load(&img->state), RBD_OPEN);
	CU_ASSERT_EQUAL(fake.opens_by_id, 2);
	close_opened(img);
}

/* A gateway that was replaced would answer from it. */
static void test_object_map_enabled(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = open_with_write(&bio);

	fake.object_map = true;
	img->job.run(&img->job);
	CU_ASSERT_EQUAL(atomic_load(&img->state), RBD_LOST);
	CU_ASSERT_EQUAL(fake.finished, 1);
	img->job.run(&img->job);
	img->job.run(&img->job);
	CU_ASSERT_EQUAL(atomic_load(&img->state), RBD_OPENING);
	fake.object_map = false;
	img->job.run(&img->job);
	CU_ASSERT_EQUAL(atomic_load(&img->state), RBD_OPEN);
	close_opened(img);
}

/* The job takes the lock while other I/O shows that the connection is blocked. */
static void test_lost_with_lock(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = open_with_write(&bio);

	img->job.run(&img->job);
	rbd_image_lost(img);
	rbd_image_set_standby(img, false);
	CU_ASSERT_TRUE(atomic_load(&img->bdev.standby));
	img->job.run(&img->job);
	img->job.run(&img->job);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.standby));
	close_opened(img);
}

/* ---- the cluster is not in reach ---- */

static struct rbd_image *open_with_lock(struct rdt_bio *bio)
{
	struct rbd_image *img = open_with_write(bio);

	img->job.run(&img->job);
	img->lock_mode = RDT_RBD_LOCK_EXCLUSIVE;
	atomic_fetch_add(&img->inflight, 1);
	img->job.run(&img->job);
	return img;
}

static void close_with_lock(struct rbd_image *img)
{
	rbd_image_put_io(img);
	close_opened(img);
}

static void test_cut_off(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = open_with_lock(&bio);

	CU_ASSERT_TRUE(fake.asked > 0);
	fake.silent = true;
	img->job.run(&img->job);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.cut_off)); /* I/O completes, or has just begun */
	fake.later = 10 * RD_NSEC_PER_SEC;
	img->job.run(&img->job);
	CU_ASSERT_TRUE(atomic_load(&img->bdev.cut_off));
	CU_ASSERT_TRUE(rdt_bdev_elsewhere(&img->bdev));
	fake.silent = false;
	img->job.run(&img->job);
	CU_ASSERT_FALSE(rdt_bdev_elsewhere(&img->bdev));
	close_with_lock(img);
}

/* Hosts have no command in flight at the moment of a look, but between two. */
static void test_look_while_used(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = open_with_lock(&bio);

	rbd_image_put_io(img);
	atomic_fetch_add(&img->completed, 2);
	img->job.run(&img->job);
	CU_ASSERT_EQUAL(fake.delay, RD_NSEC_PER_SEC);
	img->job.run(&img->job);
	CU_ASSERT_EQUAL(fake.delay, 5 * RD_NSEC_PER_SEC);
	close_opened(img);
}

/* A part of the cluster hangs, also for the other gateway. */
static void test_not_cut_off(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = open_with_lock(&bio);

	fake.later = 10 * RD_NSEC_PER_SEC;
	img->job.run(&img->job);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.cut_off));
	fake.silent = true;
	rbd_image_set_standby(img, true); /* it does not serve the image */
	img->job.run(&img->job);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.cut_off));
	close_with_lock(img);
}

/* Its job waits for the cluster since now. */
static void job_hangs(struct rbd_image *img)
{
	img->job.began_ns = rdt_module_now();
	fake.silent = true;
}

static void look_once_more(struct rbd_image *img, unsigned int seconds)
{
	fake.later += seconds * RD_NSEC_PER_SEC;
	img->job.tell_late(&img->job);
}

/* For example to store reservations. */
static void test_cut_off_in_job(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = open_with_lock(&bio);

	rbd_image_put_io(img);
	job_hangs(img);
	look_once_more(img, 4);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.cut_off));
	CU_ASSERT_FALSE(img->late);
	look_once_more(img, 1);
	CU_ASSERT_TRUE(atomic_load(&img->bdev.cut_off));
	CU_ASSERT_TRUE(img->late);
	close_opened(img);
}

/* The I/O of hosts hangs as well. */
static void test_cut_off_with_job(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = open_with_lock(&bio);

	job_hangs(img);
	look_once_more(img, 1);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.cut_off));
	atomic_fetch_add(&img->completed, 1);
	look_once_more(img, 1);
	look_once_more(img, 1);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.cut_off));
	look_once_more(img, 1);
	CU_ASSERT_TRUE(atomic_load(&img->bdev.cut_off));
	CU_ASSERT_FALSE(img->late);
	close_with_lock(img);
}

/* Another gateway has the lock: it is not served until it is open again. */
static void test_cut_off_and_taken(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = open_with_lock(&bio);

	job_hangs(img);
	look_once_more(img, 2);
	CU_ASSERT_TRUE(atomic_load(&img->bdev.cut_off));
	fake.silent = false;
	fake.lost_lock = true;
	img->job.run(&img->job);
	CU_ASSERT_EQUAL(atomic_load(&img->state), RBD_LOST);
	CU_ASSERT_TRUE(rdt_bdev_elsewhere(&img->bdev));
	rbd_image_put_io(img);
	img->job.run(&img->job);
	img->job.run(&img->job);
	CU_ASSERT_EQUAL(atomic_load(&img->state), RBD_OPEN);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.cut_off));
	close_opened(img);
}

/* The OSDs are not in reach, and could not say that. */
static void test_cut_off_and_blocked(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = open_with_lock(&bio);

	CU_ASSERT_FALSE(fake.asked_stuck);
	fake.listed = true;
	img->job.run(&img->job);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.cut_off)); /* I/O completes, or has just begun */
	fake.later = 10 * RD_NSEC_PER_SEC;
	img->job.run(&img->job);
	CU_ASSERT_TRUE(fake.asked_stuck);
	CU_ASSERT_TRUE(atomic_load(&img->bdev.cut_off));
	CU_ASSERT_EQUAL(atomic_load(&img->state), RBD_LOST);
	rbd_image_put_io(img); /* the OSDs are in reach again */
	fake.listed = false;
	img->job.run(&img->job);
	img->job.run(&img->job);
	CU_ASSERT_EQUAL(atomic_load(&img->state), RBD_OPEN);
	CU_ASSERT_FALSE(atomic_load(&img->bdev.cut_off));
	close_opened(img);
}

/* Closing it gives its lock up. */
static void test_closed_later(void)
{
	struct rdt_bio bio;
	struct rbd_image *img = open_with_write(&bio);

	img->job.run(&img->job);
	fake.keeps_lock = 1;
	rbd_image_close(img);
	img->job.run(&img->job);
	CU_ASSERT_EQUAL(fake.closes, 0);
	img->job.run(&img->job);
	CU_ASSERT_EQUAL(fake.closes, 1);
}

static const struct t_case rbd_image_cases[] = {
	{"an image whose lock has to be kept is closed later", test_closed_later},
	{"a write that waits for the size ends when it can be read", test_size_read},
	{"a write that was clipped at the new end of the image fails", test_clipped},
	{"a write during two changes of the size may have been clipped", test_clipped_meanwhile},
	{"a write that waits for the size ends when the connection is blocked", test_blocked},
	{"an image is opened again by its ID, also after a failed attempt", test_opened_again},
	{"an image is left when an object map is enabled", test_object_map_enabled},
	{"an image is cut off when neither I/O nor monitors answer", test_cut_off},
	{"an image that is used is looked at each second", test_look_while_used},
	{"an image is not cut off while monitors answer, or without its lock", test_not_cut_off},
	{"an image of which the job waits is cut off", test_cut_off_in_job},
	{"an image of which I/O and the job wait is cut off sooner", test_cut_off_with_job},
	{"an image that was cut off and taken over is opened again", test_cut_off_and_taken},
	{"an image of which monitors say that it is blocked is cut off", test_cut_off_and_blocked},
	{"an image whose connection is lost stays on standby", test_lost_with_lock},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	const struct t_suite suites[] = {
		{.name = "rbd image", .cases = rbd_image_cases},
		{.name = NULL},
	};

	return t_run(argc, argv, suites);
}
