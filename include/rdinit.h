/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file rdinit.h
 * @brief librdinit: an NVMe over Fabrics (RDMA transport) initiator in userspace.
 *
 * HANDLES. A struct rdinit_ctrl is one association with a controller: its admin queue. A struct
 * rdinit_qpair is one I/O queue of it. Both are opaque, are made by a _create function, which
 * performs no I/O, and end in a _free function, which accepts a pointer to NULL, works in every
 * state and blocks for a bounded time at most.
 *
 * THREADS. The library starts no thread and has no global state but the thread-local error text. A
 * handle belongs to one thread at a time: calls on the same handle must not overlap. Different
 * handles are independent, also a controller and its own queue pairs: after rdinit_qpair_create()
 * has returned, a queue pair uses nothing of its controller and may move to another thread. Each
 * function below is of this rule unless it says "any thread".
 *
 * SYNCHRONOUS AND ASYNCHRONOUS. Each operation exists as x_async(), which submits it and returns,
 * and as x(), which is x_async() plus a wait. An asynchronous operation makes progress only while
 * the application calls the handle's _process function, typically whenever the handle's _fd is
 * readable. That includes keep-alives: a controller has to be processed at least twice per
 * keep-alive timeout. Synchronous calls process their own handle while they wait. Where
 * asynchronous operations fill the queue they wait for room, and take it before the callback of the
 * operation whose end makes it; they return -EAGAIN only when none of those in flight has a time
 * limit.
 *
 * CALLBACKS. Each accepted asynchronous operation calls its callback exactly once, from the
 * handle's _process function, from a synchronous call that waits on the same handle, or from _free;
 * never from the submitting call. When the submitting call returns an error, there is no callback.
 * In a callback every call on the handle is allowed except its synchronous ones and _process
 * (-EDEADLK). A _free there takes effect at the end of the _process call that runs the callback; do
 * not free a handle from a callback while a synchronous call waits on it.
 *
 * BUFFERS. A buffer given to an operation belongs to the library until its callback. When the
 * callback runs the target can no longer reach the buffer, also after errors and timeouts.
 *
 * ERRORS. Functions return 0 (or a count) or -errno. What the controller answered is kept apart
 * from errno as an NVMe status, see struct rdinit_completion and rdinit_last_status(). After a
 * failed call rdinit_get_error() tells the reason in words. Wrong use, such as a handle that is
 * NULL, is answered with -EINVAL, never with an assertion.
 *
 * BYTE ORDER. All integers are in host byte order. Identify data and log pages are handed over as
 * the controller sent them: little-endian, in the layout of the NVMe specification.
 *
 * STRUCTURES that may grow start with a member "size". Always initialise them with the matching
 * _init function, which sets it to what the caller was compiled with: new members are added at the
 * end, a program that knows fewer of them than the library has the defaults of the rest, and one
 * that knows more is refused with -EINVAL where it uses the structure.
 *
 * DEBUGGING. The environment variable RDINIT_DEBUG, e.g. "debug" or "info,fabric=trace", writes a
 * trace to standard error. It is read by rdinit_ctrl_create() unless the options set a log.
 *
 * Section numbers: "Base" is NVM Express Base Specification 2.0, "Fabrics" NVMe over Fabrics 1.1,
 * "RDMA" NVMe RDMA Transport 1.0.
 */
#ifndef RDINIT_H
#define RDINIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

struct rdinit_ctrl;
struct rdinit_qpair;

#define RDINIT_VERSION_MAJOR 0
#define RDINIT_VERSION_MINOR 1
#define RDINIT_VERSION_PATCH 0

/** The well-known NQN of discovery controllers (Base 4.5). */
#define RDINIT_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"
/** Bytes of a buffer that holds any NQN with its NUL. */
#define RDINIT_NQN_SIZE 224
/** Bytes of every Identify data structure. */
#define RDINIT_IDENTIFY_SIZE 4096
/** Entries of a namespace list. */
#define RDINIT_NS_LIST_MAX 1024

/**
 * @brief The library's version at run time.
 * @return "major.minor.patch"; static. Any thread.
 */
const char *rdinit_version(void);

/* ---------------------------------------------------------------------------------------------
 * Errors
 */

/**
 * @brief Why the last failed call of this thread failed.
 * @return Text such as "rdinit_ctrl_connect: 192.0.2.1:4420: connection refused (is the target
 *         listening there?)"; "" when nothing failed yet. Valid until the next call of the library
 *         in this thread. Never NULL. Any thread.
 */
const char *rdinit_get_error(void);

/**
 * @brief The NVMe status of this thread's last failed synchronous call.
 * @return Status Code in bits 7:0, Status Code Type in 10:8, Command Retry Delay in 12:11, More in
 * 13, Do Not Retry in 14 (Base 3.3.3.2.1, without the phase bit); 0 when the call did not fail by
 *         an answer of the controller. Any thread.
 */
uint16_t rdinit_last_status(void);

/** Bytes of a buffer that holds any text of rdinit_status_text(). */
#define RDINIT_STATUS_TEXT_SIZE 128

/** Kinds of commands: what a status means can depend on the one that it answers. */
enum rdinit_cmds {
	RDINIT_CMDS_UNKNOWN,
	RDINIT_CMDS_ADMIN,
	RDINIT_CMDS_IO,
	RDINIT_CMDS_FABRICS,
};

/**
 * @brief An NVMe status in words.
 * @param status As in struct rdinit_completion.
 * @param set    The kind of the command that it answers. RDINIT_CMDS_UNKNOWN: where it matters, the
 *               text names both meanings.
 * @param opcode The opcode of that command; of a fabrics command its type (FCTYPE).
 * @param buf    Receives the text; RDINIT_STATUS_TEXT_SIZE bytes, the caller's.
 * @return @p buf. Any thread.
 */
const char *rdinit_status_text(uint16_t status, enum rdinit_cmds set, uint8_t opcode, char *buf);

/** @brief The outcome of one asynchronous operation; valid during the callback only. */
struct rdinit_completion {
	/**
	 * 0; -EIO when the controller answered with an error (see @c status); otherwise the
	 * operation was not answered: -ETIMEDOUT (no answer in time), -ECONNRESET (the connection
	 * broke), -ENOTCONN (it was closed by the application), -EPROTO (the peer broke the
	 * protocol), -ECANCELED (the handle was freed).
	 */
	int err;
	/** NVMe status as in rdinit_last_status(); 0 unless err is -EIO. */
	uint16_t status;
	/** Dwords 0 and 1 of the completion queue entry (Base 3.3.3.2). */
	uint64_t result;
	/** The reason in words when err is not 0, else "". Never NULL. */
	const char *text;
};

/**
 * @brief A completion callback.
 * @param user What the submitter passed.
 * @param c    The outcome; the library's, valid during the call.
 */
typedef void (*rdinit_complete_fn)(void *user, const struct rdinit_completion *c);

/* ---------------------------------------------------------------------------------------------
 * Addresses
 */

/** @brief The parts of nvme+rdma://HOST[:PORT]/SUBNQN[/NSID][?OPTION], percent-decoded. */
struct rdinit_uri {
	size_t size;                  /**< set by rdinit_uri_init() */
	char traddr[256];             /**< host name or numeric address, without brackets */
	char trsvcid[8];              /**< port as decimal text; "4420" when not given */
	char subnqn[RDINIT_NQN_SIZE]; /**< "" when not given */
	uint32_t nsid;                /**< 0 when not given */
	bool no_remote_invalidate;    /**< the option of that name, see struct rdinit_ctrl_opts */
};

/** What rdinit_uri_init() calls: @p size is that of the caller's structure. */
void rdinit_uri_init_size(struct rdinit_uri *uri, size_t size);

/**
 * @brief Initialise a struct rdinit_uri.
 * @param uri The caller's structure. Any thread.
 */
static inline void rdinit_uri_init(struct rdinit_uri *uri)
{
	rdinit_uri_init_size(uri, sizeof(*uri));
}

/**
 * @brief Parse nvme+rdma://HOST[:PORT][/SUBNQN[/NSID]][?no-remote-invalidate].
 *
 * HOST is a name, an IPv4 address, or an IPv6 address in brackets with an optional %scope ("%25"
 * in strict URI form works as well). %XX is decoded in HOST and SUBNQN. The scheme is
 * case-insensitive.
 *
 * @param text The URI; NUL-terminated, the caller's.
 * @param uri  Receives the parts; initialised by rdinit_uri_init(). Unchanged on failure.
 * @return 0, or -EINVAL with rdinit_get_error() naming the part that is wrong. Any thread.
 */
int rdinit_uri_parse(const char *text, struct rdinit_uri *uri);

/* ---------------------------------------------------------------------------------------------
 * Controllers
 */

/**
 * @brief Receives trace lines.
 * @param user  log_user of the options.
 * @param level 0 error, 1 warning, 2 notice, 3 info, 4 debug, 5 trace.
 * @param line  Without a newline; valid during the call.
 */
typedef void (*rdinit_log_fn)(void *user, int level, const char *line);

/**
 * @brief Receives asynchronous events (Base 5.2).
 * @param user  event_user of the options.
 * @param event Dword 0 of the event's completion: type in bits 2:0, information in 15:8, log page
 * in 23:16. The controller sends no further event of that type before rdinit_get_log() has read
 * that log page.
 */
typedef void (*rdinit_event_fn)(void *user, uint32_t event);

/** @brief How to reach and use a controller. Strings are copied by rdinit_ctrl_create(). */
struct rdinit_ctrl_opts {
	size_t size; /**< set by rdinit_ctrl_opts_init() */

	const char *traddr;  /**< host name or address of the target; required */
	const char *trsvcid; /**< decimal port; NULL: "4420" */
	const char *subnqn;  /**< subsystem NQN; NULL: RDINIT_DISCOVERY_NQN */
	/**
	 * Who we are. NULL: the first line of /etc/nvme/hostnqn when readable; else
	 * "nqn.2014-08.org.nvmexpress:uuid:" with the default host identifier.
	 */
	const char *hostnqn;
	/**
	 * Host identifier as a UUID (text). NULL: the first line of /etc/nvme/hostid when readable;
	 * else a UUID derived from /etc/machine-id (one-way, stable); else a random one.
	 */
	const char *hostid;
	/** Local address (numeric) to connect from; NULL: any. */
	const char *host_traddr;
	/**
	 * "iwarp" (userspace iWARP over TCP), "verbs" (an RDMA device) or "auto": verbs where an
	 * RDMA device leads to the target, else iwarp. NULL: "auto".
	 */
	const char *provider;

	/**
	 * Keep-alive timeout in ms; 0: none; UINT32_MAX (default): 5000, and 0 for discovery
	 * controllers. The library sends a Keep Alive every half of it (Base 5.18).
	 */
	uint32_t keep_alive_tmo_ms;
	/**
	 * For the transport connection to each address, and again for the Connect command on it;
	 * default 10000.
	 */
	uint32_t connect_timeout_ms;
	/** For each admin or fabrics command but Connect; default 60000. */
	uint32_t admin_timeout_ms;
	/** Entries of the admin queue, 8..4096; default 32, which every target accepts. */
	uint16_t admin_queue_size;
	/** I/O queues to ask the controller for (Base 5.27.1.5), 1..1024; default 1. */
	uint16_t nr_io_queues;

	bool crc;               /**< iwarp: ask for CRC32C on every frame; default false */
	bool no_peer_to_peer;   /**< iwarp: do not offer the peer-to-peer model; default false */
	uint8_t mpa_revision;   /**< iwarp: 2 (default) or 1 (RFC 6581 or RFC 5044 handshake) */
	const char *congestion; /**< iwarp: TCP congestion control; NULL: the host's default */
	/**
	 * iwarp: size of the sockets' buffers in bytes, up to 1 GiB; 0 (default): the kernel finds
	 * it by itself. It allows no more than net.core.wmem_max and net.core.rmem_max.
	 */
	uint32_t send_buffer;
	uint32_t receive_buffer;

	/**
	 * How long a call that waits keeps looking before it sleeps, in microseconds, on the handle
	 * of the controller and on those of its queues; default 50, 0: not at all. After four waits
	 * in a row that took longer than this and 100 microseconds, calls sleep at once, until a
	 * wait is shorter again.
	 */
	uint32_t spin_us;

	rdinit_event_fn
		event_fn; /**< asynchronous events wanted; NULL (default): none are asked for */
	void *event_user;

	/**
	 * Trace: what to write, as RDINIT_DEBUG ("debug", "info,fabric=trace"); NULL: RDINIT_DEBUG,
	 * or nothing when that is unset. It goes to @c log_fn, or to descriptor @c log_fd (default
	 * 2, not owned).
	 */
	const char *log_spec;
	int log_fd;
	rdinit_log_fn log_fn; /**< called on the thread that uses the handle */
	void *log_user;

	/**
	 * Do not ask the target to invalidate keys with its responses (SGL subtype Fh); default
	 * false. For targets that get it wrong; it is never asked for where it cannot be checked.
	 */
	bool no_remote_invalidate;
};

/** What rdinit_ctrl_opts_init() calls: @p size is that of the caller's structure. */
void rdinit_ctrl_opts_init_size(struct rdinit_ctrl_opts *opts, size_t size);

/**
 * @brief Fill in the defaults.
 * @param opts The caller's structure. Any thread.
 */
static inline void rdinit_ctrl_opts_init(struct rdinit_ctrl_opts *opts)
{
	rdinit_ctrl_opts_init_size(opts, sizeof(*opts));
}

/**
 * @brief Take address, NQN and options from a parsed URI.
 * @param opts Receives pointers into @p uri, which must live until rdinit_ctrl_create().
 * @param uri  From rdinit_uri_parse(). Any thread.
 */
void rdinit_ctrl_opts_set_uri(struct rdinit_ctrl_opts *opts, const struct rdinit_uri *uri);

/**
 * @brief Make a controller handle. Checks the options; no I/O.
 * @param opts Initialised by rdinit_ctrl_opts_init(); the caller's, not used after return.
 * @param out  Receives the handle, to be freed with rdinit_ctrl_free(). NULL on failure.
 * @return 0; -EINVAL (an option is missing or malformed), -ENOENT (unknown congestion control),
 *         -ENOMEM, or -EMFILE/-ENFILE. Any thread.
 */
int rdinit_ctrl_create(const struct rdinit_ctrl_opts *opts, struct rdinit_ctrl **out);

/**
 * @brief Connect to the controller and make it ready (Fabrics 2.2, Base 3.5).
 *
 * Resolves the address, connects, sends Connect, enables the controller, waits for CSTS.RDY for at
 * most CAP.TO, identifies and validates it and asks for I/O queues (not on discovery
 * controllers). Name resolution is getaddrinfo(3) and may block in the submitting call; numeric
 * addresses do not. All addresses of a name are tried in order.
 *
 * @param ctrl A handle that is new. A handle connects once; make a new one to connect again.
 * @return 0; -EINVAL (not new); -EDEADLK (called from a callback); -EADDRNOTAVAIL (name not known);
 *         -ECONNREFUSED (nobody listens, or the target rejected the connection), -ETIMEDOUT,
 * -EHOSTUNREACH, -ENETUNREACH, -EPROTO (not an NVMe/RDMA target, or it violates the protocol), -EIO
 * (the target answered with an NVMe status), -EACCES (it demands authentication, which is not
 * supported), -ENOTSUP (it lacks what is needed, e.g. keyed SGLs), -ECONNRESET, -ENOMEM. After a
 * failure the handle can only be freed.
 */
int rdinit_ctrl_connect(struct rdinit_ctrl *ctrl);

/**
 * @brief rdinit_ctrl_connect(), asynchronously.
 * @param ctrl As there.
 * @param fn   Called once with the outcome when 0 is returned.
 * @param user Passed to @p fn.
 * @return 0, -EINVAL, -EADDRNOTAVAIL or -ENOMEM.
 */
int rdinit_ctrl_connect_async(struct rdinit_ctrl *ctrl, rdinit_complete_fn fn, void *user);

/**
 * @brief A descriptor to wait on.
 * @param ctrl The handle.
 * @return A descriptor that polls readable (POLLIN) when rdinit_ctrl_process() has something to do.
 * Owned by the handle, the same for its whole life.
 */
int rdinit_ctrl_fd(const struct rdinit_ctrl *ctrl);

/**
 * @brief Do what is due: receive, send, keep-alives, timeouts, callbacks.
 * @param ctrl       The handle.
 * @param timeout_ms Wait that long at most when there is nothing to do; 0: do not wait; -1: wait
 *                   for the next event.
 * @return The number of callbacks run, 0 when there was none; -EDEADLK (called from a callback), or
 * the error of the connection when it is lost and all callbacks have run: -ECONNRESET, -ETIMEDOUT,
 *         -EPROTO, -ENOTCONN.
 */
int rdinit_ctrl_process(struct rdinit_ctrl *ctrl, int timeout_ms);

/** @brief What is known of a connected controller. */
struct rdinit_ctrl_info {
	size_t size;        /**< set by rdinit_ctrl_info_init() */
	uint64_t cap;       /**< controller capabilities (Base 3.1.3.1) */
	uint32_t vs;        /**< version, e.g. 0x00010400 */
	uint32_t nn;        /**< highest namespace id */
	uint16_t cntlid;    /**< controller id */
	uint16_t io_queues; /**< I/O queues granted; 0 on discovery controllers */
	/** Largest transfer of one command in bytes: MDTS and what a keyed SGL can say. */
	uint32_t max_transfer;
	/** Payload bytes that fit into an I/O command capsule; 0 when none do. */
	uint32_t in_capsule;
	uint16_t max_queue_size; /**< entries, by CAP.MQES and MAXCMD */
	bool discovery;          /**< it is a discovery controller */
	bool volatile_cache;     /**< VWC: it has a volatile write cache, flush matters */
	const char *address;     /**< "192.0.2.1:4420" as connected; lives as long as the handle */
	const char *provider;    /**< "iwarp" or "verbs" */
	const char *hostnqn;     /**< as used; lives as long as the handle */
};

/** What rdinit_ctrl_info_init() calls: @p size is that of the caller's structure. */
void rdinit_ctrl_info_init_size(struct rdinit_ctrl_info *info, size_t size);

/**
 * @brief Initialise a struct rdinit_ctrl_info.
 * @param info The caller's structure. Any thread.
 */
static inline void rdinit_ctrl_info_init(struct rdinit_ctrl_info *info)
{
	rdinit_ctrl_info_init_size(info, sizeof(*info));
}

/**
 * @brief Read what is known of the controller.
 * @param ctrl A connected handle.
 * @param info Receives the values; initialised by rdinit_ctrl_info_init().
 * @return 0, or -ENOTCONN when the handle is not connected (or no longer).
 */
int rdinit_ctrl_get_info(const struct rdinit_ctrl *ctrl, struct rdinit_ctrl_info *info);

/**
 * @brief Shut the controller down (CC.SHN, Base 3.6.2) and close the connection.
 *
 * Disconnect or free the queue pairs first: their commands in flight fail otherwise.
 *
 * @param ctrl The handle. When it is not connected this only closes what is open.
 * @return 0; -EDEADLK; -ETIMEDOUT when the controller did not finish its shutdown in time, -EIO or
 * another error of the connection. The connection is closed in every case.
 */
int rdinit_ctrl_disconnect(struct rdinit_ctrl *ctrl);

/**
 * @brief rdinit_ctrl_disconnect(), asynchronously.
 * @param ctrl The handle.
 * @param fn   Called once with the outcome when 0 is returned.
 * @param user Passed to @p fn.
 * @return 0, or -EALREADY when a disconnect is under way or done.
 */
int rdinit_ctrl_disconnect_async(struct rdinit_ctrl *ctrl, rdinit_complete_fn fn, void *user);

/**
 * @brief Free a controller handle in any state.
 *
 * Closes the connection at once, without the shutdown of rdinit_ctrl_disconnect(). Operations in
 * flight get their callbacks with -ECANCELED. Never waits for the network.
 *
 * @param ctrl The handle; set to NULL. NULL and a pointer to NULL are fine.
 */
void rdinit_ctrl_free(struct rdinit_ctrl **ctrl);

/* ---------------------------------------------------------------------------------------------
 * Admin commands
 */

/**
 * @brief Identify (Base 5.17), any CNS.
 * @param ctrl A connected handle.
 * @param cns  Controller or Namespace Structure.
 * @param nsid Namespace id, or what the CNS uses that field for.
 * @param data Receives RDINIT_IDENTIFY_SIZE bytes, as the controller sent them.
 * @return 0; -EIO (see rdinit_last_status(), e.g. Invalid Namespace or Format), -ENOTCONN,
 * -EDEADLK, -EAGAIN (admin queue full), -ETIMEDOUT, -ECONNRESET, -EPROTO.
 */
int rdinit_identify(struct rdinit_ctrl *ctrl, uint8_t cns, uint32_t nsid, void *data);

/**
 * @brief rdinit_identify(), asynchronously.
 * @param ctrl As there. @param cns As there. @param nsid As there.
 * @param data As there; the library's until the callback.
 * @param fn   Called once with the outcome when 0 is returned.
 * @param user Passed to @p fn.
 * @return 0, -ENOTCONN, -EAGAIN, -EINVAL, -ENOMEM.
 */
int rdinit_identify_async(struct rdinit_ctrl *ctrl, uint8_t cns, uint32_t nsid, void *data,
			  rdinit_complete_fn fn, void *user);

/**
 * @brief Identify Controller (CNS 01h).
 * @param ctrl A connected handle.
 * @param data Receives RDINIT_IDENTIFY_SIZE bytes.
 * @return As rdinit_identify().
 */
int rdinit_identify_ctrl(struct rdinit_ctrl *ctrl, void *data);

/**
 * @brief Identify Namespace (CNS 00h).
 * @param ctrl A connected handle.
 * @param nsid Namespace id, from 1. An inactive one is answered with zeroes.
 * @param data Receives RDINIT_IDENTIFY_SIZE bytes.
 * @return As rdinit_identify().
 */
int rdinit_identify_ns(struct rdinit_ctrl *ctrl, uint32_t nsid, void *data);

/**
 * @brief The active namespaces (CNS 02h).
 * @param ctrl  A connected handle.
 * @param after Only ids above this one; 0 for the first part.
 * @param nsids Receives up to RDINIT_NS_LIST_MAX ids, ascending, host byte order.
 * @param count Receives how many; RDINIT_NS_LIST_MAX means there may be more.
 * @return As rdinit_identify(); -EPROTO when the ids do not ascend. A hostile controller can name
 *         more of them than it says that it can have (NN, MNAN): count them.
 */
int rdinit_list_ns(struct rdinit_ctrl *ctrl, uint32_t after, uint32_t *nsids, unsigned int *count);

/**
 * @brief Get Log Page (Base 5.16).
 * @param ctrl   A connected handle.
 * @param lid    Log page identifier.
 * @param nsid   Namespace id; 0xffffffff for controller-wide pages.
 * @param offset Bytes from the log's start; a multiple of 4.
 * @param data   Receives @p len bytes as the controller sent them.
 * @param len    A multiple of 4, up to max_transfer.
 * @return As rdinit_identify(), and -EINVAL for a wrong @p offset or @p len.
 */
int rdinit_get_log(struct rdinit_ctrl *ctrl, uint8_t lid, uint32_t nsid, uint64_t offset,
		   void *data, uint32_t len);

/**
 * @brief rdinit_get_log(), asynchronously.
 * @param ctrl As there. @param lid As there. @param nsid As there. @param offset As there.
 * @param data As there; the library's until the callback. @param len As there.
 * @param fn   Called once with the outcome when 0 is returned.
 * @param user Passed to @p fn.
 * @return 0, -ENOTCONN, -EAGAIN, -EINVAL, -ENOMEM.
 */
int rdinit_get_log_async(struct rdinit_ctrl *ctrl, uint8_t lid, uint32_t nsid, uint64_t offset,
			 void *data, uint32_t len, rdinit_complete_fn fn, void *user);

/** @brief One record of the discovery log page (Fabrics 5.3), padding removed from the strings. */
struct rdinit_discovery_record {
	uint8_t trtype;  /**< 1 RDMA, 2 FC, 3 TCP */
	uint8_t adrfam;  /**< 1 IPv4, 2 IPv6, 3 InfiniBand */
	uint8_t subtype; /**< 1 referral, 2 NVMe subsystem, 3 current discovery subsystem */
	uint8_t treq;
	uint16_t portid;
	uint16_t cntlid;
	uint16_t asqsz;
	uint16_t eflags;
	char trsvcid[33];
	char subnqn[257];
	char traddr[257];
	uint8_t rdma_qptype; /**< transport-specific fields, valid when trtype is 1 (RDMA 4.1) */
	uint8_t rdma_prtype;
	uint8_t rdma_cms;
	uint16_t rdma_pkey;
};

/** @brief A discovery log page. */
struct rdinit_discovery {
	uint64_t genctr; /**< generation counter: changes when the log does */
	size_t count;
	struct rdinit_discovery_record *records; /**< @c count of them; freed with the log */
};

/**
 * @brief Read the whole discovery log of a discovery controller.
 *
 * Reads in pieces when it is long, and again when its generation counter changed meanwhile.
 *
 * @param ctrl A connected discovery controller.
 * @param out  Receives the log, the caller's, to be freed with rdinit_discovery_free().
 * @return As rdinit_identify(); -EINVAL (not a discovery controller), -EAGAIN (the log changed
 * during each of 10 attempts), -EPROTO (malformed log), -ENOMEM.
 */
int rdinit_discover(struct rdinit_ctrl *ctrl, struct rdinit_discovery **out);

/**
 * @brief rdinit_discover(), asynchronously.
 * @param ctrl As there.
 * @param out  Set before @p fn is called with err 0; must stay valid until then.
 * @param fn   Called once with the outcome when 0 is returned.
 * @param user Passed to @p fn.
 * @return 0, -ENOTCONN, -EAGAIN, -EINVAL, -ENOMEM.
 */
int rdinit_discover_async(struct rdinit_ctrl *ctrl, struct rdinit_discovery **out,
			  rdinit_complete_fn fn, void *user);

/**
 * @brief Free a discovery log.
 * @param log From rdinit_discover(); set to NULL. NULL is fine. Any thread.
 */
void rdinit_discovery_free(struct rdinit_discovery **log);

/** @brief What I/O needs to know of a namespace. Filled by rdinit_ns_open(); a plain value. */
struct rdinit_ns {
	size_t size; /**< set by rdinit_ns_init() */
	uint32_t nsid;
	uint32_t block_size; /**< bytes of a logical block */
	uint64_t blocks;     /**< NSZE: logical blocks */
	/** Do not refuse LBAs beyond @c blocks locally: let the controller answer. Default false.
	 */
	bool unchecked;
};

/** What rdinit_ns_init() calls: @p size is that of the caller's structure. */
void rdinit_ns_init_size(struct rdinit_ns *ns, size_t size);

/**
 * @brief Initialise a struct rdinit_ns.
 * @param ns The caller's structure. Any thread.
 */
static inline void rdinit_ns_init(struct rdinit_ns *ns)
{
	rdinit_ns_init_size(ns, sizeof(*ns));
}

/**
 * @brief Read size and format of a namespace.
 * @param ctrl A connected handle.
 * @param nsid Namespace id, from 1.
 * @param ns   Receives them; initialised by rdinit_ns_init(). May be copied and used by any thread.
 * @return As rdinit_identify(); -ENODEV when there is no such active namespace; -ENOTSUP for a
 * format with metadata or with a block size that is no power of two from 512 to 64 KiB.
 */
int rdinit_ns_open(struct rdinit_ctrl *ctrl, uint32_t nsid, struct rdinit_ns *ns);

/* ---------------------------------------------------------------------------------------------
 * Queue pairs
 */

/** @brief How to make an I/O queue pair. */
struct rdinit_qpair_opts {
	size_t size; /**< set by rdinit_qpair_opts_init() */
	/**
	 * Queue id, 1 to the controller's io_queues; each at most once at a time. 0 (default): the
	 * next in turn.
	 */
	uint16_t qid;
	/**
	 * Entries of the queue, 2..1024; default 128; lowered to what controller and target allow.
	 * One command less than the entries may be in flight, see rdinit_qpair_depth().
	 */
	uint16_t queue_size;
	uint32_t connect_timeout_ms; /**< default: the controller's */
	uint32_t io_timeout_ms;      /**< for each command; default 30000 */
	/**
	 * Bytes of registered memory through which data is copied on devices where registration is
	 * expensive and the buffer was not registered with rdinit_mem_register(). Not allocated
	 * with the iwarp provider. Default 8 MiB.
	 */
	size_t bounce_bytes;
};

/** What rdinit_qpair_opts_init() calls: @p size is that of the caller's structure. */
void rdinit_qpair_opts_init_size(struct rdinit_qpair_opts *opts, size_t size);

/**
 * @brief Fill in the defaults.
 * @param opts The caller's structure. Any thread.
 */
static inline void rdinit_qpair_opts_init(struct rdinit_qpair_opts *opts)
{
	rdinit_qpair_opts_init_size(opts, sizeof(*opts));
}

/**
 * @brief Make a queue pair handle. No I/O.
 * @param ctrl A connected controller, not a discovery controller. Copied from; call on its thread.
 * @param opts Initialised by rdinit_qpair_opts_init(), or NULL for the defaults.
 * @param out  Receives the handle, to be freed with rdinit_qpair_free(). NULL on failure.
 * @return 0; -ENOTCONN, -EINVAL (an option is out of range, discovery controller), -ENOSPC (all
 *         granted queue ids have been used), -ENOMEM, -EMFILE.
 */
int rdinit_qpair_create(struct rdinit_ctrl *ctrl, const struct rdinit_qpair_opts *opts,
			struct rdinit_qpair **out);

/**
 * @brief Connect the queue pair (Fabrics 3.3): a connection of its own.
 * @param qpair A handle that is new. A handle connects once.
 * @return As rdinit_ctrl_connect().
 */
int rdinit_qpair_connect(struct rdinit_qpair *qpair);

/**
 * @brief rdinit_qpair_connect(), asynchronously.
 * @param qpair As there.
 * @param fn    Called once with the outcome when 0 is returned.
 * @param user  Passed to @p fn.
 * @return 0, -EINVAL (not new) or -ENOMEM.
 */
int rdinit_qpair_connect_async(struct rdinit_qpair *qpair, rdinit_complete_fn fn, void *user);

/**
 * @brief A descriptor to wait on, as rdinit_ctrl_fd().
 * @param qpair The handle.
 * @return The descriptor, owned by the handle.
 */
int rdinit_qpair_fd(const struct rdinit_qpair *qpair);

/**
 * @brief Do what is due, as rdinit_ctrl_process(). What was submitted since the last call is sent.
 * @param qpair      The handle.
 * @param timeout_ms As there.
 * @return As there.
 */
int rdinit_qpair_process(struct rdinit_qpair *qpair, int timeout_ms);

/**
 * @brief How many commands may be in flight.
 * @param qpair A connected handle.
 * @return At least 1; 0 when the handle is not connected.
 */
unsigned int rdinit_qpair_depth(const struct rdinit_qpair *qpair);

/**
 * @brief How many commands are in flight.
 * @param qpair The handle.
 * @return The number of callbacks of reads, writes and flushes still to come.
 */
unsigned int rdinit_qpair_inflight(const struct rdinit_qpair *qpair);

/**
 * @brief The queue id.
 * @param qpair The handle.
 * @return 1 and up.
 */
uint16_t rdinit_qpair_id(const struct rdinit_qpair *qpair);

/**
 * @brief Close the connection of a queue pair.
 *
 * Wait for what is in flight first: it ends with -ENOTCONN otherwise, in an unknown state.
 *
 * @param qpair The handle.
 * @return 0 or -EDEADLK.
 */
int rdinit_qpair_disconnect(struct rdinit_qpair *qpair);

/**
 * @brief Free a queue pair in any state, as rdinit_ctrl_free().
 * @param qpair The handle; set to NULL. NULL and a pointer to NULL are fine.
 */
void rdinit_qpair_free(struct rdinit_qpair **qpair);

/* ---------------------------------------------------------------------------------------------
 * I/O
 */

/**
 * @brief Announce a buffer that I/O will use again and again.
 *
 * Where registration is expensive this avoids the copy through bounce memory. With the iwarp
 * provider it has no effect: memory is then open to the target during each command only.
 *
 * @param qpair A connected handle.
 * @param addr  Start of the buffer; the caller's, must stay mapped until rdinit_mem_unregister().
 * @param len   Bytes.
 * @return 0; -EINVAL (empty, or overlaps a registered one), -ENOMEM (also: memlock limit),
 * -ENOTCONN.
 */
int rdinit_mem_register(struct rdinit_qpair *qpair, void *addr, size_t len);

/**
 * @brief Undo rdinit_mem_register(). No command may be using the buffer.
 * @param qpair The handle.
 * @param addr  As registered.
 * @return 0; -ENOENT (not registered), -EBUSY (a command uses it).
 */
int rdinit_mem_unregister(struct rdinit_qpair *qpair, void *addr);

/** The command completes only when the data is on non-volatile media (Force Unit Access). */
#define RDINIT_IO_FUA 0x1u

/**
 * @brief Read logical blocks (NVM Command Set 3.2.4).
 * @param qpair   A connected handle.
 * @param ns      The namespace.
 * @param lba     First block.
 * @param nblocks Blocks, 1..65536; their bytes must not exceed the controller's max_transfer.
 * @param buf     Receives nblocks * ns->block_size bytes. No alignment is required.
 * @param flags   0 or RDINIT_IO_FUA.
 * @return 0; -EINVAL (beyond the end of the namespace, too long, unknown flag), -EAGAIN (of
 *         rdinit_read_async(); rdinit_read() waits instead: as many commands are in flight as the
 *         queue or, see bounce_bytes, its memory allows; process and try again), -ENOTCONN,
 *         -EDEADLK, -ENOMEM; or as struct rdinit_completion's err.
 */
int rdinit_read(struct rdinit_qpair *qpair, const struct rdinit_ns *ns, uint64_t lba,
		uint32_t nblocks, void *buf, unsigned int flags);

/**
 * @brief rdinit_read(), asynchronously.
 * @param qpair As there. @param ns As there, not used after return. @param lba As there.
 * @param nblocks As there.
 * @param buf   As there; the library's until the callback.
 * @param flags As there.
 * @param fn    Called once with the outcome when 0 is returned.
 * @param user  Passed to @p fn.
 * @return 0, -EINVAL, -EAGAIN, -ENOTCONN, -ENOMEM.
 */
int rdinit_read_async(struct rdinit_qpair *qpair, const struct rdinit_ns *ns, uint64_t lba,
		      uint32_t nblocks, void *buf, unsigned int flags, rdinit_complete_fn fn,
		      void *user);

/**
 * @brief Write logical blocks (NVM Command Set 3.2.6).
 * @param qpair As rdinit_read(). @param ns As there. @param lba As there. @param nblocks As there.
 * @param buf   nblocks * ns->block_size bytes; not changed.
 * @param flags 0 or RDINIT_IO_FUA.
 * @return As rdinit_read().
 */
int rdinit_write(struct rdinit_qpair *qpair, const struct rdinit_ns *ns, uint64_t lba,
		 uint32_t nblocks, const void *buf, unsigned int flags);

/**
 * @brief rdinit_write(), asynchronously.
 * @param qpair As rdinit_read_async(). @param ns As there. @param lba As there. @param nblocks As
 * there.
 * @param buf   The library's until the callback; must not change meanwhile.
 * @param flags 0 or RDINIT_IO_FUA.
 * @param fn    Called once with the outcome when 0 is returned.
 * @param user  Passed to @p fn.
 * @return As rdinit_read_async().
 */
int rdinit_write_async(struct rdinit_qpair *qpair, const struct rdinit_ns *ns, uint64_t lba,
		       uint32_t nblocks, const void *buf, unsigned int flags, rdinit_complete_fn fn,
		       void *user);

/**
 * @brief Flush (Base 7.1): all that was written before is on non-volatile media afterwards.
 * @param qpair A connected handle. Covers writes of every queue that have completed.
 * @param ns    The namespace.
 * @return As rdinit_read().
 */
int rdinit_flush(struct rdinit_qpair *qpair, const struct rdinit_ns *ns);

/**
 * @brief rdinit_flush(), asynchronously.
 * @param qpair As there. @param ns As there, not used after return.
 * @param fn    Called once with the outcome when 0 is returned.
 * @param user  Passed to @p fn.
 * @return As rdinit_read_async().
 */
int rdinit_flush_async(struct rdinit_qpair *qpair, const struct rdinit_ns *ns,
		       rdinit_complete_fn fn, void *user);

/* ---------------------------------------------------------------------------------------------
 * Any other command
 */

/** The data goes to the controller; otherwise it comes from there. */
#define RDINIT_PASSTHRU_WRITE 0x1u
/** The data is never sent in the command capsule, however small it is. */
#define RDINIT_PASSTHRU_KEYED 0x2u
/**
 * Send byte 1 (FUSE, PSDT) and the SGL (bytes 24 to 39) as they are in @c sqe; only the command id
 * is filled in. There is no data then: @c data is NULL.
 */
#define RDINIT_PASSTHRU_AS_IS 0x4u

/**
 * @brief A command as the caller made it.
 *
 * The library fills in the command id, PSDT and the SGL, and sends the rest as it is: what the
 * command means, and whether it is allowed, is between the caller and the controller. Nothing is
 * checked but that the data can be described.
 */
struct rdinit_passthru {
	size_t size; /**< set by rdinit_passthru_init() */
	/** The submission queue entry as on the wire: little-endian (Base 3.3.3.1). */
	uint8_t sqe[64];
	void *data;          /**< NULL: the command has none; else the library's until the end */
	uint32_t len;        /**< bytes of @c data, 1 to 16777215; 0 when there is none */
	uint32_t flags;      /**< RDINIT_PASSTHRU_* */
	uint32_t timeout_ms; /**< 0: the handle's; UINT32_MAX: none, e.g. for event requests */
};

/** What rdinit_passthru_init() calls: @p size is that of the caller's structure. */
void rdinit_passthru_init_size(struct rdinit_passthru *cmd, size_t size);

/**
 * @brief Initialise a struct rdinit_passthru: no data, a command of zeroes.
 * @param cmd The caller's structure. Any thread.
 */
static inline void rdinit_passthru_init(struct rdinit_passthru *cmd)
{
	rdinit_passthru_init_size(cmd, sizeof(*cmd));
}

/**
 * @brief Send an admin or fabrics command and wait for its end.
 * @param ctrl   A connected handle.
 * @param cmd    The command. With RDINIT_PASSTHRU_WRITE its data is not changed.
 * @param result Receives dwords 0 and 1 of the completion, also with -EIO; NULL: not wanted.
 * @return 0; -EIO with rdinit_last_status() when the controller answered with an error; -EINVAL
 * (not initialised, unknown flag, impossible length), -ENOTCONN, -EDEADLK, -EAGAIN, -EMSGSIZE
 * (more than bounce memory holds), -ENOMEM; or as struct rdinit_completion's err.
 */
int rdinit_admin_passthru(struct rdinit_ctrl *ctrl, const struct rdinit_passthru *cmd,
			  uint64_t *result);

/**
 * @brief rdinit_admin_passthru(), asynchronously.
 * @param ctrl As there.
 * @param cmd  As there, not used after return.
 * @param cid  Receives the command id, by which Abort names the command; NULL: not wanted. Valid
 *             until the callback.
 * @param fn   Called once with the outcome when 0 is returned.
 * @param user Passed to @p fn.
 * @return 0, -EINVAL, -ENOTCONN, -EAGAIN, -EMSGSIZE, -ENOMEM.
 */
int rdinit_admin_passthru_async(struct rdinit_ctrl *ctrl, const struct rdinit_passthru *cmd,
				uint16_t *cid, rdinit_complete_fn fn, void *user);

/**
 * @brief Send an I/O command and wait for its end.
 * @param qpair  A connected handle.
 * @param cmd    As rdinit_admin_passthru().
 * @param result As there.
 * @return As rdinit_admin_passthru().
 */
int rdinit_io_passthru(struct rdinit_qpair *qpair, const struct rdinit_passthru *cmd,
		       uint64_t *result);

/**
 * @brief rdinit_io_passthru(), asynchronously.
 * @param qpair As there. @param cmd As there, not used after return.
 * @param cid   As rdinit_admin_passthru_async().
 * @param fn    Called once with the outcome when 0 is returned.
 * @param user  Passed to @p fn.
 * @return As rdinit_admin_passthru_async().
 */
int rdinit_io_passthru_async(struct rdinit_qpair *qpair, const struct rdinit_passthru *cmd,
			     uint16_t *cid, rdinit_complete_fn fn, void *user);

/**
 * @brief Send two I/O commands, one directly behind the other: a fused operation (Base 3.4.2).
 *
 * Both are sent or none is. Each has its own callback. FUSE is set to "first" and "second".
 *
 * @param qpair  As rdinit_io_passthru_async().
 * @param first  The first command, not used after return.
 * @param second The second command, not used after return.
 * @param fn     Called once for each command when 0 is returned.
 * @param user1  Passed to @p fn for the first.
 * @param user2  Passed to @p fn for the second.
 * @return As rdinit_io_passthru_async(); -EAGAIN when there is no room for both.
 */
int rdinit_io_passthru_fused_async(struct rdinit_qpair *qpair, const struct rdinit_passthru *first,
				   const struct rdinit_passthru *second, rdinit_complete_fn fn,
				   void *user1, void *user2);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* RDINIT_H */
