/* SPDX-License-Identifier: BSD-3-Clause */
/* DH-HMAC-CHAP, the controller's side: a transaction of one queue pair. All functions run on the
 * reactor of the queue pair. A transaction exists from Negotiate to its end, and is wiped then;
 * only the configured keys outlive it. */
#ifndef RDT_AUTH_H
#define RDT_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/types.h>

#include "nvmf/auth_msg.h"
#include "auth_work.h"
#include "target/nvmf/request.h"

struct rdt_qpair;
struct rdt_req;

/* AUTHREQ in dword 0 of the answer to Connect: the queue must authenticate (ATR). */
#define RDT_AUTH_ATR 0x00020000u

enum rdt_auth_state {
	RDT_AUTH_IDLE, /* waits for Negotiate -> PACED, PAIR, CHALLENGE, FAILURE */
	/* its host has failed often, so the challenge is delayed -> PAIR, CHALLENGE, FAILURE */
	RDT_AUTH_PACED,
	RDT_AUTH_PAIR,      /* a thread computes the key pair; done -> CHALLENGE, FAILURE */
	RDT_AUTH_CHALLENGE, /* the challenge can be received; it was -> REPLY */
	RDT_AUTH_REPLY,     /* waits for Reply -> SESSION, PACED_REPLY, CLAIM, SUCCESS1, FAILURE */
	/* a thread computes the session key; done -> PACED_REPLY, CLAIM, SUCCESS1, FAILURE */
	RDT_AUTH_SESSION,
	/* as PACED: the check of the response is delayed -> CLAIM, SUCCESS1, FAILURE */
	RDT_AUTH_PACED_REPLY,
	/* an authenticated I/O queue requests its queue ID from its controller's owner; answered ->
	 * SUCCESS1, FAILURE */
	RDT_AUTH_CLAIM,
	/* Success1 can be received; it was -> SUCCESS2, or the transaction ends */
	RDT_AUTH_SUCCESS1,
	RDT_AUTH_SUCCESS2, /* waits for Success2; received -> the transaction ends */
	/* Failure1 can be received; it was -> DELAY, or on a live queue the transaction ends */
	RDT_AUTH_FAILURE,
	RDT_AUTH_DELAY, /* Failure1 was received; the queue pair closes when the timer expires */
};

struct rdt_auth {
	uint8_t state; /* enum rdt_auth_state */
	bool cvalid;   /* the controller authenticates itself too */
	bool old_keys; /* the host uses keys that were replaced */
	uint16_t t_id;
	enum nvmf_auth_expl why;             /* FAILURE */
	struct nvmf_auth_challenge sent;     /* from CHALLENGE on */
	uint8_t dhv[NVMF_AUTH_DHV_MAX];      /* of the challenge */
	struct nvmf_auth_reply reply;        /* from Reply on */
	uint8_t peer_dhv[NVMF_AUTH_DHV_MAX]; /* of the Reply */
	uint8_t session[NVMF_AUTH_HASH_MAX]; /* with a Diffie-Hellman group */
	EVP_PKEY *pair;                      /* from PAIR on; a reference */
	struct rdt_auth_job job;             /* PAIR, SESSION; its message: PACED, PACED_REPLY */
	/* PACED, PAIR, SESSION, PACED_REPLY, CLAIM: the command that waits for the end of the
	 * state */
	struct rdt_req *req;
	uint8_t response[NVMF_AUTH_HASH_MAX]; /* SUCCESS1: the controller's response */
};

/* Process a message of Authentication Send, @req. @msg: NULL: it is longer than any message. Ends
 * or continues a transaction, or prepares Failure1; the queue pair may be live or closed
 * afterwards. RDT_EXEC_PENDING: a thread computes, and completes @req. */
enum rdt_exec rdt_auth_received(struct rdt_req *req, const uint8_t *msg, size_t len);
/* Write the message for Authentication Receive to @buf of @size bytes, zero padded. Returns 0;
 * -EMSGSIZE: it is longer than @size, and remains the next one; -EBUSY: a thread computes. */
int rdt_auth_fetch(struct rdt_qpair *qp, uint8_t *buf, size_t size);
/* The functions that queue pairs call. */
extern const struct rdt_auth_ops rdt_auth_ops;

#endif /* RDT_AUTH_H */
