/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scripted fabric with a small NVMe target behind it, in one thread. The target answers commands
 * as a correct target does; a hook handles the commands that a test is about. The fake accesses
 * data only through keys, with the checks of an RDMA device, and counts every violation.
 */
#ifndef T_FAKE_H
#define T_FAKE_H

#include "fabric/fabric.h"
#include "internal.h"

#define T_DISK_BLOCK  512
#define T_DISK_BLOCKS 16384
#define T_LOG_MAX     256
#define T_CONNS_MAX   32

struct t_conn;
struct t_fake;

/* Called for each command that arrives. Returns true if the hook has handled it. */
typedef bool (*t_hook_fn)(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			  const void *data, size_t len);

struct t_fake {
	/* set by the test */
	struct rd_fab_caps caps;
	t_hook_fn hook;
	void *hook_arg;
	int connect_err;         /* CONNECT_ERROR with this status */
	uint32_t down;           /* bit n: the same for 192.0.2.n, with -ECONNREFUSED */
	int reject_sts;          /* REJECTED with this NVMe/RDMA status */
	uint16_t crqsize;        /* in the accept; 0: as requested */
	unsigned int full_after; /* the n-th SEND from now on is refused; 0: none */
	int reg_err;             /* registering memory fails with this */
	bool hold_sends;         /* SEND completions wait for t_release_sends() */
	bool mute;               /* completions are not notified: the user must poll */
	struct nvme_id_ctrl id;
	struct nvme_id_ctrl_nvm id_nvm;
	uint8_t dlfeat;    /* of the namespace */
	uint32_t anagrpid; /* likewise */
	uint16_t mssrl;    /* likewise */
	uint64_t cap;
	uint32_t csts;
	uint16_t granted; /* I/O queues, 0's based; 3 by default */
	bool invalidate;  /* answer 4Fh with SEND with Invalidate */

	/* recorded by the fake */
	unsigned int mrs, mrs_max; /* registrations at present, and the maximum */
	unsigned int mrs_made;
	unsigned int conns_made; /* addresses that were resolved in order to connect */
	unsigned int violations; /* accesses that an RDMA device would have refused */
	int last_access;         /* of the last registration for data */
	const void *last_addr;   /* bytes read or written through that registration */
	struct nvme_sqe log[T_LOG_MAX];
	unsigned int n_log;
	uint8_t priv[2][64]; /* private data of the admin and the last I/O connection */
	uint16_t ird;
	uint32_t cc;
	unsigned char *disk;

	/* internal */
	uint64_t now;  /* the virtual clock, ns */
	uint64_t step; /* by which it moves each time it is read, ns */
	uint32_t next_key;
	struct t_mr *mr_list;
	struct t_conn *last_conn[2]; /* the present admin and last I/O connection */
	struct t_conn *conns[T_CONNS_MAX];
};

extern struct t_fake t_fake;       /* reset by t_fake_reset() */
extern const struct rdi_env t_env; /* opens the fake on a virtual clock */

void t_fake_reset(void);
void t_fake_free(void);
void t_advance(struct t_fake *f, unsigned int ms);

/* Answer with @cqe unchanged; @len bytes of it. */
void t_send(struct t_conn *conn, const void *cqe, size_t len, uint32_t inv_rkey);
/* Answer @sqe with @status, a struct nvme_status. */
void t_answer(struct t_conn *conn, const struct nvme_sqe *sqe, uint64_t result, uint16_t status);
void t_default(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe, const void *data,
	       size_t len);
/* Offset between an address in memory and the address that peers see. */
#define T_SHOWN 0x5000000000000u

/* READ and WRITE through the key of @sqe's descriptor. Return false after a violation. */
bool t_read_host(struct t_fake *f, const struct nvme_sqe *sqe, void *to, size_t len);
bool t_write_host(struct t_fake *f, const struct nvme_sqe *sqe, const void *from, size_t len);
/* Answer @sqe with @data. Returns true, as a hook does that has answered. */
bool t_answer_data(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		   const void *data, size_t len);
/* The connection to 192.0.2.@n of the I/O queue, or of the admin queue; NULL: none. */
struct t_conn *t_conn_to(struct t_fake *f, unsigned int n, bool io);
void t_break(struct t_conn *conn, int status); /* the connection is lost */
/* Fail the first of the held SENDs; t_break() does what a device does in addition. */
void t_fail_send(struct t_conn *conn, enum ibv_wc_status status);
void t_release_sends(struct t_conn *conn);
/* Complete the first @n of them by one completion, that of the last one. */
void t_release_as_one(struct t_conn *conn, unsigned int n);

/* A pointer that is freed with its block; afterwards nothing may be registered. */
#define T_CTRL(ctrl) struct rdinit_ctrl *ctrl __attribute__((cleanup(t_ctrl_cleanup)))
#define T_QPAIR(qp)  struct rdinit_qpair *qp __attribute__((cleanup(rdinit_qpair_free)))
void t_ctrl_cleanup(struct rdinit_ctrl **ctrl);

/* A connected controller and queue pair on the fake. Failures are assertions. */
struct rdinit_ctrl *t_ctrl_new(uint16_t queues); /* on a fake that is reset */
struct rdinit_ctrl *t_ctrl(uint16_t queues);
void t_ctrl_opts(struct rdinit_ctrl_opts *opts, uint16_t queues);
struct rdinit_ctrl *t_ctrl_by(const struct rdinit_ctrl_opts *opts);
struct rdinit_qpair *t_qpair(struct rdinit_ctrl *ctrl, uint16_t size);
extern const struct rdinit_ns t_ns;

/* A completion callback that stores its arguments. */
struct t_done {
	unsigned int calls;
	int err;
	uint16_t status;
	uint64_t result;
	char text[RDI_TEXT];
};
void t_done_fn(void *user, const struct rdinit_completion *c);
/* @done was called once, with @error. */
#define T_ENDED(done, error)                        \
	do {                                        \
		CU_ASSERT_EQUAL((done).calls, 1);   \
		CU_ASSERT_EQUAL((done).err, error); \
	} while (0)

#endif /* T_FAKE_H */
