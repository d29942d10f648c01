/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Backend nbd: an NBD export, through libnbd. A module (module.h).
 *
 * Each namespace has one connection, and a thread with a loop for it, to which reactors post bios
 * and which posts them back. One connection means that a Flush covers all writes, whatever the
 * server says of several. When the connection is lost, what was in flight is sent again on the next
 * one, and hosts wait until there is one. They do that in a hand-over to another process, too,
 * between the connections of the two: many servers take only one at a time.
 */
#include "module_part.h"

#include <errno.h>
#include <libnbd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "bio_post.h"
#include "nbd_connect.h"
#include "nvmf/wire.h"
#include "util/loop.h"

#define CONNECT_NS   (30 * RD_NSEC_PER_SEC)
#define PROBE_NS     (10 * RD_NSEC_PER_SEC)
#define RECONNECT_NS (RD_NSEC_PER_SEC)
#define QUICK_NS     (20 * RD_NSEC_PER_MSEC) /* the same, after another process has disconnected, */
#define QUICK_FOR    (3 * RD_NSEC_PER_SEC)   /* for so long */
#define INFLIGHT_MAX 64u
#define ZERO_MAX     (1u << 30)
#define ZEROES       (256u << 10)          /* for a server without Write Zeroes */
#define LEAVE_AFTER  (2 * RD_NSEC_PER_SEC) /* the target ends, and the server is silent */
#define BREAKS_MAX   3

enum nd_state {
	/* Another process has the connection; bios wait. RDT_HAND_TAKE -> CONNECTING, close() ->
	 * CLOSED */
	ND_WAITING,
	ND_CONNECTING, /* no connection; bios wait. Connected -> UP, close() -> CLOSED */
	ND_UP,         /* Lost -> CONNECTING, RDT_HAND_LEAVE -> LEFT, close() -> CLOSED */
	ND_LEFT,       /* another process has taken over, or the target ends without the server's
			* answers; bios end at once. close() -> CLOSED */
	ND_CLOSED,     /* the thread ends */
};

/* All of the process. */
struct nd_module {
	struct rdt_module_threads threads;
	struct rd_loop *(*engines_loop)(const struct rdt_engines *engines);
	int (*sync_error)(struct rdt_bdev *bdev, struct rd_log *log, const char *what, int err,
			  bool after_write);
};

struct nd_disk {
	struct rdt_bdev bdev;
	struct nd_module *module;
	struct rd_loop *loop; /* of the thread */
	struct rd_log *log;
	char *uri; /* a copy: the configuration may end first */
	struct rd_msg drain_msg, close_msg, hand_msg;
	atomic_bool ends; /* no more attempts to connect */
	/* The steps of a hand-over, which are numbered: the last one that was begun, and the last
	 * one that has ended. */
	atomic_int hand; /* enum rdt_hand */
	atomic_uint hand_begun, hand_ended;
	atomic_int hand_result;
	atomic_bool hand_posted; /* @hand_msg is under way */

	pthread_mutex_t lock;
	/* written by the thread, with @lock */
	bool opened;
	bool closing; /* no more rdt_bdev_changed() */
	uint64_t export_size;
	uint32_t ops_mask;
	bool flushes; /* what hosts were told: a Flush has an effect */
	bool stores;  /* hosts were told of no cache, and each write had FUA */

	atomic_bool connected; /* @state is ND_UP; the thread may be busy with the next attempt */

	/* of the thread */
	enum nd_state state;
	struct nbd_handle *nbd;
	/* what the server of @nbd can do */
	bool can_fua, can_flush, can_zero, can_trim;
	uint32_t piece_max, zero_max; /* bytes in a request with data, and without */
	char *zeroes;                 /* ZEROES bytes, when they were needed; or NULL */
	bool lost;       /* the server has begun to shut down, or the connection has ended */
	bool shuts_down; /* the former */
	uint64_t up_ns;  /* when @nbd was connected */
	struct rd_io io;
	struct rd_timer retry; /* CONNECTING: the next attempt */
	uint64_t quick_until;  /* until then the next one is in QUICK_NS, and not told */
	bool late;             /* CONNECTING: hosts have seen it, and wait */
	struct rd_defer pump;
	TAILQ_HEAD(nd_list, rdt_bio) queue; /* to be sent */
	struct nd_list sent;                /* in the order in which they were sent */
	unsigned int inflight;
	unsigned int suspects; /* bios that may have broken a connection: sent one at a time */
	uint64_t completed;
	struct rd_timer leave; /* the target ends: a look at the progress */
	uint64_t left_at;      /* @completed at the last look */
	struct rdt_bio settle; /* the Flush of RDT_HAND_SETTLE */
	bool settling;         /* it has not ended */
	bool settle_again;     /* another one follows, because something was written in between */
	unsigned int settle_number; /* of the step */
	char said[256];             /* the failure that was logged */
};

/* In rdt_bio.priv. */
struct nd_bio {
	struct rdt_bio_post post;
	struct nd_disk *disk;
	uint64_t done;  /* bytes */
	uint32_t piece; /* bytes in flight */
	bool flushing;  /* a durable write whose data is written */
	bool as_write;  /* zeroes are sent as data */
	bool suspect;   /* counted in nd_disk.suspects */
	uint8_t breaks; /* connections that ended while nothing else was in flight */
};
_Static_assert(sizeof(struct nd_bio) <= sizeof(((struct rdt_bio *)0)->priv), "nbd");

static struct nd_disk *nd_disk_of(struct rdt_bdev *bdev)
{
	return rd_container_of(bdev, struct nd_disk, bdev);
}

static struct nd_bio *nd_bio_of(struct rdt_bio *bio)
{
	return (struct nd_bio *)(void *)bio->priv;
}

/* ---- one bio, on the thread ---- */

static void nd_finish(struct rdt_bio *bio, int result)
{
	struct nd_disk *d = nd_bio_of(bio)->disk;

	bio->result = result;
	d->completed++;
	d->suspects -= nd_bio_of(bio)->suspect;
	rdt_bio_post_done(bio);
}

/* The target ends. The server may execute what was sent, so hosts must not execute it twice. */
static void nd_leave_bio(struct rdt_bio *bio)
{
	bio->status = NVME_SCT_PATH << 8 | NVME_SC_ANA_INTERNAL_PATH_ERROR;
	nd_finish(bio, -ESHUTDOWN);
}

/* The connection or the server is going; the bio is sent again on the next one. */
static bool is_lost(int err)
{
	return err == ENOTCONN || err == ESHUTDOWN;
}

/* A write that is stored before it is answered. Hosts that were told of no cache do not flush. */
static bool nd_durable(const struct nd_disk *d, const struct rdt_bio *bio)
{
	return (bio->op == RDT_BIO_WRITE || bio->op == RDT_BIO_WRITE_ZEROES) &&
	       (bio->flags & RDT_BIO_FUA || !d->flushes);
}

/* The server refuses a request without data, maybe for its kind or length: can it be sent in
 * another way? Then @bio is to be sent again. */
static bool refused_kind(struct nd_disk *d, struct rdt_bio *bio, int err)
{
	struct nd_bio *nb = nd_bio_of(bio);
	bool zero = bio->op == RDT_BIO_WRITE_ZEROES && !nb->flushing && !nb->as_write;

	if (!zero && bio->op != RDT_BIO_DEALLOCATE)
		return false;
	if (err != EINVAL && err != EOVERFLOW && err != EOPNOTSUPP)
		return false;
	if (err != EOPNOTSUPP && nb->piece > d->piece_max)
		d->zero_max = d->piece_max;
	else if (zero)
		d->can_zero = false;
	else
		d->can_trim = false;
	return true;
}

static void nd_piece_done(struct nd_disk *d, struct rdt_bio *bio, int err)
{
	struct nd_bio *nb = nd_bio_of(bio);
	bool syncs = bio->op == RDT_BIO_FLUSH || nb->flushing;
	int result = -err;

	TAILQ_REMOVE(&d->sent, bio, link);
	d->inflight--;
	if (err && refused_kind(d, bio, err)) {
		TAILQ_INSERT_HEAD(&d->queue, bio, link);
		return;
	}
	if (err && (syncs || (bio->flags & RDT_BIO_FUA && d->can_fua)))
		result = d->module->sync_error(&d->bdev, d->log, d->uri, result, !syncs);
	if (err) {
		nd_finish(bio, result);
		return;
	}
	nb->done += nb->piece;
	if (!syncs && nb->done < bio->length) {
		TAILQ_INSERT_HEAD(&d->queue, bio, link);
	} else if (nd_durable(d, bio) && !d->can_fua && d->can_flush && !nb->flushing) {
		nb->flushing = true;
		TAILQ_INSERT_HEAD(&d->queue, bio, link);
	} else {
		nd_finish(bio, 0);
	}
}

/* Called by libnbd from a call of this file. Returns 1: libnbd forgets the command. */
static int nd_answered(void *user, int *err)
{
	struct rdt_bio *bio = user;
	struct nd_disk *d = nd_bio_of(bio)->disk;

	if (!is_lost(*err)) {
		nd_piece_done(d, bio, *err);
	} else { /* it stays in d->sent until the connection is replaced */
		d->lost = true;
		d->shuts_down |= *err == ESHUTDOWN;
	}
	rd_defer(d->loop, &d->pump, RD_DEFER_WORK);
	return 1;
}

static int64_t send_zeroes(struct nd_disk *d, struct rdt_bio *bio, uint32_t flags,
			   nbd_completion_callback cb)
{
	struct nd_bio *nb = nd_bio_of(bio);
	uint64_t at = bio->offset + nb->done;

	nb->as_write = !d->can_zero;
	if (d->can_zero)
		return nbd_aio_zero(d->nbd, nb->piece, at, cb, flags);
	if (nb->piece > ZEROES)
		nb->piece = ZEROES;
	if (nb->piece > d->piece_max)
		nb->piece = d->piece_max;
	return nbd_aio_pwrite(d->nbd, d->zeroes, nb->piece, at, cb, flags);
}

static int64_t send_piece(struct nd_disk *d, struct rdt_bio *bio)
{
	struct nd_bio *nb = nd_bio_of(bio);
	nbd_completion_callback cb = {.callback = nd_answered, .user_data = bio};
	bool zero = bio->op == RDT_BIO_WRITE_ZEROES || bio->op == RDT_BIO_DEALLOCATE;
	uint64_t left = bio->length - nb->done, most = zero ? d->zero_max : d->piece_max;
	uint64_t at = bio->offset + nb->done;
	uint32_t fua = nd_durable(d, bio) && d->can_fua ? LIBNBD_CMD_FLAG_FUA : 0;
	char *buf = bio->buf ? (char *)bio->buf + nb->done : NULL;

	nb->piece = (uint32_t)(left < most ? left : most);
	if (bio->op == RDT_BIO_FLUSH || nb->flushing)
		return nbd_aio_flush(d->nbd, cb, 0);
	switch ((enum rdt_bio_op)bio->op) {
	case RDT_BIO_READ:
		return nbd_aio_pread(d->nbd, buf, nb->piece, at, cb, 0);
	case RDT_BIO_WRITE:
		return nbd_aio_pwrite(d->nbd, buf, nb->piece, at, cb, fua);
	case RDT_BIO_WRITE_ZEROES:
		return send_zeroes(d, bio, fua, cb);
	default:
		return nbd_aio_trim(d->nbd, nb->piece, at, cb, 0);
	}
}

/* Does the server of this connection have nothing to do with @bio? Then it has ended. */
static bool ended_without_server(struct nd_disk *d, struct rdt_bio *bio)
{
	int result = 0;

	if (bio->op == RDT_BIO_WRITE_ZEROES && !d->can_zero && !d->zeroes) {
		d->zeroes = calloc(1, ZEROES);
		result = d->zeroes ? 0 : -ENOMEM;
	}
	if (bio->offset + bio->length >
	    d->export_size) /* it has shrunk since the command was checked */
		result = -ERANGE;
	/* Deallocate is a hint: the next server may be without Trim. */
	if (!result && (bio->op != RDT_BIO_DEALLOCATE || d->can_trim))
		return false;
	TAILQ_REMOVE(&d->queue, bio, link);
	nd_finish(bio, result);
	return true;
}

static void nd_lost(struct nd_disk *d);

static void watch_socket(struct nd_disk *d)
{
	unsigned int direction = nbd_aio_get_direction(d->nbd);
	uint32_t events = (direction & LIBNBD_AIO_DIRECTION_READ ? EPOLLIN : 0) |
			  (direction & LIBNBD_AIO_DIRECTION_WRITE ? EPOLLOUT : 0);

	rd_io_mod(d->loop, &d->io, events);
}

/* Send what may be sent. */
static void nd_pump(struct rd_defer *defer)
{
	struct nd_disk *d = rd_container_of(defer, struct nd_disk, pump);
	struct rdt_bio *bio;

	if (d->state != ND_UP)
		return;
	while (d->inflight < (d->suspects ? 1 : INFLIGHT_MAX) && (bio = TAILQ_FIRST(&d->queue))) {
		if (ended_without_server(d, bio))
			continue;
		TAILQ_REMOVE(&d->queue, bio, link);
		TAILQ_INSERT_TAIL(&d->sent, bio, link);
		d->inflight++;
		if (send_piece(d, bio) >= 0)
			continue;
		if (nbd_aio_is_ready(d->nbd) || nbd_aio_is_processing(d->nbd))
			nd_piece_done(d, bio, nbd_get_errno() ? nbd_get_errno() : EIO);
		else
			break; /* the connection is lost: it stays in d->sent */
	}
	if (d->lost || nbd_aio_is_dead(d->nbd) || nbd_aio_is_closed(d->nbd))
		nd_lost(d);
	else
		watch_socket(d);
}

static void socket_ready(struct rd_io *io, uint32_t events)
{
	struct nd_disk *d = rd_container_of(io, struct nd_disk, io);
	unsigned int direction = nbd_aio_get_direction(d->nbd);

	/* An error is found by reading or writing. */
	if (direction & LIBNBD_AIO_DIRECTION_READ && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		nbd_aio_notify_read(d->nbd);
	else if (direction & LIBNBD_AIO_DIRECTION_WRITE)
		nbd_aio_notify_write(d->nbd);
	rd_defer(d->loop, &d->pump, RD_DEFER_WORK);
}

/* ---- the connection ---- */

static void nd_disconnect(struct nd_disk *d)
{
	struct rdt_bio *bio;

	rd_io_del(d->loop, &d->io);
	if (d->nbd)
		nbd_close(d->nbd);
	d->nbd = NULL;
	atomic_store(&d->connected, false);
	d->lost = d->shuts_down = false;
	/* What was sent is sent again, before what has not been. */
	TAILQ_CONCAT(&d->sent, &d->queue, link);
	TAILQ_CONCAT(&d->queue, &d->sent, link);
	d->inflight = 0;
	/* A server that begins again may have lost what was not flushed. */
	TAILQ_FOREACH (bio, &d->queue, link)
		if (nd_durable(d, bio)) {
			nd_bio_of(bio)->done = 0;
			nd_bio_of(bio)->flushing = false;
		}
}

/*
 * The connection has ended: one of the requests in flight may be the cause, for example because the
 * server crashes by it. They are sent again one at a time, to find out which one; that one is given
 * up when it has broken the connection BREAKS_MAX times.
 */
static void find_culprit(struct nd_disk *d)
{
	static const char *const op_names[RDT_BIO_OPS] = {
		[RDT_BIO_READ] = "a read",       [RDT_BIO_WRITE] = "a write",
		[RDT_BIO_FLUSH] = "a flush",     [RDT_BIO_WRITE_ZEROES] = "zeroes",
		[RDT_BIO_DEALLOCATE] = "a trim",
	};
	struct rdt_bio *bio = TAILQ_FIRST(&d->sent);
	struct nd_bio *nb;

	if (!bio || d->shuts_down)
		return;
	nb = nd_bio_of(bio);
	if (d->inflight == 1 && ++nb->breaks == BREAKS_MAX) {
		rd_err(d->log, RD_LOG_BACKEND,
		       "nbd: %s: %s of %llu bytes at byte %llu has broken the connection %d times "
		       "and is not tried again; check the server",
		       d->uri, op_names[bio->op], (unsigned long long)bio->length,
		       (unsigned long long)bio->offset, BREAKS_MAX);
		TAILQ_REMOVE(&d->sent, bio, link);
		d->inflight--;
		nd_finish(bio, -EIO);
	}
	TAILQ_FOREACH (bio, &d->sent, link) {
		nb = nd_bio_of(bio);
		d->suspects += !nb->suspect;
		nb->suspect = true;
	}
}

/* Hosts rely on what they were told when the namespace was opened. As rdt_nbd_check(). */
static int check_promises(const struct nd_disk *d, struct nbd_handle *nbd, char *err,
			  size_t err_size)
{
	const char *what = d->flushes ? "Flush" : "FUA";

	if (!(d->flushes || d->stores) || nbd_can_flush(nbd) == 1 ||
	    (d->stores && nbd_can_fua(nbd) == 1))
		return 0;
	snprintf(err, err_size,
		 "the server no longer has %s, which hosts rely on; have it offer %s, or remove "
		 "the namespace and add it again",
		 what, what);
	return -EINVAL;
}

/* What the server can do and takes: the table in docs/design/storage-nbd.md. */
static void take_abilities(struct nd_disk *d)
{
	d->can_fua = nbd_can_fua(d->nbd) == 1;
	d->can_flush = nbd_can_flush(d->nbd) == 1;
	d->can_zero = nbd_can_zero(d->nbd) == 1;
	d->can_trim = nbd_can_trim(d->nbd) == 1;
	d->piece_max = rdt_nbd_most(d->nbd, d->bdev.block_size);
	d->zero_max = ZERO_MAX;
}

static uint32_t ops_offered(const struct nd_disk *d, bool flush, bool trim)
{
	uint32_t mask = 1u << RDT_BIO_READ;

	if (flush)
		mask |= 1u << RDT_BIO_FLUSH;
	if (!d->bdev.read_only) {
		mask |= 1u << RDT_BIO_WRITE | 1u << RDT_BIO_WRITE_ZEROES;
		mask |= trim ? 1u << RDT_BIO_DEALLOCATE : 0;
	}
	return mask;
}

static void take_export(struct nd_disk *d)
{
	uint64_t size = (uint64_t)nbd_get_size(d->nbd);
	bool same;

	if (!d->opened && !d->can_flush && !d->can_fua && !d->bdev.read_only)
		rd_notice(d->log, RD_LOG_BACKEND,
			  "nbd: %s: the server has neither Flush nor FUA: what it has "
			  "acknowledged counts as stored",
			  d->uri);
	pthread_mutex_lock(&d->lock);
	same = d->opened && d->export_size == size - size % d->bdev.block_size;
	d->export_size = size - size % d->bdev.block_size;
	if (!d->opened) { /* what hosts were told stays */
		d->ops_mask = ops_offered(d, d->can_flush, d->can_trim);
		d->flushes = d->can_flush;
		d->stores = d->can_fua && !d->can_flush;
	}
	d->opened = true;
	if (!same && !d->closing)
		rdt_bdev_changed(&d->bdev);
	pthread_mutex_unlock(&d->lock);
}

static void reconnect(struct rd_timer *timer);

static void nd_lost(struct nd_disk *d)
{
	/* A server that ends each connection at once is not asked without a pause. */
	bool at_once = rd_loop_now_raw(d->loop) - d->up_ns >= RECONNECT_NS;

	rd_warn(d->log, RD_LOG_BACKEND,
		"nbd: %s: %s: the connection is lost; hosts wait until there is another one",
		d->uri,
		d->shuts_down ? "the server shuts down" : rdt_nbd_words("ended by the server"));
	find_culprit(d);
	nd_disconnect(d);
	d->state = ND_CONNECTING;
	d->late = true;
	rdt_bdev_late(&d->bdev, rd_loop_now_raw(d->loop));
	d->retry.fn = reconnect;
	rd_timer_start(d->loop, &d->retry, at_once ? 0 : RECONNECT_NS);
}

static int try_connect(struct nd_disk *d, char *err, size_t err_size)
{
	int rc = rdt_nbd_connect(d->uri, CONNECT_NS, &d->ends, &d->nbd, err, err_size);

	if (!rc)
		rc = rdt_nbd_check(d->nbd, &d->bdev, err, err_size);
	if (!rc)
		rc = check_promises(d, d->nbd, err, err_size);
	if (!rc)
		rc = rd_io_add(d->loop, &d->io, nbd_aio_get_fd(d->nbd), EPOLLIN, socket_ready);
	return rc;
}

static void connect_failed(struct nd_disk *d, int rc, char *err, size_t err_size)
{
	nd_disconnect(d);
	if (rd_loop_now_raw(d->loop) < d->quick_until) {
		rd_timer_start(d->loop, &d->retry, QUICK_NS);
		return;
	}
	if (!err[0])
		snprintf(err, err_size, "%s", strerror(-rc));
	if (strcmp(err, d->said) != 0)
		rd_warn(d->log, RD_LOG_BACKEND, "nbd: %s: %s; trying again every %u s", d->uri, err,
			(unsigned int)(RECONNECT_NS / RD_NSEC_PER_SEC));
	snprintf(d->said, sizeof(d->said), "%s", err);
	if (d->opened && !d->late) {
		d->late = true;
		rdt_bdev_late(&d->bdev, rd_loop_now_raw(d->loop));
	}
	rd_timer_start(d->loop, &d->retry, RECONNECT_NS);
}

static void reconnect(struct rd_timer *timer)
{
	struct nd_disk *d = rd_container_of(timer, struct nd_disk, retry);
	char err[200] = "";

	int rc = try_connect(d, err, sizeof(err));

	if (rc) {
		connect_failed(d, rc, err, sizeof(err));
		return;
	}
	d->state = ND_UP;
	atomic_store(&d->connected, true);
	d->up_ns = rd_loop_now_raw(d->loop);
	if (d->late)
		rdt_bdev_answers(&d->bdev);
	d->late = false;
	if (d->quick_until)
		rd_notice(d->log, RD_LOG_BACKEND,
			  "nbd: %s: connected in place of the process before", d->uri);
	else if (d->opened || d->said[0])
		rd_notice(d->log, RD_LOG_BACKEND, "nbd: %s: connected again", d->uri);
	d->said[0] = '\0';
	d->quick_until = 0;
	take_abilities(d);
	take_export(d);
	rd_defer(d->loop, &d->pump, RD_DEFER_WORK);
}

/* ---- the thread ---- */

static void nd_leave_all(struct nd_disk *d)
{
	struct rdt_bio *bio;

	while ((bio = TAILQ_FIRST(&d->queue))) {
		TAILQ_REMOVE(&d->queue, bio, link);
		nd_leave_bio(bio);
	}
}

/* The target ends: does the server still answer? */
static void look_at_end(struct rd_timer *timer)
{
	struct nd_disk *d = rd_container_of(timer, struct nd_disk, leave);

	if (d->completed != d->left_at || TAILQ_EMPTY(&d->sent)) {
		d->left_at = d->completed;
		if (d->state == ND_UP || TAILQ_EMPTY(&d->queue)) {
			rd_timer_start(d->loop, &d->leave, LEAVE_AFTER);
			return;
		}
	}
	rd_warn(d->log, RD_LOG_BACKEND,
		"nbd: %s: the target is stopping and the server does not answer: disconnecting "
		"with commands unanswered",
		d->uri);
	rd_timer_stop(d->loop, &d->retry);
	rd_defer_cancel(d->loop, &d->pump);
	nd_disconnect(d);
	d->state = ND_LEFT;
	nd_leave_all(d);
}

static void nd_drain_msg(struct rd_msg *msg)
{
	struct nd_disk *d = rd_container_of(msg, struct nd_disk, drain_msg);

	d->left_at = d->completed;
	rd_timer_start(d->loop, &d->leave, LEAVE_AFTER);
}

/* ---- a hand-over ---- */

/* By the thread, or by the main thread for a step that the thread need not see. */
static void hand_ends(struct nd_disk *d, unsigned int number, int result)
{
	unsigned int ended = atomic_load(&d->hand_ended);

	do {
		if ((int)(number - ended) <= 0) /* a later one has */
			return;
		atomic_store(&d->hand_result, result);
	} while (!atomic_compare_exchange_weak(&d->hand_ended, &ended, number));
}

static void begin_to_settle(struct nd_disk *d);

static void settled(struct rdt_bio *bio)
{
	struct nd_disk *d = nd_bio_of(bio)->disk;

	d->settling = false;
	if (d->settle_again && !bio->result)
		begin_to_settle(d);
	else
		hand_ends(d, d->settle_number, bio->result);
}

static void begin_to_settle(struct nd_disk *d)
{
	d->settling = true;
	d->settle_again = false;
	d->settle = (struct rdt_bio){.op = RDT_BIO_FLUSH, .done = settled};
	*nd_bio_of(&d->settle) = (struct nd_bio){.post = {.home = d->loop}, .disk = d};
	TAILQ_INSERT_TAIL(&d->queue, &d->settle, link);
	rd_defer(d->loop, &d->pump, RD_DEFER_WORK);
}

static void settle(struct nd_disk *d, unsigned int number)
{
	d->settle_number = number;
	if (d->state != ND_UP || d->bdev.read_only || !d->can_flush || atomic_load(&d->bdev.faults))
		hand_ends(d, number, 0);
	else if (d->settling)
		d->settle_again = true;
	else
		begin_to_settle(d);
}

static void leave_server(struct nd_disk *d)
{
	if (d->state != ND_UP && d->state != ND_CONNECTING)
		return;
	rd_timer_stop(d->loop, &d->retry);
	rd_defer_cancel(d->loop, &d->pump);
	if (d->nbd && nbd_aio_is_ready(d->nbd))
		nbd_aio_disconnect(d->nbd, 0);
	nd_disconnect(d);
	d->state = ND_LEFT;
	nd_leave_all(d);
}

static void take_server(struct nd_disk *d)
{
	if (d->state != ND_WAITING)
		return;
	d->state = ND_CONNECTING;
	d->quick_until = rd_loop_now_raw(d->loop) + QUICK_FOR;
	rd_timer_start(d->loop, &d->retry, 0);
}

static void nd_hand_msg(struct rd_msg *msg)
{
	struct nd_disk *d = rd_container_of(msg, struct nd_disk, hand_msg);
	unsigned int number;

	atomic_store(&d->hand_posted, false);
	number = atomic_load(&d->hand_begun);
	switch ((enum rdt_hand)atomic_load(&d->hand)) {
	case RDT_HAND_SETTLE:
		settle(d, number);
		return;
	case RDT_HAND_LEAVE:
		leave_server(d);
		break;
	case RDT_HAND_TAKE:
		take_server(d);
		break;
	case RDT_HAND_BEGIN:
		break;
	}
	hand_ends(d, number, 0);
}

/* ---- bios arrive, and the end ---- */

static void nd_arrived(struct rd_msg *msg)
{
	struct rdt_bio *bio = rdt_bio_of_post(msg);
	struct nd_disk *d = nd_bio_of(bio)->disk;

	TAILQ_INSERT_TAIL(&d->queue, bio, link);
	if (d->state == ND_LEFT)
		nd_leave_all(d);
	else
		rd_defer(d->loop, &d->pump, RD_DEFER_WORK);
}

static void nd_close_msg(struct rd_msg *msg)
{
	struct nd_disk *d = rd_container_of(msg, struct nd_disk, close_msg);

	d->state = ND_CLOSED;
	rd_timer_stop(d->loop, &d->retry);
	rd_timer_stop(d->loop, &d->leave);
	rd_defer_cancel(d->loop, &d->pump);
	if (d->nbd && nbd_aio_is_ready(d->nbd))
		nbd_aio_disconnect(d->nbd, 0);
	nd_disconnect(d);
	rd_loop_stop(d->loop);
}

static void nd_free(struct nd_disk *d)
{
	rd_loop_destroy(&d->loop);
	pthread_mutex_destroy(&d->lock);
	free(d->zeroes);
	free(d->uri);
	free(d);
}

static void *nd_thread(void *arg)
{
	struct nd_disk *d = arg;
	struct nd_module *m = d->module;

	if (d->state == ND_CONNECTING)
		rd_timer_start(d->loop, &d->retry, 0);
	rd_loop_run(d->loop);
	nd_free(d);
	rdt_module_thread_ends(&m->threads);
	return NULL;
}

/* ---- the table of operations ---- */

static enum rdt_bio_submit nd_submit(struct rdt_chan *chan, struct rdt_bio *bio)
{
	struct nd_disk *d = nd_disk_of(chan->bdev);
	struct nd_bio *nb = nd_bio_of(bio);

	if (!(d->bdev.ops_mask & 1u << bio->op)) {
		bio->result = -EOPNOTSUPP;
		return RDT_BIO_DONE;
	}
	*nb = (struct nd_bio){
		.post = {.msg.fn = nd_arrived, .home = rdt_module_chan_loop(chan)},
		.disk = d,
	};
	rd_loop_post(d->loop, &nb->post.msg);
	return RDT_BIO_QUEUED;
}

static int nd_chan_open(struct rdt_bdev *bdev, struct rdt_engines *engines, struct rdt_chan **out)
{
	return rdt_module_chan_open(bdev, nd_disk_of(bdev)->module->engines_loop(engines), out);
}

static void nd_bdev_drain(struct rdt_bdev *bdev)
{
	struct nd_disk *d = nd_disk_of(bdev);

	atomic_store(&d->ends, true);
	d->drain_msg.fn = nd_drain_msg;
	rd_loop_post(d->loop, &d->drain_msg);
}

static void nd_bdev_close(struct rdt_bdev *bdev)
{
	struct nd_disk *d = nd_disk_of(bdev);

	atomic_store(&d->ends, true);
	pthread_mutex_lock(&d->lock);
	d->closing = true;
	pthread_mutex_unlock(&d->lock);
	d->close_msg.fn = nd_close_msg;
	rd_loop_post(d->loop, &d->close_msg);
}

static int nd_bdev_opened(struct rdt_bdev *bdev, char *err, size_t err_size)
{
	struct nd_disk *d = nd_disk_of(bdev);
	bool opened;

	pthread_mutex_lock(&d->lock);
	opened = d->opened;
	if (opened) {
		bdev->size = d->export_size;
		bdev->ops_mask = d->ops_mask;
		bdev->volatile_cache = d->flushes;
	}
	pthread_mutex_unlock(&d->lock);
	return opened ? 0 : -EINPROGRESS;
}

static int nd_bdev_resize(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size)
{
	struct nd_disk *d = nd_disk_of(bdev);

	if (size && size != bdev->size) {
		snprintf(err, err_size, "the size of an export is changed at its server");
		return -EOPNOTSUPP;
	}
	pthread_mutex_lock(&d->lock);
	bdev->size = d->export_size;
	pthread_mutex_unlock(&d->lock);
	return 0;
}

static void nd_bdev_told(struct rdt_bdev *bdev, struct rdt_bdev_told *out)
{
	struct nd_disk *d = nd_disk_of(bdev);

	pthread_mutex_lock(&d->lock);
	*out = (struct rdt_bdev_told){
		.size = d->export_size,
		.cache = d->flushes,
		.stores = d->stores,
		.deallocates = d->ops_mask & 1u << RDT_BIO_DEALLOCATE,
	};
	pthread_mutex_unlock(&d->lock);
}

static void nd_bdev_hand(struct rdt_bdev *bdev, enum rdt_hand step)
{
	struct nd_disk *d = nd_disk_of(bdev);
	unsigned int number;

	if (step == RDT_HAND_BEGIN)
		return;
	if (step == RDT_HAND_LEAVE)
		atomic_store(&d->ends, true);
	atomic_store(&d->hand, (int)step);
	number = atomic_fetch_add(&d->hand_begun, 1) + 1;
	/* Without a connection there is none whose end could lose something, and the thread may
	 * wait for a server that does not answer. */
	if (step == RDT_HAND_SETTLE && !atomic_load(&d->connected)) {
		hand_ends(d, number, 0);
		return;
	}
	if (!atomic_exchange(&d->hand_posted, true))
		rd_loop_post(d->loop, &d->hand_msg);
}

static int nd_bdev_handed(const struct rdt_bdev *bdev)
{
	const struct nd_disk *d = rd_container_of(bdev, const struct nd_disk, bdev);

	return atomic_load(&d->hand_ended) == atomic_load(&d->hand_begun)
		       ? atomic_load(&d->hand_result)
		       : -EINPROGRESS;
}

static const struct rdt_bdev_ops nd_ops = {
	.name = "nbd",
	.close = nd_bdev_close,
	.chan_open = nd_chan_open,
	.chan_close = rdt_module_chan_close,
	.submit = nd_submit,
	.resize = nd_bdev_resize,
	.opened = nd_bdev_opened,
	.drain = nd_bdev_drain,
	.told = nd_bdev_told,
	.hand = nd_bdev_hand,
	.handed = nd_bdev_handed,
};

/* ---- the module ---- */

/* Another process still has the connection. */
static void take_told(struct nd_disk *d, const struct rdt_bdev_told *told)
{
	d->state = ND_WAITING;
	d->opened = true;
	d->export_size = told->size;
	d->flushes = told->cache;
	d->stores = told->stores;
	d->ops_mask = ops_offered(d, told->cache, told->deallocates);
}

static int nd_module_open(void *ctx, const struct rdt_ns_config *cfg,
			  const struct rdt_bdev_told *told, struct rd_log *log,
			  struct rdt_bdev **out, char *err, size_t err_size)
{
	const struct rd_loop_opts opts = {.log = log};
	struct nd_disk *d = calloc(1, sizeof(*d));
	int rc = -ENOMEM;

	snprintf(err, err_size, "nbd: out of memory");
	if (!d)
		return rc;
	pthread_mutex_init(&d->lock, NULL);
	TAILQ_INIT(&d->queue);
	TAILQ_INIT(&d->sent);
	d->module = ctx;
	d->log = log;
	d->retry.fn = reconnect;
	d->pump.fn = nd_pump;
	d->leave.fn = look_at_end;
	d->hand_msg.fn = nd_hand_msg;
	d->state = ND_CONNECTING;
	d->bdev.ops = &nd_ops;
	d->bdev.block_size = cfg->block_size;
	d->bdev.read_only = cfg->read_only;
	d->bdev.device = rdt_nbd_server(cfg->uri);
	d->uri = strdup(cfg->uri);
	if (told)
		take_told(d, told);
	if (d->uri)
		rc = rd_loop_create(&opts, &d->loop);
	if (!rc) {
		rc = rdt_module_thread_start(&d->module->threads, nd_thread, d);
		if (rc)
			snprintf(err, err_size, "nbd: cannot start a thread: %s", strerror(-rc));
	}
	if (rc) {
		nd_free(d);
		return rc;
	}
	*out = &d->bdev;
	return 0;
}

static int nd_module_probe(void *ctx, const struct rdt_ns_config *cfg, char *err, size_t err_size)
{
	const struct rdt_bdev bdev = {.block_size = cfg->block_size, .read_only = cfg->read_only};
	struct nbd_handle *nbd;
	char text[200];
	int rc = rdt_nbd_connect(cfg->uri, PROBE_NS, NULL, &nbd, text, sizeof(text));

	if (!rc)
		rc = rdt_nbd_check(nbd, &bdev, text, sizeof(text));
	if (rc)
		snprintf(err, err_size, "nbd: %s: %s", cfg->uri, text);
	nbd_close(nbd);
	return rc;
}

static bool nd_module_released(void *ctx, const struct rdt_ns_config *cfg)
{
	return true; /* a server decides by itself who may connect */
}

static bool nd_module_finish(void *ctx, uint64_t timeout_ns)
{
	struct nd_module *m = ctx;

	if (!rdt_module_threads_finish(&m->threads, timeout_ns))
		return false;
	free(m);
	return true;
}

__attribute__((visibility("default"))) int rdt_module_init(const struct rdt_module_abi *abi,
							   struct rdt_module *out)
{
	const struct rdt_module_abi mine = RDT_MODULE_ABI;
	struct nd_module *m;

	if (!rdt_module_abi_same(abi, &mine))
		return -EPROTO;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	rdt_module_threads_init(&m->threads);
	m->engines_loop = abi->engines_loop;
	m->sync_error = abi->sync_error;
	*out = (struct rdt_module){
		.ctx = m,
		.open = nd_module_open,
		.probe = nd_module_probe,
		.released = nd_module_released,
		.finish = nd_module_finish,
	};
	return 0;
}
