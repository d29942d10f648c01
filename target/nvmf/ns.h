/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces: the main thread's objects, and their channels on the reactors. */
#ifndef RDT_NS_H
#define RDT_NS_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/loop.h"
#include "target/bdev/backend.h"
#include "target/config/config.h"
#include "target/resv/identity.h"
#include "io_stats.h"
#include "target/nvmf/base/ns_marks.h"
#include "range_lock.h"
#include "reactor.h"
#include "request.h"
#include "stall.h"
#include "subsys.h"

struct rdt_gate;
struct rdt_ns_job;
struct rdt_qos_limiter;
struct rdt_req;
struct rdt_resv;
struct rdt_resv_snap;
struct rdt_subsys;

/* Called when a change of a namespace has ended. @err: 0, or -errno with a sentence in @text. See
 * control.h. */
typedef void (*rdt_control_done)(void *arg, int err, const char *text);

struct rdt_ns_waiter {
	rdt_control_done done;
	void *arg;
	SLIST_ENTRY(rdt_ns_waiter) link;
};

/* Namespaces that leave and use the same storage, in target->leaving. Used by the main thread. */
struct rdt_leaving {
	uint64_t storage; /* ns->storage of all of them */
	unsigned int count;
	LIST_HEAD(, rdt_ns) waiting; /* namespaces that open the storage when all have left */
};

/* Used by the main thread. What each state means for hosts and operators:
 * docs/design/reconciler.md. */
enum rdt_ns_state {
	/* Unknown to reactors; its storage is being opened, or is still used by a namespace
	 * that leaves. Open -> JOINING, or LIVE before the reactors run; error -> FAILED;
	 * removed -> freed */
	RDT_NS_OPENING,
	/* As OPENING, after a failure, with the reason in @why. Opening is retried; the same
	 * transitions */
	RDT_NS_FAILED,
	RDT_NS_JOINING, /* reactors open channels. All succeeded -> LIVE, one failed -> LEAVING */
	RDT_NS_LIVE,    /* rdt_control_ns_remove() -> LEAVING */
	RDT_NS_LEAVING, /* no new commands. All reactors have closed their channels -> freed */
};

/* The channel of a namespace on one reactor, used only on its thread. The namespace owns the
 * memory. */
struct rdt_ns_channel {
	struct rdt_ns *ns; /* NULL: not open here */
	struct rdt_chan *chan;
	struct rdt_pool_device *device;   /* device of its data buffers; NULL: none */
	struct rdt_counters *counters;    /* those of its subsystem */
	const struct rdt_resv_snap *resv; /* snapshot of the reservation; NULL: none */
	uint64_t taken;                   /* earlier commands must not do I/O: rdt_io_submit() */
	uint32_t inflight;                /* number of requests whose req->ns is @ns */
	/* number of I/O commands that are counted instead of locking ranges: range_lock.c */
	uint32_t unranged;
	bool ranged;    /* I/O commands lock ranges in ns->range_table */
	bool range_due; /* report to the namespace when @unranged becomes 0 */
	bool leaving;   /* hidden from commands; the last request closes the channel */
	bool gated;     /* I/O waits at the gate: gate.c */
	struct rdt_stall_of stall;
	TAILQ_ENTRY(rdt_ns_channel) link; /* reactor->channels */
};

/* One for each reactor: the channel, and a message to the reactor and back. Aligned to cache lines,
 * because the reactor writes to it for each command. */
struct rdt_ns_post {
	struct rdt_ns_channel channel;
	struct rd_msg msg;
	struct rdt_ns *ns;
	struct rdt_reactor *reactor;
	int err; /* the reactor's reply */
	/* Counters, kept when the channel closes. NULL: nothing was counted. Freed with @ns. */
	_Atomic(struct rdt_ns_stats *) stats;
	struct rdt_in_flight in_flight;
} __attribute__((aligned(64)));

/* Created by the main thread, and freed by it after every reactor has closed its channel. Reactors
 * access it through their channel without a lock. Fields that are not atomic do not change while a
 * reactor can access them. */
struct rdt_ns {
	const struct rdt_ns_config *cfg;
	struct rdt_config *cfg_of; /* the configuration that contains @cfg; a reference */
	struct rdt_subsys *subsys;
	struct rdt_identity_user identity; /* identity.id is not NULL while @bdev is not */
	TAILQ_ENTRY(rdt_ns) link;          /* subsys->namespaces */
	struct rdt_bdev *bdev;             /* never NULL while a reactor can see the namespace */
	struct rdt_host_list hosts;        /* hosts that see it; guarded by subsys->lock */
	struct rdt_qos_limiter *limiter;   /* never NULL */
	struct rdt_resv *resv;        /* main thread; set before a reactor knows the namespace */
	struct rdt_ns_marks *marks;   /* entry in target->ns_marks, by @slot */
	atomic_bool read_only;        /* read-only by the configuration */
	_Atomic uint8_t wp;           /* enum nvme_ns_write_protect_cfg: feature 84h */
	struct rdt_gate *gate;        /* gate.c; NULL: it was never closed. Set by the main thread
				       * before a reactor is told */
	bool wp_busy;                 /* a change of @wp is being stored; main thread only */
	struct rd_ratelimit wp_limit; /* log lines about changes of @wp */
	uint32_t nsid;
	/* index among all namespaces of the target; constant */
	unsigned int slot;
	uint8_t lbads;           /* log2 of the block size */
	_Atomic uint64_t blocks; /* changes with a resize: read it once per decision */

	struct rdt_range_table range_table;
	struct rdt_uncor uncor;

	/* The fields below belong to the main thread. */
	enum rdt_ns_state state;
	bool counted;   /* included by rdt_subsys_count() */
	bool listed;    /* in target->ns_map, so it is not one that leaves */
	bool leave_due; /* JOINING: leaves as soon as all reactors have joined */
	bool left;      /* LEAVING: no channel is open any more */
	/* In a hand-over: I/O of the process that hands over may still end in its storage. In the
	 * next process: its gate is closed */
	bool left_behind;
	uint64_t storage; /* rd_map_hash() of rdt_config_storage(); 0: memory */
	/* OPENING, FAILED: the leaving namespaces that still use its storage; NULL: none */
	struct rdt_leaving *waits;
	LIST_ENTRY(rdt_ns) waiting; /* waits->waiting, if @waits is not NULL */
	struct rdt_leaving *leaves; /* LEAVING: the group to which it belongs; otherwise NULL */
	bool moves;                 /* included in target->ns_moving */
	unsigned int posts_left;    /* reactors that have not replied yet */
	int err;                    /* the first error among their replies */
	/* called once when all reactors have replied; may free @ns */
	void (*moved)(struct rdt_ns *ns);
	/* clients waiting for the current change: control.c */
	SLIST_HEAD(rdt_ns_waiters, rdt_ns_waiter) waiters;
	int join_err;
	struct rdt_ns_job *job; /* a call in progress that may block; NULL: none */
	char *why;              /* FAILED: the reason as a sentence; NULL if memory was short */
	char *mismatch;         /* what its path names, if it is not what is open; or NULL */
	int64_t mismatch_since; /* time(2) */
	bool comparing;         /* being compared: compare.c */
	uint32_t standby_group; /* where it counts as standby; 0: nowhere. opening.c */
	/* In target->bdev_changes, under its lock. */
	bool bdev_changed;
	TAILQ_ENTRY(rdt_ns) changed_link;
	bool has_path; /* in target->with_path */
	TAILQ_ENTRY(rdt_ns) path_link;
	int why_err;           /* FAILED: the error */
	unsigned int tries;    /* to open it, since it was added or retried by an operator */
	uint64_t retry_at;     /* FAILED: next attempt, ns; 0: @job or the backend decides */
	struct rd_timer timer; /* OPENING, FAILED: the next attempt; LEAVING: see control.c */
	uint64_t since;        /* when @state began: ns */
	uint64_t give_up_at;   /* OPENING, LEAVING: how long a file may be busy: ns */
	/* The configuration that was applied last, for the next reload. Reactors use @cfg. */
	const struct rdt_ns_config *now;
	struct rdt_config *now_of;
	struct rdt_ns_post posts[]; /* by reactor->index */
};

static inline uint64_t rdt_ns_key(const struct rdt_subsys *ss, uint32_t nsid)
{
	return (uint64_t)ss->index << 32 | nsid;
}

static inline struct rdt_ns_channel *rdt_ns_channel_of(const struct rdt_reactor *r,
						       struct rdt_ns *ns)
{
	return &ns->posts[r->index].channel;
}

static inline const uint8_t *rdt_ns_uuid(const struct rdt_ns *ns) /* only with a backend */
{
	return ns->identity.id->uuid;
}

/* Returns the 16 bytes of the NGUID, from the configuration, from state_dir or from the storage, or
 * NULL if there is none. Only with a backend. */
static inline const uint8_t *rdt_ns_nguid(const struct rdt_ns *ns)
{
	if (ns->cfg->nguid)
		return ns->cfg->nguid_bytes;
	if (ns->identity.id->nguid)
		return ns->identity.id->uuid;
	return ns->bdev->has_nguid ? ns->bdev->nguid : NULL;
}

static inline bool rdt_ns_write_protected(const struct rdt_ns *ns)
{
	return ns->bdev->read_only || atomic_load_explicit(&ns->read_only, memory_order_relaxed) ||
	       atomic_load_explicit(&ns->wp, memory_order_relaxed);
}

static inline uint32_t rdt_ns_ana_group(const struct rdt_ns *ns)
{
	return atomic_load_explicit(&ns->marks->ana_group, memory_order_relaxed);
}

/* ns.c: the main thread's side */
/* Creates a namespace in state OPENING, without a backend. */
int rdt_ns_create(struct rdt_subsys *ss, const struct rdt_ns_config *cfg, struct rdt_config *cfg_of,
		  struct rdt_ns **out);
/* Attach @bdev, which @ns owns on success, and restore its reservations and write protection from
 * @stored. Returns 0, or -errno, possibly with a sentence in @said. */
int rdt_ns_attach(struct rdt_ns *ns, struct rdt_bdev *bdev, const struct rdt_state_ns *stored,
		  char *said, size_t size);
/* Detach the backend and return it; it does not use @ns any more. NULL: there is none. */
struct rdt_bdev *rdt_ns_detach(struct rdt_ns *ns);
void rdt_ns_free(struct rdt_ns *ns); /* no reactor may have a channel, and @job must be NULL */
void rdt_ns_set_state(struct rdt_ns *ns, enum rdt_ns_state state);
/* @ns leaves: another namespace may have its NSID from now on, and its storage after
 * rdt_leaving_ends(). Returns 0 or -ENOMEM. */
int rdt_ns_unlist(struct rdt_ns *ns);
/* Returns the leaving namespaces that use the storage of @ns; NULL: none. */
struct rdt_leaving *rdt_ns_leaving(const struct rdt_ns *ns);
/* Let @ns wait for @leaving; NULL: it does not wait any more. */
void rdt_ns_wait(struct rdt_ns *ns, struct rdt_leaving *leaving);
/* A namespace of @leaving has left. Returns true if it was the last one; the caller then opens the
 * waiting namespaces and frees @leaving. */
bool rdt_leaving_ends(struct rdt_target *t, struct rdt_leaving *leaving);
/* The backend of @ns is open: read its size and the other properties that are known only after
 * opening. */
void rdt_ns_take_backend(struct rdt_ns *ns);
/* @ns becomes LIVE when the reactors start. */
void rdt_ns_begin(struct rdt_ns *ns);
/* returns NULL if there is none, or it leaves */
struct rdt_ns *rdt_ns_with(const struct rdt_subsys *ss, uint32_t nsid);
/* Update the summaries of the subsystem: ns_count, ops_mask, volatile_cache. */
void rdt_subsys_count(struct rdt_ns *ns, bool counts);
/* Run @fn on every reactor; each replies by rdt_ns_answer(), and the last reply calls @moved.
 * @waits: the replies may wait for storage. */
void rdt_ns_post(struct rdt_ns *ns, void (*fn)(struct rd_msg *msg),
		 void (*moved)(struct rdt_ns *ns), bool waits);

/* ns_protect.c: the key read_only, like rdt_subsys_follow_hosts(); feature 84h */
int rdt_ns_follow_read_only(struct rdt_ns *ns, const struct rdt_ns_config *now,
			    const struct rdt_ns_config *next);
/* restores the stored state, or says in @said why it cannot; main thread */
int rdt_ns_protect_open(struct rdt_ns *ns, const struct rdt_state_text *stored, char *said,
			size_t size);
/* Store @wp for req->ns, to which @req holds a reference. Completes @req afterwards. */
enum rdt_exec rdt_ns_protect(struct rdt_req *req, uint8_t wp);

/* ns_channel.c: a reactor's side, on its thread */
int rdt_ns_channel_init(struct rdt_reactor *r);
void rdt_ns_channel_fini(struct rdt_reactor *r);
/* opens a channel, not yet visible to commands */
int rdt_ns_channel_open(struct rdt_reactor *r, struct rdt_ns *ns);
void rdt_ns_channel_show(struct rdt_reactor *r,
			 struct rdt_ns *ns); /* makes it visible to commands */
void rdt_ns_channel_close(struct rdt_reactor *r, struct rdt_ns *ns);
void rdt_ns_channel_close_all(struct rdt_reactor *r);
/* makes it invisible to commands */
void rdt_ns_channel_hide(struct rdt_reactor *r, struct rdt_ns *ns);
/* Wait for the commands in flight on the hidden channel, or cancel them, then reply. */
void rdt_ns_channel_leave(struct rdt_reactor *r, struct rdt_ns *ns);
void rdt_ns_answer(struct rdt_ns_post *post, int err);
/* Returns all namespaces of @ss above @nsid that are visible on this reactor, in the order of
 * NSIDs, up to @end. Valid until a namespace is shown or hidden. */
const struct rdt_ns_place *rdt_ns_places(const struct rdt_reactor *r, const struct rdt_subsys *ss,
					 uint32_t nsid, const struct rdt_ns_place **end);
static inline uint32_t rdt_ns_place_nsid(const struct rdt_ns_place *place)
{
	return (uint32_t)place->key;
}
/* Return a namespace that the host of @req sees: @nsid or, for rdt_ns_seen_next(), the one with the
 * lowest NSID above @nsid; or NULL. */
struct rdt_ns *rdt_ns_seen(const struct rdt_req *req, uint32_t nsid);
struct rdt_ns *rdt_ns_seen_next(const struct rdt_req *req, uint32_t nsid);
/* Look up the namespace of a command, and set req->ns and req->channel, which stay valid until
 * rdt_ns_release(). */
bool rdt_ns_take(struct rdt_req *req, uint32_t nsid);
static inline void rdt_ns_release(struct rdt_req *req)
{
	struct rdt_reactor *r = req->qp->reactor;
	struct rdt_ns_channel *channel = req->channel;

	assert(channel->ns == req->ns && channel->inflight);
	req->ns = NULL;
	/* Deferred, because the caller may be inside a function of this channel. */
	if (--channel->inflight == 0 && channel->leaving)
		rd_defer(r->loop, &r->ns_leave, RD_DEFER_WORK);
}

#endif /* RDT_NS_H */
