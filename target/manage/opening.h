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

/*
 * Between rdt_target_create() and rdt_target_start(): wait at most @timeout_ns for the namespaces
 * that are still being opened. Those that are not there by then appear when their storage answers,
 * which is logged. Returns 0, or -errno of a namespace whose storage said why it cannot be opened,
 * which was logged too.
 */
int rdt_opening_wait(struct rdt_target *t, uint64_t timeout_ns);

/* Have the namespace appear once its backend is open; it is in state RDT_NS_OPENING. */
void rdt_opening_watch(struct rdt_ns *ns);

/* The namespace is LIVE: follow changes of its storage that came while reactors opened channels. */
void rdt_opening_joined(struct rdt_ns *ns);

/* Tell hosts which ANA groups have storage that another gateway has. After a namespace of such a
 * group was removed; changes of backends are followed anyway. */
void rdt_opening_standby(struct rdt_target *t);

#endif /* RDT_OPENING_H */
