/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RD_THREAD_H
#define RD_THREAD_H

#include <pthread.h>
#include <signal.h>

/* Starts a thread that blocks all signals, so that it never runs a signal handler of the program.
 * Returns 0 or -errno. */
static inline int rd_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

#endif /* RD_THREAD_H */
