/* SPDX-License-Identifier: BSD-3-Clause */
#include "process_metrics.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Fields of /proc/self/stat, counted from the state that follows the program's name. */
#define STAT_UTIME   11
#define STAT_STIME   12
#define STAT_THREADS 17
#define STAT_START   19
#define STAT_VSIZE   20
#define STAT_RSS     21
#define STAT_FIELDS  22

/* Returns whether all fields were read. The program's name may contain spaces and parentheses. */
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

/* The time of the boot in Unix time; 0: unknown. */
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

/* The number of open file descriptors; negative: unknown. */
static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = -1; /* do not count the descriptor of the directory */

	if (!dir)
		return -1;
	for (struct dirent *d = readdir(dir); d; d = readdir(dir))
		n += d->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void read_fields(struct rdt_stats_process *process)
{
	double hz = (double)sysconf(_SC_CLK_TCK), boot = booted_at();
	double fields[STAT_FIELDS];

	if (!read_stat(fields))
		return;
	process->cpu_ns = (uint64_t)((fields[STAT_UTIME] + fields[STAT_STIME]) / hz * 1e9);
	process->virtual_bytes = (uint64_t)fields[STAT_VSIZE];
	process->resident_bytes = (uint64_t)fields[STAT_RSS] * (uint64_t)sysconf(_SC_PAGESIZE);
	process->threads = (uint64_t)fields[STAT_THREADS];
	if (boot > 0)
		process->started_ns = (uint64_t)((boot + fields[STAT_START] / hz) * 1e9);
}

void rdt_process_read(struct rdt_stats_process *process)
{
	int files = open_files();
	struct rlimit limit;

	memset(process, 0xff, sizeof(*process)); /* RDT_FIGURE_NONE */
	read_fields(process);
	if (files >= 0)
		process->open_fds = (uint64_t)files;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		process->max_fds = limit.rlim_cur;
}
