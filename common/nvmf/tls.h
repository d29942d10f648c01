/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS 1.3 with an external pre-shared key on a TCP socket that does not block (NVMe/TCP 1.0,
 * 3.6.1), by OpenSSL. The handshake comes first, by nvmf_tls_handshake(); then nvmf_tls_readv() and
 * nvmf_tls_writev() take the places of readv(2) and sendmsg(2). There are no certificates, tickets,
 * early data or key updates.
 *
 * Ownership: the caller owns the socket, and closes it after nvmf_tls_free(). A context must
 * outlive its connections; it may be used by several threads. A connection belongs to one thread at
 * a time, and may move to another one between two calls.
 */
#ifndef RD_NVMF_TLS_H
#define RD_NVMF_TLS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "nvmf/tls_psk.h"

#define NVMF_TLS_FIRST_BYTE 0x16 /* of a peer that begins with TLS; an ICReq begins with 00h */
#define NVMF_TLS_KEYS       4    /* of a host, at most */
#define NVMF_TLS_LATER      UINT_MAX

struct nvmf_tls_ctx;
struct nvmf_tls;

/* Returns 0, -ENOMEM, or -EIO: OpenSSL cannot do what is needed. */
int nvmf_tls_ctx_new(struct nvmf_tls_ctx **out);
void nvmf_tls_ctx_free(struct nvmf_tls_ctx *ctx); /* NULL is allowed */

/* Of a server: the keys that a host may use. */
struct nvmf_tls_keys {
	/*
	 * Writes the keys that @id may have been made from to @keys, which are wiped after use.
	 * Returns their number; 0: there is none, and *@why, a static text, says why not, to follow
	 * "the identity". NVMF_TLS_LATER: it tells later, when it is asked again. Called in
	 * nvmf_tls_handshake(), at most a few times for a connection.
	 */
	unsigned int (*find)(void *arg, const struct nvmf_tls_identity *id,
			     struct nvmf_auth_key keys[NVMF_TLS_KEYS], const char **why);
	void *arg;
};

/* Returns 0 or -ENOMEM. @keys, or its parts, are used until the handshake has ended. */
int nvmf_tls_server(struct nvmf_tls_ctx *ctx, int fd, const struct nvmf_tls_keys *keys,
		    struct nvmf_tls **out);
/* @psk is copied. Returns 0 or -ENOMEM. */
int nvmf_tls_client(struct nvmf_tls_ctx *ctx, int fd, const struct nvmf_tls_psk *psk,
		    struct nvmf_tls **out);
/* Wipes the secrets. Sends nothing: see nvmf_tls_close(). NULL is allowed. */
void nvmf_tls_free(struct nvmf_tls *t);

/*
 * Goes on with the handshake. Returns 0: it is complete; -EAGAIN: call it again when one of
 * nvmf_tls_events() has come; -EBUSY: call it again whenever the keys are to be asked for again,
 * which told NVMF_TLS_LATER; otherwise the connection has failed, and nvmf_tls_why() says why:
 * -EACCES: a key or an identity was refused, by this side or by the peer; -EPROTO: TLS as it is
 * needed is not possible with this peer; -ECONNRESET: the peer has closed the connection; or
 * another -errno of the socket. The alert for the peer has been sent as far as the socket took it.
 */
int nvmf_tls_handshake(struct nvmf_tls *t);

/*
 * Reads until the parts of @iov are full or there is no more. Returns the number of bytes; 0: the
 * peer has ended the connection by a close_notify; -EAGAIN: there is nothing; -ECONNRESET: the peer
 * has closed it without a close_notify; -EPROTO: it violated the rules of TLS or of this transport
 * (a KeyUpdate, records that cannot be decrypted); or another -errno. nvmf_tls_why() says more.
 * Errors repeat.
 */
ssize_t nvmf_tls_readv(struct nvmf_tls *t, const struct iovec *iov, int count);
/*
 * True: the last nvmf_tls_readv() filled all parts, so that data may be here that the socket does
 * not report by EPOLLIN. Read again without waiting.
 */
bool nvmf_tls_pending(const struct nvmf_tls *t);

/*
 * Takes up to the bytes of @iov. Returns how many were taken, which means what sendmsg(2) means by
 * it: they are encrypted, and the memory may be used again. -EAGAIN: none, because earlier ones
 * wait for the socket; otherwise as for nvmf_tls_readv(). Sends what waited first, also with @count
 * 0, which then returns 0 when nothing waits.
 */
ssize_t nvmf_tls_writev(struct nvmf_tls *t, const struct iovec *iov, int count);
/* True: taken bytes wait for the socket. Call nvmf_tls_writev() at EPOLLOUT. */
bool nvmf_tls_unsent(const struct nvmf_tls *t);
/* What the connection waits for: EPOLLIN, and EPOLLOUT if bytes wait. */
uint32_t nvmf_tls_events(const struct nvmf_tls *t);

/* Sends a close_notify, as far as the socket takes it. No data may follow. */
void nvmf_tls_close(struct nvmf_tls *t);

/* The peer has closed the connection in order, but without a close_notify, as kernel hosts do. */
bool nvmf_tls_truncated(const struct nvmf_tls *t);

/* What is wrong, to follow a name of the peer and a colon; NULL: nothing. */
const char *nvmf_tls_why(const struct nvmf_tls *t);

/* Of a complete handshake, and as far as it came of one that failed. */
struct nvmf_tls_info {
	struct nvmf_tls_identity identity; /* version 0 and empty names: none was offered */
	unsigned int key;                  /* of a server: the number that find() gave it */
	bool compat;                       /* of a server: which derivation the peer uses */
	bool complete;
	bool ktls_send, ktls_recv; /* the kernel encrypts, decrypts */
	const char *suite;         /* the name of the cipher suite, or "" */
};
void nvmf_tls_info(const struct nvmf_tls *t, struct nvmf_tls_info *info);

#endif /* RD_NVMF_TLS_H */
