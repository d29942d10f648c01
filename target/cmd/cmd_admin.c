/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of admin commands by opcode. */
#include "target/nvmf/request.h"
#include "admin.h"
#include "target/nvmf/events.h"

static enum rdt_exec keep_alive_exec(struct rdt_req *req)
{
	return RDT_EXEC_DONE; /* rdt_req_begin() has recorded its arrival, which is sufficient */
}

const struct rdt_cmd rdt_admin_cmds[256] = {
	[nvme_admin_get_log_page] = {.flags = RDT_CMD_DISC,
				     .effects = RDT_EFFECTS_CTRL | RDT_EFFECTS_SUBSYS,
				     .check = rdt_get_log_check,
				     .exec = rdt_get_log_exec},
	[nvme_admin_identify] = {.flags = RDT_CMD_DISC,
				 .effects = RDT_EFFECTS_NS | RDT_EFFECTS_CTRL | RDT_EFFECTS_SUBSYS,
				 .check = rdt_identify_check,
				 .exec = rdt_identify_exec},
	[nvme_admin_abort_cmd] = {.effects = RDT_EFFECTS_CTRL,
				  .check = rdt_abort_check,
				  .exec = rdt_abort_exec},
	/* WRITES, because a feature sets Namespace Write Protection. */
	[nvme_admin_set_features] = {.flags = RDT_CMD_DISC,
				     .effects = NVME_CMD_EFFECTS_NCC | RDT_EFFECTS_NS |
						RDT_EFFECTS_CTRL,
				     .check = rdt_set_features_check,
				     .exec = rdt_set_features_exec},
	[nvme_admin_get_features] = {.flags = RDT_CMD_DISC,
				     .effects = RDT_EFFECTS_NS | RDT_EFFECTS_CTRL,
				     .check = rdt_get_features_check,
				     .exec = rdt_get_features_exec},
	[nvme_admin_async_event] = {.flags = RDT_CMD_DISC,
				    .effects = RDT_EFFECTS_CTRL,
				    .check = rdt_aer_check,
				    .exec = rdt_aer_exec},
	[nvme_admin_get_lba_status] = {.effects = RDT_EFFECTS_NS,
				       .supported = rdt_lba_status_supported,
				       .check = rdt_lba_status_check,
				       .exec = rdt_lba_status_exec},
	[nvme_admin_keep_alive] = {.flags = RDT_CMD_DISC,
				   .effects = RDT_EFFECTS_CTRL,
				   .exec = keep_alive_exec},
};
