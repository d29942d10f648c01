/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters and latencies on their way to another process (io_stats.h), so that no figure falls back
 * to 0: members of the records "target", "listener" and "ns-state". A counter that is absent is 0,
 * and one that the reader does not know is ignored. Times of threads are those of a process, and
 * stay with it. docs/design/moves.md has the members.
 */
#ifndef RDT_MOVE_COUNTERS_H
#define RDT_MOVE_COUNTERS_H

#include <stddef.h>

#include <jansson.h>

#include "util/loop.h"
#include "io_stats.h"

struct rdt_listener;
struct rdt_ns;
struct rdt_target;

/* ---- the old process, on the main thread while the target is held ---- */

/* Adds the counters of hosts by @l to its record; NULL: of no listener that is there, to the record
 * of the target. Returns 0 or -ENOMEM. */
int rdt_move_hosts_out(const struct rdt_target *t, const struct rdt_listener *l, json_t *rec);
/* Adds what else the target counts to its record. Returns 0 or -ENOMEM. */
int rdt_move_totals_out(struct rdt_target *t, json_t *rec);
/* Adds the counters of @ns, of all reactors, to its record. Returns 0 or -ENOMEM. */
int rdt_move_ns_counters_out(const struct rdt_ns *ns, json_t *rec);

/* ---- the new process: before the commit, or when hosts are served (rdt_move_counters_late()) ----
 */

struct moved_host;

struct rdt_move_counters { /* all zero: empty */
	struct rdt_target *target;
	struct moved_host *hosts; /* their records are borrowed */
	size_t count, room;
	const json_t *records; /* of which namespaces take theirs; NULL: none */
	struct rdt_host_counters scratch;
	unsigned int pass, reactor;
	size_t at;        /* where the slice begins, of @hosts or @records */
	unsigned int bad; /* records with a counter that cannot be */
	struct rd_msg msg;
	void (*done)(struct rdt_move_counters *mc);
};

/* Main thread. Checks the counters in @rec, which is that of @l, or of the target or a listener
 * that is not there any more (NULL). Returns 0, -ENOMEM, or -EPROTO: there is one that cannot be.
 */
int rdt_move_counters_read(struct rdt_move_counters *mc, const struct rdt_listener *l,
			   const json_t *rec);
/* Likewise, with what else the target has counted, which takes effect at once. */
int rdt_move_totals_in(struct rdt_target *t, const json_t *rec);
/* When the connections are there: each reactor takes the counters of its hosts, and the first one
 * those of namespaces. mc->done() follows on the main thread, not from within this call. */
void rdt_move_counters_in(struct rdt_move_counters *mc);
void rdt_move_counters_free(struct rdt_move_counters *mc);
/* Main thread before the commit, then the first reactor. Returns 0, -ENOMEM or -EPROTO. */
int rdt_move_ns_counters_in(struct rdt_ns *ns, const json_t *rec);

#endif /* RDT_MOVE_COUNTERS_H */
