/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A copy of all counters (target/nvmf/io_stats.h), made without delaying a reactor: each looks up
 * what is in flight in slices of 50 us, and the main thread then reads the counters, in slices as
 * well. A reactor that does not answer within half a second is not waited for: its counters are
 * there, what it has in flight is that of its last answer.
 */
#ifndef RDT_STATS_H
#define RDT_STATS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "target/config/tgt_limits.h"
#include "target/nvmf/io_stats.h"
#include "show.h"

struct rdt_reloader;
struct rdt_sampler;
struct rdt_target;

struct rdt_stats_op {
	uint64_t count;
	uint64_t bytes;
	uint64_t ns;
	uint64_t bucket[RDT_LAT_BUCKETS]; /* rdt_lat_end() has their ends */
};

struct rdt_stats_io {
	struct rdt_stats_op op[RDT_IO_OPS];
	uint64_t events[RDT_COUNTS];
	uint32_t status[RDT_ERROR_KINDS]; /* SCT << 8 | SC; 0: no further one */
	uint64_t errors[RDT_ERROR_KINDS];
	uint64_t other_errors; /* with a status that found no place in @status */
	unsigned int in_flight;
	uint64_t oldest_ns; /* age of the oldest command in flight; 0: none */
};

struct rdt_stats_ns {
	char *why;                 /* that of @shown */
	struct rdt_nqn *nqn;       /* the same; a reference */
	struct rdt_ns_shown shown; /* with a reference to its configuration */
	struct rdt_stats_io io;
};

struct rdt_stats_listener {
	char *address; /* with port */
	bool listening;
	uint8_t ana[RDT_ANA_GROUPS + 1]; /* as hosts are told: enum nvme_ana_state */
};

struct rdt_stats_cell { /* of a host by a listener on a reactor */
	char *hostnqn;  /* NULL: connections without a Connect, and hosts that have left */
	int listener;   /* index in @listeners; -1: it was removed */
	unsigned int reactor;
	unsigned int qpairs;
	struct rdt_stats_io io;
};

struct rdt_stats_subsys { /* what the SMART log has, and authentications */
	char *nqn;
	uint64_t auth_successes;
	uint64_t auth_failures;
	uint64_t reads;
	uint64_t writes;
	uint64_t read_bytes;
	uint64_t written_bytes;
	uint64_t media_errors;
};

struct rdt_stats_reactor {
	bool answered;
	uint64_t busy_ns;
	uint64_t spun_ns;    /* polling without result */
	uint64_t longest_ns; /* turn of the last one to two minutes */
	unsigned int admin_queues;
	unsigned int io_queues;
	unsigned int in_flight;
	unsigned int waiting; /* requests that wait for a buffer */
	unsigned int limited; /* requests that wait for a limit */
	uint64_t buffer_bytes;
	uint64_t reserve_bytes;
	uint64_t scratch_bytes;
	uint64_t reads; /* bios; also @writes */
	uint64_t writes;
};

struct rdt_stats {
	const char *state; /* rdt_show_state() */
	uint64_t uptime_ns;
	int64_t started;     /* Unix time, in seconds */
	int64_t reload_good; /* of the last reload of the file without a problem, or the start */
	bool reload_ok;      /* the last one was that */
	bool control;        /* there shall be a control socket */
	bool control_up;
	unsigned int subsystems;
	unsigned int controllers;
	unsigned int reactors_count;
	unsigned int ns_count;
	unsigned int cells_count;
	unsigned int listeners_count;
	struct rdt_stats_reactor *reactors;
	struct rdt_stats_subsys *subsys; /* [subsystems] */
	uint64_t disc_auth_successes;    /* at the discovery subsystem */
	uint64_t disc_auth_failures;
	struct rdt_stats_ns **ns; /* in no order */
	struct rdt_stats_cell *cells;
	struct rdt_stats_listener *listeners;
	bool no_memory; /* incomplete */
};

/* A request for a copy. It belongs to the caller, who keeps it until @done was called. */
struct rdt_stats_ask {
	/* Called on a thread of its own, for what takes long with @stats; may be NULL. */
	void (*work)(struct rdt_stats_ask *ask, const struct rdt_stats *stats);
	/* Called on the main loop, once, unless the sampler is closed first. @stats is valid during
	 * the call; NULL: there was no memory, and @work was not called. */
	void (*done)(struct rdt_stats_ask *ask, const struct rdt_stats *stats);
	TAILQ_ENTRY(rdt_stats_ask) link;
};

/* ---- main thread only ---- */

/* Returns 0 or -ENOMEM. */
int rdt_sampler_new(struct rdt_target *target, const struct rdt_reloader *reloader,
		    struct rdt_sampler **out);
/* Calls no @done any more: the caller frees its requests. Accepts NULL. */
void rdt_sampler_close(struct rdt_sampler *s);
/* After rdt_sampler_close(), and after all loops have ended. */
void rdt_sampler_free(struct rdt_sampler **s);
/* Requests are served one after the other. */
void rdt_stats_ask(struct rdt_sampler *s, struct rdt_stats_ask *ask);

/* ---- any thread ---- */

void rdt_stats_add(struct rdt_stats_io *sum, const struct rdt_stats_io *io);
/* The sum of the cells of a host, a listener or a reactor. */
struct rdt_stats_row {
	const char *name;   /* Host NQN or address, as long as the copy; NULL: a reactor */
	unsigned int index; /* of a listener or a reactor */
	unsigned int qpairs;
	struct rdt_stats_io io;
};

enum rdt_stats_by { RDT_STATS_BY_HOST, RDT_STATS_BY_LISTENER, RDT_STATS_BY_REACTOR };

/* One row for each host (by name), listener or reactor. The caller frees *@rows with free(3).
 * Returns 0 or -ENOMEM. */
int rdt_stats_rows(const struct rdt_stats *stats, enum rdt_stats_by by, struct rdt_stats_row **rows,
		   unsigned int *count);
/* For qsort(3) and bsearch(3) on struct rdt_stats_ns *: by subsystem and NSID. */
int rdt_stats_compare_ns(const void *a, const void *b);
uint64_t rdt_stats_failed(const struct rdt_stats_io *io);
const char *rdt_stats_op_name(unsigned int op);
const char *rdt_stats_end_name(unsigned int end); /* enum rdt_end */
/* The latency in ns that @percent of @op do not exceed: the end of a bucket. 0: no commands. */
uint64_t rdt_stats_percentile(const struct rdt_stats_op *op, double percent);

#endif /* RDT_STATS_H */
