/* SPDX-License-Identifier: BSD-3-Clause */
/* Controllers: associations with hosts, each the property of its admin queue's reactor. */
#ifndef RDT_CTRL_H
#define RDT_CTRL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/log.h"
#include "util/loop.h"
#include "nvmf/text.h"
#include "nvmf/wire.h"
#include "events.h"
#include "slots.h"
#include "target/config/tgt_limits.h"

struct rdt_attach;
struct rdt_listener;
struct rdt_qos_limiter;
struct rdt_qpair;
struct rdt_reactor;
struct rdt_req;
struct rdt_subsys;

#define RDT_QID_WAIT (500 * RD_NSEC_PER_MSEC)
/* Less than CAP.TO. From then on only namespaces whose storage hangs are kept from a host. */
#define RDT_FENCE_READY_WAIT (5 * RD_NSEC_PER_SEC)

enum rdt_ctrl_state {
	RDT_CTRL_DISABLED,  /* CC.EN 0: fabrics commands only. Host sets EN -> ENABLING or READY */
	RDT_CTRL_ENABLING,  /* EN, but a dead controller of this host still has commands in flight,
			     * which must not come after what the host sends now (stale_write.h).
			     * Gone, or not for RDT_FENCE_READY_WAIT -> READY */
	RDT_CTRL_READY,     /* CSTS.RDY. Host clears EN -> RESETTING, sets SHN -> SHUTTING */
	RDT_CTRL_RESETTING, /* I/O queues are closing. The last one gone -> DISABLED */
	RDT_CTRL_SHUTTING,  /* I/O queues are closing. The last one gone -> SHUT */
	RDT_CTRL_SHUT,      /* CSTS.SHST complete. Host clears EN -> RESETTING */
	RDT_CTRL_DEAD,      /* the association is over; freed with the last reference */
};

enum rdt_feature {
	RDT_FEAT_ARBITRATION,
	RDT_FEAT_POWER,
	RDT_FEAT_TEMP_OVER,
	RDT_FEAT_TEMP_UNDER,
	RDT_FEAT_WRITE_ATOMIC,
	RDT_FEAT_ASYNC_EVENT,
	RDT_FEAT_ERR_RECOVERY, /* with NSID 0 */
	RDT_FEATS,
};

#define RDT_TEMP_OVER_DEFAULT 0xffffu /* never: there is no sensor */

struct rdt_error_log {
	pthread_mutex_t lock;
	uint64_t count; /* ever added */
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
	uint64_t counter; /* of notifications, also of those lost */
	unsigned int head;
	unsigned int used;
	struct rdt_resv_entry ring[RDT_RESV_LOG];
	struct rdt_slots masked[RDT_RESV_TYPES]; /* feature 82h, by type - 1 */
};

struct rdt_ioq {
	struct rdt_qpair *qp;       /* owned by its reactor; valid until its detach message */
	bool closing;               /* told to close */
	bool drained;               /* all its commands are answered, and it takes no more */
	struct rdt_attach *waiting; /* a reconnecting host's Connect, until the old queue is gone */
};

struct rdt_ctrl {
	uint32_t magic;
	struct rdt_subsys *subsys;
	struct rdt_reactor *owner;
	struct rd_log *log;
	TAILQ_ENTRY(rdt_ctrl) link;
	LIST_ENTRY(rdt_ctrl) host_link; /* subsys->host_ctrls */
	atomic_uint refs;    /* admin queue, each attached I/O queue, each Connect on its way */
	atomic_bool traffic; /* a command came in since the keep-alive timer last looked */
	atomic_bool behind;  /* some namespaces are @kept: stale_write.h */
	uint16_t cntlid;
	uint8_t hostid[16];
	char hostnqn[NVMF_NQN_MAX + 1];
	struct rdt_listener *listener; /* by which the host came; NULL in tests */
	struct rdt_slots hidden;       /* namespaces; written under subsys->lock */
	atomic_bool retry_delay;       /* feature 16h, ACRE */
	atomic_bool ending;            /* @end_msg is on its way, or was */
	atomic_bool over;              /* DEAD: what is in flight is all there is */
	struct rdt_slots left;         /* where, as told by its queues that closed */
	atomic_uint untold;    /* I/O queues that have not told: they may have it everywhere */
	struct rdt_slots kept; /* from it, since dead ones are busy there */
	bool waits;            /* for those: see fence_msg; under subsys->lock */
	bool called;           /* @fence_msg is on its way; likewise */
	uint64_t unheard;      /* reactors that have been asked, and have not answered; likewise */
	LIST_ENTRY(rdt_ctrl) asking_link; /* subsys->asking, while there are such */
	struct rd_msg fence_msg;
	struct rd_msg end_msg;
	const char *end_why;

	/* below: the owner's */
	uint8_t state; /* enum rdt_ctrl_state */
	struct rdt_qpair *admin;
	bool admin_gone; /* the admin queue waits for the last I/O queue */
	uint32_t cc;
	uint32_t csts_extra; /* CFS */
	uint32_t kato_ms;
	struct rd_timer ka_timer;
	struct rd_timer fence_timer; /* the end of ENABLING */
	bool ka_late;                /* an interval was given because this target was late */
	uint16_t queues_granted;
	struct rdt_ioq *ioqs; /* [queues_max + 1], by QID; 0 unused */
	uint16_t queues_max;
	uint16_t ioqs_live;
	uint16_t ioqs_drained; /* of these */
	uint32_t features[RDT_FEATS];
	uint64_t timestamp_ms; /* feature 0Eh: what the host set, */
	uint64_t timestamp_at; /* and when, in ns */
	bool timestamp_set;
	struct rdt_req *aers[RDT_AER_MAX];
	unsigned int aers_count;
	unsigned int aborts;
	struct rdt_error_log errors;
	struct rdt_events events;
	struct rdt_resv_log resv_log;
	/* The limits of its host; set before other threads find the controller. */
	struct rdt_qos_limiter *limiter;
};

/* ctrl.c */
int rdt_ctrl_create(struct rdt_subsys *ss, struct rdt_qpair *admin, const char *hostnqn,
		    const uint8_t hostid[16], uint32_t kato_ms, struct rdt_ctrl **out);
void rdt_ctrl_put(struct rdt_ctrl *ctrl);                                    /* any thread */
bool rdt_ctrl_same_host(const struct rdt_ctrl *a, const struct rdt_ctrl *b); /* any thread */
/* @ctrl is over: those of its host that wait for what it has in flight look again. Any thread. */
void rdt_ctrl_wake_all_fenced(struct rdt_ctrl *ctrl);
/* @ctrl looks again, if it waits. Under subsys->lock, on any thread. */
void rdt_ctrl_wake_fenced(struct rdt_ctrl *ctrl);
void rdt_ctrl_attach(struct rdt_attach *at);
void rdt_ctrl_drained(struct rdt_qpair *qp);
void rdt_ctrl_detach(struct rdt_qpair *qp);
void rdt_ctrl_set_cc(struct rdt_ctrl *ctrl, uint32_t cc);
uint32_t rdt_ctrl_csts(const struct rdt_ctrl *ctrl);
uint64_t rdt_ctrl_cap(const struct rdt_ctrl *ctrl);
void rdt_ctrl_fatal(struct rdt_ctrl *ctrl, const char *why);
/* End the association from any thread, holding subsys->lock or a reference. @why is a literal. */
void rdt_ctrl_end(struct rdt_ctrl *ctrl, const char *why);
void rdt_ctrl_log_error(struct rdt_ctrl *ctrl, const struct rdt_req *req);
/* An error of a namespace that is not of a command; @st is the status that fits best. */
void rdt_ctrl_log_ns_error(struct rdt_ctrl *ctrl, uint32_t nsid, struct nvme_status st);
const char *rdt_ctrl_state_name(unsigned int state);
/* @st of a failed command, with the retry delay that the host enabled by feature 16h. Any thread.
 */
struct nvme_status rdt_ctrl_retry_delay(const struct rdt_ctrl *ctrl, struct nvme_status st);

/* keep_alive.c */
void rdt_keep_alive_start(struct rdt_ctrl *ctrl, uint32_t kato_ms);
void rdt_keep_alive_stop(struct rdt_ctrl *ctrl);
static inline void rdt_keep_alive_traffic(struct rdt_ctrl *ctrl)
{
	/* Looked at first: a line that every reactor writes for each command would bounce. */
	if (!atomic_load_explicit(&ctrl->traffic, memory_order_relaxed))
		atomic_store_explicit(&ctrl->traffic, true, memory_order_relaxed);
}

#endif /* RDT_CTRL_H */
