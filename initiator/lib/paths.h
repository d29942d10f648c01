/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several paths to a namespace: its ANA state on each, and how a completion status changes it (Base
 * 8.1); which path a command takes; whether two paths lead to the same namespace.
 */
#ifndef RDI_PATHS_H
#define RDI_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvmf/wire.h"

/* ---- ANA ---- */

/* Limit of retries for a command whose status allows a retry; the same as in Linux. */
#define RDI_RETRIES_MAX 5

struct rdi_ana {
	bool reported;     /* false: the controller has no ANA; the state stays optimized */
	uint8_t state;     /* enum nvme_ana_state */
	uint8_t anatt;     /* seconds that a transition may take */
	uint64_t changes;  /* change count of the most recently read log page */
	uint64_t deadline; /* ns; in state CHANGE: when the transition counts as failed */
};

/* @id: Identify Controller. */
void rdi_ana_init(struct rdi_ana *ana, const struct nvme_id_ctrl *id);
/* Size in bytes of the log page with groups only (RGO); 0: the controller has no ANA. */
uint32_t rdi_ana_log_size(const struct nvme_id_ctrl *id);
/*
 * Takes the state of @group from @len bytes of the log page. Returns 0, -ENOENT (the log page does
 * not list the group) or -EPROTO (malformed); after an error the state is unchanged.
 */
int rdi_ana_update(struct rdi_ana *ana, const void *log, size_t len, uint32_t group, uint64_t now);
/* A command of the namespace completed with the path related status @st: sets the state that @st
 * implies, which is valid until the log page is read. */
void rdi_ana_answered(struct rdi_ana *ana, struct nvme_status st, uint64_t now);
/* Whether a transition has taken longer than ANATT. The caller then treats the path as failed. */
bool rdi_ana_expired(const struct rdi_ana *ana, uint64_t now);
/* A name such as "optimized". Never NULL. */
const char *rdi_ana_state_name(uint8_t state);

/* How to continue after a command completed with a status. */
enum rdi_verdict {
	RDI_COMPLETE,   /* report the status to the caller */
	RDI_OTHER_PATH, /* send the command by another path, and read the ANA log page */
	RDI_SAME_PATH,  /* send the command by the same path again, after rdi_retry_delay_ns() */
};

/* @retries: how often the command was sent again because of RDI_SAME_PATH. */
enum rdi_verdict rdi_status_verdict(struct nvme_status st, unsigned int retries);
/* Whether a command with this status was certainly not executed: the ANA statuses. */
bool rdi_status_unexecuted(struct nvme_status st);
/* The Command Retry Delay (Base 3.3.3.2.2) that @st asks for. */
uint64_t rdi_retry_delay_ns(struct nvme_status st, const struct nvme_id_ctrl *id);

/* ---- selection ---- */

enum rdi_policy {
	RDI_POLICY_ROUND_ROBIN, /* the next path after the last one */
	RDI_POLICY_QUEUE_DEPTH, /* the path with the fewest commands in flight */
	RDI_POLICY_FAILOVER,    /* the last path, until a better one is usable */
};

/* The properties of a path that the choice depends on. */
struct rdi_path_view {
	bool live;   /* its connections are up */
	uint8_t ana; /* enum nvme_ana_state of the namespace */
	unsigned int inflight;
	bool silent; /* it has answered no command lately */
};

/*
 * Chooses among @n paths: those that answer before those that are silent, then optimized before
 * non-optimized; paths in other ANA states are not used.
 * @last: the previous result, or -1. Returns the index, or -1 when no path can be used.
 */
int rdi_path_choose(enum rdi_policy policy, const struct rdi_path_view *paths, unsigned int n,
		    int last);

/* The identifiers of a namespace; all zeroes: absent. */
struct rdi_ns_identity {
	uint8_t nguid[16];
	uint8_t uuid[16];
	uint8_t eui64[8];
	const char *subnqn;
	uint32_t nsid;
};

/* Takes the identifiers from @len bytes of a Namespace Identification Descriptor list (CNS 03h).
 * Returns 0 or -EPROTO. */
int rdi_identity_take(struct rdi_ns_identity *id, const void *descs, size_t len);

enum rdi_identity_match {
	RDI_IDENTITY_SAME,
	/* same NQN and NSID without identifiers to compare; worth a warning */
	RDI_IDENTITY_ASSUMED,
	RDI_IDENTITY_DIFFERENT,
};

enum rdi_identity_match rdi_identity_match(const struct rdi_ns_identity *a,
					   const struct rdi_ns_identity *b);

#endif /* RDI_PATHS_H */
