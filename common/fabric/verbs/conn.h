/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs provider: RDMA devices of the kernel, through librdmacm and libibverbs.
 *
 * Each fabric has an event channel of its own and opens each device for itself: queue pairs belong
 * to the fabric's own ibv_context and are connected by their number, not by rdma_create_qp(). So a
 * fabric shares neither asynchronous events nor locks of a device's user space driver with other
 * threads, and does not depend on librdmacm's handling of the device.
 *
 * Only one object crosses threads: a connection request that has not been adopted (struct
 * rd_vb_id).
 *
 * Every work request is recorded (struct rd_vb_wq) as well as given to the device. So they can be
 * counted, and a connection always ends in the same way: what the device has not completed when the
 * queue pair is destroyed is completed here, as flushed. Devices treat the work requests of a
 * failed queue pair very differently: some lose what is posted, some refuse it, some take a while,
 * and LAST_WQE_REACHED does not exist on iWARP.
 *
 * Special cases for single drivers, such as siw: quirk.h, and the list in quirk_siw.c.
 *
 * User callbacks run only from deferred work or from an event channel, never inside a call.
 */
#ifndef RD_VB_CONN_H
#define RD_VB_CONN_H

#include <string.h>

#include "fabric/conn_events.h"
#include "fabric/fabric.h"
#include "util/loop.h"

#include "cm.h"
#include "cm_event.h"
#include "cq.h"
#include "dev.h"
#include "err.h"
#include "fab.h"
#include "qp.h"
#include "srq.h"

struct rd_vb_attempt;

enum rd_vb_state {
	/* Active: address, then route. rdma_cm's events or the timer move it on. */
	RD_VB_RESOLVING,
	/* Active: the device is known. connect() or the timer moves it on. */
	RD_VB_RESOLVED,
	/* Active: the request has been sent. rdma_cm's answer or the timer moves it on. */
	RD_VB_CONNECTING,
	/* Passive: a request was adopted. accept() or reject() moves it on. */
	RD_VB_ADOPTED,
	/* Passive: the reply has been sent. rdma_cm moves it on. */
	RD_VB_ACCEPTED,
	/* Messages flow. An error, the peer or disconnect() moves it on. */
	RD_VB_OPEN,
	/*
	 * Ended by the user: the device still sends what it was given, nothing new is posted. The
	 * last completion or the timer moves it on.
	 */
	RD_VB_CLOSING,
	/*
	 * Over: no queue pair, WRs are flushed when they are posted. destroy() is the only way on.
	 */
	RD_VB_CLOSED,
};

struct rd_vb_conn {
	struct rd_fab_conn base;
	struct rd_vb_fab *fab;
	struct rd_vb_dev *dev; /* as base.dev, but set before RESOLVED is delivered */
	LIST_ENTRY(rd_vb_conn) link;
	enum rd_vb_state state;
	struct rd_vb_id *id; /* NULL after the removal of its device, or if its creation failed */
	struct rd_timer timer;
	uint64_t deadline;             /* active: of the whole attempt */
	struct rd_vb_attempt *attempt; /* the thread in rdma_connect(), or NULL */

	struct ibv_qp *qp; /* NULL when CLOSED */
	LIST_ENTRY(rd_vb_conn) by_qpn;
	bool has_qp;  /* the queues below exist */
	bool stalled; /* the queue pair has failed: WRs are only recorded, and flushed later */
	uint32_t slot;
	struct rd_vb_cq *scq;
	struct rd_vb_cq *rcq;
	struct rd_vb_srq *srq;
	struct rd_vb_seg *sseg; /* the segments in which room is reserved */
	struct rd_vb_seg *rseg;
	uint32_t rroom;
	struct rd_vb_wq sq;
	struct rd_vb_wq rq;
	bool hidden_out; /* a work request of rd_vb_post_hidden() has not completed */
	bool heard;      /* the peer's first message has arrived */
	struct {         /* used by quirk->established() */
		enum ibv_wr_opcode opcode;
		uint64_t pause_ns;
		struct rd_timer timer;
	} poke;
	uint32_t sq_end; /* CLOSING: index of the first WR that was not given to the device */
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline;
	bool coalesce; /* rd_fab_qp_attr.coalesce */

	uint16_t peer_ird;
	struct rd_conn_events events;
	struct rd_defer failed;        /* a work request failed: see fail_status */
	int fail_status;               /* enum ibv_wc_status */
	uint8_t pd[RD_VB_MAX_PRIVATE]; /* the peer's private data, for ESTABLISHED or REJECTED */
};

struct rd_vb_conn *rd_vb_conn(struct rd_fab_conn *conn);
int rd_vb_conn_new(struct rd_vb_fab *fab, rd_fab_event_fn fn, void *arg, struct rd_vb_conn **out);
void rd_vb_conn_destroy(struct rd_fab_conn *conn);
void rd_vb_set_state(struct rd_vb_conn *c, enum rd_vb_state state);
void rd_vb_disconnect(struct rd_fab_conn *conn);
/*
 * Ends the connection: WRs are flushed, the event follows. No-op if it is CLOSED already. @status:
 * 0 for an orderly end, else -errno; the text is the event's reason.
 */
void rd_vb_conn_end(struct rd_vb_conn *c, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* In CLOSING: the device has sent everything. May be called while completions are being polled. */
void rd_vb_conn_sent_all(struct rd_vb_conn *c);
/* A work request has completed with an error. May be called while completions are being polled. */
void rd_vb_conn_wc_failed(struct rd_vb_conn *c, enum ibv_wc_status status);
void rd_vb_conn_cm_event(struct rd_vb_conn *c, const struct rd_vb_cm_event *ev);
void rd_vb_copy_addrs(struct rd_vb_conn *c);
/* Converts @param for rdma_cm; lowers the depths to the device's limits. Returns 0 or -EMSGSIZE. */
int rd_vb_conn_param(struct rd_vb_conn *c, const struct rd_fab_conn_param *param,
		     struct rdma_conn_param *out);

#endif /* RD_VB_CONN_H */
