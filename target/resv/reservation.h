/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservations of one namespace as pure logic: the effect of each action on registrants and holder,
 * the hosts to notify, and the commands that conflict (NVMe Base 2.0, 8.19). No threads, messages
 * or files: the commands are in resv_cmd.c, the file format in resv_file.c. */
#ifndef RDT_RESERVATION_H
#define RDT_RESERVATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvmf/text.h"
#include "nvmf/wire.h"

/* length of a Host Identifier; fabrics use the 128-bit one only */
#define RDT_RESV_HOST        16
#define RDT_RESV_REGISTRANTS 128u /* registrants of a namespace, at most */
#define RDT_RESV_OF_NAME     16u  /* maximum number of registrants with one host name */

struct rdt_registrant {
	uint8_t host[RDT_RESV_HOST];
	uint64_t key;
	/* A hash of its name, for the limit of each name; 0: unknown, because it was restored from
	 * a file */
	uint32_t name;
	/* unused with the All Registrants types, where every registrant is a holder */
	bool holder;
};

struct rdt_resv_state {
	uint32_t gen;
	uint8_t rtype; /* enum nvme_resv_rtype; 0: no reservation */
	bool ptpl;     /* persists through power loss */
	unsigned int count;
	struct rdt_registrant reg[RDT_RESV_REGISTRANTS];
};

enum rdt_resv_action {
	RDT_RESV_REGISTER,
	RDT_RESV_UNREGISTER,
	RDT_RESV_REPLACE,
	RDT_RESV_ACQUIRE,
	RDT_RESV_PREEMPT,
	RDT_RESV_PREEMPT_ABORT,
	RDT_RESV_RELEASE,
	RDT_RESV_CLEAR,
	RDT_RESV_PERSIST, /* change PTPL alone (Set Features 83h) */
};

struct rdt_resv_op {
	uint8_t action; /* enum rdt_resv_action */
	uint8_t host[RDT_RESV_HOST];
	uint32_t name; /* as in struct rdt_registrant */
	uint8_t rtype; /* ACQUIRE, PREEMPT*, RELEASE */
	uint8_t cptpl; /* REGISTER, UNREGISTER, REPLACE, PERSIST: enum nvme_resv_cptpl */
	bool iekey;    /* UNREGISTER, REPLACE: ignore the existing key */
	uint64_t crkey;
	uint64_t other_key; /* NRKEY of REGISTER and REPLACE, PRKEY of PREEMPT* */
};

/* The notifications that an action causes. */
struct rdt_resv_note {
	uint8_t host[RDT_RESV_HOST];
	uint8_t type; /* enum nvme_resv_notify_rnlpt */
};

struct rdt_resv_effects {
	unsigned int notes_count;
	struct rdt_resv_note notes[RDT_RESV_REGISTRANTS];
	unsigned int victims_count; /* PREEMPT_ABORT: hosts whose commands must be aborted */
	uint8_t victims[RDT_RESV_REGISTRANTS][RDT_RESV_HOST];
};

/* Apply @op to @s. On failure @s is unchanged and there are no effects. The caller has checked the
 * fields of the command that need no state (reserved values). */
struct nvme_status rdt_resv_apply(struct rdt_resv_state *s, const struct rdt_resv_op *op,
				  struct rdt_resv_effects *fx);

const struct rdt_registrant *rdt_resv_find(const struct rdt_resv_state *s, const uint8_t *host);
bool rdt_resv_type_valid(unsigned int rtype);

/* ---- conflicts ---- */

enum rdt_resv_role {
	RDT_RESV_NOT_REGISTRANT, /* not a registrant */
	RDT_RESV_REGISTRANT,
	RDT_RESV_HOLDER,
};

enum rdt_resv_group {
	RDT_RESV_FREE,   /* never conflicts here, like the reservation commands themselves */
	RDT_RESV_READS,  /* Read, Compare, Verify */
	RDT_RESV_WRITES, /* Write, Flush, Copy, Dataset Management, ... */
};

enum rdt_resv_group rdt_resv_group(uint8_t io_opcode);
bool rdt_resv_allows(unsigned int rtype, enum rdt_resv_role role, enum rdt_resv_group group);

/* Snapshot for reactors: immutable, exists only while a reservation is held. A host that is not in
 * it is not a registrant. */
struct rdt_resv_snap {
	uint8_t rtype;
	unsigned int count;
	struct rdt_resv_registrant {
		uint8_t host[RDT_RESV_HOST];
		uint8_t role;
	} registrants[]; /* sorted by Host Identifier */
};

/* Make a snapshot in @out, NULL if no reservation is held; the caller frees it with free(3).
 * Returns 0 or -ENOMEM. */
int rdt_resv_snap(const struct rdt_resv_state *s, struct rdt_resv_snap **out);
enum rdt_resv_role rdt_resv_snap_role(const struct rdt_resv_snap *snap, const uint8_t *host);

/* Write the data of Reservation Report with extended data structures, truncated to @len bytes of
 * @buf. */
void rdt_resv_report(const struct rdt_resv_state *s, void *buf, size_t len);

/* ---- resv_file.c: the state as JSON ---- */

/* @text: the caller frees it with free(3). Returns 0 or -ENOMEM. */
int rdt_resv_to_json(const struct rdt_resv_state *s, const uint8_t uuid[16], char **text);
/* @why: receives the reason as a sentence. Returns 0, -ENOMEM or -EINVAL. */
int rdt_resv_from_json(const char *text, size_t len, const uint8_t uuid[16],
		       struct rdt_resv_state *s, char *why, size_t why_size);

#endif /* RDT_RESERVATION_H */
