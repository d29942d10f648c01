/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of a running target: the calls that a reload and tests make.
 *
 * Threads: main thread only. A change that involves reactors is asynchronous: @done is called
 * exactly once, from the main loop or before the call returns, with 0 or with -errno and a sentence
 * that is valid during the call. It is not called when the target is destroyed first.
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
 * Add the namespace described by @cfg, a part of @cfg_of. @done runs when every reactor serves the
 * namespace and hosts have been notified, or when its storage cannot be opened now: then it is
 * FAILED, and is tried again. Without a namespace: -EEXIST, the NSID is in use; -ENOSPC; -ENOMEM.
 */
void rdt_control_ns_add(struct rdt_subsys *ss, const struct rdt_ns_config *cfg,
			struct rdt_config *cfg_of, rdt_control_done done, void *arg);
/* Remove @ns, and add it again with what its path names now. @done as for an addition. */
void rdt_control_ns_reopen(struct rdt_ns *ns, rdt_control_done done, void *arg);
/* Try at once to open what is FAILED. @done as for an addition. */
void rdt_control_ns_retry(struct rdt_ns *ns, rdt_control_done done, void *arg);

/* Is its addition or removal in progress? rdt_control_ns_wait(): @done is told the end of it. */
bool rdt_control_ns_settling(const struct rdt_ns *ns);
void rdt_control_ns_wait(struct rdt_ns *ns, rdt_control_done done, void *arg);

/* For opening.c: the backend of @ns is open: have the reactors serve it. */
void rdt_control_ns_opened(struct rdt_ns *ns);
/* For opening.c: the backend of @ns, OPENING or FAILED, cannot be opened because of @err. */
void rdt_control_ns_failed(struct rdt_ns *ns, int err, const char *text);

/*
 * Remove @ns. Later commands are refused, and another namespace may have its NSID; commands in
 * flight complete, or end as if they had come later. @done runs when the last of them has ended and
 * the backend is closed, or with -EINPROGRESS after 10 s; @ns is freed in the end. It may be freed
 * before this returns. -EBUSY: it is being removed already.
 */
void rdt_control_ns_remove(struct rdt_ns *ns, rdt_control_done done, void *arg);

/*
 * Set the size of @ns, which is LIVE: memory and null take @size bytes (0: unchanged); another
 * backend takes what it knows, which rdt_control_ns_measure() asks the storage for. Returns 0, also
 * when nothing changed, or -errno with a sentence in @text.
 */
int rdt_control_ns_resize(struct rdt_ns *ns, uint64_t size, char *text, size_t text_size);
/* Ask the storage of @ns for its size, which must be @size unless that is 0, and take it over.
 * @done: 1: the size has changed. */
void rdt_control_ns_measure(struct rdt_ns *ns, uint64_t size, rdt_control_done done, void *arg);

/*
 * Add the subsystem described by @cfg, a part of @cfg_of, without namespaces. Hosts cannot use it
 * before rdt_control_subsys_show(). Returns 0, or -errno with a sentence in @text.
 */
int rdt_control_subsys_add(struct rdt_target *t, const struct rdt_subsys_config *cfg,
			   struct rdt_config *cfg_of, struct rdt_subsys **out, char *text,
			   size_t text_size);
void rdt_control_subsys_show(struct rdt_subsys *ss);
/* Hide @ss from hosts and end its controllers. The caller removes its namespaces. Another one may
 * have its NQN from now on. */
void rdt_control_subsys_remove(struct rdt_subsys *ss);

#endif /* RDT_CONTROL_H */
