/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS of a connection: the handshake, with one identity of the key after the other; and the stream
 * that is encrypted or not. */
#include <errno.h>
#include <stdio.h>

#include "tcp.h"

/*
 * The identities of a key, in the order in which they are tried. Type G is of keys that
 * DH-HMAC-CHAP has made, which a host does not configure; the hash is that of the key.
 */
static const struct nvmf_tls_form tls_forms[] = {
	{1, 'R', false},
	{0, 'R', false},
	{1, 'R', true},
	{0, 'R', true},
};
#define TLS_FORMS (sizeof(tls_forms) / sizeof(tls_forms[0]))

static int make_psk(const struct rdi_queue *q, unsigned int form, struct nvmf_tls_psk *psk)
{
	return nvmf_tls_psk_make(&q->cfg.tls->key, &tls_forms[form], q->cfg.hostnqn, q->cfg.subnqn,
				 psk);
}

/* ---- the handshake ---- */

static void read_more(struct rd_defer *defer)
{
	rdi_tcp_rx_run(rd_container_of(defer, struct rdi_tcp_conn, tls.more));
}

void rdi_tcp_tls_init(struct rdi_tcp_conn *c)
{
	struct rdi_tls *key = c->q->cfg.tls;

	c->tls.form = key ? atomic_load_explicit(&key->form, memory_order_relaxed) : 0;
	c->tls.left = TLS_FORMS - 1;
	c->tls.refused = 0;
	c->tls.more.fn = read_more;
}

/* Takes the next identity. Returns whether there is one. */
static bool next_form(struct rdi_tcp_conn *c)
{
	if (!c->tls.left)
		return false;
	c->tls.left--;
	c->tls.form = (c->tls.form + 1) % TLS_FORMS;
	return true;
}

static const char *form_text(const struct rdi_queue *q, unsigned int form, char *buf, size_t size)
{
	snprintf(buf, size, "NVMe%uR%02u%s", (unsigned int)tls_forms[form].version,
		 q->cfg.tls->key.len == 32 ? 1u : 2u,
		 tls_forms[form].compat ? " as of libnvme before 1.14" : "");
	return buf;
}

/* The target has refused every identity, the last one with @err. */
static void no_identity(struct rdi_tcp_conn *c, int err)
{
	char why[RDI_TEXT], form[40], tried[160] = "";

	for (unsigned int i = 0; i < TLS_FORMS; i++) {
		size_t at = strlen(tried);

		if (c->tls.refused >> i & 1)
			snprintf(tried + at, sizeof(tried) - at, "%s%s", at ? ", " : "",
				 form_text(c->q, i, form, sizeof(form)));
	}
	snprintf(why, sizeof(why),
		 "TLS: the target %s; tried were the identities %s, of the host NQN %s and the "
		 "subsystem NQN %s",
		 c->tls.why, tried, c->q->cfg.hostnqn, c->q->cfg.subnqn);
	rdi_tcp_end(c, err == -EACCES ? -EKEYREJECTED : err, why);
}

static void handshake_failed(struct rdi_tcp_conn *c, int err)
{
	const char *why = nvmf_tls_why(c->tls.stream);
	char text[RDI_TEXT], form[40];

	if (!why)
		why = strerror(-err);
	/* Some targets refuse a key by an alert, others just close the connection. */
	if (err != -EACCES && err != -ECONNRESET) {
		snprintf(text, sizeof(text), "TLS: the target %s", why);
		rdi_tcp_end(c, err, text);
		return;
	}
	rd_info(c->q->log, RD_LOG_QPAIR, "%s queue: TLS with %s: the target %s", c->q->cfg.label,
		form_text(c->q, c->tls.form, form, sizeof(form)), why);
	if (!c->tls.refused)
		snprintf(c->tls.why, sizeof(c->tls.why), "%s", why);
	c->tls.refused |= 1u << c->tls.form;
	if (next_form(c))
		rdi_tcp_again(c);
	else
		no_identity(c, err);
}

void rdi_tcp_tls_run(struct rdi_tcp_conn *c)
{
	int rc = nvmf_tls_handshake(c->tls.stream);
	struct nvmf_tls_info info;
	char form[40];

	if (rc == -EAGAIN) {
		rd_io_mod(c->q->loop, &c->io, nvmf_tls_events(c->tls.stream));
		return;
	}
	if (rc) {
		handshake_failed(c, rc);
		return;
	}
	atomic_store_explicit(&c->q->cfg.tls->form, c->tls.form, memory_order_relaxed);
	nvmf_tls_info(c->tls.stream, &info);
	rd_info(c->q->log, RD_LOG_QPAIR,
		"%s queue: TLS with %s, %s, encryption by %s, decryption by %s", c->q->cfg.label,
		form_text(c->q, c->tls.form, form, sizeof(form)), info.suite,
		info.ktls_send ? "the kernel" : "OpenSSL",
		info.ktls_recv ? "the kernel" : "OpenSSL");
	rdi_tcp_ready(c);
}

void rdi_tcp_tls_start(struct rdi_tcp_conn *c)
{
	struct nvmf_tls_psk psk;
	int rc = make_psk(c->q, c->tls.form, &psk);

	/* Version 0 has no room for two long names, so the target has refused another one. */
	while (rc == -ENAMETOOLONG && next_form(c))
		rc = make_psk(c->q, c->tls.form, &psk);
	if (rc == -ENAMETOOLONG) {
		no_identity(c, -EACCES);
		return;
	}
	if (!rc)
		rc = nvmf_tls_client(c->q->cfg.tls->ctx, c->io.fd, &psk, &c->tls.stream);
	explicit_bzero(&psk, sizeof(psk));
	if (rc) {
		rdi_tcp_end(c, rc, "TLS: the handshake cannot be started");
		return;
	}
	c->state = RDI_TCP_TLS;
	rdi_tcp_tls_run(c);
}

void rdi_tcp_tls_close(struct rdi_tcp_conn *c)
{
	if (c->tls.stream)
		nvmf_tls_close(c->tls.stream);
}

void rdi_tcp_tls_drop(struct rdi_tcp_conn *c)
{
	rd_defer_cancel(c->q->loop, &c->tls.more);
	if (c->state == RDI_TCP_IC || c->state == RDI_TCP_RUNNING)
		rdi_tcp_tls_close(c);
	nvmf_tls_free(c->tls.stream);
	c->tls.stream = NULL;
}

void rdi_tcp_tls_info(const struct rdi_queue *q, struct rdinit_tls_info *out)
{
	const struct rdi_tcp_conn *c = q->conn;
	struct nvmf_tls_info info;
	struct nvmf_tls_psk psk;

	if (!c->tls.stream || make_psk(q, c->tls.form, &psk))
		return;
	nvmf_tls_info(c->tls.stream, &info);
	memcpy(out->identity, psk.identity, sizeof(out->identity));
	out->hash = psk.hash;
	out->compat = tls_forms[c->tls.form].compat;
	snprintf(out->suite, sizeof(out->suite), "%s", info.suite);
	out->ktls_send = info.ktls_send;
	out->ktls_receive = info.ktls_recv;
	explicit_bzero(&psk, sizeof(psk));
}

/* ---- the stream ---- */

ssize_t rdi_tcp_readv(struct rdi_tcp_conn *c, const struct iovec *iov, int n)
{
	ssize_t got;

	if (c->tls.stream)
		return nvmf_tls_readv(c->tls.stream, iov, n);
	got = readv(c->io.fd, iov, n);
	return got < 0 ? -errno : got;
}

ssize_t rdi_tcp_writev(struct rdi_tcp_conn *c, const struct iovec *iov, unsigned int n)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = n};
	ssize_t sent;

	if (c->tls.stream)
		return nvmf_tls_writev(c->tls.stream, iov, (int)n);
	sent = sendmsg(c->io.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	return sent < 0 ? -errno : sent;
}

const char *rdi_tcp_io_text(const struct rdi_tcp_conn *c, int err)
{
	const char *why = c->tls.stream ? nvmf_tls_why(c->tls.stream) : NULL;

	if (why)
		return why;
	return err ? strerror(-err) : "the target closed the connection";
}
