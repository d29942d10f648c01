/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A copy of all counters (target/nvmf/io_stats.h), made without delaying reactors: each walks over
 * its commands in flight in slices of 50 us; then the main thread reads the counters, also in
 * slices. If a reactor does not answer within half a second, the copy has its counters, and the
 * commands in flight of its last answer.
 */
#ifndef RDT_STATS_H
#define RDT_STATS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "target/config/tgt_limits.h"
#include "target/nvmf/io_stats.h"
#include "target/nvmf/ns.h"
#include "target/manage/show/show.h"

struct rdt_reloader;
struct rdt_sampler;
struct rdt_target;

#define RDT_FIGURE_NONE UINT64_MAX /* unknown, or not applicable */

struct rdt_stats_op {
	uint64_t count;
	uint64_t bytes;
	uint64_t ns;
	uint64_t bucket[RDT_LAT_BUCKETS]; /* upper bounds: rdt_lat_end() */
};

struct rdt_stats_io {
	struct rdt_stats_op op[RDT_IO_OPS];
	uint64_t events[RDT_COUNTS];
	uint32_t status[RDT_ERROR_KINDS]; /* SCT << 8 | SC; 0: end of the list */
	uint64_t errors[RDT_ERROR_KINDS];
	uint64_t other_errors; /* with a status that did not fit into @status */
	uint64_t in_flight;
	uint64_t oldest_ns; /* age of the oldest command in flight; 0: none */
	uint64_t qpairs;    /* connections; 0 for a namespace */
};

struct rdt_stats_ns {
	char *why;                 /* owns shown.why */
	struct rdt_nqn *nqn;       /* owns the reference to shown.nqn */
	struct rdt_ns_shown shown; /* with a reference to its configuration */
	uint64_t size;             /* bytes */
	uint64_t live;
	uint64_t storage_failed;
	uint64_t stalled_ns;
	uint64_t ana_group;
	struct rdt_stats_io io;
};

struct rdt_stats_listener {
	char *address; /* with port */
	uint16_t portid;
	uint64_t listening;
	uint8_t ana[RDT_ANA_GROUPS + 1]; /* as reported to hosts: enum nvme_ana_state */
	struct rdt_stats_io io;
};

struct rdt_stats_counters { /* of a host that uses a listener, on one reactor */
	char *hostnqn;      /* NULL: connections before Connect, and disconnected hosts */
	int listener;       /* index in @listeners; -1: removed */
	unsigned int reactor;
	struct rdt_stats_io io;
};

struct rdt_stats_auth { /* authentications */
	uint64_t successes;
	uint64_t failures;
};

struct rdt_stats_subsys { /* the counters of the SMART log, and authentications */
	char *nqn;
	struct rdt_stats_auth auth;
	uint64_t reads;
	uint64_t writes;
	uint64_t read_bytes;
	uint64_t written_bytes;
	uint64_t media_errors;
};

struct rdt_stats_reactor {
	uint64_t answered;
	uint64_t busy_ns;
	uint64_t spun_ns;            /* polling without finding work */
	uint64_t longest_ns;         /* longest loop iteration of the last one to two minutes */
	struct rdt_walk_found found; /* RDT_FIGURE_NONE if it did not answer */
	uint64_t reads;              /* bios; also @writes */
	uint64_t writes;
	struct rdt_stats_io io;
};

struct rdt_stats_host {
	const char *name; /* Host NQN */
	struct rdt_stats_io io;
};

struct rdt_stats_process { /* from /proc */
	uint64_t cpu_ns;
	uint64_t virtual_bytes;
	uint64_t resident_bytes;
	uint64_t threads;
	uint64_t started_ns; /* Unix time */
	uint64_t open_fds;
	uint64_t max_fds;
};

struct rdt_stats {
	const char *version;
	const char *state; /* rdt_show_state() */
	uint64_t uptime_ns;
	uint64_t started;     /* Unix time, in seconds */
	uint64_t reload_good; /* Unix time of the last reload without a problem, or of the start */
	uint64_t reload_ok;   /* 1: the last reload had no problem */
	uint64_t control_up;  /* RDT_FIGURE_NONE: no control socket is configured */
	uint64_t upgrade_pause_ns; /* RDT_FIGURE_NONE: the process took nothing over */
	uint64_t subsystems;
	uint64_t controllers;
	uint64_t hosts;
	uint64_t ns_count;
	uint64_t ns_states[RDT_NS_LEAVING + 1]; /* namespaces in each enum rdt_ns_state */
	struct rdt_stats_auth auth;             /* all, including the discovery subsystem */
	struct rdt_stats_auth disc_auth;        /* of the discovery subsystem */
	uint64_t tls_handshakes, tls_refusals;
	bool ana_used[RDT_ANA_GROUPS + 1]; /* groups that have a namespace */
	unsigned int reactors_count;
	unsigned int counters_count;
	unsigned int listeners_count;
	struct rdt_stats_reactor *reactors;
	struct rdt_stats_subsys *subsys; /* [subsystems] */
	struct rdt_stats_ns **ns;        /* unsorted */
	struct rdt_stats_counters *counters;
	struct rdt_stats_listener *listeners;
	bool no_memory; /* memory ran out: the copy is incomplete */
	/* filled in by rdt_stats_sum() */
	struct rdt_stats_host *by_host; /* [hosts], sorted by name */
	struct rdt_stats_io total;
	struct rdt_stats_process process;
};

/* A request for a copy, owned by the caller, who keeps it until @done is called. */
struct rdt_stats_ask {
	/* Called on a separate thread, for work on @stats that takes long. */
	void (*work)(struct rdt_stats_ask *ask, struct rdt_stats *stats);
	/* Called once on the main loop, unless the sampler is closed first. @stats is valid during
	 * the call; NULL: out of memory, and @work was not called. */
	void (*done)(struct rdt_stats_ask *ask, const struct rdt_stats *stats);
	TAILQ_ENTRY(rdt_stats_ask) link;
};

/* ---- main thread only ---- */

/* Returns 0 or -ENOMEM. */
int rdt_sampler_new(struct rdt_target *target, const struct rdt_reloader *reloader,
		    struct rdt_sampler **out);
/* No @done is called afterwards: callers free their requests. Accepts NULL. */
void rdt_sampler_close(struct rdt_sampler *s);
/* After rdt_sampler_close(), and after all loops have ended. */
void rdt_sampler_free(struct rdt_sampler **s);
/* Requests are served one after the other. */
void rdt_stats_ask(struct rdt_sampler *s, struct rdt_stats_ask *ask);

/* ---- any thread ---- */

/* Adds up the counters of hosts, listeners, reactors and all. Returns 0 or -ENOMEM. */
int rdt_stats_sum(struct rdt_stats *stats);
/* Sorts namespaces by subsystem and NSID. */
void rdt_stats_sort_ns(struct rdt_stats *stats);
void rdt_stats_add(struct rdt_stats_io *sum, const struct rdt_stats_io *io);
uint64_t rdt_stats_failed(const struct rdt_stats_io *io);
const char *rdt_stats_op_name(unsigned int op);
const char *rdt_stats_end_name(unsigned int end); /* enum rdt_end */

#define RDT_PERCENTILES 3u

/* The percentiles in outputs. */
extern const struct rdt_percentile {
	const char *name;
	double percent;
} rdt_percentiles[RDT_PERCENTILES];

/* The latency in ns that @percent of the commands do not exceed: the end of a bucket; 0: none. */
uint64_t rdt_stats_percentile(const struct rdt_stats_op *op, double percent);

#endif /* RDT_STATS_H */
