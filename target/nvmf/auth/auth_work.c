/* SPDX-License-Identifier: BSD-3-Clause */
#include "auth_work.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "nvmf/auth_calc.h"
#include "auth.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/peers.h"
#include "target/nvmf/qpair.h"

/* I/O has priority. The first thread computes only on an idle processor, so that no other thread
 * waits for it. The second thread gets a small share of a processor even if the machine is always
 * busy, so that hosts can authenticate there too. */
static void lower_priority(bool idle)
{
	const struct sched_param none = {0};

	sched_setscheduler(0, idle ? SCHED_IDLE : SCHED_BATCH, &none); /* applies to this thread */
	if (!idle && nice(19) < 0)
		errno = 0; /* the thread keeps the priority of the others */
}

/* Returns a reference to the controller's key pair for @group, or NULL. pool->lock is held. */
static EVP_PKEY *existing_pair(const struct rdt_auth_pair *p, uint8_t group)
{
	if (!p->pair || p->group != group)
		return NULL;
	EVP_PKEY_up_ref(p->pair);
	return p->pair;
}

static int take_pair(struct rdt_auth_pool *pool, struct rdt_ctrl *ctrl, struct rdt_auth *a)
{
	struct rdt_auth_pair *p = &ctrl->auth_pair;
	uint8_t group = a->sent.group;
	EVP_PKEY *made, *old = NULL;
	int rc;

	pthread_mutex_lock(&pool->lock);
	a->pair = existing_pair(p, group);
	pthread_mutex_unlock(&pool->lock);
	if (a->pair)
		return 0;
	rc = nvmf_auth_dh_create(group, &made);
	if (rc)
		return rc;
	pthread_mutex_lock(&pool->lock);
	a->pair = existing_pair(p, group); /* another thread may have been faster */
	if (!a->pair) {
		EVP_PKEY_up_ref(made);
		a->pair = made;
		old = p->pair;
		*p = (struct rdt_auth_pair){made, group};
		made = NULL;
	}
	pthread_mutex_unlock(&pool->lock);
	EVP_PKEY_free(old);
	EVP_PKEY_free(made);
	return 0;
}

static int run_auth_job(struct rdt_auth_pool *pool, struct rdt_qpair *qp)
{
	struct rdt_auth *a = qp->auth;
	int rc;

	if (a->state == RDT_AUTH_SESSION)
		return nvmf_auth_dh_session(a->pair, a->sent.group, a->sent.hash, a->peer_dhv,
					    a->reply.dhv.len, a->session);
	EVP_PKEY_free(a->pair);
	a->pair = NULL;
	rc = take_pair(pool, qp->ctrl, a);
	return rc ? rc : nvmf_auth_dh_public(a->pair, a->sent.group, a->dhv);
}

/* pool->lock is held. */
static void unqueue_job(struct rdt_auth_pool *pool, struct rdt_auth_job *job)
{
	TAILQ_REMOVE(&pool->lanes[job->lane], job, link);
	job->waiting = false;
	pool->waiting--;
	pool->lengths[job->lane]--;
}

/* Takes the first job of the next lane that has one. pool->lock is held, and a job waits. */
static struct rdt_auth_job *take_job(struct rdt_auth_pool *pool)
{
	struct rdt_auth_job *job;

	do {
		job = TAILQ_FIRST(&pool->lanes[pool->next_lane]);
		pool->next_lane = (pool->next_lane + 1) % RDT_AUTH_LANES;
	} while (!job);
	unqueue_job(pool, job);
	return job;
}

/* Jobs are queued by address, so that hundreds from one address do not delay a single one from
 * another. */
static uint8_t lane_of(const struct rdt_qpair *qp)
{
	uint8_t address[64];
	size_t len = rdt_peer_address(qp, address, sizeof(address));

	return (uint8_t)(rdt_peer_hash(qp->reactor->target, address, len) % RDT_AUTH_LANES);
}

static void *auth_thread(void *arg)
{
	struct rdt_auth_pool *pool = arg;
	struct rdt_auth_job *job;

	pthread_setname_np(pthread_self(), "auth");
	pthread_mutex_lock(&pool->lock);
	lower_priority(pool->threads_lowered++ == 0);
	for (;;) {
		while (!pool->stop && !pool->waiting)
			pthread_cond_wait(&pool->more, &pool->lock);
		if (pool->stop)
			break;
		job = take_job(pool);
		pthread_mutex_unlock(&pool->lock);
		job->err = run_auth_job(pool, job->qp);
		rd_loop_post(job->qp->reactor->loop, &job->msg);
		pthread_mutex_lock(&pool->lock);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* pool->lock is held. */
static void start_auth_threads(struct rdt_auth_pool *pool)
{
	while (pool->threads_count < RDT_AUTH_THREADS) {
		pthread_t *thread = &pool->threads[pool->threads_count];

		if (pthread_create(thread, NULL, auth_thread, pool))
			return;
		pool->threads_count++;
	}
}

int rdt_auth_work(struct rdt_auth_pool *pool, struct rdt_auth_job *job)
{
	int err = 0;

	job->lane = lane_of(job->qp);
	pthread_mutex_lock(&pool->lock);
	start_auth_threads(pool);
	if (!pool->threads_count) {
		err = -EAGAIN;
	} else if (pool->waiting >= RDT_AUTH_JOBS && pool->lengths[job->lane] >= RDT_AUTH_LANE) {
		err = -EBUSY;
	} else {
		TAILQ_INSERT_TAIL(&pool->lanes[job->lane], job, link);
		job->waiting = true;
		pool->waiting++;
		pool->lengths[job->lane]++;
		pthread_cond_signal(&pool->more);
	}
	pthread_mutex_unlock(&pool->lock);
	return err;
}

void rdt_auth_work_cancel(struct rdt_auth_pool *pool, struct rdt_auth_job *job)
{
	bool found;

	pthread_mutex_lock(&pool->lock);
	found = job->waiting;
	if (found)
		unqueue_job(pool, job);
	pthread_mutex_unlock(&pool->lock);
	if (!found)
		return;
	job->err = -ECANCELED;
	rd_loop_post(job->qp->reactor->loop, &job->msg);
}

int rdt_auth_pool_new(struct rdt_auth_pool **out)
{
	struct rdt_auth_pool *pool = calloc(1, sizeof(*pool));
	int err;

	*out = NULL;
	if (!pool)
		return -ENOMEM;
	err = rdt_guesses_init(&pool->guesses);
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->more, NULL);
	for (unsigned int i = 0; i < RDT_AUTH_LANES; i++)
		TAILQ_INIT(&pool->lanes[i]);
	if (err)
		rdt_auth_pool_free(&pool);
	*out = pool;
	return err;
}

void rdt_auth_pool_free(struct rdt_auth_pool **out)
{
	struct rdt_auth_pool *pool = *out;

	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->more);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned int i = 0; i < pool->threads_count; i++)
		pthread_join(pool->threads[i], NULL);
	pthread_cond_destroy(&pool->more);
	pthread_mutex_destroy(&pool->lock);
	rdt_guesses_fini(&pool->guesses);
	free(pool);
	*out = NULL;
}
