/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport interface: all that the library knows of the ways to a controller. A transport is
 * one table of operations and a folder beside rdma/; the files above it know queues, requests and
 * SGL-free commands.
 *
 * A queue has a connection of its transport from connect() until drop(). The transport reports what
 * happens to it by the functions at the end, from the loop and never from inside an operation,
 * except where stated.
 */
#ifndef RDI_TRANSPORT_H
#define RDI_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct rd_loop;
struct rdi_env;
struct rdi_queue;
struct rdi_req;
struct rdi_transport_ops;
struct rdinit_ctrl_opts;
struct rdinit_tls_info;

/* What the options of a controller say about its transport; part of a structure of the transport.
 * Never changes; shared with the queue pairs, which may be of other threads. */
struct rdi_transport_cfg {
	const struct rdi_transport_ops *ops;
	_Atomic unsigned int refs;
};

struct rdi_transport_ops {
	const char *name;        /* in texts and JSON: "rdma" */
	uint16_t discovery_port; /* registered for discovery controllers, or 0 */
	uint32_t sgls;           /* bits of SGLS; a controller must have one of them: */
	const char *sgls_text;
	uint32_t max_len; /* bytes of data that an SGL descriptor of a command can have */

	/* ---- a handle ---- */

	/* Copies the transport's part of @o. Returns 0 or -ENOMEM. The name of the target may be
	 * resolved, to find the device that leads to it. */
	int (*cfg_create)(const struct rdi_env *env, const struct rdinit_ctrl_opts *o,
			  const char *traddr, const char *trsvcid, struct rdi_transport_cfg **out);
	void (*cfg_destroy)(struct rdi_transport_cfg *cfg);
	/* Opens on @loop what the queues of a handle share. Returns 0 or -errno, with a text in
	 * @why or NULL there. */
	int (*open)(struct rd_loop *loop, const struct rdi_env *env,
		    const struct rdi_transport_cfg *cfg, void **out, const char **why);
	void (*close)(void *opened);
	const char *(*provider)(const void *opened); /* as in struct rdinit_ctrl_info */

	/* ---- the connection of a queue ---- */

	/* Allocates q->conn, for attempts to connect; q->sqes exists. Returns 0 or -ENOMEM. */
	int (*alloc)(struct rdi_queue *q);
	/* Frees q->conn, which may be NULL, after drop(). */
	void (*release)(struct rdi_queue *q);
	/* Starts an attempt to connect to @addr. Returns 0, and then calls rdi_queue_connecting()
	 * and rdi_queue_established(), or rdi_queue_attempt_failed(); or returns -errno. */
	int (*connect)(struct rdi_queue *q, const struct sockaddr *addr);
	/* Ends the connection or the attempt in an orderly way. rdi_queue_drained() follows, unless
	 * drained() is true already. */
	void (*disconnect)(struct rdi_queue *q);
	/* Whether the connection is over and nothing is left to be counted. */
	bool (*drained)(const struct rdi_queue *q);
	/* Frees all that belongs to an attempt or a connection, in every state of it. After this
	 * the peer can access none of our memory; unmap() may still follow. */
	void (*drop)(struct rdi_queue *q);
	/* Handles what has arrived. */
	void (*poll)(struct rdi_queue *q);
	/* Address of the peer; valid from rdi_queue_established() until drop(). */
	const struct sockaddr_storage *(*remote)(const struct rdi_queue *q);
	/* Bytes of data that one command can transfer on this connection; 0: any number. */
	uint64_t (*max_data)(const struct rdi_queue *q);
	/* What TLS of an established connection uses. NULL: the transport has no TLS. */
	void (*tls_info)(const struct rdi_queue *q, struct rdinit_tls_info *info);

	/* ---- commands ---- */

	/*
	 * Maps the data of @req, completes its SQE by the SGL, unless @how has RDI_AS_IS, and sends
	 * it. @how: enum rdi_how. Calls rdi_req_started() and returns 0, or returns -errno of
	 * rdi_queue_submit() with nothing mapped or sent.
	 */
	int (*send)(struct rdi_queue *q, struct rdi_req *req, unsigned int how);
	/* As send(), for two consecutive commands. When only the first one could be sent, fails the
	 * queue and returns 0. */
	int (*send_pair)(struct rdi_queue *q, struct rdi_req *first, unsigned int how1,
			 struct rdi_req *second, unsigned int how2);
	/* Ends the peer's access to the data of @req, whose req->mapped is not 0, and sets that to
	 * 0; if the command is @done, received data is in the caller's buffer afterwards. */
	void (*unmap)(struct rdi_queue *q, struct rdi_req *req, bool done);
	/*
	 * Registers memory for later commands; *@mr is NULL where that is not needed. dereg() takes
	 * what reg() returned, but not NULL.
	 */
	int (*reg)(struct rdi_queue *q, void *addr, size_t len, void **mr);
	void (*dereg)(struct rdi_queue *q, void *mr);
};

extern const struct rdi_transport_ops rdi_rdma_ops, rdi_tcp_ops;

/* ---- handle.c ---- */

int rdi_transport_cfg_create(const struct rdi_transport_ops *ops, const struct rdi_env *env,
			     const struct rdinit_ctrl_opts *o, const char *traddr,
			     const char *trsvcid, struct rdi_transport_cfg **out);
/* Name of an option that is set in @o and that only the other transport has, or NULL. */
const char *rdi_transport_foreign_opt(const struct rdinit_ctrl_opts *o);
/* Makes @o the options of a connection by TCP or RDMA: those of the other transport are unset. */
void rdi_transport_select(struct rdinit_ctrl_opts *o, bool tcp);
/* Returns @cfg. */
struct rdi_transport_cfg *rdi_transport_cfg_ref(struct rdi_transport_cfg *cfg);
/* NULL is fine. */
void rdi_transport_cfg_unref(struct rdi_transport_cfg **cfg);

/* ---- queue.c: what a transport reports ---- */

/* The address is known to lead somewhere, the peer has been asked. */
void rdi_queue_connecting(struct rdi_queue *q);
/* @depth: entries that the peer grants; 0: as many as asked for. */
void rdi_queue_established(struct rdi_queue *q, uint16_t depth);
/* The attempt failed with @err: @what. Calls drop(), then tries the next address, or fails the
 * queue with the last reason. */
void rdi_queue_attempt_failed(struct rdi_queue *q, int err, const char *what) __attribute__((cold));
/* An established connection is over: @err, for the reason @why. No effect on a queue that has
 * failed. */
void rdi_queue_lost(struct rdi_queue *q, int err, const char *why) __attribute__((cold));
/* drained() may have become true. */
void rdi_queue_drained(struct rdi_queue *q) __attribute__((cold));

/* ---- request.c ---- */

/* Completes @req, to which nothing is due any more: status and result are set. Calls the caller's
 * function, or waits for authentication. */
void rdi_req_complete(struct rdi_queue *q, struct rdi_req *req);

#endif /* RDI_TRANSPORT_H */
