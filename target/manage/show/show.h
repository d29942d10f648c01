/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of the target as JSON, for the control socket and the status document. Each function
 * returns a new reference, or NULL without memory. Main thread, unless noted.
 */
#ifndef RDT_SHOW_H
#define RDT_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <jansson.h>

#include "target/bdev/backend.h"
#include "target/config/config.h"

struct rdt_ns;
struct rdt_reloader;
struct rdt_rpc;
struct rdt_target;

/* What is shown of a namespace. A copy: any thread may read it while @cfg_of is referenced, which
 * only the main thread does. */
struct rdt_ns_shown {
	const char *nqn;  /* of its subsystem, which lives as long as the target */
	const char *auth; /* of its subsystem; a literal */
	const struct rdt_ns_config *cfg;
	struct rdt_config *cfg_of; /* no reference yet: rdt_config_get() */
	uint32_t nsid;
	unsigned int state; /* enum rdt_ns_state */
	uint64_t since;     /* @state */
	uint64_t blocks;
	uint8_t lbads;
	uint32_t ana_group;
	uint64_t limits[RDT_QOS_LIMITS]; /* 0: none */
	struct rdt_ns_identity {
		char uuid[37];  /* "": not known yet */
		char nguid[33]; /* "": none, or not known yet */
		const char *from;
	} identity;
	bool read_only;
	bool write_protected;
	bool standby;
	double stalled_seconds;   /* for how long its storage has not answered; negative: it does */
	bool listed;              /* not one that leaves */
	const char *why;          /* state failed: the reason, or NULL; belongs to the namespace */
	struct rdt_noticed fault; /* @kind NULL: nothing was noticed about its storage */
	double retry_seconds;     /* until the next try; negative: as soon as the storage answers */
};

struct rdt_ns_shown rdt_ns_shown(const struct rdt_ns *ns);
struct rdt_ns_identity rdt_ns_identity_shown(const struct rdt_ns *ns);
/* Adds the keys to @o. Any thread. */
void rdt_show_identity(json_t *o, const struct rdt_ns_identity *identity);

/* How long ago. The clock may have been set since; any thread. */
static inline int64_t rdt_fault_seconds(const struct rdt_noticed *fault)
{
	int64_t now = time(NULL);

	return now > fault->since ? now - fault->since : 0;
}

#define RDT_SHOW_TIME 32

/* @at in UTC; @text, which it fills in. */
const char *rdt_show_time(time_t at, char text[RDT_SHOW_TIME]);
/* Which of the hosts that may connect have to authenticate themselves: a literal. */
const char *rdt_show_auth(const struct rdt_subsys_config *cfg);
/* "serving", "draining" or "drained". */
const char *rdt_show_state(const struct rdt_target *t);
/* A string of @text, in which bytes that are not UTF-8 became "?": JSON has none, and a host must
 * be listed whatever its name is. Any thread. */
json_t *rdt_show_text(const char *text);
/* The length of the UTF-8 sequence at the start of @text (of @len > 0 bytes) when a log would show
 * it as it is, and it is no backslash; 0: it has to be written in another way. Any thread. */
size_t rdt_show_plain(const char *text, size_t len);
/* A string of @name that is different for different names: what is not plain became "\x" and two
 * digits. The label "host" of the metrics is the same. Any thread. */
json_t *rdt_show_name(const char *name);
json_t *rdt_show_last_reload(const struct rdt_reloader *reloader); /* null: there was none */
/* Any thread. */
json_t *rdt_show_limits(const uint64_t *limits); /* of RDT_QOS_LIMITS; null: there is none */
/* Any thread. */
json_t *rdt_show_namespace(const struct rdt_ns_shown *ns);
json_t *rdt_show_listeners(const struct rdt_target *t);

#endif /* RDT_SHOW_H */
