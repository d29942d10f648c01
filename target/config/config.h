/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdtarget's configuration: the structures libcyaml fills (schema in config_schema.c), checked and
 * completed by rdt_config_load(). Read-only once loaded.
 */
#ifndef RDT_CONFIG_H
#define RDT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/log.h"

enum rdt_provider { RDT_PROVIDER_AUTO, RDT_PROVIDER_IWARP, RDT_PROVIDER_VERBS };
enum rdt_backend_type { RDT_BACKEND_FILE, RDT_BACKEND_BLOCK, RDT_BACKEND_MEMORY, RDT_BACKEND_NULL };
enum rdt_engine_type { RDT_ENGINE_IO_URING, RDT_ENGINE_AIO };
enum rdt_deallocate {
	RDT_DEALLOCATE_AUTO,
	RDT_DEALLOCATE_ZERO,    /* zeroes that the device need not store */
	RDT_DEALLOCATE_DISCARD, /* contents are not defined afterwards */
	RDT_DEALLOCATE_OFF,
};
enum rdt_direct { RDT_DIRECT_AUTO, RDT_DIRECT_ON, RDT_DIRECT_OFF };

/* Values of enum nvme_ana_state, and with the same meaning. */
enum rdt_ana_state_config {
	RDT_ANA_OPTIMIZED = 0x1,
	RDT_ANA_NON_OPTIMIZED = 0x2,
	RDT_ANA_INACCESSIBLE = 0x3,
	RDT_ANA_PERSISTENT_LOSS = 0x4,
	RDT_ANA_CHANGE = 0xf,
};

struct rdt_ana_config { /* of one group, on one listener */
	uint32_t group;
	enum rdt_ana_state_config state;
};

struct rdt_listener_config {
	const char *address; /* numeric, or 0.0.0.0 or :: */
	uint16_t port;       /* default 4420; 0: any free one, logged */
	enum rdt_provider provider;
	bool crc;                   /* iwarp: ask peers for CRC32C */
	const char *congestion;     /* iwarp: TCP congestion control; NULL: the target's */
	const char *send_buffer;    /* iwarp: SO_SNDBUF; NULL: the kernel's choice */
	const char *receive_buffer; /* iwarp: SO_RCVBUF; NULL: the kernel's choice */
	bool send_with_inv;         /* verbs: where the device can; default true */
	bool inline_sends;          /* verbs: where the device can; default true */
	struct rdt_ana_config *ana; /* groups that are not listed are optimized */
	uint32_t ana_count;

	/* filled by rdt_config_load(); 0: not given */
	uint32_t send_buffer_bytes;
	uint32_t receive_buffer_bytes;
};

enum rdt_qos_limit {
	RDT_QOS_IOPS,
	RDT_QOS_READ_IOPS,
	RDT_QOS_WRITE_IOPS,
	RDT_QOS_BYTES,
	RDT_QOS_READ_BYTES,
	RDT_QOS_WRITE_BYTES,
	RDT_QOS_LIMITS,
};

struct rdt_qos_config { /* per second; what is not given is not limited */
	uint64_t iops;
	uint64_t read_iops;
	uint64_t write_iops;
	const char *bandwidth; /* sizes */
	const char *read_bandwidth;
	const char *write_bandwidth;

	/* filled by rdt_config_load() */
	uint64_t limits[RDT_QOS_LIMITS]; /* 0: none */
};

struct rdt_host_qos_config {
	const char *host;
	struct rdt_qos_config limits;
};

enum rdt_layer_type { RDT_LAYER_DELAY, RDT_LAYER_ERROR };

struct rdt_layer_config {
	enum rdt_layer_type type;
	/* delay: durations */
	const char *read;
	const char *write;
	const char *flush;
	const char *write_zeroes;
	const char *deallocate;
	/* error */
	int *ops; /* enum rdt_bio_op; none: all */
	uint32_t ops_count;
	const char *rate;     /* percent; default 100% */
	uint32_t skip;        /* so many go well first */
	uint32_t count;       /* so many fail; 0: no limit */
	const char *error;    /* name of an errno; default EIO */
	uint32_t status;      /* or the NVMe status, SCT << 8 | SC; 0: what the errno means */
	const char *trigger;  /* only while this file exists */
	uint64_t first_block; /* only these blocks */
	uint64_t blocks;      /* 0: all */

	/* filled by rdt_config_load() */
	uint64_t delay_ns[5]; /* by enum rdt_bio_op */
	uint32_t ops_mask;
	uint64_t rate_of_2_32;
	int errno_value;
};

struct rdt_ns_config {
	uint32_t nsid;
	enum rdt_backend_type backend;
	const char *path;    /* file, block */
	const char *size;    /* as written; file with create, memory, null */
	bool create;         /* file: make it when missing */
	uint32_t block_size; /* 512 or 4096 */
	enum rdt_engine_type engine;
	enum rdt_direct direct;
	bool iopoll; /* file, block with io_uring: look for results, where the device lets us */
	enum rdt_deallocate deallocate; /* block */
	bool read_only;
	const char
		*uuid; /* text; never NULL after loading: made from NQN and NSID when not given */
	const char *nguid;               /* 32 hexadecimal digits, or NULL */
	const char *eui64;               /* 16 hexadecimal digits, or NULL */
	struct rdt_qos_config *qos;      /* NULL: no limits */
	struct rdt_layer_config *layers; /* the first one is met first */
	uint32_t layers_count;
	uint32_t ana_group; /* default 1 */
	const char **hosts; /* NQNs that see it; none: all that may use the subsystem */
	uint32_t hosts_count;

	/* filled by rdt_config_load() */
	uint64_t size_bytes; /* 0: the file's or device's own */
	uint8_t uuid_bytes[16];
	uint8_t nguid_bytes[16];
	uint8_t eui64_bytes[8];
};

/* When a host makes another controller through the same listener. */
enum rdt_duplicate_host { RDT_DUPLICATE_ALLOW, RDT_DUPLICATE_REPLACE, RDT_DUPLICATE_REFUSE };

/* What hosts may do to all others of their subsystem. */
enum rdt_reservations { RDT_RESERVATIONS_ON, RDT_RESERVATIONS_OFF };
enum rdt_wp_setting { RDT_WP_UNTIL_RESET, RDT_WP_OFF, RDT_WP_ALL };

struct rdt_subsys_config {
	const char *nqn;
	const char *serial; /* <= 20 ASCII; never NULL after loading: made from the NQN when not
			       given */
	const char *model;  /* <= 40 ASCII; never NULL after loading */
	bool allow_any_host;
	const char **hosts; /* NQNs allowed when allow_any_host is false */
	uint32_t hosts_count;
	uint32_t cntlid_min; /* controllers get IDs of this range; default 1 to 65519 */
	uint32_t cntlid_max;
	enum rdt_duplicate_host duplicate_host;
	enum rdt_reservations reservations;
	enum rdt_wp_setting write_protect;
	struct rdt_host_qos_config *host_qos;
	uint32_t host_qos_count;
	struct rdt_ns_config *namespaces; /* by NSID, once loaded */
	uint32_t namespaces_count;
};

struct rdt_referral_config { /* another discovery service */
	const char *address;
	uint16_t port; /* default 4420 */
};

struct rdt_limits_config { /* each at least 1 */
	uint32_t connections;
	uint32_t connections_per_host;
	uint32_t connections_per_address;
	uint32_t controllers;
	uint32_t controllers_per_host;
	uint32_t controllers_per_address;
	uint32_t unconnected; /* connections without a Connect so far */
	uint32_t unconnected_per_address;
	uint32_t half_open; /* iwarp, of each listener: without an MPA request so far */
};
#define RDT_LIMITS_DEFAULT                        \
	((struct rdt_limits_config){              \
		.connections = 65536,             \
		.connections_per_host = 16384,    \
		.connections_per_address = 32768, \
		.controllers = 16384,             \
		.controllers_per_host = 1024,     \
		.controllers_per_address = 8192,  \
		.unconnected = 1024,              \
		.unconnected_per_address = 512,   \
		.half_open = 1024,                \
	})

struct rdt_target_config {
	uint32_t reactors; /* >= 1; default 2 */
	uint32_t *cpus;    /* of each reactor; none: where the kernel puts it */
	uint32_t cpus_count;
	uint32_t queue_depth;        /* entries of an I/O queue, 16..1024; default 128 */
	uint32_t io_queues;          /* I/O queues for each controller; default 128 */
	const char *max_data_size;   /* MDTS, power of two >= 4 KiB; default 1MiB */
	const char *in_capsule_size; /* default 8KiB; 0 to 64KiB, multiple of 16 */
	const char *buffer_memory;   /* slab of each reactor; default 32MiB */
	const char *capsule_memory;  /* where commands arrive, of each reactor; default 32MiB */
	const char *spin;            /* busy polling after work; default 50us */
	const char *congestion;      /* TCP congestion control of iwarp sockets, or NULL */
	const char *peer_timeout;    /* iwarp: until a silent machine is given up; default 60s */
	const char *drain_timeout;   /* how long SIGTERM waits for I/O in flight; default 10s */
	uint32_t sgl_descriptors;    /* keyed descriptors of a command, 1..64; default 16 */
	uint32_t engine_depth;       /* I/Os in the kernel per reactor; default 256 */
	const char *sqpoll;          /* a kernel thread submits, and polls so long; default 0 */
	uint32_t *sqpoll_cpus;       /* of each reactor's; none: where the kernel puts it */
	uint32_t sqpoll_cpus_count;
	const char *state_dir;    /* what outlives the daemon, or NULL */
	uint32_t state_times;     /* one I/O command of so many is timed; 0: none; default 64 */
	bool state_times_at_exit; /* log the times at the end */
	struct rdt_limits_config limits;

	/* filled by rdt_config_load() */
	uint32_t max_data_bytes;
	uint32_t in_capsule_bytes;
	uint64_t buffer_bytes;
	uint64_t capsule_bytes;
	uint64_t spin_ns;
	uint64_t sqpoll_ns; /* whole ms; 0: no such thread */
	uint64_t drain_timeout_ns;
	uint64_t peer_timeout_ns; /* 0: never */
};

struct rdt_config {
	struct rdt_target_config target;
	const char **include; /* other files, with more of what follows */
	uint32_t include_count;
	struct rdt_listener_config *listeners;
	uint32_t listeners_count;
	struct rdt_subsys_config *subsystems;
	uint32_t subsystems_count;
	struct rdt_referral_config *referrals;
	uint32_t referrals_count;

	/* Objects keep what they were made from. 0: not loaded, and never freed. */
	unsigned int refs;
};

/*
 * Load and check @path, and what it includes. Every problem is logged as "file:line: key: what was
 * found, what was expected"; loading goes on after the first one where that is possible. Opens no
 * namespace. Any thread. Returns 0, with a reference in @out, or -errno (-EINVAL: the contents).
 */
int rdt_config_load(const char *path, struct rd_log *log, struct rdt_config **out);
bool rdt_config_same_text(const char *a, const char *b); /* NULL is a value too */
bool rdt_config_listed(const char *const *list, uint32_t count, const char *text);
bool rdt_config_same_list(const char *const *a, uint32_t a_count, const char *const *b,
			  uint32_t b_count); /* order does not matter */

/* What a file is, by whatever name: links lead to the same one. */
struct rdt_file_id {
	uint64_t kind; /* 0: it is not there (yet), and only its path is known */
	uint64_t dev;
	uint64_t ino;
};

struct rdt_file_id rdt_file_identify(const char *path);
int rdt_file_compare(const struct rdt_file_id *a, const char *a_path, const struct rdt_file_id *b,
		     const char *b_path);

/* References, taken and put by one thread; the last one frees. NULL is fine. */
struct rdt_config *rdt_config_get(struct rdt_config *config);
void rdt_config_put(struct rdt_config **config);

#endif /* RDT_CONFIG_H */
