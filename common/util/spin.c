/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/spin.h"

uint64_t rd_spin_wait(const struct rd_spin *spin, uint64_t since)
{
	return rd_spin_looks(spin) && since < spin->ns ? 0 : UINT64_MAX;
}

void rd_spin_note(struct rd_spin *spin, uint64_t gap)
{
	if (gap <= spin->ns + RD_SPIN_WAKE_NS)
		spin->misses = 0;
	else if (spin->misses < RD_SPIN_MISSES)
		spin->misses++;
}
