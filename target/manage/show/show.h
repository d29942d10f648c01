/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of the target as JSON, for the control socket and the status document. Each function
 * returns a new reference, or NULL without memory. Main thread, unless noted otherwise.
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

/* The visible properties of a namespace. A copy that any thread may read while @cfg_of is
 * referenced; only the main thread takes and drops references. */
struct rdt_ns_shown {
	const char *nqn;  /* of its subsystem; valid as long as the target */
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
	double stalled_seconds;   /* time without an answer of its storage; negative: it answers */
	bool listed;              /* false: it is being removed */
	const char *why;          /* state failed: the reason, or NULL; owned by the namespace */
	struct rdt_noticed fault; /* a fault of its storage; @kind NULL: none */
	double retry_seconds;     /* until the next try; negative: when the storage answers */
};

struct rdt_ns_shown rdt_ns_shown(const struct rdt_ns *ns);
struct rdt_ns_identity rdt_ns_identity_shown(const struct rdt_ns *ns);
/* Adds the keys to @o. Any thread. */
void rdt_show_identity(json_t *o, const struct rdt_ns_identity *identity);

/* The age of the fault; not negative even if the clock was set back. Any thread. */
static inline int64_t rdt_fault_seconds(const struct rdt_noticed *fault)
{
	int64_t now = time(NULL);

	return now > fault->since ? now - fault->since : 0;
}

#define RDT_SHOW_TIME 32

/* Writes @at in UTC into @text, and returns it. */
const char *rdt_show_time(time_t at, char text[RDT_SHOW_TIME]);
/* Which of the allowed hosts must authenticate themselves; a literal. */
const char *rdt_show_auth(const struct rdt_subsys_config *cfg);
/* "serving", "draining" or "drained". */
const char *rdt_show_state(const struct rdt_target *t);
/* A JSON string of @text, with "?" for bytes that are not UTF-8: JSON does not allow them, and a
 * host must be listed whatever its name is. Any thread. */
json_t *rdt_show_text(const char *text);
/* The length of the UTF-8 sequence at the start of @text (of @len > 0 bytes) if the log would show
 * it unchanged and it is no backslash; 0: it has to be escaped. Any thread. */
size_t rdt_show_plain(const char *text, size_t len);
/* A JSON string of @name that is unique for each name: characters that are not plain become "\x"
 * and two digits, as in the label "host" of the metrics. Any thread. */
json_t *rdt_show_name(const char *name);
json_t *rdt_show_last_reload(const struct rdt_reloader *reloader); /* JSON null: no reload yet */
/* Any thread. */
json_t *rdt_show_limits(
	const uint64_t *limits); /* @limits: [RDT_QOS_LIMITS]; JSON null: no limits */
/* Any thread. */
json_t *rdt_show_namespace(const struct rdt_ns_shown *ns);
json_t *rdt_show_listeners(const struct rdt_target *t);

#endif /* RDT_SHOW_H */
