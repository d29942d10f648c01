/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS of both sides over a socketpair, with this project's peer and with one of plain OpenSSL. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nvmf/tls.h"
#include "nvmf/tls_hello.h"
#include "suites.h"
#include "t_mutate.h"

#define HOSTNQN "nqn.psk-test-host"
#define SUBNQN  "nqn.psk-test-subsys"
#define KEY_1   "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"
#define KEY_2                                                                                      \
	"NVMeTLSkey-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==" \
	":"
#define SUITE_1 "TLS_AES_128_GCM_SHA256"
#define TURNS   1000

struct pair {
	struct nvmf_tls_ctx *ctx;
	int fd[2]; /* of the server and of its peer */
	struct nvmf_tls *server, *client;
	SSL *raw; /* the peer, if it is not @client */
	SSL_CTX *raw_ctx;
	struct nvmf_auth_key keys[NVMF_TLS_KEYS];
	unsigned int n_keys;
	unsigned int later;      /* so often the keys are told later */
	struct nvmf_tls_psk psk; /* of the client */
};

static unsigned int find_keys(void *arg, const struct nvmf_tls_identity *id,
			      struct nvmf_auth_key keys[NVMF_TLS_KEYS], const char **why)
{
	struct pair *p = arg;

	if (p->later && p->later--)
		return NVMF_TLS_LATER;
	if (strcmp(id->hostnqn, HOSTNQN) != 0) {
		*why = "names an unknown host";
		return 0;
	}
	memcpy(keys, p->keys, sizeof(p->keys));
	return p->n_keys;
}

static void pair_end(struct pair *p)
{
	nvmf_tls_free(p->server);
	nvmf_tls_free(p->client);
	SSL_free(p->raw);
	SSL_CTX_free(p->raw_ctx);
	nvmf_tls_ctx_free(p->ctx);
	for (int i = 0; i < 2; i++)
		if (p->fd[i] >= 0)
			close(p->fd[i]);
}

static void pair_begin(struct pair *p, const char *key)
{
	memset(p, 0, sizeof(*p));
	CU_ASSERT_EQUAL_FATAL(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, p->fd), 0);
	CU_ASSERT_EQUAL_FATAL(nvmf_tls_ctx_new(&p->ctx), 0);
	CU_ASSERT_PTR_NULL_FATAL(nvmf_key_parse(NVMF_KEY_TLS, key, &p->keys[0]));
	p->n_keys = 1;
	CU_ASSERT_EQUAL_FATAL(nvmf_tls_server(p->ctx, p->fd[0],
					      &(struct nvmf_tls_keys){find_keys, p}, &p->server),
			      0);
}

static void client_psk(struct pair *p, const char *text, struct nvmf_tls_form form,
		       const char *hostnqn)
{
	struct nvmf_auth_key key;

	CU_ASSERT_PTR_NULL_FATAL(nvmf_key_parse(NVMF_KEY_TLS, text, &key));
	CU_ASSERT_EQUAL_FATAL(nvmf_tls_psk_make(&key, &form, hostnqn, SUBNQN, &p->psk), 0);
}

/* Begins a client with the key @text. */
static void client_begin(struct pair *p, const char *text, struct nvmf_tls_form form,
			 const char *hostnqn)
{
	client_psk(p, text, form, hostnqn);
	CU_ASSERT_EQUAL_FATAL(nvmf_tls_client(p->ctx, p->fd[1], &p->psk, &p->client), 0);
}

/* Both sides in turns until both have ended. */
static void shake(struct pair *p, int *server, int *client)
{
	*server = *client = -EAGAIN;
	for (int i = 0; i < TURNS && (*server == -EAGAIN || *client == -EAGAIN); i++) {
		if (*client == -EAGAIN)
			*client = nvmf_tls_handshake(p->client);
		if (*server == -EAGAIN)
			*server = nvmf_tls_handshake(p->server);
	}
}

static void connect_well(struct pair *p, const char *key)
{
	int server, client;

	pair_begin(p, key);
	client_begin(p, key, (struct nvmf_tls_form){1, 'R', false}, HOSTNQN);
	shake(p, &server, &client);
	CU_ASSERT_EQUAL_FATAL(server, 0);
	CU_ASSERT_EQUAL_FATAL(client, 0);
}

/* The server goes on when the keys are told, and not before. */
static void keys_are_told_later(void)
{
	for (int right = 0; right < 2; right++) {
		struct pair p T_ENDS(pair_end);
		int server, client;

		pair_begin(&p, KEY_1);
		client_begin(&p, right ? KEY_1 : KEY_2, (struct nvmf_tls_form){right, 'R', false},
			     HOSTNQN);
		p.later = 3;
		shake(&p, &server, &client);
		CU_ASSERT_EQUAL(server, -EBUSY);
		CU_ASSERT_EQUAL(client, -EAGAIN);
		CU_ASSERT_EQUAL(p.later, 2);
		for (int i = 0; i < 2; i++)
			CU_ASSERT_EQUAL(nvmf_tls_handshake(p.server), -EBUSY);
		CU_ASSERT_EQUAL(p.later, 0);
		shake(&p, &server, &client);
		CU_ASSERT_EQUAL(server, right ? 0 : -EACCES);
		CU_ASSERT_EQUAL(client, right ? 0 : -EACCES);
	}
}

/* @len bytes in parts of @piece from one side to the other. */
static void transfer(struct nvmf_tls *from, struct nvmf_tls *to, size_t len, size_t piece)
{
	T_FREE uint8_t *out = malloc(len), *in = calloc(1, len);
	size_t sent = 0, got = 0;

	CU_ASSERT_TRUE_FATAL(out && in);
	for (size_t i = 0; i < len; i++)
		out[i] = (uint8_t)(i * 7 + (i >> 8));
	for (int turn = 0; got < len && turn < 1000000; turn++) {
		size_t part = len - sent < piece ? len - sent : piece;
		struct iovec w[3] = {{out + sent, part / 3},
				     {NULL, 0},
				     {out + sent + part / 3, part - part / 3}};
		size_t room = len - got < 5000 ? len - got : 5000;
		struct iovec r[2] = {{in + got, room / 2}, {in + got + room / 2, room - room / 2}};
		ssize_t n = nvmf_tls_writev(from, w, 3);

		CU_ASSERT_TRUE_FATAL(n >= 0 || n == -EAGAIN);
		sent += n > 0 ? (size_t)n : 0;
		n = nvmf_tls_readv(to, r, 2);
		CU_ASSERT_TRUE_FATAL(n > 0 || n == -EAGAIN);
		got += n > 0 ? (size_t)n : 0;
		CU_ASSERT_EQUAL(nvmf_tls_pending(to), n > 0 && (size_t)n == room);
	}
	CU_ASSERT_EQUAL(got, len);
	CU_ASSERT_EQUAL(memcmp(in, out, len), 0);
}

static void forms_and_hashes(void)
{
	static const struct nvmf_tls_form forms[] = {{0, 'R', false}, {0, 'R', true},
						     {0, 'G', false}, {1, 'R', false},
						     {1, 'R', true},  {1, 'G', true}};
	static const char *const keys[] = {KEY_1, KEY_2};

	for (size_t i = 0; i < 12; i++) {
		T_ENDS(pair_end) struct pair p;
		struct nvmf_tls_info info;
		int server, client;

		/* the key of the client is the second one of the server */
		pair_begin(&p, keys[i % 2]);
		p.keys[1] = p.keys[0];
		p.keys[0].secret[3] ^= 1;
		p.n_keys = 2;
		client_begin(&p, keys[i % 2], forms[i / 2], HOSTNQN);
		shake(&p, &server, &client);
		CU_ASSERT_EQUAL_FATAL(server, 0);
		CU_ASSERT_EQUAL_FATAL(client, 0);
		nvmf_tls_info(p.server, &info);
		CU_ASSERT_TRUE(info.complete);
		CU_ASSERT_EQUAL(info.key, 1);
		CU_ASSERT_EQUAL(info.compat, forms[i / 2].compat);
		CU_ASSERT_EQUAL(info.identity.version, forms[i / 2].version);
		CU_ASSERT_EQUAL(info.identity.type, forms[i / 2].type);
		CU_ASSERT_STRING_EQUAL(info.identity.hostnqn, HOSTNQN);
		CU_ASSERT_STRING_EQUAL(info.suite, i % 2 ? "TLS_AES_256_GCM_SHA384" : SUITE_1);
		CU_ASSERT_PTR_NULL(nvmf_tls_why(p.server));
		transfer(p.client, p.server, 1000, 1000);
		transfer(p.server, p.client, 1000, 1000);
	}
}

static void many_records(void)
{
	static const size_t pieces[] = {1, 100, 4096, 16384, 16385, 300000};
	T_ENDS(pair_end) struct pair p;

	connect_well(&p, KEY_2);
	for (size_t i = 0; i < 6; i++) {
		transfer(p.client, p.server, pieces[i] * 20 + 77, pieces[i]);
		transfer(p.server, p.client, pieces[i] * 20 + 77, pieces[i]);
	}
}

static void full_socket(void)
{
	T_ENDS(pair_end) struct pair p;
	char data[40000], in[40000];
	struct iovec w = {data, sizeof(data)}, r = {in, sizeof(in)};
	size_t sent = 0, got = 0;
	ssize_t n;

	connect_well(&p, KEY_1);
	memset(data, 'a', sizeof(data));
	while ((n = nvmf_tls_writev(p.server, &w, 1)) > 0)
		sent += (size_t)n;
	CU_ASSERT_EQUAL(n, -EAGAIN);
	CU_ASSERT_TRUE(nvmf_tls_unsent(p.server));
	CU_ASSERT_TRUE(nvmf_tls_events(p.server) & EPOLLOUT);
	/* what was taken does not change with the memory, and arrives without new data */
	memset(data, 'b', sizeof(data));
	for (int i = 0; i < TURNS && got < sent; i++) {
		n = nvmf_tls_readv(p.client, &r, 1);
		for (ssize_t k = 0; k < n; k++)
			CU_ASSERT_EQUAL_FATAL(in[k], 'a');
		got += n > 0 ? (size_t)n : 0;
		nvmf_tls_writev(p.server, NULL, 0);
	}
	CU_ASSERT_EQUAL(got, sent);
	CU_ASSERT_FALSE(nvmf_tls_unsent(p.server));
}

static void refusal(struct nvmf_tls_form form, const char *client_key, const char *hostnqn,
		    const char *server_text, const char *client_text)
{
	T_ENDS(pair_end) struct pair p;
	int server, client;

	pair_begin(&p, KEY_1);
	client_begin(&p, client_key, form, hostnqn);
	shake(&p, &server, &client);
	CU_ASSERT_EQUAL(server, -EACCES);
	CU_ASSERT_EQUAL(client, -EACCES);
	CU_ASSERT_PTR_NOT_NULL_FATAL(nvmf_tls_why(p.server));
	CU_ASSERT_PTR_NOT_NULL_FATAL(nvmf_tls_why(p.client));
	CU_ASSERT_STRING_EQUAL(nvmf_tls_why(p.server), server_text);
	CU_ASSERT_STRING_EQUAL(nvmf_tls_why(p.client), client_text);
	CU_ASSERT_EQUAL(nvmf_tls_handshake(p.server), server);
}

static void wrong_keys(void)
{
	const struct nvmf_tls_form v0 = {0, 'R', false}, v1 = {1, 'R', false};
	const char *other = "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";

	refusal(v0, other, HOSTNQN,
		"the identity \"NVMe0R01 " HOSTNQN " " SUBNQN
		"\" is known, but was used with another key than the configured one",
		"has another key for the identity \"NVMe0R01 " HOSTNQN " " SUBNQN
		"\" (alert \"decrypt error\"): compare the keys of both ends");
	refusal(v0, KEY_2, HOSTNQN,
		"the identity \"NVMe0R02 " HOSTNQN " " SUBNQN
		"\" has another hash than the configured key",
		"does not know the identity \"NVMe0R02 " HOSTNQN " " SUBNQN "\"");
	refusal(v1, KEY_1, "nqn.other",
		"the identity \"NVMe1R01 nqn.other " SUBNQN
		" Py86xEM9BHC045NJ/9d03tKOofXJFz8pinbSRrA4a0s=\" names an unknown host",
		"does not know the identity \"NVMe1R01 nqn.other " SUBNQN
		" Py86xEM9BHC045NJ/9d03tKOofXJFz8pinbSRrA4a0s=\"");
}

static void closes(void)
{
	char byte;
	struct iovec one = {&byte, 1};

	for (int notify = 0; notify < 2; notify++) {
		T_ENDS(pair_end) struct pair p;

		connect_well(&p, KEY_1);
		CU_ASSERT_EQUAL(nvmf_tls_readv(p.server, &one, 1), -EAGAIN);
		CU_ASSERT_EQUAL(nvmf_tls_writev(p.client, &(struct iovec){(char[]){"x"}, 1}, 1), 1);
		if (notify)
			nvmf_tls_close(p.client);
		close(p.fd[1]);
		p.fd[1] = -1;
		CU_ASSERT_EQUAL(nvmf_tls_readv(p.server, &one, 1), 1);
		CU_ASSERT_EQUAL(nvmf_tls_readv(p.server, &one, 1), notify ? 0 : -ECONNRESET);
		CU_ASSERT_EQUAL(nvmf_tls_readv(p.server, &one, 1), notify ? 0 : -ECONNRESET);
		if (notify)
			CU_ASSERT_PTR_NULL(nvmf_tls_why(p.server));
		if (!notify)
			CU_ASSERT_STRING_EQUAL(nvmf_tls_why(p.server),
					       "closed the connection without a close_notify");
		/* and no SIGPIPE */
		for (int i = 0; i < 3; i++)
			nvmf_tls_writev(p.server, &(struct iovec){(char[]){"x"}, 1}, 1);
	}
}

/* ---- a kernel that decrypts: what its socket says, in this order ---- */

struct kernel_read {
	ssize_t n;
	int err; /* if @n is -1 */
};

static struct {
	const struct kernel_read *next; /* NULL: there is no such kernel */
} kernel;

long __wrap_BIO_ctrl(BIO *b, int cmd, long num, void *arg);
long __real_BIO_ctrl(BIO *b, int cmd, long num, void *arg);
ssize_t __wrap_readv(int fd, const struct iovec *iov, int count);
ssize_t __real_readv(int fd, const struct iovec *iov, int count);

long __wrap_BIO_ctrl(BIO *b, int cmd, long num, void *arg)
{
	return kernel.next && cmd == BIO_CTRL_GET_KTLS_RECV ? 1 : __real_BIO_ctrl(b, cmd, num, arg);
}

ssize_t __wrap_readv(int fd, const struct iovec *iov, int count)
{
	if (!kernel.next)
		return __real_readv(fd, iov, count);
	errno = kernel.next->err;
	return (kernel.next++)->n;
}

/* The host closes, and then answers by a reset what is sent to it: the kernel's TLS tells of the
 * reset before it gives what came earlier. That is a close, and not a failure of ours. */
static void kernel_tells_of_a_reset_first(void)
{
	static const struct kernel_read reads[] = {{-1, EPIPE}, {1, 0}, {-1, EPIPE}, {0, 0}};
	struct pair p T_ENDS(pair_end);
	char byte;
	struct iovec one = {&byte, 1};

	kernel.next = reads;
	connect_well(&p, KEY_1);
	CU_ASSERT_EQUAL(nvmf_tls_readv(p.server, &one, 1), 1);
	CU_ASSERT_FALSE(nvmf_tls_truncated(p.server));
	CU_ASSERT_EQUAL(nvmf_tls_readv(p.server, &one, 1), -ECONNRESET);
	CU_ASSERT_TRUE(nvmf_tls_truncated(p.server));
	CU_ASSERT_STRING_EQUAL(nvmf_tls_why(p.server),
			       "closed the connection without a close_notify");
	CU_ASSERT_PTR_EQUAL(kernel.next, reads + 4);
	kernel.next = NULL;
}

/* A connection that is reset while it is in use is not closed by the host. */
static void kernel_tells_of_a_lost_connection(void)
{
	static const struct kernel_read reads[] = {{-1, EAGAIN}, {-1, ECONNRESET}};
	struct pair p T_ENDS(pair_end);
	char byte;
	struct iovec one = {&byte, 1};

	kernel.next = reads;
	connect_well(&p, KEY_1);
	CU_ASSERT_EQUAL(nvmf_tls_readv(p.server, &one, 1), -EAGAIN);
	CU_ASSERT_EQUAL(nvmf_tls_readv(p.server, &one, 1), -ECONNRESET);
	CU_ASSERT_FALSE(nvmf_tls_truncated(p.server));
	CU_ASSERT_STRING_EQUAL(nvmf_tls_why(p.server), strerror(ECONNRESET));
	kernel.next = NULL;
}

/* ---- a peer that is plain OpenSSL ---- */

static int raw_use(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *len,
		   SSL_SESSION **out)
{
	const struct pair *p = SSL_get_app_data(ssl);
	const unsigned char suite[2] = {0x13, p->psk.hash};

	*out = SSL_SESSION_new();
	SSL_SESSION_set1_master_key(*out, p->psk.psk, p->psk.len);
	SSL_SESSION_set_cipher(*out, SSL_CIPHER_find(ssl, suite));
	SSL_SESSION_set_protocol_version(*out, TLS1_3_VERSION);
	*id = (const unsigned char *)p->psk.identity;
	*len = strlen(p->psk.identity);
	return 1;
}

static void raw_begin(struct pair *p, bool with_psk)
{
	pair_begin(p, KEY_1);
	client_psk(p, KEY_1, (struct nvmf_tls_form){0, 'R', true}, HOSTNQN);
	p->raw_ctx = SSL_CTX_new(TLS_client_method());
	CU_ASSERT_PTR_NOT_NULL_FATAL(p->raw_ctx);
	if (with_psk)
		SSL_CTX_set_psk_use_session_callback(p->raw_ctx, raw_use);
	p->raw = SSL_new(p->raw_ctx);
	CU_ASSERT_PTR_NOT_NULL_FATAL(p->raw);
	SSL_set_app_data(p->raw, p);
	SSL_set_fd(p->raw, p->fd[1]);
}

static int raw_shake(struct pair *p)
{
	int server = -EAGAIN;
	bool done = false;

	for (int i = 0; i < TURNS && (server == -EAGAIN || (!server && !done)); i++) {
		done = done || SSL_connect(p->raw) == 1;
		if (server == -EAGAIN)
			server = nvmf_tls_handshake(p->server);
	}
	return server;
}

static void default_client(void)
{
	T_ENDS(pair_end) struct pair p;
	char byte = 0;

	/* It offers all suites, and first a group that the server answers by a HelloRetryRequest.
	 */
	raw_begin(&p, true);
	CU_ASSERT_EQUAL(SSL_set1_groups_list(p.raw, "ffdhe2048:X25519"), 1);
	CU_ASSERT_EQUAL(raw_shake(&p), 0);
	CU_ASSERT_EQUAL(nvmf_tls_writev(p.server, &(struct iovec){(char[]){"x"}, 1}, 1), 1);
	CU_ASSERT_EQUAL(SSL_read(p.raw, &byte, 1), 1);
	CU_ASSERT_EQUAL(byte, 'x');
}

static void key_update(void)
{
	T_ENDS(pair_end) struct pair p;
	char byte;
	struct iovec one = {&byte, 1};

	raw_begin(&p, true);
	CU_ASSERT_EQUAL_FATAL(raw_shake(&p), 0);
	CU_ASSERT_EQUAL(SSL_key_update(p.raw, SSL_KEY_UPDATE_REQUESTED), 1);
	CU_ASSERT_EQUAL(SSL_do_handshake(p.raw), 1);
	CU_ASSERT_EQUAL(SSL_write(p.raw, "x", 1), 1);
	CU_ASSERT_EQUAL(nvmf_tls_readv(p.server, &one, 1), -EPROTO);
	CU_ASSERT_STRING_EQUAL(nvmf_tls_why(p.server),
			       "changed its keys (KeyUpdate), which NVMe/TCP does not allow");
}

static void other_tls(void)
{
	T_ENDS(pair_end) struct pair old, certs, suite, mode;

	raw_begin(&old, true);
	SSL_set_max_proto_version(old.raw, TLS1_2_VERSION);
	CU_ASSERT_EQUAL(raw_shake(&old), -EPROTO);
	CU_ASSERT_STRING_EQUAL(nvmf_tls_why(old.server), "offers no TLS 1.3, only older versions");
	raw_begin(&certs, false);
	CU_ASSERT_EQUAL(raw_shake(&certs), -EACCES);
	CU_ASSERT_STRING_EQUAL(nvmf_tls_why(certs.server), "offers no pre-shared key");
	raw_begin(&suite, true);
	SSL_set_ciphersuites(suite.raw, "TLS_CHACHA20_POLY1305_SHA256");
	CU_ASSERT_EQUAL(raw_shake(&suite), -EPROTO);
	CU_ASSERT_STRING_EQUAL(nvmf_tls_why(suite.server),
			       "does not offer " SUITE_1 ", the cipher suite of its key");
	raw_begin(&mode, true);
	SSL_set_options(mode.raw, SSL_OP_ALLOW_NO_DHE_KEX);
	CU_ASSERT_EQUAL(raw_shake(&mode), 0);
}

/* ---- peers that do not speak TLS, or not well ---- */

static void server_gets(const void *bytes, size_t len, bool ends, int error, const char *text)
{
	T_ENDS(pair_end) struct pair p;
	int rc = -EAGAIN;

	pair_begin(&p, KEY_1);
	CU_ASSERT_EQUAL(nvmf_tls_handshake(p.server), -EAGAIN);
	if (len)
		CU_ASSERT_EQUAL(write(p.fd[1], bytes, len), (ssize_t)len);
	if (ends)
		shutdown(p.fd[1], SHUT_WR);
	for (int i = 0; i < 3 && rc == -EAGAIN; i++)
		rc = nvmf_tls_handshake(p.server);
	CU_ASSERT_EQUAL(rc, error);
	CU_ASSERT_STRING_EQUAL(error == -EAGAIN ? "" : nvmf_tls_why(p.server), text);
}

static void plain_peers(void)
{
	static const uint8_t icreq[128] = {0, 0, 128, 0, 128};
	static const uint8_t half[] = {0x16, 3, 1, 1, 0, 1, 0, 0, 252};
	static const uint8_t garbage[64] = {0x16, 0xff, 0xee, 0xff, 0xff, 1};

	server_gets(icreq, sizeof(icreq), false, -EPROTO,
		    "does not speak TLS: its first byte is 00h, as of plain NVMe/TCP");
	server_gets("GET /", 5, false, -EPROTO, "does not speak TLS: its first byte is 47h");
	server_gets(NULL, 0, true, -ECONNRESET, "closed the connection during the TLS handshake");
	server_gets(half, sizeof(half), false, -EAGAIN, "");
	server_gets(half, sizeof(half), true, -ECONNRESET,
		    "closed the connection during the TLS handshake");
	server_gets(garbage, sizeof(garbage), false, -EPROTO,
		    "sent what is not a TLS record (wrong version number)");
}

static void plain_server(void)
{
	static const uint8_t term[24] = {3, 0, 24, 0, 24};
	T_ENDS(pair_end) struct pair p;

	pair_begin(&p, KEY_1);
	client_begin(&p, KEY_1, (struct nvmf_tls_form){1, 'R', false}, HOSTNQN);
	CU_ASSERT_EQUAL(nvmf_tls_handshake(p.client), -EAGAIN);
	CU_ASSERT_EQUAL(write(p.fd[0], term, sizeof(term)), (ssize_t)sizeof(term));
	CU_ASSERT_EQUAL(nvmf_tls_handshake(p.client), -EPROTO);
	CU_ASSERT_STRING_EQUAL(nvmf_tls_why(p.client), "does not speak TLS: its first byte is 03h");
}

/* While set, a look at what has arrived (MSG_PEEK) comes just before it. */
static bool looks_early;

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	if (looks_early && flags & MSG_PEEK) {
		errno = EAGAIN;
		return -1;
	}
	return recvfrom(fd, buf, len, flags, NULL, NULL);
}

/* OpenSSL reads a part of the answer that the look at its first byte has just missed. */
static void answer_comes_after_the_look(void)
{
	for (ssize_t part = 1; part < 200; part++) {
		T_ENDS(pair_end) struct pair p;
		uint8_t flight[4096];
		ssize_t n;

		pair_begin(&p, KEY_1);
		client_begin(&p, KEY_1, (struct nvmf_tls_form){1, 'R', false}, HOSTNQN);
		CU_ASSERT_EQUAL(nvmf_tls_handshake(p.client), -EAGAIN);
		CU_ASSERT_EQUAL(nvmf_tls_handshake(p.server), -EAGAIN);
		n = read(p.fd[1], flight, sizeof(flight));
		CU_ASSERT_TRUE_FATAL(n > part);
		CU_ASSERT_EQUAL(write(p.fd[0], flight, (size_t)part), part);
		looks_early = true;
		CU_ASSERT_EQUAL(nvmf_tls_handshake(p.client), -EAGAIN);
		looks_early = false;
		CU_ASSERT_EQUAL(write(p.fd[0], flight + part, (size_t)(n - part)), n - part);
		CU_ASSERT_EQUAL(nvmf_tls_handshake(p.client), 0);
	}
}

static void damaged_record(void)
{
	static const uint8_t record[22] = {0x17, 3, 3, 0, 17};
	T_ENDS(pair_end) struct pair p;
	char byte;
	struct iovec one = {&byte, 1};

	connect_well(&p, KEY_1);
	CU_ASSERT_EQUAL(write(p.fd[1], record, sizeof(record)), (ssize_t)sizeof(record));
	CU_ASSERT_EQUAL(nvmf_tls_readv(p.server, &one, 1), -EPROTO);
	CU_ASSERT_STRING_EQUAL(nvmf_tls_why(p.server),
			       "sent a TLS record that cannot be decrypted");
	/* the peer is told */
	CU_ASSERT_EQUAL(nvmf_tls_readv(p.client, &one, 1), -EPROTO);
	CU_ASSERT_STRING_EQUAL(nvmf_tls_why(p.client),
			       "ended the connection by the alert \"bad record mac\"");
}

#define RECORD_HEADER 5

/* The first record of a client, in @buf. Returns its length. */
static size_t client_hello(struct pair *p, uint8_t *buf, size_t size)
{
	ssize_t n;

	pair_begin(p, KEY_2);
	client_begin(p, KEY_2, (struct nvmf_tls_form){0, 'R', false}, HOSTNQN);
	CU_ASSERT_EQUAL_FATAL(nvmf_tls_handshake(p->client), -EAGAIN);
	n = read(p->fd[0], buf, size);
	CU_ASSERT_TRUE_FATAL(n > RECORD_HEADER && buf[0] == NVMF_TLS_FIRST_BYTE);
	return (size_t)n;
}

static bool is_inside(const uint8_t *part, size_t len, const uint8_t *msg, size_t msg_len)
{
	return part >= msg && len <= msg_len && part <= msg + msg_len - len;
}

static void damaged_hellos_are_parsed(void)
{
	T_ENDS(pair_end) struct pair p;
	uint8_t record[4096], buf[4096];
	size_t len = client_hello(&p, record, sizeof(record)) - RECORD_HEADER;
	unsigned int rounds = t_rounds(20000);
	struct nvmf_tls_hello h;
	struct t_rng rng;

	CU_ASSERT_TRUE_FATAL(nvmf_tls_hello_parse(record + RECORD_HEADER, len, &h));
	CU_ASSERT_EQUAL_FATAL(h.offers, 1);
	CU_ASSERT_TRUE(nvmf_tls_hello_bound(&h, &h.offer[0], &p.psk));
	t_rng_init(&rng, "damaged ClientHellos");
	for (unsigned int i = 0; i < rounds; i++) {
		T_FREE uint8_t *msg = NULL; /* exactly as long, for AddressSanitizer */
		size_t n;

		memcpy(buf, record + RECORD_HEADER, len);
		n = t_mutate(&rng, buf, len, sizeof(buf));
		msg = malloc(n);
		CU_ASSERT_PTR_NOT_NULL_FATAL(msg);
		memcpy(msg, buf, n);
		if (!nvmf_tls_hello_parse(msg, n, &h))
			continue;
		CU_ASSERT_TRUE(h.bound_len <= n && h.offers <= NVMF_TLS_OFFERS);
		for (unsigned int k = 0; k < h.offers; k++) {
			CU_ASSERT_TRUE(
				is_inside(h.offer[k].identity, h.offer[k].identity_len, msg, n));
			CU_ASSERT_TRUE(is_inside(h.offer[k].binder, h.offer[k].binder_len, msg, n));
		}
	}
}

static void damaged_hellos_are_refused(void)
{
	unsigned int rounds = t_rounds(300) < 300 ? t_rounds(300) : 300; /* each is a handshake */
	struct t_rng rng;

	t_rng_init(&rng, "damaged handshakes");
	for (unsigned int i = 0; i < rounds; i++) {
		T_ENDS(pair_end) struct pair p;
		uint8_t buf[4096], intact[4096];
		size_t len = client_hello(&p, buf, sizeof(buf)), n;
		int rc = -EAGAIN;

		memcpy(intact, buf, len);
		n = RECORD_HEADER + t_mutate(&rng, buf + RECORD_HEADER, len - RECORD_HEADER,
					     sizeof(buf) - RECORD_HEADER);
		if (n == len && memcmp(buf, intact, len) == 0)
			continue;
		buf[3] = (uint8_t)((n - RECORD_HEADER) >> 8);
		buf[4] = (uint8_t)(n - RECORD_HEADER);
		CU_ASSERT_EQUAL_FATAL(write(p.fd[1], buf, n), (ssize_t)n);
		shutdown(p.fd[1], SHUT_WR);
		for (int k = 0; k < TURNS && rc == -EAGAIN; k++)
			rc = nvmf_tls_handshake(p.server);
		CU_ASSERT_TRUE(rc < 0 && rc != -EAGAIN);
		CU_ASSERT_PTR_NOT_NULL(nvmf_tls_why(p.server));
	}
}

/* OpenSSL has a few tables of a process from which nothing is given back. */
static void contexts_come_and_go(void)
{
	for (int i = 0; i < 1000; i++) {
		struct nvmf_tls_ctx *ctx;

		CU_ASSERT_EQUAL_FATAL(nvmf_tls_ctx_new(&ctx), 0);
		nvmf_tls_ctx_free(ctx);
	}
}

const struct t_case t_tls_cases[] = {
	{"a thousand contexts, one after the other", contexts_come_and_go},
	{"a server waits until its keys are told", keys_are_told_later},
	{"every version, type, hash and derivation is accepted", forms_and_hashes},
	{"small and large records carry the data", many_records},
	{"a full socket keeps what was taken", full_socket},
	{"a wrong key, hash or identity is told at both ends", wrong_keys},
	{"a close with a close_notify differs from one without", closes},
	{"a kernel that decrypts tells of a reset first", kernel_tells_of_a_reset_first},
	{"a kernel that decrypts tells of a lost connection", kernel_tells_of_a_lost_connection},
	{"a client with OpenSSL's defaults is served", default_client},
	{"a KeyUpdate ends the connection", key_update},
	{"TLS without what is needed is refused in words", other_tls},
	{"a peer without TLS is named", plain_peers},
	{"a server without TLS is named", plain_server},
	{"an answer that comes after the look at its first byte", answer_comes_after_the_look},
	{"a damaged record ends the connection at both ends", damaged_record},
	{"a damaged ClientHello is read within its bytes", damaged_hellos_are_parsed},
	{"a damaged ClientHello is refused with a reason", damaged_hellos_are_refused},
	{NULL, NULL},
};
