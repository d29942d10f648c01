/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration of a world, which changes while hosts go on, and what these changes explain. */
#ifndef SIM_SETUP_H
#define SIM_SETUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "secrets.h"

#define SETUP_HOSTS        3u
#define SETUP_PATHS        2u
#define SETUP_REACTORS     2u
#define SETUP_TEXT         2048u /* bytes of a configuration at most */
#define SETUP_ADDR         "192.0.2.1"
#define SETUP_NQN          "nqn.2024-01.test:sim"

#define SETUP_BLOCKS       28u /* of namespace 1 */
#define SETUP_SHORT_BLOCKS 26u
#define SETUP_QOS          4u /* kinds of limits of namespace 1, among them none */
#define SETUP_SECOND       3u /* sizes of namespace 2, among them none */

/* How each configuration begins. */
#define SETUP_TARGET               \
	"target:\n"                \
	"  reactors: 2\n"          \
	"  queue_depth: 32\n"      \
	"  io_queues: 8\n"         \
	"  max_data_size: 8KiB\n"  \
	"  capsule_memory: 1MiB\n" \
	"  spin: 0\n"

struct rd_log;
struct rd_sim;
struct rdt_config;

/* What hosts may notice. */
enum setup_effect {
	SETUP_READ_ONLY, /* namespace 1 takes no writes */
	SETUP_REMOVED,   /* namespace 1 is not there */
	SETUP_SHORT,     /* namespace 1 has SETUP_SHORT_BLOCKS only */
	SETUP_DENIED,    /* the host of this number, counted from here, may not connect */
	SETUP_NO_LISTENER = SETUP_DENIED + SETUP_HOSTS, /* of the path of this number */
	SETUP_CLOSED = SETUP_NO_LISTENER + SETUP_PATHS, /* no I/O by the path: its ANA state */
	SETUP_EFFECTS = SETUP_CLOSED + SETUP_PATHS,
};

/* Changes of which controllers are told. */
enum setup_news {
	SETUP_NEWS_NS,  /* of attributes of a namespace */
	SETUP_NEWS_ANA, /* of the ANA states by the path of this number, counted from here */
	SETUP_NEWS_DISCOVERY = SETUP_NEWS_ANA + SETUP_PATHS, /* of the discovery log */
	SETUP_NEWS,
};
#define SETUP_TOLD_NSIDS 2u /* the namespaces from 1 to this one change */

/* One configuration. All zero: the normal one. */
struct setup {
	bool effect[SETUP_CLOSED]; /* the others follow from @ana */
	uint8_t ana[SETUP_PATHS];  /* of the group of namespace 1; an index */
	uint8_t key[SETUP_HOSTS];  /* 0: the normal one of the host; see setup_key() */
	bool other_group;          /* namespace 1 is in another ANA group */
	uint8_t qos;               /* of namespace 1; an index */
	uint8_t second;            /* KiB / 64 of namespace 2, which hosts do not use; 0: none */
};

/* Which effects there may be. */
struct setup_history {
	struct setup now, next; /* the one that is applied, and the one that is being applied */
	struct setup_times {
		uint64_t possible; /* the last time at which the effect was possible */
		uint64_t certain;  /* since when there was the effect, or SETUP_NEVER */
		uint64_t sure;     /* since when every reactor has run with it, or SETUP_NEVER */
	} times[SETUP_EFFECTS];
	/* Since when every reactor has run with @now; SETUP_NEVER: not yet. */
	uint64_t settled;
	unsigned int applied;      /* how often */
	unsigned int reactors;     /* set of those that have not run since */
	uint64_t news[SETUP_NEWS]; /* the last time at which a controller may be told */
	/* What the target has for its hosts, and what it had before, which it accepts as well. */
	enum secret_kind keys[SETUP_HOSTS], old_keys[SETUP_HOSTS];
	bool has_old;
	uint64_t begun;     /* when the change began that was applied last, or is being applied */
	uint64_t old_from;  /* until then it has the old ones in any case; */
	uint64_t old_until; /* a turn of its main thread that begins later forgets them */
	/* The last time at which it may have let in a host that has this. */
	uint64_t admits[SETUP_HOSTS][SECRET_KINDS];
	/* Since when it must let in such a host, or SETUP_NEVER. See setup_must_admit(). */
	uint64_t must[SETUP_HOSTS][SECRET_KINDS];
	uint64_t attributes[1 + SETUP_TOLD_NSIDS]; /* when the last change of namespace n began */
};
#define SETUP_NEVER UINT64_MAX

/* Which changes there may be. */
struct setup_scope {
	bool removes; /* of namespace 1 */
	bool keys;
	bool only_keys; /* and hosts that are denied, which ends their keys */
};
/* One to three random changes of @from. */
struct setup setup_change(struct rd_sim *sim, const struct setup *from, struct setup_scope scope);
bool setup_is_normal(const struct setup *s);
/* What the target has for @host. */
enum secret_kind setup_key(const struct setup *s, unsigned int host);
/* @secrets: NULL: nobody authenticates. @in_capsule: bytes of data that commands may have.
 * @tcp: set of 1 << path: the other listeners are those of RDMA. @with_second: namespace 2 is there
 * in the normal one, and buffers for I/O of it that hangs. @out: SETUP_TEXT bytes. */
void setup_text(const struct setup *s, const struct secrets *secrets, unsigned int in_capsule,
		bool with_second, unsigned int tcp, char *out);
/* Returns 0, or -errno of a @text that is no configuration. Release *@out with rdt_config_put(). */
int setup_load(const char *text, struct rd_log *log, struct rdt_config **out);

void setup_init(struct setup_history *h);
void setup_begins(struct setup_history *h, const struct setup *next, uint64_t now);
/* The one that began last was applied. @reactors: set of those that have a turn to take before they
 * know it. */
void setup_applied(struct setup_history *h, unsigned int reactors, uint64_t now);
/* The target starts with the configuration that began last. */
void setup_started(struct setup_history *h, uint64_t now);
/* Whether the target may have let in a host that has @kind, at some time since @begin. */
bool setup_admits(const struct setup_history *h, unsigned int host, enum secret_kind kind,
		  uint64_t begin);
/* Whether it must let in such a host whenever that connects, from @begin to @now. */
bool setup_must_admit(const struct setup_history *h, unsigned int host, enum secret_kind kind,
		      uint64_t begin, uint64_t now);
/* A turn of the main thread has ended, which began at @begin. */
void setup_main_turned(struct setup_history *h, uint64_t begin, uint64_t now);
/* A turn of a reactor has ended. @applied: the member of the history when it began. */
void setup_turned(struct setup_history *h, unsigned int reactor, unsigned int applied,
		  uint64_t now);
/* The ANA state of group @group by @path, as the log page says; 0: the page does not have it. */
unsigned int setup_ana_state(const struct setup *s, unsigned int path, unsigned int group);
/* Whether the effect was possible at some time since @begin; and at all times. */
bool setup_possible(const struct setup_history *h, unsigned int effect, uint64_t begin);
bool setup_certain(const struct setup_history *h, unsigned int effect, uint64_t begin);
/* Whether there was the effect at all times since @begin, and each reactor knew it then. */
bool setup_sure(const struct setup_history *h, unsigned int effect, uint64_t begin);
/* Whether an ANA state of the path may have forbidden commands since @begin, for a controller that
 * has begun to connect at @connected: it keeps the states of a listener that was removed, whatever
 * the next one has. */
bool setup_may_be_closed(const struct setup_history *h, unsigned int path, uint64_t begin,
			 uint64_t connected);

#endif /* SIM_SETUP_H */
