/* SPDX-License-Identifier: BSD-3-Clause */
/* The active side. connect.c. */
#ifndef RD_VB_CONNECT_H
#define RD_VB_CONNECT_H

#include "fabric/fabric.h"

struct rd_vb_cm_event;
struct rd_vb_conn;

int rd_vb_resolve(struct rd_fab *fab, const struct rd_fab_resolve_attr *attr,
		  struct rd_fab_conn **out);
int rd_vb_connect(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param);
/* Ends the thread in rdma_connect(), if there is one. */
void rd_vb_attempt_stop(struct rd_vb_conn *c);
/* Handles an event of rdma_cm in the states before OPEN. */
void rd_vb_connect_event(struct rd_vb_conn *c, const struct rd_vb_cm_event *ev);

#endif /* RD_VB_CONNECT_H */
