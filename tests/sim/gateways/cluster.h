/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A simulated Ceph cluster: one OSD, one monitor, two pools and images in them. rados.c and rbd.c
 * have the functions of librados and librbd that the product calls.
 *
 * A client's operation arrives after some time, is executed, and its answer arrives after some
 * time. While the machine of the client is cut off from the cluster both wait. The OSD refuses the
 * operations of a client that is blocked, as soon as it has the map of the OSDs that says so: after
 * some time, or with the first operation of a client that has that map.
 */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include <rados/librados.h>
#include <rbd/librbd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "fiber.h"
#include "../disk.h"

#define CLUSTER_MACHINES 2u
#define CLUSTER_BLOCKS   128u /* of each image, at most */
#define CLUSTER_SIZES    3u   /* cluster_sizes */
#define CLUSTER_IMAGES   3u   /* that hosts use */
/* More images, of the last pool: more than threads of a queue of jobs. */
#define CLUSTER_CROWD 20u
#define CLUSTER_ALL   (CLUSTER_IMAGES + CLUSTER_CROWD)
#define CLUSTER_POOLS 2u
#define CLUSTER_POOL  "pool%u" /* the name of a pool */
#define CLUSTER_IMAGE "disk%u" /* the name of an image */

struct image {
	unsigned int number, pool;
	char name[16];
	char header[32];               /* the object that its users watch */
	struct client *lock_client;    /* that has the lock; NULL: none */
	const struct client *had_lock; /* that had it last */
	uint64_t lock_cookie;
	unsigned int blocks; /* one of cluster_sizes */
	uint64_t resized_at;
	uint64_t values[CLUSTER_BLOCKS]; /* also behind @blocks, where nobody sees them */
};

/* A connection; a rados_t. Exists until the end of the cluster. */
struct client {
	LIST_ENTRY(client) link;
	struct cluster *cluster;
	struct process *process;
	uint64_t id;
	uint64_t epoch;                     /* of its map */
	uint64_t blocked_epoch;             /* of the map that blocks it; 0: not blocked */
	uint64_t blocked_at, blocked_until; /* of cluster_time() */
	bool block_may_end;    /* by what the documents say it may write after that time */
	uint64_t unblocked_at; /* when it was blocked no longer; 0: never */
	char addr[64];
	bool breaks_without_block; /* option rbd_blocklist_on_break_lock is false */
	bool zero_copy;            /* option rbd_disable_zero_copy_writes is false */
	/* The client of which it has broken a lock last, and since when (cluster_time()) it knows
	 * that. */
	const struct client *broken;
	uint64_t broken_at;
};

/* An operation. Embedded; exists until done(). */
struct op {
	struct rd_sim_event event;
	LIST_ENTRY(op) link;
	struct client *client;
	/* At the cluster. Returns a result, or -EINPROGRESS: op_answer() comes later. */
	int (*exec)(struct op *op);
	void (*done)(struct op *op); /* at the client, with op->result */
	int result;
	bool at_monitor;   /* which does not refuse clients that are blocked */
	unsigned int pool; /* of the object; not @at_monitor */
	enum { OP_UNDER_WAY, OP_WAITS, OP_ANSWERED } state;
	bool was_cut;   /* since it was executed */
	bool too_late;  /* the process was dead already */
	uint64_t epoch; /* of the client's map when it was sent */
	struct fiber_list waiting;
};

/* What the OSD knows of a watch. */
struct watcher {
	LIST_ENTRY(watcher) link;
	struct client *client;
	unsigned int pool;
	const char *object;
	uint64_t cookie;
	uint64_t alive_at;
};

/* What a client knows of its watch. */
struct watch {
	LIST_ENTRY(watch) link;
	struct rd_sim_event tick;
	struct client *client;
	unsigned int pool;
	const char *object;
	uint64_t cookie;
	rados_watchcb2_t notified;
	rados_watcherrcb_t failed;
	void *arg;
	bool told; /* that it has failed */
};

/* An image, open by a client; a rbd_image_t. */
struct opened {
	LIST_ENTRY(opened) link;
	struct client *client;
	struct image *image;
	/* When it was told last who has the lock, of cluster_time(), and which thread asked. */
	uint64_t owner_read_at;
	const struct fiber *owner_reader;
	uint64_t cookie;
	bool locked;     /* the client believes that it has the lock */
	bool by_request; /* the lock is taken and given up by calls only */
	/* When the client was told last that it has no lock for a write; 0: not since it took it.
	 */
	uint64_t refused_at;
	unsigned int writes; /* in flight */
	unsigned int ios;
	struct fiber_list idle;
	struct watch *header;
	rbd_update_callback_t changed;
	void *changed_arg;
	struct rd_sim_event change; /* the callback is due */
};

struct object {
	char name[64]; /* "": not used */
	unsigned int pool;
	uint64_t version;
	char *text;
	size_t len;
};

struct cluster {
	struct rd_sim *sim;
	void (*violated)(void *arg, const char *text);
	void (*written)(void *arg, uint64_t value); /* a block of an image */
	/* A block of an image is cut off. Returns what it has when the image grows again. */
	uint64_t (*trimmed)(void *arg, unsigned int image, unsigned int block);
	void *arg;
	uint64_t stalled_until;
	uint64_t cut_until[CLUSTER_MACHINES]; /* by process->number */
	uint64_t hangs_until[CLUSTER_POOLS];  /* its objects do not answer, or did not until then */
	uint64_t slow_ns;                     /* an operation takes up to so much more */
	uint64_t last_id;
	uint64_t monitor_epoch, osd_epoch;
	struct rd_sim_event map_arrives, tick;
	uint64_t aged_ns; /* time that has passed with nothing happening, but for blocks that end */
	uint64_t aged_at; /* when that was; 0: never */
	uint64_t taken_at; /* of cluster_time(): when an operator told a gateway to take a lock */
	LIST_HEAD(, client) clients;
	LIST_HEAD(, op) ops;
	LIST_HEAD(, watcher) watchers;
	LIST_HEAD(, watch) watches;
	LIST_HEAD(, opened) opened;
	LIST_HEAD(, notify) notifies;
	LIST_HEAD(, delivery) deliveries;
	struct object objects[8];
	unsigned int images_count; /* CLUSTER_IMAGES or CLUSTER_ALL */
	struct image images[CLUSTER_ALL];
};

int cluster_new(struct rd_sim *sim, struct cluster **out);
void cluster_free(struct cluster *cl);
/* The process of @machine has died: what it has not sent yet never arrives. */
void cluster_process_died(struct cluster *cl, const struct process *p);
/* The clients of the machine cannot reach the cluster for so long. */
void cluster_cut(struct cluster *cl, unsigned int machine, uint64_t ns);
void cluster_stall(struct cluster *cl, uint64_t ns);
/* The objects of a pool do not answer. */
void cluster_hang_pool(struct cluster *cl, unsigned int pool, uint64_t ns);
/* An operator blocks the client that has the lock of the image. */
void cluster_block_holder(struct cluster *cl, unsigned int image);
/* Hours pass, or days, while a gateway stands still: blocks end that need not last so long. */
void cluster_ages(struct cluster *cl, bool days);
/* An operator removes the blocks of clients that have nothing left to write. */
void cluster_unblock(struct cluster *cl);
/* Numbers of blocks that an image may have; the first is the largest. */
extern const unsigned int cluster_sizes[CLUSTER_SIZES];
/* An operator changes the size of the image, to the same one perhaps; its users are told. The
 * client that has the lock carries that out; nothing happens while it cannot. */
void cluster_resize(struct cluster *cl, unsigned int image, unsigned int blocks);
/* Ends what lasts. */
void cluster_heal(struct cluster *cl);
void cluster_violated(struct cluster *cl, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- for rados.c and rbd.c ---- */

struct client *client_new(struct cluster *cl, struct process *p);
bool client_reaches(const struct client *c);
/* Sends @op, whose exec and done are set. */
void op_send(struct client *c, struct op *op);
void op_answer(struct op *op, int result);
/* Sends it and waits for its result. Only in a fiber. */
int op_call(struct client *c, struct op *op);
/* An answer of the monitor, without a map. Returns 0 or -ESHUTDOWN. Only in a fiber. */
int client_ask_monitor(struct client *c);
/* Waits until the client has the newest map. Returns 0 or -ESHUTDOWN. Only in a fiber. */
int client_get_map(struct client *c);
uint64_t cluster_time(const struct cluster *cl);
#define BLOCK_DEFAULT (3600 * RD_NSEC_PER_SEC)
/* Has the monitor block @victim. @may_end: see struct client. Returns 0 or -errno. Only in a fiber.
 */
int client_block(struct client *c, struct client *victim, uint64_t ns, bool may_end);
/* @c is about to have @owner blocked: one block of a gateway must do for all its images. */
void look_whether_blocked_again(const struct client *c, const struct client *owner);
/* Does @o have a write on the way to the cluster? */
bool opened_writes(const struct opened *o);

/* The image, as the process has it open; NULL: it has not. */
const struct opened *opened_by(const struct cluster *cl, const struct process *p,
			       const struct image *image);
struct watcher *watcher_of(struct cluster *cl, const struct client *c, uint64_t cookie);
void watcher_remove(struct watcher *w);
/* Until when the objects of the pool do not answer. */
uint64_t pool_away_until(const struct cluster *cl, unsigned int pool);
struct watch *watch_new(struct client *c, unsigned int pool, const char *object,
			rados_watchcb2_t notified, rados_watcherrcb_t failed, void *arg);
void watch_free(struct watch *watch);
/* The users of the image are told of the change now. */
void opened_told(struct opened *o);
/* The client has found that it does not have the watch @cookie of the header any more. */
void opened_watch_lost(struct client *c, uint64_t cookie);

#endif /* SIM_CLUSTER_H */
