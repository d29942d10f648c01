/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file rdinit_dev.h
 * @brief librdinit: a namespace as a block device that survives the loss of its connections.
 *
 * DEVICE, PATHS, CHANNELS. A struct rdinit_dev is one namespace. It has one or several paths; each
 * path is an association with one controller, which the library connects, watches and connects
 * again. A struct rdinit_dev_chan is the use of the device by one thread: it has an I/O queue on
 * each path. I/O is submitted to a channel, and goes by a path that is usable then.
 *
 * THREADS. A channel belongs to one thread at a time. The functions of a device may be called from
 * any thread at the same time, except rdinit_dev_close() and rdinit_dev_free(). The library starts
 * no threads, except that a host name is resolved in a short-lived helper thread, and what
 * rdinit.h says of the verbs provider. The work of the device (keep-alive, reconnecting, events)
 * is done by whichever thread calls rdinit_dev_chan_process() or rdinit_dev_process(): one of them
 * must be called whenever its descriptor is readable. A program that has a channel needs no call of
 * rdinit_dev_process().
 *
 * RULES OF rdinit.h that hold here: CALLBACKS (exactly once, from the channel's process function,
 * from a synchronous call that waits on the channel, or from rdinit_dev_chan_free()), BUFFERS (the
 * target can no longer access the buffer when the callback runs, even after an error), ERRORS,
 * BYTE ORDER, STRUCTURE SIZES and DEBUGGING.
 *
 * LOST CONNECTIONS. When a path is lost, the library reconnects it: at once, then after
 * delays that grow up to reconnect_delay_ms, until ctrl_loss_tmo_ms is over. Commands wait
 * meanwhile, or use another path. A command that was sent and not answered is treated as follows:
 *
 * - Read, Verify and Flush are sent again at once, by any path.
 * - Write, Write Zeroes and Deallocate are sent again when the lost command can no longer
 *   be executed: by the same path when it is reconnected (the target finishes or discards
 *   the commands of the old association before the new one is ready), or by any path when twice the
 *   keep-alive timeout (as the controller rounds it up, KAS) and one second have passed since the
 *   loss. Until then commands that change blocks of the same range wait, in all channels of the
 *   device: a lost write never overwrites a newer one. It may be executed twice, which other hosts
 *   can see that write the same blocks. With no_resend_writes, these commands end with -EREMOTEIO
 *   instead, and the range is guarded in the same way.
 * - Compare, Compare and Write, and Copy end with -EREMOTEIO: it is unknown whether the controller
 *   executed the command.
 *
 * A command that is sent again is not sent for ever, because the target may end the connection
 * because of it: when more than RDINIT_DEV_PATHS_MAX connections were lost while it was in flight,
 * over longer than ctrl_loss_tmo_ms, it ends with -EREMOTEIO. With RDINIT_DEV_NEVER it does not.
 *
 * A command that was not sent, or that the controller refused with an ANA status, is sent later or
 * by another path, whichever command it is. With another path related status, such as Internal Path
 * Error, the controller may have executed it, as if it were lost. After an ANA status a path is
 * used again when its ANA log page says that the namespace is usable. For targets whose log page
 * contradicts their statuses, the delays before a command is sent again grow from 1 ms to 1 s, and
 * when their sum has reached the time limit of the command, or the controller's ANATT if that is
 * longer, the command ends with -EIO and the status. Time without a usable path does not count.
 *
 * VOLATILE CACHE. A target whose machine fails may lose data of answered writes that no Flush (or
 * FUA) has made stable. A later Flush succeeds nevertheless: the library, like the Linux host, does
 * not remember which writes were not stable when a connection was lost, and NVMe does not tell that
 * a cache was lost. A program that has to know whether all of its data is stable flushes before it
 * relies on that, and writes again what it wrote since its last successful Flush when a path was
 * lost meanwhile (RDINIT_DEV_EVENT_PATH).
 *
 * TIMEOUTS. When a command is not answered within its time limit, the library sends Abort for it.
 * When it is not answered within the same time again (10 s at most), the library resets the path:
 * the commands on it are treated as above. Other paths are not touched. A command that ran into
 * its time limit three times ends with -ETIMEDOUT. A path that has answered no command at all while
 * one ran into its limit is avoided for a minute while another one is usable, and the limit does
 * not count then: it is the path that does not work. Nor does the first limit on such a path count
 * when the earlier limits of the command were on other paths.
 */
#ifndef RDINIT_DEV_H
#define RDINIT_DEV_H

#include "rdinit.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

struct iovec;
struct rdinit_dev;
struct rdinit_dev_chan;

/** Largest number of paths of one device. */
#define RDINIT_DEV_PATHS_MAX 16
/** Largest number of registered buffers of one channel. */
#define RDINIT_DEV_REGIONS_MAX 64
/** Waits without end; for ctrl_loss_tmo_ms and fast_io_fail_tmo_ms. */
#define RDINIT_DEV_NEVER UINT32_MAX

/* ---- States and events ---- */

/** @brief The state of a device. */
enum rdinit_dev_state {
	RDINIT_DEV_NEW,     /**< rdinit_dev_open() has not been called */
	RDINIT_DEV_OPENING, /**< waits for its first path */
	RDINIT_DEV_LIVE,    /**< at least one path is usable */
	RDINIT_DEV_WAITING, /**< no path is usable now; commands wait */
	RDINIT_DEV_FAILED,  /**< every path has failed; commands end with -ENODEV */
	RDINIT_DEV_CLOSED,  /**< rdinit_dev_close() has been called */
};

/** @brief The state of a path. */
enum rdinit_dev_path_state {
	RDINIT_DEV_PATH_NEW,        /**< the device has not been opened */
	RDINIT_DEV_PATH_RESOLVING,  /**< its host name is being resolved */
	RDINIT_DEV_PATH_CONNECTING, /**< the controller is being connected and enabled */
	RDINIT_DEV_PATH_CHECKING,   /**< is it the same namespace? */
	RDINIT_DEV_PATH_LIVE,       /**< connected; ANA decides whether it is used */
	RDINIT_DEV_PATH_LOST,       /**< the connection has ended and is being cleaned up */
	RDINIT_DEV_PATH_WAITING,    /**< the next attempt is due after a delay */
	RDINIT_DEV_PATH_FAILED,     /**< given up: see rdinit_dev_reconnect() */
	RDINIT_DEV_PATH_CLOSED,     /**< the device has been closed */
};

/** @brief Get the name of a device's state, such as "live". Static; never NULL. Any thread. */
const char *rdinit_dev_state_name(enum rdinit_dev_state state);
/** @brief Get the name of a path's state, such as "waiting". Static; never NULL. Any thread. */
const char *rdinit_dev_path_state_name(enum rdinit_dev_path_state state);
/** @brief Get the name of an ANA state (Base 8.1), such as "optimized". Static. Any thread. */
const char *rdinit_dev_ana_state_name(uint8_t ana_state);

/** @brief What an event tells of. */
enum rdinit_dev_event_type {
	RDINIT_DEV_EVENT_STATE,   /**< the device's state has changed */
	RDINIT_DEV_EVENT_PATH,    /**< a path's state has changed */
	RDINIT_DEV_EVENT_ANA,     /**< the ANA state of the namespace by a path has changed */
	RDINIT_DEV_EVENT_RESIZED, /**< the namespace has another number of blocks */
};

/** @brief One event. Valid during the callback only. */
struct rdinit_dev_event {
	enum rdinit_dev_event_type type;
	enum rdinit_dev_state state; /**< of the device, now */
	int path; /**< index of the path, from 0; -1: the event concerns the device */
	enum rdinit_dev_path_state path_state; /**< of the path, now; if @c path is not -1 */
	uint8_t ana_state;                     /**< of the path, now; if @c path is not -1 */
	int err;                               /**< why a path was lost or failed; else 0 */
	uint64_t blocks;                       /**< size of the namespace in blocks, now */
	/** A sentence such as "192.0.2.1:4420: connection lost: ...; next attempt in 2.5 s". */
	const char *text;
};

/**
 * @brief A function that receives events.
 *
 * Runs on the thread that does the device's work (see THREADS above), which may be any that uses
 * the device or one of its channels; calls do not overlap. It must not call functions of the device
 * or its channels: those return -EDEADLK or wait for ever.
 *
 * @param user  event_user of struct rdinit_dev_opts.
 * @param event The event. Owned by the library, valid until the function returns.
 */
typedef void (*rdinit_dev_event_fn)(void *user, const struct rdinit_dev_event *event);

/* ---- Devices ---- */

/** @brief Which of several usable paths a command takes. Optimized paths (ANA) come first. */
enum rdinit_dev_policy {
	RDINIT_DEV_ROUND_ROBIN, /**< the next path after the last one */
	RDINIT_DEV_QUEUE_DEPTH, /**< the path with the fewest commands in flight */
	RDINIT_DEV_FAILOVER,    /**< one path, until a better one or none is there */
};

/** @brief Options of a device. The caller owns what the pointers refer to; it is copied. */
struct rdinit_dev_opts {
	size_t size; /**< set by rdinit_dev_opts_init() */
	/**
	 * Options of the controllers of all paths, or NULL for the defaults: identity of the host,
	 * provider, timeouts, trace. log_fn may run on several threads at the same time. Ignored
	 * are traddr, trsvcid, subnqn, nr_io_queues, event_fn, event_user and tcp: the URI of each
	 * path has the transport. Options that one transport has, such as provider or hdr_digest,
	 * are for the paths of that transport; rdinit_dev_open() returns -EINVAL if there is none.
	 * To a controller with Traffic Based Keep Alive (CTRATT.TBKAS) no Keep Alive command is
	 * sent while I/O moves. keep_alive_tmo_ms must not be 0: without keep-alive it is not
	 * known when a lost write can no longer be executed.
	 */
	const struct rdinit_ctrl_opts *ctrl;
	/** Receives events; NULL (default): nobody does. */
	rdinit_dev_event_fn event_fn;
	void *event_user;              /**< passed to @c event_fn */
	enum rdinit_dev_policy policy; /**< default RDINIT_DEV_ROUND_ROBIN */
	/** Channels that may exist at the same time: I/O queues to request; 1 (default) to 1024. */
	uint16_t channels;
	/**
	 * Entries of each I/O queue, 2 to 1024; default 128. One command less than this can be in
	 * flight in a channel, also when the controller grants a smaller queue.
	 */
	uint16_t queue_size;
	/**
	 * Milliseconds that a command may take from when it is sent to when it is answered; default
	 * 30000; 0 is invalid. See TIMEOUTS above. Time without a usable path does not count.
	 */
	uint32_t io_timeout_ms;
	/** Longest time between two attempts to connect a path in milliseconds; default 10000. */
	uint32_t reconnect_delay_ms;
	/**
	 * Milliseconds for which a lost path is reconnected before it fails permanently; default
	 * 600000; 0: it fails at once; RDINIT_DEV_NEVER: never.
	 */
	uint32_t ctrl_loss_tmo_ms;
	/**
	 * Milliseconds without a usable path after which commands that wait, and new ones, end with
	 * -ENOTCONN; RDINIT_DEV_NEVER (default): they wait until the paths have failed.
	 */
	uint32_t fast_io_fail_tmo_ms;
	/**
	 * No command that changes blocks is executed twice; default false. A lost one ends with
	 * -EREMOTEIO, one that was aborted after its time limit with -ETIMEDOUT, and one that the
	 * controller failed to execute with its status, instead of being sent again. For programs
	 * of several hosts that write the same blocks without a lock: a write that is executed
	 * twice can overwrite what another host has written in between.
	 */
	bool no_resend_writes;
	/**
	 * Bytes of memory that each channel has for rdinit_dev_buf_alloc(); default 0. On RDMA
	 * devices the memory is registered with each path.
	 */
	size_t pool_bytes;
};

/** The function that rdinit_dev_opts_init() calls with the size of the caller's structure. */
void rdinit_dev_opts_init_size(struct rdinit_dev_opts *opts, size_t size);

/** @brief Initialise a struct rdinit_dev_opts with the default values. Any thread. */
static inline void rdinit_dev_opts_init(struct rdinit_dev_opts *opts)
{
	rdinit_dev_opts_init_size(opts, sizeof(*opts));
}

/**
 * @brief Create a device handle. Checks the options; performs no network I/O.
 * @param opts Initialised with rdinit_dev_opts_init(), or NULL for the defaults. Owned by the
 *             caller, not used after return.
 * @param out  Receives the handle, which the caller frees with rdinit_dev_free(); NULL on error.
 * @return As rdinit_ctrl_create(), whose options are checked here. Any thread.
 */
int rdinit_dev_create(const struct rdinit_dev_opts *opts, struct rdinit_dev **out);

/**
 * @brief Add a path. To a device that is open already it is connected by the next work.
 * @param dev         The handle.
 * @param uri         Where the path leads: traddr, trsvcid, subnqn and nsid; subnqn is required;
 *                    nsid 0 means 1. Filled by rdinit_uri_parse(), owned by the caller, not used
 *                    after return. All paths lead to the same subsystem: subnqn must be equal. They
 *                    have to lead to the same namespace, which is checked by its NGUID, UUID or
 *                    EUI-64 when the path is connected.
 * @param host_traddr Numeric local address to connect from; NULL: that of the controller options.
 * @return The index of the path, from 0; -EINVAL (the URI names no subsystem, or another one than
 *         the first path), -EEXIST (the device has a path to this address, from the same local one;
 *         names are compared when they are resolved, and then the path fails), -ENOSPC
 *         (RDINIT_DEV_PATHS_MAX), -ESHUTDOWN (the device is closed), -EDEADLK (called from an event
 *         callback), -ENOMEM. Any thread.
 */
int rdinit_dev_add_path(struct rdinit_dev *dev, const struct rdinit_uri *uri,
			const char *host_traddr);

/**
 * @brief Have a discovery controller name the paths.
 *
 * When the device is opened, the library adds a path for each record of the discovery log that
 * leads to the subsystem by RDMA and has a numeric address, and again whenever the controller
 * reports that its log has changed. A path that the log no longer lists, while it lists others, is
 * used as long as it is connected; then it fails, and it is reconnected when the log lists it
 * again. Its index is given to a new path when RDINIT_DEV_PATHS_MAX paths exist. Up to seven
 * discovery controllers that the log refers to are read in the same way. The connections to the
 * discovery controllers are kept and, when they are lost, made again for as long as the device is
 * open.
 *
 * @param dev         A new handle. It may have paths of rdinit_dev_add_path() as well.
 * @param uri         traddr and trsvcid: where the discovery controller is; subnqn: the subsystem
 *                    that is looked for, required; nsid as for rdinit_dev_add_path(). Owned by the
 *                    caller, not used after return.
 * @param host_traddr As for rdinit_dev_add_path(), for the paths too.
 * @return 0; -EINVAL (the URI names no subsystem, the handle is not new, or has a discovery
 *         controller already), -EDEADLK (called from an event callback), -ENOMEM. Any thread.
 */
int rdinit_dev_add_discovery(struct rdinit_dev *dev, const struct rdinit_uri *uri,
			     const char *host_traddr);

/**
 * @brief Connect the paths, and wait until one of them is usable.
 * @param dev A new handle with at least one path, or a discovery controller.
 * @return 0; -EINVAL (the handle is not new or has no path), -EDEADLK (called from an event
 *         callback). When the first attempt of each path has failed, the device has failed, and the
 *         error is that of the first path: an error of rdinit_ctrl_connect(), -ENODEV (the
 *         namespace does not exist), -ENOTSUP (the namespace has metadata, or the controller
 *         rounds the keep-alive timeout up to more than two minutes). Without a path it is an
 *         error of rdinit_discover(), or -ENODEV (the discovery log has no path to the subsystem).
 */
int rdinit_dev_open(struct rdinit_dev *dev);

/**
 * @brief Start rdinit_dev_open() asynchronously. Call rdinit_dev_process() until @p fn has run.
 * @param dev     A new handle, as for rdinit_dev_open().
 * @param fn,user The callback, not NULL, and its argument. The rules of rdinit_dev_event_fn hold
 *                for it.
 * @return 0; -EINVAL, -EDEADLK as rdinit_dev_open(). Later errors go to @p fn.
 */
int rdinit_dev_open_async(struct rdinit_dev *dev, rdinit_complete_fn fn, void *user);

/**
 * @brief Get the descriptor of a device to wait on. Not needed while there is a channel.
 * @return A descriptor that is readable when rdinit_dev_process() has work to do; -EINVAL when
 *         @p dev is NULL. Owned by the handle. Any thread.
 */
int rdinit_dev_fd(const struct rdinit_dev *dev);

/**
 * @brief Do the work of the device: keep alive, reconnect, read events, run event callbacks.
 * @param dev        The handle.
 * @param timeout_ms Milliseconds to wait at most when there is no work; 0: do not wait; -1: wait
 *                   until there is work.
 * @return 0; -EDEADLK (called from an event callback). Any thread.
 */
int rdinit_dev_process(struct rdinit_dev *dev, int timeout_ms);

/** @brief Properties of the namespace and the device. */
struct rdinit_dev_info {
	size_t size;         /**< set by rdinit_dev_info_init() */
	uint64_t blocks;     /**< size of the namespace in logical blocks, now */
	uint32_t block_size; /**< size of a logical block in bytes */
	uint32_t nsid;       /**< namespace identifier of the first path */
	/**
	 * Bytes that one command transfers at most; the least of all paths so far, so it may become
	 * less. Reads and writes up to its first value stay accepted: by a path that
	 * transfers less they are sent in parts, one after the other.
	 */
	uint32_t max_transfer;
	/**
	 * Blocks of one Write Zeroes, Deallocate, Verify and Copy at most; 0: not supported. They
	 * are those of the first path and stay; by a path that accepts fewer blocks such a command
	 * is sent in parts as well, except a Copy whose destination overlaps its source.
	 * By a path whose controller has no Write Zeroes, Writes of zeroes are sent in its place.
	 * Other commands that the controller of a later path does not have end with -EIO and the
	 * status of that controller; this is true of @c compare and @c compare_write too.
	 */
	uint32_t max_write_zeroes;
	uint32_t max_deallocate;
	uint32_t max_verify;
	uint32_t max_copy;
	/** Blocks; from NPWG, NOWS and NPDG (NVM 4.1.5.1); 0: the controller does not tell. */
	uint32_t preferred_write;
	uint32_t optimal_write;
	uint32_t preferred_deallocate;
	bool compare;       /**< RDINIT_DEV_COMPARE is supported */
	bool compare_write; /**< RDINIT_DEV_COMPARE_WRITE is supported */
	/* These three, preferred_* and optimal_*, and @c extents: now; of the paths in use. */
	bool deallocated_is_zero;     /**< DLFEAT: deallocated blocks are read as zeroes */
	bool volatile_cache;          /**< VWC: flush is needed */
	bool read_only;               /**< the namespace is write protected (NSATTR) */
	uint8_t nguid[16];            /**< NGUID; zeroes: none */
	uint8_t uuid[16];             /**< UUID; zeroes: none */
	uint8_t eui64[8];             /**< EUI-64; zeroes: none */
	enum rdinit_dev_state state;  /**< now */
	unsigned int paths;           /**< number of paths */
	char subnqn[RDINIT_NQN_SIZE]; /**< subsystem NQN */
	bool extents;                 /**< rdinit_dev_extents() is supported */
};

/** The function that rdinit_dev_info_init() calls with the size of the caller's structure. */
void rdinit_dev_info_init_size(struct rdinit_dev_info *info, size_t size);

/** @brief Initialise a struct rdinit_dev_info. Any thread. */
static inline void rdinit_dev_info_init(struct rdinit_dev_info *info)
{
	rdinit_dev_info_init_size(info, sizeof(*info));
}

/**
 * @brief Get the properties of an open device. Sends no command.
 * @param dev  A handle that was opened, in any state since.
 * @param info Receives the values. Initialise it with rdinit_dev_info_init().
 * @return 0; -EINVAL (@p info is not initialised), -ENOTCONN (the device was never usable),
 *         -EDEADLK (called from an event callback). Any thread.
 */
int rdinit_dev_get_info(struct rdinit_dev *dev, struct rdinit_dev_info *info);

/* ---- Allocated blocks ---- */

/** Largest number of extents of one answer. */
#define RDINIT_DEV_EXTENTS_MAX 255

/** @brief A range of blocks. */
struct rdinit_dev_extent {
	uint64_t lba;     /**< first block */
	uint64_t nblocks; /**< number of blocks, not 0 */
};

/**
 * @brief A function that receives the answer to rdinit_dev_extents_async().
 *
 * The rules of rdinit_dev_event_fn hold for it.
 *
 * @param user  Argument of rdinit_dev_extents_async().
 * @param c     How it ended. Valid during the call, as @p list is.
 * @param known Number of blocks, from the first one asked for, that the answer is about; 0 after an
 *              error.
 * @param list  The allocated ranges among them, ascending. The other blocks are read as zeroes.
 * @param n     Number of ranges, at most RDINIT_DEV_EXTENTS_MAX.
 */
typedef void (*rdinit_dev_extents_fn)(void *user, const struct rdinit_completion *c, uint64_t known,
				      const struct rdinit_dev_extent *list, unsigned int n);

/**
 * @brief Ask which blocks are allocated (Get LBA Status, NVM Command Set 1.2, 4.2.1).
 *
 * The command is sent once, by a path that is usable now. The answer does not wait for commands in
 * flight: it may lack what a Write that has not been completed will allocate.
 *
 * @param dev     An open device, for which struct rdinit_dev_info says @c extents.
 * @param lba     First block.
 * @param nblocks Number of blocks, not 0; the answer may be about fewer.
 * @param fn,user The callback, not NULL, and its argument. Runs from rdinit_dev_process(), from
 *                rdinit_dev_chan_process(), or when the device is freed.
 * @return 0; -EINVAL (@p fn is NULL, or the range is empty or not within the namespace),
 *         -EOPNOTSUPP (the controller does not tell), -ENOTCONN (no path is usable now), -EAGAIN
 *         (too many such commands are in flight), -ENOMEM, -EDEADLK (called from an event
 *         callback). Later errors go to @p fn: those of struct rdinit_completion, and -EINVAL (the
 *         namespace has become smaller and ends before the range). Any thread.
 */
int rdinit_dev_extents_async(struct rdinit_dev *dev, uint64_t lba, uint64_t nblocks,
			     rdinit_dev_extents_fn fn, void *user);

/**
 * @brief The same, and wait for the answer.
 * @param dev,lba,nblocks As for rdinit_dev_extents_async().
 * @param list  Receives the ranges. Room for RDINIT_DEV_EXTENTS_MAX, owned by the caller.
 * @param known Receives the number of blocks that the answer is about; 0 after an error.
 * @return The number of ranges; an error of rdinit_dev_extents_async() or of struct
 *         rdinit_completion; -EMFILE or -ENFILE (too many open files). Any thread.
 */
int rdinit_dev_extents(struct rdinit_dev *dev, uint64_t lba, uint64_t nblocks,
		       struct rdinit_dev_extent *list, uint64_t *known);

/** @brief Properties of a path. */
struct rdinit_dev_path_info {
	size_t size;                      /**< set by rdinit_dev_path_info_init() */
	enum rdinit_dev_path_state state; /**< now */
	uint8_t ana_state;                /**< ANA state of the namespace, now */
	uint16_t cntlid;                  /**< controller identifier; 0 if not live */
	uint32_t attempts; /**< attempts to connect since the path was live; 0 if it is */
	uint32_t losses;   /**< how often the path was lost */
	int err;           /**< why it is not live, a negative errno value; 0 if it is */
	char address[64];  /**< such as "192.0.2.1:4420"; the host name until it is resolved */
	char text[256];    /**< why it is not live; "" if it is */
};

/** The function that rdinit_dev_path_info_init() calls with the size of the structure. */
void rdinit_dev_path_info_init_size(struct rdinit_dev_path_info *info, size_t size);

/** @brief Initialise a struct rdinit_dev_path_info. Any thread. */
static inline void rdinit_dev_path_info_init(struct rdinit_dev_path_info *info)
{
	rdinit_dev_path_info_init_size(info, sizeof(*info));
}

/**
 * @brief Get the properties of a path.
 * @param dev   The handle.
 * @param index Index of the path, from 0.
 * @param info  Receives the values. Initialise it with rdinit_dev_path_info_init().
 * @return 0; -EINVAL (@p info is not initialised), -ENOENT (there is no such path), -EDEADLK
 *         (called from an event callback). Any thread.
 */
int rdinit_dev_get_path(struct rdinit_dev *dev, unsigned int index,
			struct rdinit_dev_path_info *info);

/**
 * @brief Connect all paths that are waiting or have failed again now.
 * @param dev An open handle.
 * @return 0; -EINVAL (@p dev is NULL), -ESHUTDOWN (not open), -EDEADLK (called from an event
 *         callback). Any thread.
 */
int rdinit_dev_reconnect(struct rdinit_dev *dev);

/**
 * @brief Shut down the controllers (CC.SHN, Base 3.6.2) and close the connections.
 * @param dev The handle. Its channels must have been freed.
 * @return 0; -EINVAL (@p dev is NULL), -EBUSY (a channel is left), -EDEADLK (called from an event
 *         callback), -ETIMEDOUT (a controller did not complete its shutdown within 5 s). Except for
 *         the first three errors the device is closed in every case and can only be freed.
 */
int rdinit_dev_close(struct rdinit_dev *dev);

/**
 * @brief Free a device in any state, without the shutdown of rdinit_dev_close().
 *
 * Free the channels first: what is left when this function is called keeps the device alive, and
 * the device ends with its last channel. No further event callback runs; the callback of
 * rdinit_dev_open_async(), if it has not run, runs now with -ECANCELED. Not from an event callback.
 *
 * @param dev Pointer to the handle; set to NULL. NULL and a pointer to NULL are allowed.
 */
void rdinit_dev_free(struct rdinit_dev **dev);

/* ---- Channels ---- */

/**
 * @brief Create a channel. Performs no network I/O: its queues are connected by its process calls.
 * @param dev An open device.
 * @param out Receives the handle, which the caller frees with rdinit_dev_chan_free(); NULL on
 *            error.
 * @return 0; -EINVAL (an argument is NULL), -ENOTCONN (the device was never usable), -ENOSPC (as
 *         many channels exist as the option channels allows, or as a controller grants I/O queues),
 *         -ENOMEM, -EMFILE or -ENFILE (too many open files), -EDEADLK (called from an event
 *         callback). Any thread.
 */
int rdinit_dev_chan_create(struct rdinit_dev *dev, struct rdinit_dev_chan **out);

/**
 * @brief Get the descriptor to wait on.
 * @return A descriptor that is readable when rdinit_dev_chan_process() has work to do; it stays the
 *         same until the channel is freed, whatever happens to the paths. -EINVAL when @p chan is
 *         NULL. Owned by the handle.
 */
int rdinit_dev_chan_fd(const struct rdinit_dev_chan *chan);

/**
 * @brief Send, receive, check timeouts, run callbacks; and do the work of the device, if there is
 *        any and no other thread does it.
 * @param chan       The handle.
 * @param timeout_ms As for rdinit_dev_process(), in milliseconds.
 * @return The number of callbacks that ran, which may be 0; -EINVAL (@p chan is NULL), -EDEADLK
 *         (called from a callback), -ENOTCONN (freed in a callback). A lost path is no error here.
 */
int rdinit_dev_chan_process(struct rdinit_dev_chan *chan, int timeout_ms);

/** @brief Get the largest number of commands in flight, queue_size - 1; 0 for NULL. */
unsigned int rdinit_dev_chan_depth(const struct rdinit_dev_chan *chan);

/** @brief Get the number of submitted commands whose callback has not run; 0 for NULL. */
unsigned int rdinit_dev_chan_inflight(const struct rdinit_dev_chan *chan);

/**
 * @brief Free a channel in any state. Does not wait for the network.
 *
 * The callbacks of commands in flight run with -ECANCELED: it is unknown whether the controller
 * executed them. When a callback calls this function, the channel is freed when the process call
 * returns.
 *
 * @param chan Pointer to the handle; set to NULL. NULL and a pointer to NULL are allowed.
 */
void rdinit_dev_chan_free(struct rdinit_dev_chan **chan);

/**
 * @brief Register a buffer for repeated use by I/O of this channel, as rdinit_mem_register() does:
 *        with each path, also those that are connected later.
 * @param chan The handle.
 * @param addr Start of the buffer. Owned by the caller; must stay mapped until
 *             rdinit_dev_mem_unregister() or rdinit_dev_chan_free().
 * @param len  Size of the buffer in bytes.
 * @return 0; -EINVAL (an argument is NULL or 0, or the buffer overlaps a registered one), -ENOSPC
 *         (RDINIT_DEV_REGIONS_MAX), -ENOMEM (out of memory, or above the memlock limit, see
 *         ulimit -l), or another errno value of the RDMA device.
 */
int rdinit_dev_mem_register(struct rdinit_dev_chan *chan, void *addr, size_t len);

/**
 * @brief Unregister a buffer.
 * @param chan The handle.
 * @param addr Start of the buffer as passed to rdinit_dev_mem_register().
 * @return 0; -EINVAL (@p chan is NULL), -ENOENT (no buffer is registered at @p addr), -EBUSY (a
 *         command in flight uses it).
 */
int rdinit_dev_mem_unregister(struct rdinit_dev_chan *chan, void *addr);

/**
 * @brief Take a buffer from the channel's pool (pool_bytes), registered for all paths.
 * @param chan The handle.
 * @param len  Bytes, from 1. The buffer starts at a multiple of 4096.
 * @return The buffer, which the caller returns with rdinit_dev_buf_free(); NULL when the pool has
 *         no room (rdinit_get_error() says so). It is freed with the channel.
 */
void *rdinit_dev_buf_alloc(struct rdinit_dev_chan *chan, size_t len);

/**
 * @brief Return a buffer to the pool.
 * @param chan The channel that the buffer was taken from.
 * @param buf  The buffer, which no command in flight uses. NULL is allowed.
 * @param len  As it was passed to rdinit_dev_buf_alloc().
 */
void rdinit_dev_buf_free(struct rdinit_dev_chan *chan, void *buf, size_t len);

/* ---- I/O ---- */

/** @brief Commands. */
enum rdinit_dev_op {
	RDINIT_DEV_READ,         /**< Read (NVM 3.2.4) */
	RDINIT_DEV_WRITE,        /**< Write (NVM 3.2.6) */
	RDINIT_DEV_FLUSH,        /**< Flush (Base 7.1); no range */
	RDINIT_DEV_WRITE_ZEROES, /**< Write Zeroes (NVM 3.2.8) */
	RDINIT_DEV_DEALLOCATE,   /**< Dataset Management, AD (NVM 3.2.3) */
	RDINIT_DEV_VERIFY,       /**< Verify (NVM 3.2.5) */
	RDINIT_DEV_COMPARE,      /**< Compare (NVM 3.2.1): -EIO with Compare Failure if different */
	RDINIT_DEV_COMPARE_WRITE, /**< Compare and Write, fused (NVM 2.1.3.1) */
	RDINIT_DEV_COPY,          /**< Copy (NVM 3.2.2): from @c source to @c lba */
};

/**
 * Write Zeroes: the controller may deallocate the blocks (DEAC, where it has that; DLFEAT).
 * RDINIT_IO_FUA of rdinit.h is the other flag, for Read, Write, Write Zeroes, Compare, Compare and
 * Write, and Copy.
 */
#define RDINIT_DEV_IO_DEALLOCATE 0x2u

/** @brief One command. */
struct rdinit_dev_io {
	size_t size; /**< set by rdinit_dev_io_init() */
	enum rdinit_dev_op op;
	unsigned int flags; /**< RDINIT_IO_FUA, RDINIT_DEV_IO_DEALLOCATE */
	uint64_t lba;       /**< first logical block; the destination of Copy */
	uint32_t nblocks;   /**< number of logical blocks, from 1 */
	/** In milliseconds, as io_timeout_ms of struct rdinit_dev_opts; 0 (default): that value. */
	uint32_t timeout_ms;
	/**
	 * The data: one buffer, or @c iov when @c iovcnt is not 0. Read: receives it. Write: is
	 * written. Compare: is compared; Compare and Write: nblocks to compare with. Belongs to the
	 * library until the callback runs. Pieces that do not follow each other in memory are
	 * copied through one buffer.
	 */
	void *buf;
	const struct iovec *iov; /**< only the array may be freed after submitting */
	unsigned int iovcnt;     /**< up to 1024 */
	const void *write_buf;   /**< Compare and Write: nblocks to write */
	uint64_t source;         /**< Copy: first logical block to copy from */
};

/** The function that rdinit_dev_io_init() calls with the size of the caller's structure. */
void rdinit_dev_io_init_size(struct rdinit_dev_io *io, size_t size);

/** @brief Initialise a struct rdinit_dev_io: a Read of no blocks. Any thread. */
static inline void rdinit_dev_io_init(struct rdinit_dev_io *io)
{
	rdinit_dev_io_init_size(io, sizeof(*io));
}

/**
 * @brief Start a command.
 *
 * struct rdinit_completion tells the result. In addition to what rdinit.h says: -ENOTCONN (no
 * usable path for fast_io_fail_tmo_ms), -ENODEV (the device has failed, or is closed), -EREMOTEIO
 * (the path was lost; it is unknown whether the controller executed the command), -ETIMEDOUT (three
 * time limits were over; it is unknown as well), -ECANCELED (cancelled, or the channel was freed;
 * it is unknown as well), -EMSGSIZE (the path takes less data than the device said before).
 *
 * @param chan    The channel.
 * @param io      The command. Owned by the caller, not used after return, except for its data.
 * @param fn,user The callback, not NULL, and its argument.
 * @param id      Receives the identifier for rdinit_dev_cancel(). May be NULL.
 * @return 0; -EAGAIN (as many commands are in flight as rdinit_dev_chan_depth(): process the
 *         channel and try again), -EINVAL (an argument is missing or wrong, blocks beyond the end
 *         of the namespace, or more blocks than the device takes), -EOPNOTSUPP (the controller does
 *         not support the command), -ENOMEM.
 */
int rdinit_dev_submit(struct rdinit_dev_chan *chan, const struct rdinit_dev_io *io,
		      rdinit_complete_fn fn, void *user, uint64_t *id);

/**
 * @brief Start a command and wait for its completion.
 * @param chan,io As for rdinit_dev_submit(). When other commands fill the channel, the call waits.
 * @return 0; -EDEADLK (called from a callback); -EINVAL, -EOPNOTSUPP or -ENOMEM as
 *         rdinit_dev_submit(); or the @c err of its completion.
 */
int rdinit_dev_run(struct rdinit_dev_chan *chan, const struct rdinit_dev_io *io);

/**
 * @brief Cancel a command, if that is possible.
 *
 * A command that waits ends with -ECANCELED. For a command that was sent, the library sends Abort;
 * it ends with -ECANCELED when the controller has aborted it, or else as if it had not been
 * cancelled. The callback runs later, from the process function. A write that is lost together with
 * its path after this call is not sent again, and its range is guarded.
 *
 * @param chan The channel.
 * @param id   The identifier from rdinit_dev_submit().
 * @return 0; -EINVAL (@p chan is NULL), -ENOENT (the command has ended).
 */
int rdinit_dev_cancel(struct rdinit_dev_chan *chan, uint64_t id);

/**
 * @brief Read logical blocks: rdinit_dev_run() with RDINIT_DEV_READ.
 * @param chan        The channel.
 * @param lba,nblocks The range.
 * @param buf         Receives nblocks blocks. Owned by the caller. Any alignment.
 * @param flags       0 or RDINIT_IO_FUA.
 * @return As rdinit_dev_run().
 */
int rdinit_dev_read(struct rdinit_dev_chan *chan, uint64_t lba, uint32_t nblocks, void *buf,
		    unsigned int flags);

/**
 * @brief Start rdinit_dev_read() asynchronously.
 * @param chan,lba,nblocks,flags As for rdinit_dev_read().
 * @param buf     As for rdinit_dev_read(). Belongs to the library until the callback runs.
 * @param fn,user The callback, not NULL, and its argument.
 * @return As rdinit_dev_submit().
 */
int rdinit_dev_read_async(struct rdinit_dev_chan *chan, uint64_t lba, uint32_t nblocks, void *buf,
			  unsigned int flags, rdinit_complete_fn fn, void *user);

/**
 * @brief Write logical blocks: rdinit_dev_run() with RDINIT_DEV_WRITE.
 * @param chan,lba,nblocks As for rdinit_dev_read().
 * @param buf   nblocks blocks to write. Owned by the caller; not changed. Any alignment.
 * @param flags 0 or RDINIT_IO_FUA.
 * @return As rdinit_dev_run().
 */
int rdinit_dev_write(struct rdinit_dev_chan *chan, uint64_t lba, uint32_t nblocks, const void *buf,
		     unsigned int flags);

/**
 * @brief Start rdinit_dev_write() asynchronously.
 * @param chan,lba,nblocks,flags As for rdinit_dev_write().
 * @param buf     As for rdinit_dev_write(). Belongs to the library until the callback runs.
 * @param fn,user The callback, not NULL, and its argument.
 * @return As rdinit_dev_submit().
 */
int rdinit_dev_write_async(struct rdinit_dev_chan *chan, uint64_t lba, uint32_t nblocks,
			   const void *buf, unsigned int flags, rdinit_complete_fn fn, void *user);

/**
 * @brief Flush: the data of all writes that completed before, in any channel and by any path, is on
 *        non-volatile media when this function has succeeded.
 * @param chan The channel.
 * @return As rdinit_dev_run().
 */
int rdinit_dev_flush(struct rdinit_dev_chan *chan);

/**
 * @brief Start rdinit_dev_flush() asynchronously.
 * @param chan    The channel.
 * @param fn,user The callback, not NULL, and its argument.
 * @return As rdinit_dev_submit().
 */
int rdinit_dev_flush_async(struct rdinit_dev_chan *chan, rdinit_complete_fn fn, void *user);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* RDINIT_DEV_H */
