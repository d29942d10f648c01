/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the log says about one task, kept for whoever asked for the task as well. One thread at a
 * time writes to it or reads it.
 */
#ifndef RDT_REPORT_H
#define RDT_REPORT_H

#include "util/log.h"

#define RDT_REPORT_LINES 200u

struct rdt_report_line {
	enum rd_log_level level;
	char *text;
};

struct rdt_report {
	struct rd_log *log;    /* to be written to; passes everything on */
	struct rd_log *parent; /* NULL: to nobody */
	unsigned int count;
	unsigned int left_out; /* further ones */
	struct rdt_report_line lines[RDT_REPORT_LINES];
};

/* Returns 0 or -ENOMEM. Warnings and errors are kept. */
int rdt_report_init(struct rdt_report *report, struct rd_log *parent);
void rdt_report_add(struct rdt_report *report, enum rd_log_level level, const char *text);
void rdt_report_clear(struct rdt_report *report); /* of its lines */
void rdt_report_fini(struct rdt_report *report);  /* also one that was not initialised, but zero */

#endif /* RDT_REPORT_H */
