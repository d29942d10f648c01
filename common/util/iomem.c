/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/iomem.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * The size on x86-64, and on arm64 with pages of 4 KiB. On machines with larger ones the kernel
 * uses those that fit.
 */
#define LARGE_PAGE ((size_t)2 << 20)

static void *map_pages(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void *rd_iomem_map(size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), head;
	char *p;

	if (len < LARGE_PAGE || len > SIZE_MAX - 2 * LARGE_PAGE)
		return map_pages(len);
	len = (len + page - 1) & ~(page - 1);
	p = map_pages(len + LARGE_PAGE);
	if (!p)
		return NULL;
	head = -(uintptr_t)p & (LARGE_PAGE - 1);
	if (head)
		munmap(p, head);
	munmap(p + head + len, LARGE_PAGE - head);
	/* Fails if the kernel has no large pages: then the pages are small. */
	madvise(p + head, len, MADV_HUGEPAGE);
	return p + head;
}

void rd_iomem_populate(void *p, size_t len)
{
#ifdef MADV_POPULATE_WRITE
	madvise(p, len, MADV_POPULATE_WRITE);
#endif
}

void rd_iomem_keep_small(void *p, size_t len)
{
	madvise(p, len, MADV_NOHUGEPAGE);
}

void rd_iomem_unmap(void *p, size_t len)
{
	if (p)
		munmap(p, len);
}
