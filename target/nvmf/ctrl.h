/* SPDX-License-Identifier: BSD-3-Clause */
/* Controllers: associations with hosts. A controller belongs to the reactor of its admin queue. */
#ifndef RDT_CTRL_H
#define RDT_CTRL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <openssl/types.h>

#include "util/log.h"
#include "util/loop.h"
#include "nvmf/text.h"
#include "nvmf/wire.h"
#include "ctrl_host.h"
#include "events.h"
#include "io_stats.h"
#include "target/nvmf/base/slots.h"
#include "target/config/tgt_limits.h"

struct rdt_attach;
struct rdt_disc_hosts;
struct rdt_listener;
struct rdt_qos_limiter;
struct rdt_qpair;
struct rdt_reactor;
struct rdt_req;
struct rdt_subsys;

#define RDT_QID_WAIT (500 * RD_NSEC_PER_MSEC)
/* Less than CAP.TO. After this time the controller becomes ready, and only namespaces whose storage
 * hangs are blocked for its host. */
#define RDT_FENCE_READY_WAIT (5 * RD_NSEC_PER_SEC)

enum rdt_ctrl_state {
	/* CC.EN is 0: fabrics commands only. Host sets EN -> ENABLING or READY */
	RDT_CTRL_DISABLED,
	/*
	 * CC.EN is set, but a dead controller of this host has commands in flight that must not be
	 * executed after newer ones (stale_write.h). They ended, or RDT_FENCE_READY_WAIT passed ->
	 * READY
	 */
	RDT_CTRL_ENABLING,
	RDT_CTRL_READY,     /* CSTS.RDY. Host clears EN -> RESETTING, sets SHN -> SHUTTING */
	RDT_CTRL_RESETTING, /* I/O queues are closing. The last one gone -> DISABLED */
	RDT_CTRL_SHUTTING,  /* I/O queues are closing. The last one gone -> SHUT */
	RDT_CTRL_SHUT,      /* CSTS.SHST complete. Host clears EN -> RESETTING */
	RDT_CTRL_DEAD,      /* the association has ended; freed with the last reference */
};

enum rdt_feature {
	RDT_FEAT_ARBITRATION,
	RDT_FEAT_POWER,
	RDT_FEAT_TEMP_OVER,
	RDT_FEAT_TEMP_UNDER,
	RDT_FEAT_WRITE_ATOMIC,
	RDT_FEAT_ASYNC_EVENT,
	RDT_FEAT_ERR_RECOVERY, /* settings with NSID 0 */
	RDT_FEATS,
};

#define RDT_TEMP_OVER_DEFAULT 0xffffu /* never exceeded: there is no sensor */

/* The key pair of a controller, made for the first of its queues that needs one. */
struct rdt_auth_pair {
	EVP_PKEY *pair;
	uint8_t group;
};

struct rdt_error_log {
	pthread_mutex_t lock;
	uint64_t count; /* added since the controller was created */
	struct nvme_error_log_page ring[RDT_ERROR_LOG];
};

#define RDT_RESV_TYPES 3u /* of enum nvme_resv_notify_rnlpt, from 1 on */

struct rdt_resv_entry {
	uint64_t count;
	uint32_t nsid;
	uint8_t type; /* enum nvme_resv_notify_rnlpt */
};

struct rdt_resv_log { /* reservation notifications: written by the main thread */
	pthread_mutex_t lock;
	uint64_t counter; /* of notifications, including those that were lost */
	unsigned int head;
	unsigned int used;
	struct rdt_resv_entry ring[RDT_RESV_LOG];
	struct rdt_slots masked[RDT_RESV_TYPES]; /* feature 82h, by type - 1 */
};

struct rdt_ioq {
	/* the owner's reactor frees it; valid until its detach message */
	struct rdt_qpair *qp;
	/* Connect of a host that reconnects, waiting until the old queue is gone */
	struct rdt_attach *waiting;
};

/* A controller on one reactor. */
struct rdt_ctrl_on {
	LIST_HEAD(, rdt_qpair) queues; /* its I/O queues; the reactor's */
	unsigned int looked;           /* rdt_ask.answers when it looked last; the reactor's */
	unsigned int queues_count;     /* I/O queues that have joined and not left; the owner's */
};

struct rdt_ctrl {
	uint32_t magic;
	struct rdt_subsys *subsys;
	struct rdt_reactor *owner;
	struct rd_log *log;
	TAILQ_ENTRY(rdt_ctrl) link;
	struct rdt_ctrl_host *host;     /* NULL before it is in @subsys */
	LIST_ENTRY(rdt_ctrl) host_link; /* host->ctrls */
	struct rdt_ctrl_path *path;     /* NULL: it is on none, or over */
	LIST_ENTRY(rdt_ctrl) path_link; /* path->ctrls */
	/* held by the admin queue, each attached I/O queue and each Connect in progress */
	atomic_uint refs;
	atomic_bool traffic; /* a command arrived since the last keep-alive check */
	/* all its commands wait, until reactors have answered that it asked: stale_write.h */
	atomic_bool fenced;
	uint16_t cntlid;
	uint8_t hostid[16];
	char hostnqn[NVMF_NQN_MAX + 1];
	struct rdt_listener *listener; /* of the admin connection; NULL in tests */
	uint8_t trtype;                /* NVMF_TRTYPE_ of the admin connection */
	bool proven;    /* its host need not authenticate, or has; guarded by subsys->lock */
	bool announced; /* the event "connected" was sent */
	struct rdt_slots hidden; /* namespaces; written under subsys->lock */
	atomic_bool retry_delay; /* feature 16h, ACRE */
	atomic_bool ending;      /* @end_msg was posted */
	atomic_bool over;        /* the controller is DEAD: no further command starts */
	atomic_bool lost;        /* its admin connection ends: its host cannot use it any more */
	/* closed I/O queues that have writes in flight; guarded by subsys->lock */
	LIST_HEAD(, rdt_qpair) lost_queues;
	/* a bit for each reactor that has an I/O queue of it; written by the owner */
	_Atomic uint64_t queue_reactors;
	struct rdt_ctrl_on *on; /* [reactors] */
	/* I/O queues that have not reported: they count as in flight everywhere */
	atomic_uint queues_unreported;
	bool dead;                      /* in host->dead; guarded by subsys->lock */
	bool unknown;                   /* it is, and counts in host->unknown; likewise */
	bool ending_unknown;            /* @end_msg counts in host->unknown */
	LIST_ENTRY(rdt_ctrl) dead_link; /* host->dead */
	/* waits for dead controllers: see fence_msg; guarded by subsys->lock */
	bool fence_waits;
	LIST_ENTRY(rdt_ctrl) waits_link; /* host->waits, while @fence_waits */
	bool fence_msg_sent;             /* @fence_msg was posted; guarded by subsys->lock */
	/* reactors that were asked and have not answered; guarded by subsys->lock */
	uint64_t reactors_asked;
	uint64_t reactors_looked;         /* those of them that are about to answer */
	LIST_ENTRY(rdt_ctrl) asking_link; /* subsys->asking, while @reactors_asked is not 0 */
	struct rdt_auth_pair auth_pair;   /* guarded by the lock of target->auth_pool */
	struct rd_msg fence_msg;
	struct rd_msg end_msg;
	const char *end_why;
	char gone_why[64]; /* why its admin queue was closed; written by the owner */

	/* The fields below belong to the owner. */
	uint8_t state; /* enum rdt_ctrl_state */
	struct rdt_qpair *admin;
	bool admin_gone; /* the admin queue has ended and waits for the last I/O queue */
	uint32_t cc;
	uint32_t csts_extra;      /* CSTS.CFS */
	_Atomic uint32_t kato_ms; /* written on the owner */
	struct rd_timer ka_timer;
	struct rd_timer fence_timer; /* ends ENABLING */
	/* the keep-alive timeout was extended once because this target was late */
	bool ka_late;
	uint16_t queues_granted;
	struct rdt_ioq *ioqs; /* [queues_max + 1], by QID; 0 unused */
	uint16_t queues_max;
	/* I/O queues that are not authenticated. They are not in @ioqs, so that another host cannot
	 * occupy the queue IDs of this controller's host. */
	LIST_HEAD(, rdt_qpair) guests;
	unsigned int guests_count;
	unsigned int ioqs_live;    /* I/O queues, guests included */
	unsigned int ioqs_drained; /* those that are drained */
	uint32_t features[RDT_FEATS];
	uint64_t timestamp_ms; /* feature 0Eh: the value that the host set */
	uint64_t timestamp_at; /* and the time of that, in ns */
	bool timestamp_set;
	struct rdt_req *aers[RDT_AER_MAX];
	unsigned int aers_count;
	unsigned int aborts;
	struct rdt_error_log errors;
	struct rdt_events events;
	struct rdt_resv_log resv_log;
	/* Limits of the host; set before other threads can find the controller. */
	struct rdt_qos_limiter *limiter;
	struct rdt_disc_hosts *disc_hosts; /* of a discovery controller: cmd/discovery.c */
};

/* ctrl.c */
int rdt_ctrl_create(struct rdt_subsys *ss, struct rdt_qpair *admin, const char *hostnqn,
		    const uint8_t hostid[16], uint32_t kato_ms, struct rdt_ctrl **out);
/* As rdt_ctrl_create(), for a controller of another process (move.h): with its ID, and proven. It
 * keeps the I/O queues that it was granted, also when target.io_queues is lower now. */
int rdt_ctrl_move_in(struct rdt_subsys *ss, struct rdt_qpair *admin, const char *hostnqn,
		     const uint8_t hostid[16], uint32_t kato_ms, uint16_t cntlid, uint16_t queues,
		     struct rdt_ctrl **out);
void rdt_ctrl_put(struct rdt_ctrl *ctrl); /* any thread */
/* @ctrl checks again, if it waits. Any thread, under subsys->lock. */
void rdt_ctrl_wake_fenced(struct rdt_ctrl *ctrl);
/* @reactors (a bit for each) do not run: unless @ctrl is over, its commands wait in the namespaces
 * where other controllers of its host, on these reactors, may have commands in flight, until the
 * reactors have answered. Returns whether commands wait. Any thread with a queue of @ctrl. */
bool rdt_ctrl_distrust(struct rdt_ctrl *ctrl, uint64_t reactors);
/* The host of @ctrl is known: writes it to the log and announces it to watching programs, once. On
 * the owner. */
void rdt_ctrl_announce(struct rdt_ctrl *ctrl);
/* The admin queue closes because of @reason, which is written to the log. On the owner. */
void rdt_ctrl_ends(struct rdt_ctrl *ctrl, const char *reason);
/*
 * May the queue join the controller, as a guest or with its ID? May a guest have its ID? On the
 * owner; the answer is a message that calls @at->attached.
 */
void rdt_ctrl_attach(struct rdt_attach *at);
void rdt_ctrl_drained(struct rdt_qpair *qp);
void rdt_ctrl_detach(struct rdt_qpair *qp);
void rdt_ctrl_set_cc(struct rdt_ctrl *ctrl, uint32_t cc);
uint32_t rdt_ctrl_csts(const struct rdt_ctrl *ctrl);
uint64_t rdt_ctrl_cap(const struct rdt_ctrl *ctrl);
void rdt_ctrl_fatal(struct rdt_ctrl *ctrl, enum rdt_end end, const char *why);
/* End the association. Any thread, under subsys->lock or with a reference. @why: a string
 * literal. */
void rdt_ctrl_end(struct rdt_ctrl *ctrl, const char *why);
void rdt_ctrl_log_error(struct rdt_ctrl *ctrl, const struct rdt_req *req);
/* Add an error of a namespace, caused by no command, to the error log; @st is the closest
 * status. */
void rdt_ctrl_log_ns_error(struct rdt_ctrl *ctrl, uint32_t nsid, struct nvme_status st);
const char *rdt_ctrl_state_name(unsigned int state);
/* Status @st of a failed command with a retry delay, if the host enabled that (feature 16h). Any
 * thread. */
struct nvme_status rdt_ctrl_retry_delay(const struct rdt_ctrl *ctrl, struct nvme_status st);

/* keep_alive.c */
void rdt_keep_alive_start(struct rdt_ctrl *ctrl, uint32_t kato_ms);
void rdt_keep_alive_stop(struct rdt_ctrl *ctrl);
static inline void rdt_keep_alive_traffic(struct rdt_ctrl *ctrl)
{
	/* Read before writing: unconditional writes by all reactors would bounce the cache line. */
	if (!atomic_load_explicit(&ctrl->traffic, memory_order_relaxed))
		atomic_store_explicit(&ctrl->traffic, true, memory_order_relaxed);
}

#endif /* RDT_CTRL_H */
