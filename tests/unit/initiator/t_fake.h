/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scripted fabric with a small NVMe target behind it, all in one thread. The target answers the
 * commands a well-behaved one would; a hook takes over what a test is about. It reaches data only
 * through keys, with the checks of a NIC, and counts every violation.
 */
#ifndef T_FAKE_H
#define T_FAKE_H

#include "internal.h"

#define T_DISK_BLOCK  512
#define T_DISK_BLOCKS 16384
#define T_LOG_MAX     256
#define T_CONNS_MAX   32

struct t_conn;
struct t_fake;

/* A command as it arrived: returns true when the hook deals with it. */
typedef bool (*t_hook_fn)(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			  const void *data, size_t len);

struct t_fake {
	/* what the test sets */
	struct rd_fab_caps caps;
	t_hook_fn hook;
	void *hook_arg;
	int connect_err;         /* CONNECT_ERROR with this status */
	uint32_t down;           /* bit n: so for 192.0.2.n, with -ECONNREFUSED */
	int reject_sts;          /* REJECTED with this NVMe/RDMA status */
	uint16_t crqsize;        /* in the accept; 0: what was asked for */
	unsigned int full_after; /* the n-th SEND from now on is not taken; 0: all are */
	bool hold_sends;         /* SEND completions wait for t_release_sends() */
	bool mute;               /* completions do not notify: only looking finds them */
	struct nvme_id_ctrl id;
	struct nvme_id_ctrl_nvm id_nvm;
	uint8_t dlfeat; /* of the namespace */
	uint64_t cap;
	uint32_t csts;
	uint16_t granted; /* I/O queues, 0's based; 3 by default */
	bool invalidate;  /* answer 4Fh with SEND with Invalidate */

	/* what it saw */
	unsigned int mrs, mrs_max; /* registrations alive now, at most */
	unsigned int mrs_made;
	unsigned int conns_made; /* addresses that were resolved, to connect there */
	unsigned int violations; /* accesses a NIC would have refused */
	int last_access;         /* of the last registration for data */
	const void *last_addr;   /* that data was read from or written to */
	struct nvme_sqe log[T_LOG_MAX];
	unsigned int n_log;
	uint8_t priv[2][64]; /* private data of the admin and the last I/O connection */
	uint16_t ird;
	uint32_t cc;
	unsigned char *disk;

	/* inside */
	uint64_t now; /* the virtual clock, ns */
	uint32_t next_key;
	struct t_mr *mr_list;
	struct t_conn *last_conn[2]; /* admin and the last I/O connection alive */
	struct t_conn *conns[T_CONNS_MAX];
};

extern struct t_fake t_fake;       /* reset by t_fake_reset() */
extern const struct rdi_env t_env; /* opens the fake on a virtual clock */

void t_fake_reset(void);
void t_fake_free(void);
void t_advance(struct t_fake *f, unsigned int ms);

/* Answer with @cqe as it is; @len bytes of it. */
void t_send(struct t_conn *conn, const void *cqe, size_t len, uint32_t inv_rkey);
/* Answer @sqe; @status as struct nvme_status. */
void t_answer(struct t_conn *conn, const struct nvme_sqe *sqe, uint64_t result, uint16_t status);
void t_default(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe, const void *data,
	       size_t len);
/* READ and WRITE through the key of @sqe's descriptor. Return false after a violation. */
/* Peers know registered memory by its address and this. */
#define T_SHOWN 0x5000000000000u

bool t_read_host(struct t_fake *f, const struct nvme_sqe *sqe, void *to, size_t len);
bool t_write_host(struct t_fake *f, const struct nvme_sqe *sqe, const void *from, size_t len);
/* The connection to 192.0.2.@n of the I/O queue, or the admin queue; NULL: there is none. */
struct t_conn *t_conn_to(struct t_fake *f, unsigned int n, bool io);
void t_break(struct t_conn *conn, int status); /* the connection is lost */
/* The first of the held SENDs fails; what a device does then besides, t_break() does. */
void t_fail_send(struct t_conn *conn, enum ibv_wc_status status);
void t_release_sends(struct t_conn *conn);
/* The first @n of them by one completion, the last one's. */
void t_release_as_one(struct t_conn *conn, unsigned int n);

/* A connected controller and queue pair on the fake; assert on the way. */
struct rdinit_ctrl *t_ctrl(uint16_t queues);
void t_ctrl_opts(struct rdinit_ctrl_opts *opts, uint16_t queues);
struct rdinit_ctrl *t_ctrl_by(const struct rdinit_ctrl_opts *opts);
struct rdinit_qpair *t_qpair(struct rdinit_ctrl *ctrl, uint16_t size);
extern const struct rdinit_ns t_ns;

/* A completion, kept. */
struct t_done {
	unsigned int calls;
	int err;
	uint16_t status;
	uint64_t result;
	char text[RDI_TEXT];
};
void t_done_fn(void *user, const struct rdinit_completion *c);

#endif /* T_FAKE_H */
