/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport that has nothing of RDMA, and the hosts at its other end. A connection is two streams
 * of bytes, which are cut anywhere. It learns from Connect which queue it is. A data pointer names
 * no memory: the target asks for the data of a command, and sends data to it.
 */
#ifndef T_STREAM_H
#define T_STREAM_H

#include "t_target.h"

#define T_STREAM     2u   /* its place in the tables of transports */
#define T_STREAM_SGL 0x5a /* type of data pointers to the data of the command */

struct t_stream_conn;

struct t_stream_bytes {
	uint8_t *p;
	size_t len, room;
};

/* A message, before its body of @len bytes or, in an ASK, of the data that is asked for. */
struct t_stream_head {
	uint8_t type;
	uint8_t zero;
	__le16 cid;
	__le32 offset; /* of the data */
	__le32 len;
};

/* The receiving end of a stream. */
struct t_stream_rx {
	struct t_stream_head head;
	size_t got; /* of @head */
	bool begun; /* begin() has told where the body goes */
	bool stop;
	uint8_t *dst;
	size_t left;
	bool (*begin)(struct t_stream_rx *rx); /* false: not now */
	void (*end)(struct t_stream_rx *rx);
};

struct t_stream_cmd {
	uint8_t *data;
	uint32_t len;
	uint32_t got;
	bool used;
	bool asked;
	bool done;
	struct nvme_cqe cqe;
};

struct t_stream_host {
	struct t_env *env;
	struct t_stream_conn *conn; /* NULL: it has ended */
	struct t_stream_rx rx;
	struct t_stream_cmd cmds[64]; /* by CID */
	uint16_t next_cid;
	bool hold; /* data that is asked for is not sent */
};

/* The transports of an environment: RDMA and this one. t_transports = t_stream_transports; */
extern const struct rdt_transport *const t_stream_transports[RDT_TRANSPORTS];
extern uint32_t t_stream_cuts; /* decides where streams are cut */

/* Begin a connection to @l; a reactor accepts it in the next turn. */
struct t_stream_host *t_stream_connect(struct t_env *env, struct rdt_listener *l);
void t_stream_cut(struct t_stream_host *h); /* the host loses the connection */
void t_stream_host_free(struct t_stream_host *h);
const struct rdt_qpair *t_stream_qpair(const struct t_stream_host *h);
bool t_stream_step(struct t_env *env); /* turns all once; returns whether something moved */
void t_stream_turn(struct t_env *env); /* turns all loops and streams until nothing moves */

/* Fill in a command whose data, of @len bytes, is with it; with @in_capsule in the capsule. */
void t_stream_sqe(struct nvme_sqe *sqe, uint8_t opcode, uint32_t len, bool in_capsule);
/* Send it with a new CID. @data must be valid until it is answered. */
struct t_stream_cmd *t_stream_send(struct t_stream_host *h, const struct nvme_sqe *sqe, void *data,
				   uint32_t len);
/* Send it and wait for the answer; returns the status without DNR. */
uint16_t t_stream_exec(struct t_stream_host *h, const struct nvme_sqe *sqe, void *data,
		       uint32_t len, uint32_t *result);
uint16_t t_stream_status(struct t_stream_cmd *cmd); /* of one that is answered; frees its CID */
/* Raw bytes of a message. */
void t_stream_put(struct t_stream_host *h, uint8_t type, uint16_t cid, uint32_t offset,
		  const void *body, uint32_t len);

enum { T_STREAM_CAPSULE, T_STREAM_ASK, T_STREAM_DATA_OUT, T_STREAM_DATA_IN, T_STREAM_ANSWER };

#endif /* T_STREAM_H */
