/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Backend rbd: Ceph RBD images through librbd. A module (module.h).
 *
 * Calls of librados and librbd that wait for the network (without end while the cluster is not
 * reachable) run on worker threads of the image's pool. One job of an image runs at a time. I/O is
 * submitted by reactors and completes on threads of librbd, which post it to the reactor.
 */
#ifndef RDT_RBD_PRIV_H
#define RDT_RBD_PRIV_H

#include <pthread.h>
#include <rados/librados.h>
#include <rbd/librbd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>

#include "module_part.h"
#include "util/log.h"

struct rbd_cluster;
struct rbd_peers;
struct rbd_queue;

/* ---- rbd_cluster.c ---- */

/* All clusters of the process. */
struct rbd_clusters;

#define RBD_BLOCKED 4u

/* A connection to a cluster, shared by its images. */
struct rbd_handle {
	rados_t cl;
	char fsid[64];
	/* guarded by the cluster */
	unsigned int refs;
	bool listed; /* a monitor has said that this connection is blocked */

	unsigned int takeover_s;
	pthread_mutex_t joining;
	/* guarded by @joining */
	LIST_HEAD(, rbd_peers) peers;
	/* The clients that were blocked last; "": none. Two processes of a gateway may be lost at
	 * one time, and gateways one after the other. */
	struct {
		char owner[128];
		uint64_t ns; /* when, if it was */
	} blocked[RBD_BLOCKED];
	char address[128]; /* of this connection, as Ceph's blocklist has it; "": not known yet */
};

int rbd_clusters_create(struct rbd_clusters **out);
/* See rdt_module.finish. */
bool rbd_clusters_finish(struct rbd_clusters *clusters, uint64_t timeout_ns);

/* The cluster that @cfg (NULL: Ceph's defaults) describes, and the queue of its pool, for one more
 * image. Images with librbd's cache have connections of their own. Returns 0 or -ENOMEM. */
int rbd_cluster_get(struct rbd_clusters *clusters, const struct rdt_ceph_config *cfg, bool cache,
		    const char *pool, struct rbd_cluster **out, struct rbd_queue **queue);
/* One image less. Its job has ended. Accepts NULL as @c. */
void rbd_cluster_put(struct rbd_clusters *clusters, struct rbd_cluster *c, struct rbd_queue *queue);
/*
 * Worker threads: connect, or share the connection that exists. @timeout_s: the connection is not
 * shared, and all its calls end after that time; 0: a shared connection, whose I/O has no time
 * limit. Returns 0, or -errno with a sentence in @err.
 */
int rbd_cluster_connect(struct rbd_cluster *c, unsigned int timeout_s, struct rbd_handle **out,
			char *err, size_t err_size);
/* @dead: the cluster has blocked this connection: the next image makes a new connection. The last
 * one closes it, which may wait for the network. */
void rbd_handle_put(struct rbd_cluster *c, struct rbd_handle **handle, bool dead);

/*
 * Is the cluster in reach? Asks a monitor in the background, unless a question is in flight. When
 * the answer comes the connection has the newest map of OSDs, and the jobs of images that were cut
 * off run. @stuck: I/O does not complete, so the monitor is also asked whether this connection is
 * blocked. OSDs that are not in reach could not say that.
 */
void rbd_cluster_ask(struct rbd_clusters *clusters, struct rbd_cluster *c, struct rbd_queue *queue,
		     bool stuck);
/* Has the question in flight no answer for so long that other gateways may take over? Any thread;
 * takes no lock but that of @c. */
bool rbd_cluster_is_silent(struct rbd_cluster *c);
/* Has a monitor said that the connection is blocked? Likewise. */
bool rbd_cluster_is_blocked(struct rbd_cluster *c);

/* One user more of both, until rbd_cluster_release(). The caller is an image that uses them. */
void rbd_cluster_keep(struct rbd_clusters *clusters, struct rbd_cluster *c, struct rbd_queue *queue,
		      struct rbd_handle *handle);
/* May wait for the network. */
void rbd_cluster_release(struct rbd_clusters *clusters, struct rbd_cluster *c,
			 struct rbd_queue *queue, struct rbd_handle *handle);
/* Calls @fn(@arg) on a thread of its own. Returns 0 or -errno. */
int rbd_clusters_thread(struct rbd_clusters *clusters, void (*fn)(void *arg), void *arg);

/* ---- rbd_jobs.c ---- */

/* Work of an object on a worker thread. Embedded in it; one run at a time. */
struct rbd_job {
	void (*run)(struct rbd_job *job); /* calls rbd_job_ran() last */
	/* The run has not ended for a second; then once in a second. Another thread, the queue is
	 * locked. */
	void (*tell_late)(struct rbd_job *job);
	struct rbd_queue *queue;
	/* guarded by the queue */
	uint64_t due; /* ns, CLOCK_MONOTONIC */
	uint64_t began_ns;
	uint64_t late_ns; /* when tell_late() is due */
	bool queued;
	bool running;
	TAILQ_ENTRY(rbd_job) link;
	TAILQ_ENTRY(rbd_job) running_link;
};

/* @ended(@arg) is called by each thread when it ends, and may free the queue. NULL: out of memory.
 */
struct rbd_queue *rbd_queue_new(struct rdt_module_threads *all,
				void (*ended)(void *arg, struct rbd_queue *q), void *arg);
/* It has no jobs and no threads. Accepts NULL. */
void rbd_queue_free(struct rbd_queue *q);
/* Does it have no threads, and so no jobs? */
bool rbd_queue_idle(struct rbd_queue *q);

/* Runs @job @delay_ns from now, or earlier if it is queued for an earlier time. During a run it is
 * queued for the next one. Returns 0, or -errno when there is no thread for it. Any thread. */
int rbd_job_kick(struct rbd_job *job, uint64_t delay_ns);

/*
 * Calls @end(@job), which has the next run be the last one, and runs @job now. The queue is locked:
 * a run that sees what @end did, and frees @job, ends after this has let go of @job. Returns 0, or
 * -errno when there is no thread for it. Any thread.
 */
int rbd_job_kick_last(struct rbd_job *job, void (*end)(struct rbd_job *job));

/* The end of a run. @last: there is no further run, even if one was queued; @job can be freed. */
void rbd_job_ran(struct rbd_job *job, bool last);

/* ---- rbd_image.c ---- */

enum rbd_state {
	RBD_OPENING, /* not usable yet. Opened -> OPEN, close() -> CLOSING */
	RBD_OPEN,    /* I/O is possible. Blocked by the cluster -> LOST, close() -> CLOSING */
	RBD_LOST,    /* the cluster refuses this connection; to be closed. Closed -> OPENING */
	RBD_CLOSING, /* to be closed and freed */
};

/* An image in a hand-over between two processes. */
enum rbd_handover {
	RBD_HERE, /* in none. LEAVE -> LEFT */
	/* Another process serves it, and this one may take over: it does not ask for the lock.
	 * BEGIN -> COMES, or HERE when another gateway has the image */
	RBD_LOOKS,
	RBD_COMES, /* bios wait for the lock. It was taken, or will not come -> HERE */
	RBD_LEFT,  /* another process has taken over: the lock is given up, and not asked for */
};

enum rbd_lock_said {
	RBD_SAID_NOTHING,
	RBD_SAID_HELD,
	RBD_SAID_STANDBY,
	RBD_SAID_YIELDED,
	RBD_SAID_FAILED
};

struct rbd_image {
	struct rdt_bdev bdev;
	struct rbd_job job;
	struct rbd_cluster *cluster;
	struct rbd_clusters *clusters;
	LIST_ENTRY(rbd_image) link; /* of @clusters, guarded by it */
	struct rd_log *log;
	/* copies: the configuration may end before the image is closed */
	char *pool, *rados_namespace, *name, *snapshot;
	char *key_file; /* NULL: no encryption */
	enum rdt_rbd_lock lock_mode;
	enum rdt_rbd_encryption encryption;
	bool cache; /* librbd's; only then may it have one */
	struct rd_loop *(*engines_loop)(const struct rdt_engines *engines);
	int (*sync_error)(struct rdt_bdev *bdev, struct rd_log *log, const char *what, int err,
			  bool after_write);

	_Atomic enum rdt_claim claim; /* to the exclusive lock */
	_Atomic uint64_t claimed_ns;  /* when it was set; stored before it */
	atomic_bool lock_doubted;     /* librbd refused a write for want of the lock */
	_Atomic enum rbd_state state; /* changed under @lock */
	_Atomic uint64_t completed;
	atomic_uint inflight;        /* I/Os in librbd, and submits that run */
	_Atomic uint64_t idle_since; /* read_when_idle(): when it began; 0: none is in flight */
	_Atomic enum rbd_handover handover; /* changed under @lock */
	atomic_bool hands_lock;             /* the next process was told that it gets the lock */
	/* As the process before this one has said: the client that has the lock (0: not known), and
	 * the version of the shared text. */
	_Atomic uint64_t given_client, given_version;
	_Atomic uint64_t comes_until; /* how long bios wait */
	atomic_uint settling;         /* flushes before a hand-over, in flight */
	atomic_int settle_err;
	/* Number of changes of the image; number of changes after which its size was read. */
	_Atomic uint32_t changes, changes_read;

	pthread_mutex_t lock;
	pthread_cond_t idle; /* @inflight became 0 */
	/* guarded by @lock */
	bool opened;  /* the first time: rdt_bdev_opened() */
	bool late;    /* the cluster does not answer a request of its own: rdt_bdev_late() */
	int open_err; /* not yet taken by rdt_bdev_opened(); 0: none */
	char open_text[384];
	uint64_t image_size; /* bytes */
	uint32_t object_size;
	uint8_t identity[16];
	TAILQ_HEAD(, rdt_bio) held; /* writes that completed before a change was read */
	uint64_t looked_at;         /* @completed at the last look */
	uint64_t moved_ns;          /* when it had changed, or nothing was in flight */

	TAILQ_HEAD(, rdt_bio) waiting; /* for the lock, in state COMES */

	char *shared_text; /* rbd_shared.c: as read when the lock was taken */
	size_t shared_len;
	STAILQ_HEAD(, rdt_bdev_state_job) shared_jobs;

	char shared_name[64];            /* never changes */
	_Atomic uint64_t shared_version; /* set by the job; 0: the object does not exist */
	/* global ID of the connection that took the lock, set by the job; 0: given up */
	_Atomic uint64_t locked_as;

	/* of the job */
	char id[256]; /* Ceph's, of the image that was opened first; "": none was */
	struct rbd_handle *handle;
	rados_ioctx_t io;
	rbd_image_t image; /* also read by submit in state OPEN */
	uint64_t watch;
	bool watched;
	int said_err; /* the failure of opening that was logged */
	bool said_renamed;
	uint64_t passed_at; /* @completed in the last pass */
	bool busy;          /* hosts used it between this and the pass before */
	uint64_t idle_ns;   /* the last read of read_when_idle() */
	enum rbd_lock_said lock_said;
	struct rbd_peers *peers; /* NULL: no "lock: exclusive", or not possible */
	int said_peers_err;
	uint64_t locked_ns; /* when the lock was taken, to keep it for RBD_KEEP_NS; 0: long ago */
	uint64_t seen_client,
		seen_ns;      /* a hand-over: who has had the lock, at least at that time */
	uint64_t passed_ns;   /* when the lock was given up for another gateway; 0: it was not */
	uint64_t own_seen_ns; /* since when a former connection is seen to have it; 0: it is not */
	char lock_owner[128]; /* address of the client that has the lock, and its global ID */
	uint64_t lock_owner_id; /* 0: not known */
	uint64_t stranger_ns; /* since when each pass has found it to be a stranger; 0: it is not */
	uint64_t stranger_seen_ns;
	bool quiet;         /* the holder is alive, and it will be said when it is not */
	char idle_buf[512]; /* of the read that is in flight while there is no other I/O */
};

/* Does @image_size have to be read again? */
static inline bool rbd_size_stale(const struct rbd_image *img)
{
	return atomic_load(&img->changes) != atomic_load(&img->changes_read);
}

/* @from NULL: *@to becomes NULL. The caller frees *@to. Returns false when memory is out. */
static inline bool rbd_copy_name(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return *to || !from;
}

/* @looks: another process has the image, and this one may take over: state LOOKS. */
int rbd_image_new(struct rbd_clusters *clusters, const struct rdt_ns_config *cfg, bool looks,
		  struct rd_log *log, struct rbd_image **out);
/* Not in use by channels. Closes it in the background and frees it. */
void rbd_image_close(struct rbd_image *img);
/* I/O ended with -ESHUTDOWN: the cluster has blocked the connection. Any thread. */
void rbd_image_lost(struct rbd_image *img);
/* Shows hosts whether another client has the image. Any thread. */
void rbd_image_set_standby(struct rbd_image *img, bool standby);
/* "pool/namespace/image@snapshot" in @buf, which is returned. */
const char *rbd_image_spell(const struct rbd_image *img, char *buf, size_t size);
/* One I/O less. Any thread. */
void rbd_image_put_io(struct rbd_image *img);
/* The same, of an I/O without a channel that keeps the image. */
void rbd_image_put_own_io(struct rbd_image *img);
/* See rdt_bdev_released(). */
bool rbd_image_released(struct rbd_clusters *clusters, const struct rdt_ns_config *cfg);
/* See rdt_bdev_probe(). */
int rbd_image_probe(struct rbd_clusters *clusters, const struct rdt_ns_config *cfg, char *err,
		    size_t err_size);

void rbd_clusters_add(struct rbd_clusters *clusters, struct rbd_image *img);
void rbd_clusters_remove(struct rbd_clusters *clusters, struct rbd_image *img);
/* Calls @fn for each image until it returns true; returns that. @clusters is locked. */
bool rbd_clusters_find(struct rbd_clusters *clusters,
		       bool (*fn)(const struct rbd_image *img, const void *arg), const void *arg);

/* ---- rbd_encryption.c ---- */

/* Has I/O and size of the image, which was just opened, be those of what its encryption contains.
 * Nothing to do without encryption. Returns 0, or -errno with a sentence in @err; -EKEYREJECTED:
 * the key does not fit. */
int rbd_image_decrypt(struct rbd_image *img, char *err, size_t err_size);

/* ---- rbd_cache.c ---- */

/* The image was opened, or changed: with "lock: exclusive" it must have no object map. Returns 0,
 * -EINVAL when it has one, or another -errno; with a sentence in @err. */
int rbd_object_map_check(struct rbd_image *img, char *err, size_t err_size);
/* The image was just opened: librbd must not have a cache for it unless the configuration says so.
 * Returns 0, or -errno with a sentence in @err. */
int rbd_cache_check(struct rbd_image *img, char *err, size_t err_size);
/* A flush failed with @err, or the connection was lost: with a cache, writes that have completed
 * may be lost. Returns the result for the bio. Any thread. */
int rbd_cache_failed(struct rbd_image *img, int err);

/* ---- rbd_peers.c ---- */

/* How rarely an image looks whose lock a gateway has that is alive: in case of a mistake. */
#define RBD_QUIET_NS (60 * RD_NSEC_PER_SEC)

/* The knowledge about another gateway. */
enum rbd_heard {
	RBD_HEARD_NOT_YET, /* no recent answer; ask again */
	RBD_HEARD_ALIVE,
	RBD_HEARD_TELLS,    /* alive, and it says when it gives up a lock */
	RBD_HEARD_SILENT,   /* it did not answer two questions in a row */
	RBD_HEARD_STRANGER, /* nobody can be asked; or it does not watch: another program, or dead
			       for so long that Ceph has noticed */
};

/*
 * Worker threads, for all of these. Become one of the gateways of the pool in the background, and
 * have img->peers. Returns 0, or -errno: this gateway can ask, but does not answer, or img->peers
 * is NULL.
 */
int rbd_peers_join(struct rbd_image *img);
/* Ends in the background what waits for the network. */
void rbd_peers_leave(struct rbd_image *img);
/* Begin to answer others again if the watch was lost. Call it now and then. Returns 0, or -errno of
 * the last attempt; -ETIMEDOUT: the object of the gateways does not answer. Does not wait. */
int rbd_peers_keep(struct rbd_peers *p);
/* Waits until others see this gateway, or cannot; for a second after rbd_peers_keep() has begun at
 * most. Accepts NULL. */
void rbd_peers_await(struct rbd_peers *p);
/* Says what is known of @client (its global ID), and asks all gateways in the background, from now
 * on for RBD_QUIET_NS. When something new is known of a gateway, the jobs of images without their
 * lock run. */
enum rbd_heard rbd_peers_ask(struct rbd_peers *p, uint64_t client);
/* Has other gateways learn that the lock of some image was given up here. Accepts NULL. */
void rbd_peers_gave_up(struct rbd_peers *p);

/* ---- rbd_shared.c ---- */

/* Sets the name of the object, for the namespace @uuid. */
void rbd_shared_name(struct rbd_image *img, const uint8_t uuid[16]);
/* The image's job: reads the text, which then has to be taken over. Returns 0 or -errno. */
int rbd_shared_load(struct rbd_image *img);
/* The image's job: carries out and answers the queued writes of the shared text. */
void rbd_shared_run(struct rbd_image *img);
/* See rdt_bdev_state_read() and rdt_bdev_state_write(). */
int rbd_shared_read(struct rbd_image *img, char **text, size_t *len, uint32_t *seq);
void rbd_shared_write(struct rbd_image *img, struct rdt_bdev_state_job *job);

/* ---- rbd_handover.c ---- */

/* How long a gateway keeps a lock that it has taken, at least. A process that takes over looks more
 * often, and knows by that whether another gateway had the lock. */
#define RBD_KEEP_NS  RD_NSEC_PER_SEC
#define RBD_LOOKS_NS (100 * RD_NSEC_PER_MSEC) /* between two looks in state LOOKS */
#define RBD_COMES_NS (5 * RD_NSEC_PER_MSEC)   /* likewise COMES */

/* See struct rdt_bdev_ops. */
void rbd_handover_told(struct rbd_image *img, struct rdt_bdev_told *out);
void rbd_handover_step(struct rbd_image *img, enum rdt_hand step);
int rbd_handover_settled(const struct rbd_image *img);
int rbd_handover_give(struct rbd_image *img, char *text, size_t size);
int rbd_handover_take(struct rbd_image *img, const char *text);
/* Returns whether @bio waits for the lock. Any thread. */
bool rbd_handover_wait(struct rbd_image *img, struct rdt_bio *bio);
/* Bios do not wait any longer, because of @why, and when their time is over. Any thread. */
void rbd_handover_over(struct rbd_image *img, const char *why);
void rbd_handover_look_late(struct rbd_image *img);
/* The image's job, for all that follow. @client ("client.ID") had the lock, at @ns or later. */
void rbd_handover_saw(struct rbd_image *img, const char *client, uint64_t ns);
/* This process has taken the lock: bios end unless only the process before had it. */
void rbd_handover_locked(struct rbd_image *img);
/* The shared text was read, with its version: is it what this process has from the one before? */
bool rbd_handover_knows(struct rbd_image *img);
/* The image is served: bios that waited are executed. */
void rbd_handover_came(struct rbd_image *img);

/* ---- rbd_lock.c ---- */

/* Takes or gives up the lock as the image's claim says. The image's job only. */
/* Does a monitor say that this connection is blocked? Waits for the network. */
bool rbd_handle_is_listed(struct rbd_handle *h);
void rbd_image_settle_lock(struct rbd_image *img);
/* For how long the lock must not be given up, in ns. The image's job only. */
uint64_t rbd_image_keeps_lock(const struct rbd_image *img);
/* Does the image that is served have its lock still? Otherwise it is lost. The image's job only. */
bool rbd_image_lock_stayed(struct rbd_image *img);
/* Asks the cluster whether this connection has the lock of the image. Returns 0, -ENOENT when it
 * does not, or another -errno. The image's job only. */
int rbd_image_find_lock(struct rbd_image *img);

/* Runs the jobs of the images of @cluster that are open without their lock. Any thread. */
void rbd_clusters_kick_standby(struct rbd_clusters *clusters, const struct rbd_cluster *cluster);

/* ---- backend_rbd.c ---- */

/* Sets the operations. */
void rbd_bdev_init(struct rdt_bdev *bdev);

/* @bio has completed with bio->result; any thread. */
void rbd_bio_finish(struct rdt_bio *bio);
/* Submits @bio, which has waited, and posts it when that fails. Any thread. */
void rbd_bio_again(struct rdt_bio *bio);
/* May the image have been smaller for some time since @bio was submitted, which is within the image
 * now? librbd clips a write at the end that the image had. */
bool rbd_bio_in_doubt(struct rdt_bio *bio);
/* Another client has the image, and it is not known whether @bio was executed before. */
void rbd_bio_unknown(struct rdt_bio *bio);

#endif /* RDT_RBD_PRIV_H */
