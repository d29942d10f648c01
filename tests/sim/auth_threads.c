/* SPDX-License-Identifier: BSD-3-Clause */
#include "auth_threads.h"

#include "gateways/fiber.h"

/* Threads that compute get the processor when nobody else needs it. */
#define COMPUTE_MAX (5 * RD_NSEC_PER_MSEC)
#define STARVED_IN  8 /* one of so many computations takes longer, at most: */
#define STARVED_MAX (3 * RD_NSEC_PER_SEC)

int sim_auth_thread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *arg),
			   void *arg)
{
	struct fiber *f = NULL;
	int rc = fiber_start(fn, arg, &f);

	(void)attr;
	*thread = (pthread_t)(uintptr_t)f;
	return -rc;
}

int sim_auth_thread_join(pthread_t thread, void **result)
{
	(void)result;
	fiber_join((struct fiber *)(uintptr_t)thread);
	return 0;
}

ssize_t sim_auth_write(int fd, const void *buf, size_t len)
{
	process_now()->signals++;
	return write(fd, buf, len);
}

static void take_time(void)
{
	struct rd_sim *sim = process_now()->sim;
	bool starved = rd_sim_chance(sim, 1, STARVED_IN);

	fiber_sleep(rd_sim_below(sim, starved ? STARVED_MAX : COMPUTE_MAX));
}

int sim_auth_dh_create(unsigned int group, EVP_PKEY **out)
{
	take_time();
	return nvmf_auth_dh_create(group, out);
}

int sim_auth_dh_session(EVP_PKEY *own, unsigned int group, unsigned int hash, const uint8_t *peer,
			size_t peer_len, uint8_t out[NVMF_AUTH_HASH_MAX])
{
	take_time();
	return nvmf_auth_dh_session(own, group, hash, peer, peer_len, out);
}

int sim_auth_setname(pthread_t thread, const char *name)
{
	(void)thread, (void)name;
	return 0;
}

int sim_auth_setscheduler(pid_t pid, int policy, const struct sched_param *param)
{
	(void)pid, (void)policy, (void)param;
	return 0;
}

int sim_auth_nice(int by)
{
	return by;
}
