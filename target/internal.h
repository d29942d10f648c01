/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's objects and the functions its files offer each other, grouped by file.
 *
 * Threads. The main thread owns struct rdt_target, the listeners and signals. Each reactor is a
 * thread with a loop; a queue pair and its requests are touched by their reactor alone. A
 * controller belongs to the reactor of its admin queue (ctrl->owner): I/O queues on other reactors
 * reach it by messages. The only lock on the way is subsys->lock (Connect and the end of a
 * controller; host lists and who sees which namespace); an error log and a list of changed
 * namespaces have one each of their own.
 *
 * Lock order: none is ever taken inside another, but for those of a controller's lists (errors,
 * changed namespaces, notifications), inside subsys->lock.
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
#include "control.h"
#include "engine.h"
#include "listener.h"
#include "reload.h"
#include "tgt_limits.h"
#include "qos.h"
#include "reservation.h"
#include "state.h"
#include "state_time.h"
#include "transport.h"

#define RDT_CONNECT_TIMEOUT (10 * RD_NSEC_PER_SEC)   /* from accept to a finished Connect */
#define RDT_LEAVE_WAIT      (500 * RD_NSEC_PER_MSEC) /* for a host that lost its admin queue */
#define RDT_QID_WAIT        (500 * RD_NSEC_PER_MSEC)
#define RDT_ABORT_TIMEOUT   (1 * RD_NSEC_PER_SEC)
#define RDT_SUBSYS_SPARE    64u /* subsystems that can be added to a running target */
#define RDT_BUFFER_UNIT     4096u
#define RDT_RESERVE_BYTES   (512u << 10) /* buffers of fabrics and admin commands */
#define RDT_RESERVE_MAX     (64u << 10)  /* longer admin transfers use the I/O slab */
#define RDT_SCRATCH_BYTES   (512u << 10) /* for Compare, Verify and Copy */
#define RDT_SCRATCH_PIECE   (64u << 10)

struct rdt_target;
struct rdt_reactor;
struct rdt_subsys;
struct rdt_ctrl;
struct rdt_qpair;
struct rdt_req;
struct rdt_rdma;
struct rdt_qos_gate;
struct rdt_qos_lane;
struct rdt_resv;
struct rdt_resv_part;

/* ---- buffers ---- */

enum rdt_pool_id {
	RDT_POOL_IO,      /* the slab: data of I/O commands */
	RDT_POOL_RESERVE, /* fabrics and admin commands: a slow disk cannot block a Connect */
	RDT_POOL_SCRATCH, /* pieces for commands that read by themselves; held during backend I/O */
	RDT_POOLS,
};

TAILQ_HEAD(rdt_req_list, rdt_req);

/* Who holds buffers of a pool, and waits for them. */
struct rdt_account {
	size_t held;
	struct rdt_req_list waiting;   /* without a buffer, in order; only the head advances */
	TAILQ_ENTRY(rdt_account) link; /* pool->turns, while somebody waits */
};

struct rdt_pool {
	struct rdt_reactor *reactor;
	struct rd_buddy *buddy;
	size_t piece; /* SCRATCH: the size of every buffer; else 0, and req->pool_len counts */
	TAILQ_HEAD(, rdt_account) turns;
	unsigned int waiting;      /* requests */
	bool tight;                /* one that may have a block finds none: nobody overtakes it */
	struct rdt_account common; /* SCRATCH: of all hosts, and without a limit */
	struct rd_defer serve;
};

/* A host on one reactor. */
struct rdt_share {
	TAILQ_ENTRY(rdt_share) link;
	unsigned int qpairs;
	struct rdt_account accounts[RDT_POOL_SCRATCH]; /* of the pools before it */
	char hostnqn[NVMF_NQN_MAX + 1];
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
	uint64_t scratch_used;
	unsigned int waiting;
	unsigned int limited;
	unsigned int mrs;
	unsigned int capsules; /* RECVs of pools that hold commands */
	uint64_t reads;        /* served since the start, as writes */
	uint64_t writes;
};

struct rdt_reactor {
	struct rdt_target *target;
	struct rd_log *log;
	struct rd_loop *loop;
	unsigned int index;
	pthread_t thread;
	bool running; /* the thread exists; main thread only */
	/* placement.c */
	atomic_uint load;          /* connections handed to it */
	atomic_uint io_load;       /* of these, I/O queues */
	atomic_uint share;         /* of its time that it worked, per mille, in the last window */
	_Atomic uint64_t share_at; /* the end of that window */
	struct rd_poller share_poller;
	uint64_t window_start;
	uint64_t window_busy;
	struct rd_ratelimit uneven_limit;

	uint8_t *slab;   /* I/O slab, reserve, scratch, zeroes: one mapping, one memory region */
	uint8_t *zeroes; /* never written to: the data of reads from what holds nothing */
	size_t slab_len;
	size_t map_len;
	struct rdt_pool pools[RDT_POOLS];
	TAILQ_HEAD(, rdt_share) shares; /* of connected hosts */
	struct rdt_share strangers;     /* before Connect; all together */
	struct rdt_engines *engines;
	struct rdt_ns_view *views;     /* [RDT_NS_SLOTS], by ns->slot */
	struct rdt_ns_key *ns_keys;    /* [RDT_NS_SLOTS], the first ns_count in order */
	unsigned int ns_count;         /* namespaces that commands find here */
	struct rd_defer ns_leave;      /* look whether a leaving namespace is let go */
	struct rdt_counters *counters; /* by subsys->index */
	struct rdt_rdma *rdma;

	TAILQ_HEAD(, rdt_qpair) qpairs;
	unsigned int qpairs_count;
	unsigned int limited; /* requests that wait for a limit */
	struct rdt_timing timing;
	bool draining;
	bool drained_sent;
	struct rd_msg drain_msg;   /* main -> reactor: finish what runs, close */
	struct rd_msg abandon_msg; /* main -> reactor: close now */
	struct rd_msg drained_msg; /* reactor -> main: no queue pair is left */
	struct rd_msg status_msg;  /* main -> reactor -> main */
	struct rdt_status_line status;
};

/* ---- subsystems and namespaces ---- */

/* Blocks [from, to) of a namespace. */
struct rdt_span {
	uint64_t from;
	uint64_t to;
	bool excl;
};

enum rdt_hold_state {
	RDT_HOLD_NONE,
	RDT_HOLD_COUNTED, /* in view->unranged: nobody locks on this namespace */
	RDT_HOLD_WAITING, /* in the namespace's table. A message -> LOCKED */
	RDT_HOLD_LOCKED,
};

/* How an I/O command holds its blocks against others (range_lock.c). */
struct rdt_hold {
	uint8_t state; /* enum rdt_hold_state */
	uint8_t count; /* of spans */
	bool fused;
	bool granted; /* under the table's lock */
	struct rdt_span spans[2];
	struct rd_msg msg;
	TAILQ_ENTRY(rdt_hold) link;
};

/* A namespace's blocks in use, once a fused command was seen there. */
struct rdt_range_lock {
	pthread_mutex_t lock;
	TAILQ_HEAD(, rdt_hold) held;
	TAILQ_HEAD(, rdt_hold) waiting;
	struct rdt_range_post *posts; /* to each reactor; NULL: nobody asked yet */
	unsigned int missing;         /* reactors that have not answered */
	bool on;
};

/* Blocks that Write Uncorrectable has marked, sorted. */
struct rdt_uncor {
	pthread_mutex_t lock;
	atomic_uint count; /* read without the lock */
	unsigned int size;
	struct rdt_span *spans;
};

/* The main thread's. */
enum rdt_ns_state {
	RDT_NS_NEW,     /* no reactor knows it. Setup of the reactors -> LIVE, add -> JOINING */
	RDT_NS_JOINING, /* reactors open their channels. All have -> LIVE, one cannot -> LEAVING */
	RDT_NS_LIVE,    /* rdt_control_ns_remove() -> LEAVING */
	RDT_NS_LEAVING, /* no new commands; the last reactor has let go -> freed */
};

/* A change of a namespace on its way to one reactor and back. */
struct rdt_ns_post {
	struct rd_msg msg;
	struct rdt_ns *ns;
	struct rdt_reactor *reactor;
	int err; /* the answer */
};

/*
 * On the heap, made and freed by the main thread; it lives until every reactor has let go of it.
 * A reactor reaches it through its own view, without a lock. What is not atomic does not change
 * between the first reactor's look and the last.
 */
struct rdt_ns {
	const struct rdt_ns_config *cfg;
	struct rdt_config *cfg_of; /* the configuration @cfg is in, with a reference */
	struct rdt_subsys *subsys;
	TAILQ_ENTRY(rdt_ns) link; /* subsys->namespaces */
	struct rdt_bdev *bdev;
	struct rdt_qos_gate *gate; /* never NULL */
	struct rdt_resv *resv; /* the main thread's; made before any reactor knows the namespace */
	_Atomic uint8_t wp;    /* enum nvme_ns_write_protect_cfg: feature 84h */
	_Atomic uint16_t err_recovery; /* feature 05h: kept for hosts, means nothing to us */
	bool wp_busy;                  /* a change of it is being written; the main thread's */
	uint32_t nsid;
	unsigned int slot;       /* among all namespaces of the target; stable while it lives */
	uint8_t lbads;           /* log2 of the block size */
	_Atomic uint64_t blocks; /* changes by resize: load it once for one decision */

	struct rdt_range_lock range;
	struct rdt_uncor uncor;

	/* below: the main thread's */
	enum rdt_ns_state state;
	unsigned int posts_left;          /* reactors that have not answered */
	int err;                          /* the first failure among the answers */
	void (*moved)(struct rdt_ns *ns); /* all have answered; called once, may free @ns */
	rdt_control_done done;            /* of the change that runs: control.c */
	void *done_arg;
	int join_err;
	struct rd_timer leave_timer;
	/* The configuration last applied, for the next reload; reactors use @cfg. */
	const struct rdt_ns_config *now;
	struct rdt_config *now_of;
	struct rdt_ns_post posts[]; /* by reactor->index */
};

/* A reactor's own face of a namespace. */
struct rdt_ns_view {
	struct rdt_ns *ns; /* NULL: the slot is free here */
	struct rdt_chan *chan;
	uint32_t unranged; /* I/Os that are only counted, not in the table */
	bool ranged;       /* I/Os take their blocks in ns->range */
	bool range_due;    /* to be told when unranged is 0 */
	uint32_t inflight; /* requests whose req->ns it is */
	bool leaving;      /* not found any more; its last request closes the channel */
	const struct rdt_resv_snap *resv; /* the reservation that is held, or NULL */
};

/* For the search: subsystem's index << 32 | NSID. */
struct rdt_ns_key {
	uint64_t key;
	struct rdt_ns_view *view;
};

struct rdt_host_list { /* of NQNs, sorted as given */
	bool any;
	unsigned int count;
	char **nqns;
};

struct rdt_subsys {
	struct rdt_target *target;
	const struct rdt_subsys_config *cfg; /* NULL: the discovery subsystem */
	struct rdt_config *cfg_of;           /* the configuration @cfg is in, with a reference */
	/* The configuration last applied, for the next reload; reactors use @cfg. */
	const struct rdt_subsys_config *now;
	struct rdt_config *now_of;
	atomic_bool
		gone; /* removed, or not there yet: set under @lock, for hosts it does not exist */
	const char *nqn;
	unsigned int index;
	/* Over all namespaces; written by the main thread as these come and go. */
	atomic_uint ns_count;
	_Atomic uint32_t ops_mask; /* what every namespace's backend can do */
	atomic_bool volatile_cache;

	/* ctrls, next_cntlid, namespaces (changed by the main thread only), and the step of
	 * ctrl->refs from 1 to 0 */
	pthread_mutex_t lock;
	TAILQ_HEAD(, rdt_ns) namespaces; /* by NSID, leaving ones too */
	TAILQ_HEAD(, rdt_ctrl) ctrls;
	TAILQ_HEAD(, rdt_qos_gate) gates; /* of hosts, under @lock */
	uint16_t next_cntlid;
	unsigned int ctrls_count;
	struct rdt_host_list hosts;     /* that may connect */
	struct rdt_host_list *ns_hosts; /* [RDT_NS_SLOTS], by ns->slot: that see a namespace */
	uint8_t duplicate_host;         /* enum rdt_duplicate_host */
	uint16_t cntlid_min;
	uint16_t cntlid_max;
	_Atomic uint64_t ana_changes[RDT_ANA_GROUPS + 1]; /* a group's namespaces; 0: of them all */
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
	RDT_FEAT_WRITE_ATOMIC,
	RDT_FEAT_ASYNC_EVENT,
	RDT_FEATS,
};

struct rdt_error_log {
	pthread_mutex_t lock;
	uint64_t count; /* ever added */
	struct nvme_error_log_page ring[RDT_ERROR_LOG];
};

struct rdt_resv_entry {
	uint64_t count;
	uint32_t nsid;
	uint8_t type; /* enum nvme_resv_notify_rnlpt */
};

struct rdt_resv_log { /* reservation notifications: written by the main thread */
	pthread_mutex_t lock;
	uint64_t counter; /* of notifications, also of those lost */
	unsigned int head;
	unsigned int used;
	struct rdt_resv_entry ring[RDT_RESV_LOG];
	uint8_t mask[RDT_NS_SLOTS]; /* feature 82h */
};

enum rdt_event {
	RDT_EV_NS_ATTR,
	RDT_EV_ANA,
	RDT_EV_DISC_LOG,
	RDT_EV_RESV_LOG,
	RDT_EV_ERROR,
	RDT_EVENTS,
};

struct rdt_changed_ns { /* the Changed Namespace List, ascending */
	pthread_mutex_t lock;
	unsigned int count;
	bool overflow; /* there were more */
	uint32_t nsid[NVME_ID_NS_LIST_MAX];
};

struct rdt_events {
	_Atomic uint32_t posted; /* by other threads; 0 -> non-zero posts @msg with a reference */
	struct rd_msg msg;
	struct rdt_changed_ns changed;
	/* bits by enum rdt_event, the owner's */
	uint32_t fresh;    /* changed since the host began to read the log page */
	uint32_t due;      /* to be reported */
	uint32_t reported; /* and not cleared by reading the log page */
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
	struct rdt_listener *listener;              /* by which the host came; NULL in tests */
	_Atomic uint64_t hidden[RDT_NS_SLOTS / 64]; /* written under subsys->lock */
	atomic_bool retry_delay;                    /* feature 16h, ACRE */
	atomic_bool ending;                         /* @end_msg is on its way, or was */
	struct rd_msg end_msg;
	const char *end_why;

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
	uint64_t timestamp_ms; /* feature 0Eh: what the host set, */
	uint64_t timestamp_at; /* and when, in ns */
	bool timestamp_set;
	struct rdt_req *aers[RDT_AER_MAX];
	unsigned int aers_count;
	unsigned int aborts;
	struct rdt_error_log errors;
	struct rdt_events events;
	struct rdt_resv_log resv_log;
	struct rdt_qos_gate *gate; /* its host's; set before the controller is found by others */
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
	RDT_REQ_FREE,    /* on qp->free. A capsule takes it -> NEW */
	RDT_REQ_NEW,     /* just taken; parsing decides */
	RDT_REQ_FUSED,   /* first half: waits for the second -> NEED_BUFFER or READY. Second half:
			  * waits for the first one's buffer -> FETCH or READY */
	RDT_REQ_LIMITED, /* on a lane of a limit, unless it is its turn -> NEED_BUFFER or READY */
	RDT_REQ_NEED_BUFFER, /* in an account's queue, unless a buffer is there at once -> FETCH or
			      * READY
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

/* A reservation command on its way to the main thread and back. */
struct rdt_resv_cmd {
	struct rd_msg msg;
	STAILQ_ENTRY(rdt_resv_cmd) link;
	bool report;
	struct rdt_resv_op op;
	struct nvme_status status; /* the answer */
};

enum rdt_step;

/* Where an I/O command of several steps is (io_step.c). */
struct rdt_work {
	enum rdt_step (*step)(struct rdt_req *req); /* NULL: it has none */
	uint8_t phase;
	bool stop;       /* it shall end early */
	uint16_t index;  /* range of a list, */
	uint32_t nsid;   /* namespace, */
	uint64_t lba;    /* and block that come next */
	uint64_t dst;    /* Copy: where to */
	uint32_t left;   /* Copy: blocks of the range */
	uint32_t blocks; /* of the piece in progress */
	void *scratch;
};

/* A keyed descriptor of a list. */
struct rdt_sgl_desc {
	uint64_t addr;
	uint32_t key;
	uint32_t len; /* not 0 */
};

struct rdt_req {
	uint32_t magic;
	uint16_t index;  /* in qp->reqs */
	uint8_t state;   /* enum rdt_req_state */
	uint8_t dir;     /* enum rdt_dir */
	bool waiting;    /* for a buffer, in an account */
	bool dropped;    /* no answer is due: reset, or the connection is gone */
	bool in_bio;     /* EXECUTING in the backend */
	bool invalidate; /* the host asked for remote invalidation of rkey */
	bool timed;      /* for the times in each state */
	uint8_t descs;   /* keyed descriptors in rdt_req_sgl(); 0: one, and raddr and rkey say it */
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
	struct rdt_pool *pool; /* of pool_buf */
	struct rdt_account *payer;
	void *pool_buf; /* given back in the end; NULL for in-capsule data. buf is in it */
	uint32_t pool_len;
	TAILQ_ENTRY(rdt_req) link; /* qp->free, account->waiting or the transport's fetch queue */

	struct rdt_ns *ns;         /* held from rdt_ns_take() until the request is finished */
	bool ns_gone;              /* @ns was removed meanwhile */
	uint8_t gates_passed;      /* of limits: its host's, its namespace's */
	struct rdt_qos_lane *lane; /* LIMITED: where it waits */
	bool fenced; /* Preempt and Abort: ends as soon as it can, undone if it has not begun */
	struct rdt_resv_part *fence; /* who waits for its end */
	struct rdt_resv_cmd resv;    /* of a reservation command */
	struct rdt_bio bio;
	struct rdt_work work;
	struct rdt_hold hold;
	struct rdt_req *mate; /* the other half of a fused pair */
	struct rdt_abort *aborter;
	struct rdt_abort abort; /* of an Abort command */
	uint64_t began, since;  /* timed: when it became NEW, and what it is now */
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
	struct rdt_ctrl *ctrl;   /* with a reference, given back with it; NULL before Connect */
	struct rdt_share *share; /* its host's */
	struct rdt_listener *listener; /* NULL in tests */
	struct sockaddr_storage local;
	struct sockaddr_storage remote;
	struct rdt_req *reqs; /* [depth], of which reqs_made have ever been used */
	uint16_t reqs_made;
	struct rdt_req_list free;
	unsigned int used;     /* requests not FREE */
	unsigned int used_aer; /* of these, AERs that wait for an event */
	uint32_t in_capsule_max;
	uint8_t msdbd;                       /* descriptors of a list, at most; 1: no lists */
	struct rdt_sgl_desc *sgl_lists;      /* [depth * msdbd], made when the first list comes */
	struct rdt_req *fused;               /* a first half that waits for the next command */
	bool fuse_failed;                    /* the last command was a first half, and failed */
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

struct rdt_referral {
	struct sockaddr_storage addr;
};

struct rdt_target {
	struct rdt_config *cfg;    /* of the start, with a reference */
	struct rdt_config *now;    /* the last one applied, with a reference; main thread only */
	struct rdt_reload *reload; /* the one that runs, or NULL */
	struct rd_log *log;
	struct rd_loop *loop;         /* the main thread's */
	const struct rd_clock *clock; /* NULL: the real one */
	struct rdt_reactor *reactors;
	unsigned int reactors_count;
	struct rdt_subsys disc;
	struct rdt_subsys *subsys;
	atomic_uint subsys_count; /* only grows */
	unsigned int subsys_max;
	struct rdt_ns *ns[RDT_NS_SLOTS]; /* by slot; main thread only, as is what makes them */
	TAILQ_HEAD(rdt_listener_list, rdt_listener) listeners; /* shown: changed under disc.lock */
	struct rdt_listener_list old_listeners;                /* removed */
	uint16_t portids;
	struct rd_fab *fabs[RDT_FABS];          /* the listeners'; not iwarp */
	SLIST_HEAD(, rdt_iwarp_fab) iwarp_fabs; /* theirs of iwarp */
	struct rdt_state *state;                /* NULL: nothing persists */
	struct rdt_referral *referrals;         /* under disc.lock */
	unsigned int referrals_count;
	_Atomic uint64_t genctr; /* of the discovery log */
	uint64_t started_ns;
	struct rd_ratelimit reject_limit;
	/* Opens the backends of namespaces that are added. NULL: rdt_bdev_open(). */
	int (*bdev_open)(struct rdt_target *target, const struct rdt_ns_config *cfg,
			 struct rdt_bdev **out);
	/* draining */
	unsigned int reactors_left;
	void (*drained)(struct rdt_target *target);
	unsigned int status_left;
	struct rdt_timing_query *status_times;
};

/* target.c */
int rdt_target_create(struct rdt_config *cfg, struct rd_log *log, struct rd_loop *loop,
		      const struct rd_clock *clock, struct rdt_target **out);
int rdt_target_start(struct rdt_target *target); /* reactor threads, then listeners */
void rdt_target_drain(struct rdt_target *target, void (*drained)(struct rdt_target *target));
void rdt_target_abandon(struct rdt_target *target); /* after drain: do not wait for I/O */
void rdt_target_status(struct rdt_target *target);
void rdt_target_status_part(struct rdt_target *target); /* one of its answers was logged */
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
/* @payer: req->payer; NULL for a pool of pieces. */
void rdt_pool_put(struct rdt_pool *pool, struct rdt_account *payer, void *buf, size_t len);
void rdt_pool_unwait(struct rdt_pool *pool, struct rdt_req *req);
void rdt_shares_init(struct rdt_reactor *r);
void rdt_share_join(struct rdt_qpair *qp, const char *hostnqn);
void rdt_share_leave(struct rdt_qpair *qp);

/* subsys.c */
int rdt_subsys_init(struct rdt_subsys *ss, struct rdt_target *target,
		    const struct rdt_subsys_config *cfg, struct rdt_config *cfg_of,
		    unsigned int index);
void rdt_subsys_fini(struct rdt_subsys *ss);
int rdt_subsys_open(struct rdt_subsys *ss); /* its namespaces, at the start */
struct rdt_subsys *rdt_subsys_slot(struct rdt_target *target, const char *nqn); /* a gone one too */
struct rdt_subsys *rdt_subsys_find(struct rdt_target *target, const char *nqn);
/* Gives it a CNTLID. -EACCES: the host is not allowed; -EEXIST: it has one, and must not have two;
 * -EBUSY: no ID is free. */
int rdt_subsys_add_ctrl(struct rdt_subsys *ss, struct rdt_ctrl *ctrl);
struct rdt_ctrl *rdt_subsys_get_ctrl(struct rdt_subsys *ss, uint16_t cntlid); /* + reference */

/* ns.c: the main thread's side */
int rdt_ns_create(struct rdt_subsys *ss, const struct rdt_ns_config *cfg, struct rdt_config *cfg_of,
		  struct rdt_bdev *bdev, struct rdt_ns **out); /* takes @bdev over when it works */
void rdt_ns_free(struct rdt_ns *ns);                           /* no reactor knows it any more */
struct rdt_ns *rdt_ns_of(const struct rdt_subsys *ss, uint32_t nsid); /* not a leaving one */
void rdt_subsys_sum(struct rdt_subsys *ss); /* ns_count, ops_mask, volatile_cache */
/* Send @fn to every reactor; each answers with rdt_ns_answer(), the last answer calls @moved. */
void rdt_ns_post(struct rdt_ns *ns, void (*fn)(struct rd_msg *msg),
		 void (*moved)(struct rdt_ns *ns));

/* ns_view.c: a reactor's side, on its thread */
int rdt_view_init(struct rdt_reactor *r);
void rdt_view_fini(struct rdt_reactor *r);
int rdt_view_open(struct rdt_reactor *r, struct rdt_ns *ns);  /* a channel; not found yet */
void rdt_view_show(struct rdt_reactor *r, struct rdt_ns *ns); /* commands find it from here on */
void rdt_view_close(struct rdt_reactor *r, struct rdt_ns *ns);
void rdt_view_close_all(struct rdt_reactor *r);
void rdt_view_hide(struct rdt_reactor *r, struct rdt_ns *ns); /* not found any more */
/* Once hidden: what is in flight completes or is cut short. Answers when that is over. */
void rdt_view_leave(struct rdt_reactor *r, struct rdt_ns *ns);
void rdt_ns_answer(struct rdt_ns_post *post, int err);
struct rdt_ns *rdt_ns_find(struct rdt_reactor *r, const struct rdt_subsys *ss, uint32_t nsid);
/* The next one by NSID after @nsid (0: the first), or NULL. */
struct rdt_ns *rdt_ns_next(struct rdt_reactor *r, const struct rdt_subsys *ss, uint32_t nsid);
/* The same for the host of @req: what it does not see is not there. */
struct rdt_ns *rdt_ns_seen(const struct rdt_req *req, uint32_t nsid);
struct rdt_ns *rdt_ns_seen_next(const struct rdt_req *req, uint32_t nsid);
/* Find it for a command: sets req->ns and holds it until the request is finished. */
bool rdt_ns_take(struct rdt_req *req, uint32_t nsid);
void rdt_ns_release(struct rdt_req *req);
static inline struct rdt_chan *rdt_ns_chan(const struct rdt_reactor *r, const struct rdt_ns *ns)
{
	return r->views[ns->slot].chan;
}

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
/* End the association from any thread, holding subsys->lock or a reference. @why is a literal. */
void rdt_ctrl_end(struct rdt_ctrl *ctrl, const char *why);
void rdt_ctrl_log_error(struct rdt_ctrl *ctrl, const struct rdt_req *req);
void rdt_ctrl_log_internal(struct rdt_ctrl *ctrl, uint32_t nsid); /* not of a command */
const char *rdt_ctrl_state_name(unsigned int state);

/* mask.c: who may connect, and who sees what */
int rdt_mask_init(struct rdt_subsys *ss);
void rdt_mask_fini(struct rdt_subsys *ss);
bool rdt_subsys_allows(struct rdt_subsys *ss, const char *hostnqn); /* any thread */
/* Main thread. The lists are copied; controllers of hosts that fell out of them are ended, and
 * those that see more or fewer namespaces are told. */
int rdt_subsys_set_hosts(struct rdt_subsys *ss, bool any, const char *const *nqns,
			 unsigned int count);
int rdt_ns_set_hosts(struct rdt_ns *ns, const char *const *nqns, unsigned int count);
int rdt_mask_ns(struct rdt_ns *ns);        /* a new namespace, before any reactor shows it */
void rdt_unmask_ns(struct rdt_ns *ns);     /* it is going to be freed */
void rdt_mask_ctrl(struct rdt_ctrl *ctrl); /* a new controller, under subsys->lock */
bool rdt_mask_allows(const struct rdt_subsys *ss, const char *hostnqn); /* under subsys->lock */
void rdt_event_ns(struct rdt_ns *ns, enum rdt_event event); /* to those that see it. Main thread */
static inline bool rdt_ns_visible(const struct rdt_ctrl *ctrl, const struct rdt_ns *ns)
{
	return !(atomic_load_explicit(&ctrl->hidden[ns->slot / 64], memory_order_relaxed) >>
			 ns->slot % 64 &
		 1);
}
static inline bool rdt_ns_write_protected(const struct rdt_ns *ns)
{
	return ns->bdev->read_only || atomic_load_explicit(&ns->wp, memory_order_relaxed);
}

/* ana.c */
void rdt_ana_init(struct rdt_listener *l);
/* Main thread. Returns 0, or -EINVAL for a group out of range. */
int rdt_ana_set(struct rdt_target *target, struct rdt_listener *l, uint32_t group,
		enum nvme_ana_state state);
enum nvme_ana_state rdt_ana_state(const struct rdt_ctrl *ctrl, uint32_t group);
struct nvme_status rdt_ana_status(const struct rdt_ctrl *ctrl, const struct rdt_ns *ns);
struct nvme_status rdt_ana_check(struct rdt_req *req); /* of req->ns */
uint64_t rdt_ana_log_size(const struct rdt_req *req);

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
void rdt_events_init(struct rdt_ctrl *ctrl);
void rdt_events_reset(struct rdt_ctrl *ctrl);
void rdt_events_fini(struct rdt_ctrl *ctrl);
uint32_t rdt_event_oaes(const struct rdt_subsys *ss); /* also what feature 0Bh can turn on */
/* Any thread, holding subsys->lock or a reference. */
void rdt_event_post(struct rdt_ctrl *ctrl, enum rdt_event event, uint32_t nsid);
void rdt_event_subsys(struct rdt_subsys *ss, enum rdt_event event, uint32_t nsid); /* any thread */
/* The host reads the event's log page. Owner. */
void rdt_event_log_read(struct rdt_ctrl *ctrl, unsigned int lid, uint64_t offset, bool rae);
void rdt_changed_ns_read(struct rdt_ctrl *ctrl, struct nvme_ns_list *list, bool clear);

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
/* Its namespace was removed: it ends now where nobody else holds it, else as soon as it is back. */
void rdt_req_ns_gone(struct rdt_req *req);
/* Its connection ends: so does it, as soon as nobody else holds it. */
void rdt_req_hang_up(struct rdt_req *req);
void rdt_req_init(struct rdt_req *req, struct rdt_qpair *qp, uint16_t index);
void rdt_req_begin(struct rdt_req *req, struct rdt_capsule *cap);
void rdt_req_process(struct rdt_req *req);
void rdt_req_buffer(struct rdt_req *req, void *buf); /* from the pool: its turn has come */
void rdt_req_complete(struct rdt_req *req);          /* req->status is set */
void rdt_req_set_state(struct rdt_req *req, enum rdt_req_state state);
/* It has its data or needs none: buffers are next. Keyed data needs one, the capsule is not. */
void rdt_req_parsed(struct rdt_req *req);
void rdt_req_drop(struct rdt_req *req); /* EXECUTING, and nobody else holds it */
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
/* Keyed descriptors of a command: as configured, and as a list that fits into a capsule has. */
uint8_t rdt_msdbd(const struct rdt_target_config *cfg);
static inline const struct rdt_sgl_desc *rdt_req_sgl(const struct rdt_req *req)
{
	return &req->qp->sgl_lists[req->index * req->qp->msdbd];
}

/* status.c */
/* " (3 more like it)", or "" for none: the end of a rate-limited message. Returns @buf. */
#define RDT_SQUASHED_TEXT 32
const char *rdt_squashed(uint32_t n, char buf[RDT_SQUASHED_TEXT]);
struct nvme_status rdt_status_from_errno(int err, unsigned int bio_op);

#include "gate.h"
#include "resv.h"

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
struct nvme_status rdt_get_features_check(struct rdt_req *req);
struct nvme_status rdt_set_features_check(struct rdt_req *req);
enum rdt_exec rdt_get_features_exec(struct rdt_req *req);
enum rdt_exec rdt_set_features_exec(struct rdt_req *req);
uint32_t rdt_feature_effects(const struct rdt_subsys *ss, unsigned int fid); /* log page 12h */
/* With what feature 16h adds to it. Any thread. */
struct nvme_status rdt_retry_delay(const struct rdt_ctrl *ctrl, struct nvme_status st);

/* effects.c: what log page 05h says of an opcode; 0: not supported */
uint32_t rdt_admin_effects(const struct rdt_subsys *ss, unsigned int opcode);
uint32_t rdt_io_effects(const struct rdt_subsys *ss, unsigned int opcode);

/* write_protect.c: feature 84h */
uint8_t rdt_write_protect_caps(const struct rdt_target *target); /* NWPC */
int rdt_write_protect_open(struct rdt_ns *ns); /* main thread; logs why it cannot */
struct nvme_status rdt_write_protect_get(struct rdt_req *req, uint32_t *value);
enum rdt_exec rdt_write_protect_set(struct rdt_req *req);

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
/* Something in the log is different now, for some host. Any thread, not under disc.lock. */
void rdt_discovery_changed(struct rdt_target *target);
int rdt_referrals_set(struct rdt_target *target, const struct rdt_referral_config *list,
		      unsigned int count); /* main thread */
void rdt_ana_log(const struct rdt_req *req, const struct rdt_log_out *out);

/* cmd_io.c, io_check.c, io_step.c; more of theirs in io.h */
extern const struct rdt_cmd rdt_io_cmds[256];
bool rdt_io_supported(const struct rdt_subsys *ss, unsigned int opcode);
bool rdt_fused_supported(const struct rdt_subsys *ss);

/* range_lock.c, uncorrectable.c */
void rdt_range_init(struct rdt_ns *ns);
void rdt_range_fini(struct rdt_ns *ns);
void rdt_uncor_init(struct rdt_ns *ns);
void rdt_uncor_fini(struct rdt_ns *ns);

/* rdma.c, rdma_cm.c */
int rdt_rdma_init(struct rdt_reactor *r);
void rdt_rdma_fini(struct rdt_reactor *r);
unsigned int rdt_rdma_mrs(const struct rdt_reactor *r);
unsigned int rdt_rdma_capsules(const struct rdt_reactor *r); /* in RECVs of pools */

static inline uint16_t rdt_sqe_cid(const struct rdt_req *req)
{
	return le16toh(req->sqe.cid);
}

static inline struct rdt_target *rdt_req_target(const struct rdt_req *req)
{
	return req->qp->reactor->target;
}

#endif /* RDT_INTERNAL_H */
