/* SPDX-License-Identifier: BSD-3-Clause */
/* Rates and latencies from the difference of two copies of the counters: repeatedly on a
 * terminal, once otherwise. */
#include "rdctl.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "util/parse.h"

#define PART      1000 /* entries of a list in one answer */
#define SCREEN    "\033[?1049h\033[?25l\033[?7l"
#define NO_SCREEN "\033[?7h\033[?25h\033[?1049l"

/* ---- counters ---- */

/* Reads all counters; lists of namespaces and hosts arrive in parts. Returns NULL with *@code
 * set after an error. */
static json_t *top_counters(const struct rdctl *ctl, int *code)
{
	static const char *const lists[] = {"namespaces", "hosts"};
	json_t *all = NULL;
	bool more = true;

	for (json_int_t offset = 0; more; offset += PART) {
		json_t *part =
			rdctl_call(ctl, "stats.get",
				   json_pack("{s:b, s:b, s:b, s:I, s:i}", "namespaces", 1, "hosts",
					     1, "histograms", 1, "offset", offset, "limit", PART),
				   code);

		if (!part) {
			json_decref(all);
			return NULL;
		}
		more = json_integer_value(json_object_get(part, "namespaces_matching")) >
			       offset + PART ||
		       json_integer_value(json_object_get(part, "hosts_matching")) > offset + PART;
		for (int i = 0; all && i < 2; i++)
			json_array_extend(json_object_get(all, lists[i]),
					  json_object_get(part, lists[i]));
		if (!all)
			all = json_incref(part);
		json_decref(part);
	}
	return all;
}

/* The counter @part.@key, or @key itself. */
static double counter_of(const json_t *io, const char *part, const char *key)
{
	return json_number_value(json_object_get(part ? json_object_get(io, part) : io, key));
}

/* Increase in a second; a counter that decreased was reset, and began at 0. */
static double rate_of(const json_t *now, const json_t *before, const char *part, const char *key,
		      double seconds)
{
	double a = counter_of(before, part, key), b = counter_of(now, part, key);

	return (b >= a ? b - a : b) / seconds;
}

static json_t *rounded(double value)
{
	return json_integer((json_int_t)(value + 0.5));
}

/* A row: rates of @now since @before, which may be NULL. */
static json_t *top_row(const json_t *now, const json_t *before, double seconds)
{
	static const char *const ops[] = {"read", "write", "flush", "other"};
	static const struct {
		const char *name;
		const char *part;
		const char *key;
	} rates[] = {
		{"read_iops", "read", "count"},
		{"write_iops", "write", "count"},
		{"read_bytes", "read", "bytes"},
		{"written_bytes", "write", "bytes"},
	};
	struct rdctl_latency l = {0};
	double iops = 0;
	json_t *row = json_object();

	rdctl_latency_add(&l, now, NULL, 1);
	rdctl_latency_add(&l, before, NULL, -1);
	for (int i = 0; i < 4; i++)
		iops += rate_of(now, before, ops[i], "count", seconds);
	json_object_set_new(row, "iops", rounded(iops));
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		json_object_set_new(
			row, rates[i].name,
			rounded(rate_of(now, before, rates[i].part, rates[i].key, seconds)));
	json_object_set_new(row, "p50_seconds", json_real(rdctl_latency_percentile(&l, 50)));
	json_object_set_new(row, "p99_seconds", json_real(rdctl_latency_percentile(&l, 99)));
	json_object_set_new(row, "failed", rounded(rate_of(now, before, NULL, "failed", seconds)));
	json_object_set(row, "in_flight", json_object_get(now, "in_flight"));
	json_object_set(row, "oldest_seconds", json_object_get(now, "oldest_seconds"));
	return row;
}

/* ---- lists ---- */

static bool same_value(const json_t *a, const json_t *b, const char *key)
{
	return json_equal(json_object_get(a, key), json_object_get(b, key));
}

/* The entry of @list with the names of @entry. The order is stable, so it is usually at index
 * @hint. */
static const json_t *top_find(const json_t *list, const json_t *entry, const char *const *keys,
			      size_t hint)
{
	size_t n = json_array_size(list);

	for (size_t i = 0; i < n; i++) {
		const json_t *other = json_array_get(list, (hint + i) % n);

		if (same_value(entry, other, keys[0]) && same_value(entry, other, keys[1]))
			return other;
	}
	return NULL;
}

static int compare_rows(const void *a, const void *b)
{
	static const char *const keys[] = {"iops", "oldest_seconds"};

	for (int i = 0; i < 2; i++) {
		double x = json_number_value(json_object_get(*(json_t *const *)a, keys[i]));
		double y = json_number_value(json_object_get(*(json_t *const *)b, keys[i]));

		if (x != y)
			return x < y ? 1 : -1;
	}
	return 0;
}

/* Sorts by activity, the busiest first. */
static json_t *sorted_rows(json_t *rows)
{
	size_t n = json_array_size(rows);
	json_t **all = calloc(n + 1, sizeof(json_t *));
	json_t *list = json_array();

	for (size_t i = 0; i < n && all; i++)
		all[i] = json_array_get(rows, i);
	if (all)
		qsort(all, n, sizeof(json_t *), compare_rows);
	for (size_t i = 0; i < n && all; i++)
		json_array_append(list, all[i]);
	free(all);
	json_decref(rows);
	return list;
}

static json_t *top_list(const json_t *now, const json_t *before, const char *list,
			const char *const *keys, double seconds)
{
	const json_t *old = json_object_get(before, list);
	json_t *rows = json_array(), *entry;
	size_t i;

	json_array_foreach(json_object_get(now, list), i, entry)
	{
		json_t *row = top_row(entry, top_find(old, entry, keys, i), seconds);

		for (int k = 0; k < 2; k++)
			json_object_set(row, keys[k], json_object_get(entry, keys[k]));
		json_array_append_new(rows, row);
	}
	return sorted_rows(rows);
}

static json_t *top_reactors(const json_t *now, const json_t *before, double seconds)
{
	static const char *const copied[] = {"reactor",           "answered",
					     "io_queues",         "longest_turn_seconds",
					     "in_flight",         "waiting_for_buffers",
					     "waiting_for_limits"};
	json_t *rows = json_array(), *entry;
	size_t i;

	json_array_foreach(json_object_get(now, "reactors"), i, entry)
	{
		const json_t *old = json_array_get(json_object_get(before, "reactors"), i);
		json_t *row = json_object();

		for (size_t k = 0; k < sizeof(copied) / sizeof(copied[0]); k++)
			json_object_set(row, copied[k], json_object_get(entry, copied[k]));
		json_object_set_new(
			row, "busy_percent",
			rounded(100 * rate_of(entry, old, NULL, "busy_seconds", seconds)));
		json_array_append_new(rows, row);
	}
	return rows;
}

/* Rates between two copies of the counters. */
static json_t *top_between(const json_t *now, const json_t *before)
{
	static const char *const ns_keys[] = {"nqn", "nsid"}, *const host_keys[] = {"host",
										    "hostnqn"};
	double seconds = counter_of(now, NULL, "uptime_seconds") -
			 counter_of(before, NULL, "uptime_seconds");

	if (seconds <= 0) /* another daemon has taken over the socket */
		seconds = 1;
	return json_pack(
		"{s:f, s:o, s:o, s:o, s:o}", "seconds", seconds, "total",
		top_row(json_object_get(now, "total"), json_object_get(before, "total"), seconds),
		"reactors", top_reactors(now, before, seconds), "namespaces",
		top_list(now, before, "namespaces", ns_keys, seconds), "hosts",
		top_list(now, before, "hosts", host_keys, seconds));
}

/* ---- text ---- */

#define TOP_COLUMNS                                                                                \
	{"IOPS", "iops", RDCTL_NUMBER}, {"READ-IOPS", "read_iops", RDCTL_NUMBER},                  \
		{"WRITE-IOPS", "write_iops", RDCTL_NUMBER}, {"READ/S", "read_bytes", RDCTL_BYTES}, \
		{"WRITTEN/S", "written_bytes", RDCTL_BYTES}, {"P50", "p50_seconds", RDCTL_TIME},   \
		{"P99", "p99_seconds", RDCTL_TIME}, {"IN-FLIGHT", "in_flight", RDCTL_NUMBER},      \
		{"OLDEST", "oldest_seconds", RDCTL_TIME},                                          \
	{                                                                                          \
		"FAILED/S", "failed", RDCTL_NUMBER                                                 \
	}

static const struct rdctl_column total_columns[] = {TOP_COLUMNS, {NULL, NULL, RDCTL_TEXT}};
static const struct rdctl_column ns_columns[] = {
	TOP_COLUMNS,
	{"NSID", "nsid", RDCTL_NUMBER},
	{"SUBNQN", "nqn", RDCTL_TEXT},
	{NULL, NULL, RDCTL_TEXT},
};
static const struct rdctl_column host_columns[] = {
	TOP_COLUMNS,
	{"HOSTNQN", "host", RDCTL_TEXT},
	{NULL, NULL, RDCTL_TEXT},
};
static const struct rdctl_column reactor_columns[] = {
	{"REACTOR", "reactor", RDCTL_NUMBER},
	{"BUSY%", "busy_percent", RDCTL_NUMBER},
	{"LONGEST-TURN", "longest_turn_seconds", RDCTL_TIME},
	{"IO-QUEUES", "io_queues", RDCTL_NUMBER},
	{"IN-FLIGHT", "in_flight", RDCTL_NUMBER},
	{"WAIT-BUFFER", "waiting_for_buffers", RDCTL_NUMBER},
	{"WAIT-LIMIT", "waiting_for_limits", RDCTL_NUMBER},
	{"ANSWERS", "answered", RDCTL_TEXT},
	{NULL, NULL, RDCTL_TEXT},
};

/* Prints at most @most rows of @list, and the number of the others. */
static void print_part(const json_t *list, size_t most, const struct rdctl_column *columns)
{
	size_t n = json_array_size(list);
	json_t *part = json_array();

	for (size_t i = 0; i < n && i < most; i++)
		json_array_append(part, json_array_get(list, i));
	putchar('\n');
	rdctl_table(part, columns);
	if (n > most)
		printf("and %zu more\n", n - most);
	json_decref(part);
}

/* @lines: height of the screen; 0: no limit. */
static void print_top(const json_t *top, unsigned int lines)
{
	const json_t *reactors = json_object_get(top, "reactors");
	const json_t *hosts = json_object_get(top, "hosts");
	json_t *total = json_pack("[O]", json_object_get(top, "total"));
	size_t most = SIZE_MAX, host_lines, used = 2 + 2 + json_array_size(reactors) + 6;

	rdctl_table(total, total_columns);
	json_decref(total);
	putchar('\n');
	rdctl_table(reactors, reactor_columns);
	if (lines)
		most = lines > used + 2 ? lines - used : 2;
	host_lines = !lines                              ? SIZE_MAX
		     : json_array_size(hosts) < most / 2 ? json_array_size(hosts)
							 : most / 2;
	print_part(json_object_get(top, "namespaces"), lines ? most - host_lines : SIZE_MAX,
		   ns_columns);
	print_part(hosts, host_lines, host_columns);
}

/* ---- the terminal ---- */

static volatile sig_atomic_t top_ended;

static void top_end(int sig)
{
	top_ended = 1;
}

static unsigned int screen_lines(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row ? size.ws_row : 24;
}

/* Waits for the next interval. Returns false when the user quits. */
static bool await_interval(unsigned int seconds, bool keys)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	char key;

	if (poll(&in, keys ? 1 : 0, (int)seconds * 1000) < 0 && errno != EINTR)
		return false;
	if (keys && in.revents && (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q'))
		return false;
	return !top_ended;
}

static int top_live(const struct rdctl *ctl, unsigned int seconds, json_t *before)
{
	struct sigaction end = {.sa_handler = top_end};
	struct termios saved, raw;
	bool keys = tcgetattr(STDIN_FILENO, &saved) == 0;
	int code = RDCTL_OK;

	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	if (keys) {
		raw = saved;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	fputs(SCREEN, stdout);
	while (await_interval(seconds, keys)) {
		json_t *now = top_counters(ctl, &code), *top;

		if (!now)
			break;
		top = top_between(now, before);
		fputs("\033[H\033[2J", stdout);
		print_top(top, screen_lines());
		fflush(stdout);
		json_decref(top);
		json_decref(before);
		before = now;
	}
	fputs(NO_SCREEN, stdout);
	if (keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &saved);
	json_decref(before);
	return code;
}

static int top_once(const struct rdctl *ctl, unsigned int seconds, json_t *before)
{
	json_t *now, *top;
	int code = RDCTL_OK;

	await_interval(seconds, false);
	now = top_counters(ctl, &code);
	if (now) {
		top = top_between(now, before);
		if (ctl->json)
			rdctl_json(top);
		else
			print_top(top, 0);
		json_decref(top);
	}
	json_decref(now);
	json_decref(before);
	return code;
}

int rdctl_run_top(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	uint64_t seconds = 1;
	json_t *before;
	int code = RDCTL_OK;

	if (args->count && rd_parse_u64(args->values[0], 1, 3600, &seconds))
		return rdctl_usage_error("top takes 1 to 3600 seconds, not", args->values[0]);
	before = top_counters(ctl, &code);
	if (!before)
		return code;
	if (ctl->json || !isatty(STDOUT_FILENO))
		return top_once(ctl, (unsigned int)seconds, before);
	return top_live(ctl, (unsigned int)seconds, before);
}
