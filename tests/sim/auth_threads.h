/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Included before the files that compute Diffie-Hellman on threads, target/nvmf/auth/auth_work.c
 * and initiator/lib/auth_dh.c, when the simulation links them: the threads become fibers. Types
 * stay as they are, since other files have them in their objects.
 */
#ifndef SIM_AUTH_THREADS_H
#define SIM_AUTH_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "gateways/threads.h"
#include "nvmf/auth_calc.h"

_Static_assert(sizeof(struct sim_mutex) <= sizeof(pthread_mutex_t), "fits in its place");
_Static_assert(sizeof(struct sim_cond) <= sizeof(pthread_cond_t), "fits in its place");

int sim_auth_thread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *arg),
			   void *arg);
int sim_auth_thread_join(pthread_t thread, void **result);
/* As write(2) to an eventfd(2); the loop that waits for it takes a turn. */
ssize_t sim_auth_write(int fd, const void *buf, size_t len);
/* These take their time. */
int sim_auth_dh_create(unsigned int group, EVP_PKEY **out);
int sim_auth_dh_session(EVP_PKEY *own, unsigned int group, unsigned int hash, const uint8_t *peer,
			size_t peer_len, uint8_t out[NVMF_AUTH_HASH_MAX]);
/* No effect: the simulation keeps its name and its priority. */
int sim_auth_setname(pthread_t thread, const char *name);
int sim_auth_setscheduler(pid_t pid, int policy, const struct sched_param *param);
int sim_auth_nice(int by);

#ifdef SIM_REPLACES_THREADS_OF_AUTH
#define pthread_mutex_init(m, attr) sim_mutex_init((struct sim_mutex *)(m), attr)
#define pthread_mutex_destroy(m)    sim_mutex_destroy((struct sim_mutex *)(m))
#define pthread_mutex_lock(m)       sim_mutex_lock((struct sim_mutex *)(m))
#define pthread_mutex_unlock(m)     sim_mutex_unlock((struct sim_mutex *)(m))
#define pthread_cond_init(c, attr)  sim_cond_init((struct sim_cond *)(c), attr)
#define pthread_cond_destroy(c)     sim_cond_destroy((struct sim_cond *)(c))
#define pthread_cond_wait(c, m)     sim_cond_wait((struct sim_cond *)(c), (struct sim_mutex *)(m))
#define pthread_cond_signal(c)      sim_cond_broadcast((struct sim_cond *)(c))
#define pthread_cond_broadcast(c)   sim_cond_broadcast((struct sim_cond *)(c))
#define pthread_create              sim_auth_thread_create
#define pthread_join                sim_auth_thread_join
#define pthread_setname_np          sim_auth_setname
#define sched_setscheduler          sim_auth_setscheduler
#define nice                        sim_auth_nice
#define write                       sim_auth_write
#define nvmf_auth_dh_create         sim_auth_dh_create
#define nvmf_auth_dh_session        sim_auth_dh_session
#endif

#endif /* SIM_AUTH_THREADS_H */
