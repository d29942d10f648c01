/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels and identifiers of the RDMA connection manager. cm.c. */
#ifndef RD_VB_CM_H
#define RD_VB_CM_H

#include <rdma/rdma_cma.h>
#include <stdatomic.h>

#include "fabric/fabric.h"

#include "cm_event.h"

struct rd_vb_fab;

/*
 * Reference counted: held by the fabric and by requests that came by it and have not been adopted.
 */
struct rd_vb_chan {
	struct rdma_event_channel *ch;
	atomic_uint refs;
};

int rd_vb_chan_create(struct rd_vb_chan **out);
void rd_vb_chan_put(struct rd_vb_chan *chan);

enum rd_vb_id_kind {
	RD_VB_ID_REQUEST, /* has no owner until it is adopted */
	RD_VB_ID_CONN,
	RD_VB_ID_LISTENER,
	RD_VB_ID_ANCHOR, /* bound to a device: gets an event when the device is removed */
};

/* An rdma_cm_id; its context points here. */
struct rd_vb_id {
	struct rdma_cm_id *cm;
	struct rd_vb_chan *chan;
	/*
	 * The fabric whose loop handles the events of the identifier. NULL while a request is
	 * passed between threads: the loop that received it then reads its events, and only sets
	 * @early. Once rdma_migrate_id() has returned, no such event is outstanding.
	 */
	_Atomic(struct rd_vb_fab *) owner;
	atomic_bool early; /* the peer ended the request before it was adopted */
	enum rd_vb_id_kind kind;
	void *obj; /* of the type that @kind says; used by the owner only */
};

int rd_vb_id_create(struct rd_vb_fab *fab, enum rd_vb_id_kind kind, void *obj,
		    struct rd_vb_id **out);
/* NULL is allowed. Any thread, for a request that was not adopted. */
void rd_vb_id_destroy(struct rd_vb_id *id);
int rd_vb_cm_start(struct rd_vb_fab *fab);
void rd_vb_cm_stop(struct rd_vb_fab *fab);

/* The passive side. listen.c. */

struct rd_vb_req {
	struct rd_fab_req base;
	struct rd_vb_id *id;
	uint8_t pd[RD_VB_MAX_PRIVATE];
};

struct rd_vb_listener;

int rd_vb_listen(struct rd_fab *fab, const struct sockaddr *addr, int backlog, rd_fab_listen_fn fn,
		 void *arg, struct rd_fab_listener **out);
void rd_vb_unlisten(struct rd_fab_listener *lis);
void rd_vb_listener_request(struct rd_vb_listener *lis, struct rd_vb_id *id,
			    const struct rd_vb_cm_event *ev);
void rd_vb_listener_event(struct rd_vb_listener *lis, const struct rd_vb_cm_event *ev);
int rd_vb_req_adopt(struct rd_fab *fab, struct rd_fab_req *req, rd_fab_event_fn on_event, void *arg,
		    struct rd_fab_conn **out);
void rd_vb_req_reject(struct rd_fab_req *req, const void *priv, size_t len);
int rd_vb_accept(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param);
int rd_vb_reject(struct rd_fab_conn *conn, const void *priv, size_t len);

/* The active side. connect.c. */

struct rd_vb_cm_event;
struct rd_vb_conn;

int rd_vb_resolve(struct rd_fab *fab, const struct rd_fab_resolve_attr *attr,
		  struct rd_fab_conn **out);
int rd_vb_connect(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param);
/* Ends the thread in rdma_connect(), if there is one. */
void rd_vb_attempt_stop(struct rd_vb_conn *c);
/* Handles an event of rdma_cm in the states before OPEN. */
void rd_vb_connect_event(struct rd_vb_conn *c, const struct rd_vb_cm_event *ev);

#endif /* RD_VB_CM_H */
