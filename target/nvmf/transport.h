/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport seam: what lies below a queue pair, between commands and the wire. Commands do not
 * depend on RDMA; unit tests use a fake transport.
 *
 * A transport embeds struct rdt_qpair in its connection object. It passes capsules to
 * rdt_qpair_capsule(), and answers each fetch by rdt_req_fetched() and each respond by
 * rdt_req_responded(), exactly once, also after the connection was lost. Everything runs on the
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

/* A connection that comes from another process. */
struct rdt_moved_in {
	const json_t *rec; /* the record; what is checked of it is below */
	int fd;
	struct rdt_listener *listener;
	struct rdt_peer *peer;
	struct sockaddr_storage local, remote;
	uint16_t qid;
	uint16_t depth;
	uint8_t *bytes; /* that have arrived and not been used */
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

	/*
	 * Read the data pointer of req->sqe: sets req->data_at, req->sgl_len and, for in-capsule
	 * data, req->offset, or returns an error. Called first for each command, before it is
	 * known, so that the answer to a failed one can use what was read.
	 */
	struct nvme_status (*parse_sgl)(struct rdt_req *req);
	/*
	 * Transfer req->data_len bytes from the host, from where its data pointer says, to
	 * req->buf. Transfers start in order, and wait while the maximum of outstanding ones is
	 * reached. rdt_req_fetched() follows, not from within this call.
	 */
	void (*fetch)(struct rdt_req *req);
	/* Cancel a fetch that has not started. True: rdt_req_fetched() will not be called. */
	bool (*fetch_cancel)(struct rdt_req *req);
	/* With @with_data, transfer req->data_len bytes of req->buf to the host first; then send
	 * req->cqe. rdt_req_responded() follows, not from within this call. */
	void (*respond)(struct rdt_req *req, bool with_data);
	/* What the controller of @qp says of the transport in Identify: SGLS, and of an I/O
	 * controller IOCCSZ, ICDOFF and MSDBD. @id is zeroed there. */
	void (*identify)(const struct rdt_qpair *qp, struct nvme_id_ctrl *id);
	/* Of a transport that does not know queue IDs (RDT_QID_ANY): the Connect that is executed
	 * has told it, and qp->admin. May change what the queue uses: rdt_qpair_use_pool(). NULL
	 * for other transports. */
	void (*role)(struct rdt_qpair *qp);
	/* Called once after Connect: qp->share is the share of the host. */
	void (*joined)(struct rdt_qpair *qp);
	/* The memory of the capsule may be used for the next command. Called before the answer,
	 * which lets the host send that. */
	void (*capsule_done)(struct rdt_qpair *qp, struct rdt_capsule *cap);
	/* End the connection. When the transport does not use the queue pair any more,
	 * rdt_qpair_transport_closed() follows, not from within this call. Called once. */
	void (*close)(struct rdt_qpair *qp);
	/* Has the host closed the connection, before that was reported? Not called after
	 * close(). */
	bool (*peer_closed)(const struct rdt_qpair *qp);
	/*
	 * Has something arrived that was not told yet, a part of a command at least? 1, 0, or
	 * -EOPNOTSUPP: that is not known. From within a call of rdt_qpair_capsule() it may be
	 * wrong. Not called after close().
	 */
	int (*unread)(const struct rdt_qpair *qp);
	/*
	 * The hold (hold.h), on and off again. With RDT_HOLD_ENDS nothing is read beyond what the
	 * commands in progress need, and a command of which a part has arrived; with RDT_HOLD_STOP
	 * nothing at all, and no transfer goes on. NULL: commands go on to arrive, and wait.
	 */
	void (*hold)(struct rdt_qpair *qp, enum rdt_hold_how how);
	/* Is nothing of a command or an answer on its way? While @hold is on. */
	bool (*rests)(struct rdt_qpair *qp);
	/*
	 * Puts into @rec what the transport of another process needs to go on with the connection,
	 * which rests: with all that has arrived and not begun (move_bytes.h) as it came. Returns
	 * the descriptor of the socket, which stays the connection's; -EOPNOTSUPP: it cannot move;
	 * or another -errno, which refuses the hand-over. NULL: none can.
	 */
	int (*move_out)(struct rdt_qpair *qp, json_t *rec);
	/* Free the object that embeds @qp. The last call, after rdt_qpair_transport_closed(). */
	void (*destroy)(struct rdt_qpair *qp);
};

/*
 * The seam for targets, listeners and reactors: how a transport accepts connections. Its objects
 * are found by target->transport_state[kind], listener->state and reactor->transport_state[kind].
 * The listeners of a target may have different transports.
 */
struct rdt_transport {
	const char *name;
	enum rdt_transport_kind kind;

	/* Targets: on the main thread. Returns 0 or -errno; close() also follows a failure. */
	int (*open)(struct rdt_target *t);
	/* after the last unlisten, with the reactors stopped */
	void (*close)(struct rdt_target *t);

	/* Listeners: on the main thread. */
	/* Prepare @l for its configuration, which is its first one, or a later one of a listener
	 * that was removed: makes l->state, or uses that again. Returns 0 or -errno. */
	int (*prepare)(struct rdt_listener *l);
	/* Will prepare() choose TCP sockets for a listener with @cfg? NULL: always. */
	bool (*sockets)(const struct rdt_listener_config *cfg);
	void (*forget)(struct rdt_listener *l); /* frees l->state, which may be NULL */
	/*
	 * Listen on the configured address, or on @addr if it is not NULL, or with l->adopt. While
	 * target->listeners_held is set, accept nothing. Each connection is handed to a reactor,
	 * which adopts it and calls rdt_qpair_start(). Returns 0, or -errno with a sentence in
	 * @text.
	 */
	int (*listen)(struct rdt_listener *l, const struct sockaddr *addr, char *text, size_t size);
	/*
	 * While it listens: the socket with which another process can listen there, which remains
	 * the listener's, or -errno; and: accept nothing, or go on. NULL: there is no socket.
	 */
	int (*listen_fd)(const struct rdt_listener *l);
	void (*listen_hold)(struct rdt_listener *l, bool held);
	const char *(*provider)(const struct rdt_listener *l); /* its name, for people */
	/* What a record of the discovery log says of the transport: TRTYPE, TSAS and the secure
	 * channel of TREQ. @l: NULL for
	 * another discovery service; otherwise one that is shown, read by reactors. */
	void (*describe)(const struct rdt_listener *l, struct nvmf_disc_log_entry *e);
	void (*unlisten)(struct rdt_listener *l); /* keeps its connections; may be repeated */

	/* Reactors: on their threads. */
	int (*reactor_init)(struct rdt_reactor *r);
	/* after its last queue pair was freed; also without an init, and after one that failed */
	void (*reactor_fini)(struct rdt_reactor *r);
	/* A few connections are adopted in each turn of the loop: adopt all that were
	 * handed over before this call. */
	void (*reactor_catch_up)(struct rdt_reactor *r);
	/*
	 * Builds the connection of @in, with what move_out() wrote in @in->rec, and starts it; its
	 * qp->moved is set, and until its hold is off it reads nothing. Takes the socket. Returns 0
	 * with @out, or -errno: -EPROTO for a value that cannot be. NULL: it takes none.
	 */
	int (*reactor_move_in)(struct rdt_reactor *r, const struct rdt_moved_in *in,
			       struct rdt_qpair **out);
	/* Adds to the text in @line, each figure as " NAME=VALUE". */
	void (*reactor_status)(const struct rdt_reactor *r, char *line, size_t size);
};

/* Each transport of target @t, with the counter @i. */
#define RDT_FOREACH_TRANSPORT(tr, t, i)                   \
	for (unsigned int i = 0; i < RDT_TRANSPORTS; i++) \
		if (((tr) = (t)->transports[i]))

/* ---- what a transport calls ---- */

/* A command has arrived. Dropped silently if the queue pair takes no commands any more. */
void rdt_qpair_capsule(struct rdt_qpair *qp, struct rdt_capsule *cap);
/* The connection was lost, or the peer violated the transport protocol. May be repeated. */
void rdt_qpair_lost(struct rdt_qpair *qp, enum rdt_end end, const char *reason);
void rdt_qpair_transport_closed(struct rdt_qpair *qp);
/* 0 or -errno; -EBADMSG: the data was damaged on its way */
void rdt_req_fetched(struct rdt_req *req, int err);
void rdt_req_responded(struct rdt_req *req);

#endif /* RDT_TRANSPORT_H */
