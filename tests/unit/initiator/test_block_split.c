/* SPDX-License-Identifier: BSD-3-Clause */
/* How the command line cuts byte ranges into pieces. */
#include <CUnit/CUnit.h>

#include "cli.h"
#include "suites.h"

/* Walk a range; check that the pieces cover it exactly, and return their number. */
static unsigned int block_split_walk(uint64_t pos, uint64_t len, uint32_t bs, uint32_t max)
{
	uint64_t done = 0;
	unsigned int n = 0;

	while (done < len) {
		struct cli_piece p;

		cli_piece_next(pos + done, len - done, bs, max, &p);
		CU_ASSERT_EQUAL(p.lba * bs + p.skip, pos + done);
		CU_ASSERT_TRUE(p.bytes > 0 && p.bytes <= len - done);
		CU_ASSERT_TRUE(p.nblocks * bs <= max);
		if (p.partial) {
			CU_ASSERT_EQUAL(p.nblocks, 1);
			CU_ASSERT_TRUE(p.bytes < bs && p.skip + p.bytes <= bs);
		} else {
			CU_ASSERT_EQUAL(p.skip, 0);
			CU_ASSERT_EQUAL(p.bytes, p.nblocks * bs);
		}
		if (p.bytes == 0)
			break;
		done += p.bytes;
		n++;
	}
	return n;
}

static void tiles(void)
{
	uint64_t pos, len;

	for (pos = 0; pos < 1100; pos += 37) {
		for (len = 1; len < 9000; len += 113)
			block_split_walk(pos, len, 512, 2048);
	}
	CU_ASSERT_EQUAL(block_split_walk(0, 4096, 512, 2048), 2);
	CU_ASSERT_EQUAL(block_split_walk(0, 1, 512, 2048), 1);
	CU_ASSERT_EQUAL(block_split_walk(511, 2, 512, 2048), 2);
	CU_ASSERT_EQUAL(block_split_walk(1, 1023, 512, 2048), 2); /* head, one block */
	CU_ASSERT_EQUAL(block_split_walk(1, 1024, 512, 2048), 3); /* head, one block, tail */
	CU_ASSERT_EQUAL(block_split_walk(0, UINT64_C(70000) * 512, 512, 64u << 20),
			2); /* 65536 blocks at most */
	CU_ASSERT_EQUAL(block_split_walk(UINT64_MAX - 4095, 4095, 4096, 4096), 1);
}

const struct t_case t_block_split_cases[] = {
	{"pieces tile every range, whole blocks or inside one", tiles},
	{NULL, NULL},
};
