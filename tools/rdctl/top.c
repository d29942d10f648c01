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
#include <time.h>
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

/* What the rows can be sorted by. */
struct top_order {
	char key; /* on the terminal */
	const char *what;
	const char *fields[2]; /* numbers: the largest first; texts: in their order */
};

static const struct top_order top_orders[] = {
	{'i', "IOPS", {"iops", "oldest_seconds"}},
	{'r', "bytes read", {"read_bytes", "iops"}},
	{'w', "bytes written", {"written_bytes", "iops"}},
	{'l', "P99 latency", {"p99_seconds", "iops"}},
	{'f', "commands in flight", {"in_flight", "iops"}},
	{'o', "oldest command", {"oldest_seconds", "iops"}},
	{'e', "failures", {"failed", "iops"}},
	{'n', "name", {"nqn", "host"}},
};

#define TOP_ORDERS (sizeof(top_orders) / sizeof(top_orders[0]))

static int compare_rows(const void *a, const void *b, void *arg)
{
	const struct top_order *order = arg;

	for (int i = 0; i < 2; i++) {
		const json_t *x = json_object_get(*(json_t *const *)a, order->fields[i]);
		const json_t *y = json_object_get(*(json_t *const *)b, order->fields[i]);

		if (json_is_string(x) && json_is_string(y)) {
			int names = strcmp(json_string_value(x), json_string_value(y));

			if (names)
				return names;
		} else if (json_number_value(x) != json_number_value(y)) {
			return json_number_value(x) < json_number_value(y) ? 1 : -1;
		}
	}
	/* Rows without I/O keep their places. */
	return json_number_value(json_object_get(*(json_t *const *)a, "nsid")) <
			       json_number_value(json_object_get(*(json_t *const *)b, "nsid"))
		       ? -1
		       : 1;
}

/* Sorts @rows in place. Out of memory: they stay as they are. */
static void sort_rows(json_t *rows, const struct top_order *order)
{
	size_t n = json_array_size(rows);
	json_t **all = calloc(n + 1, sizeof(json_t *));

	if (!all)
		return;
	for (size_t i = 0; i < n; i++)
		all[i] = json_incref(json_array_get(rows, i));
	qsort_r(all, n, sizeof(json_t *), compare_rows, (void *)(uintptr_t)order);
	for (size_t i = 0; i < n; i++)
		json_array_set_new(rows, i, all[i]);
	free(all);
}

static void sort_top(json_t *top, const struct top_order *order)
{
	sort_rows(json_object_get(top, "namespaces"), order);
	sort_rows(json_object_get(top, "hosts"), order);
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
	return rows;
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
		json_object_set_new(
			row, "spin_percent",
			rounded(100 * rate_of(entry, old, NULL, "spin_seconds", seconds)));
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

/* The most important first: the last ones are left out where the terminal is narrow. */
#define TOP_COLUMNS                                                                              \
	{"IOPS", "iops", RDCTL_NUMBER}, {"READ/S", "read_bytes", RDCTL_BYTES},                   \
		{"WRITTEN/S", "written_bytes", RDCTL_BYTES}, {"P99", "p99_seconds", RDCTL_TIME}, \
		{"OLDEST", "oldest_seconds", RDCTL_TIME}, {"FAILED/S", "failed", RDCTL_NUMBER},  \
		{"IN-FLIGHT", "in_flight", RDCTL_NUMBER}, {"P50", "p50_seconds", RDCTL_TIME},    \
		{"READ-IOPS", "read_iops", RDCTL_NUMBER},                                        \
	{                                                                                        \
		"WRITE-IOPS", "write_iops", RDCTL_NUMBER                                         \
	}

static const struct rdctl_column total_columns[] = {TOP_COLUMNS, {NULL, NULL, RDCTL_TEXT}};
static const struct rdctl_column ns_columns[] = {
	{"SUBNQN", "nqn", RDCTL_TEXT, .identity = true},
	{"NSID", "nsid", RDCTL_NUMBER, .identity = true},
	TOP_COLUMNS,
	{NULL, NULL, RDCTL_TEXT},
};
static const struct rdctl_column host_columns[] = {
	{"HOSTNQN", "host", RDCTL_TEXT, .identity = true},
	TOP_COLUMNS,
	{NULL, NULL, RDCTL_TEXT},
};
static const struct rdctl_column reactor_columns[] = {
	{"REACTOR", "reactor", RDCTL_NUMBER, .identity = true},
	{"BUSY%", "busy_percent", RDCTL_NUMBER},
	{"LONGEST-TURN", "longest_turn_seconds", RDCTL_TIME},
	{"IO-QUEUES", "io_queues", RDCTL_NUMBER},
	{"IN-FLIGHT", "in_flight", RDCTL_NUMBER},
	{"WAIT-BUFFER", "waiting_for_buffers", RDCTL_NUMBER},
	{"WAIT-LIMIT", "waiting_for_limits", RDCTL_NUMBER},
	{"ANSWERS", "answered", RDCTL_TEXT},
	{"SPIN%", "spin_percent", RDCTL_NUMBER},
	{NULL, NULL, RDCTL_TEXT},
};

struct top_screen { /* 0: no limit */
	unsigned int lines;
	unsigned int columns;
};

/* Prints at most @most rows of @list, and the number of the others. */
static void print_part(const json_t *list, size_t most, const struct rdctl_column *columns,
		       const struct top_screen *screen)
{
	size_t n = json_array_size(list);
	json_t *part = json_array();

	for (size_t i = 0; i < n && i < most; i++)
		json_array_append(part, json_array_get(list, i));
	putchar('\n');
	rdctl_table_within(part, columns, screen->columns);
	if (n > most)
		printf("and %zu more\n", n - most);
	json_decref(part);
}

static void print_top(const json_t *top, const struct top_screen *screen)
{
	const json_t *reactors = json_object_get(top, "reactors");
	const json_t *hosts = json_object_get(top, "hosts");
	json_t *total = json_pack("[O]", json_object_get(top, "total"));
	/* the header, the total, the reactors, and around the two lists */
	size_t most = SIZE_MAX, host_lines, used = 1 + 2 + 2 + json_array_size(reactors) + 6;
	unsigned int lines = screen->lines;

	rdctl_table_within(total, total_columns, screen->columns);
	json_decref(total);
	putchar('\n');
	rdctl_table_within(reactors, reactor_columns, screen->columns);
	if (lines)
		most = lines > used + 2 ? lines - used : 2;
	host_lines = !lines                              ? SIZE_MAX
		     : json_array_size(hosts) < most / 2 ? json_array_size(hosts)
							 : most / 2;
	print_part(json_object_get(top, "namespaces"), lines ? most - host_lines : SIZE_MAX,
		   ns_columns, screen);
	print_part(hosts, host_lines, host_columns, screen);
}

/* ---- the terminal ---- */

static volatile sig_atomic_t top_ended;

static void top_end(int sig)
{
	top_ended = 1;
}

static struct top_screen screen_size(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_row || !size.ws_col)
		return (struct top_screen){24, 80};
	return (struct top_screen){size.ws_row, size.ws_col};
}

struct top_view {
	const struct rdctl *ctl;
	const struct top_order *order;
	bool help;
	json_t *top; /* what is shown; NULL: nothing yet */
};

static void print_help(void)
{
	puts("\nq     quit");
	puts("h, ?  this help, and back");
	for (size_t i = 0; i < TOP_ORDERS; i++)
		printf("%c     sort namespaces and hosts by %s\n", top_orders[i].key,
		       top_orders[i].what);
	puts("\nColumns that do not fit are left out: \"rdctl top | cat\" prints all of them "
	     "once.");
}

/* Cut at the end of the line. */
static void print_header(const struct top_view *v, unsigned int columns)
{
	char line[512], clock[16];
	time_t now = time(NULL);
	struct tm tm;

	localtime_r(&now, &tm);
	strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	snprintf(line, sizeof(line), "%s  by %s  (h: help, q: quit)  %s", clock, v->order->what,
		 v->ctl->socket);
	printf("%.*s\n", (int)columns, line);
}

static void draw_top(const struct top_view *v)
{
	struct top_screen screen = screen_size();

	fputs("\033[H\033[2J", stdout);
	print_header(v, screen.columns);
	if (v->help)
		print_help();
	else if (v->top)
		print_top(v->top, &screen);
	fflush(stdout);
}

/* Returns false when the user quits. */
static bool press_key(struct top_view *v, char key)
{
	if (key == 'q' || key == 'Q')
		return false;
	if (key == 'h' || key == '?')
		v->help = !v->help;
	for (size_t i = 0; i < TOP_ORDERS; i++)
		if (key == top_orders[i].key)
			v->order = &top_orders[i];
	if (v->top)
		sort_top(v->top, v->order);
	draw_top(v);
	return true;
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Waits for the next interval, and carries out keys meanwhile (@v NULL: there is no keyboard).
 * Returns false when the user quits. */
static bool await_interval(unsigned int seconds, struct top_view *v)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	uint64_t end = now_ms() + seconds * UINT64_C(1000), now;
	char key;

	while (!top_ended && (now = now_ms()) < end) {
		in.revents = 0;
		if (poll(&in, v ? 1 : 0, (int)(end - now)) < 0 && errno != EINTR)
			return false;
		if (in.revents && (read(STDIN_FILENO, &key, 1) != 1 || !press_key(v, key)))
			return false;
	}
	return !top_ended;
}

static void show_rates(struct top_view *v, json_t *now, const json_t *before)
{
	json_decref(v->top);
	v->top = top_between(now, before);
	sort_top(v->top, v->order);
	draw_top(v);
}

static int top_live(const struct rdctl *ctl, unsigned int seconds, json_t *before)
{
	struct sigaction end = {.sa_handler = top_end};
	struct top_view v = {.ctl = ctl, .order = &top_orders[0]};
	struct termios saved, raw;
	bool keys = tcgetattr(STDIN_FILENO, &saved) == 0;
	int code = RDCTL_OK;
	json_t *now;

	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	if (keys) {
		raw = saved;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	fputs(SCREEN, stdout);
	draw_top(&v);
	while (await_interval(seconds, keys ? &v : NULL)) {
		now = top_counters(ctl, &code);
		if (!now)
			break;
		show_rates(&v, now, before);
		json_decref(before);
		before = now;
	}
	fputs(NO_SCREEN, stdout);
	if (keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &saved);
	json_decref(v.top);
	json_decref(before);
	return code;
}

static int top_once(const struct rdctl *ctl, unsigned int seconds, json_t *before)
{
	json_t *now, *top;
	int code = RDCTL_OK;

	await_interval(seconds, NULL);
	now = top_counters(ctl, &code);
	if (now) {
		top = top_between(now, before);
		sort_top(top, &top_orders[0]);
		if (ctl->json)
			rdctl_json(top);
		else
			print_top(top, &(struct top_screen){0});
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
