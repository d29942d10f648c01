/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files of the control socket. Main thread only, unless it says otherwise. */
#ifndef RDT_RPC_PRIV_H
#define RDT_RPC_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <jansson.h>

#include "util/log.h"
#include "util/loop.h"
#include "rpc.h"

struct rdt_reactor;
struct rdt_rpc_ask;
struct rdt_rpc_client;
struct rdt_rpc_drain;
struct rdt_rpc_events;
struct rdt_rpc_job;
struct rdt_subsys;

#define RDT_RPC_INTERFACE "io.rdnvme.rdtarget"
#define RDT_RPC_VERSION   1 /* grows when something that exists changes; not for additions */
#define RDT_RPC_CLIENTS   32u
#define RDT_RPC_LINE_MAX  (1u << 20) /* a request */

/* Errors by name: "name" of an error's "data". */
enum rdt_rpc_error {
	RDT_RPC_PARSE,
	RDT_RPC_REQUEST,
	RDT_RPC_METHOD,
	RDT_RPC_INVALID,
	RDT_RPC_NOT_FOUND,
	RDT_RPC_BUSY,
	RDT_RPC_NO_RESOURCES,
	RDT_RPC_DENIED,
	RDT_RPC_REFUSED, /* the target could not do it: the message says why */
	RDT_RPC_TIMEOUT,
	RDT_RPC_ERRORS,
};

struct rdt_rpc_param {
	const char *name; /* NULL: the end */
	json_type type;   /* JSON_TRUE: a boolean */
	bool required;
};

struct rdt_rpc_call;

struct rdt_rpc_method {
	const char *name;
	const char *what; /* for people, by the method "info" */
	bool changes;     /* not for those who may only read; logged */
	const struct rdt_rpc_param *params;
	/* Answers the call with rdt_rpc_result() or rdt_rpc_error(), exactly once, now or later. */
	void (*fn)(struct rdt_rpc_call *call);
};

/* A request in work. Freed by its answer. */
struct rdt_rpc_call {
	struct rdt_rpc *rpc;
	struct rdt_rpc_client *client; /* NULL: it is gone; the answer is dropped */
	TAILQ_ENTRY(rdt_rpc_call) link;
	const struct rdt_rpc_method *method;
	json_t *id; /* NULL: a notification, without an answer */
	json_t *params;
	/* Of a method that answers later: its state, and what ends it when the server closes. */
	void *work;
	void (*cancel)(struct rdt_rpc_call *call);
};

struct rdt_rpc {
	struct rdt_rpc_env *env;
	struct rdt_target *target;
	struct rd_loop *loop;
	struct rd_log *log;
	struct rd_io listen; /* .fd -1: it does not */
	int lock_fd;
	bool closed;
	gid_t admin_gid;       /* (gid_t)-1: none */
	struct rd_timer timer; /* looks for clients that are stuck */
	unsigned int clients_count;
	TAILQ_HEAD(, rdt_rpc_client) clients; /* the longest quiet first */
	TAILQ_HEAD(, rdt_rpc_call) calls;
	TAILQ_HEAD(, rdt_rpc_ask) asks; /* questions to reactors on their way */
	TAILQ_HEAD(, rdt_rpc_job) jobs;
	unsigned int jobs_count;
	struct rdt_rpc_drain *drain;   /* the one that runs, or NULL */
	bool drained;                  /* by such a one */
	struct rdt_rpc_events *events; /* NULL: nobody has watched yet */
};

/* ---- rpc.c: requests and answers ---- */

/* One line of @client, without its newline. */
void rdt_rpc_line(struct rdt_rpc *rpc, struct rdt_rpc_client *client, const char *line, size_t len);
/* Answer @call; takes @result over. NULL: there was no memory for it. */
void rdt_rpc_result(struct rdt_rpc_call *call, json_t *result);
/* @field: the parameter at fault, @value: what it was, @hint: what to do; each may be NULL. */
void rdt_rpc_error(struct rdt_rpc_call *call, enum rdt_rpc_error error, const char *field,
		   const char *value, const char *hint, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));
/* End @call without an answer: the server closes. */
void rdt_rpc_drop(struct rdt_rpc_call *call);
/* An error before there is a call, with the id null. */
void rdt_rpc_reject(struct rdt_rpc_client *client, enum rdt_rpc_error error, const char *text);
json_t *rdt_rpc_describe_methods(void); /* a list */
/* Parameters, checked against the method's list: NULL or @none when it is not there. */
const char *rdt_rpc_text(const struct rdt_rpc_call *call, const char *name);
json_int_t rdt_rpc_number(const struct rdt_rpc_call *call, const char *name, json_int_t none);

/* ---- rpc_server.c: the socket and its clients ---- */

/* @text: one line without a newline. What the client does not take at once is kept. */
void rdt_rpc_send(struct rdt_rpc_client *client, const char *text, size_t len);
void rdt_rpc_client_close(struct rdt_rpc_client *client);
/* Set or clear the call that is in work. */
void rdt_rpc_client_busy(struct rdt_rpc_client *client, struct rdt_rpc_call *call);
bool rdt_rpc_client_may_change(const struct rdt_rpc_client *client);
uid_t rdt_rpc_client_uid(const struct rdt_rpc_client *client);
pid_t rdt_rpc_client_pid(const struct rdt_rpc_client *client);

/* Events of @level or worse are for @client from now on. Returns true when none were before. */
bool rdt_rpc_client_watch(struct rdt_rpc_client *client, int level);
/* One line for all clients that watch @level. A client that does not read them loses them, and is
 * told how many. */
void rdt_rpc_event(struct rdt_rpc *rpc, int level, const char *text, size_t len);
void rdt_rpc_events_lost(struct rdt_rpc *rpc, uint64_t count); /* for all of these clients */

/* ---- rpc_events.c ---- */

void rdt_rpc_events_unwatch(struct rdt_rpc *rpc); /* a client that watched is gone */
void rdt_rpc_events_free(struct rdt_rpc *rpc);    /* no other thread logs any more */

/* ---- rpc_ask.c: questions to all reactors ---- */

struct rdt_rpc_answer { /* of one reactor */
	const struct rdt_reactor *reactor;
	void *data; /* freed with free() after @done */
	size_t count;
	bool no_memory;
};

/*
 * @fn runs on each reactor's thread and fills the answer; @done on the main loop, when all have
 * answered, and answers @call. A call whose client has gone is asked and answered all the same.
 */
void rdt_rpc_ask(struct rdt_rpc_call *call,
		 void (*fn)(struct rdt_reactor *r, struct rdt_rpc_answer *answer),
		 void (*done)(struct rdt_rpc_call *call, struct rdt_rpc_answer *answers,
			      unsigned int count));
void rdt_rpc_ask_free_all(struct rdt_rpc *rpc); /* no loop runs any more */

/* ---- rpc_job.c: work that takes long ---- */

/*
 * @fn runs on a thread of its own, and @done on the main loop: it answers @call and frees @arg. A
 * call of NULL was answered already, or the server is closed.
 */
void rdt_rpc_job(struct rdt_rpc_call *call, void (*fn)(void *arg),
		 void (*done)(struct rdt_rpc_call *call, void *arg), void *arg);
void rdt_rpc_jobs_free(struct rdt_rpc *rpc); /* the main loop does not run any more */

/* ---- rpc_show.c ---- */

const char *rdt_rpc_ana_name(unsigned int state); /* as the configuration has it */
/* The subsystem that the parameter names; NULL without one. *@found is false after the call was
 * answered, as there is none of that name. */
struct rdt_subsys *rdt_rpc_subsys(struct rdt_rpc_call *call, const char *param, bool *found);

/* ---- the methods, each list ends with a name of NULL ---- */

extern const struct rdt_rpc_method rdt_rpc_change_methods[];
extern const struct rdt_rpc_method rdt_rpc_config_methods[];
extern const struct rdt_rpc_method rdt_rpc_event_methods[];
extern const struct rdt_rpc_method rdt_rpc_host_methods[];
extern const struct rdt_rpc_method rdt_rpc_show_methods[];
extern const struct rdt_rpc_method rdt_rpc_stats_methods[];

#endif /* RDT_RPC_PRIV_H */
