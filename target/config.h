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
enum rdt_direct { RDT_DIRECT_AUTO, RDT_DIRECT_ON, RDT_DIRECT_OFF };

struct rdt_listener_config {
	const char *address; /* numeric, or 0.0.0.0 or :: */
	uint16_t port;       /* default 4420; 0: any free one, logged */
	enum rdt_provider provider;
	bool crc;           /* iwarp: ask peers for CRC32C */
	bool send_with_inv; /* verbs: where the device can; default true */
	bool inline_sends;  /* verbs: where the device can; default true */
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
	bool read_only;
	const char
		*uuid; /* text; never NULL after loading: made from NQN and NSID when not given */
	const char *nguid; /* 32 hexadecimal digits, or NULL */
	const char *eui64; /* 16 hexadecimal digits, or NULL */

	/* filled by rdt_config_load() */
	uint64_t size_bytes; /* 0: the file's or device's own */
	uint8_t uuid_bytes[16];
	uint8_t nguid_bytes[16];
	uint8_t eui64_bytes[8];
};

struct rdt_subsys_config {
	const char *nqn;
	const char *serial; /* <= 20 ASCII; never NULL after loading: made from the NQN when not
			       given */
	const char *model;  /* <= 40 ASCII; never NULL after loading */
	bool allow_any_host;
	const char **hosts; /* NQNs allowed when allow_any_host is false */
	uint32_t hosts_count;
	struct rdt_ns_config *namespaces;
	uint32_t namespaces_count;
};

struct rdt_target_config {
	uint32_t reactors;           /* >= 1; default 2 */
	uint32_t queue_depth;        /* entries of an I/O queue, 16..1024; default 128 */
	uint32_t io_queues;          /* I/O queues for each controller; default 128 */
	const char *max_data_size;   /* MDTS, power of two >= 4 KiB; default 1MiB */
	const char *in_capsule_size; /* default 8KiB; 0 to 64KiB, multiple of 16 */
	const char *buffer_memory;   /* slab of each reactor; default 32MiB */
	const char *spin;            /* busy polling after work; default 20us */
	const char *congestion;      /* TCP congestion control of iwarp sockets, or NULL */
	const char *drain_timeout;   /* how long SIGTERM waits for I/O in flight; default 10s */
	uint32_t engine_depth;       /* I/Os in the kernel per reactor; default 256 */

	/* filled by rdt_config_load() */
	uint32_t max_data_bytes;
	uint32_t in_capsule_bytes;
	uint64_t buffer_bytes;
	uint64_t spin_ns;
	uint64_t drain_timeout_ns;
};

struct rdt_config {
	struct rdt_target_config target;
	struct rdt_listener_config *listeners;
	uint32_t listeners_count;
	struct rdt_subsys_config *subsystems;
	uint32_t subsystems_count;
};

/*
 * Load and check @path. Every problem is logged as "file:line: key: what was found, what was
 * expected"; loading goes on after the first one where that is possible. Opens no namespace.
 * Returns 0 or -errno (-EINVAL: the file's contents).
 */
int rdt_config_load(const char *path, struct rd_log *log, struct rdt_config **out);
void rdt_config_free(struct rdt_config **config);

#endif /* RDT_CONFIG_H */
