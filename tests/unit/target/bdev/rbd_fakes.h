/* SPDX-License-Identifier: BSD-3-Clause */
/* The cluster and the rest of the module, as the tests of rbd_main.c set them. */
#ifndef RBD_FAKES_H
#define RBD_FAKES_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "t_main.h"
#include "target/bdev/rbd_priv.h"

#define OWNER     "192.0.2.1:0/7"
#define OWNER_ID  7u
#define OTHER     "192.0.2.3:0/7"
#define OTHERS    OTHER " 2026-01-01\n"
#define BLOCKLIST OTHERS OWNER " 2026-01-01\n"
#define MY_ID     8u

/* ---- the cluster ---- */

struct call {
	rados_callback_t fn;
	void *arg;
	int rc;
};

static struct {
	uint64_t now;
	bool acks;              /* the owner answers questions */
	bool fails;             /* questions end with an error */
	uint64_t owner_ns;      /* how long the cluster takes to name the owner */
	int owner_err;          /* it does not */
	int lockers_err;        /* it does not say which client has the lock */
	unsigned int locker_id; /* which one has it; 0: the owner */
	uint64_t acquire_ns;    /* how long the answer to a request for the lock takes */
	bool no_pool;           /* there is no object of the gateways */
	bool forgotten;         /* what the owner watched */
	unsigned int breaks, asked, blocks, acquires, only_breaks, maps;
	bool other;           /* OTHER has the lock */
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
	rados_watchcb2_t watch_asked;
	uint64_t said_given_up; /* the answer to it */
	rados_watcherrcb_t watch_failed;
	void *watch_arg;
	void (*ahead)(struct rbd_peers *p); /* another image's call gets the next lock first */
	struct rbd_peers *ahead_peers;
	bool refused;      /* the cluster has blocked this gateway, which does not know it */
	unsigned int lost; /* images */
	int state_err;     /* of the state that gateways share */
	struct rbd_image *claimed_next; /* a command comes while the clock is read */
	unsigned int releases;
	unsigned int executed, sent_away; /* bios that have waited for a lock */
	uint64_t waited_until; /* by an image, to be seen by other gateways; 0: none has */
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
	fake.breaks += strcmp(owner, fake.other ? OTHER : OWNER) == 0;
	fake.list = fake.removed_at_once ? "" : BLOCKLIST;
	return 0;
}

ssize_t rados_list_lockers(rados_ioctx_t io, const char *oid, const char *name, int *exclusive,
			   char *tag, size_t *tag_len, char *clients, size_t *clients_len,
			   char *cookies, size_t *cookies_len, char *addrs, size_t *addrs_len)
{
	CU_ASSERT_STRING_EQUAL(oid, "rbd_header.17");
	CU_ASSERT_STRING_EQUAL(name, "rbd_lock");
	if (fake.refused)
		return -ESHUTDOWN;
	if (fake.lockers_err)
		return fake.lockers_err;
	snprintf(clients, *clients_len, "client.%u", fake.locker_id ? fake.locker_id : OWNER_ID);
	snprintf(cookies, *cookies_len, "auto 1");
	snprintf(addrs, *addrs_len, "v1:%s", fake.other ? OTHER : OWNER);
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
	static char owner[] = OWNER, other[] = OTHER;

	fake.now += fake.owner_ns;
	*count = 1;
	*owners = fake.other ? other : owner;
	return fake.owner_err;
}

void rbd_lock_get_owners_cleanup(char **owners, size_t count)
{
}

int rbd_watchers_list(rbd_image_t image, rbd_image_watcher_t *watchers, size_t *count)
{
	static char owner[] = OWNER;

	*count = !fake.forgotten;
	watchers[0] = (rbd_image_watcher_t){.addr = owner, .id = OWNER_ID};
	return 0;
}

void rbd_watchers_list_cleanup(rbd_image_watcher_t *watchers, size_t count)
{
}

int rbd_lock_acquire(rbd_image_t image, rbd_lock_mode_t mode)
{
	fake.acquires++;
	fake.now += fake.acquire_ns;
	if (fake.faster)
		fake.breaks = 0;
	fake.faster = false;
	return fake.breaks ? 0 : -EROFS;
}

int rbd_lock_release(rbd_image_t image)
{
	fake.releases++;
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
	return fake.no_pool ? -ENOENT : 0;
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
	fake.watch_asked = cb;
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
	CU_ASSERT_EQUAL_FATAL(len, sizeof(fake.said_given_up));
	memcpy(&fake.said_given_up, buf, sizeof(fake.said_given_up));
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

/* The image of the bio is in its buffer. */
void rbd_bio_again(struct rdt_bio *bio)
{
	if (rdt_bdev_elsewhere(bio->buf))
		fake.sent_away++;
	else
		fake.executed++;
}

void rbd_image_put_own_io(struct rbd_image *img)
{
}

int rbd_cache_failed(struct rbd_image *img, int err)
{
	return err;
}

int rbd_aio_create_completion(void *arg, rbd_callback_t cb, rbd_completion_t *c)
{
	return -ENOMEM;
}

int rbd_aio_flush(rbd_image_t image, rbd_completion_t c)
{
	return -ENOMEM;
}

void rbd_aio_release(rbd_completion_t c)
{
}

ssize_t rbd_aio_get_return_value(rbd_completion_t c)
{
	return 0;
}

#endif /* RBD_FAKES_H */
