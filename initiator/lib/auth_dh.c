/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Diffie-Hellman of one transaction, on a thread of its own: the largest group takes more than 100
 * ms. The thread reports completion by an eventfd(2) and is always joined: a thread that still runs
 * when the program exits could use libcrypto after its cleanup.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "auth.h"
#include "nvmf/auth_calc.h"
#include "util/thread.h"

#include <openssl/evp.h>

struct rdi_auth_dh {
	struct rd_loop *loop;
	struct rd_io io;
	pthread_t thread;
	int fd;
	rdi_auth_dh_fn fn;
	void *arg;
	uint8_t hash;
	uint8_t group;
	uint8_t peer[NVMF_AUTH_DHV_MAX];
	struct rdi_auth_dh_result result;
};

static void *dh_thread(void *arg)
{
	struct rdi_auth_dh *dh = arg;
	const uint64_t one = 1;
	EVP_PKEY *own;
	int rc;

	rc = nvmf_auth_dh_create(dh->group, &own);
	if (!rc)
		rc = nvmf_auth_dh_public(own, dh->group, dh->result.value);
	if (!rc)
		rc = nvmf_auth_dh_session(own, dh->group, dh->hash, dh->peer,
					  (size_t)nvmf_auth_group_len(dh->group),
					  dh->result.session);
	EVP_PKEY_free(own);
	dh->result.rc = rc;
	/* write(2) cannot block: the counter is 0. */
	while (write(dh->fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	return NULL;
}

void rdi_auth_dh_cancel(struct rdi_auth_dh **dh)
{
	struct rdi_auth_dh *d = *dh;

	if (!d)
		return;
	*dh = NULL;
	pthread_join(d->thread, NULL);
	rd_io_del(d->loop, &d->io);
	close(d->fd);
	explicit_bzero(d, sizeof(*d));
	free(d);
}

static void dh_computed(struct rd_io *io, uint32_t events)
{
	struct rdi_auth_dh *dh = rd_container_of(io, struct rdi_auth_dh, io);
	struct rdi_auth_dh_result result = dh->result;
	rdi_auth_dh_fn fn = dh->fn;
	void *arg = dh->arg;

	(void)events;
	fn(arg, &result); /* @fn may cancel @dh */
	explicit_bzero(&result, sizeof(result));
}

int rdi_auth_dh_start(struct rd_loop *loop, const struct nvmf_auth_challenge *peer,
		      rdi_auth_dh_fn fn, void *arg, struct rdi_auth_dh **out)
{
	struct rdi_auth_dh *dh;
	int rc;

	*out = NULL;
	dh = calloc(1, sizeof(*dh));
	if (!dh)
		return -ENOMEM;
	dh->loop = loop;
	dh->fn = fn;
	dh->arg = arg;
	dh->hash = peer->hash;
	dh->group = peer->group;
	memcpy(dh->peer, peer->dhv.value, peer->dhv.len);
	dh->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (dh->fd < 0) {
		rc = -errno;
		goto err_free;
	}
	rc = rd_io_add(loop, &dh->io, dh->fd, EPOLLIN, dh_computed);
	if (rc)
		goto err_close;
	rc = rd_thread_start(&dh->thread, dh_thread, dh);
	if (rc)
		goto err_io;
	*out = dh;
	return 0;

err_io:
	rd_io_del(loop, &dh->io);
err_close:
	close(dh->fd);
err_free:
	free(dh);
	return rc;
}
