/* SPDX-License-Identifier: BSD-3-Clause */
/* Splits byte ranges at block boundaries. */
#include "cli.h"

#define NLB_MAX 65536u /* limit of blocks of one command */

void cli_piece_next(uint64_t pos, uint64_t left, uint32_t bs, uint32_t max, struct cli_piece *out)
{
	uint64_t whole = left / bs;

	out->lba = pos / bs;
	out->skip = (uint32_t)(pos % bs);
	out->partial = out->skip || whole == 0;
	if (out->partial) {
		out->nblocks = 1;
		out->bytes = bs - out->skip;
		if (out->bytes > left)
			out->bytes = (uint32_t)left;
		return;
	}
	if (whole > max / bs)
		whole = max / bs;
	if (whole > NLB_MAX)
		whole = NLB_MAX;
	out->nblocks = (uint32_t)whole;
	out->bytes = out->nblocks * bs;
}
