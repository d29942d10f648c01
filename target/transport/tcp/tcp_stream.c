/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets with TLS, after the handshake (tcp_tls.c). */
#include "tcp.h"

#include <errno.h>
#include <string.h>

ssize_t rdt_tcp_readv_tls(struct rdt_tcp_conn *c, const struct iovec *iov, int count)
{
	ssize_t n = nvmf_tls_readv(c->tls, iov, count);

	if (n >= 0)
		return n;
	errno = (int)-n;
	return -1;
}

ssize_t rdt_tcp_sendv_tls(struct rdt_tcp_conn *c, const struct iovec *iov, int count)
{
	ssize_t n = nvmf_tls_writev(c->tls, iov, count);

	if (n >= 0)
		return n;
	errno = (int)-n;
	return -1;
}

bool rdt_tcp_send_short(struct rdt_tcp_conn *c, const void *data, size_t len)
{
	struct iovec iov = {(void *)(uintptr_t)data, len};
	bool all = rdt_tcp_sendv(c, &iov, 1) == (ssize_t)len;

	if (rdt_tcp_unsent(c)) {
		c->blocked = true;
		rdt_tcp_watch(c);
	}
	return all;
}

void rdt_tcp_read_again_tls(struct rdt_tcp_conn *c)
{
	if (c->state != RDT_TCP_CLOSED && !c->rx.held && nvmf_tls_pending(c->tls))
		rd_defer(c->qp.reactor->loop, &c->again, RD_DEFER_NEXT);
}

bool rdt_tcp_cut_off(const struct rdt_tcp_conn *c)
{
	return c->tls && nvmf_tls_truncated(c->tls);
}

const char *rdt_tcp_stream_error(const struct rdt_tcp_conn *c, int err)
{
	const char *why = c->tls ? nvmf_tls_why(c->tls) : NULL;

	if (err == EPIPE)
		return "closed by the host while it was answered";
	return why ? why : strerror(err);
}

void rdt_tcp_stream_end(struct rdt_tcp_conn *c)
{
	if (c->tls && !c->eof)
		nvmf_tls_close(c->tls);
	nvmf_tls_free(c->tls);
	c->tls = NULL;
}
