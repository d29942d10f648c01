/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults of a world. Their kind, time and duration follow from the seed. */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include <stdint.h>

struct world;
struct faults;

enum fault_kind {
	FAULT_CUT,       /* a connection is lost */
	FAULT_HALF_OPEN, /* only one end learns that soon */
	FAULT_HOLD,      /* messages wait */
	FAULT_PORT,      /* a path takes no connections */
	FAULT_STALL,     /* a reactor, or a host, stands still */
	FAULT_SLOW,      /* storage takes seconds */
	FAULT_ERROR,     /* reads and writes fail */
	FAULT_SPACE,     /* there is no space for writes */
	FAULT_SYNC,      /* a sync fails; later the target is restarted */
	FAULT_RESTART,   /* the target drains and starts again */
	FAULT_POWER,     /* the target and its storage lose power */
	FAULT_CANCEL,    /* a host cancels a command */
	FAULT_RELOAD,    /* the configuration changes, in a third of the seeds */
	FAULT_BLOCK,     /* a reactor stands still within a turn, in a call of the storage */
	FAULT_RESERVE,   /* hosts change reservations, in a third of the seeds, all the time */
	FAULT_HUNG,      /* a disk beside that of the hosts hangs: sick.h */
	FAULT_UPGRADE,   /* the target hands over to another one: upgrade.h; only on request */
	FAULTS,
};
/*
 * Not a fault either: the profile that aims at keys that change. There is little I/O, and minutes
 * pass in few steps, so that replaced keys end; the observer connects again and again, with old
 * keys and wrong ones, and falls silent.
 */
#define FAULTS_KEYS (1u << 30)
/*
 * Not a fault of its own: the profile that aims at the stale-write fence. One reactor at a time
 * stands still for longer than hosts wait before they send lost writes again, hosts write few
 * blocks, and the storage is slow.
 */
#define FAULTS_FENCE (1u << 31)

/* One of so many seeds has that profile if all faults may happen. */
#define FAULTS_FENCE_IN 3u

/* By enum fault_kind, or by that of gateways/faults.c; the last one is NULL. */
extern const char *const fault_names[];
/* The bit of "upgrade" in the program that is linked. */
extern const unsigned int fault_upgrade;
/* Those that happen only by a choice. */
extern const unsigned int faults_on_request;

/* All faults of the program that is linked. */
static inline unsigned int faults_named(void)
{
	unsigned int count = 0;

	while (fault_names[count])
		count++;
	return (1u << count) - 1;
}

/* Those that happen without a choice. */
static inline unsigned int faults_all(void)
{
	return faults_named() & ~faults_on_request;
}

int faults_new(struct world *w, struct faults **out);
void faults_free(struct faults *f);
/* Ends all faults that last. */
void faults_heal(struct faults *f);

#endif /* SIM_FAULTS_H */
