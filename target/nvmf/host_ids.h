/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose a Host Identifier is, in subsystems whose hosts authenticate. Reservations know hosts by
 * their identifier alone, and a host gives any it likes in its Connect. So an identifier belongs to
 * the name that was the first to prove itself with it, by DH-HMAC-CHAP or its key of TLS, until the
 * name has no key any more or the target ends; other names that use it are refused. Everything
 * under subsys->lock.
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
#define RDT_HOST_IDS        16u /* identifiers of a name in a subsystem, at most */

LIST_HEAD(rdt_host_id_bucket, rdt_host_id);
LIST_HEAD(rdt_id_owner_bucket, rdt_id_owner);

/* Take over the identifiers that several names may use, as in clusters whose nodes are one host for
 * reservations. Main thread, without the lock. 1: they have changed; 0; -ENOMEM: they have not. */
int rdt_host_ids_share(struct rdt_subsys *ss, const struct rdt_subsys_config *cfg);
/* May @ctrl, whose host need not authenticate, have its identifier? 0 or -EPERM. */
int rdt_host_id_check(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl);
/* The host of @ctrl has proven itself. The identifier belongs to its name from now on; of more than
 * RDT_HOST_IDS, the one used longest ago does no more. Controllers of other names with it end. 0;
 * -EPERM: it belongs to another name; -ENOMEM. */
int rdt_host_id_claim(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl);
/* Has the host of @ctrl, or another of its name, proven itself with the identifier of @ctrl? */
bool rdt_host_id_is_own(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl);
const char *rdt_host_id_reason(int err);
void rdt_host_ids_fini(struct rdt_subsys *ss);

#endif /* RDT_HOST_IDS_H */
