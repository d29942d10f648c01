/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DH-HMAC-CHAP of the host (Base 8.13.5): one transaction of a queue. All functions belong to the
 * thread of the queue.
 */
#ifndef RDI_AUTH_H
#define RDI_AUTH_H

#include "internal.h"
#include "secret.h"

/* ---- auth_dh.c: Diffie-Hellman on a thread of its own ---- */

struct rdi_auth_dh;

/* The result of the computation. */
struct rdi_auth_dh_result {
	int rc; /* of nvmf_auth_dh_session() */
	uint8_t value[NVMF_AUTH_DHV_MAX];
	uint8_t session[NVMF_AUTH_HASH_MAX];
};

typedef void (*rdi_auth_dh_fn)(void *arg, const struct rdi_auth_dh_result *result);

/*
 * Starts a thread that makes a key pair and computes the session key with the public value of
 * @peer, which is copied. @fn is called on @loop with the result, which is wiped when @fn returns.
 * Returns 0 or -errno.
 */
int rdi_auth_dh_start(struct rd_loop *loop, const struct nvmf_auth_challenge *peer,
		      rdi_auth_dh_fn fn, void *arg, struct rdi_auth_dh **out);
/* Waits for the computation to finish; @fn is not called after this. Sets *@dh to NULL. *@dh may
 * be NULL. */
void rdi_auth_dh_cancel(struct rdi_auth_dh **dh);

/* ---- auth.c: a transaction ---- */

/* The queue has ended: ends its transaction, if there is one. */
void rdi_auth_stop(struct rdi_queue *q, int err, const char *text);
/*
 * Adds to q->err and q->text of a queue that ends what the transaction knows. If the transaction
 * has failed and the controller is being told, that failure is the reason, and the lost connection
 * only follows from it. If the controller was about to check the host's response, it may have
 * refused it by closing the connection: the text then says so.
 */
void rdi_auth_explain_end(struct rdi_queue *q);

struct rdi_auth_arg {
	struct rdi_auth_keys *keys; /* referenced until the end */
	const char *hostnqn;        /* hostnqn and subnqn must outlive the queue */
	const char *subnqn;
	bool demanded;         /* by the controller; used in error texts */
	rdinit_complete_fn fn; /* NULL: a failure is only logged */
	void *user;
};

/*
 * Decides by @result, dword 0 of a Connect that succeeded, whether to authenticate. Returns 1 (a
 * transaction has started, @arg->fn will be called), 0 (none is needed), or -errno with @why.
 * @arg->keys may be NULL.
 */
int rdi_auth_after_connect(struct rdi_queue *q, uint32_t result, const struct rdi_auth_arg *arg,
			   char *why, size_t why_len);

/*
 * The controller asks the live queue @q to authenticate again. Returns whether a transaction is in
 * progress; false: there are no keys, or the previous transaction ended less than a second ago.
 */
bool rdi_auth_renew(struct rdi_queue *q, const struct rdi_auth_arg *arg);

/* Implements the public functions. *@keys: the keys of the handle; replaced if @opts is not
 * NULL. */
int rdi_auth_again(const char *func, struct rdi_queue *q, struct rdi_auth_keys **keys,
		   const struct rdinit_auth_opts *opts, struct rdi_auth_arg *arg);

#endif /* RDI_AUTH_H */
