/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of devices: a namespace, its paths, and the channels of the threads that use it.
 *
 * Two kinds of loops. The device's loop has the admin queues of all paths and their timers; it
 * iterations under dev->lock, on whichever thread sees it readable. A channel's loop has the
 * channel's I/O queues and belongs to the channel's thread; it watches the device's loop.
 *
 * From device to channel: values that channels read without the lock are atomic (live_epoch, ana,
 * state, blocks), and a change of any is announced by the message chan->kick. From channel to
 * device: calls under dev->lock. Locks in order: dev->lock, guards.lock.
 */
#ifndef RDI_DEV_H
#define RDI_DEV_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include "paths.h"
#include "dev_guard.h"
#include "internal.h"
#include "rdinit_dev.h"

struct rdi_discovery;
struct rdi_resolver;

/* ---- dev_path.c: a path, from its address to its end; all under dev->lock ---- */

/* What is read from a controller in sequence: bits of todo, the lowest first. */
#define RDI_READ_CHANGED 1  /* Changed Namespace List; reading it re-enables the event */
#define RDI_READ_DESCS   2  /* Namespace Identification Descriptors */
#define RDI_READ_NS      4  /* Identify Namespace */
#define RDI_READ_ANA     8  /* ANA log page */
#define RDI_READ_NVM     16 /* Identify Controller of the NVM command set: limits; optional */

#define RDI_ANA_LOG_MAX  (64u << 10)

struct rdi_path {
	struct rdinit_dev *dev;
	unsigned int index;
	struct rdinit_uri uri;
	uint32_t nsid;
	char *host_traddr; /* NULL: that of the controller options */
	/* the discovery controller whose log listed the path; NULL: added by the caller */
	const struct rdi_discovery *discovery;
	bool unlisted; /* the discovery log no longer lists the path */
	enum rdinit_dev_path_state state;

	struct rdi_resolver *resolver; /* in RESOLVING */
	struct rdi_addrs addrs;        /* valid once resolved */
	unsigned int addr_next;        /* index in addrs of the next attempt */
	/* the address of the current or latest connection; "" before the first */
	char address[RD_ADDR_TEXT];
	char live_address[RD_ADDR_TEXT]; /* the address of the latest association that was live */

	struct rdinit_ctrl *ctrl; /* from CONNECTING until the deferred call of LOST frees it */
	struct rd_defer drop;     /* frees ctrl, outside its callbacks */
	bool closing;             /* the orderly shutdown of rdinit_dev_close() is under way */

	unsigned int todo; /* RDI_READ_* */
	unsigned int reading;
	struct rdi_ns_identity identity;
	struct nvme_id_ns id_ns; /* the latest Identify Namespace data */
	struct rdinit_ns ns;     /* size and block size from id_ns */
	uint8_t vsl, wzsl;       /* NVM 4.1.5.2; 0: no limit */
	bool tells_extents;      /* AOCS.RALBAS */
	/* Buffer of the data that is being read from the controller. */
	uint8_t data[4096] __attribute__((aligned(8)));
	struct rdi_ana ana_now;
	void *ana_log; /* at most RDI_ANA_LOG_MAX bytes; NULL: the controller has no ANA */
	uint32_t ana_len;

	struct rd_timer timer; /* WAITING: the next attempt; LIVE: the limit of an ANA transition */
	uint64_t lost_at;      /* ns; when it was last live, or first tried */
	uint64_t live_at;      /* ns; when it last became live */
	uint32_t attempts;     /* since it was last live */
	bool refused;          /* the latest attempt ended with what configuration can heal */
	uint32_t losses;
	uint32_t epoch; /* number of associations that have been live */
	int err;
	uint16_t status;
	char text[RDI_TEXT]; /* the reason why it is not live */
	uint64_t retry_in;   /* WAITING: ns from entering the state to the next attempt */

	uint32_t n_sent, n_answered; /* sums over all channels when Keep Alive was last due */

	_Atomic uint32_t live_epoch; /* epoch while LIVE; else 0 */
	/* The first epoch of the current address: the target's stale-write fence covers commands
	 * of this epoch and later ones. */
	_Atomic uint32_t fence_epoch;
	/* Time in ns after a loss until the old controller can no longer execute a lost command. */
	_Atomic uint64_t stale_ns;
	_Atomic uint8_t ana; /* enum nvme_ana_state */
	/* Number of the gateway, of which only one at a time can write to the namespace; 0: it is
	 * none. See struct nvme_ns_gateway. */
	uint64_t gateway;
	/* LIVE: another gateway has the namespace now, and this one must answer before @timer */
	bool doubted;
	/* Blocks of one command at most; 0: not supported. Of the latest association. */
	_Atomic uint32_t max_write_zeroes, max_verify, max_copy;
};

int rdi_path_create(struct rdinit_dev *dev, const struct rdinit_uri *uri, const char *host_traddr,
		    struct rdi_path **out);
void rdi_path_free(struct rdi_path **path);
/* Starts the first attempt, or the next one without waiting for its delay. */
void rdi_path_start(struct rdi_path *path);
/* The log of @discovery lists @path, perhaps again. */
void rdi_path_list(struct rdi_path *path, const struct rdi_discovery *discovery);
/* No discovery log lists @path any more. */
void rdi_path_unlist(struct rdi_path *path);
/* Reuses the entry of @path, which is unlisted and has failed, for a path to @uri. */
void rdi_path_replace(struct rdi_path *path, const struct rdinit_uri *uri,
		      const struct rdi_discovery *discovery);
/* The association @epoch was lost because of @err; no-op when it is not the present one. */
void rdi_path_lost(struct rdi_path *path, uint32_t epoch, int err, const char *text);
/* A command completed with the path related status @st. */
void rdi_path_answered(struct rdi_path *path, uint32_t epoch, struct nvme_status st);
/* Sends Abort for command @cid of queue @qid. */
void rdi_path_abort(struct rdi_path *path, uint32_t epoch, uint16_t qid, uint16_t cid);
/* Starts the orderly shutdown. */
void rdi_path_close(struct rdi_path *path);
bool rdi_path_usable(const struct rdi_path *path);
/* Ends the attempt, or the association, because of @err; @status is a controller's status or 0. */
void rdi_path_fail(struct rdi_path *path, int err, uint16_t status, const char *fmt, ...)
	__attribute__((cold, format(printf, 4, 5)));
/* The controller and the namespace have passed all checks: the path becomes live. */
void rdi_path_live(struct rdi_path *path);
/* The text of address @n modulo their number, with its port and without; RD_ADDR_TEXT bytes
 * each. */
/* Whether a path to @uri, which is numeric as the path's, would be the same path again. */
bool rdi_path_is_same(const struct rdi_path *path, const struct rdinit_uri *uri,
		      const char *host_traddr);
void rdi_numeric_addr(const struct rdi_addrs *addrs, unsigned int n, char *address, char *numeric);
/* The delay in ns after @n failed attempts; @random spreads it. */
uint64_t rdi_backoff_ns(unsigned int n, uint64_t max_ns, uint32_t random);

/* ---- dev_check.c: what a path reads from its controller; under dev->lock ---- */

/* Reads what must be known before the path is live; ends in rdi_path_live() or rdi_path_fail(). */
void rdi_path_check(struct rdi_path *path);
/* An event of the controller: rdinit_event_fn. */
void rdi_path_event(void *user, uint32_t event);
/* The time limit of an ANA transition may have passed. */
void rdi_path_ana_timer(struct rdi_path *path);

/*
 * ---- dev_discovery.c: paths from a discovery controller, and from those that its log refers to;
 * the functions are about all of them; under dev->lock ----
 */

#define RDI_DISCOVERY_MAX 8 /* controllers */

/* @uri: the address of the discovery controller, and the subsystem and namespace to find. */
int rdi_discovery_create(struct rdinit_dev *dev, const struct rdinit_uri *uri,
			 const char *host_traddr, struct rdi_discovery **out);
void rdi_discovery_free(struct rdi_discovery **discovery);
/* Starts the first attempt, or the next one without waiting for its delay. */
void rdi_discovery_start(struct rdi_discovery *d);
/* No further attempt is made until rdi_discovery_start(). */
void rdi_discovery_stop(struct rdi_discovery *d);
/* Whether a first attempt is in progress. NULL is allowed: false. */
/* Whether the controllers are reached by TCP; else by RDMA. */
bool rdi_discovery_tcp(const struct rdi_discovery *d);
bool rdi_discovery_pending(const struct rdi_discovery *d);
/* The reason why discovery found no path: a negative errno value or 0. */
int rdi_discovery_error(const struct rdi_discovery *d, const char **text);

/* ---- resolve.c: host names, without blocking ---- */

/*
 * Called on the loop. @rc: as of rdi_resolve(). @addrs and @why are valid during the call, even if
 * the callback cancels the resolver.
 */
typedef void (*rdi_resolved_fn)(void *arg, int rc, const struct rdi_addrs *addrs, const char *why);

/* Returns 0, -ENOMEM, or -EAGAIN of pthread_create(3). */
int rdi_resolver_start(struct rd_loop *loop, const char *host, const char *port, rdi_resolved_fn fn,
		       void *arg, struct rdi_resolver **out);
/* The callback is not called after this. The helper thread ends by itself. */
void rdi_resolver_cancel(struct rdi_resolver **resolver);

/* ---- dev.c ---- */

struct rdinit_dev {
	pthread_mutex_t lock;
	struct rdi_handle h; /* loop and log; no fabric */
	const struct rdi_env *env;
	struct rdinit_ctrl_opts ctrl_opts; /* its strings are owned; its auth and tls are NULL */
	struct rdi_auth_keys *auth;        /* used by every controller; may be NULL */
	struct rdi_tls *tls;               /* likewise */
	struct rdi_log_cfg log_cfg;
	struct rdinit_dev_opts opts; /* ctrl is NULL */

	_Atomic unsigned int n_paths;
	struct rdi_path *paths[RDINIT_DEV_PATHS_MAX]; /* entries below n_paths never change */
	struct rdi_discovery *discovery;              /* NULL: none */
	LIST_HEAD(, rdinit_dev_chan) chans;
	unsigned int n_chans;
	unsigned int next_slot;
	bool released; /* rdinit_dev_free() was called; the last channel to end frees the device */

	_Atomic int state;               /* enum rdinit_dev_state */
	_Atomic uint64_t unusable_since; /* ns; 0: at least one path is usable */
	_Atomic uint64_t blocks;
	/* known to identity, and first_max_transfer, are written once, before the first channel is
	 * created. Members of @info that rdi_dev_refresh() sets change later; under the lock. */
	bool known;
	uint32_t block_size;
	struct rdi_ns_identity identity;
	struct rdinit_dev_info info;
	_Atomic bool write_zeroes_deac; /* DLFEAT: Write Zeroes has the DEAC bit */
	_Atomic uint32_t max_transfer;  /* the least of all paths so far */
	/* That of the first path. Reads and writes up to it are accepted, and sent in parts where a
	 * path transfers less. */
	uint32_t first_max_transfer;

	struct rdi_guards guards;
	rdinit_complete_fn open_fn;
	void *open_user;
};

/* Returns 0, -EINVAL (NULL) or -EDEADLK, with the thread's error text. */
int rdi_dev_lock(struct rdinit_dev *dev, const char *func);
void rdi_dev_unlock(struct rdinit_dev *dev);
/* rdinit_dev_create() with the environment of a test. */
int rdi_dev_create_env(const struct rdinit_dev_opts *opts, const struct rdi_env *env,
		       struct rdinit_dev **out);
/* rdinit_dev_add_path() with the lock held. */
int rdi_dev_add_path(struct rdinit_dev *dev, const struct rdinit_uri *uri, const char *host_traddr,
		     const char *func);
/* A channel or, if not @chan, the application's handle has ended: frees the device if it was the
 * last user. */
void rdi_dev_let_go(struct rdinit_dev *dev, bool channel);
/* Does one iteration of the device's loop, unless another thread is doing one. */
void rdi_dev_try_turn(struct rdinit_dev *dev);

/* ---- dev_state.c: under dev->lock ---- */

/* What struct rdinit_dev_info had in 0.1. */
#define RDI_DEV_INFO_FIRST offsetof(struct rdinit_dev_info, extents)

/*
 * Updates the device's state, reports the event of @path, and notifies the channels. @path: the
 * path that changed; NULL: something else that the state depends on.
 */
void rdi_dev_changed(struct rdinit_dev *dev, struct rdi_path *path,
		     enum rdinit_dev_event_type type);
/* Calls the callback of rdinit_dev_open_async(), unless it was called before. */
void rdi_dev_report_open(struct rdinit_dev *dev, int err, uint16_t status, const char *text);
/* Takes the device's properties from the namespace of @path. */
void rdi_dev_learn(struct rdinit_dev *dev, struct rdi_path *path);
/* Takes the namespace size from @path, which is live or about to be. */
void rdi_dev_resize(struct rdinit_dev *dev, struct rdi_path *path);
/* Takes over what Identify says of the namespace on the live paths, and on @path, whose data is
 * new; NULL: a path has gone. */
void rdi_dev_refresh(struct rdinit_dev *dev, const struct rdi_path *path);
/* The number of I/O queues that a controller has to grant: the highest queue identifier in use,
 * at least 1. */
unsigned int rdi_dev_queues_needed(const struct rdinit_dev *dev);

/* ---- dev_chan.c ---- */

/* A channel's queue on one path. */
struct rdi_chan_path {
	struct rdinit_dev_chan *chan;
	struct rdi_path *path;
	struct rdinit_qpair *qp; /* NULL: none */
	uint32_t epoch;          /* the association that qp is part of */
	uint64_t gateway;        /* path->gateway of it */
	bool up;                 /* qp takes commands */
	/* Commands sent and commands completed; written by the channel's thread, read by the
	 * device's. */
	_Atomic uint32_t n_sent, n_answered;
	/* rdi_wait_blame(): it has not answered a command since @n_answered was @silent_answered,
	 * and is not preferred until then. Kept when it is connected again. */
	uint64_t silent_until;
	uint32_t silent_answered;
	struct rd_defer sweep; /* frees qp after its callbacks have returned */
};

/* A command of the application. */
struct rdi_io {
	TAILQ_ENTRY(rdi_io) link; /* in the list free or waiting */
	struct rdinit_dev_chan *chan;
	struct rdi_chan_path *cp; /* the path on which it was sent; NULL: it waits */
	rdinit_complete_fn fn;
	void *user;
	void *buf;
	const void *write_buf;
	uint64_t lba;
	uint64_t source;
	uint32_t nblocks;
	uint32_t rest; /* blocks behind them that the next part is about */
	uint32_t timeout_ms;
	uint32_t answered;   /* n_answered of its path when it was sent */
	uint32_t refused_ms; /* sum of the delays after ANA statuses */
	uint8_t op;          /* enum rdinit_dev_op */
	uint8_t flags;       /* as in struct rdinit_dev_io */
	uint8_t parts;       /* commands that have not completed: two for a fused pair */
	uint8_t retries;     /* number of retries because of a status */
	uint8_t limits;      /* number of time limits that have passed */
	uint8_t losses;      /* connections that were lost while it was in flight */
	uint8_t aborts; /* number of Aborts since the command was last sent; one for each part */
	bool busy;      /* from submit to callback */
	bool cancelled;
	bool as_write; /* Write Zeroes that was sent as a Write of zeroes */
	/* command identifiers: of the last part, and of the first part of a pair */
	uint16_t cids[2];
	uint16_t index;
	uint32_t gen;
	int err; /* the error to report of a part that has completed */
	uint16_t status;
	uint16_t limited;        /* with @limits: paths on which they have passed */
	uint64_t lost_at;        /* ns; with @losses: when the first of them was lost */
	uint64_t not_before;     /* ns; earliest time to send a waiting command */
	struct rdi_guard *guard; /* guards its block range after it was lost; see dev_guard.h */
	/* owned copy; the buffer that buf points at follows in the same allocation */
	struct iovec *iov;
	unsigned int iovcnt;
	uint8_t payload[32]; /* data of Dataset Management and Copy */
};

TAILQ_HEAD(rdi_io_list, rdi_io);

struct rdinit_dev_chan {
	struct rdi_handle h; /* loop and log; no fabric */
	struct rdinit_dev *dev;
	LIST_ENTRY(rdinit_dev_chan) link;
	unsigned int slot; /* queue identifier minus 1 */
	unsigned int n_paths;
	struct rdi_chan_path paths[RDINIT_DEV_PATHS_MAX];
	struct rdi_chan_path *only; /* the only path, while it is usable; NULL: choose one */
	int last;                   /* index of the most recently chosen path, or -1 */
	unsigned int depth;
	unsigned int inflight;
	struct rdi_io *ios; /* queue depth entries, and one for a synchronous call */
	struct rdi_io_list free;
	struct rdi_io_list waiting; /* commands that are not sent yet */
	struct rd_defer pump;
	struct rd_timer tick; /* runs while commands wait */
	struct rd_msg kick;
	atomic_bool kicked;
	struct rd_io dev_io; /* watches the device's loop */
	unsigned int callbacks;
	bool dying;
	struct iovec regions[RDINIT_DEV_REGIONS_MAX]; /* registered with each queue that is up */
	unsigned int n_regions;
	void *zeroes; /* data of Writes in place of Write Zeroes; NULL: none was needed yet */
	void *pool;   /* the region of the buffer pool; NULL: none */
	struct rd_buddy *buddy;
};

/* Notifies the channel of a change of the device. Any thread that holds dev->lock. */
void rdi_chan_kick(struct rdinit_dev_chan *chan);

/* ---- dev_mem.c: buffers of a channel ---- */

/* Registers all regions with a newly connected queue. Returns 0 or -errno. */
int rdi_chan_mem_attach(const struct rdinit_dev_chan *chan, struct rdi_queue *q);
int rdi_chan_pool_create(struct rdinit_dev_chan *chan, size_t bytes);
void rdi_chan_pool_destroy(struct rdinit_dev_chan *chan);

/* ---- dev_io.c: one command, from its first try to the callback ---- */

/* Properties of an operation. */
struct rdi_op {
	const char *name;
	uint8_t opcode;     /* of the first half for Compare and Write */
	unsigned int flags; /* flags of struct rdinit_dev_io that it allows */
	bool has_data;      /* it has a buffer of nblocks */
	bool changes_blocks;
	bool repeatable; /* executing it twice has the same result */
};
extern const struct rdi_op rdi_ops[]; /* by enum rdinit_dev_op */

/* Sends @io by @cp. Returns 0, -EAGAIN (try later), or the error with which @io ends. */
int rdi_io_send(struct rdi_chan_path *cp, struct rdi_io *io);
/* Calls the callback of @io with @err and a text that begins with the name of the command, and
 * frees @io. */
void rdi_io_fail(struct rdi_io *io, int err, const char *fmt, ...)
	__attribute__((cold, format(printf, 3, 4)));
/* Sends Abort for @io. */
void rdi_io_abort(struct rdi_io *io);
/* The hook overdue of a channel's queue. Returns false to reset the path. */
bool rdi_io_overdue(struct rdi_queue *q, struct rdi_req *req);

/* ---- dev_wait.c: commands that are not sent yet ---- */

/* Appends @io, which is on no list, to the waiting commands. */
void rdi_wait_add(struct rdi_io *io);
/* The path by which @io can be sent now; NULL: it has to wait. */
struct rdi_chan_path *rdi_wait_path(struct rdi_io *io);
/* @io has run into its time limit. Is that its path's fault: it has answered no command since, and
 * another one is usable, or only others have failed @io so far? Such a path is not preferred for a
 * minute, or until it answers. */
bool rdi_wait_blame(struct rdi_io *io);
void rdi_wait_pump(struct rd_defer *defer);
void rdi_wait_tick(struct rd_timer *timer);

#endif /* RDI_DEV_H */
