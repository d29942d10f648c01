/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's objects and the functions its files offer each other, grouped by file.
 *
 * Threads. The main thread owns struct rdt_target, the listeners and signals. Each reactor is a
 * thread with a loop; a queue pair and its requests are touched by their reactor alone. A
 * controller belongs to the reactor of its admin queue (ctrl->owner): I/O queues on other reactors
 * reach it by messages. The only lock on the way is subsys->lock (Connect and the end of a
 * controller); an error log has one of its own, taken when a command failed.
 *
 * Lock order: none is ever taken inside another.
 */
#ifndef RDT_INTERNAL_H
#define RDT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "util/buddy.h"
#include "util/log.h"
#include "util/loop.h"
#include "nvmf/text.h"
#include "nvmf/wire.h"
#include "backend.h"
#include "config.h"
#include "engine.h"
#include "transport.h"

#define RDT_VS              0x00010400u /* NVMe 1.4 */
#define RDT_ADMIN_DEPTH_MAX 128u        /* entries of an admin queue */
#define RDT_AER_MAX         4u
#define RDT_ABORT_MAX       4u
#define RDT_ERROR_LOG       64u /* entries */
#define RDT_KAS_MS          100u
#define RDT_DISC_KATO_MS    120000u
#define RDT_CONNECT_TIMEOUT (10 * RD_NSEC_PER_SEC)   /* from accept to a finished Connect */
#define RDT_LEAVE_WAIT      (500 * RD_NSEC_PER_MSEC) /* for a host that lost its admin queue */
#define RDT_QID_WAIT        (500 * RD_NSEC_PER_MSEC)
#define RDT_ABORT_TIMEOUT   (1 * RD_NSEC_PER_SEC)
#define RDT_BUFFER_UNIT     4096u
#define RDT_RESERVE_BYTES   (512u << 10) /* buffers of fabrics and admin commands */
#define RDT_RESERVE_MAX     (64u << 10)  /* longer admin transfers use the I/O slab */

struct rdt_target;
struct rdt_reactor;
struct rdt_subsys;
struct rdt_ctrl;
struct rdt_qpair;
struct rdt_req;
struct rdt_rdma;

/* ---- buffers ---- */

enum rdt_pool_id {
	RDT_POOL_IO,      /* the slab: data of I/O commands */
	RDT_POOL_RESERVE, /* fabrics and admin commands: a slow disk cannot block a Connect */
	RDT_POOLS,
};

TAILQ_HEAD(rdt_req_list, rdt_req);

struct rdt_pool {
	struct rdt_reactor *reactor;
	struct rd_buddy *buddy;
	struct rdt_req_list
		waiting; /* requests without a buffer, in order; only the head advances */
	struct rd_defer serve;
};

/* ---- reactors ---- */

/* What a reactor has done for one subsystem. Written by the reactor, read by any (SMART log). */
struct rdt_counters {
	_Atomic uint64_t reads;
	_Atomic uint64_t writes;
	_Atomic uint64_t blocks_read; /* of 512 bytes */
	_Atomic uint64_t blocks_written;
	_Atomic uint64_t media_errors;
};

struct rdt_status_line { /* a reactor's answer to SIGUSR1 */
	unsigned int admin_qpairs;
	unsigned int io_qpairs;
	unsigned int requests;
	uint64_t slab_used;
	uint64_t reserve_used;
	unsigned int waiting;
	unsigned int mrs;
	uint64_t reads; /* served since the start, as writes */
	uint64_t writes;
};

struct rdt_reactor {
	struct rdt_target *target;
	struct rd_log *log;
	struct rd_loop *loop;
	unsigned int index;
	pthread_t thread;
	bool running;     /* the thread exists; main thread only */
	atomic_uint load; /* connections handed to it */

	uint8_t *slab; /* I/O slab, then reserve: one mapping, one memory region */
	size_t slab_len;
	size_t map_len;
	struct rdt_pool pools[RDT_POOLS];
	struct rdt_engines *engines;
	struct rdt_chan **chans;       /* by ns->index */
	struct rdt_counters *counters; /* by subsys->index */
	struct rdt_rdma *rdma;

	TAILQ_HEAD(, rdt_qpair) qpairs;
	unsigned int qpairs_count;
	bool draining;
	bool drained_sent;
	struct rd_msg drain_msg;   /* main -> reactor: finish what runs, close */
	struct rd_msg abandon_msg; /* main -> reactor: close now */
	struct rd_msg drained_msg; /* reactor -> main: no queue pair is left */
	struct rd_msg status_msg;  /* main -> reactor -> main */
	struct rdt_status_line status;
};

/* ---- subsystems and namespaces ---- */

struct rdt_ns {
	const struct rdt_ns_config *cfg;
	struct rdt_subsys *subsys;
	struct rdt_bdev *bdev;
	unsigned int index; /* among all namespaces of the target */
	uint8_t lbads;      /* log2 of the block size */
	uint64_t blocks;
};

struct rdt_subsys {
	struct rdt_target *target;
	const struct rdt_subsys_config *cfg; /* NULL: the discovery subsystem */
	const char *nqn;
	unsigned int index;
	struct rdt_ns *ns; /* by ascending NSID */
	unsigned int ns_count;
	uint32_t ops_mask; /* what every namespace's backend can do */
	bool volatile_cache;

	pthread_mutex_t lock; /* ctrls, next_cntlid, and the step of ctrl->refs from 1 to 0 */
	TAILQ_HEAD(, rdt_ctrl) ctrls;
	uint16_t next_cntlid;
	unsigned int ctrls_count;
};

static inline bool rdt_subsys_is_disc(const struct rdt_subsys *ss)
{
	return !ss->cfg;
}

/* ---- controllers ---- */

enum rdt_ctrl_state {
	RDT_CTRL_DISABLED,  /* CC.EN 0: fabrics commands only. Host sets EN -> READY */
	RDT_CTRL_READY,     /* CSTS.RDY. Host clears EN -> RESETTING, sets SHN -> SHUTTING */
	RDT_CTRL_RESETTING, /* I/O queues are closing. The last one gone -> DISABLED */
	RDT_CTRL_SHUTTING,  /* I/O queues are closing. The last one gone -> SHUT */
	RDT_CTRL_SHUT,      /* CSTS.SHST complete. Host clears EN -> RESETTING */
	RDT_CTRL_DEAD,      /* the association is over; freed with the last reference */
};

enum rdt_feature {
	RDT_FEAT_ARBITRATION,
	RDT_FEAT_POWER,
	RDT_FEAT_TEMP_OVER,
	RDT_FEAT_TEMP_UNDER,
	RDT_FEAT_ERR_RECOVERY,
	RDT_FEAT_WRITE_ATOMIC,
	RDT_FEAT_ASYNC_EVENT,
	RDT_FEATS,
};

struct rdt_error_log {
	pthread_mutex_t lock;
	uint64_t count; /* ever added */
	struct nvme_error_log_page ring[RDT_ERROR_LOG];
};

/* An I/O Connect on its way to the controller's owner and back. Embedded in the queue pair. */
struct rdt_attach {
	struct rd_msg msg;
	struct rdt_ctrl *ctrl; /* with a reference, taken by the lookup */
	struct rdt_qpair *qp;
	struct rdt_req *req;
	uint16_t qid;
	uint8_t hostid[16];
	char hostnqn[NVMF_NQN_MAX + 1];
	struct rd_timer timer;     /* on the owner's loop, while the QID is still taken */
	struct nvme_status status; /* the answer */
	uint32_t result;
};

struct rdt_ioq {
	struct rdt_qpair *qp;       /* owned by its reactor; valid until its detach message */
	bool closing;               /* told to close */
	bool drained;               /* all its commands are answered, and it takes no more */
	struct rdt_attach *waiting; /* a reconnecting host's Connect, until the old queue is gone */
};

struct rdt_ctrl {
	uint32_t magic;
	struct rdt_subsys *subsys;
	struct rdt_reactor *owner;
	struct rd_log *log;
	TAILQ_ENTRY(rdt_ctrl) link;
	atomic_uint refs;    /* admin queue, each attached I/O queue, each Connect on its way */
	atomic_bool traffic; /* a command came in since the keep-alive timer last looked */
	uint16_t cntlid;
	uint8_t hostid[16];
	char hostnqn[NVMF_NQN_MAX + 1];

	/* below: the owner's */
	uint8_t state; /* enum rdt_ctrl_state */
	struct rdt_qpair *admin;
	bool admin_gone; /* the admin queue waits for the last I/O queue */
	uint32_t cc;
	uint32_t csts_extra; /* CFS */
	uint32_t kato_ms;
	struct rd_timer ka_timer;
	uint16_t queues_granted;
	struct rdt_ioq *ioqs; /* [queues_max + 1], by QID; 0 unused */
	uint16_t queues_max;
	uint16_t ioqs_live;
	uint16_t ioqs_drained; /* of these */
	uint32_t features[RDT_FEATS];
	struct rdt_req *aers[RDT_AER_MAX];
	unsigned int aers_count;
	unsigned int aborts;
	struct rdt_error_log errors;
};

/* ---- queue pairs and requests ---- */

enum rdt_qp_state {
	RDT_QP_NEW,       /* accepted; the first command must be Connect -> LIVE */
	RDT_QP_LIVE,      /* belongs to a controller */
	RDT_QP_DRAINING,  /* takes no new commands; the last one answered -> DRAINED, admin CLOSING
			   */
	RDT_QP_DRAINED,   /* I/O queues: the host, or the timer, ends the connection -> CLOSING */
	RDT_QP_CLOSING,   /* connection ending; transport and all requests back -> DETACHING */
	RDT_QP_DETACHING, /* waits for the controller's owner to forget it -> freed */
};

enum rdt_req_state {
	RDT_REQ_FREE,        /* on qp->free. A capsule takes it -> NEW */
	RDT_REQ_NEW,         /* just taken; parsing decides */
	RDT_REQ_NEED_BUFFER, /* on pool->waiting, unless a buffer is there at once -> FETCH or READY
			      */
	RDT_REQ_FETCH,       /* has a buffer that the host's data must fill -> FETCHING */
	RDT_REQ_FETCHING,    /* the transport's. rdt_req_fetched() -> READY, or EXECUTED on error */
	RDT_REQ_READY,       /* everything is here -> EXECUTING */
	RDT_REQ_EXECUTING,   /* the command's: backend, message, AER. rdt_req_complete() -> EXECUTED
			      */
	RDT_REQ_EXECUTED,    /* status is known -> RESPONDING */
	RDT_REQ_RESPONDING,  /* the transport's. rdt_req_responded() -> DONE */
	RDT_REQ_DONE,        /* gives back what it holds -> FREE */
	RDT_REQ_STATES,
};

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

struct rdt_cmd {
	const char *name;
	uint8_t flags;
	/* Parse: refuse, or set req->data_len. Before any buffer is taken or data moved. */
	struct nvme_status (*check)(struct rdt_req *req);
	enum rdt_exec (*exec)(struct rdt_req *req);
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

struct rdt_req {
	uint32_t magic;
	uint16_t index;  /* in qp->reqs */
	uint8_t state;   /* enum rdt_req_state */
	uint8_t dir;     /* enum rdt_dir */
	bool waiting;    /* on pool->waiting */
	bool dropped;    /* no answer is due: reset, or the connection is gone */
	bool in_bio;     /* EXECUTING in the backend */
	bool invalidate; /* the host asked for remote invalidation of rkey */
	struct rdt_qpair *qp;
	struct rdt_capsule *cap; /* held until its in-capsule data has been used */
	const struct rdt_cmd *cmd;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;
	struct nvme_status status;
	uint16_t err_loc; /* parameter error location: byte, bit << 8; 0xffff: none */
	uint64_t err_lba;

	uint8_t sgl_type;
	uint64_t raddr; /* keyed: host address; in-capsule: offset */
	uint32_t rkey;
	uint32_t sgl_len;
	uint32_t data_len;
	void *buf;
	struct rdt_pool *pool;     /* buf's; NULL for in-capsule data */
	TAILQ_ENTRY(rdt_req) link; /* qp->free, pool->waiting or the transport's fetch queue */

	struct rdt_ns *ns;
	struct rdt_bio bio;
	unsigned int range; /* Dataset Management: the next one */
	struct rdt_abort *aborter;
	struct rdt_abort abort; /* of an Abort command */
};

struct rdt_qpair {
	uint32_t magic;
	uint8_t state; /* enum rdt_qp_state */
	bool admin;    /* by the connection's private data; Connect must agree */
	bool transport_closed;
	bool sqflow_off;
	uint16_t cm_qid;
	uint16_t qid;
	uint16_t depth;  /* entries: RECVs and requests */
	uint16_t sqsize; /* entries, from Connect; 0 before */
	uint16_t sqhd;
	const struct rdt_transport_ops *ops;
	struct rdt_reactor *reactor;
	struct rd_log *log;
	TAILQ_ENTRY(rdt_qpair) link;
	struct rdt_ctrl *ctrl; /* with a reference; NULL before Connect */
	struct sockaddr_storage local;
	struct sockaddr_storage remote;
	struct rdt_req *reqs; /* [depth] */
	struct rdt_req_list free;
	unsigned int used;     /* requests not FREE */
	unsigned int used_aer; /* of these, AERs that wait for an event */
	uint32_t in_capsule_max;
	STAILQ_HEAD(, rdt_capsule) capsules; /* commands that found no free request, in order */
	struct rd_defer check;               /* look whether a state can be left */
	struct rd_timer timer; /* NEW: until Connect. DRAINED: until the host has left by itself */
	struct rd_ratelimit fail_limit;
	struct rdt_attach attach;
	struct rd_msg close_msg;   /* controller's owner -> reactor */
	struct rd_msg drained_msg; /* reactor -> owner */
	struct rd_msg detach_msg;  /* reactor -> owner -> reactor */
};

/* ---- target ---- */

/* What serves a listener: a provider with its settings. Main loop and reactors each have one of a
 * kind. */
enum rdt_fab_kind {
	RDT_FAB_IWARP,
	RDT_FAB_IWARP_CRC,
	/* From here on verbs, and which of the options below are set. */
	RDT_FAB_VERBS,
	RDT_FABS = RDT_FAB_VERBS + 4,
};

#define RDT_FAB_NO_INV    1
#define RDT_FAB_NO_INLINE 2

struct rdt_listener {
	struct rdt_target *target;
	const struct rdt_listener_config *cfg;
	struct rd_fab_listener *lis;
	struct sockaddr_storage addr; /* as bound */
	enum rdt_fab_kind fab;        /* chosen before the reactors start */
	const char *prtype;           /* NULL: not known */
	uint16_t portid;
};

struct rdt_target {
	const struct rdt_config *cfg;
	struct rd_log *log;
	struct rd_loop *loop;         /* the main thread's */
	const struct rd_clock *clock; /* NULL: the real one */
	struct rdt_reactor *reactors;
	unsigned int reactors_count;
	struct rdt_subsys disc;
	struct rdt_subsys *subsys;
	unsigned int subsys_count;
	unsigned int ns_count;
	struct rdt_listener *listeners;
	unsigned int listeners_count;
	struct rd_fab *fabs[RDT_FABS]; /* the listeners' */
	uint64_t started_ns;
	struct rd_ratelimit reject_limit;
	/* draining */
	unsigned int reactors_left;
	void (*drained)(struct rdt_target *target);
	unsigned int status_left;
};

/* target.c */
int rdt_target_create(const struct rdt_config *cfg, struct rd_log *log, struct rd_loop *loop,
		      const struct rd_clock *clock, struct rdt_target **out);
int rdt_target_start(struct rdt_target *target); /* reactor threads, then listeners */
void rdt_target_drain(struct rdt_target *target, void (*drained)(struct rdt_target *target));
void rdt_target_abandon(struct rdt_target *target); /* after drain: do not wait for I/O */
void rdt_target_status(struct rdt_target *target);
void rdt_target_totals(const struct rdt_target *target, uint64_t *reads, uint64_t *writes);
void rdt_target_destroy(struct rdt_target **target);

/* reactor.c */
int rdt_reactor_init(struct rdt_reactor *r, struct rdt_target *target, unsigned int index);
int rdt_reactor_setup(struct rdt_reactor *r); /* on its own thread: engines, channels, fabrics */
void rdt_reactor_teardown(struct rdt_reactor *r); /* likewise */
int rdt_reactor_start(struct rdt_reactor *r);
void rdt_reactor_stop(struct rdt_reactor *r);
void rdt_reactor_fini(struct rdt_reactor *r);
void rdt_reactor_check_drained(struct rdt_reactor *r);
void rdt_reactor_ask_status(struct rdt_reactor *r);

/* pool.c */
int rdt_pool_init(struct rdt_pool *pool, struct rdt_reactor *r, void *base, size_t len, size_t max);
void rdt_pool_fini(struct rdt_pool *pool);
void *rdt_pool_get(struct rdt_pool *pool, struct rdt_req *req); /* NULL: it waits now */
void rdt_pool_put(struct rdt_pool *pool, void *buf, size_t len);
void rdt_pool_unwait(struct rdt_pool *pool, struct rdt_req *req);

/* subsys.c */
int rdt_subsys_init(struct rdt_subsys *ss, struct rdt_target *target,
		    const struct rdt_subsys_config *cfg, unsigned int index);
void rdt_subsys_fini(struct rdt_subsys *ss);
struct rdt_subsys *rdt_subsys_find(struct rdt_target *target, const char *nqn);
bool rdt_subsys_allows(const struct rdt_subsys *ss, const char *hostnqn);
int rdt_subsys_add_ctrl(struct rdt_subsys *ss, struct rdt_ctrl *ctrl); /* gives it a CNTLID */
struct rdt_ctrl *rdt_subsys_get_ctrl(struct rdt_subsys *ss, uint16_t cntlid); /* + reference */

/* ns.c */
int rdt_ns_open(struct rdt_ns *ns, struct rdt_subsys *ss, const struct rdt_ns_config *cfg,
		unsigned int index);
void rdt_ns_close(struct rdt_ns *ns);
struct rdt_ns *rdt_ns_find(const struct rdt_subsys *ss, uint32_t nsid);

/* ctrl.c */
int rdt_ctrl_create(struct rdt_subsys *ss, struct rdt_qpair *admin, const char *hostnqn,
		    const uint8_t hostid[16], uint32_t kato_ms, struct rdt_ctrl **out);
void rdt_ctrl_put(struct rdt_ctrl *ctrl); /* any thread */
void rdt_ctrl_attach(struct rdt_attach *at);
void rdt_ctrl_drained(struct rdt_qpair *qp);
void rdt_ctrl_detach(struct rdt_qpair *qp);
void rdt_ctrl_set_cc(struct rdt_ctrl *ctrl, uint32_t cc);
uint32_t rdt_ctrl_csts(const struct rdt_ctrl *ctrl);
uint64_t rdt_ctrl_cap(const struct rdt_ctrl *ctrl);
void rdt_ctrl_fatal(struct rdt_ctrl *ctrl, const char *why);
void rdt_ctrl_log_error(struct rdt_ctrl *ctrl, const struct rdt_req *req);
const char *rdt_ctrl_state_name(unsigned int state);

/* keep_alive.c */
void rdt_keep_alive_start(struct rdt_ctrl *ctrl, uint32_t kato_ms);
void rdt_keep_alive_stop(struct rdt_ctrl *ctrl);
static inline void rdt_keep_alive_traffic(struct rdt_ctrl *ctrl)
{
	/* Looked at first: a line that every reactor writes for each command would bounce. */
	if (!atomic_load_explicit(&ctrl->traffic, memory_order_relaxed))
		atomic_store_explicit(&ctrl->traffic, true, memory_order_relaxed);
}

/* aer.c */
struct nvme_status rdt_aer_check(struct rdt_req *req);
enum rdt_exec rdt_aer_exec(struct rdt_req *req);
void rdt_aer_drop_all(struct rdt_ctrl *ctrl);
bool rdt_aer_remove(struct rdt_ctrl *ctrl, struct rdt_req *req);

/* qpair.c */
int rdt_qpair_init(struct rdt_qpair *qp, struct rdt_reactor *r, const struct rdt_transport_ops *ops,
		   uint16_t cm_qid, uint16_t depth);
void rdt_qpair_fini(struct rdt_qpair *qp);  /* what init made; for transports */
void rdt_qpair_start(struct rdt_qpair *qp); /* the transport can carry answers from here on */
void rdt_qpair_connected(struct rdt_qpair *qp, struct rdt_ctrl *ctrl, uint16_t qid, uint16_t sqsize,
			 bool sqflow_off);
void rdt_qpair_close(struct rdt_qpair *qp, const char *reason);
void rdt_qpair_drain(struct rdt_qpair *qp);
void rdt_qpair_detached(struct rdt_qpair *qp);
void rdt_qpair_next(struct rdt_qpair *qp); /* a request became free */
void rdt_qpair_look(struct rdt_qpair *qp); /* something that a state waits for has changed */
struct rdt_req *rdt_qpair_find(struct rdt_qpair *qp, uint16_t cid);
const char *rdt_qpair_state_name(unsigned int state);

/* request.c */
void rdt_req_init(struct rdt_req *req, struct rdt_qpair *qp, uint16_t index);
void rdt_req_begin(struct rdt_req *req, struct rdt_capsule *cap);
void rdt_req_process(struct rdt_req *req);
void rdt_req_buffer(struct rdt_req *req, void *buf); /* from the pool: its turn has come */
void rdt_req_complete(struct rdt_req *req);          /* req->status is set */
void rdt_req_drop(struct rdt_req *req);              /* EXECUTING, and nobody else holds it */
enum rdt_abort_result {
	RDT_ABORT_NO,   /* out of reach, or too late */
	RDT_ABORT_YES,  /* it completes with Command Abort Requested */
	RDT_ABORT_LATER /* the backend was asked; the command's completion tells */
};
enum rdt_abort_result rdt_req_abort(struct rdt_req *req);
const char *rdt_req_state_name(unsigned int state);
struct nvme_status rdt_req_fail(struct rdt_req *req, unsigned int sct, unsigned int sc,
				unsigned int loc);
#define RDT_LOC_NONE   0xffffu
#define RDT_LOC(field) ((unsigned int)offsetof(struct nvme_sqe, field))

/* sgl.c */
struct nvme_status rdt_sgl_parse(struct rdt_req *req);
struct nvme_status rdt_sgl_match(struct rdt_req *req);

/* status.c */
/* " (3 more like it)", or "" for none: the end of a rate-limited message. Returns @buf. */
#define RDT_SQUASHED_TEXT 32
const char *rdt_squashed(uint32_t n, char buf[RDT_SQUASHED_TEXT]);
struct nvme_status rdt_status_from_errno(int err, unsigned int bio_op);

/* cmd_fabrics.c, connect.c, property.c */
extern const struct rdt_cmd rdt_fabrics_cmds[256];
struct nvme_status rdt_connect_check(struct rdt_req *req);
enum rdt_exec rdt_connect_exec(struct rdt_req *req);
void rdt_connect_attached(struct rdt_attach *at); /* the owner's answer is here */
struct nvme_status rdt_property_get_check(struct rdt_req *req);
enum rdt_exec rdt_property_get(struct rdt_req *req);
struct nvme_status rdt_property_set_check(struct rdt_req *req);
enum rdt_exec rdt_property_set(struct rdt_req *req);

/* cmd_admin.c, abort.c */
extern const struct rdt_cmd rdt_admin_cmds[256];
struct nvme_status rdt_abort_check(struct rdt_req *req);
enum rdt_exec rdt_abort_exec(struct rdt_req *req);
void rdt_abort_victim_done(struct rdt_req *victim);

/* identify.c, features.c */
void rdt_put_ascii(char *dst, size_t len, const char *src);
struct nvme_status rdt_identify_check(struct rdt_req *req);
enum rdt_exec rdt_identify_exec(struct rdt_req *req);
void rdt_features_reset(struct rdt_ctrl *ctrl);
struct nvme_status rdt_features_check(struct rdt_req *req);
enum rdt_exec rdt_get_features_exec(struct rdt_req *req);
enum rdt_exec rdt_set_features_exec(struct rdt_req *req);

/* log_page.c, discovery.c */
struct rdt_log_out { /* the window of a log page that the host asked for, zeroed */
	uint8_t *dst;
	uint64_t offset;
	uint32_t len;
};
void rdt_log_put(const struct rdt_log_out *out, uint64_t pos, const void *src, size_t len);
struct nvme_status rdt_get_log_check(struct rdt_req *req);
enum rdt_exec rdt_get_log_exec(struct rdt_req *req);
uint64_t rdt_discovery_log_size(const struct rdt_qpair *qp);
void rdt_discovery_log(const struct rdt_qpair *qp, const struct rdt_log_out *out);

/* cmd_io.c */
extern const struct rdt_cmd rdt_io_cmds[256];
bool rdt_io_supported(const struct rdt_subsys *ss, unsigned int opcode);

/* rdma.c, rdma_cm.c */
int rdt_rdma_init(struct rdt_reactor *r);
void rdt_rdma_fini(struct rdt_reactor *r);
unsigned int rdt_rdma_mrs(const struct rdt_reactor *r);
void rdt_rdma_choose(
	struct rdt_target *target); /* each listener's provider, before reactors start */
int rdt_rdma_listen(struct rdt_target *target); /* all configured listeners */
void rdt_rdma_unlisten(struct rdt_target *target);

static inline uint16_t rdt_sqe_cid(const struct rdt_req *req)
{
	return le16toh(req->sqe.cid);
}

static inline struct rdt_target *rdt_req_target(const struct rdt_req *req)
{
	return req->qp->reactor->target;
}

#endif /* RDT_INTERNAL_H */
