/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spin, then sleep: the policy of loops and of librdinit's calls that wait. It has no clock of its
 * own; its user says how long ago there was work, and how long each wait took.
 *
 * The rule: after work a thread looks for more for @ns before it sleeps, and after RD_SPIN_MISSES
 * gaps in a row that were longer than @ns and a wake-up (RD_SPIN_WAKE_NS) it sleeps at once, until
 * a gap is short again.
 *
 * A gap is the time from the end of work to the next work. A wake-up is in the limit because a
 * thread that sleeps measures gaps with it. So a trickle of work costs no spinning, and steady work
 * is found without a wake-up.
 *
 * Not for use by several threads at once.
 */
#ifndef RD_UTIL_SPIN_H
#define RD_UTIL_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define RD_SPIN_WAKE_NS UINT64_C(100000)
#define RD_SPIN_MISSES  4

/* Set @ns and clear the rest. */
struct rd_spin {
	uint64_t ns;         /* look so long after work; 0: never */
	unsigned int misses; /* long gaps in a row, up to RD_SPIN_MISSES */
};

/* Whether to look on, @since ns after the last work; if not, sleep until there is some. */
static inline bool rd_spin_looks(const struct rd_spin *spin, uint64_t since)
{
	return since < spin->ns && spin->misses < RD_SPIN_MISSES;
}

/* There was work again, @gap ns after the last (UINT64_MAX: there was none, and no more waiting).
 */
static inline void rd_spin_note(struct rd_spin *spin, uint64_t gap)
{
	if (gap <= spin->ns + RD_SPIN_WAKE_NS)
		spin->misses = 0;
	else if (spin->misses < RD_SPIN_MISSES)
		spin->misses++;
}

#endif /* RD_UTIL_SPIN_H */
