/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * OpenSSL writes through a BIO of this file: it keeps what the socket does not take, so that what
 * SSL_write() has encrypted counts as sent and its memory may change, and it raises no SIGPIPE. The
 * socket's own BIO is below it, for kernel TLS.
 */
#include "nvmf/tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "nvmf/tls_hello.h"

#define CTRL_SET_KTLS 72 /* BIO_CTRL_SET_KTLS, which OpenSSL's headers only name in a comment */
#define RECORD_MAX    16384u
#define READ_BUFFER   (2 * RECORD_MAX + 1024)
#define UNSENT_MAX    (16 * RECORD_MAX)
#define FIRST_ALERT   0x15
#define PSK_DHE_KE    1
/* Fast ones: with others a stranger who knows a key could make this side compute for long. */
#define GROUPS         "X25519:P-256:P-384"
#define SUITE_SHA256   "TLS_AES_128_GCM_SHA256"
#define SUITE_SHA384   "TLS_AES_256_GCM_SHA384"
#define NO_CLOSE_ALERT "closed the connection without a close_notify"

struct nvmf_tls_ctx {
	SSL_CTX *ssl;
	BIO_METHOD *method;
};

enum state {
	STATE_FIRST,     /* nothing has been received */
	STATE_HANDSHAKE, /* -> READY, FAILED */
	STATE_READY,     /* -> ENDED, FAILED */
	STATE_ENDED,     /* the peer has sent a close_notify */
	STATE_FAILED,
};

struct nvmf_tls {
	enum state state;
	int error; /* of FAILED: -errno */
	int fd;
	bool server;
	bool full;       /* the last read filled its parts */
	bool ktls_send;  /* the kernel encrypts */
	bool ktls_recv;  /* the kernel decrypts */
	bool key_update; /* the peer has sent one */
	bool truncated;  /* the peer has closed without a close_notify */
	int alert;       /* that was received last; -1: none */
	SSL *ssl;
	SSL_SESSION *session; /* holds the PSK until the handshake has ended */
	char *offered;        /* the identity of the PSK */
	uint8_t *hello;       /* the ClientHello that is looked at */
	size_t hello_len;
	bool later;      /* NVMF_TLS_LATER was told about it */
	uint8_t *unsent; /* encrypted bytes that the socket has not taken */
	size_t unsent_at, unsent_len, unsent_size;
	struct nvmf_tls_keys keys;
	struct nvmf_tls_info info;
	char why[640];
};

/* ---- the BIO ---- */

static int fail(struct nvmf_tls *t, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static ssize_t send_quietly(int fd, const void *data, size_t len)
{
	ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n;
}

/* Returns 0: nothing is left; -EAGAIN; or -errno. */
static int send_unsent(struct nvmf_tls *t)
{
	while (t->unsent_at < t->unsent_len) {
		ssize_t n =
			send_quietly(t->fd, t->unsent + t->unsent_at, t->unsent_len - t->unsent_at);

		if (n <= 0)
			return n ? -errno : -EAGAIN;
		t->unsent_at += (size_t)n;
	}
	free(t->unsent);
	t->unsent = NULL;
	t->unsent_at = t->unsent_len = t->unsent_size = 0;
	return 0;
}

static bool keep_unsent(struct nvmf_tls *t, const char *data, size_t len)
{
	if (t->unsent_len + len > t->unsent_size) {
		size_t size = t->unsent_len + len + 256;
		uint8_t *grown = size > UNSENT_MAX ? NULL : realloc(t->unsent, size);

		if (!grown) {
			errno = ENOBUFS;
			return false;
		}
		t->unsent = grown;
		t->unsent_size = size;
	}
	memcpy(t->unsent + t->unsent_len, data, len);
	t->unsent_len += len;
	return true;
}

/* The socket's own BIO sends alerts to the kernel's TLS, and its sendmsg(2) can raise SIGPIPE. */
static int write_by_kernel(BIO *next, const char *data, int len)
{
	const struct timespec now = {0, 0};
	sigset_t pipe, old, pending;
	int n, saved;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &pipe, &old);
	n = BIO_write(next, data, len);
	saved = errno;
	if (n < 0 && saved == EPIPE && !sigismember(&pending, SIGPIPE))
		sigtimedwait(&pipe, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = saved;
	return n;
}

static int bio_write(BIO *b, const char *data, int len)
{
	struct nvmf_tls *t = BIO_get_data(b);
	ssize_t n = 0;

	BIO_clear_retry_flags(b);
	if (len <= 0)
		return 0;
	if (t->ktls_send || BIO_get_ktls_send(BIO_next(b))) {
		n = write_by_kernel(BIO_next(b), data, len);
		BIO_copy_next_retry(b);
		return (int)n;
	}
	if (t->unsent_at == t->unsent_len)
		n = send_quietly(t->fd, data, (size_t)len);
	if (n < 0 || (n < len && !keep_unsent(t, data + n, (size_t)(len - n))))
		return -1;
	return len;
}

static int bio_read(BIO *b, char *data, int len)
{
	int n = BIO_read(BIO_next(b), data, len);

	BIO_clear_retry_flags(b);
	BIO_copy_next_retry(b);
	return n;
}

static long bio_ctrl(BIO *b, int cmd, long num, void *arg)
{
	const struct nvmf_tls *t = BIO_get_data(b);

	/* What waits here is encrypted, and the kernel would encrypt it again. */
	if (cmd == CTRL_SET_KTLS && t->unsent_at < t->unsent_len)
		return 0;
	return BIO_next(b) ? BIO_ctrl(BIO_next(b), cmd, num, arg) : 0;
}

static int bio_create(BIO *b)
{
	BIO_set_init(b, 1);
	return 1;
}

/* The type has no index of its own: a process has 127 of them (BIO_get_new_index()), and none is
 * given back. Nobody searches for this BIO by its type. */
static BIO_METHOD *make_method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_TYPE_FILTER, "NVMe/TCP");

	if (m && BIO_meth_set_write(m, bio_write) && BIO_meth_set_read(m, bio_read) &&
	    BIO_meth_set_ctrl(m, bio_ctrl) && BIO_meth_set_create(m, bio_create))
		return m;
	BIO_meth_free(m);
	return NULL;
}

/* ---- what is wrong ---- */

static void text_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

static int fail(struct nvmf_tls *t, int error, const char *fmt, ...)
{
	va_list ap;

	if (t->state == STATE_FAILED)
		return t->error;
	t->state = STATE_FAILED;
	t->error = error;
	va_start(ap, fmt);
	vsnprintf(t->why, sizeof(t->why), fmt, ap);
	va_end(ap);
	text_printable(t->why);
	return error;
}

static int fail_by_alert(struct nvmf_tls *t)
{
	bool early = t->state != STATE_READY;

	switch (early ? t->alert : -1) {
	case SSL_AD_UNKNOWN_PSK_IDENTITY:
		return fail(t, -EACCES, "does not know the identity \"%s\"",
			    t->offered ? t->offered : "");
	case SSL_AD_DECRYPT_ERROR:
	case SSL_AD_BAD_RECORD_MAC:
		return fail(t, -EACCES,
			    "has another key for the identity \"%s\" (alert \"%s\"): compare the "
			    "keys of both ends",
			    t->offered ? t->offered : "", SSL_alert_desc_string_long(t->alert));
	case SSL_AD_PROTOCOL_VERSION:
		return fail(t, -EPROTO, "does not speak TLS 1.3 (alert \"protocol version\")");
	case SSL_AD_HANDSHAKE_FAILURE:
	case SSL_AD_ILLEGAL_PARAMETER:
	case SSL_AD_INSUFFICIENT_SECURITY:
	case SSL_AD_MISSING_EXTENSION:
		return fail(t, -EACCES,
			    "refuses the identity, the key or the hash (alert \"%s\"; identity "
			    "\"%s\")",
			    SSL_alert_desc_string_long(t->alert), t->offered ? t->offered : "");
	default:
		return fail(t, -EPROTO, "ended %s by the alert \"%s\"",
			    early ? "the TLS handshake" : "the connection",
			    SSL_alert_desc_string_long(t->alert));
	}
}

static int fail_closed(struct nvmf_tls *t)
{
	if (t->state == STATE_READY) {
		t->truncated = true;
		return fail(t, -ECONNRESET, NO_CLOSE_ALERT);
	}
	return fail(t, -ECONNRESET, "closed the connection during the TLS handshake%s",
		    t->server ? "" : " (a port without TLS does so)");
}

/* OpenSSL's error @code, which ended the call that returned @saved in errno. */
static int fail_by_code(struct nvmf_tls *t, unsigned long code, int saved)
{
	int reason = ERR_GET_REASON(code);
	const char *text = ERR_reason_error_string(code);

	if (ERR_GET_LIB(code) != ERR_LIB_SSL)
		return fail(t, -EPROTO, "TLS failed: %s", text ? text : "no reason is known");
	switch (reason) {
	case SSL_R_UNEXPECTED_EOF_WHILE_READING:
		return fail_closed(t);
	case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
		return fail(t, -EPROTO, "sent a TLS record that cannot be decrypted");
	case SSL_R_WRONG_VERSION_NUMBER:
	case SSL_R_HTTP_REQUEST:
	case SSL_R_PACKET_LENGTH_TOO_LONG:
	case SSL_R_ENCRYPTED_LENGTH_TOO_LONG:
		return fail(t, -EPROTO, "sent what is not a TLS record (%s)", text);
	case SSL_R_UNSUPPORTED_PROTOCOL:
	case SSL_R_VERSION_TOO_LOW:
		return fail(t, -EPROTO, "does not speak TLS 1.3 (%s)", text);
	default:
		return fail(t, -EPROTO, "violates TLS: %s", text ? text : "no reason is known");
	}
}

/* A call of OpenSSL returned @rc, not a success. Returns -EAGAIN or a failure. */
static int ssl_error(struct nvmf_tls *t, int rc)
{
	int saved = errno, kind = SSL_get_error(t->ssl, rc);

	if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
		return -EAGAIN;
	if (kind == SSL_ERROR_WANT_CLIENT_HELLO_CB)
		return -EBUSY;
	if (t->state == STATE_FAILED) /* a callback knows more */
		return t->error;
	if (t->alert >= 0 && t->alert != SSL_AD_CLOSE_NOTIFY)
		return fail_by_alert(t);
	if (kind == SSL_ERROR_ZERO_RETURN)
		return fail_closed(t);
	if (ERR_peek_error())
		return fail_by_code(t, ERR_peek_error(), saved);
	if (kind == SSL_ERROR_SYSCALL && saved)
		return fail(t, -saved, "%s", strerror(saved));
	return fail_closed(t);
}

/* ---- the key of a server's connection ---- */

static const char *suite_of(unsigned int hash)
{
	return hash == NVMF_AUTH_SHA256 ? SUITE_SHA256 : SUITE_SHA384;
}

/* Makes @psk the only key, and its suite the only suite of the connection. */
static int use_psk(struct nvmf_tls *t, const struct nvmf_tls_psk *psk)
{
	const uint8_t id[2] = {0x13, psk->hash == NVMF_AUTH_SHA256 ? 0x01 : 0x02};
	const SSL_CIPHER *cipher;

	t->offered = strdup(psk->identity);
	t->session = SSL_SESSION_new();
	if (!t->offered || !t->session || !SSL_set_ciphersuites(t->ssl, suite_of(psk->hash)))
		return -ENOMEM;
	cipher = SSL_CIPHER_find(t->ssl, id);
	if (!cipher || !SSL_SESSION_set1_master_key(t->session, psk->psk, psk->len) ||
	    !SSL_SESSION_set_cipher(t->session, cipher) ||
	    !SSL_SESSION_set_protocol_version(t->session, TLS1_3_VERSION))
		return -ENOMEM;
	return 0;
}

/* Of one key, both derivations. Returns whether one of them is that of the peer. *@named: it has
 * the identity of the peer. */
static bool try_key(struct nvmf_tls *t, const struct nvmf_tls_hello *h,
		    const struct nvmf_tls_offer *o, const struct nvmf_auth_key *key, bool *named)
{
	const struct nvmf_tls_identity *id = &t->info.identity;
	struct nvmf_tls_psk psk;
	bool bound = false;

	for (int compat = 0; compat < 2 && !bound; compat++) {
		struct nvmf_tls_form form = {id->version, id->type, compat};

		if (nvmf_tls_psk_make(key, &form, id->hostnqn, id->subnqn, &psk) ||
		    psk.hash != id->hash || strlen(psk.identity) != o->identity_len ||
		    memcmp(psk.identity, o->identity, o->identity_len) != 0)
			continue;
		*named = true;
		if (!nvmf_tls_hello_bound(h, o, &psk))
			continue;
		bound = true;
		t->info.compat = compat;
		if (use_psk(t, &psk))
			fail(t, -ENOMEM, "out of memory");
	}
	OPENSSL_cleanse(&psk, sizeof(psk));
	return bound;
}

/* Looks for the key of the identity @o. Returns whether it was found; if not, t->why says why. */
static bool try_offer(struct nvmf_tls *t, const struct nvmf_tls_hello *h,
		      const struct nvmf_tls_offer *o, int *alert)
{
	struct nvmf_auth_key keys[NVMF_TLS_KEYS];
	const char *why = "belongs to none of the configured keys",
		   *text = (const char *)o->identity;
	bool found = false, named = false;
	unsigned int n = 0;
	const char *bad;

	*alert = SSL_AD_UNKNOWN_PSK_IDENTITY;
	memset(keys, 0, sizeof(keys));
	bad = nvmf_tls_identity_parse(text, o->identity_len, &t->info.identity);
	if (bad)
		why = bad;
	else
		n = t->keys.find(t->keys.arg, &t->info.identity, keys, &why);
	t->later = n == NVMF_TLS_LATER;
	if (t->later)
		return false;
	for (unsigned int i = 0; i < n && i < NVMF_TLS_KEYS && !found; i++) {
		found = try_key(t, h, o, &keys[i], &named);
		t->info.key = i;
	}
	OPENSSL_cleanse(keys, sizeof(keys));
	if (found)
		return true;
	if (n && !named)
		why = t->info.identity.version
			      ? "was made from another key, or with another hash, than the "
				"configured one"
			      : "has another hash than the configured key";
	if (named) {
		*alert = SSL_AD_DECRYPT_ERROR;
		why = "is known, but was used with another key than the configured one";
	}
	snprintf(t->why, sizeof(t->why), "the identity \"%.*s\" %s", (int)o->identity_len, text,
		 why);
	return false;
}

static bool offers_version(SSL *ssl)
{
	const unsigned char *ext;
	size_t len;

	if (!SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_supported_versions, &ext, &len) || !len)
		return false;
	for (size_t i = 1; i + 1 < len; i += 2)
		if (ext[i] == 0x03 && ext[i + 1] == 0x04)
			return true;
	return false;
}

static bool offers_dhe(SSL *ssl)
{
	const unsigned char *ext;
	size_t len;

	if (!SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_psk_kex_modes, &ext, &len) || !len)
		return false;
	return memchr(ext + 1, PSK_DHE_KE, len - 1) != NULL;
}

static bool offers_suite(SSL *ssl, unsigned int hash)
{
	const unsigned char *suites;
	size_t len = SSL_client_hello_get0_ciphers(ssl, &suites);

	for (size_t i = 0; i + 1 < len; i += 2)
		if (suites[i] == 0x13 && suites[i + 1] == (hash == NVMF_AUTH_SHA256 ? 1 : 2))
			return true;
	return false;
}

/* Returns an alert, with the failure in t, or 0. */
static int look_at_hello(struct nvmf_tls *t, SSL *ssl)
{
	int alert = SSL_AD_UNKNOWN_PSK_IDENTITY;
	struct nvmf_tls_hello h;
	bool found = false;
	char text[sizeof(t->why)];

	if (!offers_version(ssl)) {
		fail(t, -EPROTO, "offers no TLS 1.3, only older versions");
		return SSL_AD_PROTOCOL_VERSION;
	}
	if (!t->hello || !nvmf_tls_hello_parse(t->hello, t->hello_len, &h)) {
		fail(t, -EPROTO, "sent a malformed ClientHello");
		return SSL_AD_DECODE_ERROR;
	}
	if (!h.offers) {
		fail(t, -EACCES, "offers no pre-shared key");
		return SSL_AD_HANDSHAKE_FAILURE;
	}
	for (unsigned int i = 0; i < h.offers && !found && !t->later; i++)
		found = try_offer(t, &h, &h.offer[i], &alert);
	if (t->later)
		return 0;
	if (t->state == STATE_FAILED)
		return SSL_AD_INTERNAL_ERROR;
	if (!found) {
		memcpy(text, t->why, sizeof(text));
		fail(t, -EACCES, "%s", text);
		return alert;
	}
	if (!offers_dhe(ssl)) {
		fail(t, -EPROTO, "offers its key without Diffie-Hellman (psk_dhe_ke)");
		return SSL_AD_HANDSHAKE_FAILURE;
	}
	if (!offers_suite(ssl, t->info.identity.hash)) {
		fail(t, -EPROTO, "does not offer %s, the cipher suite of its key",
		     suite_of(t->info.identity.hash));
		return SSL_AD_HANDSHAKE_FAILURE;
	}
	return 0;
}

static int on_client_hello(SSL *ssl, int *alert, void *arg)
{
	struct nvmf_tls *t = SSL_get_app_data(ssl);
	int rc;

	/* The second one of a connection, after a HelloRetryRequest: OpenSSL checks its binder. */
	if (t->session)
		return SSL_CLIENT_HELLO_SUCCESS;
	t->later = false;
	rc = look_at_hello(t, ssl);
	if (t->later)
		return SSL_CLIENT_HELLO_RETRY;
	free(t->hello);
	t->hello = NULL;
	if (!rc)
		return SSL_CLIENT_HELLO_SUCCESS;
	*alert = rc;
	return SSL_CLIENT_HELLO_ERROR;
}

static int find_session(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **out)
{
	const struct nvmf_tls *t = SSL_get_app_data(ssl);

	*out = NULL;
	if (t->session && len == strlen(t->offered) && memcmp(id, t->offered, len) == 0 &&
	    SSL_SESSION_up_ref(t->session))
		*out = t->session;
	return 1;
}

static int use_session(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *len,
		       SSL_SESSION **out)
{
	const struct nvmf_tls *t = SSL_get_app_data(ssl);

	if (!SSL_SESSION_up_ref(t->session))
		return 0;
	*out = t->session;
	*id = (const unsigned char *)t->offered;
	*len = strlen(t->offered);
	return 1;
}

static void on_message(int sent, int version, int type, const void *msg, size_t len, SSL *ssl,
		       void *arg)
{
	struct nvmf_tls *t = SSL_get_app_data(ssl);
	const uint8_t *bytes = msg;

	if (sent || !len)
		return;
	if (type == SSL3_RT_ALERT && len == 2)
		t->alert = bytes[1];
	if (type != SSL3_RT_HANDSHAKE)
		return;
	if (bytes[0] == SSL3_MT_KEY_UPDATE)
		t->key_update = true;
	if (bytes[0] == SSL3_MT_CLIENT_HELLO && t->server && !t->hello && !t->session) {
		t->hello = malloc(len);
		t->hello_len = t->hello ? len : 0;
		if (t->hello)
			memcpy(t->hello, msg, len);
	}
}

/* ---- contexts and connections ---- */

static bool set_up(SSL_CTX *ssl)
{
	SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_ENABLE_KTLS);
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_default_read_buffer_len(ssl, READ_BUFFER);
	SSL_CTX_set_client_hello_cb(ssl, on_client_hello, NULL);
	SSL_CTX_set_psk_find_session_callback(ssl, find_session);
	SSL_CTX_set_msg_callback(ssl, on_message);
	return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) &&
	       SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) &&
	       SSL_CTX_set_num_tickets(ssl, 0) && SSL_CTX_set1_groups_list(ssl, GROUPS) &&
	       SSL_CTX_set_ciphersuites(ssl, SUITE_SHA384 ":" SUITE_SHA256);
}

int nvmf_tls_ctx_new(struct nvmf_tls_ctx **out)
{
	struct nvmf_tls_ctx *ctx = calloc(1, sizeof(*ctx));
	int rc = -ENOMEM;

	*out = NULL;
	if (!ctx)
		return rc;
	rc = -EIO;
	ctx->method = make_method();
	ctx->ssl = SSL_CTX_new(TLS_method());
	if (!ctx->method || !ctx->ssl || !set_up(ctx->ssl))
		goto fail;
	*out = ctx;
	return 0;
fail:
	ERR_clear_error();
	nvmf_tls_ctx_free(ctx);
	return rc;
}

void nvmf_tls_ctx_free(struct nvmf_tls_ctx *ctx)
{
	if (!ctx)
		return;
	SSL_CTX_free(ctx->ssl);
	BIO_meth_free(ctx->method);
	free(ctx);
}

static int connection_new(struct nvmf_tls_ctx *ctx, int fd, bool server, struct nvmf_tls **out)
{
	struct nvmf_tls *t = calloc(1, sizeof(*t));
	BIO *bio = NULL, *below = NULL;

	*out = NULL;
	if (!t)
		return -ENOMEM;
	t->fd = fd;
	t->server = server;
	t->alert = -1;
	t->info.suite = "";
	t->ssl = SSL_new(ctx->ssl);
	bio = BIO_new(ctx->method);
	below = BIO_new_socket(fd, BIO_NOCLOSE);
	if (!t->ssl || !bio || !below)
		goto fail;
	SSL_set_app_data(t->ssl, t);
	BIO_set_data(bio, t);
	SSL_set0_rbio(t->ssl, BIO_push(bio, below));
	if (!BIO_up_ref(bio)) {
		bio = below = NULL; /* of the SSL now */
		goto fail;
	}
	SSL_set0_wbio(t->ssl, bio);
	if (server)
		SSL_set_accept_state(t->ssl);
	else
		SSL_set_connect_state(t->ssl);
	*out = t;
	return 0;
fail:
	BIO_free(below);
	BIO_free(bio);
	nvmf_tls_free(t);
	ERR_clear_error();
	return -ENOMEM;
}

int nvmf_tls_server(struct nvmf_tls_ctx *ctx, int fd, const struct nvmf_tls_keys *keys,
		    struct nvmf_tls **out)
{
	int rc = connection_new(ctx, fd, true, out);

	if (!rc)
		(*out)->keys = *keys;
	return rc;
}

int nvmf_tls_client(struct nvmf_tls_ctx *ctx, int fd, const struct nvmf_tls_psk *psk,
		    struct nvmf_tls **out)
{
	int rc = connection_new(ctx, fd, false, out);

	if (rc)
		return rc;
	SSL_set_psk_use_session_callback((*out)->ssl, use_session);
	/* A server that ignores the key would have to show a certificate, and none is good. */
	SSL_set_verify((*out)->ssl, SSL_VERIFY_PEER, NULL);
	nvmf_tls_identity_parse(psk->identity, strlen(psk->identity), &(*out)->info.identity);
	rc = use_psk(*out, psk);
	if (rc) {
		ERR_clear_error();
		nvmf_tls_free(*out);
		*out = NULL;
	}
	return rc;
}

void nvmf_tls_free(struct nvmf_tls *t)
{
	if (!t)
		return;
	SSL_free(t->ssl);
	SSL_SESSION_free(t->session);
	free(t->offered);
	free(t->hello);
	free(t->unsent);
	free(t);
}

/* ---- the handshake ---- */

/* Plain NVMe/TCP is told from TLS by the first byte, which OpenSSL would call a wrong version. */
static int look_at_first(struct nvmf_tls *t)
{
	uint8_t first;
	ssize_t n = recv(t->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return t->server ? -EAGAIN : 0;
	if (n < 0)
		return fail(t, -errno, "%s", strerror(errno));
	if (!n)
		return fail_closed(t);
	if (first != NVMF_TLS_FIRST_BYTE && first != FIRST_ALERT)
		return fail(t, -EPROTO, "does not speak TLS: its first byte is %02xh%s", first,
			    t->server && first == 0 ? ", as of plain NVMe/TCP" : "");
	t->state = STATE_HANDSHAKE;
	return 0;
}

static int finish_handshake(struct nvmf_tls *t)
{
	if (!SSL_session_reused(t->ssl))
		return fail(t, -EACCES, "did not use the pre-shared key");
	t->ktls_send = BIO_get_ktls_send(SSL_get_wbio(t->ssl));
	t->ktls_recv = BIO_get_ktls_recv(SSL_get_rbio(t->ssl));
	t->info.complete = true;
	t->info.ktls_send = t->ktls_send;
	t->info.ktls_recv = t->ktls_recv;
	t->info.suite = SSL_get_cipher_name(t->ssl);
	SSL_SESSION_free(t->session);
	t->session = NULL;
	if (!t->ktls_recv)
		SSL_set_read_ahead(t->ssl, 1);
	t->state = STATE_READY;
	return 0;
}

int nvmf_tls_handshake(struct nvmf_tls *t)
{
	int rc = t->state == STATE_FIRST ? look_at_first(t) : 0;

	if (t->state == STATE_READY || t->state == STATE_ENDED)
		return 0;
	if (t->state == STATE_FAILED)
		return t->error;
	if (rc)
		return rc;
	rc = send_unsent(t);
	if (rc && rc != -EAGAIN)
		return fail(t, rc, "%s", strerror(-rc));
	ERR_clear_error();
	errno = 0;
	rc = SSL_do_handshake(t->ssl);
	/* The answer came after the look: what the next look would see is not its first byte. */
	if (t->state == STATE_FIRST && BIO_number_read(SSL_get_rbio(t->ssl)))
		t->state = STATE_HANDSHAKE;
	rc = rc == 1 ? finish_handshake(t) : ssl_error(t, rc);
	ERR_clear_error();
	return rc;
}

/* ---- data ---- */

static ssize_t read_by_ssl(struct nvmf_tls *t, const struct iovec *iov, int count)
{
	size_t total = 0, n;
	int rc;

	ERR_clear_error();
	for (int i = 0; i < count; i++) {
		for (size_t at = 0; at < iov[i].iov_len; at += n, total += n) {
			errno = 0;
			rc = SSL_read_ex(t->ssl, (uint8_t *)iov[i].iov_base + at,
					 iov[i].iov_len - at, &n);
			if (t->key_update)
				return fail(t, -EPROTO,
					    "changed its keys (KeyUpdate), which NVMe/TCP does "
					    "not allow");
			if (rc == 1)
				continue;
			if (SSL_get_error(t->ssl, rc) == SSL_ERROR_ZERO_RETURN)
				t->state = STATE_ENDED;
			else
				rc = ssl_error(t, rc);
			ERR_clear_error();
			if (total)
				return (ssize_t)total;
			return t->state == STATE_ENDED ? 0 : rc;
		}
	}
	t->full = true;
	return (ssize_t)total;
}

static size_t iov_bytes(const struct iovec *iov, int count)
{
	size_t bytes = 0;

	for (int i = 0; i < count; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

ssize_t nvmf_tls_readv(struct nvmf_tls *t, const struct iovec *iov, int count)
{
	ssize_t n;

	t->full = false;
	if (t->state != STATE_READY)
		return t->state == STATE_ENDED ? 0 : t->state == STATE_FAILED ? t->error : -EAGAIN;
	if (!t->ktls_recv || SSL_has_pending(t->ssl))
		return read_by_ssl(t, iov, count);
	n = readv(t->fd, iov, count);
	/* The peer has closed, and answered by a reset what was sent to it then. The kernel's TLS
	 * reports the reset once, and before what arrived earlier and the end, which are still to
	 * be read. */
	if (n < 0 && errno == EPIPE)
		n = readv(t->fd, iov, count);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n < 0 && errno == EIO) /* a record that is not data: OpenSSL knows what it means */
		return read_by_ssl(t, iov, count);
	if (n < 0 && errno == EBADMSG)
		return fail(t, -EPROTO, "sent a TLS record that cannot be decrypted");
	if (n < 0)
		return fail(t, -errno, "%s", strerror(errno));
	if (!n)
		return fail_closed(t);
	t->full = (size_t)n == iov_bytes(iov, count);
	return n;
}

bool nvmf_tls_pending(const struct nvmf_tls *t)
{
	return t->full;
}

/* A place in the parts of a message. */
struct cursor {
	const struct iovec *iov;
	int count;
	size_t at; /* in the first one */
};

/* Up to a record: inside one part, or of several in @room. Moves @c behind it. */
static const uint8_t *gather_record(struct cursor *c, uint8_t room[RECORD_MAX], size_t *len)
{
	const uint8_t *p = (const uint8_t *)c->iov->iov_base + c->at;
	size_t left = c->iov->iov_len - c->at;

	*len = 0;
	if (left >= RECORD_MAX || c->count == 1) {
		*len = left < RECORD_MAX ? left : RECORD_MAX;
		c->at += *len;
		return p;
	}
	while (c->count && *len < RECORD_MAX) {
		size_t part = c->iov->iov_len - c->at;

		if (part > RECORD_MAX - *len)
			part = RECORD_MAX - *len;
		if (part)
			memcpy(room + *len, (const uint8_t *)c->iov->iov_base + c->at, part);
		*len += part;
		c->at += part;
		if (c->at < c->iov->iov_len)
			break;
		c->iov++;
		c->count--;
		c->at = 0;
	}
	return room;
}

static ssize_t write_by_ssl(struct nvmf_tls *t, const struct iovec *iov, int count)
{
	size_t total = 0, all = iov_bytes(iov, count), len, n;
	struct cursor c = {iov, count, 0};
	uint8_t room[RECORD_MAX];
	int rc = 0;

	ERR_clear_error();
	while (total < all && t->unsent_at == t->unsent_len) {
		const uint8_t *p = gather_record(&c, room, &len);

		if (!len) { /* an empty part at the end of others */
			c = (struct cursor){c.iov + 1, c.count - 1, 0};
			continue;
		}
		errno = 0;
		rc = SSL_write_ex(t->ssl, p, len, &n);
		if (rc != 1)
			break;
		total += n;
	}
	if (total < all && rc != 1 && t->unsent_at == t->unsent_len) {
		rc = ssl_error(t, rc);
		ERR_clear_error();
		return total ? (ssize_t)total : rc;
	}
	return (ssize_t)total;
}

ssize_t nvmf_tls_writev(struct nvmf_tls *t, const struct iovec *iov, int count)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov,
			     .msg_iovlen = (size_t)count};
	ssize_t n;
	int rc;

	if (t->state != STATE_READY && t->state != STATE_ENDED)
		return t->state == STATE_FAILED ? t->error : -EAGAIN;
	rc = send_unsent(t);
	if (rc == -EAGAIN)
		return rc;
	if (rc)
		return fail(t, rc, "%s", strerror(-rc));
	if (!iov_bytes(iov, count))
		return 0;
	if (!t->ktls_send)
		return write_by_ssl(t, iov, count);
	n = sendmsg(t->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n >= 0)
		return n;
	if (errno == EAGAIN || errno == EINTR)
		return -EAGAIN;
	return fail(t, -errno, "%s", strerror(errno));
}

bool nvmf_tls_unsent(const struct nvmf_tls *t)
{
	return t->unsent_at < t->unsent_len;
}

uint32_t nvmf_tls_events(const struct nvmf_tls *t)
{
	return EPOLLIN | (nvmf_tls_unsent(t) ? EPOLLOUT : 0);
}

void nvmf_tls_close(struct nvmf_tls *t)
{
	if (t->state != STATE_READY && t->state != STATE_ENDED)
		return;
	ERR_clear_error();
	send_unsent(t);
	SSL_shutdown(t->ssl);
	ERR_clear_error();
}

bool nvmf_tls_truncated(const struct nvmf_tls *t)
{
	return t->truncated;
}

const char *nvmf_tls_why(const struct nvmf_tls *t)
{
	return t->state == STATE_FAILED ? t->why : NULL;
}

void nvmf_tls_info(const struct nvmf_tls *t, struct nvmf_tls_info *info)
{
	*info = t->info;
}
