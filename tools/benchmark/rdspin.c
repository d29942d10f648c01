/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdspin CPU: busy-waits on the processor and measures for how long interrupts, other threads or a
 * hypervisor took it away. Prints "ready"; counts from SIGUSR1 (or the start) to SIGTERM, then
 * prints the result as JSON. A measurement, not a test.
 */
#include <signal.h>

#include "cpu.h"

/* Shorter intervals between two clock reads are the cost of reading the clock. */
#define GAP_NS UINT64_C(5000)

struct gaps {
	uint64_t start, count, sum, longest;
};

static volatile sig_atomic_t begin, end;

static void on_signal(int number)
{
	if (number == SIGUSR1)
		begin = 1;
	else
		end = 1;
}

static void add(struct gaps *g, uint64_t ns)
{
	if (ns < GAP_NS)
		return;
	g->count++;
	g->sum += ns;
	if (ns > g->longest)
		g->longest = ns;
}

/* Returns the time at which counting ended. */
static uint64_t spin(struct gaps *g)
{
	uint64_t last = clock_ns(), now;

	g->start = last;
	while (!end) {
		now = clock_ns();
		/* The signal arrived after the last look: on a busy machine that may be the whole
		 * measurement. */
		if (begin) {
			begin = 0;
			*g = (struct gaps){.start = last};
		}
		add(g, now - last);
		last = now;
	}
	return last;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct gaps gaps = {0};
	uint64_t ended;

	if (argc != 2) {
		fputs("Usage: rdspin CPU\n", stderr);
		return 2;
	}
	pin_to_cpu("rdspin", parse_cpu("rdspin", argv[1]));
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	puts("ready");
	fflush(stdout);
	ended = spin(&gaps);
	printf("{\"seconds\": %.6f, \"gaps\": %llu, \"gaps_s\": %.6f, \"longest_us\": %.1f}\n",
	       (double)(ended - gaps.start) / 1e9, (unsigned long long)gaps.count,
	       (double)gaps.sum / 1e9, (double)gaps.longest / 1e3);
	return 0;
}
