/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of I/O commands: for each namespace on each reactor, and for each host by each listener
 * on each reactor. Listeners and hosts are sums of these. Each reactor also has totals,
 * which can be read often however many hosts there are.
 *
 * A counter is written by its reactor only, with relaxed stores, and read by the main thread with
 * relaxed loads: no lock and no atomic read-modify-write for a command. The latency of every
 * command is counted. It begins with the turn of the loop that received the command, and ends when
 * its answer was sent.
 *
 * Commands in flight and their ages are not counted but looked up on demand: a walk over the
 * requests of a reactor, in slices.
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

enum rdt_io_op { /* the opcodes 0 to 2, and all others */
		 RDT_IO_FLUSH,
		 RDT_IO_WRITE,
		 RDT_IO_READ,
		 RDT_IO_OTHER,
		 RDT_IO_OPS,
};

enum rdt_end {                     /* why a connection has ended */
	       RDT_END_HOST,       /* the host closed it */
	       RDT_END_LOST,       /* it failed: a reset, a timeout, a violation on the wire */
	       RDT_END_FAULT,      /* the host violated the protocol, or a transfer failed */
	       RDT_END_STALLED,    /* the host transferred too little data */
	       RDT_END_KEEP_ALIVE, /* keep alive expired */
	       RDT_END_CONTROLLER, /* an I/O queue whose controller was reset, shut down or lost */
	       RDT_END_NO_CONNECT, /* no Connect in time */
	       RDT_END_AUTH,       /* not authenticated, or not in time */
	       RDT_END_TARGET,     /* this target wanted it: drain, removal, control socket */
	       RDT_ENDS,
};

enum rdt_count_of {
	RDT_COUNT_BUFFER_WAITS,                /* commands that found no free buffer */
	RDT_COUNT_QOS_WAITS,                   /* commands that waited for a limit */
	RDT_COUNT_QOS_NS,                      /* the sum of their waits, in ns */
	RDT_NS_COUNTS,                         /* the further ones are not counted for namespaces */
	RDT_COUNT_KEEP_ALIVES = RDT_NS_COUNTS, /* associations that ended by it */
	RDT_COUNT_ABORTS,                      /* Abort commands */
	RDT_COUNT_RESETS,                      /* controller resets */
	RDT_COUNT_CONNECTS,                    /* queues that were connected */
	RDT_COUNT_REFUSALS,                    /* Connect commands that were refused */
	RDT_COUNT_ENDS,                        /* connections that have ended, by enum rdt_end */
	RDT_COUNTS = RDT_COUNT_ENDS + RDT_ENDS,
};

struct rdt_op_stats {
	_Atomic uint64_t bytes; /* of commands that succeeded */
	_Atomic uint64_t ns;    /* the sum of the latencies */
	_Atomic uint64_t bucket[RDT_LAT_BUCKETS];
};

struct rdt_io_errors { /* by status code type and status code, in order of appearance */
	_Atomic uint32_t status[RDT_ERROR_KINDS]; /* 0: free */
	_Atomic uint64_t count[RDT_ERROR_KINDS];
	_Atomic uint64_t others; /* when all kinds are taken */
};

/* Of a reactor: the sum of what it has counted itself, without what came from another process. */
struct rdt_totals {
	struct rdt_op_stats op[RDT_IO_OPS];
	_Atomic uint64_t failed;
};

/* The result of a walk. Valid if @walk is the number of the reactor's last walk. */
struct rdt_in_flight {
	_Atomic uint32_t walk;
	_Atomic uint32_t count;
	_Atomic uint64_t oldest; /* its arrival, in ns on the loop's clock */
};

/* Of a namespace on a reactor: allocated when the first command is answered there. */
struct rdt_ns_stats {
	struct rdt_op_stats op[RDT_IO_OPS];
	_Atomic uint64_t events[RDT_NS_COUNTS];
	struct rdt_io_errors errors;
};

/* Of a host by a listener on a reactor. @hostnqn NULL: connections without a Connect, and the sums
 * of hosts that have disconnected; these counters stay until the target ends. */
struct rdt_host_counters {
	struct rdt_op_stats op[RDT_IO_OPS];
	_Atomic uint64_t events[RDT_COUNTS];
	struct rdt_io_errors errors;
	struct rdt_in_flight in_flight;
	char *hostnqn;
	const struct rdt_listener *listener;      /* NULL in tests */
	atomic_uint qpairs;                       /* of a host 0: it has left, or is just coming */
	_Atomic(struct rdt_host_counters *) next; /* in the order in which they came */
	struct rdt_host_counters *prev;           /* also the fields below: its reactor only */
	struct rdt_host_counters *same;           /* the next one in its bucket */
	uint32_t hash;                            /* of @hostnqn */
	bool left;                                /* it is in list->left */
	TAILQ_ENTRY(rdt_host_counters) left_link;
};

/* All counters of a reactor. */
struct rdt_counters_list {
	/* The first of the list. Of queue pairs without counters: no memory, or a test. */
	struct rdt_host_counters nobody;
	pthread_mutex_t
		lock; /* of @held and the removal of an entry, never for a walk of the list */
	bool held;    /* a reader walks over the list */
	bool ready;   /* @lock was initialized */
	/* its reactor only */
	struct rdt_host_counters *last;
	struct rdt_host_counters **buckets; /* [room]: all but @nobody, by the hash */
	unsigned int count;
	unsigned int room;                    /* a power of two; 0: there has been none */
	TAILQ_HEAD(, rdt_host_counters) left; /* whose hosts left while a reader walked */
};

/*
 * Commands that are alike and were answered in one batch of completions: they are counted together
 * when another command comes, a walk begins, the reactor goes to sleep, or their namespace or queue
 * pair goes.
 */
struct rdt_io_run {
	uint64_t match;   /* the arrival of commands that join it; 0: none do */
	uint64_t arrived; /* the same, for its end; also the fields below */
	uint64_t answered;
	const struct rdt_qpair *qp;
	struct rdt_ns *ns;
	uint32_t len; /* bytes that each has moved */
	uint32_t count;
	uint8_t opcode;
};

/* What a reactor uses now. */
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
	struct rd_msg msg; /* main -> reactor -> main; main's while no walk is running */
	struct rdt_qpair_walk qpairs;
	_Atomic uint32_t number;
	struct rdt_walk_found found;         /* main's after the answer */
	void (*done)(struct rdt_reactor *r); /* on the main loop */
	void *arg;
};

static inline unsigned int rdt_lat_index(uint64_t ns)
{
	unsigned int index = rd_hist_bucket(ns >> RDT_LAT_UNIT_BITS, RDT_LAT_SUB_BITS);

	return index < RDT_LAT_BUCKETS ? index : RDT_LAT_BUCKETS - 1;
}

/* The first value in ns that is beyond bucket @index. */
static inline uint64_t rdt_lat_end(unsigned int index)
{
	return rd_hist_end(index, RDT_LAT_SUB_BITS) << RDT_LAT_UNIT_BITS;
}

static inline enum rdt_io_op rdt_io_op(uint8_t opcode)
{
	return opcode < RDT_IO_OTHER ? (enum rdt_io_op)opcode : RDT_IO_OTHER;
}

/* @counter has one writer, the caller's thread. */
static inline void rdt_count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static inline uint64_t rdt_counted(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

/* @n more commands with this status. */
void rdt_io_errors_add(struct rdt_io_errors *errors, uint32_t status, uint64_t n);

/* ---- a reactor, on its thread ---- */

int rdt_counters_list_init(struct rdt_reactor *r);
void rdt_counters_list_fini(struct rdt_reactor *r);
void rdt_host_counters_init(struct rdt_qpair *qp); /* before its listener is known */
/* @qp is a queue of this host; NULL: it has had no Connect. */
void rdt_host_counters_join(struct rdt_qpair *qp, const char *hostnqn);
void rdt_host_counters_leave(struct rdt_qpair *qp); /* it ends; may be repeated */

/* Has this host queues here? NULL: connections without a Connect, which always count. */
bool rdt_host_counters_has(const struct rdt_counters_list *list,
			   const struct rdt_listener *listener, const char *hostnqn);
/* Adds what another process has counted for it, or when it is not here for those that have left. */
void rdt_host_counters_inherit(struct rdt_counters_list *list, const struct rdt_listener *listener,
			       const char *hostnqn, const struct rdt_host_counters *from);

/* The I/O command @req, whose @arrived is set, was answered, and belongs to no run. The inline part
 * is in request.c. */
void rdt_io_count(struct rdt_req *req);
void rdt_io_count_run(struct rdt_reactor *r); /* count what the run has */
/* for a namespace too: @event is below RDT_NS_COUNTS */
void rdt_io_count_wait(const struct rdt_req *req, enum rdt_count_of event, uint64_t n);
void rdt_count_event(const struct rdt_qpair *qp, enum rdt_count_of event);

/* Runs on the reactor by message, and posts r->walk.done to the main loop. */
void rdt_walk_begin(struct rd_msg *msg);

/* ---- the main thread ---- */

/* From rdt_counters_list_hold() to rdt_counters_list_release(), each entry from @list->nobody on
 * can be read without a lock, by rdt_host_counters_next(); one that comes may be among them. The
 * reactor never waits for that. */
void rdt_counters_list_hold(struct rdt_counters_list *list);
void rdt_counters_list_release(struct rdt_counters_list *list);

static inline const struct rdt_host_counters *rdt_host_counters_next(
	const struct rdt_host_counters *counters)
{
	return atomic_load_explicit(&counters->next, memory_order_acquire);
}

void rdt_ns_stats_merge(struct rdt_ns_stats *to, const struct rdt_ns_stats *from);
/* Adds what another process has counted, before the first command. Returns 0 or -ENOMEM. */
int rdt_ns_stats_inherit(struct rdt_ns *ns, const struct rdt_ns_stats *from);
void rdt_ns_stats_free(struct rdt_ns *ns); /* no reactor has a channel */

#endif /* RDT_IO_STATS_H */
