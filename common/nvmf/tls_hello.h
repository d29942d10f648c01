/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pre-shared keys that a TLS 1.3 ClientHello offers (RFC 8446, 4.2.11). A server of NVMe/TCP
 * must look before OpenSSL does: an identity of version 0 belongs to either of two derivations, and
 * only the binder, an HMAC over the ClientHello, tells which of them the peer uses. Any thread; no
 * state is kept.
 */
#ifndef RD_NVMF_TLS_HELLO_H
#define RD_NVMF_TLS_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvmf/tls_psk.h"

#define NVMF_TLS_OFFERS 4 /* of identities; a peer may send more, which are not looked at */

struct nvmf_tls_offer {
	const uint8_t *identity, *binder; /* inside the message */
	uint16_t identity_len;
	uint8_t binder_len;
};

struct nvmf_tls_hello {
	const uint8_t *msg;
	size_t bound_len; /* bytes of the message that binders cover */
	unsigned int offers;
	struct nvmf_tls_offer offer[NVMF_TLS_OFFERS];
};

/*
 * Reads a ClientHello with its header of four bytes. Returns false if it is malformed. One without
 * pre-shared keys has no offers.
 */
bool nvmf_tls_hello_parse(const uint8_t *msg, size_t len, struct nvmf_tls_hello *h);

/* Was @o made with the key @psk? Only of the first ClientHello of a connection. */
bool nvmf_tls_hello_bound(const struct nvmf_tls_hello *h, const struct nvmf_tls_offer *o,
			  const struct nvmf_tls_psk *psk);

#endif /* RD_NVMF_TLS_HELLO_H */
