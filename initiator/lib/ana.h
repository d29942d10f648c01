/* SPDX-License-Identifier: BSD-3-Clause */
/* The ANA state of one namespace by one path, and what a status says about the path (Base 8.1). */
#ifndef RDI_ANA_H
#define RDI_ANA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvmf/wire.h"

/* Commands with a status that allows a retry are sent again this many times, as Linux does. */
#define RDI_RETRIES_MAX 5

struct rdi_ana {
	bool reported;     /* false: the controller has no ANA; the state stays optimized */
	uint8_t state;     /* enum nvme_ana_state */
	uint8_t anatt;     /* seconds that a transition may take */
	uint64_t changes;  /* change count of the log page that was read last */
	uint64_t deadline; /* ns, while the state is change: when the transition has failed */
};

/* @id: Identify Controller. */
void rdi_ana_init(struct rdi_ana *ana, const struct nvme_id_ctrl *id);
/* Bytes of the log page with its groups only (RGO); 0: the controller has no ANA. */
uint32_t rdi_ana_log_size(const struct nvme_id_ctrl *id);
/*
 * Take the state of @group from @len bytes of the log page. Returns 0, -ENOENT (the group is not
 * there) or -EPROTO (malformed); after an error the state is as before.
 */
int rdi_ana_update(struct rdi_ana *ana, const void *log, size_t len, uint32_t group, uint64_t now);
/* A command of the namespace got the path related status @st: what it says of the state, until the
 * log page has been read. */
void rdi_ana_answered(struct rdi_ana *ana, struct nvme_status st, uint64_t now);
/* Has a transition taken longer than ANATT? The path is then to be treated as failed. */
bool rdi_ana_expired(const struct rdi_ana *ana, uint64_t now);
/* "optimized". Never NULL. */
const char *rdi_ana_state_name(uint8_t state);

/* What is to be done with a command that was completed with a status. */
enum rdi_verdict {
	RDI_COMPLETE,   /* the caller gets the status */
	RDI_OTHER_PATH, /* send it by another path, and read the ANA log page */
	RDI_SAME_PATH,  /* send it again by this path, after rdi_retry_delay_ns() */
};

/* @retries: how often the command has been sent again by RDI_SAME_PATH. */
enum rdi_verdict rdi_status_verdict(struct nvme_status st, unsigned int retries);
/* The Command Retry Delay (Base 3.3.3.2.2) that @st asks for. */
uint64_t rdi_retry_delay_ns(struct nvme_status st, const struct nvme_id_ctrl *id);

#endif /* RDI_ANA_H */
