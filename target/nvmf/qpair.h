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
/* The transport does not know the queue ID, which Connect tells. */
#define RDT_QID_ANY 0xffffu
/* after the admin queue has ended: time for the host to disconnect its I/O queues */
#define RDT_LEAVE_WAIT (500 * RD_NSEC_PER_MSEC)

/* A Connect of an I/O queue on its way to the controller's owner and back, or the claim to its
 * queue ID of one that has authenticated. Embedded in the queue pair. */
struct rdt_attach {
	struct rd_msg msg;
	struct rdt_ctrl *ctrl; /* a reference, taken by the lookup; of a claim: qp->ctrl */
	struct rdt_qpair *qp;
	struct rdt_req *req;
	uint16_t qid;
	bool guest; /* the queue has to authenticate, and claims its ID afterwards */
	uint8_t hostid[16];
	char hostnqn[NVMF_NQN_MAX + 1];
	/* on the owner's loop, while the QID is in use by an old queue */
	struct rd_timer timer;
	struct nvme_status status; /* the answer of the owner */
	uint32_t result;
	/* Called on the queue's reactor with the answer. */
	void (*attached)(struct rdt_attach *at);
	void *moves; /* instead of @req, of a queue that moves in (move_in.c) */
};

enum rdt_qp_state {
	RDT_QP_NEW, /* accepted; the first command must be Connect -> LIVE, AUTH */
	/* attached to a controller; authentication only (auth.h). Authenticated -> LIVE */
	RDT_QP_AUTH,
	RDT_QP_LIVE, /* attached to a controller */
	/*
	 * The target is held (hold.h). What arrives waits in @capsules. All commands ended -> HELD;
	 * released -> LIVE
	 */
	RDT_QP_HOLDING,
	RDT_QP_HELD, /* at rest: may be moved. Released -> LIVE; moved to another process -> CLOSING
		      */
	/* takes no new commands. All answered -> DRAINED; admin queue -> CLOSING */
	RDT_QP_DRAINING,
	RDT_QP_DRAINED,   /* I/O queue. The host disconnects, or the timer expires -> CLOSING */
	RDT_QP_CLOSING,   /* disconnecting. Transport and all requests done -> DETACHING */
	RDT_QP_DETACHING, /* waits for the controller's owner to remove it -> freed */
};

struct rdt_qpair {
	uint32_t magic;
	uint8_t state; /* enum rdt_qp_state */
	bool admin;    /* also while that is not known: @want_qid */
	bool transport_closed;
	bool sqflow_off;
	bool late;    /* a transfer is beyond its deadline: stall watchdog */
	bool unassoc; /* without a Connect or not authenticated: in reactor->unassoc and
		       * source->unassoc
		       */
	bool traced;  /* log every state change of every command */
	/* Another process has the socket too: nothing is sent, and it is closed without a word. */
	bool moved;
	uint16_t want_qid; /* which Connect must have; RDT_QID_ANY: its Connect tells */
	uint16_t qid;
	uint16_t depth;  /* most commands of the host at a time, and requests */
	uint16_t sqsize; /* entries by Connect; 0 before */
	uint16_t sqhd;
	const struct rdt_transport_ops *ops;
	const struct rdt_cmd *cmds; /* [256] command table by opcode */
	struct rdt_reactor *reactor;
	struct rd_log *log;
	TAILQ_ENTRY(rdt_qpair) link;
	struct rdt_ctrl *ctrl;           /* a reference; NULL before Connect */
	LIST_ENTRY(rdt_qpair) ctrl_link; /* I/O queue: ctrl->on[].queues */
	LIST_ENTRY(rdt_qpair) lost_link; /* ctrl->lost_queues, while @left_count */
	LIST_ENTRY(rdt_qpair) host_lost; /* ctrl->host->lost, likewise */
	LIST_ENTRY(rdt_qpair) over_link; /* while a question is answered: stale_write.c */
	/* closed: the namespaces in which its commands may still write; under subsys->lock */
	unsigned int left_count;
	struct rdt_slots left_ns;
	struct rdt_share *share;            /* the share of its host */
	struct rdt_host_counters *counters; /* its counters: io_stats.h */
	struct rdt_peer *peer;              /* its address; NULL in tests */
	struct rdt_peer *host;              /* its host; NULL before Connect */
	TAILQ_ENTRY(rdt_qpair) unassoc_link;
	TAILQ_ENTRY(rdt_qpair) source_link;
	struct rdt_listener *listener; /* NULL in tests */
	/* of TLS, which only its host may use, for its subsystem; NULL: the connection is plain.
	 * The transport owns it */
	const struct nvmf_tls_info *tls;
	struct sockaddr_storage local;
	struct sockaddr_storage remote;
	struct rdt_req_pool *req_pool; /* rdt_qpair_use_pool() */
	struct rdt_req **reqs;         /* [depth]; the first @used are in use, in no order */
	unsigned int used;
	unsigned int used_aer;   /* of @used: AERs that wait for an event */
	uint32_t in_capsule_max; /* as configured, unless the transport sets another */
	/* bytes for the host that may be in buffers on the way to it, instead of at the host: they
	 * do not count as transferred. Set by the transport before rdt_qpair_start() */
	uint32_t unproven;
	uint32_t data_max; /* MDTS in bytes, for I/O commands */
	/* first half of a fused pair, waiting for the next command */
	struct rdt_req *fused;
	bool fuse_failed; /* the previous command was a first half and failed */
	/* a first half with in-capsule data that was copied to @aside_data */
	struct rdt_req *aside;
	uint8_t *aside_data;                 /* [in_capsule_max], allocated on first use */
	STAILQ_HEAD(, rdt_capsule) capsules; /* commands waiting for a free request, in order */
	/* What comes next has arrived by this time, which rdt_qpair_mark_unread() has set; else 0
	 */
	uint64_t unread_since;
	/* the list in which it waits for a request although it uses fewer than @depth, or NULL */
	struct rdt_starved *starved;
	TAILQ_ENTRY(rdt_qpair) starved_link;
	struct rd_defer check; /* checks whether a state can be left */
	struct rdt_auth *auth; /* the transaction of DH-HMAC-CHAP, or NULL */
	/* NEW: limit for Connect. AUTH, and LIVE with @auth: for the next step. DRAINED: limit for
	 * the host to disconnect */
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
	bool drained;       /* all its commands are answered, and it takes no new ones */
};

/*
 * All that has arrived by now, also what nobody has read, counts as having arrived by now: so it
 * can be told from what comes later. A few of the commands that arrive next may count as well.
 */
void rdt_qpair_mark_unread(struct rdt_qpair *qp);
/* With @unread_since: when the command that begins has arrived, at the latest. */
uint64_t rdt_qpair_arrived(struct rdt_qpair *qp);
/* Has its connection ended, as far as that can be known now? */
bool rdt_qpair_over(const struct rdt_qpair *qp);
int rdt_qpair_init(struct rdt_qpair *qp, struct rdt_reactor *r, const struct rdt_transport_ops *ops,
		   uint16_t want_qid, uint16_t depth);
void rdt_qpair_fini(struct rdt_qpair *qp);  /* undoes rdt_qpair_init(); for transports */
void rdt_qpair_start(struct rdt_qpair *qp); /* from now on the transport can send answers */
/* Take requests from @pool; those in use go back to the pool that they are from. Before the first
 * command, and in ops->role(). */
void rdt_qpair_use_pool(struct rdt_qpair *qp, struct rdt_req_pool *pool);
/* @qp, with RDT_QID_ANY, has a Connect that is executed: from now on it is this queue. */
void rdt_qpair_role(struct rdt_qpair *qp, uint16_t qid);
void rdt_qpair_connected(struct rdt_qpair *qp, struct rdt_ctrl *ctrl, uint16_t qid, uint16_t sqsize,
			 bool sqflow_off);
/* @qp, in RDT_QP_AUTH, is authenticated. */
void rdt_qpair_live(struct rdt_qpair *qp);
/* End the connection; no-op if it is ending. @reason: for the log. */
void rdt_qpair_end(struct rdt_qpair *qp, enum rdt_end end, const char *reason);
static inline void rdt_qpair_close(struct rdt_qpair *qp, const char *reason)
{
	rdt_qpair_end(qp, RDT_END_TARGET, reason);
}
void rdt_qpair_drain(struct rdt_qpair *qp);
void rdt_qpair_detached(struct rdt_qpair *qp);
void rdt_qpair_check(struct rdt_qpair *qp); /* something that a state waits for has changed */
/* The hold, for hold.c: @qp takes no new command and, if it is LIVE, goes on to HELD. */
void rdt_qpair_hold(struct rdt_qpair *qp);
void rdt_qpair_release(struct rdt_qpair *qp);
/* May a command in progress still need data of the host, or the other half of its pair? */
bool rdt_qpair_awaits_host(const struct rdt_qpair *qp);
/* Is no command of @qp in progress that could use storage? */
bool rdt_qpair_rests(const struct rdt_qpair *qp);
/* @qp, which a transport has built and started, comes from another process as a queue of @ctrl,
 * whose reference it takes: it is HELD. */
void rdt_qpair_moved_in(struct rdt_qpair *qp, struct rdt_ctrl *ctrl, uint16_t qid, uint16_t sqsize,
			bool sqflow_off);
struct rdt_req *rdt_qpair_find(struct rdt_qpair *qp, uint16_t cid);
void rdt_qpair_put(struct rdt_qpair *qp, struct rdt_req *req); /* the request is FREE */
/* Its turn has come: the next command begins, if it may. */
void rdt_qpair_retry(struct rdt_qpair *qp);
/* An entry of it became free: the next command begins, or waits behind other queues. */
void rdt_qpair_go_on(struct rdt_qpair *qp);
static inline void rdt_qpair_next(struct rdt_qpair *qp) /* a request became free */
{
	if (!STAILQ_EMPTY(&qp->capsules) && !qp->starved)
		rdt_qpair_go_on(qp);
	if (qp->state >= RDT_QP_HOLDING)
		rdt_qpair_check(qp);
}

#endif /* RDT_QPAIR_H */
