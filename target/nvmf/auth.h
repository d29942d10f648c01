/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DH-HMAC-CHAP, the side of the controller: a transaction of one queue pair. All functions run on
 * the reactor of the queue pair. A transaction exists from Negotiate to its end and is wiped then;
 * only the keys of the configuration outlive it.
 */
#ifndef RDT_AUTH_H
#define RDT_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvmf/auth_key.h"
#include "nvmf/auth_msg.h"
#include "target/config/config.h"
#include "auth_work.h"
#include "request.h"

struct rdt_auth_set;
struct rdt_qpair;
struct rdt_req;
struct rdt_subsys;
struct rdt_target;

/* AUTHREQ in dword 0 of the answer to Connect: the queue must authenticate (ATR). */
#define RDT_AUTH_ATR 0x00020000u

enum rdt_auth_state {
	RDT_AUTH_IDLE, /* waits for Negotiate -> PACED, PAIR, CHALLENGE, FAILURE */
	/* its host has failed often, so the challenge is made a moment later -> PAIR, CHALLENGE,
	 * FAILURE */
	RDT_AUTH_PACED,
	RDT_AUTH_PAIR,      /* a thread gets the key pair; it has -> CHALLENGE, FAILURE */
	RDT_AUTH_CHALLENGE, /* the challenge can be received; it was -> REPLY */
	RDT_AUTH_REPLY,     /* waits for Reply -> SESSION, PACED_PROOF, CLAIM, SUCCESS1, FAILURE */
	/* a thread computes the session key; it has -> PACED_PROOF, CLAIM, SUCCESS1, FAILURE */
	RDT_AUTH_SESSION,
	/* as PACED: the proof is checked a moment later -> CLAIM, SUCCESS1, FAILURE */
	RDT_AUTH_PACED_PROOF,
	/* an I/O queue that is proven asks its controller's owner for its queue ID; it has the
	 * answer -> SUCCESS1, FAILURE */
	RDT_AUTH_CLAIM,
	/* Success1 can be received; it was -> SUCCESS2, or the transaction ends */
	RDT_AUTH_SUCCESS1,
	RDT_AUTH_SUCCESS2, /* waits for Success2; it came -> the transaction ends */
	/* Failure1 can be received; it was -> DELAY, or on a live queue the transaction ends */
	RDT_AUTH_FAILURE,
	RDT_AUTH_DELAY, /* Failure1 was received; the queue pair closes when the timer expires */
};

struct rdt_auth {
	uint8_t state; /* enum rdt_auth_state */
	bool cvalid;   /* the controller proves itself too */
	bool old_keys; /* the host has keys that were replaced */
	uint16_t t_id;
	enum nvmf_auth_expl why;             /* FAILURE */
	struct nvmf_auth_challenge sent;     /* from CHALLENGE on */
	uint8_t dhv[NVMF_AUTH_DHV_MAX];      /* of the challenge */
	struct nvmf_auth_reply reply;        /* from the Reply on */
	uint8_t peer_dhv[NVMF_AUTH_DHV_MAX]; /* of the Reply */
	uint8_t session[NVMF_AUTH_HASH_MAX]; /* with a Diffie-Hellman group */
	EVP_PKEY *pair;                      /* from PAIR on; a reference */
	struct rdt_auth_job job;             /* PAIR, SESSION; its message: PACED, PACED_PROOF */
	/* PACED, PAIR, SESSION, PACED_PROOF, CLAIM: waits for the end of that */
	struct rdt_req *req;
	uint8_t response[NVMF_AUTH_HASH_MAX]; /* SUCCESS1: the controller's */
};

/* The Connect of @qp succeeded. Must it authenticate before it is used? */
bool rdt_auth_required(struct rdt_qpair *qp);
/* Bounds the time until the next step of @qp, which has entered RDT_QP_AUTH or authenticates. */
void rdt_auth_await(struct rdt_qpair *qp);
/*
 * A message of Authentication Send, @req. @msg: NULL: it is longer than all messages. Ends a
 * transaction, goes on with it, or prepares Failure1; the queue pair may be live or closed
 * afterwards. Pending: a thread computes, and completes @req.
 */
enum rdt_exec rdt_auth_received(struct rdt_req *req, const uint8_t *msg, size_t len);
/*
 * The message for Authentication Receive, into @buf of @size bytes, zero padded. Returns 0;
 * -EMSGSIZE: it is longer than @size, and stays the next one; -EBUSY: a thread computes.
 */
int rdt_auth_fetch(struct rdt_qpair *qp, uint8_t *buf, size_t size);
/* @qp is closing: cancels a computation for it that no thread has begun, and the time that it waits
 * after failures. */
void rdt_auth_hang_up(struct rdt_qpair *qp);
void rdt_auth_fini(struct rdt_qpair *qp); /* @qp is freed; may be repeated */

/* ---- auth_keys.c: the keys of a subsystem's hosts. Any thread. ---- */

/* A copy of the keys of a host; the caller wipes it with rdt_auth_keys_wipe(). */
struct rdt_auth_keys {
	struct nvmf_auth_key host;
	struct nvmf_auth_key ctrl;
	bool has_ctrl;
	uint8_t n_hashes;
	uint8_t n_groups;
	uint8_t hashes[RDT_AUTH_HASHES];
	uint8_t groups[RDT_AUTH_GROUPS];
};

int rdt_auth_keys_init(struct rdt_subsys *ss);
void rdt_auth_keys_fini(struct rdt_subsys *ss);
/*
 * Use the keys of @set from now on, and accept the previous keys too. @set: its reference is taken
 * over; afterwards the keys that ended, with their reference. Main thread, under subsys->lock.
 */
void rdt_auth_swap_keys(struct rdt_subsys *ss, struct rdt_auth_set *set);
void rdt_auth_end_old_keys(struct rdt_subsys *ss); /* some minutes later. Main thread */
bool rdt_auth_has_key(const struct rdt_subsys *ss,
		      const char *hostnqn); /* for DH-HMAC-CHAP; under subsys->lock */
bool rdt_auth_asks(struct rdt_subsys *ss, const char *hostnqn); /* the same, takes the lock */
/* @old: the keys that were replaced. Returns false, and @out is not to be used: @hostnqn has none.
 */
bool rdt_auth_keys_get(struct rdt_subsys *ss, const char *hostnqn, bool old,
		       struct rdt_auth_keys *out);
void rdt_auth_keys_wipe(struct rdt_auth_keys *keys);
/* Copies of the keys of TLS: the present one and, if it was replaced a short time ago, the one
 * before. The caller wipes them. Returns their number; 0: *@why follows "the identity". */
#define RDT_AUTH_TLS_KEYS 2u
unsigned int rdt_auth_find_tls_keys(struct rdt_target *t, const char *subnqn, const char *hostnqn,
				    struct nvmf_auth_key keys[RDT_AUTH_TLS_KEYS], const char **why);
uint32_t rdt_auth_seqnum(struct rdt_subsys *ss); /* of a new challenge; never 0 */
/*
 * Is @a->reply that of the host that has @keys? If it asks for the controller's proof, a->response
 * is that. Returns 0; -EACCES: no; -ENOKEY: it asks for the controller's proof, and there is no key
 * for that; -EIO: libcrypto failed.
 */
int rdt_auth_verify(const struct rdt_auth_keys *keys, struct rdt_auth *a, const char *hostnqn,
		    const char *subnqn);

#endif /* RDT_AUTH_H */
