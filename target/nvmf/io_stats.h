/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of I/O commands: for each namespace on each reactor, and for each pair of host and
 * listener on each reactor. The figures of listeners and hosts are sums of the latter. Each reactor
 * also has totals, which are cheap to read however many hosts there are.
 *
 * A counter is written only by its reactor, with relaxed stores, and read by the main thread with
 * relaxed loads: commands need no lock and no atomic read-modify-write. The latency of every
 * command is counted. It begins with the loop iteration that received the command, and ends when
 * its answer was sent.
 *
 * Commands in flight and their ages are not counted. They are determined on demand by a walk over
 * the requests of a reactor, in slices.
 */
#ifndef RDT_IO_STATS_H
#define RDT_IO_STATS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/hist.h"
#include "util/loop.h"
#include "qpair_walk.h"

struct rdt_listener;
struct rdt_ns;
struct rdt_qpair;
struct rdt_reactor;
struct rdt_req;

/* Latencies in units of 1024 ns. Values below 8 have a bucket each; each further power of two is
 * divided into 4. The last bucket has no upper end: 15 s and more. */
#define RDT_LAT_UNIT_BITS 10
#define RDT_LAT_SUB_BITS  2
#define RDT_LAT_BUCKETS   92u
#define RDT_ERROR_KINDS   12u

/* Opcodes 0 to 2, and all others. */
enum rdt_io_op {
	RDT_IO_FLUSH,
	RDT_IO_WRITE,
	RDT_IO_READ,
	RDT_IO_OTHER,
	RDT_IO_OPS,
};

/* Why a connection has ended. */
enum rdt_end {
	RDT_END_HOST,       /* the host closed it */
	RDT_END_LOST,       /* it failed: a reset, a timeout or a protocol violation */
	RDT_END_FAULT,      /* the host violated the protocol, or a transfer failed */
	RDT_END_STALLED,    /* the host transferred too little data */
	RDT_END_KEEP_ALIVE, /* keep alive expired */
	RDT_END_CONTROLLER, /* an I/O queue whose controller was reset, shut down or lost */
	RDT_END_NO_CONNECT, /* no Connect in time */
	RDT_END_AUTH,       /* not authenticated, or not in time */
	RDT_END_TARGET,     /* ended by this target: drain, removal, control socket */
	RDT_ENDS,
};

enum rdt_count_of {
	RDT_COUNT_BUFFER_WAITS,                /* commands that found no free buffer */
	RDT_COUNT_QOS_WAITS,                   /* commands that waited for a limit */
	RDT_COUNT_QOS_NS,                      /* the sum of their waits, in ns */
	RDT_NS_COUNTS,                         /* the ones below are not per namespace */
	RDT_COUNT_KEEP_ALIVES = RDT_NS_COUNTS, /* associations that ended by keep alive */
	RDT_COUNT_ABORTS,                      /* Abort commands */
	RDT_COUNT_RESETS,                      /* controller resets */
	RDT_COUNT_CONNECTS,                    /* successful Connect commands */
	RDT_COUNT_REFUSALS,                    /* refused Connect commands */
	RDT_COUNT_ENDS,                        /* ended connections, by enum rdt_end */
	RDT_COUNTS = RDT_COUNT_ENDS + RDT_ENDS,
};

struct rdt_op_stats {
	_Atomic uint64_t bytes; /* of commands that succeeded */
	_Atomic uint64_t ns;    /* the sum of the latencies */
	_Atomic uint64_t bucket[RDT_LAT_BUCKETS];
};

struct rdt_io_errors { /* by status code type and status code, in order of occurrence */
	_Atomic uint32_t status[RDT_ERROR_KINDS]; /* 0: free */
	_Atomic uint64_t count[RDT_ERROR_KINDS];
	_Atomic uint64_t others; /* errors of further kinds, when all entries are taken */
};

/* The totals of a reactor, without the counters that came from another process. */
struct rdt_totals {
	struct rdt_op_stats op[RDT_IO_OPS];
	_Atomic uint64_t failed;
};

/* The result of a walk for one namespace or host. Valid if @walk is the number of the reactor's
 * last walk. */
struct rdt_in_flight {
	_Atomic uint32_t walk;
	_Atomic uint32_t count;
	_Atomic uint64_t oldest; /* arrival of the oldest command, in ns on the loop's clock */
};

/* The counters of a namespace on a reactor, allocated when its first command there is answered. */
struct rdt_ns_stats {
	struct rdt_op_stats op[RDT_IO_OPS];
	_Atomic uint64_t events[RDT_NS_COUNTS];
	struct rdt_io_errors errors;
};

/* The counters of a host through a listener, on a reactor. With @hostnqn NULL, those of connections
 * without a Connect, and the sums of hosts that have disconnected; these are kept until the target
 * ends. */
struct rdt_host_counters {
	struct rdt_op_stats op[RDT_IO_OPS];
	_Atomic uint64_t events[RDT_COUNTS];
	struct rdt_io_errors errors;
	struct rdt_in_flight in_flight;
	char *hostnqn;
	const struct rdt_listener *listener; /* NULL in tests */
	atomic_uint qpairs;                  /* 0: the host has disconnected or is connecting */
	_Atomic(struct rdt_host_counters *) next; /* in order of creation */
	struct rdt_host_counters *prev;           /* also the fields below: its reactor only */
	struct rdt_host_counters *same;           /* next in its bucket */
	uint32_t hash;                            /* of @hostnqn */
	bool left;                                /* it is in list->left */
	TAILQ_ENTRY(rdt_host_counters) left_link;
};

/* All counters of a reactor. */
struct rdt_counters_list {
	/* The first entry of the list: queue pairs without counters, because of missing memory or
	 * in a test. */
	struct rdt_host_counters nobody;
	pthread_mutex_t
		lock; /* guards @held and the removal of entries, not a walk over the list */
	bool held;    /* a reader walks over the list */
	bool ready;   /* @lock was initialized */
	/* the fields below: used by its reactor only */
	struct rdt_host_counters *last;
	struct rdt_host_counters **buckets; /* [room]: all but @nobody, by the hash */
	unsigned int count;
	unsigned int room;                    /* a power of two; 0: not used yet */
	TAILQ_HEAD(, rdt_host_counters) left; /* of hosts that left during a walk */
};

/* A run: equal commands that were answered in one batch of completions. They are counted together
 * when another command comes, a walk begins, the reactor goes to sleep, or their namespace or queue
 * pair is removed. */
struct rdt_io_run {
	uint64_t match;   /* the arrival time of commands that join it; 0: no command does */
	uint64_t arrived; /* the same, kept until it is counted; likewise the fields below */
	uint64_t answered;
	const struct rdt_qpair *qp;
	struct rdt_ns *ns;
	uint32_t len; /* bytes that each command has moved */
	uint32_t count;
	uint8_t opcode;
};

/* What a walk found to be in use on a reactor. */
struct rdt_walk_found {
	uint64_t admin_queues;
	uint64_t io_queues;
	uint64_t in_flight; /* commands on I/O queues */
	uint64_t waiting;   /* requests that wait for a buffer */
	uint64_t limited;   /* requests that wait for a limit */
	uint64_t buffer_bytes;
	uint64_t reserve_bytes;
	uint64_t scratch_bytes;
};

/* A walk over the requests of a reactor. */
struct rdt_walk {
	struct rd_msg msg; /* main -> reactor -> main; the main thread's between walks */
	struct rdt_qpair_walk qpairs;
	_Atomic uint32_t number;
	struct rdt_walk_found found;         /* owned by the main thread after the reply */
	void (*done)(struct rdt_reactor *r); /* on the main loop */
	void *arg;
};

static inline unsigned int rdt_lat_index(uint64_t ns)
{
	unsigned int index = rd_hist_bucket(ns >> RDT_LAT_UNIT_BITS, RDT_LAT_SUB_BITS);

	return index < RDT_LAT_BUCKETS ? index : RDT_LAT_BUCKETS - 1;
}

/* Returns the first value in ns beyond bucket @index. */
static inline uint64_t rdt_lat_end(unsigned int index)
{
	return rd_hist_end(index, RDT_LAT_SUB_BITS) << RDT_LAT_UNIT_BITS;
}

static inline enum rdt_io_op rdt_io_op(uint8_t opcode)
{
	return opcode < RDT_IO_OTHER ? (enum rdt_io_op)opcode : RDT_IO_OTHER;
}

/* Adds @n to @counter, which is written by the caller's thread only. */
static inline void rdt_count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static inline uint64_t rdt_counted(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Counts @n more commands with this status. */
void rdt_io_errors_add(struct rdt_io_errors *errors, uint32_t status, uint64_t n);

/* ---- a reactor, on its thread ---- */

int rdt_counters_list_init(struct rdt_reactor *r);
void rdt_counters_list_fini(struct rdt_reactor *r);
void rdt_host_counters_init(struct rdt_qpair *qp); /* before its listener is known */
/* @qp is a queue of host @hostnqn; NULL: it has not had a Connect. */
void rdt_host_counters_join(struct rdt_qpair *qp, const char *hostnqn);
void rdt_host_counters_leave(struct rdt_qpair *qp); /* the queue ends; may be repeated */

/* Returns whether this host has queues on this reactor. NULL: connections without a Connect, which
 * always count. */
bool rdt_host_counters_has(const struct rdt_counters_list *list,
			   const struct rdt_listener *listener, const char *hostnqn);
/* Adds the counters that came from another process to those of the host or, if it is not connected,
 * to those of hosts that have disconnected. */
void rdt_host_counters_inherit(struct rdt_counters_list *list, const struct rdt_listener *listener,
			       const char *hostnqn, const struct rdt_host_counters *from);

/* Counts I/O command @req, whose @arrived is set, and which was answered and belongs to no run. The
 * inline part is in request.c. */
void rdt_io_count(struct rdt_req *req);
void rdt_io_count_run(struct rdt_reactor *r); /* counts the commands of the run */
/* counts for the namespace too; @event is below RDT_NS_COUNTS */
void rdt_io_count_wait(const struct rdt_req *req, enum rdt_count_of event, uint64_t n);
void rdt_count_event(const struct rdt_qpair *qp, enum rdt_count_of event);

/* Begins a walk. Executed on the reactor as a message; posts r->walk.done to the main loop. */
void rdt_walk_begin(struct rd_msg *msg);

/* ---- the main thread ---- */

/* From rdt_counters_list_hold() to rdt_counters_list_release(), the main thread can read each entry
 * from @list->nobody on without a lock, by rdt_host_counters_next(). A new entry may or may not be
 * among them. The reactor never waits for the reader. */
void rdt_counters_list_hold(struct rdt_counters_list *list);
void rdt_counters_list_release(struct rdt_counters_list *list);

static inline const struct rdt_host_counters *rdt_host_counters_next(
	const struct rdt_host_counters *counters)
{
	return atomic_load_explicit(&counters->next, memory_order_acquire);
}

void rdt_ns_stats_merge(struct rdt_ns_stats *to, const struct rdt_ns_stats *from);
/* Adds the counters that came from another process, before the first command. Returns 0 or
 * -ENOMEM. */
int rdt_ns_stats_inherit(struct rdt_ns *ns, const struct rdt_ns_stats *from);
void rdt_ns_stats_free(struct rdt_ns *ns); /* no reactor may have a channel */

#endif /* RDT_IO_STATS_H */
