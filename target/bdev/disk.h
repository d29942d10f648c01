/* SPDX-License-Identifier: BSD-3-Clause */
/* Capabilities of a block device, from sysfs. */
#ifndef RDT_DISK_H
#define RDT_DISK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct rdt_disk_caps {
	bool discard;
	bool write_zeroes;
	/* Largest transfer in bytes for which IOPOLL can be used; 0: none. The kernel cannot poll
	 * for I/O that it has to split: Linux 6.1 retries it for ever. */
	uint32_t poll_max;
};

/* @dev may be a partition. All false and 0 if sysfs has no such device. */
void rdt_disk_caps(dev_t dev, struct rdt_disk_caps *caps);
/* Bytes; 0: sysfs does not know the device. */
uint64_t rdt_disk_size(dev_t dev);
/* The diskseq number (Linux 5.15), unique to each disk; a partition has its disk's. 0: unknown. */
uint64_t rdt_disk_seq(dev_t dev);

#endif /* RDT_DISK_H */
