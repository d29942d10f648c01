/* SPDX-License-Identifier: BSD-3-Clause */
#include "crash.h"

#include <stdlib.h>
#include <time.h>

uint64_t t_crash_seed(void)
{
	static uint64_t seed;
	const char *text = getenv("T_SEED");

	if (!seed) {
		seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
		printf("# T_SEED=%llu, and the seeds after it\n", (unsigned long long)seed);
	}
	return seed;
}

int main(int argc, char **argv)
{
	const struct t_suite suites[] = {
		{.name = "disk", .cases = t_crash_disk_cases},
		{.name = "state files", .cases = t_crash_state_cases},
		{.name = NULL},
	};

	return t_run(argc, argv, suites);
}
