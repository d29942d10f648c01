/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdkit-rdinit-plugin: a namespace as a disk of nbdkit, through librdinit.
 *
 * Each client has a controller of its own, a pool of I/O queues and a thread for the keep-alives.
 * nbdkit calls from many threads; a request takes a queue out of the pool, runs synchronous calls
 * on it and puts it back. The connection is made in open(), which is after nbdkit's fork(2). One
 * that is lost is not made again: the requests of its client fail.
 */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "rdinit.h"

#define THREAD_MODEL        NBDKIT_THREAD_MODEL_PARALLEL

#define QUEUES_MAX          64u
#define QUEUES_DEFAULT      4u
#define NLB_MAX             65536u /* blocks of one command */
#define REQUEST_MAX         (32u << 20)

#define OPCODE_WRITE_ZEROES 0x08 /* NVM Command Set 3.2.8 */
#define OPCODE_DSM          0x09 /* NVM Command Set 3.2.3 */
#define DSM_DEALLOCATE      0x04 /* AD, in dword 11 */
#define ZEROES_DEALLOCATE   (1u << 25)
#define ZEROES_FUA          (1u << 30)
#define ONCS                520 /* in the Identify Controller data */
#define ONCS_DSM            0x04
#define ONCS_WRITE_ZEROES   0x08

#define STATUS_READ_ONLY    0x20 /* Generic: Namespace is Write Protected */
#define STATUS_CAPACITY     0x81 /* Generic: Capacity Exceeded */
#define STATUS_LBA_RANGE    0x80 /* Generic: LBA Out of Range */

/* What the command line of nbdkit says. */
static struct {
	char *uri;
	char *hostnqn;
	char *hostid;
	char *provider;
	unsigned int queues;
	struct rdinit_uri parts;
} config = {.queues = QUEUES_DEFAULT};

/* One client. */
struct disk {
	struct rdinit_ctrl *ctrl; /* the keeper's, once that runs */
	struct rdinit_ns ns;
	uint32_t chunk; /* bytes of one read or write command */
	uint16_t oncs;
	pthread_t keeper;
	int keeper_stop; /* eventfd; -1: there is no keeper */
	pthread_mutex_t lock;
	pthread_cond_t returned;
	struct rdinit_qpair *qp[QUEUES_MAX];
	unsigned int n_qp;
	struct rdinit_qpair *idle[QUEUES_MAX]; /* under @lock, as is n_idle */
	unsigned int n_idle;
};

/* ---- options ---- */

static int set_string(char **to, const char *value)
{
	free(*to);
	*to = strdup(value);
	if (*to)
		return 0;
	nbdkit_error("out of memory");
	return -1;
}

static int rdn_config(const char *key, const char *value)
{
	if (strcmp(key, "uri") == 0)
		return set_string(&config.uri, value);
	if (strcmp(key, "hostnqn") == 0)
		return set_string(&config.hostnqn, value);
	if (strcmp(key, "hostid") == 0)
		return set_string(&config.hostid, value);
	if (strcmp(key, "provider") == 0)
		return set_string(&config.provider, value);
	if (strcmp(key, "queues") != 0) {
		nbdkit_error("\"%s\" is not a parameter of this plugin: it has uri, hostnqn, "
			     "hostid, provider and queues",
			     key);
		return -1;
	}
	if (nbdkit_parse_unsigned("queues", value, &config.queues))
		return -1;
	if (config.queues >= 1 && config.queues <= QUEUES_MAX)
		return 0;
	nbdkit_error("queues=%u is not from 1 to %u", config.queues, QUEUES_MAX);
	return -1;
}

static int rdn_config_complete(void)
{
	if (!config.uri) {
		nbdkit_error("no namespace: give uri=nvme+rdma://HOST[:PORT]/SUBNQN[/NSID]");
		return -1;
	}
	rdinit_uri_init(&config.parts);
	if (rdinit_uri_parse(config.uri, &config.parts)) {
		nbdkit_error("uri=%s: %s (expected nvme+rdma://HOST[:PORT]/SUBNQN[/NSID])",
			     config.uri, rdinit_get_error());
		return -1;
	}
	if (config.parts.subnqn[0])
		return 0;
	nbdkit_error("uri=%s names no subsystem (expected nvme+rdma://HOST[:PORT]/SUBNQN[/NSID])",
		     config.uri);
	return -1;
}

static void rdn_unload(void)
{
	free(config.uri);
	free(config.hostnqn);
	free(config.hostid);
	free(config.provider);
}

/* ---- keep-alives ---- */

/*
 * A client may be silent for longer than a target waits for a sign of life. When the controller's
 * connection is lost the thread ends; the queues tell the client.
 */
static void *keep_alive(void *arg)
{
	struct disk *d = arg;
	struct pollfd fds[2] = {
		{.fd = rdinit_ctrl_fd(d->ctrl), .events = POLLIN},
		{.fd = d->keeper_stop, .events = POLLIN},
	};

	do {
		if (rdinit_ctrl_process(d->ctrl, 0) < 0)
			break;
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
	} while (!fds[1].revents);
	return NULL;
}

static int start_keeper(struct disk *d)
{
	sigset_t all, before;
	int fd, rc;

	fd = eventfd(0, EFD_CLOEXEC);
	if (fd < 0) {
		nbdkit_error("no eventfd for the keep-alives: %m");
		return -1;
	}
	d->keeper_stop = fd;
	/* Signals are nbdkit's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&d->keeper, NULL, keep_alive, d);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		return 0;
	nbdkit_error("no thread for the keep-alives: %s", strerror(rc));
	close(fd);
	d->keeper_stop = -1;
	return -1;
}

static void stop_keeper(struct disk *d)
{
	if (d->keeper_stop < 0)
		return;
	eventfd_write(d->keeper_stop, 1);
	pthread_join(d->keeper, NULL);
	close(d->keeper_stop);
	d->keeper_stop = -1;
}

/* ---- a client's life ---- */

/* Returns -1. */
static int library_error(void)
{
	nbdkit_error("%s: %s", config.uri, rdinit_get_error());
	return -1;
}

static void rdn_close(void *handle)
{
	struct disk *d = handle;

	if (!d)
		return;
	stop_keeper(d);
	while (d->n_qp) {
		d->n_qp--;
		rdinit_qpair_disconnect(d->qp[d->n_qp]);
		rdinit_qpair_free(&d->qp[d->n_qp]);
	}
	if (d->ctrl)
		rdinit_ctrl_disconnect(d->ctrl);
	rdinit_ctrl_free(&d->ctrl);
	pthread_cond_destroy(&d->returned);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

static int open_queues(struct disk *d, unsigned int granted)
{
	unsigned int want = config.queues < granted ? config.queues : granted;
	struct rdinit_qpair_opts opts;

	if (!want) {
		nbdkit_error("%s: the controller has no I/O queues", config.uri);
		return -1;
	}
	rdinit_qpair_opts_init(&opts);
	opts.queue_size = 8; /* a queue has one request at a time */
	while (d->n_qp < want) {
		if (rdinit_qpair_create(d->ctrl, &opts, &d->qp[d->n_qp]))
			return library_error();
		d->n_qp++; /* rdn_close() frees it from here on */
		if (rdinit_qpair_connect(d->qp[d->n_qp - 1]))
			return library_error();
		d->idle[d->n_idle++] = d->qp[d->n_qp - 1];
	}
	return 0;
}

static int connect_disk(struct disk *d)
{
	unsigned char id[RDINIT_IDENTIFY_SIZE];
	struct rdinit_ctrl_info info;
	struct rdinit_ctrl_opts opts;

	rdinit_ctrl_opts_init(&opts);
	rdinit_ctrl_opts_set_uri(&opts, &config.parts);
	opts.hostnqn = config.hostnqn;
	opts.hostid = config.hostid;
	opts.provider = config.provider;
	opts.nr_io_queues = (uint16_t)config.queues;
	rdinit_ctrl_info_init(&info);
	rdinit_ns_init(&d->ns);
	if (rdinit_ctrl_create(&opts, &d->ctrl) || rdinit_ctrl_connect(d->ctrl) ||
	    rdinit_ctrl_get_info(d->ctrl, &info) || rdinit_identify_ctrl(d->ctrl, id) ||
	    rdinit_ns_open(d->ctrl, config.parts.nsid ? config.parts.nsid : 1, &d->ns))
		return library_error();
	memcpy(&d->oncs, id + ONCS, sizeof(d->oncs));
	d->oncs = le16toh(d->oncs);
	d->chunk = info.max_transfer / d->ns.block_size;
	if (d->chunk > NLB_MAX)
		d->chunk = NLB_MAX;
	d->chunk *= d->ns.block_size;
	if (!d->chunk || d->ns.blocks > INT64_MAX / d->ns.block_size) {
		nbdkit_error("%s: a block is more than the controller transfers at once, or the "
			     "namespace is larger than 2^63 bytes",
			     config.uri);
		return -1;
	}
	return open_queues(d, info.io_queues);
}

static void *rdn_open(int readonly)
{
	struct disk *d = calloc(1, sizeof(*d));

	(void)readonly;
	if (!d) {
		nbdkit_error("out of memory");
		return NULL;
	}
	d->keeper_stop = -1;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->returned, NULL);
	if (connect_disk(d) || start_keeper(d)) {
		rdn_close(d);
		return NULL;
	}
	return d;
}

/* ---- what the disk is and can do ---- */

static int64_t rdn_get_size(void *handle)
{
	const struct disk *d = handle;

	return (int64_t)(d->ns.blocks * d->ns.block_size);
}

static int rdn_block_size(void *handle, uint32_t *minimum, uint32_t *preferred, uint32_t *maximum)
{
	const struct disk *d = handle;

	*minimum = d->ns.block_size;
	*preferred = d->ns.block_size > 4096 ? d->ns.block_size : 4096;
	*maximum = REQUEST_MAX;
	return 0;
}

/* Flush is about the namespace: one on any connection covers the writes of all (NVM 3.2.1). */
static int rdn_can_multi_conn(void *handle)
{
	return 1;
}

static int rdn_can_fua(void *handle)
{
	return NBDKIT_FUA_NATIVE;
}

static int rdn_can_trim(void *handle)
{
	const struct disk *d = handle;

	return !!(d->oncs & ONCS_DSM);
}

/* Without Write Zeroes nbdkit writes zeroes itself. */
static int rdn_can_zero(void *handle)
{
	const struct disk *d = handle;

	return !!(d->oncs & ONCS_WRITE_ZEROES);
}

/* ---- requests ---- */

static struct rdinit_qpair *take_queue(struct disk *d)
{
	struct rdinit_qpair *qp;

	pthread_mutex_lock(&d->lock);
	while (!d->n_idle)
		pthread_cond_wait(&d->returned, &d->lock);
	qp = d->idle[--d->n_idle];
	pthread_mutex_unlock(&d->lock);
	return qp;
}

static void return_queue(struct disk *d, struct rdinit_qpair *qp)
{
	pthread_mutex_lock(&d->lock);
	d->idle[d->n_idle++] = qp;
	pthread_cond_signal(&d->returned);
	pthread_mutex_unlock(&d->lock);
}

/* Say why, and give the client the error number of NBD that is nearest. Returns -1. */
static int failed(int rc)
{
	uint16_t code = rc == -EIO ? rdinit_last_status() & 0x7ff : 0;

	nbdkit_error("%s", rdinit_get_error());
	if (code == STATUS_READ_ONLY)
		nbdkit_set_error(EROFS);
	else if (code == STATUS_CAPACITY || code == STATUS_LBA_RANGE)
		nbdkit_set_error(ENOSPC);
	else
		nbdkit_set_error(rc == -EIO || rc == -ENOMEM || rc == -EINVAL ? -rc : ESHUTDOWN);
	return -1;
}

static int check_blocks(const struct disk *d, uint64_t offset, uint32_t count)
{
	if ((offset | count) % d->ns.block_size == 0)
		return 0;
	nbdkit_error("offset %llu, length %u: not multiples of the namespace's block size (%u); "
		     "nbdkit's blocksize filter allows them",
		     (unsigned long long)offset, count, d->ns.block_size);
	nbdkit_set_error(EINVAL);
	return -1;
}

static int rdn_pread(void *handle, void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct disk *d = handle;
	struct rdinit_qpair *qp;
	unsigned char *to = buf;
	int rc = 0;

	if (check_blocks(d, offset, count))
		return -1;
	qp = take_queue(d);
	while (count && !rc) {
		uint32_t n = count < d->chunk ? count : d->chunk;

		rc = rdinit_read(qp, &d->ns, offset / d->ns.block_size, n / d->ns.block_size, to,
				 0);
		to += n;
		offset += n;
		count -= n;
	}
	return_queue(d, qp);
	return rc ? failed(rc) : 0;
}

static int rdn_pwrite(void *handle, const void *buf, uint32_t count, uint64_t offset,
		      uint32_t flags)
{
	struct disk *d = handle;
	struct rdinit_qpair *qp;
	const unsigned char *from = buf;
	unsigned int fua = flags & NBDKIT_FLAG_FUA ? RDINIT_IO_FUA : 0;
	int rc = 0;

	if (check_blocks(d, offset, count))
		return -1;
	qp = take_queue(d);
	while (count && !rc) {
		uint32_t n = count < d->chunk ? count : d->chunk;

		rc = rdinit_write(qp, &d->ns, offset / d->ns.block_size, n / d->ns.block_size, from,
				  fua);
		from += n;
		offset += n;
		count -= n;
	}
	return_queue(d, qp);
	return rc ? failed(rc) : 0;
}

static int rdn_flush(void *handle, uint32_t flags)
{
	struct disk *d = handle;
	struct rdinit_qpair *qp = take_queue(d);
	int rc = rdinit_flush(qp, &d->ns);

	return_queue(d, qp);
	return rc ? failed(rc) : 0;
}

static void put_le32(struct rdinit_passthru *cmd, unsigned int at, uint32_t value)
{
	value = htole32(value);
	memcpy(&cmd->sqe[at], &value, sizeof(value));
}

static int write_nbd_zeroes(struct disk *d, struct rdinit_qpair *qp, uint64_t lba, uint32_t blocks,
			    uint32_t flags)
{
	struct rdinit_passthru cmd;

	rdinit_passthru_init(&cmd);
	cmd.sqe[0] = OPCODE_WRITE_ZEROES;
	put_le32(&cmd, 4, d->ns.nsid);
	put_le32(&cmd, 40, (uint32_t)lba);
	put_le32(&cmd, 44, (uint32_t)(lba >> 32));
	put_le32(&cmd, 48, (blocks - 1) | flags);
	return rdinit_io_passthru(qp, &cmd, NULL);
}

static int rdn_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct disk *d = handle;
	struct rdinit_qpair *qp;
	uint64_t lba = offset / d->ns.block_size;
	uint32_t left = count / d->ns.block_size;
	uint32_t bits = (flags & NBDKIT_FLAG_MAY_TRIM ? ZEROES_DEALLOCATE : 0) |
			(flags & NBDKIT_FLAG_FUA ? ZEROES_FUA : 0);
	int rc = 0;

	if (check_blocks(d, offset, count))
		return -1;
	qp = take_queue(d);
	while (left && !rc) {
		uint32_t n = left < NLB_MAX ? left : NLB_MAX;

		rc = write_nbd_zeroes(d, qp, lba, n, bits);
		lba += n;
		left -= n;
	}
	return_queue(d, qp);
	return rc ? failed(rc) : 0;
}

/* One range of Dataset Management: up to 2^32 - 1 blocks, and @count has fewer. */
static int deallocate(struct disk *d, struct rdinit_qpair *qp, uint64_t lba, uint32_t blocks)
{
	unsigned char range[16] = {0}; /* attributes, blocks, first block */
	struct rdinit_passthru cmd;

	blocks = htole32(blocks);
	lba = htole64(lba);
	memcpy(range + 4, &blocks, sizeof(blocks));
	memcpy(range + 8, &lba, sizeof(lba));
	rdinit_passthru_init(&cmd);
	cmd.sqe[0] = OPCODE_DSM;
	put_le32(&cmd, 4, d->ns.nsid);
	put_le32(&cmd, 44, DSM_DEALLOCATE); /* dword 10: one range, as 0 */
	cmd.data = range;
	cmd.len = sizeof(range);
	cmd.flags = RDINIT_PASSTHRU_WRITE;
	return rdinit_io_passthru(qp, &cmd, NULL);
}

static int rdn_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct disk *d = handle;
	struct rdinit_qpair *qp;
	int rc;

	if (check_blocks(d, offset, count))
		return -1;
	if (!count)
		return 0;
	qp = take_queue(d);
	rc = deallocate(d, qp, offset / d->ns.block_size, count / d->ns.block_size);
	/* Dataset Management has no FUA. */
	if (!rc && (flags & NBDKIT_FLAG_FUA))
		rc = rdinit_flush(qp, &d->ns);
	return_queue(d, qp);
	return rc ? failed(rc) : 0;
}

static struct nbdkit_plugin plugin = {
	.name = "rdinit",
	.longname = "nbdkit rdinit plugin",
	.description = "A namespace of an NVMe over Fabrics (RDMA) target, without the kernel",
	.magic_config_key = "uri",
	.config_help =
		"uri=<URI>       (required) nvme+rdma://HOST[:PORT]/SUBNQN[/NSID]\n"
		"queues=<N>      I/O queues of each client (default 4)\n"
		"hostnqn=<NQN>   Our host NQN (default: /etc/nvme/hostnqn, or derived)\n"
		"hostid=<UUID>   Our host identifier (default: /etc/nvme/hostid, or derived)\n"
		"provider=<NAME> auto, iwarp or verbs (default auto)",
	.config = rdn_config,
	.config_complete = rdn_config_complete,
	.unload = rdn_unload,
	.open = rdn_open,
	.close = rdn_close,
	.get_size = rdn_get_size,
	.block_size = rdn_block_size,
	.can_multi_conn = rdn_can_multi_conn,
	.can_fua = rdn_can_fua,
	.can_trim = rdn_can_trim,
	.can_zero = rdn_can_zero,
	.can_fast_zero = rdn_can_zero,
	.pread = rdn_pread,
	.pwrite = rdn_pwrite,
	.flush = rdn_flush,
	.zero = rdn_zero,
	.trim = rdn_trim,
};

/* The macro defines it without having declared it, of which clang warns. */
__attribute__((visibility("default"))) struct nbdkit_plugin *plugin_init(void);

NBDKIT_REGISTER_PLUGIN(plugin)
