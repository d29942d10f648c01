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

#include <stddef.h>
#include <stdint.h>

#include "target/bdev/backend.h"
#include "target/config/config.h"
#include "target/nvmf/ns.h"

struct rdt_ns;
struct rdt_subsys;
struct rdt_target;

/*
 * Add the namespace described by @cfg, a part of @cfg_of. @bdev: its open backend, whose ownership
 * passes in any case; NULL: open it here. @done runs when every reactor serves the namespace and
 * hosts have been notified, or at once when the backend is opened in the background. -EEXIST: the
 * NSID is in use; -EBUSY: a namespace with this NSID is still being removed.
 */
void rdt_control_ns_add(struct rdt_subsys *ss, const struct rdt_ns_config *cfg,
			struct rdt_config *cfg_of, struct rdt_bdev *bdev, rdt_control_done done,
			void *arg);

/* The backend of @ns, which is OPENING or new, is open: have the reactors serve it. */
void rdt_control_ns_opened(struct rdt_ns *ns);

/*
 * Remove @ns. Later commands are refused; commands in flight complete, or end as if they had come
 * later. @done runs when the last of them has ended and the backend is closed; only then @ns is
 * freed. -EBUSY: it is still being added or already being removed.
 */
void rdt_control_ns_remove(struct rdt_ns *ns, rdt_control_done done, void *arg);

/*
 * Set the size of @ns: memory and null take @size bytes (0: unchanged); for files and devices the
 * current size is used, which must be @size unless that is 0. Returns 0, also when nothing changed,
 * or -errno with a sentence in @text.
 */
int rdt_control_ns_resize(struct rdt_ns *ns, uint64_t size, char *text, size_t text_size);

/*
 * Add the subsystem described by @cfg, a part of @cfg_of, without namespaces. Hosts cannot use it
 * before rdt_control_subsys_show(). A subsystem that was removed is reused for the same NQN; then
 * ss->now is the configuration with which it was removed. Returns 0, or -errno with a sentence in
 * @text.
 */
int rdt_control_subsys_add(struct rdt_target *t, const struct rdt_subsys_config *cfg,
			   struct rdt_config *cfg_of, struct rdt_subsys **out, char *text,
			   size_t text_size);
void rdt_control_subsys_show(struct rdt_subsys *ss);
/* Hide @ss from hosts and end its controllers. The caller removes its namespaces. */
void rdt_control_subsys_remove(struct rdt_subsys *ss);

/* Open the backend of @cfg as rdt_control_ns_add() does. Returns 0, or -errno with a sentence. */
int rdt_control_open(struct rdt_target *t, const struct rdt_ns_config *cfg, struct rdt_bdev **out,
		     char *text, size_t text_size);

#endif /* RDT_CONTROL_H */
