/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Controllers and connections on their way from one process to the next: as records (JSON objects
 * with a "kind") and descriptors. What was written is read by another version of this program, or
 * by somebody who is not one: each field is checked. docs/design/moves.md.
 *
 * Functions are called on the main thread, and so are the callbacks.
 */
#ifndef RDT_MOVE_H
#define RDT_MOVE_H

#include <stdbool.h>

#include <jansson.h>

struct rd_fd_bag;
struct rdt_move_counters;
struct rdt_target;

/* Counters are most of the records where there are many namespaces and hosts, so a process that can
 * take them later gets them when its hosts are served. */
enum rdt_move_part {
	RDT_MOVE_ALL,
	RDT_MOVE_STATE,    /* without the counters of namespaces and hosts */
	RDT_MOVE_COUNTERS, /* these alone */
};

struct rdt_move_count {
	unsigned int ctrls, queues; /* that move */
	unsigned int left;          /* queues that cannot: their hosts connect again */
};

/*
 * The old process, while @tgt is held (hold.h): appends to the array @records a record for each
 * controller that can move ("kind": "ctrl") and each of its connections ("kind": "queue"). Sockets
 * are put into @fds as duplicates. Nothing changes: rdt_hold_release() may follow. With
 * RDT_MOVE_COUNTERS, after that with RDT_MOVE_STATE and before rdt_move_done(), only "target" and
 * "listener", and @fds may be NULL. Returns 0 or -errno.
 */
int rdt_move_out(struct rdt_target *tgt, enum rdt_move_part part, json_t *records,
		 struct rd_fd_bag *fds);
struct rdt_move_count rdt_move_counted(const struct rdt_target *tgt); /* by rdt_move_out() */
/*
 * The next process has them: what rdt_move_out() wrote is closed here without a byte on the wire,
 * and other connections end. Ends the hold; rdt_target_drain() may follow at once. In the new
 * process, instead of rdt_move_start(): the old one has not committed, and what rdt_move_in() built
 * is closed likewise.
 */
void rdt_move_done(struct rdt_target *tgt);

/*
 * The new process: builds the controllers and connections of @records, which may also contain other
 * kinds; @tgt runs and accepts nothing. A connection whose listener, subsystem or host is not in
 * the configuration any more, or may not connect now, is left out, and with an admin queue its
 * controller; its descriptor stays in @fds. @in follows, not from within this call: 0; or -errno
 * with a sentence in @why, after a record that this program cannot take: then what was built is
 * gone. The connections do not read before rdt_move_start(). @records and @fds are borrowed until
 * @in. Returns 0, or -errno and @in does not follow.
 */
int rdt_move_in(struct rdt_target *tgt, const json_t *records, struct rd_fd_bag *fds,
		void (*in)(void *arg, int err, const char *why), void *arg);
struct rdt_move_count rdt_move_in_counted(const struct rdt_target *tgt);
/* The old process has committed: they begin to read, and are told of ANA states that the
 * configuration changes. */
void rdt_move_start(struct rdt_target *tgt);
/*
 * After that: adds the counters of @records, of RDT_MOVE_COUNTERS, while hosts are served. @mc is
 * zeroed; mc->done() follows, not from within this call, and @records must be there until then.
 * What cannot be is left out: mc->bad counts these records.
 */
void rdt_move_counters_late(struct rdt_target *tgt, struct rdt_move_counters *mc,
			    const json_t *records);

/* of rdt_move_done() */
void rdt_move_forget(struct rdt_target *tgt);

#endif /* RDT_MOVE_H */
