/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The figures of the target: one row for each, in figures.c. All outputs walk these rows: JSON
 * ("stats.get", /status.json), metrics, the log, the documents. A new figure is a row, and a field
 * of a copy (stats.h).
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
	RDT_SECONDS, /* kept in ns */
	RDT_BOOL,
};

enum rdt_figure_of { /* objects that have figures, as bits */
		     RDT_OF_TARGET = 1 << 0,
		     RDT_OF_PROCESS = 1 << 1,
		     RDT_OF_REACTOR = 1 << 2,
		     RDT_OF_LISTENER = 1 << 3,
		     RDT_OF_SUBSYSTEM = 1 << 4,
		     RDT_OF_NAMESPACE = 1 << 5,
		     RDT_OF_HOST = 1 << 6,
		     RDT_OF_TOTAL = 1 << 7, /* the sum over all reactors, and so over all hosts */
};

#define RDT_OBJECTS 8u

enum rdt_figure_form {                    /* how it is read */
		       RDT_FIGURE_OWN,    /* uint64_t of the object's structure in stats.h */
		       RDT_FIGURE_TEXT,   /* const char * of that: label @label; NULL: none */
		       RDT_FIGURE_IO,     /* uint64_t of its struct rdt_stats_io */
		       RDT_FIGURE_OP,     /* uint64_t of each struct rdt_stats_op: label op */
		       RDT_FIGURE_ERRORS, /* by status: labels sct and sc */
		       RDT_FIGURE_ENDS,   /* of connections: label reason */
		       RDT_FIGURE_ANA,    /* states: labels group and state */
};

struct rdt_figure {
	const char *name;   /* in JSON; "A.B": B of the object A */
	const char *metric; /* without prefix and suffix; NULL: as @name */
	const char *label;  /* of this row in the family @metric; such rows follow each other */
	const char *help;
	enum rdt_figure_kind kind;
	enum rdt_figure_unit unit;
	unsigned int in;     /* enum rdt_figure_of: where JSON has it */
	unsigned int series; /* where it has a series of its own in the metrics */
	unsigned int plain;  /* where the metric has no prefix for the object */
	enum rdt_figure_form form;
	size_t at;
	const char *const
		*texts; /* RDT_FIGURE_TEXT: a series for each; NULL: for the present one */
};

/* An object of a copy. */
struct rdt_figures {
	enum rdt_figure_of of;
	const void *own;               /* NULL: hosts and the total have none */
	const struct rdt_stats_io *io; /* NULL: it has none */
};

extern const struct rdt_figure rdt_figures[];
extern const unsigned int rdt_figures_count;

/* The family of the metric without "_total" into @text. */
void rdt_figure_metric(const struct rdt_figure *f, enum rdt_figure_of of, char *text, size_t size);
/* RDT_FIGURE_NONE: there is no value. @op: RDT_FIGURE_OP only. */
uint64_t rdt_figure_value(const struct rdt_figure *f, const struct rdt_figures *of,
			  unsigned int op);
/* Of RDT_FIGURE_TEXT. NULL: there is none. */
const char *rdt_figure_text(const struct rdt_figure *f, const struct rdt_figures *of);
/* Adds the figures of an object to @o. */
void rdt_figures_json(json_t *o, const struct rdt_figures *of, bool histograms);

#endif /* RDT_FIGURES_H */
