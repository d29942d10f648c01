/* SPDX-License-Identifier: BSD-3-Clause */
#include "rx_ack.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "conn.h"

#define ACK_BYTES 40000 /* a read of fewer bytes is left to TCP */
#define ACK_FPDUS 8     /* a read with as many is dense */
#define ACK_MSS   16384
#define ACK_OFTEN (4 * RD_NSEC_PER_MSEC)

void rd_iw_ack_open(struct rd_iw_conn *c)
{
	c->rx.ack.large_mss = rd_iw_conn_mss(c) >= ACK_MSS;
}

void rd_iw_ack_begin(struct rd_iw_rx_ack *ack, uint64_t now)
{
	ack->often = now - ack->last < ACK_OFTEN;
}

void rd_iw_ack_had_data(struct rd_iw_rx_ack *ack, uint64_t now)
{
	ack->last = now;
}

void rd_iw_ack_read(struct rd_iw_conn *c, size_t bytes)
{
	const struct rd_iw_rx_ack *ack = &c->rx.ack;
	int on = 1;

	if (bytes < ACK_BYTES || !ack->large_mss || !ack->dense || !ack->often)
		return;
	/* When it fails TCP acknowledges in its own time. */
	if (setsockopt(c->io.fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on)) == 0)
		c->fab->stats.quick_acks++;
}

void rd_iw_ack_note(struct rd_iw_rx_ack *ack, size_t bytes, uint64_t fpdus)
{
	if (bytes >= ACK_BYTES)
		ack->dense = fpdus >= ACK_FPDUS;
}
