/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for data: anonymous, zeroed, and in large pages where the kernel has some to give.
 *
 * Large pages are asked for, never required (transparent huge pages; no setting of the machine is
 * needed). Copies between them and sockets miss the TLB less often, and a device sees one piece
 * where it would see thirty-two: virtio disks without indirect descriptors so hold several times as
 * many large transfers.
 */
#ifndef RD_UTIL_IOMEM_H
#define RD_UTIL_IOMEM_H

#include <stddef.h>

/* @len bytes, page aligned; from the size of a large page on aligned to that. NULL with errno of
 * mmap(2). */
void *rd_iomem_map(size_t len);
/*
 * Have all of it now, as far as the kernel can (Linux 5.14): a first use costs more time than any
 * other, and memory that comes in large pages as it is used looks like a leak.
 */
void rd_iomem_populate(void *p, size_t len);
/* Small pages for a part, page aligned, that is only ever read: they are all one page of zeroes. */
void rd_iomem_keep_small(void *p, size_t len);
/* @len is that of the mapping. NULL is fine. */
void rd_iomem_unmap(void *p, size_t len);

#endif /* RD_UTIL_IOMEM_H */
