/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport interface below a queue pair, between commands and the wire. Commands do not depend
 * on RDMA; unit tests use a fake transport.
 *
 * A transport embeds struct rdt_qpair in its connection object. It passes capsules to
 * rdt_qpair_capsule(), and completes each fetch by rdt_req_fetched() and each response by
 * rdt_req_responded(), exactly once, even after the connection was lost. Everything runs on the
 * reactor of the queue pair.
 */
#ifndef RDT_TRANSPORT_H
#define RDT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include <jansson.h>

#include "nvmf/text.h"
#include "nvmf/wire.h"
#include "target/config/config.h"
#include "io_stats.h"

struct rdt_listener;
struct rdt_peer;
struct rdt_qpair;
struct rdt_reactor;
struct rdt_req;
struct rdt_target;

/* A connection that moves in from another process. */
struct rdt_moved_in {
	const json_t *rec; /* the record; the fields below were checked */
	int fd;
	struct rdt_listener *listener;
	struct rdt_peer *peer;
	struct sockaddr_storage local, remote;
	uint16_t qid;
	uint16_t depth;
	uint8_t *bytes; /* bytes that have arrived and were not used */
	size_t len;
};

/* A received command capsule. The queue pair owns it from rdt_qpair_capsule() to capsule_done(). */
struct rdt_capsule {
	const struct nvme_sqe *sqe;
	uint8_t *data;     /* in-capsule data: the bytes after the SQE */
	uint32_t data_len; /* number of these bytes */
	STAILQ_ENTRY(rdt_capsule) link;
};

enum rdt_hold_how { RDT_HOLD_OFF, RDT_HOLD_ENDS, RDT_HOLD_STOP };

struct rdt_transport_ops {
	const char *name;
	uint8_t trtype; /* NVMF_TRTYPE_ of this transport */

	/* Parse the data pointer of req->sqe: sets req->data_at, req->sgl_len and, for in-capsule
	 * data, req->offset, or returns an error. Called first for each command, before its opcode
	 * is looked up, so that the answer to a failed one can use the result. */
	struct nvme_status (*parse_sgl)(struct rdt_req *req);
	/* Transfer req->data_len bytes from the host, from the location in its data pointer, to
	 * req->buf. Transfers start in order, and wait while the maximum number is in progress.
	 * rdt_req_fetched() follows, not from within this call. */
	void (*fetch)(struct rdt_req *req);
	/* Cancel a fetch that has not started. True: rdt_req_fetched() will not be called. */
	bool (*fetch_cancel)(struct rdt_req *req);
	/* With @with_data, first transfer req->data_len bytes of req->buf to the host; then send
	 * req->cqe. rdt_req_responded() follows, not from within this call. */
	void (*respond)(struct rdt_req *req, bool with_data);
	/* Fill in the transport's fields of Identify Controller: SGLS and, for an I/O controller,
	 * IOCCSZ, ICDOFF and MSDBD. They are zeroed before. */
	void (*identify)(const struct rdt_qpair *qp, struct nvme_id_ctrl *id);
	/* For transports that do not know queue IDs (RDT_QID_ANY), otherwise NULL: the Connect that
	 * is executed has set the queue ID and qp->admin. May change what the queue uses:
	 * rdt_qpair_use_pool(). */
	void (*role)(struct rdt_qpair *qp);
	/* Called once after Connect: qp->share is the share of the host. */
	void (*joined)(struct rdt_qpair *qp);
	/* The memory of the capsule may be used for the next command. Called before the answer,
	 * because that lets the host send the next command. */
	void (*capsule_done)(struct rdt_qpair *qp, struct rdt_capsule *cap);
	/* End the connection. When the transport no longer uses the queue pair,
	 * rdt_qpair_transport_closed() follows, not from within this call. Called once. */
	void (*close)(struct rdt_qpair *qp);
	/* Returns whether the host has closed the connection, even if that was not reported yet.
	 * Not called after close(). */
	bool (*peer_closed)(const struct rdt_qpair *qp);
	/* Returns 1 if at least a part of a command has arrived that was not passed to the queue
	 * pair, 0 if not, or -EOPNOTSUPP if that is not known. May be wrong within a call of
	 * rdt_qpair_capsule(). Not called after close(). */
	int (*unread)(const struct rdt_qpair *qp);
	/* Begin or end a hold (hold.h). With RDT_HOLD_ENDS, receive only what commands in progress
	 * need, and the rest of a command that has partly arrived; with RDT_HOLD_STOP nothing at
	 * all, and no transfer continues. NULL: commands still arrive, and wait. */
	void (*hold)(struct rdt_qpair *qp, enum rdt_hold_how how);
	/* While held: returns whether no part of a command or answer is on its way. */
	bool (*rests)(struct rdt_qpair *qp);
	/*
	 * Write to @rec what the transport of another process needs to continue the connection,
	 * which is at rest, including all that has arrived and not begun (move_bytes.h), unchanged.
	 * Returns the descriptor of the socket, which the connection keeps; -EOPNOTSUPP: it cannot
	 * move; or another -errno, which refuses the hand-over. NULL: no connection can move.
	 */
	int (*move_out)(struct rdt_qpair *qp, json_t *rec);
	/* Free the object that embeds @qp. The last call, after rdt_qpair_transport_closed(). */
	void (*destroy)(struct rdt_qpair *qp);
};

/* The interface for targets, listeners and reactors: how a transport accepts connections. Its
 * objects are target->transport_state[kind], listener->state and reactor->transport_state[kind].
 * The listeners of a target may have different transports. */
struct rdt_transport {
	const char *name;
	enum rdt_transport_kind kind;

	/* Targets: on the main thread. Returns 0 or -errno; close() is called after a failure
	 * too. */
	int (*open)(struct rdt_target *t);
	/* after the last unlisten, with the reactors stopped */
	void (*close)(struct rdt_target *t);

	/* Listeners: on the main thread. */
	/* Prepare @l for its configuration, which may be a new one for a listener that was removed:
	 * create l->state, or use it again. Returns 0 or -errno. */
	int (*prepare)(struct rdt_listener *l);
	/* Returns whether prepare() will use TCP sockets for a listener with @cfg. NULL: always. */
	bool (*sockets)(const struct rdt_listener_config *cfg);
	void (*forget)(struct rdt_listener *l); /* frees l->state, which may be NULL */
	/*
	 * Listen on the configured address, or on @addr if it is not NULL, or with l->inherited_fd.
	 * While target->listeners_held is set, accept nothing. Each connection is handed to a
	 * reactor, which accepts it and calls rdt_qpair_start(). Returns 0, or -errno with a
	 * sentence in
	 * @text.
	 */
	int (*listen)(struct rdt_listener *l, const struct sockaddr *addr, char *text, size_t size);
	/* While it listens: return the socket with which another process can listen there, and
	 * which the listener keeps, or -errno; and: pause or continue accepting connections. NULL:
	 * there is no socket. */
	int (*listen_fd)(const struct rdt_listener *l);
	void (*listen_hold)(struct rdt_listener *l, bool held);
	const char *(*provider)(const struct rdt_listener *l); /* for log lines and status pages */
	/* Fill in the transport's fields of a discovery log entry: TRTYPE, TSAS and the secure
	 * channel of TREQ. @l: NULL for another discovery service; otherwise a listener that is
	 * shown, read by reactors. */
	void (*describe)(const struct rdt_listener *l, struct nvmf_disc_log_entry *e);
	void (*unlisten)(struct rdt_listener *l); /* keeps its connections; may be repeated */

	/* Reactors: on their threads. */
	int (*reactor_init)(struct rdt_reactor *r);
	/* called after its last queue pair was freed; also without reactor_init(), or after its
	 * failure */
	void (*reactor_fini)(struct rdt_reactor *r);
	/* Accept all connections that were handed over before this call, instead of a few in each
	 * loop iteration. */
	void (*reactor_catch_up)(struct rdt_reactor *r);
	/*
	 * Build the connection of @in from what move_out() wrote to @in->rec, and start it; its
	 * qp->moved is set, and it receives nothing until its hold ends. Takes over the socket.
	 * Returns 0 with @out, or -errno; -EPROTO: a value is invalid. NULL: connections cannot
	 * move in.
	 */
	int (*reactor_move_in)(struct rdt_reactor *r, const struct rdt_moved_in *in,
			       struct rdt_qpair **out);
	/* Append figures to the text in @line, each as " NAME=VALUE". */
	void (*reactor_status)(const struct rdt_reactor *r, char *line, size_t size);
};

/* Iterate over the transports of target @t, with the counter @i. */
#define RDT_FOREACH_TRANSPORT(tr, t, i)                   \
	for (unsigned int i = 0; i < RDT_TRANSPORTS; i++) \
		if (((tr) = (t)->transports[i]))

/* ---- called by transports ---- */

/* A command has arrived. It is dropped silently if the queue pair accepts no commands any more. */
void rdt_qpair_capsule(struct rdt_qpair *qp, struct rdt_capsule *cap);
/* The connection was lost, or the peer violated the transport protocol. May be repeated. */
void rdt_qpair_lost(struct rdt_qpair *qp, enum rdt_end end, const char *reason);
void rdt_qpair_transport_closed(struct rdt_qpair *qp);
/* 0 or -errno; -EBADMSG: the data was damaged on its way */
void rdt_req_fetched(struct rdt_req *req, int err);
void rdt_req_responded(struct rdt_req *req);

#endif /* RDT_TRANSPORT_H */
