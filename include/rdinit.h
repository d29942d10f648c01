/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file rdinit.h
 * @brief librdinit: an NVMe over Fabrics (RDMA and TCP) initiator in userspace.
 *
 * HANDLES. A struct rdinit_ctrl is one association with a controller and owns its admin queue. A
 * struct rdinit_qpair is one I/O queue of that controller. Both types are opaque. A _create
 * function makes a handle and performs no I/O. The matching _free function works in every state,
 * accepts NULL and a pointer to NULL, and blocks for a bounded time at most.
 *
 * THREADS. Calls on the same handle must not overlap: a handle belongs to one thread at a time.
 * Different handles are independent, including a controller and its own queue pairs: after
 * rdinit_qpair_create() has returned, the queue pair does not use the controller handle and may
 * move to another thread. This rule holds for every function below, unless its description says
 * "Any thread": such a function may be called from any thread at any time, as long as no other
 * thread uses the same arguments. The only global state is the thread-local error text and status.
 * The library starts no threads, with two exceptions: a helper thread connects with the verbs
 * provider on an iWARP device, where that can block in the kernel, and one computes Diffie-Hellman
 * when a queue authenticates. It has all signals blocked and ends with the attempt to connect.
 *
 * FORK. Copies of handles in a child cannot be used (-ECHILD), and _free leaves what they occupy.
 *
 * SYNCHRONOUS AND ASYNCHRONOUS. The synchronous function x() submits an operation and waits for its
 * completion; x_async() submits the same operation and returns at once. Operations without an
 * _async form are synchronous. An asynchronous operation makes progress only while the application
 * calls the handle's _process function; call it whenever the handle's _fd is readable. Keep Alive
 * commands are sent by rdinit_ctrl_process() as well: call it at least twice per keep-alive
 * timeout. A synchronous call processes its own handle while it waits. When asynchronous commands
 * fill the queue, a synchronous call waits until one of them completes and takes the free entry
 * before the callback of that command runs. It returns -EAGAIN only when none of the commands in
 * flight has a time limit.
 *
 * CALLBACKS. Every accepted asynchronous operation calls its callback exactly once: from the
 * handle's _process function, from a synchronous call that waits on the same handle, or from _free;
 * never from the submitting function. When the submitting function returns an error, there is no
 * callback. A callback may call every function on its handle except the synchronous ones and
 * _process; those return -EDEADLK. When a callback calls _free, the handle is freed when the
 * _process call that runs the callback returns. Do not free a handle from a callback while a
 * synchronous call waits on that handle.
 *
 * BUFFERS. A buffer that is passed to an operation belongs to the library until the callback runs,
 * or until the synchronous function returns. From then on the target cannot access the buffer any
 * more; this also holds after errors and timeouts.
 *
 * ERRORS. Functions return 0 (or a count) on success and a negative errno value on failure. The
 * NVMe status from the controller is kept separate from errno: see struct rdinit_completion and
 * rdinit_last_status(). After a failed call rdinit_get_error() returns the reason as text. Invalid
 * arguments, such as a NULL handle, are answered with -EINVAL, never with an assertion.
 *
 * BYTE ORDER. All integers of this interface are in host byte order, except the submission queue
 * entry in struct rdinit_passthru. Identify data and log pages are returned as the controller sent
 * them: little-endian, in the layout of the NVMe specification.
 *
 * STRUCTURE SIZES. Structures that may grow start with the member "size". Initialise them with the
 * matching _init function, which sets "size" to the size that the program was compiled with. New
 * members are added at the end. A library that has more members than the program uses the defaults
 * for the members that the program lacks. A library that has fewer members than the program refuses
 * the structure with -EINVAL.
 *
 * DEBUGGING. The environment variable RDINIT_DEBUG, for example "debug" or "info,fabric=trace",
 * enables a trace on standard error. rdinit_ctrl_create() reads it, unless log_spec of the options
 * is set.
 *
 * SECTION NUMBERS. "Base" is NVM Express Base Specification 2.0, "NVM" is NVM Command Set
 * Specification 1.0, "Fabrics" is NVMe over Fabrics 1.1, "RDMA" is NVMe RDMA Transport
 * Specification 1.0.
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
struct rdinit_auth_opts; /* of rdinit_auth.h */
struct rdinit_tls_opts;  /* of rdinit_tls.h */

#define RDINIT_VERSION_MAJOR 0
#define RDINIT_VERSION_MINOR 1
#define RDINIT_VERSION_PATCH 0

/** The well-known NQN of discovery controllers (Base 4.5). */
#define RDINIT_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"
/** Size in bytes of a buffer that holds any NQN including its terminating NUL. */
#define RDINIT_NQN_SIZE 224
/** Size in bytes of every Identify data structure (Base 5.17). */
#define RDINIT_IDENTIFY_SIZE 4096
/** Largest number of entries in one namespace list (Base 5.17.2.2). */
#define RDINIT_NS_LIST_MAX 1024

/** @brief Get the version of the library at run time: "major.minor.patch", static. Any thread. */
const char *rdinit_version(void);

/* ---- Errors ---- */

/**
 * @brief Get the reason of the last failed call in this thread.
 * @return Text such as "rdinit_ctrl_connect: 192.0.2.1:4420: connection refused (is the target
 *         listening there?)"; "" when no call has failed yet. Never NULL. The library owns the
 *         text; it is valid until the next call of a library function in this thread. Any thread.
 */
const char *rdinit_get_error(void);

/**
 * @brief Get the NVMe status of the last failed synchronous call in this thread.
 * @return Status Code in bits 7:0, Status Code Type in bits 10:8, Command Retry Delay in bits
 *         12:11, More in bit 13, Do Not Retry in bit 14 (Base 3.3.3.2.1, without the phase bit). 0
 *         when the call failed for a reason other than a status from the controller. Any thread.
 */
uint16_t rdinit_last_status(void);

/** Size in bytes of a buffer that holds any text of rdinit_status_text(). */
#define RDINIT_STATUS_TEXT_SIZE 128

/** Command sets. The meaning of a status code can depend on the command set. */
enum rdinit_cmds {
	RDINIT_CMDS_UNKNOWN,
	RDINIT_CMDS_ADMIN,
	RDINIT_CMDS_IO,
	RDINIT_CMDS_FABRICS,
};

/**
 * @brief Describe an NVMe status as text.
 * @param status The status, in the format of rdinit_last_status().
 * @param set    The command set of the command that completed with this status. With
 *               RDINIT_CMDS_UNKNOWN the text names every meaning of an ambiguous code.
 * @param opcode The opcode of that command; for a Fabrics command its type (FCTYPE).
 * @param buf    Receives the text. RDINIT_STATUS_TEXT_SIZE bytes, owned by the caller.
 * @return @p buf. Any thread.
 */
const char *rdinit_status_text(uint16_t status, enum rdinit_cmds set, uint8_t opcode, char *buf);

/** @brief The result of one asynchronous operation. Valid during the callback only. */
struct rdinit_completion {
	/**
	 * 0 on success. -EIO: the controller completed the command with an error, see @c status.
	 * Other values mean that there is no valid completion, and that the connection of the
	 * handle is closed: -ETIMEDOUT (no completion in time), -ECONNRESET (the connection was
	 * lost), -ENOTCONN (the application closed the connection), -EPROTO (the peer violated the
	 * protocol), -ECANCELED (the handle was freed). It is then unknown whether the controller
	 * executed the command. rdinit_ctrl_connect_async(), rdinit_qpair_connect_async() and
	 * rdinit_discover_async() also report the errors of their synchronous forms here.
	 */
	int err;
	/** NVMe status in the format of rdinit_last_status(); 0 unless @c err is -EIO. */
	uint16_t status;
	/** Completion queue entry dwords 0 (bits 31:0) and 1 (bits 63:32) (Base 3.3.3.2). */
	uint64_t result;
	/** The reason as text when @c err is not 0, else "". Never NULL. */
	const char *text;
};

/**
 * @brief A completion callback. Runs on the thread that processes the handle.
 * @param user The pointer that was passed to the submitting function.
 * @param c    The result. Owned by the library, valid until the callback returns.
 */
typedef void (*rdinit_complete_fn)(void *user, const struct rdinit_completion *c);

/* ---- Addresses ---- */

/** Size in bytes of a buffer that holds any text of rdinit_uri_format(). */
#define RDINIT_URI_SIZE 1536

/** @brief The parts of nvme+rdma:// or nvme+tcp://HOST[:PORT][/SUBNQN[/NSID]][?OPTION], decoded. */
struct rdinit_uri {
	size_t size;                  /**< set by rdinit_uri_init() */
	char traddr[256];             /**< host name or numeric address, without brackets */
	char trsvcid[8];              /**< port as decimal text; "4420" when not given */
	char subnqn[RDINIT_NQN_SIZE]; /**< subsystem NQN; "" when not given */
	uint32_t nsid;                /**< namespace identifier; 0 when not given */
	bool no_remote_invalidate;    /**< the URI has ?no-remote-invalidate */
	bool tcp;                     /**< nvme+tcp: NVMe/TCP; else NVMe/RDMA */
	bool no_port;                 /**< the text had no port, so trsvcid is the default */
};

/** The function that rdinit_uri_init() calls with the size of the caller's structure. */
void rdinit_uri_init_size(struct rdinit_uri *uri, size_t size);

/** @brief Initialise a struct rdinit_uri. Any thread. */
static inline void rdinit_uri_init(struct rdinit_uri *uri)
{
	rdinit_uri_init_size(uri, sizeof(*uri));
}

/**
 * @brief Parse nvme+rdma://HOST[:PORT][/SUBNQN[/NSID]][?no-remote-invalidate], or nvme+tcp://.
 *
 * HOST is a name, an IPv4 address, or an IPv6 address in brackets with an optional %scope, which
 * may also be %25scope (RFC 6874). %XX is decoded in HOST and SUBNQN. The scheme has no case.
 *
 * @param text The URI, owned by the caller, not used after return.
 * @param uri  Receives the parts. Initialise it with rdinit_uri_init(). Unchanged on failure.
 * @return 0; -EINVAL (malformed URI: rdinit_get_error() names the wrong part). Any thread.
 */
int rdinit_uri_parse(const char *text, struct rdinit_uri *uri);

/**
 * @brief Write the URI that rdinit_uri_parse() takes apart into these parts. Any thread.
 * @param uri  The parts; subnqn "" and nsid 0 are left out.
 * @param text Receives the URI, percent-encoded. RDINIT_URI_SIZE bytes, owned by the caller.
 * @return 0; -EINVAL (no URI has these parts: rdinit_get_error() names the wrong one).
 */
int rdinit_uri_format(const struct rdinit_uri *uri, char *text);

/* ---- Controllers ---- */

/**
 * @brief A function that receives trace lines. Runs on the thread that uses the handle.
 * @param user  log_user of struct rdinit_ctrl_opts.
 * @param level 0 error, 1 warning, 2 notice, 3 info, 4 debug, 5 trace.
 * @param line  The line, without a newline. Owned by the library, valid until the function returns.
 */
typedef void (*rdinit_log_fn)(void *user, int level, const char *line);

/**
 * @brief A function that receives asynchronous events (Base 5.2). Runs on the thread that processes
 *        the controller handle.
 * @param user  event_user of struct rdinit_ctrl_opts.
 * @param event Dword 0 of the completion of the Asynchronous Event Request, in host byte order:
 *              event type in bits 2:0, event information in bits 15:8, log page identifier in bits
 *              23:16. The controller sends no further event of this type until the log page has
 *              been read with rdinit_get_log().
 */
typedef void (*rdinit_event_fn)(void *user, uint32_t event);

/**
 * @brief Options of a controller: its address, the identity of the host, limits and timeouts. The
 *        caller owns the strings; rdinit_ctrl_create() copies them.
 */
struct rdinit_ctrl_opts {
	size_t size; /**< set by rdinit_ctrl_opts_init() */

	const char *traddr;  /**< host name or numeric address of the target; required */
	const char *trsvcid; /**< port; NULL: "4420"; discovery by NVMe/TCP: "8009", then "4420" */
	const char *subnqn;  /**< subsystem NQN, of any form; NULL: RDINIT_DISCOVERY_NQN */
	/**
	 * Host NQN. NULL: the first line of /etc/nvme/hostnqn when that file exists; else
	 * "nqn.2014-08.org.nvmexpress:uuid:" followed by the default host identifier.
	 */
	const char *hostnqn;
	/**
	 * Host identifier: a UUID as text, not 0. NULL: the first line of /etc/nvme/hostid when it
	 * exists; else the UUID of a host NQN that ends with ":uuid:UUID"; else one derived from
	 * /etc/machine-id and the host NQN, the same in every run; else a random one, with a
	 * warning in the log.
	 */
	const char *hostid;
	/** Numeric local address to connect from; NULL: any. */
	const char *host_traddr;
	/**
	 * "iwarp" (iWARP over TCP in userspace), "verbs" (an RDMA device of the kernel) or "auto":
	 * verbs if the target is reached through an RDMA device, else iwarp. NULL: "auto".
	 */
	const char *provider;

	/**
	 * Keep-alive timeout (KATO) in milliseconds: 0 (none) or at least 100. UINT32_MAX
	 * (default): 5000, or 0 for a discovery controller. The library sends a Keep Alive command
	 * every half of this time (Base 5.18), if rdinit_ctrl_process() is called often enough.
	 */
	uint32_t keep_alive_tmo_ms;
	/**
	 * Milliseconds to wait for the transport connection to each address, and again for the
	 * Connect command on that connection; default 10000; 0 is invalid.
	 */
	uint32_t connect_timeout_ms;
	/**
	 * Milliseconds to wait for the completion of each admin or Fabrics command except Connect;
	 * default 60000; 0 is invalid. A command that exceeds it ends the connection.
	 */
	uint32_t admin_timeout_ms;
	/** Entries of the admin queue, 8 to 4096; default 32, which every target accepts. */
	uint16_t admin_queue_size;
	/** I/O queues to request (Number of Queues, Base 5.27.1.5), 1 to 1024; default 1. */
	uint16_t nr_io_queues;

	bool crc;               /**< iwarp: request CRC32C on every FPDU; default false */
	bool no_peer_to_peer;   /**< iwarp: do not offer the peer-to-peer mode; default false */
	uint8_t mpa_revision;   /**< iwarp: MPA handshake: 2 (RFC 6581, default) or 1 (RFC 5044) */
	const char *congestion; /**< iwarp, tcp: TCP congestion control; NULL: the default */
	/** iwarp, tcp: bytes of socket buffers, up to 1 GiB and net.core.[rw]mem_max; 0: tuned. */
	uint32_t send_buffer;
	uint32_t receive_buffer;

	/**
	 * Busy-polling time in microseconds: how long a waiting call polls before it sleeps. Used
	 * for the controller handle and for its queue pairs; default 50; 0: never poll. After four
	 * waits in a row that took longer than this time plus 100 microseconds, calls sleep at once
	 * until a wait is shorter again.
	 */
	uint32_t spin_us;

	/** Receives asynchronous events; NULL (default): the library requests none. */
	rdinit_event_fn event_fn;
	void *event_user; /**< passed to @c event_fn */

	/**
	 * Trace levels, in the format of RDINIT_DEBUG, for example "debug" or "info,fabric=trace".
	 * NULL: the value of RDINIT_DEBUG, or no trace when that is not set. The trace goes to
	 * @c log_fn, or to @c log_fd when @c log_fn is NULL.
	 */
	const char *log_spec;
	int log_fd;           /**< descriptor for the trace; default 2; the caller closes it */
	rdinit_log_fn log_fn; /**< receives the trace lines; NULL (default): @c log_fd does */
	void *log_user;       /**< passed to @c log_fn */

	/**
	 * Do not request remote invalidation of memory keys (SGL subtype Fh); default false. Set it
	 * for a target that implements remote invalidation incorrectly. The library never requests
	 * it on a device where it cannot verify which key was invalidated.
	 */
	bool no_remote_invalidate;

	const struct rdinit_auth_opts *auth; /**< secrets: see rdinit_auth.h; NULL: none */

	bool tcp; /**< NVMe/TCP, which refuses provider, crc etc.; else (default) NVMe/RDMA */
	bool hdr_digest, data_digest;      /**< NVMe/TCP only: CRC32C of headers, of data; off */
	const struct rdinit_tls_opts *tls; /**< NVMe/TCP only: see rdinit_tls.h; NULL: no TLS */
};

/** The function that rdinit_ctrl_opts_init() calls with the size of the caller's structure. */
void rdinit_ctrl_opts_init_size(struct rdinit_ctrl_opts *opts, size_t size);

/** @brief Initialise a struct rdinit_ctrl_opts with the default values. Any thread. */
static inline void rdinit_ctrl_opts_init(struct rdinit_ctrl_opts *opts)
{
	rdinit_ctrl_opts_init_size(opts, sizeof(*opts));
}

/**
 * @brief Copy address, port, subsystem NQN and options from a parsed URI into the options.
 * @param opts Receives pointers into @p uri, which must stay valid until rdinit_ctrl_create().
 * @param uri  Filled by rdinit_uri_parse(), owned by the caller. Any thread.
 */
void rdinit_ctrl_opts_set_uri(struct rdinit_ctrl_opts *opts, const struct rdinit_uri *uri);

/**
 * @brief Create a controller handle. Checks the options; performs no network I/O.
 *
 * With provider "auto" on a machine that has an RDMA device, a host name in traddr is resolved with
 * getaddrinfo(3), which may block.
 *
 * @param opts Initialised with rdinit_ctrl_opts_init(). Owned by the caller, not used after return.
 * @param out  Receives the handle, which the caller frees with rdinit_ctrl_free(); NULL on error.
 * @return 0; -EINVAL (an option or a secret is missing or malformed), -errno of reading a secret
 *         of @c auth, -ENOENT (the kernel does not have the congestion control), -ENODEV (provider
 *         "verbs": no RDMA device, or no rdma_ucm kernel module), -ENOMEM, -EMFILE or -ENFILE (too
 *         many open files). Any thread.
 */
int rdinit_ctrl_create(const struct rdinit_ctrl_opts *opts, struct rdinit_ctrl **out);

/**
 * @brief Connect to the controller and enable it (Fabrics 2.2, Base 3.5).
 *
 * The library resolves the address, establishes the transport connection, sends Connect, enables
 * the controller, waits at most CAP.TO for CSTS.RDY, sends Identify Controller and checks the
 * answer, and requests I/O queues (not from a discovery controller). Host names are resolved with
 * getaddrinfo(3), which may block, also in rdinit_ctrl_connect_async(); numeric addresses do not
 * block. The addresses of a name are tried in order until one connection is established.
 *
 * @param ctrl A new handle. A handle connects once: to connect again, create a new handle.
 * @return 0; -EINVAL (the handle is not new), -EDEADLK (called from a callback), -EADDRNOTAVAIL
 *         (the host name has no address, or none of the family of host_traddr), -ECONNREFUSED
 *         (nothing listens at the address, or the target rejected the connection), -ETIMEDOUT (no
 *         answer in time, or the controller did not become ready within CAP.TO), -EHOSTUNREACH or
 *         -ENETUNREACH (no route), -EPROTO (the peer is no target of this transport or violates the
 *         protocol), -EIO (the controller returned an NVMe status, see rdinit_last_status(); or it
 *         reports a fatal error, CSTS.CFS), -EACCES (the target demands authentication, and there
 *         is no secret), -EKEYREJECTED (the target refused the host, or did not authenticate
 * itself), -ENOTSUP (the controller lacks a required feature, such as keyed SGLs, or demands TLS),
 *         -ECONNRESET (the connection was lost), -EAGAIN (no thread can be started), -ENOMEM.
 *         After a failure the handle can only be freed.
 */
int rdinit_ctrl_connect(struct rdinit_ctrl *ctrl);

/**
 * @brief Start rdinit_ctrl_connect() asynchronously.
 * @param ctrl A new handle.
 * @param fn,user The callback and its argument.
 * @return 0; -EINVAL (the handle is not new), -EADDRNOTAVAIL (the host name has no usable address),
 *         -ENOMEM, or an errno value of the first connection attempt. Later errors go to @p fn.
 */
int rdinit_ctrl_connect_async(struct rdinit_ctrl *ctrl, rdinit_complete_fn fn, void *user);

/**
 * @brief Get the descriptor to wait on with poll(2), epoll(7) or similar.
 * @param ctrl The handle.
 * @return A descriptor that is readable (POLLIN) when rdinit_ctrl_process() has work to do; -EINVAL
 *         when @p ctrl is NULL. The handle owns the descriptor, which stays the same until the
 *         handle is freed. Do not read from it or close it.
 */
int rdinit_ctrl_fd(const struct rdinit_ctrl *ctrl);

/**
 * @brief Process the handle: receive, send, keep alive, check timeouts, run callbacks.
 * @param ctrl       The handle.
 * @param timeout_ms Milliseconds to wait at most when there is no work; 0: do not wait; -1: wait
 *                   until there is work.
 * @return The number of callbacks that ran, which may be 0; -EDEADLK (called from a callback),
 *         -ENOTCONN (not connected yet, closed by the application, or freed in a callback). When
 *         the connection has ended and all callbacks have run, the error that ended it:
 *         -ECONNRESET, -ETIMEDOUT, -EPROTO, or an error of rdinit_ctrl_connect().
 */
int rdinit_ctrl_process(struct rdinit_ctrl *ctrl, int timeout_ms);

/** @brief Properties of a connected controller. */
struct rdinit_ctrl_info {
	size_t size;        /**< set by rdinit_ctrl_info_init() */
	uint64_t cap;       /**< CAP, controller capabilities (Base 3.1.3.1) */
	uint32_t vs;        /**< VS, version; 0x00010400 is 1.4 (Base 3.1.3.2) */
	uint32_t nn;        /**< NN, highest valid namespace identifier */
	uint16_t cntlid;    /**< CNTLID, controller identifier */
	uint16_t io_queues; /**< I/O queues granted; 0 for a discovery controller */
	/** Largest transfer of one command in bytes: from MDTS and the length of a keyed SGL. */
	uint32_t max_transfer;
	/** Largest in-capsule data of an I/O command in bytes (IOCCSZ); 0: not supported. */
	uint32_t in_capsule;
	uint16_t max_queue_size; /**< entries of an I/O queue, from CAP.MQES and MAXCMD */
	bool discovery;          /**< this is a discovery controller */
	bool volatile_cache;     /**< VWC: it has a volatile write cache: Flush is needed */
	const char *address;  /**< of the target, such as "192.0.2.1:4420"; freed with the handle */
	const char *provider; /**< "iwarp" or "verbs"; static */
	const char *hostnqn;  /**< host NQN in use; freed with the handle */
	char hostid[40];      /**< host identifier in use: a UUID as text */
};

/** The function that rdinit_ctrl_info_init() calls with the size of the caller's structure. */
void rdinit_ctrl_info_init_size(struct rdinit_ctrl_info *info, size_t size);

/** @brief Initialise a struct rdinit_ctrl_info. Any thread. */
static inline void rdinit_ctrl_info_init(struct rdinit_ctrl_info *info)
{
	rdinit_ctrl_info_init_size(info, sizeof(*info));
}

/**
 * @brief Get the properties of a connected controller. Sends no command.
 * @param ctrl A connected handle.
 * @param info Receives the values. Initialise it with rdinit_ctrl_info_init().
 * @return 0; -EINVAL (@p info is not initialised), -ENOTCONN (the handle is not connected).
 */
int rdinit_ctrl_get_info(const struct rdinit_ctrl *ctrl, struct rdinit_ctrl_info *info);

/** @brief Get the host NQN of a handle in any state; NULL for NULL. Freed with the handle. */
const char *rdinit_ctrl_hostnqn(const struct rdinit_ctrl *ctrl);

/**
 * @brief Shut down the controller (CC.SHN, Base 3.6.2) and close the connection.
 *
 * Disconnect or free the queue pairs first; otherwise their commands in flight fail.
 *
 * @param ctrl The handle. A handle that is not connected is closed without a shutdown.
 * @return 0; -EINVAL (@p ctrl is NULL), -EDEADLK (called from a callback), -ETIMEDOUT (the
 *         controller did not complete the shutdown within RTD3E, at least 5 s and at most 60 s),
 *         -EIO (the controller returned an NVMe status), or the error of the connection. Except
 *         for -EINVAL and -EDEADLK the connection is closed in every case.
 */
int rdinit_ctrl_disconnect(struct rdinit_ctrl *ctrl);

/**
 * @brief Start rdinit_ctrl_disconnect() asynchronously.
 * @param ctrl The handle.
 * @param fn,user The callback and its argument.
 * @return 0; -EINVAL (@p ctrl is NULL), -EALREADY (there is nothing to disconnect: the handle was
 *         never connected, is closed already, or a disconnect is in progress).
 */
int rdinit_ctrl_disconnect_async(struct rdinit_ctrl *ctrl, rdinit_complete_fn fn, void *user);

/**
 * @brief Free a controller handle in any state.
 *
 * Closes the connection at once, without the shutdown of rdinit_ctrl_disconnect(). The callbacks of
 * operations in flight run with -ECANCELED. This function does not wait for the network.
 *
 * @param ctrl Pointer to the handle; set to NULL. NULL and a pointer to NULL are allowed.
 */
void rdinit_ctrl_free(struct rdinit_ctrl **ctrl);

/* ---- Admin commands ---- */

/**
 * @brief Send Identify (Base 5.17) with any CNS value.
 * @param ctrl A connected handle.
 * @param cns  CNS, Controller or Namespace Structure: the data structure to return.
 * @param nsid Value of the NSID field: a namespace identifier, or what this CNS value defines.
 * @param data Receives RDINIT_IDENTIFY_SIZE bytes, little-endian. Owned by the caller.
 * @return 0; -EIO (the controller returned a status, see rdinit_last_status(), for example Invalid
 *         Namespace or Format), -EINVAL (@p data is NULL), -ENOTCONN (not connected), -EDEADLK
 *         (called from a callback), -EAGAIN (the admin queue is full of commands without a time
 *         limit), -ETIMEDOUT (no completion in time), -ECONNRESET (the connection was lost),
 *         -EPROTO (the peer violated the protocol), -ENOMEM.
 */
int rdinit_identify(struct rdinit_ctrl *ctrl, uint8_t cns, uint32_t nsid, void *data);

/**
 * @brief Start rdinit_identify() asynchronously.
 * @param ctrl A connected handle.
 * @param cns,nsid As for rdinit_identify().
 * @param data As for rdinit_identify(). Belongs to the library until the callback runs.
 * @param fn,user The callback, not NULL, and its argument.
 * @return 0; -EINVAL (@p data or @p fn is NULL), -ENOTCONN (not connected), -EAGAIN (the admin
 *         queue is full: process the handle and try again), -ENOMEM.
 */
int rdinit_identify_async(struct rdinit_ctrl *ctrl, uint8_t cns, uint32_t nsid, void *data,
			  rdinit_complete_fn fn, void *user);

/**
 * @brief Send Identify Controller (CNS 01h, Base 5.17.2.1).
 * @param ctrl A connected handle.
 * @param data Receives RDINIT_IDENTIFY_SIZE bytes, as for rdinit_identify().
 * @return As rdinit_identify().
 */
int rdinit_identify_ctrl(struct rdinit_ctrl *ctrl, void *data);

/**
 * @brief Send Identify Namespace (CNS 00h, NVM 4.1.5.1).
 * @param ctrl A connected handle.
 * @param nsid Namespace identifier, from 1. For an inactive namespace the data is all zeroes.
 * @param data Receives RDINIT_IDENTIFY_SIZE bytes, as for rdinit_identify().
 * @return As rdinit_identify().
 */
int rdinit_identify_ns(struct rdinit_ctrl *ctrl, uint32_t nsid, void *data);

/**
 * @brief Read a part of the active namespace list (CNS 02h, Base 5.17.2.2).
 *
 * To read the whole list, pass the last identifier of each part as @p after of the next call. A
 * malicious controller can return more identifiers than its limits (NN, MNAN) allow: the caller has
 * to count them.
 *
 * @param ctrl  A connected handle.
 * @param after Return identifiers above this one only; 0 for the first part.
 * @param nsids Receives up to RDINIT_NS_LIST_MAX identifiers, ascending. Owned by the caller.
 * @param count Receives the number of identifiers; RDINIT_NS_LIST_MAX: there may be more.
 * @return As rdinit_identify(); also -EINVAL (@p nsids or @p count is NULL) and -EPROTO (the
 *         identifiers are not in ascending order).
 */
int rdinit_list_ns(struct rdinit_ctrl *ctrl, uint32_t after, uint32_t *nsids, unsigned int *count);

/**
 * @brief Send Get Log Page (Base 5.16).
 * @param ctrl   A connected handle.
 * @param lid    LID, log page identifier.
 * @param nsid   Namespace identifier; 0xffffffff for a log page of the controller.
 * @param offset Offset in the log page in bytes; a multiple of 4.
 * @param data   Receives @p len bytes as the controller sent them. Owned by the caller.
 * @param len    Bytes to read; a multiple of 4, from 4 to max_transfer of struct rdinit_ctrl_info.
 * @return As rdinit_identify(); also -EINVAL (@p offset or @p len is invalid) and -EMSGSIZE (on an
 *         RDMA device: more data than the bounce memory of the admin queue takes, 256 KiB).
 */
int rdinit_get_log(struct rdinit_ctrl *ctrl, uint8_t lid, uint32_t nsid, uint64_t offset,
		   void *data, uint32_t len);

/**
 * @brief Start rdinit_get_log() asynchronously.
 * @param ctrl   A connected handle.
 * @param lid,nsid,offset,len As for rdinit_get_log().
 * @param data   As for rdinit_get_log(). Belongs to the library until the callback runs.
 * @param fn,user The callback, not NULL, and its argument.
 * @return As rdinit_identify_async(); also -EMSGSIZE (as rdinit_get_log()).
 */
int rdinit_get_log_async(struct rdinit_ctrl *ctrl, uint8_t lid, uint32_t nsid, uint64_t offset,
			 void *data, uint32_t len, rdinit_complete_fn fn, void *user);

/** @brief One record of the discovery log page (Fabrics 5.3). Strings are without their padding. */
struct rdinit_discovery_record {
	uint8_t trtype;   /**< 1 RDMA, 2 FC, 3 TCP */
	uint8_t adrfam;   /**< 1 IPv4, 2 IPv6, 3 InfiniBand */
	uint8_t subtype;  /**< 1 referral, 2 NVMe subsystem, 3 current discovery subsystem */
	uint8_t treq;     /**< transport requirements: secure channel, SQ flow control */
	uint16_t portid;  /**< identifier of the port in the NVM subsystem */
	uint16_t cntlid;  /**< controller identifier; ffffh: assigned at Connect (dynamic) */
	uint16_t asqsz;   /**< largest admin queue size in entries */
	uint16_t eflags;  /**< entry flags */
	char trsvcid[33]; /**< port */
	char subnqn[257]; /**< subsystem NQN */
	/** address; a link-local one has the interface by which the log was read, as "%eth0" */
	char traddr[257];
	/* The transport-specific address subtype (RDMA 4.1); valid when trtype is 1. */
	uint8_t rdma_qptype; /**< QP service type: 1 reliable connected, 2 reliable datagram */
	uint8_t rdma_prtype; /**< provider type: 1 none, 2 InfiniBand, 3 RoCE, 4 RoCEv2, 5 iWARP */
	uint8_t rdma_cms;    /**< connection management: 1 RDMA CM */
	uint16_t rdma_pkey;  /**< InfiniBand partition key */
};

/** @brief A discovery log page. */
struct rdinit_discovery {
	uint64_t genctr; /**< generation counter: the controller changes it with the log */
	size_t count;    /**< number of records */
	struct rdinit_discovery_record *records; /**< array of @c count; freed with the log */
};

/**
 * @brief Read the whole discovery log of a discovery controller (Fabrics 5.3).
 *
 * A long log is read in several commands. If the generation counter changes in the meantime, the
 * library reads the log again, up to 10 times.
 *
 * @param ctrl A connected discovery controller.
 * @param out  Receives the log, which the caller frees with rdinit_discovery_free(); NULL on error.
 * @return As rdinit_identify(); also -EINVAL (@p out is NULL, or this is not a discovery
 *         controller), -EAGAIN (the log changed during each of the 10 attempts), -EPROTO (the log
 *         is malformed, or has more than 16384 records).
 */
int rdinit_discover(struct rdinit_ctrl *ctrl, struct rdinit_discovery **out);

/**
 * @brief Start rdinit_discover() asynchronously.
 * @param ctrl A connected discovery controller.
 * @param out  Must stay valid until the callback runs. Receives the log before @p fn is called with
 *             err 0; the caller frees it with rdinit_discovery_free().
 * @param fn,user The callback, not NULL, and its argument.
 * @return As rdinit_get_log_async(); also -EINVAL (this is not a discovery controller).
 */
int rdinit_discover_async(struct rdinit_ctrl *ctrl, struct rdinit_discovery **out,
			  rdinit_complete_fn fn, void *user);

/** @brief Free a discovery log and set @p log to NULL; NULL is allowed. Any thread. */
void rdinit_discovery_free(struct rdinit_discovery **log);

/**
 * @brief Identifier, block size and capacity of a namespace, for I/O on any queue pair.
 *
 * rdinit_ns_open() fills it in. It holds no resources: it may be copied, is never closed, and may
 * be used by several threads at the same time. It does not change when the namespace is resized.
 */
struct rdinit_ns {
	size_t size;         /**< set by rdinit_ns_init() */
	uint32_t nsid;       /**< namespace identifier */
	uint32_t block_size; /**< size of a logical block in bytes */
	uint64_t blocks;     /**< NSZE, namespace size in logical blocks */
	/**
	 * false (default): the library refuses LBAs at or above @c blocks. true: it sends the
	 * command, and the controller checks the range.
	 */
	bool unchecked;
};

/** The function that rdinit_ns_init() calls with the size of the caller's structure. */
void rdinit_ns_init_size(struct rdinit_ns *ns, size_t size);

/** @brief Initialise a struct rdinit_ns. Any thread. */
static inline void rdinit_ns_init(struct rdinit_ns *ns)
{
	rdinit_ns_init_size(ns, sizeof(*ns));
}

/**
 * @brief Read the size and the block size of a namespace with Identify Namespace.
 * @param ctrl A connected handle.
 * @param nsid Namespace identifier, from 1.
 * @param ns   Receives the values. Initialise it with rdinit_ns_init().
 * @return As rdinit_identify(); also -EINVAL (@p ns is not initialised), -ENODEV (the namespace
 *         does not exist or is inactive), -ENOTSUP (the format has metadata, or its block size is
 *         not from 512 bytes to 64 KiB).
 */
int rdinit_ns_open(struct rdinit_ctrl *ctrl, uint32_t nsid, struct rdinit_ns *ns);

/* ---- Queue pairs ---- */

/** @brief Options of an I/O queue pair. */
struct rdinit_qpair_opts {
	size_t size; /**< set by rdinit_qpair_opts_init() */
	/**
	 * Queue identifier, 1 to io_queues of struct rdinit_ctrl_info. An identifier can be in use
	 * once at a time. 0 (default): the next identifier that was not assigned this way yet.
	 */
	uint16_t qid;
	/**
	 * Entries of the queue, 2 to 1024; default 128; reduced to the limits of the controller.
	 * One command less may be in flight, two with @c auth: see rdinit_qpair_depth().
	 */
	uint16_t queue_size;
	/** In milliseconds, as in struct rdinit_ctrl_opts; 0 (default): the controller's value. */
	uint32_t connect_timeout_ms;
	/**
	 * Milliseconds to wait for the completion of each command; default 30000; 0 is invalid. A
	 * command that exceeds it ends the connection of this queue pair.
	 */
	uint32_t io_timeout_ms;
	/**
	 * verbs: bytes of bounce memory, default 8 MiB. Bounce memory is registered memory through
	 * which the library copies the data of buffers that were not registered with
	 * rdinit_mem_register(); one command can use up to 1 MiB of it. 0: none; then every buffer
	 * must be registered. The iwarp provider needs and allocates none.
	 */
	size_t bounce_bytes;
};

/** The function that rdinit_qpair_opts_init() calls with the size of the caller's structure. */
void rdinit_qpair_opts_init_size(struct rdinit_qpair_opts *opts, size_t size);

/** @brief Initialise a struct rdinit_qpair_opts with the default values. Any thread. */
static inline void rdinit_qpair_opts_init(struct rdinit_qpair_opts *opts)
{
	rdinit_qpair_opts_init_size(opts, sizeof(*opts));
}

/**
 * @brief Create a queue pair handle. Performs no I/O.
 * @param ctrl A connected controller, not a discovery controller. Call this function on the thread
 *             of the controller. The queue pair copies what it needs from the handle.
 * @param opts Initialised with rdinit_qpair_opts_init(), or NULL for the defaults. Owned by the
 *             caller, not used after return.
 * @param out  Receives the handle, which the caller frees with rdinit_qpair_free(); NULL on error.
 * @return 0; -ENOTCONN (the controller is not connected), -EINVAL (an option is out of range, or
 *         this is a discovery controller), -ENOSPC (qid is 0 and all granted queue identifiers have
 *         been assigned), -ENOMEM, -EMFILE or -ENFILE (too many open files).
 */
int rdinit_qpair_create(struct rdinit_ctrl *ctrl, const struct rdinit_qpair_opts *opts,
			struct rdinit_qpair **out);

/**
 * @brief Connect the queue pair (Fabrics 3.3). It has a transport connection of its own.
 * @param qpair A new handle. A handle connects once: to connect again, create a new handle.
 * @return As rdinit_ctrl_connect().
 */
int rdinit_qpair_connect(struct rdinit_qpair *qpair);

/**
 * @brief Start rdinit_qpair_connect() asynchronously.
 * @param qpair A new handle.
 * @param fn,user The callback and its argument.
 * @return 0; -EINVAL (the handle is not new), -ENOMEM, or an errno value of the first connection
 *         attempt. Later errors go to @p fn.
 */
int rdinit_qpair_connect_async(struct rdinit_qpair *qpair, rdinit_complete_fn fn, void *user);

/** @brief Get the descriptor to wait on: as rdinit_ctrl_fd(), for rdinit_qpair_process(). */
int rdinit_qpair_fd(const struct rdinit_qpair *qpair);

/**
 * @brief Process the handle: send submitted commands, receive, check timeouts, run callbacks.
 * @param qpair      The handle.
 * @param timeout_ms As for rdinit_ctrl_process(), in milliseconds.
 * @return As rdinit_ctrl_process().
 */
int rdinit_qpair_process(struct rdinit_qpair *qpair, int timeout_ms);

/** @brief Get the largest number of commands that may be in flight; 0 when not connected. */
unsigned int rdinit_qpair_depth(const struct rdinit_qpair *qpair);

/** @brief Get the number of the application's commands whose callback has not run yet. */
unsigned int rdinit_qpair_inflight(const struct rdinit_qpair *qpair);

/** @brief Get the queue identifier, from 1; 0 when @p qpair is NULL. */
uint16_t rdinit_qpair_id(const struct rdinit_qpair *qpair);

/**
 * @brief Close the connection of a queue pair.
 *
 * Wait for the commands in flight first. Otherwise their callbacks run with -ENOTCONN, and it is
 * unknown whether the controller executed the commands.
 *
 * @param qpair The handle.
 * @return 0; -EINVAL (@p qpair is NULL), -EDEADLK (called from a callback).
 */
int rdinit_qpair_disconnect(struct rdinit_qpair *qpair);

/**
 * @brief Free a queue pair in any state, as rdinit_ctrl_free(), and unregister its buffers.
 * @param qpair Pointer to the handle; set to NULL. NULL and a pointer to NULL are allowed.
 */
void rdinit_qpair_free(struct rdinit_qpair **qpair);

/* ---- I/O ---- */

/**
 * @brief Register a buffer for repeated use by I/O on this queue pair.
 *
 * With the verbs provider this avoids the copy through bounce memory; the target has access to the
 * whole buffer until rdinit_mem_unregister(). With the iwarp provider it has no effect: each
 * command registers its own data, so the target has access only while that command runs.
 *
 * @param qpair A connected handle.
 * @param addr  Start of the buffer. Owned by the caller; must stay mapped until
 *              rdinit_mem_unregister() or rdinit_qpair_free().
 * @param len   Size of the buffer in bytes.
 * @return 0; -EINVAL (the buffer is empty or overlaps a registered one), -ENOTCONN (not connected),
 *         -ENOMEM (out of memory, or above the memlock limit, see ulimit -l), or another errno
 *         value of the RDMA device.
 */
int rdinit_mem_register(struct rdinit_qpair *qpair, void *addr, size_t len);

/**
 * @brief Unregister a buffer.
 * @param qpair The handle.
 * @param addr  Start of the buffer as passed to rdinit_mem_register().
 * @return 0; -ENOENT (no buffer is registered at @p addr), -EBUSY (a command in flight uses it).
 */
int rdinit_mem_unregister(struct rdinit_qpair *qpair, void *addr);

/** Force Unit Access: the command completes when the data is on non-volatile media. */
#define RDINIT_IO_FUA 0x1u

/**
 * @brief Read logical blocks (NVM 3.2.4).
 * @param qpair   A connected handle.
 * @param ns      The namespace, from rdinit_ns_open(). Owned by the caller.
 * @param lba     First logical block.
 * @param nblocks Number of logical blocks, 1 to 65536. nblocks * ns->block_size must not exceed
 *                max_transfer of struct rdinit_ctrl_info.
 * @param buf     Receives nblocks * ns->block_size bytes. Owned by the caller. Any alignment.
 * @param flags   0 or RDINIT_IO_FUA.
 * @return 0; -EINVAL (a range beyond the end of the namespace, too many blocks, an unknown flag, a
 *         NULL buffer, or @p ns not opened), -ENOTCONN (not connected), -EDEADLK (called from a
 *         callback), -EAGAIN (the queue is full of commands without a time limit), -EMSGSIZE (on an
 *         RDMA device: the buffer is not registered and larger than bounce memory takes, see
 *         bounce_bytes), -ENOMEM; or an @c err of struct rdinit_completion.
 */
int rdinit_read(struct rdinit_qpair *qpair, const struct rdinit_ns *ns, uint64_t lba,
		uint32_t nblocks, void *buf, unsigned int flags);

/**
 * @brief Start rdinit_read() asynchronously.
 * @param qpair   A connected handle.
 * @param ns      As for rdinit_read(). Not used after return.
 * @param lba,nblocks,flags As for rdinit_read().
 * @param buf     As for rdinit_read(). Belongs to the library until the callback runs.
 * @param fn,user The callback, not NULL, and its argument.
 * @return 0; -EAGAIN (the queue or its bounce memory is full: process the handle and try again);
 *         -EINVAL, -ENOTCONN, -EMSGSIZE or -ENOMEM as rdinit_read().
 */
int rdinit_read_async(struct rdinit_qpair *qpair, const struct rdinit_ns *ns, uint64_t lba,
		      uint32_t nblocks, void *buf, unsigned int flags, rdinit_complete_fn fn,
		      void *user);

/**
 * @brief Write logical blocks (NVM 3.2.6).
 * @param qpair   A connected handle.
 * @param ns,lba,nblocks As for rdinit_read().
 * @param buf     nblocks * ns->block_size bytes to write. Owned by the caller; the library does not
 *                change it. Any alignment.
 * @param flags   0 or RDINIT_IO_FUA.
 * @return As rdinit_read().
 */
int rdinit_write(struct rdinit_qpair *qpair, const struct rdinit_ns *ns, uint64_t lba,
		 uint32_t nblocks, const void *buf, unsigned int flags);

/**
 * @brief Start rdinit_write() asynchronously.
 * @param qpair   A connected handle.
 * @param ns      As for rdinit_write(). Not used after return.
 * @param lba,nblocks,flags As for rdinit_write().
 * @param buf     As for rdinit_write(). Belongs to the library until the callback runs: it must not
 *                change before that.
 * @param fn,user The callback, not NULL, and its argument.
 * @return As rdinit_read_async().
 */
int rdinit_write_async(struct rdinit_qpair *qpair, const struct rdinit_ns *ns, uint64_t lba,
		       uint32_t nblocks, const void *buf, unsigned int flags, rdinit_complete_fn fn,
		       void *user);

/**
 * @brief Send Flush (Base 7.1).
 *
 * When it succeeds, the data of all writes to the namespace that completed before the Flush was
 * submitted, on any queue, is on non-volatile media.
 *
 * @param qpair A connected handle.
 * @param ns    The namespace, from rdinit_ns_open().
 * @return As rdinit_read().
 */
int rdinit_flush(struct rdinit_qpair *qpair, const struct rdinit_ns *ns);

/**
 * @brief Start rdinit_flush() asynchronously.
 * @param qpair A connected handle.
 * @param ns    As for rdinit_flush(). Not used after return.
 * @param fn,user The callback, not NULL, and its argument.
 * @return As rdinit_read_async().
 */
int rdinit_flush_async(struct rdinit_qpair *qpair, const struct rdinit_ns *ns,
		       rdinit_complete_fn fn, void *user);

/* ---- Passthru: any other command ---- */

/** The data is sent to the controller. Without this flag the data is received from it. */
#define RDINIT_PASSTHRU_WRITE 0x1u
/** Always use a keyed SGL descriptor; never send the data in the command capsule. */
#define RDINIT_PASSTHRU_KEYED 0x2u
/**
 * Send byte 1 (FUSE, PSDT) and the SGL descriptor (bytes 24 to 39) unchanged from @c sqe; the
 * library fills in the command identifier only. The command cannot have data: @c data must be NULL.
 */
#define RDINIT_PASSTHRU_AS_IS 0x4u

/**
 * @brief A command whose submission queue entry the caller has filled in.
 *
 * The library sets the command identifier, PSDT and the SGL descriptor, and sends all other fields
 * unchanged. It checks only that it can describe the data buffer: it does not check what the
 * command does or whether the controller allows it.
 */
struct rdinit_passthru {
	size_t size; /**< set by rdinit_passthru_init() */
	/** The submission queue entry as on the wire: little-endian (Base 3.3.3.1). */
	uint8_t sqe[64];
	void *data;          /**< NULL: no data; else it belongs to the library until completion */
	uint32_t len;        /**< size of @c data in bytes, 1 to 16777215; 0: no data */
	uint32_t flags;      /**< RDINIT_PASSTHRU_* */
	uint32_t timeout_ms; /**< milliseconds; 0: the handle's timeout; UINT32_MAX: no timeout */
};

/** The function that rdinit_passthru_init() calls with the size of the caller's structure. */
void rdinit_passthru_init_size(struct rdinit_passthru *cmd, size_t size);

/** @brief Initialise a struct rdinit_passthru: all zero, without data. Any thread. */
static inline void rdinit_passthru_init(struct rdinit_passthru *cmd)
{
	rdinit_passthru_init_size(cmd, sizeof(*cmd));
}

/**
 * @brief Send an admin or Fabrics command and wait for its completion.
 * @param ctrl   A connected handle.
 * @param cmd    The command. Owned by the caller. With RDINIT_PASSTHRU_WRITE the library does not
 *               change the data.
 * @param result Receives dwords 0 and 1 of the completion as in struct rdinit_completion, also when
 *               this function returns -EIO. May be NULL.
 * @return 0; -EIO (the controller returned a status, see rdinit_last_status()), -EINVAL (@p cmd is
 *         not initialised, has an unknown flag, or data and len do not match), -ENOTCONN (not
 *         connected), -EDEADLK (called from a callback), -EAGAIN (the queue is full of commands
 *         without a time limit), -EMSGSIZE (on an RDMA device: the data is larger than bounce
 *         memory takes), -ENOMEM; or an @c err of struct rdinit_completion.
 */
int rdinit_admin_passthru(struct rdinit_ctrl *ctrl, const struct rdinit_passthru *cmd,
			  uint64_t *result);

/**
 * @brief Start rdinit_admin_passthru() asynchronously.
 * @param ctrl A connected handle.
 * @param cmd  As for rdinit_admin_passthru(). Not used after return, but its data belongs to the
 *             library until the callback runs.
 * @param cid  Receives the command identifier (CID), for an Abort command; valid until the callback
 *             runs. May be NULL.
 * @param fn,user The callback, not NULL, and its argument.
 * @return 0; -EAGAIN (the queue or its bounce memory is full: process the handle and try again);
 *         -EINVAL, -ENOTCONN, -EMSGSIZE or -ENOMEM as rdinit_admin_passthru().
 */
int rdinit_admin_passthru_async(struct rdinit_ctrl *ctrl, const struct rdinit_passthru *cmd,
				uint16_t *cid, rdinit_complete_fn fn, void *user);

/**
 * @brief Send an I/O command and wait for its completion.
 * @param qpair  A connected handle.
 * @param cmd,result As for rdinit_admin_passthru().
 * @return As rdinit_admin_passthru().
 */
int rdinit_io_passthru(struct rdinit_qpair *qpair, const struct rdinit_passthru *cmd,
		       uint64_t *result);

/**
 * @brief Start rdinit_io_passthru() asynchronously.
 * @param qpair A connected handle.
 * @param cmd,cid,fn,user As for rdinit_admin_passthru_async().
 * @return As rdinit_admin_passthru_async().
 */
int rdinit_io_passthru_async(struct rdinit_qpair *qpair, const struct rdinit_passthru *cmd,
			     uint16_t *cid, rdinit_complete_fn fn, void *user);

/**
 * @brief Send two I/O commands in adjacent queue entries as a fused operation (Base 3.4.2).
 *
 * The library sends both commands or neither, and sets FUSE to "first" and "second". Each command
 * has a callback of its own.
 *
 * @param qpair  A connected handle.
 * @param first,second The two commands, as for rdinit_admin_passthru_async().
 * @param fn     Called once for each of the two commands, if this function returns 0. Not NULL.
 * @param user1,user2 Passed to @p fn for the first and for the second command.
 * @return As rdinit_io_passthru_async(); -EAGAIN when the queue has no room for both commands.
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
