/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of namespaces in a hand-over: which descriptor the next process opens each one on ("ns"),
 * and what hosts have set, such as reservations ("ns-state"). docs/design/moves.md has the members.
 *
 * Main thread only. On failure @why receives a sentence that names the namespace.
 */
#ifndef RDT_NS_RECORD_H
#define RDT_NS_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "target/nvmf/move.h"

struct rd_fd_bag;
struct rdt_config;
struct rdt_inherit;
struct rdt_target;

/* Storage says that this process uses it (@us), or none: rdt_bdev_name_user() of each. */
void rdt_ns_records_name_user(const struct rdt_target *t, bool us);

/* ---- the process that hands over ---- */

/* Appends an "ns" for each namespace that is served. -EOPNOTSUPP, -EBUSY: one cannot move, now. */
int rdt_ns_records_open(const struct rdt_target *t, json_t *records, struct rd_fd_bag *bag,
			char *why, size_t size);
/* While nothing is served: appends an "ns-state" for each one that has such a state. */
int rdt_ns_records_state(const struct rdt_target *t, enum rdt_move_part part, json_t *records,
			 char *why, size_t size);

/* ---- the process that takes over ---- */

/* Before the target is created: puts the descriptors into @inherit, and checks that what hosts know
 * of each namespace stays in @cfg; one that is not in @cfg leaves. */
int rdt_ns_records_inherit(const json_t *records, const struct rdt_config *cfg,
			   struct rd_fd_bag *bag, struct rdt_inherit *inherit, char *why,
			   size_t size);
/* After the start: is each one LIVE that was served, with its UUID? */
int rdt_ns_records_check(const struct rdt_target *t, const json_t *records, char *why, size_t size);
int rdt_ns_records_take(struct rdt_target *t, const json_t *records, char *why, size_t size);
/* Of namespaces whose I/O has ended after that. */
int rdt_ns_records_end(struct rdt_target *t, const json_t *records, char *why, size_t size);
/* After the commit: tells hosts of namespaces that came, left, or have another size or ANA group.
 */
void rdt_ns_records_tell(struct rdt_target *t, const json_t *records);

#endif /* RDT_NS_RECORD_H */
