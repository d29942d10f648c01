/* SPDX-License-Identifier: BSD-3-Clause */
/* The passive side. listen.c. */
#ifndef RD_VB_LISTEN_H
#define RD_VB_LISTEN_H

#include "fabric/fabric.h"

#include "cm_event.h"

struct rd_vb_id;

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

#endif /* RD_VB_LISTEN_H */
