/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What lies below a queue pair: the seam between commands and the wire. Commands know no RDMA; a
 * unit test puts a fake here.
 *
 * A transport embeds struct rdt_qpair in its own connection object. It hands in capsules with
 * rdt_qpair_capsule(), and answers each fetch with rdt_req_fetched() and each respond with
 * rdt_req_responded(), exactly once, also when the connection broke. All of it happens on the
 * reactor of the queue pair.
 */
#ifndef RDT_TRANSPORT_H
#define RDT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "nvmf/wire.h"

struct rdt_listener;
struct rdt_qpair;
struct rdt_reactor;
struct rdt_req;
struct rdt_status_line;
struct rdt_target;
struct sockaddr;

/* A received command capsule. It belongs to the queue pair from rdt_qpair_capsule() to
 * capsule_done(). */
struct rdt_capsule {
	const struct nvme_sqe *sqe;
	uint8_t *data;     /* in-capsule data: whatever followed the SQE */
	uint32_t data_len; /* bytes received there */
	STAILQ_ENTRY(rdt_capsule) link;
};

struct rdt_transport_ops {
	const char *name;

	/*
	 * Move req->data_len bytes from the host (req->raddr, req->rkey; with req->descs the parts
	 * of rdt_req_sgl(), one behind the other) to req->buf. Starts in order; waits while the
	 * wire's limit of outstanding fetches is reached. rdt_req_fetched() follows, never from
	 * inside.
	 */
	void (*fetch)(struct rdt_req *req);
	/* Take back a fetch of which nothing has started. True: rdt_req_fetched() will not be
	 * called. */
	bool (*fetch_cancel)(struct rdt_req *req);
	/*
	 * With @with_data, move req->data_len bytes of req->buf to the host; then send req->cqe.
	 * rdt_req_responded() follows, never from inside.
	 */
	void (*respond)(struct rdt_req *req, bool with_data);
	/* It is known whose connection this is: qp->share. Once, after Connect. */
	void (*joined)(struct rdt_qpair *qp);
	/* The capsule's memory may receive the next command. */
	void (*capsule_done)(struct rdt_qpair *qp, struct rdt_capsule *cap);
	/*
	 * End the connection. rdt_qpair_transport_closed() follows, never from inside, once nothing
	 * of this queue pair is left in the transport's hands. Called once.
	 */
	void (*close)(struct rdt_qpair *qp);
	/* Has the host ended the connection, although that has not been reported yet? Not after
	 * close. */
	bool (*peer_closed)(const struct rdt_qpair *qp);
	/* Free the object that embeds @qp. After rdt_qpair_transport_closed(); the last call. */
	void (*destroy)(struct rdt_qpair *qp);
};

/* The same seam for listeners and reactors: how a transport accepts connections. */
struct rdt_transport {
	const char *name;

	/* Listeners: on the main thread. */
	void (*choose)(struct rdt_listener *l); /* the provider that serves it */
	/* Listen at its configured address, or at @addr when that is not NULL. A connection that
	 * comes is handed to a reactor, which adopts it: rdt_qpair_start(). Returns 0, or -errno
	 * with a sentence for people in @text. */
	int (*listen)(struct rdt_listener *l, const struct sockaddr *addr, char *text, size_t size);
	void (*tell)(const struct rdt_listener *l); /* logs where it listens */
	void (*unlisten)(struct rdt_listener *l);   /* its connections stay; may be repeated */
	void (*close)(struct rdt_target *t); /* nobody listens any more, the reactors stand */

	/* Reactors: on their threads. */
	int (*reactor_init)(struct rdt_reactor *r);
	void (*reactor_fini)(struct rdt_reactor *r); /* after its last queue pair */
	void (*reactor_status)(const struct rdt_reactor *r, struct rdt_status_line *line);
};

/* ---- what a transport calls ---- */

/* A command has arrived. Dropped without an answer when the queue pair no longer takes commands. */
void rdt_qpair_capsule(struct rdt_qpair *qp, struct rdt_capsule *cap);
/* The connection is lost, or the peer broke the transport's rules. Idempotent. */
void rdt_qpair_lost(struct rdt_qpair *qp, const char *reason);
void rdt_qpair_transport_closed(struct rdt_qpair *qp);
void rdt_req_fetched(struct rdt_req *req, int err); /* 0 or -errno */
void rdt_req_responded(struct rdt_req *req);

#endif /* RDT_TRANSPORT_H */
