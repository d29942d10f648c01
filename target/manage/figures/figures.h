/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The statistics of the target: figures.c has one row for each. JSON ("stats.get", /status.json),
 * metrics, the log and the documents are made from these rows. A new one needs a row, and a field
 * in a copy (stats.h).
 */
#ifndef RDT_FIGURES_H
#define RDT_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "stats.h"

enum rdt_figure_kind { RDT_GAUGE, RDT_COUNTER, RDT_HISTOGRAM };

enum rdt_figure_unit {
	RDT_NUMBER,
	RDT_BYTES,
	RDT_SECONDS, /* stored in ns */
	RDT_BOOL,
};

enum rdt_figure_of { /* kinds of objects, as bits */
		     RDT_OF_TARGET = 1 << 0,
		     RDT_OF_PROCESS = 1 << 1,
		     RDT_OF_REACTOR = 1 << 2,
		     RDT_OF_LISTENER = 1 << 3,
		     RDT_OF_SUBSYSTEM = 1 << 4,
		     RDT_OF_NAMESPACE = 1 << 5,
		     RDT_OF_HOST = 1 << 6,
		     RDT_OF_TOTAL = 1
				    << 7, /* the sum over all reactors, which includes all hosts */
};

#define RDT_OBJECTS 8u

enum rdt_figure_form {                    /* where the value is */
		       RDT_FIGURE_OWN,    /* uint64_t of the object's structure in stats.h */
		       RDT_FIGURE_TEXT,   /* const char * of the same: label @label; NULL: none */
		       RDT_FIGURE_IO,     /* uint64_t of its struct rdt_stats_io */
		       RDT_FIGURE_OP,     /* uint64_t of each struct rdt_stats_op: label op */
		       RDT_FIGURE_ERRORS, /* errors by status: labels sct and sc */
		       RDT_FIGURE_ENDS,   /* ended connections: label reason */
		       RDT_FIGURE_ANA,    /* ANA states: labels group and state */
};

struct rdt_figure {
	const char *name;   /* in JSON; "A.B": member B of the object A */
	const char *metric; /* without prefix and suffix; NULL: @name */
	const char *label;  /* of this row in the family @metric, whose rows are adjacent */
	const char *help;
	enum rdt_figure_kind kind;
	enum rdt_figure_unit unit;
	unsigned int in;     /* enum rdt_figure_of: objects that have it in JSON */
	unsigned int series; /* objects that have a series of it in the metrics */
	unsigned int plain;  /* objects whose name is not a prefix of the metric */
	enum rdt_figure_form form;
	size_t at;
	const char *const
		*texts; /* RDT_FIGURE_TEXT: one series for each; NULL: for the current text only */
};

/* One object in a copy of the counters. */
struct rdt_figures {
	enum rdt_figure_of of;
	const void *own;               /* its structure in stats.h; NULL for hosts and the total */
	const struct rdt_stats_io *io; /* NULL: the object has none */
};

extern const struct rdt_figure rdt_figures[];
extern const unsigned int rdt_figures_count;

/* Writes the name of the metric family into @text, without "_total". */
void rdt_figure_metric(const struct rdt_figure *f, enum rdt_figure_of of, char *text, size_t size);
/* Returns RDT_FIGURE_NONE if there is no value. @op: for RDT_FIGURE_OP only. */
uint64_t rdt_figure_value(const struct rdt_figure *f, const struct rdt_figures *of,
			  unsigned int op);
/* The value of an RDT_FIGURE_TEXT row, or NULL. */
const char *rdt_figure_text(const struct rdt_figure *f, const struct rdt_figures *of);
/* Adds all statistics of an object to @o. */
void rdt_figures_json(json_t *o, const struct rdt_figures *of, bool histograms);

#endif /* RDT_FIGURES_H */
