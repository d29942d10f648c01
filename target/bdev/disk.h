/* SPDX-License-Identifier: BSD-3-Clause */
/* What a block device can do by itself, from sysfs. */
#ifndef RDT_DISK_H
#define RDT_DISK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct rdt_disk_caps {
	bool discard;
	bool write_zeroes;
	/*
	 * Results of transfers up to so many bytes can be looked for, without interrupts; 0: of
	 * none. What the kernel has to split is not polled for, and Linux 6.1 tries it for ever.
	 */
	uint32_t poll_max;
};

/* Of @dev, which may be a partition; all false and 0 where sysfs does not know it. */
void rdt_disk_caps(dev_t dev, struct rdt_disk_caps *caps);

#endif /* RDT_DISK_H */
