/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface between the files of the control socket. Main thread only, unless noted. */
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
#include "target/bdev/jobs.h"
#include "target/manage/show/answer.h"
#include "target/manage/change/mgmt_if.h"
#include "rpc.h"
#include "rpc_socket.h"

struct rdt_change;
struct rdt_report;
struct rdt_rpc_ask;
struct rdt_rpc_client;
struct rdt_rpc_drain;
struct rdt_rpc_events;
struct rdt_subsys;

#define RDT_RPC_INTERFACE "io.rdnvme.rdtarget"
#define RDT_RPC_VERSION   1 /* incremented by incompatible changes, not by additions */
#define RDT_RPC_CLIENTS   32u
#define RDT_RPC_LINE_MAX  (1u << 20) /* maximum length of a request in bytes */

/* Application errors; their names are in "data"."name" of an error. */
enum rdt_rpc_error {
	RDT_RPC_PARSE,
	RDT_RPC_REQUEST,
	RDT_RPC_METHOD,
	RDT_RPC_INVALID,
	RDT_RPC_NOT_FOUND,
	RDT_RPC_BUSY,
	RDT_RPC_NO_RESOURCES,
	RDT_RPC_DENIED,
	RDT_RPC_REFUSED, /* the target could not execute it; the message has the reason */
	RDT_RPC_TIMEOUT,
	RDT_RPC_EXISTS,
	RDT_RPC_ERRORS,
};

struct rdt_rpc_call;

struct rdt_rpc_method {
	const char *name;
	const char *what; /* description, shown by the method "info" */
	bool changes;     /* changes the target: refused for read-only clients, and logged */
	/* such as "nqn: string, [nsid: number]"; those in brackets are optional. NULL: none */
	const char *params;
	/* Answers the call by rdt_rpc_result() or rdt_rpc_error(), exactly once, now or later. */
	void (*fn)(struct rdt_rpc_call *call);
};

/* A request in progress. Freed by its answer. */
struct rdt_rpc_call {
	struct rdt_rpc *rpc;
	/* NULL: the client has disconnected, so the answer is dropped */
	struct rdt_rpc_client *client;
	TAILQ_ENTRY(rdt_rpc_call) link;
	const struct rdt_rpc_method *method;
	json_t *id; /* NULL: a notification, which has no answer */
	json_t *params;
	/* For a method that answers later: its state, and the function that ends it when the server
	 * closes. */
	void *work;
	void (*cancel)(struct rdt_rpc_call *call);
};

/* Whether the server listens. */
enum rdt_rpc_phase {
	RDT_RPC_FAILED,    /* cannot listen, retried every second -> TRYING; -> CLOSED */
	RDT_RPC_TRYING,    /* a job tries to listen -> LISTENING, FAILED; -> CLOSED */
	RDT_RPC_LISTENING, /* -> CLOSED, HANDED_OVER */
	/* another process listens on the socket; connected clients stay -> CLOSED */
	RDT_RPC_HANDED_OVER,
	RDT_RPC_CLOSED, /* no clients; calls in progress get no answer */
};

#define RDT_RPC_WHY 320u /* size of the reason why it cannot listen */

struct rdt_rpc {
	struct rdt_rpc_env *env;
	struct rdt_target *target;
	struct rdt_mgmt_if mgmt; /* target->rpc */
	struct rd_loop *loop;
	struct rd_log *log;
	enum rdt_rpc_phase phase;
	struct rd_io listen; /* LISTENING */
	struct rdt_rpc_socket sock;
	struct rd_timer retry;  /* FAILED */
	struct rdt_job attempt; /* TRYING; may still run when CLOSED */
	int attempt_err;
	char attempt_why[RDT_RPC_WHY], why_failed[RDT_RPC_WHY];
	struct rd_timer timer; /* closes clients that do not read */
	unsigned int clients_count;
	TAILQ_HEAD(, rdt_rpc_client) clients; /* least recently active first */
	TAILQ_HEAD(, rdt_rpc_call) calls;
	TAILQ_HEAD(, rdt_rpc_ask) asks; /* queries of reactors in progress */
	unsigned int asks_count;
	unsigned int jobs_count;       /* jobs of calls; they end with target->jobs */
	struct rdt_rpc_drain *drain;   /* the running drain, or NULL */
	struct rdt_rpc_events *events; /* NULL until a client watches events */
};

/* ---- rpc.c: requests and answers ---- */

/* Processes one line of @client, without its newline. */
void rdt_rpc_line(struct rdt_rpc *rpc, struct rdt_rpc_client *client, const char *line, size_t len);
/* Answers @call; takes ownership of @result. NULL: out of memory. */
void rdt_rpc_result(struct rdt_rpc_call *call, json_t *result);
/* As rdt_rpc_result(), with a result that is JSON text already, made by a job. NULL: out of
 * memory. */
void rdt_rpc_result_text(struct rdt_rpc_call *call, const char *result);
/* Answers @call with an error. @field: the invalid parameter; @value: its value; @hint: what to
 * do. Each may be NULL. */
void rdt_rpc_error(struct rdt_rpc_call *call, enum rdt_rpc_error error, const char *field,
		   const char *value, const char *hint, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));
void rdt_rpc_no_memory(struct rdt_rpc_call *call); /* the error "out of memory" */
/* Ends @call without an answer, because the server closes. */
void rdt_rpc_drop(struct rdt_rpc_call *call);
/* Sends an error with id null, for input that is not a valid request. */
void rdt_rpc_reject(struct rdt_rpc_client *client, enum rdt_rpc_error error, const char *text);
json_t *rdt_rpc_describe_methods(void); /* returns a JSON array */
/* Returns a parameter that is valid by the method's list and no key of a host; NULL: absent. */
const char *rdt_rpc_text(const struct rdt_rpc_call *call, const char *name);
/* Sets *@value if the parameter is present. Returns false if it is not between @min and @max,
 * after answering the call with an error. */
bool rdt_rpc_number(struct rdt_rpc_call *call, const char *name, json_int_t min, json_int_t max,
		    json_int_t *value);

/* ---- rpc_server.c: the socket and its clients ---- */

/* Sends @text, one line without a newline. What the client does not read at once is buffered. */
void rdt_rpc_send(struct rdt_rpc_client *client, const char *text, size_t len);
/* As rdt_rpc_send(); takes ownership of @text, which was allocated with room for one more byte. */
void rdt_rpc_send_whole(struct rdt_rpc_client *client, char *text, size_t len);
/* Sets or clears the call in progress. */
void rdt_rpc_client_busy(struct rdt_rpc_client *client, struct rdt_rpc_call *call);
bool rdt_rpc_client_may_change(const struct rdt_rpc_client *client);
uid_t rdt_rpc_client_uid(const struct rdt_rpc_client *client);
pid_t rdt_rpc_client_pid(const struct rdt_rpc_client *client);
bool rdt_rpc_client_owns(
	const struct rdt_rpc_client *client); /* whether it is root or our own user */
/* Sends an empty line with descriptor @fd, which remains the caller's, before the answer. Returns 0
 * or -errno. */
int rdt_rpc_client_give(struct rdt_rpc_client *client, int fd);

/* What a client watches: events, or events and log messages up to a level. */
#define RDT_RPC_WATCH_EVENTS     1
#define RDT_RPC_WATCH_LOG(level) (2 + (int)(level))

/* Sets what @client watches. Returns the previous value; 0: nothing. */
int rdt_rpc_client_watch(struct rdt_rpc_client *client, int watch);
/* Sends one line to all clients that watch at least @watch. Clients that do not read miss lines,
 * and are told how many. */
void rdt_rpc_event(struct rdt_rpc *rpc, int watch, const char *text, size_t len);
void rdt_rpc_events_lost(struct rdt_rpc *rpc, uint64_t count); /* for all clients that watch */

/* ---- rpc_events.c ---- */

/* A client that watched @watch has disconnected. */
void rdt_rpc_events_unwatch(struct rdt_rpc *rpc, int watch);
void rdt_rpc_events_free(struct rdt_rpc *rpc); /* call when no other thread logs any more */

/* ---- rpc_ask.c: queries of all reactors ---- */

/*
 * @fn runs on the thread of each reactor, fills in its answer, and calls rdt_answer_ready(), at
 * once or later. @done runs on the main loop when all have answered, and answers @call. The query
 * runs to its end also when the client has disconnected. @what: answer->what, or NULL; the query
 * frees it by free(3), also when it fails.
 */
void rdt_rpc_ask(struct rdt_rpc_call *call, void *what, void (*fn)(struct rdt_answer *answer),
		 void (*done)(struct rdt_rpc_call *call, struct rdt_answer *answers,
			      unsigned int count));
void rdt_rpc_ask_free_all(struct rdt_rpc *rpc); /* call after all loops have ended */

/* ---- rpc_job.c: slow work ---- */

/* @fn runs on a thread, at most two of a method at once; others wait. @done runs on the main loop,
 * or before this returns, answers @call and frees @arg. @call is NULL if it was already answered,
 * or the server was closed. */
void rdt_rpc_job(struct rdt_rpc_call *call, void (*fn)(void *arg),
		 void (*done)(struct rdt_rpc_call *call, void *arg), void *arg);

/* ---- rpc_config.c ---- */

/* A drained target accepts no changes: answers @call with an error and returns true. */
bool rdt_rpc_refuse_drained(struct rdt_rpc_call *call);
/* Queue @ch (NULL: reload the file). Takes ownership of @ch, except when memory runs out; then
 * @call is answered. Otherwise @done, whose @arg is the call, answers it. */
void rdt_rpc_start_change(struct rdt_rpc_call *call, struct rdt_change *ch,
			  void (*done)(void *arg, const struct rdt_change *change));
json_t *rdt_rpc_report(const struct rdt_report *report); /* returns a JSON array of its lines */

/* ---- rpc_show.c ---- */

/* The subsystem named by parameter @param; NULL if the parameter is absent. *@found is false if
 * no subsystem has the name; the call has then been answered. */
struct rdt_subsys *rdt_rpc_subsys(struct rdt_rpc_call *call, const char *param, bool *found);

/* ---- the methods, each list ends with a name of NULL ---- */

extern const struct rdt_rpc_method rdt_rpc_change_methods[];
extern const struct rdt_rpc_method rdt_rpc_config_methods[];
extern const struct rdt_rpc_method rdt_rpc_edit_methods[];
extern const struct rdt_rpc_method rdt_rpc_event_methods[];
extern const struct rdt_rpc_method rdt_rpc_host_methods[];
extern const struct rdt_rpc_method rdt_rpc_show_methods[];
extern const struct rdt_rpc_method rdt_rpc_stats_methods[];
extern const struct rdt_rpc_method rdt_rpc_upgrade_methods[];

#endif /* RDT_RPC_PRIV_H */
