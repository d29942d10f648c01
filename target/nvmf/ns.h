/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces: the main thread's objects, and what each reactor knows of them. */
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
#include "range_lock.h"
#include "reactor.h"
#include "request.h"
#include "subsys.h"

struct rdt_qos_limiter;
struct rdt_req;
struct rdt_resv;
struct rdt_resv_snap;
struct rdt_subsys;

/* A change of a namespace is done: 0, or -errno and a sentence for people. See control.h. */
typedef void (*rdt_control_done)(void *arg, int err, const char *text);

/* The main thread's. */
enum rdt_ns_state {
	RDT_NS_NEW,     /* no reactor knows it. Setup of the reactors -> LIVE, add -> JOINING */
	RDT_NS_JOINING, /* reactors open their channels. All have -> LIVE, one cannot -> LEAVING */
	RDT_NS_LIVE,    /* rdt_control_ns_remove() -> LEAVING */
	RDT_NS_LEAVING, /* no new commands; the last reactor has let go -> freed */
};

/* One reactor's part of a namespace, used on its thread only; the namespace owns the memory. */
struct rdt_ns_channel {
	struct rdt_ns *ns; /* NULL: not open here */
	struct rdt_chan *chan;
	struct rdt_counters *counters;    /* of its subsystem */
	const struct rdt_resv_snap *resv; /* the reservation that is held, or NULL */
	uint32_t inflight;                /* requests whose req->ns it is */
	uint32_t unranged;                /* I/Os that are only counted, not in the table */
	bool ranged;                      /* I/Os take their blocks in ns->range_table */
	bool range_due;                   /* to be told when unranged is 0 */
	bool leaving; /* not found any more; its last request closes the channel */
	TAILQ_ENTRY(rdt_ns_channel) link; /* reactor->channels */
};

/* What a namespace is to one reactor, and a change of it on its way there and back. Reactors write
 * to it for each command: none shares a cache line with another's. */
struct rdt_ns_post {
	struct rdt_ns_channel channel;
	struct rd_msg msg;
	struct rdt_ns *ns;
	struct rdt_reactor *reactor;
	int err; /* the answer */
} __attribute__((aligned(64)));

/*
 * On the heap, made and freed by the main thread; it lives until every reactor has let go of it.
 * A reactor reaches it through its own channel, without a lock. What is not atomic does not change
 * between the first reactor's look and the last.
 */
struct rdt_ns {
	const struct rdt_ns_config *cfg;
	struct rdt_config *cfg_of; /* the configuration @cfg is in, with a reference */
	struct rdt_subsys *subsys;
	TAILQ_ENTRY(rdt_ns) link;        /* subsys->namespaces */
	struct rdt_bdev *bdev;           /* NULL at the very end: control.c */
	struct rdt_host_list hosts;      /* that see it; under subsys->lock */
	struct rdt_qos_limiter *limiter; /* never NULL */
	struct rdt_resv *resv; /* the main thread's; made before any reactor knows the namespace */
	_Atomic uint8_t wp;    /* enum nvme_ns_write_protect_cfg: feature 84h */
	_Atomic uint16_t err_recovery; /* feature 05h: kept for hosts, means nothing to us */
	bool wp_busy;                  /* a change of it is being written; the main thread's */
	uint32_t nsid;
	unsigned int slot;       /* among all namespaces of the target; stable while it lives */
	uint8_t lbads;           /* log2 of the block size */
	_Atomic uint64_t blocks; /* changes by resize: load it once for one decision */

	struct rdt_range_table range_table;
	struct rdt_uncor uncor;

	/* below: the main thread's */
	enum rdt_ns_state state;
	bool counted;                     /* rdt_subsys_count() */
	bool planned;                     /* a reload is going to remove it */
	unsigned int posts_left;          /* reactors that have not answered */
	int err;                          /* the first failure among the answers */
	void (*moved)(struct rdt_ns *ns); /* all have answered; called once, may free @ns */
	rdt_control_done done;            /* of the change that runs: control.c */
	void *done_arg;
	int join_err;
	struct rd_timer leave_timer;
	uint64_t release_by; /* the file is closed: the kernel is believed to be done with it */
	/* The configuration last applied, for the next reload; reactors use @cfg. */
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

static inline bool rdt_ns_write_protected(const struct rdt_ns *ns)
{
	return ns->bdev->read_only || atomic_load_explicit(&ns->wp, memory_order_relaxed);
}

/* ns.c: the main thread's side */
int rdt_ns_create(struct rdt_subsys *ss, const struct rdt_ns_config *cfg, struct rdt_config *cfg_of,
		  struct rdt_bdev *bdev, struct rdt_ns **out); /* takes @bdev over when it works */
void rdt_ns_free(struct rdt_ns *ns);                           /* no reactor knows it any more */
struct rdt_ns *rdt_ns_of(const struct rdt_subsys *ss, uint32_t nsid);   /* not a leaving one */
struct rdt_ns *rdt_ns_with(const struct rdt_subsys *ss, uint32_t nsid); /* that one too */
/* A namespace counts, or does not any more: ns_count, ops_mask, volatile_cache. */
void rdt_subsys_count(struct rdt_ns *ns, bool counts);
/* Send @fn to every reactor; each answers with rdt_ns_answer(), the last answer calls @moved. */
void rdt_ns_post(struct rdt_ns *ns, void (*fn)(struct rd_msg *msg),
		 void (*moved)(struct rdt_ns *ns));

/* ns_protect.c: feature 84h */
int rdt_ns_protect_open(struct rdt_ns *ns); /* main thread; restores it, logs why it cannot */
/* Store @wp for req->ns, which @req holds. The answer completes @req. */
enum rdt_exec rdt_ns_protect(struct rdt_req *req, uint8_t wp);

/* ns_channel.c: a reactor's side, on its thread */
int rdt_ns_channel_init(struct rdt_reactor *r);
void rdt_ns_channel_fini(struct rdt_reactor *r);
int rdt_ns_channel_open(struct rdt_reactor *r, struct rdt_ns *ns); /* a channel; not found yet */
void rdt_ns_channel_show(struct rdt_reactor *r,
			 struct rdt_ns *ns); /* commands find it from here on */
void rdt_ns_channel_close(struct rdt_reactor *r, struct rdt_ns *ns);
void rdt_ns_channel_close_all(struct rdt_reactor *r);
void rdt_ns_channel_hide(struct rdt_reactor *r, struct rdt_ns *ns); /* not found any more */
/* Once hidden: what is in flight completes or is cut short. Answers when that is over. */
void rdt_ns_channel_leave(struct rdt_reactor *r, struct rdt_ns *ns);
void rdt_ns_answer(struct rdt_ns_post *post, int err);
struct rdt_ns *rdt_ns_find(struct rdt_reactor *r, const struct rdt_subsys *ss, uint32_t nsid);
/* The next one by NSID after @nsid (0: the first), or NULL. */
struct rdt_ns *rdt_ns_next(struct rdt_reactor *r, const struct rdt_subsys *ss, uint32_t nsid);
/* The same for the host of @req: what it does not see is not there. */
struct rdt_ns *rdt_ns_seen(const struct rdt_req *req, uint32_t nsid);
struct rdt_ns *rdt_ns_seen_next(const struct rdt_req *req, uint32_t nsid);
/* Find the namespace of a command and hold it until the request is finished: sets req->ns and
 * req->channel. */
bool rdt_ns_take(struct rdt_req *req, uint32_t nsid);
static inline void rdt_ns_release(struct rdt_req *req)
{
	struct rdt_reactor *r = req->qp->reactor;
	struct rdt_ns_channel *channel = req->channel;

	assert(channel->ns == req->ns && channel->inflight);
	req->ns = NULL;
	/* Not here: we may be inside the channel. */
	if (--channel->inflight == 0 && channel->leaving)
		rd_defer(r->loop, &r->ns_leave, RD_DEFER_WORK);
}

#endif /* RDT_NS_H */
