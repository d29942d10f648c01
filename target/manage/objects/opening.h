/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Namespaces whose storage is far away: they are opened in the background, at the start and later,
 * and change their size when the storage does. See rdt_bdev_opened() and rdt_bdev_watch().
 *
 * Threads: main thread only.
 */
#ifndef RDT_OPENING_H
#define RDT_OPENING_H

#include <stdint.h>

struct rdt_ns;
struct rdt_target;

/* Between rdt_target_create() and rdt_target_start(): add all namespaces of the configuration, and
 * begin to open their storage. */
void rdt_opening_begin(struct rdt_target *t);
/*
 * After it: wait at most @timeout_ns for those that are still being opened. They appear when their
 * storage answers; so do those that have FAILED, which was logged, unless target.start forbids to
 * start without them. Returns 0 or -errno.
 */
int rdt_opening_wait(struct rdt_target *t, uint64_t timeout_ns);

/* Have the namespace appear once its backend is open; it is in state RDT_NS_OPENING. */
void rdt_opening_watch(struct rdt_ns *ns);

/* The namespace is LIVE: follow changes of its storage that came while reactors opened channels. */
void rdt_opening_joined(struct rdt_ns *ns);

/* Count the namespace in its ANA group if another gateway has its storage, and tell hosts when it
 * is the first one, or the last one has gone. After its group has changed; changes of backends are
 * followed anyway. */
void rdt_opening_standby(struct rdt_ns *ns);
/* The namespace will be freed. */
void rdt_opening_gone(struct rdt_ns *ns);

#endif /* RDT_OPENING_H */
