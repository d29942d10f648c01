/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdkit-rdinit-plugin: a namespace as a disk of nbdkit, through librdinit.
 *
 * All clients share one disk (disk.h): it is connected when the first one comes, which is after
 * nbdkit's fork(2), and closed when the last one has gone.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "disk.h"
#include "rdinit_auth.h"
#include "rdinit_tls.h"

#define THREAD_MODEL   NBDKIT_THREAD_MODEL_PARALLEL

#define QUEUES_DEFAULT 4
#define SECONDS_MAX    4000000u
#define NLB_MAX        65536u /* blocks of one Read or Write */
#define REQUEST_MAX    (32u << 20)
#define URI_FORM       "nvme+rdma://HOST[:PORT]/SUBNQN[/NSID] or nvme+tcp://"

static struct rdn_config config;
static struct rdinit_auth_opts auth; /* config.ctrl refers to it, too, and to the next */
static struct rdinit_tls_opts tls;

/* Parameters that are texts, with memory of their own. */
static struct {
	const char *key;
	const char **option;
	bool secret; /* the name of a file that has a secret */
	char *own;
} texts[] = {
	{"hostnqn", &config.ctrl.hostnqn},
	{"hostid", &config.ctrl.hostid},
	{"host-traddr", &config.ctrl.host_traddr},
	{"provider", &config.ctrl.provider},
	{"dhchap-secret-file", &auth.secret_file, true},
	{"dhchap-ctrl-secret-file", &auth.ctrl_secret_file, true},
	{"tls-key-file", &tls.key_file, true},
};

/* Parameters that are seconds. */
static const struct {
	const char *key;
	uint32_t *ms;
	uint32_t least, never; /* @never: the value for "-1"; 0: there is no such value */
} times[] = {
	{"reconnect-delay", &config.dev.reconnect_delay_ms, 1, 0},
	{"ctrl-loss-tmo", &config.dev.ctrl_loss_tmo_ms, 0, RDINIT_DEV_NEVER},
	{"fast-io-fail-tmo", &config.dev.fast_io_fail_tmo_ms, 0, RDINIT_DEV_NEVER},
	{"keep-alive-tmo", &config.ctrl.keep_alive_tmo_ms, 1, 0},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The following are guarded by @lock. */
static struct rdn_disk *shared;
static LIST_HEAD(, rdn_client) clients = LIST_HEAD_INITIALIZER(clients);

/* A client. */
struct rdn_client {
	LIST_ENTRY(rdn_client) link;
	struct rdn_disk *disk;
	/* as of connecting: nbdkit reports no other size to the client later */
	struct rdinit_dev_info info;
};

/* ---- options ---- */

static void rdn_load(void)
{
	rdinit_ctrl_opts_init(&config.ctrl);
	rdinit_dev_opts_init(&config.dev);
	rdinit_auth_opts_init(&auth);
	rdinit_tls_opts_init(&tls);
	rdinit_uri_init(&config.discovery);
	config.dev.channels = QUEUES_DEFAULT;
}

/* With @lock held. */
static void rdn_leave_disk(struct rdn_client *c)
{
	LIST_REMOVE(c, link);
	free(c);
	if (LIST_EMPTY(&clients))
		rdn_disk_close(&shared);
}

/*
 * nbdkit does not close the clients that it has when it is to end, only waits until their requests
 * have ended. No thread of the disk may be left when the plugin is gone from memory.
 */
static void rdn_unload(void)
{
	pthread_mutex_lock(&lock);
	while (!LIST_EMPTY(&clients))
		rdn_leave_disk(LIST_FIRST(&clients));
	pthread_mutex_unlock(&lock);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		free(texts[i].own);
}

/* Of a file, an absolute path: nbdkit changes its working directory before the first client makes
 * the plugin read the file. */
static int rdn_set_text(size_t i, const char *value)
{
	if (texts[i].secret &&
	    (strncmp(value, "DHHC-1:", 7) == 0 || strncmp(value, "NVMeTLSkey-1:", 13) == 0)) {
		nbdkit_error("%s= is the name of a file with a secret, not the secret itself, "
			     "which every user of the machine could read",
			     texts[i].key);
		return -1;
	}
	free(texts[i].own);
	*texts[i].option = texts[i].own = texts[i].secret ? nbdkit_realpath(value) : strdup(value);
	if (texts[i].own)
		return 0;
	if (texts[i].secret)
		nbdkit_error("%s=%s: expected the name of a file that exists", texts[i].key, value);
	else
		nbdkit_error("out of memory");
	return -1;
}

static int rdn_set_offer(const char *key, const char *hashes, const char *groups)
{
	if (!rdinit_auth_opts_offer(&auth, hashes, groups))
		return 0;
	nbdkit_error("%s=: %s", key, rdn_lib_text());
	return -1;
}

static int rdn_set_uri(struct rdinit_uri *to, const char *key, const char *value)
{
	rdinit_uri_init(to);
	if (rdinit_uri_parse(value, to)) {
		nbdkit_error("%s=%s: %s (expected " URI_FORM ")", key, value, rdn_lib_text());
		return -1;
	}
	if (to->subnqn[0])
		return 0;
	nbdkit_error("%s=%s names no subsystem (expected " URI_FORM ")", key, value);
	return -1;
}

static int rdn_add_uri(const char *value)
{
	if (config.n_uri < RDINIT_DEV_PATHS_MAX)
		return rdn_set_uri(&config.uri[config.n_uri++], "uri", value);
	nbdkit_error("uri=%s: there are already %d others, which is the maximum", value,
		     RDINIT_DEV_PATHS_MAX);
	return -1;
}

static int rdn_set_seconds(size_t i, const char *value)
{
	unsigned int s;

	if (times[i].never && strcmp(value, "-1") == 0) {
		*times[i].ms = times[i].never;
		return 0;
	}
	if (nbdkit_parse_unsigned(times[i].key, value, &s))
		return -1;
	if (s >= times[i].least && s <= SECONDS_MAX) {
		*times[i].ms = s * 1000;
		return 0;
	}
	nbdkit_error("%s=%s is not a number of seconds from %u to %u%s", times[i].key, value,
		     times[i].least, SECONDS_MAX, times[i].never ? ", or -1 for no limit" : "");
	return -1;
}

static int rdn_set_queues(const char *value)
{
	unsigned int n;

	if (nbdkit_parse_unsigned("queues", value, &n))
		return -1;
	if (n < 1 || n > RDN_QUEUES_MAX) {
		nbdkit_error("queues=%u: expected 1 to %u", n, RDN_QUEUES_MAX);
		return -1;
	}
	config.dev.channels = (uint16_t)n;
	return 0;
}

static int rdn_set_bool(bool *to, const char *value)
{
	int rc = nbdkit_parse_bool(value);

	if (rc < 0)
		return -1;
	*to = rc;
	return 0;
}

static int rdn_set_policy(const char *value)
{
	if (strcmp(value, "round-robin") == 0)
		config.dev.policy = RDINIT_DEV_ROUND_ROBIN;
	else if (strcmp(value, "queue-depth") == 0)
		config.dev.policy = RDINIT_DEV_QUEUE_DEPTH;
	else if (strcmp(value, "failover") == 0)
		config.dev.policy = RDINIT_DEV_FAILOVER;
	else {
		nbdkit_error("policy=%s: expected round-robin, queue-depth or failover", value);
		return -1;
	}
	return 0;
}

static int rdn_config(const char *key, const char *value)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (strcmp(key, texts[i].key) == 0)
			return rdn_set_text(i, value);
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		if (strcmp(key, times[i].key) == 0)
			return rdn_set_seconds(i, value);
	if (strcmp(key, "uri") == 0)
		return rdn_add_uri(value);
	if (strcmp(key, "discovery") == 0)
		return rdn_set_uri(&config.discovery, key, value);
	if (strcmp(key, "queues") == 0)
		return rdn_set_queues(value);
	if (strcmp(key, "policy") == 0)
		return rdn_set_policy(value);
	if (strcmp(key, "dhchap-hashes") == 0)
		return rdn_set_offer(key, value, NULL);
	if (strcmp(key, "dhchap-dhgroups") == 0)
		return rdn_set_offer(key, NULL, value);
	if (strcmp(key, "hdr-digest") == 0)
		return rdn_set_bool(&config.ctrl.hdr_digest, value);
	if (strcmp(key, "data-digest") == 0)
		return rdn_set_bool(&config.ctrl.data_digest, value);
	nbdkit_error("\"%s\" is not a parameter of this plugin: `nbdkit rdinit --help` lists them",
		     key);
	return -1;
}

static int rdn_config_complete(void)
{
	if (auth.ctrl_secret_file && !auth.secret_file) {
		nbdkit_error("dhchap-ctrl-secret-file= needs dhchap-secret-file=: a target "
			     "authenticates itself only to a host that does so too");
		return -1;
	}
	config.ctrl.auth = auth.secret_file ? &auth : NULL;
	config.ctrl.tls = tls.key_file ? &tls : NULL;
	if (config.n_uri || config.discovery.subnqn[0])
		return rdn_disk_check(&config);
	nbdkit_error("no namespace: give uri=" URI_FORM
		     ", or the address of a discovery controller "
		     "as discovery=" URI_FORM);
	return -1;
}

/* ---- a client's life ---- */

static void rdn_close(void *handle)
{
	pthread_mutex_lock(&lock);
	rdn_leave_disk(handle);
	pthread_mutex_unlock(&lock);
}

/* @lock is held. */
static int rdn_join_disk(struct rdn_client *c)
{
	if (!shared && rdn_disk_open(&config, &shared))
		return -1;
	LIST_INSERT_HEAD(&clients, c, link);
	c->disk = shared;
	if (rdn_disk_info(shared, &c->info))
		return -1;
	/* Retries at once, so that this client need not wait for the next attempt. */
	if (c->info.state != RDINIT_DEV_LIVE)
		rdn_disk_retry(shared);
	return 0;
}

static void *rdn_open(int readonly)
{
	struct rdn_client *c = calloc(1, sizeof(*c));
	int rc;

	(void)readonly;
	if (!c) {
		nbdkit_error("out of memory");
		return NULL;
	}
	pthread_mutex_lock(&lock);
	rc = rdn_join_disk(c);
	pthread_mutex_unlock(&lock);
	if (!rc)
		return c;
	if (c->disk)
		rdn_close(c);
	else
		free(c);
	return NULL;
}

/* ---- what the disk is and can do ---- */

static int64_t rdn_get_size(void *handle)
{
	const struct rdn_client *c = handle;

	return (int64_t)(c->info.blocks * c->info.block_size);
}

static int rdn_block_size(void *handle, uint32_t *minimum, uint32_t *preferred, uint32_t *maximum)
{
	const struct rdn_client *c = handle;

	*minimum = c->info.block_size;
	*preferred = c->info.block_size > 4096 ? c->info.block_size : 4096;
	*maximum = REQUEST_MAX;
	return 0;
}

static int rdn_can_write(void *handle)
{
	const struct rdn_client *c = handle;

	return !c->info.read_only;
}

/* Flush concerns the namespace: one on any connection covers the writes of all (NVM 3.2.1). */
static int rdn_can_multi_conn(void *handle)
{
	(void)handle;
	return 1;
}

static int rdn_can_fua(void *handle)
{
	(void)handle;
	return NBDKIT_FUA_NATIVE;
}

static int rdn_can_trim(void *handle)
{
	const struct rdn_client *c = handle;

	return c->info.max_deallocate != 0;
}

/* Without Write Zeroes nbdkit writes zeroes itself. */
static int rdn_can_zero(void *handle)
{
	const struct rdn_client *c = handle;

	return c->info.max_write_zeroes != 0;
}

static int rdn_can_extents(void *handle)
{
	const struct rdn_client *c = handle;

	return c->info.extents;
}

/* ---- requests ---- */

static int rdn_check_blocks(const struct rdn_client *c, uint64_t offset, uint32_t count)
{
	if ((offset | count) % c->info.block_size == 0)
		return 0;
	nbdkit_error("offset %llu, length %u: not multiples of the namespace's block size (%u); "
		     "nbdkit's blocksize filter allows them",
		     (unsigned long long)offset, count, c->info.block_size);
	nbdkit_set_error(EINVAL);
	return -1;
}

/* @max: limit of blocks for a command. */
static int rdn_run_request(struct rdn_client *c, struct rdinit_dev_io *io, uint32_t count,
			   uint64_t offset, uint32_t max)
{
	uint32_t bs = c->info.block_size;

	if (rdn_check_blocks(c, offset, count))
		return -1;
	io->lba = offset / bs;
	return rdn_disk_run(c->disk, io, count / bs, max);
}

static uint32_t rdn_max_data_blocks(const struct rdn_client *c)
{
	uint32_t max = c->info.max_transfer / c->info.block_size;

	return max < NLB_MAX ? max : NLB_MAX;
}

static int rdn_pread(void *handle, void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct rdn_client *c = handle;
	struct rdinit_dev_io io;

	(void)flags;
	rdinit_dev_io_init(&io);
	io.op = RDINIT_DEV_READ;
	io.buf = buf;
	return rdn_run_request(c, &io, count, offset, rdn_max_data_blocks(c));
}

static int rdn_pwrite(void *handle, const void *buf, uint32_t count, uint64_t offset,
		      uint32_t flags)
{
	struct rdn_client *c = handle;
	struct rdinit_dev_io io;

	rdinit_dev_io_init(&io);
	io.op = RDINIT_DEV_WRITE;
	io.flags = flags & NBDKIT_FLAG_FUA ? RDINIT_IO_FUA : 0;
	io.buf = (void *)(uintptr_t)buf;
	return rdn_run_request(c, &io, count, offset, rdn_max_data_blocks(c));
}

static int rdn_flush(void *handle, uint32_t flags)
{
	struct rdn_client *c = handle;
	struct rdinit_dev_io io;

	(void)flags;
	rdinit_dev_io_init(&io);
	io.op = RDINIT_DEV_FLUSH;
	return rdn_disk_run(c->disk, &io, 1, 1);
}

static int rdn_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct rdn_client *c = handle;
	struct rdinit_dev_io io;

	rdinit_dev_io_init(&io);
	io.op = RDINIT_DEV_WRITE_ZEROES;
	io.flags = (flags & NBDKIT_FLAG_FUA ? RDINIT_IO_FUA : 0) |
		   (flags & NBDKIT_FLAG_MAY_TRIM ? RDINIT_DEV_IO_DEALLOCATE : 0);
	return rdn_run_request(c, &io, count, offset, c->info.max_write_zeroes);
}

static int rdn_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct rdn_client *c = handle;
	struct rdinit_dev_io io;

	rdinit_dev_io_init(&io);
	io.op = RDINIT_DEV_DEALLOCATE;
	if (rdn_run_request(c, &io, count, offset, c->info.max_deallocate))
		return -1;
	/* Dataset Management has no FUA. */
	return flags & NBDKIT_FLAG_FUA ? rdn_flush(c, 0) : 0;
}

/* When the target cannot be asked now, the client reads: the range counts as data. */
static int rdn_extents(void *handle, uint32_t count, uint64_t offset, uint32_t flags,
		       struct nbdkit_extents *out)
{
	const uint32_t zero = NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO;
	struct rdn_client *c = handle;
	struct rdinit_dev_extent list[RDINIT_DEV_EXTENTS_MAX];
	uint64_t bs = c->info.block_size, at = offset / bs;
	uint64_t end = (offset + count + bs - 1) / bs, known = 0;
	int n = rdn_disk_extents(c->disk, at, end - at, list, &known), i, rc = 0;

	(void)flags;
	if (n < 0)
		return nbdkit_add_extent(out, offset, count, 0);
	end = at + known;
	for (i = 0; i < n && !rc; i++) {
		rc = nbdkit_add_extent(out, at * bs, (list[i].lba - at) * bs, zero);
		if (!rc)
			rc = nbdkit_add_extent(out, list[i].lba * bs, list[i].nblocks * bs, 0);
		at = list[i].lba + list[i].nblocks;
	}
	return rc ? rc : nbdkit_add_extent(out, at * bs, (end - at) * bs, zero);
}

static struct nbdkit_plugin plugin = {
	.name = "rdinit",
	.longname = "nbdkit rdinit plugin",
	.description = "A namespace of an NVMe over Fabrics (RDMA, TCP) target, without the kernel",
	.magic_config_key = "uri",
	.config_help =
		"uri=<URI>                  " URI_FORM "; repeat it for each path\n"
		"discovery=<URI>            the same, with the address of a discovery controller\n"
		"queues=<N>                 I/O queues of each path (default 4)\n"
		"policy=<NAME>              round-robin, queue-depth or failover (default "
		"round-robin)\n"
		"reconnect-delay=<SECONDS>  longest time between attempts to connect (default 10)\n"
		"ctrl-loss-tmo=<SECONDS>    until a lost path fails permanently (default 600; -1: "
		"never)\n"
		"fast-io-fail-tmo=<SECONDS> without a path until requests fail (default -1: "
		"never)\n"
		"keep-alive-tmo=<SECONDS>   keep-alive timeout (default 5)\n"
		"hostnqn=<NQN>              host NQN (default: /etc/nvme/hostnqn, or derived)\n"
		"hostid=<UUID>              host identifier (default: /etc/nvme/hostid, or "
		"derived)\n"
		"dhchap-secret-file=<FILE>  DH-HMAC-CHAP secret of this host\n"
		"dhchap-ctrl-secret-file=<FILE> secret of the target, which must authenticate "
		"itself\n"
		"dhchap-hashes=<LIST>       hashes to offer (default: sha256,sha384,sha512)\n"
		"dhchap-dhgroups=<LIST>     groups to offer (default: null and ffdhe2048 to "
		"ffdhe8192)\n"
		"tls-key-file=<FILE>        TLS key of this host, for NVMe/TCP\n"
		"host-traddr=<ADDRESS>      local address to connect from\n"
		"provider=<NAME>            auto, iwarp or verbs (default auto)\n"
		"hdr-digest=<BOOL>          nvme+tcp: CRC32C of each PDU's header\n"
		"data-digest=<BOOL>         nvme+tcp: CRC32C of each PDU's data",
	.load = rdn_load,
	.config = rdn_config,
	.config_complete = rdn_config_complete,
	.unload = rdn_unload,
	.open = rdn_open,
	.close = rdn_close,
	.get_size = rdn_get_size,
	.block_size = rdn_block_size,
	.can_write = rdn_can_write,
	.can_multi_conn = rdn_can_multi_conn,
	.can_fua = rdn_can_fua,
	.can_trim = rdn_can_trim,
	.can_zero = rdn_can_zero,
	.can_fast_zero = rdn_can_zero,
	.can_extents = rdn_can_extents,
	.pread = rdn_pread,
	.pwrite = rdn_pwrite,
	.flush = rdn_flush,
	.zero = rdn_zero,
	.trim = rdn_trim,
	.extents = rdn_extents,
};

/* Declared here because the macro defines it without a declaration, of which clang warns. */
__attribute__((visibility("default"))) struct nbdkit_plugin *plugin_init(void);

NBDKIT_REGISTER_PLUGIN(plugin)
