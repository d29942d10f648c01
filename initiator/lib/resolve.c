/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host names to addresses. getaddrinfo(3) can block for many seconds, so for paths of devices a
 * detached thread calls it; numeric addresses need no thread.
 */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "dev.h"
#include "util/parse.h"
#include "util/thread.h"

int rdi_resolve(const char *host, const char *port, struct rdi_addrs *out, char *why,
		size_t why_len)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *res, *ai;
	uint64_t number;
	int rc;

	out->n = 0;
	if (rd_parse_u64(port, 1, 65535, &number)) {
		snprintf(why, why_len, "\"%s\" is not a port number", port);
		return -EINVAL;
	}
	if (rd_addr_parse(host, (uint16_t)number, &out->ss[0]) == 0) {
		out->n = 1;
		return 0;
	}
	rc = getaddrinfo(host, NULL, &hints, &res);
	if (rc) {
		snprintf(why, why_len, "%s: %s", host,
			 rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
		return -EADDRNOTAVAIL;
	}
	for (ai = res; ai && out->n < RDI_ADDRS_MAX; ai = ai->ai_next) {
		if (ai->ai_family != AF_INET && ai->ai_family != AF_INET6)
			continue;
		memset(&out->ss[out->n], 0, sizeof(out->ss[0]));
		memcpy(&out->ss[out->n], ai->ai_addr, ai->ai_addrlen);
		rd_addr_set_port((struct sockaddr *)&out->ss[out->n], (uint16_t)number);
		out->n++;
	}
	freeaddrinfo(res);
	if (out->n == 0) {
		snprintf(why, why_len, "%s: no IPv4 or IPv6 address", host);
		return -EADDRNOTAVAIL;
	}
	return 0;
}

unsigned int rdi_addrs_first_at(struct rdi_addrs *addrs, uint16_t port)
{
	unsigned int i, n = addrs->n;

	if (n > RDI_ADDRS_MAX / 2)
		n = RDI_ADDRS_MAX / 2;
	memmove(&addrs->ss[n], &addrs->ss[0], n * sizeof(addrs->ss[0]));
	for (i = 0; i < n; i++)
		rd_addr_set_port((struct sockaddr *)&addrs->ss[i], port);
	addrs->n = 2 * n;
	return n;
}

/* ---- for paths ---- */

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

int rdi_resolver_start(struct rd_loop *loop, const char *host, const char *port, rdi_resolved_fn fn,
		       void *arg, struct rdi_resolver **out)
{
	struct sockaddr_storage numeric;
	struct rdi_resolver *r;
	pthread_t thread;
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
	rc = rd_thread_start(&thread, resolver_main, r);
	if (rc)
		goto err_free;
	pthread_detach(thread);
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
