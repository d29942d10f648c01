/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe-oF names and codes as text, and the rules for NQNs. */
#ifndef RD_NVMF_TEXT_H
#define RD_NVMF_TEXT_H

#include <stddef.h>

#include "nvmf/wire.h"

/* The kind of command that a status answers: it decides what a command specific status means. */
struct nvme_cmd_kind {
	enum nvme_cmds {
		NVME_CMDS_UNKNOWN,
		NVME_CMDS_ADMIN,
		NVME_CMDS_IO,
		NVME_CMDS_FABRICS,
	} set;
	uint8_t opcode; /* of a fabrics command: its fabrics command type */
};
#define NVME_CMD_UNKNOWN ((struct nvme_cmd_kind){NVME_CMDS_UNKNOWN, 0})
#define NVME_CMD_CONNECT ((struct nvme_cmd_kind){NVME_CMDS_FABRICS, nvme_fabrics_type_connect})

/* The kind of @sqe on an admin or an I/O queue. */
struct nvme_cmd_kind nvme_cmd_kind(bool admin, const struct nvme_sqe *sqe);

/*
 * Formats "Invalid Namespace or Format (sct 0, sc 0x0b, DNR)". If the kind of command is unknown
 * and matters, both names: "A or B". @buf: NVME_STATUS_TEXT bytes. Returns @buf.
 */
#define NVME_STATUS_TEXT 128
const char *nvme_status_text(struct nvme_status st, struct nvme_cmd_kind of, char *buf);

/* The reason in the RDMA_CM reject of a target, e.g. "invalid queue size (hsqsize)". Never NULL. */
const char *nvmf_rdma_cm_status_text(unsigned int sts);

/* "Read", "Identify", "Connect"... for logs. Never NULL. */
const char *nvme_cmd_text(bool admin, const struct nvme_sqe *sqe);

/*
 * Checks an NQN (NVMe Base 2.0, 4.5): 1 to 223 bytes of UTF-8, "nqn.yyyy-mm.reverse.domain[:name]".
 * Returns NULL if it is valid, else a text that says what is wrong.
 */
const char *nvmf_nqn_error(const char *nqn);
/* As nvmf_nqn_error(), for length and characters only: names of other forms are in use. */
const char *nvmf_nqn_unusable(const char *nqn);

#endif /* RD_NVMF_TEXT_H */
