/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A simulated Ceph cluster: one OSD, one monitor, one pool and one image in it. rados.c and rbd.c
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
#define CLUSTER_BLOCKS   128u /* of the image */
#define CLUSTER_IMAGE    "disk1"
#define CLUSTER_HEADER   "header" /* the object of the image that its users watch */

/* A connection; a rados_t. Exists until the end of the cluster. */
struct client {
	LIST_ENTRY(client) link;
	struct cluster *cluster;
	struct process *process;
	uint64_t id;
	uint64_t epoch;         /* of its map */
	uint64_t blocked_epoch; /* of the map that blocks it; 0: not blocked */
	char addr[64];
	bool breaks_without_block; /* option rbd_blocklist_on_break_lock is false */
	uint64_t read_version;     /* of the shared state: the version that it knows */
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
	bool at_monitor; /* which does not refuse clients that are blocked */
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
	const char *object;
	uint64_t cookie;
	uint64_t alive_at;
};

/* What a client knows of its watch. */
struct watch {
	LIST_ENTRY(watch) link;
	struct rd_sim_event tick;
	struct client *client;
	const char *object;
	uint64_t cookie;
	rados_watchcb2_t notified;
	rados_watcherrcb_t failed;
	void *arg;
	bool told; /* that it has failed */
};

/* The image, open by a client; a rbd_image_t. */
struct opened {
	LIST_ENTRY(opened) link;
	struct client *client;
	uint64_t cookie;
	bool locked;         /* the client believes that it has the lock */
	bool by_request;     /* the lock is taken and given up by calls only */
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
	uint64_t version;
	char *text;
	size_t len;
};

struct cluster {
	struct rd_sim *sim;
	void (*violated)(void *arg, const char *text);
	void (*written)(void *arg, uint64_t value); /* a block of the image */
	void *arg;
	uint64_t stalled_until;
	uint64_t cut_until[CLUSTER_MACHINES]; /* by process->number */
	uint64_t slow_ns;                     /* an operation takes up to so much more */
	uint64_t last_id;
	uint64_t monitor_epoch, osd_epoch;
	struct rd_sim_event map_arrives, tick;
	LIST_HEAD(, client) clients;
	LIST_HEAD(, op) ops;
	LIST_HEAD(, watcher) watchers;
	LIST_HEAD(, watch) watches;
	LIST_HEAD(, opened) opened;
	LIST_HEAD(, notify) notifies;
	LIST_HEAD(, delivery) deliveries;
	struct object objects[4];
	struct client *lock_client; /* that has the lock; NULL: none */
	uint64_t lock_cookie;
	uint64_t values[CLUSTER_BLOCKS];
};

int cluster_new(struct rd_sim *sim, struct cluster **out);
void cluster_free(struct cluster *cl);
/* The process of @machine has died: what it has not sent yet never arrives. */
void cluster_process_died(struct cluster *cl, const struct process *p);
/* The clients of the machine cannot reach the cluster for so long. */
void cluster_cut(struct cluster *cl, unsigned int machine, uint64_t ns);
void cluster_stall(struct cluster *cl, uint64_t ns);
/* An operator blocks the client that has the lock. */
void cluster_block_holder(struct cluster *cl);
/* The image's users are told that it has changed, although it has not. */
void cluster_change_image(struct cluster *cl);
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
/* Waits until the client has the newest map. Returns 0 or -ESHUTDOWN. Only in a fiber. */
int client_get_map(struct client *c);
/* Has the monitor block @victim. Returns 0 or -errno. Only in a fiber. */
int client_block(struct client *c, struct client *victim);

struct watcher *watcher_of(struct cluster *cl, const struct client *c, uint64_t cookie);
void watcher_remove(struct watcher *w);
struct watch *watch_new(struct client *c, const char *object, rados_watchcb2_t notified,
			rados_watcherrcb_t failed, void *arg);
void watch_free(struct watch *watch);
/* The client has found that it does not have the watch @cookie of the header any more. */
void opened_watch_lost(struct client *c, uint64_t cookie);

#endif /* SIM_CLUSTER_H */
