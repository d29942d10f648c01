/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/spin.h"

/* From here to @due and @ns more is when work is due. */
static uint64_t due_from(const struct rd_spin *spin)
{
	uint64_t before = spin->ns + RD_SPIN_TIMER_NS;

	return spin->due > before ? spin->due - before : 0;
}

uint64_t rd_spin_wait(const struct rd_spin *spin, uint64_t since)
{
	uint64_t from;

	if (!rd_spin_looks(spin))
		return UINT64_MAX;
	if (since < spin->ns && spin->misses < RD_SPIN_MISSES)
		return 0;
	if (spin->trust < RD_SPIN_TRUST || since >= spin->due + spin->ns)
		return UINT64_MAX;
	from = due_from(spin);
	return since + RD_SPIN_NAP_MIN_NS < from ? from - since : 0;
}

static void trust(struct rd_spin *spin, bool was_due)
{
	if (was_due)
		spin->trust += spin->trust < 2 * RD_SPIN_TRUST;
	else
		spin->trust -= spin->trust < 2 ? spin->trust : 2;
}

/* Learn from a gap longer than a look. */
static void learn(struct rd_spin *spin, uint64_t gap)
{
	if (gap > RD_SPIN_NAP_MAX_NS) {
		trust(spin, false);
		return;
	}
	trust(spin, gap >= due_from(spin) && gap < spin->due + spin->ns);
	/* Fast down and slowly up: a nap that is too long costs what it is to save. */
	if (!spin->due)
		spin->due = gap;
	else if (gap < spin->due)
		spin->due -= (spin->due - gap) / 4;
	else
		spin->due += (gap - spin->due) / 16;
}

void rd_spin_note(struct rd_spin *spin, uint64_t gap)
{
	if (gap <= spin->ns + RD_SPIN_WAKE_NS)
		spin->misses = 0;
	else if (spin->misses < RD_SPIN_MISSES)
		spin->misses++;
	if (gap > spin->ns)
		learn(spin, gap);
}
