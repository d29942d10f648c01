/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for data: anonymous, zeroed, and in large pages if the kernel has any.
 *
 * Large pages (transparent huge pages; no setting of the machine is needed) are requested, never
 * required. Copies between them and sockets miss the TLB less often, and a device sees one segment
 * instead of thirty-two: virtio disks without indirect descriptors hold several times as many large
 * transfers.
 */
#ifndef RD_UTIL_IOMEM_H
#define RD_UTIL_IOMEM_H

#include <stddef.h>

/*
 * Maps @len bytes, page aligned; from the size of a large page on aligned to that. Returns NULL
 * with errno of mmap(2) on failure.
 */
void *rd_iomem_map(size_t len);
/*
 * Allocates all pages now, as far as the kernel can (Linux 5.14): the first use of a page costs
 * more time, and memory that grows by large pages looks like a leak.
 */
void rd_iomem_populate(void *p, size_t len);
/*
 * Keeps small pages for a page-aligned part that is only read: all of them are the one page of
 * zeroes.
 */
void rd_iomem_keep_small(void *p, size_t len);
/* @len: of the mapping. NULL is allowed. */
void rd_iomem_unmap(void *p, size_t len);

#endif /* RD_UTIL_IOMEM_H */
