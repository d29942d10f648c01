/* SPDX-License-Identifier: BSD-3-Clause */
/* Collects the log lines of one task for its requester. Used by one thread at a time. */
#ifndef RDT_REPORT_H
#define RDT_REPORT_H

#include "util/log.h"

#define RDT_REPORT_LINES 200u

struct rdt_report_line {
	enum rd_log_level level;
	char *text;
};

struct rdt_report {
	struct rd_log *log;    /* the log to use during the task; forwards to @parent */
	struct rd_log *parent; /* NULL: not forwarded */
	unsigned int count;
	unsigned int errors;   /* all errors, including those not kept */
	unsigned int left_out; /* number of lines not kept */
	struct rdt_report_line lines[RDT_REPORT_LINES];
};

/* Keeps warnings and errors. Returns 0 or -ENOMEM. */
int rdt_report_init(struct rdt_report *report, struct rd_log *parent);
/* Keeps the first RDT_REPORT_LINES lines; if all are warnings, an error replaces the last one. */
void rdt_report_add(struct rdt_report *report, enum rd_log_level level, const char *text);
/* The text of the first error; @otherwise if there is none, or memory ran out. */
const char *rdt_report_first_error(const struct rdt_report *report, const char *otherwise);
void rdt_report_clear(struct rdt_report *report); /* removes its lines */
void rdt_report_fini(struct rdt_report *report);  /* accepts a zeroed report */

#endif /* RDT_REPORT_H */
