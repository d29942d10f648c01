/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: one command on its way from its capsule to its answer. */
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
#include "req_state.h"
#include "target/resv/reservation.h"
#include "transport.h"

struct rdt_listener;
struct rdt_ns;
struct rdt_ns_channel;
struct rdt_qos_queue;
struct rdt_resv_part;
struct rdt_target;
struct rdt_target_config;

enum rdt_dir { /* opcode bits 1:0, data direction */
	       RDT_DIR_NONE = 0,
	       RDT_DIR_H2C = 1,
	       RDT_DIR_C2H = 2,
	       RDT_DIR_BIDI = 3,
};

enum rdt_exec {
	RDT_EXEC_DONE,    /* req->status is set */
	RDT_EXEC_PENDING, /* rdt_req_complete() will follow, from the loop */
};

#define RDT_CMD_DISC       0x01u /* a discovery controller has it too */
#define RDT_CMD_LONGER_SGL 0x02u /* the data descriptor may describe more than is used */
#define RDT_CMD_WRITES     0x04u /* it may change blocks: refused where that is protected */
#define RDT_CMD_BLOCKS     0x08u /* SLBA and NLB in CDW10 to 12 */

struct rdt_cmd {
	const char *name;
	uint8_t flags;
	/* Parse: refuse, or set req->data_len. Before any buffer is taken or data moved. */
	struct nvme_status (*check)(struct rdt_req *req);
	enum rdt_exec (*exec)(struct rdt_req *req);
	/* As the first half of a fused pair: execute both. Only of those that can be one. */
	enum rdt_exec (*exec_fused)(struct rdt_req *first);
};

/* The commands by opcode, or by FCTYPE: 256 of each. An entry without @exec is not supported. */
struct rdt_cmd_tables {
	const struct rdt_cmd *fabrics;
	const struct rdt_cmd *admin;
	const struct rdt_cmd *io;
};

/* An Abort on its way to the reactor of the queue it names, and back. */
struct rdt_abort {
	struct rd_msg msg;
	struct rdt_qpair *qp; /* where to look */
	struct rdt_req *req;  /* the Abort command itself */
	struct rdt_req *victim;
	struct rd_timer timer; /* on the victim's loop */
	uint16_t cid;
	bool aborted; /* the answer */
};

/* A reservation command on its way to the main thread and back. */
struct rdt_resv_cmd {
	struct rd_msg msg;
	STAILQ_ENTRY(rdt_resv_cmd) link;
	bool report;
	struct rdt_resv_op op;
	struct nvme_status status; /* the answer */
};

/* What an I/O command that executes waits for, as far as it can be told to end early. */
enum rdt_wait {
	RDT_WAIT_NONE,    /* or for its blocks: range.state is RDT_RANGE_WAITING */
	RDT_WAIT_BIO,     /* @bio is in the backend */
	RDT_WAIT_SCRATCH, /* it is on the queue of the pool of scratch buffers */
};

enum rdt_step;
struct rdt_io_range;

/* Where an I/O command of several steps is (io.c). */
struct rdt_work {
	uint16_t index;  /* range of a list, */
	uint32_t nsid;   /* namespace, */
	uint64_t lba;    /* and block that come next */
	uint64_t dst;    /* Copy: where to */
	uint32_t left;   /* Copy: blocks of the range */
	uint32_t blocks; /* of the piece in progress */
	void *scratch;
	struct rdt_io_range *ranges;                /* a list, as it was checked: rdt_io_ranges() */
	enum rdt_step (*step)(struct rdt_req *req); /* NULL: it has none */
	uint8_t phase;
};

/* A keyed descriptor of a list. */
struct rdt_sgl_desc {
	uint64_t addr;
	uint32_t key;
	uint32_t len; /* not 0 */
};

/*
 * What comes before @cqe.sqhd is zeroed when the request begins, and kept short: compilers clear 80
 * bytes with five stores, and a few more with a loop. Then comes what every command needs, and what
 * few do at the end.
 */
struct rdt_req {
	const struct rdt_cmd *cmd;
	void *buf;
	void *pool_buf;       /* given back in the end; NULL for in-capsule data. buf is in it */
	struct rdt_req *mate; /* the other half of a fused pair */
	struct rdt_abort *aborter;
	uint64_t err_lba;
	uint32_t data_len;
	uint32_t sgl_len;
	struct nvme_status status;
	uint8_t sgl_type;
	uint8_t descs;   /* keyed descriptors in rdt_req_sgl(); 0: one, and raddr and rkey say it */
	bool invalidate; /* the host asked for remote invalidation of rkey */
	uint8_t wait;    /* enum rdt_wait */
	bool watched;    /* the log or the timing want to know each state */
	bool waited;     /* since it was parsed: look again before it begins */
	uint8_t limiters_passed; /* of limits: its host's, its namespace's */
	struct nvme_cqe cqe;

	uint32_t magic;
	uint16_t index;   /* in qp->reqs; not the same for all of its life */
	uint16_t err_loc; /* parameter error location: byte, bit << 8; 0xffff: none */
	uint8_t state;    /* enum rdt_req_state; rdt_req_move() */
	uint8_t dir;      /* enum rdt_dir */
	bool timed;       /* for the times in each state */
	uint32_t rkey;
	uint64_t raddr; /* keyed: host address; in-capsule: offset */
	struct rdt_qpair *qp;
	struct rdt_capsule *cap;        /* held until its in-capsule data has been used */
	struct rdt_ns *ns;              /* held from rdt_ns_take() until the request is finished */
	struct rdt_ns_channel *channel; /* of @ns; valid while it is held */
	SLIST_ENTRY(rdt_req) next;      /* pool->free */
	struct nvme_sqe sqe;
	struct rdt_bio bio;

	struct rdt_work work; /* its end and the start of @range are reset for each command */
	struct rdt_range_lock range;
	struct rdt_pool *pool;     /* of pool_buf, or waited for */
	struct rdt_account *payer; /* of pool_buf */
	uint32_t pool_len;
	TAILQ_ENTRY(rdt_req)
	link; /* of the one queue that it waits on: the fence's, of a limit, of
	       * an account, or the transport's */
	struct rdt_qos_queue *queue; /* LIMITED: where it waits */
	struct rdt_resv_part *fence; /* the Preempt and Abort that waits for its end, or NULL */
	struct rdt_resv_cmd resv;    /* of a reservation command */
	struct rdt_abort abort;      /* of an Abort command */
	struct rdt_sgl_desc *sgl;    /* [qp->msdbd], of all the same; made when a list comes */
	uint64_t began, since;       /* timed: when it became NEW, and what it is now */
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

/* Is it the command's, whether it is to end early or not? */
static inline bool rdt_req_executing(const struct rdt_req *req)
{
	return req->state >= RDT_REQ_EXECUTING && req->state <= RDT_REQ_NS_GONE;
}

/* request.c */
void rdt_req_init(struct rdt_req *req); /* @req is zero */
void rdt_req_fini(struct rdt_req *req);
/* @req is FREE, and on no list. */
void rdt_req_begin(struct rdt_qpair *qp, struct rdt_req *req, struct rdt_capsule *cap);
void rdt_req_process(struct rdt_req *req);
/* It is watched, and about to leave its state. */
void rdt_req_report_state(struct rdt_req *req, enum rdt_req_state next);
/* The only way to change req->state. */
static inline void rdt_req_move(struct rdt_req *req, enum rdt_req_state next)
{
	assert(rdt_req_may_move(req->state, next));
	if (__builtin_expect(req->watched, 0))
		rdt_req_report_state(req, next);
	req->state = (uint8_t)next;
}
/* It has its data or needs none: buffers are next. Keyed data needs one, the capsule is not. */
void rdt_req_parsed(struct rdt_req *req);
/* FENCED or LIMITED: it was taken off its queue, and goes on. */
void rdt_req_resume(struct rdt_req *req);
/* -> NEED_BUFFER, and on if there is a buffer; rdt_req_process() is the caller's to call. */
void rdt_req_need_buffer(struct rdt_req *req);
void rdt_req_buffer(struct rdt_req *req, void *buf); /* from the pool: its turn has come */
/* It has waited, and is about to begin: is it still allowed? Else req->status says why not. */
bool rdt_req_look_again(struct rdt_req *req);
void rdt_req_complete(struct rdt_req *req);        /* executing; req->status is set */
void rdt_req_release_capsule(struct rdt_req *req); /* its data is not needed, or elsewhere */
void rdt_req_drop(struct rdt_req *req);            /* EXECUTING, and nobody else holds it */

/*
 * End @req early, whatever its state. If nothing else holds it, it ends at once; otherwise it ends
 * as soon as it is back, and succeeds if all of its work is done by then. rdt_req_abort() alone
 * returns a result.
 */
enum rdt_abort_result {
	RDT_ABORT_NO,   /* too late, or it cannot be stopped: it goes on */
	RDT_ABORT_YES,  /* it has ended with Command Abort Requested */
	RDT_ABORT_LATER /* it was asked to stop; its status tells the outcome */
};
enum rdt_abort_result rdt_req_abort(struct rdt_req *req); /* its host sent an Abort command */
void rdt_req_preempt(struct rdt_req *req);                /* another host sent Preempt and Abort */
void rdt_req_ns_gone(struct rdt_req *req);                /* its namespace is removed */
void rdt_req_hang_up(struct rdt_req *req);                /* its connection ends: no answer */

/* What a host has to take before its Reads show that it takes anything. @listener: NULL in tests */
uint32_t rdt_req_unproven(const struct rdt_listener *listener);
struct nvme_status rdt_req_fail(struct rdt_req *req, unsigned int sct, unsigned int sc,
				unsigned int loc);
#define RDT_LOC_NONE   0xffffu
#define RDT_LOC(field) ((unsigned int)offsetof(struct nvme_sqe, field))

/*
 * Each request of @qp that is in use. What is done with one may end it and others, and begin new
 * ones, which may or may not be seen: rdt_qpair_put() moves only the last one, to a place that is
 * still to come or was seen before, and may so be seen again.
 */
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

/* sgl.c */
struct nvme_status rdt_sgl_parse(struct rdt_req *req);
struct nvme_status rdt_sgl_match_other(struct rdt_req *req);
/* The command knows its length now: does the descriptor describe exactly that, or more where it
 * may? */
static inline struct nvme_status rdt_sgl_match(struct rdt_req *req)
{
	if (req->sgl_len == req->data_len && req->sgl_type != NVME_SGL_IN_CAPSULE)
		return NVME_OK;
	return rdt_sgl_match_other(req);
}
/* Keyed descriptors of a command: as configured, and as a list that fits into a capsule has. */
uint8_t rdt_msdbd(const struct rdt_target_config *cfg);
static inline const struct rdt_sgl_desc *rdt_req_sgl(const struct rdt_req *req)
{
	return req->sgl;
}

#endif /* RDT_REQUEST_H */
