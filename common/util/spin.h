/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spin, then sleep: the policy of loops and of librdinit's waiting calls. It reads no clock: its
 * user tells it the times.
 *
 * After work a thread polls for @ns before it sleeps. After RD_SPIN_MISSES gaps in a row that were
 * longer than @ns plus RD_SPIN_WAKE_NS it sleeps at once, until a gap is short again. A gap is the
 * time from the end of work to the next work. RD_SPIN_WAKE_NS, a wake-up, is in the limit because
 * it is a part of each gap that a sleeping thread measures. So a trickle of work costs no polling,
 * and steady work is found without a wake-up.
 *
 * One thread at a time.
 */
#ifndef RD_UTIL_SPIN_H
#define RD_UTIL_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define RD_SPIN_WAKE_NS UINT64_C(100000)
#define RD_SPIN_MISSES  4

/* Set @ns; initialize the rest to 0. */
struct rd_spin {
	uint64_t ns;         /* how long to poll after work; 0: never */
	unsigned int misses; /* long gaps in a row, up to RD_SPIN_MISSES */
};

/* Whether to continue polling, @since ns after the last work; if not, sleep until there is work. */
static inline bool rd_spin_looks(const struct rd_spin *spin, uint64_t since)
{
	return since < spin->ns && spin->misses < RD_SPIN_MISSES;
}

/*
 * There is work again, @gap ns after the last (UINT64_MAX: there is none, and waiting has ended).
 */
static inline void rd_spin_note(struct rd_spin *spin, uint64_t gap)
{
	if (gap <= spin->ns + RD_SPIN_WAKE_NS)
		spin->misses = 0;
	else if (spin->misses < RD_SPIN_MISSES)
		spin->misses++;
}

#endif /* RD_UTIL_SPIN_H */
