/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration of rdtarget: structures described by the rows of the keys (keys.h), validated
 * and completed by rdt_config_load(). Read-only after loading. */
#ifndef RDT_CONFIG_H
#define RDT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/log.h"
#include "nvmf/auth_key.h"
#include "bio_op.h"

enum rdt_provider { RDT_PROVIDER_AUTO, RDT_PROVIDER_IWARP, RDT_PROVIDER_VERBS };
enum rdt_backend_type {
	RDT_BACKEND_FILE,
	RDT_BACKEND_BLOCK,
	RDT_BACKEND_MEMORY,
	RDT_BACKEND_NULL,
	RDT_BACKEND_RBD,
	RDT_BACKEND_NBD,
	RDT_BACKENDS, /* how many there are */
};
enum rdt_engine_type { RDT_ENGINE_AUTO, RDT_ENGINE_IO_URING, RDT_ENGINE_AIO };
enum rdt_deallocate {
	RDT_DEALLOCATE_AUTO,
	RDT_DEALLOCATE_ZERO,    /* DEALLOCATE with zeroes, which the device need not store */
	RDT_DEALLOCATE_DISCARD, /* DEALLOCATE with undefined contents afterwards */
	RDT_DEALLOCATE_OFF,
};
enum rdt_direct { RDT_DIRECT_AUTO, RDT_DIRECT_ON, RDT_DIRECT_OFF };

/* With the values and meaning of enum nvme_ana_state. */
enum rdt_ana_state_config {
	RDT_ANA_OPTIMIZED = 0x1,
	RDT_ANA_NON_OPTIMIZED = 0x2,
	RDT_ANA_INACCESSIBLE = 0x3,
	RDT_ANA_PERSISTENT_LOSS = 0x4,
	RDT_ANA_CHANGE = 0xf,
};

struct rdt_ana_config { /* ANA state of one group on one listener */
	uint32_t group;
	enum rdt_ana_state_config state;
};

/* Kinds of transports: index in the tables of a target and of its reactors. */
enum rdt_transport_kind { RDT_TRANSPORT_RDMA, RDT_TRANSPORT_TCP };

/* The transports whose listeners the discovery log shows for a subsystem or to a host. */
enum rdt_disc_shown {
	RDT_SHOW_ALL,
	RDT_SHOW_RDMA = 1 + RDT_TRANSPORT_RDMA,
	RDT_SHOW_TCP = 1 + RDT_TRANSPORT_TCP,
	RDT_SHOWN /* how many there are */
};

/* NVMe/TCP: whether connections begin with TLS. */
enum rdt_tls_setting { RDT_TLS_OFF, RDT_TLS_ALLOWED, RDT_TLS_REQUIRED };

struct rdt_listener_config {
	enum rdt_transport_kind transport;
	const char *address; /* numeric address; 0.0.0.0 and :: are wildcards */
	uint16_t port;       /* 0: any free port */
	enum rdt_provider provider;
	bool crc;                   /* iwarp: request CRC32C from peers */
	const char *congestion;     /* iwarp, tcp: congestion control; NULL: target.congestion */
	const char *send_buffer;    /* iwarp, tcp: SO_SNDBUF; NULL: the kernel's choice */
	const char *receive_buffer; /* iwarp, tcp: SO_RCVBUF; NULL: the kernel's choice */
	enum rdt_tls_setting tls;   /* tcp */
	bool send_with_inv;         /* verbs: where the device supports it */
	bool inline_sends;          /* verbs: where the device supports them */
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

struct rdt_qos_config { /* per second; an absent limit means unlimited */
	uint64_t iops;
	uint64_t read_iops;
	uint64_t write_iops;
	const char *bandwidth; /* sizes such as 100M */
	const char *read_bandwidth;
	const char *write_bandwidth;

	/* filled by rdt_config_load() */
	uint64_t limits[RDT_QOS_LIMITS]; /* 0: none */
};

struct rdt_host_qos_config {
	const char *host;
	struct rdt_qos_config limits;
};

/* Who must authenticate (DH-HMAC-CHAP): the hosts that have a key, or all. */
enum rdt_auth_setting { RDT_AUTH_OPTIONAL, RDT_AUTH_REQUIRED };

#define RDT_AUTH_HASHES 3
#define RDT_AUTH_GROUPS 6

struct rdt_host_auth_config { /* authentication of one host; at least one of the first two key files
			       */
	const char *host;
	/* paths; without a slash, names of systemd credentials */
	const char *dhchap_key_file;      /* NULL: no DH-HMAC-CHAP */
	const char *tls_key_file;         /* NULL: no TLS */
	const char *dhchap_ctrl_key_file; /* NULL: the controller cannot authenticate itself */
	int *dhchap_hashes;               /* enum nvmf_auth_hash, the preferred one first */
	uint32_t dhchap_hashes_count;     /* 0: all */
	int *dhchap_dhgroups;             /* enum nvmf_auth_group, the preferred one first */
	uint32_t dhchap_dhgroups_count;   /* 0: all but the null group */

	/* filled by rdt_config_load() */
	const struct nvmf_auth_key *key;      /* in config->secrets; NULL: none */
	const struct nvmf_auth_key *ctrl_key; /* NULL: none */
	const struct nvmf_auth_key *tls_key;  /* NULL: none */
	uint8_t n_hashes;
	uint8_t n_groups;
	uint8_t hashes[RDT_AUTH_HASHES];
	uint8_t groups[RDT_AUTH_GROUPS];
};

enum rdt_layer_type { RDT_LAYER_DELAY, RDT_LAYER_ERROR };

struct rdt_layer_config {
	enum rdt_layer_type type;
	/* layer delay: durations */
	const char *read;
	const char *write;
	const char *flush;
	const char *write_zeroes;
	const char *deallocate;
	/* layer error */
	int *ops; /* enum rdt_bio_op; none: all */
	uint32_t ops_count;
	const char *rate; /* percent; default 100% */
	uint32_t skip;    /* this many operations succeed first */
	uint32_t count;   /* then this many fail; 0: no limit */
	/* the NVMe status instead, SCT << 8 | SC; 0: derived from the errno */
	uint32_t status;
	const char *trigger;  /* active only while this file exists */
	uint64_t first_block; /* only operations that touch these blocks */
	uint64_t blocks;      /* 0: all */

	/* filled by rdt_config_load() */
	uint64_t delay_ns[RDT_BIO_OPS];
	uint32_t ops_mask;
	uint64_t rate_of_2_32;
	int errno_value;
};

/* A Ceph cluster, for namespaces with backend rbd. All of them share one connection to it. */
struct rdt_ceph_config {
	const char *name;
	const char *conf;     /* path of its ceph.conf; NULL: Ceph's own search */
	const char *user;     /* without "client."; default admin */
	const char *keyring;  /* path; NULL: as ceph.conf says */
	const char **options; /* "NAME=VALUE" of Ceph, over those of ceph.conf */
	uint32_t options_count;
	/* s: a gateway that does not respond for so long loses its locks; never 0 after loading */
	uint32_t takeover;
};
#define RDT_CEPH_TAKEOVER     3u /* default */
#define RDT_CEPH_TAKEOVER_MIN 3u
#define RDT_CEPH_TAKEOVER_MAX 60u

enum rdt_rbd_lock {
	RDT_RBD_LOCK_AUTO,      /* the client that writes takes it, as by Ceph's default */
	RDT_RBD_LOCK_EXCLUSIVE, /* held while the image is open */
};

enum rdt_rbd_encryption {
	RDT_RBD_ENCRYPTION_NONE,
	RDT_RBD_ENCRYPTION_LUKS1,
	RDT_RBD_ENCRYPTION_LUKS2,
};

struct rdt_rbd_config {      /* a Ceph RBD image */
	const char *cluster; /* name in ceph; NULL: the only one */
	const char *pool;
	const char *rados_namespace; /* NULL: none */
	const char *image;
	const char *snapshot; /* NULL: the image itself */
	enum rdt_rbd_lock lock;
	enum rdt_rbd_encryption encryption;
	const char *encryption_key_file; /* passphrase; NULL: no encryption */
	bool cache;                      /* librbd's cache; not with gateways */

	/* filled by rdt_config_load() */
	const struct rdt_ceph_config *of; /* NULL: Ceph's defaults */
};

struct rdt_ns_config {
	uint32_t nsid;
	enum rdt_backend_type backend;
	const char *path;    /* file, block */
	const char *size;    /* as in the configuration; for file with create, memory and null */
	bool create;         /* file: create it when it is missing */
	uint32_t block_size; /* 512 or 4096 */
	enum rdt_engine_type engine;
	enum rdt_direct direct;
	/* file, block with io_uring: poll for completions where the device supports it */
	bool iopoll;
	enum rdt_deallocate deallocate; /* block */
	bool read_only;
	const char *uri;                 /* nbd: nbd://HOST[:PORT]/EXPORT and others of libnbd */
	struct rdt_rbd_config *rbd;      /* rbd: never NULL after loading */
	const char *uuid;                /* text, or NULL */
	const char *nguid;               /* 32 hexadecimal digits, or NULL */
	const char *eui64;               /* 16 hexadecimal digits, or NULL */
	struct rdt_qos_config *qos;      /* NULL: no limits */
	struct rdt_layer_config *layers; /* the first one is the top */
	uint32_t layers_count;
	uint32_t ana_group; /* default 1 */
	/* host NQNs that see the namespace: see rdt_config_all_see() */
	const char **hosts;
	uint32_t hosts_count;

	/* filled by rdt_config_load() */
	bool no_hosts;          /* hosts is an empty list */
	uint64_t size_bytes;    /* 0: the size of the file or device */
	uint8_t uuid_bytes[16]; /* without @uuid: derived from NQN and NSID */
	uint8_t nguid_bytes[16];
	uint8_t eui64_bytes[8];
};

/* Policy if a host creates another controller through the same listener. */
enum rdt_duplicate_host { RDT_DUPLICATE_ALLOW, RDT_DUPLICATE_REPLACE, RDT_DUPLICATE_REFUSE };

/* Reservations let one host restrict all others of a subsystem. */
enum rdt_reservations { RDT_RESERVATIONS_ON, RDT_RESERVATIONS_OFF };
enum rdt_wp_setting { RDT_WP_UNTIL_RESET, RDT_WP_OFF, RDT_WP_ALL };

struct rdt_subsys_config {
	const char *nqn;
	/* at most 20 ASCII characters, never NULL after loading: derived from the NQN by default */
	const char *serial;
	const char *model; /* at most 40 ASCII characters, never NULL after loading */
	bool allow_any_host;
	const char **hosts; /* host NQNs; used if allow_any_host is false; empty: no host */
	uint32_t hosts_count;
	const char **shared_host_ids; /* UUIDs: Host Identifiers that several Host NQNs may use */
	uint32_t shared_host_ids_count;
	uint32_t cntlid_min; /* range of controller IDs; default 1 to 65519 */
	uint32_t cntlid_max;
	enum rdt_duplicate_host duplicate_host;
	enum rdt_disc_shown discovery_transport;
	enum rdt_reservations reservations;
	enum rdt_wp_setting write_protect;
	struct rdt_host_qos_config *host_qos;
	uint32_t host_qos_count;
	enum rdt_auth_setting authentication;
	struct rdt_host_auth_config *host_auth;
	uint32_t host_auth_count;
	uint32_t
		dhchap_count; /* number of them with dhchap_key_file; filled by rdt_config_load() */
	/* sorted by host, for rdt_config_host_auth(); NULL: use a linear search */
	struct rdt_host_auth_config **host_auth_order;
	const char **rdma_only; /* hosts to which the discovery log shows one transport */
	uint32_t rdma_only_count;
	const char **tcp_only;
	uint32_t tcp_only_count;
	struct rdt_ns_config *namespaces; /* sorted by NSID after loading */
	uint32_t namespaces_count;

	/* filled by rdt_config_load(): "FILE:LINE: subsystems[N]" when neither allow_any_host nor
	 * hosts is given, so that no host may connect; otherwise NULL */
	char *hosts_unset;
};

struct rdt_referral_config { /* another discovery service */
	enum rdt_transport_kind transport;
	const char *address;
	uint16_t port; /* default 4420 */
};

struct rdt_limits_config { /* limits of the whole target, each at least 1 */
	uint32_t connections;
	uint32_t connections_per_host;
	uint32_t connections_per_address;
	uint32_t controllers;
	uint32_t controllers_per_host;
	uint32_t controllers_per_address;
	uint32_t unconnected; /* connections without a Connect */
	uint32_t unconnected_per_address;
	uint32_t half_open; /* iwarp: connections without an MPA request, per listener */
};

enum rdt_start { RDT_START_SERVE, RDT_START_ALL_OR_NOTHING };

struct rdt_target_config {
	uint32_t reactors;
	uint32_t *cpus; /* one for each reactor; none: the kernel's choice */
	uint32_t cpus_count;
	uint32_t queue_depth;
	uint32_t io_queues;
	const char *max_data_size;
	const char *in_capsule_size;
	const char *buffer_memory;
	const char *capsule_memory;
	const char *spin;
	const char *congestion; /* iwarp, tcp: congestion control, or NULL */
	const char *peer_timeout;
	const char *drain_timeout;
	uint32_t sgl_descriptors;
	uint32_t engine_depth;
	const char *sqpoll;
	/* one for each reactor's SQPOLL thread; none: the kernel's choice */
	uint32_t *sqpoll_cpus;
	uint32_t sqpoll_cpus_count;
	const char *state_dir; /* directory for state that survives the daemon, or NULL */
	uint32_t state_times;
	bool state_times_at_exit;
	enum rdt_start start;
	struct rdt_limits_config limits;

	/* filled by rdt_config_load() */
	uint32_t max_data_bytes;
	uint32_t in_capsule_bytes;
	uint64_t buffer_bytes;
	uint64_t capsule_bytes;
	uint64_t spin_ns;
	uint64_t sqpoll_ns; /* whole milliseconds; 0: no SQPOLL thread */
	uint64_t drain_timeout_ns;
	uint64_t peer_timeout_ns; /* 0: never disconnected */
};

struct rdt_control_config {      /* the control socket */
	const char *socket;      /* its path; NULL: no control socket */
	const char *group;       /* may connect and read; NULL: the group of the process */
	const char *admin_group; /* may change too; NULL: only root and the user of the process */
};

struct rdt_http_config {     /* the HTTP listener: target/manage/http/http.h */
	const char *address; /* numeric address; NULL: no listener */
	uint16_t port;       /* default 10420; 0: any free port, which is logged */
	/* host names that clients may use, besides "localhost" and numeric addresses */
	const char **host_names;
	uint32_t host_names_count;
};

struct rdt_config {
	struct rdt_target_config target;
	struct rdt_control_config control;
	struct rdt_ceph_config *ceph;
	uint32_t ceph_count;
	struct rdt_http_config http;
	const char **include; /* more files, which may add to the lists below */
	uint32_t include_count;
	struct rdt_listener_config *listeners;
	uint32_t listeners_count;
	struct rdt_subsys_config *subsystems;
	uint32_t subsystems_count;
	struct rdt_referral_config *referrals;
	uint32_t referrals_count;
	/* The discovery subsystem: of the members only those of authentication, rdma_only and
	 * tcp_only are used. */
	struct rdt_subsys_config discovery;

	struct rdt_secrets *secrets; /* the keys of the hosts; NULL: none */
	char **warnings;             /* warnings of the load, without file, line and key */
	uint32_t warnings_count;
	/* References: objects point into the configuration they were made from. 0: static, never
	 * freed. */
	unsigned int refs;
};

/*
 * Load and check @path and its includes. Logs every problem as "file:line: key: what was found,
 * what was expected", and continues after a problem where possible. Does not open namespaces. Any
 * thread. Returns 0 with a reference in @out, or -errno (-EINVAL: bad contents).
 */
int rdt_config_load(const char *path, struct rd_log *log, struct rdt_config **out);

struct rdt_config_load;
/* Checks more of a valid configuration, whose lists are in the order of the files. Reports problems
 * by rdt_config_report_at(). */
typedef void (*rdt_config_more_fn)(void *arg, const struct rdt_config *config,
				   struct rdt_config_load *load);
/* As rdt_config_load(), with a further check. */
int rdt_config_load_and(const char *path, rdt_config_more_fn more, void *arg, struct rd_log *log,
			struct rdt_config **out);
/* Reports an error, which makes the load fail, or a warning. @place: such as
 * "subsystems[1].namespaces[0].path", with indices over all files. */
void rdt_config_report_at(struct rdt_config_load *load, enum rd_log_level level, const char *place,
			  const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* A file of a configuration. */
struct rdt_config_text {
	char *path;
	char *text;
	size_t len;
	/* the content of the file when it was last read or written; NULL: equal to @text */
	char *on_disk;
	size_t on_disk_len;
	unsigned int pattern; /* of "include" that matched it; the top file: 0 */
};

/* The files that a configuration was loaded from; the first one is the top file. Owned by one
 * object; zeroed: none. */
struct rdt_config_texts {
	struct rdt_config_text *files;
	unsigned int count;
};

/*
 * As rdt_config_load(), from the files in @texts: only the top file is given (@top_only), and
 * others are read, or all are given. Files that are read are added to @texts.
 */
int rdt_config_load_texts(const char *path, struct rdt_config_texts *texts, bool top_only,
			  struct rd_log *log, struct rdt_config **out);
/* As rdt_config_load_texts() with all files, some of which were edited after they were read:
 * messages name no lines of those, since no file has them, and warnings of @known, which may be
 * NULL, are not repeated. */
int rdt_config_load_edited(const char *path, struct rdt_config_texts *texts,
			   const struct rdt_config *known, struct rd_log *log,
			   struct rdt_config **out);
/* Returns 0 or -ENOMEM, with @out empty. */
int rdt_config_texts_copy(const struct rdt_config_texts *texts, struct rdt_config_texts *out);
/* Add a file with a copy of @text. Returns 0 or -ENOMEM. */
int rdt_config_texts_add(struct rdt_config_texts *texts, const char *path, const char *text,
			 size_t len, unsigned int pattern);
void rdt_config_texts_free(struct rdt_config_texts *texts); /* leaves it empty */

/*
 * Write files that differ from the disk: a new file is renamed over the old one, which is kept with
 * "~" at the end of its name. All new files are on the disk before the first one is renamed; if one
 * cannot be written, none is renamed. After a crash between two renames, the next load logs a
 * warning. Refuses a file that has changed on the disk since it was read. Returns the number of
 * files written, or -errno with the reason logged. Any thread.
 */
int rdt_config_save(struct rdt_config_texts *texts, struct rd_log *log);

/*
 * Write defaults of earlier versions into the files of @config, which was loaded from @texts:
 * "allow_any_host: true" for subsystems that have neither this key nor "hosts". Returns as
 * rdt_config_save(), with the reason of a failure logged and no file changed.
 */
int rdt_config_migrate(const struct rdt_config *config, struct rdt_config_texts *texts,
		       struct rd_log *log);

bool rdt_config_same_text(const char *a, const char *b); /* NULL is equal to NULL only */

/* The name that the file uses for a value, or "unknown". */
const char *rdt_config_backend_name(enum rdt_backend_type backend);
/* Identifies the storage of @ns by a text that the caller frees; NULL: none but memory. Returns 0
 * or -ENOMEM. */
int rdt_config_storage(const struct rdt_ns_config *ns, char **name);
/* Whether several targets serve @ss, each with its own range of controller IDs. */
bool rdt_config_several(const struct rdt_subsys_config *ss);
const char *rdt_config_transport_name(enum rdt_transport_kind kind);
const char *rdt_config_ana_name(unsigned int state);
unsigned int rdt_config_ana_state(const char *name); /* 0: unknown name */
bool rdt_config_listed(const char *const *list, uint32_t count, const char *text);
/* Compares by the rows of the keys. @served: only keys whose change removes a namespace and adds it
 * again. */
bool rdt_config_same_ns(const struct rdt_ns_config *a, const struct rdt_ns_config *b, bool served);
/* Compares the keys whose change removes a listener and adds it again. */
bool rdt_config_same_listener(const struct rdt_listener_config *a,
			      const struct rdt_listener_config *b);
/* NULL: no limits */
bool rdt_config_same_limits(const struct rdt_qos_config *a, const struct rdt_qos_config *b);
bool rdt_config_same_ceph(const struct rdt_ceph_config *a, const struct rdt_ceph_config *b);
bool rdt_config_all_see(
	const struct rdt_ns_config *ns); /* whether all hosts of the subsystem see it */
bool rdt_config_same_ns_hosts(const struct rdt_ns_config *a, const struct rdt_ns_config *b);
bool rdt_config_same_list(const char *const *a, uint32_t a_count, const char *const *b,
			  uint32_t b_count); /* in any order */

/* The entry of a host in host_auth, or NULL. */
const struct rdt_host_auth_config *rdt_config_host_auth(const struct rdt_subsys_config *ss,
							const char *hostnqn);
/* Compares keys, hashes and groups. NULL is equal to NULL only. */
bool rdt_config_same_host_auth(const struct rdt_host_auth_config *a,
			       const struct rdt_host_auth_config *b);

/* Call @fn for each key that differs and takes effect after a restart only; @where is a section or
 * an NQN. */
typedef void (*rdt_config_restart_fn)(void *arg, const char *where, const char *key);
void rdt_config_restarts(const struct rdt_config *now, const struct rdt_config *next,
			 rdt_config_restart_fn fn, void *arg);
void rdt_config_subsys_restarts(const struct rdt_subsys_config *now,
				const struct rdt_subsys_config *next, rdt_config_restart_fn fn,
				void *arg);

/* Get and put references from one thread only; the last put frees. Both accept NULL. */
struct rdt_config *rdt_config_get(struct rdt_config *config);
void rdt_config_put(struct rdt_config **config);

#endif /* RDT_CONFIG_H */
