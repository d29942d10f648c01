/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe-oF names and codes as text, and the rules for NQNs. */
#ifndef RD_NVMF_TEXT_H
#define RD_NVMF_TEXT_H

#include <stddef.h>

#include "nvmf/wire.h"

/* Which command a status answers: what a command specific status means depends on it. */
struct nvme_cmd_kind {
	enum nvme_cmds {
		NVME_CMDS_UNKNOWN,
		NVME_CMDS_ADMIN,
		NVME_CMDS_IO,
		NVME_CMDS_FABRICS,
	} set;
	uint8_t opcode; /* the fabrics command type of a fabrics command */
};
#define NVME_CMD_UNKNOWN ((struct nvme_cmd_kind){NVME_CMDS_UNKNOWN, 0})
#define NVME_CMD_CONNECT ((struct nvme_cmd_kind){NVME_CMDS_FABRICS, nvme_fabrics_type_connect})

/* Of @sqe on an admin or an I/O queue. */
struct nvme_cmd_kind nvme_cmd_kind(bool admin, const struct nvme_sqe *sqe);

/*
 * "Invalid Namespace or Format (sct 0, sc 0x0b, DNR)". Both names, "A or B", when the command is
 * unknown and it matters. @buf of NVME_STATUS_TEXT bytes; returns it.
 */
#define NVME_STATUS_TEXT 128
const char *nvme_status_text(struct nvme_status st, struct nvme_cmd_kind of, char *buf);

/* The reason a target gave in its RDMA_CM reject, e.g. "invalid queue size (hsqsize)". Never NULL.
 */
const char *nvmf_rdma_cm_status_text(unsigned int sts);

/* "Read", "Identify", "Connect"... for logs. Never NULL. */
const char *nvme_admin_opcode_text(unsigned int opcode);
const char *nvme_io_opcode_text(unsigned int opcode);
const char *nvmf_fctype_text(unsigned int fctype);

/*
 * Check an NQN (NVMe Base 2.0, 4.5): 1 to 223 bytes of UTF-8, "nqn.yyyy-mm.reverse.domain[:name]".
 * Returns NULL when it is valid, else what is wrong with it, as text for people.
 */
const char *nvmf_nqn_error(const char *nqn);
/* The same of its length and characters alone: names of other forms are in use. */
const char *nvmf_nqn_unusable(const char *nqn);

#endif /* RD_NVMF_TEXT_H */
