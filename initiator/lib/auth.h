/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DH-HMAC-CHAP of the host (Base 8.13.5): secrets of a handle, and one transaction of a queue.
 * Functions belong to the thread of the queue, but for those of struct rdi_auth_keys.
 */
#ifndef RDI_AUTH_H
#define RDI_AUTH_H

#include <stdatomic.h>

#include "internal.h"
#include "nvmf/auth_key.h"
#include "nvmf/auth_msg.h"
#include "rdinit_auth.h"

/* ---- auth_keys.c: any thread ---- */

/*
 * Secrets and offers, in memory of its own that core dumps leave out. Shared by a controller, its
 * queue pairs and a device, which may have different threads; nothing but the counters changes.
 */
struct rdi_auth_keys {
	atomic_uint refs;
	_Atomic uint16_t t_id;   /* of the next transaction */
	_Atomic uint32_t seqnum; /* of the next challenge; 0 is skipped */
	struct nvmf_auth_key host;
	struct nvmf_auth_key ctrl; /* len 0: the controller need not prove itself */
	struct nvmf_auth_negotiate offer;
};

/* Returns 0, -EINVAL, -ENOMEM or -errno of reading a secret, with the thread's error text. */
int rdi_auth_keys_create(const char *func, const struct rdinit_auth_opts *opts,
			 struct rdi_auth_keys **out);
/* NULL is allowed, and returned. */
struct rdi_auth_keys *rdi_auth_keys_ref(struct rdi_auth_keys *keys);
/* Sets *@keys to NULL, which it may be. The last one wipes and frees. */
void rdi_auth_keys_unref(struct rdi_auth_keys **keys);

/* ---- auth_dh.c: Diffie-Hellman on a thread of its own ---- */

struct rdi_auth_dh;

/* What it has computed. */
struct rdi_auth_dh_result {
	int rc; /* of nvmf_auth_dh_session() */
	uint8_t value[NVMF_AUTH_DHV_MAX];
	uint8_t session[NVMF_AUTH_HASH_MAX];
};

typedef void (*rdi_auth_dh_fn)(void *arg, const struct rdi_auth_dh_result *result);

/*
 * Makes a key pair and the session key with the public value of @peer, which is copied. @fn is
 * called on @loop with the result, which is wiped afterwards. Returns 0 or -errno.
 */
int rdi_auth_dh_start(struct rd_loop *loop, const struct nvmf_auth_challenge *peer,
		      rdi_auth_dh_fn fn, void *arg, struct rdi_auth_dh **out);
/* Waits for the computation; @fn is not called any more. Sets *@dh to NULL, which it may be. */
void rdi_auth_dh_cancel(struct rdi_auth_dh **dh);

/* ---- auth.c: a transaction ---- */

/* The transaction of @q, if there is one, is over: the queue is at its end. */
void rdi_auth_stop(struct rdi_queue *q, int err, const char *text);
/*
 * The queue ends with q->err and q->text. If the transaction has failed, and its peer is being
 * told, that is the reason, and the end of the connection only the peer's reaction. A peer that was
 * to check the host's proof may have refused it by closing: the text then says so.
 */
void rdi_auth_explain_end(struct rdi_queue *q);

struct rdi_auth_arg {
	struct rdi_auth_keys *keys; /* referenced until the end */
	const char *hostnqn;        /* must outlive the queue, as must the next */
	const char *subnqn;
	bool demanded;         /* by the controller; for texts */
	rdinit_complete_fn fn; /* NULL: nobody waits; a failure goes to the log */
	void *user;
};

/*
 * What follows from @result, dword 0 of a Connect that succeeded: returns 1 (@arg->fn will be
 * called), 0 (nothing to be done), or -errno with @why. @arg->keys may be NULL.
 */
int rdi_auth_after_connect(struct rdi_queue *q, uint32_t result, const struct rdi_auth_arg *arg,
			   char *why, size_t why_len);

/*
 * The controller wants live @q to authenticate again. Returns whether a transaction is in progress;
 * false: there are no keys, or the last one has just ended.
 */
bool rdi_auth_renew(struct rdi_queue *q, const struct rdi_auth_arg *arg);

/* As the public functions. *@keys: of the handle; replaced if @opts is not NULL. */
int rdi_auth_again(const char *func, struct rdi_queue *q, struct rdi_auth_keys **keys,
		   const struct rdinit_auth_opts *opts, struct rdi_auth_arg *arg);

#endif /* RDI_AUTH_H */
