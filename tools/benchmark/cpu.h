/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the programs of this folder: clock and CPU affinity. A failure ends the program. */
#ifndef RD_BENCHMARK_CPU_H
#define RD_BENCHMARK_CPU_H

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static inline int parse_cpu(const char *program, const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end || value < 0 || value >= CPU_SETSIZE) {
		fprintf(stderr, "%s: %s: expected a processor's number\n", program, text);
		exit(2);
	}
	return (int)value;
}

/* Binds the calling thread. */
static inline void pin_to_cpu(const char *program, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		fprintf(stderr, "%s: processor %d: %s\n", program, cpu, strerror(errno));
		exit(1);
	}
}

#endif /* RD_BENCHMARK_CPU_H */
