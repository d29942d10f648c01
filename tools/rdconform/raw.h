/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface below raw connections: what differs between RDMA and TCP. */
#ifndef RDC_RAW_H
#define RDC_RAW_H

#include <sys/socket.h>

#include "rdconform.h"

struct rdc_wire {
	/* Connects to @to; returns when ->up, ->rejected or ->over is set. Ends the test if neither
	 * happens in time. */
	void (*dial)(struct rdc_raw *raw, const struct rdc_dial *d, const struct sockaddr *to);
	/* Ends the connection in an orderly way where possible, and frees what dial() allocated. */
	void (*hang_up)(struct rdc_raw *raw);
	/* Handles what arrives within @ms. */
	void (*turn)(struct rdc_raw *raw, uint64_t ms);
	void (*send)(struct rdc_raw *raw, const void *capsule, size_t len);
	/* Makes @mem accessible to the target. Returns 0 or -errno. */
	int (*reg)(struct rdc_raw *raw, struct rdc_mem *mem, int access);
	/* Describes @len bytes at @at, which is in @mem; @mem NULL: no data. */
	void (*set_sgl)(union nvme_sgl *sgl, const struct rdc_mem *mem, const void *at,
			uint32_t len);
};

extern const struct rdc_wire rdc_wire_rdma, rdc_wire_tcp;

/* Handles what arrives until *@flag, or the end of the connection; the test fails with @what if
 * neither comes in time. */
void rdc_raw_until(struct rdc_raw *raw, const bool *flag, const char *what);

#endif /* RDC_RAW_H */
