/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The disk of the plugin: one device (rdinit_dev.h) for all clients of nbdkit, with several
 * channels that their requests are distributed to. Functions that return -1 have called
 * nbdkit_error(), and nbdkit_set_error() if a client gets the error.
 */
#ifndef RDN_DISK_H
#define RDN_DISK_H

#include "rdinit_dev.h"

#define RDN_QUEUES_MAX 64u

struct rdn_disk;

/* The parameters of the plugin. */
struct rdn_config {
	struct rdinit_uri uri[RDINIT_DEV_PATHS_MAX];
	unsigned int n_uri;
	struct rdinit_uri discovery; /* subnqn is "" without discovery */
	struct rdinit_ctrl_opts ctrl;
	struct rdinit_dev_opts dev; /* channels: the number of queues */
};

/* The reason of the library's last error, without the name of its function. */
const char *rdn_lib_text(void);

/* Checks the parameters as far as that is possible without connecting. */
int rdn_disk_check(const struct rdn_config *config);
/* Connects, and waits until the namespace is usable. @config must stay valid until
 * rdn_disk_close(). */
int rdn_disk_open(const struct rdn_config *config, struct rdn_disk **out);
/* Call when no request is in progress. NULL and a disk that failed to open are allowed. */
void rdn_disk_close(struct rdn_disk **disk);
/* Retries lost paths at once; called when a client connects. */
void rdn_disk_retry(struct rdn_disk *disk);
int rdn_disk_info(struct rdn_disk *disk, struct rdinit_dev_info *info);

/* The allocated ranges among @blocks blocks from @lba on, as rdinit_dev_extents(). Any thread. */
int rdn_disk_extents(struct rdn_disk *disk, uint64_t lba, uint64_t blocks,
		     struct rdinit_dev_extent *list, uint64_t *known);

/*
 * Executes a client's request of any size, as commands of at most @max blocks; returns when all
 * have completed. @io: the command, with the first block and the data of the whole request; its
 * nblocks is ignored. Any thread.
 */
int rdn_disk_run(struct rdn_disk *disk, const struct rdinit_dev_io *io, uint64_t blocks,
		 uint32_t max);

#endif /* RDN_DISK_H */
