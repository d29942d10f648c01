/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Namespaces whose storage is remote: they are opened in the background, at the start and later,
 * and follow the size of the storage. See rdt_bdev_opened() and rdt_bdev_watch().
 *
 * Main thread only.
 */
#ifndef RDT_OPENING_H
#define RDT_OPENING_H

#include <stdint.h>

struct rdt_ns;
struct rdt_target;

/* Call between rdt_target_create() and rdt_target_start(): adds all namespaces of the configuration
 * and starts to open their storage. */
void rdt_opening_begin(struct rdt_target *t);
/*
 * Then waits at most @timeout_ns for those that are still being opened. They appear when their
 * storage answers, also those that have FAILED, which was logged, unless target.start forbids to
 * start without them. Returns 0 or -errno.
 */
int rdt_opening_wait(struct rdt_target *t, uint64_t timeout_ns);

/* Make the namespace LIVE once its backend is open; it is in state RDT_NS_OPENING. */
void rdt_opening_watch(struct rdt_ns *ns);

/* The namespace is LIVE: handle changes of its storage since it was opened. */
void rdt_opening_joined(struct rdt_ns *ns);

/* Count the namespace in its ANA group if another gateway holds its storage, and notify hosts when
 * it is the first such one or the last one is gone. Call it after the group has changed; changes of
 * backends call it by themselves. */
void rdt_opening_standby(struct rdt_ns *ns);
/* The namespace will be freed. */
void rdt_opening_gone(struct rdt_ns *ns);

#endif /* RDT_OPENING_H */
