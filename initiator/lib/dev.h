/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of devices: a namespace, its paths, and the channels of the threads that use it.
 *
 * Two kinds of loops. The device's loop has the admin queues of all paths and their timers; it
 * turns under dev->lock, on whichever thread sees it readable. A channel's loop has the channel's
 * I/O queues and belongs to the channel's thread; it watches the device's loop.
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

#include "ana.h"
#include "dev_guard.h"
#include "internal.h"
#include "path_policy.h"
#include "rdinit_dev.h"

struct rdi_discovery;
struct rdi_resolver;

/* ---- dev_path.c: a path, from its address to its end; all under dev->lock ---- */

/* What is read from a controller, one after the other: bits of todo, the lowest first. */
#define RDI_READ_CHANGED 1  /* Changed Namespace List: lets the controller send the next event */
#define RDI_READ_DESCS   2  /* Namespace Identification Descriptors */
#define RDI_READ_NS      4  /* Identify Namespace */
#define RDI_READ_ANA     8  /* ANA log page */
#define RDI_READ_NVM     16 /* Identify Controller of the NVM command set: limits; may be missing */

#define RDI_ANA_LOG_MAX  (64u << 10)

struct rdi_path {
	struct rdinit_dev *dev;
	unsigned int index;
	struct rdinit_uri uri;
	uint32_t nsid;
	char *host_traddr;                     /* NULL: that of the controller options */
	const struct rdi_discovery *discovery; /* whose log had it last; NULL: the caller's path */
	bool unlisted;                         /* that log has no record of it any more */
	enum rdinit_dev_path_state state;

	struct rdi_resolver *resolver;   /* in RESOLVING */
	struct rdi_addrs addrs;          /* once resolved, */
	unsigned int addr_next;          /* of which this one is tried next */
	char address[RD_ADDR_TEXT];      /* what is, or was last, connected to; "" before */
	char live_address[RD_ADDR_TEXT]; /* of the last association that was live */

	struct rdinit_ctrl *ctrl; /* from CONNECTING until the drop of LOST */
	struct rd_defer drop;     /* frees ctrl, outside its callbacks */
	bool closing;             /* the orderly shutdown of rdinit_dev_close() is under way */

	unsigned int todo; /* RDI_READ_* */
	unsigned int reading;
	struct rdi_ns_identity identity;
	struct nvme_id_ns id_ns; /* as it was read last, */
	struct rdinit_ns ns;     /* and what it says of size and blocks */
	uint8_t vsl, wzsl;       /* NVM 4.1.5.2; 0: no limit */
	/* What reading is about; the controller writes it. Read as the structures it holds. */
	uint8_t data[4096] __attribute__((aligned(8)));
	struct rdi_ana ana_now;
	void *ana_log; /* RDI_ANA_LOG_MAX bytes at most; NULL: the controller has no ANA */
	uint32_t ana_len;

	struct rd_timer timer; /* WAITING: the next attempt; LIVE: a transition has failed */
	uint64_t lost_at;      /* ns; when it was live last, or first tried */
	uint64_t live_at;      /* ns; when it became so last */
	uint32_t attempts;     /* since it was live */
	uint32_t losses;
	uint32_t epoch; /* associations that were live, so far */
	int err;
	uint16_t status;
	char text[RDI_TEXT]; /* why it is not live */
	uint64_t retry_in;   /* WAITING: ns from its begin to the next attempt */

	uint32_t n_sent, n_answered; /* of all channels, when keep-alive looked last */

	_Atomic uint32_t live_epoch; /* epoch while LIVE; else 0 */
	/* The first epoch since which the address has been the same: the target's fence holds for
	 * commands of this epoch and later ones. */
	_Atomic uint32_t fence_epoch;
	/* ns after a loss, until the controller cannot execute a command any more that was lost. */
	_Atomic uint64_t stale_ns;
	_Atomic uint8_t ana; /* enum nvme_ana_state */
};

int rdi_path_create(struct rdinit_dev *dev, const struct rdinit_uri *uri, const char *host_traddr,
		    struct rdi_path **out);
void rdi_path_free(struct rdi_path **path);
/* Connect for the first time, or now instead of later. */
void rdi_path_start(struct rdi_path *path);
/* A discovery log has a record of @path, again; or none any more. */
void rdi_path_list(struct rdi_path *path, const struct rdi_discovery *discovery);
void rdi_path_unlist(struct rdi_path *path);
/* Use the place of @path, which is unlisted and has failed, for a path to @uri. */
void rdi_path_replace(struct rdi_path *path, const struct rdinit_uri *uri,
		      const struct rdi_discovery *discovery);
/* The association @epoch is over because of @err; no-op when it is not the present one. */
void rdi_path_lost(struct rdi_path *path, uint32_t epoch, int err, const char *text);
/* A command was answered with the path related status @st. */
void rdi_path_answered(struct rdi_path *path, uint32_t epoch, struct nvme_status st);
/* Have the controller abort command @cid of queue @qid. */
void rdi_path_abort(struct rdi_path *path, uint32_t epoch, uint16_t qid, uint16_t cid);
/* Begin the orderly end. */
void rdi_path_close(struct rdi_path *path);
bool rdi_path_usable(const struct rdi_path *path);
/* The attempt, or the association, is over because of @err; @status is a controller's or 0. */
void rdi_path_fail(struct rdi_path *path, int err, uint16_t status, const char *fmt, ...)
	__attribute__((cold, format(printf, 4, 5)));
/* The controller and the namespace are as they must be. */
void rdi_path_live(struct rdi_path *path);
/* Address @n of @addrs, modulo their number, with its port and without. RD_ADDR_TEXT bytes each. */
void rdi_numeric_addr(const struct rdi_addrs *addrs, unsigned int n, char *address, char *numeric);
/* The delay before attempt @n + 1, after @n failed ones; @random spreads it. */
uint64_t rdi_backoff_ns(unsigned int n, uint64_t max_ns, uint32_t random);

/* ---- dev_check.c: what a path reads from its controller; under dev->lock ---- */

/* Read all that must be known before the path is live; ends in rdi_path_live() or _fail(). */
void rdi_path_check(struct rdi_path *path);
/* An event of the controller: rdinit_event_fn. */
void rdi_path_event(void *user, uint32_t event);
/* A transition of the ANA state may have taken too long. */
void rdi_path_ana_timer(struct rdi_path *path);

/*
 * ---- dev_discovery.c: paths from a discovery controller, and from those that its log refers to;
 * the functions are about all of them; under dev->lock ----
 */

#define RDI_DISCOVERY_MAX 8 /* controllers */

/* @uri: the address of the discovery controller, and the subsystem and namespace looked for. */
int rdi_discovery_create(struct rdinit_dev *dev, const struct rdinit_uri *uri,
			 const char *host_traddr, struct rdi_discovery **out);
void rdi_discovery_free(struct rdi_discovery **discovery);
/* Connect for the first time, or now instead of later. */
void rdi_discovery_start(struct rdi_discovery *d);
/* No further attempt until rdi_discovery_start(). */
void rdi_discovery_stop(struct rdi_discovery *d);
/* Is a first attempt under way? Accepts NULL: no. */
bool rdi_discovery_pending(const struct rdi_discovery *d);
/* Why there is no path: a negative errno value or 0. */
int rdi_discovery_error(const struct rdi_discovery *d, const char **text);

/* ---- dev_resolve.c: host names, without blocking ---- */

/*
 * Called on the loop. @rc as rdi_resolve(); @addrs and @why are valid during the call, also when it
 * cancels the resolver.
 */
typedef void (*rdi_resolved_fn)(void *arg, int rc, const struct rdi_addrs *addrs, const char *why);

/* Returns 0, -ENOMEM, or -EAGAIN of pthread_create(3). */
int rdi_resolver_start(struct rd_loop *loop, const char *host, const char *port, rdi_resolved_fn fn,
		       void *arg, struct rdi_resolver **out);
/* No call of fn after this one. The helper thread ends by itself. */
void rdi_resolver_cancel(struct rdi_resolver **resolver);

/* ---- dev.c ---- */

struct rdinit_dev {
	pthread_mutex_t lock;
	struct rdi_handle h; /* loop and log; no fabric */
	const struct rdi_env *env;
	struct rdinit_ctrl_opts ctrl_opts; /* its strings are owned; its auth is NULL */
	struct rdi_auth_keys *auth;        /* of every controller, or NULL */
	struct rdi_log_cfg log_cfg;
	struct rdinit_dev_opts opts; /* ctrl is NULL */

	_Atomic unsigned int n_paths;
	struct rdi_path *paths[RDINIT_DEV_PATHS_MAX]; /* those below n_paths never change */
	struct rdi_discovery *discovery;              /* NULL: none */
	LIST_HEAD(, rdinit_dev_chan) chans;
	unsigned int n_chans;
	unsigned int next_slot;
	bool released; /* rdinit_dev_free() was called; the last channel frees the device */

	_Atomic int state;               /* enum rdinit_dev_state */
	_Atomic uint64_t unusable_since; /* ns; 0: there is a usable path */
	_Atomic uint64_t blocks;
	/* Written once, before the first channel is created. */
	bool known;
	uint32_t block_size;
	struct rdi_ns_identity identity;
	struct rdinit_dev_info info;
	bool write_zeroes_deac; /* DLFEAT: Write Zeroes has the DEAC bit */
	_Atomic uint32_t max_transfer;

	struct rdi_guards guards;
	rdinit_complete_fn open_fn;
	void *open_user;
};

/* Returns 0, -EINVAL (NULL) or -EDEADLK, with the thread's text. */
int rdi_dev_lock(struct rdinit_dev *dev, const char *func);
void rdi_dev_unlock(struct rdinit_dev *dev);
/* The public create, with the environment of a test. */
int rdi_dev_create_env(const struct rdinit_dev_opts *opts, const struct rdi_env *env,
		       struct rdinit_dev **out);
/* rdinit_dev_add_path(), under the lock. */
int rdi_dev_add_path(struct rdinit_dev *dev, const struct rdinit_uri *uri, const char *host_traddr,
		     const char *func);
/* A channel, or else the application's handle, has ended: the device may end with it. */
void rdi_dev_let_go(struct rdinit_dev *dev, bool channel);
/* One turn of the device's loop, if no other thread is at it. */
void rdi_dev_try_turn(struct rdinit_dev *dev);

/* ---- dev_state.c: under dev->lock ---- */

/*
 * A path, or with NULL what else the state depends on, has changed: the device's state, the event
 * of @path, and the channels.
 */
void rdi_dev_changed(struct rdinit_dev *dev, struct rdi_path *path,
		     enum rdinit_dev_event_type type);
/* The end of rdinit_dev_open_async(): its callback, unless that has run. */
void rdi_dev_report_open(struct rdinit_dev *dev, int err, uint16_t status, const char *text);
/* The namespace of @path is what the device has. */
void rdi_dev_learn(struct rdinit_dev *dev, struct rdi_path *path);
/* A path that is live, or will be, says how large the namespace is. */
void rdi_dev_resize(struct rdinit_dev *dev, struct rdi_path *path);
/* I/O queues that a controller has to grant: the highest identifier in use, at least 1. */
unsigned int rdi_dev_queues_needed(const struct rdinit_dev *dev);

/* ---- dev_chan.c ---- */

/* What a channel has of a path. */
struct rdi_chan_path {
	struct rdinit_dev_chan *chan;
	struct rdi_path *path;
	struct rdinit_qpair *qp; /* NULL: none */
	uint32_t epoch;          /* the association that qp is part of */
	bool up;                 /* qp takes commands */
	/* Commands that were sent, and that were answered; written by the channel's thread. */
	_Atomic uint32_t n_sent, n_answered;
	struct rd_defer sweep; /* frees qp, outside its callbacks */
};

/* A command of the caller. */
struct rdi_io {
	TAILQ_ENTRY(rdi_io) link; /* of free or waiting */
	struct rdinit_dev_chan *chan;
	struct rdi_chan_path *cp; /* it was sent on; NULL: it waits */
	rdinit_complete_fn fn;
	void *user;
	void *buf;
	const void *write_buf;
	uint64_t lba;
	uint64_t source;
	uint32_t nblocks;
	uint32_t timeout_ms;
	uint8_t op;      /* enum rdinit_dev_op */
	uint8_t flags;   /* as in struct rdinit_dev_io */
	uint8_t parts;   /* commands that have not ended: two of a fused pair */
	uint8_t retries; /* after a status */
	uint8_t limits;  /* time limits that were over */
	uint8_t aborts;  /* parts for which Abort was sent, since they were sent last */
	bool busy;       /* between submit and callback */
	bool cancelled;
	uint16_t cids[2]; /* of the last part, and of the first of a pair */
	uint16_t index;
	uint32_t gen;
	int err; /* of a part that has ended: what is to be reported */
	uint16_t status;
	uint64_t not_before;     /* ns; while it waits */
	struct rdi_guard *guard; /* of its range, when it was lost; see dev_guard.h */
	struct iovec *iov;       /* owned; with the piece that buf points at behind it */
	unsigned int iovcnt;
	uint8_t payload[32]; /* of Deallocate and Copy */
};

TAILQ_HEAD(rdi_io_list, rdi_io);

struct rdinit_dev_chan {
	struct rdi_handle h; /* loop and log; no fabric */
	struct rdinit_dev *dev;
	LIST_ENTRY(rdinit_dev_chan) link;
	unsigned int slot; /* its queue identifier is one more */
	unsigned int n_paths;
	struct rdi_chan_path paths[RDINIT_DEV_PATHS_MAX];
	struct rdi_chan_path *only; /* the one path, while it is usable; NULL: choose */
	int last;                   /* the path that was chosen last, or -1 */
	unsigned int depth;
	unsigned int inflight;
	struct rdi_io *ios; /* depth, and one for a synchronous call */
	struct rdi_io_list free;
	struct rdi_io_list waiting; /* not sent */
	struct rd_defer pump;
	struct rd_timer tick; /* while something waits */
	struct rd_msg kick;
	atomic_bool kicked;
	struct rd_io dev_io; /* the device's loop */
	unsigned int callbacks;
	bool dying;
	struct iovec regions[RDINIT_DEV_REGIONS_MAX]; /* registered with each queue that is up */
	unsigned int n_regions;
	void *pool; /* one of the regions; NULL: none */
	struct rd_buddy *buddy;
};

/* Announce a change of the device. Any thread that holds dev->lock. */
void rdi_chan_kick(struct rdinit_dev_chan *chan);

/* ---- dev_mem.c: buffers of a channel ---- */

/* Register all regions with a queue that has been connected. Returns 0 or -errno. */
int rdi_chan_mem_attach(const struct rdinit_dev_chan *chan, struct rdi_queue *q);
int rdi_chan_pool_create(struct rdinit_dev_chan *chan, size_t bytes);
void rdi_chan_pool_destroy(struct rdinit_dev_chan *chan);

/* ---- dev_io.c: one command, from its first try to the callback ---- */

/* What the library knows of a command. */
struct rdi_op {
	const char *name;
	uint8_t opcode;     /* of Compare and Write: of its first half */
	unsigned int flags; /* of struct rdinit_dev_io that it has */
	bool has_data;      /* nblocks in a buffer */
	bool changes_blocks;
	bool repeatable; /* it has the same result when it is executed twice */
};
extern const struct rdi_op rdi_ops[]; /* by enum rdinit_dev_op */

/* Send @io by @cp. Returns 0, -EAGAIN (later), or what it ends with. */
int rdi_io_send(struct rdi_chan_path *cp, struct rdi_io *io);
/* Calls the callback of @io with @err and a text that begins with the name of the command, and
 * frees @io. */
void rdi_io_fail(struct rdi_io *io, int err, const char *fmt, ...)
	__attribute__((cold, format(printf, 3, 4)));
/* Have the controller abort @io, which was sent. */
void rdi_io_abort(struct rdi_io *io);
/* The watchdog's question for a queue of a channel: false: reset the path. */
bool rdi_io_overdue(struct rdi_queue *q, struct rdi_req *req);

/* ---- dev_wait.c: commands that are not sent yet ---- */

/* Put @io, which is on no list, at the end. */
void rdi_wait_add(struct rdi_io *io);
/* May @io be sent now, and by which path? NULL: it has to wait. */
struct rdi_chan_path *rdi_wait_path(struct rdi_io *io);
void rdi_wait_pump(struct rd_defer *defer);
void rdi_wait_tick(struct rd_timer *timer);

#endif /* RDI_DEV_H */
