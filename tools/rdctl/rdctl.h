/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface between the files of rdctl. */
#ifndef RDCTL_H
#define RDCTL_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

enum rdctl_exit {
	RDCTL_OK = 0,
	RDCTL_REFUSED = 1, /* rdtarget answered with an error */
	RDCTL_USAGE = 2,
	RDCTL_NO_DAEMON = 3, /* no daemon answers */
	RDCTL_FAILED = 4,    /* the change is made, but an object of it does not work */
};

struct rdctl {
	const char *socket;
	unsigned int wait_seconds; /* time limit for an answer */
	bool json;                 /* print answers as JSON */
};

/* What only some verbs take. All that change something take those up to RDCTL_NO_WAIT. */
enum rdctl_option {
	RDCTL_SAVE,
	RDCTL_DRY_RUN,
	RDCTL_NO_WAIT,
	RDCTL_KEEP_STATE,
	RDCTL_FULL,
	RDCTL_CHECK,
	RDCTL_FORCE,
	RDCTL_STORE,
	RDCTL_TIMEOUT,
	RDCTL_OPTIONS
};

struct rdctl_arguments { /* arguments and options of a verb */
	int count;
	char **values;
	const char *given[RDCTL_OPTIONS]; /* the value, or ""; NULL: not given */
};

#define RDCTL_ANY 4096

/* How an argument becomes a member of the parameters of a method. */
enum rdctl_argument {
	RDCTL_ARG_TEXT,
	RDCTL_ARG_NSID,
	RDCTL_ARG_GROUP,
	RDCTL_ARG_SWITCH,  /* on or off */
	RDCTL_ARG_ADDRESS, /* members "address" and "port" */
	/* This one and those that follow it: KEY=VALUE, a member each; with a name they are members
	 * of an object, and "none" is an empty one. */
	RDCTL_ARG_VALUES,
};

struct rdctl_parameter {
	const char *name;
	enum rdctl_argument kind;
};

struct rdctl_column;

/* A verb is one call of a method, or a function. */
struct rdctl_verb {
	const char *name;  /* one word, or two: "ns add" */
	const char *usage; /* its arguments and options */
	const char *what;
	int least; /* minimum number of arguments */
	int most;  /* maximum number, or RDCTL_ANY */
	int (*run)(const struct rdctl *ctl, const struct rdctl_arguments *args);
	bool changes; /* accepts --save, --dry-run and --no-wait */
	const char *method;
	struct rdctl_parameter parameters[3];
	/* The parameters from number @outside on are members of this object; or NULL. */
	const char *object;
	int outside;
	int (*print)(const json_t *result);
	/* The answer's member that is a list, and the columns that show it; or NULL. */
	const char *list;
	const struct rdctl_column *columns;
	/* With the least number of arguments, this shows what is set; or NULL. */
	int (*show)(const struct rdctl *ctl, const struct rdctl_arguments *args);
};

/* ---- main.c ---- */

int rdctl_usage_error(const char *what, const char *value); /* returns RDCTL_USAGE */

/* ---- verbs.c ---- */

extern const struct rdctl_verb rdctl_verbs[]; /* terminated by an entry without a name */

/* Calls @method, takes ownership of @params, and prints the answer with @print, or nothing if
 * NULL; as JSON with --json. */
int rdctl_show(const struct rdctl *ctl, const char *method, json_t *params,
	       int (*print)(const json_t *result));
/* prints the messages of the answer to standard error */
void rdctl_messages(const json_t *result);
/* The exit status for what became of the objects of a change. */
int rdctl_outcome(const json_t *result);
/* prints the differences of the answer; returns RDCTL_OK */
int rdctl_differences(const json_t *result);
int rdctl_run(const struct rdctl *ctl, const struct rdctl_verb *v,
	      const struct rdctl_arguments *args);

/* ---- arguments.c ---- */

/* The parameters of the method of @v; NULL after printing the error. */
json_t *rdctl_parameters(const struct rdctl_verb *v, const struct rdctl_arguments *args);
/* Sets address and port of @params from "10.0.0.1", "10.0.0.1:4420" or "[::1]:4420". Returns
 * false if the text is not an address. */
#define RDCTL_ADDRESS_EXPECTED \
	"expected ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT with a port of 0 to 65535, not"
bool rdctl_split_address(const char *text, json_t *params);

/* ---- changes.c ---- */

/* Calls @method with the options for changes, and prints what was done. Takes ownership of
 * @params; NULL: out of memory. */
int rdctl_change(const struct rdctl *ctl, const struct rdctl_arguments *args, const char *method,
		 json_t *params);

int rdctl_print_change(const json_t *result);
int rdctl_show_ns_limits(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_show_host_keys(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_show_host_limits(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_subsystem_hosts(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_apply(const struct rdctl *ctl, const struct rdctl_arguments *args);

/* ---- client.c ---- */

/*
 * Calls @method; takes ownership of @params, which may be NULL. Returns a new reference to the
 * result, with *@code RDCTL_OK; or NULL, with *@code set, after printing the error: to standard
 * error, and with --output json also to standard output as {"error": ...} if the daemon has
 * refused.
 */
json_t *rdctl_call(const struct rdctl *ctl, const char *method, json_t *params, int *code);
/*
 * Calls @method, then @event for each notification, until the daemon closes the connection or
 * @event returns false. Returns the exit status.
 */
int rdctl_watch(const struct rdctl *ctl, const char *method, json_t *params,
		bool (*event)(const struct rdctl *ctl, const json_t *notification));

/* ---- table.c: what people read ---- */

enum rdctl_kind {
	RDCTL_TEXT,   /* strings, numbers, booleans, lists with commas */
	RDCTL_NUMBER, /* right-aligned */
	RDCTL_BYTES,  /* with a unit */
	RDCTL_TIME,   /* seconds, with a unit; 0 if absent */
};

struct rdctl_column {
	const char *title; /* NULL: the end of the table */
	const char *key;
	enum rdctl_kind kind;
	bool identity; /* says which object it is: never left out */
};

/* Prints the titles, and a line for each object of @list. */
void rdctl_table(const json_t *list, const struct rdctl_column *columns);
/*
 * As rdctl_table(), in lines of at most @width characters; 0: no limit. Leaves out whole columns
 * from the end, and cuts the beginning of texts that say which object it is, with an ellipsis:
 * NQNs differ at the end.
 */
void rdctl_table_within(const json_t *list, const struct rdctl_column *columns, unsigned int width);
/* Prints a line with title and value for each column. */
void rdctl_record(const json_t *object, const struct rdctl_column *columns);
void rdctl_json(const json_t *value);
/* Formats @value for a table. Returns @buf. */
const char *rdctl_text(const json_t *value, enum rdctl_kind kind, char *buf, size_t size);

/* Formats 0.00012 as "120us", and 0 as "-". Returns @buf. */
const char *rdctl_time(double seconds, char *buf, size_t size);

/* ---- latency.c ---- */

#define RDCTL_LATENCY_BUCKETS 128u /* more than rdtarget has */

struct rdctl_latency { /* a histogram */
	unsigned int used;
	double end[RDCTL_LATENCY_BUCKETS]; /* upper bound of a bucket in seconds */
	json_int_t count[RDCTL_LATENCY_BUCKETS];
};

/* Adds (@sign 1) or subtracts (-1) the histogram of operation @op, NULL: of all operations, in
 * @io, which is from the method "stats.get". */
void rdctl_latency_add(struct rdctl_latency *l, const json_t *io, const char *op, int sign);
/* 0: the histogram is empty */
double rdctl_latency_percentile(const struct rdctl_latency *l, double percent);

/* ---- verbs with files of their own ---- */

int rdctl_run_latency(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_run_top(const struct rdctl *ctl, const struct rdctl_arguments *args);

#endif /* RDCTL_H */
