/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detects which gateways are alive, and which have given up a lock. Every gateway watches one
 * object in a pool, and acknowledges the notifications of that object with a number that changes
 * when it gives up a lock. A gateway that waits for the locks of images notifies twice in a second;
 * the OSD tells it which of the watchers did not acknowledge in time. So a waiting gateway asks one
 * question for all images of a pool. No clocks are compared, and nothing is written. A gateway that
 * is declared dead although it is alive is fenced by Ceph before its images are served elsewhere,
 * so an error here costs time and no data.
 */
#include "rbd_priv.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PEERS_OBJECT "rdtarget.gateways"
#define ASK_NS       UINT64_C(500000000) /* between two questions */
#define KEEP_NS      RD_NSEC_PER_SEC     /* between two attempts to watch */
#define CONFIRM_SECS 1u
#define JOIN_NS      RD_NSEC_PER_SEC /* how long an image waits to be seen by others */
#define LATE_NS      RD_NSEC_PER_SEC /* an answer, after the time limit of its question */
/* The object does not answer. By then Ceph has noticed by itself that a client is lost. */
#define SILENT_NS (30 * RD_NSEC_PER_SEC)
#define KNOWN_NS  (2 * RD_NSEC_PER_SEC) /* an answer is recent for so long */

/* A client that watches the object. */
struct rbd_peer {
	uint64_t client;
	unsigned int missed;   /* questions in a row */
	unsigned int silent_s; /* how long these questions waited for an answer */
	uint64_t given_up;     /* as it has answered; 0: it does not say that, or did not answer */
};

/* Of a connection, a pool and a namespace in it. */
struct rbd_peers {
	struct rbd_clusters *clusters;
	struct rbd_cluster *cluster;
	struct rbd_handle *handle;
	struct rbd_queue *queue;    /* of the pool */
	LIST_ENTRY(rbd_peers) link; /* of @handle; guarded by handle->joining, as @refs is */
	unsigned int refs;
	char *pool, *rados_namespace;
	rados_ioctx_t io;
	struct rbd_job job;        /* asks as long as somebody wants to know */
	_Atomic uint64_t given_up; /* locks by this gateway, and a start at random */
	atomic_bool ending;        /* guarded by the queue */

	uint64_t watch; /* changes while @watching */

	pthread_mutex_t lock;
	pthread_cond_t answered; /* @asking or @watching became false; CLOCK_MONOTONIC */
	/* guarded by @lock */
	bool watched, watch_lost;
	bool ended;           /* nothing is begun any more */
	bool watching;        /* calls to get there are in flight */
	uint64_t watching_ns; /* when they began; 0: never */
	int watch_err;        /* how they ended */
	bool asking;
	uint64_t asked_ns, answered_ns; /* 0: never */
	uint64_t wanted_ns;             /* when somebody wanted to know last */
	int err;                        /* of the last question; its answer is not known */
	struct rbd_peer *peers;
	size_t count;

	/* of the question in flight */
	unsigned int asked_s; /* its time limit */
	char *reply;
	size_t reply_len;
};

/* With p->lock. Has the question in flight no answer, not even that of the OSD? */
static bool asked_in_vain(const struct rbd_peers *p, uint64_t now)
{
	return p->asking && now - p->asked_ns > p->asked_s * RD_NSEC_PER_SEC + SILENT_NS;
}

/* ---- being a gateway ---- */

static void peers_asked(void *arg, uint64_t notify_id, uint64_t handle, uint64_t notifier,
			void *data, size_t len)
{
	const struct rbd_peers *p = arg;
	uint64_t given_up = htole64(atomic_load(&p->given_up));

	(void)notifier;
	(void)data;
	(void)len;
	rados_notify_ack(p->io, PEERS_OBJECT, notify_id, handle, (const char *)&given_up,
			 sizeof(given_up));
}

static void peers_watch_failed(void *arg, uint64_t cookie, int err)
{
	struct rbd_peers *p = arg;

	(void)cookie;
	(void)err;
	pthread_mutex_lock(&p->lock);
	p->watch_lost = true;
	pthread_mutex_unlock(&p->lock);
	rbd_peers_keep(p); /* at once: images without I/O run rarely */
}

static void watching_ended(struct rbd_peers *p, int rc)
{
	pthread_mutex_lock(&p->lock);
	p->watched = !rc;
	p->watch_err = rc;
	/* Last: @p may be freed as soon as nothing is in flight. */
	p->watching = false;
	pthread_cond_broadcast(&p->answered);
	pthread_mutex_unlock(&p->lock);
}

/* On a thread of librados. */
static void peers_watched(rados_completion_t completion, void *arg)
{
	int rc = rados_aio_get_return_value(completion);

	rados_aio_release(completion);
	watching_ended(arg, rc);
}

/* On a thread of librados: the object exists. */
static void peers_created(rados_completion_t completion, void *arg)
{
	struct rbd_peers *p = arg;
	int rc = rados_aio_get_return_value(completion);
	rados_completion_t c;

	rados_aio_release(completion);
	if (!rc)
		rc = rados_aio_create_completion2(p, peers_watched, &c);
	if (rc) {
		watching_ended(p, rc);
		return;
	}
	rc = rados_aio_watch2(p->io, PEERS_OBJECT, c, &p->watch, peers_asked, peers_watch_failed, 0,
			      p);
	if (rc) {
		rados_aio_release(c);
		watching_ended(p, rc);
	}
}

static void create_object(struct rbd_peers *p)
{
	rados_completion_t c;
	rados_write_op_t op;
	int rc = rados_aio_create_completion2(p, peers_created, &c);

	if (rc) {
		watching_ended(p, rc);
		return;
	}
	op = rados_create_write_op();
	rados_write_op_create(op, LIBRADOS_CREATE_IDEMPOTENT, NULL);
	rc = rados_aio_write_op_operate(op, p->io, c, PEERS_OBJECT, NULL, 0);
	rados_release_write_op(op);
	if (rc) {
		rados_aio_release(c);
		watching_ended(p, rc);
	}
}

/* On a thread of librados: the lost watch is forgotten, whatever the answer is. */
static void peers_unwatched(rados_completion_t completion, void *arg)
{
	rados_aio_release(completion);
	create_object(arg);
}

/* In the background: the object may be where the pool hangs, although images are not. */
static void begin_watching(struct rbd_peers *p, bool unwatch)
{
	rados_completion_t c;

	if (!unwatch || rados_aio_create_completion2(p, peers_unwatched, &c)) {
		create_object(p);
	} else if (rados_aio_unwatch(p->io, p->watch, c)) {
		rados_aio_release(c);
		create_object(p);
	}
}

int rbd_peers_keep(struct rbd_peers *p)
{
	uint64_t now;
	bool begin, unwatch;
	int rc;

	pthread_mutex_lock(&p->lock);
	now = rdt_module_now(); /* not before: another image may store a later time first */
	unwatch = p->watched;
	begin = !p->ended && !p->watching && (!p->watched || p->watch_lost) &&
		(!p->watching_ns || now - p->watching_ns >= KEEP_NS);
	if (begin) {
		p->watching = true;
		p->watching_ns = now;
		p->watch_lost = false;
		p->watched = false;
	}
	rc = p->watch_err;
	if ((p->watching && now - p->watching_ns > SILENT_NS) || asked_in_vain(p, now))
		rc = -ETIMEDOUT;
	pthread_mutex_unlock(&p->lock);
	if (begin)
		begin_watching(p, unwatch);
	return rc;
}

void rbd_peers_await(struct rbd_peers *p)
{
	struct timespec end = {0};
	int rc = 0;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	if (p->watching)
		end = rdt_module_timespec(p->watching_ns + JOIN_NS);
	while (p->watching && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&p->answered, &p->lock, &end);
	pthread_mutex_unlock(&p->lock);
}

/* ---- asking ---- */

static const struct rbd_peer *peer_of(const struct rbd_peers *p, uint64_t client)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->peers[i].client == client)
			return &p->peers[i];
	return NULL;
}

/* The answers of all gateways to a question. */
struct rbd_answer {
	struct notify_ack_t *acks;
	struct notify_timeout_t *missed;
	size_t acks_count, missed_count;
};

static uint64_t given_up_of(const struct notify_ack_t *ack)
{
	uint64_t given_up = 0;

	if (ack->payload_len == sizeof(given_up))
		memcpy(&given_up, ack->payload, sizeof(given_up));
	return le64toh(given_up);
}

/*
 * Was the OSD in time with the acknowledgement of this gateway, which watches as well, and with the
 * answer? Otherwise it is slow, or stood still, maybe after that acknowledgement, and those of
 * other gateways may have come too late for that reason.
 */
static bool osd_was_in_time(const struct rbd_peers *p, const struct rbd_answer *a)
{
	uint64_t me = rados_get_instance_id(p->handle->cl);

	if (rdt_module_now() - p->asked_ns > p->asked_s * RD_NSEC_PER_SEC + LATE_NS)
		return false;
	for (size_t i = 0; i < a->acks_count; i++)
		if (a->acks[i].notifier_id == me)
			return true;
	return false;
}

/*
 * With p->lock. Records which clients answered; a client with an acknowledgement by any of its
 * watches is alive. @news: whether that differs from the last answer; the question of a client that
 * is silent always does. Returns 0 or -ENOMEM.
 */
static int take_answer(struct rbd_peers *p, const struct rbd_answer *a, bool *news)
{
	struct rbd_peer *list = calloc(a->acks_count + a->missed_count + 1, sizeof(*list));
	bool counts = osd_was_in_time(p, a);
	size_t count = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < a->acks_count; i++)
		list[count++] = (struct rbd_peer){.client = a->acks[i].notifier_id,
						  .given_up = given_up_of(&a->acks[i])};
	for (size_t i = 0; i < a->missed_count; i++) {
		const struct rbd_peer *was = peer_of(p, a->missed[i].notifier_id);

		list[count].client = a->missed[i].notifier_id;
		list[count].missed = (was ? was->missed : 0) + counts;
		list[count++].silent_s = (was ? was->silent_s : 0) + counts * p->asked_s;
	}
	*news = count != p->count || (count && memcmp(list, p->peers, count * sizeof(*list)) != 0);
	free(p->peers);
	p->peers = list;
	p->count = count;
	return 0;
}

/* With p->lock. */
static int read_answer(struct rbd_peers *p, int rc, bool *news)
{
	struct rbd_answer a = {0};

	if (rc && rc != -ETIMEDOUT)
		return rc;
	if (!p->reply || rados_decode_notify_response(p->reply, p->reply_len, &a.acks,
						      &a.acks_count, &a.missed, &a.missed_count))
		return rc ? rc : -EPROTO;
	rc = take_answer(p, &a, news);
	rados_free_notify_response(a.acks, a.acks_count, a.missed);
	return rc;
}

static bool any_missed(const struct rbd_peers *p)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->peers[i].missed)
			return true;
	return false;
}

/* On a thread of librados. */
static void peers_answered(rados_completion_t completion, void *arg)
{
	struct rbd_peers *p = arg;
	int rc = rados_aio_get_return_value(completion), err;
	bool news = false;

	rados_aio_release(completion);
	pthread_mutex_lock(&p->lock);
	err = p->err;
	p->err = read_answer(p, rc, &news);
	news |= p->err != err;
	p->answered_ns = rdt_module_now();
	if (p->reply)
		rados_buffer_free(p->reply);
	p->reply = NULL;
	pthread_mutex_unlock(&p->lock);
	if (news)
		rbd_clusters_kick_standby(p->clusters, p->cluster);
	/* Last: @p may be freed as soon as nothing is in flight. */
	pthread_mutex_lock(&p->lock);
	p->asking = false;
	pthread_cond_broadcast(&p->answered);
	pthread_mutex_unlock(&p->lock);
}

static void ask_peers(struct rbd_peers *p, unsigned int secs)
{
	rados_completion_t c;
	int rc = rados_aio_create_completion2(p, peers_answered, &c);

	if (!rc) {
		rc = rados_aio_notify(p->io, PEERS_OBJECT, c, NULL, 0, secs * UINT64_C(1000),
				      &p->reply, &p->reply_len);
		if (rc)
			rados_aio_release(c);
	}
	if (!rc)
		return;
	pthread_mutex_lock(&p->lock);
	p->asking = false;
	p->err = rc;
	p->answered_ns = rdt_module_now();
	pthread_mutex_unlock(&p->lock);
}

/* With p->lock. */
static enum rbd_heard heard_of(const struct rbd_peers *p, uint64_t client, uint64_t now)
{
	const struct rbd_peer *peer = peer_of(p, client);

	if (asked_in_vain(p, now))
		return RBD_HEARD_STRANGER;
	if (!p->answered_ns || now - p->answered_ns > KNOWN_NS)
		return RBD_HEARD_NOT_YET;
	if (p->err || !peer)
		return RBD_HEARD_STRANGER;
	if (!peer->missed)
		return RBD_HEARD_ALIVE;
	return peer->missed < 2 || peer->silent_s + 1 < p->handle->takeover_s ? RBD_HEARD_NOT_YET
									      : RBD_HEARD_SILENT;
}

/* Asks, unless a question is in flight or the last one was a moment ago. */
static void ask_when_due(struct rbd_peers *p)
{
	uint64_t now;
	bool confirm, ask;

	pthread_mutex_lock(&p->lock);
	now = rdt_module_now(); /* as in rbd_peers_keep() */
	if (!p->asking && now - p->answered_ns > KNOWN_NS)
		p->count = 0; /* a peer may have answered others since: it begins anew */
	confirm = any_missed(p) && !p->err;
	ask = !p->asking && (confirm || !p->asked_ns || now - p->asked_ns >= ASK_NS);
	if (ask) {
		p->asked_s = confirm ? CONFIRM_SECS : p->handle->takeover_s - 1 - CONFIRM_SECS;
		p->asking = true;
		p->asked_ns = now;
	}
	pthread_mutex_unlock(&p->lock);
	if (ask)
		ask_peers(p, p->asked_s);
}

enum rbd_heard rbd_peers_ask(struct rbd_peers *p, uint64_t client)
{
	const struct rbd_peer *peer;
	enum rbd_heard heard;
	uint64_t now;

	pthread_mutex_lock(&p->lock);
	now = rdt_module_now(); /* as in rbd_peers_keep() */
	p->wanted_ns = now;
	heard = heard_of(p, client, now);
	peer = peer_of(p, client);
	if (heard == RBD_HEARD_ALIVE && peer->given_up)
		heard = RBD_HEARD_TELLS;
	pthread_mutex_unlock(&p->lock);
	ask_when_due(p);
	rbd_job_kick(&p->job, ASK_NS);
	return heard;
}

void rbd_peers_gave_up(struct rbd_peers *p)
{
	if (p && !atomic_fetch_add(&p->given_up, 1))
		atomic_fetch_add(&p->given_up, 1); /* 0 says nothing */
}

/* ---- joining and leaving ---- */

static void free_peers(struct rbd_peers *p)
{
	if (!p)
		return;
	if (p->io)
		rados_ioctx_destroy(p->io);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->answered);
	free(p->peers);
	free(p->pool);
	free(p->rados_namespace);
	free(p);
}

static void end_peers(void *arg);

/* The images that wait look rarely as long as this asks for them. */
static void run_peers(struct rbd_job *job)
{
	struct rbd_peers *p = rd_container_of(job, struct rbd_peers, job);
	bool wanted;

	if (atomic_load(&p->ending)) {
		rbd_job_ran(job, true);
		if (rbd_clusters_thread(p->clusters, end_peers, p))
			end_peers(p);
		return;
	}
	pthread_mutex_lock(&p->lock);
	wanted = rdt_module_now() - p->wanted_ns < RBD_QUIET_NS + KNOWN_NS;
	pthread_mutex_unlock(&p->lock);
	if (wanted) {
		rbd_peers_keep(p); /* images say what is wrong */
		ask_when_due(p);
		rbd_job_kick(job, ASK_NS);
	}
	rbd_job_ran(job, false);
}

static void peers_are_late(struct rbd_job *job)
{
	(void)job; /* it does not wait for the network */
}

static void set_ending(struct rbd_job *job)
{
	atomic_store(&rd_container_of(job, struct rbd_peers, job)->ending, true);
}

static int new_peers(struct rbd_image *img, struct rbd_peers **out)
{
	struct rbd_peers *p = calloc(1, sizeof(*p));
	int rc = -ENOMEM;

	*out = NULL;
	if (!p)
		return rc;
	pthread_mutex_init(&p->lock, NULL);
	rdt_module_cond_init(&p->answered);
	p->clusters = img->clusters;
	p->cluster = img->cluster;
	p->handle = img->handle;
	p->queue = img->job.queue;
	p->job = (struct rbd_job){
		.run = run_peers, .tell_late = peers_are_late, .queue = img->job.queue};
	atomic_store(&p->given_up, rdt_module_now() | 1);
	if (rbd_copy_name(&p->pool, img->pool) &&
	    rbd_copy_name(&p->rados_namespace, img->rados_namespace))
		rc = rados_ioctx_create(p->handle->cl, p->pool, &p->io);
	if (rc) {
		p->io = NULL;
		free_peers(p);
		return rc;
	}
	rados_set_pool_full_try(p->io); /* a watch and a question need no space */
	if (p->rados_namespace)
		rados_ioctx_set_namespace(p->io, p->rados_namespace);
	*out = p;
	return 0;
}

int rbd_peers_join(struct rbd_image *img)
{
	struct rbd_handle *h = img->handle;
	struct rbd_peers *p;
	int rc = 0;

	pthread_mutex_lock(&h->joining);
	LIST_FOREACH (p, &h->peers, link)
		if (rdt_config_same_text(p->pool, img->pool) &&
		    rdt_config_same_text(p->rados_namespace, img->rados_namespace))
			break;
	if (!p) {
		rc = new_peers(img, &p);
		if (!rc)
			LIST_INSERT_HEAD(&h->peers, p, link);
	}
	if (!rc) {
		p->refs++;
		img->peers = p;
	}
	pthread_mutex_unlock(&h->joining);
	return rc ? rc : rbd_peers_keep(p);
}

/* Nobody uses it. Waits for the network. */
static void end_peers(void *arg)
{
	struct rbd_peers *p = arg;
	struct rbd_handle *h = p->handle;
	struct rbd_clusters *clusters = p->clusters;
	struct rbd_cluster *cluster = p->cluster;
	struct rbd_queue *queue = p->queue;

	pthread_mutex_lock(&p->lock);
	while (p->asking || p->watching)
		pthread_cond_wait(&p->answered, &p->lock);
	p->ended = true;
	pthread_mutex_unlock(&p->lock);
	if (p->watched)
		rados_unwatch2(p->io, p->watch);
	rados_watch_flush(h->cl); /* a callback may use @p */
	free_peers(p);
	rbd_cluster_release(clusters, cluster, queue, h);
}

/* The object may be where the pool hangs, although images are not: the image is closed, and opened
 * again, without waiting for it. */
void rbd_peers_leave(struct rbd_image *img)
{
	struct rbd_handle *h = img->handle;
	struct rbd_peers *p = img->peers;
	bool last;

	if (!p)
		return;
	img->peers = NULL;
	pthread_mutex_lock(&h->joining);
	last = --p->refs == 0;
	if (last)
		LIST_REMOVE(p, link);
	pthread_mutex_unlock(&h->joining);
	if (!last)
		return;
	rbd_cluster_keep(p->clusters, p->cluster, p->queue, h);
	rbd_job_kick_last(&p->job, set_ending);
}
