/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal interface of librdinit. Prototypes stand under the name of the file that defines
 * them. */
#ifndef RDI_INTERNAL_H
#define RDI_INTERNAL_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "nvmf/text.h"
#include "nvmf/wire.h"
#include "rdinit.h"
#include "transport.h"
#include "util/log.h"
#include "util/loop.h"
#include "util/sockaddr.h"
#include "util/spin.h"

#define RDI_TEXT       1024 /* bytes of an error text, which can contain two NQNs */
#define RDI_CACHE_LINE 64

/* ---- error.c ---- */

/* Stores @fmt, prefixed with @func, as the text of error @err for this thread. Returns @err. */
int rdi_fail(const char *func, int err, const char *fmt, ...)
	__attribute__((cold, format(printf, 3, 4)));
/* As rdi_fail(), for the completion of a command: also stores its NVMe status. */
/* rdinit_get_error() without the name of the function, for texts that people read. */
const char *rdi_error_reason(void);
int rdi_fail_completion(const char *func, const struct rdinit_completion *c);
/* Stores that the handle is NULL. Returns -EINVAL. */
int rdi_no_handle(const char *func) __attribute__((cold));

/*
 * Checks @size of a caller's structure: versions differ in the members at the end. @first: bytes of
 * the first version; @ours: bytes of this version; @name: for the text. Returns 0 or -EINVAL.
 */
int rdi_check_size(const char *func, const char *name, size_t size, size_t first, size_t ours);
#define RDI_CHECK_SIZE(func, p, type, first)                                                \
	((p) ? rdi_check_size(func, "struct " #type, (p)->size, first, sizeof(struct type)) \
	     : rdi_fail(func, -EINVAL, "struct " #type ": it is NULL"))
/* Whether the caller's structure, whose size was checked, has this member. */
#define RDI_HAS(p, member) ((p)->size >= offsetof(__typeof__(*(p)), member) + sizeof((p)->member))
/* Copies @from, of @ours bytes, to the caller's structure of @size bytes; sets bytes beyond
 * @ours to 0 and keeps the caller's value of the member size. */
void rdi_put_sized(void *to, size_t size, const void *from, size_t ours);
/* As rdi_put_sized(), with zeroes only. */
void rdi_zero_sized(void *to, size_t size);

/* Bytes of the structures in version 0.1. */
#define RDI_URI_FIRST  offsetof(struct rdinit_uri, no_remote_invalidate)
#define RDI_OPTS_FIRST offsetof(struct rdinit_ctrl_opts, no_remote_invalidate)
#define RDI_INFO_FIRST offsetof(struct rdinit_ctrl_info, hostid)

/* ---- host.c ---- */

/* The identity of this host on the fabric. */
struct rdi_host {
	char nqn[RDINIT_NQN_SIZE];
	uint8_t id[16];
	char text[256]; /* why it cannot be used, or a warning about it; "": none */
};

/* Files with the defaults; tests set other paths. */
struct rdi_host_files {
	const char *hostnqn;
	const char *hostid;
	const char *machine_id;
};
extern const struct rdi_host_files rdi_host_files;

/* @nqn or @id NULL: the default. Returns 0, also with a warning in host->text, or
 * -EINVAL with *@why set to it. */
int rdi_host_init(struct rdi_host *host, const char *nqn, const char *id,
		  const struct rdi_host_files *files, const char **why);

/* ---- resolve.c ---- */

#define RDI_ADDRS_MAX 16

struct rdi_addrs {
	unsigned int n;
	struct sockaddr_storage ss[RDI_ADDRS_MAX];
};

/* Tries a numeric address first, then getaddrinfo(3). Returns 0, -EINVAL (port) or
 * -EADDRNOTAVAIL, with the reason in @why. */
int rdi_resolve(const char *host, const char *port, struct rdi_addrs *out, char *why,
		size_t why_len);
/* Puts the same addresses with @port before those of @addrs. Returns how many these are. */
unsigned int rdi_addrs_first_at(struct rdi_addrs *addrs, uint16_t port);

/* ---- queue.c: a queue pair of either kind, from its connection to its end ---- */

struct rdi_auth;
struct rdi_tls;
struct rdi_handle;
struct rdi_queue;
struct rdi_req;

enum rdi_queue_state {
	RDI_Q_NEW,       /* rdi_queue_connect() moves it out */
	RDI_Q_RESOLVING, /* RESOLVED moves it on; CONNECT_ERROR to the next address or to CLOSING */
	RDI_Q_CONNECTING,  /* ESTABLISHED moves it on; REJECTED, CONNECT_ERROR as above */
	RDI_Q_ESTABLISHED, /* fabrics commands only; rdi_queue_live() moves it out */
	RDI_Q_LIVE,        /* all commands; rdi_queue_fail() moves it out */
	RDI_Q_CLOSING,     /* disconnected, waits for the flushed work requests; the teardown
			      or its timer moves it out */
	RDI_Q_CLOSED,      /* final: no connection, no request in flight */
};

enum rdi_dir {
	RDI_NONE, /* no data */
	RDI_OUT,  /* host to controller */
	RDI_IN,   /* controller to host */
};

/* Properties of a command; bits. */
enum rdi_how {
	RDI_FABRICS = 1, /* allowed before RDI_Q_LIVE */
	/* sent by the library: may use the reserved entries, is not counted for the caller */
	RDI_INTERNAL = 2,
	RDI_KEYED = 4,  /* data never goes in the capsule */
	RDI_AS_IS = 8,  /* flags and SGL are set by the caller; no data */
	RDI_ZERO = 16,  /* the memory for received data is zeroed first */
	RDI_AGAIN = 32, /* was in flight already, and waited for authentication */
};

/* A command for rdi_queue_submit(). */
struct rdi_cmd {
	struct nvme_sqe sqe; /* PSDT, cid and SGL are filled in by the queue */
	void *data;
	uint32_t len;
	enum rdi_dir dir;
	uint64_t timeout_ns; /* 0: the queue's; UINT64_MAX: none */
	unsigned int how;    /* enum rdi_how */
	rdinit_complete_fn fn;
	void *user;
};

/* Events that a request waits for. The request is busy, which is from submit to callback, while
 * any of them is outstanding. */
#define RDI_DUE_SEND   1 /* the transport may still read the capsule */
#define RDI_DUE_ANSWER 2 /* the response: cqe is not valid yet */
#define RDI_DUE_PROOF  4 /* the target refused it until the queue has authenticated again */

/*
 * Two cache lines: with many queues the requests do not fit into a cache, and rdi_req_expect()
 * prefetches both lines.
 */
struct rdi_req {
	union {
		TAILQ_ENTRY(rdi_req) link;      /* in q->busy */
		SLIST_ENTRY(rdi_req) free_link; /* in q->free */
	};
	rdinit_complete_fn fn;
	void *user;
	uint16_t cid;       /* of this command or, while free, of the last one: see request.c */
	uint8_t due;        /* RDI_DUE_*; 0: it is free */
	uint8_t dir;        /* enum rdi_dir */
	uint8_t mapped;     /* how the transport has mapped the data; 0: it has not */
	bool mark;          /* the transport's own */
	bool internal;      /* part of q->internal_inflight */
	void *transport[6]; /* the transport's own */

	struct nvme_sqe *sqe; /* in q->sqes */
	void *data;
	uint64_t deadline; /* ns; UINT64_MAX: none; 0: the watchdog sets it at its next check */
	uint32_t len;
	__le16 status; /* from the response, */
	__le64 result; /* whose other fields are not kept */
} __attribute__((aligned(RDI_CACHE_LINE)));
_Static_assert(sizeof(struct rdi_req) == 2 * RDI_CACHE_LINE, "see above");

struct rdi_region {
	void *addr;
	size_t len;
	void *mr; /* of the transport; NULL: the region is only recorded */
	unsigned int users;
};

TAILQ_HEAD(rdi_req_list, rdi_req);
SLIST_HEAD(rdi_req_stack, rdi_req);

/* Parameters of a queue; the strings must outlive it. */
struct rdi_queue_cfg {
	const char *label; /* "admin" or "io 1", for texts and logs */
	uint16_t qid;
	uint16_t depth;      /* number of entries requested */
	uint16_t reserved;   /* entries that only internal commands may use */
	uint32_t in_capsule; /* payload bytes a capsule may carry; 0: in-capsule data is not used */
	uint64_t connect_timeout_ns;
	uint64_t cmd_timeout_ns;
	size_t bounce_bytes;
	size_t max_data; /* largest payload of a command; determines the size of the bounce slab */
	struct rdi_addrs addrs;
	/* The first so many of @addrs have a port of discovery's own; the others are tried only
	 * where nobody listens there. 0: all are tried. */
	unsigned int at_own_port;
	const struct sockaddr *src; /* NULL: any */
	/* The key of each connection and whose it is; the handle has them as long. NULL: no TLS. */
	struct rdi_tls *tls;
	const char *hostnqn;
	const char *subnqn;
};

struct rdi_queue {
	struct rdi_queue_cfg cfg;
	const struct rdi_transport_ops *ops;
	void *conn;   /* of the transport; NULL before rdi_queue_connect() */
	void *opened; /* what the transport opened for the handle */
	struct rd_loop *loop;
	struct rd_log *log;
	enum rdi_queue_state state;
	unsigned int addr_next;
	char remote[RD_ADDR_TEXT];
	uint16_t depth;          /* number of entries granted; valid from ESTABLISHED on */
	unsigned int limit;      /* limit of commands in flight */
	unsigned int user_limit; /* limit of commands in flight before a caller's command is sent */

	struct rdi_req *reqs; /* cfg.depth of them */
	struct nvme_sqe *sqes;
	struct rdi_req_stack free;
	struct rdi_req_list busy;       /* in order of submission */
	unsigned int inflight;          /* busy requests */
	unsigned int internal_inflight; /* internal ones among them */

	struct rdi_region **regions; /* sorted by address */
	size_t n_regions;

	struct rd_timer watchdog; /* runs while requests with a deadline are in flight */
	uint64_t watchdog_last;
	struct rd_timer drain_timer;
	struct rd_defer teardown;
	bool no_drain; /* the connection is destroyed without waiting for its orderly end */

	int err; /* the reason why the queue failed; 0: it has not */
	char text[RDI_TEXT];
	/* number of callbacks in this iteration, the return value of the process functions */
	unsigned int callbacks;
	struct rdi_auth *auth; /* transaction in progress, or NULL */
	uint64_t proved_at;    /* ns; time of the last successful authentication; 0: none */

	/* Hooks of the owner. established: the return value 0 continues, -errno fails the queue.
	 * closed: the last call, after all requests have completed. */
	void (*established)(struct rdi_queue *q);
	void (*closed)(struct rdi_queue *q);
	/* May be NULL. The controller asks the live queue to authenticate again. Returns whether
	 * a transaction is in progress. */
	bool (*renew)(struct rdi_queue *q);
	/* May be NULL. @req has exceeded its time limit. Returns true if the hook has set a new
	 * limit in req->deadline; false: the queue fails. */
	bool (*overdue)(struct rdi_queue *q, struct rdi_req *req);
	void *owner; /* set by the owner, with the hooks */
};

const char *rdi_queue_state_name(enum rdi_queue_state state);
void rdi_queue_init(struct rdi_queue *q, const struct rdi_handle *h,
		    const struct rdi_queue_cfg *cfg);
/* Allocates the queue's memory and connects. Returns 0, -ENOMEM or -errno; after 0 either
 * established() or closed() is called. */
int rdi_queue_connect(struct rdi_queue *q);
void rdi_queue_live(struct rdi_queue *q);
/*
 * Ends the queue with error @err. Closes the connection; when the peer can access none of our
 * memory any more, all requests complete with @err, then closed() is called. Later calls change
 * neither error nor text.
 */
void rdi_queue_fail(struct rdi_queue *q, int err, const char *fmt, ...)
	__attribute__((cold, format(printf, 3, 4)));
/* Destroys the queue at once; requests complete with -ECANCELED. Only rdi_queue_init() may
 * follow. */
void rdi_queue_fini(struct rdi_queue *q);
/*
 * Sends a command. Returns 0 (the callback will be called), -ENOTCONN, -EAGAIN (limit reached, or
 * no bounce memory), -EINVAL or -ENOMEM; rdi_queue_why() returns the text.
 */
int rdi_queue_submit(struct rdi_queue *q, const struct rdi_cmd *cmd);

/* Whether @n commands with properties @how can be sent now: 0, -ENOTCONN or -EAGAIN. */
static inline int rdi_queue_check(const struct rdi_queue *q, unsigned int how, unsigned int n)
{
	if (q->state != RDI_Q_LIVE && !(q->state == RDI_Q_ESTABLISHED && how & RDI_FABRICS))
		return -ENOTCONN;
	if (q->inflight + n > (how & RDI_INTERNAL ? q->limit : q->user_limit))
		return -EAGAIN;
	return 0;
}

/* The request for the next command. Valid only after rdi_queue_check() returned 0: there are
 * more requests than the limit allows, so one is free. */
static inline struct rdi_req *rdi_queue_next(const struct rdi_queue *q)
{
	return SLIST_FIRST(&q->free);
}

/*
 * As rdi_queue_submit(), for a plain command of an I/O queue that was built in place: the caller
 * has filled in sqe, data, len, dir, fn and user of rdi_queue_next().
 */
int rdi_queue_send(struct rdi_queue *q, struct rdi_req *req);
/*
 * Sends two consecutive commands, or neither. Returns as rdi_queue_submit(). If the connection
 * fails between their completions, both complete with its error.
 */
int rdi_queue_submit_pair(struct rdi_queue *q, const struct rdi_cmd *first,
			  const struct rdi_cmd *second);
/* The identifier of the command that was submitted last. */
uint16_t rdi_queue_last_cid(const struct rdi_queue *q);
/* The text for the error @err of rdi_queue_submit(). */
const char *rdi_queue_why(const struct rdi_queue *q, int err);

/* ---- request.c: requests of a queue, from submit to callback ---- */

/* Largest number of blocks that the field NLB can express. */
#define RDI_NLB_MAX   65536u
#define RDI_CDW12_FUA ((uint32_t)NVME_IO_FUA << 16)

/*
 * Builds a Read or Write with @opcode in @req, which rdi_queue_next() returned; the caller sets fn
 * and user. @flags: RDINIT_IO_FUA or 0.
 */
static inline void rdi_req_make_rw(struct rdi_req *req, uint8_t opcode, uint32_t nsid, uint64_t lba,
				   uint32_t nblocks, uint32_t block_size, void *buf,
				   unsigned int flags)
{
	*req->sqe = (struct nvme_sqe){
		.opcode = opcode,
		.flags = NVME_CMD_PSDT_SGL,
		.nsid = htole32(nsid),
		.cdw10 = htole32((uint32_t)lba),
		.cdw11 = htole32((uint32_t)(lba >> 32)),
		.cdw12 = htole32((nblocks - 1) | (flags & RDINIT_IO_FUA ? RDI_CDW12_FUA : 0)),
	};
	req->data = buf;
	req->len = nblocks * block_size;
	req->dir = opcode == nvme_cmd_read ? RDI_IN : RDI_OUT;
}

/* A command identifier has the request's index in its low bits and a generation above them, so
 * that a late response matches no newer command. */
#define RDI_CID_INDEX_BITS 12
#define RDI_CID_INDEX_MASK ((1u << RDI_CID_INDEX_BITS) - 1)
#define RDI_CID_GEN_ONE    (1u << RDI_CID_INDEX_BITS)

/* The request at the index in @cid, whatever its present identifier, or NULL: there is none. */
static inline struct rdi_req *rdi_req_at(const struct rdi_queue *q, uint16_t cid)
{
	unsigned int index = cid & RDI_CID_INDEX_MASK;

	return index < q->cfg.depth ? &q->reqs[index] : NULL;
}

/* The request in flight with identifier @cid, or NULL. */
static inline struct rdi_req *rdi_req_find(const struct rdi_queue *q, uint16_t cid)
{
	struct rdi_req *req = rdi_req_at(q, cid);

	return req && req->cid == cid && req->due & RDI_DUE_ANSWER ? req : NULL;
}
/* For rdi_queue_fail() when there is none: q->remote, the identifier. */
#define RDI_UNKNOWN_CID "%s: a response for command ID 0x%04x, which is not in flight"

/* Prefetches the request with identifier @cid, whose response will be handled soon. */
static inline void rdi_req_expect(const struct rdi_queue *q, uint16_t cid)
{
	const char *req = (const char *)rdi_req_at(q, cid);

	if (!req)
		return;
	__builtin_prefetch(req, 1);
	__builtin_prefetch(req + RDI_CACHE_LINE, 1);
}

/* Ends the peer's access to the data; if the command is @done, received data is in the caller's
 * buffer afterwards. Idempotent. */
static inline void rdi_unmap(struct rdi_queue *q, struct rdi_req *req, bool done)
{
	if (req->mapped)
		q->ops->unmap(q, req, done);
}

void rdi_req_start_watchdog(struct rdi_queue *q);
/* The transport has sent @req with properties @how: it is in flight. */
static inline void rdi_req_started(struct rdi_queue *q, struct rdi_req *req, unsigned int how)
{
	req->due = RDI_DUE_SEND | RDI_DUE_ANSWER;
	if (__builtin_expect(how & RDI_AGAIN, 0))
		return;
	SLIST_REMOVE_HEAD(&q->free, free_link);
	TAILQ_INSERT_TAIL(&q->busy, req, link);
	q->inflight++;
	if (__builtin_expect(req->internal, 0))
		q->internal_inflight++;
	if (req->deadline != UINT64_MAX && !rd_timer_armed(&q->watchdog))
		rdi_req_start_watchdog(q);
	rd_trace(q->log, RD_LOG_INIT, "%s queue: cid %u %s, %u bytes", q->cfg.label, req->cid,
		 nvme_cmd_text(!q->cfg.qid, req->sqe), req->len);
}

/* As calloc(), aligned to a cache line. */
void *rdi_lines_alloc(size_t n, size_t size);
int rdi_req_alloc(struct rdi_queue *q);
void rdi_req_release(struct rdi_queue *q);
/* Completes every request in flight with error @err. */
void rdi_req_abort_all(struct rdi_queue *q, int err, const char *text);
void rdi_req_watchdog(struct rd_timer *timer);
/* The authentication has ended: sends the commands that wait for it again or, if not @proved,
 * fails them. */
void rdi_req_after_proof(struct rdi_queue *q, bool proved);

/* ---- region.c: memory that the application registered ---- */

/* The region that holds all of [@data, @data + @len), or NULL. */
struct rdi_region *rdi_region_find(struct rdi_queue *q, const void *data, size_t len);
int rdi_region_add(struct rdi_queue *q, void *addr, size_t len);
int rdi_region_del(struct rdi_queue *q, void *addr);
void rdi_region_clear(struct rdi_queue *q);

/* ---- handle.c: what controller and queue pair have in common ---- */

struct rd_fab;
struct rd_fab_iwarp_opts;

/* What tests replace. */
struct rdi_env {
	/* Opens the one fabric of NVMe/RDMA; NULL: the providers choose, as the options say. */
	int (*fab_open)(struct rd_loop *loop, const struct rd_fab_iwarp_opts *opts,
			struct rd_fab **out);
	const struct rd_clock *clock;
	uint64_t seed;
	const struct rdi_host_files *host_files;
};
extern const struct rdi_env rdi_env_default;

/* Loop, transport and log of a handle. */
struct rdi_handle {
	bool borrowed; /* loop, log and mark belong to another handle, which outlives this one */
	/* A page that is 1 in the process that opened the handle, and that the kernel clears in its
	 * children; NULL before the handle is opened. */
	unsigned char *mark;
	struct rd_loop *loop;
	const struct rdi_transport_ops *ops;
	void *opened;       /* by ops->open() */
	struct rd_log *log; /* owned */
	/* an iteration of the loop is running: the current call comes from a callback */
	bool in_turn;
	bool free_later;
	struct rd_spin spin; /* busy-waiting of iterations that wait; its ns 0: none */
};

/* Log settings that a controller passes to its queue pairs. */
struct rdi_log_cfg {
	char *spec;
	int fd;
	rdinit_log_fn fn;
	void *user;
};

/* Opens loop and log, or with @home uses those of that handle. */
int rdi_handle_open_loop(struct rdi_handle *h, const struct rdi_env *env,
			 const struct rdi_log_cfg *log, const struct rdi_handle *home,
			 const char **why);
/* As rdi_handle_open_loop(), and opens the transport. */
int rdi_handle_open(struct rdi_handle *h, const struct rdi_env *env, const struct rdi_log_cfg *log,
		    const struct rdi_transport_cfg *cfg, const struct rdi_handle *home,
		    const char **why);
void rdi_handle_close(struct rdi_handle *h);
/* A free function was called. Returns whether the handle ends now; from a callback, the iteration
 * ends it, and a child of the process that opened it never does. */
bool rdi_handle_ends(struct rdi_handle *h);
/*
 * Does one iteration; one that waits (@timeout_ms is not 0) may busy-wait first. Returns 0,
 * -EDEADLK from a callback, or -errno of the loop.
 */
int rdi_handle_turn(struct rdi_handle *h, int timeout_ms);
/* An iteration for a process function of the owner of @q. Returns its result, unless h->free_later
 * is set afterwards. */
int rdi_queue_process(struct rdi_handle *h, struct rdi_queue *q, const char *func, int timeout_ms);

/* ---- sync.c: synchronous calls ---- */

/* The handle in a controller or queue pair; NULL for NULL. */
#define RDI_HANDLE(p) ((p) ? &(p)->h : NULL)

/*
 * Whether a call must not touch the handle: it is NULL, or a copy in a child after fork(2), where
 * sockets, timers and RDMA objects are those of the parent. Free functions then leave all of it.
 */
static inline bool rdi_is_foreign(const struct rdi_handle *h)
{
	return __builtin_expect(!h || (h->mark && !*h->mark), 0);
}
/* The thread's error text for it. Returns -EINVAL (NULL) or -ECHILD. */
int rdi_foreign(const struct rdi_handle *h, const char *func) __attribute__((cold));

int rdi_cannot_wait(const struct rdi_handle *h, const char *func) __attribute__((cold));
/* Whether a call may wait on @h. Returns 0, -EINVAL (NULL), -ECHILD or -EDEADLK, with the thread's
 * error text. */
static inline int rdi_may_wait(const struct rdi_handle *h, const char *func)
{
	return __builtin_expect(!rdi_is_foreign(h) && !h->in_turn, 1) ? 0
								      : rdi_cannot_wait(h, func);
}

/* The completion of a synchronous call. */
struct rdi_sync {
	bool done;
	struct rdinit_completion c;
	char text[RDI_TEXT];
};
void rdi_sync_done(void *user, const struct rdinit_completion *c);
/* Runs iterations until @sync is done. Returns its error, with the thread's error text and status
 * set. */
int rdi_sync_wait(struct rdi_handle *h, struct rdi_sync *sync, const char *func);

/* A synchronous call on an object with a handle: checks that it may wait, evaluates @start, which
 * begins it with rdi_sync_done and &sync, and waits. The result is 0 or -errno; *@to, unless it
 * is NULL, becomes that of the completion. */
#define RDI_SYNC_RESULT(object, func, to, start)                            \
	({                                                                  \
		struct rdi_sync sync = {.done = false};                     \
		uint64_t *sync_result = (to);                               \
		int sync_rc = rdi_may_wait(RDI_HANDLE(object), func);       \
                                                                            \
		if (!sync_rc)                                               \
			sync_rc = (start);                                  \
		if (!sync_rc)                                               \
			sync_rc = rdi_sync_wait(&(object)->h, &sync, func); \
		if (sync_result && sync.done)                               \
			*sync_result = sync.c.result;                       \
		sync_rc;                                                    \
	})
#define RDI_SYNC(object, func, start) RDI_SYNC_RESULT(object, func, NULL, start)

typedef int (*rdi_try_fn)(void *arg);
/*
 * @again has returned -EAGAIN for a synchronous call. Calls it after each completion of the
 * caller's commands, before the callback of that command, until it returns something else. Returns
 * -EAGAIN if no command in flight is certain to complete.
 */
int rdi_sync_retry(struct rdi_handle *h, struct rdi_queue *q, rdi_try_fn again, void *arg);
/* rdi_queue_submit(); for a synchronous call, which its callback tells, waits until there is
 * room. */
int rdi_submit(struct rdi_handle *h, struct rdi_queue *q, const struct rdi_cmd *cmd);

/* ---- fabrics.c: commands both queue kinds send ---- */

struct rdi_connect_arg {
	uint16_t qid;
	uint16_t sqsize; /* 0's based */
	uint16_t cntlid;
	uint32_t kato_ms;
	uint64_t timeout_ns;
	const struct rdi_host *host;
	const char *subnqn;
};

/* @data must stay valid until the callback. */
int rdi_fabrics_connect(struct rdi_queue *q, const struct rdi_connect_arg *arg,
			struct nvmf_connect_data *data, rdinit_complete_fn fn, void *user);
int rdi_property_get(struct rdi_queue *q, uint32_t offset, bool wide, rdinit_complete_fn fn,
		     void *user);
int rdi_property_set(struct rdi_queue *q, uint32_t offset, uint32_t value, rdinit_complete_fn fn,
		     void *user);
/* Writes a text such as "this host is not allowed..." for a failed Connect of @host to @subnqn.
 * Returns @buf. */
const char *rdi_connect_error_text(const struct rdinit_completion *c, const struct rdi_host *host,
				   const char *subnqn, char *buf, size_t len);

/* ---- ctrl.c, ctrl_connect.c ---- */

#define RDI_KATO_DEFAULT_MS 5000

enum rdi_ctrl_state {
	RDI_CTRL_NEW,       /* rdinit_ctrl_connect() moves it out */
	RDI_CTRL_TRANSPORT, /* until the queue is established */
	RDI_CTRL_CONNECT,   /* this and the following: until the state's command completes */
	RDI_CTRL_AUTH,      /* until the queue's transaction ends; skipped without authentication */
	RDI_CTRL_GET_CAP,
	RDI_CTRL_GET_VS,
	RDI_CTRL_GET_CC,
	RDI_CTRL_DISABLE,
	RDI_CTRL_WAIT_DISABLED, /* polls CSTS until RDY is 0 or CAP.TO is over */
	RDI_CTRL_ENABLE,
	RDI_CTRL_WAIT_READY, /* polls CSTS until RDY is 1 or CAP.TO is over */
	RDI_CTRL_IDENTIFY,
	RDI_CTRL_SET_QUEUES,
	RDI_CTRL_AEN_CONFIG,
	RDI_CTRL_READY,         /* rdinit_ctrl_disconnect() or a failure of the queue */
	RDI_CTRL_SHUTDOWN,      /* CC.SHN has been written */
	RDI_CTRL_WAIT_SHUTDOWN, /* polls CSTS until SHST says complete or RTD3E is over */
	RDI_CTRL_CLOSING,       /* until the queue is closed */
	RDI_CTRL_CLOSED,        /* final */
};

struct rdinit_ctrl {
	struct rdi_handle h;
	struct rdi_queue q;
	enum rdi_ctrl_state state;
	const struct rdi_env *env;
	struct rdi_log_cfg log_cfg;
	struct rdi_transport_cfg *transport; /* shared */
	struct rdi_host host;
	struct rdi_auth_keys *auth; /* NULL: there are no secrets */
	struct rdi_tls *tls;        /* NULL: connections are made without TLS */
	char *traddr;
	char *trsvcid;
	bool no_port; /* none was given, so trsvcid is the default */
	char subnqn[RDINIT_NQN_SIZE];
	struct sockaddr_storage src;
	bool has_src;
	bool discovery;
	uint32_t kato_ms;
	uint32_t connect_timeout_ms;
	uint32_t admin_timeout_ms;
	uint16_t admin_queue_size;
	uint16_t want_queues;
	rdinit_event_fn event_fn;
	void *event_user;

	/* learned while connecting */
	uint64_t cap;
	uint32_t vs;
	uint32_t cc;
	uint16_t cntlid;
	uint16_t io_queues;
	uint16_t next_qid;
	uint32_t max_transfer;
	uint32_t in_capsule;
	uint16_t max_queue_size;
	struct sockaddr_storage remote;

	struct nvmf_connect_data connect_data;
	struct nvme_id_ctrl id;
	uint64_t wait_until; /* in the WAIT_ states: ns, the time limit */
	uint64_t poll_delay; /* ns until CSTS is read again; grows */
	struct rd_timer poll_timer;
	struct rd_timer keep_alive;
	bool keep_alive_out;
	uint64_t keep_alive_at;     /* ns; when the one that is out was sent */
	uint64_t keep_alive_looked; /* ns; when the timer fired last */
	bool aer_out;

	uint16_t fail_status;          /* the NVMe status with which connecting failed, or 0 */
	rdinit_complete_fn connect_fn; /* NULL after it was called */
	void *connect_user;
	rdinit_complete_fn disconnect_fn; /* NULL after it was called */
	void *disconnect_user;
	int shutdown_err;
	/*
	 * May be NULL. Whether I/O queues of the association carried commands and responses since
	 * the last call. If so, a controller with TBKAS needs no Keep Alive.
	 */
	bool (*traffic)(struct rdinit_ctrl *ctrl);
	/* May be NULL. The admin queue of a controller that was ready has closed. */
	void (*closed)(struct rdinit_ctrl *ctrl);
};

const char *rdi_ctrl_state_name(enum rdi_ctrl_state state);
void rdi_ctrl_set_state(struct rdinit_ctrl *ctrl, enum rdi_ctrl_state state);
/* rdinit_ctrl_create() with the environment of a test. */
/* An option that only the other transport has: returns 0 or -EINVAL, with the thread's text. */
int rdi_check_transport_opts(const char *func, const struct rdinit_ctrl_opts *o);
int rdi_ctrl_create_env(const struct rdinit_ctrl_opts *opts, const struct rdi_env *env,
			struct rdinit_ctrl **out);
/*
 * As rdi_ctrl_create_env(), on the loop of @home, whose iterations process the controller. Must not
 * be freed from a callback of the controller.
 */
int rdi_ctrl_create_on(const struct rdinit_ctrl_opts *opts, const struct rdi_env *env,
		       const struct rdi_handle *home, struct rdinit_ctrl **out);
/* Steps from RDI_CTRL_TRANSPORT to RDI_CTRL_READY, and of the shutdown. */
void rdi_ctrl_established(struct rdi_queue *q);
void rdi_ctrl_poll_timer(struct rd_timer *timer);
void rdi_ctrl_keep_alive(struct rd_timer *timer);
void rdi_ctrl_shutdown_start(struct rdinit_ctrl *ctrl);

/* ---- admin.c ---- */

/* @func: name at the start of error texts. @lid: bits 8 to 14 are LSP. */
int rdi_get_log(struct rdinit_ctrl *ctrl, const char *func, uint16_t lid, uint32_t nsid,
		uint64_t offset, void *data, uint32_t len, rdinit_complete_fn fn, void *user);

/*
 * Takes size and block size of namespace @nsid from its Identify data. Returns 0, -ENODEV or
 * -ENOTSUP, with the reason in @why.
 */
int rdi_ns_take(const struct nvme_id_ns *id, uint32_t nsid, struct rdinit_ns *ns, char *why,
		size_t why_len);

/* ---- discover.c ---- */

/* Parses a record, without its padding. */
void rdi_discover_parse(const struct nvmf_disc_log_entry *e, struct rdinit_discovery_record *rec);

/* ---- qpair.c ---- */

/* Largest command that may use bounce memory; larger ones need a registered buffer. */
#define BOUNCE_MAX_DATA (1u << 20)

struct rdinit_qpair {
	struct rdi_handle h;
	struct rdi_queue q;
	struct rdi_host host;
	struct rdi_auth_keys *auth; /* those of the controller, or NULL */
	struct rdi_tls *tls;        /* likewise */
	char subnqn[RDINIT_NQN_SIZE];
	char label[16];
	struct sockaddr_storage src;
	uint16_t cntlid;
	uint32_t max_transfer;
	struct nvmf_connect_data connect_data;
	struct rdi_log_cfg log_cfg;
	struct rdi_transport_cfg *transport; /* shared */
	uint16_t fail_status;          /* the NVMe status with which connecting failed, or 0 */
	rdinit_complete_fn connect_fn; /* NULL after it was called */
	void *connect_user;
};

/* rdinit_qpair_create() for queue pairs on the loop of @home, as rdi_ctrl_create_on(). */
int rdi_qpair_create_on(struct rdinit_ctrl *ctrl, const struct rdinit_qpair_opts *opts,
			const struct rdi_handle *home, struct rdinit_qpair **out);

#endif /* RDI_INTERNAL_H */
