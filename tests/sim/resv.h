/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model of the reservations of one namespace, and whether the target's answers agree with it.
 *
 * Hosts send reservation commands at the same time, and some are lost, so that nobody knows the
 * state. The model keeps every state that is possible: each command that has begun may have taken
 * effect or not, in any order. An answer removes the states that contradict it; without a state
 * left, the answer was wrong.
 */
#ifndef SIM_RESV_H
#define SIM_RESV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ABORTED_BY_PREEMPT 0x1b /* the status: Command Aborted due to Preempt and Abort */
#define RESV_HOSTS         3u
#define RESV_KEYS          3u /* keys are 1 to this */

enum resv_action {
	RESV_REGISTER,
	RESV_UNREGISTER,
	RESV_REPLACE,
	RESV_ACQUIRE,
	RESV_PREEMPT,
	RESV_PREEMPT_ABORT,
	RESV_RELEASE,
	RESV_CLEAR,
	RESV_REPORT,
};

enum resv_persist { RESV_KEEP = 0, RESV_FORGET = 2, RESV_PERSIST = 3 }; /* CPTPL */

struct resv_op {
	enum resv_action action;
	uint8_t host;
	uint8_t crkey;
	uint8_t key; /* NRKEY or PRKEY */
	uint8_t rtype;
	enum resv_persist persist;
};

/* What Reservation Report tells. */
struct resv_state {
	uint8_t rtype;  /* 0: no reservation */
	uint8_t holder; /* RESV_HOSTS: none, or all registrants */
	bool ptpl;
	uint8_t key[RESV_HOSTS]; /* 0: not registered */
};

/* The notifications that the hosts get, by the numbers of the log page. */
enum resv_note {
	RESV_NOTE_NONE,
	RESV_NOTE_UNREGISTERED, /* Registration Preempted */
	RESV_NOTE_RELEASED,     /* Reservation Released */
	RESV_NOTE_CLEARED,      /* Reservation Preempted */
	RESV_NOTES,
};
#define RESV_NOTE_BITS 0xeu /* a set of them has 1 << enum resv_note */

struct resv;

/* Returns NULL without memory. */
struct resv *resv_new(void);
void resv_free(struct resv *r);

/* A command begins. Returns its number, or -1: too many commands of which the effect is not known.
 */
int resv_begins(struct resv *r, const struct resv_op *op, uint64_t now);
/*
 * The command was answered with @status, an NVMe status code (0: success). @report: of a report,
 * what was returned. Returns false when no possible state explains that.
 */
bool resv_answered(struct resv *r, int number, unsigned int status, const struct resv_state *report,
		   uint64_t now);
/* The command has ended without an answer, and may take effect until resv_restarted() or
 * resv_settled(). */
void resv_lost(struct resv *r, int number, uint64_t now);
/*
 * The answer says that the command was not executed, and will not be. Returns false when the
 * command has taken effect in every possible state.
 */
bool resv_unexecuted(struct resv *r, int number, uint64_t now);
/* Commands that have ended take no effect any more. */
void resv_settled(struct resv *r, uint64_t now);
/* The target has ended: commands take no effect any more, and what does not persist is forgotten.
 */
void resv_restarted(struct resv *r, uint64_t now);

/* Whether the host was permitted to read or write at any time since @begin, and the opposite. */
bool resv_permitted(const struct resv *r, unsigned int host, bool write, uint64_t begin);
bool resv_forbidden(const struct resv *r, unsigned int host, bool write, uint64_t begin);
/* Whether a Preempt and Abort was in progress, or may have been, at some time since @begin. */
bool resv_may_abort(const struct resv *r, uint64_t begin);
/* Preempt and Abort of the host's registration was acknowledged, and it may not write since. */
bool resv_fenced(const struct resv *r, unsigned int host);
/* One of the possible states. */
const struct resv_state *resv_guess(const struct resv *r);
/*
 * The notifications of one host, of which a controller has a log. resv_listener(): which host,
 * before the first command. resv_log_begins(): from now on, or some time later, notifications are
 * in the log; none is masked. resv_log_runs(): they certainly are.
 */
void resv_listener(struct resv *r, unsigned int host);
void resv_log_begins(struct resv *r);
void resv_log_runs(struct resv *r, uint64_t now);
/* The host changes its mask: from now on these types may come; and these are certainly told. */
void resv_unmasks(struct resv *r, unsigned int possible, unsigned int certain, uint64_t now);
/* How many notifications of @note the log has, or had, since it began: at least, and at most. */
unsigned int resv_notes_certain(const struct resv *r, enum resv_note note);
unsigned int resv_notes_possible(const struct resv *r, enum resv_note note);
bool resv_overflowed(const struct resv *r); /* there are too many possible states */

#endif /* SIM_RESV_H */
