/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: a host's connections, each the property of one reactor. */
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
#include "pool.h"
#include "transport.h"

struct rdt_cmd;
struct rdt_ctrl;
struct rdt_listener;
struct rdt_peer;
struct rdt_reactor;
struct rdt_req_pool;
struct rdt_sgl_desc;

#define RDT_CONNECT_TIMEOUT (10 * RD_NSEC_PER_SEC)   /* from accept to a finished Connect */
#define RDT_LEAVE_WAIT      (500 * RD_NSEC_PER_MSEC) /* for a host that lost its admin queue */

/* An I/O Connect on its way to the controller's owner and back. Embedded in the queue pair. */
struct rdt_attach {
	struct rd_msg msg;
	struct rdt_ctrl *ctrl; /* with a reference, taken by the lookup */
	struct rdt_qpair *qp;
	struct rdt_req *req;
	uint16_t qid;
	uint8_t hostid[16];
	char hostnqn[NVMF_NQN_MAX + 1];
	struct rd_timer timer;     /* on the owner's loop, while the QID is still taken */
	struct nvme_status status; /* the answer */
	uint32_t result;
	/* On the queue's reactor, with the answer. */
	void (*attached)(struct rdt_attach *at);
};

enum rdt_qp_state {
	RDT_QP_NEW,       /* accepted; the first command must be Connect -> LIVE */
	RDT_QP_LIVE,      /* belongs to a controller */
	RDT_QP_DRAINING,  /* takes no new commands; the last one answered -> DRAINED, admin CLOSING
			   */
	RDT_QP_DRAINED,   /* I/O queues: the host, or the timer, ends the connection -> CLOSING */
	RDT_QP_CLOSING,   /* connection ending; transport and all requests back -> DETACHING */
	RDT_QP_DETACHING, /* waits for the controller's owner to forget it -> freed */
};

struct rdt_qpair {
	uint32_t magic;
	uint8_t state; /* enum rdt_qp_state */
	bool admin;    /* by the connection's private data; Connect must agree */
	bool transport_closed;
	bool sqflow_off;
	bool late;   /* a transfer is beyond its deadline */
	bool fresh;  /* without a Connect so far: in reactor->fresh and site->fresh */
	bool traced; /* the log wants each state of each command */
	uint16_t cm_qid;
	uint16_t qid;
	uint16_t depth;  /* entries: RECVs and requests */
	uint16_t sqsize; /* entries, from Connect; 0 before */
	uint16_t sqhd;
	const struct rdt_transport_ops *ops;
	const struct rdt_cmd *cmds; /* [256], by opcode */
	struct rdt_reactor *reactor;
	struct rd_log *log;
	TAILQ_ENTRY(rdt_qpair) link;
	struct rdt_ctrl *ctrl;   /* with a reference, given back with it; NULL before Connect */
	struct rdt_share *share; /* its host's */
	struct rdt_peer *peer;   /* its address; NULL in tests */
	struct rdt_peer *host;   /* counts it; NULL before Connect */
	TAILQ_ENTRY(rdt_qpair) fresh_link;
	TAILQ_ENTRY(rdt_qpair) site_link;
	struct rdt_listener *listener; /* NULL in tests */
	struct sockaddr_storage local;
	struct sockaddr_storage remote;
	struct rdt_req_pool *req_pool; /* the transport's, set before the first command */
	struct rdt_req **reqs;         /* [depth]; the first @used are not FREE, in no order */
	unsigned int used;
	unsigned int used_aer; /* of these, AERs that wait for an event */
	uint32_t in_capsule_max;
	uint32_t unproven; /* bytes that sockets may have taken, and not the host: see request.c */
	uint32_t data_max; /* bytes that an I/O command may move: MDTS */
	uint8_t msdbd;     /* descriptors of a list, at most; 1: no lists */
	struct rdt_req *fused;               /* a first half that waits for the next command */
	bool fuse_failed;                    /* the last command was a first half, and failed */
	struct rdt_req *aside;               /* a first half whose data is in @aside_data */
	uint8_t *aside_data;                 /* [in_capsule_max], made when the first one comes */
	STAILQ_HEAD(, rdt_capsule) capsules; /* commands that found no free request, in order */
	bool starved;                        /* although it has fewer than @depth */
	TAILQ_ENTRY(rdt_qpair) starved_link;
	struct rd_defer check; /* look whether a state can be left */
	struct rd_timer timer; /* NEW: until Connect. DRAINED: until the host has left by itself */
	struct rd_ratelimit fail_limit;
	struct rdt_attach attach;
	struct rd_msg close_msg;   /* controller's owner -> reactor */
	struct rd_msg drained_msg; /* reactor -> owner */
	struct rd_msg detach_msg;  /* reactor -> owner -> reactor */
};

/* Is its connection over, as far as can be known now? */
bool rdt_qpair_over(const struct rdt_qpair *qp);
int rdt_qpair_init(struct rdt_qpair *qp, struct rdt_reactor *r, const struct rdt_transport_ops *ops,
		   uint16_t cm_qid, uint16_t depth);
void rdt_qpair_fini(struct rdt_qpair *qp);  /* what init made; for transports */
void rdt_qpair_start(struct rdt_qpair *qp); /* the transport can carry answers from here on */
void rdt_qpair_connected(struct rdt_qpair *qp, struct rdt_ctrl *ctrl, uint16_t qid, uint16_t sqsize,
			 bool sqflow_off);
void rdt_qpair_close(struct rdt_qpair *qp, const char *reason);
void rdt_qpair_drain(struct rdt_qpair *qp);
void rdt_qpair_detached(struct rdt_qpair *qp);
void rdt_qpair_look(struct rdt_qpair *qp); /* something that a state waits for has changed */
struct rdt_req *rdt_qpair_find(struct rdt_qpair *qp, uint16_t cid);
void rdt_qpair_put(struct rdt_qpair *qp, struct rdt_req *req); /* it is FREE now */
/* Commands wait for a free request, and there may be one. */
void rdt_qpair_retry(struct rdt_qpair *qp);
static inline void rdt_qpair_next(struct rdt_qpair *qp) /* a request became free */
{
	if (!STAILQ_EMPTY(&qp->capsules) && !qp->starved)
		rdt_qpair_retry(qp);
	if (qp->state >= RDT_QP_DRAINING)
		rdt_qpair_look(qp);
}
const char *rdt_qpair_state_name(unsigned int state);

#endif /* RDT_QPAIR_H */
