/* SPDX-License-Identifier: BSD-3-Clause */
#include "process_metrics.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Fields of /proc/self/stat, counted from the state, which follows the name of the program. */
#define STAT_UTIME   11
#define STAT_STIME   12
#define STAT_THREADS 17
#define STAT_START   19
#define STAT_VSIZE   20
#define STAT_RSS     21
#define STAT_FIELDS  22

static void write_process(FILE *f, enum rdt_metrics_format format, const char *name, bool counter,
			  const char *help, double value)
{
	/* OpenMetrics names the family of a counter without the suffix of its sample. */
	const char *total = counter ? "_total" : "";
	const char *family = format == RDT_METRICS_PROMETHEUS ? total : "";

	fprintf(f, "# HELP process_%s%s %s\n# TYPE process_%s%s %s\nprocess_%s%s %.15g\n", name,
		family, help, name, family, counter ? "counter" : "gauge", name, total, value);
}

/* Returns whether all were there. The name of the program may contain spaces and brackets. */
static bool read_stat(double fields[STAT_FIELDS])
{
	char text[1024], *at, *next;
	FILE *f = fopen("/proc/self/stat", "re");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f)
		fclose(f);
	text[n] = '\0';
	at = strrchr(text, ')');
	at = at ? strtok_r(at + 1, " ", &next) : NULL;
	for (unsigned int i = 0; i < STAT_FIELDS; i++, at = strtok_r(NULL, " ", &next)) {
		if (!at)
			return false;
		fields[i] = strtod(at, NULL);
	}
	return true;
}

/* In Unix time; 0: unknown. */
static double booted_at(void)
{
	unsigned long long at = 0;
	char line[256];
	FILE *f = fopen("/proc/stat", "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "btime %llu", &at) == 1)
			break;
	if (f)
		fclose(f);
	return (double)at;
}

/* Negative: unknown. */
static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = -1; /* the folder is one */

	if (!dir)
		return -1;
	for (struct dirent *d = readdir(dir); d; d = readdir(dir))
		n += d->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void write_stat(FILE *f, enum rdt_metrics_format format)
{
	double hz = (double)sysconf(_SC_CLK_TCK), page = (double)sysconf(_SC_PAGESIZE);
	double fields[STAT_FIELDS], boot = booted_at();

	if (!read_stat(fields))
		return;
	write_process(f, format, "cpu_seconds", true,
		      "Total user and system CPU time spent in seconds.",
		      (fields[STAT_UTIME] + fields[STAT_STIME]) / hz);
	write_process(f, format, "virtual_memory_bytes", false, "Virtual memory size in bytes.",
		      fields[STAT_VSIZE]);
	write_process(f, format, "resident_memory_bytes", false, "Resident memory size in bytes.",
		      fields[STAT_RSS] * page);
	write_process(f, format, "threads", false, "Number of OS threads in the process.",
		      fields[STAT_THREADS]);
	if (boot > 0)
		write_process(f, format, "start_time_seconds", false,
			      "Start time of the process since unix epoch in seconds.",
			      boot + fields[STAT_START] / hz);
}

void rdt_process_metrics_write(FILE *f, enum rdt_metrics_format format)
{
	int files = open_files();
	struct rlimit limit;

	write_stat(f, format);
	if (files >= 0)
		write_process(f, format, "open_fds", false, "Number of open file descriptors.",
			      files);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		write_process(f, format, "max_fds", false,
			      "Maximum number of open file descriptors.",
			      limit.rlim_cur == RLIM_INFINITY ? -1 : (double)limit.rlim_cur);
}
