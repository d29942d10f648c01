/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock of the module rbd, which the cluster may set forward. */
#include "cluster.h"
#include "fiber.h"

int sim_cond_timedwait(struct sim_cond *c, struct sim_mutex *m, const struct timespec *until)
{
	uint64_t end = (uint64_t)until->tv_sec * RD_NSEC_PER_SEC + (uint64_t)until->tv_nsec,
		 aged = process_now()->cluster->aged_ns;

	return sim_cond_wait_until(c, m, end > aged ? end - aged : 0);
}

int sim_clock_gettime(clockid_t clock, struct timespec *out)
{
	uint64_t ns = cluster_time(process_now()->cluster);

	(void)clock;
	*out = (struct timespec){.tv_sec = (time_t)(ns / RD_NSEC_PER_SEC),
				 .tv_nsec = (long)(ns % RD_NSEC_PER_SEC)};
	return 0;
}
