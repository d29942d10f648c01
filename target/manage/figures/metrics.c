/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the rows of figures.c as metric families, each with the samples of all objects. */
#include "metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/loop.h"
#include "target/config/config.h"
#include "figures.h"
#include "target/manage/show/show.h"

/* log2 of the first bucket's upper bound in ns: bounds are powers of two from 16 us to 8.6 s. */
#define LE_FIRST 14u
#define LE_LAST  33u
/* Size of all labels: an NQN of 223 bytes may need five characters for each, plus the NSID. */
#define LABELS 1280

/* An object and its labels. */
struct metrics_object {
	struct rdt_figures figures;
	char *labels;
};

struct metrics_out {
	FILE *f;
	struct rdt_stats *stats;
	enum rdt_metrics_format format;
	char name[128]; /* of the family */
	struct metrics_object *objects;
	unsigned int count;
	bool no_memory;
};

const char *rdt_metrics_type(enum rdt_metrics_format format)
{
	return format == RDT_METRICS_OPENMETRICS
		       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		       : "text/plain; version=0.0.4; charset=utf-8";
}

/* ---- values ---- */

/*
 * @value may be chosen by a host and contain any byte. Characters that the log would mask, and
 * backslashes, become "\x" and two digits, so that different names have different labels.
 */
static void put_label(char *labels, const char *name, const char *value)
{
	char *to = labels + strlen(labels);
	size_t left = strlen(value), n;

	to += sprintf(to, "%s%s=\"", to > labels ? "," : "", name);
	for (; left && to < labels + LABELS - 16; value += n, left -= n) {
		n = rdt_show_plain(value, left);
		if (!n) {
			n = 1;
			to += sprintf(to, "\\\\x%02x", (unsigned char)*value);
			continue;
		}
		if (*value == '"')
			*to++ = '\\';
		memcpy(to, value, n);
		to += n;
	}
	strcpy(to, "\"");
}

/* @label: an additional label of the sample; "": none. */
static void put_labels(const struct metrics_out *o, const struct metrics_object *of,
		       const char *suffix, const char *label)
{
	bool both = of->labels[0] && label[0];

	if (of->labels[0] || label[0])
		fprintf(o->f, "%s%s{%s%s%s} ", o->name, suffix, of->labels, both ? "," : "", label);
	else
		fprintf(o->f, "%s%s ", o->name, suffix);
}

static void put_seconds(const struct metrics_out *o, uint64_t ns)
{
	fprintf(o->f, "%" PRIu64 ".%09" PRIu64 "\n", ns / RD_NSEC_PER_SEC, ns % RD_NSEC_PER_SEC);
}

static void put_sample(const struct metrics_out *o, const struct metrics_object *of,
		       const struct rdt_figure *f, const char *label, uint64_t value)
{
	if (value == RDT_FIGURE_NONE)
		return;
	put_labels(o, of, f->kind == RDT_COUNTER ? "_total" : "", label);
	if (f->unit == RDT_SECONDS)
		put_seconds(o, value);
	else
		fprintf(o->f, "%" PRIu64 "\n", value);
}

/* Kinds of commands that were never used have no histogram: most namespaces use two at most. */
static void put_histogram(const struct metrics_out *o, const struct metrics_object *of,
			  const char *label, const struct rdt_stats_op *stats)
{
	uint64_t sum = 0;
	unsigned int bucket = 0;
	char le[64];

	if (!stats->count)
		return;
	for (unsigned int power = LE_FIRST; power <= LE_LAST; power++) {
		uint64_t end = UINT64_C(1) << power;

		for (; bucket < RDT_LAT_BUCKETS && rdt_lat_end(bucket) <= end; bucket++)
			sum += stats->bucket[bucket];
		snprintf(le, sizeof(le), "%s,le=\"%" PRIu64 ".%09" PRIu64 "\"", label,
			 end / RD_NSEC_PER_SEC, end % RD_NSEC_PER_SEC);
		put_labels(o, of, "_bucket", le);
		fprintf(o->f, "%" PRIu64 "\n", sum);
	}
	snprintf(le, sizeof(le), "%s,le=\"+Inf\"", label);
	put_labels(o, of, "_bucket", le);
	fprintf(o->f, "%" PRIu64 "\n", stats->count);
	put_labels(o, of, "_sum", label);
	put_seconds(o, stats->ns);
	put_labels(o, of, "_count", label);
	fprintf(o->f, "%" PRIu64 "\n", stats->count);
}

static void put_ops(const struct metrics_out *o, const struct metrics_object *of,
		    const struct rdt_figure *f)
{
	char label[32];

	for (unsigned int op = 0; op < RDT_IO_OPS; op++) {
		if (f->unit == RDT_BYTES && op != RDT_IO_READ && op != RDT_IO_WRITE)
			continue; /* always 0 */
		snprintf(label, sizeof(label), "op=\"%s\"", rdt_stats_op_name(op));
		if (f->kind == RDT_HISTOGRAM)
			put_histogram(o, of, label, &of->figures.io->op[op]);
		else
			put_sample(o, of, f, label, rdt_figure_value(f, &of->figures, op));
	}
}

static void put_errors(const struct metrics_out *o, const struct metrics_object *of,
		       const struct rdt_figure *f)
{
	const struct rdt_stats_io *io = of->figures.io;
	char label[48];

	for (unsigned int i = 0; i < RDT_ERROR_KINDS && io->status[i]; i++) {
		snprintf(label, sizeof(label), "sct=\"%u\",sc=\"0x%02x\"",
			 (unsigned int)io->status[i] >> 8, (unsigned int)io->status[i] & 0xff);
		put_sample(o, of, f, label, io->errors[i]);
	}
	put_sample(o, of, f, "sct=\"other\",sc=\"other\"", io->other_errors);
}

static void put_ends(const struct metrics_out *o, const struct metrics_object *of,
		     const struct rdt_figure *f)
{
	char label[48];

	for (unsigned int end = 0; end < RDT_ENDS; end++) {
		snprintf(label, sizeof(label), "reason=\"%s\"", rdt_stats_end_name(end));
		put_sample(o, of, f, label, of->figures.io->events[RDT_COUNT_ENDS + end]);
	}
}

/* Writes the states of groups that have a namespace. */
static void put_ana(const struct metrics_out *o, const struct metrics_object *of,
		    const struct rdt_figure *f)
{
	static const uint8_t states[] = {RDT_ANA_OPTIMIZED, RDT_ANA_NON_OPTIMIZED,
					 RDT_ANA_INACCESSIBLE, RDT_ANA_PERSISTENT_LOSS,
					 RDT_ANA_CHANGE};
	const struct rdt_stats_listener *l = of->figures.own;
	char label[64];

	for (unsigned int g = 1; g <= RDT_ANA_GROUPS; g++)
		for (unsigned int i = 0; o->stats->ana_used[g] && i < sizeof(states); i++) {
			snprintf(label, sizeof(label), "group=\"%u\",state=\"%s\"", g,
				 rdt_config_ana_name(states[i]));
			put_sample(o, of, f, label, l->ana[g] == states[i]);
		}
}

static void put_text(const struct metrics_out *o, const struct metrics_object *of,
		     const struct rdt_figure *f)
{
	const char *text = rdt_figure_text(f, &of->figures);
	const char *const present[] = {text, NULL};
	char label[128];

	for (const char *const *t = f->texts ? f->texts : present; *t; t++) {
		snprintf(label, sizeof(label), "%s=\"%s\"", f->label, *t);
		put_sample(o, of, f, label, text && strcmp(*t, text) == 0);
	}
}

static void put_figure(const struct metrics_out *o, const struct metrics_object *of,
		       const struct rdt_figure *f)
{
	switch (f->form) {
	case RDT_FIGURE_OP:
		put_ops(o, of, f);
		break;
	case RDT_FIGURE_ERRORS:
		put_errors(o, of, f);
		break;
	case RDT_FIGURE_ENDS:
		put_ends(o, of, f);
		break;
	case RDT_FIGURE_ANA:
		put_ana(o, of, f);
		break;
	case RDT_FIGURE_TEXT:
		put_text(o, of, f);
		break;
	default:
		put_sample(o, of, f, f->label ? f->label : "",
			   rdt_figure_value(f, &of->figures, 0));
	}
}

/* ---- families ---- */

/* Writes the rows from @f to @end for @count objects of one kind. */
static void write_family(struct metrics_out *o, const struct rdt_figure *f,
			 const struct rdt_figure *end, enum rdt_figure_of of,
			 const struct metrics_object *objects, unsigned int count)
{
	static const char *const kinds[] = {"gauge", "counter", "histogram"};
	bool total = f->kind == RDT_COUNTER && o->format == RDT_METRICS_PROMETHEUS;
	const char *suffix = total ? "_total" : "";

	rdt_figure_metric(f, of, o->name, sizeof(o->name));
	fprintf(o->f, "# HELP %s%s %s\n# TYPE %s%s %s\n", o->name, suffix, f->help, o->name, suffix,
		kinds[f->kind]);
	for (unsigned int i = 0; i < count; i++)
		for (const struct rdt_figure *row = f; row < end; row++)
			put_figure(o, &objects[i], row);
}

static const char *metric_of(const struct rdt_figure *f)
{
	return f->metric ? f->metric : f->name;
}

/* Writes all families of one kind of object, even if @count is 0. */
static void write_objects(struct metrics_out *o, enum rdt_figure_of of,
			  const struct metrics_object *objects, unsigned int count)
{
	const struct rdt_figure *last = rdt_figures + rdt_figures_count, *end;

	for (const struct rdt_figure *f = rdt_figures; f < last; f = end) {
		for (end = f + 1; end < last && (end->series & of) == (f->series & of) &&
				  strcmp(metric_of(end), metric_of(f)) == 0;)
			end++;
		if (f->series & of)
			write_family(o, f, end, of, objects, count);
	}
}

/* ---- objects ---- */

static void add_object(struct metrics_out *o, enum rdt_figure_of of, const void *own,
		       const struct rdt_stats_io *io, const char *labels)
{
	struct metrics_object *object = &o->objects[o->count++];

	object->figures = (struct rdt_figures){of, own, io};
	object->labels = strdup(labels);
	o->no_memory |= !object->labels;
}

static void add_named(struct metrics_out *o, enum rdt_figure_of of, const void *own,
		      const struct rdt_stats_io *io, const char *label, const char *name)
{
	char labels[LABELS] = "";

	put_label(labels, label, name);
	add_object(o, of, own, io, labels);
}

static void add_namespace_objects(struct metrics_out *o)
{
	for (unsigned int i = 0; i < o->stats->ns_count; i++) {
		const struct rdt_stats_ns *ns = o->stats->ns[i];
		char labels[LABELS] = "", number[16];

		if (!ns->shown.listed)
			continue; /* the NSID may be in use by another namespace */
		snprintf(number, sizeof(number), "%u", (unsigned int)ns->shown.nsid);
		put_label(labels, "subsystem", ns->shown.nqn);
		put_label(labels, "nsid", number);
		add_object(o, RDT_OF_NAMESPACE, ns, &ns->io, labels);
	}
}

static void add_objects(struct metrics_out *o)
{
	const struct rdt_stats *stats = o->stats;
	char number[16];

	add_object(o, RDT_OF_TARGET, stats, NULL, "");
	add_object(o, RDT_OF_PROCESS, &stats->process, NULL, "");
	for (unsigned int i = 0; i < stats->reactors_count; i++) {
		snprintf(number, sizeof(number), "%u", i);
		add_named(o, RDT_OF_REACTOR, &stats->reactors[i], &stats->reactors[i].io, "reactor",
			  number);
	}
	for (unsigned int i = 0; i < stats->listeners_count; i++)
		add_named(o, RDT_OF_LISTENER, &stats->listeners[i], &stats->listeners[i].io,
			  "listener", stats->listeners[i].address);
	for (unsigned int i = 0; i < stats->subsystems; i++)
		add_named(o, RDT_OF_SUBSYSTEM, &stats->subsys[i], NULL, "subsystem",
			  stats->subsys[i].nqn);
	add_namespace_objects(o);
	for (unsigned int i = 0; i < stats->hosts; i++)
		add_named(o, RDT_OF_HOST, NULL, &stats->by_host[i].io, "host",
			  stats->by_host[i].name);
}

static void write_metrics(struct metrics_out *o)
{
	for (unsigned int kind = 0, i = 0, n; kind < RDT_OBJECTS; kind++, i += n) {
		enum rdt_figure_of of = (enum rdt_figure_of)(1u << kind);

		for (n = 0; i + n < o->count && o->objects[i + n].figures.of == of;)
			n++;
		write_objects(o, of, o->objects + i, n);
	}
	if (o->format == RDT_METRICS_OPENMETRICS)
		fputs("# EOF\n", o->f);
	o->no_memory |= ferror(o->f) != 0;
}

int rdt_metrics_render(struct rdt_stats *stats, enum rdt_metrics_format format, char **text,
		       size_t *len)
{
	struct metrics_out o = {.stats = stats, .format = format};

	*text = NULL;
	*len = 0;
	o.objects = calloc(2 + stats->reactors_count + stats->listeners_count + stats->subsystems +
				   stats->ns_count + stats->hosts,
			   sizeof(*o.objects));
	if (o.objects)
		add_objects(&o);
	o.f = o.objects && !o.no_memory ? open_memstream(text, len) : NULL;
	if (o.f) {
		write_metrics(&o);
		if (fclose(o.f) != 0 || o.no_memory) {
			free(*text);
			*text = NULL;
		}
	}
	for (unsigned int i = 0; i < o.count; i++)
		free(o.objects[i].labels);
	free(o.objects);
	return *text ? 0 : -ENOMEM;
}

/* ---- a request ---- */

static void metrics_work(struct rdt_stats_ask *ask, struct rdt_stats *stats)
{
	struct rdt_metrics_ask *m = rd_container_of(ask, struct rdt_metrics_ask, ask);

	rdt_metrics_render(stats, m->format, &m->text, &m->len);
}

static void metrics_done(struct rdt_stats_ask *ask, const struct rdt_stats *stats)
{
	struct rdt_metrics_ask *m = rd_container_of(ask, struct rdt_metrics_ask, ask);

	m->done(m, m->text, m->len);
}

void rdt_metrics_ask(struct rdt_sampler *s, struct rdt_metrics_ask *ask)
{
	ask->text = NULL;
	ask->len = 0;
	ask->ask.work = metrics_work;
	ask->ask.done = metrics_done;
	rdt_stats_ask(s, &ask->ask);
}
