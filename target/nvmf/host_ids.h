/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The owners of Host Identifiers in subsystems whose hosts authenticate. Reservations identify a
 * host by its Host Identifier alone, and a host may send any value in its Connect. Therefore an
 * identifier belongs to the host name that was first to authenticate with it, by DH-HMAC-CHAP or
 * with its TLS key, until that name has no key any more or the target ends. Other names that use it
 * are refused. Everything is guarded by subsys->lock.
 */
#ifndef RDT_HOST_IDS_H
#define RDT_HOST_IDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct rdt_ctrl;
struct rdt_host_id;
struct rdt_id_owner;
struct rdt_subsys;
struct rdt_subsys_config;

#define RDT_HOST_ID_BUCKETS 64u
#define RDT_HOST_IDS        16u /* maximum number of identifiers of one name in a subsystem */

LIST_HEAD(rdt_host_id_bucket, rdt_host_id);
LIST_HEAD(rdt_id_owner_bucket, rdt_id_owner);

/* Set the identifiers that several names may use, for clusters whose nodes are one host in
 * reservations. Returns 1 if they have changed, 0 if not, or -ENOMEM without a change. Main thread,
 * without the lock. */
int rdt_host_ids_share(struct rdt_subsys *ss, const struct rdt_subsys_config *cfg);
/* Returns 0 if @ctrl, whose host need not authenticate, may use its identifier, or -EPERM. */
int rdt_host_id_check(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl);
/* Claim the identifier for the host of @ctrl, which has authenticated. If the name then has more
 * than RDT_HOST_IDS, the least recently used one is released. Ends controllers of other names with
 * this identifier. Returns 0; -EPERM: it belongs to another name; or -ENOMEM. */
int rdt_host_id_claim(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl);
/* Returns whether the host of @ctrl, or another one with its name, has authenticated with this
 * identifier. */
bool rdt_host_id_is_own(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl);
const char *rdt_host_id_reason(int err);
void rdt_host_ids_fini(struct rdt_subsys *ss);

#endif /* RDT_HOST_IDS_H */
