/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: connections of hosts. Each belongs to one reactor. */
#ifndef RDT_QPAIR_H
#define RDT_QPAIR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "util/log.h"
#include "util/loop.h"
#include "nvmf/text.h"
#include "nvmf/wire.h"
#include "io_stats.h"
#include "pool.h"
#include "target/nvmf/base/slots.h"
#include "transport.h"

struct rdt_auth;
struct rdt_host_counters;
struct rdt_cmd;
struct rdt_ctrl;
struct rdt_listener;
struct rdt_peer;
struct rdt_reactor;
struct rdt_req_pool;

#define RDT_CONNECT_TIMEOUT (10 * RD_NSEC_PER_SEC) /* from accept to the end of Connect */
/* The transport does not know the queue ID before Connect. */
#define RDT_QID_ANY 0xffffu
/* time for the host to disconnect its I/O queues after the admin queue has ended */
#define RDT_LEAVE_WAIT (500 * RD_NSEC_PER_MSEC)

/* A Connect of an I/O queue on its way to the controller's owner and back, or the request of an
 * authenticated I/O queue for its queue ID. Embedded in the queue pair. */
struct rdt_attach {
	struct rd_msg msg;
	struct rdt_ctrl
		*ctrl; /* a reference, taken by the lookup; for an authenticated queue: qp->ctrl */
	struct rdt_qpair *qp;
	struct rdt_req *req;
	uint16_t qid;
	bool guest; /* the queue has to authenticate, and requests its ID afterwards */
	uint8_t hostid[16];
	char hostnqn[NVMF_NQN_MAX + 1];
	/* runs on the owner's loop while an old queue uses the QID */
	struct rd_timer timer;
	struct nvme_status status; /* the owner's answer */
	uint32_t result;
	/* Called on the queue's reactor with the answer. */
	void (*attached)(struct rdt_attach *at);
	void *moves; /* instead of @req, for a queue that moves in (move_in.c) */
};

enum rdt_qp_state {
	RDT_QP_NEW, /* accepted; the first command must be Connect -> LIVE, AUTH */
	/* attached to a controller; only authentication commands (auth.h). Authenticated -> LIVE */
	RDT_QP_AUTH,
	RDT_QP_LIVE, /* attached to a controller */
	/* The target is held (hold.h). New commands wait in @capsules. All commands ended -> HELD;
	 * released -> LIVE */
	RDT_QP_HOLDING,
	/* no command in progress: may move. Released -> LIVE; moved to another process ->
	 * CLOSING */
	RDT_QP_HELD,
	/* takes no new commands. All answered -> DRAINED; admin queue -> CLOSING */
	RDT_QP_DRAINING,
	RDT_QP_DRAINED,   /* I/O queue. The host disconnects, or the timer expires -> CLOSING */
	RDT_QP_CLOSING,   /* disconnecting. Transport and all requests done -> DETACHING */
	RDT_QP_DETACHING, /* waits for the controller's owner to remove it -> freed */
};

struct rdt_qpair {
	uint32_t magic;
	uint8_t state; /* enum rdt_qp_state */
	bool admin;    /* also before Connect, if @want_qid is RDT_QID_ANY */
	bool transport_closed;
	bool sqflow_off;
	bool late;    /* a transfer is beyond its deadline: stall watchdog */
	bool unassoc; /* unassociated: in reactor->unassoc and source->unassoc */
	bool traced;  /* log every state change of every command */
	/* Another process has the socket too: nothing is sent, and it is closed silently. */
	bool moved;
	uint16_t want_qid; /* the ID that Connect must have, or RDT_QID_ANY */
	uint16_t qid;
	uint16_t depth;  /* maximum number of requests in use */
	uint16_t sqsize; /* entries according to Connect; 0 before */
	uint16_t sqhd;
	const struct rdt_transport_ops *ops;
	const struct rdt_cmd *cmds; /* [256] command table by opcode */
	struct rdt_reactor *reactor;
	struct rd_log *log;
	TAILQ_ENTRY(rdt_qpair) link;
	struct rdt_ctrl *ctrl;           /* a reference; NULL before Connect */
	LIST_ENTRY(rdt_qpair) ctrl_link; /* of I/O queues: ctrl->on[].queues */
	LIST_ENTRY(rdt_qpair) lost_link; /* ctrl->lost_queues, while @left_count */
	LIST_ENTRY(rdt_qpair) host_lost; /* ctrl->host->lost, likewise */
	LIST_ENTRY(rdt_qpair) over_link; /* used while rdt_ask is answered: stale_write.c */
	/* after closing: number of namespaces in which its commands may still write; under
	 * subsys->lock */
	unsigned int left_count;
	struct rdt_slots left_ns;
	struct rdt_share *share;            /* the share of its host */
	struct rdt_host_counters *counters; /* io_stats.h */
	struct rdt_peer *peer;              /* the peer of its address; NULL in tests */
	struct rdt_peer *host;              /* the peer of its host; NULL before Connect */
	TAILQ_ENTRY(rdt_qpair) unassoc_link;
	TAILQ_ENTRY(rdt_qpair) source_link;
	struct rdt_listener *listener; /* NULL in tests */
	/* with TLS: the host and subsystem for which it may be used; NULL: the connection is plain.
	 * Owned by the transport */
	const struct nvmf_tls_info *tls;
	struct sockaddr_storage local;
	struct sockaddr_storage remote;
	struct rdt_req_pool *req_pool; /* rdt_qpair_use_pool() */
	struct rdt_req **reqs;         /* [depth]; the first @used are in use, in no order */
	unsigned int used;
	unsigned int used_aer;   /* those of @used that are AERs waiting for an event */
	uint32_t in_capsule_max; /* as configured, or set by the transport */
	/* bytes for the host that may be in buffers on the way to it, and do not count as
	 * transferred. Set by the transport before rdt_qpair_start() */
	uint32_t unproven;
	uint32_t data_max; /* MDTS in bytes, for I/O commands */
	/* first command of a fused pair, waiting for its partner */
	struct rdt_req *fused;
	bool fuse_failed; /* the previous command was the first one of a pair and failed */
	/* the first command of a pair whose in-capsule data was copied to @aside_data */
	struct rdt_req *aside;
	uint8_t *aside_data;                 /* [in_capsule_max], allocated on first use */
	STAILQ_HEAD(, rdt_capsule) capsules; /* commands waiting for a free request, in order */
	/* the next commands have arrived by this time, set by rdt_qpair_mark_unread(); otherwise
	 * 0 */
	uint64_t unread_since;
	/* the list in which it waits although it uses fewer requests than @depth, or NULL */
	struct rdt_starved *starved;
	TAILQ_ENTRY(rdt_qpair) starved_link;
	struct rd_defer check; /* checks whether its state can change */
	struct rdt_auth *auth; /* the transaction of DH-HMAC-CHAP, or NULL */
	/* NEW: timeout of Connect. AUTH, and LIVE with @auth: of the next step. DRAINED: of the
	 * disconnect by the host */
	struct rd_timer timer;
	struct rd_ratelimit fail_limit;
	struct rdt_attach attach;
	struct rd_msg close_msg;   /* controller's owner -> reactor */
	struct rd_msg drained_msg; /* reactor -> owner */
	struct rd_msg detach_msg;  /* reactor -> owner -> reactor */
	/* I/O queues, guarded by the controller's owner */
	LIST_ENTRY(rdt_qpair) guest_link;
	bool guest;         /* in ctrl->guests: attached, without a queue ID */
	bool told_to_close; /* @close_msg was posted */
	bool drained;       /* all its commands are answered, and it accepts no new ones */
};

/* All commands that have arrived by now, even unread ones, count as having arrived by now, so that
 * they can be distinguished from later ones. A few of the commands that arrive next may be
 * included. */
void rdt_qpair_mark_unread(struct rdt_qpair *qp);
/* While @unread_since is set: returns the latest time at which the next command can have
 * arrived. */
uint64_t rdt_qpair_arrived(struct rdt_qpair *qp);
/* Returns whether its connection has ended, as far as that can be known now. */
bool rdt_qpair_over(const struct rdt_qpair *qp);
int rdt_qpair_init(struct rdt_qpair *qp, struct rdt_reactor *r, const struct rdt_transport_ops *ops,
		   uint16_t want_qid, uint16_t depth);
void rdt_qpair_fini(struct rdt_qpair *qp);  /* undoes rdt_qpair_init(); for transports */
void rdt_qpair_start(struct rdt_qpair *qp); /* from now on the transport can send answers */
/* Take requests from @pool from now on; those in use return to their own pool. Before the first
 * command, and in ops->role(). */
void rdt_qpair_use_pool(struct rdt_qpair *qp, struct rdt_req_pool *pool);
/* The Connect of @qp, which has RDT_QID_ANY, is executed and tells its queue ID. */
void rdt_qpair_role(struct rdt_qpair *qp, uint16_t qid);
void rdt_qpair_connected(struct rdt_qpair *qp, struct rdt_ctrl *ctrl, uint16_t qid, uint16_t sqsize,
			 bool sqflow_off);
/* @qp, in RDT_QP_AUTH, has authenticated. */
void rdt_qpair_live(struct rdt_qpair *qp);
/* End the connection; no effect if it is already ending. @reason: for the log. */
void rdt_qpair_end(struct rdt_qpair *qp, enum rdt_end end, const char *reason);
static inline void rdt_qpair_close(struct rdt_qpair *qp, const char *reason)
{
	rdt_qpair_end(qp, RDT_END_TARGET, reason);
}
void rdt_qpair_drain(struct rdt_qpair *qp);
void rdt_qpair_detached(struct rdt_qpair *qp);
void rdt_qpair_check(struct rdt_qpair *qp); /* its state may change now */
/* For hold.c: @qp accepts no new command and, if it is LIVE, changes to HELD when its commands have
 * ended. */
void rdt_qpair_hold(struct rdt_qpair *qp);
void rdt_qpair_release(struct rdt_qpair *qp);
/* Returns whether a command in progress may still need data from the host, or its fused partner. */
bool rdt_qpair_awaits_host(const struct rdt_qpair *qp);
/* Returns whether no command of @qp that could use storage is in progress. */
bool rdt_qpair_rests(const struct rdt_qpair *qp);
/* @qp, which a transport has built and started, moves in from another process as a queue of @ctrl,
 * whose reference it takes. It is HELD. */
void rdt_qpair_moved_in(struct rdt_qpair *qp, struct rdt_ctrl *ctrl, uint16_t qid, uint16_t sqsize,
			bool sqflow_off);
struct rdt_req *rdt_qpair_find(struct rdt_qpair *qp, uint16_t cid);
void rdt_qpair_put(struct rdt_qpair *qp, struct rdt_req *req); /* @req is FREE */
/* Called when the queue no longer has to wait: the next command begins, if it may. */
void rdt_qpair_retry(struct rdt_qpair *qp);
/* An entry of the queue became free: the next command begins, or waits behind other queues. */
void rdt_qpair_continue(struct rdt_qpair *qp);
static inline void rdt_qpair_next(struct rdt_qpair *qp) /* a request became free */
{
	if (!STAILQ_EMPTY(&qp->capsules) && !qp->starved)
		rdt_qpair_continue(qp);
	if (qp->state >= RDT_QP_HOLDING)
		rdt_qpair_check(qp);
}

#endif /* RDT_QPAIR_H */
