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
/* The longest wait of a new controller in ENABLING; less than CAP.TO. After it the controller
 * becomes ready, so that its host can use the namespaces whose storage does not hang. */
#define RDT_FENCE_READY_WAIT (5 * RD_NSEC_PER_SEC)

enum rdt_ctrl_state {
	/* CC.EN is 0: only fabrics commands. Host sets EN -> ENABLING or READY */
	RDT_CTRL_DISABLED,
	/* CC.EN is set, but a dead controller of this host has commands in flight that must not be
	 * executed after newer ones (stale_write.h). All of them ended, or RDT_FENCE_READY_WAIT
	 * passed -> READY */
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
	RDT_FEAT_ERR_RECOVERY, /* for NSID 0 */
	RDT_FEATS,
};

#define RDT_TEMP_OVER_DEFAULT 0xffffu /* never exceeded, because there is no sensor */

/* The Diffie-Hellman key pair of a controller, generated for the first queue that needs it. */
struct rdt_auth_pair {
	EVP_PKEY *pair;
	uint8_t group;
};

struct rdt_error_log {
	pthread_mutex_t lock;
	uint64_t count; /* errors since the controller was created */
	struct nvme_error_log_page ring[RDT_ERROR_LOG];
};

#define RDT_RESV_TYPES 3u /* types of enum nvme_resv_notify_rnlpt, which begin at 1 */

struct rdt_resv_entry {
	uint64_t count;
	uint32_t nsid;
	uint8_t type; /* enum nvme_resv_notify_rnlpt */
};

struct rdt_resv_log { /* reservation notifications: written by the main thread */
	pthread_mutex_t lock;
	uint64_t counter; /* counts notifications, including dropped ones */
	unsigned int head;
	unsigned int used;
	struct rdt_resv_entry ring[RDT_RESV_LOG];
	struct rdt_slots masked[RDT_RESV_TYPES]; /* feature 82h, by type - 1 */
};

struct rdt_ioq {
	/* freed by its reactor; valid until its detach message */
	struct rdt_qpair *qp;
	/* a Connect that waits until the old queue with this ID has ended */
	struct rdt_attach *waiting;
};

/* The part of a controller that concerns one reactor. */
struct rdt_ctrl_on {
	LIST_HEAD(, rdt_qpair) queues; /* its I/O queues there; used by that reactor */
	unsigned int looked;           /* rdt_ask.answers at its last check; used by that reactor */
	unsigned int queues_count;     /* attached I/O queues there; used by the owner */
};

struct rdt_ctrl {
	uint32_t magic;
	struct rdt_subsys *subsys;
	struct rdt_reactor *owner;
	struct rd_log *log;
	TAILQ_ENTRY(rdt_ctrl) link;
	struct rdt_ctrl_host *host;     /* NULL before it is in @subsys */
	LIST_ENTRY(rdt_ctrl) host_link; /* host->ctrls */
	struct rdt_ctrl_path *path;     /* NULL: not authenticated yet, or over */
	LIST_ENTRY(rdt_ctrl) path_link; /* path->ctrls */
	/* held by the admin queue, each attached I/O queue and each Connect in progress */
	atomic_uint refs;
	atomic_bool traffic; /* a command arrived since the last keep-alive check */
	/* its commands wait until the reactors that it asked have answered: stale_write.h */
	atomic_bool fenced;
	uint16_t cntlid;
	uint8_t hostid[16];
	char hostnqn[NVMF_NQN_MAX + 1];
	struct rdt_listener *listener; /* of the admin connection; NULL in tests */
	uint8_t trtype;                /* NVMF_TRTYPE_ of the admin connection */
	bool authenticated; /* its host has authenticated, or need not; guarded by subsys->lock */
	bool announced;     /* the event "connected" was sent */
	struct rdt_slots hidden; /* invisible namespaces; written under subsys->lock */
	atomic_bool retry_delay; /* feature 16h, ACRE */
	atomic_bool ending;      /* @end_msg was posted */
	atomic_bool over;        /* the controller is DEAD: no further command starts */
	atomic_bool lost;        /* its admin connection ends, so its host cannot use it any more */
	/* closed I/O queues that have writes in flight; guarded by subsys->lock */
	LIST_HEAD(, rdt_qpair) lost_queues;
	/* bit mask of the reactors with an I/O queue of it; written by the owner */
	_Atomic uint64_t queue_reactors;
	struct rdt_ctrl_on *on; /* [reactors] */
	/* I/O queues that have not reported yet: each counts as having writes in every namespace */
	atomic_uint queues_unreported;
	bool dead;                      /* in host->dead; guarded by subsys->lock */
	bool unknown;                   /* counts in host->unknown; likewise */
	bool ending_unknown;            /* @end_msg counts in host->unknown */
	LIST_ENTRY(rdt_ctrl) dead_link; /* host->dead */
	/* waits until dead controllers have ended: see fence_msg; guarded by subsys->lock */
	bool fence_waits;
	LIST_ENTRY(rdt_ctrl) waits_link; /* host->waits, while @fence_waits */
	bool fence_msg_sent;             /* @fence_msg was posted; guarded by subsys->lock */
	/* bit mask of the reactors that were asked and have not answered; guarded by
	 * subsys->lock */
	uint64_t reactors_asked;
	uint64_t reactors_looked;         /* those of @reactors_asked that are about to answer */
	LIST_ENTRY(rdt_ctrl) asking_link; /* subsys->asking, while @reactors_asked is not 0 */
	struct rdt_auth_pair auth_pair;   /* guarded by the lock of target->auth_pool */
	struct rd_msg fence_msg;
	struct rd_msg end_msg;
	const char *end_why;
	char gone_why[64]; /* the reason why its admin queue was closed; written by the owner */

	/* The fields below belong to the owner. */
	uint8_t state; /* enum rdt_ctrl_state */
	struct rdt_qpair *admin;
	bool admin_gone; /* the admin queue has ended and waits for the last I/O queue */
	uint32_t cc;
	uint32_t csts_extra;      /* CSTS.CFS */
	_Atomic uint32_t kato_ms; /* written on the owner */
	struct rd_timer ka_timer;
	struct rd_timer fence_timer; /* ends ENABLING */
	/* one more keep-alive interval was granted, because this target was late */
	bool ka_late;
	uint16_t queues_granted;
	struct rdt_ioq *ioqs; /* [queues_max + 1], by QID; 0 unused */
	uint16_t queues_max;
	/* I/O queues that have not authenticated yet. They are not in @ioqs, so that another host
	 * cannot occupy the queue IDs of this controller's host. */
	LIST_HEAD(, rdt_qpair) guests;
	unsigned int guests_count;
	unsigned int ioqs_live;    /* I/O queues, guests included */
	unsigned int ioqs_drained; /* of these, drained ones */
	uint32_t features[RDT_FEATS];
	uint64_t timestamp_ms; /* feature 0Eh: the value that the host set */
	uint64_t timestamp_at; /* when it was set, in ns */
	bool timestamp_set;
	struct rdt_req *aers[RDT_AER_MAX];
	unsigned int aers_count;
	unsigned int aborts;
	struct rdt_error_log errors;
	struct rdt_events events;
	struct rdt_resv_log resv_log;
	/* QoS limits of the host; set before other threads can find the controller. */
	struct rdt_qos_limiter *limiter;
	struct rdt_disc_hosts *disc_hosts; /* of a discovery controller: cmd/discovery.c */
};

/* ctrl.c */
int rdt_ctrl_create(struct rdt_subsys *ss, struct rdt_qpair *admin, const char *hostnqn,
		    const uint8_t hostid[16], uint32_t kato_ms, struct rdt_ctrl **out);
/* Like rdt_ctrl_create(), for a controller that moves in from another process (move.h): it keeps
 * its ID, and its host counts as authenticated. It also keeps the number of I/O queues that it was
 * granted, even if target.io_queues is lower now. */
int rdt_ctrl_move_in(struct rdt_subsys *ss, struct rdt_qpair *admin, const char *hostnqn,
		     const uint8_t hostid[16], uint32_t kato_ms, uint16_t cntlid, uint16_t queues,
		     struct rdt_ctrl **out);
void rdt_ctrl_put(struct rdt_ctrl *ctrl); /* any thread */
/* Let @ctrl check again whether it is still fenced, if it waits for that. Any thread, under
 * subsys->lock. */
void rdt_ctrl_wake_fenced(struct rdt_ctrl *ctrl);
/* The reactors in the bit mask @reactors are blocked. Unless @ctrl is over, its commands wait in
 * the namespaces where other controllers of its host may have commands in flight on these reactors,
 * until they answer. Returns whether commands wait. Any thread with a queue of @ctrl. */
bool rdt_ctrl_distrust(struct rdt_ctrl *ctrl, uint64_t reactors);
/* Log and announce the controller, whose host is known now; only the first call has an effect. On
 * the owner. */
void rdt_ctrl_announce(struct rdt_ctrl *ctrl);
/* The admin queue closes; @reason is written to the log. On the owner. */
void rdt_ctrl_ends(struct rdt_ctrl *ctrl, const char *reason);
/* Asks the owner whether the queue may join the controller, as a guest or with its ID, or whether a
 * guest may have its ID. Called on the owner; the answer is a message that calls @at->attached. */
void rdt_ctrl_attach(struct rdt_attach *at);
void rdt_ctrl_drained(struct rdt_qpair *qp);
void rdt_ctrl_detach(struct rdt_qpair *qp);
void rdt_ctrl_set_cc(struct rdt_ctrl *ctrl, uint32_t cc);
uint32_t rdt_ctrl_csts(const struct rdt_ctrl *ctrl);
uint64_t rdt_ctrl_cap(const struct rdt_ctrl *ctrl);
void rdt_ctrl_fatal(struct rdt_ctrl *ctrl, enum rdt_end end, const char *why);
/* End the association. @why: a string literal. Any thread, under subsys->lock or with a
 * reference. */
void rdt_ctrl_end(struct rdt_ctrl *ctrl, const char *why);
void rdt_ctrl_log_error(struct rdt_ctrl *ctrl, const struct rdt_req *req);
/* Add an error of a namespace that no command caused to the error log; @st is the closest
 * status. */
void rdt_ctrl_log_ns_error(struct rdt_ctrl *ctrl, uint32_t nsid, struct nvme_status st);
const char *rdt_ctrl_state_name(unsigned int state);
/* Returns @st, the status of a failed command, with a retry delay if the host enabled that (feature
 * 16h). Any thread. */
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
