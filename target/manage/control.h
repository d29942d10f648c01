/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What changes in a running target: the calls that a reload makes, and tests.
 *
 * Threads: all of it on the main thread. A change that reactors have to follow is asynchronous:
 * @done is called exactly once, from the main loop or before the call returns, with 0 or -errno
 * and, for an error, a sentence for people (valid during the call). When the target is destroyed
 * first, it is not called.
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
 * Add the namespace that @cfg, a part of @cfg_of, describes. @bdev: its backend, opened and handed
 * over in any case, or NULL to open it here. Done when every reactor serves it; hosts have been
 * told. -EEXIST: the NSID is in use; -EBUSY: a namespace with this NSID is still leaving.
 */
void rdt_control_ns_add(struct rdt_subsys *ss, const struct rdt_ns_config *cfg,
			struct rdt_config *cfg_of, struct rdt_bdev *bdev, rdt_control_done done,
			void *arg);

/*
 * Remove @ns. Commands that come later are refused; what is in flight completes, or ends as if it
 * had come later. Done when the last one has and the backend is closed. @ns is gone then, with no
 * call of ours but this one's @done. -EBUSY: it is still coming or already leaving.
 */
void rdt_control_ns_remove(struct rdt_ns *ns, rdt_control_done done, void *arg);

/*
 * Give @ns the size of its backend now: memory and null take @size, 0 stays as it is; files and
 * devices are looked at, and when @size is not 0 they must have it. Returns 0, also when nothing
 * has changed, or -errno with a sentence in @text.
 */
int rdt_control_ns_resize(struct rdt_ns *ns, uint64_t size, char *text, size_t text_size);

/*
 * A subsystem as @cfg, a part of @cfg_of, describes it, without namespaces, and not there for hosts
 * before rdt_control_subsys_show(). One that was removed is used again for the same NQN: then
 * ss->now is what it was removed with. Returns 0 or -errno with a sentence in @text.
 */
int rdt_control_subsys_add(struct rdt_target *t, const struct rdt_subsys_config *cfg,
			   struct rdt_config *cfg_of, struct rdt_subsys **out, char *text,
			   size_t text_size);
void rdt_control_subsys_show(struct rdt_subsys *ss);
/* For hosts it is gone, and their controllers end. Its namespaces are the caller's to remove. */
void rdt_control_subsys_remove(struct rdt_subsys *ss);

/*
 * Open the backend of @cfg as rdt_control_ns_add() would. Returns 0 or -errno with a sentence.
 */
int rdt_control_open(struct rdt_target *t, const struct rdt_ns_config *cfg, struct rdt_bdev **out,
		     char *text, size_t text_size);

#endif /* RDT_CONTROL_H */
