/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: a command from the arrival of its capsule until its answer was sent. */
#ifndef RDT_REQUEST_H
#define RDT_REQUEST_H

#include <assert.h>
#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/loop.h"
#include "nvmf/text.h"
#include "nvmf/wire.h"
#include "target/bdev/backend.h"
#include "pool.h"
#include "qpair.h"
#include "range_lock.h"
#include "reactor.h"
#include "target/nvmf/base/req_state.h"
#include "target/resv/reservation.h"
#include "transport.h"

struct rdt_ns;
struct rdt_ns_channel;
struct rdt_qos_queue;
struct rdt_req_pool;
struct rdt_resv_part;
struct rdt_subsys;
struct rdt_target;

enum rdt_dir { /* data direction, opcode bits 1:0 */
	       RDT_DIR_NONE = 0,
	       RDT_DIR_H2C = 1,
	       RDT_DIR_C2H = 2,
	       RDT_DIR_BIDI = 3,
};

enum rdt_exec {
	RDT_EXEC_DONE,    /* req->status is set */
	RDT_EXEC_PENDING, /* rdt_req_complete() will follow, from the loop */
};

#define RDT_CMD_DISC            0x01u /* also supported by discovery controllers */
#define RDT_CMD_LONGER_SGL      0x02u /* the SGL may describe more data than the command uses */
#define RDT_CMD_WRITES          0x04u /* may change blocks: refused in write-protected namespaces */
#define RDT_CMD_BLOCKS          0x08u /* has SLBA and NLB in CDW10 to CDW12 */
#define RDT_CMD_UNAUTHENTICATED 0x10u /* also allowed before authentication */

/* Effects in the Commands Supported and Effects log. I/O commands have none with a scope, because
 * Linux (nvme_command_effects(), 6.1) logs a warning for every bit that it does not expect. */
#define RDT_EFFECTS_WRITES ((uint32_t)NVME_CMD_EFFECTS_LBCC)
#define RDT_EFFECTS_NS     (1u << 20) /* scope: namespace */
#define RDT_EFFECTS_CTRL   (1u << 21) /* scope: controller */
#define RDT_EFFECTS_SUBSYS (1u << 25) /* scope: NVM subsystem */

struct rdt_cmd {
	uint8_t flags;
	uint16_t oncs;    /* its bit in ONCS of Identify Controller */
	uint32_t effects; /* RDT_EFFECTS_ and NVME_CMD_EFFECTS_, without CSUPP */
	/* Returns whether all namespaces of @ss support it: ONCS and the log of effects apply to a
	 * whole controller. NULL: always. */
	bool (*supported)(const struct rdt_subsys *ss);
	/* Validate the command: returns an error, or sets req->data_len. Called before a buffer is
	 * allocated or data is transferred. */
	struct nvme_status (*check)(struct rdt_req *req);
	enum rdt_exec (*exec)(struct rdt_req *req);
	/* Execute the fused pair whose first command is @first. NULL: the command cannot be
	 * fused. */
	enum rdt_exec (*exec_fused)(struct rdt_req *first);
};

/* Returns whether @cmd is in its table, and controllers of @ss support it. */
bool rdt_cmd_supported(const struct rdt_cmd *cmd, const struct rdt_subsys *ss);

/* DH-HMAC-CHAP of queue pairs: nvmf/auth/. Called on the reactor of @qp. */
struct rdt_auth_ops {
	/* The Connect of @qp succeeded: returns whether it must authenticate before it is used. */
	bool (*required)(struct rdt_qpair *qp);
	/* Limits the time until the next step of @qp, which has entered RDT_QP_AUTH or
	 * authenticates. */
	void (*await)(struct rdt_qpair *qp);
	/* @qp closes: cancels its computation if no thread has begun it, and its delay after
	 * failures. */
	void (*hang_up)(struct rdt_qpair *qp);
	void (*fini)(struct rdt_qpair *qp); /* @qp is being freed; may be repeated */
};

/* Command tables by opcode or FCTYPE, 256 entries each. An entry without @exec is not supported. */
struct rdt_cmd_tables {
	const struct rdt_cmd *fabrics;
	const struct rdt_cmd *admin;
	const struct rdt_cmd *io;
	const struct rdt_auth_ops *auth;
};

/* An Abort command on its way to the reactor of the queue that it names, and back. */
struct rdt_abort {
	struct rd_msg msg;
	struct rdt_qpair *qp; /* the queue of the victim */
	struct rdt_req *req;  /* the Abort command itself */
	struct rdt_req *victim;
	struct rd_timer timer; /* on the victim's loop */
	uint16_t cid;
	bool aborted; /* the outcome */
};

/* A reservation command on its way to the main thread and back. */
struct rdt_resv_cmd {
	struct rd_msg msg;
	STAILQ_ENTRY(rdt_resv_cmd) link;
	bool report;
	struct rdt_resv_op op;
	struct nvme_status status; /* the outcome */
};

/* What an executing I/O command waits for, which determines how it can be ended early. */
enum rdt_wait {
	RDT_WAIT_NONE,    /* nothing, or a range lock: then range.state is RDT_RANGE_WAITING */
	RDT_WAIT_BIO,     /* @bio is in the backend */
	RDT_WAIT_OLD_BIO, /* the same, since before the last check of stall.c */
	RDT_WAIT_SCRATCH, /* it waits for the scratch pool */
	RDT_WAIT_EXTENTS, /* its host has another query for extents: slices.h */
	RDT_WAIT_SLICE,   /* it continues in a later loop iteration: slices.h */
	RDT_WAIT_GATE,    /* @bio waits for the process before this one: gate.h */
};

enum rdt_step;
struct rdt_io_range;

/* Progress of an I/O command of several steps (io.c). */
struct rdt_work {
	uint16_t index; /* next range of a list */
	uint32_t nsid;  /* next namespace */
	uint64_t lba;   /* next block */
	union {
		uint64_t dst;  /* Copy: destination block */
		uint64_t next; /* Get LBA Status: the first block whose state is not known */
	};
	uint64_t end;    /* Get LBA Status: end of the range */
	uint32_t left;   /* Copy: blocks left in the range. Get LBA Status: descriptors so far */
	uint32_t blocks; /* blocks of the current piece */
	void *scratch;
	struct rdt_io_range *ranges; /* validated copy of a list of ranges: rdt_io_ranges() */
	enum rdt_step (*step)(struct rdt_req *req); /* NULL: the command has a single step */
	uint8_t phase;
	bool changed; /* one of its bios has changed blocks */
	bool extents; /* it is its host's current query for extents: slices.h */
};

/* Where the data of a command is, according to its data pointer. */
enum rdt_data_at {
	RDT_DATA_AT_HOST, /* at the host: the transport transfers it */
	/* the same, and the command must use exactly @sgl_len bytes */
	RDT_DATA_AT_HOST_WHOLE,
	RDT_DATA_IN_CAPSULE,
};

/* The fields before @cqe.sqhd are zeroed when a request begins. They are kept to 80 bytes, because
 * compilers clear these with five stores and more with a loop. Fields used by every command follow;
 * rarely used ones are at the end. */
struct rdt_req {
	const struct rdt_cmd *cmd;
	void *buf;
	void *pool_buf; /* contains @buf, and is returned at the end. NULL for in-capsule data */
	struct rdt_req *partner; /* the other command of a fused pair */
	struct rdt_abort *aborter;
	uint64_t err_lba;
	uint32_t data_len;
	uint32_t sgl_len;
	struct nvme_status status;
	uint8_t data_at; /* enum rdt_data_at */
	uint8_t wait;    /* enum rdt_wait */
	bool watched;    /* its state changes are logged or timed */
	bool waited;     /* it has waited since it was parsed: checked again before execution */
	uint8_t limiters_passed; /* number of limiters passed: of the host, of the namespace */
	struct nvme_cqe cqe;

	uint32_t magic;
	uint16_t index;   /* index in qp->reqs; may change when other requests end */
	uint16_t err_loc; /* Parameter Error Location: byte, bit << 8; 0xffff: none */
	uint8_t state;    /* enum rdt_req_state; rdt_req_move() */
	uint8_t dir;      /* enum rdt_dir */
	bool timed;       /* its latency is measured */
	uint64_t offset;  /* in-capsule data: offset after the SQE */
	uint64_t arrived; /* arrival time in ns; 0: not an I/O command, so it is not counted */
	struct rdt_qpair *qp;
	struct rdt_capsule *cap;        /* until its in-capsule data is used */
	struct rdt_ns *ns;              /* set by rdt_ns_take(), released at the end */
	struct rdt_ns_channel *channel; /* the channel of @ns, valid as long as that */
	struct rdt_req_pool *home;
	SLIST_ENTRY(rdt_req) next; /* home->free */
	struct nvme_sqe sqe;
	struct rdt_bio bio;

	/* The last fields of @work and the first ones of @range are reset for each command. */
	struct rdt_work work;
	struct rdt_range_lock range;
	struct rdt_pool *pool;     /* the pool of pool_buf, or for which it waits */
	struct rdt_account *payer; /* the account of pool_buf */
	uint32_t pool_len;
	TAILQ_ENTRY(rdt_req)
	link; /* for the only queue in which it can be: fence, limiter, account or transport */
	struct rdt_qos_queue *queue; /* LIMITED: the queue */
	struct rdt_resv_part *fence; /* the Preempt and Abort that waits for its end, or NULL */
	struct rdt_resv_cmd resv;    /* for reservation commands */
	struct rdt_abort abort;      /* for Abort commands */
	uint64_t limited_at;         /* LIMITED: since this time, in ns */
	uint64_t began, since;       /* if @timed: when NEW and the current state began, in ns */
};
_Static_assert(offsetof(struct rdt_req, cqe.sqhd) <= 80, "cleared with five stores");

static inline uint16_t rdt_sqe_cid(const struct rdt_req *req)
{
	return le16toh(req->sqe.cid);
}

static inline struct rdt_target *rdt_req_target(const struct rdt_req *req)
{
	return req->qp->reactor->target;
}

static inline bool rdt_req_fetching(const struct rdt_req *req)
{
	return req->state == RDT_REQ_FETCHING || req->state == RDT_REQ_FETCH_ENDING;
}

/* Returns whether it is in an executing state, with or without a request to end early. */
static inline bool rdt_req_executing(const struct rdt_req *req)
{
	return req->state >= RDT_REQ_EXECUTING && req->state <= RDT_REQ_NS_GONE;
}

/* request.c */
void rdt_req_init(struct rdt_req *req); /* @req is zeroed */
void rdt_req_fini(const struct rdt_req *req);
/* Begin a command with @req, which is FREE and on no list. */
void rdt_req_begin(struct rdt_qpair *qp, struct rdt_req *req, struct rdt_capsule *cap);
void rdt_req_process(struct rdt_req *req);
/* Called for a watched request that is about to leave its state. */
void rdt_req_report_state(struct rdt_req *req, enum rdt_req_state next);
/* The only function that changes req->state. */
static inline void rdt_req_move(struct rdt_req *req, enum rdt_req_state next)
{
	assert(rdt_req_may_move(req->state, next));
	if (__builtin_expect(req->watched, 0))
		rdt_req_report_state(req, next);
	req->state = (uint8_t)next;
}
/* @req, FENCED or LIMITED, was removed from its queue: continue. */
void rdt_req_resume(struct rdt_req *req);
/* Move @req to NEED_BUFFER, and further if a buffer is free. The caller then calls
 * rdt_req_process(). */
void rdt_req_need_buffer(struct rdt_req *req);
/* Called by the pool with the buffer that @req waited for */
void rdt_req_buffer(struct rdt_req *req, void *buf);
/* Returns whether @req, which has waited, may still execute; otherwise req->status is set. */
bool rdt_req_revalidate(struct rdt_req *req);
void rdt_req_complete(struct rdt_req *req);        /* ends the execution; req->status is set */
void rdt_req_release_capsule(struct rdt_req *req); /* its in-capsule data is no longer needed */
/* drops @req, which is EXECUTING and to which only the caller refers */
void rdt_req_drop(struct rdt_req *req);

/* End @req early in any state. If nothing else holds it, it ends at once; otherwise it ends as soon
 * as it is returned, and succeeds if all of its work is done by then. Only rdt_req_abort() returns
 * a result. */
enum rdt_abort_result {
	RDT_ABORT_NO,   /* too late, or it cannot be stopped: it continues */
	RDT_ABORT_YES,  /* it has ended with Command Abort Requested */
	RDT_ABORT_LATER /* it was asked to stop; its status tells the outcome */
};
enum rdt_abort_result rdt_req_abort(struct rdt_req *req); /* its host sent an Abort command */
void rdt_req_preempt(struct rdt_req *req);                /* another host sent Preempt and Abort */
void rdt_req_ns_gone(struct rdt_req *req);                /* its namespace is removed */
void rdt_req_hang_up(struct rdt_req *req);                /* its connection ends: no answer */

struct nvme_status rdt_req_fail(struct rdt_req *req, unsigned int sct, unsigned int sc,
				unsigned int loc);
#define RDT_LOC_NONE   0xffffu
#define RDT_LOC(field) ((unsigned int)offsetof(struct nvme_sqe, field))

/* Iterate over the requests of @qp in use. The body may end requests and begin others; new ones may
 * be skipped. rdt_qpair_put() moves only the last request, to an index that was already visited or
 * is visited later, so a request may be visited twice. */
#define RDT_FOREACH_REQ(req, qp) \
	for (unsigned int i_ = (qp)->used; rdt_qpair_each((qp), &i_, &(req));)
static inline bool rdt_qpair_each(const struct rdt_qpair *qp, unsigned int *i, struct rdt_req **req)
{
	if (*i > qp->used)
		*i = qp->used;
	if (*i == 0)
		return false;
	*req = qp->reqs[--*i];
	return true;
}

/* sgl.c: common parts of the transports' parse_sgl() */
struct nvme_status rdt_sgl_no_psdt(struct rdt_req *req);
static inline bool rdt_sgl_has_psdt(const struct rdt_req *req)
{
	return (req->sqe.flags & NVME_CMD_PSDT_MASK) == NVME_CMD_PSDT_SGL;
}
struct nvme_status rdt_sgl_bad_type(struct rdt_req *req, bool known);
static inline struct nvme_status rdt_sgl_in_capsule(struct rdt_req *req)
{
	req->data_at = RDT_DATA_IN_CAPSULE;
	req->offset = le64toh(req->sqe.sgl.data.offset);
	req->sgl_len = le32toh(req->sqe.sgl.data.length);
	return NVME_OK;
}
#define RDT_LOC_SGL      RDT_LOC(sgl)
#define RDT_LOC_SGL_LEN  (RDT_LOC_SGL + 8)
#define RDT_LOC_SGL_TYPE (RDT_LOC_SGL + 15)

struct nvme_status rdt_sgl_match_other(struct rdt_req *req);
/* The length of the command is known: check that the descriptor describes exactly that length or,
 * where allowed, more. */
static inline struct nvme_status rdt_sgl_match(struct rdt_req *req)
{
	if (req->sgl_len == req->data_len && req->data_at != RDT_DATA_IN_CAPSULE)
		return NVME_OK;
	return rdt_sgl_match_other(req);
}

/* The Abort command. It finds its victim on the reactor of the queue that it names. */

#define RDT_ABORT_TIMEOUT (1 * RD_NSEC_PER_SEC)

struct nvme_status rdt_abort_check(struct rdt_req *req);
enum rdt_exec rdt_abort_exec(struct rdt_req *req);
/* @victim has ended, and an Abort command waits for it */
void rdt_abort_victim_done(struct rdt_req *victim);

#endif /* RDT_REQUEST_H */
