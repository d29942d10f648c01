/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock of an image of Ceph, and how gateways see each other, on a fake cluster: an image that
 * another gateway has, and a clock that the test sets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "t_main.h"
#include "target/bdev/rbd_priv.h"

#define OWNER     "192.0.2.1:0/7"
#define OWNER_ID  7u
#define BLOCKLIST "192.0.2.3:0/7 2026-01-01\n" OWNER " 2026-01-01\n"
#define MY_ID     8u

/* ---- the cluster ---- */

struct call {
	rados_callback_t fn;
	void *arg;
	int rc;
};

static struct {
	uint64_t now;
	bool acks;         /* the owner answers questions */
	bool fails;        /* questions end with an error */
	uint64_t owner_ns; /* how long the cluster takes to name the owner */
	unsigned int breaks, asked, blocks, acquires, only_breaks, maps;
	const char *list;     /* the blocklist */
	bool removed_at_once; /* a block by librbd: an operator removes the entry */
	bool no_blocks;       /* the monitor refuses entries */
	bool osd_late;        /* not even this gateway's own answers arrive in time */
	uint64_t stands_ns;   /* the OSD stands still after its answer */
	uint64_t given_up;    /* what the owner answers; 0: it has an older version */
	unsigned int news;    /* for images without their lock */
	struct rbd_job *job;  /* was kicked */
	bool faster;          /* another client gets the lock that was broken, once */
	int break_err;        /* what breaking the lock fails with */
	unsigned int kept;
	void (*thread)(void *arg); /* waits for the object of the gateways */
	void *thread_arg;
	struct call *question; /* in flight */
	bool hangs;            /* the object of the gateways does not answer */
	struct call *hung;     /* what waits for it */
	unsigned int watches;
	rados_watcherrcb_t watch_failed;
	void *watch_arg;
	void (*ahead)(struct rbd_peers *p); /* another image's call gets the next lock first */
	struct rbd_peers *ahead_peers;
	bool refused;      /* the cluster has blocked this gateway, which does not know it */
	unsigned int lost; /* images */
	int state_err;     /* of the state that gateways share */
	struct rbd_image *claimed_next; /* a command comes while the clock is read */
	uint64_t waited_until;          /* by an image, to be seen by other gateways; 0: none has */
} fake;

static void claim_take(struct rbd_image *img)
{
	atomic_store(&img->claimed_ns, fake.now);
	atomic_store(&img->claim, RDT_CLAIM_TAKE);
}

uint64_t rdt_module_now(void)
{
	struct rbd_image *img = fake.claimed_next;
	uint64_t now = fake.now;

	fake.claimed_next = NULL;
	if (img) {
		fake.now++;
		claim_take(img);
	}
	return now;
}

/* A wait for an answer, which is over at once. */
struct timespec rdt_module_timespec(uint64_t ns)
{
	fake.waited_until = fake.acquires ? 0 : ns; /* before it takes the lock */
	return (struct timespec){0};
}

void rdt_module_cond_init(pthread_cond_t *cond)
{
	pthread_cond_init(cond, NULL);
}

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
	void (*ahead)(struct rbd_peers *) = fake.ahead;

	fake.ahead = NULL;
	if (ahead) {
		fake.now++;
		ahead(fake.ahead_peers);
	}
	return __real_pthread_mutex_lock(lock);
}

int rbd_lock_break(rbd_image_t image, rbd_lock_mode_t mode, const char *owner)
{
	if (fake.break_err)
		return fake.break_err;
	fake.breaks += strcmp(owner, OWNER) == 0;
	fake.list = fake.removed_at_once ? "" : BLOCKLIST;
	return 0;
}

ssize_t rbd_list_lockers(rbd_image_t image, int *exclusive, char *tag, size_t *tag_len,
			 char *clients, size_t *clients_len, char *cookies, size_t *cookies_len,
			 char *addrs, size_t *addrs_len)
{
	if (fake.refused)
		return -ESHUTDOWN;
	snprintf(clients, *clients_len, "client.%u", OWNER_ID);
	snprintf(cookies, *cookies_len, "auto 1");
	snprintf(addrs, *addrs_len, OWNER);
	return 1;
}

int rados_break_lock(rados_ioctx_t io, const char *oid, const char *name, const char *client,
		     const char *cookie)
{
	CU_ASSERT_STRING_EQUAL(oid, "rbd_header.17");
	CU_ASSERT_STRING_EQUAL(name, "rbd_lock");
	fake.breaks++;
	fake.only_breaks++;
	return 0;
}

int rbd_is_exclusive_lock_owner(rbd_image_t image, int *owner)
{
	*owner = fake.breaks != 0;
	return 0;
}

int rbd_lock_get_owners(rbd_image_t image, rbd_lock_mode_t *mode, char **owners, size_t *count)
{
	static char owner[] = OWNER;

	fake.now += fake.owner_ns;
	*count = 1;
	*owners = owner;
	return 0;
}

void rbd_lock_get_owners_cleanup(char **owners, size_t count)
{
}

int rbd_watchers_list(rbd_image_t image, rbd_image_watcher_t *watchers, size_t *count)
{
	static char owner[] = OWNER;

	*count = 1;
	watchers[0] = (rbd_image_watcher_t){.addr = owner, .id = OWNER_ID};
	return 0;
}

void rbd_watchers_list_cleanup(rbd_image_watcher_t *watchers, size_t count)
{
}

int rbd_lock_acquire(rbd_image_t image, rbd_lock_mode_t mode)
{
	fake.acquires++;
	if (fake.faster)
		fake.breaks = 0;
	fake.faster = false;
	return fake.breaks ? 0 : -EROFS;
}

int rbd_lock_release(rbd_image_t image)
{
	return 0;
}

uint64_t rados_get_instance_id(rados_t cluster)
{
	return MY_ID;
}

int rados_mon_command(rados_t cluster, const char **cmd, size_t cmds, const char *in, size_t in_len,
		      char **out, size_t *out_len, char **status, size_t *status_len)
{
	if (strstr(cmd[0], "\"osd blocklist\"") && strstr(cmd[0], OWNER)) {
		fake.blocks++;
		fake.list = fake.no_blocks ? fake.list : BLOCKLIST;
	}
	if (strstr(cmd[0], "\"osd blocklist ls\"")) {
		*out = (char *)(uintptr_t)fake.list;
		*out_len = strlen(fake.list);
	}
	return 0;
}

int rados_wait_for_latest_osdmap(rados_t cluster)
{
	fake.maps++;
	return 0;
}

void rados_buffer_free(char *buf)
{
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

rados_write_op_t rados_create_write_op(void)
{
	return &fake;
}

void rados_release_write_op(rados_write_op_t op)
{
}

void rados_write_op_create(rados_write_op_t op, int exclusive, const char *category)
{
}

/* The object of the gateways answers at once, or never. */
static int object_answers(rados_completion_t c)
{
	struct call *call = c;

	if (fake.hangs)
		fake.hung = call;
	else
		call->fn(c, call->arg);
	return 0;
}

static void object_resumes(void)
{
	if (fake.hung)
		fake.hung->fn(fake.hung, fake.hung->arg);
	fake.hung = NULL;
}

int rados_aio_write_op_operate(rados_write_op_t op, rados_ioctx_t io, rados_completion_t c,
			       const char *oid, time_t *mtime, int flags)
{
	return object_answers(c);
}

int rados_aio_watch2(rados_ioctx_t io, const char *oid, rados_completion_t c, uint64_t *handle,
		     rados_watchcb2_t cb, rados_watcherrcb_t failed, uint32_t timeout, void *arg)
{
	fake.watches++;
	fake.watch_failed = failed;
	fake.watch_arg = arg;
	return object_answers(c);
}

int rados_aio_unwatch(rados_ioctx_t io, uint64_t handle, rados_completion_t c)
{
	return object_answers(c);
}

int rados_unwatch2(rados_ioctx_t io, uint64_t handle)
{
	return 0;
}

int rados_watch_flush(rados_t cluster)
{
	return 0;
}

int rados_notify_ack(rados_ioctx_t io, const char *oid, uint64_t id, uint64_t handle,
		     const char *buf, int len)
{
	return 0;
}

int rados_aio_create_completion2(void *arg, rados_callback_t cb, rados_completion_t *out)
{
	struct call *call = calloc(1, sizeof(*call));

	CU_ASSERT_PTR_NOT_NULL_FATAL(call);
	*call = (struct call){cb, arg, 0};
	*out = call;
	return 0;
}

void rados_aio_release(rados_completion_t c)
{
	free(c);
}

int rados_aio_get_return_value(rados_completion_t c)
{
	return ((struct call *)c)->rc;
}

int rados_aio_notify(rados_ioctx_t io, const char *oid, rados_completion_t c, const char *buf,
		     int len, uint64_t timeout_ms, char **reply, size_t *reply_len)
{
	static char some[] = "reply";

	fake.asked = (unsigned int)timeout_ms;
	fake.question = c;
	*reply = some;
	*reply_len = sizeof(some);
	return 0;
}

int rados_decode_notify_response(char *reply, size_t len, struct notify_ack_t **acks,
				 size_t *acks_count, struct notify_timeout_t **missed,
				 size_t *missed_count)
{
	static char given_up[8];

	*acks = calloc(2, sizeof(**acks));
	*missed = calloc(1, sizeof(**missed));
	CU_ASSERT_FATAL(*acks && *missed);
	memcpy(given_up, &fake.given_up, sizeof(given_up));
	*acks_count = *missed_count = 0;
	if (!fake.osd_late) /* this gateway answers itself */
		(*acks)[(*acks_count)++].notifier_id = MY_ID;
	if (fake.acks)
		(*acks)[(*acks_count)++] =
			(struct notify_ack_t){.notifier_id = OWNER_ID,
					      .payload = given_up,
					      .payload_len = fake.given_up ? sizeof(given_up) : 0};
	else
		(*missed)[(*missed_count)++].notifier_id = OWNER_ID;
	return 0;
}

void rados_free_notify_response(struct notify_ack_t *acks, size_t count,
				struct notify_timeout_t *missed)
{
	free(acks);
	free(missed);
}

/* ---- the rest of the module ---- */

void rbd_clusters_kick_standby(struct rbd_clusters *clusters, const struct rbd_cluster *cluster)
{
	fake.news++;
}

int rbd_job_kick(struct rbd_job *job, uint64_t delay_ns)
{
	fake.job = job;
	return 0;
}

int rbd_job_kick_last(struct rbd_job *job, void (*end)(struct rbd_job *job))
{
	end(job);
	job->run(job);
	return 0;
}

void rbd_job_ran(struct rbd_job *job, bool last)
{
}

void rbd_cluster_keep(struct rbd_clusters *clusters, struct rbd_cluster *c, struct rbd_queue *queue,
		      struct rbd_handle *handle)
{
	fake.kept++;
}

void rbd_cluster_release(struct rbd_clusters *clusters, struct rbd_cluster *c,
			 struct rbd_queue *queue, struct rbd_handle *handle)
{
	fake.kept--;
}

int rbd_clusters_thread(struct rbd_clusters *clusters, void (*fn)(void *arg), void *arg)
{
	if (!fake.hangs)
		return -EAGAIN; /* the caller does it itself */
	fake.thread = fn;
	fake.thread_arg = arg;
	return 0;
}

int rbd_shared_load(struct rbd_image *img)
{
	return fake.state_err;
}

void rbd_image_lost(struct rbd_image *img)
{
	fake.lost++;
}

void rbd_image_set_standby(struct rbd_image *img, bool standby)
{
	atomic_store(&img->bdev.standby, standby);
}

const char *rbd_image_spell(const struct rbd_image *img, char *buf, size_t size)
{
	snprintf(buf, size, "%s/%s", img->pool, img->name);
	return buf;
}

/* ---- an image on standby ---- */

static struct rbd_handle handle = {.takeover_s = 4};
static char pool_name[] = "rbd", image_name[] = "disk";

static struct rbd_image *standby_new(void)
{
	struct rbd_image *img = calloc(1, sizeof(*img));

	CU_ASSERT_PTR_NOT_NULL_FATAL(img);
	memset(&fake, 0, sizeof(fake));
	fake.now = 1000 * RD_NSEC_PER_SEC;
	fake.list = BLOCKLIST;
	pthread_mutex_init(&handle.joining, NULL);
	LIST_INIT(&handle.peers);
	handle.blocked[0] = '\0';
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

static void test_watch_again(void)
{
	struct rbd_image *img = standby_new();

	fake.acks = true;
	pass(img);
	CU_ASSERT_EQUAL(fake.waited_until, 0);
	CU_ASSERT_EQUAL(fake.watches, 1);
	pass(img);
	CU_ASSERT_EQUAL(fake.watches, 1);
	fake.watch_failed(fake.watch_arg, 0, -ENOTCONN);
	fake.now += RD_NSEC_PER_SEC;
	pass(img);
	CU_ASSERT_EQUAL(fake.watches, 2);
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
	pass(img);
	CU_ASSERT_EQUAL(fake.acquires, 1);
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
	{"no question is needed about a holder that was blocked", test_blocked_waits},
	{"a holder that is not blocked any more is asked, and blocked again", test_unblocked},
	{"a holder whose block ends while its lock is broken is blocked again",
	 test_unblocked_meanwhile},
	{"a lock of a connection that was left is taken if no other gateway takes it", test_own},
	{"a lock of a connection that was left is taken at once by command", test_own_taken},
	{"a lock of a connection that was left is given up", test_own_given_up},
	{"what was missed an hour ago does not count", test_silent_again},
	{"a gateway that answers every other question keeps its lock", test_answers_between},
	{"an OSD that is late is no gateway that is silent", test_osd_late},
	{"an image looks rarely while the holder of its lock is alive and says what it gives up",
	 test_quiet},
	{"an image looks each second where the holder does not say that", test_not_quiet},
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
