/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detects which gateways are alive. Every gateway watches one object in a pool, and acknowledges
 * the notifications of that object. A gateway that waits for the lock of an image notifies once in
 * a second; the OSD tells it which of the watchers did not acknowledge in time. No clocks are
 * compared, and nothing is written. A gateway that is declared dead although it is alive is fenced
 * by Ceph before its images are served elsewhere, so an error here costs time and no data.
 */
#include "rbd_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PEERS_OBJECT "rdtarget.gateways"
#define ASK_NS       UINT64_C(1000000000) /* between two questions */
#define CONFIRM_SECS 1u
/* The object does not answer. By then Ceph has noticed by itself that a client is lost. */
#define SILENT_NS (30 * RD_NSEC_PER_SEC)
#define KNOWN_NS  (2 * ASK_NS) /* an answer is recent for so long */

/* A client that watches the object. */
struct rbd_peer {
	uint64_t client;
	unsigned int missed;   /* questions in a row */
	unsigned int silent_s; /* how long these questions waited for an answer */
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

	uint64_t watch; /* changes while @watching */

	pthread_mutex_t lock;
	pthread_cond_t answered; /* @asking or @watching became false */
	/* guarded by @lock */
	bool watched, watch_lost;
	bool watching;        /* calls to get there are in flight */
	uint64_t watching_ns; /* when they began; 0: never */
	int watch_err;        /* how they ended */
	bool asking;
	uint64_t asked_ns, answered_ns; /* 0: never */
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

	(void)notifier;
	(void)data;
	(void)len;
	rados_notify_ack(p->io, PEERS_OBJECT, notify_id, handle, NULL, 0);
}

static void peers_watch_failed(void *arg, uint64_t cookie, int err)
{
	struct rbd_peers *p = arg;

	(void)cookie;
	(void)err;
	pthread_mutex_lock(&p->lock);
	p->watch_lost = true; /* rbd_peers_keep() watches again */
	pthread_mutex_unlock(&p->lock);
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
	begin = !p->watching && (!p->watched || p->watch_lost) &&
		(!p->watching_ns || now - p->watching_ns >= ASK_NS);
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

/* ---- asking ---- */

static const struct rbd_peer *peer_of(const struct rbd_peers *p, uint64_t client)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->peers[i].client == client)
			return &p->peers[i];
	return NULL;
}

/* With p->lock. Records which clients answered; a client with an acknowledgement by any of its
 * watches is alive. Returns 0 or -ENOMEM. */
static int take_answer(struct rbd_peers *p, const struct notify_ack_t *acks, size_t acks_count,
		       const struct notify_timeout_t *missed, size_t missed_count)
{
	struct rbd_peer *list = calloc(acks_count + missed_count + 1, sizeof(*list));
	size_t count = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < acks_count; i++)
		list[count++].client = acks[i].notifier_id;
	for (size_t i = 0; i < missed_count; i++) {
		const struct rbd_peer *before = peer_of(p, missed[i].notifier_id);

		list[count].client = missed[i].notifier_id;
		list[count].missed = (before ? before->missed : 0) + 1;
		list[count++].silent_s = (before ? before->silent_s : 0) + p->asked_s;
	}
	free(p->peers);
	p->peers = list;
	p->count = count;
	return 0;
}

/* With p->lock. */
static int read_answer(struct rbd_peers *p, int rc)
{
	struct notify_ack_t *acks = NULL;
	struct notify_timeout_t *missed = NULL;
	size_t acks_count = 0, missed_count = 0;

	if (rc && rc != -ETIMEDOUT)
		return rc;
	if (!p->reply || rados_decode_notify_response(p->reply, p->reply_len, &acks, &acks_count,
						      &missed, &missed_count))
		return rc ? rc : -EPROTO;
	rc = take_answer(p, acks, acks_count, missed, missed_count);
	rados_free_notify_response(acks, acks_count, missed);
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
	int rc = rados_aio_get_return_value(completion);
	bool news;

	rados_aio_release(completion);
	pthread_mutex_lock(&p->lock);
	news = !p->answered_ns;
	p->err = read_answer(p, rc);
	p->answered_ns = rdt_module_now();
	news |= any_missed(p) || p->err;
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
	/* One second had passed before the first of these questions. */
	return peer->missed < 2 || peer->silent_s + 1 < p->handle->takeover_s ? RBD_HEARD_NOT_YET
									      : RBD_HEARD_SILENT;
}

enum rbd_heard rbd_peers_ask(struct rbd_peers *p, uint64_t client)
{
	uint64_t now;
	unsigned int secs =
		p->handle->takeover_s - (unsigned int)(ASK_NS / RD_NSEC_PER_SEC) - CONFIRM_SECS;
	enum rbd_heard heard;
	bool confirm, ask;

	pthread_mutex_lock(&p->lock);
	now = rdt_module_now(); /* as in rbd_peers_keep() */
	if (!p->asking && now - p->answered_ns > KNOWN_NS)
		p->count = 0; /* a peer may have answered others since: it begins anew */
	heard = heard_of(p, client, now);
	confirm = any_missed(p) && !p->err;
	ask = !p->asking && (confirm || !p->asked_ns || now - p->asked_ns >= ASK_NS);
	if (ask) {
		p->asked_s = confirm ? CONFIRM_SECS : secs;
		p->asking = true;
		p->asked_ns = now;
	}
	pthread_mutex_unlock(&p->lock);
	if (ask)
		ask_peers(p, p->asked_s);
	return heard;
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

static int new_peers(struct rbd_image *img, struct rbd_peers **out)
{
	struct rbd_peers *p = calloc(1, sizeof(*p));
	int rc = -ENOMEM;

	*out = NULL;
	if (!p)
		return rc;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->answered, NULL);
	p->clusters = img->clusters;
	p->cluster = img->cluster;
	p->handle = img->handle;
	p->queue = img->job.queue;
	if (rbd_copy_name(&p->pool, img->pool) &&
	    rbd_copy_name(&p->rados_namespace, img->rados_namespace))
		rc = rados_ioctx_create(p->handle->cl, p->pool, &p->io);
	if (rc) {
		p->io = NULL;
		free_peers(p);
		return rc;
	}
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
	if (rbd_clusters_thread(p->clusters, end_peers, p))
		end_peers(p);
}
