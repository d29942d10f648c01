/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When whoever waits for work looks for it, and when it sleeps: the policy of loops and of
 * librdinit's calls that wait. It has no clock of its own and does nothing; its user says how long
 * ago there was work, and how long each wait took.
 *
 * A gap is the time from the end of work to the next, and it is short when it is at most the time
 * that is looked, and RD_SPIN_WAKE_NS, which being woken takes. After RD_SPIN_MISSES long gaps in
 * a row one sleeps at once when there is nothing to do; after one short gap one looks again. So a
 * trickle of work costs no looking, and steady work is found without a wake-up.
 *
 * What takes longer may still come when it is due, as the answers of a disk do. So the gaps longer
 * than a look are learned: @due is a length that few of them fall short of, and while most of
 * them end about then, one naps: sleeps with a timer until shortly before, and looks until shortly
 * after. Such work is found without a wake-up as well, for a fraction of the time.
 *
 * Not for use by several threads at once.
 */
#ifndef RD_UTIL_SPIN_H
#define RD_UTIL_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define RD_SPIN_WAKE_NS UINT64_C(100000)
#define RD_SPIN_MISSES  4
/* No nap before what takes longer than this: being woken is little beside it. */
#define RD_SPIN_NAP_MAX_NS UINT64_C(1000000)
/* Nor before what takes hardly longer than a look: a nap has a timer and a system call. */
#define RD_SPIN_NAP_MIN_NS UINT64_C(20000)
/* A nap ends so long before the look that it is for: the timer is late, too. */
#define RD_SPIN_TIMER_NS UINT64_C(30000)
/* Work that came when it was due counts 1, what did not -2, from 0 to twice this; naps from here.
 */
#define RD_SPIN_TRUST 4

/* Set @ns and clear the rest. */
struct rd_spin {
	uint64_t ns;         /* look so long after work; 0: never */
	unsigned int misses; /* long gaps in a row, up to RD_SPIN_MISSES */
	unsigned int trust;  /* in @due */
	uint64_t due;        /* after so long; 0: not known */
};

/* Whether there is any looking at present; if not, rd_spin_wait() always says to sleep. */
static inline bool rd_spin_looks(const struct rd_spin *spin)
{
	return spin->ns && (spin->misses < RD_SPIN_MISSES || spin->trust >= RD_SPIN_TRUST);
}

/* How long to sleep, @since ns after the last work: 0: look; UINT64_MAX: until there is some. */
uint64_t rd_spin_wait(const struct rd_spin *spin, uint64_t since);

/* There was work again, @gap ns after the last (UINT64_MAX: there was none, and no more waiting).
 */
void rd_spin_note(struct rd_spin *spin, uint64_t gap);

#endif /* RD_UTIL_SPIN_H */
