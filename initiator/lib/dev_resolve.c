/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host names of paths. getaddrinfo(3) can block for many seconds, so a detached thread calls it;
 * numeric addresses need no thread.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "dev.h"

/* Reference counted: the path and the thread each have a reference; the last one frees it. */
struct rdi_resolver {
	pthread_mutex_t lock;
	unsigned int users;
	struct rd_loop *loop; /* NULL: the path was cancelled; guarded by the lock */
	rdi_resolved_fn fn;
	void *arg;
	struct rd_msg msg;
	char *host;
	char *port;
	int rc;
	struct rdi_addrs addrs;
	char why[RDI_TEXT / 2];
};

static void resolver_unref(struct rdi_resolver *r)
{
	bool last;

	pthread_mutex_lock(&r->lock);
	last = --r->users == 0;
	pthread_mutex_unlock(&r->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&r->lock);
	free(r->host);
	free(r->port);
	free(r);
}

static void resolver_done(struct rd_msg *msg)
{
	struct rdi_resolver *r = rd_container_of(msg, struct rdi_resolver, msg);

	/* If the path cancels while the message is queued, the message's reference frees the
	 * resolver. */
	if (r->loop)
		r->fn(r->arg, r->rc, &r->addrs, r->why);
	resolver_unref(r);
}

static void *resolver_main(void *arg)
{
	struct rdi_resolver *r = arg;

	r->rc = rdi_resolve(r->host, r->port, &r->addrs, r->why, sizeof(r->why));
	pthread_mutex_lock(&r->lock);
	if (r->loop) {
		r->users++; /* the reference of the message */
		rd_loop_post(r->loop, &r->msg);
	}
	pthread_mutex_unlock(&r->lock);
	resolver_unref(r);
	return NULL;
}

/* All signals are blocked in the thread, so that it never runs a signal handler of the
 * application. */
static int resolver_spawn(struct rdi_resolver *r)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int rc;

	rc = pthread_attr_init(&attr);
	if (rc)
		return -rc;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, &attr, resolver_main, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -rc;
}

int rdi_resolver_start(struct rd_loop *loop, const char *host, const char *port, rdi_resolved_fn fn,
		       void *arg, struct rdi_resolver **out)
{
	struct sockaddr_storage numeric;
	struct rdi_resolver *r;
	int rc = -ENOMEM;

	*out = NULL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	pthread_mutex_init(&r->lock, NULL);
	r->users = 2;
	r->loop = loop;
	r->fn = fn;
	r->arg = arg;
	r->msg.fn = resolver_done;
	r->host = strdup(host);
	r->port = strdup(port);
	if (!r->host || !r->port)
		goto err_free;
	*out = r;
	if (rd_addr_parse(host, 1, &numeric) == 0) {
		resolver_main(r);
		return 0;
	}
	rc = resolver_spawn(r);
	if (rc)
		goto err_free;
	return 0;

err_free:
	*out = NULL;
	r->users = 1;
	resolver_unref(r);
	return rc;
}

void rdi_resolver_cancel(struct rdi_resolver **resolver)
{
	struct rdi_resolver *r = *resolver;

	if (!r)
		return;
	*resolver = NULL;
	pthread_mutex_lock(&r->lock);
	r->loop = NULL;
	pthread_mutex_unlock(&r->lock);
	resolver_unref(r);
}
