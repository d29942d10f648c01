/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for data: its address, its population, and that it is unmapped as a whole. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "suites.h"
#include "util/iomem.h"

#define LARGE ((size_t)2 << 20)

/* Pages of the address space from @p on that are mapped, up to @len. */
static size_t mapped(const char *p, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0;
	unsigned char here;

	for (size_t at = 0; at < len; at += page)
		n += mincore((void *)(uintptr_t)(p + at), page, &here) == 0;
	return n;
}

static void sizes(void)
{
	static const size_t lens[] = {1, 4096, LARGE - 4096, LARGE, LARGE + 1, 3 * LARGE + 8192};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		size_t len = lens[i], pages = (len + page - 1) / page;
		char *p = rd_iomem_map(len);

		CU_ASSERT_PTR_NOT_NULL_FATAL(p);
		CU_ASSERT_EQUAL((uintptr_t)p % (len < LARGE ? page : LARGE), 0);
		for (size_t at = 0; at < len; at += 509)
			CU_ASSERT_FALSE_FATAL(p[at]);
		memset(p, 0xa5, len);
		CU_ASSERT_EQUAL(mapped(p, pages * page), pages);
		rd_iomem_unmap(p, len);
		CU_ASSERT_EQUAL(mapped(p, pages * page), 0);
	}
	rd_iomem_unmap(NULL, LARGE);
}

/* Populated before use, if the kernel can do that, except for small mappings. */
static void populated(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), len = 2 * LARGE, n = 0;
	char *p = rd_iomem_map(len);
	unsigned char *here = calloc(len / page, 1);

	CU_ASSERT_PTR_NOT_NULL_FATAL(p);
	CU_ASSERT_PTR_NOT_NULL_FATAL(here);
	rd_iomem_keep_small(p + LARGE, LARGE);
	rd_iomem_populate(p, LARGE);
	CU_ASSERT_EQUAL(mincore(p, len, here), 0);
	for (size_t i = 0; i < len / page; i++)
		n += here[i] & 1;
	/* Linux before 5.14 does not support it. */
	CU_ASSERT(n == LARGE / page || n == 0);
	for (size_t at = 0; at < len; at += 509)
		CU_ASSERT_FALSE_FATAL(p[at]);
	free(here);
	rd_iomem_unmap(p, len);
}

static void too_much(void)
{
	errno = 0;
	CU_ASSERT_PTR_NULL(rd_iomem_map(SIZE_MAX));
	CU_ASSERT_NOT_EQUAL(errno, 0);
	CU_ASSERT_PTR_NULL(rd_iomem_map(SIZE_MAX / 2));
	CU_ASSERT_NOT_EQUAL(errno, 0);
}

const struct t_case t_iomem_cases[] = {
	{"memory of every size, aligned and zeroed", sizes},
	{"memory that is there from the start", populated},
	{"more than there is", too_much},
	{NULL},
};
