/* SPDX-License-Identifier: BSD-3-Clause */
/* Latency histograms: sums, differences, percentiles, and the verb that prints one. */
#include "rdctl.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/parse.h"

#define BAR 50

static const char *const op_names[] = {"read", "write", "flush", "other"};

static void latency_add_one(struct rdctl_latency *l, double end, json_int_t count)
{
	unsigned int i = 0;

	while (i < l->used && l->end[i] < end)
		i++;
	if (i == l->used || l->end[i] > end) {
		if (l->used == RDCTL_LATENCY_BUCKETS)
			return;
		memmove(&l->end[i + 1], &l->end[i], (l->used - i) * sizeof(l->end[0]));
		memmove(&l->count[i + 1], &l->count[i], (l->used - i) * sizeof(l->count[0]));
		l->end[i] = end;
		l->count[i] = 0;
		l->used++;
	}
	l->count[i] += count;
}

void rdctl_latency_add(struct rdctl_latency *l, const json_t *io, const char *op, int sign)
{
	json_t *pair;
	size_t i;

	for (unsigned int o = 0; o < sizeof(op_names) / sizeof(op_names[0]); o++) {
		const json_t *part = json_object_get(io, op_names[o]);

		if (op && strcmp(op, op_names[o]) != 0)
			continue;
		json_array_foreach(json_object_get(part, "histogram"), i, pair)
			latency_add_one(l, json_number_value(json_array_get(pair, 0)),
					sign * json_integer_value(json_array_get(pair, 1)));
	}
}

static json_int_t latency_total(const struct rdctl_latency *l)
{
	json_int_t total = 0;

	for (unsigned int i = 0; i < l->used; i++)
		total += l->count[i] > 0 ? l->count[i] : 0;
	return total;
}

double rdctl_latency_percentile(const struct rdctl_latency *l, double percent)
{
	double want = (double)latency_total(l) * percent / 100;
	json_int_t seen = 0;

	for (unsigned int i = 0; i < l->used; i++) {
		seen += l->count[i] > 0 ? l->count[i] : 0;
		if (seen && (double)seen + 1e-6 >= want)
			return l->end[i];
	}
	return 0;
}

/* ---- the verb ---- */

static void draw_latency(const struct rdctl_latency *l)
{
	json_int_t most = 1;
	char text[32];

	for (unsigned int i = 0; i < l->used; i++)
		if (l->count[i] > most)
			most = l->count[i];
	printf("%8s  %12s\n", "UP-TO", "COMMANDS");
	for (unsigned int i = 0; i < l->used; i++) {
		int bar = (int)(l->count[i] * BAR / most);

		printf("%8s  %12lld%s", rdctl_time(l->end[i], text, sizeof(text)),
		       (long long)l->count[i], bar ? "  " : "");
		while (bar-- > 0)
			putchar('#');
		putchar('\n');
	}
}

static void print_latency(const char *name, const json_t *io)
{
	static const double percents[] = {50, 90, 99, 99.9};
	char text[32];

	for (unsigned int o = 0; o < sizeof(op_names) / sizeof(op_names[0]); o++) {
		const json_t *op = json_object_get(io, op_names[o]);
		json_int_t count = json_integer_value(json_object_get(op, "count"));
		double mean = json_number_value(json_object_get(op, "mean_seconds"));
		struct rdctl_latency l = {0};

		if (!count)
			continue;
		rdctl_latency_add(&l, io, op_names[o], 1);
		printf("%s, %s: %lld commands, mean %s", name, op_names[o], (long long)count,
		       rdctl_time(mean, text, sizeof(text)));
		for (unsigned int i = 0; i < sizeof(percents) / sizeof(percents[0]); i++)
			printf(", %g%% %s", percents[i],
			       rdctl_time(rdctl_latency_percentile(&l, percents[i]), text,
					  sizeof(text)));
		putchar('\n');
		draw_latency(&l);
	}
	if (!json_integer_value(json_object_get(json_object_get(io, "read"), "count")) &&
	    !json_integer_value(json_object_get(json_object_get(io, "write"), "count")))
		printf("%s: no reads or writes yet\n", name);
}

int rdctl_run_latency(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	json_t *params = json_pack("{s:b, s:b}", "histograms", 1, "namespaces", args->count > 0);
	const json_t *io;
	char name[300] = "all namespaces";
	json_t *result;
	uint64_t nsid;
	int code;

	if (args->count == 1 ||
	    (args->count == 2 && rd_parse_u64(args->values[1], 1, UINT32_MAX, &nsid))) {
		json_decref(params);
		return rdctl_usage_error("latency takes no arguments, or SUBNQN NSID",
					 args->count == 2 ? args->values[1] : NULL);
	}
	if (args->count) {
		json_object_set_new(params, "nqn", json_string(args->values[0]));
		json_object_set_new(params, "nsid", json_integer((json_int_t)nsid));
		snprintf(name, sizeof(name), "%s namespace %u", args->values[0],
			 (unsigned int)nsid);
	}
	result = rdctl_call(ctl, "stats.get", params, &code);
	if (!result)
		return code;
	io = args->count ? json_array_get(json_object_get(result, "namespaces"), 0)
			 : json_object_get(result, "total");
	code = io ? RDCTL_OK : RDCTL_REFUSED;
	if (!io)
		fprintf(stderr, "rdctl: there is no %s; rdctl ns lists all\n", name);
	else if (ctl->json)
		rdctl_json(io);
	else
		print_latency(name, io);
	json_decref(result);
	return code;
}
