/* SPDX-License-Identifier: BSD-3-Clause */
#include "disk.h"

#include <stdio.h>
#include <sys/sysmacros.h>

#define PAGE     4096u
#define POLL_MAX (1u << 20)

/* A number of the device's queue, from sysfs; a partition has its disk's. 0: there is none. */
static uint64_t queue_attr(dev_t dev, const char *name)
{
	unsigned long long value = 0;
	char path[128];

	for (int i = 0; i < 2; i++) {
		FILE *f;

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u%s/queue/%s", major(dev),
			 minor(dev), i ? "/.." : "", name);
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

/* What is never split: within the limits of one request, with each page a segment, and nowhere
 * where the device has boundaries. */
static uint32_t poll_max(dev_t dev)
{
	uint64_t segments = queue_attr(dev, "max_segments"),
		 bytes = queue_attr(dev, "max_sectors_kb") << 10;

	if (!queue_attr(dev, "io_poll") || queue_attr(dev, "chunk_sectors") || segments < 2)
		return 0;
	/* Memory need not begin with a page. */
	if (bytes > (segments - 1) * PAGE)
		bytes = (segments - 1) * PAGE;
	return bytes < POLL_MAX ? (uint32_t)bytes : POLL_MAX;
}

void rdt_disk_caps(dev_t dev, struct rdt_disk_caps *caps)
{
	caps->discard = queue_attr(dev, "discard_max_bytes");
	caps->write_zeroes = queue_attr(dev, "write_zeroes_max_bytes");
	caps->poll_max = poll_max(dev);
}
