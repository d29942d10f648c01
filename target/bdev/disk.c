/* SPDX-License-Identifier: BSD-3-Clause */
#include "disk.h"

#include <stdio.h>
#include <sys/sysmacros.h>

#define PAGE     4096u
#define POLL_MAX (1u << 20)

/* A numeric attribute in sysfs, of the disk if a partition has none. 0: not available. */
static uint64_t disk_attr(dev_t dev, const char *name)
{
	unsigned long long value = 0;
	char path[128];

	for (int i = 0; i < 2; i++) {
		FILE *f;

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u%s/%s", major(dev), minor(dev),
			 i ? "/.." : "", name);
		f = fopen(path, "re");
		if (!f)
			continue;
		if (fscanf(f, "%llu", &value) != 1)
			value = 0;
		fclose(f);
		break;
	}
	return value;
}

/* Largest transfer that the kernel never splits: it fits into one request with a segment for each
 * page. 0 if the device splits at boundaries. */
static uint32_t poll_max(dev_t dev)
{
	uint64_t segments = disk_attr(dev, "queue/max_segments"),
		 bytes = disk_attr(dev, "queue/max_sectors_kb") << 10;

	if (!disk_attr(dev, "queue/io_poll") || disk_attr(dev, "queue/chunk_sectors") ||
	    segments < 2)
		return 0;
	/* A buffer that is not page aligned needs one segment more. */
	if (bytes > (segments - 1) * PAGE)
		bytes = (segments - 1) * PAGE;
	return bytes < POLL_MAX ? (uint32_t)bytes : POLL_MAX;
}

void rdt_disk_caps(dev_t dev, struct rdt_disk_caps *caps)
{
	caps->discard = disk_attr(dev, "queue/discard_max_bytes");
	caps->write_zeroes = disk_attr(dev, "queue/write_zeroes_max_bytes");
	caps->poll_max = poll_max(dev);
}

uint64_t rdt_disk_size(dev_t dev)
{
	return disk_attr(dev, "size") << 9;
}

uint64_t rdt_disk_seq(dev_t dev)
{
	return disk_attr(dev, "diskseq");
}
