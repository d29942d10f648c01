/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Included before each file of the module rbd that the simulation links: its threads become
 * fibers, its clock becomes that of the simulation.
 */
#ifndef SIM_THREADS_H
#define SIM_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <time.h>

struct fiber;
TAILQ_HEAD(fiber_list, fiber);

struct sim_mutex {
	bool locked;
	struct fiber_list waiting;
};

struct sim_cond {
	struct fiber_list waiting;
};

int sim_mutex_init(struct sim_mutex *m, const void *attr);
int sim_mutex_destroy(struct sim_mutex *m);
int sim_mutex_lock(struct sim_mutex *m);
int sim_mutex_trylock(struct sim_mutex *m);
int sim_mutex_unlock(struct sim_mutex *m);
int sim_cond_init(struct sim_cond *c, const void *attr);
int sim_cond_destroy(struct sim_cond *c);
int sim_cond_wait(struct sim_cond *c, struct sim_mutex *m);
/* @until: of the simulation, in ns; UINT64_MAX: never. */
int sim_cond_wait_until(struct sim_cond *c, struct sim_mutex *m, uint64_t until);
int sim_cond_timedwait(struct sim_cond *c, struct sim_mutex *m, const struct timespec *until);
int sim_cond_broadcast(struct sim_cond *c);
int sim_thread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *arg),
		      void *arg);
int sim_clock_gettime(clockid_t clock, struct timespec *out);

#ifdef SIM_REPLACES_THREADS
#define pthread_mutex_t        struct sim_mutex
#define pthread_mutex_init     sim_mutex_init
#define pthread_mutex_destroy  sim_mutex_destroy
#define pthread_mutex_lock     sim_mutex_lock
#define pthread_mutex_trylock  sim_mutex_trylock
#define pthread_mutex_unlock   sim_mutex_unlock
#define pthread_cond_t         struct sim_cond
#define pthread_cond_init      sim_cond_init
#define pthread_cond_destroy   sim_cond_destroy
#define pthread_cond_wait      sim_cond_wait
#define pthread_cond_timedwait sim_cond_timedwait
#define pthread_cond_broadcast sim_cond_broadcast
#define pthread_create         sim_thread_create
#define clock_gettime          sim_clock_gettime
#endif

#endif /* SIM_THREADS_H */
