/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels and identifiers of the RDMA connection manager. cm.c. */
#ifndef RD_VB_CM_H
#define RD_VB_CM_H

#include <rdma/rdma_cma.h>
#include <stdatomic.h>

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

#endif /* RD_VB_CM_H */
