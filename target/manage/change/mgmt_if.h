/* SPDX-License-Identifier: BSD-3-Clause */
/* The management interfaces of a target, the control socket and the HTTP listener, as the code
 * below them sees them. */
#ifndef RDT_MGMT_IF_H
#define RDT_MGMT_IF_H

#include <stddef.h>

struct rdt_config;

#define RDT_MGMT_TEXT 256 /* room for a sentence of set() */

/* Main thread only. */
struct rdt_mgmt_if {
	/* Follow the settings of @cfg. Returns the number of settings that have changed, or -errno
	 * with a sentence in @text. NULL: its settings cannot change. */
	int (*set)(struct rdt_mgmt_if *mgmt, const struct rdt_config *cfg, char *text,
		   size_t text_size);
	/* Why it cannot listen now; NULL: it listens, or is not to. Valid for this turn. */
	const char *(*failed)(const struct rdt_mgmt_if *mgmt);
};

#endif /* RDT_MGMT_IF_H */
