/* SPDX-License-Identifier: BSD-3-Clause */
/* DH-HMAC-CHAP on raw connections, for the family auth and for all tests of targets that require
 * authentication. */
#ifndef RDC_AUTH_H
#define RDC_AUTH_H

#include "nvmf/auth_calc.h"
#include "nvmf/auth_key.h"
#include "nvmf/auth_msg.h"
#include "rdconform.h"

/* One transaction of a connection. */
struct rdc_auth {
	struct rdc_raw *raw;
	unsigned int who;
	/* all hashes and groups; a test may change it before sending */
	struct nvmf_auth_negotiate offer;
	struct nvmf_auth_challenge challenge; /* its dhv points into @got */
	uint16_t dhv_len;
	uint8_t dhv[NVMF_AUTH_DHV_MAX];   /* the controller's value */
	bool has_value;                   /* use the next two members instead of a random value */
	uint8_t value[NVMF_AUTH_DHV_MAX]; /* the host's public value */
	uint8_t session[NVMF_AUTH_HASH_MAX];
	uint8_t c2[NVMF_AUTH_HASH_MAX];
	uint32_t seqnum;
	uint8_t got[NVMF_AUTH_TRANSFER]; /* the message received last */
};

/* Deviations from a correct command: bits to flip in fields, another length. */
struct rdc_auth_fields {
	uint8_t spsp0, spsp1, secp;
	bool other_len;
	uint32_t len;
};

/* @mem NULL: an SGL of no data. */
struct rdc_raw_reply rdc_auth_cmd(struct rdc_raw *raw, uint8_t fctype, const struct rdc_mem *mem,
				  uint32_t len, const struct rdc_auth_fields *f);
struct rdc_raw_reply rdc_auth_send(struct rdc_auth *a, const void *msg, size_t len);
/* Receives into a->got. */
struct rdc_raw_reply rdc_auth_receive(struct rdc_auth *a);
/* Sends @a's message; the command must succeed, whatever the message leads to. */
void rdc_auth_must_send(struct rdc_auth *a, const void *msg, size_t len);
void rdc_auth_must_receive(struct rdc_auth *a);

void rdc_auth_init(struct rdc_auth *a, struct rdc_raw *raw, unsigned int who);
/* Steps of a transaction, which must succeed. */
void rdc_auth_negotiate(struct rdc_auth *a);
void rdc_auth_challenge(struct rdc_auth *a);
size_t rdc_auth_make_reply(struct rdc_auth *a, bool mutual, uint8_t msg[NVMF_AUTH_MSG_MAX]);
/* All steps before the reply, which is built and not sent. Returns its length. */
size_t rdc_auth_until_reply(struct rdc_auth *a, bool mutual, uint8_t msg[NVMF_AUTH_MSG_MAX]);
void rdc_auth_success(struct rdc_auth *a, bool mutual);
/* The session key for a shared secret of a->dhv_len bytes. */
void rdc_auth_session_of(struct rdc_auth *a, const uint8_t *shared);
void rdc_auth_run(struct rdc_auth *a, bool mutual);
/* Authenticates a queue if the target has required it. */
void rdc_raw_authenticate(struct rdc_raw *raw, unsigned int who);

#endif /* RDC_AUTH_H */
