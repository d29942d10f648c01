/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files of rdctl. */
#ifndef RDCTL_H
#define RDCTL_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

enum rdctl_exit {
	RDCTL_OK = 0,
	RDCTL_REFUSED = 1, /* rdtarget answered that it cannot, or may not */
	RDCTL_USAGE = 2,
	RDCTL_NO_DAEMON = 3, /* nobody answers */
};

struct rdctl {
	const char *socket;
	unsigned int wait_seconds; /* for an answer */
	bool json;                 /* print answers as they are */
};

struct rdctl_arguments { /* of a verb */
	int count;
	char **values;
	bool dry_run;
	bool full;
	bool save;
	const char *timeout; /* or NULL */
};

#define RDCTL_ANY 4096

struct rdctl_verb {
	const char *name;  /* one word, or two: "ns add" */
	const char *usage; /* of its arguments and options */
	const char *what;
	int least; /* arguments */
	int most;  /* or RDCTL_ANY */
	int (*run)(const struct rdctl *ctl, const struct rdctl_arguments *args);
	bool changes; /* takes --save and --dry-run */
};

/* ---- main.c ---- */

int rdctl_usage_error(const char *what, const char *value); /* returns RDCTL_USAGE */

/* ---- verbs.c ---- */

extern const struct rdctl_verb rdctl_verbs[]; /* the last one has no name */

/* Call @method, takes @params over; in text, print what @print makes of the answer, or nothing. */
int rdctl_show(const struct rdctl *ctl, const char *method, json_t *params,
	       int (*print)(const json_t *result));
void rdctl_messages(const json_t *result);   /* those of the answer, to standard error */
int rdctl_differences(const json_t *result); /* those of the answer; returns RDCTL_OK */
/* "10.0.0.1", "10.0.0.1:4420", "[::1]:4420": set address and port of @params. Returns false when it
 * is none. */
bool rdctl_split_address(const char *text, json_t *params);

/* ---- changes.c ---- */

/* Call @method with the options that changes take, and print what was done. Takes @params over;
 * NULL: out of memory. */
int rdctl_change(const struct rdctl *ctl, const struct rdctl_arguments *args, const char *method,
		 json_t *params);

int rdctl_ns_add(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_ns_remove(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_ns_resize(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_ns_protect(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_ns_qos(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_ns_ana(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_subsystem_add(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_subsystem_remove(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_subsystem_hosts(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_host_allow(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_host_deny(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_host_qos(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_listener_add(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_listener_remove(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_apply(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_save(const struct rdctl *ctl, const struct rdctl_arguments *args);

/* ---- client.c ---- */

/*
 * Call @method; takes @params over, NULL: none. Returns the result, a new reference, or NULL after
 * it has said why on standard error, with *@code set.
 */
json_t *rdctl_call(const struct rdctl *ctl, const char *method, json_t *params, int *code);
/*
 * Call @method, and @event for each notification that follows, until the daemon closes the
 * connection or @event returns false. Returns the exit status.
 */
int rdctl_watch(const struct rdctl *ctl, const char *method, json_t *params,
		bool (*event)(const struct rdctl *ctl, const json_t *notification));

/* ---- table.c: what people read ---- */

enum rdctl_kind {
	RDCTL_TEXT,   /* strings, numbers, yes or no, lists with commas */
	RDCTL_NUMBER, /* to the right */
	RDCTL_BYTES,  /* with a unit */
	RDCTL_TIME,   /* seconds, with a unit; none: 0 */
};

struct rdctl_column {
	const char *title; /* NULL: the end */
	const char *key;
	enum rdctl_kind kind;
};

/* One line for each object of @list, below the titles. */
void rdctl_table(const json_t *list, const struct rdctl_column *columns);
/* One line for each column: title and value. */
void rdctl_record(const json_t *object, const struct rdctl_column *columns);
void rdctl_json(const json_t *value);
/* @value as a cell has it. Returns @buf. */
const char *rdctl_text(const json_t *value, enum rdctl_kind kind, char *buf, size_t size);

/* 0.00012 as "120us"; 0 as "-". Returns @buf. */
const char *rdctl_time(double seconds, char *buf, size_t size);

/* ---- latency.c ---- */

#define RDCTL_LATENCY_BUCKETS 128u /* more than rdtarget has */

struct rdctl_latency { /* a histogram */
	unsigned int used;
	double end[RDCTL_LATENCY_BUCKETS]; /* of a bucket, in seconds */
	json_int_t count[RDCTL_LATENCY_BUCKETS];
};

/* Add (@sign 1) or take away (-1) what @io of the method "stats.get" has, of @op; NULL: of all. */
void rdctl_latency_add(struct rdctl_latency *l, const json_t *io, const char *op, int sign);
double rdctl_latency_percentile(const struct rdctl_latency *l, double percent); /* 0: empty */

/* ---- verbs with files of their own ---- */

int rdctl_run_latency(const struct rdctl *ctl, const struct rdctl_arguments *args);
int rdctl_run_top(const struct rdctl *ctl, const struct rdctl_arguments *args);

#endif /* RDCTL_H */
