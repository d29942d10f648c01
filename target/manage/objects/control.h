/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of a running target, as a reload and tests make them.
 *
 * Main thread only. A change that involves reactors is asynchronous: @done is called exactly once,
 * from the main loop or before the call returns, with 0, or with -errno and a message that is valid
 * during the call. It is not called if the target is destroyed first.
 */
#ifndef RDT_CONTROL_H
#define RDT_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/bdev/backend.h"
#include "target/config/config.h"
#include "target/nvmf/ns.h"

struct rdt_ns;
struct rdt_subsys;
struct rdt_target;

/*
 * Add the namespace described by @cfg, a part of @cfg_of. @done is called when every reactor serves
 * the namespace and hosts were notified, or when its storage cannot be opened; then it is FAILED
 * and is retried. If no namespace is created: -EEXIST, the NSID is in use; -ENOSPC; -ENOMEM.
 */
void rdt_control_ns_add(struct rdt_subsys *ss, const struct rdt_ns_config *cfg,
			struct rdt_config *cfg_of, rdt_control_done done, void *arg);
/* Remove @ns, and add it again, opening its path anew. @done as for an addition. */
void rdt_control_ns_reopen(struct rdt_ns *ns, rdt_control_done done, void *arg);
/* Retry to open @ns now if it is FAILED. @done as for an addition. */
void rdt_control_ns_retry(struct rdt_ns *ns, rdt_control_done done, void *arg);

/* Whether an addition or removal is in progress. rdt_control_ns_wait(): @done gets its result. */
bool rdt_control_ns_settling(const struct rdt_ns *ns);
void rdt_control_ns_wait(struct rdt_ns *ns, rdt_control_done done, void *arg);

/* For opening.c: the backend of @ns is open; let the reactors serve it. */
void rdt_control_ns_opened(struct rdt_ns *ns);
/* For opening.c: the backend of @ns, OPENING or FAILED, cannot be opened because of @err. */
void rdt_control_ns_failed(struct rdt_ns *ns, int err, const char *text);

/*
 * Remove @ns. Later commands fail, and another namespace may get its NSID; commands in flight
 * complete, or fail like later ones. @done is called when the last of them has ended and the
 * backend is closed, or with -EINPROGRESS after 10 s. @ns is freed in the end, possibly before this
 * returns. -EBUSY: it is being removed already.
 */
void rdt_control_ns_remove(struct rdt_ns *ns, rdt_control_done done, void *arg);

/*
 * Set the size of @ns, which is LIVE: that of memory and null to @size bytes (0: unchanged), that
 * of another backend to the last known size of its storage (see rdt_control_ns_measure()). Returns
 * 0, also if nothing changed, or -errno with a message in @text.
 */
int rdt_control_ns_resize(struct rdt_ns *ns, uint64_t size, char *text, size_t text_size);
/* Read the size of the storage of @ns, which must be @size unless that is 0, and apply it. @done
 * gets 1 if the size has changed. */
void rdt_control_ns_measure(struct rdt_ns *ns, uint64_t size, rdt_control_done done, void *arg);
/* The gate of @ns is closed, and the process before was killed: its gate opens when rdt_bdev_own()
 * has succeeded, which is tried again and again. */
void rdt_control_ns_own(struct rdt_ns *ns);

/*
 * Add the subsystem described by @cfg, a part of @cfg_of, without namespaces. Hosts cannot use it
 * before rdt_control_subsys_show(). Returns 0, or -errno with a message in @text.
 */
int rdt_control_subsys_add(struct rdt_target *t, const struct rdt_subsys_config *cfg,
			   struct rdt_config *cfg_of, struct rdt_subsys **out, char *text,
			   size_t text_size);
void rdt_control_subsys_show(struct rdt_subsys *ss);
/* Hide @ss from hosts and end its controllers. The caller removes its namespaces. Its NQN may be
 * used by a new subsystem from now on. */
void rdt_control_subsys_remove(struct rdt_subsys *ss);

#endif /* RDT_CONTROL_H */
