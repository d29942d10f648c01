/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface of the control socket and the HTTP listener towards the layers below them. */
#ifndef RDT_MGMT_IF_H
#define RDT_MGMT_IF_H

#include <stddef.h>

struct rdt_config;

#define RDT_MGMT_TEXT 256 /* size of the message of set() */

/* Main thread only. */
struct rdt_mgmt_if {
	/* Apply the settings in @cfg. Returns how many have changed, or -errno with a message in
	 * @text. NULL: the settings cannot change at run time. */
	int (*set)(struct rdt_mgmt_if *mgmt, const struct rdt_config *cfg, char *text,
		   size_t text_size);
	/* Why it cannot listen, valid for this loop iteration; NULL: it listens, or need not. */
	const char *(*failed)(const struct rdt_mgmt_if *mgmt);
};

#endif /* RDT_MGMT_IF_H */
